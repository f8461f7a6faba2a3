//! Runs sides: one after another, in rounds, against a server that is not measured.

use crate::meter::available;
use crate::side::{Outcome, Task};
use serde::de::DeserializeOwned;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// Memory that a side takes for an object: a Pod of 6.9 KB takes 42 to 50 KB.
const MEMORY_PER_OBJECT: usize = 50 * 1024;

const PAGE: usize = 4096;

/// A side that is built.
#[derive(Clone, Debug)]
pub struct Program {
    /// The name of its column.
    pub name: &'static str,
    /// The file.
    pub file: PathBuf,
}

/// A server of prepared bytes. It ends when this is dropped, and by itself if this process dies.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
    /// Bytes of all objects together.
    pub bytes: u64,
}

impl Server {
    /// Starts it, and waits until it has prepared everything.
    ///
    /// # Errors
    ///
    /// If it cannot be started or ends before it listens.
    pub fn start(file: &Path, objects: usize, events: usize) -> Result<Self, String> {
        let mut command = Command::new(file);
        command.args([objects.to_string(), events.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("{} cannot be started: {error}", file.display()))?;
        let mut line = String::new();
        let output = child.stdout.take().ok_or("a server without output")?;
        BufReader::new(output).read_line(&mut line).map_err(|error| format!("the server says nothing: {error}"))?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let read = match words[..] {
            ["listening", address, bytes] => address.parse().ok().zip(bytes.parse().ok()),
            _ => None,
        };
        let (address, bytes) = read.ok_or_else(|| format!("the server does not listen, it says {line:?}"))?;
        Ok(Server { child, address, bytes })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs one side once.
///
/// # Errors
///
/// If it cannot be started, fails, or prints no outcome; with what it said.
pub fn once<O: DeserializeOwned>(program: &Program, args: &[String]) -> Result<O, String> {
    let mut command = Command::new(&program.file);
    command.args(args).stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("{} cannot be started: {error}", program.file.display()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let failed = |why: String| {
        let stderr = String::from_utf8_lossy(&output.stderr);
        format!("{}: {why}\n{}", program.name, stderr.trim_end())
    };
    if !output.status.success() {
        return Err(failed(output.status.to_string()));
    }
    serde_json::from_str(said.trim()).map_err(|error| failed(format!("no outcome but {said:?}: {error}")))
}

/// Touches as much memory as a side will take for so many Pods, and gives it back. On a virtual machine the host takes
/// back what lies free for some seconds, and the first who touches it again pays for that several times the price of a
/// page: whoever happens to be first.
pub(crate) fn warm(objects: usize) {
    let mut memory = vec![0_u8; (objects * MEMORY_PER_OBJECT).min(available() / 2)];
    memory.chunks_mut(PAGE).for_each(|page| page[0] = 1);
    drop(std::hint::black_box(memory));
}

/// Runs every side in every round, each round in the order given; an outcome per side and round.
///
/// # Errors
///
/// As [`once`]: a run with a hole in it is no measurement.
pub fn rounds(programs: &[Program], rounds: usize, task: &Task) -> Result<Vec<Vec<Outcome>>, String> {
    let mut outcomes = vec![Vec::new(); programs.len()];
    for round in 1..=rounds {
        for (program, outcomes) in programs.iter().zip(&mut outcomes) {
            warm(task.objects);
            let began = Instant::now();
            outcomes.push(once(program, &task.args())?);
            eprintln!("round {round} of {rounds}: {} in {:.1} s", program.name, began.elapsed().as_secs_f64());
        }
    }
    Ok(outcomes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Result<Outcome, String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
        once(&Program { name: "a side", file: folder.join(script) }, &TASK.args())
    }

    const TASK: Task =
        Task { server: SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1), objects: 7, events: 3 };

    #[test]
    fn a_side_that_prints_its_outcome_is_read() {
        let outcome = shell("side-that-answers.sh").unwrap();
        assert_eq!(outcome.sync.unwrap().cpu_us_each, 7.0);
    }

    #[test]
    fn a_side_that_fails_is_named_with_what_it_said() {
        let error = shell("side-that-fails.sh").unwrap_err();
        assert_eq!(error, "a side: exit status: 9\nno such server");
    }
}
