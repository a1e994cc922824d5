//! The properties that every plugin's responses must have.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use strum::{IntoStaticStr, VariantArray};

use crate::yaml;

/// Rounds within which a plugin must converge, and finish its clean-up.
pub const ROUNDS: usize = 12;

/// A property.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, IntoStaticStr, VariantArray)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Check {
    /// No call traps, times out or exceeds a limit.
    NoTrap,
    /// The plugin does not fail for a parent that the schema accepts.
    ValidParents,
    /// The plugin accepts some of the generated parents.
    SomeAccepted,
    /// A parent without an optional field works if the same parent with the field works.
    OptionalFields,
    /// The same request gives the same response.
    Repeatable,
    /// The host accepts the response.
    ResponseAccepted,
    /// The API server accepts the children's labels.
    ValidLabels,
    /// The order of the children and of the related objects in the request is irrelevant.
    OrderIrrelevant,
    /// The resource versions in the request are irrelevant.
    MetadataIrrelevant,
    /// Applied children change nothing in the next response.
    Converges,
    /// The status stops changing, and does not grow.
    StatusStable,
    /// The status fits the schema of the CRD.
    StatusSchema,
    /// After an edit, the children are those of a new parent with the same spec.
    EditLikeNew,
    /// Finalizing ends, and leaves no more children than before.
    Finalizes,
    /// A parent that the schema rejects gets `invalid` or a valid response.
    InvalidParents,
}

impl Check {
    /// Its name in output and in files.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Parses a name.
    ///
    /// # Errors
    /// If no property has this name; the text is for users.
    pub fn parse(name: &str) -> Result<Self, String> {
        let all = || Self::VARIANTS.iter().map(|check| check.name()).collect::<Vec<_>>().join(", ");
        let found = Self::VARIANTS.iter().copied().find(|check| check.name() == name);
        found.ok_or_else(|| format!("the properties are {}", all()))
    }

    /// One sentence for users.
    pub fn description(self) -> &'static str {
        match self {
            Self::NoTrap => "no call traps, times out or exceeds a limit",
            Self::ValidParents => "the plugin fails for no parent that the schema accepts",
            Self::SomeAccepted => "the plugin accepts some of the parents that the schema accepts",
            Self::OptionalFields => "optional fields may be missing",
            Self::Repeatable => "the same request gives the same response",
            Self::ResponseAccepted => "the host accepts the response",
            Self::ValidLabels => "the API server accepts the children's labels",
            Self::OrderIrrelevant => "the order of children and related objects is irrelevant",
            Self::MetadataIrrelevant => "the resource versions of the objects are irrelevant",
            Self::Converges => "applied children change nothing in the next response",
            Self::StatusStable => "the status stops changing and does not grow",
            Self::StatusSchema => "the status fits the CRD's schema",
            Self::EditLikeNew => "an edited parent has the children of a new parent with the same spec",
            Self::Finalizes => "finalizing ends, with no more children than before",
            Self::InvalidParents => "a parent that the schema rejects gets `invalid` or a valid response",
        }
    }
}

/// A case of a property: the input of its check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// For readers: why the check failed.
    pub description: String,
    /// The property.
    pub check: Check,
    /// The parent.
    pub parent: Value,
    /// The same parent after an edit (`edit-like-new`), or with the field that is missing (`optional-fields`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited: Option<Value>,
}

impl Scenario {
    /// A case that was not checked yet.
    pub fn new(check: Check, parent: &Value, edited: Option<Value>) -> Self {
        Self { description: String::new(), check, parent: parent.clone(), edited }
    }

    /// The case as YAML.
    pub fn yaml(&self) -> String {
        yaml::document(&json!(self))
    }
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckResult {
    /// The property holds.
    Passed,
    /// The property says nothing about this case.
    NotApplicable,
    /// The property is violated; the reason is for the plugin's author.
    Failed(String),
}
