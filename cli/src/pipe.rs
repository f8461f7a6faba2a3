//! Notices that whoever read standard output has gone, also while there is nothing to print: `informer watch … | head -1`
//! ends at once, and not with the next change of the cluster.

/// Calls `gone`, on a thread of its own, once the reader of standard output has closed it. Never, if that is a file, or
/// where the system does not say: then the next line that is printed finds out.
#[cfg(unix)]
pub(crate) fn when_closed(gone: impl FnOnce() + Send + 'static) {
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::io::Errno;

    std::thread::spawn(move || {
        let stdout = std::io::stdout();
        // Nothing is asked for: what is left are the ends, which `poll` always tells.
        let mut ends = [PollFd::new(&stdout, PollFlags::empty())];
        loop {
            match poll(&mut ends, None) {
                Err(Errno::INTR) => {}
                Ok(_) if ends[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) => return gone(),
                // It cannot be waited for.
                Ok(_) | Err(_) => return,
            }
        }
    });
}

/// As above, for systems that do not say.
#[cfg(not(unix))]
pub(crate) fn when_closed(_gone: impl FnOnce() + Send + 'static) {}
