//! One scenario: a client in front of the scripted server, a watcher, a store, and what the handlers saw.

use crate::convert;
use futures_util::{Stream, StreamExt};
use informer_conformance::loopback::Loopback;
use informer_conformance::outcome::{Cause, Change, ErrorEntry, ErrorPhase, Event, Phase, Request, What};
use informer_conformance::scenario::{Action, HandlerSpec, ListStrategy, Scenario};
use kube::client::ClientBuilder;
use kube::config::AuthInfo;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::{self, ListSemantic};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Client, ResourceExt};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep_until;
use tower::BoxError;
use tower::filter::FilterLayer;

/// What was seen until `runForMs`.
pub(crate) struct Seen {
    pub(crate) phase: Phase,
    pub(crate) stopped_at_ms: Option<u64>,
    pub(crate) requests: Vec<Request>,
    pub(crate) handlers: BTreeMap<String, Vec<Event>>,
    pub(crate) errors: Vec<ErrorEntry>,
    pub(crate) objects: BTreeMap<String, String>,
}

/// A token file, as a kubelet writes one; it is removed at the end.
struct TokenFile(PathBuf);

impl TokenFile {
    fn new(scenario: &str, token: &str) -> Result<Self, String> {
        let file = TokenFile(std::env::temp_dir().join(format!("kube-rs-token-{}-{scenario}", std::process::id())));
        file.set(token).map(|()| file)
    }

    fn set(&self, token: &str) -> Result<(), String> {
        std::fs::write(&self.0, token).map_err(|error| format!("cannot write {}: {error}", self.0.display()))
    }
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        // A file in the system's temporary folder that cannot be removed harms nobody.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Plays a scenario to its end.
pub(crate) async fn run(scenario: &Scenario, loopback: Arc<Loopback>, epoch: Instant) -> Result<Seen, String> {
    let token = scenario.first_token().map(|token| TokenFile::new(&scenario.name, token)).transpose()?;
    let (api, resource) = api(scenario, &loopback, token.as_ref())?;
    let mut stream = Some(Box::pin(watch(api, config(scenario)).default_backoff()));
    let mut player = Player::new(scenario, resource, epoch);
    let mut commands = scenario.commands.iter().collect::<Vec<_>>();
    commands.sort_by_key(|command| command.at_ms);
    let mut commands = commands.into_iter().peekable();
    let mut paused = false;
    loop {
        let due = commands.peek().map_or(scenario.run_for_ms, |command| command.at_ms.min(scenario.run_for_ms));
        let until = tokio::time::Instant::from_std(epoch + Duration::from_millis(due));
        let item = match stream.as_mut().filter(|_| !paused) {
            Some(stream) => next(stream, until).await,
            None => {
                sleep_until(until).await;
                None
            }
        };
        if let Some(item) = item {
            if let Err(panic) = player.take(item).await {
                // It takes the task that polls the stream with it.
                player.panicked(panic);
                stream = None;
            }
        } else if due == scenario.run_for_ms {
            break;
        } else if let Some(command) = commands.next() {
            match &command.what {
                Action::Stop => {
                    stream = None;
                    player.stopped();
                }
                Action::Pause => paused = true,
                Action::Resume => paused = false,
                Action::SetToken(text) => {
                    if let Some(file) = &token {
                        file.set(text)?;
                    }
                }
                other => return Err(format!("kube-rs has no word for the command {other:?}")),
            }
        }
    }
    // What comes now is not part of the outcome.
    let requests = loopback.requests();
    drop(stream);
    Ok(player.seen(requests))
}

/// The next item, or nothing when the time is over.
async fn next<S: Stream + Unpin>(stream: &mut S, until: tokio::time::Instant) -> Option<S::Item> {
    let mut over = pin!(sleep_until(until));
    let mut item = stream.next();
    std::future::poll_fn(|cx| {
        if over.as_mut().poll(cx).is_ready() {
            return std::task::Poll::Ready(None);
        }
        std::pin::Pin::new(&mut item).poll(cx)
    })
    .await
}

/// A client whose connections can be refused by the script, and the collection.
fn api(
    scenario: &Scenario,
    loopback: &Arc<Loopback>,
    token: Option<&TokenFile>,
) -> Result<(Api<DynamicObject>, ApiResource), String> {
    let url = format!("http://{}", loopback.addr());
    let mut config = kube::Config::new(url.parse().map_err(|error| format!("{url}: {error}"))?);
    if let Some(token) = token {
        config.auth_info = AuthInfo { token_file: Some(token.0.display().to_string()), ..AuthInfo::default() };
    }
    let gate = Arc::clone(loopback);
    let ask = move |request: http::Request<kube::client::Body>| -> Result<_, BoxError> {
        let pairs = request.uri().query().unwrap_or("").split('&').filter(|pair| !pair.is_empty());
        let query: Vec<_> = pairs
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .map(|(name, value)| (plain(name), plain(value)))
            .collect();
        let headers: Vec<_> = request
            .headers()
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect();
        gate.gate(request.uri().path(), &query, &headers)?;
        Ok(request)
    };
    let builder = ClientBuilder::try_from(config).map_err(|error| error.to_string())?;
    let client: Client = builder.with_layer(&FilterLayer::new(ask)).build();
    let spec = &scenario.resource;
    let kind = GroupVersionKind::gvk(&spec.group, &spec.version, &spec.kind);
    let resource = ApiResource::from_gvk_with_plural(&kind, &spec.resource);
    let api = match &scenario.informer.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    Ok((api, resource))
}

/// Undoes percent encoding.
fn plain(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    let digit = |rest: &mut std::str::Bytes<'_>| rest.next().and_then(|byte| char::from(byte).to_digit(16));
    while let Some(byte) = rest.next() {
        let code = if byte == b'%' { digit(&mut rest).zip(digit(&mut rest)) } else { None };
        bytes.push(code.and_then(|(high, low)| u8::try_from(high * 16 + low).ok()).unwrap_or(byte));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn config(scenario: &Scenario) -> watcher::Config {
    let spec = &scenario.informer;
    let mut config = watcher::Config {
        label_selector: spec.label_selector.clone(),
        field_selector: spec.field_selector.clone(),
        // It sends whole seconds, and below 295 of them.
        timeout: u32::try_from(spec.min_watch_timeout_ms / 1000).ok().filter(|seconds| (1..295).contains(seconds)),
        page_size: u32::try_from(spec.page_size).ok().filter(|size| *size > 0),
        list_semantic: ListSemantic::MostRecent,
        ..watcher::Config::default()
    };
    if streams(spec.list_strategy) {
        config = config.streaming_lists();
    }
    config
}

fn streams(strategy: ListStrategy) -> bool {
    strategy != ListStrategy::Paged
}

struct Player<'a> {
    scenario: &'a Scenario,
    epoch: Instant,
    writer: Writer<DynamicObject>,
    resource: ApiResource,
    listing: ErrorPhase,
    /// Keys of the list that is being read.
    listed: BTreeSet<String>,
    lists: usize,
    /// The version that was told last of each key: to all handlers alike, as kube-rs has one stream.
    told: BTreeMap<String, String>,
    events: Vec<Event>,
    errors: Vec<ErrorEntry>,
    phase: Phase,
    stopped_at_ms: Option<u64>,
}

impl<'a> Player<'a> {
    fn new(scenario: &'a Scenario, resource: ApiResource, epoch: Instant) -> Self {
        let streaming = streams(scenario.informer.list_strategy);
        let (listing, phase) =
            if streaming { (ErrorPhase::Streaming, Phase::Streaming) } else { (ErrorPhase::List, Phase::Listing) };
        Player {
            scenario,
            epoch,
            writer: Writer::new(resource.clone()),
            resource,
            listing,
            listed: BTreeSet::new(),
            lists: 0,
            told: BTreeMap::new(),
            events: Vec::new(),
            errors: Vec::new(),
            phase,
            stopped_at_ms: None,
        }
    }

    fn at_ms(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The handlers that are there from the start: the stream has no replay for a later one.
    fn handlers(&self) -> impl Iterator<Item = &'a HandlerSpec> + use<'a> {
        self.scenario.handlers.iter().filter(|spec| spec.add_at_ms == 0)
    }

    /// One item of the watcher: into the store first, then to the handlers.
    ///
    /// # Errors
    ///
    /// The text of a panic of the store: it wants each object to have a name.
    async fn take(&mut self, item: Result<watcher::Event<DynamicObject>, watcher::Error>) -> Result<(), String> {
        let event = match item {
            Ok(event) => event,
            Err(error) => {
                self.errors.push(convert::error(self.at_ms(), self.listing, &error));
                self.phase = Phase::Backoff;
                return Ok(());
            }
        };
        let what = catch_unwind(AssertUnwindSafe(|| self.apply(&event))).map_err(|panic| text(&*panic))?;
        if let Some(what) = what {
            self.events.push(Event { at_ms: self.at_ms(), what });
            // One stream: a handler that sleeps holds it up.
            let stall = self.handlers().map(|spec| spec.stall_ms).sum();
            tokio::time::sleep(Duration::from_millis(stall)).await;
        }
        Ok(())
    }

    /// Gives an event to the store, and says what the handlers are told.
    fn apply(&mut self, event: &watcher::Event<DynamicObject>) -> Option<What> {
        let what = match event {
            watcher::Event::Init => {
                self.listed.clear();
                self.phase = if self.listing == ErrorPhase::Streaming { Phase::Streaming } else { Phase::Listing };
                None
            }
            watcher::Event::InitApply(object) => {
                let key = convert::key(object);
                let had = self.had(object) || self.listed.contains(&key);
                self.listed.insert(key);
                let cause = if self.lists == 0 { Cause::List } else { Cause::Relist };
                Some(self.applied(object, had, cause))
            }
            watcher::Event::InitDone => {
                self.lists += 1;
                self.phase = Phase::Watching;
                (self.lists == 1).then_some(What::Synced)
            }
            watcher::Event::Apply(object) => {
                self.phase = Phase::Watching;
                Some(self.applied(object, self.had(object), Cause::Watch))
            }
            watcher::Event::Delete(object) => {
                self.phase = Phase::Watching;
                let old = self.told.remove(&convert::key(object));
                Some(What::Delete(change(object, old, Cause::Watch, false)))
            }
        };
        self.writer.apply_watcher_event(event);
        what
    }

    fn had(&self, object: &DynamicObject) -> bool {
        let key = ObjectRef::from_obj_with(object, self.resource.clone());
        self.writer.as_reader().get(&key).is_some()
    }

    fn applied(&mut self, object: &DynamicObject, had: bool, cause: Cause) -> What {
        let version = object.resource_version().unwrap_or_default();
        let old = self.told.insert(convert::key(object), version);
        match had {
            true => What::Update(change(object, old, cause, false)),
            false => What::Add(change(object, None, cause, self.lists == 0)),
        }
    }

    fn panicked(&mut self, message: String) {
        let (at_ms, phase) = (self.at_ms(), self.listing);
        self.errors.push(ErrorEntry { at_ms, phase, code: 0, reason: "Panicked".to_owned(), message });
        self.phase = Phase::Stopped;
    }

    fn stopped(&mut self) {
        self.phase = Phase::Stopped;
        self.stopped_at_ms = Some(self.at_ms());
    }

    fn seen(self, requests: Vec<Request>) -> Seen {
        let mut handlers: BTreeMap<String, Vec<Event>> =
            self.scenario.handlers.iter().map(|spec| (spec.name.clone(), Vec::new())).collect();
        for spec in self.handlers() {
            let until = spec.remove_at_ms.unwrap_or(u64::MAX);
            let told = self.events.iter().filter(|event| event.at_ms < until).cloned().collect();
            handlers.insert(spec.name.clone(), told);
        }
        let state = self.writer.as_reader().state();
        let objects = state.iter().map(|object| (convert::key(object), object.resource_version().unwrap_or_default()));
        Seen {
            phase: self.phase,
            stopped_at_ms: self.stopped_at_ms,
            requests,
            handlers,
            errors: self.errors,
            objects: objects.collect(),
        }
    }
}

fn text(panic: &(dyn Any + Send)) -> String {
    let known = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    known.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a text".to_owned())
}

fn change(object: &DynamicObject, old: Option<String>, cause: Cause, initial: bool) -> Change {
    Change {
        key: convert::key(object),
        uid: object.uid().unwrap_or_default(),
        resource_version: object.resource_version().unwrap_or_default(),
        old_resource_version: old,
        initial,
        cause,
        final_state_known: true,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn percent_codes_are_undone() {
        assert_eq!(super::plain("app%3Da%2Ctier%21%3Db"), "app=a,tier!=b");
        assert_eq!(super::plain("metadata.name%3dx"), "metadata.name=x");
    }
}
