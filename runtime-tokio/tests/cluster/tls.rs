//! TLS and addresses.

use crate::support::*;
use informer_sim::{Config as SimConfig, Served};
use informer_tokio::{Client, Config, Factory, Key};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// A certificate authority: its certificate, and what it signs with.
pub(crate) struct Authority(pub(crate) String, Issuer<'static, KeyPair>);

pub(crate) fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    Authority(pem, Issuer::new(params, key))
}

impl Authority {
    /// A certificate for 127.0.0.1 and its key, both PEM.
    pub(crate) fn issue(&self) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_string()]).unwrap();
        (params.signed_by(&key, &self.1).unwrap().pem(), key.serialize_pem())
    }

    /// The server's side of TLS for 127.0.0.1, with these protocols; clients need a certificate of `clients`, if given.
    pub(crate) fn acceptor(&self, alpn: &[&str], clients: Option<&Authority>) -> TlsAcceptor {
        let (cert, key) = self.issue();
        let chain = vec![CertificateDer::from_pem_slice(cert.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(Authority(pem, _)) => {
                let mut roots = RootCertStore::empty();
                roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let mut config = builder.with_single_cert(chain, key).unwrap();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// Speaks TLS for 127.0.0.1 and passes what it carries on to `served`.
async fn tls_front(served: &Served, authority: &Authority) -> SocketAddr {
    let acceptor = authority.acceptor(&["http/1.1"], None);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (front, back) = (listener.local_addr().unwrap(), served.addr());
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                // A client that does not trust us goes away, and that is what one test wants.
                let Ok(mut client) = acceptor.accept(socket).await else { return };
                let mut server = TcpStream::connect(back).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    front
}

#[tokio::test]
async fn an_informer_and_its_writes_go_over_tls() {
    let served = serve_with(SimConfig::default(), "127.0.0.1:0", &["configmaps=300:600"]);
    let ca = authority();
    let front = tls_front(&served, &ca).await;
    let client = Client::connect(Config::from_url(&format!("https://{front}")).unwrap().with_ca(ca.0)).unwrap();
    let factory = Factory::new(client.clone());
    let maps = factory.informer::<ConfigMap>();
    factory.start();
    factory.synced(LONG).await.unwrap();
    assert_eq!(maps.lister().len(), 300);
    client.create("web", &ConfigMap::new("late", "1")).await.unwrap();
    eventually("the watch shows it", || maps.lister().get(&Key::new("web", "late")).is_some()).await;
    factory.stop(STOP).await.unwrap();
}

#[tokio::test]
async fn a_server_of_another_ca_is_named_so() {
    let served = serve();
    let front = tls_front(&served, &authority()).await;
    let config = Config::from_url(&format!("https://{front}")).unwrap().with_ca(authority().0);
    let client = Client::connect(config).unwrap();
    let error = client.get::<ConfigMap>(&Key::new("web", "a")).await.unwrap_err().to_string();
    assert!(error.contains("give the cluster's CA as certificate-authority"), "{error}");
    let factory = Factory::new(client);
    let maps = factory.informer::<ConfigMap>();
    factory.start();
    eventually("a failure", || maps.last_failure().is_some()).await;
    let failure = maps.last_failure().unwrap().to_string();
    assert!(failure.contains("give the cluster's CA as certificate-authority"), "{failure}");
    factory.stop(STOP).await.unwrap();
}

#[test]
fn a_client_without_a_ca_is_refused_before_it_connects() {
    let error = Client::connect(Config::from_url("https://127.0.0.1:1").unwrap()).unwrap_err().to_string();
    assert!(error.contains("no CA to check the server's certificate against"), "{error}");
}

#[tokio::test]
async fn a_server_is_found_by_its_ipv6_address_and_by_name() {
    let served = serve();
    put(&served, "web/a", "1");
    let port = served.addr().port();
    let by_name = client_of(&format!("http://localhost:{port}"));
    assert_eq!(by_name.get::<ConfigMap>(&Key::new("web", "a")).await.unwrap().text(), "1");
    if StdListener::bind("[::1]:0").is_err() {
        return; // this machine has no IPv6
    }
    let served = serve_with(SimConfig::default(), "[::1]:0", &[]);
    put(&served, "web/a", "6");
    let client = client_of(&format!("http://{}", served.addr()));
    assert_eq!(client.get::<ConfigMap>(&Key::new("web", "a")).await.unwrap().text(), "6");
}
