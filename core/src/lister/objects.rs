//! [`Objects`]: the answer of a lister, and how it is held.
//!
//! ```text
//! strewn     a counted pointer to each object
//! neighbours a counted pointer to each chunk of the store that they lie in, and a bit for each of its places
//! all        a snapshot
//! ```
//!
//! To read an answer touches no object that is not looked at. Objects lie in the store as the first list had them, so those
//! of a namespace are neighbours, and a list of five hundred of them counts nine chunks.

use crate::object::Obj;
use crate::store::{Part, PartIter, Snapshot};
use alloc::vec::{self, Vec};
use core::fmt;
use core::ops::Index;
use core::slice;

/// From so many objects per chunk on, chunks are counted in their place: a list of neighbours then costs next to nothing,
/// and a few strewn objects do not hold what lies beside them.
pub(super) const TOGETHER: usize = 4;

/// The objects of an answer as they were at one instant, in no order that a user may rely on. It never changes, and holds up
/// nobody.
///
/// It holds the objects by the part of the cache that they lie in, so as long as it is kept, earlier states of other objects
/// may be kept with it, at most 64 for one. [`into_vec`](Self::into_vec) holds its objects and nothing else.
pub struct Objects<T>(pub(super) Found<T>);

pub(super) enum Found<T> {
    Handles(Vec<Obj<T>>),
    Part(Part<T>),
    All(Snapshot<T>),
}

impl<T> Found<T> {
    pub(super) fn len(&self) -> usize {
        match self {
            Found::Handles(objects) => objects.len(),
            Found::Part(part) => part.len(),
            Found::All(snapshot) => snapshot.len(),
        }
    }

    /// Those that are wanted.
    pub(super) fn only(self, wanted: impl Fn(&Obj<T>) -> bool) -> Self {
        match self {
            Found::Handles(mut objects) => {
                objects.retain(wanted);
                Found::Handles(objects)
            }
            Found::Part(part) => Found::of(part.only(wanted)),
            Found::All(snapshot) => Found::of(snapshot.into_part(wanted)),
        }
    }

    fn of(part: Part<T>) -> Self {
        if part.len() >= TOGETHER * part.chunks() {
            Found::Part(part)
        } else {
            Found::Handles(part.iter().cloned().collect())
        }
    }
}

impl<T> Objects<T> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One of them, by its number in the order of [`iter`](Self::iter). In an answer that is the whole cache, what comes
    /// before is walked over; in any other one it is found by a search of a few steps.
    pub fn get(&self, number: usize) -> Option<&Obj<T>> {
        match &self.0 {
            Found::Handles(objects) => objects.get(number),
            Found::Part(part) => part.get(number),
            Found::All(snapshot) => snapshot.iter().nth(number),
        }
    }

    /// The first one.
    pub fn first(&self) -> Option<&Obj<T>> {
        self.get(0)
    }

    /// All of them.
    pub fn iter(&self) -> Iter<'_, T> {
        let walk = match &self.0 {
            Found::Handles(objects) => Walk::Handles(objects.iter()),
            Found::Part(part) => Walk::Part(part.iter()),
            Found::All(snapshot) => Walk::Snapshot { snapshot, at: 0 },
        };
        Iter { walk, left: self.len() }
    }

    /// A counted pointer to each.
    pub fn into_vec(self) -> Vec<Obj<T>> {
        match self.0 {
            Found::Handles(objects) => objects,
            Found::Part(part) => part.iter().cloned().collect(),
            Found::All(snapshot) => snapshot.iter().cloned().collect(),
        }
    }
}

impl<T> Default for Objects<T> {
    fn default() -> Self {
        Objects(Found::Handles(Vec::new()))
    }
}

impl<T> From<Vec<Obj<T>>> for Objects<T> {
    fn from(objects: Vec<Obj<T>>) -> Self {
        Objects(Found::Handles(objects))
    }
}

impl<T> Index<usize> for Objects<T> {
    type Output = Obj<T>;

    /// # Panics
    ///
    /// If there are not so many.
    fn index(&self, number: usize) -> &Obj<T> {
        self.get(number).unwrap_or_else(|| panic!("there are {} objects, and none of number {number}", self.len()))
    }
}

impl<T> fmt::Debug for Objects<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

/// The objects of [`Objects`].
pub struct Iter<'a, T> {
    walk: Walk<'a, T>,
    left: usize,
}

enum Walk<'a, T> {
    Handles(slice::Iter<'a, Obj<T>>),
    Part(PartIter<'a, T>),
    Snapshot { snapshot: &'a Snapshot<T>, at: usize },
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = &'a Obj<T>;

    fn next(&mut self) -> Option<&'a Obj<T>> {
        let next = match &mut self.walk {
            Walk::Handles(objects) => objects.next(),
            Walk::Part(part) => part.next(),
            Walk::Snapshot { snapshot, at } => snapshot.next(at),
        };
        self.left -= usize::from(next.is_some());
        next
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }

    /// What walks to the end does not ask at each object in which form the answer comes.
    fn fold<B, F: FnMut(B, &'a Obj<T>) -> B>(self, init: B, f: F) -> B {
        match self.walk {
            Walk::Handles(objects) => objects.fold(init, f),
            Walk::Part(part) => part.fold(init, f),
            Walk::Snapshot { snapshot, at } => snapshot.iter_from(at).fold(init, f),
        }
    }
}

impl<T> ExactSizeIterator for Iter<'_, T> {}

impl<'a, T> IntoIterator for &'a Objects<T> {
    type Item = &'a Obj<T>;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T> IntoIterator for Objects<T> {
    type Item = Obj<T>;
    type IntoIter = vec::IntoIter<Obj<T>>;

    /// A counted pointer to each.
    fn into_iter(self) -> vec::IntoIter<Obj<T>> {
        self.into_vec().into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Key, Uid, Version};
    use crate::store::{Store, Word};
    use std::format;

    fn store(objects: usize) -> Store<usize> {
        let mut store = Store::new(7);
        (0..objects).for_each(|n| {
            store.upsert(Obj::new(Key::new("", &format!("{n}")), Uid::new("u"), Version::new("1"), n));
        });
        store
    }

    /// All of the first slots, up to a number of them.
    fn part(store: &Store<usize>, slots: usize) -> Part<usize> {
        let words = (0..).zip((0..slots).step_by(64));
        let words =
            words.map(|(number, from)| Word { number, bits: u64::MAX >> 64_usize.saturating_sub(slots - from) });
        store.part(&words.collect::<Vec<_>>())
    }

    /// The same objects in each of the three forms.
    fn forms(objects: usize) -> [Objects<usize>; 3] {
        let store = store(objects);
        let handles = store.slots().map(|slot| store.at(slot).clone()).collect();
        [Found::Handles(handles), Found::Part(part(&store, objects)), Found::All(store.snapshot())].map(Objects)
    }

    #[test]
    fn every_form_of_an_answer_reads_alike() {
        for count in [0, 1, 64, 150] {
            for objects in forms(count) {
                assert_eq!((objects.len(), objects.is_empty()), (count, count == 0));
                let mut iter = objects.iter();
                for n in 0..count {
                    assert_eq!(iter.len(), count - n);
                    assert_eq!(iter.next().map(|object| **object), Some(n));
                }
                assert!(iter.next().is_none() && iter.next().is_none() && iter.len() == 0);
                assert_eq!(objects.first().map(|object| **object), (count > 0).then_some(0));
                assert_eq!((objects.get(count).is_none(), (0..count).all(|n| *objects[n] == n)), (true, true));
                assert_eq!(format!("{objects:?}"), format!("{:?}", objects.iter().collect::<Vec<_>>()));
                for begun in [0, 1, 70] {
                    let (mut rest, mut walked) = (objects.iter(), Vec::new());
                    rest.by_ref().take(begun).for_each(|_| {});
                    rest.for_each(|object| walked.push(**object));
                    assert!(walked.into_iter().eq(begun.min(count)..count), "from {begun} to the end");
                }
                assert!(objects.into_iter().map(|object| *object).eq(0..count));
            }
        }
    }

    #[test]
    fn what_is_not_wanted_is_left_out_in_every_form() {
        for objects in forms(150) {
            let odd = Objects(objects.0.only(|object| **object % 2 == 1));
            assert!(odd.iter().map(|object| **object).eq((1..150).step_by(2)));
        }
    }

    #[test]
    fn an_answer_holds_nothing_that_lies_where_it_has_no_object() {
        for (name, wanted, held) in [("few", 70..71, 70..71), ("neighbours", 64..100, 64..128)] {
            for form in 0..3 {
                let objects = forms(200).into_iter().nth(form).unwrap();
                let mut every = objects.iter().cloned().collect::<Vec<_>>();
                let answer = Objects(objects.0.only(|object| wanted.contains(&**object)));
                assert!(answer.iter().map(|object| **object).eq(wanted.clone()), "{name}");
                every.retain(|object| !held.contains(&**object));
                assert!(
                    every.iter().all(Obj::is_last),
                    "{name}, form {form}: the store is gone, and nobody else has them"
                );
            }
        }
    }

    #[test]
    fn a_part_holds_what_it_saw_and_a_vector_nothing_else() {
        let mut store = store(64);
        let part = Objects(Found::Part(part(&store, 10)));
        let beside = store.get("63").unwrap().clone();
        (0..64).for_each(|n| _ = store.remove(&format!("{n}")));
        assert!(part.iter().map(|object| **object).eq(0..10));
        assert!(!Obj::is_last(&beside), "the part holds the chunk");
        let few = part.into_vec();
        assert!(few.len() == 10 && Obj::is_last(&beside));
    }

    #[test]
    #[should_panic(expected = "there are 2 objects, and none of number 2")]
    fn what_is_beyond_the_end_cannot_be_indexed() {
        _ = &forms(2)[1][2];
    }
}
