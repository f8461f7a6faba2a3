//! The blocking runtime against a simulated API server on a loopback port.

mod client;
mod controller;
mod forms;
mod informer;
mod sockets;
mod stop;
mod support;
mod tls;
mod watches;
