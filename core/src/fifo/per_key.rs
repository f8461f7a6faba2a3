//! [`PerKeyQueue`]: an informer's queue in the order of [`DeltaFifo`](super::DeltaFifo), one key after the other.
//!
//! ```text
//!   of the wire    b@6  a@7  b@8        a commit    b@6  b@8  a@7        up to version 8, once all of them are applied
//! ```
//!
//! The store does what the other queue has to ask [`KnownObjects`](super::KnownObjects) for: it drops a deletion of what it
//! does not have, and finds what a list leaves out. A list stays one step, so that readers see it whole or not at all.
//!
//! Invariants: a list is taken before anything is queued behind it; the store's version moves with the last change that
//! is queued, for before that an older one of another key is missing. Bounded by what an informer decodes at a time.

use super::in_order::COMMIT_EVENTS;
use super::lines::{End, Happened, Lines};
use crate::decode::{Gone, Item};
use crate::object::{Key, Obj, Version};
use crate::store::{Change, Commit, Moves, Staged};
use alloc::vec::{self, Vec};

pub(crate) struct PerKeyQueue<T> {
    lines: Lines<Item<T>>,
    /// What is left of the line that was begun.
    begun: vec::IntoIter<Item<T>>,
    /// What the store stands for when everything is applied.
    version: Option<Version>,
    list: Option<(Staged<T>, Version)>,
}

impl<T> Default for PerKeyQueue<T> {
    fn default() -> Self {
        PerKeyQueue { lines: Lines::new(usize::MAX), begun: Vec::new().into_iter(), version: None, list: None }
    }
}

impl<T> PerKeyQueue<T> {
    /// Queues one event of a watch. What is not told because of it goes to `unwanted`.
    pub(crate) fn push(&mut self, item: Item<T>, unwanted: &mut Vec<Obj<T>>) {
        self.check();
        if let Some(version) = item.version().filter(|version| !version.is_empty()) {
            self.version = Some(version.to_version());
        }
        let key = match &item {
            // Only a list is probed for unchanged objects.
            Item::Unchanged(_) => return,
            Item::Fresh { fresh, .. } => fresh.object.key().to_key(),
            Item::Gone { gone, .. } => gone.key().to_key(),
            // Those without a key are one line: they are reported, and change nothing.
            Item::Bad { bad, .. } => bad.key.clone().unwrap_or_else(|| Key::new("", "")),
        };
        let left = self.lines.push(&key, item);
        unwanted.extend(left.into_iter().filter_map(Item::into_object));
    }

    /// Forgets what waits, and gives the objects of it to `unwanted`.
    pub(crate) fn clear(&mut self, unwanted: &mut Vec<Obj<T>>) {
        let PerKeyQueue { lines, begun, version: _, list } = core::mem::take(self);
        unwanted.extend(begun.chain(lines.into_all()).filter_map(Item::into_object));
        unwanted.extend(list.into_iter().flat_map(|(staged, _)| staged.into_objects()));
    }

    /// Queues a complete list, which stands for `version`.
    pub(crate) fn replace(&mut self, staged: Staged<T>, version: Version) {
        self.check();
        self.list = Some((staged, version));
    }

    /// Queues the word of the server that everything up to `version` was sent.
    pub(crate) fn bookmark(&mut self, version: Version) {
        self.check();
        self.version = Some(version);
    }

    fn check(&self) {
        debug_assert!(self.list.is_none(), "a list is taken before anything is queued behind it");
    }

    /// The next commit: up to [`COMMIT_EVENTS`] events, one bookmark, or one list. `None` if nothing waits.
    pub(crate) fn pop(&mut self) -> Option<Commit<T>> {
        let mut items = Vec::new();
        while items.len() < COMMIT_EVENTS {
            match self.begun.next() {
                Some(item) => items.push(item),
                None => match self.lines.pop() {
                    Some((_, line)) => self.begun = line.list.into_iter(),
                    None => break,
                },
            }
        }
        if !items.is_empty() {
            let last = self.begun.as_slice().is_empty() && self.lines.len() == 0;
            let version = self.version.take_if(|_| last).map_or(Moves::No, Moves::To);
            return Some(Commit { change: Change::Events(items), version, told: Vec::new() });
        }
        if let Some(version) = self.version.take() {
            return Some(Commit { change: Change::Nothing, version: Moves::To(version), told: Vec::new() });
        }
        let (staged, version) = self.list.take()?;
        Some(Commit { change: Change::Replace(staged), version: Moves::To(version), told: Vec::new() })
    }
}

impl<T> Happened for Item<T> {
    fn end(&self) -> Option<End> {
        match self {
            Item::Gone { gone: Gone::Last(_), .. } => Some(End::Seen),
            Item::Gone { gone: Gone::Named { .. }, .. } => Some(End::Inferred),
            Item::Unchanged(_) | Item::Fresh { .. } | Item::Bad { .. } => None,
        }
    }

    fn absorbed(self, next: Self) -> (Self, Option<Self>) {
        (next, Some(self))
    }
}
