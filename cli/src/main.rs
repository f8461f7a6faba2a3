//! `informer`: watch a cluster with informer semantics, serve a simulated one, play scenarios.
#![forbid(unsafe_code)]

mod output;
mod pipe;
mod scenario;
mod serve;
mod watch;

use clap::{Parser, Subcommand};
use std::io::Write;
use std::process::ExitCode;

/// Kubernetes informers on the command line.
#[derive(Parser)]
#[command(name = "informer", version, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Keep a cache of one resource and print every notification
    ///
    /// Failures go to standard error and are retried. Ctrl-C prints the size of the cache and ends; SIGUSR1 prints it
    /// and goes on.
    Watch(watch::Options),
    /// Serve a simulated API server on loopback, until Ctrl-C
    Serve(serve::Options),
    /// Play a scenario file, print its outcome, and compare it with what the file expects
    Scenario(scenario::Options),
}

const EXIT_CODES: &str = "Exit codes: 0 done, 1 a scenario's expectations do not hold, 2 bad input.";

/// Exit codes, the same for every command.
mod exit {
    /// What was asked for was done.
    pub(crate) const DONE: u8 = 0;
    /// A scenario's expectations do not hold.
    pub(crate) const DIFFERS: u8 = 1;
    /// Standard output could not be written, or nobody read it: what was printed is not all there was.
    pub(crate) const LOST: u8 = 1;
    /// A bad argument, selector, kubeconfig or file; nothing was sent.
    pub(crate) const BAD_INPUT: u8 = 2;
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Watch(options) => watch::run(options),
        Command::Serve(options) => serve::run(options),
        Command::Scenario(options) => scenario::run(&options),
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            tell(format_args!("informer: {error}"));
            let mut source = error.source();
            while let Some(cause) = source {
                // Most errors already say what their cause says.
                if !error.to_string().contains(&cause.to_string()) {
                    tell(format_args!("  because: {cause}"));
                }
                source = cause.source();
            }
            ExitCode::from(exit::BAD_INPUT)
        }
    }
}

/// A line on standard error. `eprintln!` panics if whoever read it has gone, in whatever thread had something to say.
fn tell(line: std::fmt::Arguments<'_>) {
    // There is nobody left to tell that nobody listens.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Whatever stands in the way before anything was sent.
type Refusal = Box<dyn std::error::Error>;
