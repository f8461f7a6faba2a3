//! User code that is a future.

use super::call;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// What [`call`] does for a function, for a future of the user's: each poll is guarded.
pub fn guarded<F: Future>(future: F) -> Guarded<F> {
    Guarded(Box::pin(future))
}

/// See [`guarded`].
pub struct Guarded<F>(Pin<Box<F>>);

impl<F: Future> Future for Guarded<F> {
    type Output = Result<F::Output, String>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match call(|| self.0.as_mut().poll(cx)) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}
