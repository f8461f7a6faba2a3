//! [`Bench`]: an informer, its store and its rings, driven by hand with scripted answers.
//!
//! It is the shortest driver there is: it decodes inline, keeps everything in plain fields and lets time stand still
//! but for a wait. What it costs is what the core costs. Anything that a run of the script does not foresee (a failure,
//! a request that the script has no answer for) panics: a benchmark that measures an error path by mistake is worse
//! than none.

use informer_core::decode::{Codec, NoGuard};
use informer_core::informer::{HandlerId, Informer, InformerConfig, Input, Notice, Output};
use informer_core::listener::{Batches, Notification, Overflow, Ring, Turn};
use informer_core::reflector::{End, ListStrategy, Phase};
use informer_core::store::{IndexDef, Store};
use informer_core::time::Time;
use informer_core::wire::{Head, RequestId};
use informer_core::{Object, Resource};

/// Bytes of a body that go in at once: what a TLS connection gives when the server is fast.
pub const CHUNK: usize = 64 << 10;

/// An informer with its store and rings.
pub struct Bench<T> {
    informer: Informer<T>,
    codec: Codec<T>,
    store: Store<T>,
    rings: Vec<Ring<T>>,
    batches: Batches<T>,
    /// The request that was sent last, and so the one that the script answers.
    request: Option<RequestId>,
    /// Deliveries of commits, over all rings.
    delivered: u64,
    is_attached: bool,
    now: Time,
    /// The script has a watch expire at the moment: the one failure that it foresees.
    expired: bool,
}

impl<T: Object> Bench<T> {
    /// An informer of the type's own resource that lists in pages, with so many handlers.
    pub fn new(handlers: u64, overflow: Overflow) -> Self {
        Bench::with(Codec::new(T::resource()), ListStrategy::Paged, handlers, overflow)
    }
}

impl<T> Bench<T> {
    /// The same with a codec and a strategy of the caller's choice.
    pub fn with(codec: Codec<T>, strategy: ListStrategy, handlers: u64, overflow: Overflow) -> Self {
        let resource: Resource = codec.resource().clone();
        let mut config = InformerConfig::new(resource);
        config.reflector.strategy = strategy;
        let mut bench = Bench {
            informer: Informer::new(config, 7),
            codec,
            store: Store::new(7),
            rings: (0..handlers).map(|_| Ring::new(overflow)).collect(),
            batches: Batches::new(),
            request: None,
            delivered: 0,
            is_attached: false,
            now: Time::ZERO,
            expired: false,
        };
        for id in 0..handlers {
            bench.input(Input::AddHandler { id: HandlerId(id), resync: None });
        }
        bench
    }

    /// Adds an index to the store.
    ///
    /// # Panics
    ///
    /// If the name is taken.
    pub fn index(&mut self, def: IndexDef<T>) {
        self.store.add_index(def).expect("a script gives each index a name of its own");
    }

    /// Starts, and answers the first list with `body`, to the point where the store is populated.
    pub fn sync(&mut self, body: &[u8]) {
        self.input(Input::Start);
        self.answer(&Head::new(200), body, Some(&End::Closed));
        assert!(self.informer.has_synced(), "the script's list is complete: {:?}", self.informer);
    }

    /// Starts, and answers the streaming list with `body`, which ends with the bookmark that ends it. The stream stays
    /// open.
    pub fn sync_streaming(&mut self, body: &[u8]) {
        self.input(Input::Start);
        self.answer(&Head::new(200), body, None);
        assert!(self.informer.has_synced(), "the script's stream has its end marker: {:?}", self.informer);
    }

    /// Refuses the watch as expired, lets the wait pass, and answers the list that follows with `body`.
    pub fn relist(&mut self, body: &[u8]) {
        let lists = self.informer.stats().lists;
        self.expired = true;
        if self.informer.phase() == Phase::Watching {
            self.event(br#"{"type":"ERROR","object":{"kind":"Status","reason":"Expired","code":410}}"#);
        } else {
            self.answer(&Head::new(410), b"", Some(&End::Closed));
        }
        self.expired = false;
        let deadline = self.informer.deadline().expect("an expired watch waits before it lists");
        self.now = deadline.at;
        self.input(Input::Tick);
        self.answer(&Head::new(200), body, Some(&End::Closed));
        assert_eq!(self.informer.stats().lists, lists + 1, "the script's list is in the store");
    }

    /// Answers the watch that follows a list with 200; its body is open from here on.
    pub fn open_watch(&mut self) {
        self.answer(&Head::new(200), b"", None);
        assert_eq!(self.informer.phase(), Phase::Watching);
    }

    /// Feeds `frames` to the open watch, in one piece.
    pub fn event(&mut self, frames: &[u8]) {
        let id = self.open_request();
        self.input(Input::Body { id, bytes: frames });
    }

    /// The store.
    pub fn store(&self) -> &Store<T> {
        &self.store
    }

    /// How many notifications commits have pushed, over all rings.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Has each handler walk all that waits for it, as a runtime does it, and says how much it was.
    pub fn drain(&mut self) -> usize {
        self.rings.iter_mut().map(walk).sum()
    }

    fn open_request(&self) -> RequestId {
        self.request.expect("the script answers a request, and none was sent")
    }

    fn answer(&mut self, head: &Head, body: &[u8], end: Option<&End>) {
        let id = self.open_request();
        self.input(Input::Head { id, head });
        for bytes in body.chunks(CHUNK) {
            self.input(Input::Body { id, bytes });
        }
        if let Some(end) = end {
            self.input(Input::End { id, end });
        }
    }

    /// One input, and every output that follows from it.
    fn input(&mut self, input: Input<'_, T>) {
        self.informer.handle(self.now, input);
        loop {
            match self.informer.poll_output() {
                Output::Send(request) => self.request = Some(request.id),
                Output::Decode(mut job) => {
                    job.probe(&self.store);
                    // What all have passed goes back: its objects, and its memory to a later batch.
                    self.batches.reclaim(2 * job.len(), |told| told.for_each(drop));
                    let decoded = job.decode(&self.codec, &self.store.indexers(), &NoGuard);
                    self.informer.handle(self.now, Input::Decoded(decoded));
                }
                Output::Commit(commit) => {
                    let mut done = self.store.commit(commit);
                    self.deliver(&mut done.notifications);
                    self.informer.handle(self.now, Input::Committed(done.into_receipt()));
                }
                Output::Attach(id) => {
                    self.is_attached = true;
                    self.rings[id.0 as usize].replay(self.store.snapshot());
                }
                Output::Notice(Notice::Failure(failure)) if !self.expired => panic!("not in the script: {failure:?}"),
                Output::Wait(_) => break,
                // The watch that a relist ends, phases, and the like.
                Output::Cancel(_) | Output::Notice(_) | Output::Unwanted(_) => {}
                Output::Pause(_)
                | Output::Resume(_)
                | Output::Begin(_)
                | Output::Complete(_)
                | Output::Detach(_)
                | Output::Resync(_) => {
                    panic!("not in the script: a body that is decoded at once is never paused, and no handler leaves")
                }
            }
        }
    }

    fn deliver(&mut self, notifications: &mut Vec<Notification<T>>) {
        if !self.is_attached {
            return;
        }
        let Some(batch) = self.batches.publish(notifications) else { return };
        self.delivered += (self.rings.len() * batch.len()) as u64;
        self.rings.iter_mut().for_each(|ring| ring.push_batch(&batch));
        while self.batches.surplus().is_some() {}
    }
}

/// Walks all that waits in a ring, and says how much it was.
pub fn walk<T>(ring: &mut Ring<T>) -> usize {
    let mut told = 0;
    while let Some(turn) = ring.turn() {
        told += 1;
        if let Turn::Walk(mut walk) = turn {
            while walk.advance().is_some() {
                told += 1;
            }
            ring.recall(walk.place());
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pod, Widget, end_of_initial_events, frames, list_body};
    use informer_core::DynamicObject;

    #[test]
    fn a_streaming_list_populates_the_store_and_the_stream_goes_on() {
        let codec = Codec::new(Widget::resource());
        let mut bench = Bench::<Widget>::with(codec, ListStrategy::Streaming, 2, Overflow::default());
        let mut body = frames::<Widget>("ADDED", 0..100, |_| 1);
        body.extend(end_of_initial_events::<Widget>());
        bench.sync_streaming(&body);
        assert_eq!((bench.store().len(), bench.drain()), (100, 2 * 101));
        bench.event(&frames::<Widget>("DELETED", 5..7, |_| 2));
        assert_eq!((bench.store().len(), bench.drain()), (98, 4));
    }

    #[test]
    fn a_relist_tells_what_changed_and_nothing_else() {
        let mut bench = Bench::<Widget>::new(1, Overflow::default());
        bench.sync(&list_body::<Widget>(0..300, |_| 1));
        assert_eq!(bench.drain(), 301);
        bench.relist(&list_body::<Widget>(0..300, |_| 1));
        assert_eq!(bench.drain(), 0);
        bench.relist(&list_body::<Widget>(0..300, |n| if n % 100 == 0 { 2 } else { 1 }));
        assert_eq!((bench.drain(), bench.delivered()), (3, 3));
    }

    #[test]
    fn a_transform_chooses_what_is_stored() {
        let codec = Codec::<DynamicObject>::new(Pod::resource()).map(|pod| Ok(pod.json().len()));
        let mut bench = Bench::with(codec, ListStrategy::Paged, 0, Overflow::default());
        bench.index(IndexDef::namespace());
        bench.sync(&list_body::<Pod>(0..10, |_| 1));
        assert!(bench.store().iter().all(|length| **length > 6_000));
        assert!(bench.store().has_index("namespace"));
    }
}
