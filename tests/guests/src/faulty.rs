//! Shared by the faulty guests: plugins with one bug each, as authors write them, which `windlass test` must find.
//!
//! Without its bug, each has a `ConfigMap` for each replica, and counts the live ones in the status.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_plugin::{CustomResource, Descriptor, Reconciler, Request, Response, Value, json, kinds::ConfigMap};

/// The spec of a faulty guest's parents.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Spec {
    /// Number of `ConfigMaps`.
    #[schemars(range(max = 20))]
    pub replicas: u32,
    /// Content of the `ConfigMaps`.
    #[schemars(length(min = 1, max = 60))]
    pub text: String,
    /// Content of the `ConfigMaps`, if set.
    #[schemars(length(max = 60))]
    pub color: Option<String>,
}

/// The status of a faulty guest's parents.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct Status {
    /// Live `ConfigMaps`.
    #[schemars(range(max = 100))]
    pub replicas: usize,
    /// What happened.
    pub history: Vec<String>,
}

/// The kind of a faulty guest's parents, in its group.
pub fn kind<R: Reconciler<Status = Status>>(kind: &str) -> CustomResource
where
    R::Spec: JsonSchema,
{
    CustomResource::namespaced::<R>("faulty.example", "v1", kind)
}

/// The descriptor of a faulty guest.
pub fn descriptor<R: Reconciler<Spec = Spec, Status = Status>>(name: &str) -> Descriptor {
    Descriptor::new(&name.to_lowercase(), env!("CARGO_PKG_VERSION"), kind::<R>(name)).child::<ConfigMap>()
}

/// A child.
pub fn config_map(name: &str, data: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": data })
}

/// The desired `ConfigMaps` without a bug.
pub fn config_maps<R: Reconciler<Spec = Spec>>(request: &Request<R>) -> Vec<Value> {
    let Spec { replicas, text, color } = &request.spec;
    let color = color.as_deref().unwrap_or("none");
    let data = json!({ "text": text, "color": color });
    (0..*replicas).map(|index| config_map(&format!("{}-{index}", request.name()), &data)).collect()
}

/// The status without a bug.
pub fn status<R: Reconciler>(request: &Request<R>) -> Status {
    Status { replicas: request.children_of::<ConfigMap>().count(), history: Vec::new() }
}

/// The response without a bug.
pub fn good<R: Reconciler<Spec = Spec, Status = Status>>(request: &Request<R>) -> Response<R> {
    Response::new().children(config_maps(request)).status(status(request))
}
