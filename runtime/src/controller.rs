//! [`ControllerBuilder`] and [`ControllerCore`]: a controller without its worker threads or tasks.
//!
//! ```text
//! next ─► Run ─► the user's function ─► finished          a worker
//!                   └── until, dropped ─► cut_short       a worker whose function is a future
//! watch ─► wait ─► watch …                                one more, if there is a deadline: tells what is overdue
//! ```

use crate::factory::FactoryCore;
use crate::handler::{HandlerOptions, Registration};
use crate::informer::{HandlerLoop, InformerHandle};
use crate::lister::Lister;
use crate::observe::{Clock, Observed, Observer, random_seed, tell};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Mutex, Signal, deadline};
use informer_core::controller::{
    Controller, ControllerConfig, Counts, Finished, Keys, Mapper, Overdue, Predicate, Run, Verdict, any, controller_of,
    itself,
};
use informer_core::listener::Notification;
use informer_core::queue::Limiter;
use informer_core::time::Duration;
use informer_core::{Key, Obj, Object};
use std::fmt;
use std::time::Instant;

/// Whoever tells of overdue runs does not look more often than this if none is under way: nothing that a person reads is
/// worth more.
const LEAST_LOOK: Duration = Duration::from_millis(100);

type Source = Box<dyn FnOnce(&Arc<ControllerCore>) -> (Registration, Box<dyn HandlerLoop>) + Send>;

/// What a controller reconciles and what makes it do so.
pub struct ControllerBuilder<T> {
    primary: InformerHandle<T>,
    predicate: Box<dyn Predicate<T>>,
    sources: Vec<Source>,
    workers: usize,
    limiter: Option<Limiter>,
    deadline: Option<Duration>,
    cuts_short: bool,
}

impl<T: Object> ControllerBuilder<T> {
    /// A controller of the objects of `primary`: each change of one, and its deletion, calls for its key.
    pub fn new(primary: InformerHandle<T>) -> Self {
        ControllerBuilder {
            primary,
            predicate: Box::new(any()),
            sources: Vec::new(),
            workers: ControllerConfig::WORKERS,
            limiter: None,
            deadline: None,
            cuts_short: false,
        }
    }

    /// Only changes of the object itself that `predicate` passes.
    pub fn when(mut self, predicate: impl Predicate<T>) -> Self {
        self.predicate = Box::new(predicate);
        self
    }

    /// Changes of objects that an object of this controller's type owns call for their owner.
    ///
    /// # Panics
    ///
    /// If the kind of this controller's own objects is not known: see [`controller_of`].
    #[track_caller]
    pub fn owns<U: Object>(self, informer: &InformerHandle<U>) -> Self {
        let owner = controller_of(self.primary.resource());
        self.watches(informer, owner)
    }

    /// Changes of other objects call for the keys that `mapper` names.
    pub fn watches<U: Object>(mut self, informer: &InformerHandle<U>, mapper: impl Mapper<U>) -> Self {
        let informer = informer.clone();
        self.sources.push(Box::new(move |core| source(&informer, core, any(), mapper)));
        self
    }

    /// How many reconciles may run at a time; 4 by default, at least 1. Never two for one key.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// How retries are spaced.
    pub fn limiter(mut self, limiter: Limiter) -> Self {
        self.limiter = Some(limiter);
        self
    }

    /// How long a reconcile may take; for ever by default, and if it is zero.
    pub fn reconcile_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline).filter(|deadline| !deadline.is_zero());
        self
    }

    /// For an adapter whose workers [cut short](ControllerCore::cut_short) what is at its deadline.
    pub fn cuts_short(mut self) -> Self {
        self.cuts_short = true;
        self
    }

    /// Adds the sources. The caller runs the loops, and the workers on the core.
    pub fn build(self, factory: &FactoryCore) -> (Arc<ControllerCore>, Vec<Box<dyn HandlerLoop>>) {
        let mut config = ControllerConfig::new(random_seed()).workers(self.workers);
        if let Some(limiter) = self.limiter {
            config = config.limiter(limiter);
        }
        (config.reconcile_deadline, config.cuts_short) = (self.deadline, self.cuts_short);
        let core = Arc::new(ControllerCore {
            machine: Mutex::new(Controller::new(config)),
            cluster_scoped: !self.primary.resource().namespaced,
            signal: Arc::new(Signal::new()),
            clock: factory.clock(),
            observer: factory.observer(),
            gates: Mutex::new(Vec::new()),
            open: AtomicBool::new(false),
            orphaned: AtomicBool::new(false),
            workers: self.workers.max(1),
            deadline: self.deadline,
            watch: Signal::new(),
        });
        let (primary, predicate) = (self.primary, self.predicate);
        let predicate = move |event: &Notification<T>| predicate.passes(event);
        let own: Source = Box::new(move |core| source(&primary, core, predicate, itself()));
        let (registrations, loops): (Vec<_>, Vec<_>) =
            [own].into_iter().chain(self.sources).map(|add| add(&core)).unzip();
        for registration in &registrations {
            registration.tell_also(Arc::clone(&core.signal));
        }
        *core.gates.lock() = registrations;
        (core, loops)
    }
}

fn source<U: Object>(
    informer: &InformerHandle<U>,
    core: &Arc<ControllerCore>,
    predicate: impl Predicate<U>,
    mapper: impl Mapper<U>,
) -> (Registration, Box<dyn HandlerLoop>) {
    let core = Arc::clone(core);
    let options = HandlerOptions::named(&format!("controller source {}", informer.resource()));
    informer.handler(options, move |notification: &Notification<U>| {
        if predicate.passes(notification) {
            let mut keys = Keys::default();
            mapper.map(notification, &mut keys);
            for fault in keys.faults() {
                tell(core.observer.as_ref(), &Observed::OwnerScope(fault));
            }
            for key in keys {
                core.enqueue(key);
            }
        }
    })
}

/// A running controller, without its workers.
pub struct ControllerCore {
    machine: Mutex<Controller>,
    /// What it reconciles has no namespace.
    cluster_scoped: bool,
    signal: Arc<Signal>,
    clock: Clock,
    observer: Option<Observer>,
    /// Nothing is reconciled before the caches that feed it are whole (B162).
    gates: Mutex<Vec<Registration>>,
    open: AtomicBool,
    /// A source has ended.
    orphaned: AtomicBool,
    workers: usize,
    deadline: Option<Duration>,
    /// Told when the controller ends.
    watch: Signal,
}

/// What a worker is to do.
pub enum Work {
    /// Reconcile, then report with [`ControllerCore::finished`].
    Run(Run),
    /// Wait past this generation of the signal, or until the instant.
    Wait(u64, Option<Instant>),
    /// End.
    Stop,
}

impl ControllerCore {
    /// How many workers to run.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// What workers wait on.
    pub fn signal(&self) -> &Signal {
        &self.signal
    }

    /// Calls for a key. Of a cluster-scoped object the name alone counts: with a namespace beside it, it would be another
    /// key, and two reconciles of one object would run at a time.
    pub fn enqueue(&self, key: Key) {
        let is_other = self.cluster_scoped && !key.namespace().is_empty();
        let key = if is_other { Key::new("", key.name()) } else { key };
        let added = self.machine.lock().enqueue(self.clock.now(), key);
        if added {
            self.signal.notify();
        }
    }

    /// The next thing for a worker.
    pub fn next(&self) -> Work {
        let seen = self.signal.generation();
        self.tell_overdue();
        // A source that was stopped alone leaves a cache that stands still: nobody must act on it.
        if !self.orphaned.load(Ordering::Acquire) && self.gates.lock().iter().any(Registration::is_finished) {
            // Once: it wakes every worker, this one included.
            self.orphaned.store(true, Ordering::Release);
            self.stop();
        }
        if !self.open.load(Ordering::Acquire) && self.gates.lock().iter().all(Registration::has_synced) {
            self.open.store(true, Ordering::Release);
            self.machine.lock().open();
            self.signal.notify();
        }
        let mut machine = self.machine.lock();
        if machine.is_stopped() {
            return Work::Stop;
        }
        match machine.next(self.clock.now()) {
            Some(run) => Work::Run(run),
            None => Work::Wait(seen, machine.next_deadline().and_then(|deadline| self.clock.instant(deadline))),
        }
    }

    /// Takes the outcome of a run and tells the observer.
    pub fn finished(&self, run: Run, verdict: Verdict) -> Finished {
        self.end(|machine| machine.finished(self.clock.now(), run, verdict))
    }

    /// A run is at its [deadline](Self::until), and what ran for it was dropped before this is called: its key may run
    /// again. Tells the observer.
    ///
    /// # Panics
    ///
    /// If the run has no deadline.
    pub fn cut_short(&self, run: Run) -> Finished {
        self.end(|machine| machine.cut_short(self.clock.now(), run))
    }

    fn end(&self, end: impl FnOnce(&mut Controller) -> Finished) -> Finished {
        let mut machine = self.machine.lock();
        let finished = end(&mut machine);
        let stopped = machine.is_stopped();
        drop(machine);
        self.signal.notify();
        if stopped {
            self.watch.notify();
        }
        tell(self.observer.as_ref(), &Observed::Reconcile(&finished));
        finished
    }

    /// When a run is to be cut short, where that can be done.
    pub fn until(&self, run: &Run) -> Option<Instant> {
        run.deadline().and_then(|deadline| self.clock.at(deadline))
    }

    /// What the reconciler of the objects of `informer` is given for a run.
    pub fn context<T: Send + Sync + 'static>(&self, informer: &InformerHandle<T>, run: &Run) -> Context<T> {
        Context { lister: informer.lister(), attempt: run.attempt(), deadline: self.until(run) }
    }

    /// True if somebody is to [watch](Self::watch) over the deadline beside the workers, which may all be taken.
    pub fn has_deadline(&self) -> bool {
        self.deadline.is_some()
    }

    /// Tells of the runs that are overdue. To be called again past this generation of
    /// [`watch_signal`](Self::watch_signal), or at the instant; no more if it is `None`, for the controller has ended.
    pub fn watch(&self) -> Option<(u64, Instant)> {
        let seen = self.watch.generation();
        self.tell_overdue();
        let machine = self.machine.lock();
        if machine.is_stopped() {
            return None;
        }
        // What starts after this look has all of the deadline before it: no start has to wake whoever looks.
        let within = self.deadline.unwrap_or(Duration::MAX).max(LEAST_LOOK);
        let due = machine.overdue_deadline().and_then(|deadline| self.clock.instant(deadline));
        let next = deadline(self.clock.instant_now(), within);
        Some((seen, due.map_or(next, |due| due.min(next))))
    }

    /// What to wait on between two calls of [`watch`](Self::watch).
    pub fn watch_signal(&self) -> &Signal {
        &self.watch
    }

    fn tell_overdue(&self) {
        if self.deadline.is_none() {
            return;
        }
        // Ends: each run is told once, and none starts meanwhile that is overdue already.
        loop {
            let Some(overdue) = self.machine.lock().overdue(self.clock.now()) else { return };
            tell(self.observer.as_ref(), &Observed::Overdue(&overdue));
        }
    }

    /// The runs that are over their deadline and go on, the oldest first.
    pub fn stuck(&self) -> Vec<Overdue> {
        self.machine.lock().stuck(self.clock.now()).collect()
    }

    /// No new run starts; those that run complete.
    pub fn stop(&self) {
        self.machine.lock().stop();
        // A removal drops what waits, which may be code of the user's: under no lock.
        let gates = self.gates.lock().clone();
        gates.iter().for_each(Registration::remove);
        self.signal.notify();
        self.watch.notify();
    }

    /// What the controller has done so far.
    pub fn counts(&self) -> Counts {
        self.machine.lock().counts()
    }

    /// True if nothing runs and nothing waits to run now.
    pub fn is_idle(&self) -> bool {
        self.machine.lock().is_idle()
    }
}

/// What a reconciler is given beside the key.
///
/// A reconciler is a function of the two, so a test calls it as one, with a context [of its own](Self::new):
///
/// ```
/// use informer_core::controller::{Outcome, ReconcileError};
/// use informer_core::time::Duration;
/// use informer_core::{Key, Obj, Uid, Version};
/// use informer_runtime::controller::Context;
/// use informer_runtime::lister::Lister;
///
/// struct Widget {
///     size: u32,
/// }
///
/// /// What a controller is started with: `controller.start(reconcile)`.
/// fn reconcile(key: Key, cx: Context<Widget>) -> Result<Outcome, ReconcileError> {
///     let Some(widget) = cx.get(&key) else { return Ok(Outcome::done()) };
///     match widget.size {
///         0 => Err(ReconcileError::give_up("spec.size is 0")),
///         size if size > 9 && cx.attempt() < 3 => Err("too large for now".into()),
///         _ => Ok(Outcome::requeue_after(Duration::from_secs(60))),
///     }
/// }
///
/// let widget = |name: &str, size: u32| Obj::new(Key::new("web", name), Uid::new(name), Version::new("1"), Widget { size });
/// let cx = Context::new(Lister::of([widget("none", 0), widget("large", 10)]));
///
/// assert_eq!(reconcile(Key::new("web", "gone"), cx.clone()), Ok(Outcome::done()));
/// assert!(reconcile(Key::new("web", "none"), cx.clone()).unwrap_err().gives_up());
/// let large = Key::new("web", "large");
/// assert_eq!(reconcile(large.clone(), cx.clone()).unwrap_err().message(), "too large for now");
/// let third = reconcile(large, cx.with_attempt(3));
/// assert_eq!(third, Ok(Outcome::requeue_after(Duration::from_secs(60))));
/// ```
///
/// What calls for which key, and how runs are spaced, is the controller's part, which [a fed informer](crate::feeder) tests.
pub struct Context<T> {
    lister: Lister<T>,
    attempt: u32,
    deadline: Option<Instant>,
}

impl<T> Clone for Context<T> {
    fn clone(&self) -> Self {
        Context { lister: self.lister.clone(), attempt: self.attempt, deadline: self.deadline }
    }
}

impl<T: Send + Sync + 'static> Context<T> {
    /// A context for a call by hand: of a first attempt, without a deadline. `lister` is one [of given objects](Lister::of),
    /// or that of an informer.
    pub fn new(lister: Lister<T>) -> Self {
        Context { lister, attempt: 1, deadline: None }
    }

    /// As of the attempt of this number.
    ///
    /// # Panics
    ///
    /// If it is 0: the first attempt has the number 1.
    #[must_use]
    #[track_caller]
    pub fn with_attempt(mut self, attempt: u32) -> Self {
        assert!(attempt > 0, "attempts of a reconcile count from 1: there is none of number 0");
        self.attempt = attempt;
        self
    }

    /// With a deadline, as of a controller that has one.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// The object as the cache has it; `None` if it is gone.
    pub fn get(&self, key: &Key<impl AsRef<str>>) -> Option<Obj<T>> {
        self.lister.get(key)
    }

    /// The cache of the controller's own type.
    pub fn lister(&self) -> &Lister<T> {
        &self.lister
    }

    /// How often this key has failed in a row, this run included; 1 for the first try.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// When this reconcile is to have ended, if its controller has a deadline. For the time limits of what it waits for: on
    /// threads nothing else ends it.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}

impl<T> fmt::Debug for Context<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "attempt {}, with a {:?}", self.attempt, self.lister)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use informer_core::{Uid, Version};

    fn light(name: &str, version: &str, on: bool) -> Obj<bool> {
        Obj::new(Key::new("hall", name), Uid::new(name), Version::new(version), on)
    }

    #[test]
    fn a_context_made_by_hand_has_the_objects_the_attempt_and_the_deadline_that_it_is_given() {
        let cx = Context::new(Lister::of([light("a", "1", false), light("b", "2", false), light("a", "3", true)]));
        assert_eq!((cx.attempt(), cx.deadline()), (1, None), "a first attempt without a deadline");
        let (a, gone) = (Key::new("hall", "a"), Key::new("hall", "c"));
        assert!(
            cx.get(&a).is_some_and(|light| *light && light.version().as_str() == "3"),
            "the last one of a key counts"
        );
        assert!(cx.get(&gone).is_none());
        assert_eq!((cx.lister().len(), cx.lister().version().as_str()), (2, ""));
        assert_eq!(format!("{cx:?}"), "attempt 1, with a lister of 2 objects");

        let until = Instant::now();
        let later = cx.clone().with_attempt(7).with_deadline(until);
        assert_eq!((later.attempt(), later.deadline()), (7, Some(until)));
        assert!(later.get(&a).is_some());
        assert_eq!((cx.attempt(), cx.deadline()), (1, None), "a clone is another one");
    }

    #[test]
    #[should_panic(expected = "attempts of a reconcile count from 1")]
    fn there_is_no_attempt_of_number_0() {
        drop(Context::new(Lister::<bool>::of([])).with_attempt(0));
    }
}
