//! [`Postings`]: the slots that have one value of an index, in rising order, in two bytes each or less.
//!
//! ```text
//! Few    up to 3 slots, in place
//! Flat   up to 4,096 slots: the low halves of all slots in one array, and where each page of 65,536 slots ends in it
//! Paged  any number: for each page an array of low halves, or a bit per slot once that is smaller
//! ```
//!
//! A change costs a binary search and a move of at most 8 KiB, whatever the number of slots; a page of bits costs
//! neither. Each form goes over into the next at a bound, and back at a lower one, so that a value that wavers around a
//! bound is not rebuilt at each step.
//!
//! Invariants, asserted by `check`: every sequence rises strictly; no page is empty; the counts are those of the content.

use super::slots::Slot;
use super::word::{Bits, Word, gather, gather_lows, give};
use alloc::boxed::Box;
use alloc::vec::Vec;
use smallvec::SmallVec;

/// Slots that are kept in place: with them a bucket that has one object, or a few, allocates nothing.
const FEW: usize = 3;

/// Above so many slots the low halves of a page take more than its 8 KiB of bits; and a change moves at most as much.
const ARRAY: usize = 4_096;

/// Below so many slots a larger form goes back to a smaller one.
const SHRINK: usize = 3_072;

/// Words of a page of bits.
const WORDS: usize = 1 << 16 >> 6;

/// A set of slots.
#[derive(Clone)]
pub(crate) enum Postings {
    Few { len: u8, slots: [u32; FEW] },
    Flat(Box<Flat>),
    Paged(Box<Paged>),
}

#[derive(Clone, Default)]
pub(crate) struct Flat {
    /// In rising order. Up to four, and so 262,144 slots of a store, need no allocation.
    pages: SmallVec<[FlatPage; 4]>,
    lows: Vec<u16>,
}

#[derive(Clone, Copy)]
struct FlatPage {
    high: u16,
    /// Where it ends in the array.
    end: u16,
}

#[derive(Clone, Default)]
pub(crate) struct Paged {
    pages: Vec<Page>,
    len: usize,
}

#[derive(Clone)]
struct Page {
    high: u16,
    leaf: Leaf,
}

#[derive(Clone)]
enum Leaf {
    Array(Vec<u16>),
    Bits { count: u32, words: Box<[u64; WORDS]> },
}

impl Default for Postings {
    fn default() -> Self {
        Postings::NONE
    }
}

fn split(slot: Slot) -> (u16, u16) {
    ((slot.0 >> 16) as u16, slot.0 as u16)
}

fn join(high: u16, low: u16) -> u32 {
    u32::from(high) << 16 | u32::from(low)
}

impl Postings {
    /// No slot.
    pub(crate) const NONE: Postings = Postings::Few { len: 0, slots: [0; FEW] };

    pub(crate) fn len(&self) -> usize {
        match self {
            Postings::Few { len, .. } => usize::from(*len),
            Postings::Flat(flat) => flat.lows.len(),
            Postings::Paged(paged) => paged.len,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a slot that is not there.
    pub(crate) fn insert(&mut self, slot: Slot) {
        match self {
            Postings::Few { len, slots } if usize::from(*len) < FEW => {
                let used = usize::from(*len);
                let at = slots[..used].partition_point(|other| *other < slot.0);
                slots.copy_within(at..used, at + 1);
                slots[at] = slot.0;
                *len += 1;
            }
            Postings::Few { .. } => {
                let mut flat = Flat::default();
                self.iter().chain([slot]).for_each(|slot| flat.insert(slot));
                *self = Postings::Flat(Box::new(flat));
            }
            Postings::Flat(flat) if flat.lows.len() < ARRAY => flat.insert(slot),
            Postings::Flat(_) => {
                let mut paged = Paged::default();
                self.iter().chain([slot]).for_each(|slot| paged.insert(slot));
                *self = Postings::Paged(Box::new(paged));
            }
            Postings::Paged(paged) => paged.insert(slot),
        }
    }

    /// Takes away a slot that is there.
    pub(crate) fn remove(&mut self, slot: Slot) {
        match self {
            Postings::Few { len, slots } => {
                let used = usize::from(*len);
                let at = slots[..used].iter().position(|other| *other == slot.0).expect("the slot is in this bucket");
                slots.copy_within(at + 1..used, at);
                *len -= 1;
            }
            Postings::Flat(flat) => {
                flat.remove(slot);
                if flat.lows.len() < FEW {
                    let mut slots = [0; FEW];
                    let len = flat.lows.len() as u8;
                    self.iter().zip(&mut slots).for_each(|(slot, place)| *place = slot.0);
                    *self = Postings::Few { len, slots };
                }
            }
            Postings::Paged(paged) => {
                paged.remove(slot);
                if paged.len < SHRINK {
                    let mut flat = Flat { pages: SmallVec::new(), lows: Vec::with_capacity(paged.len) };
                    self.iter().for_each(|slot| flat.insert(slot));
                    *self = Postings::Flat(Box::new(flat));
                }
            }
        }
    }

    /// The slots, in rising order.
    pub(crate) fn iter(&self) -> Iter<'_> {
        let (leaf, pages) = match self {
            Postings::Few { len, slots } => (LeafIter::Few(slots[..usize::from(*len)].iter()), Pages::None),
            Postings::Flat(flat) => {
                (LeafIter::Few([].iter()), Pages::Flat { from: 0, pages: flat.pages.iter(), lows: &flat.lows })
            }
            Postings::Paged(paged) => (LeafIter::Few([].iter()), Pages::Paged(paged.pages.iter())),
        };
        Iter { left: self.len(), leaf, pages }
    }

    /// The slots by chunk of the store, in rising order.
    pub(crate) fn words(&self, mut each: impl FnMut(Word)) {
        match self {
            Postings::Few { len, slots } => gather(slots[..usize::from(*len)].iter().copied(), &mut each),
            Postings::Flat(flat) => {
                let mut from = 0;
                for page in &flat.pages {
                    let end = usize::from(page.end);
                    gather_lows(page.high, &flat.lows[core::mem::replace(&mut from, end)..end], &mut each);
                }
            }
            Postings::Paged(paged) => {
                for page in &paged.pages {
                    match &page.leaf {
                        Leaf::Array(lows) => gather_lows(page.high, lows, &mut each),
                        Leaf::Bits { words, .. } => {
                            let first = u32::from(page.high) << 10;
                            for (number, bits) in (first..).zip(words.iter()) {
                                give(Word { number, bits: *bits }, &mut each);
                            }
                        }
                    }
                }
            }
        }
    }

    /// Asserts the invariants of the module header.
    #[cfg(debug_assertions)]
    pub(crate) fn check(&self) {
        let slots: Vec<Slot> = self.iter().collect();
        assert_eq!(slots.len(), self.len(), "the count is that of the content");
        assert!(slots.is_sorted_by(|a, b| a < b), "slots rise");
        match self {
            Postings::Few { .. } => {}
            Postings::Flat(flat) => {
                assert!((FEW..=ARRAY).contains(&flat.lows.len()), "{} slots in one array", flat.lows.len());
                let from = flat.pages.iter().scan(0, |from, page| Some(core::mem::replace(from, page.end)));
                assert!(from.zip(&flat.pages).all(|(from, page)| from < page.end), "no page is empty");
            }
            Postings::Paged(paged) => {
                assert!(paged.len >= SHRINK, "{} slots in pages", paged.len);
                for page in &paged.pages {
                    match &page.leaf {
                        Leaf::Array(lows) => assert!((1..=ARRAY).contains(&lows.len()), "no page is empty"),
                        Leaf::Bits { count, words } => {
                            assert_eq!(words.iter().map(|word| word.count_ones()).sum::<u32>(), *count);
                            assert!(*count as usize >= SHRINK, "{count} bits in a page");
                        }
                    }
                }
            }
        }
    }
}

/// Room for one more. It grows by an eighth and not to the double: what is reserved counts as memory of the index.
pub(super) fn make_room<T>(vec: &mut Vec<T>) {
    if vec.len() == vec.capacity() {
        vec.reserve_exact((vec.len() / 8).max(4));
    }
}

fn put(lows: &mut Vec<u16>, at: usize, low: u16) {
    make_room(lows);
    lows.insert(at, low);
}

fn take(lows: &mut Vec<u16>, at: usize) {
    lows.remove(at);
    if lows.len() < lows.capacity() / 2 {
        lows.shrink_to(lows.len() + lows.len() / 8);
    }
}

impl Flat {
    fn from(&self, page: usize) -> usize {
        page.checked_sub(1).map_or(0, |before| usize::from(self.pages[before].end))
    }

    fn insert(&mut self, slot: Slot) {
        let (high, low) = split(slot);
        let page = self.pages.partition_point(|page| page.high < high);
        let from = self.from(page);
        if self.pages.get(page).is_none_or(|page| page.high != high) {
            self.pages.insert(page, FlatPage { high, end: from as u16 });
        }
        let end = usize::from(self.pages[page].end);
        let at = from + self.lows[from..end].partition_point(|other| *other < low);
        put(&mut self.lows, at, low);
        self.pages[page..].iter_mut().for_each(|page| page.end += 1);
    }

    fn remove(&mut self, slot: Slot) {
        let (high, low) = split(slot);
        let page = self.pages.binary_search_by_key(&high, |page| page.high).expect("the slot is in this bucket");
        let (from, end) = (self.from(page), usize::from(self.pages[page].end));
        let at = from + self.lows[from..end].binary_search(&low).expect("the slot is in this bucket");
        take(&mut self.lows, at);
        self.pages[page..].iter_mut().for_each(|page| page.end -= 1);
        if usize::from(self.pages[page].end) == from {
            self.pages.remove(page);
        }
    }
}

impl Paged {
    fn insert(&mut self, slot: Slot) {
        let (high, low) = split(slot);
        let page = self.pages.partition_point(|page| page.high < high);
        if self.pages.get(page).is_none_or(|page| page.high != high) {
            self.pages.insert(page, Page { high, leaf: Leaf::Array(Vec::new()) });
        }
        self.pages[page].leaf.insert(low);
        self.len += 1;
    }

    fn remove(&mut self, slot: Slot) {
        let (high, low) = split(slot);
        let page = self.pages.binary_search_by_key(&high, |page| page.high).expect("the slot is in this bucket");
        if self.pages[page].leaf.remove(low) == 0 {
            self.pages.remove(page);
        }
        self.len -= 1;
    }
}

impl Leaf {
    fn insert(&mut self, low: u16) {
        match self {
            Leaf::Array(lows) if lows.len() < ARRAY => {
                let at = lows.partition_point(|other| *other < low);
                put(lows, at, low);
            }
            Leaf::Array(lows) => {
                let (mut words, count) = (Box::new([0; WORDS]), lows.len() as u32 + 1);
                lows.iter().chain([&low]).for_each(|low| words[usize::from(*low) / 64] |= 1 << (low % 64));
                *self = Leaf::Bits { count, words };
            }
            Leaf::Bits { count, words } => {
                words[usize::from(low) / 64] |= 1 << (low % 64);
                *count += 1;
            }
        }
    }

    /// How many are left.
    fn remove(&mut self, low: u16) -> usize {
        match self {
            Leaf::Array(lows) => {
                let at = lows.binary_search(&low).expect("the slot is in this bucket");
                take(lows, at);
                lows.len()
            }
            Leaf::Bits { count, words } => {
                words[usize::from(low) / 64] &= !(1 << (low % 64));
                *count -= 1;
                let left = *count as usize;
                if left < SHRINK {
                    let mut lows = Vec::with_capacity(left);
                    lows.extend(bits(0, words).map(|slot| slot as u16));
                    *self = Leaf::Array(lows);
                }
                left
            }
        }
    }
}

fn bits(high: u16, words: &[u64; WORDS]) -> LeafIter<'_> {
    // One word before the first: reading begins by moving on to the next.
    LeafIter::Bits { word: Bits(0), from: join(high, 0).wrapping_sub(64), words: words.iter() }
}

/// The slots of one set.
pub(crate) struct Iter<'a> {
    left: usize,
    leaf: LeafIter<'a>,
    pages: Pages<'a>,
}

enum LeafIter<'a> {
    Few(core::slice::Iter<'a, u32>),
    Array {
        high: u16,
        lows: core::slice::Iter<'a, u16>,
    },
    /// `word` has what is left of the 64 slots at `from`.
    Bits {
        word: Bits,
        from: u32,
        words: core::slice::Iter<'a, u64>,
    },
}

enum Pages<'a> {
    None,
    Flat { from: usize, pages: core::slice::Iter<'a, FlatPage>, lows: &'a [u16] },
    Paged(core::slice::Iter<'a, Page>),
}

impl<'a> Iterator for Pages<'a> {
    type Item = LeafIter<'a>;

    fn next(&mut self) -> Option<LeafIter<'a>> {
        match self {
            Pages::None => None,
            Pages::Flat { from, pages, lows } => {
                let page = pages.next()?;
                let end = usize::from(page.end);
                let lows = lows[core::mem::replace(from, end)..end].iter();
                Some(LeafIter::Array { high: page.high, lows })
            }
            Pages::Paged(pages) => pages.next().map(|page| match &page.leaf {
                Leaf::Array(lows) => LeafIter::Array { high: page.high, lows: lows.iter() },
                Leaf::Bits { words, .. } => bits(page.high, words),
            }),
        }
    }
}

impl Iterator for LeafIter<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        match self {
            LeafIter::Few(slots) => slots.next().copied(),
            LeafIter::Array { high, lows } => lows.next().map(|low| join(*high, *low)),
            LeafIter::Bits { word, from, words } => loop {
                if let Some(bit) = word.next() {
                    return Some(*from + bit);
                }
                *word = Bits(*words.next()?);
                *from = from.wrapping_add(64);
            },
        }
    }
}

impl Iterator for Iter<'_> {
    type Item = Slot;

    fn next(&mut self) -> Option<Slot> {
        loop {
            if let Some(slot) = self.leaf.next() {
                self.left -= 1;
                return Some(Slot(slot));
            }
            self.leaf = self.pages.next()?;
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }

    /// What walks to the end does not ask at each slot in which form they come.
    fn fold<B, F: FnMut(B, Slot) -> B>(self, init: B, mut f: F) -> B {
        let Iter { left: _, leaf, pages } = self;
        core::iter::once(leaf).chain(pages).fold(init, |folded, leaf| match leaf {
            LeafIter::Few(slots) => slots.fold(folded, |folded, slot| f(folded, Slot(*slot))),
            LeafIter::Array { high, lows } => lows.fold(folded, |folded, low| f(folded, Slot(join(high, *low)))),
            bits @ LeafIter::Bits { .. } => bits.fold(folded, |folded, slot| f(folded, Slot(slot))),
        })
    }
}

impl ExactSizeIterator for Iter<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn slots(postings: &Postings) -> Vec<u32> {
        #[cfg(debug_assertions)]
        postings.check();
        let mut walked = Vec::new();
        // From the start, and from any place within.
        for begun in [0, 1, postings.len() / 2] {
            let mut iter = postings.iter();
            walked = iter.by_ref().take(begun).map(|slot| slot.0).collect();
            iter.for_each(|slot| walked.push(slot.0));
            assert!(walked.iter().copied().eq(postings.iter().map(|slot| slot.0)), "begun at {begun}");
        }
        let mut words = Vec::new();
        postings.words(|word| words.push(word));
        assert!(words.is_sorted_by(|a, b| a.number < b.number) && words.iter().all(|word| word.bits != 0));
        assert!(words.into_iter().flat_map(Word::slots).map(|slot| slot.0).eq(walked.iter().copied()), "by chunk");
        walked
    }

    #[test]
    fn a_set_in_place_is_no_larger_than_two_words() {
        assert_eq!(core::mem::size_of::<Postings>(), 16);
    }

    #[test]
    fn a_set_that_grows_and_shrinks_passes_through_every_form_and_back() {
        // Scattered over pages that are full, sparse, and missing.
        let all: Vec<u32> = (0..20_000).chain((70_000..400_000).step_by(97)).chain([u32::MAX, u32::MAX - 1]).collect();
        let (mut postings, mut model) = (Postings::default(), BTreeSet::new());
        let forms = |postings: &Postings| match postings {
            Postings::Few { .. } => 0,
            Postings::Flat(_) => 1,
            Postings::Paged(_) => 2,
        };
        let mut seen = Vec::new();
        let scattered = || (0..all.len()).map(|n| all[n * 7_919 % all.len()]);
        for (n, slot) in scattered().enumerate() {
            postings.insert(Slot(slot));
            model.insert(slot);
            seen.push(forms(&postings));
            if n % 500 == 0 {
                assert_eq!(slots(&postings), model.iter().copied().collect::<Vec<_>>());
            }
        }
        for (n, slot) in scattered().enumerate() {
            postings.remove(Slot(slot));
            model.remove(&slot);
            seen.push(forms(&postings));
            if n % 500 == 0 {
                assert_eq!(slots(&postings), model.iter().copied().collect::<Vec<_>>());
            }
        }
        assert!(postings.is_empty());
        seen.dedup();
        assert_eq!(seen, [0, 1, 2, 1, 0]);
    }

    #[test]
    fn the_length_that_is_left_is_known_at_every_step() {
        for count in [0, 2, 100, 5_000] {
            let mut postings = Postings::default();
            (0..count).for_each(|n| postings.insert(Slot(n * 40)));
            let mut iter = postings.iter();
            for left in (0..count as usize).rev() {
                assert!(iter.next().is_some());
                assert_eq!(iter.len(), left);
            }
            assert_eq!((iter.next(), iter.next(), iter.len()), (None, None, 0));
        }
    }

    proptest! {
        #[test]
        fn any_order_of_changes_leaves_the_set_that_it_should(
            changes in prop::collection::vec((0u32..4, 0u32..40), 0..400),
        ) {
            let (mut postings, mut model) = (Postings::default(), BTreeSet::new());
            for (page, low) in changes {
                let slot = page << 16 | low;
                if model.insert(slot) {
                    postings.insert(Slot(slot));
                } else {
                    model.remove(&slot);
                    postings.remove(Slot(slot));
                }
                prop_assert_eq!(postings.len(), model.len());
            }
            prop_assert_eq!(slots(&postings), model.into_iter().collect::<Vec<_>>());
        }
    }
}
