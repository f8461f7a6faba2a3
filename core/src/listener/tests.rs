//! What a ring promises, one test each.

use super::*;
use crate::object::{Key, Obj, Uid, Version};
use crate::store::Store;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

fn object(name: &str, version: u64) -> Obj<u64> {
    incarnation("u", name, version)
}

fn incarnation(uid: &str, name: &str, version: u64) -> Obj<u64> {
    Obj::new(Key::new("", name), Uid::new(uid), Version::new(&version.to_string()), version)
}

/// What happens to a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Put,
    Delete,
    /// Deleted and made again while nobody watched.
    Recreate,
}

pub(super) fn event() -> impl Strategy<Value = Event> {
    prop_oneof![3 => Just(Event::Put), 2 => Just(Event::Delete), 2 => Just(Event::Recreate)]
}

pub(super) fn recreated() -> impl Strategy<Value = Recreated> {
    prop_oneof![Just(Recreated::Split), Just(Recreated::Flagged)]
}

/// A world of a few keys whose changes are legal. An incarnation has the version of its beginning as its uid.
#[derive(Default)]
pub(super) struct World {
    pub(super) live: BTreeMap<u8, Obj<u64>>,
    version: u64,
}

impl World {
    /// What a commit tells of one event.
    pub(super) fn happen(&mut self, key: u8, event: Event) -> Vec<Notification<u64>> {
        match (event, self.live.get(&key).cloned()) {
            (Event::Recreate, Some(old)) => {
                self.version += 1;
                let new = incarnation(&self.version.to_string(), &format!("k{key}"), self.version);
                self.live.insert(key, new.clone());
                let (object, cause) = (old.clone(), Cause::Relist);
                Vec::from([
                    Notification::Deleted { object, old, cause, final_state_known: false },
                    Notification::Added { object: new, initial: false, cause },
                ])
            }
            (Event::Recreate, None) | (Event::Put, _) => self.change(key, false).into_iter().collect(),
            (Event::Delete, _) => self.change(key, true).into_iter().collect(),
        }
    }

    pub(super) fn change(&mut self, key: u8, delete: bool) -> Option<Notification<u64>> {
        self.version += 1;
        let uid = self.live.get(&key).map_or_else(|| self.version.to_string(), |old| old.uid().to_string());
        let new = incarnation(&uid, &format!("k{key}"), self.version);
        let cause = Cause::Watch;
        match (self.live.get(&key).cloned(), delete) {
            (None, true) => None,
            (None, false) => {
                self.live.insert(key, new.clone());
                Some(Notification::Added { object: new, initial: false, cause })
            }
            (Some(old), false) => {
                self.live.insert(key, new.clone());
                Some(Notification::Updated { old, new, cause })
            }
            (Some(old), true) => {
                self.live.remove(&key);
                Some(Notification::Deleted { object: new, old, cause, final_state_known: true })
            }
        }
    }
}

/// What a handler believes; panics if a chain is broken.
pub(super) fn see(view: &mut BTreeMap<String, u64>, notification: &Notification<u64>) {
    let key = notification.key().to_string();
    match notification {
        Notification::Added { object, .. } => assert!(view.insert(key, **object).is_none(), "added twice"),
        Notification::Updated { old, new, .. } => {
            assert_eq!(view.insert(key, **new), Some(**old), "old is what the handler saw last");
        }
        Notification::Deleted { old, .. } => assert_eq!(view.remove(&key), Some(**old)),
    }
}

proptest! {
    /// I11, I12, I21: whatever is merged, the chain is legal, the end is right, memory is bounded by the keys.
    #[test]
    fn merging_keeps_every_chain_legal(
        limit in 1usize..6,
        recreated in recreated(),
        ops in prop::collection::vec((0u8..4, event(), 0usize..4), 0..200),
    ) {
        let mut ring = Ring::new(Overflow::Coalesce { limit }).with_recreated(recreated);
        let (mut world, mut view) = (World::default(), BTreeMap::new());
        for (key, event, pops) in ops {
            ring.push_batch(&Batch::from(world.happen(key, event)));
            prop_assert!(ring.counted() <= limit + 2 * 4, "{} buffered", ring.len());
            for _ in 0..pops.saturating_sub(1) {
                if let Some(Delivery::Notification(notification)) = ring.pop() {
                    see(&mut view, &notification);
                }
            }
        }
        while let Some(Delivery::Notification(notification)) = ring.pop() {
            see(&mut view, &notification);
        }
        let want: BTreeMap<_, _> = world.live.values().map(|o| (o.key().to_string(), **o)).collect();
        prop_assert_eq!(view, want);
        prop_assert_eq!((ring.len(), ring.entries(), ring.has_work()), (0, (0, 0), false));
    }
}

#[test]
fn names_that_come_and_go_do_not_pile_up() {
    let mut ring = Ring::new(Overflow::Coalesce { limit: 8 });
    for n in 0..10_000u64 {
        let it = object(&format!("n{n}"), n);
        ring.push(Notification::Added { object: it.clone(), initial: false, cause: Cause::Watch });
        let (object, old) = (it.clone(), it);
        ring.push(Notification::Deleted { object, old, cause: Cause::Watch, final_state_known: true });
    }
    assert!(ring.entries().0 < 256, "{:?} entries", ring.entries());
}

#[test]
fn the_initial_state_comes_first_then_synced_then_changes() {
    let mut store = Store::new(1);
    store.upsert(object("a", 1));
    let mut ring = Ring::new(Overflow::default());
    ring.replay(store.snapshot());
    let (old, new) = (object("a", 1), object("a", 2));
    ring.push(Notification::Updated { old, new, cause: Cause::Watch });
    let told: Vec<_> = core::iter::from_fn(|| ring.pop()).map(|d| format!("{d:?}")).collect();
    assert_eq!(told, ["Notification(added a@1 by List)", "Synced", "Notification(updated a@2 (was 1) by Watch)"]);
}

#[test]
fn a_resync_queues_behind_changes_and_is_skipped_while_merging() {
    let mut store = Store::new(1);
    store.upsert(object("a", 2));
    let mut ring = Ring::new(Overflow::Coalesce { limit: 2 });
    let update = |old, new| Notification::Updated { old: object("a", old), new: object("a", new), cause: Cause::Watch };
    ring.push(update(0, 1));
    assert!(ring.pop().is_some(), "its call runs");
    ring.push(update(1, 2));
    ring.resync(store.snapshot());
    ring.resync(store.snapshot());
    ring.push(update(2, 3));
    ring.push(update(3, 4));
    ring.resync(store.snapshot());
    let told: Vec<_> = core::iter::from_fn(|| ring.pop()).map(|d| format!("{d:?}")).collect();
    assert_eq!(
        told,
        ["Notification(updated a@2 (was 1) by Watch)", "Notification(updated a@4 (was 2) by Watch)"],
        "two exact, the third merged; a resync in between would have gone back to version 2"
    );
    ring.resync(store.snapshot());
    assert!(matches!(ring.pop(), Some(Delivery::Notification(n)) if n.cause() == Cause::Resync));
}

#[test]
fn a_handler_over_its_limit_can_be_disconnected() {
    let mut ring = Ring::new(Overflow::Disconnect { limit: 1 });
    for version in 1..=3 {
        assert!(!ring.is_disconnected(), "one runs, one is buffered");
        let object = object(&format!("n{version}"), version);
        ring.push(Notification::Added { object, initial: false, cause: Cause::Watch });
    }
    assert!(ring.is_disconnected() && !ring.has_work());
}

/// The limit is the same whether the handler's thread woke up between two changes of a burst or not.
#[test]
fn a_burst_that_finds_the_handler_waiting_has_the_limit_of_one_whose_call_runs() {
    let updates = |old| Notification::Updated { old: object("a", old), new: object("a", old + 1), cause: Cause::Watch };
    for woke_up in [false, true] {
        let mut ring = Ring::new(Overflow::Coalesce { limit: 2 });
        let mut told = Vec::new();
        ring.push(updates(0));
        if woke_up {
            told.extend(ring.pop());
        }
        for old in 1..5 {
            ring.push(updates(old));
        }
        told.extend(core::iter::from_fn(|| ring.pop()));
        let told: Vec<_> = told.iter().map(|delivery| format!("{delivery:?}")).collect();
        assert_eq!(
            told,
            [
                "Notification(updated a@1 (was 0) by Watch)",
                "Notification(updated a@2 (was 1) by Watch)",
                "Notification(updated a@5 (was 2) by Watch)"
            ],
            "woke up: {woke_up}"
        );
    }
}

#[test]
fn a_stalled_ring_holds_no_batch_once_it_merges() {
    let mut ring = Ring::new(Overflow::Coalesce { limit: 4 });
    let (mut world, mut batches) = (World::default(), Batches::new());
    for _ in 0..10 {
        let mut told = (0..3).filter_map(|key| world.change(key, false)).collect();
        ring.push_batch(&batches.publish(&mut told).unwrap());
    }
    let mut back = 0;
    batches.reclaim(10, |told| back += told.count());
    assert_eq!((back, ring.len()), (30, 3 + 2), "the first three keys, and one of them as good as running");
}

#[test]
fn what_a_handler_was_lent_is_merged_from_where_it_stands() {
    let mut ring = Ring::new(Overflow::Coalesce { limit: 3 });
    let update = |old| Notification::Updated { old: object("a", old), new: object("a", old + 1), cause: Cause::Watch };
    ring.push_batch(&Batch::from(Vec::from([update(0), update(1), update(2)])));
    let Some(Turn::Walk(mut walk)) = ring.turn() else { panic!("there is something") };
    let place = walk.advance().unwrap();
    assert!(ring.fits(1) && !ring.fits(3), "one waits already, as far as the ring was told two");
    ring.walked(place);
    assert!(ring.fits(2) && !ring.fits(3));
    ring.recall(place);
    ring.push_batch(&Batch::from(Vec::from([update(3), update(4), update(5)])));
    let told: Vec<_> = core::iter::from_fn(|| ring.pop()).map(|delivery| format!("{delivery:?}")).collect();
    assert_eq!(
        told,
        [
            "Notification(updated a@3 (was 2) by Watch)",
            "Notification(updated a@4 (was 3) by Watch)",
            "Notification(updated a@6 (was 4) by Watch)"
        ],
        "three exact, the next one merged into the last of them"
    );
}

#[test]
fn a_walk_shows_a_stretch_of_its_batch_and_goes_on_anywhere_in_it() {
    let mut ring = Ring::new(Overflow::default());
    let update = |old| Notification::Updated { old: object("a", old), new: object("a", old + 1), cause: Cause::Watch };
    ring.push_batch(&Batch::from((0..6).map(update).collect::<Vec<_>>()));
    let Some(Turn::Walk(mut walk)) = ring.turn() else { panic!("there is something") };
    let to = walk.reach(3);
    let seen = |walk: &Walk<u64>, to| walk.stretch(to).iter().map(|told| **told.object()).collect::<Vec<_>>();
    assert_eq!((seen(&walk, to), seen(&walk, walk.place())), (Vec::from([1, 2, 3, 4]), Vec::from([1])));
    walk.go_to(2);
    assert_eq!((**walk.current().object(), seen(&walk, to)), (3, Vec::from([3, 4])));
    walk.go_to(0);
    assert_eq!((walk.place(), walk.advance()), (3, Some(4)));
}

#[test]
fn a_ring_is_full_above_its_limit_until_half_of_that_is_left() {
    let mut ring = Ring::new(Overflow::Pause { limit: 4 });
    let update = |old| Notification::Updated { old: object("a", old), new: object("a", old + 1), cause: Cause::Watch };
    ring.push_batch(&Batch::from((0..5).map(update).collect::<Vec<_>>()));
    assert!(!ring.is_full(), "one of five is as good as running");
    ring.push(update(5));
    assert!(ring.is_full());
    let mut told = Vec::new();
    while ring.is_full() {
        told.extend(ring.pop());
    }
    assert_eq!((told.len(), ring.len(), ring.stats().pauses), (4, 2, 1));
}

#[test]
fn the_memory_of_a_batch_serves_a_later_one_and_nothing_is_kept_at_rest() {
    let (mut world, mut batches) = (World::default(), Batches::new());
    let mut memory = Vec::new();
    let mut publish = |batches: &mut Batches<u64>| {
        memory.extend((0..4).filter_map(|key| world.change(key, false)));
        batches.publish(&mut memory).unwrap()
    };
    let (first, second) = (publish(&mut batches), publish(&mut batches));
    let place = first.as_ptr();
    drop(first);
    let mut back = Vec::new();
    batches.reclaim(2, |told| back.extend(told.map(|notification| format!("{notification}"))));
    assert_eq!(back, ["added k0@1", "added k1@2", "added k2@3", "added k3@4"], "the second is held");
    // The third commit gets it back, and the fourth uses it.
    drop(publish(&mut batches));
    assert!(core::ptr::eq(publish(&mut batches).as_ptr(), place));
    assert!(batches.publish(&mut Vec::new()).is_none());
    let mut left = 0;
    batches.rest(|told| left += told.count());
    assert_eq!((left, second.into_notifications().map(|told| told.len())), (8, Some(4)));
}
