//! Golden cases: a folder of questions, and beside each the answer that was found to be right.
//!
//! `scale-up.yaml` is a question: what exists, as a plugin is asked about it.
//!
//! ```yaml
//! description: The second Pod is missing
//! parent: {metadata: {name: web}, spec: {replicas: 2, image: nginx}}
//! children:                       # that exist; `related` (by requirement), `config`, `finalize` and `at` (the time) can be
//!   - {apiVersion: v1, kind: Pod, metadata: {name: web-0}}
//! ```
//!
//! `scale-up.answer.yaml` is what the plugin says to it. `UPDATE_EXPECT=1 cargo test` writes it, for a person to read.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use expect_test::expect_file;
use serde::{Deserialize, Serialize as _};
use serde_json::{Map, Value, json};

use super::{Answer, Call, Measurement, request};
use crate::{Failure, Reconciler, raw};

/// One question.
#[derive(Debug)]
pub struct Case<R> {
    /// The file's name without its extension.
    pub name: String,
    /// The call that it makes.
    pub call: Call<R>,
    answer: PathBuf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
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
/// When there is none, when a file cannot be read, and when an answer has no question.
pub fn cases<R: Reconciler>(folder: impl AsRef<Path>) -> Vec<Case<R>> {
    let folder = folder.as_ref();
    let entries = fs::read_dir(folder).unwrap_or_else(|error| fail(folder, error));
    let mut files: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    let (answers, questions): (Vec<_>, Vec<_>) = files
        .into_iter()
        .filter(|file| file.extension().is_some_and(|is| is == "yaml"))
        .partition(|file| is_answer(file));
    let cases: Vec<_> = questions.iter().map(|file| case(file)).collect();
    assert!(!cases.is_empty(), "{} holds no cases", folder.display());
    for answer in answers {
        assert!(cases.iter().any(|case| case.answer == answer), "{} answers no question", answer.display());
    }
    cases
}

/// Asks every question in a folder, and compares what the plugin says with what was found to be right.
///
/// # Panics
///
/// When one answer is another one now, or another one the second time it is asked for; and as [`cases`] does.
pub fn check<R: Reconciler>(folder: impl AsRef<Path>) {
    for case in cases::<R>(folder) {
        let again = case.call.clone().call();
        let answer = case.call.call();
        assert!(answer == again, "{}: the same question gets two answers: {answer:?} and {again:?}", case.name);
        let text = serde_saphyr::to_string(&document(answer)).unwrap_or_else(|error| fail(&case.answer, error));
        expect_file![absolute(&case.answer)].assert_eq(&text);
    }
}

/// Compares the definition that the plugin's types make with the file that [`definition!`](crate::definition) puts into the
/// component.
///
/// # Panics
///
/// When they differ: `UPDATE_EXPECT=1 cargo test` writes the file.
pub fn definition<R: Reconciler>(file: impl AsRef<Path>) {
    let file = file.as_ref();
    let mut text = Vec::new();
    // One space: it is read by people, and travels with the component.
    let mut json =
        serde_json::Serializer::with_formatter(&mut text, serde_json::ser::PrettyFormatter::with_indent(b" "));
    super::crd::<R>().serialize(&mut json).unwrap_or_else(|error| fail(file, error));
    text.push(b'\n');
    expect_file![absolute(file)].assert_eq(&String::from_utf8_lossy(&text));
}

/// To expect-test, a relative path starts at a source file of this crate's.
fn absolute(file: &Path) -> PathBuf {
    std::path::absolute(file).unwrap_or_else(|error| fail(file, error))
}

fn fail<T>(file: &Path, error: impl std::fmt::Display) -> T {
    #![allow(clippy::panic, reason = "a test ends by panicking")]
    panic!("{}: {error}", file.display())
}

fn is_answer(file: &Path) -> bool {
    file.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with(".answer"))
}

fn case<R: Reconciler>(file: &Path) -> Case<R> {
    let text = fs::read_to_string(file).unwrap_or_else(|error| fail(file, error));
    let question: Question = serde_saphyr::from_str(&text).unwrap_or_else(|error| fail(file, error));
    let mut call = request::<R>(question.parent).children(question.children);
    for (id, objects) in question.related {
        call = call.related(&id, objects);
    }
    if let Some(config) = &question.config {
        call = call.config(config);
    }
    if question.finalize {
        call = call.finalize();
    }
    if let Some(at) = question.at {
        let at = humantime::parse_rfc3339(&at).unwrap_or_else(|error| fail(file, error));
        call = call.at(at.duration_since(std::time::UNIX_EPOCH).unwrap_or_default());
    }
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Case { answer: file.with_file_name(format!("{name}.answer.yaml")), name, call }
}

/// An answer as people read it: what is empty is left out.
fn document(answer: Result<Answer, Failure>) -> Value {
    let answer = match answer {
        Ok(answer) => answer,
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
    put("children", answer.children.into());
    put("status", answer.status.into());
    put("requeueMs", answer.requeue.into());
    put("events", answer.events.iter().map(event).collect());
    put("requirements", answer.requirements.into_iter().map(requirement).collect());
    put("finalized", answer.finalized.into());
    put("logs", answer.logs.into());
    put("spanAttributes", pairs(answer.span_attributes));
    put("spanEvents", answer.span_events.into());
    let measured =
        |Measurement { metric, value, labels }| json!({ "metric": metric, "value": value, "labels": pairs(labels) });
    put("measurements", answer.measurements.into_iter().map(measured).collect());
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
