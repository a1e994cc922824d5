//! Schemas of fields whose Rust types do not give the schema that the CRD needs.

pub(super) fn date_time(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "string", "format": "date-time"})
}

pub(super) fn any_object(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

pub(super) fn objects(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array", "maxItems": 64, "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    })
}

/// Schema of a label selector, as in the API of Kubernetes (meta/v1, `LabelSelector`).
pub(super) fn label_selector(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "properties": {
            "matchLabels": {"type": "object", "maxProperties": 64, "additionalProperties": {"type": "string", "maxLength": 63}},
            "matchExpressions": {
                "type": "array",
                "maxItems": 64,
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": {"type": "string", "maxLength": 317},
                        "operator": {"type": "string", "enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
                        "values": {"type": "array", "maxItems": 64, "x-kubernetes-list-type": "atomic",
                            "items": {"type": "string", "maxLength": 63}},
                    },
                },
            },
        },
    })
}

pub(super) fn duration(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "string", "pattern": "^([0-9]{1,6}(\\.[0-9]{1,3})?(ns|us|ms|s|m|h)){1,3}$"})
}

pub(super) fn conditions(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    crate::conditions_schema().try_into().unwrap_or_default()
}
