//! Which HTTP is spoken with the server, and how a dead connection is found.

use std::fmt;
use std::time::Duration;

/// Which version of HTTP is spoken. `informer-tokio` speaks both, `informer-blocking` HTTP/1.1 alone.
///
/// | | https | http |
/// |---|---|---|
/// | `Auto` | what the server chooses (ALPN), asked anew with each connection | HTTP/1.1 |
/// | `Http1` | HTTP/1.1 | HTTP/1.1 |
/// | `Http2` | HTTP/2; a server that does not speak it is an error | HTTP/2 without a question (prior knowledge) |
///
/// `Http1` is the way out where a proxy on the way resets long streams together with the connection that carries them:
/// each watch then has a connection to itself. `Http2` over http is for tests and for meshes, whose sidecar encrypts.
///
/// ```
/// use informer_runtime::config::{Config, HttpVersion};
///
/// let config = Config::from_url("https://10.0.0.1:6443")?.with_http_version(HttpVersion::Http1);
/// assert_eq!(config.http_version.to_string(), "HTTP/1.1");
/// # Ok::<(), informer_runtime::config::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum HttpVersion {
    /// Whatever the server prefers of what the adapter speaks.
    #[default]
    Auto,
    /// HTTP/1.1: a connection per watch.
    Http1,
    /// HTTP/2: many streams on a connection.
    Http2,
}

impl HttpVersion {
    /// What is offered to a TLS server, by preference.
    pub(crate) fn alpn(self) -> Vec<Vec<u8>> {
        let names: &[&[u8]] = match self {
            HttpVersion::Auto => &[ALPN_HTTP2, ALPN_HTTP1],
            HttpVersion::Http1 => &[ALPN_HTTP1],
            HttpVersion::Http2 => &[ALPN_HTTP2],
        };
        names.iter().map(|name| name.to_vec()).collect()
    }
}

/// When a connection of HTTP/2 is asked whether its server is there. A connection of HTTP/1.1 is found dead by the silence
/// of its watch ([`Tuning::watch_silence`](informer_core::reflector::Tuning::watch_silence)).
///
/// ```
/// use informer_runtime::config::{Config, Pings};
/// use std::time::Duration;
///
/// let pings = Pings { after: Duration::from_secs(10), ..Pings::default() };
/// let config = Config::from_url("https://10.0.0.1:6443")?.with_pings(pings);
/// assert_eq!(config.pings.within, Duration::from_secs(15));
/// # Ok::<(), informer_runtime::config::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pings {
    /// After this silence the server is asked: 30 s, as client-go does. A connection that carries nothing is closed
    /// instead.
    pub after: Duration,
    /// How long it may take to answer: 15 s. With the silence before it is the 45 s within which a dead connection is
    /// found.
    pub within: Duration,
}

impl Default for Pings {
    fn default() -> Self {
        Pings { after: Duration::from_secs(30), within: Duration::from_secs(15) }
    }
}

/// The name of HTTP/2 in TLS's protocol negotiation (RFC 9113, 3.1).
pub const ALPN_HTTP2: &[u8] = b"h2";

const ALPN_HTTP1: &[u8] = b"http/1.1";

impl fmt::Display for HttpVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HttpVersion::Auto => "HTTP/2 or HTTP/1.1",
            HttpVersion::Http1 => "HTTP/1.1",
            HttpVersion::Http2 => "HTTP/2",
        })
    }
}
