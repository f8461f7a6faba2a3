//! gzip: any cut gives the same, miniz_oxide finds the same in it, and what was compressed comes out as it went in.
//!
//! First byte: how the input is cut. Second byte odd: the rest is gzip as it is. Second byte even: its low half are the
//! flags of a header that is written here, and the rest is what is compressed, flushed once in a while.

use crate::bytes::{Bytes, cut};
use informer_core::wire::{Crc32, Gunzip, GzipError};
use miniz_oxide::deflate::core::{CompressorOxide, create_comp_flags_from_zip_params};
use miniz_oxide::deflate::stream::deflate;
use miniz_oxide::{DataFormat, MZFlush};

/// More than any input of a fuzzer can become in good time.
const MOST: usize = 1 << 20;

/// Reads one input.
///
/// # Panics
///
/// If something is wrong.
pub fn run(data: &[u8]) {
    let mut data = Bytes::new(data);
    let (seed, mode) = (data.byte(), data.byte());
    if mode % 2 == 1 {
        foreign(data.rest(), seed);
    } else {
        our_own(data.rest(), seed, mode);
    }
}

/// Bytes that may be gzip.
fn foreign(gzip: &[u8], seed: u8) {
    let whole = gunzip(&[gzip]);
    assert_eq!(whole, gunzip(&cut(gzip, seed)), "cut by {seed}");
    assert_eq!(whole, gunzip(&cut(gzip, 0)), "byte by byte");
    // A header without extras, as Go writes it, is ten bytes; behind it miniz_oxide can tell what is right.
    if let ([0x1f, 0x8b, 8, 0, _, _, _, _, _, _, deflated @ ..], (content, Ok(true))) = (gzip, &whole) {
        let reference = miniz_oxide::inflate::decompress_to_vec_with_limit(deflated, MOST);
        let reference = reference.unwrap_or_else(|error| error.output);
        assert!(content.starts_with(&reference), "the first member is something else");
    }
}

/// Content, or the beginning of it, and how it ended: whether it may end there.
fn gunzip(chunks: &[&[u8]]) -> (Vec<u8>, Result<bool, GzipError>) {
    let mut decoder = Gunzip::new();
    let mut content = Vec::new();
    for chunk in chunks {
        let mut input = *chunk;
        loop {
            match decoder.pull(&mut input) {
                Ok(Some(piece)) => {
                    assert!(!piece.is_empty() && piece.len() <= 64 << 10, "pieces are small");
                    content.extend_from_slice(piece);
                }
                Ok(None) => break,
                // How much came out before that depends on the cuts; it is not to be trusted either way.
                Err(error) => return (Vec::new(), Err(error)),
            }
            if content.len() > MOST {
                return (content, Ok(false));
            }
        }
        assert!(input.is_empty(), "all of it was taken");
    }
    (content, Ok(decoder.is_complete()))
}

/// Compresses, and expects the same back: each piece with the last byte of its flush.
fn our_own(content: &[u8], seed: u8, mode: u8) {
    let pieces = cut(content, 3 - seed % 2); // large pieces: thousands of flushes would only cost time
    let level = mode >> 5;
    let (gzip, ends) = member(mode & 0x1e, level, &pieces);
    let mut decoder = Gunzip::new();
    let (mut got, mut from) = (Vec::new(), 0);
    for (index, end) in ends.iter().enumerate() {
        for chunk in cut(&gzip[from..*end], seed) {
            let mut input = chunk;
            while let Some(piece) = decoder.pull(&mut input).expect("it is gzip") {
                got.extend_from_slice(piece);
            }
        }
        assert_eq!(got, pieces[..=index].concat(), "a flush brings all that was written");
        from = *end;
    }
    assert!(ends.is_empty() || !decoder.is_complete());
    let twice = [&gzip[..], &gzip].concat();
    assert_eq!(gunzip(&cut(&twice, seed)), (content.repeat(2), Ok(true)));
    // One damaged byte never passes for other content.
    if let Some(at) = usize::from(seed).checked_rem(gzip.len()) {
        let mut damaged = gzip;
        damaged[at] ^= 1 << (mode >> 5);
        if let (got, Ok(true)) = gunzip(&[&damaged]) {
            assert_eq!(got, content, "damage at byte {at}");
        }
    }
}

/// A gzip member whose header has the parts that `flags` announce; where each piece, flushed, ends.
fn member(flags: u8, level: u8, pieces: &[&[u8]]) -> (Vec<u8>, Vec<usize>) {
    let mut gzip = vec![0x1f, 0x8b, 8, flags, 0, 0, 0, 0, 0, 255];
    if flags & 4 != 0 {
        gzip.extend([3, 0, 1, 2, 3]);
    }
    if flags & 8 != 0 {
        gzip.extend(b"name\0");
    }
    if flags & 16 != 0 {
        gzip.extend(b"comment\0");
    }
    if flags & 2 != 0 {
        gzip.extend((Crc32::of(&gzip) as u16).to_le_bytes());
    }
    let format = DataFormat::Raw.to_window_bits();
    let mut compressor = CompressorOxide::new(create_comp_flags_from_zip_params(i32::from(level), format, 0));
    let mut ends = Vec::new();
    let mut write = |piece: &[u8], flush, gzip: &mut Vec<u8>| {
        let mut room = vec![0; 1000 + 2 * piece.len()];
        let result = deflate(&mut compressor, piece, &mut room, flush);
        assert_eq!(result.bytes_consumed, piece.len(), "there was room");
        gzip.extend(&room[..result.bytes_written]);
    };
    for piece in pieces {
        write(piece, MZFlush::Sync, &mut gzip);
        ends.push(gzip.len());
    }
    write(&[], MZFlush::Finish, &mut gzip);
    let content = pieces.concat();
    gzip.extend(Crc32::of(&content).to_le_bytes());
    gzip.extend((content.len() as u32).to_le_bytes());
    (gzip, ends)
}

/// `content` as a gzip body of one member.
pub(crate) fn compress(content: &[u8]) -> Vec<u8> {
    member(0, 1, &[content]).0
}
