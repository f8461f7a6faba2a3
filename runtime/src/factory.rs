//! [`FactoryCore`]: the informers of one client, without threads or tasks.

use crate::config::Config;
use crate::driver::Drive;
use crate::error::{Error, Lagging};
use crate::feeder::{FedSpec, Feeder};
use crate::guard;
use crate::helpers::Helpers;
use crate::informer::{InformerHandle, InformerSpec, Status};
use crate::observe::{AsyncRuntime, Clock, Gate, Observed, Observer, WallClock, random_seed, system_wall_clock, tell};
use crate::roster::{Lease, Roster};
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Arc, Signal, deadline};
use informer_core::factory::Scope;
use informer_core::wire::Request;
use std::io;
use std::time::{Duration, Instant};

/// Options of a factory.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct FactoryOptions {
    /// Is told what happens.
    pub observer: Option<Observer>,
    /// Asked before each request: fault injection. One that panics refuses the request.
    pub gate: Option<Gate>,
    /// Drives all jitter: for tests that must repeat. Random by default.
    pub seed: Option<u64>,
    /// How many threads may decode large batches beside the driver, or for it if drivers are tasks; 0 for none. By
    /// default as many as there are other processors, at most seven, and one more if drivers are tasks. They are
    /// started when a batch of more than 16 KiB comes, and wait, once there are, for the next one. Decoders, transforms
    /// and index functions run on them.
    pub decode_threads: Option<usize>,
    /// The wall clock, in place of the system's: for tests of a suspend. A panic of it counts as no answer.
    pub wall_clock: Option<WallClock>,
    /// The asynchronous runtime whose tasks drive the informers. For adapters.
    #[doc(hidden)]
    pub async_runtime: Option<AsyncRuntime>,
}

impl FactoryOptions {
    /// With an observer.
    pub fn observed(observer: Observer) -> Self {
        FactoryOptions { observer: Some(observer), ..FactoryOptions::default() }
    }
}

impl std::fmt::Debug for FactoryOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FactoryOptions")
    }
}

/// What all parts of one factory share.
pub(crate) struct Shared {
    /// Wakes the driver: commands wait, or the factory stops.
    pub(crate) wake: Signal,
    /// Something that a waiter may be waiting for has changed.
    pub(crate) changed: Arc<Signal>,
    pub(crate) observer: Option<Observer>,
    pub(crate) seed: u64,
    pub(crate) fixed_seed: Option<u64>,
    pub(crate) clock: Clock,
    pub(crate) wall_clock: WallClock,
    pub(crate) in_async_runtime: Option<fn() -> bool>,
    pub(crate) helpers: Arc<Helpers>,
}

impl Shared {
    pub(crate) fn observe(&self, observed: &Observed<'_>) {
        tell(self.observer.as_ref(), observed);
    }
}

/// The informers of one client.
pub struct FactoryCore {
    config: Config,
    shared: Arc<Shared>,
    gate: Option<Gate>,
    roster: Arc<Roster>,
    held: AtomicBool,
    lives: Arc<Lives>,
}

impl FactoryCore {
    /// A factory that has started nothing.
    pub fn new(config: Config, options: FactoryOptions) -> Self {
        let lives = Arc::new(Lives::default());
        let of_tasks = options.async_runtime.is_some();
        let helpers = options.decode_threads.unwrap_or_else(|| Helpers::by_default(of_tasks));
        let make = if of_tasks { Helpers::of_tasks } else { Helpers::new };
        let core = FactoryCore {
            config,
            shared: Arc::new(Shared {
                clock: options.async_runtime.map_or_else(Clock::start, |tasks| Clock::reading(tasks.now)),
                wake: Signal::new(),
                changed: Arc::new(Signal::new()),
                observer: options.observer,
                seed: options.seed.unwrap_or_else(random_seed),
                fixed_seed: options.seed,
                wall_clock: options.wall_clock.unwrap_or_else(|| Arc::new(system_wall_clock)),
                in_async_runtime: options.async_runtime.map(|tasks| tasks.is_here),
                helpers: Arc::new(make(helpers, Arc::clone(&lives))),
            }),
            gate: options.gate,
            roster: Arc::new(Roster::new()),
            held: AtomicBool::new(false),
            lives,
        };
        for line in core.config.ignored() {
            core.observe(&Observed::Ignored(&line));
        }
        core
    }

    /// Where requests go.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The clock of all drivers.
    pub fn clock(&self) -> Clock {
        self.shared.clock
    }

    /// Asks the [gate](FactoryOptions::gate) for a request, if there is one. To be called where the request is carried out:
    /// a gate may take its time.
    ///
    /// # Errors
    ///
    /// What the gate says, or that it panicked: the request counts as refused.
    pub fn ask_gate(&self, request: &Request) -> io::Result<()> {
        let Some(gate) = &self.gate else { return Ok(()) };
        guard::call(|| gate(request)).unwrap_or_else(|text| Err(io::Error::other(format!("the gate panicked: {text}"))))
    }

    /// Wakes drivers when commands wait or the factory stops.
    pub fn wake(&self) -> &Signal {
        &self.shared.wake
    }

    /// Counts what must end before a stop is done.
    pub fn lives(&self) -> &Arc<Lives> {
        &self.lives
    }

    pub(crate) fn roster(&self) -> &Arc<Roster> {
        &self.roster
    }

    pub(crate) fn observer(&self) -> Option<Observer> {
        self.shared.observer.clone()
    }

    /// Tells the observer.
    pub fn observe(&self, observed: &Observed<'_>) {
        self.shared.observe(observed);
    }

    /// The informer of a type and scope: the one that is there, or a new one, which the next start starts. One whose driver
    /// died is not there any more. A resource
    /// with namespaces has the index `namespace` from the beginning.
    ///
    /// One scope that is read as two types is two informers, each with its list, watch and cache, as in the core's
    /// [`Registry`](informer_core::factory::Registry): a typed and a metadata-only view cannot share what they keep.
    ///
    /// # Errors
    ///
    /// If there is one with other options; if the factory was stopped; [`Error::Offline`] if there
    /// [is no server](Config::offline).
    pub fn informer<T: Send + Sync + 'static>(&self, spec: InformerSpec<T>) -> Result<InformerHandle<T>, Error> {
        self.refuse_offline(&spec)?;
        self.roster.informer(spec, &self.shared, false)
    }

    /// The same, counted: the informer stops when the last lease on it is dropped, unless somebody asked for it without
    /// one.
    ///
    /// # Errors
    ///
    /// As [`informer`](Self::informer).
    pub fn lease<T: Send + Sync + 'static>(&self, spec: InformerSpec<T>) -> Result<(InformerHandle<T>, Lease), Error> {
        self.refuse_offline(&spec)?;
        let handle = self.roster.informer(spec, &self.shared, true)?;
        let lease = Lease::counted(&handle);
        Ok((handle, lease))
    }

    fn refuse_offline<T>(&self, spec: &InformerSpec<T>) -> Result<(), Error> {
        match self.config.is_offline() {
            true => Err(Error::Offline(Scope::of(&spec.config.reflector).to_string())),
            false => Ok(()),
        }
    }

    /// An informer that is given its objects by hand, and what gives them: see [`crate::feeder`]. It can be fed at once; the
    /// next start starts what happens while nobody feeds.
    ///
    /// # Errors
    ///
    /// If there is an informer of this type and resource, for one has one source; if the factory was stopped.
    pub fn fed<T: Send + Sync + 'static>(&self, spec: FedSpec<T>) -> Result<(InformerHandle<T>, Feeder<T>), Error> {
        self.roster.fed(spec, &self.shared)
    }

    /// The informers that were asked for since the last start. The caller drives them; none after a stop.
    pub fn take_unstarted(&self) -> Vec<Box<dyn Drive>> {
        self.roster.take_unstarted()
    }

    /// The informers that have no complete list yet or whose driver died, and why.
    pub fn lagging(&self) -> Vec<Lagging> {
        // An informer that is asked to stop leaves the roster first.
        let dead = |status: &Status| status.stopped.load(Ordering::Acquire) && !self.is_stopping();
        self.roster.statuses().iter().filter_map(|status| status.lagging(dead(status))).collect()
    }

    /// Looks whether all informers have their first list: `Ok(None)` if so, else the generation of
    /// [`changed`](Self::changed) to wait past.
    ///
    /// # Errors
    ///
    /// If the factory was stopped, the driver of an informer died, or one was never started: then no waiting helps.
    pub fn check_synced(&self) -> Result<Option<u64>, Error> {
        let seen = self.shared.changed.generation();
        let lagging = self.lagging();
        if lagging.is_empty() {
            return Ok(None);
        }
        if self.is_stopping() {
            return Err(Error::Stopped);
        }
        if lagging.iter().any(|one| one.dead || !one.started) {
            return Err(Error::NotSynced(lagging));
        }
        Ok(Some(seen))
    }

    /// Told when an informer syncs, fails, or stops.
    pub fn changed(&self) -> &Arc<Signal> {
        &self.shared.changed
    }

    /// Waits on this thread until all informers have their first list, at most for `within`.
    ///
    /// # Errors
    ///
    /// As [`check_synced`](Self::check_synced); when the time is over, which informers lag and why.
    pub fn wait_synced(&self, within: Duration) -> Result<(), Error> {
        guard::refuse_inside("synced()")?;
        let deadline = deadline(Instant::now(), within);
        loop {
            let Some(seen) = self.check_synced()? else { return Ok(()) };
            if !self.shared.changed.wait_past(seen, Some(deadline)) && Instant::now() >= deadline {
                return self.check_synced()?.map_or(Ok(()), |_| Err(Error::NotSynced(self.lagging())));
            }
        }
    }

    /// Asks everything to stop; does not wait.
    pub fn request_stop(&self) {
        self.roster.close();
        self.shared.helpers.close();
        self.shared.wake.notify();
        self.shared.changed.notify();
    }

    /// Holds the drivers up, or lets them go on: for tests that make time pass while an informer does not run. Events
    /// wait in order meanwhile; after the release timers fire first, then the events come. A stop is not held up.
    pub fn hold(&self, held: bool) {
        self.held.store(held, Ordering::Release);
        self.shared.wake.notify();
    }

    /// True while drivers must not run.
    pub fn is_held(&self) -> bool {
        self.held.load(Ordering::Acquire) && !self.is_stopping()
    }

    /// True once a stop was asked for.
    pub fn is_stopping(&self) -> bool {
        self.roster.is_stopping()
    }
}

/// Counts threads, tasks and calls that must end before a stop is done.
#[derive(Default)]
pub struct Lives {
    count: AtomicUsize,
    signal: Signal,
}

/// One counted life; it ends when this is dropped.
pub struct Life(Arc<Lives>);

impl Lives {
    /// Counts one more.
    pub fn enter(self: &Arc<Self>) -> Life {
        self.count.fetch_add(1, Ordering::AcqRel);
        Life(Arc::clone(self))
    }

    /// How many live.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Told when one ends.
    pub fn signal(&self) -> &Signal {
        &self.signal
    }

    /// Waits on this thread until none lives, at most for `within`.
    ///
    /// # Errors
    ///
    /// [`Error::StillRunning`] when the time is over.
    pub fn wait_none(&self, within: Duration) -> Result<(), Error> {
        let deadline = deadline(Instant::now(), within);
        loop {
            let seen = self.signal.generation();
            match self.count() {
                0 => return Ok(()),
                left if Instant::now() >= deadline => return Err(Error::StillRunning(left)),
                _ => {
                    self.signal.wait_past(seen, Some(deadline));
                }
            }
        }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::AcqRel);
        self.0.signal.notify();
    }
}
