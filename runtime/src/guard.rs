//! Where user code is called: panics are caught, and a wait that could never end is recognised.
//!
//! `panic = "abort"` disables the isolation: the process ends with the panic.

pub(crate) mod section;
#[cfg(feature = "async")]
mod task;

#[cfg(feature = "async")]
pub use task::{Guarded, guarded};

use crate::error::Error;
use crate::sync::thread_local;
use informer_core::decode::Guard;
use section::Level;
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// True on a thread that is running a handler, a reconciler or another callback of ours.
pub fn is_inside() -> bool {
    INSIDE.with(Cell::get)
}

/// Refuses a wait for something that cannot happen before the caller returns.
///
/// # Errors
///
/// [`Error::WouldDeadlock`] inside a handler or reconciler, and inside what an informer waits for.
pub fn refuse_inside(what: &'static str) -> Result<(), Error> {
    refuse_held(Level::Driven, what)?;
    if is_inside() { Err(Error::WouldDeadlock { what, place: "a handler or reconciler".into() }) } else { Ok(()) }
}

/// Refuses a wait for something of `level`, where that may wait for this thread.
///
/// # Errors
///
/// [`Error::WouldDeadlock`] with the name of what waits.
pub(crate) fn refuse_held(level: Level, what: &'static str) -> Result<(), Error> {
    section::inside(level).map_or(Ok(()), |place| Err(Error::WouldDeadlock { what, place: place.into() }))
}

/// Calls user code and turns a panic into its text.
///
/// # Errors
///
/// The text of the panic.
pub fn call<R>(work: impl FnOnce() -> R) -> Result<R, String> {
    let before = INSIDE.with(|inside| inside.replace(true));
    let outcome = catch_unwind(AssertUnwindSafe(work));
    INSIDE.with(|inside| inside.set(before));
    outcome.map_err(|panic| {
        let text = text(&*panic);
        // What was thrown is the user's, too, and may throw when it is dropped. What that throws is forgotten, or it
        // would not end.
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
            std::mem::forget(again);
        }
        text
    })
}

/// Catches the panics of decoders, transforms and index functions.
pub struct CatchUnwind;

impl Guard for CatchUnwind {
    fn run(&self, work: &mut dyn FnMut()) -> Result<(), String> {
        call(work)
    }
}

fn text(panic: &(dyn Any + Send)) -> String {
    let known = panic.downcast_ref::<&str>().map(|text| (*text).to_string());
    known.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a text".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_thrown_may_throw_when_it_is_dropped() {
        struct Thrown(u8);
        impl Drop for Thrown {
            fn drop(&mut self) {
                if self.0 > 0 {
                    std::panic::resume_unwind(Box::new(Thrown(self.0 - 1)));
                }
            }
        }
        let thrown = || std::panic::resume_unwind(Box::new(Thrown(2)));
        assert_eq!(call(thrown).unwrap_err(), "a panic without a text");
        assert!(!is_inside());
    }

    #[test]
    fn panics_become_texts_and_the_mark_goes_away() {
        assert_eq!(call(|| panic!("no {}", 7)).unwrap_err(), "no 7");
        assert_eq!(call(|| std::panic::panic_any(7)).unwrap_err(), "a panic without a text");
        assert!(!is_inside());
        assert!(call(is_inside).unwrap());
        let refused = call(|| refuse_inside("stop()")).unwrap().unwrap_err();
        assert_eq!(
            refused.to_string(),
            "stop() was called inside a handler or reconciler, and would wait for itself: call it from elsewhere"
        );
    }
}
