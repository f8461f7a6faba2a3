//! [`Replaced`]: objects that events have replaced, until the threads that decode drop them.
//!
//! Dropping a Pod gives back some 250 allocations, and decoding one takes as many. Done by one thread right after the
//! other, the second uses the memory that the first has just had in its cache. Left to whoever holds an object last, which
//! is a handler's thread, it is the other way round: cold memory, and two threads in each other's way at the allocator. A
//! fifth of all time that an event of a watch takes is in that.
//!
//! So the driver keeps one more handle of what it replaced, and gives objects that nobody else holds any more to
//! [`Helpers::decode`](crate::helpers::Helpers::decode). Nothing is kept by a driver at rest. A busy one keeps alive as many
//! objects as some batches have, and one handle more of those that handlers have still to be told of: if it let go of
//! these, a handler that is late would drop them itself, and that makes it later.

use informer_core::Obj;
use informer_core::decode::DecodeJob;
use informer_core::listener::Notification;
use std::collections::VecDeque;

/// The most handles that are kept. Handlers hold most of their objects anyway, until they are told or their notifications
/// are merged.
const KEPT: usize = 16 * 1024;

/// For each object that is to be made, how many are looked at for one that can be dropped: as long as less than half of
/// what is kept is held by handlers, what comes in also goes out.
const LOOKS: usize = 2;

/// The oldest first, as far as they were not held when they were looked at.
pub(crate) struct Replaced<T>(VecDeque<Obj<T>>);

impl<T> Replaced<T> {
    pub(crate) fn new() -> Self {
        Replaced(VecDeque::new())
    }

    /// Keeps what these have replaced or deleted.
    pub(crate) fn keep(&mut self, notifications: &[Notification<T>]) {
        self.0.extend(notifications.iter().filter_map(Notification::old).cloned());
        self.shorten(KEPT);
    }

    /// Objects that nobody else holds, at most one for each that `job` will make.
    pub(crate) fn take(&mut self, job: &DecodeJob) -> Vec<Obj<T>> {
        let mut taken = Vec::new();
        for _ in 0..self.0.len().min(LOOKS * job.len()) {
            let Some(object) = self.0.pop_front() else { break };
            if !Obj::is_last(&object) {
                self.0.push_back(object);
                continue;
            }
            taken.push(object);
            if taken.len() == job.len() {
                break;
            }
        }
        taken
    }

    /// Drops all of it.
    pub(crate) fn clear(&mut self) {
        self.shorten(0);
    }

    fn shorten(&mut self, most: usize) {
        let surplus = self.0.len().saturating_sub(most);
        self.0.drain(..surplus).for_each(drop_quietly);
    }
}

/// A type's own `drop` is user code, and its panic costs nobody else anything.
pub(crate) fn drop_quietly<T>(object: Obj<T>) {
    // Nobody is left to be told: the object is gone either way.
    let _ = crate::guard::call(|| drop(object));
}
