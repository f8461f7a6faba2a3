//! Watches: table 2.3 of the contract, rules C8 to C18, rows W0, W2, W6 and W7. The texts are those of a real
//! kube-apiserver 1.36.1.

use crate::support::*;
use informer_core::time::Time;
use informer_sim::{Config, HttpRequest, Input};

const STREAM: &str = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

#[test]
fn a_watch_from_a_version_shows_every_later_change_once() {
    let mut world = World::with_five();
    let watch = world.watch("resourceVersion=4");
    assert_eq!(world.answer(watch).status, 200);
    world.put("a", "y");
    world.delete("b");
    world.put("b", "z");
    assert_eq!(world.answer(watch).events(), ["ADDED d@5", "ADDED e@6", "MODIFIED a@7", "DELETED b@8", "ADDED b@9"]);
    assert!(!world.answer(watch).ended);
}

#[test]
fn a_frame_is_that_of_the_real_server() {
    let mut world = World::new(Config::default());
    let watch = world.watch("resourceVersion=1");
    let json = r#"{"metadata":{"name":"a","namespace":"n","uid":"u","creationTimestamp":"2026-01-01T00:00:00Z"}}"#;
    world.server.put(&configmaps(), json).unwrap();
    world.drain();
    assert_eq!(
        world.answer(watch).text(),
        concat!(
            r#"{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"n","#,
            r#""uid":"u","resourceVersion":"2","creationTimestamp":"2026-01-01T00:00:00Z"}}}"#,
            "\n"
        )
    );
}

#[test]
fn a_deletion_shows_the_last_content_under_its_own_version() {
    let mut world = World::with_five();
    let watch = world.watch("resourceVersion=6");
    world.put("a", "last");
    world.delete("a");
    let frames = world.answer(watch).frames();
    assert_eq!(frames[1]["type"], "DELETED");
    assert_eq!(frames[1]["object"]["metadata"]["resourceVersion"], "8");
    assert_eq!(frames[1]["object"]["metadata"]["labels"]["l"], "last");
}

/// C9, as it was seen on the real server.
#[test]
fn entering_a_selection_is_added_and_leaving_is_deleted_with_the_previous_content() {
    let mut world = World::new(Config::default());
    let watch = world.watch("resourceVersion=1&labelSelector=l%3Din");
    for label in ["out", "in", "in2", "in", "out", "in"] {
        world.put("s", label);
    }
    let json = r#"{"metadata":{"name":"s","namespace":"n","labels":{"l":"in"}},"data":{"v":"2"}}"#;
    world.server.put(&configmaps(), json).unwrap();
    world.delete("s");
    let answer = world.answer(watch);
    assert_eq!(
        answer.events(),
        ["ADDED s@3", "DELETED s@4", "ADDED s@5", "DELETED s@6", "ADDED s@7", "MODIFIED s@8", "DELETED s@9"]
    );
    assert!(answer.frames().iter().all(|frame| frame["object"]["metadata"]["labels"]["l"] == "in"));
}

#[test]
fn a_watch_of_one_name_or_namespace_sees_nothing_else() {
    let mut world = World::with_five();
    let name = world.watch("resourceVersion=1&fieldSelector=metadata.name%3Db");
    let elsewhere = world.open(HttpRequest::get("/api/v1/namespaces/m/configmaps?watch=1&resourceVersion=1"));
    let everywhere = world.open(HttpRequest::get("/api/v1/configmaps?watch=1&resourceVersion=5"));
    assert_eq!(world.answer(name).events(), ["ADDED b@3"]);
    assert_eq!(world.answer(elsewhere).events().len(), 0);
    assert_eq!(world.answer(everywhere).events(), ["ADDED e@6"]);
}

#[test]
fn without_a_version_a_watch_begins_with_the_state() {
    let mut world = World::with_five();
    for query in ["", "resourceVersion=", "resourceVersion=0"] {
        let watch = world.watch(query);
        assert_eq!(world.answer(watch).events().len(), 5, "{query}");
        assert_eq!(world.answer(watch).events()[0], "ADDED a@2");
        let marked = world.watch(&format!("{query}&allowWatchBookmarks=true"));
        assert_eq!(world.answer(marked).events().last().unwrap(), "BOOKMARK end@6", "{query}");
    }
}

#[test]
fn a_streaming_list_is_the_state_in_key_order_and_a_marked_bookmark() {
    let mut world = World::with_five();
    world.put("a", "y");
    for version in ["", "&resourceVersion=0", "&resourceVersion=3", "&resourceVersion=7"] {
        let watch = world.watch(&format!("{STREAM}{version}"));
        assert_eq!(
            world.answer(watch).events(),
            ["ADDED a@7", "ADDED b@3", "ADDED c@4", "ADDED d@5", "ADDED e@6", "BOOKMARK end@7"],
            "{version}"
        );
    }
    let watch = world.watch(STREAM);
    world.delete("a");
    assert_eq!(world.answer(watch).events().last().unwrap(), "DELETED a@8");
}

#[test]
fn the_bookmark_is_that_of_the_real_server() {
    let mut world = World::new(Config::default());
    let watch = world.watch(STREAM);
    assert_eq!(
        world.answer(watch).text(),
        concat!(
            r#"{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"1","#,
            r#""annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
            "\n"
        )
    );
    let custom = world.open(HttpRequest::get(&format!("/apis/example.com/v1/widgets?watch=1&{STREAM}")));
    assert_eq!(
        world.answer(custom).text(),
        concat!(
            r#"{"type":"BOOKMARK","object":{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"#,
            r#""annotations":{"k8s.io/initial-events-end":"true"},"resourceVersion":"1"}}}"#,
            "\n"
        )
    );
}

/// C12: the mark comes only if bookmarks are allowed.
#[test]
fn a_streaming_list_without_bookmarks_has_no_mark() {
    let mut world = World::with_five();
    let watch = world.watch("sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
    assert_eq!(world.answer(watch).events().len(), 5);
}

#[test]
fn a_watch_may_decline_the_state() {
    let mut world = World::with_five();
    let decline = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let now = world.watch(decline);
    let from = world.watch(&format!("{decline}&resourceVersion=5"));
    world.put("a", "y");
    assert_eq!(world.answer(now).events(), ["MODIFIED a@7"]);
    assert_eq!(world.answer(from).events(), ["ADDED e@6", "MODIFIED a@7"]);
}

/// W2: HTTP 200 and one ERROR event.
#[test]
fn a_version_that_is_too_old_is_an_error_event() {
    let mut world = World::new(Config { history: 3, ..Config::default() });
    for name in ["a", "b", "c", "d", "e"] {
        world.put(name, "x");
    }
    let watch = world.watch("resourceVersion=2");
    let answer = world.answer(watch);
    assert_eq!((answer.status, answer.ended), (200, true));
    assert_eq!(
        answer.text(),
        concat!(
            r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","#,
            r#""message":"too old resource version: 2 (3)","reason":"Expired","code":410}}"#,
            "\n"
        )
    );
    let oldest = world.watch("resourceVersion=3");
    assert_eq!(world.answer(oldest).events(), ["ADDED c@4", "ADDED d@5", "ADDED e@6"]);
}

#[test]
fn a_restart_or_a_compaction_forgets_where_watches_could_start() {
    for forget in [informer_sim::Server::restart, informer_sim::Server::compact] {
        let mut world = World::with_five();
        forget(&mut world.server);
        let old = world.watch("resourceVersion=5");
        assert_eq!(world.answer(old).events(), ["ERROR 410"]);
        let new = world.watch("resourceVersion=6");
        world.put("a", "y");
        assert_eq!(world.answer(new).events(), ["MODIFIED a@7"]);
    }
}

#[test]
fn a_compaction_does_not_touch_open_watches() {
    let mut world = World::with_five();
    let watch = world.watch("resourceVersion=6");
    world.server.compact();
    world.put("a", "y");
    assert_eq!(world.answer(watch).events(), ["MODIFIED a@7"]);
}

/// W6.
#[test]
fn a_streaming_list_from_the_future_is_an_error_event_after_three_seconds() {
    let mut world = World::with_five();
    let watch = world.watch(&format!("{STREAM}&resourceVersion=99"));
    world.pass(secs(3));
    let answer = world.answer(watch);
    assert_eq!((answer.status, answer.ended), (200, true));
    assert!(!answer.headers.contains_key("retry-after"));
    assert_eq!(answer.events(), ["ERROR 504"]);
    assert_eq!(answer.frames()[0]["object"]["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    let early = world.watch(&format!("{STREAM}&resourceVersion=7"));
    world.pass(secs(1));
    world.put("f", "x");
    assert_eq!(world.answer(early).events().last().unwrap(), "BOOKMARK end@7");
}

/// C15: it keeps still until the version has passed, and says nothing of it.
#[test]
fn a_plain_watch_from_the_future_is_silent() {
    let mut world = World::with_five();
    let watch = world.watch("resourceVersion=8&allowWatchBookmarks=true&timeoutSeconds=300");
    world.put("a", "1");
    world.put("a", "2");
    world.pass(secs(30));
    assert_eq!(world.answer(watch).status, 200);
    assert_eq!(world.answer(watch).body.len(), 0);
    world.put("a", "3");
    assert_eq!(world.answer(watch).events(), ["MODIFIED a@9"]);

    let silent = world.watch("resourceVersion=99&allowWatchBookmarks=true&timeoutSeconds=300");
    world.pass(secs(300));
    assert!(world.answer(silent).ended && world.answer(silent).body.is_empty());
}

#[test]
fn bad_options_of_a_watch_are_refused() {
    let mut world = World::with_five();
    let invalid = "422 Invalid ListOptions.meta.k8s.io \"\" is invalid: ";
    let requires =
        "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
    for (query, refusal) in [
        (
            "resourceVersionMatch=NotOlderThan",
            format!(
                "{invalid}resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless \
                 sendInitialEvents is provided"
            ),
        ),
        ("sendInitialEvents=true", format!("{invalid}{requires}")),
        (
            "sendInitialEvents=false&resourceVersionMatch=Exact",
            format!(
                "{invalid}[{requires}, resourceVersionMatch: Unsupported value: \"Exact\": supported values: \
                 \"NotOlderThan\"]"
            ),
        ),
        (
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&continue=x",
            format!(
                "{invalid}resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided"
            ),
        ),
        (
            "resourceVersion=abc",
            "500 - resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax".into(),
        ),
        ("timeoutSeconds=abc", "400 BadRequest strconv.ParseInt: parsing \"abc\": invalid syntax".into()),
    ] {
        let watch = world.watch(query);
        assert_eq!(world.answer(watch).refusal(), refusal, "{query}");
    }
}

#[test]
fn a_watch_ends_cleanly_at_its_timeout() {
    let mut world = World::with_five();
    let watch = world.watch("resourceVersion=6&timeoutSeconds=7");
    assert_eq!(
        world.deadline.map(|deadline| (deadline.at, deadline.why)),
        Some((Time::from_millis(7_000), "timeout of a watch"))
    );
    world.pass(secs(6));
    assert!(!world.answer(watch).ended);
    world.pass(secs(1));
    assert!(world.answer(watch).ended && world.answer(watch).body.is_empty());
    assert_eq!(world.server.open_calls(), 0);
}

#[test]
fn a_watch_without_timeout_lasts_half_an_hour_to_an_hour() {
    let mut world = World::with_five();
    world.watch("resourceVersion=6");
    let at = world.deadline.unwrap().at;
    assert!((Time::from_millis(1_800_000)..Time::from_millis(3_600_000)).contains(&at), "{at:?}");
}

/// C14: a minute apart, and two seconds before the end.
#[test]
fn bookmarks_come_every_minute_and_before_the_end() {
    let mut world = World::with_five();
    let watch = world.watch("resourceVersion=6&allowWatchBookmarks=true&timeoutSeconds=150");
    let mut times = Vec::new();
    while let Some(deadline) = world.deadline {
        times.push((deadline.at.as_millis() / 1_000, deadline.why));
        world.pass(deadline.at.since(world.now));
    }
    let bookmark = "bookmark of a watch";
    assert_eq!(times, [(60, bookmark), (120, bookmark), (148, bookmark), (150, "timeout of a watch")]);
    assert_eq!(world.answer(watch).events(), ["BOOKMARK @6", "BOOKMARK @6", "BOOKMARK @6"]);
    assert!(world.answer(watch).ended);
}

/// C13: also for what other resources did.
#[test]
fn a_bookmark_names_the_version_of_the_whole_server() {
    let mut world = World::with_five();
    let watch = world.watch("resourceVersion=6&allowWatchBookmarks=true");
    world.server.put(&pods(), r#"{"metadata":{"name":"p","namespace":"n"}}"#).unwrap();
    world.pass(secs(60));
    assert_eq!(world.answer(watch).events(), ["BOOKMARK @7"]);
}

#[test]
fn a_watch_that_allows_none_gets_no_bookmark() {
    let mut world = World::with_five();
    let watch = world.watch("resourceVersion=6&timeoutSeconds=600");
    world.pass(secs(500));
    assert_eq!(world.answer(watch).body.len(), 0);
}

#[test]
fn watches_can_be_dropped_and_failed() {
    let mut world = World::with_five();
    let dropped = world.watch("resourceVersion=5");
    world.server.drop_watches();
    world.drain();
    assert_eq!(world.answer(dropped).events(), ["ADDED e@6"]);
    assert!(world.answer(dropped).ended);
    let failed = world.watch("resourceVersion=6");
    world.server.fail_watches_expired();
    world.drain();
    assert_eq!(world.answer(failed).events(), ["ERROR 410"]);
    assert!(world.answer(failed).ended);
}

#[test]
fn nothing_comes_after_the_client_is_gone() {
    let mut world = World::with_five();
    let watch = world.watch("resourceVersion=6");
    world.input(Input::Closed { id: watch });
    world.put("a", "y");
    assert_eq!(world.answer(watch).body.len(), 0);
    assert_eq!((world.server.open_calls(), world.deadline), (0, None));
}

#[test]
fn a_paused_watch_catches_up_or_is_ended() {
    let mut world = World::new(Config { watch_backlog: 10, ..Config::default() });
    let watch = world.watch("resourceVersion=1&timeoutSeconds=300");
    let reading = world.watch("resourceVersion=1&timeoutSeconds=300");
    world.input(Input::Pause { id: watch });
    for round in 0..10 {
        world.put("a", &round.to_string());
    }
    assert_eq!(world.answer(watch).body.len(), 0);
    world.input(Input::Resume { id: watch });
    assert_eq!(world.answer(watch).events().len(), 10);
    world.input(Input::Pause { id: watch });
    for round in 0..11 {
        world.put("b", &round.to_string());
    }
    assert!(world.answer(watch).ended);
    assert_eq!(world.answer(reading).events().len(), 21);
}

#[test]
fn a_short_history_ends_a_paused_watch_before_it_misses_anything() {
    let mut world = World::new(Config { history: 3, ..Config::default() });
    let watch = world.watch("resourceVersion=1&timeoutSeconds=300");
    world.input(Input::Pause { id: watch });
    for round in 0..3 {
        world.put("a", &round.to_string());
    }
    assert!(!world.answer(watch).ended);
    world.put("a", "one-too-many");
    assert!(world.answer(watch).ended);
}

#[test]
fn draining_late_only_delays() {
    let mut world = World::new(Config { history: 5, ..Config::default() });
    let watch = world.watch("resourceVersion=1");
    for round in 0..100 {
        let json = format!(r#"{{"metadata":{{"name":"a","namespace":"n"}},"data":{{"round":"{round}"}}}}"#);
        world.server.put(&configmaps(), &json).unwrap();
    }
    world.drain();
    let events = world.answer(watch).events();
    assert_eq!((events.len(), events[99].as_str()), (100, "MODIFIED a@101"));
}

#[test]
fn the_older_path_of_a_watch_works() {
    let mut world = World::with_five();
    let watch = world.open(HttpRequest::get("/api/v1/watch/namespaces/n/configmaps?resourceVersion=5"));
    assert_eq!(world.answer(watch).events(), ["ADDED e@6"]);
}
