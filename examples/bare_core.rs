//! The core with no runtime at all: one loop over a plain `TcpStream` carries out what the machine asks for.
//!
//! ```text
//! cargo run --release --example bare_core
//! ```

use informer_core::decode::{Codec, NoGuard};
use informer_core::informer::{HandlerId, Informer, InformerConfig, Input, Output};
use informer_core::listener::{Delivery, Overflow, Ring};
use informer_core::reflector::{End, ListStrategy};
use informer_core::store::Store;
use informer_core::time::Time;
use informer_core::wire::{Head, Request, RequestId};
use informer_core::{DynamicObject, Resource};
use informer_sim::serve::Served;
use informer_sim::{Config, Server};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const CONFIG_MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");

fn main() -> io::Result<()> {
    let mut server = Server::new(Config::default());
    server.register_common();
    for name in ["a", "b"] {
        server.put(&CONFIG_MAPS, &object(name, 1)).map_err(io::Error::other)?;
    }
    let served = Served::start(server, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let told = watch(&served)?;
    let wanted = ["added web/a", "added web/b", "synced", "updated web/a", "deleted web/b"];
    assert!(told.iter().zip(wanted).all(|(told, wanted)| told.starts_with(wanted)), "{told:?}");
    println!("checked: {} deliveries in the right order, from a list and a watch over plain sockets", told.len());
    Ok(())
}

/// Drives an informer by hand until it has told of a change and a deletion.
fn watch(served: &Served) -> io::Result<Vec<String>> {
    let mut config = InformerConfig::new(CONFIG_MAPS);
    config.reflector.strategy = ListStrategy::Paged;
    let codec = Codec::<DynamicObject>::new(CONFIG_MAPS);
    let (mut informer, mut store, mut ring) = (Informer::new(config, 7), Store::new(7), Ring::new(Overflow::default()));
    let (start, mut told, mut open) = (Instant::now(), Vec::new(), None::<(RequestId, TcpStream)>);
    let now = || Time::from_nanos(start.elapsed().as_nanos() as u64);
    informer.handle(now(), Input::AddHandler { id: HandlerId(0), resync: None });
    informer.handle(now(), Input::Start);
    while told.len() < 5 {
        let wait = loop {
            match informer.poll_output() {
                Output::Send(request) => {
                    let (stream, head) = send(served.addr(), &request)?;
                    informer.handle(now(), Input::Head { id: request.id, head: &head });
                    open = Some((request.id, stream));
                }
                Output::Cancel(_) => open = None,
                Output::Decode(mut job) => {
                    job.probe(&store);
                    let decoded = job.decode(&codec, &store.indexers(), &NoGuard);
                    informer.handle(now(), Input::Decoded(decoded));
                }
                Output::Commit(commit) => {
                    let mut committed = store.commit(commit);
                    committed.notifications.drain(..).for_each(|notification| ring.push(notification));
                    informer.handle(now(), Input::Committed(committed.into_receipt()));
                }
                Output::Attach(_) => ring.replay(store.snapshot()),
                Output::Wait(deadline) => break deadline,
                // What is read is decoded at once, so nothing is paused; the one handler stays, and nobody asks for more.
                Output::Pause(_) | Output::Resume(_) | Output::Begin(_) | Output::Complete(_) | Output::Detach(_) => {}
                Output::Resync(_) | Output::Unwanted(_) | Output::Notice(_) => {}
            }
        };
        while let Some(delivery) = ring.pop() {
            match delivery {
                Delivery::Notification(notification) => told.push(notification.to_string()),
                Delivery::Synced => {
                    told.push("synced".into());
                    served.with(|server, _| server.put(&CONFIG_MAPS, &object("a", 2)).map_err(io::Error::other))?;
                    served.with(|server, _| server.delete(&CONFIG_MAPS, &"web/b".parse().expect("a key")));
                }
                _ => {} // there may be more to tell some day
            }
            println!("{}", told[told.len() - 1]);
        }
        let within = wait.map_or(Duration::from_secs(1), |deadline| deadline.at.since(now()));
        let Some((id, stream)) = &mut open else {
            std::thread::sleep(within);
            informer.handle(now(), Input::Tick);
            continue;
        };
        let id = *id;
        let mut bytes = [0; 4096];
        stream.set_read_timeout(Some(within.clamp(Duration::from_millis(1), Duration::from_secs(1))))?;
        match stream.read(&mut bytes) {
            Ok(0) => informer.handle(now(), Input::End { id, end: &End::Closed }),
            Ok(read) => informer.handle(now(), Input::Body { id, bytes: &bytes[..read] }),
            Err(late) if matches!(late.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                informer.handle(now(), Input::Tick);
            }
            Err(broken) => informer.handle(now(), Input::End { id, end: &End::Broken(broken.to_string()) }),
        }
    }
    Ok(told)
}

/// Sends a request in HTTP/1.0, whose bodies end with their connection, and reads the head of the answer.
fn send(addr: SocketAddr, request: &Request) -> io::Result<(TcpStream, Head)> {
    let mut stream = TcpStream::connect_timeout(&addr, request.connect_within)?;
    write!(stream, "GET {} HTTP/1.0\r\nhost: {addr}\r\naccept: {}\r\n\r\n", request.target(), request.accept)?;
    let (mut text, mut byte) = (Vec::new(), [0]);
    while !text.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        text.push(byte[0]);
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    let status = text.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    let mut head = Head::new(status);
    text.lines().filter_map(|line| line.split_once(": ")).for_each(|(name, value)| head.set(name, value));
    Ok((stream, head))
}

fn object(name: &str, value: u32) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","namespace":"web"}},"data":{{"value":"{value}"}}}}"#
    )
}
