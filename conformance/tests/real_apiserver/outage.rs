//! How soon after the server we are back.

use crate::harness::{PATIENCE, cluster};
use crate::sync::{CONFIG_MAPS, map_template};
use crate::watcher::{Collection, Logged, Watcher};
use informer_core::reflector::{Phase, reason};
use informer_runtime::informer::InformerSpec;
use k8s_openapi::api::core::v1::ConfigMap;
use std::net::TcpStream;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

/// The longest wait after a refused connection: three seconds and as much of jitter.
const BOUND: Duration = Duration::from_secs(6);

/// What a busy machine may add: to a timer, to a thread, to the observer.
const MARGIN: Duration = Duration::from_secs(2);

#[test]
fn an_outage_is_over_for_us_six_seconds_after_it_is_over_for_the_server() {
    let Some(cluster) = cluster() else { return };
    let namespace = cluster.namespace("outage");
    let mut maps = Collection::new(&cluster, &CONFIG_MAPS, &namespace, map_template());
    maps.create("a");
    maps.create("b");
    let watchers = Watcher::synced_pair(&cluster.config("admin"), Some(&namespace), InformerSpec::<ConfigMap>::new);
    cluster.kill();
    for watcher in &watchers {
        // The third wait is the longest.
        watcher.fails(reason::REFUSED, 3);
    }
    let (address, began) = (cluster.address(), Instant::now());
    let listens_since = thread::scope(|scope| {
        let listens = scope.spawn(|| {
            while TcpStream::connect(address).is_err() {
                assert!(began.elapsed() < PATIENCE, "the server does not listen");
                sleep(Duration::from_millis(5));
            }
            Instant::now()
        });
        cluster.start_server();
        listens.join().expect("the server listens")
    });
    maps.create("c");
    maps.delete("b");
    for watcher in watchers {
        watcher.agrees_with(&cluster.admin());
        let right = listens_since.elapsed();
        for seen in watcher.seen() {
            maps.explains(&watcher.name, &seen);
        }
        let log = watcher.log();
        let after = |what: &dyn Fn(&Logged) -> bool| {
            let found = log.iter().find(|(at, logged)| *at >= listens_since && what(logged));
            found.map(|(at, _)| at.duration_since(listens_since)).expect("it was seen")
        };
        let contact = after(&|logged| matches!(logged, Logged::Request(_)));
        let answered = after(&|logged| matches!(logged, Logged::Phase(Phase::Watching)));
        println!(
            "{}: after the server listens: asked {contact:?}, answered {answered:?}, right {right:?}",
            watcher.name
        );
        let failures = watcher.failures();
        let failures = failures.iter().skip_while(|failure| failure.reason != reason::REFUSED);
        println!("  {:?}", failures.map(|failure| (&failure.reason, failure.retry_in)).collect::<Vec<_>>());
        assert!(contact <= BOUND + MARGIN, "{}: {contact:?}: {log:#?}", watcher.name);
        watcher.asks_within_its_backoff();
        watcher.stop();
    }
}
