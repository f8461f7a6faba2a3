//! One informer driven by hand through [`Drive`], without sockets: what handlers, indexes and stops do when they meet
//! the driver in the worst order.

use informer_core::informer::Notice;
use informer_core::listener::{Cause, Notification, Overflow};
use informer_core::lister::TokenError;
use informer_core::object::DecodeError;
use informer_core::reflector::{End, ListStrategy, Phase};
use informer_core::selector::LabelSelector;
use informer_core::time::{Deadline, Duration, Time};
use informer_core::wire::{Head, Request, RequestId};
use informer_core::{DynamicObject, Key, Obj, Object, Resource};
use informer_runtime::driver::{Drive, IoAction, IoEvent, WALL_CLOCK_EVERY};
use informer_runtime::factory::{FactoryCore, FactoryOptions};
use informer_runtime::handler::{Deliveries, HandlerOptions, Lent, Next, Registration};
use informer_runtime::informer::{HandlerLoop, InformerHandle, InformerSpec, Step};
use informer_runtime::observe::Observed;
use informer_runtime::pages::{Page, Pages};
use informer_runtime::sync::{Arc, Mutex, OnceLock, Weak};
use informer_runtime::{Config, Error};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

#[path = "drive/drops.rs"]
mod drops;
#[path = "drive/forms.rs"]
mod forms;
#[path = "drive/handlers.rs"]
mod handlers;
#[path = "drive/inside.rs"]
mod inside;
#[path = "drive/mutation.rs"]
mod mutation;
#[path = "drive/own_writes.rs"]
mod own_writes;
#[path = "drive/preloaded.rs"]
mod preloaded;
#[path = "drive/reads.rs"]
mod reads;
#[path = "drive/recreated.rs"]
mod recreated;
#[path = "drive/stop_one.rs"]
mod stop_one;
#[cfg(feature = "async")]
#[path = "drive/streams.rs"]
mod streams;
#[path = "drive/synced.rs"]
mod synced;

fn pods() -> Resource {
    Resource::namespaced("", "v1", "pods", "Pod")
}

fn spec() -> InformerSpec<DynamicObject> {
    InformerSpec::of(pods()).strategy(ListStrategy::Paged)
}

fn factory() -> FactoryCore {
    factory_with(FactoryOptions::default())
}

fn factory_with(mut options: FactoryOptions) -> FactoryCore {
    // The time of these tests stands still, and so does the wall clock, unless a test has one of its own.
    options.wall_clock.get_or_insert_with(|| Arc::new(|| Duration::from_secs(1_790_000_000)));
    FactoryCore::new(Config::from_url("http://127.0.0.1:1").unwrap(), options)
}

/// The driver of the only informer, and its last request.
struct Hand {
    drive: Box<dyn Drive>,
    last: Option<RequestId>,
    paused: Option<RequestId>,
    now: Time,
}

impl Hand {
    fn take(factory: &FactoryCore) -> Self {
        let mut drives = factory.take_unstarted();
        assert_eq!(drives.len(), 1);
        Hand { drive: drives.remove(0), last: None, paused: None, now: Time::ZERO }
    }

    fn tell(&mut self, event: IoEvent<'_>) -> (Vec<Request>, Option<Deadline>) {
        self.tell_at(self.now, event)
    }

    /// The requests that were sent, and what is waited for.
    fn tell_at(&mut self, now: Time, event: IoEvent<'_>) -> (Vec<Request>, Option<Deadline>) {
        self.drive.handle(now, event);
        let mut sent = Vec::new();
        loop {
            match self.drive.poll(now) {
                IoAction::Send(request) => {
                    self.last = Some(request.id);
                    sent.push(request);
                }
                IoAction::Wait(deadline) => {
                    self.drive.rest();
                    return (sent, deadline);
                }
                IoAction::Pause(id) => assert!(self.paused.replace(id).is_none(), "paused once"),
                IoAction::Resume(id) => assert_eq!(self.paused.take(), Some(id), "only what was paused is resumed"),
                IoAction::Cancel(id) => self.paused = self.paused.filter(|paused| *paused != id),
            }
        }
    }

    /// Starts, and answers the list; the watch that follows is open.
    fn list(&mut self, names: &[&str]) {
        self.tell(IoEvent::Start);
        let items: Vec<_> = names.iter().map(|name| object(name, "5", "")).collect();
        self.answer_list("5", &items);
    }

    /// Answers a list; the watch that follows is open.
    fn answer_list(&mut self, version: &str, items: &[String]) {
        self.answer_list_of("Pod", version, items);
    }

    fn answer_list_of(&mut self, kind: &str, version: &str, items: &[String]) {
        let id = self.last.expect("a list was sent");
        let list = format!(
            r#"{{"kind":"{kind}List","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"}},"items":[{}]}}"#,
            items.join(",")
        );
        self.tell(IoEvent::Head(id, &Head::new(200)));
        self.tell(IoEvent::Body(id, list.as_bytes()));
        self.tell(IoEvent::End(id, &End::Closed));
        let watch = self.last.expect("a watch was sent");
        assert_ne!(watch, id);
        self.tell(IoEvent::Head(watch, &Head::new(200)));
    }

    fn watch(&mut self, kind: &str, name: &str, version: u32, label: &str) {
        self.watch_all(&[(kind, name, version, label)]);
    }

    /// Events that come together.
    fn watch_all(&mut self, events: &[(&str, &str, u32, &str)]) {
        let event = |(kind, name, version, label): &(&str, &str, u32, &str)| {
            let object = object(name, &version.to_string(), label);
            format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
        };
        let events: String = events.iter().map(event).collect();
        let id = self.last.expect("a watch is open");
        self.tell(IoEvent::Body(id, events.as_bytes()));
    }

    /// Updates of `a`, together.
    fn update(&mut self, versions: std::ops::RangeInclusive<u32>) {
        let events: Vec<_> = versions.map(|version| ("MODIFIED", "a", version, "")).collect();
        self.watch_all(&events);
    }
}

fn object(name: &str, version: &str, label: &str) -> String {
    format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"web","uid":"u-{name}","resourceVersion":"{version}","labels":{{"l":"{label}"}}}}}}"#
    )
}

/// An object in an incarnation of choice.
fn incarnation(name: &str, uid: &str, version: &str) -> String {
    object(name, version, "").replace(&format!("u-{name}"), uid)
}

/// What a handler is told, up to now.
fn told(deliveries: &mut Deliveries<DynamicObject>) -> Vec<String> {
    let mut told = Vec::new();
    loop {
        match deliveries.try_next() {
            Next::Delivery(Lent::Notification(notification)) => told.push(format!("{notification}")),
            Next::Delivery(_) => told.push("synced".to_string()),
            Next::Empty(_) | Next::Closed => return told,
        }
    }
}

fn versions(informer: &InformerHandle<DynamicObject>) -> Vec<String> {
    let objects = informer.lister().list();
    let mut lines: Vec<_> = objects.iter().map(|object| format!("{}@{}", object.key(), object.version())).collect();
    lines.sort();
    lines
}

fn key(name: &str) -> Key {
    Key::new("web", name)
}

#[test]
fn an_index_that_comes_between_decode_and_commit_runs_under_no_lock_and_its_panic_costs_one_object() {
    let factory = factory();
    let late: Arc<OnceLock<InformerHandle<DynamicObject>>> = Arc::default();
    let informer = Arc::clone(&late);
    // The decoder is the one place of ours that runs between the look at the index functions and the commit.
    let adds = move |object: DynamicObject| {
        if object.json().contains("\"add-the-index\"") {
            let informer = informer.get().unwrap().clone();
            let inside = informer.clone();
            informer
                .try_index("late", move |object: &Obj<DynamicObject>| {
                    // It may read the cache: that would hang under the lock of the store.
                    assert!(inside.lister().get(&key("a")).is_some());
                    assert_ne!(object.key().name(), "bad", "a panic that belongs to the test");
                    vec![object.key().name().to_string()]
                })
                .unwrap();
        }
        Ok(object)
    };
    let informer = factory.informer(spec().transform(adds)).unwrap();
    late.set(informer.clone()).unwrap();
    let mut hand = Hand::take(&factory);
    hand.list(&["a"]);
    hand.watch("ADDED", "bad", 6, "add-the-index");
    let index = informer.by_index("late");
    assert_eq!((versions(&informer), index.values()), (vec!["web/a@5".to_string()], vec!["a".to_string()]));
    assert_eq!(informer.phase(), Phase::Watching, "the informer goes on");
    let failure = informer.last_failure().expect("it is reported").to_string();
    assert!(
        failure.contains("web/bad at version 6 ") && failure.contains("the function of index \"late\" panicked"),
        "{failure}"
    );
    hand.watch("ADDED", "good", 7, "");
    assert_eq!(index.get("good").len(), 1);
    // A later version on which the function does not panic would be taken; this one is quarantined anew.
    hand.watch("MODIFIED", "bad", 8, "");
    hand.watch("DELETED", "bad", 9, "");
    assert_eq!(versions(&informer), ["web/a@5", "web/good@7"]);
}

#[test]
fn an_index_whose_function_panics_on_what_is_cached_is_refused_and_changes_nothing() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let mut hand = Hand::take(&factory);
    hand.list(&["a", "b"]);
    let error = informer
        .try_index("x", |object: &Obj<DynamicObject>| {
            assert_ne!(object.key().name(), "b", "no b");
            vec![String::new()]
        })
        .unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("the function of index \"x\" panicked on web/b: ") && text.contains("no b"), "{text}");
    assert!(informer.by_index("x").try_get("").is_err(), "there is no such index");
    hand.watch("MODIFIED", "b", 6, "");
    assert_eq!(versions(&informer), ["web/a@5", "web/b@6"]);
    informer.try_index("x", |object: &Obj<DynamicObject>| vec![object.key().name().to_string()]).unwrap();
    assert_eq!(informer.by_index("x").values(), ["a", "b"]);
}

#[test]
fn indexes_that_come_and_go_while_objects_change_equal_a_recomputation() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let mut hand = Hand::take(&factory);
    let names: Vec<String> = (0..40).map(|n| format!("p{n}")).collect();
    hand.list(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let label = |object: &Obj<DynamicObject>| {
        let text = object.json();
        let from = text.find("\"l\":\"").unwrap() + 5;
        text[from..from + text[from..].find('"').unwrap()].to_string()
    };
    std::thread::scope(|scope| {
        let indexing = scope.spawn(|| {
            for round in 0..60 {
                informer.try_index(&format!("i{round}"), label).unwrap();
                if round % 3 == 0 {
                    informer.remove_index(&format!("i{round}")).unwrap();
                }
            }
        });
        for version in 6..800_u32 {
            let name = &names[(version as usize * 7) % names.len()];
            let kind = if version % 5 == 0 { "DELETED" } else { "MODIFIED" };
            hand.watch(kind, name, version, &(version % 11).to_string());
        }
        indexing.join().unwrap();
    });
    let objects = informer.lister().list();
    assert!(!objects.is_empty());
    for round in (0..60).filter(|round| round % 3 != 0) {
        let index = informer.by_index(&format!("i{round}"));
        let mut total = 0;
        for value in index.values() {
            let found = index.get(&value);
            assert!(found.iter().all(|object| label(object) == value));
            total += found.len();
        }
        assert_eq!(total, objects.len(), "index {round} holds every object once");
    }
}

#[test]
fn a_handler_that_removes_itself_is_not_called_again_and_a_wait_inside_it_is_refused() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let me: Arc<OnceLock<Registration>> = Arc::default();
    let (inside, refusals) = (Arc::clone(&me), Arc::new(Mutex::new(Vec::new())));
    let told = Arc::clone(&refusals);
    let (registration, mut handler) = informer.handler(HandlerOptions::named("h"), move |_: &Notification<_>| {
        let me = inside.get().unwrap();
        me.remove();
        me.remove();
        let waits = [me.wait_finished().unwrap_err(), me.wait_synced(Duration::ZERO).unwrap_err()];
        told.lock().extend(waits.map(|error| error.to_string()));
    });
    me.set(registration.clone()).unwrap();
    let mut hand = Hand::take(&factory);
    hand.list(&["a", "b"]);
    assert_eq!(handler.step(), Step::Delivered);
    assert_eq!(handler.step(), Step::Closed);
    assert!(!registration.is_finished() && registration.was_removed());
    drop(handler);
    registration.wait_finished().unwrap();
    assert!(!registration.has_synced() && !registration.wait_synced(Duration::ZERO).unwrap());
    assert_eq!(refusals.lock().len(), 2);
    assert!(refusals.lock()[0].contains("wait_finished() was called inside a handler or reconciler"));
    hand.watch("ADDED", "c", 6, "");
    assert_eq!((registration.pending(), versions(&informer).len()), (0, 3));
}

#[test]
fn a_handler_that_was_removed_keeps_no_object_alive_while_its_registration_is_held() {
    let factory = factory();
    let made: Arc<Mutex<Vec<Weak<()>>>> = Arc::default();
    let list = Arc::clone(&made);
    let count = move |_| {
        let value = Arc::new(());
        list.lock().push(Arc::downgrade(&value));
        Ok(value)
    };
    let informer = factory.informer(spec().transform(count)).unwrap();
    let (removed, handler) = informer.handler(HandlerOptions::named("sleeps"), |_: &Notification<_>| {});
    let mut hand = Hand::take(&factory);
    hand.list(&["a", "b"]);
    hand.watch("MODIFIED", "a", 6, "");
    assert_eq!(removed.pending(), 1, "beside the initial state, which is not counted");
    removed.remove();
    assert_eq!(removed.pending(), 0);
    hand.watch("DELETED", "a", 7, "");
    hand.watch("DELETED", "b", 8, "");
    assert_eq!((informer.lister().len(), made.lock().iter().filter(|value| value.strong_count() > 0).count()), (0, 0));
    drop(handler);
    assert!(removed.is_finished());
}

#[test]
fn a_stop_before_the_start_closes_handlers_and_later_ones_are_closed_at_once() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let (before, mut handler) = informer.handler(HandlerOptions::default(), |_: &Notification<_>| {});
    assert!(matches!(handler.step(), Step::Empty(_)));
    factory.request_stop();
    factory.request_stop();
    assert_eq!(handler.step(), Step::Closed);
    drop(handler);
    assert!(before.is_finished() && !before.was_removed());
    assert!(factory.take_unstarted().is_empty());
    let (after, mut deliveries) = informer.channel(HandlerOptions::default());
    assert!(matches!(deliveries.try_next(), Next::Closed) && !after.is_finished());
    informer.refresh();
    after.remove();
    drop(deliveries);
    assert!(after.is_finished());
    assert!(matches!(factory.informer(spec()), Err(Error::Stopped)));
    assert!(matches!(factory.wait_synced(Duration::ZERO), Err(Error::Stopped)));
}

#[test]
fn a_driver_that_ends_by_itself_leaves_no_waiter() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let (registration, mut deliveries) = informer.channel(HandlerOptions::default());
    let hand = Hand::take(&factory);
    assert!(matches!(factory.check_synced(), Ok(Some(_))));
    drop(hand);
    assert!(deliveries.next_blocking().is_none());
    drop(deliveries);
    assert!(registration.is_finished());
    assert!(matches!(factory.check_synced(), Err(Error::NotSynced(_))), "no waiting helps");
}

#[test]
fn an_observer_that_panics_harms_nobody() {
    let observer = Arc::new(|_: &Observed<'_>| panic!("a panic that belongs to the test"));
    let factory = factory_with(FactoryOptions::observed(observer));
    let informer = factory.informer(spec()).unwrap();
    let (registration, mut handler) =
        informer.handler(HandlerOptions::default(), |_: &Notification<_>| panic!("me too"));
    let mut hand = Hand::take(&factory);
    hand.list(&["a"]);
    while handler.step() == Step::Delivered {}
    assert_eq!((registration.has_synced(), registration.panics(), informer.phase()), (true, 1, Phase::Watching));
}

#[test]
fn one_scope_is_one_informer_however_it_is_written_and_each_type_has_its_own() {
    let factory = factory();
    let labelled = |text: &str| spec().labels(&text.parse().unwrap());
    let first = factory.informer(labelled("b=2,a in (y,x)")).unwrap();
    first.try_index("mine", |_: &Obj<DynamicObject>| Some(String::new())).unwrap();
    let again = factory.informer(labelled("a in (x,y),b=2")).unwrap();
    assert!(again.by_index("mine").try_get("").is_ok(), "the same cache");
    let other = factory.informer(labelled("a in (x,y),b=2").transform(|_| Ok(7))).unwrap();
    assert!(other.by_index("mine").try_get("").is_err(), "another type is another cache");
    let drives = factory.take_unstarted();
    assert_eq!(drives.len(), 2);
    // What the core's registry counts as an option: all of it.
    let mut config = informer_core::informer::InformerConfig::new(pods());
    config.reflector.strategy = ListStrategy::Paged;
    config.reflector.label_selector = Some("a in (x,y),b=2".into());
    config.reflector.tuning.pages = 3;
    let error = factory.informer(spec().configured(config)).unwrap_err();
    let told_twice = std::error::Error::source(&error).is_some();
    assert!(error.to_string().contains("another \"tuning\"") && !told_twice, "{error}");
}

#[test]
fn two_closures_of_one_place_are_two_transforms() {
    let factory = factory();
    let length = |object: DynamicObject| Ok(object.json().len());
    let kind = |object: DynamicObject| Ok(object.kind().len());
    factory.informer(spec().transform(length)).unwrap();
    let error = factory.informer(spec().transform(kind)).unwrap_err();
    assert!(error.to_string().contains("another \"transform\""), "{error}");
    factory.informer(spec().transform(length)).unwrap();
    let twice = factory.informer(spec().transform(length).transform(Ok)).unwrap_err();
    assert!(twice.to_string().contains("another \"transform\""), "{twice}");
}

#[test]
fn the_namespace_without_a_name_is_all_of_them() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let mut hand = Hand::take(&factory);
    hand.list(&["a", "b"]);
    let lister = informer.lister();
    assert_eq!((lister.namespace("").list().len(), lister.namespace("web").list().len()), (2, 2));
    assert_eq!([lister.len(), lister.namespace("web").len(), lister.namespace("db").len()], [2, 2, 0]);
    assert!(lister.namespace("db").list().is_empty() && lister.namespace("db").get(&key("a")).is_none());
    assert!(lister.namespace("web").named("a").is_some() && lister.named("a").is_none());
    assert!(lister.namespace("").get(&key("a")).is_some());
}

/// Passes objects on and counts them (T23).
fn counted(spec: InformerSpec<DynamicObject>) -> (InformerSpec<DynamicObject>, Arc<AtomicU32>) {
    let count = Arc::new(AtomicU32::new(0));
    let mine = count.clone();
    let spec = spec.transform(move |object| {
        mine.fetch_add(1, Ordering::Relaxed);
        Ok(object)
    });
    (spec, count)
}

#[test]
fn a_transform_runs_once_for_each_object_that_was_sent_and_for_no_repeat() {
    let (spec, count) = counted(spec().resync(Duration::from_secs(2)));
    let ran = || count.swap(0, Ordering::Relaxed);
    let factory = factory();
    let informer = factory.informer(spec).unwrap();
    let resyncs = Arc::new(AtomicU32::new(0));
    let counted = resyncs.clone();
    let (_registration, mut handler) = informer.handler(HandlerOptions::default(), move |event: &Notification<_>| {
        counted.fetch_add(u32::from(event.cause() == Cause::Resync), Ordering::Relaxed);
    });
    let mut hand = Hand::take(&factory);
    hand.list(&["a", "b", "c"]);
    assert_eq!(ran(), 3, "each item of the list");
    hand.watch("MODIFIED", "a", 6, "x");
    assert_eq!(ran(), 1, "an event");
    hand.watch("DELETED", "b", 7, "x");
    assert_eq!(ran(), 1, "the state that a deletion carries");
    hand.now = Time::from_millis(2_000);
    hand.tell(IoEvent::Tick);
    while handler.step() == Step::Delivered {}
    assert_eq!((ran(), resyncs.load(Ordering::Relaxed)), (0, 2), "a resync repeats what is there");
    let (_late, mut deliveries) = informer.channel(HandlerOptions::default());
    hand.tell(IoEvent::Tick);
    assert_eq!(told(&mut deliveries).len(), 3, "the two, and that they are all");
    informer.index("name", |object: &Obj<DynamicObject>| object.key().name().to_string());
    assert_eq!(ran(), 0, "neither does what comes late make anything anew");
    let expired = r#"{"type":"ERROR","object":{"kind":"Status","reason":"Expired","code":410}}"#;
    let watch = hand.last.expect("a watch is open");
    hand.tell(IoEvent::Body(watch, expired.as_bytes()));
    hand.now = Time::from_millis(4_000);
    hand.tell(IoEvent::Tick);
    hand.answer_list("20", &[object("a", "6", "x"), object("d", "15", "")]);
    assert_eq!(versions(&informer), ["web/a@6", "web/d@15"]);
    assert_eq!(ran(), 1, "neither what a relist has not changed nor the tombstone of what it lacks");
}

#[test]
fn a_transform_runs_once_for_each_object_of_a_streaming_list() {
    let (spec, count) = counted(spec().strategy(ListStrategy::Streaming));
    let factory = factory();
    let informer = factory.informer(spec).unwrap();
    let mut hand = Hand::take(&factory);
    hand.tell(IoEvent::Start);
    let id = hand.last.expect("a streaming list was sent");
    hand.tell(IoEvent::Head(id, &Head::new(200)));
    hand.watch("ADDED", "a", 5, "");
    hand.watch("ADDED", "b", 6, "");
    let marker = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
    hand.tell(IoEvent::Body(id, marker.as_bytes()));
    assert_eq!(versions(&informer), ["web/a@5", "web/b@6"]);
    assert_eq!(count.load(Ordering::Relaxed), 2, "not again at the end marker");
}

#[test]
fn a_transform_that_rejects_or_panics_costs_one_object_and_stops_nothing() {
    let failures = Arc::new(Mutex::new(Vec::new()));
    let seen = failures.clone();
    let observer = Arc::new(move |event: &Observed<'_>| {
        if let Observed::Notice { notice: Notice::Failure(failure), .. } = event {
            seen.lock().push(failure.to_string());
        }
    });
    let factory = factory_with(FactoryOptions::observed(observer));
    let picky = |object: DynamicObject| match object.json() {
        json if json.contains(r#""l":"odd""#) => Err(DecodeError::new("too odd")),
        json if json.contains(r#""l":"bomb""#) => panic!("a panic that belongs to the test"),
        _ => Ok(object),
    };
    let informer = factory.informer(spec().transform(picky)).unwrap();
    let mut hand = Hand::take(&factory);
    hand.tell(IoEvent::Start);
    hand.answer_list(
        "5",
        &[object("a", "1", ""), object("b", "2", "odd"), object("c", "3", "bomb"), object("d", "4", "")],
    );
    assert_eq!(versions(&informer), ["web/a@1", "web/d@4"]);
    assert_eq!((informer.has_synced(), informer.phase()), (true, Phase::Watching), "the list stands without the two");
    hand.watch("MODIFIED", "a", 6, "odd");
    hand.watch("MODIFIED", "d", 7, "bomb");
    assert_eq!(versions(&informer), ["web/a@1", "web/d@4"], "the last good objects stay");
    assert_eq!(informer.lister().version(), "7", "and the version moves on");
    hand.watch("MODIFIED", "b", 8, "");
    hand.watch("DELETED", "a", 9, "odd");
    assert_eq!(versions(&informer), ["web/b@8", "web/d@4"], "what is good again comes, what is gone goes");
    assert_eq!(informer.phase(), Phase::Watching);
    let failures = failures.lock();
    for (at, (key, reason)) in
        [("web/b", "too odd"), ("web/c", "panic"), ("web/a", "too odd"), ("web/d", "panic")].iter().enumerate()
    {
        let text = failures.get(at).unwrap_or_else(|| panic!("failure {at} is missing: {failures:?}"));
        assert!(text.contains(key) && text.contains(reason), "{at}: {text}");
    }
}

#[test]
fn a_driver_looks_at_the_wall_clock_every_ten_seconds_and_a_suspend_opens_the_watch_anew() {
    let unix = Arc::new(Mutex::new(Duration::from_secs(1_790_000_000)));
    let wall = Arc::clone(&unix);
    let mut options = FactoryOptions::default();
    options.wall_clock = Some(Arc::new(move || *wall.lock()));
    let factory = factory_with(options);
    let informer = factory.informer(spec()).unwrap();
    let mut hand = Hand::take(&factory);
    hand.list(&["a"]);
    let soon = |now: Time| Some(Deadline { at: now + WALL_CLOCK_EVERY, why: "wall clock" });
    let mut now = Time::ZERO;
    // Both clocks go on alike, but for a second, and then the wall clock is set back.
    for wall in [10_000, 9_000, 10_500, 0] {
        now = now + WALL_CLOCK_EVERY;
        *unix.lock() += Duration::from_millis(wall);
        let (sent, deadline) = hand.tell_at(now, IoEvent::Tick);
        assert_eq!((sent.len(), deadline), (0, soon(now)));
    }
    // Ten seconds for us, two hours for the rest of the world.
    now = now + WALL_CLOCK_EVERY;
    *unix.lock() += Duration::from_secs(7_200);
    let (sent, _) = hand.tell_at(now, IoEvent::Tick);
    assert_eq!(sent.len(), 1);
    assert!(sent[0].fresh_connection && sent[0].query_value("resourceVersion") == Some("5"), "{}", sent[0].target());
    assert_eq!((informer.phase(), informer.last_failure()), (Phase::Opening, None));
    let (_, deadline) = hand.tell_at(now, IoEvent::Stop);
    assert_eq!(deadline, None, "after a stop there is nothing to look for");
}

#[test]
fn a_wall_clock_that_panics_gives_no_answer_and_ends_nothing() {
    let unix = Arc::new(Mutex::new(None));
    let wall = Arc::clone(&unix);
    let mut options = FactoryOptions::default();
    options.wall_clock = Some(Arc::new(move || wall.lock().expect("a panic that belongs to the test")));
    let factory = factory_with(options);
    let informer = factory.informer(spec()).unwrap();
    let mut hand = Hand::take(&factory);
    hand.list(&["a"]);
    *unix.lock() = Some(Duration::from_secs(1_790_000_000));
    assert!(hand.tell(IoEvent::Tick).0.is_empty(), "the first answer is no sign of a suspend");
    *unix.lock() = None;
    hand.watch("ADDED", "b", 6, "");
    hand.now = hand.now + WALL_CLOCK_EVERY;
    *unix.lock() = Some(Duration::from_secs(1_790_007_200));
    assert_eq!(hand.tell(IoEvent::Tick).0.len(), 1, "a suspend is found as soon as there is an answer");
    assert_eq!(versions(&informer), ["web/a@5", "web/b@6"]);
}

#[test]
fn a_handle_tells_when_the_server_was_heard_of_and_since_when_the_cache_lags() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    assert_eq!((informer.last_contact(), informer.last_event(), informer.degraded_since()), (None, None, None));
    let mut hand = Hand::take(&factory);
    hand.list(&["a"]);
    let at = |seconds: u64| factory.clock().at(Time::from_millis(seconds * 1_000));
    assert_eq!((informer.last_contact(), informer.last_event(), informer.degraded_since()), (at(0), None, None));
    let event = format!("{{\"type\":\"ADDED\",\"object\":{}}}\n", object("b", "6", ""));
    hand.tell_at(Time::from_millis(1_000), IoEvent::Body(hand.last.unwrap(), event.as_bytes()));
    assert_eq!((informer.last_contact(), informer.last_event()), (at(1), at(1)));
    hand.tell_at(Time::from_millis(2_000), IoEvent::End(hand.last.unwrap(), &End::Broken("reset".into())));
    hand.tell_at(Time::from_millis(4_000), IoEvent::Tick);
    hand.tell_at(Time::from_millis(4_000), IoEvent::End(hand.last.unwrap(), &End::Broken("reset".into())));
    assert_eq!((informer.last_contact(), informer.last_event()), (at(1), at(1)));
    assert_eq!((informer.degraded_since(), versions(&informer).len()), (at(2), 2), "and what is cached can be read");
    assert_eq!(informer.last_failure().map(|failure| failure.repeats), Some(1));
    hand.tell_at(Time::from_millis(9_000), IoEvent::Tick);
    hand.tell_at(Time::from_millis(9_000), IoEvent::Head(hand.last.unwrap(), &Head::new(200)));
    assert_eq!((informer.last_contact(), informer.degraded_since()), (at(9), None));
}

#[test]
fn an_index_speaks_the_type_of_its_values() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let mut hand = Hand::take(&factory);
    hand.list(&["a", "b", "longer"]);
    let by_length = informer.index("length", |object: &Obj<DynamicObject>| object.key().name().len());
    let by_key = informer.index("key", |object: &Obj<DynamicObject>| Some(object.key().to_key()));
    let by_label = informer.label_index("l");
    hand.watch("ADDED", "at-least-ten", 6, "x");
    hand.watch("ADDED", "cc", 7, "x");
    assert_eq!(by_length.values(), [1, 2, 6, 12], "in the order of numbers, not of texts");
    assert_eq!((by_length.count(&1), by_length.keys(&12)), (2, vec![key("at-least-ten")]));
    assert_eq!((by_key.get(&key("b")).len(), by_key.get(&key("none")).len()), (1, 0));
    assert_eq!((by_label.values(), by_label.count("x")), (vec![String::new(), "x".to_string()], 2));

    // By name: as text, or as the type that it has.
    assert_eq!(informer.by_index("length").get("12").len(), 1);
    assert_eq!(informer.by_index_of::<usize>("length").unwrap().count(&1), 2);
    let error = informer.by_index_of::<u8>("length").unwrap_err().to_string();
    assert!(error.contains("index \"length\" holds values of type usize, not u8"), "{error}");
    assert!(informer.try_label_index("l").unwrap_err().to_string().contains("\"label:l\" already"));

    // A name that was given anew does not mislead those who hold the old index.
    informer.remove_index("length").unwrap();
    assert!(by_length.values().is_empty() && by_length.try_get(&1).is_err());
    informer.index("length", |_: &Obj<DynamicObject>| "no number");
    assert!(by_length.values().is_empty() && by_length.try_get(&1).is_err());
}

#[test]
fn a_label_index_answers_as_a_look_at_every_object_does() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let mut hand = Hand::take(&factory);
    hand.list(&["a", "b", "c"]);
    hand.watch("MODIFIED", "a", 6, "x");
    hand.watch("MODIFIED", "b", 7, "y");
    let selectors = ["l=x", "l in (x,y)", "l", "l!=x", "l notin (x)", "!l", "l=x,l!=x", "other,l=x", "!other,l=y", ""];
    let answers = || {
        let lister = informer.lister();
        let found = selectors.map(|selector| {
            let selector = selector.parse().unwrap();
            let mut everywhere: Vec<_> = lister.matching(&selector).iter().map(|o| o.key().to_string()).collect();
            everywhere.sort();
            assert_eq!(lister.namespace("web").matching(&selector).len(), everywhere.len());
            assert!(lister.namespace("db").matching(&selector).is_empty());
            everywhere
        });
        assert!(lister.matching(&LabelSelector::nothing()).is_empty());
        found
    };
    let before = answers();
    assert_eq!((before[0].len(), before[1].len(), before[2].len(), before[3].len()), (1, 2, 3, 2));
    informer.label_index("l");
    assert_eq!(answers(), before);
    hand.watch("DELETED", "a", 8, "");
    assert_eq!(answers()[..3], [vec![], vec!["web/b".to_string()], vec!["web/b".to_string(), "web/c".to_string()]]);
}

#[test]
fn pages_are_of_one_instant_and_a_token_outlives_it() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let mut hand = Hand::take(&factory);
    hand.list(&["e", "c", "a", "d", "b"]);
    let lister = informer.lister();
    let names = |page: &Page<DynamicObject>| -> String { page.objects.iter().map(|o| o.key().name()).collect() };

    let pages = lister.pages(2);
    assert_eq!(pages.iter().map(|page| names(&page)).collect::<Vec<_>>(), ["ab", "cd", "e"]);
    let first = pages.first();
    assert_eq!((first.remaining, first.version.to_string().as_str(), first.moved), (3, "5", false));
    let token = first.next.unwrap().to_string();

    hand.watch("DELETED", "c", 6, "");
    hand.watch("ADDED", "bb", 7, "");
    hand.watch("ADDED", "aa", 8, "x");
    let held = lister.page_after(&token, 2).unwrap();
    assert_eq!((names(&held).as_str(), held.moved), ("cd", false), "someone holds these pages");
    assert_eq!(lister.pages(0).iter().map(|page| names(&page)).collect::<Vec<_>>(), ["aaabbbde"]);

    drop(pages);
    let gone = lister.page_after(&token, 2).unwrap();
    assert_eq!((names(&gone).as_str(), gone.moved, gone.remaining), ("bbd", true, 1), "what follows b now");
    let last = lister.page_after(&gone.next.unwrap().to_string(), 2).unwrap();
    assert_eq!((names(&last).as_str(), last.next), ("e", None));

    // Of a namespace, and of what a selector selects.
    let selector: LabelSelector = "l=x".parse().unwrap();
    assert_eq!(names(&lister.namespace("web").pages(0).first()), "aaabbbde");
    assert_eq!(names(&lister.pages_matching(&selector, 9).first()), "aa");
    assert!(lister.namespace("db").pages(3).is_empty());
    let refused = [
        lister.namespace("web").page_after(&token, 2).unwrap_err(),
        lister.page_after_matching(&selector, &token, 2).unwrap_err(),
    ];
    assert_eq!(refused, [TokenError::OtherList, TokenError::OtherList]);
    let error = Error::from(lister.page_after("not a token", 2).unwrap_err()).to_string();
    assert!(error.starts_with("\"not a token\" is no page token: "), "{error}");
}

#[test]
fn who_asks_for_the_same_pages_while_nothing_changes_shares_them() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let mut hand = Hand::take(&factory);
    hand.list(&["a", "b"]);
    let lister = informer.lister();
    let same = |one: &Pages<_>, other: &Pages<_>| std::ptr::eq(one.objects(), other.objects());
    let first = lister.pages(1);
    assert!(same(&first, &lister.pages(7)), "sorted once");
    assert!(!same(&first, &lister.namespace("web").pages(1)));
    assert!(!same(&first, &lister.pages_matching(&"l".parse().unwrap(), 1)));
    hand.watch("MODIFIED", "a", 6, "x");
    assert!(!same(&first, &lister.pages(1)), "another instant");
    assert_eq!(first.objects()[0].version().to_string(), "5");
}

#[test]
fn pages_are_whole_while_objects_come_and_go() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let mut hand = Hand::take(&factory);
    let names: Vec<String> = (0..60).map(|n| format!("p{n:02}")).collect();
    hand.list(&names.iter().map(String::as_str).collect::<Vec<_>>());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let lister = informer.lister();
                for _ in 0..300 {
                    let pages = lister.pages(7);
                    let walked: Vec<_> = pages.iter().flat_map(|page| page.objects).collect();
                    assert!(walked.is_sorted_by(|a, b| a.key() < b.key()), "each object once (I6)");
                    assert!(walked.len() == pages.len() && walked.len() >= 50);
                }
            });
        }
        // At most ten are away at any time.
        for version in 6..1_200_u32 {
            let kind = if version / 10 % 2 == 0 { "DELETED" } else { "ADDED" };
            hand.watch(kind, &names[(version % 10) as usize], version, "");
        }
    });
}

/// Lines of what handlers were told.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    /// A handler that writes here.
    fn add(
        &self,
        informer: &InformerHandle<DynamicObject>,
        overflow: Overflow,
    ) -> (Registration, Box<dyn HandlerLoop>) {
        let log = self.clone();
        let mut options = HandlerOptions::default();
        options.overflow = overflow;
        informer.handler(options, move |event: &Notification<_>| log.0.lock().push(event.to_string()))
    }

    /// What came since the last call.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// Delivers all that is there.
fn run(handler: &mut Box<dyn HandlerLoop>) {
    while handler.step() == Step::Delivered {}
}

#[test]
fn a_handler_that_removes_itself_gets_nothing_more_of_the_batch_that_it_walks() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let me: Arc<OnceLock<Registration>> = Arc::default();
    let (inside, log) = (Arc::clone(&me), Log::default());
    let told = log.clone();
    let (registration, mut handler) = informer.handler(HandlerOptions::default(), move |event: &Notification<_>| {
        told.0.lock().push(event.to_string());
        if event.object().version().as_str() == "7" {
            inside.get().unwrap().remove();
        }
    });
    me.set(registration.clone()).unwrap();
    let (stays, mut other) = Log::default().add(&informer, Overflow::default());
    let mut hand = Hand::take(&factory);
    hand.list(&["a"]);
    hand.update(6..=9);
    run(&mut handler);
    assert_eq!(log.take(), ["added web/a@5", "updated web/a@6 (was 5)", "updated web/a@7 (was 6)"]);
    assert_eq!((handler.step(), registration.pending(), stays.pending()), (Step::Closed, 0, 4));
    run(&mut other);
    assert_eq!(stays.pending(), 0);
}

#[test]
fn a_batch_that_a_handler_walks_is_merged_from_where_it_stands_and_counts_as_far_as_it_waits() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let log = Log::default();
    let (registration, mut handler) = log.add(&informer, Overflow::Coalesce { limit: 4 });
    let mut hand = Hand::take(&factory);
    hand.list(&["a"]);
    run(&mut handler);
    hand.update(6..=10);
    assert_eq!((handler.step(), handler.step(), registration.pending()), (Step::Delivered, Step::Delivered, 3));
    hand.update(11..=11);
    assert_eq!((registration.pending(), registration.stats().merged), (4, 0), "exact up to the limit");
    hand.update(12..=20);
    assert_eq!((registration.pending(), registration.stats().merged), (4, 9));
    run(&mut handler);
    let merged = ["updated web/a@10 (was 9)", "updated web/a@20 (was 10)"];
    assert_eq!(log.take().split_off(5), merged);
    assert_eq!(registration.stats().high_water, 5);
}

#[test]
fn a_handler_that_is_done_and_one_that_sleeps_keep_no_old_object_alive() {
    let factory = factory();
    let made: Arc<Mutex<Vec<Weak<()>>>> = Arc::default();
    let list = Arc::clone(&made);
    let count = move |_| {
        let value = Arc::new(());
        list.lock().push(Arc::downgrade(&value));
        Ok(value)
    };
    let informer = factory.informer(spec().transform(count)).unwrap();
    let mut options = HandlerOptions::named("sleeps");
    options.overflow = Overflow::Coalesce { limit: 3 };
    let (sleeps, mut sleeper) = informer.handler(options, |_: &Notification<_>| {});
    let (_wakes, mut handler) = informer.handler(HandlerOptions::named("wakes"), |_: &Notification<_>| {});
    let mut hand = Hand::take(&factory);
    hand.list(&["a"]);
    run(&mut sleeper);
    for version in 6..100 {
        hand.update(version..=version);
        run(&mut handler);
    }
    let alive = || made.lock().iter().filter(|value| value.strong_count() > 0).count();
    // One is as good as running, three are exact, and the last of them ends at what is in the store.
    assert_eq!((sleeps.pending(), alive()), (4, 5));
    run(&mut sleeper);
    assert_eq!(alive(), 1, "what is in the store");
}

#[test]
fn an_informer_waits_for_a_handler_that_asks_for_it_and_goes_on_at_half() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let (log, other) = (Log::default(), Log::default());
    let (registration, mut handler) = log.add(&informer, Overflow::Pause { limit: 4 });
    let (_prompt, mut prompt) = other.add(&informer, Overflow::default());
    let mut hand = Hand::take(&factory);
    hand.list(&["a"]);
    run(&mut handler);
    hand.update(6..=10);
    assert_eq!((hand.paused, registration.pending()), (None, 5), "one of five is as good as running");
    assert!(informer.held_up_by().is_empty());
    hand.update(11..=11);
    assert_eq!((hand.paused, registration.pending()), (hand.last, 6));
    assert_eq!(informer.held_up_by(), [registration.name()]);
    let late = informer.wait_at_least(&informer_core::Version::new("12"), Duration::ZERO).unwrap_err().to_string();
    let (name, why) = (registration.name(), "it stands for version 11; it waits for handler");
    assert!(late.ends_with(&format!("{why} {name}, which is full")), "{late}");
    hand.update(12..=30);
    assert_eq!((registration.pending(), versions(&informer)), (6, vec!["web/a@11".to_string()]), "it was read already");
    run(&mut prompt);
    for left in [5, 4, 3] {
        handler.step();
        hand.tell(IoEvent::Tick);
        assert_eq!((hand.paused, registration.pending()), (hand.last, left));
    }
    handler.step();
    hand.tell(IoEvent::Tick);
    assert_eq!((hand.paused, registration.pending()), (hand.last, 21), "at two it went on, and is full again");
    while hand.paused.is_some() {
        assert_eq!(handler.step(), Step::Delivered);
        hand.tell(IoEvent::Tick);
    }
    run(&mut handler);
    run(&mut prompt);
    assert!(informer.held_up_by().is_empty());
    assert_eq!((log.take().len(), other.take().len()), (26, 26), "each one, unmerged");
    assert_eq!((registration.stats().pauses, registration.stats().merged, registration.panics()), (2, 0, 0));
}

#[test]
fn an_informer_does_not_wait_for_a_full_handler_that_is_removed_or_panics_nor_after_a_stop() {
    let full = || {
        let factory = factory();
        let informer = factory.informer(spec()).unwrap();
        let mut options = HandlerOptions::default();
        options.overflow = Overflow::Pause { limit: 1 };
        let panics = |_: &Notification<_>| panic!("a panic that belongs to the test");
        let handlers = [informer.handler(options.clone(), panics), informer.handler(options, panics)];
        let mut hand = Hand::take(&factory);
        hand.list(&["a"]);
        hand.update(6..=9);
        assert_eq!(hand.paused, hand.last);
        (factory, informer, hand, handlers)
    };

    let (_factory, informer, mut hand, [(first, _one), (second, _other)]) = full();
    hand.update(10..=10);
    assert_eq!(informer.held_up_by(), [first.name(), second.name()]);
    first.remove();
    hand.tell(IoEvent::Tick);
    assert_eq!(hand.paused, hand.last, "the other one is full, too");
    assert_eq!(informer.held_up_by(), [second.name()]);
    second.remove();
    hand.tell(IoEvent::Tick);
    assert_eq!((hand.paused, versions(&informer)), (None, vec!["web/a@10".to_string()]));

    let (_factory, _informer, mut hand, [(first, mut one), (_second, mut other)]) = full();
    run(&mut one);
    run(&mut other);
    hand.tell(IoEvent::Tick);
    assert_eq!((hand.paused, first.panics(), first.has_synced()), (None, 5, true));

    let (factory, informer, mut hand, [(_first, mut one), _second]) = full();
    factory.request_stop();
    hand.tell(IoEvent::Stop);
    assert!(informer.held_up_by().is_empty());
    assert!(hand.drive.is_stopped() && hand.paused.is_none());
    assert_eq!(one.step(), Step::Closed);
}

#[test]
fn an_observer_is_told_once_that_handlers_hold_up_an_informer_and_once_that_it_goes_on() {
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let lines = Arc::clone(&told);
    let observer = Arc::new(move |observed: &Observed<'_>| {
        if let Observed::HeldUp { .. } | Observed::Resumed { .. } = observed {
            assert!(!observed.is_failure());
            lines.lock().push(observed.to_string());
        }
    });
    let take = || std::mem::take(&mut *told.lock());
    let factory = factory_with(FactoryOptions::observed(observer));
    let informer = factory.informer(spec()).unwrap();
    let named = |name: &str| HandlerOptions::named(name).with_overflow(Overflow::Pause { limit: 4 });
    let (first, mut one) = informer.handler(named("first"), |_: &Notification<_>| {});
    let (second, _other) = informer.handler(named("second"), |_: &Notification<_>| {});
    let mut hand = Hand::take(&factory);
    hand.list(&["a"]);
    hand.update(6..=9);
    assert!(take().is_empty(), "there is room");

    hand.update(10..=14);
    assert_eq!(take(), ["pods: held up by handlers first, second, which are full"]);
    hand.tell(IoEvent::Tick);
    run(&mut one);
    hand.tell(IoEvent::Tick);
    assert_eq!(informer.held_up_by(), [second.name()]);
    assert!(take().is_empty(), "it is held up as before");
    second.remove();
    hand.tell(IoEvent::Tick);
    assert_eq!(take(), ["pods: held up no more"]);

    // What was read in the meantime fills the first one again, or more does.
    hand.update(15..=30);
    assert_eq!(take(), ["pods: held up by handler first, which is full"]);
    assert_eq!(informer.held_up_by(), [first.name()]);
    hand.tell(IoEvent::Stop);
    assert!(take().is_empty() && hand.drive.is_stopped(), "it does not go on");
}

/// Handlers come and go on threads of their own while the world changes: each sees a legal chain from the initial state to
/// the end.
#[test]
fn handlers_that_come_while_events_come_see_one_unbroken_world() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let mut hand = Hand::take(&factory);
    let names: Vec<String> = (0..6).map(|n| format!("p{n}")).collect();
    hand.list(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|n| {
                let (informer, over) = (&informer, &over);
                scope.spawn(move || {
                    let policies = [
                        Overflow::Coalesce { limit: 3 },
                        Overflow::Unbounded,
                        Overflow::default(),
                        Overflow::Pause { limit: 100 },
                    ];
                    let (mut rounds, mut last) = (0, false);
                    while !last {
                        last = over.load(Ordering::SeqCst);
                        let mut options = HandlerOptions::default();
                        options.overflow = policies[(n + rounds) % 4];
                        let seen = Arc::new(Mutex::new(std::collections::BTreeMap::new()));
                        let view = Arc::clone(&seen);
                        let (registration, mut handler) = informer.handler(options, move |event: &Notification<_>| {
                            let (key, mut view) = (event.key().to_string(), view.lock());
                            let before = if let Notification::Deleted { .. } = event {
                                view.remove(&key)
                            } else {
                                view.insert(key, event.object().version().to_string())
                            };
                            assert_eq!(before, event.old().map(|old| old.version().to_string()), "{event}");
                        });
                        rounds += 1;
                        // Some leave early, the last one stays to the end.
                        let mut steps = 0;
                        while last || steps < 40 * rounds {
                            match handler.step() {
                                Step::Delivered => steps += 1,
                                Step::Empty(_) if last && registration.has_synced() => break,
                                Step::Empty(seen) => {
                                    let soon = Instant::now() + Duration::from_millis(1);
                                    handler.signal().wait_past(seen, Some(soon));
                                    steps += 1;
                                }
                                Step::Closed => break,
                            }
                        }
                        assert_eq!(registration.panics(), 0);
                        registration.remove();
                        assert_eq!(handler.step(), Step::Closed);
                        if last {
                            let seen: Vec<_> =
                                seen.lock().iter().map(|(key, version)| format!("{key}@{version}")).collect();
                            assert_eq!(seen, versions(informer));
                        }
                    }
                    rounds
                })
            })
            .collect();
        for version in 6..3_000_u32 {
            let name = &names[(version as usize * 7) % names.len()];
            let kind = if version % 5 == 0 { "DELETED" } else { "MODIFIED" };
            hand.watch_all(&[(kind, name, 2 * version, ""), ("MODIFIED", name, 2 * version + 1, "")]);
        }
        // What a full handler held up.
        while hand.paused.is_some() {
            hand.tell(IoEvent::Tick);
            std::thread::yield_now();
        }
        over.store(true, Ordering::SeqCst);
        while !threads.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            hand.tell(IoEvent::Tick);
            std::thread::yield_now();
        }
        assert!(threads.into_iter().all(|thread| thread.join().unwrap() > 1));
    });
}

/// What an object is called and which version it is follows from the wire (T45), or every change would look like a
/// repeat (T50).
#[test]
fn a_transform_that_leaves_nothing_of_the_metadata_renames_nothing_and_hides_no_change() {
    let strips = |_| DynamicObject::decode(br#"{"metadata":{"namespace":"db","name":"other"}}"#, &pods());
    let factory = factory();
    let informer = factory.informer(spec().transform(strips).resync(Duration::from_secs(2))).unwrap();
    let (_registration, mut deliveries) = informer.channel(HandlerOptions::default());
    let mut hand = Hand::take(&factory);
    hand.list(&["a", "b"]);
    hand.now = Time::from_millis(2_000);
    hand.tell(IoEvent::Tick);
    let resyncs = ["resync web/a@5", "resync web/b@5"];
    assert_eq!(told(&mut deliveries), [&["added web/a@5", "added web/b@5", "synced"][..], &resyncs].concat());
    hand.watch("MODIFIED", "a", 6, "");
    hand.watch("MODIFIED", "a", 7, "");
    hand.watch("DELETED", "b", 8, "");
    assert_eq!(told(&mut deliveries), ["updated web/a@6 (was 5)", "updated web/a@7 (was 6)", "deleted web/b@8"]);
    assert_eq!(versions(&informer), ["web/a@7"]);
    assert!(informer.lister().get(&Key::new("db", "other")).is_none());
}

#[test]
fn one_function_that_is_handed_over_twice_is_two_handlers() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let calls = Arc::new(AtomicU32::new(0));
    let mine = Arc::clone(&calls);
    let count = move |_: &Notification<DynamicObject>| _ = mine.fetch_add(1, Ordering::Relaxed);
    let (first, mut one) = informer.handler(HandlerOptions::named("h"), count.clone());
    let (second, mut two) = informer.handler(HandlerOptions::named("h"), count);
    let mut hand = Hand::take(&factory);
    hand.list(&["a"]);
    for handler in [&mut one, &mut two] {
        while handler.step() == Step::Delivered {}
    }
    assert_eq!(calls.load(Ordering::Relaxed), 2, "each is told");
    first.remove();
    hand.watch("MODIFIED", "a", 6, "");
    assert_eq!((one.step(), two.step()), (Step::Closed, Step::Delivered));
    assert_eq!((calls.load(Ordering::Relaxed), first.was_removed(), second.was_removed()), (3, true, false));
}

#[test]
fn a_wait_for_what_is_there_succeeds_although_its_time_is_over_and_all_has_stopped() {
    let (factory, over) = (factory(), Duration::ZERO);
    factory.wait_synced(over).unwrap();
    let informer = factory.informer(spec()).unwrap();
    let (registration, mut handler) = informer.handler(HandlerOptions::default(), |_: &Notification<_>| {});
    let mut hand = Hand::take(&factory);
    assert!(matches!(factory.wait_synced(over), Err(Error::NotSynced(_))));
    assert!(!registration.wait_synced(over).unwrap());
    hand.list(&["a"]);
    while handler.step() == Step::Delivered {}
    let succeed = || factory.wait_synced(over).is_ok() && registration.wait_synced(over).unwrap();
    assert!(succeed());
    factory.request_stop();
    drop(hand);
    assert!(informer.is_stopped() && succeed());
}
