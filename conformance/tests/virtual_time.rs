//! Every scenario file holds in virtual time with either queue, and plays the same way twice.

use informer_conformance::play::{Runtime, run_file};
use std::path::{Path, PathBuf};

/// All scenario files, by name.
fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = paths.filter(|path| path.extension().is_some_and(|ext| ext == "json")).collect();
    files.sort();
    assert!(!files.is_empty(), "{}: no scenario files", folder.display());
    files
}

#[test]
fn every_scenario_holds_and_plays_the_same_way_twice() {
    let mut faults = Vec::new();
    let files = files();
    for file in &files {
        let name = file.file_name().unwrap().to_string_lossy();
        let played = std::panic::catch_unwind(|| [(); 2].map(|()| run_file(file, Runtime::Virtual)));
        match played {
            Ok([Ok(first), Ok(second)]) => {
                faults.extend(first.differences.iter().map(|difference| format!("{name}: {difference}")));
                if first != second {
                    faults.push(format!("{name}: two outcomes:\n  {}\n  {}", first.outcome, second.outcome));
                }
            }
            Ok([Err(error), _] | [_, Err(error)]) => faults.push(format!("{name}: {error}")),
            Err(_) => faults.push(format!("{name}: the core broke its contract (see the panic above)")),
        }
    }
    assert!(faults.is_empty(), "{} faults in {} files:\n{}", faults.len(), files.len(), faults.join("\n"));
}

#[test]
fn every_scenario_that_expects_no_order_across_objects_holds_with_the_other_queue() {
    let mut faults = Vec::new();
    for file in files() {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        match run_file(&file, Runtime::VirtualDeltaFifo) {
            Ok(report) if Runtime::VirtualDeltaFifo.is_bound_by(&name) => {
                faults.extend(report.differences.iter().map(|difference| format!("{name}: {difference}")));
            }
            Ok(report) if report.differences.is_empty() => {
                faults.push(format!("{name}: it holds, so it need not be an exception"));
            }
            Ok(_) => {}
            Err(error) => faults.push(format!("{name}: {error}")),
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}
