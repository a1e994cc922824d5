//! Golden cases: a folder of requests, and beside each the expected response.
//!
//! `scale-up.yaml` is a request: a parent and what exists.
//!
//! ```yaml
//! description: The second Pod is missing
//! parent: {metadata: {name: web}, spec: {replicas: 2, image: nginx}}
//! children:                       # live ones; optional, as `related` (by requirement), `config`, `finalize` and `at` (the time)
//!   - {apiVersion: v1, kind: Pod, metadata: {name: web-0}}
//! ```
//!
//! `scale-up.answer.yaml` is the response. `UPDATE_EXPECT=1 cargo test` writes it, for review.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use expect_test::expect_file;
use serde::{Deserialize, Serialize as _};
use serde_json::{Map, Value, json};

use super::{Call, Measurement, Response, request};
use crate::{Failure, Reconciler, failure::milliseconds, raw};

/// One golden case.
#[derive(Debug)]
pub struct Case<R> {
    /// The file's name without its extension.
    pub name: String,
    /// The call with the case's request.
    pub call: Call<R>,
    expected: PathBuf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseFile {
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
    at: Option<String>,
}

/// The cases in a folder, in the order of their names. A relative path starts at the package's folder.
///
/// # Panics
///
/// If the folder has no case, if a file cannot be read, and if a response has no request.
pub fn cases<R: Reconciler>(folder: impl AsRef<Path>) -> Vec<Case<R>> {
    let folder = folder.as_ref();
    let entries = fs::read_dir(folder).unwrap_or_else(|error| fail(folder, error));
    let mut files: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    let (responses, requests): (Vec<_>, Vec<_>) = files
        .into_iter()
        .filter(|file| file.extension().is_some_and(|is| is == "yaml"))
        .partition(|file| is_response(file));
    let cases: Vec<_> = requests.iter().map(|file| case(file)).collect();
    assert!(!cases.is_empty(), "{} has no cases", folder.display());
    for response in responses {
        assert!(cases.iter().any(|case| case.expected == response), "{} has no request", response.display());
    }
    cases
}

/// Calls the plugin with every case of a folder, and compares the responses with the expected ones.
///
/// # Panics
///
/// If a response is not the expected one, if a second call has another response, and as [`cases`].
pub fn check<R: Reconciler>(folder: impl AsRef<Path>) {
    for case in cases::<R>(folder) {
        let again = case.call.clone().call();
        let response = case.call.call();
        assert!(response == again, "{}: the same request has two responses: {response:?} and {again:?}", case.name);
        let text = serde_saphyr::to_string(&document(response)).unwrap_or_else(|error| fail(&case.expected, error));
        expect_file![absolute(&case.expected)].assert_eq(&text);
    }
}

/// Compares the CRD of the plugin's types with the file that [`crd!`](crate::crd) embeds in the component.
///
/// # Panics
///
/// If they differ. `UPDATE_EXPECT=1 cargo test` writes the file.
pub fn crd<R: Reconciler>(file: impl AsRef<Path>) {
    let file = file.as_ref();
    let mut text = Vec::new();
    // Indented for review, by one space.
    let mut json =
        serde_json::Serializer::with_formatter(&mut text, serde_json::ser::PrettyFormatter::with_indent(b" "));
    super::crd::<R>().serialize(&mut json).unwrap_or_else(|error| fail(file, error));
    text.push(b'\n');
    expect_file![absolute(file)].assert_eq(&String::from_utf8_lossy(&text));
}

/// An absolute path: expect-test takes relative ones from a source file of this crate.
fn absolute(file: &Path) -> PathBuf {
    std::path::absolute(file).unwrap_or_else(|error| fail(file, error))
}

fn fail<T>(file: &Path, error: impl std::fmt::Display) -> T {
    #![allow(clippy::panic, reason = "a test fails by panicking")]
    panic!("{}: {error}", file.display())
}

fn is_response(file: &Path) -> bool {
    file.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with(".answer"))
}

fn case<R: Reconciler>(file: &Path) -> Case<R> {
    let text = fs::read_to_string(file).unwrap_or_else(|error| fail(file, error));
    let content: CaseFile = serde_saphyr::from_str(&text).unwrap_or_else(|error| fail(file, error));
    let mut call = request::<R>(content.parent).children(content.children);
    for (id, objects) in content.related {
        call = call.related(&id, objects);
    }
    if let Some(config) = &content.config {
        call = call.config(config);
    }
    if content.finalize {
        call = call.finalize();
    }
    if let Some(at) = content.at {
        let at = humantime::parse_rfc3339(&at).unwrap_or_else(|error| fail(file, error));
        call = call.at(at.duration_since(std::time::UNIX_EPOCH).unwrap_or_default());
    }
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Case { expected: file.with_file_name(format!("{name}.answer.yaml")), name, call }
}

/// A response for review, without empty fields.
fn document(response: Result<Response, Failure>) -> Value {
    let response = match response {
        Ok(response) => response,
        Err(Failure::Invalid(message)) => return json!({ "invalid": message }),
        Err(Failure::Failed(message)) => return json!({ "failed": message }),
        Err(Failure::Retry(retry)) => return json!({ "retry": { "message": retry.message, "afterMs": retry.after } }),
    };
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| {
        let is_empty = match &value {
            Value::Null | Value::Bool(false) => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            _ => false,
        };
        if !is_empty {
            fields.insert(name.to_owned(), value);
        }
    };
    let pairs = |pairs: Vec<(String, String)>| Value::Object(pairs.into_iter().map(|(k, v)| (k, v.into())).collect());
    put("children", response.children.into());
    put("status", response.status.into());
    put("requeueMs", response.requeue.map(milliseconds).into());
    put("events", response.events.iter().map(event).collect());
    put("requirements", response.requirements.into_iter().map(requirement).collect());
    put("finalized", response.finalized.into());
    put("logs", response.logs.into());
    put("spanAttributes", pairs(response.span_attributes));
    put("spanEvents", response.span_events.into());
    let measured =
        |Measurement { metric, value, labels }| json!({ "metric": metric, "value": value, "labels": pairs(labels) });
    put("measurements", response.measurements.into_iter().map(measured).collect());
    Value::Object(fields)
}

fn event(event: &raw::Event) -> Value {
    let kind = match event.event_type {
        raw::EventType::Normal => "Normal",
        raw::EventType::Warning => "Warning",
    };
    json!({ "type": kind, "reason": event.reason, "message": event.message })
}

fn requirement(requirement: raw::Requirement) -> Value {
    let (by, which) = match requirement.select {
        raw::Selection::Name(name) => ("name", name),
        raw::Selection::Labels(selector) => ("labels", selector),
    };
    let mut value = json!({
        "id": requirement.id,
        "apiVersion": requirement.kind.api_version,
        "kind": requirement.kind.name,
        by: which,
    });
    if let (Some(fields), Some(namespace)) = (value.as_object_mut(), requirement.namespace) {
        fields.insert("namespace".to_owned(), namespace.into());
    }
    value
}
