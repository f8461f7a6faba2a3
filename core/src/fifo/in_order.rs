//! [`InOrderQueue`]: every change, in the order of the wire, and a list as one step.
//!
//! What client-go calls `RealFIFO` in its atomic mode, and what informers use: no change is merged with another, the
//! order across keys is kept, and a list replaces the store in one commit.

use crate::decode::Item;
use crate::object::Version;
use crate::store::{Change, Commit, Staged};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The most events that one commit applies: the writer holds its lock for a few microseconds and no longer.
pub const COMMIT_EVENTS: usize = 64;

enum Delta<T> {
    Event(Item<T>),
    Replaced(Staged<T>, Version),
    Bookmark(Version),
}

/// Changes between the decoder and the store.
pub struct InOrderQueue<T>(VecDeque<Delta<T>>);

impl<T> Default for InOrderQueue<T> {
    fn default() -> Self {
        InOrderQueue(VecDeque::new())
    }
}

impl<T> InOrderQueue<T> {
    /// Queues one event of a watch.
    pub(crate) fn push(&mut self, item: Item<T>) {
        self.0.push_back(Delta::Event(item));
    }

    /// Queues a complete list, which stands for `version`.
    pub(crate) fn replace(&mut self, staged: Staged<T>, version: Version) {
        self.0.push_back(Delta::Replaced(staged, version));
    }

    /// Queues the word of the server that everything up to `version` was sent.
    pub(crate) fn bookmark(&mut self, version: Version) {
        self.0.push_back(Delta::Bookmark(version));
    }

    /// How many changes wait; a list counts as one.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next commit: one list, one bookmark, or up to [`COMMIT_EVENTS`] events.
    pub(crate) fn pop(&mut self) -> Option<Commit<T>> {
        match self.0.pop_front()? {
            Delta::Replaced(staged, version) => {
                Some(Commit { change: Change::Replace(staged), version: Some(version) })
            }
            Delta::Bookmark(version) => Some(Commit { change: Change::Nothing, version: Some(version) }),
            Delta::Event(first) => {
                let mut version = None;
                let mut items = Vec::with_capacity(COMMIT_EVENTS.min(self.0.len() + 1));
                let mut next = Some(first);
                while let Some(item) = next.take() {
                    version = item.version().filter(|version| !version.is_empty()).cloned().or(version);
                    items.push(item);
                    if items.len() < COMMIT_EVENTS && matches!(self.0.front(), Some(Delta::Event(_))) {
                        if let Some(Delta::Event(item)) = self.0.pop_front() {
                            next = Some(item);
                        }
                    }
                }
                Some(Commit { change: Change::Events(items), version })
            }
        }
    }
}
