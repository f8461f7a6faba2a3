//! [`Index`]: from a value to the objects that have it, and back from an object to its values.
//!
//! ```text
//! value ── table ──► bucket number ──► Bucket { value, slots }
//!                        ▲
//! slot ── numbers ───────┘   one number of four bytes; a list beside it for an object with several values
//! ```
//!
//! An index function gives zero, one or many values per object. It runs when the object is decoded, outside every lock;
//! the store only moves slot numbers between buckets. A change costs the same in a bucket of a thousand as in one of a
//! million objects, and a value costs about six bytes beside its text where its bucket has a hundred objects or more
//! (`tests/memory.rs` measures it).
//!
//! Invariants, asserted by `check`: buckets and numbers mirror each other (I7); no bucket in the table is empty.

use super::def::{IndexDef, Lent, Source};
use super::postings::{self, Postings};
use super::slots::Slot;
use super::value::{ValueText, ValueType};
use super::word::Word;
use crate::object::Obj;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::BuildHasher;
use foldhash::fast::SeedableRandomState;
use hashbrown::HashTable;
use smallvec::SmallVec;

/// Numbers that most objects' values fit into without an allocation while they are compared.
type Numbers = SmallVec<[u32; 4]>;

/// One index.
#[derive(Clone)]
pub(crate) struct Index {
    name: Arc<str>,
    source: Source,
    value_type: ValueType,
    hasher: SeedableRandomState,
    /// Bucket numbers by value.
    by_value: HashTable<u32>,
    buckets: Vec<Bucket>,
    free: Vec<u32>,
    numbers: BySlot,
    several: Lists,
    /// How many objects have a value.
    objects: usize,
}

#[derive(Clone, Default)]
struct Bucket {
    /// In its place if it is short: a look-up then ends here.
    value: ValueText,
    slots: Postings,
}

impl Index {
    pub(crate) fn new<T>(def: &IndexDef<T>, hasher: SeedableRandomState) -> Self {
        Index {
            name: def.shared_name(),
            source: def.source().clone(),
            value_type: def.value_type(),
            hasher,
            by_value: HashTable::new(),
            buckets: Vec::new(),
            free: Vec::new(),
            numbers: BySlot::default(),
            several: Lists::default(),
            objects: 0,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    pub(crate) fn value_type(&self) -> ValueType {
        self.value_type
    }

    /// Gives `object` in `slot` its values: those that its function returned, or what is read from the key.
    pub(crate) fn add<T>(&mut self, slot: Slot, object: &Obj<T>, values: &[ValueText]) {
        match self.source {
            Source::Namespace => self.set(slot, [object.key().namespace().as_bytes()]),
            Source::Function | Source::Label(_) => self.set(slot, values.iter().map(ValueText::as_bytes)),
        }
    }

    /// The same for another version of the object in `slot`.
    pub(crate) fn change(&mut self, slot: Slot, values: &[ValueText]) {
        match self.source {
            Source::Namespace => {} // the key is the same
            Source::Function | Source::Label(_) => self.set(slot, values.iter().map(ValueText::as_bytes)),
        }
    }

    /// The same with values that lie in the object or were computed just now.
    pub(crate) fn change_to(&mut self, slot: Slot, values: &Lent<'_>) {
        match (&self.source, values) {
            (Source::Namespace, _) => {} // the key is the same
            (Source::Function | Source::Label(_), Lent::One(value)) => self.set(slot, value.map(str::as_bytes)),
            (Source::Function | Source::Label(_), Lent::Made(values)) => self.change(slot, values),
        }
    }

    /// The values are texts, which need not be proved again where they are only compared.
    fn set<'a>(&mut self, slot: Slot, values: impl IntoIterator<Item = &'a [u8]>) {
        let mut values = values.into_iter();
        let (first, second) = (values.next(), values.next());
        let old = self.numbers.get(slot);
        // Nearly every update of nearly every object ends here.
        match (first, second) {
            (None, _) if old == Number::NONE => return,
            (Some(value), None) => {
                if old.bucket().is_some_and(|bucket| self.buckets[bucket as usize].value.as_bytes() == value) {
                    return;
                }
            }
            (None, _) | (Some(_), Some(_)) => {}
        }
        let mut new: Numbers = first.into_iter().chain(second).chain(values).map(|value| self.bucket(value)).collect();
        new.sort_unstable();
        new.dedup();
        self.place(slot, &new);
    }

    /// Takes `slot` out of all its buckets.
    pub(crate) fn clear(&mut self, slot: Slot) {
        self.place(slot, &[]);
    }

    /// Moves `slot` into the buckets `new`, which are sorted, and out of all others. An empty bucket goes away.
    fn place(&mut self, slot: Slot, new: &[u32]) {
        let old = self.numbers.get(slot);
        let before = Numbers::from_slice(old.all(&self.several));
        if *before == *new {
            return;
        }
        for number in new.iter().filter(|number| before.binary_search(number).is_err()) {
            self.buckets[*number as usize].slots.insert(slot);
        }
        for number in before.iter().filter(|number| new.binary_search(number).is_err()) {
            self.buckets[*number as usize].slots.remove(slot);
            if self.buckets[*number as usize].slots.is_empty() {
                self.drop_bucket(*number);
            }
        }
        if let Some(list) = old.list() {
            self.several.remove(list);
        }
        self.objects = self.objects + usize::from(!new.is_empty()) - usize::from(!before.is_empty());
        let number = match new {
            [] => Number::NONE,
            [one] => Number(*one),
            several => Number::of_list(self.several.insert(several.into())),
        };
        self.numbers.set(slot, number);
    }

    /// The number of the bucket of `value`, if anyone has it.
    pub(crate) fn find(&self, value: &str) -> Option<u32> {
        self.find_bytes(self.hash(value.as_bytes()), value.as_bytes())
    }

    fn hash(&self, value: &[u8]) -> u64 {
        self.hasher.hash_one(value)
    }

    fn find_bytes(&self, hash: u64, value: &[u8]) -> Option<u32> {
        self.by_value.find(hash, |number| self.buckets[*number as usize].value.as_bytes() == value).copied()
    }

    /// The bucket of `value`, which may be new and empty: the caller puts a slot into it.
    fn bucket(&mut self, value: &[u8]) -> u32 {
        let hash = self.hash(value);
        if let Some(number) = self.find_bytes(hash, value) {
            return number;
        }
        let value = ValueText::from(core::str::from_utf8(value).expect("values are texts"));
        let bucket = Bucket { value, slots: Postings::default() };
        let number = match self.free.pop() {
            Some(number) => {
                self.buckets[number as usize] = bucket;
                number
            }
            None => {
                postings::make_room(&mut self.buckets);
                self.buckets.push(bucket);
                Number::of_bucket(self.buckets.len() - 1)
            }
        };
        let (buckets, hasher) = (&self.buckets, &self.hasher);
        self.by_value.insert_unique(hash, number, |number| hasher.hash_one(buckets[*number as usize].value.as_bytes()));
        number
    }

    fn drop_bucket(&mut self, number: u32) {
        let bucket = core::mem::take(&mut self.buckets[number as usize]);
        let hash = self.hash(bucket.value.as_bytes());
        if let Ok(entry) = self.by_value.find_entry(hash, |candidate| *candidate == number) {
            entry.remove();
        }
        self.free.push(number);
    }

    /// The slots that have `value`, in rising order.
    pub(crate) fn slots(&self, value: &str) -> postings::Iter<'_> {
        self.find(value).map_or(&Postings::NONE, |number| &self.buckets[number as usize].slots).iter()
    }

    /// The same by chunk of the store.
    pub(crate) fn words_in(&self, bucket: u32, each: impl FnMut(Word)) {
        self.buckets[bucket as usize].slots.words(each);
    }

    /// The slots of a bucket that was [found](Self::find), in rising order.
    pub(crate) fn slots_in(&self, bucket: u32) -> postings::Iter<'_> {
        self.buckets[bucket as usize].slots.iter()
    }

    /// The buckets of all values that `wanted` wants.
    pub(crate) fn buckets_where(&self, wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = u32> {
        (0..).zip(&self.buckets).filter(move |(_, bucket)| wanted(bucket.value.as_str())).map(|(number, _)| number)
    }

    /// The values in use, each with the number of its objects.
    pub(crate) fn values(&self) -> impl Iterator<Item = (&str, usize)> {
        self.buckets.iter().filter(|bucket| !bucket.slots.is_empty()).map(|b| (b.value.as_str(), b.slots.len()))
    }

    /// How many objects have a value.
    pub(crate) fn objects(&self) -> usize {
        self.objects
    }

    /// The first value of `slot`; of an index whose objects have one at most, the one.
    pub(crate) fn value(&self, slot: Slot) -> Option<&str> {
        let first = self.numbers.get(slot).all(&self.several).first().copied();
        first.map(|number| self.buckets[number as usize].value.as_str())
    }

    /// Asserts the invariants of the module header.
    #[cfg(debug_assertions)]
    pub(crate) fn check(&self) {
        assert_eq!(self.by_value.len(), self.buckets.len() - self.free.len(), "one entry per live bucket");
        let mut held = 0;
        for (number, bucket) in self.buckets.iter().enumerate() {
            bucket.slots.check();
            held += bucket.slots.len();
            for slot in bucket.slots.iter() {
                let numbers = self.numbers.get(slot);
                assert!(numbers.all(&self.several).contains(&(number as u32)), "{slot:?} knows of its bucket {number}");
            }
            let found = self.find(bucket.value.as_str()).is_some_and(|found| found as usize == number);
            assert_eq!(found, !bucket.slots.is_empty(), "bucket {number} is in the table if it has a slot");
        }
        let all: Vec<Number> = self.numbers.iter().collect();
        assert_eq!(
            all.iter().map(|number| number.all(&self.several).len()).sum::<usize>(),
            held,
            "none without a slot"
        );
        assert_eq!(all.iter().filter(|number| **number != Number::NONE).count(), self.objects, "they are counted");
        let lists = all.iter().filter(|number| number.list().is_some()).count();
        assert_eq!(lists, self.several.len(), "no list without its slot");
    }
}

/// What a slot has: nothing, a bucket, or a list of buckets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Number(u32);

impl Number {
    const NONE: Number = Number(u32::MAX);
    /// Numbers from here on stand for lists.
    const LISTS: u32 = 1 << 31;

    /// # Panics
    ///
    /// If there are 2^31 values: the upper half stands for lists.
    fn of_bucket(number: usize) -> u32 {
        assert!(number < Number::LISTS as usize, "an index holds at most 2^31 values");
        number as u32
    }

    /// # Panics
    ///
    /// If 2^31 - 1 objects have several values.
    fn of_list(number: usize) -> Number {
        assert!(number < (Number::LISTS - 1) as usize, "an index holds at most 2^31 - 1 objects with several values");
        Number(Number::LISTS | number as u32)
    }

    fn bucket(self) -> Option<u32> {
        (self.0 < Number::LISTS).then_some(self.0)
    }

    fn list(self) -> Option<usize> {
        (self != Number::NONE && self.0 >= Number::LISTS).then(|| (self.0 - Number::LISTS) as usize)
    }

    /// The numbers of all buckets, in rising order.
    fn all<'a>(&'a self, lists: &'a Lists) -> &'a [u32] {
        match (self.bucket(), self.list()) {
            (Some(_), _) => core::slice::from_ref(&self.0),
            (None, Some(list)) => &lists.lists[list],
            (None, None) => &[],
        }
    }
}

/// The bucket numbers of objects with several values.
#[derive(Clone, Default)]
struct Lists {
    lists: Vec<Box<[u32]>>,
    free: Vec<usize>,
}

impl Lists {
    fn insert(&mut self, list: Box<[u32]>) -> usize {
        match self.free.pop() {
            Some(number) => {
                self.lists[number] = list;
                number
            }
            None => {
                postings::make_room(&mut self.lists);
                self.lists.push(list);
                self.lists.len() - 1
            }
        }
    }

    fn remove(&mut self, number: usize) {
        self.lists[number] = Box::default();
        self.free.push(number);
    }

    #[cfg(debug_assertions)]
    fn len(&self) -> usize {
        self.lists.len() - self.free.len()
    }
}

/// Numbers by slot, in chunks: an array in one piece would be copied as it grows, with readers waiting.
#[derive(Clone, Default)]
#[allow(clippy::vec_box)] // the box is the point: growing moves a pointer, not a kilobyte
struct BySlot(Vec<Box<[Number; BY_SLOT]>>);

/// A chunk is 1 KiB: an index over few objects costs no more.
const BY_SLOT: usize = 256;

impl BySlot {
    fn get(&self, slot: Slot) -> Number {
        self.0.get(slot.index() / BY_SLOT).map_or(Number::NONE, |chunk| chunk[slot.index() % BY_SLOT])
    }

    fn set(&mut self, slot: Slot, number: Number) {
        let chunk = slot.index() / BY_SLOT;
        if chunk >= self.0.len() {
            self.0.resize_with(chunk + 1, || Box::new([Number::NONE; BY_SLOT]));
        }
        self.0[chunk][slot.index() % BY_SLOT] = number;
    }

    #[cfg(debug_assertions)]
    fn iter(&self) -> impl Iterator<Item = Number> {
        self.0.iter().flat_map(|chunk| chunk.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};
    use std::string::{String, ToString};

    fn index() -> Index {
        let hasher = SeedableRandomState::with_seed(1, foldhash::SharedSeed::global_fixed());
        Index::new(&IndexDef::<()>::new("i", |_| String::new()), hasher)
    }

    proptest! {
        /// B090: every change between sets of values, against a recomputation.
        #[test]
        fn buckets_equal_a_fresh_computation(
            changes in prop::collection::vec((0u32..600, prop::collection::vec(0u8..4, 0..4)), 0..80),
            clone_at in 0usize..80,
        ) {
            let (mut index, mut model) = (index(), BTreeMap::<u32, BTreeSet<u8>>::new());
            for (n, (slot, values)) in changes.into_iter().enumerate() {
                let texts: Vec<_> = values.iter().map(|v| ValueText::from(v.to_string().as_str())).collect();
                index.change(Slot(slot), &texts);
                model.insert(slot, values.into_iter().collect());
                #[cfg(debug_assertions)]
                index.check();
                if n == clone_at {
                    index = index.clone();
                }
            }
            let mut want: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
            for (slot, values) in &model {
                for value in values {
                    want.entry(value.to_string()).or_default().insert(*slot);
                }
                let first = index.value(Slot(*slot)).map(|value| values.contains(&value.parse().unwrap()));
                prop_assert_eq!(first, (!values.is_empty()).then_some(true));
            }
            let got: BTreeMap<_, BTreeSet<u32>> =
                index.values().map(|(v, _)| (v.to_string(), index.slots(v).map(|s| s.0).collect())).collect();
            prop_assert_eq!(got, want);
            prop_assert_eq!(index.objects(), model.values().filter(|values| !values.is_empty()).count());
        }
    }
}
