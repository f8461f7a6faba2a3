//! [`PageToken`]: where a page ended, as a text that a client can keep and hand back; [`ListId`].
//!
//! ```text
//! base64url of:  form (1)  check (4)  list (8)  snapshot (8)  last key (the rest)
//! ```
//!
//! A token comes back from outside, so nothing about it is trusted: whatever it says, a page is one of the list that was
//! asked for. The check is no seal. It tells a text that was cut or mistyped from one that is whole.

use crate::selector::LabelSelector;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// The first byte. Another layout gets another number.
const FORM: u8 = 1;

/// Bytes before the key.
const HEAD: usize = 1 + 4 + 8 + 8;

/// Characters of a token at most: a key has at most 507, and some room is left. More is refused unread.
const MAX_TEXT: usize = 2_048;

/// Which list a page belongs to: a collection, a namespace and a selector. The same in every process.
///
/// ```
/// use informer_core::lister::ListId;
/// use informer_core::selector::LabelSelector;
///
/// let shop: LabelSelector = "app=shop".parse().unwrap();
/// assert_eq!(ListId::new("pods", "web", &shop), ListId::new("pods", "web", &shop));
/// assert_ne!(ListId::new("pods", "web", &shop), ListId::new("pods", "", &shop));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ListId(u64);

impl ListId {
    /// The list of what `selector` selects in a namespace (`""` for all) of what is called `collection`.
    pub fn new(collection: &str, namespace: &str, selector: &LabelSelector) -> Self {
        // A byte that no name and no selector has ends each part.
        ListId(fnv(format!("{collection}\0{namespace}\0{selector}").as_bytes()))
    }
}

/// FNV-1a. A hash that is the same in every version of every build: a token may outlive the program.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Where a page ended: after which key, in which list, and in which snapshot of it.
///
/// `Display` and `FromStr` are the text that a client keeps: letters, digits, `-` and `_`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageToken {
    list: ListId,
    snapshot: u64,
    after: Box<str>,
}

impl PageToken {
    pub(super) fn new(list: ListId, snapshot: u64, after: &str) -> Self {
        PageToken { list, snapshot, after: after.into() }
    }

    /// The snapshot that the page was of.
    pub fn snapshot(&self) -> u64 {
        self.snapshot
    }

    /// The key of the last object of the page.
    pub fn after(&self) -> &str {
        &self.after
    }

    /// The list that the page was of.
    pub fn list(&self) -> ListId {
        self.list
    }

    /// What follows the check.
    fn body(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(HEAD + self.after.len());
        body.extend(self.list.0.to_be_bytes());
        body.extend(self.snapshot.to_be_bytes());
        body.extend(self.after.as_bytes());
        body
    }
}

impl fmt::Display for PageToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = self.body();
        let mut bytes = Vec::with_capacity(HEAD + self.after.len());
        bytes.push(FORM);
        bytes.extend((fnv(&body) as u32).to_be_bytes());
        bytes.extend(body);
        f.write_str(&encode(&bytes))
    }
}

impl FromStr for PageToken {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let broken = |reason: &str| TokenError::Unreadable { text: shortened(text), reason: reason.into() };
        if text.len() > MAX_TEXT {
            return Err(broken(&format!("it has {} characters, and a token has at most {MAX_TEXT}", text.len())));
        }
        let bytes = decode(text).map_err(|reason| broken(&reason))?;
        let Some((form, rest)) = bytes.split_first() else { return Err(broken("it is empty")) };
        if *form != FORM {
            return Err(broken(&format!("its form is {form}, and this program knows form {FORM} only")));
        }
        let cut = || broken("it is cut off");
        let (check, body) = rest.split_first_chunk().ok_or_else(cut)?;
        if u32::from_be_bytes(*check) != fnv(body) as u32 {
            return Err(broken("a part of it is missing or was changed"));
        }
        let (list, rest) = body.split_first_chunk().ok_or_else(cut)?;
        let (snapshot, after) = rest.split_first_chunk().ok_or_else(cut)?;
        let after = core::str::from_utf8(after).map_err(|_| broken("its key is no text"))?;
        let (list, snapshot) = (ListId(u64::from_be_bytes(*list)), u64::from_be_bytes(*snapshot));
        Ok(PageToken { list, snapshot, after: after.into() })
    }
}

/// A page token that leads to no page.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenError {
    /// The text is no token.
    Unreadable {
        /// The text, or how it begins.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The token is of another list.
    OtherList,
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TokenError::Unreadable { text, reason } => {
                write!(f, "{text:?} is no page token: {reason}; hand it back as it was given, or begin without one")
            }
            TokenError::OtherList => f.write_str(
                "the page token is of another list: use it with the kind, namespace and selector that it was given for, or \
                 begin without one",
            ),
        }
    }
}

impl fmt::Debug for TokenError {
    /// The text of Display: `main` prints errors so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for TokenError {}

/// What an error quotes: it may be of any length.
fn shortened(text: &str) -> String {
    const QUOTED: usize = 40;
    match text.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}

/// The digits of base64url (RFC 4648, section 5), without padding.
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, at| bits << 8 | u32::from(group.get(at).copied().unwrap_or(0)));
        for digit in 0..=group.len() {
            text.push(char::from(DIGITS[(bits >> (18 - 6 * digit)) as usize % 64]));
        }
    }
    text
}

fn decode(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    let (mut bits, mut held) = (0_u32, 0);
    for (at, byte) in text.bytes().enumerate() {
        let Some(digit) = DIGITS.iter().position(|digit| *digit == byte) else {
            return Err(format!("there is no such character in a token as that at byte {at}"));
        };
        bits = bits << 6 | digit as u32;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    // One digit says less than a byte, and the bits beyond the last byte are zero in what was encoded.
    if held >= 6 || bits & ((1 << held) - 1) != 0 {
        return Err(String::from("it is cut off"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;

    fn list(selector: &str) -> ListId {
        ListId::new("pods", "web", &selector.parse().unwrap())
    }

    proptest! {
        #[test]
        fn a_token_comes_back_from_its_text(snapshot in any::<u64>(), key in ".{0,40}") {
            let token = PageToken::new(list("app=shop"), snapshot, &key);
            let text = token.to_string();
            prop_assert!(text.bytes().all(|byte| DIGITS.contains(&byte)), "{}", text);
            prop_assert_eq!(text.parse(), Ok(token));
        }

        #[test]
        fn a_text_that_was_cut_or_changed_is_no_token(
            key in "[a-z]{1,9}/[a-z]{1,20}", at in any::<prop::sample::Index>(), digit in 0usize..64,
        ) {
            let text = PageToken::new(list(""), 7, &key).to_string();
            let at = at.index(text.len());
            prop_assert!(text[..at].parse::<PageToken>().is_err(), "cut");
            let mut changed = text.clone().into_bytes();
            changed[at] = DIGITS[digit];
            let changed = String::from_utf8(changed).unwrap();
            prop_assert_eq!(changed.parse::<PageToken>().is_ok(), changed == text);
        }

        #[test]
        fn no_text_makes_it_panic(text in ".*") {
            let parsed = text.parse::<PageToken>();
            prop_assert!(parsed.is_err() || parsed.unwrap().to_string() == text);
        }
    }

    #[test]
    fn the_digits_are_those_of_the_standard() {
        // RFC 4648, section 10, and a byte pair that needs both digits of its own.
        for (bytes, text) in [
            (&b""[..], ""),
            (b"f", "Zg"),
            (b"fo", "Zm8"),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg"),
            (b"fooba", "Zm9vYmE"),
            (b"foobar", "Zm9vYmFy"),
            (&[0xfb, 0xff], "-_8"),
        ] {
            assert_eq!((encode(bytes).as_str(), decode(text).as_deref()), (text, Ok(bytes)));
        }
    }

    #[test]
    fn an_error_says_what_is_wrong_and_what_to_do() {
        let error = |text: &str| text.parse::<PageToken>().unwrap_err().to_string();
        assert_eq!(error(""), "\"\" is no page token: it is empty; hand it back as it was given, or begin without one");
        assert!(
            error("a b").contains("\"a b\" is no page token: there is no such character in a token as that at byte 1")
        );
        assert!(error("Zg").contains("its form is 102, and this program knows form 1 only"));
        assert!(error("A").contains("it is cut off"));
        let long = error(&"A".repeat(5_000));
        assert!(long.contains("AAA…") && long.contains("5000 characters") && long.len() < 300, "{long}");
    }

    #[test]
    fn every_part_of_a_list_counts() {
        let lists =
            [("pods", "web", "a"), ("pods", "we", "a"), ("nodes", "web", "a"), ("pods", "web", "b"), ("pods", "", "a")];
        let ids: std::collections::BTreeSet<u64> = lists
            .iter()
            .map(|(kind, namespace, label)| ListId::new(kind, namespace, &label.parse().unwrap()).0)
            .collect();
        assert_eq!(ids.len(), lists.len());
        assert_eq!(fnv(b"a"), 0xaf63_dc4c_8601_ec8c, "as published");
        assert_eq!(list("a,b").0, 0xa6b8_9ff6_06c7_4846, "a token that was given out stays good");
    }
}
