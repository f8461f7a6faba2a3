//! What a scenario expects, and the differences between that and an outcome.
//!
//! How the words are read:
//!
//! - `requests` stand for the first requests, one to one; later ones are free (`requestCount` bounds them). The gap of
//!   the first counts from time 0. A query or header value of `null` is one that is absent or empty.
//! - `requestCount` counts all requests by verb; a streaming list is a watch.
//! - `inOrder` and `perKey` are whole sequences. `perKey` looks at add, update and delete only, and a key that it does
//!   not name must have none.
//! - `errors` are found in this order, others may lie between; `[]` is no error at all.
//! - A request that the script had no answer for always fails.
//!
//! The rules that hold whatever a scenario expects are in [`invariants`](crate::invariants).
//!
//! ```
//! use informer_conformance::expect::compare;
//! use informer_conformance::outcome::{Outcome, VIRTUAL};
//! use informer_conformance::scenario::Scenario;
//!
//! let scenario = Scenario::from_str(r#"{
//!     "name": "n", "seed": 1, "runForMs": 1000, "server": [],
//!     "resource": {"group": "", "version": "v1", "resource": "pods", "kind": "Pod", "namespaced": true},
//!     "expect": {"requestCount": {"list": 1}}
//! }"#).unwrap();
//! let nothing_happened = Outcome::new("n", VIRTUAL);
//! assert_eq!(compare(&scenario, &nothing_happened, 0), ["requestCount.list: want 1, got 0"]);
//! ```

use crate::form::{Bounds, pair, present};
use crate::outcome::{Cause, Change, ErrorEntry, ErrorPhase, Event, EventType, Outcome, Phase, Request, Store, json};
use crate::scenario::{Scenario, Verb};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

/// How much later than in virtual time a thing may happen on a real clock, in ms: the scheduling of a busy machine.
pub const REAL_TIME_GRACE_MS: u64 = 250;

/// What must be seen. Every part is optional.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct Expect {
    /// The first requests.
    #[serde(default)]
    pub requests: Vec<RequestMatcher>,
    /// How many requests of each verb.
    #[serde(default)]
    pub request_count: RequestCount,
    /// What the handlers named here got.
    #[serde(default)]
    pub handlers: BTreeMap<String, HandlerExpect>,
    /// The store at the end.
    #[serde(default)]
    pub store: StoreExpect,
    /// Where the machine is at the end.
    #[serde(default, deserialize_with = "present")]
    pub phase: Option<Phase>,
    /// Bound from the `stop` command to the completed stop, in ms.
    #[serde(default, deserialize_with = "present")]
    pub stopped_within_ms: Option<u64>,
    /// Errors in this order, with others between; an empty list means no error at all.
    #[serde(default, deserialize_with = "present")]
    pub errors: Option<Vec<ErrorMatcher>>,
    /// How many errors.
    #[serde(default, deserialize_with = "present")]
    pub error_count: Option<Bounds>,
    /// What client-go does with the same script.
    #[serde(default, deserialize_with = "present")]
    pub client_go: Option<ClientGo>,
}

/// How many requests of each verb.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestCount {
    /// Lists.
    #[serde(default, deserialize_with = "present")]
    pub list: Option<Bounds>,
    /// Watches, streaming lists among them.
    #[serde(default, deserialize_with = "present")]
    pub watch: Option<Bounds>,
}

/// One request that must have been sent. What is left out is free.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestMatcher {
    /// List or watch; either without it.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub verb: Option<Verb>,
    /// Query values; `None` = absent or empty.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub query: BTreeMap<String, Option<String>>,
    /// Header values, names in lower case; `None` = absent or empty.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Option<String>>,
    /// True if no earlier request used its connection.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub new_connection: bool,
    /// From the sending of the request before (0 for the first) to the sending of this one, in ms.
    #[serde(default, deserialize_with = "pair", skip_serializing_if = "Option::is_none")]
    pub gap_ms: Option<Bounds>,
}

/// What one handler got.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "HandlerForm")]
#[non_exhaustive]
pub enum HandlerExpect {
    /// The whole sequence.
    InOrder(Vec<EventMatcher>),
    /// The whole sequence of each key.
    PerKey(BTreeMap<String, Vec<EventMatcher>>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HandlerForm {
    #[serde(default, deserialize_with = "present")]
    in_order: Option<Vec<EventMatcher>>,
    #[serde(default, deserialize_with = "present")]
    per_key: Option<BTreeMap<String, Vec<EventMatcher>>>,
}

impl TryFrom<HandlerForm> for HandlerExpect {
    type Error = String;

    fn try_from(form: HandlerForm) -> Result<Self, String> {
        match (form.in_order, form.per_key) {
            (Some(events), None) => Ok(HandlerExpect::InOrder(events)),
            (None, Some(keys)) => {
                for (key, events) in &keys {
                    if let Some(kind) = events.iter().filter_map(|event| event.kind).find(|kind| !kind.is_keyed()) {
                        return Err(format!("perKey.{key}: {kind} belongs to no key"));
                    }
                }
                Ok(HandlerExpect::PerKey(keys))
            }
            (None, None) | (Some(_), Some(_)) => Err("needs exactly one of inOrder, perKey".into()),
        }
    }
}

/// A field that must be equal if the file names it, `null` included (`Some(None)`).
type Named<T> = Option<Option<T>>;

fn named<'de, D: Deserializer<'de>, T: Deserialize<'de>>(de: D) -> Result<Named<T>, D::Error> {
    Option::deserialize(de).map(Some)
}

/// One event that a handler must have got. What is left out is free.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[non_exhaustive]
pub struct EventMatcher {
    /// When, in ms.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<Bounds>,
    /// Its type.
    #[serde(rename = "type", deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub kind: Option<EventType>,
    /// Its key.
    #[serde(deserialize_with = "named", skip_serializing_if = "Option::is_none")]
    pub key: Named<String>,
    /// Uid of the delivered object.
    #[serde(deserialize_with = "named", skip_serializing_if = "Option::is_none")]
    pub uid: Named<String>,
    /// Version of the delivered object.
    #[serde(deserialize_with = "named", skip_serializing_if = "Option::is_none")]
    pub resource_version: Named<String>,
    /// Version that the handler saw last.
    #[serde(deserialize_with = "named", skip_serializing_if = "Option::is_none")]
    pub old_resource_version: Named<String>,
    /// Whether it belongs to the first complete list or to a replay.
    #[serde(deserialize_with = "named", skip_serializing_if = "Option::is_none")]
    pub initial: Named<bool>,
    /// What brought it.
    #[serde(deserialize_with = "named", skip_serializing_if = "Option::is_none")]
    pub cause: Named<Cause>,
    /// False for a delete whose last state nobody saw.
    #[serde(deserialize_with = "named", skip_serializing_if = "Option::is_none")]
    pub final_state_known: Named<bool>,
}

/// One error that must have been reported. What is left out is free.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ErrorMatcher {
    /// When, in ms.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<Bounds>,
    /// In which kind of request.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub phase: Option<ErrorPhase>,
    /// Its code.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub code: Option<u16>,
    /// Its reason.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its message, whole.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl ErrorMatcher {
    fn allows(&self, error: &ErrorEntry, grace_ms: u64) -> bool {
        self.at_ms.is_none_or(|at| at.widened(grace_ms).allow(error.at_ms))
            && self.phase.is_none_or(|phase| phase == error.phase)
            && self.code.is_none_or(|code| code == error.code)
            && self.reason.as_ref().is_none_or(|reason| *reason == error.reason)
            && self.message.as_ref().is_none_or(|message| *message == error.message)
    }
}

/// The store at the end. Each part that is named must be equal as a whole.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StoreExpect {
    /// The version that a new watch would start from.
    #[serde(default, deserialize_with = "present")]
    pub resource_version: Option<String>,
    /// Version of each key.
    #[serde(default, deserialize_with = "present")]
    pub objects: Option<BTreeMap<String, String>>,
    /// For each index named, the keys under each value, in any order.
    #[serde(default)]
    pub indexes: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

/// What client-go does with the same script.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientGo {
    /// Its recorded outcome meets the expectation too.
    Same,
    /// It does not, and this is why: a deviation that we chose.
    Differs(String),
}

impl<'de> Deserialize<'de> for ClientGo {
    fn deserialize<D: Deserializer<'de>>(de: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = ClientGo;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("\"same\" or {\"differs\": \"why\"}")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ClientGo, E> {
                match text {
                    "same" => Ok(ClientGo::Same),
                    other => Err(E::unknown_variant(other, &["same"])),
                }
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<ClientGo, A::Error> {
                #[derive(Deserialize)]
                #[serde(deny_unknown_fields)]
                struct Form {
                    differs: String,
                }
                let form = Form::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
                Ok(ClientGo::Differs(form.differs))
            }
        }
        de.deserialize_any(Visitor)
    }
}

/// All differences between what `scenario` expects and `outcome`, in words; none means that it is met.
///
/// `grace_ms` moves every upper bound of a time that much later: 0 in virtual time, [`REAL_TIME_GRACE_MS`] on a real
/// clock. Of a sequence only the first difference is named, for later ones repeat it.
pub fn compare(scenario: &Scenario, outcome: &Outcome, grace_ms: u64) -> Vec<String> {
    let expect = &scenario.expect;
    let mut out = Vec::new();
    if let Some(request) = outcome.requests.iter().find(|request| request.unexpected) {
        out.push(format!("unexpected request: {} {} at {}ms", request.verb, json(&request.query), request.at_ms));
    }
    compare_requests(&expect.requests, &outcome.requests, grace_ms, &mut out);
    for (verb, want) in [(Verb::List, expect.request_count.list), (Verb::Watch, expect.request_count.watch)] {
        let got = outcome.requests.iter().filter(|request| request.verb == verb).count() as u64;
        if let Some(want) = want.filter(|want| !want.allow(got)) {
            out.push(format!("requestCount.{verb}: want {want}, got {got}"));
        }
    }
    for (name, want) in &expect.handlers {
        match outcome.handlers.get(name) {
            None => out.push(format!("handlers.{name}: no such handler in the outcome")),
            Some(events) => compare_handler(name, want, events, grace_ms, &mut out),
        }
    }
    compare_store(&expect.store, &outcome.store, &mut out);
    if let (Some(bound), Some(stop)) = (expect.stopped_within_ms, scenario.stop_at_ms()) {
        let in_time = |at: u64| at.saturating_sub(stop) <= bound.saturating_add(grace_ms);
        if !outcome.stopped_at_ms.is_some_and(in_time) {
            let at = outcome.stopped_at_ms.map_or("never".to_owned(), |at| at.to_string());
            out.push(format!("stoppedWithinMs: stop at {stop}, stopped at {at}"));
        }
    }
    if let Some(want) = expect.phase.filter(|want| *want != outcome.phase) {
        out.push(format!("phase: want {}, got {}", json(&want), json(&outcome.phase)));
    }
    let got = outcome.errors.len() as u64;
    if let Some(want) = expect.error_count.filter(|want| !want.allow(got)) {
        out.push(format!("errorCount: want {want}, got {got}"));
    }
    if let Some(want) = &expect.errors {
        compare_errors(want, &outcome.errors, grace_ms, &mut out);
    }
    if outcome.name != scenario.name {
        out.push(format!("name: want {:?}, got {:?}", scenario.name, outcome.name));
    }
    out
}

fn compare_requests(want: &[RequestMatcher], got: &[Request], grace_ms: u64, out: &mut Vec<String>) {
    let mut before = 0;
    for (n, matcher) in want.iter().enumerate() {
        let Some(request) = got.get(n) else {
            out.push(format!("requests[{n}]: missing {} (only {} were sent)", json(matcher), got.len()));
            return;
        };
        let bad = differences(matcher, request, &got[..n], before, grace_ms);
        before = request.at_ms;
        if !bad.is_empty() {
            out.extend(bad.into_iter().map(|bad| format!("requests[{n}]: {bad}")));
            return; // what follows a wrong request is another story
        }
    }
}

fn differences(want: &RequestMatcher, got: &Request, earlier: &[Request], before: u64, grace_ms: u64) -> Vec<String> {
    let mut bad = Vec::new();
    if let Some(verb) = want.verb.filter(|verb| *verb != got.verb) {
        bad.push(format!("verb: want {verb}, got {} {}", got.verb, json(&got.query)));
    } else {
        values("query", &want.query, &got.query, &mut bad);
        values("header", &want.headers, &got.headers, &mut bad);
    }
    if want.new_connection && earlier.iter().any(|request| request.connection == got.connection) {
        bad.push(format!("connection {} was used before", got.connection));
    }
    if let Some(gap_ms) = want.gap_ms.filter(|_| bad.is_empty()) {
        let gap = got.at_ms.saturating_sub(before);
        if !gap_ms.widened(grace_ms).allow(gap) {
            bad.push(format!("gap {gap}ms is outside [{}, {}]", gap_ms.min, gap_ms.max));
        }
    }
    bad
}

fn values(what: &str, want: &BTreeMap<String, Option<String>>, got: &BTreeMap<String, String>, bad: &mut Vec<String>) {
    for (name, want) in want {
        let got = got.get(name);
        if !same_value(want.as_deref(), got.map(String::as_str)) {
            bad.push(format!("{what} {name}: want {}, got {}", json(want), json(&got)));
        }
    }
}

/// True if `got` is the value that is wanted; to want none is to want it absent or empty.
pub(crate) fn same_value(want: Option<&str>, got: Option<&str>) -> bool {
    match want {
        None => got.is_none_or(str::is_empty),
        Some(_) => got == want,
    }
}

fn compare_handler(name: &str, want: &HandlerExpect, got: &[Event], grace_ms: u64, out: &mut Vec<String>) {
    match want {
        HandlerExpect::InOrder(want) => {
            sequence(&format!("handlers.{name}"), want, &got.iter().collect::<Vec<_>>(), grace_ms, out);
        }
        HandlerExpect::PerKey(want) => {
            let mut by_key = BTreeMap::<&str, Vec<&Event>>::new();
            for event in got {
                if let Some(change) = event.change() {
                    by_key.entry(&change.key).or_default().push(event);
                }
            }
            let keys: BTreeSet<&str> = want.keys().map(String::as_str).chain(by_key.keys().copied()).collect();
            for key in keys {
                let want = want.get(key).map_or(&[][..], Vec::as_slice);
                let got = by_key.get(key).map_or(&[][..], Vec::as_slice);
                sequence(&format!("handlers.{name}.{key}"), want, got, grace_ms, out);
            }
        }
    }
}

fn sequence(place: &str, want: &[EventMatcher], got: &[&Event], grace_ms: u64, out: &mut Vec<String>) {
    for n in 0..want.len().max(got.len()) {
        let bad = match (want.get(n), got.get(n)) {
            (None, Some(event)) => vec![format!("{place}[{n}]: unexpected {event}")],
            (Some(want), None) => vec![format!("{place}[{n}]: missing {}", json(want))],
            (Some(want), Some(event)) => {
                let differences = event_differences(want, event, grace_ms);
                differences.into_iter().map(|bad| format!("{place}[{n}] ({event}): {bad}")).collect()
            }
            (None, None) => unreachable!("n is below the longer length"),
        };
        if !bad.is_empty() {
            out.extend(bad);
            return; // later places only repeat the first difference
        }
    }
}

fn event_differences(want: &EventMatcher, got: &Event, grace_ms: u64) -> Vec<String> {
    let mut bad = Vec::new();
    if let Some(at_ms) = want.at_ms.filter(|at_ms| !at_ms.widened(grace_ms).allow(got.at_ms)) {
        bad.push(differs("atMs", at_ms, got.at_ms));
    }
    if let Some(kind) = want.kind.filter(|kind| *kind != got.kind()) {
        bad.push(differs("type", kind, got.kind()));
    }
    let change = got.change();
    let mut text = |field: &str, want: &Named<String>, get: fn(&Change) -> Option<&String>| {
        let got = change.and_then(get);
        if want.as_ref().is_some_and(|want| want.as_ref() != got) {
            bad.push(differs(field, json(want), json(&got)));
        }
    };
    text("key", &want.key, |change| Some(&change.key));
    text("uid", &want.uid, |change| Some(&change.uid));
    text("resourceVersion", &want.resource_version, |change| Some(&change.resource_version));
    text("oldResourceVersion", &want.old_resource_version, |change| change.old_resource_version.as_ref());
    let mut flag = |field: &str, want: Named<bool>, got: Option<bool>| {
        if want.is_some_and(|want| want != got) {
            bad.push(differs(field, json(&want), json(&got)));
        }
    };
    flag("initial", want.initial, change.map(|change| change.initial));
    flag("finalStateKnown", want.final_state_known, change.map(|change| change.final_state_known));
    let cause = change.map(|change| change.cause);
    if want.cause.is_some_and(|want| want != cause) {
        bad.push(differs("cause", json(&want.cause), json(&cause)));
    }
    bad
}

fn differs(field: &str, want: impl Display, got: impl Display) -> String {
    format!("{field}: want {want}, got {got}")
}

fn compare_store(want: &StoreExpect, got: &Store, out: &mut Vec<String>) {
    if let Some(want) = want.resource_version.as_ref().filter(|want| **want != got.resource_version) {
        out.push(format!("store.resourceVersion: want {want:?}, got {:?}", got.resource_version));
    }
    if let Some(want) = want.objects.as_ref().filter(|want| **want != got.objects) {
        out.push(format!("store.objects: want {}, got {}", cut(json(want)), cut(json(&got.objects))));
    }
    for (name, want) in &want.indexes {
        let got = got.indexes.get(name).map(sorted).unwrap_or_default();
        if sorted(want) != got {
            out.push(format!("store.indexes.{name}: want {}, got {}", json(want), json(&got)));
        }
    }
}

/// An index with the keys of each value in order.
pub(crate) fn sorted(index: &BTreeMap<String, Vec<String>>) -> BTreeMap<&str, Vec<&str>> {
    index
        .iter()
        .map(|(value, keys)| {
            let mut keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            keys.sort_unstable();
            (value.as_str(), keys)
        })
        .collect()
}

fn compare_errors(want: &[ErrorMatcher], got: &[ErrorEntry], grace_ms: u64, out: &mut Vec<String>) {
    if let (true, Some(first)) = (want.is_empty(), got.first()) {
        out.push(format!("errors: want none, got {}", cut(json(first))));
    }
    let mut rest = got.iter();
    for (n, matcher) in want.iter().enumerate() {
        if !rest.any(|error| matcher.allows(error, grace_ms)) {
            let seen: Vec<_> = got.iter().map(|error| (error.code, &error.reason)).collect();
            let seen = cut(json(&seen));
            out.push(format!("errors[{n}]: nothing matches {}; seen [code, reason]: {seen}", json(matcher)));
            return;
        }
    }
}

/// Longest piece of JSON inside a difference, in characters: enough to see what it is about.
const SHOWN: usize = 300;

/// `text`, or its beginning.
pub(crate) fn cut(text: String) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{self, change, pairs};
    use crate::outcome::{VIRTUAL, What};

    fn scenario(expect: &str) -> Result<Scenario, crate::FormError> {
        fixtures::scenario(&format!(
            r#""runForMs": 1000, "server": [], "handlers": [{{"name": "h"}}],
                "commands": [{{"atMs": 5, "do": "stop"}}], "expect": {expect}"#
        ))
    }

    fn good() -> Outcome {
        let mut outcome = Outcome::new("n", VIRTUAL);
        outcome.phase = Phase::Watching;
        let list = Request::new(0, "/p", &pairs(&[("limit", "500"), ("resourceVersion", "0")]), &[]);
        let watch = Request::new(900, "/p", &pairs(&[("watch", "1"), ("resourceVersion", "5")]), &[]);
        outcome.requests = vec![Request { connection: 1, ..list }, Request { connection: 2, ..watch }];
        let events = vec![
            Event { at_ms: 1, what: What::Add(change("a", "5", None)) },
            Event { at_ms: 1, what: What::Synced },
            Event { at_ms: 1, what: What::Update(change("a", "6", Some("5"))) },
        ];
        outcome.handlers.insert("h".into(), events);
        let error = |at_ms, phase, code, reason: &str| ErrorEntry {
            at_ms,
            phase,
            code,
            reason: reason.into(),
            message: "m".into(),
        };
        outcome.errors = vec![error(3, ErrorPhase::Watch, 410, "Expired"), error(4, ErrorPhase::List, 500, "X")];
        outcome.store = Store {
            resource_version: "6".into(),
            objects: [("ns/a".into(), "6".into())].into(),
            indexes: [("namespace".into(), [("ns".into(), vec!["ns/a".into()])].into())].into(),
        };
        outcome
    }

    const FULL: &str = r#"{
        "requests": [{"verb": "list", "query": {"limit": "500", "continue": null}}, {"verb": "watch", "gapMs": [800, 1000]}],
        "requestCount": {"list": 1, "watch": [1, 2]},
        "handlers": {"h": {"inOrder": [{"type": "add", "key": "a"}, {"type": "synced"},
                                       {"type": "update", "oldResourceVersion": "5"}]}},
        "store": {"resourceVersion": "6", "objects": {"ns/a": "6"}, "indexes": {"namespace": {"ns": ["ns/a"]}}},
        "phase": "watching", "errors": [{"code": 410}, {"code": 500}], "clientGo": "same"}"#;

    const MORE: &str = r#"{"requests": [{"newConnection": true}, {"newConnection": true}], "errorCount": [1, 2],
        "handlers": {"h": {"perKey": {"a": [{"atMs": [0, 1]}, {"atMs": 1}]}}}}"#;

    #[track_caller]
    fn met(expect: &str, outcome: &Outcome) {
        assert_eq!(compare(&scenario(expect).unwrap(), outcome, 0), [""; 0], "{expect}");
    }

    #[track_caller]
    fn refused(expect: &str, change: impl FnOnce(&mut Outcome)) -> String {
        let mut outcome = good();
        change(&mut outcome);
        let differences = compare(&scenario(expect).unwrap(), &outcome, 0);
        assert!(!differences.is_empty(), "accepted: {}", outcome.to_json());
        differences.join("\n")
    }

    #[test]
    fn what_is_as_expected_has_no_difference() {
        met(FULL, &good());
        met(MORE, &good());
        met("{}", &good());
        met(r#"{"handlers": {"h": {"perKey": {"a": [{"type": "add"}, {"type": "update"}]}}}}"#, &good());
        met(r#"{"handlers": {"h": {"inOrder": [{"oldResourceVersion": null}, {"key": null}, {}]}}}"#, &good());
        met(r#"{"stoppedWithinMs": 100}"#, &Outcome { stopped_at_ms: Some(100), ..good() });
    }

    #[test]
    fn every_departure_from_the_expectation_is_a_difference() {
        type Change = fn(&mut Outcome);
        let changes: [Change; 19] = [
            |o| drop(o.requests.pop()),
            |o| o.requests.push(o.requests[0].clone()),
            |o| o.requests[1].at_ms = 1001,
            |o| o.requests[1].at_ms = 799,
            |o| drop(o.requests[0].query.insert("continue".into(), "t".into())),
            |o| drop(o.requests[0].query.remove("limit")),
            |o| o.requests[0].unexpected = true,
            |o| drop(o.handlers.get_mut("h").unwrap().pop()),
            |o| o.handlers.get_mut("h").unwrap().push(Event { at_ms: 1, what: What::Removed }),
            |o| drop(o.handlers.remove("h")),
            |o| o.handlers.get_mut("h").unwrap().reverse(),
            |o| o.handlers.get_mut("h").unwrap()[2].what = What::Update(change("a", "6", Some("4"))),
            |o| o.store.resource_version = "7".into(),
            |o| drop(o.store.objects.insert("ns/b".into(), "1".into())),
            |o| drop(o.store.indexes.get_mut("namespace").unwrap().insert("x".into(), vec![])),
            |o| o.phase = Phase::Stopped,
            |o| drop(o.errors.remove(0)),
            |o| o.errors.reverse(),
            |o| o.name = "other".into(),
        ];
        for change in changes {
            refused(FULL, change);
        }
        refused(MORE, |o| o.requests[1].connection = 1);
        refused(MORE, |o| o.errors.clear());
        refused(MORE, |o| o.handlers.get_mut("h").unwrap()[0].at_ms = 2);
        refused(r#"{"stoppedWithinMs": 100}"#, |_| ());
        refused(r#"{"stoppedWithinMs": 100}"#, |o| o.stopped_at_ms = Some(106));
        refused(r#"{"errors": []}"#, |_| ());
        refused(r#"{"handlers": {"h": {"perKey": {"b": []}}}}"#, |_| ());
        refused(r#"{"errors": [{"phase": "list"}, {"phase": "watch"}]}"#, |_| ());
    }

    #[test]
    fn headers_are_compared_as_sent() {
        let expect = r#"{"requests": [{"headers": {"authorization": "Bearer A", "accept-encoding": null}}]}"#;
        let with = |o: &mut Outcome, all: &[(&str, &str)]| {
            o.requests[0].headers = all.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        };
        refused(expect, |_| ());
        refused(expect, |o| with(o, &[("authorization", "Bearer A"), ("accept-encoding", "gzip")]));
        let mut outcome = good();
        with(&mut outcome, &[("authorization", "Bearer A"), ("accept-encoding", "")]);
        met(expect, &outcome);
    }

    #[test]
    fn differences_name_place_wish_and_fact() {
        assert_eq!(refused(FULL, |o| o.requests[1].at_ms = 1001), "requests[1]: gap 1001ms is outside [800, 1000]");
        assert_eq!(
            refused(FULL, |o| o.handlers.get_mut("h").unwrap()[2].what = What::Update(change("a", "6", Some("4")))),
            r#"handlers.h[2] (update a 6@1ms): oldResourceVersion: want "5", got "4""#
        );
        assert_eq!(
            refused(FULL, |o| drop(o.handlers.get_mut("h").unwrap().pop())),
            r#"handlers.h[2]: missing {"type":"update","oldResourceVersion":"5"}"#
        );
        assert_eq!(
            refused(FULL, |o| drop(o.requests.pop())),
            concat!(
                r#"requests[1]: missing {"verb":"watch","gapMs":[800,1000]} (only 1 were sent)"#,
                "\nrequestCount.watch: want [1, 2], got 0"
            )
        );
        assert_eq!(
            refused(FULL, |o| o.errors.reverse()),
            r#"errors[1]: nothing matches {"code":500}; seen [code, reason]: [[500,"X"],[410,"Expired"]]"#
        );
    }

    #[test]
    fn grace_moves_only_upper_bounds() {
        let expect = r#"{"requests": [{}, {"gapMs": [800, 850]}], "stoppedWithinMs": 10,
            "handlers": {"h": {"inOrder": [{"atMs": 1}, {}, {}]}}, "errors": [{"atMs": [3, 3]}]}"#;
        let mut late = Outcome { stopped_at_ms: Some(25), ..good() };
        late.handlers.get_mut("h").unwrap()[0].at_ms = 9;
        late.errors[0].at_ms = 9;
        let scenario = scenario(expect).unwrap();
        assert_eq!(compare(&scenario, &late, 0).len(), 4);
        assert_eq!(compare(&scenario, &late, 50), [""; 0]);
        late.requests[1].at_ms = 799;
        assert_eq!(compare(&scenario, &late, 50), ["requests[1]: gap 799ms is outside [800, 850]"]);
    }

    #[test]
    fn an_expectation_of_another_form_is_refused_at_its_place() {
        for (expect, place) in [
            (r#"{"request": []}"#, "expect.request"),
            (r#"{"requests": [{"verbs": 1}]}"#, "expect.requests[0].verbs"),
            (r#"{"requests": [{"verb": "get"}]}"#, "expect.requests[0].verb"),
            (r#"{"requests": [{"gapMs": [2, 1]}]}"#, "expect.requests[0].gapMs"),
            (r#"{"requests": [{"gapMs": 2}]}"#, "expect.requests[0].gapMs"),
            (r#"{"handlers": {"h": {}}}"#, "expect.handlers.h"),
            (r#"{"handlers": {"h": {"inOrder": [], "perKey": {}}}}"#, "expect.handlers.h"),
            (r#"{"handlers": {"h": {"inOrder": [{"kee": 1}]}}}"#, "expect.handlers.h.inOrder[0].kee"),
            (r#"{"handlers": {"h": {"inOrder": [{"type": "gone"}]}}}"#, "expect.handlers.h.inOrder[0].type"),
            (r#"{"handlers": {"h": {"perKey": {"a": [{"type": "synced"}]}}}}"#, "expect.handlers.h"),
            (r#"{"requestCount": {"get": 1}}"#, "expect.requestCount.get"),
            (r#"{"requestCount": {"list": "1"}}"#, "expect.requestCount.list"),
            (r#"{"errors": [{"cod": 1}]}"#, "expect.errors[0].cod"),
            (r#"{"phase": "resting"}"#, "expect.phase"),
            (r#"{"clientGo": {"why": 1}}"#, "expect.clientGo.why"),
            (r#"{"clientGo": "alike"}"#, "expect.clientGo"),
            (r#"{"store": {"keys": 1}}"#, "expect.store.keys"),
        ] {
            let fault = scenario(expect).expect_err(expect);
            assert_eq!(fault.place(), place, "{fault}");
        }
    }

    #[test]
    fn long_values_are_cut_at_a_character() {
        assert_eq!(cut("é".repeat(301)), format!("{}...", "é".repeat(300)));
        assert_eq!(cut("é".repeat(300)), "é".repeat(300));
    }
}
