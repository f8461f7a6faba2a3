//! The bare codec: `serde_json::from_slice` into Pods, one after another, all of them kept, as a cache keeps them.
//!
//! It reads the same bytes from the same server, page by page, into a buffer that it uses again. Only the decoding is
//! measured: neither the reading nor finding where items begin and end, which is done before by serde_json too.

use informer_peers::meter::{Memory, Meter};
use informer_peers::side::{Outcome, Task, Work};
use k8s_openapi::api::core::v1::Pod;
use serde_json::value::RawValue;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Items that are read before they are decoded.
const PAGE: usize = 500;

#[derive(serde::Deserialize)]
struct Page<'a> {
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

fn main() {
    let task = Task::from_args();
    let keeps = std::env::var_os("BARE_DROPS").is_none();
    let mut reader = BufReader::new(TcpStream::connect(task.server).expect("the server"));
    let mut body = Vec::new();
    let mut kept: Vec<Pod> = Vec::new();
    let (mut count, mut wall, mut cpu) = (0, Duration::ZERO, Duration::ZERO);
    while count < task.objects {
        page(&mut reader, &task, count, &mut body);
        let page: Page<'_> = serde_json::from_slice(&body).expect("a list");
        assert!(!page.items.is_empty(), "the server has as many objects as the task says");
        count += page.items.len();
        let meter = Meter::start();
        for item in page.items {
            let pod: Pod = serde_json::from_slice(item.get().as_bytes()).expect("a Pod");
            if keeps {
                kept.push(pod);
            }
        }
        wall += meter.wall();
        cpu += meter.cpu();
    }
    let mut outcome = Outcome { sync: Some(Work::summed(wall, cpu, count)), ..Outcome::default() };
    if keeps {
        assert_eq!(kept.len(), task.objects);
        outcome.memory = Some(Memory::now());
    }
    outcome.print_and_exit()
}

/// Reads the page that begins with object number `from`.
fn page(reader: &mut BufReader<TcpStream>, task: &Task, from: usize, body: &mut Vec<u8>) {
    let (target, server) = (format!("/api/v1/pods?limit={PAGE}&continue={from}"), task.server);
    write!(reader.get_mut(), "GET {target} HTTP/1.1\r\nHost: {server}\r\n\r\n").expect("the server reads");
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a head");
        if let Some(value) = line.strip_prefix("Content-Length:") {
            length = value.trim().parse().expect("a length");
        }
        if line.trim_end().is_empty() {
            break;
        }
    }
    body.resize(length, 0);
    reader.read_exact(body).expect("a whole body");
}
