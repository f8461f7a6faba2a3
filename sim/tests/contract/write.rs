//! Writes, and custom resource definitions. The texts are those of a real kube-apiserver 1.36.1.

use crate::support::*;
use informer_core::object::Resource;
use informer_sim::{Config, HttpRequest};

const WIDGETS: &str = "/apis/example.com/v1/namespaces/n/widgets";
const PODS: &str = "/api/v1/namespaces/n/pods";

fn widget(rest: &str) -> String {
    format!(r#"{{"apiVersion":"example.com/v1","kind":"Widget",{rest}}}"#)
}

#[test]
fn an_object_of_a_resource_that_is_not_registered_is_refused_with_the_way_out() {
    let widgets = informer_core::Resource::namespaced("example.com", "v1", "widgets", "Widget");
    let mut server = informer_sim::Server::new(informer_sim::Config::default());
    server.register_common();
    let refused = server.put(&widgets, r#"{"metadata":{"name":"a","namespace":"web"}}"#).unwrap_err();
    assert_eq!((refused.code(), refused.reason()), (404, "NotFound"));
    assert_eq!(refused.message(), "widgets.example.com is not served: Server::register it first");
}

#[test]
fn creating_fills_in_what_is_the_servers() {
    let mut world = World::new(Config::default());
    world.pass(secs(61));
    let body = widget(
        r#""metadata":{"name":"a","uid":"mine","generation":9,"creationTimestamp":"2000-01-01T00:00:00Z","labels":{"x":"y"}},"spec":{"s":1}"#,
    );
    let created = world.send("POST", WIDGETS, &body);
    assert_eq!(created.status, 201);
    let object = created.json();
    let meta = &object["metadata"];
    assert_eq!(
        (&meta["namespace"], &meta["resourceVersion"], &meta["generation"]),
        (&"n".into(), &"2".into(), &1.into())
    );
    assert_eq!(meta["creationTimestamp"], "2026-01-01T00:01:01Z");
    let uid = meta["uid"].as_str().unwrap();
    assert!(uid.len() == 36 && uid.as_bytes()[14] == b'4', "{uid}");
    assert_eq!(meta["labels"]["x"], "y");
    assert_eq!(object["spec"]["s"], 1);
}

/// As the real server: it counts generations only where there is a spec to speak of.
#[test]
fn a_config_map_has_no_generation_and_needs_no_type() {
    let mut world = World::new(Config::default());
    let created = world.send("POST", CM, r#"{"metadata":{"name":"a"},"data":{"k":"v"}}"#).json();
    assert!(created["metadata"]["generation"].is_null());
    assert_eq!((&created["kind"], &created["apiVersion"]), (&"ConfigMap".into(), &"v1".into()));
}

#[test]
fn names_are_generated_and_differ() {
    let mut world = World::new(Config::default());
    let mut names: Vec<String> = (0..20)
        .map(|_| {
            let created = world.send("POST", CM, r#"{"metadata":{"generateName":"g-"}}"#).json();
            created["metadata"]["name"].as_str().unwrap().to_owned()
        })
        .collect();
    assert!(names.iter().all(|name| name.len() == 7 && name.starts_with("g-")));
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 20);
}

#[test]
fn bad_creations_are_refused() {
    let mut world = World::with_five();
    for (body, refusal) in [
        (r#"{"metadata":{"name":"a"}}"#, "409 AlreadyExists configmaps \"a\" already exists"),
        (
            r#"{"metadata":{}}"#,
            "422 Invalid ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required",
        ),
        (
            r#"{"metadata":{"name":"x","namespace":"other"}}"#,
            "400 BadRequest the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            r#"{"metadata":{"name":"x","resourceVersion":"4"}}"#,
            "500 - resourceVersion should not be set on objects to be created",
        ),
    ] {
        assert_eq!(world.send("POST", CM, body).refusal(), refusal, "{body}");
    }
    for (body, code) in [
        ("{nope", 400),
        ("", 400),
        ("[]", 400),
        (r#"{"kind":"Pod","metadata":{"name":"x"}}"#, 400),
        (r#"{"apiVersion":"v2","kind":"ConfigMap","metadata":{"name":"x"}}"#, 400),
        (r#"{"metadata":{"name":"x","labels":{"a":1}}}"#, 400),
        (r#"{"metadata":{"name":"Bad_Name"}}"#, 422),
    ] {
        assert_eq!(world.send("POST", CM, body).status, code, "{body}");
    }
    assert_eq!(world.send("POST", WIDGETS, r#"{"metadata":{"name":"x"}}"#).status, 400);
    let large = HttpRequest::new("POST", CM).body(vec![b' '; 3 * 1024 * 1024 + 1]);
    assert_eq!(world.ask(large).status, 413);
    assert_eq!(world.server.version(), 6);
}

#[test]
fn updates_check_the_version() {
    let mut world = World::with_five();
    let target = &format!("{CM}/a");
    let body =
        |version: u64| format!(r#"{{"metadata":{{"name":"a","resourceVersion":"{version}"}},"data":{{"k":"v"}}}}"#);
    assert_eq!(
        world.send("PUT", target, &body(1)).refusal(),
        "409 Conflict Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your \
         changes to the latest version and try again"
    );
    assert_eq!(world.send("PUT", target, &body(2)).json()["metadata"]["resourceVersion"], "7");
    // A built-in object may be overwritten without looking; a custom one may not.
    let blind = world.send("PUT", target, r#"{"metadata":{"name":"a"},"data":{"k":"w"}}"#);
    assert_eq!(blind.json()["metadata"]["resourceVersion"], "8");
    world.send("POST", WIDGETS, &widget(r#""metadata":{"name":"a"}"#));
    assert_eq!(
        world.send("PUT", &format!("{WIDGETS}/a"), &widget(r#""metadata":{"name":"a"},"spec":{}"#)).refusal(),
        "422 Invalid widgets.example.com \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified \
         for an update"
    );
}

/// So that no two leaders take one Lease.
#[test]
fn an_update_of_a_lease_or_a_custom_object_names_its_version() {
    let mut world = World::new(Config::default());
    let leases = Resource::namespaced("coordination.k8s.io", "v1", "leases", "Lease");
    world.server.register(leases, informer_sim::Options::default());
    let target = "/apis/coordination.k8s.io/v1/namespaces/n/leases";
    world.send("POST", target, r#"{"metadata":{"name":"a"}}"#);
    world.send("POST", WIDGETS, &widget(r#""metadata":{"name":"a"}"#));
    for version in ["", r#","resourceVersion":"0""#] {
        let lease = format!(r#"{{"metadata":{{"name":"a"{version},"labels":{{"l":"m"}}}}}}"#);
        assert_eq!(
            world.send("PUT", &format!("{target}/a"), &lease).refusal(),
            "422 Invalid leases.coordination.k8s.io \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be \
             specified for an update"
        );
        let custom = widget(&format!(r#""metadata":{{"name":"a"{version}}},"spec":{{"s":1}}"#));
        assert_eq!(world.send("PUT", &format!("{WIDGETS}/a"), &custom).status, 422);
    }
    assert_eq!(
        world.send("PUT", &format!("{target}/a"), r#"{"metadata":{"name":"a","resourceVersion":"x"}}"#).refusal(),
        "500 - strconv.ParseUint: parsing \"x\": invalid syntax"
    );
    assert_eq!(world.server.version(), 3);
}

#[test]
fn bad_updates_are_refused() {
    let mut world = World::with_five();
    for (target, body, refusal) in [
        ("zz", r#"{"metadata":{"name":"zz"}}"#, "404 NotFound configmaps \"zz\" not found"),
        (
            "a",
            r#"{"metadata":{"name":"b"}}"#,
            "400 BadRequest the name of the object (b) does not match the name on the URL (a)",
        ),
        (
            "a",
            r#"{"metadata":{}}"#,
            "400 BadRequest the name of the object (a based on URL) was undeterminable: name must be provided",
        ),
    ] {
        assert_eq!(world.send("PUT", &format!("{CM}/{target}"), body).refusal(), refusal);
    }
    let foreign = world.send("PUT", &format!("{CM}/a"), r#"{"metadata":{"name":"a","uid":"nope"}}"#);
    assert_eq!(foreign.status, 409);
}

#[test]
fn an_update_that_changes_nothing_keeps_the_version() {
    let mut world = World::new(Config::default());
    world.send("POST", WIDGETS, &widget(r#""metadata":{"name":"a"},"spec":{"x":1,"y":2}"#));
    let watch = world.open(HttpRequest::get(&format!("{WIDGETS}?watch=1&resourceVersion=2")));
    let again = widget(r#""spec":{ "y":2, "x":1 },"metadata":{"name":"a","resourceVersion":"2"}"#);
    assert_eq!(world.send("PUT", &format!("{WIDGETS}/a"), &again).json()["metadata"]["resourceVersion"], "2");
    assert_eq!(
        world.send("PATCH", &format!("{WIDGETS}/a"), r#"{"spec":{"x":1}}"#).json()["metadata"]["resourceVersion"],
        "2"
    );
    assert_eq!(world.server.version(), 2);
    assert_eq!(world.answer(watch).body.len(), 0);
}

#[test]
fn the_generation_rises_with_the_spec_only() {
    let mut world = World::new(Config::default());
    world.send("POST", WIDGETS, &widget(r#""metadata":{"name":"a"},"spec":{"x":1}"#));
    let mut generation = |patch: &str, sub: &str| {
        let patched = world.send("PATCH", &format!("{WIDGETS}/a{sub}"), patch).json();
        let meta = &patched["metadata"];
        (meta["generation"].as_i64().unwrap(), meta["resourceVersion"].as_str().unwrap().to_owned())
    };
    assert_eq!(generation(r#"{"metadata":{"labels":{"a":"b"}}}"#, ""), (1, "3".into()));
    assert_eq!(generation(r#"{"status":{"s":1}}"#, "/status"), (1, "4".into()));
    assert_eq!(generation(r#"{"spec":{"x":2}}"#, ""), (2, "5".into()));
    assert_eq!(generation(r#"{"extra":true}"#, ""), (3, "6".into()));
}

#[test]
fn status_is_written_on_its_own_path_and_nowhere_else() {
    let mut world = World::new(Config::default());
    let created = world.send("POST", WIDGETS, &widget(r#""metadata":{"name":"a"},"spec":{"x":1},"status":{"s":1}"#));
    assert!(created.json()["status"].is_null());
    // On the main path a change of status is no change.
    let ignored = world.send("PATCH", &format!("{WIDGETS}/a"), r#"{"status":{"s":2}}"#).json();
    assert_eq!((&ignored["status"], &ignored["metadata"]["resourceVersion"]), (&serde_json::Value::Null, &"2".into()));
    let patch = r#"{"spec":{"x":9},"status":{"s":3},"metadata":{"labels":{"l":"m"}}}"#;
    let written = world.send("PATCH", &format!("{WIDGETS}/a/status"), patch).json();
    assert_eq!((&written["spec"]["x"], &written["status"]["s"]), (&1.into(), &3.into()));
    assert!(written["metadata"]["labels"].is_null());
    let put = widget(r#""metadata":{"name":"a","resourceVersion":"3"},"spec":{"x":9},"status":{"s":4}"#);
    let written = world.send("PUT", &format!("{WIDGETS}/a/status"), &put).json();
    assert_eq!((&written["spec"]["x"], &written["status"]["s"]), (&1.into(), &4.into()));
    assert_eq!(world.get(&format!("{WIDGETS}/a/status")).json(), written);
    // The main path keeps it.
    let put = widget(r#""metadata":{"name":"a","resourceVersion":"4"},"spec":{"x":7}"#);
    let kept = world.send("PUT", &format!("{WIDGETS}/a"), &put).json();
    assert_eq!((&kept["spec"]["x"], &kept["status"]["s"]), (&7.into(), &4.into()));
}

#[test]
fn a_new_pod_is_pending() {
    let mut world = World::new(Config::default());
    let body = r#"{"metadata":{"name":"p"},"spec":{"containers":[]},"status":{"phase":"Running"}}"#;
    let created = world.send("POST", PODS, body).json();
    assert_eq!((&created["status"]["phase"], &created["metadata"]["generation"]), (&"Pending".into(), &1.into()));
    let running = world.send("PATCH", &format!("{PODS}/p/status"), r#"{"status":{"phase":"Running"}}"#).json();
    assert_eq!(running["status"]["phase"], "Running");
}

#[test]
fn merge_patches_merge() {
    let mut world = World::new(Config::default());
    world.send("POST", CM, r#"{"metadata":{"name":"a","labels":{"x":"1","y":"2"}},"data":{"k":"v"}}"#);
    let patch = r#"{"metadata":{"labels":{"x":null,"z":"3"}},"data":{"j":"w"}}"#;
    let patched = world.send("PATCH", &format!("{CM}/a"), patch).json();
    assert_eq!(patched["metadata"]["labels"], serde_json::json!({"y": "2", "z": "3"}));
    assert_eq!(patched["data"], serde_json::json!({"k": "v", "j": "w"}));
    assert_eq!(patched["metadata"]["resourceVersion"], "3");
}

#[test]
fn bad_patches_are_refused() {
    let mut world = World::with_five();
    let target = &format!("{CM}/a");
    let conflict = world.send("PATCH", target, r#"{"metadata":{"resourceVersion":"1"}}"#).refusal();
    assert!(conflict.starts_with("409 Conflict"), "{conflict}");
    assert_eq!(world.send("PATCH", &format!("{CM}/zz"), "{}").refusal(), "404 NotFound configmaps \"zz\" not found");
    assert_eq!(
        world.send("PATCH", target, r#"{"metadata":{"name":"q"}}"#).refusal(),
        "400 BadRequest the name of the object (q) does not match the name on the URL (a)"
    );
    for broken in ["[1]", "{", ""] {
        let refusal = world.send("PATCH", target, broken).refusal();
        assert!(refusal.starts_with("400 BadRequest error decoding patch: "), "{refusal}");
    }
    let other = HttpRequest::new("PATCH", target).header("Content-Type", "application/json-patch+json").body("[]");
    assert_eq!(world.ask(other).status, 415);
}

#[test]
fn deleting_answers_with_a_status_that_names_the_uid() {
    let mut world = World::with_five();
    let uid = world.server.get(&configmaps(), &"n/a".parse().unwrap()).unwrap().uid().to_owned();
    assert_eq!(
        world.send("DELETE", &format!("{CM}/a"), r#"{"propagationPolicy":"Background"}"#).text(),
        format!(
            r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Success","details":{{"name":"a","kind":"configmaps","uid":"{uid}"}}}}"#
        ) + "\n"
    );
    assert_eq!(world.send("DELETE", &format!("{CM}/a"), "").refusal(), "404 NotFound configmaps \"a\" not found");
}

#[test]
fn preconditions_of_a_deletion_are_kept() {
    let mut world = World::with_five();
    let uid = world.server.get(&configmaps(), &"n/a".parse().unwrap()).unwrap().uid().to_owned();
    let target = &format!("{CM}/a");
    assert_eq!(
        world.send("DELETE", target, r#"{"preconditions":{"uid":"nope"}}"#).refusal(),
        format!(
            "409 Conflict Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (nope) does not \
             match the UID in record ({uid}). The object might have been deleted and then recreated"
        )
    );
    assert_eq!(
        world.send("DELETE", target, r#"{"preconditions":{"resourceVersion":"1"}}"#).refusal(),
        "409 Conflict Operation cannot be fulfilled on ConfigMap \"a\": the ResourceVersion in the precondition (1) does \
         not match the ResourceVersion in record (2). The object might have been modified"
    );
    assert_eq!(world.send("DELETE", target, r#"{"preconditions":"#).status, 400);
    let both = format!(r#"{{"preconditions":{{"uid":"{uid}","resourceVersion":"2"}}}}"#);
    assert_eq!(world.send("DELETE", target, &both).status, 200);
}

#[test]
fn a_collection_is_deleted_as_far_as_it_is_selected() {
    let mut world = World::with_five();
    world.put("b", "y");
    world.put("d", "y");
    let deleted = world.send("DELETE", &format!("{CM}?labelSelector=l%3Dy"), "");
    assert_eq!(deleted.names(), ["b", "d"]);
    assert_eq!(world.get(CM).names(), ["a", "c", "e"]);
}

#[test]
fn a_recreated_object_has_another_uid() {
    let mut world = World::with_five();
    let uid = |world: &World| world.server.get(&configmaps(), &"n/a".parse().unwrap()).unwrap().uid().to_owned();
    let first = uid(&world);
    world.delete("a");
    world.put("a", "x");
    assert_ne!(uid(&world), first);
}

#[test]
fn direct_writes_are_checked_too() {
    let mut world = World::with_five();
    let mut refused = |resource: &Resource, json: &str| world.server.put(resource, json).unwrap_err();
    assert_eq!(refused(&Resource::cluster("", "v1", "nodes", "Node"), r#"{"metadata":{"name":"n"}}"#).code(), 404);
    assert_eq!(refused(&configmaps(), r#"{"metadata":{"name":"n"}}"#).reason(), "Invalid");
    assert_eq!(refused(&configmaps(), "{").reason(), "BadRequest");
    let other = refused(&configmaps(), r#"{"metadata":{"name":"a","namespace":"n","uid":"other"}}"#);
    assert_eq!(other.reason(), "Conflict");
    assert_eq!(world.server.delete(&configmaps(), &"n/zz".parse().unwrap()), None);
    // Status is written as it comes, and nothing new is no version.
    let json = r#"{"metadata":{"name":"p","namespace":"n"},"status":{"phase":"Running"}}"#;
    assert_eq!(world.server.put(&pods(), json), Ok(7));
    assert_eq!(world.server.put(&pods(), json), Ok(7));
    assert!(world.server.get(&pods(), &"n/p".parse().unwrap()).unwrap().json().contains("Running"));
}

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GADGETS: &str = r#"{"metadata":{"name":"gadgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
    "names":{"plural":"gadgets","kind":"Gadget"},
    "versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"selectableFields":[{"jsonPath":".spec.color"}]}]}}"#;

#[test]
fn a_definition_serves_its_resource_until_it_is_deleted() {
    let mut world = World::new(Config::default());
    let gadgets = "/apis/example.com/v1/namespaces/n/gadgets";
    assert_eq!(world.get(gadgets).text(), "404 page not found\n");
    let created = world.send("POST", CRDS, GADGETS);
    assert_eq!((created.status, created.json()["status"]["conditions"].is_null()), (201, true));
    assert_eq!(created.json()["status"]["storedVersions"], serde_json::json!(["v1"]));
    let established = world.get(&format!("{CRDS}/gadgets.example.com")).json();
    assert_eq!(established["status"]["conditions"][1]["type"], "Established");
    assert_eq!(established["status"]["conditions"][1]["status"], "True");
    assert_eq!(established["metadata"]["generation"], 1);

    for (name, color) in [("a", "red"), ("b", "blue")] {
        let body = format!(
            r#"{{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{{"name":"{name}"}},"spec":{{"color":"{color}"}}}}"#
        );
        assert_eq!(world.send("POST", gadgets, &body).status, 201);
    }
    assert_eq!(world.send("PATCH", &format!("{gadgets}/a/status"), r#"{"status":{"s":1}}"#).status, 200);
    assert_eq!(world.get(&format!("{gadgets}?fieldSelector=spec.color%3Dblue")).names(), ["b"]);

    let watch = world.open(HttpRequest::get(&format!("{gadgets}?watch=1&resourceVersion={}", world.server.version())));
    let from = world.server.version();
    let definitions = world.open(HttpRequest::get(&format!("{CRDS}?watch=1&resourceVersion={from}")));
    let deleted = world.send("DELETE", &format!("{CRDS}/gadgets.example.com"), "").json();
    assert!(deleted["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(world.answer(watch).events(), [format!("DELETED a@{}", from + 2), format!("DELETED b@{}", from + 3)]);
    assert!(world.answer(watch).ended);
    assert_eq!(
        world.answer(definitions).events(),
        [format!("MODIFIED gadgets.example.com@{}", from + 1), format!("DELETED gadgets.example.com@{}", from + 4)]
    );
    let gone = world.get(gadgets);
    assert_eq!((gone.status, gone.text()), (404, "404 page not found\n"));

    // It comes back empty, and nobody can resume from before.
    assert_eq!(world.send("POST", CRDS, GADGETS).status, 201);
    assert_eq!(world.get(gadgets).names().len(), 0);
    let resumed = world.open(HttpRequest::get(&format!("{gadgets}?watch=1&resourceVersion={from}")));
    assert_eq!(world.answer(resumed).events(), ["ERROR 410"]);
}

#[test]
fn a_bad_definition_is_refused() {
    let mut world = World::new(Config::default());
    let refusal = world.send("POST", CRDS, r#"{"metadata":{"name":"x.example.com"},"spec":{"group":"example.com"}}"#);
    assert_eq!(refusal.status, 422);
    for field in ["spec.names.plural: Required value", "spec.scope: Unsupported value", "metadata.name: Invalid value"]
    {
        assert!(refusal.refusal().contains(field), "{}", refusal.refusal());
    }
    assert_eq!(world.server.resources().count(), 4);
}
