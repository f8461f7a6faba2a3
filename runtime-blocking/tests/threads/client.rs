//! Single objects: read, written, refused.

use crate::support::*;
use informer_blocking::{
    Api, DeleteOptions, DynamicObject, Error, Key, Obj, Preconditions, PropagationPolicy, Resource, Uid,
};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[test]
fn an_object_is_created_changed_and_deleted() {
    let served = serve(server());
    let client = client(&served.url());
    let key = Key::new("ns", "m");
    let made = client.create("ns", &ConfigMap::new("m", "1")).unwrap();
    assert!(!made.metadata.uid.is_empty() && made.metadata.namespace == "ns");
    assert!(client.create("ns", &ConfigMap::new("m", "1")).unwrap_err().is_conflict());

    let mut changed = client.get::<ConfigMap>(&key).unwrap();
    changed.data.insert("v".into(), "2".into());
    let updated = client.update(&key, &changed).unwrap();
    assert_eq!(updated.v(), "2");
    let stale = client.update(&key, &changed).unwrap_err();
    assert!(stale.is_conflict() && stale.to_string().contains("409"), "{stale}");

    let patched = client.merge_patch::<ConfigMap>(&key, &json!({"data": {"v": "3", "w": "4"}})).unwrap();
    assert_eq!((patched.v(), patched.data.len()), ("3", 2));

    let of = |uid: &str| Preconditions { uid: Some(uid.into()), resource_version: None };
    assert!(client.delete::<ConfigMap>(&key, &of("another")).unwrap_err().is_conflict());
    let gone = client.delete::<ConfigMap>(&key, &of(&made.metadata.uid)).unwrap();
    assert!(gone.is_gone() && gone.object().is_none(), "a ConfigMap's deletion is answered with a Status");
    assert_eq!(gone.uid(), Some(&Uid::new(&made.metadata.uid)));
    let gone = client.get::<ConfigMap>(&key).unwrap_err();
    assert!(gone.is_not_found() && gone.to_string().contains("\"m\" not found"), "{gone}");
}

/// A finalizer must not let go because of it: the objects that it stands for may well be there.
#[test]
fn a_resource_that_is_not_installed_is_no_object_that_is_gone() {
    let served = serve(server());
    let client = client(&served.url());
    for (group, version, path) in [
        ("nope.io", "v1", "DELETE /apis/nope.io/v1/namespaces/web/things/a"),
        ("apps", "v1", "DELETE /apis/apps/v1/namespaces/web/things/a"),
        ("", "v1", "DELETE /api/v1/namespaces/web/things/a"),
    ] {
        let api = client.api_of::<DynamicObject>(Resource::namespaced(group, version, "things", "Thing"));
        let key = Key::new("web", "a");
        let error = api.delete(&key, DeleteOptions::default()).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with(&format!("{path}: the API server refused: 404 NotFound: ")), "{text}");
        assert!(text.contains("; check that the resource is installed") && text.contains("(here: things)"), "{text}");
        assert!(!error.is_not_found() && !error.is_conflict(), "{text}");
        assert!(!api.get(&key).unwrap_err().is_not_found());
    }
}

/// An object as the cache would have it, made for a deletion.
fn made(api: &Api<DynamicObject>, name: &str, object: Value) -> Obj<DynamicObject> {
    let mut object = object;
    object["metadata"]["name"] = name.into();
    Obj::of(api.create("web", &object).unwrap()).expect("it has a name")
}

#[test]
fn a_deletion_says_what_becomes_of_the_objects_that_it_owns_and_what_it_waits_for() {
    use PropagationPolicy::{Background, Foreground, Orphan};
    let served = serve(server());
    let jobs = client(&served.url()).api_of::<DynamicObject>(Resource::namespaced("batch", "v1", "jobs", "Job"));
    for (name, options, waits_for) in [
        ("by-itself", DeleteOptions::default(), Some("orphan")),
        ("later", Background.into(), None),
        ("first", Foreground.into(), Some("foregroundDeletion")),
        ("stay", Orphan.into(), Some("orphan")),
    ] {
        let seen = made(&jobs, name, json!({"spec": {"template": {}}}));
        let other = options.clone().with_uid("another");
        assert!(jobs.delete(&seen.key().to_key(), other).unwrap_err().is_conflict());
        let as_seen = options.with_uid(seen.uid()).with_resource_version(seen.version());
        let deletion = jobs.delete(&seen.key().to_key(), &as_seen).unwrap();
        assert_eq!(deletion.finalizers().first().map(String::as_str), waits_for, "{name}: {deletion:?}");
        assert_eq!((deletion.is_gone(), deletion.grace_period()), (waits_for.is_none(), None), "{name}");
        let there = jobs.get(&seen.key().to_key());
        assert_eq!(there.is_err_and(|error| error.is_not_found()), deletion.is_gone(), "{name}");
    }
    // The way out for one that holds its Pods already.
    let after_all = jobs.delete(&Key::new("web", "by-itself"), Background).unwrap();
    assert!(after_all.is_gone(), "{after_all:?}");
}

#[test]
fn a_pod_gets_the_time_to_stop_that_the_deletion_says() {
    let served = serve(server());
    let pods = client(&served.url()).api_of::<DynamicObject>(Resource::namespaced("", "v1", "pods", "Pod"));
    let seconds = |seconds| DeleteOptions::default().with_grace_period(Duration::from_secs(seconds));
    let pod = json!({"spec": {"nodeName": "n", "containers": []}});
    let key = made(&pods, "p", pod).key().to_key();
    let half = pods.delete(&key, DeleteOptions::default().with_grace_period(Duration::from_millis(500)));
    let half = half.unwrap_err().to_string();
    assert!(half.contains("nothing was sent, as a grace period is in whole seconds, here 500ms"), "{half}");
    for (options, granted) in [
        (DeleteOptions::default(), Some(30)),
        (seconds(60), Some(30)), // never more than before
        (seconds(5), Some(5)),
        (seconds(0), None),
    ] {
        let deletion = pods.delete(&key, &options).unwrap();
        assert_eq!(deletion.grace_period(), granted.map(Duration::from_secs), "{options:?}");
        assert_eq!((deletion.is_gone(), deletion.finalizers().len()), (granted.is_none(), 0), "{options:?}");
    }
    assert!(pods.get(&key).unwrap_err().is_not_found());
}

#[test]
fn a_status_is_written_apart_from_the_rest() {
    let served = serve(server());
    let client = client(&served.url());
    let key = Key::new("ns", "w");
    let mut widget = client.api::<Widget>().create("ns", &json!({"metadata": {"name": "w"}})).unwrap();
    widget.status = json!({"ready": 1});
    let updated = client.update_status(&key, &widget).unwrap();
    assert_eq!(updated.status, json!({"ready": 1}));
    let patched = client.merge_patch_status::<Widget>(&key, &json!({"status": {"more": 2}})).unwrap();
    assert_eq!(patched.status, json!({"ready": 1, "more": 2}));
    let dynamic = client.api_of::<informer_blocking::DynamicObject>(<Widget as informer_blocking::Object>::resource());
    assert!(dynamic.get(&key).unwrap().json().contains("\"more\":2"));
}

fn missing(name: &str) -> Reply {
    let details = json!({"name": name, "kind": "configmaps"});
    Reply::Answer(404, json!({"kind": "Status", "reason": "NotFound", "details": details, "code": 404}).to_string())
}

#[test]
fn calls_share_a_connection() {
    let script = Script::start(|_| missing("m"));
    let client = client(&script.url());
    for _ in 0..5 {
        assert!(client.get::<ConfigMap>(&Key::new("ns", "m")).unwrap_err().is_not_found());
    }
    assert_eq!((script.connections(), script.requests().len()), (1, 5));
}

#[test]
fn a_read_is_sent_again_when_an_idle_connection_dies_and_a_write_is_not() {
    // Every second request on a connection finds it closed, without the server having said so before.
    let requests = AtomicUsize::new(0);
    let script = Script::start(move |_| match requests.fetch_add(1, Ordering::SeqCst) {
        0 | 2 | 3 => missing("m"),
        _ => Reply::Close,
    });
    let client = client(&script.url());
    let key = Key::new("ns", "m");
    assert!(client.get::<ConfigMap>(&key).unwrap_err().is_not_found());
    assert!(client.get::<ConfigMap>(&key).unwrap_err().is_not_found()); // closed, and sent again
    assert!(client.get::<ConfigMap>(&key).unwrap_err().is_not_found());
    let lost = client.create("ns", &ConfigMap::new("m", "1")).unwrap_err();
    assert!(matches!(&lost, Error::Transport { .. }), "{lost}");
    assert!(lost.to_string().starts_with("POST /api/v1/namespaces/ns/configmaps: "), "{lost}");
    assert_eq!((script.requests().len(), script.connections()), (5, 2));
}

#[test]
fn a_call_ends_at_its_timeout() {
    let script = Script::start(|_| Reply::Silence);
    let client = client(&script.url()).timeout(Duration::from_millis(200));
    let began = Instant::now();
    let error = client.get::<ConfigMap>(&Key::new("ns", "m")).unwrap_err();
    assert!(error.to_string().contains("the time for it ran out"), "{error}");
    assert!(began.elapsed() < PATIENCE);
}

#[test]
fn a_name_never_means_another_object_or_a_whole_collection() {
    let script = Script::start(|_| missing("a\r\nx: y?#"));
    let client = client(&script.url());
    for name in ["", "..", "a/b"] {
        let key = Key::new("ns", name);
        let errors = [
            client.get::<ConfigMap>(&key).unwrap_err(),
            client.delete::<ConfigMap>(&key, DeleteOptions::default()).unwrap_err(),
        ];
        for error in errors {
            assert!(error.to_string().contains("nothing was sent"), "{error}");
        }
    }
    assert!(script.requests().is_empty());
    assert!(client.get::<ConfigMap>(&Key::new("ns", "a\r\nx: y?#")).unwrap_err().is_not_found());
    let head = script.requests().remove(0);
    assert!(head.starts_with("GET /api/v1/namespaces/ns/configmaps/a%0D%0Ax:%20y%3F%23 HTTP/1.1\r\n"), "{head}");
}

#[test]
fn answers_in_every_framing_are_read() {
    let body = r#"{"metadata":{"name":"m"},"data":{"v":"1"}}"#;
    let framings = [
        format!("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()),
        format!("HTTP/1.0 200 OK\r\n\r\n{body}"),
        format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\n{}\r\n{:X}\r\n{}\r\n0\r\n\r\n",
            &body[..5],
            body.len() - 5,
            &body[5..]
        ),
    ];
    let requests = AtomicUsize::new(0);
    let count = framings.len();
    let script = Script::start(move |_| Reply::Raw(framings[requests.fetch_add(1, Ordering::SeqCst)].clone()));
    let client = client(&script.url());
    for _ in 0..count {
        assert_eq!(client.get::<ConfigMap>(&Key::new("ns", "m")).unwrap().v(), "1");
    }
}
