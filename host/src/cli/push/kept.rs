//! Permissions of the components that were live before: a push leaves them, so that a rollback works although the kinds of
//! children differ. What each component needs stands in an annotation of the roles, written by the push of that component.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_core::digest::Digest;

use windlass_api::{PluginSpec, PluginStatus};

/// Annotation of a role: which of its rules are for which component.
const ANNOTATION: &str = "windlass.dev/rules-of-components";

/// The rules that one component needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct OfComponent {
    /// Names what the Plugin granted when they were written.
    grants: String,
    rules: Vec<Value>,
}

/// Which rules of roles stay beside those that a component needs.
pub struct Kept {
    component: String,
    /// Components that a rollback may go back to.
    before: Vec<String>,
    grants: String,
}

impl Kept {
    /// Of a push of this component to a Plugin with that spec and status. The one that is live may be gone back to once the
    /// pushed one is live, and the one before it until then.
    pub fn new(component: Digest, spec: Option<&PluginSpec>, status: &PluginStatus) -> Self {
        let component = component.to_string();
        let before = [&status.active_digest, &status.previous_digest].into_iter().flatten();
        let before = before.filter(|before| **before != component).cloned().collect();
        let grants = json!(spec.map(|spec| &spec.grants));
        Self { component, before, grants: Digest::of(grants.to_string().as_bytes()).short() }
    }

    /// Adds to a role the rules that it has in the cluster for components before this one. Answers with these components.
    pub fn add(&self, role: &mut Value, found: Option<&Value>) -> Vec<String> {
        let own = rules(role);
        let mut by_component = BTreeMap::new();
        by_component.insert(self.component.clone(), OfComponent { grants: self.grants.clone(), rules: own.clone() });
        // Who may write an annotation may not grant by it what the role does not.
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
        if let Some(role) = role.as_object_mut() {
            role.insert("rules".to_owned(), all.into());
        }
        if let Some(metadata) = role.pointer_mut("/metadata").and_then(Value::as_object_mut) {
            let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
            if let Some(annotations) = annotations.as_object_mut() {
                annotations.insert(ANNOTATION.to_owned(), text.into());
            }
        }
        by_component.into_keys().filter(|component| *component != self.component).collect()
    }
}

fn rules(role: &Value) -> Vec<Value> {
    role.get("rules").and_then(Value::as_array).cloned().unwrap_or_default()
}

/// What a role in the cluster says of its rules.
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

    /// The role after a push of a component that needs these.
    fn pushed(name: &str, needs: &[&str], status: &PluginStatus, found: Option<&Value>) -> Value {
        let mut role = role(needs);
        Kept::new(component(name), None, status).add(&mut role, found);
        role
    }

    #[test]
    fn u02_permissions_of_the_components_that_a_rollback_goes_back_to_stay() {
        let first = pushed("a", &["pods", "secrets"], &status(None, None), None);
        assert_eq!(resources(&first), ["pods", "secrets"]);
        let second = pushed("b", &["pods", "services"], &status(Some("a"), None), Some(&first));
        assert_eq!(resources(&second), ["pods", "services", "secrets"]);
        // The second one never went live.
        let third = pushed("c", &["pods"], &status(Some("a"), None), Some(&second));
        assert_eq!(resources(&third), ["pods", "secrets"]);
        // It did, and the first one is two components away.
        let fourth = pushed("d", &["jobs"], &status(Some("c"), Some("a")), Some(&third));
        assert_eq!(resources(&fourth), ["jobs", "pods", "secrets"]);
        let fifth = pushed("e", &["jobs"], &status(Some("d"), Some("c")), Some(&fourth));
        assert_eq!(resources(&fifth), ["jobs", "pods"]);
        assert_eq!(resources(&pushed("e", &["jobs"], &status(Some("e"), Some("d")), Some(&fifth))), ["jobs"]);
    }

    #[test]
    fn u02_permissions_that_the_plugin_no_longer_grants_or_the_role_never_had_do_not_stay() {
        let first = pushed("a", &["secrets"], &status(None, None), None);
        let live = status(Some("a"), None);
        let narrowed: PluginSpec = serde_json::from_value(json!({
            "source": {"configMap": {"namespace": "n", "name": "a"}}, "grants": {"children": [{"apiVersion": "v1", "kind": "Pod"}]},
        }))
        .expect("a spec");
        let mut second = role(&["pods"]);
        assert_eq!(Kept::new(component("b"), Some(&narrowed), &live).add(&mut second, Some(&first)), [""; 0]);
        assert_eq!(resources(&second), ["pods"]);

        let mut forged = first.clone();
        forged["rules"] = json!([]);
        assert_eq!(resources(&pushed("b", &["pods"], &live, Some(&forged))), ["pods"]);
        let names = Kept::new(component("b"), None, &live).add(&mut role(&["pods"]), Some(&first));
        assert_eq!(names, [component("a").to_string()]);
    }
}
