//! [`Overflow`]: what happens when a handler does not keep up.

/// What happens when a handler does not keep up. The call that runs does not count against a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Overflow {
    /// Exact up to `limit` buffered notifications, then merged per key. The default, with 1,024.
    Coalesce {
        /// Notifications that are kept exactly.
        limit: usize,
    },
    /// Everything is kept: memory grows with the events.
    Unbounded,
    /// A handler with more than `limit` buffered notifications is removed and told so.
    Disconnect {
        /// Notifications that are kept.
        limit: usize,
    },
    /// Everything is delivered, one by one, and memory is bounded all the same: while more than `limit` notifications wait,
    /// the informer reads nothing more from its server, and it goes on when half of them are left. What is committed
    /// at once may exceed the limit: up to [`COMMIT_EVENTS`](crate::fifo::COMMIT_EVENTS) events, or the changes of one list.
    ///
    /// It is the informer that waits: its cache grows old, and its other handlers hear nothing new. So not for a handler
    /// that waits for something which the cache must bring, and not for one that may sleep for long: a server ends the
    /// watch of a client that does not read, and the version to go on from expires after minutes.
    Pause {
        /// Notifications that may wait.
        limit: usize,
    },
}

impl Overflow {
    /// The bound, if there is one.
    pub fn limit(self) -> Option<usize> {
        match self {
            Overflow::Unbounded => None,
            Overflow::Coalesce { limit } | Overflow::Disconnect { limit } | Overflow::Pause { limit } => Some(limit),
        }
    }
}

impl Default for Overflow {
    fn default() -> Self {
        Overflow::Coalesce { limit: DEFAULT_LIMIT }
    }
}

/// What a ring keeps exactly unless told otherwise: as much as client-go's initial buffer.
pub const DEFAULT_LIMIT: usize = 1_024;
