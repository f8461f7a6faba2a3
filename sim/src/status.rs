//! [`Status`]: the error body of the API, one constructor for each row of the wire table (W2–W16).

use informer_core::Resource;
use serde::Serialize;
use std::borrow::Cow;
use std::fmt;

/// Why a request was refused, as the API says it.
#[derive(Clone, PartialEq, Eq)]
pub struct Status {
    code: u16,
    reason: &'static str,
    message: String,
    details: Option<Box<Details>>,
    resume: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Details {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) causes: Vec<Cause>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry_after_seconds: Option<u32>,
}

/// One field that is wrong, or one finer reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Cause {
    reason: &'static str,
    message: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    field: Cow<'static, str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Wire<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: ListMeta<'a>,
    status: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<&'a Details>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u16>,
}

#[derive(Serialize)]
struct ListMeta<'a> {
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    resume: Option<&'a str>,
}

impl Cause {
    fn new(reason: &'static str, field: impl Into<Cow<'static, str>>, message: String) -> Self {
        Cause { reason, message, field: field.into() }
    }

    pub(crate) fn forbidden(field: &'static str, why: impl fmt::Display) -> Self {
        Cause::new("FieldValueForbidden", field, format!("Forbidden: {why}"))
    }

    /// `value` as JSON.
    pub(crate) fn unsupported(field: &'static str, value: impl fmt::Display, supported: &str) -> Self {
        let message = format!("Unsupported value: {value}: supported values: {supported}");
        Cause::new("FieldValueNotSupported", field, message)
    }

    pub(crate) fn required(field: &'static str, why: &str) -> Self {
        Cause::new("FieldValueRequired", field, format!("Required value: {why}").trim_end().into())
    }

    pub(crate) fn invalid(
        field: impl Into<Cow<'static, str>>,
        value: impl fmt::Display,
        why: impl fmt::Display,
    ) -> Self {
        Cause::new("FieldValueInvalid", field, format!("Invalid value: {value}: {why}"))
    }

    pub(crate) fn too_long(field: &'static str, bytes: usize) -> Self {
        Cause::new("FieldValueTooLong", field, format!("Too long: may not be more than {bytes} bytes"))
    }
}

impl Status {
    /// The HTTP status.
    pub fn code(&self) -> u16 {
        self.code
    }

    /// The machine-readable reason; empty for some errors of the server itself.
    pub fn reason(&self) -> &str {
        self.reason
    }

    /// The message for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Status { code, reason, message: message.into(), details: None, resume: None }
    }

    fn with(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Status::new(400, "BadRequest", message)
    }

    /// An error without a reason, as one that the server did not expect.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Status::new(500, "", message)
    }

    pub(crate) fn unauthorized() -> Self {
        Status::new(401, "Unauthorized", "Unauthorized")
    }

    /// The resource does not exist; an object that does not is [`Status::missing`].
    pub(crate) fn not_found() -> Self {
        Status::new(404, "NotFound", "the server could not find the requested resource").with(Details::default())
    }

    /// The same, for who holds the server in hand.
    pub(crate) fn unregistered(resource: &Resource) -> Self {
        Status::new(404, "NotFound", format!("{resource} is not served: Server::register it first"))
    }

    pub(crate) fn method_not_allowed() -> Self {
        Status::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
            .with(Details::default())
    }

    pub(crate) fn missing(of: &Named) -> Self {
        Status::new(404, "NotFound", format!("{of} not found")).with(of.details())
    }

    /// `dying` says that it is marked for deletion.
    pub(crate) fn exists(of: &Named, dying: bool) -> Self {
        let but = if dying { "object is being deleted: " } else { "" };
        Status::new(409, "AlreadyExists", format!("{but}{of} already exists")).with(of.details())
    }

    pub(crate) fn forbidden(of: &Named, why: &str) -> Self {
        Status::new(403, "Forbidden", format!("{of} is forbidden: {why}")).with(of.details())
    }

    pub(crate) fn conflict(of: &Named, why: impl fmt::Display) -> Self {
        Status::new(409, "Conflict", format!("Operation cannot be fulfilled on {of}: {why}")).with(of.details())
    }

    pub(crate) fn modified(of: &Named) -> Self {
        Status::conflict(
            of,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub(crate) fn invalid(of: &Named, causes: Vec<Cause>) -> Self {
        // The message says nothing twice, the causes do.
        let mut list: Vec<String> = Vec::with_capacity(causes.len());
        for cause in &causes {
            let line = format!("{}: {}", cause.field, cause.message);
            if !list.contains(&line) {
                list.push(line);
            }
        }
        let all = if list.len() == 1 { list.remove(0) } else { format!("[{}]", list.join(", ")) };
        Status::new(422, "Invalid", format!("{of} is invalid: {all}")).with(Details { causes, ..of.details() })
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Status::new(410, "Expired", message)
    }

    /// W4: an expired continue token, and one that goes on at the latest version.
    pub(crate) fn page_expired(resume: String) -> Self {
        let mut status = Status::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list \
             without the continue parameter, or use the continue token in this response to retrieve the remainder of \
             the results. Continuing with the provided token results in an inconsistent list - objects that were \
             created, modified, or deleted between the time the first chunk was returned and now may show up in the \
             list.",
        );
        status.resume = Some(resume);
        status
    }

    /// W5 and W6: a version that this server has not reached.
    pub(crate) fn too_large(wanted: u64, current: u64) -> Self {
        Status::new(504, "Timeout", format!("Timeout: Too large resource version: {wanted}, current: {current}")).with(
            Details {
                causes: vec![Cause {
                    reason: "ResourceVersionTooLarge",
                    message: "Too large resource version".into(),
                    field: "".into(),
                }],
                retry_after_seconds: Some(1),
                ..Details::default()
            },
        )
    }

    pub(crate) fn retry_after(&self) -> Option<u32> {
        self.details.as_ref().and_then(|details| details.retry_after_seconds)
    }

    /// The JSON text, without a newline.
    pub(crate) fn json(&self) -> String {
        let wire = Wire {
            kind: "Status",
            api_version: "v1",
            metadata: ListMeta { resume: self.resume.as_deref() },
            status: "Failure",
            message: &self.message,
            reason: self.reason,
            details: self.details.as_deref(),
            code: Some(self.code),
        };
        serde_json::to_string(&wire).expect("strings and numbers are always JSON")
    }

    /// The answer to a deletion.
    pub(crate) fn success(of: &Named, uid: &str) -> String {
        let details = Details { uid: uid.into(), ..of.details() };
        let wire = Wire {
            kind: "Status",
            api_version: "v1",
            metadata: ListMeta { resume: None },
            status: "Success",
            message: "",
            reason: "",
            details: Some(&details),
            code: None,
        };
        serde_json::to_string(&wire).expect("strings and numbers are always JSON")
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for Status {
    /// The text of Display: `main` prints errors so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Status {}

/// An object as error messages name it: `deployments.apps "front"`.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) name: String,
}

impl Named {
    fn details(&self) -> Details {
        Details { name: self.name.clone(), group: self.group.clone(), kind: self.kind.clone(), ..Details::default() }
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.group.is_empty() { "" } else { "." };
        write!(f, "{}{dot}{} {:?}", self.kind, self.group, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_those_of_the_real_server() {
        let named = Named { group: "apps".into(), kind: "deployments".into(), name: "d".into() };
        assert_eq!(
            Status::missing(&named).json(),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"deployments.apps \"d\" not found","reason":"NotFound","details":{"name":"d","group":"apps","kind":"deployments"},"code":404}"#
        );
        assert_eq!(
            Status::too_large(99, 7).json(),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Timeout: Too large resource version: 99, current: 7","reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1},"code":504}"#
        );
        assert_eq!(
            Status::success(&named, "u"),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"d","group":"apps","kind":"deployments","uid":"u"}}"#
        );
        assert_eq!(
            Status::method_not_allowed().json(),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server does not allow this method on the requested resource","reason":"MethodNotAllowed","details":{},"code":405}"#
        );
    }

    #[test]
    fn a_status_that_main_returns_is_printed_in_words() {
        let named = Named { group: "apps".into(), kind: "deployments".into(), name: "d".into() };
        assert_eq!(format!("{:?}", Status::missing(&named)), "deployments.apps \"d\" not found");
    }

    #[test]
    fn several_causes_stand_in_brackets() {
        let named = Named { group: "meta.k8s.io".into(), kind: "ListOptions".into(), name: String::new() };
        let causes = vec![Cause::forbidden("a", "no"), Cause::required("b", "")];
        assert_eq!(
            Status::invalid(&named, causes).message(),
            r#"ListOptions.meta.k8s.io "" is invalid: [a: Forbidden: no, b: Required value:]"#
        );
    }
}
