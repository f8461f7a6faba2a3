//! The simulated server beside the real one: the same requests in the same order, and the same answers but for what
//! differs from run to run (uids, times, versions, tokens) and for what [`DIFFERENCES`] names.

#[path = "compare/deleting.rs"]
mod deleting;

use crate::harness::{Cluster, cluster, eventually};
use crate::http::{Answer, Endpoint};
use informer_core::Resource;
use informer_runtime::Config;
use informer_sim::{Served, Server};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Where the two differ: the row, the place in what [`normal`] makes of its answer, and why that is so. Each entry must
/// be true: one that no longer differs fails the test.
const DIFFERENCES: &[(&str, &str, &str)] = &[
    ("create, broken JSON", "/body/message", GO_JSON),
    ("token that is none", "/body/message", GO_JSON),
    ("patch that is no JSON", "/body/message", GO_JSON),
    ("delete with broken options", "/body/message", GO_JSON),
    ("create, other kind", "/body/message", "the real one tries to convert between its Go types, and says so"),
    ("options, no number", "/body/message", GO_JSON),
    ("options, of another kind", "/body/message", "the real one names a line of its source"),
    ("patch with a label that is no text", "", "422 that quotes the whole object and a Go type; ours is a short 400"),
    ("update with a foreign uid", "/body/message", STORAGE),
    ("custom, update with a foreign uid", "/body/message", STORAGE),
    ("lease, foreign uid", "/body/message", STORAGE),
    ("lease, foreign uid of an old version", "/body/message", STORAGE),
    ("definition", "/body/spec/conversion", "no defaults are filled in"),
    ("custom, create without kind", "/body/message", "the real one quotes the body, twice"),
    ("custom, no such subresource", "/body/message", SUBRESOURCE),
    ("custom, no such subresource", "/body/details", SUBRESOURCE),
];

const GO_JSON: &str = "the words of Go's JSON decoder";
const STORAGE: &str = "the real one adds the internal words of its storage: code, key in etcd";
const SUBRESOURCE: &str = "for custom resources the real one means the object where it has no subresource";

/// One request. `{name}` stands for what an earlier row kept, or for a path of [`prelude`].
struct Row {
    name: &'static str,
    /// Method and target, or one of the words of [`Side::act`].
    ask: &'static str,
    body: String,
    /// What later rows need: a name, and the place in the body.
    keep: Vec<(&'static str, &'static str)>,
    shown: Shown,
}

/// What counts of objects: the real server fills in defaults.
#[derive(Clone, Copy)]
enum Shown {
    All,
    Metadata,
    Name,
}

fn row(name: &'static str, ask: &'static str) -> Row {
    Row { name, ask, body: String::new(), keep: Vec::new(), shown: Shown::All }
}

impl Row {
    fn body(mut self, body: &str) -> Self {
        self.body = body.into();
        self
    }

    fn keep(mut self, name: &'static str, place: &'static str) -> Self {
        self.keep.push((name, place));
        self
    }

    fn only_names(mut self) -> Self {
        self.shown = Shown::Name;
        self
    }

    fn only_metadata(mut self) -> Self {
        self.shown = Shown::Metadata;
        self
    }

    /// Keeps the version of the object, or of the list, that comes back.
    fn version(self, name: &'static str) -> Self {
        self.keep(name, "/metadata/resourceVersion")
    }

    fn token(self, name: &'static str) -> Self {
        self.keep(name, "/metadata/continue")
    }
}

fn map(name: &str, label: &str) -> String {
    format!(
        r#"{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "{name}", "labels": {{"app": "{label}"}}}}, "data": {{"k": "v"}}}}"#
    )
}

fn widget(name: &str, size: u32, rest: &str) -> String {
    format!(
        r#"{{"apiVersion": "compare.example.com/v1", "kind": "Widget", "metadata": {{"name": "{name}"{rest}}}, "spec": {{"size": {size}}}, "status": {{"ready": {size}}}}}"#
    )
}

const DEFINITION: &str = r#"{
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.compare.example.com"},
    "spec": {
        "group": "compare.example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [{
            "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}
        }]
    }
}"#;

fn prelude() -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        ("cm", "/api/v1/namespaces/compare/configmaps".to_string()),
        ("pods", "/api/v1/namespaces/compare/pods".to_string()),
        ("w", "/apis/compare.example.com/v1/namespaces/compare/widgets".to_string()),
        ("deployments", "/apis/apps/v1/namespaces/compare/deployments".to_string()),
        ("jobs", "/apis/batch/v1/namespaces/compare/jobs".to_string()),
        ("leases", "/apis/coordination.k8s.io/v1/namespaces/compare/leases".to_string()),
        ("accounts", "/api/v1/namespaces/compare/serviceaccounts".to_string()),
        ("secrets", "/api/v1/namespaces/compare/secrets".to_string()),
        ("services", "/api/v1/namespaces/compare/services".to_string()),
        ("crd", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_string()),
    ])
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    rows.extend(
        [creating(), reading(), refused(), writing(), versions(), watching(), pods(), custom_resources()]
            .into_iter()
            .flatten(),
    );
    rows.extend([deleting::held(), deleting::options(), deleting::types(), deleting::metadata()].into_iter().flatten());
    rows.extend([deleting::custom(), losing_history()].into_iter().flatten());
    rows
}

fn creating() -> Vec<Row> {
    vec![
        row("list of nothing", "GET {cm}").version("start"),
        row("create", "POST {cm}").body(&map("a", "web")).version("a1").keep("uid-a", "/metadata/uid"),
        row("create, without kind", "POST {cm}").body(r#"{"metadata": {"name": "b", "labels": {"app": "web"}}}"#),
        row("create, third", "POST {cm}").body(&map("c", "db")),
        row("create, fourth", "POST {cm}").body(&map("d", "db")),
        row("create, fifth", "POST {cm}").body(r#"{"metadata": {"name": "e"}, "data": {"k": "v"}}"#).version("five"),
        row("create again", "POST {cm}").body(&map("a", "web")),
        row("create, generated name", "POST {cm}")
            .body(r#"{"metadata": {"generateName": "gen-", "labels": {"app": "gen"}}}"#)
            .keep("generated", "/metadata/name"),
        row("delete the generated one", "DELETE {cm}/{generated}"),
        row("create, with uid and time", "POST {cm}").body(
            r#"{"metadata": {"name": "f", "uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7}}"#,
        ),
        row("delete that one", "DELETE {cm}/f"),
        row("create without a name", "POST {cm}").body(r#"{"metadata": {}}"#),
        row("create with a bad name", "POST {cm}").body(r#"{"metadata": {"name": "No_Good"}}"#),
        row("create with a version", "POST {cm}").body(r#"{"metadata": {"name": "x", "resourceVersion": "1"}}"#),
        row("create, other kind", "POST {cm}").body(r#"{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}}"#),
        row("create, other namespace", "POST {cm}").body(r#"{"metadata": {"name": "x", "namespace": "default"}}"#),
        row("create, broken JSON", "POST {cm}").body(r#"{"metadata": "#),
        row("create in all namespaces", "POST /api/v1/configmaps").body(&map("x", "x")),
    ]
}

fn reading() -> Vec<Row> {
    vec![
        row("get", "GET {cm}/a"),
        row("get what is not there", "GET {cm}/nobody"),
        row("get at any version", "GET {cm}/a?resourceVersion=0"),
        row("list", "GET {cm}").version("five-items"),
        row("first page", "GET {cm}?limit=2").token("next").version("page"),
        row("create between two pages", "POST {cm}").body(&map("b5", "late")),
        row("second page", "GET {cm}?limit=2&continue={next}").token("last"),
        row("last page", "GET {cm}?limit=2&continue={last}"),
        row("rest in one", "GET {cm}?continue={next}"),
        row("page of all namespaces", "GET /api/v1/configmaps?limit=1&labelSelector=app%3Dweb").token("all"),
        row("next page of all namespaces", "GET /api/v1/configmaps?limit=1&labelSelector=app%3Dweb&continue={all}"),
        row("delete between", "DELETE {cm}/b5"),
        row("list from a cache", "GET {cm}?resourceVersion=0"),
        row("page from a cache", "GET {cm}?resourceVersion=0&limit=2"),
        row("list not older, any", "GET {cm}?resourceVersion=0&resourceVersionMatch=NotOlderThan"),
        row("list exactly", "GET {cm}?resourceVersion={five-items}&resourceVersionMatch=Exact"),
        row("list not older", "GET {cm}?resourceVersion={five-items}&resourceVersionMatch=NotOlderThan"),
        row("page not older", "GET {cm}?resourceVersion={five-items}&resourceVersionMatch=NotOlderThan&limit=2"),
        row("list at a version, no match", "GET {cm}?resourceVersion={five}"),
        row("page at a version, no match", "GET {cm}?resourceVersion={five}&limit=3").token("exact"),
        row("next page of an exact list", "GET {cm}?limit=3&continue={exact}"),
        row("list of the future", "GET {cm}?resourceVersion={five}00000"),
        row("list of the future, exactly", "GET {cm}?resourceVersion={five}00000&resourceVersionMatch=Exact"),
        row("get of the future", "GET {cm}/a?resourceVersion={five}00000"),
        row("labels, equal", "GET {cm}?labelSelector=app%3Dweb"),
        row("labels, page of equal", "GET {cm}?labelSelector=app%3Dweb&limit=1").token("label-page"),
        row("labels, next page", "GET {cm}?labelSelector=app%3Dweb&limit=1&continue={label-page}"),
        row("labels, unequal", "GET {cm}?labelSelector=app!%3Dweb"),
        row("labels, in", "GET {cm}?labelSelector=app+in+(web,db),app+notin+(db)"),
        row("labels, exists", "GET {cm}?labelSelector=app"),
        row("labels, exists not", "GET {cm}?labelSelector=!app"),
        row("fields, name", "GET {cm}?fieldSelector=metadata.name%3Dc"),
        row("fields, names", "GET {cm}?fieldSelector=metadata.name!%3Dc,metadata.namespace%3Dcompare"),
        row("fields and labels", "GET {cm}?fieldSelector=metadata.name%3Dc&labelSelector=app%3Dweb"),
    ]
}

/// Pods: the fields that field selectors may name, and a status of their own.
fn pods() -> Vec<Row> {
    let pod = |name: &str, node: &str| {
        format!(
            r#"{{"metadata": {{"name": "{name}"}}, "spec": {{"containers": [{{"name": "c", "image": "i"}}], "nodeName": "{node}", "restartPolicy": "Never", "schedulerName": "default-scheduler"}}, "status": {{"phase": "Failed"}}}}"#
        )
    };
    let rows = vec![
        row("pods, none", "GET {pods}").version("p0"),
        row("pods, create", "POST {pods}").body(&pod("p1", "n1")),
        row("pods, another", "POST {pods}").body(&pod("p2", "n2")),
        row("pods, phase", "PATCH {pods}/p2/status").body(r#"{"status": {"phase": "Running"}}"#),
        row("pods, phase in the wrong place", "PATCH {pods}/p1").body(r#"{"status": {"phase": "Running"}}"#),
        row("pods of a node", "GET {pods}?fieldSelector=spec.nodeName%3Dn2"),
        row("pods that run", "GET {pods}?fieldSelector=status.phase%3DRunning"),
        row("pods that do not run", "GET {pods}?fieldSelector=status.phase!%3DRunning,spec.restartPolicy%3DNever"),
        row("pods by a field that none has", "GET {pods}?fieldSelector=spec.priority%3D1"),
        row(
            "pods, watch those that run",
            "GET {pods}?watch=1&resourceVersion={p0}&timeoutSeconds=1&fieldSelector=status.phase%3DRunning",
        ),
        row("pods, delete all", "DELETE {pods}?gracePeriodSeconds=0"),
        row("pods, none left", "GET {pods}"),
    ];
    rows.into_iter().map(Row::only_names).collect()
}

fn refused() -> Vec<Row> {
    vec![
        row("match without a version", "GET {cm}?resourceVersionMatch=Exact"),
        row("match with a token", "GET {cm}?resourceVersion=1&resourceVersionMatch=Exact&continue={next}"),
        row("exactly any", "GET {cm}?resourceVersion=0&resourceVersionMatch=Exact"),
        row("unknown match", "GET {cm}?resourceVersion=1&resourceVersionMatch=Maybe"),
        row("initial events of a list", "GET {cm}?sendInitialEvents=true"),
        row("watch with a match", "GET {cm}?watch=1&resourceVersion=1&resourceVersionMatch=NotOlderThan"),
        row("watch with initial events, no match", "GET {cm}?watch=1&sendInitialEvents=true"),
        row("watch with initial events, exact", "GET {cm}?watch=1&sendInitialEvents=true&resourceVersionMatch=Exact"),
        row("version that is no number", "GET {cm}?resourceVersion=abc"),
        row("watch, version that is no number", "GET {cm}?watch=1&resourceVersion=abc"),
        row("limit that is no number", "GET {cm}?limit=many"),
        row("token that is none", "GET {cm}?continue=abc"),
        row("token with a version", "GET {cm}?continue={next}&resourceVersion={five}"),
        row("bad label selector", "GET {cm}?labelSelector=a%3D%3D%3Db"),
        row("bad field selector", "GET {cm}?fieldSelector=metadata.name"),
        row("unknown field", "GET {cm}?fieldSelector=spec.colour%3Dred"),
        row("no such resource", "GET /api/v1/namespaces/compare/nothings"),
        row("no such resource in a group", "GET /apis/apps/v1/nothings"),
        row("no such version", "GET /apis/apps/v7/deployments"),
        row("no such version of the core group", "GET /api/v7/pods"),
        row("no such group", "GET /apis/nobody.example.com/v1/things"),
        row("no such path", "GET /nowhere"),
        row("no such subresource", "GET {cm}/a/status"),
        row("no such method", "DELETE /api/v1/configmaps"),
        row("no such method on an object", "POST {cm}/a").body(&map("a", "a")),
    ]
}

fn writing() -> Vec<Row> {
    vec![
        row("update", "PUT {cm}/a")
            .body(r#"{"metadata": {"name": "a", "resourceVersion": "{a1}", "labels": {"app": "db"}}, "data": {"k": "2"}}"#)
            .version("a2"),
        row("update of an old version", "PUT {cm}/a").body(r#"{"metadata": {"name": "a", "resourceVersion": "{a1}"}}"#),
        row("update whatever version", "PUT {cm}/a")
            .body(r#"{"metadata": {"name": "a", "labels": {"app": "web"}}, "data": {"k": "3"}}"#)
            .version("a3"),
        row("update with a foreign uid", "PUT {cm}/a").body(r#"{"metadata": {"name": "a", "uid": "other"}}"#),
        row("update under another name", "PUT {cm}/a").body(r#"{"metadata": {"name": "b"}}"#),
        row("update without a name", "PUT {cm}/a").body(r#"{"data": {}}"#),
        row("update of nothing", "PUT {cm}/nobody").body(r#"{"metadata": {"name": "nobody"}}"#),
        row("update that changes nothing", "PUT {cm}/a")
            .body(r#"{"metadata": {"name": "a", "labels": {"app": "web"}}, "data": {"k": "3"}}"#),
        row("patch", "PATCH {cm}/a").body(r#"{"metadata": {"labels": {"more": "yes"}}, "data": {"k": null, "n": "1"}}"#),
        row("patch of an old version", "PATCH {cm}/a").body(r#"{"metadata": {"resourceVersion": "{a1}"}, "data": {"n": "2"}}"#),
        row("patch of the uid", "PATCH {cm}/a").body(r#"{"metadata": {"uid": "other"}}"#),
        row("patch of the name", "PATCH {cm}/a").body(r#"{"metadata": {"name": "other"}}"#),
        row("patch of nothing", "PATCH {cm}/nobody").body(r#"{"data": {"n": "2"}}"#),
        row("patch that is no JSON", "PATCH {cm}/a").body("{"),
        row("patch with a label that is no text", "PATCH {cm}/a").body(r#"{"metadata": {"labels": {"app": 7}}}"#),
        row("delete another incarnation", "DELETE {cm}/a").body(r#"{"preconditions": {"uid": "other"}}"#),
        row("delete another version", "DELETE {cm}/a").body(r#"{"preconditions": {"resourceVersion": "{a1}"}}"#),
        row("delete this incarnation", "DELETE {cm}/a").body(r#"{"preconditions": {"uid": "{uid-a}"}}"#),
        row("delete again", "DELETE {cm}/a"),
        row("delete with broken options", "DELETE {cm}/b").body("{"),
        row("create in the place of the deleted one", "POST {cm}").body(&map("a", "web")).version("a9"),
    ]
}

/// Which version an update is of, where the type insists on it and where it does not.
fn versions() -> Vec<Row> {
    let lease = |metadata: &str| format!(r#"{{"metadata": {{"name": "v"{metadata}}}}}"#);
    vec![
        row("lease, create", "POST {leases}").body(&lease("")).version("lease"),
        row("lease, no version", "PUT {leases}/v").body(&lease("")),
        row("lease, version 0", "PUT {leases}/v").body(&lease(r#", "resourceVersion": "0""#)),
        row("lease, version that is no number", "PUT {leases}/v").body(&lease(r#", "resourceVersion": "x""#)),
        row("lease, foreign uid", "PUT {leases}/v").body(&lease(r#", "uid": "other""#)),
        row("lease, foreign uid of an old version", "PUT {leases}/v")
            .body(&lease(r#", "uid": "other", "resourceVersion": "1""#)),
        row("lease, old version and bad label", "PUT {leases}/v")
            .body(&lease(r#", "resourceVersion": "1", "labels": {"a b": "c"}"#)),
        row("lease, patch without a version", "PATCH {leases}/v").body(r#"{"metadata": {"resourceVersion": null}}"#),
        row("lease, patch of version 0", "PATCH {leases}/v").body(r#"{"metadata": {"resourceVersion": "0"}}"#),
        row("lease, patch of the uid of an old version", "PATCH {leases}/v")
            .body(r#"{"metadata": {"resourceVersion": "1", "uid": "other"}}"#),
        row("lease, update", "PUT {leases}/v").body(&lease(r#", "resourceVersion": "{lease}", "labels": {"a": "b"}"#)),
        row("lease, delete", "DELETE {leases}/v"),
        row("map, version 0", "PUT {cm}/b")
            .body(r#"{"metadata": {"name": "b", "resourceVersion": "0"}, "data": {"v": "0"}}"#),
        row("map, patch without a version", "PATCH {cm}/b")
            .body(r#"{"metadata": {"resourceVersion": null}, "data": {"v": "1"}}"#),
    ]
    .into_iter()
    .map(Row::only_metadata)
    .collect()
}

fn watching() -> Vec<Row> {
    vec![
        row("watch", "GET {cm}?watch=true&resourceVersion={five}&timeoutSeconds=1"),
        row("watch from the newest", "GET {cm}?watch=true&resourceVersion={a9}&timeoutSeconds=1"),
        row("watch by labels", "GET {cm}?watch=true&resourceVersion={five}&timeoutSeconds=1&labelSelector=app%3Dweb"),
        row("watch one", "GET {cm}?watch=true&resourceVersion={five}&timeoutSeconds=1&fieldSelector=metadata.name%3Da"),
        row(
            "watch in the old way",
            "GET /api/v1/watch/namespaces/compare/configmaps?resourceVersion={a3}&timeoutSeconds=1",
        ),
        row("watch from any", "GET {cm}?watch=true&resourceVersion=0&timeoutSeconds=1"),
        row("watch without a version", "GET {cm}?watch=true&timeoutSeconds=1"),
        row("watch of the future", "GET {cm}?watch=true&resourceVersion={five}00000&timeoutSeconds=1"),
        row(
            "streaming list",
            "GET {cm}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1",
        ),
        row(
            "streaming list by labels",
            "GET {cm}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1&labelSelector=app%3Dweb",
        ),
        row(
            "streaming list from a version",
            "GET {cm}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1&resourceVersion={five}",
        ),
        row(
            "streaming list without bookmarks",
            "GET {cm}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1",
        ),
        row(
            "streaming list of the future",
            "GET {cm}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=10&resourceVersion={five}00000",
        ),
        row(
            "no initial events",
            "GET {cm}?watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1&resourceVersion={a3}",
        ),
    ]
}

fn custom_resources() -> Vec<Row> {
    vec![
        row("before its definition", "GET {w}"),
        row("definition", "POST {crd}").body(DEFINITION),
        row("definition again", "POST {crd}").body(DEFINITION),
        row("definition under a wrong name", "POST {crd}")
            .body(&DEFINITION.replace("\"widgets.compare", "\"gadgets.compare")),
        row("it serves", "ESTABLISHED {w}"),
        row("custom, list of nothing", "GET {w}").version("w0"),
        row("custom, create", "POST {w}").body(&widget("a", 1, "")).version("wa1").keep("uid-wa", "/metadata/uid"),
        row("custom, create another", "POST {w}").body(&widget("b", 1, r#", "labels": {"l": "1"}"#)),
        row("custom, create again", "POST {w}").body(&widget("a", 1, "")),
        row("custom, create without kind", "POST {w}").body(r#"{"metadata": {"name": "x"}}"#),
        row("custom, create with a bad name", "POST {w}").body(&widget("No_Good", 1, "")),
        row("custom, get", "GET {w}/a"),
        row("custom, get what is not there", "GET {w}/nobody"),
        row("custom, list", "GET {w}"),
        row("custom, page", "GET {w}?limit=1").token("w-next"),
        row("custom, next page", "GET {w}?limit=1&continue={w-next}"),
        row("custom, unknown field", "GET {w}?fieldSelector=spec.size%3D1"),
        row("custom, no such version", "GET /apis/compare.example.com/v7/widgets"),
        row("custom, no such resource", "GET /apis/compare.example.com/v1/gadgets"),
        row("custom, no such subresource", "GET {w}/a/scale"),
        row("custom, update of nothing", "PUT {w}/nobody").body(&widget("nobody", 2, r#", "resourceVersion": "1""#)),
        row("custom, update without a version", "PUT {w}/a").body(&widget("a", 2, "")),
        row("custom, update of version 0", "PUT {w}/a").body(&widget("a", 2, r#", "resourceVersion": "0""#)),
        row("custom, update", "PUT {w}/a").body(&widget("a", 2, r#", "resourceVersion": "{wa1}""#)),
        row("custom, update of an old version", "PUT {w}/a").body(&widget("a", 3, r#", "resourceVersion": "{wa1}""#)),
        row("custom, labels", "PATCH {w}/a").body(r#"{"metadata": {"labels": {"l": "1"}}}"#),
        row("custom, spec", "PATCH {w}/a").body(r#"{"spec": {"size": 5}}"#),
        row("custom, patch of the uid", "PATCH {w}/a").body(r#"{"metadata": {"uid": "other"}}"#),
        row("custom, update with a foreign uid", "PUT {w}/a").body(&widget(
            "a",
            3,
            r#", "uid": "other", "resourceVersion": "0""#,
        )),
        row("custom, status in the wrong place", "PATCH {w}/a").body(r#"{"status": {"ready": 5}}"#),
        row("custom, status", "PATCH {w}/a/status").body(r#"{"status": {"ready": 4}, "spec": {"size": 9}}"#),
        row("custom, replace status", "GET {w}/a/status").version("wa5"),
        row("custom, put status", "PUT {w}/a/status").body(&widget("a", 7, r#", "resourceVersion": "{wa5}""#)),
        row("custom, watch", "GET {w}?watch=true&resourceVersion={w0}&timeoutSeconds=1"),
        row(
            "custom, streaming list",
            "GET {w}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1",
        ),
        row("custom, delete another incarnation", "DELETE {w}/a").body(r#"{"preconditions": {"uid": "other"}}"#),
        row("custom, delete", "DELETE {w}/a"),
        row("custom, delete again", "DELETE {w}/a"),
        row("custom, watch the deletion", "GET {w}?watch=true&resourceVersion={wa5}&timeoutSeconds=1"),
        row(
            "definition goes under a watch",
            "UNDER-WATCH {w}?watch=true&resourceVersion={wa5} DELETE {crd}/widgets.compare.example.com",
        ),
        row("it is gone", "GONE {w}"),
        row("after its definition", "GET {w}"),
        row("watch after its definition", "GET {w}?watch=true&resourceVersion={wa5}"),
        row("object after its definition", "GET {w}/b"),
    ]
}

fn losing_history() -> Vec<Row> {
    vec![
        row("page before the restart", "GET {cm}?limit=2&resourceVersion={five}").token("before"),
        row("restart", "RESTART"),
        row("watch from before the restart", "GET {cm}?watch=true&resourceVersion={five}&timeoutSeconds=1"),
        row(
            "streaming list after the restart",
            "GET {cm}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1&resourceVersion={five}",
        ),
        row("page from before the restart", "GET {cm}?limit=2&continue={before}"),
        row("exact list from before the restart", "GET {cm}?resourceVersion={five}&resourceVersionMatch=Exact"),
        row("change", "POST {cm}").body(&map("z", "late")),
        row("compaction", "COMPACT"),
        row("page of a compacted version", "GET {cm}?limit=2&continue={before}").token("resume"),
        row("page that goes on at the newest version", "GET {cm}?limit=2&continue={resume}"),
        row("exact list of a compacted version", "GET {cm}?resourceVersion={five}&resourceVersionMatch=Exact"),
        row("page at a compacted version", "GET {cm}?resourceVersion={five}&limit=2"),
        row("list not older than a compacted version", "GET {cm}?resourceVersion={five}"),
        row("watch from a compacted version", "GET {cm}?watch=true&resourceVersion={five}&timeoutSeconds=1"),
        row("delete all", "DELETE {cm}?labelSelector=app"),
        row("list after all", "GET {cm}"),
    ]
}

/// One of the two servers.
enum Which<'a> {
    Real(&'a Cluster),
    Simulated(Served),
}

struct Side<'a> {
    which: Which<'a>,
    endpoint: Endpoint,
    kept: BTreeMap<&'static str, String>,
}

impl Side<'_> {
    /// What the row led to, in a form that both servers should agree on.
    fn act(&mut self, row: &Row) -> Value {
        let ask = self.fill(row.ask, true);
        let body = self.fill(&row.body, false);
        let words: Vec<&str> = ask.split(' ').collect();
        let answer = match *words.as_slice() {
            ["RESTART"] => {
                match &mut self.which {
                    Which::Real(cluster) => {
                        cluster.kill();
                        cluster.start_server();
                    }
                    Which::Simulated(served) => served.restart().expect("the port is ours"),
                }
                return Value::Null;
            }
            ["COMPACT"] => {
                match &self.which {
                    Which::Real(cluster) => cluster.compact(),
                    Which::Simulated(served) => served.with(|server, _| server.compact()),
                }
                return Value::Null;
            }
            ["ESTABLISHED", target] => return self.until(target, 200),
            ["GONE", target] => return self.until(target, 404),
            ["FINALIZERS", target, finalizer] => return self.until_finalizer(target, finalizer),
            ["UNDER-WATCH", watch, method, target] => self.endpoint.watch_and(watch, || {
                self.endpoint.must(method, target, &body);
            }),
            [method, target] => self.endpoint.ask(method, target, &body),
            _ => panic!("{}: {ask:?} is no request", row.name),
        };
        for (name, place) in &row.keep {
            let json = answer.json();
            let value = json.pointer(place).and_then(Value::as_str);
            let value = value.unwrap_or_else(|| panic!("{}: nothing at {place}: {}", row.name, answer.body));
            self.kept.insert(name, value.to_string());
        }
        let mut value = normal(&answer);
        strip(&mut value, row.shown);
        value
    }

    fn until(&self, target: &str, status: u16) -> Value {
        eventually(target, || {
            let answer = self.endpoint.ask("GET", target, "");
            if answer.status == status { Ok(Value::Null) } else { Err(format!("{} {}", answer.status, answer.body)) }
        })
    }

    /// Waits until an object has this finalizer alone.
    fn until_finalizer(&self, target: &str, finalizer: &str) -> Value {
        eventually(target, || {
            let object = self.endpoint.must("GET", target, "");
            let has = object.pointer("/metadata/finalizers");
            if has == Some(&json!([finalizer])) { Ok(Value::Null) } else { Err(format!("{has:?}")) }
        })
    }

    fn fill(&self, text: &str, in_target: bool) -> String {
        let mut text = text.to_string();
        for (name, value) in &self.kept {
            let encoded = value.replace('%', "%25").replace('=', "%3D").replace('+', "%2B");
            text = text.replace(&format!("{{{name}}}"), if in_target { &encoded } else { value });
        }
        text
    }
}

/// An answer without what differs from run to run.
fn normal(answer: &Answer) -> Value {
    let mut head = json!({"status": answer.status});
    for name in ["content-type", "retry-after"] {
        if let Some(value) = answer.header(name) {
            head[name] = value.into();
        }
    }
    let lines: Result<Vec<Value>, _> = answer.body.lines().map(serde_json::from_str).collect();
    let is_event = |value: &Value| value.get("type").is_some() && value.get("object").is_some();
    // A Status is JSON over many lines, a watch one event a line.
    let body = match (serde_json::from_str::<Value>(&answer.body), lines) {
        (Ok(body), _) if !is_event(&body) => masked("", body),
        (_, Ok(events)) => {
            let plain_bookmark =
                |event: &Value| event["type"] == "BOOKMARK" && event.pointer("/object/metadata/annotations").is_none();
            events.into_iter().filter(|event| !plain_bookmark(event)).map(|event| masked("", event)).collect()
        }
        (_, Err(_)) => Value::String(answer.body.clone()),
    };
    head["body"] = body;
    head
}

fn masked(name: &str, value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(name, _)| name != "managedFields");
            Value::Object(fields.map(|(name, value)| (name.clone(), masked(&name, value))).collect::<Map<_, _>>())
        }
        Value::Array(items) => items.into_iter().map(|item| masked(name, item)).collect(),
        Value::String(text) => Value::String(match name {
            "uid" if text.len() == 36 => "(uid)".into(),
            "resourceVersion" if !matches!(text.as_str(), "" | "0") => "(version)".into(),
            "creationTimestamp" | "deletionTimestamp" | "lastTransitionTime" => "(time)".into(),
            "continue" => "(token)".into(),
            "name" | "message" => words_masked(&text),
            _ => text,
        }),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_)) => other,
    }
}

/// Of each object in it, what is shown is left.
fn strip(value: &mut Value, shown: Shown) {
    match value {
        Value::Object(fields) => {
            match (fields.get("metadata").filter(|metadata| metadata.get("name").is_some()), shown) {
                (_, Shown::All) => {}
                (Some(metadata), Shown::Metadata) => *value = metadata.clone(),
                (Some(metadata), Shown::Name) => *value = metadata["name"].clone(),
                (None, _) => fields.values_mut().for_each(|field| strip(field, shown)),
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| strip(item, shown)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A text without numbers, uids and generated names.
fn words_masked(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let mut out = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (word, after) = rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len()));
        let other = after.len() - after.trim_start_matches(|c| !is_word(c)).len();
        let uid = word.len() == 36 && word.matches('-').count() == 4;
        let generated = word.len() >= 9 && word[..4].eq_ignore_ascii_case("gen-");
        out += match word {
            _ if uid => "(uid)",
            _ if generated => &word[..word.len() - 5],
            _ if !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()) => "(number)",
            _ => word,
        };
        out += if generated { "(random)" } else { "" };
        out += &after[..other];
        rest = &after[other..];
    }
    out
}

/// Takes what is at `place` out of a value.
fn take(value: &mut Value, place: &str) -> Option<Value> {
    if place.is_empty() {
        return Some(value.take());
    }
    let (parent, last) = place.rsplit_once('/')?;
    let parent = value.pointer_mut(parent)?;
    match parent {
        Value::Object(fields) => fields.shift_remove(last),
        Value::Array(items) => last.parse::<usize>().ok().filter(|&at| at < items.len()).map(|at| items.remove(at)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// The places where two values differ, and how.
fn differing(place: &str, real: Option<&Value>, simulated: Option<&Value>, out: &mut String) {
    match (real, simulated) {
        (Some(real), Some(simulated)) if real == simulated => {}
        (Some(Value::Object(real)), Some(Value::Object(simulated))) => {
            let more = simulated.keys().filter(|name| !real.contains_key(*name));
            for name in real.keys().chain(more) {
                differing(&format!("{place}/{name}"), real.get(name), simulated.get(name), out);
            }
        }
        (Some(Value::Array(real)), Some(Value::Array(simulated))) => {
            for at in 0..real.len().max(simulated.len()) {
                differing(&format!("{place}/{at}"), real.get(at), simulated.get(at), out);
            }
        }
        (real, simulated) => {
            let text = |value: Option<&Value>| value.map_or("nothing".into(), Value::to_string);
            _ = writeln!(out, "  {place}\n    real      {}\n    simulated {}", text(real), text(simulated));
        }
    }
}

#[test]
fn the_simulated_server_answers_as_the_real_one_does() {
    let Some(cluster) = cluster() else { return };
    cluster.namespace("compare");
    let mut server = Server::new(informer_sim::Config::default());
    server.register_common();
    let roles = Resource::cluster("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole");
    server.register(roles, informer_sim::Options::default());
    let served = Served::start(server, "127.0.0.1:0".parse().unwrap()).unwrap();
    let url = served.url();
    let mut real = Side { which: Which::Real(&cluster), endpoint: cluster.admin(), kept: prelude() };
    let simulated = Endpoint(Config::from_url(&url).unwrap());
    let mut simulated = Side { which: Which::Simulated(served), endpoint: simulated, kept: prelude() };

    // Half of the time is waiting for watches to end.
    let rows = rows();
    let (real, simulated): (Vec<Value>, Vec<Value>) = std::thread::scope(|scope| {
        let real = scope.spawn(|| rows.iter().map(|row| real.act(row)).collect());
        let simulated = rows.iter().map(|row| simulated.act(row)).collect();
        (real.join().expect("the real server answers"), simulated)
    });
    let mut unequal = String::new();
    for (row, (mut theirs, mut ours)) in rows.iter().zip(real.into_iter().zip(simulated)) {
        for (_, place, why) in DIFFERENCES.iter().filter(|(name, ..)| *name == row.name) {
            let (a, b) = (take(&mut theirs, place), take(&mut ours, place));
            if a == b {
                _ = writeln!(unequal, "{}: {place:?} does not differ any more ({why})", row.name);
            }
        }
        if theirs != ours {
            _ = writeln!(unequal, "{}: {}", row.name, row.ask);
            differing("", Some(&theirs), Some(&ours), &mut unequal);
        }
    }
    for (name, ..) in DIFFERENCES {
        assert!(rows.iter().any(|row| row.name == *name), "no row is called {name:?}");
    }
    assert!(unequal.is_empty(), "{unequal}");
    println!("{} answers are equal but for {} named differences", rows.len(), DIFFERENCES.len());
}
