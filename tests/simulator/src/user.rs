//! What users do to the cluster.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_api_model::{ApiServer, Call, Id, Response};
use windlass_core::object::names::{ANNOTATION_ALLOW_DELETION, ANNOTATION_SUSPEND, LABEL_PLUGIN};
use windlass_engine::clock;

use crate::expected;
use crate::history::{Act, Child, Fail, Kind, STAGED, Version};
use crate::network::Network;
use crate::objects::{
    child_name, child_path, collection_of, collection_of_parent, content_of, parent_path, path_of, path_of_named,
    path_of_target, plugin_path, script_of,
};
use crate::setup::{CHILDREN, Compiled, NAMESPACE, OPERATORS, SHARED, TOKEN, by_user};

/// Finalizer of a user.
const FINALIZER: &str = "example.com/held";
/// Largest number of keys that the ConfigMap has which parents may require.
const KEYS: u16 = 7;
/// The path of the ConfigMap with the component of the first Plugin.
const SOURCE: &str = "/api/v1/namespaces/windlass-system/configmaps/puppet";

/// A user, whose requests arrive at once.
#[derive(Clone, Copy)]
pub struct User<'a> {
    pub network: &'a Network,
    pub compiled: &'a Compiled,
}

impl User<'_> {
    /// Does what a history says. Returns false if it is nothing that a user does.
    ///
    /// # Errors
    /// If the history says what cannot be.
    pub fn does(&self, what: &Act) -> anyhow::Result<bool> {
        match what {
            Act::Apply { parent, children, fail, reads } => self.apply(*parent, children, *fail, *reads),
            Act::ApplySpec { parent, spec } => self.apply_spec(*parent, spec),
            Act::Create { path, object, count } => {
                let text = object.to_string();
                for number in 0..*count {
                    let object = serde_json::from_str(&text.replace("${number}", &number.to_string()))?;
                    self.send("POST", path, Some(object));
                }
            }
            Act::Patch { path, patch } => drop(self.send("PATCH", path, Some(patch.clone()))),
            Act::Plugin { spec } => {
                self.send("PATCH", &plugin_path(OPERATORS[0].name), Some(json!({ "spec": spec })));
            }
            Act::Component { version } => drop(self.send("PATCH", SOURCE, Some(self.compiled.source(*version)))),
            Act::Rival => self.create_rival(),
            Act::SuspendParent { parent, suspended } => {
                let annotations = json!({ (ANNOTATION_SUSPEND): suspended.then_some("true") });
                self.send("PATCH", &parent_path(*parent), Some(json!({ "metadata": { "annotations": annotations } })));
            }
            Act::ParentFinalizer { parent, is_set } => self.set_finalizer(&parent_path(*parent), *is_set),
            Act::ChildFinalizer { parent, child, is_set } => {
                self.set_finalizer(&child_path(*parent, *child), *is_set);
            }
            Act::Share { keys } => self.share(*keys),
            Act::DeleteNamespace => self.delete(&format!("/api/v1/namespaces/{NAMESPACE}"), ""),
            Act::Delete { parent, policy } => self.delete(&parent_path(*parent), policy),
            Act::DeleteChild { parent, child } => self.delete_if(*parent, *child, true),
            Act::Vacate { parent, child } => self.delete_if(*parent, *child, false),
            Act::EditChild { parent, child } => {
                let content = content_of(*child);
                self.patch_child(*parent, *child, content);
            }
            Act::Take { parent, child } => self.take(*parent, *child),
            Act::Unlabel { parent, child } => {
                self.patch_child(*parent, *child, json!({ "metadata": { "labels": null } }));
            }
            Act::Disown { parent, child } => {
                self.patch_child(*parent, *child, json!({ "metadata": { "ownerReferences": null } }));
            }
            Act::Occupy { parent, child, plugin, owner, token } => {
                self.occupy(*parent, *child, plugin, *owner, *token);
            }
            Act::Copy { parent, child, name } => self.copy(*parent, *child, *name),
            Act::Swap { parent, child } => {
                self.delete_if(*parent, *child, true);
                self.occupy(*parent, *child, "", None, false);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub fn send(&self, method: &str, path: &str, body: Option<Value>) -> Response {
        self.network.send(&by_user(method, path, body, clock::date()))
    }

    /// An object as it is now; null if there is none.
    pub fn get(&self, path: &str) -> Value {
        let found = self.send("GET", path, None);
        if found.code == 200 { found.body } else { Value::Null }
    }

    fn apply(&self, parent: u8, children: &[Child], fail: Option<Fail>, reads: bool) {
        let scripts: Vec<_> = children.iter().copied().map(script_of).collect();
        let fail = fail.map(|fail| match fail {
            Fail::Invalid => json!({ "invalid": "as the history says" }),
            Fail::Retry => json!({ "retry": 3000 }),
            Fail::Failed => json!({ "failed": "as the history says" }),
            Fail::Trap => json!("trap"),
        });
        let required =
            json!({ "id": SHARED, "apiVersion": "v1", "kind": "ConfigMap", "namespace": NAMESPACE, "name": SHARED });
        let (required, from) = if reads { (json!([required]), json!(SHARED)) } else { (json!([]), Value::Null) };
        self.apply_spec(
            parent,
            &json!({
                "children": scripts, "fail": fail, "requirements": required, "childrenFrom": from,
                "status": parent.is_multiple_of(2).then_some("reflect"),
                "finalize": { "children": [], "finalizedWhen": "childrenGone" },
            }),
        );
    }

    fn apply_spec(&self, parent: u8, spec: &Value) {
        let path = parent_path(parent);
        let changed = self.send("PATCH", &path, Some(json!({ "spec": spec })));
        if changed.code == 404 {
            let name = format!("p{parent}");
            let created = json!({ "metadata": { "name": name }, "spec": spec });
            let collection = collection_of_parent(parent);
            if self.send("POST", &collection, Some(created.clone())).code == 404 {
                self.send("POST", "/api/v1/namespaces", Some(json!({ "metadata": { "name": NAMESPACE } })));
                self.send("POST", &collection, Some(created));
            }
        }
    }

    /// Sets the number of keys of the ConfigMap that parents may require.
    fn share(&self, keys: Option<u16>) {
        let collection = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
        let path = format!("{collection}/{SHARED}");
        let Some(keys) = keys else { return self.delete(&path, "") };
        let data: BTreeMap<_, _> =
            (0..keys.max(KEYS)).map(|key| (format!("k{key}"), (key < keys).then_some("v"))).collect();
        if self.send("PATCH", &path, Some(json!({ "data": data }))).code == 404 {
            let data: BTreeMap<_, _> = data.into_iter().filter(|(_, value)| value.is_some()).collect();
            self.send("POST", &collection, Some(json!({ "metadata": { "name": SHARED }, "data": data })));
        }
    }

    /// Adds a user's finalizer to an object, or takes it off.
    fn set_finalizer(&self, path: &str, is_set: bool) {
        let found = self.send("GET", path, None).body;
        let list = found.pointer("/metadata/finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
        if found.pointer("/metadata/name").is_some() && list.contains(&FINALIZER.into()) != is_set {
            let others = list.into_iter().filter(|one| one != FINALIZER);
            let list: Vec<_> = others.chain(is_set.then(|| FINALIZER.into())).collect();
            self.send("PATCH", path, Some(json!({ "metadata": { "finalizers": list } })));
        }
    }

    fn occupy(&self, parent: u8, child: Child, plugin: &str, owner: Option<u8>, is_token: bool) {
        let mut object = content_of(child);
        if child.kind == Kind::Secret {
            object["type"] = if is_token { TOKEN } else { "Opaque" }.into();
        }
        object["metadata"] = json!({ "name": child_name(parent, child) });
        let owner = owner.map(|owner| self.send("GET", &parent_path(owner), None)).filter(|found| found.code == 200);
        if let Some(Response { body: owner, .. }) = owner {
            let text = |at| expected::text(&owner, at);
            object["metadata"]["ownerReferences"] = json!([{
                "apiVersion": text("/apiVersion"), "kind": text("/kind"), "name": text("/metadata/name"),
                "uid": text("/metadata/uid"), "controller": true,
            }]);
        }
        if !plugin.is_empty() {
            object["metadata"]["labels"] = json!({ LABEL_PLUGIN: plugin });
        }
        self.send("POST", &collection_of(child.kind), Some(object));
    }

    fn copy(&self, parent: u8, child: Child, name: u8) {
        let found = self.send("GET", &child_path(parent, child), None);
        if found.code != 200 {
            return;
        }
        let mut object = content_of(child);
        let part = |field: &str| found.body.pointer(&format!("/metadata/{field}")).cloned().unwrap_or_default();
        let mut annotations = part("annotations");
        annotations[expected::COPIED] = "true".into();
        object["metadata"] = json!({
            "name": child_name(parent, Child { name, ..child }), "labels": part("labels"),
            "annotations": annotations, "ownerReferences": part("ownerReferences"),
        });
        self.send("POST", &collection_of(child.kind), Some(object));
    }

    fn delete(&self, path: &str, policy: &str) {
        let options = (!policy.is_empty()).then(|| json!({ "propagationPolicy": policy }));
        self.send("DELETE", path, options);
    }

    /// Deletes an object with the name of a child, if it is a child, or if it is none.
    fn delete_if(&self, parent: u8, child: Child, is_child: bool) {
        let path = child_path(parent, child);
        let found = self.send("GET", &path, None);
        if found.code == 200 && expected::has_owner(&found.body) == is_child {
            self.delete(&path, "");
        }
    }

    fn patch_child(&self, parent: u8, child: Child, change: Value) {
        let path = child_path(parent, child);
        let found = self.send("GET", &path, None);
        if found.code == 200 && expected::has_owner(&found.body) {
            self.send("PATCH", &path, Some(change));
        }
    }

    fn take(&self, parent: u8, child: Child) {
        let path = child_path(parent, child);
        if expected::has_owner(&self.send("GET", &path, None).body) {
            let mut script = script_of(child);
            script["metadata"] = json!({ "name": path.rsplit('/').next() });
            let call = by_user("PATCH", &path, Some(script), clock::date());
            let (query, content_type) =
                ("fieldManager=argocd&force=true".to_owned(), "application/apply-patch+yaml".to_owned());
            self.network.send(&Call { query, content_type, ..call });
        }
    }
    fn create_rival(&self) {
        let account = json!({ "metadata": { "name": "windlass-plugin-a-rival" } });
        self.send("POST", "/api/v1/namespaces/windlass-system/serviceaccounts", Some(account));
        let source = json!({ "configMap": { "namespace": "windlass-system", "name": OPERATORS[0].name } });
        let plugin = json!({ "metadata": { "name": "a-rival" }, "spec": { "source": source, "installCRD": true } });
        self.send("POST", "/apis/windlass.dev/v1alpha1/plugins", Some(plugin));
    }

    /// Undoes what users did to the Plugin, and takes their marks off parents and children: the end of a history is about the parents.
    pub fn undo(&self) {
        let unset =
            ["config", "suspend", "adopt", "deletionGuard", "limits", "namespaceSelector", "concurrency", "grants"];
        let spec: BTreeMap<_, _> = unset.iter().map(|field| (field, Value::Null)).collect();
        self.send("PATCH", &plugin_path(OPERATORS[0].name), Some(json!({ "spec": spec })));
        self.send("PATCH", SOURCE, Some(self.compiled.source(Version::Whole)));
        for parent in 0..=STAGED {
            self.set_finalizer(&parent_path(parent), false);
            let annotations = json!({ (ANNOTATION_SUSPEND): null });
            self.send("PATCH", &parent_path(parent), Some(json!({ "metadata": { "annotations": annotations } })));
        }
        let ids = |server: &mut ApiServer| {
            CHILDREN.iter().flat_map(|of| server.objects_of(of)).map(|(id, _)| id.clone()).collect()
        };
        let children: Vec<Id> = self.network.with_server(ids);
        for id in children {
            self.set_finalizer(&path_of(&id), false);
        }
    }

    /// Does what the conditions of the Plugins and of parents tell a user: allows the deletions that are blocked, and deletes a child with
    /// fields of others.
    pub fn follow_conditions(&self) {
        for message in self.messages() {
            if let Some((path, value)) = told(&message) {
                self.allow(&path, value);
            }
            if let Some((child, _)) = message.split_once(" was not applied, because other field managers own") {
                self.delete(&path_of_named(child), "");
            }
        }
    }

    /// Sets the annotation that allows deletions to a wrong value, where they are blocked. Returns the paths of these objects.
    pub fn allow_wrongly(&self) -> Vec<String> {
        let paths: Vec<_> = self.messages().iter().filter_map(|message| Some(told(message)?.0)).collect();
        for path in &paths {
            self.allow(path, "wrong");
        }
        paths
    }

    /// What does not say that the value of its annotation is wrong.
    pub fn not_told(&self, paths: &[String]) -> Vec<String> {
        let is_told = |path: &&String| {
            messages_of(&self.get(path)).any(|message| message.contains("annotation's value \"wrong\""))
        };
        paths.iter().filter(|path| !is_told(path)).map(|path| format!("{path} accepts a wrong value")).collect()
    }

    fn allow(&self, path: &str, value: &str) {
        let annotations = json!({ (ANNOTATION_ALLOW_DELETION): value });
        self.send("PATCH", path, Some(json!({ "metadata": { "annotations": annotations } })));
    }

    /// The messages of the conditions of the Plugins and of parents.
    fn messages(&self) -> Vec<String> {
        let plugins = OPERATORS.iter().map(|operator| plugin_path(operator.name));
        let paths = (0..=STAGED).map(parent_path).chain(plugins);
        let objects: Vec<_> = paths.map(|path| self.get(&path)).collect();
        objects.iter().flat_map(messages_of).map(str::to_owned).collect()
    }
}

/// The messages of an object's conditions.
pub fn messages_of(object: &Value) -> impl Iterator<Item = &str> {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    conditions.filter_map(|condition| condition.get("message")?.as_str())
}

/// The path of the object, and the value of its annotation, by which a message tells a user to allow deletions.
fn told(message: &str) -> Option<(String, &str)> {
    let (before, after) = message.split_once(&format!(" {ANNOTATION_ALLOW_DELETION}="))?;
    let target = before.rsplit("kubectl annotate ").next().unwrap_or_default();
    Some((path_of_target(target), after.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default()))
}
