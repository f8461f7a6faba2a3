//! [`Connector`]: which connection a request goes out on.
//!
//! ```text
//!               ┌─ HTTP/1.1: one that lies idle ─┐
//! send ──► line ┼─ HTTP/2: one that has room ────┼─► head ─► part … ─► end ─► finished: idle again, or closed
//!               └─ dial: TCP or a socket, TLS ───┘
//!           ▲                                   │
//!           └── unread by the server: again ◄───┘
//! ```
//!
//! | | HTTP/1.1 ([`http1`]) | HTTP/2 ([`http2`]) |
//! |---|---|---|
//! | a watch | has its connection to itself | shares one with watches alone |
//! | lists, reads, writes | use one after another | share one |
//! | is driven by | the task of its request | a task of its own |
//!
//! Watches keep apart from the rest because the world treats them differently: a proxy that does not like long streams
//! resets the connection that carries them, and would take every list along. Within a connection nobody starves either:
//! see [`http2`].
//!
//! Whether a request is sent again is not decided here: [`Outgoing::may_go_again`] says it.

mod dial;
pub(crate) mod http1;
pub(crate) mod http2;
mod pool;

use bytes::Bytes;
use dial::Dialer;
use informer_core::wire::Head;
use informer_runtime::config::{HttpVersion, TokenSource};
use informer_runtime::fault::Fault;
use informer_runtime::outgoing::{MAX_SENDS, Outgoing, Unanswered};
use informer_runtime::sync::{Arc, Mutex};
use informer_runtime::{Config, Error};
use pool::Pool;
use std::future::Future;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::spawn_blocking;

/// TCP or a Unix socket, or TLS over it.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connection gave no head.
pub(crate) struct Lost {
    fault: Fault,
    /// The server has not looked at the request, and says so or never got it.
    unread: bool,
    /// The connection is gone, not only the request.
    dead: bool,
    /// Some of the answer came.
    answered: bool,
}

/// An answer whose head has come.
pub(crate) struct Answer {
    pub(crate) head: Head,
    body: Body,
}

enum Body {
    Http1(http1::Body),
    Http2(http2::Body),
}

impl Answer {
    /// The next part of the body; `None` at its end.
    pub(crate) async fn part(&mut self) -> Option<Result<Bytes, Fault>> {
        match &mut self.body {
            Body::Http1(body) => body.part().await,
            Body::Http2(body) => body.part().await,
        }
    }
}

/// A connection for one request.
enum Line {
    Http1(http1::Connection),
    Http2(http2::Place),
}

impl Line {
    async fn send(self, outgoing: &Outgoing) -> Result<Answer, Lost> {
        match self {
            Line::Http1(connection) => connection.send(outgoing).await,
            Line::Http2(place) => place.send(outgoing).await,
        }
    }
}

/// Which connections will do.
#[derive(PartialEq, Eq)]
enum Pick {
    Any,
    /// Any but this one, which has just refused.
    Not(http2::Id),
    New,
}

/// HTTP/2 connections for requests of one kind.
#[derive(Default)]
struct Lane {
    open: Mutex<Vec<http2::Connection>>,
    /// Held while one is opened: requests that begin together share it.
    opening: tokio::sync::Mutex<()>,
}

impl Lane {
    fn place(&self, pick: &Pick) -> Option<http2::Place> {
        let mut open = self.open.lock();
        open.retain(http2::Connection::is_open);
        open.iter().filter(|connection| *pick != Pick::Not(connection.id())).find_map(http2::Connection::place)
    }
}

/// Makes connections to one server, and keeps those that can serve another request.
pub(crate) struct Connector {
    config: Arc<Config>,
    dialer: Dialer,
    idle: Pool<http1::Connection>,
    watches: Lane,
    others: Lane,
    /// HTTP/2 connections that were retired and whose sockets may still be open.
    closing: Mutex<Vec<http2::Closing>>,
    /// What the last connection spoke: whether it is worth waiting for one that is being opened.
    spoken: Mutex<Option<HttpVersion>>,
}

impl Connector {
    pub(crate) fn new(config: Config) -> Result<Self, Error> {
        let dialer = Dialer::new(&config)?;
        let wanted = config.http_version;
        let spoken = match wanted == HttpVersion::Auto {
            true => (!config.server.is_tls()).then_some(HttpVersion::Http1),
            false => Some(wanted),
        };
        Ok(Connector {
            config: Arc::new(config),
            dialer,
            idle: Pool::default(),
            watches: Lane::default(),
            others: Lane::default(),
            closing: Mutex::default(),
            spoken: Mutex::new(spoken),
        })
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Makes a request; `None` if the runtime shuts down meanwhile.
    pub(crate) async fn prepare(
        &self,
        make: impl FnOnce(&Config) -> Result<Outgoing, Error> + Send + 'static,
    ) -> Option<Result<Outgoing, Error>> {
        if !matches!(self.config.token, TokenSource::File(_)) {
            return Some(make(&self.config));
        }
        // A network mount that hangs must not stop the tasks of this thread.
        let config = Arc::clone(&self.config);
        spawn_blocking(move || make(&config)).await.ok()
    }

    /// Sends a request and waits for the head of its answer. Name resolution, connect and TLS may take `within`; how
    /// long the whole may take is looked after by those who ask. Awaits `connected` when a connection stands.
    pub(crate) async fn send<C: Future<Output = ()>>(
        &self,
        outgoing: &Outgoing,
        within: Duration,
        mut connected: impl FnMut() -> C,
    ) -> Result<Answer, Fault> {
        let mut pick = Pick::Any;
        if outgoing.fresh {
            // What lies beside a suspect is suspect. Streams on them go on.
            self.retire();
            self.dialer.suspect();
            pick = Pick::New;
        }
        let mut sends = 1;
        loop {
            let (line, opened) = self.line(outgoing.watch, within, &pick).await?;
            connected().await;
            let next = match &line {
                Line::Http2(place) if sends + 1 < MAX_SENDS => Pick::Not(place.id()),
                Line::Http1(_) | Line::Http2(_) => Pick::New,
            };
            let lost = match line.send(outgoing).await {
                Ok(answer) => return Ok(answer),
                Err(lost) => lost,
            };
            let Lost { fault, unread, dead, answered } = lost;
            if !outgoing.may_go_again(sends, Unanswered { unread, dead, answered, opened }) {
                return Err(fault);
            }
            sends += 1;
            pick = next;
        }
    }

    /// Takes back what is left of an answer that was read to its end.
    pub(crate) async fn finished(&self, answer: Answer, is_watch: bool) {
        if let Body::Http1(body) = answer.body
            && !is_watch // the next watch opens its own: kept, they would only pile up
            && let Some(connection) = body.into_idle().await
        {
            self.idle.keep(connection);
        }
    }

    /// No connection that stands serves another request. Those without a request close.
    pub(crate) fn retire(&self) {
        self.idle.clear();
        for lane in [&self.watches, &self.others] {
            let retired = std::mem::take(&mut *lane.open.lock());
            let mut closing = self.closing.lock();
            closing.retain(|connection| !connection.is_closed());
            closing.extend(retired.into_iter().map(http2::Connection::retire));
        }
    }

    /// Waits until the sockets of retired connections are closed, but for those from which somebody still reads.
    pub(crate) async fn closed(&self) {
        let unused = {
            let mut closing = self.closing.lock();
            let (in_use, unused) = std::mem::take(&mut *closing).into_iter().partition(http2::Closing::is_in_use);
            *closing = in_use;
            let unused: Vec<http2::Closing> = unused;
            unused
        };
        for connection in unused {
            connection.closed().await;
        }
    }

    /// A connection, and whether it was opened for this request.
    async fn line(&self, watch: bool, within: Duration, pick: &Pick) -> Result<(Line, bool), Fault> {
        let lane = if watch { &self.watches } else { &self.others };
        if let Some(line) = self.standing(lane, watch, pick).await {
            return Ok((line, false));
        }
        let mut turn = None;
        if *pick != Pick::New && self.shares() {
            turn = Some(lane.opening.lock().await);
            if let Some(line) = self.standing(lane, watch, pick).await {
                return Ok((line, false));
            }
            if !self.shares() {
                turn = None;
            }
        }
        let (stream, version) = self.dialer.dial(within).await?;
        let line = if version == HttpVersion::Http2 {
            let connection = http2::open(stream, self.dialer.pings()).await?;
            let place = connection.place().ok_or_else(|| Fault::refused("the server allows no HTTP/2 stream"))?;
            lane.open.lock().push(connection);
            Line::Http2(place)
        } else {
            Line::Http1(http1::open(stream))
        };
        *self.spoken.lock() = Some(version);
        drop(turn);
        Ok((line, true))
    }

    async fn standing(&self, lane: &Lane, watch: bool, pick: &Pick) -> Option<Line> {
        if *pick == Pick::New {
            return None;
        }
        if let Some(place) = lane.place(pick) {
            return Some(Line::Http2(place));
        }
        if watch {
            return None; // over HTTP/1.1 it has one to itself, so that its end can close it
        }
        while let Some(mut connection) = self.idle.take() {
            if connection.is_usable().await {
                return Some(Line::Http1(connection));
            }
        }
        None
    }

    /// True if a connection that is being opened may serve many requests.
    fn shares(&self) -> bool {
        *self.spoken.lock() != Some(HttpVersion::Http1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Response;
    use informer_core::wire::{Request, RequestId, Verb};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    fn outgoing(connector: &Connector, watch: bool, fresh: bool, repeatable: bool) -> Outgoing {
        let request = Request {
            id: RequestId(1),
            verb: if watch { Verb::Watch } else { Verb::List },
            path: "/".into(),
            query: Vec::new(),
            accept: "application/json",
            accept_encoding: "identity",
            fresh_connection: fresh,
            refresh_credentials: false,
            connect_within: Duration::from_secs(10),
        };
        let mut outgoing = Outgoing::request(connector.config(), &request).unwrap();
        outgoing.repeatable = repeatable;
        outgoing
    }

    async fn read(connector: &Connector) -> (Answer, String) {
        ask(connector, &outgoing(connector, false, false, true)).await
    }

    async fn watch(connector: &Connector) -> (Answer, String) {
        ask(connector, &outgoing(connector, true, false, true)).await
    }

    /// A server of HTTP/2 whose answers never end, and say the number of their connection.
    async fn number(socket: TcpStream, number: usize) {
        let mut connection = h2::server::handshake(socket).await.unwrap();
        let mut bodies = Vec::new();
        while let Some(Ok((_, mut respond))) = connection.accept().await {
            let mut body = respond.send_response(Response::new(()), false).unwrap();
            body.send_data(Bytes::from(number.to_string()), false).unwrap();
            bodies.push(body);
        }
    }

    async fn connector<F>(serve: impl Fn(TcpStream, usize) -> F + Send + Sync + 'static) -> Arc<Connector>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let config = Config::from_url(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        tokio::spawn(async move {
            for number in 0.. {
                tokio::spawn(serve(listener.accept().await.unwrap().0, number));
            }
        });
        Arc::new(Connector::new(config.with_http_version(HttpVersion::Http2)).unwrap())
    }

    async fn ask(connector: &Connector, outgoing: &Outgoing) -> (Answer, String) {
        let answer = connector.send(outgoing, Duration::from_secs(10), || std::future::ready(())).await;
        let mut answer = answer.unwrap_or_else(|fault| panic!("{fault}"));
        let Some(Ok(first)) = answer.part().await else { panic!("a body begins") };
        (answer, String::from_utf8(first.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_fresh_request_has_a_new_connection_and_retires_the_others_whose_streams_go_on() {
        let connector = connector(number).await;
        let (mut list, first) = read(&connector).await;
        let (mut watching, second) = watch(&connector).await;
        assert_eq!([&first, &second], ["0", "1"]);
        assert_eq!((read(&connector).await.1, watch(&connector).await.1), ("0".into(), "1".into()));
        let (_fresh, third) = ask(&connector, &outgoing(&connector, false, true, true)).await;
        assert_eq!(third, "2");
        assert_eq!(read(&connector).await.1, "2", "it serves those who come later");
        assert_eq!(watch(&connector).await.1, "3", "what lay beside a suspect is suspect");
        for old in [&mut list, &mut watching] {
            let next = tokio::time::timeout(Duration::from_millis(20), old.part()).await;
            assert!(next.is_err(), "the stream is open");
        }
    }

    #[tokio::test]
    async fn the_wait_for_closed_sockets_is_over_with_the_last_stream_and_leaves_those_in_use_alone() {
        let connector = connector(number).await;
        let (list, _) = read(&connector).await;
        let (watching, _) = watch(&connector).await;
        connector.retire();
        drop(list);
        let one = tokio::time::timeout(Duration::from_secs(60), connector.closed()).await;
        assert!(one.is_ok() && connector.closing.lock().len() == 1, "the watch is still read");
        drop(watching);
        connector.closed().await;
        assert!(connector.closing.lock().is_empty());
    }

    #[tokio::test]
    async fn requests_that_begin_together_share_the_connection_that_the_first_one_opens() {
        let connector = connector(number).await;
        let tasks: Vec<_> = (0..20)
            .map(|_| {
                let connector = Arc::clone(&connector);
                tokio::spawn(async move { watch(&connector).await })
            })
            .collect();
        // The answers are held: each has a stream.
        let mut answers = Vec::new();
        for task in tasks {
            answers.push(task.await.unwrap());
        }
        assert!(answers.iter().all(|(_, connection)| connection == "0"));
    }

    #[tokio::test]
    async fn a_request_above_the_last_stream_of_a_goaway_is_sent_again_whatever_it_does() {
        let connector = connector(|mut socket, connection| async move {
            if connection > 0 {
                return number(socket, connection).await;
            }
            // SETTINGS; when the request (27 bytes of preface and more) has come: GOAWAY, last stream 0, no error.
            socket.write_all(b"\0\0\0\x04\0\0\0\0\0").await.unwrap();
            let mut bytes = Vec::new();
            while !bytes.windows(5).any(|window| window == b"\x01\x05\0\0\0" || window == b"\x01\x04\0\0\0") {
                assert!(socket.read_buf(&mut bytes).await.unwrap() > 0);
            }
            socket.write_all(b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0").await.unwrap();
            let _ = socket.read_to_end(&mut bytes).await;
        })
        .await;
        assert_eq!(ask(&connector, &outgoing(&connector, false, false, false)).await.1, "1");
    }
}
