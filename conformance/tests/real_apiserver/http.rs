//! Raw requests: one connection each, over TLS or not, the answer read to its end.

use informer_runtime::Config;
use serde_json::Value;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Longer than any answer here takes: the server itself gives up on a list after a minute.
const PATIENCE: Duration = Duration::from_secs(90);

/// A server as one user sees it.
pub(crate) struct Endpoint(pub(crate) Config);

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(have, _)| have == name).map(|(_, value)| value.as_str())
    }
}

impl Endpoint {
    /// Sends a request; the body of a PATCH is a merge patch.
    pub(crate) fn try_ask(&self, method: &str, target: &str, body: &str) -> io::Result<Answer> {
        self.try_ask_and(method, target, body, || {})
    }

    /// The same; `then` runs when the answer has begun.
    fn try_ask_and(&self, method: &str, target: &str, body: &str, then: impl FnOnce()) -> io::Result<Answer> {
        let server = &self.0.server;
        let mut head = format!("{method} {} HTTP/1.1\r\nhost: {}\r\n", server.target(target), server.authority());
        head += "connection: close\r\naccept: application/json\r\nuser-agent: informer-test\r\n";
        if let Some(authorization) = self.0.authorization(false).map_err(io::Error::other)? {
            head += &format!("authorization: {}\r\n", authorization.expose());
        }
        if !body.is_empty() {
            let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
            head += &format!("content-type: {kind}\r\n");
        }
        head += &format!("content-length: {}\r\n\r\n{body}", body.len());
        let mut tcp = TcpStream::connect((server.host(), server.port()))?;
        tcp.set_read_timeout(Some(PATIENCE))?;
        let raw = match self.0.tls_config().map_err(io::Error::other)? {
            None => exchange(&mut tcp, &head, then)?,
            Some(tls) => {
                let name = server.host().to_string().try_into().map_err(io::Error::other)?;
                let session = rustls::ClientConnection::new(tls, name).map_err(io::Error::other)?;
                exchange(&mut rustls::StreamOwned::new(session, tcp), &head, then)?
            }
        };
        parse(&raw)
    }

    /// The same for a server that is known to be there.
    pub(crate) fn ask(&self, method: &str, target: &str, body: &str) -> Answer {
        self.try_ask(method, target, body).unwrap_or_else(|error| panic!("{method} {target}: {error}"))
    }

    /// A watch, which is read to its end; `then` runs once it stands.
    pub(crate) fn watch_and(&self, target: &str, then: impl FnOnce()) -> Answer {
        self.try_ask_and("GET", target, "", then).unwrap_or_else(|error| panic!("GET {target}: {error}"))
    }

    /// The same for a request that must succeed.
    pub(crate) fn must(&self, method: &str, target: &str, body: &str) -> Value {
        let answer = self.ask(method, target, body);
        assert!((200..300).contains(&answer.status), "{method} {target}: {} {}", answer.status, answer.body);
        answer.json()
    }
}

fn exchange(stream: &mut (impl Read + Write), request: &str, then: impl FnOnce()) -> io::Result<Vec<u8>> {
    stream.write_all(request.as_bytes())?;
    stream.flush()?;
    let mut raw = vec![0; 4096];
    let read = stream.read(&mut raw)?;
    raw.truncate(read);
    then();
    match stream.read_to_end(&mut raw) {
        // Whether it is whole is seen by its framing.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !raw.is_empty() => Ok(raw),
        Err(error) => Err(error),
        Ok(_) => Ok(raw),
    }
}

fn parse(raw: &[u8]) -> io::Result<Answer> {
    let cut = || io::Error::new(io::ErrorKind::UnexpectedEof, "the answer is cut off");
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(at) = response.parse(raw).map_err(io::Error::other)? else { return Err(cut()) };
    let headers: Vec<(String, String)> = response
        .headers
        .iter()
        .map(|header| (header.name.to_ascii_lowercase(), String::from_utf8_lossy(header.value).into_owned()))
        .collect();
    let mut answer = Answer { status: response.code.unwrap_or(0), headers, body: String::new() };
    let rest = &raw[at..];
    let mut body = Vec::new();
    if answer.header("transfer-encoding") == Some("chunked") {
        let mut rest = rest;
        loop {
            let httparse::Status::Complete((at, size)) =
                httparse::parse_chunk_size(rest).map_err(|_| io::Error::other("a chunk without a size"))?
            else {
                return Err(cut());
            };
            let size = usize::try_from(size).map_err(io::Error::other)?;
            if size == 0 {
                break;
            }
            body.extend_from_slice(rest.get(at..at + size).ok_or_else(cut)?);
            rest = rest.get(at + size + 2..).ok_or_else(cut)?;
        }
    } else {
        let length = answer.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(rest.len());
        body.extend_from_slice(rest.get(..length).ok_or_else(cut)?);
    }
    answer.body = String::from_utf8(body).map_err(io::Error::other)?;
    Ok(answer)
}
