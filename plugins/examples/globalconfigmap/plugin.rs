//! A ConfigMap that is in every namespace: copies of one, also in namespaces that come later.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_plugin::{
    CustomResource, Descriptor, Failure, Reconciler, Request, Requirement, Response,
    checks::DNS_SUBDOMAIN,
    crd, json,
    kinds::{ConfigMap, Namespace},
};

/// A label of DNS, of at most 63 characters, as the name of a namespace.
const DNS_LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// Desired state of a GlobalConfigMap.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GlobalConfigMapSpec {
    /// Name of the ConfigMap, and of its copies.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub source_name: String,
    /// Namespace of the ConfigMap.
    #[schemars(length(max = 63), regex(pattern = DNS_LABEL))]
    pub source_namespace: String,
}

/// Observed state of a GlobalConfigMap.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GlobalConfigMapStatus {
    /// Number of copies that exist.
    pub copies: usize,
}

/// The operator.
#[derive(Debug)]
pub struct GlobalConfigMap;

fn kind() -> CustomResource {
    CustomResource::cluster_scoped::<GlobalConfigMap>("porting.example.com", "v1", "GlobalConfigMap")
        .short_name("gcm")
        .column("Copies", "integer", ".status.copies")
}

impl Reconciler for GlobalConfigMap {
    type Spec = GlobalConfigMapSpec;
    type Status = GlobalConfigMapStatus;

    fn descriptor() -> Descriptor {
        Descriptor::new("globalconfigmap", env!("CARGO_PKG_VERSION"), crd!("crd.json", kind()))
            .description("Copies a ConfigMap into every namespace")
            .child::<ConfigMap>()
            .related::<ConfigMap>()
            .related::<Namespace>()
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        let GlobalConfigMapSpec { source_name, source_namespace } = &request.spec;
        let response = Response::new()
            .require(Requirement::named::<ConfigMap>("source", source_name).in_namespace(source_namespace))
            .require(Requirement::labelled::<Namespace>("namespaces", "").metadata_only())
            .status(GlobalConfigMapStatus { copies: request.children_of::<ConfigMap>().count() });
        let Some((mut sources, namespaces)) =
            request.related::<ConfigMap>("source").zip(request.related::<Namespace>("namespaces"))
        else {
            return Ok(response);
        };
        let Some(source) = sources.next() else {
            return Ok(response.waiting(format!("for ConfigMap {source_namespace}/{source_name}")));
        };
        let is_open = |name: &str| request.closed_namespaces().iter().all(|closed| closed != name);
        let targets = namespaces.filter(|namespace| {
            let name = namespace.name();
            name != source_namespace && is_open(name) && !namespace.is_being_deleted()
        });
        let copies = targets.map(|namespace| {
            json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": { "name": source_name, "namespace": namespace.name() },
                "data": source.at("/data"),
            })
        });
        Ok(response.children(copies))
    }
}

windlass_plugin::export!(GlobalConfigMap);
