//! The main job on tokio: one ConfigMap for each Widget, whatever happens around it.
//!
//! ```text
//! cargo run --release --example controller_tokio                        # a simulated API server, restarted under it
//! cargo run --release --example controller_tokio -- --kubeconfig FILE   # a real cluster, in a namespace of its own
//! ```

use informer_examples::reconcile::{ConfigMap, Step, Widget, plan};
use informer_examples::world::World;
use informer_tokio::{Client, Controller, DeleteOptions, Factory, InformerSpec, Outcome, generation_changed};
use std::error::Error;
use std::time::{Duration, Instant};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let started = Instant::now();
    // The world uses a blocking client: it lives on threads of its own.
    let mut world = tokio::task::spawn_blocking(World::from_arguments).await??;
    println!("a controller on tokio against {}, namespace {}", world.place(), world.namespace());

    let client = Client::connect(world.config())?;
    let factory = Factory::new(client.clone());
    let widgets = factory.try_informer(InformerSpec::<Widget>::new().namespace(world.namespace()))?;
    let config_maps = factory.try_informer(InformerSpec::<ConfigMap>::new().namespace(world.namespace()))?;
    let children = config_maps.lister();
    let api = client.api::<ConfigMap>();

    let controller =
        Controller::new(widgets).when(generation_changed()).owns(&config_maps).workers(4).start(move |key, cx| {
            let (api, children) = (api.clone(), children.clone());
            async move {
                match plan(&key, cx.get(&key).as_deref(), children.get(&key).as_ref()) {
                    Step::Nothing => {}
                    Step::Create(child) => drop(api.create(key.namespace(), &child).await?),
                    Step::Update(child) => drop(api.update(&key, &child).await?),
                    Step::Delete { uid } => {
                        let only_it = DeleteOptions::default().with_uid(uid);
                        match api.delete(&key, only_it).await {
                            Err(error) if !error.is_not_found() => return Err(error.into()),
                            _ => {}
                        }
                    }
                }
                Ok(Outcome::done())
            }
        });
    factory.start();
    factory.synced(Duration::from_secs(30)).await?;

    let (world, checked) = tokio::task::spawn_blocking(move || {
        world.live()?;
        let checked = world.check()?;
        let story = world.to_string();
        world.end_of_days()?;
        world.check()?;
        Ok::<_, Box<dyn Error + Send + Sync>>(((world, story), checked))
    })
    .await??;
    let (world, story) = world;
    let counts = controller.counts();
    factory.stop(Duration::from_secs(10)).await?;
    tokio::task::spawn_blocking(move || world.clean_up()).await??;
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
