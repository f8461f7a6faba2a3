//! [`Bytes`]: reading choices out of an input; [`cut`]: the same body in other chunks.

/// An input as a sequence of choices. What is not there reads as 0, so each prefix of an input is an input.
#[derive(Clone, Debug)]
pub struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    /// From the first byte.
    pub fn new(data: &'a [u8]) -> Self {
        Bytes(data)
    }

    /// True if nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One byte.
    pub fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().map_or((0, self.0), |(first, rest)| (*first, rest));
        self.0 = rest;
        first
    }

    /// A number below `bound`, which is at most 256.
    ///
    /// # Panics
    ///
    /// If `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound
    }

    /// Two bytes, the low one first.
    pub fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// Up to `most` bytes.
    pub fn take(&mut self, most: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.0)
    }
}

/// `body` in chunks whose sizes follow from `seed`: one byte each, or up to 7, up to 64, up to 5,000; some are empty.
pub fn cut(body: &[u8], seed: u8) -> Vec<&[u8]> {
    let most = [1, 7, 64, 5000][usize::from(seed % 4)];
    let mut state = u64::from(seed) | 1;
    let mut chunks = Vec::new();
    let mut rest = body;
    while !rest.is_empty() {
        // Knuth's MMIX generator: any stream of numbers will do.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let size = if most == 1 { 1 } else { (state >> 33) as usize % (most + 1) };
        let (chunk, tail) = rest.split_at(size.min(rest.len()));
        chunks.push(chunk);
        rest = tail;
    }
    chunks
}
