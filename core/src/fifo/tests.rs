//! Where all queues agree: one test for both of an informer's and for `DeltaFifo` by hand. And where an informer's two
//! differ.

use super::in_order::{item_of, staged};
use super::queue::Queue as InformerQueue;
use super::*;
use crate::listener::{Delivery, Notification, Overflow, Ring};
use crate::object::{Key, Obj, Uid, Version};
use crate::store::{Commit, Store};
use crate::wire::ItemKind;
use alloc::boxed::Box;
use alloc::vec::Vec;
use proptest::prelude::*;
use std::format;
use std::string::String;

fn pod(name: &str, uid: &str, version: &str) -> Obj<()> {
    Obj::new(Key::new("", name), Uid::new(uid), Version::new(version), ())
}

/// A queue, its store, and a handler.
trait Queue {
    fn event(&mut self, kind: ItemKind, object: Obj<()>);
    fn list(&mut self, objects: &[Obj<()>]);
    fn resync(&mut self);
    /// Takes one thing out of the queue. False if there is nothing.
    fn pop(&mut self) -> bool;
    /// Carries out what was taken.
    fn apply(&mut self);
    fn store(&self) -> &Store<()>;
    fn ring(&mut self) -> &mut Ring<()>;

    fn work(&mut self) {
        while self.pop() {
            self.apply();
        }
    }

    /// What the handler was told since the last call.
    fn told(&mut self) -> Vec<String> {
        self.work();
        let ring = self.ring();
        core::iter::from_fn(|| ring.pop())
            .filter_map(|delivery| match delivery {
                Delivery::Notification(notification) => Some(format!("{notification}")),
                Delivery::Synced => None,
            })
            .collect()
    }

    /// Synced with these.
    fn start(&mut self, objects: &[Obj<()>]) {
        self.list(objects);
        self.work();
        let snapshot = self.store().snapshot();
        *self.ring() = Ring::new(Overflow::default());
        self.ring().replay(snapshot);
        assert_eq!(self.told().len(), objects.len());
    }

    fn stored(&self) -> Vec<String> {
        let mut all: Vec<_> = self.store().iter().map(|object| format!("{object:?}")).collect();
        all.sort();
        all
    }
}

/// As an informer does it, with either of its queues.
struct Informed {
    queue: InformerQueue<()>,
    store: Store<()>,
    ring: Ring<()>,
    in_hand: Option<Commit<()>>,
    lists: u64,
}

impl Queue for Informed {
    fn event(&mut self, kind: ItemKind, object: Obj<()>) {
        self.queue.push(item_of(kind, object), &mut Vec::new());
    }

    fn list(&mut self, objects: &[Obj<()>]) {
        self.work();
        self.lists += 1;
        let version = Version::new(&format!("{}", 1_000 + self.lists));
        self.queue.replace(staged(objects.iter().cloned(), &self.store), version);
    }

    fn resync(&mut self) {
        self.ring.resync(self.store.snapshot());
    }

    fn pop(&mut self) -> bool {
        self.in_hand = self.queue.pop();
        self.in_hand.is_some()
    }

    fn apply(&mut self) {
        let done = self.store.commit(self.in_hand.take().expect("something was taken"));
        done.notifications.into_iter().for_each(|notification| self.ring.push(notification));
    }

    fn store(&self) -> &Store<()> {
        &self.store
    }

    fn ring(&mut self) -> &mut Ring<()> {
        &mut self.ring
    }
}

struct ByHand {
    queue: DeltaFifo<()>,
    store: Store<()>,
    ring: Ring<()>,
    in_hand: Option<Deltas<()>>,
}

impl Queue for ByHand {
    fn event(&mut self, kind: ItemKind, object: Obj<()>) {
        match kind {
            ItemKind::Listed | ItemKind::Added => self.queue.add(object).unwrap(),
            ItemKind::Modified => self.queue.update(object).unwrap(),
            ItemKind::Deleted => self.queue.delete(object.into(), &self.store).unwrap(),
        }
    }

    fn list(&mut self, objects: &[Obj<()>]) {
        self.queue.replace(objects.iter().cloned(), &self.store).unwrap();
    }

    fn resync(&mut self) {
        self.queue.resync(&self.store);
    }

    fn pop(&mut self) -> bool {
        self.in_hand = self.queue.pop();
        self.in_hand.is_some()
    }

    fn apply(&mut self) {
        let told: Vec<Notification<()>> = self.in_hand.take().expect("something was taken").apply(&mut self.store);
        told.into_iter().for_each(|notification| self.ring.push(notification));
    }

    fn store(&self) -> &Store<()> {
        &self.store
    }

    fn ring(&mut self) -> &mut Ring<()> {
        &mut self.ring
    }
}

fn ring() -> Ring<()> {
    Ring::new(Overflow::default())
}

fn informed(kind: QueueKind) -> Informed {
    Informed { queue: InformerQueue::new(kind), store: Store::new(1), ring: ring(), in_hand: None, lists: 0 }
}

/// Runs a test with each of the three, synced with `objects`.
fn each(objects: &[Obj<()>], test: impl Fn(&mut dyn Queue)) {
    let by_hand = ByHand { queue: DeltaFifo::new(), store: Store::new(1), ring: ring(), in_hand: None };
    let informed = [QueueKind::InOrder, QueueKind::DeltaFifo].map(informed);
    let queues = informed.into_iter().map(|it| Box::new(it) as Box<dyn Queue>).chain([Box::new(by_hand) as _]);
    for mut queue in queues {
        queue.start(objects);
        test(&mut *queue);
    }
}

#[test]
fn b077_a_deletion_that_comes_while_the_addition_is_in_hand_is_not_lost() {
    each(&[], |queue| {
        queue.event(ItemKind::Added, pod("a", "u", "1"));
        assert!(queue.pop());
        queue.event(ItemKind::Deleted, pod("a", "u", "2"));
        queue.apply();
        assert_eq!(queue.told(), ["added a@1", "deleted a@2"]);
        assert!(queue.store().is_empty());
    });
}

#[test]
fn b078_an_object_made_again_is_listed_behind_its_queued_deletion() {
    each(&[pod("a", "u1", "1")], |queue| {
        queue.event(ItemKind::Deleted, pod("a", "u1", "2"));
        queue.list(&[pod("a", "u2", "3")]);
        assert_eq!(queue.told(), ["deleted a@2", "added a@3"]);
        assert!(queue.store().get("a").unwrap().uid() == *"u2");
    });
}

#[test]
fn b079_what_changed_between_two_lists_reaches_a_handler_without_resync() {
    each(&[pod("a", "u", "5"), pod("b", "u", "4")], |queue| {
        queue.list(&[pod("a", "u", "9"), pod("c", "u", "8")]);
        let mut told = queue.told();
        told.sort();
        assert_eq!(told, ["added c@8", "deleted b@4 (final state unknown)", "updated a@9 (was 5)"]);
    });
}

#[test]
fn b080_a_list_of_what_is_known_tells_nobody_anything() {
    each(&[pod("a", "u", "5"), pod("b", "u", "4")], |queue| {
        queue.list(&[pod("a", "u", "5"), pod("b", "u", "4")]);
        assert_eq!(queue.told(), [""; 0]);
        assert_eq!(queue.stored(), ["a@5", "b@4"]);
    });
}

#[test]
fn b081_an_object_made_again_unseen_is_deleted_and_added() {
    each(&[pod("a", "u1", "1")], |queue| {
        queue.list(&[pod("a", "u2", "3")]);
        assert_eq!(queue.told(), ["deleted a@1 (final state unknown)", "added a@3"]);
    });
}

#[test]
fn b083_a_list_replaces_and_does_not_merge() {
    each(&[pod("a", "u", "1"), pod("b", "u", "2"), pod("c", "u", "3")], |queue| {
        queue.list(&[pod("a", "u", "1"), pod("c", "u", "3"), pod("d", "u", "4")]);
        let mut told = queue.told();
        told.sort();
        assert_eq!(told, ["added d@4", "deleted b@2 (final state unknown)"]);
        assert_eq!(queue.stored(), ["a@1", "c@3", "d@4"]);
    });
}

#[test]
fn b085_what_is_queued_counts_as_known_and_the_end_of_what_is_unknown_is_told_to_nobody() {
    each(&[], |queue| {
        queue.event(ItemKind::Deleted, pod("a", "u", "1"));
        assert_eq!(queue.told(), [""; 0]);
        queue.event(ItemKind::Added, pod("b", "u", "2"));
        queue.event(ItemKind::Deleted, pod("b", "u", "3"));
        assert_eq!(queue.told(), ["added b@2", "deleted b@3"]);
        assert!(queue.store().is_empty());
    });
}

#[test]
fn b086_a_deletion_carries_its_final_state_and_comes_once() {
    each(&[pod("a", "u", "100")], |queue| {
        queue.event(ItemKind::Deleted, pod("a", "u", "120"));
        queue.list(&[]);
        assert_eq!(queue.told(), ["deleted a@120"]);
    });
}

#[test]
fn b089_a_resync_does_not_bring_back_what_is_about_to_go() {
    each(&[pod("a", "u", "1"), pod("b", "u", "2")], |queue| {
        queue.event(ItemKind::Deleted, pod("a", "u", "3"));
        queue.resync();
        let told = queue.told();
        let of_a: Vec<_> = told.iter().filter(|text| text.contains("a@")).collect();
        assert_eq!(of_a.last().unwrap().as_str(), "deleted a@3", "never an update after it: {told:?}");
        assert_eq!(told.iter().filter(|text| *text == "resync b@2").count(), 1);
    });
}

/// The events of the wire: key, kind, and a version that rises.
fn wire(events: &[(&str, ItemKind)]) -> Vec<(ItemKind, Obj<()>)> {
    let version = |at: usize| format!("{}", at + 2_000);
    events.iter().enumerate().map(|(at, (name, kind))| (*kind, pod(name, "u", &version(at)))).collect()
}

/// What each commit of these events tells, and the version that the store then stands for.
fn commits(kind: QueueKind, events: &[(ItemKind, Obj<()>)]) -> (Informed, Vec<(Vec<String>, String)>) {
    let mut queue = informed(kind);
    queue.start(&[pod("a", "u", "5"), pod("b", "u", "6")]);
    events.iter().for_each(|(kind, object)| queue.event(*kind, object.clone()));
    let mut commits = Vec::new();
    while queue.pop() {
        queue.apply();
        let told = core::iter::from_fn(|| queue.ring.pop()).map(|delivery| match delivery {
            Delivery::Notification(notification) => format!("{notification}"),
            Delivery::Synced => String::new(),
        });
        commits.push((told.collect(), format!("{}", queue.store.version())));
    }
    (queue, commits)
}

#[test]
fn the_changes_of_one_object_come_together_or_in_the_order_of_the_wire() {
    let events = wire(&[("b", ItemKind::Modified), ("a", ItemKind::Deleted), ("b", ItemKind::Modified)]);
    let told = |kind| commits(kind, &events).1.remove(0).0;
    let (first, second, gone) = ("updated b@2000 (was 6)", "updated b@2002 (was 2000)", "deleted a@2001");
    assert_eq!(told(QueueKind::InOrder), [first, gone, second]);
    assert_eq!(told(QueueKind::DeltaFifo), [first, second, gone]);
}

/// Whoever is told of the first change of a list must find all of it (T36).
#[test]
fn a_list_is_one_commit_however_long_it_is() {
    let mut queue = informed(QueueKind::InOrder);
    queue.start(&[pod("a", "u", "5"), pod("b", "u", "6")]);
    let long: Vec<_> = (0..3 * COMMIT_EVENTS).map(|n| pod(&format!("n{n:04}"), "u", "8")).collect();
    queue.list(&long);
    assert!(queue.pop());
    assert_eq!(queue.stored(), ["a@5", "b@6"], "nothing of it shows before");
    queue.apply();
    assert!(!queue.pop(), "it is whole");
    let listed: Vec<_> = long.iter().map(|object| format!("{object:?}")).collect();
    assert_eq!(queue.stored(), listed);
    let told = core::iter::from_fn(|| queue.ring.pop()).count();
    assert_eq!(told, 2 + listed.len());
}

/// Whoever waits for a version must find every change up to it, of whatever object.
#[test]
fn the_version_does_not_move_before_every_change_up_to_it_is_applied() {
    let mut events = [("a", ItemKind::Modified), ("b", ItemKind::Modified)].repeat(COMMIT_EVENTS);
    events.push(("a", ItemKind::Modified));
    let (_, commits) = commits(QueueKind::DeltaFifo, &wire(&events));
    let sizes: Vec<_> = commits.iter().map(|(told, version)| (told.len(), version.as_str())).collect();
    assert_eq!(
        sizes,
        [(64, "1001"), (64, "1001"), (1, "2128")],
        "a long line is cut: the writer holds its lock shortly"
    );
}

#[test]
fn a_bookmark_counts_when_what_came_before_it_is_applied() {
    for kind in [QueueKind::InOrder, QueueKind::DeltaFifo] {
        let (mut queue, _) = commits(kind, &[]);
        queue.queue.bookmark(Version::new("3000"));
        assert!(queue.pop());
        queue.apply();
        assert_eq!(queue.store.version().as_str(), "3000");
        queue.event(ItemKind::Modified, pod("a", "u", "3001"));
        queue.queue.bookmark(Version::new("3005"));
        queue.work();
        assert_eq!(queue.store.version().as_str(), "3005", "{kind}");
    }
}

proptest! {
    /// Which queue it is shows in the order across objects and in nothing else.
    #[test]
    fn either_queue_tells_each_object_the_same_and_ends_in_the_same_store(
        events in prop::collection::vec((0usize..4, 0usize..4), 0..200),
    ) {
        let kinds = [ItemKind::Added, ItemKind::Modified, ItemKind::Modified, ItemKind::Deleted];
        let events: Vec<_> = events.into_iter().map(|(key, kind)| (["a", "b", "c", "d"][key], kinds[kind])).collect();
        let outcome = |kind| {
            let (queue, commits) = commits(kind, &wire(&events));
            let mut told: Vec<_> = commits.into_iter().flat_map(|(told, _)| told).collect();
            told.sort_by_key(|text| text.split_once(' ').map(|(_, rest)| rest.as_bytes()[0])); // by key, and stable
            (queue.stored(), format!("{}", queue.store.version()), told)
        };
        prop_assert_eq!(outcome(QueueKind::InOrder), outcome(QueueKind::DeltaFifo));
    }
}
