//! [`Helpers`]: threads that decode large batches together with the driver.
//!
//! Decoding is nine tenths of a sync, and the items of a batch do not depend on one another. So a driver that has a large
//! batch offers it, takes parts of it itself, and helpers take the others; when all parts are there it goes on. Nothing
//! that is decided changes: a batch is still one step of one informer, and its items keep their order.
//!
//! ```text
//! driver ── offer ──► batches ◄── take a part ── helper          one part: 1/PARTS of the items
//!    └─ take a part, take a part … ─► wait for the last part ─► join
//! ```
//!
//! Threads are started by the first batch that could use them and end when the factory stops: an informer of little
//! things never has one. Each driver offers one batch at a time, so as many batches wait as there are informers.

use crate::factory::{Life, Lives};
use crate::guard::CatchUnwind;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, Condvar, Mutex};
use informer_core::decode::{Codec, DecodeJob, Decoded, DecodedPart, Indexers};

/// A smaller batch is decoded by its driver alone: waking a thread takes tens of microseconds, and so does decoding the
/// half of this.
const SHARED_BYTES: usize = 16 * 1024;

/// Into how many parts a batch is divided. More make the wait for the last one shorter, fewer are cheaper to hand out.
const PARTS: usize = 16;

/// The most helpers by default. What stands before the decoding and after it is a tenth of the work and one thread's: more
/// would wait for that.
const MAX_HELPERS: usize = 7;

/// A batch as a helper sees it.
trait Batch: Send + Sync {
    /// Takes parts and decodes them until none is left to take.
    fn help(&self);
}

/// The threads of one factory.
pub(crate) struct Helpers {
    most: usize,
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
    /// At most `most` threads, each of them a life.
    pub(crate) fn new(most: usize, lives: Arc<Lives>) -> Self {
        Helpers { most, lives, state: Mutex::default(), offered: Condvar::new() }
    }

    /// As many as there are processors beside the driver's.
    pub(crate) fn by_default() -> usize {
        std::thread::available_parallelism().map_or(0, |processors| (processors.get() - 1).min(MAX_HELPERS))
    }

    /// Decodes a batch that was probed.
    pub(crate) fn decode<T: Send + Sync + 'static>(
        self: &Arc<Self>,
        job: DecodeJob,
        codec: &Codec<T>,
        indexers: &Indexers<T>,
    ) -> Decoded<T> {
        if self.most == 0 || job.len() < 2 || job.bytes() < SHARED_BYTES {
            return job.decode(codec, indexers, &CatchUnwind);
        }
        let (codec, indexers) = (codec.clone(), indexers.clone());
        let shared = Arc::new(SharedJob {
            part: job.len().div_ceil(PARTS),
            job,
            codec,
            indexers,
            next: AtomicUsize::new(0),
            state: Mutex::new(Parts { decoded: 0, parts: Vec::with_capacity(PARTS), lost: false }),
            changed: Condvar::new(),
        });
        let offer = Offer { helpers: self, number: self.offer(Arc::clone(&shared) as Arc<dyn Batch>) };
        shared.help();
        drop(offer);
        shared.join()
    }

    fn offer(self: &Arc<Self>, batch: Arc<dyn Batch>) -> u64 {
        let mut state = self.state.lock();
        state.offers += 1;
        let number = state.offers;
        state.batches.push((number, batch));
        let starts = state.idle == 0 && state.threads < self.most && !state.closed;
        state.threads += usize::from(starts);
        drop(state);
        if starts {
            self.start();
        } else {
            self.offered.notify_all();
        }
        number
    }

    fn start(self: &Arc<Self>) {
        let (helpers, life) = (Arc::clone(self), self.lives.enter());
        let run = move || {
            let ended = Ended { helpers: &helpers, life: Some(life) };
            while let Some((number, batch)) = helpers.next() {
                batch.help();
                helpers.withdraw(number);
            }
            drop(ended);
        };
        // Where the system gives no thread, the driver decodes alone, and the next batch tries again.
        if std::thread::Builder::new().name("informer-decode".into()).spawn(run).is_err() {
            self.state.lock().threads -= 1;
        }
    }

    /// The next batch that has parts left; `None` when it is over.
    fn next(&self) -> Option<(u64, Arc<dyn Batch>)> {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some((number, batch)) = state.batches.first() {
                return Some((*number, Arc::clone(batch)));
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

    /// Ends the threads when they have decoded what they took; does not wait. From here on drivers decode alone.
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
        self.helpers.state.lock().threads -= 1;
        drop(self.life.take());
    }
}

struct SharedJob<T> {
    job: DecodeJob,
    codec: Codec<T>,
    indexers: Indexers<T>,
    /// Items in a part.
    part: usize,
    /// The first item that nobody has taken.
    next: AtomicUsize,
    state: Mutex<Parts<T>>,
    /// The last part came, or was lost.
    changed: Condvar,
}

struct Parts<T> {
    decoded: usize,
    parts: Vec<DecodedPart<T>>,
    /// A thread ended by a panic before it delivered what it took.
    lost: bool,
}

impl<T: Send + Sync + 'static> Batch for SharedJob<T> {
    fn help(&self) {
        loop {
            let from = self.next.fetch_add(self.part, Ordering::Relaxed);
            if from >= self.job.len() {
                return;
            }
            let range = from..(from + self.part).min(self.job.len());
            let mut taken = Taken { shared: self, items: range.len(), part: None };
            taken.part = Some(self.job.part(range, &self.codec, &self.indexers, &CatchUnwind));
        }
    }
}

impl<T> SharedJob<T> {
    /// Waits for the parts that helpers took.
    fn join(&self) -> Decoded<T> {
        let mut state = self.state.lock();
        while state.decoded < self.job.len() {
            state = self.changed.wait(state);
        }
        assert!(!state.lost, "a thread that decoded a part of a batch has panicked outside of user code");
        let parts = std::mem::take(&mut state.parts);
        drop(state);
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
