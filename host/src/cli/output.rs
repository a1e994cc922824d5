//! How commands print: YAML for people and kubectl, JSON for machines.

use serde_json::Value;

/// Format of what is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// YAML
    Yaml,
    /// JSON
    Json,
}

/// How far a command goes that changes nothing, as with kubectl.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum DryRun {
    /// Print what would be sent
    Client,
    /// Have the API server check it, then print it
    Server,
}

/// Prints one value.
///
/// # Errors
/// If it cannot be written in that format, or standard output is closed.
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
        (Format::Json, all) => {
            let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": all});
            format!("{}\n", serde_json::to_string_pretty(&list)?)
        }
        (Format::Yaml, all) => {
            let documents: Result<Vec<_>, _> = all.iter().map(serde_saphyr::to_string).collect();
            documents?.iter().map(|document| ensure_newline(document)).collect::<Vec<_>>().join("---\n")
        }
    };
    std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes())?;
    Ok(())
}

fn ensure_newline(text: &str) -> String {
    format!("{}\n", text.trim_end())
}
