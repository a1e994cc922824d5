//! Computes a Plugin's conditions `Ready`, `Available`, `Reconciling` and `Stalled` from what the host found.
//!
//! `kubectl wait`, Flux and Argo CD read `Ready`: the component that the spec asks for is live and works. After a
//! rejected update, the Plugin is not Ready, but Available while the earlier component runs.

use crate::object::reason::PluginReason;

/// The message while no component is live, and nothing prevents it.
const NOT_LIVE: &str = "No component is live yet";

/// What the host found about a Plugin.
#[derive(Debug, Clone, Copy)]
pub struct Found<'a> {
    /// Digest of the live component, if there is one.
    pub live: Option<&'a str>,
    /// Whether the caches of the live component's watches are up to date. While they are not, the host decides
    /// nothing, and `obstacle` says why.
    pub caches_are_current: bool,
    /// Whether the Plugin sets `spec.suspend`.
    pub is_suspended: bool,
    /// The first problem that prevents the desired component from being live or from working.
    pub obstacle: Option<Obstacle<'a>>,
    /// Number of parents that have not been reconciled with the live component yet.
    pub unreconciled: usize,
}

/// A problem that prevents a Plugin from being Ready.
#[derive(Debug, Clone, Copy)]
pub struct Obstacle<'a> {
    /// The reason.
    pub reason: PluginReason,
    /// The message for users.
    pub message: &'a str,
    /// The rejected component, if the problem is a rejection.
    pub rejected: Option<&'a str>,
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Whether its status is True.
    pub is_true: bool,
    /// Its reason.
    pub reason: PluginReason,
    /// Its message.
    pub message: String,
}

/// The conditions that summarize a Plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readiness {
    /// The component that the spec asks for is live and works.
    pub ready: Condition,
    /// A component is live, and its caches are up to date.
    pub available: Condition,
    /// The host is working towards the spec (kstatus). Present only while true.
    pub reconciling: Option<Condition>,
    /// The host makes no progress until the Plugin or its component changes (kstatus). Present only while true.
    pub stalled: Option<Condition>,
}

fn condition(is_true: bool, reason: PluginReason, message: impl Into<String>) -> Condition {
    Condition { is_true, reason, message: message.into() }
}

/// Computes the conditions.
pub fn readiness(found: Found<'_>) -> Readiness {
    let ready = ready(found);
    let same = || Some(Condition { is_true: true, ..ready.clone() });
    let (mut reconciling, mut stalled) = (None, None);
    match (ready.is_true, found.unreconciled) {
        (true, 0) => {}
        (true, _) if found.is_suspended => {}
        (true, unreconciled) => {
            let noun = if unreconciled == 1 { "parent has" } else { "parents have" };
            let message = format!("{unreconciled} {noun} not been reconciled with the new component yet");
            reconciling = Some(condition(true, PluginReason::Progressing, message));
        }
        (false, _) if ready.reason.is_transient() => reconciling = same(),
        (false, _) => stalled = same(),
    }
    Readiness { available: available(found), reconciling, stalled, ready }
}

fn ready(found: Found<'_>) -> Condition {
    match (found.live, found.obstacle) {
        (None, None) => condition(false, PluginReason::Progressing, NOT_LIVE),
        (Some(live), None) if found.is_suspended => condition(
            true,
            PluginReason::Suspended,
            format!("{live} is live, but spec.suspend keeps it from reconciling"),
        ),
        (Some(live), None) => condition(true, PluginReason::Succeeded, format!("{live} is live")),
        (live, Some(Obstacle { reason, message, rejected })) => {
            let rejected = rejected.filter(|rejected| live != Some(*rejected));
            let mut text = match rejected {
                Some(rejected) if !reason.is_transient() => format!("component {rejected} rejected: {message}"),
                _ => message.to_owned(),
            };
            if let Some(live) = live.filter(|_| found.caches_are_current) {
                let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
                text = format!("{text}{end} Still running {live}");
            }
            condition(false, reason, text)
        }
    }
}

fn available(found: Found<'_>) -> Condition {
    match (found.live, found.obstacle) {
        (Some(live), _) if found.caches_are_current => {
            condition(true, PluginReason::Succeeded, format!("{live} is live"))
        }
        // Nothing is live, or the caches are outdated, so the host decides nothing from them.
        (_, Some(Obstacle { reason, message, .. })) => condition(false, reason, message),
        (_, None) => condition(false, PluginReason::Progressing, NOT_LIVE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "sha256:9f00";
    const NEW: &str = "sha256:ab12";

    fn found<'a>(live: Option<&'a str>, obstacle: Option<Obstacle<'a>>) -> Found<'a> {
        Found { live, caches_are_current: true, is_suspended: false, obstacle, unreconciled: 0 }
    }

    fn obstacle(reason: PluginReason, rejected: Option<&'static str>) -> Obstacle<'static> {
        Obstacle { reason, message: "unsupported contract 0.3.0 (host supports 0.1)", rejected }
    }

    #[test]
    fn rejected_update_is_available_but_stalled_and_names_the_component_that_still_runs() {
        let result = readiness(found(Some(OLD), Some(obstacle(PluginReason::UnsupportedContract, Some(NEW)))));
        assert!(!result.ready.is_true && result.available.is_true, "{result:?}");
        assert_eq!(result.ready.reason, PluginReason::UnsupportedContract);
        assert_eq!(
            result.ready.message,
            "component sha256:ab12 rejected: unsupported contract 0.3.0 (host supports 0.1). Still running sha256:9f00"
        );
        let stalled = result.stalled.expect("stalled");
        assert_eq!((stalled.reason, &stalled.message), (result.ready.reason, &result.ready.message));
        assert_eq!(result.reconciling, None);
    }

    #[test]
    fn transient_obstacle_is_reconciling_and_a_lasting_one_is_stalled() {
        for transient in [
            PluginReason::ApiError,
            PluginReason::WatchStalled,
            PluginReason::Forbidden,
            PluginReason::SourceNotFound,
            PluginReason::PartsIncomplete,
            PluginReason::CompileInterrupted,
            PluginReason::InvalidPullSecret,
            PluginReason::MarkKeyUnavailable,
        ] {
            let result = readiness(found(None, Some(obstacle(transient, Some(NEW)))));
            assert!(!result.ready.is_true && !result.available.is_true && result.stalled.is_none(), "{result:?}");
            assert_eq!(result.reconciling.expect("reconciling").reason, transient);
            assert!(!result.ready.message.contains("rejected"), "{:?}", result.ready);
        }
        for lasting in [
            PluginReason::NotGranted,
            PluginReason::Quarantined,
            PluginReason::DeletionBlocked,
            PluginReason::RolledBack,
        ] {
            let result = readiness(found(Some(NEW), Some(obstacle(lasting, Some(NEW)))));
            assert_eq!(result.stalled.expect("stalled").reason, lasting);
            assert!(!result.ready.message.contains("rejected"), "it is live: {:?}", result.ready);
        }
    }

    #[test]
    fn a_live_component_without_obstacles_is_ready_and_neither_reconciling_nor_stalled() {
        let result = readiness(found(Some(NEW), None));
        assert!(result.ready.is_true && result.available.is_true, "{result:?}");
        assert_eq!((result.reconciling, result.stalled), (None, None));
    }

    #[test]
    fn ready_plugin_is_reconciling_until_every_parent_was_reconciled_with_its_component() {
        let result = readiness(Found { unreconciled: 3, ..found(Some(NEW), None) });
        assert!(result.ready.is_true, "{result:?}");
        let reconciling = result.reconciling.expect("reconciling");
        assert_eq!(reconciling.reason, PluginReason::Progressing);
        assert!(reconciling.message.starts_with("3 parents have not"), "{reconciling:?}");
        let suspended = readiness(Found { unreconciled: 3, is_suspended: true, ..found(Some(NEW), None) });
        assert_eq!((suspended.ready.reason, suspended.reconciling), (PluginReason::Suspended, None));
    }

    #[test]
    fn a_live_component_whose_watches_are_refused_is_neither_ready_nor_available() {
        let refused = Some(obstacle(PluginReason::Forbidden, None));
        let result = readiness(Found { caches_are_current: false, ..found(Some(NEW), refused) });
        assert_eq!((result.ready.is_true, result.available.is_true), (false, false));
        assert_eq!(result.available.reason, PluginReason::Forbidden);
    }

    #[test]
    fn plugin_without_a_live_component_or_an_obstacle_is_reconciling() {
        let result = readiness(found(None, None));
        assert_eq!((result.ready.reason, result.ready.is_true), (PluginReason::Progressing, false));
        assert!(result.reconciling.is_some() && result.stalled.is_none());
    }
}
