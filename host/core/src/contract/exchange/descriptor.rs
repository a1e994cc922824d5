//! What a component says of itself.

use super::{ChildRule, Json};
use crate::value::ids::Gvk;

/// A plugin's description of itself, read each time its component is loaded.
#[derive(Debug, Clone, PartialEq)]
pub struct Descriptor {
    /// DNS label; the default name of the plugin's Plugin resource.
    pub name: String,
    /// Semantic version of the component.
    pub version: String,
    /// One sentence for users.
    pub description: String,
    /// The kind that the plugin reconciles.
    pub parent: Parent,
    /// Which objects of the kind are parents.
    pub selector: ParentSelector,
    /// The kinds of children that the plugin may return.
    pub children: Vec<ChildRule>,
    /// Kinds that the plugin's requirements may name.
    pub related: Vec<Gvk>,
    /// Those of these kinds that the cluster need not serve.
    pub optional: Vec<Gvk>,
    /// Whether parents get a finalizer, and `finalize` calls.
    pub finalizes: bool,
    /// Whether the children of a parent that goes are deleted by stage, each stage gone before the next. Parents get a finalizer for it.
    pub ordered_deletion: bool,
    /// What `Ready=True` of a parent means.
    pub ready_means: ReadyMeans,
    /// Whether requests have the time.
    pub clock: bool,
    /// Interval between resyncs in milliseconds, before jitter; `None` means the host's default.
    pub resync: Option<u64>,
    /// JSON Schema of the Plugin's `spec.config`; `None` if the plugin takes no configuration.
    pub config_schema: Option<Json>,
    /// Instruments that `host.measure` may name.
    pub metrics: Vec<Metric>,
}

impl Descriptor {
    /// The descriptor of a component that has no children and asks for nothing else either.
    pub fn about(name: &str, version: &str, parent: Parent) -> Self {
        let (children, related, optional, metrics) = Default::default();
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            description: String::new(),
            parent,
            selector: ParentSelector::default(),
            children,
            related,
            optional,
            finalizes: false,
            ordered_deletion: false,
            ready_means: ReadyMeans::Applied,
            clock: false,
            resync: None,
            config_schema: None,
            metrics,
        }
    }

    /// Whether parents get the plugin's finalizer.
    pub fn sets_finalizer(&self) -> bool {
        self.finalizes || self.ordered_deletion
    }
}

/// The kind that a plugin reconciles.
#[derive(Debug, Clone, PartialEq)]
pub enum Parent {
    /// The kind of this CRD (`apiextensions.k8s.io/v1`, JSON), which the component carries.
    Custom(Json),
    /// A kind that exists already.
    Existing(Gvk),
}

/// Which objects of its parent kind a plugin reconciles: those that match both selectors, in kubectl's syntax.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ParentSelector {
    /// Over labels; `None` or an empty one selects all objects.
    pub labels: Option<String>,
    /// Over annotations, likewise.
    pub annotations: Option<String>,
}

impl ParentSelector {
    /// The selector over labels, if it does not select all objects.
    pub fn labels(&self) -> Option<&str> {
        self.labels.as_deref().filter(|selector| !selector.is_empty())
    }

    /// The selector over annotations, if it does not select all objects.
    pub fn annotations(&self) -> Option<&str> {
        self.annotations.as_deref().filter(|selector| !selector.is_empty())
    }

    /// For messages: `those with the labels team=a and the annotations tier`; none if all objects are selected.
    pub fn selected(&self) -> Option<String> {
        let labels = self.labels().map(|labels| format!("the labels {labels}"));
        let annotations = self.annotations().map(|annotations| format!("the annotations {annotations}"));
        let both: Vec<_> = labels.into_iter().chain(annotations).collect();
        (!both.is_empty()).then(|| format!("those with {}", both.join(" and ")))
    }
}

/// What `Ready=True` of a parent means (rule R22). A condition `Ready` in the response takes precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadyMeans {
    /// All children are applied, and each is ready.
    Children,
    /// All children are applied; the meaning in contract 0.1.
    Applied,
    /// What the plugin says: the host sets the condition only while it cannot carry out the response.
    Plugin,
}

/// An instrument that a plugin declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metric {
    /// Name, without the plugin's prefix.
    pub name: String,
    /// Unit (UCUM, as OpenTelemetry uses it).
    pub unit: String,
    /// One sentence for users.
    pub description: String,
    /// Kind of instrument.
    pub metric_type: MetricType,
    /// Label names.
    pub labels: Vec<String>,
}

/// Kind of instrument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricType {
    /// A monotonic sum.
    Counter,
    /// The last value.
    Gauge,
    /// A distribution.
    Histogram,
}
