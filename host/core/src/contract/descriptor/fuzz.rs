//! Fuzzes descriptors with arbitrary text, from the corpus and mutated: names that pass the check are safe in paths.

use serde_json::Value;
use windlass_fuzz::Target;

use super::*;
use crate::contract::{ChildRule, ParentSelector};

/// Parses a corpus file as a descriptor; if it is not one, uses the whole text for each field.
fn descriptor(input: &[u8]) -> Descriptor {
    let whole = String::from_utf8_lossy(input);
    let value = serde_json::from_slice(input).unwrap_or_else(|_| Value::String(whole.into_owned()));
    let text = |value: &Value, field: &str| match value {
        Value::String(text) => text.clone(),
        value => value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned(),
    };
    let kind = |value: &Value| Gvk::from_api_version(&text(value, "apiVersion"), &text(value, "kind"));
    let list = |field: &str| value.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
    let update = |value: &Value| match value.get("conditions").and_then(Value::as_array) {
        None => UpdateStrategy::Apply,
        Some(conditions) => UpdateStrategy::Rolling {
            recreate: false,
            until: Until::Conditions(
                conditions.iter().map(|value| value.as_str().unwrap_or_default().to_owned()).collect(),
            ),
        },
    };
    let selector = |value: &Value, of: &str| value.get(of).and_then(Value::as_str).map(str::to_owned);
    let parent =
        value.get("parent").map_or_else(|| Parent::Custom(input.to_vec()), |value| Parent::Existing(kind(value)));
    Descriptor {
        selector: ParentSelector {
            labels: value.get("parent").and_then(|parent| selector(parent, "selector")),
            annotations: value.get("parent").and_then(|parent| selector(parent, "annotations")),
        },
        children: list("children").iter().map(|value| ChildRule { kind: kind(value), update: update(value) }).collect(),
        related: list("related").iter().map(kind).collect(),
        ..Descriptor::about("", &text(&value, "version"), parent)
    }
}

/// Returns true if the text is safe in a path or in a file name.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.')) && !text.contains("..")
}

#[test]
fn fuzz_descriptors() {
    Target::new("descriptors", 30_000).attack(0.12, |input| {
        let descriptor = descriptor(input);
        if let Err(message) = check(&descriptor) {
            assert!(message.len() < 1000 && !message.contains(char::is_control), "{message}");
            return false;
        }
        let Descriptor { version, parent, children, related, .. } = &descriptor;
        let selector = &descriptor.selector;
        assert!([selector.labels(), selector.annotations()].into_iter().flatten().all(|one| one.len() <= 1024));
        assert!(version.len() <= 128 && !version.contains(char::is_control));
        assert!(children.len() <= 100 && related.len() <= 100);
        for rule in children {
            if let UpdateStrategy::Rolling { until: Until::Conditions(conditions), .. } = &rule.update {
                assert!(conditions.iter().map(String::len).sum::<usize>() <= 16 * 316);
            }
        }
        let parent = match parent {
            Parent::Existing(kind) => Some(kind),
            Parent::Custom(_) => None,
        };
        for kind in children.iter().map(|rule| &rule.kind).chain(related).chain(parent) {
            assert!([&kind.group, &kind.version, &kind.kind].into_iter().all(|text| is_plain(text)), "{kind}");
            assert!(!kind.version.is_empty() && !kind.kind.is_empty() && kind.group.len() <= 253, "{kind}");
            assert_eq!(Gvk::from_api_version(&kind.api_version(), &kind.kind), *kind);
            assert_eq!(kind.to_string().parse().as_ref(), Ok(kind));
        }
        true
    });
}
