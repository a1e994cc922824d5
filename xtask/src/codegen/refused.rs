//! host/conformance/README.md: the table of responses that the host refuses.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;

/// The page. Its text is written by hand; the table at its end is generated.
pub const PAGE: &str = "host/conformance/README.md";
const CASES: &str = "host/conformance/refused.json";
/// The line before the table, which ends with the page.
const MARKER: &str = "<!-- refused -->\n";

/// The page with the current table.
///
/// # Errors
/// If a file cannot be read, or if the page has no place for the table.
pub fn page(root: &Path) -> anyhow::Result<String> {
    let read = |file: &str| fs::read_to_string(root.join(file)).with_context(|| format!("{file} cannot be read"));
    let cases: Vec<Value> = serde_json::from_str(&read(CASES)?).with_context(|| format!("{CASES} is malformed"))?;
    let text = read(PAGE)?;
    let (text, _) = text.split_once(MARKER).with_context(|| format!("{PAGE} has no line {}", MARKER.trim_end()))?;
    let mut page = format!("{text}{MARKER}| response | the host's sentence |\n|---|---|\n");
    for case in cases {
        let text = |field: &str| {
            case.get(field).and_then(Value::as_str).with_context(|| format!("{CASES}: a case has no {field}"))
        };
        writeln!(page, "| {} | {} |", text("description")?, text("refused")?)?;
    }
    Ok(page)
}
