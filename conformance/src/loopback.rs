//! The scripted server on a real loopback port, for the runtimes that do IO.
//!
//! One thread accepts, one serves each connection: HTTP/1.1, one request at a time, kept alive where the framing
//! allows it. An answer is played in real time. Its headers go over as written. A body without a scripted
//! `Content-Length` goes in chunks, one for each part; with one it goes as it is, and a body that falls short ends
//! with the connection. `reset` is a real RST.
//!
//! A listener cannot refuse a connection once it listens, so a `refuse` entry is played before the adapter connects:
//! its connect hook asks [`Loopback::gate`].
//!
//! ```
//! use informer_conformance::loopback::Loopback;
//! use informer_conformance::scenario::Scenario;
//! use informer_conformance::script::Script;
//! use std::io::{Read, Write};
//! use std::net::TcpStream;
//! use std::time::Instant;
//!
//! let scenario = Scenario::from_str(r#"{
//!     "name": "n", "seed": 1, "runForMs": 1000,
//!     "resource": {"group": "", "version": "v1", "resource": "pods", "kind": "Pod", "namespaced": true},
//!     "server": [{"when": {"verb": "list"}, "reply": {"headers": {"Content-Length": "2"}, "body": [{"text": "{}"}]}}]
//! }"#).unwrap();
//! let server = Loopback::start(Script::new(&scenario.server), Instant::now()).unwrap();
//! let mut stream = TcpStream::connect(server.addr()).unwrap();
//! stream.write_all(b"GET /api/v1/pods?limit=500 HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
//! let mut answer = String::new();
//! stream.read_to_string(&mut answer).unwrap();
//! assert_eq!(answer, "HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\n{}");
//! assert_eq!(server.stop()[0].query["limit"], "500");
//! ```

use crate::outcome::Request;
use crate::scenario::{EndKind, Verb};
use crate::script::{Answer, Script, Timeline};
use informer_core::wire::query_pairs;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Connections open at the same time; one informer needs two at most, so more is a leak, and the rest is turned away.
const MAX_CONNECTIONS: usize = 64;
/// Largest head of a request, in bytes: what API servers accept.
const MAX_HEAD: usize = 64 * 1024;
/// Most headers of a request.
const MAX_HEADERS: usize = 64;
/// How long [`Loopback::stop`] tries to reach its own port; on loopback that is instant or never.
const WAKE_TIMEOUT: Duration = Duration::from_secs(1);

/// A scripted server that runs.
#[derive(Debug)]
pub struct Loopback {
    addr: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    /// Time 0 of the record.
    epoch: Instant,
    state: Mutex<State>,
    stop: Condvar,
}

#[derive(Debug)]
struct State {
    script: Script,
    requests: Vec<Request>,
    /// Connections that have carried a request.
    numbered: u64,
    accepted: u64,
    open: BTreeMap<u64, Arc<TcpStream>>,
    threads: Vec<JoinHandle<()>>,
    stopping: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // A thread that panics leaves nothing half done: every change under the lock is one statement.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Waits until `at`; false if the server was stopped before.
    fn sleep_until(&self, at: Instant) -> bool {
        let mut state = self.state();
        loop {
            if state.stopping {
                return false;
            }
            let left = at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            state = self.stop.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Loopback {
    /// Listens on a free loopback port and answers from `script`. Times are recorded from `epoch`, the start of the
    /// informer.
    ///
    /// # Errors
    /// No port or no thread is to be had.
    pub fn start(script: Script, epoch: Instant) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let addr = listener.local_addr()?;
        let state = State {
            script,
            requests: Vec::new(),
            numbered: 0,
            accepted: 0,
            open: BTreeMap::new(),
            threads: Vec::new(),
            stopping: false,
        };
        let shared = Arc::new(Shared { epoch, state: Mutex::new(state), stop: Condvar::new() });
        let acceptor = thread::Builder::new().name("scripted-accept".into()).spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        })?;
        Ok(Loopback { addr, shared, acceptor: Some(acceptor) })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Asks whether the connection for this request may be made; to be called before the adapter connects, also when
    /// it would use a connection again.
    ///
    /// # Errors
    /// [`ErrorKind::ConnectionRefused`] if the entry that answers this request is a `refuse`. That uses up one of it
    /// and records the request, with connection 0.
    pub fn gate(&self, path: &str, query: &[(String, String)], headers: &[(String, String)]) -> io::Result<()> {
        let at_ms = self.shared.now_ms();
        let verb = Verb::of(query);
        let mut state = self.shared.state();
        if !state.script.would_refuse(verb, query, headers) {
            return Ok(());
        }
        state.script.request(at_ms, verb, query, headers);
        state.requests.push(Request::new(at_ms, path, query, headers));
        Err(io::Error::new(ErrorKind::ConnectionRefused, format!("the script refuses this {verb}")))
    }

    /// The requests so far, in the order of their arrival.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.state().requests.clone()
    }

    /// Shuts every connection, ends all threads, and returns the record.
    pub fn stop(mut self) -> Vec<Request> {
        self.shut_down();
        std::mem::take(&mut self.shared.state().requests)
    }

    fn shut_down(&mut self) {
        let Some(acceptor) = self.acceptor.take() else { return };
        self.shared.state().stopping = true;
        self.shared.stop.notify_all();
        // `accept` has no other way to learn of it. Should the port be out of reach, its thread is left to the process.
        if TcpStream::connect_timeout(&self.addr, WAKE_TIMEOUT).is_ok() {
            let _ = acceptor.join();
        }
        let threads = {
            let mut state = self.shared.state();
            for stream in state.open.values() {
                let _ = stream.shutdown(Shutdown::Both); // the client may have closed it already
            }
            std::mem::take(&mut state.threads)
        };
        for thread in threads {
            let _ = thread.join(); // nobody is left to care about a panic
        }
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.shut_down();
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        let mut state = shared.state();
        if state.stopping {
            return;
        }
        state.threads.retain(|thread| !thread.is_finished());
        let Ok(stream) = stream else { continue };
        if state.open.len() >= MAX_CONNECTIONS || stream.set_nodelay(true).is_err() {
            continue; // dropped: the client sees a closed connection
        }
        state.accepted += 1;
        let id = state.accepted;
        let stream = Arc::new(stream);
        state.open.insert(id, Arc::clone(&stream));
        let serving = thread::Builder::new().name(format!("scripted-{id}")).spawn({
            let shared = Arc::clone(shared);
            move || {
                let last = serve(&shared, &stream);
                shared.state().open.remove(&id);
                end(&stream, last);
            }
        });
        match serving {
            Ok(thread) => state.threads.push(thread),
            Err(_) => drop(state.open.remove(&id)),
        }
    }
}

/// How a connection goes on after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// With another request.
    Reuse,
    /// It is closed.
    Close,
    /// It is torn.
    Reset,
}

fn serve(shared: &Shared, stream: &TcpStream) -> After {
    let mut number = 0;
    let mut buffer = Vec::new();
    loop {
        let head = match read_head(stream, &mut buffer) {
            Ok(Some(head)) => head,
            Ok(None) => return After::Close,
            Err(error) => {
                let text = error.to_string();
                let length = text.len();
                let mut to = stream;
                let _ = write!(to, "HTTP/1.1 400 \r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}");
                return After::Close;
            }
        };
        let arrived = Instant::now();
        let after = match take(shared, &head, &mut number) {
            // Its runner did not ask the gate: as near to a refusal as a listener can come.
            Answer::Refuse => After::Reset,
            Answer::Hang { .. } => until_closed(stream),
            Answer::Reply(timeline) => play(shared, stream, timeline, arrived).unwrap_or(After::Close),
        };
        if after != After::Reuse || head.closes() {
            return if after == After::Reset { After::Reset } else { After::Close };
        }
    }
}

/// Ends a connection that nothing else holds any more.
fn end(stream: &TcpStream, last: After) {
    match last {
        // Closing a socket that lingers for no time sends an RST instead of a FIN.
        After::Reset => drop(socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO))),
        After::Close | After::Reuse => drop(stream.shutdown(Shutdown::Both)),
    }
}

struct Head {
    path: String,
    query: Vec<(String, String)>,
    headers: Vec<(String, String)>,
}

impl Head {
    fn closes(&self) -> bool {
        says_close(&self.headers)
    }
}

fn says_close(headers: &[(String, String)]) -> bool {
    let is_close = |(name, value): &(String, String)| {
        name.eq_ignore_ascii_case("connection") && value.trim().eq_ignore_ascii_case("close")
    };
    headers.iter().any(is_close)
}

/// The next request; none at the end of the connection. `buffer` keeps what came beyond it.
fn read_head(mut stream: &TcpStream, buffer: &mut Vec<u8>) -> io::Result<Option<Head>> {
    loop {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(buffer).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))? {
            httparse::Status::Complete(length) => {
                let (path, query) = target(request.path.unwrap_or("/"));
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let headers = request.headers.iter().map(|header| (header.name.to_owned(), text(header.value)));
                let head = Head { path, query, headers: headers.collect() };
                buffer.drain(..length);
                return Ok(Some(head));
            }
            httparse::Status::Partial if buffer.len() > MAX_HEAD => {
                return Err(io::Error::new(ErrorKind::InvalidData, "the head of the request is too long"));
            }
            httparse::Status::Partial => {}
        }
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return Ok(None),
            Ok(length) => buffer.extend_from_slice(&chunk[..length]),
        }
    }
}

/// Path and decoded query of a request target.
fn target(target: &str) -> (String, Vec<(String, String)>) {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    (path.to_owned(), query_pairs(query).collect())
}

/// Records a request and asks the script; gives the connection its number at its first request.
fn take(shared: &Shared, head: &Head, number: &mut u64) -> Answer {
    let at_ms = shared.now_ms();
    let mut request = Request::new(at_ms, &head.path, &head.query, &head.headers);
    let mut state = shared.state();
    let answer = state.script.request(at_ms, request.verb, &head.query, &head.headers);
    if answer != Answer::Refuse {
        if *number == 0 {
            state.numbered += 1;
            *number = state.numbered;
        }
        request.connection = *number;
    }
    request.unexpected = answer == Answer::Hang { unexpected: true };
    state.requests.push(request);
    answer
}

/// Waits until the client closes, or the server is stopped.
fn until_closed(mut stream: &TcpStream) -> After {
    let mut ignored = [0; 256];
    while matches!(stream.read(&mut ignored), Ok(1..)) {}
    After::Close
}

/// How the end of a body is told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Framing {
    /// In chunks of our own.
    Chunked,
    /// By what the script wrote into the head.
    Scripted,
    /// This status has no body.
    None,
}

fn play(shared: &Shared, mut stream: &TcpStream, mut timeline: Timeline, arrived: Instant) -> io::Result<After> {
    let mut at = arrived + Duration::from_millis(timeline.head_after_ms());
    if !shared.sleep_until(at) {
        return Ok(After::Close);
    }
    let framing = if matches!(timeline.status(), 204 | 304) {
        Framing::None
    } else if timeline.header("content-length").or(timeline.header("transfer-encoding")).is_some() {
        Framing::Scripted
    } else {
        Framing::Chunked
    };
    stream.write_all(head(&timeline, framing).as_bytes())?;
    let mut frame = Vec::new();
    while let Some((delay, bytes)) = timeline.next_part() {
        at += Duration::from_millis(delay);
        frame.clear();
        match framing {
            Framing::None => continue,
            Framing::Scripted => frame.extend_from_slice(bytes),
            Framing::Chunked if bytes.is_empty() => {} // an empty chunk would be the end of the body
            Framing::Chunked => {
                write!(frame, "{:x}\r\n", bytes.len())?;
                frame.extend_from_slice(bytes);
                frame.extend_from_slice(b"\r\n");
            }
        }
        if !shared.sleep_until(at) {
            return Ok(After::Close);
        }
        stream.write_all(&frame)?;
    }
    Ok(match timeline.end() {
        EndKind::Reset => After::Reset,
        EndKind::Hang => until_closed(stream),
        EndKind::Close => {
            if framing == Framing::Chunked {
                stream.write_all(b"0\r\n\r\n")?;
            }
            let framed = match framing {
                Framing::Chunked | Framing::None => true,
                Framing::Scripted => timeline.header("transfer-encoding").is_none() && timeline.ends_cleanly(),
            };
            if framed && !says_close(timeline.headers()) { After::Reuse } else { After::Close }
        }
    })
}

fn head(timeline: &Timeline, framing: Framing) -> String {
    // No reason phrase: it means nothing to a client, and the script has none.
    let mut head = format!("HTTP/1.1 {} \r\n", timeline.status());
    for (name, value) in timeline.headers() {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if framing == Framing::Chunked {
        head.push_str("Transfer-Encoding: chunked\r\n");
    }
    head.push_str("\r\n");
    head
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{pairs, served};

    fn serve(server: &str) -> Loopback {
        Loopback::start(Script::new(&served(server).server), Instant::now()).unwrap()
    }

    fn ask(stream: &mut TcpStream, target: &str, headers: &str) {
        stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: x\r\n{headers}\r\n").as_bytes()).unwrap();
    }

    /// Reads until `end` has come.
    fn read_to(stream: &mut TcpStream, end: &str) -> String {
        let mut text = String::new();
        while !text.ends_with(end) {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap_or_else(|error| panic!("{error} after {text:?}"));
            text.push(char::from(byte[0]));
        }
        text
    }

    #[test]
    fn a_cleanly_ended_answer_leaves_the_connection_for_the_next_request() {
        let server = serve(
            r#"[{"when": {"verb": "list"}, "times": 1, "reply": {"body": [{"text": "ab"}, {"text": ""}, {"text": "c", "afterMs": 3}]}},
                {"when": {"verb": "list"}, "reply": {"status": 404, "headers": {"Content-Length": "1"}, "body": [{"text": "d"}]}}]"#,
        );
        let mut stream = TcpStream::connect(server.addr()).unwrap();
        ask(&mut stream, "/api/v1/pods?labelSelector=app%3Dx+y&limit=500", "Authorization: Bearer A\r\n");
        assert_eq!(
            read_to(&mut stream, "0\r\n\r\n"),
            concat!(
                "HTTP/1.1 200 \r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
                "2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"
            )
        );
        ask(&mut stream, "/api/v1/pods", "");
        assert_eq!(read_to(&mut stream, "\r\n\r\nd"), "HTTP/1.1 404 \r\nContent-Length: 1\r\n\r\nd");
        let mut other = TcpStream::connect(server.addr()).unwrap();
        ask(&mut other, "/api/v1/pods", "");
        read_to(&mut other, "\r\n\r\nd");

        let requests = server.stop();
        let numbers: Vec<_> = requests.iter().map(|request| request.connection).collect();
        assert_eq!(numbers, [1, 1, 2]);
        assert_eq!(requests[0].path, "/api/v1/pods");
        assert_eq!(requests[0].query, pairs(&[("labelSelector", "app=x y"), ("limit", "500")]).into_iter().collect());
        assert_eq!(requests[0].headers, pairs(&[("authorization", "Bearer A")]).into_iter().collect());
    }

    #[test]
    fn a_short_body_ends_with_the_connection() {
        let server = serve(
            r#"[{"when": {"verb": "list"}, "reply": {"headers": {"Content-Length": "9"}, "body": [{"text": "ab"}]}}]"#,
        );
        let mut stream = TcpStream::connect(server.addr()).unwrap();
        ask(&mut stream, "/", "");
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert_eq!(text, "HTTP/1.1 200 \r\nContent-Length: 9\r\n\r\nab");
    }

    #[test]
    fn a_reset_is_seen_as_one_after_the_bytes_before_it() {
        let server = serve(r#"[{"when": {"verb": "watch"}, "reply": {"body": [{"text": "ab"}], "end": "reset"}}]"#);
        let mut stream = TcpStream::connect(server.addr()).unwrap();
        ask(&mut stream, "/?watch=true", "");
        read_to(&mut stream, "2\r\nab\r\n");
        assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    }

    #[test]
    fn stop_ends_what_hangs_and_what_waits() {
        let server = serve(
            r#"[{"when": {"verb": "watch"}, "reply": {"body": [{"text": "a"}], "end": "hang"}},
                {"when": {"verb": "list", "query": {"limit": "1"}}, "reply": {"hang": true}},
                {"when": {"verb": "list"}, "reply": {"afterMs": 3600000}}]"#,
        );
        let mut watching = TcpStream::connect(server.addr()).unwrap();
        ask(&mut watching, "/?watch=1", "");
        read_to(&mut watching, "1\r\na\r\n");
        let mut others: Vec<_> = ["/?limit=1", "/", "/?watch=1"]
            .iter()
            .map(|target| {
                let mut stream = TcpStream::connect(server.addr()).unwrap();
                ask(&mut stream, target, "");
                stream
            })
            .collect();
        others.push(TcpStream::connect(server.addr()).unwrap()); // open, but asks nothing
        others.push(watching);
        server.stop();
        for mut stream in others {
            // Every connection has come to its end: a client that waits for one is not left hanging.
            while matches!(stream.read(&mut [0; 64]), Ok(1..)) {}
        }
    }

    #[test]
    fn the_gate_plays_refusals_and_lets_the_rest_through() {
        let server = serve(
            r#"[{"when": {"verb": "watch"}, "times": 1, "reply": {"refuse": true}},
                {"when": {"verb": "watch"}, "reply": {"hang": true}}]"#,
        );
        let query = pairs(&[("watch", "true")]);
        let refused = server.gate("/api/v1/pods", &query, &[]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        assert!(server.gate("/api/v1/pods", &query, &[]).is_ok());
        let requests = server.stop();
        assert_eq!(requests.len(), 1);
        assert_eq!((requests[0].verb, requests[0].connection), (Verb::Watch, 0));
    }

    #[test]
    fn what_the_script_does_not_know_is_recorded_as_unexpected() {
        let server = serve("[]");
        let mut stream = TcpStream::connect(server.addr()).unwrap();
        ask(&mut stream, "/?watch=1", "");
        while server.requests().is_empty() {
            thread::yield_now();
        }
        assert!(server.stop()[0].unexpected);
    }

    #[test]
    fn what_is_no_request_is_answered_400() {
        let server = serve("[]");
        let mut stream = TcpStream::connect(server.addr()).unwrap();
        stream.write_all(b"GET  / HTTP/9\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 400 "), "{text}");
        assert!(server.stop().is_empty());
    }
}
