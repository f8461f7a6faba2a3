//! [`DeltaFifo`]: per key the list of what happened to it, keys in the order in which they came.
//!
//! ```text
//!   keys:    web/a ──► web/c ──► web/b          pop takes the first key with all of its deltas
//!   deltas:  Added     Replaced  Deleted
//!            Updated             Replaced
//! ```
//!
//! client-go's queue of the same name: a key keeps its place however often it changes, so the order across keys is lost
//! and the order within a key is kept. Informers use [`InOrderQueue`](super::InOrderQueue); this one is for programs
//! that want to look at several changes of one object at a time, or that are being moved from client-go.
//!
//! Invariants, asserted in debug builds: a key is in the line exactly if it has deltas, once; no two deletions of a key
//! are neighbours (trap 46).
//!
//! The queue has to know what its consumer knows already ([`KnownObjects`]; a [`Store`] is the usual one), to tell which
//! deletions mean something. What was popped last counts as known until [`done`](DeltaFifo::done) or the next
//! [`pop`](DeltaFifo::pop): so a deletion that arrives while an addition is being applied is not lost (B077).
//!
//! ```
//! use informer_core::fifo::{DeltaFifo, DeltaKind};
//! use informer_core::store::Store;
//! use informer_core::{Key, Obj, Uid, Version};
//!
//! let pod = |name: &str, version: &str| Obj::new(Key::new("web", name), Uid::new("u"), Version::new(version), ());
//! let (mut fifo, mut store) = (DeltaFifo::new(), Store::new(7));
//! fifo.replace([pod("a", "1"), pod("b", "2")], &store);
//! fifo.update(pod("a", "3"));
//! assert!(!fifo.has_synced());
//!
//! let deltas = fifo.pop().unwrap();
//! assert_eq!(deltas.iter().map(|delta| delta.kind).collect::<Vec<_>>(), [DeltaKind::Replaced, DeltaKind::Updated]);
//! let told = deltas.apply(&mut store);
//! assert_eq!(format!("{told:?}"), "[added web/a@1 by List, updated web/a@3 (was 1) by Watch]");
//!
//! assert_eq!(fifo.pop().unwrap().key().as_str(), "web/b");
//! assert!(fifo.has_synced() && fifo.pop().is_none());
//! ```

use crate::listener::{Cause, Notification};
use crate::object::{Key, KeyRef, Obj};
use crate::store::{Store, same_incarnation};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::fmt;

/// What happened to an object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum DeltaKind {
    /// The watch said that it is there now.
    Added,
    /// The watch said that it changed.
    Updated,
    /// It is gone.
    Deleted,
    /// A list has it.
    Replaced,
    /// Nothing; a resync repeats it.
    Sync,
}

/// An object that is gone and whose end was missed: client-go's `DeletedFinalStateUnknown`.
pub struct Tombstone<T> {
    /// Which object.
    pub key: Key,
    /// The last state that is known, if there is one. The object may have changed once more before its end.
    pub last: Option<Obj<T>>,
}

/// The object of a [`Delta`].
pub enum DeltaObject<T> {
    /// The object, or its final state.
    Object(Obj<T>),
    /// Its final state is not known.
    Tombstone(Tombstone<T>),
}

/// One thing that happened to one object.
pub struct Delta<T> {
    /// What.
    pub kind: DeltaKind,
    /// To which object. A tombstone comes with `Deleted` only.
    pub object: DeltaObject<T>,
}

/// Everything that happened to one key since it was popped last, the oldest first; at least one delta.
pub struct Deltas<T> {
    key: Key,
    list: Vec<Delta<T>>,
    initial: bool,
}

/// What the consumer of a queue has.
pub trait KnownObjects<T> {
    /// The object of a key, `namespace/name` or `name`.
    fn get(&self, key: &str) -> Option<&Obj<T>>;

    /// All objects, each key once.
    fn iter<'a>(&'a self) -> impl Iterator<Item = &'a Obj<T>>
    where
        T: 'a;
}

impl<T> KnownObjects<T> for Store<T> {
    fn get(&self, key: &str) -> Option<&Obj<T>> {
        Store::get(self, key)
    }

    fn iter<'a>(&'a self) -> impl Iterator<Item = &'a Obj<T>>
    where
        T: 'a,
    {
        Store::iter(self)
    }
}

/// For a consumer that keeps nothing: only what is queued is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct NothingKnown;

impl<T> KnownObjects<T> for NothingKnown {
    fn get(&self, _key: &str) -> Option<&Obj<T>> {
        None
    }

    fn iter<'a>(&'a self) -> impl Iterator<Item = &'a Obj<T>>
    where
        T: 'a,
    {
        core::iter::empty()
    }
}

/// The queue. It holds at most one line of deltas per key; a line grows with the changes of its key until it is popped.
pub struct DeltaFifo<T> {
    deltas: BTreeMap<Key, Vec<Delta<T>>>,
    line: VecDeque<Key>,
    /// What was popped last and may not be known yet: the key and its newest delta.
    in_hand: Option<(Key, Delta<T>)>,
    /// Something was put in.
    populated: bool,
    /// Keys of the first list that were not popped.
    initial: usize,
    closed: bool,
}

impl<T> Default for DeltaFifo<T> {
    fn default() -> Self {
        DeltaFifo {
            deltas: BTreeMap::new(),
            line: VecDeque::new(),
            in_hand: None,
            populated: false,
            initial: 0,
            closed: false,
        }
    }
}

impl<T> DeltaFifo<T> {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Queues an object that is there now.
    pub fn add(&mut self, object: Obj<T>) {
        self.populated = true;
        self.queue(Delta::of(DeltaKind::Added, object));
    }

    /// Queues an object that changed.
    pub fn update(&mut self, object: Obj<T>) {
        self.populated = true;
        self.queue(Delta::of(DeltaKind::Updated, object));
    }

    /// Queues a deletion. One of a key that is neither queued nor known is dropped (trap 31), but what comes first
    /// makes the queue count as synced all the same.
    pub fn delete(&mut self, object: DeltaObject<T>, known: &impl KnownObjects<T>) {
        self.populated = true;
        let key = object.key().as_str();
        if self.deltas.contains_key(key) || self.is_in_hand(key) || known.get(key).is_some() {
            self.queue(Delta { kind: DeltaKind::Deleted, object });
        }
    }

    /// Queues a complete list: first a `Replaced` for each object of it, in its order; then a tombstone for each key
    /// that is queued and not in the list, and for each that is known and not in the list. The first list, if nothing
    /// came before it, is the initial population that [`has_synced`](Self::has_synced) waits for.
    pub fn replace(&mut self, list: impl IntoIterator<Item = Obj<T>>, known: &impl KnownObjects<T>) {
        let mut keys = BTreeSet::new();
        for object in list {
            keys.insert(object.key().to_key());
            self.queue(Delta::of(DeltaKind::Replaced, object));
        }
        let mut gone: Vec<Tombstone<T>> = Vec::new();
        for key in self.line.iter().filter(|key| !keys.contains(*key)) {
            let newest = self.deltas.get(key).and_then(|deltas| deltas.last());
            gone.push(Tombstone { key: key.clone(), last: newest.and_then(|delta| delta.object.last().cloned()) });
        }
        let alive = self.in_hand.as_ref().filter(|(_, delta)| delta.kind != DeltaKind::Deleted);
        if let Some((key, delta)) = alive.filter(|(key, _)| !keys.contains(key) && !self.deltas.contains_key(key)) {
            gone.push(Tombstone { key: key.clone(), last: delta.object.last().cloned() });
        }
        for object in known.iter() {
            let key = object.key();
            if !keys.contains(key.as_str()) && !self.deltas.contains_key(key.as_str()) && !self.is_in_hand(key.as_str())
            {
                gone.push(Tombstone { key: key.to_key(), last: Some(object.clone()) });
            }
        }
        if !self.populated {
            self.populated = true;
            self.initial = keys.len() + gone.len();
        }
        for tombstone in gone {
            self.queue(Delta { kind: DeltaKind::Deleted, object: DeltaObject::Tombstone(tombstone) });
        }
    }

    /// Queues a `Sync` for each known object that has nothing queued (trap 47): what is on its way is news enough, and
    /// one whose deletion waits must not come back (B089).
    pub fn resync(&mut self, known: &impl KnownObjects<T>) {
        let quiet: Vec<_> = known
            .iter()
            .filter(|object| {
                !self.deltas.contains_key(object.key().as_str()) && !self.is_in_hand(object.key().as_str())
            })
            .cloned()
            .collect();
        for object in quiet {
            self.queue(Delta::of(DeltaKind::Sync, object));
        }
    }

    /// Takes the key that waits longest, with all of its deltas. `None` if nothing is queued; for a queue that is
    /// [closed](Self::is_closed) this is the end.
    pub fn pop(&mut self) -> Option<Deltas<T>> {
        let initial = !self.has_synced();
        self.in_hand = None;
        let key = self.line.pop_front()?;
        let list = self.deltas.remove(&key).expect("a key in the line has deltas");
        self.initial = self.initial.saturating_sub(1);
        let newest = list.last().expect("a list of deltas is never empty");
        self.in_hand = Some((key.clone(), newest.clone()));
        self.check();
        Some(Deltas { key, list, initial })
    }

    /// What was popped last is applied. The next [`pop`](Self::pop) says so too.
    pub fn done(&mut self) {
        self.in_hand = None;
    }

    /// True once the first list was popped to its end, or at once if something else came first (trap 40), or if that
    /// list was empty (trap 39).
    pub fn has_synced(&self) -> bool {
        self.populated && self.initial == 0
    }

    /// No more is to come: what is queued can still be popped. What is put in all the same is accepted.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// True if the queue was closed.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// How many keys are queued.
    pub fn len(&self) -> usize {
        self.line.len()
    }

    /// True if nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// What is queued for a key, the oldest first; empty if nothing is.
    pub fn get(&self, key: &str) -> &[Delta<T>] {
        self.deltas.get(key).map_or(&[], Vec::as_slice)
    }

    fn is_in_hand(&self, key: &str) -> bool {
        self.in_hand.as_ref().is_some_and(|(in_hand, _)| in_hand.as_str() == key)
    }

    fn queue(&mut self, delta: Delta<T>) {
        let key = delta.object.key();
        let Some(list) = self.deltas.get_mut(key.as_str()) else {
            let key = key.to_key();
            self.line.push_back(key.clone());
            self.deltas.insert(key, alloc::vec![delta]);
            return;
        };
        match list.last_mut() {
            Some(last) if last.kind == DeltaKind::Deleted && delta.kind == DeltaKind::Deleted => {
                // The first one is the one that happened, unless it was only inferred.
                if matches!(last.object, DeltaObject::Tombstone(_)) {
                    *last = delta;
                }
            }
            Some(_) | None => list.push(delta),
        }
    }

    #[cfg(not(debug_assertions))]
    fn check(&self) {}

    /// Asserts the invariants of the module header, on small queues: the check costs the size of the queue.
    #[cfg(debug_assertions)]
    fn check(&self) {
        assert_eq!(self.line.len(), self.deltas.len(), "a key is in the line exactly if it has deltas");
        if self.line.len() <= 64 {
            for key in &self.line {
                let list = self.deltas.get(key).expect("a key in the line has deltas");
                let two_deletions =
                    list.windows(2).any(|pair| pair.iter().all(|delta| delta.kind == DeltaKind::Deleted));
                assert!(!list.is_empty() && !two_deletions, "{list:?} of {key}");
            }
        }
    }
}

impl<T> Delta<T> {
    fn of(kind: DeltaKind, object: Obj<T>) -> Self {
        Delta { kind, object: DeltaObject::Object(object) }
    }
}

impl<T> DeltaObject<T> {
    /// Which object.
    pub fn key(&self) -> KeyRef<'_> {
        match self {
            DeltaObject::Object(object) => object.key(),
            DeltaObject::Tombstone(tombstone) => tombstone.key.borrowed(),
        }
    }

    /// The object, or the last state that is known of it.
    pub fn last(&self) -> Option<&Obj<T>> {
        match self {
            DeltaObject::Object(object) => Some(object),
            DeltaObject::Tombstone(tombstone) => tombstone.last.as_ref(),
        }
    }
}

impl<T> From<Obj<T>> for DeltaObject<T> {
    fn from(object: Obj<T>) -> Self {
        DeltaObject::Object(object)
    }
}

impl<T> Deltas<T> {
    /// Whose.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The deltas, the oldest first.
    pub fn iter(&self) -> core::slice::Iter<'_, Delta<T>> {
        self.list.iter()
    }

    /// The newest delta.
    pub fn newest(&self) -> &Delta<T> {
        self.list.last().expect("a list of deltas is never empty")
    }

    /// True if this belongs to the first list.
    pub fn is_initial(&self) -> bool {
        self.initial
    }

    /// Carries the deltas out in a store that is kept by hand, and says what changed: client-go's `processDeltas`.
    ///
    /// An object of a list that the store has at this very version is no change, and one that was deleted and made
    /// again unseen is deleted and added, as with [`Store::commit`]. The store's own version stays as it is.
    pub fn apply(self, store: &mut Store<T>) -> Vec<Notification<T>> {
        let mut told = Vec::with_capacity(self.list.len());
        for Delta { kind, object } in self.list {
            let cause = match kind {
                DeltaKind::Added | DeltaKind::Updated => Cause::Watch,
                DeltaKind::Sync => Cause::Resync,
                DeltaKind::Replaced if self.initial => Cause::List,
                DeltaKind::Replaced => Cause::Relist,
                DeltaKind::Deleted if matches!(object, DeltaObject::Tombstone(_)) => Cause::Relist,
                DeltaKind::Deleted => Cause::Watch,
            };
            let new = match (kind, object) {
                (DeltaKind::Deleted, object) => {
                    let Some(old) = store.remove(self.key.as_str()) else { continue };
                    let (object, known) = match object {
                        DeltaObject::Object(last) => (last, true),
                        DeltaObject::Tombstone(_) => (old.clone(), false),
                    };
                    told.push(Notification::Deleted { object, old, cause, final_state_known: known });
                    continue;
                }
                (_, DeltaObject::Object(new)) => new,
                (_, DeltaObject::Tombstone(_)) => unreachable!("a tombstone comes with Deleted only"),
            };
            let same = |old: &Obj<T>| old.uid() == new.uid() && old.version() == new.version();
            if kind == DeltaKind::Replaced && store.get(self.key.as_str()).is_some_and(same) {
                continue;
            }
            let initial = self.initial && kind == DeltaKind::Replaced;
            match store.upsert(new.clone()) {
                None => told.push(Notification::Added { object: new, initial, cause }),
                Some(old) if same_incarnation(old.uid(), new.uid()) => {
                    told.push(Notification::Updated { old, new, cause });
                }
                Some(old) => {
                    let object = old.clone();
                    told.push(Notification::Deleted { object, old, cause, final_state_known: false });
                    told.push(Notification::Added { object: new, initial, cause });
                }
            }
        }
        told
    }
}

impl<'a, T> IntoIterator for &'a Deltas<T> {
    type Item = &'a Delta<T>;
    type IntoIter = core::slice::Iter<'a, Delta<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T> Clone for Tombstone<T> {
    fn clone(&self) -> Self {
        Tombstone { key: self.key.clone(), last: self.last.clone() }
    }
}

impl<T> Clone for DeltaObject<T> {
    fn clone(&self) -> Self {
        match self {
            DeltaObject::Object(object) => DeltaObject::Object(object.clone()),
            DeltaObject::Tombstone(tombstone) => DeltaObject::Tombstone(tombstone.clone()),
        }
    }
}

impl<T> Clone for Delta<T> {
    fn clone(&self) -> Self {
        Delta { kind: self.kind, object: self.object.clone() }
    }
}

impl<T> fmt::Debug for Tombstone<T> {
    /// Identity only: a value may hold a Secret's data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.last {
            Some(last) => write!(f, "tombstone of {last:?}"),
            None => write!(f, "tombstone of {}", self.key),
        }
    }
}

impl<T> fmt::Debug for DeltaObject<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeltaObject::Object(object) => object.fmt(f),
            DeltaObject::Tombstone(tombstone) => tombstone.fmt(f),
        }
    }
}

impl<T> fmt::Debug for Delta<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?}", self.kind, self.object)
    }
}

impl<T> fmt::Debug for Deltas<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.list).finish()
    }
}

impl<T> fmt::Debug for DeltaFifo<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.line.iter().map(|key| (key, self.get(key.as_str())))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Uid, Version};
    use proptest::prelude::*;
    use std::format;
    use std::string::String;

    fn pod(name: &str, version: &str) -> Obj<()> {
        Obj::new(Key::new("", name), Uid::new("u"), Version::new(version), ())
    }

    fn tombstone(name: &str, version: &str) -> DeltaObject<()> {
        DeltaObject::Tombstone(Tombstone { key: Key::new("", name), last: Some(pod(name, version)) })
    }

    fn store(objects: &[(&str, &str)]) -> Store<()> {
        let mut store = Store::new(1);
        for (name, version) in objects {
            store.upsert(pod(name, version));
        }
        store
    }

    fn popped(fifo: &mut DeltaFifo<()>) -> Vec<String> {
        core::iter::from_fn(|| fifo.pop()).map(|deltas| format!("{deltas:?}")).collect()
    }

    #[test]
    fn a_key_keeps_its_place_and_is_popped_with_all_that_happened_to_it() {
        let mut fifo = DeltaFifo::new();
        fifo.add(pod("a", "1"));
        fifo.add(pod("b", "2"));
        fifo.update(pod("a", "3"));
        assert_eq!((fifo.len(), fifo.get("a").len(), fifo.get("c").len()), (2, 2, 0));
        assert_eq!(format!("{fifo:?}"), "{a: [Added a@1, Updated a@3], b: [Added b@2]}");
        let first = fifo.pop().unwrap();
        assert_eq!((first.key().as_str(), format!("{:?}", first.newest())), ("a", "Updated a@3".into()));
        fifo.update(pod("a", "4"));
        assert_eq!(popped(&mut fifo), ["[Added b@2]", "[Updated a@4]"], "once popped it stands in line again");
    }

    /// Trap 31.
    #[test]
    fn a_deletion_of_what_nobody_knows_is_dropped_and_counts_as_the_first_word() {
        let mut fifo = DeltaFifo::new();
        fifo.delete(pod("a", "1").into(), &NothingKnown);
        assert!(fifo.is_empty() && fifo.has_synced());
        fifo.delete(pod("a", "1").into(), &store(&[("a", "1")]));
        assert_eq!(popped(&mut fifo), ["[Deleted a@1]"]);
        fifo.add(pod("b", "2"));
        fifo.delete(pod("b", "3").into(), &NothingKnown);
        assert_eq!(popped(&mut fifo), ["[Added b@2, Deleted b@3]"], "queued is known (B085)");
    }

    /// Trap 38 and what it means here.
    #[test]
    fn a_list_without_a_queued_key_ends_it_with_a_tombstone_of_its_newest_state() {
        let mut fifo = DeltaFifo::new();
        fifo.add(pod("foo", "1"));
        fifo.update(pod("foo", "2"));
        fifo.replace([], &store(&[("foo", "1")]));
        assert_eq!(popped(&mut fifo), ["[Added foo@1, Updated foo@2, Deleted tombstone of foo@2]"]);
        let known = store(&[("foo", "1")]);
        fifo.delete(pod("foo", "3").into(), &known);
        fifo.replace([], &known);
        assert_eq!(popped(&mut fifo), ["[Deleted foo@3]"], "it ends with a deletion already");
    }

    #[test]
    fn a_list_comes_first_then_tombstones_of_what_is_queued_then_of_what_is_known() {
        let known = store(&[("a", "1"), ("k", "2"), ("q", "3")]);
        let mut fifo = DeltaFifo::new();
        fifo.update(pod("q", "4"));
        fifo.replace([pod("n", "6"), pod("a", "5"), pod("n", "7")], &known);
        assert_eq!(
            popped(&mut fifo),
            [
                "[Updated q@4, Deleted tombstone of q@4]",
                "[Replaced n@6, Replaced n@7]",
                "[Replaced a@5]",
                "[Deleted tombstone of k@2]"
            ]
        );
    }

    /// Traps 39 and 40.
    #[test]
    fn synced_means_the_first_list_is_popped_or_was_empty_or_something_else_came_first() {
        let mut fifo = DeltaFifo::<()>::new();
        assert!(!fifo.has_synced());
        fifo.replace([], &NothingKnown);
        assert!(fifo.has_synced());

        let mut fifo = DeltaFifo::new();
        fifo.add(pod("a", "1"));
        assert!(fifo.has_synced());
        fifo.replace([pod("b", "1")], &NothingKnown);
        assert!(fifo.has_synced() && !fifo.pop().unwrap().is_initial());

        let mut fifo = DeltaFifo::new();
        fifo.replace([pod("a", "1"), pod("a", "2"), pod("b", "3")], &store(&[("gone", "1")]));
        fifo.add(pod("later", "4"));
        for key in ["a", "b", "gone"] {
            assert!(!fifo.has_synced());
            let deltas = fifo.pop().unwrap();
            assert_eq!((deltas.key().as_str(), deltas.is_initial()), (key, true));
        }
        assert!(fifo.has_synced() && !fifo.pop().unwrap().is_initial());
    }

    /// Trap 46.
    #[test]
    fn of_two_deletions_the_one_with_the_real_final_state_stays() {
        let known = store(&[("a", "1")]);
        let both = |first: DeltaObject<()>, second: DeltaObject<()>| {
            let mut fifo = DeltaFifo::new();
            fifo.delete(first, &known);
            fifo.delete(second, &known);
            popped(&mut fifo).join("")
        };
        assert_eq!(both(tombstone("a", "1"), pod("a", "2").into()), "[Deleted a@2]");
        assert_eq!(both(pod("a", "2").into(), tombstone("a", "1")), "[Deleted a@2]");
        assert_eq!(both(pod("a", "2").into(), pod("a", "3").into()), "[Deleted a@2]", "the older");
        assert_eq!(both(tombstone("a", "1"), tombstone("a", "2")), "[Deleted tombstone of a@2]");
        let mut fifo = DeltaFifo::new();
        fifo.add(pod("a", "1"));
        fifo.delete(pod("a", "2").into(), &known);
        fifo.add(pod("a", "3"));
        assert_eq!(popped(&mut fifo), ["[Added a@1, Deleted a@2, Added a@3]"]);
    }

    /// Trap 47.
    #[test]
    fn a_resync_passes_over_what_has_something_queued() {
        let known = store(&[("a", "1"), ("b", "2")]);
        let mut fifo = DeltaFifo::new();
        fifo.delete(pod("a", "3").into(), &known);
        fifo.resync(&known);
        fifo.resync(&known);
        fifo.resync(&NothingKnown);
        assert_eq!(popped(&mut fifo), ["[Deleted a@3]", "[Sync b@2]"]);
        assert!(fifo.is_empty());
    }

    /// B077: between pop and the store.
    #[test]
    fn what_is_in_hand_counts_as_known_until_it_is_done() {
        let mut fifo = DeltaFifo::new();
        fifo.add(pod("a", "1"));
        let in_hand = fifo.pop();
        fifo.delete(pod("a", "2").into(), &NothingKnown);
        assert_eq!((in_hand.unwrap().list.len(), popped(&mut fifo)), (1, std::vec!["[Deleted a@2]".into()]));

        fifo.add(pod("b", "1"));
        let _in_hand = fifo.pop();
        fifo.replace([], &NothingKnown);
        fifo.resync(&store(&[("b", "1")]));
        assert_eq!(popped(&mut fifo), ["[Deleted tombstone of b@1]"]);

        fifo.add(pod("c", "1"));
        let _in_hand = fifo.pop();
        fifo.resync(&store(&[("c", "0")]));
        fifo.done();
        fifo.delete(pod("c", "2").into(), &NothingKnown);
        assert_eq!(popped(&mut fifo), [""; 0], "nobody took it");

        fifo.delete(pod("d", "2").into(), &store(&[("d", "1")]));
        let _in_hand = fifo.pop();
        fifo.replace([], &store(&[("d", "1")]));
        assert_eq!(popped(&mut fifo), [""; 0], "its deletion is being applied");
    }

    #[test]
    fn a_closed_queue_is_popped_to_its_end_and_refuses_nothing() {
        let mut fifo = DeltaFifo::new();
        fifo.add(pod("a", "1"));
        fifo.close();
        fifo.add(pod("b", "2"));
        assert!(fifo.is_closed());
        assert_eq!(popped(&mut fifo), ["[Added a@1]", "[Added b@2]"]);
    }

    proptest! {
        /// Whatever comes in which order, a store that applies what is popped ends where a map does that applies each
        /// change at once.
        #[test]
        fn a_store_behind_the_queue_ends_like_one_without(
            ops in prop::collection::vec((0u8..6, 0u8..4, prop::collection::btree_set(0u8..4, 0..4)), 0..120),
        ) {
            let (mut fifo, mut store, mut model) = (DeltaFifo::new(), Store::new(1), BTreeMap::new());
            let mut view = BTreeMap::new();
            let mut take = |fifo: &mut DeltaFifo<()>, store: &mut Store<()>| {
                for told in fifo.pop().into_iter().flat_map(|deltas| deltas.apply(store)) {
                    let key = told.key().to_key();
                    let before = match &told {
                        Notification::Deleted { .. } => view.remove(&key),
                        Notification::Added { object: new, .. } | Notification::Updated { new, .. } => {
                            view.insert(key, new.version().to_version())
                        }
                    };
                    assert_eq!(before.as_ref().map(Version::borrowed), told.old().map(|old| old.version()), "{told:?}");
                }
            };
            for (version, (op, key, set)) in ops.into_iter().enumerate() {
                let pod = |key: u8| pod(&format!("{key}"), &format!("{}", version + 1));
                match op {
                    0 => { fifo.add(pod(key)); model.insert(key, version); }
                    1 => { fifo.update(pod(key)); model.insert(key, version); }
                    2 => { fifo.delete(pod(key).into(), &store); model.remove(&key); }
                    3 => {
                        fifo.replace(set.iter().map(|key| pod(*key)), &store);
                        model = set.into_iter().map(|key| (key, version)).collect();
                    }
                    4 => fifo.resync(&store),
                    _ => take(&mut fifo, &mut store),
                }
            }
            while !fifo.is_empty() {
                take(&mut fifo, &mut store);
            }
            let got: BTreeMap<String, String> =
                store.iter().map(|object| (format!("{}", object.key()), format!("{}", object.version()))).collect();
            let want: BTreeMap<String, String> =
                model.into_iter().map(|(key, version)| (format!("{key}"), format!("{}", version + 1))).collect();
            prop_assert_eq!(&got, &want);
            let view: BTreeMap<String, String> =
                view.into_iter().map(|(key, version)| (format!("{key}"), format!("{version}"))).collect();
            prop_assert_eq!(&view, &want);
        }
    }
}
