//! What a user is told when the server, or we, say no.

use crate::harness::{cluster, eventually};
use crate::sync::CONFIG_MAPS;
use crate::watcher::Watcher;
use informer_core::{DynamicObject, Resource};
use informer_runtime::informer::InformerSpec;
use std::time::Duration;

/// What `synced` says once something has failed.
fn failure_of<T: Send + Sync + 'static>(watcher: &Watcher<T>) -> String {
    eventually(&format!("{} fails", watcher.name), || {
        watcher.informer().last_failure().ok_or_else(|| format!("{}", watcher.informer().phase()))
    });
    let error = watcher.synced(Duration::from_millis(10)).expect_err("an informer without a list is not synced");
    println!("{}: {error}", watcher.name);
    error.to_string()
}

/// Starts informers as `user`, and checks that the error of `synced` names what it must, in one line, on both runtimes.
fn refused(user: &str, resource: &Resource, parts: &[&str]) {
    let Some(cluster) = cluster() else { return };
    let spec = || InformerSpec::<DynamicObject>::of(resource.clone());
    let watchers = Watcher::pair(&cluster.config(user), None, spec).unwrap_or_else(|error| panic!("{user}: {error}"));
    for watcher in watchers {
        let error = failure_of(&watcher);
        for part in parts {
            assert!(error.contains(part), "{user}, {}: {part:?} is missing in: {error}", watcher.name);
        }
        assert!(!error.contains('\n'), "{error}");
        assert!(!watcher.informer().has_synced());
        assert_eq!(watcher.cached().len(), 0);
        watcher.stop();
    }
}

#[test]
fn a_token_that_is_unknown() {
    refused("wrong-token", &CONFIG_MAPS, &["configmaps", "401 Unauthorized", "check the token"]);
}

#[test]
fn a_user_without_rights() {
    refused(
        "nobody",
        &CONFIG_MAPS,
        &[
            "configmaps",
            "403 Forbidden",
            r#"User "nobody" cannot list resource "configmaps""#,
            r#"grant the verb "list""#,
        ],
    );
}

#[test]
fn a_certificate_without_rights() {
    refused("nobody-cert", &CONFIG_MAPS, &["configmaps", "403 Forbidden", r#"User "nobody-by-certificate""#]);
}

#[test]
fn nobody_at_all() {
    refused("anonymous", &CONFIG_MAPS, &["configmaps", "403 Forbidden", r#"User "system:anonymous""#]);
}

#[test]
fn a_resource_that_is_not_there() {
    let gadgets = Resource::namespaced("nowhere.example.com", "v1", "gadgets", "Gadget");
    refused("admin", &gadgets, &["gadgets", "404 NotFound", "check that the resource is installed", "(here: gadgets)"]);
}

#[test]
fn a_certificate_that_has_expired() {
    refused("expired-cert", &CONFIG_MAPS, &["configmaps", "401 Unauthorized", "client certificate"]);
}

#[test]
fn a_certificate_of_another_authority() {
    refused("foreign-cert", &CONFIG_MAPS, &["configmaps", "401 Unauthorized", "client certificate"]);
}

#[test]
fn a_server_that_is_not_who_it_should_be() {
    refused("wrong-ca", &CONFIG_MAPS, &["configmaps", "certificate", "certificate-authority"]);
}

#[test]
fn a_server_that_is_not_there() {
    let Some(cluster) = cluster() else { return };
    cluster.kill();
    let config = cluster.config("admin");
    let spec = || InformerSpec::<DynamicObject>::of(CONFIG_MAPS);
    for watcher in Watcher::pair(&config, None, spec).unwrap() {
        let error = failure_of(&watcher);
        for part in ["configmaps", "ConnectionRefused", "check the server's address"] {
            assert!(error.contains(part), "{}: {part:?} is missing in: {error}", watcher.name);
        }
        watcher.stop();
    }
}
