//! Checks that a push does not overwrite objects of other owners, or narrow a CRD whose objects depend on it.

use anyhow::{Context as _, bail, ensure};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use kube::api::PostParams;
use kube::core::TypeMeta;
use kube::{Api, Client};
use serde_json::Value;
use windlass_api::Plugin;
use windlass_core::contract::declared_parent::{CarriedCrd, text};
use windlass_core::object::names::ANNOTATION_PUSHED_AT;
use windlass_core::plugin::schema::functions;
use windlass_core::value::ids::PluginName;
use windlass_engine::plugins::crd_narrowings;

use super::super::applied::{Target, describe, metadata};
use super::super::connect::plain;
use super::super::fields::set;
use super::super::pushed::{FIELD_MANAGER, is_pushs, plugin_of};

/// Label of objects that a push writes, with [`FIELD_MANAGER`] as its value. It also marks objects that are printed and
/// applied by other tools.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Marks an object as written by a push. A ServiceAccount gets no mark, because a user may have chosen it for the
/// plugin.
pub fn mark(object: &mut Value) {
    if text(object, "/kind") == "ServiceAccount" {
        return;
    }
    set(object, &["metadata", "labels", MANAGED_BY], FIELD_MANAGER);
}

/// Whether a push wrote an object: by label or annotation, or by the field manager, the only mark of older versions.
fn was_pushed(metadata: &ObjectMeta) -> bool {
    let label = metadata.labels.as_ref().and_then(|labels| labels.get(MANAGED_BY));
    let is_annotated = metadata.annotations.as_ref().is_some_and(|marks| marks.contains_key(ANNOTATION_PUSHED_AT));
    let is_managed = metadata.managed_fields.iter().flatten().any(is_pushs);
    label.is_some_and(|label| label == FIELD_MANAGER) || is_annotated || is_managed
}

/// Checks that an existing Plugin may be overwritten: the user has named it (`is_named`), because a component must not
/// choose it; and a push wrote it, unless `overwrites` is set.
///
/// # Errors
/// If it may not; the message says what the user can do instead.
pub fn check_plugin(plugin: &Plugin, is_named: bool, overwrites: bool) -> anyhow::Result<()> {
    let name = plugin.metadata.name.as_deref().unwrap_or_default();
    ensure!(
        is_named,
        "Plugin {name} exists, and its name comes from the component, not from --name; nothing was written. To \
         overwrite it, push again with --name {name}; to push the component as another Plugin, choose another name"
    );
    ensure!(
        overwrites || was_pushed(&plugin.metadata),
        "Plugin {name} was not written by `windlass push`; nothing was written. Change its source where it is kept, or \
         push again with --overwrite"
    );
    Ok(())
}

/// Checks that a push can remove `spec.verify`: the field stays if another field manager has set it as well.
///
/// # Errors
/// If other field managers have set it; the message names them.
pub fn check_no_verify(plugin: &Plugin) -> anyhow::Result<()> {
    let sets_it = |entry: &&ManagedFieldsEntry| {
        let fields = entry.fields_v1.as_ref().and_then(|fields| fields.0.pointer("/f:spec/f:verify"));
        fields.is_some() && !is_pushs(entry)
    };
    let entries = plugin.metadata.managed_fields.iter().flatten();
    let managers: Vec<_> = entries.filter(sets_it).filter_map(|entry| entry.manager.as_deref()).collect();
    if managers.is_empty() {
        return Ok(());
    }
    bail!(
        "spec.verify of Plugin {} is set by {}; nothing was written. Remove it there, or with: kubectl patch \
         plugins.windlass.dev {0} --type=json -p '[{{\"op\":\"remove\",\"path\":\"/spec/verify\"}}]'",
        plugin.metadata.name.as_deref().unwrap_or_default(),
        managers.join(", ")
    )
}

/// Checks that the user may create this object, or change it if it exists.
///
/// # Errors
/// If the user lacks a permission; the message names it.
pub async fn check_permission(client: &Client, (api, object): &Target) -> anyhow::Result<()> {
    let name = object.metadata.name.clone().unwrap_or_default();
    let found = metadata(api, &name, &describe(object)).await?;
    let TypeMeta { api_version, kind } = object.types.clone().unwrap_or_default();
    let group = api_version.split_once('/').map(|(group, _)| group.to_owned());
    // Server-side apply is a patch, even if it creates the object.
    let verbs = if found.is_some() { ["patch"].as_slice() } else { &["patch", "create"] };
    for verb in verbs {
        let asked = ResourceAttributes {
            verb: Some((*verb).to_owned()),
            group: group.clone(),
            resource: Some(format!("{}s", kind.to_lowercase())),
            namespace: object.metadata.namespace.clone(),
            name: Some(name.clone()),
            ..ResourceAttributes::default()
        };
        let spec =
            SelfSubjectAccessReviewSpec { resource_attributes: Some(asked), ..SelfSubjectAccessReviewSpec::default() };
        let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
        let response = Api::all(client.clone()).create(&PostParams::default(), &review).await;
        let response = response.map_err(plain).context("your permissions could not be reviewed")?;
        if !response.status.is_some_and(|status| status.allowed) {
            bail!("{} is forbidden: you may not {verb} it; nothing was written", describe(object));
        }
    }
    Ok(())
}

/// Checks that all existing objects among the targets were written by a push of this Plugin.
///
/// # Errors
/// If one was not; the message names it.
pub async fn check_targets(plugin: &PluginName, targets: &[Target]) -> anyhow::Result<()> {
    let mut others = Vec::new();
    for (api, object) in targets {
        let found = metadata(api, object.metadata.name.as_deref().unwrap_or_default(), &describe(object)).await?;
        let is_account = object.types.as_ref().is_some_and(|types| types.kind == "ServiceAccount");
        let Some(found) = found.filter(|_| !is_account) else { continue };
        match plugin_of(&found).filter(|of| *of != plugin.as_str()) {
            Some(of) => others.push(format!("{} (of Plugin {of})", describe(object))),
            None if !was_pushed(&found) => others.push(describe(object)),
            None => {}
        }
    }
    if others.is_empty() {
        return Ok(());
    }
    bail!(
        "{} exists and was not written by `windlass push` for Plugin {plugin}; nothing was written. Choose another name with \
         --name, or push again with --overwrite",
        others.join(", ")
    )
}

/// Compares the CRD that a component carries with the installed one, which the host would replace.
///
/// # Errors
/// If the carried CRD is narrower and the user did not allow that.
pub async fn check_schema(
    client: &Client,
    name: &PluginName,
    carried: &CarriedCrd,
    allowed: bool,
) -> anyhow::Result<()> {
    let crd = carried.name();
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let found = match api.get_opt(crd).await {
        Ok(found) => found,
        Err(kube::Error::Api(status)) if status.code == 403 => {
            err!("note: CustomResourceDefinition {crd} was not compared with the component's: {}", status.message);
            return Ok(());
        }
        Err(error) => return Err(plain(error)).with_context(|| format!("CustomResourceDefinition {crd}")),
    };
    let narrowings = found.map(|found| crd_narrowings(&found, name, carried)).unwrap_or_default();
    let list: Vec<_> = std::iter::once(String::new()).chain(narrowings.iter().map(ToString::to_string)).collect();
    let list = list.join("\n  ");
    match (narrowings.is_empty(), allowed) {
        (true, _) => Ok(()),
        (false, true) => {
            err!("note: CustomResourceDefinition {crd} will narrow the installed schema:{list}");
            Ok(())
        }
        (false, false) => bail!(
            "the component's CustomResourceDefinition {crd} narrows the installed schema, so objects would lose data or be \
             rejected at their next write; nothing was sent:{list}\nIf that is intended, push again with \
             --allow-schema-narrowing"
        ),
    }
}

/// Checks that the API server has the functions that the rules of the component's CRD call: it would refuse the CRD.
pub async fn check_functions(client: &Client, carried: &CarriedCrd) -> anyhow::Result<()> {
    let needs = functions::needs(carried.json());
    if needs.minor <= functions::OLDEST {
        return Ok(());
    }
    let version = client.apiserver_version().await.map_err(plain).context("the version of the API server")?;
    let minor: String = version.minor.chars().take_while(char::is_ascii_digit).collect();
    ensure!(
        version.major != "1" || minor.parse().unwrap_or(u32::MAX) >= needs.minor,
        "the component's CustomResourceDefinition {} needs Kubernetes {needs}; the API server has 1.{minor}, and would refuse it; \
         nothing was sent. Upgrade the cluster, or push a component without the function",
        carried.name()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plugin(metadata: Value) -> Plugin {
        let mut metadata = metadata;
        metadata["name"] = json!("echo");
        serde_json::from_value(json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "Plugin", "metadata": metadata,
            "spec": {"source": {"configMap": {"namespace": "windlass-system", "name": "echo"}}},
        }))
        .expect("a Plugin")
    }

    #[test]
    fn s07_existing_plugin_is_overwritten_only_if_named_by_the_user_and_written_by_a_push() {
        let pushed = [
            json!({"annotations": {ANNOTATION_PUSHED_AT: "2026-01-01T00:00:00Z"}}),
            json!({"managedFields": [{"manager": "windlass-push", "operation": "Apply"}]}),
        ];
        for metadata in pushed {
            let plugin = plugin(metadata);
            assert!(check_plugin(&plugin, true, false).is_ok());
            let refused =
                check_plugin(&plugin, false, true).expect_err("the name comes from the component").to_string();
            assert!(refused.contains("--name echo") && refused.contains("nothing was written"), "{refused}");
        }
        let others = plugin(json!({"managedFields": [{"manager": "kubectl", "operation": "Apply"}]}));
        let refused = check_plugin(&others, true, false).expect_err("written by kubectl").to_string();
        assert!(refused.contains("Plugin echo was not written by") && refused.contains("--overwrite"), "{refused}");
        assert!(check_plugin(&others, true, true).is_ok());
    }

    #[test]
    fn s07_pushed_objects_are_marked_and_recognized_and_a_foreign_config_map_is_not() {
        let mut written = json!({"kind": "ConfigMap", "metadata": {"name": "echo", "labels": {"a": "b"}}});
        mark(&mut written);
        let metadata =
            |object: &Value| serde_json::from_value::<ObjectMeta>(object["metadata"].clone()).expect("metadata");
        assert!(was_pushed(&metadata(&written)));
        assert_eq!(written["metadata"]["labels"]["a"], "b");
        let foreign = json!({"metadata": {"name": "echo", "labels": {"app.kubernetes.io/managed-by": "Helm"}}});
        assert!(!was_pushed(&metadata(&foreign)));
        assert_eq!(plugin_of(&metadata(&written)), None);
        let mut account = json!({"kind": "ServiceAccount", "metadata": {"name": "shared"}});
        mark(&mut account);
        assert_eq!(account["metadata"], json!({"name": "shared"}), "a user may have created the account");
    }

    #[test]
    fn push_that_cannot_remove_verify_of_another_field_manager_is_rejected() {
        let with = |manager: &str, fields: Value| {
            plugin(json!({"managedFields": [{
                "manager": manager, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields,
            }]}))
        };
        let verify = json!({"f:spec": {"f:verify": {"f:publicKeys": {}}}});
        assert!(check_no_verify(&with("windlass-push", verify.clone())).is_ok());
        assert!(check_no_verify(&with("kubectl", json!({"f:spec": {"f:suspend": {}}}))).is_ok());
        let refused = check_no_verify(&with("argocd", verify)).expect_err("the field would stay").to_string();
        assert!(
            refused.contains("set by argocd") && refused.contains("plugins.windlass.dev echo --type=json"),
            "{refused}"
        );
    }

    #[test]
    fn s07_pushed_object_names_the_plugin_that_it_belongs_to() {
        let metadata = |metadata: Value| serde_json::from_value::<ObjectMeta>(metadata).expect("metadata");
        let labelled = metadata(json!({"labels": {"windlass.dev/part-of": "echo"}}));
        assert_eq!(plugin_of(&labelled), Some("echo"));
        let owner = |version: &str| {
            metadata(json!({"ownerReferences": [
                {"apiVersion": version, "kind": "Plugin", "name": "echo", "uid": "1"},
            ]}))
        };
        assert_eq!(plugin_of(&owner("windlass.dev/v1alpha1")), Some("echo"));
        assert_eq!(plugin_of(&owner("others.example/v1")), None);
    }
}
