//! The query of a list or watch: [`ListOptions`], read and checked as the real server does.

use crate::select::{self, Fields};
use crate::status::{Cause, Named, Status};
use informer_core::selector::LabelSelector;
use informer_core::wire::query_pairs;

/// What a list or watch asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListOptions {
    pub(crate) watch: bool,
    pub(crate) labels: LabelSelector,
    pub(crate) fields: Fields,
    pub(crate) version: String,
    pub(crate) matching: Match,
    pub(crate) send_initial_events: Option<bool>,
    pub(crate) bookmarks: bool,
    /// 0 is no limit.
    pub(crate) limit: usize,
    pub(crate) resume: String,
    pub(crate) timeout_seconds: Option<u64>,
}

/// `resourceVersionMatch`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Match {
    #[default]
    Unset,
    Exact,
    NotOlderThan,
}

impl ListOptions {
    /// Reads a query.
    pub(crate) fn parse(query: &str) -> Result<Self, Status> {
        let pairs: Vec<_> = query_pairs(query).collect();
        let get = |name: &str| pairs.iter().find(|(have, _)| have == name).map(|(_, value)| value.as_str());
        let text = |name: &str| get(name).unwrap_or_default();
        // Only absence, "0" and "false" are false: `watch=` and `watch=maybe` are true.
        let flag = |name: &str| get(name).map(|value| value != "0" && !value.eq_ignore_ascii_case("false"));
        let number = |name: &str| match get(name) {
            None | Some("") => Ok(None),
            Some(value) => value
                .parse::<i64>()
                .map(Some)
                .map_err(|_| Status::bad_request(format!("strconv.ParseInt: parsing {value:?}: invalid syntax"))),
        };
        let mut options = ListOptions {
            watch: flag("watch").unwrap_or(false),
            labels: select::labels(text("labelSelector")).map_err(Status::bad_request)?,
            fields: Fields::parse(text("fieldSelector")).map_err(Status::bad_request)?,
            version: text("resourceVersion").into(),
            send_initial_events: flag("sendInitialEvents"),
            bookmarks: flag("allowWatchBookmarks").unwrap_or(false),
            limit: number("limit")?.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(0),
            resume: text("continue").into(),
            timeout_seconds: number("timeoutSeconds")?
                .and_then(|seconds| u64::try_from(seconds).ok())
                .filter(|&s| s > 0),
            ..ListOptions::default()
        };
        options.matching = options.check(text("resourceVersionMatch"))?;
        Ok(options)
    }

    /// The mixes that are refused (W7).
    fn check(&self, matching: &str) -> Result<Match, Status> {
        const MATCH: &str = "resourceVersionMatch";
        let mut causes = Vec::new();
        let value = match matching {
            "Exact" => Match::Exact,
            "NotOlderThan" => Match::NotOlderThan,
            _ => Match::Unset,
        };
        if self.watch {
            if self.send_initial_events.is_some() && value != Match::NotOlderThan {
                let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
                causes.push(Cause::forbidden(MATCH, why));
            }
            if !matching.is_empty() {
                if self.send_initial_events.is_none() {
                    let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                    causes.push(Cause::forbidden(MATCH, why));
                }
                if value != Match::NotOlderThan {
                    causes.push(Cause::unsupported(MATCH, format_args!("{matching:?}"), "\"NotOlderThan\""));
                }
            }
        } else if !matching.is_empty() && self.version.is_empty() {
            let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            causes.push(Cause::forbidden(MATCH, why));
        }
        if !matching.is_empty() && !self.resume.is_empty() {
            causes.push(Cause::forbidden(MATCH, "resourceVersionMatch is forbidden when continue is provided"));
        }
        if !self.watch {
            if !matching.is_empty() && value == Match::Unset {
                causes.push(Cause::unsupported(MATCH, format_args!("{matching:?}"), r#""Exact", "NotOlderThan", """#));
            }
            if value == Match::Exact && self.version == "0" {
                let why = r#"resourceVersionMatch "exact" is forbidden for resourceVersion "0""#;
                causes.push(Cause::forbidden(MATCH, why));
            }
            if self.send_initial_events.is_some() {
                causes.push(Cause::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
            }
        }
        if causes.is_empty() {
            return Ok(value);
        }
        let options = Named { group: "meta.k8s.io".into(), kind: "ListOptions".into(), name: String::new() };
        Err(Status::invalid(&options, causes))
    }
}

/// The version of a query as the server reads it: decimal, `None` if it is empty; `Err` says what is wrong.
pub(crate) fn parse_version(text: &str) -> Result<Option<u64>, String> {
    version_of_object(text).map_err(|why| format!("resourceVersion: Invalid value: {text:?}: {why}"))
}

/// The same for the version in an object.
pub(crate) fn version_of_object(text: &str) -> Result<Option<u64>, String> {
    let wrong = |why| format!("strconv.ParseUint: parsing {text:?}: {why}");
    if text.is_empty() {
        return Ok(None);
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong("invalid syntax"));
    }
    text.parse().map(Some).map_err(|_| wrong("value out of range"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        let options = ListOptions::parse("labelSelector=a%20in+(b%2Cc)&watch&limit=-3&x=%zz").unwrap();
        assert!(options.watch && options.limit == 0);
        assert_eq!(options.labels, "a in (b,c)".parse().unwrap());
    }

    #[test]
    fn only_zero_and_false_are_false() {
        for (query, watch) in
            [("", false), ("watch=0", false), ("watch=False", false), ("watch=", true), ("watch=maybe", true)]
        {
            assert_eq!(ListOptions::parse(query).unwrap().watch, watch, "{query}");
        }
    }

    #[test]
    fn versions_are_decimal() {
        assert_eq!(parse_version(""), Ok(None));
        assert_eq!(parse_version("007"), Ok(Some(7)));
        let text = r#"resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax"#;
        assert_eq!(parse_version("abc"), Err(text.into()));
        for wrong in ["+5", "-1", "1 ", "184467440737095516160"] {
            assert!(parse_version(wrong).is_err(), "{wrong}");
        }
    }
}
