//! Reading a store of tiny objects: one key, a key that is not there, an index bucket, a namespace and a label selector
//! as a runtime answers them (handles cloned under a lock), a scan of everything, pages. Keys go round in an order that no
//! cache foresees.

use criterion::{Criterion, Throughput};
use informer_benches::{Sample, Widget};
use informer_core::lister::{ListId, Lister, View};
use informer_core::selector::LabelSelector;
use informer_core::store::{IndexDef, Store};
use informer_core::{Key, Obj, Object};
use std::hint::black_box;
use std::sync::RwLock;

const OBJECTS: u64 = 100_000;
/// Shares no factor with the number of objects: multiples of it visit every object in a scattered order.
const STRIDE: u64 = 54_321;

/// Objects of one namespace, at every size of the store.
const IN_NAMESPACE: u64 = 500;

fn main() {
    let mut c = informer_benches::criterion();
    of_100_000(&mut c);
    for size in [1_000, 100_000, 1_000_000] {
        of_any_size(&mut c, size);
    }
    c.final_summary();
}

fn of_100_000(c: &mut Criterion) {
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
    let list = ListId::new("widgets", "", &LabelSelector::everything());
    group.bench_function("every object sorted, and cut into pages of 500", |b| {
        b.iter(|| {
            let objects = Lister::new(&store).select_namespace("").detach().into_objects().into_vec();
            View::new(list, 1, store.version().to_version(), objects).pages(500).count()
        });
    });
    group.finish();
}

/// Widget `n`, in namespaces of 500 that follow each other, as a list gives them, and with a label that every
/// `parts`-th one has.
fn object(n: u64, parts: u64) -> Obj<Widget> {
    let (object, namespace) = (Widget::object(n, 1), format!("team-{:04}", n / IN_NAMESPACE));
    let widget = Widget::sample(n, 1).with_label("part", &(n % parts).to_string());
    Obj::new(Key::new(&namespace, object.key().name()), object.uid(), object.version(), widget)
}

fn of_any_size(c: &mut Criterion, size: u64) {
    let namespaces = size / IN_NAMESPACE;
    // One in twelve of 100,000, as the figures of others have it; as many of a million.
    let parts = if size > OBJECTS { 12 * size / OBJECTS } else { 12 };
    let mut store = Store::<Widget>::new(7);
    for n in 0..size {
        store.upsert(object(n, parts));
    }
    let bare = RwLock::new(store.clone());
    for def in [IndexDef::namespace(), IndexDef::label("part")] {
        store.add_index(def).expect("the names differ");
    }
    let store = RwLock::new(store);
    let read = |store: &RwLock<Store<Widget>>, namespace: &str, selector: &LabelSelector| {
        let found = {
            let store = store.read().expect("nobody panicked");
            Lister::new(&store).select(namespace, selector).detach()
        };
        found.into_objects().len() as u64
    };

    let mut group = c.benchmark_group(format!("lookup/{size} objects"));
    let names: Vec<String> = (0..namespaces).map(|n| format!("team-{:04}", n * 7 % namespaces)).collect();
    let (mut next, everything) = (names.iter().cycle(), LabelSelector::everything());
    group.bench_function("list of a namespace of 500", |b| {
        b.iter(|| assert_eq!(read(&store, next.next().expect("it goes round"), &everything), IN_NAMESPACE));
    });
    let selectors: Vec<LabelSelector> =
        (0..parts).map(|n| format!("part={n}").parse().expect("it is well-formed")).collect();
    let hits = size / parts;
    let mut next = selectors.iter().cycle();
    group.bench_function(format!("label selector, {hits} hits, indexed"), |b| {
        b.iter(|| assert!(read(&store, "", next.next().expect("it goes round")).abs_diff(hits) <= 1));
    });
    let (mut next, mut name) = (selectors.iter().cycle(), names.iter().cycle());
    group.bench_function("label selector in a namespace, both indexed", |b| {
        b.iter(|| {
            let (selector, name) = (next.next().expect("it goes round"), name.next().expect("it goes round"));
            assert!(read(&store, name, selector) <= IN_NAMESPACE);
        });
    });
    let mut next = selectors.iter().cycle();
    group.bench_function(format!("label selector, {hits} hits, no index"), |b| {
        b.iter(|| assert!(read(&bare, "", next.next().expect("it goes round")).abs_diff(hits) <= 1));
    });
    group.finish();
}
