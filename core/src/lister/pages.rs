//! [`View`]: the objects of a list at one instant, sorted by key; [`Page`]: a piece of it.
//!
//! A view holds handles of its own: the store goes on as if it were not there. Sorting costs once per view, however many
//! clients read their pages of it. A client that comes back with a [`PageToken`] of a view that is gone gets what follows
//! its key in another one, and is told so: an object may then be missing that came before the key meanwhile, and one that
//! it has seen may be gone. Nothing is given twice.
//!
//! ```
//! use informer_core::lister::{ListId, Lister, PageToken, View};
//! use informer_core::selector::LabelSelector;
//! use informer_core::store::Store;
//! use informer_core::{Key, Obj, Uid, Version};
//!
//! let mut store = Store::<u32>::new(7);
//! let put = |store: &mut Store<u32>, name: &str| {
//!     store.upsert(Obj::new(Key::new("web", name), Uid::new("u"), Version::new("1"), 0));
//! };
//! ["c", "a", "d", "b"].iter().for_each(|name| put(&mut store, name));
//!
//! let list = ListId::new("widgets", "web", &LabelSelector::everything());
//! let view = |store: &Store<u32>, id| {
//!     let objects = Lister::new(store).select_namespace("web").detach().into_objects().into_vec();
//!     View::new(list, id, store.version().to_version(), objects)
//! };
//! let names = |objects: &[Obj<u32>]| objects.iter().map(|o| o.key().name().to_string()).collect::<Vec<_>>();
//!
//! let first = view(&store, 1);
//! let page = first.page(2, None).unwrap();
//! assert_eq!((names(&page.objects), page.remaining), (vec!["a".to_string(), "b".to_string()], 2));
//! let kept: String = page.next.unwrap().to_string(); // the client keeps it
//!
//! put(&mut store, "bb");
//! let token: PageToken = kept.parse().unwrap();
//! let page = first.page(2, Some(&token)).unwrap();
//! assert_eq!((names(&page.objects), page.moved), (vec!["c".to_string(), "d".to_string()], false));
//!
//! let page = view(&store, 2).page(2, Some(&token)).unwrap(); // the first view was not kept
//! assert_eq!((names(&page.objects), page.moved), (vec!["bb".to_string(), "c".to_string()], true));
//! ```

use super::token::{ListId, PageToken, TokenError};
use crate::object::{Obj, Version};
use alloc::vec::Vec;
use core::fmt;

/// The objects of a list at one instant, sorted by the text of their keys: namespace by namespace, as the server lists
/// them.
pub struct View<T> {
    list: ListId,
    id: u64,
    version: Version,
    objects: Vec<Obj<T>>,
}

/// A piece of a [`View`].
#[non_exhaustive]
pub struct Page<T> {
    /// The objects, sorted by key.
    pub objects: Vec<Obj<T>>,
    /// Leads to the next page; `None` at the end.
    pub next: Option<PageToken>,
    /// How many objects follow this page.
    pub remaining: usize,
    /// The version that the cache stood for.
    pub version: Version,
    /// True if the token was of another snapshot, which nobody holds any more: this page is of a later one.
    pub moved: bool,
}

impl<T> View<T> {
    /// Sorts `objects`: costs n log n, and belongs under no lock. `id` tells this snapshot from all others of this list;
    /// `version` is what the store stood for.
    pub fn new(list: ListId, id: u64, version: Version, mut objects: Vec<Obj<T>>) -> Self {
        objects.sort_unstable_by(|a, b| Obj::key_bytes(a).cmp(Obj::key_bytes(b)));
        View { list, id, version, objects }
    }

    /// What tells this snapshot from others.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// All objects, sorted by key.
    pub fn objects(&self) -> &[Obj<T>] {
        &self.objects
    }

    /// At most `limit` objects (0: all) that follow what a token stands for, or the first ones.
    ///
    /// # Errors
    ///
    /// If the token is of another list.
    pub fn page(&self, limit: usize, after: Option<&PageToken>) -> Result<Page<T>, TokenError> {
        let Some(token) = after else { return Ok(self.cut(limit, 0)) };
        if token.list() != self.list {
            return Err(TokenError::OtherList);
        }
        let from = self.objects.partition_point(|object| Obj::key_bytes(object) <= token.after().as_bytes());
        Ok(Page { moved: token.snapshot() != self.id, ..self.cut(limit, from) })
    }

    /// All pages of at most `limit` objects (0: one page with all). There is one at least.
    pub fn pages(&self, limit: usize) -> impl Iterator<Item = Page<T>> {
        let mut next = Some(0);
        core::iter::from_fn(move || {
            let from = next.take()?;
            let page = self.cut(limit, from);
            next = page.next.is_some().then(|| from + page.objects.len());
            Some(page)
        })
    }

    fn cut(&self, limit: usize, from: usize) -> Page<T> {
        let rest = &self.objects[from..];
        let len = if limit == 0 { rest.len() } else { limit.min(rest.len()) };
        let (objects, remaining) = (rest[..len].to_vec(), rest.len() - len);
        let last = objects.last().filter(|_| remaining > 0);
        let next = last.map(|last| PageToken::new(self.list, self.id, last.key().as_str()));
        Page { objects, next, remaining, version: self.version.clone(), moved: false }
    }
}

impl<T> fmt::Debug for View<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sorted view of {} objects at version {:?}", self.len(), self.version)
    }
}

impl<T> fmt::Debug for Page<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page of {} objects, {} follow", self.objects.len(), self.remaining)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Key, Uid};
    use crate::selector::LabelSelector;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::string::{String, ToString};

    fn view(id: u64, keys: &BTreeSet<String>) -> View<()> {
        let list = ListId::new("things", "", &LabelSelector::everything());
        // In an order that is not that of the keys.
        let object = |key: &String| Obj::new(key.parse::<Key>().unwrap(), Uid::new("u"), Version::new("1"), ());
        View::new(list, id, Version::new("9"), keys.iter().rev().map(object).collect())
    }

    fn keys(objects: &[Obj<()>]) -> Vec<String> {
        objects.iter().map(|object| object.key().to_string()).collect()
    }

    fn some_keys() -> impl Strategy<Value = BTreeSet<String>> {
        prop::collection::btree_set("(a|a-b|b)/[a-c.-]{1,3}", 0..30)
    }

    proptest! {
        #[test]
        fn pages_are_the_sorted_list_cut_in_pieces(all in some_keys(), limit in 0usize..8) {
            let view = view(1, &all);
            let (mut walked, mut token, mut pages) = (Vec::new(), None::<String>, 0);
            loop {
                let after = token.as_ref().map(|text| text.parse::<PageToken>().unwrap());
                let page = view.page(limit, after.as_ref()).unwrap();
                prop_assert!(!page.moved && (limit == 0 || page.objects.len() <= limit));
                walked.extend(keys(&page.objects));
                pages += 1;
                prop_assert_eq!(page.remaining, all.len() - walked.len());
                let Some(next) = page.next else { break };
                token = Some(next.to_string());
            }
            prop_assert_eq!(&walked, &all.iter().cloned().collect::<Vec<_>>());
            let iterated: Vec<_> = view.pages(limit).collect();
            prop_assert_eq!(iterated.len(), pages);
            prop_assert_eq!(iterated.iter().flat_map(|page| keys(&page.objects)).collect::<Vec<_>>(), walked);
        }

        #[test]
        fn a_walk_that_goes_on_in_another_snapshot_gives_nothing_twice_and_misses_nothing_that_stayed(
            before in some_keys(), after in some_keys(), limit in 1usize..8,
        ) {
            let (old, new) = (view(1, &before), view(2, &after));
            let first = old.page(limit, None).unwrap();
            let Some(token) = first.next else { return Ok(()) };
            let second = new.page(0, Some(&token)).unwrap();
            prop_assert!(second.moved && second.next.is_none());
            let (first, second) = (keys(&first.objects), keys(&second.objects));
            prop_assert!(second.iter().all(|key| *key > first[first.len() - 1]));
            let walked: BTreeSet<String> = first.iter().chain(&second).cloned().collect();
            prop_assert_eq!(walked.len(), first.len() + second.len());
            prop_assert!(before.intersection(&after).all(|key| walked.contains(key)));
        }
    }

    #[test]
    fn a_token_of_another_list_is_refused() {
        let all: BTreeSet<String> = ["a/a", "a/b"].map(String::from).into();
        let other = ListId::new("things", "a", &LabelSelector::everything());
        let token = PageToken::new(other, 1, "a/a");
        let error = view(1, &all).page(1, Some(&token)).unwrap_err();
        assert_eq!(error, TokenError::OtherList);
        assert!(error.to_string().contains("namespace and selector that it was given for"), "{error}");
    }

    #[test]
    fn a_view_of_nothing_has_one_page_of_nothing() {
        let view = view(1, &BTreeSet::new());
        assert!(view.is_empty() && view.pages(5).count() == 1);
        assert_eq!(view.page(5, None).unwrap().version, Version::new("9"));
    }
}
