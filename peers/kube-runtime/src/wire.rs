//! kube-runtime with its defaults: typed Pods in pages of 500, `watcher` and `reflector`, and a loop that sees each event.

use futures_util::{StreamExt, pin_mut};
use informer_peers::meter::Meter;
use informer_peers::side::{Outcome, Task, Work};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::{Config, Event};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Client};
use std::sync::mpsc::channel;
use std::time::Duration;

/// How long to wait for the sync, and for all events.
const PATIENCE: Duration = Duration::from_secs(600);

fn main() {
    let task = Task::from_args();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let mut outcome = Outcome::default();
    let (synced, is_synced) = channel();
    let (seen, all_seen) = channel();

    let meter = Meter::start();
    let (reader, writer) = reflector::store::<Pod>();
    runtime.spawn(async move {
        let config = kube::Config::new(task.url().parse().expect("a URL"));
        let pods: Api<Pod> = Api::all(Client::try_from(config).expect("a client"));
        let stream = reflector(writer, watcher(pods, Config::default()).default_backoff());
        pin_mut!(stream);
        let mut applied = 0;
        while let Some(event) = stream.next().await {
            match event.expect("no failure") {
                Event::InitDone => synced.send(()).expect("main waits"),
                Event::Apply(_) => {
                    applied += 1;
                    if applied == task.events {
                        seen.send(()).expect("main waits");
                    }
                }
                Event::Init | Event::InitApply(_) | Event::Delete(_) => {}
            }
        }
    });
    is_synced.recv_timeout(PATIENCE).expect("a complete list");
    outcome.sync = Some(Work::of(&meter, task.objects));
    assert_eq!(reader.len(), task.objects, "all objects are in the store");
    outcome.settle();

    if task.events > 0 {
        let meter = Meter::start();
        task.trigger().expect("a watch to send events on");
        all_seen.recv_timeout(PATIENCE).expect("all events");
        outcome.events = Some(Work::of(&meter, task.events));
    }
    outcome.print_and_exit()
}
