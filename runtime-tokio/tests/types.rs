//! What the compiler promises to users: every public type may cross threads, and so may the futures.

use informer_tokio::{
    Api, Client, Config, Context, Controller, DynamicObject, Error, EventStream, Factory, FactoryOptions,
    HandlerOptions, Index, Informer, InformerSpec, Item, ItemOptions, ItemStream, Lagging, Lister, Registration,
    RunningController,
};
use std::time::Duration;

fn crosses_threads<T: Send + Sync + 'static>() {}

fn may_be_spawned<F: Future + Send>(_: impl FnOnce() -> F) {}

#[test]
fn every_public_type_may_cross_threads() {
    crosses_threads::<(Client, Config, Factory, FactoryOptions)>();
    crosses_threads::<(Informer<DynamicObject>, EventStream<DynamicObject>, InformerSpec<DynamicObject>)>();
    crosses_threads::<(Lister<DynamicObject>, Index<DynamicObject>, Registration, HandlerOptions)>();
    crosses_threads::<(RunningController, Context<DynamicObject>)>();
    crosses_threads::<Api<DynamicObject>>();
    crosses_threads::<(Item<DynamicObject>, ItemStream<DynamicObject>, ItemOptions)>();
    crosses_threads::<(Lagging, Error)>();
    fn sends<T: Send + 'static>() {}
    sends::<Controller<DynamicObject>>();
}

#[test]
fn an_error_is_one() {
    fn is_an_error<E: std::error::Error + Send + Sync + 'static>() {}
    is_an_error::<Error>();
}

#[test]
fn the_waits_can_be_part_of_a_task() {
    // Never called: the compiler has said all there is to say.
    fn tasks(
        factory: Factory,
        mut events: EventStream<DynamicObject>,
        mut items: ItemStream<DynamicObject>,
        registration: Registration,
    ) {
        may_be_spawned(|| async move {
            let _ = factory.synced(Duration::ZERO).await;
            let _ = factory.stop(Duration::ZERO).await;
            let _ = events.next().await;
            let _ = items.next().await;
            registration.synced().await
        });
    }
    let _: fn(Factory, EventStream<DynamicObject>, ItemStream<DynamicObject>, Registration) = tasks;
}
