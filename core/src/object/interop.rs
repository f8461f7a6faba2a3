//! The [`Object`] trait for the types of `k8s-openapi` and, with the feature `kube`, of every `kube::Resource`.
//!
//! Without `kube` the blanket impl stands on `k8s-openapi`'s own traits. With it there is exactly one as well, over
//! `kube::Resource`, which those same types have and `kube::CustomResource` types too.

use super::{Identity, Meta, Object, OwnerRef, Resource};
use alloc::string::String;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

#[cfg(not(feature = "kube"))]
mod by_k8s_openapi {
    use super::{Object, ObjectMeta, Resource};
    use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
    use serde::de::DeserializeOwned;

    /// Whether a scope of `k8s-openapi` is a namespace; sub-resources have no informers.
    pub trait Scope {
        /// True if objects of this scope live in namespaces.
        const NAMESPACED: bool;
    }

    impl Scope for NamespaceResourceScope {
        const NAMESPACED: bool = true;
    }

    impl Scope for ClusterResourceScope {
        const NAMESPACED: bool = false;
    }

    impl<T> Object for T
    where
        T: k8s_openapi::Metadata<Ty = ObjectMeta> + k8s_openapi::Resource<Scope: Scope>,
        T: DeserializeOwned + Send + Sync + 'static,
    {
        type Meta = ObjectMeta;

        fn resource() -> Resource {
            let mut resource = Resource::cluster(T::GROUP, T::VERSION, T::URL_PATH_SEGMENT, T::KIND);
            resource.namespaced = T::Scope::NAMESPACED;
            resource
        }

        fn metadata(&self) -> &ObjectMeta {
            k8s_openapi::Metadata::metadata(self)
        }
    }
}

#[cfg(feature = "kube")]
mod by_kube {
    use super::{Object, ObjectMeta, Resource};
    use serde::de::DeserializeOwned;

    /// Whether a scope of `kube` is a namespace.
    pub trait Scope {
        /// True if objects of this scope live in namespaces.
        const NAMESPACED: bool;
    }

    impl Scope for kube_core::NamespaceResourceScope {
        const NAMESPACED: bool = true;
    }

    impl Scope for kube_core::ClusterResourceScope {
        const NAMESPACED: bool = false;
    }

    impl<T> Object for T
    where
        T: kube_core::Resource<DynamicType = (), Scope: Scope>,
        T: DeserializeOwned + Send + Sync + 'static,
    {
        type Meta = ObjectMeta;

        fn resource() -> Resource {
            let namespaced = T::Scope::NAMESPACED;
            Resource::dynamic(&T::group(&()), &T::version(&()), &T::plural(&()), &T::kind(&()), namespaced)
        }

        fn metadata(&self) -> &ObjectMeta {
            self.meta()
        }
    }
}

impl Meta for ObjectMeta {
    fn identity(&self) -> Option<Identity<'_>> {
        let ObjectMeta { namespace, name, uid, resource_version, .. } = self;
        let [namespace, name, uid, resource_version] =
            [namespace, name, uid, resource_version].map(|text| text.as_deref().unwrap_or_default());
        Some(Identity { namespace, name, uid, resource_version })
    }

    fn generation(&self) -> Option<i64> {
        self.generation
    }

    fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.labels.as_ref()?.get(name).map(String::as_str)
    }

    fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.labels.iter().flatten().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(name).map(String::as_str)
    }

    fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.annotations.iter().flatten().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.finalizers.iter().flatten().map(String::as_str)
    }

    fn owners(&self) -> impl Iterator<Item = OwnerRef<'_>> {
        self.owner_references.iter().flatten().map(|owner| OwnerRef {
            api_version: &owner.api_version,
            kind: &owner.kind,
            name: &owner.name,
            uid: &owner.uid,
            controller: owner.controller.unwrap_or(false),
        })
    }
}
