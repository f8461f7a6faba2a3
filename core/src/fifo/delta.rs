//! [`DeltaFifo`]: per key the list of what happened to it, keys in the order in which they came.
//!
//! ```text
//!   keys:    web/a ──► web/c ──► web/b          pop takes the first key with all of its deltas
//!   deltas:  Added     Replaced  Deleted
//!            Updated             Replaced
//! ```
//!
//! client-go's queue of the same name: a key keeps its place however often it changes, so the order across keys is lost
//! and the order within a key is kept. For programs that want to look at several changes of one object at a time, or that
//! are being moved from client-go. An informer that is to work like that is told so with
//! [`QueueKind::DeltaFifo`](super::QueueKind).
//!
//! Invariants, asserted in debug builds, are those of the lines it is made of (`lines.rs`): no two deletions of a key are
//! neighbours (trap 46), and beyond the exact part no line is longer than two.
//!
//! The queue has to know what its consumer knows already ([`KnownObjects`]; a [`Store`] is the usual one), to tell which
//! deletions mean something. What was popped last counts as known until [`done`](DeltaFifo::done) or the next
//! [`pop`](DeltaFifo::pop): so a deletion that arrives while an addition is being applied is not lost (B077).
//!
//! What is known to surprise users of client-go's queue, and the test in `delta/tests.rs` that says what holds here:
//!
//! | trap | test |
//! |---|---|
//! | 31 deletion of an unknown key | `a_deletion_of_what_nobody_knows_is_dropped_and_counts_as_the_first_word` |
//! | 32 addition of a known key, change of an unknown one | `what_is_told_follows_from_the_store_and_not_from_the_kind_of_the_event` |
//! | 33 final state | `a_deletion_carries_the_state_of_its_event_and_a_tombstone_the_cached_one` |
//! | 34 made again unseen | `b081_…` in `mod.rs` |
//! | 35, 36 order of a relist, object by object | `a_list_comes_first_then_tombstones_of_what_is_queued_then_of_what_is_known` |
//! | 37 the old state of a second change | `the_second_change_of_a_key_is_told_with_the_first_as_its_old_state` |
//! | 38 a list without a queued key | `a_list_without_a_queued_key_ends_it_with_a_tombstone_of_its_newest_state` |
//! | 39, 40 when it is synced | `synced_means_the_first_list_is_applied_or_was_empty_or_something_else_came_first` |
//! | 41 what is initial | `what_belongs_to_the_first_list_is_marked_and_nothing_else_is` |
//! | 42 processing fails | `what_could_not_be_processed_is_queued_again_before_what_came_meanwhile` |
//! | 43, 44 the transform refuses | `a_list_with_an_object_that_the_transform_refuses_is_refused_whole`, `a_deletion_is_queued_even_if_the_transform_refuses_its_final_state` |
//! | 45 the transform renames | `the_transform_runs_once_per_object_and_never_for_tombstones_and_resyncs` |
//! | 46 two deletions | `of_two_deletions_the_one_with_the_real_final_state_stays` |
//! | 47 resync of what is queued | `a_resync_passes_over_what_has_something_queued` |
//! | 48 what is queued at the end | `a_closed_queue_is_popped_to_its_end_and_refuses_nothing` |
//!
//! Otherwise than in client-go: what was popped and could not be processed is not lost (42) and keeps the queue from being
//! synced; "synced" waits until the last object is applied, not until it is popped; a list that the transform refuses leaves
//! nothing behind, and a deletion that it refuses deletes (44); a list of deltas is never empty; the queue is bounded.
//!
//! ```
//! use informer_core::fifo::{DeltaFifo, DeltaKind};
//! use informer_core::store::Store;
//! use informer_core::{Key, Obj, Uid, Version};
//!
//! let pod = |name: &str, version: &str| Obj::new(Key::new("web", name), Uid::new("u"), Version::new(version), ());
//! let (mut fifo, mut store) = (DeltaFifo::new(), Store::new(7));
//! fifo.replace([pod("a", "1"), pod("b", "2")], &store)?;
//! fifo.update(pod("a", "3"))?;
//! assert!(!fifo.has_synced());
//!
//! let deltas = fifo.pop().unwrap();
//! assert_eq!(deltas.iter().map(|delta| delta.kind).collect::<Vec<_>>(), [DeltaKind::Replaced, DeltaKind::Updated]);
//! let told = deltas.apply(&mut store);
//! assert_eq!(format!("{told:?}"), "[added web/a@1 by List, updated web/a@3 (was 1) by Watch]");
//!
//! assert_eq!(fifo.pop().unwrap().key().as_str(), "web/b");
//! fifo.done();
//! assert!(fifo.has_synced() && fifo.pop().is_none());
//! # Ok::<(), informer_core::decode::BadItem>(())
//! ```

use super::lines::{End, Happened, Line, Lines};
use crate::decode::BadItem;
use crate::listener::{Cause, Notification};
use crate::object::{DecodeError, Key, KeyRef, Obj};
use crate::store::{Store, same_incarnation};
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
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

/// Anything that says which object it is about: client-go's `KeyOf`.
pub trait KeyOf {
    /// `namespace/name` or `name`.
    fn key_of(&self) -> &str;
}

impl KeyOf for str {
    /// The key itself: client-go's `ExplicitKey`.
    fn key_of(&self) -> &str {
        self
    }
}

impl KeyOf for Key {
    fn key_of(&self) -> &str {
        self.as_str()
    }
}

impl<T> KeyOf for Obj<T> {
    fn key_of(&self) -> &str {
        self.key().as_str()
    }
}

impl<T> KeyOf for Tombstone<T> {
    fn key_of(&self) -> &str {
        self.key.as_str()
    }
}

impl<T> KeyOf for DeltaObject<T> {
    fn key_of(&self) -> &str {
        self.key().as_str()
    }
}

impl<T> KeyOf for Delta<T> {
    fn key_of(&self) -> &str {
        self.object.key_of()
    }
}

impl<T> KeyOf for Deltas<T> {
    fn key_of(&self) -> &str {
        self.key.as_str()
    }
}

/// How many deltas a queue keeps exactly beside one for each key; see [`DeltaFifo::exact`]. A consumer that is so many
/// changes behind wants to know what is there now.
pub const EXACT_DELTAS: usize = 64 * 1024;

type Transform<T> = dyn Fn(&Obj<T>) -> Result<T, DecodeError> + Send + Sync;

/// The queue. It holds one line of deltas per key. Beyond its [exact](Self::exact) part no line grows longer than two
/// deltas: the memory is bounded by the keys.
pub struct DeltaFifo<T> {
    lines: Lines<Delta<T>>,
    /// What was popped last and may not be known yet.
    in_hand: Option<InHand<T>>,
    transform: Option<Arc<Transform<T>>>,
    /// How an object of a list is queued.
    listed: DeltaKind,
    /// Something was put in.
    populated: bool,
    /// Lines of the first list that were not popped.
    initial: usize,
    closed: bool,
}

struct InHand<T> {
    key: Key,
    newest: Delta<T>,
    initial: bool,
}

impl<T> Default for DeltaFifo<T> {
    fn default() -> Self {
        DeltaFifo {
            lines: Lines::new(EXACT_DELTAS),
            in_hand: None,
            transform: None,
            listed: DeltaKind::Replaced,
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

    /// An empty queue that keeps so many deltas as they came, beside one for each key. What comes while there are more is
    /// merged with the newest delta of its key: a change takes the place of a change, and what came and went behind a
    /// deletion is forgotten. So a consumer is still told added, updated, deleted in an order that makes sense.
    /// [`EXACT_DELTAS`] by default; with `usize::MAX` it is as client-go's, without a bound.
    pub fn exact(deltas: usize) -> Self {
        DeltaFifo { lines: Lines::new(deltas), ..Self::default() }
    }

    /// Changes each object once, before it is queued: those of [`add`](Self::add), [`update`](Self::update),
    /// [`delete`](Self::delete) and [`replace`](Self::replace), and never a tombstone or what a resync repeats, which
    /// have been changed before. Identity and version stand beside the value, out of its reach (trap 45).
    pub fn transformed(
        mut self,
        transform: impl Fn(&Obj<T>) -> Result<T, DecodeError> + Send + Sync + 'static,
    ) -> Self {
        self.transform = Some(Arc::new(transform));
        self
    }

    /// Queues the objects of a list as `Sync` instead of `Replaced`, for consumers that know only that: client-go with
    /// `EmitDeltaTypeReplaced` off. They are transformed all the same.
    pub fn replaced_as_sync(mut self) -> Self {
        self.listed = DeltaKind::Sync;
        self
    }

    /// Queues an object that is there now.
    ///
    /// # Errors
    ///
    /// If the transform refuses it; nothing is queued then.
    pub fn add(&mut self, object: Obj<T>) -> Result<(), BadItem> {
        self.change(DeltaKind::Added, object)
    }

    /// Queues an object that changed.
    ///
    /// # Errors
    ///
    /// If the transform refuses it; nothing is queued then.
    pub fn update(&mut self, object: Obj<T>) -> Result<(), BadItem> {
        self.change(DeltaKind::Updated, object)
    }

    fn change(&mut self, kind: DeltaKind, object: Obj<T>) -> Result<(), BadItem> {
        self.populated = true;
        let object = self.transform(object)?;
        self.queue(Delta::of(kind, object));
        Ok(())
    }

    /// Queues a deletion. One of a key that is neither queued nor known is dropped (trap 31), but what comes first
    /// makes the queue count as synced all the same.
    ///
    /// # Errors
    ///
    /// If the transform refuses the final state; the deletion is queued all the same, as a tombstone of the state that
    /// is known: what is gone must not stay.
    pub fn delete(&mut self, object: DeltaObject<T>, known: &impl KnownObjects<T>) -> Result<(), BadItem> {
        self.populated = true;
        let key = object.key().as_str();
        if self.lines.get(key).is_none() && !self.is_in_hand(key) && known.get(key).is_none() {
            return Ok(());
        }
        let (object, outcome) = match object {
            DeltaObject::Tombstone(tombstone) => (DeltaObject::Tombstone(tombstone), Ok(())),
            DeltaObject::Object(object) => {
                let key = object.key().to_key();
                match self.transform(object) {
                    Ok(object) => (DeltaObject::Object(object), Ok(())),
                    Err(bad) => {
                        let last = self.newest(key.as_str()).or_else(|| known.get(key.as_str())).cloned();
                        (DeltaObject::Tombstone(Tombstone { key, last }), Err(bad))
                    }
                }
            }
        };
        self.queue(Delta { kind: DeltaKind::Deleted, object });
        outcome
    }

    /// Queues a complete list: first a `Replaced` for each object of it, in its order; then a tombstone for each key
    /// that is queued and not in the list, and for each that is known and not in the list. The first list, if nothing
    /// came before it, is the initial population that [`has_synced`](Self::has_synced) waits for.
    ///
    /// # Errors
    ///
    /// If the transform refuses an object; nothing of the list is queued then (trap 44).
    pub fn replace(
        &mut self,
        list: impl IntoIterator<Item = Obj<T>>,
        known: &impl KnownObjects<T>,
    ) -> Result<(), BadItem> {
        let list = list.into_iter().map(|object| self.transform(object)).collect::<Result<Vec<_>, _>>()?;
        let mut keys = BTreeSet::new();
        for object in list {
            keys.insert(object.key().to_key());
            self.queue(Delta::of(self.listed, object));
        }
        let mut gone: Vec<Tombstone<T>> = Vec::new();
        for key in self.lines.keys().filter(|key| !keys.contains(*key)) {
            gone.push(Tombstone { key: key.clone(), last: self.newest(key.as_str()).cloned() });
        }
        let alive = self.in_hand.as_ref().filter(|in_hand| in_hand.newest.kind != DeltaKind::Deleted);
        if let Some(InHand { key, newest, .. }) = alive {
            if !keys.contains(key) && self.lines.get(key.as_str()).is_none() {
                gone.push(Tombstone { key: key.clone(), last: newest.object.last().cloned() });
            }
        }
        for object in known.iter() {
            let key = object.key();
            let queued = self.lines.get(key.as_str()).is_some() || self.is_in_hand(key.as_str());
            if !queued && !keys.contains(key.as_str()) {
                gone.push(Tombstone { key: key.to_key(), last: Some(object.clone()) });
            }
        }
        let first = !self.populated;
        self.populated = true;
        for tombstone in gone {
            if first {
                keys.insert(tombstone.key.clone());
            }
            self.queue(Delta { kind: DeltaKind::Deleted, object: DeltaObject::Tombstone(tombstone) });
        }
        if first {
            self.initial = keys.len();
            for key in &keys {
                self.lines.get_mut(key.as_str()).expect("each key of the first list has a line").initial = true;
            }
        }
        Ok(())
    }

    /// Queues a `Sync` for each known object that has nothing queued (trap 47): what is on its way is news enough, and
    /// one whose deletion waits must not come back (B089).
    pub fn resync(&mut self, known: &impl KnownObjects<T>) {
        let quiet = |object: &&Obj<T>| {
            let key = object.key().as_str();
            self.lines.get(key).is_none() && !self.is_in_hand(key)
        };
        let quiet: Vec<_> = known.iter().filter(quiet).cloned().collect();
        for object in quiet {
            self.queue(Delta::of(DeltaKind::Sync, object));
        }
    }

    /// Takes the key that waits longest, with all of its deltas. `None` if nothing is queued; for a queue that is
    /// [closed](Self::is_closed) this is the end.
    pub fn pop(&mut self) -> Option<Deltas<T>> {
        self.done();
        let (key, Line { list, initial }) = self.lines.pop()?;
        self.initial -= usize::from(initial);
        let newest = list.last().expect("a line is never empty").clone();
        self.in_hand = Some(InHand { key: key.clone(), newest, initial });
        Some(Deltas { key, list, initial })
    }

    /// What was popped last is applied. The next [`pop`](Self::pop) says so too.
    pub fn done(&mut self) {
        self.in_hand = None;
    }

    /// What was popped last could not be applied: it is queued again, at the end, and before what happened to its key
    /// meanwhile. What belongs to the first list still does.
    ///
    /// # Panics
    ///
    /// If it is not what was popped last, or is [done](Self::done): a list may have gone by that saw the key neither
    /// queued nor known, and what it said would be undone.
    pub fn requeue(&mut self, deltas: Deltas<T>) {
        let Deltas { key, list, initial } = deltas;
        assert!(self.is_in_hand(key.as_str()), "{key} is queued again before the next pop() or done(), or not at all");
        self.in_hand = None;
        let counted = self.lines.get(key.as_str()).is_some_and(|line| line.initial);
        self.lines.put_back(&key, list, initial);
        self.initial += usize::from(initial && !counted);
    }

    /// Takes the next key and has its deltas processed; queues them again after an error, as [`requeue`](Self::requeue)
    /// does. `None` if nothing is queued. (client-go loses them: trap 42.)
    pub fn process<R, E>(&mut self, work: impl FnOnce(&Deltas<T>) -> Result<R, E>) -> Option<Result<R, E>> {
        let deltas = self.pop()?;
        let outcome = work(&deltas);
        match outcome {
            Ok(_) => self.done(),
            Err(_) => self.requeue(deltas),
        }
        Some(outcome)
    }

    /// True once the first list was popped to its end and is [done](Self::done), or at once if something else came first
    /// (trap 40), or if that list was empty (trap 39).
    pub fn has_synced(&self) -> bool {
        let in_hand = self.in_hand.as_ref().is_some_and(|in_hand| in_hand.initial);
        self.populated && self.initial == 0 && !in_hand
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
        self.lines.len()
    }

    /// True if nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The keys that are queued, that which waits longest first.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.lines.keys()
    }

    /// What is queued for the key of `of`, the oldest first; empty if nothing is.
    pub fn get(&self, of: &(impl KeyOf + ?Sized)) -> &[Delta<T>] {
        self.lines.get(of.key_of()).map_or(&[], |line| line.list.as_slice())
    }

    /// The newest state of a key that is queued or in hand.
    fn newest(&self, key: &str) -> Option<&Obj<T>> {
        let in_hand = || self.in_hand.as_ref().filter(|in_hand| in_hand.key.as_str() == key);
        self.get(key).last().or_else(|| in_hand().map(|in_hand| &in_hand.newest))?.object.last()
    }

    fn is_in_hand(&self, key: &str) -> bool {
        self.in_hand.as_ref().is_some_and(|in_hand| in_hand.key.as_str() == key)
    }

    fn transform(&self, object: Obj<T>) -> Result<Obj<T>, BadItem> {
        let Some(transform) = &self.transform else { return Ok(object) };
        let (key, uid, version) = (object.key().to_key(), object.uid().to_uid(), object.version().to_version());
        match transform(&object) {
            Ok(value) => Ok(Obj::new(key, uid, version, value)),
            Err(refused) => Err(BadItem::new(Some(key), version, refused)),
        }
    }

    fn queue(&mut self, delta: Delta<T>) {
        let key = delta.object.key().to_key();
        drop(self.lines.push(&key, delta));
    }
}

impl<T> Happened for Delta<T> {
    fn end(&self) -> Option<End> {
        match (self.kind, &self.object) {
            (DeltaKind::Deleted, DeltaObject::Object(_)) => Some(End::Seen),
            (DeltaKind::Deleted, DeltaObject::Tombstone(_)) => Some(End::Inferred),
            (DeltaKind::Added | DeltaKind::Updated | DeltaKind::Replaced | DeltaKind::Sync, _) => None,
        }
    }

    fn absorbed(self, next: Self) -> (Self, Option<Self>) {
        // What a consumer knows decides whether the outcome is an addition; a mere repetition is no longer one.
        let kind = if self.kind == DeltaKind::Sync { next.kind } else { self.kind };
        (Delta { kind, object: next.object }, Some(self))
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
    pub fn apply(&self, store: &mut Store<T>) -> Vec<Notification<T>> {
        let mut told = Vec::with_capacity(self.list.len());
        for Delta { kind, object } in self.list.iter().cloned() {
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
            let initial = self.initial && matches!(kind, DeltaKind::Replaced | DeltaKind::Sync);
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
        f.debug_map().entries(self.keys().map(|key| (key, self.get(key)))).finish()
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
