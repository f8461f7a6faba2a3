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

use alloc::boxed::Box;
use alloc::vec;
use core::fmt;
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::{TINFL_FLAG_HAS_MORE_INPUT, TINFL_FLAG_IGNORE_ADLER32};
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

/// The window, and so the largest piece that comes out at once: twice what deflate looks back, a power of two.
const WINDOW: usize = 64 << 10;

/// Why gzip could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
        match status {
            TINFLStatus::Done => self.part = Part::Trailer(0),
            TINFLStatus::NeedsMoreInput | TINFLStatus::HasMoreOutput => {}
            TINFLStatus::FailedCannotMakeProgress
            | TINFLStatus::BadParam
            | TINFLStatus::Adler32Mismatch
            | TINFLStatus::Failed => return Err(GzipError::Deflate),
            #[allow(unreachable_patterns)]
            _ => return Err(GzipError::Deflate),
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

/// The checksum of gzip: CRC-32 with the reversed polynomial 0xedb88320, eight bytes a step.
#[derive(Clone, Copy, Debug)]
struct Crc32(u32);

static TABLES: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 };
            bit += 1;
        }
        tables[0][byte] = sum;
        byte += 1;
    }
    // Table n: the effect of a byte that is followed by n zero bytes.
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
};

impl Crc32 {
    fn new() -> Self {
        Crc32(!0)
    }

    fn update(&mut self, bytes: &[u8]) {
        let mut eights = bytes.chunks_exact(8);
        for eight in &mut eights {
            let mut next = 0;
            for (index, (&byte, table)) in eight.iter().zip(TABLES.iter().rev()).enumerate() {
                // The sum so far covers the first four bytes.
                let before = if index < 4 { (self.0 >> (8 * index)) as u8 } else { 0 };
                next ^= table[(byte ^ before) as usize];
            }
            self.0 = next;
        }
        for &byte in eights.remainder() {
            self.0 = self.0 >> 8 ^ TABLES[0][(self.0 as u8 ^ byte) as usize];
        }
    }

    fn value(self) -> u32 {
        !self.0
    }
}
