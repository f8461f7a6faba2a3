//! One controller, three ways.
//!
//! - [`reconcile`]: what the controller wants, as a pure function. Both runtimes share it, line for line.
//! - [`world`]: the people and machines around it: they make, change and delete parents, restart the server, and check
//!   at the end that every child is as it should be.
//!
//! `controller_tokio` and `controller_threads` put the two together; `bare_core` needs no runtime at all.
#![forbid(unsafe_code)]

pub mod reconcile;
pub mod world;
