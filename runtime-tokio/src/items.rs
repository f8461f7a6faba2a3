//! [`ItemStream`]: an acknowledged stream that waits with tokio's timer.

use futures_core::Stream;
use informer_runtime::acknowledged::{Item, ItemSource, NextItem};
use informer_runtime::sync::Place;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::time::{Sleep, sleep_until};

/// Items in a row before other tasks get their turn, even if there are more.
const BURST: u32 = 64;

/// Keys to deal with, each of which must be answered; see [`Item`]. A [`Stream`], too.
///
/// Clones share the stream: each item goes to one of them. Dropping the last one removes the handler. It ends when the
/// informer stops or the [registration](ItemSource::registration) is removed; items that were not given until then,
/// retries among them, are not given.
#[must_use = "changes wait until they are taken, and dropping this removes it"]
pub struct ItemStream<T> {
    source: ItemSource<T>,
    place: Place,
    /// Until the next retry.
    sleep: Option<Pin<Box<Sleep>>>,
    /// How many more may be ready at once.
    left: u32,
}

impl<T: Send + Sync + 'static> ItemStream<T> {
    pub(crate) fn new(source: ItemSource<T>) -> Self {
        ItemStream { source, place: Place::default(), sleep: None, left: BURST }
    }

    /// The next item; `None` if there will be none any more. Nothing is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<Item<T>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl<T> ItemStream<T> {
    /// Its counters, and how it stands.
    pub fn source(&self) -> &ItemSource<T> {
        &self.source
    }
}

impl<T: Send + Sync + 'static> Stream for ItemStream<T> {
    type Item = Item<T>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item<T>>> {
        let this = self.get_mut();
        if this.left == 0 {
            this.left = BURST;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        loop {
            let (seen, until) = match this.source.next_item() {
                NextItem::Item(item) => {
                    this.left -= 1;
                    return Poll::Ready(Some(item));
                }
                NextItem::Closed => return Poll::Ready(None),
                NextItem::Wait(seen, until) => (seen, until),
            };
            this.left = BURST;
            if this.source.signal().poll_past(seen, &mut this.place, cx).is_ready() {
                continue;
            }
            let Some(until) = until else {
                this.sleep = None;
                return Poll::Pending;
            };
            let sleep = this.sleep.get_or_insert_with(|| Box::pin(sleep_until(until.into())));
            if sleep.deadline() != until.into() {
                sleep.as_mut().reset(until.into());
            }
            if sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl<T> Clone for ItemStream<T> {
    fn clone(&self) -> Self {
        ItemStream { source: self.source.clone(), place: Place::default(), sleep: None, left: BURST }
    }
}

impl<T> Drop for ItemStream<T> {
    fn drop(&mut self) {
        self.source.signal().leave(&mut self.place);
    }
}

impl<T> fmt::Debug for ItemStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}
