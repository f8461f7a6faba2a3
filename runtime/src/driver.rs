//! [`Drive`]: one informer's machine with its store and rings, so that an adapter sees IO and nothing else.
//!
//! An adapter is what stands between this and sockets, a clock, and threads or tasks. One without sockets, whose server
//! has an answer ready:
//!
//! ```
//! use informer_core::reflector::{End, ListStrategy};
//! use informer_core::wire::{Head, Request, Verb};
//! use informer_core::{DynamicObject, Resource};
//! use informer_runtime::Config;
//! use informer_runtime::driver::{Drive, IoAction, IoEvent};
//! use informer_runtime::factory::{FactoryCore, FactoryOptions};
//! use informer_runtime::informer::InformerSpec;
//!
//! let factory = FactoryCore::new(Config::from_url("http://127.0.0.1:8001")?, FactoryOptions::default());
//! let pods = Resource::namespaced("", "v1", "pods", "Pod");
//! let pods = factory.informer(InformerSpec::<DynamicObject>::of(pods).strategy(ListStrategy::Paged))?;
//! let clock = factory.clock();
//!
//! // One event in, and out comes what is to be sent; then nothing is to be done until the deadline.
//! let step = |drive: &mut dyn Drive, event: IoEvent<'_>| -> Vec<Request> {
//!     let mut requests = Vec::new();
//!     drive.handle(clock.now(), event);
//!     loop {
//!         match drive.poll(clock.now()) {
//!             IoAction::Send(request) => requests.push(request),
//!             IoAction::Cancel(_) | IoAction::Pause(_) | IoAction::Resume(_) => {} // there is no connection
//!             IoAction::Wait(_deadline) => {
//!                 drive.rest(); // nothing has come meanwhile
//!                 return requests;
//!             }
//!         }
//!     }
//! };
//! let mut drive = factory.take_unstarted().remove(0);
//! let list = step(&mut *drive, IoEvent::Start).remove(0);
//! assert_eq!(list.target(), "/api/v1/pods?limit=500&resourceVersion=0");
//!
//! let body = br#"{"kind": "PodList", "metadata": {"resourceVersion": "5"}, "items": [
//!     {"metadata": {"namespace": "web", "name": "a", "uid": "u", "resourceVersion": "4"}}]}"#;
//! step(&mut *drive, IoEvent::Head(list.id, &Head::new(200)));
//! step(&mut *drive, IoEvent::Body(list.id, body));
//! let next = step(&mut *drive, IoEvent::End(list.id, &End::Closed));
//! assert_eq!(next[0].verb, Verb::Watch);
//! assert_eq!(pods.lister().len(), 1);
//! # Ok::<(), informer_runtime::Error>(())
//! ```

use crate::factory::Life;
use crate::feeder::Refusal;
use crate::guard;
use crate::guard::section::{self, Held, Section};
use crate::handler::{Channel, Pushed};
use crate::informer::{Command, InformerSpec, Inner};
use crate::mutation::Detector;
use crate::observe::{Observed, random_seed};
use crate::replaced::{Quiet, Replaced, drop_each, drop_quietly};
use crate::sync::Arc;
use crate::sync::atomic::Ordering;
use crate::trace::Span;
use informer_core::decode::Codec;
use informer_core::fed::{Change, Fed};
use informer_core::informer::{HandlerId, Informer, Input, Notice, Output};
use informer_core::listener::Batch;
use informer_core::reflector::{End, Phase};
use informer_core::store::Snapshot;
use informer_core::time::{Deadline, Duration, Time};
use informer_core::wire::{Head, Request, RequestId};

/// What an adapter tells an informer.
#[derive(Debug)]
pub enum IoEvent<'a> {
    /// Begin.
    Start,
    /// End for good.
    Stop,
    /// Time passed, or commands wait.
    Tick,
    /// The connection of a request stands.
    Connected(RequestId),
    /// The head of an answer.
    Head(RequestId, &'a Head),
    /// A part of a body.
    Body(RequestId, &'a [u8]),
    /// An answer, or the attempt to get one, is over.
    End(RequestId, &'a End),
}

/// What an informer asks of an adapter.
#[derive(Debug)]
pub enum IoAction {
    /// Send it, and report what comes under its id.
    Send(Request),
    /// Close its connection.
    Cancel(RequestId),
    /// Read no more of its body.
    Pause(RequestId),
    /// Read on.
    Resume(RequestId),
    /// Nothing to do until an event, a command or this deadline.
    Wait(Option<Deadline>),
}

/// The most bytes of a body that an adapter hands over, if they are there already, before it polls: small pieces then are
/// decoded as one batch. Beyond it timers would wait.
pub const GATHER: usize = 256 * 1024;

/// One informer, driven. [`handle`](Drive::handle) an event, then [`poll`](Drive::poll) until it says `Wait`. Parts of one
/// body that are there already may be handed over together before the poll, up to [`GATHER`].
pub trait Drive: Send {
    /// Takes commands that wait, then the event.
    fn handle(&mut self, now: Time, event: IoEvent<'_>);
    /// The next thing to do. Decodes, commits and notifies on the way.
    fn poll(&mut self, now: Time) -> IoAction;
    /// True if the informer has stopped and needs no driver any more.
    fn is_stopped(&self) -> bool;
    /// Counts one that must end before this informer has stopped: a thread or task that carries out a request.
    fn enter(&self) -> Option<Life> {
        None
    }
    /// Nothing has come, and the adapter is about to wait. What was kept for the next event is let go of.
    fn rest(&mut self) {}
}

/// The longest that an informer which runs lets its driver sleep: a suspend of the machine stops the clock that drivers
/// sleep by, and nothing else wakes one whose watch is half-open since. Waking up costs a few microseconds.
pub const WALL_CLOCK_EVERY: Duration = Duration::from_secs(10);

/// How far the wall clock and that of the drivers must part before the machine is told: clocks that are slewed part too,
/// by half a millisecond in a second.
const DRIFT: Duration = Duration::from_secs(2);

pub(crate) struct InformerDriver<T> {
    machine: Informer<T>,
    codec: Quiet<Codec<T>>,
    inner: Arc<Inner<T>>,
    shared: Arc<crate::factory::Shared>,
    waiting: Vec<Arc<Channel<T>>>,
    attached: Vec<Arc<Channel<T>>>,
    /// Made by the first event: a subscriber is code of the user's, and nothing of it runs where informers are made.
    span: Option<Span>,
    replaced: Replaced<T>,
    /// There are notifications that handlers may not know of.
    unheard: bool,
    /// Observers were told that handlers hold this up.
    told_held_up: bool,
    /// What the machine was told of the wall clock, and when.
    wall: Option<(Duration, Time)>,
    detector: Option<Quiet<Box<Detector<T>>>>,
    life: Option<Life>,
}

impl<T: Send + Sync + 'static> InformerDriver<T> {
    pub(crate) fn new(spec: InformerSpec<T>, inner: Arc<Inner<T>>, shared: Arc<crate::factory::Shared>) -> Self {
        let machine = Informer::new(spec.config, shared.fixed_seed.unwrap_or_else(random_seed));
        let (waiting, attached) = (Vec::new(), Vec::new());
        let (replaced, life) = (Replaced::new(), inner.status.lives.enter());
        let (codec, wall) = (Quiet::new(spec.codec), None);
        let detector = spec.mutations.map(|check| Quiet::new(Box::new(Detector::new(check))));
        InformerDriver {
            machine,
            codec,
            inner,
            shared,
            waiting,
            attached,
            span: None,
            replaced,
            unheard: false,
            told_held_up: false,
            wall,
            detector,
            life: Some(life),
        }
    }

    /// What it reads, or is fed.
    pub(crate) fn subject(&self) -> Arc<str> {
        Arc::clone(&self.inner.status.subject)
    }

    /// Whatever user code runs while this drives, it is waited for.
    fn driving(&self) -> Section {
        section::enter(Held::Driver(self.subject()))
    }

    /// What runs code of the user's and comes before the first event: no lock is held any more.
    fn begin(&mut self) {
        if self.span.is_none() {
            self.span = Some(Span::new(&self.inner.status.subject));
            if let Some(detector) = &mut self.detector {
                detector.begin(&self.inner.store.snapshot());
            }
        }
    }

    /// Tells the machine what the wall clock says, if it cannot know.
    fn wall_clock(&mut self, now: Time) {
        let Ok(unix) = guard::call(|| (self.shared.wall_clock)()) else { return };
        let known = self.wall.map(|(then, at)| then.saturating_add(now.since(at)));
        if known.is_none_or(|known| unix.abs_diff(known) >= DRIFT) {
            self.wall = Some((unix, now));
            self.machine.handle(now, Input::WallClock(unix));
        }
    }

    fn commands(&mut self, now: Time) {
        let commands = std::mem::take(&mut *self.inner.mailbox.lock());
        for command in commands {
            match command {
                Command::Add { channel, resync } => {
                    let id = channel.id();
                    self.waiting.push(channel);
                    self.machine.handle(now, Input::AddHandler { id, resync });
                }
                Command::Remove(id) => self.machine.handle(now, Input::RemoveHandler { id }),
                Command::Room(id) => {
                    // It may be full again by now; one that is gone holds up nothing.
                    let full = self.attached.iter().any(|channel| channel.id() == id && channel.is_full());
                    if !full {
                        self.inner.status.goes_on_without(id);
                    }
                    self.machine.handle(now, Input::Backlog { id, full });
                }
                Command::Refresh => self.machine.handle(now, Input::Refresh),
            }
        }
        if self.inner.status.leaving.load(Ordering::Acquire) && self.machine.phase() != Phase::Stopped {
            self.machine.handle(now, Input::Stop);
        }
    }

    /// Wakes the handlers that wait, if there is something new.
    fn wake(&mut self) {
        if std::mem::take(&mut self.unheard) {
            self.attached.iter().for_each(|channel| channel.wake());
        }
    }

    /// Pushes a batch to every ring, and tells the machine of those that cannot take it.
    fn deliver(&mut self, now: Time, batch: &Batch<T>) {
        let mut fallen = Vec::new();
        for channel in &self.attached {
            match channel.push(batch) {
                Pushed::Kept => {}
                Pushed::Full => {
                    self.inner.status.waits_for(channel.id(), channel.name());
                    self.machine.handle(now, Input::Backlog { id: channel.id(), full: true });
                }
                Pushed::Fallen => fallen.push(Arc::clone(channel)),
            }
        }
        self.unheard = true;
        for channel in fallen {
            channel.disconnect();
            self.shared.observe(&Observed::HandlerDisconnected { handler: channel.name() });
            self.machine.handle(now, Input::RemoveHandler { id: channel.id() });
        }
    }

    #[allow(clippy::wildcard_enum_match_arm)] // a new notice is for observers until a status wants it
    fn notice(&self, notice: &Notice) {
        let status = &self.inner.status;
        match notice {
            Notice::Phase(phase) => {
                *status.phase.lock() = *phase;
                if *phase == Phase::Watching {
                    *status.failure.lock() = None;
                }
            }
            Notice::Failure(failure) => *status.failure.lock() = Some(failure.clone()),
            Notice::Synced => status.synced.store(true, Ordering::Release),
            // Observers are told; the state that users ask for does not change.
            _ => {}
        }
        if let Some(span) = &self.span {
            span.notice(notice);
        }
        self.shared.observe(&Observed::Notice { subject: &status.subject, notice });
        self.shared.changed.notify();
    }

    /// Tells of what holds this up, or that nothing does any more. As it stands where the driver has nothing left to do: a
    /// handler that had room for a moment and is full again has held it up all the time.
    fn tell_held_up(&mut self) {
        let held_up = self.machine.is_held_up();
        if held_up == self.told_held_up || self.machine.phase() == Phase::Stopped {
            return;
        }
        self.told_held_up = held_up;
        let status = &self.inner.status;
        let (subject, handlers) = (&*status.subject, status.held_up_by());
        self.shared.observe(&match held_up {
            true => Observed::HeldUp { subject, handlers: &handlers },
            false => Observed::Resumed { subject },
        });
    }

    /// Looks for objects that were changed in the cache, if it is time.
    fn detect_mutations(&mut self, now: Time) {
        if let Some(detector) = &mut self.detector {
            let (store, subject) = (&self.inner.store, &self.inner.status.subject);
            detector.tick(now, |key| store.get(key), subject, &self.shared);
        }
    }

    fn attach(&mut self, id: HandlerId, begin: impl FnOnce(&Channel<T>, Snapshot<T>)) {
        if let Some(at) = self.waiting.iter().position(|channel| channel.id() == id) {
            let channel = self.waiting.remove(at);
            begin(&channel, self.inner.store.snapshot());
            self.attached.push(channel);
        }
    }

    /// For the part of it that ends when the informer does: of one that is fed, this driver may be kept longer.
    pub(crate) fn take_life(&mut self) -> Option<Life> {
        self.life.take()
    }

    /// Changes to be [fed](Self::feed), in the memory of earlier ones.
    pub(crate) fn changes(&mut self, changes: impl IntoIterator<Item = Change<T>>) -> Fed<T> {
        self.machine.changes(changes)
    }

    /// Commits what is fed by hand, and tells handlers' rings; handlers that wait hear of it at the
    /// [pause](Self::pause). Returns when the machine wants to be called again.
    pub(crate) fn feed(&mut self, now: Time, fed: Fed<T>) -> Option<Time> {
        self.replaced.drop_passed(1);
        self.machine.handle(now, Input::Fed(fed));
        self.run(now)
    }

    /// Does what is to be done where nothing is sent.
    pub(crate) fn run(&mut self, now: Time) -> Option<Time> {
        match self.work(now) {
            IoAction::Wait(deadline) => deadline.map(|deadline| deadline.at),
            IoAction::Send(_) | IoAction::Cancel(_) | IoAction::Pause(_) | IoAction::Resume(_) => {
                unreachable!("an informer that is fed has no request")
            }
        }
    }

    /// Why nothing can be fed now, if that is so.
    pub(crate) fn refusal(&mut self, now: Time, list: bool) -> Option<Refusal> {
        if self.machine.phase() == Phase::Stopped {
            return Some(Refusal::Stopped);
        }
        if self.machine.is_held_up() {
            // One that has room says so with a command, which may be on its way.
            let mut handler = None;
            for channel in &self.attached {
                let full = channel.is_full();
                if !full {
                    self.inner.status.goes_on_without(channel.id());
                }
                self.machine.handle(now, Input::Backlog { id: channel.id(), full });
                handler = handler.or_else(|| full.then(|| channel.name().to_string()));
            }
            if let Some(handler) = handler {
                return Some(Refusal::Full { handler });
            }
        }
        (!list && !self.machine.has_synced()).then_some(Refusal::NoList)
    }

    /// The first handler that the informer waits for.
    pub(crate) fn full(&self) -> Option<&str> {
        self.attached.iter().find(|channel| channel.is_full()).map(|channel| channel.name())
    }

    /// Handlers hear of what came. What it has replaced is kept for who feeds next only if `more` may well come at once.
    pub(crate) fn pause(&mut self, more: bool) {
        self.wake();
        if !more {
            self.replaced.clear();
        }
    }

    /// Ends it, as the adapter's `Stop` does.
    pub(crate) fn end(&mut self, now: Time) {
        self.machine.handle(now, Input::Stop);
        self.run(now);
    }

    fn finish(&mut self) {
        self.inner.end(self.waiting.drain(..).chain(self.attached.drain(..)));
    }
}

impl<T: Send + Sync + 'static> Drive for InformerDriver<T> {
    fn handle(&mut self, now: Time, event: IoEvent<'_>) {
        let _driving = self.driving();
        self.begin();
        self.wall_clock(now);
        self.commands(now);
        let input = match event {
            IoEvent::Start => Input::Start,
            IoEvent::Stop => Input::Stop,
            IoEvent::Tick => Input::Tick,
            IoEvent::Connected(id) => Input::Connected { id },
            IoEvent::Head(id, head) => Input::Head { id, head },
            IoEvent::Body(id, bytes) => Input::Body { id, bytes },
            IoEvent::End(id, end) => Input::End { id, end },
        };
        self.machine.handle(now, input);
        self.detect_mutations(now);
    }

    fn poll(&mut self, now: Time) -> IoAction {
        let _driving = self.driving();
        let action = self.work(now);
        self.wake();
        action
    }

    fn is_stopped(&self) -> bool {
        self.inner.status.stopped.load(Ordering::Acquire)
    }

    fn enter(&self) -> Option<Life> {
        Some(self.inner.status.lives.enter())
    }

    fn rest(&mut self) {
        let _driving = self.driving();
        self.replaced.clear();
    }
}

impl<T: Send + Sync + 'static> InformerDriver<T> {
    /// Decodes, commits and delivers until the adapter must do something.
    fn work(&mut self, now: Time) -> IoAction {
        loop {
            match self.machine.poll_output() {
                Output::Send(request) => {
                    if let Some(span) = &self.span {
                        span.request(&request);
                    }
                    self.shared.observe(&Observed::Request(&request));
                    return IoAction::Send(request);
                }
                Output::Cancel(id) => return IoAction::Cancel(id),
                Output::Pause(id) => return IoAction::Pause(id),
                Output::Resume(id) => return IoAction::Resume(id),
                Output::Wait(deadline) => {
                    self.inner.status.health.set(self.machine.health());
                    self.tell_held_up();
                    if self.machine.phase() == Phase::Stopped && !self.is_stopped() {
                        self.finish();
                    }
                    let clock = Deadline { at: now + WALL_CLOCK_EVERY, why: "wall clock" };
                    let runs = !matches!(self.machine.phase(), Phase::Idle | Phase::Stopped);
                    let check = self.detector.as_ref().filter(|_| runs).and_then(|detector| detector.deadline());
                    let deadline = Deadline::sooner(deadline, check);
                    return IoAction::Wait(Deadline::sooner(deadline, runs.then_some(clock)));
                }
                Output::Decode(mut job) => {
                    self.wake();
                    // An index may go while this decodes, and then its function with this.
                    let indexers = Quiet::new(self.inner.store.read(|store| {
                        job.probe(store);
                        store.indexers()
                    }));
                    let replaced = self.replaced.take(&job);
                    let decoded = self.shared.helpers.decode(job, &self.codec, &indexers, replaced);
                    self.machine.handle(now, Input::Decoded(decoded));
                }
                Output::Commit(commit) => {
                    let is_list = commit.is_list();
                    let subject = &self.inner.status.subject;
                    if let Some(detector) = &mut self.detector {
                        detector.before(&commit, subject, &self.shared);
                    }
                    let mut committed = self.inner.store.commit(commit);
                    self.inner.status.store_moved();
                    if let Some(detector) = &mut self.detector {
                        detector.after(&committed.notifications, subject, &self.shared);
                    }
                    // What a list has replaced is not waited for: the next thing that is decoded may be far.
                    let batch = if is_list {
                        Some(Batch::from(std::mem::take(&mut committed.notifications)))
                            .filter(|batch| !batch.is_empty())
                    } else {
                        self.replaced.publish(&mut committed.notifications)
                    };
                    // First, so that the machine knows of a handler that is full before it goes on.
                    if let Some(batch) = batch {
                        self.deliver(now, &batch);
                        // Of a list, where no handler waits for it.
                        drop_each(batch.into_objects());
                    }
                    committed.dropped.drain(..).for_each(drop_quietly);
                    self.machine.handle(now, Input::Committed(committed.into_receipt()));
                }
                Output::Attach(id) => self.attach(id, Channel::replay),
                Output::Begin(id) => self.attach(id, Channel::begin),
                Output::Complete(id) => {
                    if let Some(channel) = self.attached.iter().find(|channel| channel.id() == id) {
                        channel.complete();
                    }
                }
                Output::Detach(id) => {
                    self.inner.status.goes_on_without(id);
                    for channel in self.waiting.iter().chain(&self.attached).filter(|channel| channel.id() == id) {
                        channel.close();
                    }
                    self.waiting.retain(|channel| channel.id() != id);
                    self.attached.retain(|channel| channel.id() != id);
                }
                Output::Resync(id) => {
                    if let Some(channel) = self.attached.iter().find(|channel| channel.id() == id) {
                        channel.resync(self.inner.store.snapshot());
                    }
                }
                Output::Unwanted(objects) => objects.into_iter().for_each(drop_quietly),
                Output::Notice(notice) => self.notice(&notice),
            }
        }
    }
}

impl<T> Drop for InformerDriver<T> {
    /// A driver that ends in any other way leaves no handler waiting.
    fn drop(&mut self) {
        self.inner.end(self.waiting.drain(..).chain(self.attached.drain(..)));
    }
}
