//! Reads objects from files: YAML documents, a List, or a JSON array.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use super::{files, yaml};

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
    let mut objects = Vec::new();
    for document in parsed(file)? {
        objects.extend(items(document).with_context(|| format!("file {}", file.display()))?);
    }
    Ok(objects)
}

/// The YAML documents of a file, without empty ones.
fn parsed(file: &Path) -> anyhow::Result<Vec<Value>> {
    let text = if file == Path::new(STANDARD_INPUT) { files::standard_input()? } else { files::text("file", file)? };
    let mut documents = yaml::documents(&text).with_context(|| format!("{} is not valid YAML", file.display()))?;
    documents.retain(|document| !document.is_null());
    Ok(documents)
}

/// The items of a list, the elements of an array, or the document itself. The items of a list of one kind, such as a `PodList`, need
/// not repeat it.
fn items(document: Value) -> anyhow::Result<Vec<Value>> {
    let text = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, list) = (text("apiVersion"), text("kind"));
    match (document, list.strip_suffix("List")) {
        (Value::Array(items), _) => Ok(items),
        (Value::Object(mut fields), Some(kind)) if fields.get("items").is_some_and(Value::is_array) => {
            let Some(Value::Array(mut items)) = fields.remove("items") else { return Ok(Vec::new()) };
            for item in &mut items {
                let Some(fields) = item.as_object_mut() else { bail!("an item of a {list} is not an object: {item}") };
                let has = |name: &str| fields.get(name).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
                if has("kind") && has("apiVersion") {
                    continue;
                }
                ensure!(!kind.is_empty(), "an item of a {list} has no kind or no apiVersion: {item}");
                fields.insert("apiVersion".to_owned(), api_version.clone().into());
                fields.insert("kind".to_owned(), kind.into());
            }
            Ok(items)
        }
        (document, _) => Ok(vec![document]),
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
            r#"{"kind": "A"}{"kind": "B"}"#,
            "kind: A\n---\nkind: B\n---\n",
            "- kind: A\n- kind: B\n",
        ] {
            std::fs::write(&file, text).expect("written");
            assert_eq!(documents(&file).expect("documents"), [json!({"kind": "A"}), json!({"kind": "B"})], "{text}");
        }
    }

    #[test]
    fn items_of_a_list_have_its_kind_unless_they_have_their_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("objects");
        let read = |text: &str| {
            std::fs::write(&file, text).expect("written");
            documents(&file)
        };
        let (pod, own) = (json!({"apiVersion": "v1", "kind": "Pod"}), json!({"apiVersion": "g/v1", "kind": "A"}));
        assert_eq!(
            read("{apiVersion: v1, kind: PodList, items: [{}, {apiVersion: g/v1, kind: A}]}").expect("documents"),
            [pod, own.clone()]
        );
        assert_eq!(read("{kind: List, items: [{apiVersion: g/v1, kind: A}]}").expect("documents"), [own]);
        for text in ["{apiVersion: v1, kind: List, items: [{metadata: {name: a}}]}", "{kind: PodList, items: [a]}"] {
            let error = format!("{:#}", read(text).expect_err("an item without a kind"));
            assert!(error.contains("objects: an item of a"), "{error}");
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
