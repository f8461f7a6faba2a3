//! The reflector's constants: each with its reason, each can be changed.

use crate::time::Duration;

/// What an informer's [`Deadline`](crate::time::Deadline) is for: its `why`. Every state but an idle and a stopped one, a
/// list on its way into the store and a body that we do not read ourselves waits for one of these at all times.
pub mod why {
    /// The connection of a request must stand: [`connect`](super::Tuning::connect) after the sending.
    pub const CONNECTING: &str = "connecting";
    /// The head of an answer must be there: [`list_head`](super::Tuning::list_head) or
    /// [`watch_head`](super::Tuning::watch_head) after the sending.
    pub const HEAD: &str = "head of an answer";
    /// A byte of an open body must come: [`list_silence`](super::Tuning::list_silence) or
    /// [`watch_silence`](super::Tuning::watch_silence) after the last one.
    pub const SILENCE: &str = "silence of a body";
    /// The server should have ended a watch by itself: [`watch_grace`](super::Tuning::watch_grace) after the time that it
    /// was asked for. A streaming list that was not complete by then has failed.
    pub const END_OF_WATCH: &str = "end of a watch";
    /// The body of a failed request counts as read: [`error_body`](super::Tuning::error_body) after its head.
    pub const ERROR_BODY: &str = "body of a failure";
    /// The wait before the next request is over.
    pub const BACKOFF: &str = "backoff";
    /// A watch was without news for [`version_probe`](super::Tuning::version_probe).
    pub const PROBE: &str = "version probe";
    /// The answer to a version probe must be complete: `list_head` and `list_silence` after the sending, together.
    pub const END_OF_PROBE: &str = "end of a version probe";
    /// A handler's resync period is over.
    pub const RESYNC: &str = "resync";

    /// All of them.
    pub const ALL: [&str; 9] =
        [CONNECTING, HEAD, SILENCE, END_OF_WATCH, ERROR_BODY, BACKOFF, PROBE, END_OF_PROBE, RESYNC];
}

/// Waits and bounds of a reflector. The defaults are right for a real cluster; a test may shorten them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tuning {
    /// First step of the backoff: client-go's.
    pub backoff: Duration,
    /// Largest step: an outage of the server costs it two requests a minute from each informer.
    pub backoff_cap: Duration,
    /// Largest step after refused connections: they cost the server nothing, so we are back soon after it is.
    pub refused_cap: Duration,
    /// The most that a `Retry-After` can ask for: a server that says "in a year" is mistaken.
    pub retry_after_cap: Duration,
    /// Until a connection stands.
    pub connect: Duration,
    /// Until the head of a list: a busy server computes it first.
    pub list_head: Duration,
    /// Until the head of a watch: servers send it before the first event, proxies may hold it back (B008).
    pub watch_head: Duration,
    /// Silence inside a list, a streaming list or its head.
    pub list_silence: Duration,
    /// Silence of a watch before it is opened again: bookmarks come about once a minute, two may be missed.
    pub watch_silence: Duration,
    /// How long a watch may be without an event or bookmark, over however many streams, before the server is asked for
    /// its newest version (C25). One that was set back to an older backup accepts a watch from the future and is silent
    /// until it has got there again; a list of one object every 10 minutes is little to find that out. A stream
    /// that was just opened has `short_watch` before it is given up for this; `Duration::MAX` is never.
    pub version_probe: Duration,
    /// How far the wall clock must run ahead of ours for a suspend of the machine, in which ours stood still: longer than
    /// a clock that is set right is wrong, as a rule, and than any peer waits. An open watch is opened anew.
    pub suspend: Duration,
    /// What the body of a failed request may take; the status code alone says enough.
    pub error_body: Duration,
    /// How long after its `timeoutSeconds` a watch is closed from our side.
    pub watch_grace: Duration,
    /// A watch that ends sooner, without an event, was refused in fact.
    pub short_watch: Duration,
    /// The least time between two requests of which the first ended well and soon.
    pub pace: Duration,
    /// A watch that was open this long was healthy: the backoff begins anew.
    pub healthy_watch: Duration,
    /// Short watches in a row after which the state is listed again.
    pub short_watches: u32,
    /// Internal errors in a row after which the state is listed again.
    pub internal_errors: u32,
    /// Streaming lists without an end marker after which lists are paged for good.
    pub streaming_tries: u32,
    /// Silent streams without any bookmark after which a server is believed to send none.
    pub unbookmarked_streams: u32,
    /// Pages of one list, against a server that never ends.
    pub pages: u32,
}

impl Default for Tuning {
    fn default() -> Self {
        let (ms, s) = (Duration::from_millis, Duration::from_secs);
        Tuning {
            backoff: ms(800),
            backoff_cap: s(30),
            refused_cap: s(3),
            retry_after_cap: s(60),
            connect: s(10),
            list_head: s(60),
            watch_head: s(30),
            list_silence: s(60),
            watch_silence: s(150),
            version_probe: s(600),
            suspend: s(5),
            error_body: s(5),
            watch_grace: s(10),
            short_watch: s(1),
            pace: ms(800),
            healthy_watch: s(60),
            short_watches: 3,
            internal_errors: 5,
            streaming_tries: 3,
            unbookmarked_streams: 2,
            pages: 100_000,
        }
    }
}
