//! The address of an API server: scheme, host, port, base path. No more of a URL than that is needed.
//!
//! A server on a Unix socket, as sidecars and tests have it, is `unix:/run/api.sock`, or with a base path
//! `http+unix://%2Frun%2Fapi.sock/base`.
//!
//! ```
//! use informer_runtime::config::{Endpoint, Scheme};
//!
//! let server = Endpoint::parse("https://rancher.example/k8s/clusters/c-1/")?;
//! assert_eq!((server.scheme(), server.host(), server.port()), (Scheme::Https, "rancher.example", 443));
//! assert_eq!(server.target("/api/v1/pods"), "/k8s/clusters/c-1/api/v1/pods");
//! assert_eq!(Endpoint::parse("http://[::1]:8001")?.authority(), "[::1]:8001");
//! # #[cfg(unix)]
//! assert_eq!(Endpoint::parse("unix:/run/api.sock")?.unix_socket(), Some(std::path::Path::new("/run/api.sock")));
//! # Ok::<(), informer_runtime::config::ConfigError>(())
//! ```

use super::error::{ConfigError, ConfigErrorKind};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

/// What a socket's path may have on every Unix: `sun_path` has 104 bytes on macOS, 108 on Linux, and ends with a zero.
const MAX_SOCKET_PATH: usize = 103;

/// Whether the connection is encrypted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(clippy::exhaustive_enums)] // an API server speaks nothing else
pub enum Scheme {
    /// Plain TCP, port 80 if none is given.
    Http,
    /// TLS, port 443 if none is given.
    Https,
}

impl Scheme {
    /// `http` or `https`.
    pub fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    fn default_port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

/// Where an API server is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Endpoint {
    scheme: Scheme,
    /// Without brackets, lower case; `localhost` for a socket.
    host: String,
    port: u16,
    /// Empty, or `/` and more without a `/` at the end.
    base_path: String,
    /// Where to connect instead of host and port.
    socket: Option<PathBuf>,
}

impl Endpoint {
    /// Reads `scheme://host[:port][/base/path]`, `unix:/path/of/socket`, or `http+unix://%2Fpath%2Fof%2Fsocket[/base]`.
    ///
    /// # Errors
    ///
    /// Names what is wrong: no scheme or another one, no host, a bad port, a user or password, a query or fragment; a
    /// socket whose path is not absolute or too long, or TLS on it; a socket where the system has none. A text with an
    /// `@` or a query is not repeated in the error: it may hold a password.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        Self::parse_with(text, None)
    }

    /// As [`parse`](Self::parse), with the scheme for a text that has none (kubectl takes `host:port`).
    pub(crate) fn parse_with(text: &str, scheme_if_none: Option<Scheme>) -> Result<Self, ConfigError> {
        let text = text.trim();
        let fail = |what: &str| {
            let shown = if text.contains(['@', '?', '#']) { "(not shown)".to_owned() } else { format!("{text:?}") };
            ConfigError::new(ConfigErrorKind::Url, format!("server address {shown}: {what}"))
        };
        if text.is_empty() {
            return Err(fail("is empty; write https://host:port"));
        }
        if let Some(bad) = text.chars().find(|c| !c.is_ascii_graphic()) {
            let way_out = if bad.is_ascii() { "remove it" } else { "write the host name in its xn-- form" };
            return Err(fail(&format!("has the character {bad:?}, which no address can have; {way_out}")));
        }
        if let Some(socket) = unix(text) {
            return socket.map_err(|what| fail(&what));
        }
        let (scheme, rest) = match (text.split_once("://"), scheme_if_none) {
            (Some((scheme, rest)), _) if scheme.eq_ignore_ascii_case("https") => (Scheme::Https, rest),
            (Some((scheme, rest)), _) if scheme.eq_ignore_ascii_case("http") => (Scheme::Http, rest),
            (Some(_), _) => return Err(fail("the scheme must be http, https or http+unix")),
            (None, Some(scheme)) => (scheme, text),
            (None, None) => return Err(fail("has no scheme; put https:// (or http://) in front")),
        };
        if rest.contains(['?', '#']) {
            return Err(fail("has a query or a fragment; keep scheme, host, port and path only"));
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(fail(
                "credentials do not belong in the address; give a token, a password or a certificate instead",
            ));
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(inner) => {
                let (host, after) =
                    inner.split_once(']').ok_or_else(|| fail("the bracket of the IPv6 address is not closed"))?;
                if host.contains('%') {
                    return Err(fail("IPv6 zones are not supported; use an address without one"));
                }
                let host: Ipv6Addr = host.parse().map_err(|_| fail("what stands in brackets is no IPv6 address"))?;
                let port = match after.strip_prefix(':') {
                    Some(port) => Some(port),
                    None if after.is_empty() => None,
                    None => return Err(fail("after the bracket only a port can follow, as in [::1]:6443")),
                };
                (host.to_string(), port)
            }
            None => {
                let (host, port) = match authority.split_once(':') {
                    Some((host, port)) => (host, Some(port)),
                    None => (authority, None),
                };
                if port.is_some_and(|port| port.contains(':')) {
                    return Err(fail("an IPv6 address stands in brackets, as in https://[::1]:6443"));
                }
                (host_name(host).map_err(fail)?, port)
            }
        };
        let port = match port {
            None | Some("") => scheme.default_port(),
            Some(digits) => match digits.parse::<u16>() {
                Ok(port) if port > 0 && digits.bytes().all(|b| b.is_ascii_digit()) => port,
                _ => return Err(fail("the port must be a number from 1 to 65535")),
            },
        };
        Ok(Endpoint { scheme, host, port, base_path: path.trim_end_matches('/').to_owned(), socket: None })
    }

    /// Encrypted or not.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// True for https.
    pub fn is_tls(&self) -> bool {
        self.scheme == Scheme::Https
    }

    /// The host as a resolver wants it: a name in lower case or an IP address, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The Unix socket to connect to, whatever host and port say.
    pub fn unix_socket(&self) -> Option<&Path> {
        self.socket.as_deref()
    }

    /// The port, given or implied by the scheme.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What stands before every request path: empty, or `/k8s/clusters/x` without a slash at the end.
    pub fn base_path(&self) -> &str {
        &self.base_path
    }

    /// The value of the `Host` header: brackets around IPv6, the port unless it is the scheme's own.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == self.scheme.default_port() { host } else { format!("{host}:{}", self.port) }
    }

    /// The request target for `path` (which starts with `/`): the base path in front of it.
    pub fn target(&self, path: &str) -> String {
        format!("{}{path}", self.base_path)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.socket {
            None => write!(f, "{}://{}{}", self.scheme.as_str(), self.authority(), self.base_path),
            Some(path) if self.base_path.is_empty() => write!(f, "unix:{}", path.display()),
            Some(path) => {
                f.write_str("http+unix://")?;
                for byte in path.as_os_str().as_encoded_bytes() {
                    match byte {
                        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                            write!(f, "{}", char::from(*byte))?;
                        }
                        other => write!(f, "%{other:02X}")?,
                    }
                }
                f.write_str(&self.base_path)
            }
        }
    }
}

/// The address of a socket, if `text` is one.
fn unix(text: &str) -> Option<Result<Endpoint, String>> {
    let starts = |prefix: &str| text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    if starts("https+unix:") {
        return Some(Err("there is no TLS on a Unix socket; write http+unix".to_owned()));
    }
    if starts("http+unix://") {
        let rest = &text["http+unix://".len()..];
        let (socket, base) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if base.contains(['?', '#']) {
            return Some(Err("has a query or a fragment; keep socket and path only".to_owned()));
        }
        return Some(percent_decoded(socket).and_then(|path| on_socket(&path, base)));
    }
    if starts("unix:") {
        // Both `unix:/a` and `unix:///a` are in use.
        let path = &text["unix:".len()..];
        return Some(on_socket(path.strip_prefix("//").unwrap_or(path), ""));
    }
    None
}

fn on_socket(path: &str, base_path: &str) -> Result<Endpoint, String> {
    if cfg!(not(unix)) {
        return Err("this system has no Unix sockets; use http:// or https://".to_owned());
    }
    if !path.starts_with('/') || path.ends_with('/') {
        return Err("the socket needs its whole path, as in unix:/run/api.sock or http+unix://%2Frun%2Fapi.sock".into());
    }
    if path.len() > MAX_SOCKET_PATH || path.contains('\0') {
        return Err(format!("a socket's path has at most {MAX_SOCKET_PATH} bytes and no zero; use a shorter one"));
    }
    Ok(Endpoint {
        scheme: Scheme::Http,
        host: "localhost".to_owned(),
        port: Scheme::Http.default_port(),
        base_path: base_path.trim_end_matches('/').to_owned(),
        socket: Some(path.into()),
    })
}

fn percent_decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let decoded = match byte {
            b'%' => {
                let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
                digit().zip(digit()).and_then(|(high, low)| u8::try_from(high * 16 + low).ok())
            }
            other => Some(other),
        };
        bytes.push(decoded.ok_or("after '%' two hexadecimal digits must follow, as in %2F")?);
    }
    String::from_utf8(bytes).map_err(|_| "the socket's path is no UTF-8; use another one".to_owned())
}

/// A host name or IPv4 address in lower case; the dot of the root is cut, which certificates never have.
fn host_name(host: &str) -> Result<String, &'static str> {
    let host = host.strip_suffix('.').unwrap_or(host);
    if host.is_empty() {
        return Err("has no host; write https://host:port");
    }
    if host.len() > 253 || host.split('.').any(|label| label.is_empty() || label.len() > 63) {
        return Err("the host name has an empty part, a part of more than 63 characters, or more than 253 in all");
    }
    if !host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')) {
        return Err("a host name has letters, digits, '-', '_' and '.' only");
    }
    let numeric = host.rsplit('.').next().is_some_and(|label| label.bytes().all(|b| b.is_ascii_digit()));
    if numeric && host.parse::<Ipv4Addr>().is_err() {
        return Err("the host looks like an IPv4 address and is none");
    }
    Ok(host.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (Scheme, String, u16, String) {
        let end = Endpoint::parse(text).unwrap();
        (end.scheme, end.host, end.port, end.base_path)
    }

    #[test]
    fn ports_default_to_the_scheme() {
        assert_eq!(parts("http://a"), (Scheme::Http, "a".into(), 80, String::new()));
        assert_eq!(parts("HTTPS://A.example./"), (Scheme::Https, "a.example".into(), 443, String::new()));
        assert_eq!(parts("https://a:6443/"), (Scheme::Https, "a".into(), 6443, String::new()));
        assert_eq!(parts("https://a:"), (Scheme::Https, "a".into(), 443, String::new()));
    }

    #[test]
    fn ipv6_hosts_lose_their_brackets_and_get_them_back_in_the_header() {
        let end = Endpoint::parse("https://[2001:DB8:0::1]:6443").unwrap();
        assert_eq!((end.host(), end.port()), ("2001:db8::1", 6443));
        assert_eq!(end.authority(), "[2001:db8::1]:6443");
        assert_eq!(Endpoint::parse("http://[::1]").unwrap().authority(), "[::1]");
        assert_eq!(end.to_string(), "https://[2001:db8::1]:6443");
    }

    #[test]
    fn a_base_path_stands_before_every_request() {
        for text in ["https://host:6443/k8s/clusters/x", "https://host:6443/k8s/clusters/x//"] {
            let end = Endpoint::parse(text).unwrap();
            assert_eq!(
                end.target("/apis/apps/v1/deployments?watch=1"),
                "/k8s/clusters/x/apis/apps/v1/deployments?watch=1"
            );
            assert_eq!(Endpoint::parse(&end.to_string()).unwrap(), end);
        }
    }

    #[test]
    fn an_address_without_scheme_takes_the_one_of_its_cluster() {
        let end = Endpoint::parse_with("localhost:8080", Some(Scheme::Http)).unwrap();
        assert_eq!(end.to_string(), "http://localhost:8080");
    }

    #[cfg(unix)]
    #[test]
    fn a_unix_socket_has_two_spellings_and_keeps_its_base_path() {
        let socket = Some(Path::new("/run/k8s/api.sock"));
        for text in ["unix:/run/k8s/api.sock", "UNIX:///run/k8s/api.sock", "http+unix://%2frun%2Fk8s%2Fapi.sock/"] {
            let end = Endpoint::parse(text).unwrap();
            assert_eq!((end.unix_socket(), end.authority().as_str(), end.is_tls()), (socket, "localhost", false));
            assert_eq!((end.to_string().as_str(), end.target("/api")), ("unix:/run/k8s/api.sock", "/api".into()));
        }
        let end = Endpoint::parse("http+unix://%2Frun%2Fk8s%2Fapi.sock/base/").unwrap();
        assert_eq!((end.unix_socket(), end.target("/api").as_str()), (socket, "/base/api"));
        assert_eq!(Endpoint::parse(&end.to_string()).unwrap(), end);
        assert_eq!(Endpoint::parse("http://a").unwrap().unix_socket(), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_socket_that_cannot_be_is_named_with_the_way_out() {
        let long = format!("unix:/{}", "x".repeat(MAX_SOCKET_PATH));
        let cases = [
            ("unix:api.sock", "needs its whole path, as in unix:/run/api.sock"),
            ("unix:", "needs its whole path"),
            ("unix:/run/", "needs its whole path"),
            ("unix://host/run/api.sock", "needs its whole path"),
            ("http+unix:///run/api.sock", "needs its whole path"),
            ("http+unix://%2Frun%2", "two hexadecimal digits must follow"),
            ("http+unix://%2Frun%zz", "two hexadecimal digits must follow"),
            ("http+unix://%2Frun%ff", "is no UTF-8"),
            ("http+unix://%2Frun%00", "has at most 103 bytes and no zero"),
            ("http+unix://%2Frun/?token=MARKED", "has a query or a fragment"),
            ("https+unix://%2Frun", "there is no TLS on a Unix socket"),
            (long.as_str(), "has at most 103 bytes"),
        ];
        for (text, want) in cases {
            let error = Endpoint::parse(text).unwrap_err();
            assert_eq!(error.kind(), ConfigErrorKind::Url);
            assert!(error.to_string().contains(want) && !error.to_string().contains("MARKED"), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_the_way_out() {
        let cases = [
            ("", "is empty; write https://host:port"),
            ("localhost:8080", "has no scheme; put https://"),
            ("ftp://a", "the scheme must be http, https or http+unix"),
            ("https://", "has no host"),
            ("https:///path", "has no host"),
            ("https://a?x=1", "has a query or a fragment"),
            ("https://a/#x", "has a query or a fragment"),
            ("https://a:0", "the port must be a number from 1 to 65535"),
            ("https://a:65536", "the port must be a number from 1 to 65535"),
            ("https://a:+80", "the port must be a number from 1 to 65535"),
            ("https://::1", "an IPv6 address stands in brackets"),
            ("https://[::1", "is not closed"),
            ("https://[::1]6443", "only a port can follow"),
            ("https://[fe80::1%25eth0]", "IPv6 zones are not supported"),
            ("https://[10.0.0.1]", "is no IPv6 address"),
            ("https://10.0.0.256", "looks like an IPv4 address and is none"),
            ("https://a..b", "has an empty part"),
            ("https://a%2eb", "letters, digits"),
            ("https://a b", "which no address can have; remove it"),
            ("https://a\r\nx", "which no address can have; remove it"),
            ("https://\u{fc}ber.example", "xn-- form"),
        ];
        for (text, want) in cases {
            let error = Endpoint::parse(text).unwrap_err();
            assert_eq!(error.kind(), ConfigErrorKind::Url);
            assert!(error.to_string().contains(want), "{text}: {error}");
            let shown = if text.contains(['?', '#']) { "(not shown)".to_owned() } else { format!("{:?}", text.trim()) };
            assert!(error.to_string().starts_with(&format!("server address {shown}: ")), "{text}: {error}");
        }
    }

    #[test]
    fn a_password_in_the_address_is_refused_and_not_repeated() {
        for text in ["https://me:MARKED@host", "me:MARKED@host", "ftp://me:MARKED@host", "https://host?token=MARKED"] {
            let error = Endpoint::parse(text).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("MARKED"), "{error}");
        }
        let error = Endpoint::parse("https://me:MARKED@host").unwrap_err().to_string();
        assert!(error.contains("credentials do not belong in the address; give a token"), "{error}");
    }
}
