//! [`Body`]: what the bytes of an answer mean, behind its content encoding.
//!
//! ```
//! use informer_core::wire::Body;
//!
//! let mut body = Body::new(Some("gzip")).unwrap();
//! let mut text = Vec::new();
//! let gzip = [31, 139, 8, 0, 0, 0, 0, 0, 2, 255, 203, 72, 205, 201, 201, 7, 0, 134, 166, 16, 54, 5, 0, 0, 0];
//! for byte in gzip {
//!     body.feed(&[byte], &mut |piece| Ok(text.extend_from_slice(piece))).unwrap();
//! }
//! body.finish().unwrap();
//! assert_eq!(text, b"hello");
//! assert!(Body::new(Some("br")).unwrap_err().to_string().contains("\"br\""));
//! ```

use super::error::WireError;
use super::excerpt::excerpt;
use super::gzip::Gunzip;

/// Undoes the content encoding of one answer.
#[derive(Debug)]
pub struct Body(Encoding);

#[derive(Debug)]
enum Encoding {
    Identity,
    Gzip(Gunzip),
}

impl Body {
    /// The layer for the value of a `content-encoding` header: none, `identity`, `gzip` or `x-gzip`, in any case.
    ///
    /// # Errors
    ///
    /// [`WireError::ContentEncoding`] for another one, or several.
    pub fn new(content_encoding: Option<&str>) -> Result<Body, WireError> {
        let encoding = content_encoding.unwrap_or("").trim();
        let is = |name: &str| encoding.eq_ignore_ascii_case(name);
        if encoding.is_empty() || is("identity") {
            Ok(Body(Encoding::Identity))
        } else if is("gzip") || is("x-gzip") {
            Ok(Body(Encoding::Gzip(Gunzip::new())))
        } else {
            Err(WireError::ContentEncoding { encoding: excerpt(encoding.as_bytes()) })
        }
    }

    /// Takes bytes from the front of `input` until there is a piece of content; `None` when there is no more to be had
    /// from it. A piece is the whole input if there is no encoding (nothing is copied), and at most 64 KiB with gzip, so
    /// that a small input that decompresses to a huge one can be dealt with step by step.
    ///
    /// # Errors
    ///
    /// [`WireError::Gzip`] if the encoding is damaged.
    pub fn pull<'a, 'input: 'a>(&'a mut self, input: &mut &'input [u8]) -> Result<Option<&'a [u8]>, WireError> {
        match &mut self.0 {
            Encoding::Identity if input.is_empty() => Ok(None),
            Encoding::Identity => Ok(Some(core::mem::take(input))),
            Encoding::Gzip(gunzip) => Ok(gunzip.pull(input)?),
        }
    }

    /// True if more may come out, although nothing but `input` goes in any more.
    pub(crate) fn may_have_more(&self, input: &[u8]) -> bool {
        match &self.0 {
            Encoding::Identity => !input.is_empty(),
            Encoding::Gzip(gunzip) => !input.is_empty() || !gunzip.is_complete(),
        }
    }

    /// Gives all that can be had from `bytes` to `sink`, in pieces as [`pull`](Self::pull) makes them.
    ///
    /// # Errors
    ///
    /// As `pull`; or what `sink` returned, which ends the reading: the rest of `bytes` is lost.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        sink: &mut dyn FnMut(&[u8]) -> Result<(), WireError>,
    ) -> Result<(), WireError> {
        let mut input = bytes;
        while let Some(piece) = self.pull(&mut input)? {
            sink(piece)?;
        }
        Ok(())
    }

    /// The body has ended.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`] if it ended within a gzip member.
    pub fn finish(&self) -> Result<(), WireError> {
        match &self.0 {
            Encoding::Gzip(gunzip) if !gunzip.is_complete() => Err(WireError::Truncated),
            Encoding::Gzip(_) | Encoding::Identity => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::GzipError;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    /// gzip of `hello`.
    const HELLO: [u8; 25] =
        [31, 139, 8, 0, 0, 0, 0, 0, 2, 255, 203, 72, 205, 201, 201, 7, 0, 134, 166, 16, 54, 5, 0, 0, 0];

    fn read(body: &mut Body, bytes: &[u8]) -> Result<Vec<u8>, WireError> {
        let mut content = Vec::new();
        body.feed(bytes, &mut |piece| {
            content.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(content)
    }

    #[test]
    fn without_an_encoding_the_bytes_are_lent_as_they_are() {
        for encoding in [None, Some(""), Some("identity"), Some("Identity")] {
            let mut body = Body::new(encoding).unwrap();
            let bytes = b"abc";
            let mut input = &bytes[..];
            let piece = body.pull(&mut input).unwrap().unwrap();
            assert!(core::ptr::eq(piece, bytes), "{encoding:?}");
            assert_eq!(body.pull(&mut input), Ok(None));
            assert_eq!(body.finish(), Ok(()));
        }
    }

    #[test]
    fn gzip_has_two_names() {
        for encoding in ["gzip", "x-gzip", " GZIP "] {
            let mut body = Body::new(Some(encoding)).unwrap();
            assert_eq!(read(&mut body, &HELLO[..20]).unwrap(), b"hello", "{encoding:?}");
            assert_eq!(body.finish(), Err(WireError::Truncated));
            assert_eq!(read(&mut body, &HELLO[20..]).unwrap(), b"");
            assert_eq!(body.finish(), Ok(()));
        }
    }

    #[test]
    fn other_encodings_are_refused_by_name() {
        for encoding in ["br", "zstd", "gzip, gzip", "deflate"] {
            let error = Body::new(Some(encoding)).unwrap_err();
            assert_eq!(error, WireError::ContentEncoding { encoding: encoding.into() });
            assert!(error.to_string().contains(encoding));
        }
    }

    #[test]
    fn damage_is_passed_on() {
        let mut body = Body::new(Some("gzip")).unwrap();
        assert_eq!(read(&mut body, b"{}"), Err(WireError::Gzip(GzipError::NotGzip)));
        assert_eq!(body.finish(), Err(WireError::Truncated));
    }

    #[test]
    fn what_the_sink_returns_ends_the_reading() {
        let mut body = Body::new(Some("gzip")).unwrap();
        let mut calls = 0;
        let result = body.feed(&[HELLO, HELLO].concat(), &mut |_| {
            calls += 1;
            Err(WireError::Truncated)
        });
        assert_eq!((result, calls), (Err(WireError::Truncated), 1));
    }
}
