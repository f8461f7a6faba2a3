//! A Kubernetes API server as a state machine, to test informers and controllers against.
//!
//! [`Server`] answers HTTP requests the way a real kube-apiserver 1.36 does (lists, watches, streaming lists, paging,
//! 410s, bookmarks, writes, finalizers, custom resource definitions) and does no IO: the driver hands in requests and time, and
//! carries out what comes back. Equal seeds and equal inputs give equal bytes.
//!
//! ```
//! use informer_core::object::Resource;
//! use informer_core::time::Time;
//! use informer_sim::{CallId, Config, HttpRequest, Input, Output, Server};
//!
//! let mut server = Server::new(Config { seed: 7, ..Config::default() });
//! server.register(Resource::namespaced("", "v1", "configmaps", "ConfigMap"), Default::default());
//!
//! // Watch everything, then create an object.
//! let (watch, create) = (CallId(1), CallId(2));
//! let request = HttpRequest::get("/api/v1/configmaps?watch=true&resourceVersion=1");
//! server.handle(Time::from_millis(1), Input::Request { id: watch, request });
//! let request = HttpRequest::new("POST", "/api/v1/namespaces/web/configmaps").body(r#"{"metadata": {"name": "a"}}"#);
//! server.handle(Time::from_millis(2), Input::Request { id: create, request });
//!
//! let mut seen = String::new();
//! let deadline = loop {
//!     match server.poll_output() {
//!         Output::Body { id, bytes } if id == watch => seen += std::str::from_utf8(&bytes).unwrap(),
//!         Output::Wait(deadline) => break deadline,
//!         _ => {}
//!     }
//! };
//! assert!(seen.starts_with(r#"{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a""#));
//! assert_eq!(deadline.unwrap().why, "timeout of a watch");
//! ```
//!
//! - [`Server::put`] and [`Server::delete`] change objects without HTTP; [`fill`] makes many realistic ones, and
//!   [`Churn`] keeps changing them.
//! - With the feature `serve` (on by default) `Served` puts a server on a loopback port, for clients that speak
//!   HTTP only.
//!
//! An object with finalizers is marked when it is deleted, and goes with the update that takes the last of them away; so a
//! controller that cleans up can be tested to the end. Metadata is checked as the real server checks it: names, labels,
//! annotations, finalizers, owner references.
//!
//! Not simulated: discovery, dry runs (they are refused), strategic and JSON patches, server-side apply, defaults and
//! validation of the specs of built-in types, `managedFields`. Namespaces need not exist, and go at once. There is only the
//! API server: no garbage collector takes its finalizers away or collects what has lost its owner, and no kubelet ends the
//! deletion of a Pod on a node, which waits for a deletion with grace period 0.
#![forbid(unsafe_code)]

mod body;
mod common;
mod config;
pub mod fill;
mod gzip;
mod message;
mod names;
mod object;
mod query;
mod select;
#[cfg(feature = "serve")]
pub mod serve;
mod server;
mod status;
mod table;
mod text;
mod token;
mod validate;

pub use config::{Config, Options};
pub use fill::{Churn, Fill};
pub use message::{CallId, HttpRequest, Input, Output};
pub use object::StoredObject;
#[cfg(feature = "serve")]
pub use serve::Served;
pub use server::Server;
pub use status::Status;
