//! HTTP/2: many requests at a time on a connection, which has a task of its own.
//!
//! ```text
//!            ┌──────────── task: reads, writes, pings ────────────┐
//! open ──► SETTINGS came: Connection ──► place ──► head ──► part … ──► end
//!                         (the lane's)     │ a stream, counted        │
//!                                          └── dropped: RST_STREAM ◄──┘ before its end
//! ```
//!
//! The connection stands when the server's SETTINGS have come: they say how many streams it allows. A place is given only
//! where one is free, so that no request waits for a stream unseen; who gets none opens another connection.
//!
//! **Nobody starves.** A body that is not read holds at most [`STREAM_WINDOW`] of the connection's window, and that is
//! [`MAX_STREAMS`] times as large: whatever others leave unread, each stream has its own window to itself.
//!
//! **Dead connections** are found by pings, the only timer outside the core: what has been silent for [`Pings::after`] is
//! asked, and closed if nothing at all comes within [`Pings::within`]. A connection that carries no stream then is closed
//! without a question. The task ends when the last handle and stream are gone, so that nothing has to be stopped.

use super::{Answer, Fault, Lost, Outgoing, Stream};
use bytes::Bytes;
use h2::client::{self, SendRequest};
use h2::{Ping, PingPong, Reason, RecvStream};
use http::Version;
use informer_runtime::config::Pings;
use informer_runtime::outgoing;
use informer_runtime::sync::{Arc, Mutex};
use informer_runtime::tls;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout_at};

/// The most of a body that the server sends ahead of its reader: a list's page or two, so that a distant server is not
/// slowed down by waiting for us.
const STREAM_WINDOW: u32 = 1024 * 1024;

/// The most streams that we open on a connection; servers allow about a hundred. More would only raise the bound of what
/// lies unread, `MAX_STREAMS` × `STREAM_WINDOW`.
const MAX_STREAMS: u32 = 64;

/// The largest part of a body that comes at a time, and the most that a head may have.
const BUFFER: u32 = 64 * 1024;

const CLOSED: &str = "the server closed the connection";

/// A connection that stands, for those who look for a place. It stays open while this or a place is there.
pub(crate) struct Connection {
    sender: SendRequest<Bytes>,
    usage: Arc<Mutex<Usage>>,
    task: JoinHandle<()>,
}

/// What is left of a connection that gives no place any more: its socket closes with its last stream.
pub(crate) struct Closing {
    usage: Arc<Mutex<Usage>>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Usage {
    streams: usize,
    /// No place is given any more, and why streams break.
    over: Option<String>,
}

/// A name of a connection.
#[derive(Clone)]
pub(crate) struct Id(Arc<Mutex<Usage>>);

impl PartialEq for Id {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Id {}

/// One of the streams that a connection may have.
pub(crate) struct Place {
    sender: SendRequest<Bytes>,
    held: Held,
}

/// Counts a stream while it lives.
struct Held(Arc<Mutex<Usage>>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.lock().streams -= 1;
    }
}

/// The body of an answer.
pub(crate) struct Body {
    stream: RecvStream,
    // After the stream: its reset is on the way when the place is free.
    held: Held,
}

/// Shakes hands and waits for the server's SETTINGS.
pub(super) async fn open(stream: Box<dyn Stream>, config: Pings) -> Result<Connection, Fault> {
    let broken = |error: h2::Error| Fault::broken(format_args!("HTTP/2: {}", tls::explain(&error)));
    let heard = Arc::new(Mutex::new(Instant::now()));
    let mut builder = client::Builder::new();
    builder
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(STREAM_WINDOW * MAX_STREAMS)
        .max_frame_size(BUFFER)
        .max_header_list_size(BUFFER)
        .enable_push(false)
        // None before the server has said how many.
        .initial_max_send_streams(0);
    let listened = Listened { stream, heard: Arc::clone(&heard) };
    let (sender, mut line) = builder.handshake::<_, Bytes>(listened).await.map_err(broken)?;
    poll_fn(|cx| match Pin::new(&mut line).poll(cx) {
        Poll::Ready(Ok(())) => Poll::Ready(Err(Fault::broken(format_args!("HTTP/2: {CLOSED}")))),
        Poll::Ready(Err(error)) => Poll::Ready(Err(broken(error))),
        Poll::Pending if line.max_concurrent_send_streams() > 0 => Poll::Ready(Ok(())),
        Poll::Pending => Poll::Pending,
    })
    .await?;
    let usage = Arc::new(Mutex::new(Usage::default()));
    let pings = line.ping_pong().expect("it is taken once");
    let silence = watch_over(pings, config, heard, Arc::clone(&usage));
    let task = tokio::spawn(run(line, silence, Arc::clone(&usage)));
    Ok(Connection { sender, usage, task })
}

/// The task of a connection. It owns the socket: that is closed when this ends, however it ends.
async fn run<L>(line: L, silence: impl Future<Output = &'static str>, usage: Arc<Mutex<Usage>>)
where
    L: Future<Output = Result<(), h2::Error>>,
{
    let mut silence = pin!(silence);
    let mut line = pin!(line);
    let why = poll_fn(|cx| match line.as_mut().poll(cx) {
        Poll::Ready(Ok(())) => Poll::Ready(CLOSED.to_owned()),
        Poll::Ready(Err(error)) => Poll::Ready(tls::explain(&error)),
        Poll::Pending => silence.as_mut().poll(cx).map(str::to_owned),
    })
    .await;
    // Before the line is dropped, which tells the streams.
    usage.lock().over.get_or_insert(why);
}

/// Ends, with the reason, when the connection has no use or is dead.
async fn watch_over(
    mut line: PingPong,
    pings: Pings,
    heard: Arc<Mutex<Instant>>,
    usage: Arc<Mutex<Usage>>,
) -> &'static str {
    let last = || *heard.lock();
    loop {
        sleep_until(last() + pings.after).await;
        if last().elapsed() < pings.after {
            continue;
        }
        {
            let mut usage = usage.lock();
            if usage.streams == 0 {
                let why = "the connection lay idle";
                usage.over = Some(why.to_owned());
                return why;
            }
        }
        let asked = Instant::now();
        let mut pong = pin!(line.ping(Ping::opaque()));
        // The answer may be queued behind a long body: whatever comes shows that the server is there.
        loop {
            match timeout_at(last().max(asked) + pings.within, pong.as_mut()).await {
                Ok(Ok(_)) => break,
                Ok(Err(_)) => return CLOSED,
                Err(_) if last().max(asked).elapsed() < pings.within => {}
                Err(_) => return "the server is silent and does not answer a ping",
            }
        }
    }
}

impl Connection {
    pub(super) fn id(&self) -> Id {
        Id(Arc::clone(&self.usage))
    }

    /// False once the server goes away, or has.
    pub(super) fn is_open(&self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        let gone = matches!(self.sender.clone().poll_ready(&mut cx), Poll::Ready(Err(_)));
        !gone && self.usage.lock().over.is_none()
    }

    /// Gives no place any more.
    pub(super) fn retire(self) -> Closing {
        Closing { usage: self.usage, task: self.task }
    }

    /// A place for one stream, if one is free.
    pub(super) fn place(&self) -> Option<Place> {
        let most = self.sender.current_max_send_streams().min(MAX_STREAMS as usize);
        let mut usage = self.usage.lock();
        if usage.streams >= most || usage.over.is_some() {
            return None;
        }
        usage.streams += 1;
        Some(Place { sender: self.sender.clone(), held: Held(Arc::clone(&self.usage)) })
    }
}

impl Closing {
    /// True once its socket is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.task.is_finished()
    }

    /// True if somebody still reads an answer from it.
    pub(super) fn is_in_use(&self) -> bool {
        self.usage.lock().streams > 0
    }

    /// Waits for that.
    pub(super) async fn closed(self) {
        // It does not panic; and after an abort by the runtime the socket is closed, too.
        drop(self.task.await);
    }
}

impl Place {
    pub(super) fn id(&self) -> Id {
        Id(Arc::clone(&self.held.0))
    }

    pub(super) async fn send(self, outgoing: &Outgoing) -> Result<Answer, Lost> {
        let Place { sender, held } = self;
        let mut head = outgoing.head.clone();
        *head.version_mut() = Version::HTTP_2;
        let unsent = |error| Lost { fault: fault(&held, &error), unread: true, dead: true, answered: false };
        let mut sender = sender.ready().await.map_err(unsent)?;
        let bare = outgoing.body.is_empty();
        let (response, mut upload) = sender.send_request(head, bare).map_err(unsent)?;
        if !bare {
            // What fails here fails the answer, too.
            let _ = upload.send_data(Bytes::copy_from_slice(&outgoing.body), true);
        }
        // Only the stream keeps the connection now.
        drop(sender);
        match response.await {
            Ok(response) => {
                let (parts, stream) = response.into_parts();
                let headers = parts.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
                let head = outgoing::head(parts.status.as_u16(), headers);
                Ok(Answer { head, body: super::Body::Http2(Body { stream, held }) })
            }
            Err(error) => Err(Lost {
                fault: fault(&held, &error),
                // RFC 9113, 8.7: streams above the last one that a GOAWAY names, and refused ones, were not looked at.
                unread: error.is_remote() && (error.is_go_away() || error.reason() == Some(Reason::REFUSED_STREAM)),
                dead: !error.is_reset(),
                answered: false,
            }),
        }
    }
}

impl Body {
    pub(super) async fn part(&mut self) -> Option<Result<Bytes, Fault>> {
        let bytes = match self.stream.data().await? {
            Ok(bytes) => bytes,
            Err(error) => return Some(Err(fault(&self.held, &error))),
        };
        // Read: the server may send as much again. It fails only for more than there was.
        let _ = self.stream.flow_control().release_capacity(bytes.len());
        Some(Ok(bytes))
    }
}

/// Why a stream broke: the connection may know better than h2, which sees a closed socket.
fn fault(held: &Held, error: &h2::Error) -> Fault {
    let why = held.0.lock().over.clone().filter(|_| error.is_io());
    Fault::broken(format_args!("HTTP/2: {}", why.unwrap_or_else(|| tls::explain(error))))
}

/// A stream that notes when something came.
struct Listened {
    stream: Box<dyn Stream>,
    heard: Arc<Mutex<Instant>>,
}

impl AsyncRead for Listened {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        if buf.filled().len() > before {
            *self.heard.lock() = Instant::now();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Listened {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use h2::server;
    use http::Response;
    use informer_core::{Key, Resource};
    use informer_runtime::Config;
    use informer_runtime::api::ApiRequest;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::timeout;

    /// Far more than fits in here: the server is held up by windows alone.
    const PIPE: usize = 256 * 1024 * 1024;

    fn get(path: &str) -> Outgoing {
        let config = Config::from_url("http://server").unwrap();
        let call = ApiRequest::get(&Resource::cluster("", "v1", "nodes", "Node"), &Key::new("", "n")).unwrap();
        let mut outgoing = Outgoing::call(&config, &call, false).unwrap();
        *outgoing.head.uri_mut() = format!("http://server{path}").parse().unwrap();
        outgoing
    }

    async fn answer(connection: &Connection, path: &str) -> super::super::Body {
        let place = connection.place().expect("a place is free");
        let Ok(answer) = place.send(&get(path)).await else { panic!("no head of {path}") };
        assert_eq!(answer.head.status, 200);
        answer.body
    }

    async fn part(body: &mut super::super::Body) -> Option<Result<Bytes, String>> {
        let super::super::Body::Http2(body) = body else { panic!("it came over HTTP/2") };
        let part = body.part().await?;
        Some(part.map_err(|fault| fault.text))
    }

    /// The bytes that a body has; a body that stands still fails instead of hanging.
    async fn whole(body: &mut super::super::Body) -> usize {
        let mut bytes = 0;
        while let Some(part) = timeout(Duration::from_secs(60), part(body)).await.expect("the body goes on") {
            bytes += part.unwrap().len();
        }
        bytes
    }

    /// Answers each request and goes on with `talk`.
    fn serve<F, T>(io: DuplexStream, talk: F)
    where
        F: Fn(h2::SendStream<Bytes>) -> T + Send + 'static,
        T: Future<Output = ()> + Send + 'static,
    {
        tokio::spawn(async move {
            let mut connection = server::handshake(io).await.unwrap();
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                tokio::spawn(talk(respond.send_response(Response::new(()), false).unwrap()));
            }
        });
    }

    /// As much as the window takes, until `left` is sent; more than a window waits for a reader.
    async fn send(stream: &mut h2::SendStream<Bytes>, mut left: usize) -> usize {
        let mut sent = 0;
        while left > 0 {
            stream.reserve_capacity(left.min(16 * 1024));
            let Some(Ok(room)) = poll_fn(|cx| stream.poll_capacity(cx)).await else { break };
            let room = room.min(left);
            stream.send_data(vec![b'x'; room].into(), false).unwrap();
            (sent, left) = (sent + room, left - room);
        }
        sent
    }

    #[tokio::test]
    async fn bodies_that_nobody_reads_do_not_slow_down_the_one_that_is_read() {
        let (ours, theirs) = duplex(PIPE);
        serve(theirs, |mut stream| async move {
            send(&mut stream, 16 * STREAM_WINDOW as usize).await;
            let _ = stream.send_data(Bytes::new(), true);
        });
        let Ok(connection) = open(Box::new(ours), Pings::default()).await else { panic!("it opens") };
        let mut unread = Vec::new();
        for number in 1..MAX_STREAMS {
            unread.push(answer(&connection, &format!("/unread/{number}")).await);
        }
        let mut read = answer(&connection, "/read").await;
        assert_eq!(whole(&mut read).await, 16 * STREAM_WINDOW as usize);
    }

    #[tokio::test]
    async fn no_more_places_are_given_than_the_server_allows_and_a_dropped_one_is_free_again() {
        let (ours, theirs) = duplex(PIPE);
        tokio::spawn(async move {
            let mut connection =
                server::Builder::new().max_concurrent_streams(2).handshake::<_, Bytes>(theirs).await.unwrap();
            while connection.accept().await.is_some() {}
        });
        let Ok(connection) = open(Box::new(ours), Pings::default()).await else { panic!("it opens") };
        let places = [connection.place(), connection.place(), connection.place()];
        assert_eq!(places.each_ref().map(Option::is_some), [true, true, false]);
        drop(places);
        assert!(connection.place().is_some() && connection.is_open());
    }

    #[tokio::test]
    async fn a_body_that_is_dropped_unread_gives_its_window_back() {
        let (ours, theirs) = duplex(PIPE);
        serve(theirs, |mut stream| async move {
            send(&mut stream, 2 * STREAM_WINDOW as usize).await;
            let _ = stream.send_data(Bytes::new(), true);
        });
        let Ok(connection) = open(Box::new(ours), Pings::default()).await else { panic!("it opens") };
        // More than the window of the connection.
        for number in 0..=MAX_STREAMS {
            let mut body = answer(&connection, &format!("/dropped/{number}")).await;
            assert!(part(&mut body).await.unwrap().is_ok());
        }
        let mut body = answer(&connection, "/read").await;
        assert_eq!(whole(&mut body).await, 2 * STREAM_WINDOW as usize);
    }

    /// Passes on what comes on one side, until told to be silent.
    async fn relay(mut ours: DuplexStream, mut theirs: DuplexStream, silent_after: Duration) {
        let both = tokio::io::copy_bidirectional(&mut ours, &mut theirs);
        let _ = timeout(silent_after, both).await;
        // Open, and nothing comes.
        std::future::pending::<()>().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_falls_silent_is_found_within_45_seconds() {
        let (ours, proxy_in) = duplex(PIPE);
        let (proxy_out, theirs) = duplex(PIPE);
        serve(theirs, |stream| async move {
            std::future::pending::<()>().await;
            drop(stream);
        });
        tokio::spawn(relay(proxy_in, proxy_out, Duration::from_secs(100)));
        let Ok(connection) = open(Box::new(ours), Pings::default()).await else { panic!("it opens") };
        let start = Instant::now();
        let mut watch = answer(&connection, "/watch").await;
        let reason = part(&mut watch).await.unwrap().unwrap_err();
        assert!(reason.contains("the server is silent and does not answer a ping"), "{reason}");
        // Pongs came at 30, 60 and 90 s.
        let silent_for = start.elapsed() - Duration::from_secs(100);
        assert!(silent_for <= Pings::default().after + Pings::default().within, "{silent_for:?}");
        assert_eq!(start.elapsed().as_secs(), 90 + 45);
        assert_eq!(Pings::default().after + Pings::default().within, Duration::from_secs(45));
        assert!(!connection.is_open() && connection.place().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_sends_is_alive_though_its_pong_is_late() {
        let (ours, mut theirs) = duplex(PIPE);
        tokio::spawn(async move {
            // SETTINGS, then the head of stream 1 (`:status: 200`); after a silence that is long enough for a ping a byte
            // of its body every 10 s, and no pong ever.
            theirs.write_all(b"\0\0\0\x04\0\0\0\0\0").await.unwrap();
            let mut bytes = [0; 4096];
            let read = theirs.read(&mut bytes).await.unwrap();
            assert!(read > 0);
            tokio::time::sleep(Duration::from_secs(1)).await;
            theirs.write_all(b"\0\0\x01\x01\x04\0\0\0\x01\x88").await.unwrap();
            tokio::time::sleep(Pings::default().after + Duration::from_secs(1)).await;
            for _ in 0..20 {
                theirs.write_all(b"\0\0\x01\0\0\0\0\0\x01x").await.unwrap();
                tokio::time::sleep(Duration::from_secs(10)).await;
            }
            theirs.write_all(b"\0\0\0\0\x01\0\0\0\x01").await.unwrap();
            std::future::pending::<()>().await;
        });
        let Ok(connection) = open(Box::new(ours), Pings::default()).await else { panic!("it opens") };
        let mut watch = answer(&connection, "/watch").await;
        assert_eq!(whole(&mut watch).await, 20);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_stream_is_closed_and_not_asked() {
        let (ours, theirs) = duplex(PIPE);
        let server = tokio::spawn(async move {
            let mut connection = server::handshake(theirs).await.unwrap();
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                let _: h2::SendStream<Bytes> = respond.send_response(Response::new(()), true).unwrap();
            }
        });
        let Ok(connection) = open(Box::new(ours), Pings::default()).await else { panic!("it opens") };
        let start = Instant::now();
        drop(answer(&connection, "/list").await);
        assert!(connection.is_open());
        server.await.unwrap();
        assert_eq!(start.elapsed(), Pings::default().after);
        assert!(!connection.is_open() && connection.place().is_none());
    }

    #[tokio::test]
    async fn what_does_not_speak_http2_is_named() {
        let (ours, mut theirs) = duplex(PIPE);
        tokio::spawn(async move {
            theirs.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            theirs
        });
        let Err(fault) = open(Box::new(ours), Pings::default()).await else { panic!("it is no HTTP/2") };
        assert!(!fault.refused && fault.text.starts_with("HTTP/2: "), "{fault}");
    }
}
