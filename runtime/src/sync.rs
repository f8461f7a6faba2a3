//! Everything this crate takes from `std::sync`, so that a model checker can take its place.
//!
//! No other module of the crate names `std::sync`. The locks here ignore poisoning: user code never runs while one is
//! held, so a poisoned lock could only come from a panic of our own between two statements that cannot leave the data
//! half changed; to answer it with a second panic in every reader would turn one fault into many.
//!
//! [`Signal`] is the one thing that threads *and* tasks wait on. It carries no data. The rule that loses no wake-up:
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

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

pub use std::sync::{Arc, MutexGuard, OnceLock, RwLockReadGuard, RwLockWriteGuard, Weak};

/// The atomic integers and their orderings.
pub mod atomic {
    pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
}

/// A mutual exclusion lock whose `lock` cannot fail (see the module about poisoning).
#[derive(Default)]
pub struct Mutex<T: ?Sized>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// An open lock around `value`.
    pub const fn new(value: T) -> Self {
        Mutex(std::sync::Mutex::new(value))
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
pub struct RwLock<T: ?Sized>(std::sync::RwLock<T>);

impl<T> RwLock<T> {
    /// An open lock around `value`.
    pub const fn new(value: T) -> Self {
        RwLock(std::sync::RwLock::new(value))
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
pub struct Condvar(std::sync::Condvar);

impl Condvar {
    /// A condition variable with no waiter.
    pub const fn new() -> Self {
        Condvar(std::sync::Condvar::new())
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

/// How many wakers [`Signal::poll_past`] keeps; one more wakes the oldest, which then polls again if it still cares.
///
/// Far above the number of tasks that poll one signal by hand, and small enough that a task which comes and goes with
/// a fresh waker each time cannot make the list grow.
pub const MAX_POLL_WAKERS: usize = 1024;

/// Something happened: wakes threads and tasks alike. See the module for the rule that loses no wake-up.
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
    /// The id of the next `Past` that registers. Ids are not used twice, so that a drop never removes a stranger.
    next_id: u64,
    /// Wakers of live `Past` futures; each removes its own.
    futures: BTreeMap<u64, Waker>,
    /// Wakers of `poll_past`, oldest first; at most `MAX_POLL_WAKERS`.
    polls: Vec<Waker>,
}

impl Signal {
    /// A signal of generation 0 with no waiter.
    pub const fn new() -> Self {
        let state = State { generation: 0, sleepers: 0, next_id: 0, futures: BTreeMap::new(), polls: Vec::new() };
        Signal { state: Mutex::new(state), threads: Condvar::new() }
    }

    /// Moves the generation on by one and wakes every waiter.
    pub fn notify(&self) {
        let mut state = self.state.lock();
        state.generation += 1;
        let sleepers = state.sleepers;
        let futures = std::mem::take(&mut state.futures);
        let polls = std::mem::take(&mut state.polls);
        drop(state);
        if sleepers > 0 {
            self.threads.notify_all();
        }
        // A waker is an executor's code: it runs, and is dropped, outside the lock.
        futures.into_values().chain(polls).for_each(Waker::wake);
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

    /// Ready if the generation is greater than `seen`; otherwise the task of `cx` is woken by the next notification.
    ///
    /// Its waker stays until then even if the task is gone (at most [`MAX_POLL_WAKERS`] of them): [`past`](Self::past)
    /// cleans up after itself and is the better choice where a future can be stored.
    pub fn poll_past(&self, cx: &mut Context<'_>, seen: u64) -> Poll<()> {
        let waker = cx.waker().clone();
        let mut state = self.state.lock();
        if state.generation > seen {
            return Poll::Ready(());
        }
        if state.polls.iter().any(|known| known.will_wake(&waker)) {
            drop(state);
            return Poll::Pending;
        }
        let oldest = if state.polls.len() == MAX_POLL_WAKERS { Some(state.polls.remove(0)) } else { None };
        state.polls.push(waker);
        drop(state);
        if let Some(oldest) = oldest {
            oldest.wake();
        }
        Poll::Pending
    }

    /// A future that is ready once the generation is greater than `seen`. Dropping it leaves nothing behind.
    ///
    /// ```
    /// use informer_runtime::sync::Signal;
    ///
    /// # async fn until(signal: &Signal, ready: impl Fn() -> bool) {
    /// loop {
    ///     let seen = signal.generation();
    ///     if ready() {
    ///         break;
    ///     }
    ///     signal.past(seen).await;
    /// }
    /// # }
    /// ```
    pub fn past(&self, seen: u64) -> impl Future<Output = ()> + Send + '_ {
        Past { signal: self, seen, id: None }
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal").field("generation", &self.generation()).finish_non_exhaustive()
    }
}

struct Past<'a> {
    signal: &'a Signal,
    seen: u64,
    /// Under which id our waker is registered, if it is.
    id: Option<u64>,
}

impl Future for Past<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let waker = cx.waker().clone();
        let mut state = self.signal.state.lock();
        if state.generation > self.seen {
            return Poll::Ready(());
        }
        let id = match self.id {
            Some(id) => id,
            None => {
                let id = state.next_id;
                state.next_id += 1;
                id
            }
        };
        let displaced = state.futures.insert(id, waker);
        drop(state);
        // The displaced waker may own the last reference to a task, whose futures may lock this very signal.
        drop(displaced);
        self.id = Some(id);
        Poll::Pending
    }
}

impl Drop for Past<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            let waker = self.signal.state.lock().futures.remove(&id);
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::atomic::{AtomicUsize, Ordering};
    use super::*;
    use std::pin::pin;
    use std::task::Wake;
    use std::time::Duration;

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn counting() -> (Arc<Count>, Waker) {
        let count = Arc::new(Count::default());
        (Arc::clone(&count), Waker::from(count))
    }

    fn waiting(signal: &Signal) -> (usize, usize) {
        let state = signal.state.lock();
        (state.futures.len(), state.polls.len())
    }

    #[test]
    fn a_notification_between_the_look_and_the_wait_is_not_lost() {
        let signal = Signal::new();
        let seen = signal.generation();
        signal.notify();
        assert!(signal.wait_past(seen, None));
        assert_eq!(signal.poll_past(&mut Context::from_waker(Waker::noop()), seen), Poll::Ready(()));
        assert_eq!(pin!(signal.past(seen)).poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(()));
        assert_eq!(waiting(&signal), (0, 0));
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
    fn a_task_is_woken_once_however_often_it_polls() {
        let signal = Signal::new();
        let (count, waker) = counting();
        let mut cx = Context::from_waker(&waker);
        let mut past = pin!(signal.past(0));
        for _ in 0..10 {
            assert_eq!(past.as_mut().poll(&mut cx), Poll::Pending);
            assert_eq!(signal.poll_past(&mut cx, 0), Poll::Pending);
        }
        assert_eq!(waiting(&signal), (1, 1));
        signal.notify();
        signal.notify();
        assert_eq!(count.0.load(Ordering::SeqCst), 2);
        assert_eq!(past.as_mut().poll(&mut cx), Poll::Ready(()));
        assert_eq!(waiting(&signal), (0, 0));
    }

    #[test]
    fn a_dropped_future_takes_its_waker_along() {
        let signal = Signal::new();
        let (count, waker) = counting();
        for _ in 0..100 {
            let mut past = Box::pin(signal.past(0));
            assert_eq!(past.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
        }
        assert_eq!(waiting(&signal), (0, 0));
        signal.notify();
        assert_eq!(count.0.load(Ordering::SeqCst), 0);
        drop(waker);
        assert_eq!(Arc::strong_count(&count), 1);
    }

    #[test]
    fn a_future_that_moves_to_another_task_wakes_only_that_one() {
        let signal = Signal::new();
        let (first, second) = (counting(), counting());
        let mut past = pin!(signal.past(0));
        assert_eq!(past.as_mut().poll(&mut Context::from_waker(&first.1)), Poll::Pending);
        assert_eq!(past.as_mut().poll(&mut Context::from_waker(&second.1)), Poll::Pending);
        signal.notify();
        assert_eq!(first.0.0.load(Ordering::SeqCst), 0);
        assert_eq!(second.0.0.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn wakers_of_tasks_that_are_gone_do_not_pile_up() {
        let signal = Signal::new();
        let (oldest, waker) = counting();
        assert_eq!(signal.poll_past(&mut Context::from_waker(&waker), 0), Poll::Pending);
        for _ in 0..MAX_POLL_WAKERS {
            let (_, waker) = counting();
            assert_eq!(signal.poll_past(&mut Context::from_waker(&waker), 0), Poll::Pending);
        }
        assert_eq!(waiting(&signal), (0, MAX_POLL_WAKERS));
        assert_eq!(oldest.0.load(Ordering::SeqCst), 1, "the one that made room was told to poll again");
    }

    #[test]
    fn a_waker_that_drops_a_future_of_the_same_signal_does_not_deadlock() {
        struct Owner(Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>);
        impl Wake for Owner {
            fn wake(self: Arc<Self>) {
                let future = self.0.lock().take();
                drop(future);
            }
        }
        let signal: &'static Signal = Box::leak(Box::new(Signal::new()));
        let (_, noop) = counting();
        let mut past = Box::pin(signal.past(5));
        assert_eq!(past.as_mut().poll(&mut Context::from_waker(&noop)), Poll::Pending);
        let owner = Waker::from(Arc::new(Owner(Mutex::new(Some(past)))));
        assert_eq!(signal.poll_past(&mut Context::from_waker(&owner), 5), Poll::Pending);
        signal.notify();
        assert_eq!(waiting(signal), (0, 0));
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
