//! Between a decoded event and the handler that is told of it nothing is allocated, once buffers have their size: counted
//! at the allocator. What decoding itself allocates is the object, and belongs to it.

use allocation_counter::measure;
use informer_core::decode::{Codec, DecodeJob, NoGuard};
use informer_core::fed::{Change, Fed};
use informer_core::informer::{Informer, InformerConfig, Input, Output};
use informer_core::listener::{Batches, Overflow, Ring, Turn};
use informer_core::reflector::{End, ListStrategy};
use informer_core::store::{IndexDef, Store};
use informer_core::time::Time;
use informer_core::wire::{Head, RequestId};
use informer_core::{DynamicObject, Key, Obj, Resource, Uid, Version};

/// More than one word of a set of slots holds, and more than one chunk.
const OBJECTS: usize = 500;

const EVENTS: usize = 10_000;

/// How many events one read of the body brings: less and more than a commit takes.
const READS: [usize; 5] = [1, 7, 64, 200, 1];

struct World {
    informer: Informer<usize>,
    store: Store<usize>,
    ring: Ring<usize>,
    batches: Batches<usize>,
    codec: Codec<usize>,
    requests: u64,
    version: usize,
    /// Allocations of the last read, up to its first `Decode`.
    reading: u64,
    /// Allocations between an answered `Decode` and the handler that has walked past the notification.
    allocations: u64,
    told: usize,
}

impl World {
    /// Synced, with an open watch.
    fn new(indexes: usize) -> World {
        let pods = Resource::namespaced("", "v1", "pods", "Pod");
        let mut config = InformerConfig::new(pods.clone());
        config.reflector.strategy = ListStrategy::Paged;
        let mut store = Store::new(7);
        let parity = IndexDef::new("parity", |object: &Obj<usize>| object.key().name().len() % 2 == 0);
        [IndexDef::namespace(), parity].into_iter().take(indexes).for_each(|index| store.add_index(index).unwrap());
        let mut world = World {
            informer: Informer::new(config, 7),
            store,
            ring: Ring::new(Overflow::default()),
            batches: Batches::new(),
            // What is cached is a number: the decoder allocates nothing that is kept.
            codec: Codec::<DynamicObject>::new(pods).map(|object| Ok(object.json().len())),
            requests: 0,
            version: OBJECTS,
            reading: 0,
            allocations: 0,
            told: 0,
        };
        world.input(Input::Start);
        let items: Vec<String> = (0..OBJECTS).map(|n| object(n, n + 1)).collect();
        let list = format!(
            r#"{{"kind":"PodList","metadata":{{"resourceVersion":"{OBJECTS}"}},"items":[{}]}}"#,
            items.join(",")
        );
        let (id, head) = (RequestId(world.requests), Head::new(200));
        world.input(Input::Head { id, head: &head });
        world.input(Input::Body { id, bytes: list.as_bytes() });
        world.input(Input::End { id, end: &End::Closed });
        world.ring.replay(world.store.snapshot());
        world.walk();
        let id = RequestId(world.requests);
        world.input(Input::Head { id, head: &head });
        assert!(world.informer.has_synced() && world.store.len() == OBJECTS);
        world
    }

    /// One read of the watch brings so many changes, and a bookmark behind them.
    fn read(&mut self, changes: usize) {
        let mut body = String::new();
        for _ in 0..changes {
            self.version += 1;
            let object = object(self.version * 7 % OBJECTS, self.version);
            body.push_str(&format!("{{\"type\":\"MODIFIED\",\"object\":{object}}}\n"));
        }
        let bookmark = format!(r#"{{"metadata":{{"resourceVersion":"{}"}}}}"#, self.version);
        body.push_str(&format!("{{\"type\":\"BOOKMARK\",\"object\":{bookmark}}}\n"));
        self.input(Input::Body { id: RequestId(self.requests), bytes: body.as_bytes() });
    }

    fn input(&mut self, input: Input<'_, usize>) {
        let mut job = None;
        self.reading = measure(|| {
            self.informer.handle(Time::ZERO, input);
            job = self.drain();
        })
        .count_total;
        while let Some(mut next) = job.take() {
            next.probe(&self.store);
            // As a runtime does it: what its handlers have passed is memory for the batches to come.
            let counted = measure(|| self.batches.reclaim(2 * next.len(), |told| told.for_each(drop)));
            self.allocations += counted.count_total;
            let decoded = next.decode(&self.codec, &self.store.indexers(), &NoGuard);
            let counted = measure(|| {
                self.informer.handle(Time::ZERO, Input::Decoded(decoded));
                job = self.drain();
            });
            self.allocations += counted.count_total;
        }
    }

    /// As a runtime feeds. Allocations beside those of index functions.
    fn feed(&mut self, made: impl FnOnce(&mut Informer<usize>) -> Fed<usize>) -> u64 {
        let mut fed = None;
        let before = measure(|| {
            self.batches.reclaim(2, |told| told.for_each(drop));
            fed.insert(made(&mut self.informer)).probe(&self.store);
        });
        let mut fed = fed.expect("it was made");
        fed.index(&self.store.indexers(), &NoGuard);
        let after = measure(|| {
            self.informer.handle(Time::ZERO, Input::Fed(fed));
            assert!(self.drain().is_none(), "there is nothing to decode");
        });
        before.count_total + after.count_total
    }

    /// What a handler does.
    fn walk(&mut self) {
        while let Some(turn) = self.ring.turn() {
            let Turn::Walk(mut walk) = turn else { continue };
            self.told += 1;
            while walk.advance().is_some() {
                self.told += 1;
            }
            self.ring.recall(walk.place());
        }
    }

    /// Does all but decoding.
    #[allow(clippy::wildcard_enum_match_arm)] // what else comes out is nothing to do here
    fn drain(&mut self) -> Option<DecodeJob> {
        loop {
            match self.informer.poll_output() {
                Output::Send(_) => self.requests += 1,
                Output::Decode(job) => return Some(job),
                Output::Commit(commit) => {
                    let mut done = self.store.commit(commit);
                    let batch = self.batches.publish(&mut done.notifications);
                    batch.iter().for_each(|batch| self.ring.push_batch(batch));
                    drop(batch);
                    self.informer.handle(Time::ZERO, Input::Committed(done.into_receipt()));
                    self.walk();
                }
                Output::Wait(_) => return None,
                _ => {}
            }
        }
    }
}

/// An informer that is fed, with one handler: allocations of a part, from the built objects to the handler that has walked
/// past them.
#[test]
fn a_change_that_is_fed_reaches_its_handler_without_an_allocation() {
    for indexes in 0..=2 {
        let mut world = World::new(indexes);
        let mut config = InformerConfig::new(Resource::namespaced("", "v1", "pods", "Pod"));
        config.fed = true;
        (world.informer, world.ring) = (Informer::new(config, 7), Ring::new(Overflow::default()));
        let made = |n: usize, version: usize| {
            let key = Key::new(&format!("team-{}", n % 10), &format!("object-{n}"));
            Obj::new(key, Uid::new("u"), Version::new(&version.to_string()), version)
        };
        let mut store = Store::new(7);
        [IndexDef::namespace(), IndexDef::new("parity", |n: &Obj<usize>| **n % 2 == 0)]
            .into_iter()
            .take(indexes)
            .for_each(|index| store.add_index(index).unwrap());
        world.store = store;
        world.feed(|_| Fed::list((0..OBJECTS).map(|n| made(n, n + 1)), Version::new(&OBJECTS.to_string())));
        world.ring.replay(world.store.snapshot());
        world.walk();
        world.version = OBJECTS;
        let part = |world: &mut World, many: usize| {
            let changes: Vec<_> = (0..many)
                .map(|_| {
                    world.version += 1;
                    Change::Applied(made(world.version * 7 % OBJECTS, world.version))
                })
                .collect();
            world.feed(|informer| informer.changes(changes))
        };
        let parts = [64, 1, 7, 64, 33];
        for _ in 0..2 {
            parts.iter().for_each(|many| _ = part(&mut world, *many));
        }
        world.told = 0;
        for many in parts.iter().cycle() {
            if world.told >= EVENTS {
                break;
            }
            assert_eq!(part(&mut world, *many), 0, "of {many} changes with {indexes} indexes");
        }
        assert_eq!(world.store.version().as_str(), world.version.to_string(), "every change came through");
    }
}

fn object(n: usize, version: usize) -> String {
    format!(
        r#"{{"metadata":{{"namespace":"team-{}","name":"object-{n}","uid":"0b6c1e4d-9a2f-4c53-8f0e-{n:012}","resourceVersion":"{version}"}}}}"#,
        n % 10
    )
}

#[test]
fn an_event_is_read_without_an_allocation_of_its_own() {
    let mut world = World::new(0);
    READS.iter().for_each(|changes| world.read(*changes));
    // What is read at a time takes a buffer for its bytes and one for what is noted of it, which doubles as it grows.
    for changes in [64, 200] {
        world.read(changes);
        assert!(world.reading <= 24, "{} allocations for {changes} events", world.reading);
    }
}

#[test]
fn a_change_reaches_its_handler_without_an_allocation() {
    for indexes in 0..=2 {
        let mut world = World::new(indexes);
        // Buffers grow to what the largest read needs: also that of the batch which was the last to come back.
        for _ in 0..2 {
            READS.iter().for_each(|changes| world.read(*changes));
        }
        (world.allocations, world.told) = (0, 0);
        for changes in READS.iter().cycle() {
            if world.told >= EVENTS {
                break;
            }
            world.read(*changes);
        }
        assert_eq!(world.store.version().as_str(), world.version.to_string(), "every change came through");
        assert_eq!(world.allocations, 0, "for {} changes with {indexes} indexes", world.told);
    }
}
