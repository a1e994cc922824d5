//! What hosts tell users in conditions, as far as one can see there that it is wrong.

use serde_json::Value;
use windlass_api_model::{ApiServer, Change};
use windlass_core::object::names::ANNOTATION_ALLOW_DELETION;

use crate::expected::text;
use crate::setup::OPERATORS;

/// What a condition says about blocked deletions.
#[derive(Debug, PartialEq, Eq)]
struct Blocked<'a> {
    /// Number of children that would be deleted.
    deletions: usize,
    /// Number of children that are named, and of the others.
    listed: Option<usize>,
    /// The value by which a user allows these deletions.
    hash: &'a str,
    /// The value of the annotation that does not match.
    mismatch: Option<&'a str>,
}

/// A parent's status counts a generation as observed while it says that the host still works on it.
pub fn is_early(change: &Change) -> Option<String> {
    let (before, after) = (change.before.as_deref()?, change.after.as_deref()?);
    let observed = |of: &Value| of.pointer("/status/observedGeneration").cloned();
    // Children that are not ready yet are applied, unless others wait for them, and so is the response of a plugin that waits.
    let is_applied = |message: &str| !["waits for", "wait for"].iter().any(|waits| message.contains(waits));
    let is_unready = |one| text(one, "/reason") == "WaitingForReady" && is_applied(text(one, "/message"));
    let works = conditions(after).any(|one| {
        text(one, "/type") == "Reconciling"
            && text(one, "/status") == "True"
            && !is_unready(one)
            && text(one, "/reason") != "Waiting"
    });
    let is_of_parent = OPERATORS.iter().any(|operator| operator.parents == change.id.resource);
    (is_of_parent && works && observed(before) != observed(after))
        .then(|| "observedGeneration is that of a generation that is not applied yet".to_owned())
}

/// A condition says about blocked deletions what cannot be: another number of children than it names, a value of the annotation that no user
/// has set, or that a value allows more deletions than it did when a user could read it first.
pub fn is_contradictory(server: &ApiServer, change: &Change) -> Option<String> {
    let (before, after) = (change.before.as_deref()?, change.after.as_deref()?);
    let message_in = |object| conditions(object).map(|one| text(one, "/message")).find(|message| is_blocked(message));
    let message = message_in(after)?;
    let Some(blocked) = blocked_in(message) else { return Some(format!("no user can read this: {message}")) };
    if blocked.listed.is_some_and(|listed| listed != blocked.deletions) {
        return Some(format!("the children are not as many as the deletions: {message}"));
    }
    let annotation = |object: &Value| object.pointer("/metadata/annotations")?.get(ANNOTATION_ALLOW_DELETION).cloned();
    let is_set = |value: &str| {
        let versions = server.changes().iter().filter(|other| other.id == change.id);
        versions.filter_map(|other| annotation(other.after.as_deref()?)).any(|set| set == value)
    };
    if let Some(value) = blocked.mismatch.filter(|value| !is_set(value)) {
        return Some(format!("no user has set the annotation to {value:?}: {message}"));
    }
    let earlier = message_in(before).and_then(blocked_in).filter(|earlier| earlier.hash == blocked.hash)?;
    (earlier.deletions < blocked.deletions)
        .then(|| format!("{} allowed {} deletions before: {message}", earlier.hash, earlier.deletions))
}

/// The parents of a Plugin are shared although deletions are blocked there: each host would judge its own parents alone.
pub fn is_shared_early(change: &Change) -> Option<String> {
    let status = change.after.as_deref()?.get("status")?;
    let is_blocked = status.get("blockedDeletionsHash").is_some_and(|hash| !hash.is_null());
    (is_blocked && status.pointer("/rollout/shared") == Some(&true.into()))
        .then(|| "the parents are shared although deletions are blocked".to_owned())
}

fn conditions(object: &Value) -> impl Iterator<Item = &Value> {
    object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten()
}

/// Whether a message tells a user how to allow deletions.
fn is_blocked(message: &str) -> bool {
    message.contains(&allows())
}

/// What is before the value by which a user allows deletions.
fn allows() -> String {
    format!(" {ANNOTATION_ALLOW_DELETION}=")
}

fn blocked_in(message: &str) -> Option<Blocked<'_>> {
    let between = |before: &str, after: &str| Some(message.split_once(before)?.1.split_once(after)?.0);
    let list = message.split_once("; children: ").map(|(_, list)| list);
    Some(Blocked {
        deletions: between("Blocked: ", " of ")?.parse().ok()?,
        listed: list.map_or(Some(None), |list| count_of(list).map(Some))?,
        hash: between(&allows(), " ")?,
        mismatch: between("The annotation's value \"", "\""),
    })
}

/// Number of children in a list such as `A a, B b and 5 more`.
fn count_of(list: &str) -> Option<usize> {
    let Some((named, more)) = list.split_once(" and ") else { return Some(list.split(", ").count()) };
    let more: usize = more.split_once(" more")?.0.parse().ok()?;
    (more > 0).then(|| named.split(", ").count() + more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_about_blocked_deletions_is_read() {
        let command = format!("To allow exactly these deletions: kubectl annotate x{}9c0d --overwrite", allows());
        let message = format!("Blocked: 7 of 9 children would be deleted. {command}; children: A a, B b and 5 more");
        let read = Blocked { deletions: 7, listed: Some(7), hash: "9c0d", mismatch: None };
        assert_eq!(blocked_in(&message), Some(read));
        assert_eq!(blocked_in(&message.replace("5 more", "0 more")), None);
        let message = format!(
            "Blocked: 2 of 2 children would be deleted. The annotation's value \"x\" does not match. {command}"
        );
        let read = Blocked { deletions: 2, listed: None, hash: "9c0d", mismatch: Some("x") };
        assert_eq!(blocked_in(&message), Some(read));
    }
}
