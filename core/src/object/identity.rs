//! Names, incarnations and versions: [`Key`], [`Uid`], [`Version`].

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::borrow::Borrow;
use core::cmp::Ordering;
use core::fmt;

/// Namespace and name of an object, as `namespace/name`, or `name` alone if it has no namespace.
///
/// ```
/// use informer_core::object::Key;
///
/// let key = Key::new("web", "front");
/// assert_eq!((key.namespace(), key.name(), key.as_str()), ("web", "front", "web/front"));
/// assert_eq!(Key::new("", "node-1").as_str(), "node-1");
/// assert_eq!("web/front".parse::<Key>().unwrap(), key);
/// assert!("a/b/c".parse::<Key>().is_err());
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

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
        self.0.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or(&*self.0, |(_, name)| name)
    }

    /// `namespace/name` or `name`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True if `namespace` and `name` make this key; compares without building one.
    pub fn is(&self, namespace: &str, name: &str) -> bool {
        if namespace.is_empty() { &*self.0 == name } else { self.namespace() == namespace && self.name() == name }
    }
}

impl core::str::FromStr for Key {
    type Err = KeyError;

    /// The inverse of `Display`. Unlike client-go, which lets them pass, it refuses an empty name (`""`, `"/"`,
    /// `"ns/"`) and an empty namespace before a slash (`"/n"`): no object can have them.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        let (namespace, name) = text.split_once('/').unwrap_or(("", text));
        if name.is_empty() || name.contains('/') || (namespace.is_empty() && text.contains('/')) {
            return Err(KeyError(text.to_string()));
        }
        Ok(Key(Arc::from(text)))
    }
}

/// A text that is no key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyError(String);

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no key: expected \"name\" or \"namespace/name\"", self.0)
    }
}

impl core::error::Error for KeyError {}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The server's identity of one incarnation of an object.
///
/// A canonical UUID is kept in 16 bytes; any other text as it is. Either way it prints as it came.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Uid(UidRepr);

#[derive(Clone, PartialEq, Eq, Hash)]
enum UidRepr {
    Uuid([u8; 16]),
    Text(Box<str>),
}

impl Uid {
    /// A uid of any form; empty if the server sent none.
    pub fn new(text: &str) -> Self {
        Uid(match parse_uuid(text) {
            Some(bytes) => UidRepr::Uuid(bytes),
            None => UidRepr::Text(text.into()),
        })
    }

    /// True if the server sent none.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, UidRepr::Text(text) if text.is_empty())
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

impl PartialEq<str> for Uid {
    /// Compares without allocating.
    fn eq(&self, other: &str) -> bool {
        match &self.0 {
            UidRepr::Uuid(bytes) => parse_uuid(other).as_ref() == Some(bytes),
            UidRepr::Text(text) => &**text == other,
        }
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = match &self.0 {
            UidRepr::Text(text) => return f.write_str(text),
            UidRepr::Uuid(bytes) => bytes,
        };
        for (at, byte) in bytes.iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A `resourceVersion`: a text that goes back to the server byte for byte.
///
/// It is compared by the official rule only (C1, C2): a decimal without leading zeros, of any length, orders by
/// length and then by bytes. Anything else (`""`, `"0"`, `"007"`, `"abc"`) equals itself and orders with nothing.
///
/// ```
/// use informer_core::object::Version;
/// use core::cmp::Ordering;
///
/// assert_eq!(Version::new("9").compare(&Version::new("10")), Some(Ordering::Less));
/// let long = Version::new("340282366920938463463374607431768211456");
/// assert_eq!(long.compare(&Version::new("10")), Some(Ordering::Greater));
/// assert_eq!(Version::new("007").compare(&Version::new("7")), None);
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Version(Box<str>);

impl Version {
    /// A version of any form; empty if the server sent none.
    pub fn new(text: &str) -> Self {
        Version(text.into())
    }

    /// The text as it came.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True if the server sent none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True for `""` and `"0"`, which ask for any state and name none.
    pub fn is_unset(&self) -> bool {
        matches!(&*self.0, "" | "0")
    }

    /// The order of two versions of one resource, if both are well-formed.
    pub fn compare(&self, other: &Version) -> Option<Ordering> {
        if self == other {
            return Some(Ordering::Equal);
        }
        (self.is_decimal() && other.is_decimal())
            .then(|| self.0.len().cmp(&other.0.len()).then_with(|| self.0.cmp(&other.0)))
    }

    /// True if both are well-formed and `self` is the smaller one.
    pub fn is_before(&self, other: &Version) -> bool {
        self.compare(other) == Some(Ordering::Less)
    }

    /// True if it is a decimal number without leading zeros, and so can be compared with others (C1).
    pub fn is_decimal(&self) -> bool {
        let bytes = self.0.as_bytes();
        bytes.first().is_some_and(|first| (b'1'..=b'9').contains(first)) && bytes.iter().all(u8::is_ascii_digit)
    }
}

impl PartialEq<str> for Version {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
