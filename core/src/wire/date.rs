//! [`rfc3339`], [`rfc3339_seconds`] and [`unix_seconds`]: the dates that the API writes, and the dates of HTTP in the three forms that a
//! recipient must read (RFC 9110, 5.6.7).

use alloc::format;
use alloc::string::String;

/// The moment `unix_seconds` after the beginning of 1970 as the API writes it: RFC 3339 with whole seconds, in UTC.
///
/// ```
/// assert_eq!(informer_core::wire::rfc3339(1_767_225_599), "2025-12-31T23:59:59Z");
/// ```
pub fn rfc3339(unix_seconds: u64) -> String {
    let (days, rest) = (unix_seconds / 86_400, unix_seconds % 86_400);
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3_600, rest / 60 % 60, rest % 60)
}

/// Seconds since 1970 of what [`rfc3339`] writes; `None` of anything else, other zones and parts of seconds included.
///
/// ```
/// assert_eq!(informer_core::wire::rfc3339_seconds("2025-12-31T23:59:59Z"), Some(1_767_225_599));
/// assert_eq!(informer_core::wire::rfc3339_seconds("2025-12-32T23:59:59Z"), None);
/// ```
pub fn rfc3339_seconds(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let is_whole = year.len() == 4 && month.len() == 2 && day.len() == 2 && time.len() == 8 && parts.next().is_none();
    let month = number(month, 2)?.checked_sub(1).filter(|month| (0..12).contains(month))?;
    seconds_at(number(year, 4)?, month, number(day, 2)?, time).filter(|_| is_whole)?.try_into().ok()
}

/// Year, month and day of a day counted from 1970-01-01. Years start in March here, so that a leap day comes last;
/// 400 years always have 146,097 days.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// Seconds since 1970 of a date, or `None` if it is none: `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94 08:49:37
/// GMT` or `Sun Nov  6 08:49:37 1994`. The day of the week is not checked. Two digits of a year mean 1970 to 2069.
pub(crate) fn unix_seconds(text: &str) -> Option<i64> {
    let mut parts = text.split([' ', ',']).filter(|part| !part.is_empty());
    let _day_of_week = parts.next()?;
    let first = parts.next()?;
    let (day, month, year, time) = if let Some((day, rest)) = first.split_once('-') {
        let (month, year) = rest.split_once('-')?;
        let year = number(year, 2)?;
        (number(day, 2)?, month, if year < 70 { 2000 + year } else { 1900 + year }, parts.next()?)
    } else if first.as_bytes()[0].is_ascii_digit() {
        let (month, year) = (parts.next()?, parts.next()?);
        (number(first, 2)?, month, number(year, 4)?, parts.next()?)
    } else {
        let (day, time, year) = (parts.next()?, parts.next()?, parts.next()?);
        // The only form without a zone.
        return seconds(number(year, 4)?, first, number(day, 2)?, time).filter(|_| parts.next().is_none());
    };
    (parts.next()? == "GMT" && parts.next().is_none()).then(|| seconds(year, month, day, time))?
}

fn seconds(year: i64, month: &str, day: i64, time: &str) -> Option<i64> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    seconds_at(year, MONTHS.iter().position(|&known| known == month)? as i64, day, time)
}

/// The same for a month that is counted from 0.
fn seconds_at(year: i64, month: i64, day: i64, time: &str) -> Option<i64> {
    let mut clock = time.split(':').map(|part| number(part, 2));
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    // A leap second counts as the first one of the next minute.
    let is_time = clock.next().is_none() && hour < 24 && minute < 60 && second <= 60;
    let is_date = year >= 1601 && (1..=days_of(month, year)).contains(&day);
    (is_time && is_date).then(|| (days_before(year, month) + day - 1) * 86_400 + hour * 3600 + minute * 60 + second)
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Days of a month that is counted from 0.
fn days_of(month: i64, year: i64) -> i64 {
    match month {
        1 => 28 + i64::from(is_leap(year)),
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    }
}

/// Days from 1970 to the first of a month that is counted from 0.
fn days_before(year: i64, month: i64) -> i64 {
    let years = year - 1;
    let to_new_year = years * 365 + years / 4 - years / 100 + years / 400 - 719_162;
    to_new_year + (0..month).map(|earlier| days_of(earlier, year)).sum::<i64>()
}

/// A decimal of one to `digits` digits.
fn number(text: &str, digits: usize) -> Option<i64> {
    let is_number = text.len() <= digits && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn written_dates_are_right_around_leap_days_and_year_ends() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_164_799, "2024-02-28T23:59:59Z"),
            (1_709_251_200, "2024-03-01T00:00:00Z"),
            (1_767_225_599, "2025-12-31T23:59:59Z"),
            (1_767_225_600, "2026-01-01T00:00:00Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(seconds), text);
            assert_eq!(rfc3339_seconds(text), Some(seconds));
        }
    }

    #[test]
    fn what_the_api_does_not_write_is_no_date_of_it() {
        for text in [
            "",
            "2026-01-01",
            "2026-00-01T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-1-01T00:00:00Z",
            "2026-01-01T0:00:00Z",
            "2026-01-01T00:00:00.5Z",
            "2026-01-01T00:00:00+01:00",
            "2026-01-01-01T00:00:00Z",
        ] {
            assert_eq!(rfc3339_seconds(text), None, "{text}");
        }
    }

    #[test]
    fn the_three_forms_mean_the_same() {
        for text in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(unix_seconds(text), Some(784_111_777), "{text}");
        }
    }

    #[test]
    fn known_days_are_right() {
        assert_eq!(unix_seconds("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(unix_seconds("Wed, 31 Dec 1969 23:59:59 GMT"), Some(-1));
        assert_eq!(unix_seconds("Tue, 29 Feb 2000 00:00:00 GMT"), Some(951_782_400));
        assert_eq!(unix_seconds("Fri, 31 Dec 9999 23:59:59 GMT"), Some(253_402_300_799));
        assert_eq!(unix_seconds("Saturday, 01-Jan-00 00:00:00 GMT"), Some(946_684_800));
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in [
            "",
            " , ",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 06 Nov 1994 08:49:37 GMT x",
            "Sun, 29 Feb 1900 00:00:00 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:49 GMT",
            "Sun, 06 nov 1994 08:49:37 GMT",
            "Sun, 6-Nov 08:49:37 GMT",
            "Sun, +6 Nov 1994 08:49:37 GMT",
            "Sun Nov 6 08:49:37 1994 GMT",
        ] {
            assert_eq!(unix_seconds(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "\\PC{0,40}|[SunNov0-9 ,:-]{0,40}") {
            let _ = unix_seconds(&text);
        }
    }
}
