//! Our cache, in jobs of `peers/run cache` that count the bytes of the heap, which takes time that is not measured:
//!
//! ```text
//! ours-heap overhead OBJECTS | stalled EVENTS | idle tokio|blocking SERVER INFORMERS
//! ```

use informer_benches::Sample;
use informer_blocking::core::store::{IndexDef, Store};
use informer_blocking::{Notification, Overflow};
use informer_peers::cache::Tiny;
use informer_peers::heap::{Allocator, Heap, System, count};
use informer_peers::side::{Figures, REST};
use informer_sides::prebuilt::{AT_ONCE, Prebuilt};
use informer_sides::tiny::{TinyObject, identified, key, object};
use informer_sides::{PATIENCE, idle};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

#[global_allocator]
static COUNTED: Allocator<System> = Allocator::system();

/// Keys that events go to beside a stalled handler.
const LIVE: usize = 4_000;

fn main() {
    count();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let number = |word: &str| word.parse().expect("a number");
    let figures = match words[..] {
        ["overhead", objects] => overhead(number(objects)),
        ["stalled", events] => stalled(number(events)),
        ["idle", runtime, server, informers] => {
            idle_heap(runtime, server.parse().expect("HOST:PORT"), number(informers))
        }
        _ => panic!("usage: the head of this file"),
    };
    figures.print_and_exit()
}

/// What a store holds beside its objects as they are and the text of their keys: their identity, the table of keys,
/// indexes, counts of references.
fn overhead(objects: usize) -> Figures {
    let mut figures = Figures::new();
    let keys: usize = (0..objects).map(|n| key(n).as_str().len()).sum();
    for indexes in [0, 1, 3] {
        let before = Heap::now();
        let mut values = Vec::with_capacity(objects);
        values.extend((0..objects).map(|n| TinyObject::sample(n as u64, 1)));
        let alone = Heap::now().since(before);
        let mut store = Store::new(7);
        let defs = [IndexDef::namespace(), IndexDef::label(Tiny::PART), IndexDef::label(Tiny::BLOCK)];
        for def in defs.into_iter().take(indexes) {
            store.add_index(def).expect("the names differ");
        }
        for (n, value) in values.into_iter().enumerate() {
            store.upsert(identified(n, 1, value));
        }
        let stored = Heap::now().since(before);
        assert_eq!(store.len(), objects);
        let each = |stored: i64, alone: i64, key: usize| (stored - alone - key as i64) as f64 / objects as f64;
        figures.set(format!("overhead-{indexes}"), each(stored.requested, alone.requested, keys));
        figures.set(format!("taken-{indexes}"), each(stored.taken, alone.taken, keys));
        figures.set(format!("overhead-key-{indexes}"), each(stored.requested, alone.requested, 0));
    }
    figures
}

/// A handler that does not return while events come as fast as another one takes them.
fn stalled(events: usize) -> Figures {
    let fed = Prebuilt::new(LIVE);
    let (wake, asleep) = channel::<()>();
    let sleeper = fed.handle(Overflow::default(), move |notification| {
        // It follows its initial state, and sleeps in its first change for as long as the process lives.
        if !matches!(notification, Notification::Added { .. }) {
            let _ = asleep.recv();
        }
    });
    let updates = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&updates);
    let (told, all_told) = channel();
    let other = fed.handle(Overflow::default(), move |notification| {
        if matches!(notification, Notification::Updated { .. }) && counted.fetch_add(1, Ordering::Relaxed) + 1 == events
        {
            told.send(()).expect("main waits");
        }
    });
    fed.list();
    for handler in [&sleeper, &other] {
        assert!(handler.wait_synced(PATIENCE).expect("no deadlock"), "the list was told");
    }
    let before = Heap::now();
    for from in (0..events).step_by(AT_ONCE) {
        fed.apply((from..events.min(from + AT_ONCE)).map(|change| object(fed.of(change), 2 + change as u64)));
        while other.pending() > AT_ONCE {
            std::thread::yield_now();
        }
    }
    // What was merged for it would be missing; then this is the time to say so.
    let _ = all_told.recv_timeout(if other.stats().merged == 0 { PATIENCE } else { REST });
    let kept = Heap::now().since(before);
    let mut figures = Figures::new();
    figures.set("stalled-heap", kept.requested.max(0) as f64 / events as f64);
    figures.set("stalled-per-key", sleeper.pending() as f64 / LIVE as f64);
    figures.set("stalled-others", 100.0 * updates.load(Ordering::Relaxed) as f64 / events as f64);
    drop(wake);
    figures
}

fn idle_heap(runtime: &str, server: SocketAddr, informers: usize) -> Figures {
    let start = |informers| {
        let before = Heap::now();
        let (_, held) = idle::start(runtime, server, informers);
        std::thread::sleep(REST);
        (Heap::now().since(before).requested, held)
    };
    // The runtime, the client and its tables are no part of an informer: they are in both.
    let (with_one, one) = start(1);
    let (with_more, more) = start(1 + informers);
    drop((one, more));
    let mut figures = Figures::new();
    figures.set("idle-heap", (with_more - with_one) as f64 / 1024.0 / informers as f64);
    figures
}
