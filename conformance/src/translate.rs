//! From the words of a scenario to those of the core, and back into an outcome: what every runner shares.
//!
//! A runner decides when something happens; what it is called is decided here, so that two runtimes cannot name the
//! same thing differently.
//!
//! ```
//! use informer_conformance::scenario::Scenario;
//! use informer_conformance::translate;
//!
//! let scenario = Scenario::from_str(r#"{
//!     "name": "n", "seed": 1, "runForMs": 1000, "server": [], "informer": {"pageSize": 7, "namespace": "web"},
//!     "resource": {"group": "", "version": "v1", "resource": "pods", "kind": "Pod", "namespaced": true}
//! }"#).unwrap();
//! let config = translate::config(&scenario);
//! assert_eq!((config.reflector.page_size, config.reflector.namespace.as_deref()), (7, Some("web")));
//! ```

use crate::outcome::{self, Cause, Change, ErrorEntry, ErrorPhase, Event, Phase, What};
use crate::scenario::{self, HandlerSpec, IndexName, ListStrategy, OverflowPolicy, Scenario};
use informer_core::informer::InformerConfig;
use informer_core::listener::{self, Notification};
use informer_core::reflector;
use informer_core::store::{IndexDef, NAMESPACE, Store};
use informer_core::{Obj, Resource};
use std::time::Duration;

/// The `reason` of the error that tells of a handler which fell behind under the `disconnect` policy.
pub const HANDLER_OVERFLOW: &str = "HandlerOverflow";

/// What the scenario's informer reads.
pub fn resource(scenario: &Scenario) -> Resource {
    let of = &scenario.resource;
    Resource::dynamic(&of.group, &of.version, &of.resource, &of.kind, of.namespaced)
}

/// The scenario's informer, with all waits as they are on a real cluster.
pub fn config(scenario: &Scenario) -> InformerConfig {
    let spec = &scenario.informer;
    let mut config = InformerConfig::new(resource(scenario));
    config.strict_decode = spec.strict_decode;
    let reflector = &mut config.reflector;
    reflector.namespace.clone_from(&spec.namespace);
    reflector.label_selector.clone_from(&spec.label_selector);
    reflector.field_selector.clone_from(&spec.field_selector);
    reflector.strategy = match spec.list_strategy {
        ListStrategy::Auto => reflector::ListStrategy::Auto,
        ListStrategy::Streaming => reflector::ListStrategy::Streaming,
        ListStrategy::Paged => reflector::ListStrategy::Paged,
    };
    reflector.page_size = u32::try_from(spec.page_size).unwrap_or(u32::MAX);
    reflector.min_watch_timeout = Duration::from_millis(spec.min_watch_timeout_ms);
    config
}

/// The index that a scenario calls `name`.
pub fn index<T>(name: IndexName) -> IndexDef<T> {
    match name {
        IndexName::Namespace => IndexDef::namespace(),
    }
}

/// The resync period of a handler; none is never.
pub fn resync(scenario: &Scenario, handler: &HandlerSpec) -> Option<Duration> {
    Some(scenario.resync_ms(handler)).filter(|period| *period > 0).map(Duration::from_millis)
}

/// What happens when a handler falls behind.
pub fn overflow(spec: scenario::Overflow) -> listener::Overflow {
    let limit = usize::try_from(spec.limit).unwrap_or(usize::MAX);
    match spec.policy {
        OverflowPolicy::Coalesce => listener::Overflow::Coalesce { limit },
        OverflowPolicy::Unbounded => listener::Overflow::Unbounded,
        OverflowPolicy::Disconnect => listener::Overflow::Disconnect { limit },
    }
}

/// Where the reflector stands.
///
/// # Panics
/// If the core has a phase that the format of an outcome does not have yet.
pub fn phase(phase: reflector::Phase) -> Phase {
    match phase {
        reflector::Phase::Idle => Phase::Idle,
        reflector::Phase::Listing => Phase::Listing,
        reflector::Phase::Streaming => Phase::Streaming,
        reflector::Phase::Opening => Phase::Opening,
        reflector::Phase::Watching => Phase::Watching,
        reflector::Phase::Backoff => Phase::Backoff,
        reflector::Phase::Stopped => Phase::Stopped,
        other => panic!("outcomes have no word for the phase {other}: give it one in outcome::Phase"),
    }
}

/// A notification whose delivery to a handler began at `at_ms`.
///
/// # Panics
/// If the core has a notification that the format of an outcome does not have yet.
pub fn event<T>(at_ms: u64, notification: &Notification<T>) -> Event {
    let change = |object: &Obj<T>, cause, initial, final_state_known| Change {
        key: object.key().as_str().to_owned(),
        uid: object.uid().to_string(),
        resource_version: object.version().as_str().to_owned(),
        old_resource_version: notification.old().map(|old| old.version().as_str().to_owned()),
        initial,
        cause: self::cause(cause),
        final_state_known,
    };
    let what = match notification {
        Notification::Added { object, initial, cause, .. } => What::Add(change(object, *cause, *initial, true)),
        Notification::Updated { new, cause, .. } => What::Update(change(new, *cause, false, true)),
        Notification::Deleted { object, cause, final_state_known, .. } => {
            What::Delete(change(object, *cause, false, *final_state_known))
        }
        other => panic!("outcomes have no word for {other}: give it one in outcome::What"),
    };
    Event { at_ms, what }
}

fn cause(cause: listener::Cause) -> Cause {
    match cause {
        listener::Cause::List => Cause::List,
        listener::Cause::Relist => Cause::Relist,
        listener::Cause::Watch => Cause::Watch,
        listener::Cause::Resync => Cause::Resync,
        other => panic!("outcomes have no word for the cause {other:?}: give it one in outcome::Cause"),
    }
}

/// A failure that the machine reported at `at_ms`.
pub fn error(at_ms: u64, failure: &reflector::Failure) -> ErrorEntry {
    let phase = match failure.phase_name() {
        "list" => ErrorPhase::List,
        "streaming" => ErrorPhase::Streaming,
        _ => ErrorPhase::Watch,
    };
    let (reason, message) = (failure.reason.clone(), failure.message.clone());
    ErrorEntry { at_ms, phase, code: failure.code, reason, message }
}

/// The error that tells of a handler which was removed because it fell behind. Its phase is `watch`: what a handler
/// falls behind are changes, for the initial state is not buffered.
pub fn overflow_error(at_ms: u64, handler: &HandlerSpec) -> ErrorEntry {
    let HandlerSpec { name, overflow, .. } = handler;
    ErrorEntry {
        at_ms,
        phase: ErrorPhase::Watch,
        code: 0,
        reason: HANDLER_OVERFLOW.to_owned(),
        message: format!(
            "handler {name:?} is removed: more than {} notifications waited for it; make it faster, raise its limit, \
             or let its notifications be merged",
            overflow.limit
        ),
    }
}

/// The store and those of its indexes that the scenario names.
///
/// # Panics
/// If `store` lacks one of `indexes`: the runner has not added it.
pub fn store<T>(store: &Store<T>, indexes: &[IndexName]) -> outcome::Store {
    let index = |name: IndexName| {
        let name = match name {
            IndexName::Namespace => NAMESPACE,
        };
        let values = store.index_values(name).expect("a runner adds the scenario's indexes before the start");
        let keys = |value: &str| {
            let objects = store.by_index(name, value).expect("it was there a line above");
            let mut keys: Vec<_> = objects.map(|object| object.key().as_str().to_owned()).collect();
            keys.sort();
            keys
        };
        (name.to_owned(), values.map(|(value, _)| (value.to_owned(), keys(value))).collect())
    };
    outcome::Store {
        resource_version: store.version().as_str().to_owned(),
        objects: store
            .iter()
            .map(|object| (object.key().as_str().to_owned(), object.version().as_str().to_owned()))
            .collect(),
        indexes: indexes.iter().copied().map(index).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use informer_core::{Key, Uid, Version};

    fn scenario(change: &str) -> Scenario {
        fixtures::scenario(&format!(r#"{change} "runForMs": 1000, "server": []"#)).unwrap()
    }

    #[test]
    fn every_field_of_the_informer_reaches_the_core() {
        let scenario = scenario(
            r#""informer": {"namespace": "web", "labelSelector": "a=b", "fieldSelector": "c=d",
                "listStrategy": "streaming", "pageSize": 7, "minWatchTimeoutMs": 1500, "strictDecode": true},"#,
        );
        let InformerConfig { reflector, strict_decode, .. } = config(&scenario);
        assert!(strict_decode);
        assert_eq!(
            (reflector.namespace.as_deref(), reflector.label_selector.as_deref(), reflector.field_selector.as_deref()),
            (Some("web"), Some("a=b"), Some("c=d"))
        );
        assert_eq!(reflector.strategy, reflector::ListStrategy::Streaming);
        assert_eq!((reflector.page_size, reflector.min_watch_timeout), (7, Duration::from_millis(1500)));
        assert_eq!(reflector.resource.path(None), "/api/v1/pods");
    }

    #[test]
    fn a_period_of_zero_is_never() {
        let scenario =
            scenario(r#""informer": {"resyncMs": 7}, "handlers": [{"name": "a"}, {"name": "b", "resyncMs": 0}],"#);
        let periods: Vec<_> = scenario.handlers.iter().map(|handler| resync(&scenario, handler)).collect();
        assert_eq!(periods, [Some(Duration::from_millis(7)), None]);
    }

    #[test]
    fn a_deletion_keeps_what_the_handler_saw_last() {
        let at = |version: &str| Obj::new(Key::new("ns", "a"), Uid::new("u"), Version::new(version), ());
        let (object, old) = (at("9"), at("8"));
        let deleted = Notification::Deleted { object, old, cause: listener::Cause::Watch, final_state_known: true };
        let Event { at_ms: 3, what: What::Delete(change) } = event(3, &deleted) else { panic!("not a deletion") };
        assert_eq!((change.resource_version.as_str(), change.old_resource_version.as_deref()), ("9", Some("8")));
    }

    #[test]
    fn an_overflow_names_its_handler_and_the_way_out() {
        let scenario = scenario(r#""handlers": [{"name": "slow", "overflow": {"policy": "disconnect", "limit": 4}}],"#);
        let error = overflow_error(7, &scenario.handlers[0]);
        assert!(error.message.contains(r#"handler "slow" is removed: more than 4"#), "{}", error.message);
    }
}
