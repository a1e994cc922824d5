//! Copies of a ConfigMap in the namespaces that its user names.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_plugin::{
    CustomResource, Descriptor, Failure, Reconciler, Request, Requirement, Response, checks::DNS_SUBDOMAIN, crd, json,
    kinds::ConfigMap,
};

/// A label of DNS, of at most 63 characters, as the name of a namespace.
const DNS_LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// Desired state of a ConfigMapPropagation.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapPropagationSpec {
    /// Name of the ConfigMap, and of its copies.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub source_name: String,
    /// Namespace of the ConfigMap.
    #[schemars(length(max = 63), regex(pattern = DNS_LABEL))]
    pub source_namespace: String,
    /// Namespaces of the copies.
    #[schemars(length(max = 1000), inner(length(max = 63), regex(pattern = DNS_LABEL)))]
    pub target_namespaces: BTreeSet<String>,
}

/// Observed state of a ConfigMapPropagation.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapPropagationStatus {
    /// Desired number of copies.
    pub expected_copies: usize,
    /// Number of copies that exist.
    pub actual_copies: usize,
}

/// The operator.
#[derive(Debug)]
pub struct ConfigMapPropagation;

fn kind() -> CustomResource {
    CustomResource::cluster_scoped::<ConfigMapPropagation>("porting.example.com", "v1", "ConfigMapPropagation")
        .column("Expected", "integer", ".status.expectedCopies")
        .column("Actual", "integer", ".status.actualCopies")
}

impl Reconciler for ConfigMapPropagation {
    type Spec = ConfigMapPropagationSpec;
    type Status = ConfigMapPropagationStatus;

    fn descriptor() -> Descriptor {
        let parent = crd!("crd.json", kind()).labelled("version=v1");
        Descriptor::new("configmappropagation", env!("CARGO_PKG_VERSION"), parent)
            .description("Copies a ConfigMap into the namespaces that a user names")
            .child::<ConfigMap>()
            .related::<ConfigMap>()
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        let ConfigMapPropagationSpec { source_name, source_namespace, target_namespaces } = &request.spec;
        if let Some(closed) = request.closed_namespaces().iter().find(|closed| target_namespaces.contains(*closed)) {
            let message = format!("no plugin may have children in {closed}");
            return Err(Failure::invalid_field("spec.targetNamespaces", message));
        }
        let response = Response::new()
            .require(Requirement::named::<ConfigMap>("source", source_name).in_namespace(source_namespace))
            .status(ConfigMapPropagationStatus {
                expected_copies: target_namespaces.len(),
                actual_copies: request.children_of::<ConfigMap>().count(),
            });
        let Some(mut sources) = request.related::<ConfigMap>("source") else { return Ok(response) };
        let Some(source) = sources.next() else {
            return Ok(response.waiting(format!("for ConfigMap {source_namespace}/{source_name}")));
        };
        let copies = target_namespaces.iter().map(|namespace| {
            json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": { "name": source_name, "namespace": namespace },
                "data": source.at("/data"),
            })
        });
        Ok(response.children(copies))
    }
}

windlass_plugin::export!(ConfigMapPropagation);
