//! The overlay of own writes, beside an oracle that knows the whole history of the server.

use informer_core::fifo::InOrderQueue;
use informer_core::object::{DynamicObject, Object, Resource};
use informer_core::overlay::{How, MAX_ENTRIES, Overlay, OverlayError};
use informer_core::store::Store;
use informer_core::wire::ItemKind;
use informer_core::{Key, Obj, Uid, Version};
use proptest::prelude::*;
use std::collections::BTreeMap;

type Pod = Obj<()>;

fn pod(name: &str, uid: &str, version: u64) -> Pod {
    Obj::new(Key::new("web", name), Uid::new(uid), Version::new(&version.to_string()), ())
}

fn commit(store: &mut Store<()>, kind: ItemKind, object: Pod) {
    let mut queue = InOrderQueue::default();
    queue.push_event(kind, object);
    let _told = store.commit(queue.pop().unwrap());
}

fn list(store: &mut Store<()>, objects: impl IntoIterator<Item = Pod>, version: u64) {
    let mut queue = InOrderQueue::default();
    queue.push_list(objects, Version::new(&version.to_string()), store);
    let _told = store.commit(queue.pop().unwrap());
}

fn listed(objects: impl IntoIterator<Item = Pod>, version: u64) -> Store<()> {
    let mut store = Store::new(1);
    list(&mut store, objects, version);
    store
}

fn version_of(object: Option<&Pod>) -> Option<&str> {
    object.map(|object| object.version().as_str())
}

#[test]
fn b049_a_late_answer_does_not_bring_an_old_object_back() {
    let (mut store, mut overlay) = (listed([pod("a", "u", 5)], 10), Overlay::new());
    commit(&mut store, ItemKind::Modified, pod("a", "u", 12));
    assert_eq!(overlay.put(&store, pod("a", "u", 11)), Ok(false));
    assert_eq!(version_of(overlay.get(&store, "web/a")), Some("12"));
}

#[test]
fn b049_a_late_answer_does_not_bring_a_deleted_object_back() {
    let (mut store, mut overlay) = (listed([pod("a", "u", 5)], 10), Overlay::new());
    commit(&mut store, ItemKind::Deleted, pod("a", "u", 12));
    assert_eq!(overlay.put(&store, pod("a", "u", 11)), Ok(false));
    assert!(overlay.get(&store, "web/a").is_none() && overlay.is_empty());
}

#[test]
fn an_own_object_that_others_delete_unseen_vanishes_once() {
    let (mut store, mut overlay) = (listed([], 5), Overlay::new());
    assert_eq!(overlay.put(&store, pod("a", "u", 7)), Ok(true));
    assert_eq!(version_of(overlay.get(&store, "web/a")), Some("7"));
    list(&mut store, [], 9);
    assert!(overlay.get(&store, "web/a").is_none() && overlay.list(&store).is_empty());
    let settled = overlay.settle(&store);
    assert_eq!(settled.iter().map(|one| (one.key.as_str(), one.how)).collect::<Vec<_>>(), [("web/a", How::Vanished)]);
    assert_eq!(version_of(settled[0].object.as_ref()), Some("7"));
    assert!(overlay.settle(&store).is_empty());
}

#[test]
fn an_own_deletion_hides_the_object_until_the_cache_has_it() {
    let (mut store, mut overlay) = (listed([pod("a", "u", 5)], 10), Overlay::new());
    let (key, uid, seen) = (Key::new("web", "a"), Uid::new("u"), Version::new("5"));
    assert_eq!(overlay.deleted(&store, key, uid, seen), Ok(true), "although the store stands for a later version");
    assert!(overlay.get(&store, "web/a").is_none() && overlay.list(&store).is_empty());
    assert_eq!(overlay.put(&store, pod("a", "u", 20)), Ok(false), "an answer that was late");
    assert!(overlay.settle(&store).is_empty());
    commit(&mut store, ItemKind::Deleted, pod("a", "u", 12));
    let settled = overlay.settle(&store);
    assert_eq!((settled.len(), settled[0].how, overlay.len()), (1, How::CaughtUp, 0));
    assert!(settled[0].object.is_none());
}

#[test]
fn a_recreated_object_shows_over_its_own_deletion() {
    let (mut store, mut overlay) = (listed([pod("a", "u1", 5)], 10), Overlay::new());
    let (key, uid) = (Key::new("web", "a"), Uid::new("u1"));
    assert_eq!(overlay.deleted(&store, key, uid, Version::new("11")), Ok(true));
    assert_eq!(overlay.put(&store, pod("a", "u2", 12)), Ok(true));
    commit(&mut store, ItemKind::Deleted, pod("a", "u1", 11));
    assert_eq!(version_of(overlay.get(&store, "web/a")), Some("12"));
    commit(&mut store, ItemKind::Added, pod("a", "u2", 12));
    assert_eq!(version_of(overlay.get(&store, "web/a")), Some("12"));
    assert_eq!(overlay.settle(&store).len(), 1);
}

#[test]
fn own_writes_go_with_the_history_of_a_server_that_is_set_back() {
    let (mut store, mut overlay) = (listed([pod("a", "u", 50), pod("b", "u", 50)], 100), Overlay::new());
    assert_eq!(overlay.put(&store, pod("a", "u", 105)), Ok(true));
    assert_eq!(overlay.deleted(&store, Key::new("web", "b"), Uid::new("u"), Version::new("50")), Ok(true));
    list(&mut store, [pod("a", "u", 50), pod("b", "u", 50)], 60);
    for name in ["web/a", "web/b"] {
        assert_eq!(version_of(overlay.get(&store, name)), Some("50"), "what the server has is true");
    }
    let how: Vec<How> = overlay.settle(&store).iter().map(|one| one.how).collect();
    assert_eq!(how, [How::SetBack, How::SetBack]);
}

#[test]
fn what_cannot_be_compared_or_has_no_room_is_refused_by_name() {
    let (store, mut overlay) = (listed([], 5), Overlay::new());
    let odd = Obj::new(Key::new("web", "a"), Uid::new("u"), Version::new("abc"), ());
    let error = overlay.put(&store, odd).unwrap_err();
    assert!(matches!(error, OverlayError::Incomparable { .. }) && error.to_string().contains("web/a"), "{error}");
    for n in 0..MAX_ENTRIES {
        assert_eq!(overlay.put(&store, pod(&format!("n{n}"), "u", 7)), Ok(true));
    }
    let error = overlay.put(&store, pod("more", "u", 7)).unwrap_err();
    assert!(matches!(error, OverlayError::Full { .. }) && error.to_string().contains("web/more"), "{error}");
    assert_eq!(overlay.put(&store, pod("n0", "u", 8)), Ok(true), "one that has a place keeps it");
    assert!(overlay.get(&store, "web/more").is_none() && overlay.len() == MAX_ENTRIES);
}

/// A controller that never settles goes on writing: what the cache has caught up with makes room.
#[test]
fn what_the_cache_has_makes_room_for_what_it_does_not_have() {
    let (mut store, mut overlay) = (listed([], 5), Overlay::new());
    let mut write = |overlay: &mut Overlay<()>, n: usize, reaches_the_cache: bool| {
        let made = pod(&format!("p{n}"), "u", 10 + n as u64);
        assert_eq!(overlay.put(&store, made.clone()), Ok(true), "{n}");
        if reaches_the_cache {
            commit(&mut store, ItemKind::Added, made);
        }
    };
    (0..MAX_ENTRIES).for_each(|n| write(&mut overlay, n, true));
    write(&mut overlay, MAX_ENTRIES, false); // somebody else deletes it unseen
    (MAX_ENTRIES + 1..3 * MAX_ENTRIES).for_each(|n| write(&mut overlay, n, true));
    assert!(overlay.len() <= MAX_ENTRIES);
    let mut vanished = overlay.settle(&store);
    vanished.retain(|settled| settled.how == How::Vanished);
    assert_eq!(vanished.len(), 1, "it is told all the same");
    assert_eq!(vanished[0].key.as_str(), format!("web/p{MAX_ENTRIES}"));
}

#[test]
fn a_selector_looks_at_own_writes_too() {
    let pods = Resource::namespaced("", "v1", "pods", "Pod");
    let pod = |name: &str, version: &str, app: &str| {
        let json = format!(r#"{{"metadata":{{"name":"{name}","namespace":"web","labels":{{"app":"{app}"}}}}}}"#);
        let value = DynamicObject::decode(json.as_bytes(), &pods).unwrap();
        Obj::new(Key::new("web", name), Uid::new("u"), Version::new(version), value)
    };
    let mut store = Store::new(1);
    ["a", "b"].into_iter().for_each(|name| drop(store.upsert(pod(name, "5", "shop"))));
    let mut overlay = Overlay::new();
    for object in [pod("b", "6", "bar"), pod("c", "7", "shop"), pod("d", "8", "bar")] {
        assert_eq!(overlay.put(&store, object), Ok(true));
    }
    let selected = |namespace: &str| {
        let selector = "app=shop".parse().unwrap();
        let found = overlay.matching(&store, namespace, &selector);
        let mut found: Vec<String> = found.iter().map(|object| object.key().to_string()).collect();
        found.sort();
        found
    };
    assert_eq!(selected(""), ["web/a", "web/c"]);
    assert_eq!(selected("web"), ["web/a", "web/c"]);
    assert!(selected("other").is_empty());
}

/// What happens next.
#[derive(Clone, Debug)]
enum Step {
    /// Somebody writes: which key, and what.
    Write {
        key: usize,
        what: What,
        ours: bool,
    },
    /// An answer to one of our writes comes in; answers may overtake one another.
    Answer(usize),
    /// The watch tells of so many events.
    Watch(usize),
    /// The state after so many more events is listed.
    Relist(usize),
    /// The server is set back by so many versions of what the cache knows, and listed.
    SetBack(usize),
    Settle,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Put,
    Delete,
}

const KEYS: [&str; 3] = ["a", "b", "c"];

fn step() -> impl Strategy<Value = Step> {
    let what = prop_oneof![3 => Just(What::Put), 2 => Just(What::Delete)];
    prop_oneof![
        6 => (0..KEYS.len(), what, any::<bool>()).prop_map(|(key, what, ours)| Step::Write { key, what, ours }),
        5 => (0..8_usize).prop_map(Step::Answer),
        4 => (1..4_usize).prop_map(Step::Watch),
        2 => (0..6_usize).prop_map(Step::Relist),
        1 => (1..5_usize).prop_map(Step::SetBack),
        2 => Just(Step::Settle),
    ]
}

/// The whole history: the event at place `n` has the version `FIRST + n + 1`.
#[derive(Default)]
struct History {
    events: Vec<(usize, What, Pod)>,
    uids: u64,
}

const FIRST: u64 = 97;

impl History {
    /// The state of all keys after the first `events`.
    fn at(&self, events: usize) -> BTreeMap<usize, Pod> {
        let mut state = BTreeMap::new();
        for (key, what, object) in &self.events[..events] {
            match what {
                What::Put => drop(state.insert(*key, object.clone())),
                What::Delete => drop(state.remove(key)),
            }
        }
        state
    }

    /// Writes; the event, unless there is nothing to delete.
    fn write(&mut self, key: usize, what: What) -> Option<usize> {
        let version = FIRST + self.events.len() as u64 + 1;
        let uid = match (what, self.at(self.events.len()).get(&key)) {
            (_, Some(object)) => object.uid().to_string(),
            (What::Put, None) => {
                self.uids += 1;
                format!("u{}", self.uids)
            }
            (What::Delete, None) => return None,
        };
        self.events.push((key, what, pod(KEYS[key], &uid, version)));
        Some(self.events.len() - 1)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_read_shows_the_newest_that_the_cache_or_an_answer_told(steps in prop::collection::vec(step(), 1..60)) {
        let mut history = History::default();
        let (mut store, mut overlay) = (listed([], FIRST), Overlay::new());
        // How many events the cache has; our writes that are not answered; the newest event of each key that is answered.
        let (mut cached, mut unanswered, mut answered) = (0, Vec::<usize>::new(), BTreeMap::<usize, usize>::new());
        let mut accepted = 0;
        for step in steps {
            match step {
                Step::Write { key, what, ours } => {
                    let event = history.write(key, what);
                    unanswered.extend(event.filter(|_| ours));
                }
                Step::Answer(which) if !unanswered.is_empty() => {
                    let event = unanswered.remove(which % unanswered.len());
                    let (key, what, object) = &history.events[event];
                    let before = overlay.len();
                    match what {
                        What::Put => overlay.put(&store, object.clone()).unwrap(),
                        What::Delete => overlay
                            .deleted(&store, object.key().to_key(), object.uid().to_uid(), object.version().to_version())
                            .unwrap(),
                    };
                    accepted += overlay.len() - before;
                    let newest = answered.entry(*key).or_insert(event);
                    *newest = event.max(*newest);
                }
                Step::Answer(_) => {}
                Step::Watch(events) => {
                    for (_, what, object) in history.events[cached..].iter().take(events) {
                        let kind = match what { What::Put => ItemKind::Modified, What::Delete => ItemKind::Deleted };
                        commit(&mut store, kind, object.clone());
                        cached += 1;
                    }
                }
                Step::Relist(events) => {
                    cached = (cached + events).min(history.events.len());
                    list(&mut store, history.at(cached).into_values(), FIRST + cached as u64);
                }
                Step::SetBack(by) if cached >= by => {
                    cached -= by;
                    history.events.truncate(cached);
                    list(&mut store, history.at(cached).into_values(), FIRST + cached as u64);
                    unanswered.clear();
                    answered.clear();
                }
                Step::SetBack(_) => {}
                Step::Settle => {
                    let settled = overlay.settle(&store);
                    prop_assert!(settled.windows(2).all(|two| two[0].key < two[1].key));
                    prop_assert!(settled.len() <= accepted, "each is told once");
                    accepted -= settled.len();
                    prop_assert_eq!(accepted, overlay.len());
                }
            }
            let mut expected = history.at(cached);
            for (key, event) in answered.iter().filter(|(_, event)| **event >= cached) {
                let (_, what, object) = &history.events[*event];
                match what {
                    What::Put => drop(expected.insert(*key, object.clone())),
                    What::Delete => drop(expected.remove(key)),
                }
            }
            let expected: BTreeMap<String, String> =
                expected.values().map(|object| (object.key().to_string(), object.version().to_string())).collect();
            let shown = overlay.list(&store);
            let found: BTreeMap<String, String> =
                shown.iter().map(|object| (object.key().to_string(), object.version().to_string())).collect();
            prop_assert_eq!(found.len(), shown.len(), "each key comes once");
            prop_assert_eq!(&found, &expected);
            for key in KEYS {
                let (key, got) = (format!("web/{key}"), overlay.get(&store, &format!("web/{key}")));
                prop_assert_eq!(version_of(got), expected.get(&key).map(String::as_str));
            }
        }
    }
}
