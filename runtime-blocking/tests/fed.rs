//! An informer that is fed by hand, with the adapter's threads around it.

use informer_blocking::{
    Change, Controller, DynamicObject, Factory, FedSpec, HandlerOptions, InformerSpec, Key, Notification, Obj, Outcome,
    Refusal, Resource, Uid, Version,
};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

fn light(name: &str, version: u32) -> Obj<u32> {
    Obj::new(Key::new("hall", name), Uid::new(name), Version::new(&version.to_string()), version)
}

fn next(told: &Receiver<String>) -> String {
    told.recv_timeout(PATIENCE).expect("a notification")
}

#[test]
fn handlers_are_told_of_what_is_fed_and_of_what_happens_while_nobody_feeds_and_all_of_it_ends() {
    let factory = Factory::offline();
    let lights = Resource::namespaced("example.com", "v1", "lights", "Light");
    let (informer, feeder) = factory.fed(FedSpec::<u32>::of(lights)).unwrap();
    let handler = |options: HandlerOptions| {
        let (tell, told) = channel();
        let tell = move |notification: &Notification<u32>| tell.send(notification.to_string()).unwrap();
        (informer.handle_with(options, tell), told)
    };
    let (_, first) = handler(HandlerOptions::default());
    factory.start();
    feeder.list([light("a", 1)], Version::new("1")).unwrap();
    factory.synced(PATIENCE).unwrap();
    assert_eq!(next(&first), "added hall/a@1");
    feeder.apply(Change::Applied(light("a", 2))).unwrap();
    assert_eq!(next(&first), "updated hall/a@2 (was 1)");

    let (late, told) = handler(HandlerOptions::default().with_resync(Duration::from_secs(1)));
    assert!(late.wait_synced(PATIENCE).unwrap(), "nobody feeds, and it is attached");
    assert_eq!([next(&told), next(&told)], ["added hall/a@2", "resync hall/a@2"], "nor is the resync left out");
    late.remove();
    late.wait_finished().unwrap();

    factory.stop(PATIENCE).unwrap();
    let refused = feeder.apply(Change::Applied(light("a", 3))).unwrap_err();
    assert_eq!(refused.why, Refusal::Stopped, "who keeps a feeder holds up no stop");
    assert!(first.recv().is_err(), "the handler is gone");
    assert_eq!(informer.lister().len(), 1);
}

#[test]
fn a_factory_without_a_server_says_so_to_who_asks_it_for_more_than_what_is_fed() {
    let factory = Factory::offline();
    let pods: Resource = "pods".parse().unwrap();
    let error = factory.try_informer(InformerSpec::<DynamicObject>::of(pods.clone())).unwrap_err().to_string();
    assert_eq!(
        error,
        "pods: the factory has no server to read from: make it with a client, or feed the informer (Factory::fed)"
    );
    let error = factory.client().api_of::<DynamicObject>(pods).get(&Key::new("web", "a")).unwrap_err().to_string();
    assert!(
        error.starts_with("GET /api/v1/namespaces/web/pods/a: nothing was sent, as this client has no server"),
        "{error}"
    );
    factory.start();
    factory.synced(PATIENCE).unwrap();
    factory.stop(PATIENCE).unwrap();
}

#[test]
fn a_controller_says_that_it_stopped_when_the_last_factory_was_dropped() {
    let factory = Factory::offline();
    let (pods, feeder) = factory.fed(FedSpec::<DynamicObject>::of("pods".parse().unwrap())).unwrap();
    let running = Controller::new(pods).start(|_, _| Ok(Outcome::done()));
    factory.start();
    let clone = factory.clone();
    drop(factory);
    assert!(!running.is_stopped());
    drop(clone);
    running.wait(PATIENCE).unwrap();
    assert!(running.is_stopped());
    drop(feeder);
}
