//! Prints what is more than a line (`windlass_engine::output`): texts for people, objects as YAML for people and kubectl, JSON for
//! machines.
//!
//! What is printed may contain text of components, registries, recordings or the cluster, so nothing leaves this module with
//! characters that control a terminal. `tests/tidy` checks that no other module writes to standard output or standard error,
//! apart from a few whose reasons it lists.

use std::collections::BTreeSet;
use std::io::{self, Write as _};

use serde_json::Value;
use windlass_core::contract::declared_parent::text;
use windlass_core::value::line::{json, printable};

use super::yaml;

/// Output format of a command that reports something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Report {
    /// Text for people; scripts should use JSON
    Text,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

/// Output format of a command that prints Kubernetes objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Objects {
    /// YAML documents
    Yaml,
    /// JSON, several objects as a List
    Json,
    /// One line per object, as in configmap/echo
    Name,
}

/// Where a dry run is checked, as for kubectl. The help of each flag says what that means for its command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum DryRun {
    Client,
    Server,
}

/// The reader of standard output, such as `head`, has closed it.
#[derive(Debug, thiserror::Error)]
#[error("standard output was closed")]
pub struct Closed;

/// Why output could not be written: [`Closed`], or the error itself.
pub fn failed(error: io::Error) -> anyhow::Error {
    if error.kind() == io::ErrorKind::BrokenPipe { Closed.into() } else { error.into() }
}

/// Writes text to standard output, whose lines are the caller's: newlines stay. `print!` would panic if standard output is
/// closed.
///
/// # Errors
/// If standard output cannot be written.
pub fn write(text: &str) -> anyhow::Result<()> {
    io::stdout().write_all(printable(text).as_bytes()).map_err(failed)
}

/// Prints a report, whose text and value are made only if they are printed.
///
/// # Errors
/// As for [`print_objects`].
pub fn print_report(
    format: Report,
    text: impl FnOnce() -> String,
    value: impl FnOnce() -> Value,
) -> anyhow::Result<()> {
    match format {
        Report::Text => write(&text()),
        Report::Json => print_objects(&[value()], Objects::Json),
        Report::Yaml => print_objects(&[value()], Objects::Yaml),
    }
}

/// Prints Kubernetes objects: YAML documents, JSON (a `List` if there are several), or their names.
///
/// # Errors
/// If an object cannot be serialized, or standard output cannot be written.
pub fn print_objects(objects: &[Value], format: Objects) -> anyhow::Result<()> {
    let as_json = |value: &Value| anyhow::Ok(format!("{}\n", json(&serde_json::to_string_pretty(value)?)));
    match (format, objects) {
        (Objects::Yaml, all) => write(&all.iter().map(yaml::document).collect::<Vec<_>>().join("---\n")),
        (Objects::Json, [one]) => write(&as_json(one)?),
        (Objects::Json, all) => write(&as_json(&list_of(all))?),
        (Objects::Name, all) => {
            // As `kubectl -o name`: the resource in lower case, with its group.
            for object in all {
                let kind = text(object, "/kind").to_lowercase();
                let group = text(object, "/apiVersion").split_once('/').map(|(group, _)| format!(".{group}"));
                out!("{kind}{}/{}", group.unwrap_or_default(), text(object, "/metadata/name"));
            }
            Ok(())
        }
    }
}

/// These names, sorted and each once, as a list for messages; none if there is no name.
pub fn list_of_names<T: AsRef<str> + Ord>(names: impl IntoIterator<Item = T>) -> Option<String> {
    let unique: BTreeSet<_> = names.into_iter().collect();
    (!unique.is_empty()).then(|| unique.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", "))
}

/// A `List` of these objects.
pub fn list_of(values: &[Value]) -> Value {
    serde_json::json!({"apiVersion": "v1", "kind": "List", "items": values})
}
