//! The one driver thread of a factory: feeds every informer, carries out what it asks for, and sleeps.
//!
//! ```text
//! loop: informers that were started ─► timers and commands ─► what came on connections ─► sleep until woken or due
//! ```

use crate::connection::{Event, Link, Name};
use crate::factory::Inner;
use informer_core::time::Deadline;
use informer_runtime::driver::{Drive, GATHER, IoAction, IoEvent};
use informer_runtime::sync::Arc;
use std::collections::{BTreeMap, HashMap};

pub(crate) struct Driver {
    inner: Arc<Inner>,
    /// By a number that is never used again: what comes late for one that has stopped finds nobody.
    informers: BTreeMap<usize, Running>,
    next: usize,
    /// The connections that are open. What comes under another name is not wanted any more.
    links: HashMap<Name, Arc<Link>>,
}

struct Running {
    drive: Box<dyn Drive>,
    deadline: Option<Deadline>,
}

impl Driver {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        Driver { inner, informers: BTreeMap::new(), next: 0, links: HashMap::new() }
    }

    /// Returns when the factory is to stop and every informer has.
    pub(crate) fn run(mut self) {
        let inner = Arc::clone(&self.inner);
        loop {
            let seen = inner.core.wake().generation();
            if inner.core.is_stopping() {
                break;
            }
            if inner.core.is_held() {
                inner.core.wake().wait_past(seen, None);
                continue;
            }
            self.round();
            if inner.core.wake().generation() == seen {
                self.informers.values_mut().for_each(|informer| informer.drive.rest());
            }
            let soonest = self.informers.values().map(|informer| informer.deadline).fold(None, Deadline::sooner);
            let until = soonest.and_then(|deadline| inner.core.clock().instant(deadline));
            inner.core.wake().wait_past(seen, until);
        }
        for at in self.numbers() {
            self.step(at, IoEvent::Stop);
        }
    }

    fn round(&mut self) {
        for drive in self.inner.take_started() {
            let at = self.next;
            self.next += 1;
            self.informers.insert(at, Running { drive, deadline: None });
            self.step(at, IoEvent::Start);
        }
        for at in self.numbers() {
            self.step(at, IoEvent::Tick);
        }
        // What comes meanwhile waits for the next round, so that timers are never far behind.
        let mut events = self.inner.inbox.take();
        let mut gathered = 0;
        while let Some((name, event)) = events.pop_front() {
            // Parts of one body that are there already become one batch.
            let (Event::Body(bytes), Some((next, Event::Body(_)))) = (&event, events.front()) else {
                gathered = 0;
                self.deliver(name, &event);
                continue;
            };
            gathered += bytes.len();
            if *next == name && gathered < GATHER {
                self.gather(name, bytes);
            } else {
                gathered = 0;
                self.deliver(name, &event);
            }
        }
    }

    fn numbers(&self) -> Vec<usize> {
        self.informers.keys().copied().collect()
    }

    /// Hands over a part of a body; what the informer asks for waits until the next part is handed over too.
    fn gather(&mut self, name: Name, part: &Vec<u8>) {
        let Some(link) = self.links.get(&name) else { return };
        link.taken(part);
        let now = self.inner.core.clock().now();
        if let Some(informer) = self.informers.get_mut(&name.0) {
            informer.drive.handle(now, IoEvent::Body(name.1, part));
        }
    }

    fn deliver(&mut self, name: Name, event: &Event) {
        let Some(link) = self.links.get(&name) else { return };
        let (at, id) = name;
        match event {
            Event::Connected => self.step(at, IoEvent::Connected(id)),
            Event::Head(head) => self.step(at, IoEvent::Head(id, head)),
            Event::Body(part) => {
                link.taken(part);
                self.step(at, IoEvent::Body(id, part));
            }
            Event::End(end) => {
                self.links.remove(&name);
                self.step(at, IoEvent::End(id, end));
            }
        }
    }

    /// Feeds one informer and carries out what it asks for.
    fn step(&mut self, at: usize, event: IoEvent<'_>) {
        let clock = self.inner.core.clock();
        let Some(informer) = self.informers.get_mut(&at) else { return };
        informer.drive.handle(clock.now(), event);
        loop {
            match informer.drive.poll(clock.now()) {
                IoAction::Send(request) => {
                    let name = (at, request.id);
                    let link = Link::open(&self.inner, name, request, informer.drive.enter());
                    self.links.insert(name, link);
                }
                IoAction::Cancel(id) => {
                    if let Some(link) = self.links.remove(&(at, id)) {
                        link.cancel();
                    }
                }
                IoAction::Pause(id) => pause(&self.links, (at, id), true),
                IoAction::Resume(id) => pause(&self.links, (at, id), false),
                IoAction::Wait(_) if informer.drive.is_stopped() => {
                    self.informers.remove(&at);
                    return;
                }
                IoAction::Wait(deadline) => {
                    informer.deadline = deadline;
                    return;
                }
            }
        }
    }
}

impl Drop for Driver {
    /// However it ends, no reader stays behind.
    fn drop(&mut self) {
        self.links.values().for_each(|link| link.cancel());
    }
}

fn pause(links: &HashMap<Name, Arc<Link>>, name: Name, paused: bool) {
    if let Some(link) = links.get(&name) {
        link.pause(paused);
    }
}
