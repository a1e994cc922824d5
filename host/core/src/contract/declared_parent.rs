//! The parent kind that a component declares: an existing kind, or one whose CustomResourceDefinition it carries. The
//! carried CRD is parsed once, and checked for the kind that it may define.

use serde_json::Value;

use crate::contract::{Descriptor, Parent};
use crate::value::ids::{Gvk, is_dns_label, is_dns_subdomain};

/// A resource as RBAC rules name it: API group and plural.
pub type Resource = (String, String);

/// Groups in which no component may define kinds.
const RESERVED: [&str; 3] = ["k8s.io", "kubernetes.io", "windlass.dev"];

/// The parent kind that a component declares, before it is looked up.
#[derive(Debug, Clone)]
pub enum DeclaredParent {
    /// The component carries the CRD of the kind.
    Own(CarriedCrd),
    /// A kind that exists already.
    Existing(Gvk),
}

impl DeclaredParent {
    /// Parses the parent of a descriptor. No other place checks a carried CRD.
    ///
    /// # Errors
    /// If the carried CRD is invalid; the message is for plugin authors.
    pub fn of(descriptor: &Descriptor) -> Result<Self, String> {
        Ok(match &descriptor.parent {
            Parent::Custom(carried) => Self::Own(CarriedCrd::parse(carried)?),
            Parent::Existing(kind) => Self::Existing(kind.clone()),
        })
    }

    /// The parent kind; for a carried CRD, in the CRD's storage version.
    pub fn kind(&self) -> &Gvk {
        match self {
            Self::Own(crd) => crd.kind(),
            Self::Existing(kind) => kind,
        }
    }

    /// The CRD that the component carries; `None` if the kind exists already.
    pub fn crd(&self) -> Option<&CarriedCrd> {
        match self {
            Self::Own(crd) => Some(crd),
            Self::Existing(_) => None,
        }
    }
}

/// A carried CRD whose kind a component may define. Its other content is not checked here; the API server validates it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CarriedCrd {
    json: Value,
    resource: Resource,
    kind: Gvk,
}

impl CarriedCrd {
    /// Parses a CRD (`apiextensions.k8s.io/v1`, JSON).
    ///
    /// # Errors
    /// If the CRD is invalid; the message is for plugin authors.
    pub fn parse(carried: &[u8]) -> Result<Self, String> {
        let json: Value = serde_json::from_slice(carried)
            .map_err(|error| format!("the component's CRD is not valid JSON: {error}"))?;
        if text(&json, "/kind") != "CustomResourceDefinition" || text(&json, "/apiVersion") != "apiextensions.k8s.io/v1"
        {
            return Err("the component's CRD is not a CustomResourceDefinition of apiextensions.k8s.io/v1".to_owned());
        }
        let resource = resource_of(&json)?;
        let version = storage_of(&json).ok_or_else(|| format!("{} has no storage version", text(&json, NAME_AT)))?;
        let api_version = format!("{}/{}", resource.0, text(version, "/name"));
        let kind = Gvk::from_api_version(&api_version, text(&json, "/spec/names/kind"));
        Ok(Self { json, resource, kind })
    }

    /// The CRD as the component carries it.
    pub fn json(&self) -> &Value {
        &self.json
    }

    /// The CRD's name: the plural, a dot and the group.
    pub fn name(&self) -> &str {
        text(&self.json, NAME_AT)
    }

    /// API group and plural of the kind.
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// The kind, in its storage version.
    pub fn kind(&self) -> &Gvk {
        &self.kind
    }

    /// Whether the kind is namespaced.
    pub fn is_namespaced(&self) -> bool {
        text(&self.json, "/spec/scope") == "Namespaced"
    }
}

const NAME_AT: &str = "/metadata/name";

/// The resource that a CRD defines; its group must not be reserved.
fn resource_of(crd: &Value) -> Result<Resource, String> {
    let group = text(crd, "/spec/group");
    if group.is_empty() || RESERVED.iter().any(|reserved| is_within(group, reserved)) {
        return Err(format!("a component may not define kinds of the group {group:?}"));
    }
    let plural = text(crd, "/spec/names/plural");
    let name = format!("{plural}.{group}");
    if text(crd, NAME_AT) != name {
        return Err(format!("the component's CRD must be named {name:?}"));
    }
    // The name becomes part of a URL path and of an RBAC rule before the API server validates it. A plural with a dot
    // would give the name of another group's CRD: `plugins.windlass` in the group `dev`.
    if !is_dns_subdomain(&name) || !is_dns_label(plural) {
        return Err(format!("{name:?} is not a valid name of a CustomResourceDefinition (RFC 1123)"));
    }
    // Kubernetes' own groups without a dot (`apps`, `batch`) contain existing kinds: an RBAC rule for such a group
    // would grant permissions on those kinds.
    if !group.contains('.') {
        return Err(format!(
            "a component may not define kinds of the group {group:?}: it has no dot, as in example.com"
        ));
    }
    Ok((group.to_owned(), plural.to_owned()))
}

/// The storage version of a CRD.
pub fn storage_of(crd: &Value) -> Option<&Value> {
    let versions = crd.pointer("/spec/versions")?.as_array()?;
    versions.iter().find(|version| version.get("storage") == Some(&Value::Bool(true)))
}

/// The string at a JSON pointer; empty if there is none.
pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn is_within(group: &str, reserved: &str) -> bool {
    group == reserved || group.strip_suffix(reserved).is_some_and(|rest| rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(change: impl FnOnce(&mut Value)) -> Result<CarriedCrd, String> {
        let mut crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "echoes.my-operator.dev"},
            "spec": {
                "group": "my-operator.dev", "scope": "Namespaced", "names": {"plural": "echoes", "kind": "Echo"},
                "versions": [{"name": "v1"}, {"name": "v2", "storage": true}],
            },
        });
        change(&mut crd);
        CarriedCrd::parse(crd.to_string().as_bytes())
    }

    #[test]
    fn parent_kind_has_the_storage_version_of_the_crd() {
        let crd = parsed(|_| ()).expect("valid");
        assert_eq!(crd.kind(), &Gvk::from_api_version("my-operator.dev/v2", "Echo"));
        assert_eq!((crd.name(), crd.is_namespaced()), ("echoes.my-operator.dev", true));
        assert_eq!(crd.resource(), &("my-operator.dev".to_owned(), "echoes".to_owned()));
        assert!(!parsed(|crd| crd["spec"]["scope"] = json!("Cluster")).expect("valid").is_namespaced());
    }

    #[test]
    fn an_invalid_crd_is_rejected_with_the_reason() {
        for group in ["apps.k8s.io", "k8s.io", "windlass.dev", "x.windlass.dev", "a.kubernetes.io", ""] {
            let refused = parsed(|crd| crd["spec"]["group"] = json!(group)).expect_err(group);
            assert!(refused.contains("may not define kinds"), "{refused}");
        }
        assert!(parsed(|crd| crd["metadata"]["name"] = json!("x")).expect_err("name").contains("must be named"));
        let path = |crd: &mut Value| {
            crd["spec"]["names"]["plural"] = json!("../echoes");
            crd["metadata"]["name"] = json!("../echoes.my-operator.dev");
        };
        assert!(parsed(path).expect_err("path").contains("not a valid name"));
        for builtin in ["apps", "batch", "policy", "autoscaling", "extensions"] {
            let of_builtin = |crd: &mut Value| {
                crd["spec"]["group"] = json!(builtin);
                crd["metadata"]["name"] = json!(format!("echoes.{builtin}"));
            };
            assert!(parsed(of_builtin).expect_err(builtin).contains("it has no dot"));
        }
        for (group, plural) in [("*", "*"), ("", "secrets"), ("my-operator.dev", "*")] {
            let of_any = |crd: &mut Value| {
                crd["spec"]["group"] = json!(group);
                crd["spec"]["names"]["plural"] = json!(plural);
                crd["metadata"]["name"] = json!(format!("{plural}.{group}"));
            };
            assert!(parsed(of_any).is_err(), "it could stand for any resource: {plural}.{group}");
        }
        let dotted = |crd: &mut Value| {
            crd["spec"]["group"] = json!("dev");
            crd["spec"]["names"]["plural"] = json!("plugins.windlass");
            crd["metadata"]["name"] = json!("plugins.windlass.dev");
        };
        assert!(parsed(dotted).expect_err("dotted").contains("not a valid name"));
        let no_storage = |crd: &mut Value| crd["spec"]["versions"] = json!([{"name": "v1"}]);
        assert!(parsed(no_storage).expect_err("no version").contains("has no storage version"));
        assert!(
            parsed(|crd| crd["kind"] = json!("Pod")).expect_err("kind").contains("is not a CustomResourceDefinition")
        );
        assert!(CarriedCrd::parse(b"{").expect_err("JSON").contains("not valid JSON"));
    }
}
