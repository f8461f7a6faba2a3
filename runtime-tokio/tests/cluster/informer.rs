//! Caches, handlers, indexes, listers.

use crate::support::*;
use informer_sim::Config as SimConfig;
use informer_tokio::{
    DynamicObject, Error, Factory, FactoryOptions, HandlerOptions, InformerSpec, LabelSelector, Observed, Overflow,
    Resource,
};
use std::collections::BTreeSet;
use std::sync::{Arc, mpsc};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_objects_are_cached_and_indexed() {
    let served = serve_with(SimConfig { gzip: true, ..SimConfig::default() }, "127.0.0.1:0", &["configmaps=1000:600"]);
    let factory = factory(&served);
    let maps = factory.informer::<ConfigMap>();
    let by_name = maps.index("name", |map| vec![map.key().name().to_string()]);
    factory.start();
    factory.synced(LONG).await.unwrap();
    let lister = maps.lister();
    assert_eq!(lister.len(), 1000);
    let spaces = maps.by_index("namespace").values();
    assert_eq!(spaces.iter().map(|ns| lister.namespace(ns).list().len()).sum::<usize>(), 1000);
    let some = &lister.list()[17];
    assert!(by_name.get(some.key().name()).iter().any(|object| object.key() == some.key()));
    factory.stop(STOP).await.unwrap();
    assert_eq!(lister.len(), 1000, "the cache can be read after the stop");
}

#[tokio::test]
async fn a_list_of_twenty_megabytes_comes_whole_on_one_thread() {
    let served = serve_with(SimConfig::default(), "127.0.0.1:0", &["pods=3000:6900"]);
    let factory = factory(&served);
    let pods = factory.informer_of::<DynamicObject>(Resource::namespaced("", "v1", "pods", "Pod"));
    factory.start();
    factory.synced(LONG).await.unwrap();
    assert_eq!(pods.lister().len(), 3000);
    factory.stop(STOP).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_handlers_see_every_change_in_order() {
    let served = serve();
    put(&served, "web/a", "1");
    let factory = factory(&served);
    let maps = factory.informer::<ConfigMap>();
    let (sync, task) = (Log::default(), Log::default());
    let told = |log: &Log| {
        let (log, mut options) = (log.clone(), HandlerOptions::default());
        options.on_synced = Some(Arc::new(move || log.add("synced")));
        options
    };
    let first = maps.handle_with(told(&sync), sync.handler());
    let log = task.clone();
    let second = maps.handle_async(told(&task), move |event| {
        let log = log.clone();
        async move {
            tokio::task::yield_now().await;
            log.add(line(&event));
        }
    });
    factory.start();
    assert!(first.synced().await && second.synced().await);
    put(&served, "web/a", "2");
    put(&served, "web/b", "1");
    put(&served, "web/a", "3");
    delete(&served, "web/a");
    put(&served, "web/a", "4");
    let expected = ["*web/a=1", "synced", "web/a=1>2", "+web/b=1", "web/a=2>3", "-web/a=3", "+web/a=4"];
    assert_eq!(sync.until(7).await, expected);
    assert_eq!(task.until(7).await, expected);
    factory.stop(STOP).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_handler_and_a_late_index_have_everything() {
    let served = serve();
    put(&served, "web/a", "1");
    put(&served, "web/b", "2");
    let factory = factory(&served);
    let maps = factory.informer::<ConfigMap>();
    factory.start();
    factory.synced(LONG).await.unwrap();
    let log = Log::default();
    assert!(maps.handle(log.handler()).synced().await);
    assert_eq!(BTreeSet::from_iter(log.lines()), BTreeSet::from(["*web/a=1".to_string(), "*web/b=2".to_string()]));
    let by_value = maps.index("value", |map| vec![map.text().to_string()]);
    assert_eq!(by_value.keys("2"), ["web/b".parse().unwrap()]);
    put(&served, "web/a", "2");
    log.until(3).await;
    assert_eq!((by_value.get("2").len(), by_value.get("1").len()), (2, 0));
    assert!(matches!(maps.try_index("value", |_| vec![String::new()]), Err(Error::Index(_))));
    factory.stop(STOP).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn selectors_and_namespaces_narrow_what_is_read() {
    let served = serve();
    put(&served, "web/a", "1");
    put(&served, "web/b", "2");
    put(&served, "db/a", "2");
    let factory = factory(&served);
    let even = LabelSelector::eq("parity", "even").unwrap();
    let web = factory.informer_with(InformerSpec::<ConfigMap>::new().namespace("web"));
    let evens = factory.informer_with(InformerSpec::<ConfigMap>::new().labels(&even));
    let log = Log::default();
    evens.handle(log.handler());
    factory.start();
    factory.synced(LONG).await.unwrap();
    assert_eq!((web.lister().len(), evens.lister().len()), (2, 2));
    assert_eq!(web.lister().matching(&even).len(), 1);
    log.until(2).await;
    put(&served, "web/b", "3");
    assert!(log.until(3).await[2].starts_with("-web/b"), "an object that leaves the selection is gone");
    factory.stop(STOP).await.unwrap();
}

#[tokio::test]
async fn one_informer_serves_all_who_ask_and_other_options_are_a_conflict() {
    let served = serve();
    let factory = factory(&served);
    let first = factory.informer::<ConfigMap>();
    first.index("x", |_| vec![String::from("all")]);
    assert!(factory.informer::<ConfigMap>().try_index("x", |_| vec![String::new()]).is_err());
    let error = factory.try_informer(InformerSpec::<ConfigMap>::new().page_size(7)).unwrap_err();
    assert!(
        matches!(error, Error::Conflict(_))
            && error.to_string().contains("with another \"page size\": it has 500, and 7 is asked for"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panicking_handler_harms_nobody_and_is_reported() {
    let served = serve();
    put(&served, "web/a", "1");
    let reports = Log::default();
    let log = reports.clone();
    let observer = move |observed: &Observed<'_>| {
        if let Observed::HandlerPanic { handler, call, text } = observed {
            log.add(format!("{handler} {call}: {text}"));
        }
    };
    let factory = Factory::with_options(client(&served), FactoryOptions::observed(Arc::new(observer)));
    let maps = factory.informer::<ConfigMap>();
    let (calm, log) = (Log::default(), Log::default());
    maps.handle(calm.handler());
    let mut recovers = log.handler();
    let sync = maps.handle_with(HandlerOptions::named("sync"), move |event| {
        assert!(event.old().is_some(), "on purpose");
        recovers(event);
    });
    let task = maps.handle_async(HandlerOptions::named("task"), |_| async { panic!("on purpose") });
    let early = maps.handle_async(HandlerOptions::named("early"), |_| -> std::future::Ready<()> { panic!("early") });
    factory.start();
    assert!(sync.synced().await && task.synced().await && early.synced().await);
    put(&served, "web/a", "2");
    assert_eq!(log.until(1).await, ["web/a=1>2"]);
    assert_eq!(calm.until(2).await, ["*web/a=1", "web/a=1>2"]);
    reports.until(5).await;
    assert_eq!((sync.panics(), task.panics(), early.panics()), (1, 2, 2));
    let mut reports = reports.lines();
    reports.sort();
    assert_eq!(
        reports,
        [
            "early an update of web/a: early",
            "early the addition of web/a: early",
            "sync the addition of web/a: on purpose",
            "task an update of web/a: on purpose",
            "task the addition of web/a: on purpose"
        ],
        "the name, what it was told, and the text of each"
    );
    factory.stop(STOP).await.unwrap();
}

#[tokio::test]
async fn a_sleeping_handler_delays_no_other_one() {
    let served = serve();
    put(&served, "web/a", "1");
    let factory = factory(&served);
    let maps = factory.informer::<ConfigMap>();
    let (wake, sleep) = mpsc::channel::<()>();
    let (late, prompt) = (Log::default(), Log::default());
    let mut write = late.handler();
    let sleeper = maps.handle(move |event| {
        sleep.recv().ok();
        write(event);
    });
    maps.handle(prompt.handler());
    factory.start();
    for value in ["2", "3", "4"] {
        put(&served, "web/a", value);
    }
    eventually("the prompt one has the last value", || prompt.lines().last().is_some_and(|line| line.ends_with('4')))
        .await;
    assert_eq!(late.len(), 0);
    assert!(!sleeper.has_synced());
    drop(wake);
    eventually("the sleeper catches up", || late.lines().last().is_some_and(|line| line.ends_with('4'))).await;
    factory.stop(STOP).await.unwrap();
}

#[tokio::test]
async fn events_are_taken_one_by_one() {
    let served = serve();
    put(&served, "web/a", "1");
    let factory = factory(&served);
    let maps = factory.informer::<ConfigMap>();
    let mut events = maps.events();
    factory.start();
    assert_eq!(line(&events.next().await.unwrap()), "*web/a=1");
    let registration = events.registration().clone();
    assert!(!registration.has_synced(), "nobody has said that the first one was dealt with");
    assert!(tokio::time::timeout(Duration::from_millis(20), events.next()).await.is_err());
    assert!(registration.has_synced());
    put(&served, "web/a", "2");
    assert_eq!(line(&events.next().await.unwrap()), "web/a=1>2", "a dropped future has lost nothing");
    let mut others = maps.events();
    drop(events);
    eventually("the dropped one is removed", || registration.is_finished()).await;
    assert_eq!(line(&others.next().await.unwrap()), "*web/a=2");
    factory.stop(STOP).await.unwrap();
    while others.next().await.is_some() {}
}

#[tokio::test]
async fn a_removed_handler_is_not_called_again() {
    let served = serve();
    put(&served, "web/a", "1");
    let factory = factory(&served);
    let maps = factory.informer::<ConfigMap>();
    let (removed, stays) = (Log::default(), Log::default());
    let registration = maps.handle(removed.handler());
    maps.handle(stays.handler());
    factory.start();
    assert!(registration.synced().await);
    registration.remove();
    put(&served, "web/a", "2");
    stays.until(2).await;
    eventually("the removed one is finished", || registration.is_finished()).await;
    assert_eq!(removed.lines(), ["*web/a=1"]);
    factory.stop(STOP).await.unwrap();
}

#[test]
fn what_was_asked_for_outside_a_runtime_runs_after_the_start_inside_one() {
    let served = serve();
    put(&served, "web/a", "1");
    let factory = factory(&served);
    let maps = factory.informer::<ConfigMap>();
    let log = Log::default();
    let registration = maps.handle(log.handler());
    assert_eq!(factory.tasks(), 0);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        factory.start();
        assert!(registration.synced().await);
    });
    assert_eq!(log.lines(), ["*web/a=1"]);
    drop((factory, maps));
    drop(runtime);
    assert!(registration.is_finished());
}

#[test]
#[should_panic(expected = "Factory::start was called outside a tokio runtime")]
fn a_start_outside_a_runtime_says_so() {
    factory(&serve()).start();
}

#[tokio::test]
async fn a_held_driver_waits_and_loses_nothing() {
    let served = serve();
    put(&served, "web/a", "1");
    let factory = factory(&served);
    let maps = factory.informer::<ConfigMap>();
    let log = Log::default();
    maps.handle(log.handler());
    factory.start();
    log.until(1).await;
    factory.hold(true);
    put(&served, "web/a", "2");
    put(&served, "web/a", "3");
    // However long this is, nothing may come.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(log.len(), 1);
    factory.hold(false);
    assert_eq!(log.until(3).await[1..], ["web/a=1>2", "web/a=2>3"]);
    factory.hold(true);
    factory.stop(STOP).await.unwrap();
}

#[tokio::test]
async fn a_watch_is_not_read_while_a_handler_that_asked_for_it_has_too_much_to_do() {
    let served = serve();
    put(&served, "web/a", "0");
    let factory = factory(&served);
    let maps = factory.informer::<ConfigMap>();
    let (wake, sleep) = mpsc::channel::<()>();
    let (log, others) = (Log::default(), Log::default());
    let mut write = log.handler();
    let mut options = HandlerOptions::named("slow");
    options.overflow = Overflow::Pause { limit: 4 };
    let slow = maps.handle_with(options, move |event| {
        sleep.recv().ok();
        write(event);
    });
    maps.handle(others.handler());
    factory.start();
    factory.synced(LONG).await.unwrap();
    for value in 1..=200 {
        put(&served, "web/a", &value.to_string());
    }
    eventually("the informer waits", || slow.stats().pauses == 1).await;
    // One commit of events is the most that it takes at a time.
    assert!(slow.pending() <= 4 + 64 && others.len() <= 1 + 4 + 64);
    drop(wake);
    let lines = log.until(201).await;
    assert_eq!(others.until(201).await, lines);
    let updates: Vec<_> = (0..200).map(|value| format!("web/a={value}>{}", value + 1)).collect();
    assert_eq!((&lines[1..], slow.stats().merged), (&updates[..], 0));
    factory.stop(STOP).await.unwrap();
}
