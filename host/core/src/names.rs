//! Every label, annotation, condition type and reason that Windlass writes. They are a stable interface: users' scripts
//! and dashboards depend on them. `docs/conditions.md` documents each for users.

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
/// Annotation on a retained child: the parent that may re-adopt it, whatever its UID.
pub const ANNOTATION_RETAINED_FOR: &str = "windlass.dev/retained-for";
/// Annotation on a child of a cluster-scoped parent: the proof that the host made the object a child (see
/// [`crate::mark`]).
pub const ANNOTATION_MARK: &str = "windlass.dev/mark";
/// Annotation that a plugin sets on a child: force ownership of fields that other managers own, once.
pub const ANNOTATION_TAKE_OVER: &str = "windlass.dev/take-over";

/// Annotation on a parent: while it is `"true"`, the host writes and deletes none of its children
/// (rule R16).
pub const ANNOTATION_SUSPEND: &str = "windlass.dev/suspend";
/// Annotation on a parent that is being deleted: the host removes its finalizer without the plugin's cleanup (rule
/// R14).
pub const ANNOTATION_SKIP_FINALIZE: &str = "windlass.dev/skip-finalize";
/// Annotation on a parent or a Plugin: the hash of the blocked deletions to allow (rule R9).
pub const ANNOTATION_ALLOW_DELETION: &str = "windlass.dev/allow-deletion";

/// Annotation on a Plugin: while it is `"true"`, the previous component is active again.
pub const ANNOTATION_ROLLBACK: &str = "windlass.dev/rollback";
/// Annotation on a Plugin: the time of the last `windlass push`.
pub const ANNOTATION_PUSHED_AT: &str = "windlass.dev/pushed-at";

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
    /// Some component is active and reconciles parents.
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
    /// The host is working towards the spec (kstatus).
    pub const RECONCILING: &str = "Reconciling";
    /// The host does not try again until something changes (kstatus).
    pub const STALLED: &str = "Stalled";
}

/// Reasons in a Plugin's conditions.
pub mod plugin_reason {
    /// The condition is met, as its type says.
    pub const SUCCEEDED: &str = "Succeeded";
    /// The ConfigMap does not exist, or the registry has no such artifact.
    pub const SOURCE_NOT_FOUND: &str = "SourceNotFound";
    /// The host has no permission to read the source.
    pub const SOURCE_FORBIDDEN: &str = "SourceForbidden";
    /// The source contains no component, or several forms of one.
    pub const SOURCE_INVALID: &str = "SourceInvalid";
    /// The registry cannot be reached; the host tries again.
    pub const SOURCE_UNAVAILABLE: &str = "SourceUnavailable";
    /// The pull secret does not provide the registry's credentials.
    pub const INVALID_PULL_SECRET: &str = "InvalidPullSecret";
    /// The public keys cannot be read, or are not valid keys.
    pub const INVALID_KEYS: &str = "InvalidKeys";
    /// Signatures are required, and the component has none.
    pub const NOT_SIGNED: &str = "NotSigned";
    /// None of the component's signatures is by one of the trusted keys.
    pub const SIGNATURE_INVALID: &str = "SignatureInvalid";
    /// Parts of a chunked component are missing or belong to another component; none is loaded.
    pub const PARTS_INCOMPLETE: &str = "PartsIncomplete";
    /// The bytes do not have the pinned digest, or not the digest by which the registry names them.
    pub const DIGEST_MISMATCH: &str = "DigestMismatch";
    /// The bytes are not a WebAssembly component.
    pub const NOT_A_COMPONENT: &str = "NotAComponent";
    /// The component exports no contract version that the host supports.
    pub const UNSUPPORTED_CONTRACT: &str = "UnsupportedContract";
    /// The compiler rejected the component.
    pub const COMPILE_FAILED: &str = "CompileFailed";
    /// Compiling the component did not finish, or its result could not be stored. The host tries again.
    pub const COMPILE_INTERRUPTED: &str = "CompileInterrupted";
    /// `describe` failed or returned an invalid descriptor.
    pub const INVALID_DESCRIPTOR: &str = "InvalidDescriptor";
    /// The parent kind does not exist (and its CRD is not to be installed), is not served, or is stored in another
    /// version.
    pub const PARENT_KIND_MISSING: &str = "ParentKindMissing";
    /// A child kind or related kind does not exist in this cluster.
    pub const CHILD_KIND_MISSING: &str = "ChildKindMissing";
    /// The host or the Plugin's ServiceAccount lacks a permission that the plugin needs.
    pub const FORBIDDEN: &str = "Forbidden";
    /// The plugin asks for a kind that the Plugin does not grant, or that can never be granted.
    pub const NOT_GRANTED: &str = "NotGranted";
    /// Children of kinds that the plugin may no longer own still exist. The host leaves them alone.
    pub const CHILDREN_LEFT: &str = "ChildrenLeft";
    /// Another Plugin reconciles this parent kind already.
    pub const PARENT_KIND_TAKEN: &str = "ParentKindTaken";
    /// The component reconciles another kind than the Plugin's existing parents.
    pub const PARENT_KIND_CHANGED: &str = "ParentKindChanged";
    /// The API server rejected the CRD or did not establish it, or the CRD would be replaced by an older version.
    pub const CRD_REJECTED: &str = "CRDRejected";
    /// The Plugin's spec is invalid.
    pub const INVALID_SPEC: &str = "InvalidSpec";
    /// An earlier step failed.
    pub const BLOCKED: &str = "Blocked";
    /// The API server cannot be reached, or responded with an error.
    pub const API_ERROR: &str = "APIError";
    /// The plugin caused more writes or access reviews than its rate limit allows; further ones are delayed.
    pub const RATE_LIMITED: &str = "RateLimited";
    /// The host's watch of a kind makes no progress, so its cache may be outdated.
    pub const WATCH_STALLED: &str = "WatchStalled";
    /// The parents are cluster-scoped, and the key for their children's marks is not available.
    pub const MARK_KEY_UNAVAILABLE: &str = "MarkKeyUnavailable";
    /// The Plugin is suspended, so none of its parents is reconciled. `Ready` keeps its status; while it is True, this
    /// is its reason.
    pub const SUSPENDED: &str = "Suspended";
    /// Too many calls of the component failed in a row, for several parents: calls are reduced to single probes.
    pub const QUARANTINED: &str = "Quarantined";
    /// A new component would delete so many children that deletions are blocked until a user allows them.
    pub const DELETION_BLOCKED: &str = "DeletionBlocked";
    /// A user rolled back to the previous component (`windlass.dev/rollback`).
    pub const ROLLED_BACK: &str = "RolledBack";
    /// There is no previous component, or it is no longer among the compiled components.
    pub const NOTHING_TO_ROLL_BACK_TO: &str = "NothingToRollBackTo";
    /// Work is in progress.
    pub const PROGRESSING: &str = "Progressing";
    /// The Plugin is being deleted, and something prevents the removal of its finalizers or children.
    pub const TERMINATING: &str = "Terminating";
}

/// Reasons in a parent's conditions.
pub mod parent_reason {
    /// The Plugin no longer selects the object, by its labels or its namespace's labels.
    pub const NOT_SELECTED: &str = "NotSelected";
    /// The object is in the host's own namespace, where plugins reconcile nothing.
    pub const HOST_NAMESPACE: &str = "HostNamespace";
    /// The desired state is applied.
    pub const SUCCEEDED: &str = "Succeeded";
    /// The plugin reports the spec as invalid; it is not called again before the parent changes.
    pub const INVALID_SPEC: &str = "InvalidSpec";
    /// The plugin asks to be called again later.
    pub const WAITING: &str = "Waiting";
    /// The plugin reports a failure.
    pub const PLUGIN_FAILED: &str = "PluginFailed";
    /// The plugin's call exceeded its deadline.
    pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
    /// The plugin exceeded its memory limit.
    pub const MEMORY_LIMIT: &str = "MemoryLimit";
    /// The plugin trapped.
    pub const TRAPPED: &str = "Trapped";
    /// A request, a response or the component exceeds a limit; or children are omitted from the request, because it
    /// would be too large with them.
    pub const LIMIT_EXCEEDED: &str = "LimitExceeded";
    /// The response is not valid JSON, or contains an object that is not a Kubernetes object.
    pub const MALFORMED_RESPONSE: &str = "MalformedResponse";
    /// The response contains something that the plugin is not allowed to return.
    pub const RESPONSE_REJECTED: &str = "ResponseRejected";
    /// The host could not run the plugin.
    pub const HOST_ERROR: &str = "HostError";
    /// A child's name belongs to an object that is not this parent's child.
    pub const CONFLICT: &str = "Conflict";
    /// Another field manager owns a field of a child.
    pub const FIELD_CONFLICT: &str = "FieldConflict";
    /// The API server rejected a child.
    pub const CHILD_REJECTED: &str = "ChildRejected";
    /// The API server rejected the plugin's part of the status.
    pub const STATUS_REJECTED: &str = "StatusRejected";
    /// The API server could not be reached, or asked the host to retry later.
    pub const API_ERROR: &str = "APIError";
    /// The host's watches have not shown its own last writes, so no child is written.
    pub const CACHE_BEHIND: &str = "CacheBehind";
    /// Children to be recreated are still being deleted.
    pub const CHILDREN_TERMINATING: &str = "ChildrenTerminating";
    /// Changed children must be ready before the next ones change (`rolling`).
    pub const ROLLING_UPDATE: &str = "RollingUpdate";
    /// Deletions that no user asked for are blocked until a user allows them.
    pub const DELETION_BLOCKED: &str = "DeletionBlocked";
    /// An object was written too often; it is written once a minute until the writes cease.
    pub const THRASHING: &str = "Thrashing";
    /// Too many calls of the plugin failed in a row, for this parent or for several parents: calls are reduced to
    /// single probes.
    pub const QUARANTINED: &str = "Quarantined";
    /// The parent or its Plugin is suspended: nothing is written.
    pub const SUSPENDED: &str = "Suspended";
    /// A child cannot be created, because its namespace is being deleted.
    pub const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";
    /// The parent is being deleted, and the plugin has not finished its cleanup.
    pub const FINALIZING: &str = "Finalizing";
    /// The plugin requires objects that it was not granted, or that its ServiceAccount has no permission to read.
    pub const READ_FORBIDDEN: &str = "ReadForbidden";
    /// The plugin caused more writes or access reviews than its rate limit allows; the parent waits.
    pub const RATE_LIMITED: &str = "RateLimited";
    /// The plugin's requirements still changed after the fifth round.
    pub const REQUIREMENTS_UNSETTLED: &str = "RequirementsUnsettled";
}

/// Reasons of the events on a Plugin.
pub mod plugin_event_reason {
    /// A component was activated.
    pub const ACTIVATED: &str = "Activated";
    /// A component was rejected, or the spec is invalid: a user must act.
    pub const REJECTED: &str = "Rejected";
    /// The previous component is active again, because a user asked for a rollback.
    pub const ROLLED_BACK: &str = "RolledBack";
    /// Too many calls of the active component failed.
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
    /// Several kinds of changes in one reconcile.
    pub const RECONCILED: &str = "Reconciled";
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
