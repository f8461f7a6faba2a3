//! [`Unit`]: one JSON value that arrives in pieces, as a contiguous slice.
//!
//! A value that lies within one piece is lent from it; only one that is cut is copied, and only up to its end. Lists
//! read their members and items this way, watches their frames.

use super::error::WireError;
use super::limits::Limits;
use super::scan::{Marks, ScanError, Scanner, Shape};
use alloc::vec::Vec;

/// How much of a piece is taken at a time to complete a value that was cut: little is copied in vain.
const STEP: usize = 4096;

/// The largest buffer that is got by doubling: less than adapters read at a time.
const DOUBLED: usize = 32 << 10;

/// The largest buffer that is kept for the next value.
const KEEP: usize = 256 << 10;

/// One value after the other; nothing between them.
#[derive(Debug)]
pub(crate) struct Unit {
    scanner: Option<Scanner>,
    /// What has arrived of a value that was cut; or of the last one, if `scanner` is none.
    partial: Vec<u8>,
    /// Position of the value in the body.
    start: u64,
}

/// A whole value, and where its fields stand in it.
#[derive(Debug)]
pub(crate) struct Value<'a> {
    pub(crate) json: Json<'a>,
    pub(crate) marks: Marks,
    /// Position of its first byte in the body.
    pub(crate) start: u64,
}

/// The bytes of a value.
#[derive(Debug)]
pub(crate) enum Json<'a> {
    /// It lay within one piece.
    Lent(&'a [u8]),
    /// It was cut, and is all that this buffer has: whoever needs a long one longer may take the buffer.
    Held(&'a mut Vec<u8>),
}

impl core::ops::Deref for Json<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Json::Lent(bytes) => bytes,
            Json::Held(buffer) => buffer,
        }
    }
}

impl Unit {
    pub(crate) fn new() -> Self {
        Unit { scanner: None, partial: Vec::new(), start: 0 }
    }

    /// True if a part of a value has been read.
    pub(crate) fn is_partial(&self) -> bool {
        self.scanner.is_some()
    }

    /// Reads on at `bytes[*at]`, which is byte `offset + *at` of the body, and moves `at`. `None` if the value goes
    /// on beyond `bytes`.
    pub(crate) fn read<'a>(
        &'a mut self,
        shape: Shape,
        bytes: &'a [u8],
        at: &mut usize,
        offset: u64,
        limits: Limits,
    ) -> Result<Option<Value<'a>>, WireError> {
        let limit = limits.bytes();
        let Some(scanner) = &mut self.scanner else {
            self.partial.clear();
            if self.partial.capacity() > KEEP {
                self.partial = Vec::new();
            }
            self.start = offset + *at as u64;
            let mut scanner = Scanner::new(shape, limits.depth);
            let rest = bytes.get(*at..).unwrap_or(&[]);
            let seen = &rest[..rest.len().min(limit)];
            if let Some(end) = scanner.scan(seen).map_err(|error| explain(error, self.start, limits))? {
                *at += end;
                return Ok(Some(Value { json: Json::Lent(&seen[..end]), marks: *scanner.marks(), start: self.start }));
            }
            if seen.len() < rest.len() {
                return Err(WireError::TooLarge { limit });
            }
            self.partial.extend_from_slice(seen);
            self.scanner = Some(scanner);
            *at = bytes.len();
            return Ok(None);
        };
        while *at < bytes.len() {
            let before = self.partial.len();
            let step = STEP.min(bytes.len() - *at).min(limit - before);
            if step == 0 {
                return Err(WireError::TooLarge { limit });
            }
            grow(&mut self.partial, step, limit);
            self.partial.extend_from_slice(&bytes[*at..*at + step]);
            if let Some(end) = scanner.scan(&self.partial).map_err(|error| explain(error, self.start, limits))? {
                // The end may stand before this step: a number is over where the next byte is none of its own.
                *at += end.saturating_sub(before);
                self.partial.truncate(end);
                let marks = *scanner.marks();
                self.scanner = None;
                return Ok(Some(Value { json: Json::Held(&mut self.partial), marks, start: self.start }));
            }
            *at += step;
        }
        Ok(None)
    }

    /// Like [`read`](Self::read) for a value that nobody wants: nothing is copied, and only its depth is bounded.
    pub(crate) fn pass_over(
        &mut self,
        bytes: &[u8],
        at: &mut usize,
        offset: u64,
        limits: Limits,
    ) -> Result<bool, WireError> {
        let start = offset + *at as u64;
        let scanner = self.scanner.get_or_insert_with(|| Scanner::new(Shape::Any, limits.depth));
        let rest = bytes.get(*at..).unwrap_or(&[]);
        let end = scanner.scan(rest).map_err(|error| explain(error, start, limits))?;
        *at += scanner.forget();
        debug_assert!(end.is_some() || *at == bytes.len(), "what has arrived is passed over");
        if end.is_some() {
            self.scanner = None;
        }
        Ok(end.is_some())
    }
}

/// Makes room for `step` bytes: by doubling as long as that is small beside what is read at a time, then at once up to the
/// limit. While a buffer grows there are two of them, and a value at the limit may cost the limit and one read. What is
/// reserved beyond the value is never written, so systems that give memory page by page give none for it.
fn grow(partial: &mut Vec<u8>, step: usize, limit: usize) {
    let needed = partial.len() + step;
    if needed > partial.capacity() {
        let doubled = needed.max(partial.capacity() * 2);
        let wanted = if doubled <= DOUBLED { doubled.min(limit) } else { limit };
        partial.reserve_exact(wanted - partial.len());
    }
}

/// Says where in the body the scanner stopped.
fn explain(error: ScanError, start: u64, limits: Limits) -> WireError {
    match error {
        ScanError::Unexpected { at, expected } => WireError::Malformed { at: start + at as u64, expected },
        ScanError::TooDeep => limits.too_deep(),
    }
}
