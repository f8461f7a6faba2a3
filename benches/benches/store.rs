//! Changing a store of 100,000 tiny objects by hand: an update of an object that is there, with 0, 1 and 3 indexes whose
//! values stay; the same where every value moves; an object that comes and goes; and the price of a reader that holds a
//! snapshot meanwhile. Index functions are part of `upsert`, and of these numbers.

use informer_benches::{Sample, Widget};
use informer_core::object::Meta;
use informer_core::store::{IndexDef, Store};
use informer_core::{Obj, Object};

const OBJECTS: u64 = 100_000;
/// Shares no factor with the number of objects: multiples of it visit every object in a scattered order.
const STRIDE: u64 = 54_321;

/// Object `n` with the labels of its neighbour, and so in other buckets.
fn relabelled(n: u64, version: u64) -> Obj<Widget> {
    let object = Widget::object(n, version);
    let (key, uid, version) = (object.key().clone(), object.uid().clone(), object.version().clone());
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

fn main() {
    let mut c = informer_benches::criterion();
    let scattered = || (0..OBJECTS).map(|n| n * STRIDE % OBJECTS);
    let before: Vec<_> = scattered().map(|n| Widget::object(n, 1)).collect();
    let after: Vec<_> = scattered().map(|n| Widget::object(n, 2)).collect();
    let moved: Vec<_> = scattered().map(|n| relabelled(n, 2)).collect();

    let mut group = c.benchmark_group("store/100,000 widgets");
    for indexes in [0, 1, 3] {
        let mut store = store(&before, indexes);
        let mut next = after.iter().chain(&before).cycle();
        group.bench_function(format!("upsert, {indexes} indexes"), |b| {
            b.iter(|| store.upsert(next.next().expect("it goes round").clone()).expect("the object was there"));
        });
    }
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
    c.final_summary();
}
