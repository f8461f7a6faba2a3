//! [`FrameDecoder`]: the body of a WATCH, frame by frame.
//!
//! Frames are JSON objects, one behind the other, with any white space between and within them, cut anywhere (C19). A
//! frame counts when its closing brace is there, without waiting for what comes next (B026). Events are appended to a
//! batch, many frames to one; a frame that says something about the stream itself stops the decoder, so that the
//! order stays visible: what the batch holds then came before it.
//!
//! ```
//! use informer_core::object::Version;
//! use informer_core::wire::{Control, Fed, FrameDecoder, Limits, RawBatch};
//!
//! let stream = br#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"8"}}}
//! {"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}
//! {"type":"DELETED","object":{"metadata":{"name":"a","resourceVersion":"10"}}}
//! "#;
//! let mut decoder = FrameDecoder::new(Limits::default());
//! let mut batch = RawBatch::new();
//! let mut rest: &[u8] = stream;
//! while let Fed::Control { consumed, control } = decoder.feed(rest, &mut batch).unwrap() {
//!     assert_eq!(batch.len(), 1);
//!     assert_eq!(control, Control::Bookmark { version: Version::new("9"), initial_events_end: false });
//!     rest = &rest[consumed..];
//! }
//! assert_eq!(batch.len(), 2);
//! assert!(decoder.is_clean());
//! ```

use super::batch::{ItemKind, RawBatch};
use super::error::WireError;
use super::excerpt::{clip, excerpt};
use super::limits::Limits;
use super::opening::{Opening, foreign};
use super::scan::{Field, Marks, Shape, is_space};
use super::status::Status;
use super::unit::{Json, Unit};
use crate::object::Version;
use alloc::borrow::Cow;
use alloc::string::String;
use serde_json::Value;

/// What an unknown event type is cut to, in bytes.
const EVENT_TYPE_BYTES: usize = 200;

/// How far a feed went.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "the bytes behind a control frame have not been read"]
pub enum Fed {
    /// All bytes were read.
    All,
    /// A control frame came. Feed the bytes from `consumed` on to go on behind it.
    Control {
        /// How many of the bytes were read: up to the end of the control frame.
        consumed: usize,
        /// What it says.
        control: Control,
    },
}

/// A frame about the stream itself.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Control {
    /// Everything up to this version was sent (C13). Its object is never one of the collection.
    Bookmark {
        /// `metadata.resourceVersion`; empty if the server sent none (F25).
        version: Version,
        /// True if it ends the initial events of a streaming list (C12): the annotation
        /// `k8s.io/initial-events-end` is `"true"`.
        initial_events_end: bool,
    },
    /// The server gave up on this stream (C18). Everything is 0 or empty in the status if the frame said nothing.
    Error(Status),
    /// An event of a type that is not known (B036); its object is passed over.
    Unknown {
        /// The type; at most 200 bytes.
        event_type: String,
    },
}

/// Reads the body of a WATCH.
#[derive(Debug)]
pub struct FrameDecoder {
    limits: Limits,
    unit: Unit,
    opening: Opening,
    is_open: bool,
    /// Bytes of the body before the current feed.
    offset: u64,
    failed: Option<WireError>,
}

impl FrameDecoder {
    /// A decoder of one body.
    pub fn new(limits: Limits) -> Self {
        let (unit, opening) = (Unit::new(), Opening::default());
        FrameDecoder { limits, unit, opening, is_open: false, offset: 0, failed: None }
    }

    /// Reads the next bytes, cut anywhere: appends each event that is complete to `out`, and stops behind a control
    /// frame.
    ///
    /// # Errors
    ///
    /// If the body is no sequence of watch frames; events before that place have been appended. The decoder then stays
    /// failed.
    pub fn feed(&mut self, bytes: &[u8], out: &mut RawBatch) -> Result<Fed, WireError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let mut at = 0;
        let result = self.read(bytes, &mut at, out);
        self.offset += at as u64;
        match result {
            Ok(Some(control)) => Ok(Fed::Control { consumed: at, control }),
            Ok(None) => Ok(Fed::All),
            Err(error) => {
                self.failed = Some(error.clone());
                Err(error)
            }
        }
    }

    /// True if the body may end here: no frame has been begun.
    pub fn is_clean(&self) -> bool {
        !self.unit.is_partial() && self.opening.at_the_end().is_none()
    }

    fn read(&mut self, bytes: &[u8], at: &mut usize, out: &mut RawBatch) -> Result<Option<Control>, WireError> {
        while let Some(&byte) = bytes.get(*at) {
            if !self.unit.is_partial() {
                if is_space(byte) && self.opening.at_the_end().is_none() {
                    *at += 1;
                    continue;
                }
                if !self.is_open && !self.opening.accept(&bytes[*at..])? {
                    *at += 1;
                    continue;
                }
                self.is_open = true;
                if byte != b'{' {
                    return Err(foreign(&bytes[*at..]));
                }
            }
            let Some(frame) = self.unit.read(Shape::Frame, bytes, at, self.offset, self.limits)? else { break };
            if let Some(control) = take(frame.json, &frame.marks, self.limits, out)? {
                return Ok(Some(control));
            }
        }
        Ok(None)
    }
}

/// Appends the event of a frame, or says what it is instead.
fn take(frame: Json<'_>, marks: &Marks, limits: Limits, out: &mut RawBatch) -> Result<Option<Control>, WireError> {
    let not_an_event = || WireError::NotAnEvent { prefix: excerpt(&frame) };
    let event_type = marks.text(Field::Type, &frame);
    let is_event = matches!(event_type.as_deref(), Some("ADDED" | "MODIFIED" | "DELETED"));
    if marks.is_too_deep() && !is_event {
        return Err(limits.too_deep());
    }
    let Some(event_type) = event_type else {
        // Some servers send a Status as it is (B023).
        return Status::from_json(&frame).map(|status| Some(Control::Error(status))).ok_or_else(not_an_event);
    };
    let object = marks.span(Field::Object);
    let kind = match &*event_type {
        "ADDED" => ItemKind::Added,
        "MODIFIED" => ItemKind::Modified,
        "DELETED" => ItemKind::Deleted,
        "BOOKMARK" => return bookmark(object.of(&frame), marks.text(Field::Version, &frame)).map(Some),
        "ERROR" => return Ok(Some(Control::Error(error(object.of(&frame))))),
        _ => {
            let mut event_type = event_type.into_owned();
            clip(&mut event_type, EVENT_TYPE_BYTES);
            return Ok(Some(Control::Unknown { event_type }));
        }
    };
    if !object.is_present() {
        return Err(not_an_event());
    }
    out.append(kind, frame, object.start as usize..object.end as usize, marks);
    Ok(None)
}

/// The object may be null or absent: then there is no version in it, which is for the caller to judge.
fn bookmark(object: &[u8], version: Option<Cow<'_, str>>) -> Result<Control, WireError> {
    // Rare (one a minute), so a tree costs nothing; annotations of any form pass.
    let object: Value = if object.is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(object).map_err(|_| WireError::NotAnEvent { prefix: excerpt(object) })?
    };
    let end = object.pointer("/metadata/annotations/k8s.io~1initial-events-end").and_then(Value::as_str);
    let version = Version::new(version.as_deref().unwrap_or(""));
    Ok(Control::Bookmark { version, initial_events_end: end == Some("true") })
}

/// What an ERROR frame says; if that is no Status, its message quotes what it is (F27).
fn error(object: &[u8]) -> Status {
    Status::from_json(object).unwrap_or_else(|| {
        let is_empty = matches!(serde_json::from_slice(object), Ok(Value::Null))
            || matches!(serde_json::from_slice(object), Ok(Value::Object(members)) if members.is_empty());
        Status { message: if is_empty { String::new() } else { excerpt(object) }, ..Status::default() }
    })
}
