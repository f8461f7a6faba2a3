//! The rules that every outcome keeps, whatever its scenario expects.
//!
//! - **Automaton** (I11): of each handler and key, absent –add→ present –update*→ present –delete→ absent.
//! - **Chain** (I12, I17): the old version is what this handler saw last of the key; an update keeps the uid; a resync
//!   brings nothing new.
//! - **View** (I3, I13): a handler that is neither removed nor busy at the end has seen exactly the store.
//! - One `synced` at most, nothing after `removed` (I20); the namespace index equals a fresh computation (I7).
//! - Every request goes to the collection that the scenario names (B063).
//! - No request asks for what it cannot mean (I29): a continue token beside a version or a match (W8), an exact version,
//!   be it by name or by a limit beside a version (LIST-5, LIST-7), a watch that starts from no version or pages
//!   (WATCH-1, WATCH-2), initial events without their bookmark and match (WATCH-5, WATCH-6). Each watch has a
//!   `timeoutSeconds` within its bounds.
//!
//! ```
//! use informer_conformance::invariants::invariants;
//! use informer_conformance::outcome::{Outcome, VIRTUAL};
//! use informer_conformance::scenario::Scenario;
//!
//! let scenario = Scenario::from_str(r#"{
//!     "name": "n", "seed": 1, "runForMs": 1000, "server": [],
//!     "resource": {"group": "", "version": "v1", "resource": "pods", "kind": "Pod", "namespaced": true}
//! }"#).unwrap();
//! let mut outcome = Outcome::new("n", VIRTUAL);
//! outcome.handlers.insert("h".into(), vec![]);
//! outcome.store.objects.insert("ns/a".into(), "5".into());
//! assert_eq!(invariants(&outcome, &scenario).len(), 1, "the handler never heard of ns/a");
//! ```

use crate::expect::{REAL_TIME_GRACE_MS, cut, sorted};
use crate::outcome::{Cause, Event, Outcome, Request, Store, VIRTUAL, What, json};
use crate::scenario::{HandlerSpec, Scenario, Verb};
use std::collections::BTreeMap;

/// All breaches of the rules in `outcome`, in words; none means that it keeps them.
pub fn invariants(outcome: &Outcome, scenario: &Scenario) -> Vec<String> {
    let mut out = Vec::new();
    for (name, events) in &outcome.handlers {
        let view = chains(name, events, &mut out);
        let may_lag = |handler| is_removed(events) || is_stalled(handler, events, outcome, scenario);
        if scenario.handler(name).is_some_and(|handler| !may_lag(handler)) {
            same_view(name, &view, &outcome.store, &mut out);
        }
    }
    let home = collection(scenario);
    for request in &outcome.requests {
        if request.path != home {
            out.push(format!(
                "invariant: {} at {}ms goes to {:?}, not to {home:?}",
                request.verb, request.at_ms, request.path
            ));
        }
        honest(request, &mut out);
        if request.verb == Verb::Watch {
            bounded(request, scenario.informer.min_watch_timeout_ms, &mut out);
        }
    }
    namespace_index(&outcome.store, &mut out);
    out
}

/// What a handler holds of a key: version and uid.
type View<'a> = BTreeMap<&'a str, (&'a str, &'a str)>;

/// Automaton and chain of one handler; what it holds in the end.
fn chains<'a>(name: &str, events: &'a [Event], out: &mut Vec<String>) -> View<'a> {
    let mut view = View::new();
    let mut removed = false;
    let mut synced = 0;
    for event in events {
        let mut breach = |what: String| out.push(format!("invariant: handler {name}, {event}: {what}"));
        if removed {
            breach("event after removal".into());
        }
        let (kind, change) = match &event.what {
            What::Synced => {
                synced += 1;
                continue;
            }
            What::Removed => {
                removed = true;
                continue;
            }
            What::Add(change) | What::Update(change) | What::Delete(change) => (event.kind(), change),
        };
        let has = view.get(change.key.as_str()).copied();
        let is_add = matches!(event.what, What::Add(_));
        match has {
            Some(_) if is_add => breach("add of a key that this handler already has".into()),
            None if !is_add => breach(format!("{kind} of a key that this handler does not have")),
            Some((version, uid)) => {
                if let Some(old) = change.old_resource_version.as_deref().filter(|old| *old != version) {
                    breach(format!("oldResourceVersion {old:?}, last seen {version:?}"));
                }
                if matches!(event.what, What::Update(_)) {
                    if change.uid != uid {
                        breach(format!("update across a uid change {uid:?} -> {:?}", change.uid));
                    }
                    if change.cause == Cause::Resync && change.resource_version != version {
                        breach("resync brought another version".into());
                    }
                }
            }
            None => {}
        }
        if matches!(event.what, What::Delete(_)) {
            view.remove(change.key.as_str());
        } else {
            view.insert(&change.key, (&change.resource_version, &change.uid));
        }
    }
    if synced > 1 {
        out.push(format!("invariant: handler {name}: synced twice"));
    }
    view
}

fn is_removed(events: &[Event]) -> bool {
    events.iter().any(|event| event.what == What::Removed)
}

/// True if `handler` may lag behind the store at the end: a call of it still runs then, or its removal is under way,
/// or it was not there yet. What waits behind a running call is dropped by a stop, so a stop counts as the end.
fn is_stalled(handler: &HandlerSpec, events: &[Event], outcome: &Outcome, scenario: &Scenario) -> bool {
    let end = scenario.stop_at_ms().unwrap_or(u64::MAX).min(scenario.run_for_ms);
    // On a real clock a call may have started a little late and end after the end.
    let grace = if outcome.runtime == VIRTUAL { 0 } else { REAL_TIME_GRACE_MS };
    let busy_until = events.iter().rfind(|event| event.change().is_some()).map_or(0, |last| {
        if handler.stall_ms == 0 { 0 } else { last.at_ms.saturating_add(handler.stall_ms).saturating_add(grace) }
    });
    handler.add_at_ms > end || handler.remove_at_ms.is_some_and(|at| at <= end) || busy_until > end
}

fn same_view(name: &str, view: &View<'_>, store: &Store, out: &mut Vec<String>) {
    let seen: BTreeMap<&str, &str> = view.iter().map(|(key, (version, _))| (*key, *version)).collect();
    let held: BTreeMap<&str, &str> =
        store.objects.iter().map(|(key, version)| (key.as_str(), version.as_str())).collect();
    if seen != held {
        let (seen, held) = (cut(json(&seen)), cut(json(&held)));
        out.push(format!("invariant: handler {name}: its view {seen} differs from the store {held}"));
    }
}

/// The path of the collection, put together here and not by the code under test.
fn collection(scenario: &Scenario) -> String {
    let resource = &scenario.resource;
    let base = match resource.group.as_str() {
        "" => format!("/api/{}", resource.version),
        group => format!("/apis/{group}/{}", resource.version),
    };
    match &scenario.informer.namespace {
        Some(namespace) => format!("{base}/namespaces/{namespace}/{}", resource.resource),
        None => format!("{base}/{}", resource.resource),
    }
}

fn honest(request: &Request, out: &mut Vec<String>) {
    let value = |name: &str| request.query.get(name).map_or("", String::as_str);
    let has = |name: &str| !value(name).is_empty();
    // "0" names no state, it asks for any.
    let names_version = !matches!(value("resourceVersion"), "" | "0");
    let streams = has("sendInitialEvents");
    let mut breach = |what: &str| out.push(format!("invariant: {} at {}ms {what}", request.verb, request.at_ms));
    if value("resourceVersionMatch") == "Exact" {
        breach("asks for an exact version");
    }
    match request.verb {
        Verb::List => {
            if has("continue") && (has("resourceVersion") || has("resourceVersionMatch")) {
                breach("carries continue and resourceVersion");
            }
            if has("limit") && names_version && !has("resourceVersionMatch") {
                breach("pairs a version with a limit, which means exactly that version");
            }
        }
        Verb::Watch => {
            if has("limit") || has("continue") {
                breach("pages, which only a list can");
            }
            if !streams && !names_version {
                breach("starts from no version");
            }
            if !streams && has("resourceVersionMatch") {
                breach("carries resourceVersionMatch without initial events");
            }
            if streams
                && (value("sendInitialEvents"), value("resourceVersionMatch"), value("allowWatchBookmarks"))
                    != ("true", "NotOlderThan", "true")
            {
                breach("asks for initial events without their match and bookmarks");
            }
        }
    }
}

/// A watch tells the server when to end it: in [min, 2·min], so that a fleet does not come back at once.
fn bounded(watch: &Request, min_ms: u64, out: &mut Vec<String>) {
    let least = min_ms.div_ceil(1_000);
    let most = (min_ms / 500).max(least).max(1);
    let told = watch.query.get("timeoutSeconds");
    if !told.and_then(|told| told.parse().ok()).is_some_and(|told: u64| (least..=most).contains(&told)) {
        out.push(format!(
            "invariant: watch at {}ms has timeoutSeconds {told:?}, which is not in [{least}, {most}]",
            watch.at_ms
        ));
    }
}

fn namespace_index(store: &Store, out: &mut Vec<String>) {
    let Some(index) = store.indexes.get("namespace") else { return };
    let mut fresh = BTreeMap::<String, Vec<String>>::new();
    for key in store.objects.keys() {
        let namespace = key.split_once('/').map_or("", |(namespace, _)| namespace);
        fresh.entry(namespace.to_owned()).or_default().push(key.clone());
    }
    if sorted(index) != sorted(&fresh) {
        out.push(format!("invariant: index namespace differs from a fresh computation: {}", cut(json(index))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{self, change};

    fn scenario(handler: &str, commands: &str) -> Scenario {
        let members = format!(r#""runForMs": 1000, "server": [], "handlers": [{handler}], "commands": {commands}"#);
        fixtures::scenario(&members).unwrap()
    }

    const PODS: &str = "/api/v1/pods";

    fn good() -> Outcome {
        let mut outcome = Outcome::new("n", VIRTUAL);
        let events = vec![
            Event { at_ms: 1, what: What::Add(change("ns/a", "5", None)) },
            Event { at_ms: 1, what: What::Synced },
            Event { at_ms: 1, what: What::Update(change("ns/a", "6", Some("5"))) },
        ];
        outcome.handlers.insert("h".into(), events);
        outcome.store = Store {
            resource_version: "6".into(),
            objects: [("ns/a".into(), "6".into())].into(),
            indexes: [("namespace".into(), [("ns".into(), vec!["ns/a".into()])].into())].into(),
        };
        let query = [("continue".to_owned(), "t".to_owned())];
        outcome.requests.push(Request { connection: 1, ..Request::new(0, PODS, &query, &[]) });
        outcome
    }

    #[test]
    fn a_legal_outcome_keeps_every_rule() {
        assert_eq!(invariants(&good(), &scenario(r#"{"name": "h"}"#, "[]")), [""; 0]);
    }

    #[test]
    fn a_chain_without_old_versions_is_taken_as_it_is() {
        let mut outcome = good();
        outcome.handlers.get_mut("h").unwrap()[2].what = What::Update(change("ns/a", "6", None));
        assert_eq!(invariants(&outcome, &scenario(r#"{"name": "h"}"#, "[]")), [""; 0]);
    }

    #[test]
    fn every_breach_is_named() {
        type Breach = fn(&mut Outcome);
        fn request(watch: &str, query: &str) -> Request {
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            let pairs = pairs.chain((!watch.is_empty()).then_some(("watch", watch)));
            let query: Vec<_> = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            Request { connection: 1, ..Request::new(0, PODS, &query, &[]) }
        }
        fn list(query: &str) -> Request {
            request("", query)
        }
        fn watch(query: &str) -> Request {
            request("true", query)
        }
        fn h(outcome: &mut Outcome) -> &mut Vec<Event> {
            outcome.handlers.get_mut("h").unwrap()
        }
        let breaches: [(Breach, &str); 23] = [
            (|o| h(o).push(Event { at_ms: 2, what: What::Add(change("ns/a", "9", None)) }), "already has"),
            (|o| h(o).push(Event { at_ms: 2, what: What::Delete(change("z", "1", None)) }), "delete of a key that"),
            (|o| h(o).push(Event { at_ms: 2, what: What::Update(change("z", "1", None)) }), "update of a key that"),
            (
                |o| {
                    let mut other = change("ns/a", "6", Some("5"));
                    other.uid = "other".into();
                    h(o)[2].what = What::Update(other);
                },
                "across a uid change",
            ),
            (|o| h(o)[2].what = What::Update(change("ns/a", "6", Some("1"))), "last seen \"5\""),
            (
                |o| {
                    let mut resync = change("ns/a", "6", Some("5"));
                    resync.cause = Cause::Resync;
                    h(o)[2].what = What::Update(resync);
                },
                "resync brought another version",
            ),
            (|o| h(o).insert(0, Event { at_ms: 0, what: What::Removed }), "event after removal"),
            (|o| h(o).push(Event { at_ms: 2, what: What::Synced }), "synced twice"),
            (
                |o| drop(o.requests[0].query.insert("resourceVersion".into(), "5".into())),
                "continue and resourceVersion",
            ),
            (
                |o| drop(o.requests[0].query.insert("resourceVersionMatch".into(), "Exact".into())),
                "asks for an exact version",
            ),
            (
                |o| drop(o.requests[0].query.insert("resourceVersionMatch".into(), "NotOlderThan".into())),
                "continue and resourceVersion",
            ),
            (|o| o.requests[0].path = "/api/v1/namespaces/ns/pods".into(), "not to \"/api/v1/pods\""),
            (|o| o.requests[0] = list("limit=5&resourceVersion=5"), "exactly that version"),
            (|o| o.requests[0] = watch("resourceVersion=5&limit=5"), "only a list can"),
            (|o| o.requests[0] = watch("resourceVersion=5&timeoutSeconds=601"), "not in [300, 600]"),
            (|o| o.requests[0] = watch(""), "starts from no version"),
            (|o| o.requests[0] = watch("resourceVersion=0"), "starts from no version"),
            (
                |o| o.requests[0] = watch("resourceVersion=5&resourceVersionMatch=NotOlderThan"),
                "without initial events",
            ),
            (
                |o| o.requests[0] = watch("sendInitialEvents=true&resourceVersionMatch=NotOlderThan"),
                "match and bookmarks",
            ),
            (|o| drop(o.store.objects.insert("q/b".into(), "1".into())), "index namespace differs"),
            (|o| drop(o.store.objects.insert("ns/a".into(), "7".into())), "differs from the store"),
            (|o| drop(h(o).pop()), "differs from the store"),
            (|o| o.store.objects.clear(), "differs from the store"),
        ];
        for (breach, words) in breaches {
            let mut outcome = good();
            breach(&mut outcome);
            let found = invariants(&outcome, &scenario(r#"{"name": "h"}"#, "[]")).join("\n");
            assert!(found.contains(words), "{words}: {found}");
        }
    }

    /// A handler that missed the last update, under a script that may excuse it.
    fn lagging(handler: &str, commands: &str, runtime: &str) -> bool {
        let mut outcome = good();
        outcome.runtime = runtime.into();
        outcome.handlers.get_mut("h").unwrap().pop();
        outcome.handlers.get_mut("h").unwrap()[0].at_ms = 400;
        !invariants(&outcome, &scenario(handler, commands)).is_empty()
    }

    #[test]
    fn only_a_handler_that_is_busy_or_away_at_the_end_may_lag() {
        assert!(lagging(r#"{"name": "h"}"#, "[]", VIRTUAL));
        assert!(!lagging(r#"{"name": "h", "stallMs": 601}"#, "[]", VIRTUAL));
        assert!(lagging(r#"{"name": "h", "stallMs": 600}"#, "[]", VIRTUAL));
        assert!(!lagging(r#"{"name": "h", "stallMs": 600}"#, "[]", "tokio"));
        assert!(!lagging(r#"{"name": "h", "stallMs": 50}"#, r#"[{"atMs": 420, "do": "stop"}]"#, VIRTUAL));
        assert!(!lagging(r#"{"name": "h", "removeAtMs": 900}"#, "[]", VIRTUAL));
        assert!(lagging(r#"{"name": "h", "removeAtMs": 1001}"#, "[]", VIRTUAL));
    }

    #[test]
    fn every_collection_has_its_path() {
        let path = |resource: &str, informer: &str| {
            let text = format!(
                r#"{{"name": "n", "seed": 1, "runForMs": 1000, "server": [], "resource": {{{resource}}}, "informer": {{{informer}}}}}"#
            );
            collection(&Scenario::from_str(&text).unwrap())
        };
        let nodes = r#""group": "", "version": "v1", "resource": "nodes", "kind": "Node", "namespaced": false"#;
        let widgets = r#""group": "example.com", "version": "v1beta1", "resource": "widgets", "kind": "Widget", "namespaced": true"#;
        assert_eq!(path(nodes, ""), "/api/v1/nodes");
        assert_eq!(path(widgets, ""), "/apis/example.com/v1beta1/widgets");
        assert_eq!(path(widgets, r#""namespace": "lab""#), "/apis/example.com/v1beta1/namespaces/lab/widgets");
    }
}
