//! [`Meter`]: time on the clock and on the processors; [`Memory`]: what a process holds. Of this process, from Linux.

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Measures from its start.
///
/// ```
/// let meter = informer_peers::meter::Meter::start();
/// let work: u64 = (0..1_000_000).map(std::hint::black_box).sum();
/// assert!(work > 0 && meter.cpu() > std::time::Duration::ZERO && meter.wall() > std::time::Duration::ZERO);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    began: Instant,
    cpu: Duration,
}

impl Meter {
    /// Starts now.
    pub fn start() -> Self {
        Meter { began: Instant::now(), cpu: cpu() }
    }

    /// Time on the clock since the start.
    pub fn wall(&self) -> Duration {
        self.began.elapsed()
    }

    /// Time that all threads of this process have run since the start, in its code and in the kernel for it: what
    /// `getrusage` splits into user and system time, and finer.
    pub fn cpu(&self) -> Duration {
        cpu().saturating_sub(self.cpu)
    }
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let (secs, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(secs.expect("time since the start of the process"), nanos.expect("less than a second"))
}

/// Resident memory of this process.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// The most that was ever resident, in MiB.
    pub peak_mib: f64,
    /// What is resident now, in MiB.
    pub settled_mib: f64,
}

impl Memory {
    /// Reads it.
    ///
    /// # Panics
    ///
    /// Where there is no `/proc/self/status`: we measure on Linux.
    pub fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").expect("measurements need Linux");
        Memory { peak_mib: field(&status, "VmHWM:"), settled_mib: field(&status, "VmRSS:") }
    }

    /// Forgets the peak: from here on it is the most that was resident since now.
    ///
    /// # Panics
    ///
    /// Where the kernel has no such thing, or forbids it.
    pub fn forget_peak() {
        std::fs::write("/proc/self/clear_refs", "5").expect("Linux lets a process forget its own peak");
    }
}

/// Bytes of memory that this machine could give.
///
/// # Panics
///
/// Where there is no `/proc/meminfo`: we measure on Linux.
pub fn available() -> usize {
    let status = std::fs::read_to_string("/proc/meminfo").expect("measurements need Linux");
    (field(&status, "MemAvailable:") * 1024.0 * 1024.0) as usize
}

/// A field of `/proc/self/status` or `/proc/meminfo`, which is in KiB, in MiB.
fn field(status: &str, name: &str) -> f64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("Linux always tells");
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().expect("a number of kB");
    kib / 1024.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_was_touched_and_given_back_stays_in_the_peak() {
        let before = Memory::now();
        let held = vec![1_u8; 64 << 20];
        let during = Memory::now();
        // Whether it is resident afterwards is the allocator's affair.
        drop(std::hint::black_box(held));
        let after = Memory::now();
        assert!(during.settled_mib - before.settled_mib > 60.0, "{before:?} {during:?}");
        assert!(after.peak_mib - before.settled_mib > 60.0, "{before:?} {after:?}");
    }

    #[test]
    fn a_peak_is_forgotten_on_request() {
        drop(std::hint::black_box(vec![1_u8; 256 << 20]));
        let before = Memory::now();
        Memory::forget_peak();
        let after = Memory::now();
        assert!(before.peak_mib - after.peak_mib > 100.0, "{before:?} {after:?}");
    }

    #[test]
    fn the_machine_has_more_than_this_process() {
        assert!(available() as f64 > Memory::now().settled_mib * 1024.0 * 1024.0);
    }

    #[test]
    fn a_field_of_the_status_is_read_in_mib() {
        assert_eq!(field("VmPeak:\t  9 kB\nVmHWM:\t    2048 kB\n", "VmHWM:"), 2.0);
    }
}
