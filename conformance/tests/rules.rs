//! `rules.tsv` is complete and true: each rule has what shows it, each scenario and test in it exists, and a scenario
//! names the rules that it is listed for.

use informer_conformance::scenario::ScenarioFile;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Rules that nothing shows yet. To write their tests is to shorten this list.
const NOT_SHOWN: [&str; 2] = ["B004", "B016"];

/// The families of rules and how many each has, in the order of the file. Cases have numbers with gaps.
const FAMILIES: [(&str, u32, u32); 6] =
    [("C", 1, 26), ("W", 0, 17), ("LIST-", 1, 8), ("WATCH-", 1, 6), ("DEC-", 1, 5), ("T", 1, 30)];
const CASES: [u32; 47] = [
    3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 18, 19, 20, 22, 23, 24, 26, 29, 30, 31, 32, 33, 35, 36, 37, 39, 41, 43,
    50, 53, 54, 55, 57, 58, 59, 60, 61, 62, 63, 64, 65, 67, 68, 69, 73,
];

struct Rule {
    id: String,
    shown_by: Vec<String>,
}

fn home() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn rules() -> Vec<Rule> {
    let text = fs::read_to_string(home().join("rules.tsv")).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let rules = lines.map(|line| {
        let fields: Vec<_> = line.split('\t').collect();
        let [id, says, shown_by] = fields[..] else { panic!("{line:?} has not three fields") };
        assert!(!says.trim().is_empty(), "{id} says nothing");
        let shown_by: Vec<_> = shown_by.split(' ').filter(|one| *one != "-").map(str::to_owned).collect();
        assert!(shown_by.iter().all(|one| !one.is_empty()), "{id} has two spaces in a row");
        Rule { id: id.to_owned(), shown_by }
    });
    rules.collect()
}

/// `about` of each scenario, by stem.
fn abouts() -> BTreeMap<String, String> {
    let files = fs::read_dir(home().join("scenarios")).unwrap().map(|entry| entry.unwrap().path());
    let read = |file: PathBuf| {
        let file = ScenarioFile::from_file(&file).unwrap_or_else(|fault| panic!("{fault}"));
        if let ScenarioFile::Informer(scenario) = file { Some((scenario.name, scenario.about)) } else { None }
    };
    files.filter_map(read).collect()
}

/// The rules that an `about` begins with: those of its first words that are ids.
fn named(about: &str) -> BTreeSet<&str> {
    let (ids, _) = about.split_once(':').unwrap_or_default();
    ids.split(", ").collect()
}

#[test]
fn every_rule_is_there_once_and_in_order() {
    let mut want: Vec<_> = FAMILIES
        .iter()
        .flat_map(|(family, first, last)| (*first..=*last).map(move |number| format!("{family}{number}")))
        .collect();
    want.extend(CASES.map(|number| format!("B{number:03}")));
    want.extend((1..=24).map(|number| format!("KW{number}")));
    let got: Vec<_> = rules().into_iter().map(|rule| rule.id).collect();
    assert_eq!(got, want);
}

#[test]
fn every_rule_is_shown_but_for_those_that_are_known_not_to_be() {
    let bare: Vec<_> = rules().into_iter().filter(|rule| rule.shown_by.is_empty()).map(|rule| rule.id).collect();
    assert_eq!(bare, NOT_SHOWN);
}

#[test]
fn every_scenario_of_a_rule_names_it() {
    let abouts = abouts();
    for Rule { id, shown_by } in rules() {
        for stem in shown_by.iter().filter(|one| !one.contains("::")) {
            let about = abouts.get(stem).unwrap_or_else(|| panic!("{id}: there is no scenario {stem}"));
            assert!(named(about).contains(id.as_str()), "{stem}: about does not begin with {id}: {about:?}");
        }
    }
}

#[test]
fn every_rule_that_a_scenario_names_lists_it() {
    let rules: BTreeMap<_, _> = rules().into_iter().map(|rule| (rule.id, rule.shown_by)).collect();
    for (stem, about) in abouts() {
        for id in named(&about) {
            if let Some(shown_by) = rules.get(id) {
                assert!(
                    shown_by.contains(&stem),
                    "{stem} says that it shows {id}, but rules.tsv does not list it there"
                );
            }
        }
    }
}

/// All Rust sources below `folder`.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// True if `text` has a test of this name.
fn has_test(text: &str, name: &str) -> bool {
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let is_it = |line: &str| line.trim_start_matches("async ").starts_with(&format!("fn {name}("));
    // Attributes stand above a function, the one that makes it a test among them.
    let is_test = |at: usize| {
        lines[..at].iter().rev().take_while(|line| line.starts_with("#[")).any(|line| line.contains("test"))
    };
    lines.iter().enumerate().any(|(at, line)| is_it(line) && is_test(at))
}

#[test]
fn every_test_of_a_rule_exists_where_its_path_says() {
    let mut checked = 0;
    for Rule { id, shown_by } in rules() {
        for path in shown_by.iter().filter(|one| one.contains("::")) {
            let segments: Vec<_> = path.split("::").collect();
            let [package, modules @ .., name] = &segments[..] else { panic!("{id}: {path} names no test") };
            let folder = match *package {
                "informer_core" => "core",
                "informer_runtime" => "runtime",
                "informer_tokio" => "runtime-tokio",
                "informer_blocking" => "runtime-blocking",
                "informer_conformance" => "conformance",
                other => panic!("{id}: {other} is no package of ours"),
            };
            let package = home().parent().unwrap().join(folder);
            let mut files = Vec::new();
            for part in ["src", "tests"] {
                let part = package.join(part);
                if part.is_dir() {
                    sources(&part, &mut files);
                }
            }
            // A module is a file or a folder, but for `tests` inside a file.
            let lies_there = |file: &PathBuf| {
                let file = file.with_extension("");
                modules
                    .iter()
                    .filter(|module| **module != "tests")
                    .all(|module| file.iter().any(|part| part == *module))
            };
            let found = files.iter().filter(|file| lies_there(file)).any(|file| {
                let text = fs::read_to_string(file).unwrap();
                has_test(&text, name)
            });
            assert!(found, "{id}: there is no test {path}");
            checked += 1;
        }
    }
    assert!(checked > 0, "no test was looked for");
}
