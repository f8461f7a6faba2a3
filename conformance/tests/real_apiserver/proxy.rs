//! [`Proxy`]: carries bytes between informers and the server, and does to them what networks do.
//!
//! It knows nothing of TLS or HTTP, and listens on loopback as the server does, so certificates hold. An acceptor
//! thread gives each connection two threads, one per direction; only what comes from the server is tampered with.
//! Faults that count bytes count them per connection, from the moment in which the fault is set.

use crate::harness::eventually;
use socket2::SockRef;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often a thread with nothing to do looks whether something was asked of it.
const LOOK: Duration = Duration::from_millis(10);

/// Bytes that are carried at once.
const CHUNK: usize = 16 * 1024;

/// Between two bytes of a connection that drips: some two thousand in a second.
const DRIP: Duration = Duration::from_micros(400);

/// Connections that stand at the same time: each informer needs two at most, so more is a leak, and is turned away.
const MAX_CONNECTIONS: usize = 16;

/// What the network does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    /// It carries everything.
    Good,
    /// Nobody listens. Connections that stand, stay.
    Refusing,
    /// Connections are reset once so many more bytes have come from the server.
    ResetAfter(usize),
    /// The same with a clean end of the stream, in the middle of whatever it is in the middle of.
    CloseAfter(usize),
    /// After so many more bytes from the server nothing passes any more; connections are taken all the same.
    StallAfter(usize),
    /// The server's bytes come one at a time.
    Dripping,
    /// The server's bytes are held back for so long, and come in one burst.
    Coalescing(Duration),
    /// Connections end when they are as old as this.
    CutAt(Duration),
}

/// How often each fault struck.
#[derive(Debug, Default)]
pub(crate) struct Struck {
    pub(crate) resets: AtomicUsize,
    pub(crate) closes: AtomicUsize,
    pub(crate) stalls: AtomicUsize,
    pub(crate) cuts: AtomicUsize,
    pub(crate) bursts: AtomicUsize,
    pub(crate) drips: AtomicUsize,
}

struct Shared {
    upstream: SocketAddr,
    /// And how often it was set.
    network: Mutex<(Network, u64)>,
    /// Connections that began before this was raised last are to end.
    epoch: AtomicUsize,
    stopping: AtomicBool,
    listens: AtomicBool,
    open: AtomicUsize,
    accepted: AtomicUsize,
    struck: Struck,
}

impl Shared {
    fn network(&self) -> (Network, u64) {
        *self.network.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

/// A network between here and the server.
pub(crate) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl Proxy {
    /// A good network.
    pub(crate) fn to(upstream: SocketAddr) -> Self {
        // Below the ephemeral range, as the server itself: no outgoing connection takes the port while nobody listens.
        let candidates = 10_000 + (std::process::id() % 5_000) as u16..20_000;
        let listener = candidates.into_iter().find_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok());
        let listener = listener.expect("a free port below the ephemeral range");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared {
            upstream,
            network: Mutex::new((Network::Good, 0)),
            epoch: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            listens: AtomicBool::new(true),
            open: AtomicUsize::new(0),
            accepted: AtomicUsize::new(0),
            struck: Struck::default(),
        });
        let acceptor = Arc::clone(&shared);
        let acceptor = thread::spawn(move || accept(&acceptor, address, Some(listener)));
        Proxy { address, shared, acceptor: Some(acceptor) }
    }

    /// Where informers connect.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the network; whether it listens is settled on return.
    pub(crate) fn set(&self, network: Network) {
        let mut now = self.shared.network.lock().unwrap_or_else(PoisonError::into_inner);
        *now = (network, now.1 + 1);
        drop(now);
        let wanted = network != Network::Refusing;
        eventually("the proxy listens, or does not", || {
            if self.shared.listens.load(Ordering::Relaxed) == wanted { Ok(()) } else { Err(format!("{network:?}")) }
        });
    }

    /// Ends the connections that stand.
    pub(crate) fn cut(&self) {
        self.shared.epoch.fetch_add(1, Ordering::Relaxed);
    }

    /// How often each fault struck.
    pub(crate) fn struck(&self) -> &Struck {
        &self.shared.struck
    }

    /// Connections that were taken.
    pub(crate) fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::Relaxed)
    }

    /// Connections that stand.
    pub(crate) fn open(&self) -> usize {
        self.shared.open.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        if let Some(acceptor) = self.acceptor.take() {
            // A proxy that panicked has failed the test by what it did not carry.
            drop(acceptor.join());
        }
    }
}

fn accept(shared: &Arc<Shared>, address: SocketAddr, mut listener: Option<TcpListener>) {
    while !shared.is_stopping() {
        let refuses = shared.network().0 == Network::Refusing;
        if refuses {
            listener = None;
        } else if listener.is_none() {
            listener = Some(TcpListener::bind(address).expect("its port is still free"));
        }
        shared.listens.store(listener.is_some(), Ordering::Relaxed);
        let Some(listener) = &listener else {
            thread::sleep(LOOK);
            continue;
        };
        listener.set_nonblocking(true).expect("a socket option");
        match listener.accept() {
            Ok((client, _)) => {
                shared.accepted.fetch_add(1, Ordering::Relaxed);
                // A server that is down resets what comes: dropped unread.
                let Ok(server) = TcpStream::connect(shared.upstream) else { continue };
                assert!(shared.open.fetch_add(1, Ordering::Relaxed) < MAX_CONNECTIONS, "connections leak");
                Connection::start(shared, client, server);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(LOOK),
            Err(error) => panic!("the proxy cannot accept: {error}"),
        }
    }
}

/// Both sockets, closed when both threads are done with them.
struct Connection {
    shared: Arc<Shared>,
    client: TcpStream,
    server: TcpStream,
    since: Instant,
    epoch: usize,
    /// Nothing passes, in either direction.
    stalled: AtomicBool,
    over: AtomicBool,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connection {
    fn start(shared: &Arc<Shared>, client: TcpStream, server: TcpStream) {
        for stream in [&client, &server] {
            stream.set_nonblocking(false).expect("a socket option");
            stream.set_nodelay(true).expect("a socket option");
            stream.set_read_timeout(Some(LOOK)).expect("a socket option");
        }
        let (stalled, over) = (AtomicBool::new(false), AtomicBool::new(false));
        let epoch = shared.epoch.load(Ordering::Relaxed);
        let (shared, since) = (Arc::clone(shared), Instant::now());
        let up = Arc::new(Connection { shared, client, server, since, epoch, stalled, over });
        let down = Arc::clone(&up);
        thread::spawn(move || up.carry_up());
        thread::spawn(move || down.carry_down());
    }

    fn is_over(&self) -> bool {
        let is_cut = self.shared.epoch.load(Ordering::Relaxed) != self.epoch;
        is_cut || self.over.load(Ordering::Relaxed) || self.shared.is_stopping()
    }

    /// Both directions end; what is not read yet is lost.
    fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
        for stream in [&self.client, &self.server] {
            // It may have ended from the other side.
            drop(stream.shutdown(Shutdown::Both));
        }
    }

    /// The client learns by a reset: its socket is closed with nothing left to send.
    fn reset(&self) {
        SockRef::from(&self.client).set_linger(Some(Duration::ZERO)).expect("a socket option");
        self.over.store(true, Ordering::Relaxed);
        drop(self.server.shutdown(Shutdown::Both));
    }

    /// From the client to the server.
    fn carry_up(&self) {
        let mut buffer = vec![0; CHUNK];
        while !self.is_over() {
            if self.stalled.load(Ordering::Relaxed) {
                thread::sleep(LOOK);
                continue;
            }
            match (&self.client).read(&mut buffer) {
                Err(error) if is_idle(&error) => {}
                Ok(read) if read > 0 && (&self.server).write_all(&buffer[..read]).is_ok() => {}
                Ok(_) | Err(_) => break,
            }
        }
        if !self.over.load(Ordering::Relaxed) {
            self.end();
        }
    }

    /// From the server to the client, through the network as it is.
    fn carry_down(&self) {
        let mut buffer = vec![0; CHUNK];
        let mut held = Vec::new();
        let mut held_since = None;
        let mut passed = 0;
        let mut set = u64::MAX;
        while !self.is_over() {
            let (network, times) = self.shared.network();
            if std::mem::replace(&mut set, times) != times {
                passed = 0;
            }
            let struck = &self.shared.struck;
            let is_due = match network {
                Network::Coalescing(span) => held_since.is_some_and(|since: Instant| since.elapsed() >= span),
                Network::Good
                | Network::Refusing
                | Network::ResetAfter(_)
                | Network::CloseAfter(_)
                | Network::StallAfter(_)
                | Network::Dripping
                | Network::CutAt(_) => true,
            };
            if is_due && !held.is_empty() {
                struck.bursts.fetch_add(usize::from(held_since.take().is_some()), Ordering::Relaxed);
                if (&self.client).write_all(&std::mem::take(&mut held)).is_err() {
                    break;
                }
            }
            let room = match network {
                Network::ResetAfter(bytes) if bytes == passed => {
                    struck.resets.fetch_add(1, Ordering::Relaxed);
                    self.reset();
                    return;
                }
                Network::CloseAfter(bytes) if bytes == passed => {
                    struck.closes.fetch_add(1, Ordering::Relaxed);
                    break;
                }
                Network::CutAt(age) if self.since.elapsed() >= age => {
                    struck.cuts.fetch_add(1, Ordering::Relaxed);
                    break;
                }
                Network::StallAfter(bytes) if bytes == passed => {
                    struck.stalls.fetch_add(1, Ordering::Relaxed);
                    self.stalled.store(true, Ordering::Relaxed);
                    while !self.is_over() && self.shared.network().1 == times {
                        thread::sleep(LOOK);
                    }
                    self.stalled.store(false, Ordering::Relaxed);
                    continue;
                }
                Network::ResetAfter(bytes) | Network::CloseAfter(bytes) | Network::StallAfter(bytes) => bytes - passed,
                Network::Dripping => 1,
                Network::Good | Network::Refusing | Network::Coalescing(_) | Network::CutAt(_) => CHUNK,
            };
            let room = room.min(CHUNK);
            match (&self.server).read(&mut buffer[..room]) {
                Err(error) if is_idle(&error) => {}
                Ok(read) if read > 0 => {
                    passed += read;
                    if matches!(network, Network::Coalescing(_)) {
                        held.extend_from_slice(&buffer[..read]);
                        held_since.get_or_insert_with(Instant::now);
                        continue;
                    }
                    if network == Network::Dripping {
                        struck.drips.fetch_add(1, Ordering::Relaxed);
                        thread::sleep(DRIP);
                    }
                    if (&self.client).write_all(&buffer[..read]).is_err() {
                        break;
                    }
                }
                Ok(_) | Err(_) => break,
            }
        }
        if !self.over.load(Ordering::Relaxed) {
            // What the server said last still reaches the client, unless the network kept it.
            drop((&self.client).write_all(&held));
            self.end();
        }
    }
}

/// Nothing came while we listened.
fn is_idle(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
