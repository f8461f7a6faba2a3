//! Servers that go away, lie or close: what the adapter must carry to the core unharmed.

use crate::support::*;
use informer_runtime::config::{TokenCell, TokenSource};
use informer_runtime::factory::FactoryOptions as Options;
use informer_sim::Config as SimConfig;
use informer_tokio::core::reflector::{ListStrategy, Phase};
use informer_tokio::core::wire::Verb;
use informer_tokio::{Client, Config, Factory, InformerSpec, Key, Observed};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const LIST: &str = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[{"metadata":
    {"name":"a","namespace":"web","uid":"u","resourceVersion":"4"},"data":{"v":"1"}}]}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_the_server_deletes_nothing_and_what_was_missed_is_caught_up() {
    let mut served = serve();
    for name in ["a", "b", "c"] {
        put(&served, &format!("web/{name}"), "1");
    }
    let factory = factory(&served);
    let maps = factory.informer::<ConfigMap>();
    let log = Log::default();
    maps.handle(log.handler());
    factory.start();
    log.until(3).await;
    served.restart().unwrap();
    put(&served, "web/a", "2");
    assert_eq!(log.until(4).await[3..], ["web/a=1>2"]);
    served.down();
    delete(&served, "web/b");
    put(&served, "web/c", "2");
    // History is gone, so that only a list can tell.
    served.with(|server, _| server.compact());
    served.up().unwrap();
    let lines = log.until(6).await;
    assert_eq!(lines[4..], ["?web/b=1", "web/c=1>2"]);
    factory.stop(STOP).await.unwrap();
}

#[tokio::test]
async fn a_body_that_breaks_off_is_no_list() {
    let addr = scripted(|number, mut peer| async move {
        let Some(request) = peer.request().await else { return };
        match number {
            // A whole list as far as JSON goes, with fewer bytes than were promised.
            0 => peer.write(&format!("HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n{LIST}")).await,
            1 => peer.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\n{\"ki\r\n").await,
            _ if request.contains("watch=true") => {
                peer.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
                peer.request().await;
            }
            _ => peer.answer("200 OK", LIST).await,
        }
    })
    .await;
    let failures = Log::default();
    let log = failures.clone();
    let observer = move |observed: &Observed<'_>| log.add(format!("{observed:?}"));
    let factory = Factory::with_options(client_of(&format!("http://{addr}")), Options::observed(Arc::new(observer)));
    let maps = factory.informer_with(InformerSpec::<ConfigMap>::new().strategy(ListStrategy::Paged));
    factory.start();
    factory.synced(LONG).await.unwrap();
    assert_eq!(maps.lister().len(), 1);
    let failed = failures.lines().iter().filter(|line| line.contains("Failure(")).count();
    assert_eq!(failed, 2, "{failures:?}");
    factory.stop(STOP).await.unwrap();
}

#[tokio::test]
async fn a_connection_is_used_again_and_a_dead_one_is_replaced_unseen() {
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    let addr = scripted(move |number, mut peer| {
        count.fetch_add(1, Ordering::SeqCst);
        async move {
            // The first connection closes when it is asked for the third time, without a word.
            for _ in 0..if number == 0 { 2 } else { usize::MAX } {
                let Some(_) = peer.request().await else { return };
                peer.answer("200 OK", r#"{"metadata":{"name":"a","namespace":"web"}}"#).await;
            }
            peer.request().await;
        }
    })
    .await;
    let api = client_of(&format!("http://{addr}")).api::<ConfigMap>();
    let key = Key::new("web", "a");
    for expected in [1, 1, 2, 2] {
        api.get(&key).await.unwrap();
        assert_eq!(connections.load(Ordering::SeqCst), expected);
    }
}

#[tokio::test]
async fn a_write_whose_connection_dies_is_not_sent_twice() {
    let requests = Log::default();
    let log = requests.clone();
    let addr = scripted(move |_, mut peer| {
        let log = log.clone();
        async move {
            while let Some(request) = peer.request().await {
                log.add(request.split(' ').next().unwrap());
                if request.starts_with("POST") {
                    return;
                }
                peer.answer("200 OK", r#"{"metadata":{"name":"a","namespace":"web"}}"#).await;
            }
        }
    })
    .await;
    let api = client_of(&format!("http://{addr}")).api::<ConfigMap>();
    api.get(&Key::new("web", "a")).await.unwrap();
    let error = api.create("web", &ConfigMap::new("a", "1")).await.unwrap_err();
    assert!(error.to_string().starts_with("POST /api/v1/namespaces/web/configmaps: "), "{error}");
    assert_eq!(requests.lines(), ["GET", "POST"]);
}

#[tokio::test]
async fn a_gate_that_is_shut_is_a_refused_connection() {
    let served = serve();
    let asked = Log::default();
    let log = asked.clone();
    let gate = move |request: &informer_tokio::core::wire::Request| {
        log.add(request.verb.to_string());
        if log.len() == 1 { Err(io::Error::other("the gate is shut")) } else { Ok(()) }
    };
    let mut options = Options::default();
    options.gate = Some(Arc::new(gate));
    let factory = Factory::with_options(client(&served), options);
    let maps = factory.informer::<ConfigMap>();
    factory.start();
    eventually("a refusal", || maps.last_failure().is_some_and(|it| it.to_string().contains("the gate is shut"))).await;
    factory.synced(LONG).await.unwrap();
    let asked = asked.lines();
    assert_eq!(asked[0], asked[1], "the request that was refused comes again");
    factory.stop(STOP).await.unwrap();
}

#[tokio::test]
async fn a_gate_that_panics_refuses_the_request_and_says_so() {
    let served = serve();
    let (tries, failures) = (AtomicUsize::new(0), Log::default());
    let told = failures.clone();
    let mut options = Options::observed(Arc::new(move |observed: &Observed<'_>| {
        if observed.is_failure() {
            told.add(observed.to_string());
        }
    }));
    options.gate = Some(Arc::new(move |_| {
        assert_ne!(tries.fetch_add(1, Ordering::SeqCst), 0, "no gate without a key");
        Ok(())
    }));
    let factory = Factory::with_options(client(&served), options);
    factory.informer::<ConfigMap>();
    factory.start();
    factory.synced(LONG).await.unwrap();
    let failure = failures.lines()[0].clone();
    assert!(failure.contains("the gate panicked: ") && failure.contains("no gate without a key"), "{failure}");
    factory.stop(STOP).await.unwrap();
}

fn guarded() -> informer_sim::Served {
    serve_with(SimConfig { token: Some("right".into()), ..SimConfig::default() }, "127.0.0.1:0", &[])
}

#[tokio::test]
async fn a_token_that_is_replaced_opens_the_door() {
    let served = guarded();
    let cell = TokenCell::new("wrong");
    let config = Config::from_url(&served.url()).unwrap().with_token_source(cell.clone());
    let client = Client::connect(config).unwrap();
    let factory = Factory::new(client.clone());
    let maps = factory.informer::<ConfigMap>();
    factory.start();
    eventually("a refusal", || maps.last_failure().is_some()).await;
    cell.set("right");
    factory.synced(LONG).await.unwrap();
    client.create("web", &ConfigMap::new("a", "1")).await.unwrap();
    eventually("the watch shows it", || maps.lister().len() == 1).await;
    factory.stop(STOP).await.unwrap();
}

#[tokio::test]
async fn a_refused_token_file_is_read_again_at_once() {
    let served = guarded();
    let file = std::env::temp_dir().join(format!("informer-tokio-token-{}", std::process::id()));
    std::fs::write(&file, "stale").unwrap();
    let source = TokenSource::file(&file);
    // Read once, it would be kept for a minute.
    assert_eq!(source.current(false).unwrap().unwrap().expose(), "stale");
    std::fs::write(&file, "right").unwrap();
    let config = Config::from_url(&served.url()).unwrap().with_token_source(source);
    let client = Client::connect(config).unwrap();
    let created = client.create("web", &ConfigMap::new("a", "1")).await;
    std::fs::remove_file(&file).unwrap();
    assert_eq!(created.unwrap().text(), "1");
}

#[tokio::test]
async fn a_suspend_that_only_the_wall_clock_shows_opens_the_watch_anew_on_a_fresh_connection() {
    let served = serve();
    put(&served, "web/a", "1");
    let (slept, told) = (Arc::new(AtomicBool::new(false)), Log::default());
    let (sleeps, log) = (Arc::clone(&slept), told.clone());
    let mut options = Options::observed(Arc::new(move |observed: &Observed<'_>| {
        if let Observed::Request(request) = observed {
            log.add(if request.verb == Verb::Watch { request.fresh_connection.to_string() } else { "list".into() });
        } else if observed.is_failure() {
            log.add(observed.to_string());
        }
    }));
    options.wall_clock = Some(Arc::new(move || {
        Duration::from_secs(if sleeps.load(Ordering::SeqCst) { 1_790_007_200 } else { 1_790_000_000 })
    }));
    let factory = Factory::with_options(client(&served), options);
    let maps = factory.informer_with(InformerSpec::<ConfigMap>::new().strategy(ListStrategy::Paged));
    factory.start();
    eventually("the watch is open", || maps.phase() == Phase::Watching).await;
    slept.store(true, Ordering::SeqCst);
    // Anything that wakes the driver will do; it wakes up by itself within ten seconds.
    let log = Log::default();
    maps.handle(log.handler());
    eventually("the watch is opened again", || told.lines().len() == 3 && maps.phase() == Phase::Watching).await;
    put(&served, "web/a", "2");
    assert_eq!(log.until(2).await, ["*web/a=1", "web/a=1>2"]);
    assert_eq!(told.lines(), ["list", "false", "true"], "no failure and no second list");
    factory.stop(STOP).await.unwrap();
}
