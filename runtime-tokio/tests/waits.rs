//! Blocking waits are refused where they would hold up the tasks that they wait for.

use informer_tokio::{Client, Config, DynamicObject, Factory, Resource};
use std::time::{Duration, Instant};

#[tokio::test]
async fn a_blocking_wait_in_a_task_is_an_error_that_says_so() {
    let client = Client::connect(Config::from_url("http://127.0.0.1:1").unwrap()).unwrap();
    let factory = Factory::new(client);
    let pods = factory.informer_of::<DynamicObject>(Resource::namespaced("", "v1", "pods", "Pod"));
    let registration = pods.handle(|_| {});
    let error = registration.wait_synced(Instant::now() + Duration::from_secs(3600)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "wait_synced() was called inside an asynchronous runtime, where synced() can be awaited, and would wait for \
         itself: call it from elsewhere"
    );
    assert!(registration.wait_finished().is_err());
    // A thread of one's own may wait.
    let waited = std::thread::spawn(move || registration.wait_synced(Instant::now())).join().unwrap();
    assert!(!waited.unwrap());
    factory.stop(Duration::from_secs(2)).await.unwrap();
}
