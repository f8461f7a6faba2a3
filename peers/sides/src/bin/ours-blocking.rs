//! Our informer on threads, with its defaults: typed Pods, one handler.

use informer_blocking::{Client, Config, Factory};
use informer_peers::meter::Meter;
use informer_peers::side::{Outcome, Task, Work};
use informer_sides::{PATIENCE, counting};
use k8s_openapi::api::core::v1::Pod;

fn main() {
    let task = Task::from_args();
    let (handler, all_seen) = counting(task.events);
    let mut outcome = Outcome::default();

    let meter = Meter::start();
    let factory = Factory::new(Client::connect(Config::from_url(&task.url()).expect("a URL")).expect("a client"));
    let pods = factory.informer::<Pod>();
    let handler = pods.handle(handler);
    factory.start();
    factory.synced(PATIENCE).expect("a complete list");
    assert!(handler.wait_synced(PATIENCE).expect("no deadlock"), "the handler has seen everything");
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
