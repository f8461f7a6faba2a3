//! Informers that leave alone, and waits for own writes.

use crate::front::*;
use crate::support::*;
use informer_tokio::core::Version;
use informer_tokio::core::reflector::Phase;
use informer_tokio::{
    Controller, DynamicObject, Error, Factory, HandlerOptions, InformerSpec, Key, ObjectMeta, Outcome, Resource, Seen,
};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::sync::oneshot;

fn version(meta: &ObjectMeta) -> Version {
    Version::new(&meta.resource_version)
}

#[tokio::test]
async fn who_writes_reads_their_own_write_as_soon_as_the_cache_has_it() {
    let served = serve();
    let factory = factory(&served);
    let maps = factory.informer_with(paged::<ConfigMap>());
    factory.start();
    for n in 0..20 {
        let written = factory.client().create("web", &ConfigMap::new(&format!("m{n}"), "1")).await.unwrap();
        let lister = maps.at_least(&version(&written.metadata), LONG).await.unwrap();
        assert_eq!(lister.namespace("web").named(&format!("m{n}")).unwrap().text(), "1");
    }
    let key = Key::new("web", "m3");
    let mut changed = factory.client().get::<ConfigMap>(&key).await.unwrap();
    changed.data.insert("v".into(), "2".into());
    let changed = factory.client().update(&key, &changed).await.unwrap();
    let seen = maps.wait_for(&key, &version(&changed.metadata), LONG).await.unwrap();
    assert!(matches!(seen, Seen::Present(object) if object.text() == "2"));
    let error = maps.at_least(&Version::new("1000000"), Duration::from_millis(5)).await.unwrap_err();
    assert!(error.to_string().contains("has not come to version 1000000: the time is over"), "{error}");
    let blocking = maps.wait_at_least(&Version::new("1"), LONG).unwrap_err();
    assert!(matches!(blocking, Error::WouldDeadlock { .. }), "{blocking}");
    factory.stop(STOP).await.unwrap();
    assert!(matches!(maps.at_least(&Version::new("1000000"), LONG).await, Err(Error::Behind(_))));
}

#[tokio::test]
async fn a_wait_ends_when_the_informer_or_the_factory_stops() {
    for whole in [false, true] {
        let served = serve();
        let factory = factory(&served);
        let maps = factory.informer_with(paged::<ConfigMap>());
        factory.start();
        factory.synced(LONG).await.unwrap();
        let (begun, has_begun) = oneshot::channel();
        let mine = maps.clone();
        let waiter = tokio::spawn(async move {
            let mut wait = mine.catch_up_to(&Version::new("1000000"));
            assert!(wait.check().unwrap().is_err());
            begun.send(()).unwrap();
            wait.found().await
        });
        has_begun.await.unwrap();
        if whole {
            factory.stop(STOP).await.unwrap()
        } else {
            maps.stop(STOP).await.unwrap()
        }
        let error = waiter.await.unwrap().unwrap_err().to_string();
        assert!(error.contains("it was stopped; it stands for version"), "{error}");
        factory.stop(STOP).await.unwrap();
    }
}

#[tokio::test]
async fn one_informer_stops_with_its_handlers_and_its_socket_and_the_others_go_on() {
    let served = serve();
    let (addr, seen) = relay(&served).await;
    let factory = Factory::new(client_of(&format!("http://{addr}")));
    let (maps, widgets) = (factory.informer_with(paged::<ConfigMap>()), factory.informer_with(paged::<Widget>()));
    let mine = maps.handle(|_| {});
    let task = maps.handle_async(HandlerOptions::default(), |_| async {});
    let mut events = maps.events();
    let its = widgets.handle(|_| {});
    factory.start();
    factory.synced(LONG).await.unwrap();
    eventually("both watches are open", || served.with(|server, _| server.open_calls()) == 2).await;
    maps.stop(STOP).await.unwrap();
    assert!(mine.is_finished() && task.is_finished() && maps.is_stopped() && maps.lives().count() == 0);
    assert!(events.next().await.is_none());
    eventually("its watch is closed", || served.with(|server, _| server.open_calls()) == 1).await;
    assert!(!its.is_finished() && !widgets.is_stopped());
    put(&served, "web/later", "1");
    assert!(maps.lister().is_empty(), "what it had stays as it was");
    let again = factory.informer_with(paged::<ConfigMap>());
    factory.start();
    factory.synced(LONG).await.unwrap();
    assert_eq!((again.lister().len(), maps.lister().len()), (1, 0));
    factory.stop(STOP).await.unwrap();
    eventually("every connection is closed", || seen.open() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_waits_for_the_handler_that_runs_and_is_refused_inside_it() {
    let served = serve();
    put(&served, "web/a", "1");
    let factory = factory(&served);
    let maps = factory.informer_with(paged::<ConfigMap>());
    let ((release, held), (called, is_called)) = (mpsc::channel::<()>(), oneshot::channel());
    let (me, mut called) = (maps.clone(), Some(called));
    maps.handle(move |_| {
        let refused = tokio::runtime::Handle::current().block_on(me.stop(LONG)).unwrap_err();
        called.take().unwrap().send(refused.to_string()).unwrap();
        held.recv().ok();
    });
    factory.start();
    let refused = is_called.await.unwrap();
    assert!(refused.contains("stop() was called inside a handler or reconciler"), "{refused}");
    assert!(matches!(maps.stop(Duration::from_millis(20)).await, Err(Error::StillRunning(1))));
    drop(release);
    maps.stop(LONG).await.unwrap();
    factory.stop(STOP).await.unwrap();
}

#[tokio::test]
async fn a_controller_stops_with_an_informer_that_feeds_it_and_another_one_goes_on() {
    let served = serve();
    let factory = factory(&served);
    let (maps, widgets) = (factory.informer_with(paged::<ConfigMap>()), factory.informer_with(paged::<Widget>()));
    let owner = Controller::new(widgets).owns(&maps).start(|_, _| async { Ok(Outcome::done()) });
    let log = Log::default();
    let write = log.clone();
    let other = Controller::new(factory.informer_with(paged::<ConfigMap>().namespace("web"))).workers(1);
    let other = other.start(move |key, _| {
        write.add(key.to_string());
        async { Ok(Outcome::done()) }
    });
    factory.start();
    factory.synced(LONG).await.unwrap();
    maps.stop(LONG).await.unwrap();
    owner.wait(LONG).await.unwrap();
    put(&served, "web/later", "1");
    assert_eq!(log.until(1).await, ["web/later"]);
    factory.stop(STOP).await.unwrap();
    other.wait(STOP).await.unwrap();
}

#[tokio::test]
async fn b124_a_hundred_handlers_that_came_and_went_leave_no_task() {
    let served = serve();
    put(&served, "web/a", "1");
    let factory = factory(&served);
    let maps = factory.informer_with(paged::<ConfigMap>());
    factory.start();
    factory.synced(LONG).await.unwrap();
    eventually("its watch is open", || maps.phase() == Phase::Watching).await;
    let tasks = factory.tasks();
    for _ in 0..50 {
        let blocking = maps.handle(|_| {});
        let task = maps.handle_async(HandlerOptions::default(), |_| async {});
        assert!(blocking.synced().await && task.synced().await);
        assert!(factory.tasks() > tasks, "they have some");
        blocking.remove();
        task.remove();
        eventually("both have ended", || blocking.is_finished() && task.is_finished()).await;
    }
    eventually("none is left", || factory.tasks() <= tasks).await;
    factory.stop(STOP).await.unwrap();
}

#[tokio::test]
async fn b139_an_informer_that_was_never_synced_stops_at_once() {
    let served = serve();
    let factory = factory(&served);
    let nothing = Resource::namespaced("none.example.com", "v1", "nothings", "Nothing");
    let nothings = factory.informer_with(InformerSpec::<DynamicObject>::of(nothing));
    let registration = nothings.handle(|_| {});
    factory.start();
    eventually("it was told", || nothings.last_failure().is_some()).await;
    nothings.stop(STOP).await.unwrap();
    assert!(registration.is_finished() && !nothings.has_synced());
    factory.synced(LONG).await.expect("there is no informer left to wait for");
    factory.stop(STOP).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b137_two_tasks_that_stop_one_informer_under_a_flood_of_events_both_return() {
    let served = Arc::new(serve());
    let factory = factory(&served);
    let maps = factory.informer_with(paged::<ConfigMap>());
    maps.handle(|_| {});
    factory.start();
    factory.synced(LONG).await.unwrap();
    let server = Arc::clone(&served);
    let flood = tokio::task::spawn_blocking(move || (0..500).for_each(|n| put(&server, "web/a", &n.to_string())));
    let stop = || {
        let maps = maps.clone();
        tokio::spawn(async move { maps.stop(LONG).await })
    };
    for stop in [stop(), stop()] {
        stop.await.unwrap().unwrap();
    }
    flood.await.unwrap();
    assert_eq!(maps.lives().count(), 0);
    factory.stop(STOP).await.unwrap();
}

#[tokio::test]
async fn a_leased_informer_stops_with_its_last_lease() {
    let served = serve();
    let factory = factory(&served);
    let first = factory.lease(paged::<ConfigMap>()).unwrap();
    let second = factory.lease(paged::<ConfigMap>()).unwrap();
    let registration = first.handle(|_| {});
    factory.start();
    factory.synced(LONG).await.unwrap();
    drop(first);
    put(&served, "web/a", "1");
    eventually("the other lease keeps it going", || second.lister().len() == 1).await;
    drop(second);
    eventually("its handler has ended", || registration.is_finished()).await;
    eventually("its watch is closed", || served.with(|server, _| server.open_calls()) == 0).await;
    factory.stop(STOP).await.unwrap();
}

#[cfg(target_os = "linux")]
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[cfg(target_os = "linux")]
fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// B136, B140. The tests of this binary share its descriptors and its memory, so this one starts a process of its own.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn many_starts_and_stops_leave_no_task_no_socket_and_no_cache() {
    const CYCLES: usize = 50;
    const BYTES: usize = 512 * 1024;
    if std::env::var_os("INFORMER_ALONE").is_none() {
        let me = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "leave::many_starts_and_stops_leave_no_task_no_socket_and_no_cache"])
            .env("INFORMER_ALONE", "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&me.stdout);
        assert!(me.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let served = serve();
    // An object that shows in the memory of the process if a cache with it stays behind.
    put(&served, "web/a", &"x".repeat(BYTES));
    let client = client(&served);
    let whole = Factory::new(client.clone());
    let quiet = whole.informer_with(paged::<Widget>());
    whole.start();
    whole.synced(LONG).await.unwrap();
    let cycle = async || {
        // One that leaves a factory which goes on, and a factory.
        let maps = whole.informer_with(paged::<ConfigMap>());
        let registration = maps.handle(|_| {});
        let task = maps.handle_async(HandlerOptions::default(), |_| async {});
        whole.start();
        whole.synced(LONG).await.unwrap();
        maps.stop(LONG).await.unwrap();
        assert!(registration.is_finished() && task.is_finished() && maps.lives().count() == 0);
        let other = Factory::new(client.clone());
        other.informer_with(paged::<ConfigMap>()).handle(|_| {});
        other.start();
        other.synced(LONG).await.unwrap();
        let lives = Arc::clone(&other.lives());
        other.stop(LONG).await.unwrap();
        assert_eq!(lives.count(), 0);
    };
    cycle().await;
    cycle().await;
    let resident = resident_bytes();
    // What the first cycles left may still be on its way out: a cycle's worth is less than what fifty would leak.
    let (tasks, open) = (whole.tasks() + 1, descriptors() + 4);
    for _ in 0..CYCLES {
        cycle().await;
    }
    eventually("the server has closed its ends", || served.with(|server, _| server.open_calls()) == 1).await;
    eventually("no more tasks and descriptors", || whole.tasks() <= tasks && descriptors() <= open).await;
    let grown = resident_bytes().saturating_sub(resident);
    assert!(grown < CYCLES / 2 * BYTES, "{grown} bytes more than after the first cycles: caches stay behind");
    assert!(whole.lagging().is_empty() && !quiet.is_stopped());
    whole.stop(LONG).await.unwrap();
}
