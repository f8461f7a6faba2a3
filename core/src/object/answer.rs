//! [`Obj::of`]: an object that no informer sent, such as the answer to a write.

use super::{Key, Meta, Obj, Object, Uid, Version};

impl<T: Object> Obj<T> {
    /// Joins a value and the identity that its metadata says. `None` if that has no name or no version, or does not keep
    /// them ([`Meta::identity`]).
    ///
    /// ```
    /// use informer_core::{DynamicObject, Obj, Object, Resource};
    ///
    /// let pods = Resource::namespaced("", "v1", "pods", "Pod");
    /// let json = br#"{"metadata": {"namespace": "web", "name": "a", "uid": "u", "resourceVersion": "7"}}"#;
    /// let pod = Obj::of(DynamicObject::decode(json, &pods).unwrap()).unwrap();
    /// assert_eq!(format!("{pod:?}"), "web/a@7");
    ///
    /// let new = br#"{"metadata": {"namespace": "web", "name": "b"}}"#;
    /// assert!(Obj::of(DynamicObject::decode(new, &pods).unwrap()).is_none(), "it was never stored");
    /// ```
    pub fn of(value: T) -> Option<Self> {
        let identity = value.metadata().identity()?;
        if identity.name.is_empty() || identity.resource_version.is_empty() {
            return None;
        }
        let key = Key::new(identity.namespace, identity.name);
        let (uid, version) = (Uid::new(identity.uid), Version::new(identity.resource_version));
        Some(Obj::new(key, uid, version, value))
    }
}
