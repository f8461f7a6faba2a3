//! The command as a shell sees it: exit codes, first lines, and the form of each line.
#![cfg(unix)]

use serde_json::Value;
use std::io::{BufRead, BufReader, Lines};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

fn informer(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_informer"));
    command.args(arguments).env("KUBECONFIG", "/nowhere/config").stdin(Stdio::null());
    command
}

fn finished(arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = informer(arguments).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// A process whose lines are read one by one; killed with the test.
struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    fn start(arguments: &[&str]) -> Self {
        let mut child = informer(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Running { child, lines }
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("one more line").unwrap()
    }

    fn json(&mut self) -> Value {
        let line = self.line();
        let value: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert!(value["type"] == "store" || value["atMs"].is_u64(), "{line}");
        value
    }

    fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
    }

    fn code(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn names(value: &Value) -> Vec<&str> {
    let mut names: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

#[test]
fn serve_says_where_it_listens_and_watch_prints_what_it_sees_on_both_runtimes() {
    let mut served = Running::start(&["serve", "--resource", "configmaps=3:300"]);
    let first = served.line();
    let port = first.strip_prefix("listening on http://127.0.0.1:").expect("the address in the first line");
    assert!(port.parse::<u16>().unwrap() > 0, "{first}");
    let url = format!("http://127.0.0.1:{port}");
    for runtime in ["tokio", "blocking"] {
        let arguments =
            ["watch", "configmaps", "--server", &url, "--runtime", runtime, "--output", "json", "--handlers", "2"];
        let mut watch = Running::start(&arguments);
        let (mut adds, mut synced, mut requests, mut phases) = ([0, 0], [0, 0], 0, Vec::new());
        while synced != [1, 1] || phases.last().is_none_or(|phase| phase != "watching") {
            let line = watch.json();
            let handler = usize::from(line["handler"] == "h1");
            match line["type"].as_str().unwrap() {
                "add" => {
                    assert_eq!(
                        names(&line),
                        [
                            "atMs",
                            "cause",
                            "finalStateKnown",
                            "handler",
                            "initial",
                            "key",
                            "oldResourceVersion",
                            "resourceVersion",
                            "type",
                            "uid"
                        ]
                    );
                    assert_eq!((&line["initial"], &line["cause"]), (&Value::Bool(true), &Value::from("list")));
                    assert_eq!(synced[handler], 0, "synced comes after the initial adds");
                    adds[handler] += 1;
                }
                "synced" => {
                    assert_eq!(names(&line), ["atMs", "handler", "type"]);
                    assert_eq!(adds[handler], 3);
                    synced[handler] += 1;
                }
                "request" => {
                    assert_eq!(names(&line), ["atMs", "path", "query", "type", "verb"]);
                    assert_eq!(line["path"], "/api/v1/configmaps");
                    requests += 1;
                }
                "phase" => {
                    assert_eq!(names(&line), ["atMs", "phase", "type"]);
                    phases.push(line["phase"].as_str().unwrap().to_string());
                }
                other => panic!("{other}: {line}"),
            }
        }
        assert!(requests > 0);
        watch.signal("USR1");
        let store = watch.json();
        assert_eq!(store["type"], "store");
        assert_eq!(store["objects"].as_object().unwrap().len(), 3);
        assert!(store["resourceVersion"].as_str().unwrap().parse::<u64>().is_ok(), "{store}");
        watch.signal("TERM");
        let mut last = watch.json();
        while last["type"] == "phase" {
            last = watch.json();
        }
        assert_eq!(last["objects"], store["objects"]);
        assert!(watch.lines.next().is_none());
        assert_eq!(watch.code(), Some(0), "{runtime}");
    }
    served.signal("TERM");
    assert_eq!(served.code(), Some(0));
}

#[test]
fn bad_input_is_one_clear_error_before_any_request() {
    let url = ["--server", "http://127.0.0.1:1"];
    type Words<'a> = &'a [&'a str];
    let cases: [(Words<'_>, Words<'_>); 7] = [
        (&["pods", "--selector", "a in (b"], &["a in (b"]),
        (&["pods", "--field-selector", "spec.nodeName>1"], &["spec.nodeName>1"]),
        (&["pods", "--namespace", "A/b"], &["A/b"]),
        (&["", "--output", "json"], &[]),
        (&["pods", "--output", "yaml"], &["yaml"]),
        (&["pods", "--handlers", "many"], &["many"]),
        (&["pods", "--token", "a b"], &["token"]),
    ];
    for (arguments, named) in cases {
        let (code, out, error) = finished(&[&["watch"], arguments, &url[..]].concat());
        assert_eq!((code, out.as_str()), (Some(2), ""), "{arguments:?}: {error}");
        assert!(!error.is_empty() && named.iter().all(|part| error.contains(part)), "{arguments:?}: {error}");
        assert!(!error.contains("panicked") && !error.contains("a b\""), "{error}");
    }
    let (code, _, error) = finished(&["watch", "pods", "--kubeconfig", "/nowhere/config"]);
    assert!(code == Some(2) && error.contains("/nowhere/config"), "{error}");
    let (code, _, error) = finished(&["watch", "pods", "--server", "ftp://x"]);
    assert!(code == Some(2) && error.contains("ftp://x"), "{error}");
    let (code, _, error) = finished(&["serve", "--resource", "pods=many"]);
    assert!(code == Some(2) && error.contains("pods=many"), "{error}");
}

#[test]
fn a_scenario_ends_with_0_1_or_2() {
    let sample = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../conformance/scenarios/relist-order.json"));
    let (code, out, error) = finished(&["scenario", sample.to_str().unwrap()]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let outcome: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        names(&outcome),
        ["errors", "handlers", "name", "phase", "requests", "runtime", "stoppedAtMs", "store"],
        "{outcome}"
    );
    assert_eq!((&outcome["name"], &outcome["runtime"]), (&"relist-order".into(), &"virtual".into()));

    let folder = std::env::temp_dir().join(format!("informer-command-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = |change: &dyn Fn(&mut Value)| {
        let mut scenario: Value = serde_json::from_str(&std::fs::read_to_string(&sample).unwrap()).unwrap();
        change(&mut scenario);
        let path = folder.join("relist-order.json");
        std::fs::write(&path, scenario.to_string()).unwrap();
        path.to_str().unwrap().to_string()
    };
    let (code, out, error) = finished(&["scenario", &file(&|scenario| scenario["expect"]["phase"] = "stopped".into())]);
    assert_eq!(code, Some(1));
    assert!(serde_json::from_str::<Value>(&out).is_ok() && error.contains("phase"), "{error}");
    type Change = fn(&mut Value);
    let cases: [(&str, Change); 3] = [
        ("surprise", |scenario| scenario["surprise"] = 1.into()),
        ("pageSizes", |scenario| scenario["informer"] = serde_json::json!({"pageSizes": 1})),
        ("seed", |scenario| _ = scenario.as_object_mut().unwrap().remove("seed")),
    ];
    for (named, change) in cases {
        let (code, out, error) = finished(&["scenario", &file(&change)]);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{named}");
        assert!(error.contains(named), "{error}");
    }
    let (code, _, error) = finished(&["scenario", "/nowhere/x.json"]);
    assert!(code == Some(2) && error.contains("/nowhere/x.json"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}
