//! [`Transport`]: connections to one API server: name resolution, TCP, TLS, and those that wait idle.

use crate::http::{Body, Fault, Outgoing, Socket, Wire};
use informer_core::wire::Head;
use informer_runtime::Error;
use informer_runtime::config::{Config, Secret};
use informer_runtime::sync::{Arc, Mutex};
use informer_runtime::tls;
use rustls::ClientConnection;
use rustls_pki_types::ServerName;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Idle connections that are kept: enough for the pages of a few lists and a controller's writes.
const MAX_IDLE: usize = 8;

/// How long a connection is kept idle: less than proxies and load balancers on the way allow.
const IDLE: Duration = Duration::from_secs(30);

/// Connections to one API server.
pub(crate) struct Transport {
    pub(crate) config: Config,
    tls: Option<(Arc<rustls::ClientConfig>, ServerName<'static>)>,
    idle: Mutex<Vec<(Instant, Wire)>>,
}

/// How long the parts of an exchange may take.
pub(crate) struct Limits {
    /// Until the connection stands.
    pub(crate) connect: Instant,
    /// Until the answer is complete; somebody else looks after it if `None`.
    pub(crate) answer: Option<Instant>,
}

/// An answer whose head has come.
pub(crate) struct Answer {
    pub(crate) wire: Wire,
    pub(crate) head: Head,
    pub(crate) body: Body,
}

/// Is told of each socket as soon as there is one, and of each connection that stands; an error gives up.
pub(crate) trait Watcher {
    fn connecting(&self, socket: &TcpStream) -> Result<(), Fault>;
    fn connected(&self, wire: &mut Wire) -> Result<(), Fault>;
}

impl Transport {
    pub(crate) fn new(config: Config) -> Result<Self, Error> {
        let tls = match config.tls_config()? {
            None => None,
            Some(tls) => Some((tls, tls::server_name(&config)?)),
        };
        Ok(Transport { config, tls, idle: Mutex::new(Vec::new()) })
    }

    /// The `Authorization` header for a request that starts now.
    pub(crate) fn authorization(&self, refresh: bool) -> Result<Option<Secret>, Fault> {
        self.config.authorization(refresh).map_err(|error| Fault::broken(&error).because(error))
    }

    /// Sends a request, over an idle connection if it may and there is one, and reads the head of its answer.
    pub(crate) fn exchange(
        &self,
        outgoing: &Outgoing<'_>,
        may_reuse: bool,
        limits: &Limits,
        watcher: &dyn Watcher,
    ) -> Result<Answer, Fault> {
        if let Some(mut wire) = may_reuse.then(|| self.take_idle()).flatten() {
            watcher.connected(&mut wire)?;
            wire.set_deadline(limits.answer)?;
            match wire.ask(outgoing) {
                Ok((head, body)) => return Ok(Answer { wire, head, body }),
                // The server closed it while the request was on its way.
                Err(_) if outgoing.repeatable && !wire.answered() => {}
                Err(fault) => return Err(fault),
            }
        }
        let mut wire = self.connect(limits.connect, watcher)?;
        watcher.connected(&mut wire)?;
        wire.set_deadline(limits.answer)?;
        let (head, body) = wire.ask(outgoing)?;
        Ok(Answer { wire, head, body })
    }

    /// Keeps a connection for another request if it is good for one.
    pub(crate) fn keep(&self, wire: Wire, body: &Body) {
        if wire.is_reusable(body) {
            let mut idle = self.idle.lock();
            let displaced = if idle.len() == MAX_IDLE { Some(idle.remove(0)) } else { None };
            idle.push((Instant::now(), wire));
            drop(idle);
            drop(displaced);
        }
    }

    /// Forgets idle connections: they may be as dead as the one that is suspected.
    pub(crate) fn forget_idle(&self) {
        drop(std::mem::take(&mut *self.idle.lock()));
    }

    fn take_idle(&self) -> Option<Wire> {
        loop {
            let (since, mut wire) = self.idle.lock().pop()?;
            if since.elapsed() < IDLE && wire.is_quiet() {
                return Some(wire);
            }
        }
    }

    fn connect(&self, by: Instant, watcher: &dyn Watcher) -> Result<Wire, Fault> {
        let server = &self.config.server;
        let mut refused = None;
        for address in resolve(server.host(), server.port(), by)? {
            let left = by.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            match TcpStream::connect_timeout(&address, left) {
                Ok(tcp) => return self.shake_hands(tcp, by, watcher),
                Err(error) => refused = Some((address, error)),
            }
        }
        let authority = server.authority();
        Err(match refused {
            Some((address, error)) if address.to_string() == authority => {
                Fault::refused(format_args!("cannot connect to {authority}: {error}")).because(error)
            }
            Some((address, error)) => {
                Fault::refused(format_args!("cannot connect to {authority} ({address}): {error}")).because(error)
            }
            None => Fault::refused(format_args!("cannot connect to {authority}: the time for it ran out")),
        })
    }

    fn shake_hands(&self, tcp: TcpStream, by: Instant, watcher: &dyn Watcher) -> Result<Wire, Fault> {
        watcher.connecting(&tcp)?;
        // Requests are written whole: waiting for more to send only delays them.
        tcp.set_nodelay(true)?;
        let socket = Socket::new(tcp, by);
        let Some((config, name)) = &self.tls else { return Ok(Wire::plain(socket)) };
        let failed = |error: &(dyn std::error::Error + 'static)| {
            Fault::broken(format_args!("TLS with {}: {}", self.config.server.authority(), tls::explain(error)))
        };
        let tls =
            ClientConnection::new(Arc::clone(config), name.clone()).map_err(|error| failed(&error).because(error))?;
        Wire::tls(socket, tls).map_err(|error| failed(&error).because(error))
    }
}

/// The addresses of a host. The system's resolver cannot be interrupted, so a name is resolved on a thread that is left
/// behind if it takes too long; it holds nothing but the name.
fn resolve(host: &str, port: u16, by: Instant) -> Result<Vec<SocketAddr>, Fault> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let (sender, receiver) = mpsc::sync_channel(1);
    let name = host.to_string();
    let look_up = move || {
        let found = (name.as_str(), port).to_socket_addrs().map(Iterator::collect::<Vec<_>>);
        // Whoever asked may be gone.
        let _ = sender.send(found);
    };
    let thread = std::thread::Builder::new().name("informer-resolve".into()).spawn(look_up);
    thread.map_err(|error| Fault::refused(format_args!("no thread to resolve {host:?}: {error}")).because(error))?;
    let left = by.saturating_duration_since(Instant::now());
    match receiver.recv_timeout(left) {
        Ok(Ok(addresses)) if addresses.is_empty() => Err(Fault::refused(format_args!("{host:?} has no address"))),
        Ok(Ok(addresses)) => Ok(addresses),
        Ok(Err(error)) => Err(Fault::refused(format_args!("{host:?} cannot be resolved: {error}")).because(error)),
        Err(_) => Err(Fault::refused(format_args!("{host:?} was not resolved in time"))),
    }
}
