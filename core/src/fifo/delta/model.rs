//! The queue against a naive one, written from the table of client-go's semantics: a plain list of keys, each with its plain
//! list of deltas, searched from end to end. And a store behind the queue against one without.

use super::*;
use crate::object::{Uid, Version};
use alloc::collections::BTreeMap;
use proptest::prelude::*;
use std::string::String;
use std::{format, vec};

#[derive(Clone, Debug)]
enum Op {
    Add(u8),
    Update(u8),
    Delete(u8),
    DeleteUnseen(u8),
    Replace(Vec<u8>),
    Resync,
    Pop,
    /// What is in hand goes into what is known.
    Apply,
    Done,
    Requeue,
}

fn op() -> impl Strategy<Value = Op> {
    let key = || 0u8..5;
    prop_oneof![
        4 => key().prop_map(Op::Add),
        4 => key().prop_map(Op::Update),
        4 => key().prop_map(Op::Delete),
        1 => key().prop_map(Op::DeleteUnseen),
        3 => prop::collection::vec(key(), 0..5).prop_map(Op::Replace),
        1 => Just(Op::Resync),
        5 => Just(Op::Pop),
        4 => Just(Op::Apply),
        1 => Just(Op::Done),
        2 => Just(Op::Requeue),
    ]
}

/// `Deleted` of a tombstone has `seen: false`.
#[derive(Clone, Debug, PartialEq)]
struct Fact {
    kind: DeltaKind,
    seen: bool,
    version: u32,
}

impl Fact {
    fn is_deletion(&self) -> bool {
        self.kind == DeltaKind::Deleted
    }
}

type Entry = (u8, Vec<Fact>, bool);

/// What the queue should do, as simply as it can be said.
#[derive(Default)]
struct Model {
    queue: Vec<Entry>,
    hand: Option<Entry>,
    known: BTreeMap<u8, u32>,
    populated: bool,
}

impl Model {
    fn is_queued(&self, key: u8) -> bool {
        self.queue.iter().any(|entry| entry.0 == key)
    }

    fn is_in_hand(&self, key: u8) -> bool {
        self.hand.as_ref().is_some_and(|hand| hand.0 == key)
    }

    fn queue(&mut self, key: u8, fact: Fact) {
        let Some((_, facts, _)) = self.queue.iter_mut().find(|entry| entry.0 == key) else {
            return self.queue.push((key, vec![fact], false));
        };
        facts.push(fact);
        Model::dedup(facts);
    }

    /// Of two deletions side by side the older stays, unless only the newer was seen.
    fn dedup(facts: &mut Vec<Fact>) {
        if let Some(at) = facts.windows(2).position(|two| two.iter().all(Fact::is_deletion)) {
            let worse = if facts[at].seen { at + 1 } else { at };
            facts.remove(worse);
        }
    }

    fn change(&mut self, kind: DeltaKind, key: u8, version: u32) {
        self.populated = true;
        self.queue(key, Fact { kind, seen: true, version });
    }

    fn delete(&mut self, key: u8, version: u32, seen: bool) {
        self.populated = true;
        if self.is_queued(key) || self.is_in_hand(key) || self.known.contains_key(&key) {
            self.queue(key, Fact { kind: DeltaKind::Deleted, seen, version });
        }
    }

    fn replace(&mut self, list: &[u8], version: u32) {
        for key in list {
            self.queue(*key, Fact { kind: DeltaKind::Replaced, seen: true, version });
        }
        let newest = |facts: &[Fact]| facts.last().unwrap().version;
        let mut gone: Vec<(u8, u32)> = self.queue.iter().map(|entry| (entry.0, newest(&entry.1))).collect();
        if let Some((key, facts, _)) = self.hand.as_ref().filter(|hand| !self.is_queued(hand.0)) {
            if !facts.last().unwrap().is_deletion() {
                gone.push((*key, newest(facts)));
            }
        }
        let quiet = |key: u8| !self.is_queued(key) && !self.is_in_hand(key);
        gone.extend(self.known.iter().map(|(key, version)| (*key, *version)).filter(|(key, _)| quiet(*key)));
        for (key, version) in gone.into_iter().filter(|(key, _)| !list.contains(key)) {
            self.queue(key, Fact { kind: DeltaKind::Deleted, seen: false, version });
        }
        if !self.populated {
            self.populated = true;
            self.queue.iter_mut().for_each(|entry| entry.2 = true);
        }
    }

    fn resync(&mut self) {
        for (key, version) in self.known.clone() {
            if !self.is_queued(key) && !self.is_in_hand(key) {
                self.queue(key, Fact { kind: DeltaKind::Sync, seen: true, version });
            }
        }
    }

    fn pop(&mut self) {
        self.hand = (!self.queue.is_empty()).then(|| self.queue.remove(0));
    }

    fn apply(&mut self) {
        let Some((key, facts, _)) = self.hand.take() else { return };
        match facts.last().unwrap() {
            last if last.is_deletion() => self.known.remove(&key),
            last => self.known.insert(key, last.version),
        };
    }

    fn requeue(&mut self) {
        let Some((key, mut facts, initial)) = self.hand.take() else { return };
        match self.queue.iter_mut().find(|entry| entry.0 == key) {
            None => self.queue.push((key, facts, initial)),
            Some(entry) => {
                facts.append(&mut entry.1);
                Model::dedup(&mut facts);
                *entry = (key, facts, entry.2 || initial);
            }
        }
    }

    fn has_synced(&self) -> bool {
        self.populated && !self.queue.iter().chain(&self.hand).any(|entry| entry.2)
    }
}

fn pod(key: u8, version: u32) -> Obj<()> {
    Obj::new(Key::new("", &format!("{key}")), Uid::new("u"), Version::new(&format!("{version}")), ())
}

struct Known(BTreeMap<String, Obj<()>>);

impl KnownObjects<()> for Known {
    fn get(&self, key: &str) -> Option<&Obj<()>> {
        self.0.get(key)
    }

    fn iter<'a>(&'a self) -> impl Iterator<Item = &'a Obj<()>>
    where
        (): 'a,
    {
        self.0.values()
    }
}

impl From<&Model> for Known {
    fn from(model: &Model) -> Self {
        Known(model.known.iter().map(|(key, version)| (format!("{key}"), pod(*key, *version))).collect())
    }
}

fn facts(deltas: &[Delta<()>]) -> Vec<Fact> {
    let fact = |delta: &Delta<()>| Fact {
        kind: delta.kind,
        seen: matches!(delta.object, DeltaObject::Object(_)),
        version: delta.object.last().unwrap().version().as_str().parse().unwrap(),
    };
    deltas.iter().map(fact).collect()
}

fn entries(fifo: &DeltaFifo<()>) -> Vec<(u8, Vec<Fact>)> {
    fifo.keys().map(|key| (key.as_str().parse().unwrap(), facts(fifo.get(key)))).collect()
}

proptest! {
    #[test]
    fn the_queue_does_what_the_naive_one_does(ops in prop::collection::vec(op(), 0..100)) {
        let (mut fifo, mut model, mut hand) = (DeltaFifo::new(), Model::default(), None);
        for (version, op) in (1u32..).zip(ops) {
            let known = Known::from(&model);
            match op {
                Op::Add(key) => {
                    fifo.add(pod(key, version)).unwrap();
                    model.change(DeltaKind::Added, key, version);
                }
                Op::Update(key) => {
                    fifo.update(pod(key, version)).unwrap();
                    model.change(DeltaKind::Updated, key, version);
                }
                Op::Delete(key) => {
                    fifo.delete(pod(key, version).into(), &known).unwrap();
                    model.delete(key, version, true);
                }
                Op::DeleteUnseen(key) => {
                    let last = Some(pod(key, version));
                    let tombstone = Tombstone { key: Key::new("", &format!("{key}")), last };
                    fifo.delete(DeltaObject::Tombstone(tombstone), &known).unwrap();
                    model.delete(key, version, false);
                }
                Op::Replace(list) => {
                    fifo.replace(list.iter().map(|key| pod(*key, version)), &known).unwrap();
                    model.replace(&list, version);
                }
                Op::Resync => {
                    fifo.resync(&known);
                    model.resync();
                }
                Op::Pop => {
                    hand = fifo.pop();
                    model.pop();
                    let popped = hand.as_ref().map(|deltas: &Deltas<()>| {
                        (deltas.key().as_str().parse().unwrap(), facts(&deltas.list), deltas.is_initial())
                    });
                    prop_assert_eq!(&popped, &model.hand);
                }
                Op::Apply => {
                    hand = None;
                    fifo.done();
                    model.apply();
                }
                Op::Done => {
                    hand = None;
                    fifo.done();
                    model.hand = None;
                }
                Op::Requeue => {
                    hand.take().into_iter().for_each(|deltas| fifo.requeue(deltas));
                    model.requeue();
                }
            }
            prop_assert_eq!(fifo.has_synced(), model.has_synced());
            let wanted: Vec<_> = model.queue.iter().map(|(key, facts, _)| (*key, facts.clone())).collect();
            prop_assert_eq!(entries(&fifo), wanted);
        }
    }

    /// Whatever comes in which order, a store that applies what is popped ends where a map does that applies each
    /// change at once.
    #[test]
    fn a_store_behind_the_queue_ends_like_one_without(
        exact in prop_oneof![0..6usize, Just(EXACT_DELTAS)],
        ops in prop::collection::vec((0u8..6, 0u8..4, prop::collection::btree_set(0u8..4, 0..4)), 0..120),
    ) {
        let (mut fifo, mut store, mut model) = (DeltaFifo::exact(exact), Store::new(1), BTreeMap::new());
        let mut view = BTreeMap::new();
        let mut take = |fifo: &mut DeltaFifo<()>, store: &mut Store<()>| {
            for told in fifo.pop().into_iter().flat_map(|deltas| deltas.apply(store)) {
                let key = told.key().to_key();
                let before = match &told {
                    Notification::Deleted { .. } => view.remove(&key),
                    Notification::Added { object: new, .. } | Notification::Updated { new, .. } => view.insert(key, new.version().to_version()),
                };
                assert_eq!(before.as_ref().map(Version::borrowed), told.old().map(|old| old.version()), "{told:?}");
            }
        };
        for (version, (op, key, set)) in ops.into_iter().enumerate() {
            let pod = |key: u8| pod(key, version as u32 + 1);
            match op {
                0 => { fifo.add(pod(key)).unwrap(); model.insert(key, version); }
                1 => { fifo.update(pod(key)).unwrap(); model.insert(key, version); }
                2 => { fifo.delete(pod(key).into(), &store).unwrap(); model.remove(&key); }
                3 => {
                    fifo.replace(set.iter().map(|key| pod(*key)), &store).unwrap();
                    model = set.into_iter().map(|key| (key, version)).collect();
                }
                4 => fifo.resync(&store),
                _ => take(&mut fifo, &mut store),
            }
        }
        while !fifo.is_empty() {
            take(&mut fifo, &mut store);
        }
        let got: BTreeMap<String, String> =
            store.iter().map(|object| (format!("{}", object.key()), format!("{}", object.version()))).collect();
        let want: BTreeMap<String, String> =
            model.into_iter().map(|(key, version)| (format!("{key}"), format!("{}", version + 1))).collect();
        prop_assert_eq!(&got, &want);
        let view: BTreeMap<String, String> =
            view.into_iter().map(|(key, version)| (format!("{key}"), format!("{version}"))).collect();
        prop_assert_eq!(&view, &want);
    }
}
