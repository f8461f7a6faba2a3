//! Kubernetes' list-and-watch cache as a sans-IO state machine.
//!
//! This crate owns every decision of an informer and does no IO: no clock, no thread, no lock, no socket, no
//! randomness of its own. A driver feeds it bytes and time and carries out what it asks for.
//!
//! ```text
//! bytes ─► wire ─► reflector ─► fifo ─► store + indexes ─► listeners ─► handler ─► predicate ─► queue ─► reconciler
//!          frames   list/watch   deltas   objects, changes   rings
//! ```
//!
//! [`informer`] joins the left half and shows a whole life by hand; [`controller`] does the same for the right half.
//!
//! # Codes
//!
//! Documentation and tests name rules by short codes: `I` the invariants of caches and queues, `C` and `W` rules of list and
//! watch, `B` bugs from production, traps of client-go. The section "What the codes mean" of the repository's ARCHITECTURE.md
//! lists the invariants, and `conformance/rules.tsv` the others, each with what shows it.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod acknowledged;
pub mod controller;
pub mod decode;
pub mod factory;
pub mod fed;
pub mod fifo;
pub mod filter;
pub mod informer;
pub mod listener;
pub mod lister;
pub mod object;
pub mod overlay;
pub mod queue;
pub mod reflector;
pub mod rng;
pub mod saved;
pub mod selector;
pub mod shown;
pub mod store;
pub mod time;
pub mod wire;

pub use object::{DynamicObject, Key, KeyRef, Obj, Object, ObjectMeta, Resource, Uid, UidRef, Version, VersionRef};
