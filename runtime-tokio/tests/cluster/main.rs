//! The runtime against the simulated API server on loopback, and against servers that misbehave.

mod client;
mod controller;
mod faults;
mod forms;
mod front;
mod http2;
mod informer;
mod leave;
mod sockets;
mod stop;
mod support;
mod tls;
mod watches;
