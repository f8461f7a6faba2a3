//! [`Informer`]: a cache, its indexes and its handlers, each handler on a thread of its own.

use crate::factory::Inner;
use informer_core::listener::Notification;
use informer_core::store::Seen;
use informer_core::{Key, Obj, Version};
use informer_runtime::Error;
use informer_runtime::acknowledged::{ItemOptions, Items};
use informer_runtime::events::{Events, filtered};
use informer_runtime::guard;
use informer_runtime::handler::{HandlerOptions, Registration};
use informer_runtime::informer::{HandlerLoop, InformerHandle};
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
    pub fn handle(&self, function: impl FnMut(&Notification<T>) + Send + 'static) -> Registration {
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
        function: impl FnMut(&Notification<T>) + Send + 'static,
    ) -> Registration {
        let (registration, handler) = self.handle.handler(options, function);
        run_handler(&self.factory, registration.name(), handler);
        registration
    }

    /// [`handle_with`](Self::handle_with) for the objects for which `keep` holds, by the rules of
    /// [`Filter`](informer_core::filter::Filter): one that crosses the border is added or deleted. A panic of `keep`
    /// counts as one of the handler.
    ///
    /// # Panics
    ///
    /// If the system gives no thread.
    pub fn handle_filtered(
        &self,
        options: HandlerOptions,
        keep: impl FnMut(&Obj<T>) -> bool + Send + Sync + 'static,
        function: impl FnMut(&Notification<T>) + Send + 'static,
    ) -> Registration {
        self.handle_with(options, filtered(keep, function))
    }

    /// The notifications as an iterator, on the thread of whoever asks it for the next one. It ends when the informer
    /// stops; dropping it removes the handler.
    ///
    /// ```no_run
    /// # fn example(pods: informer_blocking::Informer<informer_blocking::DynamicObject>) {
    /// for event in pods.events() {
    ///     println!("{event}");
    /// }
    /// # }
    /// ```
    pub fn events(&self) -> Events<T> {
        self.events_with(HandlerOptions::default())
    }

    /// [`events`](Self::events), with a name, a resync period or another way to overflow.
    pub fn events_with(&self, options: HandlerOptions) -> Events<T> {
        Events::new(&self.handle, options)
    }

    /// [`events`](Self::events) of the objects for which `keep` holds, as [`handle_filtered`](Self::handle_filtered).
    pub fn events_filtered(
        &self,
        options: HandlerOptions,
        keep: impl FnMut(&Obj<T>) -> bool + Send + Sync + 'static,
    ) -> Events<T> {
        Events::filtered(&self.handle, options, keep)
    }

    /// Keys to deal with, each of which must be answered: done, to be retried, or given up. Clones are consumers of the
    /// same items; dropping the last one removes the handler.
    ///
    /// ```no_run
    /// # fn example(pods: informer_blocking::Informer<informer_blocking::DynamicObject>) {
    /// # fn copy(_: &informer_blocking::DynamicObject) -> std::io::Result<()> { Ok(()) }
    /// # fn erase(_: &informer_blocking::Key) -> std::io::Result<()> { Ok(()) }
    /// for item in pods.items(Default::default()) {
    ///     let outcome = match item.object() {
    ///         Some(pod) => copy(pod),
    ///         None => erase(item.key()),
    ///     };
    ///     match outcome {
    ///         Ok(()) => item.done(),
    ///         Err(error) => item.retry(error), // comes again after a backoff, with the newest state
    ///     }
    /// }
    /// # }
    /// ```
    pub fn items(&self, options: ItemOptions) -> Items<T> {
        Items::new(&self.handle, options)
    }

    /// Waits until the cache stands for `version` or a later one, at most for `within`, and gives its lister: what it reads
    /// is at least as new. `version` is what the server answered to a write, or what a list stood for.
    ///
    /// # Errors
    ///
    /// [`Error::Behind`] says what the cache has come to, and why waiting on is of no use, or that the time is over.
    pub fn at_least(&self, version: &Version, within: Duration) -> Result<Lister<T>, Error> {
        self.handle.wait_at_least(version, within)
    }

    /// Waits until the cache has the object of `key` at `version` or a later one, or stands for one, at most for `within`.
    /// The object may be gone by then: [`Seen`] says so.
    ///
    /// # Errors
    ///
    /// As [`at_least`](Self::at_least).
    pub fn wait_for(&self, key: &Key, version: &Version, within: Duration) -> Result<Seen<T>, Error> {
        self.handle.wait_for(key, version, within)
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
        self.handle.lives().wait_none(within)
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
    factory.spawn(&format!("informer-handler-{name}"), move || handler.run());
}
