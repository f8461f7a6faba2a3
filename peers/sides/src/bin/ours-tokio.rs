//! Our informer on tokio, with its defaults: typed Pods, one handler.

use informer_peers::meter::Meter;
use informer_peers::side::{Outcome, Task, Work};
use informer_sides::{PATIENCE, counting};
use informer_tokio::{Client, Config, Factory};
use k8s_openapi::api::core::v1::Pod;
use tokio::runtime::Builder;

fn main() {
    let task = Task::from_args();
    let runtime = Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let (handler, all_seen) = counting(task.events);
    let mut outcome = Outcome::default();

    let meter = Meter::start();
    let (_factory, pods) = runtime.block_on(async {
        let factory = Factory::new(Client::connect(Config::from_url(&task.url()).expect("a URL")).expect("a client"));
        let pods = factory.informer::<Pod>();
        let handler = pods.handle(handler);
        factory.start();
        factory.synced(PATIENCE).await.expect("a complete list");
        assert!(handler.synced().await, "the handler has seen everything");
        (factory, pods)
    });
    outcome.sync = Some(Work::of(&meter, task.objects));
    assert_eq!(pods.lister().len(), task.objects, "all objects are in the cache");
    outcome.settle();

    if task.events > 0 {
        let meter = Meter::start();
        task.trigger().expect("a watch to send events on");
        all_seen.recv_timeout(PATIENCE).expect("all events");
        outcome.events = Some(Work::of(&meter, task.events));
    }
    outcome.print_and_exit()
}
