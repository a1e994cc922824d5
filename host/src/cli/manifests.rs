//! Reads objects from files: YAML documents, a List, or a JSON array.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde_json::Value;

/// The file name that stands for standard input.
const STANDARD_INPUT: &str = "-";

/// Checks that at most one of these files is standard input, which can be read only once.
///
/// # Errors
/// If several are.
pub fn check_standard_input<'a>(files: impl IntoIterator<Item = &'a PathBuf>) -> anyhow::Result<()> {
    let is_standard_input = |file: &&PathBuf| file.as_path() == Path::new(STANDARD_INPUT);
    if files.into_iter().filter(is_standard_input).count() > 1 {
        bail!("several flags name standard input (-), which can be read only once; put all but one input into files");
    }
    Ok(())
}

/// Reads the only YAML document of a file.
///
/// # Errors
/// If the file cannot be read, or has not exactly one document.
pub fn one_document(file: &Path) -> anyhow::Result<Value> {
    let mut documents = documents(file)?;
    match (documents.pop(), documents.is_empty()) {
        (Some(one), true) => Ok(one),
        (Some(_), false) => bail!("{} contains several documents; expected one", file.display()),
        (None, _) => bail!("{} is empty", file.display()),
    }
}

/// Reads YAML documents, or the items of a list.
///
/// # Errors
/// If the file cannot be read, or is not valid YAML.
pub fn documents(file: &Path) -> anyhow::Result<Vec<Value>> {
    let text = if file == Path::new(STANDARD_INPUT) {
        std::io::read_to_string(std::io::stdin()).context("standard input")?
    } else {
        std::fs::read_to_string(file).with_context(|| format!("file {}", file.display()))?
    };
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&text).with_context(|| format!("{} is not valid YAML", file.display()))?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).flat_map(items).collect())
}

/// The items of a `List`, the elements of an array, or the document itself.
fn items(document: Value) -> Vec<Value> {
    match document {
        Value::Array(items) => items,
        document => match document.get("items").and_then(Value::as_array) {
            Some(items) => items.clone(),
            None => vec![document],
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn file_may_contain_documents_a_list_or_an_array() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("objects");
        for text in [
            r#"[{"kind": "A"}, {"kind": "B"}]"#,
            r#"{"kind": "List", "items": [{"kind": "A"}, {"kind": "B"}]}"#,
            "kind: A\n---\nkind: B\n---\n",
            "- kind: A\n- kind: B\n",
        ] {
            std::fs::write(&file, text).expect("written");
            assert_eq!(documents(&file).expect("documents"), [json!({"kind": "A"}), json!({"kind": "B"})], "{text}");
        }
    }

    #[test]
    fn standard_input_may_be_named_once() {
        let files = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert!(check_standard_input(&files(&["a", "-", "b"])).is_ok());
        assert!(check_standard_input(&files(&["-", "a", "-"])).is_err());
    }
}
