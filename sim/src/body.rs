//! The bodies that are made while they are read: [`ListBody`] and [`WatchBody`].
//!
//! Both write at most [`CHUNK`] bytes at a time (one object more if it is large), so a list of any size takes no more
//! memory than its objects already do.

use crate::gzip::Gzip;
use crate::object::StoredObject;
use crate::status::Status;
use crate::table::{Selection, Table};
use informer_core::time::{Duration, Time};
use std::sync::Arc;

/// Size of one piece of a body. A few of the kernel's socket buffers; larger ones were no faster.
pub(crate) const CHUNK: usize = 64 * 1024;

/// A bookmark comes this long before a watch times out, so that the next one starts from as late as possible (C14).
const BEFORE_TIMEOUT: Duration = Duration::from_secs(2);

/// A list on its way out: its objects are fixed, its text is not yet made.
#[derive(Debug)]
pub(crate) struct ListBody {
    head: String,
    items: std::vec::IntoIter<Arc<StoredObject>>,
    tail: String,
    custom: bool,
    begun: bool,
    /// The next item is the first one.
    first: bool,
    gzip: Option<Gzip>,
}

impl ListBody {
    /// The list of `items` at `version`; `more` is the token of the next page and how many are left, if that is told.
    pub(crate) fn new(
        table: &Table,
        items: Vec<Arc<StoredObject>>,
        version: u64,
        more: Option<(String, Option<usize>)>,
    ) -> Self {
        let (kind, api_version) = (&table.shape.kind, &table.shape.api_version);
        let token = more.as_ref().map_or("", |(token, _)| token.as_str());
        let left = match &more {
            Some((_, Some(left))) => format!(r#","remainingItemCount":{left}"#),
            Some((_, None)) | None => String::new(),
        };
        // Custom resources are maps to the real server, so their members are sorted and empty ones stay.
        let (head, tail) = if table.shape.custom {
            (
                format!(r#"{{"apiVersion":"{api_version}","items":["#),
                format!(
                    r#"],"kind":"{kind}List","metadata":{{"continue":"{token}"{left},"resourceVersion":"{version}"}}}}"#
                ) + "\n",
            )
        } else {
            let token = if token.is_empty() { String::new() } else { format!(r#","continue":"{token}""#) };
            (
                format!(
                    r#"{{"kind":"{kind}List","apiVersion":"{api_version}","metadata":{{"resourceVersion":"{version}"{token}{left}}},"items":["#
                ),
                "]}\n".to_owned(),
            )
        };
        ListBody {
            head,
            items: items.into_iter(),
            tail,
            custom: table.shape.custom,
            begun: false,
            first: true,
            gzip: None,
        }
    }

    /// How many bytes the whole list has.
    pub(crate) fn len(&self) -> usize {
        let items = self.items.as_slice();
        let texts: usize = items.iter().map(|object| object.item_len(self.custom) + 1).sum();
        self.head.len() + self.tail.len() + texts.saturating_sub(1)
    }

    /// The objects that were not sent yet.
    pub(crate) fn items(&self) -> &[Arc<StoredObject>] {
        self.items.as_slice()
    }

    pub(crate) fn compress(&mut self) {
        self.gzip = Some(Gzip::new());
    }

    /// The next piece, and whether it was the last.
    pub(crate) fn next(&mut self) -> (Vec<u8>, bool) {
        let mut plain = Vec::with_capacity(CHUNK);
        // Compressed, one piece may give no bytes at all; the loop ends with the items.
        loop {
            if !std::mem::replace(&mut self.begun, true) {
                plain.extend_from_slice(self.head.as_bytes());
            }
            let mut last = true;
            while let Some(object) = self.items.as_slice().first() {
                if !plain.is_empty() && plain.len() + object.item_len(self.custom) > CHUNK {
                    last = false;
                    break;
                }
                if !std::mem::replace(&mut self.first, false) {
                    plain.push(b',');
                }
                object.push_item(&mut plain, self.custom);
                self.items.next();
            }
            if last {
                plain.extend_from_slice(self.tail.as_bytes());
            }
            let Some(gzip) = &mut self.gzip else { return (plain, last) };
            let packed = gzip.push(&plain, last);
            if last || !packed.is_empty() {
                return (packed, last);
            }
            plain.clear();
        }
    }
}

/// A watch: a place in a table's log, and what is due beside it.
#[derive(Debug)]
pub(crate) struct WatchBody {
    pub(crate) table: usize,
    pub(crate) selection: Selection,
    /// Everything up to here was sent or is in `initial`.
    pub(crate) cursor: u64,
    /// The state to begin with, in reverse order.
    pub(crate) initial: Vec<Arc<StoredObject>>,
    /// The version of that state, if a bookmark is to mark its end.
    pub(crate) end_of_initial: Option<u64>,
    bookmarks: bool,
    bookmark_at: Option<Time>,
    deadline: Time,
    bookmark_due: bool,
    end: Option<WatchEnd>,
}

/// How a watch ends, once everything before is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchEnd {
    /// Cleanly: timeout, shutdown, the resource is gone.
    Clean,
    /// With an ERROR event, 410.
    Expired,
}

/// What a watch has left after a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Nothing,
    More,
    Ended,
}

impl WatchBody {
    pub(crate) fn new(
        table: usize,
        selection: Selection,
        cursor: u64,
        bookmarks: bool,
        (now, deadline, bookmark_every): (Time, Time, Duration),
    ) -> Self {
        let mut watch = WatchBody {
            table,
            selection,
            cursor,
            initial: Vec::new(),
            end_of_initial: None,
            bookmarks,
            bookmark_at: None,
            deadline,
            bookmark_due: false,
            end: None,
        };
        watch.plan_bookmark(now, bookmark_every);
        watch
    }

    fn plan_bookmark(&mut self, now: Time, every: Duration) {
        let before_timeout = Time::ZERO + self.deadline.since(Time::ZERO + BEFORE_TIMEOUT);
        self.bookmark_at = (self.bookmarks && before_timeout > now).then(|| before_timeout.min(now + every));
    }

    /// The moment and the name of its next timer.
    pub(crate) fn timer(&self) -> Option<(Time, &'static str)> {
        if self.end.is_some() {
            return None;
        }
        Some(match self.bookmark_at {
            Some(at) if at < self.deadline => (at, "bookmark of a watch"),
            Some(_) | None => (self.deadline, "timeout of a watch"),
        })
    }

    /// Fires what is due; true if there is something to send now.
    pub(crate) fn fire(&mut self, now: Time, bookmark_every: Duration) -> bool {
        if self.bookmark_at.is_some_and(|at| at <= now) {
            self.bookmark_due = true;
            self.plan_bookmark(now, bookmark_every);
        }
        if self.deadline <= now && self.end.is_none() {
            self.end = Some(WatchEnd::Clean);
        }
        self.bookmark_due || self.end.is_some()
    }

    /// Ends the watch once everything before is out.
    pub(crate) fn end(&mut self, how: WatchEnd) {
        self.end = Some(how);
    }

    /// The next piece; `version` is that of the server.
    pub(crate) fn next(&mut self, table: &Table, version: u64) -> (Vec<u8>, Left) {
        let mut out = Vec::new();
        while let Some(object) = self.initial.pop() {
            object.push_frame(&mut out, "ADDED", object.version());
            if out.len() >= CHUNK {
                return (out, Left::More);
            }
        }
        if let Some(version) = self.end_of_initial.take() {
            push_bookmark(&mut out, table, version, true);
        }
        for change in table.changes_after(self.cursor) {
            if out.len() >= CHUNK {
                return (out, Left::More);
            }
            self.cursor = change.version;
            if let Some((kind, object)) = self.selection.event(change, &table.shape) {
                object.push_frame(&mut out, kind, change.version);
            }
        }
        // A watch from the future keeps still until its version has come.
        if self.bookmark_due && self.cursor <= version {
            push_bookmark(&mut out, table, version, false);
        }
        self.cursor = self.cursor.max(version);
        self.bookmark_due = false;
        match self.end {
            None => return (out, Left::Nothing),
            Some(WatchEnd::Clean) => {}
            Some(WatchEnd::Expired) => {
                push_error(&mut out, &Status::expired("The resourceVersion for the provided watch is too old."));
            }
        }
        (out, Left::Ended)
    }
}

/// Appends a BOOKMARK event; `ends` marks the end of the initial events (C12).
fn push_bookmark(out: &mut Vec<u8>, table: &Table, version: u64, ends: bool) {
    let annotations = if ends { r#""annotations":{"k8s.io/initial-events-end":"true"}"# } else { "" };
    let comma = if ends { "," } else { "" };
    let version = format!(r#""resourceVersion":"{version}""#);
    let metadata = if table.shape.custom {
        format!("{annotations}{comma}{version}")
    } else {
        format!("{version}{comma}{annotations}")
    };
    let frame = format!(r#"{{"type":"BOOKMARK","object":{{{},"metadata":{{{metadata}}}}}}}"#, table.shape.type_meta());
    out.extend_from_slice(frame.as_bytes());
    out.push(b'\n');
}

/// Appends an ERROR event.
pub(crate) fn push_error(out: &mut Vec<u8>, status: &Status) {
    out.extend_from_slice(br#"{"type":"ERROR","object":"#);
    out.extend_from_slice(status.json().as_bytes());
    out.extend_from_slice(b"}\n");
}
