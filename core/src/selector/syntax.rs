//! What a label's key and value may look like: apimachinery's `IsQualifiedName` and `IsValidLabelValue`.

use super::error::{LabelError, LabelPart};
use alloc::borrow::Cow;
use alloc::string::ToString;

/// The longest name part of a key, and the longest value, in bytes.
const NAME_MAX: usize = 63;
/// The longest DNS prefix of a key, in bytes.
const PREFIX_MAX: usize = 253;

/// Letters and digits at both ends; between them also `-`, `_` and `.`; 1 to 63 bytes.
fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() <= NAME_MAX
        && ends(bytes, u8::is_ascii_alphanumeric)
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// True for a DNS subdomain (RFC 1123): labels of lower-case letters, digits and inner hyphens, joined by dots; 253 bytes
/// at most. The prefix of a label's key must be one, and so must the names of most objects.
///
/// ```
/// use informer_core::selector::is_subdomain;
///
/// assert!(is_subdomain("app.kubernetes.io") && !is_subdomain("App") && !is_subdomain("a..b"));
/// ```
pub fn is_subdomain(text: &str) -> bool {
    let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() <= PREFIX_MAX
        && text.split('.').all(|label| {
            let bytes = label.as_bytes();
            ends(bytes, plain) && bytes.iter().all(|byte| plain(byte) || *byte == b'-')
        })
}

/// True if the first and the last byte fit; false for an empty text.
fn ends(bytes: &[u8], fits: impl Fn(&u8) -> bool) -> bool {
    bytes.first().is_some_and(&fits) && bytes.last().is_some_and(&fits)
}

/// Checks `[prefix/]name`.
pub(super) fn check_key(key: &str) -> Result<(), LabelError> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let rule = if prefix.is_some_and(|prefix| !is_subdomain(prefix)) {
        "what stands before \"/\" must be a DNS name of at most 253 lower-case letters, digits, \"-\" and \".\""
    } else if !is_name(name) {
        "its name must be 1 to 63 letters, digits, \"-\", \"_\" or \".\", with a letter or digit at both ends"
    } else {
        return Ok(());
    };
    Err(LabelError { part: LabelPart::Key, text: key.to_string(), rule: Cow::Borrowed(rule) })
}

/// Checks the value of a label; the empty one is fine.
pub(super) fn check_value(value: &str) -> Result<(), LabelError> {
    if value.is_empty() || is_name(value) {
        return Ok(());
    }
    let rule =
        "it must be empty, or 1 to 63 letters, digits, \"-\", \"_\" or \".\", with a letter or digit at both ends";
    Err(LabelError { part: LabelPart::Value, text: value.to_string(), rule: Cow::Borrowed(rule) })
}

/// Reads the number of a comparison. The server reads it as a signed 64-bit decimal, but also wants a label value, so
/// a sign is out.
pub(super) fn check_number(value: &str) -> Result<i64, LabelError> {
    if value.bytes().all(|byte| byte.is_ascii_digit()) {
        if let Ok(number) = value.parse() {
            return Ok(number);
        }
    }
    let rule = "\">\" and \"<\" compare with an integer from 0 to 9223372036854775807";
    Err(LabelError { part: LabelPart::Number, text: value.to_string(), rule: Cow::Borrowed(rule) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_follow_the_rule_of_qualified_names() {
        let (name, prefix) = ("n".repeat(63), "p".repeat(253));
        let long = std::format!("{prefix}/{name}");
        for key in ["a", "A.b_c-9", "example.com/app", "app.kubernetes.io/name", "x-y.z/a", &long] {
            assert_eq!(check_key(key), Ok(()), "{key}");
        }
        let (name, prefix) = ("n".repeat(64), std::format!("{}/a", "p".repeat(254)));
        for key in
            ["", "/", "a/", "/a", "a/b/c", "-a", "a-", "Example.com/a", "a..b/c", "a b", "a|b", "é", &name, &prefix]
        {
            assert!(check_key(key).is_err(), "{key}");
        }
    }

    #[test]
    fn values_have_63_bytes_at_most() {
        let (fits, too_long) = ("v".repeat(63), "v".repeat(64));
        for value in ["", "1", "a.b_c-D", &fits] {
            assert_eq!(check_value(value), Ok(()), "{value}");
        }
        for value in ["-", ".a", "a_", "a/b", "a b", "ü", &too_long] {
            assert!(check_value(value).is_err(), "{value}");
        }
    }
}
