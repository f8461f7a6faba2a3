//! An incremental scanner of JSON structure: finds where a value ends, and notes on the way where the identity of the
//! object in it stands.
//!
//! One pass over the bytes, so that neither list items nor watch events are scanned a second time for their metadata.
//! Most of an object (spec, status, managedFields) has nothing of interest: there only strings and brackets are
//! followed. The few places that matter (the frame, the object, its metadata) are read by the grammar.
//!
//! ```text
//! Value ─ { ─► KeyOrEnd ─ " ─► KeyString ─ " ─► Colon ─ : ─► Value
//!   │              ▲ Key ◄──────────── , ──────── CommaOrEnd ◄─┘ ValueString, Scalar, Skip: the value is over
//!   └ other { [ ─► Skip ⇄ SkipString                  └ } ─► the place around it
//! ```
//!
//! What it does not check: numbers, literals, escapes and UTF-8 within strings, commas and colons in skipped parts. The
//! decoder of the object does. What it finds itself: brackets that do not match, and bytes that JSON never has
//! outside of strings. A value that is nested too deeply is scanned to its end and marked as such: one object of that kind
//! must not stop a whole collection. Below that depth brackets are only counted.
//!
//! The scanner stops where the bytes end and goes on when it is called with more: the buffer must then begin with the
//! same bytes. A value is read in time linear to its length however it is cut.

use super::limits::DEPTH;
use alloc::borrow::Cow;
use alloc::string::String;
use memchr::memchr2;

/// Which value is scanned, and so which fields are noted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// Any value; nothing is noted.
    Any,
    /// An object of the API.
    Item,
    /// A watch frame: `type`, and `object` with an object of the API in it.
    Frame,
}

/// A field whose place is noted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Field {
    Namespace,
    Name,
    Uid,
    Version,
    ApiVersion,
    Kind,
    /// `type` of a watch frame.
    Type,
    /// `object` of a watch frame; its mark spans the value, not the inside of a string.
    Object,
    Metadata,
    Other,
}

/// How many fields have a mark: those before `Metadata`.
const MARKED: usize = 8;

/// The fields of `metadata`, in the order of [`Field`].
const OF_METADATA: core::ops::Range<usize> = 0..4;

/// The fields of an object, in the order of [`Field`].
pub(crate) const OF_ITEM: core::ops::Range<usize> = 0..6;

/// Of how many open brackets the kind is known.
const TRACKED: usize = u128::BITS as usize;

/// A range of bytes, from the start of the scanned value. `end` is 0 if the field is absent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    /// Positions within one value, which is never longer than `Limits::bytes`.
    pub(crate) fn new(start: usize, end: usize) -> Self {
        Span { start: start as u32, end: end as u32 }
    }

    pub(crate) fn is_present(self) -> bool {
        self.end != 0
    }

    /// The bytes of this span in `buf`; empty if they are not there.
    pub(crate) fn of(self, buf: &[u8]) -> &[u8] {
        buf.get(self.start as usize..self.end as usize).unwrap_or(&[])
    }
}

/// Where the noted fields stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Marks {
    spans: [Span; MARKED],
    /// One bit per field: there is a backslash in it.
    escaped: u8,
    too_deep: bool,
}

impl Marks {
    /// Nothing noted.
    pub(crate) const NONE: Marks = Marks { spans: [Span { start: 0, end: 0 }; MARKED], escaped: 0, too_deep: false };

    pub(crate) fn span(&self, field: Field) -> Span {
        self.spans.get(field as usize).copied().unwrap_or_default()
    }

    pub(crate) fn is_escaped(&self, index: usize) -> bool {
        self.escaped >> index & 1 != 0
    }

    /// More open brackets than allowed.
    pub(crate) fn is_too_deep(&self) -> bool {
        self.too_deep
    }

    pub(crate) fn item_spans(&self) -> [Span; 6] {
        let [namespace, name, uid, version, api_version, kind, ..] = self.spans;
        [namespace, name, uid, version, api_version, kind]
    }

    /// The noted string, its escapes decoded; `None` if it is absent or no valid UTF-8.
    pub(crate) fn text<'a>(&self, field: Field, buf: &'a [u8]) -> Option<Cow<'a, str>> {
        let span = self.span(field);
        if !span.is_present() {
            return None;
        }
        if self.is_escaped(field as usize) {
            return unescape(span.of(buf)).map(Cow::Owned);
        }
        core::str::from_utf8(span.of(buf)).ok().map(Cow::Borrowed)
    }

    fn set(&mut self, field: Field, start: usize, end: usize, escaped: bool) {
        if let Some(span) = self.spans.get_mut(field as usize) {
            *span = Span::new(start, end);
            self.escaped = self.escaped & !(1 << field as u8) | u8::from(escaped) << field as u8;
        }
    }

    fn forget(&mut self, fields: core::ops::Range<usize>) {
        for index in fields {
            self.spans[index] = Span::default();
            self.escaped &= !(1 << index);
        }
    }
}

/// Decodes the inside of a JSON string.
pub(crate) fn unescape(inside: &[u8]) -> Option<String> {
    let mut quoted = alloc::vec::Vec::with_capacity(inside.len() + 2);
    quoted.push(b'"');
    quoted.extend_from_slice(inside);
    quoted.push(b'"');
    serde_json::from_slice(&quoted).ok()
}

/// Why a value cannot be scanned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ScanError {
    /// At `at` (from the start of the value) stands a byte that is not `expected`.
    Unexpected { at: usize, expected: &'static str },
    /// More open brackets than allowed, in a value without objects of the API.
    TooDeep,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Value,
    KeyOrEnd,
    Key,
    KeyString,
    Colon,
    ValueString,
    Scalar,
    CommaOrEnd,
    Skip,
    SkipString,
    Done,
}

/// The object that is being read by the grammar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Top,
    Frame,
    Item,
    Metadata,
}

/// The state of one value that is being scanned.
#[derive(Clone, Debug)]
pub(crate) struct Scanner {
    shape: Shape,
    state: State,
    place: Place,
    field: Field,
    /// The next byte to look at.
    pos: usize,
    /// Start of the inside of the string that is being read.
    token: usize,
    escaped: bool,
    /// The bytes ended behind a backslash.
    in_escape: bool,
    depth: usize,
    max_depth: usize,
    /// The depth at which a skipped part began.
    skip_from: usize,
    /// One bit per open bracket, the innermost lowest: 1 for `{`, 0 for `[`. Of the outermost [`TRACKED`] brackets.
    stack: u128,
    marks: Marks,
}

impl Scanner {
    /// A scanner of one value whose first byte is the first of the buffer.
    pub(crate) fn new(shape: Shape, max_depth: usize) -> Self {
        Scanner {
            shape,
            state: State::Value,
            place: Place::Top,
            field: Field::Other,
            pos: 0,
            token: 0,
            escaped: false,
            in_escape: false,
            depth: 0,
            // An object may be as deep in a frame as it may be in a list: what happens to it must not depend on the way.
            max_depth: max_depth.min(DEPTH) + usize::from(shape == Shape::Frame),
            skip_from: 0,
            stack: 0,
            marks: Marks::default(),
        }
    }

    /// Goes on in `buf`, which begins with the value. `Some(end)` when the value is over: a number or literal ends at
    /// the first byte behind it, so it needs one byte more.
    pub(crate) fn scan(&mut self, buf: &[u8]) -> Result<Option<usize>, ScanError> {
        loop {
            match self.state {
                State::Done => return Ok(Some(self.pos)),
                State::Skip | State::SkipString => {
                    if !self.skip(buf)? {
                        return Ok(None);
                    }
                    self.value_is_over();
                }
                State::KeyString => {
                    let Some(end) = self.string(buf) else { return Ok(None) };
                    self.field = self.field_of(buf.get(self.token..end).unwrap_or(&[]));
                    self.state = State::Colon;
                }
                State::ValueString => {
                    let Some(end) = self.string(buf) else { return Ok(None) };
                    self.marks.set(self.marked_string(), self.token, end, self.escaped);
                    self.value_is_over();
                }
                State::Scalar => {
                    let rest = buf.get(self.pos..).unwrap_or(&[]);
                    let Some(length) = rest.iter().position(|&byte| CLASS[byte as usize] != SCALAR) else {
                        self.pos = buf.len();
                        return Ok(None);
                    };
                    self.pos += length;
                    self.value_is_over();
                }
                State::Value | State::KeyOrEnd | State::Key | State::Colon | State::CommaOrEnd => {
                    let Some(&byte) = buf.get(self.pos) else { return Ok(None) };
                    if CLASS[byte as usize] != SPACE {
                        self.token_at(byte)?;
                    }
                    self.pos += 1;
                }
            }
        }
    }

    /// Where the noted fields stand, when the value is over.
    pub(crate) fn marks(&self) -> &Marks {
        &self.marks
    }

    /// Forgets the bytes before the current position, so that the next buffer begins there. Only for
    /// [`Shape::Any`], which notes nothing. Says how many bytes were forgotten.
    pub(crate) fn forget(&mut self) -> usize {
        debug_assert!(self.shape == Shape::Any);
        core::mem::take(&mut self.pos)
    }

    /// One byte of structure at `pos`, in a place that is read by the grammar.
    fn token_at(&mut self, byte: u8) -> Result<(), ScanError> {
        let unexpected = |expected| Err(ScanError::Unexpected { at: self.pos, expected });
        match (self.state, byte) {
            (State::Value, _) => return self.value_at(byte),
            (State::KeyOrEnd | State::Key, b'"') => self.start_string(State::KeyString),
            (State::Colon, b':') => self.state = State::Value,
            (State::CommaOrEnd, b',') => self.state = State::Key,
            (State::KeyOrEnd | State::CommaOrEnd, b'}') => {
                self.close();
                (self.place, self.field) = match self.place {
                    Place::Metadata => (Place::Item, Field::Metadata),
                    Place::Item if self.shape == Shape::Frame => (Place::Frame, Field::Object),
                    Place::Item | Place::Frame | Place::Top => (Place::Top, Field::Other),
                };
                self.pos += 1;
                self.value_is_over();
                self.pos -= 1; // the caller steps over the bracket
            }
            (State::KeyOrEnd, _) => return unexpected("a key in quotes or \"}\""),
            (State::Key, _) => return unexpected("a key in quotes"),
            (State::Colon, _) => return unexpected("\":\""),
            _ => return unexpected("\",\" or \"}\""),
        }
        Ok(())
    }

    /// The first byte of a value.
    fn value_at(&mut self, byte: u8) -> Result<(), ScanError> {
        match (self.place, self.field) {
            (Place::Frame, Field::Object) => {
                // A later duplicate replaces an earlier one, whatever it is.
                self.marks.forget(OF_ITEM);
                self.marks.set(Field::Object, self.pos, self.pos, false);
            }
            (Place::Item, Field::Metadata) => self.marks.forget(OF_METADATA),
            (Place::Item | Place::Metadata | Place::Frame, field) if (field as usize) < MARKED => {
                self.marks.forget(field as usize..field as usize + 1);
            }
            _ => {}
        }
        match CLASS[byte as usize] {
            QUOTE => self.start_string(State::ValueString),
            OPEN => {
                let inner = match (self.place, self.field, self.shape) {
                    _ if byte == b'[' => None,
                    (Place::Top, _, Shape::Item) | (Place::Frame, Field::Object, _) => Some(Place::Item),
                    (Place::Top, _, Shape::Frame) => Some(Place::Frame),
                    (Place::Item, Field::Metadata, _) => Some(Place::Metadata),
                    _ => None,
                };
                self.skip_from = self.depth;
                self.open(byte)?;
                match inner {
                    Some(place) => (self.place, self.state) = (place, State::KeyOrEnd),
                    None => self.state = State::Skip,
                }
            }
            SCALAR => self.state = State::Scalar,
            _ => return Err(ScanError::Unexpected { at: self.pos, expected: "a value" }),
        }
        Ok(())
    }

    fn start_string(&mut self, state: State) {
        self.state = state;
        self.token = self.pos + 1;
        self.escaped = false;
    }

    /// Goes on inside a string; the position of the closing quote if it is there.
    fn string(&mut self, buf: &[u8]) -> Option<usize> {
        if self.in_escape && self.pos < buf.len() {
            self.in_escape = false;
            self.pos += 1;
        }
        loop {
            let rest = buf.get(self.pos..)?;
            let Some(at) = quote_or_backslash(rest) else {
                self.pos = buf.len();
                return None;
            };
            if rest[at] == b'"' {
                self.pos += at + 1;
                return Some(self.pos - 1);
            }
            self.escaped = true;
            if at + 1 == rest.len() {
                // What is escaped has not arrived. All bytes are read here too: who waits for that would wait for ever.
                self.in_escape = true;
                self.pos = buf.len();
                return None;
            }
            self.pos += at + 2;
        }
    }

    /// The value that ended at `pos` was the whole, or a member of an object that is read by the grammar.
    fn value_is_over(&mut self) {
        if (self.place, self.field) == (Place::Frame, Field::Object) {
            let start = self.marks.span(Field::Object).start as usize;
            self.marks.set(Field::Object, start, self.pos, false);
        }
        self.state = if self.depth == 0 { State::Done } else { State::CommaOrEnd };
    }

    fn open(&mut self, byte: u8) -> Result<(), ScanError> {
        if self.depth < TRACKED {
            self.stack = self.stack << 1 | u128::from(byte == b'{');
        }
        self.depth += 1;
        self.marks.too_deep |= self.depth > self.max_depth;
        // Objects are judged one by one, by those who decode them.
        if self.marks.too_deep && self.shape == Shape::Any { Err(ScanError::TooDeep) } else { Ok(()) }
    }

    fn close(&mut self) {
        self.depth -= 1;
        if self.depth < TRACKED {
            self.stack >>= 1;
        }
    }

    /// Goes on inside a part without interest. True when its last bracket is closed.
    fn skip(&mut self, buf: &[u8]) -> Result<bool, ScanError> {
        if self.state == State::SkipString {
            if self.string(buf).is_none() {
                return Ok(false);
            }
            self.state = State::Skip;
        }
        let mut at = self.pos;
        while let Some(&byte) = buf.get(at) {
            match CLASS[byte as usize] {
                SCALAR | SPACE | PUNCTUATION => at += 1,
                QUOTE => {
                    // Most strings are whole and have no escape in them.
                    let inside = buf.get(at + 1..).unwrap_or(&[]);
                    if let Some(end) = quote_or_backslash(inside).filter(|&end| inside[end] == b'"') {
                        at += end + 2;
                        continue;
                    }
                    self.pos = at + 1;
                    if self.string(buf).is_none() {
                        self.state = State::SkipString;
                        return Ok(false);
                    }
                    at = self.pos;
                }
                OPEN => {
                    self.open(byte)?;
                    at += 1;
                }
                CLOSE => {
                    if (self.stack & 1 == 1) != (byte == b'}') && self.depth <= TRACKED {
                        let expected = if self.stack & 1 == 1 { "\"}\"" } else { "\"]\"" };
                        return Err(ScanError::Unexpected { at, expected });
                    }
                    self.close();
                    at += 1;
                    if self.depth == self.skip_from {
                        self.pos = at;
                        return Ok(true);
                    }
                }
                _ => return Err(ScanError::Unexpected { at, expected: "JSON" }),
            }
        }
        self.pos = at;
        Ok(false)
    }

    /// The field whose value this key names.
    fn field_of(&self, key: &[u8]) -> Field {
        let decoded = if self.escaped { unescape(key) } else { None };
        match (self.place, decoded.as_deref().map_or(key, str::as_bytes)) {
            (Place::Frame, b"type") => Field::Type,
            (Place::Frame, b"object") => Field::Object,
            (Place::Item, b"metadata") => Field::Metadata,
            (Place::Item, b"apiVersion") => Field::ApiVersion,
            (Place::Item, b"kind") => Field::Kind,
            (Place::Metadata, b"name") => Field::Name,
            (Place::Metadata, b"namespace") => Field::Namespace,
            (Place::Metadata, b"uid") => Field::Uid,
            (Place::Metadata, b"resourceVersion") => Field::Version,
            _ => Field::Other,
        }
    }

    /// The field whose string is noted: not `object`, whose mark spans the value.
    fn marked_string(&self) -> Field {
        if self.field == Field::Object { Field::Other } else { self.field }
    }
}

/// Strings of an object are short: eight bytes at a time find the end of most before a call of memchr would have begun.
const SHORT: usize = 24;

/// Where the first quote or backslash stands.
#[inline]
fn quote_or_backslash(bytes: &[u8]) -> Option<usize> {
    /// The highest bit of each byte that is zero; bytes behind the first such one may be marked as well.
    const fn zeros(word: u64) -> u64 {
        word.wrapping_sub(0x0101_0101_0101_0101) & !word & 0x8080_8080_8080_8080
    }
    let mut at = 0;
    while at < SHORT {
        let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk()) else { break };
        let word = u64::from_le_bytes(*word);
        let found = zeros(word ^ 0x2222_2222_2222_2222) | zeros(word ^ 0x5c5c_5c5c_5c5c_5c5c);
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    memchr2(b'"', b'\\', bytes.get(at..)?).map(|found| at + found)
}

// What a byte means outside of strings.
const BAD: u8 = 0;
/// A byte of a number or of `true`, `false`, `null`.
const SCALAR: u8 = 1;
const SPACE: u8 = 2;
/// Comma and colon.
const PUNCTUATION: u8 = 3;
const QUOTE: u8 = 4;
const OPEN: u8 = 5;
const CLOSE: u8 = 6;

const CLASS: [u8; 256] = {
    let mut class = [BAD; 256];
    let sets: [(&[u8], u8); 6] = [
        (b"0123456789+-.Eaeflnrstu", SCALAR),
        (b" \t\r\n", SPACE),
        (b",:", PUNCTUATION),
        (b"\"", QUOTE),
        (b"{[", OPEN),
        (b"}]", CLOSE),
    ];
    let mut set = 0;
    while set < sets.len() {
        let mut at = 0;
        while at < sets[set].0.len() {
            class[sets[set].0[at] as usize] = sets[set].1;
            at += 1;
        }
        set += 1;
    }
    class
};

/// True for the four bytes that JSON allows between tokens.
pub(crate) fn is_space(byte: u8) -> bool {
    CLASS[byte as usize] == SPACE
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_quote_or_backslash_is_found(
            bytes in prop::collection::vec(prop_oneof![
                9 => any::<u8>(), 1 => Just(b'"'), 1 => Just(b'\\'), 1 => prop::sample::select(vec![0x21, 0x23, 0xa2, 0xdc, 0]),
            ], 0..80),
        ) {
            let expected = bytes.iter().position(|byte| matches!(byte, b'"' | b'\\'));
            prop_assert_eq!(quote_or_backslash(&bytes), expected);
        }
    }
}
