//! [`Fault`]: why an exchange with the server came to nothing, as every adapter says it.
//!
//! ```
//! use informer_core::reflector::End;
//! use informer_runtime::fault::Fault;
//!
//! let refused = Fault::refused("cannot connect to 10.0.0.1:6443: connection refused");
//! assert_eq!(refused.into_end(), End::Refused("cannot connect to 10.0.0.1:6443: connection refused".into()));
//! ```

use crate::{Error, tls};
use informer_core::reflector::End;
use std::fmt;
use std::io;

/// Why there is no answer, or no whole one.
#[derive(Debug)]
#[non_exhaustive]
pub struct Fault {
    /// No connection came about: the server had no work with it.
    pub refused: bool,
    /// For people.
    pub text: String,
    /// The error that the text is about.
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Fault {
    /// No connection came about.
    pub fn refused(text: impl fmt::Display) -> Self {
        Fault { refused: true, text: text.to_string(), source: None }
    }

    /// The connection or its stream broke, or was never any good.
    pub fn broken(text: impl fmt::Display) -> Self {
        Fault { refused: false, text: text.to_string(), source: None }
    }

    /// Whoever carried the exchange out panicked with this text.
    pub fn panicked(text: &str) -> Self {
        Fault::broken(format_args!("what carries out the request panicked: {text}"))
    }

    /// With the error that the text is about.
    #[must_use]
    pub fn because(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    /// As the core takes it.
    pub fn into_end(self) -> End {
        if self.refused { End::Refused(self.text) } else { End::Broken(self.text) }
    }

    /// As a caller takes it, who asked `request` (`GET /api/v1/pods`).
    pub fn into_error(self, request: String) -> Error {
        Error::Transport { request, reason: self.text, source: self.source }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Which request it was about, its informer or its caller says.
impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        if let Error::Transport { reason, source, .. } = error {
            Fault { refused: false, text: reason, source }
        } else {
            Fault::broken(&error).because(error)
        }
    }
}

/// In the words of [`tls::explain`].
impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Fault::broken(tls::explain(&error)).because(error)
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;
    use crate::api::{ApiRequest, Call};
    use informer_core::{Key, Resource};

    #[test]
    fn an_error_that_was_a_fault_on_its_way_names_its_request_once() {
        let nodes = Resource::cluster("", "v1", "nodes", "Node");
        let call = Call::new(ApiRequest::get(&nodes, &Key::new("", "n")).unwrap());
        let unsent = call.outgoing(&Config::offline()).unwrap_err();
        let text = unsent.to_string();
        assert!(text.starts_with("GET /api/v1/nodes/n: nothing was sent, as this client has no server: "), "{text}");
        assert_eq!(call.failed(unsent.into()).to_string(), text);
    }
}
