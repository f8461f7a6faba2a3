//! A batch to many rings, walked by the handler of each: the price per delivery, and what a handler costs that sleeps
//! while its ring merges.

use criterion::{BatchSize, Throughput};
use informer_benches::{Widget, walk};
use informer_core::Obj;
use informer_core::listener::{Batches, Cause, DEFAULT_LIMIT, Notification, Overflow, Ring};

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

    // As a driver does it: published once, pushed to each ring, walked by each handler, and taken back.
    let mut group = c.benchmark_group("fanout/a batch walked");
    for (count, many) in [1, 10, 100].into_iter().flat_map(|count| [(count, 1), (count, 64)]) {
        let mut rings: Vec<Ring<Widget>> = (0..count).map(|_| Ring::new(Overflow::default())).collect();
        let (mut batches, mut memory) = (Batches::new(), Vec::new());
        let mut next = up.iter().chain(&down).cycle();
        group.throughput(Throughput::Elements(count * many));
        group.bench_function(format!("{many} to {count} rings"), |b| {
            b.iter(|| {
                memory.extend(next.by_ref().take(many as usize).cloned());
                let batch = batches.publish(&mut memory).expect("there is something to tell");
                rings.iter_mut().for_each(|ring| ring.push_batch(&batch));
                drop(batch);
                let told: usize = rings.iter_mut().map(walk).sum();
                assert_eq!(told as u64, count * many);
                batches.reclaim(many as usize, |told| told.for_each(drop));
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
    // The first one is as good as running, and nothing is merged into it.
    assert!(ring.stats().merged > 0 && ring.len() as u64 == KEYS + 1, "every key has one entry: {}", ring.len());

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
