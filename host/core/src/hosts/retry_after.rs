//! Parses `Retry-After` headers (RFC 9110, 10.2.3).

use std::time::Duration;

/// The delay in a header's value; `None` if the value is not a number of seconds. Dates are not supported: the API
/// server and registries send none.
pub fn wait(value: &str) -> Option<Duration> {
    Some(Duration::from_secs(u64::from(value.trim().parse::<u32>().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r13_retry_after_in_seconds_is_used_and_a_date_is_ignored() {
        assert_eq!(wait("7"), Some(Duration::from_secs(7)));
        assert_eq!(wait(" 0 "), Some(Duration::ZERO));
        for other in ["", "-1", "1.5", "soon", "Fri, 31 Dec 1999 23:59:59 GMT", "99999999999"] {
            assert_eq!(wait(other), None, "{other}");
        }
    }
}
