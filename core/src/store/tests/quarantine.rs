//! The quarantine against a naive one: what cannot be built is told once per version, counts as present, leaves the last good
//! object in place, and is forgotten with the next good word about its key, or the word that it is gone.

use crate::decode::{BadItem, Gone, Item};
use crate::fifo::InOrderQueue;
use crate::object::{Key, Obj, Uid, Version};
use crate::store::{Fresh, Staged, Store};
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use proptest::prelude::*;
use std::{format, vec};

#[derive(Clone, Copy, Debug)]
enum Word {
    Good,
    Bad,
    /// As the last word about the key, if that was bad; else a new bad one.
    BadAgain,
    Gone,
    /// The final state cannot be built.
    GoneUnread,
    /// In a list: as the store has it, if it does.
    Same,
}

#[derive(Clone, Debug)]
enum Step {
    Events(Vec<(u8, Word)>),
    List(BTreeMap<u8, Word>),
}

fn step() -> impl Strategy<Value = Step> {
    let event = prop::sample::select(vec![Word::Good, Word::Bad, Word::BadAgain, Word::Gone, Word::GoneUnread]);
    let listed = prop::sample::select(vec![Word::Good, Word::Bad, Word::BadAgain, Word::Same, Word::Same]);
    prop_oneof![
        prop::collection::vec((0u8..5, event), 1..6).prop_map(Step::Events),
        prop::collection::btree_map(0u8..5, listed, 0..5).prop_map(Step::List),
    ]
}

fn key(n: u8) -> Key {
    Key::new("", &n.to_string())
}

fn object(n: u8, version: u32) -> Obj<()> {
    Obj::new(key(n), Uid::new("u"), Version::new(&version.to_string()), ())
}

fn bad(n: u8, version: u32) -> BadItem {
    BadItem::new(Some(key(n)), Version::new(&version.to_string()), "unreadable")
}

#[derive(Default)]
struct Model {
    /// The version of each good object, and of each word that could not be built.
    good: BTreeMap<u8, u32>,
    bad: BTreeMap<u8, u32>,
    version: u32,
}

impl Model {
    fn next(&mut self) -> u32 {
        self.version += 1;
        self.version
    }

    fn bad_version(&mut self, n: u8, word: Word) -> u32 {
        let again = self.bad.get(&n).copied().filter(|_| matches!(word, Word::BadAgain));
        again.unwrap_or_else(|| self.next())
    }

    /// One event, and what is reported of it.
    fn event(&mut self, n: u8, word: Word) -> (Item<()>, Option<String>) {
        match word {
            Word::Good | Word::Same => {
                let version = self.next();
                self.good.insert(n, version);
                self.bad.remove(&n);
                (Item::Fresh { known: None, fresh: Fresh::bare(object(n, version)) }, None)
            }
            Word::Bad | Word::BadAgain => {
                let version = self.bad_version(n, word);
                let news = self.bad.insert(n, version) != Some(version);
                let bad = bad(n, version);
                let report = news.then(|| bad.to_string());
                (Item::Bad { known: None, bad }, report)
            }
            Word::Gone | Word::GoneUnread => {
                let version = self.next();
                self.good.remove(&n);
                self.bad.remove(&n);
                let gone = match word {
                    Word::GoneUnread => Gone::Named { key: key(n), version: Version::new(&version.to_string()) },
                    Word::Good | Word::Bad | Word::BadAgain | Word::Gone | Word::Same => Gone::Last(object(n, version)),
                };
                (Item::Gone { known: None, gone }, None)
            }
        }
    }

    /// A list, compared with the store as a decoder does it, and what is reported of it.
    fn list(&mut self, store: &Store<()>, list: &BTreeMap<u8, Word>) -> (Staged<()>, Vec<String>) {
        let (mut staged, mut reports, mut still_bad) = (Staged::default(), Vec::new(), BTreeMap::new());
        self.good.retain(|n, _| list.contains_key(n));
        for (n, word) in list {
            let known = store.slot_of("", &n.to_string()).map(|(slot, _)| slot);
            match word {
                Word::Same if known.is_some_and(|slot| !store.is_stale(slot)) => {
                    staged.push(Item::Unchanged(known.unwrap()));
                }
                Word::Bad | Word::BadAgain => {
                    let before = self.bad.get(n).copied();
                    let version = self.bad_version(*n, *word);
                    still_bad.insert(*n, version);
                    let bad = bad(*n, version);
                    reports.extend((before != Some(version)).then(|| bad.to_string()));
                    staged.push(Item::Bad { known, bad });
                }
                Word::Good | Word::Same | Word::Gone | Word::GoneUnread => {
                    let version = self.next();
                    self.good.insert(*n, version);
                    staged.push(Item::Fresh { known, fresh: Fresh::bare(object(*n, version)) });
                }
            }
        }
        self.bad = still_bad;
        (staged, reports)
    }
}

proptest! {
    #[test]
    fn what_cannot_be_built_is_told_once_and_takes_nothing_away(steps in prop::collection::vec(step(), 0..40)) {
        let (mut store, mut queue, mut model) = (Store::new(7), InOrderQueue::default(), Model::default());
        for step in steps {
            let mut wanted = Vec::new();
            match step {
                Step::Events(events) => {
                    for (n, word) in events {
                        let (item, report) = model.event(n, word);
                        queue.push(item);
                        wanted.extend(report);
                    }
                }
                Step::List(list) => {
                    let (staged, reports) = model.list(&store, &list);
                    wanted = reports;
                    let version = model.next().to_string();
                    queue.replace(staged, Version::new(&version));
                }
            }
            let mut told = Vec::new();
            while let Some(commit) = queue.pop() {
                told.extend(store.commit(commit).receipt.quarantined.iter().map(|bad| bad.to_string()));
            }
            prop_assert_eq!(told, wanted);
            for n in 0..5 {
                let name = n.to_string();
                let held = store.get(&name).map(|object| object.version().to_string());
                prop_assert_eq!(held, model.good.get(&n).map(|version| version.to_string()));
                let stale = model.good.contains_key(&n) && model.bad.contains_key(&n);
                prop_assert_eq!(store.is_stale_key(&name), stale, "the server has a newer one of {}", n);
            }
            let aside: Vec<String> = store.quarantined().map(|bad| format!("{bad}")).collect();
            prop_assert_eq!(aside, model.bad.iter().map(|(n, at)| bad(*n, *at).to_string()).collect::<Vec<_>>());
        }
    }
}
