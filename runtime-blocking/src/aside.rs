//! [`Aside`]: calls of the system that cannot be interrupted, one at a time, on a thread that is left behind if need be.
//!
//! ```text
//! turn (waits for the one before) ──► call: thread ──► its answer, or left behind when the time is over
//!                                        └── ends, whenever that is ──► the next one's turn
//! ```
//!
//! So there is at most one such thread, however often and by however many it is tried. It holds a name, and what its
//! answer is put into.

use informer_runtime::fault::Fault;
use informer_runtime::sync::thread::Builder;
use informer_runtime::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Instant;

/// The thread, if there is one.
#[derive(Default)]
pub(crate) struct Aside(Arc<State>);

#[derive(Default)]
struct State {
    is_busy: Mutex<bool>,
    free: Condvar,
}

/// The right to make the one call.
pub(crate) struct Turn(Arc<State>);

impl Drop for Turn {
    fn drop(&mut self) {
        *self.0.is_busy.lock() = false;
        self.0.free.notify_one();
    }
}

impl Aside {
    /// Waits until the call before has returned; `None` if that takes too long.
    pub(crate) fn turn(&self, by: Instant) -> Option<Turn> {
        let mut is_busy = self.0.is_busy.lock();
        while *is_busy {
            if Instant::now() >= by {
                return None;
            }
            is_busy = self.0.free.wait_until(is_busy, by);
        }
        *is_busy = true;
        Some(Turn(Arc::clone(&self.0)))
    }
}

impl Turn {
    /// Makes the call; `None` if it takes too long. The next turn is when it has returned all the same.
    pub(crate) fn call<T>(self, by: Instant, call: impl FnOnce() -> T + Send + 'static) -> Result<Option<T>, Fault>
    where
        T: Send + 'static,
    {
        let (sender, receiver) = mpsc::sync_channel(1);
        let work = move || {
            let answer = call();
            drop(self);
            // Whoever asked may be gone.
            let _ = sender.send(answer);
        };
        let thread = Builder::new().name("informer-dial".into()).spawn(work);
        thread.map_err(|error| Fault::refused(format_args!("no thread to connect on: {error}")).because(error))?;
        Ok(receiver.recv_timeout(by.saturating_duration_since(Instant::now())).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_call_that_hangs_is_left_behind_and_the_next_one_waits_for_it() {
        let aside = Aside::default();
        let (end, hangs) = mpsc::channel::<()>();
        let late = Instant::now();
        let left = aside.turn(late).unwrap().call(late, move || hangs.recv().is_err());
        assert_eq!(left.unwrap(), None);
        assert!(aside.turn(Instant::now()).is_none(), "there is one thread and no more");
        drop(end);
        let by = Instant::now() + Duration::from_secs(60);
        assert_eq!(aside.turn(by).unwrap().call(by, || 7).unwrap(), Some(7));
        assert_eq!(aside.turn(by).unwrap().call(by, || 8).unwrap(), Some(8));
    }

    #[test]
    fn a_call_that_panics_ends_its_turn() {
        let aside = Aside::default();
        let by = Instant::now() + Duration::from_secs(60);
        let none = aside.turn(by).unwrap().call(by, || std::panic::resume_unwind(Box::new("system")));
        assert!(none.unwrap().is_none_or(|(): ()| false));
        assert!(aside.turn(by).is_some());
    }
}
