//! Waits for the caches of a plugin's kinds, and describes the problems of their watches.

use std::time::Duration;

use windlass_core::object::reason::PluginReason;
use windlass_core::value::ids::Gvk;

use super::problem::{Problem, Step};
use crate::cluster::watch::{Health, Stalled, Watch, WatchId};

/// How long a reconcile of a Plugin waits for the caches of its kinds. When a larger cache is filled later, the watch
/// reports it.
const SYNC_TIMEOUT: Duration = Duration::from_secs(30);

/// Waits until a cache is filled: before that, existing children would seem to be missing. `is_parent`: the watch is of
/// the parent kind.
pub(super) async fn synced(watch: &Watch, is_parent: bool) -> Result<(), Problem> {
    let synced = watch.synced(SYNC_TIMEOUT).await;
    match (synced, watch.stalled()) {
        (Ok(()) | Err(Health::Starting | Health::Synced), Some(stalled)) => {
            let message = format!("{}. {WHILE_STALLED}", message_about(&watch.id.kind, &stalled));
            Err(Problem::new(Step::Synced, PluginReason::WatchStalled, message))
        }
        (Ok(()), None) => Ok(()),
        (Err(health), _) => Err(unsynced(&watch.id, &health, is_parent)),
    }
}

/// Advice for a stalled watch of the plugin's own kinds.
const WHILE_STALLED: &str = "Until it makes progress, no parent of this Plugin is reconciled: what the host knows of the \
                             kind may be out of date. Check the API server and the network between it and the host; for a \
                             custom kind also its conversion webhook";

/// The message about a stalled watch.
pub(super) fn message_about(kind: &Gvk, stalled: &Stalled) -> String {
    format!("the host's watch of {kind} has stalled: {stalled}")
}

fn unsynced(watch: &WatchId, health: &Health, is_parent: bool) -> Problem {
    let WatchId { kind, labels, .. } = watch;
    let (reason, message) = match health {
        Health::Refused { code: 404, message } => {
            let reason = if is_parent { PluginReason::ParentKindMissing } else { PluginReason::ChildKindMissing };
            (reason, format!("{kind} cannot be watched: {message}"))
        }
        Health::Refused { code: 400, message } => {
            let selector = labels.as_deref().unwrap_or_default();
            let message = format!("{kind} with the selector {selector:?} cannot be watched: {message}");
            (PluginReason::InvalidDescriptor, message)
        }
        Health::Refused { message, .. } => (
            PluginReason::Forbidden,
            format!(
                "the host may not watch {kind}: {message}. Grant it with an aggregated ClusterRole, as `windlass push \
                 --create-rbac` writes it"
            ),
        ),
        Health::Starting | Health::Synced => (
            PluginReason::ApiError,
            format!(
                "the cache of {kind} was not filled within {} s; the host continues to fill it",
                SYNC_TIMEOUT.as_secs()
            ),
        ),
    };
    let step = if matches!(health, Health::Refused { .. }) { Step::Granted } else { Step::Synced };
    Problem::new(step, reason, message)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use windlass_core::reconcile::outcome::Requeue;

    use super::*;

    #[test]
    fn cache_that_is_not_filled_in_time_is_not_reported_as_a_missing_permission() {
        let watch = WatchId::of_kind(Arc::new(Gvk::from_api_version("v1", "Pod")));
        let problem = unsynced(&watch, &Health::Starting, false);
        assert_eq!((problem.step, problem.reason), (Step::Synced, PluginReason::ApiError));
    }

    #[test]
    fn dynamic_rejected_watch_names_what_the_user_must_change() {
        let watch = WatchId {
            labels: Some("a==b==c".to_owned()),
            ..WatchId::of_kind(Arc::new(Gvk::from_api_version("v1", "Pod")))
        };
        let problem_for = |code, is_parent| {
            unsynced(&watch, &Health::Refused { code, message: "message of the API server".to_owned() }, is_parent)
        };
        for (code, is_parent, reason, message) in [
            (404, true, "ParentKindMissing", "Pod.v1 cannot be watched"),
            (404, false, "ChildKindMissing", "Pod.v1 cannot be watched"),
            (403, true, "Forbidden", "--create-rbac"),
            (400, true, "InvalidDescriptor", "a==b==c"),
        ] {
            let problem = problem_for(code, is_parent);
            assert_eq!((problem.reason.as_str(), problem.step), (reason, Step::Granted));
            assert!(problem.message.contains(message) && problem.message.contains("message of the API server"));
            assert_eq!(problem.requeue, Requeue::Backoff(Duration::ZERO), "the watch is retried");
        }
    }
}
