//! What becomes of two changes of one key that a handler has not been told of (I11, I12, I21).
//!
//! | waits | comes | becomes |
//! |---|---|---|
//! | added | updated | added, with the newer object |
//! | added | deleted | nothing: the place is kept for the key |
//! | nothing | added | added |
//! | updated | updated | updated, from the older `old` to the newer object |
//! | updated | deleted | deleted, with the older `old`; of the incarnation of that |
//! | deleted | added | both: they are two incarnations |
//!
//! An update from one incarnation to another, which a handler can [ask for](super::Recreated), is an update here: of what a
//! handler was not told it needs no incarnation in between, and its `old` says which one it has.

use super::Notification;
use super::ring::Entry;

pub(super) enum Joined<T> {
    /// One entry, in the place of the earlier one.
    One(Entry<T>),
    /// The empty place of a key was filled again.
    Refilled(Entry<T>),
    /// The earlier entry stays; the later one is appended.
    Two(Entry<T>, Notification<T>),
}

/// Merges a change into the last open entry of its key, so that what the handler sees is legal and ends the same.
pub(super) fn join<T>(before: Entry<T>, after: Notification<T>) -> Joined<T> {
    use Notification::{Added, Deleted, Updated};
    match (before, after) {
        (Entry::Nothing(_), after) => {
            debug_assert!(matches!(after, Added { .. }), "after a deletion comes an addition (I11)");
            Joined::Refilled(Entry::Change(after))
        }
        (Entry::Change(Added { initial, cause, .. }), Updated { new, .. }) => {
            Joined::One(Entry::Change(Added { object: new, initial, cause }))
        }
        (Entry::Change(Added { object, .. }), Deleted { .. }) => Joined::One(Entry::Nothing(object.key().to_key())),
        (Entry::Change(Updated { old, .. }), Updated { new, cause, .. }) => {
            Joined::One(Entry::Change(Updated { old, new, cause }))
        }
        (Entry::Change(Updated { old, .. }), Deleted { object, cause, final_state_known, .. }) => {
            // With an unknown final state `object` is the last one that the informer knew: newer than what the
            // handler saw, and still the best there is.
            Joined::One(Entry::Change(Notification::ended(old, object, cause, final_state_known)))
        }
        (before, after) => Joined::Two(before, after),
    }
}
