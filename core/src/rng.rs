//! The only source of randomness: a seed that the caller must give.
//!
//! Jitter spreads the retries of a fleet; it is no secret, so a small generator (SplitMix64) is enough. Each machine
//! derives a stream of its own, so that two informers never draw from one sequence.

use core::time::Duration;

/// A deterministic stream of numbers.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A stream that depends on nothing but `seed`.
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    /// A stream of its own for the machine called `name`: same seed and name, same stream.
    pub fn derive(seed: u64, name: &str) -> Self {
        let mut rng = Rng(seed);
        for byte in name.bytes() {
            rng.0 ^= u64::from(byte);
            rng.next();
        }
        Rng(rng.next())
    }

    /// The next number, uniform over all of `u64`.
    #[allow(clippy::should_implement_trait)] // it never ends, so an Iterator would lie with its Option
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound` (0 if `bound` is 0).
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A span in `[0, bound)`, uniform to the nanosecond.
    pub fn span(&mut self, bound: Duration) -> Duration {
        Duration::from_nanos(self.below(u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_streams_and_names_part_them() {
        let draw = |name| Rng::derive(7, name).next();
        assert_eq!(draw("pods"), draw("pods"));
        assert_ne!(draw("pods"), draw("nodes"));
        assert_ne!(Rng::derive(8, "pods").next(), draw("pods"));
    }

    #[test]
    fn bounds_hold() {
        let mut rng = Rng::new(1);
        assert_eq!(rng.below(0), 0);
        let mut seen = [false; 10];
        for _ in 0..1_000 {
            seen[rng.below(10) as usize] = true;
        }
        assert_eq!(seen, [true; 10]);
        assert!(rng.span(Duration::from_millis(1)) < Duration::from_millis(1));
    }
}
