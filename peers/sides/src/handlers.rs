//! Handlers on threads of their own, as an adapter with threads has them.

use informer_blocking::runtime::informer::{HandlerLoop, Step};
use informer_blocking::{HandlerOptions, InformerHandle, Notification, Overflow, Registration};

/// Adds a handler.
pub fn handle<T: Send + Sync + 'static>(
    informer: &InformerHandle<T>,
    overflow: Overflow,
    function: impl FnMut(&Notification<T>) + Send + 'static,
) -> Registration {
    let (registration, handler) = informer.handler(HandlerOptions::default().with_overflow(overflow), function);
    std::thread::spawn(move || run(handler));
    registration
}

/// Adds one that counts updates, and calls `done` with the `events`th.
pub fn count_updates<T: Send + Sync + 'static>(
    informer: &InformerHandle<T>,
    overflow: Overflow,
    events: usize,
    mut done: impl FnMut() + Send + 'static,
) -> Registration {
    let mut updates = 0;
    handle(informer, overflow, move |notification| {
        updates += usize::from(matches!(notification, Notification::Updated { .. }));
        if updates == events {
            done();
        }
    })
}

/// The loop of a handler's thread.
fn run(mut handler: Box<dyn HandlerLoop>) {
    loop {
        match handler.step() {
            Step::Delivered => {}
            Step::Empty(seen) => _ = handler.signal().wait_past(seen, None),
            Step::Closed => return,
        }
    }
}
