//! The scenario files of this crate hold together: they read, they are unambiguous, and what was recorded from
//! client-go meets those that say so.

use informer_conformance::expect::{ClientGo, RequestMatcher, compare};
use informer_conformance::invariants::invariants;
use informer_conformance::outcome::Outcome;
use informer_conformance::queue::compare_queue;
use informer_conformance::queue_runner::play;
use informer_conformance::scenario::{Scenario, ScenarioFile, Verb, When};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    assert!(!files.is_empty(), "{} holds no file", folder.display());
    files
}

fn scenarios() -> Vec<Scenario> {
    let read = |file: &PathBuf| {
        let file = ScenarioFile::from_file(file).unwrap_or_else(|fault| panic!("{fault}"));
        if let ScenarioFile::Informer(scenario) = file { Some(*scenario) } else { None }
    };
    files("scenarios").iter().filter_map(read).collect()
}

#[test]
fn every_file_reads_and_says_what_it_shows_and_what_must_be_seen() {
    for file in files("scenarios") {
        let file = ScenarioFile::from_file(&file).unwrap_or_else(|fault| panic!("{fault}"));
        assert!(!file.name().is_empty());
        if let ScenarioFile::Informer(scenario) = file {
            let expect = &scenario.expect;
            assert!(!scenario.about.is_empty(), "{}: about is empty", scenario.name);
            assert!(
                !expect.handlers.is_empty() || expect.store.objects.is_some() || !expect.requests.is_empty(),
                "{}: expects next to nothing",
                scenario.name
            );
        }
    }
}

/// True if one request could be both what `want` describes and what `when` answers.
fn compatible(when: &When, want: &RequestMatcher) -> bool {
    let agree = |one: &BTreeMap<String, Option<String>>, other: &BTreeMap<String, Option<String>>| {
        one.iter().all(|(name, value)| other.get(name).is_none_or(|other| other == value))
    };
    want.verb.is_none_or(|verb| verb == when.verb)
        && agree(&when.query, &want.query)
        && agree(&when.headers, &want.headers)
}

#[test]
fn every_expected_request_has_an_answer_in_the_script() {
    for scenario in scenarios() {
        for (n, want) in scenario.expect.requests.iter().enumerate() {
            assert!(
                scenario.server.iter().any(|entry| compatible(&entry.when, want)),
                "{}: nothing in `server` answers expect.requests[{n}]",
                scenario.name
            );
        }
    }
}

#[test]
fn every_limited_answer_is_wanted() {
    for scenario in scenarios() {
        let expect = &scenario.expect;
        for verb in [Verb::List, Verb::Watch] {
            let most = match verb {
                Verb::List => expect.request_count.list,
                Verb::Watch => expect.request_count.watch,
            };
            let limited: u64 =
                scenario.server.iter().filter(|entry| entry.when.verb == verb).filter_map(|entry| entry.times).sum();
            if let Some(most) = most {
                assert!(
                    limited <= most.max,
                    "{}: {limited} scripted answers to {verb}, but {most} requests",
                    scenario.name
                );
            }
        }
    }
}

#[test]
fn what_client_go_did_meets_the_scenarios_that_call_it_the_same() {
    let recorded = files("client-go");
    let mut compared = 0;
    for scenario in scenarios() {
        let name = format!("{}.json", scenario.name);
        let Some(file) = recorded.iter().find(|file| file.file_name().is_some_and(|last| last == name.as_str())) else {
            continue;
        };
        let outcome = Outcome::from_file(file).unwrap_or_else(|fault| panic!("{fault}"));
        if scenario.expect.client_go == Some(ClientGo::Same) {
            assert_eq!(compare(&scenario, &outcome, 0), [""; 0], "{}", scenario.name);
            assert_eq!(invariants(&outcome, &scenario), [""; 0], "{}", scenario.name);
            compared += 1;
        }
    }
    assert!(compared > 0, "no recorded outcome was compared");
}

#[test]
fn every_recorded_outcome_belongs_to_a_scenario() {
    let names: Vec<_> = scenarios().into_iter().map(|scenario| scenario.name).collect();
    for file in files("client-go") {
        let outcome = Outcome::from_file(&file).unwrap_or_else(|fault| panic!("{fault}"));
        assert!(names.contains(&outcome.name), "{}: no scenario of that name", file.display());
        assert_eq!(outcome.runtime, "client-go", "{}", file.display());
    }
}

#[test]
fn the_cores_queue_meets_every_queue_scenario() {
    let mut played = 0;
    for file in files("scenarios") {
        let ScenarioFile::Queue(scenario) = ScenarioFile::from_file(&file).unwrap_or_else(|fault| panic!("{fault}"))
        else {
            continue;
        };
        let outcome = play(&scenario).unwrap_or_else(|fault| panic!("{}: {fault}", file.display()));
        assert_eq!(compare_queue(&scenario, &outcome, 0), [""; 0], "{}", scenario.name);
        played += 1;
    }
    assert!(played > 0, "no queue scenario was played");
}
