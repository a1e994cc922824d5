//! The input of a rendering: parents, existing children, related objects and config from files.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{bail, ensure};
use serde_json::Value;
use windlass_core::contract::declared_parent::text;
use windlass_core::object::Object;
use windlass_core::value::ids::Gvk;
use windlass_engine::telemetry::one_line;

use super::super::manifests::{config, documents};
use super::super::offline::{gvk_of, related_object};
use super::Args;

/// A parent, and the file that it was read from.
pub struct Given {
    /// The file.
    pub file: PathBuf,
    /// The parent.
    pub object: Value,
}

/// What the parents are rendered with.
pub struct Input {
    children: Vec<Value>,
    /// Objects that the plugin may require.
    pub related: Vec<Arc<Object>>,
    /// The Plugin's config.
    pub config: Option<Arc<[u8]>>,
    /// Whether there are several parents, so that messages and output must name them.
    pub has_several: bool,
}

impl Input {
    /// Reads the files that the flags name, for several parents or one. `beside` are the other objects in the parents'
    /// files.
    ///
    /// # Errors
    /// If a file cannot be read, or holds no object.
    pub fn read(args: &Args, beside: Vec<Value>, has_several: bool) -> anyhow::Result<Self> {
        let children = args.children.as_deref().map(documents).transpose()?.unwrap_or_default();
        let mut related = beside;
        if let Some(file) = &args.related {
            related.extend(documents(file)?);
        }
        let related = related.into_iter().enumerate().map(|(at, object)| related_object(at, object));
        let related = related.collect::<anyhow::Result<Vec<_>>>()?;
        Ok(Self { children, related, config: config(args.config.as_deref())?, has_several })
    }

    /// The existing children of a parent: all if there is one parent only.
    pub fn children_of(&self, parent: &Value) -> Vec<Value> {
        let is_child = |child: &&Value| !self.has_several || is_controlled_by(child, parent);
        self.children.iter().filter(is_child).cloned().collect()
    }

    /// Notes children that belong to none of the parents.
    pub fn report_orphans(&self, parents: &[Given]) {
        let is_orphan = |child: &&Value| !parents.iter().any(|parent| is_controlled_by(child, &parent.object));
        let orphans = self.children.iter().filter(is_orphan).count();
        if orphans > 0 {
            err!("note: {orphans} of the existing children name none of the parents as their controller; left out");
        }
    }
}

/// Whether the child's controlling ownerReference names this parent, in the child's namespace or cluster-scoped.
fn is_controlled_by(child: &Value, parent: &Value) -> bool {
    let namespace = text(parent, "/metadata/namespace");
    let owners = child.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let names_parent = |owner: &&Value| {
        owner.get("controller") == Some(&Value::Bool(true))
            && gvk_of(owner).group_kind() == gvk_of(parent).group_kind()
            && text(owner, "/name") == text(parent, "/metadata/name")
    };
    (namespace.is_empty() || namespace == text(child, "/metadata/namespace"))
        && owners.into_iter().flatten().any(|owner| names_parent(&owner))
}

/// Kind, namespace and name of an object, for messages.
pub fn title(object: &Value) -> String {
    let line = |pointer: &str| one_line(text(object, pointer));
    match &*line("/metadata/namespace") {
        "" => format!("{} {}", line("/kind"), line("/metadata/name")),
        namespace => format!("{} {namespace}/{}", line("/kind"), line("/metadata/name")),
    }
}

/// Reads the parents of all files, in their order, and the other objects of the files.
///
/// # Errors
/// If a file cannot be read or is empty, if an object has another version of the parent kind, or if there is no parent.
pub fn read_parents(files: &[PathBuf], kind: &Gvk) -> anyhow::Result<(Vec<Given>, Vec<Value>)> {
    let (mut parents, mut others) = (Vec::new(), Vec::new());
    for file in files {
        let all = documents(file)?;
        ensure!(!all.is_empty(), "{} is empty", file.display());
        for object in all {
            let found = gvk_of(&object);
            if found == *kind {
                parents.push(Given { file: file.clone(), object });
            } else if found.group_kind() == kind.group_kind() {
                let (title, file) = (title(&object), file.display());
                bail!("{title} in {file} has version {} and not {}", found.version, kind.version);
            } else {
                others.push(object);
            }
        }
    }
    if parents.is_empty() {
        let files: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
        let first = others.first().map(title).unwrap_or_default();
        bail!("no object of {kind} in {}; the first object is {first}", files.join(", "));
    }
    Ok((parents, others))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn echo(name: &str) -> Value {
        json!({"apiVersion": "g.dev/v1", "kind": "Echo", "metadata": {"name": name, "namespace": "shop"}})
    }

    #[test]
    fn parents_are_found_among_the_objects_of_all_files_in_their_order() {
        let kind = Gvk::from_api_version("g.dev/v1", "Echo");
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, objects: &[&Value]| {
            let path = folder.path().join(name);
            std::fs::write(&path, json!(objects).to_string()).expect("written");
            path
        };
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
        let (b, a, c) = (echo("b"), echo("a"), echo("c"));
        let files = [file("1", &[&b, &secret, &a]), file("2", &[&c]), file("related", &[&secret])];
        let (parents, others) = read_parents(&files, &kind).expect("parents");
        assert_eq!(
            parents.iter().map(|one| title(&one.object)).collect::<Vec<_>>(),
            ["Echo shop/b", "Echo shop/a", "Echo shop/c"]
        );
        assert_eq!(others, [secret.clone(), secret.clone()], "a file may have no parent");
        let mut other_version = echo("a");
        other_version["apiVersion"] = json!("g.dev/v1beta1");
        for (wrong, words) in [
            (file("3", &[]), "is empty"),
            (file("4", &[&secret]), "the first object is Secret s"),
            (file("5", &[&a, &other_version]), "has version v1beta1 and not v1"),
        ] {
            let error = read_parents(&[wrong], &kind).err().expect("no parent").to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn existing_children_belong_to_the_parent_that_their_owner_reference_names() {
        let pod = |namespace: &str, owner: &str| {
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": namespace, "ownerReferences": [
                {"apiVersion": "g.dev/v1beta1", "kind": "Echo", "name": owner, "uid": "1", "controller": true}]}})
        };
        assert!(is_controlled_by(&pod("shop", "a"), &echo("a")));
        assert!(!is_controlled_by(&pod("shop", "b"), &echo("a")), "another name");
        assert!(!is_controlled_by(&pod("other", "a"), &echo("a")), "another namespace");
        let input =
            |has_several| Input { children: vec![pod("shop", "b")], related: Vec::new(), config: None, has_several };
        assert_eq!(input(true).children_of(&echo("a")).len(), 0);
        assert_eq!(input(false).children_of(&echo("a")).len(), 1, "a single parent owns all children");
    }
}
