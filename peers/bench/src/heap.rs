//! [`Heap`]: the bytes that a process has on its heap, as it asked for them and as the allocator takes them.
//!
//! A program that counts installs [`Allocator`] and calls [`count`] first. Counting costs time, so programs that measure
//! time do not count:
//!
//! ```
//! use informer_peers::heap::{Allocator, Heap, System, count};
//!
//! #[global_allocator]
//! static COUNTED: Allocator<System> = Allocator::system();
//!
//! count();
//! let before = Heap::now();
//! let kept = vec![0_u8; 1_000];
//! let Heap { requested, taken } = Heap::now().since(before);
//! assert_eq!((requested, taken), (1_000, 1_008)); // a header of 8 bytes, in steps of 16
//! drop(kept);
//! assert_eq!(Heap::now().since(before).requested, 0);
//! ```

pub use std::alloc::System;
pub use tracking_allocator::Allocator;

use std::sync::atomic::{AtomicI64, Ordering};
use tracking_allocator::{AllocationGroupId, AllocationRegistry, AllocationTracker};

static REQUESTED: AtomicI64 = AtomicI64::new(0);
static TAKEN: AtomicI64 = AtomicI64::new(0);

/// Bytes on the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heap {
    /// What was asked for.
    pub requested: i64,
    /// What the GNU allocator takes for that: its usable size (`malloc_usable_size`) and its header.
    pub taken: i64,
}

impl Heap {
    /// What is there now, since [`count`].
    pub fn now() -> Self {
        Heap { requested: REQUESTED.load(Ordering::Relaxed), taken: TAKEN.load(Ordering::Relaxed) }
    }

    /// What has come since.
    #[must_use]
    pub fn since(self, before: Heap) -> Self {
        Heap { requested: self.requested - before.requested, taken: self.taken - before.taken }
    }
}

/// Counts from here on. Only what was allocated since is counted when it goes.
///
/// # Panics
///
/// If it was called before.
pub fn count() {
    AllocationRegistry::set_global_tracker(Counter).expect("a process begins to count once");
    AllocationRegistry::enable_tracking();
}

struct Counter;

impl AllocationTracker for Counter {
    fn allocated(&self, _: usize, size: usize, _: usize, _: AllocationGroupId) {
        REQUESTED.fetch_add(size as i64, Ordering::Relaxed);
        TAKEN.fetch_add(taken(size) as i64, Ordering::Relaxed);
    }

    fn deallocated(&self, _: usize, size: usize, _: usize, _: AllocationGroupId, _: AllocationGroupId) {
        REQUESTED.fetch_sub(size as i64, Ordering::Relaxed);
        TAKEN.fetch_sub(taken(size) as i64, Ordering::Relaxed);
    }
}

/// From this size on the GNU allocator maps pages of their own, at first.
const MAPPED: usize = 128 * 1024;

/// What the GNU allocator takes for a request on 64 bits: the request and a header, in steps of 16, at least 32; or
/// whole pages.
fn taken(size: usize) -> usize {
    if size < MAPPED { (size + 8).next_multiple_of(16).max(32) } else { (size + 16).next_multiple_of(4096) }
}

#[cfg(test)]
mod tests {
    use super::taken;

    #[test]
    fn an_allocation_takes_its_header_and_a_multiple_of_sixteen() {
        assert_eq!([0, 1, 24, 25, 40, 41, 1_000].map(taken), [32, 32, 32, 48, 48, 64, 1_008]);
        assert_eq!(taken(200_000) % 4096, 0);
    }
}
