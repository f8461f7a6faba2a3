//! Blocking waits are refused where they would hold up the tasks that they wait for.

use informer_tokio::{
    Client, Config, Controller, DynamicObject, Factory, FedSpec, Obj, Object, Outcome, Resource, Seen, Version,
};
use std::time::Duration;

#[tokio::test]
async fn a_blocking_wait_in_a_task_is_an_error_that_says_so() {
    let client = Client::connect(Config::from_url("http://127.0.0.1:1").unwrap()).unwrap();
    let factory = Factory::new(client);
    let pods = factory.informer_of::<DynamicObject>(Resource::namespaced("", "v1", "pods", "Pod"));
    let registration = pods.handle(|_| {});
    let error = registration.wait_synced(Duration::from_secs(3600)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "wait_synced() was called inside an asynchronous runtime, where synced() can be awaited, and would wait for \
         itself: call it from elsewhere"
    );
    assert!(registration.wait_finished().is_err());
    // A thread of one's own may wait.
    let waited = std::thread::spawn(move || registration.wait_synced(Duration::ZERO)).join().unwrap();
    assert!(!waited.unwrap());
    factory.stop(Duration::from_secs(2)).await.unwrap();
}

#[tokio::test]
async fn the_longest_span_that_there_is_is_a_wait_that_ends_with_what_it_waits_for() {
    let factory = Factory::offline();
    let pods: Resource = "pods".parse().unwrap();
    let (informer, feeder) = factory.fed(FedSpec::<DynamicObject>::of(pods.clone())).unwrap();
    let running = Controller::new(informer.clone()).start(|_, _| async { Ok(Outcome::done()) });
    factory.start();
    let pod = br#"{"metadata": {"namespace": "web", "name": "a", "uid": "u", "resourceVersion": "1"}}"#;
    let pod = Obj::of(DynamicObject::decode(pod, &pods).unwrap()).unwrap();
    let (key, version) = (pod.key().to_key(), Version::new("1"));
    let feeds = async {
        tokio::task::yield_now().await; // all wait by then
        feeder.list([pod], Version::new("1")).unwrap();
    };
    let (synced, listed, written, ()) = tokio::join!(
        factory.synced(Duration::MAX),
        informer.at_least(&version, Duration::MAX),
        informer.wait_for(&key, &version, Duration::MAX),
        feeds
    );
    synced.unwrap();
    assert_eq!(listed.unwrap().len(), 1);
    assert!(matches!(written.unwrap(), Seen::Present(_)));
    running.stop();
    running.wait(Duration::MAX).await.unwrap();
    informer.stop(Duration::MAX).await.unwrap();
    factory.stop(Duration::MAX).await.unwrap();
}
