//! Handlers: a ring behind its lock, and what a user holds of it.
//!
//! ```text
//! driver ── push a batch ──► [ ring, behind its lock ] ── lend ──► Deliveries ──► the user's function, by reference
//!                 └── recall ──► [ place ] ◄── claim each step ──────┘
//! ```
//!
//! A handler takes the lock once per batch, and claims the next few notifications by moving the shared place on. So the
//! driver knows how far the handler is, and takes back what it was lent: to merge it, or for good when the handler is
//! removed. A claim that comes too late fails, and the handler asks its ring again. What was claimed before a removal is
//! not delivered after it: the handler looks before each one.

#[cfg(all(test, shuttle))]
mod schedules;

use crate::error::Error;
use crate::guard;
use crate::informer::Command;
use crate::observe::{HandlerCall, Observed};
use crate::replaced::drop_each;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex, Signal, deadline};
use informer_core::informer::HandlerId;
use informer_core::listener::{self, Batch, Notification, Overflow, Recreated, Ring, RingStats, Turn, Walk};
use informer_core::store::Snapshot;
use informer_core::time::Duration;
use std::fmt;
use std::time::Instant;

/// How a handler is fed.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct HandlerOptions {
    /// For reports.
    pub name: String,
    /// Repeat everything in this period; the informer's own if `None`. Zero is never.
    pub resync: Option<Duration>,
    /// What happens when the handler does not keep up. Under [`Overflow::Pause`] the informer waits for it:
    /// [`held_up_by`](crate::informer::InformerHandle::held_up_by) names the handlers for which it does. What a handler has
    /// taken for its next calls, up to eight notifications, does not count and is merged no more.
    pub overflow: Overflow,
    /// What it is told of an object that was deleted and made again unseen.
    pub recreated: Recreated,
    /// Called once, between the last notification of the initial state and the first one after it, where the
    /// notifications are delivered.
    pub on_synced: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl fmt::Debug for HandlerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "options of handler {:?}", self.name)
    }
}

impl HandlerOptions {
    /// The defaults, under a name.
    pub fn named(name: &str) -> Self {
        HandlerOptions { name: name.to_string(), ..HandlerOptions::default() }
    }

    /// With another answer to a handler that does not keep up.
    ///
    /// ```
    /// use informer_core::listener::Overflow;
    /// use informer_runtime::handler::HandlerOptions;
    ///
    /// let options = HandlerOptions::named("audit").with_overflow(Overflow::Pause { limit: 100 });
    /// assert_eq!(options.overflow, Overflow::Pause { limit: 100 });
    /// ```
    #[must_use]
    pub fn with_overflow(mut self, overflow: Overflow) -> Self {
        self.overflow = overflow;
        self
    }

    /// With another way to be told of an object that was deleted and made again unseen.
    ///
    /// ```
    /// use informer_core::listener::Recreated;
    /// use informer_runtime::handler::HandlerOptions;
    ///
    /// let options = HandlerOptions::named("dns").with_recreated(Recreated::Flagged);
    /// assert_eq!((options.recreated, HandlerOptions::default().recreated), (Recreated::Flagged, Recreated::Split));
    /// ```
    #[must_use]
    pub fn with_recreated(mut self, recreated: Recreated) -> Self {
        self.recreated = recreated;
        self
    }

    /// Repeats everything in this period; never if it is zero.
    #[must_use]
    pub fn with_resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }
}

/// One handler's ring, filled by the driver and emptied by the handler's thread or task.
pub struct Channel<T> {
    buffer: Mutex<Buffer<T>>,
    /// How far the handler has come in what it was lent; [`NOTHING_LENT`] if it may walk no further. Everyone but the
    /// handler's own claims changes it under the lock of `buffer`.
    place: AtomicUsize,
    /// How many are claimed at once.
    claim: usize,
    /// How many may wait before the handler is woken.
    wake_after: usize,
    signal: Signal,
    shared: Arc<Shared>,
    /// Tells the driver that a full ring has room again, or that nobody takes from it any more.
    driver: Box<Post<T>>,
}

type Post<T> = dyn Fn(Command<T>) + Send + Sync;

struct Buffer<T> {
    ring: Ring<T>,
    /// The handler found nothing, and waits for the signal or is about to.
    parked: bool,
    /// Notifications that came since then.
    unheard: usize,
    /// Whoever holds the deliveries asks for them in a loop of their own, and has so many in hand. Then there is no call of
    /// ours for which a wait for the end could be, and who waits may well be that loop.
    by_hand: Option<usize>,
}

/// After how many notifications of a burst a handler that waits is woken, even if its driver has more for it at once: one
/// that wakes up for each commit sleeps and wakes more than it works. One that keeps less exactly is woken when half of that
/// waits, so that it comes in time.
const WAKE_AFTER: usize = 2 * 1024;

/// The most notifications that a handler claims at once: to claim costs more than all else that is done for one.
const CLAIM: usize = 8;

/// A handler with a small bound claims less, down to each one alone: what is claimed does not count against the bound, and
/// is not merged.
const CLAIM_OF_LIMIT: usize = 128;

/// More notifications than fit into a batch, and more places than a snapshot has.
const NOTHING_LENT: usize = usize::MAX;

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// It waits, or nobody will take it any more.
    Kept,
    /// It waits, and more than [`Overflow::Pause`] allows does.
    Full,
    /// The handler fell behind under [`Overflow::Disconnect`].
    Fallen,
}

struct Shared {
    id: HandlerId,
    name: String,
    synced: AtomicBool,
    closed: AtomicBool,
    removed: AtomicBool,
    finished: AtomicBool,
    panics: AtomicU64,
    changed: Signal,
    /// Also told when the handler is synced: the factory's, and those of controllers that wait for it.
    listeners: Mutex<Vec<Arc<Signal>>>,
}

impl<T> Channel<T> {
    pub(crate) fn new(id: HandlerId, options: &HandlerOptions, listener: Arc<Signal>, driver: Box<Post<T>>) -> Self {
        let limit = options.overflow.limit().unwrap_or(usize::MAX);
        Channel {
            buffer: Mutex::new(Buffer {
                ring: Ring::new(options.overflow).with_recreated(options.recreated),
                parked: false,
                unheard: 0,
                by_hand: None,
            }),
            place: AtomicUsize::new(NOTHING_LENT),
            claim: (limit / CLAIM_OF_LIMIT).clamp(1, CLAIM),
            wake_after: WAKE_AFTER.min(limit / 2),
            driver,
            signal: Signal::new(),
            shared: Arc::new(Shared {
                id,
                name: options.name.clone(),
                synced: AtomicBool::new(false),
                closed: AtomicBool::new(false),
                removed: AtomicBool::new(false),
                finished: AtomicBool::new(false),
                panics: AtomicU64::new(0),
                changed: Signal::new(),
                listeners: Mutex::new(vec![listener]),
            }),
        }
    }

    pub(crate) fn id(&self) -> HandlerId {
        self.shared.id
    }

    pub(crate) fn name(&self) -> &str {
        &self.shared.name
    }

    pub(crate) fn replay(&self, snapshot: Snapshot<T>) {
        self.fill(|buffer| buffer.ring.replay(snapshot));
        self.wake();
    }

    /// The initial state begins with what was preloaded, and is not complete.
    pub(crate) fn begin(&self, snapshot: Snapshot<T>) {
        self.fill(|buffer| buffer.ring.begin(snapshot));
        self.wake();
    }

    /// The initial state is complete.
    pub(crate) fn complete(&self) {
        self.fill(|buffer| buffer.ring.complete());
        self.wake();
    }

    pub(crate) fn resync(&self, snapshot: Snapshot<T>) {
        self.fill(|buffer| buffer.ring.resync(snapshot));
        self.wake();
    }

    /// Adds changes. A handler that waits is woken if that makes many; else it sees them when it is [woken](Self::wake).
    pub(crate) fn push(&self, batch: &Batch<T>) -> Pushed {
        let Some((pushed, waits)) = self.fill(|buffer| {
            let ring = &mut buffer.ring;
            self.look(ring);
            if !ring.fits(batch.len()) {
                self.recall(ring);
            }
            ring.push_batch(batch);
            let pushed = match (ring.is_disconnected(), ring.is_full()) {
                (true, _) => Pushed::Fallen,
                (false, true) => Pushed::Full,
                (false, false) => Pushed::Kept,
            };
            buffer.unheard += batch.len();
            (pushed, buffer.unheard > self.wake_after && std::mem::take(&mut buffer.parked))
        }) else {
            return Pushed::Kept;
        };
        if waits {
            self.signal.notify();
        }
        pushed
    }

    /// True while more waits than [`Overflow::Pause`] allows.
    pub(crate) fn is_full(&self) -> bool {
        self.buffer.lock().ring.is_full()
    }

    /// Nothing is put into the ring of a closed handler: nobody would take it out.
    fn fill<R>(&self, fill: impl FnOnce(&mut Buffer<T>) -> R) -> Option<R> {
        let mut buffer = self.buffer.lock();
        if self.shared.closed.load(Ordering::Acquire) {
            return None;
        }
        Some(fill(&mut buffer))
    }

    /// Wakes the handler if it waits and there is something for it.
    pub(crate) fn wake(&self) {
        let mut buffer = self.buffer.lock();
        let waits = buffer.ring.has_work() && std::mem::take(&mut buffer.parked);
        drop(buffer);
        if waits {
            self.signal.notify();
        }
    }

    /// Tells the ring how far its handler is.
    fn look(&self, ring: &mut Ring<T>) {
        let place = self.place.load(Ordering::Acquire);
        if place != NOTHING_LENT {
            ring.walked(place);
        }
    }

    /// Takes back what the handler was lent and has not claimed.
    fn recall(&self, ring: &mut Ring<T>) {
        let place = self.place.swap(NOTHING_LENT, Ordering::AcqRel);
        if place != NOTHING_LENT {
            ring.recall(place);
        }
    }

    /// Claims what is between two places, if it was not taken back.
    fn claim(&self, from: usize, to: usize) -> bool {
        self.place.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// What whoever takes from this waits on.
    pub(crate) fn signal(&self) -> &Signal {
        &self.signal
    }

    /// See [`Deliveries::mark_synced`].
    pub(crate) fn mark_synced(&self) {
        self.shared.synced.store(true, Ordering::Release);
        self.shared.tell();
    }

    /// See [`Deliveries::mark_panic`].
    pub(crate) fn mark_panic(&self, call: HandlerCall<'_>, text: &str, tell: impl FnOnce(&Observed<'_>)) {
        self.shared.panics.fetch_add(1, Ordering::Relaxed);
        tell(&Observed::HandlerPanic { handler: &self.shared.name, call, text });
    }

    /// The handler fell behind: it is removed.
    pub(crate) fn disconnect(&self) {
        self.shared.removed.store(true, Ordering::Release);
        self.close();
    }

    /// Nothing more is delivered; what is buffered is dropped. A running call completes.
    pub(crate) fn close(&self) {
        let mut buffer = self.buffer.lock();
        self.shared.closed.store(true, Ordering::Release);
        self.recall(&mut buffer.ring);
        let left = buffer.ring.take();
        let nothing_runs = buffer.by_hand == Some(0);
        drop(buffer);
        self.signal.notify();
        // Who waits for a sync need not wait for the call that runs: nothing of the initial state follows it any more.
        self.shared.changed.notify();
        // Objects, perhaps a snapshot of the whole store: dropped under no lock, and not kept by a registration. A driver
        // that ends has other handlers to close.
        drop_each(left.into_objects());
        if nothing_runs {
            self.shared.finish();
        }
    }

    /// Nothing is called for this handler: it is finished as soon as it is closed and nothing is in hand.
    pub(crate) fn take_by_hand(&self) {
        self.in_hand(|_| 0);
    }

    /// Something is given away of which the end is to be waited for. False if the handler is closed, and nothing is to be
    /// given any more.
    pub(crate) fn hand_out(&self) -> bool {
        let mut buffer = self.buffer.lock();
        let open = !self.shared.closed.load(Ordering::Acquire);
        if open {
            buffer.by_hand = buffer.by_hand.map(|count| count + 1);
        }
        open
    }

    /// It is back.
    pub(crate) fn hand_back(&self) {
        self.in_hand(|count| count - 1);
    }

    fn in_hand(&self, change: impl FnOnce(usize) -> usize) {
        let mut buffer = self.buffer.lock();
        let count = change(buffer.by_hand.unwrap_or_default());
        buffer.by_hand = Some(count);
        let closed = self.shared.closed.load(Ordering::Acquire);
        drop(buffer);
        if closed && count == 0 {
            self.shared.finish();
        }
    }
}

/// The consuming end of a handler, for an adapter's loop.
pub struct Deliveries<T> {
    channel: Arc<Channel<T>>,
    /// What is delivered now, and what may follow it.
    walk: Option<Walk<T>>,
    /// Up to this place of the walk everything is ours, unless the handler is closed.
    claimed: usize,
}

/// What is to be delivered, lent for as long as it is looked at. [`Delivery`](listener::Delivery) is the same for whoever keeps it.
#[derive(Debug)]
pub enum Lent<'a, T> {
    /// Tell the handler.
    Notification(&'a Notification<T>),
    /// Everything that belonged to the initial state was delivered before. Comes once.
    Synced,
}

impl<T> Lent<'_, T> {
    /// The same for whoever keeps it: two counted pointers.
    pub fn to_owned(&self) -> listener::Delivery<T> {
        match self {
            Lent::Notification(notification) => listener::Delivery::Notification((*notification).clone()),
            Lent::Synced => listener::Delivery::Synced,
        }
    }
}

/// What [`Deliveries::try_next`] found.
#[derive(Debug)]
pub enum Next<'a, T> {
    /// Something to deliver.
    Delivery(Lent<'a, T>),
    /// Nothing yet: wait past this generation.
    Empty(u64),
    /// The handler was removed or the informer stopped.
    Closed,
}

/// The same without the notification, which is the current one of the walk.
#[derive(Clone, Copy)]
enum Found {
    Notification,
    Synced,
    Empty(u64),
    Closed,
}

impl<T> Deliveries<T> {
    pub(crate) fn new(channel: Arc<Channel<T>>) -> Self {
        Deliveries { channel, walk: None, claimed: 0 }
    }

    /// The next thing, if there is one. Asking for it says that the one before is done with. Takes no lock as long as it
    /// is of the batch of the one before.
    pub fn try_next(&mut self) -> Next<'_, T> {
        self.next_keeping(&mut Passed::default())
    }

    /// The same for who holds a lock: what is done with is given away, to be dropped behind it.
    pub(crate) fn next_keeping(&mut self, passed: &mut Passed<T>) -> Next<'_, T> {
        match self.find(passed) {
            Found::Empty(seen) => Next::Empty(seen),
            Found::Closed => Next::Closed,
            found @ (Found::Notification | Found::Synced) => Next::Delivery(self.delivery(found)),
        }
    }

    /// What is done with lives in `passed` until the ring has let go of it, too: so it is dropped by its owner, and not under
    /// the ring's lock.
    fn find(&mut self, passed: &mut Passed<T>) -> Found {
        if self.advance_claimed() {
            return Found::Notification;
        }
        if let Some(walk) = &mut self.walk {
            passed.made = walk.take_made();
            let from = walk.place();
            if from >= self.claimed && walk.advance().is_some() {
                let to = walk.reach(self.channel.claim - 1);
                if self.channel.claim(from, to) {
                    self.claimed = to;
                    return Found::Notification;
                }
            }
        }
        passed.walk = self.walk.take();
        self.take_turn()
    }

    /// Goes on to the next one if it was claimed together with the one before, and nobody has closed the handler since.
    fn advance_claimed(&mut self) -> bool {
        match &mut self.walk {
            Some(walk) if walk.place() < self.claimed && !self.channel.shared.closed.load(Ordering::Acquire) => {
                walk.advance().is_some()
            }
            _ => false,
        }
    }

    /// The notification that was found last, and those that were claimed together with it. Before each of these it is to be
    /// seen whether the handler [is closed](Self::is_closed).
    pub(crate) fn claimed(&self) -> &[Notification<T>] {
        self.walk.as_ref().map_or(&[], |walk| walk.stretch(self.claimed))
    }

    /// That the last call was for this one of the [claimed](Self::claimed).
    pub(crate) fn go_to(&mut self, number: usize) {
        if let Some(walk) = &mut self.walk {
            walk.go_to(number);
        }
    }

    /// True once nothing is to be delivered any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.channel.shared.closed.load(Ordering::Acquire)
    }

    fn take_turn(&mut self) -> Found {
        let mut buffer = self.channel.buffer.lock();
        // Under the lock, so that nothing is taken once `close` has returned.
        if self.channel.shared.closed.load(Ordering::Acquire) {
            return Found::Closed;
        }
        self.channel.recall(&mut buffer.ring);
        let was_full = buffer.ring.is_full();
        let turn = buffer.ring.turn();
        let has_room = was_full && !buffer.ring.is_full();
        let found = match turn {
            Some(Turn::Walk(walk)) => {
                if buffer.ring.is_lent() {
                    self.channel.place.store(walk.place(), Ordering::Release);
                }
                self.claimed = walk.place();
                self.walk = Some(walk);
                Found::Notification
            }
            Some(Turn::Synced) => Found::Synced,
            None => {
                (buffer.parked, buffer.unheard) = (true, 0);
                Found::Empty(self.channel.signal.generation())
            }
        };
        drop(buffer);
        if has_room {
            (self.channel.driver)(Command::Room(self.channel.shared.id));
        }
        found
    }

    fn delivery(&self, found: Found) -> Lent<'_, T> {
        match (found, &self.walk) {
            (Found::Notification, Some(walk)) => Lent::Notification(walk.current()),
            (Found::Synced, _) => Lent::Synced,
            (Found::Notification | Found::Empty(_) | Found::Closed, _) => {
                unreachable!("a notification is the current one of a walk, and nothing else is delivered")
            }
        }
    }

    /// What to wait on after [`Next::Empty`].
    pub fn signal(&self) -> &Signal {
        self.channel.signal()
    }

    /// The part that several may hold.
    pub(crate) fn channel(&self) -> Arc<Channel<T>> {
        Arc::clone(&self.channel)
    }

    /// The next thing, waiting for it; `None` when the handler is closed.
    pub fn next_blocking(&mut self) -> Option<Lent<'_, T>> {
        loop {
            // Not in the head of the match: it would be kept while this waits.
            let found = self.find(&mut Passed::default());
            match found {
                Found::Empty(seen) => _ = self.channel.signal.wait_past(seen, None),
                Found::Closed => return None,
                found @ (Found::Notification | Found::Synced) => return Some(self.delivery(found)),
            }
        }
    }

    /// The same for a task.
    #[cfg(feature = "async")]
    pub async fn next(&mut self) -> Option<Lent<'_, T>> {
        loop {
            // Not in the head of the match: it would be kept while this waits.
            let found = self.find(&mut Passed::default());
            match found {
                Found::Empty(seen) => self.channel.signal.past(seen).await,
                Found::Closed => return None,
                found @ (Found::Notification | Found::Synced) => return Some(self.delivery(found)),
            }
        }
    }

    /// Everything of the initial state was delivered, and its calls returned.
    pub fn mark_synced(&self) {
        self.channel.mark_synced();
    }

    /// Counts a panic of the handler about what it was [lent](Self::try_next) last, and has `tell` tell of it; that item is
    /// passed over.
    pub fn mark_panic(&self, text: &str, tell: impl FnOnce(&Observed<'_>)) {
        let call = self.walk.as_ref().map_or(HandlerCall::Synced, |walk| HandlerCall::of(walk.current()));
        self.channel.mark_panic(call, text, tell);
    }
}

/// What a handler is done with: its objects are nothing to it any more. Dropping it drops them, quietly.
pub(crate) struct Passed<T> {
    /// The last notification, if it was not part of a batch.
    made: Option<Notification<T>>,
    /// What it walked to the end, or as far as it was left to it.
    walk: Option<Walk<T>>,
}

impl<T> Default for Passed<T> {
    fn default() -> Self {
        Passed { made: None, walk: None }
    }
}

impl<T> Drop for Passed<T> {
    fn drop(&mut self) {
        if self.made.is_none() && self.walk.is_none() {
            return; // most steps: no guard is needed
        }
        let made = self.made.take().into_iter().flat_map(Notification::into_objects);
        drop_each(made.chain(self.walk.take().into_iter().flat_map(Walk::into_objects)));
    }
}

impl<T> Drop for Deliveries<T> {
    /// The loop has ended: nothing runs any more, and nothing is to wait for it, in whatever way it ended.
    fn drop(&mut self) {
        if !self.channel.shared.closed.load(Ordering::Acquire) {
            self.channel.close();
            (self.channel.driver)(Command::Remove(self.channel.shared.id));
        }
        drop(Passed { made: None, walk: self.walk.take() });
        self.channel.shared.finish();
    }
}

impl Shared {
    fn finish(&self) {
        self.finished.store(true, Ordering::Release);
        self.tell();
    }

    fn tell(&self) {
        self.changed.notify();
        for listener in &*self.listeners.lock() {
            listener.notify();
        }
    }
}

type Remove = dyn Fn(HandlerId) + Send + Sync;
type Count = dyn Fn() -> (usize, RingStats) + Send + Sync;

/// A handler that was added: ask it, or remove it. Dropping it leaves the handler in place.
#[derive(Clone)]
pub struct Registration {
    shared: Arc<Shared>,
    remove: Arc<Remove>,
    count: Arc<Count>,
    in_async_runtime: Option<fn() -> bool>,
}

impl Registration {
    pub(crate) fn new<T: Send + Sync + 'static>(
        channel: Arc<Channel<T>>,
        remove: Arc<Remove>,
        in_async_runtime: Option<fn() -> bool>,
    ) -> Self {
        let shared = Arc::clone(&channel.shared);
        let count = move || {
            let mut buffer = channel.buffer.lock();
            channel.look(&mut buffer.ring);
            (buffer.ring.len(), buffer.ring.stats())
        };
        Registration { shared, remove, count: Arc::new(count), in_async_runtime }
    }

    /// The name that the handler was given; may be empty.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// True once every `Added` of the initial state was delivered and its call returned; also after a panic in one of
    /// them, and for an empty collection. It stays true.
    pub fn has_synced(&self) -> bool {
        self.shared.synced.load(Ordering::Acquire)
    }

    /// How often the handler panicked.
    pub fn panics(&self) -> u64 {
        self.shared.panics.load(Ordering::Relaxed)
    }

    /// Changes that wait for the handler, without the few that it has claimed together with the one that it is told of. The
    /// initial state and a resync are not counted: they are walks over the cache,
    /// and no entries; [`has_synced`](Self::has_synced) says when the first is over.
    pub fn pending(&self) -> usize {
        (self.count)().0
    }

    /// Counters of the handler's ring: the most that ever waited, what was merged, how often the informer was paused.
    pub fn stats(&self) -> RingStats {
        (self.count)().1
    }

    /// Removes the handler, from anywhere, also from inside it. No notification is taken for it after this returns; the
    /// call that runs, or whose notification was taken already, completes: [`is_finished`](Self::is_finished) tells
    /// when. Doing it twice changes nothing.
    pub fn remove(&self) {
        if !self.shared.removed.swap(true, Ordering::AcqRel) {
            (self.remove)(self.shared.id);
        }
    }

    /// True once the handler was removed, or its informer stopped, and no call runs any more; of a stream of items, once none
    /// is in hand. What a loop of one's own does with an event that it has taken is not known here.
    pub fn is_finished(&self) -> bool {
        self.shared.finished.load(Ordering::Acquire)
    }

    /// True if the handler was removed, by [`remove`](Self::remove) or because it fell behind, and not by a stop.
    pub fn was_removed(&self) -> bool {
        self.shared.removed.load(Ordering::Acquire)
    }

    /// Waits on this thread until no call runs any more; for ever if the handler is never removed and its informer
    /// never stopped, or if this thread has an item in hand.
    ///
    /// # Errors
    ///
    /// [`Error::WouldDeadlock`] inside a handler or reconciler: it would wait for itself.
    pub fn wait_finished(&self) -> Result<(), Error> {
        self.refuse_wait("wait_finished()")?;
        loop {
            let seen = self.shared.changed.generation();
            if self.is_finished() {
                return Ok(());
            }
            self.shared.changed.wait_past(seen, None);
        }
    }

    /// Waits on this thread until the handler is synced, at most for `within`. False if the time was over before, or the handler
    /// was removed, or its informer stopped, whatever call of it still runs.
    ///
    /// # Errors
    ///
    /// [`Error::WouldDeadlock`] inside a handler or reconciler: it may wait for itself.
    pub fn wait_synced(&self, within: Duration) -> Result<bool, Error> {
        self.refuse_wait("wait_synced()")?;
        let deadline = deadline(Instant::now(), within);
        loop {
            let seen = self.shared.changed.generation();
            if self.has_synced() || self.is_closed() || Instant::now() >= deadline {
                return Ok(self.has_synced());
            }
            self.shared.changed.wait_past(seen, Some(deadline));
        }
    }

    /// Waits on a task until the handler is synced. False if it was removed, or its informer stopped, before, whatever call
    /// of it still runs.
    #[cfg(feature = "async")]
    pub async fn synced(&self) -> bool {
        loop {
            let seen = self.shared.changed.generation();
            if self.has_synced() || self.is_closed() {
                return self.has_synced();
            }
            self.shared.changed.past(seen).await;
        }
    }

    /// Nothing more is delivered, so what is not synced will not be.
    fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
    }

    /// A blocking wait inside a handler waits for itself; inside an asynchronous runtime it holds up its tasks.
    fn refuse_wait(&self, what: &'static str) -> Result<(), Error> {
        guard::refuse_inside(what)?;
        match self.in_async_runtime {
            Some(in_async_runtime) if in_async_runtime() => Err(Error::WouldDeadlock {
                what,
                place: "an asynchronous runtime, where synced() can be awaited".into(),
            }),
            Some(_) | None => Ok(()),
        }
    }

    pub(crate) fn tell_also(&self, listener: Arc<Signal>) {
        self.shared.listeners.lock().push(listener);
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "handler {:?}, {} pending", self.name(), self.pending())
    }
}
