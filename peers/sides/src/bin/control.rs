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

/// In the place of an object: about as large, and it says whose it is, as every object does.
struct Body {
    key: [u8; KEY],
    rest: [u64; 36],
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
    Arc::new(Body { key, rest: [n as u64; 36] })
}

type Table = HashMap<Box<[u8]>, Item>;

fn table(size: usize) -> Table {
    (0..size).map(|n| (key(n).into_bytes().into(), item(n))).collect()
}

/// Puts other items under their keys, in this order. What it takes out goes in again a round later, as from the caches.
fn replacer(numbers: &[usize]) -> impl FnMut(&mut Table, usize) {
    let mut waiting: Vec<Item> = numbers.iter().map(|n| item(*n)).collect();
    move |table, turn| {
        let place = turn % waiting.len();
        let next = &mut waiting[place];
        let held = table.get_mut(next.key.as_slice()).expect("every key is there");
        std::mem::swap(held, next);
    }
}

fn getter<'a>(table: &'a Table, numbers: &[usize]) -> impl Fn(usize) -> u64 + use<'a> {
    let keys: Vec<String> = numbers.iter().map(|n| key(*n)).collect();
    move |turn| Arc::clone(table.get(keys[turn % keys.len()].as_bytes()).expect("every key is there")).rest[20]
}

fn store(objects: usize) -> Figures {
    let mut figures = Figures::new();
    let mut table = table(objects);
    let numbers: Vec<usize> = Tiny::scattered(objects).collect();
    let mut replace = replacer(&numbers);
    mean_ns(2 * objects, |turn| replace(&mut table, turn));
    let calls = CALLS.next_multiple_of(2 * objects);
    figures.set("update-0", mean_ns(calls, |turn| replace(&mut table, turn)));
    let get = getter(&table, &numbers);
    mean_ns(objects, &get);
    figures.set("get", mean_ns(3 * CALLS, get));
    let keys: Vec<String> = numbers.iter().map(|n| key(*n)).collect();
    figures.set("get-bare", mean_ns(3 * CALLS, |turn| table[keys[turn % keys.len()].as_bytes()].rest[20]));
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
        let mut replace = replacer(&some);
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
