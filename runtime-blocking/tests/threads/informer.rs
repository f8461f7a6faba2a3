//! Caches, handlers, indexes, and what happens when server or handlers misbehave.

use crate::support::*;
use informer_blocking::core::informer::Notice;
use informer_blocking::core::reflector::{ListStrategy, Phase};
use informer_blocking::core::wire::Verb;
use informer_blocking::runtime::config::{TokenCell, TokenSource};
use informer_blocking::{
    Cause, Client, Config, DynamicObject, Error, Factory, FactoryOptions, HandlerOptions, InformerSpec, Notification,
    Object, Observed, Overflow,
};
use informer_sim::Served;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

fn line(event: &Notification<ConfigMap>) -> String {
    match event {
        Notification::Added { object, .. } => format!("+{} {}", object.key().name(), object.v()),
        Notification::Updated { old, new, .. } => format!("{} {}>{}", new.key().name(), old.v(), new.v()),
        Notification::Deleted { object, final_state_known, .. } => {
            format!("-{}{}", object.key().name(), if *final_state_known { "" } else { "?" })
        }
        _ => "?".into(),
    }
}

#[test]
fn a_thousand_objects_are_synced_and_every_handler_sees_each_change_in_order() {
    let served = serve(server());
    for number in 0..1_000 {
        put(&served, &format!("m{number}"), "0");
    }
    let factory = factory(&served.url());
    let maps = factory.informer::<ConfigMap>();
    let logs: Vec<Log> = (0..2).map(|_| Log::default()).collect();
    for log in &logs {
        let log = log.clone();
        maps.handle(move |event| log.add(line(event)));
    }
    factory.start();
    factory.synced(PATIENCE).unwrap();
    assert_eq!(maps.lister().len(), 1_000);
    for value in 1..=20 {
        put(&served, "m7", &value.to_string());
    }
    put(&served, "new", "a");
    delete(&served, "m7");
    for log in &logs {
        eventually("the last event is seen", || log.lines().last().is_some_and(|line| line == "-m7"));
        let lines = log.lines();
        assert!(lines[..1_000].iter().all(|line| line.starts_with("+m") && line.ends_with(" 0")));
        let mut expected: Vec<_> = (1..=20).map(|value| format!("m7 {}>{value}", value - 1)).collect();
        expected.extend(["+new a".to_string(), "-m7".to_string()]);
        assert_eq!(lines[1_000..], expected);
    }
    assert!(maps.lister().named("new").is_none() && maps.lister().namespace("other").named("new").is_none());
    assert_eq!(maps.lister().namespace("ns").named("new").unwrap().v(), "a");
    factory.stop(STOP).unwrap();
    assert_eq!(factory.threads(), 0);
}

#[test]
fn who_comes_late_misses_nothing() {
    let served = serve(server());
    for number in 0..10 {
        put(&served, &format!("m{number}"), &number.to_string());
    }
    let factory = factory(&served.url());
    let maps = factory.informer::<ConfigMap>();
    let early = maps.index("value", |map| map.v().to_string());
    factory.start();
    factory.synced(PATIENCE).unwrap();
    assert_eq!(early.keys("3").len(), 1);

    let log = Log::default();
    let writer = log.clone();
    let registration = maps.handle_with(HandlerOptions::named("late"), move |event| {
        assert!(matches!(event, Notification::Added { initial: true, cause: Cause::List, .. }));
        writer.add(line(event));
    });
    assert!(registration.wait_synced(PATIENCE).unwrap());
    assert_eq!((registration.name(), log.len(), registration.panics()), ("late", 10, 0));

    let late = maps.index("length", |map| map.v().len().to_string());
    assert_eq!((late.get("1").len(), late.values()), (10, vec!["1".to_string()]));
    put(&served, "m3", "33");
    eventually("both indexes follow", || late.keys("2").len() == 1 && early.keys("33").len() == 1);
    assert!(early.get("3").is_empty());
    assert!(maps.try_index("value", |_| "").unwrap_err().to_string().contains("value"));
    assert_eq!(maps.by_index("length").get("1").len(), 9);

    // A second informer of the same scope is the first one.
    assert_eq!(factory.informer::<ConfigMap>().lister().len(), 10);
    registration.remove();
    eventually("the handler has ended", || registration.is_finished());
    factory.stop(STOP).unwrap();
}

#[test]
fn selectors_and_namespaces_narrow_what_is_cached() {
    let served = serve(server());
    for number in 0..6 {
        put_in(&served, if number < 3 { "a" } else { "b" }, &format!("m{number}"), &number.to_string());
    }
    let factory = factory(&served.url());
    let even = factory.informer_with(InformerSpec::<ConfigMap>::new().labels(&"parity=even".parse().unwrap()));
    let a = factory.informer_with(InformerSpec::<ConfigMap>::new().namespace("a"));
    let one = factory.informer_with(InformerSpec::<ConfigMap>::new().fields(&"metadata.name=m4".parse().unwrap()));
    let all = factory.informer::<ConfigMap>();
    let mut events = even.events();
    factory.start();
    factory.synced(PATIENCE).unwrap();
    let sizes = [&even, &a, &one, &all].map(|informer| informer.lister().len());
    assert_eq!(sizes, [3, 3, 1, 6]);
    for _ in 0..3 {
        assert!(matches!(events.next(), Some(Notification::Added { .. })));
    }
    // It leaves the selection: deleted, as far as this informer can tell.
    put_in(&served, "a", "m0", "7");
    assert_eq!(line(&events.next().unwrap()), "-m0");
    assert!(events.registration().has_synced());
    assert!(events.next_within(Duration::from_millis(1)).is_none());
    assert_eq!(all.lister().namespace("a").list().len(), 3);
    factory.stop(STOP).unwrap();
    assert!(events.next().is_none());
}

#[test]
fn an_informer_of_any_kind_keeps_the_json() {
    let served = serve(server());
    put(&served, "m", "1");
    let factory = factory(&served.url());
    let maps = factory.informer_of::<DynamicObject>(ConfigMap::resource());
    factory.start();
    factory.synced(PATIENCE).unwrap();
    let map = maps.lister().list()[0].clone();
    assert_eq!((map.kind(), map.parse::<ConfigMap>().unwrap().v()), ("ConfigMap", "1"));
    // The same collection as another type is an informer of its own.
    let typed = factory.informer::<ConfigMap>();
    factory.start();
    factory.synced(PATIENCE).unwrap();
    assert_eq!((typed.lister().list()[0].v(), maps.lister().len()), ("1", 1));
}

#[test]
fn a_handler_that_panics_or_sleeps_bothers_nobody_else() {
    let served = serve(server());
    put(&served, "m", "0");
    let reports = Log::default();
    let told = reports.clone();
    let observer = move |observed: &Observed<'_>| {
        if let Observed::HandlerPanic { handler, text, .. } = observed {
            told.add(format!("{handler}: {text}"));
        }
    };
    let factory = Factory::with_options(client(&served.url()), FactoryOptions::observed(Arc::new(observer)));
    let maps = factory.informer::<ConfigMap>();
    let log = Log::default();
    let (wake, sleep) = mpsc::channel::<()>();
    let sleeping = maps.handle(move |_| _ = sleep.recv());
    let panicking = maps.handle_with(HandlerOptions::named("panics"), |event| {
        assert!(line(event).contains("3>4"), "a panic that belongs to the test");
    });
    let writer = log.clone();
    maps.handle(move |event| writer.add(line(event)));
    factory.start();
    factory.synced(PATIENCE).unwrap();
    for value in 1..=5 {
        put(&served, "m", &value.to_string());
    }
    eventually("the third handler has everything", || log.len() == 6);
    eventually("the second one got on after each panic", || panicking.panics() == 5);
    eventually("each was reported", || reports.len() == 5);
    assert!(reports.lines().iter().all(|line| line == "panics: a panic that belongs to the test"), "{reports:?}");
    assert!(panicking.has_synced() && !sleeping.has_synced() && sleeping.pending() > 0);
    drop(wake);
    eventually("the first one wakes", || sleeping.has_synced());
    factory.stop(STOP).unwrap();
}

#[test]
fn a_restart_of_the_server_deletes_nothing() {
    let mut served = serve(server());
    for number in 0..50 {
        put(&served, &format!("m{number}"), "0");
    }
    let factory = factory(&served.url());
    let maps = factory.informer_with(impatient());
    let log = Log::default();
    let writer = log.clone();
    maps.handle(move |event| writer.add(line(event)));
    factory.start();
    factory.synced(PATIENCE).unwrap();
    eventually("all are told", || log.len() == 50);

    served.restart().unwrap();
    put(&served, "m1", "1");
    delete(&served, "m2");
    eventually("the cache converges", || {
        let lister = maps.lister().namespace("ns");
        lister.named("m1").is_some_and(|map| map.v() == "1") && lister.named("m2").is_none()
    });
    eventually("the handler is told", || log.len() == 52);
    let mut told = log.lines().split_off(50);
    told.sort_unstable();
    assert!(told[0].starts_with("-m2") && told[1] == "m1 0>1", "{told:?}");
    assert_eq!(maps.lister().len(), 49);
    factory.stop(STOP).unwrap();
}

#[test]
fn what_keeps_an_informer_from_syncing_is_named() {
    let forbidden = r#"{"kind":"Status","reason":"Forbidden","message":"user \"ci\" cannot list","code":403}"#;
    let script = Script::start(move |_| Reply::Answer(403, forbidden.into()));
    let served = factory(&script.url());
    served.informer::<ConfigMap>();
    let unstarted = served.synced(PATIENCE).unwrap_err().to_string();
    assert!(unstarted.contains("not started"), "{unstarted}");
    served.start();
    eventually("it was refused", || served.lagging().iter().any(|lagging| lagging.failure.is_some()));
    let refused = served.synced(Duration::from_millis(1)).unwrap_err();
    assert!(refused.to_string().contains("403") && refused.to_string().contains("cannot list"), "{refused}");
    served.stop(STOP).unwrap();
    assert!(matches!(served.synced(PATIENCE), Err(Error::Stopped)));

    let nobody = factory("http://127.0.0.1:1");
    nobody.informer::<ConfigMap>();
    nobody.start();
    eventually("it was refused", || nobody.lagging().iter().any(|lagging| lagging.failure.is_some()));
    let refused = nobody.synced(Duration::from_millis(1)).unwrap_err().to_string();
    assert!(refused.contains("cannot connect to 127.0.0.1:1") && refused.contains("check the server's address"));
    nobody.stop(STOP).unwrap();
}

#[test]
fn answers_that_are_cut_short_or_no_http_are_failures_and_tried_again() {
    let answers = [
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"kin\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
        "SSH-2.0-OpenSSH_9.9\r\n",
        "",
    ];
    let asked = AtomicUsize::new(0);
    let script = Script::start(move |_| {
        answers.get(asked.fetch_add(1, Ordering::SeqCst)).map_or(Reply::Silence, |raw| Reply::Raw((*raw).into()))
    });
    let failures = Log::default();
    let writer = failures.clone();
    let options = FactoryOptions::observed(Arc::new(move |observed| {
        if let Observed::Notice { notice: Notice::Failure(failure), .. } = observed {
            writer.add(failure.to_string());
        }
    }));
    let factory = Factory::with_options(client(&script.url()), options);
    factory.informer_with(impatient());
    factory.start();
    eventually("each was tried again", || failures.len() >= answers.len());
    let expected = [
        "closed inside the body",
        "closed inside the body",
        "no HTTP/1.1",
        "no HTTP/1.1",
        "closed the connection without an answer",
    ];
    for (failure, expected) in failures.lines().iter().zip(expected) {
        assert!(failure.contains(expected), "{failure}");
    }
    factory.stop(STOP).unwrap();
}

#[test]
fn pages_share_a_connection_and_a_watch_has_its_own() {
    let script = Script::start(|request| {
        let target = request.split(' ').nth(1).unwrap();
        if target.contains("watch=true") {
            return Reply::Silence;
        }
        let page = target.split_once("continue=").map_or(0, |(_, page)| page[..1].parse::<u32>().unwrap());
        let next = if page < 4 { format!(r#","continue":"{}""#, page + 1) } else { String::new() };
        Reply::Answer(
            200,
            format!(
                r#"{{"kind":"ConfigMapList","metadata":{{"resourceVersion":"9"{next}}},"items":[{{"metadata":
                {{"name":"m{page}","namespace":"ns","uid":"u{page}","resourceVersion":"5"}}}}]}}"#
            ),
        )
    });
    let factory = factory(&script.url());
    let maps = factory.informer_with(impatient().strategy(ListStrategy::Paged));
    factory.start();
    factory.synced(PATIENCE).unwrap();
    assert_eq!(maps.lister().len(), 5);
    eventually("the watch is out", || script.requests().len() == 6);
    assert_eq!(script.connections(), 2);
    let head = &script.requests()[0];
    let agent = concat!("user-agent: informer/", env!("CARGO_PKG_VERSION"));
    assert!(head.contains(agent) && head.contains("accept-encoding: gzip"), "{head}");
    assert!(head.contains(&format!("host: {}", script.url().trim_start_matches("http://"))), "{head}");
    factory.stop(STOP).unwrap();
}

#[test]
fn an_idle_connection_that_died_is_replaced_without_a_failure() {
    let failures = Arc::new(AtomicBool::new(false));
    let script = Script::start(|request| {
        let target = request.split(' ').nth(1).unwrap();
        if target.contains("watch=true") {
            return Reply::Silence;
        }
        let next = if target.contains("continue=") { "" } else { r#","continue":"1""# };
        Reply::AnswerAndClose(
            200,
            format!(r#"{{"kind":"ConfigMapList","metadata":{{"resourceVersion":"9"{next}}},"items":[]}}"#),
        )
    });
    let seen = Arc::clone(&failures);
    let options = FactoryOptions::observed(Arc::new(move |observed| {
        if let Observed::Notice { notice: Notice::Failure(_), .. } = observed {
            seen.store(true, Ordering::SeqCst);
        }
    }));
    let factory = Factory::with_options(client(&script.url()), options);
    factory.informer_with(impatient().strategy(ListStrategy::Paged));
    factory.start();
    factory.synced(PATIENCE).unwrap();
    assert!(!failures.load(Ordering::SeqCst));
    factory.stop(STOP).unwrap();
}

#[test]
fn a_new_token_is_sent_with_the_next_request() {
    let answers = AtomicUsize::new(0);
    let script = Script::start(move |request| {
        let list = r#"{"kind":"ConfigMapList","metadata":{"resourceVersion":"9"},"items":[]}"#;
        match answers.fetch_add(1, Ordering::SeqCst) {
            0 => Reply::Answer(503, String::new()),
            _ if request.contains("watch=true") => Reply::Silence,
            _ => Reply::Answer(200, list.into()),
        }
    });
    let cell = TokenCell::new("first");
    let config = Config::from_url(&script.url()).unwrap().with_token_source(cell.clone());
    let gate_cell = cell.clone();
    let requests = AtomicUsize::new(0);
    let mut options = FactoryOptions::default();
    options.gate = Some(Arc::new(move |_| {
        if requests.fetch_add(1, Ordering::SeqCst) == 1 {
            gate_cell.set("second");
        }
        Ok(())
    }));
    let factory = Factory::with_options(Client::connect(config).unwrap(), options);
    factory.informer_with(impatient());
    factory.start();
    factory.synced(PATIENCE).unwrap();
    let heads = script.requests();
    assert!(heads[0].contains("authorization: Bearer first\r\n"));
    assert!(heads[1].contains("authorization: Bearer second\r\n"));
    factory.stop(STOP).unwrap();
}

#[test]
fn a_refused_token_is_read_again_from_its_file() {
    let mut server =
        informer_sim::Server::new(informer_sim::Config { token: Some("new".into()), ..Default::default() });
    server.register_common();
    let served = serve(server);
    let path = std::env::temp_dir().join(format!("informer-blocking-token-{}", std::process::id()));
    std::fs::write(&path, "old").unwrap();
    let config = Config::from_url(&served.url()).unwrap().with_token_source(TokenSource::file(&path));
    let client = Client::connect(config).unwrap();
    let key = "ns/m".parse().unwrap();
    assert!(client.get::<ConfigMap>(&key).unwrap_err().to_string().contains("401"));
    std::fs::write(&path, "new").unwrap();
    // The file was read less than its period ago; only the refusal makes it be read again.
    assert!(client.get::<ConfigMap>(&key).unwrap_err().is_not_found());

    std::fs::write(&path, "old").unwrap();
    let config = Config::from_url(&served.url()).unwrap().with_token_source(TokenSource::file(&path));
    let factory = Factory::new(Client::connect(config).unwrap());
    factory.informer_with(impatient());
    factory.start();
    eventually("the old token is refused", || factory.lagging().iter().any(|lagging| lagging.failure.is_some()));
    std::fs::write(&path, "new").unwrap();
    factory.synced(PATIENCE).unwrap();
    factory.stop(STOP).unwrap();
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_gate_that_panics_refuses_the_request_and_says_so() {
    let served = serve(server());
    let (tries, failures) = (AtomicUsize::new(0), Arc::new(Mutex::new(Vec::new())));
    let told = Arc::clone(&failures);
    let mut options = FactoryOptions::observed(Arc::new(move |observed: &Observed<'_>| {
        if observed.is_failure() {
            told.lock().unwrap().push(observed.to_string());
        }
    }));
    options.gate = Some(Arc::new(move |_| {
        assert_ne!(tries.fetch_add(1, Ordering::SeqCst), 0, "no gate without a key");
        Ok(())
    }));
    let factory = Factory::with_options(client(&served.url()), options);
    factory.informer_with(impatient());
    factory.start();
    factory.synced(PATIENCE).unwrap();
    let failure = failures.lock().unwrap()[0].clone();
    assert!(failure.contains("the gate panicked: ") && failure.contains("no gate without a key"), "{failure}");
    factory.stop(STOP).unwrap();
}

#[test]
fn a_gate_that_refuses_counts_as_a_refused_connection() {
    let served = serve(server());
    let tries = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&tries);
    let mut options = FactoryOptions::default();
    options.gate = Some(Arc::new(move |request| {
        if request.verb == Verb::Watch || counter.fetch_add(1, Ordering::SeqCst) > 1 {
            return Ok(());
        }
        Err(std::io::Error::other("closed by the test"))
    }));
    let factory = Factory::with_options(client(&served.url()), options);
    factory.informer_with(impatient().strategy(ListStrategy::Paged));
    factory.start();
    factory.synced(PATIENCE).unwrap();
    assert_eq!(tries.load(Ordering::SeqCst), 3);
    factory.stop(STOP).unwrap();
}

#[test]
fn a_held_factory_takes_nothing_until_it_is_let_go() {
    let served = serve(server());
    let factory = factory(&served.url());
    let maps = factory.informer::<ConfigMap>();
    factory.start();
    factory.synced(PATIENCE).unwrap();
    eventually("it watches", || maps.phase() == Phase::Watching);
    factory.hold(true);
    put(&served, "m", "1");
    // Another factory sees the object, so it is out on the wire.
    let other = crate::support::factory(&served.url());
    let others = other.informer::<ConfigMap>();
    other.start();
    eventually("the other one has it", || others.lister().len() == 1);
    assert!(maps.lister().is_empty());
    factory.hold(false);
    eventually("it comes after all", || maps.lister().len() == 1);
    factory.hold(true);
    factory.stop(STOP).unwrap();
    other.stop(STOP).unwrap();
}

#[test]
fn a_server_on_ipv6_is_reached() {
    let Ok(served) = Served::start(server(), "[::1]:0".parse().unwrap()) else {
        eprintln!("this machine has no IPv6 loopback");
        return;
    };
    put(&served, "m", "1");
    let factory = factory(&served.url());
    let maps = factory.informer::<ConfigMap>();
    factory.start();
    factory.synced(PATIENCE).unwrap();
    assert_eq!(maps.lister().len(), 1);
    factory.stop(STOP).unwrap();
}

#[test]
fn a_host_name_is_tried_at_all_its_addresses() {
    // `localhost` may be ::1 first; the server listens on 127.0.0.1 only.
    let served = serve(server());
    put(&served, "m", "1");
    let client = client(&format!("http://localhost:{}", served.addr().port()));
    assert_eq!(client.get::<ConfigMap>(&"ns/m".parse().unwrap()).unwrap().v(), "1");
    let nowhere = crate::support::client("http://no-such-host.invalid");
    let error = nowhere.get::<ConfigMap>(&"ns/m".parse().unwrap()).unwrap_err().to_string();
    assert!(error.contains("\"no-such-host.invalid\""), "{error}");
}

#[test]
fn a_suspend_that_only_the_wall_clock_shows_opens_the_watch_anew_on_a_fresh_connection() {
    let served = serve(server());
    put(&served, "a", "1");
    let (slept, told) = (Arc::new(AtomicBool::new(false)), Log::default());
    let (sleeps, log) = (Arc::clone(&slept), told.clone());
    let mut options = FactoryOptions::observed(Arc::new(move |observed: &Observed<'_>| {
        if let Observed::Request(request) = observed {
            log.add(if request.verb == Verb::Watch { request.fresh_connection.to_string() } else { "list".into() });
        } else if observed.is_failure() {
            log.add(observed.to_string());
        }
    }));
    options.wall_clock = Some(Arc::new(move || {
        Duration::from_secs(if sleeps.load(Ordering::SeqCst) { 1_790_007_200 } else { 1_790_000_000 })
    }));
    let factory = Factory::with_options(client(&served.url()), options);
    let maps = factory.informer_with(InformerSpec::<ConfigMap>::new().strategy(ListStrategy::Paged));
    factory.start();
    eventually("the watch is open", || maps.phase() == Phase::Watching);
    slept.store(true, Ordering::SeqCst);
    // Anything that wakes the driver will do; it wakes up by itself within ten seconds.
    let log = Log::default();
    let seen = log.clone();
    maps.handle(move |event| seen.add(line(event)));
    eventually("the watch is opened again", || told.len() == 3 && maps.phase() == Phase::Watching);
    put(&served, "a", "2");
    eventually("the new watch is read", || log.lines() == ["+a 1", "a 1>2"]);
    assert_eq!(told.lines(), ["list", "false", "true"], "no failure and no second list");
    factory.stop(STOP).unwrap();
}

#[test]
fn a_watch_is_not_read_while_a_handler_that_asked_for_it_has_too_much_to_do() {
    let served = serve(server());
    put(&served, "m", "0");
    let factory = factory(&served.url());
    let maps = factory.informer::<ConfigMap>();
    let (wake, sleep) = mpsc::channel::<()>();
    let (log, others) = (Log::default(), Log::default());
    let (writer, other) = (log.clone(), others.clone());
    let mut options = HandlerOptions::named("slow");
    options.overflow = Overflow::Pause { limit: 4 };
    let slow = maps.handle_with(options, move |event| {
        _ = sleep.recv();
        writer.add(line(event));
    });
    maps.handle(move |event| other.add(line(event)));
    factory.start();
    factory.synced(PATIENCE).unwrap();
    for value in 1..=200 {
        put(&served, "m", &value.to_string());
    }
    eventually("the informer waits", || slow.stats().pauses == 1);
    // One commit of events is the most that it takes at a time.
    assert!(slow.pending() <= 4 + 64 && others.len() <= 1 + 4 + 64);
    assert!(maps.lister().namespace("ns").named("m").unwrap().v() != "200");
    drop(wake);
    eventually("all is told", || log.len() == 201 && others.len() == 201);
    let updates: Vec<_> = (0..200).map(|value| format!("m {value}>{}", value + 1)).collect();
    assert_eq!((&log.lines()[1..], slow.stats().merged), (&updates[..], 0));
    factory.stop(STOP).unwrap();
}

#[test]
fn a_stop_does_not_wait_for_a_handler_that_holds_its_informer_up() {
    let served = serve(server());
    put(&served, "m", "0");
    let factory = factory(&served.url());
    let maps = factory.informer::<ConfigMap>();
    let (wake, sleep) = mpsc::channel::<()>();
    let mut options = HandlerOptions::named("slow");
    options.overflow = Overflow::Pause { limit: 1 };
    let slow = maps.handle_with(options, move |_| _ = sleep.recv());
    factory.start();
    factory.synced(PATIENCE).unwrap();
    for value in 1..=20 {
        put(&served, "m", &value.to_string());
    }
    eventually("the informer waits", || slow.stats().pauses == 1);
    factory.request_stop();
    eventually("nothing waits any more", || slow.pending() == 0);
    drop(wake);
    slow.wait_finished().unwrap();
    factory.stop(STOP).unwrap();
}
