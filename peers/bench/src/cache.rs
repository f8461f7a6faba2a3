//! `peers/run cache`: a cache that is read, indexed, listed again and listened to.
//!
//! Objects are tiny (a name, a namespace, a uid, a version and two labels: [`Tiny`] says what they are like), but for
//! the relist, whose Pods have 6.9 KB of JSON. They are read in an order that no processor foresees, but for the rows "of
//! the same few", which miss no cache of a processor. Events are fed to every side as objects that were built before: no
//! side decodes there, for that is what `peers/run wire` measures. Each job is a process of its own, told `JOB …`, and
//! prints one line of [`Figures`] whose names are the ids of [`ROWS`].

use crate::build::{self, Unbuilt};
use crate::report::{Better, Bound, Report, Row, Side};
use crate::run::{Program, Server, once, warm};
use crate::side::Figures;
use std::net::SocketAddr;
use std::time::Instant;

/// In this process, without a network: the core, and the runtimes' common part with threads around it.
const OURS: &str = "ours";
const TOKIO: &str = "ours, tokio";
const BLOCKING: &str = "ours, blocking";
const KUBE: &str = "kube-runtime";
const CLIENT_GO: &str = "client-go";
/// What no cache can do better: a socket that is drained, a table of the standard library that is read.
const CONTROL: &str = "control";
const COLUMNS: [&str; 6] = [OURS, TOKIO, BLOCKING, KUBE, CLIENT_GO, CONTROL];

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Tiny objects of a store, and Pods of the relist.
    pub objects: usize,
    /// The least and the most objects of the stores that are compared.
    pub scale: (usize, usize),
    /// Events to 1, to 10 and to 100 handlers.
    pub events: [usize; 3],
    /// Events beside a handler that is stalled.
    pub stalled: usize,
    /// How often each job runs.
    pub rounds: usize,
}

impl Size {
    /// What the bounds are about.
    pub const WHOLE: Size = Size {
        objects: 100_000,
        scale: (1_000, 1_000_000),
        events: [200_000, 100_000, 20_000],
        stalled: 1_000_000,
        rounds: 3,
    };
    /// A look, in a minute or two: too small and too short for a verdict.
    pub const QUICK: Size =
        Size { objects: 20_000, scale: (1_000, 100_000), events: [20_000, 10_000, 2_000], stalled: 50_000, rounds: 1 };
}

/// What the objects of all sides are like, whatever the type that holds them. The sides in Go say the same once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiny;

impl Tiny {
    /// Objects of a namespace.
    pub const IN_NAMESPACE: usize = 500;
    /// Of 100,000 objects, those that one value of the label [`PART`](Self::PART) selects.
    pub const IN_PART: usize = 8_340;
    /// Objects that one value of the label [`BLOCK`](Self::BLOCK) selects, in a store of any size.
    pub const IN_BLOCK: usize = 100;
    /// A label with few values.
    pub const PART: &'static str = "part";
    /// A label with many values.
    pub const BLOCK: &'static str = "block";
    /// Shares no factor with the numbers of objects: multiples of it visit every object in a scattered order.
    pub const STRIDE: usize = 54_321;

    /// Every number below `size` once, scattered.
    pub fn scattered(size: usize) -> impl ExactSizeIterator<Item = usize> + Clone {
        (0..size).map(move |n| n * Self::STRIDE % size)
    }

    /// The namespace of object `n`.
    pub fn namespace(n: usize) -> String {
        format!("team-{:05}", n / Self::IN_NAMESPACE)
    }

    /// The name of object `n`.
    pub fn name(n: usize) -> String {
        format!("object-{n:07}")
    }

    /// The uid of object `n`, in the form of a UUID.
    pub fn uid(n: usize) -> String {
        format!("{n:08x}-0000-4000-8000-{:012x}", n * Self::STRIDE)
    }

    /// The value of [`PART`](Self::PART) that object `n` has.
    pub fn part(n: usize) -> String {
        format!("part-{}", n * Self::STRIDE % 100_000 / Self::IN_PART)
    }

    /// The value of [`BLOCK`](Self::BLOCK) that object `n` has.
    pub fn block(n: usize) -> String {
        format!("block-{:05}", n / Self::IN_BLOCK)
    }

    /// How many of `objects` have the part `part-0`.
    pub fn in_part_0(objects: usize) -> usize {
        (0..objects).filter(|n| Self::part(*n) == "part-0").count()
    }
}

/// A quantity: what the sides call it, what people call it, its unit.
type Quantity = (&'static str, &'static str, &'static str);

const fn quantity(id: &'static str, name: &'static str, unit: &'static str) -> Quantity {
    (id, name, unit)
}

/// Every quantity, in the order of the table.
pub const ROWS: [Quantity; 63] = [
    quantity("overhead-0", "overhead beside object and key, no index", "B"),
    quantity("overhead-1", "overhead beside object and key, 1 index", "B"),
    quantity("overhead-3", "overhead beside object and key, 3 indexes", "B"),
    quantity("taken-0", "the same as the allocator takes it, no index", "B"),
    quantity("taken-1", "the same as the allocator takes it, 1 index", "B"),
    quantity("taken-3", "the same as the allocator takes it, 3 indexes", "B"),
    quantity("overhead-key-0", "overhead with the key, no index", "B"),
    quantity("overhead-key-1", "overhead with the key, 1 index", "B"),
    quantity("overhead-key-3", "overhead with the key, 3 indexes", "B"),
    quantity("update-0", "update, no index", "ns"),
    quantity("update-1", "update, 1 index", "ns"),
    quantity("update-3", "update, 3 indexes", "ns"),
    quantity("get", "get, quiet, mean", "ns"),
    quantity("get-bare", "the same without a count", "ns"),
    quantity("get-busy-half", "get beside a writer, half of them within", "ns"),
    quantity("get-busy", "get beside a writer, 99.9 % within", "ns"),
    quantity("get-busy-longest", "get beside a writer, the longest", "ns"),
    quantity("writes", "what the writer wrote", "per s"),
    quantity("namespace", "500 objects of a namespace", "µs"),
    quantity("selector", "label selector, 8,340 of 100,000 objects, label indexed where that is possible", "µs"),
    quantity("relist", "relist of unchanged Pods, or draining its bytes: time", "s"),
    quantity("relist-stall", "relist: longest stall of a reader", "ms"),
    quantity("relist-peak", "relist: peak memory", "MiB"),
    quantity("relist-settled", "relist: memory before it", "MiB"),
    quantity("relist-told", "relist: notifications", "number"),
    quantity("event-1", "tiny event to 1 handler (we are fed 1,024 at a time), processor time", "µs"),
    quantity("event-10", "tiny event to 10 handlers (likewise), processor time", "µs"),
    quantity("event-100", "tiny event to 100 handlers (likewise), processor time", "µs"),
    quantity("stalled-heap", "a stalled handler keeps, for each event", "B"),
    quantity("stalled-per-key", "a stalled handler keeps, for each live key", "notifications"),
    quantity("stalled-others", "beside a stalled handler, another one is told of", "% of events"),
    quantity("idle-heap", "an idle informer, heap", "KiB"),
    quantity("idle-sync", "30 empty collections, start to sync", "ms"),
    quantity("get-small", "get, in the small store", "ns"),
    quantity("get-big", "get, in the big store", "ns"),
    quantity("get-growth", "get, big beside small", "×"),
    quantity("get-few-small", "get, of the same few, in the small store", "ns"),
    quantity("get-few-big", "get, of the same few, in the big store", "ns"),
    quantity("get-few-growth", "get, of the same few, big beside small", "×"),
    quantity("update-0-small", "update, no index, in the small store", "ns"),
    quantity("update-0-big", "update, no index, in the big store", "ns"),
    quantity("update-0-growth", "update, no index, big beside small", "×"),
    quantity("update-0-few-small", "update, no index, of the same few, in the small store", "ns"),
    quantity("update-0-few-big", "update, no index, of the same few, in the big store", "ns"),
    quantity("update-0-few-growth", "update, no index, of the same few, big beside small", "×"),
    quantity("update-3-small", "update, 3 indexes, in the small store", "ns"),
    quantity("update-3-big", "update, 3 indexes, in the big store", "ns"),
    quantity("update-3-growth", "update, 3 indexes, big beside small", "×"),
    quantity("update-3-few-small", "update, 3 indexes, of the same few, in the small store", "ns"),
    quantity("update-3-few-big", "update, 3 indexes, of the same few, in the big store", "ns"),
    quantity("update-3-few-growth", "update, 3 indexes, of the same few, big beside small", "×"),
    quantity("namespace-small", "500 objects of a namespace, in the small store", "ns"),
    quantity("namespace-big", "500 objects of a namespace, in the big store", "ns"),
    quantity("namespace-growth", "500 objects of a namespace, big beside small", "×"),
    quantity("namespace-few-small", "500 objects of a namespace, of the same few, in the small store", "ns"),
    quantity("namespace-few-big", "500 objects of a namespace, of the same few, in the big store", "ns"),
    quantity("namespace-few-growth", "500 objects of a namespace, of the same few, big beside small", "×"),
    quantity("selector-small", "label selector with 100 hits, indexed, in the small store", "ns"),
    quantity("selector-big", "label selector with 100 hits, indexed, in the big store", "ns"),
    quantity("selector-growth", "label selector with 100 hits, indexed, big beside small", "×"),
    quantity("selector-few-small", "label selector with 100 hits, indexed, of the same few, in the small store", "ns"),
    quantity("selector-few-big", "label selector with 100 hits, indexed, of the same few, in the big store", "ns"),
    quantity("selector-few-growth", "label selector with 100 hits, indexed, of the same few, big beside small", "×"),
];

/// What is compared at two sizes, and what must hold of it. What lies everywhere in a big store is in none of the processor's
/// caches, and in a small one it is: how much that takes is shown. The bound is for what is left without that: the same few
/// objects again and again, of a small store and of a big one.
const SCALED: [(&str, &str); 5] = [
    ("get", "get, at 1k and at 1M objects, cache misses aside"),
    ("update-0", "update without an index, at 1k and at 1M objects, cache misses aside"),
    ("update-3", "update with 3 indexes, at 1k and at 1M objects, cache misses aside"),
    ("namespace", "500 objects of a namespace, at 1k and at 1M objects, cache misses aside"),
    ("selector", "label selector with 100 hits, at 1k and at 1M objects, cache misses aside"),
];

/// The place of a row in the table.
///
/// # Panics
///
/// If there is none of this name: a mistake of this file.
fn row(id: &str) -> usize {
    ROWS.iter().position(|(known, ..)| *known == id).unwrap_or_else(|| panic!("there is no row {id}"))
}

/// What we promise.
fn bounds() -> Vec<Bound> {
    use Better::{AtLeast, AtMost};
    let mut bounds = Vec::new();
    // 64 bytes, and 8 for each index value.
    for (what, id, bytes) in [
        ("overhead of an object, no index", "overhead-0", 64.0),
        ("overhead of an object, 1 index", "overhead-1", 72.0),
        ("overhead of an object, 3 indexes", "overhead-3", 88.0),
    ] {
        bounds.push(Bound::absolute(what, (OURS, row(id)), AtMost(bytes)));
    }
    for (what, id, limit) in [
        ("update, no index", "update-0", 1.0 / 5.0),
        ("update, 1 index", "update-1", 1.0 / 5.0),
        ("update, 3 indexes", "update-3", 1.0 / 5.0),
        ("get, quiet", "get", 1.0 / 4.0),
        ("get beside a writer, 99.9 %", "get-busy", 1.0 / 5.0),
        ("500 objects of a namespace", "namespace", 1.0 / 4.0),
        ("label selector, indexed", "selector", 1.0 / 200.0),
    ] {
        let bound = Bound::new(what, (OURS, row(id)), (CLIENT_GO, row(id)), AtMost(limit));
        // A table of the standard library without a lock, with a look at two labels in the place of three indexes, and for a
        // read without a count; beside a writer it is a table that
        // nobody writes to, read by a thread beside which another one wakes up as often.
        let least = match id {
            "get" => Some("get-bare"),
            "get-busy" => Some("get-busy"),
            "update-3" => Some("update-3"),
            _ if id.starts_with("update") => Some("update-0"),
            _ => None,
        };
        bounds.push(match least {
            Some(least) => bound.over((CONTROL, row(least))),
            None => bound,
        });
    }
    for ours in [TOKIO, BLOCKING] {
        let (time, stall, peak) = ((ours, row("relist")), (ours, row("relist-stall")), (ours, row("relist-peak")));
        bounds.extend([
            Bound::new("relist beside draining its bytes", time, (CONTROL, row("relist")), AtMost(4.0)),
            Bound::absolute("relist: stall of a reader, ms", stall, AtMost(1.0)),
            Bound::new("relist: peak memory beside settled memory", peak, (ours, row("relist-settled")), AtMost(1.1)),
            Bound::absolute("relist: notifications", (ours, row("relist-told")), AtMost(0.0)),
        ]);
    }
    for (what, id) in [
        ("event to 1 handler, the better peer", "event-1"),
        ("event to 10 handlers, the better peer", "event-10"),
        ("event to 100 handlers, the better peer", "event-100"),
    ] {
        let peers = [(KUBE, row(id)), (CLIENT_GO, row(id))];
        bounds.push(Bound::beside_least(what, (OURS, row(id)), &peers, AtMost(1.0 / 6.0)));
    }
    // A deletion, and what came after it.
    let (kept, others) = ((OURS, row("stalled-per-key")), (OURS, row("stalled-others")));
    bounds.push(Bound::absolute("a stalled handler: notifications for each live key", kept, AtMost(2.0)));
    bounds.push(Bound::absolute("a stalled handler: events told to another, %", others, AtLeast(100.0)));
    for ours in [TOKIO, BLOCKING] {
        let (heap, sync) = ((ours, row("idle-heap")), row("idle-sync"));
        bounds.push(Bound::absolute("an idle informer, KiB", heap, AtMost(16.0)));
        bounds.push(Bound::new("30 empty collections, time to sync", (ours, sync), (CLIENT_GO, sync), AtMost(1.0)));
    }
    for (id, what) in SCALED {
        bounds.push(Bound::absolute(what, (OURS, row(&format!("{id}-few-growth"))), AtMost(1.5)));
    }
    bounds
}

/// The programs of a run.
#[derive(Clone, Debug)]
pub struct Programs {
    server: Program,
    ours: Program,
    ours_heap: Program,
    control: Program,
    kube: Program,
    kube_heap: Program,
    client_go: Program,
}

/// Builds everything.
///
/// # Errors
///
/// If one cannot be built here.
pub fn build() -> Result<Programs, Unbuilt> {
    let folder = build::rust(&["informer-served", "informer-sides", "peer-kube-runtime"])?;
    let of = |name, file: &str| Program { name, file: folder.join(file) };
    let client_go = Program { name: CLIENT_GO, file: build::go(CLIENT_GO, "client-go", "./cmd/cache")? };
    Ok(Programs {
        server: of("the server", "served"),
        ours: of(OURS, "ours-cache"),
        ours_heap: of(OURS, "ours-heap"),
        control: of(CONTROL, "control"),
        kube: of(KUBE, "kube-runtime-cache"),
        kube_heap: of(KUBE, "kube-runtime-heap"),
        client_go,
    })
}

/// One process of a round.
struct Job<'a> {
    column: &'static str,
    program: &'a Program,
    args: Vec<String>,
    /// For how many Pods memory is touched before.
    pods: usize,
}

/// How many informers idle.
const IDLE: usize = 30;

/// The jobs of one round, in order: what is compared runs one right after the other.
fn jobs<'a>(programs: &'a Programs, size: Size, server: SocketAddr) -> Vec<Job<'a>> {
    let Programs { ours, ours_heap, control, kube, kube_heap, client_go, .. } = programs;
    let n = |number: usize| number.to_string();
    let in_process = |column, program, words: &[&str], numbers: &[usize]| {
        let args = words.iter().map(ToString::to_string).chain(numbers.iter().copied().map(n)).collect();
        Job { column, program, args, pods: 0 }
    };
    let at_server = |column, program, words: &[&str], number: usize, pods: usize| {
        let args = words.iter().map(ToString::to_string).chain([server.to_string(), n(number)]).collect();
        Job { column, program, args, pods }
    };
    let Size { objects, scale, events, stalled, .. } = size;
    let scale = [scale.0, scale.1];
    vec![
        in_process(OURS, ours_heap, &["overhead"], &[objects]),
        in_process(KUBE, kube_heap, &["overhead"], &[objects]),
        in_process(CLIENT_GO, client_go, &["overhead"], &[objects]),
        in_process(OURS, ours, &["store"], &[objects]),
        in_process(KUBE, kube, &["store"], &[objects]),
        in_process(CLIENT_GO, client_go, &["store"], &[objects]),
        in_process(CONTROL, control, &["store"], &[objects]),
        in_process(OURS, ours, &["scale"], &scale),
        in_process(CONTROL, control, &["scale"], &scale),
        in_process(CLIENT_GO, client_go, &["scale"], &scale),
        in_process(OURS, ours, &["events"], &events),
        in_process(KUBE, kube, &["events"], &events),
        in_process(CLIENT_GO, client_go, &["events"], &events),
        in_process(OURS, ours_heap, &["stalled"], &[stalled]),
        in_process(KUBE, kube, &["stalled"], &[stalled]),
        // A tenth says what an event costs; ten times that would not fit everywhere.
        in_process(CLIENT_GO, client_go, &["stalled"], &[stalled / 10]),
        at_server(TOKIO, ours, &["idle", "tokio"], IDLE, 0),
        at_server(BLOCKING, ours, &["idle", "blocking"], IDLE, 0),
        at_server(CLIENT_GO, client_go, &["idle"], IDLE, 0),
        at_server(TOKIO, ours_heap, &["idle", "tokio"], IDLE, 0),
        at_server(BLOCKING, ours_heap, &["idle", "blocking"], IDLE, 0),
        at_server(CONTROL, control, &["drain"], objects, 0),
        at_server(TOKIO, ours, &["relist", "tokio"], objects, objects),
        at_server(BLOCKING, ours, &["relist", "blocking"], objects, objects),
        at_server(KUBE, kube, &["relist"], objects, objects),
        at_server(CLIENT_GO, client_go, &["relist"], objects, objects),
    ]
}

/// Measures.
///
/// # Errors
///
/// If the server or a job fails, or a job measures what no row shows.
pub fn measure(programs: &Programs, size: Size) -> Result<Report, String> {
    let served = Server::start(&programs.server.file, size.objects, 0)?;
    eprintln!("served: {} Pods, {} bytes each", size.objects, served.bytes / size.objects as u64);
    let mut rounds = Vec::new();
    for round in 1..=size.rounds {
        let mut found = COLUMNS.map(|_| Figures::new());
        for Job { column, program, args, pods } in jobs(programs, size, served.address) {
            warm(pods);
            let (began, what) = (Instant::now(), args[..args.len().min(2)].join(" "));
            let figures: Figures = once(program, &args).map_err(|error| format!("job {what} of {error}"))?;
            let unknown = figures.rows().find(|id| ROWS.iter().all(|(known, ..)| known != id));
            if let Some(id) = unknown {
                return Err(format!("job {what} of {column} measures {id:?}, which is no row of the table"));
            }
            found[COLUMNS.iter().position(|known| *known == column).expect("every column is known")].add(figures);
            eprintln!("round {round} of {}: {column}, {what} in {:.1} s", size.rounds, began.elapsed().as_secs_f64());
        }
        growth(&mut found);
        rounds.push(found);
    }
    Ok(report(size, &rounds))
}

/// Adds what follows from a round's figures: how much more the big store takes than the small one.
fn growth(found: &mut [Figures; COLUMNS.len()]) {
    for figures in found {
        for id in SCALED.iter().flat_map(|(id, _)| [id.to_string(), format!("{id}-few")]) {
            if let Some((small, big)) = figures.get(&format!("{id}-small")).zip(figures.get(&format!("{id}-big"))) {
                figures.set(format!("{id}-growth"), big / small);
            }
        }
    }
}

fn report(size: Size, rounds: &[[Figures; COLUMNS.len()]]) -> Report {
    let Size { objects, scale, events, rounds: times, .. } = size;
    let side = |(at, name): (usize, &&'static str)| Side {
        name,
        values: ROWS.iter().map(|(id, ..)| rounds.iter().map(|found| found[at].get(id)).collect()).collect(),
    };
    Report {
        title: format!(
            "cache: {objects} objects, small and big stores of {} and {}, {events:?} events, {times} rounds",
            scale.0, scale.1
        ),
        rows: ROWS.iter().map(|(_, name, unit)| Row { name, unit }).collect(),
        sides: COLUMNS.iter().enumerate().map(side).collect(),
        bounds: bounds(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_row_has_a_name_of_its_own_and_every_bound_a_row() {
        let ids: BTreeSet<_> = ROWS.iter().map(|(id, ..)| id).collect();
        let names: BTreeSet<_> = ROWS.iter().map(|(_, name, _)| name).collect();
        assert_eq!((ids.len(), names.len()), (ROWS.len(), ROWS.len()));
        assert_eq!(bounds().len(), 32);
    }

    #[test]
    fn a_run_without_figures_holds_no_bound() {
        let report = report(Size::QUICK, &[COLUMNS.map(|_| Figures::new())]);
        assert_eq!(report.markdown().matches("**NO**").count(), bounds().len());
    }

    #[test]
    fn a_store_that_grows_is_compared_with_itself_of_everything_and_of_the_same_few() {
        let mut found = COLUMNS.map(|_| Figures::new());
        for (id, nanoseconds) in [("small", 100.0), ("big", 400.0), ("few-small", 50.0), ("few-big", 60.0)] {
            found[0].set(format!("get-{id}"), nanoseconds);
        }
        found[1].set("get-small", 100.0);
        growth(&mut found);
        assert_eq!((found[0].get("get-growth"), found[0].get("get-few-growth")), (Some(4.0), Some(1.2)));
        assert_eq!(found[1].get("get-growth"), None, "nothing is compared with what was not measured");
    }

    #[test]
    fn objects_are_scattered_and_their_labels_have_the_sizes_that_are_asked_for() {
        let objects = 100_000;
        assert_eq!(Tiny::scattered(objects).collect::<BTreeSet<_>>().len(), objects);
        assert_eq!(Tiny::in_part_0(objects), Tiny::IN_PART);
        let same = |f: fn(usize) -> String| (0..objects).filter(|n| f(*n) == f(7)).count();
        assert_eq!((same(Tiny::namespace), same(Tiny::block)), (Tiny::IN_NAMESPACE, Tiny::IN_BLOCK));
    }
}
