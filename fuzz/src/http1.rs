//! An answer over HTTP/1.1: any cut gives the same, a reader that has all of it before it agrees on what is complete and
//! where it ends, and what broke or was cut short never looks complete.
//!
//! First byte: how the answer is cut. Second byte: behind it the connection stays open, ends, or breaks. The rest is what
//! the server sends.

use crate::bytes::{Bytes, cut};
use informer_core::{Key, Resource};
use informer_runtime::Config;
use informer_runtime::api::ApiRequest;
use informer_runtime::fault::Fault;
use informer_runtime::http1::{BUFFER, Exchange, Part};
use informer_runtime::outgoing::Outgoing;

/// What becomes of the connection behind the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Then {
    Open,
    Ends,
    Breaks,
}

/// An answer as it was understood.
#[derive(PartialEq, Eq, Debug)]
struct Answer {
    status: Option<u16>,
    body: Vec<u8>,
    end: End,
}

#[derive(PartialEq, Eq, Debug)]
enum End {
    /// It is complete, and whether the connection serves another request.
    Done(bool),
    /// More is to come.
    Waits,
    Fault(String),
}

/// Reads one input.
///
/// # Panics
///
/// If something is wrong.
pub fn run(data: &[u8]) {
    let mut data = Bytes::new(data);
    let (seed, then) = (data.byte(), [Then::Open, Then::Ends, Then::Breaks][data.below(3)]);
    let bytes = data.rest();
    let answer = read(&[bytes], then);
    assert_eq!(answer, read(&cut(bytes, seed), then), "cut by {seed}");
    assert_eq!(answer, read(&cut(bytes, 0), then), "byte by byte");
    let whole = naive(bytes, then == Then::Ends);
    match (&answer.end, whole) {
        (End::Done(idle), Some(whole)) => {
            assert_eq!((answer.status, &answer.body[..]), (Some(whole.status), &whole.body[..]));
            assert_eq!(*idle, whole.kept && whole.used == bytes.len() && then == Then::Open);
        }
        (End::Done(_), None) => panic!("it is not complete"),
        (End::Waits, whole) => assert!(whole.is_none() && then == Then::Open, "it is complete"),
        (End::Fault(_), _) => {}
    }
}

fn read(pieces: &[&[u8]], then: Then) -> Answer {
    let config = Config::from_url("http://a").expect("a URL");
    let nodes = Resource::cluster("", "v1", "nodes", "Node");
    let call = ApiRequest::get(&nodes, &Key::new("", "n")).expect("a call");
    let mut exchange = Exchange::new();
    exchange.begin(&Outgoing::call(&config, &call, false).expect("a request")).expect("a short head");
    exchange.sent(exchange.unsent().len());

    let mut pieces = pieces.iter().copied().filter(|piece| !piece.is_empty());
    let (mut piece, mut is_over) = (&[][..], false);
    let mut answer = Answer { status: None, body: Vec::new(), end: End::Waits };
    loop {
        let waits = match answer.status {
            None => exchange.head().map(|head| {
                answer.status = head.map(|head| head.status);
                answer.status.is_none()
            }),
            Some(_) => match exchange.part() {
                Ok(Part::Bytes(bytes)) => {
                    assert!(!bytes.is_empty() && bytes.len() <= BUFFER);
                    answer.body.extend(bytes);
                    Ok(false)
                }
                Ok(Part::Wait) => Ok(true),
                Ok(Part::Done) => {
                    feed(&mut exchange, &mut piece, &mut pieces, then);
                    answer.end = End::Done(exchange.is_idle());
                    return answer;
                }
                Err(fault) => Err(fault),
            },
        };
        match waits {
            Ok(false) => {}
            Ok(true) if is_over && then == Then::Open => return answer,
            Ok(true) => {
                assert!(!is_over, "it waits for more of a connection that is over");
                is_over = !feed(&mut exchange, &mut piece, &mut pieces, then);
            }
            Err(fault) => {
                let again = if answer.status.is_none() { exchange.head().err() } else { exchange.part().err() };
                assert_eq!(again.map(|again| again.text), Some(fault.text.clone()), "it is met again");
                assert!(!exchange.is_idle());
                answer.end = End::Fault(fault.text);
                return answer;
            }
        }
    }
}

/// One read; false if there is nothing left.
fn feed<'a>(
    exchange: &mut Exchange,
    piece: &mut &'a [u8],
    pieces: &mut impl Iterator<Item = &'a [u8]>,
    then: Then,
) -> bool {
    if piece.is_empty() {
        *piece = pieces.next().unwrap_or_default();
    }
    if piece.is_empty() {
        match then {
            Then::Open => {}
            Then::Ends => exchange.filled(0),
            Then::Breaks => exchange.unreadable(Fault::broken("reset")),
        }
        return false;
    }
    let room = exchange.space();
    let read = room.len().min(piece.len());
    room[..read].copy_from_slice(&piece[..read]);
    exchange.filled(read);
    *piece = &piece[read..];
    true
}

/// What one finds who has all of it.
struct Whole {
    status: u16,
    body: Vec<u8>,
    used: usize,
    kept: bool,
}

fn naive(bytes: &[u8], ends: bool) -> Option<Whole> {
    let mut rest = bytes;
    let (minor, status, headers) = loop {
        let head = naive_head(&mut rest)?;
        if head.1 == 101 || !(100..200).contains(&head.1) {
            break head;
        }
    };
    let has = |name: &str| headers.iter().any(|(known, _)| known == name);
    let members = |name: &str| -> Vec<String> {
        let values = headers.iter().filter(|(known, _)| known == name);
        values.flat_map(|(_, value)| value.split(',')).map(|member| member.trim().to_ascii_lowercase()).collect()
    };
    let length: Option<usize> = members("content-length").first().and_then(|length| length.parse().ok());
    let chunked = members("transfer-encoding").iter().any(|coding| coding == "chunked");
    let bodyless = matches!(status, 101 | 204 | 304);
    let body = match () {
        () if bodyless => Vec::new(),
        () if chunked => naive_chunks(&mut rest)?,
        () if has("content-length") => take(&mut rest, length?)?.to_vec(),
        () if ends => std::mem::take(&mut rest).to_vec(),
        () => return None,
    };
    let connection = members("connection");
    let says = |word: &str| connection.iter().any(|option| option == word);
    let by_version = !says("close") && (minor == 1 || says("keep-alive"));
    let one_end = match bodyless {
        true => !has("transfer-encoding") && members("content-length").iter().all(|length| length == "0"),
        false => has("transfer-encoding") != has("content-length"),
    };
    Some(Whole {
        status,
        body,
        used: bytes.len() - rest.len(),
        kept: by_version && one_end && status != 101 && (bodyless || chunked || has("content-length")),
    })
}

/// Names, in lower case, and values.
type Headers = Vec<(String, String)>;

/// Cuts a head off: its minor version, status, and headers.
fn naive_head(rest: &mut &[u8]) -> Option<(u8, u16, Headers)> {
    let mut first = line(rest)?;
    while first.is_empty() {
        first = line(rest)?;
    }
    let text = String::from_utf8_lossy(first);
    let mut words = text.split(' ');
    let minor = words.next()?.strip_prefix("HTTP/1.")?.parse().ok()?;
    let status = words.next()?.parse().ok()?;
    let mut headers = Vec::new();
    loop {
        let header = line(rest)?;
        if header.is_empty() {
            return Some((minor, status, headers));
        }
        let header = String::from_utf8_lossy(header).into_owned();
        let (name, value) = header.split_once(':')?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_string()));
    }
}

fn naive_chunks(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let text = String::from_utf8_lossy(line(rest)?);
        let digits = text.split([';', ' ', '\t']).next()?;
        let size = usize::from_str_radix(digits, 16).ok()?;
        if size == 0 {
            while !line(rest)?.is_empty() {}
            return Some(body);
        }
        body.extend_from_slice(take(rest, size)?);
        take(rest, 2)?;
    }
}

/// Cuts a line off, without its end.
fn line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let line = &rest[..end];
    *rest = &rest[end + 1..];
    Some(line.strip_suffix(b"\r").unwrap_or(line))
}

fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(bytes)?;
    *rest = after;
    Some(taken)
}
