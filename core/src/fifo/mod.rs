//! The queue between the reflector and the store.
//!
//! [`InOrderQueue`] is what informers use.

mod in_order;

pub use in_order::{COMMIT_EVENTS, InOrderQueue};
