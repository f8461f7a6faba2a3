//! [`Gzip`]: a body compressed as it streams out, as one gzip member.

use informer_core::wire::Crc32;
use miniz_oxide::deflate::core::{CompressorOxide, create_comp_flags_from_zip_params};
use miniz_oxide::deflate::stream::deflate;
use miniz_oxide::{MZFlush, MZStatus};

/// The real server's level: fast, and most of the gain.
const LEVEL: i32 = 4;

/// Ten bytes: magic, deflate, no flags, no time, no hints, unknown system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// The state of one member.
pub(crate) struct Gzip {
    compressor: Box<CompressorOxide>,
    crc: Crc32,
    len: u32,
    begun: bool,
}

impl Gzip {
    pub(crate) fn new() -> Self {
        let flags = create_comp_flags_from_zip_params(LEVEL, -15, 0);
        Gzip { compressor: Box::new(CompressorOxide::new(flags)), crc: Crc32::new(), len: 0, begun: false }
    }

    /// Compresses the next piece; the answer may be empty. `last` writes the trailer.
    pub(crate) fn push(&mut self, mut plain: &[u8], last: bool) -> Vec<u8> {
        let mut out = Vec::with_capacity(plain.len() / 4 + 64);
        if !self.begun {
            out.extend_from_slice(&HEADER);
            self.begun = true;
        }
        self.crc.update(plain);
        self.len = self.len.wrapping_add(plain.len() as u32);
        let flush = if last { MZFlush::Finish } else { MZFlush::None };
        let mut room = [0; 16 * 1024];
        loop {
            let result = deflate(&mut self.compressor, plain, &mut room, flush);
            plain = &plain[result.bytes_consumed..];
            out.extend_from_slice(&room[..result.bytes_written]);
            let more = match result.status {
                Ok(MZStatus::Ok) => last || !plain.is_empty() || result.bytes_written == room.len(),
                // The stream has ended, or there was nothing to do.
                Ok(MZStatus::StreamEnd | MZStatus::NeedDict) | Err(_) => false,
            };
            if !more {
                break;
            }
        }
        if last {
            out.extend_from_slice(&self.crc.value().to_le_bytes());
            out.extend_from_slice(&self.len.to_le_bytes());
        }
        out
    }
}

impl std::fmt::Debug for Gzip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Gzip({} bytes in)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use miniz_oxide::inflate::decompress_to_vec;

    #[test]
    fn what_went_in_in_pieces_comes_out_whole() {
        let plain: Vec<u8> = (0..400_000_u32).flat_map(|i| (i / 7).to_string().into_bytes()).collect();
        for piece in [1_000, 64 * 1024, plain.len()] {
            let mut gzip = Gzip::new();
            let mut out: Vec<u8> = plain.chunks(piece).flat_map(|part| gzip.push(part, false)).collect();
            out.extend(gzip.push(&[], true));
            assert!(out.len() < plain.len() / 2);
            assert_eq!(out[..10], HEADER);
            let (body, trailer) = out[10..].split_at(out.len() - 18);
            assert!(decompress_to_vec(body).unwrap() == plain);
            assert_eq!(trailer[4..], (plain.len() as u32).to_le_bytes());
        }
        assert_eq!(Gzip::new().push(b"123456789", true)[21..25], 0xcbf4_3926_u32.to_le_bytes());
    }
}
