//! [`Connector`] and [`Connection`]: one HTTP/1.1 connection at a time, from its address to the end of a body.
//!
//! A connection is driven by the task that waits for its answer, so it needs no task of its own: dropping the future
//! closes the socket, and a task that does not read makes the server wait. Between two requests it lies in the
//! connector, where nobody drives it; it is looked at when it is taken out again.

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{self, HeaderValue};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use informer_runtime::sync::Mutex;
use informer_runtime::{Config, Error, tls};
use rustls_pki_types::ServerName;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// The most connections that lie idle: a factory's lists and a few writes at a time.
const MAX_IDLE: usize = 4;

/// A connection that lay idle for longer is not used again: middleboxes forget connections after a minute or more, and
/// servers close them.
const IDLE_FOR: Duration = Duration::from_secs(30);

/// The most addresses of one host that are tried.
const MAX_ADDRESSES: usize = 8;

/// What hyper reads at a time, and so about the largest part of a body that is handed on.
const READ_BUFFER: usize = 64 * 1024;

/// TCP, or TLS over it.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

type Io = TokioIo<Box<dyn Stream>>;

/// What stands in a request, whoever makes it.
pub(crate) struct Ask<'a> {
    pub(crate) method: &'a str,
    /// Path and query, without the server's base path.
    pub(crate) target: &'a str,
    pub(crate) accept: &'a str,
    pub(crate) accept_encoding: &'a str,
    /// The type of `body`, if it is not empty.
    pub(crate) content_type: &'a str,
    pub(crate) body: Vec<u8>,
    pub(crate) refresh_credentials: bool,
}

/// Why there is no answer, or not all of it.
pub(crate) enum Fault {
    /// No connection came about; the server had no work with it.
    Refused(String),
    /// The connection broke, or TLS did not come about.
    Broken(String),
}

/// How a request may get its connection.
#[derive(Clone, Copy)]
pub(crate) struct Route {
    /// An idle connection will do.
    pub(crate) reuse: bool,
    /// If an idle one breaks before the head came, the request is sent again on a new one.
    pub(crate) repeatable: bool,
    /// How long name resolution, connect and TLS may take.
    pub(crate) within: Duration,
}

/// Makes connections to one server, and keeps a few that are idle.
pub(crate) struct Connector {
    config: Config,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    idle: Mutex<Vec<(Instant, Connection)>>,
}

impl Connector {
    pub(crate) fn new(config: Config) -> Result<Self, Error> {
        let tls = match config.tls_config()? {
            Some(settings) => Some((TlsConnector::from(settings), tls::server_name(&config)?)),
            None => None,
        };
        Ok(Connector { config, tls, idle: Mutex::new(Vec::new()) })
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// The request as it goes out.
    pub(crate) fn request(&self, ask: Ask<'_>) -> Result<Request<Full<Bytes>>, Error> {
        let endpoint = &self.config.server;
        let mut request = Request::builder()
            .method(ask.method)
            .uri(endpoint.target(ask.target))
            .header(header::HOST, endpoint.authority())
            .header(header::USER_AGENT, concat!("informer/", env!("CARGO_PKG_VERSION")))
            .header(header::ACCEPT, ask.accept)
            .header(header::ACCEPT_ENCODING, ask.accept_encoding);
        if !ask.body.is_empty() {
            request = request.header(header::CONTENT_TYPE, ask.content_type);
        }
        let unsendable = |source: Box<dyn std::error::Error + Send + Sync>| Error::Transport {
            request: format!("{} {}", ask.method, ask.target),
            reason: format!("the request cannot be written: {source}"),
            source: Some(source),
        };
        if let Some(value) = self.config.authorization(ask.refresh_credentials)? {
            let mut value = HeaderValue::from_str(value.expose()).map_err(|error| unsendable(error.into()))?;
            value.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, value);
        }
        request.body(Full::new(Bytes::from(ask.body))).map_err(|error| unsendable(error.into()))
    }

    /// Sends `request` on an idle or a new connection, and waits for the head of the answer. Awaits `connected` when a
    /// connection stands.
    pub(crate) async fn send<C: Future<Output = ()>>(
        &self,
        request: Request<Full<Bytes>>,
        route: Route,
        mut connected: impl FnMut() -> C,
    ) -> Result<(Connection, Response<Incoming>), Fault> {
        if !route.reuse {
            // One connection is suspected dead: those that lay beside it no less.
            self.idle.lock().clear();
        }
        if let Some(mut connection) = self.take_idle().await {
            connected().await;
            match connection.send(request.clone()).await {
                Ok(response) => return Ok((connection, response)),
                Err(broken) if broken.unsent || route.repeatable => {}
                Err(broken) => return Err(broken.fault()),
            }
        }
        let mut connection = self.open(route.within).await?;
        connected().await;
        let response = connection.send(request).await.map_err(|broken| broken.fault())?;
        Ok((connection, response))
    }

    /// Keeps a connection whose last answer was read to its end, if it can serve another one.
    pub(crate) async fn give_back(&self, mut connection: Connection) {
        if connection.is_usable().await {
            let mut idle = self.idle.lock();
            if idle.len() == MAX_IDLE {
                idle.remove(0);
            }
            idle.push((Instant::now(), connection));
        }
    }

    async fn take_idle(&self) -> Option<Connection> {
        loop {
            let (since, mut connection) = self.idle.lock().pop()?;
            if since.elapsed() < IDLE_FOR && connection.is_usable().await {
                return Some(connection);
            }
        }
    }

    async fn open(&self, within: Duration) -> Result<Connection, Fault> {
        let tcp = self.dial(within).await?;
        let stream: Box<dyn Stream> = match &self.tls {
            None => Box::new(tcp),
            Some((connector, name)) => match connector.connect(name.clone(), tcp).await {
                Ok(stream) => Box::new(stream),
                Err(error) => return Err(Fault::Broken(tls::explain(&error))),
            },
        };
        let mut builder = http1::Builder::new();
        builder.max_buf_size(READ_BUFFER);
        let (sender, line) =
            builder.handshake(TokioIo::new(stream)).await.map_err(|error| Fault::Broken(tls::explain(&error)))?;
        Ok(Connection { sender, line: Line { future: Box::pin(line), over: false } })
    }

    /// Tries the addresses of the host in turn. Each has an equal share of the time, and the last one all that is left:
    /// whoever asked says when that is over.
    async fn dial(&self, within: Duration) -> Result<TcpStream, Fault> {
        let (host, port) = (self.config.server.host(), self.config.server.port());
        let found = lookup_host((host, port)).await;
        let found = found.map_err(|error| Fault::Refused(format!("the name {host:?} cannot be resolved: {error}")))?;
        let addresses: Vec<SocketAddr> = found.take(MAX_ADDRESSES).collect();
        let share = within / u32::try_from(addresses.len().max(1)).unwrap_or(1);
        let mut failures = Vec::new();
        for (at, address) in addresses.iter().enumerate() {
            let patience = if at + 1 < addresses.len() { share } else { within };
            let reason = match timeout(patience, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    // Requests are small and wait for their answer. Where this cannot be set, they are only slower.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("no answer within {patience:?}"),
            };
            failures.push(format!("cannot connect to {address}: {reason}"));
        }
        if failures.is_empty() {
            failures.push(format!("the name {host:?} has no address"));
        }
        Err(Fault::Refused(failures.join("; ")))
    }
}

/// hyper's side of a connection: it reads and writes when it is polled.
struct Line {
    future: Pin<Box<http1::Connection<Io, Full<Bytes>>>>,
    over: bool,
}

impl Line {
    /// Drives the connection until `future` is done. What goes wrong with the connection reaches `future` by itself.
    async fn until<F: Future>(&mut self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|cx| {
            self.over = self.over || self.future.as_mut().poll(cx).is_ready();
            future.as_mut().poll(cx)
        })
        .await
    }
}

/// One connection.
pub(crate) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    line: Line,
}

/// A connection broke before the head of an answer came.
struct Broken {
    error: hyper::Error,
    /// No byte of the request was written.
    unsent: bool,
}

impl Broken {
    fn fault(&self) -> Fault {
        Fault::Broken(tls::explain(&self.error))
    }
}

impl Connection {
    async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Broken> {
        let response = self.line.until(self.sender.try_send_request(request)).await;
        response.map_err(|mut failed| {
            let unsent = failed.take_message().is_some();
            Broken { error: failed.into_error(), unsent }
        })
    }

    /// The next part of a body; `None` at its end.
    pub(crate) async fn part(&mut self, body: &mut Incoming) -> Option<Result<Bytes, Fault>> {
        loop {
            match self.line.until(body.frame()).await? {
                Ok(frame) => match frame.into_data() {
                    Ok(bytes) => return Some(Ok(bytes)),
                    Err(_trailers) => continue,
                },
                Err(error) => return Some(Err(Fault::Broken(tls::explain(&error)))),
            }
        }
    }

    /// Takes what came since the connection was used, such as its end.
    async fn is_usable(&mut self) -> bool {
        self.line.until(std::future::ready(())).await;
        !self.line.over && self.sender.is_ready()
    }
}
