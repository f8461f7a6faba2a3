//! serde_json's opinion, in the form in which the decoders give theirs.

use informer_core::wire::RawItem;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use std::fmt;

/// Nesting beyond which the two opinions may differ: serde_json counts otherwise than we do.
const DEPTH: usize = 120;

/// The members of an object in the order of the text, duplicates included.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> serde::Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

/// The members of the object in `text`; `None` if that is no valid JSON object.
pub(crate) fn members(text: &str) -> Option<Vec<(String, &RawValue)>> {
    serde_json::from_str::<Members<'_>>(text).ok().map(|members| members.0)
}

/// True if `text` nests deeper than both opinions agree on.
pub(crate) fn is_deep(text: &str) -> bool {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest > DEPTH
}

/// The text in a JSON string; empty for any other value.
pub(crate) fn text(value: &RawValue) -> String {
    serde_json::from_str(value.get()).unwrap_or_default()
}

/// An object as a decoder sees it: kind of item, identity, JSON.
pub(crate) fn describe(item: &RawItem<'_>) -> String {
    let identity = [item.namespace, item.name, item.uid, item.version, item.api_version, item.object_kind];
    format!("{:?} {identity:?} {}", item.kind, String::from_utf8_lossy(item.json))
}

/// The same by way of a tree; `None` if serde_json makes no tree of it, and so has no opinion.
pub(crate) fn expect(kind: &str, json: &str) -> Option<String> {
    let object: Value = serde_json::from_str(json).ok()?;
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or("").to_owned();
    let metadata = |name: &str| text(object.get("metadata").and_then(|metadata| metadata.get(name)));
    let identity = [
        metadata("namespace"),
        metadata("name"),
        metadata("uid"),
        metadata("resourceVersion"),
        text(object.get("apiVersion")),
        text(object.get("kind")),
    ];
    Some(format!("{kind} {identity:?} {json}"))
}
