//! `informer scenario`: plays one file and prints its outcome.

use crate::{Refusal, exit, tell};
use clap::Args;
use informer_conformance::play::{Runtime, run_file};
use std::io::{self, Write};
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct Options {
    /// The scenario, as in conformance/scenarios
    file: PathBuf,
    /// The bare core in virtual time (virtual; virtual-delta-fifo with the other queue), or an adapter in real time
    /// (tokio, blocking)
    #[arg(long, default_value = "virtual")]
    runtime: Runtime,
}

pub(crate) fn run(options: &Options) -> Result<u8, Refusal> {
    let report = run_file(&options.file, options.runtime)?;
    writeln!(io::stdout(), "{}", report.outcome)?;
    for difference in &report.differences {
        tell(format_args!("{difference}"));
    }
    Ok(if report.differences.is_empty() { exit::DONE } else { exit::DIFFERS })
}
