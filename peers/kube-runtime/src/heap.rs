//! kube-runtime's store, in the job of `peers/run cache` that counts the bytes of the heap:
//! `kube-runtime-heap overhead OBJECTS`.

use informer_peers::heap::{Allocator, Heap, System, count};
use informer_peers::side::Figures;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::reflector;
use kube::runtime::watcher::Event;
use peer_kube_runtime::tiny::object;

#[global_allocator]
static COUNTED: Allocator<System> = Allocator::system();

fn main() {
    count();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let ["overhead", objects] = words[..] else { panic!("usage: kube-runtime-heap overhead OBJECTS") };
    let objects: usize = objects.parse().expect("a number");

    let before = Heap::now();
    let mut alone = Vec::with_capacity(objects);
    alone.extend((0..objects).map(|n| object(n, 1)));
    let object_bytes = Heap::now().since(before);
    let (reader, mut writer) = reflector::store::<ConfigMap>();
    // The store makes a copy of each object; what is measured is the copies and what is around them.
    for object in alone {
        writer.apply_watcher_event(&Event::Apply(object));
    }
    let stored = Heap::now().since(before);
    assert_eq!(reader.len(), objects, "all objects are in the store");
    let mut figures = Figures::new();
    let each = (stored.requested - object_bytes.requested) as f64 / objects as f64;
    figures.set("overhead-key-0", each);
    figures.print_and_exit()
}
