//! Builds the sides. One that cannot be built on this machine is named, with what its builder said last.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// How much of a failed build is shown.
const LAST_LINES: usize = 12;

/// The folder `peers` of the checkout that this program was compiled in.
pub fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this package lies in peers").to_path_buf()
}

/// Why a peer is not there.
#[derive(Debug)]
pub struct Unbuilt {
    /// Which one.
    pub peer: String,
    /// What its builder said.
    pub why: String,
}

impl std::fmt::Display for Unbuilt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} cannot be built here: {}", self.peer, self.why)
    }
}

/// Builds packages of the Rust workspace `peers`, all in one call: so all sides share each dependency as it was compiled
/// once, with the same features. Gives the folder of the programs.
///
/// # Errors
///
/// If cargo fails.
pub fn rust(packages: &[&str]) -> Result<PathBuf, Unbuilt> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--locked"]).env("CARGO_INCREMENTAL", "0");
    packages.iter().for_each(|package| _ = cargo.args(["-p", package]));
    run("the Rust sides", &mut cargo)?;
    Ok(std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| peers().join("target"), PathBuf::from).join("release"))
}

/// Builds a Go program: the package `of` of the module in a folder below `peers`. Gives the program.
///
/// # Errors
///
/// If there is no Go, or it is too old, or the build fails.
pub fn go(peer: &str, module: &str, of: &str) -> Result<PathBuf, Unbuilt> {
    let folder = peers().join(module);
    let program = folder.join("bin").join(Path::new(of).file_name().unwrap_or(peer.as_ref()));
    let mut go = Command::new("go");
    go.args(["build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-o"]).arg(&program).arg(of);
    // An older Go says so instead of downloading a newer one.
    go.env("GOTOOLCHAIN", "local").env("GOWORK", "off").env("CGO_ENABLED", "0").current_dir(&folder);
    run(peer, &mut go)?;
    Ok(program)
}

fn run(peer: &str, command: &mut Command) -> Result<(), Unbuilt> {
    let unbuilt = |why: String| Unbuilt { peer: peer.to_string(), why };
    let shown = std::iter::once(command.get_program()).chain(command.get_args());
    let shown: Vec<_> = shown.map(|part| part.to_string_lossy().into_owned()).collect();
    eprintln!("build: {}", shown.join(" "));
    if command.get_current_dir().is_none() {
        command.current_dir(peers());
    }
    let began = Instant::now();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| unbuilt(format!("{} cannot be started ({error}): is it installed, and in PATH?", shown[0])))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = said.lines().collect();
        let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n    ");
        return Err(unbuilt(format!("{} ended with {}:\n    {last}", shown[0], output.status)));
    }
    eprintln!("build: {peer} in {:.0} s", began.elapsed().as_secs_f64());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_builder_that_is_not_installed_is_named() {
        let error = run("a peer", &mut Command::new("no-such-builder")).unwrap_err();
        assert_eq!(error.peer, "a peer");
        assert!(error.to_string().starts_with("a peer cannot be built here: no-such-builder cannot be started"));
    }

    #[test]
    fn a_builder_that_fails_is_quoted() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo first >&2; echo the reason >&2; exit 7"]);
        let error = run("a peer", &mut shell).unwrap_err().to_string();
        assert!(error.contains("exit status: 7") && error.ends_with("    first\n    the reason"), "{error}");
    }
}
