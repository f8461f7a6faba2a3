//! Reads and writes of single objects.

use crate::support::*;
use informer_tokio::{DynamicObject, Error, Key, Object, Preconditions, Resource, Uid};
use serde_json::json;
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
    assert!(client.delete::<ConfigMap>(&key, &Preconditions::default()).await.unwrap_err().is_not_found());
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
