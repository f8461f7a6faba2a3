//! [`ItemSource`]: an acknowledged stream that several consumers share; [`Item`]: what each of them has in hand.
//!
//! What is given when is the core's [`Acknowledged`]. Here it stands behind a lock, in front of a handler's
//! [`Deliveries`]: whoever asks for the next item moves one notification over, and more only until an item comes out. So
//! what nobody asked for waits in the handler's own bound, merged per key; the keys that wait here are those in hand,
//! those of retries, and those that changed meanwhile; and retries do not hold up what is new.
//!
//! An adapter for threads uses [`Items`]; one for tasks waits with a timer of its own, as [`NextItem`] says.
//!
//! ```
//! use informer_runtime::acknowledged::{ItemOptions, Items};
//! use informer_runtime::informer::InformerHandle;
//!
//! fn copy(pods: &InformerHandle<String>, write: impl Fn(&str) -> Result<(), String>) {
//!     for item in Items::new(pods, ItemOptions::default()) {
//!         match item.object().map_or(Ok(()), |pod| write(pod)) {
//!             Ok(()) => item.done(),
//!             Err(reason) if item.attempt() < 5 => item.retry(reason),
//!             Err(reason) => item.give_up(reason),
//!         }
//!     }
//! }
//! ```

use crate::guard;
use crate::handler::{Channel, Deliveries, HandlerOptions, Lent, Next, Passed, Registration};
use crate::informer::InformerHandle;
use crate::lister::Lister;
use crate::observe::{Clock, HandlerCall, Observed, Observer, random_seed, tell};
use crate::replaced::{drop_each, drop_quietly};
use crate::sync::{Arc, Mutex, Signal, deadline};
use informer_core::acknowledged::{Acknowledged, Given};
use informer_core::controller::{Counts, Verdict};
use informer_core::queue::{Limiter, QueueConfig};
use informer_core::{Key, Obj};
use std::fmt;
use std::time::{Duration, Instant};

/// How an acknowledged stream is fed, and how its retries are spaced.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ItemOptions {
    /// As for any handler. [`on_synced`](HandlerOptions::on_synced) is called once each key of the initial state was
    /// answered, where the last of them is.
    pub handler: HandlerOptions,
    /// The waits before retries; those of a controller by default.
    pub limiter: Limiter,
}

impl ItemOptions {
    /// The defaults, under a name.
    pub fn named(name: &str) -> Self {
        ItemOptions { handler: HandlerOptions::named(name), ..ItemOptions::default() }
    }

    /// The same with other waits before retries.
    #[must_use]
    pub fn limiter(mut self, limiter: Limiter) -> Self {
        self.limiter = limiter;
        self
    }
}

/// What consumers and items share.
struct Shared<T> {
    machine: Mutex<Acknowledged<T>>,
    /// Locked before `machine`: who takes a delivery moves it over before the next one can be taken.
    deliveries: Mutex<Deliveries<T>>,
    channel: Arc<Channel<T>>,
    lister: Lister<T>,
    clock: Clock,
    observer: Option<Observer>,
    registration: Registration,
    on_synced: Mutex<Option<Arc<dyn Fn() + Send + Sync>>>,
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        let given = self.machine.lock().take_objects();
        drop_each(given);
    }
}

/// The consumers; items do not count as such.
struct Owner<T>(Arc<Shared<T>>);

impl<T> Drop for Owner<T> {
    fn drop(&mut self) {
        self.0.registration.remove();
    }
}

/// An acknowledged stream without its waits. Cloning it adds a consumer; dropping the last one removes the handler, and
/// items that are in hand then can still be answered, to no effect but that they are counted.
pub struct ItemSource<T>(Arc<Owner<T>>);

impl<T> Clone for ItemSource<T> {
    fn clone(&self) -> Self {
        ItemSource(Arc::clone(&self.0))
    }
}

/// What [`ItemSource::next_item`] found.
pub enum NextItem<T> {
    /// Deal with it.
    Item(Item<T>),
    /// Wait past this generation of the signal, or until the instant.
    Wait(u64, Option<Instant>),
    /// The informer stopped or the registration was removed: nothing comes any more.
    Closed,
}

impl<T: Send + Sync + 'static> ItemSource<T> {
    /// Adds the handler.
    pub fn new(informer: &InformerHandle<T>, options: ItemOptions) -> Self {
        let ItemOptions { handler, limiter } = options;
        let on_synced = handler.on_synced.clone();
        let (registration, deliveries) = informer.channel(handler);
        deliveries.channel().take_by_hand();
        ItemSource(Arc::new(Owner(Arc::new(Shared {
            machine: Mutex::new(Acknowledged::new(QueueConfig::new(random_seed()).limiter(limiter))),
            channel: deliveries.channel(),
            deliveries: Mutex::new(deliveries),
            lister: informer.lister(),
            clock: informer.clock(),
            observer: informer.observer(),
            registration,
            on_synced: Mutex::new(on_synced),
        }))))
    }

    /// The next item, if there is one.
    pub fn next_item(&self) -> NextItem<T> {
        let shared = &self.0.0;
        // Ends: each round moves one delivery over.
        loop {
            let seen = shared.channel.signal().generation();
            // Before the locks, and so dropped behind them.
            let mut passed = Passed::default();
            let mut deliveries = shared.deliveries.lock();
            let next = deliveries.next_keeping(&mut passed);
            let mut machine = shared.machine.lock();
            let now = shared.clock.now();
            let was_empty = matches!(next, Next::Empty(_));
            match next {
                Next::Delivery(Lent::Notification(notification)) => machine.tell(now, notification),
                Next::Delivery(Lent::Synced) => machine.told_initial(),
                Next::Empty(_) => {}
                Next::Closed => {
                    machine.stop();
                    return NextItem::Closed;
                }
            }
            drop(deliveries);
            // Before it is taken, so that who waits for the end waits for this one, too.
            if !shared.channel.hand_out() {
                machine.stop();
                return NextItem::Closed;
            }
            let taken = machine.take(now, |key| shared.lister.get(key));
            let synced = machine.poll_synced();
            let until = machine.next_deadline();
            drop(machine);
            drop(passed);
            if taken.is_none() {
                shared.channel.hand_back();
            }
            if synced {
                shared.tell_synced();
            }
            if let Some(given) = taken {
                return NextItem::Item(Item { given: Some(given), shared: Arc::clone(shared) });
            }
            if was_empty {
                return NextItem::Wait(seen, until.and_then(|deadline| shared.clock.instant(deadline)));
            }
        }
    }
}

impl<T> ItemSource<T> {
    /// What to wait on after [`NextItem::Wait`].
    pub fn signal(&self) -> &Signal {
        self.0.0.channel.signal()
    }

    /// How it stands. It is synced once each key of the initial state was answered, in whatever way. What
    /// [`pending`](Registration::pending) counts was not moved over yet.
    pub fn registration(&self) -> &Registration {
        &self.0.0.registration
    }

    /// Keys that are in hand or wait for a retry, or changed while they were in hand.
    pub fn waiting(&self) -> usize {
        self.0.0.machine.lock().waiting()
    }

    /// How often what has happened; `reconciles` are items that were given.
    pub fn counts(&self) -> Counts {
        self.0.0.machine.lock().counts()
    }
}

impl<T> fmt::Debug for ItemSource<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "acknowledged stream of {:?}, {} keys wait", self.registration(), self.waiting())
    }
}

impl<T> Shared<T> {
    fn answer(&self, given: Given<T>, verdict: Verdict) {
        // Its objects may be the last handles, and a user's type may do anything when it is dropped: not under the lock.
        let objects = [given.object().cloned(), given.last().cloned()];
        let mut machine = self.machine.lock();
        let finished = machine.answer(self.clock.now(), given, verdict);
        let (ready, synced) = (machine.ready() > 0, machine.poll_synced());
        drop(machine);
        objects.into_iter().for_each(drop_quietly);
        if ready || finished.due.is_some() {
            // For another consumer, or due before what they wait for.
            self.channel.signal().notify();
        }
        tell(self.observer.as_ref(), &Observed::Reconcile(&finished));
        if synced {
            self.tell_synced();
        }
        self.channel.hand_back();
    }

    fn tell_synced(&self) {
        let told = self.on_synced.lock().take();
        if let Some(Err(text)) = told.map(|told| guard::call(move || told())) {
            self.channel.mark_panic(HandlerCall::Synced, &text, |panic| tell(self.observer.as_ref(), panic));
        }
        self.channel.mark_synced();
    }
}

/// What is to be dealt with of one key, by whoever has it: the newest object, or that it is gone. Until it is answered
/// nobody else is given this key.
///
/// One that is dropped without an answer, as a panic does, counts as such in [`Counts::unanswered`] and comes again after
/// the backoff.
#[must_use = "dropped without an answer it counts as a failure, and comes again"]
pub struct Item<T> {
    /// There until it is answered.
    given: Option<Given<T>>,
    shared: Arc<Shared<T>>,
}

impl<T> Item<T> {
    fn given(&self) -> &Given<T> {
        self.given.as_ref().expect("an answer consumes the item")
    }

    /// Namespace and name.
    pub fn key(&self) -> &Key {
        self.given().key()
    }

    /// The object as the cache had it when this was taken; `None` if it is gone.
    pub fn object(&self) -> Option<&Obj<T>> {
        self.given().object()
    }

    /// What this stream gave of the key before. It is always there if the object is gone: nobody is told of the end of
    /// what was never given. Not the final state, which the server may not have sent.
    pub fn last(&self) -> Option<&Obj<T>> {
        self.given().last()
    }

    /// True for the first item of a key that belonged to the initial state; it may be gone by now.
    pub fn is_initial(&self) -> bool {
        self.given().is_initial()
    }

    /// 1, or one more than the number of failures in a row.
    pub fn attempt(&self) -> u32 {
        self.given().attempt()
    }

    /// It is dealt with: the key comes again when it changes.
    pub fn done(self) {
        self.answer(Verdict::Done);
    }

    /// It is dealt with, and comes again after `span` even if nothing changes.
    pub fn again_after(self, span: Duration) {
        self.answer(Verdict::RequeueAfter(span));
    }

    /// It could not be dealt with: the key comes again after a backoff, with the newest state then, or when it changes.
    pub fn retry(self, reason: impl fmt::Display) {
        self.answer(Verdict::Retry(reason.to_string()));
    }

    /// It cannot be dealt with: the key comes again when it changes.
    pub fn give_up(self, reason: impl fmt::Display) {
        self.answer(Verdict::GiveUp(reason.to_string()));
    }

    fn answer(mut self, verdict: Verdict) {
        self.end(verdict);
    }

    fn end(&mut self, verdict: Verdict) {
        if let Some(given) = self.given.take() {
            self.shared.answer(given, verdict);
        }
    }
}

impl<T> Drop for Item<T> {
    fn drop(&mut self) {
        self.end(Verdict::Unanswered);
    }
}

impl<T> fmt::Debug for Item<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.given().fmt(f)
    }
}

/// An acknowledged stream as a blocking iterator. Clones share the stream: each item goes to one of them. Dropping the
/// last one removes the handler.
///
/// The iterator ends when the informer stops or the [registration](ItemSource::registration) is removed; items that were not
/// given until then, retries among them, are not given.
#[must_use = "changes wait until they are taken, and dropping this removes it"]
pub struct Items<T>(ItemSource<T>);

impl<T> Clone for Items<T> {
    fn clone(&self) -> Self {
        Items(self.0.clone())
    }
}

impl<T> fmt::Debug for Items<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: Send + Sync + 'static> Items<T> {
    /// The items of an informer.
    pub fn new(informer: &InformerHandle<T>, options: ItemOptions) -> Self {
        Items(ItemSource::new(informer, options))
    }

    /// The next item, waiting for it at most for `within`. `None` if none came, or if there will be none any more.
    pub fn next_within(&mut self, within: Duration) -> Option<Item<T>> {
        self.wait(Some(deadline(Instant::now(), within)))
    }

    /// Its counters, and how it stands.
    pub fn source(&self) -> &ItemSource<T> {
        &self.0
    }

    fn wait(&mut self, deadline: Option<Instant>) -> Option<Item<T>> {
        loop {
            match self.0.next_item() {
                NextItem::Item(item) => return Some(item),
                NextItem::Closed => return None,
                NextItem::Wait(seen, until) => {
                    let first = until.into_iter().chain(deadline).min();
                    let woken = self.0.signal().wait_past(seen, first);
                    if !woken && deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                        return None;
                    }
                }
            }
        }
    }
}

impl<T: Send + Sync + 'static> Iterator for Items<T> {
    type Item = Item<T>;

    fn next(&mut self) -> Option<Item<T>> {
        self.wait(None)
    }
}
