//! A factory ends from every state, soon and wholly.

use crate::support::*;
use informer_blocking::core::reflector::Phase;
use informer_blocking::{Client, Config, Controller, Error, Factory, Outcome};
use std::io::Read;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

#[track_caller]
fn stops(factory: &Factory) {
    factory.stop(STOP).unwrap();
    assert_eq!(factory.threads(), 0);
    factory.stop(STOP).unwrap(); // a second time changes nothing
}

#[test]
fn a_factory_that_never_started_stops_and_closes_its_handlers() {
    let factory = factory("http://127.0.0.1:1");
    let maps = factory.informer::<ConfigMap>();
    let registration = maps.handle(|_| {});
    let mut events = maps.events();
    stops(&factory);
    assert!(registration.is_finished() && events.next().is_none());
    factory.start();
    assert_eq!(factory.threads(), 0);
    assert!(matches!(factory.try_informer(impatient()), Err(Error::Stopped)));
    assert!(!maps.handle(|_| {}).wait_synced(PATIENCE).unwrap());
}

#[test]
fn a_factory_stops_while_the_server_does_not_answer_a_list() {
    let script = Script::start(|_| Reply::Silence);
    let factory = factory(&script.url());
    let maps = factory.informer::<ConfigMap>();
    let registration = maps.handle(|_| {});
    factory.start();
    eventually("the request is out", || script.requests().len() == 1);
    stops(&factory);
    assert!(registration.is_finished());
    assert_eq!(maps.phase(), Phase::Stopped);
}

#[test]
fn a_factory_stops_inside_the_body_of_a_list() {
    let script = Script::start(|_| Reply::Answer(200, r#"{"kind":"ConfigMapList","metadata":{}"#.into()));
    let factory = factory(&script.url());
    factory.informer::<ConfigMap>();
    factory.start();
    eventually("the request is out", || !script.requests().is_empty());
    stops(&factory);
}

#[test]
fn a_factory_stops_while_it_watches_with_handlers_and_workers() {
    let served = serve(server());
    put(&served, "m", "1");
    let factory = factory(&served.url());
    let maps = factory.informer::<ConfigMap>();
    maps.handle(|_| {});
    let running = Controller::new(maps.clone()).start(|_, _| Ok(Outcome::done()));
    factory.start();
    factory.synced(PATIENCE).unwrap();
    eventually("it watches", || maps.phase() == Phase::Watching);
    assert!(factory.threads() >= 8); // driver, watch, handler, source, four workers
    stops(&factory);
    running.wait(STOP).unwrap();
    // The cache can still be read.
    assert_eq!(maps.lister().len(), 1);
}

#[test]
fn a_factory_stops_in_backoff() {
    let factory = factory("http://127.0.0.1:1");
    let maps = factory.informer::<ConfigMap>();
    factory.start();
    eventually("it waits", || maps.phase() == Phase::Backoff);
    stops(&factory);
}

#[cfg(target_os = "linux")]
#[test]
fn a_factory_stops_while_it_connects() {
    let (addr, _crowd) = crowded();
    let factory = factory(&format!("http://{addr}"));
    factory.informer::<ConfigMap>();
    factory.start();
    eventually("it connects", || is_dialled(addr.port()));
    stops(&factory); // at once, though the system's call cannot be cut short
}

#[test]
fn a_factory_stops_while_it_waits_for_a_tls_handshake() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let factory = Factory::new(Client::connect(Config::from_url(&url).unwrap().insecure(true)).unwrap());
    factory.informer::<ConfigMap>();
    factory.start();
    let (mut socket, _) = listener.accept().unwrap();
    let mut hello = [0];
    socket.read_exact(&mut hello).unwrap(); // it has begun, and nobody will answer
    stops(&factory);
}

#[test]
fn dropping_the_last_clone_stops_everything() {
    let served = serve(server());
    let factory = factory(&served.url());
    let maps = factory.informer::<ConfigMap>();
    let registration = maps.handle(|_| {});
    let mut events = maps.events();
    factory.start();
    factory.synced(PATIENCE).unwrap();
    drop(factory.clone());
    assert!(events.next_within(Duration::from_millis(1)).is_none() && !registration.is_finished());
    let lives = factory.lives();
    drop(factory);
    assert!(events.next().is_none());
    lives.wait_none(STOP).unwrap();
    assert!(registration.is_finished());
    assert_eq!(maps.phase(), Phase::Stopped);
    eventually("the server has nobody left", || served.with(|server, _| server.open_calls()) == 0);
}

#[test]
fn b138_who_gives_up_waiting_and_drops_the_factory_leaves_no_request() {
    let (closed, is_closed) = mpsc::channel();
    let script = Script::start(move |_| {
        let closed = closed.clone();
        Reply::talk(move |stream| {
            until_closed(stream);
            _ = closed.send(());
        })
    });
    let factory = factory(&script.url());
    let lives = factory.lives();
    let registration = factory.informer_with(impatient()).handle(|_| {});
    factory.start();
    eventually("the list was sent", || script.requests().len() == 1);
    factory.synced(Duration::from_millis(1)).expect_err("nobody answers");
    drop(factory);
    is_closed.recv_timeout(PATIENCE).expect("the request is given up");
    lives.wait_none(STOP).unwrap();
    assert!(registration.is_finished() && !registration.has_synced());
}

#[test]
fn waiting_inside_a_handler_is_refused() {
    let served = serve(server());
    put(&served, "m", "1");
    let factory = factory(&served.url());
    let maps = factory.informer::<ConfigMap>();
    let (send, receive) = mpsc::channel();
    let slot = Arc::new(Mutex::new(Some(factory.clone())));
    let inner = Arc::clone(&slot);
    maps.handle(move |_| {
        if let Some(factory) = inner.lock().unwrap().take() {
            let errors = [factory.stop(STOP), factory.synced(PATIENCE)].map(|result| result.unwrap_err());
            send.send(errors).unwrap();
            factory.request_stop(); // this one may be called anywhere
        }
    });
    factory.start();
    for (error, what) in receive.recv_timeout(PATIENCE).unwrap().into_iter().zip(["stop()", "synced()"]) {
        assert!(matches!(error, Error::WouldDeadlock { .. }), "{error}");
        assert!(error.to_string().starts_with(what), "{error}");
    }
    stops(&factory);
}

#[test]
fn a_handler_that_does_not_return_is_counted_and_waited_for() {
    let served = serve(server());
    put(&served, "m", "1");
    let factory = factory(&served.url());
    let (wake, sleep) = mpsc::channel::<()>();
    let (send, entered) = mpsc::channel();
    factory.informer::<ConfigMap>().handle(move |_| {
        send.send(()).unwrap();
        let _ = sleep.recv();
    });
    factory.start();
    entered.recv_timeout(PATIENCE).unwrap();
    let error = factory.stop(Duration::from_millis(300)).unwrap_err();
    assert!(matches!(error, Error::StillRunning(1..)), "{error}");
    drop(wake);
    stops(&factory);
}
