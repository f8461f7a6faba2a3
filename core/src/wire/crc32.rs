//! [`Crc32`]: the checksum of gzip (RFC 1952, 8).
//!
//! ```
//! use informer_core::wire::Crc32;
//!
//! let mut sum = Crc32::new();
//! sum.update(b"12345");
//! sum.update(b"6789");
//! assert_eq!(sum.value(), 0xcbf4_3926);
//! assert_eq!(Crc32::of(b"123456789"), sum.value());
//! ```

/// The CRC-32 of the bytes so far, with the reversed polynomial `0xedb88320`; eight bytes a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crc32(u32);

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
    /// The checksum of no bytes.
    pub const fn new() -> Self {
        Crc32(!0)
    }

    /// The checksum of all of `bytes`, in the form in which a trailer holds it, little-endian.
    pub fn of(bytes: &[u8]) -> u32 {
        let mut sum = Crc32::new();
        sum.update(bytes);
        sum.value()
    }

    /// Goes on with `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
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

    /// The checksum of all bytes so far.
    pub const fn value(self) -> u32 {
        !self.0
    }
}

impl Default for Crc32 {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn the_checksum_is_the_known_one_however_the_bytes_are_cut() {
        assert_eq!(Crc32::of(b"123456789"), 0xcbf4_3926);
        assert_eq!(Crc32::of(b""), 0);
        let bytes: Vec<u8> = (0..=255).cycle().take(1000).collect();
        for cut in 0..20 {
            let mut parts = Crc32::new();
            parts.update(&bytes[..cut]);
            parts.update(&bytes[cut..]);
            assert_eq!(parts.value(), Crc32::of(&bytes));
        }
    }
}
