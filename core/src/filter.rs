//! [`Filter`]: the notifications of a handler that is to see only some of the objects.
//!
//! A change that crosses the border is told as what it is to the handler:
//!
//! | the handler has it | the change | it is kept | what is told |
//! |---|---|---|---|
//! | no | added | yes | added, as it is |
//! | no | updated | yes | added, not of the initial state |
//! | yes | updated | yes | updated; `old` is what the handler has |
//! | yes | updated | no | deleted; `object` and `old` are what the handler has; of another incarnation: final state unknown |
//! | yes | deleted | is not asked | deleted; `old` is what the handler has |
//! | no | any | no | nothing |
//!
//! Whether the handler has an object is remembered, not asked of the function again. So the sequence of each key is
//! added → updated* → deleted with unbroken `old` (I11, I12) whatever the function says, even one that panics, or that
//! changes its mind, which counts from the next change or resync of the object on. A panic changes nothing: the
//! notification is not told, and the next one of that key goes on from what the handler has; no deletion is made up.
//!
//! What is said of notifications and not of objects, such as that a generation has changed, is a controller's
//! [`Predicate`](crate::controller::Predicate): it may drop what it likes, because a controller works on keys.
//!
//! Memory: one handle for each object that the handler has.
//!
//! ```
//! use informer_core::filter::Filter;
//! use informer_core::listener::{Cause, Notification};
//! use informer_core::{Key, Obj, Uid, Version};
//!
//! let pod = |version: &str, phase| Obj::new(Key::new("web", "a"), Uid::new("u"), Version::new(version), phase);
//! let (pending, running, failed) = (pod("1", "Pending"), pod("2", "Running"), pod("3", "Failed"));
//! let mut running_only = Filter::new(7, |pod: &Obj<&str>| **pod == "Running");
//!
//! let added = Notification::Added { object: pending.clone(), initial: true, cause: Cause::List };
//! assert!(running_only.apply(&added).is_none());
//! let starts = Notification::Updated { old: pending, new: running.clone(), cause: Cause::Watch };
//! assert_eq!(running_only.apply(&starts).unwrap().to_string(), "added web/a@2");
//! let fails = Notification::Updated { old: running, new: failed, cause: Cause::Watch };
//! assert_eq!(running_only.apply(&fails).unwrap().to_string(), "deleted web/a@2");
//! ```

use crate::listener::{Cause, Notification};
use crate::object::Obj;
use crate::shown::Shown;
use crate::store::same_incarnation;
use alloc::borrow::Cow;
use alloc::boxed::Box;
use core::fmt;

type Keep<T> = dyn FnMut(&Obj<T>) -> bool + Send + Sync;

/// Shows a handler only the objects for which a function holds; see the [module](self).
pub struct Filter<T> {
    keep: Box<Keep<T>>,
    /// What the handler has.
    seen: Shown<T>,
}

impl<T> Filter<T> {
    /// A filter of a handler that has been told nothing yet, with the seed of a hash table.
    pub fn new(seed: u64, keep: impl FnMut(&Obj<T>) -> bool + Send + Sync + 'static) -> Self {
        Filter { keep: Box::new(keep), seen: Shown::new(seed) }
    }

    /// Takes out what the handler was told of: for who drops what it has the last handle of one by one.
    pub fn take_objects(&mut self) -> impl Iterator<Item = Obj<T>> + use<T> {
        self.seen.take()
    }

    /// What the handler is to be told instead of `notification`; the same if it is borrowed. Every notification of the
    /// handler must come by here, in order.
    ///
    /// # Panics
    ///
    /// If the function panics; then this has changed nothing, and can be called again.
    #[must_use]
    pub fn apply<'a>(&mut self, notification: &'a Notification<T>) -> Option<Cow<'a, Notification<T>>> {
        match notification {
            Notification::Added { object, .. } => {
                if !(self.keep)(object) {
                    return None;
                }
                let before = self.seen.put(object.clone());
                debug_assert!(before.is_none(), "added is told of a key that the handler does not have (I11)");
                Some(Cow::Borrowed(notification))
            }
            Notification::Updated { old, new, cause } => {
                let keeps = (self.keep)(new);
                // A repeat of what the handler was not told before is news to it, and no resync that it may pass over.
                let cause = if *cause == Cause::Resync { Cause::Relist } else { *cause };
                let seen = if keeps { self.seen.put(new.clone()) } else { self.seen.remove(&new.key()) };
                match seen {
                    Some(seen) if keeps && Obj::ptr_eq(&seen, old) => Some(Cow::Borrowed(notification)),
                    Some(seen) if keeps => {
                        Some(Cow::Owned(Notification::Updated { old: seen, new: new.clone(), cause }))
                    }
                    // That the one which the handler has is gone altogether, nobody saw, if another has taken its place.
                    Some(seen) => Some(Cow::Owned(Notification::Deleted {
                        final_state_known: same_incarnation(seen.uid(), new.uid()),
                        object: seen.clone(),
                        old: seen,
                        cause,
                    })),
                    None if keeps => {
                        Some(Cow::Owned(Notification::Added { object: new.clone(), initial: false, cause }))
                    }
                    None => None,
                }
            }
            Notification::Deleted { object, old, cause, final_state_known } => {
                let seen = self.seen.remove(&object.key())?;
                if Obj::ptr_eq(&seen, old) {
                    return Some(Cow::Borrowed(notification));
                }
                Some(Cow::Owned(Notification::ended(seen, object.clone(), *cause, *final_state_known)))
            }
        }
    }

    /// How many objects the handler has.
    pub fn len(&self) -> usize {
        self.seen.len()
    }

    /// True if the handler has none.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }
}

impl<T> fmt::Debug for Filter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "filter that let {} objects through", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Key, Uid, Version};
    use alloc::sync::Arc;
    use alloc::vec::Vec;
    use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::string::{String, ToString};
    use std::{format, vec};

    /// What the function answers to an object.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Answer {
        Keep,
        Drop,
        Panic,
    }

    fn answer() -> impl Strategy<Value = Answer> {
        prop_oneof![4 => Just(Answer::Keep), 4 => Just(Answer::Drop), 1 => Just(Answer::Panic)]
    }

    #[derive(Clone, Copy, Debug)]
    enum Op {
        Put(u8, Answer),
        Delete(u8, bool),
        Resync(u8),
        /// The function changes its mind about all that have this answer.
        Flip(Answer, Answer),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            8 => (0u8..4, answer()).prop_map(|(key, answer)| Op::Put(key, answer)),
            2 => (0u8..4, any::<bool>()).prop_map(|(key, known)| Op::Delete(key, known)),
            2 => (0u8..4).prop_map(Op::Resync),
            1 => (answer(), answer()).prop_map(|(from, to)| Op::Flip(from, to)),
        ]
    }

    fn object(key: u8, version: u64, answer: Answer) -> Obj<Answer> {
        Obj::new(Key::new("ns", &format!("k{key}")), Uid::new("u"), Version::new(&version.to_string()), answer)
    }

    /// What a handler was told, checked against I11 and I12: `old` is the very object that it has.
    fn see(view: &mut BTreeMap<Key, Obj<Answer>>, told: &Notification<Answer>) {
        let (key, has) = (told.key().to_key(), view.get(told.key().as_str()));
        let repeats = matches!(told, Notification::Updated { old, new, .. } if Obj::ptr_eq(old, new));
        assert!(told.cause() != Cause::Resync || repeats, "a resync repeats what it has (I18)");
        match told {
            Notification::Added { object, .. } => {
                assert!(has.is_none(), "added twice");
                view.insert(key, object.clone());
            }
            Notification::Updated { old, new, .. } => {
                assert!(Obj::ptr_eq(old, has.expect("an update of what it has")));
                view.insert(key, new.clone());
            }
            Notification::Deleted { old, .. } => {
                assert!(Obj::ptr_eq(old, has.expect("a deletion of what it has")));
                view.remove(&key);
            }
        }
    }

    /// A filter whose function can be told to change its mind, and what it tells a handler.
    struct Filtered {
        filter: Filter<Answer>,
        mind: Arc<Mind>,
        view: BTreeMap<Key, Obj<Answer>>,
        /// Keys whose last change the function panicked on.
        unsure: BTreeMap<Key, ()>,
    }

    const ANSWERS: [Answer; 3] = [Answer::Keep, Answer::Drop, Answer::Panic];

    /// What the function answers now where an object says one of [`ANSWERS`]: their numbers.
    struct Mind([AtomicUsize; 3]);

    impl Mind {
        fn of(&self, answer: Answer) -> Answer {
            ANSWERS[self.0[answer as usize].load(Ordering::Relaxed)]
        }

        fn change(&self, from: Answer, to: Answer) {
            for now in &self.0 {
                _ = now.compare_exchange(from as usize, to as usize, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }

    impl Filtered {
        fn new() -> Self {
            let now = Arc::new(Mind([0, 1, 2].map(AtomicUsize::new)));
            let inside = Arc::clone(&now);
            let filter = Filter::new(7, move |object: &Obj<Answer>| {
                let answer = inside.of(**object);
                match answer {
                    Answer::Keep => true,
                    Answer::Drop => false,
                    Answer::Panic => resume_unwind(Box::new("on purpose")), // without a line on stderr
                }
            });
            Filtered { filter, mind: now, view: BTreeMap::new(), unsure: BTreeMap::new() }
        }

        fn tell(&mut self, event: &Notification<Answer>) {
            let before = self.view.clone();
            match catch_unwind(AssertUnwindSafe(|| self.filter.apply(event).map(Cow::into_owned))) {
                Ok(told) => {
                    self.unsure.remove(event.key().as_str());
                    told.iter().for_each(|told| see(&mut self.view, told));
                }
                Err(_) => {
                    self.unsure.insert(event.key().to_key(), ());
                    assert_eq!(before.len(), self.view.len(), "a panic tells nothing");
                }
            }
        }
    }

    proptest! {
        /// I11 and I12 under a function that panics and changes its mind; the end is right for all that it answered.
        #[test]
        fn every_chain_is_legal_whatever_the_function_does(ops in prop::collection::vec(op(), 0..120)) {
            let (mut world, mut filtered) = (BTreeMap::<u8, Obj<Answer>>::new(), Filtered::new());
            // By a fold over the history, and not by remembering: what is told must be what was kept when it changed.
            let mut kept = BTreeMap::<Key, bool>::new();
            for (version, op) in ops.into_iter().enumerate() {
                let cause = Cause::Watch;
                let event = match op {
                    Op::Put(key, answer) => {
                        let new = object(key, version as u64, answer);
                        match world.insert(key, new.clone()) {
                            None => Notification::Added { object: new, initial: false, cause },
                            Some(old) => Notification::Updated { old, new, cause },
                        }
                    }
                    Op::Delete(key, known) => {
                        let Some(old) = world.remove(&key) else { continue };
                        let object = if known { object(key, version as u64, Answer::Drop) } else { old.clone() };
                        Notification::Deleted { object, old, cause, final_state_known: known }
                    }
                    Op::Resync(key) => {
                        let Some(new) = world.get(&key) else { continue };
                        Notification::Updated { old: new.clone(), new: new.clone(), cause: Cause::Resync }
                    }
                    Op::Flip(from, to) => {
                        filtered.mind.change(from, to);
                        continue;
                    }
                };
                filtered.tell(&event);
                let answer = filtered.mind.of(**event.object());
                match (&event, answer) {
                    (Notification::Deleted { .. }, _) => _ = kept.remove(event.key().as_str()),
                    (_, Answer::Panic) => {}
                    (_, answer) => _ = kept.insert(event.key().to_key(), answer == Answer::Keep),
                }
                let want: Vec<_> = kept.iter().filter(|(_, keep)| **keep).map(|(key, _)| key.clone()).collect();
                prop_assert_eq!(filtered.view.keys().cloned().collect::<Vec<_>>(), want);
                prop_assert_eq!(filtered.filter.len(), filtered.view.len());
                for (key, has) in &filtered.view {
                    let newest = world.values().find(|object| object.key() == *key).expect("nothing outlives its object");
                    prop_assert!(filtered.unsure.contains_key(key) || Obj::ptr_eq(has, newest));
                }
            }
        }
    }

    fn lines(filtered: &mut Filter<Answer>, events: &[Notification<Answer>]) -> Vec<String> {
        let show = |event: Cow<'_, Notification<Answer>>| {
            let initial = matches!(*event, Notification::Added { initial: true, .. });
            format!("{:?}{}", *event, if initial { ", initial" } else { "" })
        };
        events.iter().filter_map(|event| filtered.apply(event).map(show)).collect()
    }

    fn keeps() -> Filter<Answer> {
        Filter::new(7, |object: &Obj<Answer>| match **object {
            Answer::Keep => true,
            Answer::Drop => false,
            Answer::Panic => resume_unwind(Box::new("on purpose")),
        })
    }

    fn added(object: &Obj<Answer>) -> Notification<Answer> {
        Notification::Added { object: object.clone(), initial: true, cause: Cause::List }
    }

    fn updated(old: &Obj<Answer>, new: &Obj<Answer>, cause: Cause) -> Notification<Answer> {
        Notification::Updated { old: old.clone(), new: new.clone(), cause }
    }

    #[test]
    fn trap68_what_crosses_the_border_later_is_added_but_not_of_the_initial_state() {
        let (out, inside) = (object(1, 1, Answer::Drop), object(1, 2, Answer::Keep));
        let told = lines(&mut keeps(), &[added(&out), updated(&out, &inside, Cause::Watch)]);
        assert_eq!(told, ["added ns/k1@2 by Watch"]);
        assert_eq!(lines(&mut keeps(), &[added(&inside)]), ["added ns/k1@2 by List, initial"]);
    }

    #[test]
    fn a_deletion_is_told_of_what_the_handler_has_even_if_the_final_state_is_not_kept() {
        let (inside, last) = (object(1, 1, Answer::Keep), object(1, 2, Answer::Drop));
        let deleted = |object: &Obj<Answer>, final_state_known| Notification::Deleted {
            object: object.clone(),
            old: inside.clone(),
            cause: Cause::Watch,
            final_state_known,
        };
        let told = lines(&mut keeps(), &[added(&inside), deleted(&last, true)]);
        assert_eq!(told[1], "deleted ns/k1@2 by Watch");
        let told = lines(&mut keeps(), &[added(&inside), deleted(&inside, false)]);
        assert_eq!(told[1], "deleted ns/k1@1 (final state unknown) by Watch");
        let unasked = object(1, 3, Answer::Panic);
        assert_eq!(lines(&mut keeps(), &[deleted(&unasked, true)]), Vec::<String>::new(), "it was never told");
    }

    #[test]
    fn the_end_of_an_incarnation_that_could_not_be_judged_is_the_end_of_the_one_that_the_handler_has() {
        let first = object(1, 1, Answer::Keep);
        let second = Obj::new(first.key().to_key(), Uid::new("v"), Version::new("2"), Answer::Panic);
        let mut filter = keeps();
        assert!(filter.apply(&added(&first)).is_some());
        let recreated = updated(&first, &second, Cause::Relist);
        assert!(catch_unwind(AssertUnwindSafe(|| filter.apply(&recreated).is_some())).is_err());
        let (object, old) = (second.clone(), second);
        let gone = Notification::Deleted { object, old, cause: Cause::Watch, final_state_known: true };
        assert_eq!(lines(&mut filter, &[gone]), ["deleted ns/k1@1 (final state unknown) by Watch"]);
    }

    #[test]
    fn a_resync_repeats_what_the_handler_has_and_nothing_else() {
        let (inside, out) = (object(1, 1, Answer::Keep), object(2, 2, Answer::Drop));
        let resync = |object| updated(object, object, Cause::Resync);
        let told = lines(&mut keeps(), &[added(&inside), added(&out), resync(&inside), resync(&out)]);
        assert_eq!(told, ["added ns/k1@1 by List, initial", "resync ns/k1@1 by Resync"]);
    }

    #[test]
    fn a_panic_makes_no_deletion_up_and_the_next_change_goes_on_from_what_the_handler_has() {
        let versions = [Answer::Keep, Answer::Panic, Answer::Keep, Answer::Panic, Answer::Drop];
        let versions: Vec<_> = (1..).zip(versions).map(|(version, answer)| object(1, version, answer)).collect();
        let mut events = vec![added(&versions[0])];
        events.extend(versions.windows(2).map(|pair| updated(&pair[0], &pair[1], Cause::Watch)));
        let mut filter = keeps();
        let told: Vec<_> = events
            .iter()
            .map(|event| match catch_unwind(AssertUnwindSafe(|| filter.apply(event).map(|told| told.to_string()))) {
                Ok(told) => told.unwrap_or_default(),
                Err(_) => "panicked".to_string(),
            })
            .collect();
        assert_eq!(told, ["added ns/k1@1", "panicked", "updated ns/k1@3 (was 1)", "panicked", "deleted ns/k1@3"]);
    }

    #[test]
    fn what_a_panic_held_back_is_no_mere_repeat_when_a_resync_brings_it() {
        let panics = Arc::new(AtomicBool::new(true));
        let inside = Arc::clone(&panics);
        let mut filter = Filter::new(7, move |object: &Obj<Answer>| {
            let panics = inside.load(Ordering::Relaxed);
            if panics && object.version().as_str() == "2" { resume_unwind(Box::new("on purpose")) } else { true }
        });
        let (first, second) = (object(1, 1, Answer::Keep), object(1, 2, Answer::Keep));
        assert_eq!(lines(&mut filter, &[added(&first)]).len(), 1);
        let update = updated(&first, &second, Cause::Watch);
        assert!(catch_unwind(AssertUnwindSafe(|| filter.apply(&update).is_some())).is_err());
        panics.store(false, Ordering::Relaxed);
        let told = lines(&mut filter, &[updated(&second, &second, Cause::Resync)]);
        assert_eq!(told, ["updated ns/k1@2 (was 1) by Relist"]);
    }
}
