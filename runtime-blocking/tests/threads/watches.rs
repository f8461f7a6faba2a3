//! Watches that hang, break off, end and come late: what the core is told, seen in what it asks next. Cases of people who
//! run informers, by their number.

use crate::support::*;
use informer_blocking::runtime::config::{TokenCell, TokenSource};
use informer_blocking::{Client, Config, Factory, InformerSpec, Key};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

const LIST: &str = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"100"},"items":[]}"#;

const WATCH: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";

/// A chunk with the event that adds `ns/m` at version 101.
fn event() -> String {
    let object = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"m","namespace":"ns","uid":"u","resourceVersion":"101"}}"#;
    let line = format!("{{\"type\":\"ADDED\",\"object\":{object}}}\n");
    format!("{:x}\r\n{line}\r\n", line.len())
}

fn write(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).unwrap();
}

/// Answers lists; the n-th watch is `watch`'s.
fn cluster(watch: impl Fn(usize, &mut TcpStream) + Send + Sync + 'static) -> Script {
    let watch = Arc::new(watch);
    let watches = AtomicUsize::new(0);
    Script::start(move |request| {
        if !request.contains("watch=true") {
            return Reply::Answer(200, LIST.into());
        }
        let number = watches.fetch_add(1, Ordering::SeqCst) + 1;
        let watch = Arc::clone(&watch);
        Reply::talk(move |stream| watch(number, stream))
    })
}

fn watches(script: &Script) -> Vec<String> {
    script.requests().into_iter().filter(|request| request.contains("watch=true")).collect()
}

/// The version that the n-th watch starts from.
fn version(script: &Script, number: usize) -> String {
    let watches = watches(script);
    let (_, rest) = watches[number - 1].split_once("resourceVersion=").expect("a watch has a version");
    rest.split(['&', ' ']).next().unwrap().to_string()
}

/// The first watch ends in some way after its event: the second one goes on behind it, and nothing is listed again.
#[track_caller]
fn goes_on(first: impl Fn(&mut TcpStream) + Send + Sync + 'static) {
    let script = cluster(move |number, stream| {
        if number == 1 {
            return first(stream);
        }
        write(stream, WATCH);
        until_closed(stream);
    });
    let factory = factory(&script.url());
    let maps = factory.informer_with(paged());
    factory.start();
    factory.synced(PATIENCE).unwrap();
    eventually("the event is there, and a second watch", || maps.lister().len() == 1 && watches(&script).len() == 2);
    assert_eq!((version(&script, 1), version(&script, 2)), ("100".into(), "101".into()));
    assert_eq!(script.requests().len(), 3, "one list: {:?}", script.requests());
    factory.stop(STOP).unwrap();
}

/// B010
#[test]
fn a_watch_that_is_cut_inside_a_chunk_header_goes_on_at_its_last_version() {
    goes_on(|stream| write(stream, &(WATCH.to_string() + &event() + "5")));
}

/// B011
#[test]
fn a_watch_that_ends_cleanly_goes_on_at_its_last_version() {
    goes_on(|stream| {
        write(stream, &(WATCH.to_string() + &event() + "0\r\n\r\n"));
        until_closed(stream);
    });
}

/// B014
#[test]
fn a_watch_whose_server_says_connection_close_goes_on_at_its_last_version() {
    goes_on(|stream| {
        let head = WATCH.replace("transfer-encoding", "connection: close\r\ntransfer-encoding");
        write(stream, &(head + &event() + "0\r\n\r\n"));
    });
}

/// B008
#[test]
fn a_head_that_a_proxy_holds_back_until_the_first_event_is_no_failure() {
    goes_on(|stream| {
        thread::sleep(Duration::from_millis(200));
        write(stream, &(WATCH.to_string() + &event() + "0\r\n\r\n"));
    });
}

fn hasty() -> InformerSpec<ConfigMap> {
    let mut tuning = tuning();
    tuning.connect = Duration::from_millis(50);
    tuning.list_head = Duration::from_millis(50);
    tuning.watch_head = Duration::from_millis(50);
    paged().tuning(tuning)
}

/// B008
#[test]
fn a_head_that_is_held_back_for_too_long_is_asked_for_again_and_nothing_is_listed() {
    let script = cluster(|_, stream| until_closed(stream));
    let factory = factory(&script.url());
    factory.informer_with(hasty());
    factory.start();
    factory.synced(PATIENCE).unwrap();
    eventually("the watch is asked for again", || watches(&script).len() >= 3);
    for number in 1..=3 {
        assert_eq!(version(&script, number), "100");
    }
    let lists = script.requests().iter().filter(|request| !request.contains("watch=true")).count();
    assert_eq!(lists, 1);
    factory.synced(PATIENCE).expect("it stays synced");
    factory.stop(STOP).unwrap();
}

/// B007: over TCP no head comes, over TLS no handshake.
#[test]
fn a_server_that_accepts_and_says_nothing_is_asked_again_and_the_wait_names_the_phase() {
    for scheme in ["http", "https"] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        // The threads end with the test process.
        thread::spawn(move || {
            for stream in listener.incoming() {
                count.fetch_add(1, Ordering::SeqCst);
                thread::spawn(move || drop(stream.unwrap().read_to_end(&mut Vec::new())));
            }
        });
        let config = Config::from_url(&url).unwrap().insecure(scheme == "https");
        let factory = Factory::new(Client::connect(config).unwrap());
        factory.informer_with(hasty());
        factory.start();
        eventually("it tries again", || connections.load(Ordering::SeqCst) >= 2);
        let error = factory.synced(Duration::from_millis(1)).unwrap_err().to_string();
        assert!(error.contains("configmaps") && error.contains("list"), "{error}");
        factory.stop(STOP).unwrap();
    }
}

/// B005
#[test]
fn the_time_that_a_call_may_take_cuts_no_watch() {
    let script = cluster(|_, stream| {
        write(stream, WATCH);
        thread::sleep(Duration::from_millis(300));
        write(stream, &event());
        until_closed(stream);
    });
    let factory = Factory::new(client(&script.url()).timeout(Duration::from_millis(50)));
    let maps = factory.informer_with(paged());
    factory.start();
    factory.synced(PATIENCE).unwrap();
    eventually("the event is there", || maps.lister().get(&Key::new("ns", "m")).is_some());
    assert_eq!(watches(&script).len(), 1);
    factory.stop(STOP).unwrap();
}

/// B018
#[test]
fn a_new_token_tears_no_watch_and_goes_out_with_the_next_one() {
    let (rotate, rotated) = mpsc::channel();
    let rotated = Mutex::new(rotated);
    let script = cluster(move |number, stream| {
        write(stream, WATCH);
        if number == 1 {
            rotated.lock().unwrap().recv().unwrap();
            write(stream, &(event() + "0\r\n\r\n"));
        }
        until_closed(stream);
    });
    let cell = TokenCell::new("old");
    let config = Config::from_url(&script.url()).unwrap().with_token_source(TokenSource::Shared(cell.clone()));
    let factory = Factory::new(Client::connect(config).unwrap());
    let maps = factory.informer_with(paged());
    factory.start();
    eventually("the watch is open", || watches(&script).len() == 1);
    cell.set("new");
    rotate.send(()).unwrap();
    eventually("the open watch brings the event", || maps.lister().len() == 1);
    eventually("there is another one", || watches(&script).len() == 2);
    let heads = watches(&script);
    assert!(heads[0].contains("authorization: Bearer old") && heads[1].contains("authorization: Bearer new"));
    assert_eq!(version(&script, 2), "101");
    factory.stop(STOP).unwrap();
}
