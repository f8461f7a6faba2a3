//! How to reach one cluster and who we are there: addresses, certificates, tokens, from a kubeconfig or from a pod.
//!
//! A [`Config`] is plain data, copied into every client. While informers run, a token may change ([`TokenSource`]), and
//! so may the files that certificates come from ([`TlsFiles`]). What a kubeconfig can say and this version does not do
//! (credential plugins, proxies, impersonation) is an error that names the field: to go on without it would mean to be
//! somebody else, or somewhere else. What the environment of the process asks for and is passed over, which are proxies, is
//! told by [`Config::ignored`]. No error, `Debug` or `Display` of this module shows a secret.
//!
//! ```
//! use informer_runtime::config::Config;
//!
//! // `kubectl proxy`, or a server of a test
//! let config = Config::from_url("http://127.0.0.1:8001")?.with_namespace("web");
//! assert_eq!(config.server.authority(), "127.0.0.1:8001");
//! assert!(config.authorization(false)?.is_none());
//!
//! let config = Config::from_url("https://10.0.0.1:6443")?.with_token("swordfish").insecure(true);
//! assert_eq!(config.authorization(false)?.unwrap().expose(), "Bearer swordfish");
//! assert!(!format!("{config:?}").contains("swordfish"));
//! # Ok::<(), informer_runtime::config::ConfigError>(())
//! ```

mod error;
mod file;
mod http_version;
mod in_cluster;
mod kubeconfig;
mod proxy;
#[cfg(test)]
pub(crate) mod scratch;
mod secret;
mod token;
mod url;

pub use crate::tls::{TlsFiles, TlsSettings};
pub use error::{ConfigError, ConfigErrorKind};
pub(crate) use file::read as read_file;
pub use file::{MAX_CREDENTIAL_FILE, MAX_KUBECONFIG};
pub use http_version::{ALPN_HTTP2, HttpVersion, Pings};
pub use secret::Secret;
pub use token::{TOKEN_FILE_PERIOD, TokenCell, TokenFile, TokenSource};
pub use url::{Endpoint, Scheme};

use crate::sync::Arc;
use crate::tls::TlsSource;
use base64::Engine;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// How to reach one cluster and who we are there.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Where the API server is.
    pub server: Endpoint,
    /// How the server's certificate is checked and which one we show; of no effect for http.
    pub tls: TlsSettings,
    /// The bearer token. It is sent over http too: a token there is for servers on this machine only.
    pub token: TokenSource,
    /// User and password (RFC 7617), sent if there is no token. API servers since 1.19 do not take them; proxies do.
    pub basic: Option<BasicAuth>,
    /// The namespace for those who name none.
    pub namespace: String,
    /// Which HTTP is spoken.
    pub http_version: HttpVersion,
    /// How a dead connection of HTTP/2 is found.
    pub pings: Pings,
    /// Where this came from, in words: errors start with it.
    pub origin: String,
    /// There is no server.
    pub(crate) offline: bool,
}

/// A user and a password.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BasicAuth {
    /// Without a colon.
    pub username: String,
    /// Anything.
    pub password: Secret,
}

impl Config {
    /// A server at `url`: anonymous, namespace `default`.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::parse`]. An https server also needs [`with_ca`](Self::with_ca) or [`insecure`](Self::insecure):
    /// what lacks is reported when a connection is made.
    pub fn from_url(url: &str) -> Result<Self, ConfigError> {
        let server = Endpoint::parse(url)?;
        let origin = format!("server {server}");
        Ok(Config {
            server,
            tls: TlsSettings::default(),
            token: TokenSource::None,
            basic: None,
            namespace: DEFAULT_NAMESPACE.to_owned(),
            http_version: HttpVersion::default(),
            pings: Pings::default(),
            origin,
            offline: false,
        })
    }

    /// No server at all: for a factory whose informers are all [fed](crate::factory::FactoryCore::fed). Whatever would be
    /// sent is an error that says so, and nothing is looked up or connected.
    ///
    /// # Panics
    ///
    /// Never: the address in its place can be read.
    pub fn offline() -> Self {
        // A name that never resolves (RFC 6761), should anybody look at the address.
        let config = Config::from_url("http://offline.invalid").expect("an address that can be read");
        Config { origin: "no server".to_owned(), offline: true, ..config }
    }

    /// True if this is [no server](Self::offline).
    pub fn is_offline(&self) -> bool {
        self.offline
    }

    /// The context called `context`, or the current one, of the kubeconfig at `path` (YAML or JSON).
    ///
    /// Rules are kubectl's: paths in it are relative to its folder, inline data wins over a path, and a server that is
    /// not https gets no credentials. A bare `host:port` is https if the cluster has a CA or is `insecure`.
    ///
    /// # Errors
    ///
    /// Names the file, the context, cluster or user, the field and the way out. Fields that this version does not
    /// support are errors: `proxy-url`, `exec`, `auth-provider`, `as`, `as-uid`, `as-groups`, `as-user-extra`.
    pub fn from_kubeconfig(path: impl AsRef<Path>, context: Option<&str>) -> Result<Self, ConfigError> {
        kubeconfig::Merged::read([path.as_ref()])?.config(context)
    }

    /// The service account of the pod that this process runs in.
    ///
    /// The token file is read again at most every [`TOKEN_FILE_PERIOD`].
    ///
    /// # Errors
    ///
    /// `KUBERNETES_SERVICE_HOST` or `KUBERNETES_SERVICE_PORT` is not set, or a file of the service account is missing.
    pub fn in_cluster() -> Result<Self, ConfigError> {
        in_cluster::config(&Surroundings::of_this_process())
    }

    /// What kubectl would use: the files of `KUBECONFIG`, else `~/.kube/config`, else the service account of the pod.
    ///
    /// `KUBECONFIG` is a list (`:` between, `;` on Windows). Files that do not exist are skipped. Of several files the
    /// first one that has a current context, or a cluster, user or context of a name, decides about it alone.
    ///
    /// # Errors
    ///
    /// As [`from_kubeconfig`](Self::from_kubeconfig) and [`in_cluster`](Self::in_cluster); if nothing was found, names
    /// every place that was looked at.
    pub fn load_default() -> Result<Self, ConfigError> {
        load(&Surroundings::of_this_process())
    }

    /// Sends `token` with every request.
    #[must_use]
    pub fn with_token(self, token: impl Into<Secret>) -> Self {
        self.with_token_source(TokenSource::Fixed(token.into()))
    }

    /// Sends the token that `source` gives when a request starts.
    #[must_use]
    pub fn with_token_source(mut self, source: impl Into<TokenSource>) -> Self {
        self.token = source.into();
        self
    }

    /// Sends user and password with every request, unless there is a token.
    #[must_use]
    pub fn with_basic(mut self, username: impl Into<String>, password: impl Into<Secret>) -> Self {
        self.basic = Some(BasicAuth { username: username.into(), password: password.into() });
        self
    }

    /// Trusts the certificates in `pem`, and no others, to vouch for the server.
    #[must_use]
    pub fn with_ca(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.tls.ca = Some(pem.into());
        self.tls.files.ca = None;
        self
    }

    /// As [`with_ca`](Self::with_ca), from a file that is read when a client connects and again when it changes.
    #[must_use]
    pub fn with_ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.tls.ca = None;
        self.tls.files.ca = Some(path.into());
        self
    }

    /// Shows a certificate (PEM: ours first, then its intermediates) and proves it with its key (PEM).
    #[must_use]
    pub fn with_client_certificate(mut self, certificate: impl Into<Vec<u8>>, key: impl Into<Secret>) -> Self {
        self.tls.client_cert = Some(certificate.into());
        self.tls.client_key = Some(key.into());
        self.tls.files.client_cert = None;
        self.tls.files.client_key = None;
        self
    }

    /// As [`with_client_certificate`](Self::with_client_certificate), from files that are read when a client connects
    /// and again when one of them changes.
    #[must_use]
    pub fn with_client_certificate_files(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.tls.client_cert = None;
        self.tls.client_key = None;
        self.tls.files.client_cert = Some(certificate.into());
        self.tls.files.client_key = Some(key.into());
        self
    }

    /// Expects this name in the server's certificate instead of the host of the address.
    #[must_use]
    pub fn with_server_name(mut self, name: impl Into<String>) -> Self {
        self.tls.server_name = Some(name.into());
        self
    }

    /// True: accepts any certificate of the server, and forgets the CA (as kubectl's flag does). Anybody on the way
    /// can then read the token: for tests.
    #[must_use]
    pub fn insecure(mut self, insecure: bool) -> Self {
        self.tls.insecure = insecure;
        if insecure {
            self.tls.ca = None;
            self.tls.files.ca = None;
        }
        self
    }

    /// The namespace for those who name none.
    #[must_use]
    pub fn with_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Speaks this HTTP, and no other.
    #[must_use]
    pub fn with_http_version(mut self, version: HttpVersion) -> Self {
        self.http_version = version;
        self
    }

    /// Asks a silent server of HTTP/2 sooner or later whether it is there.
    #[must_use]
    pub fn with_pings(mut self, pings: Pings) -> Self {
        self.pings = pings;
        self
    }

    /// The value of the `Authorization` header for a request that starts now: `Bearer …`, `Basic …`, or no header.
    ///
    /// `refresh` after a 401: a token file is then read again at once.
    ///
    /// # Errors
    ///
    /// A token file that cannot be read, or a token or user that cannot stand in a header.
    pub fn authorization(&self, refresh: bool) -> Result<Option<Secret>, ConfigError> {
        self.header(refresh).map_err(|error| error.at(&self.origin))
    }

    /// Looks at what can be known before any request: a token or user that can never stand in a header. What somebody
    /// else may still put right, a token in a file, is not looked at.
    ///
    /// # Errors
    ///
    /// As [`authorization`](Self::authorization) would answer each request.
    pub fn check(&self) -> Result<(), ConfigError> {
        match &self.token {
            TokenSource::None | TokenSource::Fixed(_) => self.authorization(false).map(drop),
            TokenSource::Shared(_) | TokenSource::File(_) => Ok(()),
        }
    }

    /// What the environment of this process asks for, other programs obey, and this version passes over: a line for each. It
    /// is `HTTPS_PROXY`, or `HTTP_PROXY` for an http server, unless `NO_PROXY` names the server or it is on this machine. A
    /// factory tells its observer ([`Observed::Ignored`](crate::observe::Observed::Ignored)).
    pub fn ignored(&self) -> Vec<String> {
        if self.is_offline() {
            return Vec::new();
        }
        proxy::ignored(&self.server, |name| std::env::var(name).ok()).into_iter().collect()
    }

    /// For a runtime that speaks HTTP/1.1 alone.
    ///
    /// # Errors
    ///
    /// If HTTP/2 is asked for.
    pub fn check_http1(&self, runtime: &str) -> Result<(), ConfigError> {
        if self.http_version != HttpVersion::Http2 {
            return Ok(());
        }
        let message = format!(
            "{runtime} speaks HTTP/1.1 only; choose HttpVersion::Auto or HttpVersion::Http1, or informer-tokio"
        );
        Err(ConfigError::new(ConfigErrorKind::Unsupported, message).at(&self.origin))
    }

    fn header(&self, refresh: bool) -> Result<Option<Secret>, ConfigError> {
        let fail = |message: String| Err(ConfigError::new(ConfigErrorKind::Credential, message));
        if let Some(token) = self.token.current(refresh)? {
            let token = token.expose();
            // A line break here would let a token file write headers of its own.
            return match token.bytes().position(|byte| !byte.is_ascii_graphic()) {
                _ if token.is_empty() => fail("the token is empty; give one or none".to_owned()),
                Some(at) => {
                    fail(format!("the token cannot be sent: byte {at} is no visible ASCII; put the bare token there"))
                }
                None => Ok(Some(Secret::new(format!("Bearer {token}")))),
            };
        }
        let Some(BasicAuth { username, password }) = &self.basic else { return Ok(None) };
        if username.contains(':') {
            return fail("the username has a colon, which basic authentication cannot send; use a token".to_owned());
        }
        let both = format!("{username}:{}", password.expose());
        let encoded = base64::engine::general_purpose::STANDARD.encode(both);
        Ok(Some(Secret::new(format!("Basic {encoded}"))))
    }

    /// What rustls needs to reach this server as its files are now, or none for http. It offers `http/1.1` alone.
    /// [`crate::tls::TlsSource`] follows the files.
    ///
    /// # Errors
    ///
    /// As [`crate::tls::client_config`], with the origin of this configuration in front.
    pub fn tls_config(&self) -> Result<Option<Arc<rustls::ClientConfig>>, ConfigError> {
        Ok(TlsSource::new(self, HttpVersion::Http1)?.map(|source| source.current()))
    }

    /// True if the server knows us by a certificate: then a connection is what it knows, not a request.
    pub fn has_certificate(&self) -> bool {
        self.server.is_tls() && (self.tls.client_cert.is_some() || self.tls.files.client_cert.is_some())
    }
}

/// The namespace of a context or service account that names none.
const DEFAULT_NAMESPACE: &str = "default";

/// What of the process and its machine decides about the default configuration; a test brings its own.
struct Surroundings {
    kubeconfig: Option<OsString>,
    home: Option<PathBuf>,
    service_host: Option<String>,
    service_port: Option<String>,
    /// Where the kubelet mounts the service account.
    service_account: PathBuf,
}

impl Surroundings {
    fn of_this_process() -> Self {
        let filled = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        Surroundings {
            kubeconfig: filled("KUBECONFIG"),
            home: filled("HOME").or_else(|| filled("USERPROFILE")).map(PathBuf::from),
            service_host: filled("KUBERNETES_SERVICE_HOST").and_then(|host| host.into_string().ok()),
            service_port: filled("KUBERNETES_SERVICE_PORT").and_then(|port| port.into_string().ok()),
            service_account: in_cluster::SERVICE_ACCOUNT.into(),
        }
    }

    fn is_pod(&self) -> bool {
        self.service_host.is_some() && self.service_port.is_some()
    }
}

fn load(around: &Surroundings) -> Result<Config, ConfigError> {
    let candidates: Vec<PathBuf> = match &around.kubeconfig {
        Some(list) => std::env::split_paths(list).filter(|path| !path.as_os_str().is_empty()).collect(),
        None => around.home.iter().map(|home| home.join(".kube").join("config")).collect(),
    };
    // What exists and cannot be read is an error, not a file to skip.
    let exists = |path: &&Path| !matches!(path.try_exists(), Ok(false));
    let files: Vec<&Path> = candidates.iter().map(PathBuf::as_path).filter(exists).collect();
    let merged = kubeconfig::Merged::read(files.iter().copied())?;
    if !merged.is_blank() {
        return merged.config(None);
    }
    if around.is_pod() {
        return in_cluster::config(around);
    }
    if !files.is_empty() {
        return merged.config(None);
    }
    let names = candidates.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    let places = match (&around.kubeconfig, candidates.as_slice()) {
        (Some(_), _) => format!("no file of KUBECONFIG exists ({names})"),
        (None, []) => "KUBECONFIG and HOME are not set".to_owned(),
        (None, _) => format!("KUBECONFIG is not set, there is no {names}"),
    };
    let message = format!(
        "no cluster is configured: {places}, and this is no pod (KUBERNETES_SERVICE_HOST is not set); \
         set KUBECONFIG to a kubeconfig, or give the address of a server"
    );
    Err(ConfigError::new(ConfigErrorKind::NotFound, message))
}

#[cfg(test)]
mod tests {
    use super::scratch::Scratch;
    use super::*;

    fn nowhere() -> Surroundings {
        Surroundings {
            kubeconfig: None,
            home: None,
            service_host: None,
            service_port: None,
            service_account: "/nonexistent".into(),
        }
    }

    fn kubeconfig(name: &str) -> String {
        format!(
            "current-context: {name}\n\
             contexts: [{{name: {name}, context: {{cluster: {name}}}}}]\n\
             clusters: [{{name: {name}, cluster: {{server: 'http://{name}:8080'}}}}]\n"
        )
    }

    #[test]
    fn the_environment_wins_over_the_home_folder_and_that_over_the_pod() {
        let dir = Scratch::new();
        dir.write(".kube/config", kubeconfig("home"));
        dir.write("sa/ca.crt", "pem");
        let listed = dir.write("listed", kubeconfig("listed"));
        let missing = dir.path().join("missing");
        let mut around = Surroundings {
            kubeconfig: Some(std::env::join_paths([&missing, &listed]).unwrap()),
            home: Some(dir.path().into()),
            service_host: Some("10.0.0.1".into()),
            service_port: Some("443".into()),
            service_account: dir.path().join("sa"),
        };
        assert_eq!(load(&around).unwrap().server.host(), "listed");
        around.kubeconfig = None;
        assert_eq!(load(&around).unwrap().server.host(), "home");
        around.home = Some(missing.clone());
        assert_eq!(load(&around).unwrap().server.host(), "10.0.0.1");
        around.kubeconfig = Some(missing.into());
        assert_eq!(load(&around).unwrap().server.host(), "10.0.0.1");
    }

    #[test]
    fn a_blank_kubeconfig_does_not_hide_the_pod() {
        let dir = Scratch::new();
        dir.write(".kube/config", "apiVersion: v1\nkind: Config\nclusters: []\ncurrent-context: ''\n");
        dir.write("sa/ca.crt", "pem");
        let mut around = Surroundings { home: Some(dir.path().into()), ..nowhere() };
        assert!(load(&around).unwrap_err().to_string().contains("has no current-context"));
        around.service_host = Some("10.0.0.1".into());
        around.service_port = Some("443".into());
        around.service_account = dir.path().join("sa");
        assert_eq!(load(&around).unwrap().server.host(), "10.0.0.1");
    }

    #[test]
    fn a_process_without_any_configuration_is_told_where_we_looked() {
        let error = load(&nowhere()).unwrap_err();
        assert_eq!(error.kind(), ConfigErrorKind::NotFound);
        assert_eq!(
            error.to_string(),
            "no cluster is configured: KUBECONFIG and HOME are not set, and this is no pod (KUBERNETES_SERVICE_HOST is \
             not set); set KUBECONFIG to a kubeconfig, or give the address of a server"
        );
        let error = load(&Surroundings { home: Some("/nonexistent".into()), ..nowhere() }).unwrap_err().to_string();
        assert!(error.contains("KUBECONFIG is not set, there is no /nonexistent/.kube/config, and"), "{error}");
        let error = load(&Surroundings { kubeconfig: Some("/no/a".into()), ..nowhere() }).unwrap_err().to_string();
        assert!(error.contains("no file of KUBECONFIG exists (/no/a)"), "{error}");
    }

    #[test]
    fn a_token_goes_before_a_password() {
        let config = Config::from_url("https://a").unwrap().with_basic("Aladdin", "open sesame");
        assert_eq!(config.authorization(false).unwrap().unwrap().expose(), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        let config = config.with_token("t");
        assert_eq!(config.authorization(true).unwrap().unwrap().expose(), "Bearer t");
    }

    #[test]
    fn a_token_that_would_write_headers_of_its_own_is_refused_and_not_shown() {
        let config = Config::from_url("https://a").unwrap();
        for token in ["MARKED\r\nhost: b", "MARKED token", "MARKED\u{e9}", "MARKED\n"] {
            let config = config.clone().with_token(token);
            let error = config.authorization(false).unwrap_err();
            assert_eq!(config.check().unwrap_err().to_string(), error.to_string(), "it is known before any request");
            assert_eq!(
                error.to_string(),
                "server https://a: the token cannot be sent: byte 6 is no visible ASCII; put the bare token there"
            );
        }
        let error = config.clone().with_token("").authorization(false).unwrap_err().to_string();
        assert!(error.contains("the token is empty"), "{error}");
        let error = config.with_basic("a:b", "MARKED").authorization(false).unwrap_err().to_string();
        assert!(error.contains("the username has a colon") && !error.contains("MARKED"), "{error}");
    }

    #[test]
    fn debug_shows_no_secret() {
        let config = Config::from_url("https://a").unwrap().with_basic("me", "MARKED").with_token("MARKED");
        let config = config.with_client_certificate("cert", "MARKED");
        let shared = config.clone().with_token_source(TokenCell::new("MARKED"));
        let file = config.clone().with_token_source(TokenSource::File(TokenFile::with_fallback("/t", "MARKED")));
        for config in [config, shared, file] {
            let text = format!("{config:#?}");
            assert!(!text.contains("MARKED") && text.contains("***"), "{text}");
        }
    }
}
