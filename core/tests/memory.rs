//! What a store costs in memory, counted at the allocator: at most 64 bytes per object beside its value and the text of
//! its key, uid and version included; and for each value of an index at most eight more, where a hundred objects or more
//! share it.

use allocation_counter::measure;
use informer_core::store::{IndexDef, Store};
use informer_core::{Key, Obj, Uid, Version};

const OBJECTS: u32 = 100_000;

/// An object is the number that its index function reads.
type Numbered = Obj<u32>;

fn object(n: u32, namespace: u32, number: u32) -> Numbered {
    Obj::new(Key::new(&format!("ns-{namespace:03}"), &format!("o-{n:06}")), Uid::new("u"), Version::new("1"), number)
}

/// Where in its store an object lies beside those that share its value.
#[derive(Clone, Copy, Debug)]
enum Order {
    /// Neighbours: as a list gives them, for a value that follows the name.
    Sorted,
    /// As far apart as can be.
    Scattered,
}

impl Order {
    fn value(self, n: u32, values: u32) -> u32 {
        match self {
            Order::Sorted => n / OBJECTS.div_ceil(values),
            Order::Scattered => n % values,
        }
    }
}

fn number() -> IndexDef<u32> {
    IndexDef::new("number", |object: &Numbered| format!("value-{}", **object))
}

/// A store after all `versions` of its objects went in, one after the other, and the bytes that it holds.
fn store(index: Option<IndexDef<u32>>, versions: &[Vec<Numbered>]) -> (Store<u32>, i64) {
    let mut kept = None;
    let counted = measure(|| {
        let mut store = Store::new(7);
        if let Some(index) = index {
            store.add_index(index).unwrap();
        }
        for object in versions.iter().flatten() {
            store.upsert(object.clone());
        }
        kept = Some(store);
    });
    let store = kept.unwrap();
    assert_eq!(store.len(), OBJECTS as usize);
    (store, counted.bytes_current)
}

/// Bytes per value that `index` adds, beside the texts of its values.
fn cost(index: IndexDef<u32>, versions: &[Vec<Numbered>]) -> f64 {
    let name = index.name().to_string();
    let (_, without) = store(None, versions);
    let (store, with) = store(Some(index), versions);
    let texts: Vec<usize> = store.index_values(&name).unwrap().map(|(text, _)| text.len()).collect();
    let bytes = with - without - texts.iter().sum::<usize>() as i64;
    let per_value = bytes as f64 / f64::from(OBJECTS);
    println!("{name}, {} values: {per_value:.2} bytes per value", texts.len());
    per_value
}

/// An object as an API server sends it: a UUID, a decimal version, a name of any length.
fn realistic(n: u32) -> Numbered {
    let name = format!("front-{}-{n:05}", &"7d9c8b6f5"[..n as usize % 10]);
    let uid = format!("{n:08x}-9a2f-4c53-8f0e-1d2c3b4a5968");
    let (key, version) = (Key::new(&format!("team-{:03}", n / 500), &name), (1_000_000 + n).to_string());
    Obj::new(key, Uid::new(&uid), Version::new(&version), n)
}

#[test]
fn an_object_takes_at_most_64_bytes_beside_value_and_key_and_eight_per_indexed_value() {
    let shared = |name: &str, by: u32| IndexDef::new(name, move |object: &Numbered| format!("value-{}", **object / by));
    let indexes = || [IndexDef::namespace(), shared("hundreds", 100), shared("thousands", 1_000)];
    for count in [0, 1, 3] {
        let mut beside = 0;
        let mut kept = None;
        let counted = measure(|| {
            let mut store = Store::new(7);
            indexes().into_iter().take(count).for_each(|index| store.add_index(index).unwrap());
            for object in (0..OBJECTS).map(realistic) {
                beside += object.key().as_str().len() + size_of::<u32>();
                store.upsert(object);
            }
            kept = Some(store);
        });
        let per_object = (counted.bytes_current - beside as i64) as f64 / f64::from(OBJECTS);
        println!("{count} indexes: {per_object:.2} bytes per object beside value and key");
        assert!(per_object <= (64 + 8 * count) as f64, "{count} indexes: {per_object} bytes");
        assert_eq!(kept.unwrap().len(), OBJECTS as usize);
    }
}

#[test]
fn an_index_of_namespaces_takes_at_most_eight_bytes_per_object() {
    for order in [Order::Sorted, Order::Scattered] {
        let objects: Vec<_> = (0..OBJECTS).map(|n| object(n, order.value(n, 200), 0)).collect();
        let cost = cost(IndexDef::namespace(), &[objects]);
        assert!((1.0..8.0).contains(&cost), "{order:?}: {cost} bytes per namespace");
    }
}

#[test]
fn an_index_of_a_few_values_takes_at_most_eight_bytes_per_object() {
    for order in [Order::Sorted, Order::Scattered] {
        for values in [12, 1_000] {
            let objects: Vec<_> = (0..OBJECTS).map(|n| object(n, 0, order.value(n, values))).collect();
            let cost = cost(number(), &[objects]);
            assert!((1.0..8.0).contains(&cost), "{order:?}: {cost} bytes per value of {values}");
        }
    }
}

#[test]
fn objects_that_move_between_values_leave_no_room_behind() {
    // Everything is in one bucket, then in a thousand others, then in 200.
    let versions = [1, 1_000, 200].map(|values| {
        (0..OBJECTS).map(|n| object(n, 0, 10_000 * values + Order::Scattered.value(n, values))).collect::<Vec<_>>()
    });
    let cost = cost(number(), &versions);
    assert!((1.0..8.0).contains(&cost), "{cost} bytes per value");
}

#[test]
fn small_buckets_cost_more_per_value_but_not_much() {
    for order in [Order::Sorted, Order::Scattered] {
        let objects: Vec<_> = (0..OBJECTS).map(|n| object(n, 0, order.value(n, 5_000))).collect();
        let twenty_each = cost(number(), &[objects]);
        assert!((1.0..12.0).contains(&twenty_each), "{order:?}: {twenty_each} bytes per node");
    }
    let objects: Vec<_> = (0..OBJECTS).map(|n| object(n, 0, n)).collect();
    let one_each = cost(number(), &[objects]);
    assert!((1.0..48.0).contains(&one_each), "{one_each} bytes per value that one object has");
}
