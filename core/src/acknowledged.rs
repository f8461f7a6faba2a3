//! [`Acknowledged`]: changes that count only when somebody has said that they are dealt with.
//!
//! ```text
//! notification ─► tell ─► queue of keys ─► take ─► Given ─► answer ─► done, given up: until the key changes again
//!                                           ▲                 └────► retry, no answer: after a backoff ─┐
//!                                           └───────────────────────────────────────────────────────────┘
//! ```
//!
//! Keys wait, not objects. What an item says is read when it is taken: the newest object of the key, or that it is gone,
//! and beside it what was given of this key before. Hence:
//!
//! - Of a key there is one item at a time; what happens to it meanwhile is one item more, after the answer.
//! - A retry brings the newest state, which may be that the object is gone.
//! - A deletion is told only if the object was given before, with what was given last; the final state that the server
//!   may have sent is not kept for it. It is told until it is done or given up.
//! - An object that was deleted and created again may be one item, with another uid than what was given before.
//! - A resync repeats what is there, and what is gone and not dealt with is retried by itself.
//!
//! The initial state is dealt with ([`synced`](Acknowledged::poll_synced)) once each of its keys was answered, in
//! whatever way, so that one that fails for ever holds nobody up.
//!
//! Failures are counted and spaced per key by the [queue](crate::queue) of a [`Controller`] that has no workers of its
//! own. Memory: a handle for each object that was given and is not known to be dealt with as gone, and the queue's entry
//! for each key that waits.
//!
//! ```
//! use informer_core::acknowledged::Acknowledged;
//! use informer_core::controller::Verdict;
//! use informer_core::listener::{Cause, Notification};
//! use informer_core::queue::QueueConfig;
//! use informer_core::time::Time;
//! use informer_core::{Key, Obj, Uid, Version};
//!
//! let pod = Obj::new(Key::new("web", "a"), Uid::new("u"), Version::new("1"), "a pod");
//! let mut stream = Acknowledged::new(QueueConfig::new(7));
//! stream.tell(Time::ZERO, &Notification::Added { object: pod.clone(), initial: true, cause: Cause::List });
//! stream.told_initial();
//!
//! let item = stream.take(Time::ZERO, |_| Some(pod.clone())).unwrap();
//! assert!(item.is_initial() && item.object().is_some() && item.last().is_none());
//! stream.answer(Time::ZERO, item, Verdict::Retry("the cloud does not answer".into()));
//! assert!(stream.poll_synced() && stream.take(Time::ZERO, |_| None).is_none());
//!
//! let due = stream.next_deadline().unwrap().at; // the object is gone when the backoff is over
//! let item = stream.take(due, |_| None).unwrap();
//! assert_eq!((item.object().is_none(), item.last().unwrap().version().as_str(), item.attempt()), (true, "1", 2));
//! stream.answer(due, item, Verdict::Done);
//! assert_eq!((stream.given(), stream.waiting()), (0, 0));
//! ```

use crate::controller::{Controller, ControllerConfig, Counts, Finished, Run, Verdict};
use crate::listener::{Cause, Notification};
use crate::object::{Key, Obj};
#[cfg(debug_assertions)]
use crate::queue::CHECKED;
use crate::queue::QueueConfig;
use crate::shown::Shown;
use crate::time::{Deadline, Time};
use core::fmt;
use foldhash::fast::FixedState;
use hashbrown::HashSet;

/// What is to be dealt with of one key. It must come back with [`Acknowledged::answer`], or its key is never given again.
#[must_use = "answer it with `Acknowledged::answer`, or its key is never given again"]
pub struct Given<T> {
    run: Run,
    object: Option<Obj<T>>,
    last: Option<Obj<T>>,
    initial: bool,
}

impl<T> Given<T> {
    /// Namespace and name.
    pub fn key(&self) -> &Key {
        self.run.key()
    }

    /// The object, as it was when the item was taken; `None` if it is gone.
    pub fn object(&self) -> Option<&Obj<T>> {
        self.object.as_ref()
    }

    /// What was given of this key before, dealt with or not. Always there if the object is gone.
    pub fn last(&self) -> Option<&Obj<T>> {
        self.last.as_ref()
    }

    /// True for the first item of a key that belonged to the initial state; it may be gone by now.
    pub fn is_initial(&self) -> bool {
        self.initial
    }

    /// 1, or one more than the number of failures in a row.
    pub fn attempt(&self) -> u32 {
        self.run.attempt()
    }
}

impl<T> fmt::Debug for Given<T> {
    /// Identities only: a value may hold a Secret's data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.object, &self.last) {
            (Some(object), _) => write!(f, "{object:?}")?,
            (None, Some(last)) => write!(f, "{last:?} is gone")?,
            (None, None) => write!(f, "{} is gone", self.key())?,
        }
        write!(f, ", attempt {}{}", self.attempt(), if self.initial { ", initial" } else { "" })
    }
}

/// Decides which key is given when, and what is said of it; see the [module](self).
pub struct Acknowledged<T> {
    controller: Controller,
    /// What was given last of each key that is not known to be dealt with as gone.
    given: Shown<T>,
    /// Keys of the initial state that were not answered yet.
    initial: HashSet<Key, FixedState>,
    told_initial: bool,
    synced: bool,
    /// Keys that turned out to have nothing to say.
    skipped: u64,
}

impl<T> Acknowledged<T> {
    /// A stream that was told nothing yet.
    pub fn new(config: QueueConfig) -> Self {
        let seed = config.seed;
        let mut controller =
            Controller::new(ControllerConfig { queue: config, ..ControllerConfig::new(seed).workers(usize::MAX) });
        controller.open();
        Acknowledged {
            controller,
            given: Shown::new(seed),
            initial: HashSet::with_hasher(FixedState::with_seed(seed)),
            told_initial: false,
            synced: false,
            skipped: 0,
        }
    }

    /// A notification of a handler; every one of them must come by here, in order.
    pub fn tell(&mut self, now: Time, notification: &Notification<T>) {
        let key = notification.key();
        let repeats = match notification {
            Notification::Added { .. } => false,
            Notification::Updated { cause, .. } => *cause == Cause::Resync,
            Notification::Deleted { .. } => true,
        };
        // An item was read from a cache that is ahead of the notifications: this one was given already.
        if !repeats && self.given.get(&key).is_some_and(|given| Obj::ptr_eq(given, notification.object())) {
            return;
        }
        if matches!(notification, Notification::Added { initial: true, .. }) {
            self.initial.insert(key.to_key());
        }
        _ = self.controller.enqueue(now, key.to_key());
        self.check_step();
    }

    /// The last of the initial state was told; also if there was nothing of it.
    pub fn told_initial(&mut self) {
        self.told_initial = true;
    }

    /// True once, when the initial state was told and each key of it was answered.
    #[must_use]
    pub fn poll_synced(&mut self) -> bool {
        let now = self.told_initial && self.initial.is_empty();
        now && !core::mem::replace(&mut self.synced, now)
    }

    /// The next item, with its object as `look` finds it in the cache. `None` if no key waits, or all that wait are in
    /// somebody's hands or wait for a retry.
    pub fn take(&mut self, now: Time, mut look: impl FnMut(&Key) -> Option<Obj<T>>) -> Option<Given<T>> {
        // Ends: each round takes a ready key, and none becomes ready meanwhile.
        loop {
            let run = self.controller.next(now)?;
            let object = look(run.key());
            let last = match &object {
                Some(object) => self.given.put(object.clone()),
                None => self.given.get(run.key()).cloned(),
            };
            if object.is_some() || last.is_some() {
                let initial = self.initial.contains(run.key());
                self.check_step();
                return Some(Given { run, object, last, initial });
            }
            // Came and went unseen, or its end is dealt with.
            self.skipped += 1;
            self.initial.remove(run.key());
            self.controller.finished(now, run, Verdict::Done);
        }
    }

    /// An item was dealt with, or not. What follows from it is what follows from a reconcile.
    ///
    /// # Panics
    ///
    /// If the item is another stream's.
    pub fn answer(&mut self, now: Time, item: Given<T>, verdict: Verdict) -> Finished {
        let settled = match verdict {
            Verdict::Done | Verdict::GiveUp(_) => true,
            Verdict::RequeueAfter(_)
            | Verdict::Retry(_)
            | Verdict::Panicked(_)
            | Verdict::Unanswered
            | Verdict::CutShort(_) => false,
        };
        if settled && item.object.is_none() {
            self.given.remove(item.key());
        }
        self.initial.remove(item.key());
        let finished = self.controller.finished(now, item.run, verdict);
        self.check_step();
        finished
    }

    /// When to call [`take`](Self::take) again if nothing else happens: a key is to be retried.
    pub fn next_deadline(&self) -> Option<Deadline> {
        self.controller.next_deadline()
    }

    /// Gives nothing any more; items in hand can still be answered.
    pub fn stop(&mut self) {
        self.controller.stop();
    }

    /// Takes out what was given last of each key: for who drops what it has the last handle of one by one.
    pub fn take_objects(&mut self) -> impl Iterator<Item = Obj<T>> + use<T> {
        self.given.take()
    }

    /// How many keys can be taken now, as of the last call with a time; some may turn out to have nothing to say.
    pub fn ready(&self) -> usize {
        self.controller.queue().len()
    }

    /// How many keys wait: to be given, for an answer, or for a retry.
    pub fn waiting(&self) -> usize {
        self.controller.queue().tracked()
    }

    /// How many objects were given and are not known to be dealt with as gone.
    pub fn given(&self) -> usize {
        self.given.len()
    }

    /// How often what has happened; `reconciles` are items.
    pub fn counts(&self) -> Counts {
        let mut counts = self.controller.counts();
        counts.reconciles -= self.skipped;
        counts.done -= self.skipped;
        counts
    }

    /// Asserts everything that holds between two calls. It looks at every key: for tests.
    ///
    /// # Panics
    ///
    /// If the stream is broken, with a message that names the rule.
    pub fn check(&self) {
        self.controller.check();
        self.check_initial();
    }

    #[cfg(not(debug_assertions))]
    fn check_step(&self) {}

    /// After every call of a debug build, if few keys are of the initial state; controller and queue check themselves.
    #[cfg(debug_assertions)]
    fn check_step(&self) {
        if self.initial.capacity() <= 2 * CHECKED {
            self.check_initial();
        }
    }

    fn check_initial(&self) {
        // What is told after a stop is not queued, and the stream then is never synced.
        if self.controller.queue().is_shutting_down() {
            return;
        }
        for key in &self.initial {
            assert!(self.controller.state(key).is_some(), "{key} holds the sync up and is not waiting");
        }
    }
}

impl<T> fmt::Debug for Acknowledged<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys wait, {:?}", self.waiting(), self.counts())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Uid, Version};
    use crate::rng::Rng;
    use crate::time::Duration;
    use alloc::string::String;
    use std::collections::{BTreeMap, BTreeSet, VecDeque};
    use std::format;
    use std::string::ToString;
    use std::vec::Vec;

    fn object(name: &str, version: u64) -> Obj<u64> {
        Obj::new(Key::new("ns", name), Uid::new("u"), Version::new(&version.to_string()), version)
    }

    /// A cache, and the notifications of its changes that were not told yet.
    #[derive(Default)]
    struct World {
        live: BTreeMap<Key, Obj<u64>>,
        untold: VecDeque<Notification<u64>>,
        version: u64,
    }

    impl World {
        fn put(&mut self, name: &str, initial: bool) {
            self.version += 1;
            let new = object(name, self.version);
            let cause = if initial { Cause::List } else { Cause::Watch };
            self.untold.push_back(match self.live.insert(new.key().to_key(), new.clone()) {
                None => Notification::Added { object: new, initial, cause },
                Some(old) => Notification::Updated { old, new, cause },
            });
        }

        fn delete(&mut self, name: &str) {
            let Some(old) = self.live.remove(&Key::new("ns", name)) else { return };
            let (object, cause) = (old.clone(), Cause::Watch);
            self.untold.push_back(Notification::Deleted { object, old, cause, final_state_known: true });
        }

        fn resync(&mut self) {
            let repeat = |object: &Obj<u64>| Notification::Updated {
                old: object.clone(),
                new: object.clone(),
                cause: Cause::Resync,
            };
            self.untold.extend(self.live.values().map(repeat));
        }

        fn tell(&mut self, stream: &mut Acknowledged<u64>, now: Time) {
            while let Some(notification) = self.untold.pop_front() {
                stream.tell(now, &notification);
            }
        }

        fn take(&self, stream: &mut Acknowledged<u64>, now: Time) -> Option<Given<u64>> {
            stream.take(now, |key| self.live.get(key).cloned())
        }
    }

    fn stream() -> Acknowledged<u64> {
        Acknowledged::new(QueueConfig::new(7))
    }

    fn failed() -> Verdict {
        Verdict::Retry(String::from("no"))
    }

    #[test]
    fn what_is_told_after_a_stop_is_never_given_and_never_synced() {
        let mut stream = stream();
        stream.stop();
        let initial = Notification::Added { object: object("a", 1), initial: true, cause: Cause::List };
        stream.tell(Time::ZERO, &initial);
        stream.told_initial();
        assert!(stream.take(Time::ZERO, |_| Some(object("a", 1))).is_none() && !stream.poll_synced());
        stream.check();
    }

    fn shown(item: &Given<u64>) -> String {
        format!("{item:?}")
    }

    /// Everything that consumers of the stream may rely on, under random changes, lags, answers and times.
    #[test]
    fn consumers_end_with_the_truth_one_item_per_key_at_a_time_and_no_deletion_of_what_they_never_had() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let (mut world, mut stream, mut now) = (World::default(), stream(), Time::ZERO);
            // Told and not answered; and those of them that were gone when somebody looked, which need no answer.
            let (mut initial, mut gone) = (BTreeSet::<Key>::new(), BTreeSet::<Key>::new());
            for name in 0..rng.below(4) {
                world.put(&format!("i{name}"), true);
            }
            let (mut left, mut synced) = (world.untold.len(), 0);
            let (mut hands, mut view) = (Vec::<Given<u64>>::new(), BTreeMap::<Key, u64>::new());
            let answer =
                |stream: &mut Acknowledged<u64>, view: &mut BTreeMap<Key, u64>, now, item: Given<u64>, verdict| {
                    match (&verdict, item.object()) {
                        (Verdict::Done | Verdict::GiveUp(_), None) => _ = view.remove(item.key()),
                        (_, None) => assert!(view.contains_key(item.key()), "seed {seed}: {item:?} was never given"),
                        (_, Some(object)) => _ = view.insert(item.key().clone(), **object),
                    }
                    stream.answer(now, item, verdict);
                };
            for _ in 0..200 {
                let name = format!("{}{}", ["i", "n"][rng.below(2) as usize], rng.below(4));
                match rng.below(10) {
                    0 | 1 => world.put(&name, false),
                    2 => world.delete(&name),
                    3 if rng.below(8) == 0 => world.resync(),
                    4 | 5 => {
                        if let Some(notification) = world.untold.pop_front() {
                            stream.tell(now, &notification);
                            if left > 0 {
                                initial.insert(notification.key().to_key());
                                left -= 1;
                            }
                        }
                        if left == 0 {
                            stream.told_initial();
                        }
                    }
                    6 | 7 => {
                        gone.extend(initial.iter().filter(|key| !world.live.contains_key(*key)).cloned());
                        if let Some(item) = world.take(&mut stream, now) {
                            assert!(hands.iter().all(|other| other.key() != item.key()), "seed {seed}: two of one key");
                            assert!(item.object().is_some() || view.contains_key(item.key()), "seed {seed}: {item:?}");
                            let (given, newest) = (item.object(), world.live.get(item.key()));
                            assert_eq!(given.map(|it| **it), newest.map(|it| **it), "seed {seed}: the newest state");
                            assert_eq!(item.last().map(|last| **last), view.get(item.key()).copied(), "seed {seed}");
                            if !gone.contains(item.key()) {
                                assert_eq!(item.is_initial(), initial.contains(item.key()), "seed {seed}: {item:?}");
                            }
                            hands.push(item);
                        }
                    }
                    8 if !hands.is_empty() => {
                        let item = hands.swap_remove(rng.below(hands.len() as u64) as usize);
                        initial.remove(item.key());
                        let verdict = match rng.below(5) {
                            0 => failed(),
                            1 => Verdict::Unanswered,
                            2 => Verdict::RequeueAfter(rng.span(Duration::from_millis(50))),
                            3 => Verdict::GiveUp(String::new()),
                            _ => Verdict::Done,
                        };
                        answer(&mut stream, &mut view, now, item, verdict);
                    }
                    _ => now = now + rng.span(Duration::from_millis(20)),
                }
                synced += u32::from(stream.poll_synced());
                assert!(synced == 0 || (left == 0 && initial.is_subset(&gone)), "seed {seed}: synced too early");
                stream.check();
            }
            stream.told_initial();
            world.tell(&mut stream, now);
            hands.into_iter().for_each(|item| answer(&mut stream, &mut view, now, item, Verdict::Done));
            for _ in 0..1_000 {
                while let Some(item) = world.take(&mut stream, now) {
                    answer(&mut stream, &mut view, now, item, Verdict::Done);
                }
                let Some(deadline) = stream.next_deadline() else { break };
                now = deadline.at;
            }
            stream.check();
            synced += u32::from(stream.poll_synced());
            assert_eq!(synced, 1, "seed {seed}: synced comes once");
            let truth: BTreeMap<_, _> = world.live.iter().map(|(key, object)| (key.clone(), **object)).collect();
            assert_eq!(view, truth, "seed {seed}");
            assert_eq!((stream.waiting(), stream.given()), (0, world.live.len()), "seed {seed}: nothing is kept");
        }
    }

    #[test]
    fn what_comes_and_goes_unseen_is_not_told_and_not_counted() {
        let (mut world, mut stream, now) = (World::default(), stream(), Time::ZERO);
        world.put("a", true);
        world.delete("a");
        world.tell(&mut stream, now);
        stream.told_initial();
        assert!(!stream.poll_synced(), "its turn did not come");
        assert!(world.take(&mut stream, now).is_none());
        assert!(stream.poll_synced() && !stream.poll_synced());
        assert_eq!((stream.counts(), stream.waiting()), (Counts::default(), 0));
    }

    #[test]
    fn a_version_that_was_given_before_it_was_told_comes_once_but_a_resync_repeats_it() {
        let (mut world, mut stream, now) = (World::default(), stream(), Time::ZERO);
        world.put("a", false);
        stream.tell(now, &world.untold.pop_front().unwrap());
        world.put("a", false);
        let item = world.take(&mut stream, now).unwrap();
        assert_eq!(shown(&item), "ns/a@2, attempt 1");
        world.tell(&mut stream, now);
        stream.answer(now, item, Verdict::Done);
        assert!(world.take(&mut stream, now).is_none());
        world.resync();
        world.tell(&mut stream, now);
        let item = world.take(&mut stream, now).unwrap();
        assert_eq!(shown(&item), "ns/a@2, attempt 1");
        assert!(Obj::ptr_eq(item.last().unwrap(), item.object().unwrap()));
        stream.answer(now, item, Verdict::Done);
    }

    #[test]
    fn a_deletion_is_told_until_it_is_dealt_with_and_then_forgotten() {
        let (mut world, mut stream, mut now) = (World::default(), stream(), Time::ZERO);
        world.put("a", true);
        world.tell(&mut stream, now);
        let item = world.take(&mut stream, now).unwrap();
        assert_eq!(shown(&item), "ns/a@1, attempt 1, initial");
        world.delete("a");
        world.tell(&mut stream, now);
        assert!(world.take(&mut stream, now).is_none(), "one item per key at a time");
        stream.answer(now, item, Verdict::Done);
        for (attempt, verdict) in [(1, failed()), (2, Verdict::Unanswered), (3, Verdict::GiveUp(String::new()))] {
            let item = world.take(&mut stream, now).unwrap();
            assert_eq!(shown(&item), format!("ns/a@1 is gone, attempt {attempt}"));
            stream.answer(now, item, verdict);
            now = stream.next_deadline().map_or(now, |deadline| deadline.at);
        }
        assert_eq!((stream.waiting(), stream.given()), (0, 0));
        let Counts { reconciles, done, failures, unanswered, given_up, .. } = stream.counts();
        assert_eq!((reconciles, done, failures, unanswered, given_up), (4, 1, 1, 1, 1));
    }

    #[test]
    fn one_that_fails_for_ever_does_not_hold_the_sync_up() {
        let (mut world, mut stream, now) = (World::default(), stream(), Time::ZERO);
        world.put("a", true);
        world.tell(&mut stream, now);
        stream.told_initial();
        let item = world.take(&mut stream, now).unwrap();
        assert!(!stream.poll_synced());
        stream.answer(now, item, failed());
        assert!(stream.poll_synced());
    }

    #[test]
    fn after_a_stop_nothing_is_given_and_answers_are_taken() {
        let (mut world, mut stream, now) = (World::default(), stream(), Time::ZERO);
        world.put("a", false);
        world.put("b", false);
        world.tell(&mut stream, now);
        let item = world.take(&mut stream, now).unwrap();
        stream.stop();
        assert!(world.take(&mut stream, now).is_none());
        assert_eq!(stream.answer(now, item, failed()).due, None, "it will not be retried");
        assert!(stream.next_deadline().is_none());
    }
}
