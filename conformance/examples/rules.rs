//! Writes the table of rules into `conformance/README.md`: which file shows which rule, and who keeps it there.
//!
//! ```text
//! cargo run -p informer-conformance --example rules            writes the table
//! cargo run -p informer-conformance --example rules -- --check exits 1 if README.md is not up to date
//! ```
//!
//! Nothing in it is assumed: ours is played in virtual time, what the peers did is read from their recorded outcomes, and a
//! test that is named must stand in the source of its crate. A file that is missing is an error; so is a rule that nothing
//! shows, for `--check`.

use informer_conformance::expect::ClientGo;
use informer_conformance::play::{Runtime, run_file};
use informer_conformance::recorded::{Peer, differences};
use informer_conformance::rules::{self, Proof, Rule};
use informer_conformance::scenario::ScenarioFile;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

/// The table stands between these lines.
const BEGIN: &str = "<!-- rules: written by `cargo run -p informer-conformance --example rules` -->";
const END: &str = "<!-- /rules -->";

/// Longest reason of a difference in a cell, in characters; the recorded outcome tells the rest.
const REASON: usize = 90;

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("rules: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<ExitCode, Box<dyn Error>> {
    let check = match env::args().skip(1).collect::<Vec<_>>().iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--check"] => true,
        _ => return Err("usage: rules [--check]".into()),
    };
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let rules = rules::from_file(here.join("rules.tsv"))?;
    let table = Table { here, sources: Sources::of(here.parent().ok_or("the crate has no parent folder")?)? };
    let (text, faults) = table.write(&rules);
    if !faults.is_empty() {
        for fault in &faults {
            eprintln!("rules: {fault}");
        }
        return Ok(ExitCode::from(1));
    }
    let readme = here.join("README.md");
    let old = fs::read_to_string(&readme).map_err(|error| format!("{}: {error}", readme.display()))?;
    let new = put(&old, &text).ok_or(format!("{}: has no lines {BEGIN:?} and {END:?}", readme.display()))?;
    let open: Vec<_> = rules.iter().filter(|rule| rule.proofs.is_empty()).map(|rule| rule.id.as_str()).collect();
    let proofs = rules.iter().map(|rule| rule.proofs.len()).sum::<usize>();
    println!("{} rules, shown {proofs} times; nothing shows {} of them", rules.len(), open.len());
    if check && new != old {
        eprintln!("rules: README.md is not up to date; run the example without --check");
        return Ok(ExitCode::from(1));
    }
    if check && !open.is_empty() {
        eprintln!("rules: nothing shows {}; name a scenario or a test in rules.tsv", open.join(", "));
        return Ok(ExitCode::from(1));
    }
    if new != old {
        fs::write(&readme, new).map_err(|error| format!("{}: {error}", readme.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `text` with `table` between the two markers.
fn put(text: &str, table: &str) -> Option<String> {
    let begin = text.find(BEGIN)? + BEGIN.len();
    let end = begin + text[begin..].find(END)?;
    Some(format!("{}\n\n{table}\n{}", &text[..begin], &text[end..]))
}

struct Table<'a> {
    /// The folder of this crate.
    here: &'a Path,
    sources: Sources,
}

impl Table<'_> {
    /// The table, and what is wrong with the rules.
    fn write(&self, rules: &[Rule]) -> (String, Vec<String>) {
        let mut text =
            "| rule | says | shown by | ours | client-go | kube-rs |\n|---|---|---|---|---|---|\n".to_owned();
        let mut faults = Vec::new();
        let mut played = BTreeMap::new(); // a scenario can show several rules
        for rule in rules {
            if rule.proofs.is_empty() {
                _ = writeln!(text, "| {} | {} | nothing yet | | | |", rule.id, cell(&rule.says));
            }
            for (n, proof) in rule.proofs.iter().enumerate() {
                // What a rule says stands once.
                let (id, says) = if n == 0 { (rule.id.as_str(), rule.says.as_str()) } else { ("", "") };
                let row = match proof {
                    Proof::Scenario(name) => played
                        .entry(name.clone())
                        .or_insert_with(|| self.scenario(name).map_err(|e| e.to_string()))
                        .clone(),
                    Proof::Test(path) => self.sources.test(path),
                };
                match row {
                    Ok(row) => _ = writeln!(text, "| {id} | {} | {row} |", cell(says)),
                    Err(fault) => faults.push(format!("rule {}: {fault}", rule.id)),
                }
            }
        }
        (text, faults)
    }

    /// The last four columns for a scenario.
    fn scenario(&self, name: &str) -> Result<String, Box<dyn Error>> {
        let path = self.here.join(format!("scenarios/{name}.json"));
        let file = ScenarioFile::from_file(&path)?;
        let ours = verdict(Some(run_file(&path, Runtime::Virtual)?.differences), None);
        let mut row = format!("[{name}](scenarios/{name}.json) | {ours}");
        for peer in Peer::ALL {
            if let Some(why) = peer.cannot_play(&file) {
                write!(row, " | not played: {why}")?;
                continue;
            }
            let found = differences(&file, peer, &self.here.join(peer.name()))?;
            let why = match (peer, file.client_go()) {
                (Peer::ClientGo, Some(ClientGo::Differs(why))) => Some(why.as_str()),
                _ => None,
            };
            write!(row, " | {}", verdict(found, why))?;
        }
        Ok(row)
    }
}

/// What differences mean, with `why` in the place of the first of them if it is known.
fn verdict(found: Option<Vec<String>>, why: Option<&str>) -> String {
    match found.as_deref() {
        None => "not recorded".into(),
        Some([]) => "holds".into(),
        Some([first, ..]) => format!("differs: {}", cell(&cut(why.unwrap_or(first)))),
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(REASON) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// `text` as it can stand in a cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// The sources of the workspace's crates, to look for tests.
struct Sources {
    /// All source of a crate, under its name as paths have it.
    crates: BTreeMap<String, String>,
}

impl Sources {
    fn of(root: &Path) -> Result<Self, Box<dyn Error>> {
        let mut crates = BTreeMap::new();
        for folder in fs::read_dir(root)? {
            let folder = folder?.path();
            let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) else { continue };
            let name = manifest.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
            let Some(name) = name else { continue };
            let mut source = String::new();
            for part in ["src", "tests"] {
                read_into(&folder.join(part), &mut source)?;
            }
            crates.insert(name.replace('-', "_"), source);
        }
        Ok(Sources { crates })
    }

    /// The last four columns for a test, which every run of the tests plays.
    fn test(&self, path: &str) -> Result<String, String> {
        let (name, rest) = path.split_once("::").unwrap_or((path, ""));
        let source = self.crates.get(name).ok_or_else(|| {
            let known = self.crates.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            format!("{path}: no crate {name} here; there are {known}")
        })?;
        let test = rest.rsplit("::").next().unwrap_or(rest);
        // Whether it is a test, and in that module, is for the compiler; that it is gone must be noticed here.
        if test.is_empty() || !source.contains(&format!("fn {test}(")) {
            return Err(format!("{path}: no such function in {name}"));
        }
        Ok(format!("`{path}` | tested | |"))
    }
}

/// Adds all Rust source under `folder`, if there is one, to `source`.
fn read_into(folder: &Path, source: &mut String) -> Result<(), Box<dyn Error>> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            read_into(&path, source)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            source.push_str(&fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?);
        }
    }
    Ok(())
}
