//! What the file formats of this crate share: places in error messages, and small serde helpers.
//!
//! Every reader goes through [`parse`], so that a fault always names the field and where it stands
//! (`server[2].reply.boddy: unknown field ...`), whichever struct refused it.

use serde::de::{DeserializeOwned, Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a scenario or an outcome cannot be used: which file, which place in it, and what is wrong there.
///
/// ```
/// use informer_conformance::scenario::Scenario;
///
/// let fault = Scenario::from_str(r#"{"name": "a", "sead": 1}"#).unwrap_err();
/// assert_eq!(fault.place(), "sead");
/// assert!(fault.to_string().contains("unknown field `sead`"));
/// ```
pub struct FormError {
    file: Option<PathBuf>,
    place: String,
    problem: String,
}

impl FormError {
    /// A fault that a rule across several fields found.
    pub(crate) fn at(place: impl Into<String>, problem: impl Into<String>) -> Self {
        FormError { file: None, place: place.into(), problem: problem.into() }
    }

    fn unreadable(file: &Path, source: &io::Error) -> Self {
        FormError { file: Some(file.to_owned()), place: String::new(), problem: format!("cannot be read: {source}") }
    }

    /// The same fault, in `file`.
    pub(crate) fn in_file(mut self, file: &Path) -> Self {
        self.file = Some(file.to_owned());
        self
    }

    /// The place of the fault, written as one would reach it from the top of the file (`server[2].reply.boddy`);
    /// empty if it is the file as a whole.
    pub fn place(&self) -> &str {
        &self.place
    }
}

impl fmt::Display for FormError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}: ", file.display())?;
        }
        if !self.place.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        f.write_str(&self.problem)
    }
}

impl fmt::Debug for FormError {
    /// The text of Display: `main` prints errors so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for FormError {}

/// The text of `file`.
pub(crate) fn read(file: &Path) -> Result<String, FormError> {
    std::fs::read_to_string(file).map_err(|error| FormError::unreadable(file, &error))
}

/// Reads one JSON document, and nothing after it.
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, FormError> {
    let mut json = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let place = error.path().to_string();
        fault(if place == "." { String::new() } else { place }, error.into_inner())
    })?;
    json.end().map_err(|error| fault(String::new(), error))?;
    Ok(value)
}

fn fault(place: String, error: serde_json::Error) -> FormError {
    FormError { file: None, place, problem: error.to_string() }
}

/// An optional field that, if it stands there, may not be `null`.
pub(crate) fn present<'de, D, T>(de: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(de).map(Some)
}

/// A whole number of at least one.
pub(crate) fn positive<'de, D: Deserializer<'de>>(de: D) -> Result<u64, D::Error> {
    match u64::deserialize(de)? {
        0 => Err(D::Error::custom("must be an integer >= 1, is 0")),
        n => Ok(n),
    }
}

/// Like [`positive`], for a field that may be left out.
pub(crate) fn positive_present<'de, D: Deserializer<'de>>(de: D) -> Result<Option<u64>, D::Error> {
    positive(de).map(Some)
}

/// Both ends of an allowed range, in the unit of the field it stands for.
///
/// In a file it is `[min, max]`, and where a single number makes sense also that number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The least allowed value.
    pub min: u64,
    /// The largest allowed value.
    pub max: u64,
}

impl Bounds {
    /// True if `value` lies inside, both ends included.
    pub fn allow(&self, value: u64) -> bool {
        (self.min..=self.max).contains(&value)
    }

    /// The same range with its upper end `grace` later; the lower end stays.
    #[must_use]
    pub fn widened(self, grace: u64) -> Self {
        Bounds { min: self.min, max: self.max.saturating_add(grace) }
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max { write!(f, "{}", self.min) } else { write!(f, "[{}, {}]", self.min, self.max) }
    }
}

impl Serialize for Bounds {
    fn serialize<S: serde::Serializer>(&self, ser: S) -> Result<S::Ok, S::Error> {
        if self.min == self.max { ser.serialize_u64(self.min) } else { [self.min, self.max].serialize(ser) }
    }
}

impl<'de> Deserialize<'de> for Bounds {
    fn deserialize<D: Deserializer<'de>>(de: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Bounds;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("n or [min, max] with min <= max")
            }

            fn visit_u64<E: serde::de::Error>(self, n: u64) -> Result<Bounds, E> {
                Ok(Bounds { min: n, max: n })
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Bounds, A::Error> {
                let short = |have| A::Error::invalid_length(have, &"[min, max]");
                let min = seq.next_element()?.ok_or_else(|| short(0))?;
                let max = seq.next_element()?.ok_or_else(|| short(1))?;
                if seq.next_element::<u64>()?.is_some() {
                    return Err(short(3));
                }
                if min > max {
                    return Err(A::Error::custom(format!("must be [min, max], is [{min}, {max}]")));
                }
                Ok(Bounds { min, max })
            }
        }
        de.deserialize_any(Visitor)
    }
}

/// Only `[min, max]`: a gap is never one exact number outside virtual time, so the short form would be a slip.
pub(crate) fn pair<'de, D: Deserializer<'de>>(de: D) -> Result<Option<Bounds>, D::Error> {
    let [min, max] = <[u64; 2]>::deserialize(de)?;
    if min > max {
        return Err(D::Error::custom(format!("must be [min, max], is [{min}, {max}]")));
    }
    Ok(Some(Bounds { min, max }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_a_number_or_two() {
        assert_eq!(parse::<Bounds>("3").unwrap(), Bounds { min: 3, max: 3 });
        assert_eq!(parse::<Bounds>("[3, 4]").unwrap(), Bounds { min: 3, max: 4 });
        for bad in ["[4, 3]", "[1]", "[1, 2, 3]", "-1", "\"3\"", "null", "1.5"] {
            assert!(parse::<Bounds>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn grace_moves_only_the_upper_end() {
        assert_eq!(Bounds { min: 3, max: 4 }.widened(250), Bounds { min: 3, max: 254 });
    }

    #[test]
    fn nothing_may_follow_the_document() {
        assert!(parse::<Bounds>("3 4").unwrap_err().to_string().contains("trailing"));
    }

    #[test]
    fn a_missing_file_is_named_and_its_cause_told() {
        let error = read(Path::new("no/such/scenario.json")).unwrap_err();
        assert!(error.to_string().starts_with("no/such/scenario.json: cannot be read"), "{error}");
        assert!(error.source().is_none() && error.to_string().contains("os error"), "{error}");
    }
}
