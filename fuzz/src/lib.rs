//! The fuzz targets of informer: for each reader of foreign bytes a function that takes any bytes and panics if
//! something is wrong.
//!
//! A target is more than "it does not crash": each has an oracle, a second way to the same answer. A fuzzing build makes
//! a libFuzzer program of each ([`run`](../run) starts them); on stable Rust the tests replay the corpus.
//!
//! | target | reads | the other way |
//! |---|---|---|
//! | [`list`] | the body of a LIST | the same bytes cut elsewhere; serde_json |
//! | [`frames`] | the body of a WATCH | the same bytes cut elsewhere; serde_json |
//! | [`status`] | a Status | serde_json |
//! | [`http1`] | an answer over HTTP/1.1 | the same bytes cut elsewhere; a reader that has all of it |
//! | [`gzip`] | gzip | the same bytes cut elsewhere; miniz_oxide |
//! | [`selectors`] | label and field selectors | what they print, parsed again; a naive evaluator |
//! | [`kubeconfig`] | a kubeconfig | a secret that no error may show |
//! | [`machine`] | a script of a server, a driver and handlers | the invariants of the informer |

#![forbid(unsafe_code)]

pub mod bytes;
pub mod frames;
pub mod gzip;
pub mod http1;
mod json;
pub mod kubeconfig;
pub mod list;
pub mod machine;
pub mod selectors;
pub mod status;

// The test harness of the reflector is part of `machine`; it names the core's modules as its own crate's.
use informer_core::{decode, informer, listener, object, reflector, store, time, wire};

/// What one target does with one input; it panics if something is wrong.
pub type Run = fn(&[u8]);

/// All targets, with the names of their folders in `corpus/`.
pub const TARGETS: [(&str, Run); 8] = [
    ("frames", frames::run),
    ("gzip", gzip::run),
    ("http1", http1::run),
    ("kubeconfig", kubeconfig::run),
    ("list", list::run),
    ("machine", machine::run),
    ("selectors", selectors::run),
    ("status", status::run),
];

/// Runs a target on the files that are named on the command line: how a crash is looked at without a fuzzing build.
///
/// # Panics
///
/// If there is no such target, a file cannot be read, or the target finds something wrong.
pub fn replay_arguments(target: &str) {
    let (_, run) = TARGETS.iter().find(|(name, _)| *name == target).expect("a target of this name");
    let files: Vec<_> = std::env::args_os().skip(1).collect();
    assert!(!files.is_empty(), "name the files to replay, as in: cargo run --bin {target} -- corpus/{target}/*");
    for file in &files {
        let data = std::fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        run(&data);
    }
    println!("{target}: {} inputs, nothing wrong", files.len());
}
