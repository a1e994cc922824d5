//! Sizes in bytes, in Kubernetes' notation (apimachinery, `resource.Quantity`).

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use windlass_core::value::quantity::Quantity;

/// A whole number of bytes, written without a fraction: `64Mi`, `1G`, `4096`. The CRD's schema rejects zero.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ByteQuantity(String);

/// The units in which sizes are written, the largest first.
const UNITS: [(&str, u64); 4] = [("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];

impl ByteQuantity {
    /// The number of bytes.
    ///
    /// # Errors
    /// If the text is not a whole number of bytes that fits 64 bits; the message is for users.
    pub fn bytes(&self) -> Result<u64, String> {
        Quantity::parse(&self.0)
            .filter(|_| !self.0.contains('.'))
            .and_then(Quantity::whole)
            .ok_or_else(|| format!("invalid size {:?}: must be a number of bytes, as in 64Mi", self.0))
    }
}

impl From<u64> for ByteQuantity {
    /// Formats the size in the largest binary unit that needs no fraction.
    fn from(bytes: u64) -> Self {
        let unit = UNITS.iter().find(|(_, factor)| bytes > 0 && bytes.is_multiple_of(*factor));
        Self(unit.map_or_else(|| bytes.to_string(), |(suffix, factor)| format!("{}{suffix}", bytes / factor)))
    }
}

impl FromStr for ByteQuantity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let quantity = Self(text.to_owned());
        quantity.bytes().map(|_| quantity)
    }
}

impl fmt::Display for ByteQuantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl JsonSchema for ByteQuantity {
    fn schema_name() -> Cow<'static, str> {
        "ByteQuantity".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^[1-9][0-9]{0,14}(Ki|Mi|Gi|Ti|k|M|G|T)?$"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_parsed_as_in_kubernetes() {
        let bytes = |text: &str| ByteQuantity(text.to_owned()).bytes();
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("64Mi"), Ok(64 << 20));
        assert_eq!(bytes("1G"), Ok(1_000_000_000));
        for bad in ["", "Mi", "-1", "1.5Gi", "1m", "99999999999Ti"] {
            assert!(bytes(bad).expect_err(bad).contains("as in 64Mi"));
        }
    }
    #[test]
    fn quantities_are_written_with_the_largest_exact_unit() {
        for text in ["256Mi", "1Gi", "100", "1Ki", "1025", "0"] {
            let quantity = text.parse::<ByteQuantity>().and_then(|quantity| quantity.bytes()).map(ByteQuantity::from);
            assert_eq!(quantity.map(|quantity| quantity.to_string()), Ok(text.to_owned()));
        }
    }
}
