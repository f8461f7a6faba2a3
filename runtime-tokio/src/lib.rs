//! Kubernetes informers on tokio: shared caches with handlers, indexes and listers, and controllers on top.
//!
//! ```no_run
//! use informer_tokio::{Client, DynamicObject, Factory, Resource};
//! use std::time::Duration;
//!
//! # async fn example() -> Result<(), informer_tokio::Error> {
//! let factory = Factory::new(Client::connect_default()?);
//! let pods = factory.informer_of::<DynamicObject>(Resource::namespaced("", "v1", "pods", "Pod"));
//! pods.handle(|event| println!("{event}"));
//! factory.start();
//! factory.synced(Duration::from_secs(30)).await?;
//! println!("{} pods in all, {} in kube-system", pods.lister().len(), pods.by_index("namespace").get("kube-system").len());
//! tokio::time::sleep(Duration::from_secs(60)).await;
//! factory.stop(Duration::from_secs(5)).await
//! # }
//! ```
//!
//! With the feature `k8s-openapi` it is `factory.informer::<Pod>()`; with `kube`, types that derive `CustomResource`
//! work too; a type of one's own needs [`Object`].
//!
//! | you want | take |
//! |---|---|
//! | a cache | [`Factory::informer`], then [`lister()`](runtime::informer::InformerHandle::lister) and [`index`](runtime::informer::InformerHandle::index) |
//! | to be told | [`Informer::handle`], [`handle_async`](Informer::handle_async), [`events`](Informer::events), [`items`](Informer::items): see below |
//! | to keep things in a state | [`Controller`] |
//! | no reconcile that hangs unseen | [`Controller::reconcile_deadline`]: it is dropped and retried |
//! | to write | [`Client::api`] |
//! | to read what you wrote | [`Informer::at_least`], [`wait_for`](Informer::wait_for), [`own_writes`](InformerHandle::own_writes) |
//! | a part of the objects | [`InformerSpec`] with [`Factory::informer_with`] |
//! | a cache of your own objects, or a test without a server | [`Factory::fed`], of a [`Factory::offline`] |
//! | to test a reconciler alone | [`Context::new`], with [`Lister::of`] |
//! | to begin with the state of an earlier run | [`saved`](InformerHandle::saved), then [`InformerSpec::read_saved`] and [`preloaded`](InformerSpec::preloaded) |
//! | to know why a cache stands still | [`degraded_since`](InformerHandle::degraded_since), [`last_failure`](InformerHandle::last_failure), [`held_up_by`](InformerHandle::held_up_by), [`Observed::HeldUp`] |
//! | to be told of a recreation as one change | [`HandlerOptions::with_recreated`] |
//! | to see what fails | [`FactoryOptions::observed`] with [`Observed::is_failure`], or the feature `tracing` |
//!
//! Nothing is printed by itself: failures are retried, and silent for those who do not look.
//!
//! What the documentation calls `informer_core::…` and `informer_runtime::…` is [`core`] and [`runtime`](mod@runtime) here: nobody
//! needs a dependency on those two.
//!
//! # Ways to take events
//!
//! ```no_run
//! use informer_tokio::{Delivery, DynamicObject, HandlerOptions, Informer, Meta, Object};
//!
//! # async fn apply(_: &informer_tokio::Item<DynamicObject>) -> std::io::Result<()> { Ok(()) }
//! # async fn example(pods: Informer<DynamicObject>) {
//! // A callback, off the tasks, or one that is a task. `handle_filtered` sees some objects: what begins or ceases to
//! // match is added or deleted.
//! pods.handle(|event| println!("{event}"));
//! pods.handle_async(HandlerOptions::default(), |event| async move { println!("{event}") });
//! pods.handle_filtered(HandlerOptions::default(), |pod| pod.metadata().is_terminating(), |event| {
//!     println!("about to go: {event}");
//! });
//!
//! // A stream, in your own task. `events_filtered` as above.
//! let mut events = pods.events().with_synced();
//! while let Some(event) = events.next().await {
//!     match event {
//!         Delivery::Notification(event) => println!("{event}"),
//!         _ => break, // that was the initial state
//!     }
//! }
//!
//! // Keys that must be answered: at most one item of a key at a time, failures come again after a backoff.
//! let items = pods.items(Default::default());
//! for _ in 0..4 {
//!     let mut items = items.clone(); // each item goes to one of them
//!     tokio::spawn(async move {
//!         while let Some(item) = items.next().await {
//!             match apply(&item).await {
//!                 Ok(()) => item.done(),
//!                 Err(error) if item.attempt() < 10 => item.retry(error),
//!                 Err(error) => item.give_up(error), // until it changes
//!             }
//!         }
//!     });
//! }
//! # }
//! ```
//!
//! Whoever does not keep up is told less and not wrong: see [`Overflow`]. A [`Controller`] is the last form with workers
//! and other sources of its own.
//!
//! # Tasks
//!
//! Everything that decides is in [`core`] and [`runtime`](mod@runtime); this crate adds sockets, the clock and tasks:
//! one per informer, one per request in flight, one per HTTP/2 connection, one while connections of HTTP/1.1 lie idle,
//! one per handler and worker. The tokio runtime needs its IO and time drivers (`enable_all`); one thread is enough.
//!
//! # Time in tests
//!
//! All delays, and the instants that are given out, such as [`Context::deadline`], go by the clock of tokio's timers. On one
//! that is paused, an hour passes when every task waits:
//!
//! ```
//! use informer_tokio::{Controller, DynamicObject, Factory, FedSpec, Obj, Object, Outcome, Resource, Version};
//! use std::time::Duration;
//! use tokio::time::Instant;
//!
//! const HOUR: Duration = Duration::from_secs(3600);
//!
//! # async fn test() -> Result<(), Box<dyn std::error::Error>> {
//! // #[tokio::test(start_paused = true)]
//! let factory = Factory::offline();
//! let pods: Resource = "pods".parse()?;
//! let pod = br#"{"metadata": {"namespace": "web", "name": "a", "uid": "u", "resourceVersion": "1"}}"#;
//! let pod = Obj::of(DynamicObject::decode(pod, &pods)?).ok_or("no name")?;
//! let (informer, feeder) = factory.fed(FedSpec::<DynamicObject>::of(pods))?;
//! let (tell, mut runs) = tokio::sync::mpsc::unbounded_channel();
//! let running = Controller::new(informer).start(move |_key, _cx| {
//!     let told = tell.send(Instant::now());
//!     async move { told.map(|()| Outcome::requeue_after(HOUR)).map_err(Into::into) }
//! });
//! factory.start();
//! feeder.list([pod], Version::new("1"))?;
//! let first = runs.recv().await.ok_or("stopped")?;
//! let second = runs.recv().await.ok_or("stopped")?; // at once, for who looks at a real clock
//! assert!(second - first >= HOUR);
//! # drop(running);
//! # Ok(())
//! # }
//! # let paused = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
//! # paused.block_on(test()).unwrap();
//! ```
//!
//! A paused clock is tokio's feature `test-util`. A server does not go by it: while its answer is on the way, every task may
//! wait, and the time for it is over at once; what passes all the same passes by luck. So such tests feed their informers.
#![forbid(unsafe_code)]

mod client;
mod connection;
mod controller;
mod driver;
mod factory;
mod informer;
mod items;

pub use client::{Api, Client};
pub use controller::{Controller, RunningController};
pub use factory::Factory;
pub use informer::Informer;
pub use items::ItemStream;

pub use informer_core as core;
pub use informer_runtime as runtime;
// What a task waits on has another name than what a thread waits on.
pub use runtime::events::EventStream;

pub use informer_core::controller::{
    Counts, Finished, Itself, Keys, Mapped, Mapper, Outcome, Overdue, OwnerOf, OwnerScopeError, Predicate,
    ReconcileError, Verdict, Vote, When, any, controller_of, generation_changed, itself, mapped, owners_of,
    resource_version_changed, when,
};
pub use informer_core::factory::Conflict;
pub use informer_core::fed::Change;
pub use informer_core::fifo::QueueKind;
pub use informer_core::informer::Notice;
pub use informer_core::listener::{Cause, Delivery, Notification, Overflow, Recreated, RingStats};
pub use informer_core::lister::{Objects, TokenError};
pub use informer_core::object::{
    DecodeError, DynamicObject, Identity, Key, KeyError, KeyRef, Meta, Obj, Object, ObjectMeta, OwnerRef,
    OwnerReference, ParseResourceError, Resource, StringMap, Uid, UidRef, Version, VersionRef,
};
pub use informer_core::overlay::{OverlayError, Settled};
pub use informer_core::queue::Limiter;
pub use informer_core::reflector::{Failure, ListStrategy, Phase, Tuning};
pub use informer_core::saved::{Saved, SavedError};
pub use informer_core::selector::{FieldSelector, LabelSelector, SelectorError};
pub use informer_core::store::{IndexError, IndexValue, IndexValues, Seen, Snapshot, Store};
pub use informer_core::wire::{Limits, Request, Status};
pub use informer_runtime::acknowledged::{Item, ItemOptions};
pub use informer_runtime::api::{ApiError, DEFAULT_TIMEOUT, DeleteOptions, Deletion, Preconditions, PropagationPolicy};
pub use informer_runtime::config::{ConfigError, ConfigErrorKind, HttpVersion, Pings, Secret, TokenSource};
pub use informer_runtime::controller::{Awaited, Context, GATE_PATIENCE};
pub use informer_runtime::factory::FactoryOptions;
pub use informer_runtime::feeder::{FedSpec, Feeder, Refusal, Refused};
pub use informer_runtime::handler::{HandlerOptions, Registration};
pub use informer_runtime::informer::{InformerHandle, InformerSpec};
pub use informer_runtime::lister::{Index, Lister};
pub use informer_runtime::mutation::MutationCheck;
pub use informer_runtime::observe::{Gate, Observed, Observer, WallClock};
pub use informer_runtime::own_writes::OwnWrites;
pub use informer_runtime::pages::{Page, PageToken, Pages};
pub use informer_runtime::roster::Leased;
pub use informer_runtime::{Behind, Config, Error, Lagging};
