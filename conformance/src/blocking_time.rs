//! Scenarios on `informer-blocking`.

use crate::outcome::Outcome;
use crate::real_time::{self, Adapter, Handler};
use crate::scenario::Scenario;
use informer_blocking::{Client, Factory, Informer};
use informer_core::DynamicObject;
use informer_runtime::config::Config;
use informer_runtime::factory::FactoryOptions;
use informer_runtime::handler::{HandlerOptions, Registration};
use informer_runtime::informer::{InformerHandle, InformerSpec};
use std::time::Duration;

/// Plays a scenario with threads, over loopback HTTP.
///
/// # Panics
/// As [`real_time::run`].
pub fn run(scenario: &Scenario) -> Outcome {
    real_time::run::<Blocking>(scenario)
}

struct Blocking {
    informer: Informer<DynamicObject>,
    factory: Factory,
}

impl Adapter for Blocking {
    const NAME: &'static str = "blocking";

    fn new(config: Config, options: FactoryOptions, spec: InformerSpec<DynamicObject>) -> Self {
        let client = Client::connect(config).expect("a plain URL needs nothing");
        let factory = Factory::with_options(client, options);
        let informer = factory.try_informer(spec).expect("the first informer of a factory");
        Blocking { informer, factory }
    }

    fn informer(&self) -> &InformerHandle<DynamicObject> {
        &self.informer
    }

    fn handle(&self, options: HandlerOptions, function: Handler) -> Registration {
        self.informer.handle_with(options, function)
    }

    fn start(&self) {
        self.factory.start();
    }

    fn hold(&self, held: bool) {
        self.factory.hold(held);
    }

    fn stop(&self, within: Duration) -> bool {
        self.factory.stop(within).is_ok()
    }
}
