//! Where the bearer token of a request comes from.
//!
//! A token is read at the start of each request: a stream that is open is not torn when the token changes, and the
//! next request carries the new one. A file is read again at most every [`TOKEN_FILE_PERIOD`] (service-account tokens
//! are replaced by the kubelet long before they expire), and at once when the server has refused the old token.

use super::error::{ConfigError, ConfigErrorKind};
use super::file;
use super::secret::Secret;
use crate::sync::{Arc, Mutex};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long the content of a token file is used before it is read again; client-go takes the same minute, less ten seconds.
pub const TOKEN_FILE_PERIOD: Duration = Duration::from_secs(60);

/// Where the bearer token comes from.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum TokenSource {
    /// There is none: anonymous, a client certificate, or a password.
    #[default]
    None,
    /// One that does not change.
    Fixed(Secret),
    /// One that somebody else replaces while we run.
    Shared(TokenCell),
    /// One in a file that somebody else writes.
    File(TokenFile),
}

impl TokenSource {
    /// A token that is read from `path`, as [`TokenFile::new`].
    pub fn file(path: impl Into<PathBuf>) -> Self {
        TokenSource::File(TokenFile::new(path))
    }

    /// The token to send now, or none. `force` after the server refused the last one: a file is read again at once.
    ///
    /// # Errors
    ///
    /// A token file that cannot be read or is empty, if no earlier content is at hand or if `force` asks for a new one.
    pub fn current(&self, force: bool) -> Result<Option<Secret>, ConfigError> {
        match self {
            TokenSource::None => Ok(None),
            TokenSource::Fixed(token) => Ok(Some(token.clone())),
            TokenSource::Shared(cell) => Ok(cell.get()),
            TokenSource::File(file) => file.current_at(Instant::now(), force).map(Some),
        }
    }
}

/// A token that can be replaced while informers run; clones share it.
///
/// ```
/// use informer_runtime::config::{Config, TokenCell};
///
/// let cell = TokenCell::new("first");
/// let config = Config::from_url("https://10.0.0.1")?.with_token_source(cell.clone());
/// cell.set("second");
/// assert_eq!(config.authorization(false)?.unwrap().expose(), "Bearer second");
/// # Ok::<(), informer_runtime::config::ConfigError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct TokenCell(Arc<Mutex<Option<Secret>>>);

impl TokenCell {
    /// A cell that holds `token`. [`TokenCell::default`] holds none: requests are anonymous until one is set.
    pub fn new(token: impl Into<Secret>) -> Self {
        TokenCell(Arc::new(Mutex::new(Some(token.into()))))
    }

    /// Replaces the token: requests that start from now on carry it.
    pub fn set(&self, token: impl Into<Secret>) {
        let old = self.0.lock().replace(token.into());
        drop(old);
    }

    /// The token as it is now.
    pub fn get(&self) -> Option<Secret> {
        self.0.lock().clone()
    }
}

impl From<TokenCell> for TokenSource {
    fn from(cell: TokenCell) -> Self {
        TokenSource::Shared(cell)
    }
}

/// A file that holds a token; clones share what was read last.
#[derive(Clone)]
pub struct TokenFile {
    path: PathBuf,
    last: Arc<Mutex<Option<Read>>>,
}

struct Read {
    token: Secret,
    /// When it was read. None: it was given beside the file and is only used while the file cannot be read.
    at: Option<Instant>,
}

impl TokenFile {
    /// The file at `path`; it is read when the first token is asked for. White space around the token is cut.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        TokenFile { path: path.into(), last: Arc::default() }
    }

    /// As [`new`](Self::new), with a token to use until the file can be read (kubeconfigs may give both).
    pub fn with_fallback(path: impl Into<PathBuf>, token: impl Into<Secret>) -> Self {
        let last = Some(Read { token: token.into(), at: None });
        TokenFile { path: path.into(), last: Arc::new(Mutex::new(last)) }
    }

    /// Where the token is read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The token at `now`. A failed read is answered with the last token if there is one (the writer may be at work),
    /// unless `force` says that this token is known to be bad.
    fn current_at(&self, now: Instant, force: bool) -> Result<Secret, ConfigError> {
        if !force
            && let Some(Read { token, at: Some(at) }) = &*self.last.lock()
            && now.saturating_duration_since(*at) < TOKEN_FILE_PERIOD
        {
            return Ok(token.clone());
        }
        // The file is read outside the lock: a hanging network mount must not stop those who have a token.
        match self.read() {
            Ok(token) => {
                let old = self.last.lock().replace(Read { token: token.clone(), at: Some(now) });
                drop(old);
                Ok(token)
            }
            Err(error) if force => Err(error),
            Err(error) => self.last.lock().as_ref().map(|last| last.token.clone()).ok_or(error),
        }
    }

    fn read(&self) -> Result<Secret, ConfigError> {
        let place = || format!("token file {:?}", self.path);
        let fail = |message| ConfigError::new(ConfigErrorKind::Credential, message).at(place());
        let bytes = file::read(&self.path, file::MAX_CREDENTIAL_FILE).map_err(|error| error.at("token file"))?;
        let text = String::from_utf8(bytes).map_err(|_| fail("is no text; put the bare token in it"))?;
        match text.trim() {
            "" => Err(fail("is empty; put the bare token in it")),
            token => Ok(Secret::new(token)),
        }
    }
}

impl fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TokenFile").field(&self.path).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::scratch::Scratch;
    use super::*;

    #[test]
    fn a_token_file_is_read_again_after_a_minute_and_not_before() {
        let dir = Scratch::new();
        let file = TokenFile::new(dir.write("token", "one\n"));
        let start = Instant::now();
        assert_eq!(file.current_at(start, false).unwrap().expose(), "one");
        dir.write("token", "two\n");
        let soon = start + TOKEN_FILE_PERIOD - Duration::from_nanos(1);
        assert_eq!(file.current_at(soon, false).unwrap().expose(), "one");
        assert_eq!(file.clone().current_at(start + TOKEN_FILE_PERIOD, false).unwrap().expose(), "two");
        dir.write("token", "three\n");
        assert_eq!(file.current_at(start + TOKEN_FILE_PERIOD, false).unwrap().expose(), "two", "clones share the read");
    }

    #[test]
    fn a_refused_token_is_read_again_at_once() {
        let dir = Scratch::new();
        let source = TokenSource::file(dir.write("token", "one"));
        assert_eq!(source.current(false).unwrap().unwrap().expose(), "one");
        dir.write("token", "two");
        assert_eq!(source.current(false).unwrap().unwrap().expose(), "one");
        assert_eq!(source.current(true).unwrap().unwrap().expose(), "two");
    }

    #[test]
    fn the_last_token_serves_while_the_file_cannot_be_read_unless_it_was_refused() {
        let dir = Scratch::new();
        let path = dir.write("token", "one");
        let file = TokenFile::new(&path);
        let start = Instant::now();
        assert_eq!(file.current_at(start, false).unwrap().expose(), "one");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(file.current_at(start + 2 * TOKEN_FILE_PERIOD, false).unwrap().expose(), "one");
        let error = file.current_at(start, true).unwrap_err().to_string();
        assert!(error.starts_with("token file: cannot read ") && error.contains("check the path"), "{error}");
    }

    /// kube-rs K1: a client hung when the token in use was a minute old, for the lock was held while it was renewed.
    #[cfg(unix)]
    #[test]
    fn whoever_reads_the_file_anew_holds_up_nobody_who_has_a_token() {
        let dir = Scratch::new();
        let path = dir.write("token", "one");
        let file = TokenFile::new(&path);
        let start = Instant::now();
        assert_eq!(file.current_at(start, false).unwrap().expose(), "one");
        std::fs::remove_file(&path).unwrap();
        // Opening a pipe waits for a writer.
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let hanging = file.clone();
        let reader = std::thread::spawn(move || hanging.current_at(start + TOKEN_FILE_PERIOD, false));
        // Were the lock held over the read, this would wait for it.
        assert_eq!(file.current_at(start, false).unwrap().expose(), "one");
        std::fs::write(&path, "two").unwrap();
        assert_eq!(reader.join().unwrap().unwrap().expose(), "two");
    }

    #[test]
    fn an_empty_file_is_an_error_that_names_it() {
        let dir = Scratch::new();
        let path = dir.write("token", " \n");
        let error = TokenSource::file(&path).current(false).unwrap_err();
        assert_eq!(error.kind(), ConfigErrorKind::Credential);
        assert_eq!(error.to_string(), format!("token file {path:?}: is empty; put the bare token in it"));
    }

    #[test]
    fn a_token_given_beside_the_file_is_used_only_while_the_file_cannot_be_read() {
        let dir = Scratch::new();
        let path = dir.path().join("late");
        let source = TokenSource::File(TokenFile::with_fallback(&path, "spare"));
        assert_eq!(source.current(false).unwrap().unwrap().expose(), "spare");
        dir.write("late", "from the file");
        assert_eq!(source.current(false).unwrap().unwrap().expose(), "from the file");
    }
}
