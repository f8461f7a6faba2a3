//! What is wrong with a selector: where it stands, what was found and what was expected.

use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use core::error::Error;
use core::fmt;

/// A text that is no selector.
///
/// Display names the kind of selector, its whole text, the byte at which it goes wrong, what stands there and what
/// was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectorError {
    kind: &'static str,
    text: String,
    at: usize,
    problem: Problem,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    /// A token in the wrong place; an empty `found` is the end of the text.
    Unexpected { found: String, expected: &'static str },
    /// A key or a value that cannot be a label's.
    Label(LabelError),
}

impl SelectorError {
    pub(super) fn new(kind: &'static str, text: &str, at: usize, problem: Problem) -> Self {
        SelectorError { kind, text: text.to_string(), at, problem }
    }

    /// The text that was read.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The byte of [`text`](Self::text) at which it goes wrong; its length if something is missing at the end.
    pub fn position(&self) -> usize {
        self.at
    }
}

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}: ", self.kind, self.text)?;
        match &self.problem {
            Problem::Unexpected { found, expected } if found.is_empty() => {
                write!(f, "ends at byte {}, expected {expected}", self.at)
            }
            Problem::Unexpected { found, expected } => {
                write!(f, "found {found:?} at byte {}, expected {expected}", self.at)
            }
            Problem::Label(error) => write!(f, "at byte {}: {error}", self.at),
        }
    }
}

impl Error for SelectorError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.problem {
            Problem::Label(error) => Some(error),
            Problem::Unexpected { .. } => None,
        }
    }
}

/// A key or a value that no label can have, or that a comparison cannot use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelError {
    pub(super) part: &'static str,
    pub(super) text: String,
    pub(super) rule: Cow<'static, str>,
}

impl LabelError {
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

impl Error for LabelError {}

/// [`LabelSelector::nothing`](super::LabelSelector::nothing) has no text: the API has no selector that matches
/// nothing, and the empty text matches everything (B107). The answer to such a list is known without a request: it is
/// empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchesNothing;

impl fmt::Display for MatchesNothing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this label selector matches nothing and cannot be sent: skip the request, its list would be empty")
    }
}

impl Error for MatchesNothing {}
