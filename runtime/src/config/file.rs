//! Reading small files with a bound.

use super::error::{ConfigError, ConfigErrorKind};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The largest kubeconfig that is read: thousands of clusters with their certificates inline fit.
pub const MAX_KUBECONFIG: u64 = 16 * 1024 * 1024;

/// The largest certificate, key or token file that is read: a bundle of every public CA is a quarter of it.
pub const MAX_CREDENTIAL_FILE: u64 = 1024 * 1024;

/// The whole file, or an error that names it; never more than `limit` bytes.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Vec<u8>, ConfigError> {
    let fail = |error: std::io::Error| {
        let kind = error.kind();
        let way_out = if kind == std::io::ErrorKind::NotFound {
            "; check the path"
        } else if kind == std::io::ErrorKind::PermissionDenied {
            "; give this user the right to read it"
        } else {
            ""
        };
        ConfigError::new(ConfigErrorKind::File, format!("cannot read {path:?}: {error}{way_out}"))
    };
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes)).map_err(fail)?;
    if bytes.len() as u64 > limit {
        let message = format!("{path:?} is larger than {limit} bytes; is it the right file?");
        return Err(ConfigError::new(ConfigErrorKind::File, message));
    }
    Ok(bytes)
}
