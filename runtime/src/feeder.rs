//! [`Feeder`]: an informer that is given its objects by hand, and reads no server.
//!
//! For a cache of what is no Kubernetes API, for a store that threads share, and for the test of a controller. What users
//! hold is the same [`InformerHandle`] as ever: listers, indexes, handlers of all forms, resync; a controller takes it for
//! a source.
//!
//! ```text
//!  Feeder ── list, apply ──► ┌──────┐
//!                            │ Seat │ ── whoever has it drives: commits, notifies, fires timers
//!  adapter ── Drive ───────► └──────┘
//! ```
//!
//! Whoever feeds carries out: when a call returns, the cache has what was fed, and each handler's ring has been told. It
//! works before the start, too; the adapter is needed for what happens while nobody feeds: handlers that come and go,
//! resyncs, the stop. It never waits for a feeder, and a feeder waits only while another one, or the adapter, drives.
//!
//! Nothing that is fed gets lost unseen. What is not taken comes back with the error ([`Refused`]). What is taken and cannot
//! be an object of the cache is put aside, the call succeeds, and observers are told why
//! ([`Failure::quarantined`](informer_core::reflector::Failure::quarantined)):
//!
//! - an object on which an index function panics, once per version. The last good object of its key stays, and counts as
//!   stale until a newer one comes; the version of the cache moves on;
//! - an object without a name, each time: nobody can ask for it. The rest of its call is applied;
//! - a deletion of what the cache does not have, which includes one without a name, changes nothing, and nobody is told.
//!
//! What changes have replaced is dropped by whoever feeds next, in place of the handler that was told of it last: that is
//! cheaper, as long as many come. After a call of fewer than [`COMMIT_EVENTS`] changes nothing is kept for that, and after
//! a larger one until an adapter has had a turn without work, which is some seconds.
//!
//! ```
//! use informer_core::fed::Change;
//! use informer_core::{Key, Obj, Resource, Uid, Version};
//! use informer_runtime::Config;
//! use informer_runtime::factory::{FactoryCore, FactoryOptions};
//! use informer_runtime::feeder::FedSpec;
//!
//! let factory = FactoryCore::new(Config::from_url("http://127.0.0.1:1")?, FactoryOptions::default());
//! let lights = Resource::namespaced("example.com", "v1", "lights", "Light");
//! let (informer, feeder) = factory.fed(FedSpec::<bool>::of(lights))?;
//! let by_state = informer.index("on", |on| **on);
//!
//! let light = |name: &str, version: &str, on: bool| {
//!     Obj::new(Key::new("hall", name), Uid::new(name), Version::new(version), on)
//! };
//! feeder.list([light("a", "1", true), light("b", "2", true)], Version::new("2"))?;
//! feeder.apply(Change::Applied(light("a", "3", false)))?;
//! feeder.apply(Change::Deleted(light("b", "4", true)))?;
//! assert_eq!((informer.lister().len(), by_state.get(&false).len()), (1, 1));
//! feeder.delete(&Key::new("hall", "a"))?; // all that the source knows
//! assert!(informer.lister().is_empty() && feeder.version() == *"4");
//! # Ok::<(), informer_runtime::Error>(())
//! ```

#[cfg(all(test, shuttle))]
mod schedules;

use crate::driver::{Drive, InformerDriver, IoAction, IoEvent};
use crate::error::Error;
use crate::factory::{Life, Shared};
use crate::guard;
use crate::guard::section::{self, Held, Level, Section};
use crate::informer::{InformerHandle, InformerSpec, Inner};
use crate::mutation::MutationCheck;
use crate::replaced::Quiet;
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, Condvar, Mutex, deadline};
use informer_core::decode::Codec;
use informer_core::fed::{Change, Fed};
use informer_core::fifo::{COMMIT_EVENTS, QueueKind};
use informer_core::informer::InformerConfig;
use informer_core::object::DecodeError;
use informer_core::time::{Duration, Time};
use informer_core::{DynamicObject, Key, Obj, Object, Resource, Version};
use std::fmt;
use std::time::Instant;

/// An informer without a server: what it is of, and how its handlers are served. Objects come built, so there is nothing
/// to decode or to transform; and each has one [`Feeder`], so it is shared by its handle and never by its spec.
pub struct FedSpec<T> {
    resource: Resource,
    resync: Duration,
    queue: QueueKind,
    mutations: Option<MutationCheck<T>>,
}

impl<T: Object> FedSpec<T> {
    /// Of a type that has a resource of its own.
    #[allow(clippy::new_without_default)] // what it is of depends on the type; nobody wants it by default
    pub fn new() -> Self {
        const { assert!(!T::DYNAMIC, "this type stands for many resources: use FedSpec::of(resource)") };
        FedSpec::of(T::resource())
    }
}

impl<T> FedSpec<T> {
    /// Of any type, which need not be an [`Object`], under the name of a resource.
    pub fn of(resource: Resource) -> Self {
        FedSpec { resource, resync: Duration::ZERO, queue: QueueKind::default(), mutations: None }
    }

    /// Repeats every object to the handlers in this period; at least a second. Never by default.
    #[must_use]
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = period;
        self
    }

    /// In which order changes that are fed together are applied. As they come by default.
    #[must_use]
    pub fn queue(mut self, queue: QueueKind) -> Self {
        self.queue = queue;
        self
    }

    /// Looks for changes of cached objects, which a type with interior mutability allows; see [`crate::mutation`].
    #[must_use]
    pub fn check_mutations(mut self, check: MutationCheck<T>) -> Self {
        self.mutations = Some(check);
        self
    }
}

impl<T: 'static> FedSpec<T> {
    pub(crate) fn into_spec(self) -> InformerSpec<T> {
        let mut config = InformerConfig::new(self.resource.clone());
        (config.fed, config.queue) = (true, self.queue);
        // There is never anything to decode.
        let codec = Codec::<DynamicObject>::new(self.resource)
            .map(|_| Err(DecodeError::new("an informer that is fed decodes nothing")));
        let (resync, mutations) = (self.resync, self.mutations);
        InformerSpec { codec, config, resync, transform: String::new(), schema: None, saved: None, mutations }
    }
}

impl<T> fmt::Debug for FedSpec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "informer of {}, fed by hand", self.resource)
    }
}

/// Feeds one informer; its [`FactoryCore::fed`](crate::factory::FactoryCore::fed) made it. May be called from several
/// threads, and from handlers, of this informer too: each call is whole before the next one begins.
///
/// Dropping it leaves the informer as it is.
///
/// The source is believed, so what it feeds decides, and not what the cache has:
///
/// - a change of an older version replaces the newer one, and handlers are told of it as of any other;
/// - an object of [`list`](Self::list) at the uid and version that the cache has is the same one: the cache keeps its own,
///   and nobody is told. A source that changes an object must give it another version, or [`apply`](Self::apply) it;
/// - an object without a version always counts as changed, and the version for which the cache stands stays. That one, and
///   of a whole list without a version, cannot be waited for;
/// - another uid under the same key is another object: handlers are told of a deletion, then of an addition.
pub struct Feeder<T> {
    seat: Arc<Seat<T>>,
    inner: Arc<Inner<T>>,
}

impl<T: Send + Sync + 'static> Feeder<T> {
    /// Joins a new driver to what an adapter drives, and to what feeds it.
    pub(crate) fn new(
        mut driver: InformerDriver<T>,
        inner: Arc<Inner<T>>,
        shared: &Arc<Shared>,
    ) -> (Self, FedDrive<T>) {
        let life = driver.take_life();
        let place =
            Place { driver: Some(Box::new(driver)), missed: false, ended: false, broken: false, promised: None };
        let seat = Arc::new(Seat { place: Mutex::new(place), free: Condvar::new(), shared: Arc::clone(shared) });
        let drive = FedDrive { seat: Arc::clone(&seat), inner: Arc::clone(&inner), owed: None, _life: life };
        (Feeder { seat, inner }, drive)
    }

    /// The complete state, which stands for `version`: what the cache has and the list has not is deleted, with an unknown
    /// final state. An object at the uid and version that the cache has is the same one, and nobody is told of it. May be
    /// empty, and so may the version: then it cannot be waited for.
    ///
    /// # Errors
    ///
    /// With all objects; nothing has changed then. See [`Refusal`].
    pub fn list(
        &self,
        objects: impl IntoIterator<Item = Obj<T>>,
        version: Version,
    ) -> Result<(), Refused<Vec<Obj<T>>>> {
        let objects: Vec<_> = objects.into_iter().collect();
        let refused = |fed, why| Err(self.refused(fed, why));
        let mut turn = match self.seat.wait() {
            Ok(turn) => turn,
            Err(why) => return refused(objects, why),
        };
        match turn.refusal(true) {
            Some(why) => refused(objects, why),
            None => {
                turn.feed(Fed::list(objects, version), &self.inner);
                Ok(())
            }
        }
    }

    /// One change.
    ///
    /// # Errors
    ///
    /// With the change, which was not applied. See [`Refusal`].
    pub fn apply(&self, change: Change<T>) -> Result<(), Refused<Change<T>>> {
        let mut turn = match self.seat.wait() {
            Ok(turn) => turn,
            Err(why) => return Err(self.refused(change, why)),
        };
        match turn.refusal(false) {
            Some(why) => Err(self.refused(change, why)),
            None => {
                turn.feed_changes([change], &self.inner);
                Ok(())
            }
        }
    }

    /// That the object of `key` is gone, for a source that does not know its last state. Handlers are told of the deletion
    /// with what the cache had (`final_state_known` is false); the version for which the cache stands stays. Of a key that
    /// the cache does not have it changes nothing. Of a cluster-scoped object the name alone counts.
    ///
    /// # Errors
    ///
    /// With the change, which was not applied. See [`Refusal`].
    pub fn delete(&self, key: &Key) -> Result<(), Refused<Change<T>>> {
        self.apply(Change::DeletedKey(key.clone()))
    }

    /// Changes, in their order; cheaper than one by one. They are taken in parts of [`COMMIT_EVENTS`], and after each one
    /// it is seen whether a handler is full.
    ///
    /// # Errors
    ///
    /// With the changes that were not applied, in their order; those before them were. See [`Refusal`].
    pub fn apply_all(&self, changes: impl IntoIterator<Item = Change<T>>) -> Result<(), Refused<Vec<Change<T>>>> {
        // Whatever the iterator does, it does before this thread has the driver. The memory is not kept for the next
        // call: where nothing large is allocated for long, glibc merges all that was freed since at once, and the
        // driver stands for that.
        let mut changes = changes.into_iter().collect::<Vec<_>>().into_iter();
        let refused = |fed, why| Err(self.refused(fed, why));
        let mut turn = match self.seat.wait() {
            Ok(turn) => turn,
            Err(why) => return refused(changes.collect(), why),
        };
        while changes.len() > 0 {
            if let Some(why) = turn.refusal(false) {
                return refused(changes.collect(), why);
            }
            turn.feed_changes(changes.by_ref().take(COMMIT_EVENTS), &self.inner);
        }
        Ok(())
    }

    fn refused<F>(&self, fed: F, why: Refusal) -> Refused<F> {
        Refused { fed, informer: self.inner.status.subject.to_string(), why }
    }

    /// What the cache stands for: the version of the last list, or of the last change that had one.
    pub fn version(&self) -> Version {
        self.inner.store.read(|store| store.version().to_version())
    }

    /// The informer that it feeds.
    pub fn informer(&self) -> InformerHandle<T> {
        InformerHandle(Arc::clone(&self.inner))
    }

    /// Waits on this thread until no handler is full, or the informer has stopped, at most for `within`; whether the next
    /// call is taken is seen there.
    ///
    /// # Errors
    ///
    /// [`Error::WouldDeadlock`] inside a handler or reconciler, which may be the one that is full, and inside an
    /// asynchronous runtime, where `room()` can be awaited.
    pub fn wait_room(&self, within: Duration) -> Result<(), Error> {
        guard::refuse_inside("wait_room()")?;
        if self.inner.in_async_runtime() {
            let place = "an asynchronous runtime, where room() can be awaited";
            return Err(Error::WouldDeadlock { what: "wait_room()", place: place.into() });
        }
        let deadline = deadline(Instant::now(), within);
        loop {
            let seen = self.seat.shared.wake.generation();
            if self.has_room() || Instant::now() >= deadline {
                return Ok(());
            }
            self.seat.shared.wake.wait_past(seen, Some(deadline));
        }
    }

    /// The same for a task, for as long as its future is kept.
    #[cfg(feature = "async")]
    pub async fn room(&self) {
        loop {
            let seen = self.seat.shared.wake.generation();
            if self.has_room() {
                return;
            }
            self.seat.shared.wake.past(seen).await;
        }
    }

    fn has_room(&self) -> bool {
        self.seat.has_room()
    }
}

impl<T> fmt::Debug for Feeder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "feeder of {}", self.inner.status.subject)
    }
}

/// Why nothing is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// A handler has the informer wait ([`Overflow::Pause`](informer_core::listener::Overflow::Pause)).
    /// [`Feeder::wait_room`] and `Feeder::room` wait until it has taken some.
    Full {
        /// Its name.
        handler: String,
    },
    /// Changes came before the first list. Nobody knows what they are changes of.
    NoList,
    /// The informer, or its factory, was stopped.
    Stopped,
    /// The call was made by an observer, an index function or other code of the user's that an informer calls while it is
    /// fed, or a cache while it changes: this one or another, for two that feed each other would wait for each other.
    /// Handlers may feed.
    Inside {
        /// Where, with the name of what calls it.
        place: String,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Full { handler } => write!(
                f,
                "handler {handler:?} is full and has its informer wait (Overflow::Pause): feed the rest when it has taken some"
            ),
            Refusal::NoList => {
                f.write_str("changes were fed before the first list: feed the complete state first, which may be empty")
            }
            Refusal::Stopped => f.write_str("the informer was stopped: what is fed would reach nobody"),
            Refusal::Inside { place } => write!(
                f,
                "an informer was fed inside {place}, and might wait for itself: feed it from a handler or another thread"
            ),
        }
    }
}

/// What was not taken, and why.
pub struct Refused<F> {
    /// What comes back.
    pub fed: F,
    /// What the informer keeps that did not take it, as in `lights.example.com`.
    pub informer: String,
    /// Why.
    pub why: Refusal,
}

impl<F> fmt::Display for Refused<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.informer, self.why)
    }
}

impl<F> fmt::Debug for Refused<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<F> std::error::Error for Refused<F> {}

impl<F> From<Refused<F>> for Error {
    /// Lets go of what was not taken.
    fn from(refused: Refused<F>) -> Self {
        Error::NotFed { informer: refused.informer, why: refused.why }
    }
}

/// Who drives: the driver is here, or with one thread.
pub(crate) struct Seat<T> {
    place: Mutex<Place<T>>,
    /// The driver came back, and a feeder waits for it.
    free: Condvar,
    shared: Arc<Shared>,
}

struct Place<T> {
    /// Away while a thread drives, so that what it calls runs under no lock.
    driver: Option<Box<InformerDriver<T>>>,
    /// The adapter, or who waits for room, came while the driver was away: they are woken when that is back.
    missed: bool,
    /// The adapter is gone, and the informer ends with it.
    ended: bool,
    /// The driver is gone for good: a panic has left it with half of a step done.
    broken: bool,
    /// When the adapter will come by itself.
    promised: Option<Time>,
}

/// The right to drive; dropping it gives the driver back.
struct Turn<'a, T: Send + Sync + 'static> {
    seat: &'a Seat<T>,
    /// Here until it is given back.
    driver: Option<Box<InformerDriver<T>>>,
    /// When the machine wants to be called again, if this thread has asked it.
    due: Option<Time>,
    /// As much was fed as a busy source has: more may well come at once.
    busy: bool,
    /// The thread was unwinding before.
    unwinds: bool,
    /// Left when the driver is back.
    _section: Section,
}

impl<T: Send + Sync + 'static> Seat<T> {
    /// Waits for the driver, unless that may wait for this thread.
    fn wait(&self) -> Result<Turn<'_, T>, Refusal> {
        if let Some(place) = section::inside(Level::Fed) {
            return Err(Refusal::Inside { place });
        }
        let mut place = self.place.lock();
        loop {
            if let Some(driver) = place.driver.take() {
                return Ok(self.turn(driver));
            }
            if place.broken {
                return Err(Refusal::Stopped);
            }
            place = self.free.wait(place);
        }
    }

    /// True if no handler is full, or the next call says at once why nothing is taken. While another thread drives nobody
    /// knows, and nobody waits here: `wake` is told when the driver is back.
    fn has_room(&self) -> bool {
        if section::inside(Level::Fed).is_some() {
            return true;
        }
        let mut place = self.place.lock();
        match &place.driver {
            Some(driver) => driver.full().is_none(),
            None if place.broken => true,
            None => {
                place.missed = true;
                false
            }
        }
    }

    /// The driver, if it is here; else its adapter is woken when it is.
    fn try_take(&self) -> Option<Turn<'_, T>> {
        let mut place = self.place.lock();
        let Some(driver) = place.driver.take() else {
            place.missed = true;
            return None;
        };
        Some(self.turn(driver))
    }

    fn turn(&self, driver: Box<InformerDriver<T>>) -> Turn<'_, T> {
        let section = section::enter(Held::Seat(driver.subject()));
        let unwinds = std::thread::panicking();
        Turn { seat: self, driver: Some(driver), due: None, busy: false, unwinds, _section: section }
    }

    /// The adapter is gone: whoever has the driver ends it, or it ends here.
    fn end(&self) {
        self.place.lock().ended = true;
        drop(self.try_take());
    }
}

impl<T: Send + Sync + 'static> Turn<'_, T> {
    fn driver_mut(&mut self) -> &mut InformerDriver<T> {
        self.driver.as_mut().expect("it is given back last")
    }

    fn now(&self) -> Time {
        self.seat.shared.clock.now()
    }

    /// Does what waits, timers and commands; then says whether more is taken.
    fn refusal(&mut self, list: bool) -> Option<Refusal> {
        let now = self.now();
        let driver = self.driver_mut();
        driver.handle(now, IoEvent::Tick);
        let due = driver.run(now);
        let refusal = driver.refusal(now, list);
        self.due = due;
        refusal
    }

    fn feed_changes(&mut self, changes: impl IntoIterator<Item = Change<T>>, inner: &Inner<T>) {
        let changes = changes.into_iter().map(|change| match change {
            Change::DeletedKey(key) => Change::DeletedKey(inner.store.key(key)),
            with_object @ (Change::Applied(_) | Change::Deleted(_)) => with_object,
        });
        let fed = self.driver_mut().changes(changes);
        self.feed(fed, inner);
    }

    fn feed(&mut self, mut fed: Fed<T>, inner: &Inner<T>) {
        self.busy |= !fed.is_list() && fed.len() >= COMMIT_EVENTS;
        // An index may go while its function is asked, and then its function with this.
        let indexers = Quiet::new(inner.store.read(|store| {
            fed.probe(store);
            store.indexers()
        }));
        fed.index(&indexers, &guard::CatchUnwind);
        let now = self.now();
        self.due = self.driver_mut().feed(now, fed);
    }
}

impl<T: Send + Sync + 'static> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        let (seat, Some(mut driver)) = (self.seat, self.driver.take()) else { return };
        let broken = std::thread::panicking() && !self.unwinds;
        if broken {
            drop(driver); // which ends its handlers
            let mut place = seat.place.lock();
            place.broken = true;
            drop(place);
            seat.free.notify_all();
            seat.shared.wake.notify();
            return;
        }
        driver.pause(self.busy);
        let mut place = seat.place.lock();
        if place.ended {
            drop(place);
            driver.end(seat.shared.clock.now());
            place = seat.place.lock();
        }
        let sooner = self.due.is_some_and(|due| place.promised.is_none_or(|promised| due < promised));
        if sooner {
            place.promised = self.due;
        }
        place.driver = Some(driver);
        let wake = std::mem::take(&mut place.missed) || sooner;
        drop(place);
        seat.free.notify_one();
        if wake {
            seat.shared.wake.notify();
        }
    }
}

/// What the adapter drives. It never waits: a turn that it misses is made up for when it is woken.
pub(crate) struct FedDrive<T: Send + Sync + 'static> {
    seat: Arc<Seat<T>>,
    inner: Arc<Inner<T>>,
    /// It could not be told.
    owed: Option<Owed>,
    _life: Option<Life>,
}

#[derive(Clone, Copy)]
enum Owed {
    Tick,
    Stop,
}

impl Owed {
    fn event(self) -> IoEvent<'static> {
        match self {
            Owed::Tick => IoEvent::Tick,
            Owed::Stop => IoEvent::Stop,
        }
    }
}

impl<T: Send + Sync + 'static> Drive for FedDrive<T> {
    fn handle(&mut self, now: Time, event: IoEvent<'_>) {
        // Nothing was sent, so nothing of a request can come.
        let event = if matches!(event, IoEvent::Stop) { Owed::Stop } else { self.owed.unwrap_or(Owed::Tick) };
        match self.seat.try_take() {
            Some(mut turn) => {
                self.owed = None;
                turn.driver_mut().handle(now, event.event());
            }
            None => self.owed = Some(event),
        }
    }

    fn poll(&mut self, now: Time) -> IoAction {
        let Some(mut turn) = self.seat.try_take() else { return IoAction::Wait(None) };
        if let Some(owed) = self.owed.take() {
            turn.driver_mut().handle(now, owed.event());
        }
        let action = turn.driver_mut().poll(now);
        if let IoAction::Wait(deadline) = &action {
            self.seat.place.lock().promised = deadline.map(|deadline| deadline.at);
        }
        action
    }

    fn rest(&mut self) {
        if let Some(mut turn) = self.seat.try_take() {
            turn.driver_mut().rest();
        }
    }

    fn is_stopped(&self) -> bool {
        self.inner.status.stopped.load(Ordering::Acquire)
    }
}

impl<T: Send + Sync + 'static> Drop for FedDrive<T> {
    /// Without an adapter nobody would end the handlers.
    fn drop(&mut self) {
        self.seat.end();
    }
}
