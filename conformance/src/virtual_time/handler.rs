//! [`Handler`]: one event handler as a thread whose calls take virtual time.
//!
//! ```text
//! added ──attach──► [ pop a notification ─► call runs for `stallMs` ─► pop … ] ──leave──► the running call ends: removed
//! ```

use crate::outcome::{Event, What};
use crate::scenario::HandlerSpec;
use crate::translate;
use informer_core::DynamicObject;
use informer_core::listener::{Delivery, Notification, Ring};
use informer_core::store::Snapshot;
use informer_core::time::{Duration, Time};

pub(super) struct Handler<'a> {
    spec: &'a HandlerSpec,
    ring: Ring<DynamicObject>,
    stage: Stage,
    /// When the running call ends.
    busy_until: Option<Time>,
    events: Vec<Event>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Gets nothing: not attached yet, or stopped.
    Idle,
    Attached,
    /// Its removal waits for the running call.
    Leaving,
    Removed,
}

impl<'a> Handler<'a> {
    pub(super) fn new(spec: &'a HandlerSpec) -> Self {
        let ring = Ring::new(translate::overflow(spec.overflow));
        Handler { spec, ring, stage: Stage::Idle, busy_until: None, events: Vec::new() }
    }

    pub(super) fn spec(&self) -> &'a HandlerSpec {
        self.spec
    }

    pub(super) fn into_events(self) -> Vec<Event> {
        self.events
    }

    pub(super) fn attach(&mut self, store: Snapshot<DynamicObject>) {
        self.stage = Stage::Attached;
        self.ring.replay(store);
    }

    pub(super) fn resync(&mut self, store: Snapshot<DynamicObject>) {
        if self.stage == Stage::Attached {
            self.ring.resync(store);
        }
    }

    pub(super) fn push(&mut self, notification: &Notification<DynamicObject>) {
        if self.stage == Stage::Attached {
            self.ring.push(notification.clone());
        }
    }

    /// True if it fell behind under a policy that does not forgive this, and has not left yet.
    pub(super) fn overflowed(&self) -> bool {
        self.stage == Stage::Attached && self.ring.is_disconnected()
    }

    /// Drops what is buffered and lets the removal complete as soon as no call runs.
    pub(super) fn leave(&mut self) {
        if self.stage != Stage::Removed {
            self.drop_buffer();
            self.stage = Stage::Leaving;
        }
    }

    /// The informer has stopped: what is buffered is dropped, a running call ends.
    pub(super) fn stop(&mut self) {
        if self.stage == Stage::Attached {
            self.drop_buffer();
            self.stage = Stage::Idle;
        }
    }

    fn drop_buffer(&mut self) {
        self.ring = Ring::new(translate::overflow(self.spec.overflow));
    }

    /// When it must be looked at again.
    pub(super) fn wakes_at(&self) -> Option<Time> {
        self.busy_until
    }

    /// Runs calls until one takes longer than this instant or nothing is buffered.
    pub(super) fn run(&mut self, now: Time) {
        if self.busy_until.is_some_and(|until| until > now) {
            return;
        }
        self.busy_until = None;
        let at_ms = now.as_millis();
        if self.stage == Stage::Leaving {
            self.stage = Stage::Removed;
            self.events.push(Event { at_ms, what: What::Removed });
        }
        // Ends: nothing is pushed meanwhile, so the ring runs empty.
        while let Some(delivery) = self.ring.pop() {
            match delivery {
                Delivery::Notification(notification) => {
                    self.events.push(translate::event(at_ms, &notification));
                    if self.spec.stall_ms > 0 {
                        self.busy_until = Some(now + Duration::from_millis(self.spec.stall_ms));
                        return;
                    }
                }
                Delivery::Synced => self.events.push(Event { at_ms, what: What::Synced }),
                other => panic!("outcomes have no word for the delivery {other:?}: give it one in outcome::What"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use informer_core::store::Store;
    use informer_core::{Key, Obj, Object, Resource, Uid, Version};

    fn spec(handler: &str) -> HandlerSpec {
        let scenario = fixtures::scenario(&format!(r#""runForMs": 1000, "server": [], "handlers": [{handler}]"#));
        scenario.unwrap().handlers.remove(0)
    }

    fn store(names: &[&str]) -> Store<DynamicObject> {
        let mut store = Store::new(1);
        for name in names {
            let value = DynamicObject::decode(b"{}", &Resource::namespaced("", "v1", "pods", "Pod")).unwrap();
            store.upsert(Obj::new(Key::new("ns", name), Uid::new("u"), Version::new("1"), value));
        }
        store
    }

    fn told(handler: Handler<'_>) -> Vec<String> {
        handler.into_events().iter().map(ToString::to_string).collect()
    }

    fn at(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    #[test]
    fn synced_comes_when_the_last_initial_call_has_returned() {
        let spec = spec(r#"{"name": "h", "stallMs": 10}"#);
        let mut handler = Handler::new(&spec);
        handler.attach(store(&["a", "b"]).snapshot());
        for ms in [0, 5, 10, 15, 20] {
            handler.run(at(ms));
        }
        assert_eq!(told(handler), ["add ns/a 1@0ms", "add ns/b 1@10ms", "synced@20ms"]);
    }

    #[test]
    fn a_removal_waits_for_the_running_call_and_nothing_follows_it() {
        let spec = spec(r#"{"name": "h", "stallMs": 10}"#);
        let mut handler = Handler::new(&spec);
        handler.attach(store(&["a", "b"]).snapshot());
        handler.run(at(0));
        handler.leave();
        handler.run(at(4));
        assert_eq!(handler.wakes_at(), Some(at(10)));
        handler.run(at(10));
        handler.resync(store(&["a"]).snapshot());
        handler.leave();
        handler.run(at(11));
        assert_eq!(told(handler), ["add ns/a 1@0ms", "removed@10ms"]);
    }

    #[test]
    fn a_stop_drops_what_is_buffered() {
        let spec = spec(r#"{"name": "h", "stallMs": 10}"#);
        let mut handler = Handler::new(&spec);
        handler.attach(store(&["a", "b"]).snapshot());
        handler.run(at(0));
        handler.stop();
        handler.run(at(10));
        assert_eq!(told(handler), ["add ns/a 1@0ms"]);
    }
}
