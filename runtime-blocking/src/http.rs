//! [`Wire`]: one HTTP/1.1 exchange at a time over a blocking stream.
//!
//! ```text
//! send ──► head ──► part, part, … 0 ──► send (if the connection may be used again)
//! ```
//!
//! The protocol is ureq-proto's, a state machine without IO; this file moves its bytes. One buffer of [`BUFFER`] bytes
//! bounds what is read ahead, and the head of an answer with it. Most connections carry a quiet watch, so it begins small
//! and grows as long as reads fill it.

use crate::socket::{Handle, Socket};
use informer_core::reflector::End;
use informer_core::wire::Head;
use informer_runtime::outgoing::{Outgoing, head};
use informer_runtime::{Error, tls};
use rustls::{ClientConnection, StreamOwned};
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::time::Instant;
use ureq_proto::BodyMode;
use ureq_proto::client::state::{RecvBody, RecvResponse};
use ureq_proto::client::{Call, RecvBodyResult, RecvResponseResult, SendRequestResult};
use ureq_proto::http::header::{CONTENT_LENGTH, HOST};

/// Bytes read at once, and the most that the head of an answer may have: real heads have less than 2 KiB.
pub(crate) const BUFFER: usize = 64 * 1024;

/// What a buffer begins with: room for the head of most answers.
pub(crate) const SMALL_BUFFER: usize = 1024;

/// Room for the request line and headers; a selector in the target may be long, but servers take no more than this.
const REQUEST_HEAD: usize = 64 * 1024;

/// Why there is no answer, or no whole one.
#[derive(Debug)]
pub(crate) struct Fault {
    /// No connection came about.
    pub(crate) refused: bool,
    pub(crate) text: String,
    pub(crate) source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Fault {
    pub(crate) fn refused(text: impl fmt::Display) -> Self {
        Fault { refused: true, text: text.to_string(), source: None }
    }

    pub(crate) fn broken(text: impl fmt::Display) -> Self {
        Fault { refused: false, text: text.to_string(), source: None }
    }

    /// With the error that `text` is about.
    pub(crate) fn because(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    pub(crate) fn into_end(self) -> End {
        if self.refused { End::Refused(self.text) } else { End::Broken(self.text) }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Fault::broken(&error).because(error)
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Fault::broken(tls::explain(&error)).because(error)
    }
}

impl From<ureq_proto::Error> for Fault {
    fn from(error: ureq_proto::Error) -> Self {
        Fault::broken(format_args!("what came is no HTTP/1.1: {error}")).because(error)
    }
}

/// The form of HTTP/1.1: the target alone in the first line, the server in a header.
fn call(outgoing: &Outgoing) -> Result<Call<ureq_proto::client::state::SendRequest>, Fault> {
    let cannot = |error: &dyn fmt::Display| {
        Fault::broken(format_args!("{} {:?} cannot be sent: {error}", outgoing.head.method(), outgoing.target()))
    };
    let mut head = outgoing.head.clone();
    let host = outgoing.host().parse().map_err(|error| cannot(&error))?;
    head.headers_mut().insert(HOST, host);
    *head.uri_mut() = outgoing.target().parse().map_err(|error| cannot(&error))?;
    let has_body = !outgoing.body.is_empty();
    if has_body {
        head.headers_mut().insert(CONTENT_LENGTH, outgoing.body.len().into());
    }
    let mut call = Call::new(head).map_err(|error| cannot(&error).because(error))?;
    if has_body {
        call.force_send_body(); // a deletion with preconditions has one
    }
    Ok(call.proceed())
}

enum Stream {
    Plain(Socket),
    Tls(Box<StreamOwned<ClientConnection, Socket>>),
}

impl Stream {
    fn socket(&mut self) -> &mut Socket {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Tls(stream) => &mut stream.sock,
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = match self {
                Stream::Plain(socket) => socket.read(buffer),
                Stream::Tls(stream) => stream.read(buffer),
            };
            match read {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Stream::Plain(socket) => socket.write_all(bytes),
            Stream::Tls(stream) => {
                stream.write_all(bytes)?;
                stream.flush()
            }
        }
    }
}

/// A connection that stands, and what was read ahead of it.
pub(crate) struct Wire {
    stream: Stream,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    answered: bool,
}

/// Where the body of an answer stands.
pub(crate) enum Body {
    Open(Box<Call<RecvBody>>),
    /// It is complete.
    Done {
        /// The connection may be used again.
        reusable: bool,
    },
}

impl Wire {
    pub(crate) fn plain(socket: Socket) -> Self {
        Wire::new(Stream::Plain(socket))
    }

    /// Shakes hands.
    pub(crate) fn tls(mut socket: Socket, mut tls: ClientConnection) -> io::Result<Self> {
        while tls.is_handshaking() {
            tls.complete_io(&mut socket)?;
        }
        Ok(Wire::new(Stream::Tls(Box::new(StreamOwned::new(tls, socket)))))
    }

    fn new(stream: Stream) -> Self {
        Wire { stream, buffer: vec![0; SMALL_BUFFER], start: 0, end: 0, answered: false }
    }

    /// A second handle of the socket, to shut it from another thread.
    pub(crate) fn handle(&mut self) -> io::Result<Handle> {
        self.stream.socket().handle().try_clone()
    }

    /// When reads and writes end at the latest; never if `None`.
    pub(crate) fn set_deadline(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        self.stream.socket().set_deadline(deadline)
    }

    /// True if any of the answer to the last request came.
    pub(crate) fn answered(&self) -> bool {
        self.answered
    }

    /// False if the server has closed an idle connection, or says something unasked on it.
    pub(crate) fn is_quiet(&mut self) -> bool {
        self.stream.socket().is_quiet()
    }

    /// Sends a request and reads the head of its answer.
    pub(crate) fn ask(&mut self, outgoing: &Outgoing) -> Result<(Head, Body), Fault> {
        self.answered = false;
        let mut call = call(outgoing)?;
        let mut bytes = vec![0; REQUEST_HEAD];
        let mut used = 0;
        while !call.can_proceed() {
            used += call.write(&mut bytes[used..]).map_err(|error| {
                Fault::broken(format_args!("the request does not fit into {REQUEST_HEAD} bytes: {error}"))
            })?;
        }
        bytes.truncate(used);
        bytes.extend_from_slice(&outgoing.body);
        let call = match call.proceed()? {
            Some(SendRequestResult::RecvResponse(call)) => call,
            Some(SendRequestResult::SendBody(mut call)) => {
                call.consume_direct_write(outgoing.body.len())?;
                call.proceed().expect("the whole body was taken")
            }
            Some(SendRequestResult::Await100(_)) | None => {
                unreachable!("all of the head was written, and it expects nothing")
            }
        };
        self.stream.send(&bytes)?;
        self.head(call)
    }

    fn head(&mut self, mut call: Call<RecvResponse>) -> Result<(Head, Body), Fault> {
        let response = loop {
            let (used, response) = call.try_response(&self.buffer[self.start..self.end], false)?;
            self.start += used;
            match response {
                Some(response) => break response,
                None if used > 0 => {} // "100 Continue" and its like
                None => {
                    if self.fill()? == 0 {
                        return Err(Fault::broken("the server closed the connection without an answer"));
                    }
                    self.answered = true;
                }
            }
        };
        let head = head(response.status().as_u16(), response.headers());
        let body = match call.proceed().expect("a response came") {
            RecvResponseResult::RecvBody(call) => Body::Open(Box::new(call)),
            RecvResponseResult::Cleanup(call) => Body::Done { reusable: !call.must_close_connection() },
            RecvResponseResult::Redirect(call) => Body::Done { reusable: !call.must_close_connection() },
        };
        Ok((head, body))
    }

    /// The next bytes of a body as they come; 0 when it is complete. Chunks that are there already come together.
    pub(crate) fn part(&mut self, body: &mut Body, out: &mut [u8]) -> Result<usize, Fault> {
        let mut given = 0;
        while given < out.len() {
            let Body::Open(call) = body else { break };
            let until_close = call.body_mode() == BodyMode::CloseDelimited;
            let (used, made) = match call.read(&self.buffer[self.start..self.end], &mut out[given..]) {
                Ok(read) => read,
                // What came before the fault counts; the next call meets it again.
                Err(_) if given > 0 => break,
                Err(error) => return Err(error.into()),
            };
            self.start += used;
            given += made;
            if made > 0 {
                continue;
            }
            if !until_close && call.can_proceed() {
                body.finish();
                continue;
            }
            if used == 0 {
                if given > 0 {
                    break;
                }
                if self.fill()? == 0 {
                    if !until_close {
                        return Err(Fault::broken("the connection was closed inside the body"));
                    }
                    *body = Body::Done { reusable: false };
                }
            }
        }
        Ok(given)
    }

    /// Reads what there is; 0 at the end of the stream.
    fn fill(&mut self) -> Result<usize, Fault> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() && !grow(&mut self.buffer) {
            return Err(Fault::broken(format_args!("a head or chunk header has more than {BUFFER} bytes")));
        }
        let read = self.stream.read(&mut self.buffer[self.end..])?;
        self.end += read;
        if self.end == self.buffer.len() {
            grow(&mut self.buffer); // there is more
        }
        Ok(read)
    }

    /// True if the answer was read to its end and the server keeps the connection for another request.
    pub(crate) fn is_reusable(&self, body: &Body) -> bool {
        matches!(body, Body::Done { reusable: true }) && self.start == self.end
    }
}

impl Body {
    /// The machine is moved out and asked whether the connection lasts.
    fn finish(&mut self) {
        let Body::Open(call) = std::mem::replace(self, Body::Done { reusable: false }) else { return };
        let reusable = match call.proceed() {
            Some(RecvBodyResult::Cleanup(call)) => !call.must_close_connection(),
            Some(RecvBodyResult::Redirect(call)) => !call.must_close_connection(),
            None => false,
        };
        *self = Body::Done { reusable };
    }
}

/// Doubles a buffer that was full; false if it may not grow any more.
pub(crate) fn grow(buffer: &mut Vec<u8>) -> bool {
    let grows = buffer.len() < BUFFER;
    if grows {
        buffer.resize((buffer.len() * 2).min(BUFFER), 0);
    }
    grows
}

impl Drop for Wire {
    /// Another thread may still hold a handle of the socket; the server is to see the end now.
    fn drop(&mut self) {
        if let Stream::Tls(stream) = &mut self.stream {
            stream.conn.send_close_notify();
            // A courtesy: a server that is gone does not need it, and it must not wait.
            stream.sock.hurry();
            let _ = stream.conn.write_tls(&mut stream.sock);
        }
        self.stream.socket().handle().shut();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    #[test]
    fn a_quiet_connection_keeps_a_small_buffer_and_a_busy_one_gets_a_large_one() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let by = Instant::now() + Duration::from_secs(60);
        let mut wire = Wire::plain(Socket::new(Handle::Tcp(ours), by));
        let (mut read, mut largest) = (0, 0);
        let mut take = |wire: &mut Wire, bytes: usize| {
            while read < bytes {
                let filled = wire.fill().unwrap();
                read += filled;
                largest = largest.max(wire.end);
                wire.start = wire.end;
            }
            (wire.buffer.len(), largest)
        };
        server.write_all(&[b'x'; 100]).unwrap();
        assert_eq!(take(&mut wire, 100), (SMALL_BUFFER, 100));
        server.write_all(&vec![b'x'; 2 * BUFFER]).unwrap();
        let (grown, largest) = take(&mut wire, 100 + 2 * BUFFER);
        assert!(grown > SMALL_BUFFER && grown <= BUFFER && largest <= BUFFER, "{grown} bytes, {largest} at a time");
    }
}
