//! Makes the parents of a failing case smaller, as long as the check still fails.

use serde_json::{Value, json};

use super::generate::{ParentKind, is_content, paths_of, remove};
use super::property::{Check, CheckResult, Scenario};

/// Largest number of checks of one case.
const CHECKS_MAX: usize = 400;

/// The documents of a case that a change concerns.
#[derive(Debug, Clone, Copy)]
enum Side {
    Both,
    Parent,
    Edited,
}

/// Returns the smallest case found for which the check still fails, with the reason as its description.
pub fn smallest(kind: &ParentKind, failing: Scenario, check: impl Fn(&Scenario) -> CheckResult) -> Scenario {
    let mut smallest = failing;
    let mut checks = 0;
    'again: loop {
        for candidate in candidates(&smallest) {
            if !is_allowed(kind, &candidate) {
                continue;
            }
            checks += 1;
            if checks > CHECKS_MAX {
                return smallest;
            }
            if let CheckResult::Failed(reason) = check(&candidate) {
                smallest = Scenario { description: reason, ..candidate };
                continue 'again;
            }
        }
        return smallest;
    }
}

/// Whether a changed case is one of its property: the schema accepts the parents, or rejects the one that it must reject.
fn is_allowed(kind: &ParentKind, scenario: &Scenario) -> bool {
    let has_labels = |parent: &Value| {
        let labels = parent.pointer("/metadata/labels");
        kind.labels.iter().all(|(name, value)| labels.and_then(|labels| labels.get(name)) == Some(value))
    };
    let is_valid = |parent: &Value| {
        let mut filled = parent.clone();
        kind.fill_in(&mut filled);
        // Otherwise the API server would add the field again.
        filled == *parent && kind.problems(parent).is_empty()
    };
    let is_parent_allowed = match scenario.check {
        Check::InvalidParents => !kind.problems(&scenario.parent).is_empty(),
        _ => is_valid(&scenario.parent),
    };
    is_parent_allowed && has_labels(&scenario.parent) && scenario.edited.as_ref().is_none_or(is_valid)
}

/// The case with one value removed or shortened, large values first.
fn candidates(scenario: &Scenario) -> Vec<Scenario> {
    let mut all_paths = paths(&scenario.parent);
    all_paths.extend(scenario.edited.iter().flat_map(paths));
    all_paths.sort_by(|a, b| a.matches('/').count().cmp(&b.matches('/').count()).then_with(|| a.cmp(b)));
    all_paths.dedup();
    let sides: &[Side] =
        if scenario.edited.is_some() { &[Side::Both, Side::Parent, Side::Edited] } else { &[Side::Parent] };
    let mut all = Vec::new();
    for path in &all_paths {
        for side in sides {
            all.extend(changed(scenario, *side, |document| remove(document, path)));
        }
    }
    for path in &all_paths {
        for side in sides {
            for way in 0..3 {
                all.extend(changed(scenario, *side, |document| {
                    document.pointer_mut(path).is_some_and(|value| shorten(value, way))
                }));
            }
        }
    }
    all
}

fn changed(scenario: &Scenario, side: Side, change: impl Fn(&mut Value) -> bool) -> Option<Scenario> {
    let mut candidate = scenario.clone();
    let mut is_changed = false;
    if matches!(side, Side::Both | Side::Parent) {
        is_changed |= change(&mut candidate.parent);
    }
    if let Some(edited) = candidate.edited.as_mut().filter(|_| matches!(side, Side::Both | Side::Edited)) {
        is_changed |= change(edited);
    }
    is_changed.then_some(candidate)
}

/// The values that may be changed: the content, the labels and the annotations.
fn paths(parent: &Value) -> Vec<String> {
    let mut all = Vec::new();
    for (name, value) in parent.as_object().into_iter().flatten().filter(|(name, _)| is_content(name)) {
        paths_of(value, &format!("/{name}"), &mut all);
    }
    for name in ["/metadata/labels", "/metadata/annotations"] {
        if let Some(value) = parent.pointer(name) {
            paths_of(value, name, &mut all);
        }
    }
    all
}

/// Makes a value smaller in one of three ways. Returns whether it changed.
fn shorten(value: &mut Value, way: u8) -> bool {
    match value {
        Value::String(text) => {
            let kept = match way {
                0 => 1,
                1 => text.chars().count() / 2,
                _ => text.chars().count().saturating_sub(1),
            };
            let shorter: String = text.chars().take(kept).collect();
            let is_changed = shorter.len() < text.len() && !shorter.is_empty();
            if is_changed {
                *text = shorter;
            }
            is_changed
        }
        Value::Number(number) => {
            let Some(present) = number.as_i64() else { return false };
            let smaller = match way {
                0 => 0,
                1 => present / 2,
                _ => present - present.signum(),
            };
            let is_changed = smaller.unsigned_abs() < present.unsigned_abs();
            if is_changed {
                *value = json!(smaller);
            }
            is_changed
        }
        Value::Array(items) => {
            let kept = match way {
                0 => 1,
                _ => items.len() / 2,
            };
            let is_changed = kept < items.len();
            items.truncate(kept);
            is_changed
        }
        Value::Null | Value::Bool(_) | Value::Object(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::generate::{Fields, Generator, tests::kind};
    use super::*;

    #[test]
    fn failing_case_is_shrunk_to_the_fields_that_matter() {
        let kind = kind();
        let mut generator = Generator::new(&kind, 3);
        let mut parent = generator.parent(Fields::All).expect("a parent");
        parent["spec"]["replicas"] = json!(57);
        let check = |scenario: &Scenario| {
            let replicas = scenario.parent["spec"]["replicas"].as_i64().unwrap_or_default();
            if replicas > 12 { CheckResult::Failed(format!("{replicas} are too many")) } else { CheckResult::Passed }
        };
        let failing = Scenario { description: "first".to_owned(), check: Check::Converges, parent, edited: None };
        let smallest = smallest(&kind, failing, check);
        assert_eq!(smallest.description, "13 are too many");
        let mut spec = smallest.parent["spec"].clone();
        let image = spec["image"].as_str().map(str::len);
        assert_eq!(image, Some(1), "{spec:#}");
        spec["image"] = json!("a");
        // Without their defaults these fields would come back.
        assert_eq!(spec, json!({"replicas": 13, "image": "a", "mode": spec["mode"], "deep": spec["deep"]}));
        assert_eq!(kind.problems(&smallest.parent), [""; 0]);
    }

    #[test]
    fn rejected_parent_stays_rejected() {
        let kind = kind();
        let parent = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"},
            "spec": {"image": "a b", "replicas": 3, "env": [{"name": "x"}]}});
        let failing = Scenario { description: String::new(), check: Check::InvalidParents, parent, edited: None };
        let smallest = smallest(&kind, failing, |_| CheckResult::Failed("always".to_owned()));
        assert_ne!(kind.problems(&smallest.parent), [""; 0]);
    }

    #[test]
    fn both_parents_of_an_edit_are_shrunk() {
        let kind = kind();
        let parent = |replicas: i64| json!({"spec": {"image": "nginx", "replicas": replicas, "mode": "Fast", "deep": {"level": 3}, "env": [{"name": "x"}]}});
        let failing = Scenario {
            description: String::new(),
            check: Check::EditLikeNew,
            parent: parent(30),
            edited: Some(parent(20)),
        };
        let check = |scenario: &Scenario| {
            let of = |parent: &Value| parent["spec"]["replicas"].as_i64().unwrap_or_default();
            match scenario.edited.as_ref().map(of) {
                Some(edited) if edited < of(&scenario.parent) => CheckResult::Failed("fewer".to_owned()),
                _ => CheckResult::Passed,
            }
        };
        let smallest = smallest(&kind, failing, check);
        let replicas = |parent: Option<&Value>| parent.and_then(|parent| parent["spec"]["replicas"].as_i64());
        assert_eq!((replicas(Some(&smallest.parent)), replicas(smallest.edited.as_ref())), (Some(1), Some(0)));
        assert_eq!(smallest.parent["spec"].get("env"), None);
    }
}
