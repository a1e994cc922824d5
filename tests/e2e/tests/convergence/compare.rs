//! Compares an object that has a history with a fresh one.

use serde_json::{Map, Value};

/// Annotations of controllers and of the host.
const ANNOTATIONS: [&str; 4] = [
    "windlass.dev/",
    "deployment.kubernetes.io/",
    "deprecated.daemonset.template.generation",
    "kubectl.kubernetes.io/",
];
/// Fields that the API server allocates: compared is whether they are there.
const ALLOCATED: [&str; 4] = ["clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort"];

/// The differences between an object and a fresh one, without those that fields of other managers explain.
pub fn compare(old: &Value, fresh: &Value, desired: &Value) -> Vec<String> {
    let mut others = Vec::new();
    for entry in old["metadata"]["managedFields"].as_array().into_iter().flatten() {
        let is_ours = ["windlass", "kubectl"].contains(&entry["manager"].as_str().unwrap_or_default());
        if !is_ours && entry["subresource"] != "status" {
            others.push(&entry["fieldsV1"]);
        }
    }
    let mut differences = Vec::new();
    let (mut old, mut fresh) = (normalized(old), normalized(fresh));
    if others.iter().any(|fields| fields.pointer("/f:spec/f:type").is_some()) {
        // The type of a Service decides whether its ports have node ports.
        [&mut old, &mut fresh].into_iter().for_each(hide_node_ports);
    }
    below(&mut String::new(), (Some(&old), Some(&fresh), Some(desired)), &others, &mut differences);
    differences
}

/// An object without its status and what controllers and the API server add to it.
pub fn normalized(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(map) = object.as_object_mut() {
        map.remove("status");
        let meta = map.remove("metadata").unwrap_or_default();
        let kept = |field: &str| -> Map<String, Value> {
            let entries = meta[field].as_object().cloned().unwrap_or_default().into_iter();
            entries.filter(|(key, _)| !ANNOTATIONS.iter().any(|start| key.starts_with(start))).collect()
        };
        let kept = ["labels", "annotations"].map(|field| (field.to_owned(), kept(field).into()));
        map.insert("metadata".to_owned(), Value::Object(kept.into_iter().collect()));
    }
    hide_allocated(&mut object);
    object
}

fn hide_node_ports(object: &mut Value) {
    for port in object["spec"]["ports"].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        port.remove("nodePort");
    }
}

fn hide_allocated(value: &mut Value) {
    match value {
        Value::Object(map) => map.iter_mut().for_each(|(field, value)| {
            if ALLOCATED.contains(&field.as_str()) && *value != "None" {
                *value = "allocated".into();
            } else {
                hide_allocated(value);
            }
        }),
        Value::Array(items) => items.iter_mut().for_each(hide_allocated),
        _ => {}
    }
}

type Places<'a> = (Option<&'a Value>, Option<&'a Value>, Option<&'a Value>);

/// `others`: the nodes of other managers at this place.
fn below(path: &mut String, (old, fresh, desired): Places<'_>, others: &[&Value], differences: &mut Vec<String>) {
    if old == fresh {
        return;
    }
    let length = path.len();
    match (old, fresh) {
        (Some(Value::Object(one)), Some(Value::Object(two))) => {
            let mut keys: Vec<_> = one.keys().chain(two.keys()).collect();
            keys.sort();
            keys.dedup();
            // Another manager's field may be a reason for, or against, any field beside it that is not desired.
            let is_shared = others.iter().any(|node| {
                node.as_object().into_iter().flatten().any(|(name, _)| {
                    name.strip_prefix("f:")
                        .is_some_and(|name| desired.is_none_or(|desired| desired.get(name).is_none()))
                })
            });
            for key in keys {
                let wanted = desired.and_then(|desired| desired.get(key));
                if is_shared && wanted.is_none() {
                    continue;
                }
                let nodes: Vec<_> = others.iter().filter_map(|node| node.get(format!("f:{key}"))).collect();
                path.push('.');
                path.push_str(key);
                below(path, (one.get(key), two.get(key), wanted), &nodes, differences);
                path.truncate(length);
            }
        }
        (Some(Value::Array(one)), Some(Value::Array(two))) if by_key(one) == by_key(two) => {}
        (Some(Value::Array(one)), Some(Value::Array(two)))
            if one.len() == two.len() && one.iter().all(Value::is_object) =>
        {
            for (at, (one, two)) in one.iter().zip(two).enumerate() {
                let wanted = desired.and_then(|desired| desired.get(at));
                let nodes: Vec<_> = others
                    .iter()
                    .flat_map(|node| node.as_object().into_iter().flatten())
                    .filter(|(name, _)| is_named(name, one))
                    .map(|(_, node)| node)
                    .collect();
                path.push_str(&["[", &at.to_string(), "]"].concat());
                below(path, (Some(one), Some(two), wanted), &nodes, differences);
                path.truncate(length);
            }
        }
        _ if is_empty(path, old, fresh) || is_of_others(desired, others) => {}
        _ => {
            let show = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), ToString::to_string);
            differences.push(format!("{path} is {}, not {}", show(old), show(fresh)));
        }
    }
}

/// The items of a list in the order of their keys: server-side apply keeps the order in which items with keys were added.
fn by_key(items: &[Value]) -> Vec<&Value> {
    let key = |item: &Value| {
        ["name", "port", "containerPort", "protocol", "mountPath"].map(|key| item.get(key).map(ToString::to_string))
    };
    let mut items: Vec<_> = items.iter().collect();
    items.sort_by_key(|item| key(item));
    items
}

/// Whether a place has nothing, or an empty map or list, in both objects: an apply leaves an empty one out that a create stores. Only of
/// selectors and volumes, the empty one means something.
fn is_empty(path: &str, old: Option<&Value>, fresh: Option<&Value>) -> bool {
    let has_meaning = path.ends_with("elector") || path.ends_with(".emptyDir");
    let is_nothing = |value: Option<&Value>| match value {
        None => true,
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    };
    !has_meaning && is_nothing(old) && is_nothing(fresh)
}

/// Whether others own something in a place in which the desired state has no value of its own.
fn is_of_others(desired: Option<&Value>, others: &[&Value]) -> bool {
    !others.is_empty() && desired.is_none_or(|desired| desired.is_object() || desired.is_array())
}

/// Whether a name of `fieldsV1` names this item.
fn is_named(name: &str, item: &Value) -> bool {
    let Some(keys) = name.strip_prefix("k:").and_then(|keys| serde_json::from_str::<Map<String, Value>>(keys).ok())
    else {
        return false;
    };
    keys.iter().all(|(key, value)| item.get(key) == Some(value))
}
