//! A Status, alone and as the body of a failed request: no panic, bounded texts, and serde_json agrees on code and
//! reason.
//!
//! First two bytes: the status code of the answer. The rest is the body.

use crate::bytes::Bytes;
use informer_core::wire::{Head, Status};
use serde_json::Value;

/// Texts are cut at 4,096 bytes, and the mark of the cut is 3 more.
const LONGEST: usize = 4096 + 3;

/// Reads one input.
///
/// # Panics
///
/// If something is wrong.
pub fn run(data: &[u8]) {
    let mut data = Bytes::new(data);
    let code = data.short();
    let body = data.rest();

    let status = Status::from_json(body);
    match serde_json::from_slice::<Value>(body) {
        Err(_) => assert_eq!(status, None, "it is no JSON"),
        Ok(tree) => compare(status.as_ref(), &tree),
    }

    let answer = Status::from_response(code, body);
    assert!(answer.code >= 400 || answer.code == code);
    assert!(!answer.to_string().is_empty());
    for text in [&answer.reason, &answer.message] {
        assert!(text.len() <= LONGEST);
    }
    if status.is_none() {
        assert_eq!(answer.code, code, "the status line counts if the body is no Status");
    }

    // A header is foreign text, too.
    if let Ok(text) = core::str::from_utf8(body) {
        let mut head = Head::new(code);
        head.set("Retry-After", text);
        head.set("Date", "Sun, 06 Nov 1994 08:49:37 GMT");
        assert!(head.retry_after().is_none_or(|wait| !wait.is_zero()));
    }
}

fn compare(status: Option<&Status>, tree: &Value) {
    let Some(object) = tree.as_object() else {
        assert_eq!(status, None, "it is no object");
        return;
    };
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or("");
    match object.get("kind").and_then(Value::as_str) {
        Some("Status") => assert!(status.is_some(), "its kind says so"),
        Some(_) => assert_eq!(status, None, "it is of another kind"),
        None => assert_eq!(
            status.is_some(),
            text("status") == "Failure"
                || text("status") == "Success"
                || !text("reason").is_empty()
                || whole(object.get("code")) > 0,
            "without a kind one field of a Status makes it one"
        ),
    }
    let Some(status) = status else { return };
    let code = whole(object.get("code"));
    assert_eq!(u64::from(status.code), if code > u64::from(u16::MAX) { 0 } else { code });
    for (got, sent) in [(&status.reason, text("reason")), (&status.message, text("message"))] {
        let kept = got.strip_suffix('…').filter(|_| got != sent).unwrap_or(got);
        assert!(sent.starts_with(kept) && got.len() <= LONGEST, "{got:?} is no beginning of {sent:?}");
    }
    let retry = object.get("details").and_then(|details| details.get("retryAfterSeconds"));
    assert_eq!(status.retry_after.is_some(), whole(retry) > 0);
}

/// A whole number, also as a text; 0 if it is none.
fn whole(value: Option<&Value>) -> u64 {
    match value {
        Some(Value::Number(number)) => number.as_u64().unwrap_or(0),
        Some(Value::String(text)) => text.parse().unwrap_or(0),
        None | Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) => 0,
    }
}
