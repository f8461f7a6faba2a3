//! What no cache can do better, for `peers/run cache`: `control store OBJECTS` and `control scale SMALL BIG` read and change
//! a table of the standard library in the order in which caches are read and changed, without a lock; `control drain SERVER
//! OBJECTS` reads a list from a socket and drops it.

use informer_peers::cache::Tiny;
use informer_peers::pace::{busy, mean_ns};
use informer_peers::side::Figures;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Instant;

/// Updates and reads of one mean.
const CALLS: usize = 300_000;

/// In the place of an object: about as large, and it says whose it is and which labels it has, as every object does.
struct Body {
    key: [u8; KEY],
    rest: [u64; 34],
    /// The values of two labels, one behind the other, in memory of their own.
    labels: Box<str>,
}

/// Bytes of a key.
const KEY: usize = 25;

type Item = Arc<Body>;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let number = |word: &str| word.parse().expect("a number");
    let figures = match words[..] {
        ["store", objects] => store(number(objects)),
        ["scale", small, big] => scale(number(small), number(big)),
        ["drain", server, objects] => drain(server.parse().expect("HOST:PORT"), number(objects)),
        _ => panic!("usage: the head of this file"),
    };
    figures.print_and_exit()
}

fn key(n: usize) -> String {
    format!("{}/{}", Tiny::namespace(n), Tiny::name(n))
}

fn item(n: usize) -> Item {
    let key = key(n).into_bytes().try_into().expect("every key is as long as any other");
    let labels = format!("{}{}", Tiny::part(n), Tiny::block(n)).into();
    Arc::new(Body { key, rest: [n as u64; 34], labels })
}

type Table = HashMap<Box<[u8]>, Held>;

struct Held {
    item: Item,
    /// In the place of two indexes: which values it has.
    values: [u32; 2],
}

fn table(size: usize) -> Table {
    let number = |part: String| part.trim_start_matches("part-").parse().expect("a part has a number");
    let held = |n| Held { item: item(n), values: [number(Tiny::part(n)), (n / Tiny::IN_BLOCK) as u32] };
    (0..size).map(|n| (key(n).into_bytes().into(), held(n))).collect()
}

/// Puts other items under their keys, in this order, and looks at what is there then. What it takes out goes in again a
/// round later, as from the caches.
fn replacer<R>(numbers: &[usize], look: impl Fn(&Held) -> R) -> impl FnMut(&mut Table, usize) -> R {
    let mut waiting: Vec<Item> = numbers.iter().map(|n| item(*n)).collect();
    move |table, turn| {
        let place = turn % waiting.len();
        let next = &mut waiting[place];
        let held = table.get_mut(next.key.as_slice()).expect("every key is there");
        std::mem::swap(&mut held.item, next);
        look(held)
    }
}

fn getter<'a>(table: &'a Table, numbers: &[usize]) -> impl Fn(usize) -> u64 + use<'a> {
    let keys: Vec<String> = numbers.iter().map(|n| key(*n)).collect();
    move |turn| Arc::clone(&table.get(keys[turn % keys.len()].as_bytes()).expect("every key is there").item).rest[20]
}

fn store(objects: usize) -> Figures {
    let mut figures = Figures::new();
    let mut table = table(objects);
    let numbers: Vec<usize> = Tiny::scattered(objects).collect();
    let calls = CALLS.next_multiple_of(2 * objects);
    let mut replace = replacer(&numbers, |_| ());
    mean_ns(2 * objects, |turn| replace(&mut table, turn));
    figures.set("update-0", mean_ns(calls, |turn| replace(&mut table, turn)));
    // No index can do without a look at the labels of what comes, and at the values that it knows.
    let parts: Vec<String> = (0..=100_000 / Tiny::IN_PART).map(|part| format!("part-{part}")).collect();
    let blocks: Vec<String> = (0..=objects / Tiny::IN_BLOCK).map(|block| Tiny::block(block * Tiny::IN_BLOCK)).collect();
    let mut indexed = replacer(&numbers, |held| {
        let [part, block] = held.values.map(|value| value as usize);
        held.item.labels.strip_prefix(&*parts[part]).is_some_and(|rest| rest == blocks[block])
    });
    assert!((0..2 * objects).all(|turn| indexed(&mut table, turn)), "the values are those of the labels");
    figures.set("update-3", mean_ns(calls, |turn| indexed(&mut table, turn)));
    let get = getter(&table, &numbers);
    mean_ns(objects, &get);
    figures.set("get", mean_ns(3 * CALLS, get));
    let keys: Vec<String> = numbers.iter().map(|n| key(*n)).collect();
    figures.set("get-bare", mean_ns(3 * CALLS, |turn| table[keys[turn % keys.len()].as_bytes()].item.rest[20]));
    // Beside a thread that wakes up as often as a writer does, and writes nothing: nobody waits for anybody.
    let quiet = busy(getter(&table, &numbers), |_, _| ());
    for id in ["get-busy-half", "get-busy", "get-busy-longest"] {
        figures.set(id, quiet.get(id).expect("it was measured"));
    }
    figures
}

fn scale(small: usize, big: usize) -> Figures {
    let mut figures = Figures::new();
    for (name, size) in [("small", small), ("big", big)] {
        let mut table = table(size);
        let some: Vec<usize> = Tiny::scattered(size).take(100_000).collect();
        let mut replace = replacer(&some, |_| ());
        let calls = CALLS.next_multiple_of(2 * some.len());
        mean_ns(2 * some.len(), |turn| replace(&mut table, turn));
        figures.set(format!("update-0-{name}"), mean_ns(calls, |turn| replace(&mut table, turn)));
        let get = getter(&table, &some);
        mean_ns(some.len(), &get);
        figures.set(format!("get-{name}"), mean_ns(CALLS, get));
    }
    figures
}

/// The whole list, into a buffer that is used again.
fn drain(server: SocketAddr, objects: usize) -> Figures {
    let mut reader = BufReader::new(TcpStream::connect(server).expect("the server"));
    let began = Instant::now();
    write!(reader.get_mut(), "GET /api/v1/pods?resourceVersion=0 HTTP/1.1\r\nHost: {server}\r\n\r\n")
        .expect("the server reads");
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a head");
        if let Some(value) = line.strip_prefix("Content-Length:") {
            length = value.trim().parse::<u64>().expect("a length");
        }
        if line.trim_end().is_empty() {
            break;
        }
    }
    let mut part = vec![0; 256 * 1024];
    let mut left = length;
    while left > 0 {
        let most = part.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = reader.read(&mut part[..most]).expect("a whole body");
        assert_ne!(read, 0, "the body ends {left} bytes too early");
        left -= read as u64;
    }
    let took = began.elapsed();
    assert!(length > 1_000 * objects as u64, "the whole list: {length} bytes");
    let mut figures = Figures::new();
    figures.set("relist", took.as_secs_f64());
    figures
}
