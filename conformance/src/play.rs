//! Plays a scenario on a runtime: the one entry for the command line and for tests.
//!
//! Each runtime has a module with a function from a scenario to an outcome; [`Runtime::runner`] is the only place that
//! knows which.
//!
//! ```
//! use informer_conformance::play::{Runtime, play};
//! use informer_conformance::scenario::Scenario;
//!
//! let scenario = Scenario::from_str(r#"{
//!     "name": "n", "seed": 1, "runForMs": 1000,
//!     "resource": {"group": "", "version": "v1", "resource": "pods", "kind": "Pod", "namespaced": true},
//!     "server": [{"when": {"verb": "watch"}, "reply": {"hang": true}}]
//! }"#).unwrap();
//! let runtime: Runtime = "virtual".parse().unwrap();
//! assert_eq!(play(&scenario, runtime).unwrap().requests.len(), 1);
//! ```

use crate::expect::{REAL_TIME_GRACE_MS, compare};
use crate::form::FormError;
use crate::invariants::invariants;
use crate::outcome::{Outcome, VIRTUAL, VIRTUAL_DELTA_FIFO};
use crate::queue::compare_queue;
use crate::scenario::{Scenario, ScenarioFile};
use crate::{blocking_time, queue_runner, tokio_time, virtual_time};
use informer_core::fifo::QueueKind;
use std::error::Error;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// The longest scenario that a runtime on a real clock plays, in ms: a test run must end.
pub const REAL_TIME_LIMIT_MS: u64 = 20_000;

/// The scenarios whose expectations name an order across objects: that of the wire, or what it makes of a slow handler.
const ORDER_OF_THE_WIRE: [&str; 2] = ["frames-in-one-chunk-are-events-in-order", "slow-handler-coalesces"];

/// What plays a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Runtime {
    /// The bare core, in virtual time.
    Virtual,
    /// The same with [`QueueKind::DeltaFifo`]: the order across objects is not that of the wire.
    VirtualDeltaFifo,
    /// Tasks, over loopback HTTP.
    Tokio,
    /// Threads, over loopback HTTP.
    Blocking,
}

/// Plays a scenario whose length the runtime allows.
pub type Runner = fn(&Scenario) -> Outcome;

impl Runtime {
    /// All of them.
    pub const ALL: [Runtime; 4] = [Runtime::Virtual, Runtime::VirtualDeltaFifo, Runtime::Tokio, Runtime::Blocking];

    /// Its name, as an outcome states it.
    pub const fn name(self) -> &'static str {
        match self {
            Runtime::Virtual => VIRTUAL,
            Runtime::VirtualDeltaFifo => VIRTUAL_DELTA_FIFO,
            Runtime::Tokio => "tokio",
            Runtime::Blocking => "blocking",
        }
    }

    /// True if its clock is a real one.
    pub const fn is_real_time(self) -> bool {
        match self {
            Runtime::Virtual | Runtime::VirtualDeltaFifo => false,
            Runtime::Tokio | Runtime::Blocking => true,
        }
    }

    /// True if what the scenario called `name` expects is to hold on it, should it play it at all.
    pub fn is_bound_by(self, name: &str) -> bool {
        self != Runtime::VirtualDeltaFifo || !ORDER_OF_THE_WIRE.contains(&name)
    }

    /// How much later than written a thing may happen, in ms.
    pub const fn grace_ms(self) -> u64 {
        if self.is_real_time() { REAL_TIME_GRACE_MS } else { 0 }
    }

    /// What plays scenarios on it, if this build has it.
    pub fn runner(self) -> Option<Runner> {
        match self {
            Runtime::Virtual => Some(virtual_time::run),
            Runtime::VirtualDeltaFifo => Some(|scenario| virtual_time::run_with(scenario, QueueKind::DeltaFifo)),
            Runtime::Tokio => Some(tokio_time::run),
            Runtime::Blocking => Some(blocking_time::run),
        }
    }
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Runtime {
    type Err = UnknownRuntime;

    fn from_str(name: &str) -> Result<Self, UnknownRuntime> {
        Runtime::ALL.into_iter().find(|runtime| runtime.name() == name).ok_or_else(|| UnknownRuntime(name.to_owned()))
    }
}

/// A name that is no runtime's.
#[derive(Clone, PartialEq, Eq)]
pub struct UnknownRuntime(String);

impl fmt::Display for UnknownRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Runtime::ALL.map(Runtime::name).join(", ");
        write!(f, "{:?} is no runtime: expected one of {names}", self.0)
    }
}

impl fmt::Debug for UnknownRuntime {
    /// The text of Display: `main` prints errors so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for UnknownRuntime {}

/// Why a scenario was not played.
#[non_exhaustive]
pub enum PlayError {
    /// The file cannot be used.
    Form(FormError),
    /// This build cannot play this kind of scenario on this runtime.
    NoRunner {
        /// The scenario.
        scenario: String,
        /// The runtime.
        runtime: Runtime,
    },
    /// It takes longer than [`REAL_TIME_LIMIT_MS`] on a real clock; a test passes over it.
    TooLong {
        /// The scenario.
        scenario: String,
        /// The runtime.
        runtime: Runtime,
        /// How long it takes, in ms.
        run_for_ms: u64,
    },
}

impl fmt::Display for PlayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlayError::Form(error) => error.fmt(f),
            PlayError::NoRunner { scenario, runtime } => {
                write!(f, "{scenario}: this build cannot play it on {runtime}; use {VIRTUAL}")
            }
            PlayError::TooLong { scenario, runtime, run_for_ms } => write!(
                f,
                "{scenario}: takes {run_for_ms} ms, and {runtime} plays in real time for {REAL_TIME_LIMIT_MS} ms at \
                 most; use {VIRTUAL}"
            ),
        }
    }
}

impl fmt::Debug for PlayError {
    /// The text of Display: `main` prints errors so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for PlayError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            PlayError::Form(error) => error.source(),
            PlayError::NoRunner { .. } | PlayError::TooLong { .. } => None,
        }
    }
}

impl From<FormError> for PlayError {
    fn from(error: FormError) -> Self {
        PlayError::Form(error)
    }
}

/// Plays `scenario` on `runtime`.
///
/// # Errors
/// This build has no runner for the runtime, or the scenario is too long for a real clock.
pub fn play(scenario: &Scenario, runtime: Runtime) -> Result<Outcome, PlayError> {
    let name = || scenario.name.clone();
    let runner = runtime.runner().ok_or_else(|| PlayError::NoRunner { scenario: name(), runtime })?;
    let run_for_ms = scenario.run_for_ms;
    if runtime.is_real_time() && run_for_ms > REAL_TIME_LIMIT_MS {
        return Err(PlayError::TooLong { scenario: name(), runtime, run_for_ms });
    }
    Ok(runner(scenario))
}

/// What a file's scenario has shown, and whether that is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The outcome, as one JSON object on one line.
    pub outcome: String,
    /// How it differs from what must be seen; none if it holds.
    pub differences: Vec<String>,
}

/// Reads a scenario of either kind, plays it on `runtime`, and compares.
///
/// # Errors
/// The file cannot be used, or the runtime does not play it.
pub fn run_file(file: impl AsRef<Path>, runtime: Runtime) -> Result<Report, PlayError> {
    match ScenarioFile::from_file(&file)? {
        ScenarioFile::Informer(scenario) => {
            let outcome = play(&scenario, runtime)?;
            let mut differences = compare(&scenario, &outcome, runtime.grace_ms());
            differences.extend(invariants(&outcome, &scenario));
            Ok(Report { outcome: outcome.to_json(), differences })
        }
        ScenarioFile::Queue(scenario) => {
            if runtime.is_real_time() {
                return Err(PlayError::NoRunner { scenario: scenario.name.clone(), runtime });
            }
            let outcome = queue_runner::play(&scenario).map_err(|error| error.in_file(file.as_ref()))?;
            Ok(Report { outcome: outcome.to_json(), differences: compare_queue(&scenario, &outcome, 0) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    fn scenario(run_for_ms: u64) -> Scenario {
        fixtures::scenario(&format!(r#""runForMs": {run_for_ms}, "server": []"#)).unwrap()
    }

    #[test]
    fn a_runtime_is_called_by_its_name() {
        for runtime in Runtime::ALL {
            assert_eq!(runtime.to_string().parse(), Ok(runtime));
        }
        let error = "smoll".parse::<Runtime>().unwrap_err();
        assert_eq!(
            error.to_string(),
            r#""smoll" is no runtime: expected one of virtual, virtual-delta-fifo, tokio, blocking"#
        );
    }

    #[test]
    fn virtual_time_plays_any_length() {
        let outcome = play(&scenario(REAL_TIME_LIMIT_MS + 1), Runtime::Virtual).unwrap();
        assert_eq!((outcome.name.as_str(), outcome.runtime.as_str()), ("n", "virtual"));
    }

    #[test]
    fn a_runtime_that_cannot_play_says_so() {
        for runtime in Runtime::ALL.into_iter().filter(|runtime| runtime.runner().is_none()) {
            let error = play(&scenario(1), runtime).unwrap_err().to_string();
            assert_eq!(error, format!("n: this build cannot play it on {runtime}; use virtual"));
        }
    }
}
