//! [`Channel`]: nothing is delivered twice, out of order or after a removal, and nobody waits for ever.

use super::{Channel, Deliveries, HandlerOptions, Lent, NOTHING_LENT, Next, Pushed, Registration};
use crate::schedules::{finds, often};
use crate::store::SharedStore;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Signal};
use informer_core::fifo::InOrderQueue;
use informer_core::informer::HandlerId;
use informer_core::listener::{Batch, Cause, Notification, Overflow, Recreated};
use informer_core::wire::ItemKind;
use informer_core::{Key, Obj, Uid, Version};
use shuttle::thread::spawn;
use std::collections::BTreeMap;

fn object(n: u32) -> Obj<u32> {
    Obj::new(Key::new("", &format!("o{n}")), Uid::new("u"), Version::new(&format!("{n}")), n)
}

/// The commit in which these objects are added.
fn added<const N: usize>(numbers: [u32; N]) -> Batch<u32> {
    let added = |n| Notification::Added { object: object(n), initial: false, cause: Cause::Watch };
    Batch::from(Vec::from(numbers.map(added)))
}

/// The commit in which these objects go from one number to the next.
fn updated<const N: usize>(steps: [(&str, u32); N]) -> Batch<u32> {
    let updated = |(name, to): (&str, u32)| {
        let at = |n: u32| Obj::new(Key::new("", name), Uid::new("u"), Version::new(&format!("{n}")), n);
        Notification::Updated { old: at(to - 1), new: at(to), cause: Cause::Watch }
    };
    Batch::from(Vec::from(steps.map(updated)))
}

fn channel() -> (Arc<Channel<u32>>, Deliveries<u32>) {
    channel_with(Overflow::default(), Arc::default())
}

/// One that tells `room` when it has some again.
fn channel_with(overflow: Overflow, room: Arc<Signal>) -> (Arc<Channel<u32>>, Deliveries<u32>) {
    let options = HandlerOptions { overflow, ..HandlerOptions::named("h") };
    let channel = Arc::new(Channel::new(HandlerId(1), &options, Arc::default(), Box::new(move |_| room.notify())));
    (Arc::clone(&channel), Deliveries::new(channel))
}

/// What a driver does with a commit before it waits.
fn feed(channel: &Channel<u32>, batch: &Batch<u32>) -> Pushed {
    let pushed = channel.push(batch);
    channel.wake();
    pushed
}

/// Which object it tells of; none for the end of the initial state.
fn number(delivery: &Lent<'_, u32>) -> Option<u32> {
    if let Lent::Notification(told) = delivery { Some(**told.object()) } else { None }
}

/// What is delivered next, which there is or will be.
fn next(deliveries: &mut Deliveries<u32>) -> Option<u32> {
    number(&deliveries.next_blocking().expect("it is not closed"))
}

/// What is delivered until the handler is closed.
fn all(deliveries: &mut Deliveries<u32>) -> Vec<u32> {
    let mut all = Vec::new();
    while let Some(delivery) = deliveries.next_blocking() {
        all.extend(number(&delivery));
    }
    all
}

#[test]
fn what_is_pushed_is_delivered_once_and_in_order() {
    often(|| {
        let (channel, mut deliveries) = channel();
        let driver = spawn(move || {
            assert_eq!(feed(&channel, &added([1])), Pushed::Kept);
            assert_eq!(channel.push(&added([2, 3])), Pushed::Kept);
            assert_eq!(feed(&channel, &added([4])), Pushed::Kept);
        });
        let got: Vec<_> = (0..4).map(|_| next(&mut deliveries)).collect();
        assert_eq!(got, [Some(1), Some(2), Some(3), Some(4)]);
        driver.join().unwrap();
        assert!(matches!(deliveries.try_next(), Next::Empty(_)));
    });
}

/// The ring takes back what is lent, and merges it with what comes: each `old` is what was delivered last.
#[test]
fn what_is_merged_while_it_is_walked_is_neither_lost_nor_told_twice() {
    often(|| {
        let (channel, mut deliveries) = channel_with(Overflow::Coalesce { limit: 1 }, Arc::default());
        let driver = spawn(move || {
            feed(&channel, &updated([("a", 1), ("b", 1)]));
            feed(&channel, &updated([("a", 2)]));
            feed(&channel, &updated([("b", 2), ("a", 3)]));
        });
        let mut told = BTreeMap::from([("a".to_string(), 0), ("b".to_string(), 0)]);
        while told.values().sum::<u32>() < 5 {
            let Some(Lent::Notification(Notification::Updated { old, new, .. })) = deliveries.next_blocking() else {
                panic!("there are but updates");
            };
            let before = told.insert(new.key().as_str().to_string(), **new);
            assert_eq!(before, Some(**old), "the one that was delivered before");
        }
        driver.join().unwrap();
        assert_eq!(told.into_values().collect::<Vec<_>>(), [3, 2]);
        assert!(matches!(deliveries.try_next(), Next::Empty(_)));
    });
}

/// A recreation that is told as one is passed by one claim: what is taken back is either both of it or none.
#[test]
fn a_recreation_is_told_as_one_also_if_it_is_taken_back_and_merged() {
    /// The commit in which these objects turn out to be other ones.
    fn recreated<const N: usize>(steps: [(&str, u32); N]) -> Batch<u32> {
        let recreated = |(name, to): (&str, u32)| {
            let at = |n: u32| Obj::new(Key::new("", name), Uid::new(&format!("{n}")), Version::new(&format!("{n}")), n);
            let (old, cause) = (at(to - 1), Cause::Relist);
            let deleted = Notification::Deleted { object: old.clone(), old, cause, final_state_known: false };
            [deleted, Notification::Added { object: at(to), initial: false, cause }]
        };
        Batch::from(steps.into_iter().flat_map(recreated).collect::<Vec<_>>())
    }

    often(|| {
        let overflow = Overflow::Coalesce { limit: 2 };
        let options = HandlerOptions { overflow, ..HandlerOptions::named("h") }.with_recreated(Recreated::Flagged);
        let channel = Arc::new(Channel::new(HandlerId(1), &options, Arc::default(), Box::new(|_| {})));
        let mut deliveries = Deliveries::new(Arc::clone(&channel));
        let driver = spawn(move || {
            feed(&channel, &recreated([("a", 1), ("b", 1)]));
            feed(&channel, &recreated([("a", 2)]));
            feed(&channel, &recreated([("b", 2), ("a", 3)]));
        });
        let mut told = BTreeMap::from([("a".to_string(), 0), ("b".to_string(), 0)]);
        while told.values().sum::<u32>() < 5 {
            let Some(Lent::Notification(told_now @ Notification::Updated { old, new, .. })) =
                deliveries.next_blocking()
            else {
                panic!("there are but updates");
            };
            assert!(told_now.is_recreation());
            let before = told.insert(new.key().as_str().to_string(), **new);
            assert_eq!(before, Some(**old), "the one that was delivered before");
        }
        driver.join().unwrap();
        assert_eq!(told.into_values().collect::<Vec<_>>(), [3, 2]);
        assert!(matches!(deliveries.try_next(), Next::Empty(_)));
    });
}

#[test]
fn whoever_counts_what_waits_does_not_disturb_the_walk() {
    often(|| {
        let (channel, mut deliveries) = channel();
        feed(&channel, &added([1, 2, 3]));
        let registration = Registration::new(channel, Arc::new(|_| {}), None);
        let counter = registration.clone();
        let counter = spawn(move || {
            let counts = [counter.pending(), counter.pending()];
            assert!(counts[0] <= 3 && counts[1] <= counts[0], "nothing comes, so it gets less: {counts:?}");
        });
        let got: Vec<_> = (0..3).map(|_| next(&mut deliveries)).collect();
        assert_eq!(got, [Some(1), Some(2), Some(3)]);
        assert_eq!(registration.pending(), 0, "it is walked, though nobody has told the ring");
        counter.join().unwrap();
        assert!(matches!(deliveries.try_next(), Next::Empty(_)));
    });
}

/// What a paused driver does.
fn wait_for_room(channel: &Channel<u32>, room: &Signal) {
    loop {
        let seen = room.generation();
        if !channel.is_full() {
            return;
        }
        room.wait_past(seen, None);
    }
}

#[test]
fn a_driver_that_waits_for_room_is_told_of_it_and_nothing_is_lost() {
    often(|| {
        let room = Arc::new(Signal::new());
        let (channel, mut deliveries) = channel_with(Overflow::Pause { limit: 1 }, Arc::clone(&room));
        let driver = spawn(move || {
            for batch in [added([1, 2, 3]), added([4]), added([5, 6, 7])] {
                feed(&channel, &batch);
                wait_for_room(&channel, &room);
            }
            channel.close();
        });
        let got: Vec<_> = (0..5).map(|_| next(&mut deliveries)).collect();
        assert_eq!(got, [1, 2, 3, 4, 5].map(Some));
        let rest = all(&mut deliveries);
        assert!([6, 7].starts_with(&rest), "{rest:?} before the close");
        driver.join().unwrap();
    });
}

#[test]
fn a_handler_that_falls_behind_ends_after_a_prefix() {
    often(|| {
        let (channel, mut deliveries) = channel_with(Overflow::Disconnect { limit: 1 }, Arc::default());
        let driver = spawn(move || {
            let fallen =
                [added([1, 2]), added([3]), added([4])].iter().any(|batch| feed(&channel, batch) == Pushed::Fallen);
            if fallen {
                channel.disconnect()
            } else {
                channel.close()
            }
            assert_eq!(channel.shared.removed.load(Ordering::Acquire), fallen);
        });
        let got = all(&mut deliveries);
        assert_eq!(got, (1..=got.len() as u32).collect::<Vec<_>>());
        driver.join().unwrap();
    });
}

#[test]
fn a_handler_that_is_closed_beside_its_driver_ends_after_a_prefix() {
    often(|| {
        let (channel, mut deliveries) = channel();
        let closer = Arc::clone(&channel);
        let driver = spawn(move || {
            for batch in [added([1, 2]), added([3])] {
                assert_eq!(feed(&channel, &batch), Pushed::Kept, "nobody falls behind who is gone");
            }
        });
        let closer = spawn(move || closer.close());
        let got = all(&mut deliveries);
        assert_eq!(got, (1..=got.len() as u32).collect::<Vec<_>>());
        driver.join().unwrap();
        closer.join().unwrap();
        assert!(!deliveries.channel.buffer.lock().ring.has_work(), "nobody would take out what is left");
    });
}

/// Neither from the ring nor from what was lent.
#[test]
fn nothing_is_taken_once_a_close_has_returned() {
    often(|| {
        let (channel, mut deliveries) = channel();
        feed(&channel, &added([1, 2, 3]));
        feed(&channel, &added([4]));
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

/// Also in the middle of a batch.
#[test]
fn a_handler_may_be_removed_from_inside_itself() {
    often(|| {
        let (channel, mut deliveries) = channel();
        let (held, driver) = (Arc::downgrade(&channel), Arc::clone(&channel));
        let remove = move |_| held.upgrade().into_iter().for_each(|channel| channel.close());
        let registration = Registration::new(channel, Arc::new(remove), None);
        let driver = spawn(move || {
            for batch in [added([1, 2]), added([3])] {
                assert_eq!(feed(&driver, &batch), Pushed::Kept);
            }
        });
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
        let (channel, mut deliveries) = channel();
        let driver = spawn(move || {
            let store = SharedStore::new(&"numbers".into(), 7, []);
            let commit = |n| {
                let mut queue = InOrderQueue::default();
                queue.push_event(ItemKind::Added, object(n));
                Batch::from(store.commit(queue.pop().unwrap()).notifications)
            };
            drop([commit(1), commit(2)]);
            channel.replay(store.snapshot());
            feed(&channel, &commit(3));
            channel.resync(store.snapshot());
            feed(&channel, &commit(4));
        });
        let mut got: Vec<_> = (0..8).map(|_| next(&mut deliveries)).collect();
        driver.join().unwrap();
        assert!(matches!(deliveries.try_next(), Next::Empty(_)));
        // A snapshot has an order of its own.
        got[..2].sort_unstable();
        got[4..7].sort_unstable();
        assert_eq!(got[..4], [Some(1), Some(2), None, Some(3)], "the state, that it is complete, what followed");
        assert_eq!(got[4..], [1, 2, 3, 4].map(Some), "the repeat, what followed");
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
        let (channel, mut deliveries) = channel();
        let driver = spawn(move || feed(&channel, &added([1])));
        while !matches!(deliveries.try_next(), Next::Delivery(_)) {
            let seen = deliveries.signal().generation();
            deliveries.signal().wait_past(seen, None);
        }
        driver.join().unwrap();
    });
}

#[test]
fn a_driver_that_wakes_before_it_pushes_leaves_its_handler_asleep() {
    finds(|| {
        let (channel, mut deliveries) = channel();
        let driver = spawn(move || {
            channel.wake();
            channel.push(&added([1]));
        });
        assert_eq!(next(&mut deliveries), Some(1));
        driver.join().unwrap();
    });
}

/// Even though it waits past the generation from before it looked: who finds nobody parked tells nobody.
#[test]
fn a_handler_that_says_that_it_waits_after_it_has_let_go_of_the_lock_sleeps_for_ever() {
    finds(|| {
        let (channel, deliveries) = channel();
        let driver = spawn(move || feed(&channel, &added([1])));
        let channel = &deliveries.channel;
        loop {
            let seen = channel.signal.generation();
            if channel.buffer.lock().ring.turn().is_some() {
                break;
            }
            channel.buffer.lock().parked = true;
            channel.signal.wait_past(seen, None);
        }
        driver.join().unwrap();
    });
}

#[test]
fn a_claim_that_looks_and_stores_in_two_steps_delivers_twice() {
    finds(|| {
        let (channel, mut deliveries) = channel_with(Overflow::Coalesce { limit: 1 }, Arc::default());
        feed(&channel, &added([1, 2]));
        assert_eq!(next(&mut deliveries), Some(1));
        let driver = spawn(move || feed(&channel, &added([3])));
        let walk = deliveries.walk.as_mut().unwrap();
        let (from, to) = (walk.place(), walk.advance().unwrap());
        let place = &deliveries.channel.place;
        let mut got = Vec::new();
        if place.load(Ordering::Acquire) == from {
            place.store(to, Ordering::Release);
            got.push(Some(2));
        }
        while got.last() != Some(&Some(3)) {
            got.push(next(&mut deliveries));
        }
        driver.join().unwrap();
        assert_eq!(got, [Some(2), Some(3)]);
    });
}

#[test]
fn a_recall_that_looks_and_stores_in_two_steps_delivers_twice() {
    finds(|| {
        let (channel, mut deliveries) = channel();
        feed(&channel, &added([1, 2]));
        assert_eq!(next(&mut deliveries), Some(1));
        let driver = spawn(move || {
            let mut buffer = channel.buffer.lock();
            let place = channel.place.load(Ordering::Acquire);
            channel.place.store(NOTHING_LENT, Ordering::Release);
            buffer.ring.recall(place);
        });
        assert_eq!(next(&mut deliveries), Some(2));
        driver.join().unwrap();
        assert!(matches!(deliveries.try_next(), Next::Empty(_)), "told twice");
    });
}

#[test]
fn a_driver_that_is_told_of_room_before_there_is_any_waits_for_ever() {
    finds(|| {
        let (channel, mut deliveries) = channel_with(Overflow::Pause { limit: 1 }, Arc::default());
        assert_eq!(feed(&channel, &added([1, 2, 3])), Pushed::Full);
        let room = Arc::new(Signal::new());
        let told = Arc::clone(&room);
        let driver = spawn(move || wait_for_room(&channel, &room));
        for n in 1..=3 {
            told.notify();
            assert_eq!(next(&mut deliveries), Some(n));
        }
        driver.join().unwrap();
    });
}

#[test]
fn a_handler_that_is_marked_as_closed_and_not_told_sleeps_for_ever() {
    finds(|| {
        let (channel, mut deliveries) = channel();
        let closer = spawn(move || {
            let _buffer = channel.buffer.lock();
            channel.shared.closed.store(true, Ordering::Release);
        });
        assert_eq!(all(&mut deliveries), [0; 0]);
        closer.join().unwrap();
    });
}

#[test]
fn a_close_that_does_not_wait_for_who_is_taking_is_noticed() {
    finds(|| {
        let (channel, deliveries) = channel();
        feed(&channel, &added([1]));
        let returned = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&returned);
        let closer = spawn(move || {
            channel.shared.closed.store(true, Ordering::Release);
            told.store(true, Ordering::Release);
        });
        // What `try_next` does, with the look at the flag before the lock.
        let open = !deliveries.channel.shared.closed.load(Ordering::Acquire);
        let late = returned.load(Ordering::Acquire);
        let taken = open && deliveries.channel.buffer.lock().ring.turn().is_some();
        assert!(!(taken && late), "taken after the close");
        closer.join().unwrap();
    });
}

#[test]
fn a_close_that_leaves_to_the_handler_what_it_was_lent_is_noticed() {
    finds(|| {
        let (channel, mut deliveries) = channel();
        feed(&channel, &added([1, 2]));
        assert_eq!(next(&mut deliveries), Some(1));
        let returned = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&returned);
        let closer = spawn(move || {
            let buffer = channel.buffer.lock();
            channel.shared.closed.store(true, Ordering::Release);
            drop(buffer);
            told.store(true, Ordering::Release);
        });
        let late = returned.load(Ordering::Acquire);
        let taken = matches!(deliveries.try_next(), Next::Delivery(_));
        assert!(!(taken && late), "taken after the close");
        closer.join().unwrap();
    });
}

#[test]
fn a_controller_that_looks_before_it_asks_to_be_told_waits_for_ever() {
    finds(|| {
        let (channel, deliveries) = channel();
        let registration = Registration::new(channel, Arc::new(|_| {}), None);
        // It is told once: the end of a handler tells, too.
        let handler = spawn(move || {
            deliveries.mark_synced();
            deliveries
        });
        let signal = Arc::new(Signal::new());
        if !registration.has_synced() {
            registration.tell_also(Arc::clone(&signal));
            signal.wait_past(0, None);
        }
        drop(handler.join().unwrap());
    });
}
