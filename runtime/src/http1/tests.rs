use super::*;
use crate::Config;
use crate::api::ApiRequest;
use informer_core::{Key, Resource};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

const MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");

fn outgoing(call: &ApiRequest) -> Outgoing {
    Outgoing::call(&Config::from_url("http://a:8001").unwrap(), call, false).unwrap()
}

/// An exchange whose request was sent.
fn asked() -> Exchange {
    let mut exchange = Exchange::new();
    ask(&mut exchange);
    exchange
}

fn ask(exchange: &mut Exchange) {
    exchange.begin(&outgoing(&ApiRequest::get(&MAPS, &Key::new("ns", "m")).unwrap())).unwrap();
    exchange.sent(exchange.unsent().len());
}

/// An answer as it was understood.
#[derive(Debug, Default, PartialEq, Eq)]
struct Understood {
    status: Option<u16>,
    body: Vec<u8>,
    done: bool,
}

/// Reads what there is, in pieces of at most these sizes, over and over; then the end of the stream, if it ends.
fn play(
    exchange: &mut Exchange,
    mut bytes: &[u8],
    sizes: &[usize],
    ends: bool,
) -> Result<Understood, (Understood, Fault)> {
    let mut understood = Understood::default();
    let mut sizes = sizes.iter().copied().cycle();
    let mut is_over = false;
    loop {
        let step = match understood.status {
            None => exchange.head().map(|head| match head {
                Some(head) => {
                    understood.status = Some(head.status);
                    false
                }
                None => true,
            }),
            Some(_) => exchange.part().map(|part| match part {
                Part::Bytes(bytes) => {
                    assert!(!bytes.is_empty() && bytes.len() <= BUFFER);
                    understood.body.extend(bytes);
                    false
                }
                Part::Wait => true,
                Part::Done => {
                    understood.done = true;
                    false
                }
            }),
        };
        match step {
            Err(fault) => return Err((understood, fault)),
            Ok(_) if understood.done || is_over => return Ok(understood),
            Ok(false) => {}
            Ok(true) => {
                let room = exchange.space();
                let read = room.len().min(bytes.len()).min(sizes.next().unwrap_or(usize::MAX));
                room[..read].copy_from_slice(&bytes[..read]);
                bytes = &bytes[read..];
                if read > 0 {
                    exchange.filled(read);
                } else if ends {
                    exchange.filled(0);
                } else {
                    is_over = true;
                }
            }
        }
    }
}

fn understand(answer: &[u8]) -> (Understood, Exchange) {
    let mut exchange = asked();
    let understood = play(&mut exchange, answer, &[usize::MAX], false);
    (understood.unwrap_or_else(|(_, fault)| panic!("{fault}")), exchange)
}

/// Why an answer is none, if the stream ends behind it.
fn refused(answer: impl AsRef<[u8]>) -> String {
    let mut exchange = asked();
    let (_, first) = play(&mut exchange, answer.as_ref(), &[usize::MAX], true).unwrap_err();
    let again = match &exchange.stage {
        Stage::Asked(_) => exchange.head().unwrap_err(),
        Stage::Idle | Stage::Body { .. } | Stage::Over => exchange.part().unwrap_err(),
    };
    assert_eq!(first.text, again.text, "it is met again");
    assert!(!exchange.is_idle());
    first.text
}

#[derive(Clone, Debug)]
struct Answer {
    bytes: Vec<u8>,
    body: Vec<u8>,
    /// It has no end of its own.
    until_close: bool,
    kept: bool,
}

fn answers() -> impl Strategy<Value = Answer> {
    let chunks = vec((vec(any::<u8>(), 1..200), "(;[a-z]{1,30}(=\"[a-z ]{0,30}\")?)?", any::<bool>()), 0..8);
    let trailers = vec("[a-z-]{1,10}: [ -~]{0,40}", 0..3);
    (0..3u8, 0..3usize, chunks, trailers, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(kind, interim, chunks, trailers, old, says, counts)| {
            let body: Vec<u8> = chunks.iter().flat_map(|(bytes, ..)| bytes.clone()).collect();
            let mut bytes = b"HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n".repeat(interim);
            let old = old && kind != 0;
            let connection = match (old, says) {
                (true, true) => "connection: upgrade, Keep-Alive\r\n",
                (false, true) => "Connection: x,close\r\n",
                (_, false) => "",
            };
            bytes.extend(format!("HTTP/1.{} 200 OK\r\n{connection}", u8::from(!old)).bytes());
            match kind {
                0 => {
                    let length = if counts { "content-length: 0\r\n" } else { "" };
                    bytes.extend(format!("transfer-encoding: Chunked\r\n{length}\r\n").bytes());
                    for (content, extension, upper) in &chunks {
                        let size =
                            if *upper { format!("{:04X}", content.len()) } else { format!("{:x}", content.len()) };
                        bytes.extend(format!("{size}{extension}\r\n").bytes());
                        bytes.extend(content);
                        bytes.extend(b"\r\n");
                    }
                    bytes.extend(b"0\r\n");
                    trailers.iter().for_each(|trailer| bytes.extend(format!("{trailer}\r\n").bytes()));
                    bytes.extend(b"\r\n");
                }
                1 => bytes.extend(format!("content-length: {0}\r\nContent-Length: {0}\r\n\r\n", body.len()).bytes()),
                _ => bytes.extend(b"\r\n"),
            }
            if kind != 0 {
                bytes.extend(&body);
            }
            let until_close = kind == 2;
            let framed_twice = kind == 0 && counts;
            Answer { bytes, body, until_close, kept: !until_close && !framed_twice && old == says }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn an_answer_is_the_same_however_it_is_cut(answer in answers(), sizes in vec(1..400usize, 1..20)) {
        let mut exchange = asked();
        let understood = play(&mut exchange, &answer.bytes, &sizes, answer.until_close).map_err(|(_, fault)| fault.text);
        prop_assert_eq!(understood, Ok(Understood { status: Some(200), body: answer.body, done: true }));
        prop_assert_eq!(exchange.is_idle(), answer.kept);
        if answer.kept {
            ask(&mut exchange);
            let second = play(&mut exchange, b"HTTP/1.1 204 None\r\n\r\n", &sizes, false).map_err(|(_, fault)| fault.text);
            prop_assert_eq!(second, Ok(Understood { status: Some(204), body: Vec::new(), done: true }));
        }
    }

    #[test]
    fn an_answer_that_was_cut_short_is_never_complete(
        answer in answers().prop_filter("it has an end", |answer| !answer.until_close),
        sizes in vec(1..400usize, 1..20),
        at in any::<prop::sample::Index>(),
    ) {
        let cut = at.index(answer.bytes.len());
        let mut exchange = asked();
        let (understood, fault) = play(&mut exchange, &answer.bytes[..cut], &sizes, true).unwrap_err();
        prop_assert!(answer.body.starts_with(&understood.body));
        prop_assert!(fault.text.contains("closed"), "{}", fault.text);
        prop_assert!(!exchange.is_idle());
    }

    #[test]
    fn nothing_that_comes_breaks_it(bytes in vec(any::<u8>(), 0..300), valid in answers(), at in any::<prop::sample::Index>()) {
        let mut damaged = valid.bytes.clone();
        let place = at.index(damaged.len());
        damaged.splice(place..(place + bytes.len() / 8).min(damaged.len()), bytes.iter().copied());
        for bytes in [&bytes, &damaged] {
            // Whatever it says: it ends.
            let _ = play(&mut asked(), bytes, &[7], true);
        }
    }
}

#[test]
fn a_request_is_written_in_its_own_form() {
    let mut exchange = Exchange::new();
    let call = ApiRequest::merge_patch(&MAPS, &Key::new("ns", "m"), &json!({"a": 1})).unwrap();
    exchange.begin(&outgoing(&call)).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let text = format!(
        "PATCH /api/v1/namespaces/ns/configmaps/m HTTP/1.1\r\nhost: a:8001\r\nuser-agent: informer/{version}\r\n\
         accept: application/json\r\naccept-encoding: identity\r\ncontent-type: application/merge-patch+json\r\n\
         content-length: 7\r\n\r\n{{\"a\":1}}"
    );
    assert_eq!(String::from_utf8_lossy(exchange.unsent()), text);
    assert!(exchange.unanswered(false).unread);
    exchange.sent(10);
    assert!(!exchange.unanswered(false).unread && exchange.unsent() == &text.as_bytes()[10..]);
    exchange.sent(text.len() - 10);
    assert!(exchange.unsent().is_empty() && !exchange.is_idle());
}

#[test]
fn a_request_whose_head_is_too_large_is_not_sent() {
    let config = Config::from_url("http://a").unwrap().with_token("t".repeat(REQUEST_HEAD));
    let call = ApiRequest::get(&MAPS, &Key::new("ns", "m")).unwrap();
    let mut exchange = Exchange::new();
    let fault = exchange.begin(&Outgoing::call(&config, &call, false).unwrap()).unwrap_err();
    assert!(
        fault.text.starts_with("GET /api/v1/namespaces/ns/configmaps/m cannot be sent: its head has 65"),
        "{fault}"
    );
    assert!(exchange.unsent().is_empty() && exchange.is_idle());
}

#[test]
fn answers_without_a_body_are_complete_with_their_head() {
    for (head, kept) in [
        ("204 No Content", true),
        ("204 No Content\r\ncontent-length: 0", true),
        ("304 Not Modified", true),
        ("200 OK\r\ncontent-length: 0", true),
        // What is sent as a body all the same would be taken for the next answer.
        ("204 No Content\r\ncontent-length: 5", false),
        ("304 Not Modified\r\ntransfer-encoding: chunked", false),
    ] {
        let (understood, exchange) = understand(format!("HTTP/1.1 {head}\r\n\r\n").as_bytes());
        assert!(understood.done && understood.body.is_empty(), "{head}");
        assert_eq!(exchange.is_idle(), kept, "{head}");
    }
    let mut exchange = Exchange::new();
    let mut head = outgoing(&ApiRequest::get(&MAPS, &Key::new("ns", "m")).unwrap());
    *head.head.method_mut() = Method::HEAD;
    exchange.begin(&head).unwrap();
    exchange.sent(exchange.unsent().len());
    let understood = play(&mut exchange, b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", &[9], false).unwrap();
    assert!(understood.done && exchange.is_idle());
}

#[test]
fn interim_answers_are_passed_over_and_a_switch_of_protocols_ends_the_connection() {
    let (understood, exchange) = understand(
        b"HTTP/1.1 100 Continue\r\ndate: now\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 404 No\r\ncontent-length: 1\r\n\r\nx",
    );
    assert_eq!(understood, Understood { status: Some(404), body: b"x".to_vec(), done: true });
    assert!(exchange.is_idle());
    let (understood, exchange) = understand(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\n\r\n");
    assert!(understood.done && understood.status == Some(101) && !exchange.is_idle());
}

#[test]
fn what_comes_unasked_ends_an_idle_connection() {
    let (understood, exchange) = understand(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nxHTTP/1.1 408 Late\r\n\r\n");
    assert!(understood.done && understood.body == b"x" && !exchange.is_idle());
    for read in [0, 1] {
        let mut exchange = Exchange::new();
        exchange.space()[0] = b'H';
        exchange.filled(read);
        assert!(!exchange.is_idle(), "after {read} bytes");
    }
}

#[test]
fn an_answer_whose_end_is_not_clear_is_none() {
    let cases = [
        ("content-length: 1\r\ncontent-length: 2", "two content-lengths"),
        ("content-length: 1, 2", "two content-lengths"),
        ("content-length: +1", "\"+1\" is no content-length"),
        ("content-length: 99999999999999999999", "is no content-length"),
        ("content-length: ", "\"\" is no content-length"),
        ("transfer-encoding: gzip, chunked", "a transfer-encoding that was not asked for (\"gzip\")"),
        ("transfer-encoding: chunked\r\ntransfer-encoding: chunked", "that was not asked for"),
    ];
    for (header, why) in cases {
        let text = refused(format!("HTTP/1.1 200 OK\r\n{header}\r\n\r\nxx"));
        assert!(text.starts_with("what came is no HTTP/1.1: ") && text.contains(why), "{header}: {text}");
    }
    assert!(refused("HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").contains("leaves open"));
    assert!(refused("HTTP/2 200 OK\r\n\r\n").contains("no HTTP/1.1"));
    assert!(refused(b"\0\0\0\x04\0\0\0\0\0").contains("no HTTP/1.1"));
}

#[test]
fn chunks_that_are_none_are_refused_after_what_came_before() {
    let cases = [
        ("x", "begins without its size"),
        (";a\r\n", "begins without its size"),
        ("1x\r\n", "no number"),
        ("1;a\n", "ends without CR"),
        ("1\rx", "CR inside"),
        ("fffffffffffffffff\r\n", "too large"),
        ("1\r\nabc", "longer than its size"),
        ("0\r\na: b\n", "without CR"),
        ("0\r\n\rx", "CR inside"),
    ];
    for (chunk, why) in cases {
        let answer = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n{chunk}");
        let mut exchange = asked();
        let (understood, fault) = play(&mut exchange, answer.as_bytes(), &[usize::MAX], false).unwrap_err();
        assert!(understood.body.starts_with(b"ok") && fault.text.contains(why), "{chunk:?}: {fault}");
        assert!(exchange.part().unwrap_err().text.contains(why), "{chunk:?}: it is met again");
    }
    let long = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;{}", "a".repeat(BUFFER));
    assert!(refused(long).contains("too long"));
    let long = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n{}", "a: b\r\n".repeat(BUFFER));
    assert!(refused(long).contains("too long"));
}

#[test]
fn a_head_has_a_bound() {
    let headers = |bytes: usize| format!("HTTP/1.1 204 None\r\na: {}\r\n\r\n", "x".repeat(bytes));
    let most = BUFFER - headers(0).len();
    assert!(understand(headers(most).as_bytes()).0.done);
    let text = refused(headers(most + 1));
    assert_eq!(text, format!("the head of the answer has more than {BUFFER} bytes"));
    let many = format!("HTTP/1.1 204 None\r\n{}\r\n", "a: b\r\n".repeat(MAX_HEADERS + 1));
    assert_eq!(refused(many), "what came is no HTTP/1.1: too many headers");
}

#[test]
fn an_end_without_an_answer_says_what_is_known() {
    assert_eq!(refused(""), "the server closed the connection without an answer");
    assert_eq!(refused("HTTP/1.1 2"), "the server closed the connection inside the head of its answer");
    assert_eq!(refused("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nx"), "the connection was closed inside the body");
    let mut exchange = asked();
    exchange.unsendable(Fault::broken("broken pipe"));
    exchange.filled(0);
    assert_eq!(exchange.head().unwrap_err().text, "broken pipe");
}

#[test]
fn what_broke_never_looks_complete_however_often_it_is_asked_for() {
    for head in ["", "content-length: 9\r\n", "transfer-encoding: chunked\r\n"] {
        let mut exchange = asked();
        let begun = format!("HTTP/1.1 200 OK\r\n{head}\r\n1\r\nx");
        let understood = play(&mut exchange, begun.as_bytes(), &[usize::MAX], false).unwrap();
        assert!(!understood.done && !understood.body.is_empty());
        exchange.unreadable(Fault::broken("reset"));
        for _ in 0..3 {
            assert_eq!(exchange.part().unwrap_err().text, "reset", "{head}");
        }
        assert!(!exchange.is_idle());
    }
    let mut exchange = asked();
    exchange.unreadable(Fault::broken("reset"));
    exchange.unsendable(Fault::broken("broken pipe"));
    for _ in 0..3 {
        assert_eq!(exchange.head().unwrap_err().text, "reset");
    }
}

#[test]
fn what_came_before_it_broke_counts() {
    let mut exchange = asked();
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
    exchange.space()[..answer.len()].copy_from_slice(answer);
    exchange.filled(answer.len());
    exchange.unreadable(Fault::broken("reset"));
    assert_eq!(exchange.head().unwrap().map(|head| head.status), Some(200));
    assert_eq!((exchange.part().unwrap(), exchange.part().unwrap()), (Part::Bytes(b"{}".to_vec()), Part::Done));
    assert!(!exchange.is_idle());
}

#[test]
fn a_token_is_no_part_of_what_debug_shows() {
    let config = Config::from_url("http://a").unwrap().with_token("MARKED");
    let call = ApiRequest::get(&MAPS, &Key::new("ns", "m")).unwrap();
    let mut exchange = Exchange::new();
    exchange.begin(&Outgoing::call(&config, &call, false).unwrap()).unwrap();
    let unsent = exchange.unsent().to_vec();
    assert!(String::from_utf8_lossy(&unsent).contains("MARKED"));
    let shown = format!("{exchange:?}");
    assert_eq!(shown, format!("exchange (Asked(GET), {} bytes to send, 0 read ahead)", unsent.len()));
}

#[test]
fn an_answer_may_come_before_the_request_was_taken_and_counts() {
    let answer = b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno";
    let call = ApiRequest::create(&MAPS, "ns", &json!({"data": "x".repeat(1000)})).unwrap();
    let begun = || {
        let mut exchange = Exchange::new();
        exchange.begin(&outgoing(&call)).unwrap();
        exchange.sent(100);
        exchange
    };
    let mut early = begun();
    let head = play(&mut early, &answer[..answer.len() - 2], &[usize::MAX], false).unwrap();
    assert_eq!(head.status, Some(413));
    early.sent(early.unsent().len());
    early.space()[..2].copy_from_slice(b"no");
    early.filled(2);
    assert_eq!((early.part().unwrap(), early.part().unwrap()), (Part::Bytes(b"no".to_vec()), Part::Done));
    assert!(early.is_idle(), "all of it went out meanwhile");

    let mut unsent = begun();
    assert!(play(&mut unsent, answer, &[usize::MAX], false).unwrap().done);
    assert!(!unsent.is_idle(), "the server waits for the rest of a request");

    let mut broken = begun();
    broken.unsendable(Fault::broken("broken pipe"));
    assert!(broken.unsent().is_empty());
    assert!(play(&mut broken, answer, &[usize::MAX], false).unwrap().done);
    assert!(!broken.is_idle());
}

#[test]
fn a_buffer_grows_while_reads_fill_it_and_is_small_when_nothing_comes() {
    let mut exchange = asked();
    let head = b"HTTP/1.1 200 OK\r\n\r\n";
    exchange.space()[..head.len()].copy_from_slice(head);
    exchange.filled(head.len());
    assert!(exchange.head().unwrap().is_some() && exchange.part().unwrap() == Part::Wait);
    let mut rooms = Vec::new();
    for _ in 0..5 {
        let room = exchange.space().len();
        rooms.push(room);
        exchange.filled(room);
        assert!(matches!(exchange.part().unwrap(), Part::Bytes(bytes) if bytes.len() == room));
    }
    assert_eq!(rooms, [SMALL_BUFFER, 4 * SMALL_BUFFER, 16 * SMALL_BUFFER, BUFFER, BUFFER]);
    exchange.space();
    exchange.filled(1);
    exchange.rest();
    assert_eq!(exchange.buffer.len(), BUFFER, "there is something in it");
    assert!(matches!(exchange.part().unwrap(), Part::Bytes(bytes) if bytes.len() == 1));
    assert_eq!(exchange.space().len(), BUFFER);
    exchange.rest();
    assert_eq!(exchange.space().len(), SMALL_BUFFER);
    exchange.filled(SMALL_BUFFER);
    assert!(exchange.part().is_ok() && exchange.space().len() == BUFFER, "much came before it rested");
    exchange.filled(10);
    assert!(exchange.part().is_ok());
    exchange.rest();
    exchange.space();
    exchange.filled(SMALL_BUFFER);
    assert!(exchange.part().is_ok() && exchange.space().len() == 4 * SMALL_BUFFER, "little came");
}
