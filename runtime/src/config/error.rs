//! What can be wrong with a configuration.

use crate::sync::Arc;
use std::error::Error;
use std::fmt;

/// What a [`ConfigError`] is about, for code that wants to tell the cases apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ConfigErrorKind {
    /// No configuration was found at any of the places that were looked at.
    NotFound,
    /// A file could not be read.
    File,
    /// A kubeconfig is no YAML or JSON of the expected shape.
    Syntax,
    /// A field has a value that cannot be used, or a name that points nowhere.
    Field,
    /// The configuration asks for something that this version does not do.
    Unsupported,
    /// The address of the server cannot be used.
    Url,
    /// A certificate or key cannot be used.
    Tls,
    /// A token or password cannot be used or obtained.
    Credential,
}

/// A configuration that cannot be used: one line that names the thing, the place and the way out, never a secret.
#[derive(Clone)]
pub struct ConfigError {
    kind: ConfigErrorKind,
    message: String,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl ConfigError {
    pub(crate) fn new(kind: ConfigErrorKind, message: impl Into<String>) -> Self {
        ConfigError { kind, message: message.into(), source: None }
    }

    /// `source` is shown to users by error reporters, behind the message: only what cannot carry a secret may go in, and
    /// nothing that the message says.
    pub(crate) fn caused_by(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Puts the place in front: `kubeconfig "a": user "b"`.
    pub(crate) fn at(mut self, place: impl fmt::Display) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }

    /// What it is about.
    pub fn kind(&self) -> ConfigErrorKind {
        self.kind
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for ConfigError {
    /// The text of Display: `main` prints errors so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for ConfigError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|source| &**source as &(dyn Error + 'static))
    }
}
