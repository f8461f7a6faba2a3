//! One ring per handler: what it has still to be told.
//!
//! ```text
//! commit ──► push ──► [ replay of a snapshot | synced | changes … | resync of a snapshot | changes … ] ──► pop
//! ```
//!
//! The initial state and a resync are not copied into the ring: they stand in it as one entry that walks a snapshot
//! (one count per 64 objects), and live changes queue behind. A ring holds notifications exactly up to its limit;
//! beyond it, it keeps at most two per key (a deletion, and what came after), merged so that the handler still sees
//! added → updated* → deleted with unbroken `old` (I11, I12, I21). So memory is bounded by the live keys, however long
//! a handler sleeps.
//!
//! The call that runs does not count against the limit. A handler that waits for work takes the next change at once, so
//! a change that finds it waiting is as good as running, even if more changes come before its thread wakes up.
//!
//! ```
//! use informer_core::listener::{Cause, Delivery, Notification, Overflow, Ring};
//! use informer_core::{Key, Obj, Uid, Version};
//!
//! let at = |version: &str| Obj::new(Key::new("ns", "a"), Uid::new("u"), Version::new(version), ());
//! let update = |old: &Obj<()>, new: &Obj<()>| {
//!     Notification::Updated { old: old.clone(), new: new.clone(), cause: Cause::Watch }
//! };
//! let (v1, v2, v3, v4) = (at("1"), at("2"), at("3"), at("4"));
//! let mut ring = Ring::new(Overflow::Coalesce { limit: 1 });
//! ring.push(update(&v1, &v2)); // as good as running: the handler waits for work
//! ring.push(update(&v2, &v3)); // buffered
//! ring.push(update(&v3, &v4)); // over the limit: merged
//! for want in [("1", "2"), ("2", "4")] {
//!     let Some(Delivery::Notification(Notification::Updated { old, new, .. })) = ring.pop() else { panic!() };
//!     assert_eq!((old.version().as_str(), new.version().as_str()), want);
//! }
//! assert!(ring.pop().is_none());
//! ```

mod notification;

pub use notification::{Cause, Notification};

use crate::object::{Key, KeyRef};
use crate::store::Snapshot;
use alloc::collections::VecDeque;
use core::fmt;
use core::hash::BuildHasher;
use foldhash::fast::FixedState;
use hashbrown::HashTable;

/// What happens when a handler does not keep up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Overflow {
    /// Exact up to `limit` buffered notifications, then merged per key. The default, with 1,024.
    Coalesce {
        /// Notifications that are kept exactly.
        limit: usize,
    },
    /// Everything is kept: memory grows with the events.
    Unbounded,
    /// A handler with more than `limit` buffered notifications is removed and told so.
    Disconnect {
        /// Notifications that are kept.
        limit: usize,
    },
}

impl Default for Overflow {
    fn default() -> Self {
        Overflow::Coalesce { limit: DEFAULT_LIMIT }
    }
}

/// What a ring keeps exactly unless told otherwise: as much as client-go's initial buffer.
pub const DEFAULT_LIMIT: usize = 1_024;

/// What comes out of a ring.
#[derive(Debug)]
#[non_exhaustive]
pub enum Delivery<T> {
    /// Tell the handler.
    Notification(Notification<T>),
    /// Everything that belonged to the initial state has been popped before. Comes once, also for an empty store.
    Synced,
}

enum Entry<T> {
    Change(Notification<T>),
    /// The initial state.
    Replay(Walk<T>),
    Resync(Walk<T>),
    Synced,
    /// Added and deleted before the handler looked; the place is used again if the key comes back.
    Nothing(Key),
}

struct Walk<T> {
    snapshot: Snapshot<T>,
    at: usize,
}

/// What one handler has still to be told.
pub struct Ring<T> {
    entries: VecDeque<Entry<T>>,
    /// The number of the first entry, so that an entry keeps its number while others are popped.
    first: u64,
    overflow: Overflow,
    /// Buffered notifications: entries of kind `Change`.
    buffered: usize,
    /// Entries of kind `Nothing`.
    nothings: usize,
    /// While merging: the number of the last entry of each key.
    merging: Option<HashTable<u64>>,
    hasher: FixedState,
    disconnected: bool,
    /// No call runs: the ring was empty when the handler looked last, or it never looked.
    waiting: bool,
    stats: RingStats,
}

/// Counters of one ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct RingStats {
    /// The most notifications that were ever buffered.
    pub high_water: usize,
    /// Notifications that were merged into earlier ones.
    pub merged: u64,
}

impl<T> Ring<T> {
    /// An empty ring.
    pub fn new(overflow: Overflow) -> Self {
        Ring {
            entries: VecDeque::new(),
            first: 0,
            overflow,
            buffered: 0,
            nothings: 0,
            merging: None,
            hasher: FixedState::default(),
            disconnected: false,
            waiting: true,
            stats: RingStats::default(),
        }
    }

    /// Begins with the initial state: an `Added` for each object of `snapshot`, then [`Delivery::Synced`].
    pub fn replay(&mut self, snapshot: Snapshot<T>) {
        self.begin(snapshot);
        self.complete();
    }

    /// Begins with an initial state that is not complete: what is pushed next belongs to it, up to
    /// [`complete`](Self::complete).
    pub fn begin(&mut self, snapshot: Snapshot<T>) {
        self.entries.push_back(Entry::Replay(Walk { snapshot, at: 0 }));
    }

    /// The initial state is complete: then comes [`Delivery::Synced`].
    pub fn complete(&mut self) {
        if !self.disconnected {
            self.entries.push_back(Entry::Synced);
        }
    }

    /// Repeats each object of `snapshot` after everything that is buffered now. A ring that is merging has more news
    /// than its handler can take and skips the repeat; so does one that has not finished the last repeat.
    pub fn resync(&mut self, snapshot: Snapshot<T>) {
        let busy = self.merging.is_some() || self.entries.iter().any(|entry| matches!(entry, Entry::Resync(_)));
        if !busy && !self.disconnected {
            self.entries.push_back(Entry::Resync(Walk { snapshot, at: 0 }));
        }
    }

    /// Adds one change.
    pub fn push(&mut self, notification: Notification<T>) {
        if self.disconnected {
            return;
        }
        match self.overflow {
            Overflow::Coalesce { limit } if self.behind() >= limit && self.merging.is_none() => self.begin_merging(),
            Overflow::Disconnect { limit } if self.behind() >= limit => {
                self.disconnected = true;
                self.entries.clear();
                (self.buffered, self.nothings) = (0, 0);
                return;
            }
            Overflow::Coalesce { .. } | Overflow::Unbounded | Overflow::Disconnect { .. } => {}
        }
        if self.merging.is_some() {
            self.merge(notification);
        } else {
            self.append(notification);
        }
        self.stats.high_water = self.stats.high_water.max(self.buffered);
    }

    /// The next thing to deliver. Asking for it says that the call for the one before has returned.
    pub fn pop(&mut self) -> Option<Delivery<T>> {
        let next = self.pop_next();
        self.waiting = !matches!(next, Some(Delivery::Notification(_)));
        next
    }

    fn pop_next(&mut self) -> Option<Delivery<T>> {
        loop {
            match self.entries.front_mut()? {
                Entry::Replay(walk) => {
                    if let Some(object) = walk.snapshot.next(&mut walk.at) {
                        let added = Notification::Added { object: object.clone(), initial: true, cause: Cause::List };
                        return Some(Delivery::Notification(added));
                    }
                }
                Entry::Resync(walk) => {
                    if let Some(object) = walk.snapshot.next(&mut walk.at) {
                        let (old, new) = (object.clone(), object.clone());
                        return Some(Delivery::Notification(Notification::Updated { old, new, cause: Cause::Resync }));
                    }
                }
                Entry::Change(_) | Entry::Synced | Entry::Nothing(_) => {}
            }
            let entry = self.entries.pop_front()?;
            self.forget(self.first, &entry);
            self.first += 1;
            if self.entries.is_empty() {
                // Caught up: exact again, and a burst's memory is given back.
                self.merging = None;
                if self.entries.capacity() > 2 * DEFAULT_LIMIT {
                    self.entries = VecDeque::new();
                }
            }
            match entry {
                Entry::Change(notification) => {
                    self.buffered -= 1;
                    return Some(Delivery::Notification(notification));
                }
                Entry::Synced => return Some(Delivery::Synced),
                Entry::Nothing(_) => self.nothings -= 1,
                Entry::Replay(_) | Entry::Resync(_) => {}
            }
        }
    }

    /// Gives away all that waits, so that it can be dropped elsewhere: for a handler that is done. Counters stay.
    #[must_use = "it holds the objects that nobody will be told of"]
    pub fn take(&mut self) -> Ring<T> {
        let mut taken = Ring::new(self.overflow);
        taken.stats = self.stats;
        core::mem::swap(self, &mut taken);
        taken
    }

    /// True if [`pop`](Self::pop) may have something.
    pub fn has_work(&self) -> bool {
        !self.entries.is_empty()
    }

    /// How many notifications are buffered; a running replay or resync is not counted.
    pub fn len(&self) -> usize {
        self.buffered
    }

    /// True if no notification is buffered.
    pub fn is_empty(&self) -> bool {
        self.buffered == 0
    }

    /// True if the handler fell behind under [`Overflow::Disconnect`]: what it had not seen is gone.
    pub fn is_disconnected(&self) -> bool {
        self.disconnected
    }

    /// Counters.
    pub fn stats(&self) -> RingStats {
        self.stats
    }

    /// True if the first entry is a change that the handler takes as soon as it wakes up.
    fn as_good_as_running(&self) -> bool {
        self.waiting && matches!(self.entries.front(), Some(Entry::Change(_)))
    }

    /// What counts against the limit.
    fn behind(&self) -> usize {
        self.buffered - usize::from(self.as_good_as_running())
    }

    fn append(&mut self, notification: Notification<T>) {
        self.buffered += 1;
        self.entries.push_back(Entry::Change(notification));
    }

    /// From here on there is at most one open entry per key. A pending resync is dropped: it would repeat versions
    /// that merged entries are about to overtake.
    fn begin_merging(&mut self) {
        let running = matches!(self.entries.front(), Some(Entry::Resync(walk)) if walk.at > 0);
        let mut at = 0;
        self.entries.retain(|entry| {
            at += 1;
            !matches!(entry, Entry::Resync(_)) || (at == 1 && running)
        });
        self.index_entries();
    }

    fn index_entries(&mut self) {
        let mut last = HashTable::with_capacity(self.entries.len());
        // Nothing is merged into a call that runs.
        for (at, entry) in self.entries.iter().enumerate().skip(usize::from(self.as_good_as_running())) {
            let Some(key) = entry.key() else { continue };
            let (number, hash) = (self.first + at as u64, self.hasher.hash_one(key));
            match last.find_mut(hash, |other| self.key_of(*other) == Some(key)) {
                Some(other) => *other = number,
                None => {
                    last.insert_unique(hash, number, |n| self.hash_of(*n));
                }
            }
        }
        self.merging = Some(last);
    }

    fn merge(&mut self, notification: Notification<T>) {
        let key = notification.key();
        let hash = self.hasher.hash_one(key);
        let last = self.merging.as_ref().expect("the ring is merging");
        let Some(number) = last.find(hash, |number| self.key_of(*number) == Some(key)).copied() else {
            self.append(notification);
            self.remember(hash);
            return;
        };
        let at = (number - self.first) as usize;
        // Something takes its place for the moment.
        let before = core::mem::replace(&mut self.entries[at], Entry::Synced);
        match join(before, notification) {
            Joined::One(joined) => {
                self.stats.merged += 1;
                if matches!(joined, Entry::Nothing(_)) {
                    // Added and deleted in between: nothing to tell, the place is kept.
                    self.buffered -= 1;
                    self.nothings += 1;
                }
                self.entries[at] = joined;
            }
            Joined::Refilled(joined) => {
                self.nothings -= 1;
                self.buffered += 1;
                self.entries[at] = joined;
            }
            Joined::Two(before, after) => {
                self.entries[at] = before;
                self.append(after);
                self.remember(hash);
            }
        }
        if self.nothings > 64 && self.nothings > self.entries.len() / 2 {
            self.entries.retain(|entry| !matches!(entry, Entry::Nothing(_)));
            self.nothings = 0;
            self.index_entries();
        }
    }

    /// Makes the entry that was appended last the open one of its key.
    fn remember(&mut self, hash: u64) {
        let number = self.first + self.entries.len() as u64 - 1;
        let mut last = self.merging.take().expect("the ring is merging");
        let key = self.key_of(number);
        match last.find_mut(hash, |other| self.key_of(*other) == key) {
            Some(other) => *other = number,
            None => {
                last.insert_unique(hash, number, |n| self.hash_of(*n));
            }
        }
        self.merging = Some(last);
    }

    /// A popped entry is no longer the open one of its key. `self.first` is still its number.
    fn forget(&mut self, number: u64, entry: &Entry<T>) {
        let (Some(last), Some(key)) = (&mut self.merging, entry.key()) else { return };
        if let Ok(found) = last.find_entry(self.hasher.hash_one(key), |other| *other == number) {
            found.remove();
        }
    }

    fn key_of(&self, number: u64) -> Option<KeyRef<'_>> {
        self.entries.get(number.checked_sub(self.first)? as usize)?.key()
    }

    fn hash_of(&self, number: u64) -> u64 {
        self.key_of(number).map_or(0, |key| self.hasher.hash_one(key))
    }
}

impl<T> Entry<T> {
    fn key(&self) -> Option<KeyRef<'_>> {
        match self {
            Entry::Change(notification) => Some(notification.key()),
            Entry::Nothing(key) => Some(key.borrowed()),
            Entry::Replay(_) | Entry::Resync(_) | Entry::Synced => None,
        }
    }
}

enum Joined<T> {
    /// One entry, in the place of the earlier one.
    One(Entry<T>),
    /// The empty place of a key was filled again.
    Refilled(Entry<T>),
    /// The earlier entry stays; the later one is appended.
    Two(Entry<T>, Notification<T>),
}

/// Merges a change into the last open entry of its key, so that what the handler sees is legal and ends the same.
fn join<T>(before: Entry<T>, after: Notification<T>) -> Joined<T> {
    use Notification::{Added, Deleted, Updated};
    match (before, after) {
        (Entry::Nothing(_), after) => {
            debug_assert!(matches!(after, Added { .. }), "after a deletion comes an addition (I11)");
            Joined::Refilled(Entry::Change(after))
        }
        (Entry::Change(Added { initial, cause, .. }), Updated { new, .. }) => {
            Joined::One(Entry::Change(Added { object: new, initial, cause }))
        }
        (Entry::Change(Added { object, .. }), Deleted { .. }) => Joined::One(Entry::Nothing(object.key().to_key())),
        (Entry::Change(Updated { old, .. }), Updated { new, cause, .. }) => {
            Joined::One(Entry::Change(Updated { old, new, cause }))
        }
        (Entry::Change(Updated { old, .. }), Deleted { object, cause, final_state_known, .. }) => {
            // With an unknown final state `object` is the last one that the informer knew: newer than what the
            // handler saw, and still the best there is.
            Joined::One(Entry::Change(Deleted { object, old, cause, final_state_known }))
        }
        (before, after) => Joined::Two(before, after),
    }
}

impl<T> fmt::Debug for Ring<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let merging = self.merging.is_some();
        write!(f, "ring of {} notifications{}", self.buffered, if merging { ", merging" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Obj, Uid, Version};
    use crate::store::Store;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::format;
    use std::string::{String, ToString};
    use std::vec::Vec;

    fn object(name: &str, version: u64) -> Obj<u64> {
        Obj::new(Key::new("", name), Uid::new("u"), Version::new(&version.to_string()), version)
    }

    /// A world of a few keys whose changes are legal.
    #[derive(Default)]
    struct World {
        live: BTreeMap<u8, Obj<u64>>,
        version: u64,
    }

    impl World {
        fn change(&mut self, key: u8, delete: bool) -> Option<Notification<u64>> {
            self.version += 1;
            let new = object(&format!("k{key}"), self.version);
            let cause = Cause::Watch;
            match (self.live.get(&key).cloned(), delete) {
                (None, true) => None,
                (None, false) => {
                    self.live.insert(key, new.clone());
                    Some(Notification::Added { object: new, initial: false, cause })
                }
                (Some(old), false) => {
                    self.live.insert(key, new.clone());
                    Some(Notification::Updated { old, new, cause })
                }
                (Some(old), true) => {
                    self.live.remove(&key);
                    Some(Notification::Deleted { object: new, old, cause, final_state_known: true })
                }
            }
        }
    }

    /// What a handler believes; panics if a chain is broken.
    fn see(view: &mut BTreeMap<String, u64>, notification: &Notification<u64>) {
        let key = notification.key().to_string();
        match notification {
            Notification::Added { object, .. } => assert!(view.insert(key, **object).is_none(), "added twice"),
            Notification::Updated { old, new, .. } => {
                assert_eq!(view.insert(key, **new), Some(**old), "old is what the handler saw last");
            }
            Notification::Deleted { old, .. } => assert_eq!(view.remove(&key), Some(**old)),
        }
    }

    proptest! {
        /// I11, I12, I21: whatever is merged, the chain is legal, the end is right, memory is bounded by the keys.
        #[test]
        fn merging_keeps_every_chain_legal(
            limit in 1usize..6,
            ops in prop::collection::vec((0u8..4, any::<bool>(), 0usize..4), 0..200),
        ) {
            let mut ring = Ring::new(Overflow::Coalesce { limit });
            let (mut world, mut view) = (World::default(), BTreeMap::new());
            for (key, delete, pops) in ops {
                if let Some(notification) = world.change(key, delete) {
                    ring.push(notification);
                }
                prop_assert!(ring.behind() <= limit + 2 * 4, "{} buffered", ring.len());
                for _ in 0..pops.saturating_sub(1) {
                    if let Some(Delivery::Notification(notification)) = ring.pop() {
                        see(&mut view, &notification);
                    }
                }
            }
            while let Some(Delivery::Notification(notification)) = ring.pop() {
                see(&mut view, &notification);
            }
            let want: BTreeMap<_, _> = world.live.values().map(|o| (o.key().to_string(), **o)).collect();
            prop_assert_eq!(view, want);
            prop_assert_eq!((ring.len(), ring.nothings, ring.has_work()), (0, 0, false));
        }
    }

    #[test]
    fn names_that_come_and_go_do_not_pile_up() {
        let mut ring = Ring::new(Overflow::Coalesce { limit: 8 });
        for n in 0..10_000u64 {
            let it = object(&format!("n{n}"), n);
            ring.push(Notification::Added { object: it.clone(), initial: false, cause: Cause::Watch });
            let (object, old) = (it.clone(), it);
            ring.push(Notification::Deleted { object, old, cause: Cause::Watch, final_state_known: true });
        }
        assert!(ring.entries.len() < 256, "{} entries", ring.entries.len());
    }

    #[test]
    fn the_initial_state_comes_first_then_synced_then_changes() {
        let mut store = Store::new(1);
        store.upsert(object("a", 1));
        let mut ring = Ring::new(Overflow::default());
        ring.replay(store.snapshot());
        let (old, new) = (object("a", 1), object("a", 2));
        ring.push(Notification::Updated { old, new, cause: Cause::Watch });
        let told: Vec<_> = core::iter::from_fn(|| ring.pop()).map(|d| format!("{d:?}")).collect();
        assert_eq!(told, ["Notification(added a@1 by List)", "Synced", "Notification(updated a@2 (was 1) by Watch)"]);
    }

    #[test]
    fn a_resync_queues_behind_changes_and_is_skipped_while_merging() {
        let mut store = Store::new(1);
        store.upsert(object("a", 2));
        let mut ring = Ring::new(Overflow::Coalesce { limit: 2 });
        let update =
            |old, new| Notification::Updated { old: object("a", old), new: object("a", new), cause: Cause::Watch };
        ring.push(update(0, 1));
        assert!(ring.pop().is_some(), "its call runs");
        ring.push(update(1, 2));
        ring.resync(store.snapshot());
        ring.resync(store.snapshot());
        ring.push(update(2, 3));
        ring.push(update(3, 4));
        ring.resync(store.snapshot());
        let told: Vec<_> = core::iter::from_fn(|| ring.pop()).map(|d| format!("{d:?}")).collect();
        assert_eq!(
            told,
            ["Notification(updated a@2 (was 1) by Watch)", "Notification(updated a@4 (was 2) by Watch)"],
            "two exact, the third merged; a resync in between would have gone back to version 2"
        );
        ring.resync(store.snapshot());
        assert!(matches!(ring.pop(), Some(Delivery::Notification(n)) if n.cause() == Cause::Resync));
    }

    #[test]
    fn a_handler_over_its_limit_can_be_disconnected() {
        let mut ring = Ring::new(Overflow::Disconnect { limit: 1 });
        for version in 1..=3 {
            assert!(!ring.is_disconnected(), "one runs, one is buffered");
            let object = object(&format!("n{version}"), version);
            ring.push(Notification::Added { object, initial: false, cause: Cause::Watch });
        }
        assert!(ring.is_disconnected() && !ring.has_work());
    }

    /// The limit is the same whether the handler's thread woke up between two changes of a burst or not.
    #[test]
    fn a_burst_that_finds_the_handler_waiting_has_the_limit_of_one_whose_call_runs() {
        let updates =
            |old| Notification::Updated { old: object("a", old), new: object("a", old + 1), cause: Cause::Watch };
        for woke_up in [false, true] {
            let mut ring = Ring::new(Overflow::Coalesce { limit: 2 });
            let mut told = Vec::new();
            ring.push(updates(0));
            if woke_up {
                told.extend(ring.pop());
            }
            for old in 1..5 {
                ring.push(updates(old));
            }
            told.extend(core::iter::from_fn(|| ring.pop()));
            let told: Vec<_> = told.iter().map(|delivery| format!("{delivery:?}")).collect();
            assert_eq!(
                told,
                [
                    "Notification(updated a@1 (was 0) by Watch)",
                    "Notification(updated a@2 (was 1) by Watch)",
                    "Notification(updated a@5 (was 2) by Watch)"
                ],
                "woke up: {woke_up}"
            );
        }
    }
}
