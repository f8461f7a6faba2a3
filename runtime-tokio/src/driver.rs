//! The task of one informer, and those of its requests.
//!
//! ```text
//!              ┌── Connected, Head, Body, End (at most INBOX) ──┐
//!              ▼                                                │
//!  wake ──► driver ── Send ──► a task per request ── socket ────┘
//! deadline ─┘  │                  ▲
//!              └─ Cancel: abort ──┘ Pause, Resume: reads no more, reads on
//! ```
//!
//! Decoding happens on the driver's task, which gathers small parts of a body and may have helpers for large batches. The
//! driver yields to other tasks after each [`STRETCH`] of them, so that a long list of one informer does not hold up the
//! rest of a runtime with few threads. A driver that is slower than its server stops reading through the bounded inbox,
//! long before the core asks for a pause.

use crate::connection::Answer;
use crate::factory::Inner;
use bytes::Bytes;
use informer_core::reflector::End;
use informer_core::wire::{Head, Request, RequestId};
use informer_runtime::driver::{Drive, GATHER, IoAction, IoEvent};
use informer_runtime::fault::Fault;
use informer_runtime::guard::guarded;
use informer_runtime::outgoing::Outgoing;
use informer_runtime::sync::Arc;
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::task::Poll;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, yield_now};
use tokio::time::sleep_until;

/// Events that wait for a driver: 4 MiB of a body. Half of them it has taken, so that a reader fills the other half meanwhile
/// and is woken once for all that were taken.
const INBOX: usize = 64;

/// Bytes of bodies after which a driver lets other tasks run.
const STRETCH: usize = 256 * 1024;

/// An event on its way. On the heap, for the channel keeps room for 32 while none waits.
type Report = Box<Event>;

/// What has come and the driver has not handled, in its order.
struct Inbox {
    channel: mpsc::Receiver<Report>,
    taken: VecDeque<Report>,
    /// All that the channel holds was taken: a reader waited for room, and was woken by this task.
    was_full: bool,
}

impl Inbox {
    fn new() -> (mpsc::Sender<Report>, Self) {
        let (events, channel) = mpsc::channel(INBOX / 2);
        (events, Inbox { channel, taken: VecDeque::new(), was_full: false })
    }

    /// The next event, if one is there.
    fn next(&mut self) -> Option<Report> {
        if self.taken.is_empty() {
            while self.taken.len() < INBOX / 2
                && let Ok(event) = self.channel.try_recv()
            {
                self.taken.push_back(event);
            }
            self.was_full |= self.taken.len() == INBOX / 2;
        }
        self.taken.pop_front()
    }

    /// The next part of this body, if it is there and the next thing.
    fn next_part(&mut self, of: RequestId) -> Option<Report> {
        let event = self.next()?;
        match &*event {
            Event::Body(id, _) if *id == of => Some(event),
            Event::Body(..) | Event::Connected(_) | Event::Head(..) | Event::End(..) => {
                self.taken.push_front(event);
                None
            }
        }
    }

    /// Nothing is there: what was needed for much is let go of.
    fn rest(&mut self) {
        self.taken = VecDeque::new();
    }
}

/// What the task of a request reports.
enum Event {
    Connected(RequestId),
    Head(RequestId, Head),
    Body(RequestId, Bytes),
    End(RequestId, End),
}

/// A request that was sent. Dropping it ends its task, which closes its connection.
struct Flight {
    task: AbortHandle,
    paused: watch::Sender<bool>,
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Runs an informer until the factory stops.
pub(crate) async fn drive(runtime: Arc<Inner>, mut informer: Box<dyn Drive>) {
    let core = &runtime.core;
    let clock = core.clock();
    let (events, mut inbox) = Inbox::new();
    let mut flights: BTreeMap<RequestId, Flight> = BTreeMap::new();
    let mut event: Option<Report> = None;
    let mut started = false;
    let mut stretch = 0;
    loop {
        let seen = core.wake().generation();
        if core.is_held() {
            core.wake().past(seen).await;
            continue;
        }
        let now = clock.now();
        match event.take().map(|event| *event) {
            _ if core.is_stopping() => informer.handle(now, IoEvent::Stop),
            _ if !started => informer.handle(now, IoEvent::Start),
            None => informer.handle(now, IoEvent::Tick),
            Some(Event::Connected(id)) => informer.handle(now, IoEvent::Connected(id)),
            Some(Event::Head(id, head)) => informer.handle(now, IoEvent::Head(id, &head)),
            Some(Event::Body(id, bytes)) => {
                let mut gathered = bytes.len();
                informer.handle(now, IoEvent::Body(id, &bytes));
                while gathered < GATHER
                    && let Some(part) = inbox.next_part(id)
                    && let Event::Body(_, bytes) = *part
                {
                    gathered += bytes.len();
                    informer.handle(now, IoEvent::Body(id, &bytes));
                }
                stretch += gathered;
            }
            Some(Event::End(id, end)) => {
                flights.remove(&id);
                informer.handle(now, IoEvent::End(id, &end));
            }
        }
        started = true;
        let deadline = loop {
            match informer.poll(clock.now()) {
                IoAction::Send(request) => {
                    let (paused, is_paused) = watch::channel(false);
                    let id = request.id;
                    let work = exchange(Arc::clone(&runtime), request, events.clone(), is_paused);
                    // No task any more: the factory is stopping, and so will this informer.
                    if let Some(task) = runtime.spawn_for(informer.enter(), Box::pin(work)) {
                        flights.insert(id, Flight { task, paused });
                    }
                }
                IoAction::Cancel(id) => drop(flights.remove(&id)),
                IoAction::Pause(id) => pause(&flights, id, true),
                IoAction::Resume(id) => pause(&flights, id, false),
                IoAction::Wait(deadline) => break deadline,
            }
        };
        if informer.is_stopped() {
            return;
        }
        event = inbox.next();
        if std::mem::take(&mut inbox.was_full) {
            stretch = 0;
            part_ways().await;
        }
        // An inbox that is empty may be so only because the reader waits behind this task.
        if event.is_none() || stretch >= STRETCH {
            stretch = 0;
            yield_now().await;
            event = event.or_else(|| inbox.next());
        }
        if event.is_some() {
            continue;
        }
        informer.rest();
        inbox.rest();
        let mut woken = pin!(core.wake().past(seen));
        let mut due = pin!(async {
            match deadline.and_then(|deadline| clock.instant(deadline)) {
                Some(instant) => sleep_until(instant.into()).await,
                None => pending().await,
            }
        });
        event = poll_fn(|cx| match inbox.channel.poll_recv(cx) {
            Poll::Ready(event) => Poll::Ready(event),
            Poll::Pending if woken.as_mut().poll(cx).is_ready() || due.as_mut().poll(cx).is_ready() => {
                Poll::Ready(None)
            }
            Poll::Pending => Poll::Pending,
        })
        .await;
    }
}

/// Lets the reader run that this task has woken, and goes on beside it. A task that is woken by another one waits for that
/// to end its turn, and no other thread can take it: the two would share one thread, however many there are. One that wakes
/// itself is queued where an idle thread finds it, which [`yield_now`] avoids.
async fn part_ways() {
    let mut parted = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut parted, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn pause(flights: &BTreeMap<RequestId, Flight>, id: RequestId, paused: bool) {
    if let Some(flight) = flights.get(&id) {
        flight.paused.send_replace(paused);
    }
}

/// The task of one request. A watch waits in it for minutes: what is needed before its head and after its end alone has a
/// place on the heap meanwhile, and no longer.
async fn exchange(runtime: Arc<Inner>, request: Request, events: mpsc::Sender<Report>, paused: watch::Receiver<bool>) {
    let _leave = Leave(&runtime);
    let id = request.id;
    let exchanged = guarded(async {
        let (answer, is_watch) = Box::pin(ask(&runtime, request, &events)).await?;
        read(&runtime, id, answer, is_watch, &events, paused).await
    });
    // Else the machine would wait for an answer that nobody brings.
    let end = exchanged.await.unwrap_or_else(|panic| Err(Fault::panicked(&panic)));
    let end = end.map_or_else(Fault::into_end, |()| End::Closed);
    // The inbox is gone if the driver is, and then nobody asks.
    let _ = events.send(Box::new(Event::End(id, end))).await;
}

/// Whatever a request that outlives its factory's stop leaves for others is closed, in whatever way its task ends.
struct Leave<'a>(&'a Inner);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        if self.0.core.is_stopping() {
            self.0.client.connector().retire();
        }
    }
}

/// Sends a request and waits for the head of its answer; whether that is a watch's.
async fn ask(runtime: &Inner, request: Request, events: &mpsc::Sender<Report>) -> Result<(Box<Answer>, bool), Fault> {
    runtime.core.ask_gate(&request).map_err(|error| Fault::refused(&error).because(error))?;
    let connector = runtime.client.connector();
    let (id, within) = (request.id, request.connect_within);
    let made = connector.prepare(move |config| Outgoing::request(config, &request)).await;
    let outgoing = made.ok_or_else(|| Fault::broken("the runtime is shutting down"))??;
    let connected = || async { drop(events.send(Box::new(Event::Connected(id))).await) };
    let mut answer = connector.send(&outgoing, within, connected).await?;
    let head = std::mem::take(&mut answer.head);
    drop(events.send(Box::new(Event::Head(id, head))).await);
    Ok((Box::new(answer), outgoing.watch))
}

/// Reads the body of an answer to its end.
async fn read(
    runtime: &Inner,
    id: RequestId,
    mut answer: Box<Answer>,
    is_watch: bool,
    events: &mpsc::Sender<Report>,
    mut paused: watch::Receiver<bool>,
) -> Result<(), Fault> {
    loop {
        // The sender is dropped with the flight, which ends this task.
        let _ = paused.wait_for(|paused| !paused).await;
        match answer.part().await {
            Some(Ok(bytes)) => drop(events.send(Box::new(Event::Body(id, bytes))).await),
            Some(Err(fault)) => return Err(fault),
            None => break,
        }
    }
    Box::pin(runtime.client.connector().finished(*answer, is_watch)).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Client, Config, Factory};
    use informer_core::time::Time;
    use informer_core::wire::Verb;
    use informer_runtime::sync::Mutex;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// An informer whose test says what it asks for, and which counts the bytes that come.
    #[derive(Default)]
    struct Puppet {
        actions: VecDeque<IoAction>,
        bytes: usize,
        stopped: bool,
    }

    struct Shown(Arc<Mutex<Puppet>>);

    impl Drive for Shown {
        fn handle(&mut self, _now: Time, event: IoEvent<'_>) {
            let mut puppet = self.0.lock();
            match event {
                IoEvent::Body(_, bytes) => puppet.bytes += bytes.len(),
                IoEvent::Stop => puppet.stopped = true,
                IoEvent::Start | IoEvent::Tick | IoEvent::Connected(_) | IoEvent::Head(..) | IoEvent::End(..) => {}
            }
        }

        fn poll(&mut self, _now: Time) -> IoAction {
            self.0.lock().actions.pop_front().unwrap_or(IoAction::Wait(None))
        }

        fn is_stopped(&self) -> bool {
            self.0.lock().stopped
        }
    }

    /// A part of a body, told from others by its length.
    fn part(of: u64, bytes: usize) -> Report {
        Box::new(Event::Body(RequestId(of), Bytes::from(vec![b'x'; bytes])))
    }

    fn length(report: Option<Report>) -> Option<usize> {
        match *report? {
            Event::Body(_, bytes) => Some(bytes.len()),
            Event::Connected(_) | Event::Head(..) | Event::End(..) => None,
        }
    }

    /// Sends parts of lengths from `next` on until there is no room; how many there was room for.
    fn fill(events: &mpsc::Sender<Report>, next: &mut usize) -> usize {
        let before = *next;
        while events.try_send(part(1, *next)).is_ok() {
            *next += 1;
        }
        *next - before
    }

    #[test]
    fn what_a_driver_has_taken_makes_room_at_once_and_all_that_waits_is_bounded_and_in_order() {
        let (events, mut inbox) = Inbox::new();
        let (mut sent, mut seen) = (1, 1);
        assert!(inbox.next().is_none() && !inbox.was_full);
        assert_eq!(fill(&events, &mut sent), INBOX / 2);
        for _ in 0..3 {
            assert_eq!(length(inbox.next()), Some(seen));
            assert!(std::mem::take(&mut inbox.was_full), "a reader may wait");
            assert_eq!(fill(&events, &mut sent), INBOX / 2, "all that was taken, not the one that was handled");
            seen += 1;
            for _ in 1..INBOX / 2 {
                assert_eq!(length(inbox.next()), Some(seen));
                assert!(!inbox.was_full && fill(&events, &mut sent) == 0);
                seen += 1;
            }
        }
        for at in seen..sent {
            assert_eq!(length(inbox.next()), Some(at));
        }
        assert!(inbox.next().is_none());
    }

    #[test]
    fn parts_of_one_body_are_given_together_and_what_comes_between_keeps_its_place() {
        let (events, mut inbox) = Inbox::new();
        for report in [part(1, 1), part(1, 2), part(2, 3), Box::new(Event::Connected(RequestId(1))), part(1, 4)] {
            assert!(events.try_send(report).is_ok());
        }
        let first = RequestId(1);
        assert_eq!(length(inbox.next_part(first)), Some(1));
        assert_eq!(length(inbox.next_part(first)), Some(2));
        assert!(inbox.next_part(first).is_none(), "another body's");
        assert_eq!(length(inbox.next()), Some(3));
        assert!(inbox.next_part(first).is_none(), "no body's");
        assert!(matches!(inbox.next().as_deref(), Some(Event::Connected(_))));
        assert_eq!(length(inbox.next_part(first)), Some(4));
        assert!(inbox.next_part(first).is_none());
    }

    /// Each waits for the other: on one thread that would never end.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_driver_and_the_reader_that_it_has_woken_run_side_by_side() {
        let both = Arc::new(std::sync::Barrier::new(2));
        let (woken, wakes) = tokio::sync::oneshot::channel();
        let (waiting, waits) = tokio::sync::oneshot::channel();
        let other = Arc::clone(&both);
        let reader = tokio::spawn(async move {
            waiting.send(()).unwrap();
            wakes.await.unwrap();
            other.wait();
        });
        waits.await.unwrap();
        let driver = tokio::spawn(async move {
            woken.send(()).unwrap();
            part_ways().await;
            both.wait();
        });
        driver.await.unwrap();
        reader.await.unwrap();
    }

    async fn until(what: &str, ready: impl Fn() -> bool) {
        for _ in 0..10_000 {
            if ready() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        panic!("never happened: {what}");
    }

    #[tokio::test]
    async fn a_paused_body_is_left_with_the_server_and_a_cancelled_one_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let factory = Factory::new(Client::connect(Config::from_url(&url).unwrap()).unwrap());
        let id = RequestId(1);
        let request = Request {
            id,
            verb: Verb::Watch,
            path: "/x".into(),
            query: Vec::new(),
            accept: "application/json",
            accept_encoding: "identity",
            fresh_connection: false,
            refresh_credentials: false,
            connect_within: Duration::from_secs(10),
        };
        let puppet = Arc::new(Mutex::new(Puppet::default()));
        // The pause is there before the task of the request looks for the first time.
        puppet.lock().actions.extend([IoAction::Send(request), IoAction::Pause(id)]);
        factory.start();
        let inner = Arc::clone(factory.inner());
        inner.spawn(drive(Arc::clone(&inner), Box::new(Shown(Arc::clone(&puppet)))));

        let (mut socket, _) = listener.accept().await.unwrap();
        socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        // More than all buffers between here and there hold: only a reader lets this end.
        let writer = tokio::spawn(async move {
            let part = vec![b'x'; 64 * 1024];
            for _ in 0..1024 {
                socket.write_all(&part).await.unwrap();
            }
            socket
        });
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!writer.is_finished());
        assert_eq!(puppet.lock().bytes, 0);

        puppet.lock().actions.push_back(IoAction::Resume(id));
        inner.core.hold(false); // wakes the driver
        until("all of the body", || puppet.lock().bytes == 64 * 1024 * 1024).await;

        let mut socket = writer.await.unwrap();
        puppet.lock().actions.push_back(IoAction::Cancel(id));
        inner.core.hold(false);
        let mut rest = Vec::new();
        socket.read_to_end(&mut rest).await.unwrap();
        assert!(rest.starts_with(b"GET /x HTTP/1.1\r\n"));
        factory.stop(Duration::from_secs(2)).await.unwrap();
    }
}
