//! Many kinds at once, as a controller of a platform has them.

use crate::harness::{PATIENCE, cluster, eventually};
use crate::http::Endpoint;
use crate::watcher::list;
use informer_core::{DynamicObject, Resource};
use informer_runtime::informer::{InformerHandle, InformerSpec};

/// Kinds that every cluster serves.
const KINDS: [Resource; 32] = [
    Resource::namespaced("", "v1", "configmaps", "ConfigMap"),
    Resource::namespaced("", "v1", "endpoints", "Endpoints"),
    Resource::namespaced("", "v1", "limitranges", "LimitRange"),
    Resource::cluster("", "v1", "namespaces", "Namespace"),
    Resource::cluster("", "v1", "nodes", "Node"),
    Resource::namespaced("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
    Resource::cluster("", "v1", "persistentvolumes", "PersistentVolume"),
    Resource::namespaced("", "v1", "pods", "Pod"),
    Resource::namespaced("", "v1", "podtemplates", "PodTemplate"),
    Resource::namespaced("", "v1", "replicationcontrollers", "ReplicationController"),
    Resource::namespaced("", "v1", "resourcequotas", "ResourceQuota"),
    Resource::namespaced("", "v1", "secrets", "Secret"),
    Resource::namespaced("", "v1", "serviceaccounts", "ServiceAccount"),
    Resource::namespaced("", "v1", "services", "Service"),
    Resource::namespaced("apps", "v1", "controllerrevisions", "ControllerRevision"),
    Resource::namespaced("apps", "v1", "daemonsets", "DaemonSet"),
    Resource::namespaced("apps", "v1", "deployments", "Deployment"),
    Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet"),
    Resource::namespaced("apps", "v1", "statefulsets", "StatefulSet"),
    Resource::namespaced("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
    Resource::namespaced("batch", "v1", "cronjobs", "CronJob"),
    Resource::namespaced("batch", "v1", "jobs", "Job"),
    Resource::namespaced("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"),
    Resource::cluster("networking.k8s.io", "v1", "ingressclasses", "IngressClass"),
    Resource::namespaced("networking.k8s.io", "v1", "ingresses", "Ingress"),
    Resource::namespaced("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
    Resource::namespaced("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
    Resource::cluster("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding"),
    Resource::cluster("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole"),
    Resource::namespaced("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding"),
    Resource::namespaced("rbac.authorization.k8s.io", "v1", "roles", "Role"),
    Resource::cluster("storage.k8s.io", "v1", "storageclasses", "StorageClass"),
];

/// Threads and sockets of this process, where the system can say.
fn held() -> Option<(usize, usize)> {
    let threads = std::fs::read_dir("/proc/self/task").ok()?.count();
    let files = std::fs::read_dir("/proc/self/fd").ok()?.flatten();
    let is_socket = |file: &std::fs::DirEntry| {
        std::fs::read_link(file.path()).is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
    };
    Some((threads, files.filter(is_socket).count()))
}

/// Waits until threads and sockets are as few as before.
fn are_gone(before: Option<(usize, usize)>) {
    eventually("threads and sockets are gone", || match (before, held()) {
        (Some((threads, sockets)), Some(now)) if now.0 > threads || now.1 > sockets => {
            Err(format!("{before:?}, {now:?}"))
        }
        _ => Ok(()),
    });
}

fn agree(server: &Endpoint, informers: &[InformerHandle<DynamicObject>]) {
    let mut objects = 0;
    for informer in informers {
        eventually(&format!("{informer:?} agrees with the server"), || {
            let identity = |object: &informer_core::Obj<DynamicObject>| {
                (object.key().to_string(), (object.uid().to_string(), object.version().to_string()))
            };
            let cached = informer.lister().list().iter().map(identity).collect();
            let on_server = list(server, informer.resource(), None);
            objects += on_server.len();
            if on_server == cached { Ok(()) } else { Err(format!("{on_server:#?} but {cached:#?}")) }
        });
    }
    println!("{} kinds with {objects} objects, {:?} threads and sockets", informers.len(), held());
}

#[test]
fn thirty_kinds_sync_at_once_on_tokio_and_leave_nothing_behind() {
    let Some(cluster) = cluster() else { return };
    let before = held();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let client = informer_tokio::Client::connect(cluster.config("admin")).unwrap();
        let factory = informer_tokio::Factory::new(client);
        let spec = |resource: Resource| InformerSpec::<DynamicObject>::of(resource);
        let informers: Vec<_> = KINDS.map(|kind| factory.try_informer(spec(kind)).unwrap()).into();
        factory.start();
        factory.synced(PATIENCE).await.unwrap();
        let handles: Vec<_> = informers.iter().map(|informer| InformerHandle::clone(informer)).collect();
        agree(&cluster.admin(), &handles);
        factory.stop(PATIENCE).await.unwrap();
    });
    drop(runtime);
    are_gone(before);
}

#[test]
fn thirty_kinds_sync_at_once_on_threads_and_leave_nothing_behind() {
    let Some(cluster) = cluster() else { return };
    let before = held();
    let client = informer_blocking::Client::connect(cluster.config("admin")).unwrap();
    let factory = informer_blocking::Factory::new(client);
    let spec = |resource: Resource| InformerSpec::<DynamicObject>::of(resource);
    let informers: Vec<_> = KINDS.map(|kind| factory.try_informer(spec(kind)).unwrap()).into();
    factory.start();
    factory.synced(PATIENCE).unwrap();
    let handles: Vec<_> = informers.iter().map(|informer| InformerHandle::clone(informer)).collect();
    agree(&cluster.admin(), &handles);
    factory.stop(PATIENCE).unwrap();
    drop((handles, informers, factory));
    are_gone(before);
}
