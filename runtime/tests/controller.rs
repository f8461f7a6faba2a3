//! When a controller begins, what it says while it waits and when a source is lost, and when it is idle: without threads or
//! tasks, on a clock that the test moves.

use informer_core::controller::{Verdict, mapped};
use informer_core::{DynamicObject, Key, Obj, Object, Resource, Version};
use informer_runtime::Config;
use informer_runtime::controller::{ControllerBuilder, ControllerCore, GATE_PATIENCE, Work};
use informer_runtime::factory::{FactoryCore, FactoryOptions};
use informer_runtime::feeder::{FedSpec, Feeder};
use informer_runtime::informer::{HandlerLoop, InformerHandle, InformerSpec, Step};
use informer_runtime::observe::{AsyncRuntime, Observed};
use informer_runtime::sync::{Arc, Mutex};
use std::cell::Cell;
use std::time::{Duration, Instant};

thread_local!(static NOW: Cell<Instant> = Cell::new(Instant::now()));

const HOUR: Duration = Duration::from_secs(3_600);

fn pass(span: Duration) {
    NOW.set(NOW.get() + span);
}

fn widgets() -> Resource {
    Resource::namespaced("example.com", "v1", "widgets", "Widget")
}

fn maps() -> Resource {
    "configmaps".parse().unwrap()
}

fn widget() -> Obj<DynamicObject> {
    let json = br#"{"metadata": {"namespace": "web", "name": "shop", "uid": "u", "resourceVersion": "1"}}"#;
    Obj::of(DynamicObject::decode(json, &widgets()).unwrap()).unwrap()
}

/// What the observers were told of controllers, and whether it is a failure.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<(bool, String)>>>);

impl Told {
    fn factory(&self) -> FactoryCore {
        let lines = Arc::clone(&self.0);
        let mut options = FactoryOptions::observed(Arc::new(move |observed| {
            if let Observed::ControllerWaits { .. } | Observed::ControllerStopped { .. } = observed {
                lines.lock().push((observed.is_failure(), observed.to_string()));
            }
        }));
        options.decode_threads = Some(0);
        options.async_runtime = Some(AsyncRuntime { is_here: || false, now: || NOW.get() });
        FactoryCore::new(Config::from_url("http://127.0.0.1:1").unwrap(), options)
    }

    /// The lines since the last time, all of which are failures.
    fn take(&self) -> Vec<String> {
        let lines = std::mem::take(&mut *self.0.lock());
        assert!(lines.iter().all(|(is_failure, _)| *is_failure), "{lines:?}");
        lines.into_iter().map(|(_, line)| line).collect()
    }
}

fn read(factory: &FactoryCore, resource: Resource) -> InformerHandle<DynamicObject> {
    factory.informer(InformerSpec::of(resource)).unwrap()
}

fn fed(factory: &FactoryCore, resource: Resource) -> (InformerHandle<DynamicObject>, Feeder<DynamicObject>) {
    factory.fed(FedSpec::of(resource)).unwrap()
}

/// A controller and the loops of its sources.
struct Hand {
    core: Arc<ControllerCore>,
    loops: Vec<Box<dyn HandlerLoop>>,
}

impl Hand {
    fn new(
        factory: &FactoryCore,
        primary: &InformerHandle<DynamicObject>,
        other: &InformerHandle<DynamicObject>,
    ) -> Self {
        let all = mapped(|_: &_| [Key::new("web", "shop")]);
        let (core, loops) = ControllerBuilder::new(primary.clone()).watches(other, all).build(factory);
        Hand { core, loops }
    }

    /// What an adapter does with the loops: a closed one is dropped.
    fn deliver(&mut self) {
        self.loops.retain_mut(|source| {
            loop {
                match source.step() {
                    Step::Delivered => {}
                    Step::Empty(_) => return true,
                    Step::Closed => return false,
                }
            }
        });
    }

    /// What a worker that finds nothing waits for.
    fn waits_until(&self) -> Option<Instant> {
        match self.core.next() {
            Work::Wait(_, until) => until,
            Work::Run(run) => panic!("{} runs", run.key()),
            Work::Stop => panic!("it stops"),
        }
    }

    fn stops(&self) -> bool {
        matches!(self.core.next(), Work::Stop)
    }
}

const NOT_STARTED: &str =
    "controller of widgets.example.com waits for configmaps: not started; call start() after asking for an informer";

#[test]
fn a_source_of_a_factory_that_was_not_started_is_told_once_when_patience_is_over() {
    let told = Told::default();
    let (own, other) = (told.factory(), told.factory());
    let (primary, feeder) = fed(&own, widgets());
    let mut hand = Hand::new(&own, &primary, &read(&other, maps()));
    feeder.list([widget()], Version::new("1")).unwrap();
    hand.deliver();

    let due = NOW.get() + GATE_PATIENCE;
    assert_eq!(hand.waits_until(), Some(due), "a worker looks again by itself");
    pass(GATE_PATIENCE - Duration::from_nanos(1));
    assert_eq!((hand.waits_until(), told.take()), (Some(due), vec![]));
    pass(Duration::from_nanos(1));
    assert_eq!((hand.waits_until(), told.take()), (None, vec![NOT_STARTED.to_string()]));
    pass(HOUR);
    assert_eq!((hand.waits_until(), told.take()), (None, vec![]), "once");
}

#[test]
fn a_source_that_was_asked_for_after_the_start_is_told_too() {
    let told = Told::default();
    let factory = told.factory();
    let (primary, feeder) = fed(&factory, widgets());
    let _started = factory.take_unstarted();
    let mut hand = Hand::new(&factory, &primary, &read(&factory, maps()));
    feeder.list([widget()], Version::new("1")).unwrap();
    hand.deliver();
    hand.waits_until();
    pass(GATE_PATIENCE);
    hand.waits_until();
    assert_eq!(told.take(), [NOT_STARTED]);
}

#[test]
fn a_controller_that_said_what_it_waits_for_begins_when_that_comes() {
    let told = Told::default();
    let factory = told.factory();
    let ((primary, feeder), (late, late_feeder)) = (fed(&factory, widgets()), fed(&factory, maps()));
    let mut hand = Hand::new(&factory, &primary, &late);
    feeder.list([widget()], Version::new("1")).unwrap();
    hand.deliver();
    hand.waits_until();
    pass(GATE_PATIENCE);
    hand.waits_until();
    let line = "controller of widgets.example.com waits for configmaps: nothing was fed yet: call Feeder::list";
    assert_eq!(told.take(), [line]);

    late_feeder.list([], Version::new("1")).unwrap();
    hand.deliver();
    assert!(matches!(hand.core.next(), Work::Run(_)));
    assert!(told.take().is_empty());
}

#[test]
fn a_controller_whose_own_informer_was_not_started_says_so_as_well() {
    let told = Told::default();
    let factory = told.factory();
    let (primary, other) = (read(&factory, widgets()), read(&factory, maps()));
    let hand = Hand::new(&factory, &primary, &other);
    hand.waits_until();
    pass(GATE_PATIENCE);
    hand.waits_until();
    let reason = "not started; call start() after asking for an informer";
    let line =
        format!("controller of widgets.example.com waits for widgets.example.com: {reason} | configmaps: {reason}");
    assert_eq!(told.take(), [line]);
}

#[test]
fn informers_that_all_read_their_first_list_may_take_as_long_as_they_need() {
    let told = Told::default();
    let factory = told.factory();
    let (primary, feeder) = fed(&factory, widgets());
    let other = read(&factory, maps());
    let second = told.factory();
    let third = read(&second, widgets());
    let slow = Hand::new(&second, &third, &other);
    slow.waits_until();
    pass(GATE_PATIENCE / 2);
    // What was not started when it was looked at first is reading now.
    let _drives = (factory.take_unstarted(), second.take_unstarted());
    for _ in 0..3 {
        pass(GATE_PATIENCE);
        assert_eq!(slow.waits_until(), Some(NOW.get() + GATE_PATIENCE));
    }
    assert!(told.take().is_empty());

    // Beside one that is ready it takes too long.
    let mut unequal = Hand::new(&factory, &primary, &other);
    feeder.list([], Version::new("1")).unwrap();
    unequal.deliver();
    unequal.waits_until();
    pass(GATE_PATIENCE);
    unequal.waits_until();
    assert_eq!(told.take(), ["controller of widgets.example.com waits for configmaps: no answer yet"]);
}

#[test]
fn a_predicate_or_mapper_that_does_not_come_to_the_end_of_the_initial_state_is_told() {
    let told = Told::default();
    let factory = told.factory();
    let ((primary, feeder), (other, other_feeder)) = (fed(&factory, widgets()), fed(&factory, maps()));
    let mut hand = Hand::new(&factory, &primary, &other);
    feeder.list([widget()], Version::new("1")).unwrap();
    other_feeder.list([], Version::new("1")).unwrap();
    let primary = hand.loops.remove(0);
    hand.deliver();
    hand.waits_until();
    pass(GATE_PATIENCE);
    hand.waits_until();
    let line = "controller of widgets.example.com waits for widgets.example.com: a predicate or mapper has not come to the \
                end of its initial state";
    assert_eq!(told.take(), [line]);
    drop(primary);
}

#[test]
fn a_controller_that_loses_a_source_says_so_once() {
    let told = Told::default();
    let (own, other) = (told.factory(), told.factory());
    let (primary, feeder) = fed(&own, widgets());
    let lost = read(&other, maps());
    let mut hand = Hand::new(&own, &primary, &lost);
    feeder.list([widget()], Version::new("1")).unwrap();
    hand.deliver();
    hand.waits_until();
    lost.request_stop();
    hand.deliver();
    assert!(hand.stops());
    let line = "controller of widgets.example.com stopped: its source configmaps was stopped";
    assert_eq!(told.take(), [line]);
    hand.core.stop();
    assert!(hand.stops() && hand.stops());
    assert!(told.take().is_empty());
}

#[test]
fn a_source_that_was_lost_with_its_factory_was_stopped_and_one_whose_driver_died_was_not() {
    for stop in [true, false] {
        let told = Told::default();
        let (own, other) = (told.factory(), told.factory());
        let (primary, _feeder) = fed(&own, widgets());
        let mut hand = Hand::new(&own, &primary, &read(&other, maps()));
        hand.waits_until();
        let drives = other.take_unstarted();
        if stop {
            other.request_stop();
        }
        drop(drives);
        hand.deliver();
        assert!(hand.stops());
        let line = if stop {
            "controller of widgets.example.com stopped: its source configmaps was stopped"
        } else {
            "controller of widgets.example.com stopped: the driver of its source configmaps ended by a panic, or with its \
             runtime; ask the factory for the informer again, start another controller with it, and call start()"
        };
        assert_eq!(told.take(), [line]);
    }
}

#[test]
fn a_source_whose_loop_ended_with_its_runtime_was_not_stopped_by_anybody() {
    let told = Told::default();
    let factory = told.factory();
    let (primary, _feeder) = fed(&factory, widgets());
    let mut hand = Hand::new(&factory, &primary, &read(&factory, maps()));
    drop(hand.loops.pop());
    assert!(hand.stops());
    let lines = told.take();
    assert_eq!(lines.len(), 1);
    let beginning =
        "controller of widgets.example.com stopped: the driver of its source configmaps ended by a panic, or with";
    assert!(lines[0].starts_with(beginning), "{lines:?}");
}

#[test]
fn a_controller_that_is_asked_to_stop_itself_or_with_its_factory_has_lost_nothing() {
    for with_factory in [true, false] {
        let told = Told::default();
        let factory = told.factory();
        let (primary, other) = (read(&factory, widgets()), read(&factory, maps()));
        let mut hand = Hand::new(&factory, &primary, &other);
        hand.waits_until();
        if with_factory {
            // The sources end before the adapter comes to its controllers.
            factory.request_stop();
        } else {
            hand.core.stop();
        }
        hand.deliver();
        assert!(hand.loops.is_empty(), "the sources have ended");
        pass(HOUR);
        assert!(hand.stops());
        assert!(told.take().is_empty());
    }
}

#[test]
fn a_controller_is_not_idle_before_it_has_begun_and_all_that_there_was_is_done() {
    let told = Told::default();
    let factory = told.factory();
    let ((primary, feeder), (other, other_feeder)) = (fed(&factory, widgets()), fed(&factory, maps()));
    let mut hand = Hand::new(&factory, &primary, &other);
    assert!(!hand.core.is_idle(), "nothing is known");
    hand.waits_until();
    feeder.list([widget()], Version::new("1")).unwrap();
    hand.deliver();
    hand.waits_until();
    assert!(!hand.core.is_idle(), "a source is missing");
    other_feeder.list([], Version::new("1")).unwrap();
    assert!(!hand.core.is_idle(), "what it had is not delivered");
    hand.deliver();
    assert!(!hand.core.is_idle(), "no worker has seen that it may begin");
    let Work::Run(run) = hand.core.next() else { panic!("there is a widget") };
    assert!(!hand.core.is_idle(), "it runs");
    hand.core.finished(run, Verdict::Done);
    assert!(hand.core.is_idle());
    assert_eq!(hand.core.counts().done, 1);
}

#[test]
fn a_controller_without_anything_to_do_is_idle_once_it_has_begun() {
    let told = Told::default();
    let factory = told.factory();
    let ((primary, feeder), (other, other_feeder)) = (fed(&factory, widgets()), fed(&factory, maps()));
    let mut hand = Hand::new(&factory, &primary, &other);
    feeder.list([], Version::new("1")).unwrap();
    other_feeder.list([], Version::new("1")).unwrap();
    hand.deliver();
    assert!(!hand.core.is_idle());
    assert_eq!(hand.waits_until(), None);
    assert!(hand.core.is_idle());
}

#[test]
fn a_controller_that_was_stopped_before_it_began_is_idle() {
    let told = Told::default();
    let factory = told.factory();
    let (primary, feeder) = fed(&factory, widgets());
    let mut hand = Hand::new(&factory, &primary, &read(&factory, maps()));
    feeder.list([widget()], Version::new("1")).unwrap();
    hand.deliver();
    assert!(!hand.core.is_idle());
    hand.core.stop();
    assert!(hand.core.is_idle(), "what waits will not run");
}
