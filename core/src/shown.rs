//! [`Shown`]: the last object of each key that somebody was shown.
//!
//! Invariant: at most one object of a key. One handle for each, and no second copy of its key.
//!
//! ```
//! use informer_core::shown::Shown;
//! use informer_core::{Key, Obj, Uid, Version};
//!
//! let pod = |version: &str| Obj::new(Key::new("web", "a"), Uid::new("u"), Version::new(version), ());
//! let mut seen = Shown::new(7);
//! assert!(seen.put(pod("1")).is_none());
//! assert_eq!(seen.put(pod("2")).unwrap().version().as_str(), "1");
//! assert_eq!(seen.get(&Key::new("web", "a")).unwrap().version().as_str(), "2");
//! assert!(seen.remove(&Key::new("web", "a")).is_some() && seen.is_empty());
//! ```

use crate::object::{Key, Obj};
use core::fmt;
use core::hash::BuildHasher;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// One object per key; see the [module](self).
pub struct Shown<T> {
    table: HashTable<Obj<T>>,
    hasher: FixedState,
}

impl<T> Shown<T> {
    /// Nothing was seen. The seed is the hash table's: not guessable in production, as names are chosen by others.
    pub fn new(seed: u64) -> Self {
        Shown { table: HashTable::new(), hasher: FixedState::with_seed(seed) }
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// What was seen last under this key.
    pub fn get<S: AsRef<str>>(&self, key: &Key<S>) -> Option<&Obj<T>> {
        self.table.find(self.hasher.hash_one(key), |seen| seen.key() == *key)
    }

    /// Takes the place of what was seen last under its key, which is returned.
    pub fn put(&mut self, object: Obj<T>) -> Option<Obj<T>> {
        let Shown { table, hasher } = self;
        let hash = hasher.hash_one(object.key());
        match table.entry(hash, |seen| seen.key() == object.key(), |seen| hasher.hash_one(seen.key())) {
            Entry::Occupied(mut found) => Some(core::mem::replace(found.get_mut(), object)),
            Entry::Vacant(free) => {
                free.insert(object);
                None
            }
        }
    }

    /// Takes what was seen last under this key out.
    pub fn remove<S: AsRef<str>>(&mut self, key: &Key<S>) -> Option<Obj<T>> {
        let found = self.table.find_entry(self.hasher.hash_one(key), |seen| seen.key() == *key);
        found.ok().map(|found| found.remove().0)
    }
}

impl<T> Shown<T> {
    /// Takes everything out.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Obj<T>> + use<T> {
        core::mem::take(&mut self.table).into_iter()
    }
}

impl<T> fmt::Debug for Shown<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} seen", self.len())
    }
}
