//! The cluster, as the world of a preview: what the host would write is sent as dry runs, and what a dry run cannot build on is kept here.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use kube::core::ApiResource;
use parking_lot::Mutex;
use serde_json::Value;
use windlass_core::contract::desired::DesiredChild;
use windlass_core::object::Object;
use windlass_core::object::child::ChildId;
use windlass_core::object::managed::{Ownership, Removal, drop_owned, work_out_apply};
use windlass_core::reconcile::api_response::{Ack, Refused};
use windlass_core::reconcile::outcome::WriteProblem;
use windlass_core::reconcile::world::{ApiRequest, Later, Read, Writing};
use windlass_core::value::ids::ObjectKey;
use windlass_core::value::json::{self, Map, Value as CoreValue};
use windlass_engine::cluster::writer::dry_run::{self, Built, DryRun};
use windlass_engine::cluster::writer::request::To;

use super::cluster::Scope;
use super::parents::{Children, object};

/// The world of one object's preview.
pub struct Dry<'a> {
    scope: &'a Scope,
    children: &'a Children,
    /// The object as it is; none if it does not exist yet.
    live: Option<&'a Object>,
    kept: Mutex<Kept>,
}

/// What the requests so far came to.
#[derive(Default)]
struct Kept {
    /// The object as the API server would store it.
    after: Option<Value>,
    /// The object that would become the child.
    marked: Option<Arc<Object>>,
    /// How the entry of the host's POST would be gone from managedFields, and with it the fields that it alone owned.
    removal: Option<Removal>,
    /// What the host's Apply entry would own before the apply.
    entry: Option<Ownership>,
    /// The object that a create would give, if the host compares the child with it.
    fresh: Option<Map>,
}

impl<'a> Dry<'a> {
    /// The world of an object that exists (`live`), or of a new one.
    pub fn new((scope, children): (&'a Scope, &'a Children), live: Option<&'a Object>) -> Self {
        Self { scope, children, live, kept: Mutex::default() }
    }

    /// The object as the API server would store it.
    ///
    /// # Errors
    /// If nothing was sent that changes it.
    pub fn into_after(self) -> Result<Value, WriteProblem> {
        self.kept.into_inner().after.ok_or_else(|| unavailable("nothing would change it".to_owned()))
    }

    /// The object that has the child's name and would become the child.
    pub fn marked(&self) -> Option<Arc<Object>> {
        self.kept.lock().marked.clone()
    }

    fn resource(&self, of: &ChildId) -> Result<&'a ApiResource, WriteProblem> {
        self.scope.resource_of(&of.kind).ok_or_else(|| unavailable(format!("{} is not granted", of.kind)))
    }

    async fn dry_run(&self, built: Built) -> Result<(Ack, String), Refused> {
        let text = built.map_err(Refused::Unsent)?.send(&self.scope.client).await?;
        let ack = parsed::<Ack>(&text).map_err(Refused::Unsent)?;
        Ok((ack, text))
    }

    /// Applies what is kept to an object that an apply returned. A dry run cannot build on another, so what the host removes before the
    /// apply is removed here; the API server then sets defaults.
    async fn with_kept(&self, of: &ChildId, applied: String) -> Result<String, Refused> {
        let Some(live) = self.live else { return Ok(applied) };
        let Ok(CoreValue::Object(mut after)) = json::parse(applied.as_bytes(), json::OBJECT_DEPTH) else {
            return Ok(applied);
        };
        let is_changed = {
            let kept = self.kept.lock();
            drop_owned(&mut after, kept.removal, kept.entry.as_ref(), &live.managed)
        };
        if !is_changed {
            return Ok(applied);
        }
        let replaced = self.resource(of).and_then(|resource| DryRun::replace(resource, live, &after));
        self.dry_run(replaced).await.map(|(_, text)| text)
    }

    /// The object after an apply that the API server refuses as invalid, because fields are still there that the host's entry would own
    /// before its apply. The host's apply is worked out here, and the API server validates the result.
    async fn worked_out(&self, child: &DesiredChild, refused: Refused) -> Result<(Ack, String), Refused> {
        let (entry, fresh) = {
            let kept = self.kept.lock();
            (kept.entry.clone().filter(|_| !refused.invalid_fields().is_empty()), kept.fresh.clone())
        };
        let (Some(live), Some(entry), Some(fresh)) = (self.live, entry, fresh) else { return Err(refused) };
        let Ok(CoreValue::Object(mut after)) = json::parse(&live.json.bytes(), json::OBJECT_DEPTH) else {
            return Err(refused);
        };
        work_out_apply(&mut after, &child.body, &fresh, &entry);
        self.dry_run(self.resource(&child.id()).and_then(|resource| DryRun::replace(resource, live, &after))).await
    }

    async fn sent(&self, request: ApiRequest<'_>) -> Result<Ack, Refused> {
        let of = request.object();
        let resource = || self.resource(&of);
        let (ack, text) = match request {
            ApiRequest::Create(child) => self.dry_run(resource().and_then(|to| DryRun::create(to, child))).await?,
            ApiRequest::Apply { child, uid, force, resource_version: _, returns: _ } => {
                let built = resource().and_then(|to| DryRun::apply(to, child, uid, force));
                match self.dry_run(built).await {
                    Ok((ack, text)) => (ack, self.with_kept(&of, text).await?),
                    Err(refused) => self.worked_out(child, refused).await?,
                }
            }
            ApiRequest::Finalizers { parent, finalizers } => {
                self.dry_run(DryRun::finalizers(&self.scope.parents, parent, finalizers)).await?
            }
            ApiRequest::Status { parent, status } => {
                self.dry_run(DryRun::status(&self.scope.parents, parent, status)).await?
            }
            ApiRequest::Mark { found, .. } => {
                self.kept.lock().marked = Some(Arc::new(found.clone()));
                return Ok(Ack::default());
            }
            ApiRequest::Migrate { left, own, .. } => {
                let mut kept = self.kept.lock();
                kept.removal = left.map(|(_, removal)| removal);
                kept.entry = own.cloned();
                return Ok(Ack::default());
            }
            ApiRequest::Delete(_) => return Ok(Ack::default()),
        };
        self.kept.lock().after = Some(parsed(&text).map_err(Refused::Unsent)?);
        Ok(ack)
    }

    async fn found(&self, what: Read<'_>) -> Result<Option<Object>, Refused> {
        let (kind, key, resource) = match what {
            Read::Parent(key) | Read::FormerParent(key) => (self.scope.offline.kind(), key, &self.scope.parents),
            Read::Child(child, _) => (&child.kind, &child.key, self.resource(child).map_err(Refused::Unsent)?),
        };
        let found = object(&self.scope.client, (kind, resource), key).await;
        let found = found.map_err(|error| Refused::Unsent(unavailable(format!("{error:#}"))))?;
        Ok(found.map(Arc::unwrap_or_clone))
    }
}

impl Writing for Dry<'_> {
    fn adopts(&self) -> bool {
        self.scope.adopts
    }

    fn inherits(&self, plugin: &str) -> bool {
        self.children.gone.contains(plugin)
    }

    fn cached_parent(&self, _key: &ObjectKey) -> Option<Arc<Object>> {
        // A preview waits for no write.
        None
    }

    fn cached_child(&self, _child: &ChildId) -> Option<Arc<Object>> {
        None
    }

    fn plural(&self, of: &ChildId) -> &str {
        self.scope.resource_of(&of.kind).map_or("", |resource| &resource.plural)
    }

    fn read<'a>(&'a self, what: Read<'a>) -> Later<'a, Result<Option<Object>, Refused>> {
        Box::pin(self.found(what))
    }

    fn fresh<'a>(&'a self, child: &'a DesiredChild) -> Later<'a, Result<Map, Refused>> {
        Box::pin(async move {
            let resource = self.resource(&child.id()).map_err(Refused::Unsent)?;
            let fresh = dry_run::fresh(&self.scope.client, To { resource, account: None }, child).await?;
            self.kept.lock().fresh = Some(fresh.clone());
            Ok(fresh)
        })
    }

    fn send<'a>(&'a self, request: ApiRequest<'a>) -> Later<'a, Result<Ack, Refused>> {
        Box::pin(self.sent(request))
    }

    fn pause(&self, _time: Duration) -> Later<'_, ()> {
        // What a dry run creates never appears.
        Box::pin(ready(()))
    }
}

/// A value from the API server's response.
///
/// # Errors
/// If the response is not JSON.
pub fn parsed<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, WriteProblem> {
    serde_json::from_str(text)
        .map_err(|error| unavailable(format!("the API server's response is not valid JSON: {error}")))
}

fn unavailable(message: String) -> WriteProblem {
    WriteProblem::Unavailable { message, retry_after: None }
}
