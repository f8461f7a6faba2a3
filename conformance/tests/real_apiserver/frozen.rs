//! The server stands still (SIGSTOP) for longer than the deadlines: the kernel takes connections, and nothing answers.

use crate::harness::{Cluster, cluster};
use crate::network::impatient;
use crate::proxy::{Network, Proxy};
use crate::sync::{CONFIG_MAPS, map_template};
use crate::watcher::{Collection, Watcher};
use informer_core::reflector::{ListStrategy, Phase, reason};
use informer_core::rng::Rng;
use informer_runtime::informer::InformerSpec;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use std::sync::atomic::Ordering;

#[test]
fn a_watch_on_a_server_that_stands_still_is_given_up_and_goes_on_without_a_repeat() {
    let Some(cluster) = cluster() else { return };
    let namespace = cluster.namespace("frozen-watch");
    let mut maps = Collection::new(&cluster, &CONFIG_MAPS, &namespace, map_template());
    for name in ["a", "b", "c"] {
        maps.create(name);
    }
    let spec = || InformerSpec::<ConfigMap>::new().tuning(impatient());
    let watchers = Watcher::synced_pair(&cluster.config("admin"), Some(&namespace), spec);
    cluster.freeze();
    for watcher in &watchers {
        watcher.fails(reason::DEADLINE, 2);
        assert_eq!(watcher.cached().len(), 3, "{}: what is cached can be read all the time", watcher.name);
    }
    cluster.thaw();
    maps.create("d");
    maps.change("b", "thawed");
    maps.delete("c");
    for watcher in watchers {
        watcher.agrees_with(&cluster.admin());
        for seen in watcher.seen() {
            maps.explains(&watcher.name, &seen);
            let story = |name: &str| seen.story(&format!("{namespace}/{name}"));
            assert_eq!(story("a"), ["added"], "{}", watcher.name);
            assert_eq!(story("b"), ["added", "updated"], "{}", watcher.name);
            assert_eq!(story("c"), ["added", "deleted"], "{}", watcher.name);
            assert_eq!(story("d"), ["added"], "{}", watcher.name);
        }
        watcher.asks_within_its_backoff();
        watcher.stop();
    }
}

/// Objects whose text does not compress, so that a list is long on the wire, too.
fn fill(cluster: &Cluster, namespace: &str, count: usize) -> Collection {
    let mut rng = Rng::new(1);
    let text: String = (0..500).map(|_| format!("{:016x}", rng.next())).collect();
    let mut template = map_template();
    template["data"] = json!({ "text": text });
    let maps = Collection::new(cluster, &CONFIG_MAPS, namespace, template);
    for number in 0..count {
        maps.create(&format!("big-{number}"));
    }
    maps
}

/// The server stops in the middle of the first list.
fn stops_inside_a_list(namespace: &str, strategy: ListStrategy, phase: Phase) {
    let Some(cluster) = cluster() else { return };
    let namespace = cluster.namespace(namespace);
    let mut maps = fill(&cluster, &namespace, 40);
    let proxy = Proxy::to(cluster.address());
    // More than TLS and the head, less than the list; what is on its way already does not arrive.
    proxy.set(Network::StallAfter(20_000));
    let spec = || InformerSpec::<ConfigMap>::new().strategy(strategy).tuning(impatient());
    let watchers = Watcher::pair(&cluster.config_through(&proxy), Some(&namespace), spec).unwrap();
    crate::harness::eventually("both lists have begun", || {
        let stalls = proxy.struck().stalls.load(Ordering::Relaxed);
        if stalls >= 2 { Ok(()) } else { Err(format!("{stalls} have")) }
    });
    cluster.freeze();
    for watcher in &watchers {
        watcher.fails(reason::DEADLINE, 2);
        assert!(watcher.failures().iter().all(|failure| failure.phase == phase), "{:?}", watcher.failures());
        assert_eq!(watcher.cached().len(), 0, "{}: half a list shows nothing", watcher.name);
        assert!(!watcher.informer().has_synced(), "{}", watcher.name);
    }
    cluster.thaw();
    proxy.set(Network::Good);
    maps.delete("big-0");
    for watcher in watchers {
        watcher.agrees_with(&cluster.admin());
        for seen in watcher.seen() {
            maps.explains(&watcher.name, &seen);
            for number in 1..40 {
                assert_eq!(seen.story(&format!("{namespace}/big-{number}")), ["added"], "{}", watcher.name);
            }
        }
        watcher.asks_within_its_backoff();
        watcher.stop();
    }
}

#[test]
fn a_list_on_a_server_that_stands_still_is_given_up_and_shows_nothing() {
    stops_inside_a_list("frozen-list", ListStrategy::Paged, Phase::Listing);
}

#[test]
fn a_streaming_list_on_a_server_that_stands_still_is_given_up_and_shows_nothing() {
    stops_inside_a_list("frozen-stream", ListStrategy::Streaming, Phase::Streaming);
}
