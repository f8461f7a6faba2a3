//! [`Health`]: how an informer stands with its server.
//!
//! ```text
//! good ──failure──► degraded ──a watch is answered──► on trial ──news, or open for a second──► good
//!                      ▲                                  │ ended sooner: degraded since before
//!                      └──────────────────────────────────┘
//! ```
//!
//! A list that works and a watch that is refused right after it, for ever, is one trouble with one beginning; on trial
//! counts as good for whoever looks.

use crate::time::Time;

/// How an informer stands with its server, as of its last input. Times are those that the driver gave.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Health {
    /// When the server sent anything at all: a head or a part of a body, whatever it said.
    pub last_contact: Option<Time>,
    /// When an event of a watch came; a bookmark is none. In a quiet collection that was days ago: no sign of a fault.
    pub last_event: Option<Time>,
    /// Since when the cache is not kept up to date: the first failure since a watch was last open. What is cached can be
    /// read all the same. An object that cannot be decoded is no such failure.
    pub degraded_since: Option<Time>,
}

/// What [`Health`] is told from.
#[derive(Default)]
pub(super) struct Record {
    last_contact: Option<Time>,
    last_event: Option<Time>,
    trouble: Option<Time>,
    on_trial: bool,
}

impl Record {
    pub(super) fn contact(&mut self, now: Time) {
        self.last_contact = Some(now);
    }

    pub(super) fn event(&mut self, now: Time) {
        self.last_event = Some(now);
    }

    pub(super) fn failed(&mut self, now: Time) {
        self.trouble.get_or_insert(now);
        self.on_trial = false;
    }

    /// A watch is open.
    pub(super) fn opened(&mut self) {
        self.on_trial = true;
    }

    /// It proved to be good.
    pub(super) fn good(&mut self) {
        self.trouble = None;
    }

    pub(super) fn health(&self) -> Health {
        Health {
            last_contact: self.last_contact,
            last_event: self.last_event,
            degraded_since: self.trouble.filter(|_| !self.on_trial),
        }
    }
}
