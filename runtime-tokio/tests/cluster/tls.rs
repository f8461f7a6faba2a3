//! TLS and addresses.

use crate::support::*;
use informer_sim::{Config as SimConfig, Served};
use informer_tokio::{Client, Config, Factory, Key};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::net::{SocketAddr, TcpListener as StdListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
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
    changing_front(served.addr(), Arc::new(Mutex::new(authority.acceptor(&["http/1.1"], None)))).await
}

/// Only TLS says whether a body without a length is complete: whoever stands between can end the socket anywhere.
#[tokio::test]
async fn a_body_without_a_length_is_complete_if_tls_says_so() {
    let ca = authority();
    let acceptor = ca.acceptor(&["http/1.1"], None);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        for number in 0.. {
            let mut stream = acceptor.accept(listener.accept().await.unwrap().0).await.unwrap();
            assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
            let map = serde_json::to_string(&ConfigMap::new("m", "1")).unwrap();
            stream.write_all(format!("HTTP/1.1 200 OK\r\n\r\n{map}").as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
            match number {
                0 => stream.shutdown().await.unwrap(),
                _ => stream.get_mut().0.shutdown().await.unwrap(),
            }
        }
    });
    let client = Client::connect(Config::from_url(&format!("https://{addr}")).unwrap().with_ca(ca.0)).unwrap();
    let key = Key::new("web", "m");
    assert!(client.get::<ConfigMap>(&key).await.is_ok());
    let error = client.get::<ConfigMap>(&key).await.unwrap_err().to_string();
    assert!(error.contains("close_notify"), "{error}");
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

/// Speaks TLS with whatever stands in `acceptor` when a connection comes, and passes on to `behind`.
async fn changing_front(behind: SocketAddr, acceptor: Arc<Mutex<TlsAcceptor>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.lock().unwrap().clone();
            tokio::spawn(async move {
                // A client that does not trust us goes away, and that is what some tests want.
                let Ok(mut client) = acceptor.accept(socket).await else { return };
                let mut server = TcpStream::connect(behind).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    addr
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("informer-tokio-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        std::fs::write(self.0.join(name), text).unwrap();
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// kube-rs K4: after the CA was rotated, every connection failed until a restart.
#[tokio::test]
async fn a_rotated_ca_is_trusted_by_clients_that_run() {
    let mut served = serve();
    put(&served, "web/a", "1");
    let (old, new) = (authority(), authority());
    let acceptor = Arc::new(Mutex::new(old.acceptor(&["http/1.1"], None)));
    let front = changing_front(served.addr(), Arc::clone(&acceptor)).await;
    let folder = Folder::new("ca");
    let config = Config::from_url(&format!("https://{front}")).unwrap();
    let client = Client::connect(config.with_ca_file(folder.write("ca.crt", &old.0))).unwrap();
    let factory = Factory::new(client.clone());
    let maps = factory.informer_with(paged::<ConfigMap>());
    factory.start();
    factory.synced(LONG).await.unwrap();

    *acceptor.lock().unwrap() = new.acceptor(&["http/1.1"], None);
    served.restart().unwrap(); // every connection breaks
    eventually("the new certificate is refused", || {
        maps.last_failure().is_some_and(|it| it.to_string().contains("CA"))
    })
    .await;
    folder.write("ca.crt", &new.0[..new.0.len() / 2]);
    eventually("a half-written file is reported", || {
        maps.last_failure().is_some_and(|it| it.to_string().contains("older files are in use"))
    })
    .await;
    folder.write("ca.crt", &new.0);
    put(&served, "web/b", "1");
    eventually("the informer has recovered", || maps.lister().len() == 2).await;
    assert_eq!(client.get::<ConfigMap>(&Key::new("web", "a")).await.unwrap().text(), "1");
    factory.stop(STOP).await.unwrap();
}

#[tokio::test]
async fn a_renewed_client_certificate_is_shown_by_clients_that_run() {
    let served = serve();
    put(&served, "web/a", "1");
    let (ca, users, strangers) = (authority(), authority(), authority());
    let acceptor = Arc::new(Mutex::new(ca.acceptor(&["http/1.1"], Some(&users))));
    let front = changing_front(served.addr(), acceptor).await;
    let folder = Folder::new("identity");
    let (cert, key) = strangers.issue();
    let config = Config::from_url(&format!("https://{front}")).unwrap().with_ca(ca.0);
    let config = config.with_client_certificate_files(folder.write("tls.crt", &cert), folder.write("tls.key", &key));
    let factory = Factory::new(Client::connect(config).unwrap());
    let maps = factory.informer_with(paged::<ConfigMap>());
    factory.start();
    eventually("the stranger is refused", || maps.last_failure().is_some()).await;
    let (cert, key) = users.issue();
    folder.write("tls.crt", &cert);
    folder.write("tls.key", &key);
    factory.synced(LONG).await.unwrap();
    assert_eq!(maps.lister().len(), 1);
    factory.stop(STOP).await.unwrap();
}

/// K5: a certificate belongs to a connection, so that a 401 needs a new one.
#[tokio::test]
async fn a_certificate_that_is_refused_with_401_is_shown_anew_on_a_new_connection() {
    let requests = Log::default();
    let log = requests.clone();
    let behind = scripted(move |connection, mut peer| {
        let log = log.clone();
        async move {
            while peer.request().await.is_some() {
                log.add(connection.to_string());
                match connection {
                    0 => peer.answer("401 Unauthorized", "{}").await,
                    _ => peer.answer("200 OK", r#"{"metadata":{"name":"a","namespace":"web"}}"#).await,
                }
            }
        }
    })
    .await;
    let (ca, users) = (authority(), authority());
    let acceptor = Arc::new(Mutex::new(ca.acceptor(&["http/1.1"], Some(&users))));
    let front = changing_front(behind, acceptor).await;
    let (cert, key) = users.issue();
    let config = Config::from_url(&format!("https://{front}"))
        .unwrap()
        .with_ca(ca.0)
        .with_client_certificate(cert, key.as_str());
    let api = Client::connect(config).unwrap().api::<ConfigMap>();
    for _ in 0..2 {
        api.get(&Key::new("web", "a")).await.unwrap();
    }
    assert_eq!(requests.lines(), ["0", "1", "1"]);
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
        eprintln!("this machine has no IPv6 loopback");
        return;
    }
    let served = serve_with(SimConfig::default(), "[::1]:0", &[]);
    put(&served, "web/a", "6");
    let client = client_of(&format!("http://{}", served.addr()));
    assert_eq!(client.get::<ConfigMap>(&Key::new("web", "a")).await.unwrap().text(), "6");
}
