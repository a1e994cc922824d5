//! The status of a Plugin.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use windlass_core::guard::deletions::RolloutRecord;
use windlass_core::plugin::former_kinds::KnownChildKinds;
use windlass_core::value::ids::Gvk;

use super::schemas;

/// Status of a Plugin, written by the host.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct PluginStatus {
    /// Generation of the Plugin that the host acted on last.
    pub observed_generation: Option<i64>,
    /// Digest of the live component. If no component is live: digest of the component that was live last.
    pub active_digest: Option<String>,
    /// First twelve hexadecimal digits of `activeDigest`.
    pub digest12: Option<String>,
    /// Digest of the last component with which every parent has been reconciled at least once.
    pub reconciled_digest: Option<String>,
    /// Value of the annotation `windlass.dev/pushed-at` that the host acted on last.
    pub last_handled_push: Option<String>,
    /// Digest of a component that was delivered but is not live: a step failed, or is not finished.
    pub candidate_digest: Option<String>,
    /// Digest of the component that was live before the live one.
    pub previous_digest: Option<String>,
    /// Digest of the component that a user rolled back from with the annotation `windlass.dev/rollback`. A newer
    /// component in the source still goes live.
    pub rolled_back_from: Option<String>,
    /// Version of the live component, as the component reports it.
    pub version: Option<String>,
    /// Kind of the plugin's parents, as in `Echo.v1.my-operator.dev`.
    pub parent_kind: Option<String>,
    /// Time since which the Plugin has its parent kind. Only one Plugin can reconcile a kind whose CRD its component
    /// carries: the Plugin with the earliest such time. Several Plugins can reconcile one kind that exists without
    /// them.
    #[schemars(schema_with = "schemas::date_time")]
    pub parent_kind_since: Option<String>,
    /// Kinds that the plugin may own as children.
    pub child_kinds: Option<Vec<String>>,
    /// Kinds that the plugin owned before and may no longer own. Children of these kinds may still exist; the host
    /// leaves them alone until the Plugin is deleted, and then deletes them if `spec.deletionPolicy` is `Delete`.
    pub former_child_kinds: Option<Vec<String>>,
    /// Whether the Plugin adds children to objects of another owner: the component does not carry the CRD of its parent
    /// kind (a built-in kind, or another operator's). The host does not write the status of such parents.
    pub decorates: Option<bool>,
    /// Whether parents may have the finalizer `windlass.dev/<plugin>`: the live component finalizes, or an earlier one
    /// did. If the live component does not finalize, the host removes the finalizer.
    pub set_finalizers: Option<bool>,
    /// Number of parents.
    pub parents: Option<i64>,
    /// Number of parents whose last reconcile did not reach the desired state (`Reconciling` or `Stalled`, even if the
    /// host does not write these conditions), or whose status the API server rejected. Written at most every ten
    /// seconds.
    pub failing: Option<i64>,
    /// Newest failure of a parent. Written at most every ten seconds.
    pub last_failure: Option<LastFailure>,
    /// Hash of the deletions that are blocked for all parents together. Set the Plugin's annotation
    /// `windlass.dev/allow-deletion` to this value to allow them. The hash stays until the deletions are allowed or no
    /// longer desired, even while no component is live and when another component is delivered.
    pub blocked_deletions_hash: Option<String>,
    /// Progress of the last rollout to all parents. A rollout begins when the component, its config, its grants, its
    /// limits or its selectors change. The host writes this field before the rollout begins, so that the number of
    /// children that existed before is known after a restart.
    pub rollout: Option<PluginRollout>,
    /// Conditions of the Plugin: `Fetched`, `Verified`, `Compiled`, `Granted`, `Synced`, `Ready` and `Available`;
    /// `Reconciling` and `Stalled` only while they are True.
    #[schemars(schema_with = "schemas::conditions")]
    pub conditions: Option<Vec<Condition>>,
}

impl PluginStatus {
    /// The kinds of which the plugin may have children: kinds that it may own now, and kinds that it owned before.
    pub fn known_child_kinds(&self) -> KnownChildKinds {
        let kinds = self.former_child_kinds.iter().chain(&self.child_kinds).flatten();
        let mut known = KnownChildKinds::default();
        known.add(&kinds.filter_map(|kind| kind.parse::<Gvk>().ok()).collect::<Vec<_>>());
        known
    }
}

/// Rollout of a component, its config, its grants, its limits and its selectors to all parents of a Plugin.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginRollout {
    /// Hash of the component, config, grants, limits and selectors that are rolled out.
    pub hash: String,
    /// Whether the rollout is decided: the host has planned the writes of every parent at least once in this rollout,
    /// and no deletion is blocked.
    pub decided: bool,
    /// Number of children that all parents had before the rollout. Set while `decided` is false, and a parent has not
    /// been reconciled in this rollout or deletions are blocked.
    pub children: Option<i64>,
    /// Time at which the rollout began. Set together with `children`.
    #[serde(default)]
    #[schemars(schema_with = "schemas::date_time")]
    pub since: Option<String>,
    /// Whether the hosts share the parents (`windlass run --shards`). If not, the leader reconciles all of them.
    pub shared: Option<bool>,
}

impl PluginRollout {
    /// The rollout as the deletion guard reads it.
    pub fn record(&self) -> RolloutRecord {
        let children = self.children.and_then(|children| usize::try_from(children).ok());
        let since = self.since.as_ref().and_then(|since| since.parse().ok());
        RolloutRecord { hash: self.hash.clone(), is_decided: self.decided, began: children.zip(since) }
    }
}

/// The newest failure of a parent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastFailure {
    /// Reason of the failure, as in the condition `Ready` of the parent.
    pub reason: String,
    /// Namespace and name of the parent.
    pub object: String,
    /// Message of the failure, as in the condition `Ready` of the parent.
    pub message: String,
    /// Time since which the parent fails with this reason and message.
    #[schemars(schema_with = "schemas::date_time")]
    pub time: String,
}
