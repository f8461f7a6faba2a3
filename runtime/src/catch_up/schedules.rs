//! [`CatchUp`](super::CatchUp): whoever waits for a write finds it, or hears that it does not come.

use super::{Inner, Why};
use crate::config::Config;
use crate::error::Error;
use crate::factory::{FactoryCore, FactoryOptions};
use crate::informer::{InformerHandle, InformerSpec};
use crate::schedules::{finds, often};
use crate::sync::Arc;
use informer_core::fifo::InOrderQueue;
use informer_core::store::Commit;
use informer_core::wire::ItemKind;
use informer_core::{DynamicObject, Key, Obj, Object, Resource, Version};
use shuttle::thread::spawn;

fn resource() -> Resource {
    Resource::namespaced("", "v1", "pods", "Pod")
}

/// An informer that runs, as far as waiters can tell.
fn pods() -> InformerHandle<DynamicObject> {
    let options = FactoryOptions { seed: Some(7), decode_threads: Some(0), ..FactoryOptions::default() };
    let factory = FactoryCore::new(Config::from_url("http://127.0.0.1:1").unwrap(), options);
    let pods = factory.informer(InformerSpec::of(resource())).unwrap();
    // Its driver would end it if it were dropped.
    factory.take_unstarted().into_iter().for_each(std::mem::forget);
    pods
}

fn event(version: u32) -> Commit<DynamicObject> {
    let json = format!(r#"{{"metadata":{{"name":"a","uid":"u","resourceVersion":"{version}"}}}}"#);
    let object = DynamicObject::decode(json.as_bytes(), &resource()).unwrap();
    let mut queue = InOrderQueue::default();
    queue.push_event(ItemKind::Modified, Obj::of(object).unwrap());
    queue.pop().unwrap()
}

/// What a driver does.
fn commit(inner: &Inner<DynamicObject>, version: u32) {
    drop(inner.store.commit(event(version)));
    inner.status.store_moved();
}

/// As a blocking wait without its deadline.
fn wait(pods: &InformerHandle<DynamicObject>, version: &str) -> Result<(), Error> {
    let mut catch_up = pods.catch_up_to(&Version::new(version));
    loop {
        match catch_up.check()? {
            Ok(()) => return Ok(()),
            Err(seen) => assert!(pods.0.status.moved.wait_past(seen, None)),
        }
    }
}

#[test]
fn whoever_waits_for_a_version_beside_commits_finds_it() {
    often(|| {
        let pods = pods();
        let inner = Arc::clone(&pods.0);
        let driver = spawn(move || [7, 8].into_iter().for_each(|version| commit(&inner, version)));
        wait(&pods, "8").unwrap();
        let found = pods.lister().get(&Key::new("", "a")).unwrap();
        assert!(found.version() == *"8");
        driver.join().unwrap();
    });
}

#[test]
fn two_who_wait_for_different_versions_find_theirs() {
    often(|| {
        let pods = pods();
        let inner = Arc::clone(&pods.0);
        let other = pods.clone();
        let other = spawn(move || wait(&other, "7").unwrap());
        let driver = spawn(move || [7, 8].into_iter().for_each(|version| commit(&inner, version)));
        wait(&pods, "8").unwrap();
        other.join().unwrap();
        driver.join().unwrap();
    });
}

#[test]
fn whoever_waits_beside_a_stop_finds_what_came_before_it_or_hears_of_it() {
    often(|| {
        let pods = pods();
        let inner = Arc::clone(&pods.0);
        let driver = spawn(move || {
            commit(&inner, 7);
            inner.end(std::iter::empty());
        });
        assert!(wait(&pods, "7").is_ok(), "it came before the stop");
        let Err(Error::Behind(behind)) = wait(&pods, "8") else { panic!("there is no version 8") };
        assert_eq!(behind.why, Why::Stopped);
        driver.join().unwrap();
    });
}

#[test]
fn a_driver_that_tells_before_it_commits_leaves_a_waiter_behind() {
    finds(|| {
        let pods = pods();
        let inner = Arc::clone(&pods.0);
        let driver = spawn(move || {
            inner.status.store_moved();
            drop(inner.store.commit(event(7)));
        });
        wait(&pods, "7").unwrap();
        driver.join().unwrap();
    });
}

#[test]
fn a_waiter_that_looks_before_it_is_counted_is_not_told() {
    finds(|| {
        let pods = pods();
        let inner = Arc::clone(&pods.0);
        let driver = spawn(move || commit(&inner, 7));
        let status = &pods.0.status;
        let seen = status.moved.generation();
        if pods.read(|store| store.version().is_empty()) {
            let _counted = pods.catch_up_to(&Version::new("7"));
            assert!(status.moved.wait_past(seen, None));
        }
        driver.join().unwrap();
    });
}
