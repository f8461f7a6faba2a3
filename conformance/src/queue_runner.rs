//! Plays a queue scenario against the core's [`WorkQueue`], in virtual time.
//!
//! Workers that asked for a key wait in line; the first in line gets the next ready key. Operations of one instant
//! happen in the order of the file, after the delays that end in that instant.
//!
//! ```
//! use informer_conformance::queue::{QueueScenario, compare_queue};
//! use informer_conformance::queue_runner::play;
//!
//! let scenario = QueueScenario::from_str(r#"{
//!     "kind": "queue", "name": "later", "seed": 1, "runForMs": 100,
//!     "ops": [{"atMs": 0, "do": "get", "worker": "w"}, {"atMs": 0, "do": "addAfter", "key": "a", "delayMs": 30}],
//!     "expect": {"handedOut": [{"atMs": 30, "key": "a", "worker": "w"}], "pendingDelayed": 0}
//! }"#).unwrap();
//! let outcome = play(&scenario).unwrap();
//! assert_eq!(compare_queue(&scenario, &outcome, 0), [""; 0]);
//! ```

use crate::form::FormError;
use crate::outcome::VIRTUAL;
use crate::queue::{HandedOut, Op, QueueOutcome, QueueScenario, TimedOp};
use informer_core::queue::{Bucket, Limiter, QueueConfig, Ticket, WorkQueue};
use informer_core::time::{Duration, Time};
use std::collections::{BTreeMap, VecDeque};

/// Plays `scenario` and says what was seen.
///
/// A `done` of a key that no worker holds is passed over: the queue's tickets leave no way to say it.
///
/// # Errors
/// The scenario asks for what this queue cannot do: priorities, or a bucket that never fills.
pub fn play(scenario: &QueueScenario) -> Result<QueueOutcome, FormError> {
    let mut run = Run {
        queue: WorkQueue::new(config(scenario)?),
        waiting: VecDeque::new(),
        tickets: BTreeMap::new(),
        handed_out: Vec::new(),
        draining: false,
        shut_down_at_ms: None,
    };
    let mut ops: Vec<&TimedOp> = scenario.ops.iter().filter(|op| op.at_ms <= scenario.run_for_ms).collect();
    ops.sort_by_key(|op| op.at_ms); // stable: the order of the file within one instant
    let end = Time::from_millis(scenario.run_for_ms);
    for op in ops {
        let at = Time::from_millis(op.at_ms);
        run.until(at);
        run.apply(at, op);
    }
    run.until(end);
    Ok(QueueOutcome {
        name: scenario.name.clone(),
        runtime: VIRTUAL.into(),
        handed_out: run.handed_out,
        len: run.queue.len() as u64,
        pending_delayed: run.queue.delayed() as u64,
        requeues: run
            .queue
            .states()
            .filter(|(_, state)| state.retries > 0)
            .map(|(key, state)| (key.clone(), u64::from(state.retries)))
            .collect(),
        shut_down_at_ms: run.shut_down_at_ms,
    })
}

fn config(scenario: &QueueScenario) -> Result<QueueConfig, FormError> {
    let spec = &scenario.queue;
    let asks = |op: &TimedOp| match &op.what {
        Op::Add { priority, .. } | Op::AddAfter { priority, .. } | Op::AddRateLimited { priority, .. } => {
            priority.is_some()
        }
        Op::Forget { .. } | Op::Get | Op::Done { .. } | Op::ShutDown | Op::ShutDownWithDrain => false,
    };
    if spec.priority || scenario.ops.iter().any(asks) {
        return Err(FormError::at("queue.priority", "this queue has no priorities; leave them out"));
    }
    let limiter = &spec.limiter;
    let limiter = Limiter::exponential(Duration::from_millis(limiter.base_ms), Duration::from_millis(limiter.cap_ms));
    let limiter = match (spec.qps, spec.burst) {
        (Some(qps), Some(burst)) if qps > 0.0 && burst > 0 => limiter.with_bucket(Bucket::per_second(qps, burst)),
        (None, None) => limiter,
        (Some(_) | None, Some(_) | None) => {
            return Err(FormError::at("queue.qps", "qps and burst go together, both above 0"));
        }
    };
    Ok(QueueConfig::new(scenario.seed).limiter(limiter))
}

struct Run {
    queue: WorkQueue<String>,
    /// Workers that wait for a key, the first in line first.
    waiting: VecDeque<Option<String>>,
    /// The tickets of the keys that workers hold.
    tickets: BTreeMap<String, Ticket>,
    handed_out: Vec<HandedOut>,
    draining: bool,
    shut_down_at_ms: Option<u64>,
}

impl Run {
    /// Lets time pass up to `at`, which is included, and hands out what becomes ready on the way.
    fn until(&mut self, at: Time) {
        while let Some(deadline) = self.queue.next_deadline().filter(|deadline| deadline.at <= at) {
            self.queue.advance(deadline.at);
            self.hand_out(deadline.at);
        }
        self.queue.advance(at);
        self.hand_out(at);
    }

    fn apply(&mut self, now: Time, op: &TimedOp) {
        match &op.what {
            // What a queue that is shutting down refuses is refused silently in the file, too.
            Op::Add { key, .. } => _ = self.queue.add(now, key.clone()),
            Op::AddAfter { key, delay_ms, .. } => {
                _ = self.queue.add_after(now, key.clone(), Duration::from_millis(*delay_ms));
            }
            Op::AddRateLimited { key, .. } => _ = self.queue.add_rate_limited(now, key.clone()),
            Op::Forget { key } => self.queue.forget(key),
            Op::Get => self.waiting.push_back(op.worker.clone()),
            Op::Done { key } => {
                if let Some(ticket) = self.tickets.remove(key) {
                    self.queue.done(now, ticket);
                }
            }
            Op::ShutDown => {
                self.queue.shut_down();
                self.draining = false;
                self.shut_down_at_ms.get_or_insert(now.as_millis());
            }
            Op::ShutDownWithDrain => {
                self.queue.shut_down_with_drain();
                self.draining = true;
            }
        }
        self.hand_out(now);
    }

    fn hand_out(&mut self, now: Time) {
        while !self.waiting.is_empty() {
            let Some((key, ticket)) = self.queue.get(now) else { break };
            let worker = self.waiting.pop_front().flatten();
            self.tickets.insert(key.clone(), ticket);
            self.handed_out.push(HandedOut { at_ms: now.as_millis(), key, worker });
        }
        if self.draining && self.queue.is_drained() {
            self.shut_down_at_ms.get_or_insert(now.as_millis());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(queue: &str, ops: &str) -> QueueScenario {
        QueueScenario::from_str(&format!(
            r#"{{"kind": "queue", "name": "q", "seed": 1, "runForMs": 100, "queue": {queue}, "ops": {ops}}}"#
        ))
        .unwrap()
    }

    fn handed(outcome: &QueueOutcome) -> Vec<(u64, &str, Option<&str>)> {
        outcome.handed_out.iter().map(|out| (out.at_ms, out.key.as_str(), out.worker.as_deref())).collect()
    }

    #[test]
    fn workers_are_served_in_line_and_no_key_is_in_two_hands() {
        let outcome = play(&scenario(
            "{}",
            r#"[{"atMs": 0, "do": "get", "worker": 1}, {"atMs": 1, "do": "get", "worker": 2},
                {"atMs": 5, "do": "add", "key": "a"}, {"atMs": 6, "do": "add", "key": "a"},
                {"atMs": 7, "do": "add", "key": "b"}, {"atMs": 8, "do": "get", "worker": 1},
                {"atMs": 9, "do": "done", "key": "a"}]"#,
        ))
        .unwrap();
        assert_eq!(handed(&outcome), [(5, "a", Some("1")), (7, "b", Some("2")), (9, "a", Some("1"))]);
        assert_eq!((outcome.len, outcome.pending_delayed, outcome.shut_down_at_ms), (0, 0, None));
    }

    #[test]
    fn a_drain_is_complete_when_the_last_key_is_done() {
        let outcome = play(&scenario(
            "{}",
            r#"[{"atMs": 0, "do": "add", "key": "a"}, {"atMs": 0, "do": "addRateLimited", "key": "b"},
                {"atMs": 1, "do": "get"}, {"atMs": 2, "do": "shutDownWithDrain"},
                {"atMs": 3, "do": "add", "key": "late"}, {"atMs": 40, "do": "done", "key": "a"}]"#,
        ))
        .unwrap();
        assert_eq!(handed(&outcome), [(1, "a", None)]);
        assert_eq!((outcome.shut_down_at_ms, outcome.len), (Some(40), 0));
    }

    #[test]
    fn failures_count_until_they_are_forgotten() {
        let outcome = play(&scenario(
            r#"{"limiter": {"baseMs": 10, "capMs": 1000}}"#,
            r#"[{"atMs": 0, "do": "addRateLimited", "key": "a"}, {"atMs": 0, "do": "addRateLimited", "key": "b"},
                {"atMs": 0, "do": "get"}, {"atMs": 20, "do": "forget", "key": "b"}]"#,
        ))
        .unwrap();
        assert_eq!(handed(&outcome), [(10, "a", None)]);
        assert_eq!(outcome.requeues, [("a".to_owned(), 1)].into());
    }

    #[test]
    fn what_this_queue_cannot_do_is_refused_at_its_place() {
        for (queue, place) in [
            (r#"{"priority": true}"#, "queue.priority"),
            (r#"{"qps": 1.0}"#, "queue.qps"),
            (r#"{"qps": 0, "burst": 1}"#, "queue.qps"),
        ] {
            assert_eq!(play(&scenario(queue, "[]")).unwrap_err().place(), place);
        }
    }
}
