//! Our sides of a measurement and the yardsticks beside them, which are programs, and what these share.
//!
//! | of | ours | yardstick |
//! |---|---|---|
//! | `peers/run wire` | `ours-tokio`, `ours-blocking` | `bare` |
//! | `peers/run cache` | `ours-cache`, `ours-heap` | `control` |

pub mod handlers;
pub mod idle;
pub mod prebuilt;
pub mod relist;
pub mod tiny;

use informer_blocking::Notification;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How long a side waits for its sync, and for all of its events.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// A handler that counts updates, and what tells when it has seen `events` of them.
pub fn counting<T: 'static>(events: usize) -> (impl FnMut(&Notification<T>) + Send + 'static, Receiver<()>) {
    let (seen, all_seen) = channel();
    // Whoever asked may be gone.
    let handler = handlers::counting(events, move || _ = seen.send(()));
    (handler, all_seen)
}
