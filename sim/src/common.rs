//! The built-in resources that controllers use most.

use crate::config::Options;
use informer_core::object::Resource;

/// Resources with the options under which the real server serves them.
pub(crate) fn resources() -> impl Iterator<Item = (Resource, Options)> {
    let plain = Options::default();
    let status = Options { custom: false, status_subresource: true };
    [
        (Resource::cluster("", "v1", "namespaces", "Namespace"), status),
        (Resource::cluster("", "v1", "nodes", "Node"), status),
        (Resource::cluster("", "v1", "persistentvolumes", "PersistentVolume"), status),
        (Resource::namespaced("", "v1", "pods", "Pod"), status),
        (Resource::namespaced("", "v1", "configmaps", "ConfigMap"), plain),
        (Resource::namespaced("", "v1", "secrets", "Secret"), plain),
        (Resource::namespaced("", "v1", "services", "Service"), status),
        (Resource::namespaced("", "v1", "endpoints", "Endpoints"), plain),
        (Resource::namespaced("", "v1", "events", "Event"), plain),
        (Resource::namespaced("", "v1", "serviceaccounts", "ServiceAccount"), plain),
        (Resource::namespaced("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"), status),
        (Resource::namespaced("", "v1", "replicationcontrollers", "ReplicationController"), status),
        (Resource::namespaced("apps", "v1", "deployments", "Deployment"), status),
        (Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet"), status),
        (Resource::namespaced("apps", "v1", "statefulsets", "StatefulSet"), status),
        (Resource::namespaced("apps", "v1", "daemonsets", "DaemonSet"), status),
        (Resource::namespaced("batch", "v1", "jobs", "Job"), status),
        (Resource::namespaced("batch", "v1", "cronjobs", "CronJob"), status),
        (Resource::namespaced("coordination.k8s.io", "v1", "leases", "Lease"), plain),
        (Resource::namespaced("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"), plain),
        (Resource::namespaced("networking.k8s.io", "v1", "ingresses", "Ingress"), status),
    ]
    .into_iter()
}
