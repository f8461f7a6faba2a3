//! [`Walk`]: a stretch of a ring that its handler walks without asking the ring for each step.

use super::{Batch, Cause, Notification, Recreated};
use crate::object::Obj;
use crate::store::Snapshot;
use core::fmt;
use core::slice::from_ref;

/// A stretch of a ring: the rest of a batch, or of the snapshot behind a replay or a resync. [`current`](Self::current) is
/// what the handler is told; [`advance`](Self::advance) goes on.
///
/// A ring that has lent a stretch does not know how far its handler came: who owns both keeps the place where both sides
/// see it, and claims each step there, so that what was taken back is not delivered. See [`Ring::turn`](super::Ring::turn).
pub struct Walk<T> {
    source: Source<T>,
    /// Behind the current one.
    at: usize,
    /// The current one, where it is not in a batch as it is told.
    made: Option<Notification<T>>,
}

enum Source<T> {
    Batch(Batch<T>),
    /// The same for a handler that is told of a recreation as one. Apart, so that the others need not look for one.
    Flagged(Batch<T>),
    Replay(Snapshot<T>),
    Resync(Snapshot<T>),
    /// Nothing after the current one.
    One,
}

impl<T> Walk<T> {
    pub(super) fn one(notification: Notification<T>) -> Self {
        Walk { source: Source::One, at: 0, made: Some(notification) }
    }

    /// Of a batch, with the notification at `at` as the current one. There is one.
    pub(super) fn batch(batch: Batch<T>, at: usize, recreated: Recreated) -> Self {
        let (at, made) = recreated.step(&batch, at);
        let source = match recreated {
            Recreated::Split => Source::Batch(batch),
            Recreated::Flagged => Source::Flagged(batch),
        };
        Walk { source, at, made }
    }

    pub(super) fn replay(snapshot: Snapshot<T>, at: usize, current: Notification<T>) -> Self {
        Walk { source: Source::Replay(snapshot), at, made: Some(current) }
    }

    pub(super) fn resync(snapshot: Snapshot<T>, at: usize, current: Notification<T>) -> Self {
        Walk { source: Source::Resync(snapshot), at, made: Some(current) }
    }

    /// The notification that is to be delivered now.
    ///
    /// # Panics
    ///
    /// If it was [taken](Self::take_made).
    pub fn current(&self) -> &Notification<T> {
        match &self.source {
            Source::Batch(batch) => &batch[self.at - 1],
            Source::Flagged(batch) => self.made.as_ref().unwrap_or_else(|| &batch[self.at - 1]),
            Source::Replay(_) | Source::Resync(_) | Source::One => self.made.as_ref().expect("it was not taken"),
        }
    }

    /// The place behind the current one.
    pub fn place(&self) -> usize {
        self.at
    }

    /// The place behind the current one and up to `most` more that lie there as they are told: those of a batch.
    pub fn reach(&self, most: usize) -> usize {
        match &self.source {
            Source::Batch(batch) => batch.len().min(self.at + most),
            // What is joined, or made, is taken one by one.
            Source::Flagged(_) | Source::Replay(_) | Source::Resync(_) | Source::One => self.at,
        }
    }

    /// The current one, and behind it what lies in its batch as it is told, up to `place`: at most as far as
    /// [`reach`](Self::reach) says.
    ///
    /// # Panics
    ///
    /// If `place` is not behind the current one, or beyond the batch; or as [`current`](Self::current) does.
    pub fn stretch(&self, place: usize) -> &[Notification<T>] {
        match &self.source {
            Source::Batch(batch) => &batch[self.at - 1..place],
            Source::Flagged(_) | Source::Replay(_) | Source::Resync(_) | Source::One => from_ref(self.current()),
        }
    }

    /// Goes on to another one of [`stretch`](Self::stretch), by its number there.
    pub fn go_to(&mut self, number: usize) {
        self.at += number;
        debug_assert!(
            number == 0 || matches!(&self.source, Source::Batch(batch) if self.at <= batch.len()),
            "it lies in the stretch"
        );
    }

    /// Goes on to the next one, and says the place behind it; `None` at the end.
    pub fn advance(&mut self) -> Option<usize> {
        match &self.source {
            Source::Batch(batch) => {
                if self.at == batch.len() {
                    return None;
                }
                self.at += 1;
            }
            Source::Flagged(batch) => {
                if self.at == batch.len() {
                    return None;
                }
                (self.at, self.made) = Recreated::Flagged.step(batch, self.at);
            }
            Source::Replay(snapshot) => self.made = Some(replayed(snapshot, &mut self.at)?),
            Source::Resync(snapshot) => self.made = Some(repeated(snapshot, &mut self.at)?),
            Source::One => return None,
        }
        Some(self.at)
    }

    /// Takes a notification that is not part of a batch, or made of two of one, so that it can be dropped where its type's
    /// panic harms nobody.
    pub fn take_made(&mut self) -> Option<Notification<T>> {
        self.made.take()
    }

    /// The objects of what is walked, but for those of a batch or a snapshot that others hold: for who drops what it has
    /// the last handle of one by one.
    pub fn into_objects(self) -> impl Iterator<Item = Obj<T>> {
        let (batch, snapshot) = match self.source {
            Source::Batch(batch) | Source::Flagged(batch) => (Some(batch), None),
            Source::Replay(snapshot) | Source::Resync(snapshot) => (None, Some(snapshot)),
            Source::One => (None, None),
        };
        objects(batch, self.made, snapshot)
    }
}

/// The objects of what a handler is told from, each a thing of its own to drop.
pub(super) fn objects<T>(
    batch: Option<Batch<T>>,
    made: Option<Notification<T>>,
    snapshot: Option<Snapshot<T>>,
) -> impl Iterator<Item = Obj<T>> {
    let made = made.into_iter().flat_map(Notification::into_objects);
    let batch = batch.into_iter().flat_map(Batch::into_objects);
    made.chain(batch).chain(snapshot.into_iter().flat_map(Snapshot::into_objects))
}

/// The next object of an initial state.
pub(super) fn replayed<T>(snapshot: &Snapshot<T>, at: &mut usize) -> Option<Notification<T>> {
    let object = snapshot.next(at)?.clone();
    Some(Notification::Added { object, initial: true, cause: Cause::List })
}

/// The next object of a resync.
pub(super) fn repeated<T>(snapshot: &Snapshot<T>, at: &mut usize) -> Option<Notification<T>> {
    let object = snapshot.next(at)?;
    Some(Notification::Updated { old: object.clone(), new: object.clone(), cause: Cause::Resync })
}

impl<T> fmt::Debug for Walk<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = match &self.source {
            Source::Batch(_) | Source::Flagged(_) => "a batch",
            Source::Replay(_) => "the initial state",
            Source::Resync(_) => "a resync",
            Source::One => "one notification",
        };
        write!(f, "walk of {of} at {}", self.at)
    }
}
