//! [`Latencies`]: how long each of many short things took, in fixed memory.
//!
//! Noting one touches a counter and nothing else: a list of all times would fault in a page for each thousand of them,
//! which is what a 99.9th percentile looks at.
//!
//! ```
//! use informer_peers::latency::Latencies;
//!
//! let mut latencies = Latencies::new();
//! (1..=1_000).for_each(|ns| latencies.note(ns));
//! let half = latencies.quantile(0.5);
//! assert!((490..=510).contains(&half), "{half} ns");
//! ```

/// Counters for each doubling: a time is known to one part in 64.
const PARTS: usize = 64;

/// Doublings of 64 bits, the first six of which are exact.
const DOUBLINGS: usize = 59;

/// Counts times by their size.
#[derive(Clone, Debug)]
pub struct Latencies {
    counts: Vec<u64>,
    total: u64,
    longest: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Latencies::new()
    }
}

impl Latencies {
    /// None noted.
    pub fn new() -> Self {
        Latencies { counts: vec![0; PARTS * DOUBLINGS], total: 0, longest: 0 }
    }

    /// Notes one, in nanoseconds.
    pub fn note(&mut self, ns: u64) {
        self.counts[place(ns)] += 1;
        self.total += 1;
        self.longest = self.longest.max(ns);
    }

    /// How many were noted.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The longest, exactly.
    pub fn longest(&self) -> u64 {
        self.longest
    }

    /// The time that this share of all is no longer than, in nanoseconds; 0 if none was noted.
    pub fn quantile(&self, share: f64) -> u64 {
        let mut left = (self.total as f64 * share).ceil() as u64;
        for (place, count) in self.counts.iter().enumerate() {
            if *count >= left {
                return if *count == 0 { 0 } else { least(place) };
            }
            left -= count;
        }
        self.longest
    }
}

/// The counter of a time.
fn place(ns: u64) -> usize {
    let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(PARTS.trailing_zeros() + 1) as usize;
    shift * PARTS + (ns >> shift) as usize
}

/// The least time that a counter counts.
fn least(place: usize) -> u64 {
    let shift = (place / PARTS).saturating_sub(1);
    ((place - shift * PARTS) as u64) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_has_a_counter_whose_least_is_within_a_64th() {
        for ns in (0..100_000).chain([1 << 40, u64::MAX / 3, u64::MAX]) {
            let least = least(place(ns));
            assert!(least <= ns && ns - least <= ns / 64, "{ns}: {least}");
        }
        assert!(place(u64::MAX) < PARTS * DOUBLINGS);
    }

    #[test]
    fn a_rare_long_one_shows_beyond_its_share() {
        let mut latencies = Latencies::new();
        (0..9_990).for_each(|_| latencies.note(50));
        (0..10).for_each(|_| latencies.note(1_000_000));
        assert_eq!((latencies.quantile(0.5), latencies.quantile(0.999)), (50, 50));
        assert!(latencies.quantile(0.9995) > 900_000);
        assert_eq!((latencies.count(), latencies.longest()), (10_000, 1_000_000));
        assert_eq!(Latencies::new().quantile(0.5), 0);
    }
}
