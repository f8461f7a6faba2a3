//! HTTP/1.1: one request at a time on a connection, which the task of that request drives.
//!
//! It needs no task of its own: dropping the future closes the socket, and a task that does not read makes the server
//! wait. Between two requests nobody drives it; it is looked at when it is taken out again.

use super::{Answer, Fault, Lost, Outgoing, READ_BUFFER, Stream};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header;
use hyper_util::rt::TokioIo;
use informer_runtime::tls;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};

type Io = TokioIo<Box<dyn Stream>>;

/// One connection.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    line: Line,
}

/// hyper's side of a connection: it reads and writes when it is polled.
struct Line {
    future: Pin<Box<http1::Connection<Io, Full<Bytes>>>>,
    over: bool,
}

impl Line {
    /// Drives the connection until `future` is done. What goes wrong with the connection reaches `future` by itself.
    async fn until<F: Future>(&mut self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|cx| {
            self.over = self.over || self.future.as_mut().poll(cx).is_ready();
            future.as_mut().poll(cx)
        })
        .await
    }
}

/// The body of an answer, and the connection that it comes on.
pub(crate) struct Body {
    connection: Connection,
    incoming: Incoming,
}

pub(super) async fn open(stream: Box<dyn Stream>) -> Result<Connection, Fault> {
    let mut builder = http1::Builder::new();
    builder.max_buf_size(READ_BUFFER);
    let opened = builder.handshake(TokioIo::new(stream)).await;
    let (sender, line) = opened.map_err(|error| Fault::Broken(tls::explain(&error)))?;
    Ok(Connection { sender, line: Line { future: Box::pin(line), over: false } })
}

/// The form of HTTP/1.1: the target alone in the first line, the server in a header.
fn written(outgoing: &Outgoing) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
    let mut head = outgoing.head.clone();
    head.headers_mut().insert(header::HOST, outgoing.host().parse()?);
    *head.uri_mut() = outgoing.target().parse()?;
    Ok(head.map(|()| Full::new(Bytes::copy_from_slice(&outgoing.body))))
}

impl Connection {
    pub(super) async fn send(mut self, outgoing: &Outgoing) -> Result<Answer, Lost> {
        let request = written(outgoing).map_err(|error| Lost {
            fault: Fault::Broken(error.to_string()),
            unread: false,
            dead: false,
        })?;
        match self.line.until(self.sender.try_send_request(request)).await {
            Ok(response) => {
                let (parts, incoming) = response.into_parts();
                let body = super::Body::Http1(Body { connection: self, incoming });
                Ok(Answer::new(&parts, body))
            }
            Err(mut failed) => {
                let unread = failed.take_message().is_some();
                Err(Lost { fault: Fault::Broken(tls::explain(&failed.into_error())), unread, dead: true })
            }
        }
    }

    /// Takes what came since the connection was used, such as its end.
    pub(super) async fn is_usable(&mut self) -> bool {
        self.line.until(std::future::ready(())).await;
        !self.line.over && self.sender.is_ready()
    }
}

impl Body {
    pub(super) async fn part(&mut self) -> Option<Result<Bytes, Fault>> {
        loop {
            match self.connection.line.until(self.incoming.frame()).await? {
                Ok(frame) => match frame.into_data() {
                    Ok(bytes) => return Some(Ok(bytes)),
                    Err(_trailers) => continue,
                },
                Err(error) => return Some(Err(Fault::Broken(tls::explain(&error)))),
            }
        }
    }

    /// The connection, if it can serve another request.
    pub(super) async fn into_idle(self) -> Option<Connection> {
        let mut connection = self.connection;
        connection.is_usable().await.then_some(connection)
    }
}
