//! [`Word`]: slots of a store by the 64, those of one chunk.
//!
//! What an index answers lies together more often than not. A word is a chunk's number and a bit for each slot in it, so a
//! namespace of five hundred objects is nine words, and a chunk that belongs to it as a whole is one step.

use super::slots::{CHUNK, Slot};
use smallvec::SmallVec;

const _: () = assert!(CHUNK == u64::BITS as usize, "a word has a bit for each slot of a chunk");

/// Words that are noted without an allocation.
pub(crate) type Words = SmallVec<[Word; 32]>;

/// Some slots of one chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Word {
    /// Which chunk.
    pub(crate) number: u32,
    /// Which of its slots.
    pub(crate) bits: u64,
}

impl Word {
    pub(crate) fn len(self) -> usize {
        self.bits.count_ones() as usize
    }

    /// The slots, in rising order.
    pub(crate) fn slots(self) -> impl Iterator<Item = Slot> {
        Bits(self.bits).map(move |bit| Slot(self.number << 6 | bit))
    }

    /// Without the slots that are not wanted.
    pub(crate) fn only(self, mut wanted: impl FnMut(Slot) -> bool) -> Word {
        let unwanted = self.slots().filter(|slot| !wanted(*slot)).map(|slot| 1 << (slot.0 % 64));
        Word { bits: unwanted.fold(self.bits, |bits, bit: u64| bits & !bit), ..self }
    }
}

/// The words of slots that rise.
pub(super) fn gather(slots: impl Iterator<Item = u32>, each: &mut impl FnMut(Word)) {
    let last = slots.fold(Word { number: 0, bits: 0 }, |mut word, slot| {
        if slot >> 6 != word.number {
            give(word, each);
            word = Word { number: slot >> 6, bits: 0 };
        }
        word.bits |= 1 << (slot % 64);
        word
    });
    give(last, each);
}

/// The same for the lower halves of slots whose upper half is `high`. Where a whole chunk is there, its first and its last
/// slot say so: what rises by 63 in 63 steps leaves nothing out.
pub(super) fn gather_lows(high: u16, lows: &[u16], each: &mut impl FnMut(Word)) {
    let number = |low: u16| u32::from(high) << 10 | u32::from(low >> 6);
    let (mut rest, mut word) = (lows, Word { number: 0, bits: 0 });
    while let Some((&low, after)) = rest.split_first() {
        if number(low) != word.number {
            give(word, each);
            word = Word { number: number(low), bits: 0 };
        }
        if low % 64 == 0 && rest.get(63) == Some(&(low | 63)) {
            word.bits = !0;
            rest = &rest[64..];
        } else {
            word.bits |= 1 << (low % 64);
            rest = after;
        }
    }
    give(word, each);
}

/// A word, if it has a slot.
pub(super) fn give(word: Word, each: &mut impl FnMut(Word)) {
    if word.bits != 0 {
        each(word);
    }
}

/// Each chunk once, in rising order.
pub(crate) fn merge(words: &mut Words) {
    words.sort_unstable_by_key(|word| word.number);
    words.dedup_by(|next, kept| {
        let same = next.number == kept.number;
        if same {
            kept.bits |= next.bits;
        }
        same
    });
}

/// The numbers of the bits that are set, in rising order.
#[derive(Clone)]
pub(super) struct Bits(pub(super) u64);

impl Iterator for Bits {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        if self.0 == 0 {
            return None;
        }
        let bit = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        Some(bit)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.0.count_ones() as usize;
        (left, Some(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    fn slots(words: &[Word]) -> Vec<u32> {
        words.iter().flat_map(|word| word.slots()).map(|slot| slot.0).collect()
    }

    fn are_whole(words: &[Word]) -> bool {
        words.is_sorted_by(|a, b| a.number < b.number) && words.iter().all(|word| word.bits != 0)
    }

    /// Runs of neighbours, some of which are whole chunks.
    fn runs() -> impl Strategy<Value = BTreeSet<u16>> {
        prop::collection::vec((any::<u16>(), 1u16..200), 0..8).prop_map(|runs| {
            let slots = runs.into_iter().flat_map(|(from, len)| from..from.saturating_add(len));
            slots.collect()
        })
    }

    proptest! {
        #[test]
        fn words_have_the_slots_that_they_were_gathered_from(lows in runs(), high in 0u16..3) {
            let lows: Vec<u16> = lows.into_iter().collect();
            let all: Vec<u32> = lows.iter().map(|low| u32::from(high) << 16 | u32::from(*low)).collect();
            let (mut plain, mut quick) = (Words::new(), Words::new());
            gather(all.iter().copied(), &mut |word| plain.push(word));
            gather_lows(high, &lows, &mut |word| quick.push(word));
            prop_assert_eq!(&plain, &quick);
            prop_assert!(are_whole(&plain));
            prop_assert_eq!(plain.iter().map(|word| word.len()).sum::<usize>(), all.len());
            let odd: Words = plain.iter().map(|word| word.only(|slot| slot.0 % 2 == 1)).collect();
            prop_assert!(slots(&odd).into_iter().eq(all.iter().copied().filter(|slot| slot % 2 == 1)));
            prop_assert_eq!(slots(&plain), all);
        }

        #[test]
        fn what_comes_from_several_is_merged(several in prop::collection::vec(runs(), 0..4)) {
            let mut words = Words::new();
            for lows in &several {
                gather(lows.iter().copied().map(u32::from), &mut |word| words.push(word));
            }
            merge(&mut words);
            let all: BTreeSet<u32> = several.iter().flatten().copied().map(u32::from).collect();
            prop_assert!(are_whole(&words));
            prop_assert!(slots(&words).into_iter().eq(all));
        }
    }
}
