//! Rows about what holds an object that is to be deleted, and about what its metadata may hold.

use super::{DEFINITION, Row, row};

fn map(name: &str, metadata: &str) -> String {
    format!(r#"{{"metadata": {{"name": "{name}"{metadata}}}}}"#)
}

fn widget(name: &str, metadata: &str) -> String {
    format!(
        r#"{{"apiVersion": "compare.example.com/v1", "kind": "Widget", "metadata": {{"name": "{name}"{metadata}}}, "spec": {{"size": 1}}}}"#
    )
}

fn pod(name: &str, metadata: &str, spec: &str) -> String {
    format!(
        r#"{{"metadata": {{"name": "{name}"{metadata}}}, "spec": {{"containers": [{{"name": "c", "image": "i"}}]{spec}}}}}"#
    )
}

const HELD: &str = r#", "finalizers": ["compare.example.com/hold"]"#;
const LET_GO: &str = r#"{"metadata": {"finalizers": null}}"#;

/// Finalizers of one's own.
pub(super) fn held() -> Vec<Row> {
    vec![
        row("held", "POST {cm}").body(&map("h", HELD)).version("h1").keep("uid-h", "/metadata/uid"),
        row("held, delete another incarnation", "DELETE {cm}/h").body(r#"{"preconditions": {"uid": "other"}}"#),
        row("held, delete another version", "DELETE {cm}/h").body(r#"{"preconditions": {"resourceVersion": "1"}}"#),
        row("held, mark it by hand", "PATCH {cm}/h").body(r#"{"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}}"#),
        row("held, grace by hand", "PATCH {cm}/h").body(r#"{"metadata": {"deletionGracePeriodSeconds": 5}}"#),
        row("held, delete", "DELETE {cm}/h").body(r#"{"preconditions": {"uid": "{uid-h}", "resourceVersion": "{h1}"}}"#),
        row("held, get", "GET {cm}/h"),
        row("held, delete again", "DELETE {cm}/h").version("h2"),
        row("held, delete another incarnation again", "DELETE {cm}/h").body(r#"{"preconditions": {"uid": "other"}}"#),
        row("held, delete an old version", "DELETE {cm}/h").body(r#"{"preconditions": {"resourceVersion": "{h1}"}}"#),
        row("held, create in its place", "POST {cm}").body(&map("h", "")),
        row("held, two more finalizers", "PATCH {cm}/h").body(
            r#"{"metadata": {"finalizers": ["compare.example.com/hold", "compare.example.com/z", "compare.example.com/a"]}}"#,
        ),
        row("held, another grace", "PATCH {cm}/h").body(r#"{"metadata": {"deletionGracePeriodSeconds": 5}}"#),
        row("held, take the mark back", "PATCH {cm}/h").body(r#"{"metadata": {"deletionTimestamp": null}}"#),
        row("held, take the grace back", "PATCH {cm}/h").body(r#"{"metadata": {"deletionGracePeriodSeconds": null}}"#),
        row("held, update of an old version", "PUT {cm}/h").body(&map("h", r#", "resourceVersion": "{h1}""#)),
        row("held, change", "PATCH {cm}/h").body(r#"{"metadata": {"labels": {"held": "yes"}}, "data": {"k": "v"}}"#),
        row("held, let go and change", "PATCH {cm}/h").body(r#"{"metadata": {"finalizers": [], "labels": {"held": "no"}}}"#),
        row("held, gone", "GET {cm}/h"),
        row("held, update of what is gone", "PATCH {cm}/h").body(LET_GO),
        row("held, watch", "GET {cm}?watch=true&resourceVersion={h1}&timeoutSeconds=1"),
        row("free, with marks", "POST {cm}")
            .body(&map("h", r#", "deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 3"#))
            .version("free"),
        row("free, hold it later", "PATCH {cm}/h").body(r#"{"metadata": {"finalizers": ["compare.example.com/hold"]}}"#),
        row("free, let go of it before", "PATCH {cm}/h").body(LET_GO),
        row("free, hold it again", "PATCH {cm}/h").body(r#"{"metadata": {"finalizers": ["compare.example.com/hold"]}}"#),
        row("free, delete", "DELETE {cm}/h"),
        row("free, put it without finalizers", "PUT {cm}/h").body(r#"{"metadata": {"name": "h"}, "data": {"k": "w"}}"#),
        row("free, watch", "GET {cm}?watch=true&resourceVersion={free}&timeoutSeconds=1"),
        row("held in a collection", "POST {cm}").body(&map("h1", r#", "labels": {"in": "it"}, "finalizers": ["a.b/c"]"#)),
        row("free in a collection", "POST {cm}").body(&map("h2", r#", "labels": {"in": "it"}"#)),
        row("collection, other incarnation", "DELETE {cm}?labelSelector=in%3Dit").body(r#"{"preconditions": {"uid": "other"}}"#),
        row("collection, delete", "DELETE {cm}?labelSelector=in%3Dit"),
        row("collection, what is held", "GET {cm}?labelSelector=in%3Dit"),
        row("collection, let go", "PATCH {cm}/h1").body(LET_GO),
        row("collection, empty", "GET {cm}?labelSelector=in%3Dit"),
    ]
}

/// Options of a deletion, and the finalizers of the garbage collector, which does not run on either side.
pub(super) fn options() -> Vec<Row> {
    let mut rows = Vec::new();
    for (first, options) in [
        ("foreground", r#"{"propagationPolicy": "Foreground"}"#),
        ("orphan", r#"{"propagationPolicy": "Orphan"}"#),
        ("orphan, the old way", r#"{"orphanDependents": true}"#),
    ] {
        rows.extend([
            row(first, "POST {cm}").body(&map("o", "")),
            row(first, "DELETE {cm}/o").body(options),
            row(first, "DELETE {cm}/o"),
            row(first, "GET {cm}/o"),
            row(first, "PATCH {cm}/o").body(LET_GO),
            row(first, "GET {cm}/o"),
        ]);
    }
    rows.extend([
        row("dependents", "POST {cm}").body(&map("o", HELD)).version("o1"),
        row("dependents, foreground by query", "DELETE {cm}/o?propagationPolicy=Foreground"),
        row("dependents, orphan then", "DELETE {cm}/o").body(r#"{"propagationPolicy": "Orphan"}"#),
        row("dependents, background then", "DELETE {cm}/o").body(r#"{"propagationPolicy": "Background"}"#),
        row("dependents, told that it waits", "DELETE {cm}/o").body(r#"{"orphanDependents": false}"#),
        row("dependents, let go", "PATCH {cm}/o").body(LET_GO),
        row("dependents, watch", "GET {cm}?watch=true&resourceVersion={o1}&timeoutSeconds=1"),
        row("dependents, held by itself", "POST {cm}").body(&map("o", r#", "finalizers": ["foregroundDeletion"]"#)),
        row("dependents, taken away by options", "DELETE {cm}/o").body(r#"{"propagationPolicy": "Background"}"#),
        row("dependents, gone", "GET {cm}/o"),
        row("options", "POST {cm}").body(&map("o", "")),
        row("options, unknown policy", "DELETE {cm}/o").body(r#"{"propagationPolicy": "Never"}"#),
        row("options, unknown policy by query", "DELETE {cm}/o?propagationPolicy=Never"),
        row("options, two policies", "DELETE {cm}/o")
            .body(r#"{"propagationPolicy": "Orphan", "orphanDependents": true}"#),
        row("options, unknown dry run", "DELETE {cm}/o").body(r#"{"dryRun": ["Some"]}"#),
        row("options, unknown policy for nothing", "DELETE {cm}/nobody").body(r#"{"propagationPolicy": "Never"}"#),
        row("options, of another kind", "DELETE {cm}/o").body(r#"{"kind": "Foo", "apiVersion": "v1"}"#),
        row("options, no number", "DELETE {cm}/o").body(r#"{"gracePeriodSeconds": "x"}"#),
        row("options, unknown field", "DELETE {cm}/o")
            .body(r#"{"kind": "DeleteOptions", "apiVersion": "v1", "nonsense": 1, "gracePeriodSeconds": 7}"#),
    ]);
    rows
}

/// Types that count generations, that answer with the object, or that go in another way.
pub(super) fn types() -> Vec<Row> {
    let pod_rows = |name: &'static str, metadata: &str, spec: &str, then: &[&'static str]| {
        let mut rows = vec![row(name, "POST {pods}").body(&pod("d", metadata, spec))];
        rows.extend(then.iter().map(|&options| row(name, "DELETE {pods}/d").body(options)));
        rows.push(row(name, "GET {pods}/d"));
        rows
    };
    const NODE: &str = r#", "nodeName": "n1""#;
    const NOW: &str = r#"{"gracePeriodSeconds": 0}"#;
    let mut rows = vec![row("pods, before", "GET {pods}").version("p-before")];
    rows.extend(pod_rows("pod without a node", "", "", &[""]));
    rows.extend(pod_rows("pod, at once", "", NODE, &[NOW]));
    rows.extend(pod_rows(
        "pod with its grace",
        "",
        NODE,
        &["", "", r#"{"gracePeriodSeconds": 60}"#, r#"{"gracePeriodSeconds": 5}"#, NOW],
    ));
    rows.extend(pod_rows(
        "pod with a grace of its own",
        "",
        r#", "nodeName": "n1", "terminationGracePeriodSeconds": 7"#,
        &["", NOW],
    ));
    rows.extend(pod_rows("pod, less than no grace", "", NODE, &[r#"{"gracePeriodSeconds": -3}"#, NOW]));
    rows.extend(pod_rows("pod, foreground", "", NODE, &[r#"{"propagationPolicy": "Foreground"}"#]));
    rows.push(row("pod, foreground", "PATCH {pods}/d").body(LET_GO));
    rows.extend([row("pod, foreground", "DELETE {pods}/d").body(NOW), row("pod, foreground", "GET {pods}/d")]);
    rows.extend(pod_rows("pod, held with a node", HELD, NODE, &["", NOW]));
    rows.extend([row("pod, held with a node", "PATCH {pods}/d").body(LET_GO), row("", "GET {pods}/d")]);
    rows.extend(pod_rows("pod, held without a node", HELD, "", &[""]));
    rows.extend([row("pod, held without a node", "PATCH {pods}/d/status").body(LET_GO), row("", "GET {pods}/d")]);
    rows.push(row("pod that has ended", "POST {pods}").body(&pod("d", "", NODE)));
    rows.push(row("pod that has ended", "PATCH {pods}/d/status").body(r#"{"status": {"phase": "Failed"}}"#));
    rows.extend([row("pod that has ended", "DELETE {pods}/d"), row("pod that has ended", "GET {pods}/d")]);
    rows.push(row("pods, watch", "GET {pods}?watch=true&resourceVersion={p-before}&timeoutSeconds=1"));
    rows.extend([
        row("pod, metadata by its status", "POST {pods}").body(&pod("d", HELD, "")),
        row("pod, metadata by its status", "PATCH {pods}/d/status").body(
            r#"{"metadata": {"labels": {"l": "n"}, "annotations": {"a": "b"}, "finalizers": null, "deletionTimestamp": "2020-01-01T00:00:00Z",
                "ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "a", "uid": "u"}]}}"#,
        ),
        row("pod, bad metadata by its status", "PATCH {pods}/d/status").body(r#"{"metadata": {"labels": {"l b": "n"}}}"#),
        row("pod, metadata by its status", "DELETE {pods}/d"),
    ]);
    const TEMPLATE: &str = r#""selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "RESTART", "containers": [{"name": "c", "image": "i"}]}}"#;
    let deployment = |metadata: &str| {
        let template = TEMPLATE.replace("RESTART", "Always");
        format!(r#"{{"metadata": {{"name": "d"{metadata}}}, "spec": {{"replicas": 1, {template}}}}}"#)
    };
    let job = format!(
        r#"{{"metadata": {{"name": "j", "labels": {{"a": "b"}}}}, "spec": {{"manualSelector": true, {}}}}}"#,
        TEMPLATE.replace("RESTART", "Never")
    );
    rows.extend([
        row("deployment", "POST {deployments}").body(&deployment("")).version("d0"),
        row("deployment", "DELETE {deployments}/d"),
        row("deployment, held", "POST {deployments}").body(&deployment(HELD)),
        row("deployment, held", "DELETE {deployments}/d"),
        row("deployment, held", "DELETE {deployments}/d"),
        row("deployment, held", "PATCH {deployments}/d").body(r#"{"spec": {"replicas": 4}}"#),
        row("deployment, bad label", "PATCH {deployments}/d").body(r#"{"metadata": {"labels": {"a b": "x"}}}"#),
        row("deployment, let go by its status", "PATCH {deployments}/d/status")
            .body(r#"{"metadata": {"finalizers": [], "labels": {"l": "m"}}, "status": {"replicas": 0}}"#),
        row("deployment, gone", "GET {deployments}/d"),
        row("deployment, watch", "GET {deployments}?watch=true&resourceVersion={d0}&timeoutSeconds=1"),
        row("job", "POST {jobs}").body(&job),
        row("job, its pods stay by default", "DELETE {jobs}/j"),
        row("job", "PATCH {jobs}/j").body(LET_GO),
        row("job", "POST {jobs}").body(&job),
        row("job", "DELETE {jobs}/j").body(r#"{"propagationPolicy": "Background"}"#),
        row("service account", "POST {accounts}").body(&map("s", "")),
        row("service account", "DELETE {accounts}/s"),
        row("lease", "POST {leases}").body(&map("l", r#", "finalizers": ["plain"]"#)),
        row("lease", "DELETE {leases}/l"),
        row("lease", "PATCH {leases}/l").body(LET_GO),
        row("secret", "POST {secrets}").body(&map("s", HELD)),
        row("secret", "DELETE {secrets}/s"),
        row("secret", "PATCH {secrets}/s").body(LET_GO),
    ]);
    rows.into_iter().map(Row::only_metadata).collect()
}

/// What metadata may hold.
pub(super) fn metadata() -> Vec<Row> {
    let long = "v".repeat(64);
    let mut rows = Vec::new();
    for metadata in [
        r#", "labels": {"a b": "1"}"#,
        r#", "labels": {"/a": "1"}"#,
        r#", "labels": {"Ex.com/": "1"}"#,
        r#", "labels": {"a/b/c": "1"}"#,
        r#", "labels": {"a": "- "}"#,
        &format!(r#", "labels": {{"a": "{long}"}}"#),
        &format!(r#", "labels": {{"a": "{long}-"}}"#),
        &format!(r#", "labels": {{"{long}": "a"}}"#),
        r#", "labels": {"a b": "c d"}"#,
        r#", "annotations": {"a b": "any thing"}"#,
        r#", "annotations": {"UPPER.com/Case": "any thing"}"#,
        r#", "finalizers": ["plain"]"#,
        r#", "finalizers": ["a b/c", ""]"#,
        r#", "finalizers": ["orphan", "foregroundDeletion"]"#,
        r#", "finalizers": ["kubernetes"]"#,
        r#", "ownerReferences": [{"apiVersion": "", "kind": "", "name": "", "uid": ""}]"#,
        r#", "ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "a", "uid": "u", "controller": true}, {"apiVersion": "v1", "kind": "B", "name": "b", "uid": "w", "controller": true}]"#,
    ] {
        let patch = format!(r#"{{"metadata": {{{}}}}}"#, &metadata[2..]);
        rows.extend([
            row("metadata", "POST {cm}").body(&map("m", metadata)),
            row("metadata", "DELETE {cm}/m").body(r#"{"propagationPolicy": "Background"}"#),
            row("metadata", "PATCH {cm}/m").body(LET_GO),
            row("metadata", "POST {cm}").body(&map("m", "")),
            row("metadata, patch", "PATCH {cm}/m").body(&patch),
            row("metadata", "DELETE {cm}/m").body(r#"{"propagationPolicy": "Background"}"#),
            row("metadata", "PATCH {cm}/m").body(LET_GO),
        ]);
    }
    let (subdomain, label) = ("p".repeat(254), "p".repeat(64));
    let generated = format!("gen-{label}");
    const ROLES: &str = "POST /apis/rbac.authorization.k8s.io/v1/clusterroles";
    for (ask, name, text) in [
        ("POST {cm}", "name", "Bad_"),
        ("POST {cm}", "name", "-"),
        ("POST {cm}", "name", &*subdomain),
        ("POST {services}", "name", "a.b"),
        ("POST {services}", "name", "A_"),
        ("POST {services}", "name", &*label),
        (ROLES, "name", "a/b%"),
        (ROLES, "name", ".."),
        ("POST {cm}", "generateName", "Gen-"),
        ("POST {services}", "generateName", "Gen-"),
        ("POST {services}", "generateName", &*generated),
    ] {
        let body = format!(r#"{{"metadata": {{"{name}": "{text}"}}, "spec": {{"ports": [{{"port": 1}}]}}}}"#);
        rows.push(row("bad name", ask).body(&body));
    }
    rows
}

/// Custom resources, and what holds their definition.
pub(super) fn custom() -> Vec<Row> {
    let held_definition =
        DEFINITION.replace(r#""metadata": {"#, r#""metadata": {"finalizers": ["compare.example.com/hold"], "#);
    let mut rows = vec![
        row("definition, held", "POST {crd}").body(&held_definition).only_metadata(),
        row("it serves again", "ESTABLISHED {w}"),
        row("custom, before", "GET {w}").version("w-before"),
        row("custom, held", "POST {w}")
            .body(&widget("h", r#", "finalizers": ["plain", "a.b/c"], "labels": {"a": "b"}"#)),
        row("custom, mark it by hand", "PATCH {w}/h")
            .body(r#"{"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}}"#),
        row("custom, held, delete", "DELETE {w}/h"),
        row("custom, held, delete again", "DELETE {w}/h"),
        row("custom, another finalizer", "PATCH {w}/h").body(r#"{"metadata": {"finalizers": ["plain", "a.b/d"]}}"#),
        row("custom, another grace", "PATCH {w}/h").body(r#"{"metadata": {"deletionGracePeriodSeconds": 5}}"#),
        row("custom, bad finalizer", "PATCH {w}/h").body(r#"{"metadata": {"finalizers": ["a b"]}}"#),
        row("custom, held, change", "PATCH {w}/h").body(r#"{"spec": {"size": 3}}"#),
        row("custom, let go by its status", "PATCH {w}/h/status")
            .body(r#"{"metadata": {"finalizers": []}, "status": {"ready": 3}}"#),
        row("custom, one of two", "PATCH {w}/h").body(r#"{"metadata": {"finalizers": ["a.b/c"]}}"#),
        row("custom, let go and change", "PATCH {w}/h")
            .body(r#"{"metadata": {"finalizers": []}, "spec": {"size": 4}}"#),
        row("custom, gone", "GET {w}/h"),
        row("custom, foreground", "POST {w}").body(&widget("h", "")),
        row("custom, foreground", "DELETE {w}/h").body(r#"{"propagationPolicy": "Foreground"}"#),
        row("custom, foreground", "PATCH {w}/h").body(LET_GO),
        row("custom, watch deletions", "GET {w}?watch=true&resourceVersion={w-before}&timeoutSeconds=1"),
    ];
    for (create, patch) in [
        (r#", "labels": {"a b": "1"}"#, r#""labels": {"a b": "1"}"#),
        (r#", "labels": {"a": "- "}"#, r#""labels": {"a": "- "}"#),
        (r#", "annotations": {"a b": "1"}"#, r#""annotations": {"a b": "1"}"#),
        (r#", "finalizers": ["orphan", "foregroundDeletion"]"#, r#""finalizers": ["orphan", "foregroundDeletion"]"#),
    ] {
        rows.extend([
            row("custom, bad metadata", "POST {w}").body(&widget("m", create)),
            row("custom, good metadata", "POST {w}").body(&widget("m", "")),
            row("custom, bad metadata, patch", "PATCH {w}/m").body(&format!(r#"{{"metadata": {{{patch}}}}}"#)),
            row("custom, delete that", "DELETE {w}/m"),
        ]);
    }
    rows.extend([
        row("definition, create what holds it", "POST {w}").body(&widget("h", HELD)),
        row("definition, create what does not", "POST {w}").body(&widget("f", "")),
        row("definition, delete", "DELETE {crd}/widgets.compare.example.com").only_metadata(),
        row("definition, what does not hold it goes", "GONE {w}/f"),
        row("definition, what holds it stays", "GET {w}/h"),
        row("definition, create meanwhile", "POST {w}").body(&widget("n", "")),
        row("definition, delete again", "DELETE {crd}/widgets.compare.example.com").only_metadata(),
        row("definition, create again", "POST {crd}").body(DEFINITION),
        row("definition, let go of the object", "PATCH {w}/h").body(LET_GO),
        row(
            "definition, its finalizer is the last",
            "FINALIZERS {crd}/widgets.compare.example.com compare.example.com/hold",
        ),
        row("definition, still serves", "GET {w}"),
        row("definition, let go", "PATCH {crd}/widgets.compare.example.com").body(LET_GO).only_metadata(),
        row("definition, gone", "GET {crd}/widgets.compare.example.com"),
        row("definition, nothing served", "GONE {w}"),
    ]);
    rows
}
