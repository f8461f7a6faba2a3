//! The state `Watching`.

use super::harness::{World, bookmark, error_event, event, list};
use crate::reflector::Phase;
use std::string::{String, ToString};

fn timeout(world: &mut World) -> u64 {
    world.sent().query_value("timeoutSeconds").expect("a watch names it").parse().expect("a number")
}

#[test]
fn events_and_bookmarks_move_the_cursor_byte_for_byte() {
    let mut world = World::watching();
    world.body(&event("ADDED", "b", "7"));
    assert_eq!((world.stored().join(" "), world.store.version().as_str()), ("ns/a@4 ns/b@7".into(), "7"));
    world.body(&event("DELETED", "a", "9"));
    world.body(&bookmark("0012"));
    assert_eq!((world.stored().join(" "), world.store.version().as_str()), ("ns/b@7".into(), "0012"));
    world.pass(1_000);
    world.close();
    assert_eq!(world.watch_version(), "0012");
    assert_eq!(world.reasons(), [""; 0], "a clean end is normal");
}

#[test]
fn a_clean_end_goes_on_at_once_but_not_within_800_ms_of_the_last_request() {
    let mut world = World::watching();
    world.pass(100);
    world.body(&bookmark("6"));
    world.close();
    assert_eq!(world.phase(), Phase::Backoff);
    world.sleep(700, "backoff");
    assert_eq!(world.watch_version(), "6");
    world.head(200);
    world.pass(800);
    world.body(&bookmark("7"));
    world.close();
    assert_eq!((world.phase(), world.watch_version()), (Phase::Opening, "7".to_string()));
    world.head(200);
    world.pass(1_000);
    world.close();
    assert_eq!((world.phase(), world.watch_version()), (Phase::Opening, "7".to_string()), "quiet for a second is fine");
    assert!(world.failures.is_empty());
}

#[test]
fn three_watches_that_end_at_once_are_answered_with_a_list() {
    let mut world = World::opening();
    for step in [800, 1_600] {
        world.head(200);
        world.pass(999);
        world.close();
        assert_eq!(world.failure().reason, "ShortWatch");
        world.back_off(step);
        assert_eq!(world.watch_version(), "5");
    }
    world.head(200);
    world.close();
    world.back_off(3_200);
    assert_eq!(world.request(), "/api/v1/pods?resourceVersion=5");
    world.answer(200, &list("5", &[("a", "4")]));
    world.head(200);
    world.close();
    world.back_off(6_400);
    assert_eq!(world.watch_version(), "5", "the row began anew");
}

#[test]
fn a_longer_watch_breaks_the_row_of_short_ones() {
    let mut world = World::opening();
    for _ in 0..4 {
        world.head(200);
        world.close();
        world.pass(60_000);
        world.head(200);
        world.pass(1_000);
        world.close();
        assert_eq!(world.watch_version(), "5");
    }
}

#[test]
fn a_broken_watch_is_opened_again_from_the_last_event() {
    let mut world = World::watching();
    world.body(&event("MODIFIED", "a", "6"));
    world.body("{\"type\":\"MODIFIED\",\"obj");
    world.broken();
    assert_eq!(world.reasons(), ["watch 0 ConnectionReset"]);
    world.pass(1_600);
    assert_eq!(world.watch_version(), "6", "what was cut is read again");
}

#[test]
fn an_event_or_bookmark_resets_the_backoff_and_so_does_a_minute() {
    type Fault = fn(&mut World);
    let faults: [Fault; 3] =
        [World::broken, |world| world.body(&error_event(410, "Expired")), |world| world.body("<html>")];
    for fault in faults {
        for (millis, body, step) in [
            (0, bookmark("6"), 800),
            (0, event("ADDED", "b", "6"), 800),
            (60_000, String::new(), 800),
            (59_999, String::new(), 1_600),
        ] {
            let mut world = World::opening();
            world.answer(500, "");
            world.back_off(800);
            world.head(200);
            world.pass(millis);
            if !body.is_empty() {
                world.body(&body);
            }
            fault(&mut world);
            world.back_off(step);
        }
    }
}

#[test]
fn a_watch_that_is_silent_for_150_s_is_opened_again_quietly_and_twice_means_no_bookmarks() {
    let mut world = World::watching();
    world.sleep(150_000, "silence of a body");
    assert_eq!((world.reasons().len(), world.cancelled.as_slice()), (0, &[2][..]));
    let again = world.sent();
    assert!(again.fresh_connection);
    assert_eq!(again.query_value("resourceVersion"), Some("5"));
    world.head(200);
    world.sleep(150_000, "silence of a body");
    assert_eq!((world.reasons().len(), world.cancelled.as_slice()), (0, &[2, 3][..]));
    // A server that sends no bookmarks is believed, and left to its timeout and the version probe.
    world.head(200);
    assert_ne!(world.deadline.unwrap().why, "silence of a body");
    world.pass(290_000);
    assert_eq!((world.phase(), world.failures.len()), (Phase::Watching, 0));
    // One bookmark, and it is held to them again.
    world.body(&bookmark("6"));
    world.sleep(150_000, "silence of a body");
    assert_eq!(world.watch_version(), "6");
}

#[test]
fn a_server_that_sent_bookmarks_and_is_silent_twice_is_reported() {
    let mut world = World::watching();
    world.body(&bookmark("6"));
    world.sleep(150_000, "silence of a body");
    assert_eq!(world.reasons(), [""; 0], "quietly the first time");
    world.head(200);
    world.sleep(150_000, "silence of a body");
    assert_eq!(world.reasons(), ["watch 0 DeadlineExceeded"]);
    assert_eq!(world.watch_version(), "6");
}

#[test]
fn silence_is_counted_from_the_last_byte_even_of_white_space() {
    let mut world = World::watching();
    world.pass(149_000);
    world.body("\n");
    world.sleep(150_000, "silence of a body");
}

#[test]
fn a_watch_is_closed_10_s_after_the_end_that_it_asked_for() {
    let mut world = World::listing();
    world.answer(200, &list("5", &[]));
    let timeout = timeout(&mut world);
    world.head(200);
    for _ in 0..timeout / 100 {
        world.pass(100_000);
        world.body(&bookmark("6"));
    }
    world.sleep((timeout % 100 + 10) * 1_000, "end of a watch");
    assert_eq!(world.reasons(), ["watch 0 DeadlineExceeded"]);
    let again = world.sent();
    assert!(again.fresh_connection && again.query_value("resourceVersion") == Some("6"));
}

#[test]
fn an_expired_watch_lists_at_its_version_after_a_step_in_every_encoding() {
    for body in [
        error_event(410, "Expired"),
        error_event(410, "Gone"),
        error_event(0, "Expired"),
        error_event(410, ""),
        super::harness::status(410, "Expired"),
    ] {
        let mut world = World::watching();
        world.body(&(event("MODIFIED", "a", "6") + &body));
        assert_eq!(world.cancelled, [2]);
        world.back_off(800);
        assert_eq!(world.request(), "/api/v1/pods?resourceVersion=6", "{body}");
        assert_eq!(world.stored(), ["ns/a@6"], "what came before counts");
    }
}

#[test]
fn an_error_that_says_nothing_is_answered_with_a_list_and_an_internal_one_with_a_watch() {
    let mut world = World::watching();
    world.body("{\"type\":\"ERROR\",\"object\":{}}");
    world.back_off(800);
    assert_eq!(world.request(), "/api/v1/pods?resourceVersion=5");
    let mut world = World::watching();
    let mut step = 800;
    for _ in 0..4 {
        world.body(&error_event(500, "InternalError"));
        world.back_off(step);
        step *= 2;
        assert_eq!(world.watch_version(), "5");
        world.head(200);
    }
    world.body(&error_event(500, "InternalError"));
    world.back_off(step);
    assert_eq!(world.request(), "/api/v1/pods?resourceVersion=5");
}

#[test]
fn what_cannot_be_attributed_gives_the_stream_up_and_never_moves_the_cursor() {
    let frames = [
        "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"resourceVersion\":\"99\"}}}\n",
        "{\"type\":\"ADDED\",\"object\":{\"kind\":\"Node\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"n\",\"resourceVersion\":\"99\"}}}\n",
        "{\"type\":\"ADDED\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v2\",\"metadata\":{\"name\":\"n\",\"resourceVersion\":\"99\"}}}\n",
        "{\"type\":\"RENAMED\",\"object\":{\"metadata\":{\"name\":\"n\",\"resourceVersion\":\"99\"}}}\n",
        "<html>",
        "{\"a\":1}",
    ];
    for frame in frames {
        let mut world = World::watching();
        world.body(&(event("ADDED", "b", "6") + frame + &event("ADDED", "c", "100")));
        assert_eq!(world.reasons(), ["watch 0 Undecodable"], "{frame}");
        assert_eq!(world.cancelled, [2]);
        world.pass(1_600);
        assert_eq!(world.request(), "/api/v1/pods?resourceVersion=6", "{frame}");
        assert_eq!(world.stored(), ["ns/a@4", "ns/b@6"], "{frame}");
    }
}

#[test]
fn an_object_without_a_version_is_put_aside_and_moves_nothing() {
    let mut world = World::watching();
    world.body("{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"namespace\":\"ns\",\"name\":\"odd\"}}}\n");
    assert_eq!(world.reasons(), ["watch 0 Undecodable"]);
    world.body(&bookmark(""));
    world.pass(1_000);
    world.close();
    assert_eq!(world.watch_version(), "5");
    assert_eq!(world.stored(), ["ns/a@4"]);
}

#[test]
fn an_object_that_cannot_be_built_keeps_its_last_good_state_and_can_still_be_deleted() {
    let mut world = World::watching();
    world.body("{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"namespace\":\"ns\",\"name\":\"a\",\"resourceVersion\":\"6\",\"labels\":7}}}\n");
    assert_eq!(world.reasons(), ["watch 0 Undecodable"]);
    assert!(world.store.is_stale_key("ns/a") && world.stored() == ["ns/a@4"]);
    world.pass(1_000);
    world.close();
    assert_eq!(world.watch_version(), "6", "the cursor goes on");
    world.head(200);
    world.body("{\"type\":\"DELETED\",\"object\":{\"metadata\":{\"namespace\":\"ns\",\"name\":\"a\",\"resourceVersion\":\"7\",\"labels\":7}}}\n");
    assert_eq!((world.stored().len(), world.store.quarantined().count()), (0, 0));
}

/// What an ERROR event may hold, and what follows: a list, or the same watch again. Nothing in it moves the cursor.
#[test]
fn error_events_of_every_make_are_understood_or_answered_with_a_list() {
    const LIST: &str = "/api/v1/pods?resourceVersion=5";
    for (object, code, next) in [
        (
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"Expired","code":410}"#,
            410,
            LIST,
        ),
        (r#"{"status":"Failure","reason":"Expired","code":410,"metadata":{}}"#, 410, LIST),
        (r#"{"code":410}"#, 410, LIST),
        (r#"{"code":"410"}"#, 410, LIST),
        (r#"{"reason":"Expired"}"#, 0, LIST),
        (r#"{"reason":"Gone","message":"too old"}"#, 0, LIST),
        (r#"{"kind":"Status","code":null,"reason":null}"#, 0, LIST),
        (r#"{"kind":"Status","metadata":{"resourceVersion":"99"}}"#, 0, LIST),
        (r#"{"kind":"Status","code":403,"reason":"Forbidden"}"#, 403, LIST),
        ("{}", 0, LIST),
        ("null", 0, LIST),
        ("7", 0, LIST),
        ("[]", 0, LIST),
        (r#""too old resource version""#, 0, LIST),
        (r#"{"kind":"Pod","metadata":{"name":"x","resourceVersion":"99"}}"#, 0, LIST),
        (r#"{"code":"500"}"#, 500, "watch"),
        (r#"{"code":500,"reason":""}"#, 500, "watch"),
        (r#"{"kind":"Status","code":429,"reason":"TooManyRequests"}"#, 429, "watch"),
        (r#"{"kind":"Status","code":401,"reason":"Unauthorized"}"#, 401, "watch"),
        // W12: the server was too slow, which says nothing about our version.
        (
            r#"{"kind":"Status","code":504,"reason":"Timeout","message":"request did not complete within the allotted timeout"}"#,
            504,
            "watch",
        ),
    ] {
        let mut world = World::watching();
        world.body(&std::format!("{{\"type\":\"ERROR\",\"object\":{object}}}\n"));
        assert_eq!((world.failures.len(), world.failure().code), (1, code), "{object}");
        assert_eq!(world.cancelled, [2], "{object}");
        world.back_off(800);
        if next == LIST {
            assert_eq!(world.request(), LIST, "{object}");
        } else {
            assert_eq!(world.watch_version(), "5", "{object}");
        }
        assert_eq!(world.stored(), ["ns/a@4"], "{object}");
    }
    // W5: without the missing versions there is only the newest state.
    for object in [
        r#"{"kind":"Status","code":504,"reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}}"#,
        r#"{"kind":"Status","code":504,"reason":"Timeout","details":{"causes":[{"message":"Too large resource version"}]}}"#,
        r#"{"kind":"Status","code":504,"message":"Timeout: Too large resource version: 9, current: 5"}"#,
    ] {
        let mut world = World::watching();
        world.body(&std::format!("{{\"type\":\"ERROR\",\"object\":{object}}}\n"));
        world.back_off(800);
        assert_eq!(world.request(), "/api/v1/pods?limit=500", "{object}");
    }
}
