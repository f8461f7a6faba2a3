//! One MODIFIED event, from the bytes of its frame to the hands of 0, 1, 10 or 100 handlers: the cost of the steady
//! state. The store holds 10,000 objects, and the events go round among 1,000 of them.
//!
//! `burst of 64` is the same with 64 frames in one piece, per event: what a busy watch costs, where a driver reads more
//! than one frame at a time.

use criterion::{Criterion, Throughput};
use informer_benches::{Bench, Sample, frames, list_body};
use informer_benches::{Pod, Widget};
use informer_core::listener::Overflow;
use informer_core::store::IndexDef;

const OBJECTS: u64 = 10_000;
const CHANGING: u64 = 1_000;
const BURST: u64 = 64;

fn synced<T: Sample>(body: &[u8], handlers: u64) -> Bench<T> {
    let mut bench = Bench::<T>::new(handlers, Overflow::default());
    bench.index(IndexDef::namespace());
    bench.sync(body);
    bench.drain();
    bench.open_watch();
    bench
}

fn events<T: Sample>(c: &mut Criterion, name: &str) {
    let body = list_body::<T>(0..OBJECTS, |_| 1);
    let one_by_one: Vec<_> = (0..CHANGING).map(|n| frames::<T>("MODIFIED", n..n + 1, |_| 2)).collect();
    let bursts: Vec<_> =
        (0..CHANGING / BURST).map(|n| frames::<T>("MODIFIED", n * BURST..(n + 1) * BURST, |_| 2)).collect();
    let mut group = c.benchmark_group(format!("steady/{name}"));
    group.throughput(Throughput::Elements(1));
    for handlers in [0, 1, 10, 100] {
        let mut bench = synced::<T>(&body, handlers);
        let mut next = one_by_one.iter().cycle();
        group.bench_function(format!("{handlers} handlers"), |b| {
            b.iter(|| {
                bench.event(next.next().expect("it goes round"));
                assert_eq!(bench.drain() as u64, handlers);
            });
        });
    }
    group.throughput(Throughput::Elements(BURST));
    let mut bench = synced::<T>(&body, 1);
    let mut next = bursts.iter().cycle();
    group.bench_function("1 handler, burst of 64", |b| {
        b.iter(|| {
            bench.event(next.next().expect("it goes round"));
            assert_eq!(bench.drain() as u64, BURST);
        });
    });
    group.finish();
}

fn main() {
    let mut c = informer_benches::criterion();
    events::<Widget>(&mut c, "widget");
    events::<Pod>(&mut c, "pod");
    c.final_summary();
}
