//! [`Lister`]: reading one informer's cache, from any thread or task.
//!
//! The rules are those of [`informer_core::lister`]; here is the lock around them, taken for the look-up alone: what runs
//! code of the user's type (labels) looks at counted pointers afterwards.

use crate::store::SharedStore;
use crate::sync::Arc;
use informer_core::lister::Lister as CoreLister;
use informer_core::selector::LabelSelector;
use informer_core::store::{IndexError, Snapshot};
use informer_core::{Key, Obj, Object};
use std::fmt;

/// Reads a cache. Cheap to clone; it never waits for the network or for handlers, and it goes on serving the last
/// known state while the server is away.
pub struct Lister<T> {
    store: Arc<SharedStore<T>>,
    namespace: Option<String>,
}

impl<T> Clone for Lister<T> {
    fn clone(&self) -> Self {
        Lister { store: Arc::clone(&self.store), namespace: self.namespace.clone() }
    }
}

impl<T> Lister<T> {
    pub(crate) fn new(store: Arc<SharedStore<T>>) -> Self {
        Lister { store, namespace: None }
    }

    /// The object of a key.
    pub fn get(&self, key: &Key) -> Option<Obj<T>> {
        let scope = self.scope();
        let object = self.store.read(|store| CoreLister::new(store).get(key.as_str()).cloned());
        object.filter(|object| scope.is_empty() || object.key().namespace() == scope)
    }

    /// The object called `name`: in the lister's namespace, or cluster-scoped.
    pub fn named(&self, name: &str) -> Option<Obj<T>> {
        self.store.read(|store| CoreLister::new(store).namespace(self.scope()).get(name).cloned())
    }

    /// A lister of one namespace; `""` means all of them, as in client-go.
    pub fn namespace(&self, namespace: &str) -> Self {
        Lister { store: Arc::clone(&self.store), namespace: Some(namespace.to_string()) }
    }

    fn scope(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    /// All objects of the lister's scope, as they are at one instant, in no fixed order.
    pub fn list(&self) -> Vec<Obj<T>> {
        match self.scope() {
            // A walk over everything takes no lock.
            "" => self.store.snapshot().iter().cloned().collect(),
            namespace => self.store.read(|store| CoreLister::new(store).namespace(namespace).all().cloned().collect()),
        }
    }

    /// How many objects the whole cache holds.
    pub fn len(&self) -> usize {
        self.store.read(|store| store.len())
    }

    /// True if the whole cache is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The whole cache at this instant, without copying it.
    pub fn snapshot(&self) -> Snapshot<T> {
        self.store.snapshot()
    }

    /// The version that the cache stands for; empty before the first list.
    pub fn version(&self) -> String {
        self.store.read(|store| store.version().to_string())
    }
}

impl<T: Object> Lister<T> {
    /// The objects of the lister's scope that `selector` selects.
    pub fn matching(&self, selector: &LabelSelector) -> Vec<Obj<T>> {
        if selector.is_nothing() {
            return Vec::new();
        }
        let mut objects = self.list();
        objects.retain(|object| selector.matches(object.metadata()));
        objects
    }
}

impl<T> fmt::Debug for Lister<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lister of {} objects", self.len())
    }
}

/// Reads one index.
pub struct Index<T> {
    store: Arc<SharedStore<T>>,
    name: String,
}

impl<T> Clone for Index<T> {
    fn clone(&self) -> Self {
        Index { store: Arc::clone(&self.store), name: self.name.clone() }
    }
}

impl<T> Index<T> {
    pub(crate) fn new(store: Arc<SharedStore<T>>, name: String) -> Self {
        Index { store, name }
    }

    /// The name of the index.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The objects that have `value`; none if nobody has it, or if the index was removed.
    pub fn get(&self, value: &str) -> Vec<Obj<T>> {
        self.try_get(value).unwrap_or_default()
    }

    /// The objects that have `value`.
    ///
    /// # Errors
    ///
    /// If the index was removed.
    pub fn try_get(&self, value: &str) -> Result<Vec<Obj<T>>, IndexError> {
        self.store.read(|store| Ok(CoreLister::new(store).by_index(&self.name, value)?.cloned().collect()))
    }

    /// The keys of the objects that have `value`.
    pub fn keys(&self, value: &str) -> Vec<Key> {
        self.get(value).iter().map(|object| object.key().clone()).collect()
    }

    /// The values in use, sorted.
    pub fn values(&self) -> Vec<String> {
        let mut values = self.store.read(|store| {
            store.index_values(&self.name).map(|values| values.map(|(value, _)| value.to_string()).collect())
        });
        if let Ok(values) = &mut values {
            let values: &mut Vec<String> = values;
            values.sort_unstable();
        }
        values.unwrap_or_default()
    }
}

impl<T> fmt::Debug for Index<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "index {:?}", self.name)
    }
}
