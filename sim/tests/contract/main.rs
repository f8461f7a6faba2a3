//! What clients see of the simulated API server: lists, watches and writes in virtual time, a model, and loopback HTTP.

mod delete;
mod list;
mod model;
mod odd;
#[cfg(feature = "serve")]
mod served;
mod support;
mod watch;
mod write;
