//! Converts between WIT and core types: a request borrows from the caches, a response is moved out of the guest's
//! result.

use std::borrow::Cow;
use std::num::NonZero;
use std::sync::Arc;

use windlass_core::contract as core;
use windlass_core::object::readiness::Readiness;
use windlass_core::object::selector::from_object;
use windlass_core::value::ids::Gvk;

use super::generated::windlass::plugin::{host, types as wit};
use crate::bindings::Returned;

shared_conversions!();

impl Lists<'_> {
    pub(super) fn request<'b>(
        &'b self,
        request: &'b core::Request,
        related: &'b [wit::Related<'b>],
        beside: &'b Beside<'b>,
    ) -> wit::Request<'b> {
        wit::Request {
            phase: match request.phase {
                core::Phase::Sync => wit::Phase::Sync,
                core::Phase::Finalize => wit::Phase::Finalize(wit::Finalizing {
                    cause: match request.cause {
                        core::FinalizeCause::Deleted => wit::FinalizeCause::Deleted,
                        core::FinalizeCause::LeftSelector => wit::FinalizeCause::LeftSelector,
                        core::FinalizeCause::LeftNamespaces => wit::FinalizeCause::LeftNamespaces,
                    },
                    namespace_terminating: request.namespace_terminating,
                }),
            },
            parent_kind: wit::KindParam { api_version: &beside.parents, name: &request.parent.kind.kind },
            parent: &request.parent.object,
            children: &self.children,
            left_out: &beside.left_out,
            related,
            http: &beside.http,
            kinds: &beside.kinds,
            now: request.now,
            config: request.config.as_deref(),
            capabilities: wit::Capabilities { features: &[], closed_namespaces: &beside.closed_namespaces },
            extensions: &[],
        }
    }
}

/// What a request has beside the lists of objects.
pub(super) struct Beside<'a> {
    parents: Cow<'a, str>,
    left_out: Vec<wit::LeftOut<'a>>,
    http: Vec<wit::HttpAnswer<'a>>,
    closed_namespaces: Vec<&'a str>,
    kinds: Vec<wit::KindParam<'a>>,
}

/// The `apiVersion`s of what a request has beside the lists of objects: the core stores group and version separately.
pub(super) struct Versions<'a> {
    left_out: Vec<Cow<'a, str>>,
    kinds: Vec<Cow<'a, str>>,
}

impl<'a> Versions<'a> {
    pub(super) fn of(request: &'a core::Request) -> Self {
        Self {
            left_out: request.left_out.iter().map(|left| api_version(&left.child.kind)).collect(),
            kinds: request.offer.kinds.iter().map(api_version).collect(),
        }
    }
}

impl<'a> Beside<'a> {
    pub(super) fn of(request: &'a core::Request, versions: &'a Versions<'a>) -> Self {
        let left_out = request.left_out.iter().zip(&versions.left_out).map(|(left, api_version)| wit::LeftOut {
            child: wit::ChildRefParam {
                kind: wit::KindParam { api_version, name: &left.child.kind.kind },
                namespace: left.child.key.namespace.as_deref(),
                name: &left.child.key.name,
            },
            size: left.size,
        });
        let kinds = request.offer.kinds.iter().zip(&versions.kinds);
        let not_granted = || Err(wit::HttpFailure::NotGranted(NOT_SENT));
        let answer = |id: &'a String| wit::HttpAnswer { id, stale: false, outcome: not_granted() };
        Self {
            parents: api_version(&request.parent.kind),
            left_out: left_out.collect(),
            http: request.unsent.iter().map(answer).collect(),
            closed_namespaces: request.offer.closed_namespaces.iter().map(|namespace| &**namespace).collect(),
            kinds: kinds.map(|(kind, api_version)| wit::KindParam { api_version, name: &kind.kind }).collect(),
        }
    }
}

/// The answer to every request to another system.
const NOT_SENT: &str = "this host does not send requests to other systems yet";

pub(super) struct WorkedOut<'a> {
    /// The core stores group and version separately.
    api_version: Cow<'a, str>,
    readiness: Readiness,
}

impl<'a> WorkedOut<'a> {
    fn of(object: &'a core::Observed) -> Self {
        let readiness = Readiness::of_json(&object.kind, object.deleting, || &object.object);
        Self { api_version: api_version(&object.kind), readiness }
    }

    fn of_related(related: &'a core::Related, object: &'a core::Observed) -> Self {
        if related.metadata_only {
            Self { api_version: api_version(&object.kind), readiness: Readiness::Unknown }
        } else {
            Self::of(object)
        }
    }
}

fn observe<'a>(object: &'a core::Observed, more: &'a WorkedOut<'_>) -> wit::Observed<'a> {
    wit::Observed {
        kind: wit::KindParam { api_version: &more.api_version, name: &object.kind.kind },
        namespace: object.namespace.as_deref(),
        name: &object.name,
        object: &object.object,
        readiness: match &more.readiness {
            Readiness::Ready => wit::Readiness::Ready,
            Readiness::Progressing(why) => wit::Readiness::Progressing(why),
            Readiness::Failed(why) => wit::Readiness::Failed(why),
            Readiness::Unknown => wit::Readiness::Unknown,
        },
    }
}

/// The kinds that the cluster need not serve. A kind that is declared twice is optional only if both declarations say so.
fn optional(descriptor: &wit::Descriptor) -> Vec<Gvk> {
    let children = descriptor.children.iter().map(|rule| (kind(&rule.kind), rule.optional));
    let all: Vec<_> = children.chain(descriptor.related.iter().map(|rule| (kind(&rule.kind), rule.optional))).collect();
    let is_required = |one: &Gvk| all.iter().any(|(kind, is_optional)| kind == one && !is_optional);
    let mut optional: Vec<_> = all.iter().map(|(kind, _)| kind).filter(|kind| !is_required(kind)).cloned().collect();
    optional.sort();
    optional.dedup();
    optional
}

/// A descriptor.
pub(super) fn descriptor(descriptor: wit::Descriptor) -> core::Descriptor {
    let optional = optional(&descriptor);
    let (parent, selector) = match descriptor.parent {
        wit::Parent::Custom(custom) => (core::Parent::Custom(custom.definition), custom.selector),
        wit::Parent::Existing(existing) => (core::Parent::Existing(kind(&existing.kind)), existing.selector),
    };
    core::Descriptor {
        optional,
        name: descriptor.name,
        version: descriptor.version,
        description: descriptor.description,
        parent,
        selector: core::ParentSelector { labels: selector.labels, annotations: selector.annotations },
        children: descriptor.children.into_iter().map(child_rule).collect(),
        related: descriptor.related.iter().map(|rule| kind(&rule.kind)).collect(),
        finalizes: descriptor.finalizes,
        ordered_deletion: descriptor.ordered_deletion,
        clock: descriptor.clock,
        ready_means: match descriptor.ready_means {
            wit::ReadyMeans::Children => core::ReadyMeans::Children,
            wit::ReadyMeans::Applied => core::ReadyMeans::Applied,
            wit::ReadyMeans::Plugin => core::ReadyMeans::Plugin,
        },
        resync: descriptor.resync,
        config_schema: descriptor.config_schema,
        metrics: descriptor.metrics.into_iter().map(metric).collect(),
    }
}

fn child_rule(rule: wit::ChildRule) -> core::ChildRule {
    core::ChildRule { kind: kind(&rule.kind), update: update(rule.update, until) }
}

/// What a rolling update waits for: without conditions, that the child is ready.
fn until(conditions: Arc<[String]>) -> core::Until {
    if conditions.is_empty() { core::Until::Ready } else { core::Until::Conditions(conditions) }
}

fn child(child: wit::DesiredChild) -> (core::Json, core::ChildOptions) {
    let options = core::ChildOptions {
        stage: child.stage,
        retain: child.retain,
        take_over: child.take_over,
        ready: child.ready,
        once: match child.create {
            wit::Create::Always => None,
            wit::Create::Once(text) => Some(text),
        },
        update: child.update.map(|strategy| update(strategy, until)),
        replaces: child.replaces.map(child_ref),
    };
    (child.object, options)
}

fn keep(keep: wit::Keep) -> core::Keep {
    match keep {
        wit::Keep::None => core::Keep::None,
        wit::Keep::All => core::Keep::All,
        wit::Keep::These(children) => core::Keep::These(children.into_iter().map(child_ref).collect()),
    }
}

fn child_ref(child: wit::ChildRefResult) -> core::ChildRef {
    core::ChildRef { kind: kind(&child.kind), namespace: child.namespace, name: child.name }
}

/// A result.
///
/// # Errors
/// If a part of it is malformed.
pub(super) fn result(result: Result<wit::Response, wit::Failure>) -> Returned<core::PluginResult> {
    Ok(match result {
        Ok(response) => {
            let (children, options): (Vec<_>, Vec<_>) = response.children.into_iter().map(child).unzip();
            Ok(core::Response {
                children,
                options: Some(options.into()),
                keep: keep(response.keep),
                waiting: response.waiting.map(Into::into),
                status: response.status,
                requeue: response.requeue,
                // At the very beginning of time is long past, and so is a millisecond later.
                requeue_at: response.requeue_at.map(|at| NonZero::new(at).unwrap_or(NonZero::<u64>::MIN)),
                events: response.events.into_iter().map(event).collect(),
                requirements: response.requirements.into_iter().map(requirement).collect::<Returned<_>>()?,
                http: response.http.into_iter().map(|request| request.id).collect(),
                finalized: response.finalized,
            })
        }
        Err(wit::Failure::Invalid(wit::Invalid { field, message })) => Err(core::Failure::Invalid(match field {
            Some(field) => format!("{field}: {message}"),
            None => message,
        })),
        Err(wit::Failure::Failed(message)) => Err(core::Failure::Failed(message)),
    })
}

fn requirement(requirement: wit::Requirement) -> Returned<core::Requirement> {
    let id = requirement.id;
    Ok(core::Requirement {
        id: id.clone(),
        kind: kind(&requirement.kind),
        namespaces: match requirement.namespaces {
            wit::Namespaces::OfParent => core::Namespaces::OfParent,
            wit::Namespaces::Named(names) => core::Namespaces::Named(names),
            wit::Namespaces::All => core::Namespaces::All,
        },
        select: match requirement.select {
            wit::Selection::Name(name) => core::Selection::Name(name),
            wit::Selection::Labels(labels) => core::Selection::Labels(labels),
            wit::Selection::LabelSelector(json) => {
                let of = |error| format!("the requirement {id:?} has a label-selector that is {error}");
                core::Selection::Labels(from_object(&json).map_err(of)?)
            }
        },
        metadata_only: requirement.metadata_only,
    })
}
