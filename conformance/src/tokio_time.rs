//! Scenarios on `informer-tokio`.

use crate::outcome::Outcome;
use crate::real_time::{self, Adapter, Handler};
use crate::scenario::Scenario;
use informer_core::DynamicObject;
use informer_runtime::config::Config;
use informer_runtime::factory::FactoryOptions;
use informer_runtime::handler::{HandlerOptions, Registration};
use informer_runtime::informer::{InformerHandle, InformerSpec};
use informer_tokio::{Client, Factory, Informer};
use std::time::Duration;
use tokio::runtime::Runtime;

/// Plays a scenario with tasks, over loopback HTTP.
///
/// # Panics
/// As [`real_time::run`].
pub fn run(scenario: &Scenario) -> Outcome {
    real_time::run::<Tokio>(scenario)
}

struct Tokio {
    // Dropped in this order: the factory's tasks before their runtime.
    informer: Informer<DynamicObject>,
    factory: Factory,
    runtime: Runtime,
}

impl Adapter for Tokio {
    const NAME: &'static str = "tokio";

    fn new(config: Config, options: FactoryOptions, spec: InformerSpec<DynamicObject>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a tokio runtime");
        let _guard = runtime.enter();
        let client = Client::connect(config).expect("a plain URL needs nothing");
        let factory = Factory::with_options(client, options);
        let informer = factory.try_informer(spec).expect("the first informer of a factory");
        drop(_guard);
        Tokio { informer, factory, runtime }
    }

    fn informer(&self) -> &InformerHandle<DynamicObject> {
        &self.informer
    }

    fn handle(&self, options: HandlerOptions, function: Handler) -> Registration {
        let _guard = self.runtime.enter();
        self.informer.handle_with(options, function)
    }

    fn start(&self) {
        let _guard = self.runtime.enter();
        self.factory.start();
    }

    fn hold(&self, held: bool) {
        self.factory.hold(held);
    }

    fn stop(&self, within: Duration) -> bool {
        self.runtime.block_on(self.factory.stop(within)).is_ok()
    }
}
