//! Kubeconfig files: what is in them, how several are merged, and the [`Config`] of one context.
//!
//! The parser's own messages are never shown: they quote the file, and the file is full of secrets. An error gives the
//! line, the column and, if the line starts with a field that we know, its name.

use super::error::{ConfigError, ConfigErrorKind};
use super::{
    BasicAuth, Config, DEFAULT_NAMESPACE, Endpoint, HttpVersion, Pings, Scheme, Secret, TlsFiles, TlsSettings,
    TokenFile, TokenSource, file,
};
use base64::{DecodeError, Engine};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// How many names an error lists at most.
const MAX_LISTED: usize = 10;

#[derive(Deserialize, Default)]
struct Document {
    kind: Option<String>,
    #[serde(rename = "current-context")]
    current_context: Option<String>,
    clusters: Option<Vec<NamedCluster>>,
    users: Option<Vec<NamedUser>>,
    contexts: Option<Vec<NamedContext>>,
}

#[derive(Deserialize)]
struct NamedCluster {
    name: Option<String>,
    cluster: Option<Cluster>,
}

#[derive(Deserialize)]
struct NamedUser {
    name: Option<String>,
    user: Option<User>,
}

#[derive(Deserialize)]
struct NamedContext {
    name: Option<String>,
    context: Option<Context>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
struct Cluster {
    server: Option<String>,
    certificate_authority: Option<String>,
    certificate_authority_data: Option<String>,
    insecure_skip_tls_verify: Option<bool>,
    tls_server_name: Option<String>,
    proxy_url: Option<Secret>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
struct User {
    client_certificate: Option<String>,
    client_certificate_data: Option<String>,
    client_key: Option<String>,
    client_key_data: Option<Secret>,
    token: Option<Secret>,
    #[serde(rename = "tokenFile")]
    token_file: Option<String>,
    username: Option<String>,
    password: Option<Secret>,
    exec: Option<Exec>,
    auth_provider: Option<AuthProvider>,
    r#as: Option<String>,
    as_uid: Option<String>,
    as_groups: Option<Vec<String>>,
    as_user_extra: Option<BTreeMap<String, serde::de::IgnoredAny>>,
}

#[derive(Deserialize)]
struct Exec {
    command: Option<String>,
}

#[derive(Deserialize)]
struct AuthProvider {
    name: Option<String>,
}

#[derive(Deserialize, Default)]
struct Context {
    cluster: Option<String>,
    user: Option<String>,
    namespace: Option<String>,
}

/// The keys that an error may name; anything else at the start of a line could be a piece of a secret.
const FIELDS: &[&str] = &[
    "apiVersion",
    "kind",
    "current-context",
    "clusters",
    "users",
    "contexts",
    "name",
    "cluster",
    "user",
    "context",
    "server",
    "certificate-authority",
    "certificate-authority-data",
    "insecure-skip-tls-verify",
    "tls-server-name",
    "proxy-url",
    "client-certificate",
    "client-certificate-data",
    "client-key",
    "client-key-data",
    "token",
    "tokenFile",
    "username",
    "password",
    "exec",
    "auth-provider",
    "as",
    "namespace",
    "preferences",
];

/// Several files as one; the first one that has a thing decides about it alone, as kubectl has it.
pub(crate) struct Merged {
    files: Vec<PathBuf>,
    current: Option<String>,
    clusters: Table<Cluster>,
    users: Table<User>,
    contexts: Table<Context>,
}

/// By name: the file that an entry comes from (its place in `files`), and the entry.
type Table<T> = BTreeMap<String, (usize, T)>;

impl Merged {
    /// Reads and merges the files; all of them must exist.
    pub(crate) fn read<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<Self, ConfigError> {
        let mut merged = Merged {
            files: Vec::new(),
            current: None,
            clusters: Table::new(),
            users: Table::new(),
            contexts: Table::new(),
        };
        for path in paths {
            let number = merged.files.len();
            merged.files.push(path.to_owned());
            let document = file::read(path, file::MAX_KUBECONFIG)
                .map_err(|error| error.at("kubeconfig"))
                .and_then(|bytes| parse(&bytes).map_err(|error| error.at(merged.place(number))))?;
            let place = merged.place(number);
            let add = |error: ConfigError| error.at(&place);
            merged.current = merged.current.or(given(document.current_context));
            let clusters = document.clusters.unwrap_or_default().into_iter().map(|entry| (entry.name, entry.cluster));
            add_all(&mut merged.clusters, number, "cluster", clusters).map_err(add)?;
            let users = document.users.unwrap_or_default().into_iter().map(|entry| (entry.name, entry.user));
            add_all(&mut merged.users, number, "user", users).map_err(add)?;
            let contexts = document.contexts.unwrap_or_default().into_iter().map(|entry| (entry.name, entry.context));
            add_all(&mut merged.contexts, number, "context", contexts).map_err(add)?;
        }
        Ok(merged)
    }

    /// True if the files say nothing at all.
    pub(crate) fn is_blank(&self) -> bool {
        self.current.is_none() && self.clusters.is_empty() && self.users.is_empty() && self.contexts.is_empty()
    }

    /// The configuration of the context called `wanted`, or of the current one.
    pub(crate) fn config(mut self, wanted: Option<&str>) -> Result<Config, ConfigError> {
        let fail = |message: String| ConfigError::new(ConfigErrorKind::Field, message);
        let everywhere = match self.files.as_slice() {
            [one] => format!("kubeconfig {one:?}"),
            files => format!("kubeconfigs {files:?}"),
        };
        let Some(name) = wanted.map(str::to_owned).or_else(|| self.current.clone()) else {
            let message = format!(
                "has no current-context; choose one with `kubectl config use-context` or by name, there {}",
                listed(&self.contexts)
            );
            return Err(fail(message).at(everywhere));
        };
        let Some((number, context)) = self.contexts.remove(&name) else {
            let (field, way_out) = match wanted {
                Some(_) => ("", "name another one"),
                None => ("current-context: ", "choose one with `kubectl config use-context`"),
            };
            let message = format!("{field}there is no context {name:?}; {way_out}, there {}", listed(&self.contexts));
            return Err(fail(message).at(everywhere));
        };
        let place = format!("{}: context {name:?}", self.place(number));
        let Some(cluster_name) = given(context.cluster) else {
            return Err(fail("field cluster: is not set; name one of the clusters".to_owned()).at(place));
        };
        let Some((cluster_file, cluster)) = self.clusters.remove(&cluster_name) else {
            let message =
                format!("field cluster: there is no cluster {cluster_name:?}; there {}", listed(&self.clusters));
            return Err(fail(message).at(place));
        };
        let user = match given(context.user) {
            None => None,
            Some(user) => match self.users.remove(&user) {
                Some((file, entry)) => Some((user, file, entry)),
                None => {
                    let message = format!("field user: there is no user {user:?}; there {}", listed(&self.users));
                    return Err(fail(message).at(place));
                }
            },
        };
        let origin = match &user {
            Some((user, ..)) => format!("{place} (cluster {cluster_name:?}, user {user:?})"),
            None => format!("{place} (cluster {cluster_name:?}, no user)"),
        };
        let folder = |number: usize| self.files[number].parent().unwrap_or(Path::new(""));
        let (server, tls) = cluster
            .resolve(folder(cluster_file))
            .map_err(|error| error.at(format!("{}: cluster {cluster_name:?}", self.place(cluster_file))))?;
        let namespace = given(context.namespace).unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
        let (http_version, pings) = (HttpVersion::default(), Pings::default());
        let mut config = Config {
            server,
            tls,
            token: TokenSource::None,
            basic: None,
            namespace,
            http_version,
            pings,
            origin,
            offline: false,
        };
        // client-go reads no credentials for a server without TLS, so nothing of them can be wrong either.
        if let Some((user, number, entry)) = user
            && config.server.is_tls()
        {
            entry
                .resolve(folder(number), &mut config)
                .map_err(|error| error.at(format!("{}: user {user:?}", self.place(number))))?;
        }
        Ok(config)
    }

    fn place(&self, number: usize) -> String {
        format!("kubeconfig {:?}", self.files[number])
    }
}

impl Cluster {
    fn resolve(self, folder: &Path) -> Result<(Endpoint, TlsSettings), ConfigError> {
        if self.proxy_url.is_some_and(|url| !url.is_empty()) {
            let message =
                "field proxy-url: proxies are not supported yet; remove it if the server can be reached directly";
            return Err(ConfigError::new(ConfigErrorKind::Unsupported, message));
        }
        let Some(server) = given(self.server) else {
            let message = "field server: is not set; write https://host:port";
            return Err(ConfigError::new(ConfigErrorKind::Field, message));
        };
        let insecure = self.insecure_skip_tls_verify.unwrap_or(false);
        let ca_data = given(self.certificate_authority_data);
        let ca_path = given(self.certificate_authority);
        let scheme = if insecure || ca_data.is_some() || ca_path.is_some() { Scheme::Https } else { Scheme::Http };
        let server = Endpoint::parse_with(&server, Some(scheme)).map_err(|error| error.at("field server"))?;
        let ca = if server.is_tls() {
            bytes_of("certificate-authority", ca_data.as_deref(), ca_path.as_deref(), folder)?
        } else {
            None
        };
        if insecure && ca.is_some() {
            let message = "fields certificate-authority and insecure-skip-tls-verify contradict each other; remove one";
            return Err(ConfigError::new(ConfigErrorKind::Field, message));
        }
        let server_name = given(self.tls_server_name);
        let files = TlsFiles {
            // Inline data wins over a path, and nobody changes it.
            ca: ca_path.filter(|_| ca.is_some() && ca_data.is_none()).map(|path| folder.join(path)),
            ..TlsFiles::default()
        };
        Ok((server, TlsSettings { ca, server_name, insecure, files, ..TlsSettings::default() }))
    }
}

impl User {
    fn resolve(self, folder: &Path, config: &mut Config) -> Result<(), ConfigError> {
        let unsupported = |message: String| Err(ConfigError::new(ConfigErrorKind::Unsupported, message));
        let fail = |message: &str| Err(ConfigError::new(ConfigErrorKind::Field, message));
        if let Some(exec) = self.exec {
            let command = exec.command.unwrap_or_default();
            return unsupported(format!(
                "field exec: credential plugins ({command:?}) are not supported yet; run it yourself and give the token \
                 as token or tokenFile, or use a client certificate"
            ));
        }
        if let Some(provider) = self.auth_provider {
            let name = provider.name.unwrap_or_default();
            return unsupported(format!(
                "field auth-provider: {name:?} is not supported (kubectl dropped auth providers in 1.26); give a token, \
                 a tokenFile or a client certificate"
            ));
        }
        let impersonation = [
            ("as", given(self.r#as).is_some()),
            ("as-uid", given(self.as_uid).is_some()),
            ("as-groups", self.as_groups.is_some_and(|groups| !groups.is_empty())),
            ("as-user-extra", self.as_user_extra.is_some_and(|extra| !extra.is_empty())),
        ];
        if let Some((field, _)) = impersonation.into_iter().find(|(_, is_set)| *is_set) {
            return unsupported(format!(
                "field {field}: impersonation is not supported yet; use a user that has the rights itself"
            ));
        }

        let token = self.token.filter(|token| !token.is_empty());
        config.token = match (given(self.token_file).map(|path| folder.join(path)), token) {
            (Some(path), Some(token)) => TokenSource::File(TokenFile::with_fallback(path, token)),
            (Some(path), None) => TokenSource::file(path),
            (None, Some(token)) => TokenSource::Fixed(token),
            (None, None) => TokenSource::None,
        };
        let password = self.password.filter(|password| !password.is_empty());
        config.basic = match (given(self.username), password) {
            (None, None) => None,
            (None, Some(_)) => return fail("field password: there is no username for it; set username or remove it"),
            (Some(username), password) => {
                Some(BasicAuth { username, password: password.unwrap_or_else(|| Secret::new("")) })
            }
        };
        if config.basic.is_some() && !matches!(config.token, TokenSource::None) {
            return fail("has both a token and a username; keep one");
        }

        let certificate_data = given(self.client_certificate_data);
        let certificate_path = given(self.client_certificate);
        let certificate =
            bytes_of("client-certificate", certificate_data.as_deref(), certificate_path.as_deref(), folder)?;
        let key_data = self.client_key_data.filter(|data| !data.is_empty());
        let key_path = given(self.client_key);
        let key = bytes_of("client-key", key_data.as_ref().map(Secret::expose), key_path.as_deref(), folder)?;
        match (&certificate, &key) {
            (Some(_), None) => {
                return fail("has a client-certificate and no client-key; add client-key or client-key-data");
            }
            (None, Some(_)) => {
                return fail(
                    "has a client-key and no client-certificate; add client-certificate or client-certificate-data",
                );
            }
            (Some(_), Some(_)) | (None, None) => {}
        }
        let file = |path: Option<String>| path.map(|path| folder.join(path));
        config.tls.files.client_cert = file(certificate_path).filter(|_| certificate_data.is_none());
        config.tls.files.client_key = file(key_path).filter(|_| key_data.is_none());
        config.tls.client_cert = certificate;
        config.tls.client_key = match key.map(String::from_utf8) {
            None => None,
            Some(Ok(text)) => Some(Secret::new(text)),
            // Not as a source: a UTF-8 error carries the bytes.
            Some(Err(_)) => {
                return fail("field client-key: is no PEM text (DER?); convert it with `openssl pkey -inform der`");
            }
        };
        Ok(())
    }
}

/// An empty string is no string, as in Go's `omitempty`.
fn given(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// The content of `field`-data, else of the file that `field` names, else nothing.
fn bytes_of(
    field: &str,
    data: Option<&str>,
    path: Option<&str>,
    folder: &Path,
) -> Result<Option<Vec<u8>>, ConfigError> {
    if let Some(data) = data {
        let dense: String = data.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        // The decoder's error is no source: it shows a byte of what may be a key.
        let decoded = base64::engine::general_purpose::STANDARD.decode(dense);
        return decoded.map(Some).map_err(|error| {
            let what = match error {
                DecodeError::InvalidByte(at, _) => format!("character {at}, white space not counted, is wrong"),
                DecodeError::InvalidLength(_) | DecodeError::InvalidLastSymbol { .. } | DecodeError::InvalidPadding => {
                    "it is cut off or badly padded".to_owned()
                }
            };
            let message = format!("field {field}-data: is no base64 ({what}); encode the PEM file with `base64 -w0`");
            ConfigError::new(ConfigErrorKind::Field, message)
        });
    }
    let Some(path) = path else { return Ok(None) };
    file::read(&folder.join(path), file::MAX_CREDENTIAL_FILE)
        .map(Some)
        .map_err(|error| error.at(format!("field {field}")))
}

/// Puts the named entries of one file into a table, unless an earlier file had them.
fn add_all<T>(
    table: &mut Table<T>,
    file: usize,
    what: &str,
    entries: impl Iterator<Item = (Option<String>, Option<T>)>,
) -> Result<(), ConfigError> {
    let fail = |message: String| Err(ConfigError::new(ConfigErrorKind::Field, message));
    for (at, (name, entry)) in entries.enumerate() {
        let Some(name) = given(name) else {
            return fail(format!("{what} number {} has no name; give it one", at + 1));
        };
        let Some(entry) = entry else {
            return fail(format!("{what} {name:?}: field {what}: is not set; fill or remove the entry"));
        };
        match table.entry(name) {
            Entry::Vacant(slot) => {
                slot.insert((file, entry));
            }
            Entry::Occupied(slot) if slot.get().0 == file => {
                return fail(format!("{what} {:?} stands there twice; remove one", slot.key()));
            }
            Entry::Occupied(_) => {}
        }
    }
    Ok(())
}

/// `are "a", "b" and 3 more`.
fn listed<T>(table: &Table<T>) -> String {
    if table.is_empty() {
        return "are none".to_owned();
    }
    let shown: Vec<String> = table.keys().take(MAX_LISTED).map(|name| format!("{name:?}")).collect();
    let mut text = format!("{} {}", if table.len() == 1 { "is" } else { "are" }, shown.join(", "));
    if table.len() > MAX_LISTED {
        let _ = write!(text, " and {} more", table.len() - MAX_LISTED);
    }
    text
}

fn parse(bytes: &[u8]) -> Result<Document, ConfigError> {
    let fail = |message: String| ConfigError::new(ConfigErrorKind::Syntax, message);
    let Ok(text) = std::str::from_utf8(bytes) else {
        let what =
            if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) { "UTF-16" } else { "no text" };
        return Err(fail(format!("is {what}; save it as UTF-8")));
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // JSON is nearly YAML: not with tabs, and escapes of letters beyond the 16 bits differ. What is JSON is read as such.
    let json = if text.trim_start().starts_with('{') { serde_json::from_str(text).ok() } else { None };
    let document: Document = match json {
        Some(document) => document,
        None if text.trim().is_empty() => Document::default(),
        None => {
            let options = serde_saphyr::options! { with_snippet: false };
            let parsed: Result<Option<Document>, _> = serde_saphyr::from_str_with_options(text, options);
            parsed.map_err(|error| fail(describe(text, error.location())))?.unwrap_or_default()
        }
    };
    if let Some(kind) = &document.kind
        && kind != "Config"
    {
        return Err(fail("field kind: is not Config, so this is no kubeconfig; give another file".to_owned()));
    }
    Ok(document)
}

/// What to say about a place that the parser did not like, without a word of the file but a known field.
fn describe(text: &str, location: Option<serde_saphyr::Location>) -> String {
    let Some(location) = location.filter(|location| location.line() > 0) else {
        return "is no YAML or JSON of a kubeconfig; check it with `kubectl config view`".to_owned();
    };
    let line = usize::try_from(location.line()).ok().and_then(|line| text.lines().nth(line - 1)).unwrap_or("");
    let key =
        line.trim_start().trim_start_matches("- ").split(':').next().unwrap_or("").trim().trim_matches(['"', '\'']);
    let field = match FIELDS.iter().find(|field| **field == key) {
        Some(field) => format!("field {field} "),
        None => String::new(),
    };
    format!(
        "{field}(line {}, column {}): does not have the form of a kubeconfig; check the indentation, the quotes and that \
         no key stands there twice",
        location.line(),
        location.column()
    )
}

#[cfg(test)]
mod tests {
    use super::super::scratch::Scratch;
    use super::*;
    use std::error::Error;

    /// A kubeconfig of one context "ctx" (cluster "cl", user "me") with these fields.
    fn single(cluster: &str, user: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: ctx\n\
             contexts:\n- name: ctx\n  context:\n    cluster: cl\n    user: me\n    namespace: web\n\
             clusters:\n- name: cl\n  cluster: {{{cluster}}}\n\
             users:\n- name: me\n  user: {{{user}}}\n"
        )
    }

    const HTTPS: &str = "server: 'https://10.0.0.1:6443'";

    fn load(text: &str) -> Result<Config, ConfigError> {
        load_context(text, None)
    }

    fn load_context(text: &str, context: Option<&str>) -> Result<Config, ConfigError> {
        let dir = Scratch::new();
        let path = dir.write("config", text);
        let place = format!("kubeconfig {path:?}: ");
        Config::from_kubeconfig(&path, context).map_err(|error| {
            let text = error.to_string();
            assert!(text.starts_with(&place), "every error names its file: {text}");
            ConfigError::new(error.kind(), text.replace(&place, ""))
        })
    }

    fn message(text: &str) -> String {
        load(text).unwrap_err().to_string()
    }

    fn user_error(user: &str) -> String {
        let text = message(&single(HTTPS, user));
        text.strip_prefix("user \"me\": ").unwrap_or_else(|| panic!("every error names the user: {text}")).to_owned()
    }

    fn cluster_error(cluster: &str) -> String {
        let text = message(&single(cluster, ""));
        text.strip_prefix("cluster \"cl\": ")
            .unwrap_or_else(|| panic!("every error names the cluster: {text}"))
            .to_owned()
    }

    #[test]
    fn a_context_leads_to_its_cluster_user_and_namespace() {
        let cluster = "server: 'https://10.0.0.1/k8s', tls-server-name: api, certificate-authority-data: Q0E=";
        let config = load(&single(cluster, "token: t0")).unwrap();
        assert_eq!(config.server.to_string(), "https://10.0.0.1/k8s");
        assert_eq!(config.tls.ca.as_deref(), Some(&b"CA"[..]));
        assert_eq!(config.tls.server_name.as_deref(), Some("api"));
        assert_eq!(config.namespace, "web");
        assert_eq!(config.authorization(false).unwrap().unwrap().expose(), "Bearer t0");
        assert!(config.origin.ends_with(r#"context "ctx" (cluster "cl", user "me")"#), "{}", config.origin);
    }

    #[test]
    fn yaml_1_1_booleans_and_numbers_for_tokens_are_read_as_people_mean_them() {
        let config = load(&single("server: 'https://a', insecure-skip-tls-verify: yes", "token: 0123")).unwrap();
        assert!(config.tls.insecure);
        assert_eq!(config.authorization(false).unwrap().unwrap().expose(), "Bearer 0123");
    }

    #[test]
    fn json_works_with_tabs_and_a_byte_order_mark() {
        let text = "\u{feff}{\n\t\"current-context\": \"c\",\n\t\"contexts\": [{\"name\": \"c\", \"context\": {\"cluster\": \"k\"}}],\
                    \n\t\"clusters\": [{\"name\": \"k\", \"cluster\": {\"server\": \"http://a\"}}], \"users\": null}";
        let config = load(text).unwrap();
        assert_eq!((config.server.host(), config.namespace.as_str()), ("a", "default"));
    }

    #[test]
    fn fields_we_do_not_know_are_passed_over() {
        let text = single(HTTPS, "token: t, extensions: [{name: x, extension: {a: [1]}}]")
            + "preferences: {}\nnew: [1, {a: b}]\n";
        assert!(load(&text).is_ok());
    }

    #[test]
    fn another_context_can_be_chosen_by_name() {
        let text = "contexts: [{name: a, context: {cluster: a}}, {name: b, context: {cluster: b}}]\n\
                    clusters: [{name: a, cluster: {server: 'http://a'}}, {name: b, cluster: {server: 'http://b'}}]\n";
        assert_eq!(load_context(text, Some("b")).unwrap().server.host(), "b");
        let error = load_context(text, Some("c")).unwrap_err().to_string();
        assert_eq!(error, r#"there is no context "c"; name another one, there are "a", "b""#);
        assert_eq!(
            message(text),
            "has no current-context; choose one with `kubectl config use-context` or by name, there are \"a\", \"b\""
        );
    }

    #[test]
    fn names_that_point_nowhere_are_named() {
        let text = "current-context: x\ncontexts: [{name: ctx, context: {cluster: cl}}]\n";
        assert_eq!(
            message(text),
            r#"current-context: there is no context "x"; choose one with `kubectl config use-context`, there is "ctx""#
        );
        let text = text.replace("current-context: x", "current-context: ctx");
        assert_eq!(message(&text), r#"context "ctx": field cluster: there is no cluster "cl"; there are none"#);
        let text = single(HTTPS, "").replace("user: me", "user: you");
        assert_eq!(message(&text), r#"context "ctx": field user: there is no user "you"; there is "me""#);
        let text = single(HTTPS, "").replace("    cluster: cl\n", "");
        assert_eq!(message(&text), r#"context "ctx": field cluster: is not set; name one of the clusters"#);
        let many: String = (0..14).map(|n| format!("- {{name: c{n:02}, context: {{cluster: x}}}}\n")).collect();
        assert!(message(&format!("contexts:\n{many}")).ends_with(r#""c09" and 4 more"#));
    }

    #[test]
    fn an_entry_without_name_or_content_or_twice_is_named() {
        let text = single(HTTPS, "");
        assert_eq!(message(&text.replace("- name: cl", "- x: cl")), "cluster number 1 has no name; give it one");
        assert_eq!(message("users: [{name: me}]"), "user \"me\": field user: is not set; fill or remove the entry");
        let twice = "users: [{name: me, user: {}}, {name: me, user: {}}]";
        assert_eq!(message(twice), "user \"me\" stands there twice; remove one");
    }

    #[test]
    fn clusters_that_cannot_be_used_say_why() {
        assert_eq!(cluster_error(""), "field server: is not set; write https://host:port");
        assert!(
            cluster_error("server: 'ftp://a'").starts_with("field server: server address \"ftp://a\": the scheme must")
        );
        let error = cluster_error(&format!("{HTTPS}, proxy-url: 'http://u:MARKED@proxy'"));
        assert!(error.starts_with("field proxy-url: proxies are not supported yet"), "{error}");
        assert!(!error.contains("MARKED"), "{error}");
        let error =
            cluster_error(&format!("{HTTPS}, certificate-authority-data: 'Q0E=', insecure-skip-tls-verify: true"));
        assert!(error.contains("contradict each other; remove one"), "{error}");
        let error = cluster_error(&format!("{HTTPS}, certificate-authority-data: 'Q0*='"));
        assert!(error.starts_with("field certificate-authority-data: is no base64 (character 2, "), "{error}");
        let error = cluster_error(&format!("{HTTPS}, certificate-authority: missing.pem"));
        assert!(
            error.starts_with("field certificate-authority: cannot read ") && error.contains("missing.pem"),
            "{error}"
        );
    }

    #[test]
    fn a_bare_host_and_port_follows_the_cluster() {
        assert_eq!(load(&single("server: 'a:8080'", "")).unwrap().server.to_string(), "http://a:8080");
        let tls = "server: 'a:8080', insecure-skip-tls-verify: true";
        assert_eq!(load(&single(tls, "")).unwrap().server.to_string(), "https://a:8080");
    }

    #[test]
    fn users_that_cannot_be_used_say_why() {
        let cases = [
            (
                "exec: {apiVersion: v1, command: aws, args: [MARKED]}",
                "field exec: credential plugins (\"aws\") are not",
            ),
            ("auth-provider: {name: gcp, config: {x: MARKED}}", "field auth-provider: \"gcp\" is not supported"),
            ("token: MARKED, as: root", "field as: impersonation is not supported yet"),
            ("token: MARKED, as-groups: [g]", "field as-groups: impersonation is not supported yet"),
            ("token: MARKED, as-user-extra: {a: [b]}", "field as-user-extra: impersonation is not supported yet"),
            ("token: MARKED, username: me, password: MARKED", "has both a token and a username; keep one"),
            ("password: MARKED", "field password: there is no username for it"),
            ("client-key-data: TUFSS0VE", "has a client-key and no client-certificate"),
            ("client-certificate-data: Q0E=", "has a client-certificate and no client-key"),
            (
                "client-certificate-data: Q0E=, client-key-data: 'MARKED!'",
                "field client-key-data: is no base64 (character 6",
            ),
            (
                "client-certificate-data: Q0E=, client-key-data: MARKE",
                "field client-key-data: is no base64 (it is cut off",
            ),
            ("client-certificate-data: Q0E=, client-key-data: /w==", "field client-key: is no PEM text (DER?)"),
            ("client-certificate: none.crt, client-key: none.key", "field client-certificate: cannot read "),
        ];
        for (user, want) in cases {
            let error = user_error(user);
            assert!(error.starts_with(want), "{user}: {error}");
            assert!(!error.contains("MARKED"), "{error}");
        }
    }

    #[test]
    fn empty_fields_are_no_fields() {
        let user = "token: '', tokenFile: '', username: '', password: '', client-key-data: '', as: '', as-groups: []";
        let config = load(&single(&format!("{HTTPS}, proxy-url: ''"), user)).unwrap();
        assert!(config.authorization(false).unwrap().is_none());
        assert!(config.tls.client_key.is_none());
    }

    #[test]
    fn passwords_are_sent_as_basic() {
        let config = load(&single(HTTPS, "username: Aladdin, password: open sesame")).unwrap();
        assert_eq!(config.authorization(false).unwrap().unwrap().expose(), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
    }

    #[test]
    fn a_server_without_tls_gets_no_credentials() {
        let config = load(&single("server: 'http://a'", "token: t, client-key: none.key")).unwrap();
        assert!(config.authorization(false).unwrap().is_none());
        assert!(config.tls_config().unwrap().is_none());
    }

    #[test]
    fn paths_are_relative_to_the_folder_of_the_file_and_base64_may_have_white_space() {
        let dir = Scratch::new();
        dir.write("pki/ca.crt", "ca");
        dir.write("pki/me.crt", "cert");
        dir.write("pki/token", "from the file\n");
        let user = "client-certificate: pki/me.crt, client-key: unread, client-key-data: \"S0 V\\n Z\", tokenFile: pki/token, token: spare";
        let path = dir.write("config", single(&format!("{HTTPS}, certificate-authority: pki/ca.crt"), user));
        let config = Config::from_kubeconfig(&path, None).unwrap();
        assert_eq!(config.tls.ca.as_deref(), Some(&b"ca"[..]));
        assert_eq!(config.tls.client_cert.as_deref(), Some(&b"cert"[..]));
        assert_eq!(config.tls.client_key.as_ref().unwrap().expose(), "KEY");
        assert_eq!(config.token.current(false).unwrap().unwrap().expose(), "from the file");
    }

    #[test]
    fn of_several_files_the_first_that_has_an_entry_decides() {
        let dir = Scratch::new();
        dir.write("b/ca.crt", "of b");
        let first = dir.write("a/config", "current-context: ctx\nusers: [{name: me, user: {token: first}}]\n");
        let second = dir
            .write("b/config", single(&format!("{HTTPS}, certificate-authority: ca.crt"), "token: second, as: root"));
        let merged = Merged::read([first.as_path(), second.as_path()]).unwrap();
        let config = merged.config(None).unwrap();
        assert_eq!(config.authorization(false).unwrap().unwrap().expose(), "Bearer first");
        assert_eq!(config.tls.ca.as_deref(), Some(&b"of b"[..]));
        let merged = Merged::read([second.as_path(), first.as_path()]).unwrap();
        let error = merged.config(None).unwrap_err().to_string();
        assert!(error.starts_with(&format!("kubeconfig {second:?}: user \"me\": field as: ")), "{error}");
    }

    #[test]
    fn what_is_no_kubeconfig_is_refused_by_line_and_field() {
        assert!(message("").starts_with("has no current-context") && message(" \n").ends_with("there are none"));
        assert!(message("kind: Pod\napiVersion: v1\n").starts_with("field kind: is not Config"));
        let error = message(&single(HTTPS, "").replace("cluster: {", "cluster: [").replace("6443'}", "6443']"));
        assert!(error.starts_with("field cluster (line 12, column "), "{error}");
        let error = message("current-context: a\ncurrent-context: b\n");
        assert!(error.starts_with("field current-context (line 2, column 1)"), "{error}");
        let error = message(&single("server: 'https://a', insecure-skip-tls-verify: maybe", ""));
        assert!(error.contains("(line 12, column "), "{error}");
        let dir = Scratch::new();
        let path = dir.write("config", b"\xff\xfea\0");
        let error = Config::from_kubeconfig(&path, None).unwrap_err().to_string();
        assert_eq!(error, format!("kubeconfig {path:?}: is UTF-16; save it as UTF-8"));
        let error = Config::from_kubeconfig("/nonexistent/config", None).unwrap_err();
        assert_eq!(error.kind(), ConfigErrorKind::File);
        assert!(error.to_string().starts_with("kubeconfig: cannot read \"/nonexistent/config\": "), "{error}");
        assert!(error.source().is_none(), "its text is all there is");
    }

    #[test]
    fn no_error_shows_a_secret_wherever_the_file_breaks() {
        let good = "apiVersion: v1\nkind: Config\ncurrent-context: ctx\n\
            contexts:\n- name: ctx\n  context: {cluster: cl, user: me}\n\
            clusters:\n- name: cl\n  cluster:\n    server: https://a\n    insecure-skip-tls-verify: true\n\
            users:\n- name: me\n  user:\n    token: MARKED-token\n    client-key-data: MARKED+key\n    password: MARKED-password\n    exec:\n      env:\n      - MARKED-env\n";
        let dir = Scratch::new();
        let mut refused = 0;
        let breaks =
            ["\t", "[", "{", "}", "\"", "'", "*", "&", "!x ", "- ", "\0", "<<: ", "? ", ": ", "| ", "%", "MARKED-x: "];
        for (at, _) in good.char_indices() {
            for with in breaks {
                let mut text = good.to_owned();
                text.insert_str(at, with);
                let Err(error) = Config::from_kubeconfig(dir.write("c", &text), None) else { continue };
                refused += 1;
                let mut link: Option<&dyn Error> = Some(&error);
                while let Some(error) = link {
                    let shown = format!("{error} {error:?} {error:#?}");
                    assert!(!shown.contains("MARKED"), "{with:?} at {at}: {shown}");
                    link = error.source();
                }
            }
        }
        assert!(refused > 1_000, "the breaks do break: {refused}");
        // Wrong types: the parser would quote the value.
        for text in [
            "users: MARKED",
            "users: [MARKED]",
            "users: [{name: a, user: MARKED}]",
            "[MARKED]",
            "MARKED",
            "MARKED: [",
            "clusters: [{name: a, cluster: {insecure-skip-tls-verify: MARKED}}]",
            "{\"users\": \"MARKED\"}",
            "users: [{name: a, user: {token: [MARKED]}}]",
            "a: *MARKED",
            "users: [{name: a, user: {as-groups: MARKED}}]",
        ] {
            let error = load(text).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("MARKED"), "{error}");
        }
    }

    #[test]
    fn hostile_files_end_in_errors() {
        let deep = format!("users: {}", "[".repeat(50_000));
        assert_eq!(load(&deep).unwrap_err().kind(), ConfigErrorKind::Syntax);
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for n in 1..12 {
            let alias = format!("*a{}", n - 1);
            bomb += &format!("a{n}: &a{n} [{}]\n", [alias.as_str(); 10].join(", "));
        }
        assert_eq!(load(&bomb).unwrap_err().kind(), ConfigErrorKind::Syntax);
        let deep = format!("{{\"users\": {}", "[".repeat(50_000));
        assert_eq!(load(&deep).unwrap_err().kind(), ConfigErrorKind::Syntax);
    }
}
