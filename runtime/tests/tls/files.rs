//! Certificates in files that change while we run (kube-rs K4: a CA that is read once fails for ever after a rotation).

use super::*;
use informer_runtime::config::HttpVersion;
use informer_runtime::tls::TlsSource;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder that is gone when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("informer-tls-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn source(config: &Config) -> TlsSource {
    TlsSource::new(config, HttpVersion::Http1).unwrap().expect("https")
}

fn https() -> Config {
    Config::from_url("https://127.0.0.1:1").unwrap()
}

/// What the next connection to a server with this identity reads.
fn next(source: &TlsSource, identity: &Identity, clients: Option<&Authority>) -> Result<String, String> {
    let server = Server::start(identity, clients);
    let outcome = greet_with(source.current(), &https(), server.port);
    server.thread.join().unwrap();
    outcome
}

#[test]
fn a_changed_ca_is_trusted_by_the_next_connection_and_an_unchanged_one_is_not_read_again() {
    let folder = Folder::new();
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let identity = new.issue(&["127.0.0.1"], |_| ());
    let source = source(&https().with_ca_file(folder.write("ca.crt", &old.pem)));
    assert!(next(&source, &identity, None).unwrap_err().contains("unknown CA"));
    assert!(Arc::ptr_eq(&source.current(), &source.current()));
    folder.write("ca.crt", &new.pem);
    assert_eq!(next(&source, &identity, None), Ok("hello".into()));
}

#[cfg(unix)]
#[test]
fn a_mounted_volume_that_swaps_its_link_is_followed() {
    let folder = Folder::new();
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    for (name, ca) in [("..1", &old), ("..2", &new)] {
        std::fs::create_dir(folder.0.join(name)).unwrap();
        std::fs::write(folder.0.join(name).join("ca.crt"), &ca.pem).unwrap();
    }
    let point_to = |name: &str| {
        std::os::unix::fs::symlink(folder.0.join(name), folder.0.join("next")).unwrap();
        std::fs::rename(folder.0.join("next"), folder.0.join("..data")).unwrap();
    };
    point_to("..1");
    let source = source(&https().with_ca_file(folder.0.join("..data").join("ca.crt")));
    point_to("..2");
    assert_eq!(next(&source, &new.issue(&["127.0.0.1"], |_| ()), None), Ok("hello".into()));
}

#[test]
fn a_half_written_file_changes_nothing_and_the_next_failure_says_so() {
    let folder = Folder::new();
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let source = source(&https().with_ca_file(folder.write("ca.crt", &old.pem)));
    let before = source.current();
    folder.write("ca.crt", &new.pem[..new.pem.len() / 2]);
    assert_eq!(next(&source, &old.issue(&["127.0.0.1"], |_| ()), None), Ok("hello".into()));
    assert!(Arc::ptr_eq(&before, &source.current()));
    let failure = std::io::Error::other(rustls::Error::from(rustls::CertificateError::UnknownIssuer));
    let line = source.failed(&failure);
    assert!(
        line.contains("unknown CA") && line.contains("(older files are in use: server https://127.0.0.1:1: "),
        "{line}"
    );
    assert!(line.contains("certificate-authority: PEM block 1 is broken"), "{line}");
    folder.write("ca.crt", &new.pem);
    assert_eq!(next(&source, &new.issue(&["127.0.0.1"], |_| ()), None), Ok("hello".into()));
    assert!(!source.failed(&failure).contains("older files"));
}

#[test]
fn a_file_that_is_gone_leaves_what_was_in_it() {
    let folder = Folder::new();
    let ca = Authority::new("cluster");
    let path = folder.write("ca.crt", &ca.pem);
    let source = source(&https().with_ca_file(&path));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(next(&source, &ca.issue(&["127.0.0.1"], |_| ()), None), Ok("hello".into()));
}

/// K6: the identity is not what it was when the client was made.
#[test]
fn a_new_client_certificate_is_shown_as_soon_as_its_key_is_there() {
    let folder = Folder::new();
    let (ca, users) = (Authority::new("cluster"), Authority::new("users"));
    let server = ca.issue(&["127.0.0.1"], |_| ());
    let (old, new) = (users.issue(&["me"], expired), users.issue(&["me"], |_| ()));
    let (cert, key) = (folder.write("tls.crt", &old.cert), folder.write("tls.key", &old.key));
    let config = https().with_ca(ca.pem.clone()).with_client_certificate_files(cert, key);
    assert!(config.has_certificate());
    let source = source(&config);
    let refusal = next(&source, &server, Some(&users)).unwrap_err();
    assert!(refusal.contains("it has expired"), "{refusal}");
    let before = source.current();
    folder.write("tls.crt", &new.cert);
    assert!(Arc::ptr_eq(&before, &source.current()), "a certificate without its key is not used");
    folder.write("tls.key", &new.key);
    assert_eq!(next(&source, &server, Some(&users)), Ok("hello".into()));
}

#[test]
fn after_a_failure_files_are_read_again_though_they_look_the_same() {
    let folder = Folder::new();
    let source = source(&https().with_ca_file(folder.write("ca.crt", &Authority::new("cluster").pem)));
    let before = source.current();
    source.suspect();
    let after = source.current();
    assert!(!Arc::ptr_eq(&before, &after));
    assert!(Arc::ptr_eq(&after, &source.current()), "once");
}

#[test]
fn paths_of_a_kubeconfig_are_followed_and_inline_data_is_not() {
    let folder = Folder::new();
    let (ca, users) = (Authority::new("cluster"), Authority::new("users"));
    let me = users.issue(&["me"], |_| ());
    folder.write("ca.crt", &ca.pem);
    folder.write("me.crt", &me.cert);
    folder.write("me.key", &me.key);
    let kubeconfig = |cluster: &str, user: &str| {
        let path = folder.write(
            "config",
            &format!(
                "current-context: x\ncontexts: [{{name: x, context: {{cluster: x, user: x}}}}]\n\
                 clusters: [{{name: x, cluster: {{server: 'https://127.0.0.1:1', {cluster}}}}}]\n\
                 users: [{{name: x, user: {{{user}}}}}]\n"
            ),
        );
        Config::from_kubeconfig(path, None).unwrap().tls.files
    };
    let files = kubeconfig("certificate-authority: ca.crt", "client-certificate: me.crt, client-key: me.key");
    let at = |name: &str| Some(folder.0.join(name));
    assert_eq!((files.ca, files.client_cert, files.client_key), (at("ca.crt"), at("me.crt"), at("me.key")));
    let data = "LS0tLS1CRUdJTg==";
    let files = kubeconfig(
        &format!("certificate-authority: ca.crt, certificate-authority-data: {data}"),
        &format!(
            "client-certificate: me.crt, client-certificate-data: {data}, client-key: me.key, client-key-data: {data}"
        ),
    );
    assert_eq!(files, Default::default());
}

/// K1: whoever refreshes holds up nobody who has something to go on with.
#[cfg(unix)]
#[test]
fn a_file_that_hangs_holds_up_no_connection_that_came_before() {
    let folder = Folder::new();
    let ca = Authority::new("cluster");
    let path = folder.write("ca.crt", &ca.pem);
    let source = Arc::new(source(&https().with_ca_file(&path)));
    std::fs::remove_file(&path).unwrap();
    // Opening a pipe waits for a writer.
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let hanging = Arc::clone(&source);
    let reader = std::thread::spawn(move || hanging.current());
    // Were a lock held over the read, these would wait for it.
    source.suspect();
    let failure = std::io::Error::other("x");
    assert_eq!(source.failed(&failure), "x");
    std::fs::write(&path, &ca.pem).unwrap();
    reader.join().unwrap();
}
