//! Controllers: children, owners, retries, and one run per key at a time.

use crate::support::*;
use informer_blocking::core::queue::Limiter;
use informer_blocking::runtime::sync::{Mutex, Signal};
use informer_blocking::{
    Controller, DeleteOptions, Error, Factory, FactoryOptions, Key, Observed, Outcome, ReconcileError,
    generation_changed, resource_version_changed,
};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

fn put_widget(served: &informer_sim::Served, name: &str, size: u32) {
    let json = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name, "namespace": "ns"}, "spec": {"size": size}});
    served.with(|server, _| {
        server.put(&<Widget as informer_blocking::Object>::resource(), &json.to_string()).unwrap();
    });
}

#[test]
fn children_are_created_and_come_back_when_somebody_deletes_them() {
    let served = serve(server());
    put_widget(&served, "w", 1);
    let factory = factory(&served.url());
    let widgets = factory.informer::<Widget>();
    let maps = factory.informer::<ConfigMap>();
    let client = factory.client().clone();
    let children = maps.lister();
    let running = Controller::new(widgets).when(generation_changed()).owns(&maps).workers(2).start(move |key, cx| {
        let Some(widget) = cx.get(&key) else { return Ok(Outcome::done()) };
        let child = Key::new(key.namespace(), &format!("{}-child", key.name()));
        if children.get(&child).is_none() {
            let object = json!({
                "metadata": {
                    "name": child.name(),
                    "ownerReferences": [{
                        "apiVersion": "example.com/v1", "kind": "Widget", "name": key.name(), "uid": widget.uid().to_string(),
                        "controller": true,
                    }],
                },
            });
            match client.api::<ConfigMap>().create(key.namespace(), &object) {
                Err(error) if error.is_conflict() => {} // the cache has not seen it yet
                answer => drop(answer?),
            }
        }
        let ready = json!({"status": {"ready": true}});
        client.merge_patch_status::<Widget>(&key, &ready)?;
        Ok(Outcome::done())
    });
    factory.start();
    let child = "ns/w-child".parse().unwrap();
    let exists = || served.with(|server, _| server.get(&<ConfigMap as informer_blocking::Object>::resource(), &child));
    eventually("there is a child", || exists().is_some());
    eventually("its cache has it", || maps.lister().get(&child).is_some());
    assert!(factory.client().delete::<ConfigMap>(&child, DeleteOptions::default()).unwrap().is_gone());
    eventually("it is back", || exists().is_some());
    let widget = factory.client().get::<Widget>(&"ns/w".parse().unwrap()).unwrap();
    assert_eq!(widget.status["ready"], true);
    eventually("all is quiet", || running.is_idle());
    running.stop();
    running.wait(STOP).unwrap();
    assert!(running.counts().done >= 2);
    factory.stop(STOP).unwrap();
    assert_eq!(factory.threads(), 0);
}

#[test]
fn a_run_that_fails_or_panics_is_retried_and_one_that_gives_up_is_not() {
    let served = serve(server());
    for name in ["error", "panic", "hopeless", "later"] {
        put(&served, name, "1");
    }
    let factory = factory(&served.url());
    let log = Log::default();
    let writer = log.clone();
    let limiter = Limiter::exponential(Duration::from_millis(1), Duration::from_millis(10));
    let running = Controller::new(factory.informer::<ConfigMap>())
        .when(resource_version_changed())
        .limiter(limiter)
        .start(move |key, cx| {
            writer.add(format!("{} {}", key.name(), cx.attempt()));
            match (key.name(), cx.attempt()) {
                ("error", 1) => Err(ReconcileError::retry("the cloud is away")),
                ("panic", 1..3) => panic!("a panic that belongs to the test"),
                ("hopeless", _) => Err(ReconcileError::give_up("it makes no sense")),
                ("later", _) if writer.lines().iter().filter(|line| line.starts_with("later")).count() == 1 => {
                    Ok(Outcome::requeue_after(Duration::from_millis(1)))
                }
                _ => Ok(Outcome::done()),
            }
        });
    factory.start();
    eventually("all is done", || running.counts().done == 3 && running.is_idle());
    let mut lines = log.lines();
    lines.sort_unstable();
    assert_eq!(lines, ["error 1", "error 2", "hopeless 1", "later 1", "later 1", "panic 1", "panic 2", "panic 3"]);
    let counts = running.counts();
    assert_eq!((counts.reconciles, counts.requeued), (8, 1));
    factory.stop(STOP).unwrap();
}

#[test]
fn no_key_is_run_twice_at_a_time_while_others_run_beside_it() {
    let served = serve(server());
    for number in 0..8 {
        put(&served, &format!("m{number}"), "0");
    }
    let factory = factory(&served.url());
    let (running_now, most) = (Arc::new(Mutex::new(BTreeSet::new())), Arc::new(AtomicUsize::new(0)));
    let together = Arc::new(Signal::new());
    let (keys, width, meet) = (Arc::clone(&running_now), Arc::clone(&most), Arc::clone(&together));
    let running = Controller::new(factory.informer::<ConfigMap>()).workers(4).start(move |key, _| {
        let now = {
            let mut keys = keys.lock();
            assert!(keys.insert(key.clone()), "{key} runs twice at a time");
            keys.len()
        };
        width.fetch_max(now, Ordering::SeqCst);
        // The first four wait until they are four.
        loop {
            let seen = meet.generation();
            if width.load(Ordering::SeqCst) == 4 {
                break;
            }
            meet.wait_past(seen, Some(std::time::Instant::now() + Duration::from_millis(5)));
        }
        meet.notify();
        keys.lock().remove(&key);
        Ok(Outcome::done())
    });
    factory.start();
    for value in 1..50 {
        put(&served, "m1", &value.to_string());
        put(&served, "m2", &value.to_string());
    }
    eventually("all is quiet", || running.counts().done >= 8 && running.is_idle());
    assert_eq!(most.load(Ordering::SeqCst), 4);
    assert_eq!(running.counts().panics, 0);
    factory.stop(STOP).unwrap();
}

#[test]
fn a_reconcile_that_hangs_is_told_once_and_holds_up_only_its_own_key() {
    let served = serve(server());
    put(&served, "hangs", "1");
    let told = Log::default();
    let log = told.clone();
    let observer = move |observed: &Observed<'_>| {
        if let Observed::Overdue(overdue) = observed {
            log.add(format!("overdue {}", overdue.key));
        } else if let Observed::Reconcile(finished) = observed {
            log.add(finished.to_string());
        }
    };
    let factory = Factory::with_options(client(&served.url()), FactoryOptions::observed(Arc::new(observer)));
    let hands = Mutex::new(BTreeSet::new());
    let (release, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let first = AtomicBool::new(true);
    let maps = factory.informer::<ConfigMap>();
    let controller = Controller::new(maps.clone()).workers(2).reconcile_deadline(Duration::from_millis(5));
    let running = controller.start(move |key, cx| {
        assert!(hands.lock().insert(key.clone()), "{key} is in two hands");
        assert!(cx.deadline().is_some());
        if key.name() == "hangs" && first.swap(false, Ordering::SeqCst) {
            _ = wait.lock().recv();
        }
        hands.lock().remove(&key);
        Ok(Outcome::done())
    });
    factory.start();
    eventually("it is told", || told.len() == 1);
    assert_eq!(running.stuck().iter().map(|run| run.key.to_string()).collect::<Vec<_>>(), ["ns/hangs"]);

    put(&served, "hangs", "2");
    put(&served, "other", "1");
    eventually("the other worker goes on", || told.lines().iter().any(|line| line == "ns/other: attempt 1 done"));
    let hangs = || told.lines().into_iter().filter(|line| line.contains("hangs")).collect::<Vec<_>>();
    assert_eq!(hangs(), ["overdue ns/hangs"]);

    release.send(()).unwrap();
    eventually("what came meanwhile was run", || running.is_idle() && running.counts().done == 3);
    eventually("all is told", || hangs().len() == 3);
    assert_eq!(hangs(), ["overdue ns/hangs", "ns/hangs: attempt 1 done", "ns/hangs: attempt 1 done"]);
    assert!(running.stuck().is_empty());
    assert_eq!((running.counts().overdue, running.counts().panics), (1, 0));
    factory.stop(STOP).unwrap();
}

#[test]
fn a_reconcile_that_hangs_is_told_if_no_worker_is_free_and_if_the_factory_stops_meanwhile() {
    let served = serve(server());
    put(&served, "m", "1");
    let told = Log::default();
    let log = told.clone();
    let observer = move |observed: &Observed<'_>| {
        if let Observed::Overdue(overdue) = observed {
            log.add(overdue.key.to_string());
        }
    };
    let factory = Factory::with_options(client(&served.url()), FactoryOptions::observed(Arc::new(observer)));
    let (release, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let controller = Controller::new(factory.informer::<ConfigMap>()).workers(1);
    let running = controller.reconcile_deadline(Duration::from_millis(30)).start(move |_, _| {
        _ = wait.lock().recv();
        Ok(Outcome::done())
    });
    factory.start();
    eventually("it hangs", || running.counts().reconciles == 1);
    running.stop();
    eventually("it is told", || told.lines() == ["ns/m"]);
    assert!(running.wait(Duration::from_millis(1)).is_err());
    release.send(()).unwrap();
    running.wait(STOP).unwrap();
    factory.stop(STOP).unwrap();
    assert_eq!(told.len(), 1);
}

#[test]
fn a_controller_says_which_source_it_has_lost_and_nothing_when_its_factory_stops() {
    let served = serve(server());
    put(&served, "m", "1");
    let told = Log::default();
    let log = told.clone();
    let observer = move |observed: &Observed<'_>| {
        if let Observed::ControllerStopped { .. } = observed {
            log.add(observed.to_string());
        }
    };
    let factory = Factory::with_options(client(&served.url()), FactoryOptions::observed(Arc::new(observer)));
    let (widgets, maps) = (factory.informer::<Widget>(), factory.informer::<ConfigMap>());
    let loses = Controller::new(widgets.clone()).owns(&maps).start(|_, _| Ok(Outcome::done()));
    let keeps = Controller::new(widgets).start(|_, _| Ok(Outcome::done()));
    factory.start();
    eventually("both have begun", || loses.is_idle() && keeps.is_idle());
    maps.request_stop();
    loses.wait(STOP).unwrap();
    assert!(!keeps.is_stopped());
    factory.stop(STOP).unwrap();
    assert_eq!(told.lines(), ["controller of widgets.example.com stopped: its source configmaps was stopped"]);
}

#[test]
fn run_returns_when_the_factory_stops_and_a_reconciler_cannot_wait_for_that() {
    let served = serve(server());
    put(&served, "m", "1");
    let factory = factory(&served.url());
    let maps = factory.informer::<ConfigMap>();
    factory.start();
    let (send, receive) = mpsc::channel();
    let inside = factory.clone();
    let thread = std::thread::spawn(move || {
        Controller::new(maps).workers(1).run(move |_, _| {
            send.send(inside.stop(STOP)).unwrap();
            Ok(Outcome::done())
        });
    });
    let refused = receive.recv_timeout(PATIENCE).unwrap().unwrap_err();
    assert!(matches!(refused, Error::WouldDeadlock { .. }), "{refused}");
    factory.stop(STOP).unwrap();
    thread.join().unwrap();
    // One that starts after the stop ends at once.
    let late = Controller::new(factory_informer(&served)).start(|_, _| Ok(Outcome::done()));
    late.wait(STOP).unwrap();
    assert_eq!(late.counts().reconciles, 0);
}

/// An informer whose factory is gone.
fn factory_informer(served: &informer_sim::Served) -> informer_blocking::Informer<ConfigMap> {
    factory(&served.url()).informer()
}
