//! [`Goal`]: whether a cache has a write that we know of.
//!
//! A write is answered by the server before the watch tells the cache of it. Who reads the cache in between sees the
//! state from before their own write. A [`Goal`] is the version that the answer carried; asked after each change of the
//! store, it says when the cache has caught up, or that it never will:
//!
//! ```text
//!                  ┌─ the store stands for the version, or a later one ─► reached
//! Goal ── look ────┼─ it does not yet ──────────────────────────────────► look again after the next change
//!                  └─ no comparison, or the server was set back ────────► Unreachable
//! ```
//!
//! Versions are compared by the official rule only (C1, C2). The goal waits for nothing: runtimes do, with a deadline.
//!
//! ```
//! use informer_core::store::{Goal, Seen, Store};
//! use informer_core::{Key, Obj, Uid, Version};
//!
//! let mut store = Store::new(7);
//! let pod = |version: &str| Obj::new(Key::new("web", "a"), Uid::new("u"), Version::new(version), ());
//! store.upsert(pod("9"));
//! let (key, mut written) = (Key::new("web", "a"), Goal::new(Version::new("10")));
//! assert!(matches!(written.seen(&store, &key), Ok(None)));
//! store.upsert(pod("11"));
//! assert!(matches!(written.seen(&store, &key), Ok(Some(Seen::Present(object))) if object.version() == *"11"));
//! ```

use super::Store;
use crate::object::{Key, Obj, Version};
use core::cmp::Ordering;
use core::fmt;

/// A version that a store is to come to.
#[derive(Clone, Debug)]
pub struct Goal {
    version: Version,
    /// How often the store had been set back when it was looked at first.
    set_backs: Option<u64>,
}

/// What a store that stands for a version has under a key.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Seen<T> {
    /// The object, at the version or a later one; perhaps another incarnation by now.
    Present(Obj<T>),
    /// No object: it was deleted since, or the informer does not select it.
    Absent,
    /// An older version, although the store stands for the one asked for or a later one: that version was not one of this
    /// object, or the server lost it in a restore.
    Older(Obj<T>),
    /// The newest version cannot be decoded; with it the last one that could, if there is one.
    Undecodable(Option<Obj<T>>),
}

impl<T> Seen<T> {
    /// The object that the store has, whatever its version.
    pub fn into_object(self) -> Option<Obj<T>> {
        match self {
            Seen::Present(object) | Seen::Older(object) => Some(object),
            Seen::Undecodable(object) => object,
            Seen::Absent => None,
        }
    }

    /// True if the object was deleted since, or is not selected.
    pub fn is_absent(&self) -> bool {
        matches!(self, Seen::Absent)
    }
}

/// Why looking again is of no use.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unreachable {
    /// One of the two versions is no decimal number, so nobody can say which is later (C2).
    Incomparable {
        /// The version asked for.
        asked: Version,
        /// What the store stands for; empty before the first list.
        stands_for: Version,
    },
    /// The server was set back to an older state since the first look: the version may be lost, or be given to another
    /// write (C25).
    SetBack {
        /// The version asked for.
        asked: Version,
        /// What the store stands for now.
        stands_for: Version,
    },
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreachable::Incomparable { asked, stands_for } if stands_for.is_empty() => {
                write!(f, "{:?} is no version that can be compared: only decimal numbers can", asked.as_str())
            }
            Unreachable::Incomparable { asked, stands_for } => write!(
                f,
                "{:?} cannot be compared with {:?}, for which the cache stands: only decimal numbers can",
                asked.as_str(),
                stands_for.as_str()
            ),
            Unreachable::SetBack { asked, stands_for } => write!(
                f,
                "the server was set back to version {stands_for}, so version {asked} may be lost: read the object again"
            ),
        }
    }
}

impl fmt::Debug for Unreachable {
    /// The text of Display: `main` prints errors so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for Unreachable {}

impl Goal {
    /// The version that the server gave to a write, or that a list or another cache stood for.
    pub fn new(version: Version) -> Self {
        Goal { version, set_backs: None }
    }

    /// The version asked for.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// Whether the store stands for the version or a later one: every change up to it is in the store. A store that was
    /// [preloaded](Store::preload) stands for the version that it was given.
    ///
    /// # Errors
    ///
    /// If it cannot be known, or is never to be expected.
    pub fn reached<T>(&mut self, store: &Store<T>) -> Result<bool, Unreachable> {
        let (asked, stands_for) = (&self.version, store.version());
        let unreachable = |why: fn(Version, Version) -> Unreachable| why(asked.clone(), stands_for.to_version());
        if *self.set_backs.get_or_insert(store.set_backs()) != store.set_backs() {
            return Err(unreachable(|asked, stands_for| Unreachable::SetBack { asked, stands_for }));
        }
        if stands_for == *asked && !asked.is_unset() {
            return Ok(true);
        }
        match stands_for.compare(asked) {
            Some(order) if !asked.is_unset() => Ok(order != Ordering::Less),
            None if stands_for.is_empty() && asked.is_decimal() => Ok(false),
            Some(_) | None => Err(unreachable(|asked, stands_for| Unreachable::Incomparable { asked, stands_for })),
        }
    }

    /// What the store has under `key`, once it has that object at the version or a later one, or stands for one.
    ///
    /// # Errors
    ///
    /// As [`reached`](Self::reached).
    pub fn seen<T>(&mut self, store: &Store<T>, key: &Key) -> Result<Option<Seen<T>>, Unreachable> {
        let reached = self.reached(store)?;
        let object = store.get(key.as_str());
        if let Some(object) = object {
            let order = object.version().compare(&self.version);
            if matches!(order, Some(Ordering::Equal | Ordering::Greater)) {
                return Ok(Some(Seen::Present(object.clone())));
            }
        }
        let bad = store.quarantined_key(key.as_str());
        Ok(reached.then(|| match object.cloned() {
            object if bad.is_some() => Seen::Undecodable(object),
            Some(object) => Seen::Older(object),
            None => Seen::Absent,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fifo::InOrderQueue;
    use crate::object::Uid;
    use crate::wire::ItemKind;
    use alloc::vec::Vec;
    use std::format;

    fn pod(name: &str, version: &str) -> Obj<()> {
        Obj::new(Key::new("web", name), Uid::new("u"), Version::new(version), ())
    }

    fn list(store: &mut Store<()>, objects: &[Obj<()>], version: &str) {
        let mut queue = InOrderQueue::default();
        queue.push_list(objects.iter().cloned(), Version::new(version), store);
        let _told = store.commit(queue.pop().unwrap());
    }

    fn event(store: &mut Store<()>, kind: ItemKind, object: Obj<()>) {
        let mut queue = InOrderQueue::default();
        queue.push_event(kind, object);
        let _told = store.commit(queue.pop().unwrap());
    }

    fn goal(version: &str) -> Goal {
        Goal::new(Version::new(version))
    }

    #[test]
    fn a_version_is_reached_by_a_list_or_by_an_event_of_any_object() {
        let mut store = Store::new(1);
        let mut ten = goal("10");
        assert_eq!(ten.reached(&store), Ok(false), "nothing is listed yet");
        list(&mut store, &[pod("a", "3")], "9");
        assert_eq!(ten.reached(&store), Ok(false));
        event(&mut store, ItemKind::Added, pod("b", "10"));
        assert_eq!(ten.reached(&store), Ok(true));
        event(&mut store, ItemKind::Added, pod("b", "100"));
        assert_eq!(ten.reached(&store), Ok(true), "length counts before digits");
    }

    #[test]
    fn a_written_object_is_present_gone_or_as_it_was() {
        let mut store = Store::new(1);
        list(&mut store, &[pod("a", "3"), pod("b", "4")], "9");
        let [a, b] = ["a", "b"].map(|name| Key::new("web", name));
        let mut written = goal("10");
        assert!(matches!(written.seen(&store, &a), Ok(None)));
        event(&mut store, ItemKind::Modified, pod("a", "10"));
        let version = |seen: Seen<()>| seen.into_object().map(|object| format!("{}", object.version()));
        let Ok(Some(seen @ Seen::Present(_))) = written.seen(&store, &a) else { panic!("it was written at 10") };
        assert_eq!(version(seen).as_deref(), Some("10"));
        event(&mut store, ItemKind::Deleted, pod("a", "12"));
        assert!(matches!(written.seen(&store, &a), Ok(Some(Seen::Absent))));
        let Ok(Some(seen @ Seen::Older(_))) = written.seen(&store, &b) else { panic!("nobody wrote b at 10") };
        assert_eq!(version(seen).as_deref(), Some("4"));
    }

    #[test]
    fn versions_that_cannot_be_compared_are_an_error_at_once() {
        let mut store = Store::new(1);
        for odd in ["", "0", "abc", "007"] {
            let error = goal(odd).reached(&store).unwrap_err();
            assert!(format!("{error}").starts_with(&format!("{odd:?} is no version that can be compared")), "{error}");
        }
        list(&mut store, &[], "abc");
        assert_eq!(goal("abc").reached(&store), Ok(true), "equal is equal");
        for other in ["5", "abd"] {
            let error = goal(other).reached(&store).unwrap_err();
            assert!(matches!(error, Unreachable::Incomparable { .. }), "{error}");
        }
    }

    #[test]
    fn who_waits_while_the_server_is_set_back_is_told_even_if_the_version_comes_again() {
        let mut store = Store::new(1);
        list(&mut store, &[pod("a", "3")], "100");
        let mut before = goal("105");
        assert_eq!(before.reached(&store), Ok(false));
        list(&mut store, &[pod("a", "3")], "50");
        let mut after = goal("105");
        assert_eq!(after.reached(&store), Ok(false), "who asks now waits for the new history");
        for version in ["50", "105"] {
            list(&mut store, &[pod("a", "3")], version);
            let error = before.reached(&store).unwrap_err();
            let texts: Vec<_> = ["set back", version, "105"].into_iter().collect();
            assert!(texts.iter().all(|text| format!("{error}").contains(text)), "{error}");
        }
        assert_eq!(after.reached(&store), Ok(true));
    }
}
