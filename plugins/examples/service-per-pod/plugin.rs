//! A Service for each Pod of a StatefulSet that asks for it by annotations: a decorator of a built-in kind.

use schemars::JsonSchema;
use serde::Deserialize;
use windlass_plugin::{
    Descriptor, Failure, Parent, Reconciler, Request, Response, Value, json,
    kinds::{Service, StatefulSet},
};

/// The key of the label by which a Service selects its Pod.
const LABEL: &str = "porting.example.com/service-per-pod-label";
/// The ports of each Service and of its Pod: `80:8080,443:8443`.
const PORTS: &str = "porting.example.com/service-per-pod-ports";

/// The part of a StatefulSet's spec that is read.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct StatefulSetSpec {
    /// Number of Pods.
    #[serde(default = "one")]
    pub replicas: u32,
}

fn one() -> u32 {
    1
}

/// The operator.
#[derive(Debug)]
pub struct ServicePerPod;

impl Reconciler for ServicePerPod {
    type Spec = StatefulSetSpec;
    type Status = ();

    fn descriptor() -> Descriptor {
        let asks = Parent::existing::<StatefulSet>().annotated(&format!("{LABEL},{PORTS}"));
        Descriptor::new("service-per-pod", env!("CARGO_PKG_VERSION"), asks)
            .description("Adds a Service for each Pod of a StatefulSet that asks for it")
            .child::<Service>()
            // The Services are gone before their StatefulSet is.
            .ordered_deletion()
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        let annotation = |name| request.metadata.annotations.get(name).map(String::as_str).unwrap_or_default();
        let label = annotation(LABEL);
        let ports = annotation(PORTS).split(',').map(port).collect::<Result<Vec<_>, _>>()?;
        let services = (0..request.spec.replicas).map(|ordinal| {
            let name = format!("{}-{ordinal}", request.name());
            json!({
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": { "name": name, "labels": { "app": "service-per-pod" } },
                "spec": { "selector": { label: name }, "ports": ports },
            })
        });
        Ok(Response::new().children(services))
    }
}

/// A port of a Service from text such as `80:8080`.
fn port(text: &str) -> Result<Value, Failure> {
    let numbers = text.split_once(':').and_then(|(port, target)| Some((port.parse().ok()?, target.parse().ok()?)));
    let Some((port, target)) = numbers.filter(|(port, target): &(u16, u16)| *port > 0 && *target > 0) else {
        let field = format!("metadata.annotations[{PORTS}]");
        return Err(Failure::invalid_field(field, format!("`{text}` is not PORT:TARGET, as `80:8080`")));
    };
    Ok(json!({ "name": format!("port-{port}"), "port": port, "targetPort": target }))
}

windlass_plugin::export!(ServicePerPod);
