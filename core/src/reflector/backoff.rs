//! The state `Backoff`, and how long it lasts.
//!
//! There is one generator per machine. A wait is step × (1 + u) with u uniform in [0, 1), so that a fleet spreads; the
//! step doubles up to its cap. Refused connections count steps of their own, with a lower cap.

use super::tuning::{Tuning, why};
use super::{Phase, Reflector, State};
use crate::rng::Rng;
use crate::time::{Deadline, Duration, Time};

/// What a failed attempt waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wait {
    /// One step.
    Step,
    /// One step of those that count refused connections.
    Refused,
    /// What the server asked for.
    Asked(Duration),
    /// Nothing: this failure has another way out that was not tried yet.
    None,
}

#[derive(Clone, Debug)]
pub(super) struct Backoff {
    step: Duration,
    refused: Duration,
}

impl Backoff {
    pub(super) fn new(tuning: &Tuning) -> Self {
        Backoff { step: tuning.backoff, refused: tuning.backoff }
    }

    pub(super) fn reset(&mut self, tuning: &Tuning) {
        *self = Backoff::new(tuning);
    }

    pub(super) fn next(&mut self, wait: Wait, tuning: &Tuning, rng: &mut Rng) -> Duration {
        let draw = |step: &mut Duration, cap: Duration, rng: &mut Rng| {
            let now = (*step).min(cap);
            *step = now.saturating_mul(2).min(cap);
            now + rng.span(now)
        };
        match wait {
            Wait::None => Duration::ZERO,
            Wait::Step => draw(&mut self.step, tuning.backoff_cap, rng),
            Wait::Refused => draw(&mut self.refused, tuning.refused_cap, rng),
            Wait::Asked(asked) => {
                // The step moves on too, so that a server which stops asking finds us patient.
                draw(&mut self.step, tuning.backoff_cap, rng);
                let asked = asked.min(tuning.retry_after_cap);
                asked + rng.span(asked / 4)
            }
        }
    }
}

/// What follows a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// List, by the strategy in force, then watch.
    List,
    /// Watch from the last version.
    Watch,
}

/// Waiting before the next request.
pub(super) struct BackingOff {
    pub(super) until: Time,
    pub(super) next: Next,
}

impl BackingOff {
    pub(super) fn deadline(&self) -> Deadline {
        Deadline { at: self.until, why: why::BACKOFF }
    }
}

impl Reflector {
    /// Waits until `until`, or goes on at once if that is now.
    pub(super) fn go_on(&mut self, now: Time, until: Time, next: Next) {
        if until > now {
            self.enter(Phase::Backoff, State::Backoff(BackingOff { until, next }));
            return;
        }
        match next {
            Next::List => self.begin_list(now),
            Next::Watch => self.begin_watch(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_double_to_their_caps_and_refusals_count_apart() {
        let (tuning, mut rng) = (Tuning::default(), Rng::new(3));
        let mut backoff = Backoff::new(&tuning);
        for base in [800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000] {
            let wait = backoff.next(Wait::Step, &tuning, &mut rng).as_millis();
            assert!((base..base * 2).contains(&wait), "{wait} is not in [{base}, {})", base * 2);
        }
        for base in [800, 1_600, 3_000, 3_000] {
            let wait = backoff.next(Wait::Refused, &tuning, &mut rng).as_millis();
            assert!((base..base * 2).contains(&wait), "{wait} is not in [{base}, {})", base * 2);
        }
        backoff.reset(&tuning);
        assert!(backoff.next(Wait::Step, &tuning, &mut rng) < Duration::from_millis(1_600));
    }

    #[test]
    fn what_a_server_asks_for_is_capped() {
        let (tuning, mut rng) = (Tuning::default(), Rng::new(3));
        let wait = Backoff::new(&tuning).next(Wait::Asked(Duration::from_secs(1 << 40)), &tuning, &mut rng);
        assert!((60..75).contains(&wait.as_secs()), "{wait:?}");
    }
}
