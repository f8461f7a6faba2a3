//! [`Pages`]: a list at one instant in pieces, for clients that come back with a token.
//!
//! Who holds a [`Pages`] decides how long its instant can be read: as long as it lives, its tokens lead to more of the
//! same. Nothing else holds old objects in memory. Afterwards the tokens go on in the present state, and the page says so.
//!
//! ```
//! use informer_core::{DynamicObject, Obj};
//! use informer_runtime::lister::Lister;
//! use informer_runtime::pages::Page;
//!
//! /// What a web server answers to `?after=TOKEN`.
//! fn answer(pods: &Lister<DynamicObject>, after: Option<&str>) -> Result<String, informer_runtime::Error> {
//!     let page: Page<DynamicObject> = match after {
//!         None => pods.pages(100).first(),
//!         Some(token) => pods.page_after(token, 100)?,
//!     };
//!     let mut text = String::new();
//!     if page.moved {
//!         text += "the list has changed since the last page\n";
//!     }
//!     for pod in &page.objects {
//!         text += &format!("{}\n", pod.key());
//!     }
//!     if let Some(next) = page.next {
//!         text += &format!("{} more: after={next}\n", page.remaining);
//!     }
//!     Ok(text)
//! }
//! ```

use crate::store::SharedStore;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, Weak};
use informer_core::Obj;
use informer_core::lister::{Detached, ListId, TokenError, View};
use informer_core::selector::LabelSelector;
use informer_core::store::Store;
use std::fmt;

pub use informer_core::lister::{Page, PageToken};

/// A list at one instant, sorted by key, and how many objects make a page. Cheap to clone.
pub struct Pages<T> {
    view: Arc<View<T>>,
    limit: usize,
}

impl<T> Clone for Pages<T> {
    fn clone(&self) -> Self {
        Pages { view: Arc::clone(&self.view), limit: self.limit }
    }
}

impl<T> Pages<T> {
    pub(crate) fn new(view: Arc<View<T>>, limit: usize) -> Self {
        Pages { view, limit }
    }

    /// How many objects there are on all pages together.
    pub fn len(&self) -> usize {
        self.view.len()
    }

    /// True if there is no object.
    pub fn is_empty(&self) -> bool {
        self.view.is_empty()
    }

    /// All objects, sorted by key.
    pub fn objects(&self) -> &[Obj<T>] {
        self.view.objects()
    }

    /// The first page.
    pub fn first(&self) -> Page<T> {
        self.view.page(self.limit, None).expect("no token, no fault of one")
    }

    /// The page that a token leads to. If the token is of another instant, the page is what follows its key in this one.
    ///
    /// # Errors
    ///
    /// If the token is of another list.
    pub fn after(&self, token: &PageToken) -> Result<Page<T>, TokenError> {
        self.view.page(self.limit, Some(token))
    }

    /// All pages, one at least.
    pub fn iter(&self) -> impl Iterator<Item = Page<T>> {
        self.view.pages(self.limit)
    }
}

impl<T> fmt::Debug for Pages<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pages of {} of a {:?}", self.limit, self.view)
    }
}

/// Which part of a store a list shows.
pub(crate) struct Part<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) selector: &'a LabelSelector,
}

/// The views of one store that someone holds. It holds none itself, and so there are no more than [`Pages`] alive.
pub(crate) struct Views<T> {
    /// What the store caches, in tokens.
    collection: String,
    seed: u64,
    held: Mutex<Vec<Held<T>>>,
}

struct Held<T> {
    namespace: String,
    selector: LabelSelector,
    revision: u64,
    id: u64,
    view: Weak<View<T>>,
}

/// Counts the views of all stores of the process: two stores of one factory have one seed.
static VIEWS: AtomicU64 = AtomicU64::new(0);

impl<T> Views<T> {
    pub(crate) fn new(collection: &str, seed: u64) -> Self {
        Views { collection: collection.to_string(), seed, held: Mutex::new(Vec::new()) }
    }

    /// The part as it is now: a view that someone holds, if nothing changed since.
    pub(crate) fn present<'a>(
        &self,
        store: &SharedStore<T>,
        part: &Part<'a>,
        select: impl FnOnce(&Store<T>) -> Detached<'a, T>,
    ) -> Arc<View<T>> {
        let revision = store.read(Store::revision);
        if let Some(view) = self.find(part, |held| held.revision == revision) {
            return view;
        }
        let (revision, version, selected) =
            store.read(|store| (store.revision(), store.version().to_version(), select(store)));
        let id = self.seed.wrapping_add(VIEWS.fetch_add(1, Ordering::Relaxed));
        // The user's code and the sorting: under no lock.
        let view = Arc::new(View::new(self.list(part), id, version, selected.into_objects().into_vec()));
        let (namespace, selector) = (part.namespace.to_string(), part.selector.clone());
        let mut held = self.held.lock();
        held.retain(|held| held.view.strong_count() > 0);
        held.push(Held { namespace, selector, revision, id, view: Arc::downgrade(&view) });
        view
    }

    /// The view that a token is of, if someone holds it.
    ///
    /// # Errors
    ///
    /// If the token is of another list.
    pub(crate) fn of_token(&self, part: &Part<'_>, token: &PageToken) -> Result<Option<Arc<View<T>>>, TokenError> {
        if token.list() != self.list(part) {
            return Err(TokenError::OtherList);
        }
        Ok(self.find(part, |held| held.id == token.snapshot()))
    }

    fn list(&self, part: &Part<'_>) -> ListId {
        ListId::new(&self.collection, part.namespace, part.selector)
    }

    fn find(&self, part: &Part<'_>, wanted: impl Fn(&Held<T>) -> bool) -> Option<Arc<View<T>>> {
        let held = self.held.lock();
        let same = |held: &&Held<T>| held.namespace == part.namespace && held.selector == *part.selector;
        held.iter().filter(same).filter(|held| wanted(held)).find_map(|held| held.view.upgrade())
    }
}
