//! The server comes back with another certificate.

use crate::harness::{Cluster, cluster, eventually, is_slow_wanted};
use crate::network::quick;
use crate::sync::{CONFIG_MAPS, map_template};
use crate::watcher::{Collection, Watcher};
use informer_core::reflector::Failure;
use informer_runtime::informer::InformerSpec;
use k8s_openapi::api::core::v1::ConfigMap;

fn spec() -> InformerSpec<ConfigMap> {
    InformerSpec::new().tuning(quick())
}

fn about_the_certificate(watcher: &Watcher<ConfigMap>) -> Vec<Failure> {
    let failures = watcher.failures().into_iter();
    failures.filter(|failure| failure.message.contains("certificate")).collect()
}

/// Restarts the server with this certificate, and waits until both informers have refused it twice for this reason.
fn refused(cluster: &Cluster, watchers: &[Watcher<ConfigMap>], certificate: &str, parts: &[&str]) {
    cluster.kill();
    cluster.start_server_as(certificate);
    for watcher in watchers {
        let failures = eventually(&format!("{} refuses {certificate}", watcher.name), || {
            let failures = about_the_certificate(watcher);
            if failures.len() >= 2 { Ok(failures) } else { Err(format!("{:?}", watcher.failures())) }
        });
        for failure in failures {
            let text = failure.to_string();
            for part in parts {
                assert!(text.contains(part), "{}: {part:?} is missing in: {text}", watcher.name);
            }
            assert_eq!(failure.code, 0, "nobody answered: {text}");
        }
        println!("{}", about_the_certificate(watcher)[0]);
    }
}

#[test]
fn a_renewed_certificate_is_no_event_and_a_new_authority_is_known_once_its_file_is_replaced() {
    let Some(cluster) = cluster() else { return };
    let namespace = cluster.namespace("rotated");
    let mut maps = Collection::new(&cluster, &CONFIG_MAPS, &namespace, map_template());
    maps.create("a");
    maps.create("b");
    cluster.trust("ca");
    let watchers = Watcher::synced_pair(&cluster.config("ca-file"), Some(&namespace), spec);
    // The same authority.
    cluster.kill();
    cluster.start_server_as("server-renewed");
    maps.delete("a");
    for watcher in &watchers {
        watcher.agrees_with(&cluster.admin());
        assert_eq!(about_the_certificate(watcher), [], "{}", watcher.name);
    }
    // Another one.
    refused(
        &cluster,
        &watchers,
        "server-other-ca",
        &["configmaps", "issued by an unknown CA", "certificate-authority"],
    );
    for watcher in &watchers {
        assert!(watcher.informer().has_synced(), "{}: it stays so", watcher.name);
    }
    cluster.trust("other-ca");
    // What reads the file now trusts the new authority only.
    Collection::by(&cluster, "ca-file", &CONFIG_MAPS, &namespace, map_template()).create("between");
    for watcher in &watchers {
        watcher.agrees_with(&cluster.endpoint("ca-file"));
    }
    // And back again.
    cluster.kill();
    cluster.start_server();
    cluster.trust("ca");
    maps.create("c");
    for watcher in watchers {
        watcher.agrees_with(&cluster.admin());
        for seen in watcher.seen() {
            maps.explains(&watcher.name, &seen);
            assert_eq!(seen.story(&format!("{namespace}/b")), ["added"], "{}", watcher.name);
        }
        watcher.asks_within_its_backoff();
        watcher.stop();
    }
}

#[test]
fn a_certificate_for_another_host_is_never_connected_to() {
    if !is_slow_wanted("a certificate for another host") {
        return;
    }
    let Some(cluster) = cluster() else { return };
    let namespace = cluster.namespace("elsewhere");
    let maps = Collection::new(&cluster, &CONFIG_MAPS, &namespace, map_template());
    maps.create("a");
    let watchers = Watcher::synced_pair(&cluster.config("admin"), Some(&namespace), spec);
    let parts = ["configmaps", r#"not for "127.0.0.1" but for elsewhere.example.com"#, "tls-server-name"];
    refused(&cluster, &watchers, "server-elsewhere", &parts);
    for watcher in &watchers {
        assert_eq!(watcher.cached().len(), 1, "{}: what is cached stays", watcher.name);
    }
    // Under the name that the certificate has, it is a server like any other.
    let renamed = cluster.config("admin").with_server_name("elsewhere.example.com");
    let named = Watcher::synced_pair(&renamed, Some(&namespace), spec);
    for watcher in named {
        assert_eq!(watcher.cached().len(), 1, "{}", watcher.name);
        assert_eq!(watcher.failures(), [], "{}", watcher.name);
        watcher.stop();
    }
    cluster.kill();
    cluster.start_server();
    maps.create("b");
    for watcher in watchers {
        watcher.agrees_with(&cluster.admin());
        for seen in watcher.seen() {
            maps.explains(&watcher.name, &seen);
        }
        watcher.asks_within_its_backoff();
        watcher.stop();
    }
}
