//! [`Request`]: what the core asks an adapter to send, and [`RequestId`], by which the answer is known.
//!
//! The adapter adds the address, the credentials and the connection; it decides nothing about the request itself.
//!
//! ```
//! use core::time::Duration;
//! use informer_core::wire::{Request, RequestId, Verb};
//!
//! let request = Request {
//!     id: RequestId(1),
//!     verb: Verb::List,
//!     path: "/api/v1/pods".into(),
//!     query: vec![("limit", "500".into()), ("labelSelector", "app in (a, b)".into())],
//!     accept: "application/json",
//!     accept_encoding: "gzip",
//!     fresh_connection: false,
//!     refresh_credentials: false,
//!     connect_within: Duration::from_secs(10),
//! };
//! assert_eq!(request.target(), "/api/v1/pods?limit=500&labelSelector=app%20in%20%28a%2C%20b%29");
//! assert_eq!(request.query_value("limit"), Some("500"));
//! ```

use super::percent::encode;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

/// Names one request within its machine; answers quote it. Never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(pub u64);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// What a request does to the API, in the words of its authorisation rules.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Verb {
    /// Reads a collection once.
    List,
    /// Follows a collection.
    Watch,
    /// Reads one object.
    Get,
    /// Makes an object.
    Create,
    /// Replaces an object.
    Update,
    /// Changes a part of an object.
    Patch,
    /// Deletes an object.
    Delete,
}

impl Verb {
    /// The method of HTTP for it.
    pub const fn method(self) -> &'static str {
        match self {
            Verb::List | Verb::Watch | Verb::Get => "GET",
            Verb::Create => "POST",
            Verb::Update => "PUT",
            Verb::Patch => "PATCH",
            Verb::Delete => "DELETE",
        }
    }
}

impl fmt::Display for Verb {
    /// As a role grants it: `list`, `watch`, and so on.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Get => "get",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
        })
    }
}

/// One request to the API server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Its name, for the answer.
    pub id: RequestId,
    /// What it does.
    pub verb: Verb,
    /// Path from the root of the server; it is sent as it is.
    pub path: String,
    /// Parameters in the order of sending, not yet encoded.
    pub query: Vec<(&'static str, String)>,
    /// The `accept` header.
    pub accept: &'static str,
    /// The `accept-encoding` header.
    pub accept_encoding: &'static str,
    /// True if no connection from a pool may be used, because the last one is suspected dead.
    pub fresh_connection: bool,
    /// True if the credentials are to be read anew before sending, because the last ones were refused.
    pub refresh_credentials: bool,
    /// How long name resolution, connect and TLS may take together.
    pub connect_within: Duration,
}

impl Request {
    /// Path and encoded query, as they stand in the request line.
    pub fn target(&self) -> String {
        let mut target = self.path.clone();
        for (index, (name, value)) in self.query.iter().enumerate() {
            target.push(if index == 0 { '?' } else { '&' });
            encode(&mut target, name);
            target.push('=');
            encode(&mut target, value);
        }
        target
    }

    /// The value of the first parameter called `name`.
    pub fn query_value(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn request(query: Vec<(&'static str, String)>) -> Request {
        Request {
            id: RequestId(7),
            verb: Verb::Watch,
            path: "/api/v1/pods".into(),
            query,
            accept: "application/json",
            accept_encoding: "identity",
            fresh_connection: false,
            refresh_credentials: false,
            connect_within: Duration::from_secs(10),
        }
    }

    #[test]
    fn everything_but_unreserved_characters_is_encoded() {
        assert_eq!(request(Vec::new()).target(), "/api/v1/pods");
        let query = alloc::vec![("a", "x=y&z +%/é~-._".to_string()), ("b", String::new())];
        assert_eq!(request(query).target(), "/api/v1/pods?a=x%3Dy%26z%20%2B%25%2F%C3%A9~-._&b=");
    }

    #[test]
    fn the_first_of_equal_parameters_is_found() {
        let request = request(alloc::vec![("a", "1".into()), ("a", "2".into())]);
        assert_eq!((request.query_value("a"), request.query_value("b")), (Some("1"), None));
    }

    #[test]
    fn verbs_have_the_words_of_roles_and_the_methods_of_http() {
        let words = [Verb::List, Verb::Watch, Verb::Get, Verb::Create, Verb::Update, Verb::Patch, Verb::Delete]
            .map(|verb| alloc::format!("{verb} {}", verb.method()));
        assert_eq!(
            words.join(", "),
            "list GET, watch GET, get GET, create POST, update PUT, patch PATCH, delete DELETE"
        );
        assert_eq!(RequestId(7).to_string(), "#7");
    }
}
