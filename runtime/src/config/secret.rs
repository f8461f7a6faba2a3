//! Text that must not be seen.

use crate::sync::Arc;
use std::fmt;

/// A token, password or private key: `Debug` and `Display` show `***`, and only [`expose`](Secret::expose) shows more.
///
/// Clones share one copy. The memory is not wiped when the last one goes.
///
/// ```
/// use informer_runtime::config::Secret;
///
/// let secret = Secret::new("swordfish");
/// assert_eq!(format!("{secret} {secret:?}"), "*** ***");
/// assert_eq!(secret.expose(), "swordfish");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Takes `text` as a secret, byte for byte.
    pub fn new(text: impl Into<String>) -> Self {
        Secret(Arc::from(text.into()))
    }

    /// The text itself. Do not log it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Secret::new(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Secret::new(text)
    }
}

impl<'de> serde::Deserialize<'de> for Secret {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Secret::new)
    }
}
