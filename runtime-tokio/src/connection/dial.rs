//! [`Dialer`]: from the server's address to a stream, and the HTTP that is spoken on it.

use super::{Fault, Stream};
use informer_runtime::addresses::{Refusals, shares};
use informer_runtime::config::{ALPN_HTTP2, HttpVersion, Pings};
use informer_runtime::sync::Arc;
use informer_runtime::tls::{self, TlsSource};
use informer_runtime::{Config, Error};
use rustls_pki_types::ServerName;
use std::time::Duration;
use tokio::net::{TcpStream, lookup_host};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

pub(super) struct Dialer {
    config: Config,
    tls: Option<(Arc<TlsSource>, ServerName<'static>)>,
}

impl Dialer {
    /// How a connection of HTTP/2 that this makes is found dead.
    pub(super) fn pings(&self) -> Pings {
        self.config.pings
    }

    pub(super) fn new(config: &Config) -> Result<Self, Error> {
        let tls = match TlsSource::new(config, config.http_version)? {
            Some(source) => Some((Arc::new(source), tls::server_name(config)?)),
            None => None,
        };
        Ok(Dialer { config: config.clone(), tls })
    }

    /// Certificates are read again for the next connection.
    pub(super) fn suspect(&self) {
        if let Some((source, _)) = &self.tls {
            source.suspect();
        }
    }

    /// A new connection, and what is spoken on it: `Http1` or `Http2`.
    pub(super) async fn dial(&self, within: Duration) -> Result<(Box<dyn Stream>, HttpVersion), Fault> {
        let wanted = self.config.http_version;
        let Some((source, name)) = &self.tls else {
            let version = if wanted == HttpVersion::Http2 { wanted } else { HttpVersion::Http1 };
            return Ok((self.plain(within).await?, version));
        };
        let settings = match source.reads_files() {
            // A network mount that hangs must not stop the tasks of this thread.
            true => {
                let source = Arc::clone(source);
                let read = spawn_blocking(move || source.current()).await;
                read.map_err(|_| Fault::broken("the runtime is shutting down"))?
            }
            false => source.current(),
        };
        let plain = self.plain(within).await?;
        let failed = |error: std::io::Error| Fault::broken(source.failed(&error));
        let stream = TlsConnector::from(settings).connect(name.clone(), plain).await.map_err(failed)?;
        match stream.get_ref().1.alpn_protocol() {
            Some(chosen) if chosen == ALPN_HTTP2 => Ok((Box::new(stream), HttpVersion::Http2)),
            _ if wanted == HttpVersion::Http2 => {
                let way_out = "choose HttpVersion::Auto or HttpVersion::Http1";
                Err(Fault::broken(format_args!("the server does not speak HTTP/2 (it chose no protocol); {way_out}")))
            }
            _ => Ok((Box::new(stream), HttpVersion::Http1)),
        }
    }

    async fn plain(&self, within: Duration) -> Result<Box<dyn Stream>, Fault> {
        #[cfg(unix)]
        if let Some(path) = self.config.server.unix_socket() {
            let refused = |error| Fault::refused(format_args!("cannot connect to {}: {error}", path.display()));
            return Ok(Box::new(tokio::net::UnixStream::connect(path).await.map_err(refused)?));
        }
        Ok(Box::new(self.tcp(within).await?))
    }

    /// Tries the addresses of the host in turn. When the time is over for the last one is said by whoever asked.
    async fn tcp(&self, within: Duration) -> Result<TcpStream, Fault> {
        let (host, port) = (self.config.server.host(), self.config.server.port());
        let found = lookup_host((host, port)).await;
        let found =
            found.map_err(|error| Fault::refused(format_args!("the name {host:?} cannot be resolved: {error}")))?;
        let mut refusals = Refusals::default();
        for (address, patience) in shares(found, within) {
            let reason = match timeout(patience, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    // Requests are small and wait for their answer. Where this cannot be set, they are only slower.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("no answer within {patience:?}"),
            };
            refusals.add(address, reason);
        }
        Err(Fault::refused(refusals.of(host)))
    }
}
