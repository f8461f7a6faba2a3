//! [`Helpers`]: threads that decode large batches together with the driver.
//!
//! Decoding is nine tenths of a sync, and the items of a batch do not depend on one another. So a driver that has a large
//! batch offers it, takes parts of it itself, and helpers take the others; when all parts are there it goes on. Nothing
//! that is decided changes: a batch is still one step of one informer, and its items keep their order.
//!
//! ```text
//! driver ── offer ──► batches ◄── take a part ── helper          one part: 1/16 of a list's items
//!    └─ take a part, take a part … ─► wait for the last part ─► join
//! ```
//!
//! Threads are started by the first batch that could use them and end when the factory stops: an informer of little
//! things never has one. Each driver offers one batch at a time, so as many batches wait as there are informers.

#[cfg(all(test, shuttle))]
mod schedules;

use crate::factory::{Life, Lives};
use crate::guard::CatchUnwind;
use crate::guard::section::{self, Held};
use crate::replaced::{Quiet, drop_quietly};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, Condvar, Mutex, thread};
use informer_core::Obj;
use informer_core::decode::{Codec, DecodeJob, Decoded, DecodedPart, Indexers};

/// A batch in which less is to be built is decoded by its driver alone: waking a thread takes tens of microseconds, and so
/// does decoding the half of this. A list of unchanged objects wakes nobody.
const SHARED_BYTES: usize = 16 * 1024;

/// Into how many parts a batch is divided, at least. More make the wait for the last one shorter, fewer are cheaper to hand
/// out. There is room for a whole part of a list at once ([`MOST_ROOM`]).
const LIST_PARTS: usize = 16;

/// The same for events of a watch, each of which replaces an object: one is dropped and one is made, a few at a time, so
/// that the allocator finds what was just freed in its smallest and fastest lists.
const EVENT_PARTS: usize = 64;

/// The most helpers by default. What stands before the decoding and after it is a tenth of the work and one thread's: more
/// would wait for that.
const MAX_HELPERS: usize = 7;

/// The number of the driver's thread; helpers count from 1.
const DRIVER: usize = 0;

/// Bytes of heap that a typed object takes for each byte of its JSON, rather too many than too few: a Pod of 6.9 KB takes
/// 49 KB with what the allocator adds.
const HEAP_PER_JSON: usize = 8;

/// The most room that is made at a time. From 128 KiB on glibc maps an allocation by itself, and trims what it gets back.
const MOST_ROOM: usize = 120 * 1024;

/// A batch as a helper sees it.
trait Batch: Send + Sync {
    /// Takes parts and decodes them until none is left to take. `worker` is the number of the calling thread.
    fn help(&self, worker: usize);
    /// No helper is left: its driver goes on alone.
    fn desert(&self);
}

/// The threads of one factory.
pub(crate) struct Helpers {
    most: usize,
    /// Drivers are tasks that move from thread to thread. What one makes is then dropped by another thread, at the expense
    /// of both; so a driver leaves batches to helpers, as long as there are some.
    wandering: bool,
    lives: Arc<Lives>,
    state: Mutex<State>,
    offered: Condvar,
}

#[derive(Default)]
struct State {
    batches: Vec<(u64, Arc<dyn Batch>)>,
    offers: u64,
    threads: usize,
    idle: usize,
    closed: bool,
}

impl Helpers {
    /// At most `most` threads (255), each of them a life.
    pub(crate) fn new(most: usize, lives: Arc<Lives>) -> Self {
        Helpers {
            most: most.min(usize::from(u8::MAX)),
            wandering: false,
            lives,
            state: Mutex::default(),
            offered: Condvar::new(),
        }
    }

    /// The same for drivers that are tasks.
    pub(crate) fn of_tasks(most: usize, lives: Arc<Lives>) -> Self {
        Helpers { wandering: true, ..Helpers::new(most, lives) }
    }

    /// As many as there are processors beside the driver's; one more if that leaves its own to helpers, too.
    pub(crate) fn by_default(wandering: bool) -> usize {
        let beside =
            std::thread::available_parallelism().map_or(0, |processors| (processors.get() - 1).min(MAX_HELPERS));
        if beside > 0 { beside + usize::from(wandering) } else { 0 }
    }

    /// Decodes a batch that was probed. The threads that do drop what it replaces on the way.
    pub(crate) fn decode<T: Send + Sync + 'static>(
        self: &Arc<Self>,
        job: DecodeJob,
        codec: &Codec<T>,
        indexers: &Indexers<T>,
        replaced: Vec<Obj<T>>,
    ) -> Decoded<T> {
        if self.most == 0 || job.unbuilt() < 2 || job.unbuilt_bytes() < SHARED_BYTES {
            replaced.into_iter().for_each(drop_quietly);
            make_room(&job, job.unbuilt());
            return job.decode(codec, indexers, &CatchUnwind);
        }
        let (codec, indexers) = (Quiet::new(codec.clone()), Quiet::new(indexers.clone()));
        let parts = if job.is_list() { LIST_PARTS } else { EVENT_PARTS };
        let part = job.len().div_ceil(parts);
        let shared = Arc::new(SharedJob {
            part: if job.is_list() { part.min((MOST_ROOM / heap_of(&job, 1).max(1)).max(1)) } else { part },
            job,
            codec,
            indexers,
            next: AtomicUsize::new(0),
            replaced: by_maker(replaced, self.most + 1),
            state: Mutex::new(Parts { decoded: 0, parts: Vec::with_capacity(parts), lost: false, deserted: false }),
            changed: Condvar::new(),
        });
        let (number, is_served) = self.offer(Arc::clone(&shared) as Arc<dyn Batch>);
        let offer = Offer { helpers: self, number };
        if !(self.wandering && is_served) {
            shared.help(DRIVER);
        }
        let decoded = shared.join();
        drop(offer);
        decoded
    }

    /// Gives the number of the offer, and whether there is a thread that will see it.
    fn offer(self: &Arc<Self>, batch: Arc<dyn Batch>) -> (u64, bool) {
        let mut state = self.state.lock();
        state.offers += 1;
        let number = state.offers;
        state.batches.push((number, batch));
        let starts = (self.wandering || state.idle == 0) && state.threads < self.most && !state.closed;
        let is_served = state.threads > 0;
        state.threads += usize::from(starts);
        let worker = state.threads;
        drop(state);
        self.offered.notify_all();
        let started = starts && self.start(worker);
        (number, is_served || started)
    }

    /// False if the system gives no thread: others decode, or the driver, and the next batch tries again.
    fn start(self: &Arc<Self>, worker: usize) -> bool {
        let (helpers, life) = (Arc::clone(self), self.lives.enter());
        let run = move || {
            let ended = Ended { helpers: &helpers, life: Some(life) };
            while let Some((number, batch)) = helpers.next() {
                batch.help(worker);
                helpers.withdraw(number);
            }
            drop(ended);
        };
        let started = thread::Builder::new().name("informer-decode".into()).spawn(run).is_ok();
        if !started {
            self.state.lock().threads -= 1;
        }
        started
    }

    /// The next batch that has parts left; `None` when it is over. What was offered before that is still decoded.
    fn next(&self) -> Option<(u64, Arc<dyn Batch>)> {
        let mut state = self.state.lock();
        loop {
            if let Some((number, batch)) = state.batches.first() {
                return Some((*number, Arc::clone(batch)));
            }
            if state.closed {
                return None;
            }
            state.idle += 1;
            state = self.offered.wait(state);
            state.idle -= 1;
        }
    }

    /// All parts of a batch are taken.
    fn withdraw(&self, number: u64) {
        self.state.lock().batches.retain(|(known, _)| *known != number);
    }

    /// Ends the threads when they have decoded what was offered; does not wait. From here on drivers decode alone.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.offered.notify_all();
    }
}

/// A batch that is offered. Also where its driver panics it is withdrawn.
struct Offer<'a> {
    helpers: &'a Helpers,
    number: u64,
}

impl Drop for Offer<'_> {
    fn drop(&mut self) {
        self.helpers.withdraw(self.number);
    }
}

/// A thread ends, in whatever way.
struct Ended<'a> {
    helpers: &'a Helpers,
    life: Option<Life>,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        let mut state = self.helpers.state.lock();
        state.threads -= 1;
        // The last one may have ended by a panic, or just before an offer.
        let deserted = if state.threads == 0 { state.batches.clone() } else { Vec::new() };
        drop(state);
        deserted.iter().for_each(|(_, batch)| batch.desert());
        drop(self.life.take());
    }
}

struct SharedJob<T> {
    job: DecodeJob,
    codec: Quiet<Codec<T>>,
    indexers: Quiet<Indexers<T>>,
    /// Items in a part.
    part: usize,
    /// The first item that nobody has taken.
    next: AtomicUsize,
    /// Not more than there are items; a list for each thread, by its number.
    replaced: Vec<Mutex<Vec<Obj<T>>>>,
    state: Mutex<Parts<T>>,
    /// The last part came, or was lost.
    changed: Condvar,
}

struct Parts<T> {
    decoded: usize,
    parts: Vec<DecodedPart<T>>,
    /// A thread ended by a panic before it delivered what it took.
    lost: bool,
    /// No helper is left.
    deserted: bool,
}

impl<T: Send + Sync + 'static> Batch for SharedJob<T> {
    fn help(&self, worker: usize) {
        let _decoding = section::enter(Held::Decoding);
        loop {
            let from = self.next.fetch_add(self.part, Ordering::Relaxed);
            if from >= self.job.len() {
                return self.drop_replaced(worker, usize::MAX);
            }
            let range = from..(from + self.part).min(self.job.len());
            self.drop_replaced(worker, range.len());
            make_room(&self.job, range.len());
            let mut taken = Taken { shared: self, items: range.len(), part: None };
            taken.part = Some(self.job.part(range, worker as u8, &self.codec, &self.indexers, &CatchUnwind));
        }
    }

    fn desert(&self) {
        self.state.lock().deserted = true;
        self.changed.notify_all();
    }
}

/// Lets the heap of this thread grow at once for some objects of a list. Events replace objects, and their heap does not
/// grow.
///
/// glibc grows the heap of every thread but the first just as far as each allocation needs, a page or two, by a system
/// call under the lock of the address space: nine for a Pod, a sixth of all its processor time. What is allocated and given
/// back at once stays at the top of the heap. Other allocators lose some ten nanoseconds.
fn make_room(job: &DecodeJob, objects: usize) {
    if job.is_list() && objects > 0 {
        drop(std::hint::black_box(Vec::<u8>::with_capacity(heap_of(job, objects).min(MOST_ROOM))));
    }
}

/// What so many objects of a batch that is not empty take of the heap, if their types are large.
fn heap_of(job: &DecodeJob, objects: usize) -> usize {
    (job.bytes() / job.len()).saturating_mul(objects).saturating_mul(HEAP_PER_JSON)
}

/// Sorts objects by the thread that made them, one of `threads`.
fn by_maker<T>(objects: Vec<Obj<T>>, threads: usize) -> Vec<Mutex<Vec<Obj<T>>>> {
    let mut sorted: Vec<Vec<Obj<T>>> = (0..threads).map(|_| Vec::new()).collect();
    for object in objects {
        sorted[usize::from(Obj::maker(&object)).min(threads - 1)].push(object);
    }
    sorted.into_iter().map(Mutex::new).collect()
}

impl<T: Send + Sync + 'static> SharedJob<T> {
    /// Drops at most so many of the objects that this thread has made: so it gives memory back to the part of the heap that
    /// it takes memory from, and meets nobody there.
    fn drop_replaced(&self, worker: usize, most: usize) {
        let replaced = {
            let mut mine = self.replaced[worker].lock();
            let left = mine.len().saturating_sub(most);
            mine.split_off(left)
        };
        replaced.into_iter().for_each(drop_quietly);
    }

    /// Waits for the parts that helpers took.
    fn join(&self) -> Decoded<T> {
        let mut state = self.state.lock();
        while state.decoded < self.job.len() {
            if std::mem::take(&mut state.deserted) {
                drop(state);
                self.help(DRIVER);
                state = self.state.lock();
            } else {
                state = self.changed.wait(state);
            }
        }
        assert!(!state.lost, "a thread that decoded a part of a batch has panicked outside of user code");
        let parts = std::mem::take(&mut state.parts);
        drop(state);
        // Of threads that did not come.
        (0..self.replaced.len()).for_each(|worker| self.drop_replaced(worker, usize::MAX));
        self.job.join(parts)
    }
}

/// Some items that a thread has taken. It delivers them, or tells that they are lost: nobody waits for ever.
struct Taken<'a, T> {
    shared: &'a SharedJob<T>,
    items: usize,
    part: Option<DecodedPart<T>>,
}

impl<T> Drop for Taken<'_, T> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.decoded += self.items;
        match self.part.take() {
            Some(part) => state.parts.push(part),
            None => state.lost = true,
        }
        if state.decoded == self.shared.job.len() {
            self.shared.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use informer_core::informer::{Informer, InformerConfig, Input, Output};
    use informer_core::reflector::{End, ListStrategy};
    use informer_core::store::Store;
    use informer_core::time::Time;
    use informer_core::wire::{Head, RequestId};
    use informer_core::{DynamicObject, Resource, Version};
    use std::collections::BTreeSet;
    use std::sync::Barrier;
    use std::thread::{ThreadId, current};

    pub(super) fn widgets() -> Resource {
        Resource::namespaced("example.com", "v1", "widgets", "Widget")
    }

    /// Reads a list of `objects` widgets, each of 1 KiB, and gives the store.
    pub(super) fn list<T: Send + Sync + 'static>(objects: usize, codec: &Codec<T>, helpers: &Arc<Helpers>) -> Store<T> {
        relist(Store::new(7), objects, codec, helpers)
    }

    /// A store that has the same objects, for another machine.
    fn preloaded<T: Send + Sync + 'static>(from: &Store<T>) -> Store<T> {
        let mut store = Store::new(7);
        let left = store.preload(from.snapshot().iter().cloned(), Version::new("9"));
        assert_eq!(left.len(), 0);
        store
    }

    /// The same for a store that was preloaded with some of them.
    fn relist<T: Send + Sync + 'static>(
        mut store: Store<T>,
        objects: usize,
        codec: &Codec<T>,
        helpers: &Arc<Helpers>,
    ) -> Store<T> {
        let item = |n: usize| {
            let pad = "x".repeat(1024);
            format!(r#"{{"metadata":{{"name":"w{n:04}","uid":"u","resourceVersion":"{n}"}},"pad":"{pad}"}}"#)
        };
        let items: Vec<String> = (0..objects).map(item).collect();
        let body = format!(r#"{{"kind":"L","metadata":{{"resourceVersion":"9"}},"items":[{}]}}"#, items.join(","));

        let mut config = InformerConfig::new(widgets());
        config.reflector.strategy = ListStrategy::Paged;
        config.preloaded = (!store.is_empty()).then(|| store.version().to_version());
        let mut machine = Informer::new(config, 7);
        let (id, head) = (RequestId(1), Head::new(200));
        let inputs = [
            Input::Start,
            Input::Head { id, head: &head },
            Input::Body { id, bytes: body.as_bytes() },
            Input::End { id, end: &End::Closed },
        ];
        for input in inputs {
            machine.handle(Time::ZERO, input);
            loop {
                #[allow(clippy::wildcard_enum_match_arm)] // the rest is IO
                match machine.poll_output() {
                    Output::Decode(mut job) => {
                        job.probe(&store);
                        let decoded = helpers.decode(job, codec, &store.indexers(), Vec::new());
                        machine.handle(Time::ZERO, Input::Decoded(decoded));
                    }
                    Output::Commit(commit) => {
                        let receipt = store.commit(commit).receipt;
                        machine.handle(Time::ZERO, Input::Committed(receipt));
                    }
                    Output::Wait(_) => break,
                    _ => {}
                }
            }
        }
        store
    }

    fn names<T>(store: &Store<T>) -> Vec<String> {
        store.snapshot().iter().map(|object| object.key().to_string()).collect()
    }

    fn wait_for_the_end(helpers: &Helpers) {
        helpers.close();
        let mut seen = helpers.lives.signal().generation();
        while helpers.lives.count() > 0 {
            helpers.lives.signal().wait_past(seen, None);
            seen = helpers.lives.signal().generation();
        }
    }

    #[test]
    fn a_large_batch_is_decoded_by_two_threads_and_keeps_its_order() {
        let helpers = Arc::new(Helpers::new(1, Arc::default()));
        // The first two calls wait for one another: on one thread that would never end.
        let (both, calls) = (Barrier::new(2), AtomicUsize::new(0));
        let codec = Codec::<DynamicObject>::new(widgets()).map(move |_| {
            if calls.fetch_add(1, Ordering::Relaxed) < 2 {
                both.wait();
            }
            Ok(current().id())
        });
        let store = list(200, &codec, &helpers);
        let threads: BTreeSet<String> = store.snapshot().iter().map(|object| format!("{:?}", **object)).collect();
        assert_eq!(threads.len(), 2, "{threads:?}");
        let expected: Vec<String> = (0..200).map(|n| format!("w{n:04}")).collect();
        assert_eq!(names(&store), expected);
        wait_for_the_end(&helpers);
    }

    #[test]
    fn whoever_decodes_a_part_knows_that_an_informer_waits_for_it() {
        let helpers = Arc::new(Helpers::of_tasks(2, Arc::default()));
        let codec = Codec::<DynamicObject>::new(widgets()).map(|_| Ok(section::inside(section::Level::Driven)));
        let places: BTreeSet<_> =
            list(200, &codec, &helpers).snapshot().iter().map(|place| (**place).clone()).collect();
        let want = "a decoder, a transform or other code that an informer waits for".to_string();
        assert_eq!(places, [Some(want)].into());
        wait_for_the_end(&helpers);
    }

    fn on_which_threads(objects: usize, helpers: &Arc<Helpers>) -> BTreeSet<String> {
        let codec = Codec::<DynamicObject>::new(widgets()).map(|_| Ok::<ThreadId, _>(current().id()));
        list(objects, &codec, helpers).snapshot().iter().map(|object| format!("{:?}", **object)).collect()
    }

    #[test]
    fn a_small_batch_starts_no_thread() {
        let helpers = Arc::new(Helpers::new(3, Arc::default()));
        assert_eq!(on_which_threads(10, &helpers), [format!("{:?}", current().id())].into());
        assert_eq!(helpers.lives.count(), 0);
    }

    #[test]
    fn a_list_of_which_little_is_to_be_built_starts_no_thread_however_large_it_is() {
        let codec = Codec::<DynamicObject>::new(widgets()).map(|_| Ok::<ThreadId, _>(current().id()));
        let none = Arc::new(Helpers::new(0, Arc::default()));
        for helpers in [Helpers::new(3, Arc::default()), Helpers::of_tasks(3, Arc::default())] {
            let helpers = Arc::new(helpers);
            let store = relist(preloaded(&list(200, &codec, &none)), 210, &codec, &helpers);
            assert_eq!((store.len(), helpers.lives.count()), (210, 0));
            // Two hundred more are worth one.
            assert_eq!(relist(preloaded(&store), 410, &codec, &helpers).len(), 410);
            assert_ne!(helpers.lives.count(), 0);
            wait_for_the_end(&helpers);
        }
    }

    #[test]
    fn a_driver_that_is_a_task_leaves_large_batches_to_helpers_as_long_as_there_are_some() {
        let helpers = Arc::new(Helpers::of_tasks(2, Arc::default()));
        let me = format!("{:?}", current().id());
        let threads = on_which_threads(200, &helpers);
        assert!(!threads.is_empty() && !threads.contains(&me), "{threads:?}");
        assert_eq!(on_which_threads(10, &helpers), [me.clone()].into(), "a small batch is its own");
        wait_for_the_end(&helpers);
        assert_eq!(on_which_threads(200, &helpers), [me].into());
    }

    #[test]
    fn a_batch_that_its_helpers_desert_is_decoded_by_its_driver() {
        let shared = shared_job(3);
        shared.desert();
        assert_eq!(shared.join().len(), 3);
    }

    #[test]
    fn helpers_may_be_refused_and_close_for_good() {
        let alone: BTreeSet<String> = [format!("{:?}", current().id())].into();
        let none = Arc::new(Helpers::new(0, Arc::default()));
        assert_eq!(on_which_threads(200, &none), alone);
        assert_eq!(none.lives.count(), 0);

        let closed = Arc::new(Helpers::new(3, Arc::default()));
        assert!(!on_which_threads(200, &closed).is_empty());
        wait_for_the_end(&closed);
        assert_eq!(on_which_threads(200, &closed), alone);
        assert_eq!(closed.lives.count(), 0);
        assert!(closed.state.lock().batches.is_empty());
    }

    #[test]
    fn a_panic_of_a_decoder_costs_one_object_on_whatever_thread() {
        let helpers = Arc::new(Helpers::new(3, Arc::default()));
        let codec = Codec::<DynamicObject>::new(widgets()).map(|object| {
            assert!(!object.json().contains("w0100"), "not this one");
            Ok(())
        });
        let store = list(200, &codec, &helpers);
        assert_eq!(store.len(), 199);
        assert!(store.get("w0100").is_none() && store.get("w0101").is_some());
        wait_for_the_end(&helpers);
    }

    #[test]
    fn what_a_thread_loses_is_no_reason_to_wait_for_ever() {
        let shared = shared_job(2);
        drop(Taken { shared: &shared, items: 1, part: None });
        drop(Taken { shared: &shared, items: 1, part: None });
        let joined = crate::guard::call(|| shared.join().len());
        assert!(joined.unwrap_err().contains("has panicked outside of user code"));
    }

    /// A batch that nobody has seen.
    fn shared_job(objects: usize) -> SharedJob<()> {
        SharedJob {
            part: 1,
            job: probed(objects),
            codec: Quiet::new(Codec::<DynamicObject>::new(widgets()).map(|_| Ok(()))),
            indexers: Quiet::new(Store::new(7).indexers()),
            next: AtomicUsize::new(0),
            replaced: vec![Mutex::default()],
            state: Mutex::new(Parts { decoded: 0, parts: Vec::new(), lost: false, deserted: false }),
            changed: Condvar::new(),
        }
    }

    fn probed(objects: usize) -> DecodeJob {
        let body: Vec<String> = (0..objects).map(|n| format!(r#"{{"metadata":{{"name":"{n}"}}}}"#)).collect();
        let body = format!(r#"{{"kind":"L","metadata":{{"resourceVersion":"9"}},"items":[{}]}}"#, body.join(","));
        let mut config = InformerConfig::new(widgets());
        config.reflector.strategy = ListStrategy::Paged;
        let mut machine = Informer::<()>::new(config, 7);
        let (id, head) = (RequestId(1), Head::new(200));
        machine.handle(Time::ZERO, Input::Start);
        machine.handle(Time::ZERO, Input::Head { id, head: &head });
        machine.handle(Time::ZERO, Input::Body { id, bytes: body.as_bytes() });
        loop {
            #[allow(clippy::wildcard_enum_match_arm)] // only the batch is wanted
            match machine.poll_output() {
                Output::Decode(mut job) => {
                    job.probe(&Store::<()>::new(7));
                    return job;
                }
                Output::Wait(_) => panic!("a body of items gives a batch"),
                _ => {}
            }
        }
    }
}
