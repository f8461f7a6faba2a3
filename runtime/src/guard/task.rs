//! User code that is a future.

use super::call;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// What [`call`] does for a function, for a future of the user's: each poll is guarded, and so is its drop, done or not.
/// A panic of the drop is passed over: nobody waits for its answer, and the hook has printed it.
pub fn guarded<F: Future>(future: F) -> Guarded<F> {
    Guarded(Some(Box::pin(future)))
}

/// See [`guarded`].
pub struct Guarded<F>(Option<Pin<Box<F>>>);

impl<F: Future> Future for Guarded<F> {
    type Output = Result<F::Output, String>;

    /// # Panics
    ///
    /// If it was ready before.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let future = self.0.as_mut().expect("a future is not polled after it was ready");
        let poll = match call(|| future.as_mut().poll(cx)) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        };
        if poll.is_ready() {
            self.let_go();
        }
        poll
    }
}

impl<F> Guarded<F> {
    fn let_go(&mut self) {
        let future = self.0.take();
        let _ = call(|| drop(future));
    }
}

impl<F> Drop for Guarded<F> {
    fn drop(&mut self) {
        self.let_go();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::task::Waker;

    /// Ready or not, it panics when it is dropped, and counts that.
    struct Spiteful<'a>(Poll<u8>, &'a Cell<u32>);

    impl Future for Spiteful<'_> {
        type Output = u8;

        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u8> {
            self.0
        }
    }

    impl Drop for Spiteful<'_> {
        fn drop(&mut self) {
            self.1.set(self.1.get() + 1);
            std::panic::resume_unwind(Box::new("on purpose")) // without a line on stderr
        }
    }

    #[test]
    fn a_future_whose_drop_panics_ends_nothing_but_itself() {
        let drops = Cell::new(0);
        let mut ready = guarded(Spiteful(Poll::Ready(7), &drops));
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(Pin::new(&mut ready).poll(&mut cx), Poll::Ready(Ok(7)), "its answer counts");
        assert_eq!(drops.get(), 1, "as soon as it is ready");
        let mut waits = guarded(Spiteful(Poll::Pending, &drops));
        assert_eq!(Pin::new(&mut waits).poll(&mut cx), Poll::Pending);
        drop((ready, waits));
        assert_eq!(drops.get(), 2);
    }
}
