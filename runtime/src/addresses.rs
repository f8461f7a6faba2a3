//! The addresses of a host: how they share the time for a connection ([`shares`]), and what is said if none gives one
//! ([`Refusals`]).
//!
//! ```
//! use informer_runtime::addresses::shares;
//! use std::time::Duration;
//!
//! let addresses = ["[::1]:443", "127.0.0.1:443"].map(|text| text.parse().unwrap());
//! let shares = shares(addresses, Duration::from_secs(10));
//! // The first has half of the time, the second whatever is left.
//! assert_eq!(shares.map(|(_, patience)| patience.as_secs()).collect::<Vec<_>>(), [5, 10]);
//! ```

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// The most addresses of one host that are tried.
pub const MAX_ADDRESSES: usize = 8;

/// The addresses in turn, each with how long to wait for it: an equal share, so that one that swallows packets does not
/// hide the others, and for the last one all that is left. At most [`MAX_ADDRESSES`].
pub fn shares(
    addresses: impl IntoIterator<Item = SocketAddr>,
    within: Duration,
) -> impl ExactSizeIterator<Item = (SocketAddr, Duration)> {
    let addresses: Vec<_> = addresses.into_iter().take(MAX_ADDRESSES).collect();
    let number = addresses.len();
    let share = within / u32::try_from(number.max(1)).unwrap_or(1);
    let patience = move |at| if at + 1 < number { share } else { within };
    addresses.into_iter().enumerate().map(move |(at, address)| (address, patience(at)))
}

/// Why each address gave no connection.
///
/// ```
/// use informer_runtime::addresses::Refusals;
///
/// let mut refusals = Refusals::default();
/// refusals.add("[::1]:443".parse().unwrap(), "Network is unreachable");
/// refusals.add("127.0.0.1:443".parse().unwrap(), "Connection refused");
/// assert_eq!(
///     refusals.of("localhost"),
///     "cannot connect to [::1]:443: Network is unreachable; cannot connect to 127.0.0.1:443: Connection refused"
/// );
/// assert_eq!(Refusals::default().of("nowhere"), "the name \"nowhere\" has no address");
/// ```
#[derive(Debug, Default)]
pub struct Refusals(Vec<String>);

impl Refusals {
    /// One more.
    pub fn add(&mut self, address: SocketAddr, reason: impl fmt::Display) {
        self.0.push(format!("cannot connect to {address}: {reason}"));
    }

    /// All of them, on one line: the first may be the one that matters.
    pub fn of(self, host: &str) -> String {
        if self.0.is_empty() { format!("the name {host:?} has no address") } else { self.0.join("; ") }
    }
}
