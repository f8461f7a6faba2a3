//! [`Notification`]: one change of one object, as a handler sees it.

use crate::object::{Key, Obj};
use core::fmt;

/// What revealed a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Cause {
    /// The first list, or the replay of the cache to a handler that came late.
    List,
    /// Any later list.
    Relist,
    /// An event of a watch.
    Watch,
    /// The repeat of what is known, which a handler asked for.
    Resync,
}

/// One change of one object.
///
/// For one handler and one key, notifications form the chain added, updated any number of times, deleted; and `old` is
/// always the very object that the handler was given before.
///
/// ```
/// use informer_core::listener::{Cause, Notification};
/// use informer_core::object::{Key, Obj, Uid, Version};
///
/// let pod = |version| Obj::new(Key::new("web", "a"), Uid::new("u"), Version::new(version), ());
/// let event = Notification::Updated { old: pod("7"), new: pod("9"), cause: Cause::Watch };
/// assert_eq!(event.to_string(), "updated web/a@7 -> 9");
/// assert_eq!(event.object().version().as_str(), "9");
/// ```
pub enum Notification<T> {
    /// The object is there, and was not before.
    Added {
        /// The object.
        object: Obj<T>,
        /// True for what was there from the beginning: the first complete list, or the replay to a late handler.
        initial: bool,
        /// What revealed it.
        cause: Cause,
    },
    /// The object has another state, or is repeated by a resync.
    Updated {
        /// The state that the handler was given before.
        old: Obj<T>,
        /// The state now.
        new: Obj<T>,
        /// What revealed it.
        cause: Cause,
    },
    /// The object is gone, or has left the selection.
    Deleted {
        /// What the server sent with the deletion; `old` again if the final state is unknown.
        object: Obj<T>,
        /// The state that the handler was given before.
        old: Obj<T>,
        /// What revealed it.
        cause: Cause,
        /// False if the deletion itself was not seen: the object was missing in a list, or there under another uid.
        final_state_known: bool,
    },
}

impl<T> Notification<T> {
    /// Namespace and name of the object.
    pub fn key(&self) -> &Key {
        self.object().key()
    }

    /// What revealed the change.
    pub fn cause(&self) -> Cause {
        match self {
            Notification::Added { cause, .. }
            | Notification::Updated { cause, .. }
            | Notification::Deleted { cause, .. } => *cause,
        }
    }

    /// The newest state that is known; for a deletion the last one.
    pub fn object(&self) -> &Obj<T> {
        match self {
            Notification::Added { object, .. } | Notification::Deleted { object, .. } => object,
            Notification::Updated { new, .. } => new,
        }
    }

    /// The state that the handler was given before, if there is one.
    pub fn old(&self) -> Option<&Obj<T>> {
        match self {
            Notification::Added { .. } => None,
            Notification::Updated { old, .. } | Notification::Deleted { old, .. } => Some(old),
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

impl<T> fmt::Debug for Notification<T> {
    /// Identity only: a value may hold a Secret's data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notification::Added { object, initial, cause } => {
                f.debug_struct("Added").field("object", object).field("initial", initial).field("cause", cause).finish()
            }
            Notification::Updated { old, new, cause } => {
                f.debug_struct("Updated").field("old", old).field("new", new).field("cause", cause).finish()
            }
            Notification::Deleted { object, old, cause, final_state_known } => f
                .debug_struct("Deleted")
                .field("object", object)
                .field("old", old)
                .field("cause", cause)
                .field("final_state_known", final_state_known)
                .finish(),
        }
    }
}

impl<T> fmt::Display for Notification<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let object = self.object();
        let (key, version) = (object.key(), object.version());
        match self {
            Notification::Added { .. } => write!(f, "added {key}@{version}"),
            Notification::Updated { old, .. } => write!(f, "updated {key}@{} -> {version}", old.version()),
            Notification::Deleted { final_state_known: true, .. } => write!(f, "deleted {key}@{version}"),
            Notification::Deleted { .. } => write!(f, "deleted {key}@{version} (final state unknown)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Uid, Version};
    use std::format;
    use std::string::ToString;

    /// A value that can neither be cloned nor printed.
    struct Opaque;

    fn pod(version: &str) -> Obj<Opaque> {
        Obj::new(Key::new("web", "a"), Uid::new("u"), Version::new(version), Opaque)
    }

    #[test]
    fn notifications_read_as_sentences() {
        let added = Notification::Added { object: pod("7"), initial: true, cause: Cause::List };
        let seen =
            Notification::Deleted { object: pod("9"), old: pod("7"), cause: Cause::Watch, final_state_known: true };
        let old = pod("7");
        let unseen = Notification::Deleted { object: old.clone(), old, cause: Cause::Relist, final_state_known: false };
        assert_eq!(added.to_string(), "added web/a@7");
        assert_eq!(seen.to_string(), "deleted web/a@9");
        assert_eq!(unseen.clone().to_string(), "deleted web/a@7 (final state unknown)");
        assert_eq!((unseen.cause(), unseen.key().name()), (Cause::Relist, "a"));
        assert!(added.old().is_none() && Obj::ptr_eq(unseen.old().unwrap(), unseen.object()));
        assert_eq!(format!("{added:?}"), "Added { object: web/a@7, initial: true, cause: List }");
    }
}
