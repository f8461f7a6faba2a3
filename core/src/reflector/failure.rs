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
/// verb "watch" on pods, or narrow the namespace
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// After which time the next request goes out; `None` if this failure costs no new request.
    pub retry_in: Option<Duration>,
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
            (404, _) => "check that the resource is installed and its group and version are right".to_string(),
            (_, reason::REFUSED) => "check the server's address".to_string(),
            _ => return None,
        };
        Some(text)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: the {} failed (", self.subject, self.phase_name())?;
        if self.code > 0 {
            write!(f, "{} ", self.code)?;
        }
        write!(f, "{}", self.reason)?;
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        f.write_str(")")?;
        if let Some(wait) = self.retry_in {
            match wait.as_millis().div_ceil(100) {
                0 => f.write_str("; retrying at once")?,
                tenths => write!(f, "; retrying in {}.{} s", tenths / 10, tenths % 10)?,
            }
        }
        self.advice().map_or(Ok(()), |advice| write!(f, "; {advice}"))
    }
}

impl core::error::Error for Failure {}

/// `pods`, `pods in namespace "web"`.
pub(crate) fn subject(resource: &Resource, namespace: Option<&str>) -> String {
    match namespace {
        Some(namespace) if resource.namespaced => format!("{resource} in namespace {namespace:?}"),
        _ => resource.to_string(),
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

    #[test]
    fn a_wait_is_shown_in_tenths_of_a_second_and_none_as_at_once() {
        let shown = |millis| {
            let failure = Failure {
                subject: "pods".to_string(),
                phase: Phase::Streaming,
                code: 500,
                reason: "InternalError".to_string(),
                message: String::new(),
                retry_in: Some(Duration::from_millis(millis)),
            };
            failure.to_string()
        };
        for (millis, wait) in [(0, "at once"), (1, "in 0.1 s"), (3_150, "in 3.2 s")] {
            let end = format!("failed (500 InternalError); retrying {wait}");
            assert!(shown(millis).ends_with(&end), "{}", shown(millis));
        }
    }
}
