//! Informers of empty collections: how long they take to sync, and who holds them afterwards.

use crate::PATIENCE;
use informer_blocking::{DynamicObject, Resource};
use std::any::Any;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A runtime of ours, by the name that it has in a job.
///
/// # Panics
///
/// If it is neither.
pub fn start(runtime: &str, server: SocketAddr, informers: usize) -> (Duration, Box<dyn Any>) {
    match runtime {
        "tokio" => tokio(server, informers),
        "blocking" => blocking(server, informers),
        other => panic!("{other} is no runtime of ours: tokio or blocking"),
    }
}

fn resource(n: usize) -> Resource {
    Resource::dynamic("example.com", "v1", &format!("kind{n:02}s"), &format!("Kind{n:02}"), true)
}

fn tokio(server: SocketAddr, informers: usize) -> (Duration, Box<dyn Any>) {
    use informer_tokio::{Client, Config, Factory};
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let config = Config::from_url(&format!("http://{server}")).expect("a URL");
    let factory = Factory::new(Client::connect(config).expect("a client"));
    let held: Vec<_> = (0..informers).map(|n| factory.informer_of::<DynamicObject>(resource(n))).collect();
    let began = Instant::now();
    runtime.block_on(async {
        factory.start();
        factory.synced(PATIENCE).await.expect("complete lists");
    });
    (began.elapsed(), Box::new((held, factory, runtime)))
}

fn blocking(server: SocketAddr, informers: usize) -> (Duration, Box<dyn Any>) {
    use informer_blocking::{Client, Config, Factory};
    let config = Config::from_url(&format!("http://{server}")).expect("a URL");
    let factory = Factory::new(Client::connect(config).expect("a client"));
    let held: Vec<_> = (0..informers).map(|n| factory.informer_of::<DynamicObject>(resource(n))).collect();
    let began = Instant::now();
    factory.start();
    factory.synced(PATIENCE).expect("complete lists");
    (began.elapsed(), Box::new((held, factory)))
}
