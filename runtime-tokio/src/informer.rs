//! [`Informer`]: a cache with handlers; [`Events`]: its notifications for a loop of one's own.

use crate::factory::{Inner, deadline, wait_none};
use informer_core::listener::{Delivery, Notification};
use informer_core::store::Seen;
use informer_core::{Key, Version};
use informer_runtime::Error;
use informer_runtime::catch_up::CatchUp;
use informer_runtime::guard;
use informer_runtime::handler::{Deliveries, HandlerOptions, Registration};
use informer_runtime::informer::InformerHandle;
use informer_runtime::lister::Lister;
use informer_runtime::observe::Observed;
use informer_runtime::sync::Arc;
use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::time::Duration;
use tokio::task::yield_now;
use tokio::time::timeout_at;

/// Deliveries to an asynchronous handler before other tasks get their turn, even if it never waits.
const BURST: usize = 64;

/// One informer of a [`Factory`](crate::Factory). Cheap to clone; it does not keep the factory going.
///
/// What does not need a task is [`InformerHandle`]'s, to which it derefs: listers, indexes, status.
///
/// ```no_run
/// use informer_tokio::{DynamicObject, Factory, Resource};
///
/// # fn example(factory: Factory) {
/// let pods = factory.informer_of::<DynamicObject>(Resource::namespaced("", "v1", "pods", "Pod"));
/// let by_kind = pods.index("kind", |pod| vec![pod.kind().to_string()]);
/// pods.handle(|event| println!("{event}")); // may sleep: it has a thread of its own while it runs
/// pods.handle_async(Default::default(), |event| async move { println!("{event}") });
/// assert!(by_kind.get("Pod").is_empty() && !pods.has_synced());
/// # }
/// ```
pub struct Informer<T> {
    handle: InformerHandle<T>,
    runtime: Arc<Inner>,
}

impl<T> Clone for Informer<T> {
    fn clone(&self) -> Self {
        Informer { handle: self.handle.clone(), runtime: Arc::clone(&self.runtime) }
    }
}

impl<T> Deref for Informer<T> {
    type Target = InformerHandle<T>;

    fn deref(&self) -> &InformerHandle<T> {
        &self.handle
    }
}

impl<T: Send + Sync + 'static> Informer<T> {
    pub(crate) fn new(handle: InformerHandle<T>, runtime: Arc<Inner>) -> Self {
        Informer { handle, runtime }
    }

    pub(crate) fn runtime(&self) -> &Arc<Inner> {
        &self.runtime
    }

    /// Adds a handler, before or after the start: it is told of every object that is there, then of every change, one
    /// at a time and in order. It runs on tokio's threads for blocking work and may sleep; that delays nobody else
    /// (as long as fewer handlers sleep than that pool has threads, 512 by default). A panic of it is counted, and the
    /// notification passed over.
    pub fn handle<F>(&self, function: F) -> Registration
    where
        F: FnMut(Notification<T>) + Send + 'static,
    {
        self.handle_with(HandlerOptions::default(), function)
    }

    /// [`handle`](Self::handle), with a name, a resync period or another bound.
    pub fn handle_with<F>(&self, options: HandlerOptions, function: F) -> Registration
    where
        F: FnMut(Notification<T>) + Send + 'static,
    {
        let (registration, handler) = self.handle.handler(options, function);
        self.runtime.spawn_handler(handler);
        registration
    }

    /// A handler that is asynchronous: a task. It must not block its thread. The next notification is delivered when
    /// the future of the last one is done.
    pub fn handle_async<F, Fut>(&self, options: HandlerOptions, function: F) -> Registration
    where
        F: FnMut(Notification<T>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let on_synced = options.on_synced.clone();
        let (registration, deliveries) = self.channel(options);
        let name = registration.name().to_string();
        let (runtime, life) = (Arc::clone(&self.runtime), self.lives().enter());
        self.runtime.spawn(async move {
            // In this order: the handler is dropped before its life ends.
            let (mut function, _life) = (function, life);
            let mut delivered = 0;
            while let Some(delivery) = deliveries.next().await {
                let outcome = if let Delivery::Notification(notification) = delivery {
                    match guard::call(|| function(notification)) {
                        Ok(future) => guard::guarded(future).await,
                        Err(text) => Err(text),
                    }
                } else {
                    let told = on_synced.as_ref().map_or(Ok(()), |told| guard::call(|| told()));
                    deliveries.mark_synced();
                    told
                };
                if let Err(text) = outcome {
                    deliveries.mark_panic();
                    runtime.core.observe(&Observed::HandlerPanic { handler: &name, text: &text });
                }
                delivered += 1;
                if delivered % BURST == 0 {
                    yield_now().await;
                }
            }
        });
        registration
    }

    /// Waits until the cache stands for `version` or a later one, at most for `within`, and gives its lister: what it reads
    /// is at least as new. `version` is what the server answered to a write, or what a list stood for.
    ///
    /// # Errors
    ///
    /// [`Error::Behind`] says what the cache has come to, and why waiting on is of no use, or that the time is over.
    pub async fn at_least(&self, version: &Version, within: Duration) -> Result<Lister<T>, Error> {
        reach(self.handle.catch_up_to(version), within).await?;
        Ok(self.lister())
    }

    /// Waits until the cache has the object of `key` at `version` or a later one, or stands for one, at most for `within`.
    /// The object may be gone by then: [`Seen`] says so.
    ///
    /// # Errors
    ///
    /// As [`at_least`](Self::at_least).
    pub async fn wait_for(&self, key: &Key, version: &Version, within: Duration) -> Result<Seen<T>, Error> {
        reach(self.handle.catch_up_with(key, version), within).await
    }

    /// Stops this informer alone, as [`request_stop`](InformerHandle::request_stop) does, and waits at most for `within`
    /// until its driver, its request and the calls of its handlers have ended.
    ///
    /// # Errors
    ///
    /// [`Error::StillRunning`] if a handler did not return in time: it is safe to call this again.
    /// [`Error::WouldDeadlock`] inside a handler or reconciler: call `request_stop` there.
    pub async fn stop(&self, within: Duration) -> Result<(), Error> {
        guard::refuse_inside("stop()")?;
        self.handle.request_stop();
        wait_none(self.handle.lives(), within).await
    }

    /// The notifications for a loop of one's own, as a handler would get them.
    ///
    /// ```no_run
    /// # async fn example(pods: informer_tokio::Informer<informer_tokio::DynamicObject>) {
    /// let mut events = pods.events();
    /// while let Some(event) = events.next().await {
    ///     println!("{event}");
    /// }
    /// # }
    /// ```
    pub fn events(&self) -> Events<T> {
        self.events_with(HandlerOptions::default())
    }

    /// [`events`](Self::events), with a name, a resync period or another bound.
    pub fn events_with(&self, options: HandlerOptions) -> Events<T> {
        let on_synced = options.on_synced.clone();
        let (registration, deliveries) = self.channel(options);
        Events { deliveries, on_synced, registration }
    }
}

impl<T> fmt::Debug for Informer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.fmt(f)
    }
}

async fn reach<T, R>(mut catch_up: CatchUp<T, R>, within: Duration) -> Result<R, Error> {
    match timeout_at(deadline(within), catch_up.found()).await {
        Ok(found) => found,
        Err(_) => catch_up.late(),
    }
}

/// The notifications of one informer, one by one. Dropping it removes it, as if it were a handler.
#[must_use = "notifications pile up until they are taken, and dropping this removes it"]
pub struct Events<T> {
    deliveries: Deliveries<T>,
    on_synced: Option<Arc<dyn Fn() + Send + Sync>>,
    registration: Registration,
}

impl<T> Events<T> {
    /// The next notification; `None` once the factory has stopped. Nothing is lost if the future is dropped.
    ///
    /// The [registration](Self::registration) counts as synced when this is called for what follows the initial state.
    pub async fn next(&mut self) -> Option<Notification<T>> {
        loop {
            if let Delivery::Notification(notification) = self.deliveries.next().await? {
                return Some(notification);
            }
            if let Some(told) = self.on_synced.take() {
                told();
            }
            self.deliveries.mark_synced();
        }
    }

    /// Its counters, and whether the initial state was delivered.
    pub fn registration(&self) -> &Registration {
        &self.registration
    }
}

impl<T> Drop for Events<T> {
    fn drop(&mut self) {
        self.registration.remove();
    }
}

impl<T> fmt::Debug for Events<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.registration.fmt(f)
    }
}
