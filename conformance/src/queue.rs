//! Scenarios of a work queue: the file, its outcome, and the differences between the two.
//!
//! The file has `"kind": "queue"` and scripts what is done to the queue and when; the outcome says which worker was
//! handed which key, and what is left in the end.
//!
//! ```
//! use informer_conformance::queue::{Op, QueueScenario};
//!
//! let scenario = QueueScenario::from_str(r#"{
//!     "kind": "queue", "name": "twice-is-once", "seed": 1, "runForMs": 100,
//!     "ops": [{"atMs": 0, "do": "add", "key": "a"}, {"atMs": 0, "do": "add", "key": "a"}, {"atMs": 5, "do": "get"}],
//!     "expect": {"handedOut": [{"atMs": 5, "key": "a"}], "len": 0}
//! }"#).unwrap();
//! assert_eq!(scenario.queue.limiter.base_ms, 5);
//! assert!(matches!(&scenario.ops[0].what, Op::Add { key, .. } if key == "a"));
//! ```

use crate::expect::ClientGo;
use crate::form::{self, Bounds, FormError, positive, present};
use crate::outcome::json;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// A script of one work queue.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct QueueScenario {
    /// Always `queue`.
    pub kind: Kind,
    /// Its name, which is also the name of its file.
    pub name: String,
    /// Which rule it shows.
    #[serde(default)]
    pub about: String,
    /// The seed of every random choice.
    pub seed: u64,
    /// When the outcome is taken, in ms; at least 1.
    #[serde(deserialize_with = "positive")]
    pub run_for_ms: u64,
    /// How the queue is set up.
    #[serde(default)]
    pub queue: QueueSpec,
    /// What is done to it.
    pub ops: Vec<TimedOp>,
    /// What must be seen.
    #[serde(default)]
    pub expect: QueueExpect,
}

/// The `kind` of a queue scenario.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// A work queue.
    Queue,
}

impl QueueScenario {
    /// Reads a scenario of a queue.
    ///
    /// # Errors
    /// `text` is not JSON or breaks a rule of the format.
    #[allow(clippy::should_implement_trait)] // as for the other scenario files
    pub fn from_str(text: &str) -> Result<Self, FormError> {
        form::parse(text)
    }
}

/// How the queue is set up.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct QueueSpec {
    /// The per-key limiter.
    pub limiter: LimiterSpec,
    /// Rate of the token bucket in keys a second; none without it.
    pub qps: Option<f64>,
    /// Size of the token bucket.
    pub burst: Option<u32>,
    /// True for a queue with priorities.
    pub priority: bool,
}

/// The exponential limiter of each key.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LimiterSpec {
    /// Wait after the first failure, in ms.
    pub base_ms: u64,
    /// Longest wait, in ms.
    pub cap_ms: u64,
}

impl Default for LimiterSpec {
    fn default() -> Self {
        LimiterSpec { base_ms: 5, cap_ms: 1_000_000 }
    }
}

/// One thing done to the queue.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "OpForm")]
pub struct TimedOp {
    /// When, in ms.
    pub at_ms: u64,
    /// What.
    pub what: Op,
    /// Which worker does it, as the file names it.
    pub worker: Option<String>,
}

/// What is done to the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Op {
    /// Adds a key now.
    Add {
        /// The key.
        key: String,
        /// Its priority, if given.
        priority: Option<i32>,
    },
    /// Adds a key after a while.
    AddAfter {
        /// The key.
        key: String,
        /// The while, in ms.
        delay_ms: u64,
        /// Its priority, if given.
        priority: Option<i32>,
    },
    /// Adds a key after what the limiter says.
    AddRateLimited {
        /// The key.
        key: String,
        /// Its priority, if given.
        priority: Option<i32>,
    },
    /// Clears the limiter of a key.
    Forget {
        /// The key.
        key: String,
    },
    /// The worker waits for the next key.
    Get,
    /// The worker has done with a key.
    Done {
        /// The key.
        key: String,
    },
    /// No new keys; what is queued is still handed out.
    ShutDown,
    /// The same, complete when nothing is in work.
    ShutDownWithDrain,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OpForm {
    at_ms: u64,
    #[serde(rename = "do")]
    what: OpName,
    #[serde(default, deserialize_with = "present")]
    key: Option<String>,
    #[serde(default)]
    delay_ms: Option<u64>,
    #[serde(default)]
    priority: Option<i32>,
    #[serde(default, deserialize_with = "worker")]
    worker: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
enum OpName {
    Add,
    AddAfter,
    AddRateLimited,
    Forget,
    Get,
    Done,
    ShutDown,
    ShutDownWithDrain,
}

impl TryFrom<OpForm> for TimedOp {
    type Error = &'static str;

    fn try_from(form: OpForm) -> Result<Self, Self::Error> {
        let needs = |key: Option<String>| key.ok_or("add, addAfter, addRateLimited, forget and done need a key");
        let none = |key: Option<String>| match key {
            None => Ok(()),
            Some(_) => Err("get, shutDown and shutDownWithDrain take no key"),
        };
        let OpForm { at_ms, what, key, delay_ms, priority, worker } = form;
        let what = match what {
            OpName::Add => Op::Add { key: needs(key)?, priority },
            OpName::AddAfter => Op::AddAfter { key: needs(key)?, delay_ms: delay_ms.unwrap_or(0), priority },
            OpName::AddRateLimited => Op::AddRateLimited { key: needs(key)?, priority },
            OpName::Forget => Op::Forget { key: needs(key)? },
            OpName::Done => Op::Done { key: needs(key)? },
            OpName::Get => none(key).map(|()| Op::Get)?,
            OpName::ShutDown => none(key).map(|()| Op::ShutDown)?,
            OpName::ShutDownWithDrain => none(key).map(|()| Op::ShutDownWithDrain)?,
        };
        Ok(TimedOp { at_ms, what, worker })
    }
}

/// A worker is called by a string or by a number, which is then its name in decimal.
fn worker<'de, D: serde::Deserializer<'de>>(de: D) -> Result<Option<String>, D::Error> {
    struct Visitor;
    impl serde::de::Visitor<'_> for Visitor {
        type Value = Option<String>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("the name or number of a worker")
        }

        fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Option<String>, E> {
            Ok(Some(name.to_owned()))
        }

        fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Option<String>, E> {
            Ok(Some(number.to_string()))
        }

        fn visit_unit<E: serde::de::Error>(self) -> Result<Option<String>, E> {
            Ok(None)
        }
    }
    de.deserialize_any(Visitor)
}

/// What must be seen of a queue. Every part is optional.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[non_exhaustive]
pub struct QueueExpect {
    /// The whole sequence of keys handed out.
    #[serde(deserialize_with = "present")]
    pub handed_out: Option<Vec<HandedOutMatcher>>,
    /// Keys that wait to be handed out, at the end.
    #[serde(deserialize_with = "present")]
    pub len: Option<Bounds>,
    /// Keys that wait for their time, at the end.
    #[serde(deserialize_with = "present")]
    pub pending_delayed: Option<Bounds>,
    /// What client-go's queue does with the same script.
    #[serde(deserialize_with = "present")]
    pub client_go: Option<ClientGo>,
}

/// One key that must have been handed out. What is left out is free.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HandedOutMatcher {
    /// When, in ms.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<Bounds>,
    /// The key.
    pub key: String,
    /// To whom.
    #[serde(default, deserialize_with = "worker", skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
}

/// What was seen of one run of a queue scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueueOutcome {
    /// Name of the scenario.
    pub name: String,
    /// What ran it.
    pub runtime: String,
    /// Every key handed out, in order.
    pub handed_out: Vec<HandedOut>,
    /// Keys that wait to be handed out, at the end.
    pub len: u64,
    /// Keys that wait for their time, at the end.
    pub pending_delayed: u64,
    /// Failures that the limiter counts, of each key that has any.
    pub requeues: BTreeMap<String, u64>,
    /// When a shutdown was complete.
    #[serde(default)]
    pub shut_down_at_ms: Option<u64>,
}

impl QueueOutcome {
    /// Reads a recorded outcome.
    ///
    /// # Errors
    /// The file cannot be read, is not JSON, or is not of the documented form.
    pub fn from_file(file: impl AsRef<Path>) -> Result<Self, FormError> {
        let file = file.as_ref();
        form::parse(&form::read(file)?).map_err(|error| error.in_file(file))
    }

    /// The outcome as one JSON object on one line.
    pub fn to_json(&self) -> String {
        json(self)
    }
}

/// A key that was handed out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HandedOut {
    /// When, in ms.
    pub at_ms: u64,
    /// The key.
    pub key: String,
    /// To whom; none if the file names no worker.
    #[serde(default, deserialize_with = "worker")]
    pub worker: Option<String>,
}

/// All differences between what `scenario` expects and `outcome`, in words; none means that it is met. `grace_ms` moves
/// every upper bound of a time that much later.
pub fn compare_queue(scenario: &QueueScenario, outcome: &QueueOutcome, grace_ms: u64) -> Vec<String> {
    let expect = &scenario.expect;
    let mut out = Vec::new();
    if let Some(want) = &expect.handed_out {
        handed_out(want, &outcome.handed_out, grace_ms, &mut out);
    }
    for (name, want, got) in
        [("len", expect.len, outcome.len), ("pendingDelayed", expect.pending_delayed, outcome.pending_delayed)]
    {
        if let Some(want) = want.filter(|want| !want.allow(got)) {
            out.push(format!("{name}: want {want}, got {got}"));
        }
    }
    if outcome.name != scenario.name {
        out.push(format!("name: want {:?}, got {:?}", scenario.name, outcome.name));
    }
    out
}

fn handed_out(want: &[HandedOutMatcher], got: &[HandedOut], grace_ms: u64, out: &mut Vec<String>) {
    for n in 0..want.len().max(got.len()) {
        let bad = match (want.get(n), got.get(n)) {
            (None, Some(got)) => format!("unexpected {}", json(got)),
            (Some(want), None) => format!("missing {}", json(want)),
            (Some(want), Some(got)) => {
                let same = want.key == got.key
                    && want.at_ms.is_none_or(|at| at.widened(grace_ms).allow(got.at_ms))
                    && (want.worker.is_none() || want.worker == got.worker);
                if same {
                    continue;
                }
                format!("want {}, got {}", json(want), json(got))
            }
            (None, None) => unreachable!("n is below the longer length"),
        };
        out.push(format!("handedOut[{n}]: {bad}"));
        return; // later places only repeat the first difference
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::ScenarioFile;

    fn scenario(ops: &str, expect: &str) -> Result<QueueScenario, FormError> {
        QueueScenario::from_str(&format!(
            r#"{{"kind": "queue", "name": "q", "seed": 1, "runForMs": 10, "ops": {ops}, "expect": {expect}}}"#
        ))
    }

    fn outcome() -> QueueOutcome {
        let handed = |at_ms, key: &str, worker: &str| HandedOut { at_ms, key: key.into(), worker: Some(worker.into()) };
        QueueOutcome {
            name: "q".into(),
            runtime: "virtual".into(),
            handed_out: vec![handed(5, "a", "w"), handed(9, "b", "2")],
            len: 1,
            pending_delayed: 0,
            requeues: [("a".into(), 2)].into(),
            shut_down_at_ms: None,
        }
    }

    #[test]
    fn an_outcome_is_compared_as_a_whole_sequence() {
        let met = r#"{"handedOut": [{"atMs": [4, 5], "key": "a"}, {"key": "b", "worker": 2}], "len": 1, "pendingDelayed": 0}"#;
        assert_eq!(compare_queue(&scenario("[]", met).unwrap(), &outcome(), 0), [""; 0]);
        for (expect, difference) in [
            (r#"{"handedOut": [{"key": "a"}]}"#, r#"handedOut[1]: unexpected {"atMs":9,"key":"b","worker":"2"}"#),
            (r#"{"handedOut": [{"key": "a"}, {"key": "b"}, {"key": "c"}]}"#, r#"handedOut[2]: missing {"key":"c"}"#),
            (
                r#"{"handedOut": [{"key": "a", "atMs": [1, 4]}]}"#,
                r#"handedOut[0]: want {"atMs":[1,4],"key":"a"}, got {"atMs":5,"key":"a","worker":"w"}"#,
            ),
            (r#"{"len": [2, 3]}"#, "len: want [2, 3], got 1"),
            (r#"{"pendingDelayed": 4}"#, "pendingDelayed: want 4, got 0"),
        ] {
            assert_eq!(compare_queue(&scenario("[]", expect).unwrap(), &outcome(), 0), [difference]);
        }
        let late = scenario("[]", r#"{"handedOut": [{"key": "a", "atMs": [1, 4]}, {"key": "b"}]}"#).unwrap();
        assert_eq!(compare_queue(&late, &outcome(), 1), [""; 0]);
    }

    #[test]
    fn an_outcome_reads_as_documented() {
        assert_eq!(
            outcome().to_json(),
            concat!(
                r#"{"name":"q","runtime":"virtual","handedOut":[{"atMs":5,"key":"a","worker":"w"},"#,
                r#"{"atMs":9,"key":"b","worker":"2"}],"len":1,"pendingDelayed":0,"requeues":{"a":2},"shutDownAtMs":null}"#
            )
        );
    }

    #[test]
    fn every_fault_is_refused_at_its_place() {
        for (ops, expect, place, problem) in [
            (r#"[{"atMs": 1, "do": "add"}]"#, "{}", "ops[0]", "need a key"),
            (r#"[{"atMs": 1, "do": "get", "key": "a"}]"#, "{}", "ops[0]", "take no key"),
            (r#"[{"atMs": 1, "do": "put", "key": "a"}]"#, "{}", "ops[0].do", "unknown variant"),
            (r#"[{"atMs": -1, "do": "get"}]"#, "{}", "ops[0].atMs", "invalid value"),
            (r#"[{"do": "get"}]"#, "{}", "ops[0]", "missing field `atMs`"),
            (r#"[{"atMs": 1, "do": "get", "wroker": 1}]"#, "{}", "ops[0].wroker", "unknown field"),
            ("[]", r#"{"handedOut": [{"atMs": 1}]}"#, "expect.handedOut[0]", "missing field `key`"),
            ("[]", r#"{"handed": []}"#, "expect.handed", "unknown field"),
        ] {
            let fault = scenario(ops, expect).unwrap_err();
            assert_eq!(fault.place(), place, "{fault}");
            assert!(fault.to_string().contains(problem), "{fault}");
        }
    }

    #[test]
    fn the_kind_chooses_the_reader() {
        let text = r#"{"kind": "queue", "name": "q", "seed": 1, "runForMs": 10, "ops": []}"#;
        assert!(matches!(ScenarioFile::from_str(text), Ok(ScenarioFile::Queue(_))));
    }
}
