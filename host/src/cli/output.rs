//! Prints objects: YAML for people and kubectl, JSON for machines.

use std::io::{self, Write as _};

use serde_json::Value;

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// YAML
    Yaml,
    /// JSON
    Json,
}

/// Where a dry run is checked, as for kubectl.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum DryRun {
    /// Print the objects
    Client,
    /// Let the API server validate the objects first; for `remove`: the same as `client`
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

/// Writes text to standard output. `print!` would panic if standard output is closed.
///
/// # Errors
/// If standard output cannot be written.
pub fn write(text: &str) -> anyhow::Result<()> {
    io::stdout().write_all(text.as_bytes()).map_err(failed)
}

/// Prints one value.
///
/// # Errors
/// If the value cannot be serialized, or standard output cannot be written.
pub fn print(value: &Value, format: Format) -> anyhow::Result<()> {
    print_all(std::slice::from_ref(value), format)
}

/// Prints Kubernetes objects: YAML documents, or a JSON `List` if there are several.
///
/// # Errors
/// As for [`print()`].
pub fn print_all(values: &[Value], format: Format) -> anyhow::Result<()> {
    let text = match (format, values) {
        (Format::Json, [one]) => format!("{}\n", serde_json::to_string_pretty(one)?),
        (Format::Json, all) => format!("{}\n", serde_json::to_string_pretty(&list_of(all))?),
        (Format::Yaml, all) => {
            let documents: Result<Vec<_>, _> = all.iter().map(serde_saphyr::to_string).collect();
            documents?.iter().map(|document| ensure_newline(document)).collect::<Vec<_>>().join("---\n")
        }
    };
    write(&text)
}

/// Prints values as a `List`, also a single one.
///
/// # Errors
/// As for [`print()`].
pub fn print_list(values: &[Value], format: Format) -> anyhow::Result<()> {
    print(&list_of(values), format)
}

fn list_of(values: &[Value]) -> Value {
    serde_json::json!({"apiVersion": "v1", "kind": "List", "items": values})
}

fn ensure_newline(text: &str) -> String {
    format!("{}\n", text.trim_end())
}
