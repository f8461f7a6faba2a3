//! [`TlsSource`]: the rustls configuration of the next connection, as certificate files change.
//!
//! ```text
//! connection ──► current: stat ── unchanged ──► the configuration at hand
//!                          └─ changed, or TLS failed before ──► read ── usable ──► a new one
//!                                                                  └─ not ──► the old one; the next failure says why
//! ```
//!
//! Authorities and certificates are replaced under running programs: by the kubelet (`ca.crt` of the service account),
//! by cert-manager, by `kubeadm certs renew`. Looking costs one `stat` for each file and new connection; connections that
//! stand are not touched. A file that is half written, or a certificate whose key has not followed yet, changes nothing
//! until it is whole. No lock is held while files are read.
//!
//! ```
//! use informer_runtime::config::{Config, HttpVersion};
//! use informer_runtime::tls::TlsSource;
//!
//! let config = Config::from_url("https://10.0.0.1:6443")?.with_ca_file("/nonexistent/ca.crt");
//! let error = TlsSource::new(&config, HttpVersion::Auto).unwrap_err().to_string();
//! assert!(error.starts_with("server https://10.0.0.1:6443: certificate-authority: cannot read"), "{error}");
//! # Ok::<(), informer_runtime::config::ConfigError>(())
//! ```

use super::{TlsFiles, TlsSettings, client_config, explain, fail};
use crate::config::{Config, ConfigError, HttpVersion, MAX_CREDENTIAL_FILE, Secret, read_file};
use crate::sync::{Arc, Mutex};
use crate::trace;
use std::error::Error;
use std::fmt;
use std::path::Path;
use std::time::SystemTime;

/// What connections to one server need of TLS, kept up to date with the files that it comes from.
pub struct TlsSource {
    settings: TlsSettings,
    version: HttpVersion,
    origin: String,
    state: Mutex<State>,
}

struct State {
    config: Arc<rustls::ClientConfig>,
    /// What the files looked like before `config` was read from them.
    stamps: Stamps,
    /// TLS failed since: the files are read again, whatever they look like.
    suspect: bool,
    /// Why files that have changed are not in use.
    trouble: Option<ConfigError>,
}

impl TlsSource {
    /// Reads what the configuration names; none for a server without TLS. `version` is what is offered to the server.
    ///
    /// # Errors
    ///
    /// As [`client_config`]; a file that cannot be read, unless its content of an earlier time is in the configuration.
    /// The origin of the configuration stands in front.
    pub fn new(config: &Config, version: HttpVersion) -> Result<Option<Self>, ConfigError> {
        if !config.server.is_tls() {
            return Ok(None);
        }
        let settings = config.tls.clone();
        let stamps = stamps(&settings.files);
        let built = read(&settings).and_then(|read| client_config(&read, version));
        let (built, trouble) = match built {
            Ok(built) => (built, None),
            // What was read with the kubeconfig is as good as it was then; without that there is nothing to fall back on.
            Err(error) => match client_config(&settings, version) {
                Ok(built) if settings.files != TlsFiles::default() => (built, Some(error)),
                _ => return Err(error.at(&config.origin)),
            },
        };
        let stamps = if trouble.is_none() { stamps } else { Stamps::default() };
        let state = State { config: built, stamps, suspect: false, trouble };
        Ok(Some(TlsSource { settings, version, origin: config.origin.clone(), state: Mutex::new(state) }))
    }

    /// True if [`current`](Self::current) may read files, and so block.
    pub fn reads_files(&self) -> bool {
        self.settings.files != TlsFiles::default()
    }

    /// The configuration for a connection that begins now.
    pub fn current(&self) -> Arc<rustls::ClientConfig> {
        if !self.reads_files() {
            return Arc::clone(&self.state.lock().config);
        }
        // Taken before the files are read: what changes meanwhile is seen the next time.
        let stamps = stamps(&self.settings.files);
        {
            let state = self.state.lock();
            if state.stamps == stamps && !state.suspect {
                return Arc::clone(&state.config);
            }
        }
        let built = read(&self.settings).and_then(|read| client_config(&read, self.version));
        let mut state = self.state.lock();
        match built {
            Ok(config) => {
                let old = std::mem::replace(&mut *state, State { config, stamps, suspect: false, trouble: None });
                let config = Arc::clone(&state.config);
                drop(state);
                drop(old);
                config
            }
            Err(error) => {
                // `stamps` stays: the next connection tries again.
                let error = error.at(&self.origin);
                trace::credentials(&error);
                state.trouble = Some(error);
                Arc::clone(&state.config)
            }
        }
    }

    /// The files are read again for the next connection, changed or not: the server has refused what they held.
    pub fn suspect(&self) {
        self.state.lock().suspect = true;
    }

    /// One line about TLS that failed, as [`explain`], and about files that could not be used; they are
    /// [suspect](Self::suspect) then.
    pub fn failed(&self, error: &(dyn Error + 'static)) -> String {
        let mut state = self.state.lock();
        state.suspect = true;
        match &state.trouble {
            None => explain(error),
            Some(trouble) => format!("{} (older files are in use: {trouble})", explain(error)),
        }
    }
}

impl fmt::Debug for TlsSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSource").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// The settings with what their files hold now.
fn read(settings: &TlsSettings) -> Result<TlsSettings, ConfigError> {
    let bytes = |field: &str, path: &Path| read_file(path, MAX_CREDENTIAL_FILE).map_err(|error| error.at(field));
    let mut read = settings.clone();
    if let Some(path) = &settings.files.ca {
        read.ca = Some(bytes("certificate-authority", path)?);
    }
    if let Some(path) = &settings.files.client_cert {
        read.client_cert = Some(bytes("client-certificate", path)?);
    }
    if let Some(path) = &settings.files.client_key {
        // Not as a source: a UTF-8 error carries the bytes.
        let text = String::from_utf8(bytes("client-key", path)?)
            .map_err(|_| fail("client-key: is no PEM text (DER?); convert it with `openssl pkey -inform der`"))?;
        read.client_key = Some(Secret::new(text));
    }
    Ok(read)
}

/// What the three files look like from outside; none where there is no file.
type Stamps = [Option<Stamp>; 3];

/// Time and size tell a file that is written anew, the identity one that another took the place of.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    len: u64,
    /// Device, inode, and the time of the last change of any kind.
    #[cfg(unix)]
    identity: (u64, u64, i64, i64),
}

fn stamps(files: &TlsFiles) -> Stamps {
    [&files.ca, &files.client_cert, &files.client_key].map(|path| path.as_deref().and_then(stamp))
}

fn stamp(path: &Path) -> Option<Stamp> {
    #[cfg(unix)]
    use std::os::unix::fs::MetadataExt;
    // Follows links: a mounted volume swaps them.
    let found = std::fs::metadata(path).ok()?;
    Some(Stamp {
        modified: found.modified().ok(),
        len: found.len(),
        #[cfg(unix)]
        identity: (found.dev(), found.ino(), found.ctime(), found.ctime_nsec()),
    })
}
