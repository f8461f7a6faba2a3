//! [`Replaced`]: objects that events have replaced, until the threads that decode drop them.
//!
//! Dropping a Pod gives back some 250 allocations, and decoding one takes as many. Done by one thread right after the
//! other, the second uses the memory that the first has just had in its cache. Left to whoever holds an object last, which
//! is a handler's thread, it is the other way round: cold memory, and two threads in each other's way at the allocator. A
//! fifth of all time that an event of a watch takes is in that.
//!
//! So the driver keeps one more handle of what it replaced, and gives objects that nobody else holds any more to
//! [`Helpers::decode`](crate::helpers::Helpers::decode). Nothing is kept by a driver at rest, and a busy one keeps as much
//! as some batches are long.

use informer_core::Obj;
use informer_core::decode::DecodeJob;
use informer_core::listener::{DEFAULT_LIMIT, Notification};
use std::collections::VecDeque;

/// The most that is kept, in bytes of JSON as they came: a handler that is some batches behind is not too late.
const KEPT_BYTES: usize = 4 * 1024 * 1024;

/// The most objects that are kept: a handler that is further behind has its notifications merged.
const KEPT_OBJECTS: usize = DEFAULT_LIMIT;

/// The oldest first.
pub(crate) struct Replaced<T>(VecDeque<Obj<T>>);

impl<T> Replaced<T> {
    pub(crate) fn new() -> Self {
        Replaced(VecDeque::new())
    }

    /// Keeps what these have replaced or deleted.
    pub(crate) fn keep(&mut self, notifications: &[Notification<T>]) {
        self.0.extend(notifications.iter().filter_map(Notification::old).cloned());
        self.shorten(KEPT_OBJECTS);
    }

    /// Objects that nobody else holds, at most one for each that `job` will make. What is too much is dropped here.
    pub(crate) fn take(&mut self, job: &DecodeJob) -> Vec<Obj<T>> {
        let each = job.bytes() / job.len().max(1);
        self.shorten(KEPT_BYTES / each.max(1));
        let last = self.0.iter().take(job.len()).take_while(|object| Obj::is_last(object)).count();
        self.0.drain(..last).collect()
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
