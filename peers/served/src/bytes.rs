//! [`Prepared`]: everything that is served, made once.

use informer_benches::{Pod, Sample, end_of_initial_events, frames};
use std::io;
use std::ops::Range;

/// The version of every object; that of the list is later.
const LISTED: u64 = 1;

/// Added to the number of an event: later than the list's version.
const CHANGED: u64 = 8_000_001;

/// What a watch frame puts before the members of an object of a list, which does not repeat its kind.
const ADDED: &[u8] = br#"{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","#;

/// Events of a watch go over distinct objects that lie far apart, as in a cluster: this many beside each other.
const STRIDE: u64 = 7_919;

/// Bodies, and where their parts lie.
pub(crate) struct Prepared {
    /// All objects with a comma between them.
    items: Vec<u8>,
    /// Where each begins and ends in `items`.
    spans: Vec<Range<usize>>,
    /// Frames, one after another.
    events: Vec<u8>,
    event_ends: Vec<usize>,
    end_of_initial: Vec<u8>,
}

impl Prepared {
    pub(crate) fn new(objects: usize, events: usize) -> Self {
        let mut items = Vec::new();
        let mut spans = Vec::with_capacity(objects);
        for n in 0..objects as u64 {
            if n > 0 {
                items.push(b',');
            }
            let start = items.len();
            serde_json::to_writer(&mut items, &Pod::sample(n, LISTED)).expect("samples are plain data");
            spans.push(start..items.len());
        }
        let mut changed = Vec::new();
        let mut event_ends = Vec::with_capacity(events);
        for number in 0..events as u64 {
            let n = number * STRIDE % objects.max(1) as u64;
            changed.extend_from_slice(&frames::<Pod>("MODIFIED", n..n + 1, |_| CHANGED + number));
            event_ends.push(changed.len());
        }
        let end_of_initial = end_of_initial_events::<Pod>();
        Prepared { items, spans, events: changed, event_ends, end_of_initial }
    }

    pub(crate) fn objects(&self) -> usize {
        self.spans.len()
    }

    pub(crate) fn events(&self) -> usize {
        self.event_ends.len()
    }

    /// Bytes of all objects.
    pub(crate) fn list_bytes(&self) -> usize {
        self.items.len()
    }

    /// A page: what comes before the items, they, and what comes after. A page that is not the last has a token, which
    /// is the number of the next object.
    pub(crate) fn list(&self, page: Range<usize>) -> (Vec<u8>, &[u8], &[u8]) {
        let (rest, all) = (self.objects() - page.end, self.objects());
        let token = match rest {
            0 => String::new(),
            _ => format!(r#","continue":"{}","remainingItemCount":{rest}"#, page.end),
        };
        let metadata = format!(r#"{{"resourceVersion":"{}"{token}}}"#, 9_000_000);
        let head = format!(r#"{{"kind":"PodList","apiVersion":"v1","metadata":{metadata},"items":["#);
        let items = match page.start < page.end && page.end <= all {
            true => &self.items[self.spans[page.start].start..self.spans[page.end - 1].end],
            false => &[],
        };
        (head.into_bytes(), items, b"]}\n")
    }

    /// Calls `send` with the parts of each object's ADDED frame.
    pub(crate) fn added(&self, mut send: impl FnMut(&[&[u8]]) -> io::Result<()>) -> io::Result<()> {
        self.spans.iter().try_for_each(|span| send(&[ADDED, &self.items[span.start + 1..span.end], b"}\n"]))
    }

    pub(crate) fn end_of_initial_events(&self) -> &[u8] {
        &self.end_of_initial
    }

    /// The frames of the first `count` changes.
    pub(crate) fn modified(&self, count: usize) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.event_ends.iter().copied());
        starts.zip(&self.event_ends).take(count).map(|(start, end)| &self.events[start..*end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn read(parts: (Vec<u8>, &[u8], &[u8])) -> Value {
        serde_json::from_slice(&[parts.0.as_slice(), parts.1, parts.2].concat()).unwrap()
    }

    #[test]
    fn pages_hold_every_object_once_and_the_last_has_no_token() {
        let prepared = Prepared::new(5, 0);
        let pages = [read(prepared.list(0..2)), read(prepared.list(2..4)), read(prepared.list(4..5))];
        let tokens: Vec<_> = pages.iter().map(|page| page["metadata"]["continue"].as_str()).collect();
        assert_eq!(tokens, [Some("2"), Some("4"), None]);
        assert_eq!(pages[0]["metadata"]["remainingItemCount"], 3);
        let items: Vec<Value> = pages.iter().flat_map(|page| page["items"].as_array().unwrap().clone()).collect();
        assert_eq!(Value::from(items), read(prepared.list(0..5))["items"]);
        assert_eq!(read(prepared.list(5..5))["items"], Value::Array(Vec::new()));
    }

    #[test]
    fn frames_hold_the_objects_of_the_list() {
        let prepared = Prepared::new(3, 2);
        let list = read(prepared.list(0..3));
        let mut frames = Vec::new();
        prepared
            .added(|parts| {
                frames.push(serde_json::from_slice::<Value>(&parts.concat()).unwrap());
                Ok(())
            })
            .unwrap();
        let names = |objects: &[Value], at: &str| -> Vec<String> {
            objects.iter().map(|object| object.pointer(at).unwrap().as_str().unwrap().to_string()).collect()
        };
        let listed = names(list["items"].as_array().unwrap(), "/metadata/name");
        assert_eq!(names(&frames, "/object/metadata/name"), listed);
        assert_eq!(names(&frames, "/type"), ["ADDED", "ADDED", "ADDED"]);
    }

    #[test]
    fn events_change_distinct_objects_to_versions_after_the_lists() {
        let prepared = Prepared::new(10, 10);
        let events: Vec<Value> = prepared.modified(10).map(|event| serde_json::from_slice(event).unwrap()).collect();
        let uids: std::collections::BTreeSet<_> =
            events.iter().map(|event| event["object"]["metadata"]["uid"].as_str().unwrap()).collect();
        assert_eq!(uids.len(), 10);
        let versions: Vec<_> =
            events.iter().map(|event| event["object"]["metadata"]["resourceVersion"].as_str().unwrap()).collect();
        assert_eq!((versions[0], versions[9]), ("9000001", "9000010"));
        assert_eq!(prepared.modified(3).count(), 3);
    }
}
