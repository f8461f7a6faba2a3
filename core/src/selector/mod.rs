//! Which objects of a collection: [`LabelSelector`] and [`FieldSelector`].
//!
//! A selector is text in a request and a test in memory, and both must mean the same. So there is one parser, it
//! accepts what the API server accepts, and what it made prints as text that parses to the same selector again. What
//! it refuses is an error and never a selector that happens to match everything (B107).
//!
//! ```
//! use informer_core::selector::LabelSelector;
//! use informer_core::ObjectMeta;
//!
//! let selector: LabelSelector = "app=web, tier notin (cache), !legacy".parse()?;
//! assert_eq!(selector.to_string(), "app=web,!legacy,tier notin (cache)");
//!
//! let labelled = |pairs: &[(&str, &str)]| ObjectMeta {
//!     labels: pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
//!     ..ObjectMeta::default()
//! };
//! assert!(selector.matches(&labelled(&[("app", "web")]))); // an absent `tier` is not `cache`
//! assert!(!selector.matches(&labelled(&[("app", "web"), ("legacy", "")]))); // an empty value is a value
//!
//! let error = "app=web,tier=a=b".parse::<LabelSelector>().unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     r#"label selector "app=web,tier=a=b": found "=" at byte 14, expected "," or the end"#
//! );
//! # Ok::<(), informer_core::selector::SelectorError>(())
//! ```
//!
//! An informer with a selector sees an object that leaves the selection as deleted, although it still exists (B103):
//! the server says so, and the object of that notification carries the labels that took it out.

mod error;
mod field;
mod label;
mod lexer;
mod syntax;

pub use error::{Expected, LabelError, LabelPart, MatchesNothing, SelectorError, SelectorProblem};
pub use field::{FieldRequirement, FieldSelector};
pub use label::{LabelSelector, LabelTest, Requirement};
pub use syntax::is_subdomain;
