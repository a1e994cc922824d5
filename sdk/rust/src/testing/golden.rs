//! Golden cases: a folder of requests, and beside each the expected response.
//!
//! `scale-up.yaml` is a request: a parent and what exists.
//!
//! ```yaml
//! description: The second Pod is missing
//! parent: {metadata: {name: web}, spec: {replicas: 2, image: nginx}}
//! children:                       # live ones
//!   - {apiVersion: v1, kind: Pod, metadata: {name: web-0}}
//! ```
//!
//! Optional are `children`, `related` (by requirement), `config`, `finalize` (with `cause`: `deleted`, `leftSelector` or
//! `leftNamespaces`, and `namespaceTerminating`), `kinds` (the optional ones that exist; by default all), `closedNamespaces`, and
//! `at` (the time).
//!
//! `scale-up.answer.yaml` is the response. `UPDATE_EXPECT=1 cargo test` writes it, for review.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use expect_test::expect_file;
use serde::{Deserialize, Serialize as _};
use serde_json::{Value, json};

use super::{Call, HostCalls, Measurement, Outcome, json_of, request, written};
use crate::{Failure, FinalizeCause, Reconciler, raw};

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
#[serde(rename_all = "camelCase", deny_unknown_fields)]
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
    #[serde(default)]
    cause: Cause,
    #[serde(default)]
    namespace_terminating: bool,
    kinds: Option<Vec<KindName>>,
    #[serde(default)]
    closed_namespaces: Vec<String>,
    at: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
enum Cause {
    #[default]
    Deleted,
    LeftSelector,
    LeftNamespaces,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct KindName {
    api_version: String,
    kind: String,
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
/// If a response is not the expected one, if the host refuses it, if a second call has another response, and as [`cases`].
pub fn check<R: Reconciler>(folder: impl AsRef<Path>) {
    for Case { name, call, expected } in cases::<R>(folder) {
        let answer = match call.seen().unwrap_or_else(|refused| fail(&expected, refused)) {
            Ok(call) => {
                let again = call.clone().run();
                let answer = call.checked().unwrap_or_else(|refused| fail(&expected, refused));
                assert!(answer == again, "{name}: the same request has two responses: {answer:?} and {again:?}");
                answer
            }
            Err(invalid) => (Err(invalid), HostCalls::default()),
        };
        let text = serde_saphyr::to_string(&document(answer)).unwrap_or_else(|error| fail(&expected, error));
        expect_file![absolute(&expected)].assert_eq(&text);
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
    let closed = content.closed_namespaces.iter().map(String::as_str);
    let mut call = request::<R>(content.parent).children(content.children).closed_namespaces(closed);
    for (id, objects) in content.related {
        call = call.related(&id, objects);
    }
    if let Some(config) = &content.config {
        call = call.config(config);
    }
    if content.finalize {
        let cause = match content.cause {
            Cause::Deleted => FinalizeCause::Deleted,
            Cause::LeftSelector => FinalizeCause::LeftSelector,
            Cause::LeftNamespaces => FinalizeCause::LeftNamespaces,
        };
        call = call.finalize_with(cause, content.namespace_terminating);
    }
    if let Some(kinds) = content.kinds {
        let kind = |KindName { api_version, kind }| raw::Kind { api_version, name: kind };
        call.request.kinds = kinds.into_iter().map(kind).collect();
    }
    if let Some(at) = content.at {
        let at = humantime::parse_rfc3339(&at).unwrap_or_else(|error| fail(file, error));
        call = call.at(at.duration_since(std::time::UNIX_EPOCH).unwrap_or_default());
    }
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Case { expected: file.with_file_name(format!("{name}.answer.yaml")), name, call }
}

/// A response for review, without empty fields.
fn document((response, calls): Outcome) -> Value {
    let response = match response {
        Ok(response) => response,
        Err(Failure::Invalid(invalid)) => return json!({ "invalid": invalid.to_string() }),
        Err(Failure::Failed(message)) => return json!({ "failed": message }),
    };
    let mut fields = written::response(&response);
    let is_without_options = |options: &Value| options.as_array().is_some_and(|all| all.iter().all(written::is_empty));
    if fields.get("options").is_some_and(is_without_options) {
        fields.remove("options");
    }
    let pairs = |pairs: Vec<(String, String)>| Value::Object(pairs.into_iter().map(|(k, v)| (k, v.into())).collect());
    let measured =
        |Measurement { metric, value, labels }| json!({ "metric": metric, "value": value, "labels": pairs(labels) });
    let others = [
        ("children", response.children.iter().map(|child| json_of(&child.object)).collect()),
        ("status", response.status.as_deref().map(json_of).into()),
        ("logs", calls.logs.into()),
        ("spanAttributes", pairs(calls.span_attributes)),
        ("spanEvents", calls.span_events.into()),
        ("measurements", calls.measurements.into_iter().map(measured).collect()),
    ];
    let others = others.into_iter().filter(|(_, value)| !written::is_empty(value));
    fields.extend(others.map(|(name, value)| (name.to_owned(), value)));
    Value::Object(fields)
}
