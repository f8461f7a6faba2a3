//! How often a server is asked, whatever it does (I30): envelopes as code, and servers that push against them.
//!
//! Waits cut a life into rounds: a round is what is sent without a wait in between, pages that follow a continue token
//! apart (each is an answer that the server chose to cut; they have a bound of their own). The longest round is
//! [`ROUND`]. Between the last request of one round and the first of the next lies at least [`LEAST_WAIT`].

use super::harness::{World, bookmark, config, end_marker, error_event, event, list, page, status, too_large};
use super::random::{bodies, strategy};
use crate::informer::Input;
use crate::reflector::{End, ListStrategy, Phase, Tuning};
use crate::time::{Duration, Time};
use crate::wire::Head;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::format;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

/// A streaming list; the same for the newest state, if the first was expired or stale, or pages in its place; pages for
/// the newest state, if those were; the same all at once, if a token expired; then the watch.
const ROUND: u64 = 5;

/// Once in a life a round has one more: the first list may ask for any state, in pages and all at once, before it asks
/// for the newest.
const FIRST: u64 = 1;

/// The watch behind a version probe, and the probe itself: it follows a watch that may have been sent just before.
const PROBE: u64 = 2;

/// The first step of the backoff, and the pace of watches that end soon. What a server asks for is at least a second.
const LEAST_WAIT: Duration = Duration::from_millis(800);

/// The most requests in any span of this length, of a server that does its worst: each wait is the least there is,
/// since it sends an event now and then.
pub(super) fn most(span: Duration, probe: Duration) -> u64 {
    let fits = |period: Duration| (span.as_nanos() / period.as_nanos().max(1)) as u64 + 1;
    ROUND * fits(LEAST_WAIT) + FIRST + PROBE * fits(probe)
}

/// The `k`th step of the backoff, before jitter.
fn step(k: u64) -> Duration {
    let tuning = Tuning::default();
    tuning.backoff.saturating_mul(1 << k.min(16)).min(tuning.backoff_cap)
}

/// Checks each window: from each request to each later one.
pub(super) fn within(sent: &[Time], most: impl Fn(Duration) -> u64) -> Result<(), String> {
    for (a, from) in sent.iter().enumerate() {
        for (b, to) in sent.iter().enumerate().skip(a) {
            let (count, most) = ((b - a + 1) as u64, most(to.since(*from)));
            if count > most {
                return Err(format!("requests {a} to {b} came in {:?}: {count}, and {most} may", to.since(*from)));
            }
        }
    }
    Ok(())
}

/// Checks each window of a server from which no watch ever got anything: the waits double up to their cap, and nothing
/// resets them. With `round` requests between two waits, `n` requests hold at least `n / round - 1` of them, and before
/// the request `a` there were at least `a / round - 1`.
fn within_the_backoff(sent: &[Time], round: u64) -> Result<(), String> {
    // Sums of steps, so that a window costs one subtraction.
    let mut sums = vec![Duration::ZERO];
    for k in 0..sent.len() as u64 {
        sums.push(sums[k as usize] + step(k));
    }
    let waits = |requests: usize| (requests as u64).saturating_sub(FIRST).div_ceil(round).saturating_sub(1) as usize;
    for (a, from) in sent.iter().enumerate() {
        for (b, to) in sent.iter().enumerate().skip(a) {
            let (first, more) = (waits(a + 1), waits(b - a + 1));
            let least = sums[first + more] - sums[first];
            if to.since(*from) < least {
                return Err(format!("requests {a} to {b} came in {:?}, and need {least:?}", to.since(*from)));
            }
        }
    }
    Ok(())
}

/// How a server deals with a request.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    Refused,
    Broken,
    Closed,
    /// A status code, a body, `retry-after`.
    Failing(u16, String, Option<&'static str>),
    /// 200, a body, and how it ends; `None` is not at all.
    Good(String, Option<End>),
}

fn close(body: impl Into<String>) -> Reply {
    Reply::Good(body.into(), Some(End::Closed))
}

impl World {
    /// Answers the request in flight as far as it gets.
    fn reply(&mut self, reply: &Reply) {
        let id = self.id();
        match reply {
            Reply::Refused => self.refused(),
            Reply::Broken => self.broken(),
            Reply::Closed => self.close(),
            Reply::Failing(code, body, retry) => {
                let mut head = Head::new(*code);
                head.retry_after = retry.map(ToString::to_string);
                self.head_with(&head);
                self.body(body);
                if self.current == Some(id) {
                    self.close();
                }
            }
            Reply::Good(body, end) => {
                self.head(200);
                if self.current == Some(id) && !body.is_empty() {
                    self.body(body);
                }
                if let (true, Some(end)) = (self.current == Some(id), end) {
                    self.end(end);
                }
            }
        }
    }

    /// Lives `requests` attempts long with a server that takes these replies in turn, each after its milliseconds.
    pub(super) fn suffer(&mut self, replies: &[(u64, Reply)], requests: usize) {
        self.input(Input::Start);
        self.go_on_suffering(replies, requests, &mut 0);
    }

    /// The same in parts: `turn` counts the replies that were given.
    fn go_on_suffering(&mut self, replies: &[(u64, Reply)], requests: usize, turn: &mut usize) {
        let most = *turn + 1_000 * (requests + 1);
        while self.attempts.len() < requests && self.pages <= 20 * requests {
            let (after, reply) = &replies[*turn % replies.len()];
            *turn += 1;
            assert!(*turn < most, "{} does not get on", self.informer.reflector().state_name());
            // An open body waits for its deadline.
            while !self.informer.reflector().awaits_head() {
                self.now = self.deadline.expect("something is waited for").at;
                self.input(Input::Tick);
            }
            if *after > 0 {
                self.pass(*after);
            }
            if self.informer.reflector().awaits_head() {
                self.reply(reply);
            }
        }
    }
}

fn reply() -> impl Strategy<Value = Reply> {
    let codes = prop::sample::select(vec![301, 400, 401, 403, 404, 405, 410, 422, 429, 500, 502, 503, 504]);
    let retry = prop::sample::select(vec![
        None,
        None,
        Some("0"),
        Some("-1"),
        Some("1"),
        Some("3"),
        Some("1000000000"),
        Some("99999999999999999999999"),
        Some("Fri, 31 Dec 9999 23:59:59 GMT"),
        Some("soon"),
    ]);
    let text = prop::sample::select(vec![String::new(), "<html>".into(), status(410, "Expired"), too_large()]);
    let ends = prop::sample::select(vec![Some(End::Closed), Some(End::Broken("reset".into())), None]);
    let good = (0..bodies().len(), prop::option::of(0..bodies().len()), ends);
    prop_oneof![
        1 => Just(Reply::Refused),
        1 => Just(Reply::Broken),
        1 => Just(Reply::Closed),
        4 => (codes, text, retry).prop_map(|(code, text, retry)| Reply::Failing(code, text, retry)),
        8 => good.prop_map(|(one, two, end)| {
            let bodies = bodies();
            Reply::Good(bodies[one].clone() + two.map_or("", |two| &bodies[two]), end)
        }),
    ]
}

fn delay() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => Just(0u64),
        1 => prop::sample::select(vec![1, 799, 800, 999, 1_000, 5_000, 61_000, 149_000]),
    ]
}

proptest! {
    #[test]
    fn no_server_is_asked_more_often_than_the_envelope_allows_in_any_window(
        strategy in strategy(), seed: u64, probe: bool, replies in prop::collection::vec((delay(), reply()), 1..6),
    ) {
        let mut config = config(strategy);
        if probe {
            config.reflector.tuning.version_probe = Duration::from_secs(3);
        }
        let probe = config.reflector.tuning.version_probe;
        let mut world = World::with(config, seed);
        world.suffer(&replies, 120);
        let kept = within(&world.attempts, |span| most(span, probe));
        prop_assert!(kept.is_ok(), "{kept:?}");
    }

    #[test]
    fn a_server_that_only_fails_is_asked_within_the_envelope_of_the_backoff_in_any_window(
        strategy in strategy(), seed: u64, pattern in prop::collection::vec(0usize..14, 1..5),
    ) {
        let replies: Vec<_> = pattern.iter().map(|which| (0, failing()[*which].clone())).collect();
        let mut world = World::with(config(strategy), seed);
        world.suffer(&replies, 120);
        let kept = within_the_backoff(&world.attempts, ROUND);
        prop_assert!(kept.is_ok(), "{kept:?}");
        if world.attempts.len() == 120 {
            let took = world.now.since(world.attempts[0]);
            prop_assert!(took > Duration::from_secs(400), "24 waits have reached their cap: {took:?}");
        }
    }
}

/// What gets no watch anywhere, and asks for no wait shorter than the backoff's.
fn failing() -> Vec<Reply> {
    vec![
        Reply::Failing(500, String::new(), None),
        Reply::Failing(403, String::new(), None),
        Reply::Failing(410, status(410, "Expired"), None),
        Reply::Failing(504, too_large(), None),
        Reply::Failing(422, String::new(), None),
        Reply::Failing(429, String::new(), Some("1000000000")),
        Reply::Failing(503, String::new(), Some("-1")),
        Reply::Broken,
        Reply::Closed,
        close("<html>"),
        close(page("5", "again", &[])),
        close(list("5", &[])),
        close(error_event(410, "Expired")),
        close(status(200, "")),
    ]
}

#[test]
fn the_longest_round_that_a_server_can_have_is_the_one_that_the_envelope_allows() {
    let mut world = World::streaming();
    let expires_behind_its_first_page = |world: &mut World| {
        world.answer(200, &page("5", "next", &[]));
        world.answer(410, "");
    };
    world.answer(500, "");
    for _ in 0..3 {
        expires_behind_its_first_page(&mut world);
    }
    world.answer(200, &list("5", &[]));
    assert_eq!((world.phase(), world.attempts.len() as u64), (Phase::Opening, ROUND + FIRST));
    assert!(world.attempts.iter().all(|at| *at == world.attempts[0]));
    world.reply(&Reply::Good(bookmark("6") + &error_event(410, "Expired"), None));
    world.back_off(800);
    world.attempts.clear();
    // The request that ended the wait is in flight.
    world.attempts.push(world.now);
    world.answer(500, "");
    for _ in 0..2 {
        expires_behind_its_first_page(&mut world);
    }
    world.answer(200, &list("7", &[]));
    assert_eq!((world.phase(), world.attempts.len() as u64), (Phase::Opening, ROUND));
    assert!(world.attempts.iter().all(|at| *at == world.now));
}

/// Servers from the field, each with the most requests that it sees between two waits, once it is known.
#[test]
fn servers_that_fail_in_the_same_way_for_ever_are_asked_ever_more_rarely() {
    let always = |reply: Reply| vec![(0, reply)];
    let listed = |watch: Reply| vec![(0, close(list("5", &[("a", "4")]))), (0, watch)];
    #[rustfmt::skip]
    let servers = [
        ("410 for everything", 1, always(Reply::Failing(410, status(410, "Expired"), None))),
        ("every version is too large", 1, always(Reply::Failing(504, too_large(), Some("1")))),
        ("a list that never ends", 1, always(close(page("5", "again", &[])))),
        ("a list is a Status with 200", 1, always(close(status(500, "InternalError")))),
        ("every watch is expired in the stream", 2, listed(close(error_event(410, "Expired")))),
        ("every watch is expired in the head", 2, listed(Reply::Failing(410, status(410, "Expired"), None))),
        ("there is no watch", 2, listed(Reply::Failing(405, String::new(), None))),
        ("every watch ends at once", 2, listed(close(""))),
        ("every watch is a web page", 2, listed(close("<html>"))),
    ];
    for (name, round, replies) in servers {
        let mut world = World::with(config(ListStrategy::Paged), 3);
        // A server that asks for a second gets no more than that.
        let asks = name.contains("too large");
        world.suffer(&replies, 60);
        let kept = if asks { Ok(()) } else { within_the_backoff(&world.attempts, round) };
        assert_eq!(kept, Ok(()), "{name}");
        let first_minutes = world.attempts.iter().filter(|at| at.since(world.attempts[0]).as_secs() < 600).count();
        let most = if asks { 600 } else { 30 * round as usize };
        assert!(first_minutes <= most, "{name}: {first_minutes} requests in ten minutes (B053)");
    }
}

#[test]
fn a_watch_that_delivers_one_event_and_closes_is_opened_every_800_ms_and_no_sooner() {
    for (n, body) in [event("MODIFIED", "a", "6"), bookmark("6")].into_iter().enumerate() {
        let mut world = World::opening();
        let start = world.now;
        while world.now < start + Duration::from_secs(80) {
            if world.current.is_some() {
                world.reply(&close(body.clone()));
            } else {
                world.now = world.deadline.unwrap().at;
                world.input(Input::Tick);
            }
        }
        let watches = world.attempts.iter().filter(|at| **at >= start).count();
        // The list was sent at the start, too.
        assert_eq!(watches, 102, "{n}");
        assert!(world.attempts[2..].windows(2).all(|two| two[1].since(two[0]) == LEAST_WAIT));
        assert!(world.failures.is_empty());
    }
}

#[test]
fn two_hundred_lists_that_are_followed_by_an_expired_watch_each_show_and_back_off_all_the_same() {
    let mut world = World::listing();
    for round in 0..200 {
        world.answer(200, &list(&format!("{}", 10 + round), &[("a", &format!("{}", 5 + round))]));
        assert_eq!(world.stored(), [format!("ns/a@{}", 5 + round)], "each list is progress (B055)");
        world.answer(200, &error_event(410, "Expired"));
        let wait = world.failure().retry_in.unwrap();
        assert!(wait >= step(round) && wait < 2 * step(round), "{round}: {wait:?}");
        world.pass(wait.as_millis() as u64 + 1);
    }
    world.answer(200, &list("900", &[("a", "899")]));
    world.head(200);
    world.body(&event("MODIFIED", "a", "901"));
    assert_eq!(world.stored(), ["ns/a@901"], "and the first that works goes on normally");
}

#[test]
fn pages_with_ever_new_tokens_end_at_their_bound() {
    let mut config = config(ListStrategy::Paged);
    config.reflector.tuning.pages = 50;
    let mut world = World::with(config, 1);
    world.input(Input::Start);
    let mut lists = 0;
    for n in 0..500 {
        if world.current.is_none() {
            lists += 1;
            world.now = world.deadline.unwrap().at;
            world.input(Input::Tick);
        }
        world.answer(200, &page("5", &format!("t{n}"), &[]));
    }
    assert_eq!((lists, world.failures.len()), (9, 10));
    assert!(world.failure().message.contains("it has too many pages (50 pages read)"), "{}", world.failure());
    assert_eq!(within_the_backoff(&world.attempts, 1), Ok(()));
}

/// Many machines and one server; every answer is instant.
struct Fleet {
    worlds: Vec<World>,
    /// When something is due, and whose.
    agenda: BTreeMap<(Time, usize), ()>,
}

impl Fleet {
    /// All of them watch.
    fn new(machines: usize) -> Self {
        let mut worlds = Vec::new();
        for seed in 0..machines {
            let mut world = World::with(config(ListStrategy::Paged), seed as u64 * 7_919 + 1);
            world.input(Input::Start);
            world.answer(200, &list("5", &[("a", "4")]));
            world.head(200);
            assert_eq!(world.phase(), Phase::Watching);
            world.attempts.clear();
            worlds.push(world);
        }
        Fleet { worlds, agenda: BTreeMap::new() }
    }

    /// Every watch breaks at one instant, and for `outage` every request gets `reply`. Says when requests came.
    fn cut(&mut self, outage: Duration, reply: &Reply) -> Vec<Time> {
        let start = self.worlds[0].now;
        for (n, world) in self.worlds.iter_mut().enumerate() {
            world.broken();
            self.agenda.insert((world.deadline.expect("a backoff").at, n), ());
        }
        let end = start + outage;
        while let Some(((now, n), ())) = self.agenda.pop_first() {
            let world = &mut self.worlds[n];
            world.now = now;
            world.input(Input::Tick);
            if now >= end {
                // The server is back. Who was told of five internal errors lists first.
                if world.phase() == Phase::Listing {
                    world.answer(200, &list("5", &[("a", "4")]));
                }
                world.head(200);
                assert_eq!((world.phase(), world.stored().len()), (Phase::Watching, 1));
                continue;
            }
            world.reply(reply);
            self.agenda.insert((world.deadline.expect("a backoff").at, n), ());
        }
        let mut sent: Vec<Time> = self.worlds.iter().flat_map(|world| world.attempts.iter().copied()).collect();
        sent.sort();
        sent
    }
}

/// The most of `sent`, from `from` on, in any 100 ms.
fn densest(sent: &[Time], from: Time) -> usize {
    let sent: Vec<_> = sent.iter().filter(|at| **at >= from).collect();
    let window = |a: usize| sent[a..].iter().take_while(|at| at.since(*sent[a]) < Duration::from_millis(100)).count();
    (0..sent.len()).map(window).max().unwrap_or(0)
}

#[test]
fn a_fleet_that_lost_its_server_comes_back_spread_out() {
    const MACHINES: usize = 200;
    let cases = [
        // Waits of [3, 6) s, so 4.4 of them in 100 ms on average.
        ("refused", Reply::Refused, Duration::from_secs(20), MACHINES * 8 / 100),
        // Waits of [30, 60) s: 0.44.
        ("503", Reply::Failing(503, String::new(), None), Duration::from_secs(300), MACHINES * 4 / 100),
    ];
    for (name, reply, grown, most) in cases {
        let mut fleet = Fleet::new(MACHINES);
        let start = fleet.worlds[0].now;
        let sent = fleet.cut(grown + Duration::from_secs(300), &reply);
        // The first retry after the common cut lies in [0.8, 1.6) s: an eighth of all in 100 ms, and some for chance.
        let first: Vec<_> = sent.iter().take(MACHINES).copied().collect();
        assert!(densest(&first, start) <= MACHINES / 5, "{name}: {} at the first retry", densest(&first, start));
        assert!(first[0].since(start) >= LEAST_WAIT && first[MACHINES - 1].since(start) < 2 * LEAST_WAIT, "{name}");
        let late = densest(&sent, start + grown);
        assert!(late <= most, "{name}: {late} of {MACHINES} in 100 ms once the backoff has grown");
        let lists = fleet.worlds.iter().map(|world| world.informer.stats().lists).max();
        assert!(lists <= Some(if name == "refused" { 1 } else { 2 }), "{name}: {lists:?} lists");
    }
}

#[test]
fn equal_seeds_give_equal_traces_alone_and_beside_another_informer_and_different_ones_share_nothing() {
    let replies = |n: u64| {
        [
            (n, close(list("5", &[("a", "4")]))),
            (0, Reply::Failing(500, String::new(), None)),
            (n, close(event("MODIFIED", "a", "6"))),
            (0, Reply::Refused),
            (n, Reply::Good(bookmark("7"), None)),
            (0, close(error_event(410, "Expired"))),
            (n, Reply::Good(event("ADDED", "a", "8") + &end_marker("9"), None)),
        ]
    };
    let of = |selector: &str| {
        let mut config = config(ListStrategy::Auto);
        config.reflector.label_selector = Some(selector.into());
        World::with(config, 5)
    };
    let alone = |selector: &str, n: u64| {
        let mut world = of(selector);
        world.suffer(&replies(n), 60);
        (world.log, world.attempts)
    };
    let (a, b) = (alone("app=a", 3), alone("app=b", 3));
    assert_eq!((&a, &b), (&alone("app=a", 3), &alone("app=b", 3)), "twice the same");
    assert_ne!(a.1, b.1, "two informers of one seed draw different waits");
    // Now in turns: one request of this, one of that.
    let (mut one, mut two) = (of("app=a"), of("app=b"));
    let (mut turn_of_one, mut turn_of_two) = (0, 0);
    one.input(Input::Start);
    two.input(Input::Start);
    for requests in 1..=60 {
        one.go_on_suffering(&replies(3), requests, &mut turn_of_one);
        two.go_on_suffering(&replies(3), requests, &mut turn_of_two);
    }
    assert_eq!((one.attempts, two.attempts), (a.1, b.1), "neither knows of the other");
    assert_eq!((one.log, two.log), (a.0, b.0));
}
