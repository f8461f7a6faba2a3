//! [`Events`]: what a handler would be told, for a loop of one's own; [`filtered`]: a handler that sees some objects.
//!
//! An [`Events`] blocks the thread that asks it; with the feature `async` an `EventStream` does the same for a task of
//! any executor. Both are a handler in every other way: they have a [`Registration`], the options of one, a place in the
//! informer's order, and dropping them removes it. They end when they are removed or the informer stops.
//!
//! That the initial state was delivered is passed over, and told by the registration; or it is an event of its own:
//! [`Events::with_synced`].
//!
//! ```
//! use informer_core::Obj;
//! use informer_core::listener::{Delivery, Notification};
//! use informer_runtime::events::Events;
//! use informer_runtime::informer::InformerHandle;
//!
//! fn print(pods: &InformerHandle<String>) {
//!     for event in Events::new(pods, Default::default()) {
//!         println!("{event}");
//!     }
//! }
//!
//! /// What is there now; of the pods that are of interest.
//! fn collect(pods: &InformerHandle<String>) -> Vec<Obj<String>> {
//!     let events = Events::filtered(pods, Default::default(), |pod: &Obj<String>| pod.contains("Running"));
//!     let mut objects = Vec::new();
//!     for event in events.with_synced() {
//!         match event {
//!             Delivery::Notification(Notification::Added { object, .. }) => objects.push(object),
//!             _ => break,
//!         }
//!     }
//!     objects
//! }
//! ```

#[cfg(feature = "async")]
mod stream;

#[cfg(feature = "async")]
pub use stream::EventStream;

use crate::guard;
use crate::handler::{Deliveries, HandlerOptions, Lent, Next, Registration};
use crate::informer::InformerHandle;
use crate::observe::{Observer, random_seed, tell};
use crate::replaced::drop_each;
#[cfg(feature = "async")]
use crate::sync::Place;
use crate::sync::{Arc, deadline};
use informer_core::Obj;
use informer_core::filter::Filter;
use informer_core::listener::{Delivery, Notification};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

/// A filter that drops what its handler was told of one by one.
struct Filtering<T>(Filter<T>);

impl<T> Filtering<T> {
    fn new(keep: impl FnMut(&Obj<T>) -> bool + Send + Sync + 'static) -> Self {
        Filtering(Filter::new(random_seed(), keep))
    }

    fn apply<'a>(&mut self, notification: &'a Notification<T>) -> Option<Cow<'a, Notification<T>>> {
        self.0.apply(notification)
    }
}

impl<T> Drop for Filtering<T> {
    fn drop(&mut self) {
        drop_each(self.0.take_objects());
    }
}

/// A handler that is told of the objects for which `keep` holds, by the rules of [`Filter`]: one that crosses the border
/// is added or deleted. A panic of `keep` counts as one of the handler.
pub fn filtered<T>(
    keep: impl FnMut(&Obj<T>) -> bool + Send + Sync + 'static,
    mut function: impl FnMut(&Notification<T>) + Send + 'static,
) -> impl FnMut(&Notification<T>) + Send + 'static
where
    T: Send + Sync + 'static,
{
    let mut filter = Filtering::new(keep);
    move |event: &Notification<T>| {
        if let Some(event) = filter.apply(event) {
            function(&event);
        }
    }
}

/// What comes out of an [`Events`] or `EventStream`: notifications alone, or the end of the initial state as well.
pub trait Event<T>: sealed::Event<T> {}

impl<T> Event<T> for Notification<T> {}
impl<T> Event<T> for Delivery<T> {}

mod sealed {
    use informer_core::listener::{Delivery, Notification};

    pub trait Event<T>: Sized {
        fn of(delivery: Delivery<T>) -> Option<Self>;
    }

    impl<T> Event<T> for Notification<T> {
        fn of(delivery: Delivery<T>) -> Option<Self> {
            if let Delivery::Notification(notification) = delivery { Some(notification) } else { None }
        }
    }

    impl<T> Event<T> for Delivery<T> {
        fn of(delivery: Delivery<T>) -> Option<Self> {
            Some(delivery)
        }
    }
}

/// What both forms share: a handler's consuming end and what is done with each delivery.
struct Feed<T> {
    registration: Registration,
    deliveries: Deliveries<T>,
    filter: Option<Filtering<T>>,
    on_synced: Option<Arc<dyn Fn() + Send + Sync>>,
    observer: Option<Observer>,
    /// Where the task of a stream waits.
    #[cfg(feature = "async")]
    place: Place,
}

/// What [`Feed::next`] found.
enum Fed<E> {
    Event(E),
    /// Wait past this generation of the signal.
    Empty(u64),
    Closed,
}

impl<T: Send + Sync + 'static> Feed<T> {
    fn new(informer: &InformerHandle<T>, options: HandlerOptions, filter: Option<Filtering<T>>) -> Self {
        let (on_synced, observer) = (options.on_synced.clone(), informer.observer());
        let (registration, deliveries) = informer.channel(options);
        deliveries.channel().take_by_hand();
        Feed {
            registration,
            deliveries,
            filter,
            on_synced,
            observer,
            #[cfg(feature = "async")]
            place: Place::default(),
        }
    }
}

impl<T> Feed<T> {
    /// The next event that is there. Ends: each round takes a delivery.
    fn next<E: Event<T>>(&mut self) -> Fed<E> {
        loop {
            let passed = match self.deliveries.try_next() {
                Next::Closed => return Fed::Closed,
                Next::Empty(seen) => return Fed::Empty(seen),
                Next::Delivery(Lent::Notification(notification)) => match &mut self.filter {
                    None => Ok(Some(notification.clone())),
                    Some(filter) => guard::call(|| filter.apply(notification).map(Cow::into_owned)),
                },
                Next::Delivery(Lent::Synced) => {
                    self.synced();
                    if let Some(event) = E::of(Delivery::Synced) {
                        return Fed::Event(event);
                    }
                    continue;
                }
            };
            match passed {
                Ok(notification) => {
                    if let Some(event) = notification.map(Delivery::Notification).and_then(E::of) {
                        return Fed::Event(event);
                    }
                }
                Err(text) => self.panicked(&text),
            }
        }
    }

    fn synced(&mut self) {
        if let Some(Err(text)) = self.on_synced.take().map(|told| guard::call(move || told())) {
            self.panicked(&text);
        }
        self.deliveries.mark_synced();
    }

    fn panicked(&self, text: &str) {
        self.deliveries.mark_panic(text, |panic| tell(self.observer.as_ref(), panic));
    }
}

impl<T> Drop for Feed<T> {
    fn drop(&mut self) {
        #[cfg(feature = "async")]
        self.deliveries.signal().leave(&mut self.place);
        self.registration.remove();
    }
}

/// What a handler would be told, as a blocking iterator. Dropping it removes the handler.
///
/// The iterator ends when the informer stops or the [registration](Self::registration) is removed; what was not taken
/// until then is not delivered. The registration counts as synced when the event after the initial state is asked for.
#[must_use = "notifications pile up until they are taken, and dropping this removes it"]
pub struct Events<T, E = Notification<T>> {
    feed: Feed<T>,
    event: PhantomData<fn() -> E>,
}

impl<T: Send + Sync + 'static> Events<T> {
    /// The events of an informer.
    pub fn new(informer: &InformerHandle<T>, options: HandlerOptions) -> Self {
        Events { feed: Feed::new(informer, options, None), event: PhantomData }
    }

    /// The events of the objects for which `keep` holds, by the rules of [`Filter`]: one that crosses the border is
    /// added or deleted. A panic of `keep` is counted and reported as a handler's, and the notification passed over.
    pub fn filtered(
        informer: &InformerHandle<T>,
        options: HandlerOptions,
        keep: impl FnMut(&Obj<T>) -> bool + Send + Sync + 'static,
    ) -> Self {
        let filter = Filtering::new(keep);
        Events { feed: Feed::new(informer, options, Some(filter)), event: PhantomData }
    }

    /// The same with [`Delivery::Synced`] in its place, once, also for an empty collection.
    pub fn with_synced(self) -> Events<T, Delivery<T>> {
        Events { feed: self.feed, event: PhantomData }
    }
}

impl<T, E: Event<T>> Events<T, E> {
    /// The next event, waiting for it at most for `within`. `None` if none came, or if there will be none any more.
    pub fn next_within(&mut self, within: Duration) -> Option<E> {
        self.wait(Some(deadline(Instant::now(), within)))
    }

    fn wait(&mut self, deadline: Option<Instant>) -> Option<E> {
        loop {
            match self.feed.next() {
                Fed::Event(event) => return Some(event),
                Fed::Closed => return None,
                Fed::Empty(seen) => {
                    if !self.feed.deliveries.signal().wait_past(seen, deadline) {
                        return None;
                    }
                }
            }
        }
    }
}

impl<T, E> Events<T, E> {
    /// How it stands.
    pub fn registration(&self) -> &Registration {
        &self.feed.registration
    }
}

impl<T, E: Event<T>> Iterator for Events<T, E> {
    type Item = E;

    fn next(&mut self) -> Option<E> {
        self.wait(None)
    }
}

impl<T, E> fmt::Debug for Events<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "events of {:?}", self.registration())
    }
}
