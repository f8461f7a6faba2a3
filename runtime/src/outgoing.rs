//! [`Outgoing`]: a request as every runtime writes it, and [`head`]: an answer's head as the core reads it.
//!
//! ```
//! use informer_runtime::Config;
//! use informer_runtime::api::ApiRequest;
//! use informer_runtime::outgoing::Outgoing;
//! use informer_core::{Key, Resource};
//!
//! let config = Config::from_url("https://rancher.example/k8s/clusters/c-1")?.with_token("t");
//! let call = ApiRequest::get(&Resource::cluster("", "v1", "nodes", "Node"), &Key::new("", "n"))?;
//! let outgoing = Outgoing::call(&config, &call, false)?;
//! assert_eq!(outgoing.head.uri(), "https://rancher.example/k8s/clusters/c-1/api/v1/nodes/n");
//! assert!(outgoing.repeatable && !outgoing.fresh && !outgoing.watch);
//! # Ok::<(), informer_runtime::Error>(())
//! ```

use crate::api::ApiRequest;
use crate::{Config, Error};
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use informer_core::wire::{Head, Request, Verb};

/// How often one request is sent, in all: on a connection that turns out dead or full, on another one, and on a new one.
pub const MAX_SENDS: usize = 3;

/// A connection that gave no head, for [`Outgoing::may_go_again`].
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs)] // an adapter of one's own makes it
pub struct Unanswered {
    /// The server cannot have worked on the request: it never got it, or says so.
    pub unread: bool,
    /// The connection is gone, not only the request.
    pub dead: bool,
    /// Some of the answer came.
    pub answered: bool,
    /// The connection was opened for this request: a new one need not fare better.
    pub opened: bool,
}

/// A request as it goes out.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outgoing {
    /// Method, whole URL and headers, but for those that belong to a connection: `Host` and lengths.
    pub head: http::Request<()>,
    /// Empty for none.
    pub body: Vec<u8>,
    /// It is open for minutes: no other request has its connection meanwhile, but perhaps other watches.
    pub watch: bool,
    /// It may be sent again if its connection died before any of the answer came.
    pub repeatable: bool,
    /// No connection that stands will do, and none of them serves another request: one is suspected dead, or shows a
    /// certificate that was refused. Certificate files are read again.
    pub fresh: bool,
}

impl Outgoing {
    /// What an informer asks, with the credentials of this moment.
    ///
    /// # Errors
    ///
    /// As [`Config::authorization`]; if there [is no server](Config::offline).
    pub fn request(config: &Config, request: &Request) -> Result<Self, Error> {
        let (verb, target, refresh) = (request.verb, request.target(), request.refresh_credentials);
        let mut outgoing = Self::new(config, verb, &target, [request.accept, request.accept_encoding], refresh)?;
        outgoing.fresh |= request.fresh_connection;
        outgoing.repeatable = true;
        Ok(outgoing)
    }

    /// A call of the write client. `refresh` after the server refused the credentials.
    ///
    /// # Errors
    ///
    /// As [`Config::authorization`]; if there [is no server](Config::offline).
    pub fn call(config: &Config, request: &ApiRequest, refresh: bool) -> Result<Self, Error> {
        let accepts = ["application/json", "identity"];
        let mut outgoing = Self::new(config, request.verb, &request.target, accepts, refresh)?;
        if !request.body.is_empty() {
            let headers = outgoing.head.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(request.content_type));
            outgoing.body = request.body.clone();
        }
        outgoing.repeatable = request.is_repeatable();
        Ok(outgoing)
    }

    fn new(config: &Config, verb: Verb, target: &str, accepts: [&str; 2], refresh: bool) -> Result<Self, Error> {
        let unsendable = |source: http::Error| Error::Transport {
            request: format!("{} {target}", verb.method()),
            reason: format!("the request cannot be written: {source}"),
            source: Some(source.into()),
        };
        if config.is_offline() {
            return Err(Error::Transport {
                request: format!("{} {target}", verb.method()),
                reason: "nothing was sent, as this client has no server: connect one with a Config that names it"
                    .into(),
                source: None,
            });
        }
        let server = &config.server;
        let url = format!("{}://{}{}", server.scheme().as_str(), server.authority(), server.target(target));
        let [accept, accept_encoding] = accepts;
        let mut head = http::Request::builder()
            .method(verb.method())
            .uri(url)
            .header(USER_AGENT, concat!("informer/", env!("CARGO_PKG_VERSION")))
            .header(ACCEPT, accept)
            .header(ACCEPT_ENCODING, accept_encoding);
        if let Some(value) = config.authorization(refresh)? {
            let mut value = HeaderValue::from_str(value.expose()).map_err(|error| unsendable(error.into()))?;
            value.set_sensitive(true);
            head = head.header(AUTHORIZATION, value);
        }
        Ok(Outgoing {
            head: head.body(()).map_err(unsendable)?,
            body: Vec::new(),
            watch: verb == Verb::Watch,
            repeatable: false,
            fresh: refresh && config.has_certificate(),
        })
    }

    /// Whether a request that was sent `sends` times, and last on a connection that gave no head, is sent on another one. It
    /// is if the server cannot have worked on it; or if it may be [repeated](Self::repeatable), and its connection, which had
    /// served others before, died before any of the answer came.
    pub fn may_go_again(&self, sends: usize, lost: Unanswered) -> bool {
        let Unanswered { unread, dead, answered, opened } = lost;
        sends < MAX_SENDS && (unread || (self.repeatable && dead && !answered && !opened))
    }

    /// What stands in an HTTP/1.1 connection's first line: path and query.
    pub fn target(&self) -> &str {
        self.head.uri().path_and_query().map_or("/", |target| target.as_str())
    }

    /// The value of the `Host` header.
    pub fn host(&self) -> &str {
        self.head.uri().authority().map_or("", |authority| authority.as_str())
    }
}

/// What the core reads of an answer's head: its headers are names and values. Values that are no text are passed over.
pub fn head<'h>(status: u16, headers: impl IntoIterator<Item = (&'h str, &'h [u8])>) -> Head {
    let mut head = Head::new(status);
    for (name, value) in headers {
        if let Ok(value) = std::str::from_utf8(value) {
            head.set(name, value);
        }
    }
    head
}

#[cfg(test)]
mod tests {
    use super::*;
    use informer_core::wire::RequestId;
    use informer_core::{Key, Resource};
    use std::time::Duration;

    fn watch() -> Request {
        Request {
            id: RequestId(1),
            verb: Verb::Watch,
            path: "/api/v1/pods".into(),
            query: vec![("watch", "true".into())],
            accept: "application/json",
            accept_encoding: "identity",
            fresh_connection: false,
            refresh_credentials: false,
            connect_within: Duration::from_secs(10),
        }
    }

    #[test]
    fn a_token_is_no_part_of_what_debug_shows() {
        let config = Config::from_url("http://[::1]:8001/base").unwrap().with_token("MARKED");
        let outgoing = Outgoing::request(&config, &watch()).unwrap();
        assert_eq!(outgoing.head.headers()[AUTHORIZATION], "Bearer MARKED");
        assert_eq!((outgoing.target(), outgoing.host()), ("/base/api/v1/pods?watch=true", "[::1]:8001"));
        assert!(!format!("{outgoing:?}").contains("MARKED"));
        assert!(outgoing.watch && outgoing.repeatable && !outgoing.fresh);
    }

    #[test]
    fn a_connection_is_fresh_when_it_is_suspect_or_shows_a_refused_certificate() {
        let bare = Config::from_url("https://a").unwrap();
        let known = bare.clone().with_client_certificate("cert", "key");
        let refused = Request { refresh_credentials: true, ..watch() };
        let suspect = Request { fresh_connection: true, ..watch() };
        let fresh = |config: &Config, request| Outgoing::request(config, request).unwrap().fresh;
        let requests = [watch(), refused, suspect];
        assert_eq!(requests.each_ref().map(|request| fresh(&bare, request)), [false, false, true]);
        assert_eq!(requests.each_ref().map(|request| fresh(&known, request)), [false, true, true]);
    }

    #[test]
    fn a_write_has_a_type_and_is_not_repeated() {
        let config = Config::from_url("http://a").unwrap();
        let maps = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
        let call = ApiRequest::merge_patch(&maps, &Key::new("ns", "m"), &1).unwrap();
        let outgoing = Outgoing::call(&config, &call, false).unwrap();
        assert_eq!(outgoing.head.headers()[CONTENT_TYPE], "application/merge-patch+json");
        assert_eq!((outgoing.body.as_slice(), outgoing.repeatable), (&b"1"[..], false));
    }

    #[test]
    fn a_request_goes_again_if_nobody_worked_on_it_or_if_it_may_and_its_old_connection_just_died() {
        let config = Config::from_url("http://a").unwrap();
        let call = ApiRequest::get(&Resource::cluster("", "v1", "nodes", "Node"), &Key::new("", "n")).unwrap();
        let reads = Outgoing::call(&config, &call, false).unwrap();
        let writes = Outgoing { repeatable: false, ..reads.clone() };
        let died = Unanswered { unread: false, dead: true, answered: false, opened: false };
        for (lost, may_read, may_write) in [
            (died, true, false),
            (Unanswered { answered: true, ..died }, false, false),
            (Unanswered { opened: true, ..died }, false, false),
            (Unanswered { dead: false, ..died }, false, false),
            (Unanswered { unread: true, ..died }, true, true),
            (Unanswered { unread: true, opened: true, dead: false, ..died }, true, true),
        ] {
            assert_eq!((reads.may_go_again(1, lost), writes.may_go_again(1, lost)), (may_read, may_write), "{lost:?}");
            assert!(!reads.may_go_again(MAX_SENDS, lost), "three times in all");
        }
    }
}
