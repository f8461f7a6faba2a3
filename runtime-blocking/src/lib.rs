//! Kubernetes informers, listers and controllers on plain threads: no async code, here or in any dependency.
//!
//! ```no_run
//! use informer_blocking::{Client, DynamicObject, Factory, Resource};
//! use std::time::Duration;
//!
//! fn main() -> Result<(), informer_blocking::Error> {
//!     let factory = Factory::new(Client::connect_default()?);
//!     let pods = factory.informer_of::<DynamicObject>(Resource::namespaced("", "v1", "pods", "Pod"));
//!     pods.handle(|event| println!("{event}"));
//!     factory.start();
//!     factory.synced(Duration::from_secs(30))?;
//!     println!("{} pods", pods.lister().len());
//!     std::thread::park();
//!     Ok(())
//! }
//! ```
//!
//! With the feature `k8s-openapi` or `kube` the types of those crates are objects: `factory.informer::<Pod>()`. A type
//! of one's own implements [`Object`].
//!
//! | you want | take |
//! |---|---|
//! | a cache | [`Factory::informer`], then [`lister()`](InformerHandle::lister) and [`index`](InformerHandle::index) |
//! | to be told | [`Informer::handle`], [`events`](Informer::events), [`items`](Informer::items): see below |
//! | to keep things in a state | [`Controller`] |
//! | no reconcile that hangs unseen | [`Controller::reconcile_deadline`]: it is told and listed |
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
//! use informer_blocking::{Delivery, DynamicObject, HandlerOptions, Informer, Meta, Object};
//!
//! # fn apply(_: &informer_blocking::Item<DynamicObject>) -> std::io::Result<()> { Ok(()) }
//! # fn example(pods: Informer<DynamicObject>) {
//! // A callback, on a thread of its own. `handle_filtered` sees some objects: what begins or ceases to match is added
//! // or deleted.
//! pods.handle(|event| println!("{event}"));
//! pods.handle_filtered(HandlerOptions::default(), |pod| pod.metadata().is_terminating(), |event| {
//!     println!("about to go: {event}");
//! });
//!
//! // An iterator, on your own thread. `events_filtered` as above; `next_within` waits for a while.
//! for event in pods.events().with_synced() {
//!     match event {
//!         Delivery::Notification(event) => println!("{event}"),
//!         _ => break, // that was the initial state
//!     }
//! }
//!
//! // Keys that must be answered: at most one item of a key at a time, failures come again after a backoff.
//! let items = pods.items(Default::default());
//! for _ in 0..4 {
//!     let items = items.clone(); // each item goes to one of them
//!     std::thread::spawn(move || {
//!         for item in items {
//!             match apply(&item) {
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
//! # Threads
//!
//! | name | how many | does |
//! |---|---|---|
//! | `informer-driver` | one per factory | every decision, decoding, the caches |
//! | `informer-conn` | one per open connection: a watch, or a list while it lasts | reads |
//! | `informer-decode` | none, until a large batch comes; then up to one per processor | decodes together with the driver |
//! | `informer-handler-…` | one per handler | your handler, which may block |
//! | `informer-worker-…` | as many as a controller was given | your reconciler |
//! | `informer-dial` | at most one per client, while a host name is resolved or a Unix socket opened | the system's call |
//!
//! The system's call cannot be interrupted. If it is not back in time, its thread is left behind, counted by nobody, until it
//! returns; it runs no code of yours. Meanwhile the client begins no other one: who needs one waits for it, and fails with an
//! error that says so. Nor can a TCP connection that is being opened: its thread is not waited for, and ends when the time to
//! connect is over at the latest (10 s).
//!
//! [`Factory::stop`] ends all others and waits; dropping the last [`Factory`] ends them and does not wait.
#![forbid(unsafe_code)]

mod aside;
mod client;
mod connection;
mod controller;
mod driver;
mod factory;
mod http;
mod informer;
mod socket;
mod transport;

pub use client::{Api, Client};
pub use controller::{Controller, RunningController};
pub use factory::Factory;
pub use informer::Informer;

pub use informer_core as core;
pub use informer_runtime as runtime;
// What a thread waits on has another name than what a task waits on.
pub use runtime::acknowledged::Items;
pub use runtime::events::Events;

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
