//! [`RawBatch`]: items as they came over the wire, with the ranges of their identity.
//!
//! What a decoder puts in and a store takes out: the JSON of each object, not parsed, and beside it the few fields
//! that say which object it is, found in the one pass that found its end. A batch owns its bytes in one allocation.
//!
//! ```
//! use informer_core::object::Key;
//! use informer_core::wire::{ItemKind, RawBatch};
//!
//! let mut batch = RawBatch::new();
//! batch.push(ItemKind::Added, br#"{"metadata": {"namespace": "web", "name": "a", "resourceVersion": "7"}}"#);
//! let item = batch.get(0);
//! assert_eq!((item.namespace, item.name, item.version, item.uid), ("web", "a", "7", ""));
//! assert_eq!(item.key(), Some(Key::new("web", "a")));
//! ```

use super::limits::{DEPTH, MAX_FRAME_BYTES};
use super::scan::{Field, Marks, OF_ITEM, Scanner, Shape, Span, unescape};
use super::unit::Json;
use crate::object::Key;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

/// The longest value that is copied where its buffer could be taken, and what a large batch grows by.
const COPIED: usize = 256 << 10;

/// What the server says of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ItemKind {
    /// It is in the list.
    Listed,
    /// It entered what is watched.
    Added,
    /// It changed.
    Modified,
    /// It left what is watched; the JSON is its last state.
    Deleted,
}

/// Items in the order of the wire.
#[derive(Clone, Default)]
pub struct RawBatch {
    bytes: Vec<u8>,
    items: Vec<Entry>,
}

#[derive(Clone)]
struct Entry {
    start: usize,
    length: u32,
    kind: ItemKind,
    too_deep: bool,
    /// From `start`; a text with escapes is kept, decoded, behind the JSON.
    spans: [Span; OF_ITEM.end],
}

impl RawBatch {
    /// An empty batch; allocates nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// True if there is no item.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The bytes of all items together, with what is noted of each: what this batch counts for in a budget.
    pub fn bytes_len(&self) -> usize {
        self.bytes.len() + self.items.len() * size_of::<Entry>()
    }

    /// The item at `index`.
    ///
    /// # Panics
    ///
    /// If `index` is not less than [`len`](Self::len).
    pub fn get(&self, index: usize) -> RawItem<'_> {
        self.item(&self.items[index])
    }

    /// The items, in the order of the wire.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = RawItem<'_>> {
        self.items.iter().map(|entry| self.item(entry))
    }

    /// Removes all items and keeps the memory for the next ones.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.items.clear();
    }

    /// Appends one object, and scans it for its identity. For preloaded lists and tests: decoders have scanned before.
    /// Something that is no object is appended all the same, without identity; what is beyond 1 GiB is cut off.
    pub fn push(&mut self, kind: ItemKind, json: &[u8]) {
        let json = json.trim_ascii();
        let json = &json[..json.len().min(MAX_FRAME_BYTES)];
        let mut scanner = Scanner::new(Shape::Item, DEPTH);
        let is_whole = scanner.scan(json).is_ok_and(|end| end == Some(json.len()));
        self.append(kind, Json::Lent(json), 0..json.len(), if is_whole { scanner.marks() } else { &Marks::NONE });
    }

    /// Makes room for what a part of a body of `bytes` may bring, so that the batch does not grow step by step.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve(bytes);
    }

    /// Appends the items of another batch.
    pub(crate) fn extend(&mut self, other: &RawBatch) {
        let behind = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.items.extend(other.items.iter().map(|entry| Entry { start: entry.start + behind, ..entry.clone() }));
    }

    /// Appends the part `object` of a value that was scanned, with its marks.
    pub(crate) fn append(&mut self, kind: ItemKind, value: Json<'_>, object: Range<usize>, marks: &Marks) {
        let (base, length) = (object.start as u32, object.len());
        let start = match value {
            // A copy of a long value would for a moment cost as much as the value.
            Json::Held(buffer) if self.bytes.is_empty() && length > COPIED => {
                self.bytes = core::mem::take(buffer);
                self.bytes.truncate(object.end);
                if self.bytes.capacity() > 2 * self.bytes.len() {
                    self.bytes.shrink_to_fit();
                }
                object.start
            }
            Json::Held(_) | Json::Lent(_) => {
                let start = self.bytes.len();
                if start > COPIED && self.bytes.capacity() - start < length {
                    self.bytes.reserve_exact(length.max(COPIED)); // not twice as much
                }
                self.bytes.extend_from_slice(&value[object]);
                start
            }
        };
        let json = start..start + length;
        let mut spans = marks.item_spans();
        for (index, span) in spans.iter_mut().enumerate().filter(|(_, span)| span.is_present()) {
            (span.start, span.end) = (span.start - base, span.end - base);
            if marks.is_escaped(index) {
                let text = unescape(span.of(&self.bytes[json.clone()])).unwrap_or_default();
                let behind = self.bytes.len() - start;
                self.bytes.extend_from_slice(text.as_bytes());
                *span = Span::new(behind, self.bytes.len() - start);
            }
        }
        self.items.push(Entry { start, length: length as u32, kind, too_deep: marks.is_too_deep(), spans });
    }

    fn item(&self, entry: &Entry) -> RawItem<'_> {
        let bytes = &self.bytes[entry.start..];
        let text = |field: Field| core::str::from_utf8(entry.spans[field as usize].of(bytes)).unwrap_or("");
        RawItem {
            kind: entry.kind,
            json: &bytes[..entry.length as usize],
            namespace: text(Field::Namespace),
            name: text(Field::Name),
            uid: text(Field::Uid),
            version: text(Field::Version),
            api_version: text(Field::ApiVersion),
            object_kind: text(Field::Kind),
            too_deep: entry.too_deep,
        }
    }
}

impl fmt::Debug for RawBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// One object as it came. Each text is empty if the object does not have it, or not as a string of valid UTF-8.
///
/// If a field stands twice, the last one counts, and a second `metadata` replaces the first with all that was in it: what
/// serde_json makes of a map, and what `k8s-openapi`'s types make of it (types that derive `Deserialize` refuse the object).
/// Go's decoder would merge the two; an API server writes neither. So identity and body cannot disagree.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RawItem<'a> {
    /// What the server says of it.
    pub kind: ItemKind,
    /// The object, byte for byte. Brackets match and strings end; nothing else is promised.
    pub json: &'a [u8],
    /// `metadata.namespace`.
    pub namespace: &'a str,
    /// `metadata.name`.
    pub name: &'a str,
    /// `metadata.uid`.
    pub uid: &'a str,
    /// `metadata.resourceVersion`.
    pub version: &'a str,
    /// `apiVersion`; the items of a typed list have none (W1).
    pub api_version: &'a str,
    /// `kind` of the object; the items of a typed list have none (W1).
    pub object_kind: &'a str,
    /// It is nested deeper than [`Limits::depth`](super::Limits::depth) allows.
    pub too_deep: bool,
}

impl RawItem<'_> {
    /// What it adds to [`RawBatch::bytes_len`], but for its texts with escapes.
    pub(crate) fn bytes_len(&self) -> usize {
        self.json.len() + size_of::<Entry>()
    }

    /// Which object this is. `None` if it has no name, or if a slash in a name would make its key another one's.
    pub fn key(&self) -> Option<Key> {
        self.has_key().then(|| Key::new(self.namespace, self.name))
    }

    pub(crate) fn has_key(&self) -> bool {
        !self.name.is_empty() && !self.name.contains('/') && !self.namespace.contains('/')
    }
}

impl fmt::Debug for RawItem<'_> {
    /// Identity only: the JSON may hold a Secret's data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}/{}@{} ({} bytes)", self.kind, self.namespace, self.name, self.version, self.json.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn batch(json: &str) -> RawBatch {
        let mut batch = RawBatch::new();
        batch.push(ItemKind::Listed, b"{}"); // so that positions do not start at 0
        batch.push(ItemKind::Modified, json.as_bytes());
        batch
    }

    #[test]
    fn a_batch_that_is_added_to_another_keeps_its_items() {
        let (mut first, mut second) = (RawBatch::new(), RawBatch::new());
        first.push(ItemKind::Added, br#"{"metadata":{"name":"a"}}"#);
        second.push(ItemKind::Modified, br#"{"metadata":{"name":"b\u0063"}}"#);
        second.push(ItemKind::Deleted, br#"{"metadata":{"name":"d"}}"#);
        let each: Vec<_> = first.iter().chain(second.iter()).map(|item| format!("{item:?} {:?}", item.json)).collect();
        let mut both = first.clone();
        both.extend(&second);
        assert_eq!(both.iter().map(|item| format!("{item:?} {:?}", item.json)).collect::<Vec<_>>(), each);
        assert_eq!(both.bytes_len(), first.bytes_len() + second.bytes_len());
    }

    #[test]
    fn an_item_has_its_identity_and_its_bytes() {
        let json = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"labels":{"name":"no"},"name":"a","namespace":"n",
            "ownerReferences":[{"uid":"no","name":"no","kind":"no"}],"uid":"u","resourceVersion":"8"},"spec":{"name":"no",
            "metadata":{"name":"no"}},"status":{"kind":"no"}}"#;
        let batch = batch(json);
        let item = batch.get(1);
        assert_eq!((item.api_version, item.object_kind), ("v1", "Pod"));
        assert_eq!((item.namespace, item.name, item.uid, item.version), ("n", "a", "u", "8"));
        assert_eq!((item.kind, item.json), (ItemKind::Modified, json.as_bytes()));
        assert_eq!(item.key(), Some(Key::new("n", "a")));
        assert_eq!(format!("{item:?}"), format!("Modified n/a@8 ({} bytes)", json.len()));
        assert_eq!((batch.len(), batch.iter().len()), (2, 2));
    }

    #[test]
    fn escapes_in_keys_and_texts_are_decoded() {
        let batch = batch(r#"{"met\u0061data":{"n\u0061me":"\u0061\ud83d\ude00","uid":"a\"b","namespace":"\ud83d"}}"#);
        let item = batch.get(1);
        assert_eq!((item.name, item.uid, item.namespace), ("a😀", "a\"b", ""));
        assert!(item.json.ends_with(br#""\ud83d"}}"#));
        assert_eq!(batch.get(0).json, b"{}");
    }

    #[test]
    fn invalid_utf8_counts_as_absent() {
        let mut batch = RawBatch::new();
        batch.push(ItemKind::Listed, b"{\"metadata\":{\"name\":\"a\xff\",\"uid\":\"\\n\xff\",\"namespace\":\"n\"}}");
        assert_eq!((batch.get(0).name, batch.get(0).uid, batch.get(0).namespace), ("", "", "n"));
        assert_eq!(batch.get(0).key(), None);
    }

    #[test]
    fn the_last_of_duplicate_fields_counts() {
        let fields = |json: &str| {
            let batch = batch(json);
            let item = batch.get(1);
            format!("{} {}", item.name, item.uid)
        };
        assert_eq!(fields(r#"{"metadata":{"name":"a","name":"b","uid":"u"}}"#), "b u");
        assert_eq!(fields(r#"{"metadata":{"name":"\t","name":"b"}}"#), "b ");
        assert_eq!(fields(r#"{"metadata":{"name":"a","name":null}}"#), " ");
        assert_eq!(fields(r#"{"metadata":{"name":"a","uid":"u"},"metadata":{"name":"b"}}"#), "b ");
        assert_eq!(fields(r#"{"metadata":{"name":"a"},"metadata":null}"#), " ");
        assert_eq!(fields(r#"{"metadata":{"name":{"name":"x"},"uid":["u"]}}"#), " ");
    }

    #[test]
    fn only_a_clean_name_makes_a_key() {
        let key = |namespace: &str, name: &str| {
            batch(&format!(r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}"}}}}"#)).get(1).key()
        };
        assert_eq!(key("", "a"), Some(Key::new("", "a")));
        assert_eq!(key("n", ""), None);
        assert_eq!(key("", "n/a"), None);
        assert_eq!(key("n/m", "a"), None);
    }

    #[test]
    fn what_is_no_object_has_no_identity() {
        for json in ["", "null", "[{\"metadata\":{\"name\":\"a\"}}]", "{\"metadata\":{\"name\":\"a\"}", "{}{}", "<p>"] {
            assert_eq!(batch(json).get(1).key(), None, "{json}");
            assert_eq!(batch(json).get(1).json, json.as_bytes());
        }
    }

    #[test]
    fn clearing_keeps_the_memory() {
        let mut batch = batch("{}");
        let capacity = batch.bytes.capacity();
        batch.clear();
        assert_eq!((batch.len(), batch.bytes_len(), batch.bytes.capacity()), (0, 0, capacity));
        assert!(batch.is_empty());
    }
}
