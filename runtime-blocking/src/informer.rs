//! [`Informer`]: a cache, its indexes and its handlers, each handler on a thread of its own.

use crate::factory::{Inner, instant};
use informer_core::listener::{Delivery, Notification};
use informer_core::store::Seen;
use informer_core::{Key, Version};
use informer_runtime::Error;
use informer_runtime::guard;
use informer_runtime::handler::{Deliveries, HandlerOptions, Next, Registration};
use informer_runtime::informer::{HandlerLoop, InformerHandle, Step};
use informer_runtime::lister::Lister;
use informer_runtime::sync::Arc;
use std::fmt;
use std::ops::Deref;
use std::time::Duration;

/// An informer: handlers, indexes and the cache of one resource and scope. Cheap to clone.
///
/// All of [`InformerHandle`] can be called on it: `lister`, `index`, `by_index`, `has_synced`, `phase`, `last_failure`,
/// `degraded_since`, `refresh`.
pub struct Informer<T> {
    pub(crate) handle: InformerHandle<T>,
    pub(crate) factory: Arc<Inner>,
}

impl<T> Clone for Informer<T> {
    fn clone(&self) -> Self {
        Informer { handle: self.handle.clone(), factory: Arc::clone(&self.factory) }
    }
}

impl<T> Deref for Informer<T> {
    type Target = InformerHandle<T>;

    fn deref(&self) -> &InformerHandle<T> {
        &self.handle
    }
}

impl<T: Send + Sync + 'static> Informer<T> {
    pub(crate) fn new(handle: InformerHandle<T>, factory: Arc<Inner>) -> Self {
        Informer { handle, factory }
    }

    /// Adds a handler, before or after the start: a function that is told of each object that is there, then of each
    /// change, in order. It runs on a thread of its own and may block; a panic is counted and passed over.
    ///
    /// # Panics
    ///
    /// If the system gives no thread.
    pub fn handle(&self, function: impl FnMut(Notification<T>) + Send + 'static) -> Registration {
        self.handle_with(HandlerOptions::default(), function)
    }

    /// The same with a name, a resync period, or another way to overflow.
    ///
    /// # Panics
    ///
    /// If the system gives no thread.
    pub fn handle_with(
        &self,
        options: HandlerOptions,
        function: impl FnMut(Notification<T>) + Send + 'static,
    ) -> Registration {
        let (registration, handler) = self.handle.handler(options, function);
        run_handler(&self.factory, registration.name(), handler);
        registration
    }

    /// Waits until the cache stands for `version` or a later one, at most for `within`, and gives its lister: what it reads
    /// is at least as new. `version` is what the server answered to a write, or what a list stood for.
    ///
    /// # Errors
    ///
    /// [`Error::Behind`] says what the cache has come to, and why waiting on is of no use, or that the time is over.
    pub fn at_least(&self, version: &Version, within: Duration) -> Result<Lister<T>, Error> {
        self.handle.wait_at_least(version, instant(within))
    }

    /// Waits until the cache has the object of `key` at `version` or a later one, or stands for one, at most for `within`.
    /// The object may be gone by then: [`Seen`] says so.
    ///
    /// # Errors
    ///
    /// As [`at_least`](Self::at_least).
    pub fn wait_for(&self, key: &Key, version: &Version, within: Duration) -> Result<Seen<T>, Error> {
        self.handle.wait_for(key, version, instant(within))
    }

    /// Stops this informer alone, as [`request_stop`](InformerHandle::request_stop) does, and waits at most for `within`
    /// until its driver, its connection and the calls of its handlers have ended.
    ///
    /// # Errors
    ///
    /// [`Error::StillRunning`] if a handler did not return in time: it is safe to call this again.
    /// [`Error::WouldDeadlock`] inside a handler or reconciler: call `request_stop` there.
    pub fn stop(&self, within: Duration) -> Result<(), Error> {
        guard::refuse_inside("stop()")?;
        self.handle.request_stop();
        self.handle.lives().wait_none(instant(within))
    }

    /// The same as an iterator, on the thread of whoever asks it for the next one. It ends when the factory stops;
    /// dropping it removes the handler.
    pub fn events(&self) -> Events<T> {
        self.events_with(HandlerOptions::default())
    }

    /// The same with options.
    pub fn events_with(&self, options: HandlerOptions) -> Events<T> {
        let on_synced = options.on_synced.clone();
        let (registration, deliveries) = self.handle.channel(options);
        Events { registration, deliveries, on_synced }
    }
}

impl<T> fmt::Debug for Informer<T>
where
    InformerHandle<T>: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.fmt(f)
    }
}

/// Runs a handler's loop on a thread of its own until it is removed or the informer stops.
pub(crate) fn run_handler(factory: &Inner, name: &str, mut handler: Box<dyn HandlerLoop>) {
    factory.spawn(&format!("informer-handler-{name}"), move || {
        loop {
            match handler.step() {
                Step::Delivered => {}
                Step::Empty(seen) => _ = handler.signal().wait_past(seen, None),
                Step::Closed => break,
            }
        }
    });
}

/// The notifications of one handler, as a blocking iterator.
pub struct Events<T> {
    registration: Registration,
    deliveries: Deliveries<T>,
    on_synced: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl<T> Events<T> {
    /// The next notification, waiting for it at most for `within`. `None` if none came, or if the informer stopped.
    pub fn next_within(&mut self, within: Duration) -> Option<Notification<T>> {
        let deadline = instant(within);
        loop {
            match self.deliveries.try_next() {
                Next::Delivery(delivery) => {
                    if let Some(notification) = self.notification(delivery) {
                        return Some(notification);
                    }
                }
                Next::Empty(seen) => {
                    if !self.deliveries.signal().wait_past(seen, Some(deadline)) {
                        return None;
                    }
                }
                Next::Closed => return None,
            }
        }
    }

    fn notification(&mut self, delivery: Delivery<T>) -> Option<Notification<T>> {
        if let Delivery::Notification(notification) = delivery {
            return Some(notification);
        }
        if let Some(told) = self.on_synced.take() {
            told();
        }
        self.deliveries.mark_synced();
        None
    }

    /// How it stands.
    pub fn registration(&self) -> &Registration {
        &self.registration
    }
}

impl<T> Iterator for Events<T> {
    type Item = Notification<T>;

    fn next(&mut self) -> Option<Notification<T>> {
        loop {
            let delivery = self.deliveries.next_blocking()?;
            if let Some(notification) = self.notification(delivery) {
                return Some(notification);
            }
        }
    }
}

impl<T> Drop for Events<T> {
    fn drop(&mut self) {
        self.registration.remove();
    }
}

impl<T> fmt::Debug for Events<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "events of {:?}", self.registration)
    }
}
