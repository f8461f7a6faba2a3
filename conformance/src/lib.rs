//! What an informer must do, as data: scenarios, what they expect, and the server they script.
//!
//! A [scenario](scenario::Scenario) scripts an API server and one informer. A runner plays it against one runtime and
//! fills an [`Outcome`](outcome::Outcome): nothing else. Whether that is right is decided here, alike for all of them:
//! [`compare`](expect::compare) against what the scenario expects, [`invariants`](invariants::invariants) against what
//! always holds. The server is a machine without IO ([`Script`](script::Script)); [`Loopback`](loopback::Loopback)
//! puts it on a real port.
//!
//! ```text
//! file ─► Scenario ─► Script ─► runner (virtual time, or Loopback) ─► Outcome ─► compare, invariants ─► differences
//! ```
//!
//! [`play`](play::play) is the entry: it picks the runner of a [`Runtime`](play::Runtime), and
//! [`run_file`](play::run_file) goes the whole way of the picture. [`virtual_time`] drives the bare core, event by
//! event; [`real_time`] drives a runtime with IO, through [`tokio_time`] and [`blocking_time`]. What runners must name
//! alike is in [`translate`]. Work queues have scenarios of their own ([`queue`]), which [`queue_runner`] plays. What
//! other implementations did is in
//! [`recorded`].

#![forbid(unsafe_code)]

#[cfg(test)]
mod fixtures;
mod form;

pub mod blocking_time;
pub mod expect;
pub mod invariants;
pub mod loopback;
pub mod outcome;
pub mod play;
pub mod queue;
pub mod queue_runner;
pub mod real_time;
pub mod recorded;
pub mod rules;
pub mod scenario;
pub mod script;
pub mod tokio_time;
pub mod translate;
pub mod virtual_time;

pub use form::{Bounds, FormError};
