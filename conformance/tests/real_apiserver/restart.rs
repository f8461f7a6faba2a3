//! The server goes away and comes back: killed, ended, stopped where it stands, with its history compacted meanwhile.

use crate::harness::{cluster, eventually};
use crate::network::quick;
use crate::sync::{CONFIG_MAPS, map_template};
use crate::watcher::{Collection, Watcher};
use informer_core::reflector::Phase;
use informer_runtime::informer::InformerSpec;
use k8s_openapi::api::core::v1::ConfigMap;
use std::time::Duration;

fn spec() -> InformerSpec<ConfigMap> {
    InformerSpec::new().tuning(quick())
}

#[test]
fn nothing_is_lost_or_invented_when_the_server_restarts() {
    let Some(cluster) = cluster() else { return };
    let (namespace, other) = (cluster.namespace("restart"), cluster.namespace("restart-other"));
    let mut maps = Collection::new(&cluster, &CONFIG_MAPS, &namespace, map_template());
    let elsewhere = Collection::new(&cluster, &CONFIG_MAPS, &other, map_template());
    for number in 0..20 {
        maps.create(&format!("old-{number}"));
    }
    let watchers = Watcher::synced_pair(&cluster.config("admin"), Some(&namespace), spec);
    for round in 0..3 {
        // Right before: whether these events still arrive is chance, whether they are known in the end is not.
        maps.create(&format!("before-{round}"));
        maps.change("old-1", &format!("before-{round}"));
        maps.delete(&format!("old-{}", 10 + round));
        maps.create(&format!("brief-{round}"));
        maps.delete(&format!("brief-{round}"));
        maps.delete("old-2");
        maps.create("old-2");
        // The informers see nothing of this one, so their versions are older than the new watch cache.
        elsewhere.create(&format!("unseen-{round}"));
        if round == 1 {
            cluster.terminate();
        } else {
            cluster.kill();
        }
        cluster.start_server();
        // Right after.
        maps.create(&format!("after-{round}"));
        maps.change("old-3", &format!("after-{round}"));
        maps.delete(&format!("old-{}", 15 + round));
        maps.delete(&format!("before-{round}"));
        maps.create(&format!("before-{round}"));
        for watcher in &watchers {
            watcher.agrees_with(&cluster.admin());
        }
    }
    for watcher in watchers {
        for seen in watcher.seen() {
            maps.explains(&watcher.name, &seen);
            // These were known before they went, so their end must have been told.
            for name in ["old-10", "old-11", "old-12", "old-15", "old-16", "old-17"] {
                assert_eq!(seen.story(&format!("{namespace}/{name}")), ["added", "deleted"], "{}", watcher.name);
            }
        }
        let expired = watcher.failures().iter().filter(|failure| failure.code == 410).count();
        println!("{}: {expired} watches were told 410", watcher.name);
        assert!(expired > 0, "{}: {:?}", watcher.name, watcher.failures());
        watcher.stop();
    }
}

#[test]
fn nothing_is_lost_or_invented_when_history_is_compacted_while_the_informer_is_cut_off() {
    let Some(cluster) = cluster() else { return };
    let namespace = cluster.namespace("compaction");
    let mut maps = Collection::new(&cluster, &CONFIG_MAPS, &namespace, map_template());
    for number in 0..10 {
        maps.create(&format!("old-{number}"));
    }
    let watchers = Watcher::synced_pair(&cluster.config("admin"), Some(&namespace), spec);
    for watcher in &watchers {
        watcher.cut_off(true);
    }
    // Ends the watches that stand.
    cluster.kill();
    cluster.start_server();
    maps.delete("old-1");
    maps.delete("old-2");
    maps.create("old-2");
    maps.change("old-3", "unseen");
    maps.create("new");
    for name in ["old-4", "old-5"] {
        maps.delete(name);
    }
    cluster.compact();
    // Its watch cache would remember what etcd has forgotten.
    cluster.kill();
    cluster.start_server();
    maps.create("newest");
    for watcher in &watchers {
        watcher.cut_off(false);
    }
    for watcher in watchers {
        watcher.agrees_with(&cluster.admin());
        for seen in watcher.seen() {
            maps.explains(&watcher.name, &seen);
            let story = |name: &str| seen.story(&format!("{namespace}/{name}"));
            for name in ["old-1", "old-4", "old-5"] {
                assert_eq!(story(name), ["added", "deleted"], "{}", watcher.name);
            }
            assert_eq!(story("old-2"), ["added", "deleted", "added"], "{}", watcher.name);
            assert_eq!(story("old-3"), ["added", "updated"], "{}", watcher.name);
            assert_eq!(story("old-6"), ["added"], "{}", watcher.name);
        }
        let expired = watcher.failures().iter().any(|failure| failure.code == 410);
        assert!(expired, "{}: the old version was still known: {:?}", watcher.name, watcher.failures());
        watcher.stop();
    }
}

#[test]
fn a_server_that_takes_connections_and_does_not_answer_is_waited_for() {
    let Some(cluster) = cluster() else { return };
    let namespace = cluster.namespace("frozen");
    let mut maps = Collection::new(&cluster, &CONFIG_MAPS, &namespace, map_template());
    maps.create("a");
    maps.create("b");
    let old = Watcher::synced_pair(&cluster.config("admin"), Some(&namespace), InformerSpec::<ConfigMap>::new);
    cluster.freeze();
    let config = cluster.config("admin");
    let young = Watcher::pair(&config, Some(&namespace), InformerSpec::<ConfigMap>::new).unwrap();
    for watcher in &young {
        let error = watcher.synced(Duration::from_secs(1)).unwrap_err().to_string();
        assert!(error.contains(r#"configmaps in namespace "frozen": no answer yet"#), "{}: {error}", watcher.name);
    }
    // What is cached can be read all the time.
    for watcher in &old {
        assert_eq!(watcher.cached().len(), 2, "{}", watcher.name);
        assert_eq!(watcher.informer().phase(), Phase::Watching, "{}", watcher.name);
    }
    // One that stops must not wait for the server.
    let given_up = Watcher::pair(&config, Some(&namespace), InformerSpec::<ConfigMap>::new).unwrap();
    given_up.into_iter().for_each(Watcher::stop);
    cluster.thaw();
    maps.create("c");
    maps.delete("a");
    for watcher in old.into_iter().chain(young) {
        eventually(&watcher.name, || watcher.synced(Duration::from_secs(1)).map_err(|error| error.to_string()));
        watcher.agrees_with(&cluster.admin());
        for seen in watcher.seen() {
            maps.explains(&watcher.name, &seen);
        }
        watcher.stop();
    }
}
