//! The cluster, as a plan is carried out on it: by requests to the API server, as the Plugin's ServiceAccount.

use std::sync::Arc;
use std::time::Duration;

use kube::core::ApiResource;
use tracing::Instrument;
use windlass_core::contract::desired::DesiredChild;
use windlass_core::object::Object;
use windlass_core::object::child::ChildId;
use windlass_core::reconcile::api_response::{Ack, Refused};
use windlass_core::reconcile::outcome::WriteProblem;
use windlass_core::reconcile::world::{ApiRequest, Later, Part, Read, Writing};
use windlass_core::value::ids::{Gvk, ObjectKey};
use windlass_core::value::json::Map;

use super::world::Cluster;
use crate::cluster::in_time;
use crate::cluster::writer::audit::about;
use crate::cluster::writer::dry_run;
use crate::cluster::writer::request::{self, Built, To};
use crate::cluster::writer::response::refused;
use crate::cluster::writer::{send, send_for};
use crate::telemetry::{self, TRACE};

impl<'a> Cluster<'a> {
    /// The resource of a child kind, and the account that writes the children.
    fn to(&self, kind: &Gvk) -> Result<To<'a>, WriteProblem> {
        let unwatched = || WriteProblem::Unavailable { message: format!("{kind} is not watched"), retry_after: None };
        let watch = self.live.caches.child_watch(kind).ok_or_else(unwatched)?;
        Ok(To { resource: &watch.resource, account: Some(&self.live.account) })
    }

    /// The resource of a kind that may be the parents'. A kind may be that of parents and of children.
    fn resource(&self, of: &ChildId) -> Option<&'a ApiResource> {
        let parents = &self.live.caches.parents;
        let is_parents = *of.kind == *parents.id.kind;
        let of_children = || self.live.caches.child_watch(&of.kind).map(|watch| &watch.resource);
        is_parents.then_some(&parents.resource).or_else(of_children)
    }

    fn built(&self, request: ApiRequest<'_>) -> Built {
        match request {
            ApiRequest::Create(child) => request::create(self.to(&child.kind)?, child),
            ApiRequest::Apply { child, uid, resource_version, force, returns } => {
                request::apply(self.to(&child.kind)?, child, uid, Some(resource_version), force, returns)
            }
            ApiRequest::Mark { child, marks, found: _ } => request::mark(self.to(&child.kind)?, child, marks),
            ApiRequest::Prepare { child, resource_version, prepared } => {
                request::prepare(self.to(&child.kind)?, child, resource_version, prepared)
            }
            ApiRequest::Delete(delete) => request::delete(self.to(&delete.child.kind)?, delete),
            ApiRequest::Finalizers { parent, finalizers } => {
                request::finalizers(&self.live.caches.parents.resource, parent, finalizers)
            }
            ApiRequest::Annotations { parent, version, annotations } => {
                request::annotations(&self.live.caches.parents.resource, parent, version, annotations)
            }
            ApiRequest::Status { parent, status } => {
                let to = To { resource: &self.live.caches.parents.resource, account: self.live.status_account() };
                // A parent that was deleted and created again must not have the status of the first one.
                request::status(to, parent, Some(parent.resource_version), status)
            }
        }
    }

    async fn read_child(&self, child: &ChildId, part: Part) -> Result<Option<Object>, Refused> {
        let to = self.to(&child.kind).map_err(Refused::Unsent)?;
        let request = request::get(to, child, part).map_err(Refused::Unsent)?;
        match in_time(self.worlds.client.request_text(request)).await {
            Ok(text) => Object::from_api(&child.kind, &text).map(Some).map_err(|error| {
                let message = format!("it cannot be read: {error}");
                Refused::Unsent(WriteProblem::Unavailable { message, retry_after: None })
            }),
            Err(error) => {
                let refused = refused(&error);
                let is_gone = refused.is_gone((&to.resource.kind, &to.resource.plural), &child.key.name, None);
                if is_gone { Ok(None) } else { Err(refused) }
            }
        }
    }
}

impl Writing for Cluster<'_> {
    fn adopts(&self) -> bool {
        self.live.terms.settings.adopts
    }

    fn inherits(&self, plugin: &str) -> bool {
        self.live.inherits(plugin)
    }

    fn cached_parent(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.live.caches.parents.store.get(key)
    }

    fn cached_child(&self, child: &ChildId) -> Option<Arc<Object>> {
        self.live.caches.child_watch(&child.kind).and_then(|watch| watch.store.get(&child.key))
    }

    fn plural(&self, of: &ChildId) -> &str {
        self.resource(of).map_or("", |resource| &resource.plural)
    }

    fn read<'a>(&'a self, what: Read<'a>) -> Later<'a, Result<Option<Object>, Refused>> {
        match what {
            Read::Parent(key) => {
                Box::pin(async move { self.live.caches.parents.read(key).await.map_err(|error| refused(&error)) })
            }
            Read::FormerParent(key) => Box::pin(async move {
                let caches = &self.live.caches;
                let found = caches.unselected.read(key, &caches.parents).await.map_err(|error| refused(&error))?;
                Ok(found.map(Arc::unwrap_or_clone))
            }),
            Read::Child(child, part) => Box::pin(self.read_child(child, part)),
        }
    }

    fn fresh<'a>(&'a self, child: &'a DesiredChild) -> Later<'a, Result<Map, Refused>> {
        Box::pin(async move {
            let fresh =
                dry_run::fresh(&self.worlds.client, self.to(&child.kind).map_err(Refused::Unsent)?, child).await;
            fresh.inspect_err(|refused| {
                let plugin = &self.live.terms.name;
                let why = &*telemetry::one_line(&refused.to_string()).into_owned();
                tracing::info!(%plugin, object = %child.id(), why, "child is not compared with a fresh one: the dry run of its creation failed");
            })
        })
    }

    fn try_out<'a>(&'a self, live: &'a Object, after: &'a Map) -> Later<'a, Result<(), Refused>> {
        Box::pin(async move {
            let built = self.to(&live.kind).and_then(|to| dry_run::DryRun::replace(to, live, after));
            let tried = built.map_err(Refused::Unsent)?.send(&self.worlds.client).await;
            tried.map(drop).inspect_err(|refused| {
                if !matches!(refused.problem(), WriteProblem::Rejected { .. }) {
                    return;
                }
                let (plugin, object) = (&self.live.terms.name, ChildId::of(live));
                let why = &*telemetry::one_line(&refused.to_string()).into_owned();
                tracing::info!(%plugin, %object, why, "the API server also refuses what the child would be after a correction: it stays as it is");
            })
        })
    }

    fn send<'a>(&'a self, request: ApiRequest<'a>) -> Later<'a, Result<Ack, Refused>> {
        let object = request.object();
        let returns = if let ApiRequest::Apply { returns, .. } = &request { *returns } else { Part::Metadata };
        let verb = match &request {
            ApiRequest::Create(_) => Some("create"),
            ApiRequest::Apply { .. } => Some("apply"),
            ApiRequest::Mark { .. }
            | ApiRequest::Prepare { .. }
            | ApiRequest::Finalizers { .. }
            | ApiRequest::Annotations { .. } => Some("patch"),
            ApiRequest::Delete(_) => Some("delete"),
            // The report has a span of its own.
            ApiRequest::Status { .. } => None,
        };
        let span = verb.map_or_else(tracing::Span::none, |verb| {
            tracing::debug_span!(
                target: TRACE,
                "write",
                otel.name = verb,
                windlass.verb = verb,
                k8s.object.kind = &*object.kind.kind,
                k8s.object.name = &*object.key.name,
                http.response.status_code = tracing::field::Empty,
            )
        });
        let what = if verb.is_some() { object.to_string() } else { format!("{object}/status") };
        let built =
            self.built(request).map(|built| about(built, &self.live.terms.name, Some(self.live.digest()), &what));
        let client = &self.worlds.client;
        Box::pin(
            async move {
                let built = built.map_err(Refused::Unsent)?;
                if returns == Part::Whole {
                    send_for(client, &object.kind, built).await
                } else {
                    send(client, built).await
                }
            }
            .instrument(span),
        )
    }

    fn pause(&self, time: Duration) -> Later<'_, ()> {
        Box::pin(tokio::time::sleep(time))
    }
}
