//! [`InOrderQueue`]: every change, in the order of the wire, and a list as one step.
//!
//! What client-go calls `RealFIFO` in its atomic mode, and what informers use: no change is merged with another, the
//! order across keys is kept, and a list replaces the store in one commit.
//!
//! An informer fills it with decoded items. By hand:
//!
//! ```
//! use informer_core::fifo::InOrderQueue;
//! use informer_core::store::Store;
//! use informer_core::wire::ItemKind;
//! use informer_core::{Key, Obj, Uid, Version};
//!
//! let pod = |name: &str, version: &str| Obj::new(Key::new("web", name), Uid::new("u"), Version::new(version), ());
//! let (mut queue, mut store) = (InOrderQueue::default(), Store::new(7));
//! queue.push_list([pod("a", "1"), pod("b", "2")], Version::new("5"), &store);
//! let _first_list = store.commit(queue.pop().unwrap());
//!
//! queue.push_event(ItemKind::Modified, pod("b", "6"));
//! queue.push_event(ItemKind::Deleted, pod("a", "7"));
//! queue.push_event(ItemKind::Modified, pod("b", "8"));
//! let done = store.commit(queue.pop().unwrap());
//! assert_eq!(
//!     format!("{:?}", done.notifications),
//!     "[updated web/b@6 (was 2) by Watch, deleted web/a@7 by Watch, updated web/b@8 (was 6) by Watch]"
//! );
//! assert_eq!(store.version().as_str(), "8");
//! ```

use crate::decode::{Gone, Item};
use crate::object::{Obj, Version};
use crate::store::{Change, Commit, Fresh, Moves, Spare, Staged, Store};
use crate::wire::ItemKind;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The most events that one commit applies: the writer holds its lock for a few microseconds and no longer.
pub const COMMIT_EVENTS: usize = 64;

/// The most items or notifications that memory is kept for between two commits: an event makes two notifications at most.
const KEPT: usize = 2 * COMMIT_EVENTS;

enum Delta<T> {
    Event(Item<T>),
    /// Events that came together, no more than fit into one commit.
    Events(Vec<Item<T>>),
    /// Boxed, so that an event takes no more room than it needs.
    Replaced(Box<Staged<T>>, Version),
    Bookmark(Version),
}

/// Changes between the decoder and the store.
pub struct InOrderQueue<T> {
    deltas: VecDeque<Delta<T>>,
    /// Memory for the next commit.
    spare: Spare<T>,
}

impl<T> Default for InOrderQueue<T> {
    fn default() -> Self {
        InOrderQueue { deltas: VecDeque::new(), spare: Spare::default() }
    }
}

impl<T> InOrderQueue<T> {
    /// Queues one event of a watch by hand. A kind of `Listed` counts as `Added`.
    pub fn push_event(&mut self, kind: ItemKind, object: Obj<T>) {
        self.push(item_of(kind, object));
    }

    /// Queues a complete list by hand, which stands for `version`; what `store` has at the same uid and version stays.
    ///
    /// # Panics
    ///
    /// If something is queued: the list is compared with the store as it is, so commit what came before it first.
    pub fn push_list(&mut self, list: impl IntoIterator<Item = Obj<T>>, version: Version, store: &Store<T>) {
        assert!(self.is_empty(), "commit what is queued before a list: it is compared with the store");
        self.replace(staged(list, store), version);
    }

    /// Queues one event of a watch.
    pub(crate) fn push(&mut self, item: Item<T>) {
        self.deltas.push_back(Delta::Event(item));
    }

    /// Queues events that came together. As many as fit into one commit are one, and their memory is its memory.
    pub(crate) fn push_together(&mut self, items: Vec<Item<T>>) {
        if (1..=COMMIT_EVENTS).contains(&items.len()) {
            self.deltas.push_back(Delta::Events(items));
        } else {
            items.into_iter().for_each(|item| self.push(item));
        }
    }

    /// Memory for events that are to be [pushed together](Self::push_together).
    pub(crate) fn take_memory(&mut self) -> Vec<Item<T>> {
        core::mem::take(&mut self.spare.items)
    }

    /// Queues a complete list, which stands for `version`.
    pub(crate) fn replace(&mut self, staged: Staged<T>, version: Version) {
        self.deltas.push_back(Delta::Replaced(Box::new(staged), version));
    }

    /// Queues the word of the server that everything up to `version` was sent.
    pub(crate) fn bookmark(&mut self, version: Version) {
        self.deltas.push_back(Delta::Bookmark(version));
    }

    /// Forgets what waits, and gives the objects of it to `unwanted`.
    pub(crate) fn clear(&mut self, unwanted: &mut Vec<Obj<T>>) {
        for delta in self.deltas.drain(..) {
            match delta {
                Delta::Event(item) => unwanted.extend(item.into_object()),
                Delta::Events(items) => unwanted.extend(items.into_iter().filter_map(Item::into_object)),
                Delta::Replaced(staged, _) => unwanted.extend(staged.into_objects()),
                Delta::Bookmark(_) => {}
            }
        }
    }

    /// How many changes wait; a list counts as one.
    pub fn len(&self) -> usize {
        let changes = |delta: &Delta<T>| if let Delta::Events(items) = delta { items.len() } else { 1 };
        self.deltas.iter().map(changes).sum()
    }

    /// True if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.deltas.is_empty()
    }

    /// The next commit: one list, one bookmark, or up to [`COMMIT_EVENTS`] events. `None` if nothing waits.
    pub fn pop(&mut self) -> Option<Commit<T>> {
        let first = self.deltas.pop_front()?;
        let told = core::mem::take(&mut self.spare.told);
        Some(match first {
            Delta::Replaced(staged, version) => {
                Commit { change: Change::Replace(*staged), version: Moves::To(version), told }
            }
            Delta::Bookmark(version) => Commit { change: Change::Nothing, version: Moves::To(version), told },
            Delta::Events(items) => Commit { change: Change::Events(items), version: Moves::WithEvents, told },
            Delta::Event(first) => {
                let mut items = core::mem::take(&mut self.spare.items);
                items.reserve(COMMIT_EVENTS.min(self.deltas.len() + 1));
                items.push(first);
                while items.len() < COMMIT_EVENTS && matches!(self.deltas.front(), Some(Delta::Event(_))) {
                    if let Some(Delta::Event(item)) = self.deltas.pop_front() {
                        items.push(item);
                    }
                }
                Commit { change: Change::Events(items), version: Moves::WithEvents, told }
            }
        })
    }

    /// Takes back the memory of a commit that is done, if it is more than there is: a bookmark brings none.
    pub(crate) fn give_back(&mut self, spare: Spare<T>) {
        let Spare { items, told } = spare;
        debug_assert!(items.is_empty() && told.is_empty(), "what is given back is memory, and no change");
        if (self.spare.items.capacity()..=KEPT).contains(&items.capacity()) {
            self.spare.items = items;
        }
        if (self.spare.told.capacity()..=KEPT).contains(&told.capacity()) {
            self.spare.told = told;
        }
    }
}

/// One event that was decoded elsewhere.
pub(super) fn item_of<T>(kind: ItemKind, object: Obj<T>) -> Item<T> {
    match kind {
        ItemKind::Listed | ItemKind::Added | ItemKind::Modified => {
            Item::Fresh { known: None, fresh: Fresh::bare(object) }
        }
        ItemKind::Deleted => Item::Gone { known: None, gone: Gone::Last(object) },
    }
}

/// A list that was decoded elsewhere, compared with what `store` has.
pub(super) fn staged<T>(list: impl IntoIterator<Item = Obj<T>>, store: &Store<T>) -> Staged<T> {
    let mut staged = Staged::default();
    for object in list {
        let known = store.slot_of(object.key().namespace(), object.key().name());
        staged.push(match known {
            Some((slot, old)) if old.uid() == object.uid() && old.version() == object.version() => {
                Item::Unchanged(slot)
            }
            Some((slot, _)) => Item::Fresh { known: Some(slot), fresh: Fresh::bare(object) },
            None => Item::Fresh { known: None, fresh: Fresh::bare(object) },
        });
    }
    staged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Key, Uid};

    fn events(versions: core::ops::Range<usize>) -> Vec<Item<()>> {
        let item = |version: usize| {
            let version = Version::new(&alloc::format!("{version}"));
            item_of(ItemKind::Modified, Obj::new(Key::new("web", "a"), Uid::new("u"), version, ()))
        };
        versions.map(item).collect()
    }

    /// The versions of each commit.
    fn commits(queue: &mut InOrderQueue<()>) -> Vec<Vec<usize>> {
        let versions =
            |commit: Commit<()>| commit.objects().map(|object| object.version().as_str().parse().unwrap()).collect();
        core::iter::from_fn(|| queue.pop()).map(versions).collect()
    }

    #[test]
    fn events_that_come_together_keep_their_order_and_their_memory_and_no_commit_is_too_large() {
        let mut queue = InOrderQueue::default();
        let together = events(1..4);
        let memory = together.as_ptr();
        queue.push_together(together);
        let Some(Commit { change: Change::Events(items), .. }) = queue.pop() else { panic!("there are events") };
        assert!(core::ptr::eq(items.as_ptr(), memory), "nothing was moved");

        events(1..3).into_iter().for_each(|item| queue.push(item));
        queue.push_together(events(3..5));
        queue.push_together(Vec::new());
        events(5..6).into_iter().for_each(|item| queue.push(item));
        queue.push_together(events(6..6 + 2 * COMMIT_EVENTS));
        assert_eq!(queue.len(), 5 + 2 * COMMIT_EVENTS);
        let commits = commits(&mut queue);
        assert!(commits.iter().all(|versions| (1..=COMMIT_EVENTS).contains(&versions.len())), "{commits:?}");
        assert_eq!(commits.concat(), (1..6 + 2 * COMMIT_EVENTS).collect::<Vec<_>>());
        assert!(queue.is_empty());
    }

    #[test]
    fn what_came_together_and_is_forgotten_is_given_back() {
        let (mut queue, mut unwanted) = (InOrderQueue::default(), Vec::new());
        queue.push_together(events(1..4));
        queue.clear(&mut unwanted);
        assert_eq!((unwanted.len(), queue.len()), (3, 0));
    }
}
