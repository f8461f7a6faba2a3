//! HTTP/1.1: one request at a time on a connection, which the task of that request drives.
//!
//! The protocol is [`Exchange`]'s; this moves its bytes. It needs no task of its own: dropping the future closes the socket,
//! and a task that does not read makes the server wait. Between two requests nobody drives it; it is looked at when it is
//! taken out again.

use super::{Answer, Fault, Lost, Outgoing, Stream};
use bytes::Bytes;
use informer_runtime::http1::{Exchange, Part};
use informer_runtime::outgoing::Unanswered;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::unconstrained;

/// One connection.
pub(crate) struct Connection {
    stream: Box<dyn Stream>,
    exchange: Exchange,
    /// Something was written that may lie in a buffer of TLS.
    unflushed: bool,
}

/// The body of an answer, and the connection that it comes on.
pub(crate) struct Body(Connection);

pub(super) fn open(stream: Box<dyn Stream>) -> Connection {
    Connection { stream, exchange: Exchange::new(), unflushed: false }
}

impl Connection {
    pub(super) async fn send(mut self, outgoing: &Outgoing) -> Result<Answer, Lost> {
        if !self.is_usable().await {
            let fault = Fault::broken("the server closed the connection before the request was sent");
            return Err(Lost { fault, unread: true, dead: true, answered: false });
        }
        self.exchange.begin(outgoing).map_err(|fault| Lost { fault, unread: false, dead: false, answered: false })?;
        let head = poll_fn(|cx| {
            loop {
                if let Some(head) = self.exchange.head()? {
                    return Poll::Ready(Ok(head));
                }
                ready!(self.poll_move(cx));
            }
        });
        match head.await {
            Ok(head) => Ok(Answer { head, body: super::Body::Http1(Body(self)) }),
            Err(fault) => {
                let Unanswered { unread, dead, answered, .. } = self.exchange.unanswered(false);
                Err(Lost { fault, unread, dead, answered })
            }
        }
    }

    /// Takes what came since the connection was used, such as its end. A task that has read much in its turn must see it,
    /// too: to it tokio says that nothing has come.
    pub(super) async fn is_usable(&mut self) -> bool {
        let look = poll_fn(|cx| Poll::Ready(self.poll_read(cx).is_pending() && self.exchange.is_idle()));
        unconstrained(look).await && !self.unflushed
    }

    /// Writes what the connection takes of the request, and waits until something was read.
    fn poll_move(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Poll::Ready(Err(error)) = self.poll_write(cx) {
            self.exchange.unsendable(error.into());
            self.unflushed = false;
        }
        self.poll_read(cx)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.exchange.unsent().is_empty() {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, self.exchange.unsent()))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.exchange.sent(written),
            }
            self.unflushed = true;
        }
        if self.unflushed {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut room = ReadBuf::new(self.exchange.space());
        let read = Pin::new(&mut self.stream).poll_read(cx, &mut room);
        let filled = room.filled().len();
        match read {
            Poll::Ready(Ok(())) => self.exchange.filled(filled),
            Poll::Ready(Err(error)) => self.exchange.unreadable(error.into()),
            Poll::Pending => {
                self.exchange.rest();
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }
}

impl Body {
    pub(super) async fn part(&mut self) -> Option<Result<Bytes, Fault>> {
        let Body(connection) = self;
        poll_fn(|cx| {
            loop {
                match connection.exchange.part() {
                    Ok(Part::Bytes(bytes)) => return Poll::Ready(Some(Ok(bytes.into()))),
                    Ok(Part::Wait) => {}
                    Ok(Part::Done) => return Poll::Ready(None),
                    Err(fault) => return Poll::Ready(Some(Err(fault))),
                }
                ready!(connection.poll_move(cx));
                // After a rest the buffer is small: without this each burst would begin with a small part.
                while connection.exchange.wants_more() && connection.poll_read(cx).is_ready() {}
            }
        })
        .await
    }

    /// The connection, if it can serve another request.
    pub(super) async fn into_idle(self) -> Option<Connection> {
        let Body(mut connection) = self;
        connection.is_usable().await.then_some(connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use informer_core::Resource;
    use informer_runtime::Config;
    use informer_runtime::api::ApiRequest;
    use std::pin::pin;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::task::coop::consume_budget;

    const MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");

    /// A write of so many bytes and more.
    fn write(bytes: usize) -> Outgoing {
        let call = ApiRequest::create(&MAPS, "ns", &"x".repeat(bytes)).unwrap();
        Outgoing::call(&Config::from_url("http://a").unwrap(), &call, false).unwrap()
    }

    async fn answer(connection: Connection, outgoing: &Outgoing) -> (u16, Vec<u8>, Body) {
        let Ok(Answer { head, body: super::super::Body::Http1(mut body) }) = connection.send(outgoing).await else {
            panic!("an answer came")
        };
        let mut bytes = Vec::new();
        while let Some(part) = body.part().await {
            bytes.extend_from_slice(&part.unwrap_or_else(|fault| panic!("{fault}")));
        }
        (head.status, bytes, body)
    }

    #[tokio::test]
    async fn an_answer_that_comes_before_the_request_was_taken_is_read_and_the_rest_is_sent() {
        let (ours, mut theirs) = duplex(256);
        let server = tokio::spawn(async move {
            let mut request = vec![0; 100];
            theirs.read_exact(&mut request).await.unwrap();
            // It reads on only when this was taken, and ends its answer when the request was.
            let half = "y".repeat(50_000);
            let head = "HTTP/1.1 413 Large\r\ncontent-length: 100000\r\n\r\n";
            theirs.write_all(format!("{head}{half}").as_bytes()).await.unwrap();
            while !request.ends_with(b"x\"") {
                assert!(theirs.read_buf(&mut request).await.unwrap() > 0);
            }
            theirs.write_all(half.as_bytes()).await.unwrap();
            theirs
        });
        let (status, body, rest) = answer(open(Box::new(ours)), &write(100_000)).await;
        assert_eq!((status, body.len()), (413, 100_000));
        let _open = server.await.unwrap();
        assert!(rest.into_idle().await.is_some(), "all of the request was taken");
    }

    #[tokio::test]
    async fn a_connection_that_breaks_before_a_byte_was_taken_says_so() {
        let (ours, theirs) = duplex(256);
        drop(theirs);
        let Err(lost) = open(Box::new(ours)).send(&write(1)).await else { panic!("nobody is there") };
        assert!(lost.unread && lost.dead, "{}", lost.fault);

        let (ours, mut theirs) = duplex(256);
        let server = tokio::spawn(async move {
            let mut first = [0; 100];
            theirs.read_exact(&mut first).await.unwrap();
        });
        let Err(lost) = open(Box::new(ours)).send(&write(1000)).await else { panic!("it is gone") };
        assert!(!lost.unread && lost.dead, "{}", lost.fault);
        server.await.unwrap();
    }

    /// What it is given, then a reset, then the end, as a socket of the system.
    struct Reset(Vec<u8>, bool);

    impl AsyncRead for Reset {
        fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            let answer = std::mem::take(&mut self.0);
            room.put_slice(&answer);
            if answer.is_empty() && !std::mem::replace(&mut self.1, true) {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Reset {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// Answers what was written to it, and keeps some of that in a buffer of its own, as TLS does.
    struct Buffering(&'static [u8], bool);

    impl AsyncRead for Buffering {
        fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            if !self.1 || self.0.is_empty() {
                return Poll::Pending;
            }
            room.put_slice(std::mem::take(&mut self.0));
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Buffering {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            self.1 = true;
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn a_connection_whose_request_lies_in_a_buffer_serves_no_other() {
        let early = b"HTTP/1.1 413 Large\r\ncontent-length: 2\r\n\r\nno";
        let (status, body, rest) = answer(open(Box::new(Buffering(early, false))), &write(100)).await;
        assert_eq!((status, &body[..]), (413, &b"no"[..]));
        assert!(rest.into_idle().await.is_none());
    }

    #[tokio::test]
    async fn a_body_that_is_reset_is_broken_however_often_it_is_asked_for() {
        let (ours, mut theirs) = duplex(4096);
        let server = tokio::spawn(async move {
            theirs.read_exact(&mut [0; 100]).await.unwrap();
            theirs.write_all(b"HTTP/1.1 200 OK\r\n\r\nhalf").await.unwrap();
        });
        let Ok(Answer { body: super::super::Body::Http1(mut body), .. }) = open(Box::new(ours)).send(&write(1)).await
        else {
            panic!("an answer came")
        };
        server.await.unwrap();
        body.0.stream = Box::new(Reset(b"and more".to_vec(), false));
        for want in ["half", "and more"] {
            assert_eq!(body.part().await.unwrap().unwrap(), want);
        }
        for _ in 0..2 {
            assert!(body.part().await.expect("it did not end").is_err());
        }
        assert!(body.into_idle().await.is_none());
    }

    #[tokio::test]
    async fn a_connection_that_ended_is_found_by_a_task_that_has_used_up_its_turn() {
        let (ours, theirs) = duplex(256);
        let mut connection = open(Box::new(ours));
        drop(theirs);
        // What a task reads that reads much: from here on nothing is ready until it lets others run.
        poll_fn(|cx| {
            while pin!(consume_budget()).poll(cx).is_ready() {}
            Poll::Ready(())
        })
        .await;
        assert!(!connection.is_usable().await);
    }

    #[tokio::test]
    async fn a_request_that_is_refused_while_it_is_sent_has_the_answer_and_not_the_fault() {
        let (ours, mut theirs) = duplex(4096);
        let server = tokio::spawn(async move {
            let mut first = [0; 100];
            theirs.read_exact(&mut first).await.unwrap();
            theirs.write_all(b"HTTP/1.1 413 Large\r\ncontent-length: 2\r\n\r\nno").await.unwrap();
            // Its end: what is still to be written is refused.
        });
        let (status, body, rest) = answer(open(Box::new(ours)), &write(100_000)).await;
        assert_eq!((status, &body[..]), (413, &b"no"[..]));
        server.await.unwrap();
        assert!(rest.into_idle().await.is_none());
    }
}
