//! What handlers are told: [`Notification`].

mod notification;

pub use notification::{Cause, Notification};
