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

#![forbid(unsafe_code)]

mod form;

pub mod expect;
pub mod invariants;
pub mod loopback;
pub mod outcome;
pub mod queue;
pub mod queue_runner;
pub mod scenario;
pub mod script;

pub use form::{Bounds, FormError};
