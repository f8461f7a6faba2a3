//! The body of a LIST: any cut gives the same, and what serde_json takes for a list is one, item by item.
//!
//! First byte: how the body is cut, and whether the limits are small. The rest is the body.

use crate::bytes::{Bytes, cut};
use crate::json::{describe, expect, is_deep, members, text};
use informer_core::wire::{Limits, ListDecoder, ListEnd, RawBatch, WireError};
use serde_json::Value;
use serde_json::value::RawValue;

type Outcome = (Vec<String>, Result<ListEnd, WireError>);

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
    if limits == Limits::default() {
        compare(&whole, body);
    }
}

fn read(chunks: &[&[u8]], limits: Limits) -> Outcome {
    let mut decoder = ListDecoder::new(limits);
    let mut batch = RawBatch::new();
    for chunk in chunks {
        if let Err(error) = decoder.feed(chunk, &mut batch) {
            // What it quotes depends on what had arrived.
            let error = if let WireError::NotJson { .. } = error {
                WireError::NotJson { prefix: String::new() }
            } else {
                error
            };
            return (batch.iter().map(|item| describe(&item)).collect(), Err(error));
        }
    }
    (batch.iter().map(|item| describe(&item)).collect(), decoder.finish())
}

/// Sets the decoder's answer beside serde_json's.
fn compare((items, end): &Outcome, body: &[u8]) {
    let Ok(body) = core::str::from_utf8(body) else { return };
    let Some(members) = members(body) else {
        // Each item that is whole was handed on, whatever is wrong elsewhere, and has the identity that a tree has.
        for item in items {
            let json = item.split_once("] ").map_or("", |(_, json)| json);
            if let Some(expected) = expect("Listed", json) {
                assert_eq!(*item, expected);
            }
        }
        return;
    };
    if is_deep(body) {
        return;
    }
    let Some((expected, version, token)) = model(&members) else {
        assert!(end.is_err(), "taken for a list: {body}");
        return;
    };
    let end = end.as_ref().unwrap_or_else(|error| panic!("{error}: {body}"));
    assert_eq!((end.version.as_str(), end.continue_token.as_str()), (version.as_str(), token.as_str()));
    assert_eq!(items.len(), expected.len());
    for (item, json) in items.iter().zip(expected) {
        match expect("Listed", json.get()) {
            Some(expected) => assert_eq!(*item, expected),
            None => assert!(item.ends_with(json.get())),
        }
    }
}

/// Items, version and token of a list; `None` if these members make none.
fn model<'a>(members: &[(String, &'a RawValue)]) -> Option<(Vec<&'a RawValue>, String, String)> {
    let (mut kind, mut items, mut metadata) = (String::new(), None, Value::Null);
    for (name, value) in members {
        match name.as_str() {
            "kind" => {
                kind = text(value);
                if kind == "Table" {
                    return None;
                }
            }
            "metadata" => metadata = serde_json::from_str(value.get()).ok()?,
            "items" if items.is_some() => return None,
            "items" if value.get() == "null" => {}
            "items" => items = Some(serde_json::from_str::<Vec<&RawValue>>(value.get()).ok()?),
            _ => {}
        }
    }
    if kind == "Status" || items.is_none() && !kind.ends_with("List") {
        return None;
    }
    let text = |name: &str| metadata.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
    Some((items.unwrap_or_default(), text("resourceVersion"), text("continue")))
}
