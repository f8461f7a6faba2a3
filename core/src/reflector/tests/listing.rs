//! The state `Listing`.

use super::harness::{World, config, error_event, event, list, page, status, too_large};
use crate::informer::Input;
use crate::object::VersionRef;
use crate::reflector::{ListStrategy, Phase};
use crate::wire::{Head, gzip_member};
use std::string::{String, ToString};

/// Every failure of a list that only costs a wait: the next list asks the same thing.
fn fails(code: &str, fault: impl FnOnce(&mut World)) {
    let mut world = World::listing();
    let first = world.request();
    fault(&mut world);
    assert!(world.failure().to_string().starts_with("pods: the list failed ("), "{}", world.failure());
    world.back_off(800);
    assert_eq!(world.reasons(), [code]);
    assert_eq!(world.request(), first);
}

#[test]
fn a_connection_has_10_s_and_the_next_request_takes_a_fresh_one() {
    let mut world = World::listing();
    assert!(!world.sent().fresh_connection);
    world.sleep(10_000, "connecting");
    assert_eq!(world.cancelled, [1]);
    assert_eq!(
        world.failure().to_string().split("; retrying").next(),
        Some("pods: the list failed (DeadlineExceeded: nothing came in time: the answer to a list)")
    );
    world.back_off(800);
    assert!(world.sent().fresh_connection, "whatever was silent, its connection is not to be trusted");
    world.sleep(10_000, "connecting");
    world.back_off(1_600);
    assert!(world.sent().fresh_connection);
}

#[test]
fn the_head_of_a_list_has_60_s_from_the_sending() {
    let mut world = World::listing();
    world.pass(5_000);
    world.connected();
    world.sleep(55_000, "head of an answer");
    assert_eq!((world.reasons().join(""), world.cancelled.as_slice()), ("list 0 DeadlineExceeded".into(), &[1][..]));
}

#[test]
fn a_list_may_be_silent_for_60_s() {
    let mut world = World::listing();
    world.head(200);
    world.pass(59_999);
    world.body("{\"kind\":\"PodList\",");
    world.pass(50_000);
    world.body("\"items\":[");
    world.sleep(60_000, "silence of a body");
    assert_eq!((world.reasons().join(""), world.cancelled.as_slice()), ("list 0 DeadlineExceeded".into(), &[1][..]));
    world.back_off(800);
}

#[test]
fn the_body_of_a_failure_has_5_s_and_its_code_is_enough() {
    let mut world = World::listing();
    world.head(503);
    world.pass(2_000);
    world.body("{\"kind\":\"Status\",\"mess");
    world.sleep(3_000, "body of a failure");
    assert_eq!(
        (world.reasons().join(""), world.cancelled.as_slice()),
        ("list 503 ServiceUnavailable".into(), &[1][..])
    );
    world.back_off(800);
}

#[test]
fn a_list_that_fails_waits_longer_each_time_up_to_30_s_and_pages_never_reset_that() {
    let mut world = World::listing();
    for step in [800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000] {
        assert_eq!(world.request(), "/api/v1/pods?limit=500&resourceVersion=0");
        world.answer(200, &page("5", "next", &[("a", "1")]));
        assert_eq!(world.request(), "/api/v1/pods?limit=500&continue=next");
        world.answer(500, "");
        world.back_off(step);
    }
    assert!(world.store.is_empty(), "nothing of a list shows before it is whole (I5)");
}

#[test]
fn refused_connections_count_steps_of_their_own_up_to_3_s() {
    let mut world = World::listing();
    for step in [800, 1_600, 3_000, 3_000, 3_000] {
        world.request();
        world.refused();
        assert_eq!(world.failure().reason, "ConnectionRefused");
        world.back_off(step);
    }
    world.request();
    world.answer(500, "");
    world.back_off(800);
}

#[test]
fn a_broken_connection_a_cut_body_and_what_is_no_list_cost_a_step() {
    fails("list 0 ConnectionReset", World::broken);
    fails("list 0 ConnectionReset", World::close);
    fails("list 0 ConnectionReset", |world| {
        world.head(200);
        world.body("{\"kind\":");
        world.broken();
    });
    fails("list 0 Undecodable", |world| world.answer(200, "{\"kind\":\"PodList\","));
    fails("list 0 Undecodable", |world| world.answer(200, ""));
    fails("list 0 Undecodable", |world| world.answer(200, "<html>welcome</html>"));
    fails("list 0 Undecodable", |world| world.answer(200, &list("", &[])));
    fails("list 0 Undecodable", |world| world.answer(200, &list("0", &[])));
    fails("list 500 InternalError", |world| world.answer(200, &status(500, "InternalError")));
    fails("list 0 Undecodable", |world| {
        let mut head = Head::new(200);
        head.set("content-encoding", "br");
        world.head_with(&head);
        assert_eq!(world.cancelled, [1]);
    });
    for code in [301, 400, 401, 403, 404, 429, 500, 503] {
        let mut world = World::listing();
        world.request();
        world.answer(code, "");
        assert_eq!(world.failure().code, code);
        world.back_off(800);
        let again = world.sent();
        assert_eq!(again.target(), "/api/v1/pods?limit=500&resourceVersion=0");
        assert_eq!(again.refresh_credentials, code == 401, "{code}");
    }
}

#[test]
fn a_wait_that_the_server_asks_for_is_kept_up_to_60_s() {
    for (asked, low, high) in [("5", 5_000, 6_250), ("86400", 60_000, 75_000), ("0", 800, 1_600), ("soon", 800, 1_600)]
    {
        let mut world = World::listing();
        world.answer_later(503, asked);
        world.back_off_in(low, high);
        // The step went on meanwhile: a server that stops asking finds us patient.
        world.answer(503, "");
        world.back_off(1_600);
    }
    let mut world = World::listing();
    let text = r#"{"kind":"Status","reason":"TooManyRequests","details":{"retryAfterSeconds":30},"code":429}"#;
    world.answer(429, text);
    world.back_off_in(30_000, 37_500);
    let mut world = World::listing();
    world.answer(200, text);
    world.back_off_in(30_000, 37_500);
}

#[test]
fn pages_are_followed_and_stand_for_the_version_of_the_first() {
    let mut world = World::listing();
    world.request();
    world.answer(200, &page("5", "x", &[]));
    assert_eq!(world.request(), "/api/v1/pods?limit=500&continue=x");
    world.answer(200, &page("6", "y z", &[("a", "1"), ("b", "2")]));
    assert_eq!(world.request(), "/api/v1/pods?limit=500&continue=y%20z");
    world.answer(200, &page("7", "", &[("c", "3")]));
    assert_eq!(world.watch_version(), "5");
    assert_eq!(world.stored(), ["ns/a@1", "ns/b@2", "ns/c@3"]);
    assert_eq!((world.store.version(), world.informer.stats().lists), (VersionRef::of("5"), 1));
}

#[test]
fn a_list_that_does_not_end_fails() {
    let mut world = World::listing();
    world.answer(200, &page("5", "x", &[]));
    world.answer(200, &page("5", "y", &[]));
    world.answer(200, &page("5", "x", &[]));
    assert!(world.failure().message.contains("a continue token came twice (3 pages read)"), "{}", world.failure());
    world.back_off(800);

    let mut config = config(ListStrategy::Paged);
    config.reflector.tuning.pages = 2;
    let mut world = World::with(config, 1);
    world.input(crate::informer::Input::Start);
    world.answer(200, &page("5", "x", &[]));
    world.answer(200, &page("5", "y", &[]));
    assert!(world.failure().message.contains("it has too many pages (2 pages read)"), "{}", world.failure());
    world.back_off(800);
}

#[test]
fn a_token_that_aged_out_is_answered_with_one_list_without_pages_at_once() {
    let mut world = World::listing();
    world.request();
    world.answer(200, &page("5", "x", &[("gone", "1")]));
    world.request();
    world.answer(410, &status(410, "Expired"));
    assert_eq!(world.request(), "/api/v1/pods?resourceVersion=0");
    world.answer(200, &list("9", &[("a", "8")]));
    assert_eq!(world.watch_version(), "9");
    assert_eq!(world.stored(), ["ns/a@8"], "nothing of the list that was given up is there");
}

#[test]
fn a_server_that_makes_pages_all_the_same_and_expires_them_meets_the_backoff() {
    let mut world = World::listing();
    for want in ["?limit=500&resourceVersion=0", "?resourceVersion=0", "?limit=500", ""] {
        assert_eq!(world.request(), std::format!("/api/v1/pods{want}"));
        world.answer(200, &page("5", "x", &[]));
        world.request();
        world.answer(410, "");
    }
    world.back_off(800);
    assert_eq!(world.request(), "/api/v1/pods?limit=500", "the newest state, in pages");
}

/// Servers compress a list when they are asked to; a proxy may do it with the Status of a failure as well.
#[test]
fn a_failure_in_gzip_is_understood() {
    let body = gzip_member(0, &[too_large().as_bytes()]).0;
    for pieces in [1, body.len()] {
        let mut world = World::opening();
        world.answer(410, "");
        world.back_off(800);
        assert_eq!(world.request(), "/api/v1/pods?resourceVersion=5");
        let mut head = Head::new(504);
        head.set("content-encoding", "gzip");
        world.head_with(&head);
        for piece in body.chunks(body.len().div_ceil(pieces)) {
            let id = world.id();
            world.input(Input::Body { id, bytes: piece });
        }
        world.close();
        assert_eq!(world.reasons().last().map(String::as_str), Some("list 504 Timeout"));
        assert_eq!(world.request(), "/api/v1/pods?limit=500", "its version is too large for the server");
    }
    // Damaged, or in another encoding: then the code has to do.
    for encoding in ["gzip", "br"] {
        let mut world = World::listing();
        let mut head = Head::new(403);
        head.set("content-encoding", encoding);
        world.head_with(&head);
        world.body("no gzip");
        world.close();
        assert_eq!((world.failure().code, world.failure().message.as_str()), (403, ""), "{encoding}");
    }
}

#[test]
fn an_expired_or_too_large_version_asks_for_the_newest_state_at_once_and_then_waits() {
    for (code, body) in
        [(410, status(410, "Expired")), (410, String::new()), (200, status(410, "Gone")), (504, too_large())]
    {
        let mut world = World::opening();
        world.answer(403, "");
        world.back_off(800);
        assert_eq!(world.request(), "/api/v1/pods?resourceVersion=5", "a cache can serve it, whole");
        world.reasons();
        world.answer(code, &body);
        assert_eq!(world.failure().retry_in, Some(core::time::Duration::ZERO));
        assert_eq!(world.request(), "/api/v1/pods?limit=500", "the newest, with pages");
        world.answer(code, &body);
        world.back_off(1_600);
        assert_eq!(world.request(), "/api/v1/pods?limit=500", "still the newest");
        world.answer(200, &list("9", &[]));
        assert_eq!(world.watch_version(), "9");
    }
}

#[test]
fn another_timeout_is_no_reason_to_ask_for_more_than_before() {
    let mut world = World::opening();
    world.answer(403, "");
    world.back_off(800);
    world.request();
    world.answer(504, &status(504, "Timeout"));
    world.back_off(1_600);
    assert_eq!(world.request(), "/api/v1/pods?resourceVersion=5");
}

#[test]
fn a_cache_that_lags_is_refused_once_and_the_newest_state_believed() {
    let mut world = World::opening();
    world.answer(403, "");
    world.back_off(800);
    world.request();
    world.reasons();
    world.answer(200, &list("3", &[("old", "2")]));
    assert_eq!(world.reasons(), ["list 0 StaleList"]);
    assert_eq!(world.stored(), ["ns/a@4"], "what is older than the cache does not get in");
    assert_eq!(world.request(), "/api/v1/pods?limit=500");
    world.answer(200, &list("3", &[("old", "2")]));
    assert_eq!(world.reasons(), ["list 0 VersionWentBackwards"], "restored from a backup");
    assert_eq!(world.watch_version(), "3");
    assert_eq!(world.stored(), ["ns/old@2"]);
}

#[test]
fn a_version_that_a_restore_gave_out_again_does_not_hide_other_content() {
    let mut world = World::opening();
    world.answer(410, "");
    world.back_off(800);
    world.request();
    world.answer(200, &list("9", &[("a", "4"), ("b", "3")]));
    world.add_handler(1, None);
    world.told(1);
    world.answer(403, "");
    world.back_off(1_600);
    world.request();
    world.answer(200, &list("4", &[("a", "4"), ("b", "3")]));
    world.reasons();
    let other = |version| {
        list(version, &[("a", "4"), ("b", "3")]).replace(r#""name":"a""#, r#""name":"a","labels":{"is":"other"}"#)
    };
    assert_eq!(world.request(), "/api/v1/pods?limit=500");
    world.answer(200, &other("4"));
    assert_eq!(world.reasons(), ["list 0 VersionWentBackwards"]);
    assert_eq!((world.stored().join(" "), world.watch_version()), ("ns/a@4 ns/b@3".into(), "4".into()));
    assert_eq!(world.told(1), ["updated ns/a@4 (was 4) by Relist"], "what is the same is no news");
    assert!(world.store.get("ns/a").unwrap().json().contains("other"));
    // From here on a version says again what it says.
    world.answer(403, "");
    world.back_off(3_200);
    world.request();
    world.answer(200, &list("4", &[("a", "4"), ("b", "3")]));
    assert_eq!((world.told(1), world.watch_version()), (std::vec![], "4".into()));
}

/// With a handler that knows `ns/a@4`, after a relist that was refused as older than the cache.
fn refused_as_stale() -> World {
    let mut world = World::opening();
    world.add_handler(1, None);
    world.told(1);
    world.answer(403, "");
    world.back_off(800);
    world.request();
    world.answer(200, &list("4", &[("a", "4")]));
    world
}

#[test]
fn a_newest_list_that_is_no_older_than_the_cache_trusts_its_versions() {
    let mut world = refused_as_stale();
    assert_eq!(world.request(), "/api/v1/pods?limit=500");
    world.answer(
        200,
        &list("9", &[("a", "4"), ("c", "7")]).replace(r#""name":"a""#, r#""name":"a","labels":{"is":"other"}"#),
    );
    assert_eq!(world.told(1), ["added ns/c@7 by Relist"]);
    assert_eq!((world.stored().join(" "), world.watch_version()), ("ns/a@4 ns/c@7".into(), "9".into()));
}

#[test]
fn what_is_set_back_stays_in_doubt_until_a_list_of_it_is_in_the_store() {
    let mut world = refused_as_stale();
    world.request();
    // The first page tells how old the state is, and the last one never comes.
    world.answer(200, &page("4", "more", &[("a", "4")]));
    world.answer(500, "");
    world.back_off(1_600);
    assert_eq!(world.request(), "/api/v1/pods?limit=500");
    world.answer(200, &list("4", &[("a", "4")]).replace(r#""name":"a""#, r#""name":"a","labels":{"is":"other"}"#));
    assert_eq!(world.told(1), ["updated ns/a@4 (was 4) by Relist"]);
    assert_eq!(world.reasons().iter().filter(|reason| reason.contains("VersionWentBackwards")).count(), 1);
}

#[test]
fn versions_that_cannot_be_compared_are_taken_as_they_come() {
    let mut world = World::opening();
    world.answer(403, "");
    world.back_off(800);
    world.request();
    world.reasons();
    world.answer(200, &list("abc", &[]));
    assert_eq!(world.reasons(), [""; 0]);
    assert_eq!(world.watch_version(), "abc");
}

#[test]
fn a_list_that_echoes_our_version_is_believed_until_its_watch_has_expired_too() {
    let mut world = World::watching();
    world.body(&error_event(410, "Expired"));
    world.back_off(800);
    assert_eq!(world.request(), "/api/v1/pods?resourceVersion=5");
    world.answer(200, &list("5", &[("a", "4")]));
    assert_eq!(world.watch_version(), "5");
    world.answer(410, &status(410, "Expired"));
    world.back_off(1_600);
    assert_eq!(world.request(), "/api/v1/pods?limit=500", "that cache is as far behind as its watch");

    // Anything that came in between is progress, and the cache may be asked again.
    let mut world = World::watching();
    world.body(&error_event(410, "Expired"));
    world.back_off(800);
    world.answer(200, &list("5", &[("a", "4")]));
    world.head(200);
    world.body(&event("MODIFIED", "a", "6"));
    world.body(&error_event(410, "Expired"));
    world.back_off(800);
    assert_eq!(world.request(), "/api/v1/pods?resourceVersion=6");
}

#[test]
fn a_finished_list_waits_for_its_commit_without_a_deadline() {
    let mut world = World::listing();
    world.request();
    world.lazy = true;
    world.answer(200, &list("5", &[("a", "4")]));
    assert_eq!((world.phase(), world.deadline), (Phase::Listing, None));
    assert!(world.work() && !world.has_sent(), "decoded, and no watch yet");
    assert_eq!((world.phase(), world.deadline, world.informer.has_synced()), (Phase::Listing, None, false));
    assert!(world.work());
    assert_eq!((world.watch_version(), world.phase()), ("5".to_string(), Phase::Opening));
    assert!(world.informer.has_synced());
}

#[test]
fn an_item_that_cannot_be_built_is_reported_and_the_list_goes_on() {
    let mut world = World::listing();
    let bad = r#"{"kind":"PodList","metadata":{"resourceVersion":"5"},"items":[
        {"metadata":{"namespace":"ns","name":"bad","uid":"u","resourceVersion":"3","labels":7}},
        {"metadata":{"namespace":"ns","uid":"nameless"}},
        {"metadata":{"namespace":"ns","name":"a","uid":"u","resourceVersion":"4"}}]}"#;
    world.answer(200, bad);
    assert_eq!(world.reasons(), ["list 0 Undecodable", "list 0 Undecodable"]);
    assert_eq!(world.stored(), ["ns/a@4"]);
    assert!(world.informer.has_synced());
    assert_eq!(world.store.quarantined().count(), 1, "what has no key has no place there");
}

/// W4, C6: the token that comes with the news that ours is gone mixes two states.
#[test]
fn the_token_in_a_status_is_never_followed() {
    let gone = r#"{"kind":"Status","status":"Failure","reason":"Expired","code":410,
        "metadata":{"resourceVersion":"9","continue":"mixes-two-states"}}"#;
    for code in [410, 200] {
        let mut world = World::listing();
        world.answer(200, &page("5", "next", &[("a", "4")]));
        world.answer(code, gone);
        assert_eq!(world.request(), "/api/v1/pods?resourceVersion=0", "{code}: all at once, from the beginning");
        world.answer(code, gone);
        assert_eq!(world.request(), "/api/v1/pods?limit=500", "{code}");
        world.answer(code, gone);
        world.back_off(800);
        assert_eq!(world.request(), "/api/v1/pods?limit=500", "{code}");
        world.answer(200, &list("9", &[("b", "8")]));
        assert_eq!(world.stored(), ["ns/b@8"], "{code}: nothing of the first page is left");
        assert!(world.log.iter().all(|line| !line.contains("mixes")), "{code}");
    }
}
