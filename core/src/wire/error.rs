//! [`WireError`]: why a body could not be read.

use super::gzip::GzipError;
use super::status::Status;
use alloc::string::String;
use core::fmt;

/// Why a body could not be read to its end. The reader that said so is of no use any more, and says it again if asked.
///
/// Positions count the bytes of the body, after decompression, from 0.
///
/// ```
/// use informer_core::wire::{Limits, ListDecoder, RawBatch};
///
/// let error = ListDecoder::new(Limits::default()).feed(b"<html>502</html>", &mut RawBatch::new()).unwrap_err();
/// assert_eq!(error.to_string(), "the body is not JSON of the API; it begins with \"<html>502</html>\"");
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WireError {
    /// Something else than a JSON object: HTML, plain text, another encoding.
    NotJson {
        /// What it begins with: at most 200 bytes of what has arrived, control characters escaped.
        prefix: String,
    },
    /// A byte order mark, which JSON must not have.
    ByteOrderMark,
    /// JSON that breaks off its own grammar.
    Malformed {
        /// Where the first byte stands that should not be there.
        at: u64,
        /// What should be there.
        expected: &'static str,
    },
    /// JSON in good order that is neither an event nor a Status.
    NotAnEvent {
        /// What it begins with, as in [`NotJson`](WireError::NotJson).
        prefix: String,
    },
    /// The body ended in the middle.
    Truncated,
    /// A frame or an item is longer than [`Limits::frame_bytes`](super::Limits::frame_bytes).
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// Brackets are nested deeper than [`Limits::depth`](super::Limits::depth).
    TooDeep {
        /// The limit, in brackets.
        limit: usize,
    },
    /// In the place of a list stands a Status, although the status code said that all is well.
    Status(Status),
    /// An object of the API that is no list.
    NotAList {
        /// Its kind; empty if it has none.
        kind: String,
    },
    /// A `content-encoding` that nobody asked for.
    ContentEncoding {
        /// The value of the header; at most 200 bytes.
        encoding: String,
    },
    /// A gzip body that is damaged.
    Gzip(GzipError),
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::NotJson { prefix } => {
                write!(f, "the body is not JSON of the API; it begins with \"{prefix}\"")
            }
            WireError::ByteOrderMark => f.write_str(
                "the body begins with a byte order mark, which JSON must not have; a proxy may have added it",
            ),
            WireError::Malformed { at, expected } => {
                write!(f, "the body is damaged: expected {expected} at byte {at}")
            }
            WireError::NotAnEvent { prefix } => {
                write!(f, "a frame is no watch event (no \"type\" with an \"object\"); it begins with \"{prefix}\"")
            }
            WireError::Truncated => f.write_str("the body ended in the middle; the connection may have been cut"),
            WireError::TooLarge { limit } => {
                write!(f, "one object is larger than {limit} bytes; raise Limits::frame_bytes if that is legal here")
            }
            WireError::TooDeep { limit } => write!(f, "one object is nested deeper than {limit} brackets"),
            WireError::Status(status) => write!(f, "the server answered a list with a Status: {status}"),
            WireError::NotAList { kind } if kind == "Table" => f.write_str(
                "the server answered with a Table, which is made for printing; ask for \"application/json\" without \
                 \"as=Table\"",
            ),
            WireError::NotAList { kind } if kind.is_empty() => {
                f.write_str("the body is an object without \"kind\" and \"items\", so it is no list")
            }
            WireError::NotAList { kind } => {
                write!(f, "the body is a {kind:?}, not a list; does the path name one object?")
            }
            WireError::ContentEncoding { encoding } => write!(
                f,
                "the content encoding {encoding:?} is not supported: only \"gzip\" and \"identity\" are, and no other was \
                 asked for; a proxy may have added it"
            ),
            WireError::Gzip(error) => write!(f, "the gzip body is damaged: {error}"),
        }
    }
}

impl fmt::Debug for WireError {
    /// The text of Display: `main` prints errors so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// No source: Display says what the Status and the [`GzipError`] say.
impl core::error::Error for WireError {}

impl From<GzipError> for WireError {
    fn from(error: GzipError) -> Self {
        WireError::Gzip(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn each_error_names_the_thing_the_place_and_the_way_out() {
        let table = WireError::NotAList { kind: "Table".into() };
        assert!(table.to_string().contains("Table") && table.to_string().contains("as=Table"));
        assert_eq!(
            WireError::Malformed { at: 7, expected: "\":\"" }.to_string(),
            "the body is damaged: expected \":\" at byte 7"
        );
        assert!(WireError::TooLarge { limit: 5 }.to_string().contains("larger than 5 bytes"));
        assert!(WireError::NotAList { kind: "Pod".into() }.to_string().contains("\"Pod\""));
        assert!(WireError::NotAList { kind: "".into() }.to_string().contains("without \"kind\""));
        assert!(WireError::ContentEncoding { encoding: "br".into() }.to_string().contains("\"br\""));
    }
}
