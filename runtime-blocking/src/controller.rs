//! [`Controller`]: worker threads that reconcile what informers call for.
//!
//! ```no_run
//! use informer_blocking::{Client, Controller, DynamicObject, Factory, Outcome, Resource, generation_changed};
//! use std::time::Duration;
//!
//! let factory = Factory::new(Client::connect_default()?);
//! let widgets = factory.informer_of::<DynamicObject>(Resource::namespaced("example.com", "v1", "widgets", "Widget"));
//! let pods = factory.informer_of::<DynamicObject>(Resource::namespaced("", "v1", "pods", "Pod"));
//! let controller = Controller::new(widgets).when(generation_changed()).owns(&pods).workers(2);
//! let running = controller.start(|key, cx| {
//!     match cx.get(&key) {
//!         None => println!("{key} is gone"),
//!         Some(widget) => println!("{key} is at version {}", widget.version()),
//!     }
//!     Ok(Outcome::done())
//! });
//! factory.start();
//! running.wait(Duration::MAX)?;
//! # Ok::<(), informer_blocking::Error>(())
//! ```

use crate::factory::Inner;
use crate::informer::{Informer, run_handler};
use informer_core::controller::{Counts, Mapper, Outcome, Overdue, Predicate, ReconcileError, Verdict};
use informer_core::queue::Limiter;
use informer_core::{Key, Object};
use informer_runtime::Error;
use informer_runtime::controller::{Context, ControllerBuilder, ControllerCore, Work};
use informer_runtime::factory::Lives;
use informer_runtime::guard;
use informer_runtime::informer::InformerHandle;
use informer_runtime::sync::Arc;
use std::fmt;
use std::time::Duration;

/// What a controller reconciles and what makes it do so.
///
/// To test a reconciler, call it: its [`Context`] can be made by hand.
///
/// ```
/// use informer_blocking::{Context, DynamicObject, Key, Lister, Obj, Object, Outcome, ReconcileError, Resource};
/// use std::time::Duration;
///
/// /// What the controller is started with: `controller.start(reconcile)`.
/// fn reconcile(key: Key, cx: Context<DynamicObject>) -> Result<Outcome, ReconcileError> {
///     let Some(widget) = cx.get(&key) else { return Ok(Outcome::done()) };
///     if !widget.json().contains("\"size\"") {
///         return Err(ReconcileError::give_up("spec.size is missing"));
///     }
///     Ok(Outcome::requeue_after(Duration::from_secs(60)))
/// }
///
/// let widgets = Resource::namespaced("example.com", "v1", "widgets", "Widget");
/// let json = br#"{"metadata": {"namespace": "web", "name": "shop", "uid": "u", "resourceVersion": "1"}, "spec": {}}"#;
/// let widget = Obj::of(DynamicObject::decode(json, &widgets)?).ok_or("no name")?;
/// let (shop, gone) = (Key::new("web", "shop"), Key::new("web", "gone"));
///
/// let cx = Context::new(Lister::of([widget]));
/// assert!(reconcile(shop, cx.clone()).unwrap_err().gives_up());
/// assert_eq!(reconcile(gone, cx.with_attempt(3)), Ok(Outcome::done()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// To test what calls for it, too, feed an informer: see [`Factory::fed`](crate::Factory::fed).
#[must_use = "a controller does nothing until `start` or `run`"]
pub struct Controller<T> {
    builder: ControllerBuilder<T>,
    handle: InformerHandle<T>,
    factory: Arc<Inner>,
}

impl<T: Object> Controller<T> {
    /// A controller of the objects of an informer: each change of one, and its deletion, calls for its key.
    pub fn new(informer: Informer<T>) -> Self {
        let Informer { handle, factory } = informer;
        Controller { builder: ControllerBuilder::new(handle.clone()), handle, factory }
    }

    fn with(mut self, change: impl FnOnce(ControllerBuilder<T>) -> ControllerBuilder<T>) -> Self {
        self.builder = change(self.builder);
        self
    }

    /// Only changes of the object itself that `predicate` passes.
    pub fn when(self, predicate: impl Predicate<T>) -> Self {
        self.with(|builder| builder.when(predicate))
    }

    /// Changes of objects that an object of this controller's type owns call for their owner.
    ///
    /// # Panics
    ///
    /// If the kind of this controller's own objects is not known: see [`controller_of`](crate::controller_of).
    pub fn owns<U: Object>(self, informer: &Informer<U>) -> Self {
        self.with(|builder| builder.owns(&informer.handle))
    }

    /// Changes of other objects call for the keys that `mapper` names.
    pub fn watches<U: Object>(self, informer: &Informer<U>, mapper: impl Mapper<U>) -> Self {
        self.with(|builder| builder.watches(&informer.handle, mapper))
    }

    /// How many reconciles may run at a time; 4 by default, at least 1. Never two for one key.
    pub fn workers(self, workers: usize) -> Self {
        self.with(|builder| builder.workers(workers))
    }

    /// How retries are spaced.
    pub fn limiter(self, limiter: Limiter) -> Self {
        self.with(|builder| builder.limiter(limiter))
    }

    /// How long a reconcile may take; for ever by default, and if it is zero.
    ///
    /// A function that runs on a thread cannot be stopped. One that is over its deadline is told once, as
    /// [`Observed::Overdue`](crate::Observed::Overdue), and is [`stuck`](RunningController::stuck)
    /// until it returns. Its key is not run beside it, and other workers go on. So give what it waits for a time limit,
    /// for which [`Context::deadline`] is there.
    pub fn reconcile_deadline(self, deadline: Duration) -> Self {
        self.with(|builder| builder.reconcile_deadline(deadline))
    }

    /// Starts the workers. `reconcile` is first called when all informers that feed the controller are synced, so the
    /// factory must be started as well. A panic in it is a failure of that run, and is retried.
    ///
    /// # Panics
    ///
    /// If the system gives no thread.
    pub fn start<F>(self, reconcile: F) -> RunningController
    where
        F: Fn(Key, Context<T>) -> Result<Outcome, ReconcileError> + Send + Sync + 'static,
    {
        let Controller { builder, handle, factory } = self;
        let (core, sources) = builder.build(&factory.core);
        factory.adopt(&core);
        for source in sources {
            run_handler(&factory, "source", source);
        }
        let lives = Arc::new(Lives::default());
        let reconcile = Arc::new(reconcile);
        for number in 1..=core.workers() {
            let (core, handle, reconcile) = (Arc::clone(&core), handle.clone(), Arc::clone(&reconcile));
            let life = lives.enter();
            factory.spawn(&format!("informer-worker-{number}"), move || {
                let _life = life;
                work(&core, &handle, &*reconcile);
            });
        }
        if core.has_deadline() {
            let (life, core) = (lives.enter(), Arc::clone(&core));
            factory.spawn("informer-deadline", move || {
                let _life = life;
                watch(&core);
            });
        }
        RunningController { core, lives }
    }

    /// Starts the workers and returns when the factory has stopped. Start the factory before.
    ///
    /// # Panics
    ///
    /// If the system gives no thread.
    pub fn run<F>(self, reconcile: F)
    where
        F: Fn(Key, Context<T>) -> Result<Outcome, ReconcileError> + Send + Sync + 'static,
    {
        let running = self.start(reconcile);
        loop {
            let seen = running.lives.signal().generation();
            if running.lives.count() == 0 {
                return;
            }
            running.lives.signal().wait_past(seen, None);
        }
    }
}

impl<T> fmt::Debug for Controller<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a controller that is not started")
    }
}

/// One worker's life.
fn work<T: Object, F>(core: &ControllerCore, handle: &InformerHandle<T>, reconcile: &F)
where
    F: Fn(Key, Context<T>) -> Result<Outcome, ReconcileError>,
{
    loop {
        match core.next() {
            Work::Stop => return,
            Work::Wait(seen, until) => _ = core.signal().wait_past(seen, until),
            Work::Run(run) => {
                let context = core.context(handle, &run);
                let result = guard::call(|| reconcile(run.key().clone(), context));
                core.finished(run, result.map_or_else(Verdict::Panicked, Verdict::from));
            }
        }
    }
}

/// Looks for reconciles over their deadline, while workers may all be taken.
fn watch(core: &ControllerCore) {
    while let Some((seen, until)) = core.watch() {
        core.watch_signal().wait_past(seen, Some(until));
    }
}

/// A controller whose workers run. Dropping it leaves them, and keeping it does not: the factory's stop ends them, and so
/// does the drop of the last [`Factory`](crate::Factory).
pub struct RunningController {
    core: Arc<ControllerCore>,
    lives: Arc<Lives>,
}

impl RunningController {
    /// No new run starts; those that run complete. Does not wait.
    pub fn stop(&self) {
        self.core.stop();
    }

    /// Waits at most for `within` until the workers have ended, which [`stop`](Self::stop) or the factory's stop makes
    /// them do.
    ///
    /// # Errors
    ///
    /// [`Error::StillRunning`] when the time is over; [`Error::WouldDeadlock`] inside a handler or reconciler.
    pub fn wait(&self, within: Duration) -> Result<(), Error> {
        guard::refuse_inside("wait()")?;
        self.lives.wait_none(within)
    }

    /// True if its workers have ended: after a [`stop`](Self::stop) or its factory's, and after the last
    /// [`Factory`](crate::Factory) was dropped, which stops all that it has. It does not start again.
    pub fn is_stopped(&self) -> bool {
        self.lives.count() == 0
    }

    /// What the controller has done so far.
    pub fn counts(&self) -> Counts {
        self.core.counts()
    }

    /// The reconciles that are over their [deadline](Controller::reconcile_deadline) and go on, the oldest first: which
    /// key, and since when.
    pub fn stuck(&self) -> Vec<Overdue> {
        self.core.stuck()
    }

    /// True once the controller has begun and nothing runs and nothing waits to run now; keys may wait for their time. It has
    /// begun when all informers that feed it are synced, and what they had then has called for its keys. After a stop:
    /// true if nothing runs.
    ///
    /// A test polls this, and nothing else, for the end of what there was at the start. It knows nothing of a change that is
    /// still on its way: after one, poll what it leads to, such as `counts().done`, before this.
    pub fn is_idle(&self) -> bool {
        self.core.is_idle()
    }
}

impl fmt::Debug for RunningController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "controller with {} threads, {:?}", self.lives.count(), self.counts())
    }
}
