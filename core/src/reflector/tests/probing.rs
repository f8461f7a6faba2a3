//! The state `Probing`, and when it is entered.

use super::harness::{World, bookmark, config, end_marker, error_event, event, list, object, page, status};
use crate::informer::IN_FLIGHT_BYTES;
use crate::informer::Input;
use crate::reflector::{ListStrategy, Phase};
use crate::time::{Duration, Time};
use crate::wire::Head;
use std::string::ToString;

const PROBE: &str = "/api/v1/pods?limit=1";

impl World {
    /// Has been watching for 10 minutes without news, over four streams, and has sent a probe.
    pub(super) fn probing() -> Self {
        let mut world = World::watching();
        world.body(&bookmark("6"));
        for _ in 0..3 {
            world.sleep(150_000, "silence of a body");
            world.head(200);
        }
        world.sleep(150_000, "version probe");
        world.reasons();
        world
    }

    /// Lets `millis` pass on a watch without news. Streams that are given up or end are opened again at once.
    fn quiet(&mut self, millis: u64) {
        let until = self.now + Duration::from_millis(millis);
        while self.now < until {
            self.now = self.deadline.expect("a watch always waits for something").at.min(until);
            self.input(Input::Tick);
            if self.phase() == Phase::Opening {
                self.head(200);
            }
        }
    }

    /// A probe that ends as `fault` makes it: it is reported as `reason`, costs a step, changes nothing, and the watch
    /// goes on at its version.
    fn probe_fails(reason: &str, fault: impl FnOnce(&mut World)) {
        let mut world = World::probing();
        assert_eq!(world.request(), PROBE);
        let stored = world.stored();
        fault(&mut world);
        assert_eq!(world.reasons(), [reason]);
        assert!(world.failure().to_string().starts_with("pods: the list failed ("), "{}", world.failure());
        world.back_off(800);
        assert_eq!((world.watch_version(), world.stored()), ("6".into(), stored), "{reason}");
        assert_eq!(world.informer.stats().lists, 1, "{reason}");
    }
}

#[test]
fn ten_minutes_without_news_over_however_many_streams_are_answered_with_a_list_of_one_object() {
    let mut world = World::probing();
    assert_eq!(world.phase(), Phase::Listing);
    let probe = world.sent();
    assert_eq!(probe.target(), PROBE, "no version: the newest is asked for");
    assert!(probe.fresh_connection, "whatever made the watch silent, its connection is not to be trusted");
    assert_eq!(world.cancelled.last(), Some(&5), "one request at a time: the watch is given up");
}

#[test]
fn streams_that_end_without_news_do_not_put_the_probe_off() {
    let mut world = World::watching();
    for _ in 0..9 {
        world.pass(60_000);
        world.close();
        assert_eq!(world.watch_version(), "5");
        world.head(200);
    }
    world.sleep(60_000, "version probe");
    assert_eq!(world.request(), PROBE);
}

#[test]
fn an_event_a_bookmark_and_a_list_put_the_probe_off_and_white_space_does_not() {
    for news in [event("ADDED", "b", "7"), bookmark("7"), bookmark("6"), bookmark("")] {
        let mut world = World::watching();
        world.quiet(595_000);
        world.body(&news);
        world.quiet(595_000);
        world.sleep(5_000, "version probe");
        assert_eq!(world.request(), PROBE, "{news}");
    }
    let mut world = World::watching();
    world.pass(140_000);
    world.body(&error_event(410, "Expired"));
    world.pass(1_600);
    world.answer(200, &list("5", &[("a", "4")]));
    world.head(200);
    world.quiet(595_000);
    world.sleep(5_000, "version probe");
}

#[test]
fn a_stream_that_was_just_opened_has_a_second_for_what_waited() {
    let mut world = World::watching();
    world.quiet(599_000);
    world.close();
    world.pass(800);
    world.pass(200);
    world.head(200);
    world.body(&event("ADDED", "b", "7"));
    assert_eq!((world.phase(), world.stored().join(" ")), (Phase::Watching, "ns/a@4 ns/b@7".into()));
    let mut world = World::watching();
    world.quiet(599_500);
    world.close();
    world.pass(600);
    world.head(200);
    world.sleep(1_000, "version probe");
}

#[test]
fn a_streaming_list_is_news_too() {
    let mut world = World::streaming();
    world.head(200);
    world.pass(50_000);
    world.body(&(event("ADDED", "a", "4") + &end_marker("5")));
    world.quiet(595_000);
    assert_eq!(world.deadline.unwrap().why, "version probe");
    world.pass(5_000);
    assert_eq!(world.request(), PROBE);
}

#[test]
fn a_server_that_is_not_older_is_watched_again_at_the_same_version_and_asked_again_ten_minutes_later() {
    // Newer is no news: other objects are written too. What cannot be compared says nothing.
    for newest in ["6", "7", "60", "99999999999999999999999999999999999999999", "", "0", "05", "five"] {
        let mut world = World::probing();
        assert_eq!(world.request(), PROBE);
        world.pass(3_000);
        world.answer(200, &page(newest, "more", &[("other", "3")]));
        assert_eq!((world.phase(), world.watch_version()), (Phase::Opening, "6".into()), "{newest}");
        assert_eq!((world.reasons().len(), world.stored().join(" ")), (0, "ns/a@4".into()), "{newest}");
        for _ in 0..4 {
            world.head(200);
            let next = world.deadline.unwrap();
            world.now = next.at;
            world.input(Input::Tick);
            if next.why == "version probe" {
                break;
            }
        }
        assert_eq!(world.request(), PROBE, "{newest}");
        world.reasons();
        world.answer(200, &list("6", &[]));
        assert_eq!(world.watch_version(), "6", "{newest}");
    }
}

#[test]
fn the_next_probe_is_exactly_ten_minutes_after_the_answer_to_the_last() {
    let mut world = World::probing();
    world.answer(200, &list("6", &[]));
    let answered = world.now;
    world.head(200);
    world.quiet(595_000);
    world.sleep(5_000, "version probe");
    assert_eq!(world.now.since(answered), Duration::from_secs(600));
}

#[test]
fn a_server_that_was_set_back_is_announced_once_and_its_newest_state_listed_at_once() {
    let mut world = World::probing();
    world.add_handler(1, None);
    world.told(1);
    assert_eq!(world.request(), PROBE);
    world.answer(200, &page("3", "more", &[("old", "2")]));
    assert_eq!(world.reasons(), ["list 0 VersionWentBackwards"]);
    assert_eq!(world.request(), "/api/v1/pods?limit=500");
    assert_eq!(world.stored(), ["ns/a@4"], "nothing goes before the list is there");
    world.answer(200, &list("3", &[("old", "2")]));
    assert_eq!(world.reasons(), [""; 0], "it was announced");
    assert_eq!((world.stored().join(" "), world.watch_version()), ("ns/old@2".into(), "3".into()));
    assert_eq!(world.told(1), ["deleted ns/a@4 (final state unknown) by Relist", "added ns/old@2 by Relist"]);
}

#[test]
fn a_server_that_was_set_back_is_read_by_the_strategy_in_force() {
    let mut world = World::streaming();
    world.head(200);
    world.body(&(event("ADDED", "a", "4") + &end_marker("6")));
    world.quiet(595_000);
    world.pass(5_000);
    assert_eq!(world.request(), PROBE);
    world.reasons();
    world.answer(200, &list("3", &[]));
    assert_eq!(world.stream_version().as_deref(), Some(""));
    world.head(200);
    world.body(&end_marker("4"));
    assert_eq!(world.reasons(), ["list 0 VersionWentBackwards"]);
    assert_eq!((world.stored().len(), world.store.version().as_str()), (0, "4"));
}

#[test]
fn after_a_server_was_set_back_no_version_hides_other_content() {
    let mut world = World::probing();
    world.add_handler(1, None);
    world.told(1);
    world.answer(200, &list("5", &[("a", "4")]));
    world.request();
    world.answer(200, &list("5", &[("a", "4")]).replace(r#""name":"a""#, r#""name":"a","labels":{"is":"other"}"#));
    assert_eq!((world.stored().join(" "), world.watch_version()), ("ns/a@4".into(), "5".into()));
    assert_eq!(world.told(1), ["updated ns/a@4 (was 4) by Relist"]);
    assert!(world.store.get("ns/a").unwrap().json().contains("other"));
}

#[test]
fn what_was_set_back_is_listed_until_that_works_and_never_watched_before() {
    let mut world = World::probing();
    world.answer(200, &list("3", &[]));
    for step in [800, 1_600] {
        assert_eq!(world.request(), "/api/v1/pods?limit=500");
        world.answer(503, "");
        world.back_off(step);
    }
    assert_eq!(world.request(), "/api/v1/pods?limit=500");
    // It may have come further, past where we were: what is there now stands under versions that were given anew.
    world.answer(200, &list("9", &[("b", "8")]));
    assert_eq!((world.stored().join(" "), world.watch_version()), ("ns/b@8".into(), "9".into()));
    assert_eq!(world.reasons().iter().filter(|reason| reason.contains("VersionWentBackwards")).count(), 1);
}

#[test]
fn a_probe_that_fails_in_any_way_is_reported_and_the_watch_goes_on_after_a_step() {
    World::probe_fails("list 403 Forbidden", |world| world.answer(403, ""));
    World::probe_fails("list 404 NotFound", |world| world.answer(404, "404 page not found"));
    World::probe_fails("list 500 InternalError", |world| world.answer(500, &status(500, "InternalError")));
    World::probe_fails("list 410 Expired", |world| world.answer(410, &status(410, "Expired")));
    World::probe_fails("list 504 Timeout", |world| world.answer(504, &super::harness::too_large()));
    World::probe_fails("list 410 Expired", |world| world.answer(200, &status(410, "Expired")));
    World::probe_fails("list 0 ConnectionRefused", World::refused);
    World::probe_fails("list 0 ConnectionReset", World::broken);
    World::probe_fails("list 0 ConnectionReset", World::close);
    World::probe_fails("list 0 ConnectionReset", |world| {
        world.head(200);
        world.body("{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"1\"},");
        world.broken();
    });
    World::probe_fails("list 0 Undecodable", |world| world.answer(200, "{\"kind\":\"PodList\",\"metadata\":{"));
    World::probe_fails("list 0 Undecodable", |world| world.answer(200, "<html>"));
    World::probe_fails("list 0 Undecodable", |world| world.answer(200, "{\"kind\":\"Table\",\"rows\":[]}"));
    World::probe_fails("list 0 Undecodable", |world| {
        let mut head = Head::new(200);
        head.set("content-encoding", "br");
        world.head_with(&head);
    });
}

#[test]
fn a_probe_has_the_deadlines_of_a_list_and_two_minutes_in_all() {
    World::probe_fails("list 0 DeadlineExceeded", |world| world.sleep(10_000, "connecting"));
    World::probe_fails("list 0 DeadlineExceeded", |world| {
        world.connected();
        world.sleep(60_000, "head of an answer");
    });
    World::probe_fails("list 0 DeadlineExceeded", |world| {
        world.connected();
        world.pass(30_000);
        world.head(200);
        world.sleep(60_000, "silence of a body");
    });
    World::probe_fails("list 0 DeadlineExceeded", |world| {
        world.head(200);
        world.body("{\"kind\":\"PodList\",\"items\":[");
        for n in 0..3 {
            world.pass(35_000);
            world.body(&(object(&std::format!("n{n}"), "3") + ","));
        }
        world.sleep(15_000, "end of a version probe");
        assert_eq!(world.informer.stats().stale_answers, 0);
    });
    World::probe_fails("list 503 ServiceUnavailable", |world| {
        world.head(503);
        world.sleep(5_000, "body of a failure");
    });
}

#[test]
fn a_probe_that_is_asked_to_wait_waits() {
    let mut world = World::probing();
    world.answer_later(429, "7");
    world.back_off_in(7_000, 8_750);
    assert_eq!(world.watch_version(), "6");
    let mut world = World::probing();
    world.answer(200, r#"{"kind":"Status","code":429,"reason":"TooManyRequests","details":{"retryAfterSeconds":3}}"#);
    world.back_off_in(3_000, 3_750);
    assert_eq!(world.watch_version(), "6");
}

#[test]
fn a_probe_that_failed_is_tried_again_ten_minutes_later_and_401_forces_new_credentials() {
    let mut world = World::probing();
    world.answer(401, "");
    let failed = world.now;
    world.back_off(800);
    assert!(world.sent().refresh_credentials);
    world.head(200);
    world.quiet(595_000);
    assert_eq!(world.deadline.unwrap().why, "version probe");
    assert_eq!(world.deadline.unwrap().at, failed + Duration::from_secs(600));
}

#[test]
fn a_list_that_ignores_the_limit_is_read_to_its_end_and_nothing_of_it_is_kept() {
    let mut world = World::probing();
    world.lazy = true;
    world.head(200);
    world.body("{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"6\"},\"items\":[");
    let big = object("big", "3").replace("\"uid\"", &std::format!("\"pad\":\"{}\",\"uid\"", "x".repeat(1 << 20)));
    for _ in 0..6 {
        world.body(&(big.clone() + ","));
    }
    const { assert!(6 << 20 > IN_FLIGHT_BYTES) };
    assert!(!world.has_kept() && world.paused.is_none(), "nothing waits to be decoded");
    world.body(&(object("last", "3") + "]}"));
    world.close();
    assert_eq!((world.watch_version(), world.stored().join(" ")), ("6".into(), "ns/a@4".into()));
}

#[test]
fn time_in_which_we_do_not_read_does_not_count() {
    let mut world = World::watching();
    world.lazy = true;
    world.body(&bookmark("6")); // keeps the store busy
    let pad = "x".repeat(IN_FLIGHT_BYTES);
    world.body(&event("ADDED", "big", "7").replace("\"uid\"", &std::format!("\"pad\":\"{pad}\",\"uid\"")));
    assert!(world.paused.is_some() && world.deadline.is_none());
    world.pass(86_400_000);
    assert_eq!((world.phase(), world.has_kept()), (Phase::Watching, true));
    while world.work() {}
    let resumed = world.now;
    world.quiet(595_000);
    let deadline = world.deadline.unwrap();
    assert_eq!((deadline.why, deadline.at), ("version probe", resumed + Duration::from_secs(600)));
}

#[test]
fn time_in_which_nobody_answers_or_nobody_drives_does_not_count() {
    // An outage of an hour after five minutes of silence.
    let mut world = World::watching();
    world.quiet(301_000);
    world.close();
    let begin = world.now;
    for _ in 0..4 {
        world.answer(503, "");
        world.pass(900_000);
    }
    let outage = world.now.since(begin);
    world.head(200);
    world.quiet(200_000);
    assert_eq!((world.phase(), world.deadline.unwrap().why), (Phase::Watching, "version probe"));
    assert_eq!(world.deadline.unwrap().at, Time::from_millis(1_000_000) + Duration::from_secs(600) + outage);
    // A day in which the machine was not called.
    let mut world = World::watching();
    world.pass(100_000);
    world.body("\n");
    world.pass(86_400_000);
    assert_eq!(world.watch_version(), "5", "its silence was noticed first");
    world.head(200);
    assert_eq!(world.deadline.unwrap().why, "silence of a body");
    world.quiet(250_000);
    assert_eq!(world.deadline.unwrap().why, "version probe");
    assert_eq!(world.deadline.unwrap().at, world.now + Duration::from_secs(600 - 250 - 150 - 100));
}

#[test]
fn a_probe_can_be_stopped_and_refreshed_like_any_list() {
    let mut world = World::probing();
    let id = world.id();
    world.input(Input::Stop);
    assert_eq!((world.phase(), world.cancelled.last()), (Phase::Stopped, Some(&id.0)));
    let mut world = World::probing();
    let id = world.id();
    world.input(Input::Refresh);
    assert_eq!(world.cancelled.last(), Some(&id.0));
    world.answer(200, &list("7", &[("a", "4")]));
    assert_eq!((world.stored().join(" "), world.watch_version()), ("ns/a@4".into(), "7".into()));
}

#[test]
fn a_strict_informer_that_rejects_its_list_gives_a_probe_up() {
    const BAD: &str = "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"namespace\":\"ns\",\"name\":\"c\",\"resourceVersion\":\"4\",\"labels\":7}}}\n";
    let mut config = config(ListStrategy::Auto);
    config.strict_decode = true;
    let mut world = World::with(config, 1);
    world.input(Input::Start);
    world.lazy = true;
    world.head(200);
    world.body(&(BAD.to_string() + &end_marker("9")));
    world.quiet(595_000);
    world.pass(5_000);
    assert_eq!(world.request(), PROBE);
    let probe = world.id();
    while world.work() {}
    assert_eq!((world.phase(), world.cancelled.last()), (Phase::Backoff, Some(&probe.0)));
    world.pass(1_600);
    assert_eq!(world.stream_version().as_deref(), Some("9"));
}

#[test]
fn a_tuning_without_a_probe_never_probes_and_one_without_a_wait_does_not_spin() {
    for (probe, want) in [(Duration::MAX, 0), (Duration::ZERO, 7)] {
        let mut config = config(ListStrategy::Paged);
        config.reflector.tuning.version_probe = probe;
        let mut world = World::with(config, 1);
        world.input(Input::Start);
        world.answer(200, &list("5", &[]));
        let start = world.now;
        let mut probes = 0;
        while world.now < start + Duration::from_millis(8_000) {
            if world.current.is_some() && world.last.as_ref().is_some_and(|request| request.target() == PROBE) {
                probes += 1;
                world.answer(200, &list("5", &[]));
            } else if world.phase() == Phase::Opening {
                world.head(200);
            } else {
                world.pass(100);
            }
        }
        assert_eq!(probes, want, "{probe:?}");
    }
}
