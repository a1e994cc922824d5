//! The reasons of conditions, as types. Their texts are a stable interface, like the names in [`crate::object::names`];
//! `docs/conditions.md` documents each for users.

use strum::{Display, EnumString, IntoStaticStr, VariantArray};

/// Reasons in a Plugin's conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, IntoStaticStr, VariantArray)]
pub enum PluginReason {
    /// The condition is True, and there is nothing to report.
    Succeeded,
    /// The ConfigMap does not exist, or the registry has no such artifact.
    SourceNotFound,
    /// The host has no permission to read the source.
    SourceForbidden,
    /// The source contains no component, or several forms of one.
    SourceInvalid,
    /// The registry cannot be reached; the host tries again.
    SourceUnavailable,
    /// The pull secret does not provide the registry's credentials.
    InvalidPullSecret,
    /// The public keys cannot be read, or are not valid keys.
    InvalidKeys,
    /// Signatures are required, and the component has none.
    NotSigned,
    /// None of the component's signatures is by one of the trusted keys.
    SignatureInvalid,
    /// Parts of a component are missing or belong to another component; none is loaded.
    PartsIncomplete,
    /// The bytes do not have the pinned digest, or not the digest by which the registry names them.
    DigestMismatch,
    /// The bytes are not a WebAssembly component.
    NotAComponent,
    /// The component exports no contract version that the host supports.
    UnsupportedContract,
    /// The compiler rejected the component.
    CompileFailed,
    /// Compiling the component did not finish, or its result could not be stored. The host tries again.
    CompileInterrupted,
    /// `describe` failed or returned an invalid descriptor.
    InvalidDescriptor,
    /// The parent kind does not exist (and its CRD is not to be installed), is not served, or its storage version is
    /// not the one for which the component is written: the kind that the component needs is missing.
    ParentKindMissing,
    /// A child kind or related kind does not exist in this cluster.
    ChildKindMissing,
    /// The host or the Plugin's ServiceAccount lacks a permission that the plugin needs.
    Forbidden,
    /// The plugin asks for a kind that the Plugin does not grant, or that can never be granted.
    NotGranted,
    /// Children of kinds that the plugin may no longer own still exist. The host leaves them alone.
    ChildrenLeft,
    /// Another Plugin reconciles this parent kind already.
    ParentKindTaken,
    /// The component reconciles another kind than the Plugin's existing parents.
    ParentKindChanged,
    /// The API server rejected the CRD or did not establish it, or the CRD would be replaced by an older version.
    #[strum(serialize = "CRDRejected")]
    CrdRejected,
    /// The Plugin's spec is invalid.
    InvalidSpec,
    /// A condition of an earlier step is False, so this step was not tried.
    Blocked,
    /// The API server cannot be reached, or responded with an error.
    #[strum(serialize = "APIError")]
    ApiError,
    /// The plugin caused more writes or access reviews than its rate limit allows; further ones are delayed.
    RateLimited,
    /// The host's watch of a kind makes no progress, so its cache may be outdated.
    WatchStalled,
    /// The parents are cluster-scoped, and the key for their children's marks is not available.
    MarkKeyUnavailable,
    /// The Plugin is suspended, so none of its parents is reconciled. Suspending does not change the status of `Ready`.
    /// If `Ready` is True, this is its reason.
    Suspended,
    /// Too many calls of the component failed in a row, for several parents: calls are reduced to single probes.
    Quarantined,
    /// So many children would be deleted, by a new component or because a namespace is no longer selected, that
    /// deletions are blocked until a user allows them.
    DeletionBlocked,
    /// A user rolled back to the previous component (`windlass.dev/rollback`).
    RolledBack,
    /// There is no previous component, or it is no longer among the compiled components.
    NothingToRollBackTo,
    /// Work is in progress.
    Progressing,
    /// The Plugin is being deleted, and something prevents the removal of its finalizers or children.
    Terminating,
}

/// Reasons in a parent's conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, IntoStaticStr, VariantArray)]
pub enum ParentReason {
    /// In `Ready`: the Plugin no longer selects the object, by its labels or its namespace's labels. In `Stalled`: the
    /// deletions that follow from that are blocked.
    NotSelected,
    /// The object is in the host's own namespace, where plugins reconcile nothing.
    HostNamespace,
    /// The desired state is applied.
    Succeeded,
    /// The plugin reports the spec as invalid; it is called again when the parent changes, or with backoff while it is deleted.
    InvalidSpec,
    /// The plugin asks to be called again later.
    Waiting,
    /// The plugin reports a failure.
    PluginFailed,
    /// The plugin's call, or the selection of the objects that it requires, exceeded the deadline.
    DeadlineExceeded,
    /// The plugin exceeded its memory limit.
    MemoryLimit,
    /// The plugin trapped.
    Trapped,
    /// A request, a response, the component or the requirements of all parents exceed a limit; or children are omitted
    /// from the request, because it would be too large with them.
    LimitExceeded,
    /// The response is not valid JSON, or contains an object that is not a Kubernetes object.
    MalformedResponse,
    /// The response contains something that the plugin is not allowed to return.
    ResponseRejected,
    /// The host could not run the plugin.
    HostError,
    /// A child's name belongs to an object that is not this parent's child.
    Conflict,
    /// Another field manager owns a field of a child.
    FieldConflict,
    /// The API server rejected a child.
    ChildRejected,
    /// The API server rejected the plugin's part of the status.
    StatusRejected,
    /// The API server could not be reached, or asked the host to retry later.
    #[strum(serialize = "APIError")]
    ApiError,
    /// A child or the parent changed while it was written; the host tries again after about a second.
    Outdated,
    /// The host's watches have not shown its own last writes, so no child is written.
    CacheBehind,
    /// Children to be recreated are still being deleted.
    ChildrenTerminating,
    /// Changed children must be ready before the next ones change (`rolling`).
    RollingUpdate,
    /// Children are not ready yet; others may wait for them.
    WaitingForReady,
    /// A child has failed, and does not become ready by itself.
    ChildFailed,
    /// Deletions that no user asked for are blocked until a user allows them.
    DeletionBlocked,
    /// Used only in `Stalled`, while deletions of many parents are blocked at the Plugin.
    BlockedAtPlugin,
    /// Used only in `Stalled`, while deletions are blocked at the parent: they were planned although the spec did not
    /// change.
    SpecUnchanged,
    /// Used only in `Stalled`, while deletions are blocked at the parent: a rollout caused them (a change of the
    /// component, its config, its grants, its limits or its selectors).
    ComponentChanged,
    /// An object was written too often; it is written once a minute until the writes cease.
    Thrashing,
    /// Too many calls of the plugin failed in a row, for this parent or for several parents: calls are reduced to
    /// single probes.
    Quarantined,
    /// The parent or its Plugin is suspended: no child is written.
    Suspended,
    /// A child cannot be created, because its namespace is being deleted.
    NamespaceTerminating,
    /// The parent is being deleted, and the plugin has not finished its cleanup.
    Finalizing,
    /// The plugin's finalizer is removed from a parent that is being deleted, and other finalizers keep it.
    FinalizerRemoved,
    /// The plugin requires objects that it was not granted, or that its ServiceAccount has no permission to read.
    ReadForbidden,
    /// The plugin caused more writes or access reviews than its rate limit allows; the parent waits.
    RateLimited,
    /// The plugin's requirements still changed in the fifth call of one reconcile.
    RequirementsUnsettled,
}

impl PluginReason {
    /// All reasons; a test compares them with `docs/conditions.md`.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The text in the condition.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns true if a Plugin with this problem is `Reconciling`, not `Stalled`: the host repeats the failed step by
    /// itself, because what is missing (a ConfigMap, a CRD, a permission, a response of the API server) may appear
    /// without a change of the Plugin or its component.
    pub fn is_transient(self) -> bool {
        match self {
            Self::Progressing
            | Self::ApiError
            | Self::WatchStalled
            | Self::RateLimited
            | Self::Forbidden
            | Self::SourceNotFound
            | Self::SourceForbidden
            | Self::SourceUnavailable
            | Self::InvalidPullSecret
            | Self::PartsIncomplete
            | Self::CompileInterrupted
            | Self::MarkKeyUnavailable
            | Self::ParentKindMissing
            | Self::ChildKindMissing
            | Self::Terminating => true,
            Self::Succeeded
            | Self::SourceInvalid
            | Self::InvalidKeys
            | Self::NotSigned
            | Self::SignatureInvalid
            | Self::DigestMismatch
            | Self::NotAComponent
            | Self::UnsupportedContract
            | Self::CompileFailed
            | Self::InvalidDescriptor
            | Self::NotGranted
            | Self::ChildrenLeft
            | Self::ParentKindTaken
            | Self::ParentKindChanged
            | Self::CrdRejected
            | Self::InvalidSpec
            | Self::Blocked
            | Self::Suspended
            | Self::Quarantined
            | Self::DeletionBlocked
            | Self::RolledBack
            | Self::NothingToRollBackTo => false,
        }
    }
}

impl ParentReason {
    /// All reasons; a test compares them with `docs/conditions.md`.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The text in the condition.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_is_parsed_from_its_text_and_an_unknown_text_is_rejected() {
        for reason in [ParentReason::ApiError, ParentReason::Succeeded, ParentReason::ComponentChanged] {
            assert_eq!(reason.as_str().parse(), Ok(reason));
        }
        assert_eq!((ParentReason::ApiError.as_str(), PluginReason::CrdRejected.as_str()), ("APIError", "CRDRejected"));
        assert!("Reported".parse::<ParentReason>().is_err() && "apierror".parse::<PluginReason>().is_err());
    }
}
