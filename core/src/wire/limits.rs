//! [`Limits`]: how much of a hostile body is read before it is refused.

use super::error::WireError;

/// The largest frame or item: five times what etcd stores (F41), so that nothing legal is refused.
const FRAME_BYTES: usize = 16 << 20;

/// The deepest nesting: what serde_json reads, so that whatever passes here can be decoded.
pub(crate) const DEPTH: usize = 128;

/// Bounds on one watch frame, one list item, and every other member of a list.
///
/// ```
/// use informer_core::wire::{Limits, ListDecoder, RawBatch, WireError};
///
/// let limits = Limits { frame_bytes: 16, ..Limits::default() };
/// let body = br#"{"items": [{"metadata": {"name": "a name that is too long"}}]}"#;
/// let error = ListDecoder::new(limits).feed(body, &mut RawBatch::new()).unwrap_err();
/// assert_eq!(error, WireError::TooLarge { limit: 16 });
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of one frame or item; 16 MiB by default. Values above 1 GiB count as 1 GiB. A decoder holds no more than
    /// this and an eighth more while its buffer grows, and refuses a frame as soon as it is longer.
    pub frame_bytes: usize,
    /// Nesting of one object, or of another member of a list; 128 by default, and at most. A deeper object is quarantined,
    /// and the others go on.
    pub depth: usize,
}

/// What `frame_bytes` is cut to, so that each position within an item, and in what is decoded beside it, fits in 32 bits.
pub(crate) const MAX_FRAME_BYTES: usize = 1 << 30;

impl Limits {
    /// The bound on bytes that counts.
    pub(crate) fn bytes(self) -> usize {
        self.frame_bytes.min(MAX_FRAME_BYTES)
    }

    /// The error of a value that is nested too deeply and is no object.
    pub(crate) fn too_deep(self) -> WireError {
        WireError::TooDeep { limit: self.depth.min(DEPTH) }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits { frame_bytes: FRAME_BYTES, depth: DEPTH }
    }
}
