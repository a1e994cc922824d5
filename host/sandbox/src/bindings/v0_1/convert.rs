//! Converts between WIT and core types: a request borrows from the caches, a response is moved out of the guest's
//! result.

use std::borrow::Cow;

use windlass_core::contract as core;
use windlass_core::value::ids::Gvk;

use super::generated::windlass::plugin::{host, types as wit};

/// The `apiVersion` of every object in a request, in order. All other texts are borrowed from the request; the core
/// stores group and version separately.
pub(super) fn api_versions(request: &core::Request) -> Vec<Cow<'_, str>> {
    let related = request.related.iter().flat_map(|related| &related.objects);
    request.children.iter().chain(related).map(|object| api_version(&object.kind)).collect()
}

/// The extension of a request whose parent is in a namespace that is being deleted.
const NAMESPACE_TERMINATING: [(&str, &[u8]); 1] = [("namespace-terminating", b"true")];

fn api_version(kind: &Gvk) -> Cow<'_, str> {
    if kind.group.is_empty() { (&*kind.version).into() } else { kind.api_version().into() }
}

/// The lists of a request, which WIT's types borrow.
pub(super) struct Lists<'a> {
    children: Vec<wit::Observed<'a>>,
    related: Vec<(&'a str, Vec<wit::Observed<'a>>)>,
}

impl<'a> Lists<'a> {
    pub(super) fn of(request: &'a core::Request, api_versions: &'a [Cow<'a, str>]) -> Self {
        let mut api_versions = api_versions.iter();
        let mut observed = |objects: &'a [core::Observed]| -> Vec<_> {
            // `zip` advances its left side first: in the reverse order it would consume one version too many.
            objects.iter().zip(api_versions.by_ref()).map(|(object, version)| observe(object, version)).collect()
        };
        let children = observed(&request.children);
        let related = request.related.iter().map(|related| (&*related.id, observed(&related.objects))).collect();
        Self { children, related }
    }

    pub(super) fn related(&self) -> Vec<wit::Related<'_>> {
        self.related.iter().map(|(id, objects)| wit::Related { id, objects }).collect()
    }

    pub(super) fn request<'b>(
        &'b self,
        request: &'b core::Request,
        related: &'b [wit::Related<'b>],
    ) -> wit::Request<'b> {
        wit::Request {
            phase: match request.phase {
                core::Phase::Sync => wit::Phase::Sync,
                core::Phase::Finalize => wit::Phase::Finalize,
            },
            parent: &request.parent,
            children: &self.children,
            related,
            config: request.config.as_deref(),
            extensions: if request.namespace_terminating { &NAMESPACE_TERMINATING } else { &[] },
        }
    }
}

fn observe<'a>(object: &'a core::Observed, api_version: &'a str) -> wit::Observed<'a> {
    wit::Observed {
        kind: wit::KindParam { api_version, name: &object.kind.kind },
        namespace: object.namespace.as_deref(),
        name: &object.name,
        object: &object.object,
    }
}

pub(super) fn descriptor(descriptor: wit::Descriptor) -> core::Descriptor {
    core::Descriptor {
        name: descriptor.name,
        version: descriptor.version,
        description: descriptor.description,
        parent: match descriptor.parent {
            wit::Parent::Custom(crd) => core::Parent::Custom(crd),
            wit::Parent::Existing(existing) => {
                core::Parent::Existing { kind: kind(&existing.kind), selector: existing.selector }
            }
        },
        children: descriptor.children.into_iter().map(child_rule).collect(),
        related: descriptor.related.iter().map(kind).collect(),
        finalizes: descriptor.finalizes,
        resync: descriptor.resync,
        config_schema: descriptor.config_schema,
        metrics: descriptor.metrics.into_iter().map(metric).collect(),
    }
}

fn kind(kind: &wit::KindResult) -> Gvk {
    Gvk::from_api_version(&kind.api_version, &kind.name)
}

fn child_rule(rule: wit::ChildRule) -> core::ChildRule {
    core::ChildRule {
        kind: kind(&rule.kind),
        update: match rule.update {
            wit::UpdateStrategy::Apply => core::UpdateStrategy::Apply,
            wit::UpdateStrategy::Recreate => core::UpdateStrategy::Recreate,
            wit::UpdateStrategy::OnDelete => core::UpdateStrategy::OnDelete,
            wit::UpdateStrategy::Rolling(rolling) => {
                core::UpdateStrategy::Rolling { recreate: rolling.recreate, conditions: rolling.conditions.into() }
            }
        },
    }
}

fn metric(metric: wit::Metric) -> core::Metric {
    core::Metric {
        name: metric.name,
        unit: metric.unit,
        description: metric.description,
        metric_type: match metric.metric_type {
            wit::MetricType::Counter => core::MetricType::Counter,
            wit::MetricType::Gauge => core::MetricType::Gauge,
            wit::MetricType::Histogram => core::MetricType::Histogram,
        },
        labels: metric.labels,
    }
}

pub(super) fn result(result: Result<wit::Response, wit::Failure>) -> core::PluginResult {
    match result {
        Ok(response) => Ok(core::Response {
            children: response.children,
            status: response.status,
            requeue: response.requeue,
            events: response.events.into_iter().map(event).collect(),
            requirements: response.requirements.into_iter().map(requirement).collect(),
            finalized: response.finalized,
        }),
        Err(wit::Failure::Invalid(message)) => Err(core::Failure::Invalid(message)),
        Err(wit::Failure::Retry(retry)) => Err(core::Failure::Retry { message: retry.message, after: retry.after }),
        Err(wit::Failure::Failed(message)) => Err(core::Failure::Failed(message)),
    }
}

fn event(event: wit::Event) -> core::Event {
    core::Event {
        event_type: match event.event_type {
            wit::EventType::Normal => core::EventType::Normal,
            wit::EventType::Warning => core::EventType::Warning,
        },
        reason: event.reason,
        message: event.message,
    }
}

fn requirement(requirement: wit::Requirement) -> core::Requirement {
    core::Requirement {
        id: requirement.id,
        kind: kind(&requirement.kind),
        namespace: requirement.namespace,
        select: match requirement.select {
            wit::Selection::Name(name) => core::Selection::Name(name),
            wit::Selection::Labels(labels) => core::Selection::Labels(labels),
        },
    }
}

pub(super) fn level(level: host::Level) -> core::Level {
    match level {
        host::Level::Trace => core::Level::Trace,
        host::Level::Debug => core::Level::Debug,
        host::Level::Info => core::Level::Info,
        host::Level::Warn => core::Level::Warn,
        host::Level::Error => core::Level::Error,
    }
}
