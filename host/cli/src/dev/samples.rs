//! Applies the sample objects of a project, and deletes them.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use kube::api::{DeleteParams, PatchParams};
use kube::core::{DynamicObject, GroupVersionKind};
use kube::discovery::{self, Scope};
use kube::{Client, ResourceExt as _};
use serde_json::Value;
use windlass_engine::cluster::discovery::is_missing;

use super::FIELD_MANAGER;
use super::cluster::{MADE_BY, existing, is_of_dev, wait_until_gone};
use crate::applied::{Target, api, apply, describe, metadata};
use crate::connect::plain;
use crate::deleted::{Deletion, delete};
use crate::manifests::documents;

/// The project's sample, if the user names no other file.
const DEFAULT: &str = "sample.yaml";

/// The files of samples: those that the user names, or else the project's, if it exists.
pub fn files(named: &[PathBuf], project: &Path) -> Vec<PathBuf> {
    if !named.is_empty() {
        return named.to_vec();
    }
    Some(project.join(DEFAULT)).filter(|file| file.is_file()).into_iter().collect()
}

/// Applies the objects of a file, and returns their names. A namespaced object without a namespace gets this one. An object
/// that the command has not created gets no label, so that a cleanup keeps it.
///
/// # Errors
/// If the file cannot be read, or an object cannot be applied.
pub async fn apply_file(client: &Client, file: &Path, namespace: &str) -> anyhow::Result<Vec<String>> {
    let mut applied = Vec::new();
    for object in documents(file)? {
        let (api, mut object) = target(client, object, namespace).await?;
        let what = describe(&object);
        let before = existing(&api, &object.name_any(), &what).await?;
        let is_own = before.is_none_or(|before| is_of_dev(&before));
        if is_own {
            // The field manager alone is no mark: it goes when another one sets all fields of a small object.
            object.labels_mut().insert(MADE_BY.to_owned(), FIELD_MANAGER.to_owned());
        }
        apply(&(api, object), PatchParams::apply(FIELD_MANAGER)).await?;
        applied.push(if is_own { what } else { format!("{what} (existed before; --cleanup keeps it)") });
    }
    Ok(applied)
}

/// Deletes the objects of a file that `windlass dev` has created, and waits until they are gone. Returns their names.
///
/// # Errors
/// If the file cannot be read, or an object cannot be deleted.
pub async fn delete_file(client: &Client, file: &Path, namespace: &str) -> anyhow::Result<Vec<String>> {
    let mut deleted = Vec::new();
    for object in documents(file)? {
        let (api, object) = match target(client, object, namespace).await {
            Ok(target) => target,
            // A kind that is gone has no objects.
            Err(error) if error.is::<NotServed>() => continue,
            Err(error) => return Err(error),
        };
        let (name, what) = (object.name_any(), describe(&object));
        let Some(found) = metadata(&api, &name, &what).await?.filter(is_of_dev) else { continue };
        let uid = found.uid.unwrap_or_default();
        let deletion = delete(&api, &name, Some(uid.clone()), DeleteParams::default()).await;
        if deletion.with_context(|| format!("{what} was not deleted"))? == Deletion::Accepted {
            wait_until_gone(&api, &name, &uid, &what).await?;
            deleted.push(what);
        }
    }
    Ok(deleted)
}

/// The cluster does not serve a kind.
#[derive(Debug, thiserror::Error)]
#[error("the cluster does not serve {0}")]
struct NotServed(String);

/// The object with its API, in this namespace if it is namespaced and names none.
async fn target(client: &Client, object: Value, namespace: &str) -> anyhow::Result<Target> {
    let mut object: DynamicObject = serde_json::from_value(object).context("a document is not a Kubernetes object")?;
    let gvk = GroupVersionKind::try_from(object.types.clone().unwrap_or_default())?;
    let (resource, capabilities) = match discovery::pinned_kind(client, &gvk).await {
        Ok(found) => found,
        Err(error) if is_missing(&error) => return Err(NotServed(gvk.kind).into()),
        Err(error) => return Err(plain(error)).with_context(|| format!("kind {} could not be looked up", gvk.kind)),
    };
    if capabilities.scope == Scope::Namespaced {
        object.metadata.namespace.get_or_insert_with(|| namespace.to_owned());
    }
    Ok((api(client, &resource, object.metadata.namespace.as_deref()), object))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_of_the_project_is_applied_unless_the_user_names_other_files() {
        let project = tempfile::tempdir().expect("a folder");
        assert!(files(&[], project.path()).is_empty());
        let sample = project.path().join("sample.yaml");
        std::fs::write(&sample, "").expect("written");
        assert_eq!(files(&[], project.path()), [sample]);
        let other = PathBuf::from("other.yaml");
        assert_eq!(files(std::slice::from_ref(&other), project.path()), [other]);
    }
}
