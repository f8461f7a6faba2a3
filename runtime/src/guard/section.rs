//! [`Section`]: what others may have to wait for while this thread runs code of the user's.
//!
//! ```text
//! level     what is held                 by whom                                   who waits for it
//! Driven    the driver of an informer    its adapter; threads that decode for it   who waits for a version, a sync, an end
//! Fed       the seat of one that is fed  who feeds it, or its adapter              who feeds it
//! Changing  the writer of a cache        who commits, or adds or removes an index  the same
//!           its store, for a look        a closure of `InformerHandle::read`       the same, and later readers
//! ```
//!
//! They are taken in this order. While a thread has one, its user code may wait for nothing of that level or of one above
//! it, of whatever informer: two that wait for each other are as stuck as one that waits for itself. What is left goes down
//! only, so no ring of waits can close. Reading the cache waits for none of them, and handlers and reconcilers run in none.
//!
//! An index function is a section by itself: it runs under the writer of its cache only now and then, and a call from it
//! that is refused then should be refused always.
//!
//! The record is the thread's own, and whoever waits asks it first.

use crate::sync::{Arc, thread_local};
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;

thread_local! {
    /// The innermost last. As many as there are levels, unless user code drives another informer by hand.
    static HELD: RefCell<Vec<Held>> = const { RefCell::new(Vec::new()) };
}

/// What may be waited for, in the order in which it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Driven,
    Fed,
    Changing,
}

/// What a thread has. `Display` says where code of the user's runs that is called meanwhile.
#[derive(Clone, Debug)]
pub(crate) enum Held {
    /// The driver of this informer.
    Driver(Arc<str>),
    /// A part of a batch that a driver waits for.
    Decoding,
    /// The driver of this informer, which is fed.
    Seat(Arc<str>),
    /// The writer of the cache of what is called `of`, while `doing`.
    Writer { of: Arc<str>, doing: &'static str },
    /// The store of this informer, for a look.
    Store(Arc<str>),
    /// An object, to which an index function is applied.
    IndexFunction,
}

impl Held {
    fn level(&self) -> Level {
        match self {
            Held::Driver(_) | Held::Decoding => Level::Driven,
            Held::Seat(_) => Level::Fed,
            Held::Writer { .. } | Held::Store(_) | Held::IndexFunction => Level::Changing,
        }
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Held::Driver(of) => write!(f, "an observer or other code that the informer of {of} waits for"),
            Held::Decoding => f.write_str("a decoder, a transform or other code that an informer waits for"),
            Held::Seat(of) => write!(f, "an observer or other code that the informer of {of} calls while it is fed"),
            Held::Writer { of, doing } => {
                write!(f, "an index function or other code that the cache of {of} calls while {doing}")
            }
            Held::Store(of) => write!(f, "a closure that reads the cache of {of} under its lock"),
            Held::IndexFunction => f.write_str("an index function"),
        }
    }
}

/// This thread has something until this is dropped, on the same thread.
pub(crate) struct Section {
    /// Where it stands in the record: what came after it is gone, or is forgotten with it.
    at: usize,
    _of_this_thread: PhantomData<*const ()>,
}

/// From here on this thread has `held`.
pub(crate) fn enter(held: Held) -> Section {
    // A thread that is ending and has no record any more drops values of the user's, and nothing drives there.
    let at = HELD.try_with(|all| {
        let mut all = all.borrow_mut();
        all.push(held);
        all.len() - 1
    });
    Section { at: at.unwrap_or(usize::MAX), _of_this_thread: PhantomData }
}

impl Drop for Section {
    fn drop(&mut self) {
        let _ = HELD.try_with(|all| all.borrow_mut().truncate(self.at));
    }
}

/// Where this thread is, if it is inside something of `level` or below: the innermost of these. What would wait for
/// something of that level is to be refused then.
pub(crate) fn inside(level: Level) -> Option<String> {
    HELD.try_with(|all| all.borrow().iter().rev().find(|held| held.level() >= level).map(ToString::to_string))
        .unwrap_or_default()
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_refused_inside_its_own_level_and_those_below_and_nowhere_else() {
        let levels = || [Level::Driven, Level::Fed, Level::Changing].map(|level| inside(level).is_some());
        assert_eq!(levels(), [false; 3]);
        let driver = enter(Held::Driver("pods".into()));
        assert_eq!(levels(), [true, false, false]);
        {
            let _seat = enter(Held::Seat("lights".into()));
            assert_eq!(levels(), [true, true, false]);
            let _writer = enter(Held::Writer { of: "lights".into(), doing: "an index is filled" });
            assert_eq!(levels(), [true; 3]);
            let _function = enter(Held::IndexFunction);
            assert_eq!(inside(Level::Fed).unwrap(), "an index function");
        }
        assert_eq!(levels(), [true, false, false]);
        assert_eq!(inside(Level::Driven).unwrap(), "an observer or other code that the informer of pods waits for");
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(inside(Level::Driven).is_none(), "it is another thread's"));
        });
        drop(driver);
        assert_eq!(levels(), [false; 3]);
    }

    #[test]
    fn a_panic_leaves_every_section() {
        let unwound = std::panic::catch_unwind(|| {
            let _seat = enter(Held::Seat("lights".into()));
            let _writer = enter(Held::Writer { of: "lights".into(), doing: "a change is committed" });
            std::panic::resume_unwind(Box::new("on purpose")); // without a line on stderr
        });
        assert!(unwound.is_err() && inside(Level::Driven).is_none());
    }
}
