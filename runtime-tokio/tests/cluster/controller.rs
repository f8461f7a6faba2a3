//! Controllers: from changes to reconciles.

use crate::support::*;
use informer_core::queue::Limiter;
use informer_sim::Served;
use informer_tokio::{
    Controller, DeleteOptions, Factory, FactoryOptions, HandlerOptions, Key, LabelSelector, Notification, Object,
    Observed, Outcome, ReconcileError, generation_changed, mapped,
};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn put_widget(served: &Served, name: &str) {
    let metadata = json!({"name": name, "namespace": "web"});
    let json = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata});
    served.with(|server, _| server.put(&Widget::resource(), &json.to_string()).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_makes_children_and_makes_them_again() {
    let served = serve();
    for name in ["a", "b", "c"] {
        put_widget(&served, name);
    }
    let client = client(&served);
    let factory = Factory::new(client.clone());
    let maps = factory.informer::<ConfigMap>();
    let children = maps.lister();
    let running =
        Controller::new(factory.informer::<Widget>()).when(generation_changed()).owns(&maps).workers(2).start(
            move |key, cx| {
                let (client, children) = (client.clone(), children.clone());
                async move {
                    let Some(widget) = cx.get(&key) else { return Ok(Outcome::done()) };
                    if children.get(&key).is_none() {
                        let owner = json!([{"apiVersion": "example.com/v1", "kind": "Widget", "name": key.name(),
                        "uid": widget.uid().to_string(), "controller": true}]);
                        let child = json!({"metadata": {"name": key.name(), "ownerReferences": owner}});
                        client.api::<ConfigMap>().create(key.namespace(), &child).await?;
                    }
                    Ok(Outcome::done())
                }
            },
        );
    factory.start();
    let lister = maps.lister();
    eventually("three children", || lister.len() == 3).await;
    let first = lister.get(&Key::new("web", "b")).unwrap().uid().to_uid();
    delete(&served, "web/b");
    eventually("the second child is made again", || {
        lister.get(&Key::new("web", "b")).is_some_and(|child| child.uid() != first)
    })
    .await;
    eventually("the controller is idle", || running.is_idle()).await;
    assert_eq!(running.counts().panics, 0);
    factory.stop(STOP).await.unwrap();
    running.wait(STOP).await.unwrap();
}

/// It asks to be told, cleans up, and lets go: only then the object is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_with_a_finalizer_cleans_up_before_its_object_goes() {
    const FINALIZER: &str = "example.com/clean-up";
    let served = serve();
    put_widget(&served, "a");
    let client = client(&served);
    let factory = Factory::new(client.clone());
    let widgets = factory.informer::<Widget>();
    let told = Log::default();
    let log = told.clone();
    let _registration = widgets.handle(move |event| {
        let marked = |widget: &Widget| widget.metadata.deletion_timestamp.is_some();
        if let Notification::Deleted { object, final_state_known, .. } = event {
            log.add(format!("deleted, marked {}, known {final_state_known}", marked(object)));
        } else if marked(event.object()) {
            log.add("marked");
        }
    });
    // A mark counts as a generation, so this filter lets it through.
    let running = Controller::new(widgets).when(generation_changed()).start(move |key, cx| {
        let client = client.clone();
        async move {
            let Some(widget) = cx.get(&key) else { return Ok(Outcome::done()) };
            let (own, maps) = (client.api::<Widget>(), client.api::<ConfigMap>());
            if widget.metadata.deletion_timestamp.is_some() {
                match maps.delete(&key, DeleteOptions::default()).await {
                    Ok(deletion) => assert!(deletion.is_gone()),
                    Err(error) if error.is_not_found() => {}
                    Err(error) => return Err(error.into()),
                }
                own.merge_patch(&key, &json!({"metadata": {"finalizers": null}})).await?;
                return Ok(Outcome::done());
            }
            // First the finalizer: what is made before it may never be cleaned up.
            own.merge_patch(&key, &json!({"metadata": {"finalizers": [FINALIZER]}})).await?;
            match maps.create(key.namespace(), &ConfigMap::new(key.name(), "1")).await {
                Err(error) if error.is_conflict() => {}
                answer => drop(answer?),
            }
            Ok(Outcome::done())
        }
    });
    factory.start();
    let key = Key::new("web", "a");
    let has = |resource| served.with(|server, _| server.get(&resource, &key).is_some());
    eventually("there is a child", || has(ConfigMap::resource())).await;

    let deletion = factory.client().delete::<Widget>(&key, DeleteOptions::default()).await.unwrap();
    assert!(!deletion.is_gone(), "{deletion:?}");
    assert!(deletion.object().unwrap().metadata.deletion_timestamp.is_some());
    eventually("the widget is gone", || !has(Widget::resource())).await;
    assert!(!has(ConfigMap::resource()), "what it made went before it");
    assert_eq!(told.until(2).await, ["marked", "deleted, marked true, known true"]);
    eventually("the controller is idle", || running.is_idle()).await;
    assert_eq!(running.counts().panics, 0);
    factory.stop(STOP).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_and_panics_are_retried_and_told() {
    let served = serve();
    put_widget(&served, "a");
    let told = Log::default();
    let log = told.clone();
    let observer = move |observed: &Observed<'_>| {
        if let Observed::Reconcile(finished) = observed {
            log.add(finished.to_string());
        }
    };
    let factory = Factory::with_options(client(&served), FactoryOptions::observed(Arc::new(observer)));
    let calls = AtomicUsize::new(0);
    let running = Controller::new(factory.informer::<Widget>()).start(move |_, cx| {
        let call = calls.fetch_add(1, Ordering::SeqCst);
        assert!(call != 1, "panic before the future");
        async move {
            match call {
                0 => Err(ReconcileError::retry("not yet")),
                2 => panic!("panic inside the future"),
                _ => {
                    assert_eq!(cx.attempt(), 4);
                    Ok(Outcome::done())
                }
            }
        }
    });
    factory.start();
    let told = told.until(4).await;
    for (line, part) in told.iter().zip(["not yet", "panic before the future", "panic inside the future", "done"]) {
        assert!(line.starts_with("web/a: attempt ") && line.contains(part), "{told:?}");
    }
    let counts = running.counts();
    assert_eq!((counts.reconciles, counts.panics, counts.done), (4, 2, 1));
    factory.stop(STOP).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn never_do_two_run_for_one_key() {
    let served = serve();
    for name in ["a", "b", "c"] {
        put_widget(&served, name);
    }
    let factory = factory(&served);
    let maps = factory.informer::<ConfigMap>();
    let running_keys = Arc::new(Mutex::new(BTreeSet::new()));
    let twice = Arc::new(AtomicBool::new(false));
    let (keys, flag) = (Arc::clone(&running_keys), Arc::clone(&twice));
    // Every ConfigMap calls for every widget.
    let all = mapped(|_: &_| ["a", "b", "c"].map(|name| Key::new("web", name)));
    let running = Controller::new(factory.informer::<Widget>()).watches(&maps, all).workers(8).start(move |key, _| {
        let (keys, flag) = (Arc::clone(&keys), Arc::clone(&flag));
        async move {
            if !keys.lock().unwrap().insert(key.clone()) {
                flag.store(true, Ordering::SeqCst);
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
            keys.lock().unwrap().remove(&key);
            Ok(Outcome::done())
        }
    });
    factory.start();
    factory.synced(LONG).await.unwrap();
    for value in 0..50 {
        put(&served, "web/x", &value.to_string());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    eventually("the last change is in the cache", || {
        maps.lister().get(&Key::new("web", "x")).is_some_and(|map| map.text() == "49")
    })
    .await;
    eventually("the controller is idle", || running.is_idle() && running.counts().reconciles > 3).await;
    assert!(!twice.load(Ordering::SeqCst));
    factory.stop(STOP).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reconcile_over_its_deadline_is_gone_before_its_key_runs_again() {
    /// A key in somebody's hands.
    struct Hand(Arc<Mutex<BTreeSet<Key>>>, Key);
    impl Drop for Hand {
        fn drop(&mut self) {
            self.0.lock().unwrap().remove(&self.1);
        }
    }

    let served = serve();
    put_widget(&served, "a");
    let told = Log::default();
    let log = told.clone();
    let observer = move |observed: &Observed<'_>| {
        if let Observed::Reconcile(finished) = observed {
            log.add(finished.to_string());
        }
    };
    let factory = Factory::with_options(client(&served), FactoryOptions::observed(Arc::new(observer)));
    let hands = Arc::new(Mutex::new(BTreeSet::new()));
    let deadline = Duration::from_millis(20);
    let controller = Controller::new(factory.informer::<Widget>()).reconcile_deadline(deadline);
    let running = controller.start(move |key, cx| {
        assert!(hands.lock().unwrap().insert(key.clone()), "{key} is in two hands");
        assert!(cx.deadline().is_some());
        let hand = Hand(Arc::clone(&hands), key);
        async move {
            let _hand = hand;
            if cx.attempt() < 3 {
                std::future::pending::<()>().await;
            }
            Ok(Outcome::done())
        }
    });
    factory.start();
    let advice = "set a time limit for what it waits for, or raise the deadline";
    assert_eq!(
        told.until(3).await,
        [
            format!("web/a: attempt 1 was cut short at its deadline of 20ms ({advice}); retrying in 5ms"),
            format!("web/a: attempt 2 was cut short at its deadline of 20ms ({advice}); retrying in 10ms"),
            "web/a: attempt 3 done".to_string(),
        ]
    );
    let counts = running.counts();
    assert_eq!((counts.reconciles, counts.cut_short, counts.done, counts.panics), (3, 2, 1, 0));
    assert!(running.stuck().is_empty());
    factory.stop(STOP).await.unwrap();
    running.wait(STOP).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_reconcile_that_does_not_yield_is_told_as_overdue_and_its_late_answer_counts() {
    let served = serve();
    put_widget(&served, "a");
    let told = Log::default();
    let log = told.clone();
    let observer = move |observed: &Observed<'_>| {
        if let Observed::Overdue(overdue) = observed {
            log.add(format!("overdue {} {}", overdue.key, overdue.attempt));
        } else if let Observed::Reconcile(finished) = observed {
            log.add(finished.to_string());
        }
    };
    let factory = Factory::with_options(client(&served), FactoryOptions::observed(Arc::new(observer)));
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let controller = Controller::new(factory.informer::<Widget>()).workers(1);
    let running = controller.reconcile_deadline(Duration::from_millis(5)).start(move |_, _| {
        // The only worker: nobody but the watch can tell of it.
        _ = wait.lock().unwrap().recv();
        async { Ok(Outcome::done()) }
    });
    factory.start();
    assert_eq!(told.until(1).await, ["overdue web/a 1"]);
    assert_eq!(running.stuck().iter().map(|run| run.key.to_string()).collect::<Vec<_>>(), ["web/a"]);
    release.send(()).unwrap();
    assert_eq!(told.until(2).await, ["overdue web/a 1", "web/a: attempt 1 done"]);
    assert!(running.stuck().is_empty());
    assert_eq!((running.counts().overdue, running.counts().done), (1, 1));
    factory.stop(STOP).await.unwrap();
    running.wait(STOP).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_ends_with_its_factory_and_a_dropped_run_stops() {
    let served = serve();
    put_widget(&served, "a");
    let factory = factory(&served);
    let log = Log::default();
    let write = log.clone();
    let widgets = factory.informer::<Widget>();
    let run = tokio::spawn(Controller::new(widgets.clone()).run(move |key, _| {
        write.add(key.to_string());
        async { Ok(Outcome::done()) }
    }));
    factory.start();
    assert_eq!(log.until(1).await, ["web/a"]);
    let second = Controller::new(widgets).run(|_, _| async { Ok(Outcome::done()) });
    assert!(tokio::time::timeout(Duration::from_millis(20), second).await.is_err());
    factory.stop(STOP).await.unwrap();
    run.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_waits_for_a_reconcile_and_one_inside_it_is_refused() {
    let served = serve();
    put_widget(&served, "a");
    let factory = factory(&served);
    let log = Log::default();
    let (mine, write) = (factory.clone(), log.clone());
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let wait = Arc::clone(&gate);
    let limiter = Limiter::default();
    Controller::new(factory.informer::<Widget>()).limiter(limiter).start(move |_, _| {
        let (mine, write, wait) = (mine.clone(), write.clone(), Arc::clone(&wait));
        async move {
            write.add(mine.stop(LONG).await.unwrap_err().to_string());
            drop(wait.acquire().await);
            write.add("out");
            Ok(Outcome::done())
        }
    });
    factory.start();
    assert!(log.until(1).await[0].starts_with("stop() was called inside a handler or reconciler"));
    assert!(factory.stop(Duration::from_millis(50)).await.is_err());
    gate.add_permits(1);
    factory.stop(STOP).await.unwrap();
    assert_eq!(log.lines()[1], "out");
}

#[tokio::test]
async fn a_controller_of_a_stopped_factory_has_nothing_to_do() {
    let served = serve();
    let factory = factory(&served);
    let widgets = factory.informer::<Widget>();
    factory.stop(STOP).await.unwrap();
    let running = Controller::new(widgets.clone()).start(|_, _| async { Ok(Outcome::done()) });
    running.wait(STOP).await.unwrap();
    let registration = widgets.handle_async(HandlerOptions::default(), |_| async {});
    assert!(!registration.synced().await);
    assert!(widgets.lister().matching(&LabelSelector::everything()).is_empty());
}
