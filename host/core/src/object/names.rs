//! The labels, annotations, condition types and event reasons that Windlass writes. They are a stable interface: users'
//! scripts and dashboards depend on them. `docs/conditions.md` documents each for users.

/// Field manager of every server-side apply and create, the same for all plugins, so that renaming a Plugin orphans no
/// fields.
pub const FIELD_MANAGER: &str = "windlass";

/// Field manager of the finalizer on parents. A parent may be a child as well, and then an apply by [`FIELD_MANAGER`]
/// must not remove the finalizer.
pub const FINALIZER_MANAGER: &str = "windlass-finalizer";
/// Prefix of the host's finalizers; the Plugin's name follows (rule R14).
pub const FINALIZER_PREFIX: &str = "windlass.dev/";

/// Finalizer of a Plugin whose deletion needs work by the host: parents carry the plugin's finalizer, or children are
/// deleted with the Plugin.
pub const HOST_FINALIZER: &str = "windlass.dev/host";

/// The `reportingController` of events.
pub const EVENT_REPORTER: &str = "windlass.dev/host";

/// Prefix of labels and annotations that the host interprets.
pub const ANNOTATION_PREFIX: &str = "windlass.dev/";

/// Label on every child: the name of its Plugin. The host's watches of children select by this label.
pub const LABEL_PLUGIN: &str = "windlass.dev/plugin";
/// Label on every child: the UID of its parent.
pub const LABEL_PARENT_UID: &str = "windlass.dev/parent-uid";

/// Annotation on every child: `1:` and the SHA-256 of the last applied object.
pub const ANNOTATION_APPLIED: &str = "windlass.dev/applied";
/// Annotation by which a plugin asks that a child outlive its parent: the child gets labels, but no ownerReference.
pub const ANNOTATION_RETAIN: &str = "windlass.dev/retain";
/// Annotation on a retained child: the parent that may re-adopt the child, regardless of the parent's UID.
pub const ANNOTATION_RETAINED_FOR: &str = "windlass.dev/retained-for";
/// Annotation on a child of a cluster-scoped parent: the proof that the host made the object a child (see
/// [`crate::object::mark`]).
pub const ANNOTATION_MARK: &str = "windlass.dev/mark";
/// Annotation on a child of a stage above 0: its stage (rule R23).
pub const ANNOTATION_STAGE: &str = "windlass.dev/stage";
/// Annotation on a child that is created once: the text for which it was created (rule R25).
pub const ANNOTATION_ONCE: &str = "windlass.dev/once";
/// Prefix of annotations on a parent, each the note about one creation of a child that is created once (rule R25).
pub const ANNOTATION_ONCE_PREFIX: &str = "windlass.dev/once-";
/// Annotation that a plugin sets on a child: the host forces ownership of fields that other managers own, once.
pub const ANNOTATION_TAKE_OVER: &str = "windlass.dev/take-over";

/// Annotation on a parent: while it is `"true"`, the host writes and deletes none of its children
/// (rule R16).
pub const ANNOTATION_SUSPEND: &str = "windlass.dev/suspend";
/// Annotation on a parent that is being deleted: the host removes its finalizer without the plugin's cleanup (rule
/// R14).
pub const ANNOTATION_SKIP_FINALIZE: &str = "windlass.dev/skip-finalize";
/// Annotation on a parent or a Plugin: the hash of the blocked deletions to allow (rule R9).
pub const ANNOTATION_ALLOW_DELETION: &str = "windlass.dev/allow-deletion";
/// Annotation on a parent: the trace (W3C `traceparent`) to which the traces of its reconciles link.
pub const ANNOTATION_TRACEPARENT: &str = "windlass.dev/traceparent";

/// Annotation on a Plugin: while it is `"true"`, the previous component is live again.
pub const ANNOTATION_ROLLBACK: &str = "windlass.dev/rollback";
/// Annotation on a Plugin: the time of the last `windlass push`.
pub const ANNOTATION_PUSHED_AT: &str = "windlass.dev/pushed-at";
/// Label of the Lease of a shard: the shard's number.
pub const LABEL_SHARD: &str = "windlass.dev/shard";
/// Annotation of the Lease of a shard: what its holder tells the other hosts.
pub const ANNOTATION_SHARD: &str = "windlass.dev/shard-state";

/// Condition types of a Plugin.
pub mod plugin_condition {
    /// The component is fetched, and its digest is verified.
    pub const FETCHED: &str = "Fetched";
    /// The component is signed by one of the Plugin's trusted keys. Present only if signatures are required.
    pub const VERIFIED: &str = "Verified";
    /// The component is compiled, and its contract version is supported.
    pub const COMPILED: &str = "Compiled";
    /// All kinds that the plugin needs exist, and the plugin is permitted to use them.
    pub const GRANTED: &str = "Granted";
    /// The host's caches of all kinds that the plugin uses are filled and up to date.
    pub const SYNCED: &str = "Synced";
    /// The component that the spec asks for is live and works.
    pub const READY: &str = "Ready";
    /// A component is live, and its caches are up to date.
    pub const AVAILABLE: &str = "Available";
    /// The host is working towards the spec (kstatus). Present only while true.
    pub const RECONCILING: &str = "Reconciling";
    /// The host makes no progress until the Plugin or its component changes (kstatus). Present only while true.
    pub const STALLED: &str = "Stalled";
}

/// Condition types of a parent.
pub mod parent_condition {
    /// The whole desired state is applied, and the plugin reports it as ready.
    pub const READY: &str = "Ready";
    /// The host is working towards the spec (kstatus). Present only while true.
    pub const RECONCILING: &str = "Reconciling";
    /// The host does not try again before the parent or the plugin changes (kstatus). Present only while true.
    pub const STALLED: &str = "Stalled";
    /// Deletions of children stay blocked while `Ready` reports another problem. Present only while true.
    pub const DELETIONS_BLOCKED: &str = "DeletionsBlocked";
}

/// Reasons of the events on a Plugin.
pub mod plugin_event_reason {
    /// A component was activated.
    pub const ACTIVATED: &str = "Activated";
    /// A component was rejected, or the spec is invalid: a user must act.
    pub const REJECTED: &str = "Rejected";
    /// The previous component is live again, because a user asked for a rollback.
    pub const ROLLED_BACK: &str = "RolledBack";
    /// Too many calls of the live component failed.
    pub const QUARANTINED: &str = "Quarantined";
    /// Deletions of children wait for a user to allow them.
    pub const DELETION_BLOCKED: &str = "DeletionBlocked";
}

/// Reasons of the events on a parent, in addition to those of its conditions.
pub mod event_reason {
    /// Children were created.
    pub const CREATED: &str = "Created";
    /// Children were updated to the desired state.
    pub const UPDATED: &str = "Updated";
    /// A new generation of the parent has more or fewer children of one kind.
    pub const SCALED: &str = "Scaled";
    /// Manual edits of children were reverted.
    pub const DRIFT_CORRECTED: &str = "DriftCorrected";
    /// Ownership of children's fields was forced from other field managers.
    pub const TAKEN_OVER: &str = "TakenOver";
    /// Existing objects became children.
    pub const ADOPTED: &str = "Adopted";
    /// Children were deleted to be recreated.
    pub const REPLACING: &str = "Replacing";
    /// Children that are no longer desired were deleted.
    pub const DELETED: &str = "Deleted";
    /// One reconcile made several kinds of changes.
    pub const RECONCILED: &str = "Reconciled";
    /// The API server accepted children, and warned about them.
    pub const API_WARNINGS: &str = "ApiWarnings";
    /// The parent was reconciled successfully after a failure.
    pub const RECOVERED: &str = "Recovered";
    /// The parent is no longer suspended.
    pub const RESUMED: &str = "Resumed";
    /// The plugin finished its cleanup, and its finalizer was removed.
    pub const FINALIZED: &str = "Finalized";
    /// The finalizer was removed without the plugin's cleanup, because a user asked for it.
    pub const FINALIZER_SKIPPED: &str = "FinalizerSkipped";
    /// The finalizer was removed before the plugin finished its cleanup, because the parent's namespace is being
    /// deleted.
    pub const FINALIZER_ABANDONED: &str = "FinalizerAbandoned";
    /// The plugin emitted an event whose reason is not a CamelCase word.
    pub const PLUGIN_EVENT: &str = "PluginEvent";
}

/// Actions of the events on a parent (`action` in `events.k8s.io/v1`).
pub mod event_action {
    /// The parent was reconciled.
    pub const RECONCILE: &str = "Reconcile";
    /// The parent was finalized.
    pub const FINALIZE: &str = "Finalize";
}
