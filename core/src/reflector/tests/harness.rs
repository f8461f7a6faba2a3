//! [`World`]: an informer with its driver, store and rings in plain cells, at times that the test picks.
//!
//! The fuzz target `machine` compiles this file from outside of the crate, where enums may grow: hence arms that cannot be
//! reached from here.

use crate::decode::{Codec, DecodeJob, NoGuard};
use crate::informer::{HandlerId, Informer, InformerConfig, Input, Notice, Output};
use crate::listener::{Delivery, Notification, Overflow, Ring};
use crate::object::{DynamicObject, Obj, Resource, Version};
use crate::reflector::{End, Failure, ListStrategy, Phase};
use crate::store::{Commit, Store};
use crate::time::{Deadline, Duration, Time};
use crate::wire::{Head, Request, RequestId};
use std::collections::{BTreeMap, VecDeque};
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

pub(super) const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");

/// How many requests one wait may be followed by, pages with a token apart: a streaming list that expired, one for the
/// newest state, pages in its place, and those without a limit; then the watch.
pub(super) const AT_ONCE: u64 = 5;

/// A handler and what it believes.
pub(super) struct Listener {
    pub(super) ring: Ring<DynamicObject>,
    pub(super) attached: bool,
    /// Versions by key, as told.
    pub(super) view: BTreeMap<String, String>,
    pub(super) synced: bool,
    pub(super) told: Vec<String>,
}

pub(super) struct World {
    pub(super) now: Time,
    pub(super) informer: Informer<DynamicObject>,
    pub(super) store: Store<DynamicObject>,
    codec: Codec<DynamicObject>,
    pub(super) listeners: BTreeMap<u64, Listener>,
    /// Every output, as text.
    pub(super) log: Vec<String>,
    /// Requests that no test has looked at.
    sent: VecDeque<Request>,
    /// When requests were sent, those that follow a continue token apart: one page is no new attempt.
    pub(super) attempts: Vec<Time>,
    pub(super) pages: usize,
    /// The request in flight.
    pub(super) current: Option<RequestId>,
    /// The last request.
    pub(super) last: Option<Request>,
    pub(super) cancelled: Vec<u64>,
    pub(super) failures: Vec<Failure>,
    /// How many of them `reasons` has told.
    told_failures: usize,
    pub(super) paused: Option<RequestId>,
    /// Effects are kept until [`World::work`].
    pub(super) lazy: bool,
    kept: VecDeque<Effect>,
    pub(super) deadline: Option<Deadline>,
}

pub(super) enum Effect {
    Decode(DecodeJob),
    Commit(Commit<DynamicObject>),
}

pub(super) fn config(strategy: ListStrategy) -> InformerConfig {
    let mut config = InformerConfig::new(PODS);
    config.reflector.strategy = strategy;
    config
}

impl World {
    pub(super) fn new(strategy: ListStrategy) -> Self {
        World::with(config(strategy), 7)
    }

    pub(super) fn with(config: InformerConfig, seed: u64) -> Self {
        World {
            // Not zero: an absolute time must not be taken for a span.
            now: Time::from_millis(1_000_000),
            informer: Informer::new(config, seed),
            store: Store::new(seed),
            codec: Codec::new(PODS),
            listeners: BTreeMap::new(),
            log: Vec::new(),
            sent: VecDeque::new(),
            attempts: Vec::new(),
            pages: 0,
            current: None,
            last: None,
            cancelled: Vec::new(),
            failures: Vec::new(),
            told_failures: 0,
            paused: None,
            lazy: false,
            kept: VecDeque::new(),
            deadline: None,
        }
    }

    /// With objects of an earlier run, by name and version, and the version that they stand for.
    pub(super) fn preloaded(config: InformerConfig, seed: u64, objects: &[(&str, &str)], version: &str) -> Self {
        let objects: Vec<String> = objects.iter().map(|(name, version)| object(name, version)).collect();
        World::preloaded_with(config, seed, &objects, version)
    }

    /// The same, with the JSON of the objects.
    pub(super) fn preloaded_with(mut config: InformerConfig, seed: u64, objects: &[String], version: &str) -> Self {
        config.preloaded = Some(Version::new(version));
        let mut world = World::with(config, seed);
        let build = |json: &String| Obj::of(world.codec.build(json.as_bytes()).unwrap()).unwrap();
        let objects: Vec<_> = objects.iter().map(build).collect();
        world.store.preload(objects, Version::new(version));
        world
    }

    /// Started, and paged.
    pub(super) fn listing() -> Self {
        let mut world = World::new(ListStrategy::Paged);
        world.input(Input::Start);
        world
    }

    /// Has listed `a` at version 4, and stands at version 5 with a watch that was sent.
    pub(super) fn opening() -> Self {
        let mut world = World::listing();
        assert_eq!(world.request(), "/api/v1/pods?limit=500&resourceVersion=0");
        world.answer(200, &list("5", &[("a", "4")]));
        assert!(world.request().starts_with("/api/v1/pods?watch=true"));
        assert_eq!(world.phase(), Phase::Opening);
        world
    }

    /// The same, and the watch is open.
    pub(super) fn watching() -> Self {
        let mut world = World::opening();
        world.head(200);
        assert_eq!(world.phase(), Phase::Watching);
        world
    }

    /// Started, with a streaming list that was sent; `Auto`.
    pub(super) fn streaming() -> Self {
        let mut world = World::new(ListStrategy::Auto);
        world.input(Input::Start);
        assert_eq!(world.stream_version().as_deref(), Some(""));
        assert_eq!(world.phase(), Phase::Streaming);
        world
    }

    pub(super) fn input(&mut self, input: Input<'_, DynamicObject>) {
        self.informer.handle(self.now, input);
        self.drain();
    }

    fn drain(&mut self) {
        loop {
            match self.informer.poll_output() {
                Output::Send(request) => {
                    assert!(self.current.is_none(), "one request at a time (I27)");
                    self.log.push(format!("send {} {} {:?}", request.id, request.target(), request.accept_encoding));
                    self.current = Some(request.id);
                    if request.query_value("continue").is_some() {
                        self.pages += 1;
                    } else {
                        self.attempts.push(self.now);
                    }
                    self.last = Some(request.clone());
                    self.sent.push_back(request);
                }
                Output::Cancel(id) => {
                    assert_eq!(self.current.take(), Some(id), "only the request in flight is cancelled");
                    self.log.push(format!("cancel {id}"));
                    self.cancelled.push(id.0);
                    self.paused = self.paused.filter(|paused| *paused != id);
                }
                Output::Pause(id) => {
                    self.log.push(format!("pause {id}"));
                    assert!(
                        self.paused.replace(id).is_none() && self.current == Some(id),
                        "paused once, while it runs"
                    );
                }
                Output::Resume(id) => {
                    self.log.push(format!("resume {id}"));
                    assert_eq!(self.paused.take(), Some(id));
                }
                Output::Decode(job) => {
                    self.log.push(format!("decode {} items", job.len()));
                    self.effect(Effect::Decode(job));
                }
                Output::Commit(commit) => {
                    self.log.push(format!("commit, list {}", commit.is_list()));
                    self.effect(Effect::Commit(commit));
                }
                Output::Attach(id) => {
                    self.log.push(format!("attach {id:?}"));
                    let listener = self.listeners.get_mut(&id.0).expect("it was added");
                    listener.attached = true;
                    listener.ring.replay(self.store.snapshot());
                }
                Output::Begin(id) => {
                    self.log.push(format!("begin {id:?}"));
                    let listener = self.listeners.get_mut(&id.0).expect("it was added");
                    listener.attached = true;
                    listener.ring.begin(self.store.snapshot());
                }
                Output::Complete(id) => {
                    self.log.push(format!("complete {id:?}"));
                    self.listeners.get_mut(&id.0).expect("its ring was begun").ring.complete();
                }
                Output::Detach(id) => {
                    self.log.push(format!("detach {id:?}"));
                    self.listeners.remove(&id.0).expect("it was added");
                }
                Output::Resync(id) => {
                    self.log.push(format!("resync {id:?}"));
                    self.listeners.get_mut(&id.0).expect("it is attached").ring.resync(self.store.snapshot());
                }
                Output::Unwanted(_) => {}
                Output::Notice(notice) => {
                    self.log.push(format!("{notice:?}"));
                    if let Notice::Failure(failure) = notice {
                        self.failures.push(failure);
                    }
                }
                Output::Wait(deadline) => {
                    if let Some(deadline) = deadline {
                        assert!(deadline.at > self.now, "a deadline is later than now: {deadline:?}");
                    }
                    self.deadline = deadline;
                    self.log.push(format!("wait {deadline:?}"));
                    break;
                }
                #[allow(unreachable_patterns)] // from inside of the crate
                _ => panic!("an output that this harness does not know"),
            }
        }
    }

    fn effect(&mut self, effect: Effect) {
        if self.lazy {
            assert!(self.kept.is_empty(), "one effect at a time");
            self.kept.push_back(effect);
        } else {
            self.carry_out(effect);
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Decode(mut job) => {
                job.probe(&self.store);
                let decoded = job.decode(&self.codec, &self.store.indexers(), &NoGuard);
                self.informer.handle(self.now, Input::Decoded(decoded));
            }
            Effect::Commit(commit) => {
                let mut done = self.store.commit(commit);
                for notification in done.notifications.drain(..) {
                    for listener in self.listeners.values_mut().filter(|listener| listener.attached) {
                        listener.ring.push(notification.clone());
                    }
                }
                self.informer.handle(self.now, Input::Committed(done.into_receipt()));
            }
        }
    }

    /// Carries out one effect that was kept. False if there was none.
    pub(super) fn work(&mut self) -> bool {
        let Some(effect) = self.kept.pop_front() else { return false };
        self.carry_out(effect);
        self.drain();
        true
    }

    pub(super) fn has_kept(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Lets `millis` pass and says so.
    pub(super) fn pass(&mut self, millis: u64) {
        self.now = self.now + Duration::from_millis(millis);
        self.input(Input::Tick);
    }

    /// Sleeps until the deadline, which is `millis` away and is called `why`, and one nanosecond less does nothing.
    pub(super) fn sleep(&mut self, millis: u64, why: &str) {
        let deadline = self.deadline.expect("there is a deadline");
        let want = self.now + Duration::from_millis(millis);
        assert_eq!((deadline.at, deadline.why), (want, why), "from {:?}", self.now);
        let lines = self.log.len();
        self.now = Time::from_nanos(want.as_nanos() - 1);
        self.input(Input::Tick);
        assert_eq!(self.log[lines..], [format!("wait {:?}", Some(deadline))], "a tick too early changes nothing");
        self.now = want;
        self.input(Input::Tick);
    }

    /// Sleeps through a backoff whose step is `step` milliseconds: the wait is in [step, 2·step).
    pub(super) fn back_off(&mut self, step: u64) {
        self.back_off_in(step, 2 * step);
    }

    /// Sleeps through a backoff of [low, high) milliseconds; the failure that was reported last has named it.
    pub(super) fn back_off_in(&mut self, low: u64, high: u64) {
        assert_eq!(self.phase(), Phase::Backoff);
        let deadline = self.deadline.expect("there is a deadline");
        let wait = deadline.at.since(self.now);
        assert_eq!(deadline.why, "backoff");
        assert_eq!(self.failure().retry_in, Some(wait), "the failure says when the next request goes out");
        let (low, high) = (Duration::from_millis(low), Duration::from_millis(high));
        assert!((low..high).contains(&wait), "{wait:?} is not in [{low:?}, {high:?})");
        assert!(self.current.is_none(), "no request in a backoff");
        self.now = deadline.at;
        self.input(Input::Tick);
    }

    pub(super) fn failure(&self) -> &Failure {
        self.failures.last().expect("a failure was reported")
    }

    /// Code and reason of the failures since the last call.
    pub(super) fn reasons(&mut self) -> Vec<String> {
        let news = &self.failures[self.told_failures..];
        self.told_failures = self.failures.len();
        news.iter().map(|f| format!("{} {} {}", f.phase_name(), f.code, f.reason)).collect()
    }

    /// The last request that no one has looked at.
    pub(super) fn sent(&mut self) -> Request {
        let request = self.sent.pop_back().expect("a request was sent");
        self.sent.clear();
        request
    }

    /// Its target.
    pub(super) fn request(&mut self) -> String {
        self.sent().target()
    }

    /// The version that the watch which was just sent goes on from.
    pub(super) fn watch_version(&mut self) -> String {
        let request = self.sent();
        assert_eq!(request.query_value("watch"), Some("true"), "{}", request.target());
        assert_eq!(request.query_value("sendInitialEvents"), None, "{}", request.target());
        request.query_value("resourceVersion").expect("a watch names its version").to_string()
    }

    /// The version that the streaming list which was just sent asks for; `None` if it is a list.
    pub(super) fn stream_version(&mut self) -> Option<String> {
        let request = self.sent();
        request.query_value("sendInitialEvents")?;
        assert_eq!(request.query_value("resourceVersionMatch"), Some("NotOlderThan"));
        request.query_value("resourceVersion").map(ToString::to_string)
    }

    pub(super) fn has_sent(&self) -> bool {
        !self.sent.is_empty()
    }

    pub(super) fn id(&self) -> RequestId {
        self.current.expect("a request is in flight")
    }

    pub(super) fn connected(&mut self) {
        let id = self.id();
        self.input(Input::Connected { id });
    }

    pub(super) fn head(&mut self, status: u16) {
        self.head_with(&Head::new(status));
    }

    pub(super) fn head_with(&mut self, head: &Head) {
        let id = self.id();
        self.input(Input::Head { id, head });
    }

    pub(super) fn body(&mut self, text: &str) {
        let id = self.id();
        self.input(Input::Body { id, bytes: text.as_bytes() });
    }

    pub(super) fn end(&mut self, end: &End) {
        let id = self.current.take().expect("a request is in flight");
        self.paused = None;
        self.input(Input::End { id, end });
    }

    pub(super) fn close(&mut self) {
        self.end(&End::Closed);
    }

    pub(super) fn broken(&mut self) {
        self.end(&End::Broken("connection reset by peer".into()));
    }

    pub(super) fn refused(&mut self) {
        self.end(&End::Refused("connection refused".into()));
    }

    /// Answers the request in flight, whole. What ends itself within the body has no end.
    pub(super) fn answer(&mut self, status: u16, body: &str) {
        let id = self.id();
        self.head(status);
        if self.current == Some(id) && !body.is_empty() {
            self.body(body);
        }
        if self.current == Some(id) {
            self.close();
        }
    }

    /// Answers with a failure that asks for a wait.
    pub(super) fn answer_later(&mut self, status: u16, retry_after: &str) {
        let mut head = Head::new(status);
        head.set("retry-after", retry_after);
        self.head_with(&head);
        self.close();
    }

    pub(super) fn phase(&self) -> Phase {
        self.informer.phase()
    }

    /// Something will happen, or nothing ever has to.
    pub(super) fn assert_alive(&self) {
        let waits = self.current.is_some() || self.deadline.is_some() || self.has_kept();
        assert!(waits, "a machine that is {} does nothing for ever", self.phase());
        assert!(self.paused.is_none() || self.has_kept(), "paused, with nothing left to decode");
        match self.phase() {
            Phase::Streaming | Phase::Opening | Phase::Watching => assert!(self.current.is_some()),
            Phase::Backoff | Phase::Idle | Phase::Stopped => assert!(self.current.is_none()),
            // In flight, or finished and on its way into the store.
            Phase::Listing => {}
            #[allow(unreachable_patterns)] // from inside of the crate
            other => panic!("a phase that this harness does not know: {other}"),
        }
    }

    /// I30: since `start` there were no more requests than the envelope of the waits allows, pages with a token apart.
    /// At the very worst the server is kept happy enough for no wait ever to grow. A refresh is a list at once.
    pub(super) fn assert_paced(&self, start: Time, refreshes: u64) {
        let sends = self.log.iter().filter(|line| line.starts_with("send") && !line.contains("continue=")).count();
        let most = AT_ONCE * (self.now.since(start).as_millis() as u64 / 800 + 1 + refreshes);
        assert!(sends as u64 <= most, "{sends} requests in {:?}", self.now.since(start));
    }

    pub(super) fn add_handler(&mut self, id: u64, resync: Option<Duration>) {
        self.add_handler_with(id, resync, Overflow::default());
    }

    pub(super) fn add_handler_with(&mut self, id: u64, resync: Option<Duration>, overflow: Overflow) {
        let (ring, view) = (Ring::new(overflow), BTreeMap::new());
        self.listeners.insert(id, Listener { ring, attached: false, view, synced: false, told: Vec::new() });
        self.input(Input::AddHandler { id: HandlerId(id), resync });
    }

    pub(super) fn remove_handler(&mut self, id: u64) {
        self.input(Input::RemoveHandler { id: HandlerId(id) });
    }

    /// Lets a handler take up to `most` deliveries. Panics if what it is told is no legal chain.
    pub(super) fn deliver(&mut self, id: u64, most: usize) {
        let listener = self.listeners.get_mut(&id).expect("it was added");
        for _ in 0..most {
            match listener.ring.pop() {
                None => return,
                Some(Delivery::Synced) => assert!(!core::mem::replace(&mut listener.synced, true), "synced twice"),
                Some(Delivery::Notification(notification)) => listener.see(&notification),
                #[allow(unreachable_patterns)] // from inside of the crate
                Some(_) => panic!("a delivery that this harness does not know"),
            }
        }
    }

    /// What a handler was told since the last call.
    pub(super) fn told(&mut self, id: u64) -> Vec<String> {
        self.deliver(id, usize::MAX);
        core::mem::take(&mut self.listeners.get_mut(&id).expect("it was added").told)
    }

    /// The store, as `key@version` in order.
    pub(super) fn stored(&self) -> Vec<String> {
        let mut all: Vec<_> = self.store.iter().map(|object| format!("{object:?}")).collect();
        all.sort();
        all
    }
}

impl Listener {
    fn see(&mut self, notification: &Notification<DynamicObject>) {
        let key = notification.key().to_string();
        let before = match notification {
            Notification::Added { object, .. } => self.view.insert(key, object.version().to_string()),
            Notification::Updated { new, .. } => self.view.insert(key, new.version().to_string()),
            Notification::Deleted { .. } => self.view.remove(&key),
            #[allow(unreachable_patterns)] // from inside of the crate
            other => panic!("a notification that this harness does not know: {other:?}"),
        };
        let old = notification.old().map(|old| old.version().to_string());
        assert_eq!(before, old, "{notification:?}: old is what the handler saw last (I12)");
        self.told.push(format!("{notification:?}"));
    }
}

/// `a` at a version, in the namespace `ns`.
pub(super) fn object(name: &str, version: &str) -> String {
    format!(r#"{{"metadata":{{"namespace":"ns","name":"{name}","uid":"u-{name}","resourceVersion":"{version}"}}}}"#)
}

pub(super) fn page(version: &str, token: &str, items: &[(&str, &str)]) -> String {
    let items: Vec<_> = items.iter().map(|(name, version)| object(name, version)).collect();
    let items = items.join(",");
    format!(
        r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}","continue":"{token}"}},"items":[{items}]}}"#
    )
}

pub(super) fn list(version: &str, items: &[(&str, &str)]) -> String {
    page(version, "", items)
}

pub(super) fn event(kind: &str, name: &str, version: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{}}}\n", object(name, version))
}

pub(super) fn bookmark(version: &str) -> String {
    format!("{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{{\"resourceVersion\":\"{version}\"}}}}}}\n")
}

pub(super) fn end_marker(version: &str) -> String {
    format!(
        "{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{{\"resourceVersion\":\"{version}\",\
         \"annotations\":{{\"k8s.io/initial-events-end\":\"true\"}}}}}}}}\n"
    )
}

pub(super) fn status(code: u16, reason: &str) -> String {
    format!(r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"{reason}","code":{code}}}"#)
}

pub(super) fn too_large() -> String {
    r#"{"kind":"Status","status":"Failure","reason":"Timeout","message":"Too large resource version: 9, current: 5",
        "details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}]},"code":504}"#
        .into()
}

pub(super) fn error_event(code: u16, reason: &str) -> String {
    format!("{{\"type\":\"ERROR\",\"object\":{}}}\n", status(code, reason))
}
