//! Keeps the permissions of components that were live before: a push does not remove them, so a rollback works even if
//! the components have different kinds of children. An annotation of each role records the rules of each component; the
//! push of a component writes them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_api::{GrantsSpec, PluginStatus};
use windlass_core::value::digest::Digest;

use super::super::fields::set;

/// Annotation of a role: the rules of each component, by digest.
const ANNOTATION: &str = "windlass.dev/rules-of-components";

/// The rules that one component needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct OfComponent {
    /// Hash of the Plugin's grants when the rules were written.
    grants: String,
    rules: Vec<Value>,
}

/// Computes which rules of existing roles stay.
pub struct Kept {
    component: String,
    /// Components that a rollback may return to.
    before: Vec<String>,
    grants: String,
}

impl Kept {
    /// The rules to keep at a push of this component to a Plugin with these grants and this status. A rollback may return to
    /// the live component once the pushed one is live, and to the previous one until then.
    pub fn new(component: Digest, grants: &GrantsSpec, status: &PluginStatus) -> Self {
        let component = component.to_string();
        let before = [&status.active_digest, &status.previous_digest].into_iter().flatten();
        let before = before.filter(|before| **before != component).cloned().collect();
        let grants = json!(grants);
        Self { component, before, grants: Digest::of(grants.to_string().as_bytes()).short() }
    }

    /// Adds to a role the rules of earlier components that the existing role has. Returns the digests of these
    /// components.
    pub fn add(&self, role: &mut Value, found: Option<&Value>) -> Vec<String> {
        let own = rules(role);
        let mut by_component = BTreeMap::new();
        by_component.insert(self.component.clone(), OfComponent { grants: self.grants.clone(), rules: own.clone() });
        // A user who may write an annotation must not gain permissions by it that the role does not have.
        let granted = found.map(rules).unwrap_or_default();
        let of_found = found.map(read).unwrap_or_default();
        let kept = of_found.into_iter().filter(|(component, of)| {
            let is_whole = of.rules.iter().all(|rule| granted.contains(rule));
            self.before.contains(component) && of.grants == self.grants && is_whole
        });
        by_component.extend(kept);
        let mut all = own;
        for rule in by_component.values().flat_map(|of| &of.rules) {
            if !all.contains(rule) {
                all.push(rule.clone());
            }
        }
        let text = serde_json::to_string(&by_component).unwrap_or_default();
        set(role, &["rules"], all);
        set(role, &["metadata", "annotations", ANNOTATION], text);
        by_component.into_keys().filter(|component| *component != self.component).collect()
    }
}

fn rules(role: &Value) -> Vec<Value> {
    role.get("rules").and_then(Value::as_array).cloned().unwrap_or_default()
}

/// The rules of each component that a role in the cluster records.
fn read(role: &Value) -> BTreeMap<String, OfComponent> {
    let annotation = role.pointer("/metadata/annotations").and_then(|annotations| annotations.get(ANNOTATION));
    annotation.and_then(Value::as_str).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(name: &str) -> Digest {
        Digest::of(name.as_bytes())
    }

    fn status(active: Option<&str>, previous: Option<&str>) -> PluginStatus {
        let digest = |name: Option<&str>| name.map(|name| component(name).to_string());
        PluginStatus { active_digest: digest(active), previous_digest: digest(previous), ..PluginStatus::default() }
    }

    fn role(resources: &[&str]) -> Value {
        let rules: Vec<_> = resources
            .iter()
            .map(|resource| json!({"apiGroups": [""], "resources": [resource], "verbs": ["get", "create"]}))
            .collect();
        json!({"kind": "ClusterRole", "metadata": {"name": "a"}, "rules": rules})
    }

    fn resources(role: &Value) -> Vec<&str> {
        let rules = role["rules"].as_array().expect("rules").iter();
        rules.map(|rule| rule["resources"][0].as_str().expect("a resource")).collect()
    }

    /// The role after a push of a component that needs these resources.
    fn pushed(name: &str, needs: &[&str], status: &PluginStatus, found: Option<&Value>) -> Value {
        let mut role = role(needs);
        Kept::new(component(name), &GrantsSpec::default(), status).add(&mut role, found);
        role
    }

    #[test]
    fn u02_permissions_of_components_that_a_rollback_may_return_to_are_kept() {
        let first = pushed("a", &["pods", "secrets"], &status(None, None), None);
        assert_eq!(resources(&first), ["pods", "secrets"]);
        let second = pushed("b", &["pods", "services"], &status(Some("a"), None), Some(&first));
        assert_eq!(resources(&second), ["pods", "services", "secrets"]);
        // Case: the second component never went live.
        let third = pushed("c", &["pods"], &status(Some("a"), None), Some(&second));
        assert_eq!(resources(&third), ["pods", "secrets"]);
        // Case: it went live, and the first component is two components back.
        let fourth = pushed("d", &["jobs"], &status(Some("c"), Some("a")), Some(&third));
        assert_eq!(resources(&fourth), ["jobs", "pods", "secrets"]);
        let fifth = pushed("e", &["jobs"], &status(Some("d"), Some("c")), Some(&fourth));
        assert_eq!(resources(&fifth), ["jobs", "pods"]);
        assert_eq!(resources(&pushed("e", &["jobs"], &status(Some("e"), Some("d")), Some(&fifth))), ["jobs"]);
    }

    #[test]
    fn u02_permissions_that_the_plugin_no_longer_grants_or_the_role_never_had_are_not_kept() {
        let first = pushed("a", &["secrets"], &status(None, None), None);
        let live = status(Some("a"), None);
        let narrowed = json!({"children": [{"apiVersion": "v1", "kind": "Pod"}]});
        let narrowed: GrantsSpec = serde_json::from_value(narrowed).expect("grants");
        let mut second = role(&["pods"]);
        assert_eq!(Kept::new(component("b"), &narrowed, &live).add(&mut second, Some(&first)), [""; 0]);
        assert_eq!(resources(&second), ["pods"]);

        let mut forged = first.clone();
        forged["rules"] = json!([]);
        assert_eq!(resources(&pushed("b", &["pods"], &live, Some(&forged))), ["pods"]);
        let names = Kept::new(component("b"), &GrantsSpec::default(), &live).add(&mut role(&["pods"]), Some(&first));
        assert_eq!(names, [component("a").to_string()]);
    }
}
