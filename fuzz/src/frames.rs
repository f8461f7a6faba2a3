//! The body of a WATCH: any cut gives the same, and what serde_json takes for a frame comes out, at once and in order.
//!
//! First byte: how the body is cut, and whether the limits are small. The rest is the body.

use crate::bytes::{Bytes, cut};
use crate::json::{describe, expect, is_deep, members};
use informer_core::object::Version;
use informer_core::wire::{Control, Fed, FrameDecoder, Limits, RawBatch, Status, WireError};
use serde_json::Value;
use serde_json::value::RawValue;

type Outcome = (Vec<String>, Result<bool, WireError>);

/// Reads one input.
///
/// # Panics
///
/// If two ways to read it differ.
pub fn run(data: &[u8]) {
    let mut data = Bytes::new(data);
    let seed = data.byte();
    let body = data.rest();
    let limits =
        if seed >= 0xc0 { Limits { frame_bytes: usize::from(seed - 0xbf) * 8, depth: 5 } } else { Limits::default() };

    let whole = read(&[body], limits);
    assert_eq!(whole, read(&cut(body, seed), limits), "cut by {seed}");
    if body.len() <= 4096 {
        assert_eq!(whole, read(&cut(body, 0), limits), "byte by byte");
    }
    if let (Ok(body), true) = (core::str::from_utf8(body), limits == Limits::default()) {
        compare(&whole.0, body);
    }
}

fn read(chunks: &[&[u8]], limits: Limits) -> Outcome {
    let mut decoder = FrameDecoder::new(limits);
    let mut seen = Vec::new();
    for chunk in chunks {
        let mut rest = *chunk;
        loop {
            let mut batch = RawBatch::new();
            let fed = decoder.feed(rest, &mut batch);
            seen.extend(batch.iter().map(|item| describe(&item)));
            match fed {
                Ok(Fed::All) => break,
                Ok(Fed::Control { consumed, control }) => {
                    seen.push(format!("{control:?}"));
                    rest = &rest[consumed..];
                }
                Err(error) => {
                    // What it quotes depends on what had arrived.
                    let error = if let WireError::NotJson { .. } = error {
                        WireError::NotJson { prefix: String::new() }
                    } else {
                        error
                    };
                    return (seen, Err(error));
                }
            }
        }
    }
    (seen, Ok(decoder.is_clean()))
}

/// Each frame that serde_json finds must have come out, up to the first that is none.
fn compare(seen: &[String], body: &str) {
    if is_deep(body) {
        return;
    }
    let mut seen = seen.iter();
    for frame in serde_json::Deserializer::from_str(body).into_iter::<&RawValue>() {
        let Ok(frame) = frame else { return };
        let Some(expected) = model(frame.get()) else { return };
        let got = seen.next().unwrap_or_else(|| panic!("nothing came of the frame {}", frame.get()));
        match expected {
            Expected::Is(expected) => assert_eq!(*got, expected),
            Expected::EndsWith(json) => assert!(got.ends_with(&json), "{got} does not end with {json}"),
        }
    }
}

enum Expected {
    Is(String),
    /// serde_json makes no tree of the object.
    EndsWith(String),
}

/// What a frame stands for; `None` if it is none, which ends the stream.
fn model(frame: &str) -> Option<Expected> {
    let members = members(frame)?;
    let last = |wanted: &str| members.iter().rev().find(|(name, _)| name == wanted).map(|(_, value)| *value);
    let object = last("object").map(RawValue::get);
    let control = |control: Control| Some(Expected::Is(format!("{control:?}")));
    let Some(event_type) = last("type").filter(|value| value.get().starts_with('"')) else {
        return control(Control::Error(Status::from_json(frame.as_bytes())?));
    };
    // A lone half of a surrogate pair is no text, so this names no type.
    let Ok(event_type) = serde_json::from_str::<String>(event_type.get()) else {
        return control(Control::Error(Status::from_json(frame.as_bytes())?));
    };
    let kind = match event_type.as_str() {
        "ADDED" => "Added",
        "MODIFIED" => "Modified",
        "DELETED" => "Deleted",
        "BOOKMARK" => {
            let object: Value = serde_json::from_str(object.unwrap_or("null")).ok()?;
            let version = object.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or("");
            let end = object.pointer("/metadata/annotations/k8s.io~1initial-events-end").and_then(Value::as_str);
            return control(Control::Bookmark {
                version: Version::new(version),
                initial_events_end: end == Some("true"),
            });
        }
        // Of what it says, `status` is the target.
        "ERROR" => return Some(Expected::EndsWith(")".into())),
        _ => return Some(Expected::EndsWith(" }".into())),
    };
    let json = object?;
    Some(expect(kind, json).map_or_else(|| Expected::EndsWith(json.to_owned()), Expected::Is))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_knows_an_event_from_what_is_none() {
        assert!(model(r#"{"type":"ADDED"}"#).is_none());
        let Some(Expected::Is(event)) = model(r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#) else {
            panic!()
        };
        assert_eq!(event, r#"Added ["", "a", "", "", "", ""] {"metadata":{"name":"a"}}"#);
    }
}
