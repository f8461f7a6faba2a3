//! [`Predicate`]: which notifications a controller hears of.
//!
//! A predicate about *changes* has nothing to say about an object that comes or goes. If its silence counted as a yes,
//! its negation would swallow every deletion, and the controller would never clean up. So a predicate casts a
//! [`Vote`], and can abstain; combinations follow the three-valued logic of Kleene, in which an abstention stays one
//! under negation; and a notification that nobody votes against passes.
//!
//! ```
//! use informer_core::controller::{Predicate, generation_changed, when};
//! use informer_core::listener::{Cause, Notification};
//! use informer_core::object::{Key, Obj, ObjectMeta, Uid, Version};
//! # use informer_core::object::{Object, Resource};
//! # #[derive(serde::Deserialize)]
//! # struct Widget { metadata: ObjectMeta }
//! # impl Object for Widget {
//! #     type Meta = ObjectMeta;
//! #     fn resource() -> Resource { Resource::namespaced("example.com", "v1", "widgets", "Widget") }
//! #     fn metadata(&self) -> &ObjectMeta { &self.metadata }
//! # }
//! let widget = |namespace: &str, generation| {
//!     let metadata = ObjectMeta { generation: Some(generation), ..ObjectMeta::default() };
//!     Obj::new(Key::new(namespace, "a"), Uid::new("u"), Version::new("7"), Widget { metadata })
//! };
//! let update = |namespace, from, to| Notification::Updated {
//!     old: widget(namespace, from),
//!     new: widget(namespace, to),
//!     cause: Cause::Watch,
//! };
//!
//! let ours = generation_changed().and(|event: &Notification<Widget>| event.key().namespace() != "kube-system");
//! assert!(ours.passes(&update("web", 1, 2)));
//! assert!(!ours.passes(&update("web", 2, 2)));
//! assert!(!ours.passes(&update("kube-system", 1, 2)));
//!
//! let status_only = generation_changed().not();
//! assert!(status_only.passes(&update("web", 2, 2)));
//! let added = Notification::Added { object: widget("web", 1), initial: false, cause: Cause::Watch };
//! assert!(generation_changed().passes(&added) && status_only.passes(&added));
//! ```

use crate::listener::{Cause, Notification};
use crate::object::{Meta, Object};

/// What a predicate thinks of one notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vote {
    /// It matters.
    Pass,
    /// It does not matter.
    Drop,
    /// The predicate has nothing to say about notifications of this kind.
    Abstain,
}

impl Vote {
    const fn of(passes: bool) -> Vote {
        if passes { Vote::Pass } else { Vote::Drop }
    }
}

/// Says which notifications matter. A pure function of the notification: it keeps no state, so nothing in it can
/// outlive an object.
///
/// A closure is a predicate; [`when`] makes one that can be combined.
pub trait Predicate<T>: Send + Sync + 'static {
    /// False if the notification is to be dropped.
    fn passes(&self, event: &Notification<T>) -> bool;

    /// The same with the possibility to abstain, for combinations.
    fn vote(&self, event: &Notification<T>) -> Vote {
        Vote::of(self.passes(event))
    }
}

impl<T, F> Predicate<T> for F
where
    F: Fn(&Notification<T>) -> bool + Send + Sync + 'static,
{
    fn passes(&self, event: &Notification<T>) -> bool {
        self(event)
    }
}

/// A predicate that can be combined with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct When<P>(P);

impl<P> When<P> {
    /// Passes what both pass.
    pub fn and<Q>(self, other: Q) -> When<And<P, Q>> {
        When(And(self.0, other))
    }

    /// Passes what at least one passes.
    pub fn or<Q>(self, other: Q) -> When<Or<P, Q>> {
        When(Or(self.0, other))
    }

    /// Passes what this one drops and the reverse. What it abstains from passes either way.
    #[allow(clippy::should_implement_trait)] // `!generation_changed()` would be easy to overlook
    pub fn not(self) -> When<Not<P>> {
        When(Not(self.0))
    }
}

impl<T, P: Predicate<T>> Predicate<T> for When<P> {
    fn passes(&self, event: &Notification<T>) -> bool {
        self.0.passes(event)
    }

    fn vote(&self, event: &Notification<T>) -> Vote {
        self.0.vote(event)
    }
}

/// A predicate of your own that can be combined. Negating it negates its answer for every notification, deletions
/// included: look at what the notification is.
pub fn when<P>(predicate: P) -> When<P> {
    When(predicate)
}

/// Everything passes.
pub fn any() -> When<Any> {
    When(Any)
}

/// Updates pass if `metadata.generation` has changed, which the server raises when the spec changes; so a controller
/// does not wake itself by writing a status.
///
/// It also passes:
///
/// - an update that asks for the deletion of an object: `deletionTimestamp` does not raise the generation of every
///   kind, and a controller that misses it never removes its finalizer (B163);
/// - an update to another incarnation (another uid): the two generations have nothing to do with one another;
/// - updates of objects without a generation, such as ConfigMaps: it would drop all of them, and the controller would
///   be deaf;
/// - what is added or deleted.
///
/// A resync changes nothing, and is dropped.
pub fn generation_changed() -> When<GenerationChanged> {
    When(GenerationChanged)
}

/// Updates pass if the `resourceVersion` has changed, or the uid; so a resync is dropped. What is added or deleted
/// passes.
pub fn resource_version_changed() -> When<ResourceVersionChanged> {
    When(ResourceVersionChanged)
}

/// See [`any`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Any;

/// See [`generation_changed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenerationChanged;

/// See [`resource_version_changed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceVersionChanged;

/// See [`When::and`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct And<P, Q>(P, Q);

/// See [`When::or`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Or<P, Q>(P, Q);

/// See [`When::not`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Not<P>(P);

impl<T> Predicate<T> for Any {
    fn passes(&self, _: &Notification<T>) -> bool {
        true
    }
}

impl<T: Object> Predicate<T> for GenerationChanged {
    fn passes(&self, event: &Notification<T>) -> bool {
        self.vote(event) != Vote::Drop
    }

    fn vote(&self, event: &Notification<T>) -> Vote {
        let Notification::Updated { old, new, cause } = event else { return Vote::Abstain };
        if *cause == Cause::Resync {
            return Vote::Drop;
        }
        let (before, after) = (old.metadata(), new.metadata());
        if old.uid() != new.uid() || (after.is_terminating() && !before.is_terminating()) {
            return Vote::Abstain;
        }
        match (before.generation(), after.generation()) {
            (Some(before), Some(after)) => Vote::of(before != after),
            (None, _) | (_, None) => Vote::Abstain,
        }
    }
}

impl<T: Send + Sync + 'static> Predicate<T> for ResourceVersionChanged {
    fn passes(&self, event: &Notification<T>) -> bool {
        self.vote(event) != Vote::Drop
    }

    fn vote(&self, event: &Notification<T>) -> Vote {
        match event {
            Notification::Updated { old, new, .. } if old.uid() == new.uid() => {
                Vote::of(old.version() != new.version())
            }
            Notification::Updated { .. } | Notification::Added { .. } | Notification::Deleted { .. } => Vote::Abstain,
        }
    }
}

impl<T, P: Predicate<T>, Q: Predicate<T>> Predicate<T> for And<P, Q> {
    fn passes(&self, event: &Notification<T>) -> bool {
        self.vote(event) != Vote::Drop
    }

    fn vote(&self, event: &Notification<T>) -> Vote {
        match self.0.vote(event) {
            Vote::Drop => Vote::Drop,
            Vote::Pass => self.1.vote(event),
            Vote::Abstain if self.1.vote(event) == Vote::Drop => Vote::Drop,
            Vote::Abstain => Vote::Abstain,
        }
    }
}

impl<T, P: Predicate<T>, Q: Predicate<T>> Predicate<T> for Or<P, Q> {
    fn passes(&self, event: &Notification<T>) -> bool {
        self.vote(event) != Vote::Drop
    }

    fn vote(&self, event: &Notification<T>) -> Vote {
        match self.0.vote(event) {
            Vote::Pass => Vote::Pass,
            Vote::Drop => self.1.vote(event),
            Vote::Abstain if self.1.vote(event) == Vote::Pass => Vote::Pass,
            Vote::Abstain => Vote::Abstain,
        }
    }
}

impl<T, P: Predicate<T>> Predicate<T> for Not<P> {
    fn passes(&self, event: &Notification<T>) -> bool {
        self.vote(event) != Vote::Drop
    }

    fn vote(&self, event: &Notification<T>) -> Vote {
        match self.0.vote(event) {
            Vote::Pass => Vote::Drop,
            Vote::Drop => Vote::Pass,
            Vote::Abstain => Vote::Abstain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{DynamicObject, Key, Obj, Resource, Uid, Version};

    type Event = Notification<DynamicObject>;

    fn object(uid: &str, version: &str, metadata: &str) -> Obj<DynamicObject> {
        let json = std::format!(r#"{{"metadata": {{{metadata}}}}}"#);
        let resource = Resource::namespaced("example.com", "v1", "widgets", "Widget");
        let value = DynamicObject::decode(json.as_bytes(), &resource).unwrap();
        Obj::new(Key::new("ns", "a"), Uid::new(uid), Version::new(version), value)
    }

    fn update(old: &str, new: &str) -> Event {
        Notification::Updated { old: object("u", "1", old), new: object("u", "2", new), cause: Cause::Watch }
    }

    fn resync(metadata: &str) -> Event {
        let old = object("u", "1", metadata);
        Notification::Updated { old: old.clone(), new: old, cause: Cause::Resync }
    }

    fn recreated() -> Event {
        let generation = r#""generation": 1"#;
        Notification::Updated {
            old: object("u", "1", generation),
            new: object("v", "9", generation),
            cause: Cause::Relist,
        }
    }

    fn added() -> Event {
        Notification::Added { object: object("u", "1", ""), initial: true, cause: Cause::List }
    }

    fn deleted() -> Event {
        let old = object("u", "1", "");
        Notification::Deleted { object: old.clone(), old, cause: Cause::Relist, final_state_known: false }
    }

    const ONE: &str = r#""generation": 1"#;
    const TWO: &str = r#""generation": 2"#;
    const ENDING: &str = r#""generation": 1, "deletionTimestamp": "2026-01-01T00:00:00Z""#;

    #[test]
    fn b163_the_generation_predicate_lets_deletions_through() {
        let predicate = generation_changed();
        for (event, passes) in [
            (update(ONE, TWO), true),
            (update(ONE, ONE), false),
            (update(ONE, ENDING), true),
            (update(ENDING, ENDING), false),
            (update("", ""), true),
            (update("", ONE), true),
            (recreated(), true),
            (resync(ONE), false),
            (resync(""), false),
            (resync(ENDING), false),
            (added(), true),
            (deleted(), true),
        ] {
            assert_eq!(predicate.passes(&event), passes, "{event:?}");
        }
    }

    #[test]
    fn the_version_predicate_drops_what_has_not_changed() {
        let predicate = resource_version_changed();
        for (event, passes) in
            [(update(ONE, ONE), true), (resync(ONE), false), (recreated(), true), (added(), true), (deleted(), true)]
        {
            assert_eq!(predicate.passes(&event), passes, "{event:?}");
        }
    }

    #[test]
    fn a_negated_change_predicate_still_hears_of_adds_and_deletes() {
        let status_only = generation_changed().not().and(resource_version_changed());
        for (event, passes) in [
            (update(ONE, ONE), true),
            (update(ONE, TWO), false),
            (update(ONE, ENDING), true),
            (resync(ONE), false),
            (added(), true),
            (deleted(), true),
        ] {
            assert_eq!(status_only.passes(&event), passes, "{event:?}");
        }
    }

    #[test]
    fn a_negated_closure_is_negated_for_everything() {
        let deletes = |event: &Event| matches!(event, Notification::Deleted { .. });
        assert!(deletes.passes(&deleted()) && !deletes.passes(&added()));
        assert!(!when(deletes).not().passes(&deleted()) && when(deletes).not().passes(&added()));
        assert!(any().passes(&added()) && !any().not().passes(&added()));
    }

    #[test]
    fn combinations_follow_the_laws_of_de_morgan() {
        struct Always(Vote);
        impl<T> Predicate<T> for Always {
            fn passes(&self, _: &Notification<T>) -> bool {
                self.0 != Vote::Drop
            }
            fn vote(&self, _: &Notification<T>) -> Vote {
                self.0
            }
        }
        const ALL: [Vote; 3] = [Vote::Pass, Vote::Drop, Vote::Abstain];
        let event = added();
        for (a, b) in ALL.iter().flat_map(|a| ALL.iter().map(move |b| (*a, *b))) {
            let (p, q) = (|| when(Always(a)), || when(Always(b)));
            assert_eq!(p().and(q()).not().vote(&event), p().not().or(q().not()).vote(&event), "{a:?} {b:?}");
            assert_eq!(p().and(q()).vote(&event), q().and(p()).vote(&event), "{a:?} {b:?}");
            assert_eq!(p().or(q()).vote(&event), q().or(p()).vote(&event), "{a:?} {b:?}");
            assert_eq!(p().not().not().vote(&event), a);
            // One that drops decides an `and`, one that passes decides an `or`, whatever the other says.
            assert_eq!(p().and(q()).passes(&event), a != Vote::Drop && b != Vote::Drop);
            assert!(p().or(q()).passes(&event) || a == Vote::Drop && b == Vote::Drop);
        }
    }
}
