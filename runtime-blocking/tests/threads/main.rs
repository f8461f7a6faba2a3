//! The blocking runtime against a simulated API server on a loopback port.

mod client;
mod controller;
mod forms;
mod informer;
mod leave;
mod sockets;
mod stop;
mod support;
mod tls;
mod watches;
