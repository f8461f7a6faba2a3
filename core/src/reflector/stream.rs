//! Reading a watch body: bytes to batches of events and single control frames, in order.

use crate::wire::{Body, Control, Fed, FrameDecoder, Limits, RawBatch, WireError};
use smallvec::SmallVec;

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

    /// Reads everything that `bytes` complete. Nothing follows a broken piece.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) -> SmallVec<[Piece; 2]> {
        let mut pieces = SmallVec::new();
        let mut batch = RawBatch::new();
        let flush = |batch: &mut RawBatch, pieces: &mut SmallVec<[Piece; 2]>| {
            if !batch.is_empty() {
                pieces.push(Piece::Events(core::mem::take(batch)));
            }
        };
        loop {
            let mut plain = match self.body.pull(&mut bytes) {
                Ok(Some(plain)) => plain,
                Ok(None) => break,
                Err(error) => {
                    flush(&mut batch, &mut pieces);
                    pieces.push(Piece::Broken(error));
                    return pieces;
                }
            };
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
                        return pieces;
                    }
                }
            }
        }
        flush(&mut batch, &mut pieces);
        pieces
    }
}
