//! [`Staged`]: a list that is being read, beside the store that it will replace.
//!
//! Nothing of it shows before the commit (I5). It holds the slots of the store's objects that the list still has, and
//! the objects that are new or changed; what stands in neither is gone.

use super::slots::{Slot, SlotSet};
use super::{Fresh, Store};
use crate::decode::{BadItem, Gone, Guard, Indexers, Item};
use crate::object::{Key, Obj};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::hash::BuildHasher;
use foldhash::fast::FixedState;
use hashbrown::HashTable;

/// A list on its way into the store.
pub struct Staged<T> {
    pub(super) survivors: SlotSet,
    /// Nobody has looked yet which of its objects the store has.
    unprobed: bool,
    /// The server was set back to this list: versions that the store knows may stand for other contents now.
    set_back: bool,
    /// In the list's order; `None` where a streaming list took an object back.
    pub(super) fresh: Vec<Option<Fresh<T>>>,
    pub(super) bad: Vec<BadItem>,
    /// The keys in `bad`.
    bad_keys: BTreeSet<Key>,
    /// Places in `fresh` by key: the last word of a list about a key wins, and there is one word.
    by_key: HashTable<u32>,
    /// Objects of which the list had a later word, to be dropped where the list is done with.
    pub(super) passed_over: Vec<Obj<T>>,
    hasher: FixedState,
}

impl<T> Default for Staged<T> {
    fn default() -> Self {
        Staged {
            survivors: SlotSet::default(),
            unprobed: false,
            set_back: false,
            fresh: Vec::new(),
            bad: Vec::new(),
            bad_keys: BTreeSet::new(),
            by_key: HashTable::new(),
            passed_over: Vec::new(),
            hasher: FixedState::default(),
        }
    }
}

impl<T> Staged<T> {
    /// For objects of which nobody has looked whether the store has them: the commit does.
    pub(crate) fn unprobed() -> Self {
        Staged { unprobed: true, ..Staged::default() }
    }

    pub(crate) fn push(&mut self, item: Item<T>) {
        match item {
            Item::Unchanged(slot) => self.survivors.insert(slot),
            Item::Fresh { known, fresh } => {
                self.survive(known);
                self.forgive(fresh.object.key().as_str());
                self.put(fresh);
            }
            Item::Gone { known, gone } => {
                self.forgive(gone.key().as_str());
                if let Some(slot) = known {
                    self.survivors.remove(slot);
                }
                if let Some(place) = self.place(gone.key().as_str().as_bytes()) {
                    self.passed_over.extend(self.fresh[place].take().map(|fresh| fresh.object));
                }
                if let Gone::Last(last) = gone {
                    self.passed_over.push(last);
                }
            }
            Item::Bad { known, bad } => {
                self.survive(known);
                self.bad_keys.extend(bad.key.clone());
                self.bad.push(bad);
            }
        }
    }

    /// Objects of which the list had a later word, to be taken out and dropped.
    pub(crate) fn passed_over(&mut self) -> &mut Vec<Obj<T>> {
        &mut self.passed_over
    }

    /// All objects that were built for it: for a list that is given up.
    pub(crate) fn into_objects(self) -> impl Iterator<Item = Obj<T>> {
        self.fresh.into_iter().flatten().map(|fresh| fresh.object).chain(self.passed_over)
    }

    /// The list is complete, and the server was set back to it or not.
    pub(crate) fn complete(mut self, set_back: bool) -> Self {
        self.set_back = set_back;
        self
    }

    /// See [`Commit::settle`](super::Commit::settle).
    pub(super) fn settle(&mut self, guard: &dyn Guard, known: impl Fn(&str) -> Option<(Slot, Obj<T>)>) {
        for place in &mut self.fresh {
            let Some(fresh) = place else { continue };
            let Some(same) = fresh.same.take() else { continue };
            let new = &fresh.object;
            let Some((slot, old)) = known(new.key().as_str()) else { continue };
            if old.uid() != new.uid() || old.version() != new.version() {
                continue;
            }
            let mut unchanged = !self.set_back;
            if self.set_back {
                // After a panic it is as good as different.
                let _ = guard.run(&mut || unchanged = same(&old, new));
            }
            if unchanged {
                self.survivors.insert(slot);
                self.passed_over.extend(place.take().map(|fresh| fresh.object));
            }
        }
    }

    /// Marks what the store has of an unprobed list: that does not go.
    pub(super) fn probe(&mut self, slot_of: impl Fn(&[u8]) -> Option<Slot>) {
        if !core::mem::take(&mut self.unprobed) {
            return;
        }
        let fresh = self.fresh.iter().flatten().map(|fresh| Obj::key_bytes(&fresh.object));
        let bad = self.bad.iter().filter_map(|bad| bad.key.as_ref()).map(|key| key.as_str().as_bytes());
        for slot in fresh.chain(bad).filter_map(slot_of) {
            self.survivors.insert(slot);
        }
    }

    /// The first item that could not be built: what a strict informer asks.
    pub(crate) fn first_bad(&self) -> Option<&BadItem> {
        self.bad.first()
    }

    /// See [`Commit::reindex`](super::Commit::reindex).
    pub(super) fn reindex(&mut self, indexers: &Indexers<T>, guard: &dyn Guard) {
        for place in 0..self.fresh.len() {
            let Some(fresh) = &mut self.fresh[place] else { continue };
            if let Err(bad) = fresh.reindex(indexers, guard) {
                // Where the store has the object, it was marked as a survivor when this word about it came.
                self.passed_over.extend(self.fresh[place].take().map(|fresh| fresh.object));
                self.bad_keys.extend(bad.key.clone());
                self.bad.push(bad);
            }
        }
    }

    /// A later word about a key that could not be built before.
    fn forgive(&mut self, key: &str) {
        if self.bad_keys.remove(key) {
            self.bad.retain(|bad| bad.key.as_ref().is_none_or(|known| known.as_str() != key));
        }
    }

    fn survive(&mut self, known: Option<Slot>) {
        if let Some(slot) = known {
            self.survivors.insert(slot);
        }
    }

    fn place(&self, key: &[u8]) -> Option<usize> {
        let hash = self.hasher.hash_one(key);
        let known = |fresh: &Fresh<T>| Obj::key_bytes(&fresh.object) == key;
        let same = |place: &u32| self.fresh[*place as usize].as_ref().is_some_and(known);
        self.by_key.find(hash, same).map(|place| *place as usize)
    }

    fn put(&mut self, fresh: Fresh<T>) {
        if let Some(place) = self.place(Obj::key_bytes(&fresh.object)) {
            self.passed_over.extend(self.fresh[place].replace(fresh).map(|before| before.object));
            return;
        }
        let hash = self.hasher.hash_one(Obj::key_bytes(&fresh.object));
        let place = self.fresh.len() as u32;
        self.fresh.push(Some(fresh));
        let (all, hasher) = (&self.fresh, &self.hasher);
        self.by_key.insert_unique(hash, place, |place| {
            // A place that was taken back keeps its entry until the table grows; it then counts as key "".
            let key = all[*place as usize].as_ref().map_or(&[][..], |fresh| Obj::key_bytes(&fresh.object));
            hasher.hash_one(key)
        });
    }

    /// How many objects of the store would change, go or come: a hint whether to build the result aside.
    pub fn changes(&self, store: &Store<T>) -> usize {
        let gone = store.slots.iter().filter(|(slot, _)| !self.survivors.contains(*slot)).count();
        self.fresh.iter().flatten().count() + gone
    }
}
