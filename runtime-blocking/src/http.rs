//! [`Wire`]: HTTP/1.1 over a blocking stream, one exchange after the other.
//!
//! ```text
//! ask: head ──► part, part, … None ──► ask (if the connection is idle then)
//! ```
//!
//! The protocol is [`Exchange`]'s; this moves its bytes. While a request is on its way no write and no read waits for longer
//! than [`TURN`] before the other has its turn: a server that answers before it has taken the whole request waits until
//! its answer is read, and must not find us waiting for it.

use crate::socket::{Handle, Socket};
use informer_core::wire::Head;
use informer_runtime::fault::Fault;
use informer_runtime::http1::{Exchange, Part};
use informer_runtime::outgoing::{Outgoing, Unanswered};
use rustls::{ClientConnection, StreamOwned};
use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

/// How long a write or read waits while the other may be what the server waits for. Most requests go out with the first
/// write, and nobody waits.
const TURN: Duration = Duration::from_millis(10);

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
                Stream::Tls(stream) => {
                    let StreamOwned { conn, sock } = &mut **stream;
                    let read = read_tls(conn, sock, buffer);
                    if matches!(&read, Err(error) if error.kind() == ErrorKind::InvalidData) {
                        // The server is told why, if it listens.
                        sock.hurry();
                        let _ = conn.write_tls(sock);
                    }
                    read
                }
            };
            match read {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    /// Writes some of it.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let written = match self {
                Stream::Plain(socket) => socket.write(bytes),
                // What it was given before goes first: it takes only so much ahead.
                Stream::Tls(stream) => flush_tls(stream).and_then(|()| stream.conn.writer().write(bytes)),
            };
            match written {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                written => return written,
            }
        }
    }

    /// False if the other side has closed it, or has said something unasked, which is lost then. It may have come long ago,
    /// and lie in TLS.
    fn is_quiet(&mut self) -> bool {
        let read = match self {
            Stream::Plain(socket) => socket.at_once(|mut socket| socket.read(&mut [0])),
            Stream::Tls(stream) => {
                let StreamOwned { conn, sock } = &mut **stream;
                sock.at_once(|mut socket| read_tls(conn, &mut socket, &mut [0]))
            }
        };
        matches!(read, Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    /// True if TLS has something to write: the rest of what it was given, or an answer of its own.
    fn holds_back(&self) -> bool {
        match self {
            Stream::Plain(_) => false,
            Stream::Tls(stream) => stream.conn.wants_write(),
        }
    }

    /// Writes that.
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(_) => Ok(()),
            Stream::Tls(stream) => flush_tls(stream),
        }
    }
}

/// Writes, and reads nothing: `StreamOwned` reads where a write would wait, and then keeps that from its reader.
fn flush_tls(stream: &mut StreamOwned<ClientConnection, Socket>) -> io::Result<()> {
    while stream.conn.wants_write() {
        match stream.conn.write_tls(&mut stream.sock) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
    Ok(())
}

/// Reads, and writes nothing that waits: `StreamOwned` would first send what the server does not take.
fn read_tls(tls: &mut ClientConnection, socket: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match tls.reader().read(buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            read => return read,
        }
        tls.read_tls(socket)?;
        tls.process_new_packets().map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
    }
}

/// A connection that stands.
pub(crate) struct Wire {
    stream: Stream,
    exchange: Exchange,
    /// The last read took all that there was.
    drained: bool,
    /// The last write waited in vain: all that comes is read before the next one.
    blocked: bool,
    /// A write has failed.
    deaf: bool,
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
        Wire { stream, exchange: Exchange::new(), drained: false, blocked: false, deaf: false }
    }

    /// A second handle of the socket, to shut it from another thread.
    pub(crate) fn handle(&mut self) -> io::Result<Handle> {
        self.stream.socket().handle().try_clone()
    }

    /// When reads and writes end at the latest; never if `None`.
    pub(crate) fn set_deadline(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        self.stream.socket().set_deadline(deadline)
    }

    /// What there is to say of the last request, whose head did not come.
    pub(crate) fn unanswered(&self, opened: bool) -> Unanswered {
        self.exchange.unanswered(opened)
    }

    /// False if the answer was not read to its end or the request not written to its, or the server does not keep the
    /// connection for another request; also if it has closed it meanwhile, or says something unasked on it.
    pub(crate) fn is_usable(&mut self) -> bool {
        self.exchange.rest();
        self.exchange.is_idle() && !self.stream.holds_back() && self.stream.is_quiet()
    }

    /// Sends a request and reads the head of its answer.
    pub(crate) fn ask(&mut self, outgoing: &Outgoing) -> Result<Head, Fault> {
        self.exchange.begin(outgoing)?;
        self.stream.socket().set_patience(Some(TURN))?;
        loop {
            if let Some(head) = self.exchange.head()? {
                return Ok(head);
            }
            self.turn()?;
        }
    }

    /// The next bytes of the body as they come, and those that are there already with them; `None` when it is complete.
    pub(crate) fn part(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        loop {
            match self.exchange.part()? {
                Part::Bytes(bytes) => return Ok(Some(bytes)),
                Part::Done => return Ok(None),
                Part::Wait => self.turn()?,
            }
        }
    }

    /// Writes what is left of the request, and reads what comes; once it is written, waits until something does.
    fn turn(&mut self) -> Result<(), Fault> {
        if !self.deaf && !self.blocked && (!self.exchange.unsent().is_empty() || self.stream.holds_back()) {
            match self.write() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.blocked = true,
                written => {
                    if let Err(error) = written {
                        self.deaf = true;
                        self.exchange.unsendable(error.into());
                    }
                    self.stream.socket().set_patience(None)?;
                }
            }
        }
        if self.drained {
            self.exchange.rest();
        }
        let room = self.exchange.space();
        let size = room.len();
        match self.stream.read(room) {
            Ok(read) => {
                self.exchange.filled(read);
                self.drained = read < size;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.blocked = false,
            Err(error) => self.exchange.unreadable(error.into()),
        }
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        while !self.exchange.unsent().is_empty() {
            let written = self.stream.write(self.exchange.unsent())?;
            self.exchange.sent(written);
        }
        self.stream.flush()
    }
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

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use informer_core::Resource;
    use informer_runtime::Config;
    use informer_runtime::api::ApiRequest;
    use std::os::unix::net::UnixStream;
    use std::thread;

    const MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");

    /// More than the buffers of a socket take.
    const MUCH: usize = 4 * 1024 * 1024;

    fn pair() -> (Wire, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Wire::plain(Socket::new(Handle::Unix(ours), Instant::now() + Duration::from_secs(60))), theirs)
    }

    fn write(bytes: usize) -> Outgoing {
        let call = ApiRequest::create(&MAPS, "ns", &"x".repeat(bytes)).unwrap();
        Outgoing::call(&Config::from_url("http://a").unwrap(), &call, false).unwrap()
    }

    fn answer(wire: &mut Wire, outgoing: &Outgoing) -> (u16, usize) {
        let head = wire.ask(outgoing).unwrap_or_else(|fault| panic!("{fault}"));
        let mut bytes = 0;
        while let Some(part) = wire.part().unwrap_or_else(|fault| panic!("{fault}")) {
            bytes += part.len();
        }
        (head.status, bytes)
    }

    #[test]
    fn an_answer_that_comes_before_the_request_was_taken_is_read_and_the_rest_is_sent() {
        let (mut wire, mut theirs) = pair();
        let server = thread::spawn(move || {
            let mut request = vec![0; 100];
            theirs.read_exact(&mut request).unwrap();
            // It reads on only when this was taken, and ends its answer when the request was.
            let half = "y".repeat(MUCH);
            write!(theirs, "HTTP/1.1 413 Large\r\ncontent-length: {}\r\n\r\n{half}", 2 * MUCH).unwrap();
            let mut part = vec![0; 64 * 1024];
            while !request.ends_with(b"x\"") {
                let read = theirs.read(&mut part).unwrap();
                assert!(read > 0);
                request.extend_from_slice(&part[..read]);
            }
            theirs.write_all(half.as_bytes()).unwrap();
            theirs
        });
        assert_eq!(answer(&mut wire, &write(MUCH)), (413, 2 * MUCH));
        let _open = server.join().unwrap();
        assert!(wire.is_usable(), "all of the request was taken");
    }

    #[test]
    fn a_request_that_is_refused_while_it_is_sent_has_the_answer_and_not_the_fault() {
        let (mut wire, mut theirs) = pair();
        let server = thread::spawn(move || {
            theirs.read_exact(&mut [0; 100]).unwrap();
            theirs.write_all(b"HTTP/1.1 413 Large\r\ncontent-length: 2\r\n\r\nno").unwrap();
            theirs.shutdown(std::net::Shutdown::Read).unwrap();
            theirs
        });
        assert_eq!(answer(&mut wire, &write(MUCH)), (413, 2));
        let _open = server.join().unwrap();
        assert!(!wire.is_usable());
    }
}
