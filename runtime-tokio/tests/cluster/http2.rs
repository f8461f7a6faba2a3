//! HTTP/2: how connections are shared, and what becomes of those who share one when it breaks.

use crate::front::*;
use crate::support::*;
use crate::tls::authority;
use h2::Reason;
use informer_runtime::config::HttpVersion;
use informer_runtime::factory::FactoryOptions;
use informer_sim::Served;
use informer_tokio::core::informer::Notice;
use informer_tokio::core::reflector::ListStrategy;
use informer_tokio::{Client, Config, Factory, Key, Observed};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};

fn h2(addr: SocketAddr) -> Client {
    let config = Config::from_url(&format!("http://{addr}")).unwrap();
    Client::connect(config.with_http_version(HttpVersion::Http2)).unwrap()
}

/// A factory, and its failures.
fn observed(client: Client) -> (Factory, Log) {
    let failures = Log::default();
    let log = failures.clone();
    let observer = move |observed: &Observed<'_>| {
        if let Observed::Notice { subject, notice: Notice::Failure(failure) } = observed {
            log.add(format!("{subject}: {failure}"));
        }
    };
    (Factory::with_options(client, FactoryOptions::observed(Arc::new(observer))), failures)
}

async fn watches(served: &Served, number: usize) {
    eventually(&format!("{number} watches are open"), || served.with(|server, _| server.open_calls()) == number).await;
}

fn how_often(connections: &[usize]) -> BTreeMap<usize, usize> {
    connections.iter().fold(BTreeMap::new(), |mut counts, connection| {
        *counts.entry(*connection).or_default() += 1;
        counts
    })
}

#[tokio::test]
async fn a_tls_server_that_prefers_http2_has_two_connections_one_of_them_for_watches() {
    let served = serve_with(informer_sim::Config::default(), "127.0.0.1:0", &["configmaps=300:600"]);
    let ca = authority();
    let tls = Some(ca.acceptor(&["h2", "http/1.1"], None));
    let (addr, seen) = front(&served, Setup { tls, ..Setup::default() }).await;
    let client = Client::connect(Config::from_url(&format!("https://{addr}")).unwrap().with_ca(ca.0)).unwrap();
    let factory = Factory::new(client.clone());
    let maps = factory.informer_with(paged::<ConfigMap>());
    let even = factory.informer_with(paged::<ConfigMap>().labels(&"parity=even".parse().unwrap()));
    factory.informer_with(paged::<Widget>());
    factory.start();
    factory.synced(LONG).await.unwrap();
    assert_eq!((maps.lister().len(), even.lister().len()), (300, 0));
    watches(&served, 3).await;
    for name in ["a", "b", "c"] {
        client.create("web", &ConfigMap::new(name, "1")).await.unwrap();
        eventually("the watch shows it", || maps.lister().get(&Key::new("web", name)).is_some()).await;
    }
    assert_eq!(seen.accepted(), 2);
    let watching = how_often(&seen.connections_of("watch=true"));
    let all = how_often(&seen.connections_of(" "));
    assert_eq!(watching.values().collect::<Vec<_>>(), [&3], "{watching:?}");
    assert_eq!(all.len(), 2);
    let (connection, _) = watching.first_key_value().unwrap();
    assert_eq!(all[connection], 3, "nothing but watches where watches are");

    factory.stop(STOP).await.unwrap();
    eventually("every connection is closed though the client lives", || seen.open() == 0).await;
    assert!(client.get::<ConfigMap>(&Key::new("web", "a")).await.is_ok(), "and it connects again");
}

/// B004
#[tokio::test]
async fn three_informers_sync_with_a_server_that_allows_two_streams() {
    let served = serve_with(informer_sim::Config::default(), "127.0.0.1:0", &["configmaps=10:600"]);
    for strategy in [ListStrategy::Paged, ListStrategy::Streaming] {
        let (addr, seen) = front(&served, Setup { max_streams: 2, ..Setup::default() }).await;
        let (factory, failures) = observed(h2(addr));
        let maps = factory.informer_with(paged::<ConfigMap>().strategy(strategy));
        factory.informer_with(paged::<ConfigMap>().strategy(strategy).namespace("web"));
        factory.informer_with(paged::<Widget>().strategy(strategy));
        factory.start();
        factory.synced(LONG).await.unwrap();
        assert_eq!(maps.lister().len(), 10);
        watches(&served, 3).await;
        let watching = how_often(&seen.connections_of("watch=true"));
        assert_eq!(watching.values().sum::<usize>(), 3);
        assert!(watching.len() == 2 && watching.values().all(|streams| *streams <= 2), "{watching:?}");
        assert_eq!(failures.lines(), Vec::<String>::new());
        factory.stop(STOP).await.unwrap();
        eventually("every connection is closed", || seen.open() == 0).await;
    }
}

/// B014
#[tokio::test]
async fn a_server_that_goes_away_ends_no_stream_and_causes_no_list() {
    let served = serve();
    put(&served, "web/a", "1");
    let (addr, seen) = front(&served, Setup::default()).await;
    let (factory, failures) = observed(h2(addr));
    let maps = factory.informer_with(paged::<ConfigMap>());
    let log = Log::default();
    maps.handle(log.handler());
    factory.start();
    factory.synced(LONG).await.unwrap();
    watches(&served, 1).await;
    seen.go_away();
    put(&served, "web/a", "2");
    assert_eq!(log.until(2).await[1..], ["web/a=1>2"], "the stream goes on");
    let version = served.with(|server, _| server.version());
    served.with(|server, _| server.drop_watches());
    eventually("there is a second watch", || seen.connections_of("watch=true").len() == 2).await;
    put(&served, "web/a", "3");
    assert_eq!(log.until(3).await[2..], ["web/a=2>3"]);
    let watching = seen.connections_of("watch=true");
    assert_ne!(watching[0], watching[1], "a connection that goes away gets no new request");
    let requests = seen.requests.lines();
    assert!(requests.last().unwrap().contains(&format!("resourceVersion={version}&")), "{requests:?}");
    assert_eq!(requests.len(), 3, "one list and two watches: {requests:?}");
    assert_eq!(failures.lines(), Vec::<String>::new());
    factory.stop(STOP).await.unwrap();
}

#[tokio::test]
async fn a_stream_that_is_reset_is_broken_and_its_neighbours_go_on() {
    let served = serve();
    let torn = std::sync::atomic::AtomicBool::new(false);
    let setup = Setup::judged(move |_, request| {
        let widgets =
            request.uri().path().ends_with("widgets") && request.uri().query().unwrap().contains("watch=true");
        let first = widgets && !torn.swap(true, std::sync::atomic::Ordering::SeqCst);
        if first { Fate::Tear } else { Fate::Forward }
    });
    let (addr, seen) = front(&served, setup).await;
    let (factory, failures) = observed(h2(addr));
    let maps = factory.informer_with(paged::<ConfigMap>());
    factory.start();
    factory.synced(LONG).await.unwrap();
    watches(&served, 1).await;
    factory.informer_with(paged::<Widget>());
    factory.start();
    factory.synced(LONG).await.unwrap();
    watches(&served, 2).await;
    put(&served, "web/a", "1");
    eventually("the neighbour's watch shows it", || maps.lister().len() == 1).await;
    let failures = failures.lines();
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert!(
        failures[0].starts_with("widgets") && failures[0].contains("HTTP/2: stream error received"),
        "{failures:?}"
    );
    let watching = how_often(&seen.connections_of("watch=true"));
    assert_eq!(watching.into_values().collect::<Vec<_>>(), [3], "one connection, and it lasts");
    factory.stop(STOP).await.unwrap();
}

#[tokio::test]
async fn what_a_server_refuses_unread_is_sent_again_on_another_connection_and_nobody_is_told() {
    let served = serve();
    put(&served, "web/a", "1");
    let setup = Setup::judged(|connection, _| match connection {
        0 => Fate::Reset(Reason::REFUSED_STREAM),
        _ => Fate::Forward,
    });
    let (addr, seen) = front(&served, setup).await;
    let (factory, failures) = observed(h2(addr));
    let maps = factory.informer_with(paged::<ConfigMap>());
    factory.start();
    factory.synced(LONG).await.unwrap();
    watches(&served, 1).await;
    factory
        .client()
        .create("web", &ConfigMap::new("b", "1"))
        .await
        .expect("a write that nobody read goes out again, too");
    eventually("the watch shows it", || maps.lister().len() == 2).await;
    assert_eq!(failures.lines(), Vec::<String>::new());
    assert!(!seen.connections_of("POST").is_empty());
    factory.stop(STOP).await.unwrap();
}

#[tokio::test]
async fn what_every_connection_refuses_is_given_up_after_a_few() {
    let served = serve();
    let (addr, seen) = front(&served, Setup::judged(|_, _| Fate::Reset(Reason::REFUSED_STREAM))).await;
    let error = h2(addr).get::<ConfigMap>(&Key::new("web", "a")).await.unwrap_err().to_string();
    assert!(error.contains("HTTP/2: ") && error.contains("refused"), "{error}");
    assert_eq!(seen.connections_of("GET"), [0, 1, 2]);
}

/// B003
#[tokio::test]
async fn a_proxy_that_resets_the_connections_of_watches_does_no_harm_to_lists() {
    let served = serve();
    put(&served, "web/a", "1");
    let setup = Setup::judged(|_, request| {
        let watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        if watch { Fate::Abort } else { Fate::Forward }
    });
    let (addr, seen) = front(&served, setup).await;
    let (factory, failures) = observed(h2(addr));
    factory.informer_with(paged::<ConfigMap>());
    factory.start();
    factory.synced(LONG).await.unwrap();
    while seen.connections_of("watch=true").len() < 10 {
        let map = factory.client().get::<ConfigMap>(&Key::new("web", "a")).await;
        assert_eq!(map.expect("reads go on").text(), "1");
    }
    let other = factory.informer_with(paged::<ConfigMap>().namespace("web"));
    factory.start();
    factory.synced(LONG).await.unwrap();
    assert_eq!(other.lister().len(), 1);
    let mut quiet = seen.connections_of("");
    let watching = seen.connections_of("watch=true");
    quiet.retain(|connection| !watching.contains(connection));
    assert_eq!(how_often(&quiet).len(), 1, "the connection of lists and reads was never touched");
    assert!(failures.lines().iter().all(|failure| failure.contains("watch")), "{failures:?}");
    factory.stop(STOP).await.unwrap();
}

/// B003: the switch.
#[tokio::test]
async fn http1_can_be_chosen_where_http2_is_offered() {
    let served = serve();
    let ca = authority();
    let acceptor = ca.acceptor(&["h2", "http/1.1"], None);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (addr, behind) = (listener.local_addr().unwrap(), served.addr());
    let chosen = Log::default();
    let log = chosen.clone();
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let mut socket = acceptor.accept(socket).await.unwrap();
            log.add(String::from_utf8_lossy(socket.get_ref().1.alpn_protocol().unwrap()));
            let mut server = TcpStream::connect(behind).await.unwrap();
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut socket, &mut server).await });
        }
    });
    let config = Config::from_url(&format!("https://{addr}")).unwrap().with_ca(ca.0);
    let factory = Factory::new(Client::connect(config.with_http_version(HttpVersion::Http1)).unwrap());
    factory.informer_with(paged::<ConfigMap>());
    factory.informer_with(paged::<Widget>());
    factory.start();
    factory.synced(LONG).await.unwrap();
    watches(&served, 2).await;
    assert!(chosen.len() >= 3 && chosen.lines().iter().all(|name| name == "http/1.1"), "{chosen:?}");
    factory.stop(STOP).await.unwrap();
}

#[tokio::test]
async fn a_server_that_stops_speaking_http2_is_followed() {
    let served = serve();
    put(&served, "web/a", "1");
    let ca = authority();
    let (new, old) = (ca.acceptor(&["h2", "http/1.1"], None), ca.acceptor(&["http/1.1"], None));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (addr, behind) = (listener.local_addr().unwrap(), served.addr());
    tokio::spawn(async move {
        // One request over HTTP/2, and then a server that has never heard of it.
        let (socket, _) = listener.accept().await.unwrap();
        let mut h2 = h2::server::handshake(new.accept(socket).await.unwrap()).await.unwrap();
        let (_, mut respond) = h2.accept().await.unwrap().unwrap();
        let mut body = respond.send_response(http::Response::new(()), false).unwrap();
        body.send_data(bytes::Bytes::from_static(br#"{"metadata":{"name":"a","namespace":"web"}}"#), true).unwrap();
        tokio::spawn(async move {
            h2.graceful_shutdown();
            while h2.accept().await.is_some() {}
        });
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let mut socket = old.accept(socket).await.unwrap();
            let mut server = TcpStream::connect(behind).await.unwrap();
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut socket, &mut server).await });
        }
    });
    let client = Client::connect(Config::from_url(&format!("https://{addr}")).unwrap().with_ca(ca.0)).unwrap();
    assert_eq!(client.get::<ConfigMap>(&Key::new("web", "a")).await.unwrap().text(), "");
    for _ in 0..3 {
        assert_eq!(client.get::<ConfigMap>(&Key::new("web", "a")).await.unwrap().text(), "1");
    }
    let (factory, failures) = observed(client);
    factory.informer_with(paged::<ConfigMap>());
    factory.start();
    factory.synced(LONG).await.unwrap();
    watches(&served, 1).await;
    assert_eq!(failures.lines(), Vec::<String>::new());
    factory.stop(STOP).await.unwrap();
}

#[tokio::test]
async fn http2_that_a_server_lacks_is_named() {
    let ca = authority();
    for (alpn, expected) in [
        (&["http/1.1"][..], "the server speaks none of the HTTP versions that we offer; choose another one"),
        (&[][..], "the server does not speak HTTP/2 (it chose no protocol); choose HttpVersion::Auto"),
    ] {
        let acceptor = ca.acceptor(alpn, None);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (socket, _) = listener.accept().await.unwrap();
            let _ = acceptor.accept(socket).await;
        });
        let config = Config::from_url(&url).unwrap().with_ca(ca.0.clone()).with_http_version(HttpVersion::Http2);
        let error = Client::connect(config).unwrap().get::<ConfigMap>(&Key::new("web", "a")).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    let error = h2(serve().addr()).get::<ConfigMap>(&Key::new("web", "a")).await.unwrap_err().to_string();
    assert!(error.contains("HTTP/2: "), "{error}");
}

/// B016
#[tokio::test]
async fn a_hundred_watches_one_after_another_leave_no_stream_and_no_connection_behind() {
    let served = serve();
    let (addr, seen) = front(&served, Setup::default()).await;
    let factory = Factory::new(h2(addr));
    factory.informer_with(paged::<ConfigMap>());
    factory.start();
    factory.synced(LONG).await.unwrap();
    for number in 1..=100 {
        eventually("the next watch is open", || seen.connections_of("watch=true").len() == number).await;
        watches(&served, 1).await;
        served.with(|server, _| server.drop_watches());
    }
    assert!(seen.most() <= 2, "{} connections", seen.most());
    factory.stop(STOP).await.unwrap();
    eventually("every connection is closed", || seen.open() == 0).await;
}

#[tokio::test]
async fn a_cancelled_watch_resets_its_stream_and_leaves_the_connection_to_the_others() {
    let served = serve();
    let (addr, seen) = front(&served, Setup::default()).await;
    let client = h2(addr);
    let (first, second) = (Factory::new(client.clone()), Factory::new(client));
    first.informer_with(paged::<Widget>());
    let maps = second.informer_with(paged::<ConfigMap>());
    first.start();
    first.synced(LONG).await.unwrap();
    second.start();
    second.synced(LONG).await.unwrap();
    watches(&served, 2).await;
    first.stop(STOP).await.unwrap();
    eventually("the stream is reset", || seen.resets() == 1).await;
    put(&served, "web/a", "1");
    eventually("the other watch goes on", || maps.lister().len() == 1).await;
    assert_eq!(seen.connections_of("watch=true"), [seen.connections_of("watch=true")[0]; 2]);
    second.stop(STOP).await.unwrap();
    eventually("every connection is closed", || seen.open() == 0).await;
}

#[test]
fn a_client_outlives_the_runtime_of_its_connections() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let served = serve();
    put(&served, "web/a", "1");
    // The server's runtime goes on: its thread waits for the end of the test process.
    let (send, receive) = std::sync::mpsc::channel();
    let behind = served.addr();
    std::thread::spawn(move || {
        runtime().block_on(async move {
            send.send(front_of(behind, Setup::default()).await).unwrap();
            std::future::pending::<()>().await;
        });
    });
    let (addr, seen) = receive.recv().unwrap();
    let client = h2(addr);
    for number in 1..=2 {
        let map = runtime().block_on(client.get::<ConfigMap>(&Key::new("web", "a")));
        assert_eq!((map.unwrap().text(), seen.accepted()), ("1", number));
    }
}
