//! The CustomResourceDefinition that a component carries: whose kind it may be. Who installs it asks, and who writes the
//! rights to it.

use serde_json::Value;
use windlass_core::ids::{is_dns_label, is_dns_subdomain};

/// A resource, as rules name it: API group and plural.
pub type Resource = (String, String);

/// Groups whose kinds no component may define.
const RESERVED: [&str; 3] = ["k8s.io", "kubernetes.io", "windlass.dev"];

/// Reads a carried definition, and which resource it is of: one of a group that is nobody else's.
///
/// # Errors
/// In words for the component's author.
pub fn read(carried: &[u8]) -> Result<(Value, Resource), String> {
    let carried: Value =
        serde_json::from_slice(carried).map_err(|error| format!("the carried definition is no JSON: {error}"))?;
    if text(&carried, "/kind") != "CustomResourceDefinition"
        || text(&carried, "/apiVersion") != "apiextensions.k8s.io/v1"
    {
        return Err("the parent is no CustomResourceDefinition of apiextensions.k8s.io/v1".to_owned());
    }
    let group = text(&carried, "/spec/group");
    if group.is_empty() || RESERVED.iter().any(|reserved| is_within(group, reserved)) {
        return Err(format!("a component may not define kinds of the group {group:?}"));
    }
    let plural = text(&carried, "/spec/names/plural");
    let name = format!("{plural}.{group}");
    if text(&carried, "/metadata/name") != name {
        return Err(format!("the definition must be named {name:?}"));
    }
    // It becomes part of a path, and of a rule, before the API server judges it. A plural with a dot would take the name
    // of another group's definition: `plugins.windlass` of the group `dev`.
    if !is_dns_subdomain(&name) || !is_dns_label(plural) {
        return Err(format!("{name:?} is not a valid name of a definition (RFC 1123)"));
    }
    // Kubernetes' own groups without a dot (`apps`, `batch`) name kinds that exist already: a rule with such a group is a
    // right to those.
    if !group.contains('.') {
        return Err(format!(
            "a component may not define kinds of the group {group:?}: it has no dot, as in example.com"
        ));
    }
    let resource = (group.to_owned(), plural.to_owned());
    Ok((carried, resource))
}

/// The text at a pointer; empty if there is none.
pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn is_within(group: &str, reserved: &str) -> bool {
    group == reserved || group.strip_suffix(reserved).is_some_and(|rest| rest.ends_with('.'))
}
