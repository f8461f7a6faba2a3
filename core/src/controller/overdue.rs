//! [`Overdue`]: a run that takes longer than the deadline of its controller; and the runs that are under way.
//!
//! A run of which nothing is heard would keep its key and its worker for ever, and nobody would know. So a controller with
//! a deadline ([`ControllerConfig::reconcile_deadline`](super::ControllerConfig)) knows which runs are under way and since
//! when. What a driver can do about one that is overdue differs:
//!
//! ```text
//!                 at the deadline                          later
//! a future        is dropped, `Controller::cut_short`      one that does not yield cannot be dropped: overdue
//! a function      overdue: it cannot be stopped            `Controller::finished`, when it returns
//! ```
//!
//! A run that is overdue is told once. Its key stays in its hand until it returns, so no key is ever in two hands; the
//! deadline frees a key only when what ran for it is gone.
//!
//! Invariants: runs are numbered in the order of their start, which is that of their deadlines; those below `told` were
//! told, so the first one that was not is the next one that will be.

use crate::object::Key;
use crate::time::{Duration, Time};
use alloc::collections::BTreeMap;
use core::fmt;

/// How much later than at its deadline a run is told as overdue that should have been cut short then: a second, for a
/// driver that is busy cuts late, and that is no news.
pub(super) const CUT_PATIENCE: Duration = Duration::from_secs(1);

/// A run that is over its deadline and goes on. `Display` is the line for a log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Overdue {
    /// What runs.
    pub key: Key,
    /// Which attempt it is.
    pub attempt: u32,
    /// When it was started.
    pub started: Time,
    /// How long it may run.
    pub deadline: Duration,
    /// When this was said.
    pub at: Time,
}

impl Overdue {
    /// How long it has been running when this was said.
    pub fn running(&self) -> Duration {
        self.at.since(self.started)
    }
}

impl fmt::Display for Overdue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: attempt {} has been running for {:?}, over its deadline of {:?}; it keeps its key and its worker until it \
             returns: {}",
            self.key,
            self.attempt,
            self.running(),
            self.deadline,
            WAY_OUT
        )
    }
}

/// What to do about a reconcile that is too slow.
pub(super) const WAY_OUT: &str = "set a time limit for what it waits for, or raise the deadline";

/// The runs that are under way, if there is a deadline; nothing without one.
#[derive(Debug)]
pub(super) struct Underway {
    deadline: Option<Duration>,
    patience: Duration,
    runs: BTreeMap<u64, Started>,
    /// The number of the next run.
    next: u64,
    /// The runs below this number that are still here were told.
    told: u64,
}

#[derive(Debug)]
struct Started {
    key: Key,
    attempt: u32,
    at: Time,
}

impl Underway {
    /// A deadline of zero is none.
    pub(super) fn new(deadline: Option<Duration>, patience: Duration) -> Self {
        let deadline = deadline.filter(|deadline| !deadline.is_zero());
        Underway { deadline, patience, runs: BTreeMap::new(), next: 0, told: 0 }
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    pub(super) fn len(&self) -> usize {
        self.runs.len()
    }

    /// A run starts: its number, and when it is over its deadline.
    pub(super) fn start(&mut self, now: Time, key: &Key, attempt: u32) -> (u64, Option<Time>) {
        let number = self.next;
        let Some(deadline) = self.deadline else { return (number, None) };
        self.next += 1;
        self.runs.insert(number, Started { key: key.clone(), attempt, at: now });
        (number, Some(now + deadline))
    }

    pub(super) fn end(&mut self, number: u64) {
        self.runs.remove(&number);
    }

    /// When the next one is to be told, if it has not ended by then.
    pub(super) fn due(&self) -> Option<Time> {
        let (_, first) = self.runs.range(self.told..).next()?;
        self.tell_at(first)
    }

    /// The next one that is to be told now.
    pub(super) fn poll(&mut self, now: Time) -> Option<Overdue> {
        let (number, first) = self.runs.range(self.told..).next()?;
        let overdue = self.overdue(first, now)?;
        self.told = number + 1;
        Some(overdue)
    }

    /// All that are to be told now or were, the oldest first.
    pub(super) fn overdue_at(&self, now: Time) -> impl Iterator<Item = Overdue> {
        self.runs.values().map_while(move |run| self.overdue(run, now))
    }

    fn tell_at(&self, run: &Started) -> Option<Time> {
        Some(run.at + self.deadline? + self.patience)
    }

    fn overdue(&self, run: &Started, now: Time) -> Option<Overdue> {
        if self.tell_at(run)? > now {
            return None;
        }
        let Started { key, attempt, at } = run;
        Some(Overdue { key: key.clone(), attempt: *attempt, started: *at, deadline: self.deadline?, at: now })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::{Controller, ControllerConfig, Run, Verdict};
    use crate::queue::Limiter;
    use crate::rng::Rng;
    use std::collections::BTreeSet;
    use std::string::ToString;
    use std::vec::Vec;

    const DEADLINE: Duration = Duration::from_secs(30);

    fn key(name: impl ToString) -> Key {
        Key::new("ns", &name.to_string())
    }

    fn open(config: ControllerConfig) -> Controller {
        let mut controller = Controller::new(config);
        controller.open();
        controller
    }

    fn secs(secs: u64) -> Time {
        Time::from_millis(1_000 * secs)
    }

    #[test]
    fn a_run_that_is_cut_short_is_a_failure_that_is_retried_with_a_growing_wait() {
        let mut controller = open(ControllerConfig::new(1).reconcile_deadline(DEADLINE).cuts_short());
        let mut now = Time::ZERO;
        controller.enqueue(now, key("a"));
        for (attempt, wait) in [(1, Limiter::BASE), (2, 2 * Limiter::BASE), (3, 4 * Limiter::BASE)] {
            let run = controller.next(now).expect("it is due");
            assert_eq!(run.deadline(), Some(now + DEADLINE));
            now = now + DEADLINE;
            assert_eq!(controller.overdue(now), None, "it is to be cut short first");
            let finished = controller.cut_short(now, run);
            assert_eq!((finished.attempt, finished.due), (attempt, Some(now + wait)));
            now = now + wait;
        }
        let run = controller.next(now).expect("no deadline loses a key");
        let finished = controller.cut_short(now + DEADLINE, run);
        assert_eq!(
            finished.to_string(),
            "ns/a: attempt 4 was cut short at its deadline of 30s (set a time limit for what it waits for, or raise the \
             deadline); retrying in 40ms"
        );
        assert_eq!((controller.counts().cut_short, controller.counts().overdue), (4, 0));
        controller.check();
    }

    #[test]
    fn what_cannot_be_cut_short_is_told_once_and_keeps_its_key_until_it_returns() {
        let mut controller = open(ControllerConfig::new(1).workers(2).reconcile_deadline(DEADLINE));
        controller.enqueue(Time::ZERO, key("hangs"));
        let hangs = controller.next(Time::ZERO).unwrap();
        assert_eq!(controller.next_deadline().unwrap().at, secs(30));
        assert_eq!((controller.overdue(secs(29)), controller.stuck(secs(29)).count()), (None, 0));

        let told = controller.overdue(secs(30)).expect("its deadline is over");
        assert_eq!((told.started, told.running()), (Time::ZERO, DEADLINE));
        assert_eq!(
            told.to_string(),
            "ns/hangs: attempt 1 has been running for 30s, over its deadline of 30s; it keeps its key and its worker until \
             it returns: set a time limit for what it waits for, or raise the deadline"
        );
        assert_eq!((controller.overdue(secs(90)), controller.next_deadline()), (None, None), "once");

        controller.enqueue(secs(91), key("hangs"));
        controller.enqueue(secs(91), key("other"));
        let other = controller.next(secs(91)).expect("the other worker goes on");
        assert_eq!(other.key(), &key("other"));
        controller.finished(secs(91), other, Verdict::Done);
        assert!(controller.next(secs(91)).is_none(), "its key is in one hand only");
        let stuck: Vec<_> = controller.stuck(secs(92)).map(|run| (run.key.clone(), run.running())).collect();
        assert_eq!(stuck, [(key("hangs"), Duration::from_secs(92))]);

        controller.finished(secs(93), hangs, Verdict::Done);
        assert_eq!(controller.stuck(secs(93)).count(), 0);
        let again = controller.next(secs(93)).expect("what came meanwhile runs");
        controller.finished(secs(93), again, Verdict::Done);
        assert_eq!((controller.counts().overdue, controller.counts().done), (1, 3));
        controller.check();
    }

    #[test]
    fn what_should_have_been_cut_short_and_was_not_is_told_a_second_later() {
        let mut controller = open(ControllerConfig::new(1).reconcile_deadline(DEADLINE).cuts_short());
        controller.enqueue(Time::ZERO, key("never yields"));
        let run = controller.next(Time::ZERO).unwrap();
        assert_eq!(controller.next_deadline().unwrap().at, secs(31));
        assert_eq!(controller.overdue(secs(30)), None);
        assert_eq!(controller.overdue(secs(31)).map(|told| told.running()), Some(Duration::from_secs(31)));
        // It did what it was to do, if late.
        controller.finished(secs(40), run, Verdict::Done);
        assert!(controller.is_idle() && controller.next_deadline().is_none());
    }

    #[test]
    fn a_controller_that_ends_tells_of_what_it_waits_for() {
        let mut controller = open(ControllerConfig::new(1).reconcile_deadline(DEADLINE));
        controller.enqueue(Time::ZERO, key("a"));
        let run = controller.next(Time::ZERO).unwrap();
        controller.stop();
        assert_eq!(controller.next_deadline().unwrap().at, secs(30));
        assert!(controller.overdue(secs(30)).is_some() && !controller.is_stopped());
        controller.finished(secs(31), run, Verdict::Done);
        assert!(controller.is_stopped() && controller.next_deadline().is_none());
    }

    #[test]
    fn without_a_deadline_or_with_one_of_zero_nothing_is_ever_overdue() {
        for config in [ControllerConfig::new(1), ControllerConfig::new(1).reconcile_deadline(Duration::ZERO)] {
            let mut controller = open(config);
            controller.enqueue(Time::ZERO, key("a"));
            let run = controller.next(Time::ZERO).unwrap();
            assert_eq!((run.deadline(), controller.next_deadline()), (None, None));
            assert_eq!((controller.overdue(secs(1 << 30)), controller.stuck(secs(1 << 30)).count()), (None, 0));
            controller.finished(secs(1 << 30), run, Verdict::Done);
            controller.check();
        }
    }

    #[test]
    #[should_panic(expected = "only a controller with a deadline cuts its runs short")]
    fn a_run_without_a_deadline_is_not_cut_short() {
        let mut controller = open(ControllerConfig::new(1));
        controller.enqueue(Time::ZERO, key("a"));
        let run = controller.next(Time::ZERO).unwrap();
        controller.cut_short(secs(30), run);
    }

    /// Runs that hang, are cut short, or end: no key is in two hands, none is lost, each that is over its deadline is told
    /// once, when a driver that comes at every deadline is told of it.
    #[test]
    fn random_runs_are_told_once_and_no_deadline_loses_a_key_or_runs_it_twice() {
        let deadline = Duration::from_millis(40);
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let workers = 1 + rng.below(4) as usize;
            let cuts = rng.below(2) == 0;
            let mut config = ControllerConfig::new(seed).workers(workers).reconcile_deadline(deadline);
            config.cuts_short = cuts;
            let due = deadline + if cuts { CUT_PATIENCE } else { Duration::ZERO };
            let mut controller = open(config);
            let (mut now, mut runs) = (Time::ZERO, Vec::<(Run, Time)>::new());
            let mut wanted = BTreeSet::<Key>::new();
            let (mut told, mut want_told) = (BTreeSet::<(Key, Time)>::new(), BTreeSet::<(Key, Time)>::new());
            for _ in 0..400 {
                match rng.below(5) {
                    0 => {
                        let key = key(rng.below(6));
                        wanted.insert(key.clone());
                        controller.enqueue(now, key);
                    }
                    1 => {
                        let step = now + rng.span(Duration::from_millis(if cuts { 600 } else { 30 }));
                        now = controller.next_deadline().map_or(step, |deadline| deadline.at.min(step));
                    }
                    2 => {
                        if let Some(run) = controller.next(now) {
                            assert!(
                                runs.iter().all(|(other, _)| other.key() != run.key()),
                                "seed {seed}: in two hands"
                            );
                            assert_eq!(run.deadline(), Some(now + deadline));
                            wanted.remove(run.key());
                            runs.push((run, now));
                        }
                    }
                    _ if runs.is_empty() => {}
                    _ => {
                        let at = rng.below(runs.len() as u64) as usize;
                        if rng.below(3) == 0 {
                            continue; // it hangs
                        }
                        let (run, _) = runs.swap_remove(at);
                        let over = run.deadline().is_some_and(|deadline| deadline <= now);
                        if cuts && over {
                            wanted.insert(run.key().clone());
                            let finished = controller.cut_short(now, run);
                            assert!(finished.due.is_some(), "seed {seed}: it is retried");
                        } else {
                            controller.finished(now, run, Verdict::Done);
                        }
                    }
                }
                for (run, started) in &runs {
                    if now.since(*started) >= due {
                        want_told.insert((run.key().clone(), *started));
                    }
                }
                while let Some(overdue) = controller.overdue(now) {
                    assert_eq!(overdue.at, overdue.started + due, "seed {seed}: at its deadline");
                    assert!(told.insert((overdue.key.clone(), overdue.started)), "seed {seed}: told twice");
                }
                assert_eq!(told, want_told, "seed {seed}");
                let stuck: BTreeSet<_> = controller.stuck(now).map(|run| (run.key, run.started)).collect();
                let hands = runs.iter().map(|(run, started)| (run.key().clone(), *started));
                assert_eq!(stuck, hands.filter(|hand| told.contains(hand)).collect(), "seed {seed}");
                controller.check();
            }
            // From here on everything ends at once.
            runs.drain(..).for_each(|(run, _)| drop(controller.finished(now, run, Verdict::Done)));
            for _ in 0..100 {
                while let Some(run) = controller.next(now) {
                    wanted.remove(run.key());
                    controller.finished(now, run, Verdict::Done);
                }
                let Some(deadline) = controller.next_deadline() else { break };
                now = deadline.at;
            }
            assert_eq!((wanted, controller.is_idle()), (BTreeSet::new(), true), "seed {seed}: a key was lost");
            assert_eq!(controller.counts().overdue, told.len() as u64);
        }
    }
}
