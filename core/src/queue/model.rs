//! The queue against a naive one: plain lists, searched from end to end, under random operations.

use super::{Bucket, Limiter, Place, QueueConfig, Ticket, WorkQueue};
use crate::time::{Duration, Time};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::vec::Vec;

#[derive(Clone, Debug)]
enum Op {
    Add(u8),
    AddAfter(u8, u64),
    AddRateLimited(u8),
    Forget(u8),
    Get,
    /// The ticket of that number, counted round the ones at hand.
    Done(usize),
    /// Time passes, in microseconds.
    Pass(u64),
    /// A driver wakes at the deadline that the queue named.
    Wake,
    ShutDown,
    Drain,
}

struct Delay {
    at: Time,
    order: usize,
    key: u8,
    token: Option<Time>,
}

/// What the queue should do, as simply as it can be said.
struct Model {
    now: Time,
    limiter: Limiter,
    ready: Vec<u8>,
    /// The keys in processing, and whether they were added again.
    hands: Vec<(u8, bool)>,
    delays: Vec<Delay>,
    failures: BTreeMap<u8, u32>,
    /// The bucket's contents in nanoseconds of its span, negative in debt, as of `filled`.
    credit: i128,
    filled: Time,
    orders: usize,
    down: bool,
}

impl Model {
    fn new(limiter: Limiter) -> Self {
        let credit = limiter.bucket.map_or(0, |bucket| Model::full(&bucket));
        Model {
            now: Time::ZERO,
            limiter,
            ready: Vec::new(),
            hands: Vec::new(),
            delays: Vec::new(),
            failures: BTreeMap::new(),
            credit,
            filled: Time::ZERO,
            orders: 0,
            down: false,
        }
    }

    fn full(bucket: &Bucket) -> i128 {
        bucket.every().as_nanos() as i128 * i128::from(bucket.burst())
    }

    fn advance(&mut self, now: Time) {
        self.now = now;
        self.delays.sort_by_key(|delay| (delay.at, delay.order));
        while self.delays.first().is_some_and(|delay| delay.at <= now) {
            let due = self.delays.remove(0);
            self.add(due.key);
        }
    }

    fn add(&mut self, key: u8) {
        if let Some((_, again)) = self.hands.iter_mut().find(|(hand, _)| *hand == key) {
            *again = true;
        } else if !self.ready.contains(&key) {
            self.ready.push(key);
        }
    }

    fn add_at(&mut self, key: u8, at: Time, token: Option<Time>) {
        if at <= self.now {
            return self.add(key);
        }
        self.orders += 1;
        match self.delays.iter_mut().find(|delay| delay.key == key) {
            None => self.delays.push(Delay { at, order: self.orders, key, token }),
            Some(delay) => {
                delay.token = delay.token.or(token);
                if at < delay.at {
                    (delay.at, delay.order) = (at, self.orders);
                }
            }
        }
    }

    fn add_rate_limited(&mut self, key: u8) {
        let failures = self.failures.entry(key).or_default();
        let mut wait = self.limiter.base;
        for _ in 0..*failures {
            wait = (wait * 2).min(self.limiter.cap);
        }
        *failures += 1;
        let at = self.now + wait;
        let token = self.limiter.bucket.map(|bucket| {
            let delay = self.delays.iter_mut().find(|delay| delay.key == key);
            delay.and_then(|delay| delay.token.take()).unwrap_or_else(|| {
                let gained = self.now.since(self.filled).as_nanos() as i128;
                self.credit = (self.credit + gained).min(Model::full(&bucket)) - bucket.every().as_nanos() as i128;
                self.filled = self.now;
                self.now + Duration::from_nanos(u64::try_from(-self.credit).unwrap_or(0))
            })
        });
        self.add_at(key, token.map_or(at, |token| token.max(at)), token);
    }

    fn forget(&mut self, key: u8) {
        self.failures.remove(&key);
    }

    fn get(&mut self) -> Option<u8> {
        if self.ready.is_empty() {
            return None;
        }
        let key = self.ready.remove(0);
        self.hands.push((key, false));
        Some(key)
    }

    fn done(&mut self, key: u8) {
        let at = self.hands.iter().position(|(hand, _)| *hand == key).unwrap();
        if self.hands.remove(at).1 {
            self.ready.push(key);
        }
    }

    fn tracked(&self) -> usize {
        (0..=u8::MAX)
            .filter(|key| {
                self.ready.contains(key)
                    || self.hands.iter().any(|(hand, _)| hand == key)
                    || self.delays.iter().any(|delay| delay.key == *key)
                    || self.failures.contains_key(key)
            })
            .count()
    }
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let key = || 0..6_u8;
    let op = prop_oneof![
        6 => key().prop_map(Op::Add),
        4 => (key(), 0..30_u64).prop_map(|(key, ms)| Op::AddAfter(key, ms)),
        5 => key().prop_map(Op::AddRateLimited),
        3 => key().prop_map(Op::Forget),
        8 => Just(Op::Get),
        7 => any::<usize>().prop_map(Op::Done),
        4 => (0..20_000_u64).prop_map(Op::Pass),
        2 => Just(Op::Wake),
    ];
    let end = prop_oneof![Just(Op::ShutDown), Just(Op::Drain)];
    (prop::collection::vec(op.clone(), 0..150), end, prop::collection::vec(op, 0..30)).prop_map(
        |(mut ops, end, more)| {
            ops.push(end);
            ops.extend(more);
            ops
        },
    )
}

fn limiters() -> impl Strategy<Value = Limiter> {
    let ms = Duration::from_millis;
    prop_oneof![
        Just(Limiter::default()),
        Just(Limiter::exponential(ms(0), ms(10))),
        Just(Limiter::exponential(ms(1), ms(20)).with_bucket(Bucket::new(ms(7), 3))),
        Just(Limiter::exponential(ms(0), ms(0)).with_bucket(Bucket::new(ms(3), 1))),
    ]
}

fn run(limiter: Limiter, seed: u64, ops: &[Op]) {
    let mut queue = WorkQueue::new(QueueConfig::new(seed).limiter(limiter.clone()));
    let mut model = Model::new(limiter);
    let mut tickets: Vec<(u8, Ticket)> = Vec::new();
    let mut now = Time::ZERO;
    for op in ops {
        let accepted = match op {
            Op::Add(key) => Some((queue.add(now, *key), Some(*key), None)),
            Op::AddAfter(key, ms) => {
                let wait = Duration::from_millis(*ms);
                Some((queue.add_after(now, *key, wait), Some(*key), Some(wait)))
            }
            Op::AddRateLimited(key) => Some((queue.add_rate_limited(now, *key), None, None)),
            Op::Forget(key) => {
                queue.forget(key);
                model.forget(*key);
                None
            }
            Op::Get => {
                model.advance(now);
                let got = queue.get(now);
                assert_eq!(got.as_ref().map(|(key, _)| *key), model.get());
                tickets.extend(got);
                None
            }
            Op::Done(_) if tickets.is_empty() => None,
            Op::Done(which) => {
                let (key, ticket) = tickets.remove(which % tickets.len());
                model.advance(now);
                queue.done(now, ticket);
                model.done(key);
                None
            }
            Op::Pass(us) => {
                now = now + Duration::from_micros(*us);
                queue.advance(now);
                model.advance(now);
                None
            }
            Op::Wake => {
                if let Some(deadline) = queue.next_deadline() {
                    assert!(deadline.at > now);
                    now = deadline.at;
                    queue.advance(now);
                    model.advance(now);
                }
                None
            }
            Op::ShutDown | Op::Drain => {
                if matches!(op, Op::Drain) {
                    queue.shut_down_with_drain()
                } else {
                    queue.shut_down()
                }
                assert_eq!(queue.is_draining(), matches!(op, Op::Drain));
                model.down = true;
                model.delays.clear();
                None
            }
        };
        if let Some((accepted, key, wait)) = accepted {
            assert_eq!(accepted, !model.down);
            model.advance(now);
            match (op, key, wait) {
                _ if model.down => {}
                (Op::AddRateLimited(key), ..) => model.add_rate_limited(*key),
                (_, Some(key), Some(wait)) => model.add_at(key, now + wait, None),
                (_, Some(key), None) => model.add(key),
                (_, None, _) => unreachable!("only a rate-limited add has no key here"),
            }
        }
        compare(&queue, &model);
    }
    for (key, ticket) in tickets {
        queue.done(now, ticket);
        model.done(key);
    }
    compare(&queue, &model);
    while let Some((key, ticket)) = queue.get(now) {
        assert_eq!(model.get(), Some(key));
        queue.done(now, ticket);
        model.done(key);
    }
    assert!(queue.is_drained() && queue.is_exhausted());
    (0..6).for_each(|key| queue.forget(&key));
    assert_eq!(queue.tracked(), 0);
}

fn compare(queue: &WorkQueue<u8>, model: &Model) {
    queue.check();
    assert_eq!(queue.len(), model.ready.len());
    assert_eq!(queue.processing(), model.hands.len());
    assert_eq!(queue.delayed(), model.delays.len());
    assert_eq!(queue.tracked(), model.tracked());
    assert_eq!(queue.next_deadline().map(|deadline| deadline.at), model.delays.iter().map(|delay| delay.at).min());
    assert_eq!(queue.is_drained(), model.down && model.ready.is_empty() && model.hands.is_empty());
    let again = model.hands.iter().any(|(_, again)| *again);
    assert_eq!(queue.is_exhausted(), model.down && model.ready.is_empty() && !again);
    for key in 0..6 {
        let state = queue.state(&key);
        let place = match model.hands.iter().find(|(hand, _)| *hand == key) {
            Some((_, false)) => Place::Processing,
            Some((_, true)) => Place::ProcessingAgain,
            None if model.ready.contains(&key) => Place::Ready,
            None => Place::Idle,
        };
        assert_eq!(state.map_or(Place::Idle, |state| state.place), place);
        assert_eq!(
            state.and_then(|state| state.due),
            model.delays.iter().find(|delay| delay.key == key).map(|delay| delay.at)
        );
        assert_eq!(queue.retries(&key), model.failures.get(&key).copied().unwrap_or(0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn the_queue_does_what_plain_lists_do(limiter in limiters(), seed in any::<u64>(), ops in ops()) {
        run(limiter, seed, &ops);
    }
}

#[test]
fn b157_a_million_random_steps_leave_the_queue_whole() {
    use crate::rng::Rng;
    let mut rng = Rng::new(157);
    let mut queue = WorkQueue::new(QueueConfig::new(157));
    let (mut now, mut tickets) = (Time::ZERO, Vec::new());
    let mut hands = [false; 500];
    for step in 0..1_000_000 {
        let key = rng.below(500) as u16;
        match rng.below(8) {
            0 => _ = queue.add(now, key),
            1 => _ = queue.add_after(now, key, rng.span(Duration::from_millis(500))),
            2 => _ = queue.add_rate_limited(now, key),
            3 => queue.forget(&key),
            4 => now = now + rng.span(Duration::from_millis(2)),
            5 if !tickets.is_empty() => {
                let (key, ticket) = tickets.swap_remove(rng.below(tickets.len() as u64) as usize);
                hands[usize::from(key)] = false;
                queue.done(now, ticket);
            }
            _ => {
                if let Some((key, ticket)) = queue.get(now) {
                    let in_hand = core::mem::replace(&mut hands[usize::from(key)], true);
                    assert!(!in_hand, "key {key} is in two hands");
                    tickets.push((key, ticket));
                }
            }
        }
        if step % 10_000 == 0 {
            queue.check();
        }
    }
    assert_eq!(queue.processing(), tickets.len());
}
