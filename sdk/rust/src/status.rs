//! Conditions in the status of an object.

use serde::{Deserialize, Deserializer};

/// The status of a condition, as in `metav1.Condition`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ConditionStatus {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// Whether the condition holds cannot be determined. Any other text is read as this.
    #[default]
    Unknown,
}

impl ConditionStatus {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// Not derived: a derived enum links code that few plugins need otherwise.
impl<'de> Deserialize<'de> for ConditionStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match &*String::deserialize(deserializer)? {
            "True" => Self::True,
            "False" => Self::False,
            _ => Self::Unknown,
        })
    }
}

/// One entry of an object's `status.conditions`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Condition {
    /// The type, in CamelCase: `Ready`.
    #[serde(rename = "type")]
    pub type_: String,
    /// The status.
    pub status: ConditionStatus,
    /// Why the condition has this status, in CamelCase.
    pub reason: String,
    /// Details for users.
    pub message: String,
}
