//! [`Queue`]: the queue of one informer, of whichever [`QueueKind`].

use super::in_order::InOrderQueue;
use super::per_key::PerKeyQueue;
use crate::decode::Item;
use crate::object::{Obj, Version};
use crate::store::{Commit, Spare, Staged};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

/// In which order an informer applies the changes of a watch.
///
/// Either way a list is one step, the changes of one object keep their order, a handler is told added, updated and deleted
/// in an order that makes sense, and the store's version says that every change up to it is applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum QueueKind {
    /// That of the wire: [`InOrderQueue`].
    #[default]
    InOrder,
    /// Of what is decoded together, one object after the other, in the order of each one's first change: as
    /// [`DeltaFifo`](super::DeltaFifo) does it. For handlers that save work when the changes of one object come together.
    DeltaFifo,
}

impl fmt::Display for QueueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            QueueKind::InOrder => "in order",
            QueueKind::DeltaFifo => "delta fifo",
        })
    }
}

/// One of the two.
pub(crate) enum Queue<T> {
    InOrder(InOrderQueue<T>),
    /// Apart, so that the other one costs no more memory for it.
    PerKey(Box<PerKeyQueue<T>>),
}

impl<T> Queue<T> {
    pub(crate) fn new(kind: QueueKind) -> Self {
        match kind {
            QueueKind::InOrder => Queue::InOrder(InOrderQueue::default()),
            QueueKind::DeltaFifo => Queue::PerKey(Box::default()),
        }
    }

    /// Queues one event of a watch. An object that is not told because of it goes to `unwanted`.
    pub(crate) fn push(&mut self, item: Item<T>, unwanted: &mut Vec<Obj<T>>) {
        match self {
            Queue::InOrder(queue) => queue.push(item),
            Queue::PerKey(queue) => queue.push(item, unwanted),
        }
    }

    /// Queues changes that were fed together.
    pub(crate) fn push_together(&mut self, items: Vec<Item<T>>, unwanted: &mut Vec<Obj<T>>) {
        match self {
            Queue::InOrder(queue) => queue.push_together(items),
            Queue::PerKey(queue) => items.into_iter().for_each(|item| queue.push(item, unwanted)),
        }
    }

    /// Memory for changes that are to be pushed together.
    pub(crate) fn take_memory(&mut self) -> Vec<Item<T>> {
        match self {
            Queue::InOrder(queue) => queue.take_memory(),
            Queue::PerKey(_) => Vec::new(),
        }
    }

    /// Forgets what waits, and gives the objects of it to `unwanted`.
    pub(crate) fn clear(&mut self, unwanted: &mut Vec<Obj<T>>) {
        match self {
            Queue::InOrder(queue) => queue.clear(unwanted),
            Queue::PerKey(queue) => queue.clear(unwanted),
        }
    }

    /// Queues a complete list, which stands for `version`.
    pub(crate) fn replace(&mut self, staged: Staged<T>, version: Version) {
        match self {
            Queue::InOrder(queue) => queue.replace(staged, version),
            Queue::PerKey(queue) => queue.replace(staged, version),
        }
    }

    /// Queues the word of the server that everything up to `version` was sent.
    pub(crate) fn bookmark(&mut self, version: Version) {
        match self {
            Queue::InOrder(queue) => queue.bookmark(version),
            Queue::PerKey(queue) => queue.bookmark(version),
        }
    }

    /// Takes back the memory of a commit that is done, where the next one can use it.
    pub(crate) fn give_back(&mut self, spare: Spare<T>) {
        match self {
            Queue::InOrder(queue) => queue.give_back(spare),
            Queue::PerKey(_) => drop(spare),
        }
    }

    /// The next commit. `None` if nothing waits.
    pub(crate) fn pop(&mut self) -> Option<Commit<T>> {
        match self {
            Queue::InOrder(queue) => queue.pop(),
            Queue::PerKey(queue) => queue.pop(),
        }
    }
}
