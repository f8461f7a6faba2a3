//! As much of HTTP/1.1 as is served here: requests without bodies, answers with a length or in chunks.

use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;

/// The longest line of a request: its target holds a token and selectors.
const LINE: u64 = 16 * 1024;

/// The most lines of a request's head.
const LINES: usize = 100;

/// What is gathered before it is written: few system calls, and it stays in the processor's cache.
const BUFFER: usize = 128 * 1024;

/// A request; the method does not matter.
pub(crate) struct Get {
    pub(crate) path: String,
    query: String,
}

impl Get {
    fn parse(line: &str) -> Option<Self> {
        let target = line.split(' ').nth(1)?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Some(Get { path: path.into(), query: query.into() })
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }

    pub(crate) fn is(&self, name: &str, value: &str) -> bool {
        self.value(name) == Some(value)
    }

    pub(crate) fn number(&self, name: &str) -> Option<usize> {
        self.value(name)?.parse().ok()
    }
}

/// A client's connection.
pub(crate) struct Peer {
    reader: BufReader<TcpStream>,
}

impl Peer {
    pub(crate) fn new(socket: TcpStream) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        Ok(Peer { reader: BufReader::new(socket) })
    }

    /// The next request; `None` if the client has closed the connection.
    pub(crate) fn request(&mut self) -> io::Result<Option<Get>> {
        let mut first = None;
        for _ in 0..LINES {
            let mut line = String::new();
            let read = io::Read::take(&mut self.reader, LINE).read_line(&mut line)?;
            match (first.is_some(), line.trim_end()) {
                (false, _) if read == 0 => return Ok(None),
                (false, text) => first = Some(text.to_string()),
                (true, "") => {
                    let get = first.as_deref().and_then(Get::parse);
                    return get.map(Some).ok_or_else(|| io::Error::other("not a request"));
                }
                (true, _) => {}
            }
        }
        Err(io::Error::other("a request with too many headers"))
    }

    /// Answers with a body of known length.
    pub(crate) fn answer(&mut self, status: &str, content_type: &str, parts: &[&[u8]]) -> io::Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let head = format!("HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n");
        let socket = self.reader.get_mut();
        socket.write_all(head.as_bytes())?;
        parts.iter().try_for_each(|part| socket.write_all(part))
    }

    /// Begins a body in chunks.
    pub(crate) fn stream(&mut self, content_type: &str) -> io::Result<Stream<'_>> {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n");
        let socket = self.reader.get_mut();
        socket.write_all(head.as_bytes())?;
        Ok(Stream { socket, buffer: Vec::with_capacity(2 * BUFFER) })
    }
}

/// A body in chunks.
pub(crate) struct Stream<'a> {
    socket: &'a mut TcpStream,
    buffer: Vec<u8>,
}

impl Stream<'_> {
    /// Adds one chunk, which is written with others after it or by [`flush`](Self::flush).
    pub(crate) fn chunk(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        write!(self.buffer, "{length:x}\r\n")?;
        parts.iter().for_each(|part| self.buffer.extend_from_slice(part));
        self.buffer.extend_from_slice(b"\r\n");
        if self.buffer.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    /// Writes what was gathered, and the chunk that ends the body.
    pub(crate) fn end(mut self) -> io::Result<()> {
        self.buffer.extend_from_slice(b"0\r\n\r\n");
        self.flush()
    }

    /// Writes what was gathered.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.socket.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_by_its_path_and_query() {
        let get = Get::parse("GET /api/v1/pods?&limit=500&continue=1000 HTTP/1.1").unwrap();
        assert_eq!(
            (get.path.as_str(), get.number("limit"), get.number("continue")),
            ("/api/v1/pods", Some(500), Some(1000))
        );
        assert!(!get.is("watch", "true") && get.number("imit").is_none());
        assert!(Get::parse("GET").is_none());
    }
}
