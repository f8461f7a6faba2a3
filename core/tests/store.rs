//! The store against a naive one: a sorted map, changed one object at a time. Whatever events, lists, indexes and copies
//! come: the same objects, the same notifications in the same order, the same version; indexes as a recomputation says; and
//! every snapshot still what it was when it was taken.

use informer_core::fifo::InOrderQueue;
use informer_core::store::{IndexDef, Snapshot, Store};
use informer_core::wire::ItemKind;
use informer_core::{Key, Obj, Uid, Version};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// The value of an object is the version at which it came.
type Number = Obj<u32>;

/// uid and version of each object, by key.
type Model = BTreeMap<u8, (u8, u32)>;

#[derive(Clone, Debug)]
enum Step {
    /// Key, uid and kind of each.
    Events(Vec<(u8, u8, usize)>),
    /// By key, the uid with which it is there anew; `None` where it is as it was. And whether it has what was there from the
    /// beginning, as it is.
    List(BTreeMap<u8, Option<u8>>, bool),
    Snapshot,
    AddIndex,
    RemoveIndex,
    /// Goes on with a copy, as a large list does.
    Clone,
}

fn step() -> impl Strategy<Value = Step> {
    let uid = || 0u8..2;
    prop_oneof![
        4 => prop::collection::vec((0u8..10, uid(), 0..KINDS.len()), 1..8).prop_map(Step::Events),
        1 => prop::collection::vec((0u8..255, uid(), 0..KINDS.len()), 1..8).prop_map(Step::Events),
        3 => (prop::collection::btree_map(0u8..10, prop::option::of(uid()), 0..10), prop::bool::weighted(0.8))
            .prop_map(|(list, keeps)| Step::List(list, keeps)),
        2 => Just(Step::Snapshot),
        1 => Just(Step::AddIndex),
        1 => Just(Step::RemoveIndex),
        1 => Just(Step::Clone),
    ]
}

const KINDS: [ItemKind; 4] = [ItemKind::Added, ItemKind::Modified, ItemKind::Modified, ItemKind::Deleted];

fn name(key: u8) -> String {
    let namespace = ["", "a", "b"][usize::from(key % 3)];
    if namespace.is_empty() { format!("o{key}") } else { format!("{namespace}/o{key}") }
}

fn object(key: u8, uid: u8, version: u32) -> Number {
    let key: Key = name(key).parse().unwrap();
    Obj::new(key, Uid::new(&format!("u{uid}")), Version::new(&version.to_string()), version)
}

/// What the naive store tells of an object that is there now.
fn put(model: &mut Model, key: u8, uid: u8, version: u32, cause: &str) -> Vec<String> {
    let at = name(key);
    match model.insert(key, (uid, version)) {
        None => vec![format!("added {at}@{version} by {cause}")],
        Some((before, old)) if before == uid => vec![format!("updated {at}@{version} (was {old}) by {cause}")],
        Some((_, old)) => vec![
            format!("deleted {at}@{old} (final state unknown) by {cause}"),
            format!("added {at}@{version} by {cause}"),
        ],
    }
}

/// Every object, and whether every way to it agrees.
fn content<'a>(all: impl Iterator<Item = &'a Number>) -> Vec<String> {
    let mut all: Vec<_> = all.map(|object| format!("{object:?} {} {}", object.uid(), **object)).collect();
    all.sort();
    all
}

fn wanted(model: &Model) -> Vec<String> {
    let mut all: Vec<_> =
        model.iter().map(|(key, (uid, version))| format!("{}@{version} u{uid} {version}", name(*key))).collect();
    all.sort();
    all
}

fn by_last_digit() -> IndexDef<u32> {
    IndexDef::new("last digit", |number: &Number| **number % 10)
}

fn assert_index_is_a_recomputation(store: &Store<u32>, model: &Model) {
    let mut content = BTreeMap::<String, BTreeSet<String>>::new();
    for (key, (_, version)) in model {
        content.entry((version % 10).to_string()).or_default().insert(name(*key));
    }
    let held: BTreeMap<String, BTreeSet<String>> = store
        .index_values("last digit")
        .unwrap()
        .map(|(value, _)| value.to_string())
        .map(|value| {
            let keys = store.by_index("last digit", &value).unwrap().map(|object| object.key().to_string()).collect();
            (value, keys)
        })
        .collect();
    assert_eq!(held, content);
}

#[derive(Default)]
struct World {
    model: Model,
    populated: bool,
    /// The version of the last event or list.
    version: u32,
    snapshots: Vec<(Snapshot<u32>, Model)>,
}

impl World {
    fn next(&mut self) -> u32 {
        self.version += 1;
        self.version
    }

    /// Queues events, and says what is to be told of them.
    fn events(&mut self, queue: &mut InOrderQueue<u32>, events: Vec<(u8, u8, usize)>) -> Vec<String> {
        let mut told = Vec::new();
        for (key, uid, kind) in events {
            let (version, kind) = (self.next(), KINDS[kind]);
            queue.push_event(kind, object(key, uid, version));
            if kind != ItemKind::Deleted {
                told.extend(put(&mut self.model, key, uid, version, "Watch"));
            } else if self.model.remove(&key).is_some() {
                told.push(format!("deleted {}@{version} by Watch", name(key)));
            }
        }
        told
    }

    /// Queues a list, and says what is to be told of it: how many deletions, in no fixed order, come first.
    fn list(
        &mut self,
        queue: &mut InOrderQueue<u32>,
        store: &Store<u32>,
        list: BTreeMap<u8, Option<u8>>,
    ) -> (usize, Vec<String>) {
        let first = !self.populated && self.model.is_empty();
        self.populated = true;
        let gone: Vec<u8> = self.model.keys().filter(|key| !list.contains_key(key)).copied().collect();
        let mut told: Vec<_> = gone
            .iter()
            .filter_map(|key| self.model.remove(key).map(|(_, version)| (name(*key), version)))
            .map(|(at, version)| format!("deleted {at}@{version} (final state unknown) by Relist"))
            .collect();
        told.sort();
        let mut objects = Vec::new();
        // Not in the order of the keys.
        for (key, anew) in list.into_iter().rev() {
            let (uid, version) = match (anew, self.model.get(&key)) {
                (None, Some(known)) => *known,
                (anew, _) => {
                    let (uid, version) = (anew.unwrap_or(0), self.next());
                    told.extend(put(&mut self.model, key, uid, version, "Relist"));
                    (uid, version)
                }
            };
            objects.push(object(key, uid, version));
        }
        let version = self.next();
        queue.push_list(objects, Version::new(&version.to_string()), store);
        (gone.len(), if first { Vec::new() } else { told })
    }
}

proptest! {
    #[test]
    fn the_store_does_what_the_naive_one_does(
        // More than lie together in one piece of the store, now and then.
        many in prop::sample::select(&[10u8, 10, 10, 80, 210][..]),
        steps in prop::collection::vec(step(), 0..40),
    ) {
        let (mut store, mut queue, mut world) = (Store::new(7), InOrderQueue::default(), World::default());
        let mut indexed = false;
        let first = Step::Events((10..many).map(|key| (key, 0, 0)).collect());
        for step in [first].into_iter().chain(steps) {
            let revision = store.revision();
            let (mut deletions, mut wanted_told, was_empty) = (0, Vec::new(), store.is_empty());
            match step {
                Step::Events(events) => wanted_told = world.events(&mut queue, events),
                Step::List(mut list, keeps) => {
                    if keeps {
                        list.extend(world.model.range(10..).map(|(key, _)| (*key, None)));
                    }
                    (deletions, wanted_told) = world.list(&mut queue, &store, list);
                }
                Step::Snapshot => world.snapshots.push((store.snapshot(), world.model.clone())),
                Step::AddIndex => {
                    prop_assert_eq!(store.add_index(by_last_digit()).is_ok(), !indexed);
                    indexed = true;
                }
                Step::RemoveIndex => {
                    prop_assert_eq!(store.remove_index("last digit").is_ok(), indexed);
                    indexed = false;
                }
                Step::Clone => store = store.clone(),
            }
            let mut told = Vec::new();
            while let Some(commit) = queue.pop() {
                told.extend(store.commit(commit).notifications.iter().map(|told| format!("{told:?}")));
            }
            if let Some(deletions) = told.get_mut(..deletions) {
                deletions.sort();
            }
            prop_assert_eq!(&told, &wanted_told);
            if world.version > 0 {
                prop_assert_eq!(store.version().to_string(), world.version.to_string());
            }
            let moved = !told.is_empty() || was_empty && !store.is_empty();
            prop_assert_eq!(store.revision() > revision, moved);
            prop_assert_eq!(content(store.iter()), wanted(&world.model));
            for key in 0..=u8::MAX {
                let found = store.get(&name(key)).map(|object| **object);
                prop_assert_eq!(found, world.model.get(&key).map(|(_, version)| *version));
            }
            if indexed {
                assert_index_is_a_recomputation(&store, &world.model);
            }
            for (snapshot, then) in &world.snapshots {
                prop_assert_eq!((content(snapshot.iter()), snapshot.len()), (wanted(then), then.len()));
            }
        }
    }
}
