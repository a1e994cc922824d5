//! A response that the host accepts, as the checks see it.

use serde_json::Value;
use windlass_core::contract::desired::describe;
use windlass_core::contract::{ChildRef, Keep, Response, UpdateStrategy};
use windlass_core::value::ids::{Gvk, ObjectKey};

/// A response that the host accepts.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The children as the host would send them.
    pub children: Vec<Child>,
    /// The plugin's part of the status.
    pub status: Option<Value>,
    /// The parent's next status, if it changes.
    pub next_status: Option<Value>,
    /// Whether clean-up is complete.
    pub finalized: bool,
    /// Whether the call read the wall clock, or its request had the time.
    pub is_impure: bool,
    /// Whether the response has requirements.
    pub has_related: bool,
    /// The response itself.
    pub raw: Response,
}

/// A child as the host would send it.
#[derive(Debug, Clone, PartialEq)]
pub struct Child {
    /// The complete object.
    pub body: Value,
    /// How the host changes the live child.
    pub update: UpdateStrategy,
    /// Whether the child outlives its parent.
    pub is_retained: bool,
}

impl Reply {
    /// Whether an existing child that is not returned stays.
    pub fn keeps(&self, live: &Value) -> bool {
        let text = |path: &str| live.pointer(path).and_then(Value::as_str);
        let (api_version, kind) = (text("/apiVersion").unwrap_or_default(), text("/kind").unwrap_or_default());
        let group_kind = Gvk::from_api_version(api_version, kind).group_kind();
        let is_it = |child: &ChildRef| {
            let is_place =
                child.namespace.as_deref().is_none_or(|namespace| text("/metadata/namespace") == Some(namespace));
            child.kind.group_kind() == group_kind && is_place && text("/metadata/name") == Some(&*child.name)
        };
        match &self.raw.keep {
            Keep::None => false,
            Keep::All => true,
            Keep::These(children) => children.iter().any(is_it),
        }
    }
}

impl Child {
    /// Kind and name, for messages.
    pub fn name(&self) -> String {
        let text = |path: &str| self.body.pointer(path).and_then(Value::as_str);
        let kind = Gvk::from_api_version("v1", text("/kind").unwrap_or_default());
        describe(&kind, &ObjectKey::new(text("/metadata/namespace"), text("/metadata/name").unwrap_or_default()))
    }
}
