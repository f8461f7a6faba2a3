//! The queue between the reflector and the store.
//!
//! | | [`InOrderQueue`] | [`DeltaFifo`] |
//! |---|---|---|
//! | used by | informers | programs that are moved from client-go, by hand; informers that ask for its order ([`QueueKind`]) |
//! | order across keys | that of the wire | that of each key's first change |
//! | a list | one commit, whole or not at all | one delta per object; in an informer as the other one |
//! | a deletion of what nobody knows | queued, and dropped by the store | dropped |
//! | a resync | not in the queue: each handler's ring walks a snapshot | `Sync` deltas |
//! | memory, if nothing is popped | grows with the changes; an informer pauses the body | exact up to a bound, then two deltas per key |
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
//!     per_key.update(pod(version)).unwrap();
//! }
//! let (mut one, mut other) = (Store::new(1), Store::new(1));
//! let told = one.commit(in_order.pop().unwrap()).notifications;
//! assert_eq!(format!("{told:?}"), format!("{:?}", per_key.pop().unwrap().apply(&mut other)));
//! ```

mod delta;
mod in_order;
mod lines;
mod per_key;
mod queue;

pub use delta::{
    Delta, DeltaFifo, DeltaKind, DeltaObject, Deltas, EXACT_DELTAS, KeyOf, KnownObjects, NothingKnown, Tombstone,
};
pub use in_order::{COMMIT_EVENTS, InOrderQueue};
pub use queue::QueueKind;

pub(crate) use queue::Queue;

#[cfg(test)]
mod tests;
