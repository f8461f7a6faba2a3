//! What names, label keys and label values may look like, and what is said of one that does not: the words are those of
//! apimachinery, which clients may have come to know.
//!
//! Each function answers all that is wrong, in the order in which the real server says it; nothing if all is well.

use informer_core::selector::is_subdomain;

const NO_SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
                            '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used \
                            for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const NO_LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                        start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
                        validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

const NO_IDENTIFIER: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                             alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or \
                             'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

/// The example and pattern that end each refusal of a name or a value.
const OF_NAMES: &str = "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                        '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const OF_VALUES: &str = "(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
                         '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// The longest DNS subdomain; the longest DNS label, name part of a key, and value of a label.
const SUBDOMAIN_MAX: usize = 253;
const LABEL_MAX: usize = 63;

/// How objects of a resource may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// Most of them.
    Subdomain,
    /// What becomes one label of a DNS name: namespaces and Services.
    Label,
    /// Anything that can stand in a path: roles and their bindings.
    PathSegment,
}

impl NameRule {
    /// All that is wrong with a name.
    pub(crate) fn refusals(self, name: &str) -> Vec<String> {
        let longer_than = |max: usize| {
            let long = (name.len() > max).then(|| format!("must be no more than {max} characters"));
            long.into_iter().collect::<Vec<_>>()
        };
        match self {
            NameRule::Subdomain => {
                let mut wrong = longer_than(SUBDOMAIN_MAX);
                wrong.extend((!is_dotted(name)).then(|| NO_SUBDOMAIN.to_owned()));
                wrong
            }
            NameRule::Label => {
                let mut wrong = longer_than(LABEL_MAX);
                if !is_dotted(name) {
                    wrong.push(NO_LABEL.to_owned());
                } else if name.contains('.') {
                    wrong.push("must not contain dots".to_owned());
                }
                wrong
            }
            NameRule::PathSegment if matches!(name, "." | "..") => vec![format!("may not be '{name}'")],
            NameRule::PathSegment => {
                ['/', '%'].into_iter().filter(|&c| name.contains(c)).map(|c| format!("may not contain '{c}'")).collect()
            }
        }
    }

    /// The same for what a generated name begins with: a hyphen at its end is fine, for more follows.
    pub(crate) fn refusals_of_prefix(self, prefix: &str) -> Vec<String> {
        match prefix.strip_suffix('-') {
            // The real server replaces two characters by one that is fine.
            Some(rest) if self != NameRule::PathSegment && rest.ends_with(|c: char| c.is_ascii()) => {
                self.refusals(&format!("{}a", &rest[..rest.len() - 1]))
            }
            Some(_) | None => self.refusals(prefix),
        }
    }
}

/// Labels of lower-case letters, digits and inner hyphens, joined by dots, however long.
fn is_dotted(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.split('.').all(|label| {
        let bytes = label.as_bytes();
        bytes.first().is_some_and(|&byte| plain(byte))
            && bytes.last().is_some_and(|&byte| plain(byte))
            && bytes.iter().all(|&byte| plain(byte) || byte == b'-')
    })
}

/// Letters and digits at both ends; between them also `-`, `_` and `.`, however many.
fn is_word(text: &str) -> bool {
    let end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    end(bytes.first())
        && end(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

/// All that is wrong with what becomes part of a path or of a type: the plural, the kind in lower case, and the version of a
/// custom resource. It begins with a letter.
pub(crate) fn identifier_refusals(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > LABEL_MAX {
        wrong.push(format!("must be no more than {LABEL_MAX} characters"));
    }
    if !is_dotted(text) || text.contains('.') || !text.starts_with(|c: char| c.is_ascii_lowercase()) {
        wrong.push(NO_IDENTIFIER.to_owned());
    }
    wrong
}

/// All that is wrong with a key of a label or an annotation, or with a finalizer: `[prefix/]name`.
pub(crate) fn key_refusals(key: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let (prefix, name) = match key.split_once('/') {
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
                 an alphanumeric character {OF_NAMES} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
            )];
        }
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    match prefix {
        Some("") => wrong.push("prefix part must be non-empty".to_owned()),
        Some(prefix) if !is_subdomain(prefix) => {
            if prefix.len() > SUBDOMAIN_MAX {
                wrong.push(format!("prefix part must be no more than {SUBDOMAIN_MAX} bytes"));
            }
            if !is_dotted(prefix) {
                wrong.push(format!("prefix part {NO_SUBDOMAIN}"));
            }
        }
        Some(_) | None => {}
    }
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX {
        wrong.push(format!("name part must be no more than {LABEL_MAX} bytes"));
    }
    if !is_word(name) {
        wrong.push(format!(
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
             alphanumeric character {OF_NAMES}"
        ));
    }
    wrong
}

/// All that is wrong with the value of a label.
pub(crate) fn value_refusals(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.len() > LABEL_MAX {
        wrong.push(format!("must be no more than {LABEL_MAX} bytes"));
    }
    if !(value.is_empty() || is_word(value)) {
        wrong.push(format!(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start \
             and end with an alphanumeric character {OF_VALUES}"
        ));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_have_the_rule_of_their_resource() {
        use NameRule::{Label, PathSegment, Subdomain};
        let (short, long) = ("p".repeat(63), "p".repeat(254));
        for (rule, name, wrong) in [
            (Subdomain, "a.b-c.9", 0),
            (Subdomain, "A", 1),
            (Subdomain, &*long, 1),
            (Label, &*short, 0),
            (Label, "a.b", 1),
            (Label, "a_b", 1),
            (Label, &*long, 1),
            (PathSegment, "system:Node_1", 0),
            (PathSegment, "a/b%", 2),
            (PathSegment, "..", 1),
        ] {
            assert_eq!(rule.refusals(name).len(), wrong, "{rule:?} {name}");
        }
        assert_eq!(Label.refusals("a.b"), ["must not contain dots"]);
        assert_eq!(Subdomain.refusals(&long), ["must be no more than 253 characters"]);
    }

    #[test]
    fn an_identifier_begins_with_a_letter_and_has_no_dot() {
        for (text, wrong) in [("v1", 0), ("a-b", 0), ("1a", 1), ("a.b", 1), ("a-", 1), ("", 1), ("a\"", 1), ("V1", 1)] {
            assert_eq!(identifier_refusals(text).len(), wrong, "{text}");
        }
        assert_eq!(identifier_refusals(&"é".repeat(32)).len(), 2);
    }

    #[test]
    fn a_prefix_may_end_with_a_hyphen() {
        for (prefix, fits) in
            [("a-", true), ("a", true), ("Bad-", false), ("-", false), ("a--", true), ("a.-", true), ("É-", false)]
        {
            assert_eq!(NameRule::Subdomain.refusals_of_prefix(prefix).is_empty(), fits, "{prefix}");
        }
    }

    #[test]
    fn a_key_is_told_all_that_is_wrong_with_it() {
        assert_eq!(key_refusals("app.kubernetes.io/name"), [""; 0]);
        assert_eq!(key_refusals("").len(), 2);
        assert_eq!(key_refusals(&format!("{}_/a b", "P".repeat(254))).len(), 3);
        assert_eq!(key_refusals(&"n".repeat(64)), ["name part must be no more than 63 bytes"]);
        assert_eq!(value_refusals(&format!("{}-", "v".repeat(63))).len(), 2);
        assert_eq!(value_refusals(""), [""; 0]);
    }

    proptest! {
        /// The core decides what a selector may name, and this what an object may carry: it is one rule.
        #[test]
        fn what_an_object_may_carry_is_what_a_selector_may_name(
            key in "[a-zA-Z0-9./_-]{0,70}", value in "[a-z0-9A-Z._-]{0,66}",
        ) {
            use informer_core::selector::LabelSelector;
            if key_refusals(&key).is_empty() {
                prop_assert!(key.parse::<LabelSelector>().is_ok(), "{key}");
            }
            if !value.is_empty() && value_refusals(&value).is_empty() {
                prop_assert!(format!("a={value}").parse::<LabelSelector>().is_ok(), "{value}");
            }
            prop_assert_eq!(is_subdomain(&key), is_dotted(&key) && key.len() <= SUBDOMAIN_MAX);
        }
    }
}
