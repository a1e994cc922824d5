//! Plugins on the SDK, which speaks contract 0.2, as components of contract 0.1: the tests of what contract 0.1 promises run them.

use std::marker::PhantomData;

use windlass_plugin::raw::{self as new, exports::windlass::plugin::reconciler::Guest as _};
use windlass_plugin::{Adapter, Reconciler};

use crate::raw::{self as old, exports::windlass::plugin::reconciler::Guest};

/// Exports a [`Reconciler`] as a component of contract 0.1.
#[macro_export]
macro_rules! export_older {
    ($plugin:ty) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            type Plugin = $crate::older::Older<$plugin>;
    $crate::raw::export_component!(Plugin with_types_in $crate::raw);
        };
    };
}

/// Connects contract 0.1 with a [`Reconciler`] without metrics that uses nothing of contract 0.2 but
/// [`windlass_plugin::Response::wait`], which becomes the failure to retry.
pub struct Older<R>(PhantomData<R>);

impl<R: Reconciler> Guest for Older<R> {
    fn describe() -> old::Descriptor {
        let new = Adapter::<R>::describe();
        old::Descriptor {
            name: new.name,
            version: new.version,
            description: new.description,
            parent: match new.parent {
                new::Parent::Custom(parent) => old::Parent::Custom(parent.definition),
                new::Parent::Existing(parent) => old::Parent::Existing(old::ExistingParent {
                    kind: kind(parent.kind),
                    selector: parent.selector.labels,
                }),
            },
            children: new.children.into_iter().map(child_rule).collect(),
            related: new.related.into_iter().map(|rule| kind(rule.kind)).collect(),
            finalizes: new.finalizes,
            resync: new.resync,
            config_schema: new.config_schema,
            metrics: Vec::new(),
            extensions: Vec::new(),
        }
    }

    fn reconcile(request: old::Request) -> Result<old::Response, old::Failure> {
        match Adapter::<R>::reconcile(newer(request)) {
            Ok(new::Response { keep: new::Keep::All, waiting: Some(message), requeue, .. }) => {
                Err(old::Failure::Retry(old::Retry { message, after: requeue.unwrap_or_default() }))
            }
            Ok(new) => Ok(old::Response {
                children: new.children.into_iter().map(|child| child.object).collect(),
                status: new.status,
                requeue: new.requeue,
                events: new.events.into_iter().map(event).collect(),
                requirements: new.requirements.into_iter().map(requirement).collect(),
                finalized: new.finalized,
                extensions: Vec::new(),
            }),
            Err(new::Failure::Invalid(invalid)) => Err(old::Failure::Invalid(invalid.to_string())),
            Err(new::Failure::Failed(message)) => Err(old::Failure::Failed(message)),
        }
    }
}

/// The request without what contract 0.1 does not have.
fn newer(request: old::Request) -> new::Request {
    let namespace_terminating = request.extensions.iter().any(|(name, _)| name == "namespace-terminating");
    let cause = new::FinalizeCause::Deleted;
    let related = |related: old::Related| new::Related {
        id: related.id,
        objects: related.objects.into_iter().map(observed).collect(),
    };
    new::Request {
        phase: match request.phase {
            old::Phase::Sync => new::Phase::Sync,
            old::Phase::Finalize => new::Phase::Finalize(new::Finalizing { cause, namespace_terminating }),
        },
        parent_kind: new::Kind { api_version: String::new(), name: String::new() },
        parent: request.parent,
        children: request.children.into_iter().map(observed).collect(),
        left_out: Vec::new(),
        related: request.related.into_iter().map(related).collect(),
        http: Vec::new(),
        config: request.config,
        kinds: Vec::new(),
        now: None,
        capabilities: new::Capabilities { features: Vec::new(), closed_namespaces: Vec::new() },
        extensions: Vec::new(),
    }
}

fn observed(old: old::Observed) -> new::Observed {
    let kind = new::Kind { api_version: old.kind.api_version, name: old.kind.name };
    let readiness = new::Readiness::Unknown;
    new::Observed { kind, namespace: old.namespace, name: old.name, object: old.object, readiness }
}

fn kind(kind: new::Kind) -> old::Kind {
    old::Kind { api_version: kind.api_version, name: kind.name }
}

fn child_rule(rule: new::ChildRule) -> old::ChildRule {
    let update = match rule.update {
        new::UpdateStrategy::Apply => old::UpdateStrategy::Apply,
        new::UpdateStrategy::Recreate => old::UpdateStrategy::Recreate,
        new::UpdateStrategy::OnDelete => old::UpdateStrategy::OnDelete,
        new::UpdateStrategy::Rolling(rolling) => {
            old::UpdateStrategy::Rolling(old::Rolling { recreate: rolling.recreate, conditions: rolling.conditions })
        }
    };
    old::ChildRule { kind: kind(rule.kind), update }
}

fn event(event: new::Event) -> old::Event {
    let event_type = match event.event_type {
        new::EventType::Normal => old::EventType::Normal,
        new::EventType::Warning => old::EventType::Warning,
    };
    old::Event { event_type, reason: event.reason, message: event.message }
}

fn requirement(requirement: new::Requirement) -> old::Requirement {
    old::Requirement {
        id: requirement.id,
        kind: kind(requirement.kind),
        namespace: match requirement.namespaces {
            new::Namespaces::Named(names) => names.into_iter().next(),
            new::Namespaces::OfParent | new::Namespaces::All => None,
        },
        select: match requirement.select {
            new::Selection::Name(name) => old::Selection::Name(name),
            new::Selection::Labels(labels) => old::Selection::Labels(labels),
            new::Selection::LabelSelector(json) => old::Selection::Labels(String::from_utf8_lossy(&json).into_owned()),
        },
    }
}
