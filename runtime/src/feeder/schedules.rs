//! The seat: whoever has the driver, nothing that the others came for is left undone.

use super::*;
use crate::config::Config;
use crate::factory::{FactoryCore, FactoryOptions};
use crate::handler::{Deliveries, HandlerOptions, Lent};
use crate::observe::Observed;
use crate::schedules::{finds, seldom};
use crate::sync::OnceLock;
use informer_core::informer::Notice;
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

type Two = [(InformerHandle<u32>, Feeder<u32>); 2];

/// Two informers that are fed, whose observer is called while they are: with both, and which of them it is that calls.
fn two(observer: fn(&Two, usize)) -> (FactoryCore, Arc<OnceLock<Two>>) {
    let two: Arc<OnceLock<Two>> = Arc::default();
    let known = Arc::clone(&two);
    let mut options = FactoryOptions::observed(Arc::new(move |observed: &Observed<'_>| {
        if let (Observed::Notice { subject, notice: Notice::Phase(_) }, Some(two)) = (observed, known.get()) {
            observer(two, usize::from(*subject == "b"));
        }
    }));
    (options.seed, options.decode_threads) = (Some(7), Some(0));
    let factory = FactoryCore::new(Config::from_url("http://127.0.0.1:1").unwrap(), options);
    let feeds = ["a", "b"].map(|name| factory.fed(FedSpec::of(Resource::cluster("", "v1", name, "Node"))).unwrap());
    assert!(two.set(feeds).is_ok());
    (factory, two)
}

/// A thread for each of the two.
fn beside_each_other(two: &Arc<OnceLock<Two>>, work: fn(&Two, usize)) {
    let threads = [0, 1].map(|this| {
        let two = Arc::clone(two);
        spawn(move || work(two.get().unwrap(), this))
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

fn first_list(two: &Two, this: usize) {
    two[this].1.list([], Version::new("1")).unwrap();
}

#[test]
fn two_informers_whose_observers_feed_each_other_refuse_it_and_do_not_wait_for_each_other() {
    seldom(|| {
        let (_factory, two) = two(|two, this| {
            let refused = two[1 - this].1.list([], Version::new("2")).unwrap_err();
            assert!(matches!(refused.why, Refusal::Inside { .. }), "{refused}");
        });
        beside_each_other(&two, first_list);
        for (informer, feeder) in two.get().unwrap() {
            assert!(informer.has_synced() && feeder.version() == *"1");
        }
    });
}

#[test]
fn an_index_function_that_feeds_and_an_observer_that_indexes_do_not_wait_for_each_other() {
    seldom(|| {
        let (_factory, two) = two(|two, this| {
            two[1 - this].0.try_index("from an observer", |n| **n).unwrap();
        });
        let work = |two: &Two, this: usize| match this {
            0 => {
                let (feeder, count) = (two[1].1.seat.clone(), Arc::new(crate::sync::atomic::AtomicUsize::new(0)));
                let asked = Arc::clone(&count);
                two[0].0.index("from a thread", move |n| {
                    assert!(matches!(feeder.wait(), Err(Refusal::Inside { .. })));
                    asked.fetch_add(1, Ordering::Relaxed);
                    **n
                });
                first_list(two, 0);
                two[0].1.apply(applied(2)).unwrap();
                assert!(count.load(Ordering::Relaxed) > 0);
            }
            _ => first_list(two, 1),
        };
        beside_each_other(&two, work);
    });
}

#[test]
fn an_observer_that_waits_for_another_seat_without_asking_what_its_thread_has_is_stuck() {
    finds(|| {
        let (_factory, two) = two(|two, this| {
            let seat = &two[1 - this].1.seat;
            let mut place = seat.place.lock();
            while place.driver.is_none() {
                place = seat.free.wait(place);
            }
        });
        beside_each_other(&two, first_list);
    });
}
