//! Us and our peers over the same bytes: what the sides of a measurement share, and what judges them.
//!
//! ```text
//! peers/run ─► builds all sides ─► rounds: served ◄─ loopback ─► a side ─► one line of JSON ─► medians ─► bounds
//! ```
//!
//! A side is a program that does one job and prints one line, an [`Outcome`]. All sides do it in processes of their own,
//! one after another, against one server whose work is not counted. [`run`](mod@run) repeats that in interleaved rounds,
//! so that a machine which is slow for a while is slow for all, and takes medians. A [`Bound`] is a ratio between two
//! sides of one run, or a number of bytes or of things; one of them is a time, of which users must not see more.
//!
//! Here is the one home of tables, bounds and files of results; [`wire`] adds what is measured over the wire, [`cache`]
//! what a cache costs that is read, indexed and listened to.

pub mod build;
pub mod cache;
pub mod heap;
pub mod latency;
pub mod meter;
pub mod pace;
pub mod report;
pub mod run;
pub mod side;
pub mod stall;
pub mod wire;

pub use report::{Bound, Report};
pub use side::{Figures, Outcome, Task};
