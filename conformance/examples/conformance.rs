//! Plays every scenario file on one runtime and says which hold.
//!
//! ```text
//! cargo run --release -p informer-conformance --example conformance -- --runtime tokio [--up-to MS] [FILE…]
//! ```
//!
//! In virtual time all files are played; with `--runtime virtual-delta-fifo`, where the informer has the other queue,
//! all that do not expect the order of the wire across objects. In real time those that run for at most 5 s of it
//! (`--up-to`), many at once.

use informer_conformance::play::{Runtime, run_file};
use informer_conformance::scenario::ScenarioFile;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, thread};

/// Scenarios at once in real time: they mostly sleep.
const AT_ONCE: usize = 16;

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("conformance: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let (mut runtime, mut up_to, mut files) = (Runtime::Virtual, 5_000, Vec::new());
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = |name: &str| arguments.next().ok_or(format!("{name} needs a value"));
        match argument.as_str() {
            "--runtime" => runtime = value("--runtime")?.parse()?,
            "--up-to" => up_to = value("--up-to")?.parse::<u64>()?,
            file => files.push(PathBuf::from(file)),
        }
    }
    if files.is_empty() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        for entry in fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))? {
            files.push(entry?.path());
        }
        files.sort();
    }
    let all = files.len();
    if runtime.is_real_time() {
        files.retain(|file| match ScenarioFile::from_file(file) {
            Ok(ScenarioFile::Informer(scenario)) => scenario.run_for_ms <= up_to,
            Ok(_) => false,
            Err(_) => true, // played, so that its fault is reported
        });
    }
    files.retain(|file| file.file_stem().is_none_or(|name| runtime.is_bound_by(&name.to_string_lossy())));
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..if runtime.is_real_time() { AT_ONCE } else { 2 } {
            scope.spawn(|| {
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let differences = match run_file(file, runtime) {
                        Ok(report) => report.differences,
                        Err(error) => vec![error.to_string()],
                    };
                    if !differences.is_empty() {
                        failures.lock().unwrap().push((file.clone(), differences));
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap();
    failures.sort();
    for (file, differences) in &failures {
        println!("{}", file.display());
        for difference in differences {
            println!("    {difference}");
        }
    }
    let (passed, failed) = (files.len() - failures.len(), failures.len());
    println!(
        "{}: {passed} passed, {failed} failed, {} skipped for their length, kind or order",
        runtime.name(),
        all - files.len()
    );
    if files.is_empty() {
        return Err("no scenario was played".into());
    }
    Ok(ExitCode::from(u8::from(failed > 0)))
}
