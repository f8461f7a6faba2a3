//! [`Factory`]: the informers of one cluster; start, sync, stop.
//!
//! ```text
//! Factory (clones) ──► Owner: the last one asks for a stop
//!        └──► Inner ◄── Informer, Controller, every thread
//! ```

use crate::client::Client;
use crate::connection::Inbox;
use crate::driver::Driver;
use crate::informer::Informer;
use informer_core::{Object, Resource};
use informer_runtime::controller::ControllerCore;
use informer_runtime::driver::Drive;
use informer_runtime::factory::{FactoryCore, FactoryOptions, Lives};
use informer_runtime::feeder::{FedSpec, Feeder};
use informer_runtime::guard;
use informer_runtime::informer::InformerSpec;
use informer_runtime::roster::Leased;
use informer_runtime::sync::{Arc, Mutex, Weak};
use informer_runtime::{Error, Lagging};
use std::fmt;
use std::time::Duration;

/// The informers of one cluster, each resource and scope once. Cheap to clone; when the last clone is dropped,
/// everything stops by itself. Informers, listers and registrations do not keep it running.
#[derive(Clone)]
pub struct Factory {
    pub(crate) inner: Arc<Inner>,
    _owner: Arc<Owner>,
}

/// What threads and handles share.
pub(crate) struct Inner {
    pub(crate) core: FactoryCore,
    pub(crate) client: Client,
    pub(crate) inbox: Inbox,
    started: Mutex<Started>,
    controllers: Mutex<Vec<Weak<ControllerCore>>>,
}

#[derive(Default)]
struct Started {
    drives: Vec<Box<dyn Drive>>,
    driver: Option<DriverIs>,
}

#[derive(PartialEq, Eq)]
enum DriverIs {
    Running,
    Ended,
}

struct Owner(Arc<Inner>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.request_stop();
    }
}

/// However the driver ends, also by a panic of ours: the factory is stopped then, and nobody waits for it.
struct Ended(Arc<Inner>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.request_stop();
        let mut started = self.0.started.lock();
        started.driver = Some(DriverIs::Ended);
        let left = std::mem::take(&mut started.drives);
        drop(started);
        drop(left);
    }
}

impl Inner {
    /// Informers for the driver to begin with.
    pub(crate) fn take_started(&self) -> Vec<Box<dyn Drive>> {
        std::mem::take(&mut self.started.lock().drives)
    }

    fn start(self: &Arc<Self>) {
        let drives = self.core.take_unstarted();
        let mut started = self.started.lock();
        match started.driver {
            // Dropping them closes their handlers.
            Some(DriverIs::Ended) => return,
            Some(DriverIs::Running) => started.drives.extend(drives),
            None if drives.is_empty() => return,
            None => {
                started.drives = drives;
                started.driver = Some(DriverIs::Running);
                let inner = Arc::clone(self);
                self.spawn("informer-driver", move || {
                    let _ended = Ended(Arc::clone(&inner));
                    Driver::new(inner).run();
                });
            }
        }
        drop(started);
        self.core.wake().notify();
    }

    /// A counted thread: a stop waits for it.
    pub(crate) fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) {
        let life = self.core.lives().enter();
        let thread = std::thread::Builder::new().name(name.replace('\0', " "));
        let spawned = thread.spawn(move || {
            let _life = life;
            work();
        });
        spawned.unwrap_or_else(|error| panic!("the system gives no thread for {name:?}: {error}"));
    }

    /// Takes a controller along when the factory stops.
    pub(crate) fn adopt(&self, controller: &Arc<ControllerCore>) {
        let mut controllers = self.controllers.lock();
        controllers.retain(|known| known.strong_count() > 0);
        controllers.push(Arc::downgrade(controller));
        drop(controllers);
        if self.core.is_stopping() {
            controller.stop();
        }
    }

    fn request_stop(&self) {
        self.core.request_stop();
        let controllers: Vec<_> = self.controllers.lock().iter().filter_map(Weak::upgrade).collect();
        controllers.iter().for_each(|controller| controller.stop());
        // Nothing stays open; another factory of this client opens its own again.
        self.client.transport.forget_idle();
    }
}

impl Factory {
    /// A factory without informers.
    pub fn new(client: Client) -> Self {
        Factory::with_options(client, FactoryOptions::default())
    }

    /// The same with an observer, a gate, or a seed.
    pub fn with_options(client: Client, options: FactoryOptions) -> Self {
        let inner = Arc::new(Inner {
            core: FactoryCore::new(client.config().clone(), options),
            client,
            inbox: Inbox::default(),
            started: Mutex::default(),
            controllers: Mutex::new(Vec::new()),
        });
        Factory { _owner: Arc::new(Owner(Arc::clone(&inner))), inner }
    }

    /// A factory without a server: for a program, or a test, whose informers are all [fed](Self::fed).
    ///
    /// ```
    /// use informer_blocking::{DynamicObject, Factory, FedSpec, Resource};
    ///
    /// let factory = Factory::offline();
    /// let pods: Resource = "pods".parse()?;
    /// let (informer, feeder) = factory.fed(FedSpec::<DynamicObject>::of(pods))?;
    /// assert!(informer.lister().is_empty());
    ///
    /// let services = factory.lease::<DynamicObject>(informer_blocking::InformerSpec::of("services".parse()?));
    /// assert!(services.unwrap_err().to_string().starts_with("services: the factory has no server to read from"));
    /// # drop(feeder);
    /// # Ok::<(), informer_blocking::Error>(())
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
        &self.inner.client
    }

    /// The informer of all objects of a type: the one that is there, or a new one, which the next
    /// [`start`](Self::start) starts.
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

    /// The informer that `spec` describes.
    ///
    /// # Panics
    ///
    /// Where [`try_informer`](Self::try_informer) is an error.
    #[track_caller]
    pub fn informer_with<T: Send + Sync + 'static>(&self, spec: InformerSpec<T>) -> Informer<T> {
        self.try_informer(spec).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The informer that `spec` describes: the one that is there, or a new one, which the next [`start`](Self::start)
    /// starts.
    ///
    /// # Errors
    ///
    /// If there is one with other options; if the factory was stopped; if it [has no server](Self::offline).
    pub fn try_informer<T: Send + Sync + 'static>(&self, spec: InformerSpec<T>) -> Result<Informer<T>, Error> {
        Ok(Informer::new(self.inner.core.informer(spec)?, Arc::clone(&self.inner)))
    }

    /// The informer that `spec` describes, for as long as this or another lease on it is held: with the last one it stops,
    /// unless it was asked for without a lease, too.
    ///
    /// # Errors
    ///
    /// As [`try_informer`](Self::try_informer).
    pub fn lease<T: Send + Sync + 'static>(&self, spec: InformerSpec<T>) -> Result<Leased<Informer<T>>, Error> {
        let (handle, lease) = self.inner.core.lease(spec)?;
        Ok(Leased::new(Informer::new(handle, Arc::clone(&self.inner)), lease))
    }

    /// An informer that is given its objects by hand, and what gives them: a cache of something that is no Kubernetes API, or
    /// the test of a controller without a server. See [`informer_runtime::feeder`].
    ///
    /// A controller, tested without a server:
    ///
    /// ```
    /// use informer_blocking::{Change, Controller, DynamicObject, Factory, FedSpec, Obj, Object, Outcome};
    /// use informer_blocking::{Resource, Version, generation_changed};
    /// use std::time::Duration;
    ///
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
    /// let (scaled, reconciled) = std::sync::mpsc::channel();
    /// let running = Controller::new(deployments).when(generation_changed()).start(move |key, cx| {
    ///     let replicas = cx.get(&key).map(|deployment| deployment.json().contains("\"replicas\": 3"));
    ///     scaled.send((key.to_string(), replicas))?;
    ///     Ok(Outcome::done())
    /// });
    /// factory.start();
    ///
    /// feeder.list([deployment(1, 2)], Version::new("1"))?;
    /// assert_eq!(reconciled.recv()?, ("web/shop".to_string(), Some(false)));
    /// feeder.apply(Change::Applied(deployment(2, 3)))?;
    /// assert_eq!(reconciled.recv()?, ("web/shop".to_string(), Some(true)));
    /// feeder.apply(Change::Deleted(deployment(3, 3)))?;
    /// assert_eq!(reconciled.recv()?, ("web/shop".to_string(), None));
    /// factory.stop(Duration::from_secs(5))?;
    /// # drop(running);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is an informer of this type and resource, for one has one source; if the factory was stopped.
    pub fn fed<T: Send + Sync + 'static>(&self, spec: FedSpec<T>) -> Result<(Informer<T>, Feeder<T>), Error> {
        let (handle, feeder) = self.inner.core.fed(spec)?;
        Ok((Informer::new(handle, Arc::clone(&self.inner)), feeder))
    }

    /// Starts the informers that were asked for since the last start. Does not wait. Nothing happens after a stop.
    ///
    /// # Panics
    ///
    /// If the system gives no thread.
    pub fn start(&self) {
        self.inner.start();
    }

    /// Waits until every informer has its first complete list, at most for `within`.
    ///
    /// # Errors
    ///
    /// [`Error::NotSynced`] names the informers that lag, and why; at once if one was not started.
    /// [`Error::WouldDeadlock`] inside a handler or reconciler; [`Error::Stopped`] if the factory was stopped.
    pub fn synced(&self, within: Duration) -> Result<(), Error> {
        self.inner.core.wait_synced(within)
    }

    /// The informers that have no complete list yet or whose driver died, and why.
    pub fn lagging(&self) -> Vec<Lagging> {
        self.inner.core.lagging()
    }

    /// Stops informers, handlers and controllers, and waits at most for `within` until every thread has ended. Calls of
    /// user code that run are waited for, never cut short. Caches can be read as before.
    ///
    /// # Errors
    ///
    /// [`Error::StillRunning`] if user code did not return in time: it is safe to call this again.
    /// [`Error::WouldDeadlock`] inside a handler or reconciler: call [`request_stop`](Self::request_stop) there.
    pub fn stop(&self, within: Duration) -> Result<(), Error> {
        guard::refuse_inside("stop()")?;
        self.request_stop();
        self.inner.core.lives().wait_none(within)
    }

    /// Asks everything to stop, and does not wait. May be called anywhere.
    pub fn request_stop(&self) {
        self.inner.request_stop();
    }

    /// True once a stop was asked for.
    pub fn is_stopping(&self) -> bool {
        self.inner.core.is_stopping()
    }

    /// Threads of this factory that have not ended.
    pub fn threads(&self) -> usize {
        self.inner.core.lives().count()
    }

    /// Counts what a stop waits for. For test runs.
    #[doc(hidden)]
    pub fn lives(&self) -> Arc<Lives> {
        Arc::clone(self.inner.core.lives())
    }

    /// While held, the driver does nothing: what comes piles up in order, timers wait. For test runs.
    #[doc(hidden)]
    pub fn hold(&self, held: bool) {
        self.inner.core.hold(held);
    }
}

impl fmt::Debug for Factory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "factory of {:?}, {} threads", self.inner.client, self.threads())
    }
}
