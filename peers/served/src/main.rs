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
//! | `POST /expire` | ends the newest watch with 410 Expired, so that its client lists again |
//! | the same `GET`s of `/apis/<group>/<version>/<plural>` | an empty collection, whose watches are silent |
//!
//! Plain HTTP/1.1. Watches are chunked, one event per chunk: the API server flushes each.

mod bytes;
mod empty;
mod http;

use bytes::Prepared;
use empty::Empty;
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
    /// The watches that are open, the newest last: each waits for what it is to send.
    watches: Mutex<VecDeque<Sender<Order>>>,
}

/// What a watch is asked to send.
#[derive(Clone, Copy)]
enum Order {
    /// So many events.
    Events(usize),
    /// That its version is gone; then it ends.
    Expired,
}

const EXPIRED: &[u8] = br#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}}
"#;

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
            "/events" | "/expire" => {
                let order = match get.path.as_str() {
                    "/expire" => Some(Order::Expired),
                    _ => get.number("count").filter(|count| *count <= shared.prepared.events()).map(Order::Events),
                };
                let started = order.is_some_and(|order| trigger(shared, order));
                peer.answer(if started { "200 OK" } else { "409 Conflict" }, "application/json", &[b"{}"])?;
            }
            path => match Empty::of(path) {
                Some(empty) if get.is("watch", "true") || get.is("watch", "1") => {
                    return silent(&mut peer, &empty, get.is("sendInitialEvents", "true"));
                }
                Some(empty) => peer.answer("200 OK", "application/json", &[empty.list().as_bytes()])?,
                None => peer.answer("404 Not Found", "application/json", &[br#"{"kind":"Status","code":404}"#])?,
            },
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
    let (counts, asked): (_, Receiver<Order>) = channel();
    let mut body = peer.stream("application/json")?;
    if get.is("sendInitialEvents", "true") {
        shared.prepared.added(|parts| body.chunk(parts))?;
        body.chunk(&[shared.prepared.end_of_initial_events()])?;
        body.flush()?;
    }
    shared.watches.lock().expect("no watch panics").push_back(counts);
    while let Ok(order) = asked.recv() {
        match order {
            Order::Events(count) => shared.prepared.modified(count).try_for_each(|event| body.chunk(&[event]))?,
            Order::Expired => {
                body.chunk(&[EXPIRED])?;
                return body.end();
            }
        }
        body.flush()?;
    }
    Ok(())
}

/// A watch on which nothing happens, until its client goes away.
fn silent(peer: &mut Peer, empty: &Empty<'_>, with_end_of_initial_events: bool) -> io::Result<()> {
    let mut body = peer.stream("application/json")?;
    if with_end_of_initial_events {
        body.chunk(&[empty.end_of_initial_events().as_bytes()])?;
    }
    body.flush()?;
    peer.request().map(|_| ())
}

/// Sets the newest watch going.
fn trigger(shared: &Shared, order: Order) -> bool {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        let mut watches = shared.watches.lock().expect("no watch panics");
        if let Some(newest) = watches.back() {
            let sent = newest.send(order).is_ok();
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
