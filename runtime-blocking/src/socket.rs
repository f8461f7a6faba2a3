//! [`Socket`]: a TCP or Unix socket whose reads and writes end at a deadline.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// What the system knows a connection by. A second handle of it shuts the first from another thread.
pub(crate) enum Handle {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

/// The same call on either kind.
macro_rules! each {
    ($handle:expr, $socket:ident => $call:expr) => {
        match $handle {
            Handle::Tcp($socket) => $call,
            #[cfg(unix)]
            Handle::Unix($socket) => $call,
        }
    };
}

impl Handle {
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Handle::Tcp(socket) => Handle::Tcp(socket.try_clone()?),
            #[cfg(unix)]
            Handle::Unix(socket) => Handle::Unix(socket.try_clone()?),
        })
    }

    /// Ends it in both directions; it may be closed already.
    pub(crate) fn shut(&self) {
        let _ = each!(self, socket => socket.shutdown(Shutdown::Both));
    }

    fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        each!(self, socket => socket.set_nonblocking(on))
    }
}

impl Read for &Handle {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        each!(self, socket => (&*socket).read(buffer))
    }
}

impl Write for &Handle {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        each!(self, socket => (&*socket).write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        each!(self, socket => (&*socket).flush())
    }
}

pub(crate) struct Socket {
    handle: Handle,
    deadline: Option<Instant>,
    patience: Option<Duration>,
}

impl Socket {
    pub(crate) fn new(handle: Handle, deadline: Instant) -> Self {
        Socket { handle, deadline: Some(deadline), patience: None }
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// When reads and writes end at the latest; never if `None`.
    pub(crate) fn set_deadline(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        self.deadline = deadline;
        self.unlimit()
    }

    /// How long one read or write waits before it gives up with [`ErrorKind::WouldBlock`]; until the deadline if `None`.
    pub(crate) fn set_patience(&mut self, patience: Option<Duration>) -> io::Result<()> {
        self.patience = patience;
        self.unlimit()
    }

    /// Without a limit none is set before each read and write: the last one must not stay.
    fn unlimit(&self) -> io::Result<()> {
        if self.deadline.is_none() && self.patience.is_none() {
            each!(&self.handle, socket => {
                socket.set_read_timeout(None)?;
                socket.set_write_timeout(None)?;
            });
        }
        Ok(())
    }

    /// Reads what is there; [`ErrorKind::WouldBlock`] if there is nothing, whatever the deadline.
    pub(crate) fn at_once(&self, read: impl FnOnce(&Handle) -> io::Result<usize>) -> io::Result<usize> {
        self.handle.set_nonblocking(true)?;
        let read = read(&self.handle);
        self.handle.set_nonblocking(false)?;
        read
    }

    /// From now on writes take what there is room for and wait for nothing.
    pub(crate) fn hurry(&mut self) {
        self.deadline = None;
        let _ = self.handle.set_nonblocking(true);
    }

    /// How long a read or write may take.
    fn left(&self) -> io::Result<Option<Duration>> {
        let Some(deadline) = self.deadline else { return Ok(self.patience) };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(late()) } else { Ok(Some(self.patience.map_or(left, |patience| patience.min(left)))) }
    }

    /// A timeout of a socket comes as `WouldBlock` on Unix, as `TimedOut` on Windows.
    fn named<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| {
            if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) {
                return error;
            }
            let is_late = self.patience.is_none() || self.left().is_err();
            if is_late { late() } else { ErrorKind::WouldBlock.into() }
        })
    }
}

fn late() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "the time for it ran out")
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(left) = self.left()? {
            each!(&self.handle, socket => socket.set_read_timeout(Some(left)))?;
        }
        let read = (&self.handle).read(buffer);
        self.named(read)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(left) = self.left()? {
            each!(&self.handle, socket => socket.set_write_timeout(Some(left)))?;
        }
        let written = (&self.handle).write(bytes);
        self.named(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&self.handle).flush()
    }
}
