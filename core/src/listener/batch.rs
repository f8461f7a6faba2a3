//! [`Batch`]: the notifications of one commit, shared by all handlers; [`Batches`]: the memory of an informer's batches.
//!
//! ```text
//!            ┌────────────────────────────────────┐
//!            ▼ memory                             │ reclaim: nobody else holds it
//!  commit ─► publish ─► Batch ─► ring, ring, … ─► out
//! ```
//!
//! A batch is immutable once it is published, and costs a ring one counted pointer however many notifications it has.
//! Whoever publishes keeps one more handle of each, so that a handler which passes a batch last frees nothing: the
//! publisher finds the batch unshared, takes the notifications out, to drop them where that is cheapest, and uses its
//! memory for a later one. In the steady state no batch is allocated.
//!
//! ```
//! use informer_core::listener::{Batches, Cause, Notification};
//! use informer_core::{Key, Obj, Uid, Version};
//!
//! let object = Obj::new(Key::new("ns", "a"), Uid::new("u"), Version::new("1"), ());
//! let mut batches = Batches::new();
//! let mut told = vec![Notification::Added { object, initial: false, cause: Cause::Watch }];
//! let batch = batches.publish(&mut told).expect("there is something to tell");
//! let held_by_a_ring = batch.clone();
//! drop(batch);
//!
//! let mut back = Vec::new();
//! batches.reclaim(1, |told| back.extend(told));
//! assert!(back.is_empty(), "it is still to be delivered");
//! drop(held_by_a_ring);
//! batches.reclaim(1, |told| back.extend(told));
//! assert_eq!(format!("{back:?}"), "[added ns/a@1 by Watch]");
//! ```

use super::Notification;
use crate::fifo::COMMIT_EVENTS;
use crate::object::Obj;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::{Drain, Vec};
use core::fmt;
use core::ops::Deref;

/// The most notifications of which a handle is kept for their handlers. A handler that is later than this frees what it
/// passes itself.
const KEPT: usize = 16 * 1024;

/// Buffers that are kept for later batches: as many as are usually under way between a driver and its handlers.
const SPARE: usize = 32;

/// A buffer that has grown beyond this is given back: an event makes two notifications at most, and only a list makes more
/// than a commit of events.
const SPARE_CAPACITY: usize = 2 * COMMIT_EVENTS;

/// The notifications of one commit, in the order in which handlers are told. Costs one pointer to clone.
pub struct Batch<T>(Arc<Vec<Notification<T>>>);

impl<T> Batch<T> {
    /// The notifications, if nobody else holds them.
    pub fn into_notifications(self) -> Option<Vec<Notification<T>>> {
        Arc::into_inner(self.0)
    }

    /// Their objects, if nobody else holds them: for who drops what it has the last handle of one by one.
    pub fn into_objects(self) -> impl Iterator<Item = Obj<T>> {
        self.into_notifications().into_iter().flatten().flat_map(Notification::into_objects)
    }
}

impl<T> Clone for Batch<T> {
    fn clone(&self) -> Self {
        Batch(Arc::clone(&self.0))
    }
}

/// A batch that nobody wants back.
impl<T> From<Vec<Notification<T>>> for Batch<T> {
    fn from(notifications: Vec<Notification<T>>) -> Self {
        Batch(Arc::new(notifications))
    }
}

impl<T> Deref for Batch<T> {
    type Target = [Notification<T>];

    fn deref(&self) -> &[Notification<T>] {
        &self.0
    }
}

impl<T> fmt::Debug for Batch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&**self).finish()
    }
}

/// What one informer has published, and the memory for what it will.
pub struct Batches<T> {
    /// The oldest first, as far as they were not held when they were looked at.
    out: VecDeque<Batch<T>>,
    /// Notifications in `out`.
    kept: usize,
    /// Empty, and held by nobody else.
    spare: Vec<Arc<Vec<Notification<T>>>>,
}

impl<T> Batches<T> {
    /// Nothing is out, nothing is allocated.
    pub fn new() -> Self {
        Batches { out: VecDeque::new(), kept: 0, spare: Vec::new() }
    }

    /// Makes a batch of `notifications`, and keeps a handle of it for [`reclaim`](Self::reclaim). `None` if there are none.
    /// What is left in their place is empty, and the memory of an earlier batch, if one came back: for the next commit.
    pub fn publish(&mut self, notifications: &mut Vec<Notification<T>>) -> Option<Batch<T>> {
        if notifications.is_empty() {
            return None;
        }
        let mut place = self.spare.pop().unwrap_or_default();
        core::mem::swap(Arc::get_mut(&mut place).expect("nobody else holds a spare one"), notifications);
        let batch = Batch(place);
        self.kept += batch.len();
        self.out.push_back(batch.clone());
        Some(batch)
    }

    /// A handle that is not to be kept any longer, as more notifications are out than are kept; the oldest first.
    pub fn surplus(&mut self) -> Option<Batch<T>> {
        if self.kept <= KEPT {
            return None;
        }
        let batch = self.out.pop_front()?;
        self.kept -= batch.len();
        Some(batch)
    }

    /// Looks at `looks` batches and gives `each` the notifications of those that nobody else holds. One that is held is
    /// looked at again when the others were.
    pub fn reclaim(&mut self, looks: usize, mut each: impl FnMut(Drain<'_, Notification<T>>)) {
        for _ in 0..looks.min(self.out.len()) {
            let Some(mut batch) = self.out.pop_front() else { return };
            // Only counted while it is held: to ask for it alone writes beside what its handlers read for each step.
            let held = Arc::strong_count(&batch.0) > 1;
            let Some(notifications) = Some(&mut batch.0).filter(|_| !held).and_then(Arc::get_mut) else {
                self.out.push_back(batch);
                continue;
            };
            self.kept -= notifications.len();
            each(notifications.drain(..));
            if self.spare.len() < SPARE && notifications.capacity() <= SPARE_CAPACITY {
                self.spare.push(batch.0);
            }
        }
    }

    /// Lets go of everything: of what nobody else holds the notifications are given to `each`, and one buffer is left for
    /// the next batch.
    pub fn rest(&mut self, mut each: impl FnMut(Drain<'_, Notification<T>>)) {
        self.reclaim(self.out.len(), &mut each);
        // A handler may have let go of one since it was looked at.
        let out = core::mem::take(&mut self.out);
        out.into_iter().filter_map(Batch::into_notifications).for_each(|mut told| each(told.drain(..)));
        self.kept = 0;
        self.spare.truncate(1);
        self.spare.shrink_to_fit();
    }
}

impl<T> Default for Batches<T> {
    fn default() -> Self {
        Batches::new()
    }
}

impl<T> fmt::Debug for Batches<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} batches of {} notifications", self.out.len(), self.kept)
    }
}
