//! Whether a live object has the desired state.

use serde::Serialize;
use serde_json::Value;

use crate::{Kind, Object, Quantity};

impl<K: Kind> Object<'_, K> {
    /// Whether the live object has everything that `desired` has: a whole object (`json!`, a k8s-openapi type), or a part of it
    /// from the root, as `json!({ "spec": { "replicas": 3 } })`.
    ///
    /// What the API server and other writers add or rewrite is ignored:
    ///
    /// - Fields that `desired` does not have. A field that is null in `desired` matches anything; a zero value (`false`, `0`,
    ///   `""`, `[]`, `{}`) matches an absent field.
    /// - Items of a list of objects that `desired` does not have. An item is compared with the live item of the same `name`;
    ///   where a desired item has no `name`, items are compared by position. All other lists must be equal.
    /// - The notation of quantities in `requests`, `limits`, `hard`, `sizeLimit` and `averageValue`: `1000m` matches `1`.
    ///
    /// False if `desired` cannot be serialized. Each call reads the whole object: for one field, [`get`](Self::get) is cheaper.
    pub fn matches(&self, desired: impl Serialize) -> bool {
        match (serde_json::from_slice(self.json()), serde_json::to_value(desired)) {
            (Ok(live), Ok(desired)) => has(&live, &desired, false),
            _ => false,
        }
    }
}

/// Whether a live value has everything of the desired one. `quantities`: strings and numbers may be quantities.
fn has(live: &Value, desired: &Value, quantities: bool) -> bool {
    match (live, desired) {
        (_, Value::Null) => true,
        (Value::Null, desired) => is_zero(desired),
        (Value::Object(live), Value::Object(desired)) => desired.iter().all(|(field, desired)| {
            let quantities = quantities || has_quantities(field);
            has(live.get(field).unwrap_or(&Value::Null), desired, quantities)
        }),
        (Value::Array(live), Value::Array(desired)) => has_items(live, desired, quantities),
        (live, desired) => live == desired || quantities && is_same_quantity(live, desired),
    }
}

fn has_items(live: &[Value], desired: &[Value], quantities: bool) -> bool {
    if desired.is_empty() || !desired.iter().all(Value::is_object) {
        return live == desired;
    }
    if desired.iter().all(|item| item.get("name").is_some()) {
        let has_item = |desired: &Value| {
            live.iter().any(|live| live.get("name") == desired.get("name") && has(live, desired, quantities))
        };
        return desired.iter().all(has_item);
    }
    live.len() >= desired.len() && live.iter().zip(desired).all(|(live, desired)| has(live, desired, quantities))
}

/// Whether a value is the same as an absent field for the API server.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_zero),
    }
}

fn has_quantities(field: &str) -> bool {
    matches!(field, "requests" | "limits" | "hard" | "sizeLimit" | "averageValue")
}

fn is_same_quantity(live: &Value, desired: &Value) -> bool {
    let quantity = |value: &Value| match value {
        Value::String(text) => text.parse::<Quantity>().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    };
    quantity(live).is_some_and(|live| quantity(desired) == Some(live))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::{Object, kinds::Pod, testing::observed};

    fn matches(live: &Value, desired: &Value) -> bool {
        Object::<Pod>::new(&observed(live)).matches(desired)
    }

    /// A Pod as a plugin desires it.
    fn desired() -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": "web-0", "labels": { "app": "web" } },
            "spec": {
                "hostNetwork": false,
                "nodeSelector": {},
                "priorityClassName": null,
                "containers": [{
                    "name": "app",
                    "image": "web:1",
                    "args": ["--port", "80"],
                    "env": [],
                    "ports": [{ "containerPort": 80 }],
                    "resources": { "requests": { "cpu": "1000m", "memory": 1024 }, "limits": { "memory": "1Gi" } },
                }],
            },
        })
    }

    /// The same Pod as the API server returns it.
    fn live() -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": "web-0", "namespace": "default", "uid": "1", "labels": { "app": "web", "added": "x" } },
            "spec": {
                "priorityClassName": "high",
                "restartPolicy": "Always",
                "containers": [
                    { "name": "sidecar", "image": "proxy:1" },
                    {
                        "name": "app",
                        "image": "web:1",
                        "args": ["--port", "80"],
                        "imagePullPolicy": "IfNotPresent",
                        "ports": [{ "containerPort": 80, "protocol": "TCP" }, { "containerPort": 90 }],
                        "resources": { "requests": { "cpu": "1", "memory": "1Ki" }, "limits": { "memory": "1Gi" } },
                        "volumeMounts": [{ "name": "kube-api-access" }],
                    },
                ],
            },
            "status": { "phase": "Running" },
        })
    }

    #[test]
    fn additions_and_notation_of_the_api_server_are_ignored() {
        assert!(matches(&live(), &desired()));
    }

    #[test]
    fn every_difference_is_found() {
        let container = "/spec/containers/1";
        for (pointer, value) in [
            ("/metadata/labels/app".to_owned(), json!("other")),
            ("/metadata/labels".to_owned(), json!(null)),
            (format!("{container}/image"), json!("web:2")),
            (format!("{container}/name"), json!("renamed")),
            (format!("{container}/args"), json!(["--port"])),
            (format!("{container}/args"), json!(["--port", "80", "-v"])),
            (format!("{container}/args"), json!(["80", "--port"])),
            (format!("{container}/ports"), json!([])),
            (format!("{container}/ports/0/containerPort"), json!(81)),
            (format!("{container}/resources/requests/cpu"), json!("1001m")),
            (format!("{container}/resources/limits"), json!(null)),
            ("/spec".to_owned(), json!([])),
        ] {
            let mut live = live();
            *live.pointer_mut(&pointer).expect(&pointer) = value.clone();
            assert!(!matches(&live, &desired()), "{pointer} {value}");
        }
        for (field, value) in [("hostNetwork", json!(true)), ("nodeSelector", json!({ "disk": "ssd" }))] {
            let mut desired = desired();
            desired["spec"][field] = value;
            assert!(!matches(&live(), &desired), "{field}");
        }
    }

    #[test]
    fn an_empty_desired_list_matches_only_an_empty_or_absent_list() {
        let desired = json!({ "spec": { "tolerations": [] } });
        assert!(matches(&json!({ "spec": {} }), &desired));
        assert!(!matches(&json!({ "spec": { "tolerations": [{ "key": "a" }] } }), &desired));
    }

    #[test]
    fn quantities_are_compared_by_value_only_where_they_are_quantities() {
        let with = |field: &str, value: &str| json!({ "spec": { field: { "x": value } } });
        assert!(matches(&with("requests", "1"), &with("requests", "1000m")));
        assert!(!matches(&with("labels", "1"), &with("labels", "1000m")));
    }

    #[test]
    fn desired_object_may_contain_only_some_fields() {
        assert!(matches(&live(), &json!({ "status": { "phase": "Running" } })));
        assert!(!matches(&live(), &json!({ "status": { "phase": "Failed" } })));
    }
}
