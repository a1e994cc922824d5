//! Quantities in Kubernetes' notation (apimachinery, `resource.Quantity`): `100m`, `1.5Gi`, `1e3`.

/// The exact value of a quantity in any notation: `1000m` equals `1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantity {
    /// Not a multiple of ten, unless it is zero.
    digits: i128,
    /// The power of ten of the last digit; 0 if the value is zero.
    power: i32,
}

impl Quantity {
    /// Parses a number with a sign, a fraction, and a suffix or an exponent, all optional. `None` if the text is not a quantity, or if its
    /// digits do not fit 128 bits.
    pub fn parse(text: &str) -> Option<Self> {
        let is_of_number = |char: char| char.is_ascii_digit() || matches!(char, '.' | '-' | '+');
        let suffix = text.trim_start_matches(is_of_number);
        let number = text.strip_suffix(suffix)?;
        let (binary, decimal) = scale(suffix)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let mut digits = format!("{whole}{fraction}").parse::<i128>().ok()?.checked_mul(1024_i128.pow(binary))?;
        let mut power = decimal.checked_sub(fraction.len().try_into().ok()?)?;
        if digits == 0 {
            power = 0;
        }
        while digits != 0 && digits % 10 == 0 {
            digits /= 10;
            power = power.checked_add(1)?;
        }
        Some(Self { digits, power })
    }

    /// The value, if it is a whole number that fits 64 bits.
    pub fn whole(self) -> Option<u64> {
        let factor = 10_i128.checked_pow(self.power.try_into().ok()?)?;
        self.digits.checked_mul(factor)?.try_into().ok()
    }
}

/// The factor of a suffix or an exponent: a power of 1024 and a power of ten.
fn scale(suffix: &str) -> Option<(u32, i32)> {
    let decimal = (-3..).zip(["n", "u", "m", "", "k", "M", "G", "T", "P", "E"]).map(|(at, name)| (name, (0, 3 * at)));
    let binary = (1..).zip(["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]).map(|(at, name)| (name, (at, 0)));
    let known = decimal.chain(binary).find(|(name, _)| *name == suffix);
    known.map(|(_, scale)| scale).or_else(|| Some((0, suffix.strip_prefix(['e', 'E'])?.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s06_equal_quantities_match_in_any_notation() {
        for (a, b) in [
            ("1", "1000m"),
            ("1Gi", "1024Mi"),
            ("0.5", "500m"),
            ("1e3", "1k"),
            ("1E+3", "1k"),
            ("1.5e-3", "1500u"),
            ("0", "0m"),
            ("0.0", "-0Ei"),
            ("1.50", "1.5"),
            ("+.5", "500000000n"),
            ("5.", "5"),
            ("-1.5Ki", "-1536"),
            ("1000P", "1E"),
            ("1024Ti", "1Pi"),
        ] {
            assert!(Quantity::parse(a).is_some() && Quantity::parse(a) == Quantity::parse(b), "{a} {b}");
        }
        for (a, b) in [("1", "1m"), ("1G", "1Gi"), ("-1", "1"), ("100", "10"), ("1E", "1Ei")] {
            assert_ne!(Quantity::parse(a), Quantity::parse(b), "{a} {b}");
        }
    }

    #[test]
    fn other_text_is_not_a_quantity() {
        for text in [
            "",
            "nginx:1",
            "1x",
            "1e",
            "1ee3",
            "1e1.5",
            ".",
            "-",
            "--1",
            "1-2",
            "1.-2",
            "1.2.3",
            "Gi",
            "1gi",
            "1 Gi",
            "1K",
            "1e99999999999",
            "10e2147483647",
            "1.5e-2147483648",
            "99999999999999999999999999999999999999999",
        ] {
            assert_eq!(Quantity::parse(text), None, "{text}");
        }
    }

    #[test]
    fn only_whole_numbers_of_64_bits_are_whole() {
        let whole = |text: &str| Quantity::parse(text).and_then(Quantity::whole);
        for (text, value) in [("0", 0), ("64Mi", 64 << 20), ("1.5Ki", 1536), ("2000m", 2), ("1e3", 1000)] {
            assert_eq!(whole(text), Some(value), "{text}");
        }
        assert_eq!(whole(&u64::MAX.to_string()), Some(u64::MAX));
        for text in ["-1", "1m", "1.5", "18446744073709551616", "16Ei", "1e2147483647", "1e-2147483648"] {
            assert_eq!(whole(text), None, "{text}");
        }
    }
}
