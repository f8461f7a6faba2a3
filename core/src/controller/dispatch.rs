//! [`Controller`]: which key runs when, on how many workers, and what follows from how it ended.
//!
//! ```text
//!            open                    stop, drain
//!   gated ─────────► running ──────────────────────► ending ──► stopped
//!     │               next: a run per free worker     what runs ends;
//!     └── stop ──►    finished: forget, delay, retry   drain: what is queued runs, too
//! ```
//!
//! The machine starts nothing itself: the driver calls [`next`](Controller::next) until it returns `None`, runs the
//! reconciles, reports each with [`finished`](Controller::finished), and comes back at
//! [`next_deadline`](Controller::next_deadline). The [module](super) shows all of it.
//!
//! With a deadline for reconciles the driver also cuts each run short that it can ([`cut_short`](Controller::cut_short) at
//! [`Run::deadline`]), and is told of those that it cannot ([`overdue`](Controller::overdue)):
//!
//! ```
//! use informer_core::Key;
//! use informer_core::controller::{Controller, ControllerConfig, Verdict};
//! use informer_core::time::{Duration, Time};
//!
//! let mut controller = Controller::new(ControllerConfig::new(1).reconcile_deadline(Duration::from_secs(30)));
//! controller.open();
//! controller.enqueue(Time::ZERO, Key::new("web", "a"));
//! let run = controller.next(Time::ZERO).unwrap();
//!
//! let deadline = controller.next_deadline().unwrap().at;
//! assert_eq!((run.deadline(), deadline), (Some(deadline), Time::from_millis(30_000)));
//! assert_eq!(controller.overdue(deadline).unwrap().key, *run.key());
//! assert!(controller.overdue(deadline).is_none(), "each is told once");
//! assert_eq!(controller.stuck(deadline).count(), 1);
//!
//! controller.enqueue(deadline, Key::new("web", "a"));
//! assert!(controller.next(deadline).is_none(), "a key that runs is not run beside itself");
//! controller.finished(deadline, run, Verdict::Done);
//! assert!(controller.next(deadline).is_some());
//! ```

use super::outcome::Verdict;
use super::overdue::{CUT_PATIENCE, Overdue, Underway, WAY_OUT};
use crate::object::Key;
use crate::queue::{KeyState, Limiter, QueueConfig, Ticket, WorkQueue};
use crate::time::{Clock, Deadline, Duration, Time};
use core::fmt;

/// How a [`Controller`] is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ControllerConfig {
    /// How many keys run at a time, at least 1.
    pub workers: usize,
    /// The queue.
    pub queue: QueueConfig,
    /// How long a run may take; for ever if `None`, or if it is zero. See [`Run::deadline`] and [`Controller::overdue`].
    pub reconcile_deadline: Option<Duration>,
    /// The driver cuts runs [short](Controller::cut_short) at their deadline. So one that is still there is
    /// [overdue](Controller::overdue) only a second later.
    pub cuts_short: bool,
}

impl ControllerConfig {
    /// 4: enough that one slow object does not stop the others, and a server does not notice (an unbounded number has
    /// brought controllers down).
    pub const WORKERS: usize = 4;

    /// The default workers and queue, and the queue's seed.
    pub const fn new(seed: u64) -> Self {
        ControllerConfig {
            workers: Self::WORKERS,
            queue: QueueConfig::new(seed),
            reconcile_deadline: None,
            cuts_short: false,
        }
    }

    /// The same with another number of workers; 0 counts as 1.
    #[must_use]
    pub const fn workers(mut self, workers: usize) -> Self {
        self.workers = if workers == 0 { 1 } else { workers };
        self
    }

    /// The same with another limiter for retries.
    #[must_use]
    pub fn limiter(mut self, limiter: Limiter) -> Self {
        self.queue.limiter = limiter;
        self
    }

    /// The same with a deadline for each run; none if it is zero.
    #[must_use]
    pub const fn reconcile_deadline(mut self, deadline: Duration) -> Self {
        self.reconcile_deadline = Some(deadline);
        self
    }

    /// The same for a driver that can drop what is overdue.
    #[must_use]
    pub const fn cuts_short(mut self) -> Self {
        self.cuts_short = true;
        self
    }
}

/// One run of the reconcile that is under way. It must come back with [`Controller::finished`], whatever happens to
/// the code that it runs, or its key is never run again and its worker is never free (B153).
#[derive(Debug)]
#[must_use = "report it with `Controller::finished`, or its key never runs again"]
pub struct Run {
    key: Key,
    attempt: u32,
    ticket: Ticket,
    number: u64,
    deadline: Option<Time>,
}

impl Run {
    /// What to reconcile.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// 1 if the last run of this key did not fail, else one more than the number of failures in a row.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// When it is to have ended, if the controller has a deadline: the moment for [`Controller::cut_short`].
    pub fn deadline(&self) -> Option<Time> {
        self.deadline
    }
}

/// How a run ended and what follows. `Display` is the line for a log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finished {
    /// What ran.
    pub key: Key,
    /// Which attempt it was.
    pub attempt: u32,
    /// How it ended.
    pub verdict: Verdict,
    /// When it ended.
    pub at: Time,
    /// When the key becomes ready again by itself, if it does; a change makes it ready sooner.
    pub due: Option<Time>,
}

impl fmt::Display for Finished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: attempt {} ", self.key, self.attempt)?;
        let next = match &self.verdict {
            Verdict::Done => return f.write_str("done"),
            Verdict::GiveUp(message) => return write!(f, "failed: {message}; not retried until something changes"),
            Verdict::RequeueAfter(_) => {
                f.write_str("done")?;
                "again"
            }
            Verdict::Retry(message) => {
                write!(f, "failed: {message}")?;
                "retrying"
            }
            Verdict::Panicked(message) => {
                write!(f, "panicked: {message}")?;
                "retrying"
            }
            Verdict::Unanswered => {
                f.write_str("was dropped without an answer")?;
                "retrying"
            }
            Verdict::CutShort(deadline) => {
                write!(f, "was cut short at its deadline of {deadline:?} ({WAY_OUT})")?;
                "retrying"
            }
        };
        match self.due {
            Some(due) => write!(f, "; {next} in {:?}", due.since(self.at)),
            None => write!(f, "; not {next}, as the controller is stopping"),
        }
    }
}

/// How often what has happened. Every run that was started ends up in exactly one of the other counts but `overdue`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Runs that were started.
    pub reconciles: u64,
    /// Runs that worked and asked for nothing.
    pub done: u64,
    /// Runs that worked and asked for a repeat.
    pub requeued: u64,
    /// Runs that failed and are retried.
    pub failures: u64,
    /// Runs that failed and are not retried.
    pub given_up: u64,
    /// Runs that panicked.
    pub panics: u64,
    /// Runs that were dropped without an answer.
    pub unanswered: u64,
    /// Runs that were cut short at their deadline.
    pub cut_short: u64,
    /// Runs that were told as overdue while they went on; when they end they count once more, as what they end with.
    pub overdue: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Some cache has not synced: a reconcile would not find objects that exist (B162).
    Gated,
    Running,
    /// What is queued still runs.
    Draining,
    /// Nothing more starts.
    Stopping,
}

/// Decides which key runs when; see the [module](super).
#[derive(Debug)]
pub struct Controller {
    clock: Clock,
    queue: WorkQueue<Key>,
    workers: usize,
    phase: Phase,
    counts: Counts,
    underway: Underway,
}

impl Controller {
    /// A controller that runs nothing yet: see [`open`](Self::open).
    pub fn new(config: ControllerConfig) -> Self {
        let patience = if config.cuts_short { CUT_PATIENCE } else { Duration::ZERO };
        Controller {
            underway: Underway::new(config.reconcile_deadline, patience),
            clock: Clock::default(),
            queue: WorkQueue::new(config.queue),
            workers: config.workers.max(1),
            phase: Phase::Gated,
            counts: Counts::default(),
        }
    }

    /// Lets runs start: all caches that reconciles read, the secondary ones included, have synced (B162). No effect
    /// once the controller is ending.
    pub fn open(&mut self) {
        if self.phase == Phase::Gated {
            self.phase = Phase::Running;
        }
    }

    /// A notification is about this key: it runs as soon as a worker is free, after those that came before. The limiter
    /// has no part in it (B149), and a wait for a retry does not hold it back (B147).
    ///
    /// False if the controller is ending; then nothing has changed.
    pub fn enqueue(&mut self, now: Time, key: Key) -> bool {
        let added = self.queue.add(self.clock.advance(now), key);
        self.check_step();
        added
    }

    /// The next run to start; call it until it returns `None`, after every other call and at every deadline.
    ///
    /// `None` if no worker is free, no key is ready, the caches are not synced, or the controller is stopping.
    #[allow(clippy::should_implement_trait)] // an Iterator has no clock
    pub fn next(&mut self, now: Time) -> Option<Run> {
        let now = self.clock.advance(now);
        if !self.may_start() {
            return None;
        }
        let (key, ticket) = self.queue.get(now)?;
        let attempt = self.queue.retries(&key).saturating_add(1);
        self.counts.reconciles += 1;
        let (number, deadline) = self.underway.start(now, &key, attempt);
        self.check_step();
        Some(Run { key, attempt, ticket, number, deadline })
    }

    /// True if a ready key would run now.
    fn may_start(&self) -> bool {
        let open = match self.phase {
            Phase::Running | Phase::Draining => true,
            Phase::Gated | Phase::Stopping => false,
        };
        open && self.queue.processing() < self.workers
    }

    /// A run has ended. Its worker is free, and its key can run again: at once if it changed meanwhile.
    ///
    /// # Panics
    ///
    /// If another controller started the run.
    pub fn finished(&mut self, now: Time, run: Run, verdict: Verdict) -> Finished {
        let now = self.clock.advance(now);
        let Run { key, attempt, ticket, number, deadline: _ } = run;
        let promised = match &verdict {
            Verdict::Done => {
                self.counts.done += 1;
                self.queue.forget(&key);
                false
            }
            Verdict::RequeueAfter(span) => {
                self.counts.requeued += 1;
                self.queue.forget(&key);
                self.queue.add_after(now, key.clone(), *span)
            }
            Verdict::Retry(_) => {
                self.counts.failures += 1;
                self.queue.add_rate_limited(now, key.clone())
            }
            Verdict::Panicked(_) => {
                self.counts.panics += 1;
                self.queue.add_rate_limited(now, key.clone())
            }
            Verdict::Unanswered => {
                self.counts.unanswered += 1;
                self.queue.add_rate_limited(now, key.clone())
            }
            Verdict::CutShort(_) => {
                self.counts.cut_short += 1;
                self.queue.add_rate_limited(now, key.clone())
            }
            Verdict::GiveUp(_) => {
                self.counts.given_up += 1;
                self.queue.forget(&key);
                false
            }
        };
        // Without a wait the key is ready already, and has no due time.
        let due = promised.then(|| self.queue.state(&key).and_then(|state| state.due).unwrap_or(now));
        self.queue.done(now, ticket);
        self.underway.end(number);
        self.check_step();
        Finished { key, attempt, verdict, at: now, due }
    }

    /// A run is at its [deadline](Run::deadline), and what ran for it was dropped: nothing of it goes on. That is a
    /// failure, and its key is retried with a growing wait. An answer that would have come later cannot come: the run is
    /// given up for this.
    ///
    /// Not for what cannot be dropped, such as a function on a thread: its key must stay in its hand.
    ///
    /// # Panics
    ///
    /// If the run has no deadline, or another controller started it.
    pub fn cut_short(&mut self, now: Time, run: Run) -> Finished {
        let deadline = self.underway.deadline().filter(|_| run.deadline.is_some());
        let deadline = deadline.expect("Controller::cut_short: only a controller with a deadline cuts its runs short");
        self.finished(now, run, Verdict::CutShort(deadline))
    }

    /// The next run that is over its deadline and was not told yet; each is told once. Call it until it returns `None`,
    /// when [`next`](Self::next) is called, also at the end. Nothing changes by it: the run goes on, and comes back with
    /// [`finished`](Self::finished) like any other.
    #[must_use]
    pub fn overdue(&mut self, now: Time) -> Option<Overdue> {
        let overdue = self.underway.poll(self.clock.advance(now))?;
        self.counts.overdue += 1;
        Some(overdue)
    }

    /// The runs that are over their deadline and go on, the oldest first.
    pub fn stuck(&self, now: Time) -> impl Iterator<Item = Overdue> {
        self.underway.overdue_at(now.max(self.clock.now()))
    }

    /// When to call [`next`](Self::next) and [`overdue`](Self::overdue) again if nothing else happens: a delayed key is
    /// due, or a run will be over its deadline. Delayed keys do not count while no run could start: then
    /// [`finished`](Self::finished) or [`open`](Self::open) comes first.
    pub fn next_deadline(&self) -> Option<Deadline> {
        Deadline::sooner(self.queue.next_deadline().filter(|_| self.may_start()), self.overdue_deadline())
    }

    /// The part of [`next_deadline`](Self::next_deadline) that is about [`overdue`](Self::overdue).
    pub fn overdue_deadline(&self) -> Option<Deadline> {
        self.underway.due().map(|at| Deadline { at, why: "a run is overdue" })
    }

    /// Ends the controller: no run starts any more, delayed and queued keys are left ([`unfinished`](Self::unfinished)
    /// tells them), and what is running is waited for. Also cuts a [`drain`](Self::drain) short.
    pub fn stop(&mut self) {
        self.phase = Phase::Stopping;
        self.queue.shut_down();
        self.check_step();
    }

    /// Ends the controller after the work that it has: nothing is added any more, delayed keys are left, and what is
    /// queued or running is waited for. A failure is not retried. Without [`open`](Self::open) nothing can run, and
    /// this is [`stop`](Self::stop).
    pub fn drain(&mut self) {
        match self.phase {
            Phase::Gated => self.stop(),
            Phase::Running => {
                self.phase = Phase::Draining;
                self.queue.shut_down_with_drain();
            }
            Phase::Draining | Phase::Stopping => {}
        }
        self.check_step();
    }

    /// True once the controller was stopped or drained, and nothing runs or will run any more.
    pub fn is_stopped(&self) -> bool {
        match self.phase {
            Phase::Gated | Phase::Running => false,
            Phase::Draining => self.queue.is_drained(),
            Phase::Stopping => self.queue.processing() == 0,
        }
    }

    /// True if nothing runs and nothing is to run now: no key is ready; some may be delayed. False before
    /// [`open`](Self::open): what is to run is not known then. What a stop leaves undone does not count.
    pub fn is_idle(&self) -> bool {
        match self.phase {
            Phase::Gated => false,
            Phase::Running | Phase::Draining => self.queue.is_empty() && self.queue.processing() == 0,
            Phase::Stopping => self.queue.processing() == 0,
        }
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// What has happened so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// What is known of a key; `None` if nothing: it neither waits nor runs, and its last run did not fail.
    pub fn state(&self, key: &Key) -> Option<KeyState> {
        self.queue.state(key)
    }

    /// The keys that run or wait for a worker: what a stop leaves undone.
    pub fn unfinished(&self) -> impl Iterator<Item = &Key> {
        self.queue.unfinished()
    }

    /// The queue, to look at.
    pub fn queue(&self) -> &WorkQueue<Key> {
        &self.queue
    }

    /// Asserts everything that holds between two calls. It looks at every key: for tests.
    ///
    /// # Panics
    ///
    /// If the controller is broken, with a message that names the rule.
    pub fn check(&self) {
        self.queue.check();
        self.check_counts();
    }

    #[cfg(not(debug_assertions))]
    fn check_step(&self) {}

    /// After every call of a debug build; the queue checks itself.
    #[cfg(debug_assertions)]
    fn check_step(&self) {
        self.check_counts();
    }

    fn check_counts(&self) {
        assert!(self.queue.processing() <= self.workers, "more runs than workers");
        let ending = matches!(self.phase, Phase::Draining | Phase::Stopping);
        assert_eq!(ending, self.queue.is_shutting_down(), "the queue ends with its controller");
        let Counts { reconciles, done, requeued, failures, given_up, panics, unanswered, cut_short, overdue: _ } =
            self.counts;
        let ended = done + requeued + failures + given_up + panics + unanswered + cut_short;
        assert_eq!(reconciles, ended + self.queue.processing() as u64, "a run was lost");
        let watched = if self.underway.deadline().is_some() { self.queue.processing() } else { 0 };
        assert_eq!(self.underway.len(), watched, "each run that is under way has its deadline");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{Bucket, Place};
    use crate::rng::Rng;
    use crate::time::Duration;
    use std::collections::BTreeMap;
    use std::string::{String, ToString};
    use std::vec::Vec;

    fn key(name: impl ToString) -> Key {
        Key::new("ns", &name.to_string())
    }

    fn open(config: ControllerConfig) -> Controller {
        let mut controller = Controller::new(config);
        controller.open();
        controller
    }

    fn failed() -> Verdict {
        Verdict::Retry(String::from("boom"))
    }

    /// Starts the next run at the next deadline, or now if a key is ready.
    fn wait(controller: &mut Controller, now: &mut Time) -> Run {
        if let Some(run) = controller.next(*now) {
            return run;
        }
        let deadline = controller.next_deadline().expect("a delayed key");
        assert!(deadline.at > *now);
        *now = deadline.at;
        controller.next(*now).expect("a key is due at the deadline")
    }

    #[test]
    fn a_controller_is_idle_neither_before_it_is_open_nor_while_a_key_is_ready_or_runs() {
        let mut controller = Controller::new(ControllerConfig::new(1));
        assert!(!controller.is_idle(), "what is to run is not known yet");
        controller.open();
        assert!(controller.is_idle());
        controller.enqueue(Time::ZERO, key("a"));
        assert!(!controller.is_idle());
        let run = controller.next(Time::ZERO).unwrap();
        assert!(!controller.is_idle());
        controller.enqueue(Time::ZERO, key("b"));
        controller.stop();
        assert!(!controller.is_idle(), "what runs is waited for");
        controller.finished(Time::ZERO, run, Verdict::Done);
        assert!(controller.is_idle(), "what a stop leaves undone will not run");
    }

    #[test]
    fn b143_success_leaves_nothing_behind_and_so_does_giving_up() {
        let mut controller = open(ControllerConfig::new(1).workers(1));
        let mut now = Time::ZERO;
        for n in 0..20_000 {
            controller.enqueue(now, key(n));
        }
        for n in 0..40_000 {
            let run = wait(&mut controller, &mut now);
            let verdict = match (run.attempt(), n % 2) {
                (1, _) => failed(),
                (_, 0) => Verdict::Done,
                _ => Verdict::GiveUp(String::from("gone")),
            };
            controller.finished(now, run, verdict);
        }
        assert_eq!((controller.queue().tracked(), controller.next_deadline()), (0, None));
        assert_eq!(controller.counts().failures, 20_000);
        controller.check();
    }

    #[test]
    fn b144_a_periodic_requeue_resets_the_failures() {
        let mut controller = open(ControllerConfig::new(1));
        let mut now = Time::ZERO;
        controller.enqueue(now, key("a"));
        for attempt in 1..=3 {
            let run = wait(&mut controller, &mut now);
            assert_eq!(run.attempt(), attempt);
            controller.finished(now, run, failed());
        }
        for round in 0..100 {
            let run = wait(&mut controller, &mut now);
            assert_eq!(run.attempt(), if round == 0 { 4 } else { 1 });
            let finished = controller.finished(now, run, Verdict::RequeueAfter(Duration::from_secs(10)));
            assert_eq!(finished.due, Some(now + Duration::from_secs(10)));
        }
        let run = wait(&mut controller, &mut now);
        assert_eq!(controller.finished(now, run, failed()).due, Some(now + Limiter::BASE));
    }

    #[test]
    fn b145_what_was_asked_for_is_what_happens() {
        let mut controller = open(ControllerConfig::new(1));
        let now = Time::from_millis(1_000);
        for (name, verdict, due, retries, line) in [
            ("a", Verdict::Done, None, 0, "ns/a: attempt 1 done"),
            (
                "b",
                Verdict::RequeueAfter(Duration::from_secs(15)),
                Some(16_000),
                0,
                "ns/b: attempt 1 done; again in 15s",
            ),
            ("c", failed(), Some(1_005), 1, "ns/c: attempt 1 failed: boom; retrying in 5ms"),
            (
                "d",
                Verdict::GiveUp(String::from("bad spec")),
                None,
                0,
                "ns/d: attempt 1 failed: bad spec; not retried until something changes",
            ),
            (
                "e",
                Verdict::Panicked(String::from("index out of bounds")),
                Some(1_005),
                1,
                "ns/e: attempt 1 panicked: index out of bounds; retrying in 5ms",
            ),
            (
                "f",
                Verdict::Unanswered,
                Some(1_005),
                1,
                "ns/f: attempt 1 was dropped without an answer; retrying in 5ms",
            ),
        ] {
            controller.enqueue(now, key(name));
            let run = controller.next(now).unwrap();
            let finished = controller.finished(now, run, verdict);
            assert_eq!(finished.to_string(), line);
            assert_eq!(finished.due, due.map(Time::from_millis));
            assert_eq!(controller.queue().retries(&key(name)), retries);
            assert_eq!(controller.state(&key(name)).and_then(|state| state.due), finished.due);
        }
        controller.check();
    }

    #[test]
    fn a_requeue_without_a_delay_runs_at_once_behind_the_others() {
        let mut controller = open(ControllerConfig::new(1).workers(1));
        let now = Time::ZERO;
        controller.enqueue(now, key("a"));
        let run = controller.next(now).unwrap();
        controller.enqueue(now, key("b"));
        let finished = controller.finished(now, run, Verdict::RequeueAfter(Duration::ZERO));
        assert_eq!(finished.due, Some(now));
        let names = [(); 2].map(|()| {
            let run = controller.next(now).unwrap();
            controller.finished(now, run, Verdict::Done).key
        });
        assert_eq!(names, [key("b"), key("a")]);
    }

    #[test]
    fn b149_initial_objects_do_not_wait_for_the_limiter() {
        let limiter = Limiter::default().with_bucket(Bucket::per_second(10.0, 100));
        let mut controller = open(ControllerConfig::new(1).limiter(limiter));
        for n in 0..5_000 {
            controller.enqueue(Time::ZERO, key(n));
        }
        assert_eq!((controller.queue().len(), controller.queue().delayed()), (5_000, 0));
        let run = controller.next(Time::ZERO).unwrap();
        controller.finished(Time::ZERO, run, failed());
        assert_eq!(controller.queue().delayed(), 1);
    }

    #[test]
    fn b153_a_key_that_changes_while_it_panics_runs_again_once_and_is_retried() {
        for changes_during_the_run in [false, true] {
            let mut controller = open(ControllerConfig::new(1));
            let now = Time::ZERO;
            controller.enqueue(now, key("x"));
            let run = controller.next(now).unwrap();
            if changes_during_the_run {
                controller.enqueue(now, key("x"));
            }
            assert!(controller.next(now).is_none(), "x is in one hand only");
            controller.finished(now, run, Verdict::Panicked(String::from("oh")));
            if !changes_during_the_run {
                controller.enqueue(now, key("x"));
            }
            let run = controller.next(now).unwrap();
            assert_eq!((run.key().name(), run.attempt()), ("x", 2));
            controller.finished(now, run, Verdict::Done);
            assert!(controller.next(now).is_none());
            // The retry that was promised comes, too: an event does not cancel it.
            assert_eq!(controller.next_deadline().unwrap().at, now + Limiter::BASE);
        }
    }

    #[test]
    fn b158_ten_thousand_keys_with_twenty_triggers_each_go_through_one_worker() {
        let mut controller = open(ControllerConfig::new(1).workers(1));
        let mut now = Time::ZERO;
        for _ in 0..20 {
            for n in 0..10_000 {
                controller.enqueue(now, key(n));
            }
        }
        let mut runs = BTreeMap::new();
        for _ in 0..30_000 {
            let run = wait(&mut controller, &mut now);
            *runs.entry(run.key().clone()).or_insert(0) += 1;
            controller.finished(now, run, Verdict::RequeueAfter(Duration::ZERO));
        }
        assert_eq!(runs.len(), 10_000);
        assert!(runs.values().all(|runs| *runs == 3), "every key has had the same number of turns");
    }

    #[test]
    fn b161_a_poisoned_object_does_not_stop_the_others() {
        let mut controller = open(ControllerConfig::new(1).workers(2));
        let mut now = Time::ZERO;
        let mut panicked_at = Vec::new();
        while panicked_at.len() < 6 {
            for name in ["a", "b", "c"] {
                controller.enqueue(now, key(name));
            }
            let mut done = 0;
            while let Some(run) = controller.next(now) {
                if run.key().name() == "a" {
                    panicked_at.push(now);
                    controller.finished(now, run, Verdict::Panicked(String::from("poison")));
                } else {
                    done += 1;
                    controller.finished(now, run, Verdict::Done);
                }
            }
            assert_eq!(done, 2);
            now = now + Duration::from_secs(1);
        }
        assert_eq!(controller.counts().panics, 6);
        assert_eq!((controller.workers(), controller.is_idle()), (2, true));

        // Without events in between, the waits grow.
        let mut controller = open(ControllerConfig::new(1));
        controller.enqueue(Time::ZERO, key("a"));
        let (mut now, mut waits) = (Time::ZERO, Vec::new());
        for _ in 0..5 {
            let run = wait(&mut controller, &mut now);
            let finished = controller.finished(now, run, Verdict::Panicked(String::from("poison")));
            waits.push(finished.due.unwrap().since(now).as_millis());
        }
        assert_eq!(waits, [5, 10, 20, 40, 80]);
    }

    #[test]
    fn b162_nothing_runs_before_all_caches_are_synced() {
        let mut controller = Controller::new(ControllerConfig::new(1));
        controller.enqueue(Time::ZERO, key("a"));
        controller.enqueue(Time::ZERO, key("b"));
        assert!(controller.next(Time::from_millis(9_999)).is_none());
        assert_eq!(controller.counts().reconciles, 0);
        assert_eq!(controller.state(&key("a")).unwrap().place, Place::Ready);
        controller.open();
        let runs = [(); 2].map(|()| controller.next(Time::from_millis(10_000)).unwrap());
        assert_eq!(runs.map(|run| run.key), [key("a"), key("b")]);
    }

    #[test]
    fn there_are_never_more_runs_than_workers_and_no_timer_is_set_that_nobody_could_serve() {
        let mut controller = open(ControllerConfig::new(1).workers(2));
        let now = Time::ZERO;
        for name in ["a", "b", "c"] {
            controller.enqueue(now, key(name));
        }
        let run = controller.next(now).unwrap();
        controller.finished(now, run, failed());
        let (b, c) = (controller.next(now).unwrap(), controller.next(now).unwrap());
        assert!(controller.next(now + Duration::from_secs(1)).is_none());
        assert_eq!(controller.next_deadline(), None);
        let later = now + Duration::from_secs(1);
        controller.finished(later, b, Verdict::Done);
        assert_eq!(controller.next(later).map(|run| run.key), Some(key("a")));
        controller.finished(later, c, Verdict::Done);
        assert_eq!(ControllerConfig::new(1).workers(0).workers, 1);
    }

    #[test]
    fn a_stop_starts_nothing_and_waits_for_what_runs() {
        let mut controller = open(ControllerConfig::new(1));
        let now = Time::ZERO;
        for name in ["a", "b", "c"] {
            controller.enqueue(now, key(name));
        }
        let (a, b) = (controller.next(now).unwrap(), controller.next(now).unwrap());
        controller.enqueue(now, key("b"));
        controller.stop();
        assert!(controller.next(now).is_none() && !controller.is_stopped());
        let finished = controller.finished(now, a, failed());
        assert_eq!(finished.to_string(), "ns/a: attempt 1 failed: boom; not retrying, as the controller is stopping");
        controller.finished(now, b, Verdict::Done);
        assert!(controller.is_stopped() && controller.next(now).is_none());
        assert!(!controller.enqueue(now, key("d")));
        assert_eq!(controller.unfinished().cloned().collect::<Vec<_>>(), [key("b"), key("c")]);
        assert_eq!(controller.next_deadline(), None);
        controller.check();
    }

    #[test]
    fn a_drain_runs_what_is_queued_and_retries_nothing() {
        let mut controller = open(ControllerConfig::new(1).workers(1));
        let now = Time::ZERO;
        for name in ["a", "b"] {
            controller.enqueue(now, key(name));
        }
        let a = controller.next(now).unwrap();
        controller.drain();
        assert_eq!(controller.finished(now, a, failed()).due, None);
        let b = controller.next(now).unwrap();
        assert!(!controller.is_stopped());
        controller.finished(now, b, Verdict::Done);
        assert!(controller.is_stopped() && controller.next(now).is_none());
        controller.check();
    }

    #[test]
    fn a_drain_is_cut_short_by_a_stop_and_never_waits_behind_the_gate() {
        let mut controller = open(ControllerConfig::new(1));
        controller.enqueue(Time::ZERO, key("a"));
        controller.drain();
        assert!(!controller.is_stopped());
        controller.stop();
        assert!(controller.is_stopped());

        let mut gated = Controller::new(ControllerConfig::new(1));
        gated.enqueue(Time::ZERO, key("a"));
        gated.drain();
        assert!(gated.is_stopped());
        gated.open();
        assert!(gated.next(Time::ZERO).is_none() && gated.is_stopped());
        gated.check();
    }

    #[test]
    fn random_controllers_run_each_key_once_at_a_time_and_come_to_rest() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let workers = 1 + rng.below(4) as usize;
            let mut controller = open(ControllerConfig::new(seed).workers(workers));
            let (mut now, mut runs) = (Time::ZERO, Vec::<Run>::new());
            for _ in 0..300 {
                match rng.below(4) {
                    0 => _ = controller.enqueue(now, key(rng.below(8))),
                    1 => now = now + rng.span(Duration::from_millis(20)),
                    2 => {
                        if let Some(run) = controller.next(now) {
                            assert!(runs.iter().all(|other| other.key != run.key), "seed {seed}: two runs of one key");
                            runs.push(run);
                        }
                    }
                    _ if runs.is_empty() => {}
                    _ => {
                        let run = runs.swap_remove(rng.below(runs.len() as u64) as usize);
                        let verdict = match rng.below(6) {
                            0 => Verdict::Done,
                            1 => Verdict::RequeueAfter(rng.span(Duration::from_millis(50))),
                            2 => failed(),
                            3 => Verdict::GiveUp(String::new()),
                            4 => Verdict::Unanswered,
                            _ => Verdict::Panicked(String::new()),
                        };
                        controller.finished(now, run, verdict);
                    }
                }
                controller.check();
            }
            // From here on everything works: what was promised is run, and then nothing is left.
            runs.into_iter().for_each(|run| _ = controller.finished(now, run, Verdict::Done));
            for _ in 0..100 {
                while let Some(run) = controller.next(now) {
                    controller.finished(now, run, Verdict::Done);
                }
                let Some(deadline) = controller.next_deadline() else { break };
                now = deadline.at;
            }
            controller.check();
            // An event may have run a key between a failure and its retry; the failure is forgotten then, too.
            assert_eq!((controller.queue().tracked(), controller.is_idle()), (0, true), "seed {seed}");
        }
    }
}
