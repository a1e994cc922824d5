//! Finds the value of a scalar as kubectl does: by the rules of YAML 1.1 as `sigs.k8s.io/yaml` implements them, with numbers as
//! the API server keeps them.

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// From here on, Go writes floating point numbers with an exponent, so that the API server does not read them as integers.
const EXPONENT_FROM: f64 = 1e21;

/// The value of a plain scalar without a tag.
pub fn plain(text: &str) -> Option<Value> {
    let Some(first) = text.chars().next() else { return Some(Value::Null) };
    match (first, text) {
        (_, "~" | "null" | "Null" | "NULL") => Some(Value::Null),
        (_, "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON") => Some(true.into()),
        (_, "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF") => Some(false.into()),
        ('.', text) => text.parse().ok().and_then(float),
        ('0'..='9' | '+' | '-', text) => number(&text.replace('_', "")),
        _ => Some(text.into()),
    }
    .or_else(|| Some(text.into()))
    .filter(|_| !is_infinite(text))
}

/// The value of a scalar with a tag of YAML, by its name in `tag:yaml.org,2002:`.
///
/// # Errors
/// If the text is no value of the tag.
pub fn tagged(tag: &str, text: &str) -> anyhow::Result<Value> {
    let value = plain(text);
    let is_of_tag = match (tag, &value) {
        ("bool", Some(Value::Bool(_))) | ("int" | "float", Some(Value::Number(_))) | ("null", Some(Value::Null)) => {
            true
        }
        ("bool" | "int" | "float" | "null", _) => false,
        ("binary", _) => {
            let unusable = "the value of !!binary is not text in base64";
            let bytes = STANDARD.decode(text.replace(char::is_whitespace, "")).context(unusable)?;
            return Ok(String::from_utf8(bytes).context(unusable)?.into());
        }
        _ => return Ok(text.into()),
    };
    match value.filter(|_| is_of_tag) {
        Some(value) => Ok(value),
        None => bail!("{text:?} cannot be read as !!{tag}"),
    }
}

/// Whether a plain scalar is a number that JSON does not have.
pub fn is_infinite(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN")
}

/// A number without underscores.
fn number(text: &str) -> Option<Value> {
    if let Some(integer) = integer(text) {
        return Some(integer);
    }
    // Go reads a sign after the prefix as well, but not after the other prefixes.
    if let Some(binary) = text.strip_prefix("0b").and_then(|digits| i64::from_str_radix(digits, 2).ok()) {
        return Some(binary.into());
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let has_digits = !(exponent.is_empty() || whole.is_empty() && fraction.is_empty());
    let is_float = has_digits && [whole, fraction, exponent].into_iter().all(is_digits);
    text.parse().ok().filter(|_| is_float).and_then(float)
}

/// An integer as Go reads it: in base 2, 8 (also with a leading zero alone), 10 or 16.
fn integer(text: &str) -> Option<Value> {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(unsigned) => ("-", unsigned),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let prefixed = |prefixes: [&str; 2], radix| {
        let digits = prefixes.iter().find_map(|prefix| unsigned.strip_prefix(prefix))?;
        Some((radix, digits))
    };
    let (radix, digits) = prefixed(["0b", "0B"], 2)
        .or_else(|| prefixed(["0o", "0O"], 8))
        .or_else(|| prefixed(["0x", "0X"], 16))
        .or_else(|| Some((8, unsigned.strip_prefix('0').filter(|rest| !rest.is_empty())?)))
        .unwrap_or((10, unsigned));
    if !digits.chars().all(|digit| digit.is_digit(radix)) {
        return None;
    }
    let value = i128::from_str_radix(&format!("{sign}{digits}"), radix).ok()?;
    match (i64::try_from(value), u64::try_from(value)) {
        (Ok(value), _) => Some(value.into()),
        #[expect(
            clippy::cast_precision_loss,
            reason = "the API server keeps such an integer as a floating point number"
        )]
        (Err(_), Ok(value)) => float(value as f64),
        (Err(_), Err(_)) => None,
    }
}

/// A floating point number: Go writes one without a fraction as an integer, which the API server then reads. None if it is
/// infinite.
pub fn float(value: f64) -> Option<Value> {
    if value.fract() == 0.0
        && value.abs() < EXPONENT_FROM
        && let Ok(integer) = format!("{value:.0}").parse::<i64>()
    {
        return Some(integer.into());
    }
    serde_json::Number::from_f64(value).map(Value::Number)
}
