//! What can be seen from outside: requests, phases, failures, panics; and the clock.

use crate::guard;
use crate::sync::Arc;
use informer_core::controller::Finished;
use informer_core::informer::Notice;
use informer_core::time::{Deadline, Time};
use informer_core::wire::Request;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::time::{Duration, Instant};

/// Something that happened.
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
    /// A handler panicked; the notification was passed over.
    HandlerPanic {
        /// Its name.
        handler: &'a str,
        /// The text of the panic.
        text: &'a str,
    },
    /// A reconcile ended: how, and when its key runs again.
    Reconcile(&'a Finished),
    /// A handler fell behind under `Overflow::Disconnect` and was removed.
    HandlerDisconnected {
        /// Its name.
        handler: &'a str,
    },
}

/// Is told what happens. It runs on the threads of the runtime: it must be quick and must not wait.
/// A panic of it is passed over.
pub type Observer = Arc<dyn Fn(&Observed<'_>) + Send + Sync>;

/// Tells an observer; its panic ends nothing but its own call.
pub(crate) fn observe(observer: &Observer, observed: &Observed<'_>) {
    // There is nobody left to tell of it: the panic hook has printed it.
    _ = guard::call(|| observer(observed));
}

/// Asked before each request; an error is taken for a connection that was refused. For fault injection in tests.
pub type Gate = Arc<dyn Fn(&Request) -> io::Result<()> + Send + Sync>;

/// The driver's clock: the core's [`Time`] counts from its creation.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        Clock(Instant::now())
    }

    /// The time now.
    pub fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// The instant of a deadline; `None` if it is beyond what the system's clock can hold.
    pub fn instant(&self, deadline: Deadline) -> Option<Instant> {
        self.0.checked_add(Duration::from_nanos(deadline.at.as_nanos()))
    }
}

/// A seed that differs in each process and call, for jitter and hash tables.
pub fn random_seed() -> u64 {
    RandomState::new().hash_one(Instant::now())
}
