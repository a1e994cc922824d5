//! Computes a parent's next status from the plugin's part and the host's conditions (rule R12).

use jiff::Timestamp;

use crate::object::Object;
use crate::object::conditions::{condition, conditions_of, is_true, stamp, type_of};
use crate::object::names::parent_condition;
use crate::object::observed_status::{StatusShape, observed};
use crate::object::reason::ParentReason;
use crate::reconcile::outcome::{Outcome, Progress};
use crate::value::json::{Map, Value};

/// Returns the status to write; `None` if the present status has all of its fields and the host owns no others, or if
/// the host does not write the status of this kind.
///
/// `part` is the plugin's part of the status; if it is `None`, the plugin's fields of the present status stay. `now`
/// becomes the `lastTransitionTime` of conditions whose status changes.
pub fn next(parent: &Object, part: Option<&Map>, outcome: &Outcome, shape: StatusShape, now: Timestamp) -> Option<Map> {
    if !shape.subresource {
        return None;
    }
    let observed = observed(parent);
    let base = part.unwrap_or(&observed);
    let mut next = base.without(&["observedGeneration", "conditions"]);
    if shape.observed_generation {
        let generation = if outcome.is_of_this_generation() {
            parent.generation.map(Value::from)
        } else {
            observed.get("observedGeneration").cloned()
        };
        if let Some(generation) = generation {
            next.insert("observedGeneration", generation);
        }
    }
    if shape.conditions {
        let conditions = || merge(base, part.is_some(), outcome, parent.generation);
        next.insert("conditions", stamp(conditions(), &observed, now));
        let is_over = outcome.blocked.is_none() && is_true(&observed, parent_condition::DELETIONS_BLOCKED);
        if is_over && !parent.managed.owns_status_field_outside(&next) {
            // The next write does not remove the condition: the list is atomic, or another manager owns the item.
            let (kind, reason) = (parent_condition::DELETIONS_BLOCKED, ParentReason::Succeeded.as_str());
            let over = condition(kind, "False", reason, NO_LONGER_BLOCKED, parent.generation);
            next.insert("conditions", stamp([conditions(), vec![over]].concat(), &observed, now));
        }
    }
    (!shows(&observed, &next) || parent.managed.owns_status_field_outside(&next)).then_some(next)
}

/// Returns true if the observed status has all fields of the next status. Additional fields of other managers cause no
/// write.
fn shows(observed: &Map, next: &Map) -> bool {
    next.iter().all(|(key, value)| match key {
        "conditions" => conditions_of(next).all(|wanted| conditions_of(observed).any(|found| found == wanted)),
        _ => observed.get(key).is_some_and(|found| found.holds(value)),
    })
}

/// Message of the condition of the same name.
const DELETIONS_BLOCKED: &str = "Deletions of children stay blocked until a user allows them. The condition Ready will name \
                                 the children and the command, once the problem that it reports now is solved";

/// Its message once the block is over, where the condition cannot simply be removed.
const NO_LONGER_BLOCKED: &str = "No deletions are blocked";

/// The host's conditions, followed by the plugin's other conditions in the plugin's order. All but `Ready` are
/// present only while they are true, as kstatus defines them ("abnormal-true"). In steady state, `Ready` is the
/// host's only condition. `base` is the plugin's part of this response if `fresh`, otherwise the present status, whose
/// other conditions stay.
fn merge(base: &Map, fresh: bool, outcome: &Outcome, generation: Option<i64>) -> Vec<Map> {
    let host = |kind: &str, status: &str, reason: ParentReason| {
        condition(kind, status, reason.as_str(), &outcome.message, generation)
    };
    let applied = outcome.progress == Progress::Applied;
    let plugins_ready = conditions_of(base).find(|own| fresh && type_of(own) == Some(parent_condition::READY));
    let ready = match plugins_ready {
        Some(own) if applied => Some(completed(own, generation)),
        None if applied && outcome.leaves_ready => None,
        _ => Some(host(parent_condition::READY, if applied { "True" } else { "False" }, outcome.reason)),
    };
    let abnormal = match outcome.progress {
        Progress::Applied | Progress::Suspended => None,
        Progress::Unready | Progress::Reconciling => Some(parent_condition::RECONCILING),
        Progress::Failed | Progress::Stalled => Some(parent_condition::STALLED),
    };
    let mut all: Vec<_> = ready.into_iter().collect();
    all.extend(abnormal.map(|kind| host(kind, "True", outcome.cause)));
    // Otherwise `Ready` and `Stalled` report the block.
    if let Some(because) = outcome.blocked.filter(|_| outcome.reason != ParentReason::DeletionBlocked) {
        let (kind, reason) = (parent_condition::DELETIONS_BLOCKED, because.reason().as_str());
        all.push(condition(kind, "True", reason, DELETIONS_BLOCKED, generation));
    }
    let hosts_alone =
        [parent_condition::RECONCILING, parent_condition::STALLED, parent_condition::DELETIONS_BLOCKED].map(Some);
    // What the host reported while it could not carry out a response: beside another condition, or because a user asked for that.
    let is_hosts_ready = |own: &Map| {
        let reason = own.get("reason").and_then(Value::as_str).unwrap_or_default().parse();
        let is_asked_for = matches!(reason, Ok(ParentReason::Suspended | ParentReason::NotSelected));
        let is_abnormal =
            || [parent_condition::RECONCILING, parent_condition::STALLED].iter().any(|kind| is_true(base, kind));
        !fresh && type_of(own) == Some(parent_condition::READY) && (is_asked_for || reason.is_ok() && is_abnormal())
    };
    for own in conditions_of(base) {
        let known = all.iter().any(|condition| type_of(condition) == type_of(own));
        if !known && !hosts_alone.contains(&type_of(own)) && !is_hosts_ready(own) {
            // A condition kept from an earlier response keeps its `observedGeneration`.
            all.push(if fresh { completed(own, generation) } else { own.clone() });
        }
    }
    all
}

/// Completes a plugin's condition with all fields that `metav1.Condition` requires.
fn completed(own: &Map, generation: Option<i64>) -> Map {
    let text = |field: &str, default: &'static str| match own.get(field).and_then(Value::as_str) {
        Some(text) if !text.is_empty() => text.to_owned(),
        _ => default.to_owned(),
    };
    condition(
        &text("type", ""),
        match own.get("status") {
            Some(Value::String(status)) if status == "True" || status == "False" => status.as_str(),
            Some(Value::Bool(true)) => "True",
            Some(Value::Bool(false)) => "False",
            _ => "Unknown",
        },
        &text("reason", "Reported"),
        &text("message", ""),
        generation,
    )
}

#[cfg(test)]
mod tests;
