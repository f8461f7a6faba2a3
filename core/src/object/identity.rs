//! Names, incarnations and versions: [`Key`], [`Uid`], [`Version`].
//!
//! Each is generic over who holds its text. The plain name is the owned one, which a queue or a map keeps; `KeyRef`,
//! `UidRef` and `VersionRef` look at a text that lies elsewhere, mostly in an [`Obj`](super::Obj), and are copied for
//! nothing. Both kinds compare, order and hash alike.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::borrow::Borrow;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use serde::{Serialize, Serializer};

/// Namespace and name of an object, as `namespace/name`, or `name` alone if it has no namespace.
///
/// `Key` owns its text and is cloned for the cost of a counter; a [`KeyRef`] borrows it, and [`to_key`](KeyRef::to_key)
/// makes the one of the other. They hash like the text, so a map of keys is asked with `&str`.
///
/// ```
/// use informer_core::object::Key;
///
/// let key = Key::new("web", "front");
/// assert_eq!((key.namespace(), key.name(), key.as_str()), ("web", "front", "web/front"));
/// assert_eq!(Key::new("", "node-1").as_str(), "node-1");
/// assert_eq!("web/front".parse::<Key>().unwrap(), key);
/// assert!("a/b/c".parse::<Key>().is_err());
/// assert_eq!(key.borrowed().to_key(), key);
/// ```
#[derive(Clone, Copy)]
pub struct Key<S = Arc<str>>(S);

/// A [`Key`] whose text lies elsewhere.
pub type KeyRef<'a> = Key<&'a str>;

/// Namespace and name of the text of a key.
fn split(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}

impl Key {
    /// The key of `name` in `namespace`; an empty namespace means cluster-scoped.
    pub fn new(namespace: &str, name: &str) -> Self {
        if namespace.is_empty() {
            return Key(Arc::from(name));
        }
        let mut text = String::with_capacity(namespace.len() + 1 + name.len());
        text.push_str(namespace);
        text.push('/');
        text.push_str(name);
        Key(Arc::from(text))
    }

    /// The namespace, empty for a cluster-scoped object.
    pub fn namespace(&self) -> &str {
        split(&self.0).0
    }

    /// The name.
    pub fn name(&self) -> &str {
        split(&self.0).1
    }

    /// `namespace/name` or `name`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'a> KeyRef<'a> {
    /// The key that `text` is.
    pub(crate) fn of(text: &'a str) -> Self {
        Key(text)
    }

    /// The namespace, empty for a cluster-scoped object.
    pub fn namespace(self) -> &'a str {
        split(self.0).0
    }

    /// The name.
    pub fn name(self) -> &'a str {
        split(self.0).1
    }

    /// `namespace/name` or `name`.
    pub fn as_str(self) -> &'a str {
        self.0
    }

    /// The key with a text of its own, for who keeps it longer than the object. It allocates.
    pub fn to_key(self) -> Key {
        Key(Arc::from(self.0))
    }
}

impl<S: AsRef<str>> Key<S> {
    /// The same key, borrowed.
    pub fn borrowed(&self) -> KeyRef<'_> {
        Key(self.0.as_ref())
    }

    /// True if `namespace` and `name` make this key; compares without building one.
    pub fn is(&self, namespace: &str, name: &str) -> bool {
        let key = self.0.as_ref();
        if namespace.is_empty() { key == name } else { split(key) == (namespace, name) }
    }
}

impl core::str::FromStr for Key {
    type Err = KeyError;

    /// The inverse of `Display`. Unlike client-go, which lets them pass, it refuses an empty name (`""`, `"/"`,
    /// `"ns/"`) and an empty namespace before a slash (`"/n"`): no object can have them.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        let (namespace, name) = split(text);
        if name.is_empty() || name.contains('/') || (namespace.is_empty() && text.contains('/')) {
            return Err(KeyError(text.to_string()));
        }
        Ok(Key(Arc::from(text)))
    }
}

/// A text that is no key.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyError(String);

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no key: expected \"name\" or \"namespace/name\"", self.0)
    }
}

impl fmt::Debug for KeyError {
    /// The text of Display: `main` prints errors so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for KeyError {}

impl<A: AsRef<str>, B: AsRef<str>> PartialEq<Key<B>> for Key<A> {
    fn eq(&self, other: &Key<B>) -> bool {
        self.0.as_ref() == other.0.as_ref()
    }
}

impl<S: AsRef<str>> Eq for Key<S> {}

impl<A: AsRef<str>, B: AsRef<str>> PartialOrd<Key<B>> for Key<A> {
    fn partial_cmp(&self, other: &Key<B>) -> Option<Ordering> {
        Some(self.0.as_ref().cmp(other.0.as_ref()))
    }
}

impl<S: AsRef<str>> Ord for Key<S> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.as_ref().cmp(other.0.as_ref())
    }
}

impl<S: AsRef<str>> Hash for Key<S> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_ref().hash(state);
    }
}

impl<S: AsRef<str>> Borrow<str> for Key<S> {
    fn borrow(&self) -> &str {
        self.0.as_ref()
    }
}

impl<S: AsRef<str>> AsRef<str> for Key<S> {
    fn as_ref(&self) -> &str {
        self.0.as_ref()
    }
}

impl<S: AsRef<str>> fmt::Display for Key<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0.as_ref())
    }
}

/// As `Display` writes it.
impl<S: AsRef<str>> Serialize for Key<S> {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        serializer.collect_str(self)
    }
}

impl<S: AsRef<str>> fmt::Debug for Key<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_ref())
    }
}

/// The server's identity of one incarnation of an object.
///
/// A canonical UUID is kept in 16 bytes; any other text as it is. Either way it prints as it came. A [`UidRef`] borrows
/// such a text.
///
/// ```
/// use informer_core::object::{Uid, UidRef};
///
/// let uid = Uid::new("0b6c1e4d-9a2f-4c53-8f0e-1d2c3b4a5968");
/// assert_eq!(UidRef::of("0b6c1e4d-9a2f-4c53-8f0e-1d2c3b4a5968"), uid);
/// assert_eq!(uid.to_string(), "0b6c1e4d-9a2f-4c53-8f0e-1d2c3b4a5968");
/// ```
#[derive(Clone, Copy, Hash)]
pub struct Uid<S = Box<str>>(UidRepr<S>);

/// A [`Uid`] whose text, if it is no canonical UUID, lies elsewhere.
pub type UidRef<'a> = Uid<&'a str>;

#[derive(Clone, Copy, Hash)]
enum UidRepr<S> {
    Uuid([u8; 16]),
    /// Never one that the other form can hold.
    Text(S),
}

impl Uid {
    /// A uid of any form; empty if the server sent none.
    pub fn new(text: &str) -> Self {
        UidRef::of(text).to_uid()
    }
}

impl<'a> UidRef<'a> {
    /// A uid of any form; empty if the server sent none.
    pub fn of(text: &'a str) -> Self {
        Uid(parse_uuid(text).map_or(UidRepr::Text(text), UidRepr::Uuid))
    }

    pub(super) fn of_uuid(bytes: [u8; 16]) -> Self {
        Uid(UidRepr::Uuid(bytes))
    }

    pub(super) fn as_uuid(self) -> Option<[u8; 16]> {
        match self.0 {
            UidRepr::Uuid(bytes) => Some(bytes),
            UidRepr::Text(_) => None,
        }
    }

    /// The uid with a text of its own, for who keeps it longer than the object.
    pub fn to_uid(self) -> Uid {
        Uid(match self.0 {
            UidRepr::Uuid(bytes) => UidRepr::Uuid(bytes),
            UidRepr::Text(text) => UidRepr::Text(text.into()),
        })
    }
}

impl<S: AsRef<str>> Uid<S> {
    /// The same uid, borrowed.
    pub fn borrowed(&self) -> UidRef<'_> {
        Uid(match &self.0 {
            UidRepr::Uuid(bytes) => UidRepr::Uuid(*bytes),
            UidRepr::Text(text) => UidRepr::Text(text.as_ref()),
        })
    }

    /// True if the server sent none.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, UidRepr::Text(text) if text.as_ref().is_empty())
    }

    /// Gives the text to `put`, in one part or several.
    pub(super) fn print(&self, mut put: impl FnMut(&str)) {
        match &self.0 {
            UidRepr::Text(text) => put(text.as_ref()),
            UidRepr::Uuid(bytes) => {
                const DIGITS: &str = "0123456789abcdef";
                for (at, byte) in bytes.iter().enumerate() {
                    if matches!(at, 4 | 6 | 8 | 10) {
                        put("-");
                    }
                    for nibble in [byte >> 4, byte & 15] {
                        put(&DIGITS[usize::from(nibble)..][..1]);
                    }
                }
            }
        }
    }
}

/// Only the canonical form (lower case, hyphens in place), so that printing gives back the same bytes.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let text = text.as_bytes();
    if text.len() != 36 {
        return None;
    }
    let mut bytes = [0; 16];
    let mut nibbles = 0;
    for (at, &byte) in text.iter().enumerate() {
        let nibble = match byte {
            b'-' if matches!(at, 8 | 13 | 18 | 23) => continue,
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        if matches!(at, 8 | 13 | 18 | 23) {
            return None;
        }
        bytes[nibbles / 2] = bytes[nibbles / 2] << 4 | nibble;
        nibbles += 1;
    }
    Some(bytes)
}

impl<A: AsRef<str>, B: AsRef<str>> PartialEq<Uid<B>> for Uid<A> {
    fn eq(&self, other: &Uid<B>) -> bool {
        match (&self.0, &other.0) {
            (UidRepr::Uuid(a), UidRepr::Uuid(b)) => a == b,
            (UidRepr::Text(a), UidRepr::Text(b)) => a.as_ref() == b.as_ref(),
            (UidRepr::Uuid(_), UidRepr::Text(_)) | (UidRepr::Text(_), UidRepr::Uuid(_)) => false,
        }
    }
}

impl<S: AsRef<str>> Eq for Uid<S> {}

impl<S: AsRef<str>> PartialEq<str> for Uid<S> {
    /// Compares without allocating.
    fn eq(&self, other: &str) -> bool {
        *self == UidRef::of(other)
    }
}

impl<S: AsRef<str>> fmt::Display for Uid<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut written = Ok(());
        self.print(|part| written = written.and_then(|()| f.write_str(part)));
        written
    }
}

/// As the server wrote it.
impl<S: AsRef<str>> Serialize for Uid<S> {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        serializer.collect_str(self)
    }
}

impl<S: AsRef<str>> fmt::Debug for Uid<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A `resourceVersion`: a text that goes back to the server byte for byte.
///
/// It is compared by the official rule only (C1, C2): a decimal without leading zeros, of any length, orders by
/// length and then by bytes. Anything else (`""`, `"0"`, `"007"`, `"abc"`) equals itself and orders with nothing.
///
/// `Version` owns its text; a [`VersionRef`] borrows it.
///
/// ```
/// use informer_core::object::{Version, VersionRef};
/// use core::cmp::Ordering;
///
/// assert_eq!(Version::new("9").compare(&Version::new("10")), Some(Ordering::Less));
/// let long = Version::new("340282366920938463463374607431768211456");
/// assert_eq!(long.compare(&VersionRef::of("10")), Some(Ordering::Greater));
/// assert_eq!(Version::new("007").compare(&Version::new("7")), None);
/// ```
#[derive(Clone, Copy)]
pub struct Version<S = Box<str>>(S);

/// A [`Version`] whose text lies elsewhere.
pub type VersionRef<'a> = Version<&'a str>;

impl Version {
    /// A version of any form; empty if the server sent none.
    pub fn new(text: &str) -> Self {
        Version(text.into())
    }

    /// The text as it came.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'a> VersionRef<'a> {
    /// A version of any form; empty if the server sent none.
    pub fn of(text: &'a str) -> Self {
        Version(text)
    }

    /// The text as it came.
    pub fn as_str(self) -> &'a str {
        self.0
    }

    /// The version with a text of its own, for who keeps it longer than the object. It allocates.
    pub fn to_version(self) -> Version {
        Version(self.0.into())
    }
}

impl Version<String> {
    /// Becomes another version, in the memory that it has.
    pub(crate) fn set(&mut self, version: VersionRef<'_>) {
        self.0.clear();
        self.0.push_str(version.0);
    }
}

impl<S: AsRef<str>> Version<S> {
    /// The same version, borrowed.
    pub fn borrowed(&self) -> VersionRef<'_> {
        Version(self.0.as_ref())
    }

    /// True if the server sent none.
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().is_empty()
    }

    /// True for `""` and `"0"`, which ask for any state and name none.
    pub fn is_unset(&self) -> bool {
        matches!(self.0.as_ref(), "" | "0")
    }

    /// The order of two versions of one resource, if both are well-formed.
    pub fn compare<O: AsRef<str>>(&self, other: &Version<O>) -> Option<Ordering> {
        if self == other {
            return Some(Ordering::Equal);
        }
        let (a, b) = (self.0.as_ref(), other.0.as_ref());
        (self.is_decimal() && other.is_decimal()).then(|| a.len().cmp(&b.len()).then_with(|| a.cmp(b)))
    }

    /// True if both are well-formed and `self` is the smaller one.
    pub fn is_before<O: AsRef<str>>(&self, other: &Version<O>) -> bool {
        self.compare(other) == Some(Ordering::Less)
    }

    /// True if it is a decimal number without leading zeros, and so can be compared with others (C1).
    pub fn is_decimal(&self) -> bool {
        let bytes = self.0.as_ref().as_bytes();
        bytes.first().is_some_and(|first| (b'1'..=b'9').contains(first)) && bytes.iter().all(u8::is_ascii_digit)
    }
}

impl<A: AsRef<str>, B: AsRef<str>> PartialEq<Version<B>> for Version<A> {
    fn eq(&self, other: &Version<B>) -> bool {
        self.0.as_ref() == other.0.as_ref()
    }
}

impl<S: AsRef<str>> Eq for Version<S> {}

impl<S: AsRef<str>> PartialEq<str> for Version<S> {
    fn eq(&self, other: &str) -> bool {
        self.0.as_ref() == other
    }
}

impl<S: AsRef<str>> Hash for Version<S> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_ref().hash(state);
    }
}

impl<S: From<&'static str>> Default for Version<S> {
    /// The version that a server did not send.
    fn default() -> Self {
        Version("".into())
    }
}

impl<S: AsRef<str>> AsRef<str> for Version<S> {
    fn as_ref(&self) -> &str {
        self.0.as_ref()
    }
}

impl<S: AsRef<str>> fmt::Display for Version<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0.as_ref())
    }
}

/// As the server wrote it.
impl<S: AsRef<str>> Serialize for Version<S> {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        serializer.collect_str(self)
    }
}

impl<S: AsRef<str>> fmt::Debug for Version<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_patch_names_is_written_as_the_server_wrote_it() {
        for uid in ["0b6c1e4d-9a2f-4c53-8f0e-1d2c3b4a5968", "u-1", ""] {
            assert_eq!(serde_json::to_value(Uid::new(uid)).unwrap(), uid);
        }
        assert_eq!(serde_json::to_value(VersionRef::of("007")).unwrap(), "007");
        assert_eq!(
            serde_json::to_value([Key::new("ns", "a"), Key::new("", "b")]).unwrap(),
            serde_json::json!(["ns/a", "b"])
        );
    }

    #[test]
    fn keys_split_and_join() {
        for text in ["n", "ns/n"] {
            let key: Key = text.parse().unwrap();
            assert_eq!(Key::new(key.namespace(), key.name()), key);
            assert_eq!(key.to_string(), text);
            assert!(key.is(key.namespace(), key.name()));
        }
        for text in ["", "/", "ns/", "/n", "a/b/c"] {
            assert_eq!(text.parse::<Key>(), Err(KeyError(text.into())));
        }
        assert!(!Key::new("a", "b").is("", "a/c"));
    }

    #[test]
    fn uids_print_as_they_came() {
        for text in [
            "0b6c1e4d-9a2f-4c53-8f0e-1d2c3b4a5968",
            "0B6C1E4D-9A2F-4C53-8F0E-1D2C3B4A5968",
            "0b6c1e4d99a2f-4c53-8f0e-1d2c3b4a5968",
            "uid-a",
            "",
        ] {
            let uid = Uid::new(text);
            assert_eq!(uid.to_string(), text);
            assert!(uid == *text);
            assert!(uid != *"other");
        }
        assert!(Uid::new("").is_empty());
        assert!(core::mem::size_of::<Uid>() <= 24);
    }

    #[test]
    fn versions_compare_by_the_official_rule() {
        let v = Version::new;
        assert!(v("9").is_before(&v("10")));
        assert!(!v("10").is_before(&v("9")));
        assert!(!v("10").is_before(&v("10")));
        for odd in ["", "0", "007", "abc", "1a", "-1"] {
            assert_eq!(v(odd).compare(&v("5")), None, "{odd}");
            assert_eq!(v(odd).compare(&v(odd)), Some(Ordering::Equal));
        }
        assert!(v("").is_unset() && v("0").is_unset() && !v("1").is_unset());
    }

    #[test]
    fn owned_and_borrowed_are_the_same() {
        let hash = |value: &dyn Fn(&mut std::hash::DefaultHasher)| {
            let mut hasher = std::hash::DefaultHasher::new();
            value(&mut hasher);
            hasher.finish()
        };
        let (key, other) = (Key::new("web", "a"), Key::new("web", "b"));
        assert!(key == key.borrowed() && key.borrowed() == key && key != other.borrowed());
        assert!(key < other.borrowed() && other.borrowed() > key && key.borrowed() < other.borrowed());
        let hashes = [hash(&|h| key.hash(h)), hash(&|h| key.borrowed().hash(h)), hash(&|h| "web/a".hash(h))];
        assert!(hashes.iter().all(|one| *one == hashes[0]), "a map of keys is asked with a text");
        assert_eq!(std::collections::HashMap::from([(key, 1)]).get("web/a"), Some(&1));

        for text in ["0b6c1e4d-9a2f-4c53-8f0e-1d2c3b4a5968", "uid-a", ""] {
            let uid = Uid::new(text);
            assert!(uid == uid.borrowed() && uid.borrowed().to_uid() == UidRef::of(text));
            assert_eq!(hash(&|h| uid.hash(h)), hash(&|h| uid.borrowed().hash(h)));
        }
        let mut version = Version(String::from("9"));
        version.set(VersionRef::of("10"));
        assert!(version == Version::new("10") && version.borrowed() == VersionRef::of("10"));
        assert!(VersionRef::of("9").is_before(&version) && version.borrowed().to_version() == version);
    }
}
