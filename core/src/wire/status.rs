//! [`Status`]: how the API server says no.
//!
//! It comes as the body of a failed request, or inside an ERROR frame of a watch that began well (C18). Proxies, load
//! balancers and overloaded servers answer without one; then it is made from the status code (W10, W15, W17).
//!
//! ```
//! use informer_core::wire::Status;
//!
//! let expired = Status::from_json(br#"{"kind":"Status","reason":"Expired","message":"too old","code":410}"#).unwrap();
//! assert!(expired.is_expired());
//! assert_eq!(expired.to_string(), "410 Expired: too old");
//!
//! let plain = Status::from_response(404, b"404 page not found\n");
//! assert_eq!(plain.to_string(), "404 NotFound: 404 page not found");
//! ```

use super::excerpt::{clip, excerpt};
use alloc::string::String;
use core::fmt;
use core::time::Duration;
use serde_json::Value;

/// What a message and a name are cut to, in bytes: the longest that a server writes lists a few hundred causes.
const MESSAGE_BYTES: usize = 4096;

/// What a reason is cut to, in bytes: it is one word.
const REASON_BYTES: usize = 200;

/// What old servers say in place of the cause `ResourceVersionTooLarge` (W5).
const TOO_LARGE_VERSION: &str = "Too large resource version";

/// Why the server refused, in its own words.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// The status code; 0 if the server did not say.
    pub code: u16,
    /// One word for programs, as in `Expired`; empty if the server did not say.
    pub reason: String,
    /// A sentence for people; at most 4 KiB.
    pub message: String,
    /// `details.retryAfterSeconds`, if it is more than 0. The server's wish, without a cap.
    pub retry_after: Option<Duration>,
    /// True if one of `details.causes` says that the requested version lies in the future.
    pub too_large_version: bool,
    /// `details.name`: the object that it is about; empty if it names none. At most 4 KiB.
    pub object: String,
}

impl Status {
    /// Reads a Status. Each missing, null or odd field counts as absent; `code` may be a text. `None` if this is no
    /// JSON object, is of another kind, or has neither kind nor any field of a Status (B032).
    pub fn from_json(json: &[u8]) -> Option<Status> {
        let value: Value = serde_json::from_slice(json).ok()?;
        let object = value.as_object()?;
        let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or("");
        let code = object.get("code").and_then(number).unwrap_or(0);
        let known = match object.get("kind") {
            Some(Value::String(kind)) => kind == "Status",
            None | Some(_) => {
                code != 0 || !text("reason").is_empty() || matches!(text("status"), "Failure" | "Success")
            }
        };
        if !known {
            return None;
        }
        let details = object.get("details");
        let retry_after = details.and_then(|details| details.get("retryAfterSeconds")).and_then(number);
        let causes = details.and_then(|details| details.get("causes")).and_then(Value::as_array);
        let is_too_large = |cause: &Value| {
            let field = |name| cause.get(name).and_then(Value::as_str).unwrap_or("");
            field("reason") == "ResourceVersionTooLarge"
                || text("reason") == "Timeout" && field("message").contains(TOO_LARGE_VERSION)
        };
        let mut status = Status {
            code: u16::try_from(code).unwrap_or(0),
            reason: text("reason").into(),
            message: text("message").into(),
            retry_after: retry_after.filter(|&seconds| seconds > 0).map(seconds),
            too_large_version: causes.is_some_and(|causes| causes.iter().any(is_too_large)),
            object: details.and_then(|details| details.get("name")).and_then(Value::as_str).unwrap_or("").into(),
        };
        clip(&mut status.reason, REASON_BYTES);
        clip(&mut status.message, MESSAGE_BYTES);
        clip(&mut status.object, MESSAGE_BYTES);
        Some(status)
    }

    /// What an answer with a failing status code says. If the body is no Status, the message is the beginning of the
    /// body and the reason is the [standard one](standard_reason) of the code; the body may be cut.
    pub fn from_response(http_code: u16, body: &[u8]) -> Status {
        let mut status =
            Status::from_json(body).unwrap_or_else(|| Status { message: excerpt(body), ..Status::default() });
        // The status line is what intermediaries saw too; a Status that claims success under it says nothing.
        if status.code < 400 {
            status.code = http_code;
        }
        if status.reason.is_empty() {
            status.reason = standard_reason(status.code).into();
        }
        status
    }

    /// True if the version or token that was asked for is no longer there: code 410, or reason `Expired` or `Gone` (W2
    /// to W4).
    pub fn is_expired(&self) -> bool {
        self.code == 410 || self.reason == "Expired" || self.reason == "Gone"
    }

    /// True if there is no object `name`: code 404, reason `NotFound`, and [`object`](Self::object) is that name. A path that
    /// the server does not serve, as that of a resource that is not installed, is answered with the code alone, a text, or
    /// a Status that names nothing (W15); what is missing can be another object, too, as the namespace of a new one.
    pub fn is_missing(&self, name: &str) -> bool {
        self.code == 404 && self.reason == "NotFound" && !name.is_empty() && self.object == name
    }

    /// True if the version that was asked for lies in the future of this server, in each of the forms that servers
    /// use (W5). Another timeout (W12) is none.
    pub fn is_too_large_version(&self) -> bool {
        self.too_large_version || self.message.contains(TOO_LARGE_VERSION)
    }
}

/// A whole number, or a text that is one.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// A span of whole seconds that cannot overflow what is later added to it.
pub(crate) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds.min(u64::from(u32::MAX)))
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.reason.as_str()) {
            (0, "") => f.write_str("an error without code and reason")?,
            (0, reason) => f.write_str(reason)?,
            (code, "") => write!(f, "{code}")?,
            (code, reason) => write!(f, "{code} {reason}")?,
        }
        if self.message.is_empty() { Ok(()) } else { write!(f, ": {}", self.message) }
    }
}

impl fmt::Debug for Status {
    /// The text of Display: `main` prints errors so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for Status {}

/// The reason that the API server gives for a status code; empty if it has none, as for 502, which only proxies send.
pub fn standard_reason(code: u16) -> &'static str {
    match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        406 => "NotAcceptable",
        409 => "Conflict",
        410 => "Gone",
        413 => "RequestEntityTooLarge",
        415 => "UnsupportedMediaType",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::ToString;

    fn read(json: &str) -> Status {
        Status::from_json(json.as_bytes()).expect(json)
    }

    /// W2 to W16: each row as the server writes it, and what we make of it.
    #[test]
    fn each_row_of_the_wire_table_is_understood() {
        struct Row(&'static str, u16, &'static str, &'static str, bool, bool, Option<u64>);
        #[rustfmt::skip]
        let rows = [
            Row("W2", 200, r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 100 (110)","reason":"Expired","code":410}"#, "410 Expired: too old resource version: 100 (110)", true, false, None),
            Row("W2, up to 1.17", 200, r#"{"kind":"Status","reason":"Gone","code":410}"#, "410 Gone", true, false, None),
            Row("W3", 410, r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"The resourceVersion for the provided list is too old.","reason":"Expired","code":410}"#, "410 Expired: The resourceVersion for the provided list is too old.", true, false, None),
            Row("W4", 410, r#"{"kind":"Status","metadata":{"continue":"abc"},"reason":"Expired","code":410}"#, "410 Expired", true, false, None),
            Row("W5", 504, r#"{"kind":"Status","message":"Timeout: Too large resource version: 9, current: 5","reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1},"code":504}"#, "504 Timeout: Timeout: Too large resource version: 9, current: 5", false, true, Some(1)),
            Row("W5, no cause type", 504, r#"{"kind":"Status","reason":"Timeout","details":{"causes":[{"message":"Too large resource version"}]},"code":504}"#, "504 Timeout", false, true, None),
            Row("W5, message only", 504, r#"{"kind":"Status","message":"Too large resource version: 9","code":504}"#, "504 Timeout: Too large resource version: 9", false, true, None),
            Row("W7", 422, r#"{"kind":"Status","reason":"Invalid","details":{"causes":[{"reason":"FieldValueForbidden","field":"sendInitialEvents"}]},"code":422}"#, "422 Invalid", false, false, None),
            Row("W8", 400, r#"{"kind":"Status","reason":"BadRequest","code":400}"#, "400 BadRequest", false, false, None),
            Row("W8, a watch", 500, r#"{"kind":"Status","reason":"","code":500}"#, "500 InternalError", false, false, None),
            Row("W9", 429, r#"{"kind":"Status","reason":"TooManyRequests","details":{"retryAfterSeconds":30},"code":429}"#, "429 TooManyRequests", false, false, Some(30)),
            Row("W10", 429, "Too many requests, please try again later.", "429 TooManyRequests: Too many requests, please try again later.", false, false, None),
            Row("W11, text", 429, "The apiserver is shutting down, please try again later.", "429 TooManyRequests: The apiserver is shutting down, please try again later.", false, false, None),
            Row("W11", 503, r#"{"kind":"Status","reason":"ServiceUnavailable","code":503}"#, "503 ServiceUnavailable", false, false, None),
            Row("W12", 504, r#"{"kind":"Status","reason":"Timeout","message":"request did not complete within the allotted timeout","code":504}"#, "504 Timeout: request did not complete within the allotted timeout", false, false, None),
            Row("W13", 500, r#"{"kind":"Status","reason":"ServerTimeout","details":{"retryAfterSeconds":2},"code":500}"#, "500 ServerTimeout", false, false, Some(2)),
            Row("W14", 403, r#"{"kind":"Status","reason":"Forbidden","message":"pods is forbidden","code":403}"#, "403 Forbidden: pods is forbidden", false, false, None),
            Row("W15", 404, "404 page not found\n", "404 NotFound: 404 page not found", false, false, None),
            Row("W14, no token", 401, r#"{"kind":"Status","reason":"Unauthorized","message":"Unauthorized","code":401}"#, "401 Unauthorized: Unauthorized", false, false, None),
            Row("W16, type", 415, r#"{"kind":"Status","reason":"UnsupportedMediaType","code":415}"#, "415 UnsupportedMediaType", false, false, None),
            Row("W16", 406, "", "406 NotAcceptable", false, false, None),
            Row("W17", 502, "<html>\r\n<h1>502</h1>", "502: <html>\\r\\n<h1>502</h1>", false, false, None),
            Row("W17, empty", 500, "", "500 InternalError", false, false, None),
        ];
        for Row(row, code, body, text, expired, too_large, retry) in rows {
            let status = Status::from_response(code, body.as_bytes());
            assert_eq!(status.to_string(), text, "{row}");
            assert_eq!(status.is_expired(), expired, "{row}");
            assert_eq!(status.is_too_large_version(), too_large, "{row}");
            assert_eq!(status.retry_after, retry.map(Duration::from_secs), "{row}");
        }
    }

    #[test]
    fn missing_and_odd_fields_count_as_absent() {
        assert_eq!(read(r#"{"kind":"Status"}"#), Status::default());
        assert_eq!(
            read(r#"{"kind":"Status","code":null,"details":null,"message":null,"reason":7}"#),
            Status::default()
        );
        assert_eq!(read(r#"{"status":"Failure"}"#), Status::default());
        assert_eq!(read(r#"{"kind":null,"code":"410"}"#).code, 410);
        assert_eq!(read(r#"{"kind":"Status","code":-1}"#).code, 0);
        assert_eq!(read(r#"{"kind":"Status","code":99999}"#).code, 0);
        for odd in ["0", "-1", "1.5", "\"soon\"", "[]"] {
            let json = format!(r#"{{"kind":"Status","details":{{"retryAfterSeconds":{odd},"causes":[null,3]}}}}"#);
            assert_eq!(read(&json), Status::default(), "{odd}");
        }
    }

    #[test]
    fn only_a_status_that_names_the_object_says_that_it_is_missing() {
        let missing = |code, body: &str| Status::from_response(code, body.as_bytes()).is_missing("a");
        assert!(missing(
            404,
            r#"{"kind":"Status","reason":"NotFound","details":{"name":"a","kind":"pods"},"code":404}"#
        ));
        for body in [
            "404 page not found\n",
            "",
            "a",
            r#"{"kind":"Status","reason":"NotFound","details":{},"code":404}"#,
            r#"{"kind":"Status","reason":"NotFound","code":404}"#,
            r#"{"kind":"Status","reason":"NotFound","details":{"name":"b","kind":"namespaces"},"code":404}"#,
            r#"{"kind":"Status","reason":"Expired","details":{"name":"a"},"code":404}"#,
            r#"{"kind":"Status","reason":"NotFound","details":{"name":"a"},"code":410}"#,
        ] {
            assert!(!missing(404, body), "{body}");
        }
        assert!(!Status::from_response(404, b"{\"kind\":\"Status\",\"reason\":\"NotFound\"}").is_missing(""));
    }

    #[test]
    fn other_things_are_no_status() {
        for json in ["", "null", "[]", "{}", "404 page not found", r#"{"kind":"Pod","code":410}"#, r#"{"a":1}"#] {
            assert_eq!(Status::from_json(json.as_bytes()), None, "{json}");
        }
    }

    #[test]
    fn the_status_line_fills_in_what_the_body_does_not_say() {
        let status = Status::from_response(410, br#"{"kind":"Status","status":"Success","code":200}"#);
        assert_eq!((status.code, status.reason.as_str()), (410, "Gone"));
        let status = Status::from_response(504, br#"{"status":"Failure","message":"x"}"#);
        assert_eq!(status.to_string(), "504 Timeout: x");
    }

    #[test]
    fn texts_are_bounded() {
        let (reason, long) = ("r".repeat(999), "m".repeat(9999));
        let body =
            format!(r#"{{"kind":"Status","reason":"{reason}","message":"{long}","details":{{"name":"{long}"}}}}"#);
        let status = read(&body);
        assert_eq!(status.object.len(), MESSAGE_BYTES + "…".len());
        assert_eq!(status.reason.len(), REASON_BYTES + "…".len());
        assert_eq!(status.message.len(), MESSAGE_BYTES + "…".len());
        let html = Status::from_response(502, "x".repeat(1 << 20).as_bytes());
        assert_eq!(html.message.len(), 200 + "…".len());
    }

    #[test]
    fn display_never_is_empty() {
        assert_eq!(Status::default().to_string(), "an error without code and reason");
        assert_eq!(Status { reason: "Expired".into(), ..Status::default() }.to_string(), "Expired");
    }
}
