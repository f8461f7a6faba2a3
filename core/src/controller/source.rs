//! [`Mapper`]: which keys a notification is about.
//!
//! ```
//! use informer_core::controller::{Keys, Mapper, controller_of, mapped};
//! use informer_core::listener::{Cause, Notification};
//! use informer_core::object::{DynamicObject, Key, Obj, Object, Resource, Uid, Version};
//!
//! let pods = Resource::namespaced("", "v1", "pods", "Pod");
//! let sets = Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet");
//! let json = br#"{"metadata": {"name": "front-1", "namespace": "web", "labels": {"config": "c"}, "ownerReferences": [
//!     {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "front", "uid": "u", "controller": true}]}}"#;
//! let pod = DynamicObject::decode(json, &pods).unwrap();
//! let pod = Obj::new(Key::new("web", "front-1"), Uid::new("p"), Version::new("7"), pod);
//! let event = Notification::Added { object: pod, initial: false, cause: Cause::Watch };
//!
//! let mut keys = Keys::default();
//! controller_of(&sets).map(&event, &mut keys);
//! assert_eq!(keys.as_slice(), [Key::new("web", "front")]);
//!
//! let mut keys = Keys::default();
//! mapped(|pod: &Obj<DynamicObject>| {
//!     use informer_core::object::Meta;
//!     pod.metadata().label("config").map(|name| Key::new(pod.key().namespace(), name))
//! })
//! .map(&event, &mut keys);
//! assert_eq!(keys.as_slice(), [Key::new("web", "c")]);
//! ```

use crate::listener::Notification;
use crate::object::{Key, Meta, Obj, Object, Resource};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use smallvec::SmallVec;

/// Says which keys a notification is about.
pub trait Mapper<T>: Send + Sync + 'static {
    /// Puts the keys of `event` into `keys`.
    fn map(&self, event: &Notification<T>, keys: &mut Keys);
}

/// What a [`Mapper`] found: keys, and owners that cannot be.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    keys: SmallVec<[Key; 2]>,
    faults: Vec<OwnerScopeError>,
}

impl Keys {
    /// Among how many keys a repeated one is looked for. Two states with a few owners each stay below; a map function
    /// that returns thousands must not take quadratic time, and the queue merges what is left.
    const MERGED: usize = 16;

    /// Adds a key, unless it is among the first 16.
    pub fn push(&mut self, key: Key) {
        if !self.keys.iter().take(Self::MERGED).any(|known| *known == key) {
            self.keys.push(key);
        }
    }

    /// The keys, in the order in which they were found, those of the old state first.
    pub fn as_slice(&self) -> &[Key] {
        &self.keys
    }

    /// The owners that were passed over, to be reported.
    pub fn faults(&self) -> &[OwnerScopeError] {
        &self.faults
    }
}

impl IntoIterator for Keys {
    type Item = Key;
    type IntoIter = smallvec::IntoIter<[Key; 2]>;

    fn into_iter(self) -> Self::IntoIter {
        self.keys.into_iter()
    }
}

/// Both states of an object, the old one first; one of them only if they are the same.
///
/// What a state no longer refers to must hear of it, too (B166).
fn states<T>(event: &Notification<T>) -> impl Iterator<Item = &Obj<T>> {
    let object = event.object();
    event.old().filter(|old| !Obj::ptr_eq(old, object)).into_iter().chain([object])
}

/// The key of the object itself.
pub fn itself() -> Itself {
    Itself
}

/// See [`itself`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Itself;

impl<T> Mapper<T> for Itself {
    fn map(&self, event: &Notification<T>, keys: &mut Keys) {
        keys.push(event.key().to_key());
    }
}

/// The key of the owner that manages the object (`controller: true`), if it is of this resource.
///
/// Group and kind must fit; the version need not, as one object can be read under several. The owners of the old state
/// count as well as those of the new one (B166). The owner is looked for in the object's own namespace, or in none if
/// its resource is cluster-scoped (B165); that a cluster-scoped object is owned by one in a namespace cannot be, and
/// is a [fault](Keys::faults).
///
/// # Panics
///
/// If the kind of the resource is not known, as of one that is not built in and was read from its name: an object names its
/// owners by their kind, so none would ever fit.
#[track_caller]
pub fn controller_of(owner: &Resource) -> OwnerOf {
    OwnerOf::new(owner, true)
}

/// The keys of all owners of this resource, whether they manage the object or not; else as [`controller_of`].
///
/// # Panics
///
/// As [`controller_of`].
#[track_caller]
pub fn owners_of(owner: &Resource) -> OwnerOf {
    OwnerOf::new(owner, false)
}

/// See [`controller_of`] and [`owners_of`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerOf {
    owner: Resource,
    controller_only: bool,
}

impl OwnerOf {
    #[track_caller]
    fn new(owner: &Resource, controller_only: bool) -> Self {
        assert!(
            !owner.kind.is_empty(),
            "objects name their owners by kind, and that of {owner} is not known: \
             say it, with Resource::namespaced, Resource::cluster or Resource::dynamic"
        );
        OwnerOf { owner: owner.clone(), controller_only }
    }
}

impl<T: Object> Mapper<T> for OwnerOf {
    fn map(&self, event: &Notification<T>, keys: &mut Keys) {
        for object in states(event) {
            for owner in object.metadata().owners() {
                let fits = owner.kind == self.owner.kind
                    && owner.group() == self.owner.group
                    && (owner.controller || !self.controller_only);
                if !fits {
                    continue;
                }
                let namespace = object.key().namespace();
                if !self.owner.namespaced {
                    keys.push(Key::new("", owner.name));
                } else if !namespace.is_empty() {
                    keys.push(Key::new(namespace, owner.name));
                } else {
                    let fault = OwnerScopeError {
                        object: object.key().to_key(),
                        owner: owner.name.to_string(),
                        kind: self.owner.kind.to_string(),
                    };
                    if !keys.faults.contains(&fault) {
                        keys.faults.push(fault);
                    }
                }
            }
        }
    }
}

/// The keys that `map` returns for the old and for the new state. It is called outside every lock, and can look into
/// other caches.
pub fn mapped<F>(map: F) -> Mapped<F> {
    Mapped(map)
}

/// See [`mapped`].
#[derive(Clone, Copy, Debug)]
pub struct Mapped<F>(F);

impl<T, F, I> Mapper<T> for Mapped<F>
where
    F: Fn(&Obj<T>) -> I + Send + Sync + 'static,
    I: IntoIterator<Item = Key>,
{
    fn map(&self, event: &Notification<T>, keys: &mut Keys) {
        for object in states(event) {
            self.0(object).into_iter().for_each(|key| keys.push(key));
        }
    }
}

/// A cluster-scoped object names an owner of a kind that lives in namespaces. No namespace is the right one, so nobody
/// is told; the server's garbage collector deletes such an object.
#[derive(Clone, PartialEq, Eq)]
pub struct OwnerScopeError {
    object: Key,
    owner: String,
    kind: String,
}

impl OwnerScopeError {
    /// The object with the impossible owner.
    pub fn object(&self) -> &Key {
        &self.object
    }
}

impl fmt::Display for OwnerScopeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OwnerScopeError { object, owner, kind } = self;
        write!(
            f,
            "the cluster-scoped object {object} names {kind} {owner} as its owner, but a {kind} lives in a namespace: \
             let a cluster-scoped object own it, or name the owner's resource as cluster-scoped if it is"
        )
    }
}

impl fmt::Debug for OwnerScopeError {
    /// The text of Display: `main` prints errors so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for OwnerScopeError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::Cause;
    use crate::object::{DynamicObject, Uid, Version};

    /// An object with owners, each `apiVersion kind name`, with a `*` in front of the one that manages it.
    fn child(namespace: &str, owners: &[&str]) -> Obj<DynamicObject> {
        let owners: Vec<_> = owners
            .iter()
            .map(|owner| {
                let controller = owner.starts_with('*');
                let mut words = owner.trim_start_matches('*').split(' ');
                serde_json::json!({
                    "apiVersion": words.next(), "kind": words.next(), "name": words.next(), "uid": "u",
                    "controller": controller,
                })
            })
            .collect();
        let json = serde_json::json!({"metadata": {"name": "child", "ownerReferences": owners}}).to_string();
        let value = DynamicObject::decode(json.as_bytes(), &Resource::namespaced("", "v1", "pods", "Pod")).unwrap();
        Obj::new(Key::new(namespace, "child"), Uid::new("c"), Version::new("1"), value)
    }

    fn added(object: Obj<DynamicObject>) -> Notification<DynamicObject> {
        Notification::Added { object, initial: false, cause: Cause::Watch }
    }

    fn keys(mapper: &impl Mapper<DynamicObject>, event: &Notification<DynamicObject>) -> Vec<String> {
        let mut keys = Keys::default();
        mapper.map(event, &mut keys);
        assert!(keys.faults().is_empty());
        keys.into_iter().map(|key| key.to_string()).collect()
    }

    fn widgets(namespaced: bool) -> Resource {
        Resource::dynamic("example.com", "v1", "widgets", "Widget", namespaced)
    }

    #[test]
    fn b165_the_key_of_an_owner_has_the_scope_of_the_owner() {
        let event = added(child("ns1", &["*example.com/v1 Widget owner"]));
        assert_eq!(keys(&controller_of(&widgets(false)), &event), ["owner"]);
        assert_eq!(keys(&controller_of(&widgets(true)), &event), ["ns1/owner"]);

        let event = added(child("", &["*example.com/v1 Widget owner"]));
        assert_eq!(keys(&controller_of(&widgets(false)), &event), ["owner"]);
        let mut found = Keys::default();
        controller_of(&widgets(true)).map(&event, &mut found);
        assert!(found.as_slice().is_empty());
        assert_eq!(found.faults().len(), 1);
        assert!(
            found.faults()[0].to_string().starts_with(
                "the cluster-scoped object child names Widget owner as its owner, but a Widget lives in a"
            )
        );
    }

    #[test]
    fn b166_old_and_new_owners_are_told_once_each() {
        let update = |old: &str, new: &str| Notification::Updated {
            old: child("ns", &[old]),
            new: child("ns", &[new]),
            cause: Cause::Watch,
        };
        let owner = controller_of(&widgets(true));
        let moved = update("*example.com/v1 Widget a", "*example.com/v1 Widget b");
        assert_eq!(keys(&owner, &moved), ["ns/a", "ns/b"]);
        let stayed = update("*example.com/v1 Widget a", "*example.com/v2 Widget a");
        assert_eq!(keys(&owner, &stayed), ["ns/a"]);
        let orphaned = update("*example.com/v1 Widget a", "example.com/v1 Widget a");
        assert_eq!(keys(&owner, &orphaned), ["ns/a"]);
    }

    #[test]
    fn owners_fit_by_group_and_kind_and_by_their_role() {
        let event = added(child(
            "ns",
            &[
                "example.com/v1 Widget a",
                "*example.com/v1beta1 Widget b",
                "*other.com/v1 Widget c",
                "*example.com/v1 Gadget d",
                "*v1 Widget e",
            ],
        ));
        assert_eq!(keys(&controller_of(&widgets(true)), &event), ["ns/b"]);
        assert_eq!(keys(&owners_of(&widgets(true)), &event), ["ns/a", "ns/b"]);
        assert_eq!(keys(&itself(), &event), ["ns/child"]);
    }

    #[test]
    #[should_panic(expected = "that of widgets.example.com is not known: say it, with Resource::namespaced")]
    fn an_owner_whose_kind_is_not_known_is_refused_because_it_would_never_fit() {
        controller_of(&"widgets.v1.example.com".parse().unwrap());
    }

    #[test]
    fn a_function_sees_both_states_of_a_change_and_one_of_an_unseen_deletion() {
        let count = |object: &Obj<DynamicObject>| {
            object.metadata().owners().map(|owner| Key::new("x", owner.name)).collect::<Vec<_>>()
        };
        let (a, b) = (child("ns", &["v1 Pod a"]), child("ns", &["v1 Pod b", "v1 Pod a"]));
        let seen = Notification::Deleted { object: b, old: a.clone(), cause: Cause::Watch, final_state_known: true };
        assert_eq!(keys(&mapped(count), &seen), ["x/a", "x/b"]);

        use core::sync::atomic::{AtomicUsize, Ordering};
        static CALLS: AtomicUsize = AtomicUsize::new(0);
        let unseen =
            Notification::Deleted { object: a.clone(), old: a, cause: Cause::Relist, final_state_known: false };
        let once = mapped(|_: &Obj<DynamicObject>| {
            CALLS.fetch_add(1, Ordering::Relaxed);
            None
        });
        assert_eq!((keys(&once, &unseen).len(), CALLS.load(Ordering::Relaxed)), (0, 1));
    }
}
