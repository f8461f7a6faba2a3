//! TLS with certificates that are made when the test runs, in front of the simulated server.

use crate::support::*;
use informer_blocking::{Client, Config, Factory, Key};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
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

/// Ends TLS on a port of its own, in front of `behind`; the threads end with the test process.
fn front(authority: &Authority, behind: SocketAddr) -> SocketAddr {
    let key = KeyPair::generate().unwrap();
    let names = vec!["127.0.0.1".to_string(), "localhost".to_string()];
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &authority.issuer).unwrap();
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let tls = ServerConnection::new(Arc::clone(&config)).unwrap();
            let behind = TcpStream::connect(behind).unwrap();
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
