//! A server, two types, a log, and a wait that fails instead of hanging.

use informer_sim::{Config as SimConfig, Fill, Options, Served, Server};
use informer_tokio::core::reflector::{ListStrategy, Tuning};
use informer_tokio::{Client, Config, Factory, InformerSpec, Key, Notification, Object, ObjectMeta, Resource};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Far above what anything here takes: a test that reaches it hangs.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// How long a stop may take if no user code runs.
pub(crate) const STOP: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, Serialize, Deserialize)]
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
        let metadata = ObjectMeta { name: name.to_string(), ..ObjectMeta::default() };
        ConfigMap { metadata, data: BTreeMap::from([("v".to_string(), value.to_string())]) }
    }

    pub(crate) fn text(&self) -> &str {
        self.data.get("v").map_or("", String::as_str)
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Widget {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) status: BTreeMap<String, String>,
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

/// A server with the common resources and widgets, and `fill` in it.
pub(crate) fn serve_with(config: SimConfig, addr: &str, fill: &[&str]) -> Served {
    let mut server = Server::new(config);
    server.register_common();
    server.register(Widget::resource(), Options { custom: true, status_subresource: true });
    for fill in fill {
        fill.parse::<Fill>().unwrap().apply(&mut server, 7).unwrap();
    }
    Served::start(server, addr.parse().unwrap()).unwrap()
}

pub(crate) fn serve() -> Served {
    serve_with(SimConfig::default(), "127.0.0.1:0", &[])
}

pub(crate) fn client(served: &Served) -> Client {
    client_of(&served.url())
}

pub(crate) fn client_of(url: &str) -> Client {
    Client::connect(Config::from_url(url).unwrap()).unwrap()
}

pub(crate) fn factory(served: &Served) -> Factory {
    Factory::new(client(served))
}

/// Tries again soon, and takes no watch for too short.
pub(crate) fn tuning() -> Tuning {
    let mut tuning = Tuning::default();
    tuning.backoff = Duration::from_millis(10);
    tuning.backoff_cap = Duration::from_millis(20);
    tuning.pace = Duration::from_millis(1);
    tuning.short_watch = Duration::ZERO;
    tuning
}

/// Lists in pages.
pub(crate) fn paged<T: Object>() -> InformerSpec<T> {
    InformerSpec::new().strategy(ListStrategy::Paged).tuning(tuning())
}

/// Writes the ConfigMap `key` with this value and the label `even` or `odd` of it.
pub(crate) fn put(served: &Served, key: &str, value: &str) {
    let key: Key = key.parse().unwrap();
    let parity = if value.bytes().last().is_some_and(|byte| byte % 2 == 0) { "even" } else { "odd" };
    let json = serde_json::json!({
        "metadata": {"name": key.name(), "namespace": key.namespace(), "labels": {"parity": parity}},
        "data": {"v": value},
    });
    served.with(|server, _| server.put(&ConfigMap::resource(), &json.to_string()).unwrap());
}

pub(crate) fn delete(served: &Served, key: &str) {
    let gone = served.with(|server, _| server.delete(&ConfigMap::resource(), &key.parse().unwrap()));
    assert!(gone.is_some(), "there is no {key}");
}

/// What happened, in order.
#[derive(Clone, Default)]
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

    /// A handler that writes down what it is told.
    pub(crate) fn handler(&self) -> impl FnMut(&Notification<ConfigMap>) + Send + 'static {
        let log = self.clone();
        move |event: &Notification<ConfigMap>| log.add(line(event))
    }

    pub(crate) async fn until(&self, lines: usize) -> Vec<String> {
        eventually(&format!("{lines} lines, of which these came: {:?}", self), || self.len() >= lines).await;
        self.lines()
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.lines().fmt(f)
    }
}

/// `+a=1` added, `*a=1` initial, `a=1>2` updated, `-a=2` deleted, `?a=2` deleted unseen.
pub(crate) fn line(event: &Notification<ConfigMap>) -> String {
    let key = event.key();
    match event {
        Notification::Added { object, initial: true, .. } => format!("*{key}={}", object.text()),
        Notification::Added { object, .. } => format!("+{key}={}", object.text()),
        Notification::Updated { old, new, .. } => format!("{key}={}>{}", old.text(), new.text()),
        Notification::Deleted { object, final_state_known: true, .. } => format!("-{key}={}", object.text()),
        Notification::Deleted { object, .. } => format!("?{key}={}", object.text()),
        _ => unreachable!("a fourth kind of notification"),
    }
}

/// Waits until `ready`; fails with `what` after a time that nothing here takes.
pub(crate) async fn eventually(what: &str, mut ready: impl FnMut() -> bool) {
    let start = Instant::now();
    while !ready() {
        assert!(start.elapsed() < LONG, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A port of this machine where nobody listens.
pub(crate) async fn closed_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// A server of the test's own: `answer` is called for each connection, in order.
pub(crate) async fn scripted<F, Fut>(mut answer: F) -> SocketAddr
where
    F: FnMut(usize, Peer) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        for number in 0.. {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(answer(number, Peer(stream)));
        }
    });
    addr
}

/// The server's side of a connection.
pub(crate) struct Peer(pub(crate) TcpStream);

impl Peer {
    /// The head of the next request; `None` if the client closed.
    pub(crate) async fn request(&mut self) -> Option<String> {
        let mut text = Vec::new();
        while !text.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            if self.0.read(&mut byte).await.ok()? == 0 {
                return None;
            }
            text.push(byte[0]);
        }
        Some(String::from_utf8(text).unwrap())
    }

    pub(crate) async fn answer(&mut self, status: &str, body: &str) {
        self.write(&format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len())).await;
    }

    pub(crate) async fn write(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }
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
