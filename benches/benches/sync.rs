//! A first list of 10,000 Pods (69 MB), from its bytes to a populated store, through the whole machine.
//!
//! The Pod type, a dynamic object, and a transform that keeps a few fields; in pages (one, as a watch cache answers) and
//! as a streaming list. `bare` is the yardstick: serde_json reads the body at once, and a `HashMap` takes the objects.
//! Throughput is in objects.

use criterion::{BatchSize, Criterion, Throughput};
use informer_benches::{Bench, Pod, Widget, end_of_initial_events, frames, list_body, slow};
use informer_core::decode::Codec;
use informer_core::listener::Overflow;
use informer_core::object::Meta;
use informer_core::reflector::ListStrategy;
use informer_core::store::IndexDef;
use informer_core::{DynamicObject, Key, Object};
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::Arc;

const OBJECTS: u64 = 10_000;

fn paged<T: 'static>(codec: &Codec<T>) -> Bench<T> {
    bench(codec, ListStrategy::Paged)
}

/// One handler, and the index of namespaces.
fn bench<T: 'static>(codec: &Codec<T>, strategy: ListStrategy) -> Bench<T> {
    let mut bench = Bench::with(codec.clone(), strategy, 1, Overflow::default());
    bench.index(IndexDef::namespace());
    bench
}

#[derive(Deserialize)]
struct BareList {
    items: Vec<Pod>,
}

fn bare(body: &[u8]) -> HashMap<Key, Arc<Pod>> {
    let list: BareList = serde_json::from_slice(body).expect("the body is a list");
    list.items.into_iter().map(|pod| (pod.key(), Arc::new(pod))).collect()
}

fn pods(c: &mut Criterion) {
    let body = list_body::<Pod>(0..OBJECTS, |_| 1);
    let mut group = c.benchmark_group("sync/10,000 pods");
    slow(&mut group);
    group.throughput(Throughput::Elements(OBJECTS));

    let typed = Codec::<Pod>::new(Pod::resource());
    group.bench_function("Pod", |b| {
        b.iter_batched(|| paged(&typed), |bench| synced(bench, &body), BatchSize::PerIteration)
    });
    let dynamic = Codec::<DynamicObject>::new(Pod::resource());
    group.bench_function("DynamicObject", |b| {
        b.iter_batched(|| paged(&dynamic), |bench| synced(bench, &body), BatchSize::PerIteration)
    });
    let slim = typed.clone().map(|pod| Ok((pod.node().to_string(), pod.metadata().labels().count())));
    group.bench_function("Pod, then a transform to two fields", |b| {
        b.iter_batched(|| paged(&slim), |bench| synced(bench, &body), BatchSize::PerIteration)
    });
    group.bench_function("bare", |b| b.iter_batched(|| (), |()| bare(&body), BatchSize::PerIteration));
    drop(body);

    let mut stream = frames::<Pod>("ADDED", 0..OBJECTS, |_| 1);
    stream.extend(end_of_initial_events::<Pod>());
    group.bench_function("Pod, streaming", |b| {
        b.iter_batched(
            || bench(&typed, ListStrategy::Streaming),
            |mut bench| {
                bench.sync_streaming(&stream);
                bench
            },
            BatchSize::PerIteration,
        )
    });
    group.finish();
}

fn widgets(c: &mut Criterion) {
    let body = list_body::<Widget>(0..OBJECTS, |_| 1);
    let codec = Codec::<Widget>::new(Widget::resource());
    let mut group = c.benchmark_group("sync/10,000 widgets");
    group.throughput(Throughput::Elements(OBJECTS));
    group.bench_function("Widget", |b| {
        b.iter_batched(|| paged(&codec), |bench| synced(bench, &body), BatchSize::PerIteration)
    });
    group.finish();
}

fn synced<T>(mut bench: Bench<T>, body: &[u8]) -> Bench<T> {
    bench.sync(body);
    assert_eq!(bench.store().len() as u64, OBJECTS);
    bench
}

fn main() {
    let mut c = informer_benches::criterion();
    pods(&mut c);
    widgets(&mut c);
    c.final_summary();
}
