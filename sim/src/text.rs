//! JSON as text: objects are stored and sent as the bytes that came in, so this file takes them apart and puts them
//! together again without building a tree.
//!
//! [`members`] reads one level of an object, [`minify`] drops white space outside strings, [`same`] compares by
//! meaning, and [`merge`] is the merge patch of RFC 7386.

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// Deepest nesting that a merge patch may have. The core reads 128 levels as well, and each level is a stack frame.
pub(crate) const MAX_DEPTH: usize = 128;

/// One level of a JSON object: names and the raw text of their values, in the order in which they were written.
///
/// A name that comes twice counts with its last value, as Go's decoder has it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Members<'a>(Vec<(Cow<'a, str>, &'a str)>);

impl<'a> Members<'a> {
    /// The raw text of a member's value.
    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(have, _)| have == name).map(|(_, value)| *value)
    }

    /// A member's value, if it is a string that holds something.
    pub(crate) fn string(&self, name: &str) -> Option<String> {
        self.get(name).and_then(|value| serde_json::from_str::<String>(value).ok()).filter(|text| !text.is_empty())
    }

    /// A member's value as a `T`; nothing if there is none or it is `null`. The error names `path`, which ends with the
    /// member's name.
    pub(crate) fn typed<T: Deserialize<'a>>(&self, path: &str) -> Result<Option<T>, serde_json::Error> {
        let name = path.rsplit('.').next().unwrap_or(path);
        let wrong = |error| serde_json::Error::custom(format_args!("{path}: {error}"));
        self.get(name).map_or(Ok(None), |text| serde_json::from_str(text).map_err(wrong))
    }

    /// A member's value as an object; empty if there is none or it is `null`.
    pub(crate) fn object(&self, name: &str) -> Result<Members<'a>, serde_json::Error> {
        match self.get(name) {
            None | Some("null") => Ok(Members::default()),
            Some(value) => members(value),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), *value))
    }

    fn set(&mut self, name: Cow<'a, str>, value: &'a str) {
        match self.0.iter_mut().find(|(have, _)| *have == name) {
            Some(slot) => slot.1 = value,
            None => self.0.push((name, value)),
        }
    }
}

/// Reads one level of an object.
pub(crate) fn members(text: &str) -> Result<Members<'_>, serde_json::Error> {
    struct OneLevel;

    impl<'de> Visitor<'de> for OneLevel {
        type Value = Members<'de>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a JSON object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
            let mut all = Members::default();
            while let Some(name) = map.next_key::<Name<'de>>()? {
                all.set(name.0, map.next_value::<&'de RawValue>()?.get());
            }
            Ok(all)
        }
    }

    let mut deserializer = serde_json::Deserializer::from_str(text);
    let all = deserializer.deserialize_map(OneLevel)?;
    deserializer.end()?;
    Ok(all)
}

/// A name that is borrowed unless it has escapes; serde alone would always copy a `Cow`.
struct Name<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Name<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// Drops white space outside strings; borrows if there is none. The text must be JSON.
pub(crate) fn minify(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let mut dense = String::new();
    let (mut at, mut kept) = (0, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
            }
            b' ' | b'\t' | b'\n' | b'\r' => {
                dense.push_str(&text[kept..at]);
                at += 1;
                kept = at;
            }
            _ => at += 1,
        }
    }
    if kept == 0 {
        return Cow::Borrowed(text);
    }
    dense.push_str(&text[kept..]);
    Cow::Owned(dense)
}

/// True if both texts mean the same value: the order of members and the way strings are escaped do not count.
pub(crate) fn same(a: &str, b: &str) -> bool {
    let value = serde_json::from_str::<serde_json::Value>;
    a == b || matches!((value(a), value(b)), (Ok(a), Ok(b)) if a == b)
}

/// Appends `"name":` to an object under construction, with a comma if it is not the first member.
pub(crate) fn open_member(out: &mut String, name: &str) {
    if !out.ends_with('{') {
        out.push(',');
    }
    push_string(out, name);
    out.push(':');
}

/// Appends a JSON string.
pub(crate) fn push_string(out: &mut String, text: &str) {
    out.push_str(&serde_json::to_string(text).expect("a string is always JSON"));
}

/// Appends a JSON array of strings.
pub(crate) fn push_strings(out: &mut String, texts: &[String]) {
    out.push_str(&serde_json::to_string(texts).expect("strings are always JSON"));
}

/// A merge patch that cannot be applied.
#[derive(Debug)]
pub(crate) enum MergeError {
    Json(serde_json::Error),
    TooDeep,
}

impl From<serde_json::Error> for MergeError {
    fn from(error: serde_json::Error) -> Self {
        MergeError::Json(error)
    }
}

impl fmt::Display for MergeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MergeError::Json(error) => write!(f, "error decoding patch: {error}"),
            MergeError::TooDeep => write!(f, "error decoding patch: nested deeper than {MAX_DEPTH} levels"),
        }
    }
}

/// Applies a merge patch (RFC 7386). What the patch does not name keeps its bytes and its place.
pub(crate) fn merge(target: &str, patch: &str) -> Result<String, MergeError> {
    let mut out = String::with_capacity(target.len() + patch.len());
    merge_into(&mut out, target, patch, 0)?;
    Ok(out)
}

fn merge_into(out: &mut String, target: &str, patch: &str, depth: usize) -> Result<(), MergeError> {
    let is_object = |text: &str| text.trim_start().starts_with('{');
    if depth >= MAX_DEPTH {
        return Err(MergeError::TooDeep);
    }
    if !is_object(patch) {
        out.push_str(patch);
        return Ok(());
    }
    let old = if is_object(target) { members(target)? } else { Members::default() };
    let new = members(patch)?;
    out.push('{');
    for (name, value) in old.iter() {
        match new.get(name) {
            Some("null") => {}
            None => {
                open_member(out, name);
                out.push_str(value);
            }
            Some(change) => {
                open_member(out, name);
                merge_into(out, value, change, depth + 1)?;
            }
        }
    }
    for (name, change) in new.iter().filter(|(name, change)| *change != "null" && old.get(name).is_none()) {
        open_member(out, name);
        merge_into(out, "null", change, depth + 1)?;
    }
    out.push('}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_order_and_raw_text() {
        let all = members(r#"{"b": [1, 2],"a":{"x":"\u0041"},"b":3, "esc\"aped":null}"#).unwrap();
        let list: Vec<_> = all.iter().collect();
        assert_eq!(list, [("b", "3"), ("a", r#"{"x":"\u0041"}"#), ("esc\"aped", "null")]);
        for bad in ["[]", "{", r#"{"a":1} x"#, r#"{"a":}"#, "1"] {
            assert!(members(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn white_space_goes_outside_strings_only() {
        let pretty = "{\n  \"a b\" : \"c \\\" d\\\\\" , \"é\" : [ 1 ,\t2 ]\r\n}";
        assert_eq!(minify(pretty), "{\"a b\":\"c \\\" d\\\\\",\"é\":[1,2]}");
        assert!(matches!(minify(r#"{"a b":1}"#), Cow::Borrowed(_)));
    }

    #[test]
    fn texts_are_compared_by_meaning() {
        assert!(same(r#"{"a":1,"b":"A"}"#, r#"{"b":"\u0041","a":1}"#));
        assert!(!same(r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#));
    }

    /// The examples of RFC 7386, appendix A.
    #[test]
    fn merge_patches_do_what_the_rfc_says() {
        for (target, patch, result) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, "{}"),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#),
            (r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#),
            (r#"{"a":"foo"}"#, "null", "null"),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
            ("[1,2]", r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
            ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
        ] {
            assert_eq!(merge(target, patch).unwrap(), result, "{target} + {patch}");
        }
    }

    #[test]
    fn a_patch_that_nests_too_deep_is_refused() {
        let deep = |levels: usize| r#"{"a":"#.repeat(levels) + "1" + &"}".repeat(levels);
        assert!(merge("{}", &deep(MAX_DEPTH - 1)).is_ok());
        assert!(matches!(merge("{}", &deep(MAX_DEPTH)), Err(MergeError::TooDeep)));
    }
}
