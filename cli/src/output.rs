//! Lines on standard output: JSON as scenarios have it, or a table. A closed pipe ends the program cleanly.

use crate::tell;
use clap::ValueEnum;
use informer_core::informer::Notice;
use informer_core::listener::{Cause, Notification};
use informer_core::reflector::{Failure, Phase};
use informer_core::wire::{Request, Verb};
use informer_core::{DynamicObject, Obj};
use informer_runtime::lister::Lister;
use informer_runtime::observe::Observed;
use serde_json::{Map, Value, json};
use std::io::{self, BufWriter, Stdout, Write};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// How lines look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Form {
    /// Columns for people.
    Table,
    /// One JSON object per line.
    Json,
}

/// Why the main thread wakes.
pub(crate) enum Wake {
    /// Print the store.
    Store,
    /// Stop.
    Stop,
    /// Stop: standard output cannot be written.
    Failed(io::Error),
}

pub(crate) struct Output {
    form: Form,
    started: Instant,
    out: Mutex<BufWriter<Stdout>>,
    wake: Sender<Wake>,
}

impl Output {
    pub(crate) fn new(form: Form, wake: Sender<Wake>) -> Self {
        Output { form, started: Instant::now(), out: Mutex::new(BufWriter::new(io::stdout())), wake }
    }

    pub(crate) fn header(&self) {
        if self.form == Form::Table {
            self.line(&format!("{:>9}  {:<4} {:<8} {:<48} {:>12}  CAUSE", "MS", "WHO", "WHAT", "OBJECT", "VERSION"));
        }
    }

    pub(crate) fn event(&self, handler: &str, notification: &Notification<DynamicObject>) {
        let (kind, object, initial, known) = match notification {
            Notification::Added { object, initial, .. } => ("add", object, *initial, true),
            Notification::Updated { new, .. } => ("update", new, false, true),
            Notification::Deleted { object, final_state_known, .. } => ("delete", object, false, *final_state_known),
            _ => return,
        };
        let cause = match notification.cause() {
            Cause::List => "list",
            Cause::Relist => "relist",
            Cause::Watch => "watch",
            Cause::Resync => "resync",
            _ => "other",
        };
        let at = self.at_ms();
        if self.form == Form::Table {
            let note = if known { "" } else { " (final state unknown)" };
            let (key, version) = (object.key(), object.version());
            self.line(&format!("{at:>9}  {handler:<4} {kind:<8} {key:<48} {version:>12}  {cause}{note}"));
            return;
        }
        let old = notification.old().map(|old: &Obj<DynamicObject>| old.version().to_string());
        self.json(json!({
            "atMs": at, "type": kind, "handler": handler, "key": object.key().as_str(), "uid": object.uid().to_string(),
            "resourceVersion": object.version().as_str(), "oldResourceVersion": old, "initial": initial, "cause": cause,
            "finalStateKnown": known,
        }));
    }

    pub(crate) fn synced(&self, handler: &str) {
        let at = self.at_ms();
        match self.form {
            Form::Table => self.line(&format!("{at:>9}  {handler:<4} synced")),
            Form::Json => self.json(json!({"atMs": at, "type": "synced", "handler": handler})),
        }
    }

    #[allow(clippy::wildcard_enum_match_arm)] // what has no line of its own is not printed
    pub(crate) fn observed(&self, observed: &Observed<'_>) {
        match observed {
            Observed::Request(request) => self.request(request),
            Observed::Notice { notice: Notice::Phase(phase), .. } => self.phase(*phase),
            Observed::Notice { notice: Notice::Failure(failure), .. } => self.failure(failure),
            Observed::HandlerPanic { .. } => tell(format_args!("informer: {observed}")),
            Observed::HandlerDisconnected { handler } => {
                tell(format_args!("informer: handler {handler} fell behind"));
            }
            Observed::Notice { .. } | Observed::Reconcile(_) | _ => {}
        }
    }

    fn request(&self, request: &Request) {
        if self.form == Form::Table {
            return;
        }
        let verb = if request.verb == Verb::List { "list" } else { "watch" };
        let query: Map<String, Value> =
            request.query.iter().map(|(name, value)| ((*name).to_string(), value.clone().into())).collect();
        self.json(json!({
            "type": "request", "atMs": self.at_ms(), "verb": verb, "path": request.path, "query": query,
        }));
    }

    fn phase(&self, phase: Phase) {
        if self.form == Form::Json {
            self.json(json!({"type": "phase", "atMs": self.at_ms(), "phase": phase.to_string()}));
        }
    }

    fn failure(&self, failure: &Failure) {
        match self.form {
            Form::Table => tell(format_args!("informer: {failure}")),
            Form::Json => self.json(json!({
                "type": "error", "atMs": self.at_ms(), "phase": failure.phase_name(), "code": failure.code,
                "reason": failure.reason, "message": failure.to_string(), "repeats": failure.repeats,
                "retryInMs": failure.retry_in.map(|wait| wait.as_millis()),
            })),
        }
    }

    pub(crate) fn store(&self, lister: &Lister<DynamicObject>) {
        let (version, snapshot) = (lister.version(), lister.snapshot());
        if self.form == Form::Table {
            let (at, count) = (self.at_ms(), snapshot.len());
            let text = match version.is_empty() {
                true => format!("{at:>9}  store    empty: no list was complete"),
                false => format!("{at:>9}  store    {count} objects at version {version}"),
            };
            self.line(&text);
            return;
        }
        let mut objects: Vec<_> = snapshot.iter().collect();
        objects.sort_unstable_by(|a, b| a.key().cmp(&b.key()));
        let objects: Map<String, Value> =
            objects.iter().map(|object| (object.key().to_string(), object.version().as_str().into())).collect();
        self.json(json!({"type": "store", "resourceVersion": version, "objects": objects}));
    }

    fn at_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn json(&self, value: Value) {
        self.line(&value.to_string());
    }

    /// A reader that went away wants no more lines: that is a clean stop.
    fn line(&self, line: &str) {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = writeln!(out, "{line}").and_then(|()| out.flush()) {
            let gone = error.kind() == io::ErrorKind::BrokenPipe;
            // The main thread may have gone already; then it is stopping.
            let _ = self.wake.send(if gone { Wake::Stop } else { Wake::Failed(error) });
        }
    }
}
