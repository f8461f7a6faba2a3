//! [`LabelSelector`]: requirements on labels, all of which must hold.

use super::error::{Expected, LabelError, LabelPart, MatchesNothing, SelectorError, SelectorProblem};
use super::lexer::{Kind, Lexer, Token};
use super::syntax;
use crate::object::Meta;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

const SELECTOR: &str = "label selector";

/// Requirements on labels, all of which must hold.
///
/// The grammar is that of apimachinery's `labels.Parse`, and so of kubectl's `-l`:
///
/// | text | holds if |
/// |---|---|
/// | `k=v`, `k==v` | the label is there and is `v` |
/// | `k!=v` | the label is not there, or is not `v` |
/// | `k in (a,b)` | the label is there and is one of these |
/// | `k notin (a,b)` | the label is not there, or is none of these |
/// | `k` | the label is there, with any value |
/// | `!k` | the label is not there |
/// | `k>5`, `k<5` | the label is there, is a decimal integer of 64 bits, and is greater or less |
///
/// An empty value is a value: `k=` and `k in ()` want a label that is there and empty (B106). The empty text is
/// [`everything`](Self::everything).
///
/// Requirements are kept in the order of their keys, once each, and `==` as `=`: selectors that differ in no more than
/// that are equal, and `to_string` of any selector but [`nothing`](Self::nothing) parses to that selector.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct LabelSelector(Form);

/// `Nothing` is a form of its own, so that no way of writing a selector down can turn it into an empty text.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Form {
    Nothing,
    /// Sorted, without duplicates; empty means everything.
    All(Vec<Requirement>),
}

/// One requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Requirement {
    key: Box<str>,
    test: LabelTest,
}

/// What one requirement asks of one label. Its `Display` as part of a [`Requirement`] is the selector's text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LabelTest {
    /// There, with this value.
    Equals(Box<str>),
    /// Not there, or with another value.
    NotEquals(Box<str>),
    /// There, with one of these values; they are sorted, once each, and at least one.
    In(Box<[Box<str>]>),
    /// Not there, or with none of these values; they are sorted, once each, and at least one.
    NotIn(Box<[Box<str>]>),
    /// There.
    Exists,
    /// Not there.
    Absent,
    /// There, an integer, and greater than this one.
    Greater(i64),
    /// There, an integer, and less than this one.
    Less(i64),
}

impl LabelSelector {
    /// Matches every object; its text is empty.
    pub const fn everything() -> Self {
        LabelSelector(Form::All(Vec::new()))
    }

    /// Matches no object. It has no text that a request could carry: [`to_query`](Self::to_query) refuses, and its
    /// `Display` does not parse.
    pub const fn nothing() -> Self {
        LabelSelector(Form::Nothing)
    }

    /// The label `key` is there and is `value`.
    ///
    /// # Errors
    ///
    /// If no label can have this key or value.
    pub fn eq(key: &str, value: &str) -> Result<Self, LabelError> {
        Ok(LabelSelector(Form::All(alloc::vec![Requirement::equals(key, value)?])))
    }

    /// Each of these labels is there and has this value; client-go's `SelectorFromSet`. Of no labels it is
    /// [`everything`](Self::everything); of one label with two values it is a selector that no object fits.
    ///
    /// ```
    /// use informer_core::object::{ObjectMeta, StringMap};
    /// use informer_core::selector::LabelSelector;
    ///
    /// let wanted = StringMap::from([("tier", "web"), ("app", "shop")]);
    /// let selector = LabelSelector::from_labels(&wanted)?;
    /// assert_eq!(selector, "app=shop,tier=web".parse().unwrap());
    ///
    /// let mut labels = wanted.clone();
    /// labels.insert("team", "blue");
    /// assert!(selector.matches(&ObjectMeta { labels, ..ObjectMeta::default() }));
    /// # Ok::<(), informer_core::selector::LabelError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If no label can have one of these keys or values.
    pub fn from_labels<K: AsRef<str>, V: AsRef<str>>(
        labels: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, LabelError> {
        let equal = |(key, value): (K, V)| Requirement::equals(key.as_ref(), value.as_ref());
        Ok(Self::all(labels.into_iter().map(equal).collect::<Result<_, _>>()?))
    }

    /// The label `key` is not there, or is not `value`.
    ///
    /// # Errors
    ///
    /// If no label can have this key or value.
    pub fn ne(key: &str, value: &str) -> Result<Self, LabelError> {
        syntax::check_value(value)?;
        Self::one(key, LabelTest::NotEquals(value.into()))
    }

    /// The label `key` is there and is one of `values`.
    ///
    /// # Errors
    ///
    /// If no label can have this key or one of these values, or if there are none: no text stands for the empty set,
    /// as `k in ()` holds the empty value. [`nothing`](Self::nothing) is what it would be.
    pub fn is_in<V: AsRef<str>>(key: &str, values: impl IntoIterator<Item = V>) -> Result<Self, LabelError> {
        Self::one(key, LabelTest::In(set(key, values)?))
    }

    /// The label `key` is not there, or is none of `values`.
    ///
    /// # Errors
    ///
    /// If no label can have this key or one of these values, or if there are none: no text stands for the empty set.
    /// [`everything`](Self::everything) is what it would be.
    pub fn not_in<V: AsRef<str>>(key: &str, values: impl IntoIterator<Item = V>) -> Result<Self, LabelError> {
        Self::one(key, LabelTest::NotIn(set(key, values)?))
    }

    /// The label `key` is there, with any value.
    ///
    /// # Errors
    ///
    /// If no label can have this key.
    pub fn exists(key: &str) -> Result<Self, LabelError> {
        Self::one(key, LabelTest::Exists)
    }

    /// The label `key` is not there.
    ///
    /// # Errors
    ///
    /// If no label can have this key.
    pub fn absent(key: &str) -> Result<Self, LabelError> {
        Self::one(key, LabelTest::Absent)
    }

    /// The label `key` is there, is a decimal integer of 64 bits, and is greater than `number`.
    ///
    /// # Errors
    ///
    /// If no label can have this key, or if `number` is negative: the server refuses such a selector, as a label value
    /// starts with a letter or a digit.
    pub fn greater(key: &str, number: i64) -> Result<Self, LabelError> {
        Self::one(key, LabelTest::Greater(syntax::check_number(&number.to_string())?))
    }

    /// The label `key` is there, is a decimal integer of 64 bits, and is less than `number`.
    ///
    /// # Errors
    ///
    /// As [`greater`](Self::greater).
    pub fn less(key: &str, number: i64) -> Result<Self, LabelError> {
        Self::one(key, LabelTest::Less(syntax::check_number(&number.to_string())?))
    }

    fn one(key: &str, test: LabelTest) -> Result<Self, LabelError> {
        Ok(LabelSelector(Form::All(alloc::vec![Requirement::new(key, test)?])))
    }

    /// Matches what both match.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Form::All(mut requirements), Form::All(more)) => {
                requirements.extend(more);
                Self::all(requirements)
            }
            (Form::Nothing, _) | (_, Form::Nothing) => Self::nothing(),
        }
    }

    fn all(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort();
        requirements.dedup();
        LabelSelector(Form::All(requirements))
    }

    /// True if an object with this metadata is selected.
    pub fn matches(&self, meta: &impl Meta) -> bool {
        self.matches_labels(|name| meta.label(name))
    }

    /// True if an object whose labels are looked up by `label` is selected; `None` says that there is no such label.
    pub fn matches_labels<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        match &self.0 {
            Form::Nothing => false,
            Form::All(requirements) => {
                requirements.iter().all(|requirement| requirement.matches(label(&requirement.key)))
            }
        }
    }

    /// True for the selector that has no requirement.
    pub fn is_everything(&self) -> bool {
        matches!(&self.0, Form::All(requirements) if requirements.is_empty())
    }

    /// True for [`nothing`](Self::nothing). A selector that contradicts itself, such as `a,!a`, matches nothing
    /// either, but can be sent and is not meant here.
    pub fn is_nothing(&self) -> bool {
        matches!(self.0, Form::Nothing)
    }

    /// The requirements in the order of their keys; none for everything, and none for
    /// [`nothing`](Self::is_nothing).
    pub fn requirements(&self) -> impl Iterator<Item = &Requirement> {
        match &self.0 {
            Form::Nothing => [].iter(),
            Form::All(requirements) => requirements.iter(),
        }
    }

    /// The value of the parameter `labelSelector` of a request, not yet percent-encoded; empty for everything.
    ///
    /// # Errors
    ///
    /// [`MatchesNothing`] for [`nothing`](Self::nothing): no request must be sent.
    pub fn to_query(&self) -> Result<String, MatchesNothing> {
        if self.is_nothing() { Err(MatchesNothing) } else { Ok(self.to_string()) }
    }
}

fn set<V: AsRef<str>>(key: &str, values: impl IntoIterator<Item = V>) -> Result<Box<[Box<str>]>, LabelError> {
    let mut set = Vec::<Box<str>>::new();
    for value in values {
        syntax::check_value(value.as_ref())?;
        set.push(value.as_ref().into());
    }
    if set.is_empty() {
        let rule = alloc::format!("the requirement on {key:?} has no value: name at least one");
        return Err(LabelError { part: LabelPart::Set, text: String::from("()"), rule: rule.into() });
    }
    set.sort();
    set.dedup();
    Ok(set.into_boxed_slice())
}

impl Requirement {
    fn new(key: &str, test: LabelTest) -> Result<Self, LabelError> {
        syntax::check_key(key)?;
        Ok(Requirement { key: key.into(), test })
    }

    fn equals(key: &str, value: &str) -> Result<Self, LabelError> {
        syntax::check_value(value)?;
        Self::new(key, LabelTest::Equals(value.into()))
    }

    /// The label that it is about.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What it asks of that label.
    pub fn test(&self) -> &LabelTest {
        &self.test
    }

    /// True if it holds for a label with this value; `None` says that there is no such label.
    pub fn matches(&self, value: Option<&str>) -> bool {
        // Go's ParseInt and ours agree: an optional sign, decimal digits, 64 bits, nothing else.
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.test {
            LabelTest::Equals(wanted) => value == Some(wanted),
            LabelTest::NotEquals(unwanted) => value != Some(unwanted),
            LabelTest::In(wanted) => value.is_some_and(|value| wanted.iter().any(|one| **one == *value)),
            LabelTest::NotIn(unwanted) => !value.is_some_and(|value| unwanted.iter().any(|one| **one == *value)),
            LabelTest::Exists => value.is_some(),
            LabelTest::Absent => value.is_none(),
            LabelTest::Greater(bound) => number().is_some_and(|number| number > *bound),
            LabelTest::Less(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match &self.test {
            LabelTest::Equals(value) => write!(f, "{key}={value}"),
            LabelTest::NotEquals(value) => write!(f, "{key}!={value}"),
            LabelTest::In(values) => write!(f, "{key} in ({})", values.join(",")),
            LabelTest::NotIn(values) => write!(f, "{key} notin ({})", values.join(",")),
            LabelTest::Exists => write!(f, "{key}"),
            LabelTest::Absent => write!(f, "!{key}"),
            LabelTest::Greater(bound) => write!(f, "{key}>{bound}"),
            LabelTest::Less(bound) => write!(f, "{key}<{bound}"),
        }
    }
}

impl fmt::Display for LabelSelector {
    /// The text that parses to this selector; `<nothing>`, which does not parse, for [`nothing`](Self::nothing). What
    /// goes into a request is [`to_query`](Self::to_query).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_nothing() {
            return f.write_str("<nothing>");
        }
        for (at, requirement) in self.requirements().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LabelSelector({self})")
    }
}

impl Default for LabelSelector {
    /// [`everything`](Self::everything).
    fn default() -> Self {
        Self::everything()
    }
}

impl FromStr for LabelSelector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let mut parser = Parser { text, lexer: Lexer::new(text), from: 0 };
        let mut requirements = Vec::new();
        if parser.lexer.peek().kind == Kind::End {
            return Ok(Self::everything());
        }
        loop {
            requirements.push(parser.requirement()?);
            let token = parser.lexer.next();
            if token.kind == Kind::End {
                return Ok(Self::all(requirements));
            }
            if token.kind != Kind::Comma {
                return Err(parser.unexpected(token, Expected::EndOfRequirement));
            }
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    lexer: Lexer<'a>,
    /// Where the requirement that is being read begins.
    from: usize,
}

impl Parser<'_> {
    fn unexpected(&self, token: Token<'_>, expected: Expected) -> SelectorError {
        self.error(token, SelectorProblem::Unexpected { found: token.text.into(), expected })
    }

    fn invalid(&self, token: Token<'_>) -> impl Fn(LabelError) -> SelectorError {
        move |error| self.error(token, SelectorProblem::Label(error))
    }

    fn error(&self, token: Token<'_>, problem: SelectorProblem) -> SelectorError {
        let requirement = self.from..token.at + token.text.len();
        SelectorError::new(SELECTOR, self.text, requirement, token.at, problem)
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let mut token = self.lexer.next();
        self.from = token.at;
        let absent = token.kind == Kind::Not;
        if absent {
            token = self.lexer.next();
        }
        if token.kind != Kind::Word {
            return Err(self.unexpected(token, if absent { Expected::Key } else { Expected::Requirement }));
        }
        let key = token.text;
        syntax::check_key(key).map_err(self.invalid(token))?;
        let key = key.into();
        if absent {
            return Ok(Requirement { key, test: LabelTest::Absent });
        }
        if matches!(self.lexer.peek().kind, Kind::Comma | Kind::End) {
            return Ok(Requirement { key, test: LabelTest::Exists });
        }
        let operator = self.lexer.next();
        let test = match (operator.kind, operator.text) {
            (Kind::Equal | Kind::DoubleEqual, _) => LabelTest::Equals(self.value()?),
            (Kind::NotEqual, _) => LabelTest::NotEquals(self.value()?),
            (Kind::Greater, _) => LabelTest::Greater(self.number()?),
            (Kind::Less, _) => LabelTest::Less(self.number()?),
            (Kind::Word, "in") => LabelTest::In(self.values()?),
            (Kind::Word, "notin") => LabelTest::NotIn(self.values()?),
            _ => return Err(self.unexpected(operator, Expected::Operator)),
        };
        Ok(Requirement { key, test })
    }

    /// The value after `=`, `==` or `!=`: a word, or nothing before a comma or the end.
    fn value(&mut self) -> Result<Box<str>, SelectorError> {
        let token = self.lexer.peek();
        if matches!(token.kind, Kind::Comma | Kind::End) {
            return Ok("".into());
        }
        if token.kind != Kind::Word {
            return Err(self.unexpected(token, Expected::Value));
        }
        self.lexer.next();
        syntax::check_value(token.text).map_err(self.invalid(token))?;
        Ok(token.text.into())
    }

    fn number(&mut self) -> Result<i64, SelectorError> {
        let token = self.lexer.next();
        if token.kind != Kind::Word {
            return Err(self.unexpected(token, Expected::Number));
        }
        syntax::check_number(token.text).map_err(self.invalid(token))
    }

    /// `(a,b,,c)`: words between commas, any of them empty. The text that we send names the empty value once.
    fn values(&mut self) -> Result<Box<[Box<str>]>, SelectorError> {
        let open = self.lexer.next();
        if open.kind != Kind::Open {
            return Err(self.unexpected(open, Expected::Set));
        }
        let mut values = Vec::new();
        loop {
            let mut token = self.lexer.next();
            let mut expected = Expected::ValueOfSet;
            if token.kind == Kind::Word {
                values.push(token);
                expected = Expected::EndOfValue;
                token = self.lexer.next();
            } else {
                values.push(Token { text: "", ..token });
            }
            if token.kind == Kind::Close {
                break;
            }
            if token.kind != Kind::Comma {
                return Err(self.unexpected(token, expected));
            }
        }
        values.sort_by_key(|value| value.text);
        values.dedup_by_key(|value| value.text);
        // As the server has it: first whether it is a set at all, then its values.
        values
            .into_iter()
            .map(|value| {
                syntax::check_value(value.text).map_err(self.invalid(value))?;
                Ok(value.text.into())
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::StringMap;
    use proptest::prelude::*;

    fn selector(text: &str) -> LabelSelector {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Whether `text` matches an object with these labels.
    fn holds(text: &str, labels: &[(&'static str, &'static str)]) -> bool {
        selector(text).matches_labels(|name| labels.iter().find(|(key, _)| *key == name).map(|(_, value)| *value))
    }

    #[test]
    fn b104_an_absent_label_is_unequal_to_everything() {
        for labels in [&[][..], &[("x", "1")]] {
            for (text, expected) in [
                ("env notin (prod)", true),
                ("env!=prod", true),
                ("env in (prod)", false),
                ("!env", true),
                ("env", false),
                ("env,env notin (prod)", false),
            ] {
                assert_eq!(holds(text, labels), expected, "{text} on {labels:?}");
            }
        }
    }

    #[test]
    fn labels_are_a_selector_of_what_has_all_of_them() {
        let selector = |labels: &[(&str, &str)]| LabelSelector::from_labels(labels.iter().copied());
        let wanted = selector(&[("b", ""), ("a", "1"), ("b", "")]).unwrap();
        assert_eq!(wanted.to_string(), "a=1,b=");
        assert_eq!(LabelSelector::from_labels(&StringMap::from([("a", "1"), ("b", "")])).unwrap(), wanted);
        assert!(selector(&[]).unwrap().is_everything());
        let twice = selector(&[("a", "1"), ("a", "2")]).unwrap();
        for value in ["1", "2", "3"] {
            assert!(!twice.matches_labels(|_| Some(value)), "{value}");
        }
        for (labels, part) in
            [([("a", "1"), ("-a", "1")], LabelPart::Key), ([("a", "1"), ("b", "x y")], LabelPart::Value)]
        {
            assert_eq!(selector(&labels).unwrap_err().part(), part, "{labels:?}");
        }
    }

    #[test]
    fn b105_an_object_without_labels_is_no_wildcard() {
        use crate::object::ObjectMeta;
        let metas = ["{}", r#"{"labels":null}"#, r#"{"labels":{}}"#]
            .map(|json| serde_json::from_str::<ObjectMeta>(json).unwrap());
        for (text, expected) in [
            ("", true),
            ("app=a", false),
            ("app==a", false),
            ("app!=a", true),
            ("app in (a)", false),
            ("app notin (a)", true),
            ("app", false),
            ("!app", true),
            ("app>1", false),
            ("app<1", false),
        ] {
            for meta in &metas {
                assert_eq!(selector(text).matches(meta), expected, "{text}");
            }
        }
    }

    #[test]
    fn b106_an_empty_value_is_a_value() {
        for (text, empty, absent) in [
            ("k", true, false),
            ("!k", false, true),
            ("k=", true, false),
            ("k!=", false, true),
            ("k in ()", true, false),
            ("k notin ()", false, true),
        ] {
            assert_eq!(holds(text, &[("k", "")]), empty, "{text} on an empty value");
            assert_eq!(holds(text, &[]), absent, "{text} without the label");
        }
    }

    #[test]
    fn b107_what_is_invalid_never_selects_everything() {
        let long = std::format!("a={}", "v".repeat(64));
        for text in
            [&*long, "-a=b", "a=b=c", "<nothing>", ",", "a,", ",a", "a,,b", "a b", "a in b", "a in", "a in (b c)"]
        {
            assert!(text.parse::<LabelSelector>().is_err(), "{text}");
        }
        assert!(LabelSelector::eq("a", &"v".repeat(64)).is_err());
        assert!(LabelSelector::exists("a/b/c").is_err());
        assert!(LabelSelector::is_in("a", [""; 0]).is_err());
    }

    #[test]
    fn b107_nothing_cannot_be_sent() {
        let nothing = LabelSelector::nothing();
        assert_eq!(nothing.to_query(), Err(MatchesNothing));
        assert!(nothing.to_string().parse::<LabelSelector>().is_err());
        assert!(!nothing.matches_labels(|_| Some("v")) && !nothing.matches_labels(|_| None));
        let both = LabelSelector::everything().and(nothing.clone()).and(LabelSelector::exists("a").unwrap());
        assert_eq!(both, nothing);
        assert_eq!(both.requirements().count(), 0);
        assert_eq!(LabelSelector::everything().to_query().unwrap(), "");
    }

    #[test]
    fn b108_comparisons_are_exact_and_want_integers() {
        assert!(holds("a>9007199254740992", &[("a", "9007199254740993")]));
        assert!(!holds("a>9007199254740992", &[("a", "9007199254740992")]));
        assert!(holds("a<9223372036854775807", &[("a", "-9223372036854775808")]));
        for value in ["abc", "1.5", "", "9223372036854775808", "1_0", " 1"] {
            assert!(!holds("a>0", &[("a", value)]) && !holds("a<5", &[("a", value)]), "{value:?}");
        }
        assert!(!holds("a>0", &[]) && !holds("a<5", &[]));
        for text in ["a>x", "a>", "a>-1", "a>+1", "a>1.5", "a>9223372036854775808", "a>=1", "a<b", "a> 1 2"] {
            assert!(text.parse::<LabelSelector>().is_err(), "{text}");
        }
        assert!(LabelSelector::greater("a", -1).is_err());
        assert_eq!(LabelSelector::less("a", 7).unwrap(), selector("a < 007"));
    }

    #[test]
    fn b109_spaces_and_operators_are_read_as_the_server_reads_them() {
        for (text, canonical) in [
            ("a=1", "a=1"),
            ("a==1", "a=1"),
            (" a = 1 ", "a=1"),
            ("a in (1)", "a in (1)"),
            ("a in (1,)", "a in (,1)"),
            ("a in(2,1,1)", "a in (1,2)"),
            ("a in (,)", "a in ()"),
            ("a in (b,,)", "a in (,b)"),
            ("x in (foo,,baz),y,z notin ()", "x in (,baz,foo),y,z notin ()"),
            ("a,!b,c!=d", "a,!b,c!=d"),
            ("x=,z=", "x=,z="),
            ("z=1,a=1,z=1", "a=1,z=1"),
            ("in in (in,notin)", "in in (in,notin)"),
            ("notin=in", "notin=in"),
            ("\ta\n,\r! b", "a,!b"),
            ("example.com/a>5", "example.com/a>5"),
            ("", ""),
            ("  ", ""),
        ] {
            assert_eq!(selector(text).to_string(), canonical, "{text:?}");
        }
        for text in ["a===1", "!a=b", "a||b", "a in (1", "a<b", "a=!b", "a!b", "!", "!!a", "a in 1", "()", "a in (1))"]
        {
            assert!(text.parse::<LabelSelector>().is_err(), "{text}");
        }
        let parsed = selector("a=1");
        let values: Vec<_> = parsed.requirements().map(|one| (one.key(), one.test().clone())).collect();
        assert_eq!(values, [("a", LabelTest::Equals("1".into()))]);
    }

    #[test]
    fn errors_name_the_place_and_what_was_expected() {
        let error = |text: &str| text.parse::<LabelSelector>().unwrap_err();
        assert_eq!(error("a in (1").to_string(), "label selector \"a in (1\": ends at byte 7, expected \",\" or \")\"");
        assert_eq!(
            error("a===1").to_string(),
            "label selector \"a===1\": found \"=\" at byte 3, expected a value, \",\" or the end"
        );
        assert_eq!(error("a b").position(), 2);
        assert_eq!(error("c,a in (-b,_d").requirement(), "a in (-b,_d"); // not a set, whatever its values
        assert_eq!((error("c,a in (_,-b)").requirement(), error("c,a in (_,-b)").position()), ("a in (_,-b", 10));
        let bad_key = error("ok,a||b=1");
        assert!(bad_key.to_string().starts_with("label selector \"ok,a||b=1\": at byte 3: \"a||b\" is no label key: "));
        let SelectorProblem::Label(label) = bad_key.problem() else { panic!("{bad_key}") };
        assert_eq!(label.text(), "a||b");
        assert!(core::error::Error::source(&bad_key).is_none(), "its text is told already");
    }

    fn requirements() -> impl Strategy<Value = LabelSelector> {
        let key =
            prop_oneof!["[a-z]{1,3}", "[a-z]{1,3}\\.[a-z]{1,3}/[A-Za-z0-9]([-_.A-Z]{0,3}[a-z0-9])?", Just("in".into())];
        let value = || prop_oneof![Just(String::new()), Just("notin".into()), "[A-Za-z0-9]([-._a-z]{0,3}[a-z0-9])?"];
        let set = || prop::collection::vec(value(), 1..4);
        let one = (key, value(), set(), any::<i64>(), 0..8).prop_map(|(key, value, set, number, which)| match which {
            0 => LabelSelector::eq(&key, &value),
            1 => LabelSelector::ne(&key, &value),
            2 => LabelSelector::is_in(&key, &set),
            3 => LabelSelector::not_in(&key, &set),
            4 => LabelSelector::exists(&key),
            5 => LabelSelector::absent(&key),
            6 => LabelSelector::greater(&key, number & i64::MAX),
            _ => LabelSelector::less(&key, number & i64::MAX),
        });
        prop::collection::vec(one, 0..5)
            .prop_map(|all| all.into_iter().map(Result::unwrap).fold(LabelSelector::everything(), LabelSelector::and))
    }

    proptest! {
        #[test]
        fn what_is_printed_parses_to_the_same_selector(selector in requirements()) {
            prop_assert_eq!(&selector.to_query().unwrap().parse::<LabelSelector>().unwrap(), &selector);
        }

        #[test]
        fn no_text_panics_and_positions_lie_inside(text in "[a-c0-9=!<>(), \t|é\u{0}/in]{0,24}") {
            match text.parse::<LabelSelector>() {
                Ok(selector) => prop_assert_eq!(selector.to_string().parse::<LabelSelector>().unwrap(), selector),
                Err(error) => prop_assert!(error.position() <= text.len() && text.is_char_boundary(error.position())),
            }
        }
    }
}
