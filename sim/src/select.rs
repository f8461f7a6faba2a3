//! What the server adds to the selectors of the core: which fields a resource knows, and the words of a refusal.
//!
//! The grammar and which objects are chosen is `informer_core::selector`. The core says what is wrong in words for
//! people; the real server says it in those of apimachinery, which clients may have come to know, so they are put
//! together here from the parts of the core's error. Two refusals are not word for word: of several wrong values of one
//! requirement, or several wrong fields, only the first one is named, and a value in a set is always `values[0]`.

use crate::names::{key_refusals, value_refusals};
use crate::object::Shape;
use informer_core::selector::{
    Expected, FieldSelector, LabelError, LabelPart, LabelSelector, SelectorError, SelectorProblem,
};

/// Reads `labelSelector`.
pub(crate) fn labels(text: &str) -> Result<LabelSelector, String> {
    text.parse().map_err(|error| label_refusal(&error))
}

/// A field selector of a request, before it is known whether the resource has these fields.
#[derive(Clone, Debug)]
pub(crate) enum Fields {
    Readable(FieldSelector),
    /// It names a field that no object can have. The core refuses it at once, the server only with all other fields
    /// that the resource does not know.
    Impossible(String),
}

impl Default for Fields {
    fn default() -> Self {
        Fields::Readable(FieldSelector::everything())
    }
}

impl Fields {
    /// Reads `fieldSelector`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let error = match text.parse() {
            Ok(selector) => return Ok(Fields::Readable(selector)),
            Err(error) => error,
        };
        field_refusal(&error).map(Fields::Impossible)
    }

    /// The selector, if objects of this shape have all its fields.
    pub(crate) fn of(&self, shape: &Shape) -> Result<FieldSelector, String> {
        let unknown = match self {
            Fields::Impossible(field) => field,
            Fields::Readable(selector) => {
                match selector.requirements().map(|one| one.field()).find(|field| !shape.has_field(field)) {
                    None => return Ok(selector.clone()),
                    Some(field) => field,
                }
            }
        };
        Err(if shape.custom || !shape.fields.is_empty() {
            format!("field label not supported: {unknown}")
        } else {
            format!("{unknown:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
        })
    }
}

fn label_refusal(error: &SelectorError) -> String {
    let (found, expected) = match error.problem() {
        SelectorProblem::Unexpected { found, expected } => (found, *expected),
        SelectorProblem::Label(wrong) => {
            return format!("unable to parse requirement: {}", label_part_refusal(error.requirement(), wrong));
        }
        _ => return error.to_string(),
    };
    // The server's words depend on whether this is the first of several.
    let is_first = !error.text()[..error.position()].trim_end().ends_with(',');
    let expected = match expected {
        Expected::Requirement if is_first => {
            return format!("found '{found}', expected: !, identifier, or 'end of string'");
        }
        Expected::Requirement => return format!("found '{found}', expected: identifier after ','"),
        Expected::EndOfRequirement => return format!("found '{found}', expected: ',' or 'end of string'"),
        Expected::Number if matches!(&**found, "" | ",") => {
            return format!("unable to parse requirement: {}", number_refusal(""));
        }
        Expected::Key | Expected::Value | Expected::Number => ", expected: identifier",
        Expected::Operator => ", expected: in, notin, =, ==, !=, gt, lt",
        Expected::Set => " expected: '('",
        Expected::ValueOfSet if is_first => ", expected: ',', ')' or identifier",
        Expected::ValueOfSet => ", expected: ',', or identifier",
        Expected::EndOfValue => ", expected: ',' or ')'",
        // These are of field selectors.
        Expected::Field | Expected::FieldOperator | Expected::Escape | Expected::EscapedEquals | _ => {
            return error.to_string();
        }
    };
    format!("unable to parse requirement: found '{found}'{expected}")
}

fn label_part_refusal(requirement: &str, wrong: &LabelError) -> String {
    let text = wrong.text();
    match wrong.part() {
        LabelPart::Key => format!("<nil>: Invalid value: {text:?}: {}", key_refusals(text).join("; ")),
        // A negative number is a number, but no value of a label.
        LabelPart::Number if text.parse::<i64>().is_err() => number_refusal(text),
        LabelPart::Number | LabelPart::Value | LabelPart::Set | _ => {
            let key = requirement.split(|c: char| c.is_ascii_whitespace() || "=!<>".contains(c)).next().unwrap_or("");
            let why = value_refusals(text).join("; ");
            format!("values[0][{key}]: Invalid value: {text:?}: {why}")
        }
    }
}

fn number_refusal(text: &str) -> String {
    format!("values[0]: Invalid value: {text:?}: for 'Gt', 'Lt' operators, the value must be an integer")
}

/// The words of a refusal, or the name of the field that no object can have.
fn field_refusal(error: &SelectorError) -> Result<String, String> {
    const INVALID: &str = "invalid field selector";
    let (text, term) = (error.text(), error.requirement());
    let SelectorProblem::Unexpected { found, expected } = error.problem() else { return Err(error.to_string()) };
    if *expected == Expected::Escape {
        return Err(format!("{INVALID}: invalid escape sequence: {found}"));
    }
    if *expected == Expected::EscapedEquals {
        return Err(format!("{INVALID}: unescaped character in value: {}", u32::from('=')));
    }
    match term.find('=') {
        Some(at) => Ok(term[..at].strip_suffix('!').unwrap_or(&term[..at]).to_owned()),
        None => Err(format!("invalid selector: '{text}'; can't understand '{term}'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use informer_core::object::Resource;

    /// What a real server of version 1.36 answers.
    #[test]
    fn label_selectors_are_refused_in_the_words_of_the_real_server() {
        const NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
                            with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for \
                            validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
        const PREFIX: &str = "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
                              characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
                              'example.com', regex used for validation is \
                              '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
        const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
                             '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or \
                             'my_value',  or '12345', regex used for validation is \
                             '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
        let long = "n".repeat(64);
        for (text, refusal) in [
            ("=b", "found '=', expected: !, identifier, or 'end of string'".to_owned()),
            ("a,", "found '', expected: identifier after ','".into()),
            ("a=b=c", "found '=', expected: ',' or 'end of string'".into()),
            ("!a=b", "found '=', expected: ',' or 'end of string'".into()),
        ] {
            assert_eq!(labels(text).unwrap_err(), refusal, "{text}");
        }
        for (text, refusal) in [
            ("a===b", "found '=', expected: identifier".to_owned()),
            ("a>=1", "found '=', expected: identifier".into()),
            ("!", "found '', expected: identifier".into()),
            ("a b", "found 'b', expected: in, notin, =, ==, !=, gt, lt".into()),
            ("a!b", "found '!', expected: in, notin, =, ==, !=, gt, lt".into()),
            ("a in b", "found 'b' expected: '('".into()),
            ("a in (", "found '', expected: ',', ')' or identifier".into()),
            ("a in (b,", "found '', expected: ',', or identifier".into()),
            ("a in (-b", "found '', expected: ',' or ')'".into()),
            ("a>x", "values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer".into()),
            ("a>,b", "values[0]: Invalid value: \"\": for 'Gt', 'Lt' operators, the value must be an integer".into()),
            ("b,a>-1", format!("values[0][a]: Invalid value: \"-1\": {VALUE}")),
            ("a notin (b,-b)", format!("values[0][a]: Invalid value: \"-b\": {VALUE}")),
            (&format!("a={long}"), format!("values[0][a]: Invalid value: \"{long}\": must be no more than 63 bytes")),
            ("-a", format!("<nil>: Invalid value: \"-a\": {NAME}")),
            (&long, format!("<nil>: Invalid value: \"{long}\": name part must be no more than 63 bytes")),
            (
                "/",
                format!(
                    "<nil>: Invalid value: \"/\": prefix part must be non-empty; name part must be non-empty; {NAME}"
                ),
            ),
            ("A_/x", format!("<nil>: Invalid value: \"A_/x\": {PREFIX}")),
        ] {
            assert_eq!(labels(text).unwrap_err(), format!("unable to parse requirement: {refusal}"), "{text}");
        }
        assert!(labels("a/b/c").unwrap_err().contains("a valid label key must consist of"));
    }

    #[test]
    fn field_selectors_are_refused_in_the_words_of_the_real_server() {
        for (text, refusal) in [
            ("foo", "invalid selector: 'foo'; can't understand 'foo'"),
            ("b=c,!a", "invalid selector: 'b=c,!a'; can't understand '!a'"),
            ("a=b=c", "invalid field selector: unescaped character in value: 61"),
            (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
            (r"a=\", r"invalid field selector: invalid escape sequence: \"),
        ] {
            assert_eq!(Fields::parse(text).unwrap_err(), refusal);
        }
    }

    #[test]
    fn fields_that_a_resource_does_not_know_are_refused() {
        let pods = Shape::new(&Resource::namespaced("", "v1", "pods", "Pod"), false);
        let configmaps = Shape::new(&Resource::namespaced("", "v1", "configmaps", "ConfigMap"), false);
        let of = |text: &str, shape| Fields::parse(text).unwrap().of(shape).map(|selector| selector.to_string());
        assert_eq!(of(",spec.nodeName==n,metadata.name!=b", &pods).unwrap(), "metadata.name!=b,spec.nodeName=n");
        assert_eq!(of("metadata.namespace=a", &configmaps).unwrap(), "metadata.namespace=a");
        // The last three are fields to the real server, and nobody has them.
        for (text, field) in [("spec.foo=x", "spec.foo"), ("=x", ""), ("a!b!=c", "a!b"), (r"a\,b=c", r"a\,b")] {
            assert_eq!(of(text, &pods).unwrap_err(), format!("field label not supported: {field}"));
        }
        assert_eq!(
            of("metadata.name =x", &configmaps).unwrap_err(),
            r#""metadata.name " is not a known field selector: only "metadata.name", "metadata.namespace""#
        );
    }
}
