//! One notification to many rings, and out of them again: the price per delivery, and what a handler costs that sleeps
//! while its ring merges.

use criterion::{BatchSize, Throughput};
use informer_benches::Widget;
use informer_core::Obj;
use informer_core::listener::{Cause, DEFAULT_LIMIT, Notification, Overflow, Ring};

const KEYS: u64 = 10_000;

/// An update of each key.
fn updates(before: &[Obj<Widget>], after: &[Obj<Widget>]) -> Vec<Notification<Widget>> {
    let update = |(old, new): (&Obj<Widget>, &Obj<Widget>)| Notification::Updated {
        old: old.clone(),
        new: new.clone(),
        cause: Cause::Watch,
    };
    before.iter().zip(after).map(update).collect()
}

fn objects(version: u64) -> Vec<Obj<Widget>> {
    (0..KEYS).map(|n| Widget::object(n, version)).collect()
}

fn main() {
    let mut c = informer_benches::criterion();
    let (first, second) = (objects(1), objects(2));
    let (up, down) = (updates(&first, &second), updates(&second, &first));

    let mut group = c.benchmark_group("fanout/push and pop");
    for count in [1, 10, 100] {
        let mut rings: Vec<Ring<Widget>> = (0..count).map(|_| Ring::new(Overflow::default())).collect();
        let mut next = up.iter().chain(&down).cycle();
        group.throughput(Throughput::Elements(count));
        group.bench_function(format!("{count} rings"), |b| {
            b.iter(|| {
                let notification = next.next().expect("it goes round");
                for ring in &mut rings {
                    ring.push(notification.clone());
                }
                for ring in &mut rings {
                    drop(ring.pop().expect("it was just pushed"));
                }
            });
        });
    }
    group.finish();

    let mut group = c.benchmark_group("fanout/a handler that sleeps");
    group.throughput(Throughput::Elements(1));
    let mut ring = Ring::new(Overflow::default());
    up.iter().for_each(|update| ring.push(update.clone()));
    let mut next = down.iter().chain(&up).cycle();
    group.bench_function("push, merged into one of 10,000 keys", |b| {
        b.iter(|| ring.push(next.next().expect("it goes round").clone()));
    });
    assert!(ring.stats().merged > 0 && ring.len() as u64 == KEYS, "every key has one entry: {}", ring.len());

    group.throughput(Throughput::Elements(KEYS));
    let asleep = || {
        let mut ring = Ring::new(Overflow::default());
        up.iter().for_each(|update| ring.push(update.clone()));
        ring
    };
    group.bench_function("10,000 keys pushed beyond the limit", |b| {
        b.iter_batched(|| (), |()| asleep(), BatchSize::PerIteration);
    });
    group.bench_function("10,000 merged keys popped", |b| {
        b.iter_batched(
            asleep,
            |mut ring| {
                let popped = std::iter::from_fn(|| ring.pop()).count();
                assert_eq!(popped as u64, KEYS);
                ring
            },
            BatchSize::PerIteration,
        );
    });
    group.throughput(Throughput::Elements(1));
    group.bench_function("begin to merge a full ring, and pop one", |b| {
        b.iter_batched(
            || {
                let mut ring = Ring::new(Overflow::default());
                up.iter().take(DEFAULT_LIMIT).for_each(|update| ring.push(update.clone()));
                ring
            },
            |mut ring| {
                ring.push(up[DEFAULT_LIMIT].clone());
                ring.pop();
                ring
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
    c.final_summary();
}
