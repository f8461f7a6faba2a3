//! The informer under a server, a driver and handlers that do anything: the harness of the reflector's own tests, with a
//! script made of bytes.
//!
//! First three bytes: the list strategy and laziness, and a seed. Then steps, each a byte and its arguments; `step` says
//! which. What must hold: each handler is told legal chains (added → updated* → deleted), a list is committed only if one
//! was complete, requests stay within the envelope of the backoff, there is always a request or a deadline, and a stop is
//! the end.

#[allow(dead_code, reason = "the reflector's tests use all of it")]
#[path = "../../core/src/reflector/tests/harness.rs"]
mod harness;

use crate::bytes::Bytes;
use crate::gzip::compress;
use crate::informer::Input;
use crate::listener::Overflow;
use crate::reflector::{ListStrategy, Phase};
use crate::time::{Duration, Time};
use crate::wire::{Head, RequestId};
use harness::{World, bookmark, config, end_marker, error_event, event, page, status, too_large};

/// More steps find nothing new, and cost time.
const STEPS: usize = 400;

/// Reads one input.
///
/// # Panics
///
/// If something is wrong.
pub fn run(data: &[u8]) {
    let mut data = Bytes::new(data);
    let strategies = [ListStrategy::Auto, ListStrategy::Streaming, ListStrategy::Paged];
    let choice = data.below(6);
    let mut script = Script {
        world: World::with(config(strategies[choice % 3]), u64::from(data.short())),
        gzip: false,
        refreshes: 0,
        complete: 0,
    };
    script.world.lazy = choice >= 3;
    script.world.input(Input::Start);
    let start = script.world.now;
    for _ in 0..STEPS {
        if data.is_empty() {
            break;
        }
        script.step(&mut data);
        script.world.assert_alive();
    }
    let Script { mut world, refreshes, complete, .. } = script;
    while world.work() {}
    world.assert_paced(start, refreshes);
    let committed = world.log.iter().filter(|line| *line == "commit, list true").count();
    assert!(committed <= complete, "{committed} lists were committed, and {complete} were complete");

    let ids: Vec<u64> = world.listeners.keys().copied().collect();
    for id in ids {
        world.deliver(id, usize::MAX);
        let listener = &world.listeners[&id];
        assert_eq!(listener.attached, world.informer.has_synced());
        if listener.attached {
            let stored = world.store.iter().map(|object| (object.key().to_string(), object.version().to_string()));
            assert_eq!(listener.view, stored.collect(), "handler {id} knows what the store has");
        }
    }
    world.input(Input::Stop);
    while world.work() {}
    assert_eq!((world.phase(), world.current, world.deadline), (Phase::Stopped, None, None));
}

struct Script {
    world: World,
    /// The body in flight is gzip.
    gzip: bool,
    refreshes: u64,
    /// Lists and streaming lists that may have been complete.
    complete: usize,
}

impl Script {
    fn step(&mut self, data: &mut Bytes<'_>) {
        let world = &mut self.world;
        match data.below(20) {
            0 => world.pass(u64::from(data.short())),
            1 => world.pass(u64::from(data.short()) * 20),
            2 => {
                if let Some(deadline) = world.deadline {
                    world.now = deadline.at;
                    world.input(Input::Tick);
                }
            }
            3 => while world.work() {},
            4 => {
                world.work();
            }
            5 => {
                let id = u64::from(data.byte() % 3);
                if world.listeners.contains_key(&id) {
                    world.remove_handler(id);
                } else {
                    let resync = [None, Some(Duration::from_secs(5))][data.below(2)];
                    let limit = data.below(8);
                    world.add_handler_with(id, resync, Overflow::Coalesce { limit: limit.max(1) });
                }
            }
            6 => {
                let id = u64::from(data.byte() % 3);
                if world.listeners.contains_key(&id) {
                    world.deliver(id, data.below(256));
                }
            }
            7 => match data.below(3) {
                0 => {
                    self.refreshes += 1;
                    world.input(Input::Refresh);
                }
                1 => {
                    let now = core::mem::replace(&mut world.now, Time::ZERO);
                    world.informer.handle(Time::ZERO, Input::Tick);
                    world.now = now;
                    world.input(Input::Tick);
                }
                _ => {
                    let id = RequestId(world.current.map_or(1, |id| id.0) + 7);
                    world.input(Input::Body { id, bytes: b"{" });
                }
            },
            answer if world.current.is_some() => self.answer(answer, data),
            _ => {}
        }
    }

    /// What a server does with the request in flight.
    fn answer(&mut self, which: usize, data: &mut Bytes<'_>) {
        let world = &mut self.world;
        match which {
            8 => world.connected(),
            9 | 10 => {
                let codes = [200, 200, 200, 200, 200, 301, 400, 401, 403, 404, 410, 422, 429, 500, 503, 504];
                let mut head = Head::new(codes[data.below(codes.len())]);
                let choice = data.byte();
                head.retry_after = [None, None, None, Some("0"), Some("3"), Some("99999")][usize::from(choice % 6)]
                    .map(ToString::to_string);
                self.gzip = choice / 6 % 3 == 2;
                if self.gzip {
                    head.content_encoding = Some("gzip".into());
                }
                world.head_with(&head);
            }
            11 => {
                if world.last.as_ref().is_some_and(|request| request.query_value("watch").is_none()) {
                    self.complete += 1;
                }
                world.close();
            }
            12 if data.below(2) == 0 => world.broken(),
            12 => world.refused(),
            13 => {
                let most = data.below(256);
                self.body(data.take(most));
            }
            _ => {
                let text = self.text(which, data);
                let cut = usize::from(data.byte());
                let cut = if cut < 128 { text.len() } else { (cut - 128) * text.len() / 127 };
                self.body(&text.as_bytes()[..cut]);
            }
        }
    }

    fn text(&self, which: usize, data: &mut Bytes<'_>) -> String {
        let name = ["a", "b", "c", "d", "e/f"][data.below(5)];
        let version = data.byte().to_string();
        match which {
            14 | 15 => event(["ADDED", "MODIFIED", "DELETED", "PATCHED"][data.below(4)], name, &version),
            16 => {
                let versions = [data.byte(), data.byte(), data.byte()].map(|version| version.to_string());
                let items: Vec<_> = ["a", "b", "c"].into_iter().zip(versions.iter().map(String::as_str)).collect();
                let from = data.below(3);
                let to = data.below(3).max(from);
                page(&version, ["", "", "t", "u"][data.below(4)], &items[from..=to])
            }
            17 if data.below(2) == 0 => bookmark(&version),
            17 => end_marker(&version),
            18 => error_event(
                [410, 500, 504, 0][data.below(4)],
                ["Expired", "InternalError", "Timeout", ""][data.below(4)],
            ),
            _ => match data.below(5) {
                0 => status(410, "Expired"),
                1 => too_large(),
                // One key several times: no server sends that, and a cache that lags and pages might.
                2 => {
                    let versions = [data.byte(), data.byte(), data.byte()].map(|version| version.to_string());
                    page(&version, "", &[("a", &versions[0]), (name, &versions[1]), ("a", &versions[2])])
                }
                3 => r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"5","labels":7}}}"#.into(),
                _ => {
                    r#"{"type":"MODIFIED","object":{"metadata":{"name":"a","resourceVersion":5},"metadata":{}}}"#.into()
                }
            },
        }
    }

    fn body(&mut self, plain: &[u8]) {
        if plain.windows(10).any(|window| window == b"events-end") {
            self.complete += 1;
        }
        let id = self.world.id();
        let gzip = if self.gzip { compress(plain) } else { Vec::new() };
        let bytes = if self.gzip { gzip.as_slice() } else { plain };
        self.world.input(Input::Body { id, bytes });
    }
}
