//! The description of a plugin.

use std::time::Duration;

use schemars::JsonSchema;

use crate::{
    CustomResource, Kind, UpdateStrategy,
    failure::milliseconds,
    json::bytes,
    kinds,
    raw::{self, MetricType, ReadyMeans},
    schema,
};

/// The description of a plugin: its name, its parents, and the kinds of its children and related objects.
#[derive(Debug, Clone)]
#[must_use]
pub struct Descriptor(raw::Descriptor);

impl Descriptor {
    /// A plugin with this name (a DNS label) and version (`env!("CARGO_PKG_VERSION")`). Its parents are of a [`CustomResource`]
    /// whose CRD the plugin contains, or of a kind that [exists](Parent::existing).
    pub fn new(name: &str, version: &str, parent: impl Into<Parent>) -> Self {
        Self(raw::Descriptor {
            name: name.to_owned(),
            version: version.to_owned(),
            description: String::new(),
            parent: parent.into().0,
            children: Vec::new(),
            related: Vec::new(),
            endpoints: Vec::new(),
            finalizes: false,
            ordered_deletion: false,
            ready_means: ReadyMeans::Children,
            clock: false,
            resync: None,
            config_schema: None,
            metrics: Vec::new(),
            extensions: Vec::new(),
        })
    }

    /// Sets one sentence about what the plugin does.
    pub fn description(mut self, description: &str) -> Self {
        description.clone_into(&mut self.0.description);
        self
    }

    /// Adds a kind of children, which are updated by server-side apply.
    pub fn child<K: Kind>(self) -> Self {
        self.child_with::<K>(UpdateStrategy::Apply)
    }

    /// Adds a kind of children with another update strategy. [`ChildOptions::update`](crate::ChildOptions::update) is that of a
    /// single child.
    pub fn child_with<K: Kind>(self, update: UpdateStrategy) -> Self {
        self.child_rule::<K>(update, false)
    }

    /// Adds a kind of children that may be missing in the cluster, as a `ServiceMonitor`. The host leaves out children of a kind
    /// that is missing; [`Request::has_kind`](crate::Request::has_kind) tells whether it is.
    pub fn optional_child<K: Kind>(self) -> Self {
        self.optional_child_with::<K>(UpdateStrategy::Apply)
    }

    /// Adds a kind of children that may be missing in the cluster, with another update strategy.
    pub fn optional_child_with<K: Kind>(self, update: UpdateStrategy) -> Self {
        self.child_rule::<K>(update, true)
    }

    fn child_rule<K: Kind>(mut self, update: UpdateStrategy, optional: bool) -> Self {
        self.0.children.push(raw::ChildRule { kind: kinds::raw::<K>(), update, optional });
        self
    }

    /// Adds a kind that requirements may name. The plugin reads such objects and does not own them.
    pub fn related<K: Kind>(self) -> Self {
        self.related_rule::<K>(false)
    }

    /// Adds a kind that requirements may name, and that may be missing in the cluster: then they select nothing.
    pub fn optional_related<K: Kind>(self) -> Self {
        self.related_rule::<K>(true)
    }

    fn related_rule<K: Kind>(mut self, optional: bool) -> Self {
        self.0.related.push(raw::RelatedRule { kind: kinds::raw::<K>(), optional });
        self
    }

    /// Deletes the children of a deleted parent in reverse order of their [stages](crate::ChildOptions::stage), each stage gone
    /// before the next. A plugin that [`finalizes`](Self::finalizes) cleans up before that.
    pub fn ordered_deletion(mut self) -> Self {
        self.0.ordered_deletion = true;
        self
    }

    /// Sets what `Ready=True` of a parent means. The default is [`ReadyMeans::Children`]. A condition `Ready` in the response takes
    /// precedence.
    pub fn ready_means(mut self, ready_means: ReadyMeans) -> Self {
        self.0.ready_means = ready_means;
        self
    }

    /// Gives requests the time ([`Request::now`](crate::Request::now)). The host then reuses a response only until its
    /// [`Response::requeue_at`](crate::Response::requeue_at), and one without it never.
    pub fn clock(mut self) -> Self {
        self.0.clock = true;
        self
    }

    /// Gives parents a finalizer. When they are deleted or leave the selector, the plugin is called to clean up
    /// ([`Reconciler::finalize`](crate::Reconciler::finalize)). If that function is not implemented, a parent whose spec cannot be
    /// read cannot be finalized: give fields that are added later a default.
    pub fn finalizes(mut self) -> Self {
        self.0.finalizes = true;
        self
    }

    /// Sets the time between reconciles of a parent while nothing changes. The host adds jitter.
    pub fn resync(mut self, interval: Duration) -> Self {
        self.0.resync = Some(milliseconds(interval));
        self
    }

    /// Sets the type of the Plugin's `spec.config`, which [`Request::config`](crate::Request::config) reads.
    pub fn config<C: JsonSchema>(mut self) -> Self {
        self.0.config_schema = Some(bytes(&schema::of::<C>(schema::Direction::Read)));
        self
    }

    /// Adds a metric that [`measure`](crate::measure()) may name.
    pub fn metric(mut self, metric: Metric) -> Self {
        self.0.metrics.push(metric);
        self
    }

    pub(crate) fn into_raw(self) -> raw::Descriptor {
        self.0
    }
}

pub use crate::raw::Metric;

impl Metric {
    /// A counter, whose values add up. `name` is a Prometheus name without prefix, `description` one sentence, and `labels`
    /// are the names of labels.
    pub fn counter(name: &str, description: &str, labels: &[&str]) -> Self {
        Self::new(MetricType::Counter, name, "", description, labels)
    }

    /// A gauge, whose last value counts. `unit` is a UCUM unit (`s`, `By`), or empty for plain numbers.
    pub fn gauge(name: &str, unit: &str, description: &str, labels: &[&str]) -> Self {
        Self::new(MetricType::Gauge, name, unit, description, labels)
    }

    /// A histogram of values. `unit` is a UCUM unit (`s`, `By`), or empty for plain numbers.
    pub fn histogram(name: &str, unit: &str, description: &str, labels: &[&str]) -> Self {
        Self::new(MetricType::Histogram, name, unit, description, labels)
    }

    fn new(metric_type: MetricType, name: &str, unit: &str, description: &str, labels: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            unit: unit.to_owned(),
            description: description.to_owned(),
            metric_type,
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
        }
    }
}

impl UpdateStrategy {
    /// Updates one child at a time in place. The next one follows when the one before has these conditions with status True, or
    /// without conditions when it is [ready](crate::Object::readiness).
    pub fn rolling<'a>(conditions: impl IntoIterator<Item = &'a str>) -> Self {
        Self::one_by_one(false, conditions)
    }

    /// Recreates one child at a time. The next one follows as with [`rolling`](Self::rolling).
    pub fn rolling_recreate<'a>(conditions: impl IntoIterator<Item = &'a str>) -> Self {
        Self::one_by_one(true, conditions)
    }

    fn one_by_one<'a>(recreate: bool, conditions: impl IntoIterator<Item = &'a str>) -> Self {
        Self::Rolling(raw::Rolling { recreate, conditions: conditions.into_iter().map(str::to_owned).collect() })
    }
}

/// The objects that a plugin reconciles: those of a [`CustomResource`], or of a kind that exists.
///
/// ```
/// use windlass_plugin::{Parent, kinds::Namespace};
///
/// let guarded = Parent::existing::<Namespace>().labelled("guard=true").annotated("!example.com/ignore");
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Parent(raw::Parent);

impl Parent {
    /// A kind that the plugin does not define: a built-in kind, or a custom kind of another operator.
    pub fn existing<K: Kind>() -> Self {
        Self(raw::Parent::Existing(raw::ExistingParent { kind: kinds::raw::<K>(), selector: all() }))
    }

    /// A custom kind with this CRD in JSON; [`crd!`](crate::crd) embeds one.
    pub fn from_crd(crd: &'static [u8]) -> Self {
        Self::custom(crd.to_owned())
    }

    fn custom(definition: Vec<u8>) -> Self {
        Self(raw::Parent::Custom(raw::CustomParent { definition, selector: all() }))
    }

    /// Only the objects whose labels match a selector in kubectl's syntax (`tier in (a,b),!legacy`).
    pub fn labelled(mut self, selector: &str) -> Self {
        self.selector().labels = Some(selector.to_owned());
        self
    }

    /// Only the objects whose annotations match a selector in the same syntax. Objects that do not match cost the host memory.
    pub fn annotated(mut self, selector: &str) -> Self {
        self.selector().annotations = Some(selector.to_owned());
        self
    }

    fn selector(&mut self) -> &mut raw::ParentSelector {
        match &mut self.0 {
            raw::Parent::Custom(parent) => &mut parent.selector,
            raw::Parent::Existing(parent) => &mut parent.selector,
        }
    }
}

fn all() -> raw::ParentSelector {
    raw::ParentSelector { labels: None, annotations: None }
}

impl From<CustomResource> for Parent {
    fn from(resource: CustomResource) -> Self {
        Self::custom(bytes(&resource.crd()))
    }
}
