//! Handlers on threads of their own, as an adapter with threads has them.

use informer_blocking::{HandlerOptions, InformerHandle, Notification, Overflow, Registration};

/// Adds a handler.
pub fn handle<T: Send + Sync + 'static>(
    informer: &InformerHandle<T>,
    overflow: Overflow,
    function: impl FnMut(&Notification<T>) + Send + 'static,
) -> Registration {
    let (registration, mut handler) = informer.handler(HandlerOptions::default().with_overflow(overflow), function);
    std::thread::spawn(move || handler.run());
    registration
}

/// A handler that counts updates, and calls `done` with the `events`th.
pub fn counting<T>(events: usize, mut done: impl FnMut()) -> impl FnMut(&Notification<T>) {
    let mut updates = 0;
    move |notification| {
        if let Notification::Updated { .. } = notification {
            updates += 1;
            if updates == events {
                done();
            }
        }
    }
}
