//! What must hold of a descriptor, beyond what the host checks when it loads a component.

use std::collections::HashSet;

use regex::Regex;
use serde_json::Value;
use windlass_core::contract::declared_parent::storage_of;
use windlass_core::contract::{Descriptor, Until, UpdateStrategy};
use windlass_core::plugin::schema::structural as schema;
use windlass_sandbox::run_here;

use crate::offline::Offline;

/// A semantic version (semver.org).
const VERSION: &str = r"^\d+\.\d+\.\d+(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$";
/// The type of a condition (`metav1.Condition`).
const CONDITION: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

fn fits(pattern: &str, text: &str) -> bool {
    Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text))
}

/// The first problem of a component's descriptor.
pub fn problem(offline: &Offline) -> Option<String> {
    let descriptor = &offline.described.descriptor;
    match run_here(offline.component.describe(&offline.described.limits)).0 {
        Ok(again) if again == *descriptor => {}
        Ok(_) => return Some("describe returns another descriptor in a second call".to_owned()),
        Err(failure) => return Some(format!("describe fails in a second call: {failure}")),
    }
    let crd = offline.described.declared.crd();
    names(descriptor)
        .or_else(|| crd.and_then(|crd| crd_problem(crd.json())))
        .or_else(|| descriptor.config_schema.as_deref().and_then(config_schema))
}

fn names(descriptor: &Descriptor) -> Option<String> {
    let Descriptor { version, children, related, .. } = descriptor;
    if !fits(VERSION, version) {
        return Some(format!("the version {version:?} is not a semantic version, as in 1.2.3"));
    }
    let mut kinds = HashSet::new();
    if let Some(twice) = children.iter().find(|rule| !kinds.insert(&rule.kind)) {
        return Some(format!("the child kind {} is declared twice", twice.kind));
    }
    let mut kinds = HashSet::new();
    if let Some(twice) = related.iter().find(|kind| !kinds.insert(*kind)) {
        return Some(format!("the related kind {twice} is declared twice"));
    }
    let conditions = children.iter().filter_map(|rule| match &rule.update {
        UpdateStrategy::Rolling { until: Until::Conditions(conditions), .. } => Some(conditions.iter()),
        UpdateStrategy::Rolling { until: Until::Ready, .. }
        | UpdateStrategy::Apply
        | UpdateStrategy::Recreate
        | UpdateStrategy::OnDelete => None,
    });
    let condition = conditions.flatten().find(|condition| !fits(CONDITION, condition))?;
    Some(format!("a rolling update waits for {condition:?}, which is not the type of a condition"))
}

/// Why a cluster would not store or show objects of the CRD's kind as the host expects.
fn crd_problem(crd: &Value) -> Option<String> {
    let version = storage_of(crd)?;
    let Some(schema) = schema::of_definition(crd) else {
        return Some("the storage version of the CRD has no schema: no API server accepts the CRD".to_owned());
    };
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Some("the schema of the CRD is not of type object: no API server accepts the CRD".to_owned());
    }
    if schema.pointer("/properties/status").is_some() && version.pointer("/subresources/status").is_none() {
        return Some(
            "the CRD has a status and no status subresource: each write of the status is a change of the spec"
                .to_owned(),
        );
    }
    None
}

fn config_schema(schema: &[u8]) -> Option<String> {
    match serde_json::from_slice::<Value>(schema) {
        Ok(Value::Object(_)) => None,
        Ok(_) => Some("the schema of the config is not a JSON object".to_owned()),
        Err(error) => Some(format!("the schema of the config is not JSON: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_core::contract::{ChildRule, Parent};
    use windlass_core::value::ids::Gvk;

    use super::*;

    fn descriptor() -> Descriptor {
        let rolling =
            UpdateStrategy::Rolling { recreate: false, until: Until::Conditions(["Ready".to_owned()].into()) };
        let parent = Parent::Existing(Gvk::from_api_version("v1", "Namespace"));
        Descriptor {
            children: vec![ChildRule { kind: Gvk::from_api_version("v1", "Pod"), update: rolling }],
            related: vec![Gvk::from_api_version("v1", "Secret")],
            ..Descriptor::about("probe", "1.0.0-rc.1+build.5", parent)
        }
    }

    #[test]
    fn each_problem_of_a_descriptor_is_named() {
        assert_eq!(names(&descriptor()), None);
        let problem = |change: fn(&mut Descriptor)| {
            let mut descriptor = descriptor();
            change(&mut descriptor);
            names(&descriptor).expect("a problem")
        };
        assert!(problem(|of| "v1".clone_into(&mut of.version)).contains("semantic version"));
        assert!(problem(|of| of.children.push(of.children[0].clone())).contains("Pod"));
        assert!(problem(|of| of.related.push(of.related[0].clone())).contains("Secret"));
        let with_condition = |of: &mut Descriptor| {
            of.children[0].update =
                UpdateStrategy::Rolling { recreate: false, until: Until::Conditions(["not ready".to_owned()].into()) };
        };
        assert!(problem(with_condition).contains("not ready"));
    }

    #[test]
    fn crd_needs_a_schema_and_a_status_subresource() {
        let crd = |version: Value| json!({"spec": {"versions": [version]}});
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"status": {"type": "object"}}}});
        let whole = json!({"storage": true, "schema": schema, "subresources": {"status": {}}});
        assert_eq!(crd_problem(&crd(whole)), None);
        assert!(crd_problem(&crd(json!({"storage": true}))).is_some_and(|problem| problem.contains("no schema")));
        let without = crd_problem(&crd(json!({"storage": true, "schema": schema})));
        assert!(without.is_some_and(|problem| problem.contains("subresource")));
    }
}
