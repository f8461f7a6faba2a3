//! Histories of objects that are deleted and made again while nobody watches, from the store's commits to what handlers are
//! told: against a plain map of what is there, for handlers that keep up and for those whose changes are merged.

use informer_core::fifo::InOrderQueue;
use informer_core::listener::{Batch, Delivery, Notification, Overflow, Recreated, Ring};
use informer_core::store::{Commit, Store};
use informer_core::wire::ItemKind;
use informer_core::{Key, Obj, Uid, Version};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// What becomes of a key.
#[derive(Clone, Copy, Debug)]
enum What {
    /// It is there, in the incarnation that there was.
    Put,
    Gone,
    /// It is there, in another incarnation.
    Again,
}

#[derive(Clone, Debug)]
enum Op {
    /// Happens unseen, and then everything is listed.
    List(Vec<(u8, What)>),
    /// An event tells of it; that an incarnation before it has ended, nothing told.
    Event(u8, What),
    /// Handlers that are late take so many.
    Take(usize),
}

fn what() -> impl Strategy<Value = What> {
    prop_oneof![3 => Just(What::Put), 2 => Just(What::Gone), 3 => Just(What::Again)]
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let unseen = prop::collection::vec((0u8..4, what()), 0..6);
    let op = prop_oneof![
        2 => unseen.prop_map(Op::List),
        3 => (0u8..4, what()).prop_map(|(key, what)| Op::Event(key, what)),
        2 => (0usize..5).prop_map(Op::Take),
    ];
    prop::collection::vec(op, 1..60)
}

/// Uid and version.
type Incarnation = (u32, u32);
type There = BTreeMap<u8, Incarnation>;

fn object(key: u8, (uid, version): Incarnation) -> Obj<()> {
    let (key, uid) = (Key::new("ns", &format!("k{key}")), Uid::new(&uid.to_string()));
    Obj::new(key, uid, Version::new(&version.to_string()), ())
}

fn happen(there: &mut There, now: u32, key: u8, what: What) {
    match (what, there.get_mut(&key)) {
        (What::Put, Some((_, version))) => *version = now,
        (What::Put | What::Again, _) => _ = there.insert(key, (now, now)),
        (What::Gone, _) => _ = there.remove(&key),
    }
}

/// What a handler that keeps up is told when `before` has become `after`, in the order of the keys.
fn expected(recreated: Recreated, before: &There, after: &There, end_was_seen: Option<u32>) -> Vec<String> {
    let mut told = Vec::new();
    for key in 0..4 {
        match (before.get(&key), after.get(&key)) {
            (None, None) => {}
            (None, Some((_, new))) => told.push(format!("added ns/k{key}@{new}")),
            (Some((_, old)), None) => told.push(match end_was_seen {
                Some(end) => format!("deleted ns/k{key}@{end}"),
                None => format!("deleted ns/k{key}@{old} (final state unknown)"),
            }),
            (Some(old), Some(new)) if old == new => {}
            (Some((uid, old)), Some((same, new))) if uid == same => {
                told.push(format!("updated ns/k{key}@{new} (was {old})"));
            }
            (Some((_, old)), Some((_, new))) if recreated == Recreated::Flagged => {
                told.push(format!("updated ns/k{key}@{new} (was {old}, recreated)"));
            }
            (Some((_, old)), Some((_, new))) => told
                .extend([format!("deleted ns/k{key}@{old} (final state unknown)"), format!("added ns/k{key}@{new}")]),
        }
    }
    told
}

fn tell(ring: &mut Ring<()>, most: usize) -> Vec<Notification<()>> {
    let told = std::iter::from_fn(|| ring.pop())
        .filter_map(|delivery| if let Delivery::Notification(told) = delivery { Some(told) } else { None });
    told.take(most).collect()
}

/// A handler that may be late, and what it has been told of.
struct Late {
    recreated: Recreated,
    ring: Ring<()>,
    has: BTreeMap<String, (String, String)>,
}

impl Late {
    fn new(recreated: Recreated, limit: usize) -> Self {
        let ring = Ring::new(Overflow::Coalesce { limit }).with_recreated(recreated);
        Late { recreated, ring, has: BTreeMap::new() }
    }

    /// Takes some, each of which must follow from what it has.
    fn take(&mut self, most: usize) {
        for told in tell(&mut self.ring, most) {
            let of = |object: &Obj<()>| (object.uid().to_string(), object.version().to_string());
            let had = if matches!(told, Notification::Deleted { .. }) {
                self.has.remove(&told.key().to_string())
            } else {
                self.has.insert(told.key().to_string(), of(told.object()))
            };
            assert_eq!(had, told.old().map(of), "{told}: its old is what this handler was told last");
            let is_another = had.is_some_and(|(uid, _)| uid != told.object().uid().to_string());
            assert_eq!(
                told.is_recreation(),
                is_another,
                "{told:?} to {:?}: another incarnation is flagged",
                self.recreated
            );
            assert!(!is_another || self.recreated == Recreated::Flagged, "{told}: nobody asked for that");
        }
    }
}

proptest! {
    #[test]
    fn every_handler_is_told_an_unbroken_chain_of_incarnations_that_come_and_go_unseen(limit in 1usize..6, ops in ops()) {
        let forms = [Recreated::Split, Recreated::Flagged];
        let mut prompt = forms.map(|recreated| (recreated, Ring::new(Overflow::Unbounded).with_recreated(recreated)));
        let mut late = forms.map(|recreated| Late::new(recreated, limit));
        let (mut store, mut queue, mut there) = (Store::new(7), InOrderQueue::default(), There::new());
        // The first list, so that none of what follows is the initial state.
        queue.push_list([], Version::new("1"), &store);
        drop(store.commit(queue.pop().unwrap()));
        for (op, now) in ops.into_iter().chain([Op::List(Vec::new())]).zip(2..) {
            let (before, mut end) = (there.clone(), None);
            let commit: Option<Commit<()>> = match op {
                Op::List(unseen) => {
                    unseen.into_iter().for_each(|(key, what)| happen(&mut there, now, key, what));
                    let objects = there.iter().map(|(key, is)| object(*key, *is));
                    queue.push_list(objects, Version::new(&now.to_string()), &store);
                    queue.pop()
                }
                Op::Event(key, what) => {
                    happen(&mut there, now, key, what);
                    let event = match (before.get(&key), there.get(&key)) {
                        (None, None) => None,
                        (Some((uid, _)), None) => {
                            end = Some(now);
                            Some((ItemKind::Deleted, (*uid, now)))
                        }
                        (None, Some(is)) => Some((ItemKind::Added, *is)),
                        (Some(_), Some(is)) => Some((ItemKind::Modified, *is)),
                    };
                    event.and_then(|(kind, is)| {
                        queue.push_event(kind, object(key, is));
                        queue.pop()
                    })
                }
                Op::Take(most) => {
                    late.iter_mut().for_each(|handler| handler.take(most));
                    None
                }
            };
            let told = commit.map(|commit| store.commit(commit).notifications).unwrap_or_default();
            let batch = Batch::from(told);
            for (recreated, ring) in &mut prompt {
                ring.push_batch(&batch);
                let mut told: Vec<_> = tell(ring, usize::MAX).iter().map(ToString::to_string).collect();
                // A list tells of its keys in no fixed order, but of each one in its own.
                told.sort_by_key(|line| line.split(['/', '@']).nth(1).map(ToString::to_string));
                prop_assert_eq!(told, expected(*recreated, &before, &there, end));
            }
            for handler in &mut late {
                handler.ring.push_batch(&batch);
                prop_assert!(handler.ring.len() <= limit + 2 * 4, "bounded by the keys, whatever happens to them");
            }
        }
        for handler in &mut late {
            handler.take(usize::MAX);
            let want: BTreeMap<_, _> = there
                .iter()
                .map(|(key, (uid, version))| (format!("ns/k{key}"), (uid.to_string(), version.to_string())))
                .collect();
            prop_assert_eq!(&handler.has, &want);
        }
    }
}
