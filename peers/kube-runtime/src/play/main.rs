//! Plays scenario files through kube-runtime, in real time over loopback HTTP, and records what it did.
//!
//! ```text
//! kube-runtime-play --out DIR FILE...
//! ```
//!
//! Many files at once, each with a server and a client of its own. A file that kube-runtime has no counterpart for is
//! named with the reason. An outcome that differs from the recorded one in nothing but times is left alone.
//! Exit: 0 played, 1 a file could not be read or an outcome not be written, 2 usage.

mod player;
mod record;

use informer_conformance::recorded::Peer;
use informer_conformance::scenario::{Scenario, ScenarioFile};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

/// Scenarios that run at the same time: they mostly wait, and times must still be those of an idle machine.
const AT_ONCE: usize = 24;

fn main() -> ExitCode {
    let mut out = None;
    let mut files = Vec::new();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--out" => out = args.next().map(PathBuf::from),
            option if option.starts_with('-') => return usage(&format!("{option} is unknown")),
            file => files.push(PathBuf::from(file)),
        }
    }
    let Some(out) = out else { return usage("--out needs a folder") };
    if files.is_empty() {
        return usage("there is no file to play");
    }
    match play_all(&files, &out) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("kube-runtime-play: {problem}");
            ExitCode::from(1)
        }
    }
}

fn usage(problem: &str) -> ExitCode {
    eprintln!("kube-runtime-play: {problem}; usage: kube-runtime-play --out DIR FILE...");
    ExitCode::from(2)
}

fn play_all(files: &[PathBuf], out: &Path) -> Result<String, String> {
    let mut queue: Vec<Scenario> = Vec::new();
    let mut passed_over = 0;
    for file in files {
        let scenario = ScenarioFile::from_file(file).map_err(|error| error.to_string())?;
        if let Some(why) = Peer::KubeRs.cannot_play(&scenario) {
            println!("not played: {}: {why}", scenario.name());
            passed_over += 1;
            continue;
        }
        let ScenarioFile::Informer(scenario) = scenario else {
            return Err(format!("{}: no kind of scenario that this player knows", file.display()));
        };
        queue.push(*scenario);
    }
    let played = queue.len();
    // The long ones first, so that the last of them does not run alone at the end.
    queue.sort_by_key(|scenario| scenario.run_for_ms);
    let queue = Arc::new(Mutex::new(queue));
    let outcomes = Arc::new(Mutex::new(Vec::with_capacity(played)));
    let runtime = tokio::runtime::Runtime::new().map_err(|error| format!("no runtime: {error}"))?;
    runtime.block_on(async {
        let workers = (0..AT_ONCE).map(|_| {
            let (queue, outcomes) = (Arc::clone(&queue), Arc::clone(&outcomes));
            tokio::spawn(async move {
                loop {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop();
                    let Some(scenario) = next else { return };
                    let outcome = player::play(&scenario).await;
                    outcomes.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
                }
            })
        });
        for worker in workers.collect::<Vec<_>>() {
            worker.await.map_err(|error| format!("a player failed: {error}"))?;
        }
        Ok::<_, String>(())
    })?;
    let mut written = 0;
    for outcome in outcomes.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        if record::record(out, outcome).map_err(|error| format!("{}: {error}", out.display()))? {
            written += 1;
        }
    }
    Ok(format!("played {played} files, {written} outcomes written, {passed_over} not played"))
}
