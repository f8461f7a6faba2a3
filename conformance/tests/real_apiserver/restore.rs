//! etcd is set back to a backup: versions that were given out are given out again, for other contents.

use crate::harness::{Cluster, cluster, is_slow_wanted};
use crate::network::quick;
use crate::sync::{CONFIG_MAPS, map_template};
use crate::watcher::{Collection, Watcher, list};
use informer_core::Key;
use informer_core::reflector::reason;
use informer_runtime::informer::InformerSpec;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::Value;
use std::time::{Duration, Instant};

/// What was there at the backup, and is there again.
const KEPT: [&str; 3] = ["kept-0", "kept-1", "kept-2"];

/// Objects that are made after the backup.
const LOST: usize = 40;

/// Objects that are changed before and after the restore, to the same versions and other contents.
const TWINS: [&str; 5] = ["twin-0", "twin-1", "twin-2", "twin-3", "twin-4"];

/// A backup is made, things happen, everything is set back, and other things happen.
struct Story {
    maps: Collection,
    namespace: String,
    watchers: [Watcher<ConfigMap>; 2],
    /// Incarnations that the restored state does not have: key and uid.
    gone: Vec<(String, String)>,
    /// Objects that have the version of before, and other content.
    twins: Vec<Key>,
}

fn version(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str().expect("the server gives one");
    version.parse().expect("it is a number")
}

impl Story {
    fn told(cluster: &Cluster, namespace: &str, spec: impl Fn() -> InformerSpec<ConfigMap>) -> Self {
        let namespace = cluster.namespace(namespace);
        let mut maps = Collection::new(cluster, &CONFIG_MAPS, &namespace, map_template());
        for name in KEPT {
            maps.create(name);
        }
        for name in ["changed", "deleted", "replaced"].into_iter().chain(TWINS) {
            maps.create(name);
        }
        let watchers = Watcher::synced_pair(&cluster.config("admin"), Some(&namespace), spec);
        cluster.snapshot("backup");
        maps.change("changed", "lost");
        maps.delete("deleted");
        maps.delete("replaced");
        maps.create("replaced");
        // More than a server writes when it starts, before the twins and after them.
        for number in 0..20 {
            maps.create(&format!("lost-{number}"));
        }
        let known = TWINS.map(|name| version(&maps.change(name, "lost")));
        for number in 20..LOST {
            maps.create(&format!("lost-{number}"));
        }
        for watcher in &watchers {
            watcher.agrees_with(&cluster.admin());
        }
        let before = list(&cluster.admin(), &CONFIG_MAPS, Some(&namespace));
        // Until it is all over, so that what follows meets the whole of it.
        for watcher in &watchers {
            watcher.cut_off(true);
        }
        cluster.restore("backup");
        // What the restored state does not have is deleted by the restore: also the second incarnation of `replaced`.
        let after = list(&cluster.admin(), &CONFIG_MAPS, Some(&namespace));
        assert_eq!(after.len(), 6 + TWINS.len(), "{after:?}");
        let gone = before.into_iter().filter(|(key, (uid, _))| after.get(key).is_none_or(|(now, _)| now != uid));
        let gone: Vec<_> = gone.map(|(key, (uid, _))| (key, uid)).collect();
        maps.deleted.extend(gone.clone());
        // The counter goes up to where the first twin was changed, by changes that no informer looks at.
        let filler = Collection::new(cluster, &CONFIG_MAPS, "default", map_template());
        let mut newest = version(&filler.create(&namespace));
        assert!(newest < known[0], "the server wrote more than was lost: {newest} and {}", known[0]);
        while newest + 1 < known[0] {
            newest = version(&filler.change(&namespace, &format!("to-{newest}")));
        }
        let again = TWINS.map(|name| version(&maps.change(name, "again")));
        let twins: Vec<Key> =
            (0..TWINS.len()).filter(|at| again[*at] == known[*at]).map(|at| Key::new(&namespace, TWINS[at])).collect();
        // The server itself may have written in between: then the rest of them are off.
        assert!(!twins.is_empty(), "{again:?} are none of {known:?}");
        for watcher in &watchers {
            watcher.cut_off(false);
        }
        Story { maps, namespace, watchers, gone, twins }
    }

    /// The restored state is in the caches, and was told as what it is.
    fn ends(self, cluster: &Cluster) {
        let Story { maps, namespace, watchers, gone, twins } = self;
        for watcher in &watchers {
            watcher.agrees_with(&cluster.admin());
            for twin in &twins {
                let twin = watcher.informer().lister().get(twin).expect("it is cached");
                let labels = twin.metadata.labels.as_ref().expect("it was labelled");
                assert_eq!(labels["changed"], "again", "{}: {twin:?} has the content of before", watcher.name);
            }
        }
        // It follows from there.
        maps.create("new");
        maps.change("kept-0", "after");
        for watcher in watchers {
            watcher.agrees_with(&cluster.admin());
            watcher.fails(reason::WENT_BACKWARDS, 1);
            let told: Vec<_> = watcher.failures();
            let told: Vec<_> = told.iter().filter(|failure| failure.reason == reason::WENT_BACKWARDS).collect();
            println!("{}: {}", watcher.name, told[0]);
            assert_eq!(told.len(), 1, "{}: once for one restore: {told:?}", watcher.name);
            for seen in watcher.seen() {
                maps.explains(&watcher.name, &seen);
                let story = |name: &str| seen.story(&format!("{namespace}/{name}"));
                for name in KEPT.into_iter().chain(TWINS) {
                    assert!(!story(name).contains(&"deleted"), "{}: {name}: {:?}", watcher.name, story(name));
                }
                assert_eq!(story("changed"), ["added", "updated", "updated"], "{}", watcher.name);
                assert_eq!(story("deleted"), ["added", "deleted", "added"], "{}", watcher.name);
                assert_eq!(story("replaced"), ["added", "deleted", "added", "deleted", "added"], "{}", watcher.name);
                for number in 0..LOST {
                    assert_eq!(story(&format!("lost-{number}")), ["added", "deleted"], "{}", watcher.name);
                }
                // What the restore left as it was is told once at most: these types cannot say that nothing changed.
                let kept = story("kept-1");
                assert!(kept == ["added"] || kept == ["added", "updated"], "{}: {kept:?}", watcher.name);
                // Nobody saw these go.
                assert_eq!(gone.len(), LOST + 1);
                for lost in &gone {
                    assert!(seen.missed.contains(lost), "{}: {lost:?}: {:?}", watcher.name, seen.missed);
                }
            }
            watcher.asks_within_its_backoff();
            watcher.stop();
        }
    }
}

#[test]
fn a_list_at_a_version_that_a_restore_took_back_finds_it() {
    if !is_slow_wanted("a restore that a list finds") {
        return;
    }
    let Some(cluster) = cluster() else { return };
    // A watch that ends this soon without news counts as refused, and then comes a list.
    let mut tuning = quick();
    tuning.short_watch = Duration::from_secs(5);
    tuning.short_watches = 1;
    let second = Duration::from_secs(1);
    let spec = || InformerSpec::new().min_watch_timeout(second).tuning(tuning.clone());
    let story = Story::told(&cluster, "restored", spec);
    for watcher in &story.watchers {
        watcher.fails("Timeout", 1);
    }
    story.ends(&cluster);
}

#[test]
fn a_restore_that_no_watch_shows_is_found_by_asking_for_the_version() {
    let Some(cluster) = cluster() else { return };
    let mut tuning = quick();
    tuning.version_probe = Duration::from_secs(2);
    let story = Story::told(&cluster, "restored-unseen", || InformerSpec::new().tuning(tuning.clone()));
    story.ends(&cluster);
}

/// What the real server answers to a watch at a version that it has not given out yet: nothing, and no error.
#[test]
fn a_watch_from_the_future_is_accepted_and_silent() {
    let Some(cluster) = cluster() else { return };
    let namespace = cluster.namespace("future");
    let maps = Collection::new(&cluster, &CONFIG_MAPS, &namespace, map_template());
    let now = maps.create("a");
    let now: u64 = now["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    let path = CONFIG_MAPS.path(Some(&namespace));
    let target =
        format!("{path}?watch=true&allowWatchBookmarks=true&timeoutSeconds=2&resourceVersion={}", now + 1_000_000);
    let began = Instant::now();
    let watch = cluster.admin().watch_and(&target, || {
        maps.create("b");
        maps.change("a", "unseen");
    });
    assert_eq!((watch.status, watch.body.as_str()), (200, ""), "no event, no bookmark, no error");
    // Generous: what matters is that it did not end at once.
    assert!(began.elapsed() > Duration::from_secs(1), "it ended after {:?}", began.elapsed());
    let answer = cluster.admin().ask("GET", &format!("{path}?resourceVersion={}", now + 1_000_000), "");
    assert_eq!(answer.status, 504, "{}", answer.body);
    assert!(answer.body.contains("ResourceVersionTooLarge"), "{}", answer.body);
}
