//! What a server is told when it is made: [`Config`] for the whole, [`Options`] for each resource.

use std::time::Duration;

/// The settings of a [`Server`](crate::Server).
///
/// ```
/// use informer_sim::Config;
///
/// let config = Config { seed: 7, token: Some("secret".into()), ..Config::default() };
/// assert_eq!(config.history, 10_000);
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// Where uids, generated names and default timeouts come from: equal seeds and inputs, equal outputs.
    pub seed: u64,
    /// The bearer token that requests must carry; `None` (the default) lets everyone in.
    pub token: Option<String>,
    /// Compress lists above 128 KiB for clients that accept gzip, as the real server does. Off by default: it costs
    /// more CPU than all else together.
    pub gzip: bool,
    /// Changes that each resource remembers; a watch from before the oldest gets 410 (C17). 10,000 by default, between
    /// the 100 and the 102,400 of the real server; old versions of objects stay in memory for as long.
    pub history: usize,
    /// Changes by which a paused watch may lag before it is ended, as the real server evicts a client that does not
    /// read (C16). 1,000 by default, the largest buffer that the real one gives a watch.
    pub watch_backlog: usize,
    /// How far apart the bookmarks of a watch are; 60 s by default (C14). One more comes 2 s before the timeout.
    pub bookmark_every: Duration,
    /// The version before the first write; 1 by default, as in an empty etcd.
    pub first_version: u64,
    /// What the wall shows at the epoch of the driver, in seconds since 1970; 2026-01-01 by default. Only
    /// `creationTimestamp` and its like are made of it.
    pub wall_clock: u64,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            seed: 0,
            token: None,
            gzip: false,
            history: 10_000,
            watch_backlog: 1_000,
            bookmark_every: Duration::from_secs(60),
            first_version: 1,
            wall_clock: 1_767_225_600,
        }
    }
}

/// How one resource is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// A custom resource: list items keep `kind` and `apiVersion`, the list's metadata comes after its items, an
    /// update must name a `resourceVersion`, and every object has a `generation`.
    pub custom: bool,
    /// `status` is written under `/status` only, and nothing else is.
    pub status_subresource: bool,
}
