//! What the compiler promises to users: which types may cross threads, and which foreign types an informer can hold.

use informer_core::acknowledged::{Acknowledged, Given};
use informer_core::controller::{
    Controller, Counts, Finished, Keys, Outcome, OwnerOf, OwnerScopeError, ReconcileError, Run,
};
use informer_core::decode::{BadItem, Codec, DecodeJob, Decoded, Indexers, NoGuard};
use informer_core::factory::{Conflict, Fingerprint, Registry, Scope};
use informer_core::fifo::{Delta, DeltaFifo, Deltas, InOrderQueue};
use informer_core::filter::Filter;
use informer_core::informer::{HandlerId, Informer, InformerConfig, Input, Notice, Output, Stats};
use informer_core::listener::{Delivery, Notification, Ring};
use informer_core::lister::{Detached, ListId, Lister, NamespaceLister, Page, PageToken, Selection, TokenError, View};
use informer_core::object::{DecodeError, KeyError, OwnerReference, ParseResourceError};
use informer_core::queue::{Bucket, Limiter, QueueConfig, Ticket, WorkQueue};
use informer_core::reflector::{End, Failure, Phase, ReflectorConfig, Tuning};
use informer_core::rng::Rng;
use informer_core::selector::{FieldSelector, LabelSelector, SelectorError};
use informer_core::shown::Shown;
use informer_core::store::{
    Commit, Committed, IndexBuild, IndexDef, IndexError, PreparedIndex, Receipt, RemovedIndex, Snapshot, Staged, Store,
};
use informer_core::time::{Clock, Deadline, Time};
use informer_core::wire::{Body, FrameDecoder, Head, ListDecoder, RawBatch, Request, Status, WireError};
use informer_core::{DynamicObject, Key, KeyRef, Obj, ObjectMeta, Resource, Uid, Version};
use std::marker::PhantomPinned;

fn crosses_threads<T: Send + Sync + 'static>() {}

fn is_an_error<E: core::error::Error + Send + Sync + 'static>() {}

/// An object that may cross threads is all that is needed.
struct Mine;

#[test]
fn a_handle_moves_though_its_object_must_not() {
    fn moves<T: Unpin>() {}
    moves::<(Obj<PhantomPinned>, Notification<PhantomPinned>)>();
}

#[test]
fn every_public_type_may_cross_threads() {
    crosses_threads::<(
        Key,
        Uid,
        Version,
        KeyRef<'static>,
        Obj<Mine>,
        Resource,
        ObjectMeta,
        OwnerReference,
        DynamicObject,
    )>();
    crosses_threads::<(Informer<Mine>, InformerConfig, Output<Mine>, Notice, Stats, HandlerId)>();
    crosses_threads::<Input<'static, Mine>>();
    crosses_threads::<(ReflectorConfig, Tuning, Phase, Failure, End)>();
    crosses_threads::<(Store<Mine>, Snapshot<Mine>, Staged<Mine>, Commit<Mine>, Committed<Mine>, Receipt<Mine>)>();
    crosses_threads::<(IndexDef<Mine>, IndexBuild<Mine>, PreparedIndex<Mine>, RemovedIndex<Mine>, Indexers<Mine>)>();
    crosses_threads::<(Codec<Mine>, DecodeJob, Decoded<Mine>, BadItem, NoGuard)>();
    crosses_threads::<(Ring<Mine>, Notification<Mine>, Delivery<Mine>)>();
    crosses_threads::<(InOrderQueue<Mine>, DeltaFifo<Mine>, Deltas<Mine>, Delta<Mine>)>();
    crosses_threads::<(Lister<'static, Mine>, NamespaceLister<'static, Mine>)>();
    crosses_threads::<(Selection<'static, 'static, Mine>, Detached<'static, Mine>)>();
    crosses_threads::<(View<Mine>, Page<Mine>, PageToken, ListId)>();
    crosses_threads::<(Registry<Mine>, Scope, Fingerprint)>();
    crosses_threads::<(WorkQueue<Key>, QueueConfig, Ticket, Limiter, Bucket)>();
    crosses_threads::<(Controller, Run, Finished, Counts, Keys, Outcome, OwnerOf, ReconcileError)>();
    crosses_threads::<(Filter<Mine>, Shown<Mine>, Acknowledged<Mine>, Given<Mine>)>();
    crosses_threads::<(LabelSelector, FieldSelector)>();
    crosses_threads::<(Time, Clock, Deadline, Rng)>();
    crosses_threads::<(Body, FrameDecoder, ListDecoder, RawBatch, Request, Head, Status)>();
}

#[test]
fn every_error_is_one() {
    is_an_error::<Failure>();
    is_an_error::<Conflict>();
    is_an_error::<OwnerScopeError>();
    is_an_error::<IndexError>();
    is_an_error::<TokenError>();
    is_an_error::<DecodeError>();
    is_an_error::<KeyError>();
    is_an_error::<ParseResourceError>();
    is_an_error::<SelectorError>();
    is_an_error::<WireError>();
    is_an_error::<Status>();
}

#[cfg(feature = "k8s-openapi")]
mod k8s_openapi_types {
    use super::*;
    use informer_core::Object;
    use informer_core::object::Meta;
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::{Node, Pod};
    use k8s_openapi::api::rbac::v1::ClusterRole;

    /// As a server sends it inside a list: without kind and apiVersion, with fields that no controller reads.
    const POD: &str = r#"{
        "metadata": {
            "name": "web-7c5ddbdf54-x2v9q", "generateName": "web-7c5ddbdf54-", "namespace": "shop",
            "uid": "0b6c1e4d-9a2f-4c53-8f0e-1d2c3b4a5968", "resourceVersion": "184467", "generation": 1,
            "creationTimestamp": "2026-02-03T04:05:06Z",
            "labels": {"app": "web", "pod-template-hash": "7c5ddbdf54"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7c5ddbdf54",
                "uid": "1b6c1e4d-9a2f-4c53-8f0e-1d2c3b4a5968", "controller": true, "blockOwnerDeletion": true}],
            "managedFields": [{"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1",
                "time": "2026-02-03T04:05:06Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:labels": {}}}}]
        },
        "spec": {
            "nodeName": "node-1", "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
            "containers": [{"name": "web", "image": "nginx:1.29", "resources": {"limits": {"cpu": "500m"}},
                "ports": [{"containerPort": 80, "protocol": "TCP"}]}]
        },
        "status": {"phase": "Running", "podIP": "10.0.0.7", "startTime": "2026-02-03T04:05:07Z"}
    }"#;

    #[test]
    fn a_pod_is_decoded_with_its_metadata() {
        let pod = Codec::<Pod>::new(Pod::resource()).build(POD.as_bytes()).unwrap();
        assert_eq!(pod.spec.as_ref().unwrap().node_name.as_deref(), Some("node-1"));
        let meta = Object::metadata(&pod);
        assert_eq!((meta.generation(), Meta::is_terminating(meta)), (Some(1), false));
        assert_eq!((meta.label("app"), meta.label("none"), Meta::labels(meta).count()), (Some("web"), None, 2));
        let owner = Meta::owners(meta).next().unwrap();
        assert_eq!(
            (owner.group(), owner.kind, owner.name, owner.controller),
            ("apps", "ReplicaSet", "web-7c5ddbdf54", true)
        );
    }

    #[test]
    fn resources_and_scopes_are_those_of_the_api() {
        assert_eq!(Pod::resource(), Resource::namespaced("", "v1", "pods", "Pod"));
        assert_eq!(Deployment::resource(), Resource::namespaced("apps", "v1", "deployments", "Deployment"));
        assert_eq!(Node::resource(), Resource::cluster("", "v1", "nodes", "Node"));
        let role = Resource::cluster("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole");
        assert_eq!(ClusterRole::resource(), role);
        assert_eq!(Pod::resource().path(Some("shop")), "/api/v1/namespaces/shop/pods");
        assert_eq!(Node::resource().path(Some("shop")), "/api/v1/nodes");
    }

    #[test]
    fn selectors_and_listers_read_the_labels_of_a_pod() {
        let mut store = Store::new(7);
        store.add_index(IndexDef::namespace()).unwrap();
        store.add_index(IndexDef::new("node", |pod: &Obj<Pod>| pod.spec.as_ref()?.node_name.clone())).unwrap();
        let pod = Codec::<Pod>::new(Pod::resource()).build(POD.as_bytes()).unwrap();
        let key = Key::new("shop", "web-7c5ddbdf54-x2v9q");
        store.upsert(Obj::new(key, Uid::new("u"), Version::new("184467"), pod));
        let lister = Lister::new(&store);
        let count = |selector: &str| lister.namespace("shop").matching(&selector.parse().unwrap()).count();
        assert_eq!((count("app=web"), count("app in (db),pod-template-hash"), count("!app")), (1, 0, 0));
        assert_eq!(lister.by_index("node", "node-1").unwrap().len(), 1);
    }

    #[test]
    fn a_pod_that_does_not_fit_its_type_says_where() {
        let error = Codec::<Pod>::new(Pod::resource()).build(br#"{"spec":{"containers":7}}"#).unwrap_err();
        assert!(error.to_string().contains("line 1 column"), "{error}");
    }
}
