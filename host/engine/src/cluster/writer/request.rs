//! Builds writes as HTTP requests, directly from URLs and bytes: a child is serialized once and not parsed again.

use http::{HeaderValue, Method, Request, Uri, header};
use kube::Resource;
use kube::api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use kube::core::{ApiResource, DynamicObject};
use serde_json::json;
use windlass_core::contract::desired::DesiredChild;
use windlass_core::object::Object;
use windlass_core::object::child::{ChildId, Delete};
use windlass_core::object::managed::{BEFORE_FIRST_APPLY, Ownership, Removal};
use windlass_core::object::names::{FIELD_MANAGER, FINALIZER_MANAGER};
use windlass_core::reconcile::outcome::WriteProblem;
use windlass_core::reconcile::world::{Force, Part, Prepared};
use windlass_core::value::ids::{ObjectKey, Uid};
use windlass_core::value::json::{Map, Value};

use super::super::account::Account;

/// Requests only the metadata of the written object, because the rest is not read.
const METADATA_ONLY: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json");

/// A request, or why it could not be built.
pub type Built = Result<Request<Vec<u8>>, WriteProblem>;

/// The resource of a child, and the account that writes the child.
#[derive(Debug, Clone, Copy)]
pub struct To<'a> {
    /// The child's kind.
    pub resource: &'a ApiResource,
    /// The Plugin's ServiceAccount; none for the client's own user.
    pub account: Option<&'a Account>,
}

impl<'a> To<'a> {
    /// As the client's own user.
    pub fn own(resource: &'a ApiResource) -> Self {
        Self { resource, account: None }
    }

    fn kind(self, key: &ObjectKey) -> kube::core::Request {
        kube::core::Request::new(DynamicObject::url_path(self.resource, key.namespace.as_deref()))
    }
}

/// Whether a request changes nothing. Access reviews and dry runs are sent as writes, but change nothing.
pub fn is_read<B>(request: &Request<B>) -> bool {
    let path = request.uri().path();
    matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS)
        // A DELETE has its options in the body.
        || matches!(*request.method(), Method::POST | Method::PATCH)
            && request.uri().query().is_some_and(|query| query.split('&').any(|option| option == "dryRun=All"))
        || ["/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/"].iter().any(|group| path.starts_with(group))
}

/// POST of a new child.
pub fn create(to: To<'_>, child: &DesiredChild) -> Built {
    let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    let request = to.kind(&child.key).create(&params, text(&child.body).into_bytes()).map_err(unbuilt)?;
    // An unknown field is rejected here, as at the first apply: a plain POST would drop it silently.
    Ok(as_plugin(to, with_option(request, "fieldValidation=Strict")?))
}

/// Adds an option to the query of a request.
pub(super) fn with_option(mut request: Request<Vec<u8>>, option: &str) -> Built {
    let separator = if request.uri().query().is_some() { '&' } else { '?' };
    let uri = format!("{}{separator}{option}", request.uri()).parse::<Uri>();
    *request.uri_mut() =
        uri.map_err(|error| unbuilt(kube::core::request::Error::BuildRequest(http::Error::from(error))))?;
    Ok(request)
}

/// GET of the object that has a child's name.
pub fn get(to: To<'_>, child: &ChildId, part: Part) -> Built {
    let (kind, name, params) = (to.kind(&child.key), &child.key.name, GetParams::default());
    let request = match part {
        Part::Metadata => kind.get_metadata(name, &params),
        Part::Whole => kind.get(name, &params),
    };
    request.map(|request| signed(to.account, request)).map_err(unbuilt)
}

/// Merge patch that makes an existing object a child ([`claim::marks`](windlass_core::reconcile::claim::marks)).
pub fn mark(to: To<'_>, child: &DesiredChild, marks: &Map) -> Built {
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    Ok(as_plugin(to, patch(to.resource, &child.key, None, &params, &MERGE, text(marks))?))
}

/// Server-side apply to the object with this uid, and of this version if one is given. The response has this part of the object.
pub fn apply(to: To<'_>, child: &DesiredChild, uid: &Uid, version: Option<u64>, force: Force, returns: Part) -> Built {
    let mut body = child.body.clone();
    if let Some(meta) = body.object_mut("metadata") {
        meta.insert("uid", uid.to_string());
        if let Some(version) = version {
            meta.insert("resourceVersion", version.to_string());
        }
    }
    let params = PatchParams { force: matches!(force, Force::Yes), ..PatchParams::apply(FIELD_MANAGER) };
    let request = patch(to.resource, &child.key, None, &params, &APPLY, text(&body))?;
    Ok(match returns {
        Part::Metadata => as_plugin(to, request),
        Part::Whole => signed(to.account, request),
    })
}

/// JSON patch before an apply: changes what entries of managedFields own, empties maps, and converts or removes the Update entry that the
/// host's POST, or an apply after managedFields were cleared, left. The places of entries hold for this version alone.
pub fn prepare(to: To<'_>, child: &DesiredChild, version: u64, prepared: Prepared<'_>) -> Built {
    let Prepared { left, own, taken, emptied } = prepared;
    let replace = |path: &str, value: serde_json::Value| json!({"op": "replace", "path": path, "value": value});
    let mut patch = vec![replace("/metadata/resourceVersion", version.to_string().into())];
    for Ownership { index, fields } in own.into_iter().chain(taken) {
        let fields = serde_json::from_str(&text(fields));
        let fields = fields.map_err(|error| unbuilt(kube::core::request::Error::SerializeBody(error)))?;
        patch.push(replace(&format!("/metadata/managedFields/{index}/fieldsV1"), fields));
    }
    patch.extend(emptied.iter().map(|map| replace(map, json!({}))));
    // Last, because it changes the places of others.
    if let Some((index, removal)) = left {
        let entry = format!("/metadata/managedFields/{index}");
        let manager = if removal == Removal::RemoveBeforeFirstApply { BEFORE_FIRST_APPLY } else { FIELD_MANAGER };
        patch.push(json!({"op": "test", "path": format!("{entry}/manager"), "value": manager}));
        patch.push(json!({"op": "test", "path": format!("{entry}/operation"), "value": "Update"}));
        patch.push(match removal {
            Removal::Convert => replace(&format!("{entry}/operation"), "Apply".into()),
            Removal::Remove | Removal::RemoveBeforeFirstApply => json!({"op": "remove", "path": entry}),
        });
    }
    let patch = serde_json::Value::from(patch).to_string();
    Ok(as_plugin(to, json_patch(to.resource, &child.key, &PatchParams::default(), patch)?))
}

/// JSON patch of an object.
pub(super) fn json_patch(resource: &ApiResource, key: &ObjectKey, params: &PatchParams, operations: String) -> Built {
    let mut request = patch(resource, key, None, params, &MERGE, operations)?;
    request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json-patch+json"));
    Ok(request)
}

/// DELETE of the object with this uid and version; dependents are deleted in the background.
///
/// # Errors
/// If the name does not form a valid URL.
pub fn delete(to: To<'_>, delete: &Delete) -> Built {
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(delete.uid.to_string()),
            resource_version: Some(delete.resource_version.to_string()),
        }),
        propagation_policy: Some(PropagationPolicy::Background),
        ..DeleteParams::default()
    };
    to.kind(&delete.child.key)
        .delete(&delete.child.key.name, &params)
        .map(|request| as_plugin(to, request))
        .map_err(unbuilt)
}

/// Sets the finalizers of an object that still has this version, so that no finalizer of another manager is removed.
///
/// # Errors
/// If the name does not form a valid URL.
pub fn finalizers(resource: &ApiResource, object: &Object, finalizers: &[String]) -> Built {
    metadata(resource, object, Some(object.resource_version), ("finalizers", json!(finalizers)))
}

/// Sets or removes annotations of an object, of this version if one is given.
///
/// # Errors
/// If the name does not form a valid URL.
pub fn annotations(
    resource: &ApiResource,
    object: &Object,
    version: Option<u64>,
    annotations: &[(String, Option<String>)],
) -> Built {
    let annotations: serde_json::Map<_, _> =
        annotations.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    metadata(resource, object, version, ("annotations", annotations.into()))
}

/// Merges a field into the metadata of an object.
fn metadata(
    resource: &ApiResource,
    object: &Object,
    version: Option<u64>,
    (field, value): (&str, serde_json::Value),
) -> Built {
    let version = version.map(|version| ("resourceVersion", version.to_string().into()));
    let fields = [("uid", object.uid.to_string().into()), (field, value)].into_iter().chain(version);
    let metadata: serde_json::Map<_, _> = fields.map(|(field, value)| (field.to_owned(), value)).collect();
    let body = json!({ "metadata": metadata });
    let params = PatchParams { field_manager: Some(FINALIZER_MANAGER.to_owned()), ..PatchParams::default() };
    patch(resource, &object.key, None, &params, &MERGE, body.to_string()).map(metadata_only)
}

/// Server-side apply of a whole status, of this version of the object if one is given: the API server does not compare the uid of a
/// status of a custom resource. The host applies with force, because the status belongs to the controller alone. As an account, for a
/// kind whose status has another owner, it applies without force, so that other managers keep their fields.
///
/// # Errors
/// If the name does not form a valid URL.
pub fn status(to: To<'_>, object: &Object, version: Option<u64>, status: Map) -> Built {
    let To { resource, account } = to;
    let mut meta = Map::from([("name", Value::from(&*object.key.name)), ("uid", Value::from(object.uid.to_string()))]);
    if let Some(version) = version {
        meta.insert("resourceVersion", version.to_string());
    }
    if let Some(namespace) = &object.key.namespace {
        meta.insert("namespace", &**namespace);
    }
    let body = Map::from([
        ("apiVersion", object.kind.api_version().into()),
        ("kind", Value::from(&*object.kind.kind)),
        ("metadata", meta.into()),
        ("status", status.into()),
    ]);
    let params = PatchParams { force: account.is_none(), ..PatchParams::apply(FIELD_MANAGER) };
    let request = patch(resource, &object.key, Some("status"), &params, &APPLY, text(&body))?;
    Ok(metadata_only(signed(account, request)))
}

const MERGE: Patch<()> = Patch::Merge(());
const APPLY: Patch<()> = Patch::Apply(());

/// PATCH of an object, or of its subresource, with a body that is serialized already.
fn patch(
    resource: &ApiResource,
    key: &ObjectKey,
    subresource: Option<&str>,
    params: &PatchParams,
    method: &Patch<()>,
    body: String,
) -> Built {
    let kind = kube::core::Request::new(DynamicObject::url_path(resource, key.namespace.as_deref()));
    let request = match subresource {
        None => kind.patch(&key.name, params, method),
        Some(subresource) => kind.patch_subresource(subresource, &key.name, params, method),
    };
    let mut request = request.map_err(unbuilt)?;
    *request.body_mut() = body.into_bytes();
    Ok(request)
}

/// Sends a request of the host about a child as the Plugin's ServiceAccount: Kubernetes' RBAC decides, and the audit log
/// names the plugin.
pub(super) fn as_plugin(to: To<'_>, request: Request<Vec<u8>>) -> Request<Vec<u8>> {
    signed(to.account, metadata_only(request))
}

fn signed(account: Option<&Account>, mut request: Request<Vec<u8>>) -> Request<Vec<u8>> {
    if let Some(account) = account {
        account.sign(&mut request);
    }
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

// Takes the error by value for `map_err`.
#[expect(clippy::needless_pass_by_value)]
fn unbuilt(error: kube::core::request::Error) -> WriteProblem {
    WriteProblem::Unavailable { message: format!("the request could not be built: {error}"), retry_after: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preparation_changes_entries_and_maps_of_one_version_and_the_host_s_own_entry_last() {
        let resource = ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk("", "v1", "ConfigMap"));
        let child = DesiredChild {
            kind: std::sync::Arc::new(windlass_core::value::ids::Gvk::from_api_version("v1", "ConfigMap")),
            key: ObjectKey::new(Some("n"), "a"),
            body: Map::default(),
            applied: String::new(),
            applied_as_string_data: None,
            update: windlass_core::contract::UpdateStrategy::Apply,
            owner: None,
            force_ownership: false,
            stage: 0,
            ready: None,
            once: None,
            replaces: None,
        };
        let [own, other] = [0, 2].map(|index| Ownership { index, fields: Map::default() });
        let (taken, emptied) = ([other], ["/spec/map".to_owned()]);
        let prepared =
            Prepared { left: Some((0, Removal::Convert)), own: Some(&own), taken: &taken, emptied: &emptied };
        let request = prepare(To::own(&resource), &child, 7, prepared).expect("a request");
        let patch: serde_json::Value = serde_json::from_slice(request.body()).expect("JSON");
        let of = |operation: &serde_json::Value| (operation["op"].to_string(), operation["path"].to_string());
        let operations: Vec<_> = patch.as_array().expect("operations").iter().map(of).collect();
        let expected = [
            ("replace", "/metadata/resourceVersion"),
            ("replace", "/metadata/managedFields/0/fieldsV1"),
            ("replace", "/metadata/managedFields/2/fieldsV1"),
            ("replace", "/spec/map"),
            ("test", "/metadata/managedFields/0/manager"),
            ("test", "/metadata/managedFields/0/operation"),
            ("replace", "/metadata/managedFields/0/operation"),
        ];
        assert_eq!(operations, expected.map(|(op, path)| (format!("{op:?}"), format!("{path:?}"))));
    }

    #[test]
    fn h01_dry_run_is_a_read_unless_the_api_server_ignores_the_option() {
        let reads = |method: Method, query: &str| {
            let uri = format!("https://localhost/api/v1/namespaces/a/configmaps/b?{query}");
            is_read(&Request::builder().method(method).uri(uri).body(()).expect("a request"))
        };
        for method in [Method::POST, Method::PATCH] {
            assert!(reads(method.clone(), "fieldManager=windlass&dryRun=All"), "{method}");
            assert!(!reads(method.clone(), "fieldManager=dryRun=All&xdryRun=All"), "{method}");
        }
        assert!(!reads(Method::DELETE, "dryRun=All"), "its options are in the body");
        assert!(reads(Method::GET, ""));
    }
}
