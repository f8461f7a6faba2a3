//! From a notification to a reconcile that runs, fails, is retried and stops: the parts without IO.
//!
//! ```text
//! notification ─► predicate ─► mapper ─► queue ─► run ─► your reconcile ─► verdict ─► queue
//!                 passes?      keys      order,   one per key              forget, retry,
//!                                        delays   at a time                requeue
//! ```
//!
//! - A [`Predicate`] says which notifications matter: [`generation_changed`], [`resource_version_changed`], a closure,
//!   and combinations.
//! - A [`Mapper`] says which keys they are about: [`itself`], [`controller_of`] or [`owners_of`] an object,
//!   [`mapped`] by a function.
//! - A reconcile returns an [`Outcome`] or a [`ReconcileError`].
//! - The [`Controller`] decides which key runs when. An adapter runs your code and reports a [`Verdict`].
//! - A run over its deadline is cut short, or told as [`Overdue`] if it cannot be.
//!
//! A whole controller by hand, in virtual time:
//!
//! ```
//! use informer_core::controller::{
//!     Controller, ControllerConfig, Keys, Mapper, Outcome, Predicate, ReconcileError, Verdict, generation_changed,
//!     itself,
//! };
//! use informer_core::listener::{Cause, Notification};
//! use informer_core::object::{DynamicObject, Key, Obj, Object, Resource, Uid, Version};
//! use informer_core::time::{Duration, Time};
//!
//! let widgets = Resource::namespaced("example.com", "v1", "widgets", "Widget");
//! let widget = |name: &str, version: &str, generation: u32| {
//!     let json = format!(r#"{{"metadata": {{"name": "{name}", "namespace": "ns", "generation": {generation}}}}}"#);
//!     let value = DynamicObject::decode(json.as_bytes(), &widgets).unwrap();
//!     Obj::new(Key::new("ns", name), Uid::new(name), Version::new(version), value)
//! };
//!
//! // The cloud is down the first time.
//! let mut calls = 0;
//! let mut reconcile = |key: &Key| -> Result<Outcome, ReconcileError> {
//!     calls += 1;
//!     if calls == 1 {
//!         return Err(ReconcileError::retry("the cloud does not answer"));
//!     }
//!     key.name().parse::<Key>()?; // any error can be given on with `?`; it is retried
//!     Ok(Outcome::requeue_after(Duration::from_secs(60)))
//! };
//!
//! let (predicate, mapper) = (generation_changed(), itself());
//! let mut controller = Controller::new(ControllerConfig::new(42));
//! let mut now = Time::ZERO;
//! let mut log = Vec::new();
//!
//! let old = widget("a", "1", 1);
//! for event in [
//!     Notification::Added { object: old.clone(), initial: true, cause: Cause::List },
//!     Notification::Updated { old, new: widget("a", "2", 1), cause: Cause::Watch }, // only its status
//! ] {
//!     if predicate.passes(&event) {
//!         let mut keys = Keys::default();
//!         mapper.map(&event, &mut keys);
//!         keys.into_iter().for_each(|key| _ = controller.enqueue(now, key));
//!     }
//! }
//! assert!(controller.next(now).is_none()); // the caches are not synced yet
//! controller.open();
//!
//! while log.len() < 2 {
//!     while let Some(run) = controller.next(now) {
//!         let verdict = Verdict::from(reconcile(run.key()));
//!         log.push(controller.finished(now, run, verdict).to_string());
//!     }
//!     now = controller.next_deadline().unwrap().at; // a driver would sleep until then
//! }
//! assert_eq!(
//!     log,
//!     [
//!         "ns/a: attempt 1 failed: the cloud does not answer; retrying in 5ms",
//!         "ns/a: attempt 2 done; again in 60s",
//!     ]
//! );
//!
//! controller.stop();
//! assert!(controller.is_stopped() && controller.next_deadline().is_none());
//! ```

mod dispatch;
mod outcome;
mod overdue;
mod predicate;
mod source;

pub use dispatch::{Controller, ControllerConfig, Counts, Finished, Run};
pub use outcome::{Outcome, ReconcileError, Verdict};
pub use overdue::Overdue;
pub use predicate::{
    And, Any, GenerationChanged, Not, Or, Predicate, ResourceVersionChanged, Vote, When, any, generation_changed,
    resource_version_changed, when,
};
pub use source::{Itself, Keys, Mapped, Mapper, OwnerOf, OwnerScopeError, controller_of, itself, mapped, owners_of};
