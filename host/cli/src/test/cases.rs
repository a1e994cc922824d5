//! Cases from files: golden cases (a request, and beside it the expected response), and saved cases of properties.

use std::collections::BTreeMap;
use std::mem::discriminant;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::contract::offer::Offer;
use windlass_core::contract::{
    CallFailure, CallReport, ChildOptions, Failure, FinalizeCause, Note, Observed, Phase, PluginResult, Related,
    Request, Response,
};
use windlass_core::value::difference::Difference;
use windlass_core::value::ids::Gvk;
use windlass_core::value::json;
use windlass_sandbox::{Ambient, run_here};

use super::property::Scenario;
use super::world::{first_difference, or_absent};
use crate::fields::{set, value_of};
use crate::offline::{Described, Offline, gvk_of};
use crate::{files, yaml};

/// The clock of a case that sets none: the SDKs' test harnesses have the same.
const NOW: Duration = Duration::from_hours(490_896);

/// What a file in the folder of cases is.
#[derive(Debug)]
pub enum Case {
    /// A request and the expected response.
    Golden(Box<Golden>),
    /// A case of a property.
    Property(Box<Scenario>),
}

/// A request and the expected response.
#[derive(Debug)]
pub struct Golden {
    request: Request,
    /// The optional kinds that exist, if not all.
    kinds: Option<Vec<Gvk>>,
    now: SystemTime,
    expected: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GoldenFile {
    /// For readers.
    #[serde(rename = "description")]
    _description: String,
    parent: Value,
    #[serde(default)]
    children: Vec<Value>,
    #[serde(default)]
    related: BTreeMap<String, Vec<Value>>,
    config: Option<Value>,
    #[serde(default)]
    finalize: bool,
    /// Why the parent is finalized.
    #[serde(default)]
    cause: FinalizeCause,
    #[serde(default)]
    namespace_terminating: bool,
    /// The optional kinds that exist; all, if absent.
    kinds: Option<Vec<Gvk>>,
    #[serde(default)]
    closed_namespaces: Vec<Arc<str>>,
    at: Option<String>,
}

/// The cases in a folder, by name and in the order of their names.
///
/// # Errors
/// If the folder has no case, if a file is malformed, or if a request has no response or a response no request.
pub fn read(folder: &Path) -> anyhow::Result<Vec<(String, Case)>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("folder {}", folder.display()))?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<PathBuf>>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let stem = |file: &Path| file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let (responses, requests): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| stem(file).ends_with(".answer"));
    let mut cases = Vec::new();
    for file in &requests {
        let name = stem(file);
        let expected = file.with_file_name(format!("{name}.answer.yaml"));
        cases.push((name, case(file, &expected)?));
    }
    ensure!(!cases.is_empty(), "{} has no cases", folder.display());
    let has_request = |response: &PathBuf| cases.iter().any(|(case, _)| format!("{case}.answer") == stem(response));
    if let Some(alone) = responses.iter().find(|response| !has_request(response)) {
        bail!("{} has no request beside it", alone.display());
    }
    Ok(cases)
}

fn case(file: &Path, expected: &Path) -> anyhow::Result<Case> {
    let parsed = |file: &Path| -> anyhow::Result<Value> {
        let text = files::text("file", file)?;
        yaml::only(&text).with_context(|| format!("{} is not valid YAML", file.display()))
    };
    let malformed = || format!("{} is not a case", file.display());
    let content = parsed(file)?;
    if content.get("check").is_some() {
        return Ok(Case::Property(Box::new(serde_json::from_value(content).with_context(malformed)?)));
    }
    let golden = Golden::new(content).with_context(malformed)?;
    Ok(Case::Golden(Box::new(golden.expecting(parsed(expected)?))))
}

/// A live object: a YAML object, or a text with its JSON, which stays as it is.
fn observed(object: &Value) -> anyhow::Result<Observed> {
    Ok(match object {
        Value::String(json) => observed_as(&serde_json::from_str(json)?, json.clone()),
        object => observed_as(object, object.to_string()),
    })
}

/// An object as the plugin gets it, with this JSON.
fn observed_as(object: &Value, json: String) -> Observed {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str);
    Observed {
        kind: gvk_of(object),
        namespace: text("/metadata/namespace").map(Arc::from),
        name: text("/metadata/name").unwrap_or_default().into(),
        deleting: text("/metadata/deletionTimestamp").is_some(),
        object: json.into_bytes().into(),
    }
}

/// A parent: a YAML object, which gets a UID, or a text with its JSON, which stays as it is, even if it is none.
fn parent_of(mut parent: Value) -> Observed {
    if let Value::String(json) = &parent {
        return observed_as(&serde_json::from_str(json).unwrap_or_default(), json.clone());
    }
    if parent.pointer("/metadata/uid").is_none() {
        set(&mut parent, &["metadata", "uid"], "uid");
    }
    observed_as(&parent, parent.to_string())
}

impl Golden {
    /// A case with this request, which expects nothing yet.
    ///
    /// # Errors
    /// If the request is malformed.
    pub fn new(request: Value) -> anyhow::Result<Self> {
        let file: GoldenFile = serde_json::from_value(request)?;
        let GoldenFile { parent, children, related, config, finalize, at, .. } = file;
        let mut children = children.iter().map(observed).collect::<anyhow::Result<Vec<_>>>()?;
        children.sort_by_key(|one| {
            (one.kind.api_version(), one.kind.kind.clone(), one.namespace.clone(), one.name.clone())
        });
        let related = related.into_iter().map(|(id, objects)| {
            let objects = objects.iter().map(observed).collect::<anyhow::Result<_>>()?;
            anyhow::Ok(Related { id, metadata_only: false, objects })
        });
        let now = match at {
            Some(at) => SystemTime::from(at.parse::<jiff::Timestamp>()?),
            None => SystemTime::UNIX_EPOCH + NOW,
        };
        Ok(Self {
            request: Request {
                children,
                related: related.collect::<anyhow::Result<_>>()?,
                config: config.map(|config| config.to_string().into_bytes().into()),
                cause: file.cause,
                namespace_terminating: file.namespace_terminating,
                offer: Arc::new(Offer { closed_namespaces: file.closed_namespaces, ..Offer::default() }),
                ..Request::about(if finalize { Phase::Finalize } else { Phase::Sync }, parent_of(parent))
            },
            kinds: file.kinds,
            now,
            expected: Value::Null,
        })
    }

    /// The case with this response.
    pub fn expecting(self, expected: Value) -> Self {
        Self { expected, ..self }
    }

    /// The request, as a plugin that is described so gets it.
    fn request_to(&self, described: &Described) -> Request {
        let request = described.at(self.now, self.request.clone());
        let kinds = self.kinds.clone().unwrap_or_else(|| request.offer.kinds.clone());
        let closed_namespaces = self.request.offer.closed_namespaces.clone();
        Request { offer: Arc::new(Offer { kinds, closed_namespaces }), ..request }
    }

    /// Where the response differs from the expected one. Values that depend on random numbers are not compared, because
    /// those of the sandbox differ from those of the SDKs' harnesses. With `is_shared`, only the field of an `invalid`
    /// or `failed` failure is compared.
    pub fn problem(&self, offline: &Offline, is_shared: bool) -> Option<String> {
        let call = |seed: u8| {
            let ambient = Ambient { seed: [seed; 32], now: self.now };
            let request = self.request_to(&offline.described);
            let (result, report) = run_here(offline.component.reconcile(&request, &offline.described.limits, ambient));
            document(result, report, offline.described.limits.json_depth)
        };
        let (mut actual, other) = match (call(7), call(8)) {
            (Ok(actual), Ok(other)) => (actual, other),
            (Err(failure), _) | (_, Err(failure)) => return Some(failure.to_string()),
        };
        let mut expected = self.expected.clone();
        mask(&mut actual, &other, &mut expected);
        if is_shared {
            for document in [&mut actual, &mut expected] {
                for failure in ["invalid", "failed"] {
                    if let Some(Value::String(message)) = document.get_mut(failure) {
                        *message = message.split(": ").next().unwrap_or_default().to_owned();
                    }
                }
            }
        }
        let Difference { path, old, new } = first_difference(&expected, &actual)?;
        Some(format!("{path}: expected {}, and found {}", or_absent(old), or_absent(new)))
    }
}

/// Replaces the values that differ between two calls with different random numbers. An expected value of another type
/// stays, so that it is a difference.
fn mask(actual: &mut Value, other: &Value, expected: &mut Value) {
    match (&mut *actual, other, &mut *expected) {
        (Value::Object(actual), Value::Object(other), Value::Object(expected)) => {
            for (name, value) in actual {
                if let (Some(other), Some(expected)) = (other.get(name), expected.get_mut(name)) {
                    mask(value, other, expected);
                }
            }
        }
        (Value::Array(actual), Value::Array(other), Value::Array(expected)) => {
            for ((value, other), expected) in actual.iter_mut().zip(other).zip(expected) {
                mask(value, other, expected);
            }
        }
        (found, other, wanted) if *found != *other && discriminant(&*found) == discriminant(&*wanted) => {
            (*found, *wanted) = (json!("(random)"), json!("(random)"));
        }
        _ => {}
    }
}

/// A response as a document, without empty fields, as the SDKs' harnesses write it.
fn document(result: Result<PluginResult, CallFailure>, report: CallReport, depth: usize) -> Result<Value, CallFailure> {
    let response = match result? {
        Ok(response) => response,
        Err(Failure::Invalid(message)) => return Ok(json!({"invalid": message})),
        Err(Failure::Failed(message)) => return Ok(json!({"failed": message})),
        Err(Failure::Retry { message, after }) => {
            return Ok(json!({"retry": {"message": message, "afterMs": after}}));
        }
    };
    let parsed = |bytes: &[u8]| json::parse(bytes, depth).map(|value| value_of(&value)).unwrap_or_default();
    let pairs = Value::from_iter::<Vec<(String, String)>>;
    let (mut logs, mut attributes, mut events, mut measurements) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for note in report.notes {
        match note {
            Note::Log { message, .. } => logs.push(json!(message)),
            Note::SpanAttribute { key, value } => attributes.push((key, value)),
            Note::SpanEvent { name, .. } => events.push(json!(name)),
            Note::Measure { metric, value, labels } => {
                measurements.push(json!({"metric": metric, "value": value, "labels": pairs(labels)}));
            }
        }
    }
    let fields = [
        ("children", response.children.iter().map(|child| parsed(child)).collect()),
        ("options", options(&response)),
        ("keep", if response.keep.is_none() { Value::Null } else { json!(response.keep) }),
        ("waiting", json!(response.waiting)),
        ("status", response.status.as_deref().map(parsed).unwrap_or_default()),
        ("requeueMs", json!(response.requeue)),
        ("requeueAtMs", json!(response.requeue_at)),
        ("events", json!(response.events)),
        ("requirements", json!(response.requirements)),
        ("finalized", json!(response.finalized)),
        ("logs", Value::Array(logs)),
        ("spanAttributes", pairs(attributes)),
        ("spanEvents", Value::Array(events)),
        ("measurements", Value::Array(measurements)),
    ];
    let empty = [json!(null), json!(false), json!([]), json!({})];
    Ok(fields.into_iter().filter(|(_, value)| !empty.contains(value)).collect())
}

/// The options of the children, if any has some.
fn options(response: &Response) -> Value {
    let all = response.options.as_deref().unwrap_or_default();
    if all.iter().all(|options| *options == ChildOptions::default()) { Value::Null } else { json!(all) }
}

#[cfg(test)]
mod tests {
    use windlass_core::contract::{Descriptor, Parent};

    use super::*;

    #[test]
    fn folder_has_golden_cases_and_cases_of_properties() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
        write("a.yaml", "description: A\nparent: {metadata: {name: web}}\nat: '2026-06-01T00:00:00Z'\n");
        write("a.answer.yaml", "children: []\n");
        write("b.yaml", "description: B\ncheck: converges\nparent: {metadata: {name: web}}\n");
        let cases = read(folder.path()).expect("cases");
        assert!(matches!(cases.as_slice(), [(a, Case::Golden(_)), (b, Case::Property(_))] if a == "a" && b == "b"));
        write("c.answer.yaml", "children: []\n");
        assert!(read(folder.path()).expect_err("no request").to_string().contains("c.answer.yaml"));
    }

    #[test]
    fn case_of_a_clean_up_says_why_and_which_kinds_and_namespaces_there_are() {
        let monitor = json!({"apiVersion": "a.example/v1", "kind": "Monitor"});
        let case = |more: Value| {
            let mut case = json!({"description": "", "parent": {"metadata": {"name": "a"}}, "finalize": true});
            case.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
            let kind = Gvk::from_api_version("a.example/v1", "Monitor");
            let parent = Parent::Existing(Gvk::from_api_version("v1", "Namespace"));
            let descriptor = Descriptor { optional: vec![kind], ..Descriptor::about("a", "1.0.0", parent) };
            Golden::new(case).expect("a case").request_to(&Described::new(descriptor).expect("a plugin"))
        };
        let plain = case(json!({}));
        assert_eq!((plain.cause, plain.namespace_terminating), (FinalizeCause::Deleted, false));
        assert_eq!(json!(plain.offer.kinds), json!([monitor]));
        let other = case(json!({"cause": "leftSelector", "kinds": [], "closedNamespaces": ["kube-system"]}));
        assert_eq!((other.cause, other.offer.kinds.len()), (FinalizeCause::LeftSelector, 0));
        assert_eq!(json!(other.offer.closed_namespaces.len()), json!(1));
        assert!(case(json!({"namespaceTerminating": true})).namespace_terminating);
    }

    #[test]
    fn malformed_case_names_its_file() {
        let folder = tempfile::tempdir().expect("a folder");
        for text in ["description: A\nparnet: {}\n", "check: no-such-check\ndescription: A\nparent: {}\n", "{"] {
            std::fs::write(folder.path().join("a.yaml"), text).expect("written");
            let error = format!("{:#}", read(folder.path()).expect_err("malformed"));
            assert!(error.contains("a.yaml"), "{error}");
        }
    }

    #[test]
    fn random_values_are_masked_and_equal_numbers_are_equal() {
        let (mut actual, other) = (json!({"a": "x1", "b": 1.0, "c": ["y"]}), json!({"a": "x2", "b": 1.0, "c": ["y"]}));
        let mut expected = json!({"a": "x3", "b": 1, "c": ["z"]});
        mask(&mut actual, &other, &mut expected);
        assert_eq!(actual["a"], expected["a"]);
        let first = first_difference(&expected, &actual).expect("a difference");
        assert_eq!(
            (&*first.path, first.old.as_deref(), first.new.as_deref()),
            ("c[0]", Some(r#""z""#), Some(r#""y""#))
        );
    }

    #[test]
    fn random_value_of_another_type_than_the_expected_one_is_a_difference() {
        let (mut actual, other, mut expected) = (json!({"a": "x1"}), json!({"a": "x2"}), json!({"a": {"b": 1}}));
        mask(&mut actual, &other, &mut expected);
        assert_eq!(first_difference(&expected, &actual).map(|first| first.path).as_deref(), Some("a"));
    }
}
