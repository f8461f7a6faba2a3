//! [`Failure`]: what went wrong, as data and as a sentence.

use super::Phase;
use crate::object::Resource;
use crate::time::Duration;
use crate::wire::{Status, WireError, standard_reason};
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

/// Reasons of failures that no Status names.
pub mod reason {
    /// Nobody listens at the address, or it cannot be reached.
    pub const REFUSED: &str = "ConnectionRefused";
    /// The connection broke.
    pub const RESET: &str = "ConnectionReset";
    /// Something did not come in time.
    pub const DEADLINE: &str = "DeadlineExceeded";
    /// What came cannot be read.
    pub const UNDECODABLE: &str = "Undecodable";
    /// One frame or item is over the bound.
    pub const TOO_LARGE: &str = "FrameTooLarge";
    /// A watch ended at once.
    pub const SHORT_WATCH: &str = "ShortWatch";
    /// A cache answered with a state that is older than ours.
    pub const STALE_LIST: &str = "StaleList";
    /// The newest state of the server is older than ours: it was restored from a backup.
    pub const WENT_BACKWARDS: &str = "VersionWentBackwards";
    /// A streaming list did not end with its marker.
    pub const NO_END_MARKER: &str = "StreamingListUnsupported";
}

/// One failed request, ERROR event, deadline, refused list, or object that could not be decoded.
///
/// The informer has dealt with it already; it is told so that someone can see why a cache lags.
///
/// ```text
/// pods in namespace "web": the watch failed (403 Forbidden: user "ci" cannot watch pods); retrying in 3.2 s; grant the
/// verb "watch" on this resource, or narrow the namespace
/// pods: web/a at version 7 cannot be used: missing field `spec` at line 1 column 80; the cache keeps an older version of
/// it, if it had one
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// What the informer reads, and where.
    pub subject: String,
    /// What it was doing: `Listing`, `Streaming` or `Watching`.
    pub phase: Phase,
    /// The status code, of HTTP or of a Status inside a stream; 0 if there is none.
    pub code: u16,
    /// The Status's reason, or the standard one of the code, or one of [`reason`]; may be empty.
    pub reason: String,
    /// What the server or the transport said.
    pub message: String,
    /// How often the same came just before: the same request failed with the same code and reason, and nothing of its
    /// kind worked since. A log may leave repeats out (B053).
    pub repeats: u32,
    /// After which time the next request goes out; `None` if this failure costs no new request.
    pub retry_in: Option<Duration>,
    /// True if no request failed: one object of its answer, or of what was fed, cannot be used, as `message` says, and
    /// does not come into the cache. An older version of it that the cache has stays. Told once for each version.
    pub quarantined: bool,
}

impl Failure {
    /// `list`, `streaming` or `watch`: the phase as scenarios name it.
    pub fn phase_name(&self) -> &'static str {
        match self.phase {
            Phase::Listing => "list",
            Phase::Streaming => "streaming",
            Phase::Idle | Phase::Opening | Phase::Watching | Phase::Backoff | Phase::Stopped => "watch",
        }
    }

    fn advice(&self) -> Option<String> {
        let verb = if self.phase == Phase::Listing { "list" } else { "watch" };
        let text = match (self.code, self.reason.as_str()) {
            (401, _) => "check the token or the client certificate".to_string(),
            (403, _) => format!("grant the verb \"{verb}\" on this resource, or narrow the namespace"),
            (404, _) => {
                // A subject begins with the plural, whose characters end before a group or a namespace.
                check_installed(self.subject.split(['.', ' ']).next().unwrap_or_default())
            }
            (300..=399, _) => {
                "redirects are not followed; check that the server's address is that of an API server".to_string()
            }
            (_, reason::REFUSED) => "check the server's address".to_string(),
            _ => return None,
        };
        Some(text)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.quarantined {
            return write!(
                f,
                "{}: {}; the cache keeps an older version of it, if it had one",
                self.subject, self.message
            );
        }
        let what = if self.phase == Phase::Streaming { "streaming list" } else { self.phase_name() };
        write!(f, "{}: the {what} failed (", self.subject)?;
        if self.code > 0 {
            write!(f, "{}", self.code)?;
        }
        if !self.reason.is_empty() {
            write!(f, "{}{}", if self.code > 0 { " " } else { "" }, self.reason)?;
        }
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        f.write_str(")")?;
        if self.repeats > 0 {
            write!(f, ", {} times in a row", u64::from(self.repeats) + 1)?;
        }
        match self.retry_in {
            Some(Duration::ZERO) => f.write_str("; asking in another way at once")?,
            Some(wait) => {
                let tenths = wait.as_millis().div_ceil(100);
                write!(f, "; retrying in {}.{} s", tenths / 10, tenths % 10)?;
            }
            None => {}
        }
        self.advice().map_or(Ok(()), |advice| write!(f, "; {advice}"))
    }
}

impl fmt::Debug for Failure {
    /// The text of Display: `main` prints errors so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for Failure {}

/// What to do about a path that the server does not serve, for people.
pub fn check_installed(plural: &str) -> String {
    format!(
        "check that the resource is installed, and that its group, version and plural name (here: {plural}) are right"
    )
}

/// `pods`, `pods in namespace "web"`.
pub(crate) fn subject(resource: &Resource, namespace: Option<&str>) -> String {
    match namespace {
        Some(namespace) if resource.namespaced => format!("{resource} in namespace {namespace:?}"),
        _ => resource.to_string(),
    }
}

/// Failures in a row, of lists, streaming lists and watches: what the last one was, and how often it came before.
#[derive(Default)]
pub(super) struct Repeats([Option<(u16, String, u32)>; 3]);

impl Repeats {
    /// How often `fault` came just before.
    pub(super) fn count(&mut self, phase: Phase, fault: &Fault) -> u32 {
        let last = self.of(phase);
        match last {
            Some((code, reason, times)) if *code == fault.code && *reason == fault.reason => {
                *times = times.saturating_add(1);
                *times
            }
            Some(_) | None => {
                *last = Some((fault.code, fault.reason.clone(), 0));
                0
            }
        }
    }

    /// A request of this phase did what it was for.
    pub(super) fn forget(&mut self, phase: Phase) {
        *self.of(phase) = None;
    }

    fn of(&mut self, phase: Phase) -> &mut Option<(u16, String, u32)> {
        let at = match phase {
            Phase::Listing => 0,
            Phase::Streaming => 1,
            Phase::Idle | Phase::Opening | Phase::Watching | Phase::Backoff | Phase::Stopped => 2,
        };
        &mut self.0[at]
    }
}

/// A failure before it is known what follows.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub(super) code: u16,
    pub(super) reason: String,
    pub(super) message: String,
}

impl Fault {
    pub(super) fn new(reason: &str, message: impl fmt::Display) -> Self {
        Fault { code: 0, reason: reason.to_string(), message: message.to_string() }
    }

    pub(super) fn late(what: &str) -> Self {
        Fault::new(reason::DEADLINE, format_args!("nothing came in time: {what}"))
    }

    pub(super) fn status(status: &Status) -> Self {
        let reason =
            if status.reason.is_empty() { standard_reason(status.code).to_string() } else { status.reason.clone() };
        Fault { code: status.code, reason, message: status.message.clone() }
    }

    pub(super) fn wire(error: &WireError) -> Self {
        match error {
            WireError::Status(status) => Fault::status(status),
            WireError::TooLarge { .. } => Fault::new(reason::TOO_LARGE, error),
            WireError::NotJson { .. }
            | WireError::ByteOrderMark
            | WireError::Malformed { .. }
            | WireError::NotAnEvent { .. }
            | WireError::Truncated
            | WireError::TooDeep { .. }
            | WireError::NotAList { .. }
            | WireError::ContentEncoding { .. }
            | WireError::Gzip(_) => Fault::new(reason::UNDECODABLE, error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(phase: Phase, code: u16, reason: &str, message: &str, retry_in: Option<Duration>) -> String {
        let (subject, reason, message) = ("pods".to_string(), reason.to_string(), message.to_string());
        Failure { subject, phase, code, reason, message, repeats: 0, retry_in, quarantined: false }.to_string()
    }

    #[test]
    fn a_failure_that_repeats_says_so() {
        let failure = Failure {
            subject: "pods".into(),
            phase: Phase::Watching,
            code: 405,
            reason: "MethodNotAllowed".into(),
            message: String::new(),
            repeats: 2,
            retry_in: Some(Duration::from_secs(30)),
            quarantined: false,
        };
        assert_eq!(
            failure.to_string(),
            "pods: the watch failed (405 MethodNotAllowed), 3 times in a row; retrying in 30.0 s"
        );
    }

    #[test]
    fn repeats_are_counted_for_each_kind_of_request_until_it_works() {
        let mut repeats = Repeats::default();
        let (no, late) = (Fault { code: 403, ..Fault::new("Forbidden", "no") }, Fault::late("it"));
        assert_eq!([&no, &no, &no].map(|fault| repeats.count(Phase::Listing, fault)), [0, 1, 2]);
        assert_eq!([&no, &late, &no].map(|fault| repeats.count(Phase::Opening, fault)), [0, 0, 0]);
        assert_eq!((repeats.count(Phase::Watching, &no), repeats.count(Phase::Streaming, &no)), (1, 0));
        repeats.forget(Phase::Watching);
        assert_eq!((repeats.count(Phase::Watching, &no), repeats.count(Phase::Listing, &no)), (0, 3));
    }

    #[test]
    fn a_resource_that_is_not_found_is_told_with_the_plural_that_was_asked_for() {
        for (resource, namespace) in [
            (Resource::namespaced("example.com", "v1", "widget", "Widget"), Some("web")),
            (Resource::namespaced("", "v1", "widget", "Widget"), Some("web")),
            (Resource::namespaced("", "v1", "widget", "Widget"), None),
        ] {
            let subject = subject(&resource, namespace);
            let failure = Failure {
                subject,
                phase: Phase::Listing,
                code: 404,
                reason: "NotFound".into(),
                message: String::new(),
                repeats: 0,
                retry_in: None,
                quarantined: false,
            };
            let failure = failure.to_string();
            let advice = "; check that the resource is installed, and that its group, version and plural name \
                          (here: widget) are right";
            assert!(failure.ends_with(advice), "{failure}");
        }
    }

    #[test]
    fn a_failure_reads_as_a_sentence_whatever_it_lacks() {
        let wait = Some(Duration::from_millis(3_140));
        assert_eq!(
            sentence(Phase::Watching, 403, "Forbidden", "no", wait),
            "pods: the watch failed (403 Forbidden: no); retrying in 3.2 s; grant the verb \"watch\" on this resource, or \
             narrow the namespace"
        );
        assert_eq!(
            sentence(Phase::Listing, 502, "", "<html>", wait),
            "pods: the list failed (502: <html>); retrying in 3.2 s"
        );
        assert_eq!(sentence(Phase::Opening, 0, reason::SHORT_WATCH, "", None), "pods: the watch failed (ShortWatch)");
        assert_eq!(
            sentence(Phase::Listing, 302, "", "", None),
            "pods: the list failed (302); redirects are not followed; check that the server's address is that of an API \
             server"
        );
    }

    #[test]
    fn an_object_that_is_left_out_is_not_told_as_a_request_that_failed() {
        let failure = Failure {
            subject: "pods".into(),
            phase: Phase::Streaming,
            code: 0,
            reason: reason::UNDECODABLE.into(),
            message: "web/a at version 7 cannot be used: missing field `spec`".into(),
            repeats: 0,
            retry_in: None,
            quarantined: true,
        };
        assert_eq!(
            failure.to_string(),
            "pods: web/a at version 7 cannot be used: missing field `spec`; the cache keeps an older version of it, \
             if it had one"
        );
    }

    #[test]
    fn a_streaming_list_that_gives_way_to_pages_does_not_speak_of_a_wait() {
        assert_eq!(
            sentence(Phase::Streaming, 500, "InternalError", "", Some(Duration::ZERO)),
            "pods: the streaming list failed (500 InternalError); asking in another way at once"
        );
    }
}
