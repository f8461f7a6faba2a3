//! Changing a store of tiny objects by hand: an update of an object that is there, with 0, 1 and 3 indexes whose values
//! stay, in stores of a thousand to a million; the same where every value moves; an object that comes and goes; the price
//! of a reader that holds a snapshot meanwhile; and a value that moves out of a bucket of a thousand and of a million
//! objects. Index functions are part of `upsert`, and of these numbers.

use criterion::Criterion;
use informer_benches::{Sample, Widget};
use informer_core::object::Meta;
use informer_core::store::{IndexDef, Store};
use informer_core::{Key, Obj, Object, Uid, Version};

const OBJECTS: u64 = 100_000;
const MILLION: u64 = 1_000_000;
/// Shares no factor with the numbers of objects: multiples of it visit every object in a scattered order.
const STRIDE: u64 = 54_321;

/// Object `n` with the labels of its neighbour, and so in other buckets.
fn relabelled(n: u64, version: u64) -> Obj<Widget> {
    let object = Widget::object(n, version);
    let (key, uid, version) = (object.key(), object.uid(), object.version());
    Obj::new(key, uid, version, Widget::sample(n + 1, 2))
}

fn store(objects: &[Obj<Widget>], indexes: usize) -> Store<Widget> {
    let label = |name: &'static str| {
        IndexDef::new(name, move |widget: &Obj<Widget>| widget.metadata().label(name).map(String::from))
    };
    let mut store = Store::new(7);
    for def in [IndexDef::namespace(), label("app"), label("tier")].into_iter().take(indexes) {
        store.add_index(def).expect("the names differ");
    }
    for object in objects {
        store.upsert(object.clone());
    }
    store
}

fn scattered(size: u64) -> impl Iterator<Item = u64> {
    (0..size).map(move |n| n * STRIDE % size)
}

fn main() {
    let mut c = informer_benches::criterion();
    values_stay(&mut c, 1_000);
    of_100_000(&mut c);
    values_stay(&mut c, MILLION);
    buckets(&mut c);
    c.final_summary();
}

fn values_stay(c: &mut Criterion, size: u64) {
    let before: Vec<_> = scattered(size).map(|n| Widget::object(n, 1)).collect();
    // Of a million, every tenth: they are as scattered.
    let changed = size.min(OBJECTS) as usize;
    let after: Vec<_> = scattered(size).take(changed).map(|n| Widget::object(n, 2)).collect();
    let mut group = c.benchmark_group(format!("store/{size} widgets"));
    for indexes in [0, 1, 3] {
        let mut store = store(&before, indexes);
        let mut next = after.iter().chain(&before[..changed]).cycle();
        group.bench_function(format!("upsert, {indexes} indexes"), |b| {
            b.iter(|| store.upsert(next.next().expect("it goes round").clone()).expect("the object was there"));
        });
    }
    group.finish();
}

fn of_100_000(c: &mut Criterion) {
    let before: Vec<_> = scattered(OBJECTS).map(|n| Widget::object(n, 1)).collect();
    let moved: Vec<_> = scattered(OBJECTS).map(|n| relabelled(n, 2)).collect();
    values_stay(c, OBJECTS);

    let mut group = c.benchmark_group(format!("store/{OBJECTS} widgets"));
    let mut changing = store(&before, 3);
    let mut next = moved.iter().chain(&before).cycle();
    group.bench_function("upsert, 3 indexes, two values move", |b| {
        b.iter(|| changing.upsert(next.next().expect("it goes round").clone()).expect("the object was there"));
    });
    let newcomer = Widget::object(OBJECTS, 1);
    group.bench_function("upsert and remove, 3 indexes", |b| {
        b.iter(|| {
            assert!(changing.upsert(newcomer.clone()).is_none());
            changing.remove(newcomer.key().as_str()).expect("it was just put in")
        });
    });
    let mut next = moved.iter().chain(&before).cycle();
    group.bench_function("snapshot, and an upsert that copies its chunk", |b| {
        b.iter(|| {
            let snapshot = changing.snapshot();
            let old = changing.upsert(next.next().expect("it goes round").clone());
            (old.expect("the object was there"), snapshot.len())
        });
    });
    group.finish();
}

/// A million objects: one of them leaves its bucket for another one, and comes back.
fn buckets(c: &mut Criterion) {
    let object = |n: u64, value: u64| Obj::new(Key::new("", &n.to_string()), Uid::new(""), Version::new("1"), value);
    let mut group = c.benchmark_group("store/1000000 numbers");
    for bucket in [1_000, MILLION] {
        let mut store = Store::new(7);
        store.add_index(IndexDef::new("number", |object: &Obj<u64>| **object)).expect("the name is free");
        for n in 0..MILLION {
            store.upsert(object(n, n % (MILLION / bucket)));
        }
        // The same thousand objects for both, so that what else an update costs is the same and in the caches.
        let some = || (0..1_000).map(|n| n * STRIDE % MILLION);
        let away: Vec<_> = some().map(|n| object(n, MILLION + n % (MILLION / bucket))).collect();
        let back: Vec<_> = some().map(|n| object(n, n % (MILLION / bucket))).collect();
        let mut next = away.iter().chain(&back).cycle();
        group.bench_function(format!("upsert, the value leaves a bucket of {bucket}, or comes back"), |b| {
            b.iter(|| store.upsert(next.next().expect("it goes round").clone()).expect("the object was there"));
        });
    }
    group.finish();
}
