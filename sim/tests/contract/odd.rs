//! Requests that no client in its senses sends: each is answered, nothing that was stored is broken by it, and what is
//! stored can be read by whoever lists it.

use crate::support::*;
use informer_core::object::{ObjectMeta, Resource};
use informer_sim::{Config, HttpRequest, Options};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Values of no type, or of one at its bounds.
fn odd() -> impl Strategy<Value = Value> {
    let long = "é".repeat(200);
    let numbers = [json!(i64::MAX), json!(i64::MIN), json!(u64::MAX), json!(-1), json!(0), json!(7), json!(1e300)];
    let texts = ["", "a", "n", "É", "a-", "\u{0}", "\"", "\\", "a/b", "1", "18446744073709551615", "-9", &long];
    let dates = ["2026-01-01T00:00:00Z", "9999-12-31T23:59:60Z", "2026-01-01T00:00:00.5+23:59", "0000-00-00T00:00:00Z"];
    let others = [json!(null), json!(true), json!([]), json!({}), json!([7]), json!({"a": 7}), json!({"a": "b"})];
    let lists = [json!(["a/b"]), json!(["orphan", "foregroundDeletion"]), json!([null]), json!([{"kind": 7}])];
    let all: Vec<Value> =
        numbers.into_iter().chain(texts.into_iter().chain(dates).map(Value::from)).chain(others).chain(lists).collect();
    select(all)
}

fn members(names: &'static [&'static str]) -> impl Strategy<Value = Value> {
    prop::collection::btree_map(select(names), odd(), 0..3).prop_map(|members| json!(members))
}

const META: &[&str] = &[
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "finalizers",
    "selfLink",
    "labels",
    "annotations",
    "ownerReferences",
    "managedFields",
];

/// An object that is half in order: what is odd in it gets far.
fn object() -> impl Strategy<Value = Value> {
    let metas = prop_oneof![9 => members(META), 1 => odd()];
    let parts = || members(&["nodeName", "terminationGracePeriodSeconds", "phase", "finalizers", "x"]);
    let part = || prop_oneof![3 => parts(), 1 => odd()];
    (metas, part(), part(), select(&["a", "b", ""][..])).prop_map(|(meta, spec, status, name)| {
        let mut object = json!({"metadata": meta, "spec": spec, "status": status});
        if let (Some(meta), false) = (object["metadata"].as_object_mut(), name.is_empty()) {
            meta.insert("name".into(), name.into());
        }
        object
    })
}

fn definition() -> impl Strategy<Value = Value> {
    let version = members(&["name", "served", "storage", "subresources", "selectableFields"]);
    let version = (version, select(&["v1", "v1\"", "v1/x", "", "v2"][..])).prop_map(|(odd, name)| {
        let mut version = json!({"name": name, "served": true, "storage": true});
        if odd["selectableFields"].is_string() {
            version["selectableFields"] = json!([{"jsonPath": odd["selectableFields"]}]);
        }
        version
    });
    let metas = (members(META), select(&["Gadget", "Ga\"dget", "", "\\", "Gadget "][..]));
    let groups = select(&[("gadgets", "example.com"), ("customresourcedefinitions", "apiextensions.k8s.io")][..]);
    (metas, groups, prop::collection::vec(version, 0..3)).prop_map(|((mut meta, kind), (plural, group), versions)| {
        meta["name"] = json!(format!("{plural}.{group}"));
        json!({"metadata": meta, "spec": {"group": group, "scope": "Namespaced", "versions": versions,
            "names": {"plural": plural, "kind": kind}}})
    })
}

fn request() -> impl Strategy<Value = (&'static str, String, String)> {
    let methods = || select(&["POST", "PUT", "PATCH", "DELETE", "GET"][..]);
    let collections = select(
        &[
            CM,
            "/api/v1/namespaces/n/pods",
            "/api/v1/pods",
            "/apis/example.com/v1/namespaces/n/widgets",
            "/apis/example.com/v1/namespaces/n/gadgets",
            "/apis/rbac.authorization.k8s.io/v1/namespaces/a%2Fn/roles",
            CRDS,
        ][..],
    );
    let names = select(
        &["", "", "/a", "/b", "/a/status", "/gadgets.example.com", "/customresourcedefinitions.apiextensions.k8s.io"][..],
    );
    let fields = ["gracePeriodSeconds", "resourceVersion", "limit", "timeoutSeconds", "continue", "fieldSelector"];
    let queries = (select(fields.to_vec()), odd()).prop_map(|(name, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("?{name}={}", value.replace(['"', '\\', ' ', '\0'], "%22"))
    });
    let query = prop_oneof![3 => Just(String::new()), 1 => queries];
    let options = members(&["gracePeriodSeconds", "propagationPolicy", "orphanDependents", "preconditions", "kind"]);
    let body = prop_oneof![
        6 => object().prop_map(|object| object.to_string()),
        3 => definition().prop_map(|object| object.to_string()),
        3 => options.prop_map(|options| options.to_string()),
        1 => odd().prop_map(|value| value.to_string()),
        1 => select(&["", "{", "\u{feff}{}", "{\"metadata\":{\"name\":\"\\ud800\"}}", "{\"a\\\u{e9}"][..]).prop_map(str::to_owned),
    ];
    (methods(), collections, names, query, body)
        .prop_map(|(method, collection, name, query, body)| (method, format!("{collection}{name}{query}"), body))
}

fn roles() -> Resource {
    Resource::namespaced("rbac.authorization.k8s.io", "v1", "roles", "Role")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_asked_is_answered(requests in prop::collection::vec((request(), 0u64..40), 1..24)) {
        let mut world = World::new(Config::default());
        world.server.register(roles(), Options::default());
        for ((method, target, body), after) in requests {
            let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
            let request = HttpRequest::new(method, &target).header("content-type", media).body(&body[..]);
            let call = world.open(request);
            world.pass(secs(after));
            world.pass(secs(4)); // it may wait for a version
            prop_assert!(world.answer(call).ended, "{method} {target} {body}");
            prop_assert_ne!(world.answer(call).status, 0);
        }
        for collection in [CM, "/api/v1/pods", "/apis/example.com/v1/widgets", "/apis/example.com/v1/gadgets", CRDS] {
            let list = world.get(collection);
            if list.status == 200 {
                for item in list.json()["items"].as_array().unwrap() {
                    let meta = serde_json::from_value::<ObjectMeta>(item["metadata"].clone());
                    prop_assert!(meta.is_ok(), "{meta:?} of {item}");
                }
            }
        }
    }
}

fn gadgets(plural: &str, group: &str, kind: &str, version: &str) -> String {
    json!({"metadata": {"name": format!("{plural}.{group}")}, "spec": {"group": group, "scope": "Namespaced",
        "names": {"plural": plural, "kind": kind}, "versions": [{"name": version, "served": true, "storage": true}]}})
    .to_string()
}

#[test]
fn a_definition_may_not_name_what_cannot_stand_in_a_path_or_an_object() {
    let mut world = World::new(Config::default());
    for (definition, field) in [
        (gadgets("gadgets", "example.com", "Ga\"dget", "v1"), "spec.names.kind"),
        (gadgets("gadgets", "example.com", "\\", "v1"), "spec.names.kind"),
        (gadgets("gadgets", "example.com", "Gadget", "v1\""), "spec.versions[0].name"),
        (gadgets("gadgets", "example.com", "Gadget", "v1/x"), "spec.versions[0].name"),
        (gadgets("gadgets", "example.com", "Gadget", ""), "spec.versions[0].name"),
        (gadgets("gad.gets", "example.com", "Gadget", "v1"), "spec.names.plural"),
        (gadgets("gadgets", "apps", "Gadget", "v1"), "spec.group"),
    ] {
        let refused = world.send("POST", CRDS, &definition);
        assert_eq!(refused.status, 422, "{definition}");
        assert!(refused.refusal().contains(&format!("{field}: Invalid value")), "{}", refused.refusal());
    }
    assert_eq!(world.send("POST", CRDS, &gadgets("gadgets", "example.com", "Gadget", "v1")).status, 201);
    let patch = |spec: Value| json!({"spec": spec}).to_string();
    let target = format!("{CRDS}/gadgets.example.com");
    for spec in [json!({"group": 7}), json!({"names": {"plural": "others"}}), json!({"versions": []})] {
        let refused = world.send("PATCH", &target, &patch(spec));
        assert!(matches!(refused.status, 400 | 422), "{}", refused.text());
    }
    // Another version is none that is served here, and what is served goes with the definition all the same.
    let v2 = json!({"versions": [{"name": "v2", "served": true, "storage": true}]});
    assert_eq!(world.send("PATCH", &target, &patch(v2)).status, 200);
    world.send("DELETE", &target, "");
    assert_eq!(world.get("/apis/example.com/v1/gadgets").status, 404);
}

#[test]
fn a_definition_of_what_was_served_without_it_takes_nothing_away() {
    let mut world = World::new(Config::default());
    world.server.register(roles(), Options::default());
    let role = r#"{"metadata":{"name":"a","namespace":"n"}}"#;
    world.server.put(&roles(), role).unwrap();
    for (plural, group) in
        [("roles", "rbac.authorization.k8s.io"), ("customresourcedefinitions", "apiextensions.k8s.io")]
    {
        assert_eq!(world.send("POST", CRDS, &gadgets(plural, group, "Thing", "v1")).status, 201);
        assert_eq!(world.send("DELETE", &format!("{CRDS}/{plural}.{group}"), "").status, 200);
        assert_eq!(world.get(&format!("{CRDS}/{plural}.{group}")).status, 404);
    }
    assert_eq!(world.server.count(&roles()), 1);
    assert_eq!(world.send("POST", CRDS, &gadgets("gadgets", "example.com", "Gadget", "v1")).status, 201);
}

#[test]
fn metadata_of_the_wrong_type_is_refused_by_its_name() {
    let mut world = World::new(Config::default());
    for (name, value) in [
        ("name", "7"),
        ("generateName", "[]"),
        ("namespace", "{}"),
        ("uid", "7"),
        ("resourceVersion", "7"),
        ("generation", r#""x""#),
        ("generation", "9223372036854775808"),
        ("creationTimestamp", "7"),
        ("deletionTimestamp", "{}"),
        ("deletionGracePeriodSeconds", "1.5"),
        ("finalizers", "7"),
        ("finalizers", "[null]"),
        ("labels", "[]"),
        ("annotations", r#"{"a":{}}"#),
        ("ownerReferences", "7"),
        ("ownerReferences", r#"[{"uid":7}]"#),
        ("ownerReferences", r#"[{"blockOwnerDeletion":"yes"}]"#),
        ("managedFields", "[7]"),
    ] {
        let refused = world.send("POST", CM, &format!(r#"{{"metadata":{{"name":"a","{name}":{value}}}}}"#));
        let text = refused.refusal();
        let begins =
            format!("400 BadRequest ConfigMap in version \"v1\" cannot be handled as a ConfigMap: metadata.{name}: ");
        assert!(text.starts_with(&begins), "{text}");
    }
    assert_eq!(world.server.count(&configmaps()), 0);
    let refused = world.send("POST", CM, r#"{"kind":7,"metadata":{"name":"a"}}"#);
    assert!(
        refused.refusal().contains("cannot be handled as a ConfigMap: kind: invalid type"),
        "{}",
        refused.refusal()
    );
}

/// It was meant for one state, and must not count as meant for any.
#[test]
fn a_write_whose_version_is_a_number_is_no_write_of_every_version() {
    let mut world = World::with_five();
    for body in
        [r#"{"metadata":{"name":"a","resourceVersion":2},"data":{"x":"y"}}"#, r#"{"metadata":{"uid":7,"name":"a"}}"#]
    {
        assert_eq!(world.send("PUT", &format!("{CM}/a"), body).status, 400, "{body}");
    }
    let patch = r#"{"metadata":{"resourceVersion":2},"data":{"x":"y"}}"#;
    assert_eq!(world.send("PATCH", &format!("{CM}/a"), patch).status, 400);
    assert_eq!(world.server.version(), 6);
}

#[test]
fn a_namespace_is_a_label_of_a_dns_name() {
    let mut world = World::new(Config::default());
    for namespace in ["a%2Fb", "A", "a.b", "%C3%89", "a%00"] {
        let target = format!("/api/v1/namespaces/{namespace}/configmaps");
        let refused = world.send("POST", &target, r#"{"metadata":{"name":"x"}}"#);
        assert!(refused.refusal().contains("metadata.namespace: Invalid value: "), "{}", refused.refusal());
    }
    let put = world.server.put(&configmaps(), r#"{"metadata":{"name":"x","namespace":"a/b"}}"#);
    assert_eq!(put.unwrap_err().code(), 422);
}

#[test]
fn a_generation_ends_at_the_largest_number() {
    let mut world = World::new(Config::default());
    let last = r#"{"metadata":{"name":"a","namespace":"n","generation":9223372036854775807,"finalizers":["a/b"]},"spec":{"x":1}}"#;
    for (resource, collection) in [(configmaps(), CM), (pods(), "/api/v1/namespaces/n/pods")] {
        world.server.put(&resource, last).unwrap();
        assert_eq!(world.send("PATCH", &format!("{collection}/a"), r#"{"spec":{"x":2}}"#).status, 200);
        let marked = world.send("DELETE", &format!("{collection}/a"), "").json();
        assert_eq!(marked["metadata"]["generation"], i64::MAX);
    }
}

#[test]
fn grace_periods_of_any_size_are_taken() {
    let mut world = World::new(Config::default());
    for (number, seconds) in [i64::MAX, i64::MIN, -1, 0].into_iter().enumerate() {
        let pod = format!(
            r#"{{"metadata":{{"name":"p{number}"}},"spec":{{"nodeName":"a","terminationGracePeriodSeconds":{seconds}}}}}"#
        );
        let target = format!("/api/v1/namespaces/n/pods/p{number}");
        assert_eq!(world.send("POST", "/api/v1/namespaces/n/pods", &pod).status, 201);
        for again in
            ["", r#"{"gracePeriodSeconds":9223372036854775806}"#, r#"{"gracePeriodSeconds":-9223372036854775808}"#]
        {
            let answer = world.send("DELETE", &target, again);
            assert!(matches!(answer.status, 200 | 404), "{}", answer.text());
            world.pass(secs(5));
        }
        world.send("DELETE", &target, r#"{"gracePeriodSeconds":0}"#);
        assert_eq!(world.get(&target).status, 404, "{seconds}");
    }
}
