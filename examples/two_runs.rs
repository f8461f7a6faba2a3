//! The plain form: one informer with one handler and a cache of its own, on threads. It reads its own write before the
//! watch tells of it, saves its state as lines of JSON, and a second run begins with them and is told what changed
//! meanwhile, a deletion included.
//!
//! ```text
//! cargo run --release --example two_runs
//! ```
//!
//! A store without any informer is in the example `indexer_tour`.

use informer_blocking::{Client, Config, DynamicObject, Factory, InformerSpec, Key, Obj, Object, Resource, Seen};
use informer_sim::{Served, Server};
use serde_json::json;
use std::error::Error;
use std::sync::mpsc;
use std::time::Duration;

/// Far longer than anything here takes.
const LONG: Duration = Duration::from_secs(30);

fn config_maps() -> Resource {
    Resource::namespaced("", "v1", "configmaps", "ConfigMap")
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut server = Server::new(informer_sim::Config::default());
    server.register_common();
    for name in ["kept", "deleted-meanwhile"] {
        server.put(&config_maps(), &json!({"metadata": {"namespace": "web", "name": name}}).to_string())?;
    }
    let served = Served::start(server, "127.0.0.1:0".parse()?)?;

    let lines = first_run(&served)?;
    println!("saved:\n  {}", lines.join("\n  "));
    served.with(|server, _| server.delete(&config_maps(), &Key::new("web", "deleted-meanwhile")));
    let told = second_run(&served, &lines)?;
    assert_eq!(
        told,
        [
            "added web/deleted-meanwhile",
            "added web/kept",
            "added web/ours",
            "deleted web/deleted-meanwhile (final state unknown)"
        ]
    );
    Ok(())
}

fn first_run(served: &Served) -> Result<Vec<String>, Box<dyn Error>> {
    let factory = Factory::new(Client::connect(Config::from_url(&served.url())?)?);
    let maps = factory.informer_of::<DynamicObject>(config_maps());
    maps.handle(|event| println!("first run: {event}"));
    factory.start();
    factory.synced(LONG)?;

    let ours = json!({"metadata": {"name": "ours"}});
    let answer = factory.client().api_of::<DynamicObject>(config_maps()).create("web", &ours)?;
    let answer = Obj::of(answer).ok_or("the server gives every object a name and a version")?;
    let (key, version) = (answer.key().to_key(), answer.version().to_version());
    // At once, whether the cache has it or not.
    let own = maps.own_writes();
    own.put(answer)?;
    assert!(own.get(&key).is_some());
    // And here the cache itself has it.
    assert!(matches!(maps.wait_for(&key, &version, LONG)?, Seen::Present(_)));

    let saved = maps.saved().ok_or("it is synced, so there is something")?;
    let lines = saved.lines(|map| Ok(map.json().to_string())).collect::<Result<_, _>>()?;
    factory.stop(LONG)?;
    Ok(lines)
}

fn second_run(served: &Served, lines: &[String]) -> Result<Vec<String>, Box<dyn Error>> {
    let lines = lines.iter().map(String::as_str);
    let spec = InformerSpec::<DynamicObject>::of(config_maps());
    let saved = spec.read_saved(lines, |json| DynamicObject::decode(json.as_bytes(), &config_maps()))?;
    let factory = Factory::new(Client::connect(Config::from_url(&served.url())?)?);
    let maps = factory.informer_with(spec.preloaded(saved));
    println!("second run: {} objects before any request", maps.lister().len());
    let (tell, told) = mpsc::channel();
    let registration = maps.handle(move |event| {
        println!("second run: {event}");
        let text = event.to_string();
        // Versions are the server's to choose.
        let (what, rest) = text.split_once('@').unwrap_or((&text, ""));
        let note = rest.find(" (").map_or("", |at| &rest[at..]);
        _ = tell.send(format!("{what}{note}"));
    });
    factory.start();
    assert!(registration.wait_synced(LONG)?, "the handler was told of everything in time");
    factory.stop(LONG)?;
    let mut told: Vec<String> = told.try_iter().collect();
    told.sort();
    Ok(told)
}
