//! [`Served`]: a [`Server`] on a loopback port, over HTTP/1.1.
//!
//! ```text
//!  accept thread ─► per connection: reader thread ──request──► state (one lock: server, calls, clock)
//!                                   writer thread ◄──buffer─── outputs, put there by whoever held the lock
//!  ticker thread ── sleeps until the server's deadline ──► state
//! ```
//!
//! Nobody writes to a socket under the lock. A connection whose buffer is full pauses its call in the server, so a
//! client that does not read costs at most [`HIGH_WATER`] bytes and delays nobody; what piles up for a writer goes out
//! in one write.
//!
//! ```no_run
//! use informer_sim::{Config, Fill, Served, Server};
//!
//! let mut server = Server::new(Config { seed: 7, ..Config::default() });
//! server.register_common();
//! let pods = "pods=1000:6900".parse::<Fill>().unwrap().apply(&mut server, 7).unwrap();
//! let mut served = Served::start(server, "127.0.0.1:0".parse().unwrap()).unwrap();
//! println!("kubectl --server={} get --raw /api/v1/pods", served.url());
//! served.with(|server, _now| server.delete(&pods, &"ns-0/pod-000000".parse().unwrap()));
//! served.restart().unwrap();
//! served.stop();
//! ```

mod connection;

use crate::fill::Churn;
use crate::message::{CallId, Input, Output};
use crate::server::Server;
use connection::Connection;
use informer_core::time::{Deadline, Duration, Time};
use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// Unsent bytes of one connection above which its call is paused. Enough to keep a fast client busy.
pub const HIGH_WATER: usize = 1024 * 1024;

/// Unsent bytes below which a paused call goes on.
const LOW_WATER: usize = 256 * 1024;

/// Timers run at most so often. A fast churn is done in batches, and the lock is free in between.
const TICK: Duration = Duration::from_millis(1);

/// How long clients have to take what is left for them when the server goes down.
const FLUSH: Duration = Duration::from_millis(500);

/// A server on a port of this machine. Dropping it stops it.
pub struct Served {
    addr: SocketAddr,
    shared: Arc<Shared>,
    accept: Option<JoinHandle<()>>,
    ticker: Option<JoinHandle<()>>,
}

/// What all threads share.
struct Shared {
    state: Mutex<State>,
    /// The deadline moved, or it is time to stop.
    changed: Condvar,
    epoch: Instant,
}

struct State {
    server: Server,
    calls: HashMap<CallId, Arc<Connection>>,
    connections: Vec<(Arc<Connection>, [JoinHandle<()>; 2])>,
    churns: Vec<Churn>,
    next_id: u64,
    /// When the ticker has to run.
    deadline: Option<Deadline>,
    /// Connections are taken.
    listening: bool,
    stopped: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic of the closure given to `with` is the caller's; the state is still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Time {
        Time::ZERO + self.epoch.elapsed()
    }

    /// Carries out what the server has to say. Every change of the server ends here.
    fn drain(&self, state: &mut State) {
        let deadline = loop {
            match state.server.poll_output() {
                Output::Head { id, status, headers } => {
                    if let Some(connection) = state.calls.get(&id) {
                        connection.head(status, &headers);
                    }
                }
                Output::Body { id, bytes } => {
                    if state.calls.get(&id).is_some_and(|connection| connection.body(&bytes)) {
                        state.server.handle(self.now(), Input::Pause { id });
                    }
                }
                Output::End { id } => {
                    if let Some(connection) = state.calls.remove(&id) {
                        connection.end();
                    }
                }
                Output::Wait(deadline) => break deadline,
            }
        };
        let churns = state.churns.iter().filter_map(Churn::next);
        let deadline = churns.map(|at| Some(Deadline { at, why: "churn" })).fold(deadline, Deadline::sooner);
        if deadline != state.deadline {
            state.deadline = deadline;
            self.changed.notify_all();
        }
    }

    /// One input, at the time it is.
    fn feed(&self, input: Input) {
        let mut state = self.lock();
        state.server.handle(self.now(), input);
        self.drain(&mut state);
    }

    /// Hands a request to the server; `None` if it is going down.
    fn request(&self, connection: &Arc<Connection>, request: crate::HttpRequest) -> Option<CallId> {
        let mut state = self.lock();
        if !state.listening {
            return None;
        }
        state.next_id += 1;
        let id = CallId(state.next_id);
        state.calls.insert(id, Arc::clone(connection));
        connection.begin(id);
        state.server.handle(self.now(), Input::Request { id, request });
        self.drain(&mut state);
        Some(id)
    }

    /// The client is gone, or does not take what we send.
    fn closed(&self, id: CallId) {
        let mut state = self.lock();
        if state.calls.remove(&id).is_some() {
            state.server.handle(self.now(), Input::Closed { id });
            self.drain(&mut state);
        }
    }
}

impl Served {
    /// Puts `server` on `addr` (port 0 picks a free one) and starts its threads.
    ///
    /// # Errors
    ///
    /// If the address cannot be listened on.
    pub fn start(server: Server, addr: SocketAddr) -> io::Result<Served> {
        let listener = TcpListener::bind(addr)?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                server,
                calls: HashMap::new(),
                connections: Vec::new(),
                churns: Vec::new(),
                next_id: 0,
                deadline: None,
                listening: true,
                stopped: false,
            }),
            changed: Condvar::new(),
            epoch: Instant::now(),
        });
        let ticking = Arc::clone(&shared);
        let ticker = thread::Builder::new().name("sim-ticker".into()).spawn(move || tick(&ticking))?;
        let mut served = Served { addr, shared, accept: None, ticker: Some(ticker) };
        served.listen(listener)?;
        Ok(served)
    }

    /// The base of its URLs, as in `http://127.0.0.1:43210`.
    pub fn url(&self) -> String {
        format!("http://{}", self.reachable())
    }

    /// The address it listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Works with the server at the present time; what comes of it is sent before this returns.
    pub fn with<R>(&self, work: impl FnOnce(&mut Server, Time) -> R) -> R {
        let mut state = self.shared.lock();
        let now = self.shared.now();
        state.server.handle(now, Input::Tick);
        let result = work(&mut state.server, now);
        self.shared.drain(&mut state);
        result
    }

    /// Keeps changing objects until the server is stopped.
    pub fn churn(&self, churn: Churn) {
        let mut state = self.shared.lock();
        state.churns.push(churn);
        self.shared.drain(&mut state);
    }

    /// Goes down and comes back on the same port: every answer ends, connections close, objects and versions stay, and
    /// the watch cache is empty, so that watches from before now get 410.
    ///
    /// # Errors
    ///
    /// If the port cannot be listened on again; the server is down then, and this can be tried again.
    pub fn restart(&mut self) -> io::Result<()> {
        self.down();
        self.up()
    }

    /// Goes down: watches end cleanly, connections close, and new ones are refused. Nothing happens if it is down.
    pub fn down(&mut self) {
        {
            let mut state = self.shared.lock();
            if !state.listening {
                return;
            }
            state.listening = false;
            state.server.restart();
            self.shared.drain(&mut state);
        }
        if let Some(accept) = self.accept.take() {
            // Wakes the thread that waits for a connection. If it cannot, the thread is gone already.
            drop(TcpStream::connect(self.reachable()));
            join(accept);
        }
        let connections = std::mem::take(&mut self.shared.lock().connections);
        for (connection, _) in &connections {
            connection.close_when_flushed();
        }
        let patience = Instant::now() + FLUSH;
        for (connection, threads) in connections {
            connection.wait_closed(patience);
            connection.shut();
            threads.into_iter().for_each(join);
        }
    }

    /// Comes back after [`down`](Served::down), on the same port. Nothing happens if it is up or stopped.
    ///
    /// # Errors
    ///
    /// If the port cannot be listened on.
    pub fn up(&mut self) -> io::Result<()> {
        {
            let mut state = self.shared.lock();
            if state.listening || state.stopped {
                return Ok(());
            }
            state.listening = true;
        }
        let listening = TcpListener::bind(self.addr).and_then(|listener| self.listen(listener));
        if listening.is_err() {
            self.shared.lock().listening = false;
        }
        listening
    }

    /// Goes down for good and ends all threads. Stopping twice does nothing more.
    pub fn stop(&mut self) {
        self.down();
        self.shared.lock().stopped = true;
        self.shared.changed.notify_all();
        if let Some(ticker) = self.ticker.take() {
            join(ticker);
        }
    }

    fn listen(&mut self, listener: TcpListener) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let accept = thread::Builder::new().name("sim-accept".into()).spawn(move || accept(&shared, &listener))?;
        self.accept = Some(accept);
        Ok(())
    }

    /// Where a client of this machine finds it: an unspecified address is no destination.
    fn reachable(&self) -> SocketAddr {
        let mut addr = self.addr;
        match addr {
            SocketAddr::V4(v4) if v4.ip().is_unspecified() => addr.set_ip(Ipv4Addr::LOCALHOST.into()),
            SocketAddr::V6(v6) if v6.ip().is_unspecified() => addr.set_ip(Ipv6Addr::LOCALHOST.into()),
            SocketAddr::V4(_) | SocketAddr::V6(_) => {}
        }
        addr
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop();
    }
}

impl std::fmt::Debug for Served {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Served({})", self.addr)
    }
}

/// A thread that panicked has said so on standard error; the others must still be joined.
fn join(thread: JoinHandle<()>) {
    drop(thread.join());
}

fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    for stream in listener.incoming() {
        let mut state = shared.lock();
        if !state.listening {
            return;
        }
        state.connections.retain(|(_, threads)| !threads.iter().all(JoinHandle::is_finished));
        // A client that is gone before we look costs nothing; nor does one too many for the descriptors we have.
        let Ok(opened) = stream.and_then(|stream| connection::open(shared, stream)) else { continue };
        state.connections.push(opened);
    }
}

fn tick(shared: &Shared) {
    let mut state = shared.lock();
    while !state.stopped {
        let now = shared.now();
        let wait = match state.deadline {
            Some(deadline) if deadline.at <= now => {
                let State { server, churns, .. } = &mut *state;
                for churn in churns {
                    churn.advance(server, now);
                }
                server.handle(now, Input::Tick);
                shared.drain(&mut state);
                TICK
            }
            Some(deadline) => deadline.at.since(now).max(TICK),
            // Woken when there is a deadline.
            None => Duration::from_secs(3_600),
        };
        state = shared.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
    }
}
