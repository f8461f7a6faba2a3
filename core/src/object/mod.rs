//! What the cache holds: [`Obj<T>`], a shared handle to one version of one object, and the [`Object`] trait that
//! a type needs to be held.
//!
//! Identity ([`Key`], [`Uid`]) and [`Version`] come from the raw metadata that the server sent. They stand beside the
//! value and not in it, so no transform can change them, and an object without a typed `metadata` field still has
//! them.
//!
//! A custom resource of one's own:
//!
//! ```
//! use informer_core::object::{Object, ObjectMeta, Resource};
//!
//! #[derive(serde::Deserialize)]
//! struct Widget {
//!     metadata: ObjectMeta,
//!     spec: WidgetSpec,
//! }
//!
//! #[derive(serde::Deserialize)]
//! struct WidgetSpec {
//!     size: u32,
//! }
//!
//! impl Object for Widget {
//!     type Meta = ObjectMeta;
//!     fn resource() -> Resource {
//!         Resource::namespaced("example.com", "v1", "widgets", "Widget")
//!     }
//!     fn metadata(&self) -> &ObjectMeta {
//!         &self.metadata
//!     }
//! }
//!
//! let json = br#"{"metadata": {"name": "a", "namespace": "ns"}, "spec": {"size": 3}}"#;
//! let widget = Widget::decode(json, &Widget::resource()).unwrap();
//! assert_eq!(widget.spec.size, 3);
//! ```

mod answer;
mod dynamic;
mod identity;
#[cfg(feature = "k8s-openapi")]
mod interop;
mod meta;
mod resource;

pub use dynamic::DynamicObject;
pub use identity::{Key, KeyError, Uid, Version};
pub use meta::{Identity, Meta, ObjectMeta, OwnerRef, OwnerReference};
pub use resource::{ParseResourceError, Resource};

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::fmt;
use core::ops::Deref;
use serde::de::DeserializeOwned;

/// A type that an informer can cache.
///
/// With the feature `k8s-openapi` every type of that crate has it; with `kube` every `kube::Resource` too, and with it
/// what `kube::CustomResource` derives. Your own type needs the two functions of the example in the
/// [module](self); [`DynamicObject`] keeps the JSON of any kind.
pub trait Object: DeserializeOwned + Send + Sync + 'static {
    /// The type of the object's `metadata`: [`ObjectMeta`], or `k8s-openapi`'s.
    type Meta: Meta;

    /// True for a type that stands for many resources, so that [`resource`](Object::resource) has no answer and the
    /// resource must be named where the informer is made.
    const DYNAMIC: bool = false;

    /// The resource under which the server serves this type.
    ///
    /// # Panics
    ///
    /// If the type is [dynamic](Object::DYNAMIC).
    fn resource() -> Resource;

    /// The object's metadata, for selectors, predicates and mappers.
    fn metadata(&self) -> &Self::Meta;

    /// Builds the object from the JSON of one list item or watch event.
    ///
    /// # Errors
    ///
    /// If the JSON does not fit the type; the informer then quarantines this one object and goes on.
    fn decode(json: &[u8], resource: &Resource) -> Result<Self, DecodeError> {
        let _ = resource; // only dynamic objects need to be told what they are
        // One look at all of the text is cheaper than one at each string in it.
        match core::str::from_utf8(json) {
            Ok(text) => serde_json::from_str(text),
            Err(_) => serde_json::from_slice(json),
        }
        .map_err(DecodeError::new)
    }

    /// True if `other` is known to have the same content. It is asked of two objects with the same uid and version, and
    /// only after the server was set back to an older state: it may have given that version to another content then
    /// (C25). `false`, the default, says that nobody knows: handlers are told of an update.
    fn is_same(&self, other: &Self) -> bool {
        let _ = other;
        false
    }
}

/// Why one object could not be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError(String);

impl DecodeError {
    /// An error that says `reason`; for `decode` and transforms of your own.
    pub fn new(reason: impl fmt::Display) -> Self {
        DecodeError(reason.to_string())
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for DecodeError {}

/// One version of one object, shared.
///
/// Cloning costs one reference count. The value cannot be changed: everyone who holds the handle sees the same thing
/// (I12: `old` of an update *is* the object that was delivered before).
///
/// ```
/// use informer_core::object::{Key, Obj, Uid, Version};
///
/// let pod = Obj::new(Key::new("web", "a"), Uid::new("u-1"), Version::new("7"), "any value");
/// assert_eq!(pod.key().namespace(), "web");
/// assert_eq!(pod.len(), 9); // derefs to the value
/// assert!(Obj::ptr_eq(&pod, &pod.clone()));
/// ```
pub struct Obj<T: ?Sized>(Arc<Inner<T>>);

struct Inner<T: ?Sized> {
    key: Key,
    uid: Uid,
    version: Version,
    maker: u8,
    value: T,
}

impl<T> Obj<T> {
    /// Joins an identity and a value.
    pub fn new(key: Key, uid: Uid, version: Version, value: T) -> Self {
        Obj::made(0, key, uid, version, value)
    }

    /// See [`maker`](Self::maker).
    pub(crate) fn made(maker: u8, key: Key, uid: Uid, version: Version, value: T) -> Self {
        Obj(Arc::new(Inner { key, uid, version, maker, value }))
    }
}

impl<T: ?Sized> Obj<T> {
    /// Namespace and name.
    pub fn key(&self) -> &Key {
        &self.0.key
    }

    /// The server's identity of this incarnation; a recreated object has another one under the same key.
    pub fn uid(&self) -> &Uid {
        &self.0.uid
    }

    /// The `resourceVersion`, byte for byte.
    pub fn version(&self) -> &Version {
        &self.0.version
    }

    /// The value; the same as dereferencing.
    pub fn value(&self) -> &T {
        &self.0.value
    }

    /// True if both handles share one object.
    pub fn ptr_eq(a: &Self, b: &Self) -> bool {
        Arc::ptr_eq(&a.0, &b.0)
    }

    /// The number of the thread that decoded it, as its driver counts threads; 0 for the driver's own. Memory goes back
    /// where it came from with the least ado when the same thread drops it.
    pub fn maker(this: &Self) -> u8 {
        this.0.maker
    }

    /// True if this is the last handle, so that dropping it drops the object. Another one can come only out of this one.
    pub fn is_last(this: &Self) -> bool {
        Arc::strong_count(&this.0) == 1
    }
}

impl<T: ?Sized> Clone for Obj<T> {
    fn clone(&self) -> Self {
        Obj(Arc::clone(&self.0))
    }
}

impl<T: ?Sized> Deref for Obj<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T: ?Sized> fmt::Debug for Obj<T> {
    /// Identity only: a value may hold a Secret's data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.0.key, self.0.version)
    }
}
