//! [`Controller`]: reconciles the keys that informers call for, in worker tasks.

use crate::factory::{Inner, wait_none};
use crate::informer::Informer;
use informer_core::controller::{Counts, Mapper, Outcome, Overdue, Predicate, ReconcileError, Verdict};
use informer_core::queue::Limiter;
use informer_core::{Key, Object};
use informer_runtime::controller::{Context, ControllerBuilder, ControllerCore, Work};
use informer_runtime::factory::Lives;
use informer_runtime::informer::InformerHandle;
use informer_runtime::sync::Arc;
use informer_runtime::{Error, guard};
use std::fmt;
use std::future::Future;
use std::time::Duration;
use tokio::time::timeout_at;

/// A controller: what it reconciles, and what calls for that.
///
/// Reconciles begin when every informer that feeds it is synced. Never do two run for one key; a key that is called for
/// while it runs runs again. A failed or panicked one is retried with growing waits, which the observer of the factory
/// is told of.
///
/// ```no_run
/// use informer_tokio::{Controller, DynamicObject, Factory, Outcome, Resource, generation_changed};
///
/// # fn example(factory: Factory) {
/// let widgets = Resource::namespaced("example.com", "v1", "widgets", "Widget");
/// let pods = factory.informer_of::<DynamicObject>(Resource::namespaced("", "v1", "pods", "Pod"));
/// let running = Controller::new(factory.informer_of::<DynamicObject>(widgets))
///     .when(generation_changed())
///     .owns(&pods)
///     .workers(2)
///     .start(|key, cx| async move {
///         let Some(widget) = cx.get(&key) else { return Ok(Outcome::done()) }; // gone, and its children with it
///         println!("{key} is at version {}, attempt {}", widget.version(), cx.attempt());
///         Ok(Outcome::done())
///     });
/// factory.start();
/// assert_eq!(running.counts().panics, 0);
/// # }
/// ```
///
/// To test a reconciler, call it: its [`Context`] can be made by hand.
///
/// ```
/// use informer_tokio::{Context, DynamicObject, Key, Lister, Obj, Object, Outcome, ReconcileError};
/// use std::time::Duration;
///
/// /// What the controller is started with: `controller.start(reconcile)`.
/// async fn reconcile(key: Key, cx: Context<DynamicObject>) -> Result<Outcome, ReconcileError> {
///     let Some(widget) = cx.get(&key) else { return Ok(Outcome::done()) };
///     if !widget.json().contains("\"size\"") {
///         return Err(ReconcileError::give_up("spec.size is missing"));
///     }
///     Ok(Outcome::requeue_after(Duration::from_secs(60)))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let widgets = informer_tokio::Resource::namespaced("example.com", "v1", "widgets", "Widget");
/// let json = br#"{"metadata": {"namespace": "web", "name": "shop", "uid": "u", "resourceVersion": "1"}, "spec": {}}"#;
/// let widget = Obj::of(DynamicObject::decode(json, &widgets)?).ok_or("no name")?;
/// let (shop, gone) = (Key::new("web", "shop"), Key::new("web", "gone"));
///
/// let cx = Context::new(Lister::of([widget]));
/// assert!(reconcile(shop, cx.clone()).await.unwrap_err().gives_up());
/// assert_eq!(reconcile(gone, cx.with_attempt(3)).await, Ok(Outcome::done()));
/// # Ok(())
/// # }
/// ```
///
/// To test what calls for it, too, feed an informer: see [`Factory::fed`](crate::Factory::fed).
pub struct Controller<T> {
    builder: ControllerBuilder<T>,
    primary: InformerHandle<T>,
    runtime: Arc<Inner>,
}

impl<T: Object> Controller<T> {
    /// A controller of the objects of `primary`: each change of one, and its deletion, calls for its key.
    pub fn new(primary: Informer<T>) -> Self {
        let builder = ControllerBuilder::new((*primary).clone()).cuts_short();
        Controller { builder, primary: (*primary).clone(), runtime: Arc::clone(primary.runtime()) }
    }

    /// Only changes of the object itself that `predicate` passes.
    #[must_use]
    pub fn when(mut self, predicate: impl Predicate<T>) -> Self {
        self.builder = self.builder.when(predicate);
        self
    }

    /// Changes of objects that an object of this controller's type owns call for their owner.
    ///
    /// # Panics
    ///
    /// If the kind of this controller's own objects is not known: see [`controller_of`](crate::controller_of).
    #[must_use]
    #[track_caller]
    pub fn owns<U: Object>(mut self, informer: &Informer<U>) -> Self {
        self.builder = self.builder.owns(informer);
        self
    }

    /// Changes of other objects call for the keys that `mapper` names.
    #[must_use]
    pub fn watches<U: Object>(mut self, informer: &Informer<U>, mapper: impl Mapper<U>) -> Self {
        self.builder = self.builder.watches(informer, mapper);
        self
    }

    /// How many reconciles may run at a time; 4 by default, at least 1.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.builder = self.builder.workers(workers);
        self
    }

    /// How retries are spaced.
    #[must_use]
    pub fn limiter(mut self, limiter: Limiter) -> Self {
        self.builder = self.builder.limiter(limiter);
        self
    }

    /// How long a reconcile may take; for ever by default, and if it is zero. At the deadline its future is dropped, and the
    /// key is retried with a growing wait, as after an error. So it must be right to end at any `await`; what it has
    /// spawned goes on, unless it ends with what is dropped, as a `JoinSet` does.
    ///
    /// A reconcile that does not come to an `await` cannot be dropped: a second after its deadline it is told as
    /// [`Observed::Overdue`](crate::Observed::Overdue), and is [`stuck`](RunningController::stuck).
    #[must_use]
    pub fn reconcile_deadline(mut self, deadline: Duration) -> Self {
        self.builder = self.builder.reconcile_deadline(deadline);
        self
    }

    /// Starts the workers, or has them started with the factory. The factory stops the controller, too.
    pub fn start<F, Fut>(self, reconcile: F) -> RunningController
    where
        F: Fn(Key, Context<T>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Outcome, ReconcileError>> + Send + 'static,
    {
        let (core, sources) = self.builder.build(&self.runtime.core);
        self.runtime.add_controller(&core);
        for source in sources {
            self.runtime.spawn_handler(source);
        }
        let reconcile = Arc::new(reconcile);
        let workers = Arc::new(Lives::default());
        for _ in 0..core.workers() {
            let life = workers.enter();
            let work = work(Arc::clone(&core), self.primary.clone(), Arc::clone(&reconcile));
            self.runtime.spawn(async move {
                let _life = life;
                work.await;
            });
        }
        if core.has_deadline() {
            let (life, core) = (workers.enter(), Arc::clone(&core));
            self.runtime.spawn(async move {
                let _life = life;
                watch(core).await;
            });
        }
        RunningController { core, workers }
    }

    /// [Starts](Self::start) the controller and waits until it has stopped: when the factory does. If this future is
    /// dropped the controller stops, too; reconciles that run complete.
    pub async fn run<F, Fut>(self, reconcile: F)
    where
        F: Fn(Key, Context<T>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Outcome, ReconcileError>> + Send + 'static,
    {
        struct StopOnDrop(RunningController);
        impl Drop for StopOnDrop {
            fn drop(&mut self) {
                self.0.stop();
            }
        }
        let running = StopOnDrop(self.start(reconcile));
        let workers = &running.0.workers;
        loop {
            let seen = workers.signal().generation();
            if workers.count() == 0 {
                return;
            }
            workers.signal().past(seen).await;
        }
    }
}

impl<T> fmt::Debug for Controller<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Controller(not started)")
    }
}

/// One worker.
async fn work<T, F, Fut>(core: Arc<ControllerCore>, primary: InformerHandle<T>, reconcile: Arc<F>)
where
    T: Object,
    F: Fn(Key, Context<T>) -> Fut,
    Fut: Future<Output = Result<Outcome, ReconcileError>>,
{
    loop {
        match core.next() {
            Work::Run(run) => {
                let context = core.context(&primary, &run);
                let outcome = match (guard::call(|| reconcile(run.key().clone(), context)), core.until(&run)) {
                    (Err(text), _) => Ok(Err(text)),
                    (Ok(future), None) => Ok(guard::guarded(future).await),
                    (Ok(future), Some(until)) => timeout_at(until.into(), guard::guarded(future)).await,
                };
                // The future is dropped by now: its key may run again.
                match outcome {
                    Ok(outcome) => core.finished(run, outcome.map_or_else(Verdict::Panicked, Verdict::from)),
                    Err(_) => core.cut_short(run),
                };
            }
            Work::Wait(seen, None) => core.signal().past(seen).await,
            // Whether it was the signal or the time: the next look tells.
            Work::Wait(seen, Some(until)) => drop(timeout_at(until.into(), core.signal().past(seen)).await),
            Work::Stop => return,
        }
    }
}

/// Looks for reconciles over their deadline, while workers may all be taken.
async fn watch(core: Arc<ControllerCore>) {
    while let Some((seen, until)) = core.watch() {
        drop(timeout_at(until.into(), core.watch_signal().past(seen)).await);
    }
}

/// A controller that was started. Dropping this leaves it running, and keeping it does not: with the last
/// [`Factory`](crate::Factory) it stops.
#[derive(Clone)]
pub struct RunningController {
    core: Arc<ControllerCore>,
    workers: Arc<Lives>,
}

impl RunningController {
    /// No new reconcile starts; those that run complete. Does not wait.
    pub fn stop(&self) {
        self.core.stop();
    }

    /// Waits until the workers have ended, which [`stop`](Self::stop) or the factory's stop makes them do.
    ///
    /// # Errors
    ///
    /// [`Error::StillRunning`] when the time is over; [`Error::WouldDeadlock`] inside a handler or reconciler.
    pub async fn wait(&self, within: Duration) -> Result<(), Error> {
        guard::refuse_inside("wait()")?;
        wait_none(&self.workers, within).await
    }

    /// True if its workers have ended: after a [`stop`](Self::stop) or its factory's, and after the last
    /// [`Factory`](crate::Factory) was dropped, which stops all that it has. It does not start again.
    pub fn is_stopped(&self) -> bool {
        self.workers.count() == 0
    }

    /// What the controller has done so far.
    pub fn counts(&self) -> Counts {
        self.core.counts()
    }

    /// The reconciles that are over their [deadline](Controller::reconcile_deadline) and could not be dropped, the oldest
    /// first: which key, and since when.
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
        write!(f, "RunningController({} tasks, {:?})", self.workers.count(), self.counts())
    }
}
