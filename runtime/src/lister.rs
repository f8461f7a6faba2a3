//! [`Lister`]: reading one informer's cache, from any thread or task.
//!
//! The rules are those of [`informer_core::lister`]; here is the lock around them, taken for the look-up alone: what runs
//! code of the user's type (labels) looks at counted pointers afterwards, and of a large answer no pointer is cloned under
//! the lock.

use crate::pages::{Page, Pages, Part};
use crate::store::SharedStore;
use crate::sync::Arc;
use informer_core::lister::{Detached, Lister as CoreLister, Objects, TokenError, View};
use informer_core::selector::LabelSelector;
use informer_core::store::{IndexError, IndexValue, Snapshot, Store};
use informer_core::{Key, Obj, Object};
use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;

/// Reads a cache. Cheap to clone; it never waits for the network or for handlers, and it goes on serving the last
/// known state while the server is away.
pub struct Lister<T> {
    store: Arc<SharedStore<T>>,
    namespace: Option<String>,
}

impl<T> Clone for Lister<T> {
    fn clone(&self) -> Self {
        Lister { store: Arc::clone(&self.store), namespace: self.namespace.clone() }
    }
}

impl<T> Lister<T> {
    pub(crate) fn new(store: Arc<SharedStore<T>>) -> Self {
        Lister { store, namespace: None }
    }

    /// A lister of these objects and of no informer, to test what reads a cache: a function that takes a lister, or a
    /// reconciler by its [`Context`](crate::controller::Context). Of a key that comes twice the last object counts; the
    /// [`version`](Self::version) is empty. If none has a namespace, it is the lister of a cluster-scoped collection. For a
    /// cache that changes, or has indexes, feed an informer: see [`crate::feeder`].
    ///
    /// ```
    /// use informer_core::{Key, Obj, Uid, Version};
    /// use informer_runtime::lister::Lister;
    ///
    /// let light = |name: &str, on: bool| Obj::new(Key::new("hall", name), Uid::new(name), Version::new("1"), on);
    /// let lights = Lister::of([light("a", true), light("b", false)]);
    /// assert!(*lights.get(&Key::new("hall", "a")).unwrap());
    /// assert_eq!((lights.namespace("hall").len(), lights.namespace("cellar").len()), (2, 0));
    /// ```
    pub fn of(objects: impl IntoIterator<Item = Obj<T>>) -> Self {
        Lister::new(Arc::new(SharedStore::given(objects)))
    }

    /// The object of a key. Of a cluster-scoped collection the name alone counts, whatever namespace the key has.
    pub fn get(&self, key: &Key<impl AsRef<str>>) -> Option<Obj<T>> {
        let scope = self.scope();
        self.store.get(key).filter(|object| scope.is_empty() || object.key().namespace() == scope)
    }

    /// The object called `name`: in the lister's namespace, or cluster-scoped.
    pub fn named(&self, name: &str) -> Option<Obj<T>> {
        self.store.read(|store| CoreLister::new(store).namespace(self.scope()).get(name).cloned())
    }

    /// A lister of one namespace; `""` means all of them, as in client-go. A cluster-scoped collection has no part that is in
    /// a namespace, and is read whole: as the API and [`InformerSpec::namespace`](crate::informer::InformerSpec::namespace)
    /// do it, and because nobody is to be told that a node is gone who only looked in the wrong place.
    pub fn namespace(&self, namespace: &str) -> Self {
        let namespace = self.store.namespace(namespace).to_string();
        Lister { store: Arc::clone(&self.store), namespace: Some(namespace) }
    }

    fn scope(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    /// All objects of the lister's scope, as they are at one instant, in no fixed order.
    pub fn list(&self) -> Objects<T> {
        self.store.read(|store| self.whole(store)).into_objects()
    }

    /// The objects of the lister's scope as they are at one instant, sorted by key, in pages of at most `limit` (0: one
    /// page with all).
    ///
    /// Sorting is done by the calling thread and holds up nobody. As long as anyone has the [`Pages`], who asks for the
    /// same while nothing changed shares it.
    pub fn pages(&self, limit: usize) -> Pages<T> {
        let all = LabelSelector::everything();
        Pages::new(self.present(&self.part(&all), |store| self.whole(store)), limit)
    }

    /// The page of at most `limit` objects that follows the one that `token` came with: of the same instant if anyone
    /// still has its [`Pages`], else of the present state, and [`Page::moved`] says so.
    ///
    /// # Errors
    ///
    /// If the token cannot be read, or is of another list: it came from outside.
    pub fn page_after(&self, token: &str, limit: usize) -> Result<Page<T>, TokenError> {
        let all = LabelSelector::everything();
        self.page(&self.part(&all), token, limit, |store| self.whole(store))
    }

    fn part<'a>(&'a self, selector: &'a LabelSelector) -> Part<'a> {
        Part { namespace: self.scope(), selector }
    }

    fn whole(&self, store: &Store<T>) -> Detached<'_, T> {
        CoreLister::new(store).select_namespace(self.scope()).detach()
    }

    fn present<'a>(&self, part: &Part<'a>, select: impl FnOnce(&Store<T>) -> Detached<'a, T>) -> Arc<View<T>> {
        self.store.views.present(&self.store, part, select)
    }

    fn page<'a>(
        &self,
        part: &Part<'a>,
        token: &str,
        limit: usize,
        select: impl FnOnce(&Store<T>) -> Detached<'a, T>,
    ) -> Result<Page<T>, TokenError> {
        let token = token.parse()?;
        let view = self.store.views.of_token(part, &token)?;
        view.unwrap_or_else(|| self.present(part, select)).page(limit, Some(&token))
    }

    /// How many objects there are in the lister's scope.
    pub fn len(&self) -> usize {
        self.store.read(|store| match self.scope() {
            "" => store.len(),
            namespace => CoreLister::new(store).namespace(namespace).all().count(),
        })
    }

    /// True if there is none in the lister's scope.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The whole cache at this instant, whatever the lister's scope, without copying it.
    pub fn snapshot(&self) -> Snapshot<T> {
        self.store.snapshot()
    }

    /// The version that the cache stands for; empty before the first list.
    pub fn version(&self) -> String {
        self.store.read(|store| store.version().to_string())
    }
}

impl<T: Object> Lister<T> {
    /// The objects of the lister's scope that `selector` selects, as they are at one instant, in no fixed order.
    ///
    /// With a [label index](crate::informer::InformerHandle::label_index) on a label that it asks for, this costs the
    /// size of the answer.
    pub fn matching(&self, selector: &LabelSelector) -> Objects<T> {
        self.store.read(|store| self.selected(store, selector)).into_objects()
    }

    /// [`pages`](Self::pages) of what `selector` selects.
    pub fn pages_matching(&self, selector: &LabelSelector, limit: usize) -> Pages<T> {
        Pages::new(self.present(&self.part(selector), |store| self.selected(store, selector)), limit)
    }

    /// [`page_after`](Self::page_after), of what `selector` selects.
    ///
    /// # Errors
    ///
    /// As [`page_after`](Self::page_after); a token that was given for another selector is of another list.
    pub fn page_after_matching(
        &self,
        selector: &LabelSelector,
        token: &str,
        limit: usize,
    ) -> Result<Page<T>, TokenError> {
        self.page(&self.part(selector), token, limit, |store| self.selected(store, selector))
    }

    fn selected<'a>(&'a self, store: &Store<T>, selector: &'a LabelSelector) -> Detached<'a, T> {
        CoreLister::new(store).select(self.scope(), selector).detach()
    }
}

impl<T> fmt::Debug for Lister<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lister of {} objects", self.len())
    }
}

/// Reads one index, whose values are of type `V`. Text reads every index.
pub struct Index<T, V = String> {
    store: Arc<SharedStore<T>>,
    name: String,
    value: PhantomData<fn() -> V>,
}

impl<T, V> Clone for Index<T, V> {
    fn clone(&self) -> Self {
        Index { store: Arc::clone(&self.store), name: self.name.clone(), value: PhantomData }
    }
}

impl<T, V: IndexValue> Index<T, V> {
    pub(crate) fn new(store: Arc<SharedStore<T>>, name: String) -> Self {
        Index { store, name, value: PhantomData }
    }

    /// The name of the index.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The objects that have `value`; none if nobody has it, and none if there is no such index, or not any more:
    /// [`try_get`](Self::try_get) says so.
    pub fn get(&self, value: &V::Query) -> Objects<T> {
        self.try_get(value).unwrap_or_default()
    }

    /// The objects that have `value`.
    ///
    /// # Errors
    ///
    /// If the index was removed, or made anew with values of another type.
    pub fn try_get(&self, value: &V::Query) -> Result<Objects<T>, IndexError> {
        let text = V::to_text(value); // perhaps user code, so before the lock
        let selected =
            self.store.read(|store| Ok(CoreLister::new(store).select_value::<V>(&self.name, &text)?.detach()));
        selected.map(Detached::into_objects)
    }

    /// The keys of the objects that have `value`, sorted.
    pub fn keys(&self, value: &V::Query) -> Vec<Key> {
        let mut keys: Vec<Key> = self.get(value).iter().map(|object| object.key().to_key()).collect();
        keys.sort_unstable();
        keys
    }

    /// How many objects have `value`.
    pub fn count(&self, value: &V::Query) -> usize {
        let text = V::to_text(value);
        let count = |store: &Store<T>| {
            store.check_value_type::<V>(&self.name)?;
            Ok::<_, IndexError>(store.by_index(&self.name, &text)?.len())
        };
        self.store.read(count).unwrap_or(0)
    }

    /// The values in use, sorted; none if the index was removed. Their texts are copied while the cache is read: with as many
    /// values as objects, a change waits some milliseconds for 100,000.
    ///
    /// # Panics
    ///
    /// If `V` is a type of your own that does not read a text which it wrote.
    pub fn values(&self) -> Vec<V> {
        let texts: Result<Vec<String>, IndexError> = self.store.read(|store| {
            store.check_value_type::<V>(&self.name)?;
            Ok(store.index_values(&self.name)?.map(|(text, _)| text.to_string()).collect())
        });
        let value = |text: String| {
            V::from_text(&text).unwrap_or_else(|| {
                panic!("{} reads what it wrote (the law of IndexValue), but not {text:?}", type_name::<V>())
            })
        };
        let mut values: Vec<V> = texts.unwrap_or_default().into_iter().map(value).collect();
        values.sort_unstable();
        values
    }
}

impl<T, V> fmt::Debug for Index<T, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "index {:?}", self.name)
    }
}
