//! The forms in which events are taken: iterators, filters, acknowledged streams.

use super::*;
use informer_core::controller::Verdict;
use informer_core::listener::{Delivery, Overflow};
use informer_core::queue::Limiter;
use informer_runtime::acknowledged::{Item, ItemOptions, ItemSource, Items, NextItem};
use informer_runtime::events::{Events, filtered};
use informer_runtime::informer::HandlerLoop;

fn start(names: &[&str]) -> (FactoryCore, InformerHandle<DynamicObject>, Hand) {
    start_with(FactoryOptions::default(), names)
}

fn start_with(options: FactoryOptions, names: &[&str]) -> (FactoryCore, InformerHandle<DynamicObject>, Hand) {
    let factory = factory_with(options);
    let informer = factory.informer(spec()).unwrap();
    let mut hand = Hand::take(&factory);
    hand.list(names);
    (factory, informer, hand)
}

/// An observer that keeps the lines of failures.
fn failures() -> (FactoryOptions, Arc<Mutex<Vec<String>>>) {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&lines);
    let observer = move |observed: &Observed<'_>| {
        if observed.is_failure() {
            kept.lock().push(observed.to_string());
        }
    };
    (FactoryOptions::observed(Arc::new(observer)), lines)
}

fn label(object: &Obj<DynamicObject>) -> &str {
    use informer_core::object::{Meta, Object};
    object.metadata().label("l").unwrap_or_default()
}

/// The next event, which is there already.
fn next(events: &mut Events<DynamicObject>) -> String {
    events.next_within(Duration::ZERO).map_or("nothing".to_string(), |event| event.to_string())
}

#[test]
fn events_come_as_a_handler_gets_them_and_end_with_the_informer() {
    let (factory, informer, mut hand) = start(&["a"]);
    let mut events = Events::new(&informer, HandlerOptions::named("mine"));
    hand.watch("MODIFIED", "a", 6, "");
    hand.watch("DELETED", "a", 7, "");
    assert_eq!(events.next().unwrap().to_string(), "added web/a@5");
    assert!(!events.registration().has_synced(), "nobody has said that the first one was dealt with");
    assert_eq!(events.next().unwrap().to_string(), "updated web/a@6 (was 5)");
    assert!(events.registration().has_synced());
    assert_eq!(events.next().unwrap().to_string(), "deleted web/a@7");
    assert_eq!(next(&mut events), "nothing");
    assert_eq!(events.registration().name(), "mine");
    factory.request_stop();
    hand.tell(IoEvent::Stop);
    drop(hand);
    assert!(events.next().is_none() && events.next().is_none());
    assert!(!events.registration().was_removed());
}

#[test]
fn events_end_when_the_registration_is_removed_and_dropping_them_removes_it() {
    let (_factory, informer, mut hand) = start(&["a", "b"]);
    let mut removed = Events::new(&informer, HandlerOptions::default());
    let dropped = Events::new(&informer, HandlerOptions::default());
    hand.tell(IoEvent::Tick);
    assert_eq!(removed.by_ref().take(1).count(), 1);
    removed.registration().clone().remove();
    assert_eq!(removed.by_ref().count(), 0, "what was not taken is not delivered");
    let registration = dropped.registration().clone();
    drop(dropped);
    assert!(registration.was_removed() && registration.is_finished());
    let moved = Events::new(&informer, HandlerOptions::default());
    let registration = moved.registration().clone();
    drop(moved.with_synced());
    assert!(registration.is_finished());
}

#[test]
fn the_end_of_the_initial_state_is_an_event_by_choice_and_comes_once() {
    for names in [&["a"][..], &[]] {
        let (_factory, informer, mut hand) = start(names);
        let called = Arc::new(AtomicU32::new(0));
        let mut options = HandlerOptions::default();
        let count = Arc::clone(&called);
        options.on_synced = Some(Arc::new(move || _ = count.fetch_add(1, Ordering::SeqCst)));
        let mut events = Events::new(&informer, options).with_synced();
        hand.tell(IoEvent::Tick);
        for name in names {
            let Some(Delivery::Notification(event)) = events.next() else { panic!("{name} first") };
            assert_eq!(event.key().name(), *name);
        }
        assert!(matches!(events.next(), Some(Delivery::Synced)) && events.registration().has_synced());
        assert_eq!(called.load(Ordering::SeqCst), 1);
        hand.watch("ADDED", "z", 9, "");
        assert!(matches!(events.next(), Some(Delivery::Notification(event)) if event.key().name() == "z"));
    }
}

#[test]
fn a_panic_of_on_synced_is_counted_told_and_holds_nothing_up() {
    let (options, lines) = failures();
    let (_factory, informer, mut hand) = start_with(options, &[]);
    let mut options = HandlerOptions::named("mine");
    options.on_synced = Some(Arc::new(|| panic!("on purpose")));
    let mut events = Events::new(&informer, options);
    hand.tell(IoEvent::Tick);
    assert_eq!(next(&mut events), "nothing");
    assert!(events.registration().has_synced());
    assert_eq!(events.registration().panics(), 1);
    let line = "handler mine panicked about its sync: on purpose; that was passed over";
    assert_eq!(*lines.lock(), [line]);
}

/// Each of the two forms that a filter has, as a function that returns what was told since the last call.
type Told = Box<dyn FnMut() -> Vec<String>>;

fn both_filtered(
    informer: &InformerHandle<DynamicObject>,
    keep: fn(&Obj<DynamicObject>) -> bool,
) -> [(informer_runtime::handler::Registration, Told); 2] {
    let mut events = Events::filtered(informer, HandlerOptions::named("events"), keep);
    let of_events = events.registration().clone();
    let told_events = move || {
        std::iter::from_fn(|| events.next_within(Duration::ZERO)).map(|event| event.to_string()).collect::<Vec<_>>()
    };
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&lines);
    let write = filtered(keep, move |event: &Notification<DynamicObject>| log.lock().push(event.to_string()));
    let (of_handler, mut handler): (_, Box<dyn HandlerLoop>) =
        informer.handler(HandlerOptions::named("handler"), write);
    let told_handler = move || {
        while handler.step() == Step::Delivered {}
        std::mem::take(&mut *lines.lock())
    };
    [(of_events, Box::new(told_events)), (of_handler, Box::new(told_handler))]
}

#[test]
fn what_crosses_the_border_of_a_filter_is_added_or_deleted() {
    let (_factory, informer, mut hand) = start(&["a"]);
    let forms = both_filtered(&informer, |pod| label(pod) == "in");
    hand.tell(IoEvent::Tick);
    hand.watch("MODIFIED", "a", 6, "in");
    hand.watch("MODIFIED", "a", 7, "in");
    hand.watch("MODIFIED", "a", 8, "out");
    hand.watch("MODIFIED", "a", 9, "out");
    hand.watch("ADDED", "b", 10, "in");
    hand.watch("DELETED", "b", 11, "out");
    for (registration, mut told) in forms {
        let want =
            ["added web/a@6", "updated web/a@7 (was 6)", "deleted web/a@7", "added web/b@10", "deleted web/b@11"];
        assert_eq!(told(), want, "{registration:?}");
        assert_eq!(registration.panics(), 0);
    }
}

#[test]
fn a_predicate_that_panics_is_counted_told_and_lets_nothing_through() {
    let (options, lines) = failures();
    let (_factory, informer, mut hand) = start_with(options, &[]);
    let forms = both_filtered(&informer, |pod| {
        assert_ne!(label(pod), "bad", "on purpose");
        label(pod) == "in"
    });
    hand.tell(IoEvent::Tick);
    for (version, label) in [(6, "in"), (7, "bad"), (8, "in")] {
        hand.watch(if version == 6 { "ADDED" } else { "MODIFIED" }, "a", version, label);
    }
    hand.watch("ADDED", "b", 9, "bad");
    hand.watch("DELETED", "b", 10, "in");
    for (registration, mut told) in forms {
        assert_eq!(told(), ["added web/a@6", "updated web/a@8 (was 6)"], "{registration:?}");
        assert_eq!(registration.panics(), 2, "{registration:?}");
        let mine = format!("handler {} panicked", registration.name());
        assert_eq!(lines.lock().iter().filter(|line| line.starts_with(&mine)).count(), 2);
    }
}

fn items(informer: &InformerHandle<DynamicObject>) -> ItemSource<DynamicObject> {
    // Retries come at once: their waits are the core's, and tested there without a clock.
    let options = ItemOptions::named("mine").limiter(Limiter::exponential(Duration::ZERO, Duration::ZERO));
    ItemSource::new(informer, options)
}

/// The item that is there.
fn step(source: &ItemSource<DynamicObject>) -> Option<Item<DynamicObject>> {
    match source.next_item() {
        NextItem::Item(item) => Some(item),
        NextItem::Wait(..) | NextItem::Closed => None,
    }
}

fn shown(item: Option<&Item<DynamicObject>>) -> String {
    item.map_or("nothing".to_string(), |item| format!("{item:?}"))
}

#[test]
fn each_key_is_in_one_hand_at_a_time_and_comes_again_with_the_newest_state() {
    let (_factory, informer, mut hand) = start(&["a", "b"]);
    let one = items(&informer);
    let two = one.clone();
    hand.tell(IoEvent::Tick);
    let (a, b) = (step(&one).unwrap(), step(&two).unwrap());
    assert_eq!((a.key().name(), b.key().name(), a.is_initial()), ("a", "b", true));
    hand.watch("MODIFIED", "a", 6, "");
    hand.watch("MODIFIED", "a", 7, "");
    assert_eq!((shown(step(&one).as_ref()), shown(step(&two).as_ref())), ("nothing".into(), "nothing".into()));
    a.done();
    let a = step(&two).unwrap();
    assert_eq!(shown(Some(&a)), "web/a@7, attempt 1");
    assert_eq!(a.last().unwrap().version().as_str(), "5");
    hand.watch("MODIFIED", "a", 8, "");
    a.retry("the cloud does not answer");
    let a = step(&one).unwrap();
    assert_eq!(shown(Some(&a)), "web/a@8, attempt 2");
    a.done();
    b.give_up("nobody wants it");
    assert_eq!(shown(step(&one).as_ref()), "nothing");
    let counts = one.counts();
    assert_eq!((counts.reconciles, counts.done, counts.failures, counts.given_up, one.waiting()), (4, 2, 1, 1, 0));
}

#[test]
fn an_item_that_is_dropped_or_lost_in_a_panic_comes_again_and_is_counted() {
    let (options, lines) = failures();
    let (_factory, informer, mut hand) = start_with(options, &["a"]);
    let source = items(&informer);
    hand.tell(IoEvent::Tick);
    drop(step(&source).unwrap());
    let consumer = source.clone();
    let panicked = std::thread::spawn(move || {
        let item = step(&consumer).unwrap();
        panic!("on purpose, with {item:?} in hand");
    });
    assert!(panicked.join().is_err());
    let item = step(&source).unwrap();
    assert_eq!(shown(Some(&item)), "web/a@5, attempt 3");
    item.done();
    assert_eq!((source.counts().unanswered, source.counts().done), (2, 1));
    assert_eq!(lines.lock()[0], "web/a: attempt 1 was dropped without an answer; retrying in 0ns");
}

#[test]
fn a_deletion_is_given_with_what_was_given_before_until_it_is_dealt_with() {
    let (_factory, informer, mut hand) = start(&["a", "b"]);
    let source = items(&informer);
    hand.tell(IoEvent::Tick);
    step(&source).unwrap().done();
    hand.watch("DELETED", "a", 6, "");
    hand.watch("DELETED", "b", 7, "");
    let gone = step(&source).unwrap();
    assert_eq!((gone.object().is_none(), gone.last().unwrap().version().as_str()), (true, "5"));
    gone.retry("not yet");
    let gone = step(&source).unwrap();
    assert_eq!(shown(Some(&gone)), "web/a@5 is gone, attempt 2");
    gone.done();
    assert_eq!(shown(step(&source).as_ref()), "nothing", "nobody is told of the end of b, which was never given");
}

#[test]
fn it_is_synced_when_each_key_of_the_initial_state_was_answered_in_whatever_way() {
    let (_factory, informer, mut hand) = start(&["a", "b"]);
    let called = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&called);
    let mut options = ItemOptions::default();
    options.handler.on_synced = Some(Arc::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
        panic!("on purpose");
    }));
    let source = ItemSource::new(&informer, options);
    hand.tell(IoEvent::Tick);
    let (a, b) = (step(&source).unwrap(), step(&source).unwrap());
    assert!(step(&source).is_none());
    a.give_up("never");
    assert!(!source.registration().has_synced());
    drop(b);
    assert!(source.registration().has_synced());
    assert_eq!((called.load(Ordering::SeqCst), source.registration().panics()), (1, 1));
    // And at once if there is nothing.
    let (_factory, informer, mut hand) = start(&[]);
    let source = items(&informer);
    hand.tell(IoEvent::Tick);
    assert!(step(&source).is_none() && source.registration().has_synced());
}

#[test]
fn a_stream_ends_with_its_informer_and_what_is_in_hand_can_be_answered() {
    let (options, lines) = failures();
    let (_factory, informer, mut hand) = start_with(options, &["a", "b"]);
    let mut stream = Items::new(&informer, ItemOptions::default());
    let registration = stream.source().registration().clone();
    hand.tell(IoEvent::Tick);
    let (a, b) = (stream.next().unwrap(), stream.next().unwrap());
    b.retry("soon");
    registration.remove();
    assert!(stream.next().is_none() && stream.next().is_none(), "a retry is not waited for");
    assert!(!registration.is_finished(), "one is in hand");
    a.retry("too late");
    assert!(registration.is_finished());
    drop(stream);
    assert!(lines.lock()[1].ends_with("not retrying, as the controller is stopping"), "{lines:?}");
}

#[test]
fn the_last_consumer_takes_the_handler_along() {
    let (_factory, informer, mut hand) = start(&["a"]);
    let one = Items::new(&informer, ItemOptions::default());
    let registration = one.source().registration().clone();
    hand.tell(IoEvent::Tick);
    let mut two = one.clone();
    drop(one);
    assert!(!registration.was_removed());
    two.next().unwrap().done();
    assert!(two.next_within(Duration::ZERO).is_none());
    drop(two);
    assert!(registration.was_removed() && registration.is_finished());
}

#[test]
fn what_nobody_asks_for_is_bounded_by_the_live_keys() {
    let (_factory, informer, mut hand) = start(&["a"]);
    let mut options = ItemOptions::default();
    options.handler.overflow = Overflow::Coalesce { limit: 8 };
    let source = ItemSource::new(&informer, options);
    hand.tell(IoEvent::Tick);
    let held = step(&source).unwrap();
    for version in 6..2_006 {
        let name = format!("n{version}");
        hand.watch("ADDED", &name, 2 * version, "");
        hand.watch("DELETED", &name, 2 * version + 1, "");
        hand.watch("MODIFIED", "a", 2 * version + 1, "");
    }
    assert!(source.registration().pending() <= 8 + 2, "{} pending", source.registration().pending());
    assert_eq!(source.waiting(), 1, "what is in hand");
    let newest = held.object().unwrap().clone();
    held.done();
    let given: Vec<Key> = std::iter::from_fn(|| step(&source))
        .map(|item| {
            let key = item.key().clone();
            item.done();
            key
        })
        .collect();
    assert_eq!(given, [Key::new("web", "a")], "the rest came and went");
    assert_ne!(informer.lister().get(&newest.key().to_key()).unwrap().version(), newest.version());
    assert_eq!(source.waiting(), 0);
}

#[test]
fn keys_that_always_fail_hold_nothing_up() {
    let (_factory, informer, mut hand) = start(&["a", "b", "c"]);
    let source = items(&informer);
    hand.tell(IoEvent::Tick);
    let names: Vec<String> = (0..6)
        .map(|_| {
            let item = step(&source).unwrap();
            let name = item.key().name().to_string();
            if name == "c" {
                item.done()
            } else {
                item.retry("never, and at once")
            }
            name
        })
        .collect();
    assert_eq!(names, ["a", "a", "b", "a", "c", "b"]);
    assert_eq!(source.waiting(), 2);
}

#[test]
fn the_verdict_of_an_item_is_told_as_the_one_of_a_reconcile() {
    let told: Arc<Mutex<Vec<Verdict>>> = Arc::default();
    let kept = Arc::clone(&told);
    let observer = move |observed: &Observed<'_>| {
        if let Observed::Reconcile(finished) = observed {
            kept.lock().push(finished.verdict.clone());
        }
    };
    let (_factory, informer, mut hand) = start_with(FactoryOptions::observed(Arc::new(observer)), &["a"]);
    let source = items(&informer);
    hand.tell(IoEvent::Tick);
    step(&source).unwrap().again_after(Duration::ZERO);
    step(&source).unwrap().retry("no");
    drop(step(&source).unwrap());
    step(&source).unwrap().give_up("never");
    let want = [
        Verdict::RequeueAfter(Duration::ZERO),
        Verdict::Retry("no".into()),
        Verdict::Unanswered,
        Verdict::GiveUp("never".into()),
    ];
    assert_eq!(*told.lock(), want);
}

#[test]
fn consumers_on_many_threads_end_with_the_truth() {
    const KEYS: u32 = 20;
    let (factory, informer, mut hand) = start(&[]);
    let source =
        Items::new(&informer, ItemOptions::named("mine").limiter(Limiter::exponential(Duration::ZERO, Duration::ZERO)));
    hand.tell(IoEvent::Tick);
    let view: Mutex<std::collections::BTreeMap<Key, String>> = Mutex::default();
    let (busy, failed) = (Mutex::new(std::collections::BTreeSet::<Key>::new()), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (consumer, view, busy, failed) = (source.clone(), &view, &busy, &failed);
            scope.spawn(move || {
                for item in consumer {
                    assert!(busy.lock().insert(item.key().clone()), "{item:?} is in two hands");
                    std::thread::yield_now();
                    match item.object() {
                        Some(object) => _ = view.lock().insert(item.key().clone(), object.version().to_string()),
                        None => assert!(view.lock().remove(item.key()).is_some(), "{item:?} was never given"),
                    }
                    busy.lock().remove(item.key());
                    // A deletion that is not done is told again, and has been dealt with here.
                    if item.object().is_some() && failed.fetch_add(1, Ordering::Relaxed) % 3 == 0 {
                        item.retry("now and then");
                    } else {
                        item.done();
                    }
                }
            });
        }
        for version in 6..2_000u32 {
            let name = format!("n{}", version % KEYS);
            match (version / KEYS) % 3 {
                0 => hand.watch("ADDED", &name, version, ""),
                1 => hand.watch("MODIFIED", &name, version, ""),
                _ => hand.watch("DELETED", &name, version, ""),
            }
        }
        // Whoever is idle waits for a signal; the view is whole when nothing waits any more.
        let truth = || -> std::collections::BTreeMap<Key, String> {
            let objects = informer.lister().list();
            objects.iter().map(|object| (object.key().to_key(), object.version().to_string())).collect()
        };
        while *view.lock() != truth() || source.source().waiting() > 0 || source.source().registration().pending() > 0 {
            std::thread::yield_now();
        }
        factory.request_stop();
        hand.tell(IoEvent::Stop);
        drop(hand);
    });
    assert!(matches!(source.source().next_item(), NextItem::Closed));
    assert_eq!(source.source().counts().unanswered, 0);
}

#[test]
fn a_resync_repeats_what_passes_the_filter_and_what_an_item_is_about() {
    let (_factory, informer, mut hand) = start(&["a"]);
    let mut options = HandlerOptions::default();
    options.resync = Some(Duration::from_secs(60));
    let mut kept = Events::filtered(&informer, options.clone(), |pod| pod.key().name() == "a");
    let mut left = Events::filtered(&informer, options.clone(), |pod| pod.key().name() == "b");
    let mut item_options = ItemOptions::default();
    item_options.handler = options;
    let source = ItemSource::new(&informer, item_options);
    hand.tell(IoEvent::Tick);
    assert_eq!((next(&mut kept).as_str(), next(&mut left).as_str()), ("added web/a@5", "nothing"));
    step(&source).unwrap().done();
    hand.now = hand.now + Duration::from_secs(61);
    hand.tell(IoEvent::Tick);
    let again = kept.next_within(Duration::ZERO).unwrap();
    assert_eq!(again.cause(), Cause::Resync);
    assert_eq!(next(&mut left), "nothing");
    assert_eq!(shown(step(&source).as_ref()), "web/a@5, attempt 1");
}

#[test]
fn who_holds_events_or_items_can_wait_for_their_end() {
    for removed in [false, true] {
        let factory = factory();
        let informer = factory.informer(spec()).unwrap();
        let (mut events, items) = (Events::new(&informer, HandlerOptions::default()), items(&informer));
        let mut hand = Hand::take(&factory);
        hand.list(&["a"]);
        assert!(events.next().is_some());
        let registrations = [events.registration().clone(), items.registration().clone()];
        assert!(registrations.iter().all(|registration| !registration.is_finished()));
        if removed {
            registrations.iter().for_each(Registration::remove);
        } else {
            factory.request_stop();
            hand.tell(IoEvent::Stop);
        }
        for registration in &registrations {
            registration.wait_finished().unwrap(); // on the thread that holds them
            assert_eq!(registration.was_removed(), removed);
        }
        assert!(events.next().is_none() && step(&items).is_none());
    }
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    factory.request_stop();
    let late = Events::new(&informer, HandlerOptions::default());
    late.registration().wait_finished().unwrap();
}
