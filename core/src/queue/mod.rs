//! [`WorkQueue`]: which key is worked on next, and which not yet.
//!
//! A key goes through these states; adds that meet a key on its way are merged into one (I36), and no key is ever in
//! two hands (I33):
//!
//! ```text
//!            add                 get                  done
//!   (idle) ───────► ready ──────────────► processing ───────► (idle)
//!     │ ▲             ▲                     │     ▲
//!     │ │ due         │ done                │ add │ add
//!     ▼ │             │                     ▼     │
//!   delayed           └─────────────── processing, again
//! ```
//!
//! - Ready keys are handed out in the order in which they became ready. A key that is added while it is processed is
//!   ready again when that is done (I34).
//! - A delay stands beside these states. Of several delays of one key the earliest one counts (I37); when it is over,
//!   the key is added. An add does not wait for a delay and does not end it: level-triggered work is done now, what
//!   was promised for later is done later, too, and failures stay counted (B147).
//! - [`add_rate_limited`](WorkQueue::add_rate_limited) counts a failure and delays; [`forget`](WorkQueue::forget)
//!   resets the count and leaves a delay alone.
//! - After [`shut_down`](WorkQueue::shut_down) nothing is added any more and delays are dropped (B154). What is ready
//!   is still handed out; a key that was added while it was processed, before the end, still comes back.
//!
//! The queue is a machine: it waits for nobody, and time goes in with the calls. Each call that takes a time first
//! makes due keys ready. A driver calls again at [`next_deadline`](WorkQueue::next_deadline).
//!
//! Memory: one entry for each key that is ready, delayed, processed or has failures (B143), so the number of live
//! keys is the bound of everything in here. Each operation looks a key up once; `done` never, as its ticket says where
//! the entry is.
//!
//! ```
//! use informer_core::queue::{QueueConfig, WorkQueue};
//! use informer_core::time::{Duration, Time};
//!
//! let mut queue = WorkQueue::new(QueueConfig::new(7));
//! let now = Time::from_millis(0);
//! queue.add(now, "a");
//! queue.add(now, "b");
//! queue.add(now, "a"); // merged
//!
//! let (key, ticket) = queue.get(now).unwrap();
//! assert_eq!((key, queue.len(), queue.processing()), ("a", 1, 1));
//!
//! queue.add_rate_limited(now, "a"); // it failed: again in 5 ms
//! queue.done(now, ticket);
//! let (key, ticket) = queue.get(now).unwrap();
//! assert_eq!(key, "b");
//! queue.done(now, ticket);
//! assert!(queue.get(now).is_none());
//!
//! let deadline = queue.next_deadline().unwrap();
//! assert_eq!(deadline.at, now + Duration::from_millis(5));
//! let (key, ticket) = queue.get(deadline.at).unwrap();
//! assert_eq!((key, queue.retries(&"a")), ("a", 1));
//! queue.forget(&"a"); // it worked
//! queue.done(deadline.at, ticket);
//! assert_eq!(queue.tracked(), 0);
//! ```

mod limiter;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
mod timers;

pub use limiter::{Bucket, Limiter};

use crate::time::{Clock, Deadline, Duration, Time};
use alloc::collections::VecDeque;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use limiter::Tokens;
use slab::Slab;
use timers::{NO_TIMER, NO_TOKEN, Timers};

/// A queue that ever knew more keys than this at a time is not looked through after every call: that costs as much as
/// it knew.
#[cfg(debug_assertions)]
pub(crate) const CHECKED: usize = 64;

/// How a [`WorkQueue`] is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueConfig {
    /// How long failed keys wait.
    pub limiter: Limiter,
    /// Seed of the hash table. In production it should not be guessable: whoever can choose the names of objects could
    /// slow the table down otherwise. The order of keys does not depend on it.
    pub seed: u64,
}

impl QueueConfig {
    /// The default limiter, and a seed.
    pub const fn new(seed: u64) -> Self {
        QueueConfig { limiter: Limiter::exponential(Limiter::BASE, Limiter::CAP), seed }
    }

    /// The same with another limiter.
    #[must_use]
    pub fn limiter(mut self, limiter: Limiter) -> Self {
        self.limiter = limiter;
        self
    }
}

/// The right and the duty to say [`done`](WorkQueue::done): one for each key that was handed out.
///
/// It cannot be cloned and `done` takes it, so a key that is not processed cannot be done, and none twice (B152). A
/// ticket that is dropped leaves its key in processing for ever; whoever runs user code holds it so that `done` is
/// called on every way out, also on a panic (B153).
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a key whose ticket is dropped is never handed out again: give it to `WorkQueue::done`"]
pub struct Ticket {
    slot: u32,
    number: u32,
}

/// Where a key stands, its delays aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// Neither ready nor processed: it is delayed, or has failures that count.
    Idle,
    /// Waits to be handed out.
    Ready,
    /// Was handed out and is not done.
    Processing,
    /// The same, and it was added since: when it is done it is ready at once.
    ProcessingAgain,
}

/// All that a queue knows of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyState {
    /// Where it stands.
    pub place: Place,
    /// When its delay is over, if it has one.
    pub due: Option<Time>,
    /// Failures since it was forgotten last.
    pub retries: u32,
}

/// A queue of keys, each handed out to one worker at a time; see the [module](self).
pub struct WorkQueue<K> {
    clock: Clock,
    entries: Slab<Entry<K>>,
    /// The slots of `entries`, found by the hash of their keys.
    table: HashTable<u32>,
    hasher: FixedState,
    /// The slots that are ready, in their order. Nothing but `get` takes one out, so none of them is stale.
    ready: VecDeque<u32>,
    timers: Timers,
    limiter: Limiter,
    tokens: Tokens,
    processing: usize,
    /// How many of those that are processing were added again.
    again: usize,
    /// The number of the last ticket.
    tickets: u32,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    ShutDown,
    Draining,
}

struct Entry<K> {
    key: K,
    /// Kept so that neither growth of the table nor removal reads the key again.
    hash: u64,
    failures: u32,
    /// Position in `timers`, or [`NO_TIMER`].
    timer: u32,
    /// The number of the ticket, while processing.
    ticket: u32,
    place: Place,
}

impl<K> Entry<K> {
    /// True if nothing refers to the key any more.
    fn is_vacant(&self) -> bool {
        self.place == Place::Idle && self.failures == 0 && self.timer == NO_TIMER
    }
}

impl<K> WorkQueue<K> {
    /// The most keys that a queue can hold at a time: slots are numbers of 32 bits, and the last one says "none".
    pub const MAX_KEYS: usize = (NO_TIMER - 1) as usize;

    /// True after [`shut_down`](Self::shut_down) or [`shut_down_with_drain`](Self::shut_down_with_drain).
    pub fn is_shutting_down(&self) -> bool {
        self.phase != Phase::Open
    }

    /// True if the last call to end the queue was [`shut_down_with_drain`](Self::shut_down_with_drain). Whoever waits
    /// for a drain waits while this is true and [`is_drained`](Self::is_drained) is not: a
    /// [`shut_down`](Self::shut_down) that comes in between ends the wait at once (B151).
    pub fn is_draining(&self) -> bool {
        self.phase == Phase::Draining
    }

    /// True once the queue is shutting down, nothing is ready and nothing is processed: queued keys count, too (B150,
    /// where client-go waits only for those in flight).
    pub fn is_drained(&self) -> bool {
        self.is_shutting_down() && self.ready.is_empty() && self.processing == 0
    }

    /// True once no [`get`](Self::get) will return a key again: the queue is shutting down, nothing is ready and
    /// nothing that is still processed was added again. A worker may end then.
    pub fn is_exhausted(&self) -> bool {
        self.is_shutting_down() && self.ready.is_empty() && self.again == 0
    }

    /// How many keys are ready, as of the last call with a time. Delayed keys and those in processing do not count
    /// (B157).
    pub fn len(&self) -> usize {
        self.ready.len()
    }

    /// True if no key is ready.
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// How many keys are handed out and not done.
    pub fn processing(&self) -> usize {
        self.processing
    }

    /// How many keys are delayed, as of the last call with a time. A key can be delayed and ready at once.
    pub fn delayed(&self) -> usize {
        self.timers.len()
    }

    /// How many keys the queue knows: those that are ready, processed or delayed, and those with failures (B143).
    pub fn tracked(&self) -> usize {
        self.entries.len()
    }

    /// When the next delayed key becomes ready: always later than the last time that went in.
    pub fn next_deadline(&self) -> Option<Deadline> {
        self.timers.first().map(|timer| Deadline { at: timer.at, why: "a delayed key" })
    }

    /// Every key that the queue knows, in no particular but in a reproducible order.
    pub fn states(&self) -> impl Iterator<Item = (&K, KeyState)> {
        self.entries.iter().map(|(_, entry)| (&entry.key, self.state_of(entry)))
    }

    /// The keys that a drain still waits for: ready or in processing (B150: the report of a drain that took too long).
    pub fn unfinished(&self) -> impl Iterator<Item = &K> {
        self.entries.iter().filter(|(_, entry)| entry.place != Place::Idle).map(|(_, entry)| &entry.key)
    }

    fn state_of(&self, entry: &Entry<K>) -> KeyState {
        let due = self.timers.get(entry.timer).map(|timer| timer.at);
        KeyState { place: entry.place, due, retries: entry.failures }
    }

    /// Ends the queue: nothing is added any more, delayed keys are dropped, ready ones are still handed out. Ends a
    /// wait for a drain.
    pub fn shut_down(&mut self) {
        self.end(Phase::ShutDown);
    }

    /// Ends the queue as [`shut_down`](Self::shut_down) does, and has the caller wait until
    /// [`is_drained`](Self::is_drained). What a failing worker adds again meanwhile is refused, so the end comes.
    pub fn shut_down_with_drain(&mut self) {
        self.end(Phase::Draining);
    }

    fn end(&mut self, phase: Phase) {
        self.phase = phase;
        for timer in self.timers.take() {
            self.entries[timer.slot as usize].timer = NO_TIMER;
            self.drop_if_vacant(timer.slot);
        }
        self.check_step();
    }

    /// Makes due keys ready, in the order of their due times. Every other call with a time does this first.
    pub fn advance(&mut self, now: Time) {
        let now = self.clock.advance(now);
        // Ends: each round takes one timer out and none sets one.
        loop {
            let entries = &mut self.entries;
            let Some(due) = self.timers.pop_due(now, |slot, at| entries[slot as usize].timer = at) else { break };
            self.entries[due.slot as usize].timer = NO_TIMER;
            self.make_ready(due.slot);
        }
    }

    /// The add itself, by which a key in processing comes back and one that is ready is left where it is.
    fn make_ready(&mut self, slot: u32) {
        let entry = &mut self.entries[slot as usize];
        match entry.place {
            Place::Idle => {
                entry.place = Place::Ready;
                self.ready.push_back(slot);
            }
            Place::Processing => {
                entry.place = Place::ProcessingAgain;
                self.again += 1;
            }
            Place::Ready | Place::ProcessingAgain => {}
        }
    }

    /// Adds when `at` comes, or now if that is not later. `token` goes with the wait, if it is a token's.
    fn add_at(&mut self, slot: u32, at: Time, token: Time) {
        if at <= self.clock.now() {
            return self.make_ready(slot);
        }
        let entries = &mut self.entries;
        let position = entries[slot as usize].timer;
        let place = |slot: u32, at| entries[slot as usize].timer = at;
        match self.timers.get_mut(position) {
            None => self.timers.set(at, slot, token, place),
            Some(timer) => {
                timer.token = timer.token.min(token);
                self.timers.make_earlier(position, at, place);
            }
        }
    }

    /// The moment at which the bucket lets a key go on that fails now.
    fn token(&mut self, bucket: Bucket, slot: u32) -> Time {
        let now = self.clock.now();
        let position = self.entries[slot as usize].timer;
        // One that it waits for, or has and did not use yet, is not asked for twice (B148).
        match self.timers.get_mut(position).map(|timer| core::mem::replace(&mut timer.token, NO_TOKEN)) {
            Some(token) if token != NO_TOKEN => token,
            _ => now + self.tokens.reserve(&bucket, now),
        }
    }

    /// A key that nobody refers to leaves nothing behind.
    fn drop_if_vacant(&mut self, slot: u32) {
        let entry = &self.entries[slot as usize];
        if entry.is_vacant() {
            let found = self.table.find_entry(entry.hash, |at| *at == slot);
            found.expect("every entry is in the table").remove();
            self.entries.remove(slot as usize);
        }
    }

    #[cfg(not(debug_assertions))]
    fn check_step(&self) {}

    /// After every call of a debug build: what is counted, and of a queue that never knew more than [`CHECKED`] keys each
    /// of them.
    #[cfg(debug_assertions)]
    fn check_step(&self) {
        self.check_counts();
        if self.entries.capacity() <= CHECKED {
            self.check_entries();
        }
    }

    fn check_counts(&self) {
        assert_eq!(self.table.len(), self.entries.len(), "every key has one place in the table");
        assert!(self.ready.len() + self.processing <= self.entries.len(), "a key is ready or processed once");
        assert!(self.again <= self.processing, "only what is processed is to come again");
        assert!(self.timers.len() == 0 || !self.is_shutting_down(), "a delay outlives the queue");
        assert!(
            self.next_deadline().is_none_or(|deadline| deadline.at > self.clock.now()),
            "a due key was left behind"
        );
    }

    /// Each key against what is counted.
    fn check_entries(&self) {
        self.timers.check(|slot| self.entries[slot as usize].timer);
        let mut ready = alloc::vec![false; self.entries.iter().last().map_or(0, |(slot, _)| slot + 1)];
        for slot in &self.ready {
            assert!(!core::mem::replace(&mut ready[*slot as usize], true), "slot {slot} is ready twice");
        }
        let (mut processing, mut again, mut delayed) = (0, 0, 0);
        for (slot, entry) in &self.entries {
            assert!(!entry.is_vacant(), "slot {slot} is kept for nothing");
            assert_eq!(entry.place == Place::Ready, ready[slot], "slot {slot} is {:?}", entry.place);
            let found = self.table.find(entry.hash, |at| *at as usize == slot);
            assert!(found.is_some(), "slot {slot} is not in the table");
            processing += usize::from(matches!(entry.place, Place::Processing | Place::ProcessingAgain));
            again += usize::from(entry.place == Place::ProcessingAgain);
            delayed += usize::from(entry.timer != NO_TIMER);
        }
        assert_eq!((processing, again, delayed), (self.processing, self.again, self.timers.len()));
    }
}

impl<K: Clone + Eq + Hash> WorkQueue<K> {
    /// An empty queue.
    pub fn new(config: QueueConfig) -> Self {
        WorkQueue {
            clock: Clock::default(),
            entries: Slab::new(),
            table: HashTable::new(),
            hasher: FixedState::with_seed(config.seed),
            ready: VecDeque::new(),
            timers: Timers::default(),
            limiter: config.limiter,
            tokens: Tokens::default(),
            processing: 0,
            again: 0,
            tickets: config.seed as u32, // so that a ticket of another queue is found out
            phase: Phase::Open,
        }
    }

    /// Adds a key: it is handed out after those that are ready already. A key that is ready stays where it is, one in
    /// processing is ready again when it is done.
    ///
    /// False if the queue is shutting down; then nothing has changed.
    pub fn add(&mut self, now: Time, key: K) -> bool {
        self.advance(now);
        if self.is_shutting_down() {
            return false;
        }
        let slot = self.slot(key);
        self.make_ready(slot);
        self.check_step();
        true
    }

    /// Adds a key when `delay` is over, at once if it is zero. If the key is delayed already, the earlier end counts.
    ///
    /// False if the queue is shutting down; then nothing has changed.
    pub fn add_after(&mut self, now: Time, key: K, delay: Duration) -> bool {
        self.advance(now);
        if self.is_shutting_down() {
            return false;
        }
        let slot = self.slot(key);
        self.add_at(slot, self.clock.now() + delay, NO_TOKEN);
        self.check_step();
        true
    }

    /// Counts a failure of the key and adds it when the [`Limiter`]'s wait is over.
    ///
    /// Waits do not pile up: while a key waits for a token of the bucket, or for its own backoff with a token in hand,
    /// further calls use that token (B148).
    ///
    /// False if the queue is shutting down; then nothing has changed.
    pub fn add_rate_limited(&mut self, now: Time, key: K) -> bool {
        self.advance(now);
        if self.is_shutting_down() {
            return false;
        }
        let now = self.clock.now();
        let slot = self.slot(key);
        let entry = &mut self.entries[slot as usize];
        let at = now + self.limiter.backoff(entry.failures);
        entry.failures = entry.failures.saturating_add(1);
        let token = self.limiter.bucket.map(|bucket| self.token(bucket, slot));
        self.add_at(slot, token.map_or(at, |token| at.max(token)), token.unwrap_or(NO_TOKEN));
        self.check_step();
        true
    }

    /// Resets the failures of a key. A delay that runs already goes on (trap 85 of client-go: it is not cancelled).
    pub fn forget(&mut self, key: &K) {
        let Some(slot) = self.find(key) else { return };
        self.entries[slot as usize].failures = 0;
        self.drop_if_vacant(slot);
        self.check_step();
    }

    /// How often the key was added rate-limited since it was forgotten last.
    pub fn retries(&self, key: &K) -> u32 {
        self.find(key).map_or(0, |slot| self.entries[slot as usize].failures)
    }

    /// What the queue knows of a key, as of the last call with a time; `None` if nothing.
    pub fn state(&self, key: &K) -> Option<KeyState> {
        self.find(key).map(|slot| self.state_of(&self.entries[slot as usize]))
    }

    /// Hands out the key that has been ready for the longest time, with the [`Ticket`] that ends its processing.
    ///
    /// `None` if none is ready; no more will come if the queue [is exhausted](Self::is_exhausted).
    pub fn get(&mut self, now: Time) -> Option<(K, Ticket)> {
        self.advance(now);
        let slot = self.ready.pop_front()?;
        self.tickets = self.tickets.wrapping_add(1);
        let entry = &mut self.entries[slot as usize];
        entry.place = Place::Processing;
        entry.ticket = self.tickets;
        let handed_out = (entry.key.clone(), Ticket { slot, number: self.tickets });
        self.processing += 1;
        self.check_step();
        Some(handed_out)
    }

    /// Ends the processing of a key. If it was added meanwhile, it is ready again.
    ///
    /// # Panics
    ///
    /// If another queue handed the ticket out.
    pub fn done(&mut self, now: Time, ticket: Ticket) {
        self.advance(now);
        let place = match self.entries.get(ticket.slot as usize) {
            Some(entry) if entry.ticket == ticket.number => entry.place,
            _ => Place::Idle,
        };
        match place {
            Place::Processing => {
                self.entries[ticket.slot as usize].place = Place::Idle;
                self.drop_if_vacant(ticket.slot);
            }
            Place::ProcessingAgain => {
                self.entries[ticket.slot as usize].place = Place::Ready;
                self.ready.push_back(ticket.slot);
                self.again -= 1;
            }
            Place::Idle | Place::Ready => {
                panic!("WorkQueue::done: this ticket is of another queue; give it to the queue whose `get` returned it")
            }
        }
        self.processing -= 1;
        self.check_step();
    }

    fn find(&self, key: &K) -> Option<u32> {
        let hash = self.hasher.hash_one(key);
        self.table.find(hash, |slot| self.entries[*slot as usize].key == *key).copied()
    }

    /// The slot of a key; a new one if the queue does not know it.
    fn slot(&mut self, key: K) -> u32 {
        let (entries, hash) = (&mut self.entries, self.hasher.hash_one(&key));
        let found =
            self.table.entry(hash, |slot| entries[*slot as usize].key == key, |slot| entries[*slot as usize].hash);
        match found {
            hashbrown::hash_table::Entry::Occupied(found) => *found.get(),
            hashbrown::hash_table::Entry::Vacant(free) => {
                assert!(entries.len() < Self::MAX_KEYS, "WorkQueue: more than {} keys at a time", Self::MAX_KEYS);
                let entry = Entry { key, hash, failures: 0, timer: NO_TIMER, ticket: 0, place: Place::Idle };
                let slot = entries.insert(entry) as u32;
                free.insert(slot);
                slot
            }
        }
    }

    /// Asserts everything that holds between two calls. It looks at every key: for tests.
    ///
    /// # Panics
    ///
    /// If the queue is broken, with a message that names the rule.
    pub fn check(&self) {
        self.check_counts();
        self.check_entries();
        for (slot, entry) in &self.entries {
            assert_eq!(self.find(&entry.key), Some(slot as u32), "slot {slot} cannot be found by its key");
        }
    }
}

impl<K> fmt::Debug for WorkQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue")
            .field("phase", &self.phase)
            .field("ready", &self.len())
            .field("processing", &self.processing)
            .field("delayed", &self.delayed())
            .field("tracked", &self.tracked())
            .finish()
    }
}
