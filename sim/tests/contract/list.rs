//! Lists and single objects: table 2.2 of the contract and rows W1 to W8 of its wire table. The texts are those of a
//! real kube-apiserver 1.36.1.

use crate::support::*;
use informer_core::time::Time;
use informer_sim::{Config, HttpRequest, Input, Server};

#[test]
fn a_list_without_version_shows_the_present() {
    let mut world = World::with_five();
    world.delete("c");
    let list = world.get(CM);
    assert_eq!(list.status, 200);
    assert_eq!(list.names(), ["a", "b", "d", "e"]);
    assert_eq!(list.meta("resourceVersion"), "7");
}

#[test]
fn built_in_lists_have_their_metadata_first_and_items_without_type() {
    let mut world = World::new(Config::default());
    let uid = "0b6c1e4d-9a2f-4c53-8f0e-1d2c3b4a5968";
    let json = format!(
        r#"{{"metadata":{{"name":"a","namespace":"n","uid":"{uid}","creationTimestamp":"2026-01-01T00:00:00Z"}},"data":{{"k":"v"}}}}"#
    );
    world.server.put(&configmaps(), &json).unwrap();
    let meta = format!(
        r#""metadata":{{"name":"a","namespace":"n","uid":"{uid}","resourceVersion":"2","creationTimestamp":"2026-01-01T00:00:00Z"}},"data":{{"k":"v"}}"#
    );
    assert_eq!(
        world.get(CM).text(),
        format!(
            r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"2"}},"items":[{{{meta}}}]}}"#
        ) + "\n"
    );
    assert_eq!(
        world.get(&format!("{CM}/a")).text(),
        format!(r#"{{"kind":"ConfigMap","apiVersion":"v1",{meta}}}"#) + "\n"
    );
}

#[test]
fn custom_lists_have_their_metadata_last_and_items_with_type() {
    let mut world = World::new(Config::default());
    let json = r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","namespace":"n","uid":"u","creationTimestamp":"2026-01-01T00:00:00Z"}}"#;
    world.server.put(&widgets(), json).unwrap();
    assert_eq!(
        world.get("/apis/example.com/v1/widgets").text(),
        concat!(
            r#"{"apiVersion":"example.com/v1","items":[{"apiVersion":"example.com/v1","kind":"Widget","metadata":"#,
            r#"{"name":"a","namespace":"n","uid":"u","resourceVersion":"2","generation":1,"creationTimestamp":"2026-01-01T00:00:00Z"}}],"#,
            r#""kind":"WidgetList","metadata":{"continue":"","resourceVersion":"2"}}"#,
            "\n"
        )
    );
}

#[test]
fn a_list_that_begins_with_an_object_larger_than_a_piece_is_json() {
    for gzip in [false, true] {
        let mut world = World::new(Config { gzip, ..Config::default() });
        for name in ["a", "b"] {
            let value = "x".repeat(100_000);
            let json = format!(r#"{{"metadata":{{"name":"{name}","namespace":"n"}},"data":{{"k":"{value}"}}}}"#);
            world.server.put(&configmaps(), &json).unwrap();
        }
        assert_eq!(world.get(CM).names(), ["a", "b"]);
    }
}

#[test]
fn an_empty_list_is_a_list() {
    let mut world = World::new(Config::default());
    let list = world.get(CM);
    assert_eq!(
        list.text(),
        "{\"kind\":\"ConfigMapList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[]}\n"
    );
    assert_eq!(list.headers["content-length"], list.body.len().to_string());
    assert_eq!(list.headers["content-type"], "application/json");
}

#[test]
fn version_zero_ignores_the_limit() {
    let mut world = World::with_five();
    for query in ["resourceVersion=0&limit=2", "resourceVersion=0&limit=2&resourceVersionMatch=NotOlderThan"] {
        let list = world.get(&format!("{CM}?{query}"));
        assert_eq!(list.names().len(), 5, "{query}");
        assert!(list.meta("continue").is_null());
    }
}

#[test]
fn not_older_than_shows_the_present() {
    let mut world = World::with_five();
    for query in ["resourceVersion=3", "resourceVersion=3&resourceVersionMatch=NotOlderThan"] {
        let list = world.get(&format!("{CM}?{query}"));
        assert_eq!((list.names().len(), list.meta("resourceVersion")), (5, "6".into()), "{query}");
    }
    let page = world.get(&format!("{CM}?resourceVersion=3&resourceVersionMatch=NotOlderThan&limit=2"));
    assert_eq!((page.names().len(), page.meta("resourceVersion")), (2, "6".into()));
}

#[test]
fn exact_shows_the_past() {
    let mut world = World::with_five();
    world.delete("a");
    let list = world.get(&format!("{CM}?resourceVersion=3&resourceVersionMatch=Exact"));
    assert_eq!((list.names(), list.meta("resourceVersion")), (vec!["a".into(), "b".into()], "3".into()));
    // Without a match a limit means exactly this version, too.
    let page = world.get(&format!("{CM}?resourceVersion=4&limit=2"));
    assert_eq!((page.names(), page.meta("resourceVersion")), (vec!["a".into(), "b".into()], "4".into()));
    assert_eq!(page.meta("remainingItemCount"), 1);
}

#[test]
fn exact_at_a_compacted_version_is_410() {
    let mut world = World::with_five();
    world.put("a", "y");
    world.server.compact();
    for query in ["resourceVersion=3&resourceVersionMatch=Exact", "resourceVersion=3&limit=2"] {
        let refusal = world.get(&format!("{CM}?{query}")).refusal();
        assert_eq!(refusal, "410 Expired The resourceVersion for the provided list is too old.", "{query}");
    }
    assert_eq!(world.get(&format!("{CM}?resourceVersion=7&resourceVersionMatch=Exact")).status, 200);
}

#[test]
fn a_version_in_the_future_is_504_after_three_seconds() {
    for query in [
        "resourceVersion=99",
        "resourceVersion=99&limit=1",
        "resourceVersion=99&resourceVersionMatch=Exact",
        "resourceVersion=99&resourceVersionMatch=NotOlderThan",
    ] {
        let mut world = World::with_five();
        let list = world.open(HttpRequest::get(&format!("{CM}?{query}")));
        assert_eq!(world.answer(list).status, 0, "{query}");
        assert_eq!(world.deadline.map(|deadline| deadline.at), Some(Time::from_millis(3_000)));
        world.pass(secs(3));
        let answer = world.answer(list);
        assert_eq!(answer.refusal(), "504 Timeout Timeout: Too large resource version: 99, current: 6", "{query}");
        assert_eq!(answer.headers["retry-after"], "1");
        let details = &answer.json()["details"];
        assert_eq!(details["causes"][0]["reason"], "ResourceVersionTooLarge");
        assert_eq!(details["retryAfterSeconds"], 1);
    }
}

#[test]
fn a_version_that_comes_within_three_seconds_is_waited_for() {
    let mut world = World::with_five();
    let list = world.open(HttpRequest::get(&format!("{CM}?resourceVersion=7")));
    let object = world.open(HttpRequest::get(&format!("{CM}/f?resourceVersion=7")));
    world.pass(secs(2));
    assert!(!world.answer(list).ended && !world.answer(object).ended);
    world.put("f", "x");
    assert_eq!(world.answer(list).names().len(), 6);
    assert_eq!(world.answer(object).json()["metadata"]["resourceVersion"], "7");
    assert_eq!(world.deadline, None);
}

/// W7: each mix that is refused, with the text of the real server.
#[test]
fn bad_mixes_are_422() {
    let mut world = World::with_five();
    let token = world.get(&format!("{CM}?limit=2")).meta("continue").as_str().unwrap().to_owned();
    let forbidden = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden";
    for (query, why) in [
        ("resourceVersionMatch=Exact".to_owned(), format!("{forbidden} unless resourceVersion is provided")),
        (
            "resourceVersion=0&resourceVersionMatch=Exact".into(),
            r#"resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0""#
                .into(),
        ),
        (
            "resourceVersion=5&resourceVersionMatch=Foo".into(),
            r#"resourceVersionMatch: Unsupported value: "Foo": supported values: "Exact", "NotOlderThan", """#.into(),
        ),
        (
            format!("continue={token}&resourceVersionMatch=Exact"),
            format!("[{forbidden} unless resourceVersion is provided, {forbidden} when continue is provided]"),
        ),
        (
            "sendInitialEvents=true".into(),
            "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list".into(),
        ),
    ] {
        let answer = world.get(&format!("{CM}?{query}"));
        assert_eq!(answer.refusal(), format!("422 Invalid ListOptions.meta.k8s.io \"\" is invalid: {why}"), "{query}");
        assert_eq!(answer.json()["details"]["kind"], "ListOptions");
        assert_eq!(answer.json()["details"]["group"], "meta.k8s.io");
    }
}

/// W8.
#[test]
fn bad_values_are_400() {
    let mut world = World::with_five();
    let token = world.get(&format!("{CM}?limit=2")).meta("continue").as_str().unwrap().to_owned();
    for (query, why) in [
        (
            "resourceVersion=abc".to_owned(),
            r#"invalid resource version: resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax"#,
        ),
        (
            format!("continue={token}&resourceVersion=5"),
            "specifying resource version is not allowed when using continue",
        ),
        (
            "continue=e30".into(),
            "invalid continue token: continue key is not valid: server does not recognize this encoded version ",
        ),
        ("limit=abc".into(), r#"strconv.ParseInt: parsing "abc": invalid syntax"#),
        ("labelSelector=a%3D%3D%3Db".into(), "unable to parse requirement: found '=', expected: identifier"),
        (
            "fieldSelector=foo%3Dbar".into(),
            r#""foo" is not a known field selector: only "metadata.name", "metadata.namespace""#,
        ),
    ] {
        assert_eq!(world.get(&format!("{CM}?{query}")).refusal(), format!("400 BadRequest {why}"), "{query}");
    }
    let refusal = world.get("/api/v1/pods?fieldSelector=spec.foo%3Dx").refusal();
    assert_eq!(refusal, "400 BadRequest field label not supported: spec.foo");
}

#[test]
fn pages_equal_one_list_whatever_is_written_meanwhile() {
    let mut world = World::with_five();
    let whole = world.get(CM);
    let mut names = Vec::new();
    let mut left = Vec::new();
    let mut token = String::new();
    loop {
        let page = world.get(&format!("{CM}?limit=2&continue={token}"));
        assert_eq!(page.meta("resourceVersion"), "6");
        names.extend(page.names());
        left.push(page.meta("remainingItemCount").as_u64());
        let Some(next) = page.meta("continue").as_str().map(str::to_owned) else { break };
        token = next;
        world.put("b", &format!("{}", names.len()));
        world.put("zz", &format!("{}", names.len()));
        if world.server.get(&configmaps(), &"n/d".parse().unwrap()).is_some() {
            world.delete("d");
        }
    }
    assert_eq!(names, whole.names());
    assert_eq!(left, [Some(3), Some(1), None]);
}

#[test]
fn a_page_goes_over_all_namespaces_in_the_order_of_keys() {
    let mut world = World::new(Config::default());
    for key in ["n/b", "n-1/a", "n/a", "a/z"] {
        let (namespace, name) = key.split_once('/').unwrap();
        let json = format!(r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}"}}}}"#);
        world.server.put(&configmaps(), &json).unwrap();
    }
    let first = world.get("/api/v1/configmaps?limit=3");
    assert_eq!(first.names(), ["z", "a", "a"]);
    let token = first.meta("continue");
    let second = world.get(&format!("/api/v1/configmaps?limit=3&continue={}", token.as_str().unwrap()));
    assert_eq!(second.names(), ["b"]);
}

#[test]
fn a_token_lives_for_five_minutes_and_then_gives_410_with_one_that_goes_on() {
    let mut world = World::new(Config { history: 1, ..Config::default() });
    for name in ["a", "b", "c", "d", "e"] {
        world.put(name, "x");
    }
    let page = world.get(&format!("{CM}?limit=2"));
    let token = page.meta("continue").as_str().unwrap().to_owned();
    world.delete("c");
    world.put("f", "x");
    world.pass(secs(299));
    assert_eq!(world.get(&format!("{CM}?continue={token}")).names(), ["c", "d", "e"]);
    world.pass(secs(1));
    let expired = world.get(&format!("{CM}?continue={token}"));
    assert!(expired.refusal().starts_with("410 Expired The provided continue parameter is too old"));
    let resume = expired.meta("continue").as_str().unwrap().to_owned();
    let rest = world.get(&format!("{CM}?continue={resume}"));
    assert_eq!((rest.names().join(""), rest.meta("resourceVersion")), ("def".into(), "8".into()));
}

#[test]
fn a_compaction_expires_tokens_and_a_restart_does_not() {
    let mut world = World::with_five();
    let token = world.get(&format!("{CM}?limit=2")).meta("continue").as_str().unwrap().to_owned();
    world.put("a", "y");
    world.server.restart();
    assert_eq!(world.get(&format!("{CM}?continue={token}")).status, 200);
    world.server.compact();
    assert_eq!(world.get(&format!("{CM}?continue={token}")).status, 410);
}

#[test]
fn selectors_choose_and_hide_the_remaining_count() {
    let mut world = World::with_five();
    world.put("b", "y");
    world.put("d", "y");
    assert_eq!(world.get(&format!("{CM}?labelSelector=l%3Dy")).names(), ["b", "d"]);
    assert_eq!(world.get(&format!("{CM}?labelSelector=l%21%3Dy")).names(), ["a", "c", "e"]);
    assert_eq!(world.get(&format!("{CM}?labelSelector=l+in+(x,z),l")).names(), ["a", "c", "e"]);
    assert_eq!(world.get(&format!("{CM}?fieldSelector=metadata.name%3Dc")).names(), ["c"]);
    assert_eq!(world.get("/api/v1/configmaps?fieldSelector=metadata.namespace%3Dm").names().len(), 0);
    let one = world.get(&format!("{CM}?fieldSelector=metadata.name%3Dc&limit=1"));
    assert!(one.meta("continue").is_null());
    let page = world.get(&format!("{CM}?labelSelector=l%3Dy&limit=1"));
    assert!(page.meta("continue").is_string());
    assert!(page.meta("remainingItemCount").is_null());
}

#[test]
fn pods_are_chosen_by_node_and_phase() {
    let mut world = World::new(Config::default());
    for (name, node, phase) in [("a", "n1", "Running"), ("b", "n2", "Running"), ("c", "n1", "Failed")] {
        let json = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"n"}},"spec":{{"nodeName":"{node}"}},"status":{{"phase":"{phase}"}}}}"#
        );
        world.server.put(&pods(), &json).unwrap();
    }
    let mut names = |query: &str| world.get(&format!("/api/v1/pods?fieldSelector={query}")).names();
    assert_eq!(names("spec.nodeName%3Dn1"), ["a", "c"]);
    assert_eq!(names("spec.nodeName%3Dn1,status.phase%21%3DRunning"), ["c"]);
}

#[test]
fn one_object_is_got_or_missing() {
    let mut world = World::with_five();
    assert_eq!(world.get(&format!("{CM}/b")).json()["metadata"]["resourceVersion"], "3");
    assert_eq!(world.get(&format!("{CM}/b?resourceVersion=0")).status, 200);
    assert_eq!(world.get(&format!("{CM}/zz")).refusal(), "404 NotFound configmaps \"zz\" not found");
    assert!(world.get(&format!("{CM}/b?resourceVersion=abc")).refusal().starts_with("500 - resourceVersion: Invalid"));
}

#[test]
fn paths_that_lead_nowhere_are_404() {
    let mut world = World::new(Config::default());
    let missing = "404 NotFound the server could not find the requested resource";
    for path in [
        "/api/v1/nothings",
        "/api/v1/namespaces/n/configmaps/a/status",
        "/api/v1/configmaps/a",
        "/api/v1/namespaces/n/nothings/x",
        "/api/v2/configmaps",
    ] {
        assert_eq!(world.get(path).refusal(), missing, "{path}");
    }
    for path in ["/nothing", "/apis/nope.io/v1/things", "/apis/example.com/v1/gadgets"] {
        let answer = world.get(path);
        assert_eq!((answer.status, answer.text()), (404, "404 page not found\n"), "{path}");
        assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");
    }
}

#[test]
fn other_methods_are_405() {
    let mut world = World::with_five();
    for (method, path) in [
        ("PUT", CM),
        ("PATCH", CM),
        ("OPTIONS", CM),
        ("POST", "/api/v1/configmaps"),
        ("POST", "/api/v1/namespaces/n/configmaps/a"),
        ("DELETE", "/api/v1/namespaces/n/pods/a/status"),
    ] {
        let refusal = world.send(method, path, "{}").refusal();
        assert_eq!(
            refusal, "405 MethodNotAllowed the server does not allow this method on the requested resource",
            "{method} {path}"
        );
    }
}

#[test]
fn a_token_is_asked_for_only_if_one_is_set() {
    let mut world = World::new(Config { token: Some("secret".into()), ..Config::default() });
    assert_eq!(world.get(CM).refusal(), "401 Unauthorized Unauthorized");
    let with = |value: &str| HttpRequest::get(CM).header("Authorization", value);
    assert_eq!(world.ask(with("Bearer wrong")).status, 401);
    assert_eq!(world.ask(with("Bearer secret")).status, 200);
}

#[test]
fn other_representations_are_406() {
    let mut world = World::new(Config::default());
    let accept = |value: &str| HttpRequest::get(CM).header("Accept", value);
    for value in [
        "application/json",
        "*/*",
        "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
        "application/*;q=0.5",
    ] {
        assert_eq!(world.ask(accept(value)).status, 200, "{value}");
    }
    for value in ["application/vnd.kubernetes.protobuf", "application/json;as=Table;v=v1;g=meta.k8s.io", "text/html"] {
        assert_eq!(world.ask(accept(value)).status, 406, "{value}");
    }
}

#[test]
fn a_large_list_comes_in_pieces_and_stops_while_it_is_paused() {
    let mut world = World::new(Config::default());
    let fill = "pods=500:6900".parse::<informer_sim::Fill>().unwrap();
    fill.apply(&mut world.server, 7).unwrap();
    let list = world.get("/api/v1/pods");
    assert_eq!(list.names().len(), 500);
    assert!(list.pieces >= 500 * 6_900 / (64 * 1024));
    assert!(!list.headers.contains_key("content-length"));

    let id = informer_sim::CallId(1_000);
    let request = HttpRequest::get("/api/v1/pods");
    world.server.handle(world.now, Input::Request { id, request });
    let head = world.server.poll_output();
    assert!(matches!(head, informer_sim::Output::Head { status: 200, .. }));
    let informer_sim::Output::Body { bytes, .. } = world.server.poll_output() else { panic!("a piece follows") };
    assert!(bytes.len() <= 64 * 1024);
    world.server.handle(world.now, Input::Pause { id });
    let mut rest = bytes;
    // What was made before the pause may still come; then it is silent.
    while let informer_sim::Output::Body { bytes, .. } = world.server.poll_output() {
        rest.extend(bytes);
        assert!(rest.len() <= 2 * 64 * 1024);
    }
    world.server.handle(world.now, Input::Resume { id });
    while let informer_sim::Output::Body { bytes, .. } = world.server.poll_output() {
        rest.extend(bytes);
    }
    assert!(rest == list.body);
}

#[test]
fn large_lists_are_compressed_if_both_sides_want_it() {
    let run = |gzip: bool, accept: &str| {
        let mut world = World::new(Config { gzip, ..Config::default() });
        "pods=30:6900".parse::<informer_sim::Fill>().unwrap().apply(&mut world.server, 7).unwrap();
        world.ask(HttpRequest::get("/api/v1/pods").header("accept-encoding", accept))
    };
    let plain = run(false, "gzip");
    assert!(!plain.headers.contains_key("content-encoding"));
    assert!(!run(true, "identity").headers.contains_key("content-encoding"));
    let packed = run(true, "gzip");
    assert_eq!(packed.headers["content-encoding"], "gzip");
    assert!(packed.body.len() < plain.body.len());
    assert_eq!(packed.body[..3], [0x1f, 0x8b, 8]);
    let plain_again = miniz_oxide::inflate::decompress_to_vec(&packed.body[10..packed.body.len() - 8]).unwrap();
    assert!(plain_again == plain.body);
}

#[test]
fn health_and_version_are_told() {
    let mut world = World::new(Config::default());
    assert_eq!(world.get("/readyz").text(), "ok");
    assert_eq!(world.get("/version").json()["minor"], "36");
}

#[test]
#[should_panic(expected = "mint a new id for each request")]
fn an_open_call_keeps_its_id() {
    let mut server = Server::new(Config::default());
    server.register(configmaps(), Default::default());
    for _ in 0..2 {
        let request = HttpRequest::get(&format!("{CM}?watch=1"));
        server.handle(Time::ZERO, Input::Request { id: informer_sim::CallId(1), request });
    }
}
