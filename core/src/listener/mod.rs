//! One ring per handler: what it has still to be told.
//!
//! ```text
//! commit ──► batch ──► push ──► [ replay of a snapshot | synced | batches … | resync of a snapshot | batches … ] ──► turn
//!              └─────► push ──► [ the same for another handler ] ──► turn
//! ```
//!
//! The notifications of a commit are one [`Batch`], and a ring holds a counted pointer to it and the place where its handler
//! is. A handler that takes its turn is lent the whole stretch and walks it by reference ([`Walk`]).
//!
//! The initial state and a resync are not copied into the ring: they stand in it as one entry that walks a snapshot
//! (one count per 64 objects), and live changes queue behind. A ring holds notifications exactly up to its limit;
//! beyond it, it keeps at most two per key (a deletion, and what came after), merged so that the handler still sees
//! added → updated* → deleted with unbroken `old` (I11, I12, I21). A ring that begins to merge takes copies of what is left
//! of its batches, and of what it has lent. So memory is bounded by the live keys, however long a handler sleeps, and no
//! handler keeps batches alive that the others have passed, but for the one that its call walks.
//!
//! The call that runs does not count against the limit. A handler that waits for work takes the next change at once, so
//! a change that finds it waiting is as good as running, even if more changes come before its thread wakes up.
//!
//! ```
//! use informer_core::listener::{Cause, Delivery, Notification, Overflow, Ring};
//! use informer_core::{Key, Obj, Uid, Version};
//!
//! let at = |version: &str| Obj::new(Key::new("ns", "a"), Uid::new("u"), Version::new(version), ());
//! let update = |old: &Obj<()>, new: &Obj<()>| {
//!     Notification::Updated { old: old.clone(), new: new.clone(), cause: Cause::Watch }
//! };
//! let (v1, v2, v3, v4) = (at("1"), at("2"), at("3"), at("4"));
//! let mut ring = Ring::new(Overflow::Coalesce { limit: 1 });
//! ring.push(update(&v1, &v2)); // as good as running: the handler waits for work
//! ring.push(update(&v2, &v3)); // buffered
//! ring.push(update(&v3, &v4)); // over the limit: merged
//! for want in [("1", "2"), ("2", "4")] {
//!     let Some(Delivery::Notification(Notification::Updated { old, new, .. })) = ring.pop() else { panic!() };
//!     assert_eq!((old.version().as_str(), new.version().as_str()), want);
//! }
//! assert!(ring.pop().is_none());
//! ```

mod batch;
mod merge;
mod notification;
mod overflow;
mod recreated;
mod ring;
mod walk;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

pub use batch::{Batch, Batches};
pub use notification::{Cause, Notification};
pub use overflow::{DEFAULT_LIMIT, Overflow};
pub use recreated::Recreated;
pub use ring::{Delivery, Ring, RingStats, Turn};
pub use walk::Walk;
