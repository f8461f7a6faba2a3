//! placeholder

pub mod sync;
