//! From raw items to objects: [`Codec`], and the one function every driver calls for `Output::Decode`.
//!
//! Decoding is nine tenths of the work of a sync, and it is work, not a decision. So the machine hands out a batch of
//! raw items and any driver, inline or on a pool, turns it into [`Decoded`] objects in two steps: [`probe`] looks up
//! what the store has (short, under its read lock), [`decode`] builds what is new (long, user code, under no lock).
//! [`part`] and [`join`] are `decode` for several threads: items do not depend on one another.
//!
//! [`probe`]: DecodeJob::probe
//! [`decode`]: DecodeJob::decode
//! [`part`]: DecodeJob::part
//! [`join`]: DecodeJob::join

use crate::object::{DecodeError, Key, Obj, Object, Resource, Uid, Version};
use crate::store::{Fresh, IndexDef, Slot, Store};
use crate::wire::{ItemKind, RawBatch, RawItem};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use smallvec::SmallVec;

type Build<T> = dyn Fn(&[u8], &Resource) -> Result<T, DecodeError> + Send + Sync;

/// How the JSON of one resource becomes what the cache stores: decoding and a transform.
///
/// ```
/// use informer_core::decode::Codec;
/// use informer_core::{DynamicObject, Object, ObjectMeta, Resource};
///
/// let widgets = Resource::namespaced("example.com", "v1", "widgets", "Widget");
/// // Keep the length of the JSON only: the cache then holds a number per object.
/// let codec = Codec::<DynamicObject>::new(widgets).map(|widget| Ok(widget.json().len()));
/// assert_eq!(codec.build(br#"{"metadata":{}}"#).unwrap(), 15);
/// ```
pub struct Codec<T> {
    resource: Resource,
    build: Arc<Build<T>>,
}

impl<T> Clone for Codec<T> {
    fn clone(&self) -> Self {
        Codec { resource: self.resource.clone(), build: self.build.clone() }
    }
}

impl<T: Object> Codec<T> {
    /// Decodes items of `resource` with [`Object::decode`].
    pub fn new(resource: Resource) -> Self {
        Codec { resource, build: Arc::new(T::decode) }
    }
}

impl<T: 'static> Codec<T> {
    /// Adds a transform: it runs once for each object that the server sends, before anyone sees the object, and never
    /// on a resync or for a deletion that was missed (B087). It may change the type. Identity and version stand
    /// beside the value, out of its reach.
    ///
    /// An error quarantines the one object (B088).
    pub fn map<U>(self, transform: impl Fn(T) -> Result<U, DecodeError> + Send + Sync + 'static) -> Codec<U> {
        let build = self.build;
        Codec {
            resource: self.resource,
            build: Arc::new(move |json: &[u8], resource: &Resource| transform(build(json, resource)?)),
        }
    }
}

impl<T> Codec<T> {
    /// The resource whose items this decodes.
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// Builds one value.
    ///
    /// # Errors
    ///
    /// If the JSON does not fit the type, or the transform refuses it.
    pub fn build(&self, json: &[u8]) -> Result<T, DecodeError> {
        (self.build)(json, &self.resource)
    }
}

impl<T> fmt::Debug for Codec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "codec of {}", self.resource)
    }
}

/// Calls user code and turns a panic into an error. The core cannot catch a panic (`no_std`); runtimes can.
pub trait Guard {
    /// Runs `work` to its end, or says why it panicked.
    ///
    /// # Errors
    ///
    /// The text of the panic.
    fn run(&self, work: &mut dyn FnMut()) -> Result<(), String>;
}

/// Lets panics pass: for tests and drivers that want to die.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoGuard;

impl Guard for NoGuard {
    fn run(&self, work: &mut dyn FnMut()) -> Result<(), String> {
        work();
        Ok(())
    }
}

/// One raw item after decoding.
pub(crate) enum Item<T> {
    /// The store has this very version of this incarnation: nothing was built.
    Unchanged(Slot),
    /// An object that was added or changed.
    Fresh {
        /// What the store had under its key when the batch was probed.
        known: Option<Slot>,
        fresh: Fresh<T>,
    },
    /// An object that was deleted; `last` is what the server sent with it, if it could be decoded.
    Gone { known: Option<Slot>, key: Key, version: Version, last: Option<Obj<T>> },
    /// An object that could not be built. It counts as present.
    Bad { known: Option<Slot>, bad: BadItem },
}

impl<T> Item<T> {
    /// The version that the event stood for, where it carried one.
    pub(crate) fn version(&self) -> Option<&Version> {
        match self {
            Item::Unchanged(_) => None,
            Item::Fresh { fresh, .. } => Some(fresh.object.version()),
            Item::Gone { version, .. } => Some(version),
            Item::Bad { bad, .. } => Some(&bad.version),
        }
    }
}

/// An item that could not become an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadItem {
    /// Its key, if the metadata could be read that far.
    pub key: Option<Key>,
    /// Its version; empty if it has none.
    pub version: Version,
    /// What is wrong with it.
    pub reason: String,
}

/// Raw items that wait to be decoded. Made by the machine, carried out by the driver.
pub struct DecodeJob {
    pub(crate) ticket: Ticket,
    pub(crate) batch: RawBatch,
    known: Vec<Known>,
}

/// Which attempt of which informer a job belongs to: an answer for a stale attempt is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ticket {
    pub(crate) attempt: u64,
    /// Part of a list that is staged, and not an event of a watch.
    pub(crate) staged: bool,
    /// Build every object, also one whose uid and version the store has.
    pub(crate) rebuild: bool,
}

#[derive(Clone, Copy)]
enum Known {
    No,
    Other(Slot),
    Same(Slot),
}

impl DecodeJob {
    pub(crate) fn new(ticket: Ticket, batch: RawBatch) -> Self {
        DecodeJob { ticket, batch, known: Vec::new() }
    }

    /// How many items wait.
    pub fn len(&self) -> usize {
        self.batch.len()
    }

    /// True if none waits.
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// How many bytes of JSON wait.
    pub fn bytes(&self) -> usize {
        self.batch.bytes_len()
    }

    /// Looks up every item in the store: what has the same uid and version need not be built again. Call it under the
    /// read lock; it runs no user code.
    pub fn probe<T>(&mut self, store: &Store<T>) {
        self.known.clear();
        self.known.extend(self.batch.iter().map(|item| match store.slot_of(item.namespace, item.name) {
            None => Known::No,
            Some((slot, object)) => {
                let same = self.ticket.staged
                    && !self.ticket.rebuild
                    && *object.version() == *item.version
                    && *object.uid() == *item.uid
                    && !store.is_stale(slot);
                if same { Known::Same(slot) } else { Known::Other(slot) }
            }
        }));
    }

    /// Builds what is new. Runs user code (deserialise, transform, index functions): call it under no lock.
    ///
    /// # Panics
    ///
    /// If [`probe`](Self::probe) was not called before.
    pub fn decode<T>(self, codec: &Codec<T>, indexes: &Indexers<T>, guard: &dyn Guard) -> Decoded<T> {
        let all = self.part(0..self.len(), codec, indexes, guard);
        self.join([all])
    }

    /// Builds the items in `range`: for drivers that share a batch among threads. What [`decode`](Self::decode) says
    /// holds here too.
    ///
    /// # Panics
    ///
    /// If [`probe`](Self::probe) was not called before, or `range` goes beyond [`len`](Self::len).
    pub fn part<T>(
        &self,
        range: Range<usize>,
        codec: &Codec<T>,
        indexes: &Indexers<T>,
        guard: &dyn Guard,
    ) -> DecodedPart<T> {
        assert_eq!(self.known.len(), self.batch.len(), "probe the batch before decoding it");
        let from = range.start;
        let items = range.map(|at| decode_item(self.batch.get(at), self.known[at], codec, indexes, guard)).collect();
        DecodedPart { from, items }
    }

    /// Puts the parts of this job together, in whatever order they come.
    ///
    /// # Panics
    ///
    /// If an item is in none of them, or in two.
    pub fn join<T>(&self, parts: impl IntoIterator<Item = DecodedPart<T>>) -> Decoded<T> {
        let mut parts: SmallVec<[DecodedPart<T>; 1]> = parts.into_iter().collect();
        parts.sort_unstable_by_key(|part| part.from);
        let mut items = Vec::new();
        for part in parts {
            assert_eq!(part.from, items.len(), "each item is in one part");
            if items.is_empty() {
                items = part.items;
                items.reserve_exact(self.len() - items.len());
            } else {
                items.extend(part.items);
            }
        }
        assert_eq!(items.len(), self.len(), "each item is in one part");
        Decoded { ticket: self.ticket, items }
    }
}

fn decode_item<T>(
    raw: RawItem<'_>,
    known: Known,
    codec: &Codec<T>,
    indexes: &Indexers<T>,
    guard: &dyn Guard,
) -> Item<T> {
    let (is_listed, known) = match known {
        Known::Same(slot) if matches!(raw.kind, ItemKind::Listed | ItemKind::Added) => return Item::Unchanged(slot),
        Known::Same(slot) | Known::Other(slot) => (raw.kind == ItemKind::Listed, Some(slot)),
        Known::No => (raw.kind == ItemKind::Listed, None),
    };
    let version = Version::new(raw.version);
    let Some(key) = raw.key() else {
        let reason = if is_listed { "an item of the list has no readable name" } else { "no readable name" };
        return Item::Bad { known, bad: BadItem { key: None, version, reason: reason.into() } };
    };
    let uid = Uid::new(raw.uid);
    let built = match foreign(&raw, codec.resource()) {
        Some(reason) => Err(DecodeError::new(reason)),
        None => {
            let mut built = None;
            let ran = guard.run(&mut || {
                built = Some(codec.build(raw.json).map(|value| {
                    let object = Obj::new(key.clone(), uid.clone(), version.clone(), value);
                    indexes.fresh(object)
                }));
            });
            match (ran, built) {
                (Ok(()), Some(built)) => built,
                (Ok(()), None) => Err(DecodeError::new("the guard did not run the decoder")),
                (Err(panic), _) => Err(DecodeError::new(format_args!("user code panicked: {panic}"))),
            }
        }
    };
    match (raw.kind, built) {
        (ItemKind::Deleted, built) => Item::Gone { known, key, version, last: built.ok().map(|fresh| fresh.object) },
        (_, Ok(_)) if version.is_empty() => {
            let reason = "it has no metadata.resourceVersion".into();
            Item::Bad { known, bad: BadItem { key: Some(key), version, reason } }
        }
        (_, Ok(fresh)) => Item::Fresh { known, fresh },
        (_, Err(error)) => Item::Bad { known, bad: BadItem { key: Some(key), version, reason: format!("{error}") } },
    }
}

/// Why an item that names its kind is not of this resource, if it is not (B063). A resource whose kind is unknown takes
/// any.
pub(crate) fn foreign(raw: &RawItem<'_>, resource: &Resource) -> Option<String> {
    let wrong_kind = !raw.object_kind.is_empty() && !resource.kind.is_empty() && raw.object_kind != resource.kind;
    let wrong_version = !raw.api_version.is_empty() && !resource.is_api_version(raw.api_version);
    (wrong_kind || wrong_version).then(|| {
        let (kind, of) = (&resource.kind, resource.api_version());
        format!("it is a {} of {}, not a {kind} of {of}", raw.object_kind, raw.api_version)
    })
}

/// The index functions of one informer at one time. Cheap to clone.
pub struct Indexers<T> {
    pub(crate) generation: u64,
    pub(crate) list: Arc<[IndexDef<T>]>,
}

impl<T> Clone for Indexers<T> {
    fn clone(&self) -> Self {
        Indexers { generation: self.generation, list: self.list.clone() }
    }
}

impl<T> Indexers<T> {
    /// Computes the values of one object: user code.
    pub(crate) fn fresh(&self, object: Obj<T>) -> Fresh<T> {
        let values = self.list.iter().map(|index| index.values(&object)).collect();
        Fresh { object, values, generation: self.generation }
    }
}

impl<T> fmt::Debug for Indexers<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.list.iter()).finish()
    }
}

/// Some items of a job, decoded by one thread of several.
pub struct DecodedPart<T> {
    /// The place of the first one in the job.
    from: usize,
    items: Vec<Item<T>>,
}

/// A decoded batch, on its way back to the machine. The order is that of the wire.
pub struct Decoded<T> {
    pub(crate) ticket: Ticket,
    pub(crate) items: Vec<Item<T>>,
}

impl<T> Decoded<T> {
    /// How many items were decoded, recognised or found to be bad.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// True if the batch was empty.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::DynamicObject;
    use std::vec;

    fn job(objects: usize) -> (DecodeJob, Codec<DynamicObject>, Store<DynamicObject>) {
        let mut batch = RawBatch::new();
        for n in 0..objects {
            let json = format!(r#"{{"metadata":{{"name":"n{n}","uid":"u","resourceVersion":"{n}"}}}}"#);
            batch.push(ItemKind::Listed, json.as_bytes());
        }
        let store = Store::new(7);
        let mut job = DecodeJob::new(Ticket { attempt: 1, staged: true, rebuild: false }, batch);
        job.probe(&store);
        (job, Codec::new(Resource::namespaced("", "v1", "pods", "Pod")), store)
    }

    fn versions(decoded: &Decoded<DynamicObject>) -> Vec<&str> {
        decoded.items.iter().map(|item| item.version().unwrap().as_str()).collect()
    }

    #[test]
    fn parts_that_come_in_any_order_are_the_whole() {
        let (job, codec, store) = job(5);
        let part = |range| job.part(range, &codec, &store.indexers(), &NoGuard);
        let joined = job.join([part(3..5), part(0..1), part(1..3)]);
        assert_eq!(versions(&joined), ["0", "1", "2", "3", "4"]);
        assert_eq!(versions(&job.decode(&codec, &store.indexers(), &NoGuard)), versions(&joined));
    }

    #[test]
    #[should_panic(expected = "each item is in one part")]
    fn a_missing_part_is_noticed() {
        let (job, codec, store) = job(5);
        let part = |range| job.part(range, &codec, &store.indexers(), &NoGuard);
        let _ = job.join(vec![part(0..2), part(3..5)]);
    }

    #[test]
    #[should_panic(expected = "each item is in one part")]
    fn an_item_in_two_parts_is_noticed() {
        let (job, codec, store) = job(5);
        let part = |range| job.part(range, &codec, &store.indexers(), &NoGuard);
        let _ = job.join([part(0..3), part(2..5)]);
    }

    #[test]
    fn an_empty_batch_is_whole() {
        let (job, codec, store) = job(0);
        assert!(job.decode(&codec, &store.indexers(), &NoGuard).is_empty());
    }
}
