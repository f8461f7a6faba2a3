//! How long a failed key waits: [`Limiter`], and [`Bucket`] for the rate of all of them together.

use crate::time::{Duration, Time};

/// The wait before a retry: it doubles with each failure of a key, and a bucket may hold back all keys together.
///
/// The wait is the longer one of both, as in client-go's `MaxOfRateLimiter`. It is for retries only: what a change of
/// an object adds is not held back (B149).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limiter {
    /// The wait after the first failure of a key. Zero turns the wait off.
    pub base: Duration,
    /// The longest wait of a key; it wins over `base`.
    pub cap: Duration,
    /// The rate at which all keys together are retried, if it is limited.
    pub bucket: Option<Bucket>,
}

impl Limiter {
    /// 5 ms, as client-go: a conflict with another writer is gone by then.
    pub const BASE: Duration = Duration::from_millis(5);
    /// 1,000 s, as client-go: reached with the 19th failure in a row.
    pub const CAP: Duration = Duration::from_secs(1_000);

    /// A limiter without a bucket that waits `base`, then twice as long with each failure, `cap` at most.
    pub const fn exponential(base: Duration, cap: Duration) -> Self {
        Limiter { base, cap, bucket: None }
    }

    /// The same limiter with a bucket.
    #[must_use]
    pub const fn with_bucket(mut self, bucket: Bucket) -> Self {
        self.bucket = Some(bucket);
        self
    }

    /// The wait of a key that has failed `failures` times before this failure, without the bucket:
    /// `base` × 2^`failures`, `cap` at most. Never overflows (B142).
    ///
    /// ```
    /// use core::time::Duration;
    /// use informer_core::queue::Limiter;
    ///
    /// let limiter = Limiter::default();
    /// assert_eq!(limiter.backoff(0), Duration::from_millis(5));
    /// assert_eq!(limiter.backoff(3), Duration::from_millis(40));
    /// assert_eq!(limiter.backoff(u32::MAX), Duration::from_secs(1_000));
    /// ```
    pub fn backoff(&self, failures: u32) -> Duration {
        const SECOND: u128 = 1_000_000_000;
        let (base, cap) = (self.base.as_nanos(), self.cap.as_nanos());
        let nanos = match base {
            0 => 0,
            // A shift by the leading zeros loses no bit; a longer one would, and is beyond any cap.
            _ if failures <= base.leading_zeros() => (base << failures).min(cap),
            _ => cap,
        };
        // Fits: the cap is a Duration, and nothing is longer.
        Duration::new((nanos / SECOND) as u64, (nanos % SECOND) as u32)
    }
}

impl Default for Limiter {
    /// [`BASE`](Self::BASE) and [`CAP`](Self::CAP), no bucket.
    fn default() -> Self {
        Limiter::exponential(Self::BASE, Self::CAP)
    }
}

/// A token bucket: retries of all keys together, so many at once and then one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    every: Duration,
    burst: u32,
}

impl Bucket {
    /// `burst` tokens at the start and at most (0 counts as 1), one more each `every`. With a zero `every` nobody
    /// waits.
    pub const fn new(every: Duration, burst: u32) -> Self {
        Bucket { every, burst: if burst == 0 { 1 } else { burst } }
    }

    /// `burst` tokens at the start and at most, `qps` more each second, to the nanosecond of the span between two.
    ///
    /// # Panics
    ///
    /// If `qps` is not greater than zero: no retry would ever come.
    pub fn per_second(qps: f64, burst: u32) -> Self {
        assert!(
            qps > 0.0,
            "a bucket of {qps} retries a second would hold back every retry for ever: use a rate above 0"
        );
        Bucket::new(Duration::try_from_secs_f64(1.0 / qps).unwrap_or(Duration::MAX), burst)
    }

    /// The span between two tokens.
    pub const fn every(&self) -> Duration {
        self.every
    }

    /// How many tokens are saved up at most.
    pub const fn burst(&self) -> u32 {
        self.burst
    }
}

/// A [`Bucket`] in use.
///
/// One number says it all: when the token after the last one given out would be due if none were saved up. Saved
/// tokens let that moment lie `burst - 1` spans in the future without a wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Tokens {
    next: Time,
}

impl Tokens {
    /// Takes one token and says how long to wait for it.
    pub(super) fn reserve(&mut self, bucket: &Bucket, now: Time) -> Duration {
        let saved = u64::try_from(bucket.every.saturating_mul(bucket.burst - 1).as_nanos()).unwrap_or(u64::MAX);
        let due = Time::from_nanos(self.next.as_nanos().saturating_sub(saved));
        self.next = self.next.max(now) + bucket.every;
        due.since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b142_the_wait_never_shrinks_never_overflows_and_never_passes_the_cap() {
        let ms = Duration::from_millis;
        for (base, cap) in [
            (ms(5), Duration::from_secs(1_000)),
            (ms(1), Duration::MAX),
            (Duration::from_nanos(1), Duration::MAX),
            (Duration::ZERO, ms(10)),
            (ms(20), ms(10)),
            (Duration::MAX, Duration::MAX),
            (Duration::from_nanos(3), Duration::from_nanos(100)),
        ] {
            let limiter = Limiter::exponential(base, cap);
            let mut last = Duration::ZERO;
            for failures in (0..10_000).chain([u32::MAX]) {
                let wait = limiter.backoff(failures);
                assert!(wait >= last && wait <= cap, "{base:?} {cap:?} {failures}: {wait:?} after {last:?}");
                assert_eq!(wait.is_zero(), base.is_zero());
                last = wait;
            }
            assert_eq!(last, if base.is_zero() { Duration::ZERO } else { cap });
        }
    }

    #[test]
    fn the_wait_doubles_exactly() {
        let limiter = Limiter::exponential(Duration::from_nanos(3), Duration::MAX);
        for failures in 0..62 {
            assert_eq!(limiter.backoff(failures), Duration::from_nanos(3 << failures));
        }
        // 3 × 2^80 ns, far beyond 64 bits of nanoseconds
        let nanos = 3_u128 << 80;
        let exact = Duration::new((nanos / 1_000_000_000) as u64, (nanos % 1_000_000_000) as u32);
        assert_eq!(limiter.backoff(80), exact);
    }

    #[test]
    fn a_bucket_gives_its_burst_and_then_one_token_at_a_time() {
        let bucket = Bucket::per_second(10.0, 3);
        let (mut tokens, ms) = (Tokens::default(), Duration::from_millis);
        let now = Time::from_millis(1_000);
        let waits: std::vec::Vec<_> = (0..5).map(|_| tokens.reserve(&bucket, now)).collect();
        assert_eq!(waits, [ms(0), ms(0), ms(0), ms(100), ms(200)]);
        // Two spans later the debt is paid; after a long rest there is the burst again, and no more.
        assert_eq!(tokens.reserve(&bucket, now + ms(200)), ms(100));
        let later = now + ms(60_000);
        let waits: std::vec::Vec<_> = (0..4).map(|_| tokens.reserve(&bucket, later)).collect();
        assert_eq!(waits, [ms(0), ms(0), ms(0), ms(100)]);
    }

    #[test]
    #[should_panic(expected = "use a rate above 0")]
    fn a_bucket_without_a_rate_is_refused() {
        Bucket::per_second(f64::NAN, 1);
    }

    #[test]
    fn absurd_buckets_wait_for_ever_or_not_at_all() {
        let mut tokens = Tokens::default();
        let never = Bucket::per_second(1e-300, 0);
        assert_eq!(tokens.reserve(&never, Time::from_millis(1)), Duration::ZERO);
        assert!(tokens.reserve(&never, Time::from_millis(1)) > Duration::from_secs(1 << 33));
        let mut tokens = Tokens::default();
        let always = Bucket::new(Duration::ZERO, u32::MAX);
        assert!((0..1_000).all(|_| tokens.reserve(&always, Time::ZERO).is_zero()));
    }
}
