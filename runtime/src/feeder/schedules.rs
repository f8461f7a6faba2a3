//! The seat: whoever has the driver, nothing that the others came for is left undone.

use super::*;
use crate::config::Config;
use crate::factory::{FactoryCore, FactoryOptions};
use crate::handler::{Deliveries, HandlerOptions, Lent};
use crate::schedules::seldom;
use informer_core::{Key, Uid};
use shuttle::thread::spawn;

fn fed() -> (Arc<FactoryCore>, InformerHandle<u32>, Arc<Feeder<u32>>) {
    let options = FactoryOptions { seed: Some(7), decode_threads: Some(0), ..FactoryOptions::default() };
    let factory = FactoryCore::new(Config::from_url("http://127.0.0.1:1").unwrap(), options);
    let (informer, feeder) = factory.fed(FedSpec::of(Resource::cluster("", "v1", "nodes", "Node"))).unwrap();
    feeder.list([], Version::new("1")).unwrap();
    (Arc::new(factory), informer, Arc::new(feeder))
}

fn applied(version: u32) -> Change<u32> {
    Change::Applied(Obj::new(Key::new("", "a"), Uid::new("u"), Version::new(&version.to_string()), version))
}

/// An adapter as every one is: it does what is to be done, and sleeps until it is woken.
fn adapt(factory: &FactoryCore) {
    // A stop may have come first.
    let Some(mut driver) = factory.take_unstarted().pop() else { return };
    let mut event = IoEvent::Start;
    loop {
        let seen = factory.wake().generation();
        driver.handle(Time::ZERO, if factory.is_stopping() { IoEvent::Stop } else { event });
        assert!(matches!(driver.poll(Time::ZERO), IoAction::Wait(_)));
        if driver.is_stopped() {
            return;
        }
        event = IoEvent::Tick;
        factory.wake().wait_past(seen, None);
    }
}

/// The versions that a handler is told of, until the informer ends.
fn versions(mut deliveries: Deliveries<u32>) -> Vec<u32> {
    let mut versions = Vec::new();
    while let Some(delivery) = deliveries.next_blocking() {
        if let Lent::Notification(notification) = delivery {
            versions.push(**notification.object());
        }
    }
    versions
}

#[test]
fn a_handler_that_comes_while_somebody_feeds_is_attached_and_sees_everything_in_order() {
    seldom(|| {
        let (factory, informer, feeder) = fed();
        let adapter = Arc::clone(&factory);
        let adapter = spawn(move || adapt(&adapter));
        let one = spawn(move || {
            for version in [2, 3] {
                feeder.apply(applied(version)).unwrap();
            }
        });
        let (registration, deliveries) = informer.channel(HandlerOptions::default());
        let handler = spawn(move || versions(deliveries));
        one.join().unwrap();
        // Nobody feeds any more: a turn that the adapter missed is made up for by itself.
        while !informer.0.mailbox.lock().is_empty() {
            shuttle::thread::yield_now();
        }
        factory.request_stop();
        adapter.join().unwrap();
        let told = handler.join().unwrap();
        assert!(told.is_sorted() && told.windows(2).all(|pair| pair[0] < pair[1]), "{told:?}");
        assert!(registration.is_finished());
    });
}

#[test]
fn a_stop_beside_feeders_ends_the_informer_and_what_was_not_applied_comes_back() {
    seldom(|| {
        let (factory, informer, feeder) = fed();
        let adapter = Arc::clone(&factory);
        let adapter = spawn(move || adapt(&adapter));
        let feeders: Vec<_> = [2, 3]
            .into_iter()
            .map(|version| {
                let feeder = Arc::clone(&feeder);
                spawn(move || match feeder.apply(applied(version)) {
                    Ok(()) => None,
                    Err(refused) => Some((refused.why, *refused.fed.object().expect("it was applied").value())),
                })
            })
            .collect();
        factory.request_stop();
        let refused: Vec<_> = feeders.into_iter().filter_map(|feeder| feeder.join().unwrap()).collect();
        adapter.join().unwrap();
        assert!(refused.iter().all(|(why, _)| *why == Refusal::Stopped));
        assert!(informer.is_stopped());
        assert_eq!(feeder.apply(applied(4)).unwrap_err().why, Refusal::Stopped);
    });
}

/// The adapter is dropped while the driver is with a feeder: that one ends it.
#[test]
fn an_adapter_that_is_dropped_beside_a_feeder_leaves_no_handler_waiting() {
    seldom(|| {
        let (factory, informer, feeder) = fed();
        let driver = factory.take_unstarted().remove(0);
        let (_, deliveries) = informer.channel(HandlerOptions::default());
        let one = spawn(move || _ = feeder.apply(applied(2)));
        let drops = spawn(move || drop(driver));
        let told = versions(deliveries);
        assert!(told.len() < 2);
        one.join().unwrap();
        drops.join().unwrap();
        assert!(informer.is_stopped());
    });
}

/// Who asks while another one feeds is told nothing yet, and is woken when that one is done.
#[test]
fn who_asks_for_room_beside_feeders_is_answered_in_every_order() {
    seldom(|| {
        let (_factory, informer, feeder) = fed();
        let options = HandlerOptions::default().with_overflow(informer_core::listener::Overflow::Pause { limit: 1 });
        let (_, mut deliveries) = informer.channel(options);
        let feeds = Arc::clone(&feeder);
        let feeds = spawn(move || {
            for version in 2..6 {
                while let Err(refused) = feeds.apply(applied(version)) {
                    assert!(matches!(refused.why, Refusal::Full { .. }));
                    shuttle::future::block_on(feeds.room());
                }
            }
        });
        let asks = Arc::clone(&feeder);
        let asks = spawn(move || shuttle::future::block_on(asks.room()));
        let mut told = 0;
        while told < 4 {
            told += usize::from(matches!(deliveries.next_blocking(), Some(Lent::Notification(_))));
        }
        feeds.join().unwrap();
        asks.join().unwrap();
    });
}
