//! The scripted API server without IO: a request goes in, what becomes of it comes out.
//!
//! A request takes the first entry that matches and has `times` left. What the entry says is handed out as a
//! [`Timeline`]: bytes with the delay before each, and how it ends. Who plays it (virtual time, a real socket) keeps
//! the clock.
//!
//! ```
//! use informer_conformance::scenario::{EndKind, Scenario, Verb};
//! use informer_conformance::script::{Answer, Script};
//!
//! let scenario = Scenario::from_str(r#"{
//!     "name": "n", "seed": 1, "runForMs": 1000,
//!     "resource": {"group": "", "version": "v1", "resource": "pods", "kind": "Pod", "namespaced": true},
//!     "server": [{"when": {"verb": "list"}, "times": 1,
//!                 "reply": {"afterMs": 5, "body": [{"text": "{"}, {"afterMs": 3, "text": "}"}]}}]
//! }"#).unwrap();
//! let mut script = Script::new(&scenario.server);
//! let Answer::Reply(mut timeline) = script.request(0, Verb::List, &[], &[]) else { panic!("not answered") };
//! assert_eq!((timeline.head_after_ms(), timeline.status()), (5, 200));
//! assert_eq!(timeline.next_part(), Some((0, &b"{"[..])));
//! assert_eq!(timeline.next_part(), Some((3, &b"}"[..])));
//! assert_eq!(timeline.next_part(), None);
//! assert_eq!(timeline.end(), EndKind::Close);
//! // The entry is used up.
//! assert_eq!(script.request(9, Verb::List, &[], &[]), Answer::Hang { unexpected: true });
//! ```

use crate::expect::same_value;
use crate::scenario::{AnswerSpec, EndKind, Reply, ServerEntry, Verb, When};
use std::sync::Arc;

/// The server of a scenario.
#[derive(Clone, Debug)]
pub struct Script {
    entries: Vec<Entry>,
    unexpected: Option<String>,
}

#[derive(Clone, Debug)]
struct Entry {
    when: When,
    left: Option<u64>,
    reply: Play,
}

/// A [`Reply`] that can be handed out many times without copying its body.
#[derive(Clone, Debug)]
enum Play {
    Refuse,
    Hang,
    Answer(Arc<AnswerSpec>),
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The connection is refused.
    Refuse,
    /// The connection is accepted, and nothing ever comes.
    Hang {
        /// True if nothing in the script matched, which fails the run.
        unexpected: bool,
    },
    /// It is answered.
    Reply(Timeline),
}

impl Script {
    /// A server that answers from these entries.
    pub fn new(server: &[ServerEntry]) -> Self {
        let entries = server.iter().map(|entry| Entry {
            when: entry.when.clone(),
            left: entry.times,
            reply: match &entry.reply {
                Reply::Refuse => Play::Refuse,
                Reply::Hang => Play::Hang,
                Reply::Answer(answer) => Play::Answer(Arc::new(answer.clone())),
            },
        });
        Script { entries: entries.collect(), unexpected: None }
    }

    /// Takes a request that came at `at_ms`, and uses up one of the entry that answers it.
    pub fn request(
        &mut self,
        at_ms: u64,
        verb: Verb,
        query: &[(String, String)],
        headers: &[(String, String)],
    ) -> Answer {
        let Some(n) = self.find(verb, query, headers) else {
            self.unexpected.get_or_insert_with(|| format!("{verb} {query:?} at {at_ms}ms"));
            return Answer::Hang { unexpected: true };
        };
        let entry = &mut self.entries[n];
        if let Some(left) = &mut entry.left {
            *left -= 1;
        }
        match &entry.reply {
            Play::Refuse => Answer::Refuse,
            Play::Hang => Answer::Hang { unexpected: false },
            Play::Answer(answer) => Answer::Reply(Timeline { answer: Arc::clone(answer), part: 0, sent: 0 }),
        }
    }

    /// True if the connection of this request would be refused; uses nothing up.
    pub fn would_refuse(&self, verb: Verb, query: &[(String, String)], headers: &[(String, String)]) -> bool {
        self.find(verb, query, headers).is_some_and(|n| matches!(self.entries[n].reply, Play::Refuse))
    }

    /// The first request that nothing matched, in words.
    pub fn unexpected(&self) -> Option<&str> {
        self.unexpected.as_deref()
    }

    fn find(&self, verb: Verb, query: &[(String, String)], headers: &[(String, String)]) -> Option<usize> {
        self.entries.iter().position(|entry| entry.left != Some(0) && matches(&entry.when, verb, query, headers))
    }
}

fn matches(when: &When, verb: Verb, query: &[(String, String)], headers: &[(String, String)]) -> bool {
    let value = |all: &[(String, String)], name: &str| {
        all.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone())
    };
    let header =
        |name: &str| headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone());
    when.verb == verb
        && when.query.iter().all(|(name, want)| same_value(want.as_deref(), value(query, name).as_deref()))
        && when.headers.iter().all(|(name, want)| same_value(want.as_deref(), header(name).as_deref()))
}

/// One answer while it is played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    answer: Arc<AnswerSpec>,
    /// The part to send next.
    part: usize,
    /// How often it was sent.
    sent: u64,
}

impl Timeline {
    /// From the request to the head, in ms.
    pub fn head_after_ms(&self) -> u64 {
        self.answer.after_ms
    }

    /// Status code.
    pub fn status(&self) -> u16 {
        self.answer.status
    }

    /// Headers, in order and as written.
    pub fn headers(&self) -> &[(String, String)] {
        &self.answer.headers
    }

    /// The value of a header, whatever the case of its name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.answer.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The next part of the body, with its delay after the one before (after the head for the first), in ms.
    pub fn next_part(&mut self) -> Option<(u64, &[u8])> {
        if self.answer.body.get(self.part).is_some_and(|part| self.sent == part.repeat) {
            (self.part, self.sent) = (self.part + 1, 0);
        }
        let part = self.answer.body.get(self.part)?;
        self.sent += 1;
        Some((part.after_ms, &part.bytes))
    }

    /// What follows the last part.
    pub fn end(&self) -> EndKind {
        self.answer.end
    }

    /// Length of the whole body in bytes; saturates.
    pub fn body_len(&self) -> u64 {
        let parts = self.answer.body.iter();
        parts.fold(0, |all, part| all.saturating_add((part.bytes.len() as u64).saturating_mul(part.repeat)))
    }

    /// True if a client sees the end of this body as what it is, and can use the connection again: it is closed, and
    /// a `Content-Length` tells the truth.
    pub fn ends_cleanly(&self) -> bool {
        let told = self.header("content-length").map(|value| value.trim().parse::<u64>());
        self.end() == EndKind::Close && told.is_none_or(|told| told == Ok(self.body_len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{pairs, served};

    fn script(server: &str) -> Script {
        Script::new(&served(server).server)
    }

    fn status(answer: Answer) -> u16 {
        match answer {
            Answer::Reply(timeline) => timeline.status(),
            Answer::Refuse | Answer::Hang { .. } => panic!("{answer:?}"),
        }
    }

    #[test]
    fn the_first_match_with_times_left_answers() {
        let mut script = script(
            r#"[{"when": {"verb": "list"}, "times": 2, "reply": {"status": 500}},
                {"when": {"verb": "watch"}, "reply": {"hang": true}},
                {"when": {"verb": "list"}, "times": 1, "reply": {"refuse": true}},
                {"when": {"verb": "list"}, "reply": {"status": 200}}]"#,
        );
        assert_eq!(status(script.request(0, Verb::List, &[], &[])), 500);
        assert_eq!(script.request(0, Verb::Watch, &[], &[]), Answer::Hang { unexpected: false });
        assert_eq!(status(script.request(0, Verb::List, &[], &[])), 500);
        assert!(script.would_refuse(Verb::List, &[], &[]));
        assert_eq!(script.request(0, Verb::List, &[], &[]), Answer::Refuse);
        assert!(!script.would_refuse(Verb::List, &[], &[]));
        for _ in 0..3 {
            assert_eq!(status(script.request(0, Verb::List, &[], &[])), 200);
        }
        assert_eq!(script.unexpected(), None);
    }

    #[test]
    fn query_and_headers_must_be_equal_and_null_is_absent_or_empty() {
        let mut script = script(
            r#"[{"when": {"verb": "list", "query": {"limit": "500", "continue": null}}, "reply": {"status": 201}},
                {"when": {"verb": "list", "headers": {"authorization": "Bearer A"}}, "reply": {"status": 202}},
                {"when": {"verb": "list", "headers": {"authorization": null}}, "reply": {"status": 203}}]"#,
        );
        let mut ask = |query: &[(&str, &str)], headers: &[(&str, &str)]| {
            script.request(7, Verb::List, &pairs(query), &pairs(headers))
        };
        assert_eq!(status(ask(&[("limit", "500"), ("other", "x")], &[])), 201);
        assert_eq!(status(ask(&[("limit", "500"), ("continue", "")], &[])), 201);
        assert_eq!(status(ask(&[("limit", "500"), ("continue", "t")], &[("Authorization", "Bearer A")])), 202);
        assert_eq!(status(ask(&[("limit", "5")], &[])), 203);
        assert_eq!(ask(&[], &[("authorization", "Bearer B")]), Answer::Hang { unexpected: true });
        assert_eq!(script.unexpected(), Some("list [] at 7ms"));
    }

    #[test]
    fn a_repeated_part_keeps_its_delay_before_each() {
        let mut script = script(
            r#"[{"when": {"verb": "watch"}, "reply": {"end": "hang",
                 "body": [{"text": "a", "afterMs": 2, "repeat": 3}, {"text": "b"}]}}]"#,
        );
        let Answer::Reply(mut timeline) = script.request(0, Verb::Watch, &[], &[]) else { panic!("not answered") };
        let mut parts = Vec::new();
        while let Some((delay, bytes)) = timeline.next_part() {
            parts.push((delay, bytes.to_vec()));
        }
        assert_eq!(parts, [(2, b"a".to_vec()), (2, b"a".to_vec()), (2, b"a".to_vec()), (0, b"b".to_vec())]);
        assert_eq!((timeline.body_len(), timeline.end(), timeline.next_part()), (4, EndKind::Hang, None));
    }

    #[test]
    fn only_a_closed_body_of_the_told_length_ends_cleanly() {
        let clean = |reply: &str| {
            let mut script = script(&format!(r#"[{{"when": {{"verb": "list"}}, "reply": {reply}}}]"#));
            let Answer::Reply(timeline) = script.request(0, Verb::List, &[], &[]) else { panic!("not answered") };
            timeline.ends_cleanly()
        };
        assert!(clean(r#"{"body": [{"text": "ab"}]}"#));
        assert!(clean(r#"{"body": [{"text": "ab"}], "headers": {"content-length": "2"}}"#));
        assert!(!clean(r#"{"body": [{"text": "ab"}], "headers": {"Content-Length": "3"}}"#));
        assert!(!clean(r#"{"body": [{"text": "ab"}], "headers": {"Content-Length": "x"}}"#));
        assert!(!clean(r#"{"end": "reset"}"#));
        assert!(!clean(r#"{"end": "hang"}"#));
    }
}
