//! The programs of this repository, as processes, against the real server. Built on the way, so only where it is required.

use crate::harness::{Cluster, PATIENCE, cluster, eventually, is_required};
use crate::sync::{CONFIG_MAPS, map_template};
use crate::watcher::{Collection, list};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A program that takes longer than this hangs. It may have to be compiled first, on a busy machine.
const PROGRAM_PATIENCE: Duration = Duration::from_secs(600);

fn required_cluster() -> Option<std::sync::MutexGuard<'static, Cluster>> {
    let cluster = cluster()?;
    if is_required() {
        return Some(cluster);
    }
    println!("skipped: builds programs, which only INFORMER_REAL_APISERVER=1 asks for");
    None
}

fn cargo(arguments: &[&str]) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR")).arg("run").arg("-q").args(arguments);
    cargo
}

/// Waits for its end, and ends it if it hangs.
fn ended(child: &mut Child, patience: Duration) -> Option<std::process::ExitStatus> {
    let until = Instant::now() + patience;
    while Instant::now() < until {
        if let Some(status) = child.try_wait().expect("it is our child") {
            return Some(status);
        }
        sleep(Duration::from_millis(50));
    }
    child.kill().expect("it is our child");
    child.wait().expect("it is our child");
    None
}

/// Runs the example twice: the second run must not trip over what the first one left.
fn runs_twice(example: &str) {
    let Some(cluster) = required_cluster() else { return };
    let kubeconfig = cluster.kubeconfig("admin");
    let kubeconfig = kubeconfig.to_str().expect("the path is text");
    for run in 1..=2 {
        let mut command = cargo(&["--release", "-p", "informer-examples", "--example", example, "--"]);
        let mut child = command.args(["--kubeconfig", kubeconfig]).stdout(Stdio::piped()).spawn().expect("cargo runs");
        let lines = collect(&mut child);
        let status = ended(&mut child, PROGRAM_PATIENCE);
        let lines = lines.lock().unwrap().join("\n");
        assert!(status.is_some_and(|status| status.success()), "{example}, run {run}: {status:?}: {lines}");
        assert!(lines.contains("each with the text and the uid of its widget"), "{example}, run {run}: {lines}");
    }
}

/// Its standard output, as it comes.
fn collect(child: &mut Child) -> Arc<Mutex<Vec<String>>> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let (out, into) = (child.stdout.take().expect("it is piped"), Arc::clone(&lines));
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            into.lock().unwrap().push(line);
        }
    });
    lines
}

#[test]
fn the_controller_on_tokio_does_its_job_twice() {
    runs_twice("controller_tokio");
}

#[test]
fn the_controller_on_threads_does_its_job_twice() {
    runs_twice("controller_threads");
}

/// `informer watch`, stopped by SIGTERM after some changes.
fn watches(runtime: &str) {
    let Some(cluster) = required_cluster() else { return };
    let namespace = cluster.namespace(&format!("cli-{runtime}"));
    let mut maps = Collection::new(&cluster, &CONFIG_MAPS, &namespace, map_template());
    for name in ["a", "b", "c"] {
        maps.create(name);
    }
    let kubeconfig = cluster.kubeconfig("admin");
    let mut command = cargo(&["-p", "informer", "--", "watch", "configmaps", "--output", "json", "--runtime", runtime]);
    command.args(["--namespace", &namespace, "--kubeconfig"]).arg(kubeconfig);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("cargo runs");
    let lines = collect(&mut child);
    let count = |kind: &str| {
        let lines = lines.lock().unwrap();
        let parsed = lines.iter().map(|line| {
            serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("no JSON ({error}): {line}"))
        });
        parsed.filter(|line| line["type"] == kind).count()
    };
    let until = Instant::now() + PROGRAM_PATIENCE;
    while count("synced") == 0 {
        assert!(Instant::now() < until, "not synced: {:?}", lines.lock().unwrap());
        assert_eq!(child.try_wait().unwrap(), None, "it ended: {:?}", lines.lock().unwrap());
        sleep(Duration::from_millis(50));
    }
    maps.create("d");
    maps.change("a", "live");
    maps.delete("b");
    eventually("the changes are printed", || {
        let counts = [count("add"), count("update"), count("delete")];
        if counts == [4, 1, 1] { Ok(()) } else { Err(format!("{counts:?}")) }
    });
    // On Unix cargo has become the program, so the signal reaches it.
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let status = ended(&mut child, PATIENCE);
    assert_eq!(status.and_then(|status| status.code()), Some(0), "{status:?}: {:?}", lines.lock().unwrap());
    eventually("the last line is the store", || if count("store") == 1 { Ok(()) } else { Err(String::new()) });
    assert_eq!(count("error"), 0, "{:?}", lines.lock().unwrap());
    let last = lines.lock().unwrap().last().cloned().unwrap();
    let store: Value = serde_json::from_str(&last).unwrap();
    let on_server = list(&cluster.admin(), &CONFIG_MAPS, Some(&namespace));
    let expected: serde_json::Map<String, Value> =
        on_server.into_iter().map(|(key, (_, version))| (key, json!(version))).collect();
    assert_eq!(store["objects"], Value::Object(expected));
}

#[test]
fn the_command_watches_on_tokio_until_it_is_ended() {
    watches("tokio");
}

#[test]
fn the_command_watches_on_threads_until_it_is_ended() {
    watches("blocking");
}
