//! TLS towards the API server: what rustls needs, and what its errors mean.
//!
//! The crypto provider (ring) is given explicitly: no process-wide default is read or set, so a program may have
//! another rustls beside ours. Certificates are checked against the CA of the configuration alone; without one, an https
//! server is an error rather than a guess. Files are followed by [`TlsSource`].
//!
//! ```
//! use informer_runtime::config::Config;
//!
//! let error = Config::from_url("https://10.0.0.1:6443")?.tls_config().unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "server https://10.0.0.1:6443: no CA to check the server's certificate against; give one (certificate-authority \
//!      of the cluster, with_ca), or accept any certificate in a test (insecure-skip-tls-verify, insecure)"
//! );
//! # Ok::<(), informer_runtime::config::ConfigError>(())
//! ```

mod source;

pub use source::TlsSource;

use crate::config::{Config, ConfigError, ConfigErrorKind, HttpVersion, Secret};
use crate::sync::Arc;
use informer_core::wire::rfc3339;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::{AlertDescription, CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// How the server's certificate is checked, and which one we show. The texts are PEM.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct TlsSettings {
    /// The certificates that may vouch for the server; all in the text count.
    pub ca: Option<Vec<u8>>,
    /// Our certificate, then its intermediates.
    pub client_cert: Option<Vec<u8>>,
    /// The private key of our certificate (PKCS#8, PKCS#1 or SEC1, not encrypted).
    pub client_key: Option<Secret>,
    /// The name to expect in the server's certificate, if not the host of the address.
    pub server_name: Option<String>,
    /// Accept any certificate of the server: anybody on the way can be it.
    pub insecure: bool,
    /// Where the texts come from, if from files that may change.
    pub files: TlsFiles,
}

/// Files of PEM text. One that is named here wins over the text beside it, which serves while the file cannot be read.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct TlsFiles {
    /// Of [`TlsSettings::ca`].
    pub ca: Option<PathBuf>,
    /// Of [`TlsSettings::client_cert`].
    pub client_cert: Option<PathBuf>,
    /// Of [`TlsSettings::client_key`].
    pub client_key: Option<PathBuf>,
}

impl fmt::Debug for TlsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |pem: &Option<Vec<u8>>| pem.as_ref().map(|pem| format!("{} bytes", pem.len()));
        f.debug_struct("TlsSettings")
            .field("ca", &size(&self.ca))
            .field("client_cert", &size(&self.client_cert))
            .field("client_key", &self.client_key)
            .field("server_name", &self.server_name)
            .field("insecure", &self.insecure)
            .field("files", &self.files)
            .finish()
    }
}

/// The rustls configuration for these settings, whose files are not looked at, and for a client of this HTTP. Build it
/// once per cluster: connections then resume sessions.
///
/// # Errors
///
/// No CA and not `insecure`; both of them; a text without a usable certificate or key; a certificate without its key;
/// a key of another certificate. The message names the kubeconfig field. An expired client certificate is not noticed
/// here: the server says so, see [`explain`].
pub fn client_config(settings: &TlsSettings, version: HttpVersion) -> Result<Arc<rustls::ClientConfig>, ConfigError> {
    let provider = Arc::new(ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| fail("the crypto provider has no usable protocol version").caused_by(error))?;
    let builder = match (&settings.ca, settings.insecure) {
        (Some(_), true) => {
            return Err(fail(
                "a CA (certificate-authority) and insecure-skip-tls-verify contradict each other; remove one",
            ));
        }
        (None, true) => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(Arc::clone(&provider))))
        }
        (Some(pem), false) => builder.with_root_certificates(roots(pem)?),
        (None, false) => {
            return Err(fail(
                "no CA to check the server's certificate against; give one (certificate-authority of the cluster, \
                 with_ca), or accept any certificate in a test (insecure-skip-tls-verify, insecure)",
            ));
        }
    };
    let mut config = match (&settings.client_cert, &settings.client_key) {
        (None, None) => builder.with_no_client_auth(),
        (Some(certificate), Some(key)) => builder
            .with_client_auth_cert(chain(certificate)?, private_key(key)?)
            .map_err(|error| fail(refused_identity(&error)).caused_by(error))?,
        (Some(_), None) => return Err(fail("client-certificate without client-key; give both")),
        (None, Some(_)) => return Err(fail("client-key without client-certificate; give both")),
    };
    config.alpn_protocols = version.alpn();
    Ok(Arc::new(config))
}

/// The name that the certificate of this server must have: `tls-server-name` if given, else the host of its address.
///
/// # Errors
///
/// The name is neither a host name nor an IP address.
pub fn server_name(config: &Config) -> Result<ServerName<'static>, ConfigError> {
    let name = config.tls.server_name.as_deref().unwrap_or(config.server.host());
    ServerName::try_from(name.strip_suffix('.').unwrap_or(name).to_owned()).map_err(|error| {
        fail(&format!("{name:?} is no name that a certificate can have; give one as tls-server-name"))
            .caused_by(error)
            .at(&config.origin)
    })
}

fn fail(message: &str) -> ConfigError {
    ConfigError::new(ConfigErrorKind::Tls, message)
}

/// All certificates of the CA text. What cannot be a root is passed over if another one can, as client-go does.
fn roots(pem: &[u8]) -> Result<RootCertStore, ConfigError> {
    let mut store = RootCertStore::empty();
    let mut refused = None;
    for certificate in certificates("certificate-authority", pem)? {
        if let Err(error) = store.add(certificate) {
            refused = Some(error);
        }
    }
    match refused {
        Some(error) if store.is_empty() => {
            let message =
                "certificate-authority: its certificate cannot be used as a root; give the CA's own certificate";
            Err(fail(message).caused_by(error))
        }
        _ => Ok(store),
    }
}

fn chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    certificates("client-certificate", pem)
}

/// At least one certificate. PEM errors are not passed on: they quote the text, and people paste keys there.
fn certificates(field: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let mut found = Vec::new();
    for (at, certificate) in CertificateDer::pem_slice_iter(pem).enumerate() {
        let Ok(certificate) = certificate else {
            return Err(fail(&format!(
                "{field}: PEM block {} is broken ({}); copy the file again",
                at + 1,
                WHAT_BREAKS
            )));
        };
        found.push(certificate);
    }
    if found.is_empty() {
        let what = match pem {
            _ if pem.iter().all(u8::is_ascii_whitespace) => "is empty; put the certificate there",
            [0x30, 0x80..=0x84, ..] => "is DER; convert it with `openssl x509 -inform der`",
            _ => "has no block that begins with -----BEGIN CERTIFICATE-----; put the certificate there as PEM",
        };
        return Err(fail(&format!("{field}: {what}")));
    }
    Ok(found)
}

const WHAT_BREAKS: &str = "no END line, or no base64 in it";

fn private_key(pem: &Secret) -> Result<PrivateKeyDer<'static>, ConfigError> {
    let text = pem.expose();
    PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|_| {
        let what = if text.contains("ENCRYPTED") {
            "is encrypted; decrypt it with `openssl pkey`"
        } else if !text.contains("PRIVATE KEY-----") {
            "has no block that begins with -----BEGIN PRIVATE KEY-----; put the key there as PEM"
        } else {
            "is broken (no END line, or no base64 in it); copy the file again"
        };
        fail(&format!("client-key: {what}"))
    })
}

/// Why rustls did not take certificate and key. Its texts about keys are constants, so none can carry one.
fn refused_identity(error: &rustls::Error) -> &'static str {
    if matches!(error, rustls::Error::InconsistentKeys(_)) {
        "client-key is not the key of the first certificate in client-certificate; give the pair that belongs together"
    } else if matches!(error, rustls::Error::InvalidCertificate(_)) {
        "client-certificate: its first certificate cannot be read as X.509 version 3; have it issued again"
    } else {
        "client-key is of a kind that cannot be used (RSA of at least 2048 bits, ECDSA P-256 or P-384, and Ed25519 can); \
         have certificate and key issued again"
    }
}

/// Accepts every certificate, but not a server that lacks the key of the one it shows.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// One line about a failed connection: what happened to TLS and the way out.
///
/// Takes a [`rustls::Error`] or whatever has one inside ([`io::Error`], an HTTP client's error); anything else is shown
/// as it is, with its sources.
///
/// ```
/// use rustls::{AlertDescription, Error};
///
/// let error = std::io::Error::other(Error::AlertReceived(AlertDescription::CertificateExpired));
/// assert_eq!(
///     informer_runtime::tls::explain(&error),
///     "the server refused our client certificate: it has expired; have a new one issued"
/// );
/// ```
pub fn explain(error: &(dyn Error + 'static)) -> String {
    /// Chains of sources are a few links long; one that loops is cut here.
    const MAX_SOURCES: usize = 16;

    let mut text = error.to_string();
    let mut link = Some(error);
    for _ in 0..MAX_SOURCES {
        let Some(error) = link else { break };
        if let Some(tls) = error.downcast_ref::<rustls::Error>() {
            return explain_tls(tls);
        }
        // The source of an io::Error is the source of what it wraps, so the wrapped error itself would be skipped.
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        link = match wrapped {
            Some(wrapped) => Some(wrapped as &(dyn Error + 'static)),
            None => error.source(),
        };
        if let Some(next) = link {
            let next = next.to_string();
            // Many errors repeat their source in their own text.
            if !text.contains(&next) {
                text = format!("{text}: {next}");
            }
        }
    }
    text
}

#[allow(clippy::wildcard_enum_match_arm)] // a foreign enum that grows; whatever is new is shown in rustls' own words
fn explain_tls(error: &rustls::Error) -> String {
    use rustls::Error as E;
    match error {
        E::InvalidCertificate(error) => explain_certificate(error),
        E::AlertReceived(alert) => explain_alert(*alert),
        E::NoCertificatesPresented => {
            "the server demands a client certificate; give client-certificate and client-key".into()
        }
        E::InvalidMessage(rustls::InvalidMessage::InvalidContentType) => {
            "what answered does not speak TLS; is it an http:// address, or a proxy?".into()
        }
        E::PeerIncompatible(_) => {
            format!("the server's TLS is too old or too new for us ({error}); TLS 1.2 and 1.3 work")
        }
        other => format!("TLS: {other}"),
    }
}

#[allow(clippy::wildcard_enum_match_arm)] // as above
fn explain_certificate(error: &CertificateError) -> String {
    use CertificateError as C;
    match error {
        C::UnknownIssuer => "the server's certificate was issued by an unknown CA; give the cluster's CA as \
                             certificate-authority"
            .into(),
        C::BadSignature => {
            "a signature of the server does not match: its certificate is of another CA with our CA's name (was the \
                            cluster made anew?), or it lacks its certificate's key; give the cluster's CA as \
                            certificate-authority"
                .into()
        }
        C::Expired => "the server's certificate has expired; renew it, and check the clock of this machine".into(),
        C::ExpiredContext { time, not_after } => format!(
            "the server's certificate expired at {} (it is {} here); renew it, and check the clock of this machine",
            rfc3339(not_after.as_secs()),
            rfc3339(time.as_secs())
        ),
        C::NotValidYet => "the server's certificate is not valid yet; check the clock of this machine".into(),
        C::NotValidYetContext { time, not_before } => format!(
            "the server's certificate is not valid before {} (it is {} here); check the clock of this machine",
            rfc3339(not_before.as_secs()),
            rfc3339(time.as_secs())
        ),
        C::NotValidForName => {
            "the server's certificate is for another name; give the right one as tls-server-name".into()
        }
        C::NotValidForNameContext { expected, presented } => {
            let names = if presented.is_empty() { "no name".to_owned() } else { names(presented) };
            format!(
                "the server's certificate is not for {:?} but for {names}; give one of its names as tls-server-name",
                expected.to_str()
            )
        }
        C::Revoked => "the server's certificate has been revoked; renew it".into(),
        // webpki's words for a certificate that is its own root but says that it is a CA.
        C::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "the server shows a CA certificate as its own; give it one that the CA has issued".into()
        }
        other => format!("the server's certificate was refused: {other}"),
    }
}

/// The names of a certificate, at most ten of them: some have hundreds.
fn names(presented: &[String]) -> String {
    const MAX_NAMES: usize = 10;
    // webpki writes them as DnsName("a") and IpAddress(10.0.0.1).
    let bare = |name: &String| {
        let inner =
            name.strip_suffix(')').and_then(|name| name.split_once('(')).map_or(name.as_str(), |(_, name)| name);
        inner.trim_matches('"').to_owned()
    };
    let shown = presented.iter().take(MAX_NAMES).map(bare).collect::<Vec<_>>().join(", ");
    match presented.len().checked_sub(MAX_NAMES) {
        None | Some(0) => shown,
        Some(more) => format!("{shown} and {more} more"),
    }
}

#[allow(clippy::wildcard_enum_match_arm)] // as above
fn explain_alert(alert: AlertDescription) -> String {
    use AlertDescription as A;
    let refused = "the server refused our client certificate";
    match alert {
        A::CertificateRequired => {
            "the server demands a client certificate; give client-certificate and client-key".into()
        }
        A::CertificateExpired => format!("{refused}: it has expired; have a new one issued"),
        A::CertificateRevoked => format!("{refused}: it has been revoked; have a new one issued"),
        A::UnknownCA => {
            format!("{refused}: it does not know the CA that issued it; have one issued by this cluster's CA")
        }
        A::BadCertificate | A::UnsupportedCertificate | A::CertificateUnknown | A::DecryptError => {
            format!("{refused} ({alert:?}); have a new one issued by this cluster's CA")
        }
        A::AccessDenied => format!("{refused}: it has no right to connect; use another user"),
        A::HandshakeFailure => "the server broke the TLS handshake off (HandshakeFailure): it may demand a client \
                                certificate, or a cipher that we do not have"
            .into(),
        A::UnrecognisedName => {
            "the server does not know the name that we asked for; give its own as tls-server-name".into()
        }
        A::NoApplicationProtocol => {
            "the server speaks none of the HTTP versions that we offer; choose another one (HttpVersion)".into()
        }
        A::ProtocolVersion => "the server's TLS is too old or too new for us; TLS 1.2 and 1.3 work".into(),
        other => format!("the server broke TLS off: {other:?}"),
    }
}
