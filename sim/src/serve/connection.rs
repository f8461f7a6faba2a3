//! One connection: a reader that turns bytes into requests, a writer that sends what the server said.
//!
//! Requests of one connection are answered one after the other. While an answer goes out the reader keeps reading, since
//! that is how it learns that the client is gone.

use super::{HIGH_WATER, LOW_WATER, Shared};
use crate::message::{CallId, HttpRequest, Input};
use crate::server::MAX_BODY;
use std::fmt::Write as _;
use std::io::{self, Read, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Longest head of a request. Selectors can be long; the real server takes a megabyte.
const MAX_HEAD: usize = 1024 * 1024;

/// Most headers of a request.
const MAX_HEADERS: usize = 100;

/// A client that takes nothing for so long, although there is something, is cut off.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) struct Connection {
    stream: TcpStream,
    out: Mutex<Out>,
    changed: Condvar,
}

#[derive(Default)]
struct Out {
    bytes: Vec<u8>,
    /// The call that is being answered.
    call: Option<CallId>,
    paused: bool,
    chunked: bool,
    /// The client asked for the connection to end with this answer, or cannot do better.
    last: bool,
    /// The client knows chunks: HTTP/1.1.
    modern: bool,
    /// The answer to a HEAD.
    bodiless: bool,
    /// No more after what is in `bytes`.
    closing: bool,
    closed: bool,
}

/// Starts the two threads of a connection.
pub(super) fn open(shared: &Arc<Shared>, stream: TcpStream) -> io::Result<(Arc<Connection>, [JoinHandle<()>; 2])> {
    // Events are small and must not wait for each other.
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
    let connection = Arc::new(Connection { stream, out: Mutex::default(), changed: Condvar::new() });
    let spawn = |name: &str, work: fn(&Arc<Shared>, &Arc<Connection>)| {
        let (shared, connection) = (Arc::clone(shared), Arc::clone(&connection));
        thread::Builder::new().name(name.into()).spawn(move || work(&shared, &connection))
    };
    let writer = spawn("sim-writer", write)?;
    match spawn("sim-reader", read) {
        Ok(reader) => Ok((connection, [reader, writer])),
        Err(error) => {
            connection.finish();
            Err(error)
        }
    }
}

impl Connection {
    fn out(&self) -> MutexGuard<'_, Out> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ---- From the server ----

    pub(super) fn begin(&self, id: CallId) {
        self.out().call = Some(id);
    }

    pub(super) fn head(&self, status: u16, headers: &[(&'static str, String)]) {
        let mut head = format!("HTTP/1.1 {status} {}\r\n", reason(status));
        for (name, value) in headers {
            write!(head, "{name}: {value}\r\n").expect("a string takes all");
        }
        let mut out = self.out();
        out.chunked = false;
        if !headers.iter().any(|(name, _)| *name == "content-length") {
            out.chunked = out.modern && !out.bodiless;
            // Before chunks, only the end of the connection ended a body.
            out.last |= !out.modern;
        }
        if out.chunked {
            head.push_str("transfer-encoding: chunked\r\n");
        }
        if out.last {
            head.push_str("connection: close\r\n");
        }
        head.push_str("\r\n");
        out.bytes.extend_from_slice(head.as_bytes());
        self.changed.notify_all();
    }

    /// Takes a piece of a body; true if it is time to pause.
    pub(super) fn body(&self, bytes: &[u8]) -> bool {
        let mut out = self.out();
        if out.closed || out.bodiless || bytes.is_empty() {
            return false;
        }
        if out.chunked {
            write!(out.bytes, "{:x}\r\n", bytes.len()).expect("a vector takes all");
        }
        out.bytes.extend_from_slice(bytes);
        if out.chunked {
            out.bytes.extend_from_slice(b"\r\n");
        }
        out.paused |= out.bytes.len() > HIGH_WATER;
        self.changed.notify_all();
        out.paused
    }

    pub(super) fn end(&self) {
        let mut out = self.out();
        if out.chunked {
            out.bytes.extend_from_slice(b"0\r\n\r\n");
        }
        out.call = None;
        out.paused = false;
        out.closing |= out.last;
        self.changed.notify_all();
    }

    // ---- From the front end ----

    /// Sends what there is and then closes.
    pub(super) fn close_when_flushed(&self) {
        self.out().closing = true;
        self.changed.notify_all();
    }

    /// Waits until the writer is done, but not longer than until `patience`.
    pub(super) fn wait_closed(&self, patience: Instant) {
        let mut out = self.out();
        while !out.closed {
            let left = patience.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            out = self.changed.wait_timeout(out, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Closes the socket, which ends a read or write that waits for it.
    pub(super) fn shut(&self) {
        // An error means that the client was faster.
        drop(self.stream.shutdown(Shutdown::Both));
        self.finish();
    }

    fn finish(&self) {
        let mut out = self.out();
        out.closed = true;
        out.bytes = Vec::new();
        self.changed.notify_all();
    }

    /// Waits until the answer is complete; false if the connection is over.
    fn answered(&self) -> bool {
        let mut out = self.out();
        while out.call.is_some() && !out.closed {
            out = self.changed.wait(out).unwrap_or_else(PoisonError::into_inner);
        }
        !out.closed && !out.closing
    }

    /// Answers without the server, and closes: what came was no request.
    fn refuse(&self, status: u16, text: &str) {
        let mut out = self.out();
        out.last = true;
        drop(out);
        self.head(status, &[("content-type", "text/plain".into()), ("content-length", text.len().to_string())]);
        self.body(text.as_bytes());
        self.end();
    }
}

fn write(shared: &Arc<Shared>, connection: &Arc<Connection>) {
    let mut batch = Vec::new();
    loop {
        let closing = {
            let mut out = connection.out();
            while out.bytes.is_empty() && !out.closing && !out.closed {
                out = connection.changed.wait(out).unwrap_or_else(PoisonError::into_inner);
            }
            if out.closed || (out.bytes.is_empty() && out.closing) {
                break;
            }
            batch.clear();
            std::mem::swap(&mut batch, &mut out.bytes);
            out.closing
        };
        if (&connection.stream).write_all(&batch).is_err() {
            break;
        }
        // A list leaves a large buffer behind; an idle watch should not keep it.
        if batch.capacity() > 2 * LOW_WATER {
            batch = Vec::new();
        }
        let resume = {
            let mut out = connection.out();
            let resume = out.paused && out.bytes.len() < LOW_WATER;
            if resume {
                out.paused = false;
            }
            out.call.filter(|_| resume && !closing)
        };
        if let Some(id) = resume {
            shared.feed(Input::Resume { id });
        }
    }
    let call = connection.out().call;
    connection.shut();
    if let Some(id) = call {
        shared.closed(id);
    }
}

fn read(shared: &Arc<Shared>, connection: &Arc<Connection>) {
    let mut buffer = Vec::new();
    let mut call = None;
    'requests: loop {
        let request = loop {
            match parse(&buffer) {
                Ok(Parsed::Request { request, used, modern, last }) => {
                    buffer.drain(..used);
                    break (request, modern, last);
                }
                Ok(Parsed::Partial { wants_continue }) => {
                    if wants_continue && connection.answered() {
                        let mut out = connection.out();
                        out.bytes.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
                        connection.changed.notify_all();
                        drop(out);
                    }
                    if !receive(connection, &mut buffer, wants_continue) {
                        break 'requests;
                    }
                }
                Err(refusal) => {
                    if connection.answered() {
                        connection.refuse(refusal.0, refusal.1);
                    }
                    break 'requests;
                }
            }
        };
        if !connection.answered() {
            break;
        }
        let (request, modern, last) = request;
        {
            let mut out = connection.out();
            out.modern = modern;
            out.last = last;
            out.bodiless = request.method == "HEAD";
        }
        call = shared.request(connection, request);
        if call.is_none() {
            break;
        }
    }
    // Either side may have ended; an answer that is complete is still flushed.
    if let Some(id) = call {
        shared.closed(id);
    }
    let out = connection.out();
    let unfinished = out.call.is_some();
    drop(out);
    if unfinished {
        connection.shut();
    } else {
        connection.close_when_flushed();
    }
}

/// Reads more; false at the end. `continued` requests have had their "go on" and are read to their end here, so that it
/// is said once.
fn receive(connection: &Connection, buffer: &mut Vec<u8>, continued: bool) -> bool {
    let mut room = [0; 16 * 1024];
    loop {
        match (&connection.stream).read(&mut room) {
            Ok(0) => return false,
            Ok(len) => buffer.extend_from_slice(&room[..len]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return false,
        }
        if !continued || !matches!(parse(buffer), Ok(Parsed::Partial { .. })) {
            return true;
        }
    }
}

enum Parsed {
    Partial { wants_continue: bool },
    Request { request: HttpRequest, used: usize, modern: bool, last: bool },
}

/// The HTTP status and text for what is no request.
struct Refusal(u16, &'static str);

fn parse(buffer: &[u8]) -> Result<Parsed, Refusal> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut head = httparse::Request::new(&mut headers);
    let partial = Ok(Parsed::Partial { wants_continue: false });
    let body_at = match head.parse(buffer) {
        Ok(httparse::Status::Complete(at)) => at,
        Ok(httparse::Status::Partial) if buffer.len() > MAX_HEAD => return Err(Refusal(431, "the head is too large")),
        Ok(httparse::Status::Partial) => return partial,
        Err(httparse::Error::TooManyHeaders) => return Err(Refusal(431, "there are too many headers")),
        Err(_) => return Err(Refusal(400, "this is no HTTP request")),
    };
    let modern = head.version == Some(1);
    let mut request =
        HttpRequest::new(head.method.expect("the head is complete"), head.path.expect("the head is complete"));
    for header in head.headers.iter() {
        let value = String::from_utf8_lossy(header.value);
        request = request.header(header.name, value.trim());
    }
    let has = |name: &str, word: &str| request.value(name).is_some_and(|value| value.eq_ignore_ascii_case(word));
    let last = has("connection", "close") || (!modern && !has("connection", "keep-alive"));
    let rest = &buffer[body_at..];
    let wants_continue = rest.is_empty() && has("expect", "100-continue");
    let (body, used) = if has("transfer-encoding", "chunked") {
        match dechunk(rest)? {
            Some(found) => found,
            None => return Ok(Parsed::Partial { wants_continue }),
        }
    } else {
        let length = match request.value("content-length").map(str::parse::<usize>) {
            None => 0,
            Some(Ok(length)) if length > MAX_BODY => return Err(Refusal(413, "the body is too large")),
            Some(Ok(length)) => length,
            Some(Err(_)) => return Err(Refusal(400, "content-length is no number")),
        };
        if rest.len() < length {
            return Ok(Parsed::Partial { wants_continue });
        }
        (rest[..length].to_vec(), length)
    };
    request.body = body;
    Ok(Parsed::Request { request, used: body_at + used, modern, last })
}

/// The body in chunks and how many bytes it took; `None` if it is not complete.
fn dechunk(mut rest: &[u8]) -> Result<Option<(Vec<u8>, usize)>, Refusal> {
    let whole = rest.len();
    let mut body = Vec::new();
    loop {
        let (at, size) = match httparse::parse_chunk_size(rest) {
            Ok(httparse::Status::Complete(found)) => found,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err(Refusal(400, "a chunk has no size")),
        };
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        if size.saturating_add(body.len()) > MAX_BODY {
            return Err(Refusal(413, "the body is too large"));
        }
        // The data, or the empty line after the trailers, of which nobody sends any.
        let end = at + size + 2;
        if rest.len() < end {
            return Ok(None);
        }
        if rest[at + size..end] != *b"\r\n" {
            return Err(Refusal(400, "a chunk does not end where it should"));
        }
        body.extend_from_slice(&rest[at..at + size]);
        rest = &rest[end..];
        if size == 0 {
            return Ok(Some((body, whole - rest.len())));
        }
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        409 => "Conflict",
        410 => "Gone",
        413 => "Request Entity Too Large",
        415 => "Unsupported Media Type",
        422 => "Unprocessable Entity",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        504 => "Gateway Timeout",
        _ => "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> Option<(HttpRequest, usize, bool)> {
        match parse(text.as_bytes()) {
            Ok(Parsed::Request { request, used, last, .. }) => Some((request, used, last)),
            Ok(Parsed::Partial { .. }) => None,
            Err(Refusal(status, text)) => panic!("{status} {text}"),
        }
    }

    #[test]
    fn requests_are_read_with_either_kind_of_body() {
        let length = "POST /a?b HTTP/1.1\r\nContent-Length: 3\r\n\r\nxyzGET";
        let (parsed, used, last) = request(length).unwrap();
        assert_eq!((parsed.body.as_slice(), used, last), (b"xyz".as_slice(), length.len() - 3, false));
        let chunks = "PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\nxy\r\n1;q\r\nz\r\n0\r\n\r\n";
        let (parsed, used, last) = request(chunks).unwrap();
        assert_eq!((parsed.body.as_slice(), used, last), (b"xyz".as_slice(), chunks.len(), true));
        for cut in 0..chunks.len() {
            assert!(request(&chunks[..cut]).is_none(), "{cut}");
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for (text, status) in [
            ("\u{1}\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", 413),
            ("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n", 400),
            ("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc", 400),
        ] {
            assert!(matches!(parse(text.as_bytes()), Err(Refusal(have, _)) if have == status), "{text:?}");
        }
    }
}
