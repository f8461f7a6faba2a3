//! The state `Opening`: a watch was sent and has no head yet.
//!
//! ```text
//! sent ──200──► Watching
//!   │ refused, broken, late, 401, 429: Backoff, then the same watch again
//!   │ 5xx: the same, and after five in a row a list (of an object that the storage cannot read, at the first)
//!   └ 410, too large, anything else: Backoff, then a list
//! ```

use super::backoff::{Next, Wait};
use super::exchange::Exchange;
use super::failure::{Fault, reason};
use super::stream::StreamReader;
use super::tuning::Tuning;
use super::watching::Watching;
use super::{Effect, End, Phase, Reflector, State};
use crate::time::{Deadline, Duration, Time};
use crate::wire::{Head, Status, Verb};
use alloc::string::ToString;
use alloc::vec;

pub(super) struct Opening {
    pub(super) exchange: Exchange,
}

impl Opening {
    pub(super) fn deadline(&self, tuning: &Tuning) -> Option<Deadline> {
        self.exchange.deadline(tuning, None)
    }
}

impl Reflector {
    pub(super) fn begin_watch(&mut self, now: Time) {
        let timeout = self.watch_timeout();
        let query = vec![
            ("watch", "true".into()),
            ("allowWatchBookmarks", "true".into()),
            ("resourceVersion", self.memory.version.to_string()),
            ("timeoutSeconds", timeout.to_string()),
        ];
        let id = self.send(now, Verb::Watch, query);
        let ends_at = now + Duration::from_secs(timeout);
        let exchange = Exchange::new(id, now, self.config.tuning.watch_head).ending(ends_at);
        self.enter(Phase::Opening, State::Opening(Opening { exchange }));
    }

    pub(super) fn opening_head(&mut self, now: Time, mut opening: Opening, head: &Head) {
        match opening.exchange.head(now, head) {
            Some(Ok(body)) => {
                if let Some(since) = self.memory.unanswered_since.take() {
                    self.memory.not_silent(now, since);
                }
                let reader = StreamReader::new(body, self.config.limits);
                self.memory.record.opened();
                let attempt = self.next_attempt();
                let watching = Watching::new(opening.exchange, attempt, reader);
                self.enter(Phase::Watching, State::Watching(watching));
            }
            Some(Err(error)) => {
                self.effects.push_back(Effect::Cancel(opening.exchange.id));
                self.fail(now, Phase::Watching, Fault::wire(&error), Wait::Step, Next::List);
            }
            None => self.state = State::Opening(opening),
        }
    }

    pub(super) fn opening_end(&mut self, now: Time, opening: Opening, end: &End) {
        self.memory.unanswered_since.get_or_insert(opening.exchange.sent_at);
        if let Some((status, asked)) = opening.exchange.failure() {
            self.watch_refused(now, &status, asked);
            return;
        }
        match end {
            End::Refused(text) => {
                self.fail(now, Phase::Watching, Fault::new(reason::REFUSED, text), Wait::Refused, Next::Watch);
            }
            End::Broken(text) => {
                self.fail(now, Phase::Watching, Fault::new(reason::RESET, text), Wait::Step, Next::Watch);
            }
            End::Closed => {
                let text = "the connection ended before the head of the answer";
                self.fail(now, Phase::Watching, Fault::new(reason::RESET, text), Wait::Step, Next::Watch);
            }
        }
    }

    pub(super) fn opening_late(&mut self, now: Time, opening: Opening) {
        self.effects.push_back(Effect::Cancel(opening.exchange.id));
        self.memory.unanswered_since.get_or_insert(opening.exchange.sent_at);
        match opening.exchange.failure() {
            Some((status, asked)) => self.watch_refused(now, &status, asked),
            None => self.fail(now, Phase::Watching, Fault::late("the answer to a watch"), Wait::Step, Next::Watch),
        }
    }

    /// The server said no to a watch, with a status code or inside the stream: the decision table of C18.
    pub(super) fn watch_refused(&mut self, now: Time, status: &Status, asked: Option<Duration>) {
        let wait = asked.map_or(Wait::Step, Wait::Asked);
        let next = if status.is_expired() {
            // A list that echoed our version came from a cache which is as far behind as its watch.
            self.memory.latest |= self.memory.echoed;
            Next::List
        } else if status.is_too_large_version() {
            self.memory.latest = true;
            Next::List
        } else if is_internal(status) {
            self.memory.internal_errors += 1;
            if self.memory.internal_errors >= self.config.tuning.internal_errors {
                self.memory.internal_errors = 0;
                Next::List
            } else {
                Next::Watch
            }
        } else if matches!(status.code, 401 | 429) {
            Next::Watch
        } else {
            Next::List
        };
        self.fail(now, Phase::Watching, Fault::status(status), wait, next);
    }
}

/// A failure of the server that says nothing about our version. An object that its storage cannot read is not one: its
/// deletion will never come as an event, only a list tells.
fn is_internal(status: &Status) -> bool {
    status.code >= 500 && status.reason != "StorageReadError"
}
