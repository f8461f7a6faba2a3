//! One controller, three ways.
//!
//! - [`reconcile`]: what the controller wants, as a pure function. Both runtimes share it, line for line.
//! - [`world`]: the people and machines around it: they make, change and delete parents, restart the server, and check
//!   at the end that every child is as it should be.
//!
//! `controller_tokio` and `controller_threads` put the two together; `bare_core` needs no runtime at all, and
//! `indexer_tour` no network either.
#![forbid(unsafe_code)]

pub mod reconcile;
pub mod world;

/// The README's programs compile, and those that need no cluster run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

#[cfg(test)]
mod tests {
    /// The words that a crate hands on from the core and the runtime.
    fn handed_on(source: &str) -> Vec<String> {
        source
            .split(';')
            .map(str::trim)
            .filter(|item| item.starts_with("pub use informer_"))
            .map(|item| item.split_whitespace().collect())
            .collect()
    }

    #[test]
    fn both_adapters_hand_on_the_same_words() {
        let tokio = handed_on(include_str!("../../runtime-tokio/src/lib.rs"));
        let blocking = handed_on(include_str!("../../runtime-blocking/src/lib.rs"));
        assert!(tokio.len() > 10, "{tokio:?}");
        assert_eq!(tokio, blocking);
    }
}
