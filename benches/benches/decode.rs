//! From bytes to objects, without machine and store: what of a sync is scanning, what is serde, and what serde alone
//! would take for the same bytes.
//!
//! One page of 500 Pods (3.4 MB), and 500 watch frames of the same Pods. `bare` is serde_json without us: the whole
//! body at once, as a client without a streaming decoder would read it.

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput};
use informer_benches::{CHUNK, Pod, frames, gzip, list_body};
use informer_core::decode::Codec;
use informer_core::wire::{Body, FrameDecoder, Limits, ListDecoder, RawBatch};
use informer_core::{DynamicObject, Object};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::hint::black_box;

const ITEMS: u64 = 500;

#[derive(Deserialize)]
struct BareList<T> {
    items: Vec<T>,
}

#[derive(Deserialize)]
struct BareFrame<T> {
    object: T,
}

fn scan_list(body: &[u8], encoding: Option<&str>) -> RawBatch {
    let mut content = Body::new(encoding).expect("the encoding is known");
    let mut list = ListDecoder::new(Limits::default());
    let mut batch = RawBatch::new();
    for chunk in body.chunks(CHUNK) {
        content.feed(chunk, &mut |piece| list.feed(piece, &mut batch)).expect("the body is a list");
    }
    list.finish().expect("the list is complete");
    batch
}

fn scan_frames(body: &[u8]) -> RawBatch {
    let mut reader = FrameDecoder::new(Limits::default());
    let mut batch = RawBatch::new();
    for chunk in body.chunks(CHUNK) {
        let _ = reader.feed(chunk, &mut batch).expect("the body is made of frames");
    }
    batch
}

fn build<T>(batch: &RawBatch, codec: &Codec<T>) -> Vec<T> {
    batch.iter().map(|item| codec.build(item.json).expect("the item fits the type")).collect()
}

/// Measures `work`, which must answer with as many objects as there are.
fn items(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, work: impl Fn() -> usize) {
    assert_eq!(work(), ITEMS as usize, "{name} reads everything");
    group.bench_function(name, |b| b.iter(&work));
}

fn lists(c: &mut Criterion) {
    let body = list_body::<Pod>(0..ITEMS, |_| 1);
    let small = gzip(&body);
    let typed = Codec::<Pod>::new(Pod::resource());
    let dynamic = Codec::<DynamicObject>::new(Pod::resource());
    let mut group = c.benchmark_group("decode/list");
    group.throughput(Throughput::Bytes(body.len() as u64));
    items(&mut group, "scan", || scan_list(&body, None).len());
    items(&mut group, "scan, gzip", || scan_list(&small, Some("gzip")).len());
    items(&mut group, "to DynamicObject", || build(&scan_list(&body, None), &dynamic).len());
    items(&mut group, "to Pod", || build(&scan_list(&body, None), &typed).len());
    items(&mut group, "to Pod, gzip", || build(&scan_list(&small, Some("gzip")), &typed).len());
    items(&mut group, "bare, to nothing", || bare::<IgnoredAny>(&body));
    items(&mut group, "bare, to Pod", || bare::<Pod>(&body));
    let batch = scan_list(&body, None);
    items(&mut group, "bare, to Pod item by item", || build(&batch, &typed).len());
    group.finish();
}

fn bare<'de, T: Deserialize<'de>>(body: &'de [u8]) -> usize {
    black_box(serde_json::from_slice::<BareList<T>>(body).expect("the body is a list").items).len()
}

fn watches(c: &mut Criterion) {
    let body = frames::<Pod>("MODIFIED", 0..ITEMS, |_| 1);
    let typed = Codec::<Pod>::new(Pod::resource());
    let mut group = c.benchmark_group("decode/watch");
    group.throughput(Throughput::Bytes(body.len() as u64));
    items(&mut group, "scan", || scan_frames(&body).len());
    items(&mut group, "to Pod", || build(&scan_frames(&body), &typed).len());
    items(&mut group, "bare, to Pod", || {
        let frames = serde_json::Deserializer::from_slice(&body).into_iter::<BareFrame<Pod>>();
        black_box(frames.map(|frame| frame.expect("a frame").object).collect::<Vec<_>>()).len()
    });
    group.finish();
}

fn main() {
    let mut c = informer_benches::criterion();
    lists(&mut c);
    watches(&mut c);
    c.final_summary();
}
