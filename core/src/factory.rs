//! [`Registry`]: one informer per type and scope, however often it is asked for.
//!
//! Two controllers that ask for the same pods must share one list, one watch and one cache (B135). If they ask with
//! different options, one of them would silently get what it did not ask for, as in client-go (trap 77); here that is
//! an error which names the option. What an informer is, and when it starts, is the runtime's matter: the registry keeps
//! whatever handle it is given.
//!
//! ```
//! use informer_core::factory::{Fingerprint, Registry, Scope};
//! use informer_core::informer::InformerConfig;
//! use informer_core::{DynamicObject, Resource};
//!
//! let mut registry = Registry::new();
//! let mut config = InformerConfig::new(Resource::namespaced("", "v1", "pods", "Pod"));
//! config.reflector.label_selector = Some("tier=web, app=shop".into());
//! let first = registry
//!     .get_or_insert::<DynamicObject>(Scope::of(&config.reflector), Fingerprint::of(&config), || "the informer")
//!     .unwrap();
//! assert_eq!(*first, "the informer");
//!
//! // The same selection, written another way; but now it must be strict.
//! config.reflector.label_selector = Some("app=shop,tier=web".into());
//! config.strict_decode = true;
//! let error = registry
//!     .get_or_insert::<DynamicObject>(Scope::of(&config.reflector), Fingerprint::of(&config), || "another one")
//!     .unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "there is an informer of pods with labels \"app=shop,tier=web\" already, with another \"strict decode\": it has \
//!      false, and true is asked for; ask for it with the same options, or use another factory"
//! );
//! ```

use crate::informer::InformerConfig;
use crate::object::Resource;
use crate::reflector::ReflectorConfig;
use crate::reflector::failure::subject;
use crate::selector::{FieldSelector, LabelSelector};
use alloc::collections::BTreeMap;
use alloc::collections::btree_map;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::any::TypeId;
use core::fmt;

/// What an informer reads: two with equal scopes would read the same.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub struct Scope {
    /// The collection.
    pub resource: Resource,
    /// One namespace, or all.
    pub namespace: Option<String>,
    /// Label selector, with its requirements in one order.
    pub label_selector: Option<String>,
    /// Field selector, with its requirements in one order.
    pub field_selector: Option<String>,
}

impl Scope {
    /// The scope of a configuration. What means the same becomes equal: selectors are written in one way, an empty text
    /// selects everything, and a cluster-scoped resource has no namespace. A selector that cannot be read stays as it is.
    pub fn of(config: &ReflectorConfig) -> Self {
        let namespace = config.namespace.clone().filter(|text| config.resource.namespaced && !text.is_empty());
        let labels = config.label_selector.as_ref();
        let fields = config.field_selector.as_ref();
        Scope {
            resource: config.resource.clone(),
            namespace,
            label_selector: labels
                .map(|text| text.parse().map_or_else(|_| text.clone(), |read: LabelSelector| read.to_string()))
                .filter(|text| !text.is_empty()),
            field_selector: fields
                .map(|text| text.parse().map_or_else(|_| text.clone(), |read: FieldSelector| read.to_string()))
                .filter(|text| !text.is_empty()),
        }
    }
}

impl fmt::Display for Scope {
    /// As in `pods in namespace "web" with labels "app=shop"`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&subject(&self.resource, self.namespace.as_deref()))?;
        if let Some(labels) = &self.label_selector {
            write!(f, " with labels {labels:?}")?;
        }
        if let Some(fields) = &self.field_selector {
            write!(f, " with fields {fields:?}")?;
        }
        Ok(())
    }
}

/// The options of an informer that must agree when it is shared, as name and value.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Fingerprint(BTreeMap<&'static str, String>);

impl Fingerprint {
    /// The options of a configuration: all of it that is not the [`Scope`].
    pub fn of(config: &InformerConfig) -> Self {
        // What it begins with is no way to go on.
        let InformerConfig { reflector, strict_decode, queue, in_flight_bytes, min_resync, preloaded: _, fed } = config;
        let ReflectorConfig {
            resource: _,
            namespace: _,
            label_selector: _,
            field_selector: _,
            strategy,
            page_size,
            min_watch_timeout,
            limits,
            tuning,
        } = reflector;
        Fingerprint::default()
            .with("source", if *fed { "fed by hand" } else { "a server" })
            .with("strict decode", strict_decode)
            .with("queue", queue)
            .with("list strategy", format_args!("{strategy:?}"))
            .with("page size", page_size)
            .with("watch timeout", format_args!("{min_watch_timeout:?}"))
            .with("limits", format_args!("{limits:?}"))
            .with("bytes in flight", in_flight_bytes)
            .with("least resync", format_args!("{min_resync:?}"))
            .with("tuning", format_args!("{tuning:?}"))
    }

    /// Adds an option of the runtime, as in the resync period or the name of the transform. The last value of a name
    /// counts.
    #[must_use]
    pub fn with(mut self, option: &'static str, value: impl fmt::Display) -> Self {
        self.0.insert(option, value.to_string());
        self
    }

    /// The first option, in the order of their names, that differs; a missing one differs from any.
    fn difference(&self, other: &Fingerprint) -> Option<(&'static str, String, String)> {
        let names = self.0.keys().chain(other.0.keys());
        let value = |of: &Fingerprint, name| of.0.get(name).cloned().unwrap_or_else(|| "none".to_string());
        let mut differing: Vec<_> = names.filter(|name| self.0.get(*name) != other.0.get(*name)).copied().collect();
        differing.sort_unstable();
        differing.first().map(|name| (*name, value(self, name), value(other, name)))
    }
}

/// An informer was asked for with other options than it has. It goes on as it is.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Conflict {
    /// Which informer, as its [`Scope`] prints.
    pub informer: String,
    /// The option that differs.
    pub option: &'static str,
    /// What the informer has.
    pub has: String,
    /// What was asked for.
    pub asked: String,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Conflict { informer, option, has, asked } = self;
        write!(
            f,
            "there is an informer of {informer} already, with another {option:?}: it has {has}, and {asked} is asked for; \
             ask for it with the same options, or use another factory"
        )
    }
}

impl fmt::Debug for Conflict {
    /// The text of Display: `main` prints errors so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for Conflict {}

/// The informers of one factory, each with a handle of type `V`.
///
/// The type of the cached objects is part of the key: one collection that is read as two types is two informers.
pub struct Registry<V>(BTreeMap<(Scope, TypeId), Entry<V>>);

struct Entry<V> {
    options: Fingerprint,
    handle: V,
}

impl<V> Default for Registry<V> {
    fn default() -> Self {
        Registry(BTreeMap::new())
    }
}

impl<V> Registry<V> {
    /// Without informers.
    pub fn new() -> Self {
        Self::default()
    }

    /// The informer of `T` in `scope`: the one that is there, or what `make` makes.
    ///
    /// # Errors
    ///
    /// If there is one with other options. `make` is not called then, and nothing changes.
    pub fn get_or_insert<T: 'static>(
        &mut self,
        scope: Scope,
        options: Fingerprint,
        make: impl FnOnce() -> V,
    ) -> Result<&mut V, Conflict> {
        match self.0.entry((scope, TypeId::of::<T>())) {
            btree_map::Entry::Vacant(vacant) => Ok(&mut vacant.insert(Entry { options, handle: make() }).handle),
            btree_map::Entry::Occupied(occupied) => match occupied.get().options.difference(&options) {
                None => Ok(&mut occupied.into_mut().handle),
                Some((option, has, asked)) => {
                    let informer = occupied.key().0.to_string();
                    Err(Conflict { informer, option, has, asked })
                }
            },
        }
    }

    /// The informer of `T` in `scope`, if there is one.
    pub fn get<T: 'static>(&self, scope: &Scope) -> Option<&V> {
        self.0.get(&(scope.clone(), TypeId::of::<T>())).map(|entry| &entry.handle)
    }

    /// The same, to be changed.
    pub fn get_mut<T: 'static>(&mut self, scope: &Scope) -> Option<&mut V> {
        self.0.get_mut(&(scope.clone(), TypeId::of::<T>())).map(|entry| &mut entry.handle)
    }

    /// Takes an informer out: asked for again, it is made anew, with any options (B060).
    pub fn remove<T: 'static>(&mut self, scope: &Scope) -> Option<V> {
        self.0.remove(&(scope.clone(), TypeId::of::<T>())).map(|entry| entry.handle)
    }

    /// The informers, in the order of their scopes.
    pub fn iter(&self) -> impl Iterator<Item = (&Scope, &V)> {
        self.0.iter().map(|((scope, _), entry)| (scope, &entry.handle))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<V> fmt::Debug for Registry<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|(scope, _)| format!("{scope}"))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fifo::QueueKind;
    use crate::reflector::ListStrategy;

    fn config() -> InformerConfig {
        InformerConfig::new(Resource::namespaced("", "v1", "pods", "Pod"))
    }

    #[test]
    fn the_same_type_and_scope_is_one_informer_and_make_runs_once() {
        let mut registry = Registry::new();
        let mut made = 0;
        for _ in 0..3 {
            let handle = registry
                .get_or_insert::<u8>(Scope::of(&config().reflector), Fingerprint::of(&config()), || {
                    made += 1;
                    made
                })
                .unwrap();
            assert_eq!(*handle, 1);
        }
        assert_eq!((made, registry.len()), (1, 1));
    }

    #[test]
    fn another_type_namespace_or_selection_is_another_informer() {
        let mut registry = Registry::new();
        let changes: [fn(&mut ReflectorConfig); 4] = [
            |_| {},
            |config| config.namespace = Some("web".into()),
            |config| config.label_selector = Some("app=a".into()),
            |config| config.field_selector = Some("spec.nodeName=n".into()),
        ];
        for change in changes {
            let mut config = config();
            change(&mut config.reflector);
            let scope = Scope::of(&config.reflector);
            registry.get_or_insert::<u8>(scope.clone(), Fingerprint::of(&config), || "u8").unwrap();
            registry.get_or_insert::<u16>(scope.clone(), Fingerprint::of(&config), || "u16").unwrap();
            assert_eq!((registry.get::<u8>(&scope), registry.get::<u16>(&scope)), (Some(&"u8"), Some(&"u16")));
        }
        assert_eq!((registry.len(), registry.iter().count()), (8, 8));
        assert_eq!(format!("{registry:?}").matches("pods").count(), 8, "{registry:?} names them all");
    }

    /// B135: what means the same is the same.
    #[test]
    fn a_scope_is_written_in_one_way() {
        let scope = |change: fn(&mut ReflectorConfig)| {
            let mut config = config().reflector;
            change(&mut config);
            Scope::of(&config)
        };
        assert_eq!(
            scope(|config| config.label_selector = Some("b in (y, x), a==1".into())),
            scope(|config| config.label_selector = Some("a=1,b in (x,y)".into()))
        );
        let empty = scope(|config| {
            config.namespace = Some("".into());
            config.label_selector = Some("".into());
            config.field_selector = Some("".into());
        });
        assert_eq!(empty, scope(|_| {}));
        assert_eq!(scope(|config| config.label_selector = Some("=".into())).label_selector.unwrap(), "=");
        let mut nodes = ReflectorConfig::new(Resource::cluster("", "v1", "nodes", "Node"));
        let everywhere = Scope::of(&nodes);
        nodes.namespace = Some("web".into());
        assert_eq!(Scope::of(&nodes), everywhere, "a node has no namespace (B098)");
        let whole = scope(|config| {
            config.namespace = Some("web".into());
            config.label_selector = Some("a".into());
            config.field_selector = Some("metadata.name=x".into());
        });
        assert_eq!(whole.to_string(), r#"pods in namespace "web" with labels "a" with fields "metadata.name=x""#);
    }

    /// Trap 77.
    #[test]
    fn other_options_are_an_error_that_names_the_informer_and_the_option() {
        type Change = fn(&mut InformerConfig);
        let changes: [(&str, Change); 10] = [
            ("source", |config| config.fed = true),
            ("queue", |config| config.queue = QueueKind::DeltaFifo),
            ("strict decode", |config| config.strict_decode = true),
            ("list strategy", |config| config.reflector.strategy = ListStrategy::Paged),
            ("page size", |config| config.reflector.page_size = 7),
            ("watch timeout", |config| config.reflector.min_watch_timeout = core::time::Duration::from_secs(9)),
            ("limits", |config| config.reflector.limits.depth = 9),
            ("bytes in flight", |config| config.in_flight_bytes = 9),
            ("least resync", |config| config.min_resync = core::time::Duration::from_secs(9)),
            ("tuning", |config| config.reflector.tuning.pages = 9),
        ];
        let (scope, options) = (Scope::of(&config().reflector), Fingerprint::of(&config()));
        for (option, change) in changes {
            let mut registry = Registry::new();
            registry.get_or_insert::<u8>(scope.clone(), options.clone(), || 1).unwrap();
            let mut other = config();
            change(&mut other);
            let error = registry
                .get_or_insert::<u8>(scope.clone(), Fingerprint::of(&other), || panic!("there is one"))
                .unwrap_err();
            assert_eq!((error.option, error.informer.as_str()), (option, "pods"));
            assert_ne!(error.has, error.asked);
            assert_eq!(registry.get::<u8>(&scope), Some(&1), "it goes on as it is");
        }
    }

    #[test]
    fn options_of_a_runtime_count_too_and_a_missing_one_is_none() {
        let mut registry = Registry::new();
        let scope = Scope::of(&config().reflector);
        let resync = |period| Fingerprint::of(&config()).with("resync", period);
        registry.get_or_insert::<u8>(scope.clone(), resync("30 s"), || 1).unwrap();
        assert!(registry.get_or_insert::<u8>(scope.clone(), resync("30 s"), || 2).is_ok());
        let error = registry.get_or_insert::<u8>(scope.clone(), Fingerprint::of(&config()), || 2).unwrap_err();
        assert_eq!((error.option, error.has.as_str(), error.asked.as_str()), ("resync", "30 s", "none"));
        // Removed, it can be asked for with any options.
        assert_eq!(registry.remove::<u8>(&scope), Some(1));
        assert!(registry.is_empty() && registry.remove::<u8>(&scope).is_none());
        assert_eq!(registry.get_or_insert::<u8>(scope, resync("10 s"), || 3), Ok(&mut 3));
    }
}
