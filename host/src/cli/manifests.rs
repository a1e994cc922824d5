//! Reads objects from files: YAML documents, a List, or a JSON array.

use std::path::{Path, PathBuf};
use std::sync::Arc;

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

/// Reads the `spec.config` of a Plugin as JSON: the only document of a file. None without a file.
///
/// # Errors
/// If the file cannot be read, or has not exactly one document.
pub fn config(file: Option<&Path>) -> anyhow::Result<Option<Arc<[u8]>>> {
    let Some(file) = file else { return Ok(None) };
    let mut documents = parsed(file)?;
    match (documents.pop(), documents.is_empty()) {
        (Some(one), true) => Ok(Some(Arc::from(one.to_string().into_bytes()))),
        (Some(_), false) => bail!("{} contains several documents; expected one", file.display()),
        (None, _) => bail!("{} is empty", file.display()),
    }
}

/// Reads objects: YAML documents, or the items of a list.
///
/// # Errors
/// If the file cannot be read, or is not valid YAML.
pub fn documents(file: &Path) -> anyhow::Result<Vec<Value>> {
    Ok(parsed(file)?.into_iter().flat_map(items).collect())
}

/// The YAML documents of a file, without empty ones.
fn parsed(file: &Path) -> anyhow::Result<Vec<Value>> {
    let text = if file == Path::new(STANDARD_INPUT) {
        std::io::read_to_string(std::io::stdin()).context("standard input")?
    } else {
        std::fs::read_to_string(file).with_context(|| format!("file {}", file.display()))?
    };
    let mut documents: Vec<Value> =
        serde_saphyr::from_multiple(&text).with_context(|| format!("{} is not valid YAML", file.display()))?;
    documents.retain(|document| !document.is_null());
    Ok(documents)
}

/// The items of a `List`, the elements of an array, or the document itself.
fn items(document: Value) -> Vec<Value> {
    let is_list = document.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
    match document {
        Value::Array(items) => items,
        document => match document.get("items").and_then(Value::as_array).filter(|_| is_list) {
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
    fn object_with_a_field_items_is_one_object_and_a_config_with_one_reaches_the_plugin_as_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("value");
        std::fs::write(&file, "items: [{name: a}]").expect("written");
        assert_eq!(documents(&file).expect("documents"), [json!({"items": [{"name": "a"}]})]);
        assert_eq!(config(Some(&file)).expect("a config").as_deref(), Some(&br#"{"items":[{"name":"a"}]}"#[..]));
        std::fs::write(&file, "[a, b]").expect("written");
        assert_eq!(config(Some(&file)).expect("a config").as_deref(), Some(&br#"["a","b"]"#[..]));
        assert_eq!(config(None).expect("no config"), None);
        for text in ["", "a: 1\n---\nb: 2\n"] {
            std::fs::write(&file, text).expect("written");
            assert!(config(Some(&file)).is_err(), "{text}");
        }
    }

    #[test]
    fn standard_input_may_be_named_once() {
        let files = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert!(check_standard_input(&files(&["a", "-", "b"])).is_ok());
        assert!(check_standard_input(&files(&["-", "a", "-"])).is_err());
    }
}
