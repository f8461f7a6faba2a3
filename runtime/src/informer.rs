//! [`InformerHandle`]: what a user holds of an informer; [`InformerSpec`]: what they ask for.

#[cfg(all(test, shuttle))]
mod schedules;

use crate::error::{Error, Lagging};
use crate::factory::{Life, Lives, Shared};
use crate::guard;
use crate::guard::section::{self, Held};
use crate::handler::{Channel, Deliveries, HandlerOptions, Lent, Next, Registration};
use crate::lister::{Index, Lister};
use crate::mutation::MutationCheck;
use crate::observe::{Clock, Observer, tell};
use crate::roster::Roster;
use crate::store::SharedStore;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex, Signal, Weak};
use informer_core::decode::Codec;
use informer_core::factory::Scope;
use informer_core::fifo::QueueKind;
use informer_core::informer::{HandlerId, InformerConfig};
use informer_core::listener::Notification;
use informer_core::object::DecodeError;
use informer_core::reflector::{Failure, Health, ListStrategy, Phase, Tuning};
use informer_core::saved::{Saved, SavedError};
use informer_core::selector::{FieldSelector, LabelSelector};
use informer_core::store::{IndexDef, IndexValue, IndexValues, Store};
use informer_core::time::{Duration, Time};
use informer_core::{Obj, Object, Resource};
use std::any::{TypeId, type_name};
use std::fmt;
use std::time::Instant;

/// What an informer reads, and how. Two requests for the same type and scope must agree.
pub struct InformerSpec<T> {
    pub(crate) codec: Codec<T>,
    pub(crate) config: InformerConfig,
    pub(crate) resync: Duration,
    /// Which functions change the objects, in order; two closures of one place have one name, so with their types.
    pub(crate) transform: String,
    pub(crate) saved: Option<Saved<T>>,
    /// The form of what is saved, if it has a name of the user's.
    pub(crate) schema: Option<String>,
    pub(crate) mutations: Option<MutationCheck<T>>,
}

impl<T: Object> InformerSpec<T> {
    /// All objects of a type that has a resource of its own.
    #[allow(clippy::new_without_default)] // what it reads depends on the type; nobody wants it by default
    pub fn new() -> Self {
        const { assert!(!T::DYNAMIC, "this type stands for many resources: use InformerSpec::of(resource)") };
        InformerSpec::of(T::resource())
    }

    /// All objects of a resource, for a type that stands for many.
    pub fn of(resource: Resource) -> Self {
        let config = InformerConfig::new(resource.clone());
        let (codec, transform) = (Codec::new(resource), String::new());
        InformerSpec { codec, config, resync: Duration::ZERO, transform, saved: None, schema: None, mutations: None }
    }
}

impl<T: 'static> InformerSpec<T> {
    /// Everything that the machine can be told, in place of what was set before; the resource stays.
    pub fn configured(mut self, config: InformerConfig) -> Self {
        let resource = self.config.reflector.resource;
        self.config = config;
        self.config.reflector.resource = resource;
        self
    }

    /// Only the objects of one namespace.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.config.reflector.namespace = Some(namespace.to_string());
        self
    }

    /// Only the objects that `selector` selects. An object that leaves the selection is reported as deleted (C9).
    ///
    /// # Panics
    ///
    /// If the selector selects nothing: an informer over nothing is a mistake, and the server has no word for it.
    pub fn labels(mut self, selector: &LabelSelector) -> Self {
        let query = selector.to_query().expect("a selector that selects something");
        self.config.reflector.label_selector = Some(query).filter(|query| !query.is_empty());
        self
    }

    /// Only the objects that `selector` selects by their fields.
    pub fn fields(mut self, selector: &FieldSelector) -> Self {
        self.config.reflector.field_selector = Some(selector.to_query()).filter(|query| !query.is_empty());
        self
    }

    /// Repeats every object to the handlers in this period; at least a second. Never by default.
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = period;
        self
    }

    /// How the first state is read.
    pub fn strategy(mut self, strategy: ListStrategy) -> Self {
        self.config.reflector.strategy = strategy;
        self
    }

    /// Objects per page of a list; 0 asks for all at once. 500 by default.
    pub fn page_size(mut self, objects: u32) -> Self {
        self.config.reflector.page_size = objects;
        self
    }

    /// Watches ask for a time in [this, twice this]. 5 minutes by default.
    pub fn min_watch_timeout(mut self, timeout: Duration) -> Self {
        self.config.reflector.min_watch_timeout = timeout;
        self
    }

    /// Waits and bounds of the reflector.
    pub fn tuning(mut self, tuning: Tuning) -> Self {
        self.config.reflector.tuning = tuning;
        self
    }

    /// In which order the changes of a watch are applied. That of the wire by default.
    pub fn queue(mut self, queue: QueueKind) -> Self {
        self.config.queue = queue;
        self
    }

    /// A list with an object that does not decode fails as a whole, as in client-go.
    pub fn strict(mut self) -> Self {
        self.config.strict_decode = true;
        self
    }

    /// Changes each object before it is stored, also its type: once per object that the server sends. Keys, uids and
    /// versions stand beside the value, out of reach.
    ///
    /// ```
    /// use informer_core::{DynamicObject, Resource};
    /// use informer_runtime::informer::InformerSpec;
    ///
    /// let pods = InformerSpec::<DynamicObject>::of("pods".parse::<Resource>()?);
    /// let lean = pods.transform(|pod: DynamicObject| Ok(pod.without(&["metadata", "managedFields"])));
    /// # drop(lean);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If a saved state or a check for mutations was given before: both are of the changed objects, so
    /// [`preloaded`](Self::preloaded) and [`check_mutations`](Self::check_mutations) come after.
    pub fn transform<U: 'static, F>(self, transform: F) -> InformerSpec<U>
    where
        F: Fn(T) -> Result<U, DecodeError> + Send + Sync + 'static,
    {
        assert!(self.saved.is_none(), "a saved state is of transformed objects: call preloaded() after transform()");
        assert!(
            self.mutations.is_none(),
            "a check is of transformed objects: call check_mutations() after transform()"
        );
        let transforms = format!("{} {} {:?};", self.transform, type_name::<F>(), TypeId::of::<F>());
        InformerSpec {
            codec: self.codec.map(transform),
            config: self.config,
            resync: self.resync,
            transform: transforms,
            saved: None,
            schema: self.schema,
            mutations: None,
        }
    }

    /// Looks for changes of cached objects, which a type with interior mutability allows; see [`crate::mutation`].
    pub fn check_mutations(mut self, check: MutationCheck<T>) -> Self {
        self.mutations = Some(check);
        self
    }

    /// Begins with the state of an earlier run, as [`InformerHandle::saved`] gave it: readers have it at once, and when the
    /// first list is complete, handlers are told of it as their initial state, then of what changed since, deletions
    /// included; then they are synced ([`informer_core::saved`] says more). Nothing is synced before that.
    ///
    /// The objects are as the transform left them: it is not run on them. An informer that is there already goes on with
    /// what it has. A state of another collection or form is an error where the informer is asked for:
    /// [`read_saved`](Self::read_saved) finds it before.
    pub fn preloaded(mut self, saved: Saved<T>) -> Self {
        self.saved = Some(saved);
        self
    }

    /// A name of one's own for the form in which objects are saved, in place of the name of their type. To be changed with
    /// the fields of the type, or with what the transform leaves of an object: what was saved before is then refused.
    pub fn schema(mut self, schema: &str) -> Self {
        self.schema = Some(schema.to_string());
        self
    }

    /// Reads the lines that [`Saved::lines`] of an earlier run of this informer gave, for [`preloaded`](Self::preloaded).
    /// `build` makes a value of its JSON. To be called when scope, transform and schema are set.
    ///
    /// ```
    /// use informer_core::{DynamicObject, Object, Resource};
    /// use informer_runtime::informer::InformerSpec;
    ///
    /// let pods = Resource::namespaced("", "v1", "pods", "Pod");
    /// let spec = InformerSpec::<DynamicObject>::of(pods.clone()).namespace("web");
    /// let text = r#"{"informerState":1,"of":"pods in namespace \"web\"","resourceVersion":"9","objects":0}"#;
    /// let spec = match spec.read_saved(text.lines(), |json| DynamicObject::decode(json.as_bytes(), &pods)) {
    ///     Ok(saved) => spec.preloaded(saved),
    ///     Err(error) => {
    ///         eprintln!("beginning without it: {error}");
    ///         spec
    ///     }
    /// };
    /// # drop(spec);
    /// ```
    ///
    /// # Errors
    ///
    /// [`SavedError`] says which line is of no use, or that it is the state of another collection or form, and of which.
    pub fn read_saved<'a>(
        &self,
        lines: impl IntoIterator<Item = &'a str>,
        build: impl FnMut(&str) -> Result<T, DecodeError>,
    ) -> Result<Saved<T>, SavedError> {
        let of = Scope::of(&self.config.reflector).to_string();
        Saved::read_as(&of, self.saved_as(), lines, build)
    }

    /// The name of the form in which objects are saved.
    pub(crate) fn saved_as(&self) -> &str {
        self.schema.as_deref().unwrap_or_else(|| type_name::<T>())
    }
}

impl<T> fmt::Debug for InformerSpec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "informer of {}", self.config.reflector.resource)
    }
}

/// A command to an informer's driver.
pub(crate) enum Command<T> {
    Add {
        channel: Arc<Channel<T>>,
        resync: Option<Duration>,
    },
    Remove(HandlerId),
    /// The handler's ring was full and is not any more.
    Room(HandlerId),
    Refresh,
}

/// The part of an informer that does not depend on its type.
pub(crate) struct Status {
    pub(crate) subject: Arc<str>,
    /// It is given its objects by hand.
    pub(crate) fed: bool,
    pub(crate) started: AtomicBool,
    pub(crate) synced: AtomicBool,
    pub(crate) stopped: AtomicBool,
    pub(crate) phase: Mutex<Phase>,
    pub(crate) failure: Mutex<Option<Failure>>,
    pub(crate) health: SharedHealth,
    /// Handlers that the machine waits for, in the order in which they became full.
    full: Mutex<Vec<(HandlerId, String)>>,
    /// The informer was asked to stop; its factory goes on.
    pub(crate) leaving: AtomicBool,
    /// Told of each change of the store while somebody waits for one, and of the end.
    pub(crate) moved: Signal,
    /// How many wait for a change.
    pub(crate) waiters: AtomicUsize,
    /// What must end before the informer has stopped: its driver, requests and handlers.
    pub(crate) lives: Arc<Lives>,
}

/// The machine's [`Health`] for whoever asks: nanoseconds of the driver's clock. Written after every step.
pub(crate) struct SharedHealth {
    last_contact: AtomicU64,
    last_event: AtomicU64,
    degraded_since: AtomicU64,
}

/// No time: 584 years after the start.
const NEVER: u64 = u64::MAX;

impl Default for SharedHealth {
    fn default() -> Self {
        let never = || AtomicU64::new(NEVER);
        SharedHealth { last_contact: never(), last_event: never(), degraded_since: never() }
    }
}

impl SharedHealth {
    pub(crate) fn set(&self, health: Health) {
        let Health { last_contact, last_event, degraded_since, .. } = health;
        for (cell, time) in
            [(&self.last_contact, last_contact), (&self.last_event, last_event), (&self.degraded_since, degraded_since)]
        {
            cell.store(time.map_or(NEVER, Time::as_nanos), Ordering::Relaxed);
        }
    }
}

impl Status {
    pub(crate) fn new(subject: &str, fed: bool) -> Self {
        Status {
            subject: subject.into(),
            fed,
            started: AtomicBool::new(false),
            synced: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            phase: Mutex::new(Phase::Idle),
            failure: Mutex::new(None),
            health: SharedHealth::default(),
            full: Mutex::default(),
            leaving: AtomicBool::new(false),
            moved: Signal::new(),
            waiters: AtomicUsize::new(0),
            lives: Arc::default(),
        }
    }

    /// The store has changed.
    pub(crate) fn store_moved(&self) {
        if self.waiters.load(Ordering::Relaxed) > 0 {
            self.moved.notify();
        }
    }

    /// The machine waits for this handler from now on.
    pub(crate) fn waits_for(&self, id: HandlerId, name: &str) {
        let mut full = self.full.lock();
        if full.iter().all(|(known, _)| *known != id) {
            full.push((id, name.to_string()));
        }
    }

    /// It does not any more.
    pub(crate) fn goes_on_without(&self, id: HandlerId) {
        self.full.lock().retain(|(known, _)| *known != id);
    }

    pub(crate) fn held_up_by(&self) -> Vec<String> {
        self.full.lock().iter().map(|(_, name)| name.clone()).collect()
    }

    /// Why it is not up to date, if it is not. `dead` if nobody drives it any more.
    pub(crate) fn lagging(&self, dead: bool) -> Option<Lagging> {
        if !dead && self.synced.load(Ordering::Acquire) {
            return None;
        }
        let failure = self.failure.lock().clone();
        let started = self.started.load(Ordering::Acquire);
        Some(Lagging { subject: self.subject.to_string(), fed: self.fed, started, dead, failure })
    }
}

pub(crate) struct Inner<T> {
    pub(crate) resource: Resource,
    pub(crate) store: Arc<SharedStore<T>>,
    pub(crate) status: Arc<Status>,
    pub(crate) mailbox: Mutex<Vec<Command<T>>>,
    pub(crate) resync: Duration,
    /// Under what its roster knows it.
    pub(crate) scope: Scope,
    pub(crate) roster: Weak<Roster>,
    /// The form of what is saved.
    schema: String,
    next_handler: AtomicU64,
    shared: Arc<Shared>,
}

impl<T: 'static> Inner<T> {
    pub(crate) fn new(
        spec: &InformerSpec<T>,
        scope: Scope,
        status: Arc<Status>,
        shared: &Arc<Shared>,
        roster: Weak<Roster>,
    ) -> Self {
        let resource = spec.config.reflector.resource.clone();
        let store = if resource.namespaced {
            SharedStore::new(&status.subject, shared.seed, [IndexDef::namespace()])
        } else {
            SharedStore::new(&status.subject, shared.seed, []).cluster_scoped()
        };
        Inner {
            resource,
            store: Arc::new(store),
            status,
            mailbox: Mutex::new(Vec::new()),
            resync: spec.resync,
            scope,
            roster,
            schema: spec.saved_as().to_string(),
            next_handler: AtomicU64::new(1),
            shared: Arc::clone(shared),
        }
    }
}

impl<T> Inner<T> {
    /// Leaves a command for the driver; false if there will be none any more. So the mailbox holds at most three commands
    /// per handler that is there and one refresh, however long the informer is not started.
    ///
    /// The stop takes the lock of the mailbox after it raised its flag, and before it closes what it finds: either it
    /// finds this command, or the flag is seen here.
    pub(crate) fn post(&self, command: Command<T>) -> bool {
        let mut mailbox = self.mailbox.lock();
        if self.status.stopped.load(Ordering::Acquire) {
            return false;
        }
        let mut cancelled = None; // dropped behind the lock
        if let Command::Remove(gone) = &command {
            let of_it = |known: &Command<T>| matches!(known, Command::Add { channel, .. } if channel.id() == *gone);
            // One that comes and goes before the driver looks leaves nothing behind.
            cancelled = mailbox.iter().position(of_it).map(|at| mailbox.remove(at));
        }
        let again = |known: &Command<T>| match (known, &command) {
            (Command::Refresh, Command::Refresh) => true,
            (Command::Room(known), Command::Room(id)) => known == id,
            (Command::Add { .. } | Command::Remove(_) | Command::Room(_) | Command::Refresh, _) => false,
        };
        if cancelled.is_none() && !mailbox.iter().any(again) {
            mailbox.push(command);
        }
        drop(mailbox);
        drop(cancelled);
        self.shared.wake.notify();
        true
    }

    /// Marks the end: no command is taken any more, and no handler is left waiting.
    pub(crate) fn end(&self, attached: impl Iterator<Item = Arc<Channel<T>>>) {
        self.status.stopped.store(true, Ordering::Release);
        let commands = std::mem::take(&mut *self.mailbox.lock());
        let added = commands.into_iter().filter_map(|command| match command {
            Command::Add { channel, .. } => Some(channel),
            Command::Remove(_) | Command::Room(_) | Command::Refresh => None,
        });
        added.chain(attached).for_each(|channel| channel.close());
        self.status.full.lock().clear();
        self.status.moved.notify();
        self.shared.changed.notify();
    }

    /// Asks the driver to end.
    pub(crate) fn leave(&self) {
        self.status.leaving.store(true, Ordering::Release);
        self.shared.wake.notify();
        self.shared.changed.notify();
    }

    pub(crate) fn in_async_runtime(&self) -> bool {
        self.shared.in_async_runtime.is_some_and(|inside| inside())
    }
}

/// An informer: handlers, indexes and the cache of one resource and scope. Cheap to clone.
///
/// Adapters wrap it with what needs a thread or a task.
pub struct InformerHandle<T>(pub(crate) Arc<Inner<T>>);

impl<T> Clone for InformerHandle<T> {
    fn clone(&self) -> Self {
        InformerHandle(Arc::clone(&self.0))
    }
}

impl<T: Send + Sync + 'static> InformerHandle<T> {
    /// The collection.
    pub fn resource(&self) -> &Resource {
        &self.0.resource
    }

    /// Reads the cache.
    pub fn lister(&self) -> Lister<T> {
        Lister::new(Arc::clone(&self.0.store))
    }

    /// Adds an index, before or after the start. It is complete when this returns.
    ///
    /// The function returns a value, an `Option` or a `Vec`, of text, numbers, `bool`, [`Key`](informer_core::Key) or a
    /// type of one's own ([`IndexValue`]); the index then speaks that type.
    ///
    /// # Panics
    ///
    /// If there is an index of this name ([`try_index`](Self::try_index) is for those who cannot know), if the function
    /// panics on an object that is cached already, or if this is called inside an index function or other code that a cache
    /// calls while it changes.
    #[track_caller]
    pub fn index<V: IndexValues>(
        &self,
        name: &str,
        function: impl Fn(&Obj<T>) -> V + Send + Sync + 'static,
    ) -> Index<T, V::Value> {
        match self.try_index(name, function) {
            Ok(index) => index,
            Err(error) => panic!("{error}"),
        }
    }

    /// Adds an index, before or after the start. It is complete when this returns.
    ///
    /// # Errors
    ///
    /// If there is an index of this name; if the function panics on an object that is cached already. Later it runs
    /// where objects are decoded: one on which it panics is quarantined.
    ///
    /// [`Error::WouldDeadlock`] inside an index function, and inside other code that a cache calls while it changes, such as
    /// a comparison of contents: of this informer or another one. Reading the cache is allowed there.
    pub fn try_index<V: IndexValues>(
        &self,
        name: &str,
        function: impl Fn(&Obj<T>) -> V + Send + Sync + 'static,
    ) -> Result<Index<T, V::Value>, Error> {
        let function = move |object: &Obj<T>| {
            let _function = section::enter(Held::IndexFunction);
            function(object)
        };
        self.add_index(IndexDef::new(name, function))
    }

    fn add_index<V: IndexValue>(&self, def: IndexDef<T>) -> Result<Index<T, V>, Error> {
        let name = def.name().to_string();
        self.0.store.add_index(def)?;
        Ok(Index::new(Arc::clone(&self.0.store), name))
    }

    /// Takes an index away.
    ///
    /// # Errors
    ///
    /// If there is none of this name; [`Error::WouldDeadlock`] as for [`try_index`](Self::try_index).
    pub fn remove_index(&self, name: &str) -> Result<(), Error> {
        self.0.store.remove_index(name)
    }

    /// Reads an index that was added before, or will be; its values are texts. As long as there is none of this name,
    /// [`Index::get`] finds nothing, as of a value that nobody has: [`Index::try_get`] tells the two apart, and
    /// [`by_index_of`](Self::by_index_of) looks at once.
    pub fn by_index(&self, name: &str) -> Index<T> {
        Index::new(Arc::clone(&self.0.store), name.to_string())
    }

    /// Reads an index that was added before, with values of its type.
    ///
    /// # Errors
    ///
    /// If there is none of this name, or its values are of another type.
    pub fn by_index_of<V: IndexValue>(&self, name: &str) -> Result<Index<T, V>, Error> {
        self.read(|store| store.check_value_type::<V>(name))?;
        Ok(Index::new(Arc::clone(&self.0.store), name.to_string()))
    }

    /// True once the first complete list is in the cache. It stays true.
    pub fn has_synced(&self) -> bool {
        self.0.status.synced.load(Ordering::Acquire)
    }

    /// Where the informer stands.
    pub fn phase(&self) -> Phase {
        *self.0.status.phase.lock()
    }

    /// What failed since the last success, if anything.
    pub fn last_failure(&self) -> Option<Failure> {
        self.0.status.failure.lock().clone()
    }

    /// When the server last sent anything to this informer, if it ever did: for a liveness probe of a program. A quiet
    /// collection hears of a bookmark about once a minute, if its server sends any; [`phase`](Self::phase) says whether a
    /// watch is open.
    pub fn last_contact(&self) -> Option<Instant> {
        self.instant(&self.0.status.health.last_contact)
    }

    /// When the last event of a watch came, if any did. In a quiet collection that was days ago: no sign of a fault.
    pub fn last_event(&self) -> Option<Instant> {
        self.instant(&self.0.status.health.last_event)
    }

    /// Since when the cache is not kept up to date, if it is not: the first failure since a watch was last open.
    /// [`last_failure`](Self::last_failure) says why. What is cached can be read all the same.
    pub fn degraded_since(&self) -> Option<Instant> {
        self.instant(&self.0.status.health.degraded_since)
    }

    /// The handlers that the informer waits for: more waits for each of them than its
    /// [`Overflow::Pause`](informer_core::listener::Overflow::Pause) allows. While there is one, no event is taken, and the
    /// cache stands still: for all handlers and readers. Empty otherwise.
    pub fn held_up_by(&self) -> Vec<String> {
        self.0.status.held_up_by()
    }

    fn instant(&self, cell: &AtomicU64) -> Option<Instant> {
        let nanos = cell.load(Ordering::Relaxed);
        if nanos == NEVER { None } else { self.0.shared.clock.at(Time::from_nanos(nanos)) }
    }

    /// Reads the store under its lock: `f` must be short and must not call user code. It must read nothing but what it is
    /// given: a lister may wait for whoever waits to write, who waits for `f`. What would change a cache or wait for one is
    /// refused inside, as inside an index function.
    pub fn read<R>(&self, f: impl FnOnce(&Store<T>) -> R) -> R {
        let _store = section::enter(Held::Store(Arc::clone(&self.0.status.subject)));
        self.0.store.read(f)
    }

    /// The cache as it is now, for [`InformerSpec::preloaded`] of a later run; [`Saved::lines`] writes it. `None` before
    /// there is anything.
    pub fn saved(&self) -> Option<Saved<T>> {
        let (snapshot, version) = self.read(|store| (store.snapshot(), store.version().to_version()));
        if version.is_empty() {
            return None;
        }
        Some(Saved::new(&self.0.status.subject, snapshot.iter().cloned(), version).with_schema(&self.0.schema))
    }

    /// Lists the newest state again, whatever is cached: after a change of a conversion that changed no object.
    pub fn refresh(&self) {
        _ = self.0.post(Command::Refresh);
    }

    /// Stops this informer alone, and does not wait: its request is cancelled, and what is cached can be read as
    /// before. Its handlers end when the driver has seen it: until then what waits may still be delivered. Asked for
    /// again, the factory gives a fresh one, which the next start starts. May be called anywhere, and again. A
    /// controller that has it among its sources stops, too: it would act on a cache that stands still.
    pub fn request_stop(&self) {
        if let Some(roster) = self.0.roster.upgrade() {
            roster.stop(&self.0);
        }
    }

    /// True once the informer has stopped, or its factory.
    pub fn is_stopped(&self) -> bool {
        self.0.status.stopped.load(Ordering::Acquire)
    }

    /// Counts what must end before a stop is done: its driver, requests and handlers. Not a loop of the user's own over
    /// its events.
    pub fn lives(&self) -> &Arc<Lives> {
        &self.0.status.lives
    }

    /// Adds a handler's channel; the caller runs the loop that empties it.
    pub fn channel(&self, options: HandlerOptions) -> (Registration, Deliveries<T>) {
        let id = HandlerId(self.0.next_handler.fetch_add(1, Ordering::Relaxed));
        let mut options = options;
        if options.name.is_empty() {
            options.name = format!("{}-{}", self.0.resource, id.0);
        }
        let inner: Weak<Inner<T>> = Arc::downgrade(&self.0);
        let driven = Weak::clone(&inner);
        let driver = move |command| {
            if let Some(inner) = driven.upgrade() {
                _ = inner.post(command);
            }
        };
        let channel = Arc::new(Channel::new(id, &options, Arc::clone(&self.0.shared.changed), Box::new(driver)));
        let held = Arc::downgrade(&channel);
        let remove = move |id| {
            if let Some(channel) = held.upgrade() {
                channel.close();
            }
            if let Some(inner) = inner.upgrade() {
                _ = inner.post(Command::Remove(id));
            }
        };
        let registration = Registration::new(Arc::clone(&channel), Arc::new(remove), self.0.shared.in_async_runtime);
        let deliveries = Deliveries::new(Arc::clone(&channel));
        let resync = options.resync.unwrap_or(self.0.resync);
        let resync = Some(resync).filter(|period| !period.is_zero());
        if !self.0.post(Command::Add { channel: Arc::clone(&channel), resync }) {
            channel.close();
        }
        (registration, deliveries)
    }

    pub(crate) fn observer(&self) -> Option<Observer> {
        self.0.shared.observer.clone()
    }

    pub(crate) fn clock(&self) -> Clock {
        self.0.shared.clock
    }

    /// Adds a handler that is a plain function; the caller runs the loop.
    pub fn handler<F>(&self, options: HandlerOptions, function: F) -> (Registration, Box<dyn HandlerLoop>)
    where
        F: FnMut(&Notification<T>) + Send + 'static,
    {
        let on_synced = options.on_synced.clone();
        let (registration, deliveries) = self.channel(options);
        let observer = self.observer();
        let life = self.lives().enter();
        (registration, Box::new(FunctionLoop { deliveries, function, on_synced, observer, _life: life }))
    }
}

impl<T: Object> InformerHandle<T> {
    /// Adds an index of one label, before or after the start, and makes selectors that ask for this label cost the size
    /// of their answer: [`Lister::matching`] uses it by itself. It is complete when this returns.
    ///
    /// # Panics
    ///
    /// If the label is indexed already: [`try_label_index`](Self::try_label_index) is for those who cannot know. Where
    /// [`index`](Self::index) would.
    #[track_caller]
    pub fn label_index(&self, label: &str) -> Index<T> {
        match self.try_label_index(label) {
            Ok(index) => index,
            Err(error) => panic!("{error}"),
        }
    }

    /// The same for a label that may be indexed already.
    ///
    /// # Errors
    ///
    /// If there is an index called `label:` and this name; [`Error::WouldDeadlock`] as for [`try_index`](Self::try_index).
    pub fn try_label_index(&self, label: &str) -> Result<Index<T>, Error> {
        self.add_index(IndexDef::label(label))
    }
}

impl<T> fmt::Debug for InformerHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "informer of {}, {}", self.0.status.subject, *self.0.status.phase.lock())
    }
}

/// The loop of one handler, without its thread or task.
pub trait HandlerLoop: Send {
    /// Delivers one thing, if there is one, and with a notification the few that were claimed together with it.
    fn step(&mut self) -> Step;
    /// What to wait on after [`Step::Empty`].
    fn signal(&self) -> &Signal;

    /// Delivers until the handler ends: the whole life of a thread that has nothing else to do.
    fn run(&mut self) {
        loop {
            match self.step() {
                Step::Delivered => {}
                Step::Empty(seen) => _ = self.signal().wait_past(seen, None),
                Step::Closed => return,
            }
        }
    }
}

/// What a [`HandlerLoop`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Delivered something.
    Delivered,
    /// There is nothing: wait past this generation of the signal.
    Empty(u64),
    /// The handler was removed or the informer stopped: drop the loop.
    Closed,
}

struct FunctionLoop<T, F> {
    deliveries: Deliveries<T>,
    function: F,
    on_synced: Option<Arc<dyn Fn() + Send + Sync>>,
    observer: Option<Observer>,
    _life: Life,
}

impl<T, F> FunctionLoop<T, F> {
    fn panicked(&self, text: &str) {
        self.deliveries.mark_panic(text, |panic| tell(self.observer.as_ref(), panic));
    }
}

impl<T: Send + Sync, F: FnMut(&Notification<T>) + Send> HandlerLoop for FunctionLoop<T, F> {
    fn step(&mut self) -> Step {
        match self.deliveries.try_next() {
            Next::Empty(seen) => return Step::Empty(seen),
            Next::Closed => return Step::Closed,
            Next::Delivery(Lent::Notification(_)) => {
                let (function, deliveries) = (&mut self.function, &mut self.deliveries);
                // One guard for all that are claimed; after a panic the next step goes on behind the one that it was about.
                let mut last = 0;
                let delivered = guard::call(|| {
                    for (number, notification) in deliveries.claimed().iter().enumerate() {
                        if number > 0 && deliveries.is_closed() {
                            break;
                        }
                        last = number;
                        function(notification);
                    }
                });
                deliveries.go_to(last);
                if let Err(text) = delivered {
                    self.panicked(&text);
                }
            }
            Next::Delivery(Lent::Synced) => {
                if let Some(Err(text)) = self.on_synced.take().map(|told| guard::call(move || told())) {
                    self.panicked(&text);
                }
                self.deliveries.mark_synced();
            }
        }
        Step::Delivered
    }

    fn signal(&self) -> &Signal {
        self.deliveries.signal()
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::factory::{FactoryCore, FactoryOptions};
    use informer_core::DynamicObject;

    #[test]
    fn handlers_that_come_and_go_before_the_driver_looks_leave_nothing_behind() {
        let config = crate::Config::from_url("http://127.0.0.1:1").unwrap();
        let factory = FactoryCore::new(config, FactoryOptions::default());
        let pods = Resource::namespaced("", "v1", "pods", "Pod");
        let pods = factory.informer(InformerSpec::<DynamicObject>::of(pods)).unwrap();
        let (stays, _deliveries) = pods.channel(HandlerOptions::default());
        for _ in 0..100 {
            let (registration, _deliveries) = pods.channel(HandlerOptions::default());
            registration.remove();
        }
        assert_eq!(pods.0.mailbox.lock().len(), 1);
        stays.remove();
        assert!(pods.0.mailbox.lock().is_empty());
    }
}
