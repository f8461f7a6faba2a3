//! [`SharedStore`]: a reader sees a commit whole or not at all, and an index is complete whenever it is there.

use super::{ASIDE, SharedStore};
use crate::error::Error;
use crate::schedules::{finds, seldom};
use crate::sync::Arc;
use informer_core::decode::NoGuard;
use informer_core::fifo::InOrderQueue;
use informer_core::store::{Commit, IndexDef, Store};
use informer_core::wire::ItemKind;
use informer_core::{Key, Obj, Uid, Version};
use shuttle::thread::spawn;
use std::collections::BTreeSet;

type Shared = Arc<SharedStore<usize>>;

fn key(n: usize) -> Key {
    Key::new("", &format!("o{n}"))
}

/// A list of `objects` objects, each of which is the `number` of the list.
fn list(store: &Store<usize>, objects: usize, number: usize) -> Commit<usize> {
    let version = Version::new(&format!("{number}"));
    let object = |n| Obj::new(key(n), Uid::new("u"), version.clone(), number);
    let mut queue = InOrderQueue::default();
    queue.push_list((0..objects).map(object), version.clone(), store);
    queue.pop().unwrap()
}

fn event(n: usize, number: usize) -> Commit<usize> {
    let mut queue = InOrderQueue::default();
    let version = Version::new(&format!("{number}"));
    queue.push_event(ItemKind::Modified, Obj::new(key(n), Uid::new("u"), version, number));
    queue.pop().unwrap()
}

/// With the first list of so many objects.
fn listed(objects: usize) -> Shared {
    let store = Shared::new(SharedStore::new(&"numbers".into(), 7, []));
    relist(&store, objects, 1);
    store
}

fn relist(store: &SharedStore<usize>, objects: usize, number: usize) {
    drop(store.commit(store.read(|store| list(store, objects, number))));
}

fn by_number() -> IndexDef<usize> {
    IndexDef::new("number", |object: &Obj<usize>| **object)
}

/// The index, if it is there, says of every object what its function says.
fn assert_index_complete(store: &Store<usize>) {
    if store.has_index("number") {
        let counts: Vec<_> = store.index_values("number").unwrap().collect();
        assert_eq!(counts.iter().map(|(_, count)| count).sum::<usize>(), store.len());
        for (value, _) in counts {
            assert!(store.by_index("number", value).unwrap().all(|object| object.to_string() == value));
        }
    }
}

/// More than are built in place.
const MANY: usize = ASIDE + 1;

#[test]
fn a_reader_sees_a_list_whole_or_not_at_all() {
    fn check(objects: usize) {
        let store = listed(objects);
        let writer = Arc::clone(&store);
        let writer = spawn(move || relist(&writer, objects, 2));
        for _ in 0..2 {
            let (numbers, version) = store.read(|store| {
                (store.iter().map(|object| **object).collect::<BTreeSet<_>>(), store.version().to_string())
            });
            assert_eq!(numbers.into_iter().map(|n| n.to_string()).collect::<Vec<_>>(), [version]);
            let snapshot = store.snapshot();
            assert_eq!(snapshot.iter().map(|object| **object).collect::<BTreeSet<_>>().len(), 1);
        }
        writer.join().unwrap();
        assert_eq!(store.get(&key(0)).map(|object| *object), Some(2));
    }
    seldom(|| check(3));
    seldom(|| check(MANY));
}

#[test]
fn an_index_that_comes_beside_commits_has_every_object() {
    fn check(objects: usize) {
        let store = listed(objects);
        let (writer, indexer) = (Arc::clone(&store), Arc::clone(&store));
        let writer = spawn(move || {
            drop(writer.commit(event(0, 2)));
            relist(&writer, objects, 3);
        });
        let indexer = spawn(move || indexer.add_index(by_number()).unwrap());
        store.read(assert_index_complete);
        store.read(assert_index_complete);
        writer.join().unwrap();
        indexer.join().unwrap();
        store.read(|store| {
            assert!(store.has_index("number"));
            assert_index_complete(store);
        });
    }
    seldom(|| check(3));
    seldom(|| check(MANY));
}

#[test]
fn of_two_who_add_the_same_index_one_is_told_that_it_is_there() {
    seldom(|| {
        let store = listed(3);
        let others = [Arc::clone(&store), Arc::clone(&store)];
        let adders = others.map(|store| spawn(move || store.add_index(by_number()).is_ok()));
        let added = adders.map(|adder| adder.join().unwrap());
        assert_eq!(added.into_iter().filter(|added| *added).count(), 1);
        store.remove_index("number").unwrap();
        assert!(store.remove_index("number").is_err());
    });
}

#[test]
fn two_looks_are_not_one() {
    finds(|| {
        let store = listed(2);
        let writer = Arc::clone(&store);
        let writer = spawn(move || relist(&writer, 2, 2));
        let [one, other] = [0, 1].map(|n| store.get(&key(n)).map(|object| *object));
        assert_eq!(one, other);
        writer.join().unwrap();
    });
}

#[test]
fn an_index_that_does_not_wait_for_the_writer_is_lost_in_a_list_that_is_built_aside() {
    finds(|| {
        let store = listed(2);
        let (writer, indexer) = (Arc::clone(&store), Arc::clone(&store));
        // What `commit` does with a large list.
        let writer = spawn(move || {
            let _writer = writer.writer.lock();
            let mut aside = writer.read(Store::clone);
            drop(aside.commit(list(&aside, 2, 2)));
            std::mem::swap(&mut *writer.store.write(), &mut aside);
        });
        let indexer = spawn(move || {
            let begun = indexer.read(|store| store.begin_index(by_number())).unwrap();
            let prepared = begun.build(&NoGuard).unwrap();
            indexer.store.write().install_index(prepared).unwrap();
        });
        writer.join().unwrap();
        indexer.join().unwrap();
        assert!(store.read(|store| store.has_index("number")));
    });
}

/// Two stores, and an index function of each that reaches for the other while it is filled.
fn indexed_by_each_other(reach: fn(&SharedStore<usize>)) {
    let stores = [listed(1), listed(1)];
    let threads = [0, 1].map(|this| {
        let (store, other) = (Arc::clone(&stores[this]), Arc::clone(&stores[1 - this]));
        let function = move |object: &Obj<usize>| {
            reach(&other);
            **object
        };
        spawn(move || store.add_index(IndexDef::new("number", function)).unwrap())
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    stores.iter().for_each(|store| store.read(assert_index_complete));
}

#[test]
fn index_functions_that_index_each_others_caches_are_refused_and_do_not_wait_for_each_other() {
    seldom(|| {
        indexed_by_each_other(|other| {
            assert!(matches!(other.add_index(by_number()), Err(Error::WouldDeadlock { .. })));
            assert!(matches!(other.remove_index("number"), Err(Error::WouldDeadlock { .. })));
            assert_eq!(other.read(Store::len), 1, "reading is allowed");
        });
    });
}

#[test]
fn an_index_function_that_waits_for_another_writer_without_asking_is_stuck() {
    finds(|| indexed_by_each_other(|other| drop(other.writer.lock())));
}
