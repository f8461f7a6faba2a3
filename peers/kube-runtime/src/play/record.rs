//! Outcomes as files: one request, event or error a line, and rewritten only if more than times has changed.

use informer_conformance::outcome::Outcome;
use serde_json::{Map, Value};
use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

/// Writes `outcome` into `folder`, unless one of the same shape is there: what differs between two recordings of one
/// behaviour is jitter, and would be noise in the history. Says whether it wrote.
pub(crate) fn record(folder: &Path, outcome: &Outcome) -> io::Result<bool> {
    let new: Value = serde_json::from_str(&outcome.to_json())?;
    let file = folder.join(format!("{}.json", outcome.name));
    let old = fs::read_to_string(&file).ok().and_then(|text| serde_json::from_str::<Value>(&text).ok());
    if old.is_some_and(|old| shape(old) == shape(new.clone())) {
        return Ok(false);
    }
    fs::create_dir_all(folder)?;
    fs::write(&file, format(&new))?;
    Ok(true)
}

/// What an outcome tells beside times and the order between keys.
fn shape(mut outcome: Value) -> Value {
    timeless(&mut outcome);
    if let Some(Value::Object(handlers)) = outcome.get_mut("handlers") {
        for events in handlers.values_mut().filter_map(Value::as_array_mut) {
            events.sort_by_key(|event| event.get("key").and_then(Value::as_str).map(str::to_owned));
        }
    }
    outcome
}

fn timeless(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, value| name != "atMs" && !value.is_null());
            for (name, value) in members.iter_mut() {
                if name == "stoppedAtMs" {
                    *value = Value::Bool(true);
                }
                timeless(value);
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(timeless),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The text of an outcome, as the recorded ones of other peers are laid out.
fn format(outcome: &Value) -> String {
    let empty = Map::new();
    let members = outcome.as_object().unwrap_or(&empty);
    let mut parts = Vec::new();
    for (name, value) in members.iter().filter(|(_, value)| !value.is_null()) {
        let text = match value {
            Value::Object(handlers) if name == "handlers" => {
                let arrays = handlers.iter().map(|(name, events)| format!("  {}: {}", quoted(name), lines(events)));
                format!("{{\n{}\n }}", arrays.collect::<Vec<_>>().join(",\n"))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
                lines(value)
            }
        };
        parts.push(format!(" {}: {text}", quoted(name)));
    }
    format!("{{\n{}\n}}\n", parts.join(",\n"))
}

/// An array with an element a line, anything else on one line.
fn lines(value: &Value) -> String {
    match value {
        Value::Array(elements) if !elements.is_empty() => {
            let elements = elements.iter().map(|element| format!("   {}", spaced(element)));
            format!("[\n{}\n  ]", elements.collect::<Vec<_>>().join(",\n"))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            spaced(value)
        }
    }
}

/// A value on one line, with a space after each comma and colon, and without members that are null.
fn spaced(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(members) => {
            out.push('{');
            for (n, (name, value)) in members.iter().filter(|(_, value)| !value.is_null()).enumerate() {
                let comma = if n == 0 { "" } else { ", " };
                _ = write!(out, "{comma}{}: {}", quoted(name), spaced(value)); // into a String: cannot fail
            }
            out.push('}');
        }
        Value::Array(elements) => {
            _ = write!(out, "[{}]", elements.iter().map(spaced).collect::<Vec<_>>().join(", "));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => out = value.to_string(),
    }
    out
}

fn quoted(name: &str) -> String {
    Value::from(name).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(at_ms: u64, version: &str) -> Outcome {
        let text = format!(
            r#"{{"name": "n", "runtime": "kube-rs", "phase": "stopped", "stoppedAtMs": {at_ms},
                "requests": [{{"atMs": {at_ms}, "verb": "list", "path": "/p", "query": {{}}}}],
                "handlers": {{"h": [{{"atMs": {at_ms}, "type": "synced"}}]}},
                "errors": [], "store": {{"resourceVersion": "{version}", "objects": {{}}, "indexes": {{}}}}}}"#
        );
        Outcome::from_str(&text).expect("an outcome")
    }

    #[test]
    fn what_is_written_reads_as_what_it_was() {
        let outcome = outcome(3, "5");
        let text = format(&serde_json::from_str(&outcome.to_json()).expect("JSON"));
        assert_eq!(Outcome::from_str(&text).expect("an outcome"), outcome);
        assert!(text.contains("\n   {\"atMs\": 3, \"verb\": \"list\""), "{text}");
    }

    #[test]
    fn a_recording_is_rewritten_for_more_than_times_only() {
        let folder = std::env::temp_dir().join(format!("kube-rs-record-{}", std::process::id()));
        let wrote =
            [outcome(3, "5"), outcome(4, "5"), outcome(4, "6")].map(|new| record(&folder, &new).expect("written"));
        fs::remove_dir_all(&folder).expect("a folder");
        assert_eq!(wrote, [true, false, true]);
    }
}
