//! Indexes against a recomputation (I7): whatever objects and indexes come, change and go, and in whatever order an index
//! is filled, it holds what its function says of every object, and nothing else.

use informer_core::decode::NoGuard;
use informer_core::store::{IndexDef, Store};
use informer_core::{Key, Obj, Uid, Version};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// An object is the set of its values.
type Set = BTreeSet<u8>;
type Model = BTreeMap<Key, Set>;
type Content = BTreeMap<String, BTreeSet<Key>>;

#[derive(Clone, Debug)]
enum Step {
    Put(u8, Set),
    Remove(u8),
    AddIndex(usize),
    RemoveIndex(usize),
    /// Computes an index over a snapshot, and adds it so many steps later: what changed meanwhile is computed then.
    Prepare(usize),
    Install,
    /// Goes on with a copy, as a large list does.
    Clone,
}

fn step() -> impl Strategy<Value = Step> {
    let sets = prop::collection::btree_set(0u8..3, 0..=2);
    prop_oneof![
        8 => (0u8..12, sets).prop_map(|(key, set)| Step::Put(key, set)),
        3 => (0u8..12).prop_map(Step::Remove),
        1 => (0..INDEXES.len()).prop_map(Step::AddIndex),
        1 => (0..INDEXES.len()).prop_map(Step::RemoveIndex),
        1 => (0..INDEXES.len()).prop_map(Step::Prepare),
        1 => Just(Step::Install),
        1 => Just(Step::Clone),
    ]
}

/// Every shape of an index: no value or one, one always, several, the key's own.
const INDEXES: [&str; 4] = ["least", "size", "members", "namespace"];

fn def(index: usize) -> IndexDef<Set> {
    let name = INDEXES[index];
    match name {
        "least" => IndexDef::new(name, |set: &Obj<Set>| set.first().copied()),
        "size" => IndexDef::new(name, |set: &Obj<Set>| set.len()),
        "members" => IndexDef::new(name, |set: &Obj<Set>| set.iter().copied().collect::<Vec<u8>>()),
        _ => IndexDef::namespace(),
    }
}

fn wanted(index: &str, model: &Model) -> Content {
    let mut content = Content::new();
    for (key, set) in model {
        let values: Vec<String> = match index {
            "least" => set.first().iter().map(ToString::to_string).collect(),
            "size" => vec![set.len().to_string()],
            "members" => set.iter().map(ToString::to_string).collect(),
            _ => vec![key.namespace().to_string()],
        };
        values.into_iter().for_each(|value| _ = content.entry(value).or_default().insert(key.clone()));
    }
    content
}

fn held(index: &str, store: &Store<Set>) -> Content {
    let keys = |value: &str| store.by_index(index, value).unwrap().map(|set| set.key().to_key()).collect();
    let content: Content =
        store.index_values(index).unwrap().map(|(value, _)| (value.to_string(), keys(value))).collect();
    let counts = store.index_values(index).unwrap().map(|(value, count)| (value.to_string(), count)).collect();
    assert_eq!(content.iter().map(|(value, keys)| (value.clone(), keys.len())).collect::<BTreeMap<_, _>>(), counts);
    content
}

fn key(n: u8) -> Key {
    Key::new(["", "a", "b"][usize::from(n % 3)], &format!("o{n}"))
}

proptest! {
    #[test]
    fn an_index_is_what_a_recomputation_says(steps in prop::collection::vec(step(), 0..120)) {
        let (mut store, mut model) = (Store::new(7), Model::new());
        let (mut indexes, mut prepared) = (BTreeSet::new(), None);
        for (version, step) in steps.into_iter().enumerate() {
            match step {
                Step::Put(n, set) => {
                    let version = Version::new(&(version + 1).to_string());
                    let old = store.upsert(Obj::new(key(n), Uid::new("u"), version, set.clone()));
                    prop_assert_eq!(old.map(|old| old.value().clone()), model.insert(key(n), set));
                }
                Step::Remove(n) => {
                    prop_assert_eq!(store.remove(key(n).as_str()).is_some(), model.remove(&key(n)).is_some());
                }
                Step::AddIndex(index) => prop_assert_eq!(store.add_index(def(index)).is_ok(), indexes.insert(index)),
                Step::RemoveIndex(index) => {
                    prop_assert_eq!(store.remove_index(INDEXES[index]).is_ok(), indexes.remove(&index));
                }
                Step::Prepare(index) => {
                    let begun = store.begin_index(def(index)).ok();
                    prop_assert_eq!(begun.is_none(), indexes.contains(&index));
                    prepared = begun.map(|begun| (index, begun.build(&NoGuard).unwrap()));
                }
                Step::Install => {
                    if let Some((index, ready)) = prepared.take() {
                        prop_assert_eq!(store.install_index(ready).is_ok(), indexes.insert(index));
                    }
                }
                Step::Clone => store = store.clone(),
            }
            prop_assert_eq!(store.len(), model.len());
        }
        for (index, name) in INDEXES.into_iter().enumerate() {
            if indexes.contains(&index) {
                prop_assert_eq!(held(name, &store), wanted(name, &model));
            } else {
                prop_assert!(store.by_index(name, "").is_err());
            }
        }
    }
}

#[test]
fn an_index_of_another_type_is_refused_by_its_name_and_both_types() {
    let mut store = Store::<Set>::new(7);
    store.add_index(def(1)).unwrap();
    let error = store.by_value::<u8>("size", &2).map(|found| found.len()).unwrap_err().to_string();
    assert!(error.starts_with("index \"size\" holds values of type usize, not u8: "), "{error}");
    assert_eq!(store.by_value::<usize>("size", &2).unwrap().len(), 0);
    assert_eq!(store.by_value::<String>("size", "2").unwrap().len(), 0);
}

#[test]
fn the_revision_moves_with_objects_and_with_nothing_else() {
    let mut store = Store::<Set>::new(7);
    let put = |store: &mut Store<Set>| store.upsert(Obj::new(key(1), Uid::new("u"), Version::new("1"), Set::new()));
    let mut seen = vec![store.revision()];
    store.add_index(def(1)).unwrap();
    assert_eq!(store.revision(), seen[0]);
    put(&mut store);
    seen.push(store.revision());
    put(&mut store);
    seen.push(store.revision());
    store = store.clone();
    assert_eq!(store.revision(), seen[2]);
    store.remove(key(1).as_str());
    seen.push(store.revision());
    assert!(store.remove(key(1).as_str()).is_none());
    assert_eq!(store.revision(), seen[3]);
    assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
}

#[test]
fn an_index_whose_name_is_taken_is_refused_and_the_one_that_is_there_stays_and_follows() {
    let (mut store, mut model) = (Store::new(7), Model::new());
    let mut put = |store: &mut Store<Set>, n: u8, set: Set| {
        store.upsert(Obj::new(key(n), Uid::new("u"), Version::new("1"), set.clone()));
        model.insert(key(n), set);
    };
    put(&mut store, 1, Set::from([4, 5]));
    let other = || IndexDef::new("members", |_: &Obj<Set>| "other");
    let begun = store.begin_index(other()).unwrap().build(&NoGuard).unwrap();
    store.add_index(def(2)).unwrap();
    let refused = [store.add_index(other()), store.begin_index(other()).map(drop), store.install_index(begun)];
    assert!(
        refused.iter().all(|refused| refused.as_ref().unwrap_err().to_string().contains("\"members\"")),
        "{refused:?}"
    );
    put(&mut store, 2, Set::from([5]));
    store.add_index(def(0)).unwrap();
    assert_eq!([held("members", &store), held("least", &store)], [wanted("members", &model), wanted("least", &model)]);
}
