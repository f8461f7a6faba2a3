//! [`Table`]: the objects of one resource, the changes that led here, and the views behind continue tokens.
//!
//! ```text
//!            floor                       last
//!              │   log (bounded)          │
//!   ───────────┼──c──c──c──c──c──c──c──c──┤   objects = everything up to `last`
//!              │                          │
//!    a watch may start anywhere from here on; older ones get 410
//! ```
//!
//! Watches hold no queues: each is a cursor into the log. Entries that a reading watch still needs stay beyond the
//! bound, so that draining a driver late only delays.

use crate::message::CallId;
use crate::object::{Shape, StoredObject};
use informer_core::object::{Key, Resource};
use informer_core::selector::{FieldSelector, LabelSelector};
use informer_core::time::{Duration, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

pub(crate) type Objects = BTreeMap<Key, Arc<StoredObject>>;

/// Views kept for continue tokens, for each resource. Sixteen lists may be paged while objects change.
const SNAPSHOTS: usize = 16;

/// How long a view is kept: as long as etcd keeps old revisions with the compaction interval of the API server.
const SNAPSHOT_AGE: Duration = Duration::from_secs(300);

/// One write.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) old: Option<Arc<StoredObject>>,
    pub(crate) new: Option<Arc<StoredObject>>,
}

/// Which objects a list or watch is about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    /// Empty for all namespaces.
    pub(crate) namespace: String,
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
}

impl Selection {
    pub(crate) fn matches(&self, object: &StoredObject, shape: &Shape) -> bool {
        (self.namespace.is_empty() || object.key().namespace() == self.namespace)
            && self.labels.matches_labels(|name| object.label(name))
            && self.fields.matches(|path| Some(object.field(shape, path)))
    }

    pub(crate) fn has_selector(&self) -> bool {
        !self.labels.is_everything() || !self.fields.is_everything()
    }

    /// What a change is to a watch with this selection (C9): the frame's type, and the object whose content it shows.
    pub(crate) fn event<'a>(&self, change: &'a Change, shape: &Shape) -> Option<(&'static str, &'a StoredObject)> {
        let chosen = |object: &'a Option<Arc<StoredObject>>| object.as_deref().filter(|o| self.matches(o, shape));
        match (chosen(&change.old), chosen(&change.new)) {
            (None, Some(new)) => Some(("ADDED", new)),
            (Some(_), Some(new)) => Some(("MODIFIED", new)),
            // Gone from the selection or from the store: the previous content, under the version of this change.
            (Some(old), None) => Some(("DELETED", old)),
            (None, None) => None,
        }
    }
}

/// The objects of one resource.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) resource: Resource,
    pub(crate) shape: Shape,
    pub(crate) status_subresource: bool,
    objects: Arc<Objects>,
    log: VecDeque<Change>,
    /// The oldest version from which a watch may start.
    floor: u64,
    /// The oldest version whose state is known: older than `floor` after a restart, which empties only the watch
    /// cache.
    known: u64,
    /// The version of the newest change that left the log: a cursor before it would miss some.
    trimmed: u64,
    last: u64,
    snapshots: VecDeque<(u64, Time, Arc<Objects>)>,
    pub(crate) watches: BTreeSet<CallId>,
    /// The resource was taken away; what is left is for watches that have not read to the end.
    pub(crate) gone: bool,
}

impl Table {
    pub(crate) fn new(resource: Resource, shape: Shape, status_subresource: bool, version: u64) -> Self {
        Table {
            resource,
            shape,
            status_subresource,
            objects: Arc::default(),
            log: VecDeque::new(),
            floor: version,
            known: version,
            trimmed: 0,
            last: version,
            snapshots: VecDeque::new(),
            watches: BTreeSet::new(),
            gone: false,
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Arc<StoredObject>> {
        self.objects.get(key)
    }

    pub(crate) fn objects(&self) -> &Arc<Objects> {
        &self.objects
    }

    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    /// Applies one write; `keep` is the bound of the log, `reading` the smallest cursor of a watch that reads.
    pub(crate) fn commit(
        &mut self,
        version: u64,
        key: &Key,
        new: Option<Arc<StoredObject>>,
        keep: usize,
        reading: u64,
    ) {
        // While a page view shares the map, this is the one copy for all of them.
        let objects = Arc::make_mut(&mut self.objects);
        let old = match &new {
            Some(object) => objects.insert(key.clone(), Arc::clone(object)),
            None => objects.remove(key),
        };
        self.log.push_back(Change { version, old, new });
        self.last = version;
        if let Some(beyond) = self.log.len().checked_sub(keep + 1) {
            self.floor = self.floor.max(self.log[beyond].version);
            self.known = self.known.max(self.floor);
        }
        while let Some(change) = self.log.front().filter(|change| change.version <= self.known.min(reading)) {
            self.trimmed = change.version;
            self.log.pop_front();
        }
    }

    /// True if a paused watch at `cursor` lags more than `most` changes, or would miss some.
    pub(crate) fn overtook(&self, cursor: u64, most: usize) -> bool {
        cursor < self.trimmed || self.changes_after(cursor).len() > most
    }

    /// The changes after `version`, oldest first.
    pub(crate) fn changes_after(&self, version: u64) -> impl ExactSizeIterator<Item = &Change> {
        self.log.range(self.log.partition_point(|change| change.version <= version)..)
    }

    /// The objects as they were at `version`, if that is still known.
    pub(crate) fn at(&self, version: u64) -> Option<Arc<Objects>> {
        if version >= self.last {
            return Some(Arc::clone(&self.objects));
        }
        if let Some((.., objects)) = self.snapshots.iter().find(|(at, ..)| *at == version) {
            return Some(Arc::clone(objects));
        }
        if version < self.known {
            return None;
        }
        let mut objects = (*self.objects).clone();
        for change in self.log.iter().rev().take_while(|change| change.version > version) {
            match (&change.old, &change.new) {
                (Some(old), _) => {
                    objects.insert(old.key().clone(), Arc::clone(old));
                }
                (None, Some(new)) => {
                    objects.remove(new.key());
                }
                (None, None) => {}
            }
        }
        Some(Arc::new(objects))
    }

    /// Keeps a view for the pages that follow.
    pub(crate) fn keep_snapshot(&mut self, version: u64, objects: Arc<Objects>, now: Time) {
        if self.snapshots.iter().any(|(at, ..)| *at == version) {
            return;
        }
        if self.snapshots.len() == SNAPSHOTS {
            self.snapshots.pop_front();
        }
        self.snapshots.push_back((version, now, objects));
    }

    /// Drops the views that are too old.
    pub(crate) fn expire_snapshots(&mut self, now: Time) {
        self.snapshots.retain(|(_, taken, _)| now.since(*taken) < SNAPSHOT_AGE);
    }

    /// Forgets what a restart of the API server forgets: no watch may start before `version`.
    pub(crate) fn forget_watch_cache(&mut self, version: u64) {
        self.floor = version;
    }

    /// Forgets what a compaction of etcd forgets: no state before `version` is known.
    pub(crate) fn compact(&mut self, version: u64) {
        self.floor = version;
        self.known = version;
        self.snapshots.clear();
    }

    /// Lets go of everything; for a resource that is gone and that nobody watches any more.
    pub(crate) fn clear(&mut self) {
        self.objects = Arc::default();
        self.log.clear();
        self.snapshots.clear();
    }
}

/// The objects of one namespace, or all if it is empty, from the key `start` (relative to the namespace) on.
pub(crate) fn range<'a>(
    objects: &'a Objects,
    namespace: &str,
    start: &str,
) -> impl Iterator<Item = &'a Arc<StoredObject>> + use<'a> {
    let (from, to) = if namespace.is_empty() {
        (start.to_owned(), Bound::Unbounded)
    } else {
        // '0' is what follows '/'.
        (format!("{namespace}/{start}"), Bound::Excluded(format!("{namespace}0")))
    };
    let to = match &to {
        Bound::Excluded(end) => Bound::Excluded(end.as_str()),
        Bound::Unbounded | Bound::Included(_) => Bound::Unbounded,
    };
    objects.range::<str, _>((Bound::Included(from.as_str()), to)).map(|(_, object)| object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Draft;

    fn table() -> Table {
        let resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
        let shape = Shape::new(&resource, false);
        Table::new(resource, shape, false, 1)
    }

    fn put(table: &mut Table, version: u64, key: &str, keep: usize, reading: u64) {
        let key: Key = key.parse().unwrap();
        let mut draft = Draft::read(r#"{"metadata":{}}"#).unwrap();
        draft.name = key.name().into();
        draft.namespace = key.namespace().into();
        let object = Arc::new(draft.finish(&table.shape, version));
        table.commit(version, &key, Some(object), keep, reading);
    }

    fn names(objects: &Objects) -> Vec<String> {
        objects.values().map(|object| format!("{object:?}")).collect()
    }

    #[test]
    fn an_old_state_is_rebuilt_from_the_log_until_it_falls_out() {
        let mut table = table();
        put(&mut table, 2, "a/x", 3, u64::MAX);
        put(&mut table, 3, "a/y", 3, u64::MAX);
        table.commit(4, &"a/x".parse().unwrap(), None, 3, u64::MAX);
        put(&mut table, 5, "a/y", 3, u64::MAX);
        assert_eq!(names(&table.at(3).unwrap()), ["a/x@2", "a/y@3"]);
        assert_eq!(names(&table.at(4).unwrap()), ["a/y@3"]);
        assert_eq!(names(&table.at(9).unwrap()), ["a/y@5"]);
        assert_eq!(table.floor(), 2);
        assert_eq!(names(&table.at(2).unwrap()), ["a/x@2"]);
        assert!(table.at(1).is_none());
    }

    #[test]
    fn a_reading_watch_holds_the_log_but_not_the_floor() {
        let mut table = table();
        for version in 2..=9 {
            put(&mut table, version, "a/x", 2, 4);
        }
        assert_eq!(table.floor(), 7);
        assert_eq!(table.changes_after(4).map(|change| change.version).collect::<Vec<_>>(), [5, 6, 7, 8, 9]);
        put(&mut table, 10, "a/x", 2, u64::MAX);
        assert_eq!(table.changes_after(0).map(|change| change.version).collect::<Vec<_>>(), [9, 10]);
    }

    #[test]
    fn a_snapshot_outlives_the_log_for_five_minutes() {
        let mut table = table();
        put(&mut table, 2, "a/x", 1, u64::MAX);
        let view = table.at(2).unwrap();
        table.keep_snapshot(2, view, Time::ZERO);
        for version in 3..=9 {
            put(&mut table, version, "a/x", 1, u64::MAX);
        }
        assert_eq!(names(&table.at(2).unwrap()), ["a/x@2"]);
        table.expire_snapshots(Time::ZERO + Duration::from_secs(299));
        assert!(table.at(2).is_some());
        table.expire_snapshots(Time::ZERO + Duration::from_secs(300));
        assert!(table.at(2).is_none());
    }

    #[test]
    fn a_range_is_one_namespace_and_no_neighbour() {
        let mut table = table();
        for (at, key) in ["a/x", "a/y", "a-b/x", "a0/x", "b/x"].iter().enumerate() {
            put(&mut table, at as u64 + 2, key, 9, u64::MAX);
        }
        let keys = |namespace, start| {
            range(table.objects(), namespace, start).map(|object| object.key().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(keys("a", ""), ["a/x", "a/y"]);
        assert_eq!(keys("a", "x\0"), ["a/y"]);
        assert_eq!(keys("", ""), ["a-b/x", "a/x", "a/y", "a0/x", "b/x"]);
        assert_eq!(keys("", "a/y"), ["a/y", "a0/x", "b/x"]);
    }
}
