//! [`Recreated`]: how a handler is told of an object that was deleted and made again while nobody watched.
//!
//! The informer finds another uid under a known key, in a later list or in an event after a gap: two incarnations, of which
//! the end of the first and the beginning of the second were not seen. That is two notifications of one commit, one
//! directly after the other (I17):
//!
//! ```text
//! Split     deleted a (final state unknown), added a         two calls; between them the handler has no a
//! Flagged   updated a, `is_recreation()`                     one call; the handler sees both incarnations at once
//! ```
//!
//! Only such a pair is made one, where the handler walks the batch of that commit: what it has not been told of is a
//! distance of two in the batch and one call. A deletion whose final state was seen, and what another commit brings, stay
//! two; one that came without a state that can be read is as good as unseen. Where a
//! ring merges, a flagged update is merged like any other one, so what waits may be an update from a first incarnation to a
//! third, or an addition of the newest.
//!
//! Random histories of both forms, late or not, stand in `core/tests/recreated.rs` and beside rings in `model.rs`; what a
//! running informer tells in `runtime/tests/drive/recreated.rs`.
//!
//! ```
//! use informer_core::listener::{Batch, Cause, Delivery, Notification, Overflow, Recreated, Ring};
//! use informer_core::{Key, Obj, Uid, Version};
//!
//! let at = |uid: &str, version: &str| Obj::new(Key::new("ns", "a"), Uid::new(uid), Version::new(version), ());
//! let (first, second) = (at("u1", "1"), at("u2", "5"));
//! let unseen = Batch::from(vec![
//!     Notification::Deleted { object: first.clone(), old: first, cause: Cause::Relist, final_state_known: false },
//!     Notification::Added { object: second, initial: false, cause: Cause::Relist },
//! ]);
//! let tell = |recreated| {
//!     let mut ring = Ring::new(Overflow::default()).with_recreated(recreated);
//!     ring.push_batch(&unseen);
//!     std::iter::from_fn(|| ring.pop()).map(|told| match told {
//!         Delivery::Notification(told) => format!("{told}"),
//!         other => format!("{other:?}"),
//!     }).collect::<Vec<_>>()
//! };
//! assert_eq!(tell(Recreated::Split), ["deleted ns/a@1 (final state unknown)", "added ns/a@5"]);
//! assert_eq!(tell(Recreated::Flagged), ["updated ns/a@5 (was 1, recreated)"]);
//! ```

use super::Notification;
use crate::store::same_incarnation;

/// How a handler is told of an object that was deleted and made again unseen: its uid is another one.
///
/// Whichever it is, the end of the first incarnation was missed, and so was what its finalizers have waited for. What a
/// handler keeps outside, it should keep by uid and not by name: what belongs to the first one is to be taken away, what
/// is there already is not the second one's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recreated {
    /// As deleted, with an unknown final state, and at once as added: two incarnations are two objects.
    #[default]
    Split,
    /// As one update, of which [`Notification::is_recreation`] is true: for a handler that wants to see both together, or
    /// that must not take down and set up again what it would then only change. Who does not ask for
    /// [`is_recreation`](Notification::is_recreation) takes the second for a continuation of the first: its uid, its
    /// generation and all that is known of it begin anew.
    Flagged,
}

impl Recreated {
    /// What a handler is told at `at` of a batch: the place behind it, and the notification if it is not the one in the
    /// batch.
    pub(super) fn step<T>(self, batch: &[Notification<T>], at: usize) -> (usize, Option<Notification<T>>) {
        match self {
            Recreated::Split => (at + 1, None),
            Recreated::Flagged => match joined(&batch[at..]) {
                Some(update) => (at + 2, Some(update)),
                None => (at + 1, None),
            },
        }
    }

    /// What a handler is told of a batch from `at` on, one by one.
    pub(super) fn copied<T>(self, batch: &[Notification<T>], mut at: usize) -> impl Iterator<Item = Notification<T>> {
        core::iter::from_fn(move || {
            let here = batch.get(at)?;
            let (next, made) = self.step(batch, at);
            at = next;
            Some(made.unwrap_or_else(|| here.clone()))
        })
    }
}

/// The update that the first two are, if they are a recreation.
fn joined<T>(batch: &[Notification<T>]) -> Option<Notification<T>> {
    match batch {
        [
            Notification::Deleted { old, final_state_known: false, .. },
            Notification::Added { object: new, initial: false, cause },
            ..,
        ] if old.key() == new.key() && !same_incarnation(old.uid(), new.uid()) => {
            Some(Notification::Updated { old: old.clone(), new: new.clone(), cause: *cause })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::{Batch, Cause, Delivery, Overflow, Ring, Turn};
    use crate::object::{Key, Obj, Uid, Version};
    use std::string::{String, ToString};
    use std::vec::Vec;

    fn at(uid: &str, version: u32) -> Obj<()> {
        Obj::new(Key::new("ns", "a"), Uid::new(uid), Version::new(&version.to_string()), ())
    }

    fn added(object: &Obj<()>) -> Notification<()> {
        Notification::Added { object: object.clone(), initial: false, cause: Cause::Relist }
    }

    fn deleted(old: &Obj<()>, final_state_known: bool) -> Notification<()> {
        Notification::Deleted { object: old.clone(), old: old.clone(), cause: Cause::Relist, final_state_known }
    }

    fn unseen(first: &Obj<()>, second: &Obj<()>) -> Batch<()> {
        Batch::from(Vec::from([deleted(first, false), added(second)]))
    }

    fn flagged(limit: usize) -> Ring<()> {
        Ring::new(Overflow::Coalesce { limit }).with_recreated(Recreated::Flagged)
    }

    fn told(ring: &mut Ring<()>) -> Vec<String> {
        let lines = core::iter::from_fn(|| ring.pop()).map(|delivery| match delivery {
            Delivery::Notification(notification) => notification.to_string(),
            Delivery::Synced => "synced".to_string(),
        });
        lines.collect()
    }

    #[test]
    fn one_commit_that_ends_an_incarnation_and_begins_the_next_is_one_flagged_update() {
        let (first, second) = (at("u1", 1), at("u2", 5));
        let mut ring = flagged(9);
        ring.push_batch(&unseen(&first, &second));
        let Some(Turn::Walk(mut walk)) = ring.turn() else { panic!("there is something") };
        assert!(walk.current().is_recreation() && walk.current().cause() == Cause::Relist);
        assert_eq!(walk.current().to_string(), "updated ns/a@5 (was 1, recreated)");
        assert_eq!((walk.place(), walk.advance(), ring.len()), (2, None, 0), "both are passed by one call");
        assert!(matches!(walk.take_made(), Some(made) if Obj::ptr_eq(made.object(), &second)));
        ring.recall(2);
        assert!(!ring.has_work());
    }

    #[test]
    fn what_was_seen_or_is_of_another_commit_or_key_or_of_the_same_incarnation_stays_two() {
        let (first, second) = (at("u1", 1), at("u2", 5));
        let elsewhere = Obj::new(Key::new("ns", "b"), Uid::new("u2"), Version::new("5"), ());
        for commits in [
            [Vec::from([deleted(&first, true), added(&second)]), Vec::new()],
            [Vec::from([deleted(&first, false)]), Vec::from([added(&second)])],
            [Vec::from([deleted(&first, false), added(&elsewhere)]), Vec::new()],
            [Vec::from([deleted(&first, false), added(&at("u1", 5))]), Vec::new()],
            [Vec::from([deleted(&first, false), added(&at("", 5))]), Vec::new()],
        ] {
            let mut ring = flagged(9);
            commits.iter().for_each(|commit| ring.push_batch(&Batch::from(commit.clone())));
            let want: Vec<_> = commits.iter().flatten().map(ToString::to_string).collect();
            assert_eq!((want.len(), told(&mut ring)), (2, want));
        }
    }

    #[test]
    fn what_merges_goes_from_what_the_handler_has_to_the_newest_incarnation() {
        let versions = [at("u1", 1), at("u1", 2), at("u2", 5), at("u3", 7), at("u3", 8)];
        let [first, newer, second, third, last] = &versions;
        let update = |old: &Obj<()>, new: &Obj<()>| Notification::Updated {
            old: old.clone(),
            new: new.clone(),
            cause: Cause::Watch,
        };
        for (known, want) in [(true, "updated ns/a@8 (was 1, recreated)"), (false, "added ns/a@8")] {
            let mut ring = flagged(1);
            ring.push(added(&Obj::new(Key::new("ns", "b"), Uid::new("u"), Version::new("1"), ())));
            assert!(matches!(ring.pop(), Some(Delivery::Notification(_))), "its call runs");
            if !known {
                ring.push(added(first));
            }
            ring.push(update(first, newer));
            ring.push_batch(&unseen(newer, second));
            ring.push_batch(&unseen(second, third));
            ring.push(update(third, last));
            assert_eq!(told(&mut ring), [want]);
        }
    }

    #[test]
    fn the_end_of_an_incarnation_that_a_handler_was_never_told_of_is_the_end_of_the_one_that_it_has() {
        let (first, second, last) = (at("u1", 1), at("u2", 5), at("u2", 6));
        for end in [
            Notification::Deleted { object: last, old: second.clone(), cause: Cause::Watch, final_state_known: true },
            deleted(&second, false),
        ] {
            let mut ring = flagged(0);
            ring.push_batch(&unseen(&first, &second));
            ring.push(end);
            let Some(Delivery::Notification(told)) = ring.pop() else { panic!("its object is gone") };
            assert_eq!(told.to_string(), "deleted ns/a@1 (final state unknown)");
            assert!([Some(told.object()), told.old()].map(|has| Obj::ptr_eq(has.unwrap(), &first)) == [true; 2]);
            assert!(ring.pop().is_none());
        }
    }

    #[test]
    fn a_recreation_that_waits_counts_as_two_until_it_is_merged() {
        let (first, second, third) = (at("u1", 1), at("u2", 5), at("u2", 6));
        let mut ring = flagged(4);
        ring.push_batch(&unseen(&first, &second));
        assert_eq!((ring.len(), ring.stats().high_water), (2, 2));
        let update = Notification::Updated { old: second, new: third, cause: Cause::Watch };
        ring.push_batch(&Batch::from((0..4).map(|_| update.clone()).collect::<Vec<_>>()));
        // Four are exact up to here, and the fifth is merged into the last of them.
        assert_eq!((ring.len(), told(&mut ring).len()), (4, 4));
    }
}
