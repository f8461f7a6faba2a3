//! The state `Probing`: a watch had no news for long, and the server is asked for its newest version.
//!
//! A server that was set back to an older backup accepts a watch from what is now its future, and is silent until it has
//! got there again, with other changes under the same versions (C25). Nothing in the protocol tells. A list of one object
//! does: it stands for the newest version.
//!
//! ```text
//! sent ──200──► read to its end, items dropped
//!   │ older than ours: announced, then the newest state is listed at once
//!   │ not older, or not comparable: Opening at the same version; the next probe is as far away as this one was
//!   └ refused, broken, late, unreadable: reported, Backoff, then Opening at the same version
//! ```
//!
//! Invariants: a probe changes nothing in the cache; a probe that failed never leads to a list. That the answer is newer
//! than our version is no news: versions are counted over all objects, and ours may be the only ones at rest.

use super::backoff::{Next, Wait};
use super::exchange::Exchange;
use super::failure::{Fault, reason};
use super::listing::PageReader;
use super::tuning::{Tuning, why};
use super::{Ask, Effect, End, Memory, Phase, Reflector, State};
use crate::object::Version;
use crate::time::{Deadline, Duration, Time};
use crate::wire::{Head, RawBatch, Status, Verb, WireError};
use alloc::format;
use alloc::string::ToString;
use alloc::vec;

pub(super) struct Probing {
    pub(super) exchange: Exchange,
    reader: Option<PageReader>,
}

impl Probing {
    pub(super) fn deadline(&self, tuning: &Tuning) -> Deadline {
        // A server that ignores the limit may send a long list, but no longer than this: meanwhile nobody watches.
        let at = self.exchange.sent_at + tuning.list_head.saturating_add(tuning.list_silence);
        let whole = Deadline { at, why: why::END_OF_PROBE };
        match self.exchange.deadline(tuning, Some(tuning.list_silence)) {
            Some(part) if part.at <= whole.at => part,
            Some(_) | None => whole,
        }
    }
}

impl Memory {
    /// When a stream that was opened at `opened_at`, and watches without news, is given up for a probe. Never if there is
    /// no version to compare. What waited for the stream comes right behind its head: it has a second for that.
    pub(super) fn probe_at(&self, tuning: &Tuning, opened_at: Time) -> Option<Time> {
        let due = (self.quiet_since + tuning.version_probe).max(opened_at + tuning.short_watch);
        (!self.version.is_unset()).then_some(due)
    }
}

impl Reflector {
    pub(super) fn begin_probe(&mut self, now: Time) {
        // However it ends, the next one is as far away as this one was.
        self.memory.heard(now);
        let mut query = vec![("limit", "1".to_string())];
        query.extend(Ask::Latest.query());
        let id = self.send(now, Verb::List, query);
        let exchange = Exchange::new(id, now, self.config.tuning.list_head);
        self.enter(Phase::Listing, State::Probing(Probing { exchange, reader: None }));
    }

    pub(super) fn probing_head(&mut self, now: Time, mut probing: Probing, head: &Head) {
        match probing.exchange.head(now, head) {
            Some(Ok(body)) => {
                probing.reader = Some(PageReader::new(body, self.config.limits));
                self.state = State::Probing(probing);
            }
            Some(Err(error)) => self.probing_broken(now, &probing, &error),
            None => self.state = State::Probing(probing),
        }
    }

    pub(super) fn probing_body(&mut self, now: Time, mut probing: Probing, bytes: &mut &[u8]) -> bool {
        let mut unwanted = RawBatch::new();
        let read = probing.reader.as_mut().map_or(Ok(false), |reader| reader.feed(bytes, &mut unwanted));
        match read {
            Ok(more) => {
                self.state = State::Probing(probing);
                more
            }
            Err(error) => {
                self.probing_broken(now, &probing, &error);
                false
            }
        }
    }

    pub(super) fn probing_end(&mut self, now: Time, probing: Probing, end: &End) {
        if let Some((status, asked)) = probing.exchange.failure() {
            self.probing_refused(now, &status, asked);
            return;
        }
        let fault = match end {
            End::Refused(text) => {
                self.probing_failed(now, Fault::new(reason::REFUSED, text), Wait::Refused);
                return;
            }
            End::Broken(text) => Fault::new(reason::RESET, text),
            End::Closed => match probing.reader.map(PageReader::finish) {
                Some(Ok(end)) => {
                    self.probed(now, end.version);
                    return;
                }
                Some(Err(error)) => {
                    self.probing_unread(now, &error);
                    return;
                }
                None => Fault::new(reason::RESET, "the connection ended before the head of the answer"),
            },
        };
        self.probing_failed(now, fault, Wait::Step);
    }

    pub(super) fn probing_late(&mut self, now: Time, probing: Probing) {
        self.effects.push_back(Effect::Cancel(probing.exchange.id));
        match probing.exchange.failure() {
            Some((status, asked)) => self.probing_refused(now, &status, asked),
            None => self.probing_failed(now, Fault::late("the answer to a version probe"), Wait::Step),
        }
    }

    /// The newest version of the server is `newest`.
    fn probed(&mut self, now: Time, newest: Version) {
        self.memory.heard(now);
        if !self.memory.is_older(&newest) {
            self.begin_watch(now);
            return;
        }
        let known = &self.memory.version;
        let text = format!(
            "the server is at version {newest} and was at {known}: it was set back to an older state, and its watch is \
             silent"
        );
        self.report(now, Phase::Listing, Fault::new(reason::WENT_BACKWARDS, text), Some(Duration::ZERO));
        // It is announced: what is listed next is measured against this. No watch starts from here before it is listed.
        self.memory.version = newest;
        self.memory.latest = true;
        self.memory.set_back = Some(self.attempts + 1);
        self.begin_list(now);
    }

    /// What comes is no list.
    fn probing_broken(&mut self, now: Time, probing: &Probing, error: &WireError) {
        self.effects.push_back(Effect::Cancel(probing.exchange.id));
        self.probing_unread(now, error);
    }

    fn probing_unread(&mut self, now: Time, error: &WireError) {
        if let WireError::Status(status) = error {
            self.probing_refused(now, status, status.retry_after);
            return;
        }
        self.probing_failed(now, Fault::wire(error), Wait::Step);
    }

    fn probing_refused(&mut self, now: Time, status: &Status, asked: Option<Duration>) {
        self.probing_failed(now, Fault::status(status), asked.map_or(Wait::Step, Wait::Asked));
    }

    fn probing_failed(&mut self, now: Time, fault: Fault, wait: Wait) {
        self.fail(now, Phase::Listing, fault, wait, Next::Watch);
    }
}
