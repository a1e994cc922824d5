//! A StatefulSet as one function: Pods that come up in order, are replaced one by one, and end in reverse, each with claims that stay
//! when it is scaled down.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_plugin::{
    CustomResource, Descriptor, Failure, Object, Reconciler, Request, Response, Unread, UpdateStrategy, Value, crd,
    json,
    kinds::{PersistentVolumeClaim, Pod},
};

/// A label of DNS, of at most 63 characters, as the name of a volume.
const DNS_LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// Desired state of a CatSet.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CatSetSpec {
    /// Desired number of Pods.
    #[schemars(range(max = 1000))]
    pub replicas: u32,
    /// Headless Service of the Pods: `<pod>.<serviceName>` is the DNS name of each.
    #[schemars(length(max = 63), regex(pattern = DNS_LABEL))]
    pub service_name: String,
    /// What each Pod is made of.
    pub template: PodTemplate,
    /// What the claims of each Pod are made of.
    #[serde(default)]
    pub volume_claim_templates: Vec<ClaimTemplate>,
}

/// A Pod without its name.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct PodTemplate {
    /// Labels and annotations.
    #[serde(default)]
    pub metadata: Labels,
    /// The Pod's spec.
    pub spec: PodSpec,
}

/// Labels and annotations.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct Labels {
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The annotations.
    pub annotations: BTreeMap<String, String>,
}

/// The spec of a Pod.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct PodSpec {
    /// Volumes beside those of the claims.
    #[serde(default)]
    pub volumes: Vec<Value>,
    /// The other fields.
    #[serde(flatten)]
    pub others: BTreeMap<String, Value>,
}

/// A PersistentVolumeClaim of each Pod.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ClaimTemplate {
    /// Name, labels and annotations.
    pub metadata: ClaimMetadata,
    /// The claim's spec.
    pub spec: BTreeMap<String, Value>,
}

/// Metadata of a claim.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ClaimMetadata {
    /// Name of the volume in the Pods; the claim of a Pod is `<name>-<pod>`.
    #[schemars(length(max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,
    /// Labels and annotations.
    #[serde(flatten)]
    pub labels: Labels,
}

/// Observed state of a CatSet.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CatSetStatus {
    /// Number of Pods that exist.
    pub replicas: usize,
    /// Number of Pods that are Ready, from the first one up to the first that is not.
    pub ready_replicas: u32,
}

/// The operator.
#[derive(Debug)]
pub struct CatSet;

fn kind() -> CustomResource {
    CustomResource::namespaced::<CatSet>("porting.example.com", "v1", "CatSet")
        .column("Desired", "integer", ".spec.replicas")
        .column("ReadyPods", "integer", ".status.readyReplicas")
        // The name of a Pod is its host name, and appends up to `-999` to this.
        .rfc1035_name(59)
}

impl Reconciler for CatSet {
    type Spec = CatSetSpec;
    type Status = CatSetStatus;

    fn descriptor() -> Descriptor {
        Descriptor::new("catset", env!("CARGO_PKG_VERSION"), crd!("crd.json", kind()))
            .description("Runs Pods in order, each with claims of its own")
            .child::<PersistentVolumeClaim>()
            .child_with::<Pod>(UpdateStrategy::rolling_recreate(["Ready"]))
            .finalizes()
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        let CatSetSpec { replicas, volume_claim_templates, .. } = &request.spec;
        let pods = pods(&request);
        let is_ready = |ordinal: &u32| {
            pods.get(ordinal).is_some_and(|pod| pod.is_condition_true("Ready") && !pod.is_being_deleted())
        };
        let ready = (0..*replicas).find(|ordinal| !is_ready(ordinal)).unwrap_or(*replicas);

        let mut ordinals: BTreeSet<u32> = pods.keys().copied().collect();
        if ready < *replicas {
            ordinals.insert(ready);
        } else if ordinals.last() >= Some(replicas) {
            ordinals.pop_last();
        }
        // Pods are replaced in the order of the response: the last one first.
        let desired = ordinals.iter().rev().map(|ordinal| pod(&request, *ordinal));

        let of_pod = |ordinal| volume_claim_templates.iter().map(move |template| (template, ordinal));
        let claims = (0..*replicas).flat_map(of_pod);
        let claims: BTreeMap<_, _> =
            claims.map(|(template, ordinal)| claim(request.name(), template, ordinal)).collect();
        // The data of Pods that were scaled down stays.
        let others = request.children_of::<PersistentVolumeClaim>().filter(|live| !claims.contains_key(live.name()));

        let status = CatSetStatus { replicas: pods.len(), ready_replicas: ready };
        Ok(Response::new().children(desired).keep(others).children(claims.into_values()).status(status))
    }

    /// Ends the Pods one by one, the last one first. The claims go with the CatSet.
    fn finalize(request: Request<Self, Unread>) -> Result<Response<Self>, Failure> {
        let mut pods = pods(&request);
        let response = Response::new().status(CatSetStatus { replicas: pods.len(), ready_replicas: 0 });
        if pods.pop_last().is_none() {
            return Ok(response.finalized());
        }
        Ok(response.keep(pods.into_values()).keep(request.children_of::<PersistentVolumeClaim>()))
    }
}

/// The live Pods by their ordinals.
fn pods<S>(request: &Request<CatSet, S>) -> BTreeMap<u32, Object<'_, Pod>> {
    let ordinal = |pod: &Object<Pod>| pod.name().strip_prefix(request.name())?.strip_prefix('-')?.parse().ok();
    request.children_of().filter_map(|pod| Some((ordinal(&pod)?, pod))).collect()
}

fn pod(request: &Request<CatSet>, ordinal: u32) -> Value {
    let CatSetSpec { service_name, template, volume_claim_templates, .. } = &request.spec;
    let name = format!("{}-{ordinal}", request.name());
    let of_claims = volume_claim_templates.iter().map(|ClaimTemplate { metadata, .. }| {
        json!({ "name": metadata.name, "persistentVolumeClaim": { "claimName": format!("{}-{name}", metadata.name) } })
    });
    let mut spec = template.spec.others.clone();
    spec.insert("volumes".to_owned(), template.spec.volumes.iter().cloned().chain(of_claims).collect());
    spec.insert("hostname".to_owned(), json!(name));
    spec.insert("subdomain".to_owned(), json!(service_name));
    let Labels { labels, annotations } = &template.metadata;
    let metadata = json!({ "name": name, "labels": labels, "annotations": annotations });
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec })
}

/// A claim by its name.
fn claim(catset: &str, ClaimTemplate { metadata, spec }: &ClaimTemplate, ordinal: u32) -> (String, Value) {
    let name = format!("{}-{catset}-{ordinal}", metadata.name);
    let Labels { labels, annotations } = &metadata.labels;
    let metadata = json!({ "name": name, "labels": labels, "annotations": annotations });
    let claim = json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec });
    (name, claim)
}

windlass_plugin::export!(CatSet);
