//! The request of a step. It depends on the object, because each side has versions and uids of its own.

use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_api_model::Call;

use crate::connection::Send;
use crate::generate::{Expect, Patch, Step, Verb};
use crate::kinds::Kind;
use crate::permissions::ADMIN;

pub struct Request {
    method: Method,
    path: String,
    query: Vec<String>,
    content_type: &'static str,
    body: Value,
    user: &'static str,
}

/// The name of a step's object in the history whose namespace this is.
pub fn name_of(step: &Step, home: &str) -> String {
    match step.kind {
        Kind::Home => home.to_owned(),
        Kind::Namespace => format!("{home}-{}", step.name),
        _ => step.name.to_owned(),
    }
}

/// The path of a step's object.
pub fn path_of(step: &Step, home: &str) -> String {
    format!("{}/{}", step.kind.collection(Some(home)), name_of(step, home))
}

/// A value that no object has.
const WRONG_UID: &str = "00000000-0000-4000-8000-00000000beef";

fn expected(what: Expect, live: Option<&Value>, field: &str) -> Option<Value> {
    let wrong = if field == "uid" { WRONG_UID } else { "1" };
    match what {
        Expect::Nothing => None,
        Expect::Wrong => Some(wrong.into()),
        Expect::Right => Some(live.map_or_else(|| wrong.into(), |live| live["metadata"][field].clone())),
    }
}

impl Request {
    pub fn of(step: &Step, home: &str, live: Option<&Value>) -> Self {
        let status = if step.is_status { "/status" } else { "" };
        let collection = step.kind.collection(Some(home));
        let path = format!("{}{status}", path_of(step, home));
        let (method, path, content_type) = match step.verb {
            Verb::Post | Verb::PostGenerated => (Method::POST, collection, "application/json"),
            Verb::PostElsewhere => (Method::POST, step.kind.collection(Some("missing")), "application/json"),
            Verb::Get => (Method::GET, path, "application/json"),
            Verb::List(_) => (Method::GET, collection, "application/json"),
            Verb::Put | Verb::PutChanged => (Method::PUT, path, "application/json"),
            Verb::MergePatch => (Method::PATCH, path, "application/merge-patch+json"),
            Verb::JsonPatch(_) => (Method::PATCH, path, "application/json-patch+json"),
            Verb::Apply | Verb::ForceApply => (Method::PATCH, path, "application/apply-patch+yaml"),
            Verb::Delete(_) => (Method::DELETE, path, "application/json"),
        };
        let mut query = Vec::new();
        match step.verb {
            Verb::List(selector) => {
                let selector = selector.replace('=', "%3D").replace(' ', "%20").replace('!', "%21");
                query.push(format!("labelSelector={selector}"));
            }
            // With a body, the API server does not read the query.
            Verb::Delete(policy) if !has_options(step) => {
                query.extend(step.is_dry_run.then(|| "dryRun=All".to_owned()));
                query.extend((!policy.is_empty()).then(|| format!("propagationPolicy={policy}")));
            }
            Verb::Get | Verb::Delete(_) => {}
            _ => {
                query.push(format!("fieldManager={}", step.manager));
                query.extend(step.is_dry_run.then(|| "dryRun=All".to_owned()));
                query.extend((step.verb == Verb::ForceApply).then(|| "force=true".to_owned()));
            }
        }
        Self { method, path, query, content_type, body: body_of(step, home, live), user: step.user }
    }

    pub fn to_api_server(&self) -> Send {
        let url = format!("{}?{}", self.path, self.query.join("&"));
        Send {
            method: self.method.clone(),
            url,
            content_type: self.content_type,
            body: self.body.clone(),
            user: Some(self.user).filter(|user| *user != ADMIN),
        }
    }

    pub fn to_model(&self) -> Call {
        Call {
            method: self.method.to_string(),
            path: self.path.clone(),
            query: self.query.join("&"),
            content_type: self.content_type.to_owned(),
            metadata_only: false,
            user: self.user.to_owned(),
            body: Some(self.body.clone()).filter(|body| !body.is_null()),
            now: Timestamp::now(),
        }
    }
}

fn body_of(step: &Step, home: &str, live: Option<&Value>) -> Value {
    let (version, uid) = (expected(step.version, live, "resourceVersion"), expected(step.uid, live, "uid"));
    match step.verb {
        Verb::Get | Verb::List(_) => Value::Null,
        Verb::JsonPatch(patch) => operations(patch, step, version),
        Verb::Delete(_) if !has_options(step) => Value::Null,
        Verb::Delete(policy) => {
            let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
            if !policy.is_empty() {
                options["propagationPolicy"] = policy.into();
            }
            if step.is_dry_run {
                options["dryRun"] = json!(["All"]);
            }
            for (field, value) in [("resourceVersion", version), ("uid", uid)] {
                if let Some(value) = value {
                    options["preconditions"][field] = value;
                }
            }
            options
        }
        _ => {
            let mut body = step.body.clone();
            if step.verb == Verb::PutChanged
                && let Some(live) = live
            {
                body = live.clone();
                json_patch::merge(&mut body, &step.body);
                for field in ["resourceVersion", "uid"] {
                    body["metadata"].as_object_mut().expect("metadata").remove(field);
                }
            }
            if step.verb != Verb::MergePatch {
                name(&mut body, step, home);
            }
            for (field, value) in [("resourceVersion", version), ("uid", uid)] {
                if let Some(value) = value {
                    body["metadata"][field] = value;
                }
            }
            body
        }
    }
}

/// Whether a deletion has a body.
fn has_options(step: &Step) -> bool {
    step.body != json!({}) || step.version != Expect::Nothing || step.uid != Expect::Nothing
}

fn name(body: &mut Value, step: &Step, home: &str) {
    body["apiVersion"] = step.kind.api_version().into();
    body["kind"] = step.kind.name().into();
    let name = name_of(step, home);
    if step.verb == Verb::PostGenerated {
        body["metadata"]["generateName"] = format!("{name}-").into();
    } else {
        body["metadata"]["name"] = name.into();
    }
    if step.kind.is_namespaced() {
        let namespace = if step.verb == Verb::PostElsewhere { "missing" } else { home };
        body["metadata"]["namespace"] = namespace.into();
    }
}

fn operations(patch: Patch, step: &Step, version: Option<Value>) -> Value {
    let (labels, version_path) = ("/metadata/labels", "/metadata/resourceVersion");
    let value = step.body.pointer(labels).cloned().unwrap_or_else(|| json!({"a": "2"}));
    let version = version.unwrap_or_default();
    match patch {
        Patch::AddLabels => json!([{"op": "add", "path": labels, "value": value}]),
        Patch::AddLabel => json!([{"op": "add", "path": "/metadata/labels/a", "value": "3"}]),
        Patch::FailingTest => json!([
            {"op": "add", "path": labels, "value": value},
            {"op": "test", "path": "/metadata/labels/a", "value": "9"},
        ]),
        Patch::TestVersion => json!([
            {"op": "test", "path": version_path, "value": version}, {"op": "add", "path": labels, "value": value},
        ]),
        Patch::ReplaceVersion => json!([
            {"op": "replace", "path": version_path, "value": version}, {"op": "add", "path": labels, "value": value},
        ]),
        Patch::RemoveFinalizers => json!([{"op": "remove", "path": "/metadata/finalizers"}]),
        Patch::Nothing => json!([]),
        Patch::Unusable => json!([{"op": "add", "path": "/metadata/labels", "value": 5}]),
    }
}
