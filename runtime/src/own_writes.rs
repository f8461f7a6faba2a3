//! [`OwnWrites`]: a cache with our own writes on top, until it has them.
//!
//! The rules are those of [`informer_core::overlay`]; here is the lock around them. Each `OwnWrites` stands for itself:
//! one per controller is the usual number, and clones share it.

use crate::api::Deletion;
use crate::informer::InformerHandle;
use crate::replaced::{drop_each, drop_quietly};
use crate::store::SharedStore;
use crate::sync::{Arc, Mutex};
use informer_core::lister::{Detached, Lister};
use informer_core::overlay::{Overlay, OverlayError, Settled, Standing};
use informer_core::selector::LabelSelector;
use informer_core::store::Store;
use informer_core::{Key, Obj, Object, Uid, Version};
use std::fmt;

/// Reads a cache, with the answers to our own writes in the place of what is older. Cheap to clone.
///
/// ```
/// use informer_core::{DynamicObject, Obj, Object, Resource};
/// use informer_runtime::Config;
/// use informer_runtime::factory::{FactoryCore, FactoryOptions};
/// use informer_runtime::informer::InformerSpec;
///
/// let factory = FactoryCore::new(Config::from_url("http://127.0.0.1:8001")?, FactoryOptions::default());
/// let pods = Resource::namespaced("", "v1", "pods", "Pod");
/// let informer = factory.informer(InformerSpec::<DynamicObject>::of(pods.clone()))?;
/// let own = informer.own_writes();
///
/// // What the server answered to a create.
/// let answer = br#"{"metadata": {"namespace": "web", "name": "a", "uid": "u", "resourceVersion": "7"}}"#;
/// let created = Obj::of(DynamicObject::decode(answer, &pods).unwrap()).unwrap();
/// let key = created.key().to_key();
/// own.put(created).unwrap();
/// assert!(own.get(&key).is_some() && informer.lister().get(&key).is_none());
/// # Ok::<(), informer_runtime::Error>(())
/// ```
pub struct OwnWrites<T> {
    own: Arc<Own<T>>,
    store: Arc<SharedStore<T>>,
}

/// What clones share.
struct Own<T>(Mutex<Overlay<T>>);

impl<T> Drop for Own<T> {
    fn drop(&mut self) {
        let held = self.0.lock().take_objects();
        drop_each(held);
    }
}

impl<T> Clone for OwnWrites<T> {
    fn clone(&self) -> Self {
        OwnWrites { own: Arc::clone(&self.own), store: Arc::clone(&self.store) }
    }
}

impl<T: Send + Sync + 'static> InformerHandle<T> {
    /// A view of the cache that shows own writes before the cache has them; empty at first.
    pub fn own_writes(&self) -> OwnWrites<T> {
        OwnWrites { own: Arc::new(Own(Mutex::default())), store: Arc::clone(&self.0.store) }
    }
}

impl<T> OwnWrites<T> {
    /// Shows what the server answered to a create, update or patch; see [`Overlay::put`].
    ///
    /// # Errors
    ///
    /// If it cannot be shown before the cache has it: its version cannot be compared, or too many wait.
    pub fn put(&self, object: Obj<T>) -> Result<bool, OverlayError> {
        self.write(object.key().to_key(), |overlay, store| overlay.put(store, object.clone()))
    }

    /// Hides what the server said it deleted; see [`Overlay::deleted`].
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub fn deleted(&self, key: Key, uid: Uid, version: Version) -> Result<bool, OverlayError> {
        let key = self.store.key(key);
        self.write(key.clone(), |overlay, store| overlay.deleted(store, key, uid, version))
    }

    /// Takes back what was said of a key: the cache alone counts.
    pub fn forget(&self, key: &Key) {
        let key = self.store.key(key.clone());
        self.write(key.clone(), |overlay, _| overlay.forget(key.as_str()));
    }

    fn write<R>(&self, key: Key, write: impl FnOnce(&mut Overlay<T>, &Store<T>) -> R) -> R {
        let mut overlay = self.own.0.lock();
        let before = overlay.held(key.as_str()).cloned();
        let written = self.store.read(|store| write(&mut overlay, store));
        let passed = overlay.take_passed();
        drop(overlay);
        // User code perhaps, so under no lock.
        before.into_iter().chain(passed).for_each(drop_quietly);
        written
    }

    /// The object of a key; of a cluster-scoped collection the name alone counts, as for a [`Lister`](crate::lister::Lister).
    pub fn get(&self, key: &Key) -> Option<Obj<T>> {
        let key = self.store.key(key.clone());
        let overlay = self.own.0.lock();
        self.store.read(|store| overlay.get(store, key.as_str()).cloned())
    }

    /// All objects, as they are at one instant, in no fixed order.
    pub fn list(&self) -> Vec<Obj<T>> {
        let (objects, own) = self.at_one_instant(|store| Lister::new(store).select_namespace("").detach());
        own.over(objects.into_objects(), |_| true)
    }

    /// Lets go of the own writes that the cache has come past, and tells each of them, once: also what somebody else
    /// deleted before the cache ever had it. Reads are right without it; it makes room.
    pub fn settle(&self) -> Vec<Settled<T>> {
        let mut overlay = self.own.0.lock();
        self.store.read(|store| overlay.settle(store))
    }

    /// Both under the locks, which are held for the look-up alone: what runs code of the user's type comes after.
    fn at_one_instant<'a>(&self, select: impl FnOnce(&Store<T>) -> Detached<'a, T>) -> (Detached<'a, T>, Standing<T>) {
        let overlay = self.own.0.lock();
        self.store.read(|store| (select(store), overlay.standing(store)))
    }

    /// Own writes that are held.
    pub fn len(&self) -> usize {
        self.own.0.lock().len()
    }

    /// True if none is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Object> OwnWrites<T> {
    /// Shows what the server answered to the deletion of `seen`: hides it if it is gone, up to the version of the answer or
    /// else that of `seen`, and shows the object of the answer if it waits for finalizers or a grace period. False if the
    /// cache knows already, or the answer has nothing to show.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub fn answered(&self, seen: &Obj<T>, deletion: Deletion<T>) -> Result<bool, OverlayError> {
        if deletion.is_gone() {
            let uid = deletion.uid().cloned().unwrap_or_else(|| seen.uid().to_uid());
            let version = deletion.version().cloned().unwrap_or_else(|| seen.version().to_version());
            return self.deleted(seen.key().to_key(), uid, version);
        }
        match deletion.into_object().and_then(Obj::of) {
            Some(waits) => self.put(waits),
            None => Ok(false),
        }
    }

    /// The objects of a namespace (`""`: of all) that `selector` selects, as they are at one instant, in no fixed order.
    pub fn matching(&self, namespace: &str, selector: &LabelSelector) -> Vec<Obj<T>> {
        let namespace = self.store.namespace(namespace);
        let (objects, own) = self.at_one_instant(|store| Lister::new(store).select(namespace, selector).detach());
        own.matching(objects.into_objects(), namespace, selector)
    }
}

impl<T> fmt::Debug for OwnWrites<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.own.0.lock().fmt(f)
    }
}
