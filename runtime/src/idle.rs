//! [`Idle`]: connections that wait for another request.
//!
//! ```
//! use informer_runtime::idle::Idle;
//!
//! let idle = Idle::default();
//! idle.keep("older");
//! idle.keep("newer");
//! assert_eq!(idle.take(), Some("newer"));
//! idle.clear();
//! assert_eq!(idle.take(), None);
//! ```

#[cfg(all(test, shuttle))]
mod schedules;

use crate::sync::Mutex;
use std::time::{Duration, Instant};

/// The most connections that lie idle: enough for the pages of a few lists and a controller's writes.
pub const MAX_IDLE: usize = 8;

/// A connection that lay idle for longer is not used again: middleboxes forget connections after a minute or more, and
/// servers close them.
pub const IDLE_FOR: Duration = Duration::from_secs(30);

/// At most [`MAX_IDLE`] connections, none of them used after [`IDLE_FOR`]. What falls out is dropped, under no lock, when the
/// next one comes or is asked for: until then a connection lies here, also one that its server has closed. Who has timers
/// calls [`drop_old`](Self::drop_old) when [`next_old`](Self::next_old) says.
#[derive(Debug)]
pub struct Idle<C>(Mutex<Vec<(Instant, C)>>);

impl<C> Default for Idle<C> {
    fn default() -> Self {
        Idle(Mutex::default())
    }
}

impl<C> Idle<C> {
    /// Keeps a connection, and drops those whose time is over or for which there is no room.
    pub fn keep(&self, connection: C) {
        self.keep_at(connection, Instant::now());
    }

    /// The same at a time of the caller's clock, which is then to be used for every call.
    pub fn keep_at(&self, connection: C, now: Instant) {
        let mut idle = self.0.lock();
        let fallen = old(&idle, now).max((idle.len() + 1).saturating_sub(MAX_IDLE));
        let fallen: Vec<_> = idle.drain(..fallen).collect();
        idle.push((now, connection));
        drop(idle);
        drop(fallen);
    }

    /// The connection that was used last. It may be dead: nobody has looked at it since.
    pub fn take(&self) -> Option<C> {
        self.take_at(Instant::now())
    }

    /// The same at a time of the caller's clock.
    pub fn take_at(&self, now: Instant) -> Option<C> {
        let mut idle = self.0.lock();
        match idle.pop() {
            Some((since, connection)) if is_young(since, now) => Some(connection),
            // Those below are older still.
            last => {
                let fallen = std::mem::take(&mut *idle);
                drop(idle);
                drop((last, fallen));
                None
            }
        }
    }

    /// When the time of the one that lies here longest is over; `None` if none does.
    pub fn next_old(&self) -> Option<Instant> {
        self.0.lock().first().map(|(since, _)| *since + IDLE_FOR)
    }

    /// Drops those whose time is over.
    pub fn drop_old(&self, now: Instant) {
        let mut idle = self.0.lock();
        let old = old(&idle, now);
        let fallen: Vec<_> = idle.drain(..old).collect();
        drop(idle);
        drop(fallen);
    }

    /// Drops all of them.
    pub fn clear(&self) {
        let fallen = std::mem::take(&mut *self.0.lock());
        drop(fallen);
    }
}

/// How many of them are too old: those that lie here longest come first.
fn old<C>(idle: &[(Instant, C)], now: Instant) -> usize {
    idle.iter().take_while(|(since, _)| !is_young(*since, now)).count()
}

fn is_young(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) < IDLE_FOR
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_makes_room_and_what_is_too_old_is_never_handed_out() {
        let idle = Idle::default();
        let start = Instant::now();
        for number in 0..=MAX_IDLE {
            idle.keep_at(number, start);
        }
        let last = start + IDLE_FOR - Duration::from_nanos(1);
        let kept: Vec<_> = std::iter::from_fn(|| idle.take_at(last)).collect();
        assert_eq!(kept, (1..=MAX_IDLE).rev().collect::<Vec<_>>());

        idle.keep_at(100, start);
        idle.keep_at(101, start + IDLE_FOR);
        assert_eq!(idle.0.lock().len(), 1, "a new one takes the place of one whose time is over");
        assert_eq!(idle.take_at(start + 2 * IDLE_FOR), None);
        assert!(idle.0.lock().is_empty());
    }

    #[test]
    fn who_has_timers_drops_each_when_its_time_is_over_and_not_before() {
        let idle = Idle::default();
        let start = Instant::now();
        assert_eq!(idle.next_old(), None);
        idle.keep_at(1, start);
        idle.keep_at(2, start + IDLE_FOR / 2);
        let first = start + IDLE_FOR;
        assert_eq!(idle.next_old(), Some(first));
        idle.drop_old(first - Duration::from_nanos(1));
        assert_eq!(idle.0.lock().len(), 2);
        idle.drop_old(first);
        assert_eq!(idle.next_old(), Some(first + IDLE_FOR / 2));
        assert_eq!(idle.take_at(first), Some(2));
        assert_eq!(idle.next_old(), None);
    }
}
