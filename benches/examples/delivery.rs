//! What one event costs with 0, 1, 10 and 100 handlers, through a whole informer and handler loops on threads: processor
//! time, for what a driver saves by leaving work to its handlers is no saving. Linux only: it reads `/proc`.
//!
//! ```sh
//! cargo run --release -p informer-benches --example delivery           # 500,000 events each
//! cargo run --release -p informer-benches --example delivery -- 20000  # another number
//! ```
//!
//! The driver is saturated: its events are in memory. A handler that is late merges, unless it keeps everything; both are
//! shown, with the share of the notifications that was delivered.

use informer_benches::{CHUNK, Widget, frames, list_body};
use informer_core::listener::{Notification, Overflow};
use informer_core::reflector::{End, ListStrategy};
use informer_core::wire::{Head, RequestId};
use informer_runtime::Config;
use informer_runtime::driver::{Drive, IoAction, IoEvent};
use informer_runtime::factory::{FactoryCore, FactoryOptions};
use informer_runtime::handler::HandlerOptions;
use informer_runtime::informer::{HandlerLoop, InformerSpec, Step};
use informer_runtime::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

const OBJECTS: u64 = 10_000;

/// Clock ticks of `/proc/self/stat` in a second: what Linux has on all its platforms.
const TICKS: f64 = 100.0;

fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("this runs on Linux");
    let after_name = stat.rsplit(')').next().expect("the line has a name");
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number of ticks")).sum();
    ticks as f64 / TICKS
}

/// Hands over an event and carries out what follows. Gives back the last request that was sent.
fn step(drive: &mut dyn Drive, factory: &FactoryCore, event: IoEvent<'_>) -> Option<RequestId> {
    let (clock, mut sent) = (factory.clock(), None);
    drive.handle(clock.now(), event);
    loop {
        match drive.poll(clock.now()) {
            IoAction::Send(request) => sent = Some(request.id),
            IoAction::Wait(_) => return sent,
            IoAction::Cancel(_) | IoAction::Pause(_) | IoAction::Resume(_) => {}
        }
    }
}

/// What one handler counts; told when the handler is gone.
struct Seen {
    updates: u64,
    total: Arc<AtomicU64>,
}

impl Seen {
    fn count(&mut self, event: &Notification<Widget>) {
        self.updates += u64::from(event.old().is_some());
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        self.total.fetch_add(self.updates, Ordering::Relaxed);
    }
}

struct Measured {
    cpu: f64,
    wall: f64,
    delivered: u64,
    wakes: u64,
}

fn run(handlers: usize, overflow: Overflow, rounds: u64, bodies: &[Vec<u8>]) -> Measured {
    let mut options = FactoryOptions::default();
    options.decode_threads = Some(0);
    let url = Config::from_url("http://127.0.0.1:1").expect("a URL");
    let factory = FactoryCore::new(url, options);
    let spec = InformerSpec::<Widget>::new().strategy(ListStrategy::Paged);
    let informer = factory.informer(spec).expect("the factory is new");
    let (delivered, wakes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut registrations = Vec::new();
    let threads: Vec<_> = (0..handlers)
        .map(|_| {
            let mut options = HandlerOptions::default();
            options.overflow = overflow;
            let mut seen = Seen { updates: 0, total: Arc::clone(&delivered) };
            let count = move |event: &Notification<Widget>| seen.count(event);
            let (registration, handler) = informer.handler(options, count);
            registrations.push(registration);
            let wakes = Arc::clone(&wakes);
            thread::spawn(move || deliver(handler, &wakes))
        })
        .collect();

    let mut drive = factory.take_unstarted().remove(0);
    let list = step(&mut *drive, &factory, IoEvent::Start).expect("a list");
    step(&mut *drive, &factory, IoEvent::Head(list, &Head::new(200)));
    for part in list_body::<Widget>(0..OBJECTS, |_| 1).chunks(CHUNK) {
        step(&mut *drive, &factory, IoEvent::Body(list, part));
    }
    let watch = step(&mut *drive, &factory, IoEvent::End(list, &End::Closed)).expect("a watch");
    step(&mut *drive, &factory, IoEvent::Head(watch, &Head::new(200)));
    while !registrations.iter().all(|registration| registration.has_synced()) {
        thread::yield_now();
    }

    let woken = wakes.load(Ordering::Relaxed);
    let (cpu, began) = (cpu_seconds(), Instant::now());
    for round in 0..rounds {
        for part in bodies[(round % bodies.len() as u64) as usize].chunks(CHUNK) {
            step(&mut *drive, &factory, IoEvent::Body(watch, part));
        }
    }
    while registrations.iter().any(|registration| registration.pending() > 0) {
        thread::yield_now();
    }
    let (cpu, wall) = (cpu_seconds() - cpu, began.elapsed().as_secs_f64());
    registrations.iter().for_each(|registration| registration.remove());
    threads.into_iter().for_each(|thread| thread.join().expect("handlers do not panic"));
    let delivered = delivered.load(Ordering::Relaxed);
    Measured { cpu, wall, delivered, wakes: wakes.load(Ordering::Relaxed) - woken }
}

/// As the blocking adapter runs a handler.
fn deliver(mut handler: Box<dyn HandlerLoop>, wakes: &AtomicU64) {
    loop {
        match handler.step() {
            Step::Delivered => {}
            Step::Empty(seen) => {
                handler.signal().wait_past(seen, None);
                wakes.fetch_add(1, Ordering::Relaxed);
            }
            Step::Closed => return,
        }
    }
}

fn main() {
    let events: u64 = std::env::args().nth(1).map_or(500_000, |text| text.parse().expect("a number of events"));
    let rounds = events.div_ceil(OBJECTS);
    let events = rounds * OBJECTS;
    let bodies: Vec<_> = [2, 3].map(|version| frames::<Widget>("MODIFIED", 0..OBJECTS, |_| version)).into();
    println!("{events} events; processor time beside that without handlers");
    println!("| handlers | policy | µs per event | ns per notification | delivered | waits per event | events/s |");
    println!("|---:|---|---:|---:|---:|---:|---:|");
    let floor = run(0, Overflow::default(), rounds, &bodies);
    let per_event = |seconds: f64| seconds / events as f64 * 1e6;
    println!("| 0 | | {:.2} (all of it) | | | | {:.0} |", per_event(floor.cpu), events as f64 / floor.wall);
    for (name, overflow) in [("coalesce", Overflow::default()), ("unbounded", Overflow::Unbounded)] {
        for handlers in [1, 10, 100] {
            let found = run(handlers, overflow, rounds, &bodies);
            let beside = per_event(found.cpu - floor.cpu);
            println!(
                "| {handlers} | {name} | {beside:.2} | {:.0} | {:.0} % | {:.2} | {:.0} |",
                beside * 1e3 / handlers as f64,
                100.0 * found.delivered as f64 / (events * handlers as u64) as f64,
                found.wakes as f64 / events as f64,
                events as f64 / found.wall,
            );
        }
    }
}
