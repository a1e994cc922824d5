//! Finds the CustomResourceDefinition of the parent kind, or installs the component's, and waits until it is
//! established.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionSpec,
};
use kube::api::{Patch, PatchParams};
use kube::core::{ApiResource, Version};
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::{Condition as _, await_condition};
use kube::{Api, Client};
use serde_json::{Value, json};
use windlass_api::{PluginSpec, conditions_schema};
use windlass_core::declared_parent::{CarriedCrd, storage_of, text};
use windlass_core::digest::Digest;
use windlass_core::ids::{Gvk, PluginName};
use windlass_core::names::{ANNOTATION_APPLIED, FIELD_MANAGER, LABEL_PLUGIN};
use windlass_core::observed_status::StatusShape;
use windlass_core::reason::PluginReason;
use windlass_core::schema::{self, Narrowing};

use super::parent_kind::ParentKind;
use super::problem::{Problem, Step, invalid_descriptor};
use crate::cluster::in_time;
use crate::live::CrdOwner;

/// How long the API server may take to establish a new CRD before the Plugin reports it; [`super::kinds`] notices a
/// later success.
const ESTABLISH_TIMEOUT: Duration = Duration::from_secs(10);

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
            if is_crd_established().matches_object(Some(&found)) {
                Some(found)
            } else {
                established(&api, &name).await?
            }
        }
        missing_or_outdated => {
            match missing_or_outdated {
                Some(found) => {
                    let wanted = upgraded(&found, &definition).map_err(|why| rejected(&name, &why))?;
                    install.review(&found, &wanted).map_err(|why| rejected(&name, &why))?;
                    apply(&api, &name, &wanted, true).await?;
                }
                // Without force: if another user creates the CRD at the same time, it belongs to that user.
                None => apply(&api, &name, &definition, false).await?,
            }
            established(&api, &name).await?
        }
    };
    let served = served.and_then(|served| serde_json::to_value(served).ok()).ok_or_else(|| not_established(&name))?;
    describe(&served, &definition)
}

/// Whether the host may install the CRD of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Install {
    /// No: an existing CRD is used as it is.
    No,
    /// Yes, unless it is narrower than the existing one. The digest is the component's, for the message.
    UnlessNarrower(Digest),
    /// Yes, even if it is narrower.
    Always,
}

impl Install {
    /// The permission that a Plugin's spec gives for the CRD of this component.
    pub(super) fn by(spec: &PluginSpec, component: Digest) -> Self {
        if !spec.install_crd {
            Self::No
        } else if spec.allow_schema_narrowing.as_deref() == Some(&component.to_string()) {
            Self::Always
        } else {
            Self::UnlessNarrower(component)
        }
    }

    /// Checks whether one CRD may replace another.
    ///
    /// # Errors
    /// If objects would lose fields. The text is for users: it names the fields, and how to allow that.
    fn review(self, found: &CustomResourceDefinition, wanted: &Value) -> Result<(), String> {
        let Self::UnlessNarrower(component) = self else { return Ok(()) };
        let narrowings = narrowed(found, wanted)?;
        if narrowings.is_empty() {
            return Ok(());
        }
        Err(format!(
            "its schema is narrower than the installed one, so objects would lose data or be rejected at their next write: \
             {}. If that is intended, push the component with --allow-schema-narrowing, or set spec.allowSchemaNarrowing to \
             {component}",
            schema::list(&narrowings)
        ))
    }
}

/// Where a CRD is narrower than the existing one.
fn narrowed(found: &CustomResourceDefinition, wanted: &Value) -> Result<Vec<Narrowing>, String> {
    let spec = wanted.get("spec").cloned().unwrap_or_default();
    // Both are serialized by the same type, so that equal numbers have equal text.
    let spec: CustomResourceDefinitionSpec =
        serde_json::from_value(spec).map_err(|error| format!("it is not a valid definition: {error}"))?;
    let json = |spec: &CustomResourceDefinitionSpec| {
        serde_json::to_value(spec).map_err(|error| format!("it could not be compared: {error}"))
    };
    Ok(schema::narrowings(&json(&found.spec)?, &json(&spec)?))
}

/// Where the CRD of a component is narrower than the installed one, which the host would replace. A CRD that the host
/// would not install for another reason gives no result: the host reports that reason.
pub fn narrowings(found: &CustomResourceDefinition, plugin: &PluginName, carried: &CarriedCrd) -> Vec<Narrowing> {
    let definition = installable(carried, plugin);
    if !is_outdated(found, plugin, &definition) {
        return Vec::new();
    }
    upgraded(found, &definition).and_then(|wanted| narrowed(found, &wanted)).unwrap_or_default()
}

/// Whether an existing CRD was installed by the Plugin, and differs from the CRD that the component carries now.
fn is_outdated(found: &CustomResourceDefinition, plugin: &PluginName, definition: &Value) -> bool {
    let meta = &found.metadata;
    let label = meta.labels.as_ref().and_then(|labels| labels.get(LABEL_PLUGIN)).map(String::as_str);
    let applied = meta.annotations.as_ref().and_then(|marks| marks.get(ANNOTATION_APPLIED)).map(String::as_str);
    label == Some(plugin.as_str()) && applied != definition.pointer(APPLIED_AT).and_then(Value::as_str)
}

/// The carried CRD in a form that may replace the existing one. Versions that are served, or in which objects are
/// stored, are kept if the carried CRD does not name them: clients that use them keep working, and the API server
/// rejects a CRD without a stored version. A version that is served and in which objects may be stored stays served
/// even if the component carries it as `served: false`. Objects differ between versions in their `apiVersion` only,
/// because there is no conversion.
///
/// There are two ways to end a version: a component carries it with `served: false`, after a user has removed it from
/// `status.storedVersions`; or a user removes it from the CRD.
///
/// # Errors
/// If the storage version would go back to an older one, which would drop the fields that only the newer one has; the
/// text is for users.
fn upgraded(found: &CustomResourceDefinition, carried: &Value) -> Result<Value, String> {
    let mut upgraded = carried.clone();
    // Only the CRD that was read may be replaced: it may have been changed since, or have another owner.
    if let Some(meta) = upgraded.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.insert("uid".to_owned(), json!(found.metadata.uid));
        meta.insert("resourceVersion".to_owned(), json!(found.metadata.resource_version));
    }
    let Some(versions) = upgraded.pointer_mut("/spec/versions").and_then(Value::as_array_mut) else {
        // The API server rejects it with a reason.
        return Ok(upgraded);
    };
    let is_stored = |version: &Value| version.get("storage") == Some(&Value::Bool(true));
    let wanted = versions.iter().find(|version| is_stored(version)).map(|version| text(version, "/name").to_owned());
    let stored = found.status.iter().flat_map(|status| status.stored_versions.iter().flatten());
    let stored: Vec<_> = stored.collect();
    for version in &found.spec.versions {
        let name = &version.name;
        if let Some(wanted) = wanted.as_ref().filter(|wanted| version.storage && rank(name) > rank(wanted)) {
            return Err(format!(
                "its objects are stored as {name}, but the component is written for the older {wanted}, under which they \
                 would lose fields. Push a component that is written for {name}, or change the CRD by hand"
            ));
        }
        let is_stored = stored.contains(&name);
        if let Some(carried) = versions.iter_mut().find(|carried| text(carried, "/name") == name) {
            if let Some(carried) = carried.as_object_mut().filter(|_| version.served && is_stored) {
                carried.insert("served".to_owned(), Value::Bool(true));
            }
        } else if version.served || is_stored {
            let mut kept =
                serde_json::to_value(version).map_err(|error| format!("{name} could not be kept: {error}"))?;
            if let Some(kept) = kept.as_object_mut() {
                kept.insert("storage".to_owned(), Value::Bool(false));
            }
            versions.push(kept);
        }
    }
    Ok(upgraded)
}

/// Order of versions by age: `v2beta1` comes after `v1`.
fn rank(version: &str) -> impl Ord + use<> {
    Version::parse(version).generation()
}

const APPLIED_AT: &str = "/metadata/annotations/windlass.dev~1applied";
const LABEL_AT: &str = "/metadata/labels/windlass.dev~1plugin";

/// A carried CRD in the form that is installed: without conversion, with no metadata but the host's, and with the
/// host's status fields in every schema.
fn installable(carried: &CarriedCrd, plugin: &PluginName) -> Value {
    let mut spec = carried.json().get("spec").cloned().unwrap_or_default();
    if let Some(spec) = spec.as_object_mut() {
        // A conversion webhook that the component chooses would see and change every object of the kind.
        spec.remove("conversion");
    }
    for version in spec.pointer_mut("/versions").and_then(Value::as_array_mut).into_iter().flatten() {
        add_status_fields(version);
    }
    let hash = Digest::of(spec.to_string().as_bytes()).hex();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": carried.name(),
            "labels": {LABEL_PLUGIN: plugin.as_str()},
            "annotations": {ANNOTATION_APPLIED: format!("1:{hash}")},
        },
        "spec": spec,
    })
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
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 422) => {
            Err(rejected(name, &format!("the API server refuses it: {}", status.message)))
        }
        Err(error) => Err(unavailable(name, &error)),
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
            let message = format!("CustomResourceDefinition {name} could not be watched: {error}");
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

/// Which of the host's status fields the schema keeps.
fn shape_of(version: &Value) -> StatusShape {
    const STATUS: &str = "/schema/openAPIV3Schema/properties/status";
    let has_status = version.pointer("/subresources/status").is_some();
    let keeps_all = [STATUS, "/schema/openAPIV3Schema"].iter().any(|at| {
        version.pointer(at).and_then(|schema| schema.get("x-kubernetes-preserve-unknown-fields"))
            == Some(&Value::Bool(true))
    });
    let keeps =
        |field: &str| has_status && (keeps_all || version.pointer(&format!("{STATUS}/properties/{field}")).is_some());
    StatusShape {
        subresource: has_status,
        observed_generation: keeps("observedGeneration"),
        conditions: keeps("conditions"),
    }
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
            format!("CustomResourceDefinition {name} could not be read or installed: {error}"),
        ),
    }
}

#[cfg(test)]
mod fuzz;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::discovery::silent_api_server;

    fn carried(change: impl FnOnce(&mut Value)) -> CarriedCrd {
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

    fn to_install(change: impl FnOnce(&mut Value)) -> Value {
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

    /// A CRD that the Plugin installed, with these versions: name, whether served, whether the storage version.
    /// `stored` lists the versions in which objects were stored.
    fn found(versions: &[(&str, bool, bool)], stored: &[&str]) -> CustomResourceDefinition {
        let mut definition = to_install(|_| ());
        let version = |(name, served, storage): &(&str, bool, bool)| {
            let schema = json!({"openAPIV3Schema": {"type": "object", "description": name}});
            json!({"name": name, "served": served, "storage": storage, "schema": schema})
        };
        definition["spec"]["versions"] = versions.iter().map(version).collect();
        definition["metadata"]["uid"] = json!("u-1");
        definition["metadata"]["resourceVersion"] = json!("7");
        definition["status"] = json!({"storedVersions": stored, "acceptedNames": {"plural": "echoes", "kind": "Echo"}});
        serde_json::from_value(definition).expect("a CRD")
    }

    /// Name, served and storage of each version, after a component with this storage version was delivered.
    fn upgraded_to(version: &str, found: &CustomResourceDefinition) -> Result<Vec<(String, bool, bool)>, String> {
        let carried = to_install(|crd| crd["spec"]["versions"][0]["name"] = json!(version));
        let upgraded = upgraded(found, &carried)?;
        let mut metadata = carried["metadata"].clone();
        // A concurrent change or replacement of the CRD is detected.
        metadata["uid"] = json!("u-1");
        metadata["resourceVersion"] = json!("7");
        assert_eq!(upgraded["metadata"], metadata, "kept versions do not change the metadata");
        let versions = upgraded["spec"]["versions"].as_array().expect("versions").iter();
        let is = |version: &Value, field: &str| version[field] == json!(true);
        Ok(versions
            .map(|version| (text(version, "/name").to_owned(), is(version, "served"), is(version, "storage")))
            .collect())
    }

    #[test]
    fn served_or_stored_version_is_kept_when_a_newer_component_lacks_it() {
        let before = found(
            &[("v1", true, true), ("v1beta1", false, false), ("v1alpha1", false, false), ("v0", true, false)],
            &["v1beta1", "v1"],
        );
        let kept = |name: &str, served| (name.to_owned(), served, false);
        let expected = vec![("v2".to_owned(), true, true), kept("v1", true), kept("v1beta1", false), kept("v0", true)];
        assert_eq!(upgraded_to("v2", &before), Ok(expected), "v1alpha1 is neither served nor stored");
        let carried = to_install(|crd| crd["spec"]["versions"][0]["name"] = json!("v2"));
        let upgraded = upgraded(&before, &carried).expect("newer");
        let v1 = upgraded.pointer("/spec/versions/1").expect("v1");
        assert_eq!(text(v1, "/schema/openAPIV3Schema/description"), "v1", "the kept version is unchanged");
    }

    /// The CRD of a component with these versions, as for [`found`].
    fn carrying(versions: &[(&str, bool, bool)]) -> Value {
        let spec = serde_json::to_value(found(versions, &[]).spec).expect("JSON");
        to_install(|crd| crd["spec"]["versions"] = spec["versions"].clone())
    }

    #[test]
    fn component_ends_the_serving_of_a_version_once_no_object_is_stored_in_it() {
        let carried = carrying(&[("v2", true, true), ("v1", false, false)]);
        let served_after = |stored: &[&str], served| {
            let upgraded = upgraded(&found(&[("v1", served, stored.len() == 1)], stored), &carried).expect("newer");
            upgraded.pointer("/spec/versions/1/served").and_then(Value::as_bool)
        };
        assert_eq!(served_after(&["v1"], true), Some(true), "objects are stored in it");
        assert_eq!(served_after(&["v1", "v2"], true), Some(true), "some objects may still be stored in it");
        assert_eq!(served_after(&["v1", "v2"], false), Some(false), "a user stopped serving it");
        assert_eq!(served_after(&["v2"], true), Some(false));
    }

    #[test]
    fn crd_is_not_downgraded_to_a_version_in_which_objects_would_lose_fields() {
        for (stored, older) in [("v2", "v1"), ("v1", "v1beta1"), ("v2beta1", "v1")] {
            let newer = found(&[(stored, true, true), (older, true, false)], &[older, stored]);
            let refused = upgraded_to(older, &newer).expect_err(stored);
            assert!(refused.contains(stored) && refused.contains("Push a component"), "{refused}");
            // Nor with a component that has both versions.
            let knows_both = carrying(&[(stored, true, false), (older, true, true)]);
            assert_eq!(upgraded(&newer, &knows_both), Err(refused));
        }
    }

    #[test]
    fn only_an_outdated_crd_of_this_plugin_is_written() {
        let [echo, other] = ["echo", "other"].map(|name| name.parse::<PluginName>().expect("a name"));
        let carried = to_install(|_| ());
        let ours: CustomResourceDefinition = serde_json::from_value(carried.clone()).expect("a CRD");
        let newer = to_install(|crd| crd["spec"]["versions"][0]["name"] = json!("v2"));
        assert!(!is_outdated(&ours, &echo, &carried), "an equal CRD");
        assert!(is_outdated(&ours, &echo, &newer));
        assert!(!is_outdated(&ours, &other, &newer), "another Plugin's CRD");
        let mut unlabelled = ours;
        unlabelled.metadata.labels = None;
        assert!(!is_outdated(&unlabelled, &echo, &newer), "a CRD without a Plugin's label");
    }

    #[test]
    fn u01_crd_that_drops_a_field_is_installed_only_for_the_component_that_the_plugin_names() {
        let with = |fields: &Value| {
            let fields = fields.clone();
            to_install(|crd| {
                crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] =
                    json!({"spec": {"type": "object", "properties": fields}});
            })
        };
        let two = with(&json!({"a": {"type": "string"}, "n": {"type": "integer", "multipleOf": 2, "minimum": 1}}));
        let found: CustomResourceDefinition = serde_json::from_value(two.clone()).expect("a CRD");
        let one = upgraded(&found, &with(&json!({"a": {"type": "string"}}))).expect("no older version");
        let digest = Digest::of(b"component");
        let install = |named: Option<Digest>| {
            let named = named.map(|digest| digest.to_string());
            let spec = PluginSpec { install_crd: true, allow_schema_narrowing: named, ..spec_of_nothing() };
            Install::by(&spec, digest).review(&found, &one)
        };
        for named in [None, Some(Digest::of(b"another"))] {
            let refused = install(named).expect_err("narrower");
            for words in ["v1 spec.n: the field is dropped", "--allow-schema-narrowing", &digest.to_string()] {
                assert!(refused.contains(words), "{refused}");
            }
        }
        assert_eq!(install(Some(digest)), Ok(()));
        assert_eq!(Install::UnlessNarrower(digest).review(&found, &two), Ok(()), "an equal CRD");
        let more = with(&json!({"a": {"type": "string"}, "n": {"type": "integer"}, "b": {"type": "string"}}));
        assert_eq!(Install::UnlessNarrower(digest).review(&found, &more), Ok(()), "a wider schema");
        assert_eq!(Install::by(&spec_of_nothing(), digest), Install::No);
    }

    #[test]
    fn u01_schema_narrowings_of_a_push_are_known_before_it() {
        let plugin: PluginName = "echo".parse().expect("a name");
        let field = |crd: &mut Value| {
            crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] = json!({"spec": {"type": "string"}});
        };
        let found: CustomResourceDefinition = serde_json::from_value(to_install(field)).expect("a CRD");
        let narrowed: Vec<_> = narrowings(&found, &plugin, &carried(|_| ())).iter().map(ToString::to_string).collect();
        assert_eq!(narrowed, ["v1 spec: the field is dropped"]);
        assert_eq!(narrowings(&found, &plugin, &carried(field)), []);
        let other = "other".parse().expect("a name");
        assert_eq!(narrowings(&found, &other, &carried(|_| ())), [], "another Plugin's CRD is never changed");
    }

    fn spec_of_nothing() -> PluginSpec {
        serde_json::from_value(json!({"source": {}})).expect("a spec")
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
