//! Random servers, drivers and handlers: what must hold whatever they do.

use super::harness::{World, bookmark, config, end_marker, error_event, event, list, page, status, too_large};
use super::pace::{Reply, most, within};
use crate::fifo::QueueKind;
use crate::informer::{InformerConfig, Input};
use crate::listener::Overflow;
use crate::reflector::{End, ListStrategy, Phase, why};
use crate::time::{Duration, Time};
use crate::wire::{Head, RequestId};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::collections::{BTreeMap, BTreeSet};
use std::format;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

/// What a server or a driver does next, for better or worse.
#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    /// Sleep until the deadline.
    Sleep,
    /// The request in flight is answered as a good server does; a watch is opened.
    Good,
    Connected,
    Head(u16, Option<&'static str>, Option<&'static str>),
    /// A part of a body: which one, and where it is cut.
    Body(usize, usize),
    Closed,
    Broken,
    Refused,
    Stale,
    Work,
    AddHandler(u64),
    RemoveHandler(u64),
    /// The clock goes back.
    Backward,
}

pub(super) fn bodies() -> Vec<String> {
    vec![
        list("5", &[("a", "4"), ("b", "3")]),
        list("4", &[("b", "3")]),
        list("7", &[("a", "6"), ("c", "7")]),
        list("", &[]),
        page("6", "token", &[("a", "5")]),
        page("8", "other", &[]),
        event("ADDED", "c", "8"),
        event("MODIFIED", "a", "9"),
        event("DELETED", "a", "10"),
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"bad\",\"resourceVersion\":\"5\",\"labels\":7}}}"
            .into(),
        "{\"type\":\"ADDED\",\"object\":{\"kind\":\"Node\",\"metadata\":{\"name\":\"n\"}}}".into(),
        bookmark("11"),
        bookmark(""),
        end_marker("12"),
        error_event(410, "Expired"),
        error_event(500, "InternalError"),
        status(410, "Expired"),
        too_large(),
        status(429, "TooManyRequests"),
        "<html>502</html>".into(),
        "\n ".into(),
    ]
}

fn head() -> impl Strategy<Value = Step> {
    let codes = prop::sample::select(vec![200, 200, 200, 200, 301, 400, 401, 403, 404, 410, 422, 429, 500, 503, 504]);
    let retry = prop::sample::select(vec![None, None, None, Some("0"), Some("3"), Some("99999")]);
    let encoding = prop::sample::select(vec![None, None, None, None, Some("gzip"), Some("br")]);
    (codes, retry, encoding).prop_map(|(code, retry, encoding)| Step::Head(code, retry, encoding))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0u64..3_000).prop_map(Step::Pass),
        1 => (0u64..1_000_000).prop_map(Step::Pass),
        8 => Just(Step::Sleep),
        5 => Just(Step::Good),
        2 => Just(Step::Connected),
        6 => head(),
        10 => (0..bodies().len(), 0usize..400).prop_map(|(which, cut)| Step::Body(which, cut)),
        10 => (0..bodies().len()).prop_map(|which| Step::Body(which, usize::MAX)),
        3 => Just(Step::Closed),
        1 => Just(Step::Broken),
        1 => Just(Step::Refused),
        1 => Just(Step::Stale),
        4 => Just(Step::Work),
        1 => (0u64..3).prop_map(Step::AddHandler),
        1 => (0u64..3).prop_map(Step::RemoveHandler),
        1 => Just(Step::Backward),
    ]
}

fn take(world: &mut World, step: &Step, bodies: &[String]) {
    match step {
        Step::Pass(millis) => world.pass(*millis),
        Step::Sleep => {
            if let Some(deadline) = world.deadline {
                world.now = deadline.at;
                world.input(Input::Tick);
            }
        }
        Step::Backward => {
            let now = core::mem::replace(&mut world.now, Time::ZERO);
            world.informer.handle(Time::ZERO, Input::Tick);
            world.now = now;
            world.input(Input::Tick);
        }
        Step::Stale => {
            let id = RequestId(world.current.map_or(1, |id| id.0) + 7);
            world.input(Input::Body { id, bytes: b"{" });
        }
        Step::Work => {
            world.work();
        }
        Step::AddHandler(id) => {
            if !world.listeners.contains_key(id) {
                world.add_handler_with(*id, Some(Duration::from_secs(5)), Overflow::Coalesce { limit: 2 });
            }
        }
        Step::RemoveHandler(id) => {
            if world.listeners.contains_key(id) {
                world.remove_handler(*id);
            }
        }
        Step::Good => {
            let awaits_head = world.current.is_some_and(|id| world.informer.reflector().reading() != Some(id));
            match world.phase() {
                Phase::Listing if world.current.is_some() => world.answer(200, &list("12", &[("a", "12")])),
                Phase::Streaming => {
                    if awaits_head {
                        world.head(200);
                    }
                    // It may have given up on the head, for pages.
                    if world.phase() == Phase::Streaming {
                        world.body(&end_marker("12"));
                    }
                }
                Phase::Opening if awaits_head => world.head(200),
                Phase::Idle | Phase::Listing | Phase::Opening | Phase::Watching | Phase::Backoff | Phase::Stopped => {}
            }
        }
        // The others are answers to a request.
        Step::Connected if world.current.is_some() => world.connected(),
        Step::Head(code, retry, encoding) if world.current.is_some() => {
            let mut head = Head::new(*code);
            head.retry_after = retry.map(ToString::to_string);
            head.content_encoding = encoding.map(ToString::to_string);
            world.head_with(&head);
        }
        Step::Body(which, cut) if world.current.is_some() => {
            let body = &bodies[*which];
            world.body(&body[..body.len().min(*cut)]);
        }
        Step::Closed if world.current.is_some() => world.close(),
        Step::Broken if world.current.is_some() => world.broken(),
        Step::Refused if world.current.is_some() => world.end(&End::Refused("no route to host".into())),
        Step::Connected | Step::Head(..) | Step::Body(..) | Step::Closed | Step::Broken | Step::Refused => {}
    }
}

/// Something will happen, or nothing ever has to.
fn assert_alive(world: &World) -> Result<(), TestCaseError> {
    let reflector = world.informer.reflector();
    match reflector.deadline() {
        Some(deadline) => prop_assert!(why::ALL.contains(&deadline.why), "{deadline:?} is documented nowhere"),
        None => {
            prop_assert!(reflector.rests(), "a machine that is {} waits for nothing", reflector.state_name());
            // What it rests for is the driver's to do.
            prop_assert!(world.has_kept() || matches!(world.phase(), Phase::Idle | Phase::Stopped));
        }
    }
    world.assert_alive();
    Ok(())
}

pub(super) fn strategy() -> impl Strategy<Value = ListStrategy> {
    prop::sample::select(vec![ListStrategy::Auto, ListStrategy::Streaming, ListStrategy::Paged])
}

/// Half of all machines probe after seconds, so that these runs get there; a third has the other queue.
fn config_of(strategy: ListStrategy, seed: u64) -> InformerConfig {
    let mut config = config(strategy);
    if seed % 2 == 0 {
        config.reflector.tuning.version_probe = Duration::from_secs(3);
    }
    if seed % 3 == 0 {
        config.queue = QueueKind::DeltaFifo;
    }
    config
}

fn run(strategy: ListStrategy, seed: u64, lazy: bool, steps: &[Step]) -> Result<World, TestCaseError> {
    walk(strategy, seed, lazy, steps, |_| {})
}

/// Takes the steps, and shows the world after each.
fn walk(
    strategy: ListStrategy,
    seed: u64,
    lazy: bool,
    steps: &[Step],
    mut look: impl FnMut(&World),
) -> Result<World, TestCaseError> {
    let bodies = bodies();
    let config = config_of(strategy, seed);
    // Some begin with the state of an earlier run, at a version of another server, perhaps.
    let mut world = match seed % 5 {
        0 => World::preloaded(config, seed, &[("a", "2"), ("d", "6")], ["3", "6", "9", "x"][seed as usize / 5 % 4]),
        _ => World::with(config, seed),
    };
    world.lazy = lazy;
    world.input(Input::Start);
    for step in steps {
        take(&mut world, step, &bodies);
        assert_alive(&world)?;
        look(&world);
    }
    world.assert_paced(Time::ZERO, 0);
    let probe = world.informer.reflector().config().tuning.version_probe;
    prop_assert!(
        within(&world.attempts, |span| most(span, probe)).is_ok(),
        "{:?}",
        within(&world.attempts, |span| most(span, probe))
    );
    Ok(world)
}

/// Every state waits for something, with each reason that it can have, and the random servers above get everywhere.
#[test]
fn every_state_is_walked_through_and_waits_for_something_with_a_documented_reason() {
    let mut runner = TestRunner::deterministic();
    let mut seen = BTreeSet::new();
    for seed in 0..400 {
        let strategy = [ListStrategy::Auto, ListStrategy::Paged][seed as usize / 2 % 2];
        let steps = prop::collection::vec(step(), 150).new_tree(&mut runner).expect("steps").current();
        let looked = walk(strategy, seed, seed % 3 == 0, &steps, |world| {
            let reflector = world.informer.reflector();
            seen.insert((reflector.state_name(), reflector.deadline().map(|deadline| deadline.why)));
        });
        looked.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    let request = |state| [why::CONNECTING, why::HEAD, why::ERROR_BODY].map(|why| (state, Some(why)));
    let mut all: BTreeSet<_> = ["listing", "streaming", "opening", "probing"].into_iter().flat_map(request).collect();
    all.extend(["listing", "streaming", "probing", "watching"].map(|state| (state, Some(why::SILENCE))));
    all.extend([
        ("watching", Some(why::END_OF_WATCH)),
        ("watching", Some(why::PROBE)),
        ("backoff", Some(why::BACKOFF)),
        ("finished list", None),
    ]);
    let missed: Vec<_> = all.difference(&seen).collect();
    assert!(missed.is_empty(), "never seen: {missed:?}");
}

proptest! {
    #[test]
    fn no_server_and_no_driver_makes_it_panic_hang_or_run_away(
        strategy in strategy(), seed: u64, lazy: bool, steps in prop::collection::vec(step(), 0..150),
    ) {
        let mut world = run(strategy, seed, lazy, &steps)?;
        world.input(Input::Stop);
        while world.work() {}
        prop_assert_eq!((world.phase(), world.current, world.deadline), (Phase::Stopped, None, None));
    }

    #[test]
    fn equal_seeds_and_inputs_give_equal_outputs(
        strategy in strategy(), seed: u64, lazy: bool, steps in prop::collection::vec(step(), 0..80),
    ) {
        let (a, b) = (run(strategy, seed, lazy, &steps)?, run(strategy, seed, lazy, &steps)?);
        prop_assert_eq!(a.log, b.log);
    }
}

/// What looks like a list and is no whole one, and what is no deletion of ours.
fn half() -> impl Strategy<Value = Reply> {
    let whole = list("9", &[("b", "8"), ("c", "7")]);
    let streamed = event("ADDED", "b", "8") + &bookmark("9");
    let ends = prop::sample::select(vec![Some(End::Closed), Some(End::Broken("reset".into())), None]);
    let texts = vec![
        status(410, "Expired"),
        status(200, ""),
        r#"{"kind":"Status","status":"Success","metadata":{"resourceVersion":"9"}}"#.into(),
        r#"{"kind":"PodList","metadata":{},"items":[]}"#.into(),
        r#"{"kind":"PodList","metadata":{"resourceVersion":"9"},"items":{}}"#.into(),
        r#"{"kind":"Table","metadata":{"resourceVersion":"9"},"rows":[]}"#.into(),
        r#"{"items":null}"#.into(),
        r#"{"metadata":{"resourceVersion":"9"}}"#.into(),
        "[]".into(),
        String::new(),
        "<html>".into(),
        too_large(),
        error_event(410, "Expired"),
        page("9", "again", &[]),
        page("9", "again", &[("b", "8")]),
    ];
    prop_oneof![
        2 => (0..whole.len(), ends.clone()).prop_map(move |(cut, end)| Reply::Good(whole[..cut].into(), end)),
        2 => (0..=streamed.len(), ends.clone()).prop_map(move |(cut, end)| Reply::Good(streamed[..cut].into(), end)),
        4 => (prop::sample::select(texts.clone()), ends).prop_map(|(text, end)| Reply::Good(text, end)),
        2 => (prop::sample::select(vec![400u16, 404, 410, 429, 500, 504]), prop::sample::select(texts))
            .prop_map(|(code, text)| Reply::Failing(code, text, None)),
        1 => Just(Reply::Broken),
    ]
}

proptest! {
    /// I5: whatever breaks off, lies or fails, an object goes by its deletion or by a whole list, and by nothing else.
    #[test]
    fn nothing_but_a_whole_list_takes_an_object_away(
        strategy in strategy(), seed: u64, replies in prop::collection::vec(half(), 1..8),
    ) {
        let mut world = World::with(config_of(strategy, seed), seed);
        world.input(Input::Start);
        if world.phase() == Phase::Streaming {
            world.head(200);
            world.body(&(event("ADDED", "a", "4") + &end_marker("5")));
            world.broken();
        } else {
            world.answer(200, &list("5", &[("a", "4")]));
        }
        prop_assert_eq!(world.stored(), ["ns/a@4"]);
        let replies: Vec<_> = replies.into_iter().map(|reply| (0, reply)).collect();
        world.suffer(&replies, 40);
        prop_assert!(world.stored().contains(&"ns/a@4".to_string()), "{:?}", world.stored());
        // Each failure was dealt with: something is being done.
        assert_alive(&world)?;
    }
}

/// A server with a history: it lists, streams and watches as a good one does, and can be made to fail.
#[derive(Default)]
struct Server {
    version: u64,
    /// Uid and version by name.
    live: BTreeMap<u8, (u64, u64)>,
    history: Vec<(u64, String)>,
    /// Versions before this are gone.
    compacted: u64,
    /// The request that was answered last, and the version up to which it was.
    open: Option<(RequestId, u64)>,
}

fn pod(name: u8, uid: u64, version: u64) -> String {
    format!(r#"{{"metadata":{{"namespace":"ns","name":"p{name}","uid":"u{uid}","resourceVersion":"{version}"}}}}"#)
}

impl Server {
    fn new() -> Self {
        Server { version: 10, ..Server::default() }
    }

    fn change(&mut self, name: u8, delete: bool) {
        self.version += 1;
        let version = self.version;
        let (kind, uid) = match (self.live.get(&name).map(|(uid, _)| *uid), delete) {
            (None, true) => return,
            (None, false) => ("ADDED", version),
            (Some(uid), false) => ("MODIFIED", uid),
            (Some(uid), true) => ("DELETED", uid),
        };
        if delete {
            self.live.remove(&name);
        } else {
            self.live.insert(name, (uid, version));
        }
        let object = pod(name, uid, version);
        self.history.push((version, format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")));
    }

    /// Answers the request in flight, or sends up to `most` events on the watch that is open.
    fn serve(&mut self, world: &mut World, most: usize) {
        let Some(id) = world.current else { return };
        if self.open.is_none_or(|(open, _)| open != id) {
            let request = world.last.clone().expect("one is in flight");
            let items = self.live.iter().map(|(name, (uid, version))| pod(*name, *uid, *version));
            if request.query_value("watch").is_none() {
                let items: Vec<_> = items.collect();
                let body = format!(
                    r#"{{"kind":"PodList","metadata":{{"resourceVersion":"{}"}},"items":[{}]}}"#,
                    self.version,
                    items.join(",")
                );
                world.answer(200, &body);
                return;
            }
            if request.query_value("sendInitialEvents").is_some() {
                let events: String = items.map(|item| format!("{{\"type\":\"ADDED\",\"object\":{item}}}\n")).collect();
                self.open = Some((id, self.version));
                world.head(200);
                world.body(&(events + &end_marker(&self.version.to_string())));
                return;
            }
            let from: u64 = request.query_value("resourceVersion").expect("a watch has one").parse().expect("a number");
            if from < self.compacted {
                world.answer(410, &status(410, "Expired"));
                return;
            }
            self.open = Some((id, from));
            world.head(200);
        }
        let (_, sent) = self.open.expect("it is open");
        for (version, event) in self.history.iter().filter(|(version, _)| *version > sent).take(most) {
            if world.current == Some(id) {
                self.open = Some((id, *version));
                world.body(event);
            }
        }
    }

    fn is_quiet(&self, world: &World) -> bool {
        let newest = self.history.last().map_or(0, |(version, _)| *version);
        world.current.is_some() && self.open.is_some_and(|(id, sent)| world.current == Some(id) && sent >= newest)
    }
}

#[derive(Clone, Debug)]
enum Act {
    Change(u8, bool),
    Serve(usize),
    Compact,
    Break,
    Expire,
    Sleep,
    Pass(u64),
    Work(usize),
    AddHandler(u64, usize, bool),
    RemoveHandler(u64),
    Deliver(u64, usize),
    Refresh,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        10 => (0u8..5, prop::bool::weighted(0.35)).prop_map(|(name, delete)| Act::Change(name, delete)),
        8 => (0usize..4).prop_map(Act::Serve),
        1 => Just(Act::Compact),
        1 => Just(Act::Break),
        1 => Just(Act::Expire),
        3 => Just(Act::Sleep),
        1 => (0u64..2_000).prop_map(Act::Pass),
        8 => (1usize..4).prop_map(Act::Work),
        2 => (0u64..4, 1usize..5, any::<bool>()).prop_map(|(id, limit, resync)| Act::AddHandler(id, limit, resync)),
        1 => (0u64..4).prop_map(Act::RemoveHandler),
        4 => (0u64..4, 0usize..6).prop_map(|(id, most)| Act::Deliver(id, most)),
        1 => Just(Act::Refresh),
    ]
}

fn perform(world: &mut World, server: &mut Server, act: &Act) {
    match act {
        Act::Change(name, delete) => server.change(*name, *delete),
        Act::Serve(most) => server.serve(world, *most),
        Act::Compact => server.compacted = server.version,
        Act::Break => {
            if world.current.is_some() {
                world.broken();
            }
        }
        Act::Expire => {
            if world.phase() == Phase::Watching {
                world.body(&error_event(410, "Expired"));
            }
        }
        Act::Sleep => {
            if let (None, Some(deadline)) = (world.current, world.deadline) {
                world.now = deadline.at;
                world.input(Input::Tick);
            }
        }
        Act::Pass(millis) => world.pass(*millis),
        Act::Work(most) => {
            for _ in 0..*most {
                world.work();
            }
        }
        Act::AddHandler(id, limit, resync) => {
            if !world.listeners.contains_key(id) {
                let period = resync.then_some(Duration::from_secs(1));
                world.add_handler_with(*id, period, Overflow::Coalesce { limit: *limit });
            }
        }
        Act::RemoveHandler(id) => {
            if world.listeners.contains_key(id) {
                world.remove_handler(*id);
            }
        }
        Act::Deliver(id, most) => {
            if world.listeners.contains_key(id) {
                world.deliver(*id, *most);
            }
        }
        Act::Refresh => world.input(Input::Refresh),
    }
}

proptest! {
    /// I11, I12: every chain is legal on the way, and at rest every handler, the store and the server agree.
    #[test]
    fn at_rest_every_handler_the_store_and_the_server_agree(
        strategy in strategy(), seed: u64, lazy: bool, acts in prop::collection::vec(act(), 0..250),
        earlier_run in prop::option::of(prop::collection::vec((0u8..5, any::<bool>()), 1..20)),
    ) {
        let mut server = Server::new();
        // Half of what happened before the start was seen by an earlier run, whose state this one is given.
        let mut world = match earlier_run {
            Some(changes) => {
                let (seen, missed) = changes.split_at(changes.len() / 2);
                seen.iter().for_each(|(name, delete)| server.change(*name, *delete));
                let saved: Vec<String> =
                    server.live.iter().map(|(name, (uid, version))| pod(*name, *uid, *version)).collect();
                let version = server.version.to_string();
                missed.iter().for_each(|(name, delete)| server.change(*name, *delete));
                World::preloaded_with(config(strategy), seed, &saved, &version)
            }
            None => World::with(config(strategy), seed),
        };
        world.lazy = lazy;
        world.input(Input::Start);
        for act in &acts {
            perform(&mut world, &mut server, act);
        }
        for _ in 0..200 {
            while world.work() {}
            if server.is_quiet(&world) {
                break;
            }
            if world.current.is_some() {
                server.serve(&mut world, usize::MAX);
            } else {
                perform(&mut world, &mut server, &Act::Sleep);
            }
        }
        while world.work() {}
        prop_assert!(server.is_quiet(&world) && world.informer.has_synced(), "it comes to rest");
        let want: BTreeMap<String, String> =
            server.live.iter().map(|(name, (_, version))| (format!("ns/p{name}"), version.to_string())).collect();
        let stored: BTreeMap<String, String> =
            world.store.iter().map(|object| (object.key().to_string(), object.version().to_string())).collect();
        prop_assert_eq!(&stored, &want);
        let ids: Vec<u64> = world.listeners.keys().copied().collect();
        for id in ids {
            world.deliver(id, usize::MAX);
            let listener = &world.listeners[&id];
            prop_assert!(listener.attached && listener.synced);
            prop_assert_eq!(&listener.view, &want, "handler {}", id);
        }
    }
}

/// The walk above once ran for ever here: each watch is silent, and so is the answer to each probe.
#[test]
fn a_server_that_says_nothing_at_all_is_given_up_again_and_again() {
    let mut world = World::with(config_of(ListStrategy::Paged, 1), 1);
    world.input(Input::Start);
    world.answer(200, &list("5", &[("a", "4")]));
    world.suffer(&[(0, Reply::Good(String::new(), None))], 40);
    assert_eq!((world.stored().join(" "), world.attempts.len()), ("ns/a@4".into(), 40));
}
