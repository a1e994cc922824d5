//! The rules for the CustomResourceDefinition that a component carries: which kinds it may define. Used for the
//! installation of the CRD, and for the permissions on its kind.

use serde_json::Value;
use windlass_core::ids::{is_dns_label, is_dns_subdomain};

/// A resource as RBAC rules name it: API group and plural.
pub type Resource = (String, String);

/// Groups in which no component may define kinds.
const RESERVED: [&str; 3] = ["k8s.io", "kubernetes.io", "windlass.dev"];

/// Parses a carried CRD; returns it with its resource, whose group must not be reserved.
///
/// # Errors
/// Why the CRD is invalid; the text is for plugin authors.
pub fn read(carried: &[u8]) -> Result<(Value, Resource), String> {
    let carried: Value =
        serde_json::from_slice(carried).map_err(|error| format!("the component's CRD is not valid JSON: {error}"))?;
    if text(&carried, "/kind") != "CustomResourceDefinition"
        || text(&carried, "/apiVersion") != "apiextensions.k8s.io/v1"
    {
        return Err("the component's CRD is not a CustomResourceDefinition of apiextensions.k8s.io/v1".to_owned());
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
    // The name becomes part of a URL path and of an RBAC rule before the API server validates it. A plural with a dot
    // would give the name of another group's CRD: `plugins.windlass` in the group `dev`.
    if !is_dns_subdomain(&name) || !is_dns_label(plural) {
        return Err(format!("{name:?} is not a valid name of a definition (RFC 1123)"));
    }
    // Kubernetes' own groups without a dot (`apps`, `batch`) contain existing kinds: a rule with such a group would
    // grant permissions on those.
    if !group.contains('.') {
        return Err(format!(
            "a component may not define kinds of the group {group:?}: it has no dot, as in example.com"
        ));
    }
    let resource = (group.to_owned(), plural.to_owned());
    Ok((carried, resource))
}

/// The text at a JSON pointer; empty if there is none.
pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn is_within(group: &str, reserved: &str) -> bool {
    group == reserved || group.strip_suffix(reserved).is_some_and(|rest| rest.ends_with('.'))
}
