//! Waiting for a version: every wait ends, and says how.

use super::*;
use informer_core::Version;
use informer_core::object::{Meta, Object};
use informer_core::store::Seen;
use informer_runtime::api::{ApiRequest, DeleteOptions};
use informer_runtime::catch_up::{Behind, Why};
use informer_runtime::lister::Lister;
use std::thread;

/// Far longer than anything takes; a test that needs it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

fn version(text: &str) -> Version {
    Version::new(text)
}

#[track_caller]
fn behind<R>(outcome: Result<R, Error>) -> Behind {
    match outcome {
        Err(Error::Behind(behind)) => *behind,
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("the cache cannot have come to that version"),
    }
}

#[test]
fn a_wait_on_an_informer_that_was_not_started_or_was_stopped_fails_at_once() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let error = behind(informer.wait_at_least(&version("7"), PATIENCE));
    assert_eq!(
        error.to_string(),
        "the cache of pods has not come to version 7: it is not started; call start() after asking for an informer; it \
         has no complete list yet"
    );
    let mut hand = Hand::take(&factory);
    hand.list(&["a"]);
    factory.request_stop();
    hand.tell(IoEvent::Stop);
    assert_eq!(informer.wait_at_least(&version("5"), PATIENCE).unwrap().len(), 1, "what it has it has");
    let error = behind(informer.wait_for(&key("a"), &version("7"), PATIENCE));
    assert_eq!(
        error.to_string(),
        "the cache of pods has not come to web/a at version 7: it was stopped; it stands for version 5"
    );
}

#[test]
fn a_wait_ends_with_the_first_change_that_is_new_enough_also_with_a_bookmark() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let mut hand = Hand::take(&factory);
    hand.tell(IoEvent::Start);
    thread::scope(|scope| {
        let listed = scope.spawn(|| informer.wait_at_least(&version("5"), PATIENCE));
        hand.answer_list("5", &[object("a", "5", "")]);
        let lister: Lister<DynamicObject> = listed.join().unwrap().unwrap();
        assert_eq!(lister.version(), "5");

        let written = scope.spawn(|| informer.wait_for(&key("a"), &version("8"), PATIENCE));
        let passed = scope.spawn(|| informer.wait_at_least(&version("10"), PATIENCE));
        hand.watch("ADDED", "b", 6, "");
        hand.watch("MODIFIED", "a", 8, "");
        let seen = written.join().unwrap().unwrap();
        assert!(matches!(seen, Seen::Present(object) if object.version() == *"8"));
        assert!(!passed.is_finished());
        let id = hand.last.unwrap();
        let bookmark =
            br#"{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"12"}}}"#;
        hand.tell(IoEvent::Body(id, bookmark));
        hand.tell(IoEvent::Body(id, b"\n"));
        assert_eq!(passed.join().unwrap().unwrap().version(), "12");
    });
}

#[test]
fn no_wake_up_is_lost_between_the_look_and_the_change() {
    const ROUNDS: u32 = 2_000;
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let mut hand = Hand::take(&factory);
    hand.list(&["a"]);
    thread::scope(|scope| {
        let waiters: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    for n in 6..6 + ROUNDS {
                        let asked = version(&n.to_string());
                        let lister = informer.wait_at_least(&asked, PATIENCE).unwrap();
                        assert!(!version(&lister.version()).is_before(&asked));
                    }
                })
            })
            .collect();
        (6..6 + ROUNDS).for_each(|n| hand.watch("MODIFIED", "a", n, ""));
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}

#[test]
fn a_wait_for_an_object_that_others_deleted_says_that_it_is_gone() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let mut hand = Hand::take(&factory);
    hand.list(&["a"]);
    thread::scope(|scope| {
        let written = scope.spawn(|| informer.wait_for(&key("b"), &version("7"), PATIENCE));
        hand.watch("DELETED", "a", 9, "");
        assert!(written.join().unwrap().unwrap().is_absent());
    });
}

#[test]
fn a_wait_whose_time_is_over_says_what_for_where_the_cache_stands_and_what_failed() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let mut hand = Hand::take(&factory);
    hand.list(&["a"]);
    let watch = hand.last.unwrap();
    hand.tell(IoEvent::End(watch, &End::Broken("a fault that belongs to the test".into())));
    let error = behind(informer.wait_for(&key("a"), &version("7"), Duration::ZERO));
    assert_eq!((error.why.clone(), error.stands_for.as_str()), (Why::Late, "5"));
    let text = error.to_string();
    for part in ["pods", "web/a at version 7", "the time is over", "stands for version 5", "that belongs to the test"] {
        assert!(text.contains(part), "{part:?} is in {text:?}");
    }
}

#[test]
fn a_wait_for_what_cannot_be_compared_fails_at_once_and_names_both() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let mut hand = Hand::take(&factory);
    hand.list(&["a"]);
    let text = behind(informer.wait_at_least(&version("7a"), PATIENCE)).to_string();
    assert!(text.contains("\"7a\" cannot be compared with \"5\", for which the cache stands"), "{text}");
}

#[test]
fn a_server_that_is_set_back_ends_every_wait_with_an_error() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let mut hand = Hand::take(&factory);
    hand.list(&["a"]);
    let (begun, has_begun) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let mut wait = informer.catch_up_with(&key("a"), &version("9"));
            assert!(wait.check().unwrap().is_err(), "it is not there yet");
            begun.send(()).unwrap();
            wait.wait(PATIENCE)
        });
        has_begun.recv().unwrap();
        hand.set_back("3", &[object("a", "3", "")]);
        assert_eq!(informer.lister().version(), "3");
        let error = behind(waiter.join().unwrap());
        assert!(error.to_string().contains("set back to version 3, so version 9 may be lost"), "{error}");
    });
}

#[test]
fn the_answer_to_a_deletion_hides_what_is_gone_and_shows_what_waits() {
    let factory = factory();
    let informer = factory.informer(spec()).unwrap();
    let mut hand = Hand::take(&factory);
    hand.list(&["a", "b", "c"]);
    let pods = Resource::namespaced("", "v1", "pods", "Pod");
    let own = informer.own_writes();
    let answered = |name: &str, code: u16, body: &str| {
        let seen = informer.lister().get(&key(name)).expect("the cache has it");
        let request = ApiRequest::delete(&pods, &key(name), DeleteOptions::default()).unwrap();
        let deletion = request.read_deletion::<DynamicObject>(code, body.as_bytes()).unwrap();
        own.answered(&seen, deletion).unwrap()
    };
    let status = r#"{"kind":"Status","apiVersion":"v1","status":"Success","details":{"name":"a","uid":"u-a"}}"#;
    assert!(answered("a", 200, status), "without a version, up to the one that was seen");
    assert!(!answered("c", 202, status), "nobody knows how it waits, so the cache is to tell");
    let marks =
        r#""deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":0,"finalizers":["x/y"],"labels""#;
    assert!(answered("b", 200, &object("b", "8", "").replace("\"labels\"", marks)));
    assert!(own.get(&key("a")).is_none());
    let waits = own.get(&key("b")).expect("a finalizer holds it");
    assert!(waits.version() == *"8" && waits.metadata().is_terminating());
    assert!(answered("b", 200, &object("b", "9", "")), "the finalizer is gone, and so is the object");
    assert!(own.get(&key("b")).is_none() && own.get(&key("c")).is_some());
    assert_eq!(informer.lister().len(), 3, "the cache is never written to");
}

impl Hand {
    /// The watch has expired, and so has the list at our version; the newest state is an older one.
    pub(super) fn set_back(&mut self, version: &str, items: &[String]) {
        let status = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}"#;
        let watch = self.last.expect("a watch is open");
        let event = format!("{{\"type\":\"ERROR\",\"object\":{status}}}\n");
        self.tell(IoEvent::Body(watch, event.as_bytes()));
        let (mut sent, mut deadline) = self.tell(IoEvent::End(watch, &End::Closed));
        while sent.is_empty() {
            self.now = deadline.expect("it tries again").at;
            (sent, deadline) = self.tell(IoEvent::Tick);
        }
        let expired = sent[0].id;
        self.tell(IoEvent::Head(expired, &Head::new(410)));
        self.tell(IoEvent::Body(expired, status.as_bytes()));
        self.tell(IoEvent::End(expired, &End::Closed));
        assert_ne!(self.last, Some(expired), "the newest state is asked for at once");
        self.answer_list(version, items);
    }
}
