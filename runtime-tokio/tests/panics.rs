//! What panics where a request is carried out costs that request and no more; a runtime that cannot carry out anything is
//! refused at the start.

use informer_tokio::core::informer::Notice;
use informer_tokio::{
    Client, Config, DynamicObject, Factory, FactoryOptions, Failure, FedSpec, Observed, Resource, Version,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::unbounded_channel;

#[test]
fn a_request_whose_task_panics_has_failed_with_the_text_of_the_panic_and_is_retried() {
    // One cannot open a socket in it, and tokio says so with a panic.
    let without_io = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    without_io.block_on(async {
        let (tell, mut told) = unbounded_channel::<Failure>();
        let observer = Arc::new(move |observed: &Observed<'_>| {
            if let Observed::Notice { notice: Notice::Failure(failure), .. } = observed {
                let _ = tell.send(failure.clone());
            }
        });
        let client = Client::connect(Config::from_url("http://127.0.0.1:1").unwrap()).unwrap();
        let factory = Factory::with_options(client, FactoryOptions::observed(observer));
        let pods = factory.informer_of::<DynamicObject>(Resource::namespaced("", "v1", "pods", "Pod"));
        factory.start();
        // The first is of the streaming list, the others are of the paged one.
        for repeats in [0, 0, 1] {
            let failure = told.recv().await.expect("an informer that goes on");
            assert!(failure.message.contains("panicked: ") && failure.message.contains("IO"), "{failure}");
            assert!(failure.repeats == repeats && failure.retry_in.is_some(), "{failure}");
        }
        assert!(pods.last_failure().is_some());
        factory.stop(Duration::from_secs(60)).await.unwrap();
    });
}

#[test]
fn a_runtime_without_timers_is_refused_at_the_start_with_the_way_out_and_another_one_will_do() {
    let factory = Factory::offline();
    let (pods, feeder) = factory.fed(FedSpec::<DynamicObject>::of("pods".parse().unwrap())).unwrap();
    let without_timers = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let refused = without_timers.block_on(async { catch_unwind(AssertUnwindSafe(|| factory.start())) });
    let panic = refused.expect_err("its driver could not wait for a deadline");
    let text =
        panic.downcast_ref::<&str>().map(ToString::to_string).or(panic.downcast_ref::<String>().cloned()).unwrap();
    assert!(text.contains("enable_time"), "{text}");
    assert_eq!(factory.tasks(), 0);

    let with_timers = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    with_timers.block_on(async {
        factory.start();
        assert_ne!(factory.tasks(), 0);
        feeder.list([], Version::new("1")).unwrap();
        factory.synced(Duration::from_secs(60)).await.unwrap();
        factory.stop(Duration::from_secs(60)).await.unwrap();
    });
    assert!(pods.lister().is_empty());
}
