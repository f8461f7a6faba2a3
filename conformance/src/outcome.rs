//! What a run has shown: the one JSON object that a runner prints.
//!
//! A runner only fills an [`Outcome`]; what it means is decided in [`expect`](crate::expect). Fields serialise in the
//! documented order, and a reader takes the recorded outcomes of other peers as well.
//!
//! ```
//! use informer_conformance::outcome::{Cause, Change, Event, Outcome, What};
//!
//! let add = Change {
//!     key: "ns/a".into(),
//!     uid: "u".into(),
//!     resource_version: "5".into(),
//!     old_resource_version: None,
//!     initial: true,
//!     cause: Cause::List,
//!     final_state_known: true,
//! };
//! let mut outcome = Outcome::new("empty", "virtual");
//! outcome.handlers.insert("h".into(), vec![
//!     Event { at_ms: 5, what: What::Add(add) },
//!     Event { at_ms: 5, what: What::Synced },
//! ]);
//! assert_eq!(Outcome::from_str(&outcome.to_json()).unwrap(), outcome);
//! ```

use crate::form::{self, FormError, present};
use crate::scenario::Verb;
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// What was seen of one run of a scenario, up to its end. Times are milliseconds from the start of the informer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Outcome {
    /// Name of the scenario.
    pub name: String,
    /// What ran it: `virtual`, `virtual-delta-fifo`, `tokio`, `blocking`, or the name of a peer.
    pub runtime: String,
    /// Where the machine was at the end.
    pub phase: Phase,
    /// When a `stop` was complete, if one was commanded and done.
    #[serde(default)]
    pub stopped_at_ms: Option<u64>,
    /// Every request, in the order of sending.
    pub requests: Vec<Request>,
    /// What each handler got, in order.
    pub handlers: BTreeMap<String, Vec<Event>>,
    /// Every error that the informer reported, in order.
    pub errors: Vec<ErrorEntry>,
    /// The store at the end.
    pub store: Store,
}

/// The name of the `runtime` in which time is exact.
pub const VIRTUAL: &str = "virtual";

/// The same with the other queue.
pub const VIRTUAL_DELTA_FIFO: &str = "virtual-delta-fifo";

impl Outcome {
    /// The outcome of a run in which nothing has happened yet.
    pub fn new(name: impl Into<String>, runtime: impl Into<String>) -> Self {
        Outcome {
            name: name.into(),
            runtime: runtime.into(),
            phase: Phase::Idle,
            stopped_at_ms: None,
            requests: Vec::new(),
            handlers: BTreeMap::new(),
            errors: Vec::new(),
            store: Store::default(),
        }
    }

    /// Reads a recorded outcome.
    ///
    /// # Errors
    /// The file cannot be read, is not JSON, or is not of the documented form.
    pub fn from_file(file: impl AsRef<Path>) -> Result<Self, FormError> {
        let file = file.as_ref();
        Self::from_str(&form::read(file)?).map_err(|error| error.in_file(file))
    }

    /// Reads an outcome.
    ///
    /// # Errors
    /// `text` is not JSON or is not of the documented form.
    #[allow(clippy::should_implement_trait)] // beside `from_file`, as in `scenario`
    pub fn from_str(text: &str) -> Result<Self, FormError> {
        form::parse(text)
    }

    /// The outcome as one JSON object on one line.
    pub fn to_json(&self) -> String {
        json(self)
    }
}

/// `value` on one line.
pub(crate) fn json(value: &impl Serialize) -> String {
    // The types of this crate have string keys and no failing `Serialize`, so there is nothing to report.
    serde_json::to_string(value).expect("strings, numbers and string-keyed maps always serialise")
}

/// Where a reflector stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Phase {
    /// Not started.
    Idle,
    /// In a paged list.
    Listing,
    /// In a streaming list, before its end marker.
    Streaming,
    /// A watch was sent, no head yet.
    Opening,
    /// A watch was answered 200 and is open.
    Watching,
    /// Waits before the next request.
    Backoff,
    /// Stopped.
    Stopped,
}

/// One request as it was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Request {
    /// When it was sent.
    pub at_ms: u64,
    /// List or watch.
    pub verb: Verb,
    /// Its path, without the query.
    pub path: String,
    /// Its query, decoded.
    pub query: BTreeMap<String, String>,
    /// Its `accept`, `accept-encoding` and `authorization` headers, as sent.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The number of the connection it went over, from 1; 0 if that was refused.
    #[serde(default)]
    pub connection: u64,
    /// True if the script had no answer for it, which fails the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unexpected: bool,
}

/// The headers that an outcome records, in lower case.
pub const RECORDED_HEADERS: [&str; 3] = ["accept", "accept-encoding", "authorization"];

impl Request {
    /// The record of a request: `query` decoded, and of `headers` those that an outcome shows.
    pub fn new(at_ms: u64, path: &str, query: &[(String, String)], headers: &[(String, String)]) -> Self {
        Request {
            at_ms,
            verb: Verb::of(query),
            path: path.to_owned(),
            query: query.iter().cloned().collect(),
            headers: headers
                .iter()
                .map(|(name, value)| (name.to_ascii_lowercase(), value.clone()))
                .filter(|(name, _)| RECORDED_HEADERS.contains(&name.as_str()))
                .collect(),
            connection: 0,
            unexpected: false,
        }
    }
}

/// One thing a handler got.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "EventForm")]
pub struct Event {
    /// When the call of the handler started.
    pub at_ms: u64,
    /// What it got.
    pub what: What,
}

impl Event {
    /// The type, as the file names it.
    pub fn kind(&self) -> EventType {
        match &self.what {
            What::Add(_) => EventType::Add,
            What::Update(_) => EventType::Update,
            What::Delete(_) => EventType::Delete,
            What::Synced => EventType::Synced,
            What::Removed => EventType::Removed,
        }
    }

    /// The change of an object that it tells of, if it is one.
    pub fn change(&self) -> Option<&Change> {
        match &self.what {
            What::Add(change) | What::Update(change) | What::Delete(change) => Some(change),
            What::Synced | What::Removed => None,
        }
    }
}

/// `add ns/a 5@7ms`: how a difference names an event.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind())?;
        if let Some(change) = self.change() {
            write!(f, " {} {}", change.key, change.resource_version)?;
        }
        write!(f, "@{}ms", self.at_ms)
    }
}

/// What a handler gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A key that it did not have.
    Add(Change),
    /// Another state of a key that it has, or the same one at a resync.
    Update(Change),
    /// A key that it had.
    Delete(Change),
    /// All its initial adds have returned; once.
    Synced,
    /// Its removal is complete; the last thing.
    Removed,
}

/// The change of one object, as one handler was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// `namespace/name`, or the name of a cluster-scoped object.
    pub key: String,
    /// Uid of the delivered object.
    pub uid: String,
    /// Version of the delivered object.
    pub resource_version: String,
    /// Version that this handler saw last of the key; none for an add.
    pub old_resource_version: Option<String>,
    /// True for adds of the first complete list or of a replay.
    pub initial: bool,
    /// What brought it.
    pub cause: Cause,
    /// False for a delete found by a relist or by a new uid.
    pub final_state_known: bool,
}

/// The `type` of an [`Event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EventType {
    /// [`What::Add`].
    Add,
    /// [`What::Update`].
    Update,
    /// [`What::Delete`].
    Delete,
    /// [`What::Synced`].
    Synced,
    /// [`What::Removed`].
    Removed,
}

impl EventType {
    /// True for add, update and delete, which tell of a key.
    pub fn is_keyed(self) -> bool {
        match self {
            EventType::Add | EventType::Update | EventType::Delete => true,
            EventType::Synced | EventType::Removed => false,
        }
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EventType::Add => "add",
            EventType::Update => "update",
            EventType::Delete => "delete",
            EventType::Synced => "synced",
            EventType::Removed => "removed",
        })
    }
}

/// What brought a change to a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Cause {
    /// The first list, the first streaming list up to its end marker, or the replay to a late handler.
    List,
    /// Any later list.
    Relist,
    /// An event of a watch.
    Watch,
    /// The resync period of the handler.
    Resync,
}

/// An [`Event`] as it stands in a file: `synced` and `removed` have no further field.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EventForm {
    at_ms: u64,
    #[serde(rename = "type")]
    kind: EventType,
    #[serde(default, deserialize_with = "present")]
    key: Option<String>,
    #[serde(default, deserialize_with = "present")]
    uid: Option<String>,
    #[serde(default, deserialize_with = "present")]
    resource_version: Option<String>,
    #[serde(default)]
    old_resource_version: Option<String>,
    #[serde(default)]
    initial: Option<bool>,
    #[serde(default)]
    cause: Option<Cause>,
    #[serde(default)]
    final_state_known: Option<bool>,
}

impl TryFrom<EventForm> for Event {
    type Error = String;

    fn try_from(form: EventForm) -> Result<Self, String> {
        let kind = form.kind;
        let change = || {
            let missing = |field| format!("field `{field}` of `{kind}` is missing");
            Ok::<_, String>(Change {
                key: form.key.ok_or_else(|| missing("key"))?,
                uid: form.uid.ok_or_else(|| missing("uid"))?,
                resource_version: form.resource_version.ok_or_else(|| missing("resourceVersion"))?,
                old_resource_version: form.old_resource_version,
                initial: form.initial.ok_or_else(|| missing("initial"))?,
                cause: form.cause.ok_or_else(|| missing("cause"))?,
                final_state_known: form.final_state_known.ok_or_else(|| missing("finalStateKnown"))?,
            })
        };
        let what = match kind {
            EventType::Add => What::Add(change()?),
            EventType::Update => What::Update(change()?),
            EventType::Delete => What::Delete(change()?),
            EventType::Synced => What::Synced,
            EventType::Removed => What::Removed,
        };
        Ok(Event { at_ms: form.at_ms, what })
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, ser: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let change = self.change();
        let mut out = ser.serialize_struct("Event", if change.is_some() { 9 } else { 2 })?;
        out.serialize_field("atMs", &self.at_ms)?;
        out.serialize_field("type", &self.kind())?;
        if let Some(change) = change {
            out.serialize_field("key", &change.key)?;
            out.serialize_field("uid", &change.uid)?;
            out.serialize_field("resourceVersion", &change.resource_version)?;
            out.serialize_field("oldResourceVersion", &change.old_resource_version)?;
            out.serialize_field("initial", &change.initial)?;
            out.serialize_field("cause", &change.cause)?;
            out.serialize_field("finalStateKnown", &change.final_state_known)?;
        }
        out.end()
    }
}

/// One error that the informer reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ErrorEntry {
    /// When.
    pub at_ms: u64,
    /// In which kind of request.
    pub phase: ErrorPhase,
    /// The HTTP or Status code, 0 without one.
    pub code: u16,
    /// The Status's reason, else the standard one of the code, else the name of the failure.
    pub reason: String,
    /// For people.
    pub message: String,
}

/// The kind of request that an error belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ErrorPhase {
    /// A paged list.
    List,
    /// A streaming list, up to its end marker.
    Streaming,
    /// A watch.
    Watch,
}

/// The store at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Store {
    /// The version that a new watch would start from; empty before the first list.
    pub resource_version: String,
    /// Version of each key.
    pub objects: BTreeMap<String, String>,
    /// For each index, the keys under each value.
    #[serde(default)]
    pub indexes: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Outcome {
        let mut outcome = Outcome::new("n", VIRTUAL);
        outcome.phase = Phase::Watching;
        let query = [("limit".to_owned(), "500".to_owned()), ("resourceVersion".to_owned(), "0".to_owned())];
        let headers = [("Accept".to_owned(), "application/json".to_owned()), ("user-agent".to_owned(), "x".to_owned())];
        outcome.requests.push(Request { connection: 1, ..Request::new(0, "/api/v1/pods", &query, &headers) });
        let change = Change {
            key: "ns/a".into(),
            uid: "u".into(),
            resource_version: "5".into(),
            old_resource_version: None,
            initial: true,
            cause: Cause::List,
            final_state_known: true,
        };
        let events = vec![Event { at_ms: 5, what: What::Add(change) }, Event { at_ms: 5, what: What::Synced }];
        outcome.handlers.insert("h".into(), events);
        outcome.errors.push(ErrorEntry {
            at_ms: 10,
            phase: ErrorPhase::Watch,
            code: 410,
            reason: "Expired".into(),
            message: "m".into(),
        });
        outcome.store = Store {
            resource_version: "5".into(),
            objects: [("ns/a".into(), "5".into())].into(),
            indexes: [("namespace".into(), [("ns".into(), vec!["ns/a".into()])].into())].into(),
        };
        outcome
    }

    #[test]
    fn an_outcome_reads_as_documented() {
        assert_eq!(
            sample().to_json(),
            concat!(
                r#"{"name":"n","runtime":"virtual","phase":"watching","stoppedAtMs":null,"#,
                r#""requests":[{"atMs":0,"verb":"list","path":"/api/v1/pods","#,
                r#""query":{"limit":"500","resourceVersion":"0"},"headers":{"accept":"application/json"},"connection":1}],"#,
                r#""handlers":{"h":[{"atMs":5,"type":"add","key":"ns/a","uid":"u","resourceVersion":"5","#,
                r#""oldResourceVersion":null,"initial":true,"cause":"list","finalStateKnown":true},"#,
                r#"{"atMs":5,"type":"synced"}]},"#,
                r#""errors":[{"atMs":10,"phase":"watch","code":410,"reason":"Expired","message":"m"}],"#,
                r#""store":{"resourceVersion":"5","objects":{"ns/a":"5"},"#,
                r#""indexes":{"namespace":{"ns":["ns/a"]}}}}"#
            )
        );
        assert_eq!(Outcome::from_str(&sample().to_json()).unwrap(), sample());
    }

    #[test]
    fn only_an_unexpected_request_says_so() {
        let mut outcome = sample();
        outcome.requests[0].unexpected = true;
        assert!(outcome.to_json().contains(r#""connection":1,"unexpected":true}"#));
    }

    #[test]
    fn an_outcome_of_another_form_is_refused_at_its_place() {
        let change = |from: &str, to: &str| {
            let text = sample().to_json();
            assert!(text.contains(from), "{from}");
            Outcome::from_str(&text.replacen(from, to, 1)).unwrap_err()
        };
        for (from, to, place, problem) in [
            (r#""name""#, r#""extra":1,"name""#, "extra", "unknown field"),
            (r#""headers":"#, r#""header":"#, "requests[0].header", "unknown field"),
            (r#""verb":"list""#, r#""verb":"get""#, "requests[0].verb", "unknown variant"),
            (r#""type":"add""#, r#""type":"gone""#, "handlers.h[0].type", "unknown variant"),
            (r#""uid":"u","#, "", "handlers.h[0]", "`uid` of `add` is missing"),
            (r#""cause":"list""#, r#""cause":"push""#, "handlers.h[0].cause", "unknown variant"),
            (r#""code":"#, r#""cod":"#, "errors[0].cod", "unknown field"),
            (r#""objects":"#, r#""keys":"#, "store.keys", "unknown field"),
        ] {
            let fault = change(from, to);
            assert_eq!(fault.place(), place, "{fault}");
            assert!(fault.to_string().contains(problem), "{fault}");
        }
        let cut = sample().to_json().split(r#","store""#).next().unwrap().to_owned() + "}";
        assert!(Outcome::from_str(&cut).unwrap_err().to_string().contains("missing field `store`"));
    }
}
