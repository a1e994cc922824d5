//! What plugin and host say to each other, in types that no contract version owns: `windlass-sandbox` converts
//! between these and the WIT bindings of each version (see `wit/plugin.wit` for the meaning of every item).

use std::sync::Arc;

use crate::digest::Digest;
use crate::ids::Gvk;

/// One JSON document in UTF-8, as it travels.
pub type Json = Vec<u8>;

/// What a plugin says it is, once after it was compiled.
#[derive(Debug, Clone, PartialEq)]
pub struct Descriptor {
    /// DNS label; the default name of its Plugin resource.
    pub name: String,
    /// Semantic version of the logic.
    pub version: String,
    /// One sentence for people.
    pub description: String,
    /// The kind it reconciles.
    pub parent: Parent,
    /// The kinds it may answer with.
    pub children: Vec<ChildRule>,
    /// Kinds that its requirements may name.
    pub related: Vec<Gvk>,
    /// Whether parents get a finalizer and `finalize` calls.
    pub finalizes: bool,
    /// Milliseconds between unprompted reconciles, before jitter.
    pub resync: Option<u64>,
    /// JSON Schema of the Plugin's `spec.config`.
    pub config_schema: Option<Json>,
    /// Instruments that `host.measure` may name.
    pub metrics: Vec<Metric>,
}

/// The kind that a plugin reconciles.
#[derive(Debug, Clone, PartialEq)]
pub enum Parent {
    /// A CustomResourceDefinition (`apiextensions.k8s.io/v1`) that the plugin brings along.
    Custom(Json),
    /// A kind that exists already.
    Existing {
        /// The kind.
        kind: Gvk,
        /// Label selector in kubectl's syntax.
        selector: Option<String>,
    },
}

/// One kind that a plugin may answer with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildRule {
    /// The kind.
    pub kind: Gvk,
    /// How an existing child is brought to what is desired.
    pub update: UpdateStrategy,
}

/// How an existing child is brought to what is desired (rule R11).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpdateStrategy {
    /// Server-side apply in place.
    Apply,
    /// On any difference delete, wait until it is gone, create.
    Recreate,
    /// Leave existing children as they are.
    OnDelete,
    /// One child at a time, in the answer's order.
    Rolling {
        /// Recreate instead of apply in place.
        recreate: bool,
        /// Conditions with status True that a changed child must have before the next one changes. Every child of the kind
        /// shares them.
        conditions: Arc<[String]>,
    },
}

/// An instrument that a plugin declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metric {
    /// Name, without the plugin's prefix.
    pub name: String,
    /// Unit (UCUM, as OpenTelemetry uses it).
    pub unit: String,
    /// One sentence for people.
    pub description: String,
    /// Kind of instrument.
    pub metric_type: MetricType,
    /// Label names.
    pub labels: Vec<String>,
}

/// Kind of instrument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricType {
    /// Only grows.
    Counter,
    /// Last value.
    Gauge,
    /// Distribution.
    Histogram,
}

/// What is asked of the plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Say what should exist.
    Sync,
    /// The parent is being deleted: say what should still exist, and whether all is done.
    Finalize,
}

/// An object as it is handed to a plugin. The bytes are shared with the caches: handing over copies once, into the
/// guest's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// The kind, as the object says it.
    pub kind: Gvk,
    /// Namespace; `None` for a cluster-scoped object.
    pub namespace: Option<Arc<str>>,
    /// Name.
    pub name: Arc<str>,
    /// What the API server sent, without managedFields, always with apiVersion and kind.
    pub object: Arc<[u8]>,
}

/// Everything that an answer may depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What is asked.
    pub phase: Phase,
    /// The parent, as [`Observed::object`].
    pub parent: Arc<[u8]>,
    /// Children that the parent owns, ordered bytewise by apiVersion, kind, namespace, name.
    pub children: Vec<Observed>,
    /// What the last final answer (or the round before) required, in that order.
    pub related: Vec<Related>,
    /// The Plugin's `spec.config`.
    pub config: Option<Arc<[u8]>>,
    /// Whether the parent is cleaned up in a namespace that is being deleted, where no child can be created any more.
    pub namespace_terminating: bool,
}

/// Objects served for one [`Requirement`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Related {
    /// The requirement's id.
    pub id: String,
    /// What was found.
    pub objects: Vec<Observed>,
}

/// A wish to see objects that the plugin does not own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// Chosen by the plugin, unique in one answer.
    pub id: String,
    /// The kind.
    pub kind: Gvk,
    /// The parent's namespace when absent.
    pub namespace: Option<String>,
    /// Which objects.
    pub select: Selection,
}

/// Which objects a [`Requirement`] names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// The one with this name.
    Name(String),
    /// Those that a label selector in kubectl's syntax selects.
    Labels(String),
}

/// A plugin's answer, before anything of it was checked.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Response {
    /// All children that should exist.
    pub children: Vec<Json>,
    /// The plugin's part of `.status`; absent leaves that part as it is.
    pub status: Option<Json>,
    /// Milliseconds until the next reconcile.
    pub requeue: Option<u64>,
    /// Events to record on the parent.
    pub events: Vec<Event>,
    /// All related objects that this answer depends on.
    pub requirements: Vec<Requirement>,
    /// Only in [`Phase::Finalize`]: the finalizer may go.
    pub finalized: bool,
}

/// An event to record on the parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Normal or Warning.
    pub event_type: EventType,
    /// CamelCase.
    pub reason: String,
    /// A sentence for people.
    pub message: String,
}

/// As in `events.k8s.io/v1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// For information.
    Normal,
    /// Something a person should look at.
    Warning,
}

/// A failure that the plugin itself reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The parent's spec is wrong: no retry before it changes.
    Invalid(String),
    /// Not now: again after so long.
    Retry {
        /// Why.
        message: String,
        /// Milliseconds.
        after: u64,
    },
    /// Something went wrong: again with backoff.
    Failed(String),
}

/// What a plugin answered.
pub type Answer = Result<Response, Failure>;

/// What one call cost and said beside its answer, for the trace.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CallReport {
    /// Time inside the guest and its host calls, in microseconds.
    pub guest_time_us: u64,
    /// Highest size of the guest's linear memories, in bytes.
    pub memory_peak: u64,
    /// Bytes handed to the guest.
    pub request_bytes: u64,
    /// Bytes of the answer.
    pub response_bytes: u64,
    /// Whether the guest read the wall clock, so that the answer depends on more than its request.
    pub impure: bool,
    /// What the guest said while it ran, in order.
    pub notes: Vec<Note>,
    /// How many notes were dropped because a bound was reached.
    pub notes_dropped: u64,
}

/// One thing that a guest said through `host` or its standard streams.
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
    /// Finest.
    Trace,
    /// For authors.
    Debug,
    /// For operators.
    Info,
    /// Odd, but going on.
    Warn,
    /// Wrong.
    Error,
}

/// Bounds of one call. Defaults are those of the contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory of one call, in bytes, over all memories of the component.
    pub memory: u64,
    /// Elements over all tables of the component; each takes 8 bytes in the host.
    pub table_elements: usize,
    /// Core instances that the component is made of.
    pub instances: usize,
    /// Wall time of a whole call, host calls included.
    pub deadline: std::time::Duration,
    /// Bytes handed to the guest.
    pub request_bytes: u64,
    /// Bytes of an answer.
    pub response_bytes: u64,
    /// Children in an answer.
    pub children: usize,
    /// Bytes of log lines, span attributes and span events kept of one call.
    pub log_bytes: usize,
    /// Events in an answer.
    pub events: usize,
    /// Requirements in an answer.
    pub requirements: usize,
    /// Depth of a JSON document.
    pub json_depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        const MIB: u64 = 1024 * 1024;
        Self {
            memory: 64 * MIB,
            table_elements: 1024 * 1024,
            // Each library of a Python component is one: 14 without any of the plugin's own.
            instances: 512,
            deadline: std::time::Duration::from_secs(1),
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

/// What a component shows of itself before it runs: for conditions, `windlass inspect` and the linker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surface {
    /// Digest of the component's bytes.
    pub digest: Digest,
    /// Version of `windlass:plugin` that its exports name, as in `0.1.0`.
    pub contract: String,
    /// Imports, as in `windlass:plugin/host@0.1.0`.
    pub imports: Vec<String>,
    /// Exports, as in `windlass:plugin/reconciler@0.1.0`.
    pub exports: Vec<String>,
    /// Imports that the host does not serve: a call of one traps.
    pub unknown_imports: Vec<String>,
    /// Size of the component, in bytes.
    pub size: u64,
}

/// Why a call has no answer: the host's own verdict, never the guest's words alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallFailure {
    /// The call ran longer than its deadline, host calls included.
    #[error("no answer within {} ms", .limit.as_millis())]
    Deadline {
        /// The deadline.
        limit: std::time::Duration,
    },
    /// The guest wanted more memory than it may have.
    #[error("more than {limit} bytes of memory wanted")]
    Memory {
        /// The limit, in bytes.
        limit: u64,
    },
    /// The guest wanted larger tables than it may have.
    #[error("more than {limit} elements in tables wanted")]
    TableElements {
        /// The limit, in elements.
        limit: usize,
    },
    /// The component is made of more core instances than it may have.
    #[error("the component has more than {limit} core instances")]
    Instances {
        /// The limit.
        limit: usize,
    },
    /// The guest's stack overflowed.
    #[error("stack overflow")]
    StackOverflow,
    /// The guest trapped.
    #[error("trap: {message}")]
    Trap {
        /// The trap's name, with the innermost guest functions where known, after the last error that the guest reported.
        message: String,
    },
    /// The guest called an import that the host does not serve.
    #[error("import {name} was called, which the host does not serve")]
    UnknownImport {
        /// The import.
        name: String,
    },
    /// The guest ended itself through `wasi:cli/exit`.
    #[error("the plugin called exit{}", .said.as_ref().map(|said| format!(": {said}")).unwrap_or_default())]
    Exit {
        /// The last error that it reported before, if it did.
        said: Option<String>,
    },
    /// The request is larger than the plugin may be handed.
    #[error("the request has {size} bytes, more than the limit of {limit}")]
    RequestTooLarge {
        /// Its size, in bytes.
        size: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The answer is larger than the host takes.
    #[error("the answer has more than the limit of {limit} bytes")]
    ResponseTooLarge {
        /// The limit, in bytes.
        limit: u64,
    },
    /// The answer breaks the component model's rules, as with text that is not UTF-8.
    #[error("malformed answer: {message}")]
    Malformed {
        /// What is wrong.
        message: String,
    },
    /// The host could not make room for the call.
    #[error("the host could not run the call: {message}")]
    Host {
        /// What is wrong.
        message: String,
    },
}

/// Why a component cannot become live.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadFailure {
    /// The bytes are no component: a core module, or anything else.
    #[error("not a component: {message}")]
    NotAComponent {
        /// What it is instead, and what to do.
        message: String,
    },
    /// The component speaks another version of the contract, or none.
    #[error("no export windlass:plugin/reconciler of contract 0.1; found {found}")]
    UnsupportedContract {
        /// What it exports instead.
        found: String,
    },
    /// The component is larger than the host compiles.
    #[error("the component has {size} bytes, more than the limit of {limit}")]
    TooLarge {
        /// Its size, in bytes.
        size: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The compiler refused it.
    #[error("compilation failed: {message}")]
    Compile {
        /// Why.
        message: String,
    },
    /// The compiler came to no verdict: it did not start, ran too long or died, or what it gave is of no use here.
    #[error("compilation failed: {message}")]
    Compiler {
        /// What happened.
        message: String,
    },
    /// Earlier attempts to compile it ended the host, most likely for want of memory.
    #[error(
        "compiling this component was cut off {attempts} time(s), because the host ended meanwhile, most likely for want of memory; \
         the next attempt is at {}. Give the host more memory, or bound the compiler with --compile-memory",
        jiff::Timestamp::from_second(i64::try_from(*.next).unwrap_or_default()).unwrap_or_default()
    )]
    Interrupted {
        /// How many.
        attempts: u32,
        /// When the next one is, in seconds since 1970.
        next: u64,
        /// How long that is from now.
        wait: std::time::Duration,
    },
    /// The cache folder cannot be used.
    #[error("the compiled component cannot be kept: {message}")]
    Cache {
        /// What happened.
        message: String,
    },
    /// `describe` failed.
    #[error("describe failed: {0}")]
    Describe(CallFailure),
}

impl LoadFailure {
    /// The host is stopping, and compiles nothing more.
    pub fn stopping() -> Self {
        Self::Compiler { message: "the host is stopping".to_owned() }
    }

    /// Whether the component itself is the reason, so that it would fail again. Anything else may be the machine's fault,
    /// and pass.
    pub fn is_of_component(&self) -> bool {
        match self {
            Self::NotAComponent { .. }
            | Self::UnsupportedContract { .. }
            | Self::TooLarge { .. }
            | Self::Compile { .. } => true,
            Self::Compiler { .. } | Self::Interrupted { .. } | Self::Cache { .. } => false,
            Self::Describe(failure) => match failure {
                CallFailure::Memory { .. }
                | CallFailure::TableElements { .. }
                | CallFailure::Instances { .. }
                | CallFailure::StackOverflow
                | CallFailure::Trap { .. }
                | CallFailure::UnknownImport { .. }
                | CallFailure::Exit { .. }
                | CallFailure::RequestTooLarge { .. }
                | CallFailure::ResponseTooLarge { .. }
                | CallFailure::Malformed { .. } => true,
                // A machine that is busy enough makes anything late.
                CallFailure::Deadline { .. } | CallFailure::Host { .. } => false,
            },
        }
    }
}
