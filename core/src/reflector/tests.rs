//! Jumps to each state of the graph in the module header and lets each fault happen there, with exact deadlines.
//!
//! All of it goes through [`Informer`](crate::informer::Informer): what counts is what a driver sees.

mod clock;
mod flow;
mod harness;
mod health;
mod listing;
mod opening;
mod pace;
mod probing;
mod random;
mod streaming;
mod watching;
