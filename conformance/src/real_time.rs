//! Plays a scenario in real time: the script on a loopback port, an informer of one of the runtimes in front of it.
//!
//! Both runtimes are played by the same code: what differs between them is [`Adapter`], a few calls. Time counts from
//! the informer's start.

use crate::loopback::Loopback;
use crate::outcome::{Event, Outcome, What};
use crate::scenario::{Action, HandlerSpec, IndexName, Scenario};
use crate::script::Script;
use crate::translate;
use informer_core::informer::Notice;
use informer_core::reflector::Phase;
use informer_core::{DynamicObject, Resource};
use informer_runtime::config::{Config, TokenCell};
use informer_runtime::factory::FactoryOptions;
use informer_runtime::handler::{HandlerOptions, Registration};
use informer_runtime::informer::{InformerHandle, InformerSpec};
use informer_runtime::observe::Observed;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a stop may take before the run counts as hung.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// The calls in which the runtimes differ.
pub trait Adapter: Sized {
    /// The runtime's name in an outcome.
    const NAME: &'static str;

    /// A factory with one informer, not started.
    fn new(config: Config, options: FactoryOptions, spec: InformerSpec<DynamicObject>) -> Self;
    /// The informer.
    fn informer(&self) -> &InformerHandle<DynamicObject>;
    /// Adds a handler.
    fn handle(&self, options: HandlerOptions, function: Handler) -> Registration;
    /// Starts the informer.
    fn start(&self);
    /// Holds the driver up, or lets it go on.
    fn hold(&self, held: bool);
    /// Stops everything, and says whether it ended in time.
    fn stop(&self, within: Duration) -> bool;
}

/// What a handler of a scenario is for an adapter.
pub type Handler = Box<dyn FnMut(&informer_core::listener::Notification<DynamicObject>) + Send>;

/// What was seen so far.
#[derive(Default)]
struct Seen {
    events: BTreeMap<String, Vec<Event>>,
    errors: Vec<crate::outcome::ErrorEntry>,
    phase: Option<Phase>,
    /// Everything after this moment is not part of the outcome.
    over: bool,
}

#[derive(Clone)]
struct Record {
    epoch: Instant,
    seen: Arc<Mutex<Seen>>,
}

impl Record {
    fn at_ms(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn event(&self, handler: &str, event: impl FnOnce(u64) -> Event) {
        let mut seen = self.lock();
        let at_ms = self.at_ms();
        if !seen.over {
            seen.events.entry(handler.to_owned()).or_default().push(event(at_ms));
        }
    }

    #[allow(clippy::wildcard_enum_match_arm)] // outcomes have no words for the rest
    fn observe(&self, observed: &Observed<'_>, handlers: &[HandlerSpec]) {
        let mut seen = self.lock();
        let at_ms = self.at_ms();
        if seen.over {
            return;
        }
        match observed {
            Observed::Notice { notice: Notice::Failure(failure), .. } => {
                seen.errors.push(translate::error(at_ms, failure));
            }
            Observed::Notice { notice: Notice::Phase(phase), .. } => seen.phase = Some(*phase),
            Observed::HandlerDisconnected { handler } => {
                let spec = handlers.iter().find(|spec| spec.name == *handler);
                seen.errors.extend(spec.map(|spec| translate::overflow_error(at_ms, spec)));
            }
            _ => {}
        }
    }
}

enum Happening<'a> {
    Add(&'a HandlerSpec),
    Remove(&'a str),
    Command(&'a Action),
}

/// Plays `scenario` from its start to its `runForMs`.
///
/// # Panics
/// If the loopback port cannot be had, or the adapter refuses the scenario's informer.
pub fn run<A: Adapter>(scenario: &Scenario) -> Outcome {
    let epoch = Instant::now();
    let loopback = Arc::new(Loopback::start(Script::new(&scenario.server), epoch).expect("a loopback port"));
    let record = Record { epoch, seen: Arc::new(Mutex::new(Seen::default())) };
    let token = TokenCell::default();
    let mut config = Config::from_url(&format!("http://{}", loopback.addr())).expect("a loopback address is a URL");
    if let Some(first) = scenario.first_token() {
        token.set(first);
        config = config.with_token_source(token.clone());
    }
    let adapter = A::new(config, options(scenario, &loopback, &record, &token), spec(scenario));
    if scenario.informer.indexes.contains(&IndexName::Namespace) && !scenario.resource.namespaced {
        adapter.informer().try_index("namespace", |object| object.key().namespace().to_owned()).expect("a free name");
    }

    let mut agenda: Vec<(u64, u8, Happening<'_>)> = Vec::new();
    for spec in &scenario.handlers {
        agenda.push((spec.add_at_ms, 0, Happening::Add(spec)));
        agenda.extend(spec.remove_at_ms.map(|at| (at, 1, Happening::Remove(&spec.name))));
    }
    agenda.extend(scenario.commands.iter().map(|command| (command.at_ms, 2, Happening::Command(&command.what))));
    agenda.sort_by_key(|(at_ms, order, _)| (*at_ms, *order));

    let mut handlers = BTreeMap::new();
    let mut stopped_at_ms = None;
    let mut started = false;
    let mut happen = |what: Happening<'_>| match what {
        Happening::Add(spec) => drop(handlers.insert(spec.name.clone(), add(&adapter, scenario, spec, &record))),
        Happening::Remove(name) => {
            if let Some(registration) = handlers.get(name) {
                Registration::remove(registration);
            }
        }
        Happening::Command(Action::Stop) => {
            if adapter.stop(STOP_WITHIN) {
                stopped_at_ms.get_or_insert(record.at_ms());
            }
        }
        Happening::Command(Action::Pause) => adapter.hold(true),
        Happening::Command(Action::Resume) => adapter.hold(false),
        Happening::Command(Action::SetToken(text)) => token.set(text.as_str()),
    };
    for (at_ms, _, what) in agenda {
        // A stop at 0 stops what runs, as in virtual time; what else is due at 0 is there when it starts.
        if !started && (at_ms > 0 || matches!(what, Happening::Command(Action::Stop))) {
            adapter.start();
            started = true;
        }
        if at_ms > scenario.run_for_ms {
            break;
        }
        sleep_until(epoch, at_ms);
        happen(what);
    }
    if !started {
        adapter.start();
    }
    sleep_until(epoch, scenario.run_for_ms);

    let mut outcome = Outcome::new(&scenario.name, A::NAME);
    {
        let mut seen = record.lock();
        seen.over = true;
        outcome.errors = std::mem::take(&mut seen.errors);
        outcome.phase = translate::phase(seen.phase.unwrap_or(Phase::Idle));
        outcome.handlers = std::mem::take(&mut seen.events);
        for spec in &scenario.handlers {
            outcome.handlers.entry(spec.name.clone()).or_default();
        }
        outcome.store = adapter.informer().read(|store| translate::store(store, &scenario.informer.indexes));
        outcome.requests = loopback.requests();
    }
    outcome.stopped_at_ms = stopped_at_ms;
    adapter.stop(STOP_WITHIN);
    outcome
}

fn sleep_until(epoch: Instant, at_ms: u64) {
    thread::sleep((epoch + Duration::from_millis(at_ms)).saturating_duration_since(Instant::now()));
}

fn options(scenario: &Scenario, loopback: &Arc<Loopback>, record: &Record, token: &TokenCell) -> FactoryOptions {
    let mut options = FactoryOptions::default();
    options.seed = Some(scenario.seed);
    let (observing, handlers) = (record.clone(), scenario.handlers.clone());
    options.observer = Some(Arc::new(move |observed: &Observed<'_>| observing.observe(observed, &handlers)));
    let (gate, token, with_token) = (Arc::clone(loopback), token.clone(), scenario.first_token().is_some());
    options.gate = Some(Arc::new(move |request: &informer_core::wire::Request| {
        let query: Vec<_> = request.query.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let mut headers = vec![
            ("accept".to_owned(), request.accept.to_owned()),
            ("accept-encoding".to_owned(), request.accept_encoding.to_owned()),
        ];
        if let (true, Some(secret)) = (with_token, token.get()) {
            headers.push(("authorization".to_owned(), format!("Bearer {}", secret.expose())));
        }
        gate.gate(&request.path, &query, &headers)
    }));
    options
}

fn spec(scenario: &Scenario) -> InformerSpec<DynamicObject> {
    let config = translate::config(scenario);
    let resource: Resource = config.reflector.resource.clone();
    InformerSpec::of(resource).configured(config).resync(Duration::from_millis(scenario.informer.resync_ms))
}

fn add<A: Adapter>(adapter: &A, scenario: &Scenario, spec: &HandlerSpec, record: &Record) -> Registration {
    let mut options = HandlerOptions::named(&spec.name);
    options.resync = Some(Duration::from_millis(scenario.resync_ms(spec)));
    options.overflow = translate::overflow(spec.overflow);
    let (name, synced) = (spec.name.clone(), record.clone());
    options.on_synced = Some(Arc::new(move || synced.event(&name, |at_ms| Event { at_ms, what: What::Synced })));
    let (name, told, stall) = (spec.name.clone(), record.clone(), Duration::from_millis(spec.stall_ms));
    let registration = adapter.handle(
        options,
        Box::new(move |notification| {
            told.event(&name, |at_ms| translate::event(at_ms, notification));
            thread::sleep(stall);
        }),
    );
    // A removal is complete when no call runs any more; a stop is not a removal.
    let (gone, name, record) = (registration.clone(), spec.name.clone(), record.clone());
    thread::spawn(move || {
        if gone.wait_finished().is_ok() && gone.was_removed() {
            record.event(&name, |at_ms| Event { at_ms, what: What::Removed });
        }
    });
    registration
}
