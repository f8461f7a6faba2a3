//! What every error of the crate owes to whoever prints it: a `main` that returns one, and a reporter that joins sources.

use informer_core::Version;
use informer_core::lister::{PageToken, TokenError};
use informer_core::object::{DecodeError, Key, Resource};
use informer_core::overlay::OverlayError;
use informer_core::saved::SavedError;
use informer_core::selector::{FieldSelector, LabelSelector, MatchesNothing, SelectorProblem};
use informer_core::store::{IndexError, Unreachable};
use informer_core::wire::{GzipError, Status, WireError};
use std::error::Error;

fn no<T>(text: &str) -> Box<dyn Error>
where
    T: std::str::FromStr,
    T::Err: Error + 'static,
{
    text.parse::<T>().err().expect(text).into()
}

fn all() -> Vec<Box<dyn Error>> {
    let bad_label = "a=-".parse::<LabelSelector>().unwrap_err();
    let SelectorProblem::Label(label) = bad_label.problem().clone() else { panic!("{bad_label}") };
    vec![
        no::<Resource>("podz"),
        no::<Key>("a/b/c"),
        no::<LabelSelector>("a in"),
        no::<FieldSelector>("a"),
        no::<PageToken>("?"),
        bad_label.into(),
        label.into(),
        MatchesNothing.into(),
        TokenError::OtherList.into(),
        DecodeError::new("no spec").into(),
        IndexError::Unknown("i".into()).into(),
        SavedError::Line { line: 2, reason: "no key".into() }.into(),
        OverlayError::Full { key: Key::new("web", "a") }.into(),
        Unreachable::SetBack { asked: Version::new("7"), stands_for: Version::new("5") }.into(),
        Status::from_response(404, b"404 page not found").into(),
        WireError::Status(Status::from_response(410, b"")).into(),
        WireError::Gzip(GzipError::NotGzip).into(),
        GzipError::NotGzip.into(),
    ]
}

#[test]
fn an_error_that_main_returns_is_printed_in_words() {
    for error in all() {
        assert_eq!(format!("{error:?}"), error.to_string());
    }
}

#[test]
fn no_error_says_what_its_source_says() {
    for error in all() {
        let mut told = error.to_string();
        let mut link = error.source();
        while let Some(source) = link {
            let text = source.to_string();
            assert!(!told.contains(&text), "{told:?} has {text:?} already");
            told += &text;
            link = source.source();
        }
    }
}
