//! Plays a scenario against the bare core in virtual time: no clock, no thread, no socket, and the same outcome twice.
//!
//! The driver of the module docs of [`informer_core::informer`], with store and rings in plain cells, and around it the
//! world of the script: answers that arrive, handlers whose calls take time, a user who stops, pauses and sets tokens.
//!
//! What happens at one instant happens in this order: the machine's timers, then what the script has for this instant
//! in the order in which it was scheduled (handlers that come and go, commands, arrivals), then calls of handlers. Time
//! then jumps to the next thing that is due.
//!
//! Of the contract of every machine it asserts: a deadline is later than now; at most one request is in flight; a stop
//! leaves none; no body stays paused, since decoding takes no time here.
//!
//! ```
//! use informer_conformance::outcome::{Phase, What};
//! use informer_conformance::scenario::Scenario;
//! use informer_conformance::virtual_time;
//!
//! let scenario = Scenario::from_str(r#"{
//!     "name": "n", "seed": 1, "runForMs": 1000, "informer": {"listStrategy": "paged"},
//!     "resource": {"group": "", "version": "v1", "resource": "pods", "kind": "Pod", "namespaced": true},
//!     "server": [{"when": {"verb": "list"}, "reply": {"afterMs": 5, "body": [{"json":
//!                     {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "5"}, "items": []}}]}},
//!                {"when": {"verb": "watch"}, "reply": {"end": "hang"}}]
//! }"#).unwrap();
//! let outcome = virtual_time::run(&scenario);
//! assert_eq!(outcome.phase, Phase::Watching);
//! assert_eq!((outcome.handlers["h"][0].at_ms, &outcome.handlers["h"][0].what), (5, &What::Synced));
//! assert_eq!(outcome.requests[1].query["resourceVersion"], "5");
//! ```

mod answer;
mod handler;

use crate::outcome::{Outcome, Request, VIRTUAL, VIRTUAL_DELTA_FIFO};
use crate::scenario::{Action, Scenario, Verb};
use crate::script::{self, Script};
use crate::translate;
use answer::{Answer, Arrival};
use handler::Handler;
use informer_core::DynamicObject;
use informer_core::decode::{Codec, NoGuard};
use informer_core::fifo::QueueKind;
use informer_core::informer::{HandlerId, Informer, Input, Notice, Output};
use informer_core::reflector::Phase;
use informer_core::store::Store;
use informer_core::time::{Duration, Time};
use informer_core::wire::{self, RequestId};
use std::collections::{BTreeMap, VecDeque};

/// How much may happen at one instant before the run is given up: a machine that never comes to rest is a fault. The
/// largest script has a hundred thousand parts without a delay.
pub const MAX_STEPS_PER_INSTANT: u64 = 10_000_000;

/// Plays `scenario` from its start to its `runForMs`.
///
/// # Panics
/// If the core breaks the contract of a machine.
pub fn run(scenario: &Scenario) -> Outcome {
    run_with(scenario, QueueKind::InOrder)
}

/// The same with another queue between decoder and store.
///
/// # Panics
/// If the core breaks the contract of a machine.
pub fn run_with(scenario: &Scenario, queue: QueueKind) -> Outcome {
    let mut world = World::new(scenario, queue);
    world.play();
    world.into_outcome()
}

struct World<'a> {
    scenario: &'a Scenario,
    now: Time,
    /// What is to come, in the order in which it happens: by time, then by the number of its scheduling.
    agenda: BTreeMap<(Time, u64), Happening>,
    scheduled: u64,
    script: Script,
    token: Option<String>,
    network: Network,
    /// What waits for the driver while it does not run.
    held: Option<VecDeque<ForDriver>>,
    informer: Informer<DynamicObject>,
    codec: Codec<DynamicObject>,
    store: Store<DynamicObject>,
    handlers: Vec<Handler<'a>>,
    /// When the machine wants to be called.
    deadline: Option<Time>,
    outcome: Outcome,
}

enum Happening {
    SetToken(String),
    Pause,
    Resume,
    ForDriver(ForDriver),
}

/// What the driver hands to the machine; during a pause it waits.
enum ForDriver {
    Start,
    Stop,
    AddHandler(usize),
    RemoveHandler(usize),
    Arrived(RequestId, Arrival),
}

/// Requests in flight and the connections under them: HTTP/1.1, used again after a cleanly ended answer.
#[derive(Default)]
struct Network {
    exchanges: BTreeMap<RequestId, Exchange>,
    /// The number of the last connection that was made.
    made: u64,
    idle: Option<u64>,
    /// The body that is not to be read at the moment.
    paused: Option<RequestId>,
}

struct Exchange {
    answer: Answer,
    connection: u64,
}

impl Network {
    /// Opens an exchange and returns the number of its connection, 0 if it was refused.
    fn open(&mut self, request: &wire::Request, answer: Answer) -> u64 {
        let connection = if answer.is_refused() {
            0
        } else {
            let idle = self.idle.take().filter(|_| !request.fresh_connection);
            idle.unwrap_or_else(|| {
                self.made += 1;
                self.made
            })
        };
        self.exchanges.insert(request.id, Exchange { answer, connection });
        debug_assert!(self.exchanges.len() <= 1, "at most one request of an informer is in flight (I27)");
        connection
    }

    /// The answer of `id` has ended.
    fn close(&mut self, id: RequestId) {
        if let Some(Exchange { answer, connection }) = self.exchanges.remove(&id)
            && answer.is_reusable()
        {
            self.idle = Some(connection);
        }
    }
}

impl<'a> World<'a> {
    fn new(scenario: &'a Scenario, queue: QueueKind) -> Self {
        let mut config = translate::config(scenario);
        config.queue = queue;
        let in_order = queue == QueueKind::InOrder;
        let mut store = Store::new(scenario.seed);
        for name in &scenario.informer.indexes {
            let index = translate::index(*name);
            if !store.has_index(index.name()) {
                store.add_index(index).expect("its name is free");
            }
        }
        let mut world = World {
            scenario,
            now: Time::ZERO,
            agenda: BTreeMap::new(),
            scheduled: 0,
            script: Script::new(&scenario.server),
            token: scenario.first_token().map(str::to_owned),
            network: Network::default(),
            held: None,
            informer: Informer::new(config, scenario.seed),
            codec: Codec::new(translate::resource(scenario)),
            store,
            handlers: scenario.handlers.iter().map(Handler::new).collect(),
            deadline: None,
            outcome: Outcome::new(&scenario.name, if in_order { VIRTUAL } else { VIRTUAL_DELTA_FIFO }),
        };
        world.schedule_script();
        world
    }

    /// Everything whose time stands in the file. Handlers that are there from the beginning come before the start.
    fn schedule_script(&mut self) {
        for (n, handler) in self.scenario.handlers.iter().enumerate() {
            self.schedule(Time::from_millis(handler.add_at_ms), Happening::ForDriver(ForDriver::AddHandler(n)));
            if let Some(at_ms) = handler.remove_at_ms {
                self.schedule(Time::from_millis(at_ms), Happening::ForDriver(ForDriver::RemoveHandler(n)));
            }
        }
        self.schedule(Time::ZERO, Happening::ForDriver(ForDriver::Start));
        for command in &self.scenario.commands {
            let what = match &command.what {
                Action::Stop => Happening::ForDriver(ForDriver::Stop),
                Action::Pause => Happening::Pause,
                Action::Resume => Happening::Resume,
                Action::SetToken(token) => Happening::SetToken(token.clone()),
            };
            self.schedule(Time::from_millis(command.at_ms), what);
        }
    }

    fn schedule(&mut self, at: Time, what: Happening) {
        self.scheduled += 1;
        self.agenda.insert((at, self.scheduled), what);
    }

    fn play(&mut self) {
        let end = Time::from_millis(self.scenario.run_for_ms);
        // Ends: each round is later than the one before, up to the end.
        while let Some(next) = self.next_instant().filter(|next| *next <= end) {
            debug_assert!(next > self.now || self.now == Time::ZERO, "time goes on");
            self.now = next;
            self.instant();
        }
    }

    fn next_instant(&self) -> Option<Time> {
        let scheduled = self.agenda.first_key_value().map(|((at, _), _)| *at);
        let timer = self.deadline.filter(|_| self.held.is_none());
        let calls = self.handlers.iter().filter_map(Handler::wakes_at).min();
        [scheduled, timer, calls].into_iter().flatten().min()
    }

    fn instant(&mut self) {
        if self.held.is_none() && self.deadline.is_some_and(|at| at <= self.now) {
            self.handle(Input::Tick);
        }
        let mut steps = 0;
        while let Some(next) = self.agenda.first_entry().filter(|next| next.key().0 <= self.now) {
            let what = next.remove();
            self.happens(what);
            steps += 1;
            assert!(steps < MAX_STEPS_PER_INSTANT, "{:?}: the machine does not come to rest", self.now);
        }
        for handler in &mut self.handlers {
            handler.run(self.now);
        }
    }

    fn happens(&mut self, what: Happening) {
        match what {
            Happening::SetToken(token) => self.token = Some(token),
            Happening::Pause => drop(self.held.get_or_insert_default()),
            Happening::Resume => self.resume(),
            Happening::ForDriver(what) => {
                if let ForDriver::Arrived(id, _) = &what {
                    self.schedule_arrival(*id); // the server goes on, whether the driver runs or not
                }
                match &mut self.held {
                    Some(held) => held.push_back(what),
                    None => self.drive(what),
                }
            }
        }
    }

    fn resume(&mut self) {
        let Some(held) = self.held.take() else { return };
        self.handle(Input::Tick);
        for what in held {
            self.drive(what);
        }
    }

    fn drive(&mut self, what: ForDriver) {
        match what {
            ForDriver::Start => self.handle(Input::Start),
            ForDriver::Stop => self.stop(),
            ForDriver::AddHandler(n) => {
                // After a stop there is nothing that a handler could be told.
                if self.informer.phase() != Phase::Stopped {
                    let resync = translate::resync(self.scenario, self.handlers[n].spec());
                    self.handle(Input::AddHandler { id: id_of(n), resync });
                }
            }
            ForDriver::RemoveHandler(n) => self.handle(Input::RemoveHandler { id: id_of(n) }),
            ForDriver::Arrived(id, arrival) => {
                // What was on its way when the request was given up is not read any more.
                if self.network.exchanges.contains_key(&id) {
                    match arrival {
                        Arrival::Connected => self.handle(Input::Connected { id }),
                        Arrival::Head(head) => self.handle(Input::Head { id, head: &head }),
                        Arrival::Body(bytes) => self.handle(Input::Body { id, bytes: &bytes }),
                        Arrival::End(end) => {
                            self.network.close(id);
                            self.handle(Input::End { id, end: &end });
                        }
                    }
                }
            }
        }
    }

    fn stop(&mut self) {
        if self.informer.phase() == Phase::Stopped {
            return;
        }
        self.handle(Input::Stop);
        assert!(self.network.exchanges.is_empty(), "a stop cancels the request in flight");
        for handler in &mut self.handlers {
            handler.stop();
        }
        self.outcome.stopped_at_ms = Some(self.now.as_millis());
    }

    /// One input, and everything that the machine asks for because of it.
    fn handle(&mut self, input: Input<'_, DynamicObject>) {
        self.informer.handle(self.now, input);
        for _ in 0..MAX_STEPS_PER_INSTANT {
            match self.informer.poll_output() {
                Output::Send(request) => self.send(&request),
                Output::Cancel(id) => self.cancel(id),
                Output::Pause(id) => self.network.paused = Some(id),
                Output::Resume(id) => {
                    assert_eq!(self.network.paused.take(), Some(id), "only what was paused is resumed");
                }
                Output::Decode(mut job) => {
                    job.probe(&self.store);
                    let decoded = job.decode(&self.codec, &self.store.indexers(), &NoGuard);
                    self.informer.handle(self.now, Input::Decoded(decoded));
                }
                Output::Commit(commit) => {
                    let done = self.store.commit(commit);
                    for notification in &done.notifications {
                        self.handlers.iter_mut().for_each(|handler| handler.push(notification));
                    }
                    self.informer.handle(self.now, Input::Committed(done.into_receipt()));
                    self.remove_overflowed();
                }
                Output::Attach(id) => self.handlers[place_of(id)].attach(self.store.snapshot()),
                Output::Detach(id) => self.handlers[place_of(id)].leave(),
                Output::Resync(id) => self.handlers[place_of(id)].resync(self.store.snapshot()),
                Output::Notice(Notice::Failure(failure)) => {
                    self.outcome.errors.push(translate::error(self.now.as_millis(), &failure));
                }
                Output::Unwanted(_) | Output::Notice(_) => {}
                Output::Wait(deadline) => {
                    self.deadline = deadline.map(|deadline| {
                        assert!(deadline.at > self.now, "{:?}: {deadline:?} is not later than now", self.now);
                        deadline.at
                    });
                    assert_eq!(self.network.paused, None, "nothing waits to be decoded, so every body is read");
                    return;
                }
                Output::Begin(id) | Output::Complete(id) => panic!("{id:?}: no scenario begins with a saved state"),
            }
        }
        panic!("{:?}: the machine asks for more and more and never waits", self.now);
    }

    /// Handlers that fell behind under a policy that does not forgive it.
    fn remove_overflowed(&mut self) {
        for (n, handler) in self.handlers.iter().enumerate().filter(|(_, handler)| handler.overflowed()) {
            self.outcome.errors.push(translate::overflow_error(self.now.as_millis(), handler.spec()));
            self.informer.handle(self.now, Input::RemoveHandler { id: id_of(n) });
        }
    }

    fn send(&mut self, request: &wire::Request) {
        let at_ms = self.now.as_millis();
        let query: Vec<_> = request.query.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let mut headers = vec![
            ("accept".to_owned(), request.accept.to_owned()),
            ("accept-encoding".to_owned(), request.accept_encoding.to_owned()),
        ];
        headers.extend(self.token.iter().map(|token| ("authorization".to_owned(), format!("Bearer {token}"))));
        let answer = self.script.request(at_ms, Verb::of(&query), &query, &headers);
        let mut record = Request::new(at_ms, &request.path, &query, &headers);
        record.unexpected = matches!(answer, script::Answer::Hang { unexpected: true });
        record.connection = self.network.open(request, Answer::new(answer));
        self.outcome.requests.push(record);
        self.schedule_arrival(request.id);
    }

    fn schedule_arrival(&mut self, id: RequestId) {
        let Some(exchange) = self.network.exchanges.get_mut(&id) else { return };
        if let Some((delay_ms, arrival)) = exchange.answer.next() {
            let at = self.now + Duration::from_millis(delay_ms);
            self.schedule(at, Happening::ForDriver(ForDriver::Arrived(id, arrival)));
        }
    }

    /// Closes the connection of a request: nothing of it arrives any more, and nobody else can use it.
    fn cancel(&mut self, id: RequestId) {
        self.network.exchanges.remove(&id);
        if self.network.paused == Some(id) {
            self.network.paused = None;
        }
        self.agenda
            .retain(|_, what| !matches!(what, Happening::ForDriver(ForDriver::Arrived(other, _)) if *other == id));
    }

    fn into_outcome(self) -> Outcome {
        let mut outcome = self.outcome;
        outcome.phase = translate::phase(self.informer.phase());
        outcome.store = translate::store(&self.store, &self.scenario.informer.indexes);
        outcome.handlers =
            self.handlers.into_iter().map(|handler| (handler.spec().name.clone(), handler.into_events())).collect();
        outcome
    }
}

fn id_of(handler: usize) -> HandlerId {
    HandlerId(handler as u64)
}

fn place_of(id: HandlerId) -> usize {
    usize::try_from(id.0).expect("the numbers of handlers are their places in the scenario")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{ErrorEntry, Event};

    const LIST: &str = r#"{"when": {"verb": "list"}, "reply": {"afterMs": 5, "body": [{"json": {"kind": "PodList",
        "apiVersion": "v1", "metadata": {"resourceVersion": "5"}, "items": [
            {"metadata": {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "3"}}]}}]}}"#;

    fn played(rest: &str, server: &[&str]) -> Outcome {
        let server = server.join(",");
        let text = format!(
            r#"{{"name": "n", "seed": 1, "runForMs": 10000, "informer": {{"listStrategy": "paged"}}, {rest}
                "resource": {{"group": "", "version": "v1", "resource": "pods", "kind": "Pod", "namespaced": true}},
                "server": [{server}]}}"#
        );
        run(&Scenario::from_str(&text).unwrap_or_else(|fault| panic!("{fault}")))
    }

    /// A watch whose one part brings the added objects `names`, after `after_ms`.
    fn watch(after_ms: u64, names: &[&str]) -> String {
        let event = |(n, name): (usize, &&str)| {
            let version = n + 6;
            format!(
                r#"{{"type": "ADDED", "object": {{"metadata":
                    {{"name": "{name}", "namespace": "ns", "uid": "u", "resourceVersion": "{version}"}}}}}}"#
            )
        };
        let text = serde_json::to_string(&names.iter().enumerate().map(event).collect::<String>()).unwrap();
        format!(
            r#"{{"when": {{"verb": "watch"}}, "reply": {{"body": [{{"afterMs": {after_ms}, "text": {text}}}], "end": "hang"}}}}"#
        )
    }

    fn told(events: &[Event]) -> Vec<String> {
        events.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_connection_is_used_again_only_after_a_clean_end() {
        let outcome = played(
            "",
            &[
                r#"{"when": {"verb": "list"}, "times": 1, "reply": {"status": 500}}"#,
                r#"{"when": {"verb": "list"}, "times": 1, "reply": {"refuse": true}}"#,
                r#"{"when": {"verb": "list"}, "times": 1, "reply": {"end": "reset"}}"#,
                LIST,
                &watch(0, &[]),
            ],
        );
        let numbers: Vec<_> = outcome.requests.iter().map(|request| request.connection).collect();
        assert_eq!(numbers, [1, 0, 1, 2, 2], "a refused one is none, a torn one is gone");
    }

    #[test]
    fn the_connection_of_a_request_that_was_given_up_is_gone() {
        let outcome = played(
            r#""commands": [{"atMs": 100, "do": "stop"}],"#,
            &[r#"{"when": {"verb": "list"}, "reply": {"afterMs": 200}}"#],
        );
        assert_eq!((outcome.phase, outcome.stopped_at_ms), (crate::outcome::Phase::Stopped, Some(100)));
        assert_eq!(outcome.requests.len(), 1);
        assert_eq!(outcome.errors, [], "what it would have said after the stop never arrived");
    }

    #[test]
    fn a_pause_holds_arrivals_back_and_not_the_calls_of_handlers() {
        let rest = r#""handlers": [{"name": "h", "stallMs": 100}],
            "commands": [{"atMs": 50, "do": "pause"}, {"atMs": 500, "do": "resume"}],"#;
        let outcome = played(rest, &[LIST, &watch(60, &["b"])]);
        assert_eq!(told(&outcome.handlers["h"]), ["add ns/a 3@5ms", "synced@105ms", "add ns/b 6@500ms"]);
    }

    #[test]
    fn a_handler_that_overflows_is_removed_and_named() {
        let rest = r#""handlers": [{"name": "slow", "stallMs": 1000, "overflow": {"policy": "disconnect", "limit": 2}},
            {"name": "fast"}],"#;
        let outcome = played(rest, &[LIST, &watch(100, &["b", "c", "d"])]);
        assert_eq!(told(&outcome.handlers["slow"]), ["add ns/a 3@5ms", "removed@1005ms"]);
        assert_eq!(outcome.handlers["fast"].len(), 5);
        let [ErrorEntry { at_ms: 105, code: 0, reason, message, .. }] = &outcome.errors[..] else {
            panic!("{:?}", outcome.errors)
        };
        assert_eq!(reason, translate::HANDLER_OVERFLOW);
        assert!(message.contains("\"slow\""), "{message}");
    }

    #[test]
    fn a_handler_added_after_a_stop_is_told_nothing() {
        let rest = r#""handlers": [{"name": "h", "addAtMs": 200}], "commands": [{"atMs": 100, "do": "stop"}],"#;
        let outcome = played(rest, &[LIST, &watch(0, &[])]);
        assert_eq!((outcome.stopped_at_ms, told(&outcome.handlers["h"])), (Some(100), vec![]));
        assert_eq!(outcome.store.objects["ns/a"], "3", "the cache stays readable");
    }

    #[test]
    fn a_request_without_an_answer_is_recorded_as_unexpected() {
        let outcome = played("", &[LIST]);
        let unexpected: Vec<_> = outcome.requests.iter().map(|request| request.unexpected).collect();
        assert_eq!(unexpected, [false, true]);
    }

    #[test]
    fn the_token_of_the_moment_goes_with_each_request() {
        let outcome = played(r#""commands": [{"atMs": 3, "do": "setToken", "token": "B"}],"#, &[LIST, &watch(0, &[])]);
        let tokens: Vec<_> = outcome.requests.iter().map(|request| request.headers["authorization"].as_str()).collect();
        assert_eq!(tokens, ["Bearer A", "Bearer B"]);
        assert!(!played("", &[LIST, &watch(0, &[])]).requests[0].headers.contains_key("authorization"));
    }
}
