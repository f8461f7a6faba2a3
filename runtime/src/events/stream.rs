//! [`EventStream`]: the events of an informer for a task.

use super::{Event, Fed, Feed, Filtering};
use crate::handler::{HandlerOptions, Registration};
use crate::informer::InformerHandle;
use futures_core::Stream;
use informer_core::Obj;
use informer_core::listener::{Delivery, Notification};
use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Events in a row before other tasks get their turn, even if there are more.
const BURST: u32 = 64;

/// What a handler would be told, as a [`Stream`]. Dropping it removes the handler.
///
/// The stream ends when the informer stops or the [registration](Self::registration) is removed; what was not taken
/// until then is not delivered. The registration counts as synced when the event after the initial state is asked for.
/// It needs no executor in particular.
///
/// ```
/// use informer_runtime::events::EventStream;
/// use informer_runtime::informer::InformerHandle;
///
/// async fn print(pods: &InformerHandle<String>) {
///     let mut events = EventStream::new(pods, Default::default());
///     while let Some(event) = events.next().await {
///         println!("{event}");
///     }
/// }
/// ```
#[must_use = "notifications pile up until they are taken, and dropping this removes it"]
pub struct EventStream<T, E = Notification<T>> {
    feed: Feed<T>,
    /// How many more may be ready at once.
    left: u32,
    event: PhantomData<fn() -> E>,
}

impl<T: Send + Sync + 'static> EventStream<T> {
    /// The events of an informer.
    pub fn new(informer: &InformerHandle<T>, options: HandlerOptions) -> Self {
        EventStream::over(Feed::new(informer, options, None))
    }

    /// The events of the objects for which `keep` holds, as [`Events::filtered`](super::Events::filtered).
    pub fn filtered(
        informer: &InformerHandle<T>,
        options: HandlerOptions,
        keep: impl FnMut(&Obj<T>) -> bool + Send + Sync + 'static,
    ) -> Self {
        EventStream::over(Feed::new(informer, options, Some(Filtering::new(keep))))
    }
}

impl<T, E> EventStream<T, E> {
    fn over(feed: Feed<T>) -> Self {
        EventStream { feed, left: BURST, event: PhantomData }
    }

    /// How it stands.
    pub fn registration(&self) -> &Registration {
        &self.feed.registration
    }
}

impl<T> EventStream<T> {
    /// The same with [`Delivery::Synced`] in its place, once, also for an empty collection.
    pub fn with_synced(self) -> EventStream<T, Delivery<T>> {
        EventStream::over(self.feed)
    }
}

impl<T, E: Event<T>> EventStream<T, E> {
    /// The next event; `None` if there will be none any more. Nothing is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<E> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl<T, E: Event<T>> Stream for EventStream<T, E> {
    type Item = E;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<E>> {
        let this = self.get_mut();
        if this.left == 0 {
            this.left = BURST;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        loop {
            match this.feed.next() {
                Fed::Event(event) => {
                    this.left -= 1;
                    return Poll::Ready(Some(event));
                }
                Fed::Closed => return Poll::Ready(None),
                Fed::Empty(seen) => {
                    this.left = BURST;
                    let Feed { deliveries, place, .. } = &mut this.feed;
                    ready!(deliveries.signal().poll_past(seen, place, cx));
                }
            }
        }
    }
}

impl<T, E> fmt::Debug for EventStream<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "events of {:?}", self.registration())
    }
}
