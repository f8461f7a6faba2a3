//! [`Head`]: status code and headers of an answer, as far as the core wants to know them.
//!
//! ```
//! use core::time::Duration;
//! use informer_core::wire::Head;
//!
//! let mut head = Head::new(429);
//! head.set("Retry-After", "5");
//! head.set("X-Powered-By", "not kept");
//! assert_eq!(head.retry_after(), Some(Duration::from_secs(5)));
//! ```

use super::date::unix_seconds;
use super::status::seconds;
use alloc::string::String;
use core::time::Duration;

/// Status code and headers of an answer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Head {
    /// The status code.
    pub status: u16,
    /// `content-type`.
    pub content_type: Option<String>,
    /// `content-encoding`, for [`Body`](super::Body).
    pub content_encoding: Option<String>,
    /// `retry-after`, as it came; [`retry_after`](Head::retry_after) reads it.
    pub retry_after: Option<String>,
    /// `date`: the server's clock.
    pub date: Option<String>,
}

impl Head {
    /// A head without headers.
    pub fn new(status: u16) -> Self {
        Head { status, ..Head::default() }
    }

    /// Keeps the header if the core wants it; its name in any case. The first one counts if it comes twice.
    pub fn set(&mut self, name: &str, value: &str) {
        let fields = [
            ("content-type", &mut self.content_type),
            ("content-encoding", &mut self.content_encoding),
            ("retry-after", &mut self.retry_after),
            ("date", &mut self.date),
        ];
        for (known, field) in fields {
            if name.eq_ignore_ascii_case(known) {
                field.get_or_insert_with(|| value.trim().into());
            }
        }
    }

    /// How long the server asks to be left alone: `retry-after` in seconds, or as a date that is read against the
    /// answer's own `date`, so that our clock does not matter. `None` if it is absent, 0, negative, unreadable, in the
    /// past, or a date in an answer without one (F19). Without a cap; the caller has one.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after_at(None)
    }

    /// The same; a date in an answer without a `date` of its own is read against our wall clock, so long after the
    /// beginning of 1970, if we know it. The caller's cap bounds what a wrong clock can do.
    pub fn retry_after_at(&self, unix: Option<Duration>) -> Option<Duration> {
        let text = self.retry_after.as_deref()?.trim();
        let span = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            text.parse().unwrap_or(u64::MAX) // more digits than fit are a long time
        } else {
            let until = unix_seconds(text)?;
            let now = match (&self.date, unix) {
                (Some(date), _) => unix_seconds(date)?,
                (None, unix) => i64::try_from(unix?.as_secs()).ok()?,
            };
            u64::try_from(until.checked_sub(now)?).ok()?
        };
        (span > 0).then(|| seconds(span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

    fn retry_after(retry: &str, date: Option<&str>) -> Option<u64> {
        let mut head = Head::new(503);
        head.set("Retry-After", retry);
        if let Some(date) = date {
            head.set("DATE", date);
        }
        head.retry_after().map(|span| span.as_secs())
    }

    #[test]
    fn seconds_are_read() {
        assert_eq!(retry_after("1", None), Some(1));
        assert_eq!(retry_after(" 30 ", None), Some(30));
        assert_eq!(retry_after("1000000000", None), Some(1_000_000_000));
        assert_eq!(retry_after("99999999999999999999999", None), Some(u64::from(u32::MAX)));
    }

    #[test]
    fn dates_are_read_against_the_answers_own_date() {
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:50:37 GMT", Some(DATE)), Some(60));
        assert_eq!(retry_after("Sunday, 06-Nov-94 08:49:40 GMT", Some(DATE)), Some(3));
        assert_eq!(retry_after("Mon Nov  7 08:49:37 1994", Some(DATE)), Some(86_400));
    }

    #[test]
    fn a_date_without_one_to_read_it_against_is_read_against_our_clock() {
        let mut head = Head::new(503);
        head.set("retry-after", "Sun, 06 Nov 1994 08:50:37 GMT");
        let at = |head: &Head, unix| head.retry_after_at(unix).map(|span| span.as_secs());
        assert_eq!(at(&head, Some(Duration::from_millis(784_111_777_900))), Some(60));
        assert_eq!(at(&head, Some(Duration::from_secs(784_111_837))), None, "now");
        assert_eq!(at(&head, Some(Duration::from_secs(900_000_000))), None, "long past");
        assert_eq!((at(&head, Some(Duration::MAX)), at(&head, None)), (None, None));
        head.set("date", DATE);
        assert_eq!(at(&head, Some(Duration::ZERO)), Some(60), "the server's own clock comes first");
        head.date = Some("today".into());
        assert_eq!(at(&head, Some(Duration::ZERO)), None, "it has one, and it is of no use");
    }

    #[test]
    fn anything_else_is_none() {
        for retry in ["", "0", "-1", "1.5", "+5", "soon", "0x10", DATE, "Sun, 06 Nov 1994 08:49:36 GMT"] {
            assert_eq!(retry_after(retry, Some(DATE)), None, "{retry:?}");
        }
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:50:37 GMT", None), None);
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:50:37 GMT", Some("today")), None);
        assert_eq!(Head::new(200).retry_after(), None);
    }

    #[test]
    fn known_headers_are_kept_in_any_case_and_once() {
        let mut head = Head::new(200);
        for (name, value) in [
            ("Content-Type", "application/json"),
            ("CONTENT-ENCODING", " gzip"),
            ("date", DATE),
            ("server", "x"),
            ("content-type", "text/html"),
        ] {
            head.set(name, value);
        }
        let expected = Head {
            status: 200,
            content_type: Some("application/json".into()),
            content_encoding: Some("gzip".into()),
            retry_after: None,
            date: Some(DATE.into()),
        };
        assert_eq!(head, expected);
    }
}
