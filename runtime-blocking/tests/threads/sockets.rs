//! What becomes of sockets: none stays open, none is left half read, and not only TCP has them.

use crate::support::*;
use informer_blocking::runtime::config::HttpVersion;
use informer_blocking::{Client, Config, Factory, InformerSpec, Key};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn after_a_stop_no_socket_is_open_though_the_client_lives() {
    let served = serve(server());
    let relay = Relay::start(served.addr());
    let client = client(&format!("http://{}", relay.addr));
    let factory = Factory::new(client.clone());
    factory.informer_with(paged());
    factory.informer_with(InformerSpec::<Widget>::new());
    factory.start();
    factory.synced(PATIENCE).unwrap();
    client.create("ns", &ConfigMap::new("m", "1")).unwrap();
    eventually("both watches are open", || served.with(|server, _| server.open_calls()) == 2);
    assert!(relay.open() >= 3, "two watches, and what lists and writes left idle");
    factory.stop(STOP).unwrap();
    eventually("every connection is closed", || relay.open() == 0);
    client.get::<ConfigMap>(&Key::new("ns", "m")).expect("it connects again");
}

/// B016
#[test]
fn a_hundred_watches_one_after_another_have_one_socket_at_a_time() {
    let served = serve(server());
    let relay = Relay::start(served.addr());
    let factory = factory(&format!("http://{}", relay.addr));
    factory.informer_with(paged());
    factory.start();
    factory.synced(PATIENCE).unwrap();
    for _ in 0..100 {
        eventually("a watch is open", || served.with(|server, _| server.open_calls()) == 1);
        eventually("it and the list's idle one are all", || relay.open() <= 2);
        served.with(|server, _| server.drop_watches());
    }
    // Some are seen while they close.
    assert!(relay.most() <= 8, "{} sockets at a time", relay.most());
    assert!(relay.accepted() > 100);
    factory.stop(STOP).unwrap();
    eventually("every connection is closed", || relay.open() == 0);
}

#[test]
fn the_connection_of_a_failed_request_is_used_again_if_its_body_ended_and_closed_if_not() {
    let asked = AtomicUsize::new(0);
    let closed = Arc::new(AtomicUsize::new(0));
    let gone = Arc::clone(&closed);
    let script = Script::start(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::Answer(503, "x".repeat(10_000)),
        1 => {
            let gone = Arc::clone(&gone);
            // More than anybody reads of an error, and no end.
            Reply::talk(move |stream| {
                let head = "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 9000000\r\n\r\n";
                let _ = stream.write_all((head.to_string() + &"x".repeat(100_000)).as_bytes());
                until_closed(stream);
                gone.fetch_add(1, Ordering::SeqCst);
            })
        }
        _ => Reply::Silence,
    });
    let factory = factory(&script.url());
    factory.informer_with(paged());
    factory.start();
    eventually("the third request is there", || script.requests().len() == 3);
    assert_eq!(script.connections(), 2);
    eventually("the one that was left half read is closed", || closed.load(Ordering::SeqCst) == 1);
    factory.stop(STOP).unwrap();
}

#[test]
fn connection_close_is_honoured() {
    let script = Script::start(|_| {
        Reply::talk(|stream| {
            let body = r#"{"metadata":{"name":"m","namespace":"ns"}}"#;
            let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all((head + body).as_bytes()).unwrap();
            until_closed(stream);
        })
    });
    let api = client(&script.url()).api::<ConfigMap>();
    for expected in 1..=3 {
        api.get(&Key::new("ns", "m")).unwrap();
        assert_eq!(script.connections(), expected);
    }
}

#[test]
fn http2_is_refused_with_the_way_out_and_auto_is_http1() {
    let config = Config::from_url("http://127.0.0.1:1").unwrap();
    let error = Client::connect(config.with_http_version(HttpVersion::Http2)).unwrap_err().to_string();
    assert_eq!(
        error,
        "server http://127.0.0.1:1: informer-blocking speaks HTTP/1.1 only; choose HttpVersion::Auto or \
         HttpVersion::Http1, or informer-tokio"
    );
    let served = serve(server());
    put(&served, "m", "1");
    for version in [HttpVersion::Auto, HttpVersion::Http1] {
        let config = Config::from_url(&served.url()).unwrap().with_http_version(version);
        assert_eq!(Client::connect(config).unwrap().get::<ConfigMap>(&Key::new("ns", "m")).unwrap().v(), "1");
    }
}

#[cfg(unix)]
#[test]
fn a_server_on_a_unix_socket_is_reached_in_both_spellings() {
    use std::net::TcpStream;
    use std::os::unix::net::UnixListener;
    use std::thread;

    let served = serve(server());
    put(&served, "m", "1");
    let path = std::env::temp_dir().join(format!("informer-blocking-{}.sock", std::process::id()));
    let listener = UnixListener::bind(&path).unwrap();
    let behind = served.addr();
    // The threads end with the test process.
    thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, mut server) = (client.unwrap(), TcpStream::connect(behind).unwrap());
            let (mut back, mut forth) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || {
                let _ = std::io::copy(&mut server, &mut back);
                let _ = back.shutdown(std::net::Shutdown::Both);
            });
            thread::spawn(move || {
                let _ = std::io::copy(&mut client, &mut forth);
                let _ = forth.shutdown(std::net::Shutdown::Both);
            });
        }
    });
    let escaped = path.to_str().unwrap().replace('/', "%2F");
    let key = Key::new("ns", "m");
    for url in [format!("unix:{}", path.display()), format!("http+unix://{escaped}/")] {
        let factory = factory(&url);
        let maps = factory.informer_with(paged());
        factory.start();
        factory.synced(PATIENCE).unwrap();
        assert_eq!(maps.lister().get(&key).unwrap().v(), "1");
        put(&served, "later", "1");
        eventually("the watch shows it", || maps.lister().len() == 2);
        delete(&served, "later");
        assert_eq!(factory.client().get::<ConfigMap>(&key).unwrap().v(), "1");
        factory.stop(STOP).unwrap();
        assert_eq!(factory.threads(), 0);
    }
    std::fs::remove_file(&path).unwrap();
    let error = client(&format!("unix:{}", path.display())).get::<ConfigMap>(&key).unwrap_err().to_string();
    assert!(error.contains(&format!("cannot connect to {}: No such file", path.display())), "{error}");
}
