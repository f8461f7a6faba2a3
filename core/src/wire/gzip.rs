//! [`Gunzip`]: gzip, piece by piece.
//!
//! Servers that compress a watch write one gzip member per flush (C20), so each byte must come out as soon as its
//! input is there, and one member may follow another. Checksums and sizes are verified: a damaged list must not
//! become a cache.
//!
//! ```text
//! Header ─► Extra, Name, Comment, HeaderSum (those that the flags announce) ─► Deflate ─► Trailer ─► Boundary
//!    ▲                                                                                        first byte │
//!    └───────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! ```
//! use informer_core::wire::Gunzip;
//!
//! let body = [31, 139, 8, 0, 0, 0, 0, 0, 2, 255, 203, 72, 205, 201, 201, 7, 0, 134, 166, 16, 54, 5, 0, 0, 0];
//! let mut gunzip = Gunzip::new();
//! let mut input = &body[..];
//! let mut text = Vec::new();
//! while let Some(piece) = gunzip.pull(&mut input).unwrap() {
//!     text.extend_from_slice(piece);
//! }
//! assert_eq!(text, b"hello");
//! assert!(gunzip.is_complete());
//! ```

use super::crc32::Crc32;
use alloc::boxed::Box;
use alloc::vec;
use core::fmt;
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::{TINFL_FLAG_HAS_MORE_INPUT, TINFL_FLAG_IGNORE_ADLER32};
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

/// The window, and so the largest piece that comes out at once: twice what deflate looks back, a power of two.
const WINDOW: usize = 64 << 10;

/// Why gzip could not be read.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GzipError {
    /// It does not begin as gzip does.
    NotGzip,
    /// A method of compression other than deflate, or flags that no standard defines.
    Unsupported,
    /// The checksum of the header is wrong.
    HeaderChecksum,
    /// The compressed data break the rules of deflate.
    Deflate,
    /// The checksum of the content is wrong.
    Checksum,
    /// The length of the content is wrong.
    Length,
    /// Behind a member stands something that is no other member.
    TrailingGarbage,
}

impl fmt::Display for GzipError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GzipError::NotGzip => "it does not begin with the bytes 1f 8b",
            GzipError::Unsupported => "its header asks for something that gzip (RFC 1952) does not define",
            GzipError::HeaderChecksum => "the checksum of the header is wrong",
            GzipError::Deflate => "the compressed data are invalid",
            GzipError::Checksum => "the checksum of the content is wrong",
            GzipError::Length => "the length of the content is not what its trailer says",
            GzipError::TrailingGarbage => "bytes that are not gzip follow its end",
        })
    }
}

impl fmt::Debug for GzipError {
    /// The text of Display: `main` prints errors so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for GzipError {}

// The flags of a header.
const HEADER_SUM: u8 = 1 << 1;
const EXTRA: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const COMMENT: u8 = 1 << 4;
const RESERVED: u8 = 0b1110_0000;

/// What is read next. Numbers count the bytes of that part that have been read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// Between two members, or before the first one.
    Boundary,
    Header(u8),
    ExtraLength(u8),
    Extra,
    Name,
    Comment,
    HeaderSum(u8),
    Deflate,
    Trailer(u8),
    Failed(GzipError),
}

/// Decompresses a body of one or more gzip members.
pub struct Gunzip {
    part: Part,
    is_first: bool,
    flags: u8,
    /// Little-endian bytes that are being collected: a length, a checksum, a trailer.
    collected: u64,
    header_sum: Crc32,
    content_sum: Crc32,
    /// Length of the content, modulo 2³² as in the trailer.
    length: u32,
    inflate: Box<DecompressorOxide>,
    window: Box<[u8]>,
    at: usize,
}

impl Gunzip {
    /// A decoder of one body; allocates about 75 KB.
    pub fn new() -> Self {
        Gunzip {
            part: Part::Boundary,
            is_first: true,
            flags: 0,
            collected: 0,
            header_sum: Crc32::new(),
            content_sum: Crc32::new(),
            length: 0,
            inflate: Box::default(),
            window: vec![0; WINDOW].into_boxed_slice(),
            at: 0,
        }
    }

    /// Takes bytes from the front of `input` until there is a piece of content: 1 byte to 64 KiB, however large the
    /// whole becomes. `None` when `input` is empty and all that could be made of it has come out.
    ///
    /// # Errors
    ///
    /// If the input is damaged; what has come out before is not to be trusted. The decoder then stays failed.
    pub fn pull(&mut self, input: &mut &[u8]) -> Result<Option<&[u8]>, GzipError> {
        let pulled = self.advance(input).inspect_err(|&error| self.part = Part::Failed(error))?;
        Ok(pulled.map(|piece| &self.window[piece]))
    }

    /// True if the body may end here: before the first member or behind one.
    pub fn is_complete(&self) -> bool {
        self.part == Part::Boundary
    }

    fn advance(&mut self, input: &mut &[u8]) -> Result<Option<core::ops::Range<usize>>, GzipError> {
        loop {
            match self.part {
                Part::Failed(error) => return Err(error),
                Part::Deflate => {
                    let piece = self.inflate(input)?;
                    if !piece.is_empty() {
                        return Ok(Some(piece));
                    }
                    if self.part == Part::Deflate {
                        return Ok(None);
                    }
                }
                Part::Boundary
                | Part::Header(_)
                | Part::ExtraLength(_)
                | Part::Extra
                | Part::Name
                | Part::Comment
                | Part::HeaderSum(_)
                | Part::Trailer(_) => {
                    let Some((&byte, rest)) = input.split_first() else { return Ok(None) };
                    *input = rest;
                    self.part = self.byte(byte)?;
                }
            }
        }
    }

    /// One byte outside of the compressed data; says what comes next.
    fn byte(&mut self, byte: u8) -> Result<Part, GzipError> {
        if !matches!(self.part, Part::HeaderSum(_) | Part::Trailer(_)) {
            if self.part == Part::Boundary {
                self.header_sum = Crc32::new();
            }
            self.header_sum.update(&[byte]);
        }
        let collect = |collected: u64, read: u8| collected | u64::from(byte) << (8 * read);
        Ok(match self.part {
            Part::Boundary if byte == 0x1f => Part::Header(1),
            Part::Boundary if self.is_first => return Err(GzipError::NotGzip),
            Part::Boundary => return Err(GzipError::TrailingGarbage),
            Part::Header(1) if byte != 0x8b => {
                return Err(if self.is_first { GzipError::NotGzip } else { GzipError::TrailingGarbage });
            }
            Part::Header(2) if byte != 8 => return Err(GzipError::Unsupported),
            Part::Header(3) if byte & RESERVED != 0 => return Err(GzipError::Unsupported),
            Part::Header(3) => {
                self.flags = byte;
                Part::Header(4)
            }
            // Time, level and system are of no use here.
            Part::Header(9) => self.behind(Part::Header(9)),
            Part::Header(read) => Part::Header(read + 1),
            Part::ExtraLength(read) => {
                self.collected = collect(self.collected, read);
                match (read, self.collected) {
                    (0, _) => Part::ExtraLength(1),
                    (_, 0) => self.behind(Part::Extra),
                    _ => Part::Extra,
                }
            }
            Part::Extra => {
                self.collected -= 1;
                if self.collected == 0 { self.behind(Part::Extra) } else { Part::Extra }
            }
            Part::Name if byte == 0 => self.behind(Part::Name),
            Part::Comment if byte == 0 => self.behind(Part::Comment),
            Part::HeaderSum(read) => {
                self.collected = collect(self.collected, read);
                match read {
                    0 => Part::HeaderSum(1),
                    _ if self.collected != u64::from(self.header_sum.value() & 0xffff) => {
                        return Err(GzipError::HeaderChecksum);
                    }
                    _ => self.behind(Part::HeaderSum(1)),
                }
            }
            Part::Trailer(read) => {
                self.collected = collect(self.collected, read);
                match read {
                    3 if self.collected != u64::from(self.content_sum.value()) => return Err(GzipError::Checksum),
                    7 if self.collected >> 32 != u64::from(self.length) => return Err(GzipError::Length),
                    7 => {
                        self.is_first = false;
                        Part::Boundary
                    }
                    _ => Part::Trailer(read + 1),
                }
            }
            same @ (Part::Name | Part::Comment | Part::Deflate | Part::Failed(_)) => same,
        })
    }

    /// What follows behind `part` of a header: the next part that the flags announce.
    fn behind(&mut self, part: Part) -> Part {
        self.collected = 0;
        let parts = [
            (EXTRA, Part::Extra, Part::ExtraLength(0)),
            (NAME, Part::Name, Part::Name),
            (COMMENT, Part::Comment, Part::Comment),
            (HEADER_SUM, Part::HeaderSum(1), Part::HeaderSum(0)),
        ];
        let done = parts.iter().position(|&(_, last, _)| last == part).map_or(0, |index| index + 1);
        for &(flag, _, first) in &parts[done..] {
            if self.flags & flag != 0 {
                return first;
            }
        }
        self.inflate.init();
        self.content_sum = Crc32::new();
        self.length = 0;
        self.at = 0;
        Part::Deflate
    }

    /// Makes the next piece of content; empty if more input is needed or the data have ended.
    fn inflate(&mut self, input: &mut &[u8]) -> Result<core::ops::Range<usize>, GzipError> {
        let flags = TINFL_FLAG_HAS_MORE_INPUT | TINFL_FLAG_IGNORE_ADLER32;
        let (status, read, written) = decompress(&mut self.inflate, input, &mut self.window, self.at, flags);
        *input = input.get(read..).unwrap_or(&[]);
        let piece = self.at..self.at + written;
        self.content_sum.update(&self.window[piece.clone()]);
        self.length = self.length.wrapping_add(written as u32);
        self.at = piece.end % WINDOW;
        // All else is a failure, whatever features of that crate add to the enum.
        if status == TINFLStatus::Done {
            self.part = Part::Trailer(0);
        } else if status != TINFLStatus::NeedsMoreInput && status != TINFLStatus::HasMoreOutput {
            return Err(GzipError::Deflate);
        }
        Ok(piece)
    }
}

impl Default for Gunzip {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Gunzip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gunzip").field("part", &self.part).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use alloc::vec::Vec;
    use miniz_oxide::deflate::core::{CompressorOxide, create_comp_flags_from_zip_params};
    use miniz_oxide::deflate::stream::deflate;
    use miniz_oxide::{DataFormat, MZFlush};
    use proptest::prelude::*;

    /// A member whose header has the parts that `flags` announce. Says where each of `pieces`, flushed, ends.
    pub(crate) fn member(flags: u8, pieces: &[&[u8]]) -> (Vec<u8>, Vec<usize>) {
        let mut gzip = vec![0x1f, 0x8b, 8, flags, 1, 2, 3, 4, 0, 255];
        if flags & EXTRA != 0 {
            gzip.extend([0, 1]); // 256 bytes
            gzip.extend([7; 256]);
        }
        if flags & NAME != 0 {
            gzip.extend(b"name\0");
        }
        if flags & COMMENT != 0 {
            gzip.extend(b"\0");
        }
        if flags & HEADER_SUM != 0 {
            gzip.extend((Crc32::of(&gzip) as u16).to_le_bytes());
        }
        let format = DataFormat::Raw.to_window_bits();
        let mut compressor = CompressorOxide::new(create_comp_flags_from_zip_params(6, format, 0));
        let mut ends = Vec::new();
        for (index, piece) in pieces.iter().enumerate() {
            let flush = if index + 1 == pieces.len() { MZFlush::Finish } else { MZFlush::Sync };
            let mut room = vec![0; 1000 + 2 * piece.len()];
            let result = deflate(&mut compressor, piece, &mut room, flush);
            assert_eq!(result.bytes_consumed, piece.len());
            gzip.extend(&room[..result.bytes_written]);
            ends.push(gzip.len());
        }
        let content = pieces.concat();
        gzip.extend(Crc32::of(&content).to_le_bytes());
        gzip.extend((content.len() as u32).to_le_bytes());
        (gzip, ends)
    }

    fn gunzip(chunks: &[&[u8]]) -> Result<(Vec<u8>, bool), GzipError> {
        let mut gunzip = Gunzip::new();
        let mut content = Vec::new();
        for chunk in chunks {
            let mut input = *chunk;
            loop {
                let piece = gunzip.pull(&mut input);
                match piece {
                    Ok(Some(piece)) => content.extend(piece),
                    Ok(None) => break,
                    Err(error) => {
                        assert_eq!(gunzip.pull(&mut input), Err(error), "a failed decoder stays failed");
                        return Err(error);
                    }
                }
            }
            assert!(input.is_empty());
        }
        Ok((content, gunzip.is_complete()))
    }
    #[test]
    fn each_header_is_read_however_it_is_cut() {
        for flags in (0..32).filter(|flags| flags % 2 == 0) {
            let (gzip, _) = member(flags, &[b"hello, hello, hello"]);
            let expected = Ok((b"hello, hello, hello".to_vec(), true));
            assert_eq!(gunzip(&[&gzip]), expected, "{flags:b}");
            let bytes: Vec<_> = gzip.chunks(1).collect();
            assert_eq!(gunzip(&bytes), expected, "{flags:b}");
        }
    }

    #[test]
    fn an_empty_extra_field_is_read() {
        let mut gzip = member(EXTRA, &[b"x"]).0;
        gzip.splice(10..268, [0, 0]);
        assert_eq!(gunzip(&[&gzip]), Ok((b"x".to_vec(), true)));
    }

    /// C20
    #[test]
    fn a_flushed_piece_comes_out_with_its_last_byte_of_input() {
        let pieces: [&[u8]; 4] = [b"{\"type\":\"ADDED\"}", b"", b"{\"type\":\"ADDED\"}{}", b"end"];
        let (gzip, ends) = member(NAME, &pieces);
        let mut decoder = Gunzip::new();
        let mut content = Vec::new();
        let mut from = 0;
        for (index, &end) in ends.iter().enumerate() {
            let mut input = &gzip[from..end];
            while let Some(piece) = decoder.pull(&mut input).unwrap() {
                content.extend_from_slice(piece);
            }
            assert_eq!(content, pieces[..=index].concat());
            from = end;
        }
    }

    /// C20
    #[test]
    fn members_follow_one_another() {
        let mut gzip = Vec::new();
        for text in ["one", "", "three"] {
            gzip.extend(member(if text.is_empty() { HEADER_SUM } else { 0 }, &[text.as_bytes()]).0);
        }
        assert_eq!(gunzip(&[&gzip]), Ok((b"onethree".to_vec(), true)));
        assert_eq!(gunzip(&gzip.chunks(1).collect::<Vec<_>>()), Ok((b"onethree".to_vec(), true)));
        assert_eq!(gunzip(&[]), Ok((Vec::new(), true)));
    }

    #[test]
    fn a_body_that_is_cut_is_not_complete() {
        let gzip = member(NAME | HEADER_SUM, &[b"hello"]).0;
        for cut in 1..gzip.len() {
            let (_, is_complete) = gunzip(&[&gzip[..cut]]).unwrap();
            assert!(!is_complete, "{cut}");
        }
    }

    /// F41
    #[test]
    fn each_damage_has_a_name() {
        let (gzip, ends) = member(HEADER_SUM, &[b"hello, hello"]);
        let damaged = |at: usize| {
            let mut gzip = gzip.clone();
            gzip[at] ^= 0x40;
            gunzip(&[&gzip]).map(|_| ())
        };
        for at in [0, 1] {
            assert_eq!(damaged(at), Err(GzipError::NotGzip));
        }
        for at in [2, 3] {
            assert_eq!(damaged(at), Err(GzipError::Unsupported));
        }
        for at in [4, 9, 10, 11] {
            assert_eq!(damaged(at), Err(GzipError::HeaderChecksum));
        }
        assert_eq!(damaged(ends[0]), Err(GzipError::Checksum));
        assert_eq!(damaged(ends[0] + 4), Err(GzipError::Length));
        for at in 12..ends[0] {
            assert!(damaged(at).is_err() || !gunzip(&[&gzip]).unwrap().0.is_empty(), "{at}");
        }
        let mut reserved_block = gzip[..12].to_vec();
        reserved_block.push(0b111);
        assert_eq!(gunzip(&[&reserved_block]), Err(GzipError::Deflate));
        for garbage in [&b"x"[..], b"\0", b"\x1f\x8c"] {
            assert_eq!(gunzip(&[&gzip, garbage]), Err(GzipError::TrailingGarbage));
        }
        assert_eq!(gunzip(&[b"{}"]), Err(GzipError::NotGzip));
    }

    #[test]
    fn a_bomb_comes_out_in_small_pieces() {
        let zeros = vec![0; 8 << 20];
        let gzip = member(0, &[&zeros]).0;
        assert!(gzip.len() < 20_000);
        let (mut decoder, mut input, mut total) = (Gunzip::new(), &gzip[..], 0);
        while let Some(piece) = decoder.pull(&mut input).unwrap() {
            assert!(!piece.is_empty() && piece.len() <= WINDOW);
            total += piece.len();
        }
        assert_eq!((total, decoder.is_complete()), (zeros.len(), true));
    }

    proptest! {
        #[test]
        fn what_was_compressed_comes_out_however_it_is_cut(
            pieces in prop::collection::vec(prop_oneof![
                prop::collection::vec(any::<u8>(), 0..300),
                "(a|bc|\"name\":){0,300}".prop_map(|text| text.into_bytes()),
            ], 1..6),
            flags in (0..16u8).prop_map(|flags| flags * 2),
            size in 1..600usize,
        ) {
            let pieces: Vec<_> = pieces.iter().map(Vec::as_slice).collect();
            let gzip = member(flags, &pieces).0.repeat(2);
            let chunks: Vec<_> = gzip.chunks(size).collect();
            prop_assert_eq!(gunzip(&chunks), Ok((pieces.concat().repeat(2), true)));
        }

        #[test]
        fn any_bytes_are_read_without_panic_and_however_cut_alike(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            flags in any::<u8>(),
            size in 1..50usize,
        ) {
            let header = [0x1f, 0x8b, 8, flags, 0, 0, 0, 0, 0, 0];
            let body = [&header[..], &bytes].concat();
            let chunks: Vec<_> = body.chunks(size).collect();
            prop_assert_eq!(gunzip(&chunks), gunzip(&[&body]));
            let _ = gunzip(&[&bytes]);
        }

        #[test]
        fn a_changed_bit_never_passes_for_other_content(
            text in "[a-z]{1,200}",
            at in any::<prop::sample::Index>(),
            bit in 0..8u8,
        ) {
            let mut gzip = member(HEADER_SUM, &[text.as_bytes()]).0;
            let at = at.index(gzip.len());
            gzip[at] ^= 1 << bit;
            if let Ok((content, true)) = gunzip(&[&gzip]) {
                prop_assert_eq!(content, text.into_bytes());
            }
        }
    }
}
