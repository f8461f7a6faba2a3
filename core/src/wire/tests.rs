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

    fn too_deep(text: &str) -> Vec<bool> {
        let mut batch = RawBatch::new();
        assert_eq!(FrameDecoder::new(Limits::default()).feed(text.as_bytes(), &mut batch), Ok(Fed::All), "{text}");
        batch.iter().map(|item| item.too_deep).collect()
    }

    /// F41: one object must not stop a kind, so it is marked, and its neighbours come as they are.
    #[test]
    fn an_object_that_is_too_deep_is_marked_and_the_stream_goes_on() {
        for (open, close) in [("[", "]"), (r#"{"a":"#, "}"), (r#"[{"a":"#, "}]")] {
            let brackets = open.matches(['[', '{']).count();
            let bomb = |depth: usize| {
                let (open, close) = (open.repeat(depth / brackets), close.repeat(depth / brackets));
                let object = format!(r#"{{"x":{open}1{close},"metadata":{{"name":"deep"}}}}"#);
                format!(
                    "{}{{\"type\":\"ADDED\",\"object\":{object}}}{}",
                    event("ADDED", "a", 1),
                    event("ADDED", "b", 2)
                )
            };
            assert_eq!(too_deep(&bomb(126)), [false; 3], "{open}");
            assert_eq!(too_deep(&bomb(128)), [false, true, false], "{open}");
            assert_eq!(too_deep(&bomb(100_000)), [false, true, false], "{open}");
            assert!(watch_text(&bomb(100_000)).0[1].starts_with("Added  deep "), "it has its identity all the same");
        }
        // What an object may be does not depend on whether it is listed or watched.
        let nested = |depth: usize| format!(r#"{{"x":{}{}}}"#, "[".repeat(depth - 1), "]".repeat(depth - 1));
        for (depth, expected) in [(128, false), (129, true)] {
            assert_eq!(too_deep(&format!(r#"{{"type":"ADDED","object":{}}}"#, nested(depth))), [expected]);
            let mut batch = RawBatch::new();
            let list = format!(r#"{{"items":[{}]}}"#, nested(depth));
            assert_eq!(ListDecoder::new(Limits::default()).feed(list.as_bytes(), &mut batch), Ok(()));
            assert_eq!(batch.get(0).too_deep, expected);
        }
    }

    #[test]
    fn the_bound_on_depth_can_be_lowered() {
        let limits = Limits { depth: 2, ..Limits::default() };
        let mut batch = RawBatch::new();
        let frame = br#"{"type":"ADDED","object":{"a":[]}}{"type":"ADDED","object":{"a":[[]]}}"#;
        assert_eq!(FrameDecoder::new(limits).feed(frame, &mut batch), Ok(Fed::All));
        assert_eq!((batch.get(0).too_deep, batch.get(1).too_deep), (false, true));
    }

    /// F41: metadata of an object too, and brackets that do not match below the bound are the decoder's to refuse.
    #[test]
    fn depth_in_metadata_is_depth_of_the_object() {
        let object = format!(r#"{{"metadata":{{"x":{}{},"name":"a"}}}}"#, "[".repeat(200), "]".repeat(200));
        assert_eq!(too_deep(&format!(r#"{{"type":"ADDED","object":{object}}}"#)), [true]);
        let crossed = format!(r#"{{"type":"ADDED","object":{{"x":{}{{]}}{}}}}}"#, "[".repeat(200), "]".repeat(199));
        assert_eq!(too_deep(&crossed), [true]);
    }

    /// F41: a frame about the stream, and what a list says of itself, are small; there depth is damage.
    #[test]
    fn what_is_no_object_is_refused_if_it_is_too_deep() {
        let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        for head in [r#""type":"BOOKMARK","#, r#""type":"ERROR","#, ""] {
            let frame = format!(r#"{{{head}"code":410,"object":{{"x":{}}}}}"#, deep(130));
            assert_eq!(watch_text(&frame).1, Err(WireError::TooDeep { limit: 128 }), "{head}");
        }
        for member in ["metadata", "kind", "x", "message"] {
            let list = format!(r#"{{"{member}":{},"items":[]}}"#, deep(129));
            assert_eq!(list_text(&list).1, Err(WireError::TooDeep { limit: 128 }), "{member}");
            let endless = format!(r#"{{"{member}":{}"#, "[{\"a\":".repeat(1 << 19));
            assert_eq!(list_text(&endless).1, Err(WireError::TooDeep { limit: 128 }), "{member}: before it is whole");
        }
        assert!(list_text(&format!(r#"{{"x":{},"items":[]}}"#, deep(128))).1.is_ok());
    }
}

/// What stands between tokens and what stands in texts.
mod bytes {
    use super::*;

    /// C19, B024: any white space between frames, or none; no newline behind the last.
    #[test]
    fn frames_come_alike_whatever_stands_between_them() {
        let events = [event("ADDED", "a", 1), event("MODIFIED", "b", 2), event("DELETED", "c", 3)];
        let plain = watch_text(&events.concat());
        assert_eq!((plain.0.len(), &plain.1), (3, &Ok(true)));
        for between in ["\n", "\r\n", "\n\n\n", " ", "\t \r\n \n"] {
            assert_eq!(watch_text(&events.join(between)), plain, "{between:?}");
            assert_eq!(watch_text(&format!("{between}{}{between}", events.join(between))), plain, "{between:?}");
        }
    }

    /// F41: what is no white space for JSON is none.
    #[test]
    fn other_bytes_between_frames_are_foreign() {
        for byte in ["\0", "\u{b}", "\u{a0}", "\u{feff}", ",", "]"] {
            let stream = format!("{}{byte}{}", event("ADDED", "a", 1), event("ADDED", "b", 2));
            let (seen, end) = watch_text(&stream);
            assert!(seen.len() == 1 && matches!(end, Err(WireError::NotJson { .. })), "{byte:?}: {end:?}");
        }
        for byte in ["\0", "\u{b}", "\u{a0}", "\u{feff}"] {
            let end = list_text(&format!("{{\"items\":[{{}}{byte},{{}}]}}")).1;
            assert_eq!(end, Err(WireError::Malformed { at: 12, expected: "\",\" or \"]\"" }), "{byte:?}");
            let end = list_text(&format!("{{\"items\":[{{\"a\":[{byte}]}}]}}")).1;
            assert_eq!(end, Err(WireError::Malformed { at: 16, expected: "JSON" }), "{byte:?}");
        }
    }

    /// F41: bytes in a text are not the scanner's to judge, so one odd object leaves its neighbours alone; but a name
    /// that is no text names nothing.
    #[test]
    fn odd_bytes_in_texts_stay_with_their_object() {
        for odd in [&b"\xff"[..], b"\xc0\x80", b"\xed\xa0\x80", b"\xf0\x9f", b"\x80"] {
            let item = |name: &[u8], value: &[u8]| {
                [br#"{"metadata":{"name":""#, name, br#"","uid":"u"},"x":""#, value, b"\"}"].concat()
            };
            let body =
                [br#"{"items":["#, &item(b"a", odd)[..], b",", &item(odd, b""), b",", &item(b"c", b""), b"]}"].concat();
            let mut batch = RawBatch::new();
            assert_eq!(ListDecoder::new(Limits::default()).feed(&body, &mut batch), Ok(()), "{odd:?}");
            let names: Vec<_> = batch.iter().map(|item| (item.name, item.uid)).collect();
            assert_eq!(names, [("a", "u"), ("", "u"), ("c", "u")], "{odd:?}");
            assert_eq!(batch.get(1).key(), None);
        }
        let mut batch = RawBatch::new();
        let frame = b"{\"type\":\"ADD\xffED\",\"object\":{}}";
        let fed = FrameDecoder::new(Limits::default()).feed(frame, &mut batch);
        assert!(matches!(fed, Err(WireError::NotAnEvent { .. })), "{fed:?}");
        assert_eq!(list(&[b"{\"kind\":\"\xff\",\"items\":[]}"], Limits::default()).1.unwrap().kind, "");
    }

    #[test]
    fn escapes_are_decoded_where_they_are_text_and_nowhere_else() {
        for (name, expected) in [
            (r"\u0061", "a"),
            (r"\ud83d\ude00", "😀"),
            (r"\u0000", "\0"),
            (r"\/\b\f\n\r\t\\", "/\u{8}\u{c}\n\r\t\\"),
            (r"\ud83d", ""),
            (r"\ude00\ud83d", ""),
            (r"\uD83D\u0061", ""),
            (r"\x", ""),
            (r"\u12", ""),
        ] {
            let list = format!(r#"{{"items":[{{"metadata":{{"name":"{name}"}}}},{{"metadata":{{"name":"z"}}}}]}}"#);
            let mut batch = RawBatch::new();
            assert_eq!(ListDecoder::new(Limits::default()).feed(list.as_bytes(), &mut batch), Ok(()), "{name}");
            assert_eq!((batch.get(0).name, batch.get(1).name), (expected, "z"), "{name}");
        }
    }

    #[test]
    fn numbers_and_literals_end_where_they_end() {
        let scalars = ["0", "-0", "1E400", "-1.5e-300", "12345678901234567890123", "true", "false", "null"];
        let values: Vec<_> = scalars.iter().map(|scalar| format!("\"x\":{scalar}")).collect();
        let body =
            format!("{{{},\"items\":[{},{{\"a\":{{{}}}}}]}}", values.join(","), scalars.join(" ,"), values.join(","));
        let whole = list_text(&body);
        assert_eq!(whole.0.len(), scalars.len() + 1);
        assert_eq!(whole.0[2], "Listed       1E400");
        for cut in 0..body.len() {
            let (head, tail) = body.as_bytes().split_at(cut);
            assert_eq!(list(&[head, tail], Limits::default()), whole, "{cut}");
        }
    }

    #[test]
    fn a_long_key_is_read_and_a_longer_one_refused() {
        let limits = Limits { frame_bytes: 1 << 20, ..Limits::default() };
        for (length, is_ok) in [((1 << 20) - 2, true), ((1 << 20) - 1, false)] {
            let body = format!("{{\"{}\":1,\"items\":[]}}", "k".repeat(length));
            for size in [1 << 21, 4096, 1000] {
                let chunks: Vec<_> = body.as_bytes().chunks(size).collect();
                let end = list(&chunks, limits).1;
                assert_eq!(end.is_ok(), is_ok, "{length} {size}");
            }
        }
        let key = "k".repeat(1 << 19);
        let frame =
            format!(r#"{{"{key}":1,"type":"ADDED","object":{{"{key}":2,"metadata":{{"{key}":3,"name":"a"}}}}}}"#);
        assert!(watch_text(&frame).0[0].starts_with("Added  a "));
    }

    /// F41
    #[test]
    fn an_object_of_three_mebibytes_comes_whole_however_it_is_cut() {
        let json = format!(r#"{{"data":"{}","metadata":{{"name":"a"}}}}"#, "x\\n\\u00e9".repeat((3 << 20) / 9));
        let stream = format!(r#"{{"type":"ADDED","object":{json}}}"#).repeat(2);
        let body = format!(r#"{{"kind":"L","items":[{json},{json}]}}"#);
        for size in [usize::MAX, 64 << 10, 4096, 999] {
            let chunks: Vec<_> = stream.as_bytes().chunks(size.min(stream.len())).collect();
            assert_eq!(
                watch(&chunks, Limits::default()).0,
                [format!("Added  a     {json}"), format!("Added  a     {json}")]
            );
            let chunks: Vec<_> = body.as_bytes().chunks(size.min(body.len())).collect();
            assert_eq!(list(&chunks, Limits::default()).0.len(), 2);
        }
    }
}

/// Fields that stand twice: what the scanner takes for the identity is what a decoder finds in the body.
mod duplicates {
    use super::*;
    use crate::object::{DynamicObject, Object, Resource};
    use k8s_openapi::api::core::v1::Pod;

    const CASES: [&str; 9] = [
        r#"{"metadata":{"name":"a","uid":"u","resourceVersion":"1"},"metadata":{"name":"b"}}"#,
        r#"{"metadata":{"name":"a"},"metadata":null}"#,
        r#"{"metadata":null,"metadata":{"name":"a"}}"#,
        r#"{"metadata":{"name":"a","name":"b"}}"#,
        r#"{"metadata":{"name":"a","name":null}}"#,
        r#"{"metadata":{"resourceVersion":"1","name":"a","resourceVersion":"2"}}"#,
        r#"{"metadata":{"name":"a","namespace":"x","namespace":"y","uid":"1","uid":"2"}}"#,
        r#"{"metadata":{"name":"a","n\u0061me":"b"},"m\u0065tadata":{"name":"c"}}"#,
        r#"{"metadata":{"name":"a"},"spec":{"metadata":{"name":"b"}},"status":{"name":"c"}}"#,
    ];

    #[test]
    fn identity_and_body_are_of_the_same_object() {
        for json in CASES {
            let mut batch = RawBatch::new();
            batch.push(ItemKind::Added, json.as_bytes());
            let item = batch.get(0);
            let seen = [item.name, item.namespace, item.uid, item.version];

            let tree: serde_json::Value = serde_json::from_str(json).unwrap();
            let in_tree = ["name", "namespace", "uid", "resourceVersion"]
                .map(|field| tree["metadata"][field].as_str().unwrap_or(""));
            assert_eq!(seen, in_tree, "{json}");

            // A type may refuse the object, then it is quarantined; it may not find another identity in it.
            if let Ok(pod) = serde_json::from_str::<Pod>(json) {
                let meta = pod.metadata;
                let typed = [meta.name, meta.namespace, meta.uid, meta.resource_version];
                assert_eq!(seen, typed.each_ref().map(|field| field.as_deref().unwrap_or("")), "{json}");
            }
            if let Ok(dynamic) = DynamicObject::decode(json.as_bytes(), &Resource::namespaced("", "v1", "pods", "Pod"))
            {
                let meta = dynamic.metadata();
                assert_eq!(
                    seen,
                    [&meta.name, &meta.namespace, &meta.uid, &meta.resource_version].map(String::as_str),
                    "{json}"
                );
            }
        }
        assert!(serde_json::from_str::<Pod>(CASES[3]).is_ok(), "the typed half of this test says something");
    }

    #[test]
    fn of_a_list_the_last_metadata_and_kind_count_and_items_may_not_come_twice() {
        let text = r#"{"kind":"X","kind":"PodList","metadata":{"resourceVersion":"4","continue":"t"},"metadata":{"resourceVersion":"5"},"items":null,"items":[{}]}"#;
        let (items, end) = list_text(text);
        let end = end.unwrap();
        assert_eq!(
            (items.len(), end.kind.as_str(), end.version.as_str(), end.continue_token.as_str()),
            (1, "PodList", "5", "")
        );
        let version =
            |metadata: &str| list_text(&format!(r#"{{"metadata":{metadata},"items":[]}}"#)).1.unwrap().version;
        assert_eq!(version(r#"{"resourceVersion":"4","resourceVersion":"5"}"#).as_str(), "5");
        assert!(version(r#"{"resourceVersion":"4","resourceVersion":5}"#).is_empty());
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

    const TRICKY: [&str; 12] = [
        r#" { "items" : [ { } , [ ] , 5 , "x" ] , "kind" : "L" } "#,
        r#"{"items":[{"a":"\\"},{"a":"\\\""},{"a":"\u005c"},{"a":"}],"}],"x":"{[\"","y":12,"z":true}"#,
        r#"{"type":"ADDED","object":{"metadata":{"n\u0061me":"\ud83d\ude00"}}}{"type":"ADDED","object":7}{"type":"ADDED"}"#,
        r#"{"object":{"a":1},"object":"x","type":"ADDED","x":-1e5}"#,
        r#"{"type":"BOOKMARK"} {"type":"ERROR"} {"kind":"Status"} {"type":"\u0041"}"#,
        r#"{"type":"ADDED","object":{"a":[{]}}"#,
        r#"{"items":[{"a":1}]]"#,
        r#"{"metadata":{"resourceVersion":"5","resourceVersion":"6"},"items":[{"metadata":{"name":"a"},"metadata":5}],"kind":"Status"}"#,
        r#"{"kind":"Table","rows":[]}"#,
        "404 page not found\n",
        "\u{feff}{\"items\":[]}",
        "{}{}",
    ];

    /// B024: whatever the body, it makes no difference where it is cut, compressed or not.
    #[test]
    fn every_cut_of_every_tricky_body_gives_the_same() {
        // What an error quotes depends on what had arrived.
        let blur = |error| {
            let is_foreign = matches!(error, WireError::NotJson { .. });
            if is_foreign { WireError::NotJson { prefix: String::new() } } else { error }
        };
        let list = |chunks: &[&[u8]]| {
            let (seen, end) = list(chunks, Limits::default());
            (seen, end.map_err(blur))
        };
        let watch = |chunks: &[&[u8]]| {
            let (seen, end) = watch(chunks, Limits::default());
            (seen, end.map_err(blur))
        };
        for text in TRICKY {
            let body = text.as_bytes();
            let (listed, watched) = (list(&[body]), watch(&[body]));
            let bytes: Vec<_> = body.chunks(1).collect();
            assert_eq!((list(&bytes), watch(&bytes)), (listed.clone(), watched.clone()), "{text}");
            let gzip = gzip_member(0, &[body]).0;
            for cut in 0..=body.len() {
                let (head, tail) = body.split_at(cut);
                let chunks: [&[u8]; 5] = [b"", head, b"", tail, b""];
                assert_eq!((list(&chunks), watch(&chunks)), (listed.clone(), watched.clone()), "{text} cut at {cut}");
            }
            for cut in 0..=gzip.len() {
                let mut reader = Body::new(Some("gzip")).unwrap();
                let mut plain: Vec<Vec<u8>> = Vec::new();
                for chunk in [&gzip[..cut], &gzip[cut..]] {
                    let mut keep = |piece: &[u8]| {
                        plain.push(piece.to_vec());
                        Ok(())
                    };
                    reader.feed(chunk, &mut keep).unwrap();
                }
                let chunks: Vec<_> = plain.iter().map(Vec::as_slice).collect();
                assert_eq!(
                    (list(&chunks), watch(&chunks)),
                    (listed.clone(), watched.clone()),
                    "{text} in gzip cut at {cut}"
                );
            }
        }
    }

    /// A member that nobody wants is passed over without a copy, also when a piece ends behind a backslash in it.
    #[test]
    fn a_piece_may_end_within_an_escape_that_nobody_wants() {
        for text in [r#"{"x":"\\","items":[]}"#, r#"{"x":["a\"b",{"\u00e9":1}],"items":[]}"#] {
            let whole = list_text(text);
            assert!(whole.1.is_ok());
            for cut in 0..text.len() {
                let (head, tail) = text.as_bytes().split_at(cut);
                assert_eq!(list(&[head, b"", tail], Limits::default()), whole, "{cut}");
            }
        }
    }

    /// B026, C20: an event is there with its last byte, also from within a gzip member that goes on.
    #[test]
    fn each_event_comes_with_the_last_byte_of_its_flush() {
        let events =
            [event("ADDED", "a", 1), event("ADDED", "b", 2), END_BOOKMARK.to_string(), event("DELETED", "a", 3)];
        let pieces: Vec<_> = events.iter().map(String::as_bytes).collect();
        let (one_member, ends) = gzip_member(0, &pieces);
        let members: Vec<_> = pieces.iter().map(|piece| gzip_member(0, &[piece]).0).collect();
        let flushes: Vec<_> =
            ends.iter().scan(0, |from, &end| Some(&one_member[core::mem::replace(from, end)..end])).collect();
        let members: Vec<_> = members.iter().map(Vec::as_slice).collect();
        for chunks in [flushes, members] {
            let (mut body, mut decoder) = (Body::new(Some("gzip")).unwrap(), FrameDecoder::new(Limits::default()));
            let mut seen = 0;
            for (index, chunk) in chunks.iter().enumerate() {
                let mut input = *chunk;
                while let Some(plain) = body.pull(&mut input).unwrap() {
                    let mut batch = RawBatch::new();
                    let fed = decoder.feed(plain, &mut batch).unwrap();
                    seen += batch.len() + usize::from(matches!(fed, Fed::Control { .. }));
                }
                assert_eq!(seen, index + 1, "nothing is held back until more arrives");
            }
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
