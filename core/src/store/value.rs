//! What an index function may return ([`IndexValues`]), and the types that its values may have ([`IndexValue`]).
//!
//! Inside, every value is a text; two different values never share one. So an index of numbers is as good as one of
//! strings, and a type of one's own needs no more than two functions:
//!
//! ```
//! use informer_core::store::{IndexDef, IndexValue, Store};
//! use informer_core::{Key, Obj, Uid, Version};
//! use std::borrow::Cow;
//!
//! #[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
//! enum Size {
//!     Small,
//!     Large,
//! }
//!
//! impl IndexValue for Size {
//!     type Query = Size;
//!     fn to_text(size: &Size) -> Cow<'_, str> {
//!         Cow::Borrowed(match size {
//!             Size::Small => "small",
//!             Size::Large => "large",
//!         })
//!     }
//!     fn from_text(text: &str) -> Option<Size> {
//!         [Size::Small, Size::Large].into_iter().find(|size| Size::to_text(size) == text)
//!     }
//! }
//!
//! let mut store = Store::<u16>::new(7);
//! store.add_index(IndexDef::new("size", |n| if **n < 100 { Size::Small } else { Size::Large })).unwrap();
//! store.add_index(IndexDef::new("port", |n| **n)).unwrap();
//! for port in [80, 8080, 8443] {
//!     store.upsert(Obj::new(Key::new("", &port.to_string()), Uid::new("u"), Version::new("1"), port));
//! }
//! assert_eq!(store.by_value::<Size>("size", &Size::Large).unwrap().len(), 2);
//! assert_eq!(store.by_value::<u16>("port", &8080).unwrap().len(), 1);
//! ```

use crate::object::Key;
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::{TypeId, type_name};
use core::borrow::Borrow;
use core::fmt;
use smallvec::SmallVec;

/// One value of an index: text, a number, a [`Key`], or a type of one's own.
///
/// The law: `from_text(to_text(v))` is `v`. Hence no two different values share a text. It is asserted in debug builds
/// wherever an index function returned a value.
///
/// Floating-point numbers are not among them: they have values that equal each other and print differently, and one
/// that does not equal itself.
pub trait IndexValue: Ord + Borrow<Self::Query> + 'static {
    /// What a look-up takes: `str` for text, otherwise the type itself.
    type Query: ?Sized;

    /// The text that stands for this value.
    fn to_text(value: &Self::Query) -> Cow<'_, str>;

    /// The value of a text; `None` for one that stands for none.
    fn from_text(text: &str) -> Option<Self>
    where
        Self: Sized;
}

impl IndexValue for String {
    type Query = str;

    fn to_text(value: &str) -> Cow<'_, str> {
        Cow::Borrowed(value)
    }

    fn from_text(text: &str) -> Option<String> {
        Some(text.into())
    }
}

macro_rules! text_types {
    ($($type:ty),*) => {$(
        impl IndexValue for $type {
            type Query = str;

            fn to_text(value: &str) -> Cow<'_, str> {
                Cow::Borrowed(value)
            }

            fn from_text(text: &str) -> Option<$type> {
                Some(text.into())
            }
        }
    )*};
}

text_types!(Box<str>, Arc<str>);

macro_rules! printed_types {
    ($($type:ty),*) => {$(
        impl IndexValue for $type {
            type Query = $type;

            fn to_text(value: &$type) -> Cow<'_, str> {
                Cow::Owned(value.to_string())
            }

            fn from_text(text: &str) -> Option<$type> {
                text.parse().ok()
            }
        }
    )*};
}

printed_types!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, bool, char);

impl IndexValue for Key {
    type Query = Key;

    fn to_text(value: &Key) -> Cow<'_, str> {
        Cow::Borrowed(value.as_str())
    }

    /// Any text is that of a key: an index function may make one of parts that no object could have.
    fn from_text(text: &str) -> Option<Key> {
        Some(Key::new("", text))
    }
}

/// What an index function may return: an [`IndexValue`], or an `Option` or `Vec` of what it may return.
///
/// ```
/// use informer_core::store::IndexValues;
///
/// assert_eq!(Some("a".to_string()).into_values().len(), 1);
/// assert_eq!(None::<u16>.into_values().len(), 0);
/// assert_eq!(vec![80, 443].into_values().len(), 2);
/// ```
pub trait IndexValues {
    /// The type of one value.
    type Value: IndexValue;

    /// The texts of the values; one that stands twice counts once.
    fn into_values(self) -> Values;
}

/// The values of one object in one index. Most objects have one.
pub type Values = SmallVec<[ValueText; 1]>;

/// The text of one value: without an allocation if it is as short as most are.
#[derive(Clone)]
pub struct ValueText(Text);

#[derive(Clone)]
enum Text {
    Short { length: u8, bytes: [u8; SHORT] },
    Long(Box<str>),
}

/// What fits beside its length into three words.
const SHORT: usize = 22;

impl ValueText {
    #[inline]
    fn short(text: &str) -> Option<Self> {
        let mut bytes = [0; SHORT];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        Some(ValueText(Text::Short { length: text.len() as u8, bytes }))
    }

    /// The bytes of the text.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Text::Short { length, bytes } => &bytes[..usize::from(*length)],
            Text::Long(text) => text.as_bytes(),
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Text::Short { .. } => core::str::from_utf8(self.as_bytes()).expect("it was made of a text"),
            Text::Long(text) => text,
        }
    }
}

impl From<Cow<'_, str>> for ValueText {
    fn from(text: Cow<'_, str>) -> Self {
        match ValueText::short(&text) {
            Some(short) => short,
            None => ValueText(Text::Long(text.into())),
        }
    }
}

impl Default for ValueText {
    fn default() -> Self {
        ValueText(Text::Short { length: 0, bytes: [0; SHORT] })
    }
}

impl From<&str> for ValueText {
    #[inline]
    fn from(text: &str) -> Self {
        ValueText::short(text).unwrap_or_else(|| ValueText(Text::Long(text.into())))
    }
}

impl fmt::Debug for ValueText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl<V: IndexValue> IndexValues for V {
    type Value = V;

    fn into_values(self) -> Values {
        debug_assert!(
            V::from_text(&V::to_text(self.borrow())).is_some_and(|again| again == self),
            "an index value is what its text stands for, but {} makes another one of {:?}",
            type_name::<V>(),
            V::to_text(self.borrow()),
        );
        SmallVec::from_buf([V::to_text(self.borrow()).into()])
    }
}

impl IndexValues for &'static str {
    type Value = String;

    fn into_values(self) -> Values {
        SmallVec::from_buf([self.into()])
    }
}

impl<V: IndexValues> IndexValues for Option<V> {
    type Value = V::Value;

    fn into_values(self) -> Values {
        self.map_or_else(Values::new, V::into_values)
    }
}

impl<V: IndexValues> IndexValues for Vec<V> {
    type Value = V::Value;

    fn into_values(self) -> Values {
        self.into_iter().flat_map(V::into_values).collect()
    }
}

/// The type of an index's values.
#[derive(Clone, Copy)]
pub(crate) struct ValueType {
    id: TypeId,
    name: &'static str,
}

impl ValueType {
    pub(crate) fn of<V: IndexValue>() -> Self {
        ValueType { id: TypeId::of::<V>(), name: type_name::<V>() }
    }

    /// True if an index of these values can be read as one of `asked`; as text, every index can.
    pub(crate) fn reads_as(self, asked: ValueType) -> bool {
        self.id == asked.id || asked.id == TypeId::of::<String>()
    }

    pub(crate) fn name(self) -> &'static str {
        self.name
    }
}

impl fmt::Debug for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::format;

    fn there_and_back<V: IndexValue + Clone + fmt::Debug>(value: V) {
        let text = ValueText::from(V::to_text(value.borrow()));
        assert_eq!(V::to_text(value.borrow()), text.as_str());
        assert_eq!(text.as_bytes(), text.as_str().as_bytes());
        assert_eq!(V::from_text(text.as_str()), Some(value));
    }

    proptest! {
        #[test]
        fn every_value_comes_back_from_its_text(
            text in prop_oneof![".*", ".{15,25}"], a in any::<u64>(), b in any::<i128>(), c in any::<u8>(), d in any::<bool>(), e in any::<char>(),
            (namespace, name) in (".{0,3}", "[a/]{0,3}"),
        ) {
            there_and_back::<Box<str>>(text.as_str().into());
            there_and_back::<Arc<str>>(text.as_str().into());
            there_and_back(text);
            there_and_back(a);
            there_and_back(b);
            there_and_back(c);
            there_and_back(d);
            there_and_back(e);
            there_and_back(Key::new(&namespace, &name));
        }
    }

    #[test]
    fn values_of_values_are_flat() {
        let nested = std::vec![Some(std::vec![1_u8, 2]), None, Some(std::vec![2])];
        assert_eq!(format!("{:?}", nested.into_values()), r#"["1", "2", "2"]"#);
        assert_eq!(format!("{:?}", "static".into_values()), r#"["static"]"#);
    }

    #[test]
    fn a_short_text_is_in_its_place_and_a_long_one_somewhere_else() {
        assert_eq!(core::mem::size_of::<ValueText>(), 24);
        for length in [0, 1, SHORT, SHORT + 1] {
            let text = ValueText::from("x".repeat(length).as_str());
            assert_eq!(matches!(text.0, Text::Short { .. }), length <= SHORT);
            assert_eq!(text.as_str().len(), length);
        }
    }

    /// A type that loses a part of its value.
    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    struct Lossy(u8);

    impl IndexValue for Lossy {
        type Query = Lossy;

        fn to_text(value: &Lossy) -> Cow<'_, str> {
            Cow::Owned(format!("{}", value.0 / 2))
        }

        fn from_text(text: &str) -> Option<Lossy> {
            text.parse().ok().map(Lossy)
        }
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "Lossy makes another one of \"3\"")]
    fn a_type_whose_values_share_a_text_is_found_out() {
        _ = Lossy(7).into_values();
    }
}
