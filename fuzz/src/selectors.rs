//! Label and field selectors: what parses prints as text that parses to the same, and matching agrees with an evaluator
//! that knows nothing of ours.
//!
//! The text of a selector, then, each on a line of its own, labels as `name=value`.

use informer_core::selector::{FieldSelector, LabelSelector, LabelTest};
use std::collections::BTreeMap;

/// Reads one input.
///
/// # Panics
///
/// If something is wrong.
pub fn run(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else { return };
    let mut lines = text.split('\n');
    let selector = lines.next().unwrap_or("");
    let labels: BTreeMap<&str, &str> = lines.filter_map(|line| line.split_once('=')).collect();
    label_selector(selector, &labels);
    field_selector(selector, &labels);
}

fn label_selector(text: &str, labels: &BTreeMap<&str, &str>) {
    let selector: LabelSelector = match text.parse() {
        Ok(selector) => selector,
        Err(error) => {
            let error: informer_core::selector::SelectorError = error;
            assert!(text.is_char_boundary(error.position()), "{error}");
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let printed = selector.to_string();
    let again: LabelSelector =
        printed.parse().unwrap_or_else(|error| panic!("{text:?} prints as {printed:?}: {error}"));
    assert_eq!(again, selector, "{text:?} prints as {printed:?}");
    assert_eq!(again.to_string(), printed);
    assert_eq!(selector.to_query().as_deref(), Ok(printed.as_str()), "the server and we read the same text");
    assert!(!selector.is_nothing(), "no text means nothing: {text:?}");
    assert_eq!(selector.is_everything(), selector.requirements().next().is_none());

    let expected = selector.requirements().all(|requirement| {
        let value = labels.get(requirement.key()).copied();
        match requirement.test() {
            LabelTest::Exists => value.is_some(),
            LabelTest::Absent => value.is_none(),
            LabelTest::Equals(wanted) => value.is_some_and(|value| value == &**wanted),
            LabelTest::NotEquals(unwanted) => value.is_none_or(|value| value != &**unwanted),
            LabelTest::In(wanted) => value.is_some_and(|value| wanted.iter().any(|one| value == &**one)),
            LabelTest::NotIn(unwanted) => value.is_none_or(|value| unwanted.iter().all(|one| value != &**one)),
            LabelTest::Greater(bound) => integer(value).is_some_and(|number| number > i128::from(*bound)),
            LabelTest::Less(bound) => integer(value).is_some_and(|number| number < i128::from(*bound)),
            other => panic!("{other:?} is not known here"),
        }
    });
    assert_eq!(selector.matches_labels(|name| labels.get(name).copied()), expected, "{printed:?} on {labels:?}");

    // One more requirement never matches more.
    let both = selector.clone().and(LabelSelector::exists("a").expect("a name"));
    if both.matches_labels(|name| labels.get(name).copied()) {
        assert!(expected && labels.contains_key("a"));
    }
}

/// A decimal of 64 bits with an optional sign, read by hand.
fn integer(value: Option<&str>) -> Option<i128> {
    let value = value?;
    let (sign, digits) = match value.as_bytes() {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] => (1, digits),
        digits => (1, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let mut number = 0i128;
    for digit in digits {
        number = number.checked_mul(10)? + i128::from(digit.checked_sub(b'0').filter(|digit| *digit < 10)?);
        if number > 1 << 63 {
            return None;
        }
    }
    i64::try_from(sign * number).ok().map(i128::from)
}

fn field_selector(text: &str, fields: &BTreeMap<&str, &str>) {
    let selector: FieldSelector = match text.parse() {
        Ok(selector) => selector,
        Err(error) => {
            let error: informer_core::selector::SelectorError = error;
            assert!(text.is_char_boundary(error.position()), "{error}");
            return;
        }
    };
    let printed = selector.to_string();
    let again: FieldSelector =
        printed.parse().unwrap_or_else(|error| panic!("{text:?} prints as {printed:?}: {error}"));
    assert_eq!(again, selector, "{text:?} prints as {printed:?}");
    assert_eq!((again.to_string(), selector.to_query()), (printed.clone(), printed));
    // A field that an object does not have is an empty one, as the server has it.
    let expected = selector.requirements().all(|requirement| {
        let value = fields.get(requirement.field()).copied().unwrap_or("");
        (value == requirement.value()) == requirement.is_equality()
    });
    assert_eq!(selector.matches(|name| fields.get(name).copied()), expected, "{selector} on {fields:?}");
    for requirement in selector.requirements().filter(|requirement| requirement.is_equality()) {
        assert!(selector.value_of(requirement.field()).is_some());
    }
}
