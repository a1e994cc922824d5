//! Finds the CustomResourceDefinition of the parent kind, or installs the component's, and waits until it is
//! established.

mod upgrade;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::core::ApiResource;
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::{Condition as _, await_condition};
use kube::{Api, Client};
use serde_json::{Value, json};
use windlass_api::conditions_schema;
use windlass_core::contract::declared_parent::{CarriedCrd, storage_of, text};
use windlass_core::object::names::{ANNOTATION_APPLIED, FIELD_MANAGER, LABEL_PLUGIN};
use windlass_core::object::observed_status::StatusShape;
use windlass_core::object::reason::PluginReason;
use windlass_core::reconcile::outcome::WriteProblem;
use windlass_core::value::digest::Digest;
use windlass_core::value::ids::{Gvk, PluginName};

pub use self::upgrade::{Install, narrowings};
use self::upgrade::{is_outdated, upgraded};
use super::problem::{Problem, Step, invalid_descriptor};
use crate::cluster::writer::response::refused;
use crate::cluster::{in_time, plain, plain_cause};
use crate::live::CrdOwner;

/// How long the API server may take to establish a new CRD before the Plugin reports it; [`super::kinds`] notices a
/// later success.
const ESTABLISH_TIMEOUT: Duration = Duration::from_secs(10);

/// The parent kind of a plugin as the cluster serves it, ready to be watched.
pub(super) struct ParentKind {
    pub kind: Arc<Gvk>,
    pub crd_owner: CrdOwner,
    pub resource: ApiResource,
    pub namespaced: bool,
    pub shape: StatusShape,
    /// Label selector of the parents; none for all objects of the kind.
    pub selector: Option<String>,
}

/// Finds the kind of a carried CRD, and installs the CRD first if `spec.installCRD` is set.
pub(super) async fn resolve(
    client: &Client,
    plugin: &PluginName,
    carried: &CarriedCrd,
    install: Install,
) -> Result<ParentKind, Problem> {
    let definition = installable(carried, plugin);
    let name = text(&definition, "/metadata/name").to_owned();
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let found = in_time(api.get_opt(&name)).await.map_err(|error| unavailable(&name, &error))?;
    let served = match found {
        None if install == Install::No => {
            let message = format!("CustomResourceDefinition {name} does not exist; install it, or set spec.installCRD");
            return Err(Problem::new(Step::Granted, PluginReason::ParentKindMissing, message));
        }
        Some(found) if install == Install::No || !is_outdated(&found, plugin, &definition) => {
            let is_established = is_crd_established().matches_object(Some(&found));
            if is_established { Some(found) } else { established(&api, &name).await? }
        }
        Some(found) => {
            let wanted = upgraded(&found, &definition).map_err(|why| rejected(&name, &why))?;
            install.review(&found, &wanted).map_err(|why| rejected(&name, &why))?;
            apply(&api, &name, &wanted, true).await?;
            established(&api, &name).await?
        }
        None => {
            // Without force: if another user creates the CRD at the same time, it belongs to that user.
            apply(&api, &name, &definition, false).await?;
            established(&api, &name).await?
        }
    };
    let served = served.and_then(|served| serde_json::to_value(served).ok()).ok_or_else(|| not_established(&name))?;
    describe(&served, &definition)
}

const LABEL_AT: &str = "/metadata/labels/windlass.dev~1plugin";

/// A carried CRD without what a component may not choose: conversion, and all metadata but the name; with the host's status fields in
/// every schema. A user may install it: it belongs to no Plugin.
pub fn sanitized(carried: &CarriedCrd) -> Value {
    let mut spec = carried.json().get("spec").cloned().unwrap_or_default();
    if let Some(spec) = spec.as_object_mut() {
        // A conversion webhook that the component chooses would see and change every object of the kind.
        spec.remove("conversion");
    }
    for version in spec.pointer_mut("/versions").and_then(Value::as_array_mut).into_iter().flatten() {
        add_status_fields(version);
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": carried.name()},
        "spec": spec,
    })
}

/// A carried CRD in the form that the host installs: [`sanitized`], with the host's metadata.
fn installable(carried: &CarriedCrd, plugin: &PluginName) -> Value {
    let mut crd = sanitized(carried);
    let hash = crd.get("spec").map(|spec| Digest::of(spec.to_string().as_bytes()).hex()).unwrap_or_default();
    if let Some(meta) = crd.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.insert("labels".to_owned(), json!({LABEL_PLUGIN: plugin.as_str()}));
        meta.insert("annotations".to_owned(), json!({ANNOTATION_APPLIED: format!("1:{hash}")}));
    }
    crd
}

/// Adds the host's status fields to a version's schema, where they are missing.
fn add_status_fields(version: &mut Value) {
    let Some(schema) = version.pointer_mut("/schema/openAPIV3Schema").and_then(Value::as_object_mut) else { return };
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    let Some(properties) = properties.as_object_mut() else { return };
    let status = properties.entry("status").or_insert_with(|| json!({"type": "object"}));
    let Some(status) = status.as_object_mut() else { return };
    let fields = status.entry("properties").or_insert_with(|| json!({}));
    let Some(fields) = fields.as_object_mut() else { return };
    fields.entry("observedGeneration").or_insert_with(|| json!({"type": "integer", "format": "int64"}));
    fields.entry("conditions").or_insert_with(conditions_schema);
}

async fn apply(
    api: &Api<CustomResourceDefinition>,
    name: &str,
    definition: &Value,
    force: bool,
) -> Result<(), Problem> {
    tracing::info!(name, "installing the CustomResourceDefinition");
    let params = PatchParams { force, ..PatchParams::apply(FIELD_MANAGER) };
    match in_time(api.patch_metadata(name, &params, &Patch::Apply(definition))).await {
        Ok(_) => Ok(()),
        Err(error) => Err(match refused(&error).problem() {
            WriteProblem::Rejected { code: 400 | 409 | 422 | 500, message, .. } => {
                rejected(name, &format!("the API server refuses it: {message}"))
            }
            _ => unavailable(name, &error),
        }),
    }
}

/// Waits until the API server has established the CRD.
async fn established(
    api: &Api<CustomResourceDefinition>,
    name: &str,
) -> Result<Option<CustomResourceDefinition>, Problem> {
    let wait = await_condition(api.clone(), name, is_crd_established());
    match tokio::time::timeout(ESTABLISH_TIMEOUT, wait).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => {
            let message = format!("CustomResourceDefinition {name} could not be watched: {}", plain_cause(&error));
            Err(Problem::new(Step::Granted, PluginReason::ApiError, message))
        }
        Err(_) => Ok(None),
    }
}

fn rejected(name: &str, why: &str) -> Problem {
    let message = format!("CustomResourceDefinition {name} is not installed as the component carries it: {why}");
    Problem::lasting(Step::Granted, PluginReason::CrdRejected, message)
}

fn not_established(name: &str) -> Problem {
    let message = format!(
        "the API server did not establish CustomResourceDefinition {name} within {} s; see its conditions",
        ESTABLISH_TIMEOUT.as_secs()
    );
    Problem::new(Step::Granted, PluginReason::CrdRejected, message)
}

/// The kind in its storage version, which must be the one that the component was written for.
///
/// Another served version would lose data: objects that the API server returns in it have only the fields of that
/// version's schema, and the next write of a status would store them so.
fn describe(served: &Value, carried: &Value) -> Result<ParentKind, Problem> {
    let name = text(served, "/metadata/name");
    let version = storage_of(served).ok_or_else(|| invalid_descriptor(format!("{name} has no storage version")))?;
    let wanted = storage_of(carried).map(|version| text(version, "/name")).unwrap_or_default();
    let found = text(version, "/name");
    let group = text(served, "/spec/group");
    let kind = text(served, "/spec/names/kind");
    let api_version = format!("{group}/{found}");
    let gvk = Gvk::from_api_version(&api_version, kind);
    if wanted != found {
        let message = format!("{name} is stored as {found}, but the component is written for {wanted:?}");
        let problem = Problem::new(Step::Granted, PluginReason::ParentKindMissing, message);
        return Err(Problem { stored_as: Some(Box::new(gvk)), ..problem });
    }
    if version.get("served") == Some(&Value::Bool(false)) {
        let message = format!("{name} does not serve {found}, in which it is stored");
        return Err(Problem::new(Step::Granted, PluginReason::ParentKindMissing, message));
    }
    let installed_by = |definition: &Value| definition.pointer(LABEL_AT).and_then(Value::as_str).map(str::to_owned);
    let is_own = installed_by(served) == installed_by(carried);
    Ok(ParentKind {
        kind: Arc::new(gvk),
        crd_owner: if is_own { CrdOwner::Plugin } else { CrdOwner::Others },
        resource: ApiResource {
            group: group.to_owned(),
            version: found.to_owned(),
            api_version,
            kind: kind.to_owned(),
            plural: text(served, "/spec/names/plural").to_owned(),
        },
        namespaced: text(served, "/spec/scope") == "Namespaced",
        shape: shape_of(version),
        selector: None,
    })
}

/// Which of the host's status fields the schema of a CRD's version keeps.
pub fn shape_of(version: &Value) -> StatusShape {
    const STATUS: &str = "/schema/openAPIV3Schema/properties/status";
    let has_status = version.pointer("/subresources/status").is_some();
    let keeps_all = [STATUS, "/schema/openAPIV3Schema"].iter().any(|at| {
        version.pointer(at).and_then(|schema| schema.get("x-kubernetes-preserve-unknown-fields"))
            == Some(&Value::Bool(true))
    });
    let keeps =
        |field: &str| has_status && (keeps_all || version.pointer(&format!("{STATUS}/properties/{field}")).is_some());
    let [observed_generation, conditions] = ["observedGeneration", "conditions"].map(keeps);
    StatusShape { subresource: has_status, observed_generation, conditions }
}

fn unavailable(name: &str, error: &kube::Error) -> Problem {
    match error {
        kube::Error::Api(status) if matches!(status.code, 401 | 403) => Problem::new(
            Step::Granted,
            PluginReason::Forbidden,
            format!("the host may not read or install CustomResourceDefinition {name}: {}", status.message),
        ),
        error => Problem::new(
            Step::Granted,
            PluginReason::ApiError,
            format!("CustomResourceDefinition {name} could not be read or installed: {}", plain(error)),
        ),
    }
}

#[cfg(test)]
mod fuzz;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::discovery::silent_api_server;

    pub(super) fn carried(change: impl FnOnce(&mut Value)) -> CarriedCrd {
        let mut crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "echoes.my-operator.dev", "labels": {"windlass.dev/plugin": "other"}},
            "spec": {
                "group": "my-operator.dev", "scope": "Namespaced", "names": {"plural": "echoes", "kind": "Echo"},
                "conversion": {"strategy": "Webhook"},
                "versions": [{"name": "v1", "storage": true, "served": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object"}}}],
            },
        });
        change(&mut crd);
        CarriedCrd::parse(crd.to_string().as_bytes()).expect("valid")
    }

    pub(super) fn to_install(change: impl FnOnce(&mut Value)) -> Value {
        installable(&carried(change), &"echo".parse().expect("a name"))
    }

    #[test]
    fn carried_crd_is_installed_without_fields_that_a_component_may_not_choose() {
        let crd = to_install(|_| ());
        assert_eq!(crd.pointer("/spec/conversion"), None);
        assert_eq!(text(&crd, "/metadata/labels/windlass.dev~1plugin"), "echo");
        let shape = shape_of(crd.pointer("/spec/versions/0").expect("a version"));
        assert_eq!(shape, StatusShape { subresource: true, observed_generation: true, conditions: true });
    }

    #[test]
    fn parent_kind_is_used_only_in_the_version_that_is_stored_and_served() {
        let component = to_install(|_| ());
        let versions = |stored: &str, served: bool| {
            let mut definition = component.clone();
            definition["spec"]["versions"] = json!(["v1", "v2"].map(
                |name| json!({"name": name, "storage": name == stored, "served": served, "subresources": {"status": {}}})
            ));
            describe(&definition, &component)
        };
        let found = versions("v1", true).map_err(|problem| problem.message).expect("the component is written for v1");
        assert_eq!(found.kind.to_string(), "Echo.v1.my-operator.dev");
        assert!(found.namespaced && found.selector.is_none());
        let moved = versions("v2", true).err().expect("the component is not written for v2");
        assert_eq!(moved.reason, PluginReason::ParentKindMissing);
        assert!(moved.stored_as.is_some_and(|kind| &*kind.version == "v2"));
        let unserved = versions("v1", false).err().expect("v1 cannot be watched");
        assert!(unserved.message.contains("does not serve v1") && unserved.stored_as.is_none(), "{unserved:?}");
    }

    #[test]
    fn cluster_scoped_kind_is_recognized() {
        let component = to_install(|crd| crd["spec"]["scope"] = json!("Cluster"));
        assert!(!describe(&component, &component).map_err(|problem| problem.message).expect("served").namespaced);
    }

    #[test]
    fn status_fields_that_a_schema_would_prune_are_recognized() {
        let version = json!({"subresources": {"status": {}}, "schema": {"openAPIV3Schema": {"properties": {"status":
            {"properties": {"conditions": {}}}}}}});
        assert_eq!(shape_of(&version), StatusShape { subresource: true, observed_generation: false, conditions: true });
        assert!(!shape_of(&json!({})).subresource);
    }

    #[tokio::test(start_paused = true)]
    async fn api_server_that_does_not_respond_blocks_no_plugin_worker() {
        let (client, plugin) = (silent_api_server(), "echo".parse().expect("a name"));
        let carried = carried(|_| ());
        let resolved = resolve(&client, &plugin, &carried, Install::Always);
        let ended = tokio::time::timeout(Duration::from_mins(5), resolved).await.expect("the request ends");
        let Err(problem) = ended else { panic!("without a response") };
        assert_eq!(problem.reason, PluginReason::ApiError, "{}", problem.message);
        let api: Api<CustomResourceDefinition> = Api::all(client);
        let definition = json!({});
        let applied = apply(&api, "echoes.my-operator.dev", &definition, false);
        assert!(tokio::time::timeout(Duration::from_mins(5), applied).await.expect("the request ends").is_err());
    }
}
