//! An informer that is fed by hand, without threads of an adapter: what is in the cache when a call returns, what handlers
//! are told, what comes back, and how it ends.

use informer_core::fed::Change;
use informer_core::fifo::QueueKind;
use informer_core::informer::Notice;
use informer_core::listener::Overflow;
use informer_core::reflector::Phase;
use informer_core::time::{Duration, Time};
use informer_core::{DynamicObject, Key, Obj, Object, Resource, Uid, Version};
use informer_runtime::acknowledged::{ItemOptions, Items};
use informer_runtime::controller::{ControllerBuilder, Work};
use informer_runtime::driver::{Drive, IoAction, IoEvent};
use informer_runtime::events::Events;
use informer_runtime::factory::{FactoryCore, FactoryOptions, Lives};
use informer_runtime::feeder::{FedSpec, Feeder, Refusal};
use informer_runtime::handler::{Deliveries, HandlerOptions, Next};
use informer_runtime::informer::{InformerHandle, InformerSpec, Step};
use informer_runtime::mutation::MutationCheck;
use informer_runtime::observe::Observed;
use informer_runtime::sync::{Arc, Mutex, OnceLock};
use informer_runtime::{Config, Error};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

fn lights() -> Resource {
    Resource::namespaced("example.com", "v1", "lights", "Light")
}

fn spec() -> FedSpec<u32> {
    FedSpec::of(lights())
}

fn factory() -> FactoryCore {
    factory_with(FactoryOptions::default())
}

fn factory_with(options: FactoryOptions) -> FactoryCore {
    FactoryCore::new(Config::from_url("http://127.0.0.1:1").unwrap(), options)
}

fn light(name: &str, version: u32) -> Obj<u32> {
    Obj::new(Key::new("hall", name), Uid::new(name), Version::new(&version.to_string()), version)
}

fn applied(name: &str, version: u32) -> Change<u32> {
    Change::Applied(light(name, version))
}

fn at(version: &str) -> Version {
    Version::new(version)
}

/// What waits for a handler.
fn told(deliveries: &mut Deliveries<u32>) -> Vec<String> {
    let mut told = Vec::new();
    while let Next::Delivery(delivery) = deliveries.try_next() {
        told.push(match delivery {
            informer_runtime::handler::Lent::Notification(notification) => notification.to_string(),
            informer_runtime::handler::Lent::Synced => "synced".to_string(),
        });
    }
    told
}

fn is_closed(deliveries: &mut Deliveries<u32>) -> bool {
    matches!(deliveries.try_next(), Next::Closed)
}

fn cached(informer: &InformerHandle<u32>) -> Vec<String> {
    let mut lines: Vec<_> = informer.lister().list().iter().map(|object| format!("{object:?}")).collect();
    lines.sort();
    lines
}

/// What an adapter does when it is woken. Returns when it wants to be called again.
fn drive(drive: &mut dyn Drive, now: Time, event: IoEvent<'_>) -> Option<Time> {
    drive.handle(now, event);
    let action = drive.poll(now);
    let IoAction::Wait(deadline) = action else { panic!("{action:?}: nothing is sent where everything comes by hand") };
    deadline.map(|deadline| deadline.at)
}

/// Two of one factory that is not started: an informer and what feeds it.
fn fed() -> (FactoryCore, InformerHandle<u32>, Feeder<u32>) {
    let factory = factory();
    let (informer, feeder) = factory.fed(spec()).unwrap();
    (factory, informer, feeder)
}

#[test]
fn what_is_fed_is_in_the_cache_and_told_when_the_call_returns_before_any_start() {
    let (_factory, informer, feeder) = fed();
    let (_, mut early) = informer.channel(HandlerOptions::default());
    let odd = informer.index("odd", |n| **n % 2 == 1);
    feeder.list([light("a", 1), light("b", 2)], at("2")).unwrap();
    assert_eq!(cached(&informer), ["hall/a@1", "hall/b@2"]);
    assert_eq!(told(&mut early), ["added hall/a@1", "added hall/b@2", "synced"]);
    feeder.apply(applied("a", 3)).unwrap();
    let (_, mut late) = informer.channel(HandlerOptions::default());
    feeder.apply_all([Change::Deleted(light("b", 4)), applied("c", 5)]).unwrap();
    assert_eq!(told(&mut early), ["updated hall/a@3 (was 1)", "deleted hall/b@4", "added hall/c@5"]);
    assert_eq!(told(&mut late), ["added hall/a@3", "added hall/b@2", "synced", "deleted hall/b@4", "added hall/c@5"]);
    feeder.list([light("c", 5), light("d", 6)], at("6")).unwrap();
    assert_eq!(told(&mut early), ["deleted hall/a@3 (final state unknown)", "added hall/d@6"]);
    assert_eq!((odd.get(&true).len(), informer.lister().namespace("hall").list().len()), (1, 2));
    assert_eq!((feeder.version().as_str(), informer.phase()), ("6", Phase::Watching));
    assert!(informer.has_synced() && informer.last_contact().is_none() && informer.degraded_since().is_none());
    informer.refresh();
    assert_eq!(format!("{feeder:?}"), "feeder of lights.example.com");
}

#[test]
fn a_key_that_is_gone_is_told_with_what_the_cache_had() {
    let (_factory, informer, feeder) = fed();
    let (_, mut handler) = informer.channel(HandlerOptions::default());
    let key = |name: &str| Key::new("hall", name);
    let refused = feeder.delete(&key("a")).unwrap_err();
    assert_eq!((refused.why.clone(), format!("{:?}", refused.fed)), (Refusal::NoList, "deleted hall/a".to_string()));
    feeder.list([light("a", 1), light("b", 2)], at("2")).unwrap();
    feeder.delete(&key("a")).unwrap();
    feeder.delete(&key("a")).unwrap();
    feeder.delete(&key("c")).unwrap();
    assert_eq!(
        told(&mut handler),
        ["added hall/a@1", "added hall/b@2", "synced", "deleted hall/a@1 (final state unknown)"]
    );
    assert_eq!((cached(&informer), feeder.version().as_str()), (vec!["hall/b@2".to_string()], "2"));
}

#[test]
fn what_is_fed_decides_and_not_what_the_cache_has() {
    let (_factory, informer, feeder) = fed();
    let (_, mut handler) = informer.channel(HandlerOptions::default());
    let of =
        |uid: &str, version: &str, n: u32| Obj::new(Key::new("hall", "a"), Uid::new(uid), Version::new(version), n);
    feeder.list([of("u", "5", 1)], at("5")).unwrap();
    told(&mut handler);
    let value = || *informer.lister().get(&Key::new("hall", "a")).unwrap().value();
    feeder.apply(Change::Applied(of("u", "3", 2))).unwrap();
    assert_eq!((told(&mut handler), feeder.version().as_str()), (vec!["updated hall/a@3 (was 5)".to_string()], "3"));
    feeder.list([of("u", "3", 3)], at("6")).unwrap();
    assert_eq!((told(&mut handler).len(), value()), (0, 2), "the same version");
    feeder.apply(Change::Applied(of("u", "3", 4))).unwrap();
    assert_eq!((told(&mut handler).len(), value()), (1, 4), "it is said to change");
    for n in [5, 6] {
        feeder.list([of("u", "", n)], at("7")).unwrap();
        assert_eq!((told(&mut handler).len(), value()), (1, n), "no version");
    }
    feeder.apply(Change::Applied(of("v", "8", 7))).unwrap();
    assert_eq!(told(&mut handler), ["deleted hall/a@ (final state unknown)", "added hall/a@8"]);
}

#[test]
fn what_is_wrong_with_an_informer_that_is_fed_is_said_in_its_words() {
    let (factory, informer, feeder) = fed();
    let lagging = factory.lagging();
    assert_eq!(lagging.len(), 1);
    assert_eq!(lagging[0].to_string(), "lights.example.com: nothing was fed yet: call Feeder::list");
    feeder.list([light("a", 1)], Version::default()).unwrap();
    assert!(factory.lagging().is_empty());
    let error = informer.catch_up_to(&at("7")).late().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the cache of lights.example.com has not come to version 7: the time is over; it stands for no version"
    );
}

#[test]
fn what_is_fed_before_the_start_can_be_waited_for() {
    let (factory, informer, feeder) = fed();
    let waits = {
        let informer = informer.clone();
        std::thread::spawn(move || informer.wait_at_least(&at("7"), Duration::from_secs(600)).map(|_| ()))
    };
    feeder.list([light("a", 1)], at("5")).unwrap();
    feeder.apply(applied("a", 7)).unwrap();
    waits.join().unwrap().unwrap();
    factory.request_stop();
    let error = informer.wait_at_least(&at("9"), Duration::from_secs(600)).err().unwrap();
    assert_eq!(
        error.to_string(),
        "the cache of lights.example.com has not come to version 9: it was stopped; it stands for version 7"
    );
}

#[test]
fn many_changes_are_one_call_in_either_order() {
    for queue in [QueueKind::InOrder, QueueKind::DeltaFifo] {
        let factory = factory();
        let (informer, feeder) = factory.fed(spec().queue(queue)).unwrap();
        let (_, mut handler) = informer.channel(HandlerOptions::named("all").with_overflow(Overflow::Unbounded));
        feeder.list([], Version::default()).unwrap();
        feeder.apply_all((0..1_000).map(|n| applied(&format!("n{}", n % 7), n + 1))).unwrap();
        assert_eq!(told(&mut handler).len(), 1 + 1_000);
        assert_eq!((informer.lister().len(), feeder.version().as_str()), (7, "1000"));
    }
}

#[test]
fn changes_before_the_first_list_come_back() {
    let (_factory, informer, feeder) = fed();
    let refused = feeder.apply(applied("a", 1)).unwrap_err();
    assert_eq!((refused.why.clone(), format!("{:?}", refused.fed)), (Refusal::NoList, "applied hall/a@1".to_string()));
    assert_eq!(
        Error::from(refused).to_string(),
        "lights.example.com: changes were fed before the first list: feed the complete state first, which may be empty"
    );
    let refused = feeder.apply_all([applied("a", 1), applied("b", 2)]).unwrap_err();
    assert_eq!(format!("{:?}", refused.fed), "[applied hall/a@1, applied hall/b@2]");
    assert!(feeder.apply_all([]).is_ok(), "no change is none too early");
    feeder.list([], at("1")).unwrap();
    feeder.apply_all(refused.fed).unwrap();
    assert_eq!(informer.lister().len(), 2);
}

#[test]
fn while_a_handler_that_has_its_informer_wait_is_full_what_was_not_applied_comes_back() {
    let (_factory, informer, feeder) = fed();
    let options = HandlerOptions::named("slow").with_overflow(Overflow::Pause { limit: 100 });
    let (slow_one, mut slow) = informer.channel(options);
    let (_, mut other) = informer.channel(HandlerOptions::default());
    feeder.list([], at("1")).unwrap();
    assert_eq!(told(&mut slow), ["synced"]);
    let refused = feeder.apply_all((0..500).map(|n| applied("a", n + 2))).unwrap_err();
    assert_eq!(refused.why, Refusal::Full { handler: "slow".into() });
    assert!(refused.to_string().starts_with("lights.example.com: handler \"slow\" is full "), "{refused}");
    let applied_already = 500 - refused.fed.len();
    assert!((100..200).contains(&applied_already), "{applied_already}: what is over the limit is less than a part");
    assert_eq!(told(&mut other).len(), 1 + applied_already);
    assert_eq!(feeder.version().as_str(), (applied_already + 1).to_string(), "what came before was applied");
    assert_eq!(format!("{:?}", feeder.apply(applied("b", 9)).unwrap_err().fed), "applied hall/b@9");
    let all = feeder.list([light("b", 9)], at("9")).unwrap_err();
    assert_eq!((all.fed.len(), cached(&informer).len()), (1, 1), "a list that is refused changes nothing");
    feeder.wait_room(Duration::ZERO).unwrap();

    let (mut left, mut seen) = (refused.fed, applied_already);
    assert_eq!(told(&mut slow).len(), applied_already);
    while let Err(refused) = feeder.apply_all(left) {
        left = refused.fed;
        feeder.wait_room(Duration::ZERO).unwrap();
        seen += told(&mut slow).len();
    }
    seen += told(&mut slow).len();
    assert_eq!((seen, feeder.version().as_str()), (500, "501"), "nothing is lost");

    // One that is gone holds up nothing.
    feeder.apply_all((0..64 * 3).map(|n| applied("a", n + 502))).unwrap_err();
    slow_one.remove();
    feeder.apply(applied("a", 1_000)).unwrap();
}

#[test]
fn who_waits_for_room_is_woken_when_there_is_some() {
    let (_factory, informer, feeder) = fed();
    let options = HandlerOptions::named("slow").with_overflow(Overflow::Pause { limit: 1 });
    let (_, mut slow) = informer.channel(options);
    feeder.list([], at("1")).unwrap();
    feeder.apply_all((0..9).map(|n| applied("a", n + 2))).unwrap();
    feeder.apply(applied("a", 11)).unwrap_err();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| feeder.wait_room(Duration::from_secs(600)));
        while !waiting.is_finished() {
            told(&mut slow);
            std::thread::yield_now();
        }
        waiting.join().unwrap().unwrap();
    });
    feeder.apply(applied("a", 11)).unwrap();
}

#[test]
fn a_wait_for_room_inside_a_handler_is_refused() {
    let (_factory, _informer, feeder) = fed();
    let refused = informer_runtime::guard::call(|| feeder.wait_room(Duration::ZERO)).unwrap().unwrap_err();
    assert!(matches!(refused, Error::WouldDeadlock { what: "wait_room()", .. }), "{refused}");
}

#[test]
fn handlers_come_and_go_and_resyncs_fire_while_nobody_feeds() {
    let factory = factory();
    let (informer, feeder) = factory.fed(spec().resync(Duration::from_secs(60))).unwrap();
    let mut adapter = factory.take_unstarted().remove(0);
    let clock = factory.clock();
    assert_eq!(drive(&mut *adapter, clock.now(), IoEvent::Start), None, "there is nothing to do");
    let (one, mut first) = informer.channel(HandlerOptions::default());
    assert_eq!(drive(&mut *adapter, clock.now(), IoEvent::Tick), None);
    let seen = factory.wake().generation();
    feeder.list([light("a", 1)], at("1")).unwrap();
    assert!(factory.wake().generation() > seen, "the adapter slept, and now there is a timer");
    let seen = factory.wake().generation();
    feeder.apply(applied("b", 2)).unwrap();
    assert_eq!(factory.wake().generation(), seen, "it knows of it");
    assert!(drive(&mut *adapter, clock.now(), IoEvent::Tick).is_some());
    assert_eq!(told(&mut first), ["added hall/a@1", "synced", "added hall/b@2"]);

    let (_, mut second) = informer.channel(HandlerOptions::default().with_resync(Duration::ZERO));
    let later = clock.now() + Duration::from_secs(60);
    drive(&mut *adapter, later, IoEvent::Tick);
    assert_eq!(told(&mut first), ["resync hall/a@1", "resync hall/b@2"]);
    assert_eq!(told(&mut second), ["added hall/a@1", "added hall/b@2", "synced"]);
    one.remove();
    drive(&mut *adapter, later, IoEvent::Tick);
    feeder.apply(applied("c", 3)).unwrap();
    assert!(is_closed(&mut first));
    assert_eq!(told(&mut second), ["added hall/c@3"]);
}

#[test]
fn after_a_stop_everything_comes_back_and_handlers_have_ended() {
    type Stop = fn(&FactoryCore, &InformerHandle<u32>, Option<Box<dyn Drive>>);
    let ways: [(&str, Stop); 5] = [
        ("the factory before the start", |factory, _, adapter| {
            assert!(adapter.is_none());
            factory.request_stop();
        }),
        ("the informer before the start", |_, informer, adapter| {
            assert!(adapter.is_none());
            informer.request_stop();
        }),
        ("the informer", |_, informer, adapter| {
            informer.request_stop();
            let mut adapter = adapter.unwrap();
            drive(&mut *adapter, Time::ZERO, IoEvent::Tick);
            assert!(adapter.is_stopped());
        }),
        ("the adapter", |_, _, adapter| {
            let mut adapter = adapter.unwrap();
            drive(&mut *adapter, Time::ZERO, IoEvent::Stop);
            assert!(adapter.is_stopped());
        }),
        ("an adapter that is dropped", |_, _, adapter| drop(adapter)),
    ];
    for (way, stop) in ways {
        let (factory, informer, feeder) = fed();
        let (_, mut handler) = informer.channel(HandlerOptions::default());
        let adapter = (!way.ends_with("before the start")).then(|| factory.take_unstarted().remove(0));
        feeder.list([light("a", 1)], at("1")).unwrap();
        stop(&factory, &informer, adapter);
        assert!(is_closed(&mut handler), "{way}");
        drop(handler);
        let refused = feeder.apply(applied("b", 2)).unwrap_err();
        assert_eq!(
            (refused.why, refused.fed.object().unwrap().version()),
            (Refusal::Stopped, at("2").borrowed()),
            "{way}"
        );
        let refused = feeder.list([light("b", 2)], at("2")).unwrap_err();
        assert_eq!((refused.why, refused.fed.len()), (Refusal::Stopped, 1), "{way}");
        assert_eq!(cached(&informer), ["hall/a@1"], "{way}: what is cached can be read as before");
        assert_eq!(informer.lives().count(), 0, "{way}: who keeps a feeder holds up no stop");
        feeder.wait_room(Duration::from_secs(600)).unwrap();
    }
}

#[test]
fn an_observer_that_feeds_what_it_observes_is_refused_and_not_stuck() {
    let feeder: Arc<OnceLock<Feeder<u32>>> = Arc::default();
    let refusals = Arc::new(Mutex::new(Vec::new()));
    let (known, noted) = (Arc::clone(&feeder), Arc::clone(&refusals));
    let observer = Arc::new(move |observed: &Observed<'_>| {
        if let (Observed::Notice { notice: Notice::Phase(phase), .. }, Some(feeder)) = (observed, known.get()) {
            let refused = feeder.list([light("a", 1)], at("1")).unwrap_err();
            assert!(matches!(refused.why, Refusal::Inside { .. }));
            noted.lock().push((*phase, refused.why.to_string(), refused.fed.len()));
        }
    });
    let factory = factory_with(FactoryOptions::observed(observer));
    let (informer, one) = factory.fed(spec()).unwrap();
    let mut adapter = factory.take_unstarted().remove(0);
    assert!(feeder.set(one).is_ok());
    feeder.get().unwrap().list([], at("1")).unwrap();
    drive(&mut *adapter, Time::ZERO, IoEvent::Stop);
    let why = "an informer was fed inside an observer or other code that the informer of lights.example.com calls while it \
               is fed, and might wait for itself: feed it from a handler or another thread";
    assert_eq!(
        *refusals.lock(),
        [(Phase::Watching, why.to_string(), 1), (Phase::Stopped, why.to_string(), 1)],
        "from a feeder's turn, and from the adapter's"
    );
    assert!(informer.is_stopped());
}

#[test]
fn an_informer_is_fed_from_its_own_handlers() {
    let (_factory, informer, feeder) = fed();
    let feeder = Arc::new(feeder);
    let inside = Arc::clone(&feeder);
    let echo = move |notification: &informer_core::listener::Notification<u32>| {
        let version: u32 = notification.key().name().len().try_into().unwrap();
        if version < 4 {
            let next = format!("{}x", notification.key().name());
            inside.apply(applied(&next, version + 1)).unwrap();
        }
    };
    let (_, mut handler) = informer.handler(HandlerOptions::default(), echo);
    feeder.list([light("x", 1)], at("1")).unwrap();
    while matches!(handler.step(), Step::Delivered) {}
    assert_eq!(cached(&informer), ["hall/x@1", "hall/xx@2", "hall/xxx@3", "hall/xxxx@4"]);
}

#[test]
fn an_informer_has_one_source() {
    let factory = factory();
    let _fed = factory.fed(FedSpec::<DynamicObject>::of(lights())).unwrap();
    let again = factory.fed(FedSpec::<DynamicObject>::of(lights())).unwrap_err();
    assert_eq!(
        again.to_string(),
        "there is an informer of lights.example.com already, with another \"source\": it has feeder 1, and feeder 2 is \
         asked for; ask for it with the same options, or use another factory"
    );
    let server = factory.informer(InformerSpec::<DynamicObject>::of(lights())).unwrap_err();
    assert!(server.to_string().contains("it has feeder 1, and a server is asked for"), "{server}");
    factory.request_stop();
    assert!(matches!(factory.fed(FedSpec::<u32>::of(lights())), Err(Error::Stopped)));
}

#[test]
fn an_object_on_which_an_index_function_panics_is_put_aside_and_reported() {
    let (_factory, informer, feeder) = fed();
    let inside = informer.clone();
    informer.index("picky", move |n| {
        // It runs under no lock of the cache: it may read it.
        assert_ne!(**n, 7, "a panic that belongs to the test");
        inside.lister().len()
    });
    feeder.list([light("a", 1), light("b", 7)], at("7")).unwrap();
    feeder.apply(applied("c", 3)).unwrap();
    assert_eq!(cached(&informer), ["hall/a@1", "hall/c@3"]);
    feeder.apply(applied("a", 7)).unwrap();
    assert_eq!(cached(&informer), ["hall/a@1", "hall/c@3"], "the last good version stays");
    let failure = informer.last_failure().expect("it is reported").to_string();
    assert!(failure.contains("hall/a at version 7 ") && failure.contains("of index \"picky\" panicked"), "{failure}");
}

#[test]
fn what_cannot_be_an_object_is_put_aside_and_told_and_the_rest_of_its_call_is_applied() {
    let failures = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&failures);
    let observer = Arc::new(move |observed: &Observed<'_>| {
        if let Observed::Notice { notice: Notice::Failure(failure), .. } = observed {
            assert!(failure.quarantined);
            noted.lock().push(failure.message.clone());
        }
    });
    let factory = factory_with(FactoryOptions::observed(observer));
    let (informer, feeder) = factory.fed(spec()).unwrap();
    informer.index("picky", |n| {
        assert_ne!(**n % 10, 7, "a panic that belongs to the test");
        **n
    });
    let (_, mut handler) = informer.channel(HandlerOptions::default());
    feeder.list([light("a", 1), light("", 2)], at("2")).unwrap();
    assert_eq!(told(&mut handler), ["added hall/a@1", "synced"]);
    assert_eq!(failures.lock().split_off(0).len(), 1);

    feeder.apply_all([applied("", 3), applied("a", 7), applied("a", 7), applied("b", 8)]).unwrap();
    assert_eq!(
        (told(&mut handler), cached(&informer)),
        (vec!["added hall/b@8".into()], vec!["hall/a@1".into(), "hall/b@8".into()])
    );
    let told_of = failures.lock().split_off(0);
    assert!(told_of.len() == 2 && told_of[0].contains("no name") && told_of[1].contains("hall/a"), "{told_of:?}");
    assert_eq!(feeder.version().as_str(), "8");

    let gone = |name: &str, version| Change::Deleted(light(name, version));
    feeder.apply_all([gone("", 9), gone("unknown", 10), Change::DeletedKey(Key::new("hall", ""))]).unwrap();
    assert_eq!((told(&mut handler), failures.lock().len(), feeder.version().as_str()), (vec![], 0, "10"));
    feeder.apply(applied("a", 11)).unwrap();
    assert_eq!(told(&mut handler), ["updated hall/a@11 (was 1)"]);
}

/// The one who asks is not held up, and hears of the room when the other one is done.
#[cfg(feature = "async")]
#[test]
fn a_task_that_asks_for_room_does_not_wait_for_who_feeds() {
    use std::future::Future;
    use std::sync::mpsc::channel;
    use std::task::{Context, Poll, Wake, Waker};

    struct Woken(AtomicU32);
    impl Wake for Woken {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.fetch_add(1, Ordering::Release);
        }
    }
    let (_factory, informer, feeder) = fed();
    let (begun, begins) = channel();
    let (go_on, goes_on) = channel();
    let steps = Mutex::new((begun, goes_on));
    informer.index("slow", move |n| {
        if **n == 7 {
            let steps = steps.lock();
            steps.0.send(()).unwrap();
            steps.1.recv().unwrap();
        }
        **n
    });
    feeder.list([], at("1")).unwrap();
    let woken = std::sync::Arc::new(Woken(AtomicU32::new(0)));
    let waker = Waker::from(std::sync::Arc::clone(&woken));
    let mut room = Box::pin(feeder.room());
    std::thread::scope(|scope| {
        let feeds = scope.spawn(|| feeder.apply(applied("a", 7)).unwrap());
        begins.recv().unwrap();
        // On this thread: the other one feeds until it is told to go on.
        assert!(room.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert!(feeder.wait_room(Duration::ZERO).is_ok(), "a deadline is kept beside who feeds");
        go_on.send(()).unwrap();
        feeds.join().unwrap();
    });
    assert!(woken.0.load(Ordering::Acquire) > 0);
    assert_eq!(room.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Ready(()));
}

#[test]
fn changes_of_cached_objects_are_found_as_ever() {
    let mutated = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&mutated);
    let observer = Arc::new(move |observed: &Observed<'_>| {
        if let Observed::Mutated { key, .. } = observed {
            noted.lock().push(key.as_str().to_string());
        }
    });
    let factory = factory_with(FactoryOptions::observed(observer));
    let check = MutationCheck::new(|n: &AtomicU32| u64::from(n.load(Ordering::Relaxed)));
    let (informer, feeder) = factory.fed(FedSpec::of(lights()).check_mutations(check)).unwrap();
    let make = |name: &str| Obj::new(Key::new("", name), Uid::new(name), at("1"), AtomicU32::new(1));
    feeder.list([make("a"), make("b")], at("1")).unwrap();
    informer.lister().get(&Key::new("", "b")).unwrap().store(2, Ordering::Relaxed);
    feeder.apply(Change::Deleted(make("b"))).unwrap();
    assert_eq!(*mutated.lock(), ["b"]);
}

#[test]
fn a_driver_that_panics_ends_its_informer_and_nobody_waits_for_it() {
    let factory = factory();
    let check = MutationCheck::new(|n: &AtomicU32| u64::from(n.load(Ordering::Relaxed))).panicking();
    let (informer, feeder) = factory.fed(FedSpec::of(lights()).check_mutations(check)).unwrap();
    let mut adapter = factory.take_unstarted().remove(0);
    let make = |version: &str| Obj::new(Key::new("", "a"), Uid::new("a"), at(version), AtomicU32::new(1));
    feeder.list([make("1")], at("1")).unwrap();
    informer.lister().get(&Key::new("", "a")).unwrap().store(2, Ordering::Relaxed);
    let change = || feeder.apply(Change::Applied(make("2")));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(change)).is_err());
    assert_eq!(change().unwrap_err().why, Refusal::Stopped);
    assert!(informer.is_stopped());
    assert_eq!(drive(&mut *adapter, Time::ZERO, IoEvent::Tick), None);
    assert!(adapter.is_stopped());
}

#[test]
fn a_panic_passes_over_its_own_notification_and_no_other() {
    let (_factory, informer, feeder) = fed();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let (registration, mut handler) = informer.handler(HandlerOptions::default(), move |notification| {
        let version = **notification.object();
        assert!(version % 5 != 0, "a panic that belongs to the test");
        noted.lock().push(version);
    });
    feeder.list([], at("1")).unwrap();
    feeder.apply_all((1..=64).map(|version| applied("a", version))).unwrap();
    while matches!(handler.step(), Step::Delivered) {}
    assert_eq!(*seen.lock(), (1..=64).filter(|version| version % 5 != 0).collect::<Vec<_>>());
    assert_eq!(registration.panics(), 12);
}

#[test]
fn what_a_handler_has_claimed_is_not_delivered_once_it_is_removed() {
    let (_factory, informer, feeder) = fed();
    let own = Arc::new(OnceLock::<informer_runtime::handler::Registration>::new());
    let (mine, seen) = (Arc::clone(&own), Arc::new(AtomicU32::new(0)));
    let counted = Arc::clone(&seen);
    let (registration, mut handler) = informer.handler(HandlerOptions::default(), move |_| {
        if counted.fetch_add(1, Ordering::Relaxed) + 1 == 3 {
            mine.get().unwrap().remove();
        }
    });
    own.set(registration).unwrap();
    feeder.list([], at("1")).unwrap();
    feeder.apply_all((2..66).map(|version| applied("a", version))).unwrap();
    while matches!(handler.step(), Step::Delivered) {}
    assert_eq!(seen.load(Ordering::Relaxed), 3);
}

#[test]
fn a_handler_that_falls_behind_while_it_walks_a_batch_sees_an_unbroken_chain() {
    for taken in 0..70 {
        let (_factory, informer, feeder) = fed();
        let (registration, mut handler) = informer.channel(HandlerOptions::default());
        feeder.list([light("a", 1)], at("1")).unwrap();
        feeder.apply_all((2..200).map(|version| applied("a", version))).unwrap();
        let mut last = 0;
        let mut follow = |most: usize, handler: &mut Deliveries<u32>| {
            let mut seen = 0;
            while seen < most {
                match handler.try_next() {
                    Next::Delivery(informer_runtime::handler::Lent::Notification(notification)) => {
                        let updated = if let informer_core::listener::Notification::Updated { old, .. } = notification {
                            Some(**old)
                        } else {
                            None
                        };
                        let old = updated.unwrap_or(0);
                        assert_eq!(old, last, "after {taken}: {notification}");
                        last = **notification.object();
                        seen += 1;
                    }
                    Next::Delivery(informer_runtime::handler::Lent::Synced) => {}
                    Next::Empty(_) | Next::Closed => break,
                }
            }
            last
        };
        follow(taken, &mut handler);
        feeder.apply_all((200..3_000).map(|version| applied("a", version))).unwrap();
        assert!(registration.stats().merged > 1_000 && registration.pending() < 1_100);
        assert_eq!(follow(usize::MAX, &mut handler), 2_999);
    }
}

#[test]
fn nothing_of_what_was_replaced_is_kept_for_long() {
    let many = |feeder: &Feeder<u32>, from| feeder.apply_all((from..from + 500).map(|n| applied("a", n))).unwrap();
    let (factory, informer, feeder) = fed();
    let (_, mut handler) = informer.channel(HandlerOptions::default());
    let mut adapter = factory.take_unstarted().remove(0);
    let first = light("a", 1);
    feeder.list([first.clone()], at("1")).unwrap();
    feeder.apply(applied("a", 2)).unwrap();
    told(&mut handler);
    assert!(Obj::is_last(&first), "after one change");

    let second = informer.lister().get(&Key::new("hall", "a")).unwrap();
    many(&feeder, 3);
    told(&mut handler);
    adapter.rest();
    assert!(Obj::is_last(&second), "after many, when an adapter has nothing to do");

    let third = informer.lister().get(&Key::new("hall", "a")).unwrap();
    many(&feeder, 503);
    told(&mut handler);
    many(&feeder, 1_003);
    assert!(Obj::is_last(&third), "after many, when more come");
}

#[test]
fn threads_may_feed_one_informer_together() {
    let (_factory, informer, feeder) = fed();
    let (_, mut handler) = informer.channel(HandlerOptions::named("all").with_overflow(Overflow::Unbounded));
    feeder.list([], Version::default()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let feeder = &feeder;
            scope.spawn(move || {
                for round in 0..50 {
                    let change = |n| applied(&format!("{thread}-{n}"), round + 1);
                    feeder.apply_all((0..10).map(change)).unwrap();
                    feeder.apply(change(0)).unwrap();
                }
            });
        }
    });
    assert_eq!((informer.lister().len(), told(&mut handler).len()), (40, 1 + 4 * 50 * 11));
}

#[test]
fn the_function_of_an_index_that_goes_while_it_is_asked_panics_when_it_is_dropped_and_ends_nothing() {
    struct Captured;
    impl Drop for Captured {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("on purpose")); // without a line on stderr
        }
    }
    let (_factory, informer, feeder) = fed();
    feeder.list([light("a", 1)], at("1")).unwrap();
    let (from, captured) = (informer.clone(), Captured);
    drop(informer.index("odd", move |n| {
        let _ = &captured;
        if **n == 2 {
            // Another thread, for which nobody waits but this function.
            let from = from.clone();
            std::thread::spawn(move || from.remove_index("odd").unwrap()).join().unwrap();
        }
        **n % 2 == 1
    }));
    feeder.apply(applied("a", 2)).unwrap();
    feeder.apply(applied("a", 3)).unwrap();
    assert_eq!(cached(&informer), ["hall/a@3"]);
}

/// T36, with readers of another thread.
#[test]
fn who_is_told_of_a_change_of_a_list_finds_the_whole_list_in_the_cache() {
    const NAMES: u32 = 20;
    const LISTS: u32 = 300;
    let (_factory, informer, feeder) = fed();
    let calls = Arc::new(AtomicU32::new(0));
    let mine = Arc::clone(&calls);
    let cache = informer.clone();
    let options = HandlerOptions::named("reads").with_overflow(Overflow::Unbounded);
    let (registration, mut handler) = informer.handler(options, move |event| {
        mine.fetch_add(1, Ordering::Relaxed);
        let objects = cache.lister().list();
        let versions: Vec<u32> = objects.iter().map(|object| **object).collect();
        assert_eq!(versions, vec![versions[0]; NAMES as usize - 1], "of one list, and all of it");
        assert!(versions[0] >= **event.object(), "{event} and what it belongs to is there");
    });
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                let last = over.load(Ordering::SeqCst);
                match handler.step() {
                    Step::Delivered => {}
                    Step::Empty(_) if last => return,
                    Step::Empty(seen) => {
                        let soon = Instant::now() + std::time::Duration::from_millis(1);
                        handler.signal().wait_past(seen, Some(soon));
                    }
                    Step::Closed => panic!("nobody stops it"),
                }
            }
        });
        for version in 1..=LISTS {
            // Another one is missing each time: a deletion and an addition beside the updates.
            let names = (0..NAMES).filter(|name| *name != version % NAMES);
            let list = names.map(|name| light(&name.to_string(), version));
            feeder.list(list, at(&version.to_string())).unwrap();
        }
        over.store(true, Ordering::SeqCst);
    });
    let told = NAMES - 1 + (LISTS - 1) * NAMES;
    assert_eq!((registration.panics(), calls.load(Ordering::Relaxed)), (0, told));
}

#[test]
fn the_longest_span_that_there_is_is_a_wait_that_ends_with_what_it_waits_for() {
    let (factory, informer, feeder) = fed();
    let _started = factory.take_unstarted();
    let mut events = Events::new(&informer, HandlerOptions::default());
    let mut items = Items::new(&informer, ItemOptions::default());
    let lives = Arc::new(Lives::default());
    let life = lives.enter();
    std::thread::scope(|scope| {
        let waits = [
            scope.spawn(|| factory.wait_synced(Duration::MAX)),
            scope.spawn(|| informer.wait_at_least(&at("2"), Duration::MAX).map(drop)),
            scope.spawn(|| informer.wait_for(&Key::new("hall", "a"), &at("2"), Duration::MAX).map(drop)),
            scope.spawn(|| lives.wait_none(Duration::MAX)),
        ];
        feeder.list([light("a", 1)], at("1")).unwrap();
        feeder.apply(applied("a", 2)).unwrap();
        feeder.wait_room(Duration::MAX).unwrap();
        assert_eq!(events.next_within(Duration::MAX).unwrap().to_string(), "added hall/a@1");
        assert_eq!(events.next_within(Duration::MAX).unwrap().to_string(), "updated hall/a@2 (was 1)");
        assert!(events.next_within(Duration::ZERO).is_none());
        assert!(events.registration().wait_synced(Duration::MAX).unwrap());
        items.next_within(Duration::MAX).unwrap().done();
        drop(life);
        for wait in waits {
            wait.join().unwrap().unwrap();
        }
    });
}

#[test]
fn an_owner_that_cannot_be_is_told_with_each_change_that_names_it_and_calls_for_no_key() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&heard);
    let factory = factory_with(FactoryOptions::observed(Arc::new(move |observed| {
        if let Observed::OwnerScope(_) = observed {
            hears.lock().push((observed.is_failure(), observed.to_string()));
        }
    })));
    let widgets = Resource::namespaced("example.com", "v1", "widgets", "Widget");
    let nodes: Resource = "nodes".parse().unwrap();
    let (owners, of_owners) = factory.fed(FedSpec::<DynamicObject>::of(widgets)).unwrap();
    let (owned, of_owned) = factory.fed(FedSpec::<DynamicObject>::of(nodes.clone())).unwrap();
    let (core, mut sources) = ControllerBuilder::new(owners).owns(&owned).build(&factory);
    of_owners.list([], at("0")).unwrap();
    let node = |version: u32| {
        let owner =
            r#"{"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "x", "controller": true}"#;
        let json = format!(
            r#"{{"metadata": {{"name": "n", "uid": "u", "resourceVersion": "{version}", "ownerReferences": [{owner}]}}}}"#
        );
        Obj::of(DynamicObject::decode(json.as_bytes(), &nodes).unwrap()).unwrap()
    };
    of_owned.list([node(1)], at("1")).unwrap();
    of_owned.apply(Change::Applied(node(2))).unwrap();
    for source in &mut sources {
        while source.step() == Step::Delivered {}
    }
    let wanted = "the cluster-scoped object n names Widget w as its owner, but a Widget lives in a namespace: let a \
        cluster-scoped object own it, or name the owner's resource as cluster-scoped if it is";
    assert_eq!(*heard.lock(), [(true, wanted.to_string()), (true, wanted.to_string())]);
    assert!(matches!(core.next(), Work::Wait(_, None)), "there is nothing to reconcile");
}

/// A key with a namespace would be another one, and a second reconcile of the node would run beside the first.
#[test]
fn b097_a_node_is_one_key_of_its_controller_whatever_namespace_is_named_beside_it() {
    let factory = factory();
    let nodes: Resource = "nodes".parse().unwrap();
    let (informer, feeder) = factory.fed(FedSpec::<DynamicObject>::of(nodes.clone())).unwrap();
    let (core, mut sources) = ControllerBuilder::new(informer.clone()).build(&factory);
    let node = |name: &str| {
        let json = format!(r#"{{"metadata": {{"name": "{name}", "uid": "u", "resourceVersion": "1"}}}}"#);
        Obj::of(DynamicObject::decode(json.as_bytes(), &nodes).unwrap()).unwrap()
    };
    feeder.list([node("a"), node("b")], at("1")).unwrap();
    sources.iter_mut().for_each(|source| while source.step() == Step::Delivered {});
    core.enqueue(Key::new("web", "a"));
    core.enqueue(Key::new("", "b"));
    let mut keys = Vec::new();
    while let Work::Run(run) = core.next() {
        core.enqueue(Key::new("web", run.key().name()));
        keys.push(run.key().to_string());
    }
    assert_eq!(keys, ["a", "b"], "each once, while it runs");

    feeder.delete(&Key::new("web", "a")).unwrap();
    feeder.apply_all([Change::DeletedKey(Key::new("", "b"))]).unwrap();
    assert!(informer.lister().is_empty());
}
