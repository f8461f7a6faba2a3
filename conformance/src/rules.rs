//! `rules.tsv`: which scenarios and tests show which rule of the contract.
//!
//! A line is `RULE<TAB>what it says<TAB>scenario names or Rust test paths, space separated`; `#` begins a comment line. A
//! name without `::` is the name of a scenario file; `informer_core::wire::tests::name` names a test of that crate; a `-`
//! alone says that nothing shows the rule yet.
//!
//! ```
//! use informer_conformance::rules::{Proof, parse};
//!
//! let rules = parse("# a comment\nC7\tpages make one list\tpages-make-one-list informer_core::x::tests::y\n").unwrap();
//! assert_eq!((rules[0].id.as_str(), rules[0].says.as_str()), ("C7", "pages make one list"));
//! assert_eq!(rules[0].proofs[0], Proof::Scenario("pages-make-one-list".into()));
//! assert!(parse("C7\tpages make one list\t").unwrap_err().to_string().contains("line 1"), "nothing shows it");
//! ```

use crate::form::{self, FormError};
use std::collections::BTreeSet;
use std::path::Path;

/// One rule, and what shows that it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its name in the contract, unique in the file.
    pub id: String,
    /// What it says.
    pub says: String,
    /// What shows it; none if the file says that nothing does yet.
    pub proofs: Vec<Proof>,
}

/// What shows a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A scenario, by its name.
    Scenario(String),
    /// A Rust test, by its path from its crate on.
    Test(String),
}

/// Reads the rules of a file.
///
/// # Errors
/// The file cannot be read, or breaks a rule of the format; the error names the line.
pub fn from_file(file: impl AsRef<Path>) -> Result<Vec<Rule>, FormError> {
    let file = file.as_ref();
    parse(&form::read(file)?).map_err(|error| error.in_file(file))
}

/// Reads rules.
///
/// # Errors
/// `text` breaks a rule of the format: a line has not three columns or an empty one, a rule stands twice, or there is no
/// rule at all.
pub fn parse(text: &str) -> Result<Vec<Rule>, FormError> {
    let mut rules = Vec::new();
    let mut seen = BTreeSet::new();
    for (n, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let fault = |problem: String| Err(FormError::at(format!("line {}", n + 1), problem));
        let columns: Vec<_> = line.split('\t').map(str::trim).collect();
        let [id, says, proofs] = columns[..] else {
            return fault(format!("has {} columns, but a rule has three, divided by tabs", columns.len()));
        };
        if id.is_empty() || says.is_empty() {
            return fault("a rule needs a name and what it says".into());
        }
        if !seen.insert(id) {
            return fault(format!("rule {id} stands twice; put what shows it into one line"));
        }
        if proofs.is_empty() {
            return fault(format!("nothing shows rule {id}; name a scenario or a test, or say so with \"-\""));
        }
        let names = proofs.split_whitespace().filter(|_| proofs != "-");
        let proofs =
            names.map(|name| if name.contains("::") { Proof::Test(name.into()) } else { Proof::Scenario(name.into()) });
        rules.push(Rule { id: id.into(), says: says.into(), proofs: proofs.collect() });
    }
    if rules.is_empty() { Err(FormError::at("", "holds no rule")) } else { Ok(rules) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_a_path_are_tests_and_others_are_scenarios() {
        let rules = parse("I1\tone\ta b::c\n\n# no rule\nI2\ttwo\t-\n").unwrap();
        assert_eq!(rules.iter().map(|rule| rule.id.as_str()).collect::<Vec<_>>(), ["I1", "I2"]);
        assert_eq!(rules[0].proofs, [Proof::Scenario("a".into()), Proof::Test("b::c".into())]);
        assert_eq!(rules[1].proofs, []);
    }

    #[test]
    fn every_fault_names_its_line_and_the_way_out() {
        for (text, place, problem) in [
            ("I1\tone", "line 1", "has 2 columns"),
            ("#\nI1\tone\ta\tb", "line 2", "has 4 columns"),
            ("I1\tone\t ", "line 1", "nothing shows rule I1"),
            ("I1\t\ta", "line 1", "needs a name"),
            ("I1\tone\ta\nI1\ttwo\tb", "line 2", "stands twice"),
            ("# only\n", "", "holds no rule"),
        ] {
            let fault = parse(text).unwrap_err();
            assert_eq!(fault.place(), place, "{fault}");
            assert!(fault.to_string().contains(problem), "{fault}");
        }
    }
}
