//! [`Fed`]: what an informer is given by hand, in the place of a server's lists and events.
//!
//! ```text
//! a source of one's own ─► Fed::list, Fed::changes ─► index ─► Input::Fed ─► queue ─► Commit ─► Committed, Attach …
//!                            objects that are built     user code      from here on as for what was read and decoded
//! ```
//!
//! For a cache of something that is no Kubernetes API, for the test of a controller without a server, for a store that
//! threads share. The source is believed as a server is: a list is the whole state, and what it leaves out is gone; the
//! same uid and version under one key are the same object, so a list tells nobody of it; changes come in order.
//!
//! Rules:
//!
//! - the machine is made with [`InformerConfig::fed`]; it sends nothing, `Start` and `Refresh` change nothing;
//! - the first thing is a list, which may be empty: before it nobody knows what the changes are changes of;
//! - an object without a name, or one on which an index function panics, is quarantined as one that does not decode;
//! - changes are not measured against the store: one of an older version replaces the newer one, as the source says;
//! - an object without a version is taken, for it is easy to make one by hand. It is the same as no other, so each list
//!   tells of it as an update; and the version of the store stays where it is.
//!
//! ```
//! use informer_core::decode::NoGuard;
//! use informer_core::fed::{Change, Fed};
//! use informer_core::informer::{HandlerId, Informer, InformerConfig, Input, Output};
//! use informer_core::listener::{Delivery, Overflow, Ring};
//! use informer_core::store::Store;
//! use informer_core::time::Time;
//! use informer_core::{Key, Obj, Resource, Uid, Version};
//!
//! let light = |name: &str, version: &str, on: bool| {
//!     Obj::new(Key::new("hall", name), Uid::new("u"), Version::new(version), on)
//! };
//! let mut config = InformerConfig::new(Resource::namespaced("example.com", "v1", "lights", "Light"));
//! config.fed = true;
//! let mut informer = Informer::new(config, 7);
//! let (mut store, mut ring) = (Store::new(7), Ring::new(Overflow::default()));
//!
//! let mut changes = Fed::changes([Change::Applied(light("a", "3", false)), Change::Deleted(light("b", "4", true))]);
//! changes.index(&store.indexers(), &NoGuard);
//! for input in [
//!     Input::AddHandler { id: HandlerId(1), resync: None },
//!     Input::Fed(Fed::list([light("a", "1", true), light("b", "2", true)], Version::new("2"))),
//!     Input::Fed(changes),
//! ] {
//!     informer.handle(Time::ZERO, input);
//!     loop {
//!         match informer.poll_output() {
//!             Output::Commit(commit) => {
//!                 let mut done = store.commit(commit);
//!                 done.notifications.drain(..).for_each(|notification| ring.push(notification));
//!                 informer.handle(Time::ZERO, Input::Committed(done.into_receipt()));
//!             }
//!             Output::Attach(_) => ring.replay(store.snapshot()),
//!             Output::Wait(_) => break,
//!             _ => {}
//!         }
//!     }
//! }
//! let told: Vec<_> = std::iter::from_fn(|| ring.pop())
//!     .map(|delivery| match delivery {
//!         Delivery::Notification(notification) => notification.to_string(),
//!         _ => "synced".to_string(),
//!     })
//!     .collect();
//! assert_eq!(
//!     told,
//!     ["added hall/a@1", "added hall/b@2", "synced", "updated hall/a@3 (was 1)", "deleted hall/b@4"]
//! );
//! assert!(!**store.get("hall/a").unwrap() && store.version() == *"4");
//! ```
//!
//! [`InformerConfig::fed`]: crate::informer::InformerConfig::fed

use crate::decode::{BadItem, Gone, Guard, Indexers, Item, drop_guarded};
use crate::fifo::COMMIT_EVENTS;
use crate::object::{Key, KeyRef, Obj, Version};
use crate::store::{Fresh, Slot, Staged, Store};
use alloc::vec::Vec;
use core::{fmt, hint};
use smallvec::SmallVec;

/// One change, as a watch would tell it.
pub enum Change<T> {
    /// The object is there now, new or changed.
    Applied(Obj<T>),
    /// The object is gone; with its last state. Of a key that the store does not have it changes nothing.
    Deleted(Obj<T>),
    /// The object of this key is gone, for a source that knows no more. Handlers get what the store had, with an unknown
    /// final state; the version of the store stays. Of a key that the store does not have it changes nothing.
    DeletedKey(Key),
}

impl<T> Change<T> {
    /// The key that it is about.
    pub fn key(&self) -> KeyRef<'_> {
        match self {
            Change::Applied(object) | Change::Deleted(object) => object.key(),
            Change::DeletedKey(key) => key.borrowed(),
        }
    }

    /// The object that came with it.
    pub fn object(&self) -> Option<&Obj<T>> {
        match self {
            Change::Applied(object) | Change::Deleted(object) => Some(object),
            Change::DeletedKey(_) => None,
        }
    }
}

impl<T> Clone for Change<T> {
    /// Shares the object.
    fn clone(&self) -> Self {
        match self {
            Change::Applied(object) => Change::Applied(object.clone()),
            Change::Deleted(object) => Change::Deleted(object.clone()),
            Change::DeletedKey(key) => Change::DeletedKey(key.clone()),
        }
    }
}

impl<T> fmt::Debug for Change<T> {
    /// As in `applied web/a@7`, `deleted web/a`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Applied(object) => write!(f, "applied {object:?}"),
            Change::Deleted(object) => write!(f, "deleted {object:?}"),
            Change::DeletedKey(key) => write!(f, "deleted {key}"),
        }
    }
}

/// A complete state, or changes in order, for [`Input::Fed`](crate::informer::Input::Fed).
#[must_use = "it is in no cache before an informer was given it"]
pub struct Fed<T> {
    items: Vec<Item<T>>,
    /// Objects without a name: nobody gets them, and whoever drives drops them.
    unfit: Vec<Obj<T>>,
    /// What a complete state stands for; `None` for changes.
    list: Option<Version>,
}

impl<T> Fed<T> {
    /// A complete state that stands for `version`. Of a key that comes twice the last object counts. What the store has at
    /// the same uid and version stays, and nobody is told of it. An empty version is one that cannot be waited for.
    pub fn list(objects: impl IntoIterator<Item = Obj<T>>, version: Version) -> Self {
        let items = objects.into_iter().map(|object| {
            // Whether the store has this very object is seen when it is committed: it may change until then.
            let same: Option<fn(&T, &T) -> bool> = if object.version().is_empty() { None } else { Some(|_, _| true) };
            Item::Fresh { known: None, fresh: Fresh { same, ..Fresh::bare(object) } }
        });
        let mut fed = Fed { items: items.collect(), unfit: Vec::new(), list: Some(version) };
        fed.put_nameless_aside();
        fed
    }

    /// Changes, in the order in which they happened. The store stands for the version of the last one that has one.
    pub fn changes(changes: impl IntoIterator<Item = Change<T>>) -> Self {
        Fed::changes_in(Vec::new(), changes)
    }

    /// The same in memory that is there: see [`Informer::changes`](crate::informer::Informer::changes).
    pub(crate) fn changes_in(items: Vec<Item<T>>, changes: impl IntoIterator<Item = Change<T>>) -> Self {
        debug_assert!(items.is_empty(), "memory, and no change");
        let changes = changes.into_iter();
        let mut fed = Fed { items, unfit: Vec::new(), list: None };
        fed.items.reserve(changes.size_hint().0);
        fed.items.extend(changes.map(|change| match change {
            Change::Applied(object) => Item::Fresh { known: None, fresh: Fresh::bare(object) },
            Change::Deleted(last) => Item::Gone { known: None, gone: Gone::Last(last) },
            Change::DeletedKey(key) => {
                Item::Gone { known: None, gone: Gone::Named { key, version: Version::default() } }
            }
        }));
        fed.put_nameless_aside();
        fed
    }

    /// What has no name cannot be an object. A loop of its own, so that many objects are waited for together: it is the
    /// first look at each, and its count will be wanted, too.
    fn put_nameless_aside(&mut self) {
        for item in &mut self.items {
            let Item::Fresh { fresh: Fresh { object, .. }, .. } = item else { continue };
            hint::black_box(Obj::is_last(object));
            let key = Obj::key_bytes(object);
            if key.is_empty() || key.ends_with(b"/") {
                let bad = BadItem::new(None, object.version().to_version(), "it has no name");
                let unfit = core::mem::replace(item, Item::Bad { known: None, bad });
                self.unfit.extend(unfit.into_object());
            }
        }
    }

    /// Looks up what the store has. Of a list that is objects that it has already: their index values need not be computed.
    /// Of changes it is the places of their objects, which the commit need not look for. Call it under the read lock; it runs
    /// no user code. It may be left out.
    pub fn probe(&mut self, store: &Store<T>) {
        if self.list.is_none() {
            self.items.chunks_mut(COMMIT_EVENTS).for_each(|items| probe_changes(items, store));
            return;
        }
        for item in &mut self.items {
            let Item::Fresh { known, fresh } = item else { continue };
            let (key, version) = (Obj::key_bytes(&fresh.object), fresh.object.version());
            *known = store.find_bytes(key).filter(|slot| {
                let stored = store.at(*slot);
                !version.is_empty() && stored.uid() == fresh.object.uid() && stored.version() == version
            });
        }
    }

    /// Computes index values: user code, to be called under no lock; an object on which it panics is quarantined, with the
    /// guard's word for it. What this has not done the commit does, as for an index that came later
    /// ([`Commit::reindex`](crate::store::Commit::reindex)).
    pub fn index(&mut self, indexers: &Indexers<T>, guard: &dyn Guard) {
        for item in &mut self.items {
            let Item::Fresh { known, fresh } = item else { continue };
            // What a list has as the store has it does not come into the store.
            if self.list.is_some() && known.is_some() {
                continue;
            }
            if let Err(bad) = fresh.reindex(indexers, guard) {
                drop_guarded(guard, core::mem::replace(item, Item::Bad { known: None, bad }));
            }
        }
    }

    /// True for a complete state.
    pub fn is_list(&self) -> bool {
        self.list.is_some()
    }

    /// How many objects or changes there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// True if there are none: a list that deletes everything, or no change.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// All objects of it, for what comes too late.
    pub(crate) fn give_up(self, unwanted: &mut Vec<Obj<T>>) {
        unwanted.extend(self.items.into_iter().filter_map(Item::into_object).chain(self.unfit));
    }

    /// What the queue is given.
    pub(crate) fn into_work(mut self, unwanted: &mut Vec<Obj<T>>) -> FedWork<T> {
        unwanted.append(&mut self.unfit);
        let Fed { items, list, .. } = self;
        match list {
            Some(version) => {
                let mut staged = Staged::unprobed();
                for item in items {
                    staged.push(match item {
                        // Where it lay when it was probed may be another's place by now.
                        Item::Fresh { known: _, fresh } => Item::Fresh { known: None, fresh },
                        other @ (Item::Unchanged(_) | Item::Gone { .. } | Item::Bad { .. }) => other,
                    });
                }
                FedWork::List(staged, version)
            }
            None => FedWork::Changes(items),
        }
    }
}

/// Where the objects lie that changes are of.
fn probe_changes<T>(items: &mut [Item<T>], store: &Store<T>) {
    let mut places = SmallVec::<[Option<Slot>; COMMIT_EVENTS]>::new();
    let keys = items.iter().map(|item| match item {
        Item::Fresh { fresh, .. } => Obj::key_bytes(&fresh.object),
        Item::Gone { gone: Gone::Last(last), .. } => Obj::key_bytes(last),
        Item::Gone { gone: Gone::Named { key, .. }, .. } => key.as_str().as_bytes(),
        // No object has an empty key.
        Item::Unchanged(_) | Item::Bad { .. } => &[],
    });
    store.find_each(keys, |place| places.push(place));
    for (item, place) in items.iter_mut().zip(places) {
        if let Item::Fresh { known, .. } | Item::Gone { known, .. } = item {
            *known = place;
        }
    }
}

pub(crate) enum FedWork<T> {
    List(Staged<T>, Version),
    Changes(Vec<Item<T>>),
}

impl<T> fmt::Debug for Fed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.list {
            Some(version) => write!(f, "a list of {} objects at version {version}", self.len()),
            None => write!(f, "{} changes", self.len()),
        }
    }
}
