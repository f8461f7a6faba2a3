//! What a [`Tiny`] is here: a ConfigMap that has nothing but metadata.

use informer_peers::cache::Tiny;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use kube::runtime::reflector::ObjectRef;

/// Object `n` at `version`.
pub fn object(n: usize, version: usize) -> ConfigMap {
    let labels = [(Tiny::PART, Tiny::part(n)), (Tiny::BLOCK, Tiny::block(n))];
    let metadata = ObjectMeta {
        name: Some(Tiny::name(n)),
        namespace: Some(Tiny::namespace(n)),
        uid: Some(Tiny::uid(n)),
        resource_version: Some(version.to_string()),
        labels: Some(labels.into_iter().map(|(name, value)| (name.to_string(), value)).collect()),
        ..ObjectMeta::default()
    };
    ConfigMap { metadata, ..ConfigMap::default() }
}

/// Its key.
pub fn key(n: usize) -> ObjectRef<ConfigMap> {
    ObjectRef::new(&Tiny::name(n)).within(&Tiny::namespace(n))
}
