//! [`SharedStore`]: a core store behind its lock.
//!
//! There is one writer, the informer's driver. The lock is held for a few events at a time, never while user code runs
//! and never while objects are dropped; a list with many changes is built aside and swapped in.

#[cfg(all(test, shuttle))]
mod schedules;

use crate::guard::CatchUnwind;
use crate::pages::Views;
use crate::sync::{Mutex, RwLock};
use informer_core::saved::Saved;
use informer_core::store::{Commit, Committed, IndexDef, IndexError, Snapshot, Store};
use informer_core::{Key, Obj};

/// A list that changes more objects than this is built aside, so that readers wait for a swap and not for the work.
const ASIDE: usize = 256;

/// A cache that many threads read.
pub struct SharedStore<T> {
    /// Held by whoever changes the store, while it prepares the change. Readers never take it.
    writer: Mutex<()>,
    store: RwLock<Store<T>>,
    pub(crate) views: Views<T>,
}

impl<T> SharedStore<T> {
    /// An empty cache of what is called `collection`.
    pub(crate) fn new(collection: &str, seed: u64) -> Self {
        let (writer, store) = (Mutex::new(()), RwLock::new(Store::new(seed)));
        SharedStore { writer, store, views: Views::new(collection, seed) }
    }

    /// The object of a key.
    pub fn get(&self, key: &Key<impl AsRef<str>>) -> Option<Obj<T>> {
        self.store.read().get(key.as_ref()).cloned()
    }

    /// All objects at this instant, for a walk that holds up nobody.
    pub fn snapshot(&self) -> Snapshot<T> {
        self.store.read().snapshot()
    }

    /// Reads under the lock: `f` must be short and must not call user code.
    pub fn read<R>(&self, f: impl FnOnce(&Store<T>) -> R) -> R {
        f(&self.store.read())
    }

    pub(crate) fn commit(&self, mut commit: Commit<T>) -> Committed<T> {
        let _writer = self.writer.lock();
        // What a list has, and the store too: compared under no lock.
        commit.settle(&CatchUnwind, |key| self.read(|store| store.fresh_slot(key)));
        // An index may have come since the objects were decoded; from here on none can.
        commit.reindex(&self.read(Store::indexers), &CatchUnwind);
        let many = commit.staged().is_some_and(|staged| self.read(|store| staged.changes(store)) > ASIDE);
        if !many {
            self.read(|store| store.warm(&commit));
            return self.store.write().commit(commit);
        }
        let mut aside = self.read(Store::clone);
        let committed = aside.commit(commit);
        std::mem::swap(&mut *self.store.write(), &mut aside);
        drop(aside); // the old root, under no lock that readers take
        committed
    }

    /// Gives the store the state of an earlier run, before anybody else has it. Gives back what it has twice.
    pub(crate) fn preload(&self, saved: Saved<T>) -> Vec<Obj<T>> {
        let (objects, version) = saved.into_parts();
        self.store.write().preload(objects, version)
    }

    /// Adds an index. It is filled from a snapshot while readers go on; the informer's next change waits.
    pub(crate) fn add_index(&self, def: IndexDef<T>) -> Result<(), IndexError> {
        let _writer = self.writer.lock();
        let begun = self.read(|store| store.begin_index(def))?;
        let prepared = begun.build(&CatchUnwind)?;
        self.store.write().install_index(prepared)
    }

    pub(crate) fn remove_index(&self, name: &str) -> Result<(), IndexError> {
        let _writer = self.writer.lock();
        let removed = self.store.write().remove_index(name)?;
        drop(removed); // under no lock that readers take
        Ok(())
    }
}
