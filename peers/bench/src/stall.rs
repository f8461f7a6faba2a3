//! [`Stalls`]: a thread that reads now and then, and how long the slowest of its reads took.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two reads. A thread that mostly sleeps is let run as soon as it wakes, also on a busy machine: what its reads
/// wait for is the cache and not the processor.
pub const PAUSE: Duration = Duration::from_micros(100);

/// A reader.
///
/// ```
/// use informer_peers::stall::Stalls;
/// use std::time::Duration;
///
/// let slow = Duration::from_millis(20);
/// let (read, was_read) = std::sync::mpsc::channel();
/// let stalls = Stalls::of(move |turn| {
///     if turn == 1 {
///         std::thread::sleep(slow);
///         read.send(()).unwrap();
///     }
/// });
/// was_read.recv().unwrap();
/// assert!(stalls.end() >= slow);
/// ```
#[derive(Debug)]
pub struct Stalls {
    stop: Arc<AtomicBool>,
    reader: JoinHandle<Duration>,
}

impl Stalls {
    /// Reads with `read`, which is told how often it was called before.
    pub fn of(mut read: impl FnMut(usize) + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let reader = std::thread::spawn(move || {
            let mut longest = Duration::ZERO;
            for turn in 0.. {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                let began = Instant::now();
                read(turn);
                longest = longest.max(began.elapsed());
                std::thread::sleep(PAUSE);
            }
            longest
        });
        Stalls { stop, reader }
    }

    /// Stops reading; how long the slowest read took.
    ///
    /// # Panics
    ///
    /// If a read panicked.
    pub fn end(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        self.reader.join().expect("no read panics")
    }
}
