//! [`shares`]: how the addresses of a host share the time for a connection.
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
