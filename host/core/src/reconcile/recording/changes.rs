//! What changed between the requests of two calls, or between two results, object by object and field by field.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Document, Exchange, RecordedRequest, RecordedResponse, RecordedResult};
use crate::contract::ChildOptions;
use crate::object::names::ANNOTATION_APPLIED;
use crate::value::difference::{Difference, differences, is_bookkeeping};
use crate::value::json::{self, Value};

/// One object or setting that is another than before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// What changed: `parent`, `child Pod n/web-0`, `config`, `component`, …
    pub subject: String,
    /// How it changed.
    pub change: Changed,
}

/// How something changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Changed {
    /// It was not there before.
    Added,
    /// It is no longer there.
    Removed,
    /// These fields changed.
    Fields(Vec<Difference>),
    /// It has the same value, written as other bytes.
    Bytes,
}

/// The inputs of a call that differ from those of an earlier call. Fields that change with every write and mean nothing by
/// themselves (`resourceVersion`) are left out.
pub fn changes(before: &Exchange, after: &Exchange) -> Vec<Change> {
    let mut found = Vec::new();
    let mut scalar = |subject: &str, before: &str, after: &str| {
        if before != after {
            let fields = Changed::Fields(vec![Difference {
                path: String::new(),
                old: Some(before.to_owned()),
                new: Some(after.to_owned()),
            }]);
            found.push(Change { subject: subject.to_owned(), change: fields });
        }
    };
    scalar("component", &before.component, &after.component);
    scalar("phase", before.request.phase.into(), after.request.phase.into());
    let (before, after) = (inputs(&before.request), inputs(&after.request));
    compare((&before, &after), is_hosts, &mut found);
    found
}

/// Whether a field of an input changes with every write, or is the host's own mark of what it applied.
fn is_hosts(path: &str) -> bool {
    let annotation = path.strip_prefix("metadata.annotations[\"").and_then(|path| path.strip_suffix("\"]"));
    is_bookkeeping(path) || annotation == Some(ANNOTATION_APPLIED)
}

impl RecordedResult {
    /// The parts of a result that differ from those of this one, which was expected.
    pub fn differences(&self, found: &Self) -> Vec<Change> {
        let mut changes = Vec::new();
        compare((&outputs(self), &outputs(found)), |_| false, &mut changes);
        changes
    }
}

fn compare(
    (before, after): (&BTreeMap<String, Value>, &BTreeMap<String, Value>),
    is_ignored: fn(&str) -> bool,
    found: &mut Vec<Change>,
) {
    for (subject, old) in before {
        let change = match after.get(subject) {
            None => Changed::Removed,
            Some(new) => {
                let fields = differences(old, new, is_ignored);
                if fields.is_empty() {
                    continue;
                }
                Changed::Fields(fields)
            }
        };
        found.push(Change { subject: subject.clone(), change });
    }
    for subject in after.keys().filter(|subject| !before.contains_key(*subject)) {
        found.push(Change { subject: subject.clone(), change: Changed::Added });
    }
    // The parent's changes are most likely the cause of everything else.
    found.sort_by_key(|change| rank(&change.subject));
}

fn rank(subject: &str) -> u8 {
    match subject.split(' ').next() {
        Some("child") => 2,
        Some("related") => 1,
        Some(_) | None => 0,
    }
}

/// The objects and settings of a request, by their names.
fn inputs(request: &RecordedRequest) -> BTreeMap<String, Value> {
    let mut inputs = BTreeMap::from([("parent".to_owned(), parsed(&request.parent))]);
    inputs.extend(request.children.iter().map(|child| named("child", child)));
    for related in &request.related {
        let role = format!("related object (requirement {})", related.id);
        inputs.extend(related.objects.iter().map(|object| named(&role, object)));
    }
    inputs.extend(request.config.iter().map(|config| ("config".to_owned(), parsed(config))));
    inputs.insert("children left out".to_owned(), value(&json!(request.left_out)));
    inputs.insert("requests to other systems".to_owned(), value(&json!(request.unsent)));
    inputs.insert("time".to_owned(), value(&json!(request.now_ms)));
    inputs.insert("closed namespaces".to_owned(), value(&json!(request.closed_namespaces)));
    inputs.insert("optional kinds".to_owned(), value(&json!(request.kinds)));
    inputs.insert("cause of the clean-up".to_owned(), format!("{:?}", request.cause).into());
    inputs.insert("namespace is being deleted".to_owned(), request.namespace_terminating.into());
    inputs
}

/// The parts of a result, by their names.
fn outputs(result: &RecordedResult) -> BTreeMap<String, Value> {
    let text = |name: &str, message: &str| BTreeMap::from([(name.to_owned(), Value::from(message))]);
    match result {
        RecordedResult::Response(response) => outputs_of(response),
        RecordedResult::Invalid(message) => text("failure (invalid spec)", message),
        RecordedResult::Retry { message, after_ms } => {
            let mut outputs = text("failure (retry)", message);
            outputs.insert("retryAfterMs".to_owned(), value(&json!(after_ms)));
            outputs
        }
        RecordedResult::Failed(message) => text("failure", message),
        RecordedResult::Aborted(message) => text("aborted call", message),
    }
}

fn outputs_of(response: &RecordedResponse) -> BTreeMap<String, Value> {
    let mut outputs = BTreeMap::new();
    let mut counts = HashMap::<String, usize>::new();
    for (at, child) in response.children.iter().enumerate() {
        let (mut subject, child) = named("child", child);
        let count = counts.entry(subject.clone()).or_default();
        *count += 1;
        // The host rejects such a response.
        if *count > 1 {
            subject = format!("{subject} ({count})");
        }
        let options = response
            .options
            .as_ref()
            .and_then(|all| all.get(at))
            .filter(|options| **options != ChildOptions::default());
        outputs.extend(options.map(|options| (format!("options of {subject}"), value(&json!(options)))));
        outputs.insert(subject, child);
    }
    outputs.extend(response.status.iter().map(|status| ("status".to_owned(), parsed(status))));
    for (name, part) in [
        ("requeueMs", json!(response.requeue_ms)),
        ("requeueAtMs", json!(response.requeue_at_ms)),
        ("events", json!(response.events)),
        ("requirements", json!(response.requirements)),
        ("kept children", json!(response.keep)),
        ("waiting", json!(response.waiting)),
        ("requests to other systems", json!(response.http)),
        ("finalized", json!(response.finalized)),
    ] {
        outputs.insert(name.to_owned(), value(&part));
    }
    outputs
}

fn value(value: &serde_json::Value) -> Value {
    json::parse(value.to_string().as_bytes(), json::OBJECT_DEPTH).unwrap_or(Value::Null)
}

fn parsed(document: &Document) -> Value {
    json::parse(document.get().as_bytes(), json::OBJECT_DEPTH).unwrap_or_else(|_| Value::from(document.get()))
}

/// An object with a name for readers, which no other object of its list has.
fn named(role: &str, document: &Document) -> (String, Value) {
    let object = parsed(document);
    let text = |path: &[&str]| object.at(path).and_then(Value::as_str).unwrap_or_default();
    let group = text(&["apiVersion"]).split_once('/').map(|(group, _)| format!(".{group}")).unwrap_or_default();
    let namespace = text(&["metadata", "namespace"]);
    let place = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
    let subject = format!("{role} {}{group} {place}{}", text(&["kind"]), text(&["metadata", "name"]));
    (subject, object)
}
