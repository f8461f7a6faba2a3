//! An informer that is fed by hand, with the adapter's tasks around it.

use informer_tokio::{
    Change, Client, Config, Factory, FedSpec, HandlerOptions, Key, Notification, Obj, Overflow, Refusal,
};
use informer_tokio::{Resource, Uid, Version};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

const PATIENCE: Duration = Duration::from_secs(60);

fn light(name: &str, version: u32) -> Obj<u32> {
    Obj::new(Key::new("hall", name), Uid::new(name), Version::new(&version.to_string()), version)
}

fn factory() -> Factory {
    Factory::new(Client::connect(Config::from_url("http://127.0.0.1:1").unwrap()).unwrap())
}

fn lights() -> FedSpec<u32> {
    FedSpec::of(Resource::namespaced("example.com", "v1", "lights", "Light"))
}

async fn next(told: &mut UnboundedReceiver<String>) -> String {
    tokio::time::timeout(PATIENCE, told.recv()).await.expect("in time").expect("a notification")
}

#[tokio::test]
async fn handlers_are_told_of_what_is_fed_and_of_what_happens_while_nobody_feeds_and_all_of_it_ends() {
    let factory = factory();
    let (informer, feeder) = factory.fed(lights()).unwrap();
    let handler = |options: HandlerOptions| {
        let (tell, told) = unbounded_channel();
        let tell = move |notification: &Notification<u32>| tell.send(notification.to_string()).unwrap();
        (informer.handle_with(options, tell), told)
    };
    let (_, mut first) = handler(HandlerOptions::default());
    factory.start();
    feeder.list([light("a", 1)], Version::new("1")).unwrap();
    factory.synced(PATIENCE).await.unwrap();
    assert_eq!(next(&mut first).await, "added hall/a@1");
    feeder.apply(Change::Applied(light("a", 2))).unwrap();
    assert_eq!(next(&mut first).await, "updated hall/a@2 (was 1)");

    let (late, mut told) = handler(HandlerOptions::default().with_resync(Duration::from_secs(1)));
    assert!(late.synced().await, "nobody feeds, and it is attached");
    assert_eq!(
        [next(&mut told).await, next(&mut told).await],
        ["added hall/a@2", "resync hall/a@2"],
        "resyncs come, too"
    );

    factory.stop(PATIENCE).await.unwrap();
    let refused = feeder.apply(Change::Applied(light("a", 3))).unwrap_err();
    assert_eq!(refused.why, Refusal::Stopped, "who keeps a feeder holds up no stop");
    assert!(first.recv().await.is_none() && late.is_finished(), "handlers are gone");
    assert_eq!(informer.lister().len(), 1);
}

#[tokio::test]
async fn a_task_that_feeds_a_slow_handler_waits_for_its_room() {
    let factory = factory();
    let (informer, feeder) = factory.fed(lights()).unwrap();
    let options = HandlerOptions::named("slow").with_overflow(Overflow::Pause { limit: 10 });
    let (tell, mut told) = unbounded_channel();
    informer.handle_async(options, move |notification| {
        let sent = tell.send(notification.to_string());
        async move {
            tokio::task::yield_now().await;
            sent.unwrap();
        }
    });
    factory.start();
    feeder.list([], Version::new("0")).unwrap();
    let mut waits = 0;
    let mut left: Vec<_> = (1..=1_000).map(|version| Change::Applied(light("a", version))).collect();
    while let Err(refused) = feeder.apply_all(left) {
        assert_eq!(refused.why, Refusal::Full { handler: "slow".into() });
        left = refused.fed;
        feeder.room().await;
        waits += 1;
    }
    assert!(waits > 0, "a handler that waits for its turn is full in between");
    for version in 1..=1_000 {
        let wanted = if version == 1 {
            "added hall/a@1".into()
        } else {
            format!("updated hall/a@{version} (was {})", version - 1)
        };
        assert_eq!(next(&mut told).await, wanted);
    }
    factory.stop(PATIENCE).await.unwrap();
}
