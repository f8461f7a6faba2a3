//! [`Opening`]: the first bytes of a body, which tell JSON from everything else.
//!
//! A proxy's HTML page or a plain "404 page not found" may come under any status code (W10, W15, W17). It is refused at
//! its first byte, since nothing more may follow for hours; the error quotes what has arrived with that byte.

use super::error::WireError;
use super::excerpt::excerpt;

const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// How much of a byte order mark has been seen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Opening {
    mark: usize,
}

impl Opening {
    /// Looks at the first byte of `rest`. `Ok(true)` if it opens an object, `Ok(false)` if it may belong to a byte
    /// order mark.
    pub(crate) fn accept(&mut self, rest: &[u8]) -> Result<bool, WireError> {
        let first = rest.first().copied();
        if first == BYTE_ORDER_MARK.get(self.mark).copied() {
            self.mark += 1;
            return if self.mark == BYTE_ORDER_MARK.len() { Err(WireError::ByteOrderMark) } else { Ok(false) };
        }
        if self.mark == 0 && first == Some(b'{') { Ok(true) } else { Err(foreign(rest)) }
    }

    /// The error of a body that ended within a byte order mark.
    pub(crate) fn at_the_end(self) -> Option<WireError> {
        (self.mark > 0).then_some(WireError::ByteOrderMark)
    }
}

/// The error of a body that is no JSON object from `rest` on.
pub(crate) fn foreign(rest: &[u8]) -> WireError {
    WireError::NotJson { prefix: excerpt(rest) }
}
