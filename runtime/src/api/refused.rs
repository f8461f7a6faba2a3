//! [`ApiError`]: that the server refused one call, and which.
//!
//! ```
//! use informer_core::{Key, Resource};
//! use informer_runtime::api::{ApiError, ApiRequest, DeleteOptions};
//!
//! let widgets = Resource::namespaced("example.com", "v1", "widgets", "Widget");
//! let delete = ApiRequest::delete(&widgets, &Key::new("web", "a"), DeleteOptions::default())?;
//! let error = ApiError::from_response(&delete, 404, b"404 page not found\n");
//! assert!(!error.is_not_found(), "nobody knows whether there is such an object");
//! assert_eq!(
//!     error.to_string(),
//!     "DELETE /apis/example.com/v1/namespaces/web/widgets/a: the API server refused: 404 NotFound: 404 page not found; \
//!      check that the resource is installed, and that its group, version and plural name (here: widgets) are right",
//! );
//! # Ok::<(), informer_runtime::Error>(())
//! ```

use super::ApiRequest;
use informer_core::reflector::check_installed;
use informer_core::wire::Status;
use std::fmt;

/// The API server said no to one call.
///
/// `Debug` is the text of `Display`, which holds all of the [`status`](Self::status).
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApiError {
    /// What was asked, as in `GET /api/v1/pods`.
    pub request: String,
    /// What the server said.
    pub status: Status,
    /// The object that was asked for; empty if it was to be made.
    name: String,
    advice: Option<String>,
}

impl ApiError {
    /// The answer to `request` was `status`.
    pub fn new(request: &ApiRequest, status: Status) -> Self {
        let advice = (status.code == 404 && status.object.is_empty()).then(|| {
            let mut advice = check_installed(&request.resource.plural);
            if !request.subresource.is_empty() {
                advice += &format!("; not every resource has the subresource {:?}", request.subresource);
            }
            advice
        });
        ApiError { request: request.describe(), status, name: request.name.clone(), advice }
    }

    /// The answer to `request` was this; the body need not be a Status.
    pub fn from_response(request: &ApiRequest, code: u16, body: &[u8]) -> Self {
        ApiError::new(request, Status::from_response(code, body))
    }

    /// True if the server said that there is no such object: the one that was asked for, by its name
    /// ([`Status::is_missing`]).
    ///
    /// It is false for any other 404: nobody knows whether there is such an object if the server does not serve the path,
    /// as when the resource is not installed or not in this version, or if a proxy answered. And it is false for a creation,
    /// in which what is missing is the namespace.
    pub fn is_not_found(&self) -> bool {
        self.status.is_missing(&self.name)
    }

    /// True if the server said that the object changed in between, or exists already.
    pub fn is_conflict(&self) -> bool {
        self.status.code == 409
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: the API server refused: {}", self.request, self.status)?;
        self.advice.as_ref().map_or(Ok(()), |advice| write!(f, "; {advice}"))
    }
}

impl fmt::Debug for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ApiError {}

#[cfg(test)]
mod tests {
    use super::*;
    use informer_core::{Key, Resource};
    use serde_json::json;

    const CONFIG_MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");

    #[test]
    fn a_404_is_an_object_that_is_gone_only_if_the_server_names_it() {
        let key = Key::new("web", "a");
        let status = |name: &str, kind: &str| {
            let details = json!({"name": name, "kind": kind});
            json!({"kind": "Status", "reason": "NotFound", "details": details, "code": 404}).to_string()
        };
        let get = ApiRequest::get(&CONFIG_MAPS, &key).unwrap();
        let of = |body: &str| ApiError::from_response(&get, 404, body.as_bytes());
        let gone = of(&status("a", "configmaps"));
        assert!(gone.is_not_found() && !gone.is_conflict());
        let text = "GET /api/v1/namespaces/web/configmaps/a: the API server refused: 404 NotFound";
        assert_eq!(gone.to_string(), text);
        for body in ["404 page not found\n", "", r#"{"kind":"Status","reason":"NotFound","details":{},"code":404}"#] {
            let error = of(body);
            assert!(
                !error.is_not_found() && error.to_string().contains("; check that the resource is installed"),
                "{error}"
            );
        }
        let other = of(&status("b", "configmaps"));
        assert!(!other.is_not_found() && !other.to_string().contains("installed"), "{other}");
        // What is missing is the namespace, even if it is called like the new object.
        let create = ApiRequest::create(&CONFIG_MAPS, "a", &json!({"metadata": {"name": "a"}})).unwrap();
        assert!(!ApiError::from_response(&create, 404, status("a", "namespaces").as_bytes()).is_not_found());
    }

    #[test]
    fn a_status_that_is_not_apart_is_named() {
        let update = ApiRequest::update_status(&CONFIG_MAPS, &Key::new("web", "a"), &json!({})).unwrap();
        let error = ApiError::from_response(&update, 404, b"404 page not found").to_string();
        assert!(error.ends_with("; not every resource has the subresource \"status\""), "{error}");
    }
}
