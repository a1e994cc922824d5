//! Builds the ServiceAccount of a plugin, and its roles and bindings.

use kube::Client;
use serde_json::Value;
use windlass_api::{DeletionPolicy, GrantsSpec, Plugin};
use windlass_core::contract::Parent;
use windlass_core::contract::declared_parent::text;
use windlass_engine::cluster::account::plugin_account;
use windlass_engine::plugins::rbac;

use super::super::applied::found;
use super::super::component::Candidate;
use super::kept::Kept;
use super::objects::labelled;
use super::permissions;

/// A plugin that gets the permissions that it needs.
pub struct Granted<'a> {
    /// The component, and the name of the Plugin.
    pub candidate: &'a Candidate,
    /// The host's namespace.
    pub namespace: &'a str,
    /// The plugin's ServiceAccount.
    pub account: &'a str,
    /// The Secret with the registry's credentials, if any.
    pub pull_secret: Option<&'a str>,
    /// The grants of the Plugin after the push.
    pub grants: &'a GrantsSpec,
    /// The Plugin as it is, if it exists.
    pub existing: Option<&'a Plugin>,
}

impl Granted<'_> {
    /// The ServiceAccount, roles and bindings, and notes about them for the user. The roles keep what earlier components of the
    /// Plugin need, for a rollback. Without a client, they are those of a new Plugin that installs its CRD.
    ///
    /// # Errors
    /// If a kind of the component is not served or cannot be granted, or the API server does not respond.
    pub async fn objects(&self, client: Option<&Client>) -> anyhow::Result<(Vec<Value>, Vec<String>)> {
        let Self { candidate, namespace, account, pull_secret, grants, existing } = *self;
        let Candidate { component, name, .. } = candidate;
        let prunes = existing.is_some_and(|plugin| plugin.spec.deletion_policy == DeletionPolicy::Delete);
        let status = &existing.and_then(|plugin| plugin.status.clone()).unwrap_or_default();
        let permissions = permissions::of(client, candidate, (grants, prunes), status).await?;
        let mut notes = permissions.notes();
        let (kinds, descriptor) = (permissions.kinds, component.descriptor());
        // Since contract 0.2, a response may have children that are created once, which no descriptor declares.
        let may_note =
            matches!(descriptor.parent, Parent::Custom(_)) && !component.surface().contract.starts_with("0.1.");
        let patches_parents = status.set_finalizers == Some(true) || may_note;
        let mut roles = vec![rbac::plugin_role(name.as_str(), descriptor, &kinds, patches_parents)];
        roles.extend(rbac::account_objects(name.as_str(), account, namespace, &kinds));
        let kept = Kept::new(component.digest(), grants, status);
        for role in roles.iter_mut().filter(|object| text(object, "/kind") == "ClusterRole") {
            let found = if let Some(client) = client { found(client, role).await? } else { None };
            let components = kept.add(role, found.as_ref());
            let role = text(role, "/metadata/name");
            notes.extend(
                components
                    .iter()
                    .map(|component| format!("note: ClusterRole {role} keeps what {component} needs, for a rollback")),
            );
        }
        roles.extend(rbac::user_roles(name.as_str(), &kinds));
        if let Some(secret) = pull_secret {
            roles.extend(rbac::source_objects(name.as_str(), namespace, secret));
        }
        // An account that a user chose may serve several plugins, so it gets no label of this one.
        let is_own = account == plugin_account(name.as_str());
        let label = |role| if is_own { labelled(role, name.as_str()) } else { role };
        Ok((roles.into_iter().map(label).collect(), notes))
    }
}
