//! The state `Watching`: a watch was answered and is open.
//!
//! ```text
//! events, bookmarks ──► the cursor moves
//!   │ clean end: Opening at once, or 800 ms after the last request
//!   │ clean end within a second, nothing seen: Backoff, then Opening; after three in a row a list
//!   │ broken: Backoff, then Opening
//!   │ silent for 150 s, or not ended in time: Opening on a fresh connection
//!   │ suspended: Opening on a fresh connection, at once or 800 ms after the last request
//!   │ no event or bookmark for 10 min, over however many streams: Probing
//!   └ ERROR, something unreadable: Backoff, then a list (or Opening, for an internal error)
//! ```

use super::backoff::{Next, Wait};
use super::exchange::Exchange;
use super::failure::{Fault, reason};
use super::stream::{Piece, StreamReader};
use super::tuning::{Tuning, why};
use super::{Effect, End, Memory, Phase, Reflector, State, unreadable};
use crate::object::Version;
use crate::time::{Deadline, Time};
use crate::wire::{Control, RawBatch};
use alloc::format;

pub(super) struct Watching {
    pub(super) exchange: Exchange,
    pub(super) attempt: u64,
    reader: StreamReader,
    /// Events and bookmarks that came.
    seen: u64,
    bookmarked: bool,
}

impl Watching {
    pub(super) fn new(exchange: Exchange, attempt: u64, reader: StreamReader) -> Self {
        Watching { exchange, attempt, reader, seen: 0, bookmarked: false }
    }

    pub(super) fn deadline(&self, tuning: &Tuning, memory: &Memory) -> Option<Deadline> {
        // A server that sends no bookmarks is quiet by nature.
        let silence = (memory.unbookmarked < tuning.unbookmarked_streams).then_some(tuning.watch_silence);
        let stream = self.exchange.deadline(tuning, silence)?;
        let probe = memory.probe_at(tuning, self.exchange.opened_at).map(|at| Deadline { at, why: why::PROBE });
        Deadline::sooner(probe, Some(stream))
    }
}

impl Reflector {
    pub(super) fn watching_body(&mut self, now: Time, mut watching: Watching, bytes: &mut &[u8]) -> bool {
        let (pieces, more) = watching.reader.feed(bytes);
        self.watching_pieces(now, watching, pieces.into_iter());
        more
    }

    pub(super) fn watching_pieces(&mut self, now: Time, mut watching: Watching, pieces: impl Iterator<Item = Piece>) {
        for piece in pieces {
            match piece {
                Piece::Events(batch) => {
                    if let Some(fault) = self.events(now, &mut watching, batch) {
                        self.watching_cut(now, &watching, fault);
                        return;
                    }
                }
                Piece::Control(Control::Bookmark { version, .. }) => {
                    watching.seen += 1;
                    watching.bookmarked = true;
                    self.memory.unbookmarked = 0;
                    self.news(now);
                    if !version.is_unset() {
                        self.memory.version = version.clone();
                        self.memory.echoed = false;
                        self.effects.push_back(Effect::Bookmark(version));
                    }
                }
                Piece::Control(Control::Error(status)) => {
                    self.effects.push_back(Effect::Cancel(watching.exchange.id));
                    self.note_health(now, &watching);
                    self.watch_refused(now, &status, status.retry_after);
                    return;
                }
                Piece::Control(Control::Unknown { event_type }) => {
                    let text = format!("an event of the unknown type {event_type:?}");
                    self.watching_cut(now, &watching, Fault::new(reason::UNDECODABLE, text));
                    return;
                }
                Piece::Broken(error) => {
                    self.watching_cut(now, &watching, Fault::wire(&error));
                    return;
                }
            }
        }
        self.enter(Phase::Watching, State::Watching(watching));
    }

    /// Takes events up to the first that is unreadable, whose fault it returns.
    fn events(&mut self, now: Time, watching: &mut Watching, mut batch: RawBatch) -> Option<Fault> {
        let resource = &self.config.resource;
        let broken = batch.iter().enumerate().find_map(|(at, item)| Some((at, unreadable(&item, resource)?)));
        let fault = broken.map(|(good, fault)| {
            let mut rest = RawBatch::new();
            for item in batch.iter().take(good) {
                rest.push(item.kind, item.json);
            }
            batch = rest;
            fault
        });
        if !batch.is_empty() {
            watching.seen += batch.len() as u64;
            self.memory.record.event(now);
            self.news(now);
            // I28: an object without a version moves nothing.
            let last = batch.iter().filter(|item| !item.version.is_empty()).last();
            if let Some(item) = last {
                self.memory.version = Version::new(item.version);
                self.memory.echoed = false;
            }
            self.effects.push_back(Effect::Items { attempt: watching.attempt, staged: false, doubt: false, batch });
        }
        fault
    }

    pub(super) fn watching_end(&mut self, now: Time, watching: Watching, end: &End) {
        self.note_health(now, &watching);
        match end {
            End::Closed => self.watching_closed(now, &watching),
            End::Broken(text) | End::Refused(text) => {
                self.fail(now, Phase::Watching, Fault::new(reason::RESET, text), Wait::Step, Next::Watch);
            }
        }
    }

    /// A clean end is normal (C16); a cut last frame is read again by the next watch.
    fn watching_closed(&mut self, now: Time, watching: &Watching) {
        let open_for = now.since(watching.exchange.opened_at);
        if watching.seen == 0 && open_for < self.config.tuning.short_watch {
            self.memory.short_watches += 1;
            let next = if self.memory.short_watches >= self.config.tuning.short_watches {
                self.memory.short_watches = 0;
                Next::List
            } else {
                Next::Watch
            };
            let text = format!("the watch ended after {} ms without an event", open_for.as_millis());
            self.fail(now, Phase::Watching, Fault::new(reason::SHORT_WATCH, text), Wait::Step, next);
            return;
        }
        (self.memory.short_watches, self.memory.internal_errors) = (0, 0);
        let until = self.memory.last_sent + self.config.tuning.pace;
        self.go_on(now, until, Next::Watch);
    }

    /// The deadline `due` has passed.
    pub(super) fn watching_late(&mut self, now: Time, watching: Watching, due: Time) {
        self.effects.push_back(Effect::Cancel(watching.exchange.id));
        self.note_health(now, &watching);
        // Whatever kept this stream silent, its connection is not to be trusted.
        self.memory.fresh_connection = true;
        if self.memory.probe_at(&self.config.tuning, watching.exchange.opened_at).is_some_and(|at| at <= due) {
            self.begin_probe(now);
            return;
        }
        let tuning = &self.config.tuning;
        if watching.exchange.is_overdue(due, tuning) {
            let fault = Fault::late("the end of a watch that the server should have closed");
            self.report(now, Phase::Watching, fault, Some(crate::time::Duration::ZERO));
            self.begin_watch(now);
            return;
        }
        if !watching.bookmarked {
            self.memory.unbookmarked += 1;
            if self.memory.unbookmarked >= tuning.unbookmarked_streams {
                // Two silent streams in a row without a bookmark: the server sends none, and this one may live. A
                // fresh one starts all the same, since this one was cancelled above.
                self.memory.was_silent = false;
            }
        }
        if core::mem::replace(&mut self.memory.was_silent, true) {
            let fault = Fault::late("any event or bookmark of a watch, twice in a row");
            self.report(now, Phase::Watching, fault, Some(crate::time::Duration::ZERO));
        }
        self.begin_watch(now);
    }

    /// The machine slept, and its clock with it: the other end may have given this stream up long ago, and its reset may
    /// never come (B020, F49). Events that were sent meanwhile come again.
    pub(super) fn watching_suspended(&mut self, now: Time, watching: &Watching) {
        self.effects.push_back(Effect::Cancel(watching.exchange.id));
        self.note_health(now, watching);
        self.memory.fresh_connection = true;
        let until = self.memory.last_sent + self.config.tuning.pace;
        self.go_on(now, until, Next::Watch);
    }

    fn note_health(&mut self, now: Time, watching: &Watching) {
        let (open_for, tuning) = (now.since(watching.exchange.opened_at), &self.config.tuning);
        if open_for >= tuning.short_watch {
            self.memory.record.good();
        }
        if open_for >= tuning.healthy_watch {
            self.alive_for_long();
        }
    }

    /// A watch that was open for long was healthy, even if nothing came; whether it was silent is another matter.
    fn alive_for_long(&mut self) {
        let silent = self.memory.was_silent;
        self.alive();
        self.memory.was_silent = silent;
    }

    fn watching_cut(&mut self, now: Time, watching: &Watching, fault: Fault) {
        self.effects.push_back(Effect::Cancel(watching.exchange.id));
        self.note_health(now, watching);
        self.fail(now, Phase::Watching, fault, Wait::Step, Next::List);
    }
}
