//! The streams for tasks, polled by hand: no executor, and no clock.

use super::*;
use futures_core::Stream;
use informer_core::listener::Delivery;
use informer_runtime::events::EventStream;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Wake, Waker};

/// Counts how often it is woken.
#[derive(Default)]
struct Count(AtomicU32);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A stream as combinators see it, and a task that waits for it.
struct Polled<S> {
    stream: S,
    count: Arc<Count>,
}

impl<S: Stream + Unpin> Polled<S> {
    fn new(stream: S) -> Self {
        Polled { stream, count: Arc::default() }
    }

    fn poll(&mut self) -> Poll<Option<S::Item>> {
        let waker = Waker::from(Arc::clone(&self.count));
        Pin::new(&mut self.stream).poll_next(&mut Context::from_waker(&waker))
    }

    fn woken(&self) -> u32 {
        self.count.0.load(Ordering::SeqCst)
    }

    /// Everything that comes without a wait longer than that of other tasks.
    fn all(&mut self) -> Vec<S::Item> {
        let mut all = Vec::new();
        loop {
            let before = self.woken();
            match self.poll() {
                Poll::Ready(Some(item)) => all.push(item),
                Poll::Ready(None) => return all,
                Poll::Pending if self.woken() == before => return all,
                Poll::Pending => {}
            }
        }
    }
}

fn lines(events: Vec<Notification<DynamicObject>>) -> Vec<String> {
    events.iter().map(ToString::to_string).collect()
}

#[test]
fn a_stream_waits_is_woken_and_ends() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let mut events = Polled::new(EventStream::new(&informer, HandlerOptions::default()));
    let mut hand = Hand::take(&factory);
    assert!(events.poll().is_pending() && events.poll().is_pending());
    hand.list(&["a"]);
    assert_eq!(events.woken(), 1, "one task is woken once, however often it polled");
    assert_eq!(lines(events.all()), ["added web/a@5"]);
    assert!(events.stream.registration().has_synced());
    hand.watch("DELETED", "a", 6, "");
    assert_eq!(lines(events.all()), ["deleted web/a@6"]);
    hand.tell(IoEvent::Stop);
    drop(hand);
    assert!(matches!(events.poll(), Poll::Ready(None)) && matches!(events.poll(), Poll::Ready(None)));
}

#[test]
fn a_dropped_wait_loses_nothing_and_a_dropped_stream_wakes_nobody_and_removes_the_handler() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let mut hand = Hand::take(&factory);
    let mut events = EventStream::new(&informer, HandlerOptions::default());
    let count: Arc<Count> = Arc::default();
    let waker = Waker::from(Arc::clone(&count));
    assert!(pin!(events.next()).poll(&mut Context::from_waker(&waker)).is_pending());
    hand.list(&["a"]);
    assert_eq!(
        lines(Polled::new(events.with_synced()).all().into_iter().filter_map(notification).collect()),
        ["added web/a@5"]
    );
    let woken = count.0.load(Ordering::SeqCst);

    let mut other = EventStream::new(&informer, HandlerOptions::default());
    let registration = other.registration().clone();
    assert!(pin!(other.next()).poll(&mut Context::from_waker(&waker)).is_pending());
    drop(other);
    assert!(registration.was_removed() && registration.is_finished());
    hand.watch("DELETED", "a", 6, "");
    assert_eq!(count.0.load(Ordering::SeqCst), woken);
    drop(waker);
    assert_eq!(Arc::strong_count(&count), 1, "no waker is left behind");
}

fn notification(delivery: Delivery<DynamicObject>) -> Option<Notification<DynamicObject>> {
    if let Delivery::Notification(notification) = delivery { Some(notification) } else { None }
}

#[test]
fn a_stream_that_always_has_something_gives_other_tasks_their_turn() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let mut events = Polled::new(EventStream::new(&informer, HandlerOptions::default()));
    let mut hand = Hand::take(&factory);
    let names: Vec<_> = (0..200).map(|n| format!("n{n}")).collect();
    hand.list(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let mut in_a_row = vec![0];
    while in_a_row.iter().sum::<u32>() < 200 {
        let woken = events.woken();
        match events.poll() {
            Poll::Ready(event) => {
                assert!(event.is_some());
                *in_a_row.last_mut().unwrap() += 1;
            }
            Poll::Pending => {
                assert_eq!(events.woken(), woken + 1, "it asks for its next turn itself");
                in_a_row.push(0);
            }
        }
    }
    assert_eq!(in_a_row, [64, 64, 64, 8]);
}

#[test]
fn a_filtered_stream_tells_what_crosses_its_border() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let keep = |pod: &Obj<DynamicObject>| pod.json().contains("\"in\"");
    let mut events = Polled::new(EventStream::filtered(&informer, HandlerOptions::default(), keep).with_synced());
    let mut hand = Hand::take(&factory);
    hand.list(&["a"]);
    hand.watch("MODIFIED", "a", 6, "in");
    hand.watch("MODIFIED", "a", 7, "out");
    let told: Vec<_> = events.all().iter().map(|delivery| format!("{delivery:?}")).collect();
    let want = ["Synced", "Notification(added web/a@6 by Watch)", "Notification(deleted web/a@6 by Watch)"];
    assert_eq!(told, want);
}
