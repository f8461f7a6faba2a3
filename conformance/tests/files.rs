//! The scenario files of this crate hold together: they read, they are unambiguous, and each says truly whether client-go
//! does the same.

use informer_conformance::expect::{ClientGo, RequestMatcher};
use informer_conformance::queue::compare_queue;
use informer_conformance::queue_runner::play;
use informer_conformance::recorded::{Peer, differences};
use informer_conformance::scenario::{Scenario, ScenarioFile, Verb, When};
use std::collections::{BTreeMap, BTreeSet};
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

fn every_scenario() -> Vec<ScenarioFile> {
    let read = |file: &PathBuf| ScenarioFile::from_file(file).unwrap_or_else(|fault| panic!("{fault}"));
    files("scenarios").iter().map(read).collect()
}

fn scenarios() -> Vec<Scenario> {
    let informer = |file| if let ScenarioFile::Informer(scenario) = file { Some(*scenario) } else { None };
    every_scenario().into_iter().filter_map(informer).collect()
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

/// Where client-go's outcomes are: those that were recorded, or fresh ones that the gate has just played.
fn client_go_outcomes() -> PathBuf {
    match std::env::var_os("INFORMER_CLIENT_GO_OUTCOMES") {
        Some(folder) => folder.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join(Peer::ClientGo.name()),
    }
}

/// The first column of the table in ARCHITECTURE.md that says where we differ from client-go.
fn named_deviations() -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ARCHITECTURE.md");
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let (_, rest) = text.split_once("## Where we differ from client-go").expect("ARCHITECTURE.md has that heading");
    let rows = rest.lines().take_while(|line| !line.starts_with("## ")).filter_map(|line| line.strip_prefix("| "));
    // The first column of the head is empty.
    let names = rows.filter_map(|row| row.split_once(" |")).filter(|(name, _)| !name.starts_with('|'));
    let names: Vec<_> = names.map(|(name, _)| name.to_owned()).collect();
    assert!(names.len() > 10, "the table has gone: {names:?}");
    names
}

#[test]
fn what_client_go_did_is_what_every_file_says_of_it() {
    let folder = client_go_outcomes();
    let again = "play it with peers/client-go/play, and set expect.clientGo";
    let mut faults = Vec::new();
    for file in every_scenario() {
        let name = file.name();
        let recorded = differences(&file, Peer::ClientGo, &folder).unwrap_or_else(|fault| panic!("{fault}"));
        match (file.client_go(), recorded) {
            (_, None) => faults.push(format!("{name}: no outcome in {}; {again}", folder.display())),
            (None, Some(found)) => faults.push(format!("{name}: no mark; {again}; it differs in {found:?}")),
            (Some(ClientGo::Same), Some(found)) if !found.is_empty() => {
                faults.push(format!("{name}: marked as the same, but: {found:?}"));
            }
            (Some(ClientGo::Differs(why)), Some(found)) if found.is_empty() => {
                faults.push(format!("{name}: nothing differs any more, but it is marked: {why}"));
            }
            (Some(_), Some(_)) => {}
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn every_difference_to_client_go_is_named_in_the_architecture() {
    let named = named_deviations();
    let mut used = BTreeSet::new();
    for file in every_scenario() {
        let Some(ClientGo::Differs(why)) = file.client_go() else { continue };
        for deviation in why.split("; ") {
            assert!(
                named.iter().any(|name| name == deviation),
                "{}: {deviation:?} is no line of ARCHITECTURE.md's table \"Where we differ from client-go\"",
                file.name()
            );
            used.insert(deviation.to_owned());
        }
    }
    let unused: Vec<_> = named.iter().filter(|name| !used.contains(*name)).collect();
    assert!(unused.is_empty(), "no scenario shows these lines of ARCHITECTURE.md's table: {unused:?}");
}

#[test]
fn every_recorded_outcome_belongs_to_a_scenario() {
    let names: Vec<_> = every_scenario().iter().map(|file| format!("{}.json", file.name())).collect();
    for file in Peer::ALL.iter().flat_map(|peer| files(peer.name())) {
        let last = file.file_name().unwrap().to_str().unwrap();
        assert!(names.iter().any(|name| name == last), "{}: no scenario of that name", file.display());
    }
}

#[test]
fn what_kube_rs_did_reads_and_is_of_files_that_it_can_play() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(Peer::KubeRs.name());
    let mut read = 0;
    for file in every_scenario() {
        let recorded = differences(&file, Peer::KubeRs, &folder).unwrap_or_else(|fault| panic!("{fault}"));
        let Some(why) = Peer::KubeRs.cannot_play(&file) else {
            read += usize::from(recorded.is_some());
            continue;
        };
        assert!(recorded.is_none(), "{}: there is an outcome, but kube-rs cannot play it: {why}", file.name());
    }
    assert!(read > 0, "nothing is recorded in {}: play with peers/kube-runtime/play", folder.display());
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
