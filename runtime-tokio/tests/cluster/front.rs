//! [`Front`]: an HTTP/2 server before the simulated one, which counts connections and does what a test wants of them.

use crate::support::*;
use bytes::Bytes;
use h2::server::{self, SendResponse};
use h2::{Reason, RecvStream};
use http::{Method, Request, Response};
use informer_core::{Key, Resource};
use informer_runtime::Config;
use informer_runtime::api::ApiRequest;
use informer_runtime::http1::{Exchange, Part};
use informer_runtime::outgoing::Outgoing;
use informer_sim::Served;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

/// What becomes of a request.
#[derive(Clone, Copy)]
pub(crate) enum Fate {
    /// The simulated server answers it.
    Forward,
    /// RST_STREAM with this reason, before any head.
    Reset(Reason),
    /// A head of 200 and RST_STREAM.
    Tear,
    /// The TCP connection goes.
    Abort,
}

type Judge = dyn Fn(usize, &Request<RecvStream>) -> Fate + Send + Sync;

#[derive(Default)]
pub(crate) struct Seen {
    /// Connections that were accepted.
    accepted: AtomicUsize,
    /// Those that are open.
    open: AtomicUsize,
    /// The most that were open at a time.
    most: AtomicUsize,
    /// Streams that the client reset.
    resets: AtomicUsize,
    /// `connection METHOD target`, in order.
    pub(crate) requests: Log,
    /// Tells every connection to go away; streams that run end first.
    go_away: Notify,
}

impl Seen {
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// The most connections that were open at a time.
    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }

    pub(crate) fn resets(&self) -> usize {
        self.resets.load(Ordering::SeqCst)
    }

    /// The number of a connection that was accepted.
    fn enter(&self) -> usize {
        self.most.fetch_max(self.open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        self.accepted.fetch_add(1, Ordering::SeqCst)
    }

    fn leave(&self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }

    /// GOAWAY on every connection that is open now.
    pub(crate) fn go_away(&self) {
        self.go_away.notify_waiters();
    }

    /// The connections of requests whose line contains `text`.
    pub(crate) fn connections_of(&self, text: &str) -> Vec<usize> {
        let lines = self.requests.lines();
        let of = lines.iter().filter(|line| line.contains(text));
        of.map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect()
    }
}

/// How the server is set up.
pub(crate) struct Setup {
    pub(crate) max_streams: u32,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) judge: Arc<Judge>,
}

impl Default for Setup {
    fn default() -> Self {
        Setup { max_streams: 100, tls: None, judge: Arc::new(|_, _| Fate::Forward) }
    }
}

impl Setup {
    pub(crate) fn judged(judge: impl Fn(usize, &Request<RecvStream>) -> Fate + Send + Sync + 'static) -> Self {
        Setup { judge: Arc::new(judge), ..Setup::default() }
    }
}

/// Starts one. Connections are numbered from 0.
pub(crate) async fn front(served: &Served, setup: Setup) -> (SocketAddr, Arc<Seen>) {
    front_of(served.addr(), setup).await
}

/// The same for the server at an address.
pub(crate) async fn front_of(behind: SocketAddr, setup: Setup) -> (SocketAddr, Arc<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let seen = Arc::new(Seen::default());
    let told = Arc::clone(&seen);
    let setup = Arc::new(setup);
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let number = told.enter();
            let (seen, setup) = (Arc::clone(&told), Arc::clone(&setup));
            tokio::spawn(async move {
                match &setup.tls {
                    None => connection(socket, number, behind, &seen, &setup).await,
                    Some(acceptor) => {
                        if let Ok(socket) = acceptor.accept(socket).await {
                            connection(socket, number, behind, &seen, &setup).await;
                        }
                    }
                }
                seen.leave();
            });
        }
    });
    (addr, seen)
}

/// Passes bytes on to the simulated server and back, and counts connections.
pub(crate) async fn relay(served: &Served) -> (SocketAddr, Arc<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let seen = Arc::new(Seen::default());
    let (behind, told) = (served.addr(), Arc::clone(&seen));
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            told.enter();
            let seen = Arc::clone(&told);
            tokio::spawn(async move {
                if let Ok(mut server) = TcpStream::connect(behind).await {
                    let _ = tokio::io::copy_bidirectional(&mut socket, &mut server).await;
                }
                seen.leave();
            });
        }
    });
    (addr, seen)
}

/// Speaks HTTP/2 on one connection until it ends.
pub(crate) async fn connection<S>(socket: S, number: usize, behind: SocketAddr, seen: &Arc<Seen>, setup: &Setup)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut builder = server::Builder::new();
    builder.max_concurrent_streams(setup.max_streams);
    let Ok(mut connection) = builder.handshake::<_, Bytes>(socket).await else { return };
    let abort = Arc::new(Notify::new());
    loop {
        let accepted = tokio::select! {
            accepted = connection.accept() => accepted,
            () = seen.go_away.notified() => {
                connection.graceful_shutdown();
                continue;
            }
            () = abort.notified() => return,
        };
        let Some(Ok((request, mut respond))) = accepted else { return };
        seen.requests.add(format!("{number} {} {}", request.method(), request.uri()));
        match (setup.judge)(number, &request) {
            Fate::Forward => {
                let seen = Arc::clone(seen);
                tokio::spawn(async move { forward(request, respond, behind, &seen).await });
            }
            Fate::Reset(reason) => respond.send_reset(reason),
            Fate::Tear => {
                let mut body = respond.send_response(Response::new(()), false).unwrap();
                body.send_reset(Reason::INTERNAL_ERROR);
            }
            Fate::Abort => abort.notify_one(),
        }
    }
}

/// Asks the simulated server over HTTP/1.1 and passes on what it says, no faster than the client reads.
async fn forward(request: Request<RecvStream>, mut respond: SendResponse<Bytes>, behind: SocketAddr, seen: &Seen) {
    let (parts, mut incoming) = request.into_parts();
    let mut body = Vec::new();
    while let Some(Ok(bytes)) = incoming.data().await {
        let _ = incoming.flow_control().release_capacity(bytes.len());
        body.extend_from_slice(&bytes);
    }
    assert!(parts.method != Method::CONNECT);
    assert!(parts.uri.authority().is_some(), "a request names its server");
    assert!(!parts.headers.contains_key("host"), "HTTP/2 has :authority");
    // Any request will do: all of it is replaced.
    let any = ApiRequest::get(&Resource::cluster("", "v1", "nodes", "Node"), &Key::new("", "n")).unwrap();
    let mut outgoing = Outgoing::call(&Config::from_url("http://front").unwrap(), &any, false).unwrap();
    (outgoing.head, outgoing.body) = (Request::from_parts(parts, ()), body);
    let Ok(mut socket) = TcpStream::connect(behind).await else { return respond.send_reset(Reason::INTERNAL_ERROR) };
    let mut exchange = Exchange::new();
    exchange.begin(&outgoing).unwrap_or_else(|fault| panic!("{fault}"));
    if socket.write_all(exchange.unsent()).await.is_err() {
        return respond.send_reset(Reason::INTERNAL_ERROR);
    }
    exchange.sent(exchange.unsent().len());
    let head = loop {
        match exchange.head() {
            Ok(Some(head)) => break head,
            Ok(None) => {}
            Err(_) => return respond.send_reset(Reason::INTERNAL_ERROR),
        }
        let read = socket.read(exchange.space()).await.unwrap_or_default();
        exchange.filled(read);
    };
    let mut response = Response::new(());
    *response.status_mut() = head.status.try_into().unwrap();
    let headers = [
        ("content-type", &head.content_type),
        ("content-encoding", &head.content_encoding),
        ("retry-after", &head.retry_after),
        ("date", &head.date),
    ];
    for (name, value) in headers.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
        response.headers_mut().insert(name, value.parse().unwrap());
    }
    let mut to = respond.send_response(response, false).unwrap();
    loop {
        let mut bytes = match exchange.part() {
            Ok(Part::Bytes(bytes)) => Bytes::from(bytes),
            Ok(Part::Wait) => {
                tokio::select! {
                    read = socket.read(exchange.space()) => exchange.filled(read.unwrap_or_default()),
                    _ = poll_fn(|cx| to.poll_reset(cx)) => {
                        seen.resets.fetch_add(1, Ordering::SeqCst);
                        break;
                    }
                }
                continue;
            }
            Ok(Part::Done) | Err(_) => break,
        };
        while !bytes.is_empty() {
            to.reserve_capacity(bytes.len());
            let Some(Ok(room)) = poll_fn(|cx| to.poll_capacity(cx)).await else { return };
            let _ = to.send_data(bytes.split_to(room.min(bytes.len())), false);
        }
    }
    let _ = to.send_data(Bytes::new(), true);
}
