//! [`Watcher`]: one informer on one of the two runtimes, and two handlers that write down what they are told.
//!
//! Every test runs its story once, with watchers on both runtimes looking on.

use crate::harness::{Cluster, PATIENCE, eventually};
use crate::http::Endpoint;
use informer_core::informer::Notice;
use informer_core::listener::Notification;
use informer_core::reflector::{Failure, Phase, reason};
use informer_core::{Key, Obj, Resource};
use informer_runtime::factory::FactoryOptions;
use informer_runtime::handler::{HandlerOptions, Registration};
use informer_runtime::informer::{InformerHandle, InformerSpec};
use informer_runtime::observe::Observed;
use informer_runtime::{Config, Error};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The least time in which an informer may have sent two requests on average: the first step of the backoff, and the
/// pace of watches that end well.
const STEP: Duration = Duration::from_millis(800);

/// Requests that may follow each other at once, in all: a failed streaming list is followed by pages, a version that is
/// expired or lies in the future by a list of the newest state.
const AT_ONCE: f64 = 4.0;

/// How far the observer's clock may be behind the machine's, on a machine that does more than this.
const OBSERVED_LATE: Duration = Duration::from_secs(1);

/// uid and version of each key.
pub(crate) type View = BTreeMap<String, (String, String)>;

/// One of the two runtimes, with the words that tests need of it.
enum Running<T> {
    Tokio(tokio::runtime::Runtime, informer_tokio::Factory, informer_tokio::Informer<T>),
    Blocking(informer_blocking::Factory, informer_blocking::Informer<T>),
}

/// An informer that is looked at.
pub(crate) struct Watcher<T: Send + Sync + 'static> {
    /// For messages.
    pub(crate) name: String,
    running: Running<T>,
    resource: Resource,
    namespace: Option<String>,
    handlers: Vec<(Registration, Arc<Mutex<Seen>>)>,
    log: Arc<Mutex<Vec<(Instant, Logged)>>>,
    cut_off: Arc<Mutex<bool>>,
}

/// What an informer did, as its observer was told.
#[derive(Clone, Debug)]
pub(crate) enum Logged {
    /// A request, with path and query.
    Request(String),
    Failure(Failure),
    Phase(Phase),
}

/// What one handler was told.
#[derive(Default)]
pub(crate) struct Seen {
    /// What it believes to exist.
    pub(crate) view: View,
    /// `added`, `updated` or `deleted`, key and uid.
    pub(crate) events: Vec<(&'static str, String, String)>,
    /// Deletions that were missed: key and uid of what was known last.
    pub(crate) missed: Vec<(String, String)>,
    /// The newest version of each key, over all of its incarnations.
    newest: BTreeMap<String, u128>,
    /// How often the informer had said that the server was set back.
    restored: usize,
    /// What no handler may be told.
    faults: Vec<String>,
}

impl Seen {
    /// Checks that the notification can follow what came before (added, updates, deleted, and again; no version goes
    /// back), and takes it. `restored` counts how often it was said that the server was set back.
    fn take<T>(&mut self, notification: &Notification<T>, restored: usize) {
        let identity = |object: &Obj<T>| (object.uid().to_string(), object.version().to_string());
        let key = notification.key().to_string();
        let known = self.view.get(&key).cloned();
        let old = notification.old().map(identity);
        if old != known {
            self.faults.push(format!("{notification:?}: the handler knew {known:?}, not {old:?}"));
        }
        let now = identity(notification.object());
        let kind = match notification {
            Notification::Added { .. } => "added",
            Notification::Updated { .. } => "updated",
            Notification::Deleted { .. } => "deleted",
            other => panic!("unknown notification {other:?}"),
        };
        // Versions that were given out before a restore are given out again after it: they say nothing across one.
        if std::mem::replace(&mut self.restored, restored) != restored {
            self.newest.clear();
        }
        let is_news = |known: &(String, String)| known.0 == now.0 && (known.1 != now.1 || restored > 0);
        if kind == "updated" && !known.as_ref().is_some_and(is_news) {
            self.faults.push(format!("{notification:?}: an update from {known:?} to {now:?}"));
        }
        let version =
            now.1.parse().unwrap_or_else(|error| panic!("{notification:?}: a version without order: {error}"));
        let is_missed = matches!(notification, Notification::Deleted { final_state_known: false, .. });
        if is_missed {
            // It repeats what was known, and says nothing of the server.
            self.missed.push((key.clone(), now.0.clone()));
        } else {
            let newest = self.newest.entry(key.clone()).or_insert(version);
            if version < *newest {
                self.faults.push(format!("{notification:?}: it went back to {version} from {newest}"));
            }
            *newest = version.max(*newest);
        }
        if kind == "deleted" {
            self.view.remove(&key);
        } else {
            self.view.insert(key.clone(), now.clone());
        }
        self.events.push((kind, key, now.0));
    }

    /// How often each incarnation was reported as deleted.
    pub(crate) fn deletions(&self) -> BTreeMap<(String, String), usize> {
        let mut deletions = BTreeMap::new();
        for (_, key, uid) in self.events.iter().filter(|(kind, ..)| *kind == "deleted") {
            *deletions.entry((key.clone(), uid.clone())).or_insert(0) += 1;
        }
        deletions
    }

    /// What was said about one key.
    pub(crate) fn story(&self, key: &str) -> Vec<&'static str> {
        self.events.iter().filter(|(_, of, _)| of == key).map(|(kind, ..)| *kind).collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: Send + Sync + 'static> Watcher<T> {
    /// One informer on each runtime, started.
    pub(crate) fn pair(
        config: &Config,
        namespace: Option<&str>,
        spec: impl Fn() -> InformerSpec<T>,
    ) -> Result<[Self; 2], Error> {
        Ok([Watcher::start(true, config, namespace, spec())?, Watcher::start(false, config, namespace, spec())?])
    }

    fn start(tokio: bool, config: &Config, namespace: Option<&str>, spec: InformerSpec<T>) -> Result<Self, Error> {
        let log = Arc::new(Mutex::new(Vec::new()));
        let cut_off = Arc::new(Mutex::new(false));
        let (told, asked) = (Arc::clone(&log), Arc::clone(&cut_off));
        let mut options = FactoryOptions::observed(Arc::new(move |observed| {
            let logged = match observed {
                Observed::Request(request) => Logged::Request(request.target()),
                Observed::Notice { notice: Notice::Failure(failure), .. } => Logged::Failure(failure.clone()),
                Observed::Notice { notice: Notice::Phase(phase), .. } => Logged::Phase(*phase),
                Observed::Notice { .. } | Observed::HandlerPanic { .. } | Observed::Reconcile(_) | _ => return,
            };
            lock(&told).push((Instant::now(), logged));
        }));
        options.gate =
            Some(Arc::new(
                move |_| {
                    if *lock(&asked) { Err(std::io::Error::other("the test cut the network")) } else { Ok(()) }
                },
            ));
        let spec = match namespace {
            Some(namespace) => spec.namespace(namespace),
            None => spec,
        };
        let running = if tokio {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
            let guard = runtime.enter();
            let client = informer_tokio::Client::connect(config.clone())?;
            let factory = informer_tokio::Factory::with_options(client, options);
            let informer = factory.try_informer(spec)?;
            drop(guard);
            Running::Tokio(runtime, factory, informer)
        } else {
            let client = informer_blocking::Client::connect(config.clone())?;
            let factory = informer_blocking::Factory::with_options(client, options);
            let informer = factory.try_informer(spec)?;
            Running::Blocking(factory, informer)
        };
        let mut watcher = Watcher {
            name: String::new(),
            resource: running.informer().resource().clone(),
            running,
            namespace: namespace.map(str::to_string),
            handlers: Vec::new(),
            log,
            cut_off,
        };
        watcher.name = format!("{} on {}", watcher.resource, if tokio { "tokio" } else { "blocking" });
        watcher.add_handler();
        watcher.add_handler();
        watcher.running.start();
        Ok(watcher)
    }

    /// The same, with the first list in the caches.
    pub(crate) fn synced_pair(
        config: &Config,
        namespace: Option<&str>,
        spec: impl Fn() -> InformerSpec<T>,
    ) -> [Self; 2] {
        let pair = Watcher::pair(config, namespace, spec).unwrap_or_else(|error| panic!("{error}"));
        for watcher in &pair {
            watcher.synced(PATIENCE).unwrap_or_else(|error| panic!("{}: {error}", watcher.name));
        }
        pair
    }

    pub(crate) fn add_handler(&mut self) {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (writer, log) = (Arc::clone(&seen), Arc::clone(&self.log));
        let handler = move |notification: &Notification<T>| {
            let restored = failures(&lock(&log)).filter(|failure| failure.reason == reason::WENT_BACKWARDS).count();
            lock(&writer).take(notification, restored);
        };
        let registration = match &self.running {
            Running::Tokio(runtime, _, informer) => {
                let _guard = runtime.enter();
                informer.handle_with(HandlerOptions::default(), handler)
            }
            Running::Blocking(_, informer) => informer.handle_with(HandlerOptions::default(), handler),
        };
        self.handlers.push((registration, seen));
    }

    /// The informer.
    pub(crate) fn informer(&self) -> &InformerHandle<T> {
        self.running.informer()
    }

    pub(crate) fn synced(&self, within: Duration) -> Result<(), Error> {
        match &self.running {
            Running::Tokio(runtime, factory, _) => runtime.block_on(factory.synced(within)),
            Running::Blocking(factory, _) => factory.synced(within),
        }
    }

    /// From now on (or no more) every connection is refused; those that stand, stay.
    pub(crate) fn cut_off(&self, cut_off: bool) {
        *lock(&self.cut_off) = cut_off;
    }

    /// What failed so far.
    pub(crate) fn failures(&self) -> Vec<Failure> {
        failures(&lock(&self.log)).cloned().collect()
    }

    /// Waits until `count` failures have this reason.
    #[track_caller]
    pub(crate) fn fails(&self, reason: &str, count: usize) {
        eventually(&format!("{} fails {count} times with {reason}", self.name), || {
            let failures = self.failures();
            let have = failures.iter().filter(|failure| failure.reason == reason).count();
            if have >= count { Ok(()) } else { Err(format!("{have}: {failures:?}")) }
        });
    }

    /// Everything that it did so far, and when.
    pub(crate) fn log(&self) -> Vec<(Instant, Logged)> {
        lock(&self.log).clone()
    }

    /// How many requests it sent, refused connections included.
    pub(crate) fn requests(&self) -> usize {
        lock(&self.log).iter().filter(|(_, logged)| matches!(logged, Logged::Request(_))).count()
    }

    /// Checks that it asked no more often than it may, whatever failed: it kept every wait that it announced, and at no
    /// time were there more requests than two for each first step of the backoff, later pages of a list not counted.
    pub(crate) fn asks_within_its_backoff(&self) {
        let log = self.log();
        let is_page = |target: &str| target.contains("&continue=") || target.contains("?continue=");
        let asked: Vec<Instant> = log
            .iter()
            .filter(|(_, logged)| matches!(logged, Logged::Request(target) if !is_page(target)))
            .map(|(at, _)| *at)
            .collect();
        let (Some(first), Some(last)) = (asked.first(), asked.last()) else { panic!("{}: it never asked", self.name) };
        let waits: Duration = log
            .iter()
            .filter(|(at, _)| at < last)
            .filter_map(|(_, logged)| if let Logged::Failure(failure) = logged { failure.retry_in } else { None })
            .sum();
        let asking = last.duration_since(*first);
        assert!(waits <= asking + OBSERVED_LATE, "{}: it announced waits of {waits:?} in {asking:?}", self.name);
        for (at, from) in asked.iter().enumerate() {
            for (more, to) in asked[at + 1..].iter().enumerate() {
                let span = to.duration_since(*from);
                let may = AT_ONCE + 2.0 * (span + OBSERVED_LATE).div_duration_f64(STEP);
                let sent = more + 2;
                assert!(sent as f64 <= may, "{}: {sent} requests in {span:?}: {log:#?}", self.name);
            }
        }
    }

    /// What the handlers were told; without any of them having been told what cannot be.
    pub(crate) fn seen(&self) -> Vec<MutexGuard<'_, Seen>> {
        let seen: Vec<_> = self.handlers.iter().map(|(_, seen)| lock(seen)).collect();
        for seen in &seen {
            assert!(seen.faults.is_empty(), "{}: {:#?}", self.name, seen.faults);
        }
        seen
    }

    /// The cache.
    pub(crate) fn cached(&self) -> View {
        let objects = self.informer().lister().list();
        let identity = |object: &Obj<T>| (object.uid().to_string(), object.version().to_string());
        objects.iter().map(|object| (object.key().to_string(), identity(object))).collect()
    }

    /// Waits until the cache and every handler agree with the server, and nobody was told what cannot be.
    #[track_caller]
    pub(crate) fn agrees_with(&self, server: &Endpoint) {
        eventually(&format!("{} agrees with the server", self.name), || {
            let true_state = list(server, &self.resource, self.namespace.as_deref());
            differences("the cache", &self.cached(), &true_state)?;
            for (number, seen) in self.seen().iter().enumerate() {
                differences(&format!("handler {number}"), &seen.view, &true_state)?;
            }
            Ok(())
        });
    }

    /// Stops it: everything must end.
    pub(crate) fn stop(self) {
        let stopped = match &self.running {
            Running::Tokio(runtime, factory, _) => runtime.block_on(factory.stop(PATIENCE)),
            Running::Blocking(factory, _) => factory.stop(PATIENCE),
        };
        stopped.unwrap_or_else(|error| panic!("{}: {error}", self.name));
        assert!(self.handlers.iter().all(|(registration, _)| registration.is_finished()), "{}", self.name);
    }
}

impl<T: Send + Sync + 'static> Running<T> {
    fn informer(&self) -> &InformerHandle<T> {
        match self {
            Running::Tokio(_, _, informer) => informer,
            Running::Blocking(_, informer) => informer,
        }
    }

    fn start(&self) {
        match self {
            Running::Tokio(runtime, factory, _) => {
                let _guard = runtime.enter();
                factory.start();
            }
            Running::Blocking(factory, _) => factory.start(),
        }
    }
}

fn failures(log: &[(Instant, Logged)]) -> impl Iterator<Item = &Failure> {
    log.iter().filter_map(|(_, logged)| if let Logged::Failure(failure) = logged { Some(failure) } else { None })
}

fn differences(who: &str, view: &View, true_state: &View) -> Result<(), String> {
    let mut keys: Vec<&String> = view.keys().chain(true_state.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    match keys.into_iter().find(|key| view.get(*key) != true_state.get(*key)) {
        None => Ok(()),
        Some(key) => Err(format!("{who} has {key} as {:?}, the server as {:?}", view.get(key), true_state.get(key))),
    }
}

/// The newest state as the server has it; nothing if it does not serve the resource.
pub(crate) fn list(server: &Endpoint, resource: &Resource, namespace: Option<&str>) -> View {
    let answer = server.ask("GET", &resource.path(namespace), "");
    if answer.status == 404 {
        return View::new();
    }
    let list = answer.json();
    let items = list["items"].as_array().unwrap_or_else(|| panic!("no list: {list}"));
    let text = |item: &Value, name: &str| item["metadata"][name].as_str().unwrap_or_default().to_string();
    let key = |item: &Value| Key::new(&text(item, "namespace"), &text(item, "name")).to_string();
    items.iter().map(|item| (key(item), (text(item, "uid"), text(item, "resourceVersion")))).collect()
}

/// The objects of one collection, as an administrator changes them.
pub(crate) struct Collection {
    endpoint: Endpoint,
    path: String,
    /// The next object without its name.
    pub(crate) template: Value,
    /// Every incarnation that this test deleted, as `namespace/name` and uid.
    pub(crate) deleted: Vec<(String, String)>,
}

impl Collection {
    pub(crate) fn new(cluster: &Cluster, resource: &Resource, namespace: &str, template: Value) -> Self {
        Collection::by(cluster, "admin", resource, namespace, template)
    }

    /// The same, as another user with all rights.
    pub(crate) fn by(cluster: &Cluster, user: &str, resource: &Resource, namespace: &str, template: Value) -> Self {
        let (endpoint, path) = (cluster.endpoint(user), resource.path(Some(namespace)));
        Collection { endpoint, path, template, deleted: Vec::new() }
    }

    pub(crate) fn create(&self, name: &str) -> Value {
        let mut object = self.template.clone();
        object["metadata"]["name"] = name.into();
        self.endpoint.must("POST", &self.path, &object.to_string())
    }

    pub(crate) fn change(&self, name: &str, label: &str) -> Value {
        let patch = serde_json::json!({"metadata": {"labels": {"changed": label}}});
        self.endpoint.must("PATCH", &format!("{}/{name}", self.path), &patch.to_string())
    }

    pub(crate) fn delete(&mut self, name: &str) {
        let path = format!("{}/{name}?gracePeriodSeconds=0", self.path);
        let object = self.endpoint.must("GET", &format!("{}/{name}", self.path), "");
        self.endpoint.must("DELETE", &path, "");
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        self.deleted.push((format!("{}/{}", text("namespace"), text("name")), text("uid").to_string()));
    }

    /// Checks that a handler was told of these deletions and no others, and of each once at most.
    pub(crate) fn explains(&self, who: &str, seen: &Seen) {
        for (incarnation, times) in seen.deletions() {
            assert!(self.deleted.contains(&incarnation), "{who}: {incarnation:?} was never deleted");
            assert_eq!(times, 1, "{who}: {incarnation:?} was reported as deleted {times} times");
        }
    }
}
