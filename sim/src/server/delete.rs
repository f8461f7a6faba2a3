//! Deleting: what holds an object, what is asked for with the request, and what the answer says.
//!
//! ```text
//!            nothing holds it                                     gone: DELETED
//! DELETE ──┬───────────────────────────────────────────────────────────────────────────►
//!          │ finalizers, its own or those        marked, grace 0     an update without finalizers
//!          ├ that the options add ─────────────► MODIFIED ───────────────────────────────────────►
//!          │ a Pod with a node and a grace       marked, grace > 0   DELETE again, with grace 0
//!          └ period ───────────────────────────► MODIFIED ───────────────────────────────────────►
//! ```
//!
//! An object that is marked stays so, and gets no new finalizers. No garbage collector runs here, and no kubelet: whoever
//! tests plays their part, as with a real API server alone.

use super::route::Target;
use super::{Answer, Server};
use crate::message::HttpRequest;
use crate::object::{Draft, StoredObject, dense};
use crate::query::ListOptions;
use crate::status::{Cause, Named, Status};
use crate::text::members;
use crate::validate::{FOREGROUND, ORPHAN};
use informer_core::object::{Key, Resource};
use informer_core::wire::{query_pairs, rfc3339, rfc3339_seconds};
use serde::Deserialize;
use std::sync::Arc;

/// How long a Pod may take to stop, if neither it nor the request says anything.
const GRACE: i64 = 30;

/// What a request to delete says.
#[derive(Clone, Debug, Default)]
pub(super) struct DeleteOptions {
    /// Seconds that a Pod may take to stop.
    grace: Option<i64>,
    /// What becomes of the objects that it owns.
    dependents: Option<Dependents>,
    /// The older way to ask for [`Dependents`]: it wants to be told if the object is still there.
    tells: bool,
    uid: Option<String>,
    version: Option<String>,
    /// No Pod has time to stop, nor is it marked where nothing else holds it.
    at_once: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dependents {
    /// They go first, and a finalizer holds the owner until then.
    Foreground,
    Background,
    /// They stay, and a finalizer holds the owner until they have let go of it.
    Orphan,
}

/// The options as they are sent, in a body or, but for preconditions, a query.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Sent {
    kind: Option<String>,
    api_version: Option<String>,
    grace_period_seconds: Option<i64>,
    propagation_policy: Option<String>,
    orphan_dependents: Option<bool>,
    preconditions: Option<Preconditions>,
    dry_run: Option<Vec<String>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

/// What became of an object that was to be deleted.
pub(super) enum Deleted {
    /// As it was stored last; its deletion is the newest version.
    Gone(Arc<StoredObject>),
    /// As it is now.
    Waits(Arc<StoredObject>),
}

impl DeleteOptions {
    /// As a tool deletes: nothing but the finalizers of others holds the object.
    fn at_once() -> Self {
        DeleteOptions { at_once: true, dependents: Some(Dependents::Background), ..DeleteOptions::default() }
    }

    fn parse(request: &HttpRequest) -> Result<Self, Status> {
        let sent =
            if request.body.is_empty() { Sent::of_query(&request.query)? } else { Sent::of_body(&request.body)? };
        let mut causes = Vec::new();
        let policy = sent.propagation_policy;
        if let (Some(policy), Some(_)) = (&policy, sent.orphan_dependents) {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            causes.push(Cause::invalid("propagationPolicy", format_args!("{policy:?}"), why));
        }
        let mut dependents = match sent.orphan_dependents {
            Some(true) => Some(Dependents::Orphan),
            Some(false) => Some(Dependents::Background),
            None => None,
        };
        match policy.as_deref() {
            None => {}
            Some("Foreground") => dependents = Some(Dependents::Foreground),
            Some("Background") => dependents = Some(Dependents::Background),
            Some("Orphan") => dependents = Some(Dependents::Orphan),
            Some(other) => {
                let supported = r#""Foreground", "Background", "Orphan", "nil""#;
                causes.push(Cause::unsupported("propagationPolicy", format_args!("{other:?}"), supported));
            }
        }
        let dry_run = sent.dry_run.unwrap_or_default();
        if dry_run.iter().any(|value| value != "All") {
            let value = serde_json::to_string(&dry_run).expect("strings are always JSON");
            causes.push(Cause::unsupported("dryRun", value, r#""All""#));
        }
        if !causes.is_empty() {
            let options = Named { group: "meta.k8s.io".into(), kind: "DeleteOptions".into(), name: String::new() };
            return Err(Status::invalid(&options, causes));
        }
        if !dry_run.is_empty() {
            return Err(no_dry_run("deleted"));
        }
        let Preconditions { uid, resource_version: version } = sent.preconditions.unwrap_or_default();
        let tells = sent.orphan_dependents == Some(false);
        Ok(DeleteOptions { grace: sent.grace_period_seconds, dependents, tells, uid, version, at_once: false })
    }

    fn check(&self, old: &StoredObject, named: &Named) -> Result<(), Status> {
        let why = if let Some(uid) = self.uid.as_deref().filter(|&uid| uid != old.uid()) {
            format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been \
                 deleted and then recreated",
                old.uid()
            )
        } else if let Some(version) = self.version.as_deref().filter(|&have| have != old.version().to_string()) {
            format!(
                "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). \
                 The object might have been modified",
                old.version()
            )
        } else {
            return Ok(());
        };
        Err(Status::conflict(named, why))
    }
}

/// A server that took a dry run for a real one would do what nobody asked for.
pub(super) fn no_dry_run(done: &str) -> Status {
    Status::bad_request(format!(
        "dryRun is not simulated, so nothing was {done}: leave it out, or ask a real API server"
    ))
}

impl Sent {
    fn of_body(body: &[u8]) -> Result<Self, Status> {
        let refuse = |error: &dyn std::fmt::Display| {
            Status::bad_request(format!("couldn't get version/kind; json parse error: {error}"))
        };
        let text = dense(body).map_err(|error| refuse(&error))?;
        members(&text).map_err(|error| refuse(&error))?;
        let sent: Sent = serde_json::from_str(&text).map_err(|error| Status::bad_request(error.to_string()))?;
        match sent.kind.as_deref().unwrap_or_default() {
            "" | "DeleteOptions" => Ok(sent),
            other => {
                let version = sent.api_version.as_deref().filter(|version| !version.is_empty()).unwrap_or("v1");
                Err(Status::bad_request(format!("no kind {other:?} is registered for version {version:?}")))
            }
        }
    }

    fn of_query(query: &str) -> Result<Self, Status> {
        let mut sent = Sent::default();
        for (name, value) in query_pairs(query) {
            match &*name {
                "gracePeriodSeconds" => {
                    let why = |_| Status::bad_request(format!("strconv.ParseInt: parsing {value:?}: invalid syntax"));
                    sent.grace_period_seconds = Some(value.parse().map_err(why)?);
                }
                "propagationPolicy" => sent.propagation_policy = Some(value.to_string()),
                "orphanDependents" => {
                    sent.orphan_dependents = Some(value != "0" && !value.eq_ignore_ascii_case("false"));
                }
                "dryRun" => sent.dry_run.get_or_insert_default().push(value.to_string()),
                _ => {}
            }
        }
        Ok(sent)
    }
}

impl Server {
    pub(super) fn delete_one(&mut self, target: &Target, request: &HttpRequest) -> Result<Answer, Status> {
        let options = DeleteOptions::parse(request)?;
        let old = self.find(target)?;
        options.check(&old, &self.by_kind(target))?;
        let answers_object = answers_with_object(&self.tables[target.table].resource);
        let (status, text) = match self.delete_object(target.table, &old, &options) {
            Deleted::Waits(object) if options.tells => (202, object.json().to_owned()),
            Deleted::Waits(object) => (200, object.json().to_owned()),
            Deleted::Gone(object) if answers_object => {
                let last = Draft::read(object.json()).expect("what is stored is JSON");
                (200, last.finish(&self.tables[target.table].shape, self.version).json().to_owned())
            }
            Deleted::Gone(object) => (200, Status::success(&self.by_plural(target), object.uid())),
        };
        Ok(Answer::Json { status, text })
    }

    /// Deletes what a list with the same query would show, and answers with that list. The first object whose deletion is
    /// refused ends it.
    pub(super) fn delete_collection(&mut self, target: &Target, request: &HttpRequest) -> Result<Answer, Status> {
        let delete = DeleteOptions::parse(request)?;
        let answer = self.list_page(target, ListOptions::parse(&request.query)?)?;
        if let Answer::List(list) = &answer {
            for object in list.items() {
                let named = self.by_kind(&Target { name: object.key().name().into(), ..target.clone() });
                delete.check(object, &named)?;
                self.delete_object(target.table, object, &delete);
            }
        }
        Ok(answer)
    }

    /// Deletes an object as far as nothing holds it. Preconditions are the caller's.
    pub(super) fn delete_object(&mut self, at: usize, old: &Arc<StoredObject>, options: &DeleteOptions) -> Deleted {
        let mut draft = Draft::read(old.json()).expect("what is stored is JSON");
        if at == self.crds() && !draft.is_dying() {
            return self.delete_definition(old);
        }
        let resource = &self.tables[at].resource;
        let graceful = if resource.group.is_empty() && resource.plural == "pods" && !options.at_once {
            match self.stop_pod(&mut draft, options) {
                Stop::Pending => return Deleted::Waits(Arc::clone(old)),
                Stop::Within(seconds) => Some(seconds),
                Stop::Over => None,
            }
        } else {
            None
        };
        self.hold_for_dependents(at, &mut draft, options.dependents);
        let held = !draft.finalizers.is_empty();
        if graceful.is_none() {
            if !held {
                self.remove(at, old);
                return Deleted::Gone(Arc::clone(old));
            }
            let now = self.now_text();
            if !draft.is_dying() {
                raise_generation(&mut draft);
            }
            if !draft.is_dying() || draft.deleted > now {
                draft.deleted = now;
            }
            draft.grace = Some(0);
        }
        let before = Draft::read(old.json()).expect("what is stored is JSON");
        let marked = if draft.same_object(&before) { Arc::clone(old) } else { self.store(at, &draft) };
        if held || graceful.is_some_and(|seconds| seconds > 0) {
            Deleted::Waits(marked)
        } else {
            // A Pod is marked first also where nothing holds it.
            self.remove(at, &marked);
            Deleted::Gone(marked)
        }
    }

    /// Marks a Pod, which has a while to stop.
    fn stop_pod(&self, pod: &mut Draft<'_>, options: &DeleteOptions) -> Stop {
        // Less than nothing is as little as is possible.
        let at_least = |seconds: i64| if seconds < 0 { 1 } else { seconds };
        let asked = options.grace.map(at_least);
        let now = self.now_seconds();
        if pod.is_dying() {
            let Some(granted) = pod.grace.filter(|&seconds| seconds != 0) else { return Stop::Over };
            // It may only be shortened, and counts from the first request.
            let Some(mut seconds) = asked.filter(|&seconds| seconds < granted) else { return Stop::Pending };
            let asked_at = rfc3339_seconds(&pod.deleted).map_or(now, |at| at.saturating_sub(granted.unsigned_abs()));
            let mut by = asked_at + seconds.unsigned_abs();
            if by < now {
                by = now;
                seconds = seconds.min(1);
            }
            pod.deleted = rfc3339(by);
            pod.grace = Some(seconds);
            return Stop::Within(seconds);
        }
        let spec = pod.get("spec").and_then(|text| members(text).ok()).unwrap_or_default();
        let status = pod.get("status").and_then(|text| members(text).ok()).unwrap_or_default();
        let own = || spec.get("terminationGracePeriodSeconds").and_then(|text| text.parse().ok()).unwrap_or(GRACE);
        let runs = spec.string("nodeName").is_some()
            && !matches!(status.string("phase").as_deref(), Some("Failed" | "Succeeded"));
        let seconds = if runs { at_least(asked.unwrap_or_else(own)) } else { 0 };
        pod.deleted = rfc3339(now + seconds.unsigned_abs());
        pod.grace = Some(seconds);
        raise_generation(pod);
        Stop::Within(seconds)
    }

    /// Gives or takes the finalizers of the garbage collector.
    fn hold_for_dependents(&self, at: usize, draft: &mut Draft<'_>, asked: Option<Dependents>) {
        let has = |name: &str| draft.finalizers.iter().any(|have| have == name);
        let resource = &self.tables[at].resource;
        let dependents = match (&*resource.group, &*resource.plural) {
            // They own nothing.
            ("", "events") => Dependents::Background,
            _ if asked.is_some() => asked.unwrap_or(Dependents::Background),
            _ if has(ORPHAN) => Dependents::Orphan,
            _ if has(FOREGROUND) => Dependents::Foreground,
            // So they were before there was a garbage collector.
            ("batch", "jobs") | ("", "replicationcontrollers") if resource.version == "v1" => Dependents::Orphan,
            _ => Dependents::Background,
        };
        let wanted = match dependents {
            Dependents::Foreground => Some(FOREGROUND),
            Dependents::Orphan => Some(ORPHAN),
            Dependents::Background => None,
        };
        let has_wanted = wanted.is_some_and(has);
        draft.finalizers.retain(|name| !matches!(&**name, ORPHAN | FOREGROUND) || wanted == Some(&**name));
        draft.finalizers.extend(wanted.filter(|_| !has_wanted).map(str::to_owned));
    }

    /// Takes an object out of its table, and what its end leads to.
    pub(super) fn remove(&mut self, at: usize, old: &StoredObject) {
        self.commit(at, old.key(), None);
        if at == self.crds() {
            self.retire(old);
        } else if self.tables[at].shape.custom {
            self.clean_up(at);
        }
    }

    // ---- For tests and tools ----

    /// Deletes an object. If it has finalizers it is marked as a request would mark it, and goes when the last of them is
    /// taken away; if not it is gone: no Pod has time to stop, and no dependents are waited for. Answers the version of its
    /// deletion, or of the object that waits; `None` if there is no such object.
    pub fn delete(&mut self, resource: &Resource, key: &Key) -> Option<u64> {
        let table = self.table_of(resource)?;
        let old = self.tables[table].get(key.as_str()).cloned()?;
        self.delete_object(table, &old, &DeleteOptions::at_once());
        self.settle();
        Some(self.tables[table].get(key.as_str()).map_or(self.version, |object| object.version()))
    }
}

/// Which resources answer with the last state of what is gone, and not with a Status.
fn answers_with_object(resource: &Resource) -> bool {
    match &*resource.group {
        "" => matches!(
            &*resource.plural,
            "namespaces"
                | "persistentvolumeclaims"
                | "persistentvolumes"
                | "pods"
                | "podtemplates"
                | "resourcequotas"
                | "serviceaccounts"
                | "services"
        ),
        "storage.k8s.io" | "resource.k8s.io" => true,
        _ => false,
    }
}

/// How long a Pod may still run.
enum Stop {
    /// As long as was said before.
    Pending,
    /// So many seconds.
    Within(i64),
    /// Its time is up.
    Over,
}

/// That an object is to go is news for who counts generations.
fn raise_generation(draft: &mut Draft<'_>) {
    draft.generation = draft.generation.map(|generation| generation.saturating_add((generation > 0).into()));
}
