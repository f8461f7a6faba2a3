//! Everything that crosses the wire: requests out; status codes, lists and watch streams in.
//!
//! All readers are incremental: bytes go in as they arrive, cut anywhere, and what is complete comes out at once. None
//! panics on any input, and each has a bound on what it holds ([`Limits`]).
//!
//! ```text
//!                 ┌ Head ── status, Retry-After ──► Status (of a failure)
//! Request ─► … ─► │
//!                 └ bytes ─► Body (gzip) ─┬─ list ──► ListDecoder  ─► RawBatch of items … ListEnd
//!                                         └─ watch ─► FrameDecoder ─► RawBatch of events, Control
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `request`, `percent` | what is sent, and how its target is encoded |
//! | `head`, `date` | the head of what comes back, and the dates in it |
//! | `body`, `gzip`, `crc32` | the content encoding |
//! | `list`, `frames` | the two kinds of bodies; `unit` and `scan` under them, `opening` for what is no JSON |
//! | `batch` | objects as they came, with their identity |
//! | `status`, `error`, `excerpt`, `limits` | what can go wrong, in words |
//!
//! ```
//! use informer_core::wire::{Body, Fed, FrameDecoder, Limits, RawBatch};
//!
//! let mut body = Body::new(None).unwrap();
//! let mut frames = FrameDecoder::new(Limits::default());
//! let mut batch = RawBatch::new();
//! let bytes = br#"{"type":"ADDED","object":{"metadata":{"namespace":"web","name":"a"}}}"#;
//! body.feed(bytes, &mut |piece| {
//!     let fed = frames.feed(piece, &mut batch)?;
//!     assert_eq!(fed, Fed::All); // no bookmark, no error
//!     Ok(())
//! })
//! .unwrap();
//! assert_eq!(batch.get(0).key().unwrap().as_str(), "web/a");
//! ```

mod batch;
mod body;
mod crc32;
mod date;
mod error;
mod excerpt;
mod frames;
mod gzip;
mod head;
mod limits;
mod list;
mod opening;
mod percent;
mod request;
mod scan;
mod status;
#[cfg(test)]
mod tests;
mod unit;

pub use batch::{ItemKind, RawBatch, RawItem};
pub use body::Body;
pub use crc32::Crc32;
pub use date::{rfc3339, rfc3339_seconds};
pub use error::WireError;
pub(crate) use excerpt::{clip, excerpt};
pub use frames::{Control, Fed, FrameDecoder};
#[cfg(test)]
pub(crate) use gzip::tests::member as gzip_member;
pub use gzip::{Gunzip, GzipError};
pub use head::Head;
pub use limits::Limits;
pub use list::{ListDecoder, ListEnd};
pub use percent::{percent_decode, query_pairs};
pub use request::{Request, RequestId, Verb};
pub use status::{Status, standard_reason};
