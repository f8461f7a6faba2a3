//! [`StringMap`]: labels and annotations in one allocation.
//!
//! ```text
//! length │ name │ length │ value │ length │ name │ length │ value …      sorted by name
//! ```
//!
//! A map of the standard library takes 550 bytes for its first entry and two allocations for each; an object has two such
//! maps, and a cache a hundred thousand objects. Here an entry costs its texts and two bytes more, and a look-up reads
//! memory that lies together. It walks: objects have few labels. Changes write the map anew.
//!
//! A length is written six bits at a time, lowest first, in bytes below 128 of which bit 6 says that another follows. So
//! all of it is text, and each part is cut out without looking at its bytes.
//!
//! Invariants, asserted by `check`: names rise, so none stands twice; nothing is left over at the end.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::Index;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

/// A map from text to text in the order of its names, made for few entries that are read more often than changed.
///
/// A value cannot be changed where it lies: [`insert`](Self::insert) writes another one in its place, and gives the one
/// before back.
///
/// ```
/// use informer_core::object::StringMap;
///
/// let mut labels = StringMap::from([("tier", "web"), ("app", "shop")]);
/// assert_eq!((labels.get("app"), labels.get("team")), (Some("shop"), None));
/// assert_eq!(labels.insert("app", "blog").as_deref(), Some("shop"));
/// assert_eq!(labels.iter().collect::<Vec<_>>(), [("app", "blog"), ("tier", "web")]);
/// assert_eq!(&labels["tier"], "web");
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StringMap(Box<str>);

/// Bits of a length in one byte.
const BITS: u32 = 6;
/// Another byte of the length follows.
const MORE: u8 = 1 << BITS;

fn put(text: &mut String, part: &str) {
    let mut length = part.len();
    while length >= usize::from(MORE) {
        text.push(char::from(length as u8 & (MORE - 1) | MORE));
        length >>= BITS;
    }
    text.push(char::from(length as u8));
    text.push_str(part);
}

/// Cuts the first part off.
#[inline]
fn cut<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let first = *rest.as_bytes().first()?;
    let (length, head) = if first & MORE == 0 { (usize::from(first), 1) } else { long(rest) };
    let (part, after) = rest[head..].split_at(length);
    *rest = after;
    Some(part)
}

/// A length of several bytes, and how many.
#[cold]
fn long(text: &str) -> (usize, usize) {
    let (mut length, mut head) = (0, 0);
    for byte in text.bytes() {
        length |= usize::from(byte & (MORE - 1)) << (BITS * head as u32);
        head += 1;
        if byte & MORE == 0 {
            break;
        }
    }
    (length, head)
}

impl StringMap {
    /// A map without entries. It takes no memory.
    pub fn new() -> Self {
        StringMap::default()
    }

    /// True if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many entries there are. They are counted anew.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// The value of `name`.
    #[inline]
    pub fn get(&self, name: &str) -> Option<&str> {
        // To look at lengths first is faster than to stop where names are larger: most differ there.
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// True if there is an entry of this name.
    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Gives `name` this value, and the one that it had back.
    pub fn insert(&mut self, name: impl AsRef<str>, value: impl AsRef<str>) -> Option<String> {
        let (name, value) = (name.as_ref(), value.as_ref());
        let before = self.get(name).map(String::from);
        *self = self.iter().chain([(name, value)]).collect();
        before
    }

    /// Takes an entry away, and gives its value back.
    pub fn remove(&mut self, name: &str) -> Option<String> {
        let before = self.get(name).map(String::from)?;
        *self = self.iter().filter(|(known, _)| *known != name).collect();
        Some(before)
    }

    /// Takes all entries away.
    pub fn clear(&mut self) {
        *self = StringMap::default();
    }

    /// Keeps the entries that `keep` wants.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &str) -> bool) {
        *self = self.iter().filter(|(name, value)| keep(name, value)).collect();
    }

    /// The entries, in the order of their names.
    pub fn iter(&self) -> Iter<'_> {
        Iter(&self.0)
    }

    /// The names, in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(name, _)| name)
    }

    /// The values, in the order of their names.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(_, value)| value)
    }

    /// The map of entries that were [put](put) down in any order. Of a name that stands twice the last value counts.
    fn from_parts(text: String) -> Self {
        let written = StringMap(text.into_boxed_str());
        let rises = written.keys().zip(written.keys().skip(1)).all(|(a, b)| a < b);
        let map = if rises {
            written // as servers write them
        } else {
            let mut entries: Vec<_> = written.iter().collect();
            entries.reverse();
            entries.sort_by_key(|(name, _)| *name); // which is stable: of one name the last comes first
            entries.dedup_by_key(|(name, _)| *name);
            let mut text = String::with_capacity(written.0.len());
            entries.iter().for_each(|(name, value)| {
                put(&mut text, name);
                put(&mut text, value);
            });
            StringMap(text.into_boxed_str())
        };
        map.check();
        map
    }

    #[cfg(not(debug_assertions))]
    fn check(&self) {}

    /// Asserts the invariants of the module header.
    #[cfg(debug_assertions)]
    fn check(&self) {
        let names: Vec<_> = self.keys().collect();
        assert!(names.is_sorted_by(|a, b| a < b), "names rise");
        let mut again = String::new();
        self.iter().for_each(|(name, value)| {
            put(&mut again, name);
            put(&mut again, value);
        });
        assert_eq!(again, *self.0, "nothing is left over");
    }
}

/// The entries of a [`StringMap`].
#[derive(Clone)]
pub struct Iter<'a>(&'a str);

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a str, &'a str);

    #[inline]
    fn next(&mut self) -> Option<(&'a str, &'a str)> {
        Some((cut(&mut self.0)?, cut(&mut self.0)?))
    }
}

impl fmt::Debug for Iter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.clone()).finish()
    }
}

impl<'a> IntoIterator for &'a StringMap {
    type Item = (&'a str, &'a str);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl<N: AsRef<str>, V: AsRef<str>> FromIterator<(N, V)> for StringMap {
    /// Of a name that comes twice the last value counts.
    fn from_iter<I: IntoIterator<Item = (N, V)>>(entries: I) -> Self {
        let mut text = String::new();
        entries.into_iter().for_each(|(name, value)| {
            put(&mut text, name.as_ref());
            put(&mut text, value.as_ref());
        });
        StringMap::from_parts(text)
    }
}

impl<N: AsRef<str>, V: AsRef<str>, const LEN: usize> From<[(N, V); LEN]> for StringMap {
    fn from(entries: [(N, V); LEN]) -> Self {
        entries.into_iter().collect()
    }
}

impl<N: AsRef<str>, V: AsRef<str>> Extend<(N, V)> for StringMap {
    fn extend<I: IntoIterator<Item = (N, V)>>(&mut self, entries: I) {
        let mut text = String::from(&*self.0);
        entries.into_iter().for_each(|(name, value)| {
            put(&mut text, name.as_ref());
            put(&mut text, value.as_ref());
        });
        *self = StringMap::from_parts(text);
    }
}

impl Index<&str> for StringMap {
    type Output = str;

    /// # Panics
    ///
    /// If there is no entry of this name.
    fn index(&self, name: &str) -> &str {
        self.get(name).unwrap_or_else(|| panic!("there is no entry {name:?}"))
    }
}

impl PartialOrd for StringMap {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for StringMap {
    /// That of the entries, as of a map of the standard library.
    fn cmp(&self, other: &Self) -> Ordering {
        self.iter().cmp(other.iter())
    }
}

impl Hash for StringMap {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Debug for StringMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().fmt(f)
    }
}

impl Serialize for StringMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.len()))?;
        for (name, value) in self {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// Puts the next text behind the others.
struct Part<'a>(&'a mut String);

impl<'de> DeserializeSeed<'de> for Part<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Part<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E>(self, part: &str) -> Result<(), E> {
        put(self.0, part);
        Ok(())
    }
}

struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = StringMap;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StringMap, A::Error> {
        let mut text = String::new();
        while map.next_key_seed(Part(&mut text))?.is_some() {
            map.next_value_seed(Part(&mut text))?;
        }
        Ok(StringMap::from_parts(text))
    }
}

impl<'de> Deserialize<'de> for StringMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::string::ToString;

    /// Names that repeat, and texts whose lengths take one, two and three bytes.
    fn entries() -> impl Strategy<Value = Vec<(String, String)>> {
        let text = prop_oneof![
            8 => ".{0,3}",
            2 => (60usize..70).prop_map(|length| "é".repeat(length / 2)),
            1 => (4_090usize..4_100).prop_map(|length| "x".repeat(length)),
        ];
        prop::collection::vec(("[a-cé]{0,2}", text), 0..12)
    }

    proptest! {
        #[test]
        fn it_is_the_map_of_the_standard_library(all in entries(), more in entries(), asked in "[a-cé]{0,2}") {
            let mut map: StringMap = all.iter().map(|(name, value)| (name, value)).collect();
            let mut model: BTreeMap<String, String> = all.into_iter().collect();
            let entries = |model: &BTreeMap<String, String>| -> Vec<(String, String)> {
                model.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
            };
            let own = |map: &StringMap| -> Vec<(String, String)> {
                map.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
            };
            prop_assert_eq!(own(&map), entries(&model));
            prop_assert_eq!(map.get(&asked), model.get(&asked).map(String::as_str));
            prop_assert_eq!(map.remove(&asked), model.remove(&asked));
            prop_assert_eq!(map.insert(&asked, "new"), model.insert(asked.clone(), "new".into()));
            prop_assert_eq!(map.insert(&asked, "newer"), model.insert(asked.clone(), "newer".into()));
            map.extend(more.iter().map(|(name, value)| (name, value)));
            model.extend(more);
            prop_assert_eq!(own(&map), entries(&model));
            prop_assert_eq!(map.len(), model.len());
            map.retain(|name, value| name != asked && value.len() < 64);
            model.retain(|name, value| *name != asked && value.len() < 64);
            prop_assert_eq!(own(&map), entries(&model));
            prop_assert_eq!(map.is_empty(), model.is_empty());
            let json = serde_json::to_string(&map).unwrap();
            prop_assert_eq!(&json, &serde_json::to_string(&model).unwrap());
            prop_assert_eq!(&serde_json::from_str::<StringMap>(&json).unwrap(), &map);
            map.clear();
            prop_assert!(map.is_empty() && map == StringMap::new());
        }

        #[test]
        fn maps_are_ordered_like_those_of_the_standard_library(a in entries(), b in entries()) {
            let (one, other): (StringMap, StringMap) = (a.iter().cloned().collect(), b.iter().cloned().collect());
            let (a, b): (BTreeMap<_, _>, BTreeMap<_, _>) = (a.into_iter().collect(), b.into_iter().collect());
            prop_assert_eq!(one.cmp(&other), a.cmp(&b));
        }
    }

    #[test]
    fn json_may_have_any_order_and_names_twice_and_must_have_texts() {
        let map: StringMap = serde_json::from_str(r#"{"b":"1","a":"\u00e9","b":"2"}"#).unwrap();
        assert_eq!(map, StringMap::from([("a", "é"), ("b", "2")]));
        for (json, why) in [
            (r#"{"a":1}"#, "invalid type: integer `1`, expected a string"),
            (r#"{"a":null}"#, "invalid type: null, expected a string"),
            (r#"{"a":{}}"#, "invalid type: map, expected a string"),
            (r"[]", "invalid type: sequence, expected a map of strings"),
        ] {
            let error = serde_json::from_str::<StringMap>(json).unwrap_err().to_string();
            assert!(error.starts_with(why), "{json}: {error}");
        }
    }

    #[test]
    fn an_entry_costs_its_texts_and_two_bytes() {
        assert_eq!(StringMap::from([("app", "shop"), ("tier", "web")]).0.len(), 14 + 4);
        assert_eq!(core::mem::size_of::<StringMap>(), 16);
        assert!(StringMap::new().0.is_empty());
    }

    #[test]
    #[should_panic(expected = "there is no entry \"b\"")]
    fn what_is_not_there_cannot_be_indexed() {
        _ = &StringMap::from([("a", "1")])["b"];
    }
}
