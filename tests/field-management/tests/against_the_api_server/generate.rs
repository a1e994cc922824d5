//! Histories from seeds.

use std::fmt;

use fastrand::Rng;
use serde_json::{Map, Value, json};

use crate::kinds::{KINDS, Kind};

#[derive(Clone, Debug)]
pub struct History {
    pub kind: Kind,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub struct Step {
    pub manager: &'static str,
    pub verb: Verb,
    /// Of the status subresource.
    pub is_status: bool,
    /// What is sent, without type and name; what is changed, for a PUT of the object as it is.
    pub body: Value,
    pub edit: Edit,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verb {
    Post,
    /// Of the object as it is, with changes.
    Put,
    /// Of the body alone.
    Replace,
    MergePatch,
    JsonPatch,
    Apply,
    ForceApply,
    Delete,
}

/// What a writer does with `managedFields`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Edit {
    Keep,
    Omit,
    Empty,
    Blank,
    DropFirst,
    RenameFirst,
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Step { manager, verb, is_status, body, edit } in &self.steps {
            let status = if *is_status { " status" } else { "" };
            writeln!(f, "  {manager}: {verb:?} {:?}{status} {body}, managedFields: {edit:?}", self.kind)?;
        }
        Ok(())
    }
}

/// Most histories have the first four. The API server keeps ten updaters.
const MANAGERS: [&str; 14] = ["alice", "bob", "carol", "dave", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"];

impl History {
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let kind = KINDS[rng.usize(..KINDS.len())];
        let mut steps: Vec<Step> = Vec::new();
        let is_crowd = rng.u8(..20) == 0;
        let count = if is_crowd { rng.usize(20..40) } else { rng.usize(3..12) };
        for index in 0..count {
            let step = match steps.last() {
                // An apply again, as controllers do.
                Some(last) if matches!(last.verb, Verb::Apply | Verb::ForceApply) && rng.u8(..8) == 0 => last.clone(),
                _ if is_crowd && index > 0 && rng.u8(..8) != 0 => annotation(&mut rng),
                _ => step(&mut rng, kind, index == 0),
            };
            steps.push(step);
        }
        Self { kind, steps }
    }
}

/// An update that gives its manager a field of its own.
fn annotation(rng: &mut Rng) -> Step {
    let manager = MANAGERS[rng.usize(..MANAGERS.len())];
    let body = json!({"metadata": {"annotations": {format!("of-{manager}"): pick(rng, &["1", "2", "3"])}}});
    Step { manager, verb: Verb::MergePatch, is_status: false, body, edit: Edit::Keep }
}

fn step(rng: &mut Rng, kind: Kind, is_first: bool) -> Step {
    let manager = MANAGERS[rng.usize(..4)];
    let verb = match rng.u8(..32) {
        0..=11 => Verb::Apply,
        12..=16 => Verb::ForceApply,
        17..=21 => Verb::Put,
        22..=23 => Verb::Replace,
        24..=28 => Verb::MergePatch,
        29 => Verb::JsonPatch,
        30 => Verb::Post,
        _ => Verb::Delete,
    };
    let verb = if is_first { [Verb::Post, Verb::Apply][rng.usize(..2)] } else { verb };
    let is_status = !is_first && kind.has_status() && !matches!(verb, Verb::Delete | Verb::Post) && rng.u8(..4) == 0;
    let edit = match rng.u8(..24) {
        0 => Edit::Empty,
        1 => Edit::Blank,
        2 => Edit::DropFirst,
        3 => Edit::RenameFirst,
        4..=7 => Edit::Omit,
        _ => Edit::Keep,
    };
    let is_apply = matches!(verb, Verb::Apply | Verb::ForceApply);
    let edit = if is_apply { Edit::Keep } else { edit };
    let is_whole = is_first || verb == Verb::Replace;
    let mut body =
        if is_status && rng.u8(..8) != 0 { json!({"status": status(rng, kind)}) } else { object(rng, kind, is_whole) };
    if is_status && rng.u8(..4) == 0 {
        body["metadata"] = metadata(rng);
        body["status"] = status(rng, kind);
    }
    if verb == Verb::MergePatch && rng.bool() {
        remove_some(rng, &mut body, 0);
    }
    if verb == Verb::JsonPatch {
        let labels = json!({"op": "add", "path": "/metadata/labels", "value": {"x": "json"}});
        body = match edit {
            Edit::Omit => json!([labels, {"op": "remove", "path": "/metadata/managedFields"}]),
            Edit::Empty => json!([labels, {"op": "replace", "path": "/metadata/managedFields", "value": []}]),
            Edit::Blank => json!([labels, {"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]),
            _ => json!([labels]),
        };
    }
    Step { manager, verb, is_status, body, edit }
}

/// Sets some fields to null: a merge patch removes them.
fn remove_some(rng: &mut Rng, value: &mut Value, depth: u8) {
    let Value::Object(fields) = value else { return };
    for (name, value) in fields {
        if depth > 0 && name != "containers" && name != "selector" && rng.u8(..4) == 0 {
            *value = Value::Null;
        } else {
            remove_some(rng, value, depth + 1);
        }
    }
}

/// Some of the pairs.
fn some(pairs: &[(&str, Value)], of: u8, rng: &mut Rng) -> Value {
    let fields = pairs.iter().filter(|_| rng.u8(..of) != 0).map(|(name, value)| ((*name).to_owned(), value.clone()));
    Value::Object(fields.collect())
}

fn merge(object: &mut Value, fields: Value) {
    if let (Value::Object(object), Value::Object(fields)) = (object, fields) {
        object.extend(fields);
    }
}

fn pick(rng: &mut Rng, values: &[&str]) -> Value {
    values[rng.usize(..values.len())].into()
}

fn map(rng: &mut Rng, names: &[&str]) -> Value {
    let mut map = Map::new();
    for name in names {
        if rng.bool() {
            map.insert((*name).to_owned(), pick(rng, &["1", "2", "3"]));
        }
    }
    Value::Object(map)
}

/// Some of the values, in some order.
fn list(rng: &mut Rng, values: Vec<Value>) -> Value {
    let mut values: Vec<_> = values.into_iter().filter(|_| rng.bool()).collect();
    rng.shuffle(&mut values);
    Value::Array(values)
}

fn metadata(rng: &mut Rng) -> Value {
    let owner = |uid: &str, name: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid});
    let owners = vec![owner("u1", pick(rng, &["o1", "o2"])), owner("u2", "o3".into())];
    let fields = [
        ("labels", map(rng, &["x", "y", "z"])),
        ("annotations", map(rng, &["example.com/a", "b"])),
        ("finalizers", list(rng, vec!["example.com/a".into(), "example.com/b".into(), "example.com/c".into()])),
        ("ownerReferences", list(rng, owners)),
    ];
    some(&fields, 2, rng)
}

fn object(rng: &mut Rng, kind: Kind, is_whole: bool) -> Value {
    let mut object = json!({});
    if rng.u8(..3) == 0 {
        object["metadata"] = metadata(rng);
    }
    match kind {
        Kind::ConfigMap => {
            let data = map(rng, &["a", "b", "c", "d"]);
            if rng.u8(..8) != 0 {
                object["data"] = data;
            }
            if rng.u8(..8) == 0 {
                object["binaryData"] = json!({"e": "AAAA"});
            }
        }
        Kind::Secret => object["data"] = some(&[("a", pick(rng, &["MQ==", "Mg=="])), ("b", "MQ==".into())], 2, rng),
        Kind::ServiceAccount => {
            // The API server keeps nothing but the names.
            let secrets = list(rng, vec![json!({"name": "a"}), json!({"name": "b"})]);
            let pulled = list(rng, vec![json!({"name": "a"}), json!({"name": "b"})]);
            let fields = [
                ("secrets", secrets),
                ("imagePullSecrets", pulled),
                ("automountServiceAccountToken", json!(rng.bool())),
            ];
            merge(&mut object, some(&fields, 2, rng));
        }
        Kind::Lease => {
            let fields = [
                ("holderIdentity", pick(rng, &["a", "b"])),
                ("leaseDurationSeconds", json!(rng.u8(1..4))),
                ("renewTime", pick(rng, &["2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:01.000000Z"])),
                ("leaseTransitions", json!(rng.u8(..3))),
            ];
            object["spec"] = some(&fields, 2, rng);
        }
        Kind::Event => merge(&mut object, event(rng, is_whole)),
        Kind::Service => object["spec"] = service(rng, is_whole),
        Kind::Deployment => object["spec"] = deployment(rng, is_whole),
        Kind::Widget => object["spec"] = widget(rng),
        Kind::Gadget => {
            object["spec"] = open(rng, 0);
            if rng.bool() {
                object["status"] = open(rng, 0);
            }
        }
    }
    if kind.has_status() && rng.u8(..6) == 0 {
        object["status"] = status(rng, kind);
    }
    object
}

fn event(rng: &mut Rng, is_whole: bool) -> Value {
    let fields = [
        ("reason", pick(rng, &["A", "B"])),
        ("message", pick(rng, &["a", "b"])),
        ("type", pick(rng, &["Normal", "Warning"])),
        ("count", json!(rng.u8(1..4))),
        ("lastTimestamp", pick(rng, &["2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"])),
        ("source", some(&[("component", pick(rng, &["a", "b"])), ("host", "h".into())], 2, rng)),
        ("reportingComponent", pick(rng, &["example.com/a", "example.com/b"])),
    ];
    let mut event = some(&fields, 2, rng);
    if is_whole || rng.bool() {
        event["involvedObject"] = json!({"kind": "A", "name": pick(rng, &["a", "b"]), "namespace": "default"});
    }
    event
}

fn status(rng: &mut Rng, kind: Kind) -> Value {
    let mut conditions = Vec::new();
    for name in ["Ready", "Synced"] {
        let mut condition = json!({"type": name, "status": pick(rng, &["True", "False"]), "reason": "R"});
        if kind != Kind::Widget || rng.bool() {
            condition["reason"] = pick(rng, &["A", "B"]);
        }
        if kind != Kind::Widget {
            condition["message"] = "m".into();
            condition["lastTransitionTime"] = "2026-01-01T00:00:00Z".into();
        }
        if kind == Kind::Deployment {
            condition["lastUpdateTime"] = "2026-01-01T00:00:00Z".into();
        }
        conditions.push(condition);
    }
    let conditions = list(rng, conditions);
    let fields = match kind {
        Kind::Service => vec![("conditions", conditions)],
        Kind::Deployment => vec![("conditions", conditions), ("observedGeneration", json!(rng.u8(1..3)))],
        _ => vec![("conditions", conditions), ("phase", pick(rng, &["A", "B"])), ("count", json!(rng.u8(1..3)))],
    };
    some(&fields, 3, rng)
}

fn service(rng: &mut Rng, is_whole: bool) -> Value {
    let mut ports = Vec::new();
    for (port, protocol) in [(80, "TCP"), (80, "UDP"), (443, "TCP"), (53, "UDP")] {
        let mut item = json!({"port": port, "name": format!("p{port}-{}", protocol.to_lowercase())});
        if protocol == "UDP" || rng.bool() {
            item["protocol"] = protocol.into();
        }
        if rng.bool() {
            item["targetPort"] = json!(rng.u16(8080..8082));
        }
        ports.push(item);
    }
    let again = ports[0].clone();
    let mut ports = list(rng, ports);
    if is_whole && ports == json!([]) {
        ports = json!([again]);
    } else if rng.u8(..40) == 0 {
        ports = json!([again, again]);
    }
    let fields = [
        ("selector", map(rng, &["app", "tier"])),
        ("sessionAffinity", pick(rng, &["None", "ClientIP"])),
        ("type", "ClusterIP".into()),
    ];
    let mut spec = some(&fields, 2, rng);
    if is_whole || rng.u8(..4) != 0 {
        spec["ports"] = ports;
    }
    spec
}

fn container(rng: &mut Rng, name: &str, is_whole: bool) -> Value {
    let mut env = vec![json!({"name": "A", "value": pick(rng, &["1", "2"])}), json!({"name": "B", "value": "b"})];
    env.push(json!({"name": "C", "valueFrom": {"secretKeyRef": {"name": pick(rng, &["s1", "s2"]), "key": "k"}}}));
    env.push(json!({"name": "D", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}));
    if rng.u8(..4) == 0 {
        // The API server accepts a variable twice, except in an apply.
        env.push(json!({"name": "A", "value": pick(rng, &["1", "3"])}));
    }
    let ports = vec![
        json!({"containerPort": 80}),
        json!({"containerPort": 80, "protocol": "UDP", "name": "u"}),
        json!({"containerPort": 443, "protocol": "TCP", "name": pick(rng, &["s", "t"])}),
    ];
    let limits = some(&[("cpu", pick(rng, &["1", "2"])), ("memory", pick(rng, &["1Gi", "2Gi"]))], 2, rng);
    let mounts =
        vec![json!({"name": "v1", "mountPath": "/a"}), json!({"name": "v1", "mountPath": "/b", "readOnly": true})];
    let fields = [
        ("env", list(rng, env)),
        ("ports", list(rng, ports)),
        ("args", list(rng, vec!["x".into(), "y".into()])),
        ("resources", json!({"limits": limits})),
        ("volumeMounts", list(rng, mounts)),
        ("securityContext", json!({"runAsUser": rng.u8(1..3)})),
    ];
    let mut container = some(&fields, 2, rng);
    container["name"] = name.into();
    if is_whole || rng.bool() {
        container["image"] = pick(rng, &["example.com/a:1", "example.com/a:2"]);
    }
    container
}

fn deployment(rng: &mut Rng, is_whole: bool) -> Value {
    let mut containers = vec![container(rng, "one", is_whole), container(rng, "two", is_whole)];
    if !is_whole {
        containers.retain(|_| rng.bool());
    } else if rng.bool() {
        containers.pop();
    }
    let volumes = vec![json!({"name": "v2", "configMap": {"name": pick(rng, &["c1", "c2"])}}), json!({"name": "v3"})];
    let mut volumes = list(rng, volumes);
    if let (true, Value::Array(volumes)) = (is_whole, &mut volumes) {
        volumes.push(json!({"name": "v1", "emptyDir": {}}));
    }
    let init = vec![container(rng, "init", is_whole)];
    let tolerations = vec![json!({"key": "a", "operator": "Exists"}), json!({"key": "b", "operator": "Exists"})];
    let fields = [
        ("nodeSelector", map(rng, &["disk", "zone"])),
        ("initContainers", list(rng, init)),
        ("tolerations", list(rng, tolerations)),
        ("schedulerName", pick(rng, &["default-scheduler", "other"])),
    ];
    let mut pod = some(&fields, 2, rng);
    if is_whole || rng.bool() {
        pod["volumes"] = volumes;
    }
    if is_whole || !containers.is_empty() {
        pod["containers"] = containers.into();
    }
    let mut template = json!({"spec": pod});
    if is_whole || rng.u8(..3) == 0 {
        template["metadata"] = json!({"labels": {"app": "a", "more": pick(rng, &["1", "2"])}});
    }
    let fields = [
        ("replicas", json!(rng.u8(..3))),
        ("strategy", json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": rng.u8(1..3)}})),
        ("minReadySeconds", json!(rng.u8(1..3))),
        ("paused", json!(true)),
    ];
    let mut spec = some(&fields, 2, rng);
    if is_whole || rng.bool() {
        spec["template"] = template;
    }
    if is_whole || rng.u8(..3) == 0 {
        spec["selector"] = json!({"matchLabels": {"app": "a"}});
    }
    spec
}

fn widget(rng: &mut Rng) -> Value {
    let mut items = Vec::new();
    for name in ["a", "b", "c"] {
        let inner = some(&[("a", pick(rng, &["1", "2"])), ("b", "1".into())], 2, rng);
        let fields = [("value", json!(rng.u8(1..3))), ("labels", map(rng, &["l", "m"])), ("inner", inner)];
        let mut item = some(&fields, 2, rng);
        item["name"] = name.into();
        items.push(item);
    }
    let again = items[0].clone();
    let mut items = list(rng, items);
    if rng.u8(..40) == 0 {
        items = json!([again, again]);
    }
    let mut ports = vec![json!({"port": 80, "name": pick(rng, &["1", "2"])}), json!({"port": 80, "protocol": "UDP"})];
    ports.push(json!({"port": 443, "protocol": "TCP", "name": "s"}));
    let fields = [
        ("size", json!(rng.u8(1..4))),
        ("color", pick(rng, &["red", "blue"])),
        ("list", list(rng, vec!["x".into(), "y".into(), "z".into()])),
        ("tags", list(rng, vec!["x".into(), "y".into(), "z".into()])),
        ("items", items),
        ("ports", list(rng, ports)),
        ("map", map(rng, &["a", "b", "c"])),
        ("whole", map(rng, &["a", "b"])),
        ("nested", some(&[("a", pick(rng, &["1", "2"])), ("b", json!({"c": rng.u8(1..3)}))], 2, rng)),
        ("open", open(rng, 1)),
    ];
    some(&fields, 2, rng)
}

/// An object without a schema.
fn open(rng: &mut Rng, depth: u8) -> Value {
    let mut object = Map::new();
    for name in ["a", "b", "c", "d"] {
        let value = match rng.u8(..12) {
            0..=4 => continue,
            5..=6 if depth < 3 => open(rng, depth + 1),
            7 => list(rng, vec![1.into(), json!({"name": "n"}), "x".into()]),
            8 => json!(rng.bool()),
            9 => {
                if rng.bool() {
                    "text".into()
                } else {
                    Value::Null
                }
            }
            _ => json!(rng.u8(1..4)),
        };
        object.insert(name.into(), value);
    }
    Value::Object(object)
}
