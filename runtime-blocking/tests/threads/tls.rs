//! TLS with certificates that are made when the test runs, in front of the simulated server.

use crate::support::*;
use informer_blocking::{Client, Config, Factory, Key};
use informer_runtime::http1::SMALL_BUFFER;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

fn authority(name: &str) -> Authority {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    let pem = params.self_signed(&key).unwrap().pem();
    Authority { pem, issuer: Issuer::new(params, key) }
}

impl Authority {
    /// A certificate for this machine and its key, both PEM.
    fn issue(&self) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let names = vec!["127.0.0.1".to_string(), "localhost".to_string()];
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// The server's side of TLS; clients need a certificate of `clients`, if given.
    fn server(&self, clients: Option<&Authority>) -> Arc<ServerConfig> {
        let (certificate, key) = self.issue();
        let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(ca) => {
                let mut roots = RootCertStore::empty();
                roots.add(CertificateDer::from_pem_slice(ca.pem.as_bytes()).unwrap()).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let mut config = builder.with_single_cert(chain, key).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Arc::new(config)
    }
}

/// Ends TLS on a port of its own, in front of `behind`; the threads end with the test process.
fn front(authority: &Authority, behind: SocketAddr) -> SocketAddr {
    changing_front(Arc::new(Mutex::new(authority.server(None))), behind)
}

/// The same with whatever stands in `config` when a connection comes.
fn changing_front(config: Arc<Mutex<Arc<ServerConfig>>>, behind: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let tls = ServerConnection::new(Arc::clone(&config.lock().unwrap())).unwrap();
            let Ok(behind) = TcpStream::connect(behind) else { continue };
            thread::spawn(move || relay(StreamOwned::new(tls, stream.unwrap()), behind));
        }
    });
    addr
}

/// Carries bytes both ways until one side ends.
fn relay(mut front: StreamOwned<ServerConnection, TcpStream>, mut behind: TcpStream) {
    let turn = Some(Duration::from_millis(2));
    front.sock.set_read_timeout(turn).unwrap();
    behind.set_read_timeout(turn).unwrap();
    let mut buffer = vec![0; 16 * 1024];
    let waits = |error: &std::io::Error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
    loop {
        match front.read(&mut buffer) {
            Ok(read) if read > 0 => behind.write_all(&buffer[..read]).unwrap(),
            Err(error) if waits(&error) => {}
            _ => return,
        }
        match behind.read(&mut buffer) {
            Ok(read) if read > 0 => {
                if front.write_all(&buffer[..read]).is_err() {
                    return;
                }
            }
            Err(error) if waits(&error) => {}
            _ => return,
        }
    }
}

#[test]
fn informers_and_calls_go_through_tls() {
    let served = serve(server());
    for number in 0..200 {
        put(&served, &format!("m{number}"), "1");
    }
    let ca = authority("right");
    let addr = front(&ca, served.addr());
    let config = Config::from_url(&format!("https://{addr}")).unwrap().with_ca(ca.pem);
    let factory = Factory::new(Client::connect(config).unwrap());
    let maps = factory.informer_with(impatient());
    factory.start();
    factory.synced(PATIENCE).unwrap();
    assert_eq!(maps.lister().len(), 200);
    put(&served, "m0", "2");
    let key = Key::new("ns", "m0");
    eventually("the watch brings it", || maps.lister().get(&key).unwrap().v() == "2");
    for _ in 0..3 {
        assert_eq!(factory.client().get::<ConfigMap>(&key).unwrap().v(), "2");
    }
    factory.stop(STOP).unwrap();
    assert_eq!(factory.threads(), 0);
}

#[test]
fn an_answer_that_comes_before_the_request_was_taken_is_read() {
    // More than the buffers of two sockets take.
    const MUCH: usize = 24 * 1024 * 1024;
    let ca = authority("right");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let tls = ServerConnection::new(ca.server(None)).unwrap();
    let server = thread::spawn(move || {
        let mut stream = StreamOwned::new(tls, listener.accept().unwrap().0);
        stream.read_exact(&mut [0; 100]).unwrap();
        // It reads on only when all of this was taken.
        let body = "y".repeat(MUCH);
        write!(stream, "HTTP/1.1 413 Large\r\ncontent-length: {MUCH}\r\n\r\n{body}").unwrap();
        stream.flush().unwrap();
        // The client has no more to do with it.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let config = Config::from_url(&format!("https://{addr}")).unwrap().with_ca(ca.pem);
    let client = Client::connect(config).unwrap().timeout(PATIENCE);
    let refused = client.create("ns", &ConfigMap::new("m", &"x".repeat(MUCH))).unwrap_err();
    assert!(refused.to_string().contains("413"), "{refused}");
    server.join().unwrap();
}

#[test]
fn a_certificate_of_another_ca_is_refused_with_the_way_out() {
    let served = serve(server());
    let addr = front(&authority("theirs"), served.addr());
    let config = Config::from_url(&format!("https://{addr}")).unwrap();
    let client = Client::connect(config.clone().with_ca(authority("ours").pem)).unwrap();
    let error = client.get::<ConfigMap>(&Key::new("ns", "m")).unwrap_err().to_string();
    assert!(error.contains("issued by an unknown CA; give the cluster's CA as certificate-authority"), "{error}");

    let factory = Factory::new(client);
    factory.informer_with(impatient());
    factory.start();
    eventually("it failed", || factory.lagging().iter().any(|lagging| lagging.failure.is_some()));
    let error = factory.synced(Duration::from_millis(1)).unwrap_err().to_string();
    assert!(error.contains("issued by an unknown CA"), "{error}");
    factory.stop(STOP).unwrap();

    // Without a CA there is no client at all; `insecure` is a choice.
    assert!(Client::connect(config.clone()).unwrap_err().to_string().contains("no CA to check"));
    let insecure = Client::connect(config.insecure(true)).unwrap();
    assert!(insecure.get::<ConfigMap>(&Key::new("ns", "m")).unwrap_err().is_not_found());
}

#[test]
fn a_server_without_tls_behind_https_is_named() {
    let served = serve(server());
    let config = Config::from_url(&format!("https://{}", served.addr())).unwrap().insecure(true);
    let error = Client::connect(config).unwrap().get::<ConfigMap>(&Key::new("ns", "m")).unwrap_err().to_string();
    assert!(error.contains("does not speak TLS"), "{error}");
}

/// Answers each request of a connection with what `answer` makes of the number of that connection, in one record.
fn answers(authority: &Authority, answer: impl Fn(usize) -> Vec<u8> + Send + Sync + 'static) -> SocketAddr {
    let (config, answer) = (authority.server(None), Arc::new(answer));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let (tls, answer) = (ServerConnection::new(Arc::clone(&config)).unwrap(), Arc::clone(&answer));
            thread::spawn(move || {
                let (mut stream, mut request) = (StreamOwned::new(tls, stream.unwrap()), Vec::new());
                let mut part = [0; 1024];
                while let Ok(read @ 1..) = stream.read(&mut part) {
                    request.extend_from_slice(&part[..read]);
                    if request.ends_with(b"\r\n\r\n") {
                        request.clear();
                        stream.write_all(&answer(number)).unwrap();
                    }
                }
            });
        }
    });
    addr
}

fn answer_of(version: &str, bytes: usize) -> Vec<u8> {
    let map = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "m", "namespace": "ns", "uid": "u", "resourceVersion": "1"},
        "data": {"v": version},
    })
    .to_string();
    let head = |length: usize| {
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n")
    };
    let length = map.len().max(bytes.saturating_sub(head(100).len()));
    format!("{}{map:length$}", head(length)).into_bytes()
}

/// What lies unread inside TLS is not in the socket, where nothing seems to wait.
#[test]
fn an_answer_that_nobody_asked_for_is_never_that_of_the_next_request() {
    let ca = authority("right");
    let addr = answers(&ca, |connection| match connection {
        0 => {
            // A read of the size that the first one has takes this answer to its end and no more.
            let mut both = answer_of("0", SMALL_BUFFER);
            assert_eq!(both.len(), SMALL_BUFFER);
            both.extend(answer_of("unasked", 0));
            both
        }
        later => answer_of(&later.to_string(), 0),
    });
    let client = Client::connect(Config::from_url(&format!("https://{addr}")).unwrap().with_ca(ca.pem)).unwrap();
    let read = || client.get::<ConfigMap>(&Key::new("ns", "m")).unwrap().v().to_string();
    assert_eq!([(); 3].map(|()| read()), ["0", "1", "1"], "by number of the connection, of which the second is good");
}

/// Only TLS says whether a body without a length is complete: whoever stands between can end the socket anywhere.
#[test]
fn a_body_without_a_length_is_complete_if_tls_says_so() {
    let ca = authority("right");
    let config = ca.server(None);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream.unwrap());
            let mut request = [0; 4096];
            assert!(stream.read(&mut request).unwrap() > 0);
            let answer = String::from_utf8(answer_of("whole", 0)).unwrap();
            let (_, body) = answer.split_once("\r\n\r\n").unwrap();
            write!(stream, "HTTP/1.1 200 OK\r\n\r\n{body}").unwrap();
            if number == 0 {
                stream.conn.send_close_notify();
            }
            stream.flush().unwrap();
            stream.sock.shutdown(std::net::Shutdown::Write).unwrap();
        }
    });
    let client = Client::connect(Config::from_url(&format!("https://{addr}")).unwrap().with_ca(ca.pem)).unwrap();
    let read = || client.get::<ConfigMap>(&Key::new("ns", "m"));
    assert_eq!(read().unwrap().v(), "whole");
    let error = read().unwrap_err().to_string();
    assert!(error.contains("close_notify"), "{error}");
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("informer-blocking-{name}-{}", std::process::id()));
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
#[test]
fn a_rotated_ca_is_trusted_by_clients_that_run() {
    let mut served = serve(server());
    put(&served, "a", "1");
    let (old, new) = (authority("old"), authority("new"));
    let tls = Arc::new(Mutex::new(old.server(None)));
    let addr = changing_front(Arc::clone(&tls), served.addr());
    let folder = Folder::new("ca");
    let config = Config::from_url(&format!("https://{addr}")).unwrap();
    let client = Client::connect(config.with_ca_file(folder.write("ca.crt", &old.pem))).unwrap();
    let factory = Factory::new(client.clone());
    let maps = factory.informer_with(paged());
    factory.start();
    factory.synced(PATIENCE).unwrap();

    *tls.lock().unwrap() = new.server(None);
    served.restart().unwrap(); // every connection breaks
    let failed = |with: &str| maps.last_failure().is_some_and(|failure| failure.to_string().contains(with));
    eventually("the new certificate is refused", || failed("unknown CA"));
    folder.write("ca.crt", &new.pem[..new.pem.len() / 2]);
    eventually("a half-written file is reported", || failed("older files are in use"));
    folder.write("ca.crt", &new.pem);
    put(&served, "b", "1");
    eventually("the informer has recovered", || maps.lister().len() == 2);
    assert_eq!(client.get::<ConfigMap>(&Key::new("ns", "a")).unwrap().v(), "1");
    factory.stop(STOP).unwrap();
}

#[test]
fn a_renewed_client_certificate_is_shown_by_clients_that_run() {
    let served = serve(server());
    put(&served, "a", "1");
    let (ca, users, strangers) = (authority("cluster"), authority("users"), authority("strangers"));
    let addr = changing_front(Arc::new(Mutex::new(ca.server(Some(&users)))), served.addr());
    let folder = Folder::new("identity");
    let (cert, key) = strangers.issue();
    let config = Config::from_url(&format!("https://{addr}")).unwrap().with_ca(ca.pem);
    let config = config.with_client_certificate_files(folder.write("tls.crt", &cert), folder.write("tls.key", &key));
    let factory = Factory::new(Client::connect(config).unwrap());
    let maps = factory.informer_with(paged());
    factory.start();
    eventually("the stranger is refused", || maps.last_failure().is_some());
    let (cert, key) = users.issue();
    folder.write("tls.crt", &cert);
    folder.write("tls.key", &key);
    factory.synced(PATIENCE).unwrap();
    assert_eq!(maps.lister().len(), 1);
    factory.stop(STOP).unwrap();
}

/// K5: a certificate belongs to a connection, so that a 401 needs a new one.
#[test]
fn a_certificate_that_is_refused_with_401_is_shown_anew_on_a_new_connection() {
    let (ca, users) = (authority("cluster"), authority("users"));
    let script = Script::start(|_| Reply::Answer(401, "{}".into()));
    let addr = changing_front(Arc::new(Mutex::new(ca.server(Some(&users)))), script.addr());
    let (cert, key) = users.issue();
    let config = Config::from_url(&format!("https://{addr}")).unwrap().with_ca(ca.pem);
    let client = Client::connect(config.with_client_certificate(cert, key.as_str())).unwrap();
    let error = client.get::<ConfigMap>(&Key::new("ns", "m")).unwrap_err().to_string();
    assert!(error.contains("401"), "{error}");
    assert_eq!((script.requests().len(), script.connections()), (2, 2));
}
