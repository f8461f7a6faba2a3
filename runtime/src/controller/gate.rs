//! [`Gate`]: a controller begins when all of its sources have delivered what they began with (B162); what it waits for until
//! then, and which of them has ended.
//!
//! ```text
//! closed ── all sources delivered ──► open
//!   └── one is ready, or none can get so, for PATIENCE ──► told once, with what is awaited
//! either ── a source has ended ──► ended
//! ```

use crate::error::Lagging;
use crate::handler::Registration;
use crate::informer::{InformerHandle, Status};
use crate::roster::Roster;
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, Weak};
use informer_core::time::{Duration, Time};
use std::fmt;

/// How long a controller waits for a source while another one is ready, or for one that nobody starts or feeds, before that
/// is told. Long enough for the list of a large collection beside a small one and for a program that starts its factory
/// after its controllers; short enough for a person who wonders why nothing happens.
pub const GATE_PATIENCE: Duration = Duration::from_secs(10);

/// A source that a controller waits for, and why. `Display` begins with what it reads.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Awaited {
    /// Its informer is not synced.
    Informer(Lagging),
    /// Its informer is synced, and the controller's predicate or mapper has not taken all of the initial state. What it reads.
    Delivery(String),
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Awaited::Informer(lagging) => write!(f, "{lagging}"),
            Awaited::Delivery(subject) => {
                write!(f, "{subject}: a predicate or mapper has not come to the end of its initial state")
            }
        }
    }
}

/// One informer's handler that calls for keys.
pub(super) struct Source {
    registration: Registration,
    status: Arc<Status>,
    roster: Weak<Roster>,
}

/// A source that has ended.
pub(super) struct Ended {
    pub(super) subject: Arc<str>,
    /// Nobody asked for it.
    pub(super) died: bool,
}

/// What a [look](Gate::look) found.
pub(super) enum Look {
    /// Nothing to do, until somebody looks again: at this time if nothing wakes them before.
    Nothing(Option<Time>),
    /// All sources are ready. Found once.
    Opens,
    /// These are not, and it takes too long. Found once.
    Waits(Vec<Awaited>),
    /// A source has ended. Found each time.
    Ended(Ended),
}

/// All sources of one controller.
#[derive(Default)]
pub(super) struct Gate {
    sources: Vec<Source>,
    opened: bool,
    told: bool,
    /// Since when it [is held up](Gate::is_held_up), as far as was seen.
    held_up_since: Option<Time>,
}

impl Source {
    pub(super) fn new<T>(informer: &InformerHandle<T>, registration: Registration) -> Self {
        Source { registration, status: Arc::clone(&informer.0.status), roster: Weak::clone(&informer.0.roster) }
    }

    pub(super) fn registration(&self) -> &Registration {
        &self.registration
    }

    fn has_ended(&self) -> bool {
        self.registration.is_finished()
    }

    fn ended(&self) -> Ended {
        let asked = self.status.leaving.load(Ordering::Acquire)
            || self.roster.upgrade().is_none_or(|roster| roster.is_stopping());
        // Nothing else ends a handler that is neither removed nor too slow.
        Ended { subject: Arc::clone(&self.status.subject), died: !asked }
    }

    fn awaited(&self) -> Option<Awaited> {
        if self.registration.has_synced() {
            return None;
        }
        // One that is dead has ended, which is found first.
        let lagging = self.status.lagging(false).map(Awaited::Informer);
        Some(lagging.unwrap_or_else(|| Awaited::Delivery(self.status.subject.to_string())))
    }
}

impl Gate {
    pub(super) fn new(sources: Vec<Source>) -> Self {
        Gate { sources, ..Gate::default() }
    }

    pub(super) fn registrations(&self) -> Vec<Registration> {
        self.sources.iter().map(|source| source.registration.clone()).collect()
    }

    pub(super) fn look(&mut self, now: Time) -> Look {
        // One that was stopped alone leaves a cache that stands still: nobody must act on it.
        if let Some(source) = self.sources.iter().find(|source| source.has_ended()) {
            return Look::Ended(source.ended());
        }
        if self.opened {
            return Look::Nothing(None);
        }
        let awaited: Vec<_> = self.sources.iter().filter_map(Source::awaited).collect();
        if awaited.is_empty() {
            self.opened = true;
            return Look::Opens;
        }
        if self.told {
            return Look::Nothing(None);
        }
        if !self.is_held_up(&awaited) {
            // All of them read: that may take its time, and what fails is told by itself.
            self.held_up_since = None;
            return Look::Nothing(Some(now + GATE_PATIENCE));
        }
        let due = *self.held_up_since.get_or_insert(now) + GATE_PATIENCE;
        if now < due {
            return Look::Nothing(Some(due));
        }
        self.told = true;
        Look::Waits(awaited)
    }

    /// True if a source is ready and others are not, or if one does not get so by itself.
    fn is_held_up(&self, awaited: &[Awaited]) -> bool {
        let cannot = |one: &Awaited| matches!(one, Awaited::Informer(lagging) if !lagging.started || lagging.fed);
        let is_ready = |source: &Source| source.status.synced.load(Ordering::Acquire);
        awaited.iter().any(cannot) || self.sources.iter().any(is_ready)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::factory::{FactoryCore, FactoryOptions};
    use crate::handler::HandlerOptions;
    use crate::informer::InformerSpec;
    use informer_core::{DynamicObject, Resource};

    #[test]
    fn time_in_which_all_sources_read_does_not_count_against_the_one_that_is_last() {
        let config = crate::Config::from_url("http://127.0.0.1:1").unwrap();
        let factory = FactoryCore::new(config, FactoryOptions::default());
        let informers = ["pods", "nodes"].map(|name| {
            factory.informer(InformerSpec::<DynamicObject>::of(name.parse::<Resource>().unwrap())).unwrap()
        });
        let (sources, _deliveries): (Vec<_>, Vec<_>) = informers
            .iter()
            .map(|informer| {
                let (registration, deliveries) = informer.channel(HandlerOptions::default());
                (Source::new(informer, registration), deliveries)
            })
            .unzip();
        let mut gate = Gate::new(sources);
        let seconds = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let again = |look| match look {
            Look::Nothing(Some(at)) => at,
            Look::Nothing(None) | Look::Opens | Look::Waits(_) | Look::Ended(_) => panic!("it is to look again"),
        };
        assert_eq!(again(gate.look(Time::ZERO)), seconds(10), "not started");
        let _drives = factory.take_unstarted();
        assert_eq!(again(gate.look(seconds(9))), seconds(19), "both read");
        informers[0].0.status.synced.store(true, Ordering::Release);
        assert_eq!(again(gate.look(seconds(18))), seconds(28), "one is ready");
        assert_eq!(again(gate.look(seconds(27))), seconds(28));
        let Look::Waits(sources) = gate.look(seconds(28)) else { panic!("patience is over") };
        let lines: Vec<_> = sources.iter().map(Awaited::to_string).collect();
        assert_eq!(
            lines,
            ["pods: a predicate or mapper has not come to the end of its initial state", "nodes: no answer yet"]
        );
        assert!(matches!(gate.look(seconds(1_000)), Look::Nothing(None)), "that was told");
    }
}
