//! Every label, annotation, condition type and reason that Windlass writes, in one place: people's scripts and
//! dashboards depend on them. `docs/conditions.md` explains each to its reader.

/// Field manager of every server-side apply and create, whatever the plugin: renaming a Plugin orphans no field.
pub const FIELD_MANAGER: &str = "windlass";

/// Field manager of the finalizer on parents: a parent may be a child as well, and then what [`FIELD_MANAGER`] applies
/// must not take the finalizer away.
pub const FINALIZER_MANAGER: &str = "windlass-finalizer";
/// What a finalizer of ours starts with; the Plugin's name follows (rule R14).
pub const FINALIZER_PREFIX: &str = "windlass.dev/";

/// Finalizer of a Plugin whose end the host must hear of: parents carry its finalizer, or children go with it.
pub const HOST_FINALIZER: &str = "windlass.dev/host";

/// Who reports events (`reportingController`).
pub const EVENT_REPORTER: &str = "windlass.dev/host";

/// Prefix of annotations that mean something to the host.
pub const ANNOTATION_PREFIX: &str = "windlass.dev/";

/// Label on every child: the Plugin that wants it. Children are watched by it.
pub const LABEL_PLUGIN: &str = "windlass.dev/plugin";
/// Label on every child: the uid of the parent it exists for.
pub const LABEL_PARENT_UID: &str = "windlass.dev/parent-uid";

/// Annotation on every child: `1:` and the SHA-256 of what was last applied.
pub const ANNOTATION_APPLIED: &str = "windlass.dev/applied";
/// Annotation by which a plugin asks that a child outlive its parent: labels, but no ownerReference.
pub const ANNOTATION_RETAIN: &str = "windlass.dev/retain";
/// Annotation on a retained child: the parent that may take it up again, whatever its uid.
pub const ANNOTATION_RETAINED_FOR: &str = "windlass.dev/retained-for";
/// Annotation on a child of a cluster-scoped parent: the host's proof that it made the object a child (see [`crate::mark`]).
pub const ANNOTATION_MARK: &str = "windlass.dev/mark";
/// Annotation that a plugin sets on a child: take fields over from other appliers, once.
pub const ANNOTATION_TAKE_OVER: &str = "windlass.dev/take-over";

/// Annotation on a parent: nothing is written because of it while this is `"true"` (rule R16).
pub const ANNOTATION_SUSPEND: &str = "windlass.dev/suspend";
/// Annotation on a parent that is being deleted: its finalizer goes without the plugin's word (rule R14).
pub const ANNOTATION_SKIP_FINALIZE: &str = "windlass.dev/skip-finalize";
/// Annotation on a parent or a Plugin: the hash of the held deletions that may go on (rule R9).
pub const ANNOTATION_ALLOW_DELETION: &str = "windlass.dev/allow-deletion";

/// Annotation on a Plugin: while it is `"true"`, the logic that was live before is live again.
pub const ANNOTATION_ROLLBACK: &str = "windlass.dev/rollback";
/// Annotation on a Plugin: when `windlass push` wrote it last.
pub const ANNOTATION_PUSHED_AT: &str = "windlass.dev/pushed-at";

/// Condition types of a Plugin.
pub mod plugin_condition {
    /// The component's bytes are here and have the digest they should have.
    pub const FETCHED: &str = "Fetched";
    /// One of the keys that the Plugin trusts signed the component. It is there only where signatures are wanted.
    pub const VERIFIED: &str = "Verified";
    /// The component compiled and speaks the contract.
    pub const COMPILED: &str = "Compiled";
    /// All kinds that the plugin needs exist and may be used by it.
    pub const GRANTED: &str = "Granted";
    /// The host's caches of all kinds that the plugin uses are filled and follow the API server.
    pub const SYNCED: &str = "Synced";
    /// The component that the spec asks for is live and works.
    pub const READY: &str = "Ready";
    /// Some component is live, and parents are reconciled by it.
    pub const AVAILABLE: &str = "Available";
    /// The host is working towards the spec (kstatus). It is there only while it is true.
    pub const RECONCILING: &str = "Reconciling";
    /// Nothing goes on before the Plugin or its component changes (kstatus). It is there only while it is true.
    pub const STALLED: &str = "Stalled";
}

/// Condition types of a parent.
pub mod parent_condition {
    /// All that the plugin wants was written, and the plugin calls it ready.
    pub const READY: &str = "Ready";
    /// The host is working towards the spec (kstatus).
    pub const RECONCILING: &str = "Reconciling";
    /// The host stopped trying until something changes (kstatus).
    pub const STALLED: &str = "Stalled";
}

/// Reasons in a Plugin's conditions.
pub mod plugin_reason {
    /// As the type says.
    pub const SUCCEEDED: &str = "Succeeded";
    /// The ConfigMap is not there, or the registry has no such artifact.
    pub const SOURCE_NOT_FOUND: &str = "SourceNotFound";
    /// The host may not read the source.
    pub const SOURCE_FORBIDDEN: &str = "SourceForbidden";
    /// The source holds no component, or several forms of one.
    pub const SOURCE_INVALID: &str = "SourceInvalid";
    /// The registry cannot be asked; it is tried again.
    pub const SOURCE_UNAVAILABLE: &str = "SourceUnavailable";
    /// The registry's credentials cannot be had from the pull secret.
    pub const INVALID_PULL_SECRET: &str = "InvalidPullSecret";
    /// The public keys cannot be had, or are none.
    pub const INVALID_KEYS: &str = "InvalidKeys";
    /// Signatures are wanted, and there is none.
    pub const NOT_SIGNED: &str = "NotSigned";
    /// There are signatures, but none of the component by one of the keys.
    pub const SIGNATURE_INVALID: &str = "SignatureInvalid";
    /// Parts of a chunked set are missing or of another component; none of it is loaded.
    pub const PARTS_INCOMPLETE: &str = "PartsIncomplete";
    /// The bytes do not have the pinned digest, or not the one by which the registry names them.
    pub const DIGEST_MISMATCH: &str = "DigestMismatch";
    /// The bytes are no component.
    pub const NOT_A_COMPONENT: &str = "NotAComponent";
    /// The component speaks no contract version that the host knows.
    pub const UNSUPPORTED_CONTRACT: &str = "UnsupportedContract";
    /// The compiler refused the component.
    pub const COMPILE_FAILED: &str = "CompileFailed";
    /// Compiling the component did not come to an end, or its result could not be kept. The host tries again.
    pub const COMPILE_INTERRUPTED: &str = "CompileInterrupted";
    /// `describe` failed or says something that cannot be.
    pub const INVALID_DESCRIPTOR: &str = "InvalidDescriptor";
    /// The parent kind does not exist (and its CRD is not to be installed), is not served, or is stored in another
    /// version.
    pub const PARENT_KIND_MISSING: &str = "ParentKindMissing";
    /// A kind among the children or related kinds does not exist in this cluster.
    pub const CHILD_KIND_MISSING: &str = "ChildKindMissing";
    /// The host, or the ServiceAccount of the Plugin, lacks a right that the plugin's work needs.
    pub const FORBIDDEN: &str = "Forbidden";
    /// The plugin wants a kind that the Plugin resource does not grant, or that is never granted.
    pub const NOT_GRANTED: &str = "NotGranted";
    /// There are children of kinds that the plugin may no longer own. They are left alone.
    pub const CHILDREN_LEFT: &str = "ChildrenLeft";
    /// Another Plugin has the parent kind already.
    pub const PARENT_KIND_TAKEN: &str = "ParentKindTaken";
    /// The component is for another kind than the parents that the Plugin has.
    pub const PARENT_KIND_CHANGED: &str = "ParentKindChanged";
    /// The API server refused the CRD, or did not establish it; or it would go back to an older version.
    pub const CRD_REJECTED: &str = "CRDRejected";
    /// The Plugin's own spec makes no sense.
    pub const INVALID_SPEC: &str = "InvalidSpec";
    /// A step before this one failed.
    pub const BLOCKED: &str = "Blocked";
    /// The API server could not be asked.
    pub const API_ERROR: &str = "APIError";
    /// The plugin caused more writes or access reviews than its rate allows, and waits for the next ones.
    pub const RATE_LIMITED: &str = "RateLimited";
    /// The host's watch of a kind makes no progress, so its cache may be out of date.
    pub const WATCH_STALLED: &str = "WatchStalled";
    /// The parents are cluster-scoped, and the key of their children's marks cannot be had.
    pub const MARK_KEY_UNAVAILABLE: &str = "MarkKeyUnavailable";
    /// The Plugin is suspended: none of its parents is reconciled. `Ready` keeps its status, and while it is True, this is its
    /// reason.
    pub const SUSPENDED: &str = "Suspended";
    /// Calls of the component failed too often in a row, for several parents: it is called only now and then.
    pub const QUARANTINED: &str = "Quarantined";
    /// New logic wants to delete so many children that nothing is deleted until a person allows it.
    pub const DELETION_BLOCKED: &str = "DeletionBlocked";
    /// A person went back to the logic that was live before (`windlass.dev/rollback`).
    pub const ROLLED_BACK: &str = "RolledBack";
    /// There is no earlier logic, or it is no longer among the compiled components.
    pub const NOTHING_TO_ROLL_BACK_TO: &str = "NothingToRollBackTo";
    /// Work is under way.
    pub const PROGRESSING: &str = "Progressing";
    /// The Plugin is being deleted, and something keeps its finalizers or children from going.
    pub const TERMINATING: &str = "Terminating";
}

/// Reasons in a parent's conditions.
pub mod parent_reason {
    /// The object is no longer a parent of the plugin, by its labels or its namespace's.
    pub const NOT_SELECTED: &str = "NotSelected";
    /// The object is in the host's own namespace, in which no plugin has parents.
    pub const HOST_NAMESPACE: &str = "HostNamespace";
    /// All is applied.
    pub const SUCCEEDED: &str = "Succeeded";
    /// The plugin calls the spec wrong; it is not asked again before the parent changes.
    pub const INVALID_SPEC: &str = "InvalidSpec";
    /// The plugin wants to be asked again later.
    pub const WAITING: &str = "Waiting";
    /// The plugin reports a failure.
    pub const PLUGIN_FAILED: &str = "PluginFailed";
    /// The plugin did not answer in time.
    pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
    /// The plugin wanted more memory than it may have.
    pub const MEMORY_LIMIT: &str = "MemoryLimit";
    /// The plugin trapped.
    pub const TRAPPED: &str = "Trapped";
    /// A request, an answer, or the component itself over a limit; or children that the plugin is not shown, because the
    /// request would be too large with them.
    pub const LIMIT_EXCEEDED: &str = "LimitExceeded";
    /// The answer is no valid JSON, or no Kubernetes object.
    pub const MALFORMED_RESPONSE: &str = "MalformedResponse";
    /// The answer holds something that the plugin may not want.
    pub const RESPONSE_REJECTED: &str = "ResponseRejected";
    /// The host could not run the plugin.
    pub const HOST_ERROR: &str = "HostError";
    /// A child's name is taken by an object that is not this parent's.
    pub const CONFLICT: &str = "Conflict";
    /// Another applier owns a field of a child.
    pub const FIELD_CONFLICT: &str = "FieldConflict";
    /// The API server refused a child.
    pub const CHILD_REJECTED: &str = "ChildRejected";
    /// The API server refused what the plugin says in the status.
    pub const STATUS_REJECTED: &str = "StatusRejected";
    /// The API server could not be asked, or asked to come back later.
    pub const API_ERROR: &str = "APIError";
    /// The host's watches have not shown its own last writes, so no child is written.
    pub const CACHE_BEHIND: &str = "CacheBehind";
    /// Children are still being deleted, and take the place of new ones.
    pub const CHILDREN_TERMINATING: &str = "ChildrenTerminating";
    /// Changed children must be ready before the next ones change (`rolling`).
    pub const ROLLING_UPDATE: &str = "RollingUpdate";
    /// Deletions that nobody asked for are held until a person allows them.
    pub const DELETION_BLOCKED: &str = "DeletionBlocked";
    /// An object was written too often; it is written once a minute until it is quiet.
    pub const THRASHING: &str = "Thrashing";
    /// Calls of the plugin failed too often in a row, for this parent or several ones: it is called only now and then.
    pub const QUARANTINED: &str = "Quarantined";
    /// The parent or its Plugin is suspended: nothing is written.
    pub const SUSPENDED: &str = "Suspended";
    /// A child cannot be created, because its namespace is being deleted.
    pub const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";
    /// The parent is being deleted, and the plugin has not finished cleaning up.
    pub const FINALIZING: &str = "Finalizing";
    /// The plugin asks to read what it was not granted, or what its ServiceAccount may not read.
    pub const READ_FORBIDDEN: &str = "ReadForbidden";
    /// The plugin caused more writes or access reviews than its rate allows; the parent waits for the next ones.
    pub const RATE_LIMITED: &str = "RateLimited";
    /// The plugin's requirements still changed after the fifth round.
    pub const REQUIREMENTS_UNSETTLED: &str = "RequirementsUnsettled";
}

/// Reasons of the events on a Plugin.
pub mod plugin_event_reason {
    /// A component went live.
    pub const ACTIVATED: &str = "Activated";
    /// A component was not taken, or the spec is wrong: a user has to act.
    pub const REJECTED: &str = "Rejected";
    /// The component that was live before is live again, as a user asked.
    pub const ROLLED_BACK: &str = "RolledBack";
    /// Calls of the live component failed too often.
    pub const QUARANTINED: &str = "Quarantined";
    /// Deletions of children wait for a user to allow them.
    pub const DELETION_BLOCKED: &str = "DeletionBlocked";
}

/// Reasons of the events on a parent, beside those of its conditions.
pub mod event_reason {
    /// Children were created.
    pub const CREATED: &str = "Created";
    /// Children were changed to what the plugin wants now.
    pub const UPDATED: &str = "Updated";
    /// The parent's new generation has more or fewer children of one kind.
    pub const SCALED: &str = "Scaled";
    /// Children that were edited by hand were put back.
    pub const DRIFT_CORRECTED: &str = "DriftCorrected";
    /// Fields of children were taken over from other appliers.
    pub const TAKEN_OVER: &str = "TakenOver";
    /// Objects that existed already became children.
    pub const ADOPTED: &str = "Adopted";
    /// Children were deleted, to be made anew.
    pub const REPLACING: &str = "Replacing";
    /// Children that are no longer wanted were deleted.
    pub const DELETED: &str = "Deleted";
    /// Several of these at once.
    pub const RECONCILED: &str = "Reconciled";
    /// What failed before succeeded.
    pub const RECOVERED: &str = "Recovered";
    /// The parent is no longer suspended.
    pub const RESUMED: &str = "Resumed";
    /// The plugin has cleaned up, and its finalizer was removed.
    pub const FINALIZED: &str = "Finalized";
    /// The finalizer was removed without the plugin's word, as a person asked.
    pub const FINALIZER_SKIPPED: &str = "FinalizerSkipped";
    /// The finalizer was removed before the plugin had cleaned up, because the parent's namespace is being deleted.
    pub const FINALIZER_ABANDONED: &str = "FinalizerAbandoned";
    /// The plugin gave an event whose reason is no CamelCase word.
    pub const PLUGIN_EVENT: &str = "PluginEvent";
}

/// Actions of the events on a parent: what was done when it came to them.
pub mod event_action {
    /// The parent was reconciled.
    pub const RECONCILE: &str = "Reconcile";
    /// The parent was cleaned up after.
    pub const FINALIZE: &str = "Finalize";
}
