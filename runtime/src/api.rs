//! The write client's calls without their transport: what is sent, and how an answer is read.
//!
//! Adapters send an [`ApiRequest`] and hand the answer to [`ApiRequest::read`] or [`ApiRequest::read_object`].

use crate::error::Error;
use informer_core::decode::Codec;
use informer_core::wire::{Status, Verb};
use informer_core::{Key, Object, Resource};
use serde::Serialize;
use serde_json::{Value, json};
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
}

/// What must still be true of an object for a deletion to happen.
#[derive(Clone, Debug, Default)]
pub struct Preconditions {
    /// The incarnation: guards against deleting a successor of the same name.
    pub uid: Option<String>,
    /// The version.
    pub resource_version: Option<String>,
}

impl ApiRequest {
    fn new(verb: Verb, resource: &Resource, namespace: &str, name: Option<&str>, sub: &str) -> Result<Self, Error> {
        let mut target = resource.path(Some(&*segment(namespace)).filter(|namespace| !namespace.is_empty()));
        if let Some(name) = name {
            target.push('/');
            target.push_str(&segment(name));
        }
        if !sub.is_empty() {
            target.push('/');
            target.push_str(sub);
        }
        let request =
            ApiRequest { verb, target, content_type: "application/json", body: Vec::new(), resource: resource.clone() };
        let parts = [Some(namespace).filter(|namespace| !namespace.is_empty()), name];
        match parts.into_iter().flatten().find(|part| !can_be_segment(part)) {
            None => Ok(request),
            // Sent all the same, an empty name would mean the whole collection.
            Some(bad) => Err(Error::Transport {
                request: request.describe(),
                reason: format!("nothing was sent, as no object or namespace can be called {bad:?}"),
                source: None,
            }),
        }
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
                return Err(Error::Transport {
                    request: self.describe(),
                    reason: format!(
                        "nothing was sent, as nobody said of which kind an object of {resource} is: set the `kind` of its \
                         Resource (Resource::dynamic takes it), or write it into the object"
                    ),
                    source: None,
                });
            }
        }
        self.body = body.to_string().into_bytes();
        Ok(self)
    }

    /// Reads one object.
    ///
    /// # Errors
    ///
    /// If no object can have this key: its name is empty, say.
    pub fn get(resource: &Resource, key: &Key) -> Result<Self, Error> {
        ApiRequest::new(Verb::Get, resource, key.namespace(), Some(key.name()), "")
    }

    /// Makes an object in a namespace (empty for a cluster-scoped one).
    ///
    /// # Errors
    ///
    /// If the object cannot be written as JSON, or no object can have such a name or namespace.
    pub fn create<B: Serialize + ?Sized>(resource: &Resource, namespace: &str, object: &B) -> Result<Self, Error> {
        ApiRequest::new(Verb::Create, resource, namespace, None, "")?.with(object)
    }

    /// Replaces an object; it must carry the version that it replaces.
    ///
    /// # Errors
    ///
    /// If the object cannot be written as JSON, or no object can have such a name or namespace.
    pub fn update<B: Serialize + ?Sized>(resource: &Resource, key: &Key, object: &B) -> Result<Self, Error> {
        ApiRequest::new(Verb::Update, resource, key.namespace(), Some(key.name()), "")?.with(object)
    }

    /// Replaces the status of an object.
    ///
    /// # Errors
    ///
    /// If the object cannot be written as JSON, or no object can have such a name or namespace.
    pub fn update_status<B: Serialize + ?Sized>(resource: &Resource, key: &Key, object: &B) -> Result<Self, Error> {
        ApiRequest::new(Verb::Update, resource, key.namespace(), Some(key.name()), "status")?.with(object)
    }

    /// Applies a JSON merge patch (RFC 7386).
    ///
    /// # Errors
    ///
    /// If the patch cannot be written as JSON, or no object can have such a name or namespace.
    pub fn merge_patch<B: Serialize + ?Sized>(resource: &Resource, key: &Key, patch: &B) -> Result<Self, Error> {
        let mut request = ApiRequest::new(Verb::Patch, resource, key.namespace(), Some(key.name()), "")?.with(patch)?;
        request.content_type = "application/merge-patch+json";
        Ok(request)
    }

    /// Applies a JSON merge patch to the status.
    ///
    /// # Errors
    ///
    /// If the patch cannot be written as JSON, or no object can have such a name or namespace.
    pub fn merge_patch_status<B: Serialize + ?Sized>(resource: &Resource, key: &Key, patch: &B) -> Result<Self, Error> {
        let mut request =
            ApiRequest::new(Verb::Patch, resource, key.namespace(), Some(key.name()), "status")?.with(patch)?;
        request.content_type = "application/merge-patch+json";
        Ok(request)
    }

    /// Deletes an object if the preconditions hold.
    ///
    /// # Errors
    ///
    /// If no object can have this key: its name is empty, say.
    pub fn delete(resource: &Resource, key: &Key, preconditions: &Preconditions) -> Result<Self, Error> {
        let mut request = ApiRequest::new(Verb::Delete, resource, key.namespace(), Some(key.name()), "")?;
        let mut conditions = serde_json::Map::new();
        if let Some(uid) = &preconditions.uid {
            conditions.insert("uid".into(), uid.clone().into());
        }
        if let Some(version) = &preconditions.resource_version {
            conditions.insert("resourceVersion".into(), version.clone().into());
        }
        if !conditions.is_empty() {
            let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": conditions});
            request.body = options.to_string().into_bytes();
        }
        Ok(request)
    }

    /// `GET /api/v1/namespaces/web/pods/a`.
    pub fn describe(&self) -> String {
        format!("{} {}", self.verb.method(), self.target)
    }

    /// True if the answer says that the credentials are stale: they are then read anew and the call is sent once more,
    /// and no more often than that.
    pub fn wants_fresh_credentials(&self, code: u16) -> bool {
        code == 401
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
        if (200..300).contains(&code) { Ok(body) } else { Err(Error::Api(Status::from_response(code, body))) }
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
    fn a_deletion_carries_its_preconditions() {
        let uid = Preconditions { uid: Some("u".into()), resource_version: None };
        let delete = ApiRequest::delete(&CONFIG_MAPS, &Key::new("web", "a"), &uid).unwrap();
        let body: Value = serde_json::from_slice(&delete.body).unwrap();
        assert_eq!(body["preconditions"], json!({"uid": "u"}));
        assert!(delete.read(409, b"{}").unwrap_err().is_conflict());
        assert!(delete.read(404, b"gone").unwrap_err().is_not_found());
    }

    #[test]
    fn a_name_never_reaches_beyond_its_place_in_the_path() {
        for key in [("web", ""), ("web", "."), ("web", ".."), ("web", "a/b"), ("web", "a%2fb"), ("..", "a")] {
            let key = Key::new(key.0, key.1);
            let refused = ApiRequest::delete(&CONFIG_MAPS, &key, &Preconditions::default()).unwrap_err().to_string();
            assert!(refused.contains("nothing was sent, as no object or namespace can be called"), "{refused}");
            assert!(ApiRequest::get(&CONFIG_MAPS, &key).is_err());
        }
        let odd = ApiRequest::get(&CONFIG_MAPS, &Key::new("web", "system:a?b#c \u{e9}")).unwrap();
        assert_eq!(odd.target, "/api/v1/namespaces/web/configmaps/system:a%3Fb%23c%20%C3%A9");
    }
}
