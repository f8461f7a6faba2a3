//! [`Informer`]: the machine that joins reflector, queue and handlers, and speaks the contract of every machine here.
//!
//! ```text
//!  Head, Body, End ─► reflector ─► items ─► Decode ─► Decoded ─► queue ─► Commit ─► Committed ─► Attach …
//!                        │                    (the driver, and its store)             (the driver, and its rings)
//!                        └─► Send, Cancel, Pause, Resume
//! ```
//!
//! The machine owns no object that readers see: the store and the rings are the driver's, behind its locks or in plain
//! cells. `Decode` and `Commit` are effects that the driver carries out with one call each.
//!
//! The contract: [`handle`](Informer::handle) one input, then take outputs until [`Output::Wait`]. Outputs come in one
//! total order; draining late only delays. `handle` fires every timer that is due before it looks at the input. A
//! spurious [`Input::Tick`] changes nothing; an answer with a stale id is dropped.
//!
//! Invariants. One effect (`Decode` or `Commit`) is out at a time, so the store changes in the order of the wire: an answer
//! that was not asked for panics. In debug builds it is asserted where it happens that at most one request is in flight
//! (I27) and that a handler is attached once; after every input, that handlers are attached if and only if a complete list
//! is in the store, and that work waits for nothing but an effect or a full handler.
//!
//! A whole life by hand:
//!
//! ```
//! use informer_core::decode::{Codec, NoGuard};
//! use informer_core::informer::{HandlerId, Informer, InformerConfig, Input, Output};
//! use informer_core::listener::{Overflow, Ring};
//! use informer_core::reflector::{End, ListStrategy};
//! use informer_core::store::Store;
//! use informer_core::time::Time;
//! use informer_core::wire::{Head, RequestId};
//! use informer_core::{DynamicObject, Resource};
//!
//! let pods = Resource::namespaced("", "v1", "pods", "Pod");
//! let codec = Codec::<DynamicObject>::new(pods.clone());
//! let mut config = InformerConfig::new(pods);
//! config.reflector.strategy = ListStrategy::Paged;
//! let mut informer = Informer::new(config, 7);
//! let (mut store, mut ring) = (Store::new(7), Ring::new(Overflow::default()));
//!
//! let list = br#"{"kind":"PodList","metadata":{"resourceVersion":"5"},"items":[{"metadata":
//!     {"name":"a","namespace":"web","uid":"u","resourceVersion":"4"}}]}"#;
//! let head = Head::new(200);
//! let inputs = vec![
//!     Input::AddHandler { id: HandlerId(1), resync: None },
//!     Input::Start,
//!     Input::Head { id: RequestId(1), head: &head },
//!     Input::Body { id: RequestId(1), bytes: list },
//!     Input::End { id: RequestId(1), end: &End::Closed },
//! ];
//! let mut sent = Vec::new();
//! for input in inputs {
//!     informer.handle(Time::ZERO, input);
//!     loop {
//!         match informer.poll_output() {
//!             Output::Send(request) => sent.push(request.target()),
//!             Output::Decode(mut job) => {
//!                 job.probe(&store);
//!                 let decoded = job.decode(&codec, &store.indexers(), &NoGuard);
//!                 informer.handle(Time::ZERO, Input::Decoded(decoded));
//!             }
//!             Output::Commit(commit) => {
//!                 let mut done = store.commit(commit);
//!                 done.notifications.drain(..).for_each(|n| ring.push(n));
//!                 informer.handle(Time::ZERO, Input::Committed(done.into_receipt()));
//!             }
//!             Output::Attach(_) => ring.replay(store.snapshot()),
//!             Output::Wait(_) => break,
//!             _ => {}
//!         }
//!     }
//! }
//! assert_eq!(sent[0], "/api/v1/pods?limit=500&resourceVersion=0");
//! assert!(sent[1].starts_with("/api/v1/pods?watch=true&allowWatchBookmarks=true&resourceVersion=5"));
//! assert!(store.get("web/a").is_some() && ring.has_work() && informer.has_synced());
//! ```

use crate::decode::{DecodeJob, Decoded, Item, Ticket, Trust};
use crate::fed::{Change, Fed, FedWork};
use crate::fifo::{Queue, QueueKind};
use crate::object::{Obj, Resource, Version};
use crate::reflector::failure::subject;
use crate::reflector::{Effect, End, Failure, Health, Phase, Reflector, ReflectorConfig, reason, why};
use crate::rng::Rng;
use crate::store::{Commit, Receipt, Staged};
use crate::time::{Clock, Deadline, Duration, Time};
use crate::wire::{Head, RawBatch, Request, RequestId};
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;
use core::fmt;

/// Raw bytes that wait to be decoded before the machine asks for a pause of the body, unless
/// [configured](InformerConfig::in_flight_bytes): some thousand objects, so that a driver always has work.
pub const IN_FLIGHT_BYTES: usize = 4 * 1024 * 1024;

/// Raw bytes that are decoded at a time. What arrives in small pieces while a batch waits or is decoded is one batch, so that
/// a driver can share it among threads; one of this size takes a thread two milliseconds. An item is never cut.
pub const DECODE_BYTES: usize = 256 * 1024;

/// Steps that wait for an effect before what is held of a compressed body is left alone: bookmarks are no bytes to decode,
/// and still take room.
const WAITING_WORK: usize = 1024;

/// Of a list that no attempt of the reflector has read.
const NO_ATTEMPT: u64 = 0;

/// The least resync period, client-go's, unless [configured](InformerConfig::min_resync): a smaller one is raised to it.
pub const MIN_RESYNC: Duration = Duration::from_secs(1);

/// Names a handler of one informer; the driver picks the number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HandlerId(pub u64);

/// What an informer reads, and how strictly.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InformerConfig {
    /// The collection and how it is read.
    pub reflector: ReflectorConfig,
    /// A list with an object that does not decode fails as a whole, as client-go's does, and is tried again.
    pub strict_decode: bool,
    /// In which order the changes of a watch are applied: that of the wire by default.
    pub queue: QueueKind,
    /// Raw bytes that wait to be decoded before the body is paused; it goes on at half of that.
    pub in_flight_bytes: usize,
    /// The least resync period: a smaller one is raised to it.
    pub min_resync: Duration,
    /// The driver's store was [preloaded](crate::store::Store::preload) with the state that this version stands for.
    pub preloaded: Option<Version>,
    /// It is given its objects by hand ([`Input::Fed`]) and reads nothing: no request is ever sent.
    pub fed: bool,
}

impl InformerConfig {
    /// The defaults, for `resource` in all namespaces.
    pub fn new(resource: Resource) -> Self {
        InformerConfig {
            reflector: ReflectorConfig::new(resource),
            strict_decode: false,
            in_flight_bytes: IN_FLIGHT_BYTES,
            min_resync: MIN_RESYNC,
            queue: QueueKind::default(),
            preloaded: None,
            fed: false,
        }
    }
}

/// What a driver tells the machine.
#[non_exhaustive]
pub enum Input<'a, T> {
    /// Begin. What is [fed](Self::Fed) needs no beginning.
    Start,
    /// End for good: the request in flight is cancelled, nothing is sent any more, and no resync falls due.
    Stop,
    /// The connection for a request stands. A head implies it.
    Connected {
        /// Which request.
        id: RequestId,
    },
    /// Status code and headers came.
    Head {
        /// Which request.
        id: RequestId,
        /// What came.
        head: &'a Head,
    },
    /// A part of the body came, cut anywhere.
    Body {
        /// Which request.
        id: RequestId,
        /// What came.
        bytes: &'a [u8],
    },
    /// The answer, or the attempt to get one, is over.
    End {
        /// Which request.
        id: RequestId,
        /// How it went.
        end: &'a End,
    },
    /// A batch is decoded; the answer to [`Output::Decode`].
    Decoded(Decoded<T>),
    /// A change is in the store; the answer to [`Output::Commit`].
    Committed(Receipt<T>),
    /// A complete state or changes, given by hand. The first is a list; none is to be given while a handler is full
    /// ([`Informer::is_held_up`]), so no more waits than was given before the outputs were taken. Nothing happens after a
    /// stop.
    Fed(Fed<T>),
    /// Time passed.
    Tick,
    /// The wall clock, as a span since the beginning of 1970. To be given before the start, and whenever it and the
    /// clock of `now` turn out to disagree by more than before: then this machine may have slept with its clock (a
    /// virtual machine, a laptop), and a watch that is open is opened anew on a fresh connection, at the same version. A
    /// clock that is set back changes nothing. It may be left out: then such a sleep is found by the deadline of a silent
    /// watch, and a `Retry-After` date in an answer without a `Date` is passed over.
    WallClock(Duration),
    /// A handler is there. It is attached as soon as a complete list is in the store.
    AddHandler {
        /// Its number; one that was never used before.
        id: HandlerId,
        /// Repeat everything in this period; at least [`InformerConfig::min_resync`].
        resync: Option<Duration>,
    },
    /// A handler goes.
    RemoveHandler {
        /// Its number.
        id: HandlerId,
    },
    /// More waits for a handler than it allows ([`Overflow::Pause`](crate::listener::Overflow::Pause)), or no longer. While
    /// that is so for one of them, nothing is decoded or committed, and no body is read: liveness deadlines stand still. To
    /// be given before the [`Committed`](Self::Committed) of what made it full. A handler that is gone holds up nothing.
    Backlog {
        /// Its number.
        id: HandlerId,
        /// Whether its ring is full.
        full: bool,
    },
    /// List the newest state again and decode all of it, whatever is cached: for a conversion that changed without any
    /// object changing. Handlers are told of each object as an update. Nothing happens before the start, nor to an informer
    /// that is fed.
    Refresh,
}

/// What the machine asks for.
///
/// A driver must carry out each of them, so it must know all of them: a match that names them fails to compile when there is
/// one more, where an arm for the rest would pass over it. That makes one more a breaking change of this crate, as it is.
#[must_use = "an output that is not carried out is lost"]
pub enum Output<T> {
    /// Send a request; answer with `Connected`, `Head`, `Body` and `End` under its id.
    Send(Request),
    /// Give up a request: close its connection, nothing of it is wanted any more.
    Cancel(RequestId),
    /// Read no more of this body until `Resume`.
    Pause(RequestId),
    /// Go on reading.
    Resume(RequestId),
    /// Probe and decode; answer with [`Input::Decoded`].
    Decode(DecodeJob),
    /// Commit to the store and push the notifications to all attached rings; answer with [`Input::Committed`].
    Commit(Commit<T>),
    /// Begin the ring of this handler with the store as it is now, and push what comes from here on.
    Attach(HandlerId),
    /// The same for a store that was preloaded, right before its first list is committed: the initial state of the ring is
    /// not complete yet. Comes in the place of `Attach`.
    Begin(HandlerId),
    /// The initial state of a ring that was begun is complete.
    Complete(HandlerId),
    /// Push nothing more to the ring of this handler.
    Detach(HandlerId),
    /// Repeat the store as it is now to this handler.
    Resync(HandlerId),
    /// Objects that came to nothing: of a list that was given up, or with a later word about their key, or at a stop. To
    /// be dropped, which is code of the user's if their type says so: where a panic of it does no harm. Nothing is answered.
    Unwanted(Vec<Obj<T>>),
    /// Something that a user may want to know.
    Notice(Notice),
    /// Nothing more to do until an input, or this deadline. The only place where a driver's timer comes from.
    Wait(Option<Deadline>),
}

/// What happened, for logs and metrics; nothing has to be done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// The reflector moved to another phase.
    Phase(Phase),
    /// Something failed, and is dealt with.
    Failure(Failure),
    /// The first complete list is in the store.
    Synced,
    /// A resync period below [`InformerConfig::min_resync`] was raised to it.
    ResyncRaised {
        /// Whose.
        handler: HandlerId,
        /// What was asked for.
        asked: Duration,
    },
}

/// A line for a log.
impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Phase(phase) => write!(f, "{phase}"),
            Notice::Failure(failure) => write!(f, "{failure}"),
            Notice::Synced => f.write_str("synced"),
            Notice::ResyncRaised { handler: HandlerId(id), asked } => {
                write!(
                    f,
                    "handler {id} asked for a resync every {asked:?}, which was raised to the least that is allowed"
                )
            }
        }
    }
}

/// What is asked for, without the objects.
impl<T> fmt::Debug for Output<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Output::Send(request) => write!(f, "Send({} {})", request.verb, request.target()),
            Output::Cancel(RequestId(id)) => write!(f, "Cancel({id})"),
            Output::Pause(RequestId(id)) => write!(f, "Pause({id})"),
            Output::Resume(RequestId(id)) => write!(f, "Resume({id})"),
            Output::Decode(job) => write!(f, "Decode({} items)", job.len()),
            Output::Commit(_) => f.write_str("Commit"),
            Output::Attach(HandlerId(id)) => write!(f, "Attach({id})"),
            Output::Begin(HandlerId(id)) => write!(f, "Begin({id})"),
            Output::Complete(HandlerId(id)) => write!(f, "Complete({id})"),
            Output::Detach(HandlerId(id)) => write!(f, "Detach({id})"),
            Output::Resync(HandlerId(id)) => write!(f, "Resync({id})"),
            Output::Unwanted(objects) => write!(f, "Unwanted({} objects)", objects.len()),
            Output::Notice(notice) => write!(f, "Notice({notice})"),
            Output::Wait(deadline) => write!(f, "Wait({deadline:?})"),
        }
    }
}

struct Handler {
    id: HandlerId,
    resync: Option<Duration>,
    next_resync: Option<Time>,
    /// Its ring began with the preloaded state.
    begun: bool,
    attached: bool,
    /// The informer waits for it.
    full: bool,
}

enum Work<T> {
    Fed(Fed<T>),
    Decode(Ticket, RawBatch),
    Finish { attempt: u64, phase: Phase, version: Version, set_back: bool },
    Bookmark(Version),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Busy {
    No,
    /// `Decode` is out, for so many bytes. Not `wanted` if its list was given up meanwhile.
    Decoding {
        ticket: Ticket,
        bytes: usize,
        wanted: bool,
    },
    /// `Commit` is out; of a finished list, with its attempt and how it was asked for.
    Committing(Option<(u64, Phase)>),
}

/// What was read of the body in flight and stands for more than there is room for: gzip makes a thousand bytes of one.
/// While there is some, the body is paused, so this is no more than what the driver had read by then.
struct Held {
    id: RequestId,
    bytes: Vec<u8>,
    /// How the answer ended behind them, if it did.
    end: Option<End>,
}

/// The machine.
pub struct Informer<T> {
    reflector: Reflector,
    strict: bool,
    in_flight_bytes: usize,
    min_resync: Duration,
    clock: Clock,
    work: VecDeque<Work<T>>,
    /// Bytes in `work`, those that are being decoded included.
    waiting_bytes: usize,
    paused: Option<RequestId>,
    held: Option<Held>,
    /// The request that has ended for the driver, and not yet for us.
    ended: Option<RequestId>,
    /// The request that the driver carries out.
    sent: Option<RequestId>,
    staged: Staged<T>,
    /// Whose items are in `staged`.
    staging: u64,
    /// Until a list of this attempt or a later one is in the store, handlers are told of every object.
    refresh: Option<u64>,
    queue: Queue<T>,
    finished: Option<(u64, Phase)>,
    busy: Busy,
    handlers: Vec<Handler>,
    preloaded: bool,
    fed: bool,
    /// A list was fed.
    begun: bool,
    populated: bool,
    /// Objects to be handed out as [`Output::Unwanted`].
    unwanted: Vec<Obj<T>>,
    outputs: VecDeque<Output<T>>,
    stats: Stats,
}

/// Counters of one informer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Complete lists that came into the store.
    pub lists: u64,
    /// Requests sent.
    pub requests: u64,
    /// Answers to requests that were given up before, dropped.
    pub stale_answers: u64,
    /// Failures reported.
    pub failures: u64,
}

impl<T> Informer<T> {
    /// A machine that has not started. `seed` drives its jitter: same seed and inputs, same outputs.
    pub fn new(config: InformerConfig, seed: u64) -> Self {
        // Informers that differ in any of these draw different jitter.
        let ReflectorConfig { resource, namespace, label_selector, field_selector, .. } = &config.reflector;
        let name = format!("{resource:?} {namespace:?} {label_selector:?} {field_selector:?}");
        let rng = Rng::derive(seed, &name);
        let mut reflector = Reflector::new(config.reflector, rng);
        let preloaded = config.preloaded.is_some();
        if let Some(version) = config.preloaded {
            reflector.preloaded(version);
        }
        Informer {
            strict: config.strict_decode,
            in_flight_bytes: config.in_flight_bytes,
            min_resync: config.min_resync,
            reflector,
            clock: Clock::default(),
            work: VecDeque::new(),
            waiting_bytes: 0,
            paused: None,
            held: None,
            ended: None,
            sent: None,
            staged: Staged::default(),
            staging: 0,
            refresh: None,
            queue: Queue::new(config.queue),
            finished: None,
            busy: Busy::No,
            handlers: Vec::new(),
            preloaded,
            fed: config.fed,
            begun: false,
            populated: false,
            unwanted: Vec::new(),
            outputs: VecDeque::new(),
            stats: Stats::default(),
        }
    }

    /// Where the reflector stands. An informer that is fed is idle until its first list is in the store, and watches from
    /// then on.
    pub fn phase(&self) -> Phase {
        let phase = self.reflector.phase();
        if self.fed && self.populated && phase == Phase::Idle { Phase::Watching } else { phase }
    }

    /// How it stands with its server.
    pub fn health(&self) -> Health {
        self.reflector.health()
    }

    /// True once a complete list is in the store; it stays true.
    pub fn has_synced(&self) -> bool {
        self.populated
    }

    /// Counters.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// The collection.
    pub fn resource(&self) -> &Resource {
        &self.reflector.config().resource
    }

    /// Takes one input. `now` may be any time; one before the last is taken for the last.
    ///
    /// # Panics
    ///
    /// If `Decoded` or `Committed` answers something that was not asked, a handler's number is used twice, or something is
    /// fed that cannot be: a driver's mistakes.
    pub fn handle(&mut self, now: Time, input: Input<'_, T>) {
        let now = self.clock.advance(now);
        self.reflector.tick(now);
        self.resyncs(now);
        match input {
            Input::Start if self.fed => {}
            Input::Start => self.reflector.start(now),
            Input::Stop => {
                self.reflector.stop();
                for work in self.work.drain(..) {
                    if let Work::Fed(fed) = work {
                        fed.give_up(&mut self.unwanted);
                    }
                }
                self.waiting_bytes = 0;
                self.unwanted.extend(core::mem::take(&mut self.staged).into_objects());
                self.queue.clear(&mut self.unwanted);
            }
            Input::Connected { id } => {
                if self.is_current(id) {
                    self.reflector.connected(id);
                }
            }
            Input::Head { id, head } => {
                if self.is_current(id) {
                    self.reflector.connected(id);
                    self.reflector.head(now, id, head);
                }
            }
            Input::Body { id, bytes } => {
                if self.is_current(id) {
                    self.body(now, id, bytes);
                }
            }
            Input::End { id, end } => {
                if self.is_current(id) {
                    self.end(now, id, end);
                }
            }
            Input::Decoded(decoded) => self.decoded(decoded),
            Input::Committed(receipt) => self.committed(now, receipt),
            Input::Fed(fed) => self.feed(fed),
            Input::Tick => {}
            Input::WallClock(unix) => self.reflector.wall_clock(now, unix),
            Input::AddHandler { id, resync } => self.add_handler(now, id, resync),
            Input::RemoveHandler { id } => {
                if let Some(at) = self.handlers.iter().position(|handler| handler.id == id) {
                    self.handlers.remove(at);
                    self.outputs.push_back(Output::Detach(id));
                }
            }
            Input::Backlog { id, full } => {
                if let Some(handler) = self.handlers.iter_mut().find(|handler| handler.id == id) {
                    handler.full = full;
                }
            }
            Input::Refresh => {
                // Same uid and version do not mean same bytes: nothing of this list counts as unchanged.
                self.refresh = self.reflector.refresh(now).or(self.refresh);
            }
        }
        self.pump(now);
    }

    /// [`Fed::changes`] in the memory of earlier ones, if that is back. So an informer that is fed up to
    /// [`COMMIT_EVENTS`](crate::fifo::COMMIT_EVENTS) changes at a time allocates nothing for them once it has run for a
    /// while.
    pub fn changes(&mut self, changes: impl IntoIterator<Item = Change<T>>) -> Fed<T> {
        Fed::changes_in(self.queue.take_memory(), changes)
    }

    /// The next thing to do. [`Output::Wait`] when there is nothing.
    pub fn poll_output(&mut self) -> Output<T> {
        self.outputs.pop_front().unwrap_or_else(|| Output::Wait(self.deadline()))
    }

    /// When the machine wants to be called again.
    pub fn deadline(&self) -> Option<Deadline> {
        let resync = self.handlers.iter().filter(|handler| handler.attached).filter_map(|handler| handler.next_resync);
        let resync =
            resync.min().filter(|_| self.phase() != Phase::Stopped).map(|at| Deadline { at, why: why::RESYNC });
        let soonest = Deadline::sooner(self.reflector.deadline(), resync)?;
        // What came due while outputs were carried out is fired by the next input, at the earliest one tick from now.
        let at = soonest.at.max(self.clock.now() + Duration::from_nanos(1));
        Some(Deadline { at, ..soonest })
    }

    #[cfg(test)]
    pub(crate) fn reflector(&self) -> &Reflector {
        &self.reflector
    }

    fn is_current(&mut self, id: RequestId) -> bool {
        let current = self.reflector.in_flight() == Some(id);
        self.stats.stale_answers += u64::from(!current);
        current
    }

    /// Reads a part of a body, or keeps it behind what is held already.
    fn body(&mut self, now: Time, id: RequestId, mut bytes: &[u8]) {
        match &mut self.held {
            Some(held) => held.bytes.extend_from_slice(bytes),
            None => {
                if self.reflector.body(now, id, &mut bytes) {
                    self.held = Some(Held { id, bytes: bytes.to_vec(), end: None });
                }
            }
        }
    }

    /// The answer is over, as soon as all of its body is read.
    fn end(&mut self, now: Time, id: RequestId, end: &End) {
        self.sent = None;
        match &mut self.held {
            Some(held) => {
                held.end = Some(end.clone());
                self.ended = Some(id);
            }
            None => self.reflector.end(now, id, end),
        }
    }

    /// Goes on reading what is held, if there is room for what it stands for. False if there is nothing to do.
    fn read_held(&mut self, now: Time) -> bool {
        let Some(mut held) = self.held.take() else { return false };
        if self.reflector.in_flight() != Some(held.id) {
            return true;
        }
        if self.waiting_bytes > self.in_flight_bytes / 2 || self.work.len() > WAITING_WORK || self.is_held_up() {
            self.held = Some(held);
            return false;
        }
        let mut rest = held.bytes.as_slice();
        let more = self.reflector.body(now, held.id, &mut rest);
        let read = held.bytes.len() - rest.len();
        if more {
            held.bytes.drain(..read);
            self.held = Some(held);
        } else if let Some(end) = &held.end {
            self.reflector.end(now, held.id, end);
        }
        true
    }

    /// Carries effects and work forward as far as they go without the driver.
    fn pump(&mut self, now: Time) {
        loop {
            while let Some(effect) = self.reflector.poll() {
                self.effect(effect);
            }
            let may_work = self.busy == Busy::No && self.reflector.phase() != Phase::Stopped && !self.is_held_up();
            if may_work && self.step(now) {
                continue;
            }
            if !self.read_held(now) {
                break;
            }
        }
        self.flow(now);
        if !self.unwanted.is_empty() {
            self.outputs.push_back(Output::Unwanted(core::mem::take(&mut self.unwanted)));
        }
        self.check();
    }

    #[cfg(not(debug_assertions))]
    fn check(&self) {}

    /// Asserts the invariants of the module header, and what the counters promise.
    #[cfg(debug_assertions)]
    fn check(&self) {
        let attached = self.handlers.iter().filter(|handler| handler.attached).count();
        assert_eq!(
            attached,
            if self.populated { self.handlers.len() } else { 0 },
            "attached as soon as there is a list"
        );
        if self.reflector.phase() == Phase::Stopped {
            assert!(self.work.is_empty() && self.deadline().is_none(), "nothing is left to do after a stop");
            return;
        }
        assert!(
            self.busy != Busy::No || self.is_held_up() || self.work.is_empty() && self.held.is_none(),
            "work waits for an effect that is out or for a full handler, and for nothing else"
        );
        if self.is_held_up() {
            let read = self.reflector.reading().filter(|id| self.paused != Some(*id));
            assert_eq!(read, None, "no body is read while a handler is full");
        }
        let decoding = if let Busy::Decoding { bytes, .. } = self.busy { bytes } else { 0 };
        let of = |work: &Work<T>| if let Work::Decode(_, batch) = work { batch.bytes_len() } else { 0 };
        let waiting: usize = self.work.iter().map(of).sum();
        assert_eq!(waiting + decoding, self.waiting_bytes, "every byte that waits is counted once");
    }

    fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::Send(request) => {
                debug_assert_eq!(self.sent, None, "at most one request is in flight (I27)");
                self.sent = Some(request.id);
                self.stats.requests += 1;
                self.paused = None;
                self.outputs.push_back(Output::Send(request));
            }
            Effect::Cancel(id) => {
                self.sent = None;
                if self.paused == Some(id) {
                    self.paused = None;
                }
                // What has ended for the driver is nothing that it can cancel.
                if self.ended != Some(id) {
                    self.outputs.push_back(Output::Cancel(id));
                }
            }
            Effect::Items { attempt, staged, doubt, batch } => {
                self.waiting_bytes += batch.bytes_len();
                let trust = match self.refresh {
                    Some(_) => Trust::Nothing,
                    None if doubt => Trust::Contents,
                    None => Trust::Versions,
                };
                let ticket = Ticket { attempt, staged, trust };
                if !self.join_job(ticket, &batch) {
                    self.wait_for_decode(ticket, batch);
                }
            }
            Effect::Finish { attempt, phase, version, set_back } => {
                self.work.push_back(Work::Finish { attempt, phase, version, set_back });
            }
            Effect::Discard { attempt } => self.discard(attempt),
            Effect::Bookmark(version) => match self.work.back_mut() {
                // Bookmarks are no bytes, so nothing else bounds how many wait.
                Some(Work::Bookmark(waiting)) => *waiting = version,
                _ => self.work.push_back(Work::Bookmark(version)),
            },
            Effect::Failure(failure) => self.failure(failure),
            Effect::Phase(phase) => self.outputs.push_back(Output::Notice(Notice::Phase(phase))),
        }
    }

    /// Adds a batch to a job that nobody has taken yet: a driver may hand over all that there is before it polls. False if
    /// there is none.
    fn join_job(&mut self, ticket: Ticket, batch: &RawBatch) -> bool {
        let (Some(Output::Decode(job)), Busy::Decoding { bytes, .. }) = (self.outputs.back_mut(), &mut self.busy)
        else {
            return false;
        };
        let joins = self.work.is_empty() && job.ticket == ticket && job.bytes() + batch.bytes_len() <= DECODE_BYTES;
        if joins {
            *bytes += batch.bytes_len();
            job.batch.extend(batch);
        }
        joins
    }

    /// Has a batch wait, together with one that waits already if both are small.
    fn wait_for_decode(&mut self, ticket: Ticket, batch: RawBatch) {
        match self.work.back_mut() {
            Some(Work::Decode(known, waiting))
                if *known == ticket && waiting.bytes_len() + batch.bytes_len() <= DECODE_BYTES =>
            {
                waiting.extend(&batch);
            }
            _ => self.work.push_back(Work::Decode(ticket, batch)),
        }
    }

    /// Drops what was read of the list of `attempt`. An earlier list that is complete, and events, go on.
    fn discard(&mut self, attempt: u64) {
        let of_it = |ticket: &Ticket| ticket.staged && ticket.attempt == attempt;
        if let Busy::Decoding { ticket, wanted, .. } = &mut self.busy {
            *wanted &= !of_it(ticket);
        }
        if self.staging == attempt {
            self.unwanted.extend(core::mem::take(&mut self.staged).into_objects());
        }
        let bytes = &mut self.waiting_bytes;
        self.work.retain(|work| match work {
            Work::Decode(ticket, batch) if of_it(ticket) => {
                *bytes -= batch.bytes_len();
                false
            }
            Work::Finish { attempt: finished, .. } => *finished != attempt,
            Work::Decode(..) | Work::Bookmark(_) | Work::Fed(_) => true,
        });
    }

    /// Drops the events that follow a list which was not accepted: they build on it.
    fn drop_events(&mut self) {
        while let Some(Work::Decode(Ticket { staged: false, .. }, _) | Work::Bookmark(_)) = self.work.front() {
            if let Some(Work::Decode(_, batch)) = self.work.pop_front() {
                self.waiting_bytes -= batch.bytes_len();
            }
        }
    }

    /// One piece of work, if there is one: commits before decodes, so that the queue stays short.
    fn step(&mut self, now: Time) -> bool {
        if let Some(commit) = self.queue.pop() {
            let list = if commit.is_list() { self.finished.take() } else { None };
            if list.is_some() && self.preloaded && !self.populated {
                // What was saved is where handlers begin, and the list is what changed since.
                for handler in &mut self.handlers {
                    handler.begun = true;
                    self.outputs.push_back(Output::Begin(handler.id));
                }
            }
            self.busy = Busy::Committing(list);
            self.outputs.push_back(Output::Commit(commit));
            return true;
        }
        match self.work.pop_front() {
            None => false,
            Some(Work::Decode(ticket, batch)) => {
                self.busy = Busy::Decoding { ticket, bytes: batch.bytes_len(), wanted: true };
                self.outputs.push_back(Output::Decode(DecodeJob::new(ticket, batch)));
                true
            }
            Some(Work::Finish { attempt, phase, version, set_back }) => {
                let staged = core::mem::take(&mut self.staged).complete(set_back);
                match staged.first_bad().filter(|_| self.strict) {
                    Some(bad) => {
                        let text = format!("{bad}");
                        self.unwanted.extend(staged.into_objects());
                        self.drop_events();
                        self.reflector.rejected(now, attempt, &text);
                    }
                    None => {
                        self.finished = Some((attempt, phase));
                        self.queue.replace(staged, version);
                    }
                }
                true
            }
            Some(Work::Bookmark(version)) => {
                self.queue.bookmark(version);
                true
            }
            Some(Work::Fed(fed)) => {
                match fed.into_work(&mut self.unwanted) {
                    FedWork::Changes(items) => self.queue.push_together(items, &mut self.unwanted),
                    FedWork::List(staged, version) => {
                        self.finished = Some((NO_ATTEMPT, Phase::Listing));
                        self.queue.replace(staged, version);
                    }
                }
                true
            }
        }
    }

    fn feed(&mut self, fed: Fed<T>) {
        assert!(
            self.fed,
            "Input::Fed is for an informer that was made with InformerConfig::fed: this one reads a server"
        );
        if self.phase() == Phase::Stopped {
            fed.give_up(&mut self.unwanted);
            return;
        }
        assert!(!self.is_held_up(), "nothing is fed while a handler is full: ask Informer::is_held_up before");
        self.begun |= fed.is_list();
        assert!(self.begun, "the first thing that is fed is a list, which may be empty; {fed:?} came before it");
        self.work.push_back(Work::Fed(fed));
    }

    fn decoded(&mut self, decoded: Decoded<T>) {
        let Busy::Decoding { bytes, wanted, .. } = self.busy else {
            panic!("Decoded answers a Decode, and none is out")
        };
        self.busy = Busy::No;
        self.waiting_bytes = self.waiting_bytes.saturating_sub(bytes);
        let Decoded { ticket, items } = decoded;
        if !wanted || self.phase() == Phase::Stopped {
            self.unwanted.extend(items.into_iter().filter_map(Item::into_object));
            return;
        }
        if ticket.staged {
            self.staging = ticket.attempt;
            items.into_iter().for_each(|item| self.staged.push(item));
            self.unwanted.append(self.staged.passed_over());
        } else {
            items.into_iter().for_each(|item| self.queue.push(item, &mut self.unwanted));
        }
    }

    fn committed(&mut self, now: Time, receipt: Receipt<T>) {
        let Busy::Committing(list) = self.busy else { panic!("Committed answers a Commit, and none is out") };
        self.busy = Busy::No;
        self.queue.give_back(receipt.spare);
        for bad in receipt.quarantined {
            let config = self.reflector.config();
            self.failure(Failure {
                subject: subject(&config.resource, config.namespace.as_deref()),
                phase: list.map_or(Phase::Watching, |(_, phase)| phase),
                code: 0,
                reason: reason::UNDECODABLE.into(),
                message: format!("{bad}"),
                repeats: 0,
                retry_in: None,
                quarantined: true,
            });
        }
        let Some((attempt, _)) = list else { return };
        self.stats.lists += 1;
        self.refresh = self.refresh.filter(|from| attempt < *from);
        self.reflector.applied(now, attempt);
        if !self.populated {
            assert!(
                !(receipt.first_list && self.preloaded),
                "InformerConfig::preloaded is for a store that was given its state with Store::preload"
            );
            debug_assert!(
                receipt.first_list || self.preloaded,
                "the store had something that this informer was not told of: give each informer a store of its own, and \
                 InformerConfig::preloaded if it was preloaded"
            );
            self.populated = true;
            if self.fed {
                self.outputs.push_back(Output::Notice(Notice::Phase(Phase::Watching)));
            }
            self.outputs.push_back(Output::Notice(Notice::Synced));
            for handler in &mut self.handlers {
                debug_assert!(!handler.attached, "a handler is attached once");
                handler.attached = true;
                let (id, begun) = (handler.id, handler.begun);
                self.outputs.push_back(if begun { Output::Complete(id) } else { Output::Attach(id) });
            }
        }
    }

    fn add_handler(&mut self, now: Time, id: HandlerId, resync: Option<Duration>) {
        assert!(self.handlers.iter().all(|handler| handler.id != id), "{id:?} is in use: give each handler its own");
        let asked = resync.filter(|period| !period.is_zero());
        let resync = asked.map(|period| period.max(self.min_resync));
        if let (Some(asked), true) = (asked, asked != resync) {
            self.outputs.push_back(Output::Notice(Notice::ResyncRaised { handler: id, asked }));
        }
        let next_resync = resync.map(|period| now + period);
        self.handlers.push(Handler { id, resync, next_resync, begun: false, attached: self.populated, full: false });
        if self.populated {
            self.outputs.push_back(Output::Attach(id));
        }
    }

    fn resyncs(&mut self, now: Time) {
        if self.phase() == Phase::Stopped {
            return;
        }
        for handler in &mut self.handlers {
            let (Some(period), Some(next)) = (handler.resync, handler.next_resync) else { continue };
            if next > now {
                continue;
            }
            // Periods that were missed (a suspend) are one resync, not many.
            handler.next_resync = Some(now + period);
            if handler.attached {
                self.outputs.push_back(Output::Resync(handler.id));
            }
        }
    }

    /// True while a handler is full ([`Input::Backlog`]): nothing is committed then, and nothing is to be fed.
    pub fn is_held_up(&self) -> bool {
        self.handlers.iter().any(|handler| handler.full)
    }

    /// Pauses the body while too much waits to be decoded, and goes on at half of that; and while a handler is full.
    fn flow(&mut self, now: Time) {
        let held_up = self.held.is_some() || self.is_held_up();
        match (self.paused, self.reflector.reading()) {
            (None, Some(id)) if self.waiting_bytes > self.in_flight_bytes || held_up => {
                self.paused = Some(id);
                self.reflector.pause(now, id);
                self.outputs.push_back(Output::Pause(id));
            }
            (Some(paused), Some(id)) if paused == id && self.waiting_bytes <= self.in_flight_bytes / 2 && !held_up => {
                self.paused = None;
                self.reflector.resume(now, paused);
                self.outputs.push_back(Output::Resume(id));
            }
            (_, _) => {}
        }
    }

    fn failure(&mut self, failure: Failure) {
        self.stats.failures += 1;
        self.outputs.push_back(Output::Notice(Notice::Failure(failure)));
    }
}

impl<T> fmt::Debug for Informer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "informer of {}, {}", self.resource(), self.phase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::DynamicObject;
    use crate::reflector::ListStrategy;
    use alloc::string::String;

    fn item(n: usize, bytes: usize) -> String {
        format!(r#"{{"metadata":{{"name":"n{n}","uid":"u","resourceVersion":"1"}},"pad":"{}"}},"#, "x".repeat(bytes))
    }

    /// A machine whose list has begun, and the batches that it wants decoded so far.
    fn listing(pieces: &[String]) -> (Informer<DynamicObject>, Vec<DecodeJob>) {
        let mut config = InformerConfig::new(Resource::namespaced("", "v1", "pods", "Pod"));
        config.reflector.strategy = ListStrategy::Paged;
        let (mut machine, head, id) = (Informer::new(config, 7), Head::new(200), RequestId(1));
        machine.handle(Time::ZERO, Input::Start);
        machine.handle(Time::ZERO, Input::Head { id, head: &head });
        let begin = br#"{"kind":"PodList","metadata":{"resourceVersion":"5"},"items":["#;
        machine.handle(Time::ZERO, Input::Body { id, bytes: begin });
        for piece in pieces {
            machine.handle(Time::ZERO, Input::Body { id, bytes: piece.as_bytes() });
        }
        let jobs = jobs(&mut machine);
        (machine, jobs)
    }

    #[allow(clippy::wildcard_enum_match_arm)] // what else comes out is no job
    fn jobs(machine: &mut Informer<DynamicObject>) -> Vec<DecodeJob> {
        let mut jobs = Vec::new();
        loop {
            match machine.poll_output() {
                Output::Decode(job) => jobs.push(job),
                Output::Wait(_) => return jobs,
                _ => {}
            }
        }
    }

    /// Answers a job with nothing decoded of it.
    fn answer(machine: &mut Informer<DynamicObject>, job: &DecodeJob) {
        machine.handle(Time::ZERO, Input::Decoded(Decoded { ticket: job.ticket, items: Default::default() }));
    }

    #[test]
    fn small_pieces_that_come_before_a_job_is_taken_are_part_of_it_and_those_that_come_later_wait_as_one_batch() {
        let pieces: Vec<String> = (0..10).map(|n| item(n, 10)).collect();
        let (mut machine, first) = listing(&pieces[..4]);
        assert_eq!(first.iter().map(DecodeJob::len).collect::<Vec<_>>(), [4], "one effect is out at a time");
        for piece in &pieces[4..] {
            machine.handle(Time::ZERO, Input::Body { id: RequestId(1), bytes: piece.as_bytes() });
            assert!(jobs(&mut machine).is_empty(), "what was taken is not changed");
        }
        answer(&mut machine, &first[0]);
        assert_eq!(jobs(&mut machine).iter().map(DecodeJob::len).collect::<Vec<_>>(), [6]);
    }

    #[test]
    fn a_batch_that_waits_does_not_grow_beyond_its_bound() {
        let pieces: Vec<String> = (0..8).map(|n| item(n, DECODE_BYTES / 3)).collect();
        let (mut machine, mut found) = listing(&pieces);
        let mut sizes = Vec::new();
        while let Some(job) = found.pop() {
            assert!(job.bytes() <= DECODE_BYTES);
            sizes.push(job.len());
            answer(&mut machine, &job);
            found = jobs(&mut machine);
        }
        assert_eq!(sizes, [2, 2, 2, 2]);
    }
}
