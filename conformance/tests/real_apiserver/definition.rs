//! A custom resource definition that is deleted under open watches and comes back.

use crate::harness::{PATIENCE, cluster, eventually};
use crate::sync::{DEFINITIONS, Widget, define_widgets, widget_template};
use crate::watcher::{Collection, Watcher};
use informer_core::Object;
use informer_runtime::informer::InformerSpec;

#[test]
fn a_definition_that_goes_takes_its_objects_along_and_comes_back_with_others() {
    let Some(cluster) = cluster() else { return };
    let namespace = cluster.namespace("definition");
    define_widgets(&cluster);
    let mut widgets = Collection::new(&cluster, &Widget::resource(), &namespace, widget_template());
    for name in ["a", "b", "c"] {
        widgets.create(name);
    }
    let watchers = Watcher::synced_pair(&cluster.config("admin"), Some(&namespace), InformerSpec::<Widget>::new);
    let first = watchers[0].cached();
    for round in 0..2 {
        let before = watchers[0].cached();
        cluster.admin().must("DELETE", &format!("{DEFINITIONS}/widgets.e2e.example.com"), "");
        widgets.deleted.extend(before.iter().map(|(key, (uid, _))| (key.clone(), uid.clone())));
        for watcher in &watchers {
            watcher.agrees_with(&cluster.admin());
            eventually(&format!("{} is told that there is no such resource", watcher.name), || {
                let failures = watcher.failures();
                let missing = failures.iter().any(|failure| failure.code == 404);
                if missing { Ok(()) } else { Err(format!("{failures:?}")) }
            });
            // It has been synced, and stays so.
            watcher.synced(PATIENCE).unwrap();
        }
        define_widgets(&cluster);
        for name in ["a", "b", if round == 0 { "d" } else { "e" }] {
            widgets.create(name);
        }
        for watcher in &watchers {
            watcher.agrees_with(&cluster.admin());
            for seen in watcher.seen() {
                widgets.explains(&watcher.name, &seen);
                assert_eq!(seen.deletions().len(), 3 * (round + 1), "{}", watcher.name);
            }
        }
    }
    for watcher in watchers {
        let last = watcher.cached();
        assert_ne!(last["definition/a"].0, first["definition/a"].0, "{}: another incarnation", watcher.name);
        for seen in watcher.seen() {
            assert_eq!(seen.story("definition/a"), ["added", "deleted", "added", "deleted", "added"]);
            assert_eq!(seen.story("definition/c"), ["added", "deleted"]);
        }
        watcher.stop();
    }
}
