//! The terms on which a plugin reconciles its parents: what its component declares, what its Plugin grants and sets, and what the cluster
//! serves. They never change; other terms replace them.

use std::sync::Arc;
use std::time::Duration;

use super::next_step::{Circumstances, CleanUp, NextStep, next_step};
use crate::contract::desired::Grants;
use crate::contract::grant::SpecGrants;
use crate::contract::offer::Offer;
use crate::contract::related::ReadGrants;
use crate::contract::{Limits, ReadyMeans};
use crate::guard::deletions::DeletionGuard;
use crate::object::Object;
use crate::object::mark::MarkKey;
use crate::object::observed_status::StatusShape;
use crate::value::digest::Digest;
use crate::value::ids::{Gvk, PluginName};

/// The account that writes the status of parents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusWriter {
    /// The host: the Plugin installed the CRD.
    Host,
    /// The Plugin's ServiceAccount, which may patch the status: another owner installed the CRD that the component
    /// carries.
    Account,
    /// No account: another owner installed the CRD that the component carries, and the Plugin's ServiceAccount may not
    /// patch the status.
    Denied,
    /// No account: the component carries no CRD of the kind, or the CRD has no status subresource.
    Nobody,
}

/// The terms of one Plugin.
#[derive(Debug, Clone)]
pub struct Terms {
    /// The Plugin's name.
    pub name: PluginName,
    /// The kind of the parents.
    pub parents: Arc<Gvk>,
    /// Whether the component carries the CRD of the parent kind. If not, for example for a built-in kind, the host does
    /// not write the status, and several plugins may have parents of the kind.
    pub owns_kind: bool,
    /// The account that writes the status of parents.
    pub status_writer: StatusWriter,
    /// Which of the host's status fields the schema of the parent kind has. It has no field if the status is not
    /// written.
    pub shape: StatusShape,
    /// Hash of everything that determines a response, except the objects (see [`call_inputs`](crate::contract::snapshot::call_inputs)).
    pub call_inputs: Digest,
    /// Hash of everything by which responses are validated (see [`rules`](crate::contract::snapshot::rules)).
    pub rules: Digest,
    /// The component's version, from its descriptor.
    pub version: String,
    /// What parents have the plugin's finalizer for.
    pub clean_up: CleanUp,
    /// What `Ready=True` of a parent means.
    pub ready_means: ReadyMeans,
    /// Whether requests have the time.
    pub clock: bool,
    /// The kinds of children that the plugin may own, and the namespaces in which it may own them.
    pub grants: Grants,
    /// What follows for the component from these grants and the kinds that the cluster serves. Optional kinds come and go without a
    /// rollout.
    pub offer: Arc<Offer>,
    /// The kinds of related objects that the plugin may require, and the namespaces in which it may read them.
    pub reads: ReadGrants,
    /// `spec.config` as JSON; none if it is not set.
    pub config: Option<Arc<[u8]>>,
    /// Limits of each call.
    pub limits: Limits,
    /// The key of the marks on children; none if the parents are namespaced.
    pub mark_key: Option<MarkKey>,
    /// The settings that take effect at once.
    pub settings: Settings,
}

/// Settings of a Plugin's spec that do not change the desired state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settings {
    /// Whether `spec.suspend` stops the reconciles of parents.
    pub suspended: bool,
    /// Whether the plugin adopts existing objects that have its children's names (`spec.adopt`).
    pub adopts: bool,
    /// Thresholds above which deletions are blocked until a user allows them (rule R9).
    pub guard: DeletionGuard,
    /// Largest number of parents that are reconciled at once.
    pub concurrency: usize,
    /// Time between resyncs, before jitter.
    pub resync: Duration,
}

impl Settings {
    /// Whether the change of settings needs a reconcile of the parents: work that a suspension or the guard blocked may
    /// continue, and a new resync interval starts now. A change of the concurrency needs none.
    pub fn concern_parents(self, before: Self) -> bool {
        Self { concurrency: before.concurrency, ..self } != before
    }
}

impl Terms {
    /// Whether parents get the plugin's finalizer.
    pub fn sets_finalizer(&self) -> bool {
        self.clean_up != CleanUp::None
    }

    /// The next step for an object of the parent kind; `selected` is true if it is one of the parents now.
    pub fn next_step(&self, parent: &Object, selected: bool) -> NextStep {
        let (clean_up, suspended) = (self.clean_up, self.settings.suspended);
        next_step(parent, &self.name, Circumstances { clean_up, suspended, selected })
    }

    /// Whether this plugin may own or read what its Plugin does not grant any more.
    pub fn exceed(&self, grants: &SpecGrants) -> bool {
        !self.grants.are_held_by(grants) || !grants.hold_reads(&self.reads)
    }

    /// Whether an object with a child's labels has a valid mark. Only children of cluster-scoped parents need one.
    pub fn has_mark(&self, child: &Object) -> bool {
        self.mark_key.as_ref().is_none_or(|key| key.holds(child))
    }

    /// Whether an object has the labels and the mark of this plugin's children.
    pub fn is_childlike(&self, object: &Object) -> bool {
        object.plugin() == Some(self.name.as_str()) && self.has_mark(object)
    }

    /// Whether other terms lead to the same children and statuses. They may differ in the settings that take effect at once, and in the
    /// optional kinds that the cluster serves.
    pub fn decide_like(&self, other: &Self) -> bool {
        self.call_inputs == other.call_inputs
            && self.parents == other.parents
            && self.config == other.config
            && self.status_writer == other.status_writer
            && self.shape == other.shape
            // Grants and limits; not which optional kinds the cluster serves.
            && self.rules == other.rules
            && self.mark_key == other.mark_key
            && self.reads.are_like(&other.reads)
    }
}
