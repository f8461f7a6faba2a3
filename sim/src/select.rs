//! Label and field selectors as the API reads them, and which objects they choose.
//!
//! The one place where this crate evaluates selectors: a parser of another crate can take its place behind
//! [`LabelSelector::parse`], [`FieldSelector::parse`] and the two `matches`.
//!
//! Error texts are those of the real server.

use std::collections::BTreeSet;

/// Requirements on labels, all of which must hold; an empty one holds always.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector(Vec<(String, LabelRule)>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum LabelRule {
    Exists,
    Absent,
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Above(i64),
    Below(i64),
}

impl LabelRule {
    fn holds(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            LabelRule::Exists => value.is_some(),
            LabelRule::Absent => value.is_none(),
            LabelRule::In(set) => value.is_some_and(|value| set.contains(value)),
            // An object without the label is chosen: `!=` does not ask for it to exist.
            LabelRule::NotIn(set) => value.is_none_or(|value| !set.contains(value)),
            LabelRule::Above(bound) => number().is_some_and(|number| number > *bound),
            LabelRule::Below(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

impl LabelSelector {
    /// Reads `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>5`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut tokens = Tokens { rest: text };
        let mut rules = Vec::new();
        if tokens.peek().is_empty() {
            return Ok(LabelSelector(rules));
        }
        loop {
            match tokens.peek() {
                "!" => {
                    tokens.next();
                    rules.push((tokens.key()?, LabelRule::Absent));
                }
                word if is_word(word) => {
                    let key = tokens.key()?;
                    let rule = tokens.rule().map_err(|error| format!("unable to parse requirement: {error}"))?;
                    rules.push((key, rule));
                }
                other => return Err(format!("found '{other}', expected: !, identifier, or 'end of string'")),
            }
            match tokens.next() {
                "" => return Ok(LabelSelector(rules)),
                "," => match tokens.peek() {
                    "!" => {}
                    word if is_word(word) => {}
                    other => return Err(format!("found '{other}', expected: identifier after ','")),
                },
                other => return Err(format!("found '{other}', expected: ',' or 'end of string'")),
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if every requirement holds; `label` answers the value of a label.
    pub(crate) fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|(key, rule)| rule.holds(label(key)))
    }
}

fn is_word(token: &str) -> bool {
    !matches!(token.chars().next(), None | Some('!' | ',' | '(' | ')' | '=' | '<' | '>'))
}

#[derive(Clone, Copy)]
struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    /// The next operator, bracket, comma or word; empty at the end.
    fn next(&mut self) -> &'a str {
        let text = self.rest.trim_start();
        let len = match text.chars().next() {
            None => 0,
            Some('!' | '=') if text[1..].starts_with('=') => 2,
            Some('!' | '=' | ',' | '(' | ')' | '<' | '>') => 1,
            Some(_) => text
                .find(|c: char| c.is_whitespace() || matches!(c, '!' | '=' | ',' | '(' | ')' | '<' | '>'))
                .unwrap_or(text.len()),
        };
        let (token, rest) = text.split_at(len);
        self.rest = rest;
        token
    }

    fn peek(mut self) -> &'a str {
        self.next()
    }

    fn key(&mut self) -> Result<String, String> {
        match self.next() {
            key if is_word(key) && is_qualified(key) => Ok(key.into()),
            key if is_word(key) => Err(format!(
                "unable to parse requirement: <nil>: Invalid value: {key:?}: name part must consist of alphanumeric \
                 characters, '-', '_' or '.', and must start and end with an alphanumeric character"
            )),
            other => Err(format!("unable to parse requirement: found '{other}', expected: identifier")),
        }
    }

    fn rule(&mut self) -> Result<LabelRule, String> {
        match self.peek() {
            "" | "," => return Ok(LabelRule::Exists),
            _ => {}
        }
        match self.next() {
            "=" | "==" => Ok(LabelRule::In(BTreeSet::from([self.value()?]))),
            "!=" => Ok(LabelRule::NotIn(BTreeSet::from([self.value()?]))),
            "in" => Ok(LabelRule::In(self.set()?)),
            "notin" => Ok(LabelRule::NotIn(self.set()?)),
            ">" => Ok(LabelRule::Above(self.number()?)),
            "<" => Ok(LabelRule::Below(self.number()?)),
            other => Err(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt")),
        }
    }

    /// A value may be left out: `a=` asks for an empty label.
    fn value(&mut self) -> Result<String, String> {
        match self.peek() {
            "" | "," => Ok(String::new()),
            word if is_word(word) => {
                self.next();
                check_value(word)
            }
            other => Err(format!("found '{other}', expected: identifier")),
        }
    }

    fn number(&mut self) -> Result<i64, String> {
        let value = self.value()?;
        value.parse().map_err(|_| {
            format!("values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer")
        })
    }

    fn set(&mut self) -> Result<BTreeSet<String>, String> {
        match self.next() {
            "(" => {}
            other => return Err(format!("found '{other}' expected: '('")),
        }
        let mut set = BTreeSet::new();
        loop {
            match self.peek() {
                "," | ")" => {
                    set.insert(String::new());
                }
                word if is_word(word) => {
                    self.next();
                    set.insert(check_value(word)?);
                }
                other => return Err(format!("found '{other}', expected: ',', ')' or identifier")),
            }
            match self.next() {
                ")" => return Ok(set),
                "," => {}
                other => return Err(format!("found '{other}', expected: ',' or ')'")),
            }
        }
    }
}

/// At most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends.
fn is_name(text: &str) -> bool {
    let end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && end(text.chars().next())
        && end(text.chars().last())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

fn is_qualified(key: &str) -> bool {
    key.split_once('/').map_or_else(|| is_name(key), |(prefix, name)| is_subdomain(prefix) && is_name(name))
}

/// A DNS subdomain, which is what names of objects and prefixes of labels must be.
pub(crate) fn is_subdomain(text: &str) -> bool {
    let end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    text.len() <= 253
        && text.split('.').all(|part| {
            end(part.chars().next())
                && end(part.chars().last())
                && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        })
}

fn check_value(value: &str) -> Result<String, String> {
    if value.is_empty() || is_name(value) {
        return Ok(value.into());
    }
    Err(format!(
        "values[0]: Invalid value: {value:?}: a valid label must be an empty string or consist of alphanumeric \
         characters, '-', '_' or '.', and must start and end with an alphanumeric character"
    ))
}

/// Requirements on fields, all of which must hold; an empty one holds always.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector(Vec<FieldRule>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldRule {
    field: String,
    value: String,
    equal: bool,
}

impl FieldSelector {
    /// Reads `a.b=c,d!=e`; a backslash takes the next `\`, `,` or `=` as part of a value.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut rules = Vec::new();
        for term in split_terms(text) {
            if term.is_empty() {
                continue;
            }
            let at = term
                .find(['=', '!'])
                .ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{term}'"))?;
            let (field, rest) = term.split_at(at);
            let (value, equal) = if let Some(value) = rest.strip_prefix("!=") {
                (value, false)
            } else if let Some(value) = rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')) {
                (value, true)
            } else {
                return Err(format!("invalid selector: '{text}'; can't understand '{term}'"));
            };
            rules.push(FieldRule { field: field.into(), value: unescape(value)?, equal });
        }
        Ok(FieldSelector(rules))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields that are asked for, each as often as it is.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|rule| rule.field.as_str())
    }

    /// The value that a field must have, if that is asked for.
    pub(crate) fn exactly(&self, field: &str) -> Option<&str> {
        self.0.iter().find(|rule| rule.equal && rule.field == field).map(|rule| rule.value.as_str())
    }

    /// True if every requirement holds; `field` answers the value of a field, empty if the object has none.
    pub(crate) fn matches<'a>(&self, field: impl Fn(&str) -> &'a str) -> bool {
        self.0.iter().all(|rule| (field(&rule.field) == rule.value) == rule.equal)
    }
}

fn split_terms(text: &str) -> impl Iterator<Item = &str> {
    let mut escaped = false;
    text.split(move |c| {
        let splits = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        splits
    })
}

fn unescape(value: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(next @ ('\\' | ',' | '=')) => plain.push(next),
                Some(next) => return Err(format!("invalid field selector: invalid escape sequence: \\{next}")),
                None => return Err("invalid field selector: invalid escape sequence: \\".into()),
            },
            ',' | '=' => return Err(format!("invalid field selector: unescaped character in value: {}", c as u32)),
            _ => plain.push(c),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chooses(selector: &str, labels: &[(&'static str, &'static str)]) -> bool {
        LabelSelector::parse(selector)
            .unwrap()
            .matches(|key| labels.iter().find(|(name, _)| *name == key).map(|(_, value)| *value))
    }

    #[test]
    fn labels_are_chosen_as_the_api_does() {
        let labels = &[("app", "web"), ("n", "7"), ("e", "")];
        for yes in [
            "",
            "app=web",
            "app==web",
            "app",
            "!none",
            "! none , app = web",
            "app!=db",
            "none!=db",
            "app in (db, web)",
            "app notin (db)",
            "none notin (db)",
            "e=",
            "e in ()",
            "e in (x,)",
            "n>6,n<8",
            "x.y/z notin (a),n",
        ] {
            assert!(chooses(yes, labels), "{yes}");
        }
        for no in
            ["app=db", "!app", "app!=web", "none", "app in (db)", "app notin (web)", "n>7", "app<9", "none in (a)"]
        {
            assert!(!chooses(no, labels), "{no}");
        }
    }

    #[test]
    fn broken_label_selectors_are_named() {
        for (text, error) in [
            ("a===b", "unable to parse requirement: found '=', expected: identifier"),
            ("a=b=c", "found '=', expected: ',' or 'end of string'"),
            ("=b", "found '=', expected: !, identifier, or 'end of string'"),
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            ("a,", "found '', expected: identifier after ','"),
            ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
            (
                "a>x",
                "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must \
                 be an integer",
            ),
        ] {
            assert_eq!(LabelSelector::parse(text).unwrap_err(), error, "{text}");
        }
        assert!(LabelSelector::parse("a=-b-").is_err());
        assert!(LabelSelector::parse("_b/=1").is_err());
    }

    #[test]
    fn fields_are_chosen_as_the_api_does() {
        let chooses = |text: &str| {
            FieldSelector::parse(text).unwrap().matches(|field| match field {
                "metadata.name" => "a,b",
                _ => "",
            })
        };
        assert!(chooses("") && chooses(",") && chooses(r"metadata.name=a\,b") && chooses("spec.nodeName="));
        assert!(chooses(r"metadata.name!=a,metadata.name==a\,b"));
        assert!(!chooses("metadata.name=a") && !chooses(r"metadata.name!=a\,b"));
    }

    #[test]
    fn broken_field_selectors_are_named() {
        for (text, error) in [
            ("foo", "invalid selector: 'foo'; can't understand 'foo'"),
            ("a=b=c", "invalid field selector: unescaped character in value: 61"),
            (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
        ] {
            assert_eq!(FieldSelector::parse(text).unwrap_err(), error);
        }
    }
}
