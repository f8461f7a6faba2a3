//! [`Notification`]: what a handler is told.

use crate::object::{KeyRef, Obj};
use crate::store::same_incarnation;
use core::fmt;

/// How the informer learned of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Cause {
    /// The first complete list, or its replay to a handler that came later.
    List,
    /// A later list: something was missed in between. Or one that was [fed](crate::fed), which tells of what is new.
    Relist,
    /// An event of the watch, or a change that was fed.
    Watch,
    /// Nothing changed; the handler asked to be told again now and then.
    Resync,
}

/// One change of one object, as one handler sees it.
///
/// For each handler and key the sequence is: added, any number of updates, deleted; and so on (I11). `old` is the
/// very object that this handler was given last (I12).
#[non_exhaustive]
pub enum Notification<T> {
    /// The handler did not have this key.
    Added {
        /// The object.
        object: Obj<T>,
        /// True if it belonged to the first complete list, or to the replay for a late handler.
        initial: bool,
        /// How it was learned.
        cause: Cause,
    },
    /// The handler had this key, in the same incarnation; in another one only if it asked for that
    /// ([`Recreated::Flagged`](super::Recreated)), and then [`is_recreation`](Notification::is_recreation) says so.
    Updated {
        /// What it was given last.
        old: Obj<T>,
        /// What is true now; the same as `old` at a resync.
        new: Obj<T>,
        /// How it was learned.
        cause: Cause,
    },
    /// The handler had this key, and it is gone (or it no longer matches the informer's selector).
    Deleted {
        /// What the server sent with the deletion. If the final state is unknown, the last one that was known: `old`, or a
        /// newer one that this handler was not told of. Always of the incarnation of `old`.
        object: Obj<T>,
        /// What the handler was given last.
        old: Obj<T>,
        /// How it was learned.
        cause: Cause,
        /// False if the deletion itself was missed: a list no longer had the object, or another incarnation took its
        /// place.
        final_state_known: bool,
    },
}

impl<T> Notification<T> {
    /// The end of what a handler has, which is told with `object`. If that is another incarnation, which came and went while
    /// the handler was not told, nobody saw the end of the one that it has: what it keeps by uid is of that one.
    pub(crate) fn ended(had: Obj<T>, object: Obj<T>, cause: Cause, final_state_known: bool) -> Self {
        match same_incarnation(had.uid(), object.uid()) {
            true => Notification::Deleted { object, old: had, cause, final_state_known },
            false => Notification::Deleted { object: had.clone(), old: had, cause, final_state_known: false },
        }
    }

    /// Namespace and name of the object.
    pub fn key(&self) -> KeyRef<'_> {
        self.object().key()
    }

    /// The object: the new one, or the last one of a deletion.
    pub fn object(&self) -> &Obj<T> {
        match self {
            Notification::Added { object, .. } | Notification::Deleted { object, .. } => object,
            Notification::Updated { new, .. } => new,
        }
    }

    /// What the handler was given last, if anything.
    pub fn old(&self) -> Option<&Obj<T>> {
        match self {
            Notification::Added { .. } => None,
            Notification::Updated { old, .. } | Notification::Deleted { old, .. } => Some(old),
        }
    }

    /// [`object`](Self::object) and [`old`](Self::old), for whoever keeps them or drops them one by one. Of a deletion whose
    /// final state is unknown they may be the same object.
    ///
    /// ```
    /// use informer_core::listener::{Cause, Notification};
    /// use informer_core::{Key, Obj, Uid, Version};
    ///
    /// let at = |version: &str| Obj::new(Key::new("ns", "a"), Uid::new("u"), Version::new(version), ());
    /// let added = Notification::Added { object: at("1"), initial: false, cause: Cause::Watch };
    /// assert!(added.into_parts().1.is_none());
    /// let updated = Notification::Updated { old: at("1"), new: at("2"), cause: Cause::Watch };
    /// let (object, old) = updated.into_parts();
    /// assert!(object.version() == *"2" && old.is_some_and(|old| old.version() == *"1"));
    /// ```
    pub fn into_parts(self) -> (Obj<T>, Option<Obj<T>>) {
        match self {
            Notification::Added { object, .. } => (object, None),
            Notification::Updated { old, new, .. } => (new, Some(old)),
            Notification::Deleted { object, old, .. } => (object, Some(old)),
        }
    }

    /// Its objects, each a thing of its own to drop; the old one first.
    ///
    /// ```
    /// use informer_core::listener::{Cause, Notification};
    /// use informer_core::{Key, Obj, Uid, Version};
    ///
    /// let at = |version: &str| Obj::new(Key::new("ns", "a"), Uid::new("u"), Version::new(version), ());
    /// let updated = Notification::Updated { old: at("1"), new: at("2"), cause: Cause::Watch };
    /// let versions: Vec<_> = updated.into_objects().map(|object| object.version().to_string()).collect();
    /// assert_eq!(versions, ["1", "2"]);
    /// ```
    pub fn into_objects(self) -> impl Iterator<Item = Obj<T>> {
        let (object, old) = self.into_parts();
        old.into_iter().chain([object])
    }

    /// True for an update between two incarnations: the object was deleted and made again unseen, and its uid is another
    /// one. Only a handler that asked for [`Recreated::Flagged`](super::Recreated) is told so; for others it is a deletion
    /// and an addition.
    ///
    /// A handler must do what it does at a deletion of `old` and at an addition of `new`, though it may do it in one
    /// step: what it keeps outside under the uid of `old` is nobody's any more; finalizers of `old` were taken off by
    /// somebody else, and those that `new` needs are not on it yet; its generation and status begin anew.
    pub fn is_recreation(&self) -> bool {
        match self {
            Notification::Updated { old, new, .. } => !same_incarnation(old.uid(), new.uid()),
            Notification::Added { .. } | Notification::Deleted { .. } => false,
        }
    }

    /// How the change was learned.
    pub fn cause(&self) -> Cause {
        match self {
            Notification::Added { cause, .. }
            | Notification::Updated { cause, .. }
            | Notification::Deleted { cause, .. } => *cause,
        }
    }
}

impl<T> Clone for Notification<T> {
    fn clone(&self) -> Self {
        match self {
            Notification::Added { object, initial, cause } => {
                Notification::Added { object: object.clone(), initial: *initial, cause: *cause }
            }
            Notification::Updated { old, new, cause } => {
                Notification::Updated { old: old.clone(), new: new.clone(), cause: *cause }
            }
            Notification::Deleted { object, old, cause, final_state_known } => Notification::Deleted {
                object: object.clone(),
                old: old.clone(),
                cause: *cause,
                final_state_known: *final_state_known,
            },
        }
    }
}

impl<T> fmt::Display for Notification<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notification::Added { object, .. } => write!(f, "added {object:?}"),
            Notification::Updated { old, new, cause: Cause::Resync } => {
                debug_assert!(Obj::ptr_eq(old, new), "a resync repeats what was delivered last (I18)");
                write!(f, "resync {new:?}")
            }
            Notification::Updated { old, new, .. } => {
                let recreated = if self.is_recreation() { ", recreated" } else { "" };
                write!(f, "updated {new:?} (was {}{recreated})", old.version())
            }
            Notification::Deleted { object, final_state_known: true, .. } => write!(f, "deleted {object:?}"),
            Notification::Deleted { object, .. } => write!(f, "deleted {object:?} (final state unknown)"),
        }
    }
}

impl<T> fmt::Debug for Notification<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} by {:?}", self.cause())
    }
}
