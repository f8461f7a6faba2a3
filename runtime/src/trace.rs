//! Spans and events for `tracing`, with the feature of that name; nothing without it.
//!
//! Each informer has a span with the collection that it reads. Fields hold phases, codes, reasons and waits, and never a
//! header, a token or an object. A subscriber is code of the user's: its panics are caught, and end nothing.

#[cfg(feature = "tracing")]
mod on {
    use crate::config::ConfigError;
    use crate::guard;
    use crate::observe::Observed;
    use informer_core::informer::Notice;
    use informer_core::reflector::Failure;
    use informer_core::wire::Request;

    /// There is nobody left to be told of a panic here, and the hook has printed it.
    fn quietly(trace: impl FnOnce()) {
        _ = guard::call(trace);
    }

    /// What is no informer's: reconciles and handlers.
    pub(crate) fn observed(observed: &Observed<'_>) {
        match observed {
            Observed::Request(_) | Observed::Notice { .. } => {} // in the informer's span
            Observed::HeldUp { .. } | Observed::Resumed { .. } => quietly(|| tracing::info!("{observed}")),
            Observed::Reconcile(_)
            | Observed::Overdue(_)
            | Observed::ControllerWaits { .. }
            | Observed::ControllerStopped { .. }
            | Observed::OwnerScope(_)
            | Observed::HandlerPanic { .. }
            | Observed::HandlerDisconnected { .. }
            | Observed::Ignored(_)
            | Observed::Mutated { .. } => {
                quietly(|| {
                    if observed.is_failure() {
                        tracing::warn!("{observed}");
                    } else {
                        tracing::debug!("{observed}");
                    }
                });
            }
        }
    }

    /// Certificates that have changed and cannot be used.
    pub(crate) fn credentials(error: &ConfigError) {
        quietly(|| tracing::warn!("{error}; older ones are in use"));
    }

    /// An informer's span.
    pub(crate) struct Span(tracing::Span);

    impl Span {
        pub(crate) fn new(subject: &str) -> Self {
            Span(
                guard::call(|| tracing::info_span!("informer", reads = subject))
                    .unwrap_or_else(|_| tracing::Span::none()),
            )
        }

        pub(crate) fn request(&self, request: &Request) {
            quietly(|| {
                self.0.in_scope(|| tracing::debug!(verb = %request.verb, target = request.target(), "request"));
            });
        }

        #[allow(clippy::wildcard_enum_match_arm)] // a notice to come is traced in full
        pub(crate) fn notice(&self, notice: &Notice) {
            quietly(|| {
                self.0.in_scope(|| match notice {
                    Notice::Phase(phase) => tracing::debug!(%phase, "phase"),
                    Notice::Synced => tracing::info!("synced"),
                    Notice::Failure(Failure { code, reason, message, repeats, retry_in, .. }) => {
                        tracing::warn!(code, reason, message, repeats, ?retry_in, "failure");
                    }
                    other => tracing::info!(notice = ?other),
                });
            });
        }
    }

    impl Drop for Span {
        fn drop(&mut self) {
            quietly(|| self.0 = tracing::Span::none());
        }
    }
}

#[cfg(not(feature = "tracing"))]
mod off {
    use crate::config::ConfigError;
    use crate::observe::Observed;
    use informer_core::informer::Notice;
    use informer_core::wire::Request;

    pub(crate) fn observed(_observed: &Observed<'_>) {}

    pub(crate) fn credentials(_error: &ConfigError) {}

    /// An informer's span; without the feature it is nothing.
    pub(crate) struct Span;

    impl Span {
        pub(crate) fn new(_subject: &str) -> Self {
            Span
        }

        #[allow(clippy::unused_self)] // as the other half has it
        pub(crate) fn request(&self, _request: &Request) {}

        #[allow(clippy::unused_self)] // as the other half has it
        pub(crate) fn notice(&self, _notice: &Notice) {}
    }
}

#[cfg(not(feature = "tracing"))]
pub(crate) use off::{Span, credentials, observed};
#[cfg(feature = "tracing")]
pub(crate) use on::{Span, credentials, observed};
