//! Lists and watch streams as servers write them, and every way to cut them.

use super::*;
use crate::object::Version;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use proptest::prelude::*;

/// Everything a watch body turns into, in order, and how it ended.
fn watch(chunks: &[&[u8]], limits: Limits) -> (Vec<String>, Result<bool, WireError>) {
    let mut decoder = FrameDecoder::new(limits);
    let mut seen = Vec::new();
    for chunk in chunks {
        let mut rest = *chunk;
        loop {
            let mut batch = RawBatch::new();
            let fed = decoder.feed(rest, &mut batch);
            seen.extend(batch.iter().map(describe));
            match fed {
                Ok(Fed::All) => break,
                Ok(Fed::Control { consumed, control }) => {
                    seen.push(format!("{control:?}"));
                    rest = &rest[consumed..];
                }
                Err(error) => return (seen, Err(error)),
            }
        }
    }
    (seen, Ok(decoder.is_clean()))
}

/// Everything a list body turns into.
fn list(chunks: &[&[u8]], limits: Limits) -> (Vec<String>, Result<ListEnd, WireError>) {
    let mut decoder = ListDecoder::new(limits);
    let mut batch = RawBatch::new();
    for chunk in chunks {
        if let Err(error) = decoder.feed(chunk, &mut batch) {
            assert_eq!(decoder.feed(b"{}", &mut batch), Err(error.clone()), "a failed decoder stays failed");
            assert_eq!(decoder.finish(), Err(error.clone()));
            return (batch.iter().map(describe).collect(), Err(error));
        }
    }
    (batch.iter().map(describe).collect(), decoder.finish())
}

fn describe(item: RawItem<'_>) -> String {
    format!(
        "{:?} {} {} {} {} {} {} {}",
        item.kind,
        item.namespace,
        item.name,
        item.uid,
        item.version,
        item.api_version,
        item.object_kind,
        String::from_utf8_lossy(item.json)
    )
}

fn watch_text(text: &str) -> (Vec<String>, Result<bool, WireError>) {
    watch(&[text.as_bytes()], Limits::default())
}

fn list_text(text: &str) -> (Vec<String>, Result<ListEnd, WireError>) {
    list(&[text.as_bytes()], Limits::default())
}

/// The one control frame in a stream.
fn control(text: &str) -> Control {
    let mut batch = RawBatch::new();
    match FrameDecoder::new(Limits::default()).feed(text.as_bytes(), &mut batch) {
        Ok(Fed::Control { consumed, control }) => {
            assert_eq!((consumed, batch.len()), (text.trim_end().len(), 0), "{text}");
            control
        }
        other => panic!("{text}: {other:?}"),
    }
}

fn status_of(text: &str) -> Status {
    let Control::Error(status) = control(text) else { panic!("no error: {text}") };
    status
}

fn event(kind: &str, name: &str, version: u32) -> String {
    format!(
        r#"{{"type":"{kind}","object":{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"n","uid":"u-{name}","resourceVersion":"{version}"}},"spec":{{"a":["{{",1,null]}}}}}}"#
    )
}

const END_BOOKMARK: &str = r#"{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"13519","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;

const EXPIRED: &str = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 100 (110)","reason":"Expired","code":410}}"#;

const LIST: &str = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"10245","continue":"tok","remainingItemCount":753},"items":[{"metadata":{"name":"a","namespace":"n","uid":"ua","resourceVersion":"7"},"spec":{"x":"}]\"\\"}},{"metadata":{"name":"b\u00e9","labels":{"name":"no"},"resourceVersion":"8"}}]}"#;

mod frames {
    use super::*;

    /// W0
    #[test]
    fn events_and_bookmarks_come_in_the_order_of_the_wire() {
        let stream = format!(
            "{}\n{END_BOOKMARK}\n{}\n{}\n",
            event("ADDED", "a", 8467),
            event("MODIFIED", "a", 8),
            event("DELETED", "b", 9)
        );
        let (seen, end) = watch_text(&stream);
        assert_eq!(end, Ok(true));
        let heads: Vec<_> = seen.iter().map(|text| text.split('{').next().unwrap().trim_end()).collect();
        assert_eq!(
            heads,
            ["Added n a u-a 8467 v1 Pod", "Bookmark", "Modified n a u-a 8 v1 Pod", "Deleted n b u-b 9 v1 Pod"]
        );
        assert!(seen[0].ends_with(r#""spec":{"a":["{",1,null]}}"#), "the object without its frame: {}", seen[0]);
    }

    /// W2, W6, B033
    #[test]
    fn an_error_frame_is_a_status() {
        assert!(status_of(EXPIRED).is_expired());
        let late = r#"{"type":"ERROR","object":{"kind":"Status","reason":"Timeout","message":"Timeout: Too large resource version: 9, current: 5","details":{"causes":[{"reason":"ResourceVersionTooLarge"}],"retryAfterSeconds":2},"code":504}}"#;
        let status = status_of(late);
        assert!(status.is_too_large_version());
        assert_eq!(status.retry_after, Some(core::time::Duration::from_secs(2)));
    }

    /// B023, B030, B032, F27
    #[test]
    fn an_error_is_seen_in_every_form() {
        for (text, code) in [
            (r#"{"kind":"Status","code":410}"#, 410),
            (r#"{"status":"Failure","code":500}"#, 500),
            (r#"{"type":"ERROR","object":{"status":"Failure","reason":"Expired","code":410,"metadata":{}}}"#, 410),
            (r#"{"object":{"code":410},"type":"ERROR"}"#, 410),
        ] {
            assert_eq!(status_of(text).code, code, "{text}");
        }
        for text in [
            r#"{"type":"ERROR","object":{}}"#,
            r#"{"type":"ERROR","object":null}"#,
            r#"{"type":"ERROR"}"#,
            r#"{"type":"ERROR","object":{"kind":"Status"}}"#,
        ] {
            assert_eq!(status_of(text), Status::default(), "{text}");
        }
        assert_eq!(status_of(r#"{"type":"ERROR","object":{"a":"b"}}"#).message, r#"{"a":"b"}"#);
    }

    /// C12, C13, F25, F26
    #[test]
    fn only_the_annotation_true_ends_the_initial_events() {
        let bookmark = |metadata: &str| {
            let frame = format!(r#"{{"type":"BOOKMARK","object":{{"kind":"Pod","metadata":{metadata}}}}}"#);
            let Control::Bookmark { version, initial_events_end } = control(&frame) else { panic!("{frame}") };
            (version.to_string(), initial_events_end)
        };
        let ended = |value: &str| {
            bookmark(&format!(r#"{{"annotations":{{"k8s.io/initial-events-end":{value}}},"resourceVersion":"5"}}"#))
        };
        assert_eq!(ended(r#""true""#), ("5".into(), true));
        for value in [r#""false""#, r#""True""#, r#""""#, "true", "1", "null", "{}"] {
            assert_eq!(ended(value), ("5".into(), false), "{value}");
        }
        assert_eq!(bookmark(r#"{"resourceVersion":"6","annotations":null}"#), ("6".into(), false));
        assert_eq!(bookmark(r#"{"resourceVersion":""}"#), ("".into(), false));
        assert_eq!(bookmark("null"), ("".into(), false));
        assert_eq!(
            control(r#"{"type":"BOOKMARK","object":null}"#),
            Control::Bookmark { version: Version::default(), initial_events_end: false }
        );
    }

    /// B036
    #[test]
    fn an_unknown_type_leaves_its_neighbours_alone() {
        let stream = format!(
            "{}{}{}",
            event("ADDED", "a", 1),
            r#"{"type":"PATCHED","object":{"metadata":{"resourceVersion":"12"}}}"#,
            event("ADDED", "b", 2)
        );
        let (seen, end) = watch_text(&stream);
        assert_eq!((seen.len(), end), (3, Ok(true)));
        assert_eq!(seen[1], r#"Unknown { event_type: "PATCHED" }"#);
        let long = format!(r#"{{"type":"{}"}}"#, "X".repeat(1000));
        assert!(matches!(control(&long), Control::Unknown { event_type } if event_type.len() < 210));
    }

    /// B026
    #[test]
    fn a_frame_counts_with_its_closing_brace() {
        let frame = event("ADDED", "a", 1);
        let (body, brace) = frame.as_bytes().split_at(frame.len() - 1);
        let (mut decoder, mut batch) = (FrameDecoder::new(Limits::default()), RawBatch::new());
        assert_eq!(decoder.feed(body, &mut batch), Ok(Fed::All));
        assert!(batch.is_empty() && !decoder.is_clean());
        assert_eq!(decoder.feed(brace, &mut batch), Ok(Fed::All));
        assert!(batch.len() == 1 && decoder.is_clean());
    }

    /// B012
    #[test]
    fn an_empty_stream_is_clean() {
        assert_eq!(watch(&[], Limits::default()), (Vec::new(), Ok(true)));
        assert_eq!(watch_text("\r\n \t\n"), (Vec::new(), Ok(true)));
    }

    #[test]
    fn pretty_printed_frames_and_crlf_pass() {
        let pretty = "\r\n{\r\n  \"object\" : {\r\n \"metadata\" :\t{ \"name\" : \"a\" , \"x\" : [ 1 , 2 ] } }\r\n,\r\n  \"type\" : \"ADDED\"\r\n}\r\n\r\n";
        let (seen, end) = watch_text(&pretty.repeat(2));
        assert_eq!((seen.len(), end), (2, Ok(true)));
        assert!(seen[1].starts_with("Added  a  "), "{}", seen[1]);
    }

    /// F41, k/k#76624
    #[test]
    fn an_event_without_an_object_in_it_has_no_key() {
        for object in ["null", "5", "\"x\"", "[]", "{}", r#"{"metadata":null}"#] {
            let mut batch = RawBatch::new();
            let frame = format!(r#"{{"type":"DELETED","object":{object}}}"#);
            assert_eq!(FrameDecoder::new(Limits::default()).feed(frame.as_bytes(), &mut batch), Ok(Fed::All));
            assert_eq!((batch.get(0).json, batch.get(0).key()), (object.as_bytes(), None));
        }
    }

    #[test]
    fn the_last_of_duplicate_members_counts() {
        let frame = r#"{"type":"ADDED","object":{"metadata":{"name":"a","uid":"u"}},"type":"DELETED","object":{"metadata":{"name":"b"}}}"#;
        assert_eq!(watch_text(frame).0, [r#"Deleted  b     {"metadata":{"name":"b"}}"#]);
        let frame = r#"{"object":{"metadata":{"name":"a"}},"object":null,"type":"ADDED"}"#;
        assert_eq!(watch_text(frame).0, ["Added       null"]);
    }

    #[test]
    fn what_is_no_event_fails_and_keeps_the_events_before_it() {
        for bad in ["{}", r#"{"a":1}"#, r#"{"type":"ADDED"}"#, r#"{"object":{}}"#, r#"{"type":null,"object":{}}"#] {
            let (seen, end) = watch_text(&format!("{}{bad}", event("ADDED", "a", 1)));
            assert_eq!((seen.len(), end), (1, Err(WireError::NotAnEvent { prefix: bad.into() })));
        }
        for bad in ["null", "404 page not found", "<html>", "[]", "\"x\"", "}"] {
            for before in [String::new(), event("ADDED", "a", 1)] {
                let (seen, end) = watch_text(&format!("{before}{bad}"));
                assert_eq!(end, Err(WireError::NotJson { prefix: bad.into() }));
                assert_eq!(seen.len(), usize::from(!before.is_empty()));
            }
        }
        for (bad, at, expected) in [
            (r#"{"type":"ADDED","object":{"spec":[}}}"#, 34, "\"]\""),
            (r#"{"type":"ADDED","object":{"spec":{]}}}"#, 34, "\"}\""),
            (r#"{"type":"ADDED","object":{"spec":{@}}}"#, 34, "JSON"),
            (r#"{"type" "ADDED"}"#, 8, "\":\""),
            (r#"{type:"ADDED"}"#, 1, "a key in quotes or \"}\""),
            (r#"{"type":"ADDED",}"#, 16, "a key in quotes"),
            (r#"{"type":"ADDED" "#, 0, ""),
            (r#"{"type":"ADDED" "object""#, 16, "\",\" or \"}\""),
            (r#"{"type":,"#, 8, "a value"),
        ] {
            let end = watch_text(bad).1;
            let expected = if at == 0 { Ok(false) } else { Err(WireError::Malformed { at, expected }) };
            assert_eq!(end, expected, "{bad}");
        }
    }

    #[test]
    fn a_bookmark_that_does_not_parse_fails() {
        let bad = r#"{"type":"BOOKMARK","object":{"metadata":{"x":tru}}}"#;
        assert!(matches!(watch_text(bad).1, Err(WireError::NotAnEvent { .. })));
    }

    #[test]
    fn a_byte_order_mark_is_named_however_it_is_cut() {
        let body = b"\xef\xbb\xbf{}";
        for cut in 0..body.len() {
            let (head, tail) = body.split_at(cut);
            assert_eq!(watch(&[head, tail], Limits::default()).1, Err(WireError::ByteOrderMark), "{cut}");
            assert_eq!(list(&[head, tail], Limits::default()).1, Err(WireError::ByteOrderMark), "{cut}");
        }
        assert_eq!(watch(&[b"\xef\xbb"], Limits::default()).1, Ok(false));
        assert_eq!(list(&[b"\xef\xbb"], Limits::default()).1, Err(WireError::ByteOrderMark));
    }

    #[test]
    fn a_frame_over_the_bound_is_found_while_it_arrives() {
        let limits = Limits::default();
        assert_eq!(limits.frame_bytes, 16 << 20);
        let mut decoder = FrameDecoder::new(limits);
        let mut batch = RawBatch::new();
        let chunk = [b'x'; 64 << 10];
        assert_eq!(decoder.feed(b"{\"a\":\"", &mut batch), Ok(Fed::All));
        let fits = (limits.frame_bytes - 6) / chunk.len();
        for _ in 0..fits {
            assert_eq!(decoder.feed(&chunk, &mut batch), Ok(Fed::All));
        }
        assert_eq!(decoder.feed(&chunk, &mut batch), Err(WireError::TooLarge { limit: 16 << 20 }));
    }

    #[test]
    fn the_bound_is_exact() {
        let frame = event("ADDED", "a", 1);
        let limits = |frame_bytes| Limits { frame_bytes, ..Limits::default() };
        for size in 1..4 {
            let chunks: Vec<_> = frame.as_bytes().chunks(frame.len() / size).collect();
            assert_eq!(watch(&chunks, limits(frame.len())).1, Ok(true));
            assert_eq!(watch(&chunks, limits(frame.len() - 1)).1, Err(WireError::TooLarge { limit: frame.len() - 1 }));
        }
    }

    /// F41
    #[test]
    fn a_depth_bomb_is_refused() {
        let bomb = |depth: usize| format!(r#"{{"type":"ADDED","object":{{"a":{}"#, "[".repeat(depth));
        assert_eq!(watch_text(&bomb(1 << 20)).1, Err(WireError::TooDeep { limit: 128 }));
        assert_eq!(watch_text(&bomb(127)).1, Err(WireError::TooDeep { limit: 128 }));
        assert_eq!(watch_text(&bomb(126)).1, Ok(false));
        assert_eq!(
            watch(&[bomb(3).as_bytes()], Limits { depth: 4, ..Limits::default() }).1,
            Err(WireError::TooDeep { limit: 4 })
        );
        let deep = format!("{}{}}}}}", bomb(126), "]".repeat(126));
        assert_eq!(watch_text(&deep).1, Ok(true));
        let objects = r#"{"a":"#.repeat(1000);
        assert_eq!(list_text(&format!(r#"{{"items":[{objects}"#)).1, Err(WireError::TooDeep { limit: 128 }));
        assert_eq!(list_text(&format!(r#"{{"x":{objects}"#)).1, Err(WireError::TooDeep { limit: 128 }));
    }
}

mod lists {
    use super::*;

    fn end(kind: &str, version: &str) -> ListEnd {
        ListEnd { kind: kind.into(), version: Version::new(version), ..ListEnd::default() }
    }

    /// W1
    #[test]
    fn a_page_has_items_a_version_and_a_token() {
        let (items, end) = list_text(LIST);
        assert_eq!(items.len(), 2);
        assert!(items[0].starts_with("Listed n a ua 7   {"), "{}", items[0]);
        assert!(items[1].starts_with("Listed  bé  8   {"), "{}", items[1]);
        let expected = ListEnd {
            kind: "PodList".into(),
            api_version: "v1".into(),
            version: Version::new("10245"),
            continue_token: "tok".into(),
            remaining: Some(753),
        };
        assert_eq!(end, Ok(expected));
    }

    /// B068, B069, F41
    #[test]
    fn empty_lists_have_many_forms() {
        for items in [r#","items":[]"#, r#","items": [ ] "#, r#","items":null"#, ""] {
            let text = format!(r#"{{"kind":"PodList","metadata":{{"resourceVersion":"5","continue":""}}{items}}}"#);
            assert_eq!(list_text(&text), (Vec::new(), Ok(end("PodList", "5"))), "{text}");
        }
        assert_eq!(list_text(r#"{"items":[]}"#).1, Ok(end("", "")));
    }

    #[test]
    fn members_may_come_in_any_order_and_twice() {
        let text = r#" {"items":[{"metadata":{"name":"a"}}] , "metadata":{"resourceVersion":"4","continue":"x"},
            "extra":[{"items":[]}],"n":-1.5e3,"t":true,"metadata":{"resourceVersion":"5"},"kind":"Odd","kind":"PodList"} "#;
        let (items, got) = list_text(text);
        assert_eq!((items.len(), got), (1, Ok(end("PodList", "5"))));
    }

    #[test]
    fn odd_metadata_count_as_absent() {
        for metadata in ["null", "{}", r#"{"resourceVersion":5,"continue":null,"remainingItemCount":-1}"#, "[]", "3"] {
            let text = format!(r#"{{"kind":"PodList","metadata":{metadata}}}"#);
            assert_eq!(list_text(&text).1, Ok(end("PodList", "")), "{text}");
        }
        let text = r#"{"kind":"PodList","metadata":{"resourceVersion":tru}}"#;
        assert_eq!(list_text(text).1, Err(WireError::Malformed { at: 29, expected: "metadata in valid JSON" }));
        assert!(matches!(
            list(&[b"{\"metadata\":{\"a\":\"\xff\"}}"], Limits::default()).1,
            Err(WireError::Malformed { .. })
        ));
    }

    #[test]
    fn an_item_that_is_no_object_is_handed_on_without_a_key() {
        let text = r#"{"items":[null,{"metadata":{"name":"a"}},3,"x",[]]}"#;
        let (items, end) = list_text(text);
        assert_eq!(items[0], "Listed       null");
        assert_eq!((items.len(), items[2].as_str(), end.is_ok()), (5, "Listed       3", true));
    }

    #[test]
    fn a_list_that_is_cut_is_truncated_wherever_it_is_cut() {
        for cut in 0..LIST.len() {
            assert_eq!(list_text(&LIST[..cut]).1, Err(WireError::Truncated), "{cut}");
        }
    }

    #[test]
    fn garbage_behind_the_list_fails() {
        let text = format!("{LIST}\n{{");
        assert_eq!(list_text(&text).1, Err(WireError::Malformed { at: LIST.len() as u64 + 1, expected: "the end" }));
        assert!(list_text(&format!("{LIST} \r\n\t")).1.is_ok());
    }

    #[test]
    fn broken_grammar_fails_where_it_breaks() {
        for (text, at, expected) in [
            (r#"{"items":[{} {}]}"#, 13, "\",\" or \"]\""),
            (r#"{"items":[{},]}"#, 13, "a value"),
            (r#"{"items":[,{}]}"#, 10, "a value"),
            (r#"{"items":{}}"#, 9, "an array of items"),
            (r#"{"items":[],"items":[]}"#, 20, "no second \"items\""),
            (r#"{"items":[],"items":null}"#, 20, "no second \"items\""),
            (r#"{"items" []}"#, 9, "\":\""),
            (r#"{"items":[] "a"}"#, 12, "\",\" or \"}\""),
            (r#"{"items":[],}"#, 12, "a key in quotes"),
            (r#"{,"#, 1, "a key in quotes or \"}\""),
            (r#"{"x":]"#, 5, "a value"),
            (r#"{"x":[1,{]"#, 9, "\"}\""),
        ] {
            let chunks: Vec<_> = text.as_bytes().chunks(1).collect();
            for chunks in [&chunks[..], &[text.as_bytes()]] {
                let end = list(chunks, Limits::default()).1;
                assert_eq!(end, Err(WireError::Malformed { at, expected }), "{text}");
            }
        }
    }

    #[test]
    fn a_status_in_place_of_a_list_is_returned_as_such() {
        for text in [
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"m","reason":"Expired","code":410}"#,
            r#"{"status":"Failure","message":"m","reason":"Expired","code":410}"#,
            r#"{"code":410,"reason":"Expired","message":"m","kind":"Status"}"#,
        ] {
            let Err(WireError::Status(status)) = list_text(text).1 else { panic!("{text}") };
            assert_eq!(status.to_string(), "410 Expired: m");
        }
        assert_eq!(list_text(r#"{"kind":"Status","code":tru}"#).1, Err(WireError::Status(Status::default())));
    }

    #[test]
    fn what_is_no_list_is_named() {
        let not_a_list = |kind: &str| Err(WireError::NotAList { kind: kind.into() });
        let table = r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","columnDefinitions":["#;
        assert_eq!(list_text(table).1, not_a_list("Table"), "before its rows arrive");
        assert_eq!(list_text(r#"{"rows":[{}],"kind":"Table"}"#).1, not_a_list("Table"));
        assert_eq!(list_text(r#"{"kind":"Pod","metadata":{"name":"a"}}"#).1, not_a_list("Pod"));
        assert_eq!(list_text("{}").1, not_a_list(""));
        assert!(list_text(r#"{"kind":"Gizmos","items":[]}"#).1.is_ok(), "the kind of a custom list is free");
    }

    /// B022
    #[test]
    fn what_is_no_json_is_quoted() {
        let page = format!("<html>\n{}", "x".repeat(1 << 20));
        let Err(WireError::NotJson { prefix }) = list_text(&page).1 else { panic!() };
        assert!(prefix.starts_with("<html>\\nxxx") && prefix.len() < 210);
        assert_eq!(
            list_text("404 page not found\n").1,
            Err(WireError::NotJson { prefix: "404 page not found".into() })
        );
        assert_eq!(list_text("[]").1, Err(WireError::NotJson { prefix: "[]".into() }));
    }

    /// B074
    #[test]
    fn a_member_that_nobody_wants_is_not_held() {
        let limits = Limits { frame_bytes: 64, ..Limits::default() };
        let text = format!(r#"{{"kind":"PodList","x":["{}"],"items":[]}}"#, "x".repeat(1000));
        let chunks: Vec<_> = text.as_bytes().chunks(7).collect();
        assert!(list(&chunks, limits).1.is_ok());
        let text = format!(r#"{{"items":[{{"x":"{}"}}]}}"#, "x".repeat(64));
        assert_eq!(list(&[text.as_bytes()], limits).1, Err(WireError::TooLarge { limit: 64 }));
        let text = format!(r#"{{"message":"{0}","reason":"{0}"}}"#, "x".repeat(40));
        assert_eq!(list(&[text.as_bytes()], limits).1, Err(WireError::TooLarge { limit: 64 }));
    }
}

mod cuts {
    use super::*;

    /// B024: one byte per chunk, all in one, every single cut, empty chunks between.
    #[test]
    fn every_cut_gives_the_same_list() {
        let whole = list_text(LIST);
        assert!(whole.1.is_ok());
        let bytes: Vec<_> = LIST.as_bytes().chunks(1).collect();
        assert_eq!(list(&bytes, Limits::default()), whole);
        for cut in 0..LIST.len() {
            let (head, tail) = LIST.as_bytes().split_at(cut);
            assert_eq!(list(&[head, b"", tail], Limits::default()), whole, "{cut}");
        }
    }

    #[test]
    fn every_cut_gives_the_same_stream() {
        let stream = format!(
            "{}\r\n{END_BOOKMARK}\n{}{}\n{EXPIRED}",
            event("ADDED", "\\u0061\\ud83d\\ude00grüße", 1),
            event("MODIFIED", "b", 2),
            r#"{"typ\u0065":"DELETED","object":{"metadata":{"name":"\\\"","x":"\\"}}}"#
        );
        let whole = watch_text(&stream);
        assert_eq!((whole.0.len(), &whole.1), (5, &Ok(true)));
        assert!(whole.0[0].starts_with("Added n a😀grüße u-a😀grüße 1 v1 Pod"), "{}", whole.0[0]);
        assert!(whole.0[3].starts_with("Deleted  \\\" "), "{}", whole.0[3]);
        let bytes: Vec<_> = stream.as_bytes().chunks(1).collect();
        assert_eq!(watch(&bytes, Limits::default()), whole);
        for cut in 0..stream.len() {
            let (head, tail) = stream.as_bytes().split_at(cut);
            assert_eq!(watch(&[head, b"", tail], Limits::default()), whole, "{cut}");
        }
    }

    /// Cuts `bytes` at the given fractions.
    fn cut<'a>(bytes: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
        let mut at: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        at.sort_unstable();
        let mut chunks = Vec::new();
        let mut from = 0;
        for to in at.into_iter().chain([bytes.len()]) {
            chunks.push(&bytes[from..to]);
            from = to;
        }
        chunks
    }

    fn cuts() -> impl Strategy<Value = Vec<prop::sample::Index>> {
        prop::collection::vec(any::<prop::sample::Index>(), 0..12)
    }

    /// Any JSON value, as serde_json writes it.
    fn json() -> impl Strategy<Value = serde_json::Value> {
        let key =
            prop_oneof!["[a-z\\\\\"{}é😀]{0,8}", Just("metadata".into()), Just("name".into()), Just("type".into())];
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            "\\PC{0,12}|[\\\\\"{}\\[\\],:]{0,6}".prop_map(Into::into),
        ];
        leaf.prop_recursive(5, 40, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(serde_json::Value::Array),
                prop::collection::vec((key.clone(), inner), 0..5)
                    .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
            ]
        })
    }

    /// What the scanner should find, by way of a tree.
    fn expected(kind: &str, object: &serde_json::Value, json: &str) -> String {
        let text = |value: Option<&serde_json::Value>| value.and_then(|value| value.as_str()).unwrap_or("").to_string();
        let metadata = |name: &str| text(object.get("metadata").and_then(|metadata| metadata.get(name)));
        format!(
            "{kind} {} {} {} {} {} {} {json}",
            metadata("namespace"),
            metadata("name"),
            metadata("uid"),
            metadata("resourceVersion"),
            text(object.get("apiVersion")),
            text(object.get("kind")),
        )
    }

    proptest! {
        /// The naive oracle: a tree of each object.
        #[test]
        fn any_list_gives_the_items_that_a_tree_gives(
            items in prop::collection::vec((json(), "\\PC{0,6}", json()), 0..6),
            pretty: bool,
            cuts in cuts(),
        ) {
            let items: Vec<_> = items.into_iter().map(|(spec, name, uid)| serde_json::json!({
                "spec": spec, "metadata": {"name": name, "uid": uid, "managedFields": spec}, "kind": uid,
            })).collect();
            let print = |value: &serde_json::Value| {
                if pretty { serde_json::to_string_pretty(value).unwrap() } else { value.to_string() }
            };
            let texts: Vec<_> = items.iter().map(print).collect();
            let body = format!("{{\"kind\":\"L\",\"items\":[{}],\"metadata\":{{\"resourceVersion\":\"7\"}}}}", texts.join(" ,\n"));
            let (seen, end) = list(&cut(body.as_bytes(), &cuts), Limits::default());
            let oracle: Vec<_> = items.iter().zip(&texts).map(|(item, text)| expected("Listed", item, text)).collect();
            prop_assert_eq!(seen, oracle);
            prop_assert_eq!(end.map(|end| end.version), Ok(Version::new("7")));
        }

        #[test]
        fn any_stream_gives_the_events_that_a_tree_gives(
            objects in prop::collection::vec((json(), "\\PC{0,6}"), 0..6),
            cuts in cuts(),
        ) {
            let mut body = String::new();
            let mut oracle = Vec::new();
            for (spec, name) in objects {
                let object = serde_json::json!({"a": spec, "metadata": {"a": spec, "name": name}, "type": "x"});
                let text = object.to_string();
                body.push_str(&format!("{{\"object\":{text},\"x\":{spec},\"type\":\"MODIFIED\"}}\n"));
                oracle.push(expected("Modified", &object, &text));
            }
            let (seen, end) = watch(&cut(body.as_bytes(), &cuts), Limits::default());
            prop_assert_eq!(seen, oracle);
            prop_assert_eq!(end, Ok(true));
        }

        #[test]
        fn any_bytes_are_read_without_panic_and_however_cut_alike(
            bytes in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..200),
                "([{}\\[\\]\",:\\\\ n1]|\"type\":|\"object\":|\"metadata\":|\"name\":|\"items\":|\"ADDED\"|null){0,40}".prop_map(String::into_bytes),
            ],
            opening in prop_oneof![Just(""), Just("{\"items\":["), Just("{\"type\":\"ADDED\",\"object\":{"), Just(LIST)],
            cuts in cuts(),
            frame_bytes in prop_oneof![Just(16usize << 20), 0..60usize],
            depth in prop_oneof![Just(128usize), 0..5usize],
        ) {
            let limits = Limits { frame_bytes, depth };
            let body = [opening.as_bytes(), &bytes].concat();
            // What an error quotes depends on what had arrived.
            let blur = |error| if matches!(error, WireError::NotJson { .. }) { WireError::NotJson { prefix: String::new() } } else { error };
            let (seen, end) = list(&[&body], limits);
            let (seen_cut, end_cut) = list(&cut(&body, &cuts), limits);
            prop_assert_eq!((seen, end.map_err(blur)), (seen_cut, end_cut.map_err(blur)));
            let (seen, end) = watch(&[&body], limits);
            let (seen_cut, end_cut) = watch(&cut(&body, &cuts), limits);
            prop_assert_eq!((seen, end.map_err(blur)), (seen_cut, end_cut.map_err(blur)));
            let mut batch = RawBatch::new();
            batch.push(ItemKind::Listed, &body);
            let _ = (batch.get(0).key(), Status::from_response(500, &body), Status::from_json(&body));
        }
    }
}
