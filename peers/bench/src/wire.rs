//! `peers/run wire`: typed Pods over loopback, from the first request to the cache, and events to a handler.

use crate::build::{self, Unbuilt};
use crate::report::{Better, Bound, Report, Row, Side};
use crate::run::{Program, Server, rounds};
use crate::side::{Outcome, Task};

const TOKIO: &str = "ours, tokio";
const BLOCKING: &str = "ours, blocking";
const KUBE: &str = "kube-runtime";
const CLIENT_GO: &str = "client-go, JSON";
const BARE: &str = "serde_json alone";

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Pods of 6.9 KB.
    pub objects: usize,
    /// Watch events, each of another Pod.
    pub events: usize,
    /// How often each side runs.
    pub rounds: usize,
}

impl Size {
    /// What the bounds are about.
    pub const WHOLE: Size = Size { objects: 100_000, events: 20_000, rounds: 3 };
    /// A look, in a minute: too small and too short for a verdict.
    pub const QUICK: Size = Size { objects: 10_000, events: 5_000, rounds: 1 };
}

/// What a row shows of a side.
type Column = fn(&Outcome) -> Option<f64>;

const ROWS: [(Row, Column); 7] = [
    (Row { name: "sync, time on the clock", unit: "s" }, |outcome| Some(outcome.sync?.wall_s)),
    (Row { name: "sync, processor time", unit: "µs per Pod" }, |outcome| Some(outcome.sync?.cpu_us_each)),
    (Row { name: "memory, peak", unit: "MiB" }, |outcome| Some(outcome.memory?.peak_mib)),
    (Row { name: "memory, settled", unit: "MiB" }, |outcome| Some(outcome.memory?.settled_mib)),
    (Row { name: "watch events", unit: "per s" }, |outcome| Some(outcome.events?.per_s)),
    (Row { name: "watch events, processor time", unit: "µs each" }, |outcome| Some(outcome.events?.cpu_us_each)),
    (Row { name: "sync, Pods", unit: "per s" }, |outcome| Some(outcome.sync?.per_s)),
];
// Places in `ROWS`.
const WALL: usize = 0;
const CPU: usize = 1;
const PEAK: usize = 2;
const SETTLED: usize = 3;
const EVENTS: usize = 4;

/// What we promise, for each of our runtimes.
fn bounds() -> Vec<Bound> {
    let of = |ours| {
        [
            Bound::new("sync in half the time of kube-runtime", (ours, WALL), (KUBE, WALL), Better::AtMost(0.5)),
            Bound::new("sync: processor time beside the bare codec", (ours, CPU), (BARE, CPU), Better::AtMost(1.4)),
            Bound::new("peak memory beside settled memory", (ours, PEAK), (ours, SETTLED), Better::AtMost(1.5)),
            Bound::new("events beside kube-runtime", (ours, EVENTS), (KUBE, EVENTS), Better::AtLeast(2.0)),
            Bound::new("events beside client-go", (ours, EVENTS), (CLIENT_GO, EVENTS), Better::AtLeast(8.0)),
        ]
    };
    [TOKIO, BLOCKING].into_iter().flat_map(of).collect()
}

/// Builds all sides, and gives the server's program with them.
///
/// # Errors
///
/// If one cannot be built here.
pub fn build() -> Result<(Program, Vec<Program>), Unbuilt> {
    let folder = build::rust(&["informer-served", "informer-sides", "peer-kube-runtime"])?;
    let of = |name, file: &str| Program { name, file: folder.join(file) };
    let client_go = build::go("client-go", "client-go", "./cmd/wire")?;
    let sides = vec![
        of(TOKIO, "ours-tokio"),
        of(BLOCKING, "ours-blocking"),
        of(KUBE, "kube-runtime-wire"),
        Program { name: CLIENT_GO, file: client_go },
        of(BARE, "bare"),
    ];
    Ok((of("the server", "served"), sides))
}

/// Measures.
///
/// # Errors
///
/// If the server or a side fails.
pub fn measure(server: &Program, sides: &[Program], size: Size) -> Result<Report, String> {
    let Size { objects, events, rounds: times } = size;
    let served = Server::start(&server.file, objects, events)?;
    eprintln!("served: {objects} Pods, {} bytes each, on {}", served.bytes / objects as u64, served.address);
    let task = Task { server: served.address, objects, events };
    let outcomes = rounds(sides, times, &task)?;
    let column = |(program, outcomes): (&Program, Vec<Outcome>)| Side {
        name: program.name,
        values: ROWS.iter().map(|(_, of)| outcomes.iter().map(of).collect()).collect(),
    };
    Ok(Report {
        title: format!("wire: {objects} Pods, {events} events, {times} rounds"),
        rows: ROWS.iter().map(|(row, _)| *row).collect(),
        sides: sides.iter().zip(outcomes).map(column).collect(),
        bounds: bounds(),
    })
}
