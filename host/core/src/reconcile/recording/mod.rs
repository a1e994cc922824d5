//! Calls as JSON, for files and for `windlass explain`: the types, and the conversions from and to the host's own.
//!
//! A recorded call contains no value of a Secret ([`crate::object::masking`]) and not the seed of its random numbers, from which passwords
//! may be made: it has another seed. So the response in a recording is the one that the component gives to the recorded request, and
//! not the one that the host got.

mod changes;
mod export;
mod import;

use std::num::NonZero;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::contract::{ChildOptions, Event, FinalizeCause, Keep, LeftOut, Limits, Phase, Requirement};
use crate::object::child::ChildId;
use crate::value::ids::Gvk;

pub use changes::{Change, Changed, changes};
pub use export::{export, export_all, export_result, learn};
pub use import::{NotARequest, digest};

/// Version of the format of recorded calls.
pub const FORMAT: u32 = 2;

/// A JSON document as it was transferred.
pub type Document = Box<RawValue>;

/// One reconcile of a parent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedCall {
    /// Number in the order of the host that made the call.
    pub number: u64,
    /// When the reconcile began.
    pub at: Timestamp,
    /// Name of the Plugin.
    pub plugin: String,
    /// The parent.
    pub parent: ChildId,
    /// Why the reconcile began: `resync`, `sweep`, `event` or `changed`.
    pub trigger: String,
    /// The trace of the reconcile, if it was exported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// How long the reconcile took, in microseconds.
    pub duration_us: u64,
    /// Number of equal reconciles directly before this one.
    #[serde(default)]
    pub repeated: u32,
    /// The call; absent if the plugin was not called, or if the call was too large to be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Exchange>,
    /// Whether the plugin was called, and the call was too large to be kept.
    #[serde(default)]
    pub is_call_omitted: bool,
    /// What the host did.
    pub decision: RecordedDecision,
}

/// A call of a plugin: everything that a response depends on, and the response.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exchange {
    /// Digest of the component.
    pub component: String,
    /// Version of the contract that the component implements.
    pub contract: String,
    /// The wall clock's time at the start of the call.
    pub now: Timestamp,
    /// Seed of the random numbers: 64 hexadecimal digits.
    pub seed: String,
    /// Limits of the call.
    pub limits: Limits,
    /// The request.
    pub request: RecordedRequest,
    /// The result. In the host's output: what the host got, masked. In a recording: what the component gave to this request.
    pub result: RecordedResult,
    /// Hash of the result's bytes; only in a recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_digest: Option<String>,
    /// What the host got, masked; only in a recording, and only if it differs from `result`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_result: Option<RecordedResult>,
    /// Time inside the guest and its host calls, in microseconds.
    pub guest_time_us: u64,
    /// Peak size of the guest's linear memories, in bytes.
    pub memory_peak: u64,
    /// Whether the guest read the wall clock.
    pub is_impure: bool,
}

/// The request of a call.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedRequest {
    /// `sync` or `finalize`.
    pub phase: Phase,
    /// The parent.
    pub parent: Document,
    /// The children.
    #[serde(default)]
    pub children: Vec<Document>,
    /// The related objects, by requirement.
    #[serde(default)]
    pub related: Vec<RecordedRelated>,
    /// The children that are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// The ids of the last response's requests to other systems.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub unsent: Box<[String]>,
    /// The Plugin's `spec.config`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Document>,
    /// The time at which the reconcile began, in milliseconds since 1970, if the component asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now_ms: Option<u64>,
    /// The namespaces in which the plugin may have no children.
    #[serde(default)]
    pub closed_namespaces: Vec<Arc<str>>,
    /// The optional kinds that the cluster serves and the Plugin grants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<Gvk>,
    /// In the phase `finalize`: why.
    #[serde(default)]
    pub cause: FinalizeCause,
    /// Whether the parent is finalized in a namespace that is being deleted.
    #[serde(default)]
    pub namespace_terminating: bool,
}

/// The objects for one requirement.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedRelated {
    /// ID of the requirement.
    pub id: String,
    /// Whether the objects are without anything but their metadata.
    #[serde(default)]
    pub metadata_only: bool,
    /// The objects.
    pub objects: Vec<Document>,
}

/// The result of a call.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RecordedResult {
    /// The plugin returned a response.
    Response(RecordedResponse),
    /// The plugin reported that the spec is invalid.
    Invalid(String),
    /// The plugin asked to be called again.
    #[serde(rename_all = "camelCase")]
    Retry {
        /// The cause.
        message: String,
        /// Time until the next call, in milliseconds.
        after_ms: u64,
    },
    /// The plugin reported that it failed.
    Failed(String),
    /// The call has no response: the host's message says why.
    Aborted(String),
}

/// A response.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedResponse {
    /// The desired children. A child that is not JSON is a string.
    pub children: Vec<Document>,
    /// The options of each child, in the same order; absent if they are annotations of the children (contract 0.1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<Box<[ChildOptions]>>,
    /// The existing children that stay as they are.
    #[serde(default, skip_serializing_if = "Keep::is_none")]
    pub keep: Keep,
    /// What the plugin waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Box<str>>,
    /// The plugin's part of the status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Document>,
    /// Milliseconds until the next reconcile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requeue_ms: Option<u64>,
    /// The time of the next reconcile, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requeue_at_ms: Option<NonZero<u64>>,
    /// Events on the parent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// The related objects that the response depends on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requirements: Vec<Requirement>,
    /// The ids of its requests to other systems.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub http: Box<[String]>,
    /// Whether clean-up is complete.
    #[serde(default)]
    pub finalized: bool,
}

/// What the host did.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedDecision {
    /// The reason of the parent's condition, or a word for a reconcile that changes no condition.
    pub outcome: String,
    /// `applied`, `reconciling`, `stalled` or `suspended`; absent if the conditions stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// What happened and what to do.
    pub message: String,
    /// The changes of children.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub written: Vec<RecordedWrite>,
    /// The writes that failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedWrite>,
    /// `written`, `unchanged` or `failed`.
    pub status: String,
    /// When the parent is reconciled again, if nothing changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A change of a child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedWrite {
    /// What the host did with the child: `created`, `updated`, …
    pub verb: String,
    /// The child.
    pub object: ChildId,
}

/// A write that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedWrite {
    /// The child.
    pub object: ChildId,
    /// Why, and what to do.
    pub message: String,
}

#[cfg(test)]
mod tests;
