//! `peers/run wire|cache [--quick]`: see the library. Exit: 0 every bound holds, 1 one is missed, 2 usage or a run that
//! failed, 3 a peer cannot be built here.

use informer_peers::build::{Unbuilt, peers};
use informer_peers::{Report, cache, wire};
use std::process::ExitCode;

const USAGE: &str = "usage: peers/run wire|cache [--quick]";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let measured = match args[..] {
        ["wire"] => run_wire(wire::Size::WHOLE),
        ["wire", "--quick"] => run_wire(wire::Size::QUICK),
        ["cache"] => run_cache(cache::Size::WHOLE),
        ["cache", "--quick"] => run_cache(cache::Size::QUICK),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let measured = match measured {
        Ok(measured) => measured,
        Err(unbuilt) => {
            eprintln!("peers/run: {unbuilt}");
            return ExitCode::from(3);
        }
    };
    let file = peers().join("results").join(args[0]).with_extension("json");
    match measured.and_then(|report| report.write(&file).map(|()| report)) {
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

fn run_wire(size: wire::Size) -> Result<Result<Report, String>, Unbuilt> {
    let (server, sides) = wire::build()?;
    Ok(wire::measure(&server, &sides, size))
}

fn run_cache(size: cache::Size) -> Result<Result<Report, String>, Unbuilt> {
    let programs = cache::build()?;
    Ok(cache::measure(&programs, size))
}
