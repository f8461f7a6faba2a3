//! Secondary indexes: from a value to the objects that have it.
//!
//! An index function gives zero, one or many values per object. It is total: it cannot fail, and it must depend on
//! nothing but the object (B092). It runs when the object is decoded, outside every lock; the store only moves slot
//! numbers between buckets, in constant time per value.

use super::slots::Slot;
use crate::object::{Key, Obj};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::hash::BuildHasher;
use foldhash::fast::SeedableRandomState;
use hashbrown::HashTable;
use smallvec::SmallVec;

/// What an index function may return.
///
/// ```
/// use informer_core::store::IndexValues;
///
/// assert_eq!(Some("a".to_string()).into_values().len(), 1);
/// assert_eq!(None::<String>.into_values().len(), 0);
/// assert_eq!(vec!["a".to_string(), "b".to_string()].into_values().len(), 2);
/// ```
pub trait IndexValues {
    /// The values; one that stands twice counts once.
    fn into_values(self) -> Values;
}

/// The values of one object in one index. Most objects have one.
pub type Values = SmallVec<[Box<str>; 1]>;

impl IndexValues for String {
    fn into_values(self) -> Values {
        SmallVec::from_buf([self.into_boxed_str()])
    }
}

impl IndexValues for &'static str {
    fn into_values(self) -> Values {
        SmallVec::from_buf([self.into()])
    }
}

impl<V: IndexValues> IndexValues for Option<V> {
    fn into_values(self) -> Values {
        self.map_or_else(Values::new, V::into_values)
    }
}

impl<V: IndexValues> IndexValues for Vec<V> {
    fn into_values(self) -> Values {
        let mut values = Values::new();
        for value in self.into_iter().flat_map(V::into_values) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        values
    }
}

type Function<T> = dyn Fn(&Obj<T>) -> Values + Send + Sync;

/// A named index function.
pub struct IndexDef<T> {
    name: Arc<str>,
    function: Arc<Function<T>>,
}

impl<T> Clone for IndexDef<T> {
    fn clone(&self) -> Self {
        IndexDef { name: self.name.clone(), function: self.function.clone() }
    }
}

impl<T> IndexDef<T> {
    /// An index called `name` over what `function` returns.
    pub fn new<V: IndexValues>(name: &str, function: impl Fn(&Obj<T>) -> V + Send + Sync + 'static) -> Self {
        IndexDef { name: name.into(), function: Arc::new(move |object| function(object).into_values()) }
    }

    /// The index of namespaces, called [`NAMESPACE`]; a cluster-scoped object has the value `""`.
    pub fn namespace() -> Self {
        IndexDef::new(NAMESPACE, |object: &Obj<T>| String::from(object.key().namespace()))
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn shared_name(&self) -> Arc<str> {
        self.name.clone()
    }

    pub(crate) fn values(&self, object: &Obj<T>) -> Values {
        (self.function)(object)
    }
}

impl<T> fmt::Debug for IndexDef<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "index {:?}", self.name)
    }
}

/// The name of the namespace index, as in client-go.
pub const NAMESPACE: &str = "namespace";

/// An index that cannot be made or used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexError {
    /// There is an index of this name already; it is unchanged.
    Exists(String),
    /// There is no index of this name.
    Unknown(String),
    /// The function of an index that was to be added panicked on an object that is there; nothing was added.
    Panicked {
        /// The name of the index.
        index: String,
        /// The object.
        key: Key,
        /// The text of the panic.
        reason: String,
    },
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IndexError::Exists(name) => write!(f, "there is an index {name:?} already: pick another name"),
            IndexError::Unknown(name) => write!(f, "there is no index {name:?}: add it to the informer first"),
            IndexError::Panicked { index, key, reason } => {
                write!(
                    f,
                    "the function of index {index:?} panicked on {key}: {reason}; it must answer for every object"
                )
            }
        }
    }
}

impl core::error::Error for IndexError {}

/// One index: buckets of slots, and for each slot where it stands in its buckets.
#[derive(Clone)]
pub(crate) struct Index {
    name: Arc<str>,
    hasher: SeedableRandomState,
    /// Bucket numbers by value.
    by_value: HashTable<u32>,
    buckets: Vec<Bucket>,
    free: Vec<u32>,
    /// For each slot its (bucket, place in the bucket) pairs, so that leaving a bucket needs no search.
    places: Vec<SmallVec<[(u32, u32); 1]>>,
}

#[derive(Clone, Default)]
struct Bucket {
    value: Box<str>,
    slots: Vec<u32>,
}

impl Index {
    pub(crate) fn new(name: Arc<str>, hasher: SeedableRandomState) -> Self {
        Index { name, hasher, by_value: HashTable::new(), buckets: Vec::new(), free: Vec::new(), places: Vec::new() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Sets the values of `slot`, which may have had others.
    pub(crate) fn set(&mut self, slot: Slot, values: &[Box<str>]) {
        if let Some(places) = self.places.get(slot.index()) {
            let same = places.len() == values.len()
                && places.iter().zip(values).all(|((bucket, _), value)| self.buckets[*bucket as usize].value == *value);
            if same {
                return;
            }
            self.clear(slot);
        } else {
            self.places.resize_with(slot.index() + 1, SmallVec::new);
        }
        for value in values {
            let bucket = self.bucket(value);
            let slots = &mut self.buckets[bucket as usize].slots;
            self.places[slot.index()].push((bucket, slots.len() as u32));
            slots.push(slot.0);
        }
    }

    /// Takes `slot` out of all its buckets; an empty bucket goes away.
    pub(crate) fn clear(&mut self, slot: Slot) {
        let Some(places) = self.places.get_mut(slot.index()) else { return };
        for (number, place) in core::mem::take(places) {
            let bucket = &mut self.buckets[number as usize];
            bucket.slots.swap_remove(place as usize);
            if let Some(moved) = bucket.slots.get(place as usize) {
                let entry = self.places[*moved as usize].iter_mut().find(|(bucket, _)| *bucket == number);
                entry.expect("the slot that moved stands in this bucket").1 = place;
            }
            if bucket.slots.is_empty() {
                let hash = self.hasher.hash_one(&*bucket.value);
                if let Ok(entry) = self.by_value.find_entry(hash, |candidate| *candidate == number) {
                    entry.remove();
                }
                *bucket = Bucket::default();
                self.free.push(number);
            }
        }
    }

    fn bucket(&mut self, value: &str) -> u32 {
        let hash = self.hasher.hash_one(value);
        if let Some(number) = self.by_value.find(hash, |number| *self.buckets[*number as usize].value == *value) {
            return *number;
        }
        let bucket = Bucket { value: value.into(), slots: Vec::new() };
        let number = match self.free.pop() {
            Some(number) => {
                self.buckets[number as usize] = bucket;
                number
            }
            None => {
                self.buckets.push(bucket);
                (self.buckets.len() - 1) as u32
            }
        };
        let (buckets, hasher) = (&self.buckets, &self.hasher);
        self.by_value.insert_unique(hash, number, |number| hasher.hash_one(&*buckets[*number as usize].value));
        number
    }

    /// The slots that have `value`.
    pub(crate) fn slots(&self, value: &str) -> impl ExactSizeIterator<Item = Slot> {
        let hash = self.hasher.hash_one(value);
        let found = self.by_value.find(hash, |number| *self.buckets[*number as usize].value == *value);
        let slots = found.map_or(&[][..], |number| &self.buckets[*number as usize].slots);
        slots.iter().map(|slot| Slot(*slot))
    }

    /// The values in use, each with the number of its objects.
    pub(crate) fn values(&self) -> impl Iterator<Item = (&str, usize)> {
        self.buckets.iter().filter(|bucket| !bucket.slots.is_empty()).map(|b| (&*b.value, b.slots.len()))
    }

    /// Asserts that buckets and places mirror each other (I7).
    #[cfg(debug_assertions)]
    pub(crate) fn check(&self) {
        assert_eq!(self.by_value.len(), self.buckets.len() - self.free.len(), "one entry per live bucket");
        for (number, bucket) in self.buckets.iter().enumerate() {
            for (place, slot) in bucket.slots.iter().enumerate() {
                let places = &self.places[*slot as usize];
                assert!(places.contains(&(number as u32, place as u32)), "slot {slot} knows its place in {number}");
            }
        }
        let (placed, held): (usize, usize) =
            (self.places.iter().map(SmallVec::len).sum(), self.buckets.iter().map(|b| b.slots.len()).sum());
        assert_eq!(placed, held, "no place without its slot");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};
    use std::string::ToString;

    proptest! {
        /// B090: every change between sets of values, against a recomputation.
        #[test]
        fn buckets_equal_a_fresh_computation(ops in prop::collection::vec((0u32..6, prop::collection::btree_set(0u8..4, 0..4)), 0..60)) {
            let mut index = Index::new("i".into(), SeedableRandomState::with_seed(1, foldhash::SharedSeed::global_fixed()));
            let mut model: BTreeMap<u32, BTreeSet<u8>> = BTreeMap::new();
            for (slot, values) in ops {
                let values_: Vec<Box<str>> = values.iter().map(|v| v.to_string().into_boxed_str()).collect();
                index.set(Slot(slot), &values_);
                model.insert(slot, values);
                #[cfg(debug_assertions)]
                index.check();
            }
            let mut want: BTreeMap<std::string::String, BTreeSet<u32>> = BTreeMap::new();
            for (slot, values) in &model {
                for value in values {
                    want.entry(value.to_string()).or_default().insert(*slot);
                }
            }
            let got: BTreeMap<_, BTreeSet<u32>> =
                index.values().map(|(v, _)| (v.to_string(), index.slots(v).map(|s| s.0).collect())).collect();
            prop_assert_eq!(got, want);
        }
    }
}
