//! Handlers: a ring behind its lock, and what a user holds of it.

use crate::error::Error;
use crate::guard;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, Signal};
use informer_core::informer::HandlerId;
use informer_core::listener::{Delivery, Notification, Overflow, Ring, RingStats};
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
    /// What happens when the handler does not keep up.
    pub overflow: Overflow,
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
}

/// One handler's ring, filled by the driver and emptied by the handler's thread or task.
pub struct Channel<T> {
    ring: Mutex<Ring<T>>,
    signal: Signal,
    shared: Arc<Shared>,
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
    pub(crate) fn new(id: HandlerId, options: &HandlerOptions, listener: Arc<Signal>) -> Self {
        Channel {
            ring: Mutex::new(Ring::new(options.overflow)),
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
        self.fill(|ring| ring.replay(snapshot));
    }

    /// The initial state begins with what was preloaded, and is not complete.
    pub(crate) fn begin(&self, snapshot: Snapshot<T>) {
        self.fill(|ring| ring.begin(snapshot));
    }

    /// The initial state is complete.
    pub(crate) fn complete(&self) {
        self.fill(Ring::complete);
    }

    pub(crate) fn resync(&self, snapshot: Snapshot<T>) {
        self.fill(|ring| ring.resync(snapshot));
    }

    /// Adds changes. False if the handler fell behind under [`Overflow::Disconnect`].
    pub(crate) fn push(&self, notifications: &[Notification<T>]) -> bool {
        let connected = self.fill(|ring| {
            for notification in notifications {
                ring.push(notification.clone());
            }
            !ring.is_disconnected()
        });
        connected.unwrap_or(true)
    }

    /// Nothing is put into the ring of a closed handler: nobody would take it out.
    fn fill<R>(&self, fill: impl FnOnce(&mut Ring<T>) -> R) -> Option<R> {
        let mut ring = self.ring.lock();
        if self.shared.closed.load(Ordering::Acquire) {
            return None;
        }
        let filled = fill(&mut ring);
        drop(ring);
        self.signal.notify();
        Some(filled)
    }

    /// The handler fell behind: it is removed.
    pub(crate) fn disconnect(&self) {
        self.shared.removed.store(true, Ordering::Release);
        self.close();
    }

    /// Nothing more is delivered; what is buffered is dropped. A running call completes.
    pub(crate) fn close(&self) {
        let mut ring = self.ring.lock();
        self.shared.closed.store(true, Ordering::Release);
        let left = ring.take();
        drop(ring);
        self.signal.notify();
        // Objects, perhaps a snapshot of the whole store: dropped under no lock, and not kept by a registration.
        drop(left);
    }
}

/// The consuming end of a handler, for an adapter's loop.
pub struct Deliveries<T>(Arc<Channel<T>>);

/// What [`Deliveries::try_next`] found.
pub enum Next<T> {
    /// Something to deliver.
    Delivery(Delivery<T>),
    /// Nothing yet: wait past this generation.
    Empty(u64),
    /// The handler was removed or the informer stopped.
    Closed,
}

impl<T> Deliveries<T> {
    pub(crate) fn new(channel: Arc<Channel<T>>) -> Self {
        Deliveries(channel)
    }

    /// The next thing, if there is one.
    pub fn try_next(&self) -> Next<T> {
        let seen = self.0.signal.generation();
        let mut ring = self.0.ring.lock();
        // Under the lock, so that nothing is taken once `close` has returned.
        if self.0.shared.closed.load(Ordering::Acquire) {
            return Next::Closed;
        }
        let delivery = ring.pop();
        drop(ring);
        delivery.map_or(Next::Empty(seen), Next::Delivery)
    }

    /// What to wait on after [`Next::Empty`].
    pub fn signal(&self) -> &Signal {
        &self.0.signal
    }

    /// The next thing, waiting for it; `None` when the handler is closed.
    pub fn next_blocking(&self) -> Option<Delivery<T>> {
        loop {
            match self.try_next() {
                Next::Delivery(delivery) => return Some(delivery),
                Next::Empty(seen) => {
                    self.0.signal.wait_past(seen, None);
                }
                Next::Closed => return None,
            }
        }
    }

    /// The same for a task.
    #[cfg(feature = "async")]
    pub async fn next(&self) -> Option<Delivery<T>> {
        loop {
            match self.try_next() {
                Next::Delivery(delivery) => return Some(delivery),
                Next::Empty(seen) => self.0.signal.past(seen).await,
                Next::Closed => return None,
            }
        }
    }

    /// Everything of the initial state was delivered, and its calls returned.
    pub fn mark_synced(&self) {
        self.0.shared.synced.store(true, Ordering::Release);
        self.0.shared.tell();
    }

    /// Counts a panic of the handler; the item is passed over.
    pub fn mark_panic(&self) {
        self.0.shared.panics.fetch_add(1, Ordering::Relaxed);
    }
}

impl<T> Drop for Deliveries<T> {
    /// The loop has ended: nothing runs any more.
    fn drop(&mut self) {
        self.0.shared.finished.store(true, Ordering::Release);
        self.0.shared.tell();
    }
}

impl Shared {
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
            let ring = channel.ring.lock();
            (ring.len(), ring.stats())
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

    /// Notifications that wait for the handler.
    pub fn pending(&self) -> usize {
        (self.count)().0
    }

    /// Counters of the handler's ring.
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

    /// True once the handler was removed, or its informer stopped, and no call runs any more.
    pub fn is_finished(&self) -> bool {
        self.shared.finished.load(Ordering::Acquire)
    }

    /// True if the handler was removed, by [`remove`](Self::remove) or because it fell behind, and not by a stop.
    pub fn was_removed(&self) -> bool {
        self.shared.removed.load(Ordering::Acquire)
    }

    /// Waits on this thread until no call runs any more; for ever if the handler is never removed and its informer
    /// never stopped.
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

    /// Waits on this thread until the handler is synced. False if the deadline passed or the handler ended before.
    ///
    /// # Errors
    ///
    /// [`Error::WouldDeadlock`] inside a handler or reconciler: it may wait for itself.
    pub fn wait_synced(&self, deadline: Instant) -> Result<bool, Error> {
        self.refuse_wait("wait_synced()")?;
        loop {
            let seen = self.shared.changed.generation();
            if self.has_synced() || self.is_finished() || Instant::now() >= deadline {
                return Ok(self.has_synced());
            }
            self.shared.changed.wait_past(seen, Some(deadline));
        }
    }

    /// Waits on a task until the handler is synced. False if the handler ended before.
    #[cfg(feature = "async")]
    pub async fn synced(&self) -> bool {
        loop {
            let seen = self.shared.changed.generation();
            if self.has_synced() || self.is_finished() {
                return self.has_synced();
            }
            self.shared.changed.past(seen).await;
        }
    }

    /// A blocking wait inside a handler waits for itself; inside an asynchronous runtime it holds up its tasks.
    fn refuse_wait(&self, what: &'static str) -> Result<(), Error> {
        guard::refuse_inside(what)?;
        match self.in_async_runtime {
            Some(in_async_runtime) if in_async_runtime() => {
                Err(Error::WouldDeadlock { what, place: "an asynchronous runtime, where synced() can be awaited" })
            }
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
