//! [`ListDecoder`]: the body of a LIST, item by item.
//!
//! Items are handed on as their bytes arrive; of the page itself only kind, version and token are kept (B074). The
//! members may come in any order.
//!
//! ```text
//! Start ─ { ─► KeyOrEnd ──► Key ──► Colon ──► Value ──► CommaOrEnd ─ } ─► Finished
//!                            ▲                  │ items: [          │
//!                            │                  ▼                   │
//!                            │   FirstItem ──► Item ⇄ NextItem ─ ] ─┤
//!                            └────────────────── , ─────────────────┘
//! ```
//!
//! ```
//! use informer_core::wire::{Limits, ListDecoder, RawBatch};
//!
//! let mut decoder = ListDecoder::new(Limits::default());
//! let mut batch = RawBatch::new();
//! decoder.feed(br#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9","#, &mut batch).unwrap();
//! decoder.feed(br#""continue":"t"},"items":[{"metadata":{"name":"a"}},{"meta"#, &mut batch).unwrap();
//! assert_eq!(batch.get(0).name, "a"); // the second one is still on its way
//! decoder.feed(br#"data":{"name":"b"}}]}"#, &mut batch).unwrap();
//! assert_eq!(batch.get(1).name, "b");
//!
//! let end = decoder.finish().unwrap();
//! assert_eq!((end.kind.as_str(), end.version.as_str(), end.continue_token.as_str()), ("PodList", "9", "t"));
//! ```

use super::batch::{ItemKind, RawBatch};
use super::error::WireError;
use super::limits::Limits;
use super::opening::Opening;
use super::scan::{Shape, is_space, unescape};
use super::status::Status;
use super::unit::Unit;
use crate::object::Version;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::Value;

/// What a list says about itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ListEnd {
    /// Kind of the list, as in `PodList`; empty if the server sent none.
    pub kind: String,
    /// `apiVersion` of the list; empty if the server sent none.
    pub api_version: String,
    /// `metadata.resourceVersion`, from which a watch starts (C3); empty if the server sent none.
    pub version: Version,
    /// `metadata.continue`: the token of the next page; empty on the last one (C5).
    pub continue_token: String,
    /// `metadata.remainingItemCount`: an estimate, absent with selectors (C5).
    pub remaining: Option<u64>,
}

/// Reads the body of a LIST.
#[derive(Debug)]
pub struct ListDecoder {
    limits: Limits,
    phase: Phase,
    unit: Unit,
    opening: Opening,
    /// Bytes of the body before the current feed.
    offset: u64,
    member: Member,
    has_items: bool,
    end: ListEnd,
    /// The members of a Status, as the inside of an object.
    status: Vec<u8>,
    failed: Option<WireError>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Start,
    KeyOrEnd,
    Key,
    Colon,
    Value,
    CommaOrEnd,
    FirstItem,
    Item,
    NextItem,
    Finished,
}

/// The members of a list that are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Member {
    Kind,
    ApiVersion,
    Metadata,
    Items,
    /// A member of a Status, with its name.
    Status(&'static str),
    Other,
}

impl ListDecoder {
    /// A decoder of one body.
    pub fn new(limits: Limits) -> Self {
        ListDecoder {
            limits,
            phase: Phase::Start,
            unit: Unit::new(),
            opening: Opening::default(),
            offset: 0,
            member: Member::Other,
            has_items: false,
            end: ListEnd::default(),
            status: Vec::new(),
            failed: None,
        }
    }

    /// Reads the next bytes, cut anywhere, and appends each item that is complete to `out`.
    ///
    /// # Errors
    ///
    /// If the body is not a list; items before that place have been appended. The decoder then stays failed.
    pub fn feed(&mut self, bytes: &[u8], out: &mut RawBatch) -> Result<(), WireError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let result = self.read(bytes, out);
        self.offset += bytes.len() as u64;
        result.inspect_err(|error| self.failed = Some(error.clone()))
    }

    /// The body has ended.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`] if it ended too soon, [`WireError::NotAList`] if it is an object without items whose
    /// kind is that of no list, and what [`feed`](Self::feed) has said if that failed. `items` may be null or absent
    /// in a list: then it is empty.
    pub fn finish(self) -> Result<ListEnd, WireError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if let Some(error) = self.opening.at_the_end() {
            return Err(error);
        }
        if self.phase != Phase::Finished {
            return Err(WireError::Truncated);
        }
        // The kind of a custom list is free, but then it has items.
        if !self.has_items && !self.end.kind.ends_with("List") {
            return Err(WireError::NotAList { kind: self.end.kind });
        }
        Ok(self.end)
    }

    fn read(&mut self, bytes: &[u8], out: &mut RawBatch) -> Result<(), WireError> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if !self.unit.is_partial() && is_space(byte) {
                at += 1;
                continue;
            }
            match (self.phase, byte) {
                (Phase::Value, _) => self.value(bytes, &mut at)?,
                (Phase::FirstItem, b']') if !self.unit.is_partial() => self.step(&mut at, Phase::CommaOrEnd),
                (Phase::FirstItem | Phase::Item, _) => {
                    let item = self.unit.read(Shape::Item, bytes, &mut at, self.offset, self.limits)?;
                    // A cut item may not be taken for an empty list when its rest arrives.
                    self.phase = if item.is_some() { Phase::NextItem } else { Phase::Item };
                    if let Some(item) = item {
                        let whole = 0..item.json.len();
                        out.append(ItemKind::Listed, item.json, whole, &item.marks);
                    }
                }
                (Phase::NextItem, b',') => self.step(&mut at, Phase::Item),
                (Phase::NextItem, b']') => self.step(&mut at, Phase::CommaOrEnd),
                (Phase::KeyOrEnd | Phase::Key, b'"') => self.key(bytes, &mut at)?,
                (Phase::Key, _) if self.unit.is_partial() => self.key(bytes, &mut at)?,
                (Phase::Colon, b':') => self.step(&mut at, Phase::Value),
                (Phase::CommaOrEnd, b',') => self.step(&mut at, Phase::Key),
                (Phase::KeyOrEnd | Phase::CommaOrEnd, b'}') => {
                    self.step(&mut at, Phase::Finished);
                    self.closed()?;
                }
                (Phase::Start, _) => {
                    if self.opening.accept(&bytes[at..])? {
                        self.phase = Phase::KeyOrEnd;
                    }
                    at += 1;
                }
                (phase, _) => return Err(self.unexpected(phase, at)),
            }
        }
        Ok(())
    }

    fn step(&mut self, at: &mut usize, phase: Phase) {
        *at += 1;
        self.phase = phase;
    }

    fn unexpected(&self, phase: Phase, at: usize) -> WireError {
        let expected = match phase {
            Phase::KeyOrEnd => "a key in quotes or \"}\"",
            Phase::Key => "a key in quotes",
            Phase::Colon => "\":\"",
            Phase::CommaOrEnd => "\",\" or \"}\"",
            Phase::NextItem => "\",\" or \"]\"",
            Phase::Finished => "the end",
            Phase::Start | Phase::Value | Phase::FirstItem | Phase::Item => "a value",
        };
        WireError::Malformed { at: self.offset + at as u64, expected }
    }

    fn key(&mut self, bytes: &[u8], at: &mut usize) -> Result<(), WireError> {
        let key = self.unit.read(Shape::Any, bytes, at, self.offset, self.limits)?;
        self.phase = if key.is_some() { Phase::Colon } else { Phase::Key };
        let Some(key) = key else { return Ok(()) };
        self.member = match text(&key.json).as_str() {
            "kind" => Member::Kind,
            "apiVersion" => Member::ApiVersion,
            "metadata" => Member::Metadata,
            "items" => Member::Items,
            "status" => Member::Status("status"),
            "message" => Member::Status("message"),
            "reason" => Member::Status("reason"),
            "details" => Member::Status("details"),
            "code" => Member::Status("code"),
            _ => Member::Other,
        };
        Ok(())
    }

    fn value(&mut self, bytes: &[u8], at: &mut usize) -> Result<(), WireError> {
        if self.member == Member::Other {
            if self.unit.pass_over(bytes, at, self.offset, self.limits)? {
                self.phase = Phase::CommaOrEnd;
            }
            return Ok(());
        }
        if self.member == Member::Items && !self.unit.is_partial() {
            // The first ones have been handed on, so the last ones cannot replace them.
            if self.has_items {
                let at = self.offset + *at as u64;
                return Err(WireError::Malformed { at, expected: "no second \"items\"" });
            }
            if bytes.get(*at) == Some(&b'[') {
                self.has_items = true;
                self.step(at, Phase::FirstItem);
                return Ok(());
            }
        }
        let Some(value) = self.unit.read(Shape::Any, bytes, at, self.offset, self.limits)? else { return Ok(()) };
        self.phase = Phase::CommaOrEnd;
        match self.member {
            Member::Kind => {
                self.end.kind = text(&value.json);
                if self.end.kind == "Table" {
                    return Err(WireError::NotAList { kind: core::mem::take(&mut self.end.kind) });
                }
            }
            Member::ApiVersion => self.end.api_version = text(&value.json),
            Member::Metadata => {
                let metadata: Value = serde_json::from_slice(&value.json)
                    .map_err(|_| WireError::Malformed { at: value.start, expected: "metadata in valid JSON" })?;
                let text = |name: &str| metadata.get(name).and_then(Value::as_str).unwrap_or("");
                self.end.version = Version::new(text("resourceVersion"));
                self.end.continue_token = text("continue").into();
                self.end.remaining = metadata.get("remainingItemCount").and_then(Value::as_u64);
            }
            Member::Items if *value.json == *b"null" => {}
            Member::Items => return Err(WireError::Malformed { at: value.start, expected: "an array of items" }),
            Member::Status(name) => {
                if self.status.len() + value.json.len() > self.limits.bytes() {
                    return Err(WireError::TooLarge { limit: self.limits.bytes() });
                }
                for part in [b"\"", name.as_bytes(), b"\":", &value.json, b","] {
                    self.status.extend_from_slice(part);
                }
            }
            Member::Other => {}
        }
        Ok(())
    }

    /// The object is complete. A Status where a list should be is found now, when all of it is there.
    fn closed(&mut self) -> Result<(), WireError> {
        let is_status = self.end.kind == "Status" || self.end.kind.is_empty() && !self.has_items;
        if !is_status {
            return Ok(());
        }
        let kind: &[u8] = if self.end.kind.is_empty() { b"null" } else { b"\"Status\"" };
        let json = [b"{", self.status.as_slice(), b"\"kind\":", kind, b"}"].concat();
        match Status::from_json(&json) {
            Some(status) => Err(WireError::Status(status)),
            // Its members are no JSON: it is still a Status, of which nothing is known.
            None if self.end.kind == "Status" => Err(WireError::Status(Status::default())),
            None => Ok(()),
        }
    }
}

/// The text in a JSON string; empty if this is none.
fn text(json: &[u8]) -> String {
    match json {
        [b'"', inside @ .., b'"'] => unescape(inside).unwrap_or_default(),
        _ => String::new(),
    }
}
