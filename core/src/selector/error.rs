//! What is wrong with a selector: where it stands, what was found and what was expected.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use core::error::Error;
use core::fmt;
use core::ops::Range;

/// A text that is no selector.
///
/// Display names the kind of selector, its whole text, the byte at which it goes wrong, what stands there and what
/// was expected. For other words, as a server that must answer in those of apimachinery needs them, there are the parts:
///
/// ```
/// use informer_core::selector::{Expected, LabelSelector, SelectorProblem};
///
/// let error = "a=1,b in x".parse::<LabelSelector>().unwrap_err();
/// assert_eq!((error.requirement(), error.position()), ("b in x", 9));
/// assert_eq!(error.problem(), &SelectorProblem::Unexpected { found: "x".into(), expected: Expected::Set });
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct SelectorError {
    kind: &'static str,
    text: String,
    requirement: Range<usize>,
    at: usize,
    problem: SelectorProblem,
}

/// What is wrong at one place of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SelectorProblem {
    /// Something stands in the wrong place.
    Unexpected {
        /// What stands there; empty if it is the end of the text.
        found: Box<str>,
        /// What could stand there.
        expected: Expected,
    },
    /// A key or a value that cannot be a label's.
    Label(LabelError),
}

/// What could stand at one place of a selector. Display says it in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expected {
    /// A requirement on a label, of which a key or `!` is the beginning.
    Requirement,
    /// The key of a label, after `!`.
    Key,
    /// An operator after the key of a label, or the end of its requirement.
    Operator,
    /// The value of a label, or the end of its requirement.
    Value,
    /// The integer after `>` or `<`.
    Number,
    /// The parenthesis that opens a set of values.
    Set,
    /// A value in a set, or its end.
    ValueOfSet,
    /// What follows a value in a set.
    EndOfValue,
    /// What follows a requirement on a label.
    EndOfRequirement,
    /// The path of a field, with an operator behind it.
    Field,
    /// The operator after a field.
    FieldOperator,
    /// A character that a backslash may stand before.
    Escape,
    /// A backslash before an equals sign inside a value.
    EscapedEquals,
}

impl SelectorError {
    /// `requirement` are the bytes of the requirement in which byte `at` is wrong, as far as they are known.
    pub(super) fn new(
        kind: &'static str,
        text: &str,
        requirement: Range<usize>,
        at: usize,
        problem: SelectorProblem,
    ) -> Self {
        SelectorError { kind, text: text.to_string(), requirement, at, problem }
    }

    /// The text that was read.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The byte of [`text`](Self::text) at which it goes wrong; its length if something is missing at the end.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The requirement in which it goes wrong: the whole of it in a field selector; in a label selector up to the end
    /// of what is wrong, as nothing behind that was read.
    pub fn requirement(&self) -> &str {
        &self.text[self.requirement.clone()]
    }

    /// What is wrong.
    pub fn problem(&self) -> &SelectorProblem {
        &self.problem
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Expected::Requirement => "a key, or \"!\" and a key",
            Expected::Key => "a key",
            Expected::Operator => "one of = == != in notin > <, or \",\" or the end",
            Expected::Value => "a value, \",\" or the end",
            Expected::Number => "an integer",
            Expected::Set => "\"(\"",
            Expected::ValueOfSet => "a value, \",\" or \")\"",
            Expected::EndOfValue => "\",\" or \")\"",
            Expected::EndOfRequirement => "\",\" or the end",
            Expected::Field => "a field such as metadata.name, then =, == or !=",
            Expected::FieldOperator => "=, == or !=",
            Expected::Escape => "one of \\\\ \\, \\=",
            Expected::EscapedEquals => "\\= for an equals sign inside the value",
        })
    }
}

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}: ", self.kind, self.text)?;
        match &self.problem {
            SelectorProblem::Unexpected { found, expected } if found.is_empty() => {
                write!(f, "ends at byte {}, expected {expected}", self.at)
            }
            SelectorProblem::Unexpected { found, expected } => {
                write!(f, "found {found:?} at byte {}, expected {expected}", self.at)
            }
            SelectorProblem::Label(error) => write!(f, "at byte {}: {error}", self.at),
        }
    }
}

impl fmt::Debug for SelectorError {
    /// The text of Display: `main` prints errors so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// No source: Display says what [`problem`](SelectorError::problem) says.
impl Error for SelectorError {}

/// Which part of a label cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LabelPart {
    /// Its key.
    Key,
    /// Its value.
    Value,
    /// The number to compare its value with.
    Number,
    /// The set of values to choose from, which is empty.
    Set,
}

impl fmt::Display for LabelPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LabelPart::Key => "label key",
            LabelPart::Value => "label value",
            LabelPart::Number => "number",
            LabelPart::Set => "set of label values",
        })
    }
}

/// A key or a value that no label can have, or that a comparison cannot use.
#[derive(Clone, PartialEq, Eq)]
pub struct LabelError {
    pub(super) part: LabelPart,
    pub(super) text: String,
    pub(super) rule: Cow<'static, str>,
}

impl LabelError {
    /// Whether it is a key or a value.
    pub fn part(&self) -> LabelPart {
        self.part
    }

    /// The key or value in question.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for LabelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no {}: {}", self.text, self.part, self.rule)
    }
}

impl fmt::Debug for LabelError {
    /// The text of Display: `main` prints errors so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for LabelError {}

/// [`LabelSelector::nothing`](super::LabelSelector::nothing) has no text: the API has no selector that matches
/// nothing, and the empty text matches everything (B107). The answer to such a list is known without a request: it is
/// empty.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MatchesNothing;

impl fmt::Display for MatchesNothing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this label selector matches nothing and cannot be sent: skip the request, its list would be empty")
    }
}

impl fmt::Debug for MatchesNothing {
    /// The text of Display: `main` prints errors so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for MatchesNothing {}
