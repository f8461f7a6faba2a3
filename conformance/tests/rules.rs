//! `rules.tsv` is complete, and its scenarios name the rules that they are listed for. (What it names exists: that is
//! checked by the program that makes the table of it, `examples/rules.rs`.)

use informer_conformance::rules::{self, Proof, Rule};
use informer_conformance::scenario::ScenarioFile;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The families of rules, in the order of the file: their first and last numbers.
const FAMILIES: [(&str, u32, u32); 6] =
    [("C", 1, 26), ("W", 0, 17), ("LIST-", 1, 8), ("WATCH-", 1, 6), ("DEC-", 1, 5), ("T", 1, 30)];
/// Cases have numbers with gaps.
const CASES: [u32; 47] = [
    3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 18, 19, 20, 22, 23, 24, 26, 29, 30, 31, 32, 33, 35, 36, 37, 39, 41, 43,
    50, 53, 54, 55, 57, 58, 59, 60, 61, 62, 63, 64, 65, 67, 68, 69, 73,
];
/// Traps of queues, informers, handlers and factories: the first and the last.
const LATER_TRAPS: (u32, u32) = (31, 86);
/// Cases of caches, indexes, selectors, handlers, factories, queues and controllers that something shows.
const LATER_CASES: [u32; 84] = [
    49, 74, 75, 77, 78, 79, 80, 81, 83, 84, 85, 86, 87, 88, 89, 90, 91, 92, 93, 94, 95, 96, 97, 98, 99, 100, 102, 103,
    104, 105, 106, 107, 108, 109, 110, 112, 113, 114, 115, 116, 117, 118, 119, 120, 121, 122, 123, 124, 125, 126, 127,
    128, 129, 130, 131, 132, 133, 134, 135, 136, 137, 138, 139, 140, 142, 143, 144, 145, 147, 148, 149, 150, 151, 152,
    153, 154, 155, 157, 158, 161, 162, 163, 165, 166,
];
/// Bugs of kube-rs's watcher, and of its client.
const KUBE_RS: u32 = 24;
const KUBE_RS_CLIENT: u32 = 6;

fn home() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn all_rules() -> Vec<Rule> {
    rules::from_file(home().join("rules.tsv")).unwrap_or_else(|fault| panic!("{fault}"))
}

/// `about` of each scenario, by name.
fn abouts() -> BTreeMap<String, String> {
    let files = fs::read_dir(home().join("scenarios")).unwrap().map(|entry| entry.unwrap().path());
    let read = |file: PathBuf| {
        let file = ScenarioFile::from_file(&file).unwrap_or_else(|fault| panic!("{fault}"));
        if let ScenarioFile::Informer(scenario) = file { Some((scenario.name, scenario.about)) } else { None }
    };
    files.filter_map(read).collect()
}

/// The rules that an `about` begins with.
fn named(about: &str) -> BTreeSet<&str> {
    let (ids, _) = about.split_once(':').unwrap_or_default();
    ids.split(", ").collect()
}

#[test]
fn every_rule_is_there_and_in_order() {
    let mut want: Vec<_> = FAMILIES
        .iter()
        .flat_map(|(family, first, last)| (*first..=*last).map(move |number| format!("{family}{number}")))
        .collect();
    want.extend(CASES.map(|number| format!("B{number:03}")));
    want.extend((1..=KUBE_RS).map(|number| format!("KW{number}")));
    want.extend((1..=KUBE_RS_CLIENT).map(|number| format!("K{number}")));
    want.extend((LATER_TRAPS.0..=LATER_TRAPS.1).map(|number| format!("T{number}")));
    want.extend(LATER_CASES.map(|number| format!("B{number:03}")));
    let got: Vec<_> = all_rules().into_iter().map(|rule| rule.id).collect();
    assert_eq!(got, want);
}

#[test]
fn every_scenario_of_a_rule_names_it() {
    let abouts = abouts();
    for Rule { id, proofs, .. } in all_rules() {
        for proof in proofs {
            let Proof::Scenario(name) = proof else { continue };
            let about = abouts.get(&name).unwrap_or_else(|| panic!("{id}: there is no scenario {name}"));
            assert!(named(about).contains(id.as_str()), "{name}: about does not begin with {id}: {about:?}");
        }
    }
}

#[test]
fn every_rule_that_a_scenario_names_lists_it() {
    let rules: BTreeMap<_, _> = all_rules().into_iter().map(|rule| (rule.id, rule.proofs)).collect();
    for (name, about) in abouts() {
        let proof = Proof::Scenario(name.clone());
        for id in named(&about) {
            let listed = rules.get(id).is_none_or(|proofs| proofs.contains(&proof));
            assert!(listed, "{name} says that it shows {id}; rules.tsv does not list it there");
        }
    }
}
