//! [`Channel`]: nothing is delivered twice, out of order or after a removal, and nobody waits for ever.

use super::{Channel, Deliveries, HandlerOptions, Next, Registration};
use crate::schedules::{finds, often};
use crate::store::SharedStore;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Signal};
use informer_core::fifo::InOrderQueue;
use informer_core::informer::HandlerId;
use informer_core::listener::{Cause, Delivery, Notification};
use informer_core::wire::ItemKind;
use informer_core::{Key, Obj, Uid, Version};
use shuttle::thread::spawn;

fn object(n: u32) -> Obj<u32> {
    Obj::new(Key::new("", &format!("o{n}")), Uid::new("u"), Version::new(&format!("{n}")), n)
}

fn added(n: u32) -> Notification<u32> {
    Notification::Added { object: object(n), initial: false, cause: Cause::Watch }
}

fn channel() -> (Arc<Channel<u32>>, Deliveries<u32>) {
    let channel = Arc::new(Channel::new(HandlerId(1), &HandlerOptions::named("h"), Arc::default()));
    (Arc::clone(&channel), Deliveries::new(channel))
}

/// Which object it tells of; none for the end of the initial state.
fn number(delivery: &Delivery<u32>) -> Option<u32> {
    if let Delivery::Notification(told) = delivery { told.key().as_str()[1..].parse().ok() } else { None }
}

/// What is delivered until the handler is closed.
fn all(deliveries: &Deliveries<u32>) -> Vec<u32> {
    std::iter::from_fn(|| deliveries.next_blocking()).filter_map(|delivery| number(&delivery)).collect()
}

#[test]
fn what_is_pushed_is_delivered_once_and_in_order() {
    often(|| {
        let (channel, deliveries) = channel();
        let driver = spawn(move || {
            assert!(channel.push(&[added(1)]));
            assert!(channel.push(&[added(2), added(3)]));
        });
        let got: Vec<_> = (0..3).map(|_| number(&deliveries.next_blocking().unwrap())).collect();
        assert_eq!(got, [Some(1), Some(2), Some(3)]);
        driver.join().unwrap();
    });
}

#[test]
fn a_handler_that_is_closed_beside_its_driver_ends_after_a_prefix() {
    often(|| {
        let (channel, deliveries) = channel();
        let closer = Arc::clone(&channel);
        let driver = spawn(move || (1..=3).for_each(|n| assert!(channel.push(&[added(n)]))));
        let closer = spawn(move || closer.close());
        let got = all(&deliveries);
        assert_eq!(got, (1..=got.len() as u32).collect::<Vec<_>>());
        driver.join().unwrap();
        closer.join().unwrap();
        assert_eq!(deliveries.0.ring.lock().len(), 0, "nobody would take out what is left");
    });
}

#[test]
fn nothing_is_taken_once_a_close_has_returned() {
    often(|| {
        let (channel, deliveries) = channel();
        channel.push(&[added(1), added(2)]);
        let returned = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&returned);
        let closer = spawn(move || {
            channel.close();
            told.store(true, Ordering::Release);
        });
        loop {
            let late = returned.load(Ordering::Acquire);
            match deliveries.try_next() {
                Next::Delivery(_) => assert!(!late, "taken after the close"),
                Next::Empty(seen) => assert!(deliveries.signal().wait_past(seen, None)),
                Next::Closed => break,
            }
        }
        closer.join().unwrap();
    });
}

#[test]
fn a_handler_may_be_removed_from_inside_itself() {
    often(|| {
        let (channel, deliveries) = channel();
        let (held, driver) = (Arc::downgrade(&channel), Arc::clone(&channel));
        let remove = move |_| held.upgrade().into_iter().for_each(|channel| channel.close());
        let registration = Registration::new(channel, Arc::new(remove), None);
        let driver = spawn(move || (1..=3).for_each(|n| assert!(driver.push(&[added(n)]))));
        let mut calls = 0;
        while deliveries.next_blocking().is_some() {
            calls += 1;
            registration.remove();
        }
        assert_eq!((calls, registration.was_removed()), (1, true));
        driver.join().unwrap();
        drop(deliveries);
        assert!(registration.is_finished());
    });
}

/// The driver attaches between two commits; a handler sees every object once, whether it stood in the snapshot or came.
#[test]
fn a_late_handler_gets_the_state_and_then_what_follows() {
    often(|| {
        let (channel, deliveries) = channel();
        let driver = spawn(move || {
            let store = SharedStore::new("numbers", 7);
            let commit = |n| {
                let mut queue = InOrderQueue::default();
                queue.push_event(ItemKind::Added, object(n));
                store.commit(queue.pop().unwrap()).notifications
            };
            drop(commit(1));
            channel.replay(store.snapshot());
            channel.push(&commit(2));
            channel.resync(store.snapshot());
            channel.push(&commit(3));
        });
        let mut got = Vec::new();
        while got.iter().flatten().max() != Some(&3) {
            got.push(number(&deliveries.next_blocking().unwrap()));
        }
        driver.join().unwrap();
        assert_eq!(got[..3], [Some(1), None, Some(2)], "the state, that it is complete, what followed");
        assert_eq!(got.last(), Some(&Some(3)));
    });
}

/// A controller that waits for its sources, as the registration tells it.
fn wait(registration: &Registration, signal: &Signal) {
    loop {
        let seen = signal.generation();
        if registration.has_synced() || registration.is_finished() {
            return;
        }
        signal.wait_past(seen, None);
    }
}

#[test]
fn whoever_asks_to_be_told_when_a_handler_is_synced_is_told() {
    often(|| {
        let (channel, deliveries) = channel();
        let registration = Registration::new(channel, Arc::new(|_| {}), None);
        let handler = spawn(move || deliveries.mark_synced());
        let signal = Arc::new(Signal::new());
        registration.tell_also(Arc::clone(&signal));
        wait(&registration, &signal);
        handler.join().unwrap();
    });
}

#[test]
fn a_handler_that_ends_before_it_is_synced_keeps_nobody_waiting() {
    often(|| {
        let (channel, deliveries) = channel();
        let registration = Registration::new(channel, Arc::new(|_| {}), None);
        let handler = spawn(move || drop(deliveries));
        let signal = Arc::new(Signal::new());
        registration.tell_also(Arc::clone(&signal));
        wait(&registration, &signal);
        handler.join().unwrap();
    });
}

#[test]
fn a_wait_for_a_generation_that_is_read_behind_an_empty_look_loses_a_delivery() {
    finds(|| {
        let (channel, deliveries) = channel();
        let driver = spawn(move || channel.push(&[added(1)]));
        while !matches!(deliveries.try_next(), Next::Delivery(_)) {
            let seen = deliveries.signal().generation();
            deliveries.signal().wait_past(seen, None);
        }
        driver.join().unwrap();
    });
}

#[test]
fn a_handler_that_is_marked_as_closed_and_not_told_sleeps_for_ever() {
    finds(|| {
        let (channel, deliveries) = channel();
        let closer = spawn(move || {
            let _ring = channel.ring.lock();
            channel.shared.closed.store(true, Ordering::Release);
        });
        assert_eq!(all(&deliveries), [0; 0]);
        closer.join().unwrap();
    });
}

#[test]
fn a_close_that_does_not_wait_for_who_is_taking_is_noticed() {
    finds(|| {
        let (channel, deliveries) = channel();
        channel.push(&[added(1)]);
        let returned = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&returned);
        let closer = spawn(move || {
            channel.shared.closed.store(true, Ordering::Release);
            told.store(true, Ordering::Release);
        });
        // What `try_next` does, with the look at the flag before the lock.
        let open = !deliveries.0.shared.closed.load(Ordering::Acquire);
        let late = returned.load(Ordering::Acquire);
        let taken = open && deliveries.0.ring.lock().pop().is_some();
        assert!(!(taken && late), "taken after the close");
        closer.join().unwrap();
    });
}

#[test]
fn a_controller_that_looks_before_it_asks_to_be_told_waits_for_ever() {
    finds(|| {
        let (channel, deliveries) = channel();
        let registration = Registration::new(channel, Arc::new(|_| {}), None);
        let handler = spawn(move || deliveries.mark_synced());
        let signal = Arc::new(Signal::new());
        if !registration.has_synced() {
            registration.tell_also(Arc::clone(&signal));
            signal.wait_past(0, None);
        }
        handler.join().unwrap();
    });
}
