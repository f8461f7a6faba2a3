//! A list of 10,000 objects that a store has already: nothing changed, or one object in a hundred. Unchanged objects
//! are recognised by uid and version and not built, so this is the cost of finding that out. Throughput is in objects.
//!
//! `scan` beside it reads the same body into raw items and does nothing with them: the floor.

use criterion::{Criterion, Throughput};
use informer_benches::{Bench, CHUNK, Pod, Sample, Widget, list_body, slow};
use informer_core::listener::Overflow;
use informer_core::store::IndexDef;
use informer_core::wire::{Limits, ListDecoder, RawBatch};
use std::hint::black_box;

const OBJECTS: u64 = 10_000;

fn relists<T: Sample>(c: &mut Criterion, name: &str, is_slow: bool) {
    let bodies = [1, 2].map(|version| list_body::<T>(0..OBJECTS, |n| if n % 100 == 0 { version } else { 1 }));
    let mut group = c.benchmark_group(format!("relist/10,000 {name}"));
    if is_slow {
        slow(&mut group);
    }
    group.throughput(Throughput::Elements(OBJECTS));
    group.bench_function("scan", |b| {
        b.iter(|| {
            let mut list = ListDecoder::new(Limits::default());
            let mut batch = RawBatch::new();
            for chunk in bodies[0].chunks(CHUNK) {
                list.feed(chunk, &mut batch).expect("the body is a list");
                black_box(&batch);
                batch.clear();
            }
            list.finish().expect("the list is complete")
        });
    });

    let mut bench = Bench::<T>::new(1, Overflow::default());
    bench.index(IndexDef::namespace());
    bench.sync(&bodies[0]);
    bench.drain();
    group.bench_function("unchanged", |b| {
        b.iter(|| {
            bench.relist(&bodies[0]);
            assert_eq!(bench.drain(), 0);
        });
    });
    let mut next = bodies.iter().cycle().skip(1);
    group.bench_function("1 in 100 changed", |b| {
        b.iter(|| {
            bench.relist(next.next().expect("it goes round"));
            assert_eq!(bench.drain() as u64, OBJECTS / 100);
        });
        // The next call of this closure begins where the first one did.
        bench.relist(&bodies[0]);
        bench.drain();
        next = bodies.iter().cycle().skip(1);
    });
    group.finish();
}

fn main() {
    let mut c = informer_benches::criterion();
    relists::<Pod>(&mut c, "pods", true);
    relists::<Widget>(&mut c, "widgets", false);
    c.final_summary();
}
