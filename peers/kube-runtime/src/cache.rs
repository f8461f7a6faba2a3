//! kube-runtime's store and shared subscribers, in jobs of `peers/run cache`:
//!
//! ```text
//! kube-runtime-cache store OBJECTS | events TO-1 TO-10 TO-100 | stalled EVENTS | relist SERVER OBJECTS
//! ```

use futures_util::{StreamExt, pin_mut, stream};
use informer_peers::cache::Tiny;
use informer_peers::meter::{Memory, Meter};
use informer_peers::pace::{busy, mean_ns};
use informer_peers::side::{Figures, REST, expire};
use informer_peers::stall::Stalls;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::core::Selector;
use kube::runtime::reflector::{ObjectRef, store, store_shared};
use kube::runtime::watcher::{Config, Error, Event};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Client};
use peer_kube_runtime::tiny::{key, object};
use std::net::SocketAddr;
use std::sync::mpsc::channel;
use std::time::Duration;

/// How long to wait for a list.
const PATIENCE: Duration = Duration::from_secs(600);
/// Updates and reads of one mean.
const CALLS: usize = 300_000;
/// Answers of one mean: each looks at every object.
const SCANS: usize = 50;
/// Keys that events go to, and beside a stalled handler.
const LIVE: [usize; 2] = [10_000, 4_000];
/// Events that a subscriber may be behind: as much as ours keeps exactly.
const BUFFER: usize = 1_024;
/// A writer that has not got on for so long hangs.
const HANGS: Duration = Duration::from_secs(2);

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let number = |word: &str| word.parse().expect("a number");
    let figures = match words[..] {
        ["store", objects] => in_store(number(objects)),
        ["events", one, ten, hundred] => events([(1, number(one)), (10, number(ten)), (100, number(hundred))]),
        ["stalled", events] => stalled(number(events)),
        ["relist", server, objects] => relist(server.parse().expect("HOST:PORT"), number(objects)),
        _ => panic!("usage: the head of this file"),
    };
    figures.print_and_exit()
}

fn in_store(objects: usize) -> Figures {
    let mut figures = Figures::new();
    let (reader, mut writer) = store::<ConfigMap>();
    for n in 0..objects {
        writer.apply_watcher_event(&Event::Apply(object(n, 1)));
    }
    let changed: Vec<_> = Tiny::scattered(objects).map(|n| Event::Apply(object(n, 2))).collect();
    mean_ns(changed.len(), |turn| writer.apply_watcher_event(&changed[turn]));
    let updates = CALLS.next_multiple_of(changed.len());
    figures.set("update-0", mean_ns(updates, |turn| writer.apply_watcher_event(&changed[turn % changed.len()])));

    let keys: Vec<ObjectRef<ConfigMap>> = Tiny::scattered(objects).map(key).collect();
    let get = |turn: usize| {
        // Whoever gets an object looks into it.
        reader.get(&keys[turn % keys.len()]).expect("every key is there").metadata.name.as_ref().map(String::len)
    };
    mean_ns(keys.len(), get);
    figures.set("get", mean_ns(CALLS, get));
    let namespaces = objects / Tiny::IN_NAMESPACE;
    let namespace = |turn: usize| {
        let wanted = Tiny::namespace(turn * Tiny::STRIDE % namespaces * Tiny::IN_NAMESPACE);
        let found = reader.state_filter(|object| object.metadata.namespace.as_deref() == Some(wanted.as_str()));
        assert_eq!(found.len(), Tiny::IN_NAMESPACE);
        found
    };
    figures.set("namespace", mean_ns(SCANS, namespace) / 1e3);
    let selector: Selector = [(Tiny::PART.to_string(), "part-0".to_string())].into_iter().collect();
    let selected = Tiny::in_part_0(objects);
    let select = |_| {
        let found = reader.state_filter_selector(&selector);
        assert_eq!(found.len(), selected);
        found
    };
    figures.set("selector", mean_ns(SCANS, select) / 1e3);
    figures.add(busy(get, move |from, to| {
        (from..to).for_each(|change| writer.apply_watcher_event(&changed[change % changed.len()]));
    }));
    figures
}

fn changes(live: usize, events: usize) -> Vec<Result<Event<ConfigMap>, Error>> {
    (0..events).map(|change| Ok(Event::Apply(object(change % live * Tiny::STRIDE % live, 2 + change)))).collect()
}

/// Everything on one thread, subscribers as tasks.
fn events(runs: [(usize, usize); 3]) -> Figures {
    let mut figures = Figures::new();
    for (handlers, events) in runs {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let (reader, mut writer) = store_shared::<ConfigMap>(BUFFER);
        for n in 0..LIVE[0] {
            writer.apply_watcher_event(&Event::Apply(object(n, 1)));
        }
        let subscribers: Vec<_> = (0..handlers).map(|_| writer.subscribe().expect("a shared store")).collect();
        let changes = changes(LIVE[0], events);
        let meter = Meter::start();
        runtime.block_on(async {
            let told: Vec<_> = subscribers.into_iter().map(|subscriber| tokio::spawn(subscriber.count())).collect();
            let through = stream::iter(changes).reflect_shared(writer).count().await;
            assert_eq!(through, events);
            for told in told {
                assert_eq!(told.await.expect("it only counts"), events, "every subscriber is told of every event");
            }
        });
        figures.set(format!("event-{handlers}"), meter.cpu().as_secs_f64() * 1e6 / events as f64);
        assert_eq!(reader.len(), LIVE[0]);
    }
    figures
}

/// A subscriber that is never polled, and another one that is.
fn stalled(events: usize) -> Figures {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let (_reader, writer) = store_shared::<ConfigMap>(BUFFER);
    let (stalled, mut other) =
        (writer.subscribe().expect("a shared store"), writer.subscribe().expect("a shared store"));
    let changes = changes(LIVE[1], events);
    let told = runtime.block_on(async {
        let through = tokio::spawn(stream::iter(changes).reflect_shared(writer).count());
        let mut told = 0;
        while let Ok(Some(_)) = tokio::time::timeout(HANGS, other.next()).await {
            told += 1;
        }
        through.abort();
        told
    });
    drop(stalled);
    let mut figures = Figures::new();
    figures.set("stalled-others", 100.0 * f64::from(told) / events as f64);
    figures
}

/// Its default: pages of 500.
fn relist(server: SocketAddr, objects: usize) -> Figures {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let (listed, is_listed) = channel();
    let (reader, writer) = store::<Pod>();
    runtime.spawn(async move {
        let config = kube::Config::new(format!("http://{server}").parse().expect("a URL"));
        let pods: Api<Pod> = Api::all(Client::try_from(config).expect("a client"));
        let stream = reflector(writer, watcher(pods, Config::default()).default_backoff());
        pin_mut!(stream);
        while let Some(event) = stream.next().await {
            // What fails is the watch that expires.
            if let Ok(Event::InitDone) = event {
                listed.send(()).expect("main waits");
            }
        }
    });
    is_listed.recv_timeout(PATIENCE).expect("a complete list");
    assert_eq!(reader.len(), objects, "all objects are in the store");
    std::thread::sleep(REST);
    let settled = Memory::now().settled_mib;
    Memory::forget_peak();

    let keys: Vec<_> = reader.state().iter().map(|pod| ObjectRef::from_obj(&**pod)).collect();
    let stalls = Stalls::of({
        let reader = reader.clone();
        move |turn| assert!(reader.get(&keys[turn % keys.len()]).is_some(), "it stays")
    });
    expire(server).expect("a watch to expire");
    is_listed.recv_timeout(PATIENCE).expect("a complete list");
    let longest = stalls.end();
    let mut figures = Figures::new();
    figures.set("relist-stall", longest.as_secs_f64() * 1e3);
    figures.set("relist-peak", Memory::now().peak_mib);
    figures.set("relist-settled", settled);
    figures
}
