//! One scenario: the scripted server on a loopback port, and a `watcher` with its defaults in front of it.
//!
//! What kube-runtime has is a stream of events and a store, so that is what is translated, to its advantage where there
//! is a choice: what an initial list holds counts as told when the list is complete (as its documentation advises its
//! users to take it), and the version that it would resume from is asked of it when the run is over, by cutting its
//! watch and looking at what it asks for next. What it does not tell is not made up: after a relist it names no
//! deletion. A panic of its store ends the run, as it ends a program's task.

use futures_util::{Stream, StreamExt};
use informer_conformance::loopback::Loopback;
use informer_conformance::outcome::{Cause, Change, ErrorEntry, ErrorPhase, Event, Outcome, Phase, Store, What};
use informer_conformance::recorded::Peer;
use informer_conformance::scenario::{IndexName, ListStrategy, Scenario, Verb};
use informer_conformance::script::Script;
use kube::client::{Body, ClientBuilder};
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store as Reader};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Config, ResourceExt};
use std::collections::BTreeMap;
use std::error::Error;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout_at};
use tower::BoxError;
use tower::filter::FilterLayer;
use tower::util::MapResponseLayer;

/// How long to wait, after the run, for what it asks for next: longer than the first two steps of its backoff.
const NEXT_REQUEST: Duration = Duration::from_secs(6);

/// Longest text of an error, in characters: some hold all that was received.
const MESSAGE: usize = 200;

/// What went over the wire, as far as an outcome needs it.
struct Wire {
    /// None when the run is over: no request goes out any more.
    server: Option<Loopback>,
    phase: Phase,
    /// The version that the last watch named, and those of the events since.
    version: String,
    /// Requests that were made, the ones after the run included.
    requests: u64,
}

type Shared = Arc<Mutex<Wire>>;

fn lock(wire: &Shared) -> MutexGuard<'_, Wire> {
    wire.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wire {
    /// A request before it goes out.
    fn request(&mut self, request: &http::Request<Body>) -> Result<(), BoxError> {
        self.requests += 1;
        let query: Vec<_> = informer_core::wire::query_pairs(request.uri().query().unwrap_or("")).collect();
        let value = |name: &str| query.iter().find(|(other, _)| other == name).map_or("", |(_, value)| value);
        self.phase = match (Verb::of(&query), value("sendInitialEvents")) {
            (Verb::List, _) => Phase::Listing,
            (Verb::Watch, "true") => Phase::Streaming,
            (Verb::Watch, _) => {
                value("resourceVersion").clone_into(&mut self.version);
                Phase::Opening
            }
        };
        let headers: Vec<_> = request
            .headers()
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect();
        let server = self.server.as_ref().ok_or("the run is over")?;
        Ok(server.gate(request.uri().path(), &query, &headers)?)
    }

    /// The head of an answer.
    fn head(&mut self, success: bool) {
        if success && self.phase == Phase::Opening {
            self.phase = Phase::Watching;
        }
    }
}

/// Plays `scenario` from its start to its `runForMs`.
///
/// # Panics
/// If there is no loopback port.
pub(crate) async fn play(scenario: &Scenario) -> Outcome {
    let epoch = Instant::now();
    let server = Loopback::start(Script::new(&scenario.server), epoch).expect("a loopback port");
    let addr = server.addr();
    let wire: Shared =
        Arc::new(Mutex::new(Wire { server: Some(server), phase: Phase::Idle, version: String::new(), requests: 0 }));
    let resource = resource(scenario);
    let client = client(&format!("http://{addr}"), &wire);
    let api: Api<DynamicObject> = match &scenario.informer.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    let mut stream = Box::pin(watcher(api, config(scenario)).default_backoff());
    let writer = Writer::new(resource.clone());
    let mut watched = Watched {
        epoch,
        wire: Arc::clone(&wire),
        reader: writer.as_reader(),
        writer,
        resource,
        initial: Vec::new(),
        places: BTreeMap::new(),
        in_initial: true,
        complete: false,
        events: Vec::new(),
        errors: Vec::new(),
    };

    let stop_at = scenario.stop_at_ms().filter(|at| *at <= scenario.run_for_ms);
    let end = epoch + Duration::from_millis(stop_at.unwrap_or(scenario.run_for_ms));
    let stall = Duration::from_millis(scenario.handlers.iter().map(|handler| handler.stall_ms).max().unwrap_or(0));
    let alive = watched.follow(&mut stream, stall, end).await;

    let mut outcome = Outcome::new(&scenario.name, Peer::KubeRs.name());
    if stop_at.is_some() || !alive {
        // Its way to stop, and what a panic does: nobody polls it any more, and the client goes with it.
        drop(stream);
        outcome.stopped_at_ms = alive.then(|| watched.at_ms());
        let end = epoch + Duration::from_millis(scenario.run_for_ms);
        sleep(end.saturating_duration_since(Instant::now())).await;
        outcome.store.resource_version.clone_from(&lock(&wire).version);
        outcome.phase = Phase::Stopped;
        outcome.requests = over(&wire).await;
    } else {
        outcome.phase = lock(&wire).phase;
        outcome.store.resource_version.clone_from(&lock(&wire).version);
        let seen = lock(&wire).requests;
        outcome.requests = over(&wire).await;
        if let Some(version) = next_version(&mut stream, &wire, seen).await {
            outcome.store.resource_version = version;
        }
    }
    outcome.errors = watched.errors;
    for handler in &scenario.handlers {
        outcome.handlers.insert(handler.name.clone(), watched.events.clone());
    }
    fill(&mut outcome.store, scenario, &watched.reader);
    outcome
}

fn resource(scenario: &Scenario) -> ApiResource {
    let of = &scenario.resource;
    let api_version = if of.group.is_empty() { of.version.clone() } else { format!("{}/{}", of.group, of.version) };
    ApiResource {
        group: of.group.clone(),
        version: of.version.clone(),
        api_version,
        kind: of.kind.clone(),
        plural: of.resource.clone(),
    }
}

/// A client with its defaults, but for the retries inside of it: they would answer in the watcher's place.
fn client(url: &str, wire: &Shared) -> Client {
    let mut config = Config::new(url.parse().expect("a URL"));
    config.default_retry = false;
    let (asked, answered) = (Arc::clone(wire), Arc::clone(wire));
    ClientBuilder::try_from(config)
        .expect("a plain URL needs nothing")
        .with_layer(&FilterLayer::new(move |request: http::Request<Body>| {
            lock(&asked).request(&request)?;
            Ok::<_, BoxError>(request)
        }))
        .with_layer(&MapResponseLayer::new(move |response: http::Response<_>| {
            lock(&answered).head(response.status().is_success());
            response
        }))
        .build()
}

fn config(scenario: &Scenario) -> watcher::Config {
    let of = &scenario.informer;
    let mut config = watcher::Config {
        label_selector: of.label_selector.clone(),
        field_selector: of.field_selector.clone(),
        page_size: u32::try_from(of.page_size).ok().filter(|size| *size > 0),
        ..watcher::Config::default()
    };
    // It knows one timeout where a scenario has a range; beyond its default it refuses.
    if of.min_watch_timeout_ms < 290_000 {
        config.timeout = u32::try_from(of.min_watch_timeout_ms / 1000).ok();
    }
    if of.list_strategy == ListStrategy::Paged { config } else { config.streaming_lists() }
}

/// Ends the run on the wire, and returns its requests.
async fn over(wire: &Shared) -> Vec<informer_conformance::outcome::Request> {
    let server = lock(wire).server.take();
    let Some(server) = server else { return Vec::new() };
    let requests = server.requests();
    // It waits for its threads.
    let stopped = tokio::task::spawn_blocking(move || drop(server.stop())).await;
    stopped.expect("the server stops");
    requests
}

/// The version that its next watch names, if a watch that resumes is what comes next.
async fn next_version(
    stream: &mut (impl Stream<Item = watcher::Result<watcher::Event<DynamicObject>>> + Unpin),
    wire: &Shared,
    seen: u64,
) -> Option<String> {
    let end = Instant::now() + NEXT_REQUEST;
    while lock(wire).requests == seen {
        timeout_at(end.into(), stream.next()).await.ok()?;
    }
    let wire = lock(wire);
    (wire.phase == Phase::Opening).then(|| wire.version.clone())
}

/// What was seen of the stream so far.
struct Watched {
    epoch: Instant,
    wire: Shared,
    writer: Writer<DynamicObject>,
    reader: Reader<DynamicObject>,
    resource: ApiResource,
    /// The initial list that runs: each object once, in its last state, as the store takes them.
    initial: Vec<DynamicObject>,
    /// Where each key stands in it.
    places: BTreeMap<String, usize>,
    /// True up to the end of an initial list.
    in_initial: bool,
    /// True once an initial list was complete.
    complete: bool,
    events: Vec<Event>,
    errors: Vec<ErrorEntry>,
}

impl Watched {
    fn at_ms(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Takes what the stream gives until `end`; each object keeps the consumer for `stall`. False if it ended earlier,
    /// in a panic.
    async fn follow(
        &mut self,
        stream: &mut (impl Stream<Item = watcher::Result<watcher::Event<DynamicObject>>> + Unpin),
        stall: Duration,
        end: Instant,
    ) -> bool {
        while let Ok(Some(item)) = timeout_at(end.into(), stream.next()).await {
            let told = self.events.len();
            match item {
                Ok(event) if self.event(&event) => {}
                Ok(_) => return false,
                Err(error) => self.error(&error),
            }
            if self.events.len() > told && !stall.is_zero() {
                // As a loop that handles one event after the other would.
                let calls = u32::try_from(self.events.len() - told).unwrap_or(u32::MAX);
                let until = Instant::now() + stall.saturating_mul(calls);
                sleep(until.min(end).saturating_duration_since(Instant::now())).await;
            }
        }
        true
    }

    /// Takes an event, into the store first, as `reflector` does; false if the store panics.
    fn event(&mut self, event: &watcher::Event<DynamicObject>) -> bool {
        let told: Vec<What> = match event {
            watcher::Event::Init | watcher::Event::InitApply(_) => Vec::new(),
            watcher::Event::InitDone => {
                let cause = if self.complete { Cause::Relist } else { Cause::List };
                self.initial.iter().map(|object| self.there(object, cause)).collect()
            }
            watcher::Event::Apply(object) => vec![self.there(object, Cause::Watch)],
            watcher::Event::Delete(object) => vec![What::Delete(self.change(object, Cause::Watch))],
        };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.writer.apply_watcher_event(event))) {
            let said = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            let message = format!("the store panicked: {}", said.unwrap_or("without a text"));
            let phase = match (self.in_initial, lock(&self.wire).phase) {
                (true, Phase::Streaming) => ErrorPhase::Streaming,
                (true, _) => ErrorPhase::List,
                (false, _) => ErrorPhase::Watch,
            };
            self.failed(phase, 0, "Panicked", &message);
            return false;
        }
        for what in told {
            self.push(what);
        }
        match event {
            watcher::Event::Init => {
                self.initial.clear();
                self.places.clear();
                self.in_initial = true;
            }
            watcher::Event::InitApply(object) => {
                let place = *self.places.entry(key(object)).or_insert(self.initial.len());
                if place < self.initial.len() {
                    self.initial[place] = object.clone();
                } else {
                    self.initial.push(object.clone());
                }
            }
            watcher::Event::InitDone => {
                self.initial.clear();
                self.in_initial = false;
                let mut wire = lock(&self.wire);
                if wire.phase == Phase::Streaming {
                    wire.phase = Phase::Watching;
                }
                drop(wire);
                if !std::mem::replace(&mut self.complete, true) {
                    self.push(What::Synced);
                }
            }
            watcher::Event::Apply(object) | watcher::Event::Delete(object) => {
                lock(&self.wire).version = object.resource_version().unwrap_or_default();
            }
        }
        true
    }

    /// An object that is there: new, or another state of what the store has.
    fn there(&self, object: &DynamicObject, cause: Cause) -> What {
        let change = self.change(object, cause);
        if change.old_resource_version.is_none() { What::Add(change) } else { What::Update(change) }
    }

    fn change(&self, object: &DynamicObject, cause: Cause) -> Change {
        // Without a name nothing can be looked up: it panics.
        let named = object.metadata.name.as_ref();
        let old = named.and_then(|_| self.reader.get(&ObjectRef::from_obj_with(object, self.resource.clone())));
        Change {
            key: key(object),
            uid: object.uid().unwrap_or_default(),
            resource_version: object.resource_version().unwrap_or_default(),
            initial: old.is_none() && cause == Cause::List,
            old_resource_version: old.map(|old| old.resource_version().unwrap_or_default()),
            cause,
            final_state_known: true,
        }
    }

    fn push(&mut self, what: What) {
        let at_ms = self.at_ms();
        self.events.push(Event { at_ms, what });
    }

    fn error(&mut self, error: &watcher::Error) {
        let streaming = lock(&self.wire).phase == Phase::Streaming;
        let phase = match error {
            watcher::Error::InitialListFailed(_) => ErrorPhase::List,
            _ if streaming => ErrorPhase::Streaming,
            watcher::Error::NoResourceVersion if self.in_initial => ErrorPhase::List,
            watcher::Error::NoResourceVersion
            | watcher::Error::WatchStartFailed(_)
            | watcher::Error::WatchError(_)
            | watcher::Error::WatchFailed(_) => ErrorPhase::Watch,
        };
        let (code, reason, message) = match error {
            watcher::Error::WatchError(status) => (status.code, status.reason.clone(), status.message.clone()),
            watcher::Error::InitialListFailed(kube::Error::Api(status))
            | watcher::Error::WatchStartFailed(kube::Error::Api(status))
            | watcher::Error::WatchFailed(kube::Error::Api(status)) => {
                (status.code, status.reason.clone(), status.message.clone())
            }
            watcher::Error::InitialListFailed(_)
            | watcher::Error::WatchStartFailed(_)
            | watcher::Error::WatchFailed(_)
            | watcher::Error::NoResourceVersion => (0, kind(error).to_owned(), chain(error)),
        };
        self.failed(phase, code, &reason, &message);
        lock(&self.wire).phase = Phase::Backoff;
    }

    fn failed(&mut self, phase: ErrorPhase, code: u16, reason: &str, message: &str) {
        let at_ms = self.at_ms();
        let message = message.chars().take(MESSAGE).collect();
        self.errors.push(ErrorEntry { at_ms, phase, code, reason: reason.to_owned(), message });
    }
}

/// What an outcome calls a failure without a status; empty if it has no name for it.
fn kind(error: &watcher::Error) -> &'static str {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = next {
        if error.is::<serde_json::Error>() {
            return "Undecodable";
        }
        let is =
            |kinds: &[ErrorKind]| error.downcast_ref::<std::io::Error>().is_some_and(|io| kinds.contains(&io.kind()));
        if is(&[ErrorKind::ConnectionRefused]) {
            return "ConnectionRefused";
        }
        if is(&[ErrorKind::ConnectionReset, ErrorKind::UnexpectedEof]) {
            return "ConnectionReset";
        }
        if is(&[ErrorKind::TimedOut]) {
            return "DeadlineExceeded";
        }
        next = error.source();
    }
    ""
}

/// An error and its causes.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let cause = error.to_string();
        if !text.ends_with(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
        next = error.source();
    }
    text
}

fn key(object: &DynamicObject) -> String {
    match object.namespace() {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    }
}

/// What the store holds, and those of its indexes that the scenario names: kube-runtime has none, they are computed.
fn fill(store: &mut Store, scenario: &Scenario, reader: &Reader<DynamicObject>) {
    let mut spaces: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for object in reader.state() {
        store.objects.insert(key(&object), object.resource_version().unwrap_or_default());
        spaces.entry(object.namespace().unwrap_or_default()).or_default().push(key(&object));
    }
    for keys in spaces.values_mut() {
        keys.sort();
    }
    if scenario.informer.indexes.contains(&IndexName::Namespace) {
        store.indexes.insert("namespace".into(), spaces);
    }
}
