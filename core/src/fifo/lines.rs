//! [`Lines`]: per key what happened to it, keys in the order in which they came. What [`DeltaFifo`](super::DeltaFifo) and
//! [`PerKeyQueue`](super::per_key::PerKeyQueue) are made of.
//!
//! Invariants, asserted in debug builds: a key stands in the order exactly if it has a line, once; no line is empty; no
//! two deletions of a key are neighbours (trap 46); beyond the exact part a line holds at most two things.

use crate::object::Key;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use smallvec::SmallVec;

/// How an object ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// With this state.
    Seen,
    /// Nobody saw with which.
    Inferred,
}

/// Something that happened to one object.
pub(super) trait Happened: Sized {
    /// How the object ended with it; `None` if it is there afterwards.
    fn end(&self) -> Option<End>;

    /// What is told in place of this and of what happened next, where both leave the object there and there is no room for
    /// both; and what is left over.
    fn absorbed(self, next: Self) -> (Self, Option<Self>);
}

/// What a line has no room or no use for.
pub(super) type Joined<D> = SmallVec<[D; 2]>;

pub(super) struct Line<D> {
    pub(super) list: Vec<D>,
    /// Of the first list, for who counts that.
    pub(super) initial: bool,
}

pub(super) struct Lines<D> {
    lines: BTreeMap<Key, Line<D>>,
    order: VecDeque<Key>,
    /// How many things, beside the first one of each key, are kept as they came.
    exact: usize,
    /// How many there are beside the first one of each key.
    extra: usize,
}

impl<D: Happened> Lines<D> {
    pub(super) fn new(exact: usize) -> Self {
        Lines { lines: BTreeMap::new(), order: VecDeque::new(), exact, extra: 0 }
    }

    /// Adds what happened now to the line of its key. Gives back what need not be told any more, to be dropped elsewhere.
    #[must_use = "it may hold objects, whose drop is code of the user's"]
    pub(super) fn push(&mut self, key: &Key, next: D) -> Joined<D> {
        let full = self.extra >= self.exact;
        let line = self.line(key);
        let before = line.list.len();
        let joined = join(&mut line.list, next, full);
        self.count(before, key);
        joined
    }

    /// Puts back what was popped: before all that happened since. A key that has no line stands at the end of the order.
    pub(super) fn put_back(&mut self, key: &Key, list: Vec<D>, initial: bool) {
        let exact = self.exact;
        let before = self.line(key).list.len();
        let others = self.extra - before.saturating_sub(1);
        let line = self.line(key);
        line.initial |= initial;
        let since = core::mem::take(&mut line.list);
        for next in list.into_iter().chain(since) {
            let full = others + line.list.len().saturating_sub(1) >= exact;
            drop(join(&mut line.list, next, full));
        }
        self.count(before, key);
    }

    fn line(&mut self, key: &Key) -> &mut Line<D> {
        if !self.lines.contains_key(key) {
            self.order.push_back(key.clone());
            self.lines.insert(key.clone(), Line { list: Vec::new(), initial: false });
        }
        self.lines.get_mut(key).expect("it was just put there")
    }

    /// Counts a line anew that had `before` things.
    fn count(&mut self, before: usize, key: &Key) {
        let now = self.get(key.as_str()).map_or(0, |line| line.list.len());
        self.extra = self.extra + now.saturating_sub(1) - before.saturating_sub(1);
        self.check();
    }

    /// Takes the line of the key that waits longest.
    pub(super) fn pop(&mut self) -> Option<(Key, Line<D>)> {
        let key = self.order.pop_front()?;
        let line = self.lines.remove(&key).expect("a key in the order has a line");
        self.extra -= line.list.len() - 1;
        self.check();
        Some((key, line))
    }

    /// Everything, in no order that matters.
    pub(super) fn into_all(self) -> impl Iterator<Item = D> {
        self.lines.into_values().flat_map(|line| line.list)
    }

    pub(super) fn get(&self, key: &str) -> Option<&Line<D>> {
        self.lines.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut Line<D>> {
        self.lines.get_mut(key)
    }

    /// The keys, that which waits longest first.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.order.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    #[cfg(not(debug_assertions))]
    fn check(&self) {}

    /// Asserts the invariants of the module header, on few lines: the check costs the size of the queue.
    #[cfg(debug_assertions)]
    fn check(&self) {
        assert_eq!(self.order.len(), self.lines.len(), "a key is in the order exactly if it has a line");
        if self.order.len() <= 64 {
            let mut extra = 0;
            for key in &self.order {
                let list = &self.lines.get(key).expect("a key in the order has a line").list;
                let two = list.windows(2).any(|pair| pair.iter().all(|it| it.end().is_some()));
                assert!(!list.is_empty() && !two, "the line of {key} is empty or has two deletions side by side");
                extra += list.len() - 1;
            }
            assert_eq!(extra, self.extra, "what stands behind the first of each key is counted");
            assert!(extra <= self.exact.saturating_add(self.order.len()), "beyond the exact part two of a key at most");
        }
    }
}

/// Adds one thing to a line; one that is `full` gets no longer than two.
///
/// What is left of a full line is what a consumer must be told that is told nothing else: at most the end of the
/// incarnation that it knows, and then what is there now.
fn join<D: Happened>(list: &mut Vec<D>, next: D, full: bool) -> Joined<D> {
    let mut left = Joined::new();
    match (list.last_mut(), next.end()) {
        (Some(last), Some(_)) if last.end().is_some() => {
            // The first one is the one that happened, unless it was only inferred.
            let inferred = last.end() == Some(End::Inferred);
            left.push(if inferred { core::mem::replace(last, next) } else { next });
        }
        (Some(last), None) if full && last.end().is_none() => {
            let last = list.pop().expect("there is a last one");
            let (told, over) = last.absorbed(next);
            list.push(told);
            left.extend(over);
        }
        (Some(_), Some(_)) if full => {
            // What came and went behind a deletion need not be told at all.
            left.extend(list.pop());
            if list.last().is_none_or(|before| before.end().is_none()) {
                list.push(next);
            } else {
                left.push(next);
            }
        }
        (Some(_) | None, _) => list.push(next),
    }
    left
}
