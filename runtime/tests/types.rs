//! What the compiler promises to users of the shared parts: which types may cross threads, and which are errors.

use informer_core::DynamicObject;
use informer_runtime::acknowledged::{Item, ItemSource, Items};
use informer_runtime::config::{Config, ConfigError};
use informer_runtime::controller::{Context, ControllerCore, Work};
use informer_runtime::events::Events;
use informer_runtime::factory::{FactoryCore, FactoryOptions, Life, Lives};
use informer_runtime::handler::{Deliveries, HandlerOptions, Next, Registration};
use informer_runtime::informer::{InformerHandle, InformerSpec};
use informer_runtime::lister::{Index, Lister};
use informer_runtime::observe::Clock;
use informer_runtime::pages::{Page, PageToken, Pages};
use informer_runtime::store::SharedStore;
use informer_runtime::sync::Signal;
use informer_runtime::{Error, Lagging};

fn crosses_threads<T: Send + Sync + 'static>() {}

fn is_an_error<E: std::error::Error + Send + Sync + 'static>() {}

#[test]
fn every_public_type_may_cross_threads() {
    crosses_threads::<(InformerHandle<DynamicObject>, InformerSpec<DynamicObject>, Lister<DynamicObject>)>();
    crosses_threads::<(Index<DynamicObject, u16>, Pages<DynamicObject>, Page<DynamicObject>, PageToken)>();
    crosses_threads::<(Index<DynamicObject>, SharedStore<DynamicObject>, Registration, HandlerOptions)>();
    crosses_threads::<(Deliveries<DynamicObject>, Next<DynamicObject>)>();
    crosses_threads::<(FactoryCore, FactoryOptions, Lives, Life, Clock, Signal)>();
    crosses_threads::<(ControllerCore, Context<DynamicObject>, Work)>();
    crosses_threads::<(Events<DynamicObject>, Item<DynamicObject>, ItemSource<DynamicObject>, Items<DynamicObject>)>();
    crosses_threads::<(Config, Lagging)>();
}

#[test]
fn every_error_is_one() {
    is_an_error::<Error>();
    is_an_error::<ConfigError>();
}
