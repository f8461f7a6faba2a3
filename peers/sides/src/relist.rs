//! A list of Pods that the cache has already, over loopback: how long it takes, how much memory, and who notices.

use crate::PATIENCE;
use informer_blocking::core::wire::{Request, Verb};
use informer_blocking::{FactoryOptions, InformerHandle, InformerSpec, ListStrategy, Notification, Observed};
use informer_peers::meter::Memory;
use informer_peers::side::{Figures, REST, expire};
use informer_peers::stall::Stalls;
use k8s_openapi::api::core::v1::Pod;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

/// Lists, and lists again.
///
/// # Panics
///
/// If `runtime` is neither `tokio` nor `blocking`.
pub fn run(runtime: &str, server: SocketAddr, objects: usize) -> Figures {
    match runtime {
        "tokio" => tokio(server, objects),
        "blocking" => blocking(server, objects),
        other => panic!("{other} is no runtime of ours: tokio or blocking"),
    }
}

/// As one list, which is what is drained for comparison.
fn spec() -> InformerSpec<Pod> {
    InformerSpec::new().strategy(ListStrategy::Paged)
}

fn tokio(server: SocketAddr, objects: usize) -> Figures {
    use informer_tokio::{Client, Config, Factory};
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let (options, requests) = observed();
    let (handler, told) = counting();
    let config = Config::from_url(&format!("http://{server}")).expect("a URL");
    let factory = Factory::with_options(Client::connect(config).expect("a client"), options);
    let pods = factory.informer_with(spec());
    runtime.block_on(async {
        let handler = pods.handle(handler);
        factory.start();
        factory.synced(PATIENCE).await.expect("a complete list");
        assert!(handler.synced().await, "the handler has seen everything");
    });
    measure(&pods, server, objects, &requests, &told)
}

fn blocking(server: SocketAddr, objects: usize) -> Figures {
    use informer_blocking::{Client, Config, Factory};
    let (options, requests) = observed();
    let (handler, told) = counting();
    let config = Config::from_url(&format!("http://{server}")).expect("a URL");
    let factory = Factory::with_options(Client::connect(config).expect("a client"), options);
    let pods = factory.informer_with(spec());
    let handler = pods.handle(handler);
    factory.start();
    factory.synced(PATIENCE).expect("a complete list");
    assert!(handler.wait_synced(PATIENCE).expect("no deadlock"), "the handler has seen everything");
    measure(&pods, server, objects, &requests, &told)
}

/// When which request was sent.
type Sent = (Instant, Verb);

fn observed() -> (FactoryOptions, Receiver<Sent>) {
    let (sent, requests) = channel();
    let observer = move |observed: &Observed<'_>| {
        if let Observed::Request(Request { verb, .. }) = observed {
            // Whoever asked may be gone.
            let _ = sent.send((Instant::now(), *verb));
        }
    };
    (FactoryOptions::observed(Arc::new(observer)), requests)
}

/// A handler that counts what it is told after its initial state.
fn counting() -> (impl FnMut(&Notification<Pod>) + Send + 'static, Arc<AtomicU64>) {
    let told = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&told);
    let handler = move |notification: &Notification<Pod>| {
        if !matches!(notification, Notification::Added { initial: true, .. }) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    };
    (handler, told)
}

fn measure(
    pods: &InformerHandle<Pod>,
    server: SocketAddr,
    objects: usize,
    requests: &Receiver<Sent>,
    told: &AtomicU64,
) -> Figures {
    let lister = pods.lister();
    assert_eq!(lister.len(), objects, "all objects are in the cache");
    let keys: Vec<_> = lister.list().iter().map(|pod| pod.key().to_key()).collect();
    let next = |verb| loop {
        let (at, sent) = requests.recv_timeout(PATIENCE).expect("a request");
        if sent == verb {
            return at;
        }
    };
    next(Verb::Watch);
    std::thread::sleep(REST);
    let settled = Memory::now().settled_mib;
    Memory::forget_peak();

    let stalls = Stalls::of(move |turn| assert!(lister.get(&keys[turn % keys.len()]).is_some(), "it stays"));
    expire(server).expect("a watch to expire");
    let began = next(Verb::List);
    // A watch is opened when the list is in the cache.
    let ended = next(Verb::Watch);
    let longest = stalls.end();

    let mut figures = Figures::new();
    figures.set("relist", (ended - began).as_secs_f64());
    figures.set("relist-stall", longest.as_secs_f64() * 1e3);
    figures.set("relist-peak", Memory::now().peak_mib);
    figures.set("relist-settled", settled);
    // What it is told comes on another thread, soon.
    std::thread::sleep(REST);
    figures.set("relist-told", told.load(Ordering::Relaxed) as f64);
    figures
}
