//! First lists and live changes, of built-in types and custom resources, for every kind of credentials.

use crate::harness::{Cluster, cluster, eventually};
use crate::watcher::{Collection, Watcher};
use informer_core::{DynamicObject, Object, ObjectMeta, Resource};
use informer_runtime::informer::InformerSpec;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::{Value, json};

/// A custom resource as a type of one's own.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Widget {
    metadata: ObjectMeta,
    pub(crate) spec: WidgetSpec,
}

#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct WidgetSpec {
    pub(crate) size: u32,
}

impl Object for Widget {
    type Meta = ObjectMeta;

    fn resource() -> Resource {
        Resource::namespaced("e2e.example.com", "v1", "widgets", "Widget")
    }

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

pub(crate) const CONFIG_MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");

pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Installs the definition of widgets and waits until they are served.
pub(crate) fn define_widgets(cluster: &Cluster) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.e2e.example.com"},
        "spec": {
            "group": "e2e.example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object",
                "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
            }}}],
        },
    });
    let admin = cluster.admin();
    eventually("widgets are served", || {
        admin.ask("POST", DEFINITIONS, &definition.to_string());
        // One that was deleted and is on its way out still serves.
        let installed = admin.ask("GET", &format!("{DEFINITIONS}/widgets.e2e.example.com"), "");
        if installed.status != 200 || installed.json().pointer("/metadata/deletionTimestamp").is_some() {
            return Err(installed.body);
        }
        let served = admin.ask("GET", &Widget::resource().path(None), "");
        if served.status == 200 { Ok(()) } else { Err(served.body) }
    });
}

pub(crate) fn widget_template() -> Value {
    json!({"apiVersion": "e2e.example.com/v1", "kind": "Widget", "metadata": {}, "spec": {"size": 3}})
}

pub(crate) fn map_template() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": {"size": "3"}})
}

/// Objects are there, then one more comes, changes twice and goes; an old one goes, too.
fn follow<T: Send + Sync + 'static>(
    cluster: &Cluster,
    user: &str,
    resource: &Resource,
    namespace: &str,
    template: Value,
    spec: impl Fn() -> InformerSpec<T>,
    check: impl Fn(&T) -> bool,
) {
    cluster.namespace(namespace);
    let mut objects = Collection::new(cluster, resource, namespace, template);
    for name in ["a", "b", "c"] {
        objects.create(name);
    }
    // A Pod is marked with the time of its deletion before it goes.
    let end: &[&str] = if *resource == Pod::resource() { &["updated", "deleted"] } else { &["deleted"] };
    let mut watchers = Watcher::synced_pair(&cluster.config(user), Some(namespace), &spec);
    for watcher in &watchers {
        assert_eq!(watcher.cached().len(), 3, "{} as {user}", watcher.name);
        let objects = watcher.informer().lister().list();
        assert!(objects.iter().all(|object| check(object)), "{} as {user} is decoded", watcher.name);
    }
    objects.create("live");
    objects.change("live", "once");
    objects.change("live", "twice");
    objects.change("a", "once");
    objects.delete("live");
    objects.delete("b");
    objects.create("b");
    for watcher in &mut watchers {
        watcher.agrees_with(&cluster.admin());
        for seen in watcher.seen() {
            let story = |name: &str| seen.story(&format!("{namespace}/{name}"));
            assert_eq!(story("live"), [&["added", "updated", "updated"], end].concat(), "{} as {user}", watcher.name);
            assert_eq!(story("a"), ["added", "updated"], "{} as {user}", watcher.name);
            assert_eq!(story("b"), [&["added"], end, &["added"]].concat(), "{} as {user}", watcher.name);
            assert_eq!(story("c"), ["added"], "{} as {user}", watcher.name);
            objects.explains(&watcher.name, &seen);
        }
        assert_eq!(watcher.failures(), [], "{} as {user}", watcher.name);
        // One that comes late is told the same state.
        watcher.add_handler();
        watcher.agrees_with(&cluster.admin());
    }
    watchers.into_iter().for_each(Watcher::stop);
    for name in ["a", "b", "c"] {
        objects.delete(name);
    }
}

#[test]
fn built_in_types_sync_and_follow_with_a_token() {
    let Some(cluster) = cluster() else { return };
    follow(
        &cluster,
        "admin",
        &ConfigMap::resource(),
        "sync-maps",
        map_template(),
        InformerSpec::<ConfigMap>::new,
        |map: &ConfigMap| map.data.as_ref().is_some_and(|data| data["size"] == "3"),
    );
}

#[test]
fn built_in_types_sync_and_follow_with_a_client_certificate() {
    let Some(cluster) = cluster() else { return };
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"containers": [{"name": "main", "image": "none"}]},
    });
    follow(&cluster, "client-cert", &Pod::resource(), "sync-pods", pod, InformerSpec::<Pod>::new, |pod: &Pod| {
        pod.spec.as_ref().is_some_and(|spec| spec.containers[0].name == "main")
    });
}

#[test]
fn a_custom_resource_syncs_and_follows_as_a_type_of_ones_own() {
    let Some(cluster) = cluster() else { return };
    define_widgets(&cluster);
    let spec = InformerSpec::<Widget>::new;
    follow(&cluster, "token-file", &Widget::resource(), "sync-widgets", widget_template(), spec, |widget: &Widget| {
        widget.spec.size == 3
    });
}

#[test]
fn a_custom_resource_syncs_and_follows_as_json() {
    let Some(cluster) = cluster() else { return };
    define_widgets(&cluster);
    let spec = || InformerSpec::<DynamicObject>::of(Widget::resource());
    follow(
        &cluster,
        "client-cert-files",
        &Widget::resource(),
        "sync-dynamic",
        widget_template(),
        spec,
        |widget: &DynamicObject| widget.kind() == "Widget" && widget.json().contains(r#""size":3"#),
    );
}
