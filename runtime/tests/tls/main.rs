//! TLS against a real rustls server on loopback: what works, and what each failure says.

mod files;

use informer_runtime::config::{Config, Secret};
use informer_runtime::tls::{explain, server_name};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, date_time_ymd,
};
use rustls::crypto::ring;
use rustls::server::WebPkiClientVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::error::Error;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

struct Identity {
    cert: String,
    key: String,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { pem, issuer: Issuer::new(params, key) }
    }

    fn issue(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        Identity { cert: params.signed_by(&key, &self.issuer).unwrap().pem(), key: key.serialize_pem() }
    }
}

fn expired(params: &mut CertificateParams) {
    params.not_before = date_time_ymd(2000, 1, 1);
    params.not_after = date_time_ymd(2004, 2, 29);
}

/// Answers one connection with `hello`, or not, and says with which ALPN protocol.
struct Server {
    port: u16,
    thread: std::thread::JoinHandle<Option<Vec<u8>>>,
}

impl Server {
    /// With `clients`, only those whose certificate it issued may come in.
    fn start(identity: &Identity, clients: Option<&Authority>) -> Self {
        Self::start_with(identity, clients, &[&rustls::version::TLS12, &rustls::version::TLS13])
    }

    fn start_with(
        identity: &Identity,
        clients: Option<&Authority>,
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> Self {
        let provider = Arc::new(ring::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(ca) => {
                let mut roots = rustls::RootCertStore::empty();
                roots.add(CertificateDer::from_pem_slice(ca.pem.as_bytes()).unwrap()).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
                builder.with_client_cert_verifier(verifier)
            }
        };
        // Not `with_single_cert`, which would refuse a key that is not the certificate's.
        let chain = CertificateDer::pem_slice_iter(identity.cert.as_bytes()).collect::<Result<_, _>>().unwrap();
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
        let shown = CertifiedKey::new(chain, ring::sign::any_supported_type(&key).unwrap());
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(shown)));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let thread = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut tls = rustls::ServerConnection::new(Arc::new(config)).unwrap();
            while tls.is_handshaking() {
                if tls.complete_io(&mut socket).is_err() {
                    // The alert that says why is on its way; read on, so that a reset does not overtake it.
                    let _ = socket.shutdown(std::net::Shutdown::Write);
                    let _ = socket.read_to_end(&mut Vec::new());
                    return None;
                }
            }
            let protocol = tls.alpn_protocol().map(<[u8]>::to_vec);
            let mut stream = rustls::StreamOwned::new(tls, socket);
            stream.write_all(b"hello").unwrap();
            stream.conn.send_close_notify();
            stream.flush().unwrap();
            protocol
        });
        Server { port, thread }
    }

    fn config(&self) -> Config {
        Config::from_url(&format!("https://127.0.0.1:{}", self.port)).unwrap()
    }

    /// What a client with this configuration reads, or the line that explains why it does not.
    fn try_with(self, config: &Config) -> Result<String, String> {
        let outcome = greet(config, self.port);
        let protocol = self.thread.join().unwrap();
        if outcome.is_ok() {
            assert_eq!(protocol.as_deref(), Some(&b"http/1.1"[..]));
        }
        outcome
    }

    fn refuses(self, config: &Config) -> String {
        self.try_with(config).expect_err("this connection must fail")
    }
}

fn greet(config: &Config, port: u16) -> Result<String, String> {
    let tls = config.tls_config().map_err(|error| error.to_string())?.expect("https");
    greet_with(tls, config, port)
}

fn greet_with(tls: Arc<rustls::ClientConfig>, config: &Config, port: u16) -> Result<String, String> {
    let name = server_name(config).map_err(|error| error.to_string())?;
    let connection = rustls::ClientConnection::new(tls, name).map_err(|error| explain(&error))?;
    let mut stream = rustls::StreamOwned::new(connection, TcpStream::connect(("127.0.0.1", port)).unwrap());
    let mut text = String::new();
    stream.read_to_string(&mut text).map_err(|error| explain(&error))?;
    Ok(text)
}

#[test]
fn a_client_with_the_right_ca_is_greeted_by_address_and_by_tls_server_name() {
    let ca = Authority::new("cluster");
    let by_address = Server::start(&ca.issue(&["127.0.0.1"], |_| ()), None);
    let config = by_address.config().with_ca(ca.pem.clone());
    assert_eq!(by_address.try_with(&config), Ok("hello".into()));
    let by_name = Server::start(&ca.issue(&["api.cluster"], |_| ()), None);
    let config = by_name.config().with_ca(ca.pem.clone()).with_server_name("api.cluster");
    assert_eq!(by_name.try_with(&config), Ok("hello".into()));
}

#[test]
fn every_certificate_of_the_ca_text_counts() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let server = Server::start(&new.issue(&["127.0.0.1"], |_| ()), None);
    let config = server.config().with_ca(format!("# rotation\n{}\n{}", old.pem, new.pem));
    assert_eq!(server.try_with(&config), Ok("hello".into()));
}

#[test]
fn insecure_accepts_any_certificate() {
    let server = Server::start(&Authority::new("cluster").issue(&["other"], expired), None);
    let config = server.config().with_ca("forgotten").insecure(true);
    assert_eq!(server.try_with(&config), Ok("hello".into()));
    let identity = Authority::new("cluster").issue(&["other"], |_| ());
    let server = Server::start_with(&identity, None, &[&rustls::version::TLS12]);
    let config = server.config().insecure(true);
    assert_eq!(server.try_with(&config), Ok("hello".into()));
}

#[test]
fn insecure_still_refuses_a_server_without_the_key_of_its_certificate() {
    let ca = Authority::new("cluster");
    let thief = Identity { cert: ca.issue(&["127.0.0.1"], |_| ()).cert, key: ca.issue(&["127.0.0.1"], |_| ()).key };
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let server = Server::start_with(&thief, None, &[version]);
        let config = server.config().insecure(true);
        let error = server.refuses(&config);
        assert!(error.contains("it lacks its certificate's key"), "{error}");
    }
}

#[test]
fn a_client_certificate_opens_the_door() {
    let ca = Authority::new("cluster");
    let me = ca.issue(&[], |_| ());
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let server = Server::start_with(&ca.issue(&["127.0.0.1"], |_| ()), Some(&ca), &[version]);
        let config = server.config().with_ca(ca.pem.clone()).with_client_certificate(me.cert.clone(), me.key.clone());
        assert_eq!(server.try_with(&config), Ok("hello".into()));
    }
}

#[test]
fn a_server_of_another_ca_is_named_so() {
    let (ca, other) = (Authority::new("cluster"), Authority::new("other"));
    let server = Server::start(&other.issue(&["127.0.0.1"], |_| ()), None);
    let config = server.config().with_ca(ca.pem.clone());
    assert_eq!(
        server.refuses(&config),
        "the server's certificate was issued by an unknown CA; give the cluster's CA as certificate-authority"
    );
}

#[test]
fn a_cluster_made_anew_under_the_same_ca_name_is_named_so() {
    let (ca, again) = (Authority::new("cluster"), Authority::new("cluster"));
    let server = Server::start(&again.issue(&["127.0.0.1"], |_| ()), None);
    let config = server.config().with_ca(ca.pem.clone());
    let error = server.refuses(&config);
    assert!(error.starts_with("a signature of the server does not match: its certificate is of another CA"), "{error}");
}

#[test]
fn an_expired_server_certificate_is_named_with_its_date() {
    let ca = Authority::new("cluster");
    let server = Server::start(&ca.issue(&["127.0.0.1"], expired), None);
    let config = server.config().with_ca(ca.pem.clone());
    let error = server.refuses(&config);
    assert!(error.starts_with("the server's certificate expired at 2004-02-29T00:00:00Z (it is 20"), "{error}");
    assert!(error.ends_with("here); renew it, and check the clock of this machine"), "{error}");
}

#[test]
fn a_server_certificate_of_the_future_is_named_with_its_date() {
    let ca = Authority::new("cluster");
    let future = |params: &mut CertificateParams| {
        params.not_before = date_time_ymd(2399, 12, 31);
        params.not_after = date_time_ymd(2400, 3, 1);
    };
    let server = Server::start(&ca.issue(&["127.0.0.1"], future), None);
    let config = server.config().with_ca(ca.pem.clone());
    let error = server.refuses(&config);
    assert!(error.starts_with("the server's certificate is not valid before 2399-12-31T00:00:00Z"), "{error}");
}

#[test]
fn a_certificate_for_another_name_is_named_with_both_names() {
    let ca = Authority::new("cluster");
    let server = Server::start(&ca.issue(&["kubernetes", "127.0.0.1"], |_| ()), None);
    let config = server.config().with_ca(ca.pem.clone()).with_server_name("api.example");
    assert_eq!(
        server.refuses(&config),
        "the server's certificate is not for \"api.example\" but for kubernetes, 127.0.0.1; \
         give one of its names as tls-server-name"
    );
}

#[test]
fn a_ca_that_is_used_as_a_server_certificate_is_named_so() {
    let ca = Authority::new("cluster");
    let server = Server::start(
        &ca.issue(&["127.0.0.1"], |params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained)),
        None,
    );
    let config = server.config().with_ca(ca.pem.clone());
    assert_eq!(
        server.refuses(&config),
        "the server shows a CA certificate as its own; give it one that the CA has issued"
    );
}

#[test]
fn a_server_that_demands_a_certificate_says_so() {
    let ca = Authority::new("cluster");
    let server = Server::start(&ca.issue(&["127.0.0.1"], |_| ()), Some(&ca));
    let config = server.config().with_ca(ca.pem.clone());
    assert_eq!(
        server.refuses(&config),
        "the server demands a client certificate; give client-certificate and client-key"
    );
}

#[test]
fn an_expired_or_foreign_client_certificate_is_told_by_the_server() {
    let (ca, other) = (Authority::new("cluster"), Authority::new("other"));
    let cases = [
        (ca.issue(&[], expired), "the server refused our client certificate: it has expired; have a new one issued"),
        (
            other.issue(&[], |_| ()),
            "the server refused our client certificate: it does not know the CA that issued it; have one issued by this \
             cluster's CA",
        ),
    ];
    for (me, want) in cases {
        let server = Server::start(&ca.issue(&["127.0.0.1"], |_| ()), Some(&ca));
        let config = server.config().with_ca(ca.pem.clone()).with_client_certificate(me.cert, me.key);
        assert_eq!(server.refuses(&config), want);
    }
}

#[test]
fn a_server_that_speaks_no_tls_is_named_so() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        socket.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\n").unwrap();
        socket.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = socket.read_to_end(&mut Vec::new());
    });
    let config = Config::from_url("https://127.0.0.1").unwrap().insecure(true);
    assert_eq!(
        greet(&config, port).unwrap_err(),
        "what answered does not speak TLS; is it an http:// address, or a proxy?"
    );
    thread.join().unwrap();
}

/// The text after the origin.
fn config_error(config: &Config) -> String {
    let error = config.tls_config().unwrap_err();
    let mut link: Option<&dyn Error> = Some(&error);
    while let Some(error) = link {
        assert!(!format!("{error} {error:?}").contains("MARKED"), "{error:?}");
        link = error.source();
    }
    error.to_string().strip_prefix("server https://a: ").expect("the origin stands in front").to_owned()
}

#[test]
fn a_ca_text_that_cannot_be_used_says_why() {
    let config = Config::from_url("https://a").unwrap();
    let good = Authority::new("cluster").pem;
    let cases: [(&[u8], &str); 7] = [
        (b" \n", "certificate-authority: is empty; put the certificate there"),
        (b"\x30\x82\x01\x00", "certificate-authority: is DER; convert it with `openssl x509 -inform der`"),
        (b"MARKED", "certificate-authority: has no block that begins with -----BEGIN CERTIFICATE-----"),
        (&good.as_bytes()[..good.len() / 2], "certificate-authority: PEM block 1 is broken"),
        (b"-----BEGIN CERTIFICATE-----\nMARKED*\n-----END CERTIFICATE-----\n", "certificate-authority: PEM block 1 is"),
        (b"-----BEGIN MARKED\n", "certificate-authority: PEM block 1 is broken"),
        (
            b"-----BEGIN CERTIFICATE-----\nQ0E=\n-----END CERTIFICATE-----\n",
            "certificate-authority: its certificate cannot be used as a root; give the CA's own certificate",
        ),
    ];
    for (pem, want) in cases {
        let error = config_error(&config.clone().with_ca(pem));
        assert!(error.starts_with(want), "{error}");
    }
    let half_good = format!("-----BEGIN CERTIFICATE-----\nQ0E=\n-----END CERTIFICATE-----\n{good}");
    assert!(config.clone().with_ca(half_good).tls_config().unwrap().is_some());
    let mut both = config.insecure(true);
    both.tls.ca = Some(good.into_bytes());
    assert!(config_error(&both).contains("contradict each other; remove one"));
}

#[test]
fn a_client_identity_that_cannot_be_used_says_why() {
    let ca = Authority::new("cluster");
    let (me, you) = (ca.issue(&[], |_| ()), ca.issue(&[], |_| ()));
    let config = Config::from_url("https://a").unwrap().with_ca(ca.pem.clone());
    let block = |kind: &str, body: &str| format!("-----BEGIN {kind}-----\n{body}\n-----END {kind}-----\n");
    let cases = [
        (me.cert.clone(), you.key.clone(), "client-key is not the key of the first certificate in client-certificate"),
        (String::new(), me.key.clone(), "client-certificate: is empty; put the certificate there"),
        (block("CERTIFICATE", "Q0E="), me.key.clone(), "client-certificate: its first certificate cannot be read"),
        (me.cert.clone(), "MARKED".into(), "client-key: has no block that begins with -----BEGIN PRIVATE KEY-----"),
        (me.cert.clone(), block("ENCRYPTED PRIVATE KEY", "MARKED=="), "client-key: is encrypted; decrypt it with"),
        (
            me.cert.clone(),
            block("RSA PRIVATE KEY", "Proc-Type: 4,ENCRYPTED\nDEK-Info: MARKED\n\nMARKED"),
            "client-key: is encrypted; decrypt it with",
        ),
        (me.cert.clone(), block("PRIVATE KEY", "MARKED*"), "client-key: is broken"),
        (me.cert.clone(), "-----BEGIN PRIVATE KEY-----\nMARK".into(), "client-key: is broken"),
        (me.cert.clone(), block("PRIVATE KEY", "TUFSS0VE"), "client-key is of a kind that cannot be used"),
    ];
    for (cert, key, want) in cases {
        let error = config_error(&config.clone().with_client_certificate(cert, key));
        assert!(error.starts_with(want), "{error}");
    }
    let mut half = config.clone();
    half.tls.client_key = Some(Secret::new("MARKED"));
    assert_eq!(config_error(&half), "client-key without client-certificate; give both");
    let mut half = config;
    half.tls.client_cert = Some(b"MARKED".to_vec());
    assert_eq!(config_error(&half), "client-certificate without client-key; give both");
}

#[test]
fn a_server_name_that_no_certificate_can_have_is_an_error() {
    let config = Config::from_url("https://a").unwrap();
    assert_eq!(server_name(&config).unwrap().to_str(), "a");
    assert_eq!(server_name(&config.clone().with_server_name("b.example.")).unwrap().to_str(), "b.example");
    let error = server_name(&config.with_server_name("not a name")).unwrap_err().to_string();
    assert_eq!(
        error,
        "server https://a: \"not a name\" is no name that a certificate can have; give one as tls-server-name"
    );
    let config = Config::from_url("https://[::1]:6443").unwrap();
    assert!(matches!(server_name(&config).unwrap(), rustls_pki_types::ServerName::IpAddress(_)));
}

#[test]
fn an_error_without_tls_inside_is_shown_with_its_sources() {
    let error = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
    assert_eq!(explain(&error), "connection refused");
    #[derive(Debug)]
    struct Outer(std::io::Error);
    impl std::fmt::Display for Outer {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("cannot connect")
        }
    }
    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }
    assert_eq!(explain(&Outer(error)), "cannot connect: connection refused");
    let hidden = std::io::Error::other(rustls::Error::InvalidCertificate(rustls::CertificateError::Expired));
    assert!(explain(&Outer(hidden)).starts_with("the server's certificate has expired"));
}
