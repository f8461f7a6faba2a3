//! The state `Opening`.

use super::harness::{World, bookmark, error_event, status, too_large};
use crate::informer::Input;
use crate::reflector::{End, Phase};
use core::time::Duration;
use std::string::ToString;

#[test]
fn a_watch_asks_for_bookmarks_and_an_end_within_5_to_10_minutes() {
    let mut world = World::listing();
    world.answer(200, &super::harness::list("5", &[]));
    let request = world.sent();
    let timeout: u64 = request.query_value("timeoutSeconds").unwrap().parse().unwrap();
    assert!((300..=600).contains(&timeout));
    assert_eq!(
        request.target(),
        std::format!("/api/v1/pods?watch=true&allowWatchBookmarks=true&resourceVersion=5&timeoutSeconds={timeout}")
    );
    assert_eq!((request.accept_encoding, request.connect_within), ("identity", Duration::from_secs(10)));
}

#[test]
fn a_connection_has_10_s_and_the_head_of_a_watch_30_s() {
    let mut world = World::opening();
    world.sleep(10_000, "connecting");
    world.back_off(800);
    assert!(world.sent().fresh_connection);
    world.pass(4_000);
    world.connected();
    world.sleep(26_000, "head of an answer");
    assert_eq!(world.reasons(), ["watch 0 DeadlineExceeded", "watch 0 DeadlineExceeded"]);
    assert_eq!(world.cancelled, [2, 3]);
    world.back_off(1_600);
    assert_eq!(world.watch_version(), "5");
}

#[test]
fn what_says_nothing_about_our_version_is_answered_with_the_same_watch() {
    type Fault = fn(&mut World);
    let faults: [(&str, Fault); 7] = [
        ("watch 0 ConnectionRefused", World::refused),
        ("watch 0 ConnectionReset", World::broken),
        ("watch 0 ConnectionReset", World::close),
        ("watch 401 Unauthorized", |world| world.answer(401, "")),
        ("watch 429 TooManyRequests", |world| world.answer(429, "")),
        ("watch 500 InternalError", |world| world.answer(500, "")),
        ("watch 503 ServiceUnavailable", |world| {
            world.head(503);
            world.sleep(5_000, "body of a failure");
        }),
    ];
    for (code, fault) in faults {
        let mut world = World::opening();
        fault(&mut world);
        world.back_off(800);
        assert_eq!(world.reasons(), [code]);
        let again = world.sent();
        assert_eq!(again.query_value("watch"), Some("true"), "{code}");
        assert_eq!(again.query_value("resourceVersion"), Some("5"), "{code}");
        assert_eq!(again.refresh_credentials, code.contains("401"));
    }
}

#[test]
fn what_a_watch_cannot_go_on_from_is_answered_with_a_list() {
    for code in [400, 403, 404, 405, 410] {
        let mut world = World::opening();
        world.answer(code, "");
        assert_eq!(world.failure().code, code);
        world.back_off(800);
        assert_eq!(world.request(), "/api/v1/pods?resourceVersion=5", "{code}");
    }
    let mut world = World::opening();
    world.answer(504, &too_large());
    world.back_off(800);
    assert_eq!(world.request(), "/api/v1/pods?limit=500", "no cache of this server can have our version");
    let mut world = World::opening();
    let mut head = crate::wire::Head::new(200);
    head.set("content-encoding", "br");
    world.head_with(&head);
    world.back_off(800);
    assert_eq!(
        (world.reasons().join(""), world.request()),
        ("watch 0 Undecodable".into(), "/api/v1/pods?resourceVersion=5".into())
    );
}

#[test]
fn five_internal_errors_in_a_row_are_answered_with_a_list() {
    let mut world = World::opening();
    let mut step = 800;
    for _ in 0..4 {
        world.answer(500, &status(500, "InternalError"));
        world.back_off(step);
        step *= 2;
        assert_eq!(world.watch_version(), "5");
    }
    world.answer(500, "");
    world.back_off(12_800);
    assert_eq!(world.request(), "/api/v1/pods?resourceVersion=5");
}

#[test]
fn an_event_or_a_good_end_in_between_breaks_the_row_of_internal_errors() {
    let bookmarked: fn(&mut World) = |world| {
        world.head(200);
        world.body(&bookmark("6"));
        world.body(&error_event(500, "InternalError"));
        world.pass(2_000);
    };
    let ended: fn(&mut World) = |world| {
        world.head(200);
        world.pass(2_000);
        world.close();
        world.answer(500, "");
        world.pass(60_000);
    };
    for between in [bookmarked, ended] {
        let mut world = World::opening();
        for _ in 0..4 {
            world.answer(500, "");
            world.pass(60_000);
        }
        between(&mut world);
        for _ in 0..3 {
            assert_eq!(world.phase(), Phase::Opening);
            world.answer(500, "");
            world.pass(60_000);
        }
        world.watch_version();
    }
}

#[test]
fn an_object_that_its_storage_cannot_read_is_found_out_by_a_list() {
    let mut world = World::opening();
    world.answer(500, &status(500, "StorageReadError"));
    world.back_off(800);
    assert_eq!(world.request(), "/api/v1/pods?resourceVersion=5");
}

#[test]
fn a_wait_that_the_server_asks_for_is_kept() {
    let mut world = World::opening();
    world.answer_later(429, "7");
    world.back_off_in(7_000, 8_750);
    assert_eq!(world.watch_version(), "5");
}

#[test]
fn a_200_list_with_an_expired_watch_for_ever_still_backs_off() {
    let mut world = World::opening();
    for step in [800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000] {
        world.answer(410, "");
        world.back_off(step);
        let version = (world.now.as_millis()).to_string();
        world.answer(200, &super::harness::list(&version, &[("a", "4")]));
        assert_eq!(world.watch_version(), version, "each list is progress (B055)");
    }
}

#[test]
fn bytes_and_ends_of_another_request_are_dropped_and_counted() {
    let mut world = World::opening();
    let stale = crate::wire::RequestId(1);
    let before = world.log.len();
    world.input(Input::Body { id: stale, bytes: b"x" });
    world.input(Input::End { id: stale, end: &End::Closed });
    world.input(Input::Head { id: stale, head: &crate::wire::Head::new(500) });
    world.input(Input::Connected { id: stale });
    assert!(world.log[before..].iter().all(|line| line.starts_with("wait")), "{:?}", &world.log[before..]);
    assert_eq!((world.informer.stats().stale_answers, world.phase()), (4, Phase::Opening));
    assert_eq!(world.deadline.unwrap().why, "connecting");
}
