//! The mailbox: whatever comes beside a stop, nobody is left waiting.

use super::{Command, InformerHandle, InformerSpec};
use crate::config::Config;
use crate::driver::{Drive, IoAction, IoEvent};
use crate::factory::{FactoryCore, FactoryOptions};
use crate::handler::{Deliveries, HandlerOptions, Lent};
use crate::schedules::{finds, seldom};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering};
use informer_core::listener::Cause;
use informer_core::reflector::{End, ListStrategy};
use informer_core::time::{Duration, Time};
use informer_core::wire::{Head, RequestId};
use informer_core::{DynamicObject, Resource};
use shuttle::thread::spawn;

fn factory() -> (Arc<FactoryCore>, InformerHandle<DynamicObject>) {
    let options = FactoryOptions { seed: Some(7), decode_threads: Some(0), ..FactoryOptions::default() };
    let factory = FactoryCore::new(Config::from_url("http://127.0.0.1:1").unwrap(), options);
    let pods = factory
        .informer(InformerSpec::of(Resource::namespaced("", "v1", "pods", "Pod")).strategy(ListStrategy::Paged))
        .unwrap();
    (Arc::new(factory), pods)
}

/// Hands the driver an event, and carries out nothing of what it asks for.
fn drive(driver: &mut dyn Drive, event: IoEvent<'_>) {
    driver.handle(Time::ZERO, event);
    while !matches!(driver.poll(Time::ZERO), IoAction::Wait(_)) {}
}

/// A handler's loop: it ends when it is told that nothing comes any more.
fn run(mut deliveries: Deliveries<DynamicObject>) {
    while deliveries.next_blocking().is_some() {}
}

#[test]
fn a_handler_that_is_added_beside_a_stop_ends() {
    seldom(|| {
        let (factory, pods) = factory();
        let driver = factory.take_unstarted().remove(0);
        let stop = spawn(move || {
            let mut driver = driver;
            drive(&mut *driver, IoEvent::Start);
            drive(&mut *driver, IoEvent::Stop);
            assert!(driver.is_stopped());
        });
        let (registration, deliveries) = pods.channel(HandlerOptions::default());
        run(deliveries);
        assert!(registration.is_finished() && !registration.was_removed());
        stop.join().unwrap();
        pods.refresh();
        assert!(pods.0.mailbox.lock().is_empty(), "nobody would take it out");
    });
}

/// B127: whether it comes before the start, beside the list or after it, it is told of each object once, that the initial
/// ones are all, and in its period of each object again.
#[test]
fn a_handler_that_is_added_beside_the_start_and_the_first_list_gets_all_of_it() {
    seldom(|| {
        let (factory, pods) = factory();
        let mut driver = factory.take_unstarted().remove(0);
        let told_all = Arc::new((AtomicBool::new(false), Arc::clone(&factory)));
        let teller = Arc::clone(&told_all);
        let handler = spawn(move || {
            let options = HandlerOptions { resync: Some(Duration::from_secs(1)), ..HandlerOptions::default() };
            let (registration, mut deliveries) = pods.channel(options);
            let mut take = |_| match deliveries.next_blocking() {
                Some(Lent::Notification(event)) => (event.cause() == Cause::Resync, event.key().to_string()),
                Some(Lent::Synced) => (false, String::from("synced")),
                None => panic!("it was not removed"),
            };
            let first: Vec<_> = (0..4).map(&mut take).collect();
            teller.0.store(true, Ordering::Release);
            teller.1.wake().notify();
            let again: Vec<_> = (0..3).map(take).collect();
            registration.remove();
            run(deliveries);
            (first, again)
        });
        let pod = |name: &str| format!(r#"{{"metadata":{{"name":"{name}","uid":"u","resourceVersion":"5"}}}}"#);
        let items = [pod("a"), pod("b")].join(",");
        let list = format!(r#"{{"kind":"PodList","metadata":{{"resourceVersion":"5"}},"items":[{items}]}}"#);
        let event = format!(r#"{{"type":"ADDED","object":{}}}"#, pod("c"));
        let head = Head::new(200);
        drive(&mut *driver, IoEvent::Start);
        drive(&mut *driver, IoEvent::Head(RequestId(1), &head));
        drive(&mut *driver, IoEvent::Body(RequestId(1), list.as_bytes()));
        drive(&mut *driver, IoEvent::End(RequestId(1), &End::Closed));
        drive(&mut *driver, IoEvent::Head(RequestId(2), &head));
        drive(&mut *driver, IoEvent::Body(RequestId(2), event.as_bytes()));
        // An adapter's loop, with a clock that stands still until the handler has been told of everything once.
        let mut now = Time::ZERO;
        while now == Time::ZERO {
            let seen = factory.wake().generation();
            drive(&mut *driver, IoEvent::Tick);
            if told_all.0.load(Ordering::Acquire) {
                now = Time::from_millis(2_000);
                driver.handle(now, IoEvent::Tick);
                while !matches!(driver.poll(now), IoAction::Wait(_)) {}
            } else {
                factory.wake().wait_past(seen, None);
            }
        }
        let (mut first, mut again) = handler.join().unwrap();
        let synced = first.iter().position(|(_, key)| key == "synced").expect("it is synced");
        assert!(synced >= 2, "the list at least is initial: {first:?}");
        first.sort();
        again.sort();
        assert_eq!(first, ["a", "b", "c", "synced"].map(|key| (false, key.to_string())));
        assert_eq!(again, ["a", "b", "c"].map(|key| (true, key.to_string())));
    });
}

#[test]
fn a_removal_beside_a_stop_ends_the_handler_once() {
    seldom(|| {
        let (factory, pods) = factory();
        let driver = factory.take_unstarted().remove(0);
        let (registration, deliveries) = pods.channel(HandlerOptions::default());
        let remover = registration.clone();
        let remover = spawn(move || remover.remove());
        let handler = spawn(move || run(deliveries));
        let mut driver = driver;
        drive(&mut *driver, IoEvent::Start);
        drive(&mut *driver, IoEvent::Tick);
        drive(&mut *driver, IoEvent::Stop);
        remover.join().unwrap();
        handler.join().unwrap();
        assert!(registration.is_finished() && registration.was_removed());
        drive(&mut *driver, IoEvent::Tick);
    });
}

/// Also one that is never started: a stop of the factory drops its driver.
#[test]
fn a_handler_of_an_informer_that_never_started_ends_with_the_factory() {
    seldom(|| {
        let (factory, pods) = factory();
        let stop = Arc::clone(&factory);
        let stop = spawn(move || stop.request_stop());
        let (_, deliveries) = pods.channel(HandlerOptions::default());
        run(deliveries);
        stop.join().unwrap();
    });
}

#[test]
fn an_informer_that_is_asked_for_beside_a_stop_is_refused_or_ends() {
    seldom(|| {
        let (factory, _) = factory();
        let stop = Arc::clone(&factory);
        let stop = spawn(move || stop.request_stop());
        let nodes = InformerSpec::<DynamicObject>::of(Resource::cluster("", "v1", "nodes", "Node"));
        if let Ok(nodes) = factory.informer(nodes) {
            let (_, deliveries) = nodes.channel(HandlerOptions::default());
            run(deliveries);
        }
        stop.join().unwrap();
        assert!(factory.take_unstarted().is_empty());
    });
}

/// Stopped alone, before it is started or while it is.
#[test]
fn an_informer_that_is_stopped_beside_its_start_ends_its_handlers() {
    seldom(|| {
        let (factory, pods) = factory();
        let (_, deliveries) = pods.channel(HandlerOptions::default());
        let stopped = pods.clone();
        let stop = spawn(move || stopped.request_stop());
        let handler = spawn(move || run(deliveries));
        for mut driver in factory.take_unstarted() {
            let mut event = IoEvent::Start;
            loop {
                let seen = factory.wake().generation();
                let leaving = pods.0.status.leaving.load(Ordering::Acquire);
                drive(&mut *driver, if leaving { IoEvent::Stop } else { event });
                if driver.is_stopped() {
                    break;
                }
                event = IoEvent::Tick;
                factory.wake().wait_past(seen, None);
            }
        }
        handler.join().unwrap();
        stop.join().unwrap();
        assert!(pods.is_stopped());
    });
}

#[test]
fn a_command_wakes_a_driver_that_is_about_to_sleep() {
    seldom(|| {
        let (factory, pods) = factory();
        let mut driver = factory.take_unstarted().remove(0);
        let (id, head) = (RequestId(1), Head::new(200));
        drive(&mut *driver, IoEvent::Start);
        drive(&mut *driver, IoEvent::Head(id, &head));
        drive(&mut *driver, IoEvent::Body(id, br#"{"kind":"PodList","metadata":{"resourceVersion":"5"},"items":[]}"#));
        drive(&mut *driver, IoEvent::End(id, &End::Closed));
        assert!(pods.has_synced());
        let told = Arc::new((AtomicBool::new(false), Arc::clone(&factory)));
        let teller = Arc::clone(&told);
        let handler = spawn(move || {
            let (_, mut deliveries) = pods.channel(HandlerOptions::default());
            assert!(matches!(deliveries.next_blocking(), Some(Lent::Synced)));
            teller.0.store(true, Ordering::Release);
            teller.1.wake().notify();
        });
        // An adapter's loop: what it sleeps past is the generation from before it looked.
        loop {
            let seen = factory.wake().generation();
            drive(&mut *driver, IoEvent::Tick);
            if told.0.load(Ordering::Acquire) {
                break;
            }
            factory.wake().wait_past(seen, None);
        }
        handler.join().unwrap();
    });
}

#[test]
fn a_stop_that_empties_the_mailbox_before_it_raises_its_flag_leaves_a_handler_waiting() {
    finds(|| {
        let (factory, pods) = factory();
        let inner = Arc::clone(&pods.0);
        let stop = spawn(move || {
            let commands = std::mem::take(&mut *inner.mailbox.lock());
            inner.status.stopped.store(true, Ordering::Release);
            for command in commands {
                if let Command::Add { channel, .. } = command {
                    channel.close();
                }
            }
        });
        let (_, deliveries) = pods.channel(HandlerOptions::default());
        run(deliveries);
        stop.join().unwrap();
        drop(factory);
    });
}
