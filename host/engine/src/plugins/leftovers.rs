//! Lists a plugin's objects from the API server, for kinds without a watch.

use std::sync::Arc;

use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject};
use kube::discovery::{ApiCapabilities, Scope};
use kube::{Api, Client};
use windlass_core::object::Object;
use windlass_core::object::mark::MarkKey;
use windlass_core::object::names::LABEL_PLUGIN;
use windlass_core::value::ids::{Gvk, PluginName};

use super::mark_key::MarkKeys;
use crate::cluster::discovery::Discovery;
use crate::cluster::{in_time, plain};

/// Number of objects in one page of a list.
const PAGE: u32 = 500;

/// Lists objects of one plugin. Error texts are for users.
#[derive(Clone, Copy)]
pub(super) struct Leftovers<'a> {
    pub client: &'a Client,
    pub discovery: &'a Discovery,
    pub mark_keys: &'a MarkKeys,
    pub name: &'a PluginName,
}

/// The marks that children must have in addition to label and ownerReference.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Marks<'a> {
    /// No mark, because the parents are namespaced.
    None,
    /// A mark by this key, because the parents are cluster-scoped.
    Made(&'a MarkKey),
    /// Unknown, because the kind of the parents is not served.
    Unknown,
}

impl Leftovers<'_> {
    /// The API resource of a kind; none if the kind is not served, so that no objects of it are left.
    pub(super) async fn resource(&self, kind: &Gvk) -> Result<Option<ApiResource>, String> {
        Ok(self.find(kind).await?.map(|(resource, _)| resource))
    }

    async fn find(&self, kind: &Gvk) -> Result<Option<(ApiResource, ApiCapabilities)>, String> {
        let found = self.discovery.find_any_version(kind).await;
        found.map_err(|error| format!("{kind} could not be looked up: {}", plain(&error)))
    }

    /// The metadata of all children of a kind whose parents have the kind `parents` and that are not being deleted.
    /// Retained children have no owner, and are not included.
    pub(super) async fn children(
        &self,
        kind: &Arc<Gvk>,
        resource: &ApiResource,
        parents: &Gvk,
    ) -> Result<Vec<Object>, String> {
        let marks = self.marks(parents).await?;
        if marks == Marks::Unknown {
            // The parents are gone, so the garbage collector deletes their children.
            return Ok(Vec::new());
        }
        let mut children = self.list(kind, resource, Some(&self.label())).await?;
        children.retain(|child| is_child(child, parents, marks));
        Ok(children)
    }

    /// The marks that children of these parents must have. Without them, any user with write access to a namespace
    /// could make the host delete objects there.
    async fn marks(&self, parents: &Gvk) -> Result<Marks<'_>, String> {
        match self.find(parents).await? {
            Some((_, capabilities)) if capabilities.scope == Scope::Cluster => {
                self.mark_keys.existing().await.map(Marks::Made).map_err(|problem| problem.message)
            }
            Some(_) => Ok(Marks::None),
            None => Ok(Marks::Unknown),
        }
    }

    /// Whether there is certainly no child of a kind whose parent has the kind `parents`. Only one page is read: if
    /// there are more pages, the result is false.
    pub(super) async fn has_no_children(&self, kind: &Gvk, parents: &Gvk) -> Result<bool, String> {
        let Some(resource) = self.resource(kind).await? else { return Ok(true) };
        let marks = self.marks(parents).await?;
        let (page, next) = self.page(&Arc::new(kind.clone()), &resource, &params(Some(&self.label()))).await?;
        Ok(next.is_none() && !page.iter().any(|child| is_child(child, parents, marks)))
    }

    fn label(&self) -> String {
        format!("{LABEL_PLUGIN}={}", self.name)
    }

    /// The metadata of all objects of a kind that have these labels, in all namespaces.
    pub(super) async fn list(
        &self,
        kind: &Arc<Gvk>,
        resource: &ApiResource,
        labels: Option<&str>,
    ) -> Result<Vec<Object>, String> {
        let mut params = params(labels);
        let mut objects = Vec::new();
        loop {
            let (page, next) = self.page(kind, resource, &params).await?;
            objects.extend(page);
            match next {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(objects),
            }
        }
    }

    /// One page of a list, and the token for the next.
    async fn page(
        &self,
        kind: &Arc<Gvk>,
        resource: &ApiResource,
        params: &ListParams,
    ) -> Result<(Vec<Object>, Option<String>), String> {
        let unlisted = |error: &dyn std::fmt::Display| format!("{kind} could not be listed: {error}");
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), resource);
        let page = in_time(api.list_metadata(params)).await.map_err(|error| unlisted(&plain(&error)))?;
        let mut objects = Vec::with_capacity(page.items.len());
        for item in &page.items {
            let text = serde_json::to_string(item).map_err(|error| unlisted(&error))?;
            objects.push(Object::from_api(kind, &text).map_err(|error| unlisted(&error))?);
        }
        Ok((objects, page.metadata.continue_.filter(|token| !token.is_empty())))
    }
}

fn params(labels: Option<&str>) -> ListParams {
    ListParams { label_selector: labels.map(str::to_owned), ..ListParams::default() }.limit(PAGE)
}

/// Whether an object is a child: neither the label alone nor, if children have marks, an ownerReference alone makes it
/// one.
fn is_child(object: &Object, parents: &Gvk, marks: Marks<'_>) -> bool {
    let is_owned = object.controller.as_ref().is_some_and(|owner| object.is_owned_by(owner));
    let owner = object.controller_kind_and_name();
    let is_of_parent = owner.is_some_and(|(kind, _)| kind == parents.group_kind());
    let is_marked = match marks {
        Marks::None | Marks::Unknown => true,
        Marks::Made(key) => key.holds(object),
    };
    is_owned && !object.deleting && is_of_parent && is_marked
}
