//! Our cache, in jobs of `peers/run cache` that measure time:
//!
//! ```text
//! ours-cache store OBJECTS | scale SMALL BIG | events TO-1 TO-10 TO-100
//! ours-cache idle tokio|blocking SERVER INFORMERS | relist tokio|blocking SERVER OBJECTS
//! ```

use informer_blocking::core::lister::Lister;
use informer_blocking::core::store::{IndexDef, Store};
use informer_blocking::runtime::sync::RwLock;
use informer_blocking::{Key, LabelSelector, Object, Overflow};
use informer_peers::cache::Tiny;
use informer_peers::meter::Meter;
use informer_peers::pace::{BUSY, WRITES, busy, mean_ns};
use informer_peers::side::Figures;
use informer_sides::feed::{Changes, Feed};
use informer_sides::prebuilt::{AT_ONCE, Prebuilt};
use informer_sides::tiny::{TinyObject, key, object};
use informer_sides::{PATIENCE, idle, relist};
use std::sync::mpsc::channel;
use std::time::Instant;

/// Updates and reads of one mean.
const CALLS: usize = 300_000;
/// Answers of hundreds of objects of one mean.
const LISTS: usize = 3_000;
/// Answers of thousands of objects of one mean.
const LONG_LISTS: usize = 200;
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
    for indexes in [0, 1, 3] {
        figures.set(format!("update-{indexes}"), updates(objects, indexes));
    }
    let mut feed = Feed::<TinyObject>::new();
    feed.informer().label_index(Tiny::PART);
    feed.list(objects);
    feed.rest();
    let lister = feed.informer().lister();
    let keys: Vec<Key> = Tiny::scattered(objects).map(key).collect();
    let get = |turn: usize| read(&lister.get(&keys[turn % keys.len()]).expect("every key is there"));
    mean_ns(objects, get);
    figures.set("get", mean_ns(3 * CALLS, get));

    let namespaces: Vec<String> =
        Tiny::scattered(objects / Tiny::IN_NAMESPACE).map(|n| Tiny::namespace(n * Tiny::IN_NAMESPACE)).collect();
    let namespace = |turn: usize| {
        let found = lister.namespace(&namespaces[turn % namespaces.len()]).list();
        assert_eq!(found.len(), Tiny::IN_NAMESPACE);
        found
    };
    mean_ns(namespaces.len(), namespace);
    figures.set("namespace", mean_ns(LISTS, namespace) / 1e3);
    let selector: LabelSelector = "part=part-0".parse().expect("it is well-formed");
    let selected = Tiny::in_part_0(objects);
    let select = |_| {
        let found = lister.matching(&selector);
        assert_eq!(found.len(), selected);
        found
    };
    mean_ns(10, select);
    figures.set("selector", mean_ns(LONG_LISTS, select) / 1e3);

    let changes = Changes::new::<TinyObject>(objects, 0, 2 * WRITES * BUSY.as_secs() as usize);
    figures.add(busy(get, move |from, to| {
        feed.watch(changes.part(from, to));
        feed.rest();
    }));
    figures
}

/// Looks into an object, as whoever gets one does.
fn read(object: &TinyObject) -> usize {
    object.metadata().name.len()
}

/// A store with 0, 1 or 3 indexes and so many objects in it.
fn filled(objects: usize, indexes: usize) -> Store<TinyObject> {
    let mut store = Store::new(7);
    let defs = [IndexDef::namespace(), IndexDef::label(Tiny::PART), IndexDef::label(Tiny::BLOCK)];
    for def in defs.into_iter().take(indexes) {
        store.add_index(def).expect("the names differ");
    }
    for n in 0..objects {
        store.upsert(object(n, 1));
    }
    store
}

/// An update of every object, in a scattered order, again and again: nanoseconds each.
fn updates(objects: usize, indexes: usize) -> f64 {
    let store = RwLock::new(filled(objects, indexes));
    update_all(&store, Tiny::scattered(objects))
}

/// An update of these objects in the order of their numbers. What an update takes out goes in again a round later: a
/// garbage collector counts no references, and they are no work of the store.
fn update_all(store: &RwLock<Store<TinyObject>>, numbers: impl ExactSizeIterator<Item = usize>) -> f64 {
    let round = 2 * numbers.len();
    let mut waiting: Vec<_> = numbers.map(|n| Some(object(n, 2))).collect();
    let mut update = |turn: usize| {
        let place = turn % waiting.len();
        let next = waiting[place].take().expect("it was put back");
        waiting[place] = store.write().upsert(next);
    };
    mean_ns(round, &mut update);
    mean_ns(CALLS.next_multiple_of(round), update)
}

/// The same reads and updates in a small store and in a big one. What is read lies everywhere in either.
fn scale(small: usize, big: usize) -> Figures {
    let mut figures = Figures::new();
    for (name, size) in [("small", small), ("big", big)] {
        let some = || Tiny::scattered(size).take(100_000);
        let bare = RwLock::new(filled(size, 0));
        figures.set(format!("update-0-{name}"), update_all(&bare, some().collect::<Vec<_>>().into_iter()));
        drop(bare);
        let store = RwLock::new(filled(size, 3));
        figures.set(format!("update-3-{name}"), update_all(&store, some().collect::<Vec<_>>().into_iter()));

        let keys: Vec<Key> = some().map(key).collect();
        let get = |turn: usize| {
            let object = store.read().get(keys[turn % keys.len()].as_str()).expect("every key is there").clone();
            read(&object)
        };
        mean_ns(keys.len(), get);
        figures.set(format!("get-{name}"), mean_ns(CALLS, get));

        let everything = LabelSelector::everything();
        let select = |namespace: &str, selector: &LabelSelector| {
            let found = Lister::new(&store.read()).select(namespace, selector).detach();
            found.into_objects()
        };
        let namespaces: Vec<String> = scattered_names(size, Tiny::IN_NAMESPACE, Tiny::namespace);
        let namespace = |turn: usize| {
            let found = select(&namespaces[turn % namespaces.len()], &everything);
            assert_eq!(found.len(), Tiny::IN_NAMESPACE);
            found
        };
        mean_ns(namespaces.len(), namespace);
        figures.set(format!("namespace-{name}"), mean_ns(LISTS, namespace));
        let selectors: Vec<LabelSelector> = scattered_names(size, Tiny::IN_BLOCK, Tiny::block)
            .iter()
            .map(|block| format!("{}={block}", Tiny::BLOCK).parse().expect("it is well-formed"))
            .collect();
        let selected = |turn: usize| {
            let found = select("", &selectors[turn % selectors.len()]);
            assert_eq!(found.len(), Tiny::IN_BLOCK);
            found
        };
        mean_ns(selectors.len(), selected);
        figures.set(format!("selector-{name}"), mean_ns(LISTS, selected));
    }
    figures
}

/// The names of groups of `each` neighbours, in a scattered order.
fn scattered_names(size: usize, each: usize, name: impl Fn(usize) -> String) -> Vec<String> {
    Tiny::scattered(size / each).map(|group| name(group * each)).collect()
}

/// Processor time for each event, from its feeding to the return of the last handler's call; nothing is merged.
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
            assert!(registration.wait_synced(Instant::now() + PATIENCE).expect("no deadlock"), "the list was told");
        }
        // Two versions of each object, in turn.
        let versions = [2, 3].map(|version| (0..LIVE).map(|n| object(n, version)).collect::<Vec<_>>());
        let meter = Meter::start();
        for from in (0..events).step_by(AT_ONCE) {
            let part = from..events.min(from + AT_ONCE);
            fed.apply(part.map(|change| versions[change / LIVE % 2][fed.of(change)].clone()));
        }
        for _ in 0..handlers {
            all_told.recv_timeout(PATIENCE).expect("every handler is told of every event");
        }
        figures.set(format!("event-{handlers}"), meter.cpu().as_secs_f64() * 1e6 / events as f64);
    }
    figures
}
