//! [`Exchange`]: HTTP/1.1 on one connection, without IO: the adapters move its bytes.
//!
//! ```text
//!         begin             head, but for 1xx          part … part: Done
//!  idle ─────────► asked ───────────────────────► body ──────────────────► idle, or over
//!                    └── the end: a fault           └── the end inside it: a fault
//! ```
//!
//! The request goes out beside all that: a server may answer before it has taken the whole of it. Who moves bytes writes
//! what is [`unsent`](Exchange::unsent), asks for the [`head`](Exchange::head) or the next [`part`](Exchange::part), and
//! reads into [`space`](Exchange::space) only when there is none.
//!
//! - A fault is met again by who asks again: an answer that was cut short never looks complete.
//! - Nothing is read ahead of who asks but [`BUFFER`] bytes, and a stream that is quiet has [`SMALL_BUFFER`].
//! - A body leaves the buffer with one copy, in as few parts as it came in.
//! - [`is_idle`](Exchange::is_idle): the answer is complete, the request was taken whole, the server keeps the connection
//!   and has said nothing since. Whatever is not all of this is closed.
//!
//! The framing is RFC 9112, sections 6.3, 7.1 and 9.3, strictly: an answer whose length can be read in two ways is none.
//!
//! ```
//! use informer_core::{Key, Resource};
//! use informer_runtime::Config;
//! use informer_runtime::api::ApiRequest;
//! use informer_runtime::http1::{Exchange, Part};
//! use informer_runtime::outgoing::Outgoing;
//! use std::io::Write;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = Config::from_url("http://10.0.0.1:8001")?;
//! let call = ApiRequest::get(&Resource::cluster("", "v1", "nodes", "Node"), &Key::new("", "n"))?;
//! let mut exchange = Exchange::new();
//! # let mut faults = || -> Result<(), informer_runtime::fault::Fault> {
//! exchange.begin(&Outgoing::call(&config, &call, false)?)?;
//! assert!(exchange.unsent().starts_with(b"GET /api/v1/nodes/n HTTP/1.1\r\nhost: 10.0.0.1:8001\r\n"));
//! exchange.sent(exchange.unsent().len());
//!
//! let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
//! exchange.space().write_all(answer)?;
//! exchange.filled(answer.len());
//! assert_eq!(exchange.head()?.map(|head| head.status), Some(200));
//! assert_eq!(exchange.part()?, Part::Bytes(b"{}".to_vec()));
//! assert_eq!(exchange.part()?, Part::Done);
//! assert!(exchange.is_idle());
//! # Ok(())
//! # };
//! # faults().map_err(|fault| fault.text)?;
//! # Ok(())
//! # }
//! ```

mod chunked;

#[cfg(test)]
mod tests;

use crate::fault::Fault;
use crate::outgoing::{Outgoing, Unanswered, head};
use chunked::Chunked;
use http::Method;
use http::header::{CONTENT_LENGTH, HOST};
use informer_core::wire::Head;
use std::fmt;

/// Bytes that are read at once and ahead, and the most that the head of an answer may have: real ones have less than 2 KiB.
pub const BUFFER: usize = 64 * 1024;

/// What a buffer begins with, and goes back to while nothing comes: most connections carry a quiet watch. Room for the head
/// of most answers.
pub const SMALL_BUFFER: usize = 1024;

/// What a buffer grows by, at least, when a read has filled it: three reads from the small one to the whole.
const GROWTH: usize = 4;

/// The most that the first line and headers of a request may have: a selector may be long, but servers take no more.
pub const REQUEST_HEAD: usize = 64 * 1024;

/// The most headers that an answer may have; an API server sends about ten.
pub const MAX_HEADERS: usize = 128;

/// One exchange after the other on one connection. See the [module](self).
pub struct Exchange {
    stage: Stage,
    /// The request; let go of when it is sent.
    outgoing: Vec<u8>,
    sent: usize,
    /// Why the rest of the request cannot be sent.
    unsendable: Option<Box<Fault>>,
    /// Why no more can be read.
    unreadable: Option<Box<Fault>>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// The last read had no room for more.
    filled: bool,
    /// Bytes that came since the last rest, and those that came before it: the next ones may be as many.
    burst: usize,
    last_burst: usize,
    /// Some of the answer came.
    answered: bool,
    /// The other side says nothing more.
    closed: bool,
}

#[derive(Debug)]
enum Stage {
    /// A request may be made.
    Idle,
    /// Its answer is awaited.
    Asked(Method),
    Body {
        framing: Framing,
        /// The server lets the connection serve another request.
        kept: bool,
    },
    /// An answer was complete, and the connection is good for no other.
    Over,
}

/// What ends a body.
#[derive(Debug)]
enum Framing {
    /// So many bytes more.
    Sized(u64),
    Chunked(Chunked),
    /// The end of the connection.
    Close,
}

/// What there is of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// All that has come, at most [`BUFFER`] bytes and never none.
    Bytes(Vec<u8>),
    /// Nothing yet: move bytes, and ask again.
    Wait,
    /// It is complete.
    Done,
}

impl Default for Exchange {
    fn default() -> Self {
        Exchange::new()
    }
}

impl Exchange {
    /// A connection that has just been opened.
    pub fn new() -> Self {
        Exchange {
            stage: Stage::Idle,
            outgoing: Vec::new(),
            sent: 0,
            unsendable: None,
            unreadable: None,
            buffer: vec![0; SMALL_BUFFER],
            start: 0,
            end: 0,
            filled: false,
            burst: 0,
            last_burst: 0,
            answered: false,
            closed: false,
        }
    }

    /// Makes a request, which is then [`unsent`](Self::unsent).
    ///
    /// # Errors
    ///
    /// If its head has more than [`REQUEST_HEAD`] bytes; nothing is sent then.
    ///
    /// # Panics
    ///
    /// If the connection is not [idle](Self::is_idle).
    pub fn begin(&mut self, outgoing: &Outgoing) -> Result<(), Fault> {
        assert!(self.is_idle(), "a request was made on a connection that is not idle");
        self.outgoing = written(outgoing)?;
        self.sent = 0;
        self.answered = false;
        self.stage = Stage::Asked(outgoing.head.method().clone());
        Ok(())
    }

    /// What of the request is to be written; empty when all of it was.
    pub fn unsent(&self) -> &[u8] {
        self.outgoing.get(self.sent..).unwrap_or_default()
    }

    /// The connection took so many bytes of it.
    ///
    /// # Panics
    ///
    /// If there are not so many.
    pub fn sent(&mut self, bytes: usize) {
        assert!(bytes <= self.unsent().len(), "more was sent than there is");
        self.sent += bytes;
        if self.unsent().is_empty() {
            self.outgoing = Vec::new();
        }
    }

    /// The connection takes no more of it. The answer may be there all the same, and then this counts for nothing but
    /// that the connection is good for no other request.
    pub fn unsendable(&mut self, why: Fault) {
        self.outgoing = Vec::new();
        self.unsendable = Some(Box::new(why));
    }

    /// What there is to say of a request whose head did not come, on a connection that was `opened` for it or stood before.
    /// One of which the connection took no byte cannot have been worked on.
    pub fn unanswered(&self, opened: bool) -> Unanswered {
        let asked = matches!(self.stage, Stage::Asked(_));
        Unanswered { unread: asked && self.sent == 0, dead: asked, answered: self.answered, opened }
    }

    /// Room for what is read, never none, provided that head and parts were asked for since the last read.
    pub fn space(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.filled && self.buffer.len() < BUFFER {
            let size = (self.buffer.len() * GROWTH).max(self.last_burst.next_power_of_two()).min(BUFFER);
            if self.end == 0 {
                self.buffer = vec![0; size];
            } else {
                self.buffer.resize(size, 0);
            }
        }
        self.filled = false;
        debug_assert!(self.end < self.buffer.len(), "nobody takes what was read");
        &mut self.buffer[self.end..]
    }

    /// So many bytes were read into the space; 0 at the end of the stream.
    ///
    /// # Panics
    ///
    /// If it had no room for so many.
    pub fn filled(&mut self, bytes: usize) {
        assert!(bytes <= self.buffer.len() - self.end, "more was read than there is room for");
        self.closed |= bytes == 0;
        self.answered |= bytes > 0;
        self.end += bytes;
        self.burst = self.burst.saturating_add(bytes);
        self.filled = self.end == self.buffer.len();
    }

    /// The connection broke and nothing more can be read: what has come is all that there is, and it did not end there.
    pub fn unreadable(&mut self, why: Fault) {
        self.closed = true;
        self.unreadable = Some(Box::new(why));
    }

    /// True if the last read has filled a buffer that can grow: most likely more is there, and who reads it before asking for
    /// a part gets all of it in one.
    pub fn wants_more(&self) -> bool {
        self.filled && self.buffer.len() < BUFFER && !self.closed
    }

    /// Nothing comes at present: a buffer that has grown is let go of. It takes one read to have one for as much again.
    pub fn rest(&mut self) {
        if self.burst > 0 {
            self.last_burst = std::mem::take(&mut self.burst).min(BUFFER);
        }
        if self.start == self.end && self.buffer.len() > SMALL_BUFFER {
            self.buffer = vec![0; SMALL_BUFFER];
            (self.start, self.end, self.filled) = (0, 0, false);
        }
    }

    /// True if another request can be made.
    pub fn is_idle(&self) -> bool {
        matches!(self.stage, Stage::Idle) && self.start == self.end && !self.closed
    }

    /// The head of the answer; `None` if more must be read. Interim ones (1xx) are passed over.
    ///
    /// # Errors
    ///
    /// If what came is no HTTP/1.1, is larger than [`BUFFER`], or ends before there is a head.
    ///
    /// # Panics
    ///
    /// If it was not asked for, or given before.
    pub fn head(&mut self) -> Result<Option<Head>, Fault> {
        let Stage::Asked(method) = &self.stage else { panic!("no head is awaited") };
        loop {
            let read = &self.buffer[self.start..self.end];
            let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
            let mut answer = httparse::Response::new(&mut headers);
            let parsed = answer.parse(read).map_err(|error| no_http(error).because(error))?;
            let httparse::Status::Complete(length) = parsed else { break };
            let (status, version) = (answer.code.unwrap_or_default(), answer.version.unwrap_or_default());
            if matches!(status, 100 | 102..=199) {
                self.start += length;
                continue;
            }
            let framing = framing(method, status, version, answer.headers)?;
            let kept = is_kept(version, answer.headers)
                && status != 101
                && !matches!(framing, Framing::Close)
                && !has_two_ends(method, status, answer.headers);
            let head = head(status, answer.headers.iter().map(|header| (header.name, header.value)));
            self.start += length;
            self.stage = Stage::Body { framing, kept };
            return Ok(Some(head));
        }
        if self.closed {
            return Err(match self.unreadable.as_mut().or(self.unsendable.as_mut()) {
                Some(why) => told(why),
                None if self.answered => {
                    Fault::broken("the server closed the connection inside the head of its answer")
                }
                None => Fault::broken("the server closed the connection without an answer"),
            });
        }
        if self.end - self.start >= BUFFER {
            return Err(Fault::broken(format_args!("the head of the answer has more than {BUFFER} bytes")));
        }
        Ok(None)
    }

    /// What has come of the body.
    ///
    /// # Errors
    ///
    /// If its chunks are none, or the connection ended inside it. What came before that was given before.
    ///
    /// # Panics
    ///
    /// If there was no head yet.
    pub fn part(&mut self) -> Result<Part, Fault> {
        let (framing, kept) = match &mut self.stage {
            Stage::Body { framing, kept } => (framing, *kept),
            Stage::Idle | Stage::Over => return Ok(Part::Done),
            Stage::Asked(_) => panic!("there is no body before its head"),
        };
        let read = &self.buffer[self.start..self.end];
        let mut part = Vec::new();
        let (used, done) = match framing {
            Framing::Sized(left) => {
                let taken = usize::try_from(*left).map_or(read.len(), |left| left.min(read.len()));
                part.extend_from_slice(&read[..taken]);
                *left -= taken as u64;
                (taken, Ok(*left == 0))
            }
            Framing::Chunked(chunked) => {
                part.reserve_exact(read.len());
                let (used, fault) = chunked.take(read, &mut part);
                (used, fault.map_or(Ok(chunked.is_done()), Err))
            }
            Framing::Close => {
                part.extend_from_slice(read);
                (read.len(), Ok(self.closed && self.unreadable.is_none()))
            }
        };
        self.start += used;
        // What came before a fault counts; the next call meets it again.
        let done = match done {
            Err(why) if part.is_empty() => return Err(no_http(why)),
            done => done == Ok(true),
        };
        if done {
            let sent = self.unsent().is_empty() && self.unsendable.is_none();
            self.stage = if kept && sent { Stage::Idle } else { Stage::Over };
        }
        match () {
            () if !part.is_empty() => Ok(Part::Bytes(part)),
            () if done => Ok(Part::Done),
            () if self.closed => Err(match &mut self.unreadable {
                Some(why) => told(why),
                None => Fault::broken("the connection was closed inside the body"),
            }),
            () => Ok(Part::Wait),
        }
    }
}

impl fmt::Debug for Exchange {
    /// Without the request, which carries credentials, and what was read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unsent, unread) = (self.unsent().len(), self.end - self.start);
        write!(f, "exchange ({:?}, {unsent} bytes to send, {unread} read ahead)", self.stage)
    }
}

/// The same fault for each who asks; its source is the first one's.
fn told(why: &mut Fault) -> Fault {
    Fault { refused: why.refused, text: why.text.clone(), source: why.source.take() }
}

fn no_http(why: impl fmt::Display) -> Fault {
    Fault::broken(format_args!("what came is no HTTP/1.1: {why}"))
}

/// The form of HTTP/1.1: the target alone in the first line, the server in a header.
fn written(outgoing: &Outgoing) -> Result<Vec<u8>, Fault> {
    let (method, target, body) = (outgoing.head.method().as_str(), outgoing.target(), &outgoing.body);
    let mut bytes = Vec::with_capacity(SMALL_BUFFER.max(body.len() + SMALL_BUFFER / 2));
    for piece in [method, " ", target, " HTTP/1.1\r\n"] {
        bytes.extend_from_slice(piece.as_bytes());
    }
    let mut line = |name: &str, value: &[u8]| {
        for piece in [name.as_bytes(), b": ", value, b"\r\n"] {
            bytes.extend_from_slice(piece);
        }
    };
    line(HOST.as_str(), outgoing.host().as_bytes());
    for (name, value) in outgoing.head.headers() {
        line(name.as_str(), value.as_bytes());
    }
    if !body.is_empty() {
        line(CONTENT_LENGTH.as_str(), body.len().to_string().as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    if bytes.len() > REQUEST_HEAD {
        let (path, size) = (target.split('?').next().unwrap_or_default(), bytes.len());
        return Err(Fault::broken(format_args!(
            "{method} {path} cannot be sent: its head has {size} bytes, and {REQUEST_HEAD} is the most; a shorter selector or \
             token is needed"
        )));
    }
    bytes.extend_from_slice(body);
    Ok(bytes)
}

/// The members of all headers of a name, which hold lists.
fn members<'h>(headers: &'h [httparse::Header<'_>], name: &'static str) -> impl Iterator<Item = &'h [u8]> {
    let named = headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
    named.flat_map(|header| header.value.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii)
}

/// RFC 9112, 6.3.
fn framing(method: &Method, status: u16, version: u8, headers: &[httparse::Header<'_>]) -> Result<Framing, Fault> {
    if method == Method::HEAD || matches!(status, 100..=199 | 204 | 304) {
        return Ok(Framing::Sized(0));
    }
    let mut codings = members(headers, "transfer-encoding").filter(|coding| !coding.is_empty()).peekable();
    if codings.peek().is_some() {
        if version == 0 {
            return Err(no_http("a transfer-encoding in HTTP/1.0 leaves open where the answer ends"));
        }
        let (first, more) = (codings.next().unwrap_or_default(), codings.next().is_some());
        if more || !first.eq_ignore_ascii_case(b"chunked") {
            let coding = String::from_utf8_lossy(first).into_owned();
            return Err(no_http(format_args!("it has a transfer-encoding that was not asked for ({coding:?})")));
        }
        return Ok(Framing::Chunked(Chunked::default()));
    }
    let mut length = None;
    for value in members(headers, "content-length") {
        let number = value.iter().all(u8::is_ascii_digit).then(|| std::str::from_utf8(value).ok()?.parse().ok());
        let Some(number) = number.flatten() else {
            let value = String::from_utf8_lossy(value).into_owned();
            return Err(no_http(format_args!("{value:?} is no content-length")));
        };
        if length.is_some_and(|length| length != number) {
            return Err(no_http("it has two content-lengths"));
        }
        length = Some(number);
    }
    Ok(length.map_or(Framing::Close, Framing::Sized))
}

/// A length beside chunks does not count, nor does a length or coding of an answer that has no body. Who sent it, or stands
/// between, may count it all the same, and then what comes next is part of this answer.
fn has_two_ends(method: &Method, status: u16, headers: &[httparse::Header<'_>]) -> bool {
    let has = |name: &str| headers.iter().any(|header| header.name.eq_ignore_ascii_case(name));
    if matches!(status, 204 | 304) && method != Method::HEAD {
        has("transfer-encoding") || members(headers, "content-length").any(|length| length != b"0")
    } else {
        has("transfer-encoding") && has("content-length")
    }
}

/// RFC 9112, 9.3.
fn is_kept(version: u8, headers: &[httparse::Header<'_>]) -> bool {
    let says = |word: &[u8]| members(headers, "connection").any(|option| option.eq_ignore_ascii_case(word));
    !says(b"close") && (version == 1 || says(b"keep-alive"))
}
