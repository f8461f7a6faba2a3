//! Reading a watch body: bytes to batches of events and single control frames, in order.

use crate::wire::{Body, Control, Fed, FrameDecoder, Limits, RawBatch, WireError};
use smallvec::SmallVec;

/// How much content is made of a body at a time; the rest of the input is read when there is room. gzip makes a thousand
/// bytes of one, so one read of 64 KiB may stand for 64 MiB.
pub(super) const AT_A_TIME: usize = 256 * 1024;

pub(super) struct StreamReader {
    body: Body,
    frames: FrameDecoder,
}

pub(super) enum Piece {
    Events(RawBatch),
    Control(Control),
    Broken(WireError),
}

impl StreamReader {
    pub(super) fn new(body: Body, limits: Limits) -> Self {
        StreamReader { body, frames: FrameDecoder::new(limits) }
    }

    /// Reads from the front of `bytes` what makes [`AT_A_TIME`], and gives what is complete: nothing follows a broken
    /// piece. False if that was all that can be made of them.
    pub(super) fn feed(&mut self, bytes: &mut &[u8]) -> (SmallVec<[Piece; 2]>, bool) {
        let mut pieces = SmallVec::new();
        let mut batch = RawBatch::new();
        let flush = |batch: &mut RawBatch, pieces: &mut SmallVec<[Piece; 2]>| {
            if !batch.is_empty() {
                pieces.push(Piece::Events(core::mem::take(batch)));
            }
        };
        let mut made = 0;
        while made < AT_A_TIME {
            let mut plain = match self.body.pull(bytes) {
                Ok(Some(plain)) => plain,
                Ok(None) => {
                    flush(&mut batch, &mut pieces);
                    return (pieces, false);
                }
                Err(error) => {
                    flush(&mut batch, &mut pieces);
                    pieces.push(Piece::Broken(error));
                    return (pieces, false);
                }
            };
            made += plain.len();
            batch.reserve(plain.len());
            while !plain.is_empty() {
                match self.frames.feed(plain, &mut batch) {
                    Ok(Fed::All) => break,
                    Ok(Fed::Control { consumed, control }) => {
                        flush(&mut batch, &mut pieces);
                        pieces.push(Piece::Control(control));
                        plain = &plain[consumed..];
                    }
                    Err(error) => {
                        flush(&mut batch, &mut pieces);
                        pieces.push(Piece::Broken(error));
                        return (pieces, false);
                    }
                }
            }
        }
        flush(&mut batch, &mut pieces);
        (pieces, self.body.may_have_more(bytes))
    }
}
