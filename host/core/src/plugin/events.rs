//! Turns changes of a Plugin's status into events on the Plugin.

use crate::contract::EventType;
use crate::object::conditions::condition_of;
use crate::object::names::{plugin_condition as condition, plugin_event_reason as event};
use crate::object::reason::PluginReason;
use crate::reconcile::events::Note;
use crate::value::json::{Map, Value};

/// Returns the events for the difference between two statuses of a Plugin: the earlier status, and the status that was
/// written.
///
/// The activation, rejection or rollback of a component, a quarantine and blocked deletions cause one event each.
/// Problems that the host retries by itself (a missing ConfigMap, an unreachable API server) change a condition and
/// cause no event.
pub fn notes(before: &Map, now: &Map) -> Vec<Note> {
    [activated(before, now), failed(before, now)].into_iter().flatten().collect()
}

/// Returns the event if another component than before is live.
fn activated(before: &Map, now: &Map) -> Option<Note> {
    let active = text(now, "activeDigest")?;
    if text(before, "activeDigest") == Some(active) {
        return None;
    }
    let version = text(now, "version").unwrap_or_default();
    let rolled_back_from = text(now, "rolledBackFrom").filter(|from| text(before, "rolledBackFrom") != Some(from));
    let (reason, message) = if let Some(from) = rolled_back_from {
        let message = format!("Component {active} (version {version}) is live again; rolled back from {from}");
        (event::ROLLED_BACK, message)
    } else {
        (event::ACTIVATED, format!("Component {active} (version {version}) is live"))
    };
    Some(Note::of_host(EventType::Normal, reason, &message))
}

/// Returns the event for a Plugin whose `Ready` became False, or is False with a new reason or message, if a user must
/// act.
fn failed(before: &Map, now: &Map) -> Option<Note> {
    let ready = condition_of(now, condition::READY).filter(|ready| text(ready, "status") == Some("False"))?;
    let (why, message) = (text(ready, "reason")?, text(ready, "message").unwrap_or_default());
    let was = condition_of(before, condition::READY);
    let is_reported = was.is_some_and(|was| {
        text(was, "status") == Some("False")
            && text(was, "reason") == Some(why)
            && text(was, "message") == Some(message)
    });
    if is_reported {
        return None;
    }
    Some(Note::of_host(EventType::Warning, event_of(why.parse().ok()?)?, message))
}

/// The reason of the event for a reason of `Ready=False`; `None` if the reason causes no event.
fn event_of(reason: PluginReason) -> Option<&'static str> {
    match reason {
        PluginReason::Quarantined => Some(event::QUARANTINED),
        PluginReason::DeletionBlocked => Some(event::DELETION_BLOCKED),
        PluginReason::SourceInvalid
        | PluginReason::InvalidKeys
        | PluginReason::NotSigned
        | PluginReason::SignatureInvalid
        | PluginReason::DigestMismatch
        | PluginReason::NotAComponent
        | PluginReason::UnsupportedContract
        | PluginReason::CompileFailed
        | PluginReason::InvalidDescriptor
        | PluginReason::NotGranted
        | PluginReason::ChildrenLeft
        | PluginReason::ParentKindTaken
        | PluginReason::ParentKindChanged
        | PluginReason::CrdRejected
        | PluginReason::InvalidSpec
        | PluginReason::NothingToRollBackTo => Some(event::REJECTED),
        // The event of the rollback itself reports it.
        PluginReason::RolledBack
        // The host tries again by itself.
        | PluginReason::Progressing
        | PluginReason::ApiError
        | PluginReason::WatchStalled
        | PluginReason::RateLimited
        | PluginReason::Forbidden
        | PluginReason::SourceNotFound
        | PluginReason::SourceForbidden
        | PluginReason::SourceUnavailable
        | PluginReason::InvalidPullSecret
        | PluginReason::PartsIncomplete
        | PluginReason::CompileInterrupted
        | PluginReason::MarkKeyUnavailable
        | PluginReason::ParentKindMissing
        | PluginReason::ChildKindMissing
        | PluginReason::Terminating
        // Not reasons of a Plugin that is not Ready.
        | PluginReason::Succeeded
        | PluginReason::Suspended
        | PluginReason::Blocked => None,
    }
}

fn text<'a>(object: &'a Map, field: &str) -> Option<&'a str> {
    object.get(field).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(active: Option<&str>, ready: (&str, &str, &str), others: &[(&str, &str)]) -> Map {
        let mut status = Map::default();
        if let Some(active) = active {
            status.insert("activeDigest", active);
            status.insert("version", "1.2.0");
        }
        for (field, value) in others {
            status.insert(field, *value);
        }
        let (is_true, why, message) = ready;
        let condition = |kind: &str, value: &str| {
            Value::Object(Map::from([
                ("type", kind.into()),
                ("status", value.into()),
                ("reason", why.into()),
                ("message", message.into()),
            ]))
        };
        let conditions = vec![condition("Ready", is_true)];
        status.insert("conditions", Value::Array(conditions));
        status
    }

    fn events(before: &Map, now: &Map) -> Vec<String> {
        notes(before, now)
            .iter()
            .map(|note| format!("{:?} {} {}", note.event_type, note.reason, note.message))
            .collect()
    }

    #[test]
    fn reason_that_a_user_must_act_on_causes_an_event_and_one_that_passes_causes_none() {
        let reported_elsewhere =
            [PluginReason::RolledBack, PluginReason::Succeeded, PluginReason::Suspended, PluginReason::Blocked];
        for reason in PluginReason::ALL.iter().copied().filter(|reason| !reported_elsewhere.contains(reason)) {
            assert_eq!(event_of(reason).is_none(), reason.is_transient(), "{reason:?}");
        }
    }

    #[test]
    fn activation_of_a_component_emits_one_event() {
        let live = |digest| status(Some(digest), ("True", "Succeeded", "live"), &[]);
        assert_eq!(
            events(&Map::default(), &live("sha256:a")),
            ["Normal Activated Component sha256:a (version 1.2.0) is live"]
        );
        assert_eq!(
            events(&live("sha256:a"), &live("sha256:b")),
            ["Normal Activated Component sha256:b (version 1.2.0) is live"]
        );
        assert_eq!(events(&live("sha256:a"), &live("sha256:a")), [""; 0]);
    }

    #[test]
    fn rollback_event_names_the_component_that_was_rolled_back() {
        let before = status(Some("sha256:b"), ("True", "Succeeded", "live"), &[]);
        let now = status(Some("sha256:a"), ("False", "RolledBack", "went back"), &[("rolledBackFrom", "sha256:b")]);
        assert_eq!(
            events(&before, &now),
            ["Normal RolledBack Component sha256:a (version 1.2.0) is live again; rolled back from sha256:b"]
        );
        assert_eq!(events(&now, &now), [""; 0]);
    }

    #[test]
    fn rejection_quarantine_and_blocked_deletions_emit_a_warning_whenever_their_message_changes() {
        let live = status(Some("sha256:a"), ("True", "Succeeded", "live"), &[]);
        for (why, kind) in [
            ("UnsupportedContract", "Rejected"),
            ("CRDRejected", "Rejected"),
            ("Quarantined", "Quarantined"),
            ("DeletionBlocked", "DeletionBlocked"),
        ] {
            let failed = status(Some("sha256:a"), ("False", why, "the reason"), &[]);
            assert_eq!(events(&live, &failed), [format!("Warning {kind} the reason")]);
            assert_eq!(events(&failed, &failed), [""; 0]);
            let other = status(Some("sha256:a"), ("False", why, "another reason"), &[]);
            assert_eq!(events(&failed, &other), [format!("Warning {kind} another reason")]);
        }
    }

    #[test]
    fn problem_that_the_host_retries_by_itself_emits_no_event() {
        let live = status(Some("sha256:a"), ("True", "Succeeded", "live"), &[]);
        for why in ["APIError", "SourceNotFound", "Forbidden", "Progressing"] {
            assert_eq!(events(&live, &status(Some("sha256:a"), ("False", why, "later"), &[])), [""; 0], "{why}");
        }
    }

    #[test]
    fn activation_with_blocked_deletions_emits_two_events() {
        let live = status(Some("sha256:a"), ("True", "Succeeded", "live"), &[]);
        let blocked = status(Some("sha256:b"), ("False", "DeletionBlocked", "6 of 9 children"), &[]);
        assert_eq!(
            events(&live, &blocked),
            ["Normal Activated Component sha256:b (version 1.2.0) is live", "Warning DeletionBlocked 6 of 9 children"]
        );
    }
}
