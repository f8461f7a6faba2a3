//! The delayed keys: a heap of due times in which every slot can be found.
//!
//! The heap tells each slot where its timer stands (the `place` functions below), so that a timer can be made earlier
//! or taken out, and no dead one is left behind to outlive its key. Four children to a node: a million timers are ten
//! levels deep, and a sift reads one cache line or two per level.

use crate::time::Time;
use alloc::vec::Vec;

/// The position of a slot that has no timer.
pub(super) const NO_TIMER: u32 = u32::MAX;

/// The token of a wait that has none: it never comes.
pub(super) const NO_TOKEN: Time = Time::from_nanos(u64::MAX);

const CHILDREN: usize = 4;

/// When one slot is due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timer {
    pub(super) at: Time,
    /// When the bucket's token that was taken for this wait comes, which may be sooner than `at`.
    pub(super) token: Time,
    /// Timers that are due at one time fire in the order in which they were set. It starts anew after 2^32 of them:
    /// two that are due at the same nanosecond may then change places, for half the memory.
    order: u32,
    pub(super) slot: u32,
}

impl Timer {
    fn is_before(&self, other: &Timer) -> bool {
        (self.at, self.order) < (other.at, other.order)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Timers {
    heap: Vec<Timer>,
    set: u32,
}

impl Timers {
    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }

    pub(super) fn first(&self) -> Option<&Timer> {
        self.heap.first()
    }

    pub(super) fn get(&self, position: u32) -> Option<&Timer> {
        self.heap.get(position as usize)
    }

    pub(super) fn get_mut(&mut self, position: u32) -> Option<&mut Timer> {
        self.heap.get_mut(position as usize)
    }

    /// Sets a timer for a slot that has none.
    pub(super) fn set(&mut self, at: Time, slot: u32, token: Time, place: impl FnMut(u32, u32)) {
        let timer = Timer { at, order: self.next_order(), slot, token };
        self.heap.push(timer);
        self.sift_up(self.heap.len() - 1, place);
    }

    /// Makes the timer at `position` due at `at`, if that is earlier.
    pub(super) fn make_earlier(&mut self, position: u32, at: Time, place: impl FnMut(u32, u32)) {
        let order = self.next_order();
        let timer = &mut self.heap[position as usize];
        if at < timer.at {
            timer.at = at;
            timer.order = order;
            self.sift_up(position as usize, place);
        }
    }

    fn next_order(&mut self) -> u32 {
        self.set = self.set.wrapping_add(1);
        self.set
    }

    /// Takes out the first timer if it is due at `now`.
    pub(super) fn pop_due(&mut self, now: Time, place: impl FnMut(u32, u32)) -> Option<Timer> {
        let due = *self.heap.first().filter(|timer| timer.at <= now)?;
        self.heap.swap_remove(0);
        if !self.heap.is_empty() {
            self.sift_down(0, place);
        }
        Some(due)
    }

    /// Takes out all timers, in no particular order.
    pub(super) fn take(&mut self) -> Vec<Timer> {
        core::mem::take(&mut self.heap)
    }

    fn sift_up(&mut self, mut at: usize, mut place: impl FnMut(u32, u32)) {
        let timer = self.heap[at];
        while at > 0 {
            let parent = (at - 1) / CHILDREN;
            if !timer.is_before(&self.heap[parent]) {
                break;
            }
            self.heap[at] = self.heap[parent];
            place(self.heap[at].slot, at as u32);
            at = parent;
        }
        self.heap[at] = timer;
        place(timer.slot, at as u32);
    }

    fn sift_down(&mut self, mut at: usize, mut place: impl FnMut(u32, u32)) {
        let timer = self.heap[at];
        loop {
            let children = at * CHILDREN + 1..self.heap.len().min(at * CHILDREN + 1 + CHILDREN);
            let Some(least) = children.reduce(|a, b| if self.heap[b].is_before(&self.heap[a]) { b } else { a }) else {
                break;
            };
            if !self.heap[least].is_before(&timer) {
                break;
            }
            self.heap[at] = self.heap[least];
            place(self.heap[at].slot, at as u32);
            at = least;
        }
        self.heap[at] = timer;
        place(timer.slot, at as u32);
    }

    /// Asserts that no timer stands before its parent, and that each slot knows where its timer is.
    pub(super) fn check(&self, position: impl Fn(u32) -> u32) {
        for (at, timer) in self.heap.iter().enumerate() {
            let parent = &self.heap[at.saturating_sub(1) / CHILDREN];
            assert!(at == 0 || parent.is_before(timer), "the timer at {at} is due before its parent");
            assert_eq!(position(timer.slot), at as u32, "slot {} has lost its timer", timer.slot);
        }
    }
}
