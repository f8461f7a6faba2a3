//! [`Error`]: what the runtimes return.

use crate::api::ApiError;
use crate::catch_up::Behind;
use crate::config::ConfigError;
use crate::feeder::Refusal;
use informer_core::factory::Conflict;
use informer_core::lister::TokenError;
use informer_core::object::{KeyError, ParseResourceError};
use informer_core::reflector::Failure;
use informer_core::saved::SavedError;
use informer_core::selector::SelectorError;
use informer_core::store::IndexError;
use std::borrow::Cow;
use std::fmt;

/// Why a call failed. Faults of the server and the network that an informer deals with by itself are not errors: they
/// are [`Failure`]s, told to whoever observes.
///
/// `Debug` is the text of `Display`: a `main` that returns this error prints what a person can read.
#[non_exhaustive]
pub enum Error {
    /// The kubeconfig, a certificate or the environment.
    Config(ConfigError),
    /// The deadline passed before these informers had their first complete list.
    NotSynced(Vec<Lagging>),
    /// A cache did not come to a version that was waited for.
    Behind(Box<Behind>),
    /// The call would wait for something that cannot happen before it returns.
    WouldDeadlock {
        /// The call.
        what: &'static str,
        /// Where it was made.
        place: Cow<'static, str>,
    },
    /// The factory was stopped, or one of its informers while it was waited for.
    Stopped,
    /// The stop took longer than allowed; this many threads, tasks or calls of user code still run.
    StillRunning(usize),
    /// An informer of this type and scope exists with other options.
    Conflict(Conflict),
    /// An index is missing or there already.
    Index(IndexError),
    /// The name of a resource, a selector, a key or a page token cannot be read, or the token is of another list; or a saved
    /// state is, or is of another collection.
    Unreadable(Box<dyn std::error::Error + Send + Sync>),
    /// An informer of this collection was to read it from a server, and its factory has [none](crate::Config::offline).
    Offline(String),
    /// What an informer was fed by hand was not taken.
    NotFed {
        /// What it keeps, as in `lights.example.com`.
        informer: String,
        /// Why.
        why: Refusal,
    },
    /// The API server said no.
    Api(Box<ApiError>),
    /// No answer came from the API server, or none that could be read.
    Transport {
        /// What was asked, as in `GET /api/v1/pods`.
        request: String,
        /// What went wrong.
        reason: String,
        /// The error that the reason tells of, for programs; for people, the reason has all of it.
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
}

/// One informer that is not synced, and why.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Lagging {
    /// What it reads.
    pub subject: String,
    /// True if it reads no server, but is [fed](crate::feeder).
    pub fed: bool,
    /// False if the factory was not started since the informer was asked for.
    pub started: bool,
    /// True if its driver ended although nobody asked for it: by a panic, or with the runtime on which it was a task. What it
    /// has stands still, whether it was complete or not.
    pub dead: bool,
    /// What failed last.
    pub failure: Option<Failure>,
}

impl fmt::Display for Lagging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.failure, self.started) {
            _ if self.dead => write!(
                f,
                "{}: its driver ended by a panic, or with its runtime; ask the factory for the informer again, which gives a \
                 fresh one, and call start()",
                self.subject
            ),
            // What is fed before the start counts, too.
            _ if self.fed => write!(f, "{}: nothing was fed yet: call Feeder::list", self.subject),
            (_, false) => write!(f, "{}: not started; call start() after asking for an informer", self.subject),
            (Some(failure), true) => write!(f, "{failure}"),
            (None, true) => write!(f, "{}: no answer yet", self.subject),
        }
    }
}

impl Error {
    /// True if the server said that there is no such object: the one that the call names. False for any other 404, as when
    /// the resource is not installed ([`ApiError::is_not_found`]): what is to be cleaned up may well be there then.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Error::Api(refused) if refused.is_not_found())
    }

    /// True if the server said that the object changed in between, or exists already.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Error::Api(refused) if refused.is_conflict())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Config(error) => error.fmt(f),
            Error::NotSynced(lagging) => {
                write!(
                    f,
                    "{} not synced in time: ",
                    if lagging.len() == 1 { "an informer is" } else { "informers are" }
                )?;
                for (at, one) in lagging.iter().enumerate() {
                    write!(f, "{}{one}", if at > 0 { " | " } else { "" })?;
                }
                Ok(())
            }
            Error::Behind(behind) => behind.fmt(f),
            Error::WouldDeadlock { what, place } => {
                write!(f, "{what} was called inside {place}, and would wait for itself: call it from elsewhere")
            }
            Error::Stopped => f.write_str("the factory was stopped: build a new one"),
            Error::StillRunning(count) => {
                write!(f, "the stop took too long: {count} threads, tasks or calls of user code still run")
            }
            Error::Conflict(conflict) => conflict.fmt(f),
            Error::Index(error) => error.fmt(f),
            Error::Unreadable(error) => error.fmt(f),
            Error::Offline(subject) => write!(
                f,
                "{subject}: the factory has no server to read from: make it with a client, or feed the informer (Factory::fed)"
            ),
            Error::NotFed { informer, why } => write!(f, "{informer}: {why}"),
            Error::Api(refused) => refused.fmt(f),
            Error::Transport { request, reason, .. } => write!(f, "{request}: {reason}"),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What Display does not say: it holds what the error inside says, so that one's own source is the next.
impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Config(error) => error.source(),
            Error::Index(error) => error.source(),
            Error::Conflict(conflict) => conflict.source(),
            Error::Unreadable(error) => error.source(),
            Error::Api(refused) => refused.source(),
            Error::Behind(behind) => behind.source(),
            // The reason is the text of the source.
            Error::Transport { .. }
            | Error::NotSynced(_)
            | Error::WouldDeadlock { .. }
            | Error::Stopped
            | Error::StillRunning(_)
            | Error::Offline(_)
            | Error::NotFed { .. } => None,
        }
    }
}

impl From<ApiError> for Error {
    fn from(error: ApiError) -> Self {
        Error::Api(Box::new(error))
    }
}

impl From<ConfigError> for Error {
    fn from(error: ConfigError) -> Self {
        Error::Config(error)
    }
}

impl From<Conflict> for Error {
    fn from(error: Conflict) -> Self {
        Error::Conflict(error)
    }
}

impl From<IndexError> for Error {
    fn from(error: IndexError) -> Self {
        Error::Index(error)
    }
}

impl From<ParseResourceError> for Error {
    fn from(error: ParseResourceError) -> Self {
        Error::Unreadable(error.into())
    }
}

impl From<SelectorError> for Error {
    fn from(error: SelectorError) -> Self {
        Error::Unreadable(error.into())
    }
}

impl From<TokenError> for Error {
    fn from(error: TokenError) -> Self {
        Error::Unreadable(error.into())
    }
}

impl From<SavedError> for Error {
    fn from(error: SavedError) -> Self {
        Error::Unreadable(error.into())
    }
}

impl From<KeyError> for Error {
    fn from(error: KeyError) -> Self {
        Error::Unreadable(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::api::ApiRequest;
    use crate::catch_up::{Wanted, Why};
    use crate::fault::Fault;
    use informer_core::controller::ReconcileError;
    use informer_core::factory::{Fingerprint, Registry, Scope};
    use informer_core::lister::PageToken;
    use informer_core::reflector::ReflectorConfig;
    use informer_core::selector::LabelSelector;
    use informer_core::store::Unreachable;
    use informer_core::{DynamicObject, Key, Resource, Version};
    use std::collections::BTreeSet;
    use std::error::Error as _;

    #[test]
    fn what_a_program_reads_from_text_fails_with_this_error_too() {
        let resource = || -> Result<Resource, Error> { Ok("podz".parse()?) };
        let selector = || -> Result<LabelSelector, Error> { Ok("a in".parse()?) };
        let key = || -> Result<Key, Error> { Ok("a/b/c".parse()?) };
        let token = || -> Result<PageToken, Error> { Ok("?".parse()?) };
        for (error, start) in [
            (resource().unwrap_err(), "\"podz\" names no resource that is known: "),
            (selector().unwrap_err(), "label selector \"a in\": "),
            (key().unwrap_err(), "\"a/b/c\" "),
            (token().unwrap_err(), "\"?\" is no page token: "),
        ] {
            assert!(error.to_string().starts_with(start), "{error}");
            assert!(matches!(error, Error::Unreadable(_)) && error.source().is_none());
        }
    }

    #[test]
    fn a_main_that_returns_an_error_prints_what_a_person_can_read() {
        let pods = Lagging { subject: "pods".into(), fed: false, started: true, dead: false, failure: None };
        let error = Error::NotSynced(vec![pods]);
        assert_eq!(format!("{error:?}"), "an informer is not synced in time: pods: no answer yet");
    }

    /// One of each variant, whose number says that none was left out.
    fn all() -> Vec<Error> {
        let get = ApiRequest::get(&Resource::cluster("", "v1", "nodes", "Node"), &Key::new("", "n")).unwrap();
        let no_root = Config::from_url("https://a")
            .unwrap()
            .with_ca("-----BEGIN CERTIFICATE-----\nQ0E=\n-----END CERTIFICATE-----\n");
        let behind = Behind {
            subject: "pods".into(),
            wanted: Wanted { key: None, version: Version::new("x") },
            stands_for: Version::default(),
            populated: false,
            why: Why::Unreachable(Unreachable::Incomparable {
                asked: Version::new("x"),
                stands_for: Version::default(),
            }),
            held_up_by: Vec::new(),
            failure: None,
        };
        let scope = || Scope::of(&ReflectorConfig::new(Resource::cluster("", "v1", "nodes", "Node")));
        let mut registry = Registry::new();
        registry.get_or_insert::<u8>(scope(), Fingerprint::default(), || ()).unwrap();
        let other = Fingerprint::default().with("limits", 2);
        let conflict = registry.get_or_insert::<u8>(scope(), other, || ()).unwrap_err();
        let all = vec![
            Error::Config(Config::from_kubeconfig("/nonexistent/config", None).unwrap_err()),
            Error::Config(no_root.tls_config().unwrap_err()),
            Error::NotSynced(Vec::new()),
            Error::Behind(Box::new(behind)),
            Error::WouldDeadlock { what: "stop", place: "a handler".into() },
            Error::Stopped,
            Error::StillRunning(1),
            Error::Conflict(conflict),
            Error::Index(IndexError::Unknown("i".into())),
            "a in (b".parse::<LabelSelector>().unwrap_err().into(),
            "a=-".parse::<LabelSelector>().unwrap_err().into(),
            "a/b/c".parse::<Key>().unwrap_err().into(),
            Error::Offline("pods".into()),
            Error::NotFed { informer: "pods".into(), why: Refusal::NoList },
            ApiError::from_response(&get, 404, b"404 page not found").into(),
            get.read_object::<DynamicObject>(200, b"7").unwrap_err(),
            Fault::from(std::io::Error::other("cut off")).into_error(get.describe()),
        ];
        let variant = |error: &Error| match error {
            Error::Config(_) => 0,
            Error::NotSynced(_) => 1,
            Error::Behind(_) => 2,
            Error::WouldDeadlock { .. } => 3,
            Error::Stopped => 4,
            Error::StillRunning(_) => 5,
            Error::Conflict(_) => 6,
            Error::Index(_) => 7,
            Error::Unreadable(_) => 8,
            Error::Offline(_) => 9,
            Error::NotFed { .. } => 10,
            Error::Api(_) => 11,
            Error::Transport { .. } => 12,
        };
        let seen: BTreeSet<i32> = all.iter().map(variant).collect();
        assert_eq!(seen, (0..=12).collect());
        all
    }

    #[test]
    fn no_error_says_what_its_source_says() {
        let mut sources = 0;
        for error in all() {
            let mut told = error.to_string();
            let mut link = error.source();
            while let Some(source) = link {
                let text = source.to_string();
                assert!(!told.contains(&text), "{told:?} has {text:?} already");
                told += &format!(": {text}");
                link = source.source();
                sources += 1;
            }
            assert_eq!(ReconcileError::from(error).message(), told);
        }
        assert_eq!(sources, 1, "why a certificate is no root, rustls says");
    }

    #[test]
    fn an_error_is_a_sentence_for_debug_too() {
        for error in all() {
            assert_eq!(format!("{error:?}"), error.to_string());
        }
    }
}
