//! [`CatchUp`]: waiting until a cache has a write that we know of, for threads and tasks.
//!
//! Whether it has is the core's decision ([`Goal`]); here is what wakes the waiter: each change of the store, and the end
//! of the informer. Adapters add the clock. A wait ends in one of these ways, and none of them is silence (I26):
//!
//! - the cache stands for the version;
//! - the informer is not started, unless it is fed by hand, or stops;
//! - the versions cannot be compared, or the server was set back while we waited;
//! - the time is over: [`Behind`] then says for what the cache stands, and what failed last.
//!
//! It may be used inside a handler or a reconciler: the cache goes on without them. On tokio a callback is no task, and
//! `Handle::current().block_on(informer.at_least(..))` waits there. Inside a decoder, a transform, an index function or an
//! observer, for which an informer waits, time would pass in vain: what the cache has not yet is refused there.

#[cfg(all(test, shuttle))]
mod schedules;

use crate::error::Error;
use crate::guard;
use crate::guard::section::Level;
use crate::informer::{InformerHandle, Inner};
use crate::lister::Lister;
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, deadline};
use informer_core::reflector::Failure;
use informer_core::store::{Goal, Seen, Store, Unreachable};
use informer_core::{Key, Version};
use std::fmt;
use std::time::{Duration, Instant};

/// A cache did not come to a version that was waited for.
#[derive(Clone)]
#[non_exhaustive]
pub struct Behind {
    /// What the informer reads.
    pub subject: String,
    /// What was waited for.
    pub wanted: Wanted,
    /// The version for which the cache stands; empty before the first list, or if that was fed without one.
    pub stands_for: Version,
    /// True if the cache has had a complete list.
    pub populated: bool,
    /// Why the wait ended.
    pub why: Why,
    /// The handlers for which the informer itself waits: see [`InformerHandle::held_up_by`].
    pub held_up_by: Vec<String>,
    /// What failed since the informer's last success, if anything.
    pub failure: Option<Failure>,
}

/// What was waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The object, if it was one.
    pub key: Option<Key>,
    /// The version.
    pub version: Version,
}

/// Why a wait ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// The time was over.
    Late,
    /// The informer was not started since it was asked for: there is nothing to wait for yet.
    NotStarted,
    /// The informer was stopped, or its factory.
    Stopped,
    /// Nobody can say, or it is not to be expected any more.
    Unreachable(Unreachable),
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(key) => write!(f, "{key} at version {}", self.version),
            None => write!(f, "version {}", self.version),
        }
    }
}

impl fmt::Display for Behind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the cache of {} has not come to {}: ", self.subject, self.wanted)?;
        match &self.why {
            Why::Late => f.write_str("the time is over")?,
            Why::NotStarted => f.write_str("it is not started; call start() after asking for an informer")?,
            Why::Stopped => f.write_str("it was stopped")?,
            Why::Unreachable(why) => why.fmt(f)?,
        }
        match (self.stands_for.is_empty(), self.populated) {
            (false, _) => write!(f, "; it stands for version {}", self.stands_for)?,
            (true, true) => f.write_str("; it stands for no version")?,
            (true, false) => f.write_str("; it has no complete list yet")?,
        }
        for handler in &self.held_up_by {
            write!(f, "; it waits for handler {handler}, which is full")?;
        }
        match &self.failure {
            Some(failure) => write!(f, "; last failure: {failure}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Behind {
    /// The text of Display: `main` prints errors so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Behind {}

type Look<T, R> = Box<dyn FnMut(&Store<T>) -> Result<Option<R>, Unreachable> + Send>;

/// A wait that has begun. While it exists, each change of the cache costs a wake-up; dropping it ends that.
#[must_use = "it does not wait by itself"]
pub struct CatchUp<T, R = ()> {
    inner: Arc<Inner<T>>,
    wanted: Wanted,
    look: Look<T, R>,
}

impl<T: Send + Sync + 'static> InformerHandle<T> {
    /// Begins to wait until the cache stands for `version` or a later one. For adapters.
    pub fn catch_up_to(&self, version: &Version) -> CatchUp<T> {
        let mut goal = Goal::new(version.clone());
        let wanted = Wanted { key: None, version: version.clone() };
        let look: Look<T, ()> = Box::new(move |store| Ok(goal.reached(store)?.then_some(())));
        CatchUp::new(&self.0, wanted, look)
    }

    /// Begins to wait until the cache has the object of `key` at `version` or a later one, or stands for one. For adapters.
    pub fn catch_up_with(&self, key: &Key, version: &Version) -> CatchUp<T, Seen<T>> {
        let mut goal = Goal::new(version.clone());
        let wanted = Wanted { key: Some(key.clone()), version: version.clone() };
        let key = self.0.store.key(key.clone());
        CatchUp::new(&self.0, wanted, Box::new(move |store| goal.seen(store, &key)))
    }

    /// Waits on this thread, at most for `within`, until the cache stands for `version` or a later one, and gives its lister:
    /// what it reads is at least as new.
    ///
    /// # Errors
    ///
    /// [`Error::Behind`] says what it has come to, and why it is of no use to wait on, or that the time is over.
    /// [`Error::WouldDeadlock`] on a thread of an asynchronous runtime, and inside code that an informer waits for.
    pub fn wait_at_least(&self, version: &Version, within: Duration) -> Result<Lister<T>, Error> {
        self.catch_up_to(version).wait(within)?;
        Ok(self.lister())
    }

    /// Waits on this thread, at most for `within`, until the cache has the object of `key` at `version` or a later one, or
    /// stands for one: then the object may be gone, and [`Seen`] says so.
    ///
    /// # Errors
    ///
    /// As [`wait_at_least`](Self::wait_at_least).
    pub fn wait_for(&self, key: &Key, version: &Version, within: Duration) -> Result<Seen<T>, Error> {
        self.catch_up_with(key, version).wait(within)
    }
}

impl<T, R> CatchUp<T, R> {
    fn new(inner: &Arc<Inner<T>>, wanted: Wanted, look: Look<T, R>) -> Self {
        // Before the first look at the store, under its lock: the driver counts after it changed the store under the same
        // lock, so it either was before the look, or finds us.
        inner.status.waiters.fetch_add(1, Ordering::Relaxed);
        CatchUp { inner: Arc::clone(inner), wanted, look }
    }

    /// What was waited for, or the generation of the informer's signal to wait past.
    ///
    /// # Errors
    ///
    /// [`Error::Behind`] if waiting is of no use; [`Error::WouldDeadlock`] inside code that an informer waits for.
    pub fn check(&mut self) -> Result<Result<R, u64>, Error> {
        let status = &self.inner.status;
        let seen = status.moved.generation();
        // Before the look: a stop comes after the last change.
        let stopped = status.stopped.load(Ordering::Acquire);
        let started = status.started.load(Ordering::Acquire);
        let why = match self.inner.store.read(&mut self.look) {
            Ok(Some(found)) => return Ok(Ok(found)),
            Err(unreachable) => Why::Unreachable(unreachable),
            Ok(None) if stopped => Why::Stopped,
            // What is fed comes without a start.
            Ok(None) if !started && !status.fed => Why::NotStarted,
            Ok(None) => {
                guard::refuse_held(Level::Driven, "a wait for a version")?;
                return Ok(Err(seen));
            }
        };
        Err(self.behind(why))
    }

    /// The end of a wait whose time is over: one more look.
    ///
    /// # Errors
    ///
    /// [`Error::Behind`] if that finds nothing, too.
    pub fn late(&mut self) -> Result<R, Error> {
        self.check()?.map_err(|_| self.behind(Why::Late))
    }

    fn behind(&self, why: Why) -> Error {
        let Inner { status, store, .. } = &*self.inner;
        let (stands_for, populated) = store.read(|store| (store.version().to_version(), store.is_populated()));
        Error::Behind(Box::new(Behind {
            subject: status.subject.to_string(),
            wanted: self.wanted.clone(),
            stands_for,
            populated,
            why,
            held_up_by: status.held_up_by(),
            failure: status.failure.lock().clone(),
        }))
    }

    /// Waits on this thread, at most for `within`.
    ///
    /// # Errors
    ///
    /// As [`InformerHandle::wait_at_least`].
    pub fn wait(mut self, within: Duration) -> Result<R, Error> {
        if self.inner.in_async_runtime() {
            let place = "an asynchronous runtime, where at_least() and wait_for() can be awaited";
            return Err(Error::WouldDeadlock { what: "a blocking wait for a version", place: place.into() });
        }
        let deadline = deadline(Instant::now(), within);
        loop {
            match self.check()? {
                Ok(found) => return Ok(found),
                Err(seen) => {
                    if !self.inner.status.moved.wait_past(seen, Some(deadline)) {
                        return self.late();
                    }
                }
            }
        }
    }

    /// Waits on a task, for as long as its future is kept: the adapter has the clock, and calls [`late`](Self::late) in
    /// the end.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    #[cfg(feature = "async")]
    pub async fn found(&mut self) -> Result<R, Error> {
        loop {
            match self.check()? {
                Ok(found) => return Ok(found),
                Err(seen) => self.inner.status.moved.past(seen).await,
            }
        }
    }
}

impl<T, R> Drop for CatchUp<T, R> {
    fn drop(&mut self) {
        self.inner.status.waiters.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<T, R> fmt::Debug for CatchUp<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "waiting for {} in {}", self.wanted, self.inner.status.subject)
    }
}
