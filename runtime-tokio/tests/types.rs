//! What the compiler promises to users: every public type may cross threads, and so may the futures.

use informer_tokio::core::controller::Any;
use informer_tokio::{
    Api, Client, Config, ConfigError, Conflict, Context, Controller, DecodeError, DynamicObject, Error, EventStream,
    Factory, FactoryOptions, HandlerOptions, Index, IndexError, Informer, InformerSpec, Item, ItemOptions, ItemStream,
    Key, KeyError, LabelSelector, Lagging, Lister, Mapper, MutationCheck, Notice, Obj, Object, ObjectMeta, Objects,
    Observed, OverlayError, OwnWrites, OwnerOf, OwnerRef, OwnerReference, Page, PageToken, Pages, ParseResourceError,
    Predicate, QueueKind, Registration, Resource, RingStats, RunningController, SavedError, SelectorError, Settled,
    Snapshot, Status, StringMap, TokenError, When,
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

/// Who keeps what a call answers, or writes a function around a call, names its types from the root of this crate.
#[test]
fn what_public_signatures_name_is_at_the_root() {
    type D = DynamicObject;
    // The compiler says all there is to say: each of these is a call of the crate, with its types.
    let _: fn(&[u8], &Resource) -> Result<D, DecodeError> = D::decode;
    let _: fn(&Lister<D>) -> Objects<D> = Lister::list;
    let _: fn(&Lister<D>) -> Snapshot<D> = Lister::snapshot;
    let _: fn(&Pages<D>, &PageToken) -> Result<Page<D>, TokenError> = Pages::after;
    let _: fn(&Index<D>, &str) -> Result<Objects<D>, IndexError> = Index::try_get;
    let _: fn(&OwnWrites<D>, Obj<D>) -> Result<bool, OverlayError> = OwnWrites::put;
    let _: fn(&OwnWrites<D>) -> Vec<Settled<D>> = OwnWrites::settle;
    let _: fn(&Registration) -> RingStats = Registration::stats;
    let _: fn(InformerSpec<D>, QueueKind) -> InformerSpec<D> = InformerSpec::queue;
    let _: fn(InformerSpec<D>, MutationCheck<D>) -> InformerSpec<D> = InformerSpec::check_mutations;
    let _: fn(Vec<OwnerReference>, StringMap) -> ObjectMeta =
        |owner_references, labels| ObjectMeta { owner_references, labels, ..ObjectMeta::default() };
    let _: fn(OwnerRef<'_>) -> String = |owner| owner.name.to_string();
    let _: fn(&Observed<'_>) -> Option<Notice> =
        |observed| if let Observed::Notice { notice, .. } = observed { Some((*notice).clone()) } else { None };
    let _: fn(Error) -> Option<Status> =
        |error| if let Error::Api(refused) = error { Some(refused.status) } else { None };
    let _: fn(&str) -> Result<Key, KeyError> = str::parse;
    let _: fn(&str) -> Result<Resource, ParseResourceError> = str::parse;
    let _: fn(&str) -> Result<LabelSelector, SelectorError> = str::parse;
    let _: fn(&str) -> Result<Config, ConfigError> = Config::from_url;
    let _: fn(SavedError) -> Error = Error::from;
    let _: fn(Conflict) -> Error = Error::from;
    fn filtered<T: Object, P: Predicate<T>, M: Mapper<T>>(
        all: Controller<T>,
        of: &Informer<T>,
        passes: P,
        map: M,
    ) -> Controller<T> {
        all.when(passes).watches(of, map)
    }
    let _ = filtered::<D, When<Any>, OwnerOf>;
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
