//! What a side is told, [`Task`], and what it prints, an [`Outcome`] or [`Figures`]: one line of JSON on standard output.

use crate::meter::{Memory, Meter};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Error, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a side rests after its sync, before its memory is read: what it frees behind itself is free by then.
pub const REST: Duration = Duration::from_millis(500);

/// What a side has to do: sync all objects, rest, then take events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Where the bytes are served.
    pub server: SocketAddr,
    /// How many objects there are: a sync that found fewer is no result.
    pub objects: usize,
    /// How many events to ask for; 0 for none.
    pub events: usize,
}

impl Task {
    /// Reads the arguments of this process: `SERVER OBJECTS EVENTS`.
    ///
    /// # Panics
    ///
    /// If they are not there. Sides are started by `peers/run`.
    pub fn from_args() -> Self {
        Task::parse(std::env::args().skip(1)).expect("usage: SIDE HOST:PORT OBJECTS EVENTS")
    }

    fn parse(mut args: impl Iterator<Item = String>) -> Option<Self> {
        let server = args.next()?.parse().ok()?;
        let objects = args.next()?.parse().ok()?;
        let events = args.next()?.parse().ok()?;
        args.next().is_none().then_some(Task { server, objects, events })
    }

    /// The arguments that [`from_args`](Self::from_args) reads.
    pub fn args(&self) -> [String; 3] {
        [self.server.to_string(), self.objects.to_string(), self.events.to_string()]
    }

    /// The URL of the server.
    pub fn url(&self) -> String {
        format!("http://{}", self.server)
    }

    /// Asks the server to send the events on the watch that is open; returns when it has begun to.
    ///
    /// # Errors
    ///
    /// If the server has no watch open, or fewer events.
    pub fn trigger(&self) -> Result<(), Error> {
        post(self.server, &format!("/events?count={}", self.events))
    }
}

/// Has the server say on the watch that is open that its version is gone (410): whoever reads it lists again.
///
/// # Errors
///
/// If the server has no watch open.
pub fn expire(server: SocketAddr) -> Result<(), Error> {
    post(server, "/expire")
}

fn post(server: SocketAddr, target: &str) -> Result<(), Error> {
    let mut socket = TcpStream::connect(server)?;
    write!(socket, "POST {target} HTTP/1.1\r\nHost: {server}\r\n\r\n")?;
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line)?;
    if line.starts_with("HTTP/1.1 200 ") { Ok(()) } else { Err(Error::other(line.trim_end().to_string())) }
}

/// What a job of `peers/run cache` found: a number for each row that it measured, by the row's name there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Figures(BTreeMap<String, f64>);

impl Figures {
    /// Nothing found yet.
    pub fn new() -> Self {
        Figures::default()
    }

    /// Adds one.
    ///
    /// # Panics
    ///
    /// If it is there already: a job measures a thing once.
    pub fn set(&mut self, row: impl Into<String>, value: f64) {
        let row = row.into();
        assert!(self.0.insert(row.clone(), value).is_none(), "{row} is measured twice");
    }

    /// The number of a row, if it was measured.
    pub fn get(&self, row: &str) -> Option<f64> {
        self.0.get(row).copied()
    }

    /// Which rows were measured.
    pub fn rows(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Adds all of `other`.
    ///
    /// # Panics
    ///
    /// As [`set`](Self::set).
    pub fn add(&mut self, other: Figures) {
        other.0.into_iter().for_each(|(row, value)| self.set(row, value));
    }

    /// Prints them and ends the process at once, as [`Outcome::print_and_exit`].
    ///
    /// # Panics
    ///
    /// If standard output is closed.
    pub fn print_and_exit(&self) -> ! {
        println!("{}", serde_json::to_string(self).expect("numbers"));
        std::process::exit(0)
    }
}

/// What a side found. Absent is what it does not do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// From the start of the client until all objects are in its cache and its handler has seen them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync: Option<Work>,
    /// After the sync.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// From the trigger until the handler has seen the last event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<Work>,
}

/// Some objects or events, all of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// Time on the clock, in seconds.
    pub wall_s: f64,
    /// Processor time of the side for each, in microseconds.
    pub cpu_us_each: f64,
    /// How many each second.
    pub per_s: f64,
}

impl Work {
    /// What a meter says about `count` of something.
    pub fn of(meter: &Meter, count: usize) -> Self {
        Work::summed(meter.wall(), meter.cpu(), count)
    }

    /// What was measured in parts.
    pub fn summed(wall: Duration, cpu: Duration, count: usize) -> Self {
        let (wall_s, cpu_us) = (wall.as_secs_f64(), cpu.as_secs_f64() * 1e6);
        Work { wall_s, cpu_us_each: cpu_us / count as f64, per_s: count as f64 / wall_s }
    }
}

impl Outcome {
    /// Rests, then reads the memory: after a sync.
    pub fn settle(&mut self) {
        std::thread::sleep(REST);
        self.memory = Some(Memory::now());
    }

    /// Prints it and ends the process at once: giving back gigabytes, object by object, is no part of a measurement.
    ///
    /// # Panics
    ///
    /// If standard output is closed.
    pub fn print_and_exit(&self) -> ! {
        println!("{}", serde_json::to_string(self).expect("numbers"));
        std::process::exit(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_reads_the_arguments_that_it_writes() {
        let task = Task { server: "127.0.0.1:80".parse().unwrap(), objects: 7, events: 0 };
        assert_eq!(Task::parse(task.args().into_iter()), Some(task));
        assert_eq!(Task::parse(["127.0.0.1:80", "7"].map(String::from).into_iter()), None);
        assert_eq!(Task::parse(["127.0.0.1:80", "7", "1", "x"].map(String::from).into_iter()), None);
    }

    #[test]
    fn figures_are_one_flat_object() {
        let mut figures = Figures::new();
        figures.set("get", 100.5);
        let line = serde_json::to_string(&figures).unwrap();
        assert_eq!(line, r#"{"get":100.5}"#);
        let mut all: Figures = serde_json::from_str(r#"{"put":2}"#).unwrap();
        all.add(figures);
        assert_eq!((all.get("get"), all.get("put"), all.get("none")), (Some(100.5), Some(2.0), None));
        assert_eq!(all.rows().collect::<Vec<_>>(), ["get", "put"]);
    }

    #[test]
    fn an_outcome_leaves_out_what_was_not_done() {
        let work = Work { wall_s: 2.0, cpu_us_each: 20.0, per_s: 5.0 };
        let outcome = Outcome { sync: Some(work), ..Outcome::default() };
        let line = serde_json::to_string(&outcome).unwrap();
        assert_eq!(line, r#"{"sync":{"wall_s":2.0,"cpu_us_each":20.0,"per_s":5.0}}"#);
        assert_eq!(serde_json::from_str::<Outcome>(&line).unwrap(), outcome);
        assert!(serde_json::from_str::<Outcome>(r#"{"sinc":null}"#).is_err());
    }
}
