//! [`Replaced`]: objects that events have replaced, until the threads that decode drop them.
//!
//! Dropping a Pod gives back some 250 allocations, and decoding one takes as many. Done by one thread right after the
//! other, the second uses the memory that the first has just had in its cache. Left to whoever holds an object last, which
//! is a handler's thread, it is the other way round: cold memory, and two threads in each other's way at the allocator. A
//! fifth of all time that an event of a watch takes is in that.
//!
//! So the driver keeps a handle of each batch that it hands to handlers ([`Batches`]). One that all of them have passed is
//! taken apart, and objects that nobody else holds any more go to
//! [`Helpers::decode`](crate::helpers::Helpers::decode). Nothing is kept by a driver at rest. A busy one keeps alive as many
//! objects as some batches have, and those that handlers have still to be told of: if it let go of these, a handler that is
//! late would drop them itself, and that makes it later.

use informer_core::Obj;
use informer_core::decode::DecodeJob;
use informer_core::listener::{Batch, Batches, Notification};
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

/// The most objects that are kept beside those of batches: some that a merging handler has copied, or a user holds.
const KEPT: usize = 16 * 1024;

/// For each object that is to be made, how many are looked at for one that can be dropped: as long as less than half of
/// what is kept is held by handlers, what comes in also goes out.
const LOOKS: usize = 2;

/// What handlers are told of, until they have passed it; then what it has replaced.
pub(crate) struct Replaced<T> {
    batches: Batches<T>,
    /// The oldest first, as far as they were not held when they were looked at.
    objects: VecDeque<Obj<T>>,
}

impl<T> Replaced<T> {
    pub(crate) fn new() -> Self {
        Replaced { batches: Batches::new(), objects: VecDeque::new() }
    }

    /// Makes a batch of the notifications that events have caused, if there are any; what is left is empty, and memory.
    pub(crate) fn publish(&mut self, notifications: &mut Vec<Notification<T>>) -> Option<Batch<T>> {
        let batch = self.batches.publish(notifications);
        while let Some(surplus) = self.batches.surplus() {
            drop_each(surplus.into_objects());
        }
        batch
    }

    /// Where nothing is decoded, this thread drops what all handlers have passed: it has touched these objects last.
    pub(crate) fn drop_passed(&mut self, batches: usize) {
        self.batches.reclaim(LOOKS * batches, |told| drop_each(told.flat_map(Notification::into_objects)));
    }

    /// Objects that nobody else holds, at most one for each that `job` will make.
    pub(crate) fn take(&mut self, job: &DecodeJob) -> Vec<Obj<T>> {
        let objects = &mut self.objects;
        self.batches.reclaim(LOOKS * job.len(), |told| objects.extend(told.flat_map(replaced_by)));
        self.shorten(KEPT);
        let mut taken = Vec::new();
        for _ in 0..self.objects.len().min(LOOKS * job.len()) {
            let Some(object) = self.objects.pop_front() else { break };
            if !Obj::is_last(&object) {
                self.objects.push_back(object);
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
        self.batches.rest(|told| drop_each(told.flat_map(Notification::into_objects)));
        self.shorten(0);
    }

    fn shorten(&mut self, most: usize) {
        let surplus = self.objects.len().saturating_sub(most);
        self.objects.drain(..surplus).for_each(drop_quietly);
    }
}

/// What nobody needs any more once everybody knows of the change. Each object once: two handles would hold each other.
fn replaced_by<T>(notification: Notification<T>) -> Option<Obj<T>> {
    // The other one is in the store, or the old one of another notification, or the last state of what is gone.
    let (object, replaced) = notification.into_parts();
    drop_quietly(object);
    replaced
}

/// Drops many, each as [`drop_quietly`] does: under one guard, and under another one behind each that panics. What is
/// dropped must come one by one, as from `into_objects`: two that panic in one would end the process.
pub(crate) fn drop_each<T>(mut dropped: impl Iterator<Item = T>) {
    while crate::guard::call(|| dropped.by_ref().for_each(drop)).is_err() {}
}

/// A type's own `drop` is user code, and its panic costs nobody else anything.
pub(crate) fn drop_quietly<T>(dropped: T) {
    // Nobody is left to be told: it is gone either way.
    let _ = crate::guard::call(|| drop(dropped));
}

/// Functions of the user's that the runtime has a handle of, perhaps the last one: what they have captured is dropped as
/// [`drop_quietly`] does.
pub(crate) struct Quiet<F>(Option<F>);

impl<F> Quiet<F> {
    pub(crate) fn new(functions: F) -> Self {
        Quiet(Some(functions))
    }
}

const THERE: &str = "it is taken only when this is dropped";

impl<F> Deref for Quiet<F> {
    type Target = F;

    fn deref(&self) -> &F {
        self.0.as_ref().expect(THERE)
    }
}

impl<F> DerefMut for Quiet<F> {
    fn deref_mut(&mut self) -> &mut F {
        self.0.as_mut().expect(THERE)
    }
}

impl<F> Drop for Quiet<F> {
    fn drop(&mut self) {
        drop_quietly(self.0.take());
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use informer_core::listener::Cause;
    use informer_core::{Key, Uid, Version};
    use std::sync::atomic::{AtomicUsize, Ordering};

    struct Throws<'a>(&'a AtomicUsize);

    impl Drop for Throws<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
            panic!("a panic that belongs to the test");
        }
    }

    #[test]
    fn each_object_is_dropped_where_the_drop_of_each_panics() {
        let dropped = AtomicUsize::new(0);
        let object =
            |version: &str| Obj::new(Key::new("ns", "a"), Uid::new("u"), Version::new(version), Throws(&dropped));
        let deleted = || Notification::Deleted {
            object: object("2"),
            old: object("1"),
            cause: Cause::Watch,
            final_state_known: true,
        };
        drop_each(deleted().into_objects());
        assert_eq!(dropped.load(Ordering::Relaxed), 2);
        let mut replaced = Replaced::new();
        for _ in 0..2 {
            drop(replaced.publish(&mut vec![deleted(), deleted(), deleted()]));
        }
        replaced.drop_passed(1);
        assert_eq!(dropped.load(Ordering::Relaxed), 14, "both batches were looked at");
        assert!(replaced.batches.publish(&mut vec![deleted()]).is_some(), "what counted them is whole");
        replaced.clear();
        assert_eq!(dropped.load(Ordering::Relaxed), 16);
    }
}
