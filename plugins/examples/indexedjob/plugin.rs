//! A Job whose Pods know their index: it runs a Pod for each index, some at a time, until all have succeeded.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_plugin::{
    Condition, ConditionStatus, CustomResource, Descriptor, Failure, Object, Reconciler, Request, Response, Value, crd,
    json, kinds::Pod,
};

/// Desired state of an IndexedJob.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct IndexedJobSpec {
    /// Number of Pods that must succeed. Default: 1.
    #[serde(default = "one")]
    #[schemars(range(max = 1000))]
    pub completions: usize,
    /// Number of Pods that run at the same time. Default: 1.
    #[serde(default = "one")]
    pub parallelism: usize,
    /// What each Pod is made of.
    pub template: PodTemplate,
}

fn one() -> usize {
    1
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
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Labels {
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The annotations.
    pub annotations: BTreeMap<String, String>,
}

/// The spec of a Pod.
#[derive(Debug, Deserialize, Serialize, JsonSchema, Clone)]
pub struct PodSpec {
    /// The containers. Each has its Pod's index in the environment variable `JOB_INDEX`.
    pub containers: Vec<Container>,
    /// The other fields.
    #[serde(flatten)]
    pub others: BTreeMap<String, Value>,
}

/// A container.
#[derive(Debug, Deserialize, Serialize, JsonSchema, Clone)]
pub struct Container {
    /// Environment variables beside the index.
    #[serde(default)]
    pub env: Vec<Value>,
    /// The other fields.
    #[serde(flatten)]
    pub others: BTreeMap<String, Value>,
}

/// Observed state of an IndexedJob. Its condition `Complete` is True once all Pods have succeeded.
#[derive(Debug, Serialize, JsonSchema)]
pub struct IndexedJobStatus {
    /// Number of Pods that have not ended.
    pub active: usize,
    /// Number of Pods that have succeeded.
    pub succeeded: usize,
    /// Number of Pods that have failed.
    pub failed: usize,
}

/// The operator.
#[derive(Debug)]
pub struct IndexedJob;

fn kind() -> CustomResource {
    CustomResource::namespaced::<IndexedJob>("porting.example.com", "v1", "IndexedJob")
        .short_name("ij")
        .column("Completions", "integer", ".spec.completions")
        .column("Succeeded", "integer", ".status.succeeded")
        // A Pod's name is its host name by default, and appends up to `-999` to this.
        .rfc1035_name(59)
}

impl Reconciler for IndexedJob {
    type Spec = IndexedJobSpec;
    type Status = IndexedJobStatus;

    fn descriptor() -> Descriptor {
        Descriptor::new("indexedjob", env!("CARGO_PKG_VERSION"), crd!("crd.json", kind()))
            .description("Runs a Pod for each index until all have succeeded")
            .child::<Pod>()
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        // Pods that exist stay as they are.
        let response = Response::new().keep_all();
        // From then on, Pods may be deleted, and are not run again.
        if is_complete(&request) {
            return Ok(response);
        }
        let IndexedJobSpec { completions, parallelism, template } = &request.spec;
        let pods = pods(&request);
        let of_phase = |phase: &str| pods.values().filter(|pod| pod.at("/status/phase") == phase).count();
        let (succeeded, failed) = (of_phase("Succeeded"), of_phase("Failed"));
        let active = pods.len() - succeeded - failed;
        let missing = (0..*completions).filter(|index| !pods.contains_key(index));
        let next = missing.take(parallelism.saturating_sub(active)).map(|index| pod(request.name(), template, index));

        let progress = format!("{succeeded} of {completions} Pods have succeeded");
        let is_complete = succeeded == *completions;
        let reason = if is_complete { "Completed" } else { "Running" };
        let response = if is_complete { response } else { response.waiting(&*progress) };
        Ok(response.children(next).condition("Complete", is_complete, reason, &progress).status(IndexedJobStatus {
            active,
            succeeded,
            failed,
        }))
    }
}

/// Whether all Pods had succeeded in an earlier call.
fn is_complete(request: &Request<IndexedJob>) -> bool {
    #[derive(Deserialize)]
    struct Status {
        conditions: Vec<Condition>,
    }
    let is_complete =
        |condition: &Condition| condition.type_ == "Complete" && condition.status == ConditionStatus::True;
    request.status_as::<Status>().is_some_and(|status| status.conditions.iter().any(is_complete))
}

/// The live Pods by their indexes.
fn pods(request: &Request<IndexedJob>) -> BTreeMap<usize, Object<'_, Pod>> {
    let index = |pod: &Object<Pod>| pod.name().strip_prefix(request.name())?.strip_prefix('-')?.parse().ok();
    request.children_of().filter_map(|pod| Some((index(&pod)?, pod))).collect()
}

fn pod(job: &str, template: &PodTemplate, index: usize) -> Value {
    let mut spec = template.spec.clone();
    for container in &mut spec.containers {
        container.env.push(json!({ "name": "JOB_INDEX", "value": index.to_string() }));
    }
    let Labels { labels, annotations } = &template.metadata;
    let metadata = json!({ "name": format!("{job}-{index}"), "labels": labels, "annotations": annotations });
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec })
}

windlass_plugin::export!(IndexedJob);
