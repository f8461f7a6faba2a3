//! One thread per open connection: it connects, sends, reads, and puts what comes into the driver's [`Inbox`].
//!
//! ```text
//!  driver ── open ──► thread: dial ─► send ─► head ─► part ─► part … ─► end ──► Inbox ──► driver
//!     └─ Link: pause, resume, taken, cancel (shuts the socket) ─┘
//! ```
//!
//! Memory is bounded: a reader with more than [`MAX_UNTAKEN`] bytes in the inbox waits until the driver has taken half of
//! that, and not for each part that it takes: two threads that wake one another for every 64 KiB get little else done.
//! A cancelled reader ends at once, as its socket is shut under it. While it still connects there is no socket to shut:
//! then it is left behind, counted no more, and ends by itself when the time for the connect is over; it runs no code
//! of the user's and delivers nothing.

use crate::factory::Inner;
use crate::http::Wire;
use crate::socket::Handle;
use crate::transport::{Limits, Watcher};
use informer_core::reflector::End;
use informer_core::wire::{Head, Request, RequestId};
use informer_runtime::factory::Life;
use informer_runtime::fault::Fault;
use informer_runtime::guard;
use informer_runtime::outgoing::Outgoing;
use informer_runtime::sync::{Arc, Condvar, Mutex, deadline};
use std::collections::VecDeque;
use std::time::Instant;

/// Bytes of memory that hold what the driver has not taken yet of one connection, beyond which its reader waits.
pub(crate) const MAX_UNTAKEN: usize = 1024 * 1024;

/// What came on a connection.
pub(crate) enum Event {
    Connected,
    Head(Head),
    Body(Vec<u8>),
    End(End),
}

/// Which request of which informer an event belongs to.
pub(crate) type Name = (usize, RequestId);

/// What came, in order, until the driver takes it. Bounded by its readers.
#[derive(Default)]
pub(crate) struct Inbox(Mutex<VecDeque<(Name, Event)>>);

impl Inbox {
    pub(crate) fn take(&self) -> VecDeque<(Name, Event)> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// The driver's end of a connection.
pub(crate) struct Link {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// To shut it; none while there is nothing to shut.
    socket: Option<Handle>,
    untaken: usize,
    /// There is too much in the inbox, and the reader waits.
    full: bool,
    paused: bool,
    cancelled: bool,
    told_connected: bool,
    /// Of the factory, and of the informer.
    life: Option<(Life, Option<Life>)>,
}

impl Link {
    fn new() -> Self {
        let state = State {
            socket: None,
            untaken: 0,
            full: false,
            paused: false,
            cancelled: false,
            told_connected: false,
            life: None,
        };
        Link { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Sends a request on a thread of its own.
    pub(crate) fn open(inner: &Arc<Inner>, name: Name, request: Request, of_informer: Option<Life>) -> Arc<Link> {
        let link = Arc::new(Link::new());
        link.state.lock().life = Some((inner.core.lives().enter(), of_informer));
        let reader = Reader { inner: Arc::clone(inner), link: Arc::clone(&link), name };
        let thread = std::thread::Builder::new().name("informer-conn".into()).spawn(move || reader.run(&request));
        if let Err(error) = thread {
            link.state.lock().life = None;
            let end = End::Broken(format!("no thread for a connection: {error}"));
            inner.inbox.0.lock().push_back((name, Event::End(end)));
            inner.core.wake().notify();
        }
        link
    }

    pub(crate) fn pause(&self, paused: bool) {
        self.state.lock().paused = paused;
        self.changed.notify_all();
    }

    /// A part goes into the inbox.
    fn came(&self, part: &Vec<u8>) {
        self.state.lock().untaken += cost(part);
    }

    /// The driver has taken this part out of the inbox.
    pub(crate) fn taken(&self, part: &Vec<u8>) {
        let mut state = self.state.lock();
        state.untaken -= cost(part);
        if state.full && state.untaken <= MAX_UNTAKEN / 2 {
            state.full = false;
            self.changed.notify_all();
        }
    }

    /// Ends the reader.
    pub(crate) fn cancel(&self) {
        let mut state = self.state.lock();
        state.cancelled = true;
        match state.socket.take() {
            Some(socket) => socket.shut(),
            // Inside the system's call to connect, which nothing cuts short: nobody waits for that.
            None => state.life = None,
        }
        self.changed.notify_all();
    }
}

/// What it takes to keep a part, which of a small one is most of it.
fn cost(part: &Vec<u8>) -> usize {
    part.capacity() + size_of::<(Name, Event)>()
}

struct Reader {
    inner: Arc<Inner>,
    link: Arc<Link>,
    name: Name,
}

impl Reader {
    fn run(self, request: &Request) {
        self.report(|reader| reader.talk(request));
    }

    /// However the talk ends, also by a panic: the machine would wait for an answer that nobody brings.
    fn report(self, talk: impl FnOnce(&Self) -> Result<(), Fault>) {
        let talked = guard::call(|| talk(&self)).unwrap_or_else(|panic| Err(Fault::panicked(&panic)));
        let end = talked.map_or_else(Fault::into_end, |()| End::Closed);
        self.push(Event::End(end));
    }

    fn talk(&self, request: &Request) -> Result<(), Fault> {
        let transport = &self.inner.client.transport;
        self.inner.core.ask_gate(request).map_err(|error| Fault::refused(&error).because(error))?;
        let outgoing = Outgoing::request(&transport.config, request)?;
        let limits = Limits { connect: deadline(Instant::now(), request.connect_within), answer: None };
        let mut answer = transport.exchange(&outgoing, &limits, self)?;
        self.push(Event::Head(std::mem::take(&mut answer.head)));
        loop {
            self.wait_for_room()?;
            match answer.wire.part()? {
                Some(bytes) => self.push(Event::Body(bytes)),
                None => break,
            }
        }
        // Given back, no cancel may shut it any more.
        let cancelled = {
            let mut state = self.link.state.lock();
            state.socket = None;
            state.cancelled
        };
        if !cancelled {
            transport.keep(answer, &outgoing);
            if self.inner.core.is_stopping() {
                transport.forget_idle();
            }
        }
        Ok(())
    }

    fn push(&self, event: Event) {
        if let Event::Body(part) = &event {
            self.link.came(part);
        }
        self.inner.inbox.0.lock().push_back((self.name, event));
        self.inner.core.wake().notify();
    }

    fn wait_for_room(&self) -> Result<(), Fault> {
        let mut state = self.link.state.lock();
        state.full = state.untaken > MAX_UNTAKEN;
        while !state.cancelled && (state.paused || state.full) {
            state = self.link.changed.wait(state);
        }
        if state.cancelled { Err(cancelled()) } else { Ok(()) }
    }

    fn attach(&self, socket: std::io::Result<Handle>) -> Result<(), Fault> {
        let socket = socket?;
        let mut state = self.link.state.lock();
        if state.cancelled {
            return Err(cancelled());
        }
        state.socket = Some(socket);
        Ok(())
    }
}

/// Nobody reads it: the request is no longer known.
fn cancelled() -> Fault {
    Fault::broken("cancelled")
}

impl Watcher for Reader {
    fn connecting(&self, socket: &Handle) -> Result<(), Fault> {
        self.attach(socket.try_clone())
    }

    fn connected(&self, wire: &mut Wire) -> Result<(), Fault> {
        self.attach(wire.handle())?;
        let told = std::mem::replace(&mut self.link.state.lock().told_connected, true);
        if !told {
            self.push(Event::Connected);
        }
        Ok(())
    }
}

impl Drop for Reader {
    /// The thread ends, in whatever way.
    fn drop(&mut self) {
        let mut state = self.link.state.lock();
        state.socket = None;
        let life = state.life.take();
        drop(state);
        drop(life);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Client, Config, DynamicObject, Factory, FactoryOptions, InformerSpec, Observed, Resource};
    use informer_core::reflector::ListStrategy;
    use informer_core::wire::Verb;
    use informer_runtime::http1::BUFFER;
    use informer_runtime::sync::OnceLock;
    use informer_sim::{Served, Server};
    use std::time::Duration;

    #[test]
    fn a_thread_that_panics_over_a_request_ends_it_with_the_text_of_the_panic() {
        let factory = Factory::offline();
        let link = Arc::new(Link::new());
        link.state.lock().life = Some((factory.inner.core.lives().enter(), None));
        let reader = Reader { inner: Arc::clone(&factory.inner), link, name: (0, RequestId(7)) };
        // Without a line on stderr.
        reader.report(|_| std::panic::resume_unwind(Box::new("no luck")));
        let mut told = factory.inner.inbox.take();
        let Some(((0, RequestId(7)), Event::End(End::Broken(text)))) = told.pop_front() else { panic!("no end") };
        assert_eq!(text, "what carries out the request panicked: no luck");
        assert!(told.is_empty());
        factory.stop(Duration::from_secs(2)).unwrap();
    }

    #[test]
    fn parts_count_what_they_take_however_little_is_in_them() {
        // As one byte comes after the other, and as much comes around each byte.
        for capacity in [1, BUFFER] {
            let part = || {
                let mut part = Vec::with_capacity(capacity);
                part.push(b'x');
                part
            };
            let (link, mut inbox) = (Link::new(), VecDeque::new());
            while link.state.lock().untaken <= MAX_UNTAKEN {
                link.came(&part());
                inbox.push_back(((0, RequestId(1)), Event::Body(part())));
            }
            let most = MAX_UNTAKEN / (capacity + size_of_val(&inbox[0])) + 1;
            assert_eq!(inbox.len(), most, "parts of {capacity} bytes");
            inbox.iter().for_each(|(_, event)| {
                if let Event::Body(part) = event {
                    link.taken(part)
                }
            });
            assert_eq!(link.state.lock().untaken, 0);
        }
    }

    #[test]
    fn a_driver_that_takes_nothing_bounds_what_is_read() {
        let maps = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
        let mut server = Server::new(informer_sim::Config::default());
        server.register_common();
        for number in 0..300 {
            let text = "x".repeat(16 * 1024);
            let json = format!(r#"{{"metadata":{{"name":"m{number}","namespace":"ns"}},"data":{{"v":"{text}"}}}}"#);
            server.put(&maps, &json).unwrap();
        }
        let served = Served::start(server, "127.0.0.1:0".parse().unwrap()).unwrap();

        // The driver is held as soon as it has sent the list.
        let held: Arc<OnceLock<Factory>> = Arc::default();
        let holder = Arc::clone(&held);
        let options = FactoryOptions::observed(Arc::new(move |observed| {
            if let (Observed::Request(Request { verb: Verb::List, .. }), Some(factory)) = (observed, holder.get()) {
                factory.hold(true);
            }
        }));
        let factory =
            Factory::with_options(Client::connect(Config::from_url(&served.url()).unwrap()).unwrap(), options);
        assert!(held.set(factory.clone()).is_ok());
        let spec = InformerSpec::<DynamicObject>::of(maps).strategy(ListStrategy::Paged);
        let informer = factory.informer_with(spec);
        factory.start();

        let waiting = || {
            let inbox = factory.inner.inbox.0.lock();
            inbox.iter().map(|(_, event)| if let Event::Body(part) = event { cost(part) } else { 0 }).sum::<usize>()
        };
        let patience = Instant::now() + Duration::from_secs(60);
        while waiting() <= MAX_UNTAKEN {
            assert!(Instant::now() < patience, "the list never came");
            std::thread::sleep(Duration::from_millis(1));
        }
        // Time for a reader that does not wait to go on.
        std::thread::sleep(Duration::from_millis(100));
        assert!(waiting() <= MAX_UNTAKEN + BUFFER + size_of::<(Name, Event)>(), "{} bytes", waiting());

        factory.hold(false);
        factory.synced(Duration::from_secs(60)).unwrap();
        assert_eq!(informer.lister().len(), 300);
        factory.stop(Duration::from_secs(2)).unwrap();
    }
}
