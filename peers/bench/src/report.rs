//! [`Report`]: what was measured, as a table of medians, as bounds that hold or not, and as a file.
//!
//! ```
//! use informer_peers::report::{Better, Bound, Report, Row, Side};
//!
//! let sides = vec![
//!     Side { name: "ours", values: vec![vec![Some(4.0), Some(5.0), Some(90.0)]] },
//!     Side { name: "theirs", values: vec![vec![Some(10.0), Some(12.0), Some(11.0)]] },
//! ];
//! let rows = vec![Row { name: "sync", unit: "s" }];
//! let bounds = vec![Bound::new("sync in half the time", ("ours", 0), ("theirs", 0), Better::AtMost(0.5))];
//! let report = Report { title: "example".into(), rows, sides, bounds };
//! assert_eq!(report.median("theirs", 0), Some(11.0));
//! assert!(report.holds() && report.markdown().contains("| 0.45 | at most 0.5 | yes |"));
//! ```

use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;

/// A quantity.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// What it is.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
}

/// One who was measured.
#[derive(Clone, Debug)]
pub struct Side {
    /// Its name: the head of its column.
    pub name: &'static str,
    /// For each row, what each round gave; nothing where the side does not do that.
    pub values: Vec<Vec<Option<f64>>>,
}

/// Which ratios are good enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Better {
    /// This or less.
    AtMost(f64),
    /// This or more.
    AtLeast(f64),
}

impl Better {
    fn accepts(self, ratio: f64) -> bool {
        match self {
            Better::AtMost(limit) => ratio <= limit,
            Better::AtLeast(limit) => ratio >= limit,
        }
    }
}

impl std::fmt::Display for Better {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Better::AtMost(limit) => write!(f, "at most {}", rounded(*limit)),
            Better::AtLeast(limit) => write!(f, "at least {}", rounded(*limit)),
        }
    }
}

/// What a median of a side must be: beside another median of the same run, or by itself.
#[derive(Clone, Debug)]
pub struct Bound {
    what: &'static str,
    /// The side that it binds, and a row.
    ours: (&'static str, usize),
    /// What that is divided by: the least of these; by nothing if there is none.
    by: Vec<(&'static str, usize)>,
    better: Better,
    /// What does less than anybody whom this may bind can do.
    least: Option<(&'static str, usize)>,
}

impl Bound {
    /// Binds the ratio of two medians, each named by side and row.
    pub fn new(what: &'static str, ours: (&'static str, usize), by: (&'static str, usize), better: Better) -> Self {
        Bound { what, ours, by: vec![by], better, least: None }
    }

    /// Binds the ratio of a median and the least of others: the better of several peers, where less is better.
    ///
    /// # Panics
    ///
    /// If there are no others.
    pub fn beside_least(
        what: &'static str,
        ours: (&'static str, usize),
        others: &[(&'static str, usize)],
        better: Better,
    ) -> Self {
        assert!(!others.is_empty(), "{what}: a ratio needs something to divide by");
        Bound { what, ours, by: others.to_vec(), better, least: None }
    }

    /// Binds a median by itself, in the unit of its row: for what is the same on every machine, such as bytes and counts,
    /// or is promised as it stands.
    pub fn absolute(what: &'static str, ours: (&'static str, usize), better: Better) -> Self {
        Bound { what, ours, by: Vec::new(), better, least: None }
    }

    /// The same, with what does the least work of this kind that there can be. The report says where that would miss the
    /// bound too; it is judged no otherwise.
    #[must_use]
    pub fn over(mut self, least: (&'static str, usize)) -> Self {
        self.least = Some(least);
        self
    }
}

/// A whole run.
#[derive(Clone, Debug)]
pub struct Report {
    /// What was run, with its sizes.
    pub title: String,
    /// The quantities.
    pub rows: Vec<Row>,
    /// The columns.
    pub sides: Vec<Side>,
    /// What must hold.
    pub bounds: Vec<Bound>,
}

/// A bound with its numbers.
struct Judged<'a> {
    bound: &'a Bound,
    value: Option<f64>,
    /// What the value was set beside, by side and with its number; nothing for one that stands by itself.
    by: Option<(&'static str, Option<f64>)>,
    ratio: Option<f64>,
    holds: bool,
    /// The ratio of what does the least, if that is not good enough either.
    out_of_reach: Option<f64>,
}

impl Report {
    /// The median of a side's rounds; of an even number of them, the one below the middle. `None` if a round has no
    /// value: a side that failed once has not been measured.
    pub fn median(&self, side: &str, row: usize) -> Option<f64> {
        let values = self.sides.iter().find(|known| known.name == side)?.values.get(row)?;
        let mut values: Vec<f64> = values.iter().copied().collect::<Option<_>>()?;
        values.sort_by(f64::total_cmp);
        values.get(values.len().checked_sub(1)? / 2).copied()
    }

    /// True if every bound does. One without numbers does not.
    pub fn holds(&self) -> bool {
        self.judged().iter().all(|judged| judged.holds)
    }

    fn judged(&self) -> Vec<Judged<'_>> {
        self.bounds.iter().map(|bound| self.judge(bound)).collect()
    }

    fn judge<'a>(&self, bound: &'a Bound) -> Judged<'a> {
        let Bound { ours, better, .. } = bound;
        let (value, by) = (self.median(ours.0, ours.1), self.beside(bound));
        let ratio = value.zip(by.and_then(|(_, by)| by)).map(|(value, by)| value / by);
        let judged = if by.is_some() { ratio } else { value };
        let least = bound.least.and_then(|(side, row)| self.median(side, row));
        let least = least.zip(by.and_then(|(_, by)| by)).map(|(least, by)| least / by);
        Judged {
            bound,
            value,
            by,
            ratio,
            holds: judged.is_some_and(|judged| better.accepts(judged)),
            out_of_reach: least.filter(|least| !better.accepts(*least)),
        }
    }

    /// The least of what a bound is set beside. One that has no number leaves none to the bound: it may have been less.
    fn beside(&self, bound: &Bound) -> Option<(&'static str, Option<f64>)> {
        let others = bound.by.iter().map(|(side, row)| (*side, self.median(side, *row)));
        others.min_by(|(_, a), (_, b)| match (a, b) {
            (Some(a), Some(b)) => a.total_cmp(b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        })
    }

    fn row(&self, row: usize) -> String {
        self.rows.get(row).map_or_else(String::new, |row| format!("{}, {}", row.name, row.unit))
    }

    /// Two tables: the medians, and the bounds.
    pub fn markdown(&self) -> String {
        let mut text = format!("### {}\n\n| median |", self.title);
        self.sides.iter().for_each(|side| text.push_str(&format!(" {} |", side.name)));
        text.push_str("\n|---|");
        text.push_str(&"---:|".repeat(self.sides.len()));
        for row in 0..self.rows.len() {
            let _ = write!(text, "\n| {} |", self.row(row));
            self.sides.iter().for_each(|side| {
                let _ = write!(text, " {} |", shown(self.median(side.name, row)));
            });
        }
        text.push_str("\n\n| bound | side | is | beside | ratio | must be | holds |\n|---|---|---:|---:|---:|---|---|");
        for judged in self.judged() {
            let Judged { bound, value, by, ratio, holds, out_of_reach: _ } = judged;
            let (value, ratio) = (shown(value), shown(ratio));
            let yes = if holds { "yes" } else { "**NO**" };
            let beside = by.map_or_else(|| shown(None), |(side, by)| format!("{side} {}", shown(by)));
            let _ = write!(
                text,
                "\n| {} | {} | {value} | {beside} | {ratio} | {} | {yes} |",
                bound.what, bound.ours.0, bound.better
            );
        }
        text.push('\n');
        for Judged { bound, out_of_reach, .. } in self.judged() {
            if let (Some(ratio), Some((side, _))) = (out_of_reach, bound.least) {
                let (ratio, must) = (shown(Some(ratio)), bound.better);
                let _ =
                    write!(text, "\n{}: out of reach in this run. {side} comes to {ratio}, not {must}.", bound.what);
            }
        }
        text
    }

    /// The same for programs, with what each round gave.
    pub fn json(&self) -> Value {
        let sides: serde_json::Map<String, Value> = self
            .sides
            .iter()
            .map(|side| {
                let rows = (0..self.rows.len()).map(|row| {
                    (self.row(row), json!({"median": self.median(side.name, row), "rounds": side.values.get(row)}))
                });
                (side.name.to_string(), Value::Object(rows.collect()))
            })
            .collect();
        let bounds: Vec<Value> = self
            .judged()
            .iter()
            .map(|judged| {
                let (bound, beside) = (judged.bound, judged.by.unzip());
                json!({
                    "bound": bound.what, "side": bound.ours.0, "value": judged.value, "beside": beside.0,
                    "besideValue": beside.1.flatten(), "ratio": judged.ratio, "must": bound.better.to_string(),
                    "holds": judged.holds, "outOfReach": judged.out_of_reach,
                })
            })
            .collect();
        json!({"title": self.title, "sides": sides, "bounds": bounds, "holds": self.holds()})
    }

    /// Writes [`json`](Self::json) into a file.
    ///
    /// # Errors
    ///
    /// With the file's name, if it cannot be written.
    pub fn write(&self, file: &Path) -> Result<(), String> {
        let text = format!("{:#}\n", self.json());
        let folder = file.parent().unwrap_or(Path::new("."));
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(file, text));
        written.map_err(|error| format!("cannot write {}: {error}", file.display()))
    }
}

/// A limit as people write it: a sixth without sixteen digits.
fn rounded(limit: f64) -> f64 {
    (limit * 1e4).round() / 1e4
}

/// Three digits that count.
fn shown(value: Option<f64>) -> String {
    match value {
        None => "–".into(),
        Some(value) if value.abs() >= 100.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 10.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(ours: &[Option<f64>], better: Better) -> Report {
        Report {
            title: "t".into(),
            rows: vec![Row { name: "speed", unit: "per s" }],
            sides: vec![
                Side { name: "us", values: vec![ours.to_vec()] },
                Side { name: "them", values: vec![vec![Some(1.0), Some(2.0), Some(3.0)]] },
            ],
            bounds: vec![Bound::new("faster", ("us", 0), ("them", 0), better)],
        }
    }

    #[test]
    fn a_median_is_one_of_the_rounds() {
        let report = report(&[Some(9.0), Some(1.0), Some(5.0)], Better::AtLeast(2.5));
        assert_eq!((report.median("us", 0), report.median("them", 0)), (Some(5.0), Some(2.0)));
        assert_eq!((report.median("nobody", 0), report.median("us", 7)), (None, None));
        assert!(report.holds());
    }

    #[test]
    fn a_bound_that_is_missed_by_a_little_is_missed() {
        assert!(!report(&[Some(4.99), Some(4.99), Some(4.99)], Better::AtLeast(2.5)).holds());
        assert!(report(&[Some(5.0), Some(5.0), Some(5.0)], Better::AtLeast(2.5)).holds());
        assert!(!report(&[Some(5.01), Some(5.01), Some(5.01)], Better::AtMost(2.5)).holds());
    }

    #[test]
    fn a_bound_beside_several_is_set_beside_the_least() {
        let mut report = report(&[Some(9.0)], Better::AtMost(2.0));
        report.sides.push(Side { name: "others", values: vec![vec![Some(4.0)]] });
        let beside = |others: &[_]| Bound::beside_least("b", ("us", 0), others, Better::AtMost(3.0));
        report.bounds = vec![beside(&[("others", 0)]), beside(&[("others", 0), ("them", 0)])];
        let holds: Vec<bool> = report.judged().iter().map(|judged| judged.holds).collect();
        assert_eq!(holds, [true, false], "9 / 4 and 9 / 2");
        report.bounds = vec![beside(&[("others", 0), ("nobody", 0)])];
        assert!(!report.holds(), "nobody may have been better");
    }

    #[test]
    fn a_bound_that_stands_by_itself_is_judged_in_the_unit_of_its_row() {
        let mut report = report(&[Some(9.0)], Better::AtMost(0.0));
        report.bounds = vec![Bound::absolute("at most 9", ("us", 0), Better::AtMost(9.0))];
        assert!(report.holds());
        assert!(report.markdown().contains("| at most 9 | us | 9.00 | – | – | at most 9 | yes |"));
        report.bounds = vec![Bound::absolute("nobody", ("nobody", 0), Better::AtMost(9.0))];
        assert!(!report.holds());
    }

    #[test]
    fn a_bound_that_the_least_work_misses_is_called_out_of_reach_and_judged_as_before() {
        let mut report = report(&[Some(3.0)], Better::AtMost(1.0));
        report.sides.push(Side { name: "bare", values: vec![vec![Some(2.5)]] });
        let over = |least| Bound::new("quick", ("us", 0), ("them", 0), Better::AtMost(1.0)).over(least);
        report.bounds = vec![over(("bare", 0))];
        assert!(report.markdown().ends_with("\nquick: out of reach in this run. bare comes to 1.25, not at most 1."));
        assert_eq!((report.holds(), &report.json()["bounds"][0]["outOfReach"]), (false, &json!(1.25)));
        report.sides[2].values = vec![vec![Some(2.0)]];
        assert!(report.markdown().ends_with("| **NO** |\n"), "within reach, and missed");
        report.bounds = vec![over(("nobody", 0))];
        assert_eq!(report.json()["bounds"][0]["outOfReach"], Value::Null);
    }

    #[test]
    fn a_limit_is_written_as_people_write_it() {
        assert_eq!(Better::AtMost(1.0 / 6.0).to_string(), "at most 0.1667");
    }

    #[test]
    fn a_bound_without_numbers_does_not_hold() {
        let report = report(&[Some(9.0), None, Some(9.0)], Better::AtLeast(0.0));
        assert!(!report.holds());
        assert!(report.markdown().contains("| faster | us | – | them 2.00 | – | at least 0 | **NO** |"));
        assert_eq!(report.json()["bounds"][0]["holds"], false);
    }
}
