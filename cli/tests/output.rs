//! `informer watch` as a process: what its standard output is connected to, and bad arguments.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Far above what any of this takes: it only ends a test that would hang.
const PATIENCE: Duration = Duration::from_secs(60);

fn informer(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_informer"));
    command.args(arguments).stdin(Stdio::null()).stderr(Stdio::piped());
    command
}

/// A simulated server, killed at the end.
struct Server(Child, String);

impl Server {
    fn start(arguments: &[&str]) -> Server {
        let mut child = informer(&[&["serve"], arguments].concat()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening on ").expect("the first line says where").to_string();
        Server(child, url)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// The exit code and what stood on standard error.
fn end_of(mut child: Child) -> (Option<i32>, String) {
    let (tell, told) = mpsc::channel();
    let id = child.id();
    thread::spawn(move || {
        let mut text = String::new();
        child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        let _ = tell.send((child.wait().unwrap().code(), text));
    });
    told.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        signal(id, "KILL");
        panic!("the process did not end")
    })
}

fn signal(id: u32, name: &str) {
    assert!(Command::new("kill").args([format!("-{name}"), id.to_string()]).status().unwrap().success());
}

fn refused(arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = informer(arguments).stdout(Stdio::piped()).output().unwrap();
    let text = String::from_utf8(stderr).unwrap();
    assert_eq!((status.code(), stdout.len()), (Some(2), 0), "{text}");
    text
}

#[cfg(unix)]
#[test]
fn a_reader_that_goes_ends_a_watch_that_has_nothing_to_print() {
    let server = Server::start(&["--resource", "pods=3:500"]);
    for runtime in ["tokio", "blocking"] {
        let arguments = ["watch", "pods", "--server", &server.1, "--runtime", runtime, "--output", "json"];
        let mut watch = informer(&arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map(Result::unwrap);
        lines.find(|line| line.contains("\"phase\":\"watching\"")).unwrap();
        lines.find(|line| line.contains("\"synced\"")).unwrap();
        drop(lines);
        assert_eq!(end_of(watch), (Some(0), String::new()), "{runtime}");
    }
}

#[cfg(unix)]
#[test]
fn a_reader_that_does_not_read_cannot_keep_a_watch_that_was_told_to_stop() {
    // The line with the store alone is more than a pipe holds.
    let server = Server::start(&["--resource", "pods=3000:500"]);
    for runtime in ["tokio", "blocking"] {
        let arguments = ["watch", "pods", "--server", &server.1, "--runtime", runtime, "--output", "json"];
        let mut watch = informer(&arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut reader = BufReader::new(watch.stdout.take().unwrap());
        reader.by_ref().lines().map(Result::unwrap).find(|line| line.contains("\"add\"")).unwrap();
        signal(watch.id(), "TERM");
        let (code, text) = end_of(watch);
        assert_eq!(code, Some(1), "{runtime}: {text}");
        assert!(text.contains("standard output: nobody read it"), "{runtime}: {text}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_and_not_a_clean_end() {
    let server = Server::start(&["--resource", "pods=3:500"]);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let watch = informer(&["watch", "pods", "--server", &server.1]).stdout(full).spawn().unwrap();
    let (code, text) = end_of(watch);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("standard output: No space left on device"), "{text}");
}

#[test]
fn a_token_that_cannot_be_sent_is_refused_before_any_request_and_not_shown() {
    let text = refused(&["watch", "pods", "--server", "http://127.0.0.1:1", "--token", "MARKED\nhost: x"]);
    assert!(text.contains("the token cannot be sent") && !text.contains("MARKED"), "{text}");
}

#[cfg(unix)]
#[test]
fn a_signal_ends_a_server_that_is_still_being_filled() {
    // Would take gigabytes and most of a minute; it is ended long before.
    let serve = informer(&["serve", "--resource", "pods=10000000:500"]).stdout(Stdio::piped()).spawn().unwrap();
    signal(serve.id(), "TERM");
    assert_eq!(end_of(serve).0, None, "ended by the signal");
}

#[test]
fn a_context_beside_a_server_address_is_refused_and_not_passed_over() {
    let text = refused(&["watch", "pods", "--server", "http://127.0.0.1:1", "--context", "x"]);
    assert!(text.contains("--context") && text.contains("cannot be used with"), "{text}");
}

#[test]
fn a_namespace_for_what_lives_in_none_is_refused_and_not_passed_over() {
    let text = refused(&["watch", "nodes", "--server", "http://127.0.0.1:1", "--namespace", "web"]);
    assert!(text.contains("nodes live in no namespace: leave --namespace away"), "{text}");
}

#[test]
fn http2_on_threads_is_refused_with_the_way_out() {
    let text = refused(&["watch", "pods", "--server", "http://127.0.0.1:1", "--runtime", "blocking", "--http", "2"]);
    assert!(text.contains("informer-blocking speaks HTTP/1.1 only; choose"), "{text}");
}
