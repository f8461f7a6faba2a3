//! Informers that leave alone, and waits for own writes.

use crate::support::*;
use informer_blocking::core::Version;
use informer_blocking::core::reflector::Phase;
use informer_blocking::core::store::Seen;
use informer_blocking::{Controller, Error, Factory, InformerSpec, Key, Outcome};
use std::sync::mpsc;
use std::time::Duration;

fn version(meta: &informer_blocking::ObjectMeta) -> Version {
    Version::new(&meta.resource_version)
}

#[test]
fn who_writes_reads_their_own_write_as_soon_as_the_cache_has_it() {
    let served = serve(server());
    let factory = factory(&served.url());
    let maps = factory.informer_with(impatient());
    factory.start();
    for n in 0..20 {
        let written = factory.client().create("ns", &ConfigMap::new(&format!("m{n}"), "1")).unwrap();
        let lister = maps.at_least(&version(&written.metadata), PATIENCE).unwrap();
        assert_eq!(lister.namespace("ns").named(&format!("m{n}")).unwrap().v(), "1");
    }
    let key = Key::new("ns", "m3");
    let mut changed = factory.client().get::<ConfigMap>(&key).unwrap();
    changed.data.insert("v".into(), "2".into());
    let changed = factory.client().update(&key, &changed).unwrap();
    let seen = maps.wait_for(&key, &version(&changed.metadata), PATIENCE).unwrap();
    assert!(matches!(seen, Seen::Present(object) if object.v() == "2"));
    let error = maps.at_least(&Version::new("1000000"), Duration::from_millis(5)).unwrap_err();
    assert!(error.to_string().contains("has not come to version 1000000: the time is over"), "{error}");
    factory.stop(STOP).unwrap();
    assert!(matches!(maps.at_least(&Version::new("1000000"), PATIENCE), Err(Error::Behind(_))));
}

#[test]
fn a_wait_ends_when_the_informer_or_the_factory_stops() {
    for whole in [false, true] {
        let served = serve(server());
        let factory = factory(&served.url());
        let maps = factory.informer_with(impatient());
        factory.start();
        factory.synced(PATIENCE).unwrap();
        let (begun, has_begun) = mpsc::channel();
        let waiter = std::thread::spawn({
            let maps = maps.clone();
            move || {
                let mut wait = maps.catch_up_to(&Version::new("1000000"));
                assert!(wait.check().unwrap().is_err());
                begun.send(()).unwrap();
                wait.wait(PATIENCE)
            }
        });
        has_begun.recv().unwrap();
        if whole {
            factory.stop(STOP).unwrap()
        } else {
            maps.stop(STOP).unwrap()
        }
        let error = waiter.join().unwrap().unwrap_err().to_string();
        assert!(error.contains("it was stopped; it stands for version"), "{error}");
        factory.stop(STOP).unwrap();
    }
}

#[test]
fn one_informer_stops_with_its_handlers_and_its_socket_and_the_others_go_on() {
    let served = serve(server());
    let relay = Relay::start(served.addr());
    let factory = factory(&format!("http://{}", relay.addr));
    let (maps, widgets) = (factory.informer_with(impatient()), factory.informer_with(InformerSpec::<Widget>::new()));
    let mine = maps.handle(|_| {});
    let mut events = maps.events();
    let its = widgets.handle(|_| {});
    factory.start();
    factory.synced(PATIENCE).unwrap();
    eventually("both watches are open", || served.with(|server, _| server.open_calls()) == 2);
    maps.stop(STOP).unwrap();
    assert!(mine.is_finished() && maps.is_stopped() && maps.lives().count() == 0 && events.next().is_none());
    eventually("its watch is closed", || served.with(|server, _| server.open_calls()) == 1);
    assert!(!its.is_finished() && !widgets.is_stopped());
    put(&served, "later", "1");
    assert!(maps.lister().is_empty(), "what it had stays as it was");
    let again = factory.informer_with(paged());
    factory.start();
    factory.synced(PATIENCE).unwrap();
    assert_eq!(again.lister().len(), 1);
    assert!(maps.lister().is_empty());
    factory.stop(STOP).unwrap();
    eventually("every connection is closed", || relay.open() == 0);
}

#[test]
fn a_stop_waits_for_the_handler_that_runs_and_is_refused_inside_it() {
    let served = serve(server());
    put(&served, "m", "1");
    let factory = factory(&served.url());
    let maps = factory.informer_with(impatient());
    let ((release, held), (called, is_called)) = (mpsc::channel::<()>(), mpsc::channel());
    let me = maps.clone();
    maps.handle(move |_| {
        called.send(me.stop(PATIENCE).unwrap_err().to_string()).unwrap();
        held.recv().ok();
    });
    factory.start();
    let refused = is_called.recv().unwrap();
    assert!(refused.contains("stop() was called inside a handler or reconciler"), "{refused}");
    assert!(matches!(maps.stop(Duration::from_millis(20)), Err(Error::StillRunning(1))));
    drop(release);
    maps.stop(PATIENCE).unwrap();
    factory.stop(STOP).unwrap();
}

#[test]
fn a_controller_stops_with_an_informer_that_feeds_it_and_another_one_goes_on() {
    let served = serve(server());
    let factory = factory(&served.url());
    let (maps, widgets) = (factory.informer_with(impatient()), factory.informer_with(InformerSpec::<Widget>::new()));
    let owner = Controller::new(widgets).owns(&maps).start(|_, _| Ok(Outcome::done()));
    let (called, calls) = mpsc::channel();
    let other = Controller::new(factory.informer_with(impatient().namespace("ns"))).workers(1);
    let other = other.start(move |key, _| {
        _ = called.send(key.to_string());
        Ok(Outcome::done())
    });
    factory.start();
    factory.synced(PATIENCE).unwrap();
    maps.stop(PATIENCE).unwrap();
    owner.wait(PATIENCE).unwrap();
    put(&served, "later", "1");
    assert_eq!(calls.recv_timeout(PATIENCE).unwrap(), "ns/later");
    factory.stop(STOP).unwrap();
    other.wait(STOP).unwrap();
}

#[test]
fn b124_a_hundred_handlers_that_came_and_went_leave_no_thread() {
    let served = serve(server());
    put(&served, "m", "1");
    let factory = factory(&served.url());
    let maps = factory.informer_with(impatient());
    factory.start();
    factory.synced(PATIENCE).unwrap();
    eventually("its watch is open", || maps.phase() == Phase::Watching);
    let threads = factory.threads();
    for _ in 0..100 {
        let registration = maps.handle(|_| {});
        assert!(registration.wait_synced(PATIENCE).unwrap());
        assert!(factory.threads() > threads, "it has one");
        registration.remove();
        registration.wait_finished().unwrap();
    }
    eventually("none is left", || factory.threads() <= threads);
    factory.stop(STOP).unwrap();
}

#[test]
fn b139_an_informer_that_was_never_synced_stops_at_once() {
    let script = Script::start(|_| Reply::Answer(404, "{}".into()));
    let factory = factory(&script.url());
    let maps = factory.informer_with(impatient());
    let registration = maps.handle(|_| {});
    factory.start();
    eventually("it was told", || maps.last_failure().is_some());
    maps.stop(STOP).unwrap();
    assert!(registration.is_finished() && !maps.has_synced());
    factory.synced(PATIENCE).expect("there is no informer left to wait for");
    factory.stop(STOP).unwrap();
}

#[test]
fn b137_two_threads_that_stop_one_informer_under_a_flood_of_events_both_return() {
    let served = serve(server());
    let factory = factory(&served.url());
    let maps = factory.informer_with(impatient());
    maps.handle(|_| {});
    factory.start();
    factory.synced(PATIENCE).unwrap();
    std::thread::scope(|scope| {
        let flood = scope.spawn(|| (0..500).for_each(|n| put(&served, "m", &n.to_string())));
        let stops: Vec<_> = (0..2).map(|_| scope.spawn(|| maps.stop(PATIENCE))).collect();
        stops.into_iter().for_each(|stop| stop.join().unwrap().unwrap());
        flood.join().unwrap();
    });
    assert_eq!(maps.lives().count(), 0);
    factory.stop(STOP).unwrap();
}

#[test]
fn a_leased_informer_stops_with_its_last_lease() {
    let served = serve(server());
    let factory = factory(&served.url());
    let first = factory.lease(impatient()).unwrap();
    let second = factory.lease(impatient()).unwrap();
    let registration = first.handle(|_| {});
    factory.start();
    factory.synced(PATIENCE).unwrap();
    drop(first);
    put(&served, "m", "1");
    eventually("the other lease keeps it going", || second.lister().len() == 1);
    drop(second);
    eventually("its handler has ended", || registration.is_finished());
    eventually("its watch is closed", || served.with(|server, _| server.open_calls()) == 0);
    factory.stop(STOP).unwrap();
}

/// Open file descriptors of this process.
#[cfg(target_os = "linux")]
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[cfg(target_os = "linux")]
fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// B136, B140. The tests of this binary share its descriptors, so this one starts a process of its own.
#[cfg(target_os = "linux")]
#[test]
fn many_starts_and_stops_leave_no_thread_no_socket_and_no_cache() {
    const CYCLES: usize = 50;
    const BYTES: usize = 512 * 1024;
    if std::env::var_os("INFORMER_ALONE").is_none() {
        let me = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "leave::many_starts_and_stops_leave_no_thread_no_socket_and_no_cache"])
            .env("INFORMER_ALONE", "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&me.stdout);
        assert!(me.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let served = serve(server());
    // An object that shows in the memory of the process if a cache with it stays behind.
    put(&served, "m", &"x".repeat(BYTES));
    let client = client(&served.url());
    let whole = Factory::new(client.clone());
    let quiet = whole.informer_with(InformerSpec::<Widget>::new());
    whole.start();
    whole.synced(PATIENCE).unwrap();
    let cycle = || {
        // One that leaves a factory which goes on, and a factory.
        let maps = whole.informer_with(impatient());
        let registration = maps.handle(|_| {});
        whole.start();
        whole.synced(PATIENCE).unwrap();
        maps.stop(PATIENCE).unwrap();
        assert!(registration.is_finished() && maps.lives().count() == 0);
        let other = Factory::new(client.clone());
        other.informer_with(paged()).handle(|_| {});
        other.start();
        other.synced(PATIENCE).unwrap();
        other.stop(PATIENCE).unwrap();
        assert_eq!(other.threads(), 0);
    };
    let settle = |before: (usize, usize)| {
        eventually("the server has closed its ends", || served.with(|server, _| server.open_calls()) == 1);
        let mut now = (0, 0);
        eventually(&format!("no more than {before:?} threads and descriptors"), || {
            now = (threads(), descriptors());
            now.0 <= before.0 && now.1 <= before.1
        });
    };
    cycle();
    cycle();
    let resident = resident_bytes();
    // What the first cycles left may still be on its way out: a cycle's worth is less than what fifty would leak.
    let before = (threads() + 4, descriptors() + 4);
    (0..CYCLES).for_each(|_| cycle());
    settle(before);
    let grown = resident_bytes().saturating_sub(resident);
    assert!(grown < CYCLES / 2 * BYTES, "{grown} bytes more than after the first cycles: caches stay behind");
    assert_eq!(whole.lagging().len(), 0);
    assert!(!quiet.is_stopped());
    whole.stop(PATIENCE).unwrap();
}
