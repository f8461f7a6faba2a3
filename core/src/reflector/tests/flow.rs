//! What concerns every state: stopping, starting anew, strictness, flow control and handlers.

use super::harness::{World, bookmark, config, end_marker, error_event, event, list, object};
use crate::informer::{HandlerId, IN_FLIGHT_BYTES, Informer, InformerConfig, Input, Notice, Output};
use crate::object::{DynamicObject, Resource};
use crate::reflector::{End, ListStrategy, Phase};
use crate::time::{Duration, Time};
use crate::wire::{Head, RequestId, gzip_member};
use std::format;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

/// One world in each state but `Stopped`, with the requests so far looked at.
pub(super) fn everywhere() -> Vec<World> {
    let mut backoff = World::listing();
    backoff.answer(500, "");
    let mut finished = World::listing();
    finished.lazy = true;
    finished.answer(200, &list("5", &[("a", "4")]));
    let mut worlds = std::vec![
        World::new(ListStrategy::Paged),
        World::listing(),
        finished,
        World::streaming(),
        World::opening(),
        World::watching(),
        World::probing(),
        backoff,
    ];
    for world in &mut worlds {
        if world.has_sent() {
            world.sent();
        }
    }
    worlds
}

#[test]
fn stop_ends_every_state_for_good() {
    for mut world in everywhere() {
        let (phase, in_flight) = (world.phase(), world.current);
        world.add_handler(1, Some(Duration::from_secs(10)));
        world.input(Input::Stop);
        assert_eq!(world.cancelled.last().map(|id| RequestId(*id)), in_flight, "from {phase}");
        assert_eq!((world.phase(), world.current, world.deadline), (Phase::Stopped, None, None), "from {phase}");
        while world.work() {}
        let lines = world.log.len();
        world.input(Input::Stop);
        world.input(Input::Start);
        world.input(Input::Refresh);
        world.input(Input::Head { id: RequestId(1), head: &Head::new(200) });
        world.pass(86_400_000);
        assert!(world.log[lines..].iter().all(|line| line == "wait None"), "from {phase}: {:?}", &world.log[lines..]);
        assert_eq!(world.phase(), Phase::Stopped);
    }
}

#[test]
fn an_informer_that_has_not_started_waits_for_nothing() {
    let mut world = World::new(ListStrategy::Auto);
    world.input(Input::Tick);
    world.input(Input::Refresh);
    world.pass(86_400_000);
    assert_eq!((world.phase(), world.deadline, world.has_sent()), (Phase::Idle, None, false));
    world.input(Input::Start);
    world.input(Input::Start);
    assert_eq!(world.stream_version().as_deref(), Some(""), "one request, however often it is started");
}

#[test]
fn a_refresh_lists_the_newest_state_from_every_state_that_has_begun() {
    for mut world in everywhere() {
        let (phase, in_flight) = (world.phase(), world.current);
        world.input(Input::Refresh);
        if phase == Phase::Idle {
            assert!(!world.has_sent());
            continue;
        }
        let want = if phase == Phase::Streaming { None } else { Some("/api/v1/pods?limit=500".to_string()) };
        let request = world.request();
        assert!(want.is_none_or(|want| request == want), "from {phase}: {request}");
        assert_eq!(world.cancelled.last().map(|id| RequestId(*id)), in_flight, "from {phase}");
        while world.work() {}
        if phase == Phase::Streaming {
            world.head(200);
            world.body(&(event("ADDED", "b", "8") + &end_marker("9")));
        } else {
            world.answer(200, &list("9", &[("b", "8")]));
        }
        while world.work() {}
        assert_eq!((world.stored(), world.store.version().as_str()), (std::vec!["ns/b@8".into()], "9"), "from {phase}");
    }
}

#[test]
fn a_refresh_decodes_what_has_not_changed_and_a_relist_does_not() {
    let mut world = World::watching();
    world.add_handler(1, None);
    world.told(1);
    world.input(Input::Refresh);
    // Also if it needs more than one try.
    world.answer(500, "");
    world.back_off(800);
    world.answer(200, &list("9", &[("a", "4")]));
    assert_eq!(world.told(1), ["updated ns/a@4 (was 4) by Relist"]);
    world.answer(410, "");
    world.pass(60_000);
    world.answer(200, &list("9", &[("a", "4")]));
    assert_eq!(world.told(1), [""; 0]);
}

/// F41: whoever may write one object must not be able to stop the cache of its whole kind.
#[test]
fn an_object_that_is_nested_too_deeply_is_told_of_and_stops_nobody() {
    let deep = |version: &str| {
        let (open, close) = ("[".repeat(5_000), "]".repeat(5_000));
        format!(
            r#"{{"metadata":{{"namespace":"ns","name":"deep","resourceVersion":"{version}"}},"spec":{open}{close}}}"#
        )
    };
    let mut world = World::listing();
    world.request();
    world.add_handler(1, None);
    let item = object("a", "4");
    world.answer(200, &format!(r#"{{"metadata":{{"resourceVersion":"5"}},"items":[{},{item}]}}"#, deep("3")));
    assert_eq!((world.stored().join(""), world.watch_version()), ("ns/a@4".into(), "5".into()));
    let told = "ns/deep at version 3 cannot be used: it is nested too deeply";
    assert!(world.failure().message.starts_with(told), "{}", world.failure());
    assert!(world.failure().to_string().starts_with(&format!("pods: {told}")), "no list failed");

    world.head(200);
    world.body(&format!("{{\"type\":\"MODIFIED\",\"object\":{}}}{}", deep("6"), event("MODIFIED", "a", "7")));
    assert!(world.failure().message.starts_with("ns/deep at version 6 cannot be used: "), "{}", world.failure());
    assert!(world.failure().quarantined, "no watch failed");
    assert_eq!(world.phase(), Phase::Watching, "the stream goes on");
    assert_eq!(world.told(1), ["added ns/a@4 by List", "updated ns/a@7 (was 4) by Watch"]);
    // Its deletion needs no body.
    world.body(&format!("{{\"type\":\"DELETED\",\"object\":{}}}", deep("8")));
    assert_eq!(world.store.quarantined().count(), 0);
}

/// The content type is not asked: what is no JSON is found by its first byte, and what is JSON is read (a proxy may have
/// changed the header).
#[test]
fn the_content_type_makes_no_difference() {
    for content_type in
        [None, Some("application/json"), Some("Application/JSON; charset=UTF-8"), Some("text/plain"), Some("")]
    {
        let mut world = World::listing();
        let mut head = Head::new(200);
        head.content_type = content_type.map(ToString::to_string);
        world.head_with(&head);
        world.body(&list("5", &[("a", "4")]));
        world.close();
        assert_eq!(world.stored(), ["ns/a@4"], "{content_type:?}");
        world.head_with(&head);
        world.body(&event("MODIFIED", "a", "6"));
        assert_eq!(world.stored(), ["ns/a@6"], "{content_type:?}");
    }
    let mut world = World::listing();
    let mut head = Head::new(200);
    head.set("Content-Type", "application/vnd.kubernetes.protobuf");
    world.head_with(&head);
    world.body("k8s\0");
    assert_eq!(world.failure().reason, "Undecodable");
    assert!(world.failure().message.contains("k8s\\u{0}"), "{}", world.failure());
}

#[test]
fn a_strict_informer_fails_a_list_with_an_object_that_does_not_decode() {
    let bad = r#"{"kind":"PodList","metadata":{"resourceVersion":"5"},"items":[
        {"metadata":{"namespace":"ns","name":"bad","resourceVersion":"3","labels":7}}]}"#;
    let mut config = config(ListStrategy::Paged);
    config.strict_decode = true;
    let mut world = World::with(config, 1);
    world.input(Input::Start);
    world.request();
    for step in [800, 1_600] {
        world.answer(200, bad);
        assert_eq!(world.failure().reason, "Undecodable");
        assert!(world.failure().message.starts_with("ns/bad at version 3 cannot be used: "), "{}", world.failure());
        assert!(!world.failure().quarantined && world.failure().to_string().starts_with("pods: the list failed ("));
        world.back_off(step);
        assert_eq!(world.request(), "/api/v1/pods?limit=500&resourceVersion=0");
    }
    world.answer(200, &list("6", &[("a", "4")]));
    assert_eq!((world.stored().join(""), world.watch_version()), ("ns/a@4".into(), "6".into()));
}

/// Wherever the reflector stands when the list turns out to be bad: nothing goes on from it.
#[test]
fn a_strict_informer_never_watches_on_from_a_streaming_list_that_it_rejected() {
    const BAD: &str = "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"namespace\":\"ns\",\"name\":\"c\",\"resourceVersion\":\"4\",\"labels\":7}}}\n";
    type Then = fn(&mut World);
    let goes_on: Then = |world| world.body(&event("ADDED", "b", "10"));
    let breaks: Then = World::broken;
    let is_opened_again: Then = |world| {
        world.broken();
        world.pass(60_000);
    };
    let is_watched_again: Then = |world| {
        world.broken();
        world.pass(60_000);
        world.head(200);
        world.body(&event("ADDED", "b", "10"));
    };
    let expires: Then = |world| world.body(&error_event(410, "Expired"));
    let is_listed_again: Then = |world| {
        world.body(&error_event(410, "Expired"));
        world.pass(60_000);
    };
    for (at, (then, version)) in [
        (goes_on, "10"),
        (breaks, "9"),
        (is_opened_again, "9"),
        (is_watched_again, "10"),
        (expires, "9"),
        (is_listed_again, "9"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut config = config(ListStrategy::Auto);
        config.strict_decode = true;
        let mut world = World::with(config, 1);
        world.input(Input::Start);
        world.lazy = true;
        world.head(200);
        world.body(&(BAD.to_string() + &end_marker("9")));
        then(&mut world);
        world.reasons();
        while world.work() {}
        assert_eq!(world.reasons(), ["streaming 0 Undecodable"], "{at}");
        assert!(world.store.is_empty() && !world.informer.has_synced(), "{at}");
        if world.current.is_none() {
            world.pass(60_000);
        }
        assert_eq!(world.stream_version().as_deref(), Some(version), "{at}");
        world.head(200);
        world.body(&(event("ADDED", "a", "3") + &end_marker("11")));
        while world.work() {}
        assert_eq!((world.stored().join(""), world.informer.has_synced()), ("ns/a@3".into(), true), "{at}");
    }
}

/// An event of about `size` bytes.
fn big(name: &str, version: &str, size: usize) -> String {
    let pad = "x".repeat(size);
    format!(
        "{{\"type\":\"ADDED\",\"object\":{{\"metadata\":{{\"namespace\":\"ns\",\"name\":\"{name}\",\"uid\":\"u\",\
         \"resourceVersion\":\"{version}\"}},\"pad\":\"{pad}\"}}}}\n"
    )
}

#[test]
fn a_body_is_paused_over_4_mib_and_its_deadlines_stand_still_until_half_of_that_is_decoded() {
    let mut world = World::listing();
    world.answer(200, &list("5", &[]));
    let timeout: u64 = world.sent().query_value("timeoutSeconds").unwrap().parse().unwrap();
    world.head(200);
    world.lazy = true;
    world.body(&bookmark("6")); // keeps the store busy
    let quarter = IN_FLIGHT_BYTES / 4 - 200;
    for n in 0..4 {
        world.body(&big(&format!("n{n}"), &format!("{}", 10 + n), quarter));
    }
    assert_eq!(world.paused, None, "4 MiB are not over 4 MiB");
    world.pass(100_000);
    world.body(&big("last", "20", quarter));
    assert_eq!((world.paused, world.deadline), (world.current, None));
    // Neither the silence nor the end of the watch counts while we do not read.
    world.pass(10_000_000);
    assert_eq!((world.phase(), world.failures.len(), world.cancelled.len()), (Phase::Watching, 0, 0));
    let mut steps = 0;
    while world.paused.is_some() {
        assert!(world.work(), "it goes on by itself");
        steps += 1;
    }
    assert!(steps > 3, "not before 2 MiB are left");
    let left = Duration::from_secs(150);
    assert_eq!(world.deadline.unwrap().at, world.now + left, "the whole silence: the last byte came as we paused");
    while world.work() {}
    world.body(&bookmark("30"));
    while world.work() {}
    world.pass(140_000);
    world.body(&bookmark("31"));
    while world.work() {}
    let end = Duration::from_secs(timeout + 10) - Duration::from_secs(240);
    assert_eq!(
        world.deadline.unwrap().at,
        world.now + end.min(Duration::from_secs(150)),
        "the watch was read for 240 s"
    );
    assert_eq!(world.store.len(), 5);
}

#[test]
fn bookmarks_that_wait_are_one_however_many_come() {
    let mut world = World::watching();
    world.lazy = true;
    world.body(&bookmark("6")); // keeps the store busy
    (7..5_000).for_each(|version| world.body(&bookmark(&version.to_string())));
    let mut steps = 0;
    while world.work() {
        steps += 1;
    }
    assert_eq!((world.store.version().as_str(), steps), ("4999", 2));
}

/// One read of gzip stands for more than may wait: its rest is read when there is room, and only then its end counts.
#[test]
fn what_was_read_of_a_compressed_list_waits_and_its_end_with_it() {
    let items: Vec<_> = (0..6).map(|n| big(&format!("n{n}"), "3", IN_FLIGHT_BYTES / 4)).collect();
    let items: Vec<_> = items.iter().map(|e| &e["{\"type\":\"ADDED\",\"object\":".len()..e.len() - 2]).collect();
    let held = |tail: &str| {
        let list = format!(r#"{{"metadata":{{"resourceVersion":"5"}},"items":[{}{tail}"#, items.join(","));
        let body = gzip_member(0, &[list.as_bytes()]).0;
        let mut world = World::listing();
        world.request();
        world.lazy = true;
        let mut head = Head::new(200);
        head.set("content-encoding", "gzip");
        world.head_with(&head);
        let id = world.id();
        world.input(Input::Body { id, bytes: &body });
        assert_eq!((world.paused, world.deadline), (Some(id), None), "our own slowness is not the server's silence");
        world.close();
        assert_eq!((world.phase(), world.has_sent(), world.deadline), (Phase::Listing, false, None));
        world
    };
    let mut world = held("]}");
    world.pass(1_000_000);
    while world.work() {}
    assert_eq!((world.store.len(), world.watch_version().as_str(), world.failures.len()), (6, "5", 0));

    // What has ended for the driver is not cancelled, whatever becomes of it.
    let mut world = held("}");
    while world.work() {}
    assert_eq!((world.failure().reason.as_str(), world.cancelled.len(), world.store.len()), ("Undecodable", 0, 0));
    world.back_off(800);
    for input in [Input::Stop, Input::Refresh] {
        let mut world = held("]}");
        world.input(input);
        while world.work() {}
        assert_eq!((world.cancelled.len(), world.store.len()), (0, 0));
    }
}

#[test]
fn a_request_that_has_no_body_yet_is_not_paused() {
    let mut world = World::listing();
    world.request();
    world.lazy = true;
    let items: Vec<_> = (0..3).map(|n| big(&format!("n{n}"), "3", IN_FLIGHT_BYTES / 2)).collect();
    let items: Vec<_> = items.iter().map(|e| &e["{\"type\":\"ADDED\",\"object\":".len()..e.len() - 2]).collect();
    let page = format!(
        r#"{{"kind":"PodList","metadata":{{"resourceVersion":"5","continue":"x"}},"items":[{}]}}"#,
        items.join(",")
    );
    world.head(200);
    world.body(&page);
    assert!(world.paused.is_some());
    // The adapter had read the end already.
    world.close();
    world.paused = None;
    assert_eq!(world.request(), "/api/v1/pods?limit=500&continue=x");
    assert_eq!((world.paused, world.deadline.unwrap().why), (None, "connecting"));
    world.connected();
    world.head(200);
    assert_eq!(world.paused, world.current, "now there is a body");
    while world.work() {}
    assert_eq!(world.paused, None);
    world.body(&list("5", &[]));
    world.close();
    while world.work() {}
    assert_eq!((world.store.len(), world.watch_version()), (3, "5".into()));
}

/// One of two handlers, or both, have too much before them.
fn backlog(world: &mut World, id: u64, full: bool) {
    world.input(Input::Backlog { id: HandlerId(id), full });
}

#[test]
fn while_a_handler_is_full_nothing_is_read_or_committed_and_deadlines_stand_still() {
    let mut world = World::watching();
    for id in [1, 2] {
        world.add_handler(id, None);
    }
    world.body(&event("ADDED", "a", "6"));
    let (watch, silence) = (world.current, Duration::from_secs(150));
    backlog(&mut world, 1, true);
    backlog(&mut world, 2, true);
    assert_eq!((world.paused, world.deadline), (watch, None));
    world.body(&event("ADDED", "b", "7")); // was on its way
    world.pass(10_000_000);
    assert_eq!((world.store.len(), world.phase(), world.failures.len()), (1, Phase::Watching, 0));
    backlog(&mut world, 1, false);
    assert_eq!((world.paused, world.store.len()), (watch, 1), "the other one is full");
    world.remove_handler(2);
    assert_eq!((world.paused, world.store.len()), (None, 2));
    assert_eq!(world.deadline.unwrap().at, world.now + silence, "no second of the pause counts");
    backlog(&mut world, 2, true);
    assert_eq!(world.paused, None, "it is gone");
}

#[test]
fn a_full_handler_holds_up_lists_too_and_what_has_no_body_yet_as_soon_as_it_has_one() {
    let mut world = World::watching();
    world.add_handler(1, None);
    backlog(&mut world, 1, true);
    world.input(Input::Refresh);
    world.paused = None; // cancelled
    assert_eq!(world.deadline.unwrap().why, "connecting");
    world.request();
    world.head(200);
    assert_eq!((world.paused, world.deadline), (world.current, None));
    let before = world.stored();
    world.body(&list("9", &[("z", "8")]));
    world.close();
    world.paused = None; // over
    assert_eq!((world.stored(), world.deadline), (before, None));
    backlog(&mut world, 1, false);
    assert_eq!((world.stored(), world.phase()), (["ns/z@8".to_string()].to_vec(), Phase::Opening));
}

#[test]
fn a_stop_ends_what_waits_for_a_full_handler() {
    let mut world = World::watching();
    world.add_handler(1, None);
    backlog(&mut world, 1, true);
    let before = world.stored();
    world.body(&event("ADDED", "z", "6"));
    world.input(Input::Stop);
    backlog(&mut world, 1, false);
    assert_eq!((world.phase(), world.deadline, world.stored()), (Phase::Stopped, None, before));
}

#[test]
fn cancelling_a_paused_body_forgets_the_pause() {
    let mut world = World::watching();
    world.lazy = true;
    for n in 0..6 {
        world.body(&big(&format!("n{n}"), &format!("{}", 10 + n), IN_FLIGHT_BYTES / 4));
    }
    assert!(world.paused.is_some());
    world.input(Input::Refresh);
    assert_eq!((world.paused, world.deadline.unwrap().why), (None, "connecting"));
    while world.work() {}
    assert!(world.log.iter().all(|line| !line.starts_with("resume")), "it is gone");
}

#[test]
fn what_is_decoded_of_a_list_that_was_given_up_does_not_show() {
    let mut world = World::listing();
    world.request();
    world.lazy = true;
    world.head(200);
    world.body(r#"{"kind":"PodList","metadata":{"resourceVersion":"5"},"items":[{"metadata":{"name":"ghost","resourceVersion":"1"}},"#);
    assert!(world.has_kept());
    world.broken();
    world.back_off(800);
    while world.work() {}
    world.answer(200, &list("6", &[("a", "4")]));
    while world.work() {}
    assert_eq!(world.stored(), ["ns/a@4"]);
}

#[test]
fn a_resync_is_exact_and_at_least_a_second() {
    let mut world = World::watching();
    world.add_handler(1, Some(Duration::from_millis(10)));
    let raised = Notice::ResyncRaised { handler: HandlerId(1), asked: Duration::from_millis(10) };
    assert!(world.log.contains(&format!("{raised:?}")));
    world.told(1);
    world.sleep(1_000, "resync");
    assert_eq!(world.told(1), ["resync ns/a@4 by Resync"]);
    world.sleep(1_000, "resync");
    world.remove_handler(1);
    assert_eq!(world.deadline.unwrap().why, "silence of a body");
    world.add_handler(1, Some(Duration::ZERO));
    assert_eq!(world.deadline.unwrap().why, "silence of a body", "zero is never");
}

#[test]
fn each_handler_is_resynced_in_its_own_period_whatever_the_others_ask_for() {
    let resync = || vec!["resync ns/a@4 by Resync".to_string()];
    let mut world = World::watching();
    for (id, period) in [(1, None), (2, Some(2)), (3, Some(3))] {
        world.add_handler(id, period.map(Duration::from_secs));
        world.told(id);
    }
    let told = |world: &mut World, ids: [u64; 3]| ids.map(|id| world.told(id));
    world.sleep(2_000, "resync");
    assert_eq!(told(&mut world, [1, 2, 3]), [vec![], resync(), vec![]]);
    world.sleep(1_000, "resync");
    assert_eq!(told(&mut world, [1, 2, 3]), [vec![], vec![], resync()]);
    world.add_handler(4, Some(Duration::from_millis(1_500)));
    world.told(4);
    world.sleep(1_000, "resync");
    assert_eq!(told(&mut world, [2, 3, 4]), [resync(), vec![], vec![]]);
    world.sleep(500, "resync");
    assert_eq!(told(&mut world, [2, 3, 4]), [vec![], vec![], resync()]);
    world.sleep(1_500, "resync");
    assert_eq!(told(&mut world, [2, 3, 4]), [resync(), resync(), resync()], "all three at 6 s");
    assert_eq!(world.told(1), [""; 0]);
}

/// Both bounds of an informer can be set.
#[test]
fn a_smaller_bound_pauses_sooner_and_a_smaller_period_is_not_raised() {
    let (head, id) = (Head::new(200), RequestId(1));
    let mut config = InformerConfig::new(Resource::namespaced("", "v1", "pods", "Pod"));
    config.reflector.strategy = ListStrategy::Paged;
    (config.in_flight_bytes, config.min_resync) = (1000, Duration::from_millis(10));
    let mut informer = Informer::<DynamicObject>::new(config, 7);
    informer.handle(Time::ZERO, Input::AddHandler { id: HandlerId(1), resync: Some(Duration::from_millis(10)) });
    informer.handle(Time::ZERO, Input::Start);
    informer.handle(Time::ZERO, Input::Head { id, head: &head });
    let item = format!(r#"{{"metadata":{{"name":"a","resourceVersion":"1"}},"pad":"{}"}},"#, "x".repeat(1000));
    let body = format!(r#"{{"kind":"PodList","metadata":{{"resourceVersion":"5"}},"items":[{item}"#);
    informer.handle(Time::ZERO, Input::Body { id, bytes: body.as_bytes() });
    #[allow(clippy::wildcard_enum_match_arm)] // all of them
    let outputs: Vec<_> = core::iter::from_fn(|| match informer.poll_output() {
        Output::Wait(_) => None,
        output => Some(output),
    })
    .collect();
    assert!(outputs.iter().any(|output| matches!(output, Output::Pause(paused) if *paused == id)));
    assert!(!outputs.iter().any(|output| matches!(output, Output::Notice(Notice::ResyncRaised { .. }))));
}

#[test]
fn handlers_get_the_whole_store_once_a_list_is_in_it_and_late_ones_at_once() {
    let mut world = World::listing();
    world.add_handler(1, None);
    assert_eq!(world.told(1), [""; 0]);
    world.answer(500, "");
    world.back_off(800);
    assert!(!world.informer.has_synced(), "a list that failed is none (B050)");
    world.answer(200, &list("5", &[("a", "4")]));
    assert_eq!(world.told(1), ["added ns/a@4 by List"]);
    assert!(world.listeners[&1].synced && world.informer.has_synced());
    world.head(200);
    world.body(&event("ADDED", "b", "6"));
    world.add_handler(2, None);
    assert_eq!(world.told(2), ["added ns/a@4 by List", "added ns/b@6 by List"]);
    assert_eq!(world.told(1), ["added ns/b@6 by Watch"]);
}

#[test]
fn a_relist_tells_deletions_first_then_the_list_in_order_and_nothing_of_what_is_the_same() {
    let mut world = World::listing();
    world.add_handler(1, None);
    world.answer(200, &list("5", &[("a", "1"), ("b", "2"), ("c", "3")]));
    world.told(1);
    world.answer(410, "");
    world.pass(60_000);
    world.answer(200, &list("9", &[("d", "8"), ("c", "7"), ("a", "1")]));
    assert_eq!(
        world.told(1),
        [
            "deleted ns/b@2 (final state unknown) by Relist",
            "added ns/d@8 by Relist",
            "updated ns/c@7 (was 3) by Relist"
        ]
    );
}

#[test]
fn of_a_key_that_a_relist_has_twice_the_last_object_counts_and_is_told_once() {
    let mut world = World::listing();
    world.add_handler(1, None);
    world.answer(200, &list("5", &[("a", "1"), ("a", "2")]));
    assert_eq!((world.told(1), world.stored()), (vec!["added ns/a@2 by List".into()], vec!["ns/a@2".into()]));
    world.answer(410, "");
    world.pass(60_000);
    world.answer(200, &list("9", &[("n", "6"), ("a", "7"), ("n", "8"), ("a", "9")]));
    assert_eq!(world.told(1), ["added ns/n@8 by Relist", "updated ns/a@9 (was 2) by Relist"]);
}

#[test]
fn an_object_made_anew_unseen_is_deleted_and_added() {
    let mut world = World::listing();
    world.add_handler(1, None);
    world.answer(200, &list("5", &[("a", "1")]));
    world.answer(410, "");
    world.pass(60_000);
    world.told(1);
    world.answer(200, &list("9", &[("a", "8")]).replace("u-a", "u-other"));
    assert_eq!(world.told(1), ["deleted ns/a@1 (final state unknown) by Relist", "added ns/a@8 by Relist"]);
}

#[test]
#[should_panic(expected = "HandlerId(1) is in use: give each handler its own")]
fn two_handlers_of_one_number_are_a_mistake() {
    let mut world = World::listing();
    world.add_handler(1, None);
    world.add_handler(1, None);
}

#[test]
#[should_panic(expected = "Committed answers a Commit, and none is out")]
fn an_answer_that_nobody_asked_for_is_a_mistake() {
    let mut world = World::listing();
    let receipt = crate::store::Receipt::default();
    world.input(Input::Committed(receipt));
}

#[test]
fn informers_that_differ_in_their_selectors_draw_different_jitter() {
    let wait = |selector: Option<&str>| {
        let mut config = config(ListStrategy::Paged);
        config.reflector.label_selector = selector.map(Into::into);
        let mut world = World::with(config, 1);
        world.input(Input::Start);
        world.end(&End::Closed);
        world.deadline
    };
    assert_eq!(wait(Some("app=a")), wait(Some("app=a")));
    assert_ne!(wait(Some("app=a")), wait(Some("app=b")));
    assert_ne!(wait(None), wait(Some("app=b")));
}

#[test]
fn an_absurd_watch_timeout_is_a_day() {
    let mut config = config(ListStrategy::Paged);
    config.reflector.min_watch_timeout = Duration::MAX;
    let mut world = World::with(config, 1);
    world.input(Input::Start);
    world.answer(200, &list("5", &[]));
    let timeout: u64 = world.sent().query_value("timeoutSeconds").unwrap().parse().unwrap();
    assert!((86_400..=172_800).contains(&timeout));
}
