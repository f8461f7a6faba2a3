//! Our cache, in jobs of `peers/run cache` that measure time:
//!
//! ```text
//! ours-cache store OBJECTS | scale SMALL BIG | events TO-1 TO-10 TO-100
//! ours-cache idle tokio|blocking SERVER INFORMERS | relist tokio|blocking SERVER OBJECTS
//! ```

use informer_blocking::core::lister::{Lister, Objects};
use informer_blocking::core::store::{IndexDef, Store};
use informer_blocking::runtime::sync::RwLock;
use informer_blocking::{Key, LabelSelector, Obj, Object, Overflow};
use informer_peers::cache::Tiny;
use informer_peers::meter::Meter;
use informer_peers::pace::{BUSY, WRITES, busy, mean_ns};
use informer_peers::side::Figures;
use informer_sides::prebuilt::{AT_ONCE, Prebuilt};
use informer_sides::tiny::{TinyObject, key, object};
use informer_sides::{PATIENCE, idle, relist};
use std::hint::black_box;
use std::sync::mpsc::channel;

/// Updates and reads of one mean.
const CALLS: usize = 300_000;
/// Answers of hundreds of objects of one mean.
const LISTS: usize = 3_000;
/// Answers of thousands of objects of one mean.
const LONG_LISTS: usize = 200;
/// Objects that are read or changed in turn in a store that has more.
const SOME: usize = 100_000;
/// Objects that are read or changed again and again, so that nothing of what that takes leaves the processor's caches.
const FEW: usize = 8;
/// Keys that events go to.
const LIVE: usize = 10_000;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let number = |word: &str| word.parse().expect("a number");
    let figures = match words[..] {
        ["store", objects] => store(number(objects)),
        ["scale", small, big] => scale(number(small), number(big)),
        ["events", one, ten, hundred] => events([(1, number(one)), (10, number(ten)), (100, number(hundred))]),
        ["idle", runtime, server, informers] => {
            let (took, _held) = idle::start(runtime, server.parse().expect("HOST:PORT"), number(informers));
            let mut figures = Figures::new();
            figures.set("idle-sync", took.as_secs_f64() * 1e3);
            figures
        }
        ["relist", runtime, server, objects] => {
            relist::run(runtime, server.parse().expect("HOST:PORT"), number(objects))
        }
        _ => panic!("usage: the head of this file"),
    };
    figures.print_and_exit()
}

fn store(objects: usize) -> Figures {
    let mut figures = Figures::new();
    let mut versions = Versions::new(objects, objects);
    for indexes in [0, 1, 3] {
        let [mean] = versions.updates(indexes, [objects]);
        figures.set(format!("update-{indexes}"), mean);
    }
    drop(versions);
    let fed = Prebuilt::new(objects);
    fed.informer().label_index(Tiny::PART);
    fed.list();
    let lister = fed.informer().lister();
    let keys: Vec<Key> = Tiny::scattered(objects).map(key).collect();
    let get = |turn: usize| read(&lister.get(&keys[turn % keys.len()]).expect("every key is there"));
    mean_ns(objects, get);
    figures.set("get", mean_ns(CALLS, get));

    let namespaces: Vec<String> =
        Tiny::scattered(objects / Tiny::IN_NAMESPACE).map(|n| Tiny::namespace(n * Tiny::IN_NAMESPACE)).collect();
    let namespace = |turn: usize| {
        let found = lister.namespace(&namespaces[turn % namespaces.len()]).list();
        assert_eq!(walked(&found), Tiny::IN_NAMESPACE);
        found
    };
    mean_ns(namespaces.len(), namespace);
    figures.set("namespace", mean_ns(LISTS, namespace) / 1e3);
    let selector: LabelSelector = "part=part-0".parse().expect("it is well-formed");
    let selected = Tiny::in_part_0(objects);
    let select = |_| {
        let found = lister.matching(&selector);
        assert_eq!(walked(&found), selected);
        found
    };
    mean_ns(10, select);
    figures.set("selector", mean_ns(LONG_LISTS, select) / 1e3);

    let changes = 0..2 * WRITES * BUSY.as_secs() as usize;
    let mut changes = changes.map(|change| object(fed.of(change), 2)).collect::<Vec<_>>().into_iter();
    figures.add(busy(get, move |from, to| fed.apply(changes.by_ref().take(to - from))));
    figures
}

/// How many there are, each looked up as in a list of pointers.
fn walked(objects: &Objects<TinyObject>) -> usize {
    objects.iter().map(black_box).count()
}

/// Looks into an object, as whoever gets one does.
fn read(object: &TinyObject) -> usize {
    object.metadata().name.len()
}

/// The first version of every object, and the second one of some in a scattered order: the same objects for every store.
struct Versions {
    first: Vec<Obj<TinyObject>>,
    second: Vec<Option<Obj<TinyObject>>>,
}

impl Versions {
    fn new(objects: usize, some: usize) -> Self {
        Versions {
            first: (0..objects).map(|n| object(n, 1)).collect(),
            second: Tiny::scattered(objects).take(some).map(|n| Some(object(n, 2))).collect(),
        }
    }

    /// A store with 0, 1 or 3 indexes and every object in it.
    fn filled(&self, indexes: usize) -> Store<TinyObject> {
        let mut store = Store::new(7);
        let defs = [IndexDef::namespace(), IndexDef::label(Tiny::PART), IndexDef::label(Tiny::BLOCK)];
        for def in defs.into_iter().take(indexes) {
            store.add_index(def).expect("the names differ");
        }
        for object in &self.first {
            store.upsert(object.clone());
        }
        store
    }

    /// Updates of a store, to the second version and back, again and again: nanoseconds each, for as many of the objects as
    /// each of `some` says. What an update takes out goes in again a round later: a garbage collector counts no references,
    /// and they are no work of the store.
    fn updates<const N: usize>(&mut self, indexes: usize, some: [usize; N]) -> [f64; N] {
        let store = RwLock::new(self.filled(indexes));
        let waiting = &mut self.second;
        some.map(|some| {
            let mut update = |turn: usize| {
                let place = turn % some;
                let next = waiting[place].take().expect("it was put back");
                waiting[place] = store.write().upsert(next);
            };
            let round = 2 * some;
            mean_ns(round, &mut update);
            mean_ns(CALLS.next_multiple_of(round), update)
        })
    }
}

/// The same reads and updates in a small store and in a big one: of what lies everywhere in it, and of the same few again and
/// again.
fn scale(small: usize, big: usize) -> Figures {
    let mut figures = Figures::new();
    for (name, size) in [("small", small), ("big", big)] {
        let mut note = |id: &str, [all, few]: [f64; 2]| {
            figures.set(format!("{id}-{name}"), all);
            figures.set(format!("{id}-few-{name}"), few);
        };
        let mut versions = Versions::new(size, SOME);
        for indexes in [0, 3] {
            note(&format!("update-{indexes}"), versions.updates(indexes, [size.min(SOME), FEW]));
        }
        let store = RwLock::new(versions.filled(3));
        drop(versions);

        let keys: Vec<Key> = Tiny::scattered(size).take(SOME).map(key).collect();
        let get = |some: usize| {
            let get = |turn: usize| {
                let object = store.read().get(keys[turn % some].as_str()).expect("every key is there").clone();
                read(&object)
            };
            mean_ns(some, get);
            mean_ns(CALLS, get)
        };
        note("get", [keys.len(), FEW].map(get));

        // Of a group of neighbours; of one group there are more objects than of the few.
        let lists = |each: usize, groups: &[(String, LabelSelector)]| {
            let read = |some: usize| {
                let read = |turn: usize| {
                    let (namespace, selector) = &groups[turn % some];
                    let found = Lister::new(&store.read()).select(namespace, selector).detach();
                    let found = found.into_objects();
                    assert_eq!(walked(&found), each);
                    found
                };
                mean_ns(some, read);
                mean_ns(LISTS, read)
            };
            [groups.len(), 1].map(read)
        };
        let everything = || LabelSelector::everything();
        let namespaces = scattered_names(size, Tiny::IN_NAMESPACE, Tiny::namespace);
        let namespaces: Vec<_> = namespaces.map(|namespace| (namespace, everything())).collect();
        note("namespace", lists(Tiny::IN_NAMESPACE, &namespaces));
        let blocks = scattered_names(size, Tiny::IN_BLOCK, Tiny::block);
        let selector = |block| format!("{}={block}", Tiny::BLOCK).parse().expect("it is well-formed");
        let blocks: Vec<_> = blocks.map(|block| (String::new(), selector(block))).collect();
        note("selector", lists(Tiny::IN_BLOCK, &blocks));
    }
    figures
}

/// The names of groups of `each` neighbours, in a scattered order.
fn scattered_names(size: usize, each: usize, name: fn(usize) -> String) -> impl Iterator<Item = String> {
    Tiny::scattered(size / each).map(move |group| name(group * each))
}

/// Processor time for each event, from its feeding to the return of the last handler's call and the end of the object that it
/// replaced; nothing is merged.
fn events(runs: [(usize, usize); 3]) -> Figures {
    let mut figures = Figures::new();
    for (handlers, events) in runs {
        let fed = Prebuilt::new(LIVE);
        let (told, all_told) = channel();
        let registrations: Vec<_> = (0..handlers)
            .map(|_| {
                let told = told.clone();
                fed.count_updates(Overflow::Unbounded, events, move || told.send(()).expect("main waits"))
            })
            .collect();
        fed.list();
        for registration in &registrations {
            assert!(registration.wait_synced(PATIENCE).expect("no deadlock"), "the list was told");
        }
        let changes: Vec<_> = (0..events).map(|change| object(fed.of(change), 2 + change as u64)).collect();
        let mut changes = changes.into_iter();
        let meter = Meter::start();
        while changes.len() > 0 {
            fed.apply(changes.by_ref().take(AT_ONCE));
        }
        for _ in 0..handlers {
            all_told.recv_timeout(PATIENCE).expect("every handler is told of every event");
        }
        figures.set(format!("event-{handlers}"), meter.cpu().as_secs_f64() * 1e6 / events as f64);
    }
    figures
}
