//! [`Feed`]: an informer that is given raw bytes in this process, as an adapter gives it what came from a socket.

use informer_benches::{Sample, frames, list_body};
use informer_blocking::core::reflector::End;
use informer_blocking::core::wire::{Head, RequestId};
use informer_blocking::runtime::driver::{Drive, IoAction, IoEvent};
use informer_blocking::runtime::factory::FactoryCore;
use informer_blocking::{Config, FactoryOptions, InformerHandle, InformerSpec, ListStrategy};

/// Bytes that are handed over at once: what a busy socket gives.
const PART: usize = 64 * 1024;

/// The version of every object of the list; events have later ones.
const LISTED: u64 = 1;

/// An informer with its driver.
pub struct Feed<T> {
    factory: FactoryCore,
    informer: InformerHandle<T>,
    drive: Box<dyn Drive>,
    /// The request that was sent last.
    request: Option<RequestId>,
}

impl<T: Sample> Feed<T> {
    /// An informer of a type's resource that has not begun.
    #[allow(clippy::new_without_default)] // it starts threads once there is something to decode
    pub fn new() -> Self {
        let config = Config::from_url("http://127.0.0.1:1").expect("a URL");
        let factory = FactoryCore::new(config, FactoryOptions::default());
        let spec = InformerSpec::<T>::new().strategy(ListStrategy::Paged);
        let informer = factory.informer(spec).expect("the first of its factory");
        let drive = factory.take_unstarted().remove(0);
        Feed { factory, informer, drive, request: None }
    }

    /// For handlers, indexes and reading.
    pub fn informer(&self) -> &InformerHandle<T> {
        &self.informer
    }

    /// Begins, has it list the objects `0..objects`, and opens its watch.
    pub fn list(&mut self, objects: usize) {
        self.step(IoEvent::Start);
        let list = self.request.expect("it begins with a list");
        self.step(IoEvent::Head(list, &Head::new(200)));
        for part in list_body::<T>(0..objects as u64, |_| LISTED).chunks(PART) {
            self.step(IoEvent::Body(list, part));
        }
        self.step(IoEvent::End(list, &End::Closed));
        assert_eq!(self.informer.lister().len(), objects, "the whole list is in the cache");
        let watch = self.request.expect("it goes on with a watch");
        assert_ne!(watch, list, "the list is complete");
        self.step(IoEvent::Head(watch, &Head::new(200)));
    }

    /// Gives it bytes of the watch, as much at once as a busy socket gives.
    pub fn watch(&mut self, bytes: &[u8]) {
        let watch = self.request.expect("it was listed");
        for part in bytes.chunks(PART) {
            self.step(IoEvent::Body(watch, part));
        }
        assert_eq!(self.request, Some(watch), "the watch goes on");
    }

    /// Nothing has come for a while.
    pub fn rest(&mut self) {
        self.drive.rest();
    }

    fn step(&mut self, event: IoEvent<'_>) {
        let clock = self.factory.clock();
        self.drive.handle(clock.now(), event);
        loop {
            match self.drive.poll(clock.now()) {
                IoAction::Send(request) => self.request = Some(request.id),
                // What is fed is taken: there is nothing to pause.
                IoAction::Cancel(_) | IoAction::Pause(_) | IoAction::Resume(_) => {}
                IoAction::Wait(_) => return,
            }
        }
    }
}

/// Watch frames, one for each change: change `c` is of the object that comes `c`th in the scattered order, which goes
/// round, and has the version `1 + c` after that of the list.
pub struct Changes {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Changes {
    /// So many, from number `from` on, to the objects `0..objects`.
    pub fn new<T: Sample>(objects: usize, from: usize, count: usize) -> Self {
        let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(count));
        for change in from..from + count {
            let n = (change % objects * informer_peers::cache::Tiny::STRIDE % objects) as u64;
            bytes.extend_from_slice(&frames::<T>("MODIFIED", [n], |_| LISTED + 1 + change as u64));
            ends.push(bytes.len());
        }
        Changes { bytes, ends }
    }

    /// All of them.
    pub fn all(&self) -> &[u8] {
        &self.bytes
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// Those from number `from` up to `to`, as far as there are so many.
    pub fn part(&self, from: usize, to: usize) -> &[u8] {
        let at = |number: usize| number.min(self.ends.len()).checked_sub(1).map_or(0, |last| self.ends[last]);
        &self.bytes[at(from)..at(to)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handlers::count_updates;
    use crate::tiny::{TinyObject, key};
    use informer_blocking::Overflow;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn what_is_fed_is_in_the_cache_and_told_to_handlers() {
        let mut feed = Feed::<TinyObject>::new();
        let (told, all_told) = channel();
        count_updates(feed.informer(), Overflow::Unbounded, 250, move || told.send(()).unwrap());
        feed.list(100);
        let changes = Changes::new::<TinyObject>(100, 0, 250);
        feed.watch(changes.part(0, 50));
        feed.watch(changes.part(50, 1_000));
        all_told.recv_timeout(Duration::from_secs(60)).unwrap();
        let last = 249 % 100 * informer_peers::cache::Tiny::STRIDE % 100;
        assert_eq!(feed.informer().lister().get(&key(last)).unwrap().version().as_str(), "251");
    }
}
