//! `peers/run wire [--quick]`: see the library. Exit: 0 every bound holds, 1 one is missed, 2 usage or a run that failed,
//! 3 a peer cannot be built here.

use informer_peers::build::peers;
use informer_peers::wire::{self, Size};
use std::process::ExitCode;

const USAGE: &str = "usage: peers/run wire [--quick]";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let size = match args[..] {
        ["wire"] => Size::WHOLE,
        ["wire", "--quick"] => Size::QUICK,
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let (server, sides) = match wire::build() {
        Ok(built) => built,
        Err(unbuilt) => {
            eprintln!("peers/run: {unbuilt}");
            return ExitCode::from(3);
        }
    };
    let file = peers().join("results/wire.json");
    let written = wire::measure(&server, &sides, size).and_then(|report| report.write(&file).map(|()| report));
    match written {
        Ok(report) => {
            println!("{}", report.markdown());
            println!("Also in {}.", file.display());
            if report.holds() { ExitCode::SUCCESS } else { ExitCode::from(1) }
        }
        Err(error) => {
            eprintln!("peers/run: {error}");
            ExitCode::from(2)
        }
    }
}
