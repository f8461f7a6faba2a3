//! [`Lister`]: reading a store by namespace, labels and index.
//!
//! A pure view: it borrows the store, so whoever shares one calls it under the read lock, and what it returns are
//! counted pointers to clone. It makes no request, whatever it is asked for. Each call looks anew (B099).
//!
//! ```
//! use informer_core::decode::Codec;
//! use informer_core::lister::Lister;
//! use informer_core::selector::LabelSelector;
//! use informer_core::store::{IndexDef, Store};
//! use informer_core::{DynamicObject, Key, Obj, Resource, Uid, Version};
//!
//! let codec = Codec::<DynamicObject>::new(Resource::namespaced("", "v1", "pods", "Pod"));
//! let mut store = Store::new(7);
//! store.add_index(IndexDef::namespace()).unwrap();
//! for (namespace, name, app) in [("web", "a", "shop"), ("web", "b", "blog"), ("db", "c", "shop")] {
//!     let json = format!(r#"{{"metadata":{{"labels":{{"app":"{app}"}}}}}}"#);
//!     let pod = codec.build(json.as_bytes()).unwrap();
//!     store.upsert(Obj::new(Key::new(namespace, name), Uid::new(name), Version::new("1"), pod));
//! }
//!
//! let pods = Lister::new(&store);
//! let shop: LabelSelector = "app=shop".parse().unwrap();
//! assert_eq!(pods.all().count(), 3);
//! assert_eq!(pods.matching(&shop).count(), 2);
//! let web = pods.namespace("web");
//! assert_eq!(web.all().count(), 2);
//! assert_eq!(web.matching(&shop).map(|pod| pod.key().name()).collect::<Vec<_>>(), ["a"]);
//! assert_eq!(web.get("b").unwrap().key().as_str(), "web/b");
//! assert_eq!(pods.by_index("namespace", "db").unwrap().len(), 1);
//! ```

mod objects;
mod pages;
mod selection;
mod token;

pub use objects::{Iter, Objects};
pub use pages::{Page, View};
pub use selection::{Detached, HANDLES_AT_ONCE, Selection};
pub use token::{ListId, PageToken, TokenError};

use crate::object::{Obj, Object};
use crate::selector::LabelSelector;
use crate::store::{IndexError, IndexValue, Store};
use core::fmt;

/// Reads a store. Everything comes in no order that a user may rely on.
pub struct Lister<'a, T> {
    store: &'a Store<T>,
}

/// Reads one namespace of a store.
pub struct NamespaceLister<'a, T> {
    store: &'a Store<T>,
    namespace: &'a str,
}

impl<T> Clone for Lister<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Lister<'_, T> {}

impl<T> Clone for NamespaceLister<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for NamespaceLister<'_, T> {}

impl<'a, T> Lister<'a, T> {
    /// A lister of `store`.
    pub fn new(store: &'a Store<T>) -> Self {
        Lister { store }
    }

    /// The object of a key, `namespace/name` or `name`.
    pub fn get(self, key: &str) -> Option<&'a Obj<T>> {
        self.store.get(key)
    }

    /// All objects.
    pub fn all(self) -> impl Iterator<Item = &'a Obj<T>> {
        self.store.iter()
    }

    /// The objects of one namespace; `""` means all of them, as in client-go.
    ///
    /// With [`IndexDef::namespace`](crate::store::IndexDef::namespace) this costs the size of the namespace, else that
    /// of the store.
    pub fn namespace(self, namespace: &'a str) -> NamespaceLister<'a, T> {
        NamespaceLister { store: self.store, namespace }
    }

    /// The objects of one namespace, or all for `""`, to be taken out of the store in two steps.
    pub fn select_namespace<'s>(self, namespace: &'s str) -> Selection<'a, 's, T> {
        Selection::namespace(self.store, namespace)
    }

    /// The objects that have the value of this [text](IndexValue::to_text) in the index called `index`, whose values are of
    /// type `V`, to be taken out of the store in two steps. The text, because making it may be a user's code, which must not
    /// run where the store is locked.
    ///
    /// # Errors
    ///
    /// If there is no such index, or its values are of another type.
    pub fn select_value<V: IndexValue>(self, index: &str, text: &str) -> Result<Selection<'a, 'static, T>, IndexError> {
        self.store.check_value_type::<V>(index)?;
        Ok(Selection::value(self.store, self.store.index(index)?, text))
    }

    /// The objects that have `value` in the index called `index`.
    ///
    /// # Errors
    ///
    /// If there is no such index.
    pub fn by_index(
        self,
        index: &str,
        value: &str,
    ) -> Result<impl ExactSizeIterator<Item = &'a Obj<T>> + use<'a, T>, IndexError> {
        self.store.by_index(index, value)
    }
}

impl<'a, T: Object> Lister<'a, T> {
    /// The objects that `selector` selects. [`nothing`](LabelSelector::nothing) is answered without looking, and what
    /// asks for a value of a label with an [index](crate::store::IndexDef::label) costs the size of the answer.
    pub fn matching(self, selector: &'a LabelSelector) -> impl Iterator<Item = &'a Obj<T>> {
        self.select("", selector).objects()
    }

    /// The objects of one namespace, or of all for `""`, that `selector` selects, to be taken out of the store in two
    /// steps.
    pub fn select<'s>(self, namespace: &'s str, selector: &'s LabelSelector) -> Selection<'a, 's, T> {
        Selection::labels(self.store, namespace, selector)
    }
}

impl<'a, T> NamespaceLister<'a, T> {
    /// The object called `name` in this namespace; with the namespace `""`, the cluster-scoped one.
    pub fn get(self, name: &str) -> Option<&'a Obj<T>> {
        self.store.slot_of(self.namespace, name).map(|(_, object)| object)
    }

    /// All objects of this namespace.
    pub fn all(self) -> impl Iterator<Item = &'a Obj<T>> {
        Selection::namespace(self.store, self.namespace).objects()
    }
}

impl<'a, T: Object> NamespaceLister<'a, T> {
    /// The objects of this namespace that `selector` selects. [`nothing`](LabelSelector::nothing) is answered without
    /// looking.
    pub fn matching(self, selector: &'a LabelSelector) -> impl Iterator<Item = &'a Obj<T>> {
        Selection::labels(self.store, self.namespace, selector).objects()
    }
}

impl<T> fmt::Debug for Lister<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lister of {} objects", self.store.len())
    }
}

impl<T> fmt::Debug for NamespaceLister<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lister of namespace {:?}", self.namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{DynamicObject, Key, ObjectMeta, Resource, Uid, Version};
    use crate::store::{IndexDef, NAMESPACE};
    use core::sync::atomic::{AtomicUsize, Ordering};
    use serde::Deserialize;
    use std::format;
    use std::string::{String, ToString};
    use std::vec::Vec;

    /// Counts how often its labels are looked at.
    #[derive(Deserialize)]
    struct Counted {
        #[serde(skip)]
        looks: AtomicUsize,
        metadata: ObjectMeta,
    }

    impl Object for Counted {
        type Meta = ObjectMeta;

        fn resource() -> Resource {
            Resource::namespaced("example.com", "v1", "counted", "Counted")
        }

        fn metadata(&self) -> &ObjectMeta {
            self.looks.fetch_add(1, Ordering::Relaxed);
            &self.metadata
        }
    }

    fn store(indexed: bool) -> Store<Counted> {
        let mut store = Store::new(1);
        if indexed {
            store.add_index(IndexDef::namespace()).unwrap();
        }
        for (namespace, name, app) in [("web", "a", "x"), ("web", "b", "y"), ("db", "a", "x"), ("", "node", "x")] {
            let json = format!(r#"{{"metadata":{{"labels":{{"app":"{app}"}}}}}}"#);
            let value = Counted::decode(json.as_bytes(), &Counted::resource()).unwrap();
            store.upsert(Obj::new(Key::new(namespace, name), Uid::new("u"), Version::new("1"), value));
        }
        store
    }

    fn keys<'a>(objects: impl Iterator<Item = &'a Obj<Counted>>) -> Vec<String> {
        let mut keys: Vec<_> = objects.map(|object| format!("{}", object.key())).collect();
        keys.sort();
        keys
    }

    #[test]
    fn namespaces_are_read_alike_with_and_without_their_index() {
        for indexed in [false, true] {
            let store = store(indexed);
            let lister = Lister::new(&store);
            assert_eq!(keys(lister.namespace("web").all()), ["web/a", "web/b"]);
            assert_eq!(keys(lister.namespace("none").all()), [""; 0]);
            assert_eq!(keys(lister.namespace("").all()), ["db/a", "node", "web/a", "web/b"]);
            assert_eq!(keys(lister.all()), keys(lister.all()), "each call looks anew (B099)");
            assert_eq!(lister.namespace("db").get("a").unwrap().key().as_str(), "db/a");
            assert!(lister.namespace("db").get("b").is_none());
            assert_eq!(lister.namespace("").get("node").unwrap().key(), lister.get("node").unwrap().key());
            assert_eq!(lister.by_index(NAMESPACE, "web").is_ok(), indexed);
        }
    }

    #[test]
    fn selectors_select_within_a_namespace_or_everywhere() {
        for indexed in [false, true] {
            let store = store(indexed);
            let lister = Lister::new(&store);
            let x: LabelSelector = "app=x".parse().unwrap();
            assert_eq!(keys(lister.matching(&x)), ["db/a", "node", "web/a"]);
            assert_eq!(keys(lister.namespace("web").matching(&x)), ["web/a"]);
            assert_eq!(lister.namespace("web").matching(&LabelSelector::everything()).count(), 2);
        }
    }

    #[test]
    fn only_the_namespace_that_is_asked_for_is_looked_at_and_nothing_for_nothing() {
        let store = store(true);
        let looks = || store.iter().map(|object| object.looks.load(Ordering::Relaxed)).sum::<usize>();
        let lister = Lister::new(&store);
        assert_eq!(lister.namespace("web").matching(&"app=x".parse().unwrap()).count(), 1);
        assert_eq!(looks(), 2);
        assert_eq!(lister.matching(&LabelSelector::nothing()).count(), 0);
        assert_eq!(lister.namespace("web").matching(&LabelSelector::nothing()).count(), 0);
        assert_eq!(looks(), 2);
    }

    #[test]
    fn an_indexed_label_is_not_looked_at_again() {
        let mut store = store(true);
        store.add_index(IndexDef::label("app")).unwrap();
        let looks = || store.iter().map(|object| object.looks.load(Ordering::Relaxed)).sum::<usize>();
        let indexed = looks();
        assert_eq!(indexed, 4, "once each, when the index was made");
        let lister = Lister::new(&store);
        for (selector, found) in [("app=x", 3), ("app in (x, z)", 3), ("app", 4), ("app=x,app!=y", 3), ("app=z", 0)] {
            assert_eq!(lister.matching(&selector.parse().unwrap()).count(), found, "{selector}");
        }
        assert_eq!(lister.namespace("web").matching(&"app=x".parse().unwrap()).count(), 1);
        assert_eq!(lister.namespace("web").matching(&"app notin (x)".parse().unwrap()).count(), 1);
        assert_eq!(looks(), indexed);
        assert_eq!(lister.matching(&"app=y,tier!=1".parse().unwrap()).count(), 1);
        assert_eq!(looks(), indexed + 1, "only the other label of the only candidate");
    }

    #[test]
    fn an_index_of_that_name_with_other_values_misleads_no_lister() {
        let mut store = store(false);
        for name in [NAMESPACE, "label:app"] {
            store.add_index(IndexDef::new(name, |_: &Obj<Counted>| "x")).unwrap();
        }
        let lister = Lister::new(&store);
        assert_eq!(keys(lister.namespace("web").all()), ["web/a", "web/b"]);
        assert_eq!(keys(lister.matching(&"app=y".parse().unwrap())), ["web/b"]);
        assert_eq!(store.add_index(IndexDef::label("app")).unwrap_err().to_string().split(':').count(), 3);
    }

    #[test]
    fn what_a_transform_made_needs_no_metadata_to_be_read() {
        let mut store = Store::new(1);
        store.upsert(Obj::new(Key::new("web", "a"), Uid::new("u"), Version::new("1"), 7));
        assert_eq!(Lister::new(&store).namespace("web").all().map(|n| **n).collect::<Vec<i32>>(), [7]);
        let empty = Store::<DynamicObject>::new(1);
        assert_eq!(
            format!("{:?}, {:?}", Lister::new(&empty), Lister::new(&empty).namespace("a")),
            "lister of 0 objects, lister of namespace \"a\""
        );
    }
}
