//! The forms in which events are taken: streams, filters, acknowledged streams.

use crate::support::*;
use futures_core::Stream;
use informer_tokio::{Delivery, HandlerOptions, ItemOptions, Limiter, Obj};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a combinator of any executor's does.
async fn next<S: Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    poll_fn(|cx| Pin::new(&mut *stream).poll_next(cx)).await
}

fn even(map: &Obj<ConfigMap>) -> bool {
    map.text().bytes().last().is_some_and(|byte| byte % 2 == 0)
}

#[tokio::test]
async fn events_are_a_stream_with_the_end_of_the_initial_state_in_its_place() {
    let served = serve();
    put(&served, "web/a", "1");
    let factory = factory(&served);
    let maps = factory.informer::<ConfigMap>();
    let mut events = maps.events().with_synced();
    factory.start();
    assert!(matches!(next(&mut events).await, Some(Delivery::Notification(event)) if line(&event) == "*web/a=1"));
    assert!(matches!(next(&mut events).await, Some(Delivery::Synced)));
    put(&served, "web/a", "2");
    assert!(matches!(events.next().await, Some(Delivery::Notification(event)) if line(&event) == "web/a=1>2"));
    factory.stop(STOP).await.unwrap();
    assert!(next(&mut events).await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_tells_a_handler_and_a_stream_what_crosses_its_border() {
    let served = serve();
    put(&served, "web/a", "1");
    put(&served, "web/b", "2");
    let factory = factory(&served);
    let maps = factory.informer::<ConfigMap>();
    let log = Log::default();
    let write = log.clone();
    let handler = maps.handle_filtered(HandlerOptions::default(), even, move |event| write.add(line(event)));
    let mut events = maps.events_filtered(HandlerOptions::default(), even);
    factory.start();
    assert!(handler.synced().await);
    put(&served, "web/a", "4");
    put(&served, "web/a", "6");
    put(&served, "web/a", "7");
    delete(&served, "web/a");
    delete(&served, "web/b");
    let want = ["*web/b=2", "+web/a=4", "web/a=4>6", "-web/a=6", "-web/b=2"];
    assert_eq!(log.until(5).await, want);
    for want in want {
        assert_eq!(line(&events.next().await.unwrap()), want);
    }
    factory.stop(STOP).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consumers_of_an_acknowledged_stream_share_its_items_and_end_with_the_truth() {
    let served = serve();
    for n in 0..20 {
        put(&served, &format!("web/m{n}"), "0");
    }
    let factory = factory(&served);
    let maps = factory.informer::<ConfigMap>();
    let options = ItemOptions::named("copy").limiter(Limiter::exponential(Duration::from_millis(1), LONG));
    let items = maps.items(options);
    let registration = items.source().registration().clone();
    let copies: Arc<Mutex<BTreeMap<String, String>>> = Arc::default();
    let consumers: Vec<_> = (0..3)
        .map(|_| {
            let (mut items, copies) = (items.clone(), Arc::clone(&copies));
            tokio::spawn(async move {
                while let Some(item) = items.next().await {
                    if item.attempt() == 1 {
                        item.retry("the first time it never works");
                        continue;
                    }
                    match item.object() {
                        Some(map) => _ = copies.lock().unwrap().insert(item.key().to_string(), map.text().to_string()),
                        None => _ = copies.lock().unwrap().remove(item.key().as_str()),
                    }
                    item.done();
                }
            })
        })
        .collect();
    factory.start();
    assert!(registration.synced().await);
    for n in 0..10 {
        put(&served, &format!("web/m{n}"), "1");
        delete(&served, &format!("web/m{}", n + 10));
    }
    let want: BTreeMap<_, _> = (0..10).map(|n| (format!("web/m{n}"), "1".to_string())).collect();
    eventually("the copies are the truth", || *copies.lock().unwrap() == want).await;
    eventually("nothing waits", || items.source().waiting() == 0).await;
    let counts = items.source().counts();
    assert_eq!((counts.reconciles, counts.unanswered), (counts.done + counts.failures, 0));
    assert!(counts.failures >= 20, "{counts:?}");
    factory.stop(STOP).await.unwrap();
    for consumer in consumers {
        consumer.await.unwrap();
    }
}

#[tokio::test]
async fn an_item_whose_task_is_dropped_goes_to_another_consumer() {
    let served = serve();
    put(&served, "web/a", "1");
    let factory = factory(&served);
    let maps = factory.informer::<ConfigMap>();
    let mut items = maps.items(ItemOptions::default());
    let mut other = items.clone();
    factory.start();
    let task = tokio::spawn(async move {
        let _item = items.next().await.unwrap();
        std::future::pending::<()>().await;
    });
    eventually("it is in hand", || other.source().waiting() == 1).await;
    // Waiting for the retry that the task's end makes, with no change in between.
    let waits = tokio::spawn(async move {
        let item = other.next().await.unwrap();
        let shown = format!("{item:?}");
        item.done();
        (shown, other)
    });
    tokio::task::yield_now().await;
    task.abort();
    let (shown, other) = waits.await.unwrap();
    assert_eq!(shown, format!("web/a@{}, attempt 2", maps.lister().list()[0].version()));
    assert_eq!(other.source().counts().unanswered, 1);
    let registration = other.source().registration().clone();
    assert!(registration.has_synced());
    drop(other);
    eventually("the last consumer took the handler along", || registration.is_finished()).await;
    factory.stop(STOP).await.unwrap();
}
