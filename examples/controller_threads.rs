//! The main job on plain threads: almost line for line what `controller_tokio` does, and the same reconcile logic.
//!
//! ```text
//! cargo run --release --example controller_threads [-- --kubeconfig FILE]
//! ```

use informer_blocking::{Client, Controller, DeleteOptions, Factory, InformerSpec, Outcome, generation_changed};
use informer_examples::reconcile::{ConfigMap, Step, Widget, plan};
use informer_examples::world::World;
use std::error::Error;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let started = Instant::now();
    let mut world = World::from_arguments()?;
    println!("a controller on threads against {}, namespace {}", world.place(), world.namespace());

    let client = Client::connect(world.config())?;
    let factory = Factory::new(client.clone());
    let widgets = factory.try_informer(InformerSpec::<Widget>::new().namespace(world.namespace()))?;
    let config_maps = factory.try_informer(InformerSpec::<ConfigMap>::new().namespace(world.namespace()))?;
    let children = config_maps.lister();
    let api = client.api::<ConfigMap>();

    let controller =
        Controller::new(widgets).when(generation_changed()).owns(&config_maps).workers(4).start(move |key, cx| {
            match plan(&key, cx.get(&key).as_deref(), children.get(&key).as_ref()) {
                Step::Nothing => {}
                Step::Create(child) => drop(api.create(key.namespace(), &child)?),
                Step::Update(child) => drop(api.update(&key, &child)?),
                Step::Delete { uid } => {
                    let only_it = DeleteOptions::default().with_uid(uid);
                    match api.delete(&key, only_it) {
                        Err(error) if !error.is_not_found() => return Err(error.into()),
                        _ => {}
                    }
                }
            }
            Ok(Outcome::done())
        });
    factory.start();
    factory.synced(Duration::from_secs(30))?;

    world.live()?;
    let checked = world.check()?;
    let story = world.to_string();
    world.end_of_days()?;
    world.check()?;
    let counts = controller.counts();
    factory.stop(Duration::from_secs(10))?;
    world.clean_up()?;
    println!("{story}");
    println!("{} reconciles, {} retried after an error", counts.reconciles, counts.failures);
    println!(
        "checked in {:.1} s: {} children, each with the text and the uid of its widget, none too many; none left after \
         the last widget went",
        started.elapsed().as_secs_f32(),
        checked.children
    );
    Ok(())
}
