//! kube-runtime playing our scenarios: `kube-runtime-play --into FOLDER FILE…`, over loopback and in real time.
//!
//! Each scenario has a scripted server of its own ([`Loopback`]) and one `watcher` with `default_backoff`, whose events go
//! into a `reflector` store first and to the handlers then. Its outcome is written in the form that every runtime here
//! writes. README.md says how a file is read, and what kube-rs has no words for.

mod convert;
mod driver;

use informer_conformance::loopback::Loopback;
use informer_conformance::outcome::{Outcome, Store};
use informer_conformance::play::REAL_TIME_LIMIT_MS;
use informer_conformance::scenario::{Scenario, ScenarioFile};
use informer_conformance::script::Script;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

/// Scenarios at once: they mostly sleep.
const AT_ONCE: usize = 24;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (Some("--into"), Some(into)) = (args.next().as_deref(), args.next()) else {
        eprintln!("usage: kube-runtime-play --into FOLDER FILE…");
        return ExitCode::from(2);
    };
    let files: Vec<PathBuf> = args.map(PathBuf::from).collect();
    match play_all(&files, Path::new(&into)) {
        Ok(played) => {
            println!("played {} of {}: {} written", played.played, files.len(), played.written);
            ExitCode::SUCCESS
        }
        Err(errors) => {
            errors.iter().for_each(|error| eprintln!("kube-runtime-play: {error}"));
            ExitCode::FAILURE
        }
    }
}

#[derive(Default)]
struct Played {
    played: usize,
    written: usize,
}

fn play_all(files: &[PathBuf], into: &Path) -> Result<Played, Vec<String>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let (next, played, errors) = (AtomicUsize::new(0), Mutex::new(Played::default()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match play_file(file, into, &runtime) {
                        Ok(None) => {}
                        Ok(Some(written)) => {
                            let mut played = played.lock().expect("nobody panics");
                            played.played += 1;
                            played.written += usize::from(written);
                        }
                        Err(error) => errors.lock().expect("nobody panics").push(error),
                    }
                }
            });
        }
    });
    let errors = errors.into_inner().expect("nobody panics");
    if errors.is_empty() { Ok(played.into_inner().expect("nobody panics")) } else { Err(errors) }
}

/// Plays one file, and says whether its outcome was written; nothing for a file that is not played in real time.
fn play_file(file: &Path, into: &Path, runtime: &tokio::runtime::Runtime) -> Result<Option<bool>, String> {
    let ScenarioFile::Informer(scenario) = ScenarioFile::from_file(file).map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    if scenario.run_for_ms > REAL_TIME_LIMIT_MS {
        return Ok(None);
    }
    let outcome = play(&scenario, runtime).map_err(|error| format!("{}: {error}", scenario.name))?;
    let target = into.join(format!("{}.json", scenario.name));
    let same = Outcome::from_file(&target).is_ok_and(|known| timeless(known) == timeless(outcome.clone()));
    if same {
        return Ok(Some(false));
    }
    // It is read back at once: what is recorded has the documented form.
    let text = outcome.to_json();
    Outcome::from_str(&text).map_err(|error| format!("{}: {error}", scenario.name))?;
    fs::write(&target, pretty(&text)).map_err(|error| format!("cannot write {}: {error}", target.display()))?;
    Ok(Some(true))
}

/// A line for each request, event and error, so that a change of one shows as one.
fn pretty(text: &str) -> String {
    let outcome: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).expect("it was read back");
    let list = |value: &serde_json::Value| -> Option<String> {
        let lines: Vec<String> = value.as_array()?.iter().map(|entry| format!("\n   {entry}")).collect();
        Some(format!("[{}]", lines.join(",")))
    };
    let part = |(name, value): (&String, &serde_json::Value)| {
        let handlers = value.as_object().filter(|_| name == "handlers").map(|handlers| {
            let each = handlers.iter().map(|(name, events)| format!("\n  {name:?}: {}", list(events).expect("events")));
            format!("{{{}}}", each.collect::<Vec<_>>().join(","))
        });
        format!("\n {name:?}: {}", handlers.or_else(|| list(value)).unwrap_or_else(|| value.to_string()))
    };
    format!("{{{}\n}}\n", outcome.iter().map(part).collect::<Vec<_>>().join(","))
}

/// Without times: these differ at each run.
fn timeless(mut outcome: Outcome) -> Outcome {
    outcome.requests.iter_mut().for_each(|request| request.at_ms = 0);
    outcome.handlers.values_mut().flatten().for_each(|event| event.at_ms = 0);
    outcome.errors.iter_mut().for_each(|error| error.at_ms = 0);
    outcome.stopped_at_ms = outcome.stopped_at_ms.map(|_| 0);
    outcome
}

fn play(scenario: &Scenario, runtime: &tokio::runtime::Runtime) -> Result<Outcome, String> {
    let epoch = Instant::now();
    let loopback = Loopback::start(Script::new(&scenario.server), epoch).map_err(|error| error.to_string())?;
    let loopback = Arc::new(loopback);
    let seen = runtime.block_on(driver::run(scenario, Arc::clone(&loopback), epoch))?;
    let mut outcome = Outcome::new(&scenario.name, "kube-rs");
    outcome.phase = seen.phase;
    outcome.stopped_at_ms = seen.stopped_at_ms;
    outcome.requests = seen.requests;
    outcome.handlers = seen.handlers;
    outcome.errors = seen.errors;
    // Neither a version nor an index is to be had from its store.
    outcome.store = Store { objects: seen.objects, ..Store::default() };
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_line_for_each_event_and_reads_as_it_was_written() {
        let text = r#"{"name":"n","runtime":"kube-rs","phase":"watching","stoppedAtMs":null,"requests":[],"handlers":{"h":[
            {"atMs":5,"type":"synced"},{"atMs":9,"type":"removed"}]},"errors":[],"store":{"resourceVersion":"","objects":{}}}"#;
        let outcome = Outcome::from_str(text).unwrap();
        let file = pretty(&outcome.to_json());
        assert_eq!(Outcome::from_str(&file).unwrap(), outcome);
        assert!(file.contains("\n   {\"atMs\":9,\"type\":\"removed\"}]"), "{file}");
    }

    #[test]
    fn times_alone_make_no_other_outcome() {
        let at = |ms: u64| {
            let mut outcome = Outcome::new("n", "kube-rs");
            outcome.stopped_at_ms = Some(ms);
            outcome
        };
        assert_eq!(timeless(at(5)), timeless(at(70)));
        assert_ne!(timeless(at(5)), timeless(Outcome::new("n", "kube-rs")));
    }
}
