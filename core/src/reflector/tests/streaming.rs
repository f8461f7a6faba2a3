//! The state `Streaming`.

use super::harness::{World, bookmark, config, end_marker, error_event, event, list, status, too_large};
use crate::informer::Input;
use crate::reflector::{ListStrategy, Phase};
use core::time::Duration;
use std::string::ToString;

#[test]
fn the_end_marker_makes_the_list_whole_and_the_stream_goes_on_as_a_watch() {
    let mut world = World::streaming();
    world.add_handler(1, None);
    world.head(200);
    world.body(&(event("ADDED", "a", "3") + &bookmark("4") + &event("ADDED", "b", "2")));
    assert!(!world.informer.has_synced() && world.store.is_empty(), "an ordinary bookmark says nothing (B039)");
    assert_eq!(world.phase(), Phase::Streaming);
    world.body(&(end_marker("9") + &event("MODIFIED", "a", "10")));
    assert_eq!((world.phase(), world.informer.has_synced()), (Phase::Watching, true));
    assert_eq!(world.store.version().as_str(), "10");
    assert_eq!(world.told(1), ["added ns/a@3 by List", "added ns/b@2 by List", "updated ns/a@10 (was 3) by Watch"]);
    assert!(!world.has_sent(), "no second request");
    world.pass(1_000);
    world.close();
    assert_eq!(world.watch_version(), "10");
}

#[test]
fn later_streaming_lists_ask_for_nothing_older_and_delete_what_is_gone() {
    let mut world = World::streaming();
    world.head(200);
    world.body(&(event("ADDED", "a", "3") + &event("ADDED", "b", "4") + &end_marker("9")));
    world.body(&error_event(410, "Expired"));
    world.back_off(800);
    assert_eq!(world.stream_version().as_deref(), Some("9"));
    world.head(200);
    world.body(&(event("ADDED", "b", "4") + &event("ADDED", "c", "11") + &end_marker("12")));
    assert_eq!(world.stored(), ["ns/b@4", "ns/c@11"]);
}

#[test]
fn its_deadlines_are_those_of_a_list() {
    let mut world = World::streaming();
    world.sleep(10_000, "connecting");
    world.back_off(800);
    assert_eq!(world.stream_version().as_deref(), Some(""), "nobody refused anything");
    world.connected();
    world.sleep(60_000, "head of an answer");
    assert_eq!(world.reasons(), ["streaming 0 DeadlineExceeded", "streaming 0 DeadlineExceeded"]);
    world.back_off(1_600);
    assert!(world.sent().fresh_connection);
    world.sleep(10_000, "connecting");
    world.back_off(3_200);
    assert_eq!(world.request(), "/api/v1/pods?limit=500&resourceVersion=0", "three tries without an end marker");
    let mut world = World::streaming();
    world.head(200);
    world.pass(30_000);
    world.body(&event("ADDED", "a", "3"));
    world.sleep(60_000, "silence of a body");
    world.back_off(800);
    assert_eq!(world.stream_version().as_deref(), Some(""), "a stream that began may do better the next time");
}

#[test]
fn a_stream_that_goes_on_for_ever_without_its_marker_is_ended() {
    let mut config = config(ListStrategy::Auto);
    config.reflector.min_watch_timeout = Duration::from_secs(100);
    let mut world = World::with(config, 3);
    world.input(Input::Start);
    let timeout: u64 = world.sent().query_value("timeoutSeconds").unwrap().parse().unwrap();
    world.head(200);
    for n in 0..timeout / 50 {
        world.pass(50_000);
        world.body(&event("ADDED", "a", &(n + 1).to_string()));
    }
    world.sleep((timeout % 50 + 10) * 1_000, "end of a watch");
    assert_eq!(world.reasons(), ["streaming 0 DeadlineExceeded"]);
}

#[test]
fn three_streams_without_an_end_marker_and_lists_are_paged_for_good() {
    let mut world = World::streaming();
    for step in [800, 1_600, 3_200] {
        world.head(200);
        world.body(&event("ADDED", "ghost", "3"));
        world.close();
        assert_eq!(world.failure().reason, "StreamingListUnsupported");
        world.back_off(step);
    }
    assert_eq!(world.request(), "/api/v1/pods?limit=500&resourceVersion=0");
    world.answer(200, &list("9", &[]));
    assert!(world.store.is_empty());
    world.answer(410, "");
    world.back_off(6_400);
    assert_eq!(world.request(), "/api/v1/pods?resourceVersion=9");
}

#[test]
fn a_marker_in_between_breaks_the_row() {
    let mut world = World::streaming();
    for version in ["5", "6", "7", "8"] {
        world.head(200);
        world.broken();
        world.pass(60_000);
        world.head(200);
        world.body(&end_marker(version));
        world.body(&error_event(410, "Expired"));
        world.pass(60_000);
        assert_eq!(world.stream_version().as_deref(), Some(version));
    }
}

#[test]
fn a_server_that_does_not_know_streaming_lists_is_asked_once() {
    for code in [400, 405, 406, 415, 422] {
        let mut world = World::streaming();
        world.answer(code, "");
        assert_eq!(world.failure().retry_in, Some(Duration::ZERO));
        assert_eq!(world.request(), "/api/v1/pods?limit=500&resourceVersion=0", "{code}");
        world.answer(200, &list("9", &[]));
        world.answer(410, "");
        world.back_off(800);
        assert_eq!(world.request(), "/api/v1/pods?resourceVersion=9", "{code}");
    }
}

#[test]
fn any_other_refusal_is_answered_with_pages_at_once_and_the_next_list_streams_again() {
    for code in [301, 401, 403, 404, 500, 503] {
        let mut world = World::streaming();
        world.answer(code, "");
        let pages = world.sent();
        assert_eq!(pages.target(), "/api/v1/pods?limit=500&resourceVersion=0", "{code}");
        assert_eq!(pages.refresh_credentials, code == 401);
        world.answer(500, "");
        world.back_off(800);
        assert_eq!(world.stream_version().as_deref(), Some(""), "{code}");
    }
    let faults: [fn(&mut World); 5] = [
        World::broken,
        World::close,
        |world| {
            world.head(200);
            world.body("<html>");
        },
        |world| {
            world.head(200);
            world.body("{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"99\"}}}");
        },
        |world| {
            world.head(200);
            world.body(&end_marker(""));
        },
    ];
    for fault in faults {
        let mut world = World::streaming();
        fault(&mut world);
        assert_eq!(world.request(), "/api/v1/pods?limit=500&resourceVersion=0");
    }
}

#[test]
fn a_busy_server_is_given_time() {
    let mut world = World::streaming();
    world.answer(429, "");
    world.back_off(800);
    assert_eq!(world.stream_version().as_deref(), Some(""));
    world.answer_later(503, "5");
    world.back_off_in(5_000, 6_250);
    assert_eq!(world.stream_version().as_deref(), Some(""));
    world.refused();
    world.back_off(800);
    assert_eq!(world.stream_version().as_deref(), Some(""));
    world.answer_later(422, "2");
    world.back_off_in(2_000, 2_500);
    assert_eq!(world.request(), "/api/v1/pods?limit=500&resourceVersion=0", "it waits, and is not asked again");
}

#[test]
fn an_expired_version_asks_for_the_newest_state_at_once_and_then_waits() {
    for (code, body) in [(410, status(410, "Expired")), (200, error_event(410, "Gone")), (504, too_large())] {
        let mut world = World::streaming();
        world.head(200);
        world.body(&(event("ADDED", "a", "3") + &end_marker("9")));
        world.body(&error_event(410, "Expired"));
        world.back_off(800);
        assert_eq!(world.stream_version().as_deref(), Some("9"));
        world.answer(code, &body);
        assert_eq!(world.failure().retry_in, Some(Duration::ZERO));
        assert_eq!(world.stream_version().as_deref(), Some(""));
        world.answer(code, &body);
        world.back_off(1_600);
        assert_eq!(world.stream_version().as_deref(), Some(""));
        world.head(200);
        world.body(&end_marker("20"));
        assert_eq!(world.store.version().as_str(), "20");
    }
}

#[test]
fn a_stream_that_is_older_than_the_cache_is_refused_once() {
    let mut world = World::streaming();
    world.head(200);
    world.body(&(event("ADDED", "a", "3") + &end_marker("9") + &error_event(410, "Expired")));
    world.back_off(800);
    world.reasons();
    world.head(200);
    world.body(&(event("ADDED", "old", "2") + &end_marker("8")));
    assert_eq!(world.reasons(), ["streaming 0 StaleList"]);
    assert_eq!((world.stored().join(""), world.stream_version()), ("ns/a@3".into(), Some("".into())));
    world.head(200);
    world.body(&(event("ADDED", "old", "2") + &end_marker("8")));
    assert_eq!(world.reasons(), ["streaming 0 VersionWentBackwards"]);
    assert_eq!((world.stored().join(""), world.phase()), ("ns/old@2".into(), Phase::Watching));
}

#[test]
fn a_version_that_a_restore_gave_out_again_does_not_hide_other_content_of_a_stream() {
    let mut world = World::streaming();
    world.head(200);
    world.body(&(event("ADDED", "a", "3") + &end_marker("9") + &error_event(410, "Expired")));
    world.back_off(800);
    world.head(200);
    world.body(&end_marker("8"));
    world.reasons();
    let other = event("ADDED", "a", "3").replace(r#""name":"a""#, r#""name":"a","labels":{"is":"other"}"#);
    world.head(200);
    world.body(&(other.clone() + &end_marker("8") + &event("ADDED", "b", "9")));
    assert_eq!(world.reasons(), ["streaming 0 VersionWentBackwards"]);
    assert_eq!((world.stored().join(" "), world.phase()), ("ns/a@3 ns/b@9".into(), Phase::Watching));
    assert!(world.store.get("ns/a").unwrap().json().contains("other"));
}

#[test]
fn an_informer_that_only_streams_never_asks_for_pages() {
    let mut world = World::new(ListStrategy::Streaming);
    world.input(Input::Start);
    for step in [800, 1_600, 3_200, 6_400] {
        assert_eq!(world.stream_version().as_deref(), Some(""));
        world.answer(422, "");
        world.back_off(step);
    }
    for step in [12_800, 25_600, 30_000, 30_000] {
        world.head(200);
        world.close();
        world.back_off(step);
        assert_eq!(world.stream_version().as_deref(), Some(""));
    }
}

#[test]
fn a_streaming_list_may_take_objects_back_and_name_a_bad_one_twice() {
    let bad = "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"namespace\":\"ns\",\"name\":\"c\",\"resourceVersion\":\"4\",\"labels\":7}}}\n";
    let mut world = World::streaming();
    world.head(200);
    world.body(&(event("ADDED", "a", "1") + &event("ADDED", "b", "2") + bad));
    world.body(&(event("MODIFIED", "b", "5") + &event("DELETED", "a", "6") + &event("MODIFIED", "c", "7")));
    world.body(&end_marker("9"));
    assert_eq!(world.stored(), ["ns/b@5", "ns/c@7"]);
    assert_eq!((world.store.quarantined().count(), world.store.is_stale_key("ns/c")), (0, false));
    // And the other way round: the newest version of c is the one that cannot be built.
    world.body(&error_event(410, "Expired"));
    world.back_off(800);
    world.head(200);
    world.body(&(event("ADDED", "c", "3") + bad + &end_marker("10")));
    assert_eq!(world.stored(), ["ns/c@3"]);
    assert_eq!((world.store.quarantined().count(), world.store.is_stale_key("ns/c")), (1, true));
}

/// The list is complete and the store slow; then the stream breaks and the next list is given up. What follows the
/// first list must not be applied to a store that never got it.
#[test]
fn a_finished_list_comes_into_the_store_even_if_a_later_one_is_given_up() {
    let mut world = World::streaming();
    world.add_handler(1, None);
    world.lazy = true;
    world.head(200);
    world.body(&(event("ADDED", "a", "3") + &event("ADDED", "b", "4") + &end_marker("9")));
    world.body(&(event("MODIFIED", "a", "10") + &error_event(410, "Expired")));
    world.back_off(800);
    world.head(200);
    world.body(&event("ADDED", "a", "10"));
    world.close();
    assert_eq!(world.failure().reason, "StreamingListUnsupported");
    while world.work() {}
    assert_eq!(world.stored(), ["ns/a@10", "ns/b@4"]);
    assert_eq!(world.told(1), ["added ns/a@3 by List", "added ns/b@4 by List", "updated ns/a@10 (was 3) by Watch"]);
    world.back_off(1_600);
    world.head(200);
    world.body(&(event("ADDED", "a", "10") + &end_marker("12")));
    while world.work() {}
    assert_eq!(world.told(1), ["deleted ns/b@4 (final state unknown) by Relist"]);
}
