//! The types that plugin and host exchange, independent of the contract version: `windlass-sandbox` converts between
//! these and the WIT bindings of each version. `wit/` documents every item.

mod child;
mod descriptor;
mod failure;
mod request;

use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::value::digest::Digest;
use crate::value::milliseconds;

pub use child::{ChildOptions, ChildRef, ChildRule, Keep, Until, UpdateStrategy};
pub use descriptor::{Descriptor, Metric, MetricType, Parent, ParentSelector, ReadyMeans};
pub use failure::{CallFailure, LoadFailure};
pub use request::{FinalizeCause, LeftOut, Namespaces, Observed, Phase, Related, Request, Requirement, Selection};

/// One JSON document in UTF-8, as it is transferred.
pub type Json = Vec<u8>;

/// A plugin's response, before validation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Response {
    /// All children that should exist.
    pub children: Vec<Json>,
    /// The options of each child, in the same order; `None` if they are annotations of the children (contract 0.1).
    pub options: Option<Box<[ChildOptions]>>,
    /// Existing children that stay as they are although they are not in `children`.
    pub keep: Keep,
    /// What the plugin waits for, for users.
    pub waiting: Option<Box<str>>,
    /// The plugin's part of `.status`; `None` leaves that part unchanged.
    pub status: Option<Json>,
    /// Milliseconds until the next reconcile; `None` means the resync interval.
    pub requeue: Option<u64>,
    /// The time of the next reconcile, in milliseconds since 1970; with `requeue`, the earlier of both.
    pub requeue_at: Option<NonZero<u64>>,
    /// Events to record on the parent.
    pub events: Vec<Event>,
    /// All related objects that this response depends on.
    pub requirements: Vec<Requirement>,
    /// The ids of its requests to other systems.
    pub http: Box<[String]>,
    /// Whether the cleanup is finished, so that the host removes the finalizer; used only in [`Phase::Finalize`].
    pub finalized: bool,
}

/// An event to record on the parent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Normal or Warning.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// Reason: one word in CamelCase.
    pub reason: String,
    /// A sentence for users.
    pub message: String,
}

/// The type of an event, as in `events.k8s.io/v1`. The texts are external: events and the digests of recordings have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::Display, strum::IntoStaticStr)]
pub enum EventType {
    /// Reports information.
    Normal,
    /// Reports a problem.
    Warning,
}

/// A failure that the plugin itself reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The parent's spec is invalid: the host retries when the parent changes.
    Invalid(String),
    /// The plugin cannot reconcile now: the host retries after a time.
    Retry {
        /// The cause.
        message: String,
        /// Time until the retry, in milliseconds.
        after: u64,
    },
    /// The plugin failed: the host retries with backoff.
    Failed(String),
}

/// A plugin's response, or the failure that it reports.
pub type PluginResult = Result<Response, Failure>;

/// The cost of one call, and what the guest emitted in addition to its response; for the trace.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CallReport {
    /// Time inside the guest and its host calls, in microseconds.
    pub guest_time_us: u64,
    /// Peak size of the guest's linear memories, in bytes.
    pub memory_peak: u64,
    /// Size of the request, in bytes.
    pub request_bytes: u64,
    /// Size of the response, in bytes.
    pub response_bytes: u64,
    /// Whether the guest read the wall clock, so that the response depends on more than the request.
    pub impure: bool,
    /// The notes that the guest emitted, in order.
    pub notes: Vec<Note>,
    /// Number of notes dropped because of a limit.
    pub notes_dropped: u64,
}

/// A log line, attribute, event or measurement that a guest emitted through `host` or its standard streams.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// A log line.
    Log {
        /// Severity.
        level: Level,
        /// Text.
        message: String,
        /// Structured fields.
        fields: Vec<(String, String)>,
    },
    /// An attribute for the span of the call.
    SpanAttribute {
        /// Name.
        key: String,
        /// Value.
        value: String,
    },
    /// An event on the span of the call.
    SpanEvent {
        /// Name.
        name: String,
        /// Attributes.
        attributes: Vec<(String, String)>,
    },
    /// A measurement of a declared metric.
    Measure {
        /// The declared name.
        metric: String,
        /// The value.
        value: f64,
        /// Label names and values.
        labels: Vec<(String, String)>,
    },
}

/// Severity of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Most detailed.
    Trace,
    /// For plugin authors.
    Debug,
    /// For cluster admins.
    Info,
    /// Unusual, but the call goes on.
    Warn,
    /// An error.
    Error,
}

/// Largest value of [`Limits::json_depth`]. A child is nested less deeply than the deepest object that the host can read from the API
/// server ([`OBJECT_DEPTH`](crate::value::json::OBJECT_DEPTH)).
pub const JSON_DEPTH_MAX: u8 = 200;

/// Limits of one call. The defaults are those of the contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Maximum linear memory, in bytes, summed over all memories of the component.
    pub memory: u64,
    /// Maximum number of table elements, summed over all tables of the component; each takes 8 bytes in the host.
    pub table_elements: usize,
    /// Maximum number of core instances of the component.
    pub instances: usize,
    /// Maximum wall-clock time of a whole call, including host calls.
    #[serde(rename = "deadlineMs", with = "milliseconds")]
    pub deadline: Duration,
    /// Maximum size of a request, in bytes.
    pub request_bytes: u64,
    /// Maximum size of a response, in bytes.
    pub response_bytes: u64,
    /// Maximum number of children in a response.
    pub children: usize,
    /// Maximum size of the log lines, span attributes and span events kept of one call, in bytes.
    pub log_bytes: usize,
    /// Maximum number of events in a response.
    pub events: usize,
    /// Maximum number of requirements in a response.
    pub requirements: usize,
    /// Maximum nesting depth of a JSON document, up to [`JSON_DEPTH_MAX`].
    pub json_depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        const MIB: u64 = 1024 * 1024;
        Self {
            memory: 64 * MIB,
            table_elements: 1024 * 1024,
            // Each library of a Python component is an instance; the runtime alone has 14.
            instances: 512,
            deadline: Duration::from_secs(1),
            request_bytes: 4 * MIB,
            response_bytes: 4 * MIB,
            children: 1000,
            log_bytes: 64 * 1024,
            events: 16,
            requirements: 64,
            json_depth: 128,
        }
    }
}

/// The interface of a component, known before it runs; for conditions, `windlass inspect` and the linker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surface {
    /// Digest of the component's bytes.
    pub digest: Digest,
    /// Version of `windlass:plugin` in the component's exports, for example `0.1.0`; empty if there is none.
    pub contract: Arc<str>,
    /// Imports, for example `windlass:plugin/host@0.1.0`.
    pub imports: Vec<String>,
    /// Exports, for example `windlass:plugin/reconciler@0.1.0`.
    pub exports: Vec<String>,
    /// Unsupported imports; calling one traps.
    pub unsupported_imports: Vec<String>,
    /// Size of the component, in bytes.
    pub size: u64,
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use strum::VariantNames as _;

    use super::*;

    #[test]
    fn texts_that_are_written_to_telemetry_events_and_recordings_stay() {
        let failures = [
            "deadline",
            "memory",
            "table_elements",
            "instances",
            "stack_overflow",
            "trap",
            "unknown_import",
            "exit",
            "request_too_large",
            "response_too_large",
            "malformed",
            "host",
        ];
        assert_eq!(CallFailure::VARIANTS, failures);
        assert_eq!(<&str>::from(CallFailure::UnsupportedImport(String::new())), "unknown_import");
        for (event_type, text) in [(EventType::Normal, "Normal"), (EventType::Warning, "Warning")] {
            assert_eq!((&*event_type.to_string(), event_type.into(), json!(event_type)), (text, text, json!(text)));
        }
        assert_eq!(json!([Phase::Sync, Phase::Finalize]), json!(["sync", "finalize"]));
        assert_eq!([Phase::Sync, Phase::Finalize].map(<&str>::from), ["sync", "finalize"]);
    }
}
