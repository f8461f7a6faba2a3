//! What `DeltaFifo` does with what surprises users of client-go's; traps are numbered as in the table of `delta.rs`.

use super::*;
use crate::object::{Uid, Version};
use std::format;
use std::string::String;

fn pod(name: &str, version: &str) -> Obj<()> {
    Obj::new(Key::new("", name), Uid::new("u"), Version::new(version), ())
}

fn tombstone(name: &str, version: &str) -> DeltaObject<()> {
    DeltaObject::Tombstone(Tombstone { key: Key::new("", name), last: Some(pod(name, version)) })
}

fn store(objects: &[(&str, &str)]) -> Store<()> {
    let mut store = Store::new(1);
    for (name, version) in objects {
        store.upsert(pod(name, version));
    }
    store
}

fn popped(fifo: &mut DeltaFifo<()>) -> Vec<String> {
    core::iter::from_fn(|| fifo.pop()).map(|deltas| format!("{deltas:?}")).collect()
}

#[test]
fn a_key_keeps_its_place_and_is_popped_with_all_that_happened_to_it() {
    let mut fifo = DeltaFifo::new();
    fifo.add(pod("a", "1")).unwrap();
    fifo.add(pod("b", "2")).unwrap();
    fifo.update(pod("a", "3")).unwrap();
    assert_eq!((fifo.len(), fifo.get("a").len(), fifo.get("c").len()), (2, 2, 0));
    assert_eq!(format!("{fifo:?}"), "{a: [Added a@1, Updated a@3], b: [Added b@2]}");
    let first = fifo.pop().unwrap();
    assert_eq!((first.key().as_str(), format!("{:?}", first.newest())), ("a", "Updated a@3".into()));
    fifo.update(pod("a", "4")).unwrap();
    assert_eq!(popped(&mut fifo), ["[Added b@2]", "[Updated a@4]"], "once popped it stands in line again");
}

/// Trap 31.
#[test]
fn a_deletion_of_what_nobody_knows_is_dropped_and_counts_as_the_first_word() {
    let mut fifo = DeltaFifo::new();
    fifo.delete(pod("a", "1").into(), &NothingKnown).unwrap();
    assert!(fifo.is_empty() && fifo.has_synced());
    fifo.delete(pod("a", "1").into(), &store(&[("a", "1")])).unwrap();
    assert_eq!(popped(&mut fifo), ["[Deleted a@1]"]);
    fifo.add(pod("b", "2")).unwrap();
    fifo.delete(pod("b", "3").into(), &NothingKnown).unwrap();
    assert_eq!(popped(&mut fifo), ["[Added b@2, Deleted b@3]"], "queued is known (B085)");
}

/// Trap 38 and what it means here.
#[test]
fn a_list_without_a_queued_key_ends_it_with_a_tombstone_of_its_newest_state() {
    let mut fifo = DeltaFifo::new();
    fifo.add(pod("foo", "1")).unwrap();
    fifo.update(pod("foo", "2")).unwrap();
    fifo.replace([], &store(&[("foo", "1")])).unwrap();
    assert_eq!(popped(&mut fifo), ["[Added foo@1, Updated foo@2, Deleted tombstone of foo@2]"]);
    let known = store(&[("foo", "1")]);
    fifo.delete(pod("foo", "3").into(), &known).unwrap();
    fifo.replace([], &known).unwrap();
    assert_eq!(popped(&mut fifo), ["[Deleted foo@3]"], "it ends with a deletion already");
}

#[test]
fn a_list_comes_first_then_tombstones_of_what_is_queued_then_of_what_is_known() {
    let known = store(&[("a", "1"), ("k", "2"), ("q", "3")]);
    let mut fifo = DeltaFifo::new();
    fifo.update(pod("q", "4")).unwrap();
    fifo.replace([pod("n", "6"), pod("a", "5"), pod("n", "7")], &known).unwrap();
    assert_eq!(
        popped(&mut fifo),
        [
            "[Updated q@4, Deleted tombstone of q@4]",
            "[Replaced n@6, Replaced n@7]",
            "[Replaced a@5]",
            "[Deleted tombstone of k@2]"
        ]
    );
}

/// Traps 39 and 40.
#[test]
fn synced_means_the_first_list_is_applied_or_was_empty_or_something_else_came_first() {
    let mut fifo = DeltaFifo::<()>::new();
    assert!(!fifo.has_synced());
    fifo.replace([], &NothingKnown).unwrap();
    assert!(fifo.has_synced());

    let mut fifo = DeltaFifo::new();
    fifo.add(pod("a", "1")).unwrap();
    assert!(fifo.has_synced());
    fifo.replace([pod("b", "1")], &NothingKnown).unwrap();
    assert!(fifo.has_synced() && !fifo.pop().unwrap().is_initial());

    let mut fifo = DeltaFifo::new();
    fifo.replace([pod("a", "1"), pod("a", "2"), pod("b", "3")], &store(&[("gone", "1")])).unwrap();
    for key in ["a", "b", "gone"] {
        assert!(!fifo.has_synced());
        assert_eq!(fifo.pop().unwrap().key().as_str(), key);
    }
    assert!(!fifo.has_synced(), "the last one is not applied yet");
    fifo.done();
    assert!(fifo.has_synced());
}

/// Trap 41.
#[test]
fn what_belongs_to_the_first_list_is_marked_and_nothing_else_is() {
    let mut fifo = DeltaFifo::new();
    fifo.replace([pod("a", "1"), pod("b", "2")], &store(&[("gone", "1")])).unwrap();
    fifo.add(pod("later", "4")).unwrap();
    let first = fifo.pop().unwrap();
    assert!(first.is_initial());
    fifo.requeue(first);
    let popped: Vec<_> = core::iter::from_fn(|| fifo.pop()).map(|it| (it.key().clone(), it.is_initial())).collect();
    let popped: Vec<_> = popped.iter().map(|(key, initial)| (key.as_str(), *initial)).collect();
    assert_eq!(popped, [("b", true), ("gone", true), ("later", false), ("a", true)]);
    assert!(fifo.has_synced());
    fifo.replace([pod("new", "5")], &store(&[("a", "1")])).unwrap();
    assert!(!fifo.pop().unwrap().is_initial(), "a later list is no initial one");
}

/// Trap 32.
#[test]
fn what_is_told_follows_from_the_store_and_not_from_the_kind_of_the_event() {
    let mut known = store(&[("a", "1")]);
    let mut fifo = DeltaFifo::new();
    fifo.add(pod("a", "2")).unwrap();
    fifo.update(pod("b", "3")).unwrap();
    let told: Vec<_> = [fifo.pop().unwrap(), fifo.pop().unwrap()].iter().flat_map(|it| it.apply(&mut known)).collect();
    assert_eq!(format!("{told:?}"), "[updated a@2 (was 1) by Watch, added b@3 by Watch]");
}

/// Trap 33.
#[test]
fn a_deletion_carries_the_state_of_its_event_and_a_tombstone_the_cached_one() {
    let mut known = store(&[("a", "1"), ("b", "2")]);
    let mut fifo = DeltaFifo::new();
    fifo.delete(pod("a", "7").into(), &known).unwrap();
    fifo.replace([], &known).unwrap();
    let told: Vec<_> = [fifo.pop().unwrap(), fifo.pop().unwrap()].iter().flat_map(|it| it.apply(&mut known)).collect();
    assert_eq!(format!("{told:?}"), "[deleted a@7 by Watch, deleted b@2 (final state unknown) by Relist]");
    assert!(known.is_empty());
}

/// Trap 37.
#[test]
fn the_second_change_of_a_key_is_told_with_the_first_as_its_old_state() {
    let mut known = store(&[("a", "1")]);
    let mut fifo = DeltaFifo::new();
    fifo.update(pod("a", "2")).unwrap();
    fifo.update(pod("a", "3")).unwrap();
    let told = fifo.pop().unwrap().apply(&mut known);
    assert_eq!(format!("{told:?}"), "[updated a@2 (was 1) by Watch, updated a@3 (was 2) by Watch]");
}

/// Trap 42.
#[test]
fn what_could_not_be_processed_is_queued_again_before_what_came_meanwhile() {
    let mut fifo = DeltaFifo::new();
    fifo.replace([pod("a", "1"), pod("b", "2")], &NothingKnown).unwrap();
    assert_eq!(fifo.process(|deltas| Err::<(), _>(format!("no {deltas:?}"))), Some(Err("no [Replaced a@1]".into())));
    assert_eq!(fifo.keys().map(|key| key.as_str()).collect::<Vec<_>>(), ["b", "a"]);
    fifo.update(pod("a", "3")).unwrap();
    assert_eq!(fifo.process(|deltas| Ok::<_, ()>(format!("{deltas:?}"))), Some(Ok("[Replaced b@2]".into())));
    assert!(!fifo.has_synced(), "one object of the first list is not processed yet");

    let in_hand = fifo.pop().unwrap();
    fifo.delete(pod("a", "4").into(), &NothingKnown).unwrap();
    fifo.requeue(in_hand);
    assert_eq!(
        fifo.process(|it| Ok::<_, ()>(format!("{it:?}"))),
        Some(Ok("[Replaced a@1, Updated a@3, Deleted a@4]".into()))
    );
    assert!(fifo.has_synced());
    assert_eq!(fifo.process(|_| Ok::<_, ()>(())), None);
}

#[test]
#[should_panic(expected = "a is queued again before the next pop() or done(), or not at all")]
fn what_is_done_cannot_be_queued_again() {
    let mut fifo = DeltaFifo::new();
    fifo.add(pod("a", "1")).unwrap();
    let deltas = fifo.pop().unwrap();
    fifo.done();
    fifo.requeue(deltas);
}

fn number(name: &str, version: &str, value: u32) -> Obj<u32> {
    Obj::new(Key::new("", name), Uid::new("u"), Version::new(version), value)
}

/// Numbers are doubled once; 13 is refused.
fn doubling() -> DeltaFifo<u32> {
    DeltaFifo::new().transformed(|n| if **n == 13 { Err(DecodeError::new("13 is refused")) } else { Ok(**n * 2) })
}

fn values(deltas: &[Delta<u32>]) -> Vec<(DeltaKind, Option<u32>)> {
    deltas.iter().map(|delta| (delta.kind, delta.object.last().map(|object| **object))).collect()
}

/// Traps 44 (a transform runs for each object that comes in) and 45 (it cannot touch the identity).
#[test]
fn the_transform_runs_once_per_object_and_never_for_tombstones_and_resyncs() {
    use DeltaKind::{Added, Deleted, Replaced, Sync, Updated};
    let mut known = Store::new(1);
    known.upsert(number("quiet", "1", 7));
    known.upsert(number("gone", "1", 9));
    let mut fifo = doubling();
    fifo.add(number("a", "1", 1)).unwrap();
    fifo.update(number("a", "2", 2)).unwrap();
    fifo.delete(number("a", "3", 3).into(), &known).unwrap();
    assert_eq!(values(fifo.get("a")), [(Added, Some(2)), (Updated, Some(4)), (Deleted, Some(6))]);
    assert_eq!(fifo.get("a")[1].object.last().unwrap().version().as_str(), "2");
    fifo.resync(&known);
    assert_eq!(values(fifo.get("quiet")), [(Sync, Some(7))]);
    fifo.replace([number("quiet", "4", 4)], &known).unwrap();
    assert_eq!(values(fifo.get("quiet")), [(Sync, Some(7)), (Replaced, Some(8))]);
    assert_eq!(values(fifo.get("gone")), [(Sync, Some(9)), (Deleted, Some(9))]);

    let mut fifo = doubling().replaced_as_sync();
    fifo.replace([number("a", "1", 1)], &NothingKnown).unwrap();
    assert_eq!(values(fifo.get("a")), [(Sync, Some(2))], "an object of a list is transformed under any name");
    let told = fifo.pop().unwrap().apply(&mut Store::new(1));
    assert!(matches!(&told[..], [Notification::Added { initial: true, .. }]), "{told:?}");
}

/// Traps 43 and 44.
#[test]
fn a_list_with_an_object_that_the_transform_refuses_is_refused_whole() {
    let mut fifo = doubling();
    let bad = fifo.replace([number("a", "1", 1), number("b", "2", 13)], &NothingKnown).unwrap_err();
    assert_eq!(format!("{bad}"), "b at version 2 cannot be used: 13 is refused");
    assert!(fifo.is_empty() && !fifo.has_synced());
    let bad = fifo.update(number("c", "3", 13)).unwrap_err();
    assert_eq!(bad.key.as_ref().map(|key| key.as_str()), Some("c"));
    assert!(fifo.is_empty());
}

/// Trap 44, of a deletion: what is gone must not stay.
#[test]
fn a_deletion_is_queued_even_if_the_transform_refuses_its_final_state() {
    let mut known = Store::new(1);
    known.upsert(number("a", "1", 5));
    let mut fifo = doubling();
    assert!(fifo.delete(number("a", "2", 13).into(), &known).is_err());
    fifo.add(number("b", "3", 1)).unwrap();
    assert!(fifo.delete(number("b", "4", 13).into(), &known).is_err());
    assert_eq!(format!("{:?}", fifo.get("a")), "[Deleted tombstone of a@1]");
    assert_eq!(format!("{:?}", fifo.get("b")), "[Added b@3, Deleted tombstone of b@3]");
}

#[test]
fn anything_with_a_key_finds_what_is_queued_for_it() {
    let mut fifo = DeltaFifo::new();
    fifo.add(pod("a", "1")).unwrap();
    fifo.add(pod("b", "1")).unwrap();
    let deltas = fifo.pop().unwrap();
    fifo.update(pod("a", "2")).unwrap();
    let (object, gone) = (pod("a", "0"), Tombstone::<()> { key: Key::new("", "a"), last: None });
    assert_eq!((fifo.get("a").len(), fifo.get(&Key::new("", "a")).len(), fifo.get(&object).len()), (1, 1, 1));
    assert_eq!((fifo.get(&deltas).len(), fifo.get(deltas.newest()).len(), fifo.get(&gone).len()), (1, 1, 1));
    assert_eq!((fifo.get(&DeltaObject::Tombstone(gone)).len(), fifo.get("c").len()), (1, 0));
}

#[test]
fn beyond_its_exact_part_a_line_says_only_what_must_be_told() {
    let mut fifo = DeltaFifo::exact(1);
    let line = |fifo: &DeltaFifo<()>| format!("{:?}", fifo.get("a"));
    fifo.add(pod("a", "1")).unwrap();
    fifo.update(pod("a", "2")).unwrap();
    assert_eq!(line(&fifo), "[Added a@1, Updated a@2]");
    fifo.update(pod("a", "3")).unwrap();
    assert_eq!(line(&fifo), "[Added a@1, Updated a@3]");
    fifo.delete(pod("a", "4").into(), &NothingKnown).unwrap();
    assert_eq!(line(&fifo), "[Added a@1, Deleted a@4]");
    fifo.add(pod("a", "5")).unwrap();
    fifo.update(pod("a", "6")).unwrap();
    assert_eq!(line(&fifo), "[Added a@1, Deleted a@4, Added a@6]");
    fifo.delete(pod("a", "7").into(), &NothingKnown).unwrap();
    assert_eq!(line(&fifo), "[Added a@1, Deleted a@4]", "what came and went behind it was never seen");
    fifo.update(pod("b", "8")).unwrap();
    assert_eq!(format!("{:?}", fifo.get("b")), "[Updated b@8]", "there is always room for one thing of each key");
}

/// Trap 46.
#[test]
fn of_two_deletions_the_one_with_the_real_final_state_stays() {
    let known = store(&[("a", "1")]);
    let both = |first: DeltaObject<()>, second: DeltaObject<()>| {
        let mut fifo = DeltaFifo::new();
        fifo.delete(first, &known).unwrap();
        fifo.delete(second, &known).unwrap();
        popped(&mut fifo).join("")
    };
    assert_eq!(both(tombstone("a", "1"), pod("a", "2").into()), "[Deleted a@2]");
    assert_eq!(both(pod("a", "2").into(), tombstone("a", "1")), "[Deleted a@2]");
    assert_eq!(both(pod("a", "2").into(), pod("a", "3").into()), "[Deleted a@2]", "the older");
    assert_eq!(both(tombstone("a", "1"), tombstone("a", "2")), "[Deleted tombstone of a@2]");
    let mut fifo = DeltaFifo::new();
    fifo.add(pod("a", "1")).unwrap();
    fifo.delete(pod("a", "2").into(), &known).unwrap();
    fifo.add(pod("a", "3")).unwrap();
    assert_eq!(popped(&mut fifo), ["[Added a@1, Deleted a@2, Added a@3]"]);
}

/// Trap 47.
#[test]
fn a_resync_passes_over_what_has_something_queued() {
    let known = store(&[("a", "1"), ("b", "2")]);
    let mut fifo = DeltaFifo::new();
    fifo.delete(pod("a", "3").into(), &known).unwrap();
    fifo.resync(&known);
    fifo.resync(&known);
    fifo.resync(&NothingKnown);
    assert_eq!(popped(&mut fifo), ["[Deleted a@3]", "[Sync b@2]"]);
    assert!(fifo.is_empty());
}

/// B077: between pop and the store.
#[test]
fn what_is_in_hand_counts_as_known_until_it_is_done() {
    let mut fifo = DeltaFifo::new();
    fifo.add(pod("a", "1")).unwrap();
    let in_hand = fifo.pop();
    fifo.delete(pod("a", "2").into(), &NothingKnown).unwrap();
    assert_eq!((in_hand.unwrap().list.len(), popped(&mut fifo)), (1, std::vec!["[Deleted a@2]".into()]));

    fifo.add(pod("b", "1")).unwrap();
    let _in_hand = fifo.pop();
    fifo.replace([], &NothingKnown).unwrap();
    fifo.resync(&store(&[("b", "1")]));
    assert_eq!(popped(&mut fifo), ["[Deleted tombstone of b@1]"]);

    fifo.add(pod("c", "1")).unwrap();
    let _in_hand = fifo.pop();
    fifo.resync(&store(&[("c", "0")]));
    fifo.done();
    fifo.delete(pod("c", "2").into(), &NothingKnown).unwrap();
    assert_eq!(popped(&mut fifo), [""; 0], "nobody took it");

    fifo.delete(pod("d", "2").into(), &store(&[("d", "1")])).unwrap();
    let _in_hand = fifo.pop();
    fifo.replace([], &store(&[("d", "1")])).unwrap();
    assert_eq!(popped(&mut fifo), [""; 0], "its deletion is being applied");
}

#[test]
fn a_closed_queue_is_popped_to_its_end_and_refuses_nothing() {
    let mut fifo = DeltaFifo::new();
    fifo.add(pod("a", "1")).unwrap();
    fifo.close();
    fifo.add(pod("b", "2")).unwrap();
    assert!(fifo.is_closed());
    assert_eq!(popped(&mut fifo), ["[Added a@1]", "[Added b@2]"]);
}
