//! The description of a plugin.

use std::{marker::PhantomData, time::Duration};

use schemars::JsonSchema;

use crate::{
    CustomResource, Kind, UpdateStrategy,
    failure::milliseconds,
    json::bytes,
    kinds,
    raw::{self, MetricType},
    schema,
};

/// The description of a plugin: its name, its parents, and the kinds of its children and related objects.
#[derive(Debug, Clone)]
#[must_use]
pub struct Descriptor(raw::Descriptor);

impl Descriptor {
    /// A plugin with this name (a DNS label) and version (`env!("CARGO_PKG_VERSION")`). Its parents are of a [`CustomResource`]
    /// whose CRD the plugin contains, or of an [`Existing`] kind.
    pub fn new(name: &str, version: &str, parent: impl Into<Parent>) -> Self {
        Self(raw::Descriptor {
            name: name.to_owned(),
            version: version.to_owned(),
            description: String::new(),
            parent: parent.into().0,
            children: Vec::new(),
            related: Vec::new(),
            finalizes: false,
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

    /// Adds a kind of children with another update strategy.
    pub fn child_with<K: Kind>(mut self, update: UpdateStrategy) -> Self {
        self.0.children.push(raw::ChildRule { kind: kinds::raw::<K>(), update });
        self
    }

    /// Adds a kind that requirements may name. The plugin reads such objects and does not own them.
    pub fn related<K: Kind>(mut self) -> Self {
        self.0.related.push(kinds::raw::<K>());
        self
    }

    /// Gives parents a finalizer. When they are deleted or leave the label selector, the plugin is called to clean up
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
    /// Updates one child at a time in place. The next one follows when the one before has these conditions with status True.
    pub fn rolling<'a>(conditions: impl IntoIterator<Item = &'a str>) -> Self {
        Self::one_by_one(false, conditions)
    }

    /// Recreates one child at a time. The next one follows when the one before has these conditions with status True.
    pub fn rolling_recreate<'a>(conditions: impl IntoIterator<Item = &'a str>) -> Self {
        Self::one_by_one(true, conditions)
    }

    fn one_by_one<'a>(recreate: bool, conditions: impl IntoIterator<Item = &'a str>) -> Self {
        Self::Rolling(raw::Rolling { recreate, conditions: conditions.into_iter().map(str::to_owned).collect() })
    }
}

/// The kind that a plugin reconciles: a [`CustomResource`] or an [`Existing`] kind.
#[derive(Debug, Clone)]
pub struct Parent(raw::Parent);

impl Parent {
    /// A custom kind with this CRD in JSON; [`crd!`](crate::crd) embeds one.
    pub fn from_crd(crd: &'static [u8]) -> Self {
        Self(raw::Parent::Custom(crd.to_owned()))
    }
}

impl From<CustomResource> for Parent {
    fn from(resource: CustomResource) -> Self {
        Self(raw::Parent::Custom(bytes(&resource.crd())))
    }
}

impl<K: Kind> From<Existing<K>> for Parent {
    fn from(existing: Existing<K>) -> Self {
        Self(raw::Parent::Existing(raw::ExistingParent { kind: kinds::raw::<K>(), selector: existing.selector }))
    }
}

/// A kind that the plugin does not define: a built-in kind, or a custom kind of another operator.
#[derive(Debug, Clone)]
#[must_use]
pub struct Existing<K> {
    selector: Option<String>,
    kind: PhantomData<K>,
}

impl<K: Kind> Existing<K> {
    /// Reconciles all objects of the kind.
    pub fn all() -> Self {
        Self { selector: None, kind: PhantomData }
    }

    /// Reconciles the objects that match a label selector in kubectl's syntax.
    pub fn selected(selector: &str) -> Self {
        Self { selector: Some(selector.to_owned()), kind: PhantomData }
    }
}
