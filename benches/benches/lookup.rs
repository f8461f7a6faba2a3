//! Reading a store of 100,000 tiny objects: one key, a key that is not there, an index bucket of 500 objects, and a scan
//! of everything with a label selector. Keys go round in an order that no cache foresees.

use criterion::Throughput;
use informer_benches::Widget;
use informer_core::selector::LabelSelector;
use informer_core::store::{IndexDef, Store};
use informer_core::{Key, Object};
use std::hint::black_box;

const OBJECTS: u64 = 100_000;
/// Shares no factor with the number of objects: multiples of it visit every object in a scattered order.
const STRIDE: u64 = 54_321;

fn main() {
    let mut c = informer_benches::criterion();
    let mut store = Store::<Widget>::new(7);
    store.add_index(IndexDef::namespace()).expect("the name is free");
    for n in 0..OBJECTS {
        store.upsert(Widget::object(n, 1));
    }
    let keys: Vec<Key> = (0..OBJECTS).map(|n| Widget::key(n * STRIDE % OBJECTS)).collect();
    let missing: Vec<Key> = (0..OBJECTS).map(|n| Widget::key(OBJECTS + n)).collect();

    let mut group = c.benchmark_group("lookup/100,000 widgets");
    let mut next = keys.iter().cycle();
    group.bench_function("get", |b| {
        b.iter(|| store.get(next.next().expect("it goes round").as_str()).expect("every key is there").size());
    });
    let mut next = missing.iter().cycle();
    group.bench_function("get a missing key", |b| {
        b.iter(|| assert!(store.get(next.next().expect("it goes round").as_str()).is_none()));
    });

    group.throughput(Throughput::Elements(OBJECTS / Widget::NAMESPACES));
    let namespaces: Vec<String> = (0..Widget::NAMESPACES).map(|n| format!("team-{n:03}")).collect();
    let mut next = namespaces.iter().cycle();
    group.bench_function("by_index, 500 objects counted", |b| {
        b.iter(|| {
            let found = store.by_index("namespace", next.next().expect("it goes round")).expect("the index is there");
            assert_eq!(black_box(found).count() as u64, OBJECTS / Widget::NAMESPACES);
        });
    });
    let mut next = namespaces.iter().cycle();
    group.bench_function("by_index, 500 objects read", |b| {
        b.iter(|| {
            let found = store.by_index("namespace", next.next().expect("it goes round")).expect("the index is there");
            found.map(|widget| widget.size()).sum::<u64>()
        });
    });

    group.throughput(Throughput::Elements(OBJECTS));
    group.bench_function("every object read", |b| b.iter(|| store.iter().map(|widget| widget.size()).sum::<u64>()));
    let selector: LabelSelector = "app=app-7,tier in (tier-1, tier-3)".parse().expect("the selector is well-formed");
    group.bench_function("label selector over every object", |b| {
        b.iter(|| {
            let found = store.iter().filter(|widget| selector.matches(widget.metadata())).count();
            assert_eq!(found as u64, OBJECTS / 100);
        });
    });
    group.bench_function("snapshot taken and dropped", |b| b.iter(|| store.snapshot().len()));
    group.finish();
    c.final_summary();
}
