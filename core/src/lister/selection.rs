//! [`Selection`]: how the objects of a namespace that a selector selects are found; [`Detached`]: the same without the
//! store, so that the rest of the work needs no lock.
//!
//! ```text
//! namespace, requirements ──► those with an index ──► the smallest set: candidates (slots)
//!                      │                        └──► the others: asked of each slot, by its index
//!                      └────► those without ───────► asked of each object, by its labels: code of the user's type
//! ```
//!
//! An index answers what asks for a label that is there (`k=v`, `k in (a,b)`, `k`, `k>5`, `k<5`). What asks for one that
//! is not, or for another value (`k!=v`, `k notin (a,b)`, `!k`), is true of objects that the index does not hold: it can
//! be asked of a candidate, and never gives candidates.

use super::objects::{Found, Objects, TOGETHER};
use crate::object::{Meta, Obj, Object};
use crate::selector::{LabelSelector, LabelTest, Requirement};
use crate::store::{Index, Slot, Source, Store, Word, Words, merge};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use smallvec::SmallVec;

/// So many handles are cloned at most while the store is held: about a tenth of a millisecond. Of more, the chunks that they
/// lie in are counted.
pub const HANDLES_AT_ONCE: usize = 4_096;

/// The objects of one namespace that one selector selects, in a store that is borrowed.
pub struct Selection<'a, 's, T> {
    store: &'a Store<T>,
    origin: Origin<'a, 's>,
    /// What is asked of each candidate by another index.
    clauses: SmallVec<[Clause<'a, 's>; 2]>,
    rest: Rest<'s, T>,
}

/// Where the candidates come from.
enum Origin<'a, 's> {
    Nothing,
    Everything,
    /// These buckets, which share no slot.
    Buckets(&'a Index, SmallVec<[u32; 2]>),
    /// All buckets of a label whose value passes.
    Holders(&'a Index, &'s Requirement),
}

/// One condition that an index knows about.
#[derive(Clone, Copy)]
struct Clause<'a, 's> {
    index: &'a Index,
    asks: Asks<'s>,
}

#[derive(Clone, Copy)]
enum Asks<'s> {
    Namespace(&'s str),
    Label(&'s Requirement),
}

/// What must be asked of the objects themselves.
struct Rest<'s, T> {
    namespace: Option<&'s str>,
    requirements: SmallVec<[&'s Requirement; 4]>,
    /// Asks one requirement of an object's labels.
    holds: fn(&Requirement, &Obj<T>) -> bool,
}

impl<T> Rest<'_, T> {
    fn is_nothing(&self) -> bool {
        self.namespace.is_none() && self.requirements.is_empty()
    }

    fn matches(&self, object: &Obj<T>) -> bool {
        self.namespace.is_none_or(|namespace| Obj::is_in(object, namespace))
            && self.requirements.iter().all(|requirement| (self.holds)(requirement, object))
    }
}

impl<'a, 's> Clause<'a, 's> {
    /// The slots that pass, and a bound of how many; `None` if the index does not hold all that pass.
    fn origin(self) -> Option<(usize, Origin<'a, 's>)> {
        let buckets = |found: SmallVec<[u32; 2]>| {
            let len = found.iter().map(|bucket| self.index.slots_in(*bucket).len()).sum();
            Some((len, Origin::Buckets(self.index, found)))
        };
        match self.asks {
            Asks::Namespace(namespace) => buckets(self.index.find(namespace).into_iter().collect()),
            Asks::Label(requirement) => match requirement.test() {
                LabelTest::Equals(value) => buckets(self.index.find(value).into_iter().collect()),
                LabelTest::In(values) => buckets(values.iter().filter_map(|value| self.index.find(value)).collect()),
                LabelTest::Exists | LabelTest::Greater(_) | LabelTest::Less(_) => {
                    Some((self.index.objects(), Origin::Holders(self.index, requirement)))
                }
                LabelTest::NotEquals(_) | LabelTest::NotIn(_) | LabelTest::Absent => None,
            },
        }
    }

    fn holds(&self, slot: Slot) -> bool {
        let value = self.index.value(slot);
        match self.asks {
            Asks::Namespace(namespace) => value == Some(namespace),
            Asks::Label(requirement) => requirement.matches(value),
        }
    }
}

impl<'a, 's, T> Selection<'a, 's, T> {
    /// The objects of a namespace; of all of them for `""`.
    pub(super) fn namespace(store: &'a Store<T>, namespace: &'s str) -> Self {
        Self::new(store, namespace, [], |_, _| true)
    }

    /// The objects that have `value` in `index`.
    pub(super) fn value(store: &'a Store<T>, index: &'a Index, value: &str) -> Self {
        let origin = Origin::Buckets(index, index.find(value).into_iter().collect());
        Selection { origin, ..Self::new(store, "", [], |_, _| true) }
    }

    fn new(
        store: &'a Store<T>,
        namespace: &'s str,
        requirements: impl IntoIterator<Item = &'s Requirement>,
        holds: fn(&Requirement, &Obj<T>) -> bool,
    ) -> Self {
        let mut rest = Rest { namespace: None, requirements: SmallVec::new(), holds };
        let mut clauses = SmallVec::<[Clause<'a, 's>; 2]>::new();
        if !namespace.is_empty() {
            match store.index_from(|source| *source == Source::Namespace) {
                Some(index) => clauses.push(Clause { index, asks: Asks::Namespace(namespace) }),
                None => rest.namespace = Some(namespace),
            }
        }
        for requirement in requirements {
            let known = |source: &Source| matches!(source, Source::Label(label) if **label == *requirement.key());
            match store.index_from(known) {
                Some(index) => clauses.push(Clause { index, asks: Asks::Label(requirement) }),
                None => rest.requirements.push(requirement),
            }
        }
        let origins = clauses.iter().enumerate().filter_map(|(at, clause)| Some((at, clause.origin()?)));
        match origins.min_by_key(|(_, (len, _))| *len) {
            Some((at, (_, origin))) => {
                clauses.remove(at);
                Selection { store, origin, clauses, rest }
            }
            None => {
                // Everything is looked at: then it is the labels that are looked at.
                let labels = clauses.into_iter().filter_map(|clause| match clause.asks {
                    Asks::Label(requirement) => Some(requirement),
                    Asks::Namespace(_) => None, // it would have been the origin
                });
                rest.requirements.extend(labels);
                Selection { store, origin: Origin::Everything, clauses: SmallVec::new(), rest }
            }
        }
    }

    /// How many objects are looked at, at most: the size of the smallest set that an index knows, or all.
    pub fn candidates(&self) -> usize {
        match &self.origin {
            Origin::Nothing => 0,
            Origin::Everything => self.store.len(),
            Origin::Buckets(index, buckets) => buckets.iter().map(|bucket| index.slots_in(*bucket).len()).sum(),
            Origin::Holders(index, _) => index.objects(),
        }
    }

    /// The objects, in no order that a user may rely on. Labels without an index are looked at as they come by.
    pub fn objects(self) -> impl Iterator<Item = &'a Obj<T>> + use<'a, 's, T> {
        let Selection { store, origin, clauses, rest } = self;
        let (mut everything, mut buckets, mut holders) = (None, None, None);
        match origin {
            Origin::Nothing => {}
            Origin::Everything => everything = Some(store.slots()),
            Origin::Buckets(index, found) => {
                buckets = Some(found.into_iter().flat_map(move |bucket| index.slots_in(bucket)));
            }
            Origin::Holders(index, requirement) => {
                let found = index.buckets_where(move |value| requirement.matches(Some(value)));
                holders = Some(found.flat_map(move |bucket| index.slots_in(bucket)));
            }
        }
        let found = buckets.into_iter().flatten().chain(holders.into_iter().flatten());
        let found = found.chain(everything.into_iter().flatten());
        let found = found.filter(move |slot| clauses.iter().all(|clause| clause.holds(*slot)));
        found.map(|slot| store.at(slot)).filter(move |object| rest.matches(object))
    }

    /// Takes what is needed of the store, without running code of the user's type: call it under the read lock, and
    /// [`Detached::into_objects`] without.
    #[must_use = "the objects come from `into_objects`"]
    pub fn detach(self) -> Detached<'s, T> {
        self.detach_at_most(HANDLES_AT_ONCE)
    }

    fn detach_at_most(self, handles: usize) -> Detached<'s, T> {
        let candidates = self.candidates();
        let Selection { store, origin, clauses, rest } = self;
        let mut noted = match origin {
            Origin::Nothing => Words::new(),
            Origin::Everything => return Detached { found: Found::All(store.snapshot()), rest },
            Origin::Buckets(index, found) => note(index, found, candidates, store.chunks()),
            Origin::Holders(index, requirement) => {
                let found = index.buckets_where(|value| requirement.matches(Some(value)));
                note(index, found, candidates, store.chunks())
            }
        };
        if !clauses.is_empty() {
            let holds = |slot: Slot| clauses.iter().all(|clause| clause.holds(slot));
            noted.iter_mut().for_each(|word| *word = word.only(holds));
            noted.retain(|word| word.bits != 0);
        }
        let len = noted.iter().map(|word| word.len()).sum::<usize>();
        let found = if len >= TOGETHER * noted.len() || len > handles {
            Found::Part(store.part(&noted))
        } else {
            let mut found = Vec::with_capacity(len);
            let slots = noted.into_iter().flat_map(Word::slots);
            slots.for_each(|slot| found.push(store.at(slot).clone()));
            Found::Handles(found)
        };
        Detached { found, rest }
    }
}

/// Notes what is in these buckets, of a store of so many chunks: each chunk once, in rising order. The store is held
/// meanwhile, so nothing is sorted that a bit for each slot of the store takes less time for.
fn note(index: &Index, buckets: impl IntoIterator<Item = u32>, candidates: usize, chunks: usize) -> Words {
    let mut buckets = buckets.into_iter();
    let (first, second) = (buckets.next(), buckets.next());
    let several = second.is_some();
    let buckets = first.into_iter().chain(second).chain(buckets);
    if several && candidates > chunks {
        let mut bits = vec![0; chunks];
        buckets.for_each(|bucket| index.words_in(bucket, |word| bits[word.number as usize] |= word.bits));
        let words = (0..).zip(bits).map(|(number, bits)| Word { number, bits });
        return words.filter(|word| word.bits != 0).collect();
    }
    let mut noted = Words::new();
    buckets.for_each(|bucket| index.words_in(bucket, |word| noted.push(word)));
    if several {
        merge(&mut noted);
    }
    noted
}

impl<'a, 's, T: Object> Selection<'a, 's, T> {
    /// The objects of a namespace, or of all for `""`, that `selector` selects.
    pub(super) fn labels(store: &'a Store<T>, namespace: &'s str, selector: &'s LabelSelector) -> Self {
        let holds = |requirement: &Requirement, object: &Obj<T>| {
            requirement.matches(object.metadata().label(requirement.key()))
        };
        let selection = Self::new(store, namespace, selector.requirements(), holds);
        if selector.is_nothing() { Selection { origin: Origin::Nothing, ..selection } } else { selection }
    }
}

impl<T> fmt::Debug for Selection<'_, '_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "selection among {} objects of {}", self.candidates(), self.store.len())
    }
}

/// What was taken of a store to answer a [`Selection`] without it.
pub struct Detached<'s, T> {
    found: Found<T>,
    rest: Rest<'s, T>,
}

impl<T> Detached<'_, T> {
    /// The objects, as they were when the store was read, in no order that a user may rely on. Looks at labels: code of
    /// the user's type.
    pub fn into_objects(self) -> Objects<T> {
        let Detached { found, rest } = self;
        Objects(if rest.is_nothing() { found } else { found.only(|object| rest.matches(object)) })
    }
}

impl<T> fmt::Debug for Detached<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} candidates of a selection", self.found.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lister::Lister;
    use crate::object::{Key, ObjectMeta, Resource, Uid, Version};
    use crate::store::IndexDef;
    use proptest::prelude::*;
    use serde::Deserialize;
    use std::format;
    use std::string::{String, ToString};

    #[derive(Deserialize)]
    struct Labelled {
        metadata: ObjectMeta,
    }

    impl Object for Labelled {
        type Meta = ObjectMeta;

        fn resource() -> Resource {
            Resource::namespaced("example.com", "v1", "labelled", "Labelled")
        }

        fn metadata(&self) -> &ObjectMeta {
            &self.metadata
        }
    }

    const LABELS: [&str; 3] = ["app", "tier", "size"];

    type Labels = [Option<u8>; 3];

    fn object(namespace: u8, name: impl core::fmt::Display, labels: Labels) -> Obj<Labelled> {
        let labels =
            LABELS.iter().zip(labels).filter_map(|(label, value)| Some((label.to_string(), value?.to_string())));
        let metadata = ObjectMeta { labels: labels.collect(), ..ObjectMeta::default() };
        let namespace = if namespace == 0 { String::new() } else { format!("n{namespace}") };
        let key = Key::new(&namespace, &format!("o{name}"));
        Obj::new(key, Uid::new("u"), Version::new("1"), Labelled { metadata })
    }

    fn labels() -> impl Strategy<Value = Labels> {
        prop::array::uniform3(prop::option::weighted(0.7, 0u8..4))
    }

    /// One requirement of any kind; some want what no object has.
    fn requirement() -> impl Strategy<Value = LabelSelector> {
        let label = prop::sample::select(&["app", "tier", "size", "none"][..]);
        (label, 0u8..8, prop::collection::btree_set(0u8..6, 1..3)).prop_map(|(label, kind, values)| {
            let (some, first) = (values.iter().map(u8::to_string), *values.first().unwrap());
            let made = match kind {
                0 => LabelSelector::eq(label, &first.to_string()),
                1 => LabelSelector::ne(label, &first.to_string()),
                2 => LabelSelector::is_in(label, some),
                3 => LabelSelector::not_in(label, some),
                4 => LabelSelector::exists(label),
                5 => LabelSelector::absent(label),
                6 => LabelSelector::greater(label, first.into()),
                _ => LabelSelector::less(label, first.into()),
            };
            made.unwrap()
        })
    }

    fn selector() -> impl Strategy<Value = LabelSelector> {
        let several = prop::collection::vec(requirement(), 0..4)
            .prop_map(|all| all.into_iter().fold(LabelSelector::everything(), LabelSelector::and));
        prop_oneof![19 => several, 1 => Just(LabelSelector::nothing())]
    }

    fn keys<'a>(objects: impl IntoIterator<Item = &'a Obj<Labelled>>) -> Vec<String> {
        let mut keys: Vec<_> = objects.into_iter().map(|object| object.key().to_string()).collect();
        keys.sort_unstable();
        keys
    }

    proptest! {
        /// Whatever is indexed, a selection is what a look at every object finds.
        #[test]
        fn an_index_never_changes_an_answer(
            changes in prop::collection::vec((0u8..3, 0u8..20, prop::option::weighted(0.8, labels())), 0..60),
            indexed in prop::collection::btree_set(0usize..4, 0..=4),
            (namespace, selector) in (0u8..4, selector()),
            // Before these: objects of several chunks, whose labels are those of their neighbours or not.
            (before, together) in (prop_oneof![Just(0u32), 0u32..700], prop::sample::select(&[1u32, 10, 64, 100][..])),
        ) {
            let mut store = Store::new(1);
            for at in indexed {
                let def = LABELS.get(at).map_or_else(IndexDef::namespace, |label| IndexDef::label(label));
                store.add_index(def).unwrap();
            }
            for n in 0..before {
                let labels = [Some((n / together % 5) as u8), (n % 97 < 3).then_some((n % 4) as u8), (n % 3 == 0).then_some(1)];
                store.upsert(object((n / 300 % 3) as u8, format_args!("before-{n}"), labels));
            }
            for (namespace, name, labels) in changes {
                let object = object(namespace, name, labels.unwrap_or_default());
                match labels {
                    Some(_) => _ = store.upsert(object),
                    None => _ = store.remove(object.key().as_str()),
                }
            }
            let namespace = if namespace == 0 { String::new() } else { format!("n{namespace}") };
            let naive = store.iter().filter(|object| {
                (namespace.is_empty() || object.key().namespace() == namespace) && selector.matches(object.metadata())
            });
            let naive = keys(naive);
            let select = || Lister::new(&store).select(&namespace, &selector);
            prop_assert!(select().candidates() >= naive.len());
            prop_assert_eq!(keys(select().objects()), naive.clone());
            for handles in [0, 3, HANDLES_AT_ONCE] {
                prop_assert_eq!(keys(&select().detach_at_most(handles).into_objects()), naive.clone());
            }
        }
    }

    #[test]
    fn the_smallest_set_is_looked_at() {
        let mut store = Store::new(1);
        for def in [IndexDef::namespace(), IndexDef::label("app"), IndexDef::label("tier")] {
            store.add_index(def).unwrap();
        }
        for n in 0..200 {
            store.upsert(object(1 + n % 2, n, [Some(n % 10), (n < 5).then_some(0), None]));
        }
        let looked_at =
            |namespace, selector: &str| Lister::new(&store).select(namespace, &selector.parse().unwrap()).candidates();
        assert_eq!(looked_at("", ""), 200);
        assert_eq!(looked_at("n1", ""), 100);
        assert_eq!(looked_at("n1", "app=3"), 20);
        assert_eq!(looked_at("n3", "app=3"), 0);
        assert_eq!(looked_at("", "app in (3,4,none)"), 40);
        assert_eq!(looked_at("n1", "app in (3,4),tier"), 5);
        assert_eq!(looked_at("", "tier>0"), 5);
        assert_eq!(looked_at("n1", "app!=3,app notin (4),!tier,size!=1"), 100, "only the namespace says who is there");
        assert_eq!(looked_at("", "app!=3"), 200);
        assert_eq!(looked_at("", "app=3,app=4"), 20);
        assert_eq!(Lister::new(&store).matching(&"app=3,app=4".parse().unwrap()).count(), 0);
    }

    #[test]
    fn what_was_detached_stays_as_it_was() {
        let mut store = Store::new(1);
        store.add_index(IndexDef::label("app")).unwrap();
        (0..100).for_each(|n| _ = store.upsert(object(0, n, [Some(n % 10), None, None])));
        let [few, many, all] =
            ["app=1", "app in (1,2,3,4,5)", ""].map(|selector| selector.parse::<LabelSelector>().unwrap());
        let few = Lister::new(&store).select("", &few);
        let strewn = Lister::new(&store).select("", &many).detach_at_most(49);
        let (few, many) = (few.detach(), Lister::new(&store).select("", &many).detach());
        let all = Lister::new(&store).select("", &all).detach();
        assert!(matches!((&few.found, &many.found), (Found::Part(_), Found::Part(_))), "{few:?} {many:?}");
        (0..100).for_each(|n| _ = store.remove(&format!("o{n}")));
        assert_eq!([few, many, strewn, all].map(|found| found.into_objects().len()), [10, 50, 50, 100]);
        assert_eq!(Lister::new(&store).matching(&"app".parse().unwrap()).count(), 0);
    }

    #[test]
    fn neighbours_are_held_by_their_chunk_and_strewn_objects_one_by_one_unless_they_are_many() {
        let mut store = Store::new(1);
        store.add_index(IndexDef::label("app")).unwrap();
        (0..200).for_each(|n| _ = store.upsert(object(0, n, [Some(u8::from(n < 8 || n % 100 == 0)), None, None])));
        let one: LabelSelector = "app=1".parse().unwrap();
        let detached = |handles| Lister::new(&store).select("", &one).detach_at_most(handles).found;
        assert!(matches!(detached(9), Found::Part(part) if part.len() == 9), "nine in two chunks");
        (1..8).for_each(|n| _ = store.remove(&format!("o{n}")));
        let detached = |handles| Lister::new(&store).select("", &one).detach_at_most(handles).found;
        assert!(matches!(detached(2), Found::Handles(objects) if objects.len() == 2));
        assert!(matches!(detached(1), Found::Part(part) if part.len() == 2));
    }
}
