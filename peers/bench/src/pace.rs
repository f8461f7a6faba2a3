//! What readers and writers of a measurement have in common: a mean over many calls, percentiles beside a writer that
//! keeps a pace.

use crate::latency::Latencies;
use crate::side::Figures;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Changes that a writer makes each second.
pub const WRITES: usize = 10_000;

/// How long readers read beside a writer.
pub const BUSY: Duration = Duration::from_secs(2);

/// How long a writer sleeps before it makes what is due.
const TICK: Duration = Duration::from_micros(100);

/// The mean time of `calls` calls of `call`, each told its number, in nanoseconds; what they return is not optimised away.
pub fn mean_ns<R>(calls: usize, mut call: impl FnMut(usize) -> R) -> f64 {
    let began = Instant::now();
    (0..calls).for_each(|number| _ = black_box(call(number)));
    began.elapsed().as_nanos() as f64 / calls as f64
}

/// Reads for [`BUSY`] on this thread with `read`, told how often it was called before, beside a thread that has `write`
/// make [`WRITES`] changes a second, told from which number up to which. Reading the clock is part of each time.
///
/// # Panics
///
/// If one of the two does.
pub fn busy<R>(mut read: impl FnMut(usize) -> R, mut write: impl FnMut(usize, usize) + Send + 'static) -> Figures {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let began = Instant::now();
    let writer = std::thread::spawn(move || {
        let mut written = 0;
        while !stopped.load(Ordering::Relaxed) {
            std::thread::sleep(TICK);
            let due = (began.elapsed().as_secs_f64() * WRITES as f64) as usize;
            if due > written {
                write(written, due);
                written = due;
            }
        }
        written
    });
    let mut latencies = Latencies::new();
    let mut reads = 0;
    while began.elapsed() < BUSY {
        for _ in 0..1_000 {
            let before = Instant::now();
            black_box(read(reads));
            latencies.note(before.elapsed().as_nanos() as u64);
            reads += 1;
        }
    }
    stop.store(true, Ordering::Relaxed);
    let written = writer.join().expect("the writer does not panic");
    let mut figures = Figures::new();
    figures.set("get-busy-half", latencies.quantile(0.5) as f64);
    figures.set("get-busy", latencies.quantile(0.999) as f64);
    figures.set("get-busy-longest", latencies.longest() as f64);
    figures.set("writes", written as f64 / began.elapsed().as_secs_f64());
    figures
}
