//! [`FieldSelector`]: requirements on the values of fields, all of which must hold.

use super::error::{Expected, SelectorError, SelectorProblem};
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

const SELECTOR: &str = "field selector";

/// Requirements on the values of fields, all of which must hold: `field=value`, `field==value`, `field!=value`.
///
/// The grammar is that of apimachinery's `fields.ParseSelector`. In a value, `\,`, `\=` and `\\` stand for the
/// character behind the backslash; these three cannot stand there plain. Empty parts between commas are passed over.
///
/// Which fields can be asked for is the server's choice: `metadata.name` and `metadata.namespace` always, others by
/// kind (`spec.nodeName` of pods). An object cannot be tested without knowing how to read its fields, so
/// [`matches`](Self::matches) takes a function that looks one up.
///
/// Requirements are kept in order, once each, and `==` as `=`: selectors that differ in no more than that are equal,
/// and `to_string` of any selector parses to that selector.
///
/// ```
/// use informer_core::selector::FieldSelector;
///
/// let selector: FieldSelector = r"spec.nodeName=n1,status.phase!=a\,b".parse()?;
/// let field = |name: &str| match name {
///     "spec.nodeName" => Some("n1"),
///     "status.phase" => Some("Running"),
///     _ => None,
/// };
/// assert!(selector.matches(field));
/// assert_eq!(selector.value_of("spec.nodeName"), Some("n1"));
/// # Ok::<(), informer_core::selector::SelectorError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector {
    /// Sorted, without duplicates; empty means everything.
    requirements: Vec<FieldRequirement>,
}

/// One requirement on one field.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldRequirement {
    field: Box<str>,
    value: Box<str>,
    equal: bool,
}

impl FieldSelector {
    /// Matches every object; its text is empty.
    pub const fn everything() -> Self {
        FieldSelector { requirements: Vec::new() }
    }

    /// The field has this value. Any value goes; it is escaped when it is printed.
    ///
    /// # Errors
    ///
    /// If `field` is empty or holds a space, a control character or one of `=!,\`.
    pub fn eq(field: &str, value: &str) -> Result<Self, SelectorError> {
        Self::one(field, value, true)
    }

    /// The field does not have this value.
    ///
    /// # Errors
    ///
    /// As [`eq`](Self::eq).
    pub fn ne(field: &str, value: &str) -> Result<Self, SelectorError> {
        Self::one(field, value, false)
    }

    fn one(field: &str, value: &str, equal: bool) -> Result<Self, SelectorError> {
        Term { text: field, from: 0, end: field.len() }.check_field(field.len())?;
        Ok(FieldSelector {
            requirements: alloc::vec![FieldRequirement { field: field.into(), value: value.into(), equal }],
        })
    }

    /// Matches what both match.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.requirements.extend(other.requirements);
        self.requirements.sort();
        self.requirements.dedup();
        self
    }

    /// True if an object whose fields are looked up by `field` is selected. `None` says that the object has no such
    /// field, which is the same as an empty one, as on the server.
    ///
    /// A server that does not know a field refuses the request; so look at [`requirements`](Self::requirements)
    /// before, if that can happen.
    pub fn matches<'a>(&self, field: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|one| (field(&one.field).unwrap_or("") == &*one.value) == one.equal)
    }

    /// True for the selector that has no requirement.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The requirements in the order of their fields.
    pub fn requirements(&self) -> impl Iterator<Item = &FieldRequirement> {
        self.requirements.iter()
    }

    /// The one value that `field` must have, if the selector names one: `metadata.name=x` is a watch of one object.
    pub fn value_of(&self, field: &str) -> Option<&str> {
        self.requirements.iter().find(|one| one.equal && *one.field == *field).map(|one| &*one.value)
    }

    /// The value of the parameter `fieldSelector` of a request, not yet percent-encoded; empty for everything.
    pub fn to_query(&self) -> String {
        self.to_string()
    }
}

impl FieldRequirement {
    /// The path of the field, as in `metadata.name`.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// The value that it must have, or must not have; not escaped.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// True for `=`, false for `!=`.
    pub fn is_equality(&self) -> bool {
        self.equal
    }
}

impl fmt::Display for FieldRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.field, if self.equal { "=" } else { "!=" })?;
        for part in self.value.split_inclusive([',', '=', '\\']) {
            let plain = part.trim_end_matches([',', '=', '\\']);
            f.write_str(plain)?;
            if let special @ 1.. = part.len() - plain.len() {
                debug_assert_eq!(special, 1, "split_inclusive ends a part at its first special character");
                write!(f, "\\{}", &part[plain.len()..])?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, requirement) in self.requirements.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

/// One requirement of `text`, from byte `from` to byte `end`.
#[derive(Clone, Copy)]
struct Term<'a> {
    text: &'a str,
    from: usize,
    end: usize,
}

impl Term<'_> {
    fn unexpected(self, at: usize, found: &str, expected: Expected) -> SelectorError {
        let problem = SelectorProblem::Unexpected { found: found.into(), expected };
        SelectorError::new(SELECTOR, self.text, self.from..self.end, at, problem)
    }

    /// Checks the field's path, the first `len` bytes. The server compares it byte for byte, so a space that slipped in
    /// would make it another field.
    fn check_field(self, len: usize) -> Result<(), SelectorError> {
        let odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '=' | '!' | ',' | '\\');
        let (rest, at) = (&self.text[self.from..], self.from);
        match rest[..len].char_indices().find(|(_, c)| odd(*c)) {
            Some((offset, c)) => {
                Err(self.unexpected(at + offset, &rest[offset..offset + c.len_utf8()], Expected::Field))
            }
            None if len == 0 => {
                let found = &rest[..rest.chars().next().map_or(0, char::len_utf8)];
                Err(self.unexpected(at, found, Expected::Field))
            }
            None => Ok(()),
        }
    }
}

impl FromStr for FieldSelector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let mut selector = FieldSelector::everything();
        let mut at = 0;
        while at < text.len() {
            let end = at + term_len(&text[at..]);
            if end > at {
                selector.requirements.push(requirement(Term { text, from: at, end })?);
            }
            at = end + 1;
        }
        Ok(selector.and(FieldSelector::everything()))
    }
}

/// The length of the first part of `text`: up to a comma that no backslash stands before.
fn term_len(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b',' if !escaped => return at,
            b'\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

fn requirement(term: Term<'_>) -> Result<FieldRequirement, SelectorError> {
    let Term { text, from, end } = term;
    let part = &text[from..end];
    let Some(equals) = part.find('=') else {
        term.check_field(part.len())?;
        return Err(term.unexpected(end, text[end..].get(..1).unwrap_or(""), Expected::FieldOperator));
    };
    let equal = !part[..equals].ends_with('!');
    let length = if equal { equals } else { equals - 1 };
    let field = &part[..length];
    let start = from + equals + if equal && part[equals + 1..].starts_with('=') { 2 } else { 1 };

    let mut value = String::new();
    let mut characters = text[start..end].char_indices();
    while let Some((offset, c)) = characters.next() {
        match c {
            '\\' => match characters.next() {
                Some((_, escaped @ ('\\' | ',' | '='))) => value.push(escaped),
                other => {
                    let found = &text[start + offset..other.map_or(end, |(next, c)| start + next + c.len_utf8())];
                    return Err(term.unexpected(start + offset, found, Expected::Escape));
                }
            },
            '=' => return Err(term.unexpected(start + offset, "=", Expected::EscapedEquals)),
            plain => value.push(plain),
        }
    }
    // Last, as on the server: that a field is known is a question for later.
    term.check_field(length)?;
    Ok(FieldRequirement { field: field.into(), value: value.into_boxed_str(), equal })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn selector(text: &str) -> FieldSelector {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn the_three_operators_and_the_three_escapes_are_read() {
        for (text, canonical) in [
            ("", ""),
            (",,", ""),
            ("metadata.name=a", "metadata.name=a"),
            ("metadata.name==a", "metadata.name=a"),
            ("a!=b,metadata.name=", "a!=b,metadata.name="),
            ("z=1,,a=2,z=1,", "a=2,z=1"),
            (r"a=x\,y\=z\\,b=1", r"a=x\,y\=z\\,b=1"),
            ("a= b ", "a= b "),
            ("a=!b", "a=!b"),
        ] {
            assert_eq!(selector(text).to_string(), canonical, "{text:?}");
        }
        assert_eq!(selector(r"a=x\,y\=z\\,b=1").value_of("a"), Some(r"x,y=z\"));
    }

    #[test]
    fn what_is_invalid_is_refused_with_its_place() {
        for (text, at) in [
            ("metadata.name", 13),
            ("a=1,metadata.name,b=2", 17),
            ("a=b=c", 3),
            ("a===b", 3),
            (r"a=\n", 2),
            (r"a=x\", 3),
            ("=a", 0),
            ("!=a", 0),
            ("a=1, b=2", 4),
            ("a =1", 1),
            ("!a", 0),
            ("a!b=c", 1),
            (r"a\,b=c", 1),
            (r"a b=\n", 4),
        ] {
            let error = text.parse::<FieldSelector>().unwrap_err();
            assert_eq!(error.position(), at, "{error}");
            assert_eq!(error.text(), text);
        }
        assert_eq!(
            r"a=\n".parse::<FieldSelector>().unwrap_err().to_string(),
            r#"field selector "a=\\n": found "\\n" at byte 2, expected one of \\ \, \="#
        );
        assert!(FieldSelector::eq("a,b", "x").is_err());
    }

    #[test]
    fn a_missing_field_counts_as_empty() {
        let none = |_: &str| None;
        assert!(selector("a=").matches(none));
        assert!(!selector("a!=").matches(none));
        assert!(selector("a!=x").matches(none));
        assert!(!selector("a!=x,b=1").matches(none));
        assert!(FieldSelector::everything().matches(none));
    }

    proptest! {
        #[test]
        fn what_is_printed_parses_to_the_same_selector(
            terms in prop::collection::vec(("[a-z.]{1,4}", r"[a-c,=\\! é]{0,6}", any::<bool>()), 0..4)
        ) {
            let built = terms.iter().fold(FieldSelector::everything(), |all, (field, value, equal)| {
                all.and(FieldSelector::one(field, value, *equal).unwrap())
            });
            prop_assert_eq!(selector(&built.to_query()), built);
        }

        #[test]
        fn no_text_panics(text in r"[a-c,=\\! é]{0,12}") {
            match text.parse::<FieldSelector>() {
                Ok(selector) => prop_assert_eq!(selector.to_string().parse::<FieldSelector>().unwrap(), selector),
                Err(error) => prop_assert!(text.is_char_boundary(error.position())),
            }
        }
    }
}
