//! From kube-rs' words to those of an outcome.

use informer_conformance::outcome::{ErrorEntry, ErrorPhase};
use kube::core::DynamicObject;
use kube::runtime::watcher::Error;
use kube::{ResourceExt, core::Status};

/// `namespace/name`, or the name of a cluster-scoped object.
pub(crate) fn key(object: &DynamicObject) -> String {
    match object.namespace() {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    }
}

/// What a watcher's error item says. `listing` is the phase of a list under the scenario's strategy.
pub(crate) fn error(at_ms: u64, listing: ErrorPhase, error: &Error) -> ErrorEntry {
    let (phase, (code, reason)) = match error {
        Error::InitialListFailed(inner) => (listing, told(inner)),
        Error::WatchStartFailed(inner) | Error::WatchFailed(inner) => (ErrorPhase::Watch, told(inner)),
        Error::WatchError(status) => (ErrorPhase::Watch, of(status)),
        Error::NoResourceVersion => (listing, (0, "Undecodable".to_owned())),
    };
    ErrorEntry { at_ms, phase, code, reason, message: error.to_string() }
}

fn of(status: &Status) -> (u16, String) {
    let code = status.code;
    (code, if status.reason.is_empty() { standard(code).to_owned() } else { status.reason.clone() })
}

/// The reason that stands for a code where a Status has none.
fn standard(code: u16) -> &'static str {
    match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Gone",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "",
    }
}

fn told(error: &kube::Error) -> (u16, String) {
    #[allow(clippy::wildcard_enum_match_arm)] // the rest is of the connection
    match error {
        kube::Error::Api(status) => of(status),
        kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => (0, "Undecodable".to_owned()),
        other => {
            let refused = format!("{other:?}").contains(REFUSED);
            (0, if refused { "ConnectionRefused" } else { "ConnectionReset" }.to_owned())
        }
    }
}

/// What the text of an error holds if the scripted server refused the connection.
const REFUSED: &str = "the script refuses";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_without_a_reason_gets_that_of_its_code() {
        let status = Status { code: 410, ..Status::default() };
        let entry = error(5, ErrorPhase::List, &Error::WatchError(Box::new(status)));
        assert_eq!((entry.phase, entry.code, entry.reason.as_str()), (ErrorPhase::Watch, 410, "Gone"));
    }

    #[test]
    fn a_refused_connection_is_told_from_a_torn_one() {
        let service = |text: &str| kube::Error::Service(text.to_owned().into());
        assert_eq!(told(&service("the script refuses this list")).1, "ConnectionRefused");
        assert_eq!(told(&service("connection closed")).1, "ConnectionReset");
    }
}
