//! A server of prepared bytes: `served OBJECTS EVENTS`.
//!
//! It makes the Pods and events before it listens, so that serving them costs little more than the copy into the socket,
//! and every client gets the same bytes. Then it prints `listening HOST:PORT`, and ends when its standard input does.
//!
//! | request | answer |
//! |---|---|
//! | `GET /api/v1/pods?limit=500[&continue=…]` | one page, as etcd would serve it |
//! | the same with `resourceVersion=0` and no `continue` | all objects in one list, as a watch cache does |
//! | `GET /api/v1/pods?watch=true&sendInitialEvents=true` | all objects as ADDED, the bookmark that ends them; then a watch |
//! | `GET /api/v1/pods?watch=true` | a watch: silent until events are asked for |
//! | `POST /events?count=N` | sends the first N MODIFIED events on the newest watch, as fast as its client reads them |
//!
//! Plain HTTP/1.1. Watches are chunked, one event per chunk: the API server flushes each.

mod bytes;
mod http;

use bytes::Prepared;
use http::{Get, Peer};
use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long a trigger waits for a watch: clients open it right after their sync.
const PATIENCE: Duration = Duration::from_secs(10);

struct Shared {
    prepared: Prepared,
    /// The watches that are open, the newest last: each waits for a number of events.
    watches: Mutex<VecDeque<Sender<usize>>>,
}

fn main() -> ExitCode {
    let numbers: Option<Vec<usize>> = std::env::args().skip(1).map(|arg| arg.parse().ok()).collect();
    let Some([objects, events]) = numbers.as_deref() else {
        eprintln!("usage: served OBJECTS EVENTS");
        return ExitCode::from(2);
    };
    let prepared = Prepared::new(*objects, *events);
    let listener = match TcpListener::bind(("127.0.0.1", 0)).and_then(|l| Ok((l.local_addr()?, l))) {
        Ok((address, listener)) => {
            println!("listening {address} {}", prepared.list_bytes());
            listener
        }
        Err(error) => {
            eprintln!("served: cannot listen on loopback: {error}");
            return ExitCode::FAILURE;
        }
    };
    let shared = Arc::new(Shared { prepared, watches: Mutex::default() });
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || {
                // A client that goes away is no fault of the server.
                let _ = converse(&shared, socket);
            });
        }
    });
    // Whoever started it holds the other end: it does not outlive them.
    let _ = io::stdin().read_to_end(&mut Vec::new());
    ExitCode::SUCCESS
}

/// Serves one connection to its end.
fn converse(shared: &Shared, socket: TcpStream) -> io::Result<()> {
    let mut peer = Peer::new(socket)?;
    while let Some(get) = peer.request()? {
        match get.path.as_str() {
            "/api/v1/pods" if get.is("watch", "true") || get.is("watch", "1") => return watch(shared, &mut peer, &get),
            "/api/v1/pods" => list(shared, &mut peer, &get)?,
            "/events" => {
                let started = get.number("count").is_some_and(|count| trigger(shared, count));
                peer.answer(if started { "200 OK" } else { "409 Conflict" }, "application/json", &[b"{}"])?;
            }
            _ => peer.answer("404 Not Found", "application/json", &[br#"{"kind":"Status","code":404}"#])?,
        }
    }
    Ok(())
}

fn list(shared: &Shared, peer: &mut Peer, get: &Get) -> io::Result<()> {
    let all = shared.prepared.objects();
    let from = get.number("continue");
    let limit = get.number("limit").filter(|limit| *limit > 0);
    let page = match (from, limit) {
        (None, _) if get.is("resourceVersion", "0") => 0..all,
        (from, Some(limit)) => from.unwrap_or(0).min(all)..from.unwrap_or(0).saturating_add(limit).min(all),
        (from, None) => from.unwrap_or(0).min(all)..all,
    };
    let (head, items, tail) = shared.prepared.list(page);
    peer.answer("200 OK", "application/json", &[&head, items, tail])
}

fn watch(shared: &Shared, peer: &mut Peer, get: &Get) -> io::Result<()> {
    let (counts, asked): (_, Receiver<usize>) = channel();
    let mut body = peer.stream("application/json")?;
    if get.is("sendInitialEvents", "true") {
        shared.prepared.added(|parts| body.chunk(parts))?;
        body.chunk(&[shared.prepared.end_of_initial_events()])?;
        body.flush()?;
    }
    shared.watches.lock().expect("no watch panics").push_back(counts);
    while let Ok(count) = asked.recv() {
        for event in shared.prepared.modified(count) {
            body.chunk(&[event])?;
        }
        body.flush()?;
    }
    Ok(())
}

/// Sets the newest watch going.
fn trigger(shared: &Shared, count: usize) -> bool {
    let until = Instant::now() + PATIENCE;
    if count > shared.prepared.events() {
        return false;
    }
    while Instant::now() < until {
        let mut watches = shared.watches.lock().expect("no watch panics");
        if let Some(newest) = watches.back() {
            let sent = newest.send(count).is_ok();
            watches.clear();
            // The clients of earlier ones are gone; so is this one's end of its channel, when its client is.
            if sent {
                return true;
            }
        }
        drop(watches);
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}
