//! The write client's calls without their transport: what is sent, how often, and how an answer is read.
//!
//! Adapters make a [`Call`] of an [`ApiRequest`], send what it says, and hand the answer to [`ApiRequest::read_object`] or
//! [`ApiRequest::read_deletion`].

mod delete_options;
mod deletion;
mod refused;

pub use delete_options::{DeleteOptions, Preconditions, PropagationPolicy};
pub use deletion::Deletion;
pub use refused::ApiError;

use crate::Config;
use crate::error::Error;
use crate::fault::Fault;
use crate::outgoing::Outgoing;
use informer_core::decode::Codec;
use informer_core::wire::Verb;
use informer_core::{Key, Object, Resource};
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;

/// How long a call may take unless a client is told otherwise: as long as the slowest admission webhook may (30 s is their
/// cap, 10 s is usual), and less than the minute that the server allows itself.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The most that the body of one answer may hold: an object is at most a few MiB (etcd's limit is 1.5).
pub const MAX_ANSWER: usize = 64 * 1024 * 1024;

/// One call on one object.
#[derive(Clone, Debug)]
pub struct ApiRequest {
    /// What kind of call.
    pub verb: Verb,
    /// Path and query.
    pub target: String,
    /// Type of the body.
    pub content_type: &'static str,
    /// The body; empty for a read.
    pub body: Vec<u8>,
    resource: Resource,
    /// The object; empty for one that is to be made.
    name: String,
    /// Empty for the object itself.
    subresource: &'static str,
}

impl ApiRequest {
    fn new(
        verb: Verb,
        resource: &Resource,
        namespace: &str,
        name: Option<&str>,
        subresource: &'static str,
    ) -> Result<Self, Error> {
        let mut target = resource.path(Some(&*segment(namespace)).filter(|namespace| !namespace.is_empty()));
        if let Some(name) = name {
            target.push('/');
            target.push_str(&segment(name));
        }
        if !subresource.is_empty() {
            target.push('/');
            target.push_str(subresource);
        }
        let request = ApiRequest {
            verb,
            target,
            content_type: "application/json",
            body: Vec::new(),
            resource: resource.clone(),
            name: name.unwrap_or_default().to_string(),
            subresource,
        };
        let parts = [Some(namespace).filter(|namespace| !namespace.is_empty()), name];
        let bad = parts.into_iter().flatten().find(|part| !can_be_segment(part));
        // Sent all the same, an empty name would mean the whole collection.
        let bad = bad.map(|bad| format!("no object or namespace can be called {bad:?}"));
        match bad.or_else(|| out_of_scope(resource, namespace)) {
            None => Ok(request),
            Some(why) => Err(request.unsent(&why)),
        }
    }

    fn unsent(&self, why: &str) -> Error {
        Error::Transport { request: self.describe(), reason: format!("nothing was sent, as {why}"), source: None }
    }

    fn with<B: Serialize + ?Sized>(mut self, body: &B) -> Result<Self, Error> {
        let failed = |source: serde_json::Error| Error::Transport {
            request: self.describe(),
            reason: format!("the object cannot be written as JSON: {source}"),
            source: Some(Box::new(source)),
        };
        let mut body = serde_json::to_value(body).map_err(failed)?;
        // A custom resource of one's own need not carry these two.
        if let (Value::Object(fields), Verb::Create | Verb::Update) = (&mut body, self.verb) {
            fields.entry("apiVersion").or_insert_with(|| self.resource.api_version().into());
            let kind = fields.entry("kind").or_insert_with(|| self.resource.kind.clone().into());
            if kind.as_str() == Some("") {
                // The server would only say that a kind is missing.
                let resource = &self.resource;
                return Err(self.unsent(&format!(
                    "nobody said of which kind an object of {resource} is: set the `kind` of its Resource \
                     (Resource::dynamic takes it), or write it into the object"
                )));
            }
        }
        self.body = body.to_string().into_bytes();
        Ok(self)
    }

    /// Reads one object.
    ///
    /// # Errors
    ///
    /// If no object can have this key: its name is empty, say, or it has no namespace and objects of this resource have.
    pub fn get(resource: &Resource, key: &Key) -> Result<Self, Error> {
        ApiRequest::new(Verb::Get, resource, key.namespace(), Some(key.name()), "")
    }

    /// Makes an object in a namespace (empty for a cluster-scoped one).
    ///
    /// # Errors
    ///
    /// If the object cannot be written as JSON, or no object can have such a name or namespace, or lack of one.
    pub fn create<B: Serialize + ?Sized>(resource: &Resource, namespace: &str, object: &B) -> Result<Self, Error> {
        ApiRequest::new(Verb::Create, resource, namespace, None, "")?.with(object)
    }

    /// Replaces an object; it must carry the version that it replaces.
    ///
    /// # Errors
    ///
    /// If the object cannot be written as JSON, or no object can have such a name or namespace, or lack of one.
    pub fn update<B: Serialize + ?Sized>(resource: &Resource, key: &Key, object: &B) -> Result<Self, Error> {
        ApiRequest::new(Verb::Update, resource, key.namespace(), Some(key.name()), "")?.with(object)
    }

    /// Replaces the status of an object.
    ///
    /// # Errors
    ///
    /// If the object cannot be written as JSON, or no object can have such a name or namespace, or lack of one.
    pub fn update_status<B: Serialize + ?Sized>(resource: &Resource, key: &Key, object: &B) -> Result<Self, Error> {
        ApiRequest::new(Verb::Update, resource, key.namespace(), Some(key.name()), "status")?.with(object)
    }

    /// Applies a JSON merge patch (RFC 7386).
    ///
    /// # Errors
    ///
    /// If the patch cannot be written as JSON, or no object can have such a name or namespace, or lack of one.
    pub fn merge_patch<B: Serialize + ?Sized>(resource: &Resource, key: &Key, patch: &B) -> Result<Self, Error> {
        let mut request = ApiRequest::new(Verb::Patch, resource, key.namespace(), Some(key.name()), "")?.with(patch)?;
        request.content_type = "application/merge-patch+json";
        Ok(request)
    }

    /// Applies a JSON merge patch to the status.
    ///
    /// # Errors
    ///
    /// If the patch cannot be written as JSON, or no object can have such a name or namespace, or lack of one.
    pub fn merge_patch_status<B: Serialize + ?Sized>(resource: &Resource, key: &Key, patch: &B) -> Result<Self, Error> {
        let mut request =
            ApiRequest::new(Verb::Patch, resource, key.namespace(), Some(key.name()), "status")?.with(patch)?;
        request.content_type = "application/merge-patch+json";
        Ok(request)
    }

    /// Deletes an object, as the options say.
    ///
    /// # Errors
    ///
    /// If no object can have this key: its name is empty, say, or it has no namespace and objects of this resource have. If
    /// the options cannot be meant: an empty precondition, a grace period that is no whole number of seconds or too long.
    pub fn delete(resource: &Resource, key: &Key, options: impl Into<DeleteOptions>) -> Result<Self, Error> {
        let mut request = ApiRequest::new(Verb::Delete, resource, key.namespace(), Some(key.name()), "")?;
        if let Some(body) = options.into().body().map_err(|why| request.unsent(&why))? {
            request.body = body.to_string().into_bytes();
        }
        Ok(request)
    }

    /// `GET /api/v1/namespaces/web/pods/a`.
    pub fn describe(&self) -> String {
        format!("{} {}", self.verb.method(), self.target)
    }

    /// True if the call may be sent again when its connection broke before an answer came: doing it twice is the same
    /// as doing it once.
    pub fn is_repeatable(&self) -> bool {
        self.verb == Verb::Get
    }

    /// Judges the answer.
    ///
    /// # Errors
    ///
    /// [`Error::Api`] for any code but 2xx.
    pub fn read<'a>(&self, code: u16, body: &'a [u8]) -> Result<&'a [u8], Error> {
        if (200..300).contains(&code) { Ok(body) } else { Err(ApiError::from_response(self, code, body).into()) }
    }

    /// Judges the answer to a [deletion](Self::delete) and reads what became of the object.
    ///
    /// # Errors
    ///
    /// [`Error::Api`] for any code but 2xx, [`Error::Transport`] for what is neither an object nor a Status.
    pub fn read_deletion<T: Object>(&self, code: u16, body: &[u8]) -> Result<Deletion<T>, Error> {
        let body = self.read(code, body)?;
        let decode = |body: &[u8]| Codec::<T>::new(self.resource.clone()).build(body);
        match Deletion::read(code, body, decode) {
            Some(read) => read.map_err(|status| ApiError::new(self, status).into()),
            None => Err(Error::Transport {
                request: self.describe(),
                reason: "the answer is neither an object nor a Status, so nobody knows what became of it".into(),
                source: None,
            }),
        }
    }

    /// Judges the answer and decodes its object.
    ///
    /// # Errors
    ///
    /// [`Error::Api`] for any code but 2xx, [`Error::Transport`] for an object that does not fit the type.
    pub fn read_object<T: Object>(&self, code: u16, body: &[u8]) -> Result<T, Error> {
        let body = self.read(code, body)?;
        let resource = &self.resource;
        Codec::<T>::new(resource.clone()).build(body).map_err(|source| Error::Transport {
            request: self.describe(),
            reason: match &*resource.kind {
                "" => format!("the answer is no object of {resource}: {source}"),
                kind => format!("the answer is no {kind}: {source}"),
            },
            source: Some(Box::new(source)),
        })
    }
}

/// A request on its way to its answer: sent once, and once more with fresh credentials if the server refuses the first.
///
/// ```
/// use informer_core::{Key, Resource};
/// use informer_runtime::Config;
/// use informer_runtime::api::{ApiRequest, Call};
///
/// let config = Config::from_url("http://10.0.0.1:8001")?;
/// let mut call = Call::new(ApiRequest::get(&Resource::cluster("", "v1", "nodes", "Node"), &Key::new("", "n"))?);
/// let first = call.outgoing(&config)?;
/// assert!(call.answered(401).is_none(), "it is to be sent again");
/// let second = call.outgoing(&config)?;
/// # let mut part = || -> Result<(), informer_runtime::fault::Fault> {
/// call.part(b"{}")?;
/// # Ok(()) };
/// # part().unwrap();
/// assert_eq!(call.answered(401), Some((401, b"{}".to_vec())));
/// # Ok::<(), informer_runtime::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Call {
    request: ApiRequest,
    /// The credentials were refused once.
    refused: bool,
    body: Vec<u8>,
}

impl Call {
    /// One that was not sent yet.
    pub fn new(request: ApiRequest) -> Self {
        Call { request, refused: false, body: Vec::new() }
    }

    /// What is to be sent next.
    ///
    /// # Errors
    ///
    /// As [`Outgoing::call`].
    pub fn outgoing(&self, config: &Config) -> Result<Outgoing, Error> {
        Outgoing::call(config, &self.request, self.refused)
    }

    /// The next part of the answer's body came.
    ///
    /// # Errors
    ///
    /// If it has more than [`MAX_ANSWER`] bytes by now.
    pub fn part(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        if self.body.len() + bytes.len() > MAX_ANSWER {
            return Err(Fault::broken(format_args!("the answer has more than {MAX_ANSWER} bytes")));
        }
        self.body.extend_from_slice(bytes);
        Ok(())
    }

    /// The answer is complete: its code and body, or `None` if the call is to be sent again.
    pub fn answered(&mut self, code: u16) -> Option<(u16, Vec<u8>)> {
        let body = std::mem::take(&mut self.body);
        if code == 401 && !self.refused {
            self.refused = true;
            return None;
        }
        Some((code, body))
    }

    /// There is no answer.
    pub fn failed(&self, fault: Fault) -> Error {
        fault.into_error(self.request.describe())
    }
}

/// Why no object of this resource is in this namespace. The server knows no such path: its 404 would read as an object
/// that is gone.
fn out_of_scope(resource: &Resource, namespace: &str) -> Option<String> {
    match (resource.namespaced, namespace.is_empty()) {
        (true, false) | (false, true) => None,
        (true, true) => {
            let assumed = if resource.kind.is_empty() {
                "; if they are not, which their name does not show, set `namespaced` of the Resource to false"
            } else {
                ""
            };
            Some(format!("{resource} are namespaced: give a namespace{assumed}"))
        }
        (false, false) => Some(format!("{resource} are cluster-scoped: leave out the namespace, here {namespace:?}")),
    }
}

/// The rule of apimachinery for what may stand between two slashes.
fn can_be_segment(part: &str) -> bool {
    !matches!(part, "" | "." | "..") && !part.contains(['/', '%'])
}

/// As it stands in a path: all but the unreserved characters of RFC 3986 and the colon, which names of roles have, is
/// encoded.
fn segment(part: &str) -> String {
    let mut out = String::with_capacity(part.len());
    for byte in part.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out += &format!("%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const CONFIG_MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");

    #[test]
    fn a_create_carries_its_kind_and_a_patch_does_not() {
        let made = ApiRequest::create(&CONFIG_MAPS, "web", &json!({"metadata": {"name": "a"}})).unwrap();
        assert_eq!(made.describe(), "POST /api/v1/namespaces/web/configmaps");
        let body: Value = serde_json::from_slice(&made.body).unwrap();
        assert_eq!((&body["kind"], &body["apiVersion"]), (&"ConfigMap".into(), &"v1".into()));
        let patch = ApiRequest::merge_patch_status(&CONFIG_MAPS, &Key::new("web", "a"), &json!({})).unwrap();
        assert_eq!(patch.describe(), "PATCH /api/v1/namespaces/web/configmaps/a/status");
        assert_eq!((patch.body.as_slice(), patch.content_type), (&b"{}"[..], "application/merge-patch+json"));
    }

    #[test]
    fn an_object_whose_kind_nobody_said_is_not_sent_and_the_error_says_how_to_give_it() {
        let unknown: Resource = "widgets.v1.example.com".parse().unwrap();
        let object = json!({"metadata": {"name": "a"}});
        let refused = ApiRequest::create(&unknown, "web", &object).unwrap_err().to_string();
        assert!(
            refused.starts_with("POST /apis/example.com/v1/namespaces/web/widgets: nothing was sent, as nobody said")
                && refused.contains("widgets.example.com")
                && refused.contains("Resource::dynamic"),
            "{refused}"
        );
        assert!(ApiRequest::update(&unknown, &Key::new("web", "a"), &object).is_err());
        let mut known = unknown.clone();
        known.kind = "Widget".into();
        let said = json!({"kind": "Widget", "metadata": {"name": "a"}});
        let made = [ApiRequest::create(&known, "web", &object), ApiRequest::create(&unknown, "web", &said)];
        for made in made.map(Result::unwrap) {
            assert_eq!(serde_json::from_slice::<Value>(&made.body).unwrap()["kind"], "Widget");
        }
        // A patch says what changes and no kind.
        ApiRequest::merge_patch(&unknown, &Key::new("web", "a"), &json!({})).unwrap();
        let get = ApiRequest::get(&unknown, &Key::new("web", "a")).unwrap();
        let error = get.read_object::<informer_core::DynamicObject>(200, b"7").unwrap_err().to_string();
        assert!(error.contains("the answer is no object of widgets.example.com: "), "{error}");
    }

    #[test]
    fn a_deletion_carries_its_options_and_has_no_body_without() {
        let delete = |options| ApiRequest::delete(&CONFIG_MAPS, &Key::new("web", "a"), options);
        assert!(delete(DeleteOptions::default()).unwrap().body.is_empty());
        let half =
            delete(DeleteOptions::default().with_grace_period(Duration::from_millis(500))).unwrap_err().to_string();
        let place =
            "DELETE /api/v1/namespaces/web/configmaps/a: nothing was sent, as a grace period is in whole seconds";
        assert!(half.starts_with(place), "{half}");
        let empty = delete(DeleteOptions::default().with_uid("")).unwrap_err();
        assert!(!empty.is_conflict() && empty.to_string().contains("the precondition uid is empty"), "{empty}");
        let delete = delete(DeleteOptions::from(PropagationPolicy::Background).with_uid("u")).unwrap();
        assert_eq!(
            (delete.describe(), delete.content_type),
            ("DELETE /api/v1/namespaces/web/configmaps/a".into(), "application/json")
        );
        let body: Value = serde_json::from_slice(&delete.body).unwrap();
        let wanted = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "u"},
            "propagationPolicy": "Background"});
        assert_eq!(body, wanted);
        assert!(delete.read(409, b"{}").unwrap_err().is_conflict());
        let missing =
            json!({"kind": "Status", "reason": "NotFound", "details": {"name": "a"}, "code": 404}).to_string();
        assert!(delete.read(404, missing.as_bytes()).unwrap_err().is_not_found());
        assert!(!delete.read(404, b"gone").unwrap_err().is_not_found(), "whoever says so is no API server");
        let odd = delete.read_deletion::<informer_core::DynamicObject>(200, b"<html>").unwrap_err().to_string();
        assert!(odd.starts_with("DELETE /api/v1/namespaces/web/configmaps/a: the answer is neither"), "{odd}");
    }

    #[test]
    fn refused_credentials_are_read_anew_once() {
        let config = Config::from_url("https://a").unwrap().with_client_certificate("cert", "key");
        let mut call = Call::new(ApiRequest::get(&CONFIG_MAPS, &Key::new("web", "a")).unwrap());
        let fresh = |call: &Call| call.outgoing(&config).unwrap().fresh;
        assert!(!fresh(&call));
        call.part(b"stale").unwrap();
        assert_eq!(call.answered(401), None);
        assert!(fresh(&call));
        assert_eq!(call.answered(401), Some((401, Vec::new())));
        let mut forbidden = Call::new(ApiRequest::get(&CONFIG_MAPS, &Key::new("web", "a")).unwrap());
        assert_eq!(forbidden.answered(403), Some((403, Vec::new())));
    }

    #[test]
    fn an_answer_has_a_bound() {
        let mut call = Call::new(ApiRequest::get(&CONFIG_MAPS, &Key::new("web", "a")).unwrap());
        let megabyte = vec![b'x'; 1 << 20];
        for _ in 0..MAX_ANSWER / megabyte.len() {
            call.part(&megabyte).unwrap();
        }
        let error = call.failed(call.clone().part(b"x").unwrap_err());
        let text = "GET /api/v1/namespaces/web/configmaps/a: the answer has more than 67108864 bytes";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn a_call_that_is_wrong_about_the_scope_is_not_sent_for_its_404_would_look_like_an_object_that_is_gone() {
        let nodes = Resource::cluster("", "v1", "nodes", "Node");
        let object = json!({"metadata": {"name": "a"}});
        let calls = |resource: &Resource, namespace: &str| {
            let key = Key::new(namespace, "a");
            [
                ApiRequest::get(resource, &key),
                ApiRequest::create(resource, namespace, &object),
                ApiRequest::update(resource, &key, &object),
                ApiRequest::update_status(resource, &key, &object),
                ApiRequest::merge_patch(resource, &key, &object),
                ApiRequest::merge_patch_status(resource, &key, &object),
                ApiRequest::delete(resource, &key, DeleteOptions::default()),
            ]
        };
        for (resource, namespace, wanted) in [
            (&CONFIG_MAPS, "", "nothing was sent, as configmaps are namespaced: give a namespace"),
            (&nodes, "web", "nothing was sent, as nodes are cluster-scoped: leave out the namespace, here \"web\""),
        ] {
            for call in calls(resource, namespace) {
                let error = call.unwrap_err();
                assert!(error.to_string().ends_with(wanted) && !error.is_not_found(), "{error}");
            }
            let right = if namespace.is_empty() { "web" } else { "" };
            assert!(calls(resource, right).iter().all(Result::is_ok));
        }
        // The scope of a resource of which only the name is known was assumed.
        let named: Resource = "widgets.v1.example.com".parse().unwrap();
        let error = ApiRequest::get(&named, &Key::new("", "a")).unwrap_err().to_string();
        assert!(error.contains("widgets.example.com are namespaced") && error.contains("set `namespaced`"), "{error}");
    }

    #[test]
    fn a_name_never_reaches_beyond_its_place_in_the_path() {
        for key in [("web", ""), ("web", "."), ("web", ".."), ("web", "a/b"), ("web", "a%2fb"), ("..", "a")] {
            let key = Key::new(key.0, key.1);
            let refused = ApiRequest::delete(&CONFIG_MAPS, &key, DeleteOptions::default()).unwrap_err().to_string();
            assert!(refused.contains("nothing was sent, as no object or namespace can be called"), "{refused}");
            assert!(ApiRequest::get(&CONFIG_MAPS, &key).is_err());
        }
        let odd = ApiRequest::get(&CONFIG_MAPS, &Key::new("web", "system:a?b#c \u{e9}")).unwrap();
        assert_eq!(odd.target, "/api/v1/namespaces/web/configmaps/system:a%3Fb%23c%20%C3%A9");
    }
}
