//! Reading: one object, lists (2.2 of the contract), watches (2.3).

use super::route::Target;
use super::{Answer, Server};
use crate::body::{ListBody, WatchBody};
use crate::message::HttpRequest;
use crate::object::{Shape, StoredObject};
use crate::query::{ListOptions, Match, parse_version};
use crate::status::Status;
use crate::table::{Objects, Selection, range};
use crate::token::Token;
use informer_core::object::Key;
use informer_core::time::Duration;
use informer_core::wire::query_pairs;
use std::sync::Arc;

/// What stands in one page, and the token and remaining count of the next.
type Page = (Vec<Arc<StoredObject>>, Option<(String, Option<usize>)>);

/// A watch without `timeoutSeconds` lasts this long, and up to as long again (C16).
const WATCH_AT_LEAST: Duration = Duration::from_secs(1_800);

impl Server {
    pub(super) fn get_one(&mut self, target: &Target, request: &HttpRequest) -> Result<Answer, Status> {
        let version = query_pairs(&request.query).find(|(name, _)| name == "resourceVersion");
        match parse_version(&version.unwrap_or_default().1).map_err(Status::internal)? {
            Some(version) if version > self.version => Ok(Answer::Wait { version, watch: false }),
            Some(_) | None => {
                let object = self.find(target)?;
                Ok(Answer::Json { status: 200, text: object.json().to_owned() })
            }
        }
    }

    fn selection(&self, target: &Target, options: &mut ListOptions) -> Result<Selection, Status> {
        Ok(Selection {
            namespace: target.namespace.clone(),
            labels: std::mem::take(&mut options.labels),
            fields: options.fields.of(&self.tables[target.table].shape).map_err(Status::bad_request)?,
        })
    }

    pub(super) fn list_page(&mut self, target: &Target, mut options: ListOptions) -> Result<Answer, Status> {
        let selection = self.selection(target, &mut options)?;
        let bad_version = |error| Status::bad_request(format!("invalid resource version: {error}"));
        let now = self.clock.now();
        let current = self.version;
        let table = &mut self.tables[target.table];
        table.expire_snapshots(now);
        let mut start = String::new();
        let (objects, version) = if options.resume.is_empty() {
            match parse_version(&options.version).map_err(bad_version)? {
                None => (Arc::clone(table.objects()), current),
                Some(0) => {
                    // "Any" is served from the cache, which ignores the limit.
                    options.limit = 0;
                    (Arc::clone(table.objects()), current)
                }
                Some(version) if version > current => return Ok(Answer::Wait { version, watch: false }),
                Some(version) => match options.matching {
                    Match::NotOlderThan => (Arc::clone(table.objects()), current),
                    Match::Unset if options.limit == 0 => (Arc::clone(table.objects()), current),
                    // Without a match, a limit turns "not older than" into "exactly": an old trap that stays.
                    Match::Unset | Match::Exact => {
                        let objects = table
                            .at(version)
                            .ok_or_else(|| Status::expired("The resourceVersion for the provided list is too old."))?;
                        (objects, version)
                    }
                },
            }
        } else {
            let token = Token::decode(&options.resume).map_err(Status::bad_request)?;
            if !matches!(options.version.as_str(), "" | "0") {
                return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
            }
            let view = match token.version {
                None => Some((Arc::clone(table.objects()), current)),
                Some(version) if version > current => return Ok(Answer::Wait { version, watch: false }),
                Some(version) => table.at(version).map(|objects| (objects, version)),
            };
            let Some(view) = view else {
                return Err(Status::page_expired(Token { version: None, start: token.start }.encode()));
            };
            start = token.start;
            view
        };

        let one = selection.fields.value_of("metadata.name");
        let one = one.filter(|_| !(table.resource.namespaced && selection.namespace.is_empty()));
        let (items, more) = match one {
            // One name in one place is looked up, and has no next page.
            Some(name) => {
                let object = objects.get(Key::new(&selection.namespace, name).as_str());
                (object.filter(|object| selection.matches(object, &table.shape)).cloned().into_iter().collect(), None)
            }
            None => page(&objects, &selection, &table.shape, &start, options.limit, version),
        };
        let list = ListBody::new(table, items, version, more.clone());
        if more.is_some() {
            table.keep_snapshot(version, objects, now);
        }
        Ok(Answer::List(list))
    }

    pub(super) fn watch(&mut self, target: &Target, mut options: ListOptions) -> Result<Answer, Status> {
        let selection = self.selection(target, &mut options)?;
        // A bad version in a watch is 500 without a reason, in a list it is 400 (W8).
        let version = parse_version(&options.version).map_err(Status::internal)?.filter(|&version| version > 0);
        let now = self.clock.now();
        let timeout = match options.timeout_seconds {
            Some(seconds) => Duration::from_secs(seconds),
            None => WATCH_AT_LEAST + self.rng.span(WATCH_AT_LEAST),
        };
        let current = self.version;
        let table = &self.tables[target.table];
        // Without version and option a watch begins with the state, too.
        let with_state = options.send_initial_events.unwrap_or(version.is_none());
        let cursor = match version {
            None => current,
            Some(version) if with_state && version > current => return Ok(Answer::Wait { version, watch: true }),
            Some(_) if with_state => current,
            Some(version) if version < table.floor() => {
                let text = format!("too old resource version: {version} ({})", table.floor());
                return Ok(Answer::WatchError(Status::expired(text)));
            }
            Some(version) => version,
        };
        let times = (now, now + timeout, self.config.bookmark_every);
        let mut watch = WatchBody::new(target.table, selection, cursor, options.bookmarks, times);
        if with_state {
            let chosen = range(table.objects(), &watch.selection.namespace, "");
            watch.initial = chosen.filter(|object| watch.selection.matches(object, &table.shape)).cloned().collect();
            watch.initial.reverse();
            watch.end_of_initial = options.bookmarks.then_some(current);
        }
        Ok(Answer::Watch(watch))
    }
}

fn page(objects: &Objects, selection: &Selection, shape: &Shape, start: &str, limit: usize, version: u64) -> Page {
    let limit = if limit == 0 { usize::MAX } else { limit };
    let mut rest = range(objects, &selection.namespace, start);
    let items: Vec<_> = rest.by_ref().filter(|object| selection.matches(object, shape)).take(limit).cloned().collect();
    let more = match (items.last(), rest.count()) {
        (Some(last), left @ 1..) if items.len() == limit => {
            let key = last.key();
            let start = if selection.namespace.is_empty() { key.as_str() } else { key.name() };
            let token = Token { version: Some(version), start: format!("{start}\0") };
            Some((token.encode(), (!selection.has_selector()).then_some(left)))
        }
        _ => None,
    };
    (items, more)
}
