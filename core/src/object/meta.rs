//! Metadata as selectors, predicates and mappers read it: the [`Meta`] trait, and [`ObjectMeta`] for types of one's
//! own.

use super::resource::Resource;
use super::string_map::StringMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Read access to an object's `metadata`, whatever struct holds it.
pub trait Meta {
    /// The generation, which the server raises when the spec changes; `None` where it does not count.
    fn generation(&self) -> Option<i64>;
    /// True once a deletion was asked for and finalizers hold it back.
    fn is_terminating(&self) -> bool;
    /// The value of one label.
    fn label(&self, name: &str) -> Option<&str>;
    /// All labels, in the order of their names.
    fn labels(&self) -> impl Iterator<Item = (&str, &str)>;
    /// The value of one annotation.
    fn annotation(&self, name: &str) -> Option<&str>;
    /// All annotations, in the order of their names.
    fn annotations(&self) -> impl Iterator<Item = (&str, &str)>;
    /// The finalizers, in the object's order.
    fn finalizers(&self) -> impl Iterator<Item = &str>;
    /// The owners, in the object's order.
    fn owners(&self) -> impl Iterator<Item = OwnerRef<'_>>;
    /// Who the object is, at which version; `None`, the default, for a type that does not keep that. An informer knows it
    /// from the raw metadata and does not ask; an object that came otherwise, as the answer to a write, is asked.
    fn identity(&self) -> Option<Identity<'_>> {
        None
    }
}

/// Who an object is, at which version, borrowed. What it does not have is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Identity<'a> {
    /// Namespace; empty for a cluster-scoped object.
    pub namespace: &'a str,
    /// Name within the namespace.
    pub name: &'a str,
    /// The incarnation.
    pub uid: &'a str,
    /// The `resourceVersion`.
    pub resource_version: &'a str,
}

/// One owner of an object, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerRef<'a> {
    /// `group/version` of the owner.
    pub api_version: &'a str,
    /// Kind of the owner.
    pub kind: &'a str,
    /// Name of the owner; it lives in the namespace of its dependent, or in none.
    pub name: &'a str,
    /// The incarnation that owns.
    pub uid: &'a str,
    /// True for the one owner that manages this object.
    pub controller: bool,
}

impl OwnerRef<'_> {
    /// The owner's group, without the version.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

/// The metadata of a custom resource: the fields that controllers use, the others are passed over.
///
/// ```
/// use informer_core::object::{ObjectMeta, StringMap};
///
/// let labels = StringMap::from([("app", "shop")]);
/// let mut meta = ObjectMeta { name: "a".into(), labels, ..ObjectMeta::default() };
/// meta.labels.insert("app", "blog"); // whatever it was before
/// meta.annotations.insert("example.com/owner", "web");
/// assert_eq!((&meta.labels["app"], meta.annotations.get("example.com/owner")), ("blog", Some("web")));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMeta {
    /// Name within the namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Namespace; empty for a cluster-scoped object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Identity of this incarnation.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Version of this state, opaque.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Raised by the server when the spec changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// When it was made, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<String>,
    /// When its deletion was asked for, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<String>,
    /// Labels; [`StringMap::insert`] changes one.
    #[serde(skip_serializing_if = "StringMap::is_empty", deserialize_with = "null_is_default")]
    pub labels: StringMap,
    /// Annotations; [`StringMap::insert`] changes one.
    #[serde(skip_serializing_if = "StringMap::is_empty", deserialize_with = "null_is_default")]
    pub annotations: StringMap,
    /// Finalizers.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub finalizers: Vec<String>,
    /// Owners.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub owner_references: Vec<OwnerReference>,
}

/// Go servers write an empty map or slice as `null` now and then.
fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// One owner of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// `group/version` of the owner.
    pub api_version: String,
    /// Kind of the owner.
    pub kind: String,
    /// Name of the owner.
    pub name: String,
    /// The incarnation that owns.
    pub uid: String,
    /// True for the one owner that manages this object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// True if the owner must wait for this object when it is deleted in the foreground.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

impl OwnerReference {
    /// That `owner`, an object of `resource`, manages the object which gets this; client-go's `NewControllerRef`. An object
    /// has one such owner at most. It goes when its owner goes, and a deletion of the owner in the foreground waits for it:
    /// some clusters want the verb `update` on the owner's `finalizers` for that.
    ///
    /// The owner must be one that the server has answered with. Without a name or uid the server takes no object that has
    /// this; and an owner in another namespace counts as one that is gone, so what it owns is deleted.
    ///
    /// ```
    /// use informer_core::object::{ObjectMeta, OwnerReference, Resource};
    ///
    /// let widgets = Resource::namespaced("example.com", "v1", "widgets", "Widget");
    /// let owner = ObjectMeta { name: "a".into(), namespace: "web".into(), uid: "u-1".into(), ..ObjectMeta::default() };
    /// let pod = ObjectMeta {
    ///     name: "a-0".into(),
    ///     namespace: owner.namespace.clone(),
    ///     owner_references: vec![OwnerReference::controller(&widgets, &owner)],
    ///     ..ObjectMeta::default()
    /// };
    /// assert_eq!(
    ///     serde_json::to_value(&pod.owner_references[0]).unwrap(),
    ///     serde_json::json!({
    ///         "apiVersion": "example.com/v1", "kind": "Widget", "name": "a", "uid": "u-1",
    ///         "controller": true, "blockOwnerDeletion": true
    ///     })
    /// );
    /// ```
    pub fn controller(resource: &Resource, owner: &ObjectMeta) -> Self {
        OwnerReference {
            api_version: resource.api_version(),
            kind: resource.kind.to_string(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }
}

impl Meta for ObjectMeta {
    fn identity(&self) -> Option<Identity<'_>> {
        let ObjectMeta { namespace, name, uid, resource_version, .. } = self;
        Some(Identity { namespace, name, uid, resource_version })
    }

    fn generation(&self) -> Option<i64> {
        self.generation
    }

    fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name)
    }

    fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.labels.iter()
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.get(name)
    }

    fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.annotations.iter()
    }

    fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.finalizers.iter().map(String::as_str)
    }

    fn owners(&self) -> impl Iterator<Item = OwnerRef<'_>> {
        self.owner_references.iter().map(|owner| OwnerRef {
            api_version: &owner.api_version,
            kind: &owner.kind,
            name: &owner.name,
            uid: &owner.uid,
            controller: owner.controller.unwrap_or(false),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_maps_and_unknown_fields_pass() {
        let meta: ObjectMeta =
            serde_json::from_str(r#"{"name":"a","labels":null,"finalizers":null,"managedFields":[{}],"generation":4}"#)
                .unwrap();
        assert_eq!((meta.name.as_str(), meta.generation, meta.labels().count()), ("a", Some(4), 0));
        assert_eq!(serde_json::to_string(&meta).unwrap(), r#"{"name":"a","generation":4}"#);
    }

    #[test]
    fn an_owner_has_a_group() {
        let owner = OwnerRef { api_version: "apps/v1", kind: "ReplicaSet", name: "r", uid: "u", controller: true };
        assert_eq!(owner.group(), "apps");
        assert_eq!(OwnerRef { api_version: "v1", ..owner }.group(), "");
    }
}
