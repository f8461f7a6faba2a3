//! One informer driven by hand through [`Drive`], without sockets.
#![allow(dead_code)] // each test binary has its own part of it

use informer_core::reflector::{End, ListStrategy};
use informer_core::time::{Deadline, Duration, Time};
use informer_core::wire::{Head, Request, RequestId};
use informer_core::{DynamicObject, Resource};
use informer_runtime::Config;
use informer_runtime::driver::{Drive, IoAction, IoEvent};
use informer_runtime::factory::{FactoryCore, FactoryOptions};
use informer_runtime::informer::InformerSpec;
use informer_runtime::sync::Arc;

pub(crate) fn pods() -> Resource {
    Resource::namespaced("", "v1", "pods", "Pod")
}

pub(crate) fn spec() -> InformerSpec<DynamicObject> {
    InformerSpec::of(pods()).strategy(ListStrategy::Paged)
}

pub(crate) fn factory() -> FactoryCore {
    factory_with(FactoryOptions::default())
}

pub(crate) fn factory_with(mut options: FactoryOptions) -> FactoryCore {
    // The time of these tests stands still, and so does the wall clock, unless a test has one of its own.
    options.wall_clock.get_or_insert_with(|| Arc::new(|| Duration::from_secs(1_790_000_000)));
    FactoryCore::new(Config::from_url("http://127.0.0.1:1").unwrap(), options)
}

/// The driver of the only informer, and its last request.
pub(crate) struct Hand {
    pub(crate) drive: Box<dyn Drive>,
    pub(crate) last: Option<RequestId>,
    pub(crate) now: Time,
}

impl Hand {
    pub(crate) fn take(factory: &FactoryCore) -> Self {
        let mut drives = factory.take_unstarted();
        assert_eq!(drives.len(), 1);
        Hand { drive: drives.remove(0), last: None, now: Time::ZERO }
    }

    pub(crate) fn tell(&mut self, event: IoEvent<'_>) {
        self.tell_at(self.now, event);
    }

    /// The requests that were sent, and what is waited for.
    pub(crate) fn tell_at(&mut self, now: Time, event: IoEvent<'_>) -> (Vec<Request>, Option<Deadline>) {
        self.drive.handle(now, event);
        let mut sent = Vec::new();
        loop {
            match self.drive.poll(now) {
                IoAction::Send(request) => {
                    self.last = Some(request.id);
                    sent.push(request);
                }
                IoAction::Wait(deadline) => {
                    self.drive.rest();
                    return (sent, deadline);
                }
                IoAction::Cancel(_) | IoAction::Pause(_) | IoAction::Resume(_) => {}
            }
        }
    }

    /// Starts, and answers the list; the watch that follows is open.
    pub(crate) fn list(&mut self, names: &[&str]) {
        self.tell(IoEvent::Start);
        let items: Vec<_> = names.iter().map(|name| object(name, "5", "")).collect();
        self.answer_list("5", &items);
    }

    /// Answers a list; the watch that follows is open.
    pub(crate) fn answer_list(&mut self, version: &str, items: &[String]) {
        let id = self.last.expect("a list was sent");
        let list = format!(
            r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"}},"items":[{}]}}"#,
            items.join(",")
        );
        self.tell(IoEvent::Head(id, &Head::new(200)));
        self.tell(IoEvent::Body(id, list.as_bytes()));
        self.tell(IoEvent::End(id, &End::Closed));
        let watch = self.last.expect("a watch was sent");
        assert_ne!(watch, id);
        self.tell(IoEvent::Head(watch, &Head::new(200)));
    }

    pub(crate) fn watch(&mut self, kind: &str, name: &str, version: u32, label: &str) {
        let object = object(name, &version.to_string(), label);
        let event = format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n");
        let id = self.last.expect("a watch is open");
        self.tell(IoEvent::Body(id, event.as_bytes()));
    }
}

pub(crate) fn object(name: &str, version: &str, label: &str) -> String {
    format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"web","uid":"u-{name}","resourceVersion":"{version}","labels":{{"l":"{label}"}}}}}}"#
    )
}
