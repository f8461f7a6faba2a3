//! What a reconcile says when it returns: [`Outcome`] or [`ReconcileError`].
//!
//! A reconcile returns `Result<Outcome, ReconcileError>`. Success can ask for a later repeat; an error cannot carry a
//! delay, and a success no failure, so the combinations that other libraries resolve silently cannot be written
//! (B145).
//!
//! ```
//! use informer_core::controller::{Outcome, ReconcileError, Verdict};
//! use informer_core::time::Duration;
//!
//! fn reconcile(size: &str) -> Result<Outcome, ReconcileError> {
//!     if size.is_empty() {
//!         return Err(ReconcileError::give_up("spec.size is missing")); // no retry will help
//!     }
//!     let size = size.strip_suffix("s").ok_or("spec.size has no unit")?; // a text: retried
//!     let size: u64 = size.parse()?; // any error: retried
//!     if size == 0 { Ok(Outcome::done()) } else { Ok(Outcome::requeue_after(Duration::from_secs(size))) }
//! }
//!
//! assert_eq!(Verdict::from(reconcile("")), Verdict::GiveUp("spec.size is missing".into()));
//! assert_eq!(Verdict::from(reconcile("9")), Verdict::Retry("spec.size has no unit".into()));
//! assert_eq!(Verdict::from(reconcile("xs")), Verdict::Retry("invalid digit found in string".into()));
//! assert_eq!(Verdict::from(reconcile("9s")), Verdict::RequeueAfter(Duration::from_secs(9)));
//! ```

use crate::time::Duration;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use core::error::Error;
use core::fmt;

/// What a reconcile that worked asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Nothing: the key runs again when something changes.
    Done,
    /// A run after this span even if nothing changes. Failures are forgotten all the same (B144).
    RequeueAfter(Duration),
}

impl Outcome {
    /// Nothing more to do until something changes.
    pub const fn done() -> Self {
        Outcome::Done
    }

    /// Run again after `span`, or before that if something changes; at once, behind the others, if it is zero.
    pub const fn requeue_after(span: Duration) -> Self {
        Outcome::RequeueAfter(span)
    }
}

/// Why a reconcile did not work, and whether to try again.
///
/// Whatever converts into `Box<dyn Error + Send + Sync>` converts into one that is retried, so `?` just works: on errors,
/// on that box and on those of other libraries, as `anyhow::Error`, and on a `&str` or `String`. An error that borrows, or
/// that stays on its thread, as that of a poisoned lock, goes through [`retry`](Self::retry). For that, this type itself
/// cannot implement [`Error`]: Rust would not allow both. The message holds the error's sources, too, `: ` between
/// them, each unless it says so already: many errors repeat their source in their own text.
#[derive(Clone, PartialEq, Eq)]
#[must_use]
pub struct ReconcileError {
    message: String,
    gives_up: bool,
}

impl ReconcileError {
    /// Try again with growing waits; what `?` makes of an error.
    pub fn retry(message: impl fmt::Display) -> Self {
        ReconcileError { message: message.to_string(), gives_up: false }
    }

    /// Do not try again until something changes: the object itself is wrong, for example.
    pub fn give_up(message: impl fmt::Display) -> Self {
        ReconcileError { message: message.to_string(), gives_up: true }
    }

    /// What went wrong.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// True if there is to be no retry.
    pub fn gives_up(&self) -> bool {
        self.gives_up
    }
}

/// The most sources of an error that are told: an error that is its own source must not hang us.
const SOURCES: usize = 16;

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for ReconcileError {
    fn from(error: E) -> Self {
        let error = error.into();
        let mut message = error.to_string();
        let mut source = error.source();
        for _ in 0..SOURCES {
            let Some(cause) = source else { break };
            let cause_text = cause.to_string();
            if !message.contains(&cause_text) {
                message.push_str(": ");
                message.push_str(&cause_text);
            }
            source = cause.source();
        }
        ReconcileError { message, gives_up: false }
    }
}

impl fmt::Display for ReconcileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for ReconcileError {
    /// The message in words: `main` prints errors so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, if self.gives_up { "given up" } else { "to be retried" })
    }
}

/// How one run ended, as the adapter that ran it reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It worked. Failures are forgotten.
    Done,
    /// It worked, and is to run again after this span. Failures are forgotten.
    RequeueAfter(Duration),
    /// It failed, and is retried with a growing wait.
    Retry(String),
    /// It failed, and is not retried. Failures are forgotten.
    GiveUp(String),
    /// It panicked. Retried with a growing wait.
    Panicked(String),
    /// Whoever had it in hand let go of it without a word. Retried with a growing wait.
    Unanswered,
    /// It was still running after this span, its deadline, and was dropped. Retried with a growing wait.
    CutShort(Duration),
}

impl From<Outcome> for Verdict {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done => Verdict::Done,
            Outcome::RequeueAfter(span) => Verdict::RequeueAfter(span),
        }
    }
}

impl From<Result<Outcome, ReconcileError>> for Verdict {
    fn from(result: Result<Outcome, ReconcileError>) -> Self {
        match result {
            Ok(outcome) => outcome.into(),
            Err(error) if error.gives_up => Verdict::GiveUp(error.message),
            Err(error) => Verdict::Retry(error.message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use core::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Debug)]
    struct Layer(&'static str, Option<Box<Layer>>);

    impl fmt::Display for Layer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Layer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|layer| layer as _)
        }
    }

    #[test]
    fn an_error_is_retried_and_tells_its_sources() {
        let error =
            Layer("cannot scale", Some(Box::new(Layer("request failed", Some(Box::new(Layer("refused", None)))))));
        let fail = || -> Result<Outcome, ReconcileError> { Err(error)? };
        assert_eq!(Verdict::from(fail()), Verdict::Retry("cannot scale: request failed: refused".into()));
    }

    #[test]
    fn a_boxed_error_is_retried_and_tells_its_sources() {
        let error = || -> Result<(), Box<dyn Error + Send + Sync>> {
            Err(Layer("cannot scale", Some(Box::new(Layer("refused", None)))))?
        };
        let fail = || -> Result<Outcome, ReconcileError> {
            error()?;
            Ok(Outcome::done())
        };
        assert_eq!(Verdict::from(fail()), Verdict::Retry("cannot scale: refused".into()));
    }

    #[test]
    fn what_another_library_boxes_its_own_way_is_an_error_too() {
        /// As `anyhow::Error`: no error itself, for the sake of its own conversions.
        struct Report(Layer);
        impl From<Report> for Box<dyn Error + Send + Sync> {
            fn from(report: Report) -> Self {
                Box::new(report.0)
            }
        }
        let fail = || -> Result<Outcome, ReconcileError> {
            Err(Report(Layer("cannot scale", Some(Box::new(Layer("refused", None))))))?
        };
        assert_eq!(Verdict::from(fail()), Verdict::Retry("cannot scale: refused".into()));
    }

    #[test]
    fn a_text_is_an_error_that_is_retried() {
        let borrowed = || -> Result<Outcome, ReconcileError> { Err("no label app")? };
        assert_eq!(Verdict::from(borrowed()), Verdict::Retry("no label app".into()));
        let owned = || -> Result<Outcome, ReconcileError> { Err(format!("no label {}", "app"))? };
        assert_eq!(Verdict::from(owned()), Verdict::Retry("no label app".into()));
    }

    #[test]
    fn what_an_error_repeats_of_its_source_is_told_once() {
        let error =
            Layer("cannot scale: refused", Some(Box::new(Layer("refused", Some(Box::new(Layer("busy", None)))))));
        assert_eq!(ReconcileError::from(error).message(), "cannot scale: refused: busy");
    }

    #[test]
    fn an_endless_chain_of_sources_is_cut() {
        /// Says something else each time that it is asked.
        #[derive(Debug)]
        struct Endless;
        static TOLD: AtomicUsize = AtomicUsize::new(0);
        impl fmt::Display for Endless {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "x{}", TOLD.fetch_add(1, Ordering::Relaxed))
            }
        }
        impl Error for Endless {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(&Endless)
            }
        }
        assert_eq!(ReconcileError::from(Endless).message().matches('x').count(), 1 + SOURCES);
    }
}
