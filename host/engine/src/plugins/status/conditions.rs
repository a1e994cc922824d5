//! The conditions of a Plugin: one for each step, and those of the Plugin as a whole.

use windlass_core::guard::budget::Cost;
use windlass_core::object::conditions::condition;
use windlass_core::object::names::{ANNOTATION_ROLLBACK, plugin_condition as condition_type};
use windlass_core::object::reason::PluginReason;
use windlass_core::plugin::readiness::{Found, Obstacle, Readiness, readiness};
use windlass_core::reconcile::outcome::bounded;
use windlass_core::reconcile::shared::component_state::Decisions;
use windlass_core::value::ids::Gvk;
use windlass_core::value::json::Map;

use super::super::findings::Findings;
use super::super::former_kinds::FormerKinds;
use super::super::problem::{Problem, Step};
use super::Standing;
use crate::clock;
use crate::live::Live;
use crate::telemetry::one_line;

/// All conditions of a Plugin.
pub(super) fn conditions(
    generation: Option<i64>,
    wants_signatures: bool,
    unreconciled: usize,
    standing: Standing<'_>,
) -> Vec<Map> {
    let Standing { live, decisions, former_kinds, result, .. } = standing;
    // Components control parts of some messages, and a status that is too large could not be written.
    let write = |kind: &str, status: &str, reason: PluginReason, message: &str| {
        condition(kind, status, reason.as_str(), &bounded(one_line(message).into_owned()), generation)
    };
    let granted = result.as_ref().map(|findings| granted(findings, live, former_kinds));
    let is_refused = result.as_ref().is_err_and(|problem| problem.step == Step::Verified);
    let steps = STEPS
        .into_iter()
        // `Verified` is omitted if signatures are not checked.
        .filter(|(step, _)| *step != Step::Verified || wants_signatures || is_refused)
        .map(|(step, kind)| {
            let (status, reason, message) = step_condition(step, result, &granted);
            write(kind, status, reason, &message)
        });
    let whole = as_a_whole(unreconciled, live.zip(decisions), result, &granted);
    let whole = [
        (condition_type::READY, Some(whole.ready)),
        (condition_type::AVAILABLE, Some(whole.available)),
        (condition_type::RECONCILING, whole.reconciling),
        (condition_type::STALLED, whole.stalled),
    ];
    let whole = whole.into_iter().filter_map(|(kind, found)| {
        let found = found?;
        Some(write(kind, if found.is_true { "True" } else { "False" }, found.reason, &found.message))
    });
    steps.chain(whole).collect()
}

/// The message of the condition `Granted` for a live component, or the reason and message of the missing grants.
type Granted = Result<String, (PluginReason, String)>;

const STEPS: [(Step, &str); 5] = [
    (Step::Fetched, condition_type::FETCHED),
    (Step::Verified, condition_type::VERIFIED),
    (Step::Compiled, condition_type::COMPILED),
    (Step::Granted, condition_type::GRANTED),
    (Step::Synced, condition_type::SYNCED),
];

/// Status, reason and message of one step's condition.
fn step_condition(
    step: Step,
    result: &Result<Findings, Problem>,
    granted: &Result<Granted, &Problem>,
) -> (&'static str, PluginReason, String) {
    let succeeded = |message: String| ("True", PluginReason::Succeeded, message);
    match (result, granted) {
        (Ok(_), Ok(Ok(message))) if step == Step::Granted => succeeded(message.clone()),
        (Ok(_), Ok(Err((reason, message)))) if step == Step::Granted => ("False", *reason, message.clone()),
        (Ok(Findings { file: Some(file), .. }), _) if step == Step::Fetched => {
            succeeded(format!("From {} and not from spec.source, by --plugins of the host", file.display()))
        }
        (Ok(Findings { stalled: Some(stalled), .. }), _) if step == Step::Synced => {
            ("False", PluginReason::WatchStalled, stalled.clone())
        }
        (Ok(findings), _) if step == Step::Compiled => succeeded(unsupported(findings)),
        (Ok(_), _) => succeeded(String::new()),
        (Err(problem), _) if step < problem.step => succeeded(String::new()),
        (Err(problem), _) if step == problem.step => ("False", problem.reason, problem.message.clone()),
        (Err(_), _) => ("Unknown", PluginReason::Blocked, "A step before this one failed".to_owned()),
    }
}

/// The conditions of the Plugin as a whole.
fn as_a_whole(
    unreconciled: usize,
    of_live: Option<(&Live, &Decisions)>,
    result: &Result<Findings, Problem>,
    granted: &Result<Granted, &Problem>,
) -> Readiness {
    let live = of_live.map(|(live, _)| live);
    let (obstacle, rejected) = match (result, granted) {
        (Err(problem), _) => {
            let rejected = problem.candidate.map(|candidate| candidate.to_string());
            (Some((problem.reason, problem.message.clone())), rejected)
        }
        (Ok(findings), granted) => {
            let withheld = || granted.as_ref().ok()?.as_ref().err().cloned();
            let rolled_back = || live.and(rolled_back(findings));
            let stalled = || findings.stalled.clone().map(|message| (PluginReason::WatchStalled, message));
            // Obstacles that stop all work come before obstacles that stop some of it.
            (
                of_live
                    .and_then(|(live, decisions)| obstacle(live, decisions))
                    .or_else(stalled)
                    .or_else(withheld)
                    .or_else(rolled_back),
                None,
            )
        }
    };
    let digest = live.map(|live| live.digest().to_string());
    readiness(Found {
        live: digest.as_deref(),
        caches_are_current: live.is_some_and(|live| live.caches.is_followed()),
        is_suspended: live.is_some_and(|live| live.terms.settings.suspended),
        obstacle: obstacle.as_ref().map(|(reason, message)| Obstacle {
            reason: *reason,
            message,
            rejected: rejected.as_deref(),
        }),
        unreconciled,
    })
}

/// The obstacle that keeps a live component from working.
fn obstacle(live: &Live, decisions: &Decisions) -> Option<(PluginReason, String)> {
    if !live.caches.is_followed() {
        return Some((PluginReason::ApiError, "a kind of the plugin cannot be watched".to_owned()));
    }
    if let Some(blocked) = &decisions.blocked {
        return Some((PluginReason::DeletionBlocked, blocked.message_for_plugin(&live.terms.name)));
    }
    if let Some(cost) = live.shared.budget.lock().empty(clock::date()) {
        return Some((PluginReason::RateLimited, over_rate(cost)));
    }
    if live.shared.state.is_quarantined() {
        let message = format!(
            "calls of {} failed too often in a row, for several parents: it is called only now and then. The conditions of \
             the failing parents name the failures",
            live.digest()
        );
        return Some((PluginReason::Quarantined, message));
    }
    None
}

fn over_rate(cost: Cost) -> String {
    let (what, example) = match cost {
        Cost::Write => ("writes of children", "wants children of other names"),
        Cost::Review => ("access reviews", "requires other objects"),
    };
    format!(
        "the component wants more {what} than a plugin's rate allows (docs/limits.md), so its parents wait. A component that \
         {example} at each call does that; mend it, or go back to the one before with {ANNOTATION_ROLLBACK}"
    )
}

/// The reason and message of a rollback, if the live component is the result of one.
fn rolled_back(findings: &Findings) -> Option<(PluginReason, String)> {
    let from = findings.rolled_back_from.filter(|_| findings.rolled_back)?;
    let message = format!("rolled back from {from} by {ANNOTATION_ROLLBACK}; remove the annotation to go on");
    Some((PluginReason::RolledBack, message))
}

fn unsupported(findings: &Findings) -> String {
    match &*findings.unsupported {
        [] => String::new(),
        imports => format!("Unsupported imports; calling one traps: {}", imports.join(", ")),
    }
}

/// The message about the grants, or the reason and message of the missing grants.
fn granted(findings: &Findings, live: Option<&Live>, former_kinds: &FormerKinds) -> Granted {
    let left = former_kinds.message();
    let withheld = |reason: PluginReason, message: String| {
        let messages: Vec<_> = std::iter::once(message).chain(left.clone()).collect();
        Err((reason, messages.join(". ")))
    };
    let (mut messages, mut missing) = (Vec::new(), Vec::new());
    for (of, what, rejected) in [
        (
            &findings.not_granted,
            "asks for",
            "which spec.grants.children does not grant; responses with such children are rejected",
        ),
        (
            &findings.not_readable,
            "asks to read",
            "which is cluster-scoped and which spec.grants.related does not name; responses that require such objects are refused",
        ),
    ] {
        if !of.kinds.is_empty() {
            let message = format!("The component {what} {}, {rejected}", of.kinds.join(", "));
            // A list without the kind is the choice of a user, who expects the Plugin to be Ready with it.
            if of.is_chosen { &mut messages } else { &mut missing }.push(message);
        }
    }
    if !missing.is_empty() {
        return withheld(PluginReason::NotGranted, missing.join(". "));
    }
    if let Some(lacking) = &findings.lacking {
        return withheld(PluginReason::Forbidden, lacking.to_string());
    }
    if let Some(left) = left {
        messages.insert(0, left);
        return Err((PluginReason::ChildrenLeft, messages.join(". ")));
    }
    if !findings.conditions_kept {
        messages.push(
            "The parent kind's schema prunes status.conditions or status.observedGeneration, so they are not written"
                .to_owned(),
        );
    }
    if let Some(live) = live.filter(|live| live.shared.state.gave_unwritten_status()) {
        messages.push(unwritten_status(&live.terms.parents, live.terms.owns_kind));
    }
    if !findings.capped.is_empty() {
        let capped: Vec<_> = findings.capped.iter().map(ToString::to_string).collect();
        messages.push(format!("The host caps spec.limits: {}", capped.join(", ")));
    }
    Ok(messages.join(". "))
}

/// The message about a status that the component returns and the host does not write.
fn unwritten_status(kind: &Gvk, owns_kind: bool) -> String {
    let why = if owns_kind {
        "its CustomResourceDefinition has no status subresource"
    } else {
        "the kind is not the plugin's own"
    };
    format!("The component gives a status to {kind}, which is not written: {why}")
}

#[cfg(test)]
mod tests {
    use windlass_core::contract::Limits;
    use windlass_core::value::json::Value;

    use super::super::super::findings::Withheld;
    use super::super::tests::without_component;
    use super::*;
    use crate::plugins::caps;

    fn findings() -> Findings {
        Findings {
            not_granted: Withheld::default(),
            not_readable: Withheld::default(),
            unsupported: Vec::new(),
            lacking: None,
            stalled: None,
            rolled_back_from: None,
            rolled_back: false,
            file: None,
            capped: Vec::new(),
            conditions_kept: true,
        }
    }

    /// Status, reason and message of the condition `Granted`.
    fn granted_of(findings: Findings) -> [String; 3] {
        let result = Ok(findings);
        let all = conditions(Some(1), false, 0, without_component(&result));
        let granted = all.iter().find(|one| one.get("type").and_then(Value::as_str) == Some("Granted"));
        let granted = granted.expect("the condition");
        ["status", "reason", "message"]
            .map(|field| granted.get(field).and_then(Value::as_str).unwrap_or_default().to_owned())
    }

    #[test]
    fn kind_that_a_users_list_leaves_out_keeps_granted_true_and_a_kind_that_nobody_listed_does_not() {
        let of = |is_chosen| Withheld { kinds: vec!["RoleBinding.v1.rbac.authorization.k8s.io".to_owned()], is_chosen };
        for is_chosen in [true, false] {
            for found in [
                Findings { not_granted: of(is_chosen), ..findings() },
                Findings { not_readable: of(is_chosen), ..findings() },
            ] {
                let [status, reason, message] = granted_of(found);
                let expected = if is_chosen { ("True", "Succeeded") } else { ("False", "NotGranted") };
                assert_eq!((&*status, &*reason), expected, "{message}");
                assert!(message.contains("RoleBinding.v1.rbac.authorization.k8s.io, which"), "{message}");
            }
        }
        let both = Findings { not_granted: of(true), not_readable: of(false), ..findings() };
        assert_eq!(granted_of(both)[1], "NotGranted");
    }

    #[test]
    fn capped_limits_are_reported_by_the_granted_condition() {
        let granted_with = |requested: &Limits, conditions_kept| {
            let (_, capped) = caps::of_flags(&[]).expect("defaults").clamp(requested);
            let [status, _, message] = granted_of(Findings { capped, conditions_kept, ..findings() });
            (status, message)
        };
        let much = Limits { memory: 1 << 30, children: 20_000, ..Limits::default() };
        let capped = "The host caps spec.limits: memory at 256Mi (--max-memory), children at 10000 (--max-children)";
        assert_eq!(granted_with(&much, true), ("True".to_owned(), capped.to_owned()));
        assert!(granted_with(&much, false).1.ends_with(&format!(", so they are not written. {capped}")));
        assert_eq!(granted_with(&Limits::default(), true), ("True".to_owned(), String::new()));
    }

    #[test]
    fn stalled_watch_sets_synced_and_ready_to_false() {
        let stalled = "the host's watch of Pod.v1 has stalled: no progress since 2026-11-23T08:00:00Z: 503";
        let result = Err(Problem::new(Step::Synced, PluginReason::WatchStalled, stalled));
        let standing = without_component(&result);
        let all = conditions(Some(1), false, 0, standing);
        let condition = |kind: &str| {
            let one = all.iter().find(|one| one.get("type").and_then(Value::as_str) == Some(kind)).expect(kind);
            ["status", "reason", "message"].map(|field| one.get(field).and_then(Value::as_str).unwrap_or_default())
        };
        assert_eq!(condition("Granted"), ["True", "Succeeded", ""]);
        assert_eq!(condition("Synced"), ["False", "WatchStalled", stalled]);
        assert_eq!(condition("Ready"), ["False", "WatchStalled", stalled]);
        assert_eq!(condition("Available")[0], "False");
        assert_eq!(condition("Reconciling")[1], "WatchStalled", "the watch recovers by itself");
    }
}
