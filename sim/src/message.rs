//! What goes into a [`Server`](crate::Server) and what comes out of it.

use informer_core::time::Deadline;

/// Names one request; the driver mints it and must not use it again while the call is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// An HTTP request, read to its end.
///
/// ```
/// use informer_sim::HttpRequest;
///
/// let request = HttpRequest::new("PATCH", "/api/v1/namespaces/web/pods/a?dryRun=")
///     .header("Content-Type", "application/merge-patch+json")
///     .body(r#"{"metadata": {"labels": {"a": "b"}}}"#);
/// assert_eq!((request.path.as_str(), request.query.as_str()), ("/api/v1/namespaces/web/pods/a", "dryRun="));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpRequest {
    /// The method, in capitals.
    pub method: String,
    /// The path, still percent-encoded.
    pub path: String,
    /// The query without its question mark, still percent-encoded.
    pub query: String,
    /// Header names in lower case, and values. Read are `accept`, `accept-encoding`, `authorization`, `content-type`.
    pub headers: Vec<(String, String)>,
    /// The body; more than 3 MiB are refused.
    pub body: Vec<u8>,
}

impl HttpRequest {
    /// A request without headers and body; `target` is the path, with a query if there is one.
    pub fn new(method: &str, target: &str) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        HttpRequest { method: method.into(), path: path.into(), query: query.into(), ..HttpRequest::default() }
    }

    /// A GET request.
    pub fn get(target: &str) -> Self {
        HttpRequest::new("GET", target)
    }

    /// The same with one more header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_ascii_lowercase(), value.into()));
        self
    }

    /// The same with this body.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// The value of the first header of that lower-case name.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(have, _)| have == name).map(|(_, value)| value.as_str())
    }
}

/// What a driver tells the server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Input {
    /// A client asks.
    Request {
        /// The driver's name for this call.
        id: CallId,
        /// What it asks.
        request: HttpRequest,
    },
    /// The client of a call went away; nothing more comes out for it.
    Closed {
        /// The call.
        id: CallId,
    },
    /// The client does not read as fast as bodies come: make no more of this one for now.
    Pause {
        /// The call.
        id: CallId,
    },
    /// The client of a paused call reads again.
    Resume {
        /// The call.
        id: CallId,
    },
    /// Time has passed.
    Tick,
}

/// What the server tells its driver. For each call: one head, any number of bodies, one end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Output {
    /// The answer begins.
    Head {
        /// The call.
        id: CallId,
        /// The HTTP status.
        status: u16,
        /// Header names in lower case. Without a `content-length` the end of the body is known only at [`Output::End`].
        headers: Vec<(&'static str, String)>,
    },
    /// The next bytes of the body: of a list or watch at most one object more than 64 KiB.
    Body {
        /// The call.
        id: CallId,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The answer ends cleanly.
    End {
        /// The call.
        id: CallId,
    },
    /// Nothing more to do until an input comes or this moment does.
    Wait(Option<Deadline>),
}

impl Output {
    pub(crate) fn id(&self) -> Option<CallId> {
        match self {
            Output::Head { id, .. } | Output::Body { id, .. } | Output::End { id } => Some(*id),
            Output::Wait(_) => None,
        }
    }
}
