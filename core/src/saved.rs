//! [`Saved`]: the state of a cache, to begin the next run with.
//!
//! A program that starts has an empty cache until its first list is complete, and cannot know what was deleted while it
//! was away. Given the state of an earlier run ([`Store::preload`], [`InformerConfig::preloaded`]):
//!
//! - readers have it at once; nobody is synced before the first complete list of this run;
//! - that list is asked for at the saved version or a later one, as a relist is, and nothing that is unchanged is decoded;
//! - handlers are told nothing before it is complete. Then each one that was there is told of what was saved, as its
//!   initial state (`initial` is true), then of the difference with cause [`Relist`](crate::listener::Cause::Relist):
//!   added, updated, deleted with an unknown final state; then it is synced. So each object that is unchanged is told
//!   once, and added → updated* → deleted holds for what is not (I11);
//! - a handler that comes later is told of the present state, as ever (I19).
//!
//! As text it is lines of JSON: one that says of what and how many, then one per object. How an object becomes JSON and
//! back is the caller's choice: identity and version stand beside it, whatever a transform left of it. The first line also
//! names the type of the objects, or what the caller calls their form: what another program, or an earlier one, has
//! written in another form is refused, and never half understood.
//!
//! ```
//! use informer_core::saved::Saved;
//! use informer_core::store::Store;
//! use informer_core::{DynamicObject, Obj, Object, Resource, Version};
//!
//! let pods = Resource::namespaced("", "v1", "pods", "Pod");
//! let json = br#"{"metadata": {"namespace": "web", "name": "a", "uid": "u", "resourceVersion": "7"}}"#;
//! let pod = Obj::of(DynamicObject::decode(json, &pods).unwrap()).unwrap();
//! let saved = Saved::new("pods", [pod], Version::new("9"));
//! let lines: Vec<String> = saved.lines(|pod| Ok(pod.json().to_string())).collect::<Result<_, _>>().unwrap();
//!
//! let lines = lines.iter().map(String::as_str);
//! let again = Saved::read("pods", lines, |json| DynamicObject::decode(json.as_bytes(), &pods)).unwrap();
//! let mut store = Store::new(7);
//! store.preload(again.objects().iter().cloned(), again.version().clone());
//! assert_eq!(store.get("web/a").unwrap().json(), std::str::from_utf8(json).unwrap());
//! assert!(!store.is_populated() && store.version() == *"9");
//! ```
//!
//! Of a type that serde writes and reads:
//!
//! ```
//! use informer_core::saved::{Saved, SavedError};
//! use informer_core::{Key, Obj, Uid, Version};
//!
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct Widget {
//!     size: u32,
//! }
//!
//! let widget = Obj::new(Key::new("web", "a"), Uid::new("u"), Version::new("7"), Widget { size: 3 });
//! let saved = Saved::new("widgets", [widget], Version::new("9"));
//! let lines = saved.lines(|widget| Ok(serde_json::to_string(widget)?)).collect::<Result<Vec<_>, _>>()?;
//!
//! let lines = lines.iter().map(String::as_str);
//! let again = Saved::<Widget>::read("widgets", lines, |json| Ok(serde_json::from_str(json)?))?;
//! assert_eq!(again.objects()[0].size, 3);
//! # Ok::<(), SavedError>(())
//! ```
//!
//! [`InformerConfig::preloaded`]: crate::informer::InformerConfig::preloaded

use crate::decode::BadItem;
use crate::object::{DecodeError, Key, Obj, Uid, Version};
use crate::store::Store;
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::any::type_name;
use core::fmt;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The form of the lines.
const FORM: u32 = 1;

/// The objects of a collection at one version.
#[derive(Clone)]
pub struct Saved<T> {
    of: String,
    schema: String,
    objects: Vec<Obj<T>>,
    version: Version,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header<'a> {
    informer_state: u32,
    #[serde(borrow)]
    of: Cow<'a, str>,
    /// Absent where nobody said.
    #[serde(borrow, default)]
    schema: Cow<'a, str>,
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
    objects: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    key: &'a str,
    uid: String,
    resource_version: &'a str,
    object: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Read<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    #[serde(borrow)]
    uid: Cow<'a, str>,
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl<T> Saved<T> {
    /// The objects that a collection had at `version`. `of` says which collection, as an informer's
    /// [`Scope`](crate::factory::Scope) prints; empty if nobody is to check it.
    pub fn new(of: &str, objects: impl IntoIterator<Item = Obj<T>>, version: Version) -> Self {
        let schema = type_name::<T>().to_string();
        Saved { of: of.to_string(), schema, objects: objects.into_iter().collect(), version }
    }

    /// With a name of one's own for the form of the objects, in place of that of their type: to be changed whenever what an
    /// earlier run has written is not to be read. The compiler's name does not change with the fields of a type or with what
    /// a transform leaves of an object.
    #[must_use]
    pub fn with_schema(mut self, schema: &str) -> Self {
        self.schema = schema.to_string();
        self
    }

    /// What a store holds, if it stands for a version. What could not be decoded is left out: the next list has it.
    pub fn of_store(of: &str, store: &Store<T>) -> Option<Self> {
        let version = store.version().to_version();
        (!version.is_empty()).then(|| Saved::new(of, store.iter().cloned(), version))
    }

    /// Of which collection; may be empty.
    pub fn of(&self) -> &str {
        &self.of
    }

    /// The form of the objects: the name of their type, unless [another](Self::with_schema) was given.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// The objects.
    pub fn objects(&self) -> &[Obj<T>] {
        &self.objects
    }

    /// The version that they stand for together.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// Takes it apart: objects and version.
    pub fn into_parts(self) -> (Vec<Obj<T>>, Version) {
        (self.objects, self.version)
    }

    /// The lines to write, without their line feeds. `json` gives the JSON of one value.
    pub fn lines<'a>(
        &'a self,
        json: impl Fn(&T) -> Result<String, DecodeError> + 'a,
    ) -> impl Iterator<Item = Result<String, SavedError>> + 'a {
        let header = Header {
            informer_state: FORM,
            of: Cow::Borrowed(&self.of),
            schema: Cow::Borrowed(&self.schema),
            resource_version: Cow::Borrowed(self.version.as_str()),
            objects: self.objects.len(),
        };
        let header = serde_json::to_string(&header).map_err(|error| SavedError::at(1, error));
        let line = move |(at, object): (usize, &Obj<T>)| {
            let bad = |error: &dyn fmt::Display| {
                let bad = BadItem::new(Some(object.key().to_key()), object.version().to_version(), error);
                SavedError::at(at + 2, bad)
            };
            let mut json = json(object.value()).map_err(|error| bad(&error))?;
            if json.contains(['\n', '\r']) {
                // Between tokens only: inside a text they would be escaped.
                json = json.replace(['\n', '\r'], " ");
            }
            let raw: Box<RawValue> = RawValue::from_string(json).map_err(|error| bad(&error))?;
            let written = Written {
                key: object.key().as_str(),
                uid: object.uid().to_string(),
                resource_version: object.version().as_str(),
                object: &raw,
            };
            serde_json::to_string(&written).map_err(|error| bad(&error))
        };
        core::iter::once(header).chain(self.objects.iter().enumerate().map(line))
    }

    /// Reads what [`lines`](Self::lines) wrote. `build` makes a value of its JSON; a transform is not run again by anyone.
    ///
    /// # Errors
    ///
    /// [`SavedError`] names the line: one that cannot be read or built, a state of another collection than `of` (if both
    /// say of which) or of another type than `T`, lines that are missing or too many. Then begin without it.
    pub fn read<'a>(
        of: &str,
        lines: impl IntoIterator<Item = &'a str>,
        build: impl FnMut(&str) -> Result<T, DecodeError>,
    ) -> Result<Self, SavedError> {
        Saved::read_as(of, type_name::<T>(), lines, build)
    }

    /// The same for a form with a name of [one's own](Self::with_schema).
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn read_as<'a>(
        of: &str,
        schema: &str,
        lines: impl IntoIterator<Item = &'a str>,
        mut build: impl FnMut(&str) -> Result<T, DecodeError>,
    ) -> Result<Self, SavedError> {
        let mut lines = lines.into_iter();
        let header = lines.next().ok_or_else(|| SavedError::at(1, "there is none, not even the first"))?;
        let header: Header<'_> = serde_json::from_str(header).map_err(|error| SavedError::at(1, error))?;
        if header.informer_state != FORM {
            let form = header.informer_state;
            return Err(SavedError::at(1, format_args!("it is of form {form}, and form {FORM} is understood")));
        }
        SavedError::check_of(&header.of, of)?;
        SavedError::check_schema(&header.schema, schema)?;
        let mut objects = Vec::new();
        for (at, line) in lines.enumerate() {
            let at = at + 2;
            let read: Read<'_> = serde_json::from_str(line).map_err(|error| SavedError::at(at, error))?;
            let key: Key = read.key.parse().map_err(|error| SavedError::at(at, error))?;
            let version = Version::new(&read.resource_version);
            let value = build(read.object.get())
                .map_err(|error| SavedError::at(at, BadItem::new(Some(key.clone()), version.clone(), error)))?;
            objects.push(Obj::new(key, Uid::new(&read.uid), version, value));
        }
        if objects.len() != header.objects {
            let (has, said) = (objects.len(), header.objects);
            return Err(SavedError::at(has + 1, format_args!("it is the last one, of {has} objects, not {said}")));
        }
        let version = Version::new(&header.resource_version);
        Ok(Saved { of: header.of.into_owned(), schema: schema.to_string(), objects, version })
    }
}

impl<T> fmt::Debug for Saved<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} objects of {:?} at version {}", self.objects.len(), self.of, self.version)
    }
}

/// Why a saved state cannot be used or written.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SavedError {
    /// A line is of no use.
    Line {
        /// Which one, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// It is the state of another collection: all of its objects would be told as deleted.
    Other {
        /// Whose state it is.
        is: String,
        /// Whose was wanted.
        wanted: String,
    },
    /// Its objects have another form.
    OtherSchema {
        /// Which one.
        is: String,
        /// Which one was wanted.
        wanted: String,
    },
}

impl SavedError {
    fn at(line: usize, reason: impl fmt::Display) -> Self {
        SavedError::Line { line, reason: reason.to_string() }
    }

    /// That a state of `is` may begin an informer of `wanted`; what is empty says nothing.
    ///
    /// # Errors
    ///
    /// [`SavedError::Other`] if not.
    pub fn check_of(is: &str, wanted: &str) -> Result<(), Self> {
        if is == wanted || is.is_empty() || wanted.is_empty() {
            return Ok(());
        }
        Err(SavedError::Other { is: is.to_string(), wanted: wanted.to_string() })
    }

    /// The same of the form of the objects.
    ///
    /// # Errors
    ///
    /// [`SavedError::OtherSchema`] if it is another one.
    pub fn check_schema(is: &str, wanted: &str) -> Result<(), Self> {
        if is == wanted || is.is_empty() || wanted.is_empty() {
            return Ok(());
        }
        Err(SavedError::OtherSchema { is: is.to_string(), wanted: wanted.to_string() })
    }
}

impl fmt::Display for SavedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SavedError::Line { line, reason } => write!(f, "line {line} of a saved state: {reason}"),
            SavedError::Other { is, wanted } => {
                write!(f, "the saved state is that of {is}, not of {wanted}: begin without it, or with the right one")
            }
            SavedError::OtherSchema { is, wanted } => {
                write!(f, "the objects of the saved state are of the form {is}, not {wanted}: begin without it")
            }
        }
    }
}

impl fmt::Debug for SavedError {
    /// The text of Display: `main` prints errors so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for SavedError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    fn saved() -> Saved<u32> {
        let object = |name: &str, value: u32| {
            Obj::new(Key::new("web", name), Uid::new("u"), Version::new(&value.to_string()), value)
        };
        Saved::new("numbers", [object("a", 7), object("b", 8)], Version::new("9"))
    }

    fn lines() -> Vec<String> {
        // With a line feed, as a pretty printer puts them.
        saved().lines(|value| Ok(format!("{{\n\"n\": {value}}}"))).collect::<Result<_, _>>().unwrap()
    }

    fn read(of: &str, lines: &[String]) -> Result<Saved<u32>, SavedError> {
        Saved::read(of, lines.iter().map(String::as_str), |json| {
            let digits: String = json.chars().filter(char::is_ascii_digit).collect();
            digits.parse().map_err(DecodeError::new)
        })
    }

    #[test]
    fn what_was_written_is_read_one_line_per_object() {
        let lines = lines();
        assert_eq!(lines[0], r#"{"informerState":1,"of":"numbers","schema":"u32","resourceVersion":"9","objects":2}"#);
        assert_eq!(lines[1], r#"{"key":"web/a","uid":"u","resourceVersion":"7","object":{ "n": 7}}"#);
        let again = read("numbers", &lines).unwrap();
        assert_eq!(format!("{:?} {:?}", again, again.objects()), format!("{:?} {:?}", saved(), saved().objects()));
        assert_eq!(again.objects().iter().map(|object| **object).collect::<Vec<_>>(), [7, 8]);
    }

    #[test]
    fn what_was_cut_or_is_of_another_collection_is_refused_by_line() {
        let whole = lines();
        let mut odd = whole.clone();
        odd[2] = odd[2].replace("web/b", "a/b/c");
        let mut unbuilt = whole.clone();
        unbuilt[1] = unbuilt[1].replace("\"n\": 7", "\"n\": false");
        let mut newer = whole.clone();
        newer[0] = newer[0].replace(":1,", ":2,");
        for (lines, wanted) in [
            (&whole[..0], "line 1 of a saved state: there is none"),
            (&whole[1..], "line 1 of a saved state: missing field"),
            (&whole[..2], "line 2 of a saved state: it is the last one, of 1 objects, not 2"),
            (&odd[..], "line 3 of a saved state: \"a/b/c\" is no key"),
            (&unbuilt[..], "line 2 of a saved state: web/a at version 7 cannot be used"),
            (&newer[..], "line 1 of a saved state: it is of form 2, and form 1 is understood"),
        ] {
            let error = read("numbers", lines).unwrap_err().to_string();
            assert!(error.starts_with(wanted), "{error}");
        }
        let error = read("letters", &whole).unwrap_err().to_string();
        assert!(error.starts_with("the saved state is that of numbers, not of letters"), "{error}");
        assert!(read("", &whole).is_ok());
    }

    #[test]
    fn a_state_in_another_form_is_refused_and_one_whose_form_nobody_said_is_not() {
        let texts = lines();
        let as_text = |schema: &str| {
            let lines = texts.iter().map(String::as_str);
            Saved::<String>::read_as("numbers", schema, lines, |json| Ok(json.to_string())).map(|saved| saved.schema)
        };
        let error = as_text("text").unwrap_err().to_string();
        assert_eq!(error, "the objects of the saved state are of the form u32, not text: begin without it");
        let own = saved().with_schema("numbers v2");
        let own: Vec<String> = own.lines(|value| Ok(value.to_string())).collect::<Result<_, _>>().unwrap();
        assert!(
            matches!(read("numbers", &own), Err(SavedError::OtherSchema { is, wanted }) if is == "numbers v2" && wanted == "u32")
        );
        let again = Saved::read_as("numbers", "numbers v2", own.iter().map(String::as_str), |_| Ok(7_u8)).unwrap();
        assert_eq!(again.schema(), "numbers v2");
        let mut silent = texts.clone();
        silent[0] = silent[0].replace(r#""schema":"u32","#, "");
        assert_eq!(read("numbers", &silent).unwrap().schema(), "u32");
    }
}
