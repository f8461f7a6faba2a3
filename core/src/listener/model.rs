//! Rings against naive ones, under random changes.
//!
//! Three handlers hear of the same world: one that is lent stretches of batches and walks them, as runtimes do; one whose
//! ring is given the same changes one by one and popped; and a list that everything is copied into. The first two must
//! agree in everything, also while they merge; the third says what is exact.
//!
//! If recreations are to be told as one, the second is given batches, too: a pair of them is not known one by one.

use super::tests::{Event, World, event, recreated, see};
use super::*;
use crate::store::{Snapshot, Store};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::format;
use std::string::String;
use std::vec::Vec;

/// A handler as a runtime has it: what it walks, and the place that it shares with whoever pushes.
struct Walking {
    ring: Ring<u64>,
    walk: Option<Walk<u64>>,
    /// `None` if nothing is lent.
    place: Option<usize>,
}

impl Walking {
    fn recall(&mut self) {
        if let Some(place) = self.place.take() {
            self.ring.recall(place);
        }
    }

    fn push(&mut self, batch: &Batch<u64>) {
        if let Some(place) = self.place {
            self.ring.walked(place);
        }
        if !self.ring.fits(batch.len()) {
            self.recall();
        }
        self.ring.push_batch(batch);
    }

    fn next(&mut self) -> Option<String> {
        if let (Some(walk), Some(_)) = (&mut self.walk, self.place) {
            if let Some(place) = walk.advance() {
                self.place = Some(place);
                return Some(format!("{:?}", Delivery::Notification(walk.current().clone())));
            }
        }
        self.recall();
        match self.ring.turn()? {
            Turn::Synced => Some("Synced".into()),
            Turn::Walk(walk) => {
                self.place = Some(walk.place());
                let told = format!("{:?}", Delivery::Notification(walk.current().clone()));
                self.walk = Some(walk);
                Some(told)
            }
        }
    }

    fn len(&mut self) -> usize {
        if let Some(place) = self.place {
            self.ring.walked(place);
        }
        self.ring.len()
    }
}

/// Where a resync is known to be over: when the handler asks for what is behind it.
const END: &str = "";

/// Everything that there is to tell, copied.
#[derive(Default)]
struct Naive(VecDeque<(String, bool)>);

impl Naive {
    fn add(&mut self, deliveries: impl Iterator<Item = (Delivery<u64>, bool)>) {
        self.0.extend(deliveries.map(|(delivery, resync)| (format!("{delivery:?}"), resync)));
    }

    fn replay(&mut self, snapshot: &Snapshot<u64>) {
        let added = |object: &crate::Obj<u64>| Notification::Added {
            object: object.clone(),
            initial: true,
            cause: Cause::List,
        };
        self.add(snapshot.iter().map(|object| (Delivery::Notification(added(object)), false)));
        self.add([(Delivery::Synced, false)].into_iter());
    }

    fn resync(&mut self, snapshot: &Snapshot<u64>) {
        // Not before the last one is finished.
        if self.0.iter().all(|(_, resync)| !resync) {
            let repeat = |object: &crate::Obj<u64>| Notification::Updated {
                old: object.clone(),
                new: object.clone(),
                cause: Cause::Resync,
            };
            self.add(snapshot.iter().map(|object| (Delivery::Notification(repeat(object)), true)));
            self.0.push_back((END.into(), true));
        }
    }

    fn next(&mut self) -> Option<String> {
        loop {
            let (text, _) = self.0.pop_front()?;
            if text != END {
                return Some(text);
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    /// Changes of these keys in one commit.
    Commit(Vec<(u8, Event)>),
    Take(usize),
    Resync,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let commit = prop::collection::vec((0u8..5, event()), 0..8).prop_map(Op::Commit);
    let op = prop_oneof![3 => commit, 3 => (0usize..9).prop_map(Op::Take), 1 => Just(Op::Resync)];
    prop::collection::vec(op, 0..80)
}

fn overflow() -> impl Strategy<Value = Overflow> {
    prop_oneof![
        4 => (0usize..6).prop_map(|limit| Overflow::Coalesce { limit }),
        2 => Just(Overflow::Unbounded),
        1 => (0usize..6).prop_map(|limit| Overflow::Disconnect { limit }),
        1 => (0usize..6).prop_map(|limit| Overflow::Pause { limit }),
    ]
}

/// What one event of the world is to a handler.
fn as_told(recreated: Recreated, of_one_event: Vec<Notification<u64>>) -> Vec<Notification<u64>> {
    match (recreated, &of_one_event[..]) {
        (Recreated::Flagged, [Notification::Deleted { old, .. }, Notification::Added { object, .. }]) => {
            Vec::from([Notification::Updated { old: old.clone(), new: object.clone(), cause: Cause::Relist }])
        }
        _ => of_one_event,
    }
}

proptest! {
    #[test]
    fn a_walked_ring_a_popped_ring_and_a_plain_list_tell_the_same(
        overflow in overflow(),
        recreated in recreated(),
        start in 0u8..5,
        ops in ops(),
    ) {
        let mut world = World::default();
        let mut store = Store::new(1);
        for key in 0..start {
            let _ = world.change(key, false);
        }
        world.live.values().for_each(|object| drop(store.upsert(object.clone())));
        let ring = || Ring::new(overflow).with_recreated(recreated);
        let mut walking = Walking { ring: ring(), walk: None, place: None };
        let (mut popped, mut naive) = (ring(), Naive::default());
        walking.ring.replay(store.snapshot());
        popped.replay(store.snapshot());
        naive.replay(&store.snapshot());
        let (mut exact, mut view) = (true, BTreeMap::new());
        for op in ops.into_iter().chain([Op::Take(usize::MAX)]) {
            match op {
                Op::Commit(changes) => {
                    let mut told = Vec::new();
                    for (key, event) in changes {
                        let of_this = world.happen(key, event);
                        told.extend(of_this.iter().cloned());
                        let to_tell = as_told(recreated, of_this).into_iter().map(Delivery::Notification);
                        naive.add(to_tell.map(|delivery| (delivery, false)));
                    }
                    for notification in &told {
                        match notification {
                            Notification::Deleted { object, .. } => drop(store.remove(&format!("{}", object.key()))),
                            Notification::Added { object, .. } | Notification::Updated { new: object, .. } => {
                                drop(store.upsert(object.clone()));
                            }
                        }
                    }
                    let batch = Batch::from(told);
                    match recreated {
                        Recreated::Split => batch.iter().for_each(|notification| popped.push(notification.clone())),
                        Recreated::Flagged => popped.push_batch(&batch),
                    }
                    walking.push(&batch);
                }
                Op::Resync => {
                    let snapshot = store.snapshot();
                    walking.ring.resync(snapshot.clone());
                    popped.resync(snapshot.clone());
                    naive.resync(&snapshot);
                }
                Op::Take(most) => {
                    for _ in 0..most {
                        let delivery = popped.pop();
                        let text = delivery.as_ref().map(|delivery| format!("{delivery:?}"));
                        prop_assert_eq!(&walking.next(), &text);
                        if exact {
                            prop_assert_eq!(&naive.next(), &text);
                        }
                        match delivery {
                            Some(Delivery::Notification(notification)) => {
                                // Only a recreation ends what nobody saw the end of, and what is merged may be of one.
                                let split = matches!(notification, Notification::Deleted { final_state_known: false, .. });
                                match recreated {
                                    Recreated::Split => prop_assert!(!notification.is_recreation()),
                                    Recreated::Flagged => prop_assert!(!(split && exact), "{notification}"),
                                }
                                see(&mut view, &notification);
                            }
                            Some(Delivery::Synced) => {}
                            None => break,
                        }
                    }
                }
            }
            prop_assert_eq!(walking.len(), popped.len());
            prop_assert_eq!(walking.ring.stats(), popped.stats());
            prop_assert_eq!(walking.ring.is_full(), popped.is_full());
            prop_assert_eq!(walking.ring.is_disconnected(), popped.is_disconnected());
            exact &= !popped.is_merging() && !popped.is_disconnected();
        }
        if !popped.is_disconnected() {
            let want: BTreeMap<_, _> = world.live.values().map(|object| (format!("{}", object.key()), **object)).collect();
            prop_assert_eq!(view, want);
        }
        if matches!(overflow, Overflow::Unbounded | Overflow::Pause { .. }) {
            prop_assert!(exact && naive.0.is_empty());
        }
    }
}
