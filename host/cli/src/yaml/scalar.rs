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
    match (tag, plain(text)) {
        ("bool", Some(value @ Value::Bool(_)))
        | ("int" | "float", Some(value @ Value::Number(_)))
        | ("null", Some(value @ Value::Null)) => Ok(value),
        ("bool" | "int" | "float" | "null", _) => bail!("{text:?} cannot be read as !!{tag}"),
        ("binary", _) => {
            let unusable = "the value of !!binary is not text in base64";
            let bytes = STANDARD.decode(text.replace(char::is_whitespace, "")).context(unusable)?;
            Ok(String::from_utf8(bytes).context(unusable)?.into())
        }
        _ => Ok(text.into()),
    }
}

/// Whether a plain scalar is a number that JSON does not have.
pub fn is_infinite(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN")
}

/// A number without underscores.
fn number(text: &str) -> Option<Value> {
    // Go reads a sign after the prefix as well, but not after the other prefixes.
    let binary = || Some(i64::from_str_radix(text.strip_prefix("0b")?, 2).ok()?.into());
    // What Rust reads as infinite or NaN stays text.
    integer(text).or_else(binary).or_else(|| text.parse().ok().and_then(float))
}

/// An integer as Go reads it: in base 2, 8 (also with a leading zero alone), 10 or 16.
fn integer(text: &str) -> Option<Value> {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(unsigned) => ("-", unsigned),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (radix, digits) = [("0b", 2), ("0B", 2), ("0o", 8), ("0O", 8), ("0x", 16), ("0X", 16)]
        .into_iter()
        .find_map(|(prefix, radix)| Some((radix, unsigned.strip_prefix(prefix)?)))
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
/// infinite or NaN.
pub fn float(value: f64) -> Option<Value> {
    if value.fract() == 0.0
        && value.abs() < EXPONENT_FROM
        && let Ok(integer) = format!("{value:.0}").parse::<i64>()
    {
        return Some(integer.into());
    }
    serde_json::Number::from_f64(value).map(Value::Number)
}
