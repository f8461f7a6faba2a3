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

use crate::object::{DecodeError, Key, KeyRef, Obj, Object, Resource, UidRef, Version, VersionRef};
use crate::store::{AllValues, Fresh, IndexDef, Slot, Source, Store};
use crate::wire::{ItemKind, RawBatch, RawItem, clip, excerpt};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
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
    same: fn(&T, &T) -> bool,
}

impl<T> Clone for Codec<T> {
    fn clone(&self) -> Self {
        Codec { resource: self.resource.clone(), build: self.build.clone(), same: self.same }
    }
}

impl<T: Object> Codec<T> {
    /// Decodes items of `resource` with [`Object::decode`].
    pub fn new(resource: Resource) -> Self {
        Codec { resource, build: Arc::new(T::decode), same: T::is_same }
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
            // What a transform makes need not be comparable.
            same: |_, _| false,
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
    /// An object that was deleted.
    Gone { known: Option<Slot>, gone: Gone<T> },
    /// An object that could not be built. It counts as present.
    Bad { known: Option<Slot>, bad: BadItem },
}

impl<T> Item<T> {
    /// The object, if one was built: for who drops it elsewhere.
    pub(crate) fn into_object(self) -> Option<Obj<T>> {
        match self {
            Item::Fresh { fresh, .. } => Some(fresh.object),
            Item::Gone { gone: Gone::Last(last), .. } => Some(last),
            Item::Gone { gone: Gone::Named { .. }, .. } | Item::Unchanged(_) | Item::Bad { .. } => None,
        }
    }
}

/// A deletion.
pub(crate) enum Gone<T> {
    /// With what the server sent of the object.
    Last(Obj<T>),
    /// What the server sent could not be decoded.
    Named { key: Key, version: Version },
}

impl<T> Gone<T> {
    pub(crate) fn key(&self) -> KeyRef<'_> {
        match self {
            Gone::Last(object) => object.key(),
            Gone::Named { key, .. } => key.borrowed(),
        }
    }

    fn version(&self) -> VersionRef<'_> {
        match self {
            Gone::Last(object) => object.version(),
            Gone::Named { version, .. } => version.borrowed(),
        }
    }
}

impl<T> Item<T> {
    /// The version that the event stood for, where it carried one.
    pub(crate) fn version(&self) -> Option<VersionRef<'_>> {
        match self {
            Item::Unchanged(_) => None,
            Item::Fresh { fresh, .. } => Some(fresh.object.version()),
            Item::Gone { gone, .. } => Some(gone.version()),
            Item::Bad { bad, .. } => Some(bad.version.borrowed()),
        }
    }
}

/// The longest reason that is kept, in bytes. A decoder may quote the object, which is megabytes at worst, and each
/// quarantined object keeps its reason for as long as it stays.
const REASON_BYTES: usize = 1024;

/// An item that could not become an object.
///
/// Its `Display` is a sentence for a log, on one line: `web/a at version 7 cannot be used: …`.
#[derive(Clone, PartialEq, Eq)]
pub struct BadItem {
    /// Its key, if the metadata could be read that far.
    pub key: Option<Key>,
    /// Its version; empty if it has none.
    pub version: Version,
    /// What is wrong with it; at most 1 KiB.
    pub reason: String,
}

impl BadItem {
    pub(crate) fn new(key: Option<Key>, version: Version, reason: impl fmt::Display) -> Self {
        let mut reason = format!("{reason}");
        clip(&mut reason, REASON_BYTES);
        reason.shrink_to_fit();
        BadItem { key, version, reason }
    }
}

impl fmt::Display for BadItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            // Names come from the server, and some kinds allow any character in them.
            Some(key) => f.write_str(&excerpt(key.as_str().as_bytes()))?,
            None => f.write_str("an object without a readable name")?,
        }
        if !self.version.is_empty() {
            write!(f, " at version {}", excerpt(self.version.as_str().as_bytes()))?;
        }
        write!(f, " cannot be used: {}", self.reason)
    }
}

impl fmt::Debug for BadItem {
    /// The text of Display: `main` prints errors so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for BadItem {}

/// Raw items that wait to be decoded. Made by the machine, carried out by the driver.
pub struct DecodeJob {
    pub(crate) ticket: Ticket,
    pub(crate) batch: RawBatch,
    /// What the store has of each item; inside for the few that a watch brings at a time.
    known: SmallVec<[Known; 8]>,
    /// How many of them are not built, and their bytes.
    unchanged: (usize, usize),
}

/// Which attempt of which informer a job belongs to: an answer for a stale attempt is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ticket {
    pub(crate) attempt: u64,
    /// Part of a list that is staged, and not an event of a watch.
    pub(crate) staged: bool,
    pub(crate) trust: Trust,
}

/// What it takes for an object of a list to be the one that the store has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Trust {
    /// Its uid and version: it is not even read.
    Versions,
    /// Its uid and version; and its content, if the list turns out to be older than the cache: then versions may have been
    /// given out again (C25). Which of both is known only when the list is complete, so it is read.
    Contents,
    /// Nothing makes it the same: a refresh tells handlers of every object.
    Nothing,
}

#[derive(Clone, Copy)]
enum Known {
    No,
    Other(Slot),
    /// At the same uid and version, which is enough: it stays.
    Same(Slot),
}

impl DecodeJob {
    pub(crate) fn new(ticket: Ticket, batch: RawBatch) -> Self {
        DecodeJob { ticket, batch, known: SmallVec::new(), unchanged: (0, 0) }
    }

    /// How many items wait.
    pub fn len(&self) -> usize {
        self.batch.len()
    }

    /// True if none waits.
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// True for items of a list, which become part of the store together; false for events of a watch.
    pub fn is_list(&self) -> bool {
        self.ticket.staged
    }

    /// How many bytes of JSON wait.
    pub fn bytes(&self) -> usize {
        self.batch.bytes_len()
    }

    /// How many items are to be built: those that wait, but for what [`probe`](Self::probe) has found unchanged.
    pub fn unbuilt(&self) -> usize {
        self.len() - self.unchanged.0
    }

    /// The part of [`bytes`](Self::bytes) that these are: whether a batch is worth a thread.
    pub fn unbuilt_bytes(&self) -> usize {
        self.bytes() - self.unchanged.1
    }

    /// Looks up every item in the store: what has the same uid and version need not be built again. Call it under the
    /// read lock; it runs no user code.
    pub fn probe<T>(&mut self, store: &Store<T>) {
        let trusted = self.ticket.staged && self.ticket.trust == Trust::Versions;
        let mut unchanged = (0, 0);
        self.known.clear();
        self.known.extend(self.batch.iter().map(|item| match store.slot_of(item.namespace, item.name) {
            None => Known::No,
            Some((slot, object)) => {
                let same = trusted
                    && matches!(item.kind, ItemKind::Listed | ItemKind::Added)
                    && Obj::is_at(object, item.uid, item.version)
                    && !store.is_stale(slot);
                if !same {
                    return Known::Other(slot);
                }
                unchanged = (unchanged.0 + 1, unchanged.1 + item.bytes_len());
                Known::Same(slot)
            }
        }));
        self.unchanged = unchanged;
    }

    /// Builds what is new. Runs user code (deserialise, transform, index functions): call it under no lock.
    ///
    /// # Panics
    ///
    /// If [`probe`](Self::probe) was not called before.
    pub fn decode<T>(self, codec: &Codec<T>, indexes: &Indexers<T>, guard: &dyn Guard) -> Decoded<T> {
        let all = self.part(0..self.len(), 0, codec, indexes, guard);
        self.join([all])
    }

    /// Builds the items in `range`: for drivers that share a batch among threads. `maker` is the number of the calling
    /// thread, 0 for the driver's; it is only noted. What [`decode`](Self::decode) says holds here too.
    ///
    /// # Panics
    ///
    /// If [`probe`](Self::probe) was not called before, or `range` goes beyond [`len`](Self::len).
    pub fn part<T>(
        &self,
        range: Range<usize>,
        maker: u8,
        codec: &Codec<T>,
        indexes: &Indexers<T>,
        guard: &dyn Guard,
    ) -> DecodedPart<T> {
        assert_eq!(self.known.len(), self.batch.len(), "probe the batch before decoding it");
        let (from, trust) = (range.start, self.ticket.trust);
        let items = range.map(|at| {
            let mut item = decode_item(self.batch.get(at), self.known[at], maker, codec, indexes, guard);
            if let (Item::Fresh { known: Some(_), fresh }, Trust::Contents) = (&mut item, trust) {
                fresh.same = Some(codec.same);
            }
            item
        });
        DecodedPart { from, items: items.collect() }
    }

    /// Puts the parts of this job together, in whatever order they come.
    ///
    /// # Panics
    ///
    /// If an item is in none of them, or in two.
    pub fn join<T>(&self, parts: impl IntoIterator<Item = DecodedPart<T>>) -> Decoded<T> {
        let mut parts: SmallVec<[DecodedPart<T>; 1]> = parts.into_iter().collect();
        parts.sort_unstable_by_key(|part| part.from);
        let mut items = Items::new();
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
    maker: u8,
    codec: &Codec<T>,
    indexes: &Indexers<T>,
    guard: &dyn Guard,
) -> Item<T> {
    let (is_listed, known) = match known {
        Known::Same(slot) => return Item::Unchanged(slot),
        Known::Other(slot) => (raw.kind == ItemKind::Listed, Some(slot)),
        Known::No => (raw.kind == ItemKind::Listed, None),
    };
    if !raw.has_key() {
        let reason = if is_listed { "an item of the list has no readable name" } else { "no readable name" };
        return Item::Bad { known, bad: BadItem::new(None, Version::new(raw.version), reason) };
    }
    // Only what has no object needs texts of its own.
    let (key, version) = (|| Key::new(raw.namespace, raw.name), || Version::new(raw.version));
    let bad = |reason: &dyn fmt::Display| Item::Bad { known, bad: BadItem::new(Some(key()), version(), reason) };
    let built = match unfit(&raw, codec.resource()) {
        Some(reason) => Err(DecodeError::new(reason)),
        None => {
            // Out here, so that an index function that panics does not drop the object while it unwinds: a second panic then
            // would end the process.
            let (mut made, mut values) = (None, AllValues::new());
            let ran = guard.run(&mut || {
                let uid = UidRef::of(raw.uid);
                let built = codec.build(raw.json);
                let built = built.map(|value| Obj::made(maker, raw.namespace, raw.name, uid, raw.version, value));
                if let Ok(object) = made.insert(built) {
                    indexes.values(object, &mut values);
                }
            });
            match (ran, made) {
                (Ok(()), Some(Ok(object))) => Ok(indexes.fresh_with(object, values)),
                (Ok(()), Some(Err(error))) => Err(error),
                (Ok(()), None) => Err(DecodeError::new("the guard did not run the decoder")),
                (Err(panic), Some(made)) => {
                    drop_guarded(guard, made);
                    Err(DecodeError::new(indexes.panicked(&values, &panic)))
                }
                (Err(panic), None) => Err(DecodeError::new(format_args!("user code panicked: {panic}"))),
            }
        }
    };
    match (raw.kind, built) {
        (ItemKind::Deleted, Ok(fresh)) => Item::Gone { known, gone: Gone::Last(fresh.object) },
        (ItemKind::Deleted, Err(_)) => Item::Gone { known, gone: Gone::Named { key: key(), version: version() } },
        (_, Ok(fresh)) if raw.version.is_empty() => {
            drop_guarded(guard, fresh);
            bad(&"it has no metadata.resourceVersion")
        }
        (_, Ok(fresh)) => Item::Fresh { known, fresh },
        (_, Err(error)) => bad(&error),
    }
}

/// Drops what nobody gets: code of the user's, whose panic harms nobody, and there is nobody to be told of it.
pub(crate) fn drop_guarded<V>(guard: &dyn Guard, unfit: V) {
    let mut unfit = Some(unfit);
    let _ = guard.run(&mut || drop(unfit.take()));
}

/// Why an item is not even given to the decoder, if it is not.
fn unfit(raw: &RawItem<'_>, resource: &Resource) -> Option<String> {
    let too_deep = || raw.too_deep.then(|| "it is nested too deeply (Limits::depth)".into());
    foreign(raw, resource).or_else(too_deep)
}

/// Why an item that names its kind is not of this resource, if it is not (B063). A resource whose kind is unknown takes
/// any.
pub(crate) fn foreign(raw: &RawItem<'_>, resource: &Resource) -> Option<String> {
    let wrong_kind = !raw.object_kind.is_empty() && !resource.kind.is_empty() && raw.object_kind != resource.kind;
    let wrong_version = !raw.api_version.is_empty() && !resource.is_api_version(raw.api_version);
    (wrong_kind || wrong_version).then(|| {
        let kind = if resource.kind.is_empty() { "an object".into() } else { format!("a {}", resource.kind) };
        let of = resource.api_version();
        let [its_kind, its_version] = [raw.object_kind, raw.api_version].map(|text| excerpt(text.as_bytes()));
        format!("it is a {its_kind} of {its_version}, not {kind} of {of}")
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
    /// Computes the values of one object: user code. Those of namespaces stand in the key.
    pub(crate) fn fresh(&self, object: Obj<T>) -> Fresh<T> {
        let mut values = AllValues::new();
        self.values(&object, &mut values);
        self.fresh_with(object, values)
    }

    /// Those whose functions compute values: the others the store reads from the key.
    fn computed(&self) -> impl Iterator<Item = &IndexDef<T>> {
        self.list.iter().filter(|index| *index.source() != Source::Namespace)
    }

    /// Computes into `values`, which is empty, what the store cannot read from the key. If a function panics, those of the
    /// indexes before it are there.
    pub(crate) fn values(&self, object: &Obj<T>, values: &mut AllValues) {
        for index in self.computed() {
            values.push(index.values(object));
        }
    }

    /// Why the object is put aside whose [`values`](Self::values) ended there with a panic.
    pub(crate) fn panicked(&self, values: &AllValues, panic: &str) -> String {
        let index = self.computed().nth(values.len()).map(IndexDef::name).unwrap_or_default();
        format!("the function of index {index:?} panicked: {panic}")
    }

    /// False if the store reads all values from the key.
    pub(crate) fn run_user_code(&self) -> bool {
        self.computed().next().is_some()
    }

    fn fresh_with(&self, object: Obj<T>, values: AllValues) -> Fresh<T> {
        Fresh { object, values, generation: self.generation, same: None }
    }
}

impl<T> fmt::Debug for Indexers<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.list.iter()).finish()
    }
}

/// A quiet watch brings one event at a time.
type Items<T> = SmallVec<[Item<T>; 1]>;

/// Some items of a job, decoded by one thread of several.
pub struct DecodedPart<T> {
    /// The place of the first one in the job.
    from: usize,
    items: Items<T>,
}

/// A decoded batch, on its way back to the machine. The order is that of the wire.
pub struct Decoded<T> {
    pub(crate) ticket: Ticket,
    pub(crate) items: Items<T>,
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
    use crate::object::{DynamicObject, ObjectMeta};
    use alloc::string::ToString;
    use alloc::vec;
    use alloc::vec::Vec;

    const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");

    /// What becomes of these items: a key and version, or a sentence.
    fn decode<T: Object>(kind: ItemKind, items: &[&str]) -> Vec<String> {
        let mut batch = RawBatch::new();
        items.iter().for_each(|json| batch.push(kind, json.as_bytes()));
        let mut job =
            DecodeJob::new(Ticket { attempt: 1, staged: kind == ItemKind::Listed, trust: Trust::Versions }, batch);
        let store = Store::new(7);
        job.probe(&store);
        let decoded = job.decode::<T>(&Codec::new(PODS), &store.indexers(), &NoGuard);
        decoded
            .items
            .iter()
            .map(|item| match item {
                Item::Unchanged(_) => "unchanged".into(),
                Item::Fresh { fresh, .. } => format!("{:?}", fresh.object),
                Item::Gone { gone, .. } => {
                    format!("gone {}@{} {}", gone.key(), gone.version(), matches!(gone, Gone::Last(_)))
                }
                Item::Bad { bad, .. } => bad.to_string(),
            })
            .collect()
    }

    /// A type with a field that must be a number.
    #[derive(serde::Deserialize)]
    struct Sized {
        metadata: ObjectMeta,
        #[allow(dead_code, reason = "only decoded")]
        size: u32,
    }

    impl Object for Sized {
        type Meta = ObjectMeta;
        fn resource() -> Resource {
            PODS
        }
        fn metadata(&self) -> &ObjectMeta {
            &self.metadata
        }
    }

    fn item(size: &str) -> String {
        format!(r#"{{"metadata":{{"namespace":"n","name":"a","resourceVersion":"7"}},"size":{size}}}"#)
    }

    /// B029: each bad item names itself and says what is wrong; its neighbours are decoded.
    #[test]
    fn a_bad_item_is_put_aside_with_key_version_and_reason() {
        let seen = decode::<Sized>(ItemKind::Listed, &[&item("1"), &item("\"big\""), &item("-1"), &item("2")]);
        assert_eq!((seen[0].as_str(), seen[3].as_str()), ("n/a@7", "n/a@7"));
        for (bad, why) in [(&seen[1], "invalid type: string \"big\", expected u32"), (&seen[2], "invalid value")] {
            assert!(bad.starts_with("n/a at version 7 cannot be used: ") && bad.contains(why), "{bad}");
        }
    }

    /// F41, B057, B063: everything that makes an item unusable, in the words that a user sees.
    #[test]
    fn each_way_to_be_unusable_has_its_own_words() {
        let deep = format!(
            r#"{{"metadata":{{"name":"a","resourceVersion":"7"}},"spec":{}{}}}"#,
            "[".repeat(200),
            "]".repeat(200)
        );
        for (json, expected) in [
            (r#"{"metadata":{"name":"a"}}"#, "a cannot be used: it has no metadata.resourceVersion"),
            (r#"{"metadata":{"name":"a","resourceVersion":null}}"#, "a cannot be used: invalid type: null"),
            (r#"{"metadata":{"name":"a","resourceVersion":7}}"#, "a cannot be used: invalid type: integer `7`"),
            (
                r#"{"metadata":{"name":5,"resourceVersion":"7"}}"#,
                "an object without a readable name at version 7 cannot",
            ),
            (
                r#"{"metadata":{"resourceVersion":"7"}}"#,
                "an object without a readable name at version 7 cannot be used",
            ),
            (r#"{"metadata":{"name":"a/b","resourceVersion":"7"}}"#, "an object without a readable name at version 7"),
            (r#"{"metadata":null}"#, "an object without a readable name cannot be used: "),
            ("{}", "an object without a readable name cannot be used: "),
            ("null", "an object without a readable name cannot be used: "),
            (
                r#"{"kind":"Node","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"7"}}"#,
                "a at version 7 cannot be used: it is a Node of v1, not a Pod of v1",
            ),
            (
                r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a","resourceVersion":"7"}}"#,
                "a at version 7 cannot be used: it is a PartialObjectMetadata of meta.k8s.io/v1, not a Pod of v1",
            ),
            (
                r#"{"metadata":{"name":"a","resourceVersion":"7","labels":{"x":{}}}}"#,
                "a at version 7 cannot be used: invalid type: map",
            ),
            (
                r#"{"metadata":{"name":"a","name":"b","resourceVersion":"7"}}"#,
                "b at version 7 cannot be used: duplicate",
            ),
            (r#"{"metadata":{"name":"a","resourceVersion":"7"},"x":tru}"#, "a at version 7 cannot be used: expected"),
            (
                r#"{"metadata":{"name":"a","resourceVersion":"7"},"x":{"y" 1}}"#,
                "a at version 7 cannot be used: expected",
            ),
            (
                "{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"7\"},\"x\":\"\0\"}",
                "a at version 7 cannot be used: control",
            ),
            (r#"{"metadata":{"name":"a","resourceVersion":"7"},"\ud83d":1}"#, "a at version 7 cannot be used: "),
            (&deep, "a at version 7 cannot be used: it is nested too deeply"),
        ] {
            for kind in [ItemKind::Listed, ItemKind::Added, ItemKind::Modified] {
                let seen = decode::<DynamicObject>(kind, &[json]);
                assert!(seen[0].starts_with(expected), "{json} as {kind:?}: {}", seen[0]);
            }
        }
    }

    #[test]
    fn an_object_of_another_version_is_told_from_a_resource_whose_kind_is_not_known() {
        let widgets: Resource = "widgets.v1.example.com".parse().unwrap();
        let json = br#"{"kind":"Widget","apiVersion":"example.com/v2","metadata":{"name":"a","resourceVersion":"7"}}"#;
        let mut batch = RawBatch::new();
        batch.push(ItemKind::Listed, json);
        let reason = foreign(&batch.iter().next().unwrap(), &widgets).unwrap();
        assert_eq!(reason, "it is a Widget of example.com/v2, not an object of example.com/v1");
    }

    /// C10: a deletion needs no body, only a name.
    #[test]
    fn a_deletion_counts_although_its_object_cannot_be_used() {
        for (json, expected) in [
            (item("1"), "gone n/a@7 true"),
            (item("\"big\""), "gone n/a@7 false"),
            (item(&format!("{}{}", "[".repeat(200), "]".repeat(200))), "gone n/a@7 false"),
        ] {
            assert_eq!(decode::<Sized>(ItemKind::Deleted, &[&json]), [expected], "{json}");
        }
        assert_eq!(decode::<Sized>(ItemKind::Deleted, &[r#"{"metadata":{"name":"a"},"size":1}"#]), ["gone a@ true"]);
    }

    #[test]
    fn a_reason_is_short_and_on_one_line_whatever_the_object_is() {
        let json = item(&format!("{:?}", "x".repeat(1 << 20)));
        let seen = decode::<Sized>(ItemKind::Listed, &[&json]);
        assert!(seen[0].contains("\"xxx") && seen[0].len() < REASON_BYTES + 100, "{} bytes", seen[0].len());

        let kind =
            format!(r#"{{"kind":"a\n{}","metadata":{{"name":"x\ny\u001b","resourceVersion":"7"}}}}"#, "k".repeat(999));
        let seen = decode::<Sized>(ItemKind::Listed, &[&kind]);
        assert!(seen[0].starts_with("x\\ny\\u{1b} at version 7 cannot be used: it is a a\\nkkk"), "{}", seen[0]);
        assert!(seen[0].len() < 400 && !seen[0].contains(char::is_control));
    }

    /// B037
    #[test]
    fn items_of_a_list_need_no_kind() {
        let json = r#"{"metadata":{"name":"a","resourceVersion":"7"}}"#;
        let object = Codec::<DynamicObject>::new(PODS).build(json.as_bytes()).unwrap();
        assert_eq!((object.kind(), object.api_version()), ("Pod", "v1"));
        assert_eq!(decode::<DynamicObject>(ItemKind::Listed, &[json]), vec!["a@7"]);
    }

    fn job(objects: usize) -> (DecodeJob, Codec<DynamicObject>, Store<DynamicObject>) {
        let mut batch = RawBatch::new();
        for n in 0..objects {
            let json = format!(r#"{{"metadata":{{"name":"n{n}","uid":"u","resourceVersion":"{n}"}}}}"#);
            batch.push(ItemKind::Listed, json.as_bytes());
        }
        let store = Store::new(7);
        let mut job = DecodeJob::new(Ticket { attempt: 1, staged: true, trust: Trust::Versions }, batch);
        job.probe(&store);
        (job, Codec::new(PODS), store)
    }

    fn versions(decoded: &Decoded<DynamicObject>) -> Vec<&str> {
        decoded.items.iter().map(|item| item.version().unwrap().as_str()).collect()
    }

    #[test]
    fn what_the_store_has_at_the_same_version_is_not_to_be_built() {
        let (first, codec, mut store) = job(3);
        for item in first.decode(&codec, &store.indexers(), &NoGuard).items {
            store.upsert(item.into_object().expect("each was built"));
        }
        let (mut again, ..) = job(5);
        assert_eq!((again.unbuilt(), again.unbuilt_bytes()), (5, again.bytes()), "the empty store has none");
        again.probe(&store);
        let new: usize = [3, 4].map(|at| again.batch.get(at).bytes_len()).iter().sum();
        assert_eq!((again.len(), again.unbuilt(), again.unbuilt_bytes()), (5, 2, new));
        let decoded = again.decode(&codec, &store.indexers(), &NoGuard);
        let kept: Vec<bool> = decoded.items.iter().map(|item| matches!(item, Item::Unchanged(_))).collect();
        assert_eq!(kept, [true, true, true, false, false]);
    }

    #[test]
    fn parts_that_come_in_any_order_are_the_whole() {
        let (job, codec, store) = job(5);
        let part = |range| job.part(range, 0, &codec, &store.indexers(), &NoGuard);
        let joined = job.join([part(3..5), part(0..1), part(1..3)]);
        assert_eq!(versions(&joined), ["0", "1", "2", "3", "4"]);
        assert_eq!(versions(&job.decode(&codec, &store.indexers(), &NoGuard)), versions(&joined));
    }

    #[test]
    #[should_panic(expected = "each item is in one part")]
    fn a_missing_part_is_noticed() {
        let (job, codec, store) = job(5);
        let part = |range| job.part(range, 0, &codec, &store.indexers(), &NoGuard);
        let _ = job.join(vec![part(0..2), part(3..5)]);
    }

    #[test]
    #[should_panic(expected = "each item is in one part")]
    fn an_item_in_two_parts_is_noticed() {
        let (job, codec, store) = job(5);
        let part = |range| job.part(range, 0, &codec, &store.indexers(), &NoGuard);
        let _ = job.join([part(0..3), part(2..5)]);
    }

    #[test]
    fn an_empty_batch_is_whole() {
        let (job, codec, store) = job(0);
        assert!(job.decode(&codec, &store.indexers(), &NoGuard).is_empty());
    }
}
