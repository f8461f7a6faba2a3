//! Reads and writes of single objects.

use crate::support::*;
use informer_tokio::{
    Api, DeleteOptions, DynamicObject, Error, Key, Obj, Object, Preconditions, PropagationPolicy, Resource, Uid,
};
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test]
async fn an_object_is_made_read_changed_and_deleted() {
    let served = serve();
    let client = client(&served);
    let key = Key::new("web", "a");
    let made = client.create("web", &ConfigMap::new("a", "1")).await.unwrap();
    assert_eq!(made.text(), "1");
    assert!(client.create("web", &ConfigMap::new("a", "1")).await.unwrap_err().is_conflict());
    let mut read = client.get::<ConfigMap>(&key).await.unwrap();
    read.data.insert("v".into(), "2".into());
    assert_eq!(client.update(&key, &read).await.unwrap().text(), "2");
    let stale = client.update(&key, &read).await.unwrap_err();
    assert!(stale.is_conflict(), "{stale}");
    let patched = client.merge_patch::<ConfigMap>(&key, &json!({"data": {"v": "3"}})).await.unwrap();
    assert_eq!(patched.text(), "3");
    let other = Preconditions { uid: Some("of another".into()), ..Preconditions::default() };
    assert!(client.delete::<ConfigMap>(&key, &other).await.unwrap_err().is_conflict());
    let this = Preconditions { uid: Some(patched.metadata.uid.clone()), ..Preconditions::default() };
    let gone = client.delete::<ConfigMap>(&key, &this).await.unwrap();
    assert!(gone.is_gone() && gone.object().is_none(), "a ConfigMap's deletion is answered with a Status");
    assert_eq!(gone.uid(), Some(&Uid::new(&patched.metadata.uid)));
    assert!(client.get::<ConfigMap>(&key).await.unwrap_err().is_not_found());
    assert!(client.delete::<ConfigMap>(&key, DeleteOptions::default()).await.unwrap_err().is_not_found());
}

/// A finalizer must not let go because of it: the objects that it stands for may well be there.
#[tokio::test]
async fn a_resource_that_is_not_installed_is_no_object_that_is_gone() {
    let served = serve();
    let client = client(&served);
    for (group, version, path) in [
        ("nope.io", "v1", "DELETE /apis/nope.io/v1/namespaces/web/things/a"),
        ("apps", "v1", "DELETE /apis/apps/v1/namespaces/web/things/a"),
        ("", "v1", "DELETE /api/v1/namespaces/web/things/a"),
    ] {
        let api = client.api_of::<DynamicObject>(Resource::namespaced(group, version, "things", "Thing"));
        let key = Key::new("web", "a");
        let error = api.delete(&key, DeleteOptions::default()).await.unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with(&format!("{path}: the API server refused: 404 NotFound: ")), "{text}");
        assert!(text.contains("; check that the resource is installed") && text.contains("(here: things)"), "{text}");
        assert!(!error.is_not_found() && !error.is_conflict(), "{text}");
        assert!(!api.get(&key).await.unwrap_err().is_not_found());
    }
}

/// An object as the cache would have it, made for a deletion.
async fn made(api: &Api<DynamicObject>, name: &str, object: Value) -> Obj<DynamicObject> {
    let mut object = object;
    object["metadata"]["name"] = name.into();
    Obj::of(api.create("web", &object).await.unwrap()).expect("it has a name")
}

#[tokio::test]
async fn a_deletion_says_what_becomes_of_the_objects_that_it_owns_and_what_it_waits_for() {
    use PropagationPolicy::{Background, Foreground, Orphan};
    let served = serve();
    let jobs = client(&served).api_of::<DynamicObject>(Resource::namespaced("batch", "v1", "jobs", "Job"));
    for (name, options, waits_for) in [
        ("by-itself", DeleteOptions::default(), Some("orphan")),
        ("later", Background.into(), None),
        ("first", Foreground.into(), Some("foregroundDeletion")),
        ("stay", Orphan.into(), Some("orphan")),
    ] {
        let seen = made(&jobs, name, json!({"spec": {"template": {}}})).await;
        let other = options.clone().with_uid("another");
        assert!(jobs.delete(&seen.key().to_key(), other).await.unwrap_err().is_conflict());
        let as_seen = options.with_uid(seen.uid()).with_resource_version(seen.version());
        let deletion = jobs.delete(&seen.key().to_key(), &as_seen).await.unwrap();
        assert_eq!(deletion.finalizers().first().map(String::as_str), waits_for, "{name}: {deletion:?}");
        assert_eq!((deletion.is_gone(), deletion.grace_period()), (waits_for.is_none(), None), "{name}");
        let there = jobs.get(&seen.key().to_key()).await;
        assert_eq!(there.is_err_and(|error| error.is_not_found()), deletion.is_gone(), "{name}");
    }
    // The way out for one that holds its Pods already.
    let after_all = jobs.delete(&Key::new("web", "by-itself"), Background).await.unwrap();
    assert!(after_all.is_gone(), "{after_all:?}");
}

#[tokio::test]
async fn a_pod_gets_the_time_to_stop_that_the_deletion_says() {
    let served = serve();
    let pods = client(&served).api_of::<DynamicObject>(Resource::namespaced("", "v1", "pods", "Pod"));
    let seconds = |seconds| DeleteOptions::default().with_grace_period(Duration::from_secs(seconds));
    let pod = json!({"spec": {"nodeName": "n", "containers": []}});
    let key = made(&pods, "p", pod).await.key().to_key();
    let half = pods.delete(&key, DeleteOptions::default().with_grace_period(Duration::from_millis(500))).await;
    let half = half.unwrap_err().to_string();
    assert!(half.contains("nothing was sent, as a grace period is in whole seconds, here 500ms"), "{half}");
    for (options, granted) in [
        (DeleteOptions::default(), Some(30)),
        (seconds(60), Some(30)), // never more than before
        (seconds(5), Some(5)),
        (seconds(0), None),
    ] {
        let deletion = pods.delete(&key, &options).await.unwrap();
        assert_eq!(deletion.grace_period(), granted.map(Duration::from_secs), "{options:?}");
        assert_eq!((deletion.is_gone(), deletion.finalizers().len()), (granted.is_none(), 0), "{options:?}");
    }
    assert!(pods.get(&key).await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn a_status_is_written_apart_from_its_object() {
    let served = serve();
    let client = client(&served);
    let key = Key::new("web", "w");
    let new: Widget = serde_json::from_value(json!({"metadata": {"name": "w"}})).unwrap();
    let mut widget = client.create("web", &new).await.unwrap();
    widget.status.insert("phase".into(), "Ready".into());
    let updated = client.update_status(&key, &widget).await.unwrap();
    assert_eq!(updated.status["phase"], "Ready");
    let patched = client.merge_patch_status::<Widget>(&key, &json!({"status": {"phase": "Gone"}})).await.unwrap();
    assert_eq!(patched.status["phase"], "Gone");
    assert_eq!(patched.metadata().generation, widget.metadata().generation);
}

#[tokio::test]
async fn an_object_larger_than_any_buffer_goes_there_and_back() {
    let served = serve();
    let client = client(&served);
    let value = "x".repeat(900_000);
    client.create("web", &ConfigMap::new("large", &value)).await.unwrap();
    assert!(client.get::<ConfigMap>(&Key::new("web", "large")).await.unwrap().text() == value);
}

#[test]
fn a_client_outlives_the_runtime_of_its_idle_connections() {
    let served = serve();
    put(&served, "web/a", "1");
    let client = client(&served);
    for _ in 0..2 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let read = runtime.block_on(client.get::<ConfigMap>(&Key::new("web", "a")));
        assert_eq!(read.unwrap().text(), "1");
    }
    // A write cannot be sent twice: it must not meet a connection of a runtime that is gone.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(client.create("web", &ConfigMap::new("b", "1"))).unwrap();
}

#[tokio::test]
async fn a_resource_without_a_type_is_named() {
    let served = serve();
    let spaces = client(&served).api_of::<DynamicObject>(Resource::cluster("", "v1", "namespaces", "Namespace"));
    let made = spaces.create("", &json!({"metadata": {"name": "web"}})).await.unwrap();
    assert_eq!((made.kind(), made.metadata().name.as_str()), ("Namespace", "web"));
}

#[tokio::test]
async fn a_call_without_an_answer_ends_at_its_deadline() {
    let addr = scripted(|_, mut peer| async move { while peer.request().await.is_some() {} }).await;
    let client = client_of(&format!("http://{addr}")).timeout(Duration::from_millis(50));
    let error = client.get::<ConfigMap>(&Key::new("web", "a")).await.unwrap_err();
    assert!(matches!(error, Error::Transport { .. }));
    assert_eq!(error.to_string(), "GET /api/v1/namespaces/web/configmaps/a: no answer within 50ms");
}

#[tokio::test]
async fn a_call_to_nobody_names_the_address() {
    let url = closed_port().await;
    let error = client_of(&url).get::<ConfigMap>(&Key::new("web", "a")).await.unwrap_err().to_string();
    assert!(error.contains(&format!("cannot connect to {}", &url["http://".len()..])), "{error}");
}
