//! What the informer runtimes share: the cache behind its lock, handlers behind theirs, configuration, TLS.
//!
//! Users take `informer-tokio` or `informer-blocking`; an adapter of one's own is built on this crate. What an adapter
//! adds is sockets, clocks and threads or tasks, and no decision:
//!
//! | module | what it holds |
//! |---|---|
//! | [`config`], [`tls`] | how to reach a cluster, and who we are |
//! | [`factory`] | the informers of one client; start, sync, stop |
//! | [`driver`] | one informer as events in and IO actions out |
//! | [`feeder`] | one that is given its objects by hand |
//! | [`informer`], [`handler`], [`events`], [`acknowledged`], [`lister`], [`pages`], [`store`] | what users hold |
//! | [`catch_up`], [`own_writes`] | waiting until a cache has a write, and reading it before |
//! | [`roster`] | which informers a factory has, and who uses them |
//! | [`controller`] | from a notification to a run for a worker |
//! | [`api`] | the write client's calls |
//! | [`outgoing`], [`addresses`], [`idle`] | a request, where it goes, connections between two of them |
//! | [`http1`], [`fault`] | HTTP/1.1 on one connection, without IO; why an exchange came to nothing |
//! | [`guard`], [`observe`], [`sync`] | user code, observers, locks |
//! | [`mutation`] | who changes a cached object |
#![forbid(unsafe_code)]

pub mod acknowledged;
pub mod addresses;
pub mod api;
pub mod catch_up;
pub mod config;
pub mod controller;
pub mod driver;
pub mod error;
pub mod events;
pub mod factory;
pub mod fault;
pub mod feeder;
pub mod guard;
pub mod handler;
mod helpers;
pub mod http1;
pub mod idle;
pub mod informer;
pub mod lister;
pub mod mutation;
pub mod observe;
pub mod outgoing;
pub mod own_writes;
pub mod pages;
mod replaced;
pub mod roster;
#[cfg(all(test, shuttle))]
mod schedules;
pub mod store;
pub mod sync;
pub mod tls;
mod trace;

pub use catch_up::Behind;
pub use config::Config;
pub use error::{Error, Lagging};
