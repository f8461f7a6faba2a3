//! A chunked copy-on-write slab: slot numbers are stable, a snapshot costs one count per chunk.
//!
//! A chunk is written in place unless a snapshot holds it; then it is copied once (64 counted pointers). So a reader
//! that walks 100,000 objects holds up nobody, and a writer without readers pays nothing for the possibility.

use super::word::{Bits, Word};
use crate::object::Obj;
use alloc::vec::Vec;
use triomphe::{Arc, UniqueArc};

/// Objects per chunk. 64 pointers are 512 bytes: a copy is cheaper than the clone of a small object, and 100,000
/// objects make 1,600 counts per snapshot.
pub(super) const CHUNK: usize = 64;

/// Where an object lies in its store; stable while it lives there, used again afterwards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slot(pub(crate) u32);

impl Slot {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

struct Chunk<T>([Option<Obj<T>>; CHUNK]);

impl<T> Clone for Chunk<T> {
    fn clone(&self) -> Self {
        Chunk(self.0.clone())
    }
}

impl<T> Chunk<T> {
    /// Those of these places that have an object which is wanted.
    fn wanted(&self, bits: u64, wanted: impl Fn(&Obj<T>) -> bool) -> u64 {
        let wanted = |bit: &u32| self.0[*bit as usize].as_ref().is_some_and(&wanted);
        Bits(bits).filter(wanted).fold(0, |wanted, bit| wanted | 1 << bit)
    }
}

/// The slab.
pub(crate) struct Slots<T> {
    chunks: Vec<Arc<Chunk<T>>>,
    free: Vec<u32>,
    len: usize,
}

impl<T> Clone for Slots<T> {
    fn clone(&self) -> Self {
        Slots { chunks: self.chunks.clone(), free: self.free.clone(), len: self.len }
    }
}

impl<T> Slots<T> {
    pub(crate) fn new() -> Self {
        Slots { chunks: Vec::new(), free: Vec::new(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// One more than the largest slot that may be in use.
    pub(crate) fn bound(&self) -> usize {
        self.chunks.len() * CHUNK
    }

    /// How many chunks there are.
    pub(crate) fn chunks(&self) -> usize {
        self.chunks.len()
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&Obj<T>> {
        self.chunks.get(slot.index() / CHUNK)?.0[slot.index() % CHUNK].as_ref()
    }

    /// Puts an object into a free slot; slots are handed out in rising order while none was freed, so that a snapshot
    /// after the first list has the list's order.
    ///
    /// # Panics
    ///
    /// If there are 2^32 objects already.
    pub(crate) fn insert(&mut self, object: Obj<T>) -> Slot {
        if self.free.is_empty() {
            let from = u32::try_from(self.bound()).expect("a store holds at most 2^32 objects");
            self.chunks.push(Arc::new(Chunk([const { None }; CHUNK])));
            self.free.extend((from..from + CHUNK as u32).rev());
        }
        let slot = Slot(self.free.pop().expect("a chunk was just added"));
        self.len += 1;
        *self.place(slot) = Some(object);
        slot
    }

    /// Puts another object into a slot in use and gives back the one that was there.
    pub(crate) fn replace(&mut self, slot: Slot, object: Obj<T>) -> Obj<T> {
        self.place(slot).replace(object).expect("the slot is in use")
    }

    pub(crate) fn remove(&mut self, slot: Slot) -> Obj<T> {
        let object = self.place(slot).take().expect("the slot is in use");
        self.free.push(slot.0);
        self.len -= 1;
        object
    }

    fn place(&mut self, slot: Slot) -> &mut Option<Obj<T>> {
        &mut Arc::make_mut(&mut self.chunks[slot.index() / CHUNK]).0[slot.index() % CHUNK]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot, &Obj<T>)> {
        iter(&self.chunks)
    }

    /// The slots whose object is not the one that it was, with what is there now. Chunks that the snapshot still shares
    /// are passed over.
    pub(crate) fn changed_since(&self, before: &Snapshot<T>) -> impl Iterator<Item = (Slot, Option<&Obj<T>>)> {
        let chunks = self.chunks.iter().enumerate();
        let chunks =
            chunks.filter(|(number, now)| !before.chunks.get(*number).is_some_and(|then| Arc::ptr_eq(then, now)));
        let slots = chunks.flat_map(|(number, chunk)| {
            let from = (number * CHUNK) as u32;
            chunk.0.iter().enumerate().map(move |(at, object)| (Slot(from + at as u32), object.as_ref()))
        });
        slots.filter(|(slot, now)| match (before.get(*slot), now) {
            (Some(then), Some(now)) => !Obj::ptr_eq(then, now),
            (None, None) => false,
            (Some(_), None) | (None, Some(_)) => true,
        })
    }

    pub(crate) fn snapshot(&self) -> Snapshot<T> {
        Snapshot { chunks: self.chunks.clone(), len: self.len }
    }

    pub(crate) fn into_snapshot(self) -> Snapshot<T> {
        Snapshot { chunks: self.chunks, len: self.len }
    }
}

fn iter<T>(chunks: &[Arc<Chunk<T>>]) -> impl Iterator<Item = (Slot, &Obj<T>)> {
    chunks.iter().enumerate().flat_map(|(number, chunk)| {
        let from = (number * CHUNK) as u32;
        chunk.0.iter().enumerate().filter_map(move |(at, object)| Some((Slot(from + at as u32), object.as_ref()?)))
    })
}

/// All objects of a store at one instant. It never changes and holds up nobody.
pub struct Snapshot<T> {
    chunks: Vec<Arc<Chunk<T>>>,
    len: usize,
}

impl<T> Clone for Snapshot<T> {
    fn clone(&self) -> Self {
        Snapshot { chunks: self.chunks.clone(), len: self.len }
    }
}

impl<T> Snapshot<T> {
    /// The objects, but for those that lie in memory which another snapshot or the store shares: for who drops what it has
    /// the last handle of one by one. Of several who do so with snapshots of one instant, one gets each object.
    pub fn into_objects(self) -> impl Iterator<Item = Obj<T>> {
        // Never to be the last that drops a chunk: its objects would go in one.
        let chunks = self.chunks.into_iter().filter_map(Arc::into_unique);
        chunks.flat_map(|chunk| UniqueArc::into_inner(chunk).0.into_iter().flatten())
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The object that lay in `slot` of the store.
    pub(crate) fn get(&self, slot: Slot) -> Option<&Obj<T>> {
        self.chunks.get(slot.index() / CHUNK)?.0[slot.index() % CHUNK].as_ref()
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = (Slot, &Obj<T>)> {
        iter(&self.chunks)
    }

    /// The objects that are wanted.
    pub(crate) fn into_part(self, wanted: impl Fn(&Obj<T>) -> bool) -> Part<T> {
        let only = |chunk: Arc<Chunk<T>>| {
            let bits = chunk.wanted(u64::MAX, &wanted);
            (chunk, bits)
        };
        Part::new(self.chunks.into_iter().map(only), 0)
    }

    /// The objects, in no order that a user may rely on.
    pub fn iter(&self) -> impl Iterator<Item = &Obj<T>> {
        self.chunks.iter().flat_map(|chunk| chunk.0.iter().flatten())
    }

    /// The objects at or after the place `at`.
    pub(crate) fn iter_from(&self, at: usize) -> impl Iterator<Item = &Obj<T>> {
        let first = self.chunks.get(at / CHUNK).map_or(&[][..], |chunk| &chunk.0[at % CHUNK..]);
        let others = self.chunks.get(at / CHUNK + 1..).unwrap_or_default();
        first.iter().flatten().chain(others.iter().flat_map(|chunk| chunk.0.iter().flatten()))
    }

    /// The first object at or after the place `at`, which moves behind it; `None` at the end. Lets a walk be kept
    /// beside the snapshot without a borrow.
    pub(crate) fn next(&self, at: &mut usize) -> Option<&Obj<T>> {
        while let Some(chunk) = self.chunks.get(*at / CHUNK) {
            let place = *at % CHUNK;
            *at += 1;
            if let Some(object) = &chunk.0[place] {
                return Some(object);
            }
        }
        None
    }
}

impl<T> core::fmt::Debug for Snapshot<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Some objects of a store at one instant, held by the chunks that they lie in: objects that lie together cost one count.
/// While it is held, what lay beside them in the store is, too.
pub(crate) struct Part<T> {
    /// Each has one object at least.
    held: Vec<Held<T>>,
    len: usize,
}

struct Held<T> {
    chunk: Arc<Chunk<T>>,
    /// Which objects of the chunk belong to the part.
    bits: u64,
    /// How many come before it.
    before: usize,
}

impl<T> Held<T> {
    fn iter(&self) -> PartOfChunk<'_, T> {
        match self.bits {
            u64::MAX => PartOfChunk::Whole(self.chunk.0.iter()),
            bits => PartOfChunk::Some(&self.chunk.0, Bits(bits)),
        }
    }
}

impl<T> Slots<T> {
    /// The objects of these slots, which must be in use.
    pub(crate) fn part(&self, words: &[Word]) -> Part<T> {
        Part::new(words.iter().map(|word| (self.chunks[word.number as usize].clone(), word.bits)), words.len())
    }
}

impl<T> Part<T> {
    fn new(chunks: impl Iterator<Item = (Arc<Chunk<T>>, u64)>, most: usize) -> Self {
        let mut part = Part { held: Vec::with_capacity(most), len: 0 };
        for (chunk, bits) in chunks {
            if bits != 0 {
                part.held.push(Held { chunk, bits, before: part.len });
                part.len += bits.count_ones() as usize;
            }
        }
        part.held.shrink_to_fit(); // it may be kept
        part
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// One of them, by its number in the order of [`iter`](Self::iter).
    pub(crate) fn get(&self, number: usize) -> Option<&Obj<T>> {
        let at = self.held.partition_point(|held| held.before <= number).checked_sub(1)?;
        let held = &self.held[at];
        held.iter().nth(number - held.before)
    }

    pub(crate) fn iter(&self) -> PartIter<'_, T> {
        PartIter { chunk: PartOfChunk::Some(&[const { None }; CHUNK], Bits(0)), held: self.held.iter() }
    }

    /// How many chunks are held.
    pub(crate) fn chunks(&self) -> usize {
        self.held.len()
    }

    /// Without what is not wanted, and the chunks that have nothing else.
    pub(crate) fn only(self, wanted: impl Fn(&Obj<T>) -> bool) -> Self {
        let only = |held: Held<T>| {
            let bits = held.chunk.wanted(held.bits, &wanted);
            (held.chunk, bits)
        };
        Part::new(self.held.into_iter().map(only), 0)
    }
}

/// What lies in a place of a part. To pass over one that is empty would lose an object without a word.
fn in_use<T>(place: &Option<Obj<T>>) -> &Obj<T> {
    place.as_ref().expect("the slot was in use")
}

/// The objects of a [`Part`].
pub(crate) struct PartIter<'a, T> {
    chunk: PartOfChunk<'a, T>,
    held: core::slice::Iter<'a, Held<T>>,
}

enum PartOfChunk<'a, T> {
    /// All 64 slots are in use, and belong to the part.
    Whole(core::slice::Iter<'a, Option<Obj<T>>>),
    Some(&'a [Option<Obj<T>>; CHUNK], Bits),
}

impl<'a, T> Iterator for PartOfChunk<'a, T> {
    type Item = &'a Obj<T>;

    fn next(&mut self) -> Option<&'a Obj<T>> {
        match self {
            PartOfChunk::Whole(objects) => objects.next().map(in_use),
            PartOfChunk::Some(objects, bits) => bits.next().map(|bit| in_use(&objects[bit as usize])),
        }
    }
}

impl<'a, T> Iterator for PartIter<'a, T> {
    type Item = &'a Obj<T>;

    fn next(&mut self) -> Option<&'a Obj<T>> {
        loop {
            if let Some(object) = self.chunk.next() {
                return Some(object);
            }
            self.chunk = self.held.next()?.iter();
        }
    }

    /// What walks to the end does not ask at each object in which form its chunk comes.
    fn fold<B, F: FnMut(B, &'a Obj<T>) -> B>(self, init: B, mut f: F) -> B {
        let PartIter { chunk, held } = self;
        core::iter::once(chunk).chain(held.map(Held::iter)).fold(init, |folded, chunk| match chunk {
            PartOfChunk::Whole(objects) => objects.map(in_use).fold(folded, &mut f),
            PartOfChunk::Some(objects, bits) => bits.map(|bit| in_use(&objects[bit as usize])).fold(folded, &mut f),
        })
    }
}

/// A set of slots.
#[derive(Clone, Default)]
pub(crate) struct SlotSet(Vec<u64>);

impl SlotSet {
    pub(crate) fn insert(&mut self, slot: Slot) {
        let word = slot.index() / 64;
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (slot.index() % 64);
    }

    pub(crate) fn remove(&mut self, slot: Slot) {
        if let Some(word) = self.0.get_mut(slot.index() / 64) {
            *word &= !(1 << (slot.index() % 64));
        }
    }

    pub(crate) fn contains(&self, slot: Slot) -> bool {
        self.0.get(slot.index() / 64).is_some_and(|word| word >> (slot.index() % 64) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Key, Uid, Version};
    use std::format;

    fn object(n: usize) -> Obj<usize> {
        Obj::new(Key::new("", &format!("{n}")), Uid::new("u"), Version::new("1"), n)
    }

    #[test]
    fn a_snapshot_keeps_what_it_saw() {
        let mut slots = Slots::new();
        let at: Vec<_> = (0..100).map(|n| slots.insert(object(n))).collect();
        let before = slots.snapshot();
        slots.remove(at[3]);
        slots.replace(at[70], object(700));
        assert_eq!(before.iter().map(|o| **o).collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
        assert_eq!(slots.len(), 99);
        assert_eq!(slots.insert(object(101)), at[3], "a freed slot is used again");
        let now: Vec<_> = slots.iter().map(|(_, o)| **o).collect();
        assert_eq!((now[3], now[70], now.len()), (101, 700, 100));
        let changed: Vec<_> = slots.changed_since(&before).map(|(slot, now)| (slot, now.map(|now| **now))).collect();
        assert_eq!(changed, [(at[3], Some(101)), (at[70], Some(700))]);
        assert_eq!(slots.changed_since(&slots.snapshot()).count(), 0);
        let (mut at, mut walked) = (0, 0);
        while before.next(&mut at).is_some() {
            walked += 1;
        }
        assert_eq!(walked, 100);
    }

    #[test]
    fn a_set_of_slots_grows_and_forgets() {
        let mut set = SlotSet::default();
        set.insert(Slot(130));
        set.insert(Slot(2));
        set.remove(Slot(2));
        set.remove(Slot(9_999));
        assert!(set.contains(Slot(130)) && !set.contains(Slot(2)) && !set.contains(Slot(9_999)));
    }
}
