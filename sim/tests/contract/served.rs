//! The server on a loopback port, asked through plain sockets.

use crate::support::{CM, configmaps, pods};
use informer_core::object::Key;
use informer_sim::{Config, Fill, Served, Server};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

fn served(config: Config) -> Served {
    let mut server = Server::new(config);
    server.register_common();
    Served::start(server, "127.0.0.1:0".parse().unwrap()).unwrap()
}

/// An HTTP client of a few lines; a read that takes a minute fails the test instead of hanging it.
struct Client(BufReader<TcpStream>);

impl Client {
    fn new(served: &Served) -> Self {
        let stream = TcpStream::connect(served.addr()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Client(BufReader::new(stream))
    }

    fn send(&mut self, method: &str, target: &str, body: &str) {
        let request = format!("{method} {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Status and headers.
    fn head(&mut self) -> (u16, Vec<String>) {
        let first = self.line();
        let status = first.split(' ').nth(1).unwrap_or_else(|| panic!("no head: {first:?}")).parse().unwrap();
        let headers = std::iter::from_fn(|| Some(self.line()).filter(|line| !line.is_empty())).collect();
        (status, headers)
    }

    /// The next chunk; empty at the end.
    fn chunk(&mut self) -> Vec<u8> {
        let line = self.line();
        let len = usize::from_str_radix(&line, 16).unwrap_or_else(|_| panic!("no chunk: {line:?}"));
        let mut bytes = vec![0; len + 2];
        self.0.read_exact(&mut bytes).unwrap();
        bytes.truncate(len);
        bytes
    }

    fn ask(&mut self, method: &str, target: &str, body: &str) -> (u16, String) {
        self.send(method, target, body);
        let (status, headers) = self.head();
        let length = headers.iter().find_map(|header| header.strip_prefix("content-length: "));
        let mut bytes = Vec::new();
        match length {
            Some(length) => {
                bytes.resize(length.parse().unwrap(), 0);
                self.0.read_exact(&mut bytes).unwrap();
            }
            None => {
                assert!(headers.iter().any(|header| header == "transfer-encoding: chunked"));
                loop {
                    let chunk = self.chunk();
                    if chunk.is_empty() {
                        break;
                    }
                    bytes.extend(chunk);
                }
            }
        }
        (status, String::from_utf8(bytes).unwrap())
    }

    /// Reads frames of a watch until there are `count`.
    fn frames(&mut self, count: usize) -> Vec<String> {
        let mut text = String::new();
        while text.matches('\n').count() < count {
            text += std::str::from_utf8(&self.chunk()).unwrap();
        }
        text.lines().map(str::to_owned).collect()
    }

    /// Reads until the server closes.
    fn read_rest(mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).unwrap();
        rest
    }
}

fn put(served: &Served, name: &str, value: &str) -> u64 {
    let json = format!(r#"{{"metadata":{{"name":"{name}","namespace":"n"}},"data":{{"v":"{value}"}}}}"#);
    served.with(|server, _| server.put(&configmaps(), &json).unwrap())
}

#[test]
fn one_connection_serves_many_requests() {
    let served = served(Config::default());
    let mut client = Client::new(&served);
    assert_eq!(client.ask("GET", "/readyz", ""), (200, "ok".into()));
    let (status, created) = client.ask("POST", CM, r#"{"metadata":{"name":"a"}}"#);
    assert!(status == 201 && created.contains(r#""name":"a""#));
    assert_eq!(client.ask("GET", &format!("{CM}/zz"), "").0, 404);
    let (status, list) = client.ask("GET", CM, "");
    assert!(status == 200 && list.contains(r#""resourceVersion":"2""#));
    assert_eq!(client.ask("DELETE", &format!("{CM}/a"), "").0, 200);
}

#[test]
fn requests_sent_at_once_are_answered_in_order() {
    let served = served(Config::default());
    let mut client = Client::new(&served);
    for name in ["a", "b", "c"] {
        client.send("POST", CM, &format!(r#"{{"metadata":{{"name":"{name}"}}}}"#));
    }
    for name in ["a", "b", "c"] {
        let (status, headers) = client.head();
        assert_eq!(status, 201);
        let length = headers.iter().find_map(|header| header.strip_prefix("content-length: ")).unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        client.0.read_exact(&mut body).unwrap();
        assert!(String::from_utf8(body).unwrap().contains(&format!(r#""name":"{name}""#)));
    }
}

#[test]
fn a_watch_shows_what_happens_and_ends_at_its_timeout() {
    let served = served(Config::default());
    let mut client = Client::new(&served);
    client.send("GET", &format!("{CM}?watch=1&resourceVersion=1&timeoutSeconds=1"), "");
    assert_eq!(client.head().0, 200);
    put(&served, "a", "1");
    assert!(client.frames(1)[0].starts_with(r#"{"type":"ADDED""#));
    assert!(client.chunk().is_empty());
    // The connection goes on.
    assert_eq!(client.ask("GET", CM, "").0, 200);
}

#[test]
fn a_large_list_comes_whole_and_beside_a_client_that_does_not_read() {
    let mut server = Server::new(Config::default());
    server.register_common();
    "pods=3000:6900".parse::<Fill>().unwrap().apply(&mut server, 7).unwrap();
    let served = Served::start(server, "127.0.0.1:0".parse().unwrap()).unwrap();
    let mut stuck = Client::new(&served);
    stuck.send("GET", "/api/v1/pods", "");
    let mut client = Client::new(&served);
    let (status, list) = client.ask("GET", "/api/v1/pods", "");
    assert_eq!((status, list.matches(r#""nodeName":"#).count()), (200, 3_000));
    // The stuck one gets the same in the end.
    let (status, _) = stuck.head();
    let mut bytes = 0;
    loop {
        let chunk = stuck.chunk();
        if chunk.is_empty() {
            break;
        }
        bytes += chunk.len();
    }
    assert_eq!((status, bytes), (200, list.len()));
}

#[test]
fn a_watch_that_nobody_reads_is_ended_and_the_others_go_on() {
    let served = served(Config { watch_backlog: 20, ..Config::default() });
    let target = format!("{CM}?watch=1&resourceVersion=1");
    let mut stuck = Client::new(&served);
    stuck.send("GET", &target, "");
    assert_eq!(stuck.head().0, 200);
    let mut reader = Client::new(&served);
    reader.send("GET", &target, "");
    assert_eq!(reader.head().0, 200);
    let large = "x".repeat(200_000);
    let mut count = 0;
    // More than the buffers of both kernels hold; the reader keeps up.
    while served.with(|server, _| server.open_calls()) == 2 {
        put(&served, "a", &format!("{count}{large}"));
        count += 1;
        assert!(count < 2_000, "the watch that nobody reads was never ended");
        assert!(reader.frames(1)[0].len() > large.len());
    }
    assert!(stuck.drain_frames() < count);
}

impl Client {
    /// Reads the rest of a chunked body and counts its frames.
    fn drain_frames(&mut self) -> usize {
        let mut frames = 0;
        loop {
            let chunk = self.chunk();
            if chunk.is_empty() {
                return frames;
            }
            frames += chunk.iter().filter(|&&byte| byte == b'\n').count();
        }
    }
}

#[test]
fn twenty_watches_see_a_thousand_changes() {
    let served = served(Config::default());
    let mut clients: Vec<Client> = (0..20)
        .map(|_| {
            let mut client = Client::new(&served);
            client.send("GET", &format!("{CM}?watch=1&resourceVersion=1"), "");
            assert_eq!(client.head().0, 200);
            client
        })
        .collect();
    for round in 0..1_000 {
        put(&served, "a", &round.to_string());
    }
    for client in &mut clients {
        let frames = client.frames(1_000);
        assert_eq!(frames.len(), 1_000);
        assert!(frames[999].contains(r#""resourceVersion":"1001""#));
    }
}

#[test]
fn a_client_that_leaves_frees_its_watch() {
    let served = served(Config::default());
    let mut client = Client::new(&served);
    client.send("GET", &format!("{CM}?watch=1&resourceVersion=1"), "");
    assert_eq!(client.head().0, 200);
    assert_eq!(served.with(|server, _| server.open_calls()), 1);
    drop(client);
    while served.with(|server, _| server.open_calls()) > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn a_restart_ends_watches_cleanly_keeps_objects_and_forgets_history() {
    let mut served = served(Config::default());
    put(&served, "a", "1");
    put(&served, "a", "2");
    let mut client = Client::new(&served);
    client.send("GET", &format!("{CM}?watch=1&resourceVersion=2"), "");
    assert_eq!(client.head().0, 200);
    assert_eq!(client.frames(1).len(), 1);
    let url = served.url();
    served.restart().unwrap();
    assert_eq!(served.url(), url);
    assert!(client.chunk().is_empty());
    assert!(client.read_rest().is_empty());

    let mut client = Client::new(&served);
    assert!(client.ask("GET", CM, "").1.contains(r#""v":"2""#));
    let (status, old) = client.ask("GET", &format!("{CM}?watch=1&resourceVersion=2"), "");
    assert_eq!(status, 200);
    assert!(old.contains("too old resource version: 2 (3)"), "{old}");
}

#[test]
fn a_server_that_is_down_refuses_and_comes_back() {
    let mut served = served(Config::default());
    served.down();
    assert!(TcpStream::connect(served.addr()).is_err());
    put(&served, "a", "written while down");
    served.up().unwrap();
    assert!(Client::new(&served).ask("GET", CM, "").1.contains("written while down"));
    served.stop();
    served.stop();
    assert!(TcpStream::connect(served.addr()).is_err());
}

#[test]
fn stopping_does_not_wait_for_a_client_that_does_not_read() {
    let mut server = Server::new(Config::default());
    server.register_common();
    "pods=3000:6900".parse::<Fill>().unwrap().apply(&mut server, 7).unwrap();
    let mut served = Served::start(server, "127.0.0.1:0".parse().unwrap()).unwrap();
    let mut stuck = Client::new(&served);
    stuck.send("GET", "/api/v1/pods", "");
    assert_eq!(stuck.head().0, 200);
    served.stop();
    drop(stuck);
}

#[test]
fn churn_goes_on_by_itself() {
    let mut server = Server::new(Config::default());
    server.register_common();
    "pods=10:4000".parse::<Fill>().unwrap().apply(&mut server, 7).unwrap();
    let from = server.version();
    let churn = informer_sim::Churn::new(&server, &pods(), 200, 3);
    let served = Served::start(server, "127.0.0.1:0".parse().unwrap()).unwrap();
    let mut client = Client::new(&served);
    client.send("GET", &format!("/api/v1/pods?watch=1&resourceVersion={from}"), "");
    assert_eq!(client.head().0, 200);
    served.churn(churn);
    assert!(client.frames(20).iter().all(|frame| frame.starts_with(r#"{"type":"MODIFIED""#)));
}

#[test]
fn what_is_no_http_is_refused_and_closed() {
    let served = served(Config::default());
    let mut client = Client::new(&served);
    client.0.get_mut().write_all(b"\x16\x03\x01\x02\r\n\r\n").unwrap();
    let answer = String::from_utf8(client.read_rest()).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n") && answer.contains("connection: close"), "{answer}");
}

#[test]
fn an_old_client_gets_its_answer_up_read_rest_of_the_connection() {
    let served = served(Config::default());
    let key: Key = "n/a".parse().unwrap();
    put(&served, "a", &"x".repeat(5_000));
    assert!(served.with(|server, _| server.get(&configmaps(), &key)).is_some());
    let mut client = Client::new(&served);
    client.0.get_mut().write_all(format!("GET {CM} HTTP/1.0\r\n\r\n").as_bytes()).unwrap();
    let answer = String::from_utf8(client.read_rest()).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(!head.contains("chunked") && body.starts_with('{') && body.ends_with("}\n"));
}
