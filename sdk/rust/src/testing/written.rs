//! Descriptors and responses as documents: golden answers have them, and `windlass harness` reads them.

use serde_json::{Map, Value, json};

use super::json_of;
use crate::{
    json::set,
    raw::{self, ChildRef, Create, DesiredChild, Keep, MetricType, Namespaces, ReadyMeans, Selection, UpdateStrategy},
};

/// A response without its children and status, and without empty fields.
pub(super) fn response(response: &raw::Response) -> Map<String, Value> {
    let keep = match &response.keep {
        Keep::None => Value::Null,
        Keep::All => "all".into(),
        Keep::These(children) => json!({ "these": children.iter().map(child).collect::<Vec<_>>() }),
    };
    let fields = [
        ("options", response.children.iter().map(options).collect()),
        ("keep", keep),
        ("waiting", json!(response.waiting)),
        ("requeueMs", json!(response.requeue)),
        // As the host reads it.
        ("requeueAtMs", json!(response.requeue_at.map(|at| at.max(1)))),
        ("events", response.events.iter().map(event).collect()),
        ("requirements", response.requirements.iter().map(requirement).collect()),
        ("finalized", json!(response.finalized)),
    ];
    let fields = fields.into_iter().filter(|(_, value)| !is_empty(value));
    fields.map(|(name, value)| (name.to_owned(), value)).collect()
}

pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

fn event(event: &raw::Event) -> Value {
    let kind = match event.event_type {
        raw::EventType::Normal => "Normal",
        raw::EventType::Warning => "Warning",
    };
    json!({ "type": kind, "reason": event.reason, "message": event.message })
}

/// The options of a child that are not the default.
fn options(child: &DesiredChild) -> Value {
    let once = match &child.create {
        Create::Always => None,
        Create::Once(text) => Some(text),
    };
    let fields = [
        ("stage", (child.stage > 0).then(|| child.stage.into())),
        ("retain", child.retain.then(|| true.into())),
        ("takeOver", child.take_over.then(|| true.into())),
        ("ready", child.ready.map(Into::into)),
        ("update", child.update.as_ref().map(strategy)),
        ("once", once.map(|text| json!(text))),
        ("replaces", child.replaces.as_ref().map(self::child)),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn strategy(update: &UpdateStrategy) -> Value {
    match update {
        UpdateStrategy::Apply => "apply".into(),
        UpdateStrategy::Recreate => "recreate".into(),
        UpdateStrategy::OnDelete => "onDelete".into(),
        UpdateStrategy::Rolling(raw::Rolling { recreate, conditions }) => {
            let until = if conditions.is_empty() { json!("ready") } else { json!({ "conditions": conditions }) };
            json!({ "rolling": { "recreate": recreate, "until": until } })
        }
    }
}

fn kind(raw::Kind { api_version, name }: &raw::Kind) -> Value {
    json!({ "apiVersion": api_version, "kind": name })
}

fn child(child: &ChildRef) -> Value {
    let mut value = kind(&child.kind);
    set(&mut value, "name", json!(child.name));
    if let Some(namespace) = &child.namespace {
        set(&mut value, "namespace", json!(namespace));
    }
    value
}

fn requirement(requirement: &raw::Requirement) -> Value {
    let mut value = kind(&requirement.kind);
    set(&mut value, "id", json!(requirement.id));
    match &requirement.select {
        Selection::Name(name) => set(&mut value, "name", json!(name)),
        Selection::Labels(selector) => set(&mut value, "labels", json!(selector)),
        Selection::LabelSelector(selector) => set(&mut value, "labels", selector_text(&json_of(selector)).into()),
    }
    match &requirement.namespaces {
        Namespaces::OfParent => {}
        Namespaces::All => set(&mut value, "namespaces", "all".into()),
        Namespaces::Named(names) => match names.as_slice() {
            [one] => set(&mut value, "namespace", json!(one)),
            several => set(&mut value, "namespaces", json!(several)),
        },
    }
    if requirement.metadata_only {
        set(&mut value, "metadataOnly", true.into());
    }
    value
}

/// A `LabelSelector` in kubectl's syntax, as the host writes it.
fn selector_text(selector: &Value) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let labels = labels.map(|(key, value)| format!("{key} in ({})", text(value)));
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten().map(|expression| {
        let values = expression["values"].as_array().into_iter().flatten().map(text).collect::<Vec<_>>().join(",");
        match (text(&expression["key"]), &*text(&expression["operator"])) {
            (key, "Exists") => key,
            (key, "DoesNotExist") => format!("!{key}"),
            (key, operator) => format!("{key} {} ({values})", operator.to_lowercase()),
        }
    });
    labels.chain(expressions).collect::<Vec<_>>().join(",")
}

/// A descriptor, with the names of the contract.
pub(super) fn descriptor(descriptor: raw::Descriptor) -> Value {
    let (parent, selector) = match descriptor.parent {
        raw::Parent::Custom(parent) => (json!({ "custom": json_of(&parent.definition) }), parent.selector),
        raw::Parent::Existing(parent) => (json!({ "existing": kind(&parent.kind) }), parent.selector),
    };
    let rule = |of: &raw::Kind, optional: bool| {
        let mut rule = kind(of);
        set(&mut rule, "optional", optional.into());
        rule
    };
    let child = |child: &raw::ChildRule| {
        let mut rule = rule(&child.kind, child.optional);
        set(&mut rule, "update", strategy(&child.update));
        rule
    };
    json!({
        "name": descriptor.name,
        "version": descriptor.version,
        "description": descriptor.description,
        "parent": parent,
        "selector": { "labels": selector.labels, "annotations": selector.annotations },
        "children": descriptor.children.iter().map(child).collect::<Vec<_>>(),
        "related": descriptor.related.iter().map(|related| rule(&related.kind, related.optional)).collect::<Vec<_>>(),
        "finalizes": descriptor.finalizes,
        "orderedDeletion": descriptor.ordered_deletion,
        "readyMeans": match descriptor.ready_means {
            ReadyMeans::Children => "children",
            ReadyMeans::Applied => "applied",
            ReadyMeans::Plugin => "plugin",
        },
        "clock": descriptor.clock,
        "resyncMs": descriptor.resync,
        "configSchema": descriptor.config_schema.as_deref().map(json_of),
        "metrics": descriptor.metrics.iter().map(metric).collect::<Vec<_>>(),
    })
}

fn metric(metric: &raw::Metric) -> Value {
    let metric_type = match metric.metric_type {
        MetricType::Counter => "counter",
        MetricType::Gauge => "gauge",
        MetricType::Histogram => "histogram",
    };
    json!({
        "name": metric.name,
        "unit": metric.unit,
        "description": metric.description,
        "type": metric_type,
        "labels": metric.labels,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::selector_text;

    #[test]
    fn label_selector_is_written_as_the_host_writes_it() {
        let selector = json!({ "matchLabels": { "app": "web" }, "matchExpressions": [
            { "key": "tier", "operator": "NotIn", "values": ["a", "b"] },
            { "key": "x", "operator": "Exists" },
            { "key": "y", "operator": "DoesNotExist" },
        ] });
        assert_eq!(selector_text(&selector), "app in (web),tier notin (a,b),x,!y");
        assert_eq!(selector_text(&json!({})), "");
    }
}
