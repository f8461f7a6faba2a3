//! The forms in which events are taken: iterators, filters, acknowledged streams.

use crate::support::*;
use informer_blocking::{Delivery, HandlerOptions, ItemOptions, Limiter, Notification, Obj};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

fn even(map: &Obj<ConfigMap>) -> bool {
    map.v().bytes().last().is_some_and(|byte| byte % 2 == 0)
}

fn line(event: &Notification<ConfigMap>) -> String {
    let (old, new) = (event.old().map_or("", |old| old.v()), event.object());
    let sign = match event {
        Notification::Added { initial: true, .. } => "*",
        Notification::Added { .. } => "+",
        Notification::Deleted { .. } => "-",
        Notification::Updated { .. } => "",
        _ => unreachable!("a fourth kind of notification"),
    };
    format!("{sign}{} {old}>{}", new.key().name(), new.v())
}

#[test]
fn events_are_an_iterator_with_the_end_of_the_initial_state_in_its_place() {
    let served = serve(server());
    put(&served, "m", "1");
    let factory = factory(&served.url());
    let maps = factory.informer::<ConfigMap>();
    let mut events = maps.events().with_synced();
    factory.start();
    assert!(matches!(events.next(), Some(Delivery::Notification(event)) if line(&event) == "*m >1"));
    assert!(matches!(events.next(), Some(Delivery::Synced)));
    put(&served, "m", "2");
    assert!(matches!(events.next(), Some(Delivery::Notification(event)) if line(&event) == "m 1>2"));
    let waits = thread::spawn(move || events.count());
    factory.stop(STOP).unwrap();
    assert_eq!(waits.join().unwrap(), 0, "the stop ends a wait");
}

#[test]
fn a_filter_tells_a_handler_and_an_iterator_what_crosses_its_border() {
    let served = serve(server());
    put(&served, "a", "1");
    put(&served, "b", "2");
    let factory = factory(&served.url());
    let maps = factory.informer::<ConfigMap>();
    let log = Log::default();
    let write = log.clone();
    let handler = maps.handle_filtered(HandlerOptions::default(), even, move |event| write.add(line(event)));
    let events = maps.events_filtered(HandlerOptions::default(), even);
    factory.start();
    eventually("the initial state was told", || handler.has_synced());
    for value in ["4", "6", "7"] {
        put(&served, "a", value);
    }
    delete(&served, "a");
    delete(&served, "b");
    let want = ["*b >2", "+a >4", "a 4>6", "-a 6>6", "-b 2>2"];
    let told: Vec<_> = events.take(5).map(|event| line(&event)).collect();
    assert_eq!(told, want);
    eventually("the handler was told as much", || log.len() == 5);
    assert_eq!(log.lines(), want);
    factory.stop(STOP).unwrap();
}

#[test]
fn consumers_of_an_acknowledged_stream_share_its_items_and_end_with_the_truth() {
    let served = serve(server());
    for n in 0..20 {
        put(&served, &format!("m{n}"), "0");
    }
    let factory = factory(&served.url());
    let maps = factory.informer::<ConfigMap>();
    let options = ItemOptions::named("copy").limiter(Limiter::exponential(Duration::from_millis(1), PATIENCE));
    let items = maps.items(options);
    let copies: Mutex<BTreeMap<String, String>> = Mutex::default();
    factory.start();
    thread::scope(|scope| {
        for _ in 0..3 {
            let (items, copies) = (items.clone(), &copies);
            scope.spawn(move || {
                for item in items {
                    if item.attempt() == 1 {
                        item.retry("the first time it never works");
                        continue;
                    }
                    match item.object() {
                        Some(map) => _ = copies.lock().unwrap().insert(item.key().name().into(), map.v().into()),
                        None => _ = copies.lock().unwrap().remove(item.key().name()),
                    }
                    item.done();
                }
            });
        }
        eventually("it is synced", || items.source().registration().has_synced());
        for n in 0..10 {
            put(&served, &format!("m{n}"), "1");
            delete(&served, &format!("m{}", n + 10));
        }
        let want: BTreeMap<_, _> = (0..10).map(|n| (format!("m{n}"), "1".to_string())).collect();
        eventually("the copies are the truth", || *copies.lock().unwrap() == want);
        eventually("nothing waits", || items.source().waiting() == 0);
        factory.stop(STOP).unwrap();
    });
    let counts = items.source().counts();
    assert_eq!((counts.reconciles, counts.unanswered), (counts.done + counts.failures, 0));
    assert!(counts.failures >= 20, "{counts:?}");
}

#[test]
fn an_item_that_a_thread_lost_goes_to_another_consumer_that_waits() {
    let served = serve(server());
    put(&served, "m", "1");
    let factory = factory(&served.url());
    let maps = factory.informer::<ConfigMap>();
    let mut items = maps.items(ItemOptions::default());
    let mut other = items.clone();
    factory.start();
    let item = items.next().unwrap();
    let waits = thread::spawn(move || {
        let item = other.next().unwrap();
        let attempt = item.attempt();
        item.done();
        attempt
    });
    drop(item);
    assert_eq!((waits.join().unwrap(), items.source().counts().unanswered), (2, 1));
    let registration = items.source().registration().clone();
    drop(items);
    eventually("the last consumer took the handler along", || registration.is_finished());
    factory.stop(STOP).unwrap();
    assert_eq!(factory.threads(), 0);
}
