//! What reading costs in memory, counted at the allocator: of a hostile body never more than the bound of one value and a
//! little, however long or compressed it is; and once a list or a watch is over, nothing of it.

use allocation_counter::measure;
use informer_core::Resource;
use informer_core::decode::{Codec, DecodeJob, NoGuard};
use informer_core::informer::{Informer, InformerConfig, Input, Output};
use informer_core::object::DynamicObject;
use informer_core::reflector::{End, ListStrategy};
use informer_core::store::{Commit, Store};
use informer_core::time::{Duration, Time};
use informer_core::wire::{Body, Crc32, Fed, FrameDecoder, Head, Limits, ListDecoder, RawBatch, RequestId, WireError};
use miniz_oxide::deflate::compress_to_vec;

const MIB: usize = 1 << 20;

/// What a socket gives at a time.
const READ: usize = 64 << 10;

/// The most that one value may hold: its bound, and one read.
fn bound(limits: Limits) -> u64 {
    (limits.frame_bytes + READ) as u64
}

/// `opening`, then `filling` without end, read by `read` until that fails; the peak of memory, and the error.
fn peak(opening: &[u8], filling: u8, mut read: impl FnMut(&[u8]) -> Result<(), WireError>) -> (u64, WireError) {
    let chunk = vec![filling; READ];
    let mut error = None;
    let counted = measure(|| {
        let mut result = read(opening);
        // Three times the bound by default: by then it has to have failed.
        for _ in 0..48 * MIB / READ {
            result = result.and_then(|()| read(&chunk));
        }
        error = result.err();
    });
    (counted.bytes_max, error.expect("a body without end is refused"))
}

#[test]
fn a_frame_without_end_costs_its_bound_and_no_more() {
    for limits in [Limits::default(), Limits { frame_bytes: 5 * MIB, ..Limits::default() }] {
        for (opening, filling) in [
            (r#"{"type":"ADDED","object":{"x":""#, b'x'),
            (r#"{"type":"ADDED","object":{"metadata":{"name":""#, b'x'),
            (r#"{"type":"ADDED","object":{"x":"#, b'['),
            (r#"{"type":"ADDED","object":{"x":"#, b' '),
            (r#"{"type":"ADDED","object":{"x":"#, b'1'),
            ("{\"", b'k'),
        ] {
            let (mut decoder, mut batch) = (FrameDecoder::new(limits), RawBatch::new());
            let (peak, error) = peak(opening.as_bytes(), filling, |bytes| decoder.feed(bytes, &mut batch).map(|_| ()));
            assert_eq!(error, WireError::TooLarge { limit: limits.frame_bytes }, "{opening}");
            assert!(peak <= bound(limits), "{opening}: {peak} bytes for a bound of {}", limits.frame_bytes);
        }
    }
}

/// A frame just below its bound is an event; what decoders make of its JSON is theirs.
#[test]
fn a_frame_at_its_bound_costs_its_bound_and_one_read() {
    let limits = Limits::default();
    let opening = r#"{"type":"ADDED","object":{"metadata":{"name":"a"},"x":""#;
    let small = "{\"type\":\"ADDED\",\"object\":{}}\n".repeat(5);
    let (mut decoder, mut batch, chunk) = (FrameDecoder::new(limits), RawBatch::new(), vec![b'x'; READ]);
    let counted = measure(|| {
        assert_eq!(decoder.feed(opening.as_bytes(), &mut batch), Ok(Fed::All));
        for _ in 0..limits.frame_bytes / READ - 1 {
            assert_eq!(decoder.feed(&chunk, &mut batch), Ok(Fed::All));
        }
        assert_eq!(decoder.feed(format!("\"}}}}{small}").as_bytes(), &mut batch), Ok(Fed::All));
    });
    let lengths: Vec<usize> = batch.iter().map(|item| item.json.len()).collect();
    assert!(lengths[0] > limits.frame_bytes - 2 * READ && lengths[1..] == [2; 5], "{lengths:?}");
    assert_eq!(batch.get(0).name, "a");
    assert!(counted.bytes_max <= bound(limits), "{} bytes", counted.bytes_max);
}

#[test]
fn an_item_or_member_of_a_list_without_end_costs_its_bound_and_no_more() {
    let limits = Limits::default();
    for (opening, filling) in [
        (r#"{"items":[{"x":""#, b'x'),
        (r#"{"items":[{"x":"#, b'['),
        (r#"{"metadata":{"x":""#, b'x'),
        (r#"{"message":""#, b'x'),
        ("{\"", b'k'),
    ] {
        let (mut decoder, mut batch) = (ListDecoder::new(limits), RawBatch::new());
        let (peak, error) = peak(opening.as_bytes(), filling, |bytes| decoder.feed(bytes, &mut batch));
        assert_eq!(error, WireError::TooLarge { limit: limits.frame_bytes }, "{opening}");
        assert!(peak <= bound(limits), "{opening}: {peak} bytes");
    }
}

#[test]
fn white_space_and_members_that_nobody_wants_cost_nothing() {
    let body = |opening: &str, filling: u8, end: &str| {
        let (mut decoder, mut batch) = (ListDecoder::new(Limits::default()), RawBatch::new());
        let chunk = vec![filling; READ];
        let counted = measure(|| {
            decoder.feed(opening.as_bytes(), &mut batch).unwrap();
            for _ in 0..40 * MIB / READ {
                decoder.feed(&chunk, &mut batch).unwrap();
            }
            decoder.feed(end.as_bytes(), &mut batch).unwrap();
        });
        assert!(decoder.finish().is_ok());
        counted.bytes_max
    };
    for (opening, filling, end) in
        [("{\"x\":\"", b'x', "\",\"items\":[]}"), ("{\"items\":[", b' ', "]}"), ("{\"items\":[]", b'\n', "}")]
    {
        let peak = body(opening, filling, end);
        assert!(peak < 16 * 1024, "{opening}: {peak} bytes");
    }
    let (mut decoder, mut batch, chunk) = (FrameDecoder::new(Limits::default()), RawBatch::new(), vec![b'\n'; READ]);
    let counted = measure(|| {
        for _ in 0..40 * MIB / READ {
            assert_eq!(decoder.feed(&chunk, &mut batch), Ok(Fed::All));
        }
    });
    assert_eq!(counted.bytes_max, 0, "white space between frames is held nowhere");
}

fn pods() -> Resource {
    Resource::namespaced("", "v1", "pods", "Pod")
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut gzip = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    gzip.extend(compress_to_vec(content, 6));
    gzip.extend(Crc32::of(content).to_le_bytes());
    gzip.extend((content.len() as u32).to_le_bytes());
    gzip
}

#[test]
fn a_gzip_bomb_comes_out_in_pieces() {
    let bomb = gzip(&vec![b' '; 40 * MIB]);
    assert!(bomb.len() < READ, "one read brings it all");
    let (mut decoder, mut batch) = (ListDecoder::new(Limits::default()), RawBatch::new());
    let counted = measure(|| {
        let mut body = Body::new(Some("gzip")).unwrap();
        body.feed(&bomb, &mut |piece| decoder.feed(piece, &mut batch)).unwrap();
        body.finish().unwrap();
    });
    assert!(counted.bytes_max < 256 * 1024, "{} bytes", counted.bytes_max);
}

enum Effect<T> {
    Decode(DecodeJob),
    Commit(Commit<T>),
}

/// An informer whose driver keeps each effect until nothing else is to be done, as one on a pool would.
struct Driver<T = usize> {
    informer: Informer<T>,
    store: Store<T>,
    codec: Codec<T>,
    /// At most one is out at a time.
    effect: Option<Effect<T>>,
    paused: bool,
    requests: Vec<String>,
}

impl Driver {
    /// What is cached is a number, so that what is counted is what is on its way.
    fn new() -> Self {
        Driver::of(Codec::<DynamicObject>::new(pods()).map(|object| Ok(object.json().len())))
    }
}

impl<T: 'static> Driver<T> {
    fn of(codec: Codec<T>) -> Self {
        let mut config = InformerConfig::new(pods());
        config.reflector.strategy = ListStrategy::Paged;
        Driver {
            informer: Informer::new(config, 7),
            store: Store::new(7),
            codec,
            effect: None,
            paused: false,
            requests: Vec::new(),
        }
    }

    fn input(&mut self, input: Input<'_, T>) {
        self.informer.handle(Time::ZERO, input);
        self.drain();
    }

    fn drain(&mut self) {
        loop {
            match self.informer.poll_output() {
                Output::Send(request) => self.requests.push(request.target()),
                Output::Cancel(id) => panic!("{id} is given up"),
                Output::Pause(_) => self.paused = true,
                Output::Resume(_) => self.paused = false,
                Output::Decode(job) => self.effect = Some(Effect::Decode(job)),
                Output::Commit(commit) => self.effect = Some(Effect::Commit(commit)),
                Output::Notice(_) | Output::Unwanted(_) => {}
                Output::Wait(_) => break,
                Output::Attach(_) | Output::Begin(_) | Output::Complete(_) | Output::Detach(_) | Output::Resync(_) => {
                    panic!("there are no handlers")
                }
            }
        }
    }

    /// Carries out one effect. False if there is none.
    fn work(&mut self) -> bool {
        let input = match self.effect.take() {
            None => return false,
            Some(Effect::Decode(mut job)) => {
                job.probe(&self.store);
                Input::Decoded(job.decode(&self.codec, &self.store.indexers(), &NoGuard))
            }
            Some(Effect::Commit(commit)) => Input::Committed(self.store.commit(commit).receipt),
        };
        self.informer.handle(Time::ZERO, input);
        self.drain();
        true
    }

    fn answer(&mut self, gzip: &[u8]) {
        let id = RequestId(self.requests.len() as u64);
        let mut head = Head::new(200);
        head.set("content-encoding", "gzip");
        self.input(Input::Head { id, head: &head });
        self.input(Input::Body { id, bytes: gzip });
    }
}

/// One read of a list stands for a hundred times what may wait to be decoded.
#[test]
fn a_list_that_one_read_brings_is_decoded_in_pieces_all_the_same() {
    let object = |n: usize| {
        let zeros = "0".repeat(MIB);
        format!(r#"{{"metadata":{{"name":"o-{n:04}","resourceVersion":"{n}"}},"data":"{zeros}"}}"#)
    };
    let items: Vec<String> = (1..=40).map(object).collect();
    let body = format!(r#"{{"kind":"PodList","metadata":{{"resourceVersion":"50"}},"items":[{}]}}"#, items.join(","));
    let list = gzip(body.as_bytes());
    assert!(list.len() < READ, "one read brings it all");
    drop((items, body));

    let mut driver = Driver::new();
    let counted = measure(|| {
        driver.input(Input::Start);
        driver.answer(&list);
        assert!(driver.paused, "no more is read meanwhile");
        // The driver has nothing more to read, and says so before the first piece is decoded.
        driver.input(Input::End { id: RequestId(1), end: &End::Closed });
        while driver.work() {}
    });
    assert_eq!(driver.store.len(), 40);
    assert!(driver.informer.has_synced() && driver.requests[1].contains("resourceVersion=50"), "{:?}", driver.requests);
    // What waits, what is decoded, one object on its way into each of them; and an item that is cut has its bound reserved.
    assert!(
        counted.bytes_max < (Limits::default().frame_bytes + 12 * MIB) as u64,
        "{} bytes for a list of 40 MiB",
        counted.bytes_max
    );
}

/// The smallest items cost most beside their bytes.
#[test]
fn items_of_two_bytes_are_counted_with_what_is_noted_of_them() {
    let body = format!(
        r#"{{"kind":"PodList","metadata":{{"resourceVersion":"50"}},"items":[{}{{}}]}}"#,
        "{},".repeat(4 * MIB)
    );
    let list = gzip(body.as_bytes());
    assert!(list.len() < READ, "one read brings it all");
    drop(body);
    let mut driver = Driver::new();
    driver.input(Input::Start);
    let counted = measure(|| driver.answer(&list));
    assert!(driver.paused);
    assert!(counted.bytes_max < 64 * MIB as u64, "{} bytes for what is noted of four million items", counted.bytes_max);
}

/// Bookmarks are no bytes to decode, and still take room.
#[test]
fn a_flood_of_bookmarks_is_taken_in_pieces() {
    let bookmark = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"60"}}}"#;
    let flood = gzip(bookmark.repeat(200_000).as_bytes());
    let mut driver = Driver::new();
    driver.input(Input::Start);
    let empty = gzip(br#"{"kind":"PodList","metadata":{"resourceVersion":"50"},"items":[]}"#);
    driver.answer(&empty);
    driver.input(Input::End { id: RequestId(1), end: &End::Closed });
    while driver.work() {}
    let counted = measure(|| {
        driver.answer(&flood);
        while driver.work() {}
    });
    assert!(!driver.paused && driver.store.version().as_str() == "60");
    assert!(counted.bytes_max < 2 * MIB as u64, "{} bytes for 13 MB of bookmarks", counted.bytes_max);
}

/// What is cached is a copy of its own length: no list and no read stays for the sake of one of its objects.
#[test]
fn b075_one_object_that_remains_of_a_list_keeps_none_of_the_others_in_memory() {
    const OBJECTS: usize = 100;
    const LARGE: usize = 100 << 10;
    let object = |n: usize, version: usize, bytes: usize| {
        let zeros = "0".repeat(bytes);
        format!(r#"{{"metadata":{{"name":"o-{n}","uid":"u","resourceVersion":"{version}"}},"data":"{zeros}"}}"#)
    };
    let items: Vec<String> = (1..=OBJECTS).map(|n| object(n, n, LARGE)).collect();
    let list = gzip(
        format!(r#"{{"kind":"PodList","metadata":{{"resourceVersion":"100"}},"items":[{}]}}"#, items.join(","))
            .as_bytes(),
    );
    let event = |n| format!("{{\"type\":\"MODIFIED\",\"object\":{}}}\n", object(n, OBJECTS + n, 10));
    let events = gzip((2..=OBJECTS).map(event).collect::<String>().as_bytes());
    drop(items);

    let mut kept = None;
    let counted = measure(|| {
        let mut driver = Driver::of(Codec::<DynamicObject>::new(pods()));
        driver.input(Input::Start);
        driver.answer(&list);
        driver.input(Input::End { id: RequestId(1), end: &End::Closed });
        while driver.work() {}
        assert!(driver.store.iter().all(|object| object.json().len() > LARGE));
        driver.answer(&events);
        while driver.work() {}
        driver.input(Input::End { id: RequestId(2), end: &End::Closed });
        kept = Some(driver);
    });
    let driver = kept.unwrap();
    assert_eq!((driver.store.len(), driver.store.version().as_str()), (OBJECTS, "200"));
    assert!(counted.bytes_max > (OBJECTS * LARGE) as u64, "{} bytes at most", counted.bytes_max);
    assert!(counted.bytes_current < 3 * LARGE as i64, "{} bytes stay", counted.bytes_current);
}

/// A thousand times a watch that is expired, the list that follows, and a watch again: nothing of any of them stays.
#[test]
fn b140_a_thousand_expired_watches_leave_no_memory_behind() {
    const ROUNDS: usize = 1_000;
    // Every round one object changes, one goes, and one comes.
    let lists: Vec<_> = (1..=ROUNDS)
        .map(|round| {
            let versions = [("stays", 1), ("changes", round), ("comes", round)];
            let item = |(name, version)| {
                let last = if name == "comes" { round } else { 0 };
                format!(r#"{{"metadata":{{"name":"{name}-{last}","uid":"u","resourceVersion":"{version}"}}}}"#)
            };
            let items = versions.map(item).join(",");
            let version = format!(r#""metadata":{{"resourceVersion":"{round}"}}"#);
            gzip(format!(r#"{{"kind":"PodList",{version},"items":[{items}]}}"#).as_bytes())
        })
        .collect();
    let mut driver = Driver::of(Codec::<DynamicObject>::new(pods()));
    driver.requests.reserve(4 * ROUNDS);
    driver.input(Input::Start);
    let mut now = Time::ZERO;
    let mut round = |driver: &mut Driver<DynamicObject>, list: &[u8]| {
        driver.answer(list);
        driver.input(Input::End { id: RequestId(driver.requests.len() as u64), end: &End::Closed });
        while driver.work() {}
        let id = RequestId(driver.requests.len() as u64);
        driver.input(Input::Head { id, head: &Head::new(410) });
        driver.input(Input::End { id, end: &End::Closed });
        // Longer than any wait of the backoff.
        now = now + Duration::from_secs(120);
        driver.informer.handle(now, Input::Tick);
        driver.drain();
    };
    let (first, later) = lists.split_at(100);
    first.iter().for_each(|list| round(&mut driver, list));
    let counted = measure(|| later.iter().for_each(|list| round(&mut driver, list)));
    assert_eq!((driver.store.len(), driver.store.version().as_str()), (3, "1000"));
    assert_eq!(driver.requests.len(), 2 * ROUNDS + 1, "a list and a watch each, and the next list");
    // The texts of the requests are the test's own, and as long each time.
    let texts: usize = driver.requests[driver.requests.len() - 2 * later.len()..].iter().map(String::capacity).sum();
    let grown = counted.bytes_current - texts as i64;
    assert!(grown < 16 * 1024, "{grown} bytes more after 900 rounds");
}
