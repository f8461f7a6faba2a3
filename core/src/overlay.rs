//! [`Overlay`]: our own writes on top of a cache, until the cache has them.
//!
//! The server answers a write before the watch tells the cache of it. A reconciler that reads the cache in between acts
//! on the state from before its own write: it creates a second child, or repeats a change. An overlay shows what the
//! server answered for as long as the cache is older, and not a moment longer:
//!
//! ```text
//!  answer to a write ── put, deleted ──► Overlay ─┐
//!                                                 ├─ get, list, matching: the newer of both
//!  list and watch ───── commit ────────► Store ───┘
//! ```
//!
//! The store is never written to (B049), and is always right about what it has come to. Invariants:
//!
//! - an entry of version `v` counts only while the store is older: it does not stand for `v` or a later version, and its
//!   object of the key, if there is one, is older than `v`. So a late answer cannot bring an old or deleted object back,
//!   and a read through the overlay never goes back behind an earlier one, unless the server itself was set back;
//! - an object of ours that somebody else deleted unseen is gone as soon as the store stands for a later version, and
//!   [`settle`](Overlay::settle) tells it, once;
//! - a deleted incarnation stays deleted, whatever answers come later;
//! - when the server is set back, the entries are gone with its history (C25);
//! - there are at most [`MAX_ENTRIES`].
//!
//! Where the newest version of an object cannot be decoded, the store keeps an older one; a newer own write stays visible
//! then. Versions that cannot be compared (C2) make no entry: nothing could ever end it.
//!
//! ```
//! use informer_core::overlay::{How, Overlay};
//! use informer_core::store::Store;
//! use informer_core::{Key, Obj, Uid, Version};
//!
//! let pod = |version: &str| Obj::new(Key::new("web", "a"), Uid::new("u"), Version::new(version), ());
//! let (mut store, mut overlay) = (Store::new(7), Overlay::new());
//! store.upsert(pod("5"));
//! assert_eq!(overlay.put(&store, pod("8")), Ok(true));
//! assert_eq!(overlay.get(&store, "web/a").unwrap().version(), *"8");
//!
//! store.upsert(pod("9")); // the watch told of our write, and of another one
//! assert_eq!(overlay.get(&store, "web/a").unwrap().version(), *"9");
//! assert_eq!(overlay.settle(&store)[0].how, How::CaughtUp);
//! assert!(overlay.is_empty());
//! ```

use crate::lister::Lister;
use crate::object::{Key, Obj, Object, Uid, Version, VersionRef};
use crate::selector::LabelSelector;
use crate::store::Store;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;

/// The most own writes that an overlay holds at a time. An entry lives for the lag of a watch, so this many stand for
/// thousands of writes in a second; more of them mean that the cache does not follow.
pub const MAX_ENTRIES: usize = 1_024;

/// Own writes that a cache may not have yet.
pub struct Overlay<T> {
    entries: BTreeMap<Key, Entry<T>>,
    passed: Vec<Obj<T>>,
}

struct Entry<T> {
    version: Version,
    /// How often the store had been set back when the entry was made.
    set_backs: u64,
    write: Write<T>,
}

enum Write<T> {
    Put(Obj<T>),
    Deleted(Uid),
}

/// How an own write ended its stay in the overlay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum How {
    /// The store has it, or what came after it.
    CaughtUp,
    /// The store has come past it and does not have the object: somebody deleted it before the store ever showed it at
    /// this version, or the informer does not select it.
    Vanished,
    /// The server was set back to an older state; whether the write is still there, only a read can tell.
    SetBack,
}

/// An own write that the overlay let go of.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settled<T> {
    /// The key.
    pub key: Key,
    /// What was shown; none for a deletion.
    pub object: Option<Obj<T>>,
    /// Why it is not shown any more.
    pub how: How,
}

/// Why an own write cannot be shown. The write itself is done; the cache will tell of it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OverlayError {
    /// Its version, or the one that the store stands for, is no decimal number (C2).
    Incomparable {
        /// Of what.
        key: Key,
        /// Its version.
        version: Version,
    },
    /// There are [`MAX_ENTRIES`] already, for which the cache has yet to come.
    Full {
        /// Of what.
        key: Key,
    },
}

impl fmt::Display for OverlayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OverlayError::Incomparable { key, version } => write!(
                f,
                "the write of {key} at version {:?} cannot be shown before the cache has it: its version cannot be compared \
                 with the cache's",
                version.as_str()
            ),
            OverlayError::Full { key } => write!(
                f,
                "the write of {key} cannot be shown before the cache has it: {MAX_ENTRIES} own writes wait for the cache \
                 already; settle those that are over, or wait until the cache has caught up"
            ),
        }
    }
}

impl fmt::Debug for OverlayError {
    /// The text of Display: `main` prints errors so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for OverlayError {}

impl<T> Default for Overlay<T> {
    fn default() -> Self {
        Overlay { entries: BTreeMap::new(), passed: Vec::new() }
    }
}

impl<T> Overlay<T> {
    /// Without own writes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Shows the object that the server answered to a create, update or patch. False if the store, or an own write, is at
    /// this version or a later one, or the incarnation was deleted: then it changes nothing.
    ///
    /// It must be one that the informer of the store selects, changed by the same transform. An answer to a deletion that
    /// still carries the object (finalizers hold it) is such an object, too.
    ///
    /// # Errors
    ///
    /// [`OverlayError`] says why it cannot be shown; nothing changes then.
    pub fn put(&mut self, store: &Store<T>, object: Obj<T>) -> Result<bool, OverlayError> {
        let (key, version) = (object.key().to_key(), object.version().to_version());
        if let Some(known) = self.entry(store, key.as_str()) {
            let newer = known.version.is_before(&version);
            let deleted = matches!(&known.write, Write::Deleted(uid) if *uid == object.uid());
            if deleted || version.is_decimal() && !newer {
                return Ok(false);
            }
        }
        self.insert(store, key, Entry { version, set_backs: store.set_backs(), write: Write::Put(object) })
    }

    /// Hides an incarnation that the server said it deleted, until the store has no object of that uid any more. `version`
    /// is that of the answer if it carried the final object, else that of the object as it was last seen; an object that
    /// turns out to be newer than that is shown. False if the store knows already.
    ///
    /// For a deletion that waits (for finalizers, or for a grace period) [`put`](Self::put) the object of the answer
    /// instead: it is still there.
    ///
    /// # Errors
    ///
    /// [`OverlayError`] says why it cannot be hidden; nothing changes then.
    pub fn deleted(&mut self, store: &Store<T>, key: Key, uid: Uid, version: Version) -> Result<bool, OverlayError> {
        if let Some(known) = self.entry(store, key.as_str()) {
            let same = match &known.write {
                Write::Put(object) => object.uid() == uid,
                Write::Deleted(deleted) => *deleted == uid,
            };
            let newer = version.is_before(&known.version);
            // The final word about our incarnation hides also a version of it that is newer than the last one seen.
            let version = if same && newer { known.version.clone() } else { version };
            if newer && !same {
                return Ok(false);
            }
            return self.insert(
                store,
                key,
                Entry { version, set_backs: store.set_backs(), write: Write::Deleted(uid) },
            );
        }
        self.insert(store, key, Entry { version, set_backs: store.set_backs(), write: Write::Deleted(uid) })
    }

    fn insert(&mut self, store: &Store<T>, key: Key, entry: Entry<T>) -> Result<bool, OverlayError> {
        let stands_for = store.version();
        if !entry.version.is_decimal() || !stands_for.is_empty() && !stands_for.is_decimal() {
            return Err(OverlayError::Incomparable { key, version: entry.version });
        }
        if !entry.stands(store, key.as_str()) {
            return Ok(false);
        }
        if self.entries.len() >= MAX_ENTRIES && !self.entries.contains_key(&key) {
            self.make_room(store);
        }
        if self.entries.len() >= MAX_ENTRIES && !self.entries.contains_key(&key) {
            return Err(OverlayError::Full { key });
        }
        self.entries.insert(key, entry);
        Ok(true)
    }

    /// Lets go of what the store has caught up with; there is nothing to tell of it. What vanished, or was set back, stays
    /// until it is told, as long as it takes no more than half of the room.
    fn make_room(&mut self, store: &Store<T>) {
        self.let_go(|key, entry| entry.over(store, key) == Some(How::CaughtUp));
        if self.entries.len() > MAX_ENTRIES / 2 {
            self.let_go(|key, entry| !entry.stands(store, key));
        }
    }

    fn let_go(&mut self, is_over: impl Fn(&str, &Entry<T>) -> bool) {
        let over = self.entries.iter().filter(|(key, entry)| is_over(key.as_str(), entry));
        for key in over.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            let object = self.entries.remove(&key).and_then(Entry::into_object);
            self.passed.extend(object);
        }
    }

    /// Objects that were let go of to make room: what drops them may be user code, so they wait here for who holds no lock.
    pub fn take_passed(&mut self) -> Vec<Obj<T>> {
        core::mem::take(&mut self.passed)
    }

    /// Takes out all objects that are held: for who drops what it has the last handle of one by one.
    pub fn take_objects(&mut self) -> impl Iterator<Item = Obj<T>> + use<T> {
        let Overlay { entries, passed } = core::mem::take(self);
        passed.into_iter().chain(entries.into_values().filter_map(Entry::into_object))
    }

    /// Takes back what was said of a key: the store alone counts.
    pub fn forget(&mut self, key: &str) {
        self.entries.remove(key);
    }

    /// The object of a key: the own write while the store is older, else the store's.
    pub fn get<'a>(&'a self, store: &'a Store<T>, key: &str) -> Option<&'a Obj<T>> {
        match self.entry(store, key) {
            Some(entry) => entry.object(),
            None => store.get(key),
        }
    }

    /// All objects, own writes in the place of older ones, in no fixed order.
    pub fn list(&self, store: &Store<T>) -> Vec<Obj<T>> {
        self.standing(store).over(store.iter().cloned(), |_| true)
    }

    /// The objects of a namespace (`""`: of all) that `selector` selects, own writes in the place of older ones, in no fixed
    /// order. What does not match as we wrote it is not shown as it was.
    pub fn matching(&self, store: &Store<T>, namespace: &str, selector: &LabelSelector) -> Vec<Obj<T>>
    where
        T: Object,
    {
        let selected = Lister::new(store).select(namespace, selector).objects().cloned();
        self.standing(store).matching(selected, namespace, selector)
    }

    /// What counts at this instant, for who combines it with objects of the same instant later, under no lock.
    pub fn standing(&self, store: &Store<T>) -> Standing<T> {
        let counts = self.entries.iter().filter(|(key, entry)| entry.stands(store, key.as_str()));
        Standing(counts.map(|(key, entry)| (key.clone(), entry.object().cloned())).collect())
    }

    /// The own object that is held of a key, whether it still counts or not.
    pub fn held(&self, key: &str) -> Option<&Obj<T>> {
        self.entries.get(key).and_then(Entry::object)
    }

    /// Lets go of the own writes that the store has come past, and tells each of them, once, in the order of their keys; but
    /// not those that a put has let go of to make room.
    /// Reads are right without it, and puts make room where there is none left; it gives the memory back sooner, and is
    /// the only way to hear of what vanished.
    pub fn settle(&mut self, store: &Store<T>) -> Vec<Settled<T>> {
        let mut settled = Vec::new();
        self.entries.retain(|key, entry| {
            let how = entry.over(store, key.as_str());
            if let Some(how) = how {
                settled.push(Settled { key: key.clone(), object: entry.object().cloned(), how });
            }
            how.is_none()
        });
        settled
    }

    /// Own writes that are held; some may be over, as [`settle`](Self::settle) would tell.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if none is held.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn entry(&self, store: &Store<T>, key: &str) -> Option<&Entry<T>> {
        self.entries.get(key).filter(|entry| entry.stands(store, key))
    }
}

/// The own writes that count at one instant; see [`Overlay::standing`].
#[derive(Debug)]
pub struct Standing<T>(BTreeMap<Key, Option<Obj<T>>>);

impl<T> Standing<T> {
    /// Puts them in the place of the store's objects of the same instant, if they are `selected` as those were.
    pub fn over(&self, objects: impl IntoIterator<Item = Obj<T>>, selected: impl Fn(&Obj<T>) -> bool) -> Vec<Obj<T>> {
        let older = |object: &Obj<T>| self.0.contains_key(object.key().as_str());
        let own = self.0.values().flatten().filter(|object| selected(object)).cloned();
        objects.into_iter().filter(|object| !older(object)).chain(own).collect()
    }

    /// The same, for objects that were chosen by a namespace (`""`: of all) and a selector.
    pub fn matching(
        &self,
        objects: impl IntoIterator<Item = Obj<T>>,
        namespace: &str,
        selector: &LabelSelector,
    ) -> Vec<Obj<T>>
    where
        T: Object,
    {
        self.over(objects, |object| {
            (namespace.is_empty() || object.key().namespace() == namespace) && selector.matches(object.metadata())
        })
    }
}

impl<T> Entry<T> {
    fn object(&self) -> Option<&Obj<T>> {
        match &self.write {
            Write::Put(object) => Some(object),
            Write::Deleted(_) => None,
        }
    }

    fn into_object(self) -> Option<Obj<T>> {
        match self.write {
            Write::Put(object) => Some(object),
            Write::Deleted(_) => None,
        }
    }

    /// How it ended, if it did.
    fn over(&self, store: &Store<T>, key: &str) -> Option<How> {
        if self.stands(store, key) {
            return None;
        }
        Some(match &self.write {
            _ if self.set_backs != store.set_backs() => How::SetBack,
            Write::Put(_) if store.get(key).is_none() => How::Vanished,
            Write::Put(_) | Write::Deleted(_) => How::CaughtUp,
        })
    }

    /// True while the store is older than this write.
    fn stands(&self, store: &Store<T>, key: &str) -> bool {
        if self.set_backs != store.set_backs() {
            return false;
        }
        let is_older = |version: VersionRef<'_>| version.is_before(&self.version);
        // What cannot be compared is the store's to say.
        let store_is_older = store.version().is_empty() || is_older(store.version());
        match (&self.write, store.get(key)) {
            (Write::Put(_), Some(object)) if !is_older(object.version()) => false,
            (Write::Put(_), _) => {
                store_is_older || store.quarantined_key(key).is_some_and(|bad| !is_older(bad.version.borrowed()))
            }
            (Write::Deleted(uid), Some(object)) if object.uid() == *uid => {
                matches!(object.version().compare(&self.version), Some(Ordering::Less | Ordering::Equal))
            }
            // Another incarnation: one from before ours, or one that came after it.
            (Write::Deleted(_), Some(object)) => store_is_older && is_older(object.version()),
            (Write::Deleted(_), None) => store_is_older,
        }
    }
}

impl<T> fmt::Debug for Overlay<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.entries.iter().map(|(key, entry)| (key, &entry.version))).finish()
    }
}
