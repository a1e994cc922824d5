//! What a plugin is.

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

/// What a plugin is: its name, its parents, the kinds it may own and read.
#[derive(Debug, Clone)]
#[must_use]
pub struct Descriptor(raw::Descriptor);

impl Descriptor {
    /// A plugin of this name (a DNS label) and version (`env!("CARGO_PKG_VERSION")`), for these parents: a
    /// [`CustomResource`] that it brings along, or an [`Existing`] kind.
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

    /// One sentence on what the plugin does.
    pub fn description(mut self, description: &str) -> Self {
        description.clone_into(&mut self.0.description);
        self
    }

    /// A kind of children, changed in place by server-side apply.
    pub fn child<K: Kind>(self) -> Self {
        self.child_with::<K>(UpdateStrategy::Apply)
    }

    /// A kind of children, changed in another way.
    pub fn child_with<K: Kind>(mut self, update: UpdateStrategy) -> Self {
        self.0.children.push(raw::ChildRule { kind: kinds::raw::<K>(), update });
        self
    }

    /// A kind that requirements may name: read, not owned.
    pub fn related<K: Kind>(mut self) -> Self {
        self.0.related.push(kinds::raw::<K>());
        self
    }

    /// Parents get a finalizer, and a call with [`Phase::Finalize`](crate::Phase) when they are deleted or leave the label
    /// selector. A parent whose spec cannot be read cannot be finalized either: give fields that are added later a default.
    pub fn finalizes(mut self) -> Self {
        self.0.finalizes = true;
        self
    }

    /// Time between unprompted reconciles of one parent; the host adds jitter.
    pub fn resync(mut self, interval: Duration) -> Self {
        self.0.resync = Some(milliseconds(interval));
        self
    }

    /// The Plugin's `spec.config` is a `C`; read it with [`Request::config`](crate::Request::config).
    pub fn config<C: JsonSchema>(mut self) -> Self {
        self.0.config_schema = Some(bytes(&schema::of::<C>(schema::Direction::Read)));
        self
    }

    /// A metric that [`measure`](crate::measure()) keeps.
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
    /// Adds up: how often something happened. A Prometheus name without prefix, one sentence, and the labels' names.
    pub fn counter(name: &str, description: &str, labels: &[&str]) -> Self {
        Self::new(MetricType::Counter, name, "", description, labels)
    }

    /// The last value counts. The unit is UCUM's (`s`, `By`), or empty for plain numbers.
    pub fn gauge(name: &str, unit: &str, description: &str, labels: &[&str]) -> Self {
        Self::new(MetricType::Gauge, name, unit, description, labels)
    }

    /// A distribution.
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
    /// One child at a time, in place, each when the one before has these conditions with status True.
    pub fn rolling<'a>(conditions: impl IntoIterator<Item = &'a str>) -> Self {
        Self::one_by_one(false, conditions)
    }

    /// One child at a time, deleted and created anew, each when the one before has these conditions with status True.
    pub fn rolling_recreate<'a>(conditions: impl IntoIterator<Item = &'a str>) -> Self {
        Self::one_by_one(true, conditions)
    }

    fn one_by_one<'a>(recreate: bool, conditions: impl IntoIterator<Item = &'a str>) -> Self {
        Self::Rolling(raw::Rolling { recreate, conditions: conditions.into_iter().map(str::to_owned).collect() })
    }
}

/// What a plugin reconciles: made from a [`CustomResource`] or an [`Existing`] kind.
#[derive(Debug, Clone)]
pub struct Parent(raw::Parent);

impl Parent {
    /// A custom kind whose definition is a file: what [`definition!`](crate::definition) puts into a component.
    pub fn defined_by(definition: &'static [u8]) -> Self {
        Self(raw::Parent::Custom(definition.to_owned()))
    }
}

impl From<CustomResource> for Parent {
    fn from(resource: CustomResource) -> Self {
        Self(raw::Parent::Custom(bytes(&resource.definition())))
    }
}

impl<K: Kind> From<Existing<K>> for Parent {
    fn from(existing: Existing<K>) -> Self {
        Self(raw::Parent::Existing(raw::ExistingParent { kind: kinds::raw::<K>(), selector: existing.selector }))
    }
}

/// A parent kind that exists already: a built-in one, or a custom one that something else installs.
#[derive(Debug, Clone)]
#[must_use]
pub struct Existing<K> {
    selector: Option<String>,
    kind: PhantomData<K>,
}

impl<K: Kind> Existing<K> {
    /// All objects of the kind.
    pub fn all() -> Self {
        Self { selector: None, kind: PhantomData }
    }

    /// Those that match a label selector in kubectl's syntax.
    pub fn selected(selector: &str) -> Self {
        Self { selector: Some(selector.to_owned()), kind: PhantomData }
    }
}
