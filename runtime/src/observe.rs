//! What can be seen from outside: requests, phases, failures, panics; and the clock.

use crate::guard;
use crate::sync::Arc;
use informer_core::controller::{Finished, Overdue, OwnerScopeError, Verdict};
use informer_core::informer::Notice;
use informer_core::listener::Notification;
use informer_core::time::{Deadline, Time};
use informer_core::wire::Request;
use informer_core::{KeyRef, VersionRef};
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::io;
use std::time::{Duration, Instant, SystemTime};

/// Something that happened. `Display` is the line for a log.
///
/// Nothing is printed by itself. The least that a program should do:
///
/// ```
/// use informer_runtime::factory::FactoryOptions;
/// use informer_runtime::sync::Arc;
///
/// let options = FactoryOptions::observed(Arc::new(|observed| {
///     if observed.is_failure() {
///         eprintln!("{observed}");
///     }
/// }));
/// # drop(options);
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Observed<'a> {
    /// A request is about to be sent.
    Request(&'a Request),
    /// An informer moved on, failed, or synced.
    Notice {
        /// What the informer reads.
        subject: &'a str,
        /// What happened.
        notice: &'a Notice,
    },
    /// A handler panicked; what it was told was passed over.
    HandlerPanic {
        /// Its name.
        handler: &'a str,
        /// What it was about.
        call: HandlerCall<'a>,
        /// The text of the panic.
        text: &'a str,
    },
    /// A reconcile ended: how, and when its key runs again.
    Reconcile(&'a Finished),
    /// A reconcile is over its deadline and goes on: it cannot be stopped, and keeps its key and its worker. Told once; how
    /// it ends is told, too.
    Overdue(&'a Overdue),
    /// An object names an owner that cannot be, so no key is called for. Told with each change that a controller which
    /// [owns](crate::controller::ControllerBuilder::owns) such objects sees of it.
    OwnerScope(&'a OwnerScopeError),
    /// A cached object is not what it was: a [`MutationCheck`](crate::mutation::MutationCheck) found it.
    Mutated {
        /// What the informer reads.
        subject: &'a str,
        /// The object.
        key: KeyRef<'a>,
        /// Its version, which is that of its first content.
        version: VersionRef<'a>,
    },
    /// An informer begins to wait for handlers that are full under `Overflow::Pause`: it takes no event, and its cache
    /// stands still for everybody. Told once, until it is [`Resumed`](Self::Resumed); for longer than a moment only if
    /// a handler is stuck or too slow for what comes. [`held_up_by`](crate::informer::InformerHandle::held_up_by) has
    /// the names of each moment.
    HeldUp {
        /// What the informer reads.
        subject: &'a str,
        /// The names of the handlers that were full when it began.
        handlers: &'a [String],
    },
    /// An informer that was [held up](Self::HeldUp) goes on: its handlers have room, or those that had none are gone.
    /// Not told of one that stops instead.
    Resumed {
        /// What the informer reads.
        subject: &'a str,
    },
    /// A handler fell behind under `Overflow::Disconnect` and was removed.
    HandlerDisconnected {
        /// Its name.
        handler: &'a str,
    },
    /// Something that the environment asks for and this version passes over, told when a factory is made: see
    /// [`Config::ignored`](crate::Config::ignored).
    Ignored(&'a str),
}

/// What a call of a handler was about: the change as the informer has it. A handler with a filter may be told of an update as
/// of an addition or a deletion, and the filter itself may be what panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandlerCall<'a> {
    /// An object that was added.
    Added(KeyRef<'a>),
    /// One that was updated, or is told again.
    Updated(KeyRef<'a>),
    /// One that is gone.
    Deleted(KeyRef<'a>),
    /// The end of the initial state: [`HandlerOptions::on_synced`](crate::handler::HandlerOptions::on_synced).
    Synced,
}

impl<'a> HandlerCall<'a> {
    /// The call about a notification.
    pub fn of<T>(notification: &'a Notification<T>) -> Self {
        let key = notification.key();
        match notification {
            Notification::Added { .. } => HandlerCall::Added(key),
            Notification::Deleted { .. } => HandlerCall::Deleted(key),
            // A kind to come is news of an object that was there, or it would be one of the two.
            Notification::Updated { .. } | _ => HandlerCall::Updated(key),
        }
    }
}

impl fmt::Display for HandlerCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HandlerCall::Added(key) => write!(f, "the addition of {key}"),
            HandlerCall::Updated(key) => write!(f, "an update of {key}"),
            HandlerCall::Deleted(key) => write!(f, "the deletion of {key}"),
            HandlerCall::Synced => f.write_str("its sync"),
        }
    }
}

impl Observed<'_> {
    /// True if something failed that a person may have to see to: a request, a reconcile, a handler. That an informer is
    /// [held up](Self::HeldUp) is none: who asked for `Overflow::Pause` asked for that.
    pub fn is_failure(&self) -> bool {
        match self {
            Observed::Notice { notice, .. } => matches!(notice, Notice::Failure(_)),
            Observed::Reconcile(finished) => !matches!(finished.verdict, Verdict::Done | Verdict::RequeueAfter(_)),
            Observed::HandlerPanic { .. }
            | Observed::HandlerDisconnected { .. }
            | Observed::Mutated { .. }
            | Observed::Overdue(_)
            | Observed::OwnerScope(_)
            | Observed::Ignored(_) => true,
            Observed::Request(_) | Observed::HeldUp { .. } | Observed::Resumed { .. } => false,
        }
    }
}

impl fmt::Display for Observed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Observed::Request(request) => write!(f, "{} {}", request.verb, request.target()),
            Observed::Notice { notice: Notice::Failure(failure), .. } => write!(f, "{failure}"),
            Observed::Notice { subject, notice } => write!(f, "{subject}: {notice}"),
            Observed::HandlerPanic { handler, call, text } => {
                write!(f, "handler {handler} panicked about {call}: {text}; that was passed over")
            }
            Observed::Reconcile(finished) => write!(f, "{finished}"),
            Observed::Overdue(overdue) => write!(f, "{overdue}"),
            Observed::OwnerScope(fault) => write!(f, "{fault}"),
            Observed::Mutated { subject, key, version } => write!(
                f,
                "{subject}: {key} at version {version} was changed in the cache: whoever reads it must copy it before changing it"
            ),
            Observed::HeldUp { subject, handlers: [handler] } => {
                write!(f, "{subject}: held up by handler {handler}, which is full")
            }
            Observed::HeldUp { subject, handlers } => {
                write!(f, "{subject}: held up by handlers {}, which are full", handlers.join(", "))
            }
            Observed::Resumed { subject } => write!(f, "{subject}: held up no more"),
            Observed::HandlerDisconnected { handler } => write!(f, "handler {handler} fell behind and was removed"),
            Observed::Ignored(line) => f.write_str(line),
        }
    }
}

/// Traces what happened and tells the observer, if there is one. Requests and notices are traced in their informer's
/// span.
pub(crate) fn tell(observer: Option<&Observer>, observed: &Observed<'_>) {
    crate::trace::observed(observed);
    if let Some(observer) = observer {
        // A panic of it ends nothing but its own call; there is nobody left to tell of it, and the hook has printed it.
        _ = guard::call(|| observer(observed));
    }
}

/// Is told what happens. It runs on the threads of the runtime: it must be quick and must not wait.
/// A panic of it is passed over.
pub type Observer = Arc<dyn Fn(&Observed<'_>) + Send + Sync>;

/// Asked before each request; an error, or a panic, is taken for a connection that was refused. For fault injection in tests.
pub type Gate = Arc<dyn Fn(&Request) -> io::Result<()> + Send + Sync>;

/// The driver's clock: the core's [`Time`] counts from its creation.
///
/// It reads what its adapter sleeps by, so that nobody wakes to a time that is not there yet, and sleeps again, and
/// again: the system's clock for threads, and for tasks that of their runtime ([`AsyncRuntime::now`]), which a test may
/// stop.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    read: fn() -> Instant,
}

/// What an adapter to an asynchronous runtime says of that.
#[derive(Clone, Copy, Debug)]
pub struct AsyncRuntime {
    /// Whether the calling thread belongs to it: a blocking wait there would hold up the very tasks that it waits for.
    pub is_here: fn() -> bool,
    /// What its clock says, by which its tasks sleep.
    pub now: fn() -> Instant,
}

impl Clock {
    /// The system's clock, from now on.
    pub fn start() -> Self {
        Clock::reading(Instant::now)
    }

    /// The clock that `read` reads, from now on.
    pub fn reading(read: fn() -> Instant) -> Self {
        Clock { start: read(), read }
    }

    /// The time now. A reading before the start is the start: another thread may have another clock.
    pub fn now(&self) -> Time {
        let since = self.instant_now().saturating_duration_since(self.start);
        Time::from_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The instant now.
    pub fn instant_now(&self) -> Instant {
        (self.read)()
    }

    /// The instant of a deadline; `None` if it is beyond what the system's clock can hold.
    pub fn instant(&self, deadline: Deadline) -> Option<Instant> {
        self.at(deadline.at)
    }

    /// The instant of a time; `None` if it is beyond what the system's clock can hold.
    pub fn at(&self, time: Time) -> Option<Instant> {
        self.start.checked_add(Duration::from_nanos(time.as_nanos()))
    }
}

/// Says what the wall clock says: the time since the beginning of 1970. For tests of a suspend. A panic counts as no answer.
pub type WallClock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// The system's wall clock. Before 1970 it says zero.
pub(crate) fn system_wall_clock() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// A seed that differs in each process and call, for jitter and hash tables.
pub fn random_seed() -> u64 {
    RandomState::new().hash_one(Instant::now())
}

#[cfg(test)]
mod tests {
    use super::*;
    use informer_core::Key;
    use informer_core::controller::{Controller, ControllerConfig, ReconcileError};
    use std::cell::Cell;

    #[test]
    fn a_clock_says_what_its_adapter_reads_and_nothing_before_its_start() {
        thread_local!(static NOW: Cell<Instant> = Cell::new(Instant::now() + Duration::from_secs(60)));
        let start = NOW.get();
        let clock = Clock::reading(|| NOW.get());
        assert_eq!((clock.now(), clock.instant_now()), (Time::ZERO, start));
        NOW.set(start + Duration::from_secs(7));
        assert_eq!((clock.now(), clock.instant_now()), (Time::from_nanos(7_000_000_000), NOW.get()));
        let at = Time::from_nanos(9_000_000_000);
        assert_eq!(clock.at(at), Some(start + Duration::from_secs(9)));
        NOW.set(start - Duration::from_secs(1));
        assert_eq!(clock.now(), Time::ZERO, "a thread with another clock");
    }

    #[test]
    fn a_failed_reconcile_and_a_panic_are_failures_with_a_line_for_the_log() {
        let finished = |result: Result<_, ReconcileError>| {
            let mut machine = Controller::new(ControllerConfig::new(1));
            machine.open();
            machine.enqueue(Time::ZERO, Key::new("ns", "a"));
            let run = machine.next(Time::ZERO).unwrap();
            machine.finished(Time::ZERO, run, Verdict::from(result))
        };
        let failed = finished(Err(ReconcileError::retry("the cloud does not answer")));
        let failed = Observed::Reconcile(&failed);
        assert!(failed.is_failure());
        assert_eq!(failed.to_string(), "ns/a: attempt 1 failed: the cloud does not answer; retrying in 5ms");
        let done = finished(Ok(informer_core::controller::Outcome::done()));
        assert!(!Observed::Reconcile(&done).is_failure());
        let key = Key::new("web", "a");
        let call = HandlerCall::Updated(key.borrowed());
        let panicked = Observed::HandlerPanic { handler: "h0", call, text: "boom" };
        assert!(panicked.is_failure());
        let line = "handler h0 panicked about an update of web/a: boom; that was passed over";
        assert_eq!(panicked.to_string(), line);
        let synced = Observed::Notice { subject: "pods", notice: &Notice::Synced };
        assert!(!synced.is_failure());
        assert_eq!(synced.to_string(), "pods: synced");
    }
}
