//! Time as the core knows it: a number that the driver hands in.
//!
//! The core reads no clock. Every input carries a [`Time`]: nanoseconds since an epoch that the driver picks (the
//! start of the process, the start of a simulation). It never runs backward for a machine: a smaller value than the
//! one before is clamped ([`Clock`]). Spans are [`Duration`]s.
//!
//! ```
//! use core::time::Duration;
//! use informer_core::time::Time;
//!
//! let start = Time::from_millis(5);
//! assert_eq!(start + Duration::from_secs(1), Time::from_millis(1_005));
//! assert_eq!((start + Duration::from_secs(1)).since(start), Duration::from_secs(1));
//! ```

use core::fmt;
use core::ops::Add;
pub use core::time::Duration;

/// A point in time: nanoseconds since the driver's epoch (585 years fit).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// The driver's epoch.
    pub const ZERO: Time = Time(0);

    /// `nanos` nanoseconds after the epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Time(nanos)
    }

    /// `millis` milliseconds after the epoch; saturates.
    pub const fn from_millis(millis: u64) -> Self {
        Time(millis.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole milliseconds since the epoch.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// The span from `earlier` to `self`; zero if `earlier` is later.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    /// Saturates at the end of time, so that an absurd span is a far deadline and not a panic.
    fn add(self, span: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}ms", self.as_millis(), self.0 % 1_000_000)
    }
}

/// When a machine wants to be called again, and what for.
///
/// `at` is always later than the `now` of the last input: a driver that sleeps until `at` and then sends a tick makes
/// progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deadline {
    /// The moment at which the machine has something to do even if nothing arrives.
    pub at: Time,
    /// Which timer this is, for logs and tests. Those of an informer are in [`reflector::why`](crate::reflector::why).
    pub why: &'static str,
}

impl Deadline {
    /// The sooner of two optional deadlines; the first one if they are equal.
    pub fn sooner(a: Option<Deadline>, b: Option<Deadline>) -> Option<Deadline> {
        match (a, b) {
            (Some(a), Some(b)) => Some(if b.at < a.at { b } else { a }),
            (a, b) => a.or(b),
        }
    }
}

/// The machine's own view of now: the largest time that an input has carried.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    now: Time,
}

impl Clock {
    /// Moves to `now`, or stays where it is if `now` is in the past, and says where it is.
    pub fn advance(&mut self, now: Time) -> Time {
        self.now = self.now.max(now);
        self.now
    }

    /// The time of the last input.
    pub fn now(&self) -> Time {
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_never_runs_backward() {
        let mut clock = Clock::default();
        assert_eq!(clock.advance(Time::from_millis(9)), Time::from_millis(9));
        assert_eq!(clock.advance(Time::from_millis(3)), Time::from_millis(9));
        assert_eq!(clock.now(), Time::from_millis(9));
    }

    #[test]
    fn sums_saturate() {
        assert_eq!(Time::from_nanos(u64::MAX) + Duration::MAX, Time::from_nanos(u64::MAX));
        assert_eq!(Time::ZERO.since(Time::from_millis(1)), Duration::ZERO);
    }

    #[test]
    fn the_sooner_deadline_wins() {
        let at = |ms, why| Some(Deadline { at: Time::from_millis(ms), why });
        assert_eq!(Deadline::sooner(at(2, "a"), at(1, "b")), at(1, "b"));
        assert_eq!(Deadline::sooner(at(1, "a"), at(1, "b")), at(1, "a"));
        assert_eq!(Deadline::sooner(None, at(1, "b")), at(1, "b"));
        assert_eq!(Deadline::sooner(None, None), None);
    }
}
