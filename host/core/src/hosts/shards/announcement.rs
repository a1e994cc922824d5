//! What the holder of a shard writes into its Lease for the other hosts.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Members;
use crate::object::Object;
use crate::object::observed_status::observed;
use crate::reconcile::shared::failures::{LastFailure, Sums};
use crate::value::json::Value;

/// Length from which messages are left out, in bytes. The API server rejects annotations of more than 256 KiB.
const LENGTH_MAX: usize = 64 * 1024;

/// The annotation of a shard's Lease, as JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Announcement {
    /// The members that the holder goes by.
    pub members: Members,
    /// Number of this view; it grows with each view of the same holder.
    pub number: u64,
    /// Version of the last change of a Plugin that the holder obeys: no reconcile runs any more that it forbids.
    pub plugins_seen: u64,
    /// The Plugins that must be left to the leader: the holder cannot reconcile their parents, or must not decide
    /// alone.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub for_leader: BTreeSet<String>,
    /// The Plugins whose last change the holder has not applied yet: it continues with its share, but does not begin
    /// one.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub behind: BTreeSet<String>,
    /// The failing parents of the holder's share, by Plugin.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failing: BTreeMap<String, FailingShare>,
}

/// The failing parents in one host's share of a Plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailingShare {
    /// Number of failing parents.
    pub count: u64,
    /// Reason of the newest failure.
    pub reason: String,
    /// Namespace and name of its parent.
    pub object: String,
    /// Its message.
    pub message: String,
    /// When it began.
    pub time: Timestamp,
}

impl FailingShare {
    /// The failing parents of this share, and those of others.
    #[must_use]
    pub fn added_to(&self, mut others: Sums) -> Sums {
        others.failing += self.count;
        if others.last.as_ref().is_none_or(|last| last.time < self.time)
            && let Ok(reason) = self.reason.parse()
        {
            let (object, message) = (self.object.clone(), self.message.clone());
            others.last = Some(LastFailure { reason, object, message, time: self.time });
        }
        others
    }
}

impl Announcement {
    /// Reads the annotation; none if it is missing, or if a user changed it.
    pub fn parse(text: Option<&str>) -> Option<Self> {
        serde_json::from_str(text?).ok()
    }

    /// The annotation's value. Messages of failures are left out if it would be too long, and then the failures.
    pub fn to_text(&self) -> String {
        let text = |announcement: &Self| serde_json::to_string(announcement).unwrap_or_default();
        let whole = text(self);
        if whole.len() <= LENGTH_MAX {
            return whole;
        }
        let mut short = self.clone();
        short.failing.values_mut().for_each(|failing| "see the parent's status".clone_into(&mut failing.message));
        let short_text = text(&short);
        if short_text.len() <= 2 * LENGTH_MAX {
            return short_text;
        }
        short.failing.clear();
        text(&short)
    }
}

/// What a Plugin's status says about who reconciles its parents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollout {
    /// Hash of what the leader rolled out: component, config, grants, limits and selectors.
    pub hash: String,
    /// Whether the members share the parents. If not, the leader has all of them.
    pub is_shared: bool,
    /// Generation of the Plugin.
    pub generation: Option<i64>,
    /// Digest of the leader's component. It is written after the hash, when the component is live.
    pub digest: Option<String>,
}

impl Rollout {
    /// Reads a Plugin; none if no component was ever live, or if the Plugin is being deleted.
    pub fn of(plugin: &Object) -> Option<Self> {
        if plugin.deleting {
            return None;
        }
        let status = observed(plugin);
        let rollout = status.get("rollout").and_then(Value::as_object)?;
        let hash = rollout.get("hash").and_then(Value::as_str)?.to_owned();
        let is_shared = matches!(rollout.get("shared"), Some(Value::Bool(true)));
        let digest = status.get("activeDigest").and_then(Value::as_str).map(str::to_owned);
        Some(Self { hash, is_shared, generation: plugin.generation, digest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h03_announcement_survives_its_text_and_stays_short_with_many_failing_plugins() {
        let failing = FailingShare {
            count: 2,
            reason: "PluginFailed".to_owned(),
            object: "n/web".to_owned(),
            message: "m".repeat(1000),
            time: Timestamp::UNIX_EPOCH,
        };
        let of = |plugins: usize| Announcement {
            members: [0, 2].into_iter().collect(),
            number: 3,
            failing: (0..plugins).map(|at| (format!("plugin-{at}"), failing.clone())).collect(),
            ..Announcement::default()
        };
        assert_eq!(Announcement::parse(Some(&of(2).to_text())), Some(of(2)));
        let many = of(500).to_text();
        assert!(many.len() < 128 * 1024, "{} bytes", many.len());
        let read = Announcement::parse(Some(&many)).expect("readable");
        assert!(read.failing.len() == 500 && read.failing.values().all(|failing| failing.count == 2));
        assert_eq!(
            [None, Some(""), Some("{}"), Some("claims nothing")].map(Announcement::parse),
            [None, None, None, None]
        );
    }
}
