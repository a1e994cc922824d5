//! Writes as HTTP requests. Built by hand from URLs and bytes: a child is serialised once and never made a tree again.

use http::{HeaderValue, Method, Request, header};
use kube::Resource;
use kube::api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use kube::core::{ApiResource, DynamicObject};
use windlass_core::desired::DesiredChild;
use windlass_core::ids::{ObjectKey, Uid};
use windlass_core::json::{Map, Value};
use windlass_core::managed::Exit;
use windlass_core::names::{FIELD_MANAGER, FINALIZER_MANAGER};
use windlass_core::object::Object;
use windlass_core::outcome::WriteProblem;
use windlass_core::plan::{ChildId, Delete};

use super::super::account::Account;

/// Only the metadata of what was written comes back: nobody reads the rest.
const METADATA_ONLY: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json");

/// A request, or why it could not be built.
pub type Built = Result<Request<Vec<u8>>, WriteProblem>;

/// The kind of a child as the API server names it, and as whom the child is written.
#[derive(Debug, Clone, Copy)]
pub struct To<'a> {
    /// The kind.
    pub resource: &'a ApiResource,
    /// The Plugin's ServiceAccount.
    pub account: &'a Account,
}

impl To<'_> {
    fn kind(self, key: &ObjectKey) -> kube::core::Request {
        kube::core::Request::new(DynamicObject::url_path(self.resource, key.namespace.as_deref()))
    }
}

/// Whether a request changes nothing: access reviews are created in name only.
pub fn is_read<B>(request: &Request<B>) -> bool {
    let path = request.uri().path();
    matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS)
        || ["/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/"].iter().any(|group| path.starts_with(group))
}

/// POST of a new child.
pub fn create(to: To<'_>, child: &DesiredChild) -> Built {
    let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    let mut request = to.kind(&child.key).create(&params, text(&child.body).into_bytes()).map_err(unbuilt)?;
    // A misspelt field is an error here, as it would be at the first apply: a POST alone would drop it silently.
    let strict = format!("{}&fieldValidation=Strict", request.uri());
    *request.uri_mut() =
        strict.parse().map_err(|error| unbuilt(kube::core::request::Error::BuildRequest(http::Error::from(error))))?;
    Ok(as_plugin(to, request))
}

/// GET of what holds a child's name: its metadata.
pub fn get(to: To<'_>, child: &ChildId) -> Built {
    let request = to.kind(&child.key).get_metadata(&child.key.name, &GetParams::default());
    request.map(|request| signed(to.account, request)).map_err(unbuilt)
}

/// Merge of what makes an existing object a child ([`claim::marks`](windlass_core::claim::marks)).
pub fn mark(to: To<'_>, child: &DesiredChild, marks: &Map) -> Built {
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let mut request =
        to.kind(&child.key).patch(&child.key.name, &params, &Patch::Merge(serde_json::Value::Null)).map_err(unbuilt)?;
    *request.body_mut() = text(marks).into_bytes();
    Ok(as_plugin(to, request))
}

/// Whether an apply takes fields from other managers.
#[derive(Debug, Clone, Copy)]
pub enum Force {
    /// The API server refuses what would.
    No,
    /// It takes them.
    Yes,
    /// It takes them if the object still has this version: from whom is known.
    Of { resource_version: u64 },
}

/// Server-side apply to the very object with this uid.
pub fn apply(to: To<'_>, child: &DesiredChild, uid: &Uid, force: Force) -> Built {
    let mut body = child.body.clone();
    if let Some(meta) = body.object_mut("metadata") {
        meta.insert("uid", uid.to_string());
        if let Force::Of { resource_version } = force {
            meta.insert("resourceVersion", resource_version.to_string());
        }
    }
    let params = PatchParams { force: !matches!(force, Force::No), ..PatchParams::apply(FIELD_MANAGER) };
    let mut request =
        to.kind(&child.key).patch(&child.key.name, &params, &Patch::Apply(serde_json::Value::Null)).map_err(unbuilt)?;
    *request.body_mut() = text(&body).into_bytes();
    Ok(as_plugin(to, request))
}

/// Makes room for an apply: the Update entry that our POST left at this place of managedFields goes, exactly if it still
/// stands there.
pub fn migrate(to: To<'_>, child: &DesiredChild, version: u64, entry: usize, exit: Exit) -> Built {
    let entry = format!("/metadata/managedFields/{entry}");
    let patch = serde_json::json!([
        {"op": "replace", "path": "/metadata/resourceVersion", "value": version.to_string()},
        {"op": "test", "path": format!("{entry}/manager"), "value": FIELD_MANAGER},
        {"op": "test", "path": format!("{entry}/operation"), "value": "Update"},
        match exit {
            Exit::Convert => serde_json::json!({"op": "replace", "path": format!("{entry}/operation"), "value": "Apply"}),
            Exit::Remove => serde_json::json!({"op": "remove", "path": entry}),
        },
    ]);
    let mut request = to
        .kind(&child.key)
        .patch(&child.key.name, &PatchParams::default(), &Patch::Merge(serde_json::Value::Null))
        .map_err(unbuilt)?;
    *request.body_mut() = patch.to_string().into_bytes();
    request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json-patch+json"));
    Ok(as_plugin(to, request))
}

/// DELETE of the very object with this uid, and of this version if one is given; its dependents follow in the background.
///
/// # Errors
/// A name that makes no URL.
pub fn delete(to: To<'_>, delete: &Delete, version: Option<u64>) -> Built {
    let resource_version = version.map(|version| version.to_string());
    let params = DeleteParams {
        preconditions: Some(Preconditions { uid: Some(delete.uid.to_string()), resource_version }),
        propagation_policy: Some(PropagationPolicy::Background),
        ..DeleteParams::default()
    };
    to.kind(&delete.child.key)
        .delete(&delete.child.key.name, &params)
        .map(|request| as_plugin(to, request))
        .map_err(unbuilt)
}

/// Sets the finalizers of the very version of an object that was decided on: somebody else's are never lost.
///
/// # Errors
/// A name that makes no URL.
pub fn finalizers(resource: &ApiResource, object: &Object, finalizers: &[String]) -> Built {
    let patch = serde_json::json!({"metadata": {
        "uid": object.uid.to_string(),
        "resourceVersion": object.resource_version.to_string(),
        "finalizers": finalizers,
    }});
    let params = PatchParams { field_manager: Some(FINALIZER_MANAGER.to_owned()), ..PatchParams::default() };
    let url = DynamicObject::url_path(resource, object.key.namespace.as_deref());
    kube::core::Request::new(url)
        .patch(&object.key.name, &params, &Patch::Merge(patch))
        .map(metadata_only)
        .map_err(unbuilt)
}

/// Server-side apply of a whole status. By force, as the status is the controller's alone; but as an account, which has the
/// status of a kind of others, without force: fields of other managers stay theirs.
///
/// # Errors
/// A name that makes no URL.
pub fn status(resource: &ApiResource, object: &Object, status: Map, account: Option<&Account>) -> Built {
    let mut meta = Map::from([("name", Value::from(&*object.key.name)), ("uid", Value::from(object.uid.to_string()))]);
    if let Some(namespace) = &object.key.namespace {
        meta.insert("namespace", &**namespace);
    }
    let body = Map::from([
        ("apiVersion", object.kind.api_version().into()),
        ("kind", Value::from(&*object.kind.kind)),
        ("metadata", meta.into()),
        ("status", status.into()),
    ]);
    let url = DynamicObject::url_path(resource, object.key.namespace.as_deref());
    let mut request = kube::core::Request::new(url)
        .patch_subresource(
            "status",
            &object.key.name,
            &PatchParams { force: account.is_none(), ..PatchParams::apply(FIELD_MANAGER) },
            &Patch::Apply(serde_json::Value::Null),
        )
        .map_err(unbuilt)?;
    *request.body_mut() = text(&body).into_bytes();
    if let Some(account) = account {
        account.sign(&mut request);
    }
    Ok(metadata_only(request))
}

/// What concerns a child is done as the Plugin's ServiceAccount: Kubernetes' own rights decide, and the audit log names
/// the plugin.
fn as_plugin(to: To<'_>, request: Request<Vec<u8>>) -> Request<Vec<u8>> {
    signed(to.account, metadata_only(request))
}

fn signed(account: &Account, mut request: Request<Vec<u8>>) -> Request<Vec<u8>> {
    account.sign(&mut request);
    request
}

fn metadata_only(mut request: Request<Vec<u8>>) -> Request<Vec<u8>> {
    request.headers_mut().insert(header::ACCEPT, METADATA_ONLY);
    request
}

fn text(body: &Map) -> String {
    let mut text = String::with_capacity(1024);
    body.write(&mut text);
    text
}

// By value, so that it stands in `map_err`.
#[expect(clippy::needless_pass_by_value)]
fn unbuilt(error: kube::core::request::Error) -> WriteProblem {
    WriteProblem::Unavailable { message: format!("the request could not be built: {error}"), retry_after: None }
}
