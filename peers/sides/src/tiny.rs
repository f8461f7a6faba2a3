//! [`TinyObject`]: what a [`Tiny`] is here: a custom resource that has nothing but metadata.

use informer_benches::Sample;
use informer_blocking::{Key, Obj, Object, ObjectMeta, Resource, Uid, Version};
use informer_peers::cache::Tiny;
use serde::{Deserialize, Serialize};

/// A custom resource of metadata alone, some 250 bytes of JSON.
#[derive(Debug, Deserialize, Serialize)]
pub struct TinyObject {
    metadata: ObjectMeta,
}

impl Object for TinyObject {
    type Meta = ObjectMeta;

    fn resource() -> Resource {
        Resource::namespaced("example.com", "v1", "tinies", "Tiny")
    }

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl Sample for TinyObject {
    fn sample(n: u64, version: u64) -> Self {
        let at = n as usize;
        let labels = [(Tiny::PART, Tiny::part(at)), (Tiny::BLOCK, Tiny::block(at))];
        TinyObject {
            metadata: ObjectMeta {
                name: Tiny::name(at),
                namespace: Tiny::namespace(at),
                uid: Tiny::uid(at),
                resource_version: version.to_string(),
                labels: labels.into_iter().map(|(name, value)| (name.to_string(), value)).collect(),
                ..ObjectMeta::default()
            },
        }
    }
}

/// The key of object `n`.
pub fn key(n: usize) -> Key {
    Key::new(&Tiny::namespace(n), &Tiny::name(n))
}

/// Object `n` as a store holds it.
pub fn object(n: usize, version: u64) -> Obj<TinyObject> {
    identified(n, version, TinyObject::sample(n as u64, version))
}

/// The same of a value that was made before.
pub fn identified(n: usize, version: u64, value: TinyObject) -> Obj<TinyObject> {
    Obj::new(key(n), Uid::new(&Tiny::uid(n)), Version::new(&version.to_string()), value)
}
