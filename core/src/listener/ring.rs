//! [`Ring`]: what one handler has still to be told. See the module above for what it promises.
//!
//! ```text
//! push ──► room: the batch as it is ──────► Batch … ─┐
//!   └────► no room: begin to merge ──► Change, Change ┴─► turn: a Walk of the first entry, or one notification
//! ```
//!
//! Invariants:
//!
//! - while it merges there is no `Batch`, at most one open entry per key, and its number is in `merging`;
//! - while the first entry is lent, no other entry is taken, and nothing is merged: what would begin to merge, make the
//!   ring full or empty it wants the lent entry back first ([`Ring::recall`]).

use super::merge::{Joined, join};
use super::overflow::{DEFAULT_LIMIT, Overflow};
use super::walk::{objects, repeated, replayed};
use super::{Batch, Notification, Recreated, Walk};
use crate::object::{Key, KeyRef, Obj};
use crate::store::Snapshot;
use alloc::collections::VecDeque;
use core::fmt;
use core::hash::BuildHasher;
use foldhash::fast::FixedState;
use hashbrown::HashTable;

/// What comes out of a ring.
#[derive(Debug)]
#[non_exhaustive]
pub enum Delivery<T> {
    /// Tell the handler.
    Notification(Notification<T>),
    /// Everything that belonged to the initial state has been popped before. Comes once, also for an empty store.
    Synced,
}

/// What a handler may do until it asks its ring again. Whoever runs one must know each, as with
/// [`Output`](crate::informer::Output).
#[derive(Debug)]
pub enum Turn<T> {
    /// Deliver its current notification, then those behind it.
    Walk(Walk<T>),
    /// As [`Delivery::Synced`].
    Synced,
}

pub(super) enum Entry<T> {
    /// What is left of a batch.
    Batch {
        batch: Batch<T>,
        at: usize,
    },
    Change(Notification<T>),
    /// The initial state.
    Replay(Place<T>),
    Resync(Place<T>),
    Synced,
    /// Added and deleted before the handler looked; the place is used again if the key comes back.
    Nothing(Key),
}

/// How far a snapshot was walked.
pub(super) struct Place<T> {
    snapshot: Snapshot<T>,
    at: usize,
}

/// What one handler has still to be told.
pub struct Ring<T> {
    entries: VecDeque<Entry<T>>,
    /// The number of the first entry, so that an entry keeps its number while others are popped.
    first: u64,
    overflow: Overflow,
    recreated: Recreated,
    /// Buffered notifications: entries of kind `Change`, and what is left of those of kind `Batch`, in which a recreation
    /// that is told as one is still two.
    buffered: usize,
    /// Entries of kind `Nothing`.
    nothings: usize,
    /// While merging: the number of the last entry of each key.
    merging: Option<HashTable<u64>>,
    hasher: FixedState,
    disconnected: bool,
    /// More than the limit of [`Overflow::Pause`] waited, and not yet half of that.
    full: bool,
    /// No call runs: the ring was empty when the handler looked last, or it never looked.
    waiting: bool,
    /// The handler walks the first entry.
    lent: bool,
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
    /// How often the informer was paused for this handler, under [`Overflow::Pause`].
    pub pauses: u64,
}

impl<T> Ring<T> {
    /// An empty ring.
    pub fn new(overflow: Overflow) -> Self {
        Ring {
            entries: VecDeque::new(),
            first: 0,
            overflow,
            recreated: Recreated::default(),
            buffered: 0,
            nothings: 0,
            merging: None,
            hasher: FixedState::default(),
            disconnected: false,
            full: false,
            waiting: true,
            lent: false,
            stats: RingStats::default(),
        }
    }

    /// With another way to tell of a recreation. It sees to what comes in batches: of what is [pushed](Self::push) alone
    /// nobody knows what comes next.
    #[must_use]
    pub fn with_recreated(mut self, recreated: Recreated) -> Self {
        self.recreated = recreated;
        self
    }

    /// Begins with the initial state: an `Added` for each object of `snapshot`, then [`Delivery::Synced`].
    pub fn replay(&mut self, snapshot: Snapshot<T>) {
        self.begin(snapshot);
        self.complete();
    }

    /// Begins with an initial state that is not complete: what is pushed next belongs to it, up to
    /// [`complete`](Self::complete).
    pub fn begin(&mut self, snapshot: Snapshot<T>) {
        self.entries.push_back(Entry::Replay(Place { snapshot, at: 0 }));
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
            self.entries.push_back(Entry::Resync(Place { snapshot, at: 0 }));
        }
    }

    /// Adds one change: for a driver without batches.
    ///
    /// # Panics
    ///
    /// In debug builds, if [`fits`](Self::fits) says no and the handler's walk was not [recalled](Self::recall).
    pub fn push(&mut self, notification: Notification<T>) {
        if self.disconnected {
            return;
        }
        self.check_push(1);
        match self.overflow {
            Overflow::Coalesce { limit } if self.behind() >= limit && self.merging.is_none() => self.begin_merging(),
            Overflow::Disconnect { limit } if self.behind() >= limit => {
                self.disconnected = true;
                return;
            }
            Overflow::Coalesce { .. } | Overflow::Unbounded | Overflow::Disconnect { .. } | Overflow::Pause { .. } => {}
        }
        if self.merging.is_some() {
            self.merge(notification);
        } else {
            self.append(notification);
        }
        self.pushed();
    }

    /// Adds the changes of a commit, as [`push`](Self::push) would one by one. Costs a counted pointer, however many they
    /// are, unless the ring merges.
    ///
    /// # Panics
    ///
    /// As [`push`](Self::push).
    pub fn push_batch(&mut self, batch: &Batch<T>) {
        if self.disconnected || batch.is_empty() {
            return;
        }
        self.check_push(batch.len());
        let whole = match self.overflow {
            Overflow::Coalesce { .. } | Overflow::Disconnect { .. } => self.fits(batch.len()),
            Overflow::Unbounded | Overflow::Pause { .. } => true,
        };
        if whole {
            self.buffered += batch.len();
            self.entries.push_back(Entry::Batch { batch: batch.clone(), at: 0 });
            self.pushed();
        } else {
            self.recreated.copied(batch, 0).for_each(|notification| self.push(notification));
        }
    }

    /// True if `more` notifications can be pushed while the handler walks what it was lent.
    pub fn fits(&self, more: usize) -> bool {
        // Of `more` the first is as good as running if there is nothing else for a handler that waits.
        let running = self.waiting && (self.entries.is_empty() || self.as_good_as_running());
        let after = (self.buffered + more).saturating_sub(usize::from(running));
        match self.overflow {
            Overflow::Unbounded => true,
            Overflow::Coalesce { limit } | Overflow::Disconnect { limit } => {
                self.merging.is_none() && after <= limit && (limit > 0 || more == 0)
            }
            Overflow::Pause { limit } => after <= limit,
        }
    }

    /// The next thing to deliver. Asking for it says that the call for the one before has returned.
    ///
    /// # Panics
    ///
    /// In debug builds, if the first entry is lent.
    pub fn pop(&mut self) -> Option<Delivery<T>> {
        debug_assert!(!self.lent, "recall what is lent before anything else is taken");
        let next = if self.disconnected { None } else { self.pop_next() };
        self.popped(!matches!(next, Some(Delivery::Notification(_))));
        next
    }

    fn popped(&mut self, waiting: bool) {
        self.waiting = waiting;
        if let Overflow::Pause { limit } = self.overflow {
            self.full &= self.behind() > limit / 2;
        }
    }

    fn pop_next(&mut self) -> Option<Delivery<T>> {
        loop {
            match self.entries.front_mut()? {
                Entry::Batch { batch, at } => {
                    let (next, made) = self.recreated.step(batch, *at);
                    let notification = made.unwrap_or_else(|| batch[*at].clone());
                    self.buffered -= next - *at;
                    *at = next;
                    if *at == batch.len() {
                        self.pop_entry();
                    }
                    return Some(Delivery::Notification(notification));
                }
                Entry::Replay(place) => {
                    if let Some(added) = replayed(&place.snapshot, &mut place.at) {
                        return Some(Delivery::Notification(added));
                    }
                }
                Entry::Resync(place) => {
                    if let Some(repeat) = repeated(&place.snapshot, &mut place.at) {
                        return Some(Delivery::Notification(repeat));
                    }
                }
                Entry::Change(_) | Entry::Synced | Entry::Nothing(_) => {}
            }
            match self.pop_entry()? {
                Entry::Change(notification) => {
                    self.buffered -= 1;
                    return Some(Delivery::Notification(notification));
                }
                Entry::Synced => return Some(Delivery::Synced),
                Entry::Nothing(_) => self.nothings -= 1,
                Entry::Batch { .. } | Entry::Replay(_) | Entry::Resync(_) => {}
            }
        }
    }

    fn pop_entry(&mut self) -> Option<Entry<T>> {
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
        Some(entry)
    }

    /// As [`pop`](Self::pop), but lends the whole first stretch if nothing can come to change it. How far the handler came
    /// is told with [`walked`](Self::walked), and at the end with [`recall`](Self::recall); both may be told by whoever
    /// pushes, if the two share the place. What merges, or is full, is handed out one by one.
    ///
    /// # Panics
    ///
    /// In debug builds, if the first entry is lent.
    pub fn turn(&mut self) -> Option<Turn<T>> {
        debug_assert!(!self.lent, "recall what is lent before anything else is taken");
        if let Some(walk) = self.lend() {
            (self.lent, self.waiting) = (true, false);
            return Some(Turn::Walk(walk));
        }
        if let Some(walk) = self.pop_with_batch() {
            self.popped(false);
            return Some(Turn::Walk(walk));
        }
        Some(match self.pop()? {
            Delivery::Notification(notification) => Turn::Walk(Walk::one(notification)),
            Delivery::Synced => Turn::Synced,
        })
    }

    /// The last notification of a batch, and with it the batch: perhaps this is the last handle, and what is in it is not to
    /// be dropped here, under a lock of the owner.
    fn pop_with_batch(&mut self) -> Option<Walk<T>> {
        match self.entries.front() {
            Some(Entry::Batch { batch, at })
                if !self.disconnected && self.recreated.step(batch, *at).0 == batch.len() => {}
            _ => return None,
        }
        let Some(Entry::Batch { batch, at }) = self.pop_entry() else { return None };
        self.buffered -= batch.len() - at;
        Some(Walk::batch(batch, at, self.recreated))
    }

    fn lend(&mut self) -> Option<Walk<T>> {
        if self.disconnected {
            return None;
        }
        match self.entries.front_mut()? {
            Entry::Batch { batch, at } if !self.full => {
                let walk = Walk::batch(batch.clone(), *at, self.recreated);
                self.buffered -= walk.place() - *at;
                *at = walk.place();
                Some(walk)
            }
            Entry::Replay(place) => {
                let added = replayed(&place.snapshot, &mut place.at)?;
                Some(Walk::replay(place.snapshot.clone(), place.at, added))
            }
            Entry::Resync(place) => {
                let repeat = repeated(&place.snapshot, &mut place.at)?;
                Some(Walk::resync(place.snapshot.clone(), place.at, repeat))
            }
            Entry::Batch { .. } | Entry::Change(_) | Entry::Synced | Entry::Nothing(_) => None,
        }
    }

    /// True if the handler was lent a stretch of which there may be more.
    pub fn is_lent(&self) -> bool {
        self.lent
    }

    /// The handler has come to `place` of what it was lent: what is before it does not wait any more.
    pub fn walked(&mut self, place: usize) {
        if !self.lent {
            return;
        }
        match self.entries.front_mut() {
            Some(Entry::Batch { at, .. }) => {
                self.buffered -= place - *at;
                *at = place;
            }
            Some(Entry::Replay(of) | Entry::Resync(of)) => of.at = place,
            Some(Entry::Change(_) | Entry::Synced | Entry::Nothing(_)) | None => {
                unreachable!("only stretches are lent, and nothing else is taken meanwhile")
            }
        }
    }

    /// The handler walks no further than `place`: what is behind it waits again.
    pub fn recall(&mut self, place: usize) {
        self.walked(place);
        if core::mem::take(&mut self.lent)
            && matches!(self.entries.front(), Some(Entry::Batch { batch, at }) if *at == batch.len())
        {
            self.pop_entry();
        }
    }

    /// Gives away all that waits, so that it can be dropped elsewhere: for a handler that is done. Counters stay.
    #[must_use = "it holds the objects that nobody will be told of"]
    pub fn take(&mut self) -> Ring<T> {
        let mut taken = Ring::new(self.overflow).with_recreated(self.recreated);
        taken.stats = self.stats;
        core::mem::swap(self, &mut taken);
        taken
    }

    /// The objects of which nobody will be told, but for those of batches and snapshots that others hold: for who drops
    /// what it has the last handle of one by one.
    pub fn into_objects(self) -> impl Iterator<Item = Obj<T>> {
        self.entries.into_iter().flat_map(|entry| {
            let (batch, change, snapshot) = match entry {
                Entry::Batch { batch, .. } => (Some(batch), None, None),
                Entry::Change(notification) => (None, Some(notification), None),
                Entry::Replay(Place { snapshot, .. }) | Entry::Resync(Place { snapshot, .. }) => {
                    (None, None, Some(snapshot))
                }
                Entry::Synced | Entry::Nothing(_) => (None, None, None),
            };
            objects(batch, change, snapshot)
        })
    }

    /// True if [`pop`](Self::pop) may have something.
    pub fn has_work(&self) -> bool {
        !self.entries.is_empty() && !self.disconnected
    }

    /// How many notifications are buffered; a running replay or resync is not counted.
    pub fn len(&self) -> usize {
        if self.disconnected { 0 } else { self.buffered }
    }

    /// True if no notification is buffered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if the handler fell behind under [`Overflow::Disconnect`]: it is told nothing more, and what it has not seen is
    /// dropped with the ring.
    pub fn is_disconnected(&self) -> bool {
        self.disconnected
    }

    /// True from when more than the limit of [`Overflow::Pause`] waits until half of that is left.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Counters.
    pub fn stats(&self) -> RingStats {
        self.stats
    }

    /// True if the first entry is a change that the handler takes as soon as it wakes up.
    fn as_good_as_running(&self) -> bool {
        self.waiting && matches!(self.entries.front(), Some(Entry::Change(_) | Entry::Batch { .. }))
    }

    /// What counts against the limit.
    fn behind(&self) -> usize {
        self.buffered - usize::from(self.as_good_as_running())
    }

    fn append(&mut self, notification: Notification<T>) {
        self.buffered += 1;
        self.entries.push_back(Entry::Change(notification));
    }

    fn check_push(&self, more: usize) {
        debug_assert!(!self.lent || self.fits(more), "recall what is lent before it is merged");
    }

    /// Something was pushed.
    fn pushed(&mut self) {
        self.stats.high_water = self.stats.high_water.max(self.buffered);
        if let Overflow::Pause { limit } = self.overflow {
            if !self.full && self.behind() > limit {
                self.full = true;
                self.stats.pauses += 1;
            }
        }
    }

    /// From here on there is at most one open entry per key. Batches are copied and let go of. A pending resync is dropped:
    /// it would repeat versions that merged entries are about to overtake.
    fn begin_merging(&mut self) {
        let mut entries = VecDeque::with_capacity(self.buffered + 1);
        for (at, entry) in core::mem::take(&mut self.entries).into_iter().enumerate() {
            match entry {
                Entry::Batch { batch, at } => {
                    let before = entries.len();
                    entries.extend(self.recreated.copied(&batch, at).map(Entry::Change));
                    // What was two is one from here on.
                    self.buffered -= (batch.len() - at) - (entries.len() - before);
                }
                Entry::Resync(place) if at > 0 || place.at == 0 => drop(place),
                Entry::Resync(_) | Entry::Replay(_) | Entry::Synced | Entry::Change(_) | Entry::Nothing(_) => {
                    entries.push_back(entry);
                }
            }
        }
        self.entries = entries;
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

    /// Entries that hold memory, for tests of its bound.
    #[cfg(test)]
    pub(super) fn entries(&self) -> (usize, usize) {
        (self.entries.len(), self.nothings)
    }

    #[cfg(test)]
    pub(super) fn is_merging(&self) -> bool {
        self.merging.is_some()
    }

    #[cfg(test)]
    pub(super) fn counted(&self) -> usize {
        self.behind()
    }
}

impl<T> Entry<T> {
    fn key(&self) -> Option<KeyRef<'_>> {
        match self {
            Entry::Change(notification) => Some(notification.key()),
            Entry::Nothing(key) => Some(key.borrowed()),
            Entry::Batch { .. } | Entry::Replay(_) | Entry::Resync(_) | Entry::Synced => None,
        }
    }
}

impl<T> fmt::Debug for Ring<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let merging = self.merging.is_some();
        write!(f, "ring of {} notifications{}", self.len(), if merging { ", merging" } else { "" })
    }
}
