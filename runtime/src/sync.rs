//! Everything this crate takes from `std::sync`, and the threads that it starts, so that a model checker can take its place:
//! with `--cfg shuttle` it is shuttle's, which runs threads in orders of its choice (`.ci/schedules`, and the files called
//! `schedules.rs` beside what they check).
//!
//! No other module of this crate or of the adapters names `std::sync`. The locks here ignore poisoning: user code never
//! runs while one is held, so a poisoned lock could only come from a panic of our own between two statements that
//! cannot leave the data half changed; to answer it with a second panic in every reader would turn one fault into many.
//!
//! [`Signal`] is the one thing that threads and, with the feature `async`, tasks wait on. It carries no data. The rule
//! that loses no wake-up:
//!
//! 1. read [`Signal::generation`],
//! 2. look at the condition (under its own lock),
//! 3. if it does not hold, wait *past* the generation of step 1.
//!
//! Whoever changes the condition calls [`Signal::notify`] afterwards. A change between 2 and 3 has already moved the
//! generation on, so the wait of step 3 returns at once.
//!
//! ```
//! use informer_runtime::sync::{Arc, Mutex, Signal};
//!
//! let ready = Arc::new((Mutex::new(false), Signal::new()));
//! let other = Arc::clone(&ready);
//! let thread = std::thread::spawn(move || {
//!     *other.0.lock() = true;
//!     other.1.notify();
//! });
//! loop {
//!     let seen = ready.1.generation();
//!     if *ready.0.lock() {
//!         break;
//!     }
//!     ready.1.wait_past(seen, None);
//! }
//! thread.join().unwrap();
//! ```

#[cfg(all(test, shuttle))]
mod schedules;
#[cfg(feature = "async")]
mod task;

#[cfg(feature = "async")]
pub use task::Place;

use std::fmt;
use std::time::{Duration, Instant};

#[cfg(shuttle)]
use shuttle::sync as imp;
#[cfg(not(shuttle))]
use std::sync as imp;

pub use imp::{Arc, MutexGuard, RwLockReadGuard, RwLockWriteGuard, Weak, mpsc};
pub use std::sync::OnceLock;

#[cfg(shuttle)]
pub(crate) use shuttle::thread_local;
#[cfg(not(shuttle))]
pub(crate) use std::thread_local;

/// Threads.
pub mod thread {
    #[cfg(shuttle)]
    pub use shuttle::thread::Builder;
    #[cfg(not(shuttle))]
    pub use std::thread::Builder;
}

/// The atomic integers and their orderings.
pub mod atomic {
    pub use super::imp::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
}

/// Longer than any wait lasts, and an instant that far away is one that every clock can hold: some thirty years.
const FOR_EVER: Duration = Duration::from_secs(1_000_000_000);

/// The end of a wait that begins `now` and lasts at most for `within`; for [`Duration::MAX`], and whatever else no clock can
/// hold, that is as good as never.
///
/// Users say how long they wait; until when is what waits share inside. `now` is of the clock that the wait is slept by.
pub fn deadline(now: Instant, within: Duration) -> Instant {
    now + within.min(FOR_EVER)
}

/// A mutual exclusion lock whose `lock` cannot fail (see the module about poisoning).
#[derive(Default)]
pub struct Mutex<T: ?Sized>(imp::Mutex<T>);

impl<T> Mutex<T> {
    /// An open lock around `value`.
    pub const fn new(value: T) -> Self {
        Mutex(imp::Mutex::new(value))
    }

    /// The value, without its lock.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until the lock is free and takes it.
    ///
    /// # Panics
    ///
    /// May panic, or block for ever, if this thread already holds it, as std's does.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The value through an exclusive reference: nobody else can hold the lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<T: ?Sized> fmt::Debug for Mutex<T> {
    /// Never the content: it may be a credential, and to read it would need the lock.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mutex(..)")
    }
}

/// A lock for many readers or one writer; taking it cannot fail (see the module about poisoning).
#[derive(Default)]
pub struct RwLock<T: ?Sized>(imp::RwLock<T>);

impl<T> RwLock<T> {
    /// An open lock around `value`.
    pub const fn new(value: T) -> Self {
        RwLock(imp::RwLock::new(value))
    }

    /// The value, without its lock.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until no writer holds the lock and shares it.
    ///
    /// # Panics
    ///
    /// May panic, or block for ever, if this thread already holds it, as std's does.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits until nobody holds the lock and takes it alone.
    ///
    /// # Panics
    ///
    /// May panic, or block for ever, if this thread already holds it, as std's does.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The value through an exclusive reference: nobody else can hold the lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<T: ?Sized> fmt::Debug for RwLock<T> {
    /// Never the content, as [`Mutex`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RwLock(..)")
    }
}

/// A condition variable for [`Mutex`]. A wait may end without a notification: look at the condition again.
#[derive(Debug, Default)]
pub struct Condvar(imp::Condvar);

impl Condvar {
    /// A condition variable with no waiter.
    pub const fn new() -> Self {
        Condvar(imp::Condvar::new())
    }

    /// Releases the lock, waits for a notification, takes the lock again.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// As [`wait`](Self::wait), but not beyond `deadline`; at once if it has passed.
    pub fn wait_until<'a, T>(&self, guard: MutexGuard<'a, T>, deadline: Instant) -> MutexGuard<'a, T> {
        let left = deadline.saturating_duration_since(Instant::now());
        self.0.wait_timeout(guard, left).unwrap_or_else(|poisoned| poisoned.into_inner()).0
    }

    /// Wakes one waiter, if there is one.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes every waiter.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// Something happened: wakes every waiter, thread or task. See the module for the rule that loses no wake-up.
///
/// A notification without waiters costs one uncontended lock.
#[derive(Default)]
pub struct Signal {
    state: Mutex<State>,
    threads: Condvar,
}

#[derive(Default)]
struct State {
    generation: u64,
    /// Threads inside `wait_past`: without one, `notify` saves the system call.
    sleepers: usize,
    #[cfg(feature = "async")]
    tasks: task::Tasks,
}

impl Signal {
    /// A signal of generation 0 with no waiter.
    pub const fn new() -> Self {
        let state = State {
            generation: 0,
            sleepers: 0,
            #[cfg(feature = "async")]
            tasks: task::Tasks::new(),
        };
        Signal { state: Mutex::new(state), threads: Condvar::new() }
    }

    /// Moves the generation on by one and wakes every waiter.
    pub fn notify(&self) {
        let mut state = self.state.lock();
        state.generation += 1;
        let sleepers = state.sleepers;
        #[cfg(feature = "async")]
        let tasks = state.tasks.take();
        drop(state);
        if sleepers > 0 {
            self.threads.notify_all();
        }
        // A waker is an executor's code: it runs, and is dropped, outside the lock.
        #[cfg(feature = "async")]
        tasks.for_each(std::task::Waker::wake);
    }

    /// How many notifications there have been.
    pub fn generation(&self) -> u64 {
        self.state.lock().generation
    }

    /// Blocks this thread until the generation is greater than `seen` (true) or `deadline` has passed (false).
    pub fn wait_past(&self, seen: u64, deadline: Option<Instant>) -> bool {
        let mut state = self.state.lock();
        state.sleepers += 1;
        while state.generation <= seen {
            state = match deadline {
                None => self.threads.wait(state),
                Some(deadline) if deadline <= Instant::now() => break,
                Some(deadline) => self.threads.wait_until(state, deadline),
            };
        }
        state.sleepers -= 1;
        state.generation > seen
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal").field("generation", &self.generation()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_when_its_span_is_over_and_the_longest_ones_as_good_as_never() {
        let now = Instant::now();
        assert_eq!(deadline(now, Duration::ZERO), now);
        assert_eq!(deadline(now, Duration::from_secs(7)), now + Duration::from_secs(7));
        let year = Duration::from_secs(365 * 24 * 3_600);
        assert_eq!(deadline(now, Duration::MAX), deadline(now, 1_000 * year));
        assert!(deadline(now, Duration::MAX) > now + 30 * year);
    }

    #[test]
    fn a_notification_between_the_look_and_the_wait_is_not_lost() {
        let signal = Signal::new();
        let seen = signal.generation();
        signal.notify();
        assert!(signal.wait_past(seen, None));
    }

    #[test]
    fn a_wait_with_a_passed_deadline_reports_that_nothing_happened() {
        let signal = Signal::new();
        assert!(!signal.wait_past(0, Some(Instant::now())));
        assert!(!signal.wait_past(0, Some(Instant::now() + Duration::from_millis(2))));
        signal.notify();
        assert!(signal.wait_past(0, Some(Instant::now())));
        assert_eq!(signal.state.lock().sleepers, 0);
    }

    #[test]
    fn one_notification_wakes_every_thread() {
        let signal = Signal::new();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| signal.wait_past(0, None))).collect();
            signal.notify();
            assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
        });
    }

    #[test]
    fn threads_that_take_turns_never_miss_one_another() {
        const ROUNDS: u64 = 2_000;
        let turn = Mutex::new(0_u64);
        let signal = Signal::new();
        std::thread::scope(|scope| {
            for me in 0..2 {
                let (turn, signal) = (&turn, &signal);
                scope.spawn(move || {
                    loop {
                        let seen = signal.generation();
                        let mut now = turn.lock();
                        if *now >= ROUNDS {
                            break;
                        }
                        if *now % 2 == me {
                            *now += 1;
                            drop(now);
                            signal.notify();
                        } else {
                            drop(now);
                            signal.wait_past(seen, None);
                        }
                    }
                    signal.notify();
                });
            }
        });
        assert_eq!(turn.into_inner(), ROUNDS);
    }

    #[test]
    fn a_lock_outlives_a_panic_of_its_holder() {
        let lock = Mutex::new(1);
        let table = RwLock::new(1);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _one = lock.lock();
            let _two = table.write();
            panic!("on purpose");
        }));
        assert!(outcome.is_err());
        assert_eq!(*lock.lock(), 1);
        assert_eq!(*table.read(), 1);
        *table.write() += 1;
        assert_eq!((lock.into_inner(), table.into_inner()), (1, 2));
    }
}
