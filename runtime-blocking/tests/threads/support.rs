//! Types, servers and waits that the tests share.

use informer_blocking::core::reflector::{ListStrategy, Tuning};
use informer_blocking::{Client, Config, Factory, InformerSpec, Object, ObjectMeta, Resource};
use informer_sim::{Options, Served, Server};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Far longer than anything takes; a test that needs it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The bound of a stop that no user code holds up.
pub(crate) const STOP: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ConfigMap {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) data: BTreeMap<String, String>,
}

impl Object for ConfigMap {
    type Meta = ObjectMeta;

    fn resource() -> Resource {
        Resource::namespaced("", "v1", "configmaps", "ConfigMap")
    }

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl ConfigMap {
    pub(crate) fn new(name: &str, value: &str) -> Self {
        let metadata = ObjectMeta { name: name.into(), ..ObjectMeta::default() };
        ConfigMap { metadata, data: BTreeMap::from([("v".into(), value.into())]) }
    }

    pub(crate) fn v(&self) -> &str {
        self.data.get("v").map_or("", String::as_str)
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Widget {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) status: serde_json::Value,
}

impl Object for Widget {
    type Meta = ObjectMeta;

    fn resource() -> Resource {
        Resource::namespaced("example.com", "v1", "widgets", "Widget")
    }

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

/// A server that knows the common resources and widgets.
pub(crate) fn server() -> Server {
    let mut server = Server::new(informer_sim::Config::default());
    server.register_common();
    server.register(Widget::resource(), Options { custom: true, status_subresource: true });
    server
}

pub(crate) fn serve(server: Server) -> Served {
    Served::start(server, "127.0.0.1:0".parse().unwrap()).unwrap()
}

pub(crate) fn client(url: &str) -> Client {
    Client::connect(Config::from_url(url).unwrap()).unwrap()
}

pub(crate) fn factory(url: &str) -> Factory {
    Factory::new(client(url))
}

/// Tries again soon.
pub(crate) fn tuning() -> Tuning {
    let mut tuning = Tuning::default();
    tuning.backoff = Duration::from_millis(20);
    tuning.backoff_cap = Duration::from_millis(100);
    tuning.refused_cap = Duration::from_millis(100);
    tuning
}

/// An informer of config maps that retries soon.
pub(crate) fn impatient() -> InformerSpec<ConfigMap> {
    InformerSpec::new().tuning(tuning())
}

/// The same, which lists in pages and takes no watch for too short.
pub(crate) fn paged() -> InformerSpec<ConfigMap> {
    let mut tuning = tuning();
    tuning.pace = Duration::from_millis(1);
    tuning.short_watch = Duration::ZERO;
    InformerSpec::new().strategy(ListStrategy::Paged).tuning(tuning)
}

pub(crate) fn put_in(served: &Served, namespace: &str, name: &str, value: &str) {
    let json = json!({
        "metadata": {"name": name, "namespace": namespace, "labels": {"parity": parity(value)}},
        "data": {"v": value},
    });
    served.with(|server, _| server.put(&ConfigMap::resource(), &json.to_string()).unwrap());
}

fn parity(value: &str) -> &str {
    if value.parse::<u64>().is_ok_and(|number| number % 2 == 0) { "even" } else { "odd" }
}

pub(crate) fn put(served: &Served, name: &str, value: &str) {
    put_in(served, "ns", name, value);
}

pub(crate) fn delete(served: &Served, name: &str) {
    let key = format!("ns/{name}").parse().unwrap();
    served.with(|server, _| server.delete(&ConfigMap::resource(), &key).unwrap());
}

/// Waits until something is true.
#[track_caller]
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "it never happened: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// A list that threads write to and a test reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn add(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// What a [`Script`] does with a request.
pub(crate) enum Reply {
    /// A whole answer.
    Answer(u16, String),
    /// Nothing, for ever.
    Silence,
    /// The connection closes.
    Close,
    /// These bytes, then the connection closes.
    Raw(String),
    /// An answer, and the connection closes behind it although nothing says so.
    AnswerAndClose(u16, String),
    /// Whatever this does with the connection, which closes behind it.
    Talk(Box<dyn FnOnce(&mut TcpStream) + Send>),
}

impl Reply {
    pub(crate) fn talk(work: impl FnOnce(&mut TcpStream) + Send + 'static) -> Self {
        Reply::Talk(Box::new(work))
    }
}

/// Waits until the client closes.
pub(crate) fn until_closed(stream: &mut TcpStream) {
    while matches!(stream.read(&mut [0]), Ok(1..)) {}
}

type Answer = dyn Fn(&str) -> Reply + Send + Sync;

/// An HTTP server that answers as a test wants: it is given the head of each request and may keep connections.
pub(crate) struct Script {
    addr: SocketAddr,
    requests: Log,
    connections: Log,
    stopped: Arc<AtomicBool>,
}

impl Script {
    pub(crate) fn start(answer: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let script = Script {
            addr: listener.local_addr().unwrap(),
            requests: Log::default(),
            connections: Log::default(),
            stopped: Arc::default(),
        };
        let (requests, connections, stopped) =
            (script.requests.clone(), script.connections.clone(), Arc::clone(&script.stopped));
        let answer: Arc<Answer> = Arc::new(answer);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                connections.add("");
                let (answer, requests) = (Arc::clone(&answer), requests.clone());
                thread::spawn(move || talk(stream.unwrap(), &*answer, &requests));
            }
        });
        script
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The heads of all requests so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lines()
    }

    /// How many connections were accepted.
    pub(crate) fn connections(&self) -> usize {
        self.connections.len()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.addr));
    }
}

/// Reads a head and the body that it announces; `None` at the end of the stream.
pub(crate) fn read_request(stream: &mut impl Read) -> Option<String> {
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        text.push(byte[0]);
    }
    let head = String::from_utf8(text).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |n| n.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(head + std::str::from_utf8(&body).unwrap())
}

fn talk(mut stream: TcpStream, answer: &Answer, requests: &Log) {
    while let Some(request) = read_request(&mut stream) {
        requests.add(request.clone());
        let whole = |status: u16, body: &str| {
            format!(
                "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
        };
        let (bytes, close) = match answer(&request) {
            Reply::Answer(status, body) => (whole(status, &body), false),
            Reply::AnswerAndClose(status, body) => (whole(status, &body), true),
            Reply::Raw(bytes) => (bytes, true),
            Reply::Close => (String::new(), true),
            Reply::Silence => {
                until_closed(&mut stream);
                return;
            }
            Reply::Talk(work) => {
                work(&mut stream);
                return;
            }
        };
        if stream.write_all(bytes.as_bytes()).is_err() {
            return;
        }
        if close {
            let _ = stream.shutdown(Shutdown::Both);
            return;
        }
    }
}

/// Passes bytes on to a server and back, and counts connections.
pub(crate) struct Relay {
    pub(crate) addr: SocketAddr,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    accepted: AtomicUsize,
    open: AtomicUsize,
    most: AtomicUsize,
}

impl Relay {
    pub(crate) fn start(behind: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let relay = Relay { addr: listener.local_addr().unwrap(), counts: Arc::default() };
        let told = Arc::clone(&relay.counts);
        // The threads end with the test process.
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(behind).unwrap());
                told.accepted.fetch_add(1, Ordering::SeqCst);
                told.most.fetch_max(told.open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let counts = Arc::clone(&told);
                let (back, forth) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                thread::spawn(move || carry(server, back));
                thread::spawn(move || {
                    carry(client, forth);
                    counts.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        relay
    }

    pub(crate) fn accepted(&self) -> usize {
        self.counts.accepted.load(Ordering::SeqCst)
    }

    /// Connections that the client has not closed.
    pub(crate) fn open(&self) -> usize {
        self.counts.open.load(Ordering::SeqCst)
    }

    pub(crate) fn most(&self) -> usize {
        self.counts.most.load(Ordering::SeqCst)
    }
}

/// One way, until either end is gone; then both are.
fn carry(mut from: TcpStream, mut to: TcpStream) {
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Both);
}

/// A server whose queue of connections is full, so that the system answers no attempt to connect; and those who fill it.
#[cfg(target_os = "linux")]
pub(crate) fn crowded() -> (std::net::SocketAddr, impl Sized) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let mut crowd = Vec::new();
    loop {
        match std::net::TcpStream::connect_timeout(&addr, Duration::from_millis(500)) {
            Ok(one) => crowd.push(one),
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::TimedOut, "{error}");
                return (addr, (listener, crowd));
            }
        }
    }
}

/// True while somebody tries to connect to this port and has no answer.
#[cfg(target_os = "linux")]
pub(crate) fn is_dialled(port: u16) -> bool {
    const SYN_SENT: &str = "02";
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let to = format!(":{port:04X}");
    table
        .lines()
        .map(|line| line.split_whitespace().skip(2))
        .any(|mut fields| fields.next().is_some_and(|remote| remote.ends_with(&to)) && fields.next() == Some(SYN_SENT))
}
