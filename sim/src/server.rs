//! [`Server`]: the machine. This file owns the calls, the timers and the order of outputs; [`route`] finds out what a
//! request is about, [`read`] lists and watches, [`write`] makes and changes objects, [`delete`] ends them, [`crd`] adds and
//! removes resources.
//!
//! ```text
//!  Request ──► route ──┬─► read ──► list body ─┐
//!                      │      └──► watch body ─┼─► ready queue ─► poll_output: Head, Body…, End
//!                      │      └──► waiting ────┘ (a version that has not come yet, at most 3 s)
//!                      └─► write ──► commit ──► log of the table ──► its watches become ready
//! ```
//!
//! Each open call is in `calls` exactly once; a call is in the ready queue only while it has something to send and is
//! not paused.

mod crd;
mod delete;
mod read;
mod route;
mod write;

use crate::body::{Left, ListBody, WatchBody, WatchEnd, push_error};
use crate::config::{Config, Options};
use crate::message::{CallId, HttpRequest, Input, Output};
use crate::object::{Draft, Shape, StoredObject};
use crate::status::Status;
use crate::table::Table;
use informer_core::object::{Key, Resource};
use informer_core::rng::Rng;
use informer_core::time::{Clock, Deadline, Duration, Time};
use informer_core::wire::rfc3339;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// How long a list waits for a version that has not come yet, before 504 (W5).
const FRESH_WAIT: Duration = Duration::from_secs(3);

/// Largest body that a request may have, as the real server has it.
pub(crate) const MAX_BODY: usize = 3 * 1024 * 1024;

/// Above this an answer is compressed for those who accept it, as the real server has it.
const COMPRESS_ABOVE: usize = 128 * 1024;

/// Up to this a list carries its length; Go's HTTP server buffers so much before it turns to chunks.
const LENGTH_KNOWN: usize = 2048;

/// A Kubernetes API server without clock, threads and sockets.
///
/// Drive it with [`handle`](Server::handle) and [`poll_output`](Server::poll_output), or change its objects directly:
/// [`put`](Server::put) and [`delete`](Server::delete) act at the time of the last input. The example of the
/// [crate](crate) does both.
#[derive(Debug)]
pub struct Server {
    config: Config,
    clock: Clock,
    rng: Rng,
    version: u64,
    tables: Vec<Table>,
    /// `group/version/plural` → index into `tables`.
    routes: BTreeMap<String, usize>,
    calls: BTreeMap<CallId, Call>,
    waiting: BTreeSet<CallId>,
    ready: VecDeque<CallId>,
    outputs: VecDeque<Output>,
}

#[derive(Debug)]
struct Call {
    work: Work,
    paused: bool,
    /// In the ready queue.
    queued: bool,
}

#[derive(Debug)]
enum Work {
    List(ListBody),
    Watch(WatchBody),
    /// Asked again when the server has reached `version`, refused at `until`.
    Waiting {
        request: HttpRequest,
        version: u64,
        until: Time,
        watch: bool,
    },
}

/// What a request led to.
enum Answer {
    Json {
        status: u16,
        text: String,
    },
    Text {
        status: u16,
        text: &'static str,
    },
    List(ListBody),
    Watch(WatchBody),
    /// 200 and one ERROR event: how most failures of a watch arrive (C18).
    WatchError(Status),
    Wait {
        version: u64,
        watch: bool,
    },
}

impl Server {
    /// A server without objects that knows one resource: custom resource definitions.
    pub fn new(config: Config) -> Self {
        let mut server = Server {
            clock: Clock::default(),
            rng: Rng::derive(config.seed, "server"),
            version: config.first_version,
            tables: Vec::new(),
            routes: BTreeMap::new(),
            calls: BTreeMap::new(),
            waiting: BTreeSet::new(),
            ready: VecDeque::new(),
            outputs: VecDeque::new(),
            config,
        };
        server.register(crd::resource(), Options { custom: false, status_subresource: true });
        server
    }

    /// Serves one more resource.
    ///
    /// # Panics
    ///
    /// If it is served already.
    pub fn register(&mut self, resource: Resource, options: Options) {
        assert!(self.table_of(&resource).is_none(), "register: {resource} is served already; register it once");
        let shape = Shape::new(&resource, options.custom);
        self.add_table(resource, shape, options.status_subresource);
    }

    fn add_table(&mut self, resource: Resource, shape: Shape, status_subresource: bool) {
        let route = route::of(&resource.group, &resource.version, &resource.plural);
        self.routes.insert(route, self.tables.len());
        self.tables.push(Table::new(resource, shape, status_subresource, self.version));
    }

    /// Serves the built-in resources that controllers use most: pods, deployments, configmaps and so on.
    ///
    /// # Panics
    ///
    /// If one of them is served already.
    pub fn register_common(&mut self) {
        for (resource, options) in crate::common::resources() {
            self.register(resource, options);
        }
    }

    /// The resources that are served, custom ones included, in the order in which they were added.
    pub fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.tables.iter().filter(|table| !table.gone).map(|table| &table.resource)
    }

    /// Whether a resource is served as a custom one.
    pub(crate) fn is_custom(&self, resource: &Resource) -> bool {
        self.table_of(resource).is_some_and(|table| self.tables[table].shape.custom)
    }

    fn table_of(&self, resource: &Resource) -> Option<usize> {
        self.routes.get(&route::of(&resource.group, &resource.version, &resource.plural)).copied()
    }

    // ---- The machine ----

    /// Fires what is due at `now`, then takes one input.
    ///
    /// # Panics
    ///
    /// If a request comes under the id of a call that is still open.
    pub fn handle(&mut self, now: Time, input: Input) {
        let now = self.clock.advance(now);
        self.fire(now);
        match input {
            Input::Request { id, request } => {
                assert!(!self.calls.contains_key(&id), "handle: {id:?} is still open; mint a new id for each request");
                self.serve(id, request);
            }
            Input::Closed { id } => {
                self.forget(id);
                self.outputs.retain(|output| output.id() != Some(id));
            }
            Input::Pause { id } => {
                if let Some(call) = self.calls.get_mut(&id) {
                    call.paused = true;
                }
            }
            Input::Resume { id } => {
                if let Some(call) = self.calls.get_mut(&id) {
                    call.paused = false;
                    self.make_ready(id);
                }
            }
            Input::Tick => {}
        }
        self.settle();
    }

    /// The next thing to do. Poll until [`Output::Wait`]; bodies are made here, so memory does not grow with them.
    #[must_use]
    pub fn poll_output(&mut self) -> Output {
        loop {
            if let Some(output) = self.outputs.pop_front() {
                return output;
            }
            let Some(id) = self.ready.pop_front() else { return Output::Wait(self.next_deadline()) };
            self.produce(id);
        }
    }

    /// Makes the next piece of one body.
    fn produce(&mut self, id: CallId) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        call.queued = false;
        if call.paused {
            return;
        }
        let (bytes, left) = match &mut call.work {
            Work::List(list) => {
                let (bytes, last) = list.next();
                (bytes, if last { Left::Ended } else { Left::More })
            }
            Work::Watch(watch) => watch.next(&self.tables[watch.table], self.version),
            Work::Waiting { .. } => return,
        };
        if !bytes.is_empty() {
            self.outputs.push_back(Output::Body { id, bytes });
        }
        match left {
            Left::Nothing => {}
            Left::More => self.make_ready(id),
            Left::Ended => {
                self.outputs.push_back(Output::End { id });
                self.forget(id);
            }
        }
    }

    fn make_ready(&mut self, id: CallId) {
        if let Some(call) = self.calls.get_mut(&id).filter(|call| !call.paused && !call.queued) {
            call.queued = true;
            self.ready.push_back(id);
        }
    }

    fn open(&mut self, id: CallId, work: Work) {
        match &work {
            Work::Watch(watch) => {
                self.tables[watch.table].watches.insert(id);
            }
            Work::Waiting { .. } => {
                self.waiting.insert(id);
            }
            Work::List(_) => {}
        }
        self.calls.insert(id, Call { work, paused: false, queued: false });
        self.make_ready(id);
    }

    fn forget(&mut self, id: CallId) {
        self.waiting.remove(&id);
        let Some(Call { work: Work::Watch(watch), .. }) = self.calls.remove(&id) else { return };
        let table = &mut self.tables[watch.table];
        table.watches.remove(&id);
        if table.gone && table.watches.is_empty() {
            table.clear();
        }
    }

    /// The only place where a timer is set.
    fn next_deadline(&self) -> Option<Deadline> {
        let timers = self.calls.values().filter_map(|call| match &call.work {
            Work::List(_) => None,
            Work::Watch(watch) => watch.timer(),
            Work::Waiting { until, .. } => Some((*until, "wait for a version")),
        });
        timers.map(|(at, why)| Some(Deadline { at, why })).fold(None, Deadline::sooner)
    }

    fn fire(&mut self, now: Time) {
        let mut due = Vec::new();
        for (&id, call) in &mut self.calls {
            match &mut call.work {
                Work::List(_) => {}
                Work::Watch(watch) => {
                    if watch.fire(now, self.config.bookmark_every) {
                        due.push(id);
                    }
                }
                Work::Waiting { until, .. } => {
                    if *until <= now {
                        due.push(id);
                    }
                }
            }
        }
        for id in due {
            let Some(Work::Waiting { version, watch, .. }) = self.calls.get(&id).map(|call| &call.work) else {
                self.make_ready(id);
                continue;
            };
            let (status, watch) = (Status::too_large(*version, self.version), *watch);
            self.forget(id);
            self.answer(id, &HttpRequest::default(), if watch { Ok(Answer::WatchError(status)) } else { Err(status) });
        }
    }

    /// Asks again what waited for a version that has come.
    fn settle(&mut self) {
        let ripe: Vec<CallId> = self
            .waiting
            .iter()
            .filter(|id| {
                matches!(self.calls.get(id), Some(Call { work: Work::Waiting { version, .. }, .. }) if *version <= self.version)
            })
            .copied()
            .collect();
        for id in ripe {
            self.waiting.remove(&id);
            if let Some(Call { work: Work::Waiting { request, .. }, .. }) = self.calls.remove(&id) {
                self.serve(id, request);
            }
        }
    }

    fn serve(&mut self, id: CallId, request: HttpRequest) {
        let answer = self.route(&request);
        self.answer(id, &request, answer);
    }

    fn answer(&mut self, id: CallId, request: &HttpRequest, answer: Result<Answer, Status>) {
        const JSON: &str = "application/json";
        let head = |status, kind: &str, more: Vec<(&'static str, String)>| {
            let mut headers = vec![("cache-control", "no-cache, private".into()), ("content-type", kind.into())];
            headers.extend(more);
            Output::Head { id, status, headers }
        };
        let mut whole = |status, kind, text: String, more: Vec<(&'static str, String)>| {
            let mut more = more;
            more.push(("content-length", text.len().to_string()));
            self.outputs.push_back(head(status, kind, more));
            self.outputs.push_back(Output::Body { id, bytes: text.into_bytes() });
            self.outputs.push_back(Output::End { id });
        };
        match answer {
            Err(status) => {
                let retry = status.retry_after().map(|seconds| ("retry-after", seconds.to_string()));
                whole(status.code(), JSON, status.json() + "\n", retry.into_iter().collect());
            }
            Ok(Answer::Json { status, text }) => whole(status, JSON, text + "\n", Vec::new()),
            Ok(Answer::Text { status, text }) => whole(
                status,
                "text/plain; charset=utf-8",
                text.into(),
                vec![("x-content-type-options", "nosniff".into())],
            ),
            Ok(Answer::List(mut list)) => {
                let mut more = Vec::new();
                let len = list.len();
                if self.config.gzip && len > COMPRESS_ABOVE && accepts_gzip(request) {
                    list.compress();
                    more = vec![("content-encoding", "gzip".into()), ("vary", "Accept-Encoding".into())];
                } else if len <= LENGTH_KNOWN {
                    more.push(("content-length", len.to_string()));
                }
                self.outputs.push_back(head(200, JSON, more));
                self.open(id, Work::List(list));
            }
            Ok(Answer::Watch(watch)) => {
                self.outputs.push_back(head(200, JSON, Vec::new()));
                self.open(id, Work::Watch(watch));
            }
            Ok(Answer::WatchError(status)) => {
                let mut bytes = Vec::new();
                push_error(&mut bytes, &status);
                self.outputs.push_back(head(200, JSON, Vec::new()));
                self.outputs.push_back(Output::Body { id, bytes });
                self.outputs.push_back(Output::End { id });
            }
            Ok(Answer::Wait { version, watch }) => {
                let until = self.clock.now() + FRESH_WAIT;
                self.open(id, Work::Waiting { request: request.clone(), version, until, watch });
            }
        }
    }

    /// Writes one version of one object, or its deletion, into its table, and wakes who watches.
    fn commit(&mut self, at: usize, key: &Key, new: Option<StoredObject>) -> Option<Arc<StoredObject>> {
        self.version += 1;
        let new = new.map(Arc::new);
        debug_assert!(new.as_ref().is_none_or(|object| object.version() == self.version && object.key() == key));
        let cursors = self.tables[at].watches.iter().filter_map(|id| match self.calls.get(id) {
            Some(Call { work: Work::Watch(watch), paused: false, .. }) => Some(watch.cursor),
            _ => None,
        });
        let reading = cursors.min().unwrap_or(u64::MAX);
        let table = &mut self.tables[at];
        table.expire_snapshots(self.clock.now());
        table.commit(self.version, key, new.clone(), self.config.history, reading);
        let mut slow = Vec::new();
        for &id in &table.watches {
            let Some(call) = self.calls.get_mut(&id) else { continue };
            let Work::Watch(watch) = &call.work else { continue };
            if call.paused {
                if table.overtook(watch.cursor, self.config.watch_backlog) {
                    slow.push(id);
                }
            } else if !call.queued {
                call.queued = true;
                self.ready.push_back(id);
            }
        }
        for id in slow {
            self.outputs.push_back(Output::End { id });
            self.forget(id);
        }
        new
    }

    /// Stores an object under a new version.
    fn store(&mut self, at: usize, draft: &Draft<'_>) -> Arc<StoredObject> {
        let object = draft.finish(&self.tables[at].shape, self.version + 1);
        let key = object.key().clone();
        self.commit(at, &key, Some(object)).expect("an object was written")
    }

    /// What the wall shows, in seconds since 1970.
    fn now_seconds(&self) -> u64 {
        self.config.wall_clock.saturating_add(self.clock.now().as_millis() / 1_000)
    }

    fn now_text(&self) -> String {
        rfc3339(self.now_seconds())
    }

    // ---- For tests and tools ----

    /// The settings it was made with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The time of the last input.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// The version of the last write, to any resource.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Calls that are open: lists being sent, watches, and those that wait for a version.
    pub fn open_calls(&self) -> usize {
        self.calls.len()
    }

    /// The objects of a resource in the order of their keys; none if it is not served.
    pub fn list(&self, resource: &Resource) -> Vec<Arc<StoredObject>> {
        self.table_of(resource).map_or_else(Vec::new, |at| self.tables[at].objects().values().cloned().collect())
    }

    /// How many objects of a resource there are.
    pub fn count(&self, resource: &Resource) -> usize {
        self.table_of(resource).map_or(0, |at| self.tables[at].objects().len())
    }

    /// One object.
    pub fn get(&self, resource: &Resource, key: &Key) -> Option<Arc<StoredObject>> {
        self.table_of(resource).and_then(|at| self.tables[at].get(key.as_str()).cloned())
    }

    /// Forgets all history, as a compaction of etcd after a restart does: watches from before now, continue tokens and
    /// lists of older versions get 410. Open watches go on.
    pub fn compact(&mut self) {
        let version = self.version;
        self.tables.iter_mut().for_each(|table| table.compact(version));
    }

    /// What a restart of the API server does to its clients: every call ends, and no watch may start from before now.
    /// Objects, versions and continue tokens stay, since etcd keeps them.
    pub fn restart(&mut self) {
        let version = self.version;
        let open: Vec<CallId> = self.calls.keys().copied().collect();
        for id in open {
            self.outputs.push_back(Output::End { id });
            self.forget(id);
        }
        self.tables.iter_mut().for_each(|table| table.forget_watch_cache(version));
    }

    /// Ends every watch cleanly, once it has sent what has happened so far (C16).
    pub fn drop_watches(&mut self) {
        self.end_watches(WatchEnd::Clean);
    }

    /// Ends every watch with an ERROR event, 410 Expired, as an etcd that was compacted under it does.
    pub fn fail_watches_expired(&mut self) {
        self.end_watches(WatchEnd::Expired);
    }

    fn end_watches(&mut self, how: WatchEnd) {
        let ids: Vec<CallId> = self.tables.iter().flat_map(|table| table.watches.iter().copied()).collect();
        for id in ids {
            self.end_watch(id, how);
        }
    }

    fn end_watch(&mut self, id: CallId, how: WatchEnd) {
        if let Some(Call { work: Work::Watch(watch), .. }) = self.calls.get_mut(&id) {
            watch.end(how);
            self.make_ready(id);
        }
    }
}

fn accepts_gzip(request: &HttpRequest) -> bool {
    request.value("accept-encoding").is_some_and(|value| {
        value.split(',').any(|coding| {
            let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
            name.trim().eq_ignore_ascii_case("gzip") && quality.trim() != "q=0"
        })
    })
}
