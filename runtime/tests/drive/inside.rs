//! What code of the user's may call, from each place where it is run: whatever would wait for itself is refused, and
//! everything else works.
//!
//! Each place is driven by a thread of its own, which arms it, makes something happen there, and hears what became of the
//! calls. The patience of whoever waits for that thread only turns a hang into a failure.

use super::*;
use informer_core::fed::Change;
use informer_core::{ObjectMeta, Uid, Version};
use informer_runtime::feeder::{FedSpec, Feeder, Refusal};
use informer_runtime::mutation::MutationCheck;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::mpsc::channel;

/// The place, and the calls.
type Armed = (&'static str, Box<dyn FnOnce()>);

thread_local! {
    static ARMED: RefCell<Option<Armed>> = const { RefCell::new(None) };
}

/// Code of the user's runs at `place`. If the thread waits for that, it makes its calls, once.
fn runs(place: &'static str) {
    // A thread that ends drops what was never called.
    let call = ARMED.try_with(|armed| armed.borrow_mut().take_if(|(waits, _)| *waits == place)).ok().flatten();
    if let Some((_, call)) = call {
        call();
    }
}

/// A type that has code of the user's wherever a type can have some.
#[derive(serde::Deserialize)]
struct Loud {
    metadata: ObjectMeta,
}

impl Object for Loud {
    type Meta = ObjectMeta;

    fn resource() -> Resource {
        pods()
    }

    fn metadata(&self) -> &ObjectMeta {
        runs("labels");
        &self.metadata
    }

    fn decode(json: &[u8], _: &Resource) -> Result<Self, DecodeError> {
        runs("decoder");
        serde_json::from_slice(json).map_err(|error| DecodeError::new(error.to_string()))
    }

    fn is_same(&self, _: &Self) -> bool {
        runs("comparison");
        false
    }
}

impl Drop for Loud {
    fn drop(&mut self) {
        runs("drop");
    }
}

/// What a closure has captured.
struct Captured;

impl Drop for Captured {
    fn drop(&mut self) {
        runs("drop of what a closure captured");
    }
}

/// One informer that is fed, and whoever feeds it.
#[derive(Clone)]
struct Fed {
    informer: InformerHandle<Loud>,
    feeder: Arc<Feeder<Loud>>,
}

impl Fed {
    fn new(factory: &FactoryCore, name: &'static str) -> Self {
        let spec = FedSpec::<Loud>::of(Resource::namespaced("example.com", "v1", name, "Light"));
        let check = MutationCheck::new(|_: &Loud| {
            runs("mutation check");
            0
        });
        let (informer, feeder) = factory.fed(spec.check_mutations(check)).unwrap();
        informer.index("old", |_| 0);
        Fed { informer, feeder: Arc::new(feeder) }
    }
}

fn loud(name: &str, version: &str) -> Obj<Loud> {
    let value = serde_json::from_str(&object(name, version, "x")).unwrap();
    Obj::new(Key::new("web", name), Uid::new(&format!("u-{name}")), Version::new(version), value)
}

struct World {
    factory: Arc<FactoryCore>,
    hand: Hand,
    server: InformerHandle<Loud>,
    fed: Fed,
    other: Fed,
}

impl World {
    fn new(transforms: bool) -> Self {
        let observer = Arc::new(|observed: &Observed<'_>| {
            if let Observed::Notice { subject, notice: Notice::Phase(_) } = observed {
                runs(if *subject == "pods" { "observer of a server's" } else { "observer of a fed one" });
            }
        });
        let mut options = FactoryOptions::observed(observer);
        options.decode_threads = Some(0);
        options.wall_clock = Some(Arc::new(|| {
            runs("wall clock");
            Duration::from_secs(1_790_000_000)
        }));
        let factory = Arc::new(factory_with(options));
        let spec = InformerSpec::of(pods()).strategy(ListStrategy::Paged);
        let transform = |loud: Loud| {
            runs("transform");
            Ok(loud)
        };
        // What was transformed is not compared any more.
        let spec = if transforms { spec.transform(transform) } else { spec };
        let server = factory.informer(spec).unwrap();
        server.index("old", |_| 0);
        let hand = Hand::take(&factory);
        let (fed, other) = (Fed::new(&factory, "lights"), Fed::new(&factory, "lamps"));
        other.feeder.list([loud("a", "1")], Version::new("1")).unwrap();
        World { factory, hand, server, fed, other }
    }

    /// With what there is when everything runs.
    fn running(transforms: bool) -> Self {
        let mut world = World::new(transforms);
        world.hand.list(&["a", "b"]);
        world.fed.feeder.list([loud("a", "1"), loud("b", "1")], Version::new("1")).unwrap();
        world
    }

    /// Every call, as code of the user's makes it: whether it was refused.
    fn calls(&self, noted: &Arc<Mutex<BTreeMap<&'static str, Outcome>>>) -> Box<dyn FnOnce()> {
        let World { factory, server, fed, other, .. } = self;
        let (factory, server, fed, other) = (Arc::clone(factory), server.clone(), fed.clone(), other.clone());
        let spare = Fed::new(&factory, "spares");
        let (handler, _deliveries) = other.informer.channel(HandlerOptions::default());
        let noted = Arc::clone(noted);
        Box::new(move || {
            let refused = |outcome: Result<(), Error>| Outcome::of(outcome);
            let add = |informer: &InformerHandle<Loud>| {
                refused(informer.try_index("new", |_| 0).map(drop))
                    .and(refused(informer.try_label_index("l").map(drop)))
            };
            let remove = |informer: &InformerHandle<Loud>| refused(informer.remove_index("old"));
            let feed = |fed: &Fed| {
                let change = || Change::Applied(loud("c", "7"));
                refused(fed.feeder.apply(change()).map_err(Error::from))
                    .and(refused(fed.feeder.apply_all([change()]).map_err(Error::from)))
                    .and(refused(fed.feeder.delete(&key("c")).map_err(Error::from)))
                    .and(refused(fed.feeder.list([loud("d", "8")], Version::new("8")).map_err(Error::from)))
            };
            let read = |informer: &InformerHandle<Loud>| {
                let lister = informer.lister();
                let objects = lister.list().len();
                assert_eq!((lister.snapshot().iter().count(), lister.pages(1).len()), (objects, objects));
                assert_eq!(lister.get(&key("a")).is_some(), objects > 0 && lister.len() == objects);
                assert!(informer.by_index("old").try_get("0").is_ok_and(|all| all.len() == objects));
                assert_eq!(informer.own_writes().list().len(), objects);
                informer.catch_up_to(&Version::new(&lister.version())).check().is_ok_and(|found| found.is_ok())
            };
            let later = || Version::new("999");
            let all = [
                ("read", Outcome::expected([&server, &fed.informer, &other.informer].into_iter().all(read))),
                ("feed its own", feed(&fed)),
                ("feed another", feed(&other)),
                ("add indexes to a server's", add(&server)),
                ("add indexes to a fed one", add(&fed.informer)),
                ("add indexes to another", add(&other.informer)),
                ("take indexes away", remove(&server).and(remove(&fed.informer)).and(remove(&other.informer))),
                (
                    "wait for a version",
                    refused(server.wait_at_least(&later(), Duration::ZERO).map(drop))
                        .and(refused(other.informer.wait_for(&key("a"), &later(), Duration::ZERO).map(drop))),
                ),
                (
                    "wait for what blocks",
                    refused(factory.wait_synced(Duration::ZERO))
                        .and(refused(handler.wait_synced(Duration::ZERO).map(drop)))
                        .and(refused(fed.feeder.wait_room(Duration::ZERO))),
                ),
                ("add and remove handlers", {
                    let (late, _deliveries) = server.channel(HandlerOptions::default());
                    late.remove();
                    let (late, _deliveries) = fed.informer.channel(HandlerOptions::default());
                    late.remove();
                    handler.remove();
                    Outcome::expected(handler.was_removed())
                }),
                (
                    "ask for informers",
                    refused(factory.fed(FedSpec::<Loud>::of(Resource::namespaced("", "v1", "news", "New"))).map(drop)),
                ),
                ("stop one", {
                    server.refresh();
                    spare.informer.request_stop();
                    Outcome::expected(spare.informer.is_stopped())
                }),
            ];
            *noted.lock() = all.into_iter().collect();
        })
    }
}

/// What became of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    /// With where it says it was made.
    Refused(String),
}

impl Outcome {
    /// Of a call that returns no error.
    fn expected(done: bool) -> Self {
        if done { Outcome::Done } else { Outcome::Refused("nowhere: it had no effect".into()) }
    }

    fn of(outcome: Result<(), Error>) -> Self {
        match outcome {
            Ok(()) | Err(Error::Behind(_) | Error::NotSynced(_)) => Outcome::Done,
            Err(Error::WouldDeadlock { place, .. }) => Outcome::Refused(place.to_string()),
            Err(Error::NotFed { why: Refusal::Inside { place }, .. }) => Outcome::Refused(place),
            Err(error) => panic!("{error}"),
        }
    }

    /// Both, which agree.
    fn and(self, other: Outcome) -> Outcome {
        assert_eq!(self, other);
        self
    }
}

/// What is refused at a place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Refuses {
    /// Code of the user's that nobody called.
    Nothing,
    /// A handler.
    Blocking,
    /// What an informer waits for.
    Waiting,
    Feeding,
    Changing,
}

impl Refuses {
    fn refuses(self, call: &str) -> bool {
        let from = match call {
            "wait for what blocks" => Refuses::Blocking,
            "wait for a version" => Refuses::Waiting,
            "feed its own" | "feed another" => Refuses::Feeding,
            "add indexes to a server's"
            | "add indexes to a fed one"
            | "add indexes to another"
            | "take indexes away" => Refuses::Changing,
            _ => return false,
        };
        self >= from
    }
}

/// Makes code of the user's run at a place; `arm` comes right before.
type Happens = fn(&mut World, &dyn Fn(&World));

/// Where code of the user's runs, what is refused there, and how it comes to that.
const PLACES: [(&str, Refuses, &str, Happens); 22] = [
    ("index function", Refuses::Changing, "while it is filled", |world, arm| {
        arm(world);
        world.fed.informer.index("loud", |_| runs_and("index function"));
    }),
    ("index function", Refuses::Changing, "while a server's is filled", |world, arm| {
        arm(world);
        world.server.index("loud", |_| runs_and("index function"));
    }),
    ("index function", Refuses::Changing, "for what is fed", |world, arm| {
        world.fed.informer.index("loud", |_| runs_and("index function"));
        arm(world);
        world.fed.feeder.apply(Change::Applied(loud("a", "2"))).unwrap();
    }),
    ("index function", Refuses::Changing, "for what is decoded", |world, arm| {
        world.server.index("loud", |_| runs_and("index function"));
        arm(world);
        world.hand.watch("MODIFIED", "a", 6, "");
    }),
    ("labels", Refuses::Changing, "while their index is filled", |world, arm| {
        arm(world);
        world.fed.informer.label_index("other");
    }),
    ("labels", Refuses::Feeding, "for what is fed", |world, arm| {
        world.fed.informer.label_index("other");
        arm(world);
        world.fed.feeder.apply(Change::Applied(loud("a", "2"))).unwrap();
    }),
    ("comparison", Refuses::Changing, "after the server was set back", |world, arm| {
        arm(world);
        world.hand.set_back("3", &[object("a", "5", ""), object("b", "5", "")]);
    }),
    ("decoder", Refuses::Waiting, "of an event", |world, arm| {
        arm(world);
        world.hand.watch("MODIFIED", "a", 6, "");
    }),
    ("transform", Refuses::Waiting, "of an event", |world, arm| {
        arm(world);
        world.hand.watch("MODIFIED", "a", 6, "");
    }),
    ("wall clock", Refuses::Waiting, "of a server's", |world, arm| {
        arm(world);
        world.hand.tell(IoEvent::Tick);
    }),
    ("wall clock", Refuses::Feeding, "of a fed one", |world, arm| {
        arm(world);
        world.fed.feeder.apply(Change::Applied(loud("a", "2"))).unwrap();
    }),
    ("observer of a server's", Refuses::Waiting, "at a stop", |world, arm| {
        arm(world);
        world.hand.tell(IoEvent::Stop);
    }),
    ("observer of a fed one", Refuses::Feeding, "at the first list", |world, arm| {
        let third = Fed::new(&world.factory, "lanterns");
        arm(world);
        third.feeder.list([], Version::new("1")).unwrap();
    }),
    ("mutation check", Refuses::Feeding, "of what is fed", |world, arm| {
        arm(world);
        world.fed.feeder.apply(Change::Applied(loud("a", "2"))).unwrap();
    }),
    ("drop", Refuses::Feeding, "of what was replaced", |world, arm| {
        arm(world);
        world.fed.feeder.apply(Change::Applied(loud("a", "2"))).unwrap();
    }),
    ("drop", Refuses::Waiting, "of what an event replaced", |world, arm| {
        arm(world);
        world.hand.watch("MODIFIED", "a", 6, "");
        world.hand.watch("MODIFIED", "a", 7, "");
    }),
    ("drop of what a closure captured", Refuses::Nothing, "when its index is taken away", |world, arm| {
        let captured = Captured;
        world.fed.informer.index("loud", move |_| std::mem::size_of_val(&captured));
        arm(world);
        world.fed.informer.remove_index("loud").unwrap();
    }),
    ("drop of what a closure captured", Refuses::Nothing, "when its index is there already", |world, arm| {
        let captured = Captured;
        arm(world);
        let twice = world.fed.informer.try_index("old", move |_| std::mem::size_of_val(&captured));
        assert!(matches!(twice, Err(Error::Index(_))));
    }),
    ("drop of what a closure captured", Refuses::Nothing, "when its index cannot be filled", |world, arm| {
        let captured = Captured;
        arm(world);
        let panics = world.fed.informer.try_index("loud", move |_| {
            if std::mem::size_of_val(&captured) == 0 {
                std::panic::resume_unwind(Box::new("on purpose")); // without a line on stderr
            }
            0
        });
        assert!(matches!(panics, Err(Error::Index(_))));
    }),
    ("handler", Refuses::Blocking, "of a fed one", |world, arm| {
        let (_, mut handler) = world.fed.informer.handler(HandlerOptions::default(), |_| runs("handler"));
        world.fed.feeder.apply(Change::Applied(loud("a", "2"))).unwrap();
        arm(world);
        run(&mut handler);
    }),
    ("handler", Refuses::Blocking, "that is full and has its informer wait", |world, arm| {
        let options = HandlerOptions::default().with_overflow(Overflow::Pause { limit: 1 });
        let (_, mut handler) = world.server.handler(options, |_| runs("handler"));
        world.hand.watch_all(&[("MODIFIED", "a", 6, ""), ("MODIFIED", "a", 7, ""), ("MODIFIED", "a", 8, "")]);
        arm(world);
        run(&mut handler);
    }),
    ("filter", Refuses::Blocking, "of a handler", |world, arm| {
        let keep = |_: &Obj<Loud>| runs_and("filter") == 0;
        let filtered = informer_runtime::events::filtered(keep, |_: &Notification<Loud>| {});
        let (_, mut handler) = world.fed.informer.handler(HandlerOptions::default(), filtered);
        world.fed.feeder.apply(Change::Applied(loud("a", "2"))).unwrap();
        arm(world);
        run(&mut handler);
    }),
];

fn runs_and(place: &'static str) -> u32 {
    runs(place);
    0
}

#[test]
fn whatever_code_of_the_users_calls_from_inside_is_done_or_refused_and_never_waits_for_itself() {
    for (place, refuses, when, happens) in PLACES {
        let (done, is_done) = channel();
        let thread = std::thread::spawn(move || {
            let noted = Arc::default();
            let mut world = World::running(place == "transform");
            let arm = |world: &World| {
                let calls = world.calls(&noted);
                ARMED.set(Some((place, calls)));
            };
            happens(&mut world, &arm);
            // Nothing is stuck afterwards, and what was refused inside is done outside.
            let change = || Change::Applied(loud("z", "99"));
            world.fed.feeder.apply(change()).unwrap();
            world.other.feeder.apply(change()).unwrap();
            for informer in [&world.server, &world.fed.informer, &world.other.informer] {
                informer.index("afterwards", |_| 0);
            }
            assert!(world.fed.informer.lister().get(&key("z")).is_some());
            let noted = std::mem::take(&mut *noted.lock());
            done.send(noted).unwrap();
        });
        let noted = match is_done.recv_timeout(Duration::from_secs(120)) {
            Ok(noted) => noted,
            Err(_) if thread.is_finished() => panic!("{place}, {when}: {:?}", thread.join()),
            Err(_) => panic!("{place}, {when}: it waits for itself"),
        };
        thread.join().unwrap();
        assert_eq!(noted.len(), 12, "{place}, {when}: it ran, and made all its calls");
        for (call, outcome) in noted {
            let refused = matches!(&outcome, Outcome::Refused(place) if !place.is_empty());
            assert_eq!(refused, refuses.refuses(call), "{place}, {when}: {call}: {outcome:?}");
        }
    }
}

#[test]
fn a_refusal_names_the_informer_and_what_was_running() {
    let world = World::running(false);
    let noted: Arc<Mutex<Vec<String>>> = Arc::default();
    let (inside, fed, seen) = (world.other.informer.clone(), world.fed.clone(), Arc::clone(&noted));
    let ask = move || {
        let fed = fed.feeder.apply(Change::Applied(loud("a", "2"))).unwrap_err();
        seen.lock().extend([inside.try_index("new", |_| 0).unwrap_err().to_string(), fed.to_string()]);
    };
    ARMED.set(Some(("labels", Box::new(ask))));
    world.other.informer.label_index("other");
    let place =
        "inside an index function or other code that the cache of lamps.example.com calls while an index is filled";
    assert_eq!(
        *noted.lock(),
        [
            format!("adding an index was called {place}, and would wait for itself: call it from elsewhere"),
            format!(
                "lights.example.com: an informer was fed {place}, and might wait for itself: feed it from a handler or another thread"
            ),
        ]
    );
}

#[test]
#[should_panic(expected = "adding an index was called inside an index function")]
fn an_index_that_cannot_be_refused_with_an_error_panics() {
    let world = World::running(false);
    let inside = world.fed.informer.clone();
    let panics = move || _ = inside.index("new", |_| 0);
    ARMED.set(Some(("index function", Box::new(panics))));
    world.fed.informer.index("loud", |_| runs_and("index function"));
}

#[test]
fn a_closure_under_the_lock_of_readers_is_refused_what_waits_for_that_lock() {
    let world = World::running(false);
    for informer in [&world.server, &world.fed.informer] {
        informer.read(|_| {
            for refused in [
                informer.try_index("new", |_| 0).map(drop),
                informer.remove_index("old"),
                world.fed.feeder.apply(Change::Applied(loud("a", "2"))).map_err(Error::from),
                world.other.feeder.list([], Version::new("2")).map_err(Error::from),
            ] {
                let Outcome::Refused(place) = Outcome::of(refused) else { panic!("it would wait for itself") };
                assert!(place.starts_with("a closure that reads the cache of "), "{place}");
            }
        });
    }
}
