//! Handlers that panic, block, come and go: what they see of the cache, and that none of it is another one's business.

use super::*;
use informer_runtime::acknowledged::{ItemOptions, ItemSource, NextItem};
use informer_runtime::events::Events;
use std::panic::resume_unwind;
use std::sync::mpsc;

#[test]
fn b093_what_was_read_stays_as_it_was_and_is_the_old_state_of_the_update_that_follows() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let (_registration, mut deliveries) = informer.channel(HandlerOptions::default());
    let mut hand = Hand::take(&factory);
    hand.list(&["a"]);
    assert_eq!(told(&mut deliveries), ["added web/a@5", "synced"]);
    let read = informer.lister().get(&key("a")).unwrap();
    let text = read.json().to_string();
    hand.watch("MODIFIED", "a", 6, "x");
    let Next::Delivery(Lent::Notification(Notification::Updated { old, new, .. })) = deliveries.try_next() else {
        panic!("an update is told");
    };
    assert!(Obj::ptr_eq(old, &read) && Obj::ptr_eq(new, &informer.lister().get(&key("a")).unwrap()));
    assert_eq!((read.version().as_str(), read.json()), ("5", text.as_str()));
}

#[test]
fn b096_a_deletion_leaves_the_values_of_the_cached_state_whatever_the_final_one_says() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let (_registration, mut deliveries) = informer.channel(HandlerOptions::default());
    let by_label = informer.label_index("l");
    let mut hand = Hand::take(&factory);
    hand.list(&[]);
    hand.watch("ADDED", "a", 6, "1.2.3.4");
    assert_eq!(by_label.keys("1.2.3.4"), [key("a")]);
    told(&mut deliveries);
    hand.watch("DELETED", "a", 7, "");
    assert!(by_label.get("1.2.3.4").is_empty() && by_label.values().is_empty());
    let Next::Delivery(Lent::Notification(Notification::Deleted { object, old, .. })) = deliveries.try_next() else {
        panic!("a deletion is told");
    };
    assert!(old.json().contains("1.2.3.4") && !object.json().contains("1.2.3.4"), "both states are there");
}

#[test]
fn b112_a_handler_finds_the_state_that_it_is_told_of_or_a_newer_one_in_the_cache() {
    const LAST_DELETION: u32 = 1_995;
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let (cache, calls) = (informer.clone(), Arc::new(AtomicU32::new(0)));
    let counted = Arc::clone(&calls);
    let (registration, mut handler) = informer.handler(
        HandlerOptions::default().with_overflow(Overflow::Unbounded),
        move |event: &Notification<DynamicObject>| {
            counted.fetch_add(1, Ordering::Relaxed);
            let number = |object: &Obj<DynamicObject>| object.version().as_str().parse::<u32>().unwrap();
            let (version, deleted) = (number(event.object()), matches!(event, Notification::Deleted { .. }));
            match cache.lister().get(&event.key()) {
                Some(cached) => assert!(number(&cached) >= version + u32::from(deleted), "{event}"),
                None => assert!(deleted || version < LAST_DELETION, "nothing deletes it after {event}"),
            }
        },
    );
    let mut hand = Hand::take(&factory);
    hand.list(&["a"]);
    std::thread::scope(|scope| {
        let handler = scope.spawn(|| {
            loop {
                match handler.step() {
                    Step::Delivered => {}
                    Step::Empty(seen) => _ = handler.signal().wait_past(seen, None),
                    Step::Closed => break,
                }
            }
        });
        for version in 6..LAST_DELETION + 5 {
            hand.watch(if version % 5 == 0 { "DELETED" } else { "MODIFIED" }, "a", version, "");
        }
        while calls.load(Ordering::Relaxed) < 1 + 1_994 {
            assert!(!handler.is_finished());
            std::thread::yield_now();
        }
        registration.remove();
        handler.join().unwrap();
    });
    assert_eq!(registration.panics(), 0);
}

/// A factory that notes what its handlers' panics are said to be about.
fn noting_panics(told: &Arc<Mutex<Vec<String>>>) -> FactoryCore {
    let told = Arc::clone(told);
    factory_with(FactoryOptions::observed(Arc::new(move |observed| {
        if matches!(observed, Observed::HandlerPanic { .. }) {
            told.lock().push(observed.to_string());
        }
    })))
}

#[test]
fn b119_a_panic_about_an_initial_object_costs_that_call_and_the_handler_is_synced() {
    let reports = Arc::default();
    let factory = noting_panics(&reports);
    let informer = factory.informer(spec()).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&told);
    let (registration, mut handler) =
        informer.handler(HandlerOptions::named("sync"), move |event: &Notification<_>| {
            log.lock().push(event.key().name().to_string());
            if event.key().name() == "b" {
                resume_unwind(Box::new("on purpose")); // without a line on stderr
            }
        });
    let mut hand = Hand::take(&factory);
    hand.list(&["a", "b", "c"]);
    run(&mut handler);
    let mut told = told.lock().clone();
    told.sort();
    assert_eq!((told.concat().as_str(), registration.has_synced(), registration.panics()), ("abc", true, 1));
    let report = "handler sync panicked about the addition of web/b: on purpose; that was passed over";
    assert_eq!(*reports.lock(), [report], "reported once, with the key and what was told of it");
}

#[test]
fn a_panic_is_told_with_what_it_is_about_whatever_the_handler_is_told_and_however_it_is_fed() {
    let reports = Arc::default();
    let factory = noting_panics(&reports);
    let informer = factory.informer(spec()).unwrap();
    let boom = || resume_unwind(Box::new("on purpose"));
    let options = |name: &str| {
        let mut options = HandlerOptions::named(name);
        options.on_synced = Some(Arc::new(boom));
        options
    };
    let (_function, mut handler) = informer.handler(options("function"), move |_: &Notification<_>| boom());
    let mut events = Events::filtered(&informer, options("events"), move |_: &Obj<DynamicObject>| {
        boom();
        true
    });
    let mut item_options = ItemOptions::default();
    item_options.handler = options("items");
    let items = ItemSource::new(&informer, item_options);
    let mut hand = Hand::take(&factory);
    hand.list(&["a"]);
    run(&mut handler);
    // Two in one batch, of which the second is not passed over with the first.
    hand.watch_all(&[("MODIFIED", "a", 6, ""), ("DELETED", "a", 7, "")]);
    run(&mut handler);
    while let NextItem::Item(item) = items.next_item() {
        item.done();
    }
    assert!(
        events.next_within(Duration::ZERO).is_none(),
        "its filter panics each time that it is asked: of a deletion it is not, for what it never let pass"
    );
    let short = |report: &String| {
        let about = report.strip_suffix(": on purpose; that was passed over").expect("it says what was done");
        about.replace(" panicked about", "")
    };
    let mut reports: Vec<_> = reports.lock().iter().map(short).collect();
    reports.sort();
    let expected = [
        "handler events an update of web/a",
        "handler events its sync",
        "handler events the addition of web/a",
        "handler function an update of web/a",
        "handler function its sync",
        "handler function the addition of web/a",
        "handler function the deletion of web/a",
        "handler items its sync",
    ];
    assert_eq!(reports, expected);
}

#[test]
fn b120_a_handler_that_panics_now_and_then_gets_all_the_rest_in_order_and_nothing_piles_up() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let (told, other) = (Arc::new(Mutex::new(Vec::new())), Log::default());
    let log = Arc::clone(&told);
    let options = || HandlerOptions::default().with_overflow(Overflow::Unbounded);
    let (registration, mut handler) = informer.handler(options(), move |event: &Notification<DynamicObject>| {
        let version: u32 = event.object().version().as_str().parse().unwrap();
        assert_ne!(version % 10, 0, "a panic that belongs to the test");
        log.lock().push(version);
    });
    let (_calm, mut calm) = other.add(&informer, Overflow::Unbounded);
    let mut hand = Hand::take(&factory);
    hand.list(&["a"]);
    hand.update(6..=1_004);
    assert_eq!(registration.pending(), 999);
    run(&mut handler);
    run(&mut calm);
    assert_eq!(*told.lock(), (5..=1_004).filter(|version| version % 10 != 0).collect::<Vec<_>>());
    assert_eq!((registration.panics(), registration.pending(), other.take().len()), (100, 0, 1_000));
}

#[test]
fn b122_a_handler_that_blocks_holds_up_no_read_no_other_handler_no_resync_and_no_stop() {
    let factory = factory();
    let informer = factory.informer(spec().resync(Duration::from_secs(2))).unwrap();
    let ((release, held), (called, is_called)) = (mpsc::channel::<()>(), mpsc::channel());
    let (stuck, mut blocked) = informer.handler(HandlerOptions::default(), move |_: &Notification<_>| {
        called.send(()).unwrap();
        held.recv().ok();
    });
    let other = Log::default();
    let (registration, mut handler) = other.add(&informer, Overflow::default());
    let mut hand = Hand::take(&factory);
    hand.list(&["a"]);
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || while blocked.step() == Step::Delivered {});
        is_called.recv().unwrap();
        assert!(informer.has_synced() && !stuck.has_synced());
        hand.watch("ADDED", "b", 6, "");
        assert_eq!(versions(&informer), ["web/a@5", "web/b@6"]);
        let (late, mut deliveries) = informer.channel(HandlerOptions::default());
        hand.tell(IoEvent::Tick);
        assert_eq!(told(&mut deliveries).len(), 3, "the two, and that they are all");
        late.remove();
        hand.now = Time::from_millis(2_000);
        hand.tell(IoEvent::Tick);
        run(&mut handler);
        let mut told = other.take();
        told.sort();
        assert_eq!(told, ["added web/a@5", "added web/b@6", "resync web/a@5", "resync web/b@6"]);
        registration.remove();
        assert_eq!(handler.step(), Step::Closed);
        factory.request_stop();
        hand.tell(IoEvent::Stop);
        assert!(hand.drive.is_stopped() && !stuck.is_finished());
        drop(release);
        thread.join().unwrap();
    });
    assert!(stuck.is_finished() && !stuck.has_synced());
}

#[test]
fn b124_a_thousand_handlers_that_came_and_went_leave_nothing_and_are_told_nothing_more() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let mut hand = Hand::take(&factory);
    hand.list(&["a"]);
    let (calls, lives) = (Arc::new(AtomicU32::new(0)), informer.lives().count());
    for round in 0..1_000_u32 {
        let counted = Arc::clone(&calls);
        let (registration, mut handler) = informer.handler(HandlerOptions::default(), move |_: &Notification<_>| {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        hand.tell(IoEvent::Tick);
        run(&mut handler);
        registration.remove();
        assert_eq!(handler.step(), Step::Closed);
        drop(handler);
        hand.tell(IoEvent::Tick);
        assert!(registration.is_finished());
        assert_eq!((calls.load(Ordering::Relaxed), Arc::strong_count(&calls)), (round + 1, 1));
    }
    hand.update(6..=20);
    assert_eq!((calls.load(Ordering::Relaxed), informer.lives().count()), (1_000, lives));
}

#[test]
fn b125_a_handler_removes_another_one_whose_call_runs_and_no_call_begins_after_that() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let ((release, held), (called, is_called)) = (mpsc::channel::<()>(), mpsc::channel());
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let (victim, mut runs) = informer.handler(HandlerOptions::named("victim"), move |_: &Notification<_>| {
        counted.fetch_add(1, Ordering::SeqCst);
        called.send(()).unwrap();
        held.recv().ok();
    });
    let (refused, other) = (Arc::new(Mutex::new(String::new())), victim.clone());
    let text = Arc::clone(&refused);
    let (_remover, mut removes) = informer.handler(HandlerOptions::named("remover"), move |_: &Notification<_>| {
        other.remove();
        *text.lock() = other.wait_finished().unwrap_err().to_string();
    });
    let mut hand = Hand::take(&factory);
    hand.list(&["a", "b"]);
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || while runs.step() == Step::Delivered {});
        is_called.recv().unwrap();
        assert_eq!(removes.step(), Step::Delivered);
        assert!(refused.lock().contains("wait_finished() was called inside a handler"), "{}", refused.lock());
        assert!(victim.was_removed() && !victim.is_finished(), "its call runs");
        drop(release);
        thread.join().unwrap();
    });
    victim.wait_finished().unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[test]
fn b126_one_handler_that_is_removed_before_it_was_told_anything_ends_its_waiters_and_no_other_handler() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let (removed, mut first) = Log::default().add(&informer, Overflow::default());
    let other = Log::default();
    let (stays, mut second) = other.add(&informer, Overflow::default());
    let mut hand = Hand::take(&factory);
    hand.list(&["a", "b"]);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| removed.wait_synced(Duration::from_secs(3_600)));
        removed.remove();
        assert_eq!(first.step(), Step::Closed);
        drop(first);
        assert!(!waiter.join().unwrap().unwrap(), "it will never be");
    });
    run(&mut second);
    assert_eq!((other.take().len(), stays.has_synced(), stays.was_removed()), (2, true, false));
}

#[test]
fn b126_who_waits_for_a_removed_handler_to_be_synced_does_not_wait_for_the_call_that_it_is_in() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let ((release, held), (called, is_called)) = (mpsc::channel::<()>(), mpsc::channel());
    let (registration, mut handler) = informer.handler(HandlerOptions::default(), move |_: &Notification<_>| {
        called.send(()).unwrap();
        held.recv().ok();
    });
    let mut hand = Hand::take(&factory);
    hand.list(&["a", "b"]);
    let thread = std::thread::spawn(move || while handler.step() == Step::Delivered {});
    is_called.recv().unwrap();
    let ((said, says), waits) = (mpsc::channel(), registration.clone());
    let waiter = std::thread::spawn(move || {
        said.send(waits.wait_synced(Duration::from_secs(3_600)).unwrap()).unwrap();
    });
    registration.remove();
    assert_eq!(says.recv_timeout(Duration::from_secs(60)), Ok(false), "it will never be");
    assert!(!registration.is_finished(), "its call runs");
    drop(release);
    thread.join().unwrap();
    waiter.join().unwrap();
    assert!(registration.is_finished() && !registration.has_synced());
}
