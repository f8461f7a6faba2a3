//! Against a real kube-apiserver and etcd on loopback (`peers/apiserver`): whether what we believe about the API is true.
//!
//! ```text
//! peers/apiserver/build
//! INFORMER_REAL_APISERVER=1 cargo test -p informer-conformance --test real_apiserver -- --nocapture --test-threads 1
//! ```
//!
//! Where they are not built each test says so and passes, unless `INFORMER_REAL_APISERVER=1` says that they must be.
//! `INFORMER_SLOW=1` adds the tests that take half a minute or minutes each; `INFORMER_FAULT_SEED=N` chooses another
//! random schedule of network faults.
#![cfg(unix)]

#[path = "real_apiserver/certificate.rs"]
mod certificate;
#[path = "real_apiserver/compare.rs"]
mod compare;
#[path = "real_apiserver/definition.rs"]
mod definition;
#[path = "real_apiserver/deletion.rs"]
mod deletion;
#[path = "real_apiserver/frozen.rs"]
mod frozen;
#[path = "real_apiserver/harness.rs"]
mod harness;
#[path = "real_apiserver/http.rs"]
mod http;
#[path = "real_apiserver/kinds.rs"]
mod kinds;
#[path = "real_apiserver/kubectl.rs"]
mod kubectl;
#[path = "real_apiserver/network.rs"]
mod network;
#[path = "real_apiserver/outage.rs"]
mod outage;
#[path = "real_apiserver/programs.rs"]
mod programs;
#[path = "real_apiserver/proxy.rs"]
mod proxy;
#[path = "real_apiserver/refused.rs"]
mod refused;
#[path = "real_apiserver/restart.rs"]
mod restart;
#[path = "real_apiserver/restore.rs"]
mod restore;
#[path = "real_apiserver/sync.rs"]
mod sync;
#[path = "real_apiserver/watcher.rs"]
mod watcher;
