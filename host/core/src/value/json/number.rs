//! A JSON number, kept verbatim and compared as a decimal.

use std::borrow::Cow;

use compact_str::{CompactString, ToCompactString as _};

/// A number as it was written. Two numbers are equal if they are the same decimal: `1`, `1.0` and `10e-1` are equal.
#[derive(Debug, Clone, Eq)]
pub struct Number(CompactString);

impl Number {
    /// Wraps a text that the parser has validated as a JSON number.
    pub(super) fn verbatim(text: &str) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The number as an integer, if it is written as one and fits.
    pub fn as_i64(&self) -> Option<i64> {
        self.0.parse().ok()
    }

    /// Returns true if the number is zero, in any notation.
    pub fn is_zero(&self) -> bool {
        self.decimal().1.is_empty()
    }

    /// Sign, significant digits without leading and trailing zeros, and the power of ten of the last digit.
    fn decimal(&self) -> (bool, Cow<'_, str>, i64) {
        let (negative, text) = match self.0.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, self.as_str()),
        };
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        // An exponent beyond i64 saturates: such numbers differ from all numbers in practice, which suffices.
        let exponent = exponent.parse::<i64>().unwrap_or(if exponent.starts_with('-') { i64::MIN } else { i64::MAX });
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits: Cow<'_, str> = if fraction.is_empty() { whole.into() } else { format!("{whole}{fraction}").into() };
        let scale = exponent.saturating_sub(i64::try_from(fraction.len()).unwrap_or(i64::MAX));
        let trimmed = digits.trim_end_matches('0');
        let dropped = i64::try_from(digits.len() - trimmed.len()).unwrap_or(i64::MAX);
        let significant = trimmed.trim_start_matches('0').to_owned();
        if significant.is_empty() {
            return (false, "".into(), 0);
        }
        (negative, significant.into(), scale.saturating_add(dropped))
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || self.decimal() == other.decimal()
    }
}

impl From<i64> for Number {
    fn from(value: i64) -> Self {
        Self(value.to_compact_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_as_decimals() {
        for (a, b) in [("1", "1.0"), ("1", "10e-1"), ("-0", "0"), ("0.0", "0e9"), ("1200", "1.2E3"), ("0.10", "0.1")] {
            assert_eq!(Number::verbatim(a), Number::verbatim(b));
        }
        for (a, b) in [("1", "-1"), ("9007199254740993", "9007199254740992"), ("0.1", "0.10000000000000001")] {
            assert_ne!(Number::verbatim(a), Number::verbatim(b));
        }
    }
}
