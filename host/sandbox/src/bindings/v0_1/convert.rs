//! Converts between WIT and core types: a request borrows from the caches, a response is moved out of the guest's
//! result.

use std::borrow::Cow;
use std::sync::Arc;

use windlass_core::contract as core;
use windlass_core::value::ids::Gvk;

use super::generated::windlass::plugin::{host, types as wit};

shared_conversions!();

/// The extension of a request whose parent is in a namespace that is being deleted.
const NAMESPACE_TERMINATING: [(&str, &[u8]); 1] = [("namespace-terminating", b"true")];

impl Lists<'_> {
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
            parent: &request.parent.object,
            children: &self.children,
            related,
            config: request.config.as_deref(),
            extensions: if request.namespace_terminating { &NAMESPACE_TERMINATING } else { &[] },
        }
    }
}

/// The `apiVersion`: the core stores group and version separately.
pub(super) struct WorkedOut<'a>(Cow<'a, str>);

impl<'a> WorkedOut<'a> {
    fn of(object: &'a core::Observed) -> Self {
        Self(api_version(&object.kind))
    }

    fn of_related(_related: &core::Related, object: &'a core::Observed) -> Self {
        Self::of(object)
    }
}

fn observe<'a>(object: &'a core::Observed, WorkedOut(api_version): &'a WorkedOut<'_>) -> wit::Observed<'a> {
    wit::Observed {
        kind: wit::KindParam { api_version, name: &object.kind.kind },
        namespace: object.namespace.as_deref(),
        name: &object.name,
        object: &object.object,
    }
}

pub(super) fn descriptor(descriptor: wit::Descriptor) -> core::Descriptor {
    let (parent, selector) = match descriptor.parent {
        wit::Parent::Custom(crd) => (core::Parent::Custom(crd), None),
        wit::Parent::Existing(existing) => (core::Parent::Existing(kind(&existing.kind)), existing.selector),
    };
    core::Descriptor {
        name: descriptor.name,
        version: descriptor.version,
        description: descriptor.description,
        parent,
        selector: core::ParentSelector { labels: selector, annotations: None },
        children: descriptor.children.into_iter().map(child_rule).collect(),
        related: descriptor.related.iter().map(kind).collect(),
        optional: Vec::new(),
        finalizes: descriptor.finalizes,
        ordered_deletion: false,
        ready_means: core::ReadyMeans::Applied,
        clock: false,
        resync: descriptor.resync,
        config_schema: descriptor.config_schema,
        metrics: descriptor.metrics.into_iter().map(metric).collect(),
    }
}

fn child_rule(rule: wit::ChildRule) -> core::ChildRule {
    core::ChildRule { kind: kind(&rule.kind), update: update(rule.update, core::Until::Conditions) }
}

pub(super) fn result(result: Result<wit::Response, wit::Failure>) -> core::PluginResult {
    match result {
        Ok(response) => Ok(core::Response {
            children: response.children,
            options: None,
            keep: core::Keep::None,
            waiting: None,
            status: response.status,
            requeue: response.requeue,
            requeue_at: None,
            events: response.events.into_iter().map(event).collect(),
            requirements: response.requirements.into_iter().map(requirement).collect(),
            http: Box::default(),
            finalized: response.finalized,
        }),
        Err(wit::Failure::Invalid(message)) => Err(core::Failure::Invalid(message)),
        Err(wit::Failure::Retry(retry)) => Err(core::Failure::Retry { message: retry.message, after: retry.after }),
        Err(wit::Failure::Failed(message)) => Err(core::Failure::Failed(message)),
    }
}

fn requirement(requirement: wit::Requirement) -> core::Requirement {
    core::Requirement {
        id: requirement.id,
        kind: kind(&requirement.kind),
        namespaces: requirement.namespace.map_or_else(Default::default, |name| core::Namespaces::Named(vec![name])),
        select: match requirement.select {
            wit::Selection::Name(name) => core::Selection::Name(name),
            wit::Selection::Labels(labels) => core::Selection::Labels(labels),
        },
        metadata_only: false,
    }
}
