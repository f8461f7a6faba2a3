//! [`SharedStore`]: a core store behind its lock.
//!
//! There is one writer at a time: the informer's driver, or whoever adds or removes an index. The lock that readers take
//! is held for a few events at a time, never while user code runs and never while objects are dropped; a list with many
//! changes is built aside and swapped in.
//!
//! The writer is held while index functions and comparisons of contents run. Such code may read, and is refused whatever
//! waits for a writer, this one or another: each change is a section of its thread (`guard/section.rs`).

#[cfg(all(test, shuttle))]
mod schedules;

use crate::error::Error;
use crate::guard::section::{self, Held, Level, Section};
use crate::guard::{CatchUnwind, refuse_held};
use crate::observe::random_seed;
use crate::pages::Views;
use crate::replaced::{drop_each, drop_quietly};
use crate::sync::{Arc, Mutex, MutexGuard, RwLock};
use informer_core::saved::Saved;
use informer_core::store::{Commit, Committed, IndexDef, Snapshot, Store};
use informer_core::{Key, Obj, Version};

/// A list that changes more objects than this is built aside, so that readers wait for a swap and not for the work.
const ASIDE: usize = 256;

/// A cache that many threads read.
pub struct SharedStore<T> {
    /// Held by whoever changes the store, while it prepares the change. Readers never take it. [`changing`](Self::changing)
    /// takes it.
    writer: Mutex<()>,
    /// What it is a cache of.
    of: Arc<str>,
    /// Its objects have no namespace, and one that is named beside a name means nothing (B097).
    cluster_scoped: bool,
    store: RwLock<Store<T>>,
    pub(crate) views: Views<T>,
}

/// The right to change one store.
struct Changing<'a> {
    _writer: MutexGuard<'a, ()>,
    _section: Section,
}

impl<T> Drop for SharedStore<T> {
    /// Whoever has the last handle may be the driver, and a thread that drives others, too.
    fn drop(&mut self) {
        let store = std::mem::replace(&mut *self.store.write(), Store::new(0));
        let (objects, functions) = store.dismantle();
        drop_each(objects.into_objects());
        drop_quietly(functions);
    }
}

impl<T> SharedStore<T> {
    /// An empty cache of what is called `collection`, with these indexes.
    ///
    /// # Panics
    ///
    /// If two of them have one name.
    pub(crate) fn new(collection: &Arc<str>, seed: u64, indexes: impl IntoIterator<Item = IndexDef<T>>) -> Self {
        let mut store = Store::new(seed);
        for index in indexes {
            store.add_index(index).expect("a new store has no index");
        }
        let (writer, store) = (Mutex::new(()), RwLock::new(store));
        let (of, views) = (Arc::clone(collection), Views::new(collection, seed));
        SharedStore { writer, of, cluster_scoped: false, store, views }
    }

    /// The same, of a collection whose objects have no namespace.
    pub(crate) fn cluster_scoped(mut self) -> Self {
        self.cluster_scoped = true;
        self
    }

    /// A namespace that a user names, as it counts here.
    pub(crate) fn namespace<'n>(&self, namespace: &'n str) -> &'n str {
        if self.cluster_scoped { "" } else { namespace }
    }

    /// A key that a user made, as the objects here have it.
    pub(crate) fn key(&self, key: Key) -> Key {
        if self.cluster_scoped { Key::new("", key.name()) } else { key }
    }

    /// A cache of these objects, which nothing changes any more. Of a key that comes twice the last one counts. They are of
    /// a collection without namespaces if none of them has one: where there are some, no object is without.
    pub(crate) fn given(objects: impl IntoIterator<Item = Obj<T>>) -> Self {
        let objects: Vec<_> = objects.into_iter().collect(); // perhaps user code, so before the lock
        let cluster_scoped = objects.iter().all(|object| object.key().namespace().is_empty());
        let store = SharedStore::new(&Arc::from("objects given by hand"), random_seed(), []);
        let store = if cluster_scoped { store.cluster_scoped() } else { store };
        let twice = store.store.write().preload(objects, Version::default());
        twice.into_iter().for_each(drop_quietly);
        store
    }

    /// Waits until nobody else changes it. Whoever runs code of the user's must know that this thread may.
    fn changing(&self, doing: &'static str) -> Changing<'_> {
        let _writer = self.writer.lock();
        Changing { _writer, _section: section::enter(Held::Writer { of: Arc::clone(&self.of), doing }) }
    }

    /// The object of a key. Where objects have no namespace the name alone counts: whoever looks for a node with a namespace
    /// must not be told that it is gone.
    pub fn get(&self, key: &Key<impl AsRef<str>>) -> Option<Obj<T>> {
        let store = self.store.read();
        let found = store.get(key.as_ref());
        found.or_else(|| self.cluster_scoped.then(|| store.get(key.borrowed().name()))?).cloned()
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
        let _changing = self.changing("a change is committed");
        // What a list has, and the store too: compared under no lock.
        commit.settle(&CatchUnwind, |key| self.read(|store| store.fresh_slot(key)));
        // One look for all that is to be known: each time the lock is taken, readers on other processors lose sight of it.
        let (indexers, many) = self.read(|store| {
            store.warm(&commit);
            (store.indexers(), commit.staged().is_some_and(|staged| staged.changes(store) > ASIDE))
        });
        // An index may have come since the objects were decoded; from here on none can.
        commit.reindex(&indexers, &CatchUnwind);
        if !many {
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
    ///
    /// # Errors
    ///
    /// [`Error::WouldDeadlock`] where this thread changes a cache already; else [`Error::Index`] says what is wrong.
    pub(crate) fn add_index(&self, def: IndexDef<T>) -> Result<(), Error> {
        refuse_held(Level::Changing, "adding an index")?;
        let _dropped_last = def.clone(); // what its function has captured is the user's, and goes under no lock
        let _changing = self.changing("an index is filled");
        let begun = self.read(|store| store.begin_index(def))?;
        let prepared = begun.build(&CatchUnwind)?;
        Ok(self.store.write().install_index(prepared)?)
    }

    /// Takes an index away.
    ///
    /// # Errors
    ///
    /// As [`add_index`](Self::add_index).
    pub(crate) fn remove_index(&self, name: &str) -> Result<(), Error> {
        refuse_held(Level::Changing, "remove_index()")?;
        let removed = {
            let _changing = self.changing("an index is taken away");
            self.store.write().remove_index(name)?
        };
        drop(removed); // a large one takes its time, and its function is the user's: under no lock
        Ok(())
    }
}
