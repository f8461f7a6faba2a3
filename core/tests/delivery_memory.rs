//! What the delivery of a batch costs in memory, counted at the allocator: nothing once its buffers have their size.

use allocation_counter::measure;
use informer_core::listener::{Batches, Cause, Notification, Overflow, Ring, Turn};
use informer_core::{Key, Obj, Uid, Version};

fn updates() -> Vec<Notification<u32>> {
    let object =
        |n: u32, version: &str| Obj::new(Key::new("ns", &format!("o-{n}")), Uid::new("u"), Version::new(version), n);
    (0..64).map(|n| Notification::Updated { old: object(n, "1"), new: object(n, "2"), cause: Cause::Watch }).collect()
}

/// One commit to all rings, and out of them again. Gives back how many notifications were seen.
fn deliver(
    batches: &mut Batches<u32>,
    memory: &mut Vec<Notification<u32>>,
    rings: &mut [Ring<u32>],
    updates: &[Notification<u32>],
) -> usize {
    memory.extend(updates.iter().cloned());
    let batch = batches.publish(memory).expect("there is something to tell");
    rings.iter_mut().for_each(|ring| ring.push_batch(&batch));
    drop(batch);
    let mut seen = 0;
    for ring in rings {
        while let Some(Turn::Walk(mut walk)) = ring.turn() {
            seen += usize::from(walk.current().old().is_some());
            while walk.advance().is_some() {
                seen += usize::from(walk.current().old().is_some());
            }
            ring.recall(walk.place());
        }
    }
    batches.reclaim(2, |told| told.for_each(drop));
    seen
}

#[test]
fn a_delivery_allocates_nothing_in_the_steady_state() {
    let (updates, mut batches, mut memory) = (updates(), Batches::new(), Vec::new());
    let mut rings: Vec<Ring<u32>> = (0..10).map(|_| Ring::new(Overflow::default())).collect();
    // Two batches are under way at a time: the one that is told, and the memory for the next.
    for _ in 0..2 {
        assert_eq!(deliver(&mut batches, &mut memory, &mut rings, &updates), 640);
    }
    let mut seen = 0;
    let counted = measure(|| {
        for _ in 0..1_000 {
            seen += deliver(&mut batches, &mut memory, &mut rings, &updates);
        }
    });
    assert_eq!((seen, counted.count_total, counted.bytes_current), (640_000, 0, 0));
}

#[test]
fn a_batch_costs_a_ring_one_pointer_however_many_notifications_it_has() {
    let (updates, mut ring) = (updates(), Ring::new(Overflow::Unbounded));
    let mut batches = Batches::new();
    let counted = measure(|| {
        for _ in 0..1_000 {
            let mut told = updates.clone();
            ring.push_batch(&batches.publish(&mut told).expect("there is something to tell"));
        }
    });
    let shared = 64 * size_of::<Notification<u32>>();
    let per_batch = counted.bytes_current / 1_000;
    assert_eq!(ring.len(), 64_000);
    assert!((per_batch as usize) < shared + 200, "{per_batch} bytes for a batch of {shared}");
}
