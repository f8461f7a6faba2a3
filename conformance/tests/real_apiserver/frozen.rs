//! The server stands still (SIGSTOP) for longer than the deadlines: the kernel takes connections, and nothing answers.

use crate::harness::{cluster, eventually};
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

/// Text that does not compress, not even beside the others, so that a list is long on the wire, too.
fn noise(rng: &mut Rng) -> String {
    (0..500).map(|_| format!("{:016x}", rng.next())).collect()
}

/// Three pairs of informers: on a watch, in the middle of a list, and in the middle of a streaming list.
#[test]
fn a_server_that_stands_still_is_given_up_shows_nothing_and_goes_on_without_a_repeat() {
    let Some(cluster) = cluster() else { return };
    let namespace = cluster.namespace("frozen-inside");
    let mut maps = Collection::new(&cluster, &CONFIG_MAPS, &namespace, map_template());
    let mut rng = Rng::new(1);
    for number in 0..40 {
        maps.template["data"] = json!({ "text": noise(&mut rng) });
        maps.create(&format!("big-{number}"));
    }
    let spec = || InformerSpec::<ConfigMap>::new().tuning(impatient());
    let watching = Watcher::synced_pair(&cluster.config("admin"), Some(&namespace), spec);
    let proxy = Proxy::to(cluster.address());
    // More than TLS and the head, less than the list; what is on its way already does not arrive.
    proxy.set(Network::StallAfter(20_000));
    let pair = |strategy| {
        let spec = || spec().strategy(strategy);
        Watcher::pair(&cluster.config_through(&proxy), Some(&namespace), spec).unwrap()
    };
    let (listing, streaming) = (pair(ListStrategy::Paged), pair(ListStrategy::Streaming));
    eventually("all four lists have begun", || {
        let stalls = proxy.struck().stalls.load(Ordering::Relaxed);
        let say = |watcher: &Watcher<ConfigMap>| format!("{}: {:?}", watcher.name, watcher.log());
        let logs = || listing.iter().chain(&streaming).map(say).collect::<Vec<_>>();
        if stalls >= 4 { Ok(()) } else { Err(format!("{stalls} have: {:#?}", logs())) }
    });
    cluster.freeze();
    for watcher in &watching {
        watcher.fails(reason::DEADLINE, 2);
        assert_eq!(watcher.cached().len(), 40, "{}: what is cached can be read all the time", watcher.name);
    }
    for (pair, phase) in [(&listing, Phase::Listing), (&streaming, Phase::Streaming)] {
        for watcher in pair {
            watcher.fails(reason::DEADLINE, 2);
            assert!(watcher.failures().iter().all(|failure| failure.phase == phase), "{:?}", watcher.failures());
            assert_eq!(watcher.cached().len(), 0, "{}: half a list shows nothing", watcher.name);
            assert!(!watcher.informer().has_synced(), "{}", watcher.name);
        }
    }
    cluster.thaw();
    proxy.set(Network::Good);
    maps.create("new");
    maps.change("big-0", "thawed");
    maps.delete("big-1");
    for watcher in watching.into_iter().chain(listing).chain(streaming) {
        watcher.agrees_with(&cluster.admin());
        for seen in watcher.seen() {
            maps.explains(&watcher.name, &seen);
            for name in (2..40).map(|number| format!("big-{number}")).chain(["new".into()]) {
                assert_eq!(seen.story(&format!("{namespace}/{name}")), ["added"], "{}", watcher.name);
            }
        }
        watcher.asks_within_its_backoff();
        watcher.stop();
    }
}
