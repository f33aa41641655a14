//! When a server wants to be asked again.

use http::{HeaderMap, header};
use jiff::fmt::rfc2822::DateTimeParser;
use longhaul_core::{Millis, UnixMillis};

/// Reads `Retry-After`, in milliseconds from `now`: a number of seconds, or a date.
pub(crate) fn retry_after(headers: &HeaderMap, now: UnixMillis) -> Option<Millis> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if value.starts_with(|first: char| first.is_ascii_digit()) {
        return value.parse::<Millis>().ok()?.checked_mul(1000);
    }
    let date = DateTimeParser::new().parse_timestamp(value).ok()?;
    let wait = date.as_millisecond().saturating_sub(now.0);
    Millis::try_from(wait.max(0)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn both_forms_are_read() {
        // 1994-11-06T08:49:37Z
        let now = UnixMillis(784_111_777_000);
        let cases = [
            ("0", Some(0)),
            (" 120 ", Some(120_000)),
            ("Sun, 06 Nov 1994 08:51:07 GMT", Some(90_000)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("18446744073709551615", None),
            ("1.5", None),
            ("-1", None),
            ("soon", None),
            ("", None),
        ];
        for (value, expected) in cases {
            let headers = HeaderMap::from_iter([(header::RETRY_AFTER, HeaderValue::from_static(value))]);
            assert_eq!(retry_after(&headers, now), expected, "{value:?}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }
}
