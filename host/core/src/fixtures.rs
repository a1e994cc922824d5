//! Parents, children and responses for the tests of this crate.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::contract::desired::{self, Desired, Grant, Grants, ResponseRejection};
use crate::contract::grant::Presence;
use crate::contract::reserved::HostNamespace;
use crate::contract::snapshot::Snapshot;
use crate::contract::{Limits, Response, UpdateStrategy};
use crate::guard::deletions::{self, Cause, DeletionGuard, Fleet, Leavers, ParentDeletions, Stop};
use crate::object::Object;
use crate::object::observed_status::StatusShape;
use crate::object::parent::ParentRef;
use crate::reconcile::outcome::Outcome;
use crate::reconcile::plan::{Plan, plan_comparing};
use crate::reconcile::status;
use crate::value::clock::Clock;
use crate::value::ids::Gvk;
use crate::value::json::{self, Value as CoreValue};

/// The clock of this machine, without chance.
pub const CLOCK: Clock = Clock::new(Instant::now, Timestamp::now, || 0.5);

pub const PARENT_UID: &str = "uid-of-parent";

pub fn object(value: &Value) -> Arc<Object> {
    let text = |field: &str| value[field].as_str().expect(field);
    let kind = Arc::new(Gvk::from_api_version(text("apiVersion"), text("kind")));
    Arc::new(Object::from_api(&kind, &value.to_string()).expect("an object"))
}

pub fn parent() -> Arc<Object> {
    parent_with(&json!({}))
}

pub fn parent_with(status: &Value) -> Arc<Object> {
    object(&json!({
        "apiVersion": "my-operator.dev/v1", "kind": "Echo",
        "metadata": {"name": "hello", "namespace": "default", "uid": PARENT_UID, "resourceVersion": "5", "generation": 3},
        "spec": {"replicas": 1},
        "status": status,
    }))
}

/// A parent whose whole status the host has written.
pub fn parent_with_host_owned_status(status: &Value) -> Arc<Object> {
    let mut parent: Value = serde_json::from_slice(&parent_with(status).json.bytes()).expect("JSON");
    let mut fields = owned(status, false);
    for condition in status["conditions"].as_array().into_iter().flatten() {
        let key = format!("k:{}", json!({"type": condition["type"]}));
        fields["f:conditions"][key] = owned_item(condition);
    }
    parent["metadata"]["managedFields"] = json!([{
        "manager": "windlass", "operation": "Apply", "subresource": "status", "fieldsV1": {"f:status": fields},
    }]);
    object(&parent)
}

/// The parent's status after an outcome, with the plugin's part.
pub fn status_after(outcome: &Outcome, part: Option<&Value>) -> Value {
    let shape = StatusShape { subresource: true, observed_generation: true, conditions: true };
    let part = part.map(|part| match json::parse(part.to_string().as_bytes(), 64) {
        Ok(CoreValue::Object(map)) => map,
        other => panic!("{other:?}"),
    });
    let next = status::next(&parent(), part.as_ref(), outcome, shape, Timestamp::UNIX_EPOCH).expect("differs");
    serde_json::from_str(&CoreValue::Object(next).to_string()).expect("JSON")
}

pub fn parent_ref() -> ParentRef {
    ParentRef::of(&"echo".parse().expect("a name"), &parent(), None)
}

pub fn grants_with(update: &UpdateStrategy) -> Grants {
    let grant = |api_version: &str, kind: &str, namespaced: bool| Grant {
        kind: Arc::new(Gvk::from_api_version(api_version, kind)),
        namespaced,
        update: update.clone(),
        namespaces: None,
        tokens: false,
        presence: Presence::Required,
    };
    let host = HostNamespace::new("windlass-system");
    Grants::new(
        host,
        [
            grant("v1", "Pod", true),
            grant("v1", "ConfigMap", true),
            grant("v1", "Service", true),
            grant("v1", "PersistentVolume", false),
            grant("rbac.authorization.k8s.io/v1", "Role", true),
            grant("rbac.authorization.k8s.io/v1", "RoleBinding", true),
        ],
    )
}

pub fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "x"}},
        "spec": {"containers": [{"name": "nginx", "image": "nginx:1"}]}})
}

pub fn response(children: &[Value]) -> Response {
    Response { children: children.iter().map(|child| child.to_string().into_bytes()).collect(), ..Response::default() }
}

pub fn validate(children: &[Value]) -> Result<Desired, ResponseRejection> {
    validate_with(children, &UpdateStrategy::Apply)
}

/// Like [`validate_with`], for a plugin that may have Secrets only.
pub fn validate_secrets(children: &[Value], update: &UpdateStrategy) -> Result<Desired, ResponseRejection> {
    let kind = Arc::new(Gvk::from_api_version("v1", "Secret"));
    let grant = Grant {
        kind,
        namespaced: true,
        update: update.clone(),
        namespaces: None,
        tokens: false,
        presence: Presence::Required,
    };
    let grants = Grants::new(HostNamespace::new("windlass-system"), [grant]);
    desired::validate(&response(children), &parent_ref(), &grants, &Limits::default())
}

pub fn validate_with(children: &[Value], update: &UpdateStrategy) -> Result<Desired, ResponseRejection> {
    desired::validate(&response(children), &parent_ref(), &grants_with(update), &Limits::default())
}

/// The live object after the host's POST created a desired child.
pub fn created(child: &desired::DesiredChild) -> Value {
    let mut live: Value = serde_json::from_str(&CoreValue::Object(child.body.clone()).to_string()).expect("JSON");
    let owned = owned(&live, true);
    live["metadata"]["uid"] = json!(format!("uid-of-{}", child.key.name));
    live["metadata"]["resourceVersion"] = json!("7");
    live["metadata"]["managedFields"] = json!([{
        "manager": "windlass", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": owned,
    }]);
    live
}

/// A `fieldsV1` that owns all of a value. The list `containers` is keyed by `name`; all other lists are atomic.
fn owned(value: &Value, top: bool) -> Value {
    let mut fields = serde_json::Map::new();
    for (key, value) in value.as_object().into_iter().flatten() {
        if top && matches!(key.as_str(), "apiVersion" | "kind") || matches!(key.as_str(), "name" | "namespace") && !top
        {
            continue;
        }
        let below = match value {
            Value::Object(_) => owned(value, false),
            Value::Array(items) if items.iter().all(|item| item["name"].is_string() && key == "containers") => {
                let keyed = items.iter().map(|item| (format!("k:{}", json!({"name": item["name"]})), owned_item(item)));
                Value::Object(keyed.collect())
            }
            _ => json!({}),
        };
        fields.insert(format!("f:{key}"), below);
    }
    Value::Object(fields)
}

fn owned_item(item: &Value) -> Value {
    let fields = item.as_object().into_iter().flatten().map(|(key, _)| (format!("f:{key}"), json!({})));
    Value::Object(fields.collect())
}

pub fn snapshot(children: &[Value]) -> Snapshot {
    Snapshot::new(parent_ref(), parent(), children.iter().map(object), None, |_| false)
}

/// The plan without a comparison of values.
pub fn plan(snapshot: &Snapshot, desired: &Desired) -> Plan {
    plan_comparing(snapshot, desired, |_, _| None)
}

/// Takes the deletions out of a plan that the guard does not allow.
pub fn guard_plan(
    fleet: &mut Fleet,
    (own, guard): (&mut ParentDeletions, DeletionGuard),
    snapshot: &Snapshot,
    cause: impl FnOnce() -> Cause,
    leavers: impl FnOnce() -> Leavers,
    plan: &mut Plan,
) -> Option<Stop> {
    let verdict = deletions::judge(fleet, own, guard, snapshot, cause, leavers, &plan.deletions())?;
    plan.obey(&verdict);
    Some(verdict.stop)
}
