//! Random writes against a naive model: lists equal it, watches replay it, and equal seeds give equal bytes.

use crate::support::*;
use informer_core::object::Key;
use informer_sim::{Config, HttpRequest, Input, Output, Server};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Op {
    Put {
        key: usize,
        label: u8,
        data: u8,
    },
    Delete {
        key: usize,
    },
    /// A write to another resource, which moves the version.
    Elsewhere,
}

const KEYS: [&str; 6] = ["m/a", "m/b", "n/a", "n/b", "n/c", "n-1/a"];

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..KEYS.len(), 0..3_u8, 0..3_u8).prop_map(|(key, label, data)| Op::Put { key, label, data }),
        3 => (0..KEYS.len()).prop_map(|key| Op::Delete { key }),
        1 => Just(Op::Elsewhere),
    ]
}

/// What an object is to the model: label, data, version.
type State = BTreeMap<&'static str, (u8, u8, u64)>;

/// The state after each version, and the version itself.
fn run(server: &mut Server, ops: &[Op]) -> Vec<(u64, State)> {
    let mut states = vec![(server.version(), State::new())];
    for (at, op) in ops.iter().enumerate() {
        let mut state = states.last().unwrap().1.clone();
        match op {
            Op::Put { key, label, data } => {
                let key = KEYS[*key];
                let (namespace, name) = key.split_once('/').unwrap();
                let json = format!(
                    r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}","labels":{{"l":"{label}"}}}},"data":{{"d":"{data}"}}}}"#
                );
                let version = server.put(&configmaps(), &json).unwrap();
                if state.get(key).is_none_or(|(l, d, _)| (l, d) != (label, data)) {
                    assert_eq!(version, server.version());
                    state.insert(key, (*label, *data, version));
                }
            }
            Op::Delete { key } => {
                let gone = server.delete(&configmaps(), &KEYS[*key].parse::<Key>().unwrap());
                assert_eq!(gone.is_some(), state.remove(KEYS[*key]).is_some());
            }
            Op::Elsewhere => {
                let json = format!(r#"{{"metadata":{{"name":"p{at}","namespace":"n"}}}}"#);
                server.put(&pods(), &json).unwrap();
            }
        }
        if server.version() > states.last().unwrap().0 {
            states.push((server.version(), state));
        }
    }
    states
}

/// What a watch of `chosen` must show between the states, by the rule of C9.
fn expected(states: &[(u64, State)], from: u64, chosen: impl Fn(&str, u8) -> bool) -> Vec<String> {
    let mut events = Vec::new();
    for pair in states.windows(2) {
        let [(_, before), (version, after)] = pair else { unreachable!("windows of two") };
        if *version <= from {
            continue;
        }
        for key in KEYS {
            let (old, new) = (before.get(key), after.get(key));
            if old == new {
                continue;
            }
            let name = key.split_once('/').unwrap().1;
            let (was, is) = (old.filter(|o| chosen(key, o.0)), new.filter(|n| chosen(key, n.0)));
            match (was, is) {
                (None, Some(_)) => events.push(format!("ADDED {name}@{version}")),
                (Some(_), Some(_)) => events.push(format!("MODIFIED {name}@{version}")),
                (Some(_), None) => events.push(format!("DELETED {name}@{version}")),
                (None, None) => {}
            }
        }
    }
    events
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lists_at_every_version_equal_the_model(ops in prop::collection::vec(op(), 1..60)) {
        let mut world = World::new(Config::default());
        let states = run(&mut world.server, &ops);
        for (version, state) in &states {
            let list = world.get(&format!("/api/v1/configmaps?resourceVersion={version}&resourceVersionMatch=Exact"));
            let items = list.json()["items"].as_array().unwrap().iter().map(|item| {
                let meta = &item["metadata"];
                (
                    format!("{}/{}", meta["namespace"].as_str().unwrap(), meta["name"].as_str().unwrap()),
                    meta["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap(),
                )
            }).collect::<Vec<_>>();
            let mut wanted: Vec<_> = state.iter().map(|(key, (.., version))| ((*key).to_owned(), *version)).collect();
            wanted.sort();
            prop_assert_eq!(&items, &wanted);
        }
    }

    #[test]
    fn a_watch_replays_exactly_what_came_after_its_version(
        ops in prop::collection::vec(op(), 1..60),
        live in prop::collection::vec(op(), 0..30),
        from in 0_usize..60,
        label in 0..3_u8,
    ) {
        let mut world = World::new(Config::default());
        let mut states = run(&mut world.server, &ops);
        let from = states[from % states.len()].0;
        let all = world.open(HttpRequest::get(&format!("/api/v1/configmaps?watch=1&resourceVersion={from}")));
        let some = world.watch(&format!("resourceVersion={from}&labelSelector=l%3D{label}"));
        let more = {
            // Go on from where the model is.
            let mut all_ops = ops.clone();
            all_ops.extend(live.iter().cloned());
            let mut again = World::new(Config::default());
            let full = run(&mut again.server, &all_ops);
            run_rest(&mut world.server, &live, ops.len());
            full
        };
        world.drain();
        states = more;
        prop_assert_eq!(states.last().unwrap().0, world.server.version());
        prop_assert_eq!(world.answer(all).events(), expected(&states, from, |_, _| true));
        let chosen = |key: &str, l: u8| key.starts_with("n/") && l == label;
        prop_assert_eq!(world.answer(some).events(), expected(&states, from, chosen));
    }

    #[test]
    fn pages_under_writes_equal_the_list_they_began_with(
        ops in prop::collection::vec(op(), 1..40),
        between in prop::collection::vec(op(), 0..8),
        limit in 1_usize..4,
        history in 1_usize..20,
    ) {
        let mut world = World::new(Config { history, ..Config::default() });
        run(&mut world.server, &ops);
        let whole = world.get("/api/v1/configmaps");
        let mut items = Vec::new();
        let mut target = format!("/api/v1/configmaps?limit={limit}");
        let mut round = 0;
        loop {
            let page = world.get(&target);
            prop_assert_eq!(page.status, 200, "{}", page.text());
            prop_assert_eq!(page.meta("resourceVersion"), whole.meta("resourceVersion"));
            items.extend(page.json()["items"].as_array().unwrap().clone());
            let Some(token) = page.meta("continue").as_str().map(str::to_owned) else { break };
            target = format!("/api/v1/configmaps?limit={limit}&continue={token}");
            round += 1;
            run_rest(&mut world.server, &between, round * 100);
        }
        let whole = whole.json();
        prop_assert_eq!(&items, whole["items"].as_array().unwrap());
    }

    #[test]
    fn equal_seeds_and_inputs_give_equal_bytes(ops in prop::collection::vec(op(), 1..40), seed in any::<u64>()) {
        let trace = |seed| {
            let mut world = World::new(Config { seed, ..Config::default() });
            world.watch("resourceVersion=1&allowWatchBookmarks=true");
            run(&mut world.server, &ops);
            world.drain();
            world.pass(secs(70));
            world.open(HttpRequest::new("POST", CM).body(r#"{"metadata":{"generateName":"g-"}}"#));
            world.get("/api/v1/configmaps?limit=3");
            format!("{:?} {:?}", world.answers, world.deadline)
        };
        prop_assert_eq!(trace(seed), trace(seed));
        prop_assert_ne!(trace(seed), trace(seed ^ 1));
    }
}

/// The same writes on a server whose model is kept elsewhere; `offset` keeps the names of pods apart.
fn run_rest(server: &mut Server, ops: &[Op], offset: usize) {
    for (at, op) in ops.iter().enumerate() {
        match op {
            Op::Put { key, label, data } => {
                let (namespace, name) = KEYS[*key].split_once('/').unwrap();
                let json = format!(
                    r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}","labels":{{"l":"{label}"}}}},"data":{{"d":"{data}"}}}}"#
                );
                server.put(&configmaps(), &json).unwrap();
            }
            Op::Delete { key } => {
                server.delete(&configmaps(), &KEYS[*key].parse::<Key>().unwrap());
            }
            Op::Elsewhere => {
                let json = format!(r#"{{"metadata":{{"name":"p{}","namespace":"n"}}}}"#, at + offset);
                server.put(&pods(), &json).unwrap();
            }
        }
    }
}

/// Whatever the bytes are, the machine answers and stays whole.
#[test]
fn odd_requests_never_break_it() {
    let mut world = World::with_five();
    let odd =
        ["", "/", "//", "/api", "/apis//v1/x", "/api/v1/%zz", "/api/v1/namespaces", "/api/v1/namespaces/n", "a?b"];
    for path in odd {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", ""] {
            for body in [&b"\xff\xfe"[..], b"null", b"{\"metadata\":null}", b"{\"metadata\":{\"name\":7}}"] {
                let answer = world.ask(HttpRequest::new(method, path).body(body));
                assert!(answer.status >= 400, "{method} {path}");
            }
        }
    }
    for body in [&b"\xff\xfe"[..], b"null", b"{\"metadata\":null}", b"{\"metadata\":{\"name\":7}}", b"{}"] {
        let answer = world.ask(HttpRequest::new("POST", CM).body(body));
        assert!((400..=422).contains(&answer.status), "{}", answer.text());
    }
    world.server.handle(world.now, Input::Closed { id: informer_sim::CallId(u64::MAX) });
    world.server.handle(world.now, Input::Resume { id: informer_sim::CallId(u64::MAX) });
    assert!(matches!(world.server.poll_output(), Output::Wait(None)));
}
