//! One request and its answer: the part that every state with a request in flight has in common.
//!
//! ```text
//! sent ──connected──► waiting for the head ──200──► open ──end──►
//!                                          └─else─► failing (the body is read, bounded) ──end──►
//! ```

use super::tuning::{Tuning, why};
use crate::time::{Deadline, Duration, Time};
use crate::wire::{Body, Head, RequestId, Status, WireError};
use alloc::vec::Vec;

/// What is kept of the body of a failed request; a Status is far smaller.
const ERROR_BODY: usize = 64 * 1024;

pub(super) struct Exchange {
    pub(super) id: RequestId,
    pub(super) sent_at: Time,
    /// When the head came.
    pub(super) opened_at: Time,
    last_byte: Time,
    stage: Stage,
    head_within: Duration,
    /// When the server should end an open body, if it was told to.
    ends_at: Option<Time>,
    /// Since when the body is not being read.
    paused_at: Option<Time>,
    /// The wall clock when the head came, if it is known.
    unix: Option<Duration>,
}

enum Stage {
    Connecting,
    AwaitingHead,
    Open,
    /// `text` is what the body says, its content encoding undone.
    Failing {
        head: Head,
        body: Option<Body>,
        text: Vec<u8>,
    },
}

impl Exchange {
    pub(super) fn new(id: RequestId, now: Time, head_within: Duration) -> Self {
        Exchange {
            id,
            sent_at: now,
            opened_at: now,
            last_byte: now,
            stage: Stage::Connecting,
            head_within,
            ends_at: None,
            paused_at: None,
            unix: None,
        }
    }

    /// The server was told to end the body at `ends_at`.
    pub(super) fn ending(mut self, ends_at: Time) -> Self {
        self.ends_at = Some(ends_at);
        self
    }

    pub(super) fn connected(&mut self) {
        if matches!(self.stage, Stage::Connecting) {
            self.stage = Stage::AwaitingHead;
        }
    }

    /// What the wall clock says as the head comes: a date in it may have nothing else to be read against.
    pub(super) fn at_unix(&mut self, unix: Option<Duration>) {
        self.unix = unix;
    }

    /// Takes the head. `Some` if the answer is good: its decoder.
    pub(super) fn head(&mut self, now: Time, head: &Head) -> Option<Result<Body, WireError>> {
        self.opened_at = now;
        self.last_byte = now;
        if head.status == 200 {
            self.stage = Stage::Open;
            return Some(Body::new(head.content_encoding.as_deref()));
        }
        let body = Body::new(head.content_encoding.as_deref()).ok();
        self.stage = Stage::Failing { head: head.clone(), body, text: Vec::new() };
        None
    }

    /// Notes bytes; keeps them if they belong to a failure. True if they are the state's to read.
    pub(super) fn body(&mut self, now: Time, bytes: &[u8]) -> bool {
        self.last_byte = now;
        match &mut self.stage {
            Stage::Open => true,
            Stage::Failing { body, text, .. } => {
                keep(body, text, bytes);
                false
            }
            Stage::Connecting | Stage::AwaitingHead => false,
        }
    }

    /// The failure that the answer is, if its head said so, and the wait it asks for.
    pub(super) fn failure(&self) -> Option<(Status, Option<Duration>)> {
        let Stage::Failing { head, text, .. } = &self.stage else { return None };
        // A redirect or another 2xx is not an answer that this protocol has: it fails with its code.
        let status = Status::from_response(head.status, text);
        let asked = head.retry_after_at(self.unix).or(status.retry_after);
        Some((status, asked))
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open)
    }

    /// True until the head has come.
    pub(super) fn awaits_head(&self) -> bool {
        matches!(self.stage, Stage::Connecting | Stage::AwaitingHead)
    }

    #[cfg(any(test, debug_assertions))]
    pub(super) fn is_paused(&self) -> bool {
        self.paused_at.is_some()
    }

    pub(super) fn pause(&mut self, now: Time) {
        self.paused_at.get_or_insert(now);
    }

    /// Goes on reading. Time in which we did not listen does not count: not as silence, not as lateness. Says when it
    /// was paused, if it was.
    pub(super) fn resume(&mut self, now: Time) -> Option<Time> {
        let from = self.paused_at.take()?;
        self.last_byte = self.last_byte + now.since(self.last_byte.max(from));
        self.opened_at = self.opened_at + now.since(from);
        self.ends_at = self.ends_at.map(|at| at + now.since(from));
        Some(from)
    }

    /// True if the server should have ended the body, and did not.
    pub(super) fn is_overdue(&self, now: Time, tuning: &Tuning) -> bool {
        self.ends_at.is_some_and(|at| now >= at + tuning.watch_grace)
    }

    /// Until when something must have come. `silence` bounds an open body.
    pub(super) fn deadline(&self, tuning: &Tuning, silence: Option<Duration>) -> Option<Deadline> {
        if self.paused_at.is_some() {
            return None;
        }
        match self.stage {
            Stage::Connecting => Some(Deadline { at: self.sent_at + tuning.connect, why: why::CONNECTING }),
            Stage::AwaitingHead => Some(Deadline { at: self.sent_at + self.head_within, why: why::HEAD }),
            Stage::Open => {
                let silence = silence.map(|silence| Deadline { at: self.last_byte + silence, why: why::SILENCE });
                let end = self.ends_at.map(|at| Deadline { at: at + tuning.watch_grace, why: why::END_OF_WATCH });
                Deadline::sooner(silence, end)
            }
            Stage::Failing { .. } => Some(Deadline { at: self.opened_at + tuning.error_body, why: why::ERROR_BODY }),
        }
    }
}

/// Keeps what `bytes` add to the text of a failure, up to its bound. What cannot be read is passed over: then the code
/// alone has to say enough.
fn keep(body: &mut Option<Body>, text: &mut Vec<u8>, mut bytes: &[u8]) {
    while let Some(reader) = body.as_mut().filter(|_| text.len() < ERROR_BODY) {
        match reader.pull(&mut bytes) {
            Ok(Some(plain)) => text.extend_from_slice(&plain[..plain.len().min(ERROR_BODY - text.len())]),
            Ok(None) => return,
            Err(_) => *body = None,
        }
    }
}
