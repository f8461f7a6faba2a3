//! The cache of one informer: objects by key, indexes, the version it stands for.
//!
//! ```text
//!            ┌────────── slots: Obj, Obj, –, Obj … (chunks, copied only if a snapshot holds them)
//!  by key ───┤
//!  index  ───┘  a bucket per value, holding slot numbers
//! ```
//!
//! A [`Store`] is passive: whoever owns it changes it through [`commit`](Store::commit) with what the machine decided,
//! and gets the [`Notification`]s back. There is one writer. Invariants:
//!
//! - every object is found under its key, and only there (I6);
//! - every index equals a recomputation (I7); no bucket is empty;
//! - a commit is whole: after it returns, readers see all of it (I6), and the store already has each change whose
//!   notification it returned (I14).
//!
//! In debug builds each change of a store of at most 64 objects asserts the first, and that each index agrees with itself;
//! that it equals a recomputation, which is user code, and all of the third is what tests compare with a naive store
//! (`core/tests/store.rs`, `indexes.rs`).
//!
//! ```
//! use informer_core::store::{IndexDef, Store};
//! use informer_core::{Key, Obj, Uid, Version};
//!
//! let mut store = Store::<u32>::new(7);
//! store.add_index(IndexDef::new("parity", |n| if **n % 2 == 0 { "even" } else { "odd" })).unwrap();
//! for n in 1..=3 {
//!     store.upsert(Obj::new(Key::new("ns", &n.to_string()), Uid::new("u"), Version::new("1"), n));
//! }
//! assert_eq!(store.by_index("parity", "odd").unwrap().count(), 2);
//! assert_eq!(**store.get("ns/2").unwrap(), 2);
//! ```

mod def;
mod freshness;
mod index;
mod postings;
mod slots;
mod staged;
mod value;
mod word;

pub use def::{IndexDef, IndexError, LABEL_PREFIX, NAMESPACE};
pub use freshness::{Goal, Seen, Unreachable};
pub use slots::{Slot, Snapshot};
pub use staged::Staged;
pub use value::{IndexValue, IndexValues, ValueText, Values};

pub(crate) use def::{Lent, Source};
pub(crate) use index::Index;
pub(crate) use slots::{Part, PartIter};
pub(crate) use word::{Word, Words, merge};

use crate::decode::{BadItem, Gone, Guard, Indexers, Item, NoGuard, drop_guarded};
use crate::fifo::COMMIT_EVENTS;
use crate::listener::{Cause, Notification};
use crate::object::{Key, Obj, UidRef, Version, VersionRef};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::hash::BuildHasher;
use core::hint;
use foldhash::SharedSeed;
use foldhash::fast::SeedableRandomState;
use hashbrown::HashTable;
use slots::{SlotSet, Slots};
use smallvec::SmallVec;
use value::ValueType;

/// An object on its way into the store, with its index values.
pub struct Fresh<T> {
    pub(crate) object: Obj<T>,
    /// Of each index but those of namespaces, in the order of the indexes.
    pub(crate) values: AllValues,
    /// Which set of index functions made `values`.
    pub(crate) generation: u64,
    /// Where the version alone may not say that the store has this object already: what compares contents.
    pub(crate) same: Option<fn(&T, &T) -> bool>,
}

/// The values of an object in each index whose function computes some.
pub(crate) type AllValues = SmallVec<[Values; 2]>;

impl<T> Fresh<T> {
    /// An object whose index values the store computes itself.
    pub(crate) fn bare(object: Obj<T>) -> Self {
        Fresh { object, values: SmallVec::new(), generation: u64::MAX, same: None }
    }

    /// Computes the values anew if other index functions made them.
    pub(crate) fn reindex(&mut self, indexers: &Indexers<T>, guard: &dyn Guard) -> Result<(), BadItem> {
        if self.generation == indexers.generation {
            return Ok(());
        }
        if !indexers.run_user_code() {
            self.values.clear();
            self.generation = indexers.generation;
            return Ok(());
        }
        let (mut values, mut has_run) = (AllValues::new(), false);
        let ran = guard.run(&mut || {
            indexers.values(&self.object, &mut values);
            has_run = true;
        });
        match (ran, has_run) {
            (Ok(()), true) => {
                (self.values, self.generation) = (values, indexers.generation);
                Ok(())
            }
            (ran, _) => {
                let panic = ran.err().unwrap_or_else(|| String::from("it did not run"));
                let reason = indexers.panicked(&values, &panic);
                Err(BadItem::new(Some(self.object.key().to_key()), self.object.version().to_version(), reason))
            }
        }
    }
}

/// A change that the machine decided on. Carried out by [`Store::commit`].
pub struct Commit<T> {
    pub(crate) change: Change<T>,
    /// The version that the store stands for afterwards.
    pub(crate) version: Moves,
    /// Where notifications are to go.
    pub(crate) told: Vec<Notification<T>>,
}

/// Where the version of the store moves to with a commit.
pub(crate) enum Moves {
    /// To that of the last event that has one: all that came before it is applied.
    WithEvents,
    To(Version),
    /// It stays: an older change waits.
    No,
}

pub(crate) enum Change<T> {
    /// Events of a watch.
    Events(Vec<Item<T>>),
    /// A complete list.
    Replace(Staged<T>),
    /// Only the version moves (a bookmark).
    Nothing,
}

impl<T> Commit<T> {
    /// True for a list: a driver may then build the result aside and swap it in.
    pub fn is_list(&self) -> bool {
        matches!(self.change, Change::Replace(_))
    }

    /// The objects that it brings in, in order, before anybody can see them.
    pub fn objects(&self) -> impl Iterator<Item = &Obj<T>> {
        let (items, listed) = match &self.change {
            Change::Events(items) => (items.as_slice(), &[][..]),
            Change::Replace(staged) => (&[][..], staged.fresh.as_slice()),
            Change::Nothing => (&[][..], &[][..]),
        };
        let events = items.iter().filter_map(|item| match item {
            Item::Fresh { fresh, .. } => Some(&fresh.object),
            Item::Unchanged(_) | Item::Gone { .. } | Item::Bad { .. } => None,
        });
        events.chain(listed.iter().flatten().map(|fresh| &fresh.object))
    }

    /// The staged list, if it is one.
    pub fn staged(&self) -> Option<&Staged<T>> {
        match &self.change {
            Change::Replace(staged) => Some(staged),
            Change::Events(_) | Change::Nothing => None,
        }
    }

    /// Drops from a list what the store turns out to have already, after a server was set back or might have been. May
    /// compare contents, which is user code: call it under no lock that a reader takes, with what gives the store's object
    /// of a key and its place; then [`Store::commit`] compares none. A comparison that panics counts as a difference.
    pub fn settle(&mut self, guard: &dyn Guard, known: impl Fn(&str) -> Option<(Slot, Obj<T>)>) {
        if let Change::Replace(staged) = &mut self.change {
            staged.settle(guard, known);
        }
    }

    /// Computes the index values of objects that were decoded before `indexers` were in force. User code: call it under
    /// no lock that a reader takes, then [`Store::commit`] runs none. An object on which an index function panics is
    /// quarantined.
    pub fn reindex(&mut self, indexers: &Indexers<T>, guard: &dyn Guard) {
        match &mut self.change {
            Change::Events(items) => {
                for item in items {
                    let Item::Fresh { known, fresh } = item else { continue };
                    if let Err(bad) = fresh.reindex(indexers, guard) {
                        let bad = Item::Bad { known: *known, bad };
                        drop_guarded(guard, core::mem::replace(item, bad));
                    }
                }
            }
            Change::Replace(staged) => staged.reindex(indexers, guard),
            Change::Nothing => {}
        }
    }
}

/// The memory of a commit, which goes around: out of the machine with a [`Commit`], and back with its [`Receipt`].
pub(crate) struct Spare<T> {
    pub(crate) items: Vec<Item<T>>,
    pub(crate) told: Vec<Notification<T>>,
}

impl<T> Default for Spare<T> {
    fn default() -> Self {
        Spare { items: Vec::new(), told: Vec::new() }
    }
}

/// What a commit did.
#[must_use = "handlers must be told"]
pub struct Committed<T> {
    /// What changed, in the order in which handlers are told. If it is drained rather than consumed, its memory serves
    /// the next commit: see [`into_receipt`](Self::into_receipt).
    pub notifications: Vec<Notification<T>>,
    /// Last states of objects that the store did not have, and objects of a list that had a later word about their key.
    /// Nobody is told of them; they are here so that they are dropped behind the lock of the store and not under it.
    pub dropped: Vec<Obj<T>>,
    /// What the machine must hear.
    pub receipt: Receipt<T>,
}

impl<T> Committed<T> {
    /// What the machine must hear, and with it the memory of the notifications, so that the next commit needs none.
    /// Notifications that are still there are dropped.
    pub fn into_receipt(mut self) -> Receipt<T> {
        self.notifications.clear();
        self.receipt.spare.told = self.notifications;
        self.receipt
    }
}

/// The machine's part of a [`Committed`].
#[must_use = "the machine waits for it"]
pub struct Receipt<T> {
    /// True if this was the first complete list of an empty store: handlers get the whole store as their initial
    /// state, and there are no notifications.
    pub(crate) first_list: bool,
    /// Items that could not be built, each reported once per version.
    pub(crate) quarantined: Vec<BadItem>,
    pub(crate) spare: Spare<T>,
}

impl<T> Default for Receipt<T> {
    fn default() -> Self {
        Receipt { first_list: false, quarantined: Vec::new(), spare: Spare::default() }
    }
}

impl<T> core::fmt::Debug for Receipt<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Receipt { first_list, quarantined, spare: _ } = self;
        f.debug_struct("Receipt").field("first_list", first_list).field("quarantined", quarantined).finish()
    }
}

/// The cache.
pub struct Store<T> {
    slots: Slots<T>,
    by_key: HashTable<u32>,
    hasher: SeedableRandomState,
    indexes: Vec<Index>,
    indexers: Indexers<T>,
    /// Objects whose newest version could not be decoded: what the store has is older.
    stale: SlotSet,
    quarantine: BTreeMap<Key, BadItem>,
    /// Written in place.
    version: Version<String>,
    /// Moves with every object that comes, changes or goes.
    revision: u64,
    populated: bool,
    /// It had a state before the first list of this run.
    preloaded: bool,
    /// Moves with every list that is older than the one before.
    set_backs: u64,
}

impl<T> Clone for Store<T> {
    /// Shares the objects; tables are copied. Meant for building a large relist aside.
    fn clone(&self) -> Self {
        Store {
            slots: self.slots.clone(),
            by_key: self.by_key.clone(),
            hasher: self.hasher.clone(),
            indexes: self.indexes.clone(),
            indexers: self.indexers.clone(),
            stale: self.stale.clone(),
            quarantine: self.quarantine.clone(),
            version: self.version.clone(),
            revision: self.revision,
            populated: self.populated,
            preloaded: self.preloaded,
            set_backs: self.set_backs,
        }
    }
}

impl<T> Store<T> {
    /// An empty store. `seed` guards its hash tables against chosen keys; a simulation passes a fixed one.
    pub fn new(seed: u64) -> Self {
        Store {
            slots: Slots::new(),
            by_key: HashTable::new(),
            hasher: SeedableRandomState::with_seed(seed, SharedSeed::global_fixed()),
            indexes: Vec::new(),
            indexers: Indexers { generation: 0, list: [].into() },
            stale: SlotSet::default(),
            quarantine: BTreeMap::new(),
            version: Version::<String>::default(),
            revision: 0,
            populated: false,
            preloaded: false,
            set_backs: 0,
        }
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True once a complete list was committed.
    pub fn is_populated(&self) -> bool {
        self.populated
    }

    /// The version that the store stands for: every change up to it is applied. Empty before the first list.
    pub fn version(&self) -> VersionRef<'_> {
        self.version.borrowed()
    }

    /// A number that moves with every object that comes, changes or goes: while it stays, so do all answers about
    /// objects.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// How often a list was older than what the store stood for: the server was set back (C25).
    pub fn set_backs(&self) -> u64 {
        self.set_backs
    }

    /// The object of a key, `namespace/name` or `name`.
    pub fn get(&self, key: &str) -> Option<&Obj<T>> {
        self.slots.get(self.find(key)?)
    }

    /// All objects, in no order that a user may rely on.
    pub fn iter(&self) -> impl Iterator<Item = &Obj<T>> {
        self.slots.iter().map(|(_, object)| object)
    }

    /// All objects at this instant, for a walk that holds up nobody.
    pub fn snapshot(&self) -> Snapshot<T> {
        self.slots.snapshot()
    }

    /// The objects that have `value` in the index called `index`.
    ///
    /// # Errors
    ///
    /// If there is no such index.
    pub fn by_index<'a>(
        &'a self,
        index: &str,
        value: &str,
    ) -> Result<impl ExactSizeIterator<Item = &'a Obj<T>> + use<'a, T>, IndexError> {
        let slots = self.index(index)?.slots(value);
        Ok(slots.map(|slot| self.at(slot)))
    }

    /// The objects that have `value` in the index called `index`, whose values are of type `V`.
    ///
    /// # Errors
    ///
    /// If there is no such index, or its values are of another type. `String` reads every index, as its texts.
    pub fn by_value<'a, V: IndexValue>(
        &'a self,
        index: &str,
        value: &V::Query,
    ) -> Result<impl ExactSizeIterator<Item = &'a Obj<T>> + use<'a, T, V>, IndexError> {
        self.check_value_type::<V>(index)?;
        self.by_index(index, &V::to_text(value))
    }

    /// That the index called `index` can be read as one of `V`.
    ///
    /// # Errors
    ///
    /// As [`by_value`](Self::by_value).
    pub fn check_value_type<V: IndexValue>(&self, index: &str) -> Result<(), IndexError> {
        let (holds, asked) = (self.index(index)?.value_type(), ValueType::of::<V>());
        if holds.reads_as(asked) {
            return Ok(());
        }
        Err(IndexError::OtherType { index: String::from(index), holds: holds.name(), asked: asked.name() })
    }

    /// The values in use of the index called `index`, each with the number of its objects, in no fixed order.
    ///
    /// # Errors
    ///
    /// If there is no such index.
    pub fn index_values(&self, index: &str) -> Result<impl Iterator<Item = (&str, usize)>, IndexError> {
        Ok(self.index(index)?.values())
    }

    /// True if there is an index of this name.
    pub fn has_index(&self, name: &str) -> bool {
        self.indexes.iter().any(|index| index.name() == name)
    }

    /// The names of the indexes.
    pub fn index_names(&self) -> impl Iterator<Item = &str> {
        self.indexes.iter().map(Index::name)
    }

    /// The index functions now in force, for [`DecodeJob::decode`](crate::decode::DecodeJob::decode).
    pub fn indexers(&self) -> Indexers<T> {
        self.indexers.clone()
    }

    /// The items whose newest version could not be built, with the reason.
    pub fn quarantined(&self) -> impl Iterator<Item = &BadItem> {
        self.quarantine.values()
    }

    /// The newest version of a key, if it could not be built.
    pub fn quarantined_key(&self, key: &str) -> Option<&BadItem> {
        self.quarantine.get(key)
    }

    /// True if the server has a newer version of this object that could not be decoded.
    pub fn is_stale_key(&self, key: &str) -> bool {
        self.find(key).is_some_and(|slot| self.stale.contains(slot))
    }

    /// Adds an index and fills it with what is there. Runs the index function on every object; a runtime that wants no
    /// user code under its lock takes the three steps one by one, the second of them under no lock.
    ///
    /// # Errors
    ///
    /// If the name is taken; nothing changes then.
    pub fn add_index(&mut self, def: IndexDef<T>) -> Result<(), IndexError> {
        let prepared = self.begin_index(def)?.build(&NoGuard)?;
        self.install_index(prepared)
    }

    /// The first step to a new index: what is there now.
    ///
    /// # Errors
    ///
    /// If the name is taken.
    pub fn begin_index(&self, def: IndexDef<T>) -> Result<IndexBuild<T>, IndexError> {
        self.check_index_name(&def)?;
        Ok(IndexBuild { def, snapshot: self.snapshot(), hasher: self.hasher.clone() })
    }

    /// The last step: the index is there. It costs a look at each chunk of objects; what changed since the first step is
    /// computed here.
    ///
    /// # Errors
    ///
    /// If the name was taken meanwhile; nothing changes then.
    pub fn install_index(&mut self, prepared: PreparedIndex<T>) -> Result<(), IndexError> {
        let PreparedIndex { def, mut index, snapshot } = prepared;
        self.check_index_name(&def)?;
        for (slot, object) in self.slots.changed_since(&snapshot) {
            index.clear(slot);
            if let Some(object) = object {
                index.add(slot, object, &def.values(object));
            }
        }
        self.indexes.push(index);
        let list = self.indexers.list.iter().cloned().chain([def]).collect();
        self.indexers = Indexers { generation: self.indexers.generation + 1, list };
        self.check();
        Ok(())
    }

    fn check_index_name(&self, def: &IndexDef<T>) -> Result<(), IndexError> {
        if self.has_index(def.name()) { Err(IndexError::Exists(String::from(def.name()))) } else { Ok(()) }
    }

    /// Takes an index away, and gives it back: to drop a large one takes time, which no reader should wait for, and what its
    /// function has captured is the user's.
    ///
    /// # Errors
    ///
    /// If there is none of this name.
    pub fn remove_index(&mut self, name: &str) -> Result<RemovedIndex<T>, IndexError> {
        let at = self.indexes.iter().position(|index| index.name() == name);
        let at = at.ok_or_else(|| IndexError::Unknown(String::from(name)))?;
        let index = self.indexes.remove(at);
        let list = self.indexers.list.iter().filter(|def| def.name() != name).cloned().collect();
        let generation = self.indexers.generation + 1;
        let before = core::mem::replace(&mut self.indexers, Indexers { generation, list });
        Ok(RemovedIndex { _index: index, _functions: before })
    }

    /// Puts an object in by hand: for a store without an informer. Gives back what was there.
    pub fn upsert(&mut self, object: Obj<T>) -> Option<Obj<T>> {
        // Looked up first: what that reads of memory is on its way while values are computed.
        let Some(slot) = self.find_bytes(Obj::key_bytes(&object)) else {
            let fresh = self.indexers.fresh(object);
            self.put(None, fresh);
            self.check();
            return None;
        };
        // Index functions may panic: all of them have run before anything changes.
        let values: SmallVec<[Lent<'_>; 3]> = self.indexers.list.iter().map(|index| index.lend(&object)).collect();
        self.indexes.iter_mut().zip(&values).for_each(|(index, values)| index.change_to(slot, values));
        drop(values);
        self.stale.remove(slot);
        self.revision += 1;
        let old = self.slots.replace(slot, object);
        self.check();
        Some(old)
    }

    /// Takes a store apart that is needed no more: its objects and the functions of its indexes are the user's, and are
    /// dropped by the caller.
    pub fn dismantle(self) -> (Snapshot<T>, Indexers<T>) {
        (self.slots.into_snapshot(), self.indexers)
    }

    /// Gives an empty store the state of an earlier run, before anything is committed: readers have it at once, and the
    /// first list tells what changed since. Of a key that comes twice the last object counts; those before it are given back,
    /// to be dropped under no lock.
    ///
    /// # Panics
    ///
    /// If the store has an object or stood for a version before: what it has is newer.
    pub fn preload(&mut self, objects: impl IntoIterator<Item = Obj<T>>, version: Version) -> Vec<Obj<T>> {
        assert!(self.is_empty() && self.version.is_empty(), "only an empty store can be preloaded");
        let mut replaced = Vec::new();
        for object in objects {
            let fresh = self.indexers.fresh(object);
            let known = self.find(fresh.object.key().as_str());
            replaced.extend(self.put(known, fresh));
        }
        self.version.set(version.borrowed());
        self.preloaded = true;
        self.check();
        replaced
    }

    /// Takes an object out by hand: for a store without an informer.
    pub fn remove(&mut self, key: &str) -> Option<Obj<T>> {
        let slot = self.find(key)?;
        let old = self.take(slot);
        self.check();
        Some(old)
    }

    /// Looks at what a commit of events is about to change, so that it lies in the processor's caches by then: a driver that
    /// does this under the read lock holds the write lock for a fraction of the time, and most of that is waiting for
    /// memory. It changes nothing.
    pub fn warm(&self, commit: &Commit<T>) {
        let Change::Events(items) = &commit.change else { return };
        for item in items {
            let known = match item {
                Item::Fresh { known, .. } | Item::Gone { known, .. } => *known,
                Item::Unchanged(_) | Item::Bad { .. } => None,
            };
            let Some(slot) = known else { continue };
            hint::black_box(self.slots.get(slot).map(|object| Obj::key_bytes(object).first().copied()));
            for index in &self.indexes {
                hint::black_box(index.value(slot).map(str::len));
            }
        }
    }

    /// Carries out what the machine decided. Runs no user code unless an index was added since the objects were
    /// decoded; [`Commit::reindex`] sees to that before.
    pub fn commit(&mut self, mut commit: Commit<T>) -> Committed<T> {
        commit.settle(&NoGuard, |key| self.fresh_slot(key));
        let mut done = Committed { notifications: commit.told, dropped: Vec::new(), receipt: Receipt::default() };
        match commit.change {
            Change::Nothing => {}
            Change::Events(mut items) => {
                if let Moves::WithEvents = commit.version {
                    let newest = items.iter().rev().filter_map(Item::version).find(|version| !version.is_empty());
                    if let Some(newest) = newest {
                        self.version.set(newest);
                    }
                }
                done.notifications.reserve(items.len());
                for item in items.drain(..) {
                    self.apply(item, &mut done);
                }
                done.receipt.spare.items = items;
            }
            Change::Replace(staged) => {
                let set_back = matches!(&commit.version, Moves::To(version) if version.is_before(&self.version));
                self.set_backs += u64::from(set_back);
                self.replace(staged, &mut done);
            }
        }
        if let Moves::To(version) = commit.version {
            self.version.set(version.borrowed());
        }
        self.check();
        done
    }

    fn apply(&mut self, item: Item<T>, done: &mut Committed<T>) {
        match item {
            // Only a list is probed for unchanged objects.
            Item::Unchanged(_) => {}
            Item::Fresh { known, fresh } => {
                let known = self.find_near(known, Obj::key_bytes(&fresh.object));
                self.upsert_and_tell(known, fresh, Cause::Watch, done);
            }
            Item::Gone { known, gone } => {
                if !self.quarantine.is_empty() {
                    self.quarantine.remove(gone.key().as_str());
                }
                let Some(slot) = self.find_near(known, gone.key().as_str().as_bytes()) else {
                    if let Gone::Last(last) = gone {
                        done.dropped.push(last);
                    }
                    return;
                };
                let old = self.take(slot);
                // Also of another incarnation than ours: the server said how the key ended, and nothing was missed.
                let (object, final_state_known) = match gone {
                    Gone::Last(last) => (last, true),
                    Gone::Named { .. } => (old.clone(), false),
                };
                done.notifications.push(Notification::Deleted { object, old, cause: Cause::Watch, final_state_known });
            }
            Item::Bad { bad, .. } => self.put_aside(bad, done),
        }
    }

    /// Deletions first, then what is new or changed in the list's order, as client-go does it today.
    fn replace(&mut self, mut staged: Staged<T>, done: &mut Committed<T>) {
        staged.probe(|key| self.find_bytes(key));
        done.receipt.first_list = !self.populated && !self.preloaded && self.is_empty();
        self.populated = true;
        let gone: Vec<Slot> =
            self.slots.iter().map(|(slot, _)| slot).filter(|slot| !staged.survivors.contains(*slot)).collect();
        for slot in gone {
            let old = self.take(slot);
            let (object, cause) = (old.clone(), Cause::Relist);
            done.notifications.push(Notification::Deleted { object, old, cause, final_state_known: false });
        }
        // What the list does not have is no longer in quarantine; what is still bad is put back below, unreported.
        let before = core::mem::take(&mut self.quarantine);
        done.dropped.extend(staged.passed_over);
        // Growing step by step would look at every key again and again.
        let (slots, hasher) = (&self.slots, &self.hasher);
        self.by_key.reserve(staged.fresh.len().saturating_sub(self.by_key.len()), |slot| hash_of(slots, hasher, *slot));
        for fresh in staged.fresh.into_iter().flatten() {
            let known = self.find_bytes(Obj::key_bytes(&fresh.object));
            if done.receipt.first_list {
                self.put(known, fresh);
            } else {
                self.upsert_and_tell(known, fresh, Cause::Relist, done);
            }
        }
        // After the good ones: what is bad here is the last word of the list about its key.
        for bad in staged.bad {
            if let Some(known) =
                bad.key.as_ref().and_then(|key| before.get(key)).filter(|known| known.version == bad.version)
            {
                self.quarantine.insert(known.key.clone().expect("it was found by its key"), known.clone());
            }
            self.put_aside(bad, done);
        }
    }

    fn upsert_and_tell(&mut self, known: Option<Slot>, fresh: Fresh<T>, cause: Cause, done: &mut Committed<T>) {
        if !self.quarantine.is_empty() {
            self.quarantine.remove(fresh.object.key().as_str());
        }
        let new = fresh.object.clone();
        let added = |object| Notification::Added { object, initial: false, cause };
        match self.put(known, fresh) {
            None => done.notifications.push(added(new)),
            Some(old) if same_incarnation(old.uid(), new.uid()) => {
                done.notifications.push(Notification::Updated { old, new, cause });
            }
            // Deleted and made again, unseen (I17).
            Some(old) => {
                let object = old.clone();
                done.notifications.push(Notification::Deleted { object, old, cause, final_state_known: false });
                done.notifications.push(added(new));
            }
        }
    }

    fn put_aside(&mut self, bad: BadItem, done: &mut Committed<T>) {
        let Some(key) = bad.key.clone() else {
            done.receipt.quarantined.push(bad);
            return;
        };
        if let Some(slot) = self.find(key.as_str()) {
            self.stale.insert(slot);
        }
        if self.quarantine.get(&key).is_none_or(|known| known.version != bad.version) {
            done.receipt.quarantined.push(bad.clone());
        }
        self.quarantine.insert(key, bad);
    }

    pub(crate) fn slot_of(&self, namespace: &str, name: &str) -> Option<(Slot, &Obj<T>)> {
        let slot = if namespace.is_empty() {
            self.find(name)?
        } else {
            let mut joined = SmallVec::<[u8; 128]>::new();
            joined.extend_from_slice(namespace.as_bytes());
            joined.push(b'/');
            joined.extend_from_slice(name.as_bytes());
            self.find_bytes(&joined)?
        };
        Some((slot, self.at(slot)))
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.slots.iter().map(|(slot, _)| slot)
    }

    /// How many chunks its slots lie in.
    pub(crate) fn chunks(&self) -> usize {
        self.slots.chunks()
    }

    /// The objects of slots that are in use.
    pub(crate) fn part(&self, words: &[Word]) -> Part<T> {
        self.slots.part(words)
    }

    /// The object of a slot that an index holds.
    pub(crate) fn at(&self, slot: Slot) -> &Obj<T> {
        self.slots.get(slot).expect("an index holds slots in use only (I7)")
    }

    /// The index that has its values from `source`, whatever its name.
    pub(crate) fn index_from(&self, source: impl Fn(&Source) -> bool) -> Option<&Index> {
        self.indexes.iter().find(|index| source(index.source()))
    }

    /// The object of a key and its place, if it is the newest that the server has of it as far as we know: for
    /// [`Commit::settle`].
    pub fn fresh_slot(&self, key: &str) -> Option<(Slot, Obj<T>)> {
        let slot = self.find(key).filter(|slot| !self.stale.contains(*slot))?;
        Some((slot, self.slots.get(slot)?.clone()))
    }

    pub(crate) fn is_stale(&self, slot: Slot) -> bool {
        self.stale.contains(slot)
    }

    fn find(&self, key: &str) -> Option<Slot> {
        self.find_bytes(key.as_bytes())
    }

    pub(crate) fn find_bytes(&self, key: &[u8]) -> Option<Slot> {
        let hash = self.hasher.hash_one(key);
        self.by_key.find(hash, |slot| Obj::key_bytes(self.object(*slot)) == key).map(|slot| Slot(*slot))
    }

    /// The same for many: `found` is told of each key in turn. Objects lie anywhere in memory, so they are waited for
    /// together, one step of the way to all of them after the other: a loop that does no more has many reads under way.
    pub(crate) fn find_each<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]> + Clone,
        mut found: impl FnMut(Option<Slot>),
    ) {
        let hashes: SmallVec<[u64; COMMIT_EVENTS]> = keys.clone().map(|key| self.hasher.hash_one(key)).collect();
        let candidates: SmallVec<[Option<u32>; COMMIT_EVENTS]> =
            hashes.iter().map(|hash| self.by_key.iter_hash(*hash).next().copied()).collect();
        for slot in candidates.into_iter().flatten() {
            // Its count, too: it lies before the value, and the key behind it.
            let object = self.object(slot);
            hint::black_box((Obj::key_bytes(object).last().copied(), Obj::is_last(object)));
        }
        for (key, hash) in keys.zip(hashes) {
            found(self.by_key.find(hash, |slot| Obj::key_bytes(self.object(*slot)) == key).map(|slot| Slot(*slot)));
        }
    }

    /// The same, if it may well lie in `known`: it did when its batch was probed.
    fn find_near(&self, known: Option<Slot>, key: &[u8]) -> Option<Slot> {
        let still = |slot: &Slot| self.slots.get(*slot).is_some_and(|object| Obj::key_bytes(object) == key);
        known.filter(still).or_else(|| self.find_bytes(key))
    }

    fn object(&self, slot: u32) -> &Obj<T> {
        in_use(&self.slots, slot)
    }

    pub(crate) fn index(&self, name: &str) -> Result<&Index, IndexError> {
        let found = self.indexes.iter().find(|index| index.name() == name);
        found.ok_or_else(|| IndexError::Unknown(String::from(name)))
    }

    fn put(&mut self, known: Option<Slot>, mut fresh: Fresh<T>) -> Option<Obj<T>> {
        if fresh.generation != self.indexers.generation {
            // An index came or went while the object was being decoded.
            fresh = self.indexers.fresh(fresh.object);
        }
        let (slot, old) = match known {
            Some(slot) => {
                self.stale.remove(slot);
                (slot, Some(self.slots.replace(slot, fresh.object)))
            }
            None => {
                let hash = self.hasher.hash_one(Obj::key_bytes(&fresh.object));
                let slot = self.slots.insert(fresh.object);
                let (slots, hasher) = (&self.slots, &self.hasher);
                self.by_key.insert_unique(hash, slot.0, |slot| hash_of(slots, hasher, *slot));
                (slot, None)
            }
        };
        let object = self.slots.get(slot).expect("it was just put there");
        let mut computed = fresh.values.iter();
        for index in &mut self.indexes {
            let values = match index.source() {
                Source::Namespace => &[][..],
                Source::Function | Source::Label(_) => computed.next().expect("values of the functions in force"),
            };
            match old {
                Some(_) => index.change(slot, values),
                None => index.add(slot, object, values),
            }
        }
        self.revision += 1;
        old
    }

    fn take(&mut self, slot: Slot) -> Obj<T> {
        let hash = self.hasher.hash_one(Obj::key_bytes(self.at(slot)));
        if let Ok(entry) = self.by_key.find_entry(hash, |candidate| *candidate == slot.0) {
            entry.remove();
        }
        for index in &mut self.indexes {
            index.clear(slot);
        }
        self.stale.remove(slot);
        self.revision += 1;
        self.slots.remove(slot)
    }

    /// Asserts the invariants of the module header, on small stores: the check costs the size of the store.
    #[cfg(not(debug_assertions))]
    fn check(&self) {}

    #[cfg(debug_assertions)]
    fn check(&self) {
        if self.len() <= 64 {
            assert_eq!(self.by_key.len(), self.len(), "every object has one entry in the table of keys");
            for (slot, object) in self.slots.iter() {
                assert_eq!(self.find(object.key().as_str()), Some(slot), "{object:?} is found under its key");
            }
            for (index, def) in self.indexes.iter().zip(self.indexers.list.iter()) {
                assert_eq!(index.name(), def.name(), "index functions stand in the order of their indexes");
                index.check();
            }
        }
    }
}

fn in_use<T>(slots: &Slots<T>, slot: u32) -> &Obj<T> {
    slots.get(Slot(slot)).expect("the table of keys holds slots in use only (I6)")
}

fn hash_of<T>(slots: &Slots<T>, hasher: &SeedableRandomState, slot: u32) -> u64 {
    hasher.hash_one(Obj::key_bytes(in_use(slots, slot)))
}

/// A uid that either side lacks says nothing.
pub(crate) fn same_incarnation(a: UidRef<'_>, b: UidRef<'_>) -> bool {
    a == b || a.is_empty() || b.is_empty()
}

/// A new index that is to be filled with what was there when it was [begun](Store::begin_index).
pub struct IndexBuild<T> {
    def: IndexDef<T>,
    snapshot: Snapshot<T>,
    hasher: SeedableRandomState,
}

impl<T> IndexBuild<T> {
    /// The second step: runs the index function on every object, while readers go on.
    ///
    /// # Errors
    ///
    /// [`IndexError::Panicked`] names the first object on which it panicked, if the guard catches panics.
    pub fn build(self, guard: &dyn Guard) -> Result<PreparedIndex<T>, IndexError> {
        let IndexBuild { def, snapshot, hasher } = self;
        let mut index = Index::new(&def, hasher);
        for (slot, object) in snapshot.slots() {
            let mut values = Values::new();
            if let Err(reason) = guard.run(&mut || values = def.values(object)) {
                let (index, key) = (String::from(def.name()), object.key().to_key());
                return Err(IndexError::Panicked { index, key, reason });
            }
            index.add(slot, object, &values);
        }
        Ok(PreparedIndex { def, index, snapshot })
    }
}

/// A new index that is filled, and not yet [installed](Store::install_index).
pub struct PreparedIndex<T> {
    def: IndexDef<T>,
    index: Index,
    snapshot: Snapshot<T>,
}

/// An index that was taken away.
pub struct RemovedIndex<T> {
    _index: Index,
    _functions: Indexers<T>,
}

#[cfg(test)]
mod tests {
    mod quarantine;

    use super::*;
    use crate::object::Uid;
    use alloc::{format, vec};

    fn object(name: &str, version: &str) -> Obj<()> {
        Obj::new(Key::new("web", name), Uid::new("u"), Version::new(version), ())
    }

    fn commit(store: &mut Store<()>, items: Vec<Item<()>>) -> Vec<String> {
        let done = store.commit(Commit { change: Change::Events(items), version: Moves::WithEvents, told: Vec::new() });
        done.notifications.iter().map(|told| format!("{told}")).collect()
    }

    #[test]
    fn where_an_object_lay_when_it_was_probed_is_a_hint_and_no_more() {
        let mut store = Store::new(7);
        store.upsert(object("a", "1"));
        let known = store.slot_of("web", "a").map(|(slot, _)| slot);
        let fresh = |name: &str, version: &str, known| Item::Fresh { known, fresh: Fresh::bare(object(name, version)) };
        let told = commit(
            &mut store,
            vec![
                fresh("a", "2", known),
                Item::Gone { known, gone: Gone::Last(object("a", "3")) },
                fresh("b", "4", None), // where a lay
                fresh("a", "5", known),
                fresh("b", "6", None),
            ],
        );
        assert_eq!(
            told,
            ["updated web/a@2 (was 1)", "deleted web/a@3", "added web/b@4", "added web/a@5", "updated web/b@6 (was 4)"]
        );
        assert_eq!(store.slot_of("web", "b").map(|(slot, _)| slot), known, "the place was used again");
        assert_eq!((store.len(), store.version().as_str()), (2, "6"));
    }

    #[test]
    fn many_keys_are_found_as_each_alone_is() {
        let mut store = Store::new(7);
        (0..500).filter(|n| n % 3 != 0).for_each(|n| _ = store.upsert(object(&format!("n{n}"), "1")));
        let keys: Vec<String> = (0..500).rev().map(|n| format!("web/n{n}")).chain([String::new()]).collect();
        for many in [0, 1, COMMIT_EVENTS, keys.len()] {
            let mut found = Vec::new();
            store.find_each(keys[..many].iter().map(String::as_bytes), |slot| found.push(slot));
            assert_eq!(found, keys[..many].iter().map(|key| store.find(key)).collect::<Vec<_>>());
            assert_eq!(
                found.iter().flatten().count(),
                keys[..many].iter().filter(|key| store.get(key).is_some()).count()
            );
        }
    }

    #[test]
    fn an_index_function_that_panics_in_an_upsert_leaves_all_as_it_was() {
        let mut store = Store::<u32>::new(7);
        store.add_index(IndexDef::new("parity", |n| if **n % 2 == 0 { "even" } else { "odd" })).unwrap();
        store.add_index(IndexDef::new("small", |n| if **n < 9 { "yes" } else { panic!("{} is large", **n) })).unwrap();
        let of = |n| Obj::new(Key::new("ns", "a"), Uid::new("u"), Version::new("1"), n);
        store.upsert(of(2));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| store.upsert(of(9))));
        assert!(panicked.is_err());
        let holds =
            |store: &Store<u32>, index, value| store.by_index(index, value).unwrap().map(|n| **n).collect::<Vec<_>>();
        assert_eq!((holds(&store, "parity", "even"), holds(&store, "small", "yes")), (vec![2], vec![2]));
        assert!(holds(&store, "parity", "odd").is_empty());
        assert_eq!(store.upsert(of(3)).map(|old| *old), Some(2));
        assert_eq!((holds(&store, "parity", "odd"), holds(&store, "small", "yes")), (vec![3], vec![3]));
    }

    /// Trap 49: only a list passes over what is cached at the same version.
    #[test]
    fn an_event_of_the_version_that_is_cached_is_told_all_the_same() {
        let mut store = Store::new(7);
        store.upsert(object("a", "1"));
        let again = Item::Fresh { known: None, fresh: Fresh::bare(object("a", "1")) };
        assert_eq!(commit(&mut store, vec![again]), ["updated web/a@1 (was 1)"]);
    }

    #[test]
    fn a_store_stands_for_the_newest_version_that_events_carry() {
        let mut store = Store::new(7);
        store.version.set(VersionRef::of("8"));
        let nameless = BadItem::new(None, Version::default(), "no name");
        let items = vec![
            Item::Fresh { known: None, fresh: Fresh::bare(object("a", "9")) },
            Item::Gone { known: None, gone: Gone::Named { key: Key::new("web", "b"), version: Version::new("10") } },
            Item::Bad { known: None, bad: nameless.clone() },
        ];
        assert_eq!(commit(&mut store, items), ["added web/a@9"]);
        assert_eq!(store.version().as_str(), "10", "an event without one moves nothing");
        assert!(commit(&mut store, vec![Item::Bad { known: None, bad: nameless }]).is_empty());
        assert_eq!(store.version().as_str(), "10");
    }
}
