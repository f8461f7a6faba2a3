//! [`Chunked`]: a body in chunks, as it comes.
//!
//! ```text
//!          ┌──────────────────────────────────────────────────────────┐
//!          ▼                                                          │
//!  Size ► Digits ─(; or space)► Extension ─┐                          │
//!            └────────── CR ───────────────┴► SizeEnd ─► Data ► DataCr ► DataLf
//!                                                 │ of size 0
//!                                                 ▼
//!                                     ┌────► Trailer ─ CR ─► LastLf ► Done
//!                                     └─ TrailerEnd ◄ TrailerLine
//! ```
//!
//! It keeps no bytes: what was taken needs not be there when more comes. Lines end with CR and LF and nothing else.

/// The most bytes in what is passed over: the line of a chunk with its extensions, or all trailers.
const MAX_LINE: usize = 16 * 1024;

/// Where such a body stands.
#[derive(Debug, Default)]
pub(super) struct Chunked {
    at: At,
    /// Bytes of this chunk that are still to come.
    left: u64,
    /// Bytes of this line, or of the trailers.
    line: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Size,
    Digits,
    Extension,
    SizeEnd,
    Data,
    DataCr,
    DataLf,
    Trailer,
    TrailerLine,
    TrailerEnd,
    LastLf,
    Done,
}

impl Chunked {
    pub(super) fn is_done(&self) -> bool {
        self.at == At::Done
    }

    /// Takes what came, appends the content to `out`; returns how many bytes were taken, and why no more are. What lies
    /// behind the end is not taken.
    pub(super) fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> (usize, Option<&'static str>) {
        let mut used = 0;
        while used < bytes.len() && self.at != At::Done {
            if self.at == At::Data {
                let rest = &bytes[used..];
                let taken = usize::try_from(self.left).map_or(rest.len(), |left| left.min(rest.len()));
                out.extend_from_slice(&rest[..taken]);
                self.left -= taken as u64;
                used += taken;
                if self.left == 0 {
                    self.at = At::DataCr;
                }
                continue;
            }
            match self.step(bytes[used]) {
                Ok(at) => self.at = at,
                Err(why) => return (used, Some(why)),
            }
            used += 1;
        }
        (used, None)
    }

    /// Where one byte that is not of the content leads.
    fn step(&mut self, byte: u8) -> Result<At, &'static str> {
        if self.line == MAX_LINE {
            return Err("the line of a chunk or the trailers are too long");
        }
        self.line += 1;
        Ok(match (self.at, byte) {
            (At::Size | At::Digits, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = char::from(byte).to_digit(16).map_or(0, u64::from);
                let larger = self.left.checked_mul(16).ok_or("a chunk is too large")?;
                self.left = larger + digit; // the last four bits are free
                At::Digits
            }
            (At::Size, _) => return Err("a chunk begins without its size"),
            (At::Digits | At::Extension, b'\r') => At::SizeEnd,
            (At::Digits, b';' | b' ' | b'\t') => At::Extension,
            (At::Digits, _) => return Err("the size of a chunk is no number"),
            (At::Extension, b'\n') => return Err("the line of a chunk ends without CR"),
            (At::Extension, _) => At::Extension,
            (At::SizeEnd, b'\n') => {
                self.line = 0;
                if self.left == 0 { At::Trailer } else { At::Data }
            }
            (At::SizeEnd, _) => return Err("the line of a chunk has a CR inside"),
            (At::DataCr, b'\r') => At::DataLf,
            (At::DataLf, b'\n') => {
                self.line = 0;
                At::Size
            }
            (At::DataCr | At::DataLf, _) => return Err("a chunk is longer than its size"),
            (At::Trailer | At::TrailerLine, b'\r') => {
                if self.at == At::Trailer {
                    At::LastLf
                } else {
                    At::TrailerEnd
                }
            }
            (At::Trailer | At::TrailerLine, b'\n') => return Err("a trailer ends without CR"),
            (At::Trailer | At::TrailerLine, _) => At::TrailerLine,
            (At::TrailerEnd, b'\n') => At::Trailer,
            (At::LastLf, b'\n') => At::Done,
            (At::TrailerEnd | At::LastLf, _) => return Err("a trailer has a CR inside"),
            (At::Data | At::Done, _) => unreachable!("content and what lies behind the end are not looked at"),
        })
    }
}
