//! What the compiler promises to users: every public type may cross threads.

use informer_blocking::{
    Api, Client, Config, Context, Controller, DynamicObject, Error, Events, Factory, FactoryOptions, HandlerOptions,
    Index, Informer, InformerSpec, Item, ItemOptions, Items, Lagging, Lister, Registration, RunningController,
};

fn crosses_threads<T: Send + Sync + 'static>() {}

#[test]
fn every_public_type_may_cross_threads() {
    crosses_threads::<(Client, Config, Factory, FactoryOptions)>();
    crosses_threads::<(Informer<DynamicObject>, Events<DynamicObject>, InformerSpec<DynamicObject>)>();
    crosses_threads::<(Lister<DynamicObject>, Index<DynamicObject>, Registration, HandlerOptions)>();
    crosses_threads::<(RunningController, Context<DynamicObject>)>();
    crosses_threads::<Api<DynamicObject>>();
    crosses_threads::<(Item<DynamicObject>, Items<DynamicObject>, ItemOptions)>();
    crosses_threads::<(Lagging, Error)>();
    fn sends<T: Send + 'static>() {}
    sends::<Controller<DynamicObject>>();
}

#[test]
fn an_error_is_one() {
    fn is_an_error<E: std::error::Error + Send + Sync + 'static>() {}
    is_an_error::<Error>();
}
