//! [`MutationCheck`]: finds who changes a cached object.
//!
//! Objects in a cache are shared: with readers, with handlers, with the store's own indexes. A type without interior
//! mutability cannot be changed there, and needs no check. One with cells, locks or atomics can be, silently, and then an
//! index is wrong, `old` is not what was true before, and a selector finds what it should not. For such types: a hash of
//! the content is taken before an object can be seen by anybody (of a preloaded one, when its informer starts), and
//! compared again in each period, when the object is replaced and when it is deleted. What differs is told by its key.
//!
//! It is for tests and for hunting a bug: each period costs a hash of every object. They are taken by the informer's
//! driver, [`SLICE`] at a time so that events do not wait long. Off, which it is unless asked for, it costs nothing.
//!
//! ```
//! use informer_core::{DynamicObject, Resource};
//! use informer_runtime::informer::InformerSpec;
//! use informer_runtime::mutation::MutationCheck;
//! use std::sync::atomic::{AtomicU64, Ordering};
//! use std::time::Duration;
//!
//! struct Seen {
//!     times: AtomicU64,
//! }
//!
//! let pods = Resource::namespaced("", "v1", "pods", "Pod");
//! let spec = InformerSpec::<DynamicObject>::of(pods)
//!     .transform(|_| Ok(Seen { times: AtomicU64::new(0) }))
//!     .check_mutations(MutationCheck::new(|seen: &Seen| seen.times.load(Ordering::Relaxed)).every(Duration::from_secs(1)));
//! # drop(spec);
//! ```

use crate::factory::Shared;
use crate::guard;
use crate::observe::Observed;
use crate::replaced::{drop_each, drop_quietly};
use crate::sync::Arc;
use informer_core::listener::Notification;
use informer_core::store::{Commit, Snapshot};
use informer_core::time::{Deadline, Duration, Time};
use informer_core::{Key, Obj};
use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Objects that are compared before the driver looks for events again: a millisecond, with a hash of a microsecond each.
pub const SLICE: usize = 1_024;

/// The period, unless another is asked for: as client-go's.
pub const DEFAULT_PERIOD: Duration = Duration::from_secs(1);

/// The wait between two slices: other informers of the same driver have their turn.
const BETWEEN_SLICES: Duration = Duration::from_millis(1);

type ContentHash<T> = dyn Fn(&T) -> u64 + Send + Sync;

/// How cached objects are checked; see the [module](self).
pub struct MutationCheck<T> {
    hash: Arc<ContentHash<T>>,
    period: Duration,
    panics: bool,
}

impl<T> MutationCheck<T> {
    /// With a function that gives the same number for the same content. One that panics on an object leaves it unchecked.
    pub fn new(hash: impl Fn(&T) -> u64 + Send + Sync + 'static) -> Self {
        MutationCheck { hash: Arc::new(hash), period: DEFAULT_PERIOD, panics: false }
    }

    /// With the type's own `Hash`.
    pub fn by_hash() -> Self
    where
        T: Hash,
    {
        MutationCheck::new(|value: &T| {
            let mut hasher = DefaultHasher::new();
            value.hash(&mut hasher);
            hasher.finish()
        })
    }

    /// Compares each object once in this period; at least a millisecond.
    pub fn every(mut self, period: Duration) -> Self {
        self.period = period.max(BETWEEN_SLICES);
        self
    }

    /// Panics in the informer's driver beside telling the observer: on tokio the informer ends, its handlers with it;
    /// on threads, where all informers of a factory have one driver, the factory stops. For tests.
    pub fn panicking(mut self) -> Self {
        self.panics = true;
        self
    }

    pub(crate) fn describe(&self) -> String {
        format!("every {:?}{}", self.period, if self.panics { ", panicking" } else { "" })
    }
}

impl<T> fmt::Debug for MutationCheck<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

struct Kept<T> {
    object: Obj<T>,
    hash: u64,
}

/// The hashes of what one store has.
pub(crate) struct Detector<T> {
    check: MutationCheck<T>,
    kept: HashMap<Key, Kept<T>>,
    /// Keys that this round has not come to.
    left: Vec<Key>,
    due: Option<Time>,
}

impl<T> Drop for Detector<T> {
    fn drop(&mut self) {
        drop_each(std::mem::take(&mut self.kept).into_values());
    }
}

impl<T> Detector<T> {
    pub(crate) fn new(check: MutationCheck<T>) -> Self {
        Detector { check, kept: HashMap::new(), left: Vec::new(), due: None }
    }

    /// Takes the hashes of what was preloaded. To be called once, by the driver, which holds no lock.
    pub(crate) fn begin(&mut self, preloaded: &Snapshot<T>) {
        preloaded.iter().for_each(|object| drop_quietly(self.keep(object)));
    }

    /// Takes the hash of an object that nobody else has yet. Gives back what it replaces.
    fn keep(&mut self, object: &Obj<T>) -> Option<Kept<T>> {
        let key = object.key().to_key();
        match self.hash(object) {
            Some(hash) => self.kept.insert(key, Kept { object: object.clone(), hash }),
            None => self.kept.remove(&key),
        }
    }

    fn hash(&self, object: &Obj<T>) -> Option<u64> {
        guard::call(|| (self.check.hash)(object)).ok()
    }

    /// Before a change is in the store.
    pub(crate) fn before(&mut self, commit: &Commit<T>, subject: &str, shared: &Shared) {
        for object in commit.objects() {
            if let Some(old) = self.keep(object) {
                self.compare(&old, subject, shared);
                drop_quietly(old);
            }
        }
    }

    /// After it is.
    pub(crate) fn after(&mut self, notifications: &[Notification<T>], subject: &str, shared: &Shared) {
        for notification in notifications {
            let Notification::Deleted { old, .. } = notification else { continue };
            // Made again in the same commit, it is another one by now.
            let is_it = self.kept.get(old.key().as_str()).is_some_and(|kept| Obj::ptr_eq(&kept.object, old));
            if let Some(kept) = is_it.then(|| self.kept.remove(old.key().as_str())).flatten() {
                self.compare(&kept, subject, shared);
                drop_quietly(kept);
            }
        }
    }

    /// Compares the next slice, if one is due. `stored` gives what the store has under a key.
    pub(crate) fn tick(&mut self, now: Time, stored: impl Fn(&Key) -> Option<Obj<T>>, subject: &str, shared: &Shared) {
        let due = *self.due.get_or_insert(now + self.check.period);
        if now < due {
            return;
        }
        if self.left.is_empty() {
            self.left = self.kept.keys().cloned().collect();
        }
        for key in self.left.split_off(self.left.len().saturating_sub(SLICE)) {
            let Some(kept) = self.kept.get(&key) else { continue };
            let Some(object) = stored(&key) else {
                drop_quietly(self.kept.remove(&key));
                continue;
            };
            if !Obj::ptr_eq(&object, &kept.object) {
                // A list brought an object that the store turned out to have already.
                drop_quietly(self.keep(&object));
                continue;
            }
            // Told once per change, so it counts from here on.
            if let Some(hash) = self.compare(kept, subject, shared)
                && let Some(kept) = self.kept.get_mut(&key)
            {
                kept.hash = hash;
            }
        }
        let wait = if self.left.is_empty() { self.check.period } else { BETWEEN_SLICES };
        self.due = Some(now + wait);
    }

    pub(crate) fn deadline(&self) -> Option<Deadline> {
        self.due.map(|at| Deadline { at, why: "mutation check" })
    }

    /// The new hash, if the content is not what it was.
    fn compare(&self, kept: &Kept<T>, subject: &str, shared: &Shared) -> Option<u64> {
        let hash = self.hash(&kept.object).filter(|hash| *hash != kept.hash)?;
        let object = &kept.object;
        shared.observe(&Observed::Mutated { subject, key: object.key(), version: object.version() });
        assert!(!self.check.panics, "{}", Observed::Mutated { subject, key: object.key(), version: object.version() });
        Some(hash)
    }
}
