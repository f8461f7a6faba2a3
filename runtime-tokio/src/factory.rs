//! [`Factory`]: the informers of one client, and every task that works for them.

use crate::client::Client;
use crate::driver::drive;
use crate::informer::Informer;
use informer_core::{Object, Resource};
use informer_runtime::controller::ControllerCore;
use informer_runtime::factory::{FactoryCore, FactoryOptions, Life, Lives};
use informer_runtime::feeder::{FedSpec, Feeder};
use informer_runtime::informer::{HandlerLoop, InformerSpec, Step};
use informer_runtime::observe::AsyncRuntime;
use informer_runtime::roster::Leased;
use informer_runtime::sync::{Arc, Mutex, Weak, deadline};
use informer_runtime::{Error, Lagging, guard};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, spawn_blocking};
use tokio::time::{Instant, sleep, timeout_at};

/// Steps of a synchronous handler before its thread is given back, so that many handlers share few threads: a step is one
/// delivery, or the few that were claimed together.
const BURST: usize = 256;

/// Informers that share a client: one per type and scope, however often it is asked for.
///
/// Cheap to clone. Dropping the last clone [asks everything to stop](Factory::request_stop); informers, listers and
/// controllers do not keep a factory going. It may be dropped anywhere, also outside a runtime.
///
/// ```no_run
/// use informer_tokio::{Client, DynamicObject, Factory, Resource};
/// use std::time::Duration;
///
/// # async fn example() -> Result<(), informer_tokio::Error> {
/// let factory = Factory::new(Client::connect_default()?);
/// let nodes = factory.informer_of::<DynamicObject>(Resource::cluster("", "v1", "nodes", "Node"));
/// factory.start();
/// factory.synced(Duration::from_secs(30)).await?;
/// println!("{} nodes", nodes.lister().len());
/// factory.stop(Duration::from_secs(5)).await
/// # }
/// ```
#[derive(Clone)]
pub struct Factory(Arc<Owner>);

/// Its drop is the drop of the last [`Factory`]: tasks hold `Inner` alone.
struct Owner(Arc<Inner>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.request_stop();
    }
}

/// What tasks and informers hold of a factory.
pub(crate) struct Inner {
    pub(crate) core: FactoryCore,
    pub(crate) client: Client,
    tasks: Mutex<Tasks>,
    /// Those that run; their workers keep them.
    controllers: Mutex<Vec<Weak<ControllerCore>>>,
}

/// Whether tasks can run.
enum Tasks {
    /// Not before the start says on which runtime.
    Waiting(Vec<Work>),
    Running(Handle),
    Stopped,
}

/// What a task does. On the heap by itself: an async block around it would hold it twice, before and while it is awaited.
pub(crate) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Work that is counted. In this order: what it holds is dropped before its lives end.
struct Task {
    work: Work,
    _lives: (Option<Life>, Life),
}

impl Future for Task {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.work.as_mut().poll(cx)
    }
}

impl Inner {
    /// A task of the factory. Before the start it waits for the runtime, after a stop it is dropped; there is no handle then.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> Option<AbortHandle> {
        self.spawn_for(None, Box::pin(work))
    }

    /// The only place where tasks of a factory are made (those of connections are the client's): each one that runs is
    /// counted until it is gone, for the factory and for the informer whose `life` it is. One that waits for the start is not
    /// counted yet.
    pub(crate) fn spawn_for(&self, life: Option<Life>, work: Work) -> Option<AbortHandle> {
        let refused = {
            let mut tasks = self.tasks.lock();
            match &mut *tasks {
                Tasks::Running(handle) => {
                    let task = Task { work, _lives: (life, self.core.lives().enter()) };
                    return Some(handle.spawn(task).abort_handle());
                }
                Tasks::Waiting(waiting) => {
                    waiting.push(work);
                    return None;
                }
                Tasks::Stopped => (work, life),
            }
        };
        drop(refused); // it may hold user code, whose drop must not find the lock taken
        None
    }

    /// Runs a synchronous handler on the threads for blocking work: it may sleep without holding up any task.
    pub(crate) fn spawn_handler(&self, mut handler: Box<dyn HandlerLoop>) {
        self.spawn(async move {
            loop {
                // The pool refuses when the runtime shuts down: then this task goes, too.
                let Ok(Some((back, idle))) = spawn_blocking(move || burst(handler)).await else { return };
                handler = back;
                if let Some(seen) = idle {
                    handler.signal().past(seen).await;
                }
            }
        });
    }

    pub(crate) fn add_controller(&self, controller: &Arc<ControllerCore>) {
        let mut controllers = self.controllers.lock();
        controllers.retain(|controller| controller.strong_count() > 0);
        controllers.push(Arc::downgrade(controller));
        drop(controllers);
        if self.core.is_stopping() {
            controller.stop();
        }
    }

    fn request_stop(&self) {
        self.core.request_stop();
        let controllers = std::mem::take(&mut *self.controllers.lock());
        for controller in controllers.iter().filter_map(Weak::upgrade) {
            controller.stop();
        }
        let tasks = std::mem::replace(&mut *self.tasks.lock(), Tasks::Stopped);
        drop(tasks); // what never ran
        // Nothing stays open; another factory of this client opens its own again.
        self.client.connector().retire();
    }
}

/// Delivers until there is nothing left or the burst is over. `None` if the handler is closed; else the handler, and
/// the generation to wait past if it is idle.
fn burst(mut handler: Box<dyn HandlerLoop>) -> Option<(Box<dyn HandlerLoop>, Option<u64>)> {
    for _ in 0..BURST {
        match handler.step() {
            Step::Delivered => {}
            Step::Empty(seen) => return Some((handler, Some(seen))),
            Step::Closed => return None,
        }
    }
    Some((handler, None))
}

/// Blocking waits are refused wherever a runtime could be held up by them, and time is what tokio's timers go by.
fn in_tokio(mut options: FactoryOptions) -> FactoryOptions {
    options.async_runtime = Some(AsyncRuntime { is_here: || Handle::try_current().is_ok(), now });
    options
}

impl Factory {
    /// A factory that has started nothing.
    pub fn new(client: Client) -> Self {
        Factory::with_options(client, FactoryOptions::default())
    }

    /// With an observer, for example.
    pub fn with_options(client: Client, options: FactoryOptions) -> Self {
        let inner = Inner {
            core: FactoryCore::new(client.config().clone(), in_tokio(options)),
            client,
            tasks: Mutex::new(Tasks::Waiting(Vec::new())),
            controllers: Mutex::new(Vec::new()),
        };
        Factory(Arc::new(Owner(Arc::new(inner))))
    }

    /// A factory without a server: for a program, or a test, whose informers are all [fed](Self::fed).
    ///
    /// ```
    /// use informer_tokio::{DynamicObject, Factory, FedSpec, Resource};
    ///
    /// let factory = Factory::offline();
    /// let pods: Resource = "pods".parse()?;
    /// let (informer, feeder) = factory.fed(FedSpec::<DynamicObject>::of(pods))?;
    /// assert!(informer.lister().is_empty());
    ///
    /// let services = factory.lease::<DynamicObject>(informer_tokio::InformerSpec::of("services".parse()?));
    /// assert!(services.unwrap_err().to_string().starts_with("services: the factory has no server to read from"));
    /// # drop(feeder);
    /// # Ok::<(), informer_tokio::Error>(())
    /// ```
    ///
    /// Asked for an informer that reads from a server, it says [`Error::Offline`]; so does, in words, each call of its
    /// [client](Self::client).
    pub fn offline() -> Self {
        Factory::offline_with(FactoryOptions::default())
    }

    /// The same with an observer, for example.
    pub fn offline_with(options: FactoryOptions) -> Self {
        Factory::with_options(Client::offline(), options)
    }

    /// The client that it was made with.
    pub fn client(&self) -> &Client {
        &self.inner().client
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.0.0
    }

    /// The informer of all objects of a type.
    ///
    /// # Panics
    ///
    /// As [`informer_with`](Self::informer_with).
    pub fn informer<T: Object>(&self) -> Informer<T> {
        self.informer_with(InformerSpec::new())
    }

    /// The informer of all objects of a resource, for a type that stands for many.
    ///
    /// # Panics
    ///
    /// As [`informer_with`](Self::informer_with).
    pub fn informer_of<T: Object>(&self, resource: Resource) -> Informer<T> {
        self.informer_with(InformerSpec::of(resource))
    }

    /// The informer of a scope, such as one namespace: the one that is there, or a new one, which the next
    /// [`start`](Self::start) starts.
    ///
    /// # Panics
    ///
    /// If [`try_informer`](Self::try_informer) fails: these are mistakes of the program.
    pub fn informer_with<T: Send + Sync + 'static>(&self, spec: InformerSpec<T>) -> Informer<T> {
        self.try_informer(spec).unwrap_or_else(|error| panic!("{error}"))
    }

    /// As [`informer_with`](Self::informer_with), for those who cannot know what others asked for.
    ///
    /// # Errors
    ///
    /// If there is an informer of this scope with other options; if the factory was stopped; if it
    /// [has no server](Self::offline).
    pub fn try_informer<T: Send + Sync + 'static>(&self, spec: InformerSpec<T>) -> Result<Informer<T>, Error> {
        Ok(Informer::new(self.inner().core.informer(spec)?, Arc::clone(self.inner())))
    }

    /// The informer that `spec` describes, for as long as this or another lease on it is held: with the last one it stops,
    /// unless it was asked for without a lease, too.
    ///
    /// # Errors
    ///
    /// As [`try_informer`](Self::try_informer).
    pub fn lease<T: Send + Sync + 'static>(&self, spec: InformerSpec<T>) -> Result<Leased<Informer<T>>, Error> {
        let (handle, lease) = self.inner().core.lease(spec)?;
        Ok(Leased::new(Informer::new(handle, Arc::clone(self.inner())), lease))
    }

    /// An informer that is given its objects by hand, and what gives them: a cache of something that is no Kubernetes API, or
    /// the test of a controller without a server. See [`informer_runtime::feeder`].
    ///
    /// A controller, tested without a server:
    ///
    /// ```
    /// use informer_tokio::{Change, Controller, DynamicObject, Factory, FedSpec, Obj, Object, Outcome};
    /// use informer_tokio::{Resource, Version, generation_changed};
    /// use std::time::Duration;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let factory = Factory::offline();
    /// let resource = Resource::namespaced("apps", "v1", "deployments", "Deployment");
    /// let deployment = |version: u32, replicas: u32| {
    ///     let json = format!(
    ///         r#"{{"metadata": {{"namespace": "web", "name": "shop", "uid": "u", "resourceVersion": "{version}",
    ///             "generation": {version}}}, "spec": {{"replicas": {replicas}}}}}"#
    ///     );
    ///     Obj::of(DynamicObject::decode(json.as_bytes(), &resource).unwrap()).unwrap()
    /// };
    ///
    /// // The controller is as it would be with `factory.informer_of(resource)`.
    /// let (deployments, feeder) = factory.fed(FedSpec::<DynamicObject>::of(resource.clone()))?;
    /// let (scaled, mut reconciled) = tokio::sync::mpsc::unbounded_channel();
    /// let running = Controller::new(deployments).when(generation_changed()).start(move |key, cx| {
    ///     let replicas = cx.get(&key).map(|deployment| deployment.json().contains("\"replicas\": 3"));
    ///     let sent = scaled.send((key.to_string(), replicas));
    ///     async move { Ok(sent.map(|()| Outcome::done())?) }
    /// });
    /// factory.start();
    ///
    /// feeder.list([deployment(1, 2)], Version::new("1"))?;
    /// assert_eq!(reconciled.recv().await, Some(("web/shop".to_string(), Some(false))));
    /// feeder.apply(Change::Applied(deployment(2, 3)))?;
    /// assert_eq!(reconciled.recv().await, Some(("web/shop".to_string(), Some(true))));
    /// feeder.apply(Change::Deleted(deployment(3, 3)))?;
    /// assert_eq!(reconciled.recv().await, Some(("web/shop".to_string(), None)));
    /// factory.stop(Duration::from_secs(5)).await?;
    /// # drop(running);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If there is an informer of this type and resource, for one has one source; if the factory was stopped.
    pub fn fed<T: Send + Sync + 'static>(&self, spec: FedSpec<T>) -> Result<(Informer<T>, Feeder<T>), Error> {
        let (handle, feeder) = self.inner().core.fed(spec)?;
        Ok((Informer::new(handle, Arc::clone(self.inner())), feeder))
    }

    /// Starts the informers that were asked for since the last start, and with the first one the handlers and
    /// controllers that wait for it. All tasks of the factory run on the runtime of the first start.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, and in one without a time driver: it is built with `enable_time`, or `enable_all`.
    /// Nothing has started then. Without an IO driver (`enable_io`) informers start, and each request of theirs fails.
    #[track_caller]
    pub fn start(&self) {
        let Ok(handle) = Handle::try_current() else {
            panic!(
                "Factory::start was called outside a tokio runtime: call it from async code, or under Runtime::enter"
            )
        };
        // Drivers wait for deadlines. Only a timer tells whether there can be one: tokio panics here, and names the way out.
        drop(sleep(Duration::ZERO));
        let waiting = {
            let mut tasks = self.inner().tasks.lock();
            match &mut *tasks {
                Tasks::Waiting(waiting) => {
                    let waiting = std::mem::take(waiting);
                    *tasks = Tasks::Running(handle);
                    waiting
                }
                Tasks::Running(_) | Tasks::Stopped => Vec::new(),
            }
        };
        for work in waiting {
            self.inner().spawn_for(None, work);
        }
        for informer in self.inner().core.take_unstarted() {
            self.inner().spawn(drive(Arc::clone(self.inner()), informer));
        }
    }

    /// Waits until every informer has its first complete list. Handlers may still be busy with it.
    ///
    /// # Errors
    ///
    /// [`Error::NotSynced`] after this time, with what each informer waits for; at once if one was never started, or if its
    /// task died of a panic.
    /// [`Error::Stopped`] if the factory is. [`Error::WouldDeadlock`] inside a handler or reconciler.
    pub async fn synced(&self, within: Duration) -> Result<(), Error> {
        guard::refuse_inside("synced()")?;
        let core = &self.inner().core;
        let until = until(within);
        loop {
            let Some(seen) = core.check_synced()? else { return Ok(()) };
            if timeout_at(until, core.changed().past(seen)).await.is_err() {
                return core.check_synced()?.map_or(Ok(()), |_| Err(Error::NotSynced(core.lagging())));
            }
        }
    }

    /// The informers that have no complete list yet or whose driver died, and why.
    pub fn lagging(&self) -> Vec<Lagging> {
        self.inner().core.lagging()
    }

    /// Asks everything to stop; does not wait. No new call of a handler or reconciler starts; those that run complete.
    pub fn request_stop(&self) {
        self.inner().request_stop();
    }

    /// Stops everything and waits until every task and call of user code has ended. May be called again.
    ///
    /// # Errors
    ///
    /// [`Error::StillRunning`] if user code does not return in this time. [`Error::WouldDeadlock`] inside a handler or
    /// reconciler; nothing is stopped then.
    pub async fn stop(&self, within: Duration) -> Result<(), Error> {
        guard::refuse_inside("stop()")?;
        self.request_stop();
        let until = until(within);
        wait_none(self.inner().core.lives(), within).await?;
        // The tasks of HTTP/2 connections belong to the client, and end when their last stream is gone.
        timeout_at(until, self.inner().client.connector().closed()).await.map_err(|_| Error::StillRunning(1))
    }

    /// True once a stop was asked for.
    pub fn is_stopping(&self) -> bool {
        self.inner().core.is_stopping()
    }

    /// Tasks of this factory that have not ended.
    pub fn tasks(&self) -> usize {
        self.inner().core.lives().count()
    }

    /// While held, the drivers do nothing: what comes piles up in order, timers wait. For test runs.
    #[doc(hidden)]
    pub fn hold(&self, held: bool) {
        self.inner().core.hold(held);
    }

    /// What still runs, for tests that look after the last factory is gone.
    #[doc(hidden)]
    pub fn lives(&self) -> Arc<Lives> {
        Arc::clone(self.inner().core.lives())
    }
}

impl fmt::Debug for Factory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "factory of a {:?}", self.client())
    }
}

/// As tokio has it, whose clock a test may stop.
pub(crate) fn now() -> std::time::Instant {
    Instant::now().into_std()
}

/// The end of a wait that begins now, for tokio's timers.
pub(crate) fn until(within: Duration) -> Instant {
    deadline(now(), within).into()
}

/// Waits until nobody lives.
pub(crate) async fn wait_none(lives: &Lives, within: Duration) -> Result<(), Error> {
    let until = until(within);
    loop {
        let seen = lives.signal().generation();
        match lives.count() {
            0 => return Ok(()),
            left if Instant::now() >= until => return Err(Error::StillRunning(left)),
            // Whether one ended or the time is over: the next look tells.
            _ => drop(timeout_at(until, lives.signal().past(seen)).await),
        }
    }
}
