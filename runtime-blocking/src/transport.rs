//! [`Transport`]: connections to one API server: name resolution, TCP, TLS, and those that wait idle.

use crate::aside::Aside;
use crate::http::Wire;
use crate::socket::{Handle, Socket};
use informer_core::wire::Head;
use informer_runtime::Error;
use informer_runtime::addresses::{Refusals, shares};
use informer_runtime::config::{Config, HttpVersion};
use informer_runtime::fault::Fault;
use informer_runtime::idle::Idle;
use informer_runtime::outgoing::Outgoing;
use informer_runtime::sync::{Arc, Mutex};
use informer_runtime::tls::{self, TlsSource};
use rustls::ClientConnection;
use rustls_pki_types::ServerName;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Instant;

/// Connections to one API server.
pub(crate) struct Transport {
    pub(crate) config: Config,
    tls: Option<(TlsSource, ServerName<'static>)>,
    idle: Idle<Wire>,
    aside: Aside,
    resolved: Arc<Mutex<Option<Resolved>>>,
}

/// What the last look-up of the host found: those that waited for it need none of their own.
#[derive(Clone)]
struct Resolved {
    asked: Instant,
    found: Result<Vec<SocketAddr>, Arc<io::Error>>,
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
}

/// Is told of each socket as soon as there is one, and of each connection that stands; an error gives up.
pub(crate) trait Watcher {
    fn connecting(&self, socket: &Handle) -> Result<(), Fault>;
    fn connected(&self, wire: &mut Wire) -> Result<(), Fault>;
}

impl Transport {
    pub(crate) fn new(config: Config) -> Result<Self, Error> {
        config.check_http1("informer-blocking")?;
        let tls = match TlsSource::new(&config, HttpVersion::Http1)? {
            None => None,
            Some(tls) => Some((tls, tls::server_name(&config)?)),
        };
        Ok(Transport { config, tls, idle: Idle::default(), aside: Aside::default(), resolved: Arc::default() })
    }

    /// Sends a request, over an idle connection if it may and there is one, and reads the head of its answer.
    pub(crate) fn exchange(
        &self,
        outgoing: &Outgoing,
        limits: &Limits,
        watcher: &dyn Watcher,
    ) -> Result<Answer, Fault> {
        if outgoing.fresh {
            // What lies beside a suspect is suspect.
            self.forget_idle();
            if let Some((source, _)) = &self.tls {
                source.suspect();
            }
        }
        // A watch is open for minutes: it gets a connection of its own, and none is kept after it.
        let may_reuse = !outgoing.fresh && !outgoing.watch;
        let mut standing = may_reuse.then(|| self.take_idle()).flatten();
        let mut sends = 0;
        loop {
            let opened = standing.is_none();
            let mut wire = match standing.take() {
                Some(wire) => wire,
                None => self.connect(limits.connect, watcher)?,
            };
            watcher.connected(&mut wire)?;
            wire.set_deadline(limits.answer)?;
            sends += 1;
            match wire.ask(outgoing) {
                Ok(head) => return Ok(Answer { wire, head }),
                Err(_) if outgoing.may_go_again(sends, wire.unanswered(opened)) => {}
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Keeps the connection of an answer for another request if it is good for one.
    pub(crate) fn keep(&self, mut answer: Answer, outgoing: &Outgoing) {
        if !outgoing.watch && answer.wire.is_usable() {
            self.idle.keep(answer.wire);
        }
    }

    /// Forgets idle connections: they may be as dead as the one that is suspected.
    pub(crate) fn forget_idle(&self) {
        self.idle.clear();
    }

    fn take_idle(&self) -> Option<Wire> {
        std::iter::from_fn(|| self.idle.take()).find_map(|mut wire| wire.is_usable().then_some(wire))
    }

    fn connect(&self, by: Instant, watcher: &dyn Watcher) -> Result<Wire, Fault> {
        let server = &self.config.server;
        #[cfg(unix)]
        if let Some(path) = server.unix_socket() {
            return self.shake_hands(self.open_unix(path, by)?, by, watcher);
        }
        let (mut refusals, mut last) = (Refusals::default(), None);
        let addresses = self.resolve(by)?;
        for (address, patience) in shares(addresses, by.saturating_duration_since(Instant::now())) {
            let left = by.saturating_duration_since(Instant::now());
            if left.is_zero() {
                refusals.add(address, "the time for it ran out");
                break;
            }
            match TcpStream::connect_timeout(&address, patience.min(left)) {
                Ok(tcp) => {
                    // Requests are written whole: waiting for more to send only delays them.
                    let _ = tcp.set_nodelay(true);
                    return self.shake_hands(Handle::Tcp(tcp), by, watcher);
                }
                Err(error) => {
                    refusals.add(address, &error);
                    last = Some(error);
                }
            }
        }
        let fault = Fault::refused(refusals.of(server.host()));
        Err(match last {
            Some(error) => fault.because(error),
            None => fault,
        })
    }

    fn shake_hands(&self, handle: Handle, by: Instant, watcher: &dyn Watcher) -> Result<Wire, Fault> {
        watcher.connecting(&handle)?;
        let socket = Socket::new(handle, by);
        let Some((source, name)) = &self.tls else { return Ok(Wire::plain(socket)) };
        let failed = |error: &(dyn std::error::Error + 'static)| {
            Fault::broken(format_args!("TLS with {}: {}", self.config.server.authority(), source.failed(error)))
        };
        let tls =
            ClientConnection::new(source.current(), name.clone()).map_err(|error| failed(&error).because(error))?;
        Wire::tls(socket, tls).map_err(|error| failed(&error).because(error))
    }

    /// The addresses of the server's host.
    fn resolve(&self, by: Instant) -> Result<Vec<SocketAddr>, Fault> {
        let (host, port) = (self.config.server.host(), self.config.server.port());
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, port)]);
        }
        let began = Instant::now();
        let late = |why| Fault::refused(format_args!("{host:?} was not resolved in time{why}"));
        let turn = self.aside.turn(by).ok_or_else(|| late(": the system has not answered an earlier look-up yet"))?;
        let known = self.resolved.lock().clone().filter(|known| known.asked >= began);
        let found = match known {
            // By the one that this one has waited for.
            Some(known) => known.found,
            None => {
                let (name, resolved) = (host.to_string(), Arc::clone(&self.resolved));
                let look_up = move || {
                    let asked = Instant::now();
                    let found = (name.as_str(), port).to_socket_addrs();
                    let found = found.map(Iterator::collect::<Vec<_>>).map_err(Arc::new);
                    *resolved.lock() = Some(Resolved { asked, found: found.clone() });
                    found
                };
                turn.call(by, look_up)?.ok_or_else(|| late(""))?
            }
        };
        found.map_err(|error| Fault::refused(format_args!("{host:?} cannot be resolved: {error}")).because(error))
    }

    #[cfg(unix)]
    fn open_unix(&self, path: &std::path::Path, by: Instant) -> Result<Handle, Fault> {
        let (place, to) = (path.display(), path.to_owned());
        let refused = |why: &dyn std::fmt::Display| Fault::refused(format_args!("cannot connect to {place}: {why}"));
        let turn = self.aside.turn(by).ok_or_else(|| refused(&"an earlier attempt still waits for the server"))?;
        match turn.call(by, move || std::os::unix::net::UnixStream::connect(to))? {
            Some(Ok(socket)) => Ok(Handle::Unix(socket)),
            Some(Err(error)) => Err(refused(&error).because(error)),
            None => Err(refused(&"the time for it ran out")),
        }
    }
}
