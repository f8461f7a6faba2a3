//! List and watch: the machine that keeps one collection's events coming, whatever the server and the network do.
//!
//! ```text
//!            start
//!              │
//!   ┌──────────▼───────────┐  refused by the server   ┌───────────────┐
//!   │ Streaming            │─────────────────────────►│ Listing       │◄──┐ next page
//!   │ (watch with initial  │                          │ (paged)       │───┘
//!   │  events)             │                          └──────┬────────┘
//!   └───┬──────────────┬───┘                                 │ committed
//!       │ end marker   │ failure                      ┌──────▼────────┐
//!       │              │          ┌───────────┐       │ Opening       │
//!       │              └─────────►│ Backoff   │◄──────│ (watch sent)  │
//!       │                         │           │       └──────┬────────┘
//!       │        failure, expired │           │              │ 200
//!   ┌───▼──────────────────────┐  │           │              │
//!   │ Watching                 │──►           │       (Watching)
//!   └───┬──────────────────┬───┘  └─┬──────┬──┘
//!       │ clean end        │        │      └──► Streaming or Listing
//!       └──► Opening       │        └─────────► Opening
//!                          │ no news for 10 min
//!   ┌──────────────────────▼───┐ not older ──► Opening, at the same version
//!   │ Probing                  │ older ──────► Streaming or Listing, for the newest state
//!   │ (list of one object)     │ failure ────► Backoff, then Opening
//!   └──────────────────────────┘
//!
//!   any state ── stop ──► Stopped
//! ```
//!
//! One file per state: `listing`, `streaming`, `opening`, `watching`, `probing`, `backoff`. `exchange` is the request
//! in flight, `failure` the words for what went wrong. Timers come from one place: `Reflector::deadline` asks the
//! state.
//!
//! Invariants. Every state but `Idle`, `Stopped` and a list that waits for its commit has a deadline, unless its body is
//! paused: asserted after every step in debug builds. At most one request is in flight (I27): only a state holds an
//! exchange, and there is one state; the informer asserts what follows from it. The version to resume from never comes from
//! an ERROR, a foreign object or one without a version (I28): `watching.rs` (`events`) is where it moves, and the tests
//! beside it show each case.

mod backoff;
mod exchange;
pub(crate) mod failure;
mod health;
mod listing;
mod opening;
mod probing;
mod stream;
mod streaming;
#[cfg(test)]
mod tests;
mod tuning;
mod watching;

pub use failure::{Failure, check_installed, reason};
pub use health::Health;
pub use tuning::{Tuning, why};

use crate::decode::foreign;
use crate::object::{Resource, Version};
use crate::rng::Rng;
use crate::time::{Deadline, Duration, Time};
use crate::wire::{Head, Limits, RawBatch, RawItem, Request, RequestId, Verb};
use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use backoff::{BackingOff, Backoff, Next, Wait};
use core::fmt;
use exchange::Exchange;
use failure::{Fault, Repeats};
use health::Record;
use listing::Listing;
use opening::Opening;
use probing::Probing;
use streaming::Streaming;
use watching::Watching;

/// The most that `min_watch_timeout` is taken for: a day, far over any server's own limit.
const MAX_WATCH_TIMEOUT: Duration = Duration::from_secs(86_400);

/// How the state is read before the watch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum ListStrategy {
    /// A streaming list first; pages where the server refuses it.
    #[default]
    Auto,
    /// Only streaming lists.
    Streaming,
    /// Only pages.
    Paged,
}

/// What a reflector reads and how.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReflectorConfig {
    /// The collection.
    pub resource: Resource,
    /// One namespace, or all.
    pub namespace: Option<String>,
    /// Label selector as the server understands it.
    pub label_selector: Option<String>,
    /// Field selector as the server understands it.
    pub field_selector: Option<String>,
    /// How the state is read.
    pub strategy: ListStrategy,
    /// Objects per page of a list; 0 asks for all at once.
    pub page_size: u32,
    /// `timeoutSeconds` of a watch lies in [this, twice this]. At least a second and at most a day count.
    pub min_watch_timeout: Duration,
    /// Bounds of frames and items.
    pub limits: Limits,
    /// Waits and bounds.
    pub tuning: Tuning,
}

impl ReflectorConfig {
    /// The defaults, for `resource` in all namespaces.
    pub fn new(resource: Resource) -> Self {
        ReflectorConfig {
            resource,
            namespace: None,
            label_selector: None,
            field_selector: None,
            strategy: ListStrategy::Auto,
            page_size: 500,
            min_watch_timeout: Duration::from_secs(300),
            limits: Limits::default(),
            tuning: Tuning::default(),
        }
    }
}

/// Where a reflector stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// Not started.
    Idle,
    /// Reading pages, or waiting until the list is in the cache; or asking a server whose watch has long been silent for
    /// its newest version, with a list of one object.
    Listing,
    /// Reading a streaming list up to its end marker.
    Streaming,
    /// A watch was sent and has no head yet.
    Opening,
    /// A watch was answered and is open.
    Watching,
    /// Waiting before the next request.
    Backoff,
    /// Stopped for good.
    Stopped,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Phase::Idle => "idle",
            Phase::Listing => "listing",
            Phase::Streaming => "streaming",
            Phase::Opening => "opening",
            Phase::Watching => "watching",
            Phase::Backoff => "backoff",
            Phase::Stopped => "stopped",
        })
    }
}

/// How an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// The body is complete.
    Closed,
    /// No connection came about: refused, unreachable, no such name. The server had no work with it.
    Refused(String),
    /// The connection broke, or was never any good (TLS); before or inside the body.
    Broken(String),
}

/// What the informer must do next, in order.
pub(crate) enum Effect {
    Send(Request),
    Cancel(RequestId),
    /// Items to decode. `staged`: part of a list that shows only when it is finished. `doubt`: the list asks for the newest
    /// state and may turn out to be older than ours, so a version that we know need not stand for what we know.
    Items {
        attempt: u64,
        staged: bool,
        doubt: bool,
        batch: RawBatch,
    },
    /// The staged list is complete and stands for `version`; `phase` says how it was asked for. `set_back`: the server
    /// was set back to it, so versions that the store knows may stand for other contents now.
    Finish {
        attempt: u64,
        phase: Phase,
        version: Version,
        set_back: bool,
    },
    /// The staged list of this attempt will never be complete.
    Discard {
        attempt: u64,
    },
    /// Everything up to this version was sent.
    Bookmark(Version),
    Failure(Failure),
    Phase(Phase),
}

// One per informer, moved on every transition: a box would cost an allocation each time and save a kilobyte in all.
#[allow(clippy::large_enum_variant)]
enum State {
    Idle,
    Listing(Listing),
    Streaming(Streaming),
    Opening(Opening),
    Watching(Watching),
    Probing(Probing),
    Backoff(BackingOff),
    Stopped,
}

/// What outlives a state.
struct Memory {
    /// From here the next watch starts; empty before the first list.
    version: Version,
    /// The next list must ask for the newest state: our version is of no use to the server.
    latest: bool,
    /// The server was set back to an older state: until a list of this attempt or a later one is in the store, a version
    /// that we know may stand for another content.
    set_back: Option<u64>,
    /// The list that echoed our own version; if its watch is expired as well, that cache is of no use.
    echoed: bool,
    /// Streaming lists are given up for the life of this machine.
    streaming_refused: bool,
    streaming_tries: u32,
    short_watches: u32,
    internal_errors: u32,
    /// Streams in a row that fell silent without a bookmark.
    unbookmarked: u32,
    /// The last stream fell silent, too.
    was_silent: bool,
    fresh_connection: bool,
    refresh_credentials: bool,
    last_sent: Time,
    /// The last news of a watch (an event or a bookmark), finished list or probe. Time in which we did not run, did not
    /// read or were not answered is added to it: it is not the server's silence.
    quiet_since: Time,
    /// When the first watch was sent of those in a row that were not answered with 200.
    unanswered_since: Option<Time>,
    /// What the wall clock said last, since 1970, and when.
    wall: Option<(Duration, Time)>,
    repeats: Repeats,
    record: Record,
}

/// The machine.
pub(crate) struct Reflector {
    config: ReflectorConfig,
    memory: Memory,
    backoff: Backoff,
    rng: Rng,
    state: State,
    effects: VecDeque<Effect>,
    requests: u64,
    attempts: u64,
    phase: Phase,
}

impl Reflector {
    pub(crate) fn new(config: ReflectorConfig, rng: Rng) -> Self {
        Reflector {
            memory: Memory {
                version: Version::default(),
                latest: false,
                set_back: None,
                echoed: false,
                streaming_refused: false,
                streaming_tries: 0,
                short_watches: 0,
                internal_errors: 0,
                unbookmarked: 0,
                was_silent: false,
                fresh_connection: false,
                refresh_credentials: false,
                last_sent: Time::ZERO,
                quiet_since: Time::ZERO,
                unanswered_since: None,
                wall: None,
                repeats: Repeats::default(),
                record: Record::default(),
            },
            backoff: Backoff::new(&config.tuning),
            config,
            rng,
            state: State::Idle,
            effects: VecDeque::new(),
            requests: 0,
            attempts: 0,
            phase: Phase::Idle,
        }
    }

    /// The cache has a state of an earlier run: the first list is asked for as a relist is. A version that is no decimal
    /// number the server might refuse for ever; then the newest state is asked for, for a cache of the server's that is
    /// older than ours would make deletions up.
    pub(crate) fn preloaded(&mut self, version: Version) {
        if version.is_decimal() {
            self.memory.version = version;
        } else {
            self.memory.latest = true;
        }
    }

    pub(crate) fn config(&self) -> &ReflectorConfig {
        &self.config
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    pub(crate) fn health(&self) -> Health {
        self.memory.record.health()
    }

    pub(crate) fn poll(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// The request in flight.
    pub(crate) fn in_flight(&self) -> Option<RequestId> {
        self.exchange().map(|exchange| exchange.id)
    }

    pub(crate) fn start(&mut self, now: Time) {
        if matches!(self.state, State::Idle) {
            self.begin_list(now);
        }
    }

    pub(crate) fn stop(&mut self) {
        if matches!(self.state, State::Stopped) {
            return;
        }
        self.abandon();
        self.enter(Phase::Stopped, State::Stopped);
    }

    /// Gives up what is going on and lists the newest state. Returns the first attempt of that, if there is one.
    pub(crate) fn refresh(&mut self, now: Time) -> Option<u64> {
        match self.state {
            State::Idle | State::Stopped => None,
            State::Listing(_)
            | State::Streaming(_)
            | State::Opening(_)
            | State::Watching(_)
            | State::Probing(_)
            | State::Backoff(_) => {
                self.abandon();
                self.memory.latest = true;
                self.begin_list(now);
                Some(self.attempts)
            }
        }
    }

    pub(crate) fn connected(&mut self, id: RequestId) {
        if let Some(exchange) = self.exchange_mut(id) {
            exchange.connected();
        }
    }

    pub(crate) fn head(&mut self, now: Time, id: RequestId, head: &Head) {
        // A second head of the same answer is the adapter's mistake; there is none in HTTP.
        let unix = self.memory.unix(now);
        let Some(exchange) = self.exchange_mut(id).filter(|exchange| exchange.awaits_head()) else { return };
        exchange.at_unix(unix);
        self.memory.record.contact(now);
        match core::mem::replace(&mut self.state, State::Idle) {
            State::Listing(state) => self.listing_head(now, state, head),
            State::Streaming(state) => self.streaming_head(now, state, head),
            State::Opening(state) => self.opening_head(now, state, head),
            State::Probing(state) => self.probing_head(now, state, head),
            state @ (State::Watching(_) | State::Idle | State::Backoff(_) | State::Stopped) => self.state = state,
        }
        self.check(now);
    }

    /// Reads from the front of `bytes`. True if there is more to come of this body, also if nothing is left there: it is
    /// to be called again when there is room for that.
    pub(crate) fn body(&mut self, now: Time, id: RequestId, bytes: &mut &[u8]) -> bool {
        let Some(exchange) = self.exchange_mut(id) else { return false };
        let is_read = exchange.body(now, bytes);
        self.memory.record.contact(now);
        if !is_read {
            return false;
        }
        let more = match core::mem::replace(&mut self.state, State::Idle) {
            State::Listing(state) => self.listing_body(now, state, bytes),
            State::Streaming(state) => self.streaming_body(now, state, bytes),
            State::Watching(state) => self.watching_body(now, state, bytes),
            State::Probing(state) => self.probing_body(now, state, bytes),
            state @ (State::Opening(_) | State::Idle | State::Backoff(_) | State::Stopped) => {
                self.state = state;
                false
            }
        };
        self.check(now);
        more && self.in_flight() == Some(id)
    }

    pub(crate) fn end(&mut self, now: Time, id: RequestId, end: &End) {
        if self.exchange_mut(id).is_none() {
            return;
        }
        match core::mem::replace(&mut self.state, State::Idle) {
            State::Listing(state) => self.listing_end(now, state, end),
            State::Streaming(state) => self.streaming_end(now, state, end),
            State::Opening(state) => self.opening_end(now, state, end),
            State::Watching(state) => self.watching_end(now, state, end),
            State::Probing(state) => self.probing_end(now, state, end),
            state @ (State::Idle | State::Backoff(_) | State::Stopped) => self.state = state,
        }
        self.check(now);
    }

    /// Fires what is due.
    pub(crate) fn tick(&mut self, now: Time) {
        let Some(due) = self.deadline().filter(|deadline| deadline.at <= now) else { return };
        // While nobody answers, all of the time counts as such, when the next watch is answered.
        if self.memory.unanswered_since.is_none() && !matches!(self.state, State::Opening(_)) {
            self.memory.not_silent(now, due.at);
        }
        match core::mem::replace(&mut self.state, State::Idle) {
            State::Listing(state) => self.listing_late(now, state),
            State::Streaming(state) => self.streaming_late(now, state),
            State::Opening(state) => self.opening_late(now, state),
            State::Watching(state) => self.watching_late(now, state, due.at),
            State::Probing(state) => self.probing_late(now, state),
            State::Backoff(state) => self.go_on(now, now, state.next),
            state @ (State::Idle | State::Stopped) => self.state = state,
        }
        self.check(now);
    }

    /// The only place where a reflector's timer comes from.
    pub(crate) fn deadline(&self) -> Option<Deadline> {
        let tuning = &self.config.tuning;
        match &self.state {
            State::Idle | State::Stopped => None,
            State::Listing(state) => state.deadline(tuning),
            State::Streaming(state) => state.deadline(tuning),
            State::Opening(state) => state.deadline(tuning),
            State::Watching(state) => state.deadline(tuning, &self.memory),
            State::Probing(state) => Some(state.deadline(tuning)),
            State::Backoff(state) => Some(state.deadline()),
        }
    }

    /// The request whose body is being read. Only that can be paused: until the head is there nothing is held back.
    pub(crate) fn reading(&self) -> Option<RequestId> {
        // Nothing of a probe waits to be decoded.
        let exchange = if matches!(self.state, State::Probing(_)) { None } else { self.exchange() };
        exchange.filter(|exchange| exchange.is_open()).map(|exchange| exchange.id)
    }

    /// The body of `id` is not being read from now on: our own slowness is not the server's silence.
    pub(crate) fn pause(&mut self, now: Time, id: RequestId) {
        if let Some(exchange) = self.exchange_mut(id) {
            exchange.pause(now);
        }
    }

    /// The body of `id` is being read again.
    pub(crate) fn resume(&mut self, now: Time, id: RequestId) {
        if let Some(since) = self.exchange_mut(id).and_then(|exchange| exchange.resume(now)) {
            self.memory.not_silent(now, since);
        }
    }

    /// The wall clock says `unix`. If it has run ahead of ours, we were suspended.
    pub(crate) fn wall_clock(&mut self, now: Time, unix: Duration) {
        let expected = self.memory.unix(now);
        self.memory.wall = Some((unix, now));
        // A jump backward says nothing: no machine sleeps for less than no time.
        if expected.is_none_or(|expected| unix.saturating_sub(expected) < self.config.tuning.suspend) {
            return;
        }
        match core::mem::replace(&mut self.state, State::Idle) {
            State::Watching(state) => self.watching_suspended(now, &state),
            State::Idle => {}
            // What waits for an answer has a deadline that is near.
            state @ (State::Listing(_)
            | State::Streaming(_)
            | State::Opening(_)
            | State::Probing(_)
            | State::Backoff(_)
            | State::Stopped) => {
                self.state = state;
                self.memory.fresh_connection = true;
            }
        }
        self.check(now);
    }

    fn exchange(&self) -> Option<&Exchange> {
        match &self.state {
            State::Listing(state) => state.exchange.as_ref(),
            State::Streaming(state) => Some(&state.exchange),
            State::Opening(state) => Some(&state.exchange),
            State::Watching(state) => Some(&state.exchange),
            State::Probing(state) => Some(&state.exchange),
            State::Idle | State::Backoff(_) | State::Stopped => None,
        }
    }

    fn exchange_mut(&mut self, id: RequestId) -> Option<&mut Exchange> {
        let exchange = match &mut self.state {
            State::Listing(state) => state.exchange.as_mut(),
            State::Streaming(state) => Some(&mut state.exchange),
            State::Opening(state) => Some(&mut state.exchange),
            State::Watching(state) => Some(&mut state.exchange),
            State::Probing(state) => Some(&mut state.exchange),
            State::Idle | State::Backoff(_) | State::Stopped => None,
        };
        exchange.filter(|exchange| exchange.id == id)
    }

    fn enter(&mut self, phase: Phase, state: State) {
        self.state = state;
        if self.phase != phase {
            self.phase = phase;
            self.effects.push_back(Effect::Phase(phase));
        }
    }

    /// Ends the request in flight and what was staged from it, if there is any.
    fn abandon(&mut self) {
        if let Some(id) = self.in_flight() {
            self.effects.push_back(Effect::Cancel(id));
        }
        if matches!(self.state, State::Listing(_) | State::Streaming(_)) {
            self.discard();
        }
    }

    /// Gives up the list that is being read: it is always the latest attempt. An earlier one may be finished and still
    /// on its way into the store.
    fn discard(&mut self) {
        self.effects.push_back(Effect::Discard { attempt: self.attempts });
    }

    fn next_attempt(&mut self) -> u64 {
        self.attempts += 1;
        self.attempts
    }

    fn send(&mut self, now: Time, verb: Verb, mut query: Vec<(&'static str, String)>) -> RequestId {
        self.requests += 1;
        self.memory.last_sent = now;
        let id = RequestId(self.requests);
        let config = &self.config;
        if let Some(selector) = &config.label_selector {
            query.push(("labelSelector", selector.clone()));
        }
        if let Some(selector) = &config.field_selector {
            query.push(("fieldSelector", selector.clone()));
        }
        self.effects.push_back(Effect::Send(Request {
            id,
            verb,
            path: config.resource.path(config.namespace.as_deref()),
            query,
            accept: "application/json",
            // A gzip layer would hold back a watch's events; on a list it saves most of the bytes.
            accept_encoding: if verb == Verb::List { "gzip" } else { "identity" },
            fresh_connection: core::mem::take(&mut self.memory.fresh_connection),
            refresh_credentials: core::mem::take(&mut self.memory.refresh_credentials),
            connect_within: config.tuning.connect,
        }));
        id
    }

    /// `timeoutSeconds` for a watch, uniform in [min, 2·min], at least 1.
    fn watch_timeout(&mut self) -> u64 {
        let min = self.config.min_watch_timeout.min(MAX_WATCH_TIMEOUT);
        let low = min.as_secs() + u64::from(min.subsec_nanos() > 0);
        let high = (min.saturating_mul(2).as_secs()).max(low);
        (low + self.rng.below(high - low + 1)).max(1)
    }

    /// The wait that a failure costs.
    fn wait(&mut self, wait: Wait) -> Duration {
        self.backoff.next(wait, &self.config.tuning, &mut self.rng)
    }

    fn report(&mut self, now: Time, phase: Phase, fault: Fault, retry_in: Option<Duration>) {
        if fault.code == 401 {
            self.memory.refresh_credentials = true;
        }
        if fault.reason == reason::DEADLINE {
            // Whatever fell silent, its connection is not to be trusted.
            self.memory.fresh_connection = true;
        }
        self.memory.record.failed(now);
        let repeats = self.memory.repeats.count(phase, &fault);
        let subject = failure::subject(&self.config.resource, self.config.namespace.as_deref());
        let Fault { code, reason, message } = fault;
        self.effects.push_back(Effect::Failure(Failure {
            subject,
            phase,
            code,
            reason,
            message,
            repeats,
            retry_in,
            quarantined: false,
        }));
    }

    /// Reports a fault and goes on after the wait that it costs.
    fn fail(&mut self, now: Time, phase: Phase, fault: Fault, wait: Wait, next: Next) {
        let wait = self.wait(wait);
        self.report(now, phase, fault, Some(wait));
        self.go_on(now, now + wait, next);
    }

    /// An event or a bookmark came.
    fn news(&mut self, now: Time) {
        self.memory.heard(now);
        self.memory.record.good();
        self.alive();
    }

    /// Notes that a watch lives.
    fn alive(&mut self) {
        self.backoff.reset(&self.config.tuning);
        self.memory.repeats.forget(Phase::Watching);
        self.memory.short_watches = 0;
        self.memory.internal_errors = 0;
        self.memory.was_silent = false;
    }

    #[cfg(not(debug_assertions))]
    fn check(&self, _now: Time) {}

    #[cfg(debug_assertions)]
    fn check(&self, _now: Time) {
        assert!(
            self.rests() || self.deadline().is_some_and(|deadline| why::ALL.contains(&deadline.why)),
            "a reflector that is {} has neither a timer that is known nor rest (B009)",
            self.phase
        );
    }

    /// True where no timer runs: nothing was asked for, a list is on its way into the store, or we do not read.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn rests(&self) -> bool {
        let resting = match &self.state {
            State::Idle | State::Stopped => true,
            State::Listing(state) => state.is_finished(),
            State::Streaming(_) | State::Opening(_) | State::Watching(_) | State::Probing(_) | State::Backoff(_) => {
                false
            }
        };
        resting || self.exchange().is_some_and(Exchange::is_paused)
    }

    /// True if a request is in flight whose head has not come.
    #[cfg(test)]
    pub(crate) fn awaits_head(&self) -> bool {
        self.exchange().is_some_and(Exchange::awaits_head)
    }

    /// The state by name, with what sets its timer.
    #[cfg(test)]
    pub(crate) fn state_name(&self) -> &'static str {
        match &self.state {
            State::Idle => "idle",
            State::Listing(state) if state.is_finished() => "finished list",
            State::Listing(_) => "listing",
            State::Streaming(_) => "streaming",
            State::Opening(_) => "opening",
            State::Watching(_) => "watching",
            State::Probing(_) => "probing",
            State::Backoff(_) => "backoff",
            State::Stopped => "stopped",
        }
    }
}

/// Which state a list asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Ask {
    /// Any that the server has at hand: the first list.
    Any,
    /// At least as new as what we have.
    NotOlder(Version),
    /// The newest.
    Latest,
}

impl Ask {
    /// The query of a paged list.
    fn query(&self) -> Option<(&'static str, String)> {
        match self {
            Ask::Any => Some(("resourceVersion", "0".into())),
            Ask::NotOlder(version) => Some(("resourceVersion", version.to_string())),
            Ask::Latest => None,
        }
    }
}

impl Memory {
    fn ask(&self) -> Ask {
        if self.latest {
            Ask::Latest
        } else if self.version.is_unset() {
            Ask::Any
        } else {
            Ask::NotOlder(self.version.clone())
        }
    }

    /// The wall clock at `now`, if it is known.
    fn unix(&self, now: Time) -> Option<Duration> {
        self.wall.map(|(unix, at)| unix.saturating_add(now.since(at)))
    }

    /// The server told where it is: the silence of a watch counts from here.
    fn heard(&mut self, now: Time) {
        self.quiet_since = now;
        self.unanswered_since = None;
    }

    /// The time since `from` says nothing about the server: the driver slept, or did not read, or nobody answered.
    fn not_silent(&mut self, now: Time, from: Time) {
        self.quiet_since = self.quiet_since + now.since(self.quiet_since.max(from));
    }

    /// The answer to a list is older than what we have seen.
    fn is_older(&self, version: &Version) -> bool {
        version.is_before(&self.version)
    }
}

/// Why an event of a watch cannot be attributed to an object of this collection, if it cannot. Its stream is given up:
/// going on would move the cursor past a change that nobody saw (I32).
fn unreadable(item: &RawItem<'_>, resource: &Resource) -> Option<Fault> {
    if let Some(reason) = foreign(item, resource) {
        return Some(Fault::new(reason::UNDECODABLE, format_args!("an event holds a foreign object: {reason}")));
    }
    (!item.has_key())
        .then(|| Fault::new(reason::UNDECODABLE, "an event holds an object without a readable metadata.name"))
}
