//! Quantities as Kubernetes writes them: `100m` CPUs, `1.5Gi` of memory.

use std::{borrow::Cow, cmp::Ordering, fmt, iter, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A quantity (`resource.Quantity` of apimachinery): a decimal number with an optional suffix, like `100m`, `2`, `128Mi` or
/// `1e3`.
///
/// It is serialized as it was read, so that a child has the notation of the user. Quantities are compared by value: `1000m`
/// equals `1`.
///
/// ```
/// use windlass_plugin::Quantity;
///
/// let [small, large]: [Quantity; 2] = ["1536Mi".parse()?, "2Gi".parse()?];
/// assert!(small < large);
/// assert_eq!("1000m".parse::<Quantity>()?, "1".parse()?);
/// assert_eq!("1.5Ki".parse::<Quantity>()?.as_f64(), 1536.0);
/// # Ok::<(), windlass_plugin::ParseQuantityError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Quantity {
    text: String,
    /// The value in billionths, the precision of Kubernetes.
    nanos: i128,
}

/// A text that is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseQuantityError(String);

impl fmt::Display for ParseQuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a quantity like 100m, 2 or 128Mi", self.0)
    }
}

impl std::error::Error for ParseQuantityError {}

const ONE: i128 = 1_000_000_000;

/// The largest value of `resource.Quantity`.
const MOST: i128 = i64::MAX as i128 * ONE;

impl Quantity {
    /// A quantity from a literal, like a default.
    ///
    /// # Panics
    ///
    /// If the text is not a quantity.
    pub fn from_static(text: &'static str) -> Self {
        #![allow(clippy::panic, reason = "the text is part of the program")]
        let Some(nanos) = Self::read(text) else { panic!("not a quantity") };
        Self { text: text.to_owned(), nanos }
    }

    /// The value in units: CPUs, bytes.
    pub fn as_f64(&self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "for measurements")]
        let amount = self.nanos as f64 / 1e9;
        amount
    }

    /// Whether the value is greater than zero.
    pub fn is_positive(&self) -> bool {
        self.nanos > 0
    }

    fn read(text: &str) -> Option<i128> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let end = unsigned.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return None;
        }
        let (factor, tens) = scale(suffix)?;
        // The digits of the number times the factor, the last one first: exact, however many there are.
        let mut digits = Vec::new();
        let mut carry = 0;
        for digit in whole.bytes().chain(fraction.bytes()).rev() {
            carry += u64::from(digit - b'0') * factor;
            digits.push(carry % 10);
            carry /= 10;
        }
        while carry > 0 {
            digits.push(carry % 10);
            carry /= 10;
        }
        // The last digit counts billionths times this power of ten.
        let power = tens + 9 - i32::try_from(fraction.len()).ok()?;
        let dropped = usize::try_from(-power).unwrap_or_default();
        let zeros = iter::repeat_n(&0, usize::try_from(power).unwrap_or_default());
        let kept = digits.iter().skip(dropped).rev().chain(zeros);
        let value = kept.fold(0, |value: i128, digit| value.saturating_mul(10).saturating_add((*digit).into()));
        // Kubernetes rounds away from zero too.
        let is_inexact = digits.iter().take(dropped).any(|digit| *digit > 0);
        let value = value.saturating_add(is_inexact.into()).min(MOST);
        Some(if text.starts_with('-') { -value } else { value })
    }
}

/// The multiplier of a suffix: a factor, and a power of ten.
fn scale(suffix: &str) -> Option<(u64, i32)> {
    if let Some(exponent) = suffix.strip_prefix(['e', 'E']).filter(|rest| !rest.is_empty() && *rest != "i") {
        return exponent.parse().ok().filter(|tens| (-99..=99).contains(tens)).map(|tens| (1, tens));
    }
    let binary = |power: u32| Some((1024_u64.pow(power), 0));
    match suffix {
        "" => Some((1, 0)),
        "n" => Some((1, -9)),
        "u" => Some((1, -6)),
        "m" => Some((1, -3)),
        "k" => Some((1, 3)),
        "M" => Some((1, 6)),
        "G" => Some((1, 9)),
        "T" => Some((1, 12)),
        "P" => Some((1, 15)),
        "E" => Some((1, 18)),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => None,
    }
}

impl FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, ParseQuantityError> {
        let nanos = Self::read(text).ok_or_else(|| ParseQuantityError(text.to_owned()))?;
        Ok(Self { text: text.to_owned(), nanos })
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl de::Visitor<'_> for Reader {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity like 100m, 2 or 128Mi")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
                self.visit_str(&number.to_string())
            }
        }

        deserializer.deserialize_any(Reader)
    }
}

/// The schema that controller-gen writes for the Go type.
impl JsonSchema for Quantity {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "x-kubernetes-int-or-string": true,
            // The API server estimates the cost of CEL rules by it: without it, a rule on a list of quantities is rejected.
            "maxLength": 64,
            "pattern": "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?[0-9]+))?$",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Quantity;

    fn nanos(text: &str) -> Option<i128> {
        Quantity::read(text)
    }

    #[test]
    fn every_suffix_has_the_value_of_kubernetes() {
        let ones = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
        for (power, suffix) in ones.iter().enumerate() {
            let expected = 1000_i128.pow(u32::try_from(power).unwrap_or_default());
            assert_eq!(nanos(&format!("1{suffix}")), Some(expected), "1{suffix}");
        }
        for (power, suffix) in ["Ki", "Mi", "Gi", "Ti", "Pi"].iter().enumerate() {
            let expected = 1024_i128.pow(u32::try_from(power + 1).unwrap_or_default()) * super::ONE;
            assert_eq!(nanos(&format!("1{suffix}")), Some(expected), "1{suffix}");
        }
    }

    #[test]
    fn every_notation_is_read() {
        for (text, same) in [
            ("1.5Gi", "1536Mi"),
            (".5", "500m"),
            ("5.", "5"),
            ("+2", "2"),
            ("1e3", "1k"),
            ("1E3", "1k"),
            ("1e-3", "1m"),
            ("1E+2", "100"),
            ("0100", "100"),
            ("0.1Ki", "102.4"),
        ] {
            assert_eq!(nanos(text), nanos(same), "{text}");
            assert!(nanos(text).is_some(), "{text}");
        }
        assert_eq!(nanos("-1"), Some(-super::ONE));
    }

    #[test]
    fn a_fraction_of_a_billionth_is_rounded_up() {
        assert_eq!(nanos("0.1n"), Some(1));
        assert_eq!(nanos("1.0000000001"), Some(super::ONE + 1));
        assert_eq!(nanos("1.0000000000000000000000000000000000000001Ki"), Some(1024 * super::ONE + 1));
        assert_eq!(nanos("1000000000000000000000000000000000000000e-39"), Some(super::ONE));
    }

    #[test]
    fn value_above_the_maximum_becomes_the_maximum() {
        assert_eq!(nanos("16Ei"), Some(super::MOST));
        assert_eq!(nanos("1e19"), Some(super::MOST));
        assert_eq!(nanos("1e99"), Some(super::MOST));
        assert_eq!(nanos("1000000000000000000000000000000000000000.5Ei"), Some(super::MOST));
        assert_eq!(nanos("-1e30"), Some(-super::MOST));
    }

    #[test]
    fn other_text_is_not_a_quantity() {
        for text in
            ["", ".", "-", "1.2.3", "1 Gi", "Gi", "1gi", "1K", "1e", "1ee3", "1e1.5", "one", "1Mi ", "--1", "1e999"]
        {
            assert_eq!(nanos(text), None, "{text:?}");
        }
    }

    #[test]
    #[should_panic(expected = "not a quantity")]
    fn literal_that_is_not_a_quantity_panics() {
        let _ = Quantity::from_static("1 Gi");
    }
}
