//! placeholder

pub mod config;
pub mod sync;
pub mod tls;
