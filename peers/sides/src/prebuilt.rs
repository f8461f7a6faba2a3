//! [`Prebuilt`]: an informer that is fed objects by hand, as the peers' caches are in their jobs about events: there is
//! nothing to decode on any side. What decoding costs is in `peers/run wire`.
//!
//! client-go takes one event after another from a channel that is never empty, kube-runtime from a stream that is always
//! ready. What is there already can be taken together, and that is what is fed here: [`AT_ONCE`] changes in a call, as many
//! as a driver reads of such events at once from a busy socket.

use crate::handlers;
use crate::tiny::{TinyObject, object};
use informer_blocking::runtime::factory::FactoryCore;
use informer_blocking::{
    Change, Config, FactoryOptions, FedSpec, Feeder, InformerHandle, Notification, Obj, Overflow, Registration, Version,
};
use informer_peers::cache::Tiny;

/// Changes of one call.
pub const AT_ONCE: usize = 1_024;

/// An informer and what feeds it.
pub struct Prebuilt {
    informer: InformerHandle<TinyObject>,
    feeder: Feeder<TinyObject>,
    live: usize,
    // The informer would end with its factory.
    _factory: FactoryCore,
}

impl Prebuilt {
    /// One of so many objects, which [`list`](Self::list) lists.
    pub fn new(live: usize) -> Self {
        let config = Config::from_url("http://127.0.0.1:1").expect("a URL");
        let factory = FactoryCore::new(config, FactoryOptions::default());
        let (informer, feeder) = factory.fed(FedSpec::new()).expect("the first of its factory");
        Prebuilt { informer, feeder, live, _factory: factory }
    }

    /// For indexes and reading.
    pub fn informer(&self) -> &InformerHandle<TinyObject> {
        &self.informer
    }

    /// Adds a handler on a thread of its own.
    pub fn handle(
        &self,
        overflow: Overflow,
        function: impl FnMut(&Notification<TinyObject>) + Send + 'static,
    ) -> Registration {
        handlers::handle(&self.informer, overflow, function)
    }

    /// Adds a handler on a thread of its own that counts updates, and calls `done` with the `events`th.
    pub fn count_updates(
        &self,
        overflow: Overflow,
        events: usize,
        done: impl FnMut() + Send + 'static,
    ) -> Registration {
        self.handle(overflow, handlers::counting(events, done))
    }

    /// Version 1 of every object.
    pub fn list(&self) {
        let all = (0..self.live).map(|n| object(n, 1));
        self.feeder.list(all, Version::new("1")).expect("nobody is full");
        assert_eq!(self.informer.lister().len(), self.live);
    }

    /// Feeds changes.
    pub fn apply(&self, changes: impl Iterator<Item = Obj<TinyObject>>) {
        self.feeder.apply_all(changes.map(Change::Applied)).expect("nobody is full");
    }

    /// The number of the object that change `change` is of: scattered, and going round.
    pub fn of(&self, change: usize) -> usize {
        change % self.live * Tiny::STRIDE % self.live
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn what_is_fed_is_in_the_cache_and_told_to_handlers() {
        let fed = Prebuilt::new(100);
        let (told, all_told) = channel();
        fed.count_updates(Overflow::Unbounded, 250, move || told.send(()).unwrap());
        fed.list();
        fed.apply((0..250).map(|change| object(fed.of(change), 2 + change as u64)));
        all_told.recv_timeout(Duration::from_secs(60)).unwrap();
        let last = fed.informer.lister().get(&crate::tiny::key(fed.of(249))).unwrap();
        assert_eq!(last.version().as_str(), "251");
    }
}
