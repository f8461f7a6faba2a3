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
mod string_map;
mod tail;

pub use dynamic::DynamicObject;
pub use identity::{Key, KeyError, KeyRef, Uid, UidRef, Version, VersionRef};
pub use meta::{Identity, Meta, ObjectMeta, OwnerRef, OwnerReference};
pub use resource::{ParseResourceError, Resource};
pub use string_map::StringMap;

use alloc::string::{String, ToString};
use core::fmt;
use core::ops::Deref;
use serde::de::DeserializeOwned;
use tail::Tail;
use triomphe::ThinArc;

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
        .map_err(DecodeError::from)
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
#[derive(Clone, PartialEq, Eq)]
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

impl fmt::Debug for DecodeError {
    /// The text of Display: `main` prints errors so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for DecodeError {}

impl From<serde_json::Error> for DecodeError {
    /// Its text, for `?` in a `decode` or an encoder of your own.
    fn from(error: serde_json::Error) -> Self {
        DecodeError::new(error)
    }
}

/// One version of one object, shared.
///
/// One word, and one allocation that holds everything: the value, and behind it key, uid and version. Cloning costs one
/// reference count. The value cannot be changed: everyone who holds the handle sees the same thing (I12: `old` of an
/// update *is* the object that was delivered before).
///
/// Key, uid and version are looked at where they lie. Who keeps one longer than the handle makes it an owned one
/// ([`KeyRef::to_key`]).
///
/// ```
/// use informer_core::object::{Key, Obj, Uid, Version};
///
/// let pod = Obj::new(Key::new("web", "a"), Uid::new("u-1"), Version::new("7"), "any value");
/// assert_eq!(pod.key().namespace(), "web");
/// assert_eq!(pod.len(), 9); // derefs to the value
/// assert!(Obj::ptr_eq(&pod, &pod.clone()));
///
/// let next = Obj::new(pod.key(), pod.uid(), Version::new("8"), "another value");
/// assert!(next.key() == pod.key() && pod.version().is_before(&next.version()));
/// ```
pub struct Obj<T>(ThinArc<T, u8>);

// A handle moves and its object stays, pinned or not: a future or stream that keeps handles need not be pinned for them.
impl<T> Unpin for Obj<T> {}

impl<T> Obj<T> {
    /// Joins an identity and a value. Owned or borrowed: the texts are copied. Nobody compares them with what a value says of
    /// itself; of one that has metadata, [`Obj::of`] takes them.
    ///
    /// # Panics
    ///
    /// If the key, or a uid that is no UUID, has 4 GiB or more.
    pub fn new(
        key: Key<impl AsRef<str>>,
        uid: Uid<impl AsRef<str>>,
        version: Version<impl AsRef<str>>,
        value: T,
    ) -> Self {
        Obj::made(0, "", key.as_ref(), uid.borrowed(), version.as_ref(), value)
    }

    /// The object of `name` in `namespace`; see [`maker`](Self::maker).
    pub(crate) fn made(maker: u8, namespace: &str, name: &str, uid: UidRef<'_>, version: &str, value: T) -> Self {
        Obj(ThinArc::from_header_and_slice(value, &tail::write(maker, namespace, name, uid, version)))
    }

    /// Namespace and name.
    pub fn key(&self) -> KeyRef<'_> {
        self.tail().key()
    }

    /// The server's identity of this incarnation; a recreated object has another one under the same key.
    pub fn uid(&self) -> UidRef<'_> {
        self.tail().uid()
    }

    /// The `resourceVersion`, byte for byte.
    pub fn version(&self) -> VersionRef<'_> {
        self.tail().version()
    }

    /// The value; the same as dereferencing.
    pub fn value(&self) -> &T {
        &self.0.header.header
    }

    /// True if both handles share one object.
    pub fn ptr_eq(a: &Self, b: &Self) -> bool {
        a.0.ptr() == b.0.ptr()
    }

    /// The number of the thread that decoded it, as its driver counts threads; 0 for the driver's own. Memory goes back
    /// where it came from with the least ado when the same thread drops it.
    pub fn maker(this: &Self) -> u8 {
        this.0.slice[0]
    }

    /// True if this is the last handle, so that dropping it drops the object. Another one can come only out of this one.
    pub fn is_last(this: &Self) -> bool {
        ThinArc::strong_count(&this.0) == 1
    }

    /// The bytes of the key: for what compares and hashes many.
    #[inline]
    pub(crate) fn key_bytes(this: &Self) -> &[u8] {
        this.tail().key
    }

    /// True if it lives in `namespace`; in none, if that is empty.
    #[inline]
    pub(crate) fn is_in(this: &Self, namespace: &str) -> bool {
        let (key, namespace) = (this.tail().key, namespace.as_bytes());
        match key.strip_prefix(namespace) {
            Some(_) if namespace.is_empty() => !key.contains(&b'/'),
            Some(rest) => rest.first() == Some(&b'/'),
            None => false,
        }
    }

    /// True if it has this uid and version.
    pub(crate) fn is_at(this: &Self, uid: &str, version: &str) -> bool {
        this.tail().version == version.as_bytes() && this.uid() == *uid
    }

    #[inline]
    fn tail(&self) -> Tail<'_> {
        Tail::read(&self.0.slice)
    }
}

impl<T> Clone for Obj<T> {
    fn clone(&self) -> Self {
        Obj(self.0.clone())
    }
}

impl<T> Deref for Obj<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value()
    }
}

impl<T> fmt::Debug for Obj<T> {
    /// Identity only: a value may hold a Secret's data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.key(), self.version())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_one_word_and_so_is_an_empty_place_for_one() {
        assert_eq!(size_of::<Option<Obj<[u64; 9]>>>(), size_of::<usize>());
    }

    #[test]
    fn an_object_is_in_its_namespace_and_in_no_other() {
        let object =
            |namespace: &str, name: &str| Obj::new(Key::new(namespace, name), Uid::new("u"), Version::new("1"), ());
        let namespaces = ["", "web", "we", "web-1", "a"];
        for of in namespaces {
            for asked in namespaces {
                let object = object(of, "a");
                assert_eq!(Obj::is_in(&object, asked), object.key().namespace() == asked, "{object:?} in {asked:?}");
            }
        }
    }

    #[test]
    fn a_handle_says_who_it_is_as_it_was_told() {
        for (uid, maker) in [("0b6c1e4d-9a2f-4c53-8f0e-1d2c3b4a5968", 0), ("u-1", 7), ("", 255)] {
            let object = Obj::made(maker, "web", "a", UidRef::of(uid), "12", [3, 4]);
            let again = Obj::new(object.key(), object.uid(), object.version(), 5_u8);
            assert_eq!((again.key(), again.uid(), again.version()), (object.key(), object.uid(), object.version()));
            assert_eq!((Obj::maker(&object), Obj::maker(&again), object.uid().to_string().as_str()), (maker, 0, uid));
            assert!(
                Obj::is_at(&object, uid, "12") && !Obj::is_at(&object, uid, "1") && !Obj::is_at(&object, "x", "12")
            );
            let other = object.clone();
            assert!(!Obj::is_last(&object) && Obj::ptr_eq(&object, &other) && *other == [3, 4]);
            drop(other);
            assert!(Obj::is_last(&object));
        }
    }
}
