//! Watches that hang, break off, end and come late: what the core is told, seen in what it asks next. Cases of people who
//! run informers, by their number.

use crate::support::*;
use informer_runtime::config::{TokenCell, TokenSource};
use informer_tokio::{Client, Config, Factory, InformerSpec, Key};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

const LIST: &str = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"100"},"items":[]}"#;

const WATCH: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";

/// A chunk with the event that adds `web/a` at version 101.
fn event() -> String {
    let object = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"web","uid":"u","resourceVersion":"101"}}"#;
    let line = format!("{{\"type\":\"ADDED\",\"object\":{object}}}\n");
    format!("{:x}\r\n{line}\r\n", line.len())
}

/// Answers lists; the n-th watch is `watch`'s, until the future ends. The heads of all requests are written down.
async fn cluster<F>(watch: impl Fn(usize, Peer) -> F + Clone + Send + Sync + 'static) -> (SocketAddr, Log)
where
    F: Future<Output = ()> + Send + 'static,
{
    let requests = Log::default();
    let log = requests.clone();
    let addr = scripted(move |_, mut peer| {
        let (watch, log) = (watch.clone(), log.clone());
        async move {
            while let Some(request) = peer.request().await {
                log.add(&request);
                if request.contains("watch=true") {
                    let number = of(&log, "watch=true").len();
                    return watch(number, peer).await;
                }
                peer.answer("200 OK", LIST).await;
            }
        }
    })
    .await;
    (addr, requests)
}

fn of(requests: &Log, text: &str) -> Vec<String> {
    requests.lines().into_iter().filter(|request| request.contains(text)).collect()
}

/// The version that the n-th watch starts from.
fn version(requests: &Log, number: usize) -> String {
    let watches = of(requests, "watch=true");
    let (_, rest) = watches[number - 1].split_once("resourceVersion=").expect("a watch has a version");
    rest.split(['&', ' ']).next().unwrap().to_string()
}

/// The first watch ends in some way after its event: the second one goes on behind it, and nothing is listed again.
async fn goes_on<F>(first: impl Fn(Peer) -> F + Clone + Send + Sync + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (addr, requests) = cluster(move |number, mut peer| {
        let first = first.clone();
        async move {
            if number == 1 {
                return first(peer).await;
            }
            peer.write(WATCH).await;
            peer.request().await;
        }
    })
    .await;
    let factory = Factory::new(client_of(&format!("http://{addr}")));
    let maps = factory.informer_with(paged::<ConfigMap>());
    factory.start();
    factory.synced(LONG).await.unwrap();
    eventually("the event is there, and a second watch", || {
        maps.lister().len() == 1 && of(&requests, "watch=true").len() == 2
    })
    .await;
    assert_eq!((version(&requests, 1), version(&requests, 2)), ("100".into(), "101".into()));
    assert_eq!(requests.len(), 3, "one list: {requests:?}");
    factory.stop(STOP).await.unwrap();
}

/// B010
#[tokio::test]
async fn a_watch_that_is_cut_inside_a_chunk_header_goes_on_at_its_last_version() {
    goes_on(|mut peer| async move { peer.write(&(WATCH.to_string() + &event() + "5")).await }).await;
}

/// B011
#[tokio::test]
async fn a_watch_that_ends_cleanly_goes_on_at_its_last_version() {
    goes_on(|mut peer| async move {
        peer.write(&(WATCH.to_string() + &event() + "0\r\n\r\n")).await;
        peer.request().await;
    })
    .await;
}

/// B014
#[tokio::test]
async fn a_watch_whose_server_says_connection_close_goes_on_at_its_last_version() {
    goes_on(|mut peer| async move {
        let head = WATCH.replace("transfer-encoding", "connection: close\r\ntransfer-encoding");
        peer.write(&(head + &event() + "0\r\n\r\n")).await;
    })
    .await;
}

/// B008
#[tokio::test]
async fn a_head_that_a_proxy_holds_back_until_the_first_event_is_no_failure() {
    goes_on(|mut peer| async move {
        tokio::time::sleep(Duration::from_millis(200)).await;
        peer.write(&(WATCH.to_string() + &event() + "0\r\n\r\n")).await;
    })
    .await;
}

fn impatient() -> InformerSpec<ConfigMap> {
    let mut tuning = tuning();
    tuning.connect = Duration::from_millis(50);
    tuning.list_head = Duration::from_millis(50);
    tuning.watch_head = Duration::from_millis(50);
    paged().tuning(tuning)
}

/// B008
#[tokio::test]
async fn a_head_that_is_held_back_for_too_long_is_asked_for_again_and_nothing_is_listed() {
    let (addr, requests) = cluster(|_, mut peer| async move { drop(peer.request().await) }).await;
    let factory = Factory::new(client_of(&format!("http://{addr}")));
    factory.informer_with(impatient());
    factory.start();
    factory.synced(LONG).await.unwrap();
    eventually("the watch is asked for again", || of(&requests, "watch=true").len() >= 3).await;
    for number in 1..=3 {
        assert_eq!(version(&requests, number), "100");
    }
    assert_eq!(requests.len() - of(&requests, "watch=true").len(), 1, "one list: {requests:?}");
    factory.synced(LONG).await.expect("it stays synced");
    factory.stop(STOP).await.unwrap();
}

/// B007: over TCP no head comes, over TLS no handshake.
#[tokio::test]
async fn a_server_that_accepts_and_says_nothing_is_asked_again_and_the_wait_names_the_phase() {
    for scheme in ["http", "https"] {
        let connections = Log::default();
        let log = connections.clone();
        let addr = scripted(move |_, mut peer| {
            log.add("");
            async move {
                let mut byte = [0];
                while tokio::io::AsyncReadExt::read(&mut peer.0, &mut byte).await.is_ok_and(|read| read > 0) {}
            }
        })
        .await;
        let config = Config::from_url(&format!("{scheme}://{addr}")).unwrap().insecure(scheme == "https");
        let factory = Factory::new(Client::connect(config).unwrap());
        factory.informer_with(impatient());
        factory.start();
        eventually("it tries again", || connections.len() >= 2).await;
        let error = factory.synced(Duration::from_millis(1)).await.unwrap_err().to_string();
        assert!(error.contains("configmaps") && error.contains("list"), "{error}");
        factory.stop(STOP).await.unwrap();
    }
}

/// B005
#[tokio::test]
async fn the_time_that_a_call_may_take_cuts_no_watch() {
    let (addr, requests) = cluster(|_, mut peer| async move {
        peer.write(WATCH).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        peer.write(&event()).await;
        peer.request().await;
    })
    .await;
    let factory = Factory::new(client_of(&format!("http://{addr}")).timeout(Duration::from_millis(50)));
    let maps = factory.informer_with(paged::<ConfigMap>());
    factory.start();
    factory.synced(LONG).await.unwrap();
    eventually("the event is there", || maps.lister().get(&Key::new("web", "a")).is_some()).await;
    assert_eq!(of(&requests, "watch=true").len(), 1);
    factory.stop(STOP).await.unwrap();
}

/// B018
#[tokio::test]
async fn a_new_token_tears_no_watch_and_goes_out_with_the_next_one() {
    let rotated = Arc::new(Notify::new());
    let wait = Arc::clone(&rotated);
    let (addr, requests) = cluster(move |number, mut peer| {
        let rotated = Arc::clone(&wait);
        async move {
            peer.write(WATCH).await;
            if number == 1 {
                rotated.notified().await;
                peer.write(&(event() + "0\r\n\r\n")).await;
            }
            peer.request().await;
        }
    })
    .await;
    let cell = TokenCell::new("old");
    let config = Config::from_url(&format!("http://{addr}")).unwrap();
    let config = config.with_token_source(TokenSource::Shared(cell.clone()));
    let factory = Factory::new(Client::connect(config).unwrap());
    let maps = factory.informer_with(paged::<ConfigMap>());
    factory.start();
    eventually("the watch is open", || of(&requests, "watch=true").len() == 1).await;
    cell.set("new");
    rotated.notify_one();
    eventually("the open watch brings the event", || maps.lister().len() == 1).await;
    eventually("there is another one", || of(&requests, "watch=true").len() == 2).await;
    let watches = of(&requests, "watch=true");
    assert!(watches[0].contains("authorization: Bearer old") && watches[1].contains("authorization: Bearer new"));
    assert_eq!(version(&requests, 2), "101");
    factory.stop(STOP).await.unwrap();
}
