//! Stops: from every state, in time, with nothing left behind.

use crate::support::*;
use informer_runtime::config::TokenSource;
use informer_sim::Config as SimConfig;
use informer_tokio::{Client, Config, Error, Factory, HandlerOptions};
use std::sync::mpsc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::runtime::Handle;

async fn stops(factory: &Factory) {
    factory.stop(STOP).await.unwrap();
    assert_eq!(factory.tasks(), 0);
    factory.stop(STOP).await.expect("a second stop has nothing to do");
}

#[tokio::test]
async fn a_factory_that_never_started_stops() {
    let factory = factory(&serve());
    let maps = factory.informer::<ConfigMap>();
    let registration = maps.handle(|_| {});
    stops(&factory).await;
    assert!(registration.is_finished() && !registration.synced().await);
    assert!(maps.events().next().await.is_none());
    assert!(maps.handle(|_| {}).is_finished(), "a handler that comes too late is not kept");
    assert!(matches!(factory.try_informer(informer_tokio::InformerSpec::<Widget>::new()), Err(Error::Stopped)));
}

#[tokio::test]
async fn a_factory_stops_while_a_server_accepts_and_never_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let factory = Factory::new(client_of(&format!("http://{}", listener.local_addr().unwrap())));
    factory.informer::<ConfigMap>().handle(|_| {});
    factory.start();
    let (mut socket, _) = listener.accept().await.unwrap();
    let mut peer = Peer(socket);
    assert!(peer.request().await.unwrap().starts_with("GET /api/v1/configmaps?"));
    stops(&factory).await;
    socket = peer.0;
    let mut rest = [0];
    let closed = tokio::io::AsyncReadExt::read(&mut socket, &mut rest).await;
    assert!(matches!(closed, Ok(0) | Err(_)), "the connection is closed, too");
}

#[tokio::test]
async fn a_factory_stops_while_it_watches_and_the_server_sees_it() {
    let served = serve();
    let factory = factory(&served);
    let maps = factory.informer::<ConfigMap>();
    maps.handle(|_| {});
    maps.handle_async(HandlerOptions::default(), |_| async {});
    factory.start();
    factory.synced(LONG).await.unwrap();
    eventually("the watch is open", || served.with(|server, _| server.open_calls()) == 1).await;
    stops(&factory).await;
    eventually("the watch is closed", || served.with(|server, _| server.open_calls()) == 0).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_factory_stops_while_it_connects() {
    let (addr, _crowd) = crowded();
    let factory = Factory::new(client_of(&format!("http://{addr}")));
    factory.informer::<ConfigMap>();
    factory.start();
    eventually("it connects", || is_dialled(addr.port())).await;
    stops(&factory).await;
    assert!(!is_dialled(addr.port()), "the attempt is over, too");
}

#[tokio::test]
async fn a_factory_stops_while_it_waits_for_a_tls_handshake() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let factory = Factory::new(Client::connect(Config::from_url(&url).unwrap().insecure(true)).unwrap());
    factory.informer::<ConfigMap>();
    factory.start();
    let (mut socket, _) = listener.accept().await.unwrap();
    socket.read_u8().await.unwrap(); // it has begun, and nobody will answer
    stops(&factory).await;
}

#[tokio::test]
async fn a_factory_stops_while_it_waits_to_try_again() {
    let factory = Factory::new(client_of(&closed_port().await));
    let maps = factory.informer::<ConfigMap>();
    factory.start();
    eventually("a connection is refused", || maps.last_failure().is_some()).await;
    stops(&factory).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_the_last_factory_stops_everything_though_informers_are_held() {
    let served = serve();
    let factory = factory(&served);
    let lives = factory.lives();
    let maps = factory.informer::<ConfigMap>();
    let registration = maps.handle(|_| {});
    factory.start();
    factory.synced(LONG).await.unwrap();
    let clone = factory.clone();
    drop(factory);
    assert!(!clone.is_stopping());
    std::thread::spawn(move || drop(clone)).join().unwrap();
    eventually("nothing runs", || lives.count() == 0).await;
    assert!(registration.is_finished());
    assert!(maps.lister().is_empty());
}

#[test]
fn a_runtime_that_goes_away_takes_everything_along() {
    let served = serve();
    let factory = factory(&served);
    let maps = factory.informer::<ConfigMap>();
    let registration = maps.handle(|_| {});
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        factory.start();
        factory.synced(LONG).await.unwrap();
    });
    drop(runtime);
    assert_eq!(factory.tasks(), 0);
    assert!(registration.is_finished());
    // What comes later ends at once.
    assert!(maps.handle(|_| {}).is_finished());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_that_could_never_end_are_errors() {
    let served = serve();
    put(&served, "web/a", "1");
    let factory = factory(&served);
    let maps = factory.informer::<ConfigMap>();
    let log = Log::default();
    let (mine, write) = (factory.clone(), log.clone());
    maps.handle(move |_| {
        let outcome = Handle::current().block_on(mine.stop(LONG));
        write.add(outcome.unwrap_err().to_string());
    });
    let (mine, write) = (factory.clone(), log.clone());
    maps.handle_async(HandlerOptions::default(), move |_| {
        let (mine, write) = (mine.clone(), write.clone());
        async move { write.add(mine.synced(LONG).await.unwrap_err().to_string()) }
    });
    factory.start();
    let mut lines = log.until(2).await;
    lines.sort();
    let rule = "was called inside a handler or reconciler, and would wait for itself: call it from elsewhere";
    assert_eq!(lines, [format!("stop() {rule}"), format!("synced() {rule}")]);
    assert!(!factory.is_stopping(), "a refused stop stops nothing");
    stops(&factory).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_can_ask_for_a_stop_and_a_stop_waits_for_a_handler() {
    let served = serve();
    put(&served, "web/a", "1");
    let factory = factory(&served);
    let (release, held) = mpsc::channel::<()>();
    let log = Log::default();
    let (mine, write) = (factory.clone(), log.clone());
    factory.informer::<ConfigMap>().handle(move |_| {
        mine.request_stop();
        write.add("in");
        held.recv().ok();
        write.add("out");
    });
    factory.start();
    log.until(1).await;
    let error = factory.stop(Duration::from_millis(100)).await.unwrap_err();
    assert!(matches!(error, Error::StillRunning(1)), "{error}");
    drop(release);
    stops(&factory).await;
    assert_eq!(log.lines(), ["in", "out"], "a call that runs is waited for, not cut short");
}

#[tokio::test]
async fn a_sync_that_does_not_come_says_why() {
    let factory = Factory::new(client_of(&closed_port().await));
    let maps = factory.informer::<ConfigMap>();
    let error = factory.synced(LONG).await.unwrap_err().to_string();
    assert!(error.contains("not started; call start()"), "{error}");
    factory.start();
    eventually("a connection is refused", || maps.last_failure().is_some()).await;
    let error = factory.synced(Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(&error, Error::NotSynced(lagging) if lagging.len() == 1));
    assert!(error.to_string().contains("cannot connect to 127.0.0.1:"), "{error}");
    assert_eq!(factory.lagging().len(), 1);
    stops(&factory).await;
    assert!(matches!(factory.synced(LONG).await, Err(Error::Stopped)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b138_who_gives_up_waiting_and_drops_the_factory_leaves_no_request() {
    // It takes connections, and answers nothing.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let factory = Factory::new(client_of(&format!("http://{}", silent.local_addr().unwrap())));
    let lives = factory.lives();
    let registration = factory.informer_with(paged::<ConfigMap>()).handle(|_| {});
    factory.start();
    let (mut request, _) = silent.accept().await.unwrap();
    factory.synced(Duration::from_millis(1)).await.expect_err("nobody answers");
    drop(factory);
    let mut sent = Vec::new();
    let end = tokio::time::timeout(LONG, tokio::io::AsyncReadExt::read_to_end(&mut request, &mut sent)).await;
    // Closed or reset, as the system likes it.
    _ = end.expect("the request is given up");
    eventually("nothing runs", || lives.count() == 0).await;
    assert!(registration.is_finished() && !registration.has_synced());
}

#[tokio::test]
async fn a_sync_that_the_server_refuses_names_the_code() {
    let served = serve_with(SimConfig { token: Some("right".into()), ..SimConfig::default() }, "127.0.0.1:0", &[]);
    let config = Config::from_url(&served.url()).unwrap().with_token_source(TokenSource::Fixed("wrong".into()));
    let factory = Factory::new(Client::connect(config).unwrap());
    let maps = factory.informer::<ConfigMap>();
    factory.start();
    eventually("a refusal", || maps.last_failure().is_some()).await;
    let error = factory.synced(Duration::from_millis(50)).await.unwrap_err().to_string();
    assert!(error.contains("401"), "{error}");
    stops(&factory).await;
}
