//! The roster: which informers a factory has, which of them wait for a start, and who uses them.
//!
//! ```text
//! asked for ──► unstarted ──► driven ──► stopped: out of the roster, asked for again it is a fresh one
//!                   └──────────────────────┘
//! ```
//!
//! For adapters there is [`Leased`]. An informer leaves when it is stopped by name, or when the last [`Lease`] on it is
//! dropped and nobody asked for it without one. It is out of the roster before its driver hears of it, so who asks for
//! the same afterwards never gets one that is about to end (B060). One whose driver died by itself stays, so that a
//! wait for the sync can name it, until it is asked for again. Informers hold their roster weakly.

use crate::driver::{Drive, InformerDriver};
use crate::error::Error;
use crate::factory::Shared;
use crate::feeder::{FedSpec, Feeder};
use crate::informer::{InformerHandle, InformerSpec, Inner, Status};
use crate::mutation::MutationCheck;
use crate::replaced::drop_quietly;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Arc, Mutex};
use informer_core::factory::{Fingerprint, Registry, Scope};
use informer_core::saved::SavedError;
use std::any::Any;
use std::fmt;
use std::ops::Deref;

/// The informers of one factory.
pub(crate) struct Roster {
    members: Mutex<Members>,
    stopping: AtomicBool,
    /// Feeders that were asked for: no two are one.
    feeders: AtomicU64,
}

#[derive(Default)]
struct Members {
    informers: Registry<Member>,
    unstarted: Vec<Unstarted>,
}

struct Member {
    handle: Box<dyn Any + Send>,
    status: Arc<Status>,
    /// Somebody asked for it without a lease: it stays until it is stopped by name.
    pinned: bool,
    leases: usize,
}

struct Unstarted {
    status: Arc<Status>,
    drive: Box<dyn Drive>,
}

impl Roster {
    pub(crate) fn new() -> Self {
        Roster { members: Mutex::default(), stopping: AtomicBool::new(false), feeders: AtomicU64::new(0) }
    }

    /// The informer that is there, or a new one. A lease counts from here on; without one it is pinned.
    pub(crate) fn informer<T: Send + Sync + 'static>(
        self: &Arc<Self>,
        spec: InformerSpec<T>,
        shared: &Arc<Shared>,
        lease: bool,
    ) -> Result<InformerHandle<T>, Error> {
        let options = options(&spec);
        self.get_or_make(spec, options, shared, lease, |driver, _| Box::new(driver))
    }

    /// A new informer that is fed. None is there before, nor is it shared: whoever asks for the same has a conflict.
    pub(crate) fn fed<T: Send + Sync + 'static>(
        self: &Arc<Self>,
        spec: FedSpec<T>,
        shared: &Arc<Shared>,
    ) -> Result<(InformerHandle<T>, Feeder<T>), Error> {
        let spec = spec.into_spec();
        let number = self.feeders.fetch_add(1, Ordering::Relaxed) + 1;
        let options = options(&spec).with("source", format_args!("feeder {number}"));
        let mut made = None;
        let informer = self.get_or_make(spec, options, shared, false, |driver, inner| {
            let (feeder, drive) = Feeder::new(driver, inner, shared);
            made = Some(feeder);
            Box::new(drive)
        })?;
        Ok((informer, made.expect("nobody else asks for this feeder")))
    }

    fn get_or_make<T: Send + Sync + 'static>(
        self: &Arc<Self>,
        spec: InformerSpec<T>,
        options: Fingerprint,
        shared: &Arc<Shared>,
        lease: bool,
        drive: impl FnOnce(InformerDriver<T>, Arc<Inner<T>>) -> Box<dyn Drive>,
    ) -> Result<InformerHandle<T>, Error> {
        let scope = Scope::of(&spec.config.reflector);
        if let Some(saved) = &spec.saved {
            SavedError::check_of(saved.of(), &scope.to_string())?;
            SavedError::check_schema(saved.schema(), spec.saved_as())?;
        }
        // Dropped behind the lock if nobody needs it: it holds what users gave us, perhaps a lease of another informer.
        let (mut asked, mut twice) = (Some(spec), Vec::new());
        let mut members = self.members.lock();
        let Members { informers, unstarted } = &mut *members;
        // A stop raises its flag before it takes what is not started, under this lock: it finds ours, or we see the flag.
        if self.is_stopping() {
            return Err(Error::Stopped);
        }
        // Whose driver died keeps nothing up to date. Who holds it sees that it has stopped, and its leases count no more.
        let dead = |member: &&mut Member| member.status.stopped.load(Ordering::Acquire);
        let dead = informers.get_mut::<T>(&scope).filter(dead).is_some().then(|| informers.remove::<T>(&scope));
        let known_as = scope.clone();
        let member = informers.get_or_insert::<T>(scope, options, || {
            let mut spec = asked.take().expect("it is made once");
            let status = Arc::new(Status::new(&known_as.to_string(), spec.config.fed));
            let inner = Arc::new(Inner::new(&spec, known_as, Arc::clone(&status), shared, Arc::downgrade(self)));
            let saved = spec.saved.take();
            spec.config.preloaded = saved.as_ref().map(|saved| saved.version().clone());
            if let Some(saved) = saved {
                twice = inner.store.preload(saved);
            }
            let handle = Box::new(InformerHandle(Arc::clone(&inner)));
            let driver = InformerDriver::new(spec, Arc::clone(&inner), Arc::clone(shared));
            unstarted.push(Unstarted { status: Arc::clone(&status), drive: drive(driver, inner) });
            Member { handle, status, pinned: false, leases: 0 }
        })?;
        member.pinned |= !lease;
        member.leases += usize::from(lease);
        let handle = member.handle.downcast_ref::<InformerHandle<T>>().expect("the registry keeps types apart").clone();
        drop(members);
        drop(dead);
        twice.into_iter().for_each(drop_quietly);
        Ok(handle)
    }

    /// The informers that were asked for since the last start, for whoever drives them; none after a stop.
    pub(crate) fn take_unstarted(&self) -> Vec<Box<dyn Drive>> {
        if self.is_stopping() {
            return Vec::new();
        }
        let unstarted = std::mem::take(&mut self.members.lock().unstarted);
        let start = |Unstarted { status, drive }: Unstarted| {
            status.started.store(true, Ordering::Release);
            drive
        };
        unstarted.into_iter().map(start).collect()
    }

    /// The informers that are there, in the order of their scopes.
    pub(crate) fn statuses(&self) -> Vec<Arc<Status>> {
        self.members.lock().informers.iter().map(|(_, member)| Arc::clone(&member.status)).collect()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// No informer comes any more. False if that was said before.
    pub(crate) fn close(&self) -> bool {
        if self.stopping.swap(true, Ordering::AcqRel) {
            return false;
        }
        // Informers that never started have no driver to close their handlers: dropping theirs does.
        let unstarted = std::mem::take(&mut self.members.lock().unstarted);
        drop(unstarted); // not under the lock: it drops what users gave us
        true
    }

    /// Takes one informer out, if `leave` says so of what is there under its scope, and it is that informer.
    fn remove<T: Send + Sync + 'static>(&self, inner: &Arc<Inner<T>>, leave: impl FnOnce(&mut Member) -> bool) {
        let mut members = self.members.lock();
        let is_it = |member: &Member| {
            member.handle.downcast_ref::<InformerHandle<T>>().is_some_and(|handle| Arc::ptr_eq(&handle.0, inner))
        };
        let member = members.informers.get_mut::<T>(&inner.scope).filter(|member| is_it(member));
        if !member.is_some_and(leave) {
            return;
        }
        let member = members.informers.remove::<T>(&inner.scope);
        let at = members.unstarted.iter().position(|other| Arc::ptr_eq(&other.status, &inner.status));
        let unstarted = at.map(|at| members.unstarted.remove(at));
        drop(members);
        inner.leave();
        drop((member, unstarted)); // what users gave us, under no lock
    }

    /// Stops one informer.
    pub(crate) fn stop<T: Send + Sync + 'static>(&self, inner: &Arc<Inner<T>>) {
        self.remove(inner, |_| true);
    }
}

/// What must agree where two ask for one informer.
fn options<T: 'static>(spec: &InformerSpec<T>) -> Fingerprint {
    Fingerprint::of(&spec.config)
        .with("resync", format_args!("{:?}", spec.resync))
        .with("mutation check", spec.mutations.as_ref().map_or("none".to_string(), MutationCheck::describe))
        .with("schema", spec.saved_as())
        .with("transform", if spec.transform.is_empty() { "none" } else { spec.transform.trim() })
}

/// Keeps an informer going, among others: see [`Leased`].
pub struct Lease(Arc<dyn Leasable + Send + Sync>);

trait Leasable {
    fn add(self: Arc<Self>);
    fn release(self: Arc<Self>);
}

impl<T: Send + Sync + 'static> Leasable for Inner<T> {
    fn add(self: Arc<Self>) {
        if let Some(roster) = self.roster.upgrade() {
            roster.remove(&self, |member| {
                member.leases += 1;
                false
            });
        }
    }

    fn release(self: Arc<Self>) {
        if let Some(roster) = self.roster.upgrade() {
            roster.remove(&self, |member| {
                member.leases -= 1;
                member.leases == 0 && !member.pinned
            });
        }
    }
}

impl Lease {
    /// For a lease that the roster has counted.
    pub(crate) fn counted<T: Send + Sync + 'static>(handle: &InformerHandle<T>) -> Self {
        Lease(Arc::clone(&handle.0) as Arc<dyn Leasable + Send + Sync>)
    }
}

impl Clone for Lease {
    fn clone(&self) -> Self {
        Arc::clone(&self.0).add();
        Lease(Arc::clone(&self.0))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        Arc::clone(&self.0).release();
    }
}

/// An informer `I` that stops when the last of its leases is dropped, and nobody asked for it without one: for a scope
/// that is wanted for a time, as in one namespace of many. Handlers and listers do not keep it going.
#[derive(Clone)]
pub struct Leased<I> {
    informer: I,
    _lease: Lease,
}

impl<I> Leased<I> {
    /// Joins an adapter's informer and its lease.
    pub fn new(informer: I, lease: Lease) -> Self {
        Leased { informer, _lease: lease }
    }
}

impl<I> Deref for Leased<I> {
    type Target = I;

    fn deref(&self) -> &I {
        &self.informer
    }
}

impl<I: fmt::Debug> fmt::Debug for Leased<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "leased {:?}", self.informer)
    }
}
