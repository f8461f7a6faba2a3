//! The queue between the reflector and the store.
//!
//! | | [`InOrderQueue`] | [`DeltaFifo`] |
//! |---|---|---|
//! | used by | informers | programs that are moved from client-go, by hand |
//! | order across keys | that of the wire | that of each key's first change |
//! | a list | one commit, whole or not at all | one delta per object |
//! | a deletion of what nobody knows | queued, and dropped by the store | dropped |
//! | a resync | not in the queue: each handler's ring walks a snapshot | `Sync` deltas |
//! | memory, if nothing is popped | grows with the changes | grows with the changes |
//!
//! Handlers end up with the same view through either. Each has an example in its own file:
//!
//! ```
//! use informer_core::fifo::{DeltaFifo, InOrderQueue};
//! use informer_core::store::Store;
//! use informer_core::wire::ItemKind;
//! use informer_core::{Key, Obj, Uid, Version};
//!
//! let pod = |version: &str| Obj::new(Key::new("web", "a"), Uid::new("u"), Version::new(version), ());
//! let (mut in_order, mut per_key) = (InOrderQueue::default(), DeltaFifo::new());
//! for version in ["1", "2"] {
//!     in_order.push_event(ItemKind::Modified, pod(version));
//!     per_key.update(pod(version));
//! }
//! let (mut one, mut other) = (Store::new(1), Store::new(1));
//! let told = one.commit(in_order.pop().unwrap()).notifications;
//! assert_eq!(format!("{told:?}"), format!("{:?}", per_key.pop().unwrap().apply(&mut other)));
//! ```

mod delta;
mod in_order;

pub use delta::{Delta, DeltaFifo, DeltaKind, DeltaObject, Deltas, KnownObjects, NothingKnown, Tombstone};
pub use in_order::{COMMIT_EVENTS, InOrderQueue};

#[cfg(test)]
mod tests {
    //! Where the two agree: one test, both queues.

    use super::*;
    use crate::listener::{Delivery, Notification, Overflow, Ring};
    use crate::object::{Key, Obj, Uid, Version};
    use crate::store::{Commit, Store};
    use crate::wire::ItemKind;
    use alloc::boxed::Box;
    use alloc::vec::Vec;
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

    struct InOrder {
        queue: InOrderQueue<()>,
        store: Store<()>,
        ring: Ring<()>,
        in_hand: Option<Commit<()>>,
        lists: u64,
    }

    impl Queue for InOrder {
        fn event(&mut self, kind: ItemKind, object: Obj<()>) {
            self.queue.push_event(kind, object);
        }

        fn list(&mut self, objects: &[Obj<()>]) {
            self.work();
            self.lists += 1;
            let version = Version::new(&format!("{}", 1_000 + self.lists));
            self.queue.push_list(objects.iter().cloned(), version, &self.store);
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

    struct PerKey {
        queue: DeltaFifo<()>,
        store: Store<()>,
        ring: Ring<()>,
        in_hand: Option<Deltas<()>>,
    }

    impl Queue for PerKey {
        fn event(&mut self, kind: ItemKind, object: Obj<()>) {
            match kind {
                ItemKind::Listed | ItemKind::Added => self.queue.add(object),
                ItemKind::Modified => self.queue.update(object),
                ItemKind::Deleted => self.queue.delete(object.into(), &self.store),
            }
        }

        fn list(&mut self, objects: &[Obj<()>]) {
            self.queue.replace(objects.iter().cloned(), &self.store);
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

    /// Runs a test with each of the two, synced with `objects`.
    fn both(objects: &[Obj<()>], test: impl Fn(&mut dyn Queue)) {
        let ring = || Ring::new(Overflow::default());
        let in_order =
            InOrder { queue: InOrderQueue::default(), store: Store::new(1), ring: ring(), in_hand: None, lists: 0 };
        let per_key = PerKey { queue: DeltaFifo::new(), store: Store::new(1), ring: ring(), in_hand: None };
        let queues: [Box<dyn Queue>; 2] = [Box::new(in_order), Box::new(per_key)];
        for mut queue in queues {
            queue.start(objects);
            test(&mut *queue);
        }
    }

    #[test]
    fn b077_a_deletion_that_comes_while_the_addition_is_in_hand_is_not_lost() {
        both(&[], |queue| {
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
        both(&[pod("a", "u1", "1")], |queue| {
            queue.event(ItemKind::Deleted, pod("a", "u1", "2"));
            queue.list(&[pod("a", "u2", "3")]);
            assert_eq!(queue.told(), ["deleted a@2", "added a@3"]);
            assert!(queue.store().get("a").unwrap().uid() == *"u2");
        });
    }

    #[test]
    fn b079_what_changed_between_two_lists_reaches_a_handler_without_resync() {
        both(&[pod("a", "u", "5"), pod("b", "u", "4")], |queue| {
            queue.list(&[pod("a", "u", "9"), pod("c", "u", "8")]);
            let mut told = queue.told();
            told.sort();
            assert_eq!(told, ["added c@8", "deleted b@4 (final state unknown)", "updated a@9 (was 5)"]);
        });
    }

    #[test]
    fn b080_a_list_of_what_is_known_tells_nobody_anything() {
        both(&[pod("a", "u", "5"), pod("b", "u", "4")], |queue| {
            queue.list(&[pod("a", "u", "5"), pod("b", "u", "4")]);
            assert_eq!(queue.told(), [""; 0]);
            assert_eq!(queue.stored(), ["a@5", "b@4"]);
        });
    }

    #[test]
    fn b081_an_object_made_again_unseen_is_deleted_and_added() {
        both(&[pod("a", "u1", "1")], |queue| {
            queue.list(&[pod("a", "u2", "3")]);
            assert_eq!(queue.told(), ["deleted a@1 (final state unknown)", "added a@3"]);
        });
    }

    #[test]
    fn b083_a_list_replaces_and_does_not_merge() {
        both(&[pod("a", "u", "1"), pod("b", "u", "2"), pod("c", "u", "3")], |queue| {
            queue.list(&[pod("a", "u", "1"), pod("c", "u", "3"), pod("d", "u", "4")]);
            let mut told = queue.told();
            told.sort();
            assert_eq!(told, ["added d@4", "deleted b@2 (final state unknown)"]);
            assert_eq!(queue.stored(), ["a@1", "c@3", "d@4"]);
        });
    }

    #[test]
    fn b086_a_deletion_carries_its_final_state_and_comes_once() {
        both(&[pod("a", "u", "100")], |queue| {
            queue.event(ItemKind::Deleted, pod("a", "u", "120"));
            queue.list(&[]);
            assert_eq!(queue.told(), ["deleted a@120"]);
        });
    }

    #[test]
    fn b089_a_resync_does_not_bring_back_what_is_about_to_go() {
        both(&[pod("a", "u", "1"), pod("b", "u", "2")], |queue| {
            queue.event(ItemKind::Deleted, pod("a", "u", "3"));
            queue.resync();
            let told = queue.told();
            let of_a: Vec<_> = told.iter().filter(|text| text.contains("a@")).collect();
            assert_eq!(of_a.last().unwrap().as_str(), "deleted a@3", "never an update after it: {told:?}");
            assert_eq!(told.iter().filter(|text| *text == "resync b@2").count(), 1);
        });
    }
}
