//! [`Answer`]: one scripted answer as a client of HTTP/1.1 sees it, arrival by arrival.
//!
//! ```text
//! Refused ──► End::Refused
//! Connecting ──► Connected ──► Head ──► Body … ──► End        (a hang stops anywhere on the way)
//! ```
//!
//! A `Content-Length` ends the body where it says: what the script sends beyond it is not seen, and a body that falls
//! short of it is broken.

use crate::scenario::EndKind;
use crate::script::{self, Timeline};
use informer_core::reflector::End;
use informer_core::wire::Head;

/// What a client sees of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    Connected,
    Head(Head),
    Body(Vec<u8>),
    End(End),
}

pub(super) struct Answer {
    stage: Stage,
    /// The connection can be used again once the end has arrived.
    reusable: bool,
}

enum Stage {
    Refused,
    /// Accepted; nothing ever comes without a timeline.
    Connecting(Option<Timeline>),
    Head(Timeline),
    /// `left`: bytes that a `Content-Length` still promises.
    Body {
        timeline: Timeline,
        left: Option<u64>,
    },
    Over,
}

impl Answer {
    pub(super) fn new(answer: script::Answer) -> Self {
        let (stage, reusable) = match answer {
            script::Answer::Refuse => (Stage::Refused, false),
            script::Answer::Hang { .. } => (Stage::Connecting(None), false),
            script::Answer::Reply(timeline) => {
                let closes = timeline.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
                let reusable = timeline.ends_cleanly() && !closes;
                (Stage::Connecting(Some(timeline)), reusable)
            }
        };
        Answer { stage, reusable }
    }

    pub(super) fn is_refused(&self) -> bool {
        matches!(self.stage, Stage::Refused)
    }

    pub(super) fn is_reusable(&self) -> bool {
        self.reusable
    }

    /// The next arrival, and how many ms it comes after the one before (after the sending, for the first).
    pub(super) fn next(&mut self) -> Option<(u64, Arrival)> {
        let over = |delay, end| Some((delay, Stage::Over, Arrival::End(end)));
        let (delay, stage, arrival) = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Refused => over(0, End::Refused("connection refused".into())),
            Stage::Over => None,
            Stage::Connecting(None) => Some((0, Stage::Over, Arrival::Connected)),
            Stage::Connecting(Some(timeline)) => Some((0, Stage::Head(timeline), Arrival::Connected)),
            Stage::Head(timeline) => {
                let delay = timeline.head_after_ms();
                match timeline.header("content-length").map(|told| told.trim().parse::<u64>()) {
                    Some(Err(_)) => over(delay, End::Broken("its Content-Length is no number".into())),
                    Some(Ok(told)) => {
                        Some((delay, Stage::Body { left: Some(told), timeline: timeline.clone() }, head(&timeline)))
                    }
                    None => Some((delay, Stage::Body { left: None, timeline: timeline.clone() }, head(&timeline))),
                }
            }
            Stage::Body { timeline, left } => body(timeline, left),
        }?;
        self.stage = stage;
        Some((delay, arrival))
    }
}

fn head(timeline: &Timeline) -> Arrival {
    let mut head = Head::new(timeline.status());
    for (name, value) in timeline.headers() {
        head.set(name, value);
    }
    Arrival::Head(head)
}

/// The next part that has bytes, or the end.
fn body(mut timeline: Timeline, left: Option<u64>) -> Option<(u64, Stage, Arrival)> {
    let over = |delay, end| Some((delay, Stage::Over, Arrival::End(end)));
    if left == Some(0) {
        return over(0, End::Closed);
    }
    let mut delay = 0;
    // Ends with the script's parts. An empty one is a delay and nothing that a client could see.
    while let Some((after, bytes)) = timeline.next_part() {
        delay += after;
        let promised = left.map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(usize::MAX));
        let bytes = bytes[..bytes.len().min(promised)].to_vec();
        if !bytes.is_empty() {
            let left = left.map(|left| left - bytes.len() as u64);
            return Some((delay, Stage::Body { timeline, left }, Arrival::Body(bytes)));
        }
    }
    match timeline.end() {
        EndKind::Close if left.is_some() => {
            over(delay, End::Broken("the connection ended before its Content-Length".into()))
        }
        EndKind::Close => over(delay, End::Closed),
        EndKind::Reset => over(delay, End::Broken("connection reset".into())),
        EndKind::Hang => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::served;
    use crate::scenario::Verb;
    use crate::script::Script;

    fn answer(reply: &str) -> Answer {
        let scenario = served(&format!(r#"[{{"when": {{"verb": "list"}}, "reply": {reply}}}]"#));
        Answer::new(Script::new(&scenario.server).request(0, Verb::List, &[], &[]))
    }

    /// Everything that arrives, each with its moment.
    fn played(reply: &str) -> (Vec<(u64, String)>, bool) {
        let mut answer = answer(reply);
        let mut at = 0;
        let all = std::iter::from_fn(|| answer.next()).map(|(delay, arrival)| {
            at += delay;
            let text = match arrival {
                Arrival::Connected => "connected".to_owned(),
                Arrival::Head(head) => format!("{} {:?}", head.status, head.retry_after),
                Arrival::Body(bytes) => String::from_utf8(bytes).unwrap(),
                Arrival::End(end) => format!("{end:?}"),
            };
            (at, text)
        });
        (all.collect(), answer.is_reusable())
    }

    fn arrivals(all: &[(u64, &str)]) -> Vec<(u64, String)> {
        all.iter().map(|(at, text)| (*at, (*text).to_owned())).collect()
    }

    #[test]
    fn parts_arrive_after_their_delays_and_empty_ones_are_not_seen() {
        let reply = r#"{"afterMs": 5, "status": 503, "headers": {"Retry-After": "7"},
            "body": [{"text": "a", "afterMs": 1, "repeat": 2}, {"text": "", "afterMs": 10}, {"text": "b", "afterMs": 2}]}"#;
        let want = [(0, "connected"), (5, "503 Some(\"7\")"), (6, "a"), (7, "a"), (19, "b"), (19, "Closed")];
        assert_eq!(played(reply), (arrivals(&want), true));
    }

    #[test]
    fn a_content_length_ends_the_body_or_finds_it_short() {
        let of = |told: &str, end: &str| {
            played(&format!(
                r#"{{"headers": {{"Content-Length": "{told}"}}, "body": [{{"text": "abc"}}], "end": "{end}"}}"#
            ))
        };
        let (connected, head) = ((0, "connected"), (0, "200 None"));
        assert_eq!(of("3", "close"), (arrivals(&[connected, head, (0, "abc"), (0, "Closed")]), true));
        assert_eq!(of("2", "close"), (arrivals(&[connected, head, (0, "ab"), (0, "Closed")]), false));
        assert_eq!(of("0", "close"), (arrivals(&[connected, head, (0, "Closed")]), false));
        assert_eq!(of("3", "hang"), (arrivals(&[connected, head, (0, "abc"), (0, "Closed")]), false));
        let short = "Broken(\"the connection ended before its Content-Length\")";
        assert_eq!(of("4", "close"), (arrivals(&[connected, head, (0, "abc"), (0, short)]), false));
        let unreadable = "Broken(\"its Content-Length is no number\")";
        assert_eq!(of("x", "close"), (arrivals(&[connected, (0, unreadable)]), false));
    }

    #[test]
    fn what_is_refused_torn_or_hangs_leaves_no_connection_behind() {
        let refused = arrivals(&[(0, "Refused(\"connection refused\")")]);
        assert_eq!(played(r#"{"refuse": true}"#), (refused, false));
        assert_eq!(played(r#"{"hang": true}"#), (arrivals(&[(0, "connected")]), false));
        let hangs = arrivals(&[(0, "connected"), (0, "200 None"), (0, "a")]);
        assert_eq!(played(r#"{"body": [{"text": "a"}], "end": "hang"}"#), (hangs, false));
        let torn = arrivals(&[(0, "connected"), (0, "200 None"), (0, "Broken(\"connection reset\")")]);
        assert_eq!(played(r#"{"end": "reset"}"#), (torn, false));
        assert!(!answer(r#"{"headers": {"Connection": "close"}}"#).is_reusable());
    }
}
