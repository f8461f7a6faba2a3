//! [`Informer`]: a cache with handlers.

use crate::factory::{Inner, until, wait_none};
use crate::items::ItemStream;
use informer_core::listener::Notification;
use informer_core::store::Seen;
use informer_core::{Key, Obj, Version};
use informer_runtime::Error;
use informer_runtime::acknowledged::{ItemOptions, ItemSource};
use informer_runtime::catch_up::CatchUp;
use informer_runtime::events::{EventStream, filtered};
use informer_runtime::guard;
use informer_runtime::handler::{HandlerOptions, Lent, Registration};
use informer_runtime::informer::InformerHandle;
use informer_runtime::lister::Lister;
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
        F: FnMut(&Notification<T>) + Send + 'static,
    {
        self.handle_with(HandlerOptions::default(), function)
    }

    /// [`handle`](Self::handle), with a name, a resync period or another bound.
    pub fn handle_with<F>(&self, options: HandlerOptions, function: F) -> Registration
    where
        F: FnMut(&Notification<T>) + Send + 'static,
    {
        let (registration, handler) = self.handle.handler(options, function);
        self.runtime.spawn_handler(handler);
        registration
    }

    /// A handler that is asynchronous: a task. It must not block its thread. The next notification is delivered when
    /// the future of the last one is done. It gets a clone, which its future may keep: two counted pointers.
    pub fn handle_async<F, Fut>(&self, options: HandlerOptions, function: F) -> Registration
    where
        F: FnMut(Notification<T>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let on_synced = options.on_synced.clone();
        let (registration, mut deliveries) = self.channel(options);
        let (runtime, life) = (Arc::clone(&self.runtime), self.lives().enter());
        self.runtime.spawn(async move {
            // In this order: the handler is dropped before its life ends.
            let (mut function, _life) = (function, life);
            let mut delivered = 0;
            while let Some(delivery) = deliveries.next().await {
                let outcome = if let Lent::Notification(notification) = delivery {
                    match guard::call(|| function(notification.clone())) {
                        Ok(future) => guard::guarded(future).await,
                        Err(text) => Err(text),
                    }
                } else {
                    let told = on_synced.as_ref().map_or(Ok(()), |told| guard::call(|| told()));
                    deliveries.mark_synced();
                    told
                };
                if let Err(text) = outcome {
                    deliveries.mark_panic(&text, |panic| runtime.core.observe(panic));
                }
                delivered += 1;
                if delivered % BURST == 0 {
                    yield_now().await;
                }
            }
        });
        registration
    }

    /// [`handle_with`](Self::handle_with) for the objects for which `keep` holds, by the rules of
    /// [`Filter`](informer_core::filter::Filter): one that crosses the border is added or deleted. A panic of `keep`
    /// counts as one of the handler.
    pub fn handle_filtered(
        &self,
        options: HandlerOptions,
        keep: impl FnMut(&Obj<T>) -> bool + Send + Sync + 'static,
        function: impl FnMut(&Notification<T>) + Send + 'static,
    ) -> Registration {
        self.handle_with(options, filtered(keep, function))
    }

    /// The notifications for a loop of one's own, as a handler would get them. It is a `Stream`, too; dropping it
    /// removes the handler.
    ///
    /// ```no_run
    /// # async fn example(pods: informer_tokio::Informer<informer_tokio::DynamicObject>) {
    /// let mut events = pods.events();
    /// while let Some(event) = events.next().await {
    ///     println!("{event}");
    /// }
    /// # }
    /// ```
    pub fn events(&self) -> EventStream<T> {
        self.events_with(HandlerOptions::default())
    }

    /// [`events`](Self::events), with a name, a resync period or another bound.
    pub fn events_with(&self, options: HandlerOptions) -> EventStream<T> {
        EventStream::new(&self.handle, options)
    }

    /// [`events`](Self::events) of the objects for which `keep` holds, as [`handle_filtered`](Self::handle_filtered).
    pub fn events_filtered(
        &self,
        options: HandlerOptions,
        keep: impl FnMut(&Obj<T>) -> bool + Send + Sync + 'static,
    ) -> EventStream<T> {
        EventStream::filtered(&self.handle, options, keep)
    }

    /// Keys to deal with, each of which must be answered: done, to be retried, or given up. Clones are consumers of the
    /// same items; dropping the last one removes the handler.
    ///
    /// ```no_run
    /// # async fn example(pods: informer_tokio::Informer<informer_tokio::DynamicObject>) {
    /// # async fn copy(_: &informer_tokio::DynamicObject) -> std::io::Result<()> { Ok(()) }
    /// # async fn erase(_: &informer_tokio::Key) -> std::io::Result<()> { Ok(()) }
    /// let mut items = pods.items(Default::default());
    /// while let Some(item) = items.next().await {
    ///     let outcome = match item.object() {
    ///         Some(pod) => copy(pod).await,
    ///         None => erase(item.key()).await,
    ///     };
    ///     match outcome {
    ///         Ok(()) => item.done(),
    ///         Err(error) => item.retry(error), // comes again after a backoff, with the newest state
    ///     }
    /// }
    /// # }
    /// ```
    pub fn items(&self, options: ItemOptions) -> ItemStream<T> {
        ItemStream::new(ItemSource::new(&self.handle, options))
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
}

impl<T> fmt::Debug for Informer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.fmt(f)
    }
}

async fn reach<T, R>(mut catch_up: CatchUp<T, R>, within: Duration) -> Result<R, Error> {
    match timeout_at(until(within), catch_up.found()).await {
        Ok(found) => found,
        Err(_) => catch_up.late(),
    }
}
