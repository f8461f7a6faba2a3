//! The state `Streaming`: a watch that begins with the whole state, up to the marker that ends it.
//!
//! ```text
//! sent ──200──► initial events ──end marker──► Watching (the same stream goes on)
//!   │ refused, 429, Retry-After: Backoff, again   │ ended or silent without the marker: Backoff, then again;
//!   │ 410, too large: at once for the newest      │ after three tries pages for good
//!   │ 400, 405, 406, 415, 422: pages, at once and for good
//!   └ anything else: pages, at once; the next list streams again
//! ```
//!
//! Who asks for [`ListStrategy::Streaming`] gets no pages: what leads to them here is Backoff, then again.

use super::backoff::{Next, Wait};
use super::exchange::Exchange;
use super::failure::{Fault, reason};
use super::stream::{Piece, StreamReader};
use super::tuning::Tuning;
use super::watching::Watching;
use super::{Ask, Effect, End, ListStrategy, Phase, Reflector, State, unreadable};
use crate::object::Version;
use crate::time::{Deadline, Duration, Time};
use crate::wire::{Control, Head, Status, Verb};
use alloc::format;
use alloc::string::ToString;
use alloc::vec;

pub(super) struct Streaming {
    pub(super) exchange: Exchange,
    attempt: u64,
    ask: Ask,
    reader: Option<StreamReader>,
}

impl Streaming {
    pub(super) fn deadline(&self, tuning: &Tuning) -> Option<Deadline> {
        self.exchange.deadline(tuning, Some(tuning.list_silence))
    }
}

impl Reflector {
    /// True if the next list is a streaming one.
    pub(super) fn streams(&self) -> bool {
        match self.config.strategy {
            ListStrategy::Auto => !self.memory.streaming_refused,
            ListStrategy::Streaming => true,
            ListStrategy::Paged => false,
        }
    }

    pub(super) fn begin_stream(&mut self, now: Time) {
        let ask = self.memory.ask();
        let version = match &ask {
            // The first streaming list is a consistent read: unlike pages it costs the server no more (trap 16).
            Ask::Any | Ask::Latest => "".into(),
            Ask::NotOlder(version) => version.to_string(),
        };
        let attempt = self.next_attempt();
        let timeout = self.watch_timeout();
        let query = vec![
            ("watch", "true".into()),
            ("allowWatchBookmarks", "true".into()),
            ("sendInitialEvents", "true".into()),
            ("resourceVersionMatch", "NotOlderThan".into()),
            ("resourceVersion", version),
            ("timeoutSeconds", timeout.to_string()),
        ];
        let id = self.send(now, Verb::Watch, query);
        // The head may take as long as that of a list: the server waits until its cache is new enough.
        let ends_at = now + Duration::from_secs(timeout);
        let exchange = Exchange::new(id, now, self.config.tuning.list_head).ending(ends_at);
        let streaming = Streaming { exchange, attempt, ask, reader: None };
        self.enter(Phase::Streaming, State::Streaming(streaming));
    }

    pub(super) fn streaming_head(&mut self, now: Time, mut streaming: Streaming, head: &Head) {
        match streaming.exchange.head(now, head) {
            Some(Ok(body)) => {
                streaming.reader = Some(StreamReader::new(body, self.config.limits));
                self.state = State::Streaming(streaming);
            }
            Some(Err(error)) => {
                self.effects.push_back(Effect::Cancel(streaming.exchange.id));
                self.fall_back(now, Fault::wire(&error), Wait::Step);
            }
            None => self.state = State::Streaming(streaming),
        }
    }

    pub(super) fn streaming_body(&mut self, now: Time, mut streaming: Streaming, bytes: &mut &[u8]) -> bool {
        let Some(reader) = streaming.reader.as_mut() else {
            self.state = State::Streaming(streaming);
            return false;
        };
        let (pieces, more) = reader.feed(bytes);
        self.streaming_pieces(now, streaming, pieces.into_iter());
        more
    }

    fn streaming_pieces(&mut self, now: Time, streaming: Streaming, mut pieces: impl Iterator<Item = Piece>) {
        while let Some(piece) = pieces.next() {
            match piece {
                Piece::Events(batch) => {
                    if let Some(fault) = batch.iter().find_map(|item| unreadable(&item, &self.config.resource)) {
                        self.streaming_cut(now, &streaming, fault);
                        return;
                    }
                    self.effects.push_back(Effect::Items {
                        attempt: streaming.attempt,
                        staged: true,
                        doubt: self.memory.latest,
                        batch,
                    });
                }
                Piece::Control(Control::Bookmark { version, initial_events_end: true }) => {
                    let Some(watching) = self.streamed(now, streaming, version) else { return };
                    self.watching_pieces(now, watching, pieces);
                    return;
                }
                // An ordinary bookmark says nothing before the end marker (B039).
                Piece::Control(Control::Bookmark { .. }) => {}
                Piece::Control(Control::Error(status)) => {
                    self.effects.push_back(Effect::Cancel(streaming.exchange.id));
                    let asked = status.retry_after;
                    self.streaming_refused(now, &streaming, &status, asked.map_or(Wait::Step, Wait::Asked));
                    return;
                }
                Piece::Control(Control::Unknown { event_type }) => {
                    let text = format!("an event of the unknown type {event_type:?}");
                    self.streaming_cut(now, &streaming, Fault::new(reason::UNDECODABLE, text));
                    return;
                }
                Piece::Broken(error) => {
                    self.streaming_cut(now, &streaming, Fault::wire(&error));
                    return;
                }
            }
        }
        self.state = State::Streaming(streaming);
    }

    /// The end marker came: the list is whole and stands for `version`. `None` if it was not accepted.
    fn streamed(&mut self, now: Time, streaming: Streaming, version: Version) -> Option<Watching> {
        if version.is_unset() {
            let text = "the end marker of the streaming list has no metadata.resourceVersion to go on from";
            self.streaming_cut(now, &streaming, Fault::new(reason::UNDECODABLE, text));
            return None;
        }
        let set_back = self.memory.is_older(&version);
        if set_back && !self.accept_older(now, &version, &streaming.ask, Phase::Streaming) {
            self.effects.push_back(Effect::Cancel(streaming.exchange.id));
            self.discard();
            self.begin_stream(now);
            return None;
        }
        self.memory.echoed = matches!(&streaming.ask, Ask::NotOlder(asked) if *asked == version);
        self.memory.heard(now);
        self.memory.repeats.forget(Phase::Streaming);
        self.memory.record.opened();
        self.memory.streaming_tries = 0;
        self.memory.latest = false;
        self.memory.version = version.clone();
        if set_back {
            self.memory.set_back = Some(streaming.attempt);
        }
        let set_back = self.memory.set_back.is_some();
        self.effects.push_back(Effect::Finish {
            attempt: streaming.attempt,
            phase: Phase::Streaming,
            version,
            set_back,
        });
        let Streaming { exchange, attempt, reader, .. } = streaming;
        let reader = reader.expect("an end marker came out of it");
        Some(Watching::new(exchange, attempt, reader))
    }

    pub(super) fn streaming_end(&mut self, now: Time, streaming: Streaming, end: &End) {
        if let Some((status, asked)) = streaming.exchange.failure() {
            self.streaming_refused(now, &streaming, &status, asked.map_or(Wait::Step, Wait::Asked));
            return;
        }
        let open = streaming.exchange.is_open();
        match end {
            End::Refused(text) => {
                self.discard();
                self.fail(now, Phase::Streaming, Fault::new(reason::REFUSED, text), Wait::Refused, Next::List);
            }
            End::Broken(text) if open => self.unmarked(now, Fault::new(reason::RESET, text)),
            End::Broken(text) => self.fall_back(now, Fault::new(reason::RESET, text), Wait::Step),
            End::Closed if open => {
                let text = format!(
                    "the streaming list ended without its end marker (try {} of {})",
                    self.memory.streaming_tries + 1,
                    self.config.tuning.streaming_tries
                );
                self.unmarked(now, Fault::new(reason::NO_END_MARKER, text));
            }
            End::Closed => {
                let text = "the connection ended before the head of the answer";
                self.fall_back(now, Fault::new(reason::RESET, text), Wait::Step);
            }
        }
    }

    pub(super) fn streaming_late(&mut self, now: Time, streaming: Streaming) {
        self.effects.push_back(Effect::Cancel(streaming.exchange.id));
        if let Some((status, asked)) = streaming.exchange.failure() {
            self.streaming_refused(now, &streaming, &status, asked.map_or(Wait::Step, Wait::Asked));
        } else {
            let open = streaming.exchange.is_open();
            let what = if open { "the end marker of a streaming list" } else { "the answer to a streaming list" };
            self.unmarked(now, Fault::late(what));
        }
    }

    fn streaming_refused(&mut self, now: Time, streaming: &Streaming, status: &Status, wait: Wait) {
        let fault = Fault::status(status);
        if status.is_expired() || status.is_too_large_version() {
            let tried_latest = streaming.ask == Ask::Latest || self.memory.version.is_unset();
            self.memory.latest = true;
            self.discard();
            let wait = if tried_latest { wait } else { Wait::None };
            self.fail(now, Phase::Streaming, fault, wait, Next::List);
            return;
        }
        // What no retry will change: this server does not know the request (B041).
        if matches!(status.code, 400 | 405 | 406 | 415 | 422) {
            self.memory.streaming_refused = true;
        }
        // A server that is busy, or names a wait, is not asked for pages at once.
        if status.code == 429 || matches!(wait, Wait::Asked(_)) {
            self.discard();
            self.fail(now, Phase::Streaming, fault, wait, Next::List);
            return;
        }
        self.fall_back(now, fault, wait);
    }

    /// The stream can be used no further.
    fn streaming_cut(&mut self, now: Time, streaming: &Streaming, fault: Fault) {
        self.effects.push_back(Effect::Cancel(streaming.exchange.id));
        self.fall_back(now, fault, Wait::Step);
    }

    /// Pages, at once, in place of the streaming list; the cycle after this one may stream again.
    fn fall_back(&mut self, now: Time, fault: Fault, wait: Wait) {
        self.discard();
        if self.config.strategy == ListStrategy::Streaming {
            self.fail(now, Phase::Streaming, fault, wait, Next::List);
            return;
        }
        self.report(now, Phase::Streaming, fault, Some(Duration::ZERO));
        self.begin_pages(now);
    }

    /// The stream ended or fell silent before its marker.
    fn unmarked(&mut self, now: Time, fault: Fault) {
        self.discard();
        self.memory.streaming_tries += 1;
        if self.memory.streaming_tries >= self.config.tuning.streaming_tries {
            self.memory.streaming_refused = true;
        }
        self.fail(now, Phase::Streaming, fault, Wait::Step, Next::List);
    }
}
