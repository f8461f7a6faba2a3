//! Tasks that wait on a [`Signal`]: the part of it that only an asynchronous runtime has.

use super::Signal;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// The tasks that wait on one signal.
#[derive(Default)]
pub(super) struct Tasks {
    /// The id that a place was given last. Ids are not used twice, so that a drop never removes a stranger.
    next_id: u64,
    /// Wakers of live places; each removes its own.
    wakers: BTreeMap<u64, Waker>,
}

impl Tasks {
    pub(super) const fn new() -> Self {
        Tasks { next_id: 0, wakers: BTreeMap::new() }
    }

    pub(super) fn take(&mut self) -> impl Iterator<Item = Waker> + use<> {
        std::mem::take(&mut self.wakers).into_values()
    }
}

impl Signal {
    /// A future that is ready once the generation is greater than `seen`. Dropping it leaves nothing behind.
    ///
    /// ```
    /// use informer_runtime::sync::Signal;
    ///
    /// # async fn until(signal: &Signal, ready: impl Fn() -> bool) {
    /// loop {
    ///     let seen = signal.generation();
    ///     if ready() {
    ///         break;
    ///     }
    ///     signal.past(seen).await;
    /// }
    /// # }
    /// ```
    pub fn past(&self, seen: u64) -> impl Future<Output = ()> + Send + '_ {
        Past { signal: self, seen, place: Place::default() }
    }

    /// The same for a poll function of one's own, which keeps its `place` on this signal and
    /// [leaves](Self::leave) it at its end.
    pub fn poll_past(&self, seen: u64, place: &mut Place, cx: &mut Context<'_>) -> Poll<()> {
        let waker = cx.waker().clone();
        let mut state = self.state.lock();
        if state.generation > seen {
            return Poll::Ready(());
        }
        let tasks = &mut state.tasks;
        let id = place.0.unwrap_or_else(|| {
            tasks.next_id += 1;
            tasks.next_id
        });
        let displaced = tasks.wakers.insert(id, waker);
        drop(state);
        // The displaced waker may own the last reference to a task, whose futures may lock this very signal.
        drop(displaced);
        place.0 = Some(id);
        Poll::Pending
    }

    /// Nobody at this place is woken any more.
    pub fn leave(&self, place: &mut Place) {
        if let Some(id) = place.0.take() {
            let waker = self.state.lock().tasks.wakers.remove(&id);
            drop(waker);
        }
    }
}

/// A task's place among those that wait on one [`Signal`]: under which id its waker is registered, if it is.
#[derive(Debug, Default)]
pub struct Place(Option<u64>);

struct Past<'a> {
    signal: &'a Signal,
    seen: u64,
    place: Place,
}

impl Future for Past<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Past { signal, seen, place } = self.get_mut();
        signal.poll_past(*seen, place, cx)
    }
}

impl Drop for Past<'_> {
    fn drop(&mut self) {
        self.signal.leave(&mut self.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::atomic::{AtomicUsize, Ordering};
    use crate::sync::{Arc, Mutex};
    use std::pin::pin;
    use std::task::Wake;

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn counting() -> (Arc<Count>, Waker) {
        let count = Arc::new(Count::default());
        (Arc::clone(&count), Waker::from(count))
    }

    fn waiting(signal: &Signal) -> usize {
        signal.state.lock().tasks.wakers.len()
    }

    #[test]
    fn a_task_is_woken_once_however_often_it_polls() {
        let signal = Signal::new();
        let (count, waker) = counting();
        let mut cx = Context::from_waker(&waker);
        let mut past = pin!(signal.past(0));
        for _ in 0..10 {
            assert_eq!(past.as_mut().poll(&mut cx), Poll::Pending);
        }
        assert_eq!(waiting(&signal), 1);
        signal.notify();
        signal.notify();
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        assert_eq!(past.as_mut().poll(&mut cx), Poll::Ready(()));
        assert_eq!(waiting(&signal), 0);
    }

    #[test]
    fn a_dropped_future_takes_its_waker_along() {
        let signal = Signal::new();
        let (count, waker) = counting();
        for _ in 0..100 {
            let mut past = Box::pin(signal.past(0));
            assert_eq!(past.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
        }
        assert_eq!(waiting(&signal), 0);
        signal.notify();
        assert_eq!(count.0.load(Ordering::SeqCst), 0);
        drop(waker);
        assert_eq!(Arc::strong_count(&count), 1);
    }

    #[test]
    fn a_future_that_moves_to_another_task_wakes_only_that_one() {
        let signal = Signal::new();
        let (first, second) = (counting(), counting());
        let mut past = pin!(signal.past(0));
        assert_eq!(past.as_mut().poll(&mut Context::from_waker(&first.1)), Poll::Pending);
        assert_eq!(past.as_mut().poll(&mut Context::from_waker(&second.1)), Poll::Pending);
        signal.notify();
        assert_eq!(first.0.0.load(Ordering::SeqCst), 0);
        assert_eq!(second.0.0.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_waker_that_drops_a_future_of_the_same_signal_does_not_deadlock() {
        struct Owner(Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>);
        impl Wake for Owner {
            fn wake(self: Arc<Self>) {
                let future = self.0.lock().take();
                drop(future);
            }
        }
        let signal: &'static Signal = Box::leak(Box::new(Signal::new()));
        let (_, noop) = counting();
        let mut past = Box::pin(signal.past(5));
        assert_eq!(past.as_mut().poll(&mut Context::from_waker(&noop)), Poll::Pending);
        let owner = Waker::from(Arc::new(Owner(Mutex::new(Some(past)))));
        let mut other = pin!(signal.past(5));
        assert_eq!(other.as_mut().poll(&mut Context::from_waker(&owner)), Poll::Pending);
        signal.notify();
        assert_eq!(waiting(signal), 0);
    }

    #[test]
    fn a_future_of_a_past_generation_is_ready_and_leaves_nothing() {
        let signal = Signal::new();
        signal.notify();
        assert_eq!(pin!(signal.past(0)).poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(()));
        assert_eq!(waiting(&signal), 0);
    }
}
