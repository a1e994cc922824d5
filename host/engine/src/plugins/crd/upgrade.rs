//! Decides whether the CRD of a component may replace the installed one, and in which form.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionSpec,
};
use kube::core::Version;
use serde_json::{Value, json};
use windlass_api::PluginSpec;
use windlass_core::contract::declared_parent::{CarriedCrd, text};
use windlass_core::object::names::{ANNOTATION_APPLIED, LABEL_PLUGIN};
use windlass_core::plugin::schema::{self, Narrowing};
use windlass_core::value::digest::Digest;
use windlass_core::value::ids::PluginName;

use super::installable;

const APPLIED_AT: &str = "/metadata/annotations/windlass.dev~1applied";

/// Whether the host may install the CRD of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Install {
    /// No: an existing CRD is used as it is.
    No,
    /// Yes, unless it is narrower than the existing one. The digest is the component's, for the message.
    UnlessNarrower(Digest),
    /// Yes, even if it is narrower.
    Always,
}

impl Install {
    /// The permission that a Plugin's spec gives for the CRD of this component.
    pub fn by(spec: &PluginSpec, component: Digest) -> Self {
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
    pub fn review(self, found: &CustomResourceDefinition, wanted: &Value) -> Result<(), String> {
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
pub fn is_outdated(found: &CustomResourceDefinition, plugin: &PluginName, definition: &Value) -> bool {
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
pub fn upgraded(found: &CustomResourceDefinition, carried: &Value) -> Result<Value, String> {
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

#[cfg(test)]
mod tests {
    use super::super::tests::{carried, to_install};
    use super::*;

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
}
