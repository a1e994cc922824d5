//! The documents that a test harness and `windlass harness` exchange.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use windlass_core::contract::{
    ChildRule, Descriptor, Metric, MetricType, Parent, ParentSelector, Phase, ReadyMeans, UpdateStrategy,
};
use windlass_core::object::readiness::Readiness;
use windlass_core::reconcile::recording::RecordedResponse;
use windlass_core::value::ids::Gvk;

/// A call of a plugin in a native test, before it is made or after it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Call {
    pub descriptor: WrittenDescriptor,
    /// The purpose of the call.
    #[serde(default = "sync")]
    pub phase: Phase,
    /// The parent, as the plugin gets it.
    pub parent: Box<RawValue>,
    /// The children in the request.
    #[serde(default)]
    pub children: Vec<Box<RawValue>>,
    /// The related objects in the request, by the id of the requirement.
    #[serde(default)]
    pub related: BTreeMap<String, Vec<Box<RawValue>>>,
    /// The Plugin's `spec.config`.
    pub config: Option<Box<RawValue>>,
    /// What the plugin returned, as golden answers have it; absent before the call.
    pub response: Option<RecordedResponse>,
}

fn sync() -> Phase {
    Phase::Sync
}

/// What the host makes of a call.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    /// The sentence with which the host refuses the descriptor, the config or the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// What is invalid in the parent, so that the host does not call the plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
    /// The parent with its defaults, if it lacks any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<Box<RawValue>>,
    /// The readiness of each child, in the same order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<WrittenReadiness>,
    /// The readiness of each related object.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub related: BTreeMap<String, Vec<WrittenReadiness>>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct WrittenReadiness {
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

impl From<Readiness> for WrittenReadiness {
    fn from(readiness: Readiness) -> Self {
        let (state, message) = match readiness {
            Readiness::Ready => ("ready", None),
            Readiness::Progressing(why) => ("progressing", Some(why.into())),
            Readiness::Failed(why) => ("failed", Some(why.into())),
            Readiness::Unknown => ("unknown", None),
        };
        Self { state, message }
    }
}

/// A descriptor, with the names of the contract.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct WrittenDescriptor {
    name: String,
    version: String,
    #[serde(default)]
    description: String,
    parent: WrittenParent,
    #[serde(default)]
    selector: WrittenSelector,
    #[serde(default)]
    children: Vec<WrittenChildRule>,
    #[serde(default)]
    related: Vec<WrittenRelatedRule>,
    #[serde(default)]
    finalizes: bool,
    #[serde(default)]
    ordered_deletion: bool,
    #[serde(default)]
    ready_means: WrittenReadyMeans,
    #[serde(default)]
    clock: bool,
    resync_ms: Option<u64>,
    config_schema: Option<Box<RawValue>>,
    #[serde(default)]
    metrics: Vec<WrittenMetric>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum WrittenParent {
    /// The CustomResourceDefinition.
    Custom(Box<RawValue>),
    /// A kind that exists already.
    Existing(Gvk),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct WrittenSelector {
    labels: Option<String>,
    annotations: Option<String>,
}

#[derive(Debug, Deserialize)]
struct WrittenChildRule {
    #[serde(flatten)]
    kind: Gvk,
    update: Option<UpdateStrategy>,
    #[serde(default)]
    optional: bool,
}

#[derive(Debug, Deserialize)]
struct WrittenRelatedRule {
    #[serde(flatten)]
    kind: Gvk,
    #[serde(default)]
    optional: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WrittenReadyMeans {
    #[default]
    Children,
    Applied,
    Plugin,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenMetric {
    name: String,
    #[serde(default)]
    unit: String,
    #[serde(default)]
    description: String,
    #[serde(rename = "type")]
    metric_type: WrittenMetricType,
    #[serde(default)]
    labels: Vec<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WrittenMetricType {
    Counter,
    Gauge,
    Histogram,
}

impl From<WrittenMetric> for Metric {
    fn from(WrittenMetric { name, unit, description, metric_type, labels }: WrittenMetric) -> Self {
        let metric_type = match metric_type {
            WrittenMetricType::Counter => MetricType::Counter,
            WrittenMetricType::Gauge => MetricType::Gauge,
            WrittenMetricType::Histogram => MetricType::Histogram,
        };
        Self { name, unit, description, metric_type, labels }
    }
}

impl From<WrittenDescriptor> for Descriptor {
    fn from(written: WrittenDescriptor) -> Self {
        let children = written.children.iter().filter(|rule| rule.optional).map(|rule| &rule.kind);
        let related = written.related.iter().filter(|rule| rule.optional).map(|rule| &rule.kind);
        let optional = children.chain(related).cloned().collect();
        let rule = |rule: WrittenChildRule| ChildRule {
            kind: rule.kind,
            update: rule.update.unwrap_or(UpdateStrategy::Apply),
        };
        Self {
            name: written.name,
            version: written.version,
            description: written.description,
            parent: match written.parent {
                WrittenParent::Custom(definition) => Parent::Custom(definition.get().as_bytes().to_vec()),
                WrittenParent::Existing(kind) => Parent::Existing(kind),
            },
            selector: ParentSelector { labels: written.selector.labels, annotations: written.selector.annotations },
            children: written.children.into_iter().map(rule).collect(),
            related: written.related.into_iter().map(|rule| rule.kind).collect(),
            optional,
            finalizes: written.finalizes,
            ordered_deletion: written.ordered_deletion,
            ready_means: match written.ready_means {
                WrittenReadyMeans::Children => ReadyMeans::Children,
                WrittenReadyMeans::Applied => ReadyMeans::Applied,
                WrittenReadyMeans::Plugin => ReadyMeans::Plugin,
            },
            clock: written.clock,
            resync: written.resync_ms,
            config_schema: written.config_schema.map(|schema| schema.get().as_bytes().to_vec()),
            metrics: written.metrics.into_iter().map(Metric::from).collect(),
        }
    }
}
