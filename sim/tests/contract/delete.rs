//! Deletions: what holds an object, and what its metadata may hold. The same requests are compared with a real
//! kube-apiserver in `conformance/tests/real_apiserver/compare/deleting.rs`; here it is versions, times and events.

use crate::support::*;
use informer_core::object::Resource;
use informer_sim::{Config, HttpRequest, Options};
use proptest::prelude::*;
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/n/pods";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/n/widgets";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn held(name: &str) -> String {
    format!(r#"{{"metadata":{{"name":"{name}","finalizers":["example.com/hold"]}}}}"#)
}

fn pod(name: &str, node: &str) -> String {
    format!(r#"{{"metadata":{{"name":"{name}"}},"spec":{{"nodeName":"{node}"}}}}"#)
}

/// `deletionTimestamp`, grace period, finalizers, version and generation.
fn marks(object: &Value) -> Value {
    let meta = &object["metadata"];
    json!([
        meta["deletionTimestamp"],
        meta["deletionGracePeriodSeconds"],
        meta["finalizers"],
        meta["resourceVersion"],
        meta["generation"]
    ])
}

#[test]
fn an_object_with_finalizers_is_marked_and_goes_with_the_last_of_them() {
    let mut world = World::new(Config::default());
    world.send("POST", CM, r#"{"metadata":{"name":"a","finalizers":["example.com/x","example.com/y"]}}"#);
    let watch = world.watch("resourceVersion=2");
    world.pass(secs(61));
    let deleted = world.send("DELETE", &format!("{CM}/a"), "");
    const NOW: &str = "2026-01-01T00:01:01Z";
    assert_eq!(deleted.status, 200);
    assert_eq!(marks(&deleted.json()), json!([NOW, 0, ["example.com/x", "example.com/y"], "3", null]));
    world.pass(secs(61));
    let again = world.send("DELETE", &format!("{CM}/a"), "").json();
    assert_eq!(again, deleted.json(), "who deletes it again changes nothing");

    let one = world.send("PATCH", &format!("{CM}/a"), r#"{"metadata":{"finalizers":["example.com/y"]}}"#).json();
    assert_eq!(marks(&one), json!([NOW, 0, ["example.com/y"], "4", null]));
    // Who takes the last one sees what he wrote, under the version that he wrote over.
    let patch = r#"{"metadata":{"finalizers":null,"labels":{"l":"m"}}}"#;
    let last = world.send("PATCH", &format!("{CM}/a"), patch).json();
    assert_eq!(marks(&last), json!([NOW, 0, null, "4", null]));
    assert_eq!(last["metadata"]["labels"]["l"], "m");
    assert_eq!(world.get(&format!("{CM}/a")).status, 404);

    let frames = world.answer(watch).frames();
    assert_eq!(world.answer(watch).events(), ["MODIFIED a@3", "MODIFIED a@4", "DELETED a@5"]);
    // Its last state is the last that was stored.
    assert_eq!(marks(&frames[2]["object"]), json!([NOW, 0, ["example.com/y"], "5", null]));
    assert_eq!(frames[2]["object"]["metadata"]["labels"], Value::Null);
}

#[test]
fn a_deletion_is_never_taken_back_and_gets_no_new_finalizers() {
    let mut world = World::new(Config::default());
    world.send("POST", CM, &held("a"));
    let target = &format!("{CM}/a");
    let marked = world.send("DELETE", target, "").json();
    for nothing in [r#"{"deletionTimestamp":null}"#, r#"{"deletionGracePeriodSeconds":null}"#] {
        let patch = format!(r#"{{"metadata":{nothing}}}"#);
        assert_eq!(world.send("PATCH", target, &patch).json(), marked, "{nothing}");
    }
    for (patch, field) in [
        (r#"{"finalizers":["example.com/hold","example.com/more"]}"#, "metadata.finalizers"),
        (r#"{"deletionGracePeriodSeconds":1}"#, "metadata.deletionGracePeriodSeconds"),
    ] {
        let refused = world.send("PATCH", target, &format!(r#"{{"metadata":{patch}}}"#));
        assert_eq!((refused.status, &refused.json()["reason"]), (422, &"Invalid".into()), "{patch}");
        assert_eq!(refused.json()["details"]["causes"][0]["field"], field);
    }
    let free = world.send("POST", CM, r#"{"metadata":{"name":"b","deletionTimestamp":"2020-01-01T00:00:00Z"}}"#);
    assert_eq!(marks(&free.json()), json!([null, null, null, "4", null]), "nobody is born marked");
    let by_hand = r#"{"metadata":{"deletionTimestamp":"2020-01-01T00:00:00Z"}}"#;
    assert_eq!(
        world.send("PATCH", &format!("{CM}/b"), by_hand).refusal(),
        "422 Invalid ConfigMap \"b\" is invalid: metadata.deletionTimestamp: Invalid value: \"2020-01-01T00:00:00Z\": field \
         is immutable"
    );
    assert_eq!(
        world.send("POST", CM, &held("a")).refusal(),
        "409 AlreadyExists object is being deleted: configmaps \"a\" already exists"
    );
}

#[test]
fn an_update_that_forgets_the_finalizers_lets_go_too() {
    let mut world = World::new(Config::default());
    world.send("POST", CM, &held("a"));
    world.send("DELETE", &format!("{CM}/a"), "");
    assert_eq!(world.send("PUT", &format!("{CM}/a"), r#"{"metadata":{"name":"a"}}"#).status, 200);
    assert_eq!(world.get(&format!("{CM}/a")).status, 404);
}

#[test]
fn a_mark_counts_as_a_generation_where_they_are_counted() {
    let mut world = World::new(Config::default());
    let widget =
        r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","finalizers":["x"]},"spec":{"s":1}}"#;
    world.send("POST", WIDGETS, widget);
    let target = &format!("{WIDGETS}/a");
    assert_eq!(world.send("DELETE", target, "").json()["metadata"]["generation"], 2);
    assert_eq!(world.send("DELETE", target, "").json()["metadata"]["generation"], 2);
    assert_eq!(world.send("PATCH", target, r#"{"spec":{"s":2}}"#).json()["metadata"]["generation"], 3);
    // The status of a custom resource lets go of nothing.
    let status =
        world.send("PATCH", &format!("{target}/status"), r#"{"metadata":{"finalizers":null},"status":{"s":1}}"#);
    assert_eq!(status.json()["metadata"]["finalizers"], json!(["x"]));
    let last = world.send("PATCH", target, r#"{"metadata":{"finalizers":null},"spec":{"s":3}}"#).json();
    assert_eq!(last["metadata"]["generation"], 4);
    assert_eq!(world.get(target).status, 404);
}

#[test]
fn the_options_of_a_deletion_give_and_take_the_finalizers_of_the_garbage_collector() {
    let mut world = World::new(Config::default());
    world.send("POST", CM, &held("a"));
    let target = &format!("{CM}/a");
    for (options, status, finalizers) in [
        (r#"{"propagationPolicy":"Foreground"}"#, 200, json!(["example.com/hold", "foregroundDeletion"])),
        ("", 200, json!(["example.com/hold", "foregroundDeletion"])),
        (r#"{"propagationPolicy":"Orphan"}"#, 200, json!(["example.com/hold", "orphan"])),
        (r#"{"propagationPolicy":"Background"}"#, 200, json!(["example.com/hold"])),
        (r#"{"orphanDependents":true}"#, 200, json!(["example.com/hold", "orphan"])),
        (r#"{"orphanDependents":false}"#, 202, json!(["example.com/hold"])),
    ] {
        let answer = world.send("DELETE", target, options);
        assert_eq!((answer.status, &answer.json()["metadata"]["finalizers"]), (status, &finalizers), "{options}");
    }
    // Nobody collects here: it waits for who tests.
    world.send("POST", CM, r#"{"metadata":{"name":"b"}}"#);
    world.send("DELETE", &format!("{CM}/b?propagationPolicy=Foreground"), "");
    assert_eq!(world.get(&format!("{CM}/b")).json()["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    world.send("PATCH", &format!("{CM}/b"), r#"{"metadata":{"finalizers":[]}}"#);
    assert_eq!(world.get(&format!("{CM}/b")).status, 404);
}

#[test]
fn a_job_keeps_its_pods_unless_the_request_says_otherwise() {
    let mut world = World::new(Config::default());
    let jobs = Resource::namespaced("batch", "v1", "jobs", "Job");
    world.server.register(jobs, Options { custom: false, status_subresource: true });
    let target = "/apis/batch/v1/namespaces/n/jobs";
    world.send("POST", target, r#"{"metadata":{"name":"a"},"spec":{}}"#);
    let waits = world.send("DELETE", &format!("{target}/a"), "").json();
    assert_eq!(waits["metadata"]["finalizers"], json!(["orphan"]));
    let gone = world.send("DELETE", &format!("{target}/a"), r#"{"propagationPolicy":"Background"}"#).json();
    assert_eq!((&gone["kind"], &gone["status"]), (&"Status".into(), &"Success".into()));
}

#[test]
fn bad_options_are_refused_before_anything_is_looked_for() {
    let mut world = World::with_five();
    for (query, body, refusal) in [
        (
            "",
            r#"{"propagationPolicy":"Never"}"#,
            "422 Invalid DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \"Never\": \
             supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"",
        ),
        (
            "",
            r#"{"propagationPolicy":"Orphan","orphanDependents":true}"#,
            "422 Invalid DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Invalid value: \"Orphan\": \
             orphanDependents and deletionPropagation cannot be both set",
        ),
        (
            "?dryRun=Some",
            "",
            "422 Invalid DeleteOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Some\"]: supported values: \
             \"All\"",
        ),
        (
            "",
            r#"{"dryRun":["All"]}"#,
            "400 BadRequest dryRun is not simulated, so nothing was deleted: leave it out, or ask a real API server",
        ),
        ("", r#"{"kind":"Foo"}"#, "400 BadRequest no kind \"Foo\" is registered for version \"v1\""),
        ("?gracePeriodSeconds=soon", "", "400 BadRequest strconv.ParseInt: parsing \"soon\": invalid syntax"),
    ] {
        for name in ["a", "nobody"] {
            assert_eq!(world.send("DELETE", &format!("{CM}/{name}{query}"), body).refusal(), refusal);
        }
    }
    for body in ["[]", "{", r#"{"gracePeriodSeconds":"x"}"#, r#"{"preconditions":7}"#] {
        assert_eq!(world.send("DELETE", &format!("{CM}/a"), body).status, 400, "{body}");
    }
    assert_eq!(world.server.count(&configmaps()), 5);
}

#[test]
fn no_dry_run_writes_anything() {
    let mut world = World::with_five();
    for (method, target, body) in [
        ("POST", CM.to_owned(), r#"{"metadata":{"name":"x"}}"#),
        ("PUT", format!("{CM}/a"), r#"{"metadata":{"name":"a"}}"#),
        ("PATCH", format!("{CM}/a"), r#"{"data":{"k":"v"}}"#),
        ("DELETE", CM.to_owned(), ""),
    ] {
        let refusal = world.send(method, &format!("{target}?dryRun=All"), body).refusal();
        assert!(refusal.starts_with("400 BadRequest dryRun is not simulated"), "{method}: {refusal}");
    }
    assert_eq!(world.server.version(), 6);
}

#[test]
fn a_pod_on_a_node_has_its_grace_period_and_one_without_has_none() {
    let mut world = World::new(Config::default());
    let watch = world.open(HttpRequest::get(&format!("{PODS}?watch=1&resourceVersion=1")));
    world.send("POST", PODS, &pod("free", ""));
    let gone = world.send("DELETE", &format!("{PODS}/free"), "").json();
    assert_eq!(marks(&gone), json!(["2026-01-01T00:00:00Z", 0, null, "4", 2]));
    assert_eq!(world.answer(watch).events(), ["ADDED free@2", "MODIFIED free@3", "DELETED free@4"]);

    world.send("POST", PODS, &pod("busy", "n1"));
    let target = &format!("{PODS}/busy");
    let mut delete = |body: &str| marks(&world.send("DELETE", target, body).json());
    let waits = json!(["2026-01-01T00:00:30Z", 30, null, "6", 2]);
    assert_eq!(delete(""), waits);
    assert_eq!(delete(""), waits);
    assert_eq!(delete(r#"{"gracePeriodSeconds":31}"#), waits, "it may only be shortened");
    assert_eq!(delete(r#"{"gracePeriodSeconds":20}"#), json!(["2026-01-01T00:00:20Z", 20, null, "7", 2]));
    world.pass(secs(15));
    // It counts from the first request, and never ends in the past.
    let mut delete = |body: &str| marks(&world.send("DELETE", target, body).json());
    assert_eq!(delete(r#"{"gracePeriodSeconds":10}"#), json!(["2026-01-01T00:00:15Z", 1, null, "8", 2]));
    // What the kubelet sends when it has stopped.
    assert_eq!(delete(r#"{"gracePeriodSeconds":0}"#), json!(["2026-01-01T00:00:15Z", 0, null, "10", 2]));
    assert_eq!(world.get(target).status, 404);
}

#[test]
fn a_pod_that_is_held_waits_for_both() {
    let mut world = World::new(Config::default());
    let body = r#"{"metadata":{"name":"p","finalizers":["example.com/hold"]},"spec":{"nodeName":"n1","terminationGracePeriodSeconds":7}}"#;
    world.send("POST", PODS, body);
    let target = &format!("{PODS}/p");
    assert_eq!(world.send("DELETE", target, "").json()["metadata"]["deletionGracePeriodSeconds"], 7);
    // Without its finalizer it still has to stop.
    world.send("PATCH", target, r#"{"metadata":{"finalizers":null}}"#);
    assert_eq!(world.get(target).status, 200);
    world.send("DELETE", &format!("{target}?gracePeriodSeconds=0"), "");
    assert_eq!(world.get(target).status, 404);

    world.send("POST", PODS, body);
    world.send("DELETE", target, r#"{"gracePeriodSeconds":0}"#);
    assert_eq!(world.get(target).json()["metadata"]["finalizers"], json!(["example.com/hold"]));
    // The status of a built-in type carries its metadata too.
    world.send("PATCH", &format!("{target}/status"), r#"{"metadata":{"finalizers":null}}"#);
    assert_eq!(world.get(target).status, 404);
}

#[test]
fn a_pod_that_has_ended_needs_no_time() {
    let mut world = World::new(Config::default());
    world.send("POST", PODS, &pod("p", "n1"));
    world.send("PATCH", &format!("{PODS}/p/status"), r#"{"status":{"phase":"Succeeded"}}"#);
    world.send("DELETE", &format!("{PODS}/p"), "");
    assert_eq!(world.get(&format!("{PODS}/p")).status, 404);
}

#[test]
fn a_collection_is_deleted_as_far_as_nothing_holds_it() {
    let mut world = World::with_five();
    world.send("PATCH", &format!("{CM}/b"), r#"{"metadata":{"finalizers":["example.com/hold"]}}"#);
    assert_eq!(world.send("DELETE", CM, "").names(), ["a", "b", "c", "d", "e"]);
    assert_eq!(world.get(CM).names(), ["b"]);
    let uid = r#"{"preconditions":{"uid":"other"}}"#;
    assert_eq!(world.send("DELETE", CM, uid).status, 409);
}

#[test]
fn direct_deletions_respect_finalizers_and_nothing_else() {
    let mut world = World::new(Config::default());
    let key = |name: &str| format!("n/{name}").parse().unwrap();
    let json = r#"{"metadata":{"name":"a","namespace":"n","finalizers":["example.com/hold"]}}"#;
    world.server.put(&configmaps(), json).unwrap();
    assert_eq!(world.server.delete(&configmaps(), &key("a")), Some(3));
    assert!(world.server.get(&configmaps(), &key("a")).unwrap().json().contains("deletionTimestamp"));
    let more = json.replace("hold", "more");
    assert_eq!(world.server.put(&configmaps(), &more).unwrap_err().code(), 422);
    // As it is, but without its finalizer: the version is that of its end.
    assert_eq!(world.server.put(&configmaps(), r#"{"metadata":{"name":"a","namespace":"n"}}"#), Ok(4));
    assert!(world.server.get(&configmaps(), &key("a")).is_none());
    world.server.put(&pods(), r#"{"metadata":{"name":"p","namespace":"n"},"spec":{"nodeName":"n1"}}"#).unwrap();
    assert_eq!(world.server.delete(&pods(), &key("p")), Some(6));
    assert!(world.server.get(&pods(), &key("p")).is_none());
}

#[test]
fn a_definition_waits_for_its_objects_and_for_its_own_finalizers() {
    let mut world = World::new(Config::default());
    let definition = r#"{"metadata":{"name":"gadgets.example.com","finalizers":["example.com/hold"]},"spec":{"group":"example.com",
        "scope":"Namespaced","names":{"plural":"gadgets","kind":"Gadget"},"versions":[{"name":"v1","served":true,"storage":true}]}}"#;
    let gadgets = "/apis/example.com/v1/namespaces/n/gadgets";
    let gadget = |name: &str, rest: &str| {
        format!(r#"{{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{{"name":"{name}"{rest}}}}}"#)
    };
    world.send("POST", CRDS, definition);
    world.send("POST", gadgets, &gadget("free", ""));
    world.send("POST", gadgets, &gadget("held", r#","finalizers":["example.com/hold"]"#));
    let target = &format!("{CRDS}/gadgets.example.com");
    let terminating = |object: &Value| object["status"]["conditions"][2]["status"].clone();

    const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
    let marked = world.send("DELETE", target, "").json();
    assert_eq!(marked["metadata"]["finalizers"], json!(["example.com/hold", CLEANUP]));
    assert_eq!(terminating(&marked), "True");
    assert_eq!(world.get(gadgets).names(), ["held"]);
    assert_eq!(
        world.send("POST", gadgets, &gadget("new", "")).refusal(),
        "403 Forbidden gadgets.example.com \"new\" is forbidden: create not allowed while custom resource definition is \
         terminating"
    );
    world.send("PATCH", &format!("{gadgets}/held"), r#"{"metadata":{"finalizers":null}}"#);
    let cleaned = world.get(target).json();
    assert_eq!(
        (&cleaned["metadata"]["finalizers"], terminating(&cleaned)),
        (&json!(["example.com/hold"]), "False".into())
    );
    // It serves until it is gone.
    let watch = world.open(HttpRequest::get(&format!("{gadgets}?watch=1&resourceVersion={}", world.server.version())));
    assert_eq!(world.send("POST", gadgets, &gadget("late", "")).status, 201);
    world.send("PATCH", target, r#"{"metadata":{"finalizers":null}}"#);
    assert_eq!(world.get(target).status, 404);
    assert_eq!(world.get(gadgets).text(), "404 page not found\n");
    assert!(world.answer(watch).ended);
    let kinds: Vec<String> =
        world.answer(watch).events().iter().map(|event| event.split('@').next().unwrap().to_owned()).collect();
    assert_eq!(kinds, ["ADDED late", "DELETED late"]);
}

#[test]
fn bad_metadata_is_refused_with_its_field() {
    let mut world = World::new(Config::default());
    let long = "v".repeat(64);
    for (metadata, fields) in [
        (r#""labels":{"a b":"1"}"#, &["metadata.labels"][..]),
        (r#""labels":{"a b":"c d"}"#, &["metadata.labels", "metadata.labels"]),
        (&*format!(r#""labels":{{"a":"{long}"}}"#), &["metadata.labels"]),
        (r#""annotations":{"Ex.com/A":"any thing"}"#, &[]),
        (r#""annotations":{"a b":"x"}"#, &["metadata.annotations"]),
        (&*format!(r#""annotations":{{"a":"{}"}}"#, "x".repeat(256 * 1024)), &["metadata.annotations"]),
        (&*format!(r#""annotations":{{"a":"{}"}}"#, "x".repeat(256 * 1024 - 1)), &[]),
        (r#""finalizers":["example.com/hold","plain"]"#, &["metadata.finalizers[1]"]),
        (r#""ownerReferences":[{"apiVersion":"v1","kind":"A","name":"a"}]"#, &["metadata.ownerReferences.uid"]),
    ] {
        let answer = world.send("POST", CM, &format!(r#"{{"metadata":{{"name":"a",{metadata}}}}}"#));
        let status = answer.json();
        let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
        let have: Vec<&str> = causes.iter().map(|cause| cause["field"].as_str().unwrap()).collect();
        assert_eq!(have, fields, "{}", &metadata[..metadata.len().min(80)]);
        if fields.is_empty() {
            assert_eq!(answer.status, 201);
            world.send("DELETE", &format!("{CM}/a"), "");
        } else {
            assert_eq!((answer.status, &status["reason"]), (422, &"Invalid".into()));
        }
    }
    // An update is checked as well, and what was refused is not written.
    world.send("POST", CM, r#"{"metadata":{"name":"a"}}"#);
    let version = world.server.version();
    assert_eq!(world.send("PATCH", &format!("{CM}/a"), r#"{"metadata":{"labels":{"a b":"1"}}}"#).status, 422);
    assert_eq!(world.send("PUT", &format!("{CM}/a"), r#"{"metadata":{"name":"a","labels":{"a":"/"}}}"#).status, 422);
    assert_eq!(world.server.version(), version);
}

#[test]
fn a_generated_name_has_63_bytes_at_most() {
    let mut world = World::new(Config::default());
    let body = format!(r#"{{"metadata":{{"generateName":"{}-"}}}}"#, "g".repeat(100));
    let name = world.send("POST", CM, &body).json()["metadata"]["name"].as_str().unwrap().to_owned();
    assert!(name.len() == 63 && name.starts_with(&"g".repeat(58)), "{name}");
}

/// One request about the one object, or none if there is none.
#[derive(Clone, Debug)]
enum Do {
    Create(Vec<usize>),
    SetFinalizers(Vec<usize>),
    Label(u8),
    Delete(&'static str),
    Directly,
}

fn doing() -> impl Strategy<Value = Do> {
    let names = || proptest::sample::subsequence(vec![0_usize, 1, 2], 0..=3);
    prop_oneof![
        names().prop_map(Do::Create),
        names().prop_map(Do::SetFinalizers),
        (0..3_u8).prop_map(Do::Label),
        proptest::sample::select(vec![
            "",
            r#"{"propagationPolicy":"Foreground"}"#,
            r#"{"propagationPolicy":"Background"}"#,
            r#"{"orphanDependents":true}"#,
        ])
        .prop_map(Do::Delete),
        Just(Do::Directly),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever comes in whatever order: what is marked stays marked, gets no more finalizers of others, goes exactly when it
    /// has none, and everybody who watches is told so.
    #[test]
    fn what_is_marked_goes_when_nothing_holds_it_and_never_before(
        kind in 0..2_usize, steps in proptest::collection::vec(doing(), 1..30),
    ) {
        const FINALIZERS: [&str; 3] = ["example.com/a", "example.com/b", "example.com/c"];
        let (collection, type_meta, resource) = [
            (CM, "", configmaps()),
            (WIDGETS, r#""apiVersion":"example.com/v1","kind":"Widget","spec":{},"#, widgets()),
        ][kind].clone();
        let mut world = World::new(Config::default());
        let watch = world.open(HttpRequest::get(&format!("{collection}?watch=1&resourceVersion=1")));
        let target = &format!("{collection}/a");
        let key = "n/a".parse().unwrap();
        let list = |names: &[usize]| json!(names.iter().map(|&at| FINALIZERS[at]).collect::<Vec<_>>());
        let now = |world: &World| {
            let object = world.server.get(&resource, &key)?;
            Some(serde_json::from_str::<Value>(object.json()).unwrap())
        };
        let mut before = now(&world);
        for step in steps {
            let answer = match &step {
                Do::Create(names) => {
                    let body = format!(r#"{{{type_meta}"metadata":{{"name":"a","finalizers":{}}}}}"#, list(names));
                    world.send("POST", collection, &body).status
                }
                Do::SetFinalizers(names) => {
                    world.send("PATCH", target, &format!(r#"{{"metadata":{{"finalizers":{}}}}}"#, list(names))).status
                }
                Do::Label(value) => {
                    world.send("PATCH", target, &format!(r#"{{"metadata":{{"labels":{{"l":"{value}"}}}}}}"#)).status
                }
                Do::Delete(options) => world.send("DELETE", target, options).status,
                Do::Directly => {
                    let found = world.server.delete(&resource, &key).is_some();
                    world.drain();
                    if found { 200 } else { 404 }
                }
            };
            let after = now(&world);
            let finalizers = |object: &Value| -> Vec<String> {
                serde_json::from_value(object["metadata"]["finalizers"].clone()).unwrap_or_default()
            };
            let marked = |object: &Value| object["metadata"]["deletionTimestamp"].is_string();
            match (&before, &after) {
                (None, _) => prop_assert_eq!(answer, if matches!(step, Do::Create(_)) { 201 } else { 404 }),
                (Some(_), _) if matches!(step, Do::Create(_)) => {
                    prop_assert_eq!(answer, 409);
                    prop_assert_eq!(&before, &after);
                }
                (Some(old), Some(new)) => {
                    prop_assert!(!marked(old) || marked(new), "{step:?}: a mark is for good");
                    let grown = finalizers(new).iter().any(|name| !finalizers(old).contains(name));
                    let gives = matches!(step, Do::Delete(_));
                    prop_assert!(!(marked(old) && grown) || gives, "{step:?}: nobody holds what is marked");
                    prop_assert!(!marked(new) || !finalizers(new).is_empty(), "{step:?}: nothing holds {new}");
                    prop_assert_eq!(marked(new), new["metadata"]["deletionGracePeriodSeconds"] == 0);
                    if answer == 422 {
                        prop_assert_eq!(old, new, "what is refused changes nothing");
                    }
                }
                (Some(old), None) => {
                    let lets_go = matches!(&step, Do::SetFinalizers(names) if names.is_empty());
                    let deletes = matches!(step, Do::Delete(_) | Do::Directly);
                    prop_assert!(deletes || lets_go && marked(old), "{step:?}: {old} went");
                    let others = finalizers(old).iter().any(|name| name.contains('/'));
                    prop_assert!(!deletes || !others, "{step:?}: {old} was held");
                }
            }
            before = after;
        }
        // The watch tells the same story: its last word is what is there.
        let frames = world.answer(watch).frames();
        let mut told: Option<Value> = None;
        for frame in &frames {
            let object = &frame["object"];
            match frame["type"].as_str() {
                Some("ADDED") => prop_assert!(told.replace(object.clone()).is_none()),
                Some("MODIFIED") => prop_assert!(told.replace(object.clone()).is_some()),
                Some("DELETED") => {
                    let mut last = told.take().expect("it was there");
                    last["metadata"]["resourceVersion"] = object["metadata"]["resourceVersion"].clone();
                    prop_assert_eq!(&last, object, "the last state is the one before");
                }
                other => prop_assert!(false, "{other:?}"),
            }
        }
        prop_assert_eq!(told, before);
    }
}
