//! What the benchmarks share: objects made by a rule, the bodies that a server would send of them, and [`Bench`], an
//! informer that is driven by hand.
//!
//! Nothing here opens a socket or reads a clock: the answers are scripted, time stands still, and equal numbers make
//! equal bytes, so two runs measure the same work. The groups themselves are in `benches/`, one file each; the README
//! beside them says what each one measures.
//!
//! ```
//! use informer_benches::{Bench, Pod, frames, list_body};
//! use informer_core::listener::Overflow;
//!
//! let mut bench = Bench::<Pod>::new(1, Overflow::default());
//! bench.sync(&list_body::<Pod>(0..20, |_| 1));
//! assert_eq!((bench.store().len(), bench.drain()), (20, 21)); // an `Added` each, and the word that this is all
//!
//! bench.open_watch();
//! bench.event(&frames::<Pod>("MODIFIED", 3..4, |_| 2));
//! assert_eq!(bench.drain(), 1);
//! ```

mod bench;
mod bodies;
mod pod;
mod settings;
mod widget;

pub use bench::{Bench, CHUNK, walk};
pub use bodies::{end_of_initial_events, frames, gzip, list_body};
pub use pod::Metadata as PodMetadata;
pub use pod::Pod;
pub use settings::{criterion, slow};
pub use widget::Widget;

use informer_core::Object;

/// A type whose objects are made by a rule: the same number and version give the same object, byte for byte.
pub trait Sample: Object + serde::Serialize {
    /// Object number `n` as it was at `version`. The identity depends on `n` alone.
    fn sample(n: u64, version: u64) -> Self;
}

/// A uid in the form of a UUID that is the same for every version of object `n`.
pub(crate) fn uid(n: u64) -> String {
    let mut rng = informer_core::rng::Rng::new(n);
    let (high, low) = (rng.next(), rng.next());
    let hex = format!("{high:016x}{low:016x}");
    format!("{}-{}-4{}-9{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    #[test]
    fn uids_have_the_canonical_form_and_do_not_repeat() {
        assert_eq!(super::uid(7).len(), 36);
        assert_eq!(super::uid(7), super::uid(7));
        assert_ne!(super::uid(7), super::uid(8));
    }
}
