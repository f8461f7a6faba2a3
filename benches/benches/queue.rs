//! The work queue: `add`, `get` and `done` of one key, alone and with 100,000 others waiting; delays among 100,000
//! others; a failure with backoff. Keys are those of objects, `namespace/name`.

use criterion::{BatchSize, Criterion, Throughput};
use informer_core::Key;
use informer_core::queue::{Bucket, Limiter, QueueConfig, WorkQueue};
use informer_core::rng::Rng;
use informer_core::time::{Duration, Time};

const WAITING: usize = 100_000;
const MORE: usize = 10_000;

fn keys(from: usize, count: usize) -> Vec<Key> {
    (from..from + count).map(|n| Key::new(&format!("team-{:03}", n % 200), &format!("widget-{n:06}"))).collect()
}

/// A queue in which each of `keys` waits for some time of up to an hour.
fn delayed(keys: &[Key], rng: &mut Rng) -> WorkQueue<Key> {
    let mut queue = WorkQueue::new(QueueConfig::new(7));
    for key in keys {
        queue.add_after(Time::ZERO, key.clone(), delay(rng));
    }
    queue
}

fn delay(rng: &mut Rng) -> Duration {
    Duration::from_millis(1) + rng.span(Duration::from_secs(3_600))
}

fn ready(c: &mut Criterion) {
    let others = keys(0, WAITING);
    let few = keys(WAITING, 1_000);
    let mut group = c.benchmark_group("queue/ready");
    group.throughput(Throughput::Elements(1));
    for (name, waiting) in [("add, get, done; empty", 0), ("add, get, done; 100,000 wait", WAITING)] {
        let mut queue = WorkQueue::new(QueueConfig::new(7));
        for key in &others[..waiting] {
            queue.add(Time::ZERO, key.clone());
        }
        // The key that is done is the next one to be added: the number of keys that wait stays the same.
        let mut next = few.iter().cloned().cycle();
        let mut key = next.next().expect("it goes round");
        group.bench_function(name, |b| {
            b.iter(|| {
                queue.add(Time::ZERO, key.clone());
                let (got, ticket) = queue.get(Time::ZERO).expect("one was just added");
                queue.done(Time::ZERO, ticket);
                key = if waiting == 0 { next.next().expect("it goes round") } else { got };
            });
        });
        assert_eq!(queue.len(), waiting);
    }
    let mut queue = WorkQueue::new(QueueConfig::new(7));
    others.iter().for_each(|key| {
        queue.add(Time::ZERO, key.clone());
    });
    let mut next = others.iter().rev().cycle();
    group.bench_function("add of a key that waits already", |b| {
        b.iter(|| queue.add(Time::ZERO, next.next().expect("it goes round").clone()));
    });
    assert_eq!(queue.len(), WAITING);
    group.finish();
}

fn delays(c: &mut Criterion) {
    let (others, more) = (keys(0, WAITING), keys(WAITING, MORE));
    let mut rng = Rng::new(7);
    let mut group = c.benchmark_group("queue/100,000 delayed");
    group.throughput(Throughput::Elements(MORE as u64));
    group.sample_size(10);
    group.bench_function("add_after of 10,000 more", |b| {
        b.iter_batched(
            || {
                (
                    delayed(&others, &mut Rng::new(7)),
                    more.clone().into_iter().map(|key| (key, delay(&mut rng))).collect(),
                )
            },
            |(mut queue, more): (_, Vec<_>)| {
                for (key, delay) in more {
                    queue.add_after(Time::ZERO, key, delay);
                }
                queue
            },
            BatchSize::PerIteration,
        );
    });
    group.throughput(Throughput::Elements(1));
    let mut queue = delayed(&others, &mut rng);
    group.bench_function("one fires, get, done, add_after", |b| {
        b.iter(|| {
            let now = queue.next_deadline().expect("keys are delayed").at;
            let (key, ticket) = queue.get(now).expect("one is due");
            queue.done(now, ticket);
            queue.add_after(now, key, delay(&mut rng));
        });
    });
    group.finish();
}

fn failures(c: &mut Criterion) {
    let few = keys(0, 1_000);
    let plain = Limiter::default();
    let bucket = plain.clone().with_bucket(Bucket::per_second(1_000_000.0, 100));
    let mut group = c.benchmark_group("queue/failure");
    for (name, limiter) in [("backoff", plain), ("backoff and a bucket", bucket)] {
        let mut queue = WorkQueue::new(QueueConfig::new(7).limiter(limiter));
        let mut now = Time::ZERO;
        let mut next = few.iter().cycle();
        group.bench_function(format!("add_rate_limited, fires, get, forget, done; {name}"), |b| {
            b.iter(|| {
                queue.add_rate_limited(now, next.next().expect("it goes round").clone());
                now = queue.next_deadline().expect("a key is delayed").at;
                let (key, ticket) = queue.get(now).expect("it is due");
                queue.forget(&key);
                queue.done(now, ticket);
            });
        });
        assert_eq!(queue.tracked(), 0);
    }
    group.finish();
}

fn main() {
    let mut c = informer_benches::criterion();
    ready(&mut c);
    delays(&mut c);
    failures(&mut c);
    c.final_summary();
}
