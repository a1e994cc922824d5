//! Sends the dry runs of one child's change, as the host's writes follow each other.

use std::sync::Arc;

use kube::Client;
use kube::core::ApiResource;
use serde_json::Value;
use windlass_core::contract::desired::DesiredChild;
use windlass_core::contract::snapshot::Snapshot;
use windlass_core::object::Object;
use windlass_core::object::managed::{CreateEntry, drop_created};
use windlass_core::reconcile::claim::{Claim, claim, may_be_adopted, owner_of};
use windlass_core::reconcile::outcome::{Rejection, WriteProblem, name_is_taken};
use windlass_core::reconcile::plan::Target;
use windlass_core::value::json::{self, Value as CoreValue};
use windlass_engine::cluster::writer::dry_run::DryRun;
use windlass_engine::cluster::writer::request::Force;
use windlass_engine::cluster::writer::response::{already_exists, conflict_of, problem_of};
use windlass_engine::telemetry::one_line;

use super::parents::{Children, object};

/// A child after its change, and the live object that an unexpected one was found to be.
pub struct Changed {
    /// The object as the API server would store it.
    pub after: Value,
    /// The existing object, if the child's name is taken by one that the plugin adopts.
    pub adopted: Option<Arc<Object>>,
}

/// Previews the creation of a child.
///
/// # Errors
/// If the API server rejects it, or if its name belongs to an object that is not this parent's.
pub async fn create(
    (client, resource): (&Client, &ApiResource),
    (snapshot, children): (&Snapshot, &Children),
    child: &DesiredChild,
    adopts: bool,
) -> Result<Changed, WriteProblem> {
    match DryRun::create(resource, child)?.send(client).await {
        Ok(text) => Ok(Changed { after: parsed(&text)?, adopted: None }),
        Err(error) if already_exists(&error) => {
            let found =
                object(client, (&child.kind, resource), &child.key).await.map_err(|error| unavailable(&error))?;
            let found = found.ok_or(WriteProblem::Outdated)?;
            let adopts = adopts && may_be_adopted(&found, child);
            match claim(&found, snapshot, adopts, |plugin| children.gone.contains(plugin)) {
                Claim::Restore | Claim::Adopt => {
                    let target = Target {
                        uid: found.uid.clone(),
                        resource_version: found.resource_version,
                        create_entry: None,
                        leftover_data: Vec::new(),
                        restores: false,
                        differing: None,
                    };
                    let after = apply((client, resource), child, &target, &found).await?;
                    Ok(Changed { after, adopted: Some(found) })
                }
                Claim::Unseen => Err(WriteProblem::CacheBehind),
                Claim::Orphaned | Claim::Foreign => Err(WriteProblem::Taken { owner: owner_of(&found) }),
            }
        }
        Err(error) => Err(problem_of(&error)),
    }
}

/// Previews the creation of a child that takes the place of a live one.
///
/// # Errors
/// If the API server rejects it.
pub async fn recreate(
    (client, resource): (&Client, &ApiResource),
    child: &DesiredChild,
) -> Result<Value, WriteProblem> {
    let sent = DryRun::create_unnamed(resource, child)?.send(client).await;
    let mut created = parsed(&sent.map_err(|error| problem_of(&error))?)?;
    if let Some(meta) = created.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.remove("generateName");
        meta.insert("name".to_owned(), (&*child.key.name).into());
        // The new object has another UID, which is not known.
        meta.remove("uid");
    }
    Ok(created)
}

/// Previews the apply of a child to a live object.
///
/// # Errors
/// If the API server rejects it, or if it conflicts with another field manager.
pub async fn apply(
    (client, resource): (&Client, &ApiResource),
    child: &DesiredChild,
    target: &Target,
    live: &Object,
) -> Result<Value, WriteProblem> {
    let send =
        async |force| Ok::<_, WriteProblem>(DryRun::apply(resource, child, &target.uid, force)?.send(client).await);
    let applied = match send(Force::No).await? {
        Ok(text) => text,
        Err(error) => match conflict_of(&error) {
            // The host forces its apply in the same cases.
            Some(conflict) if conflict.only_drift || child.force_ownership => {
                send(Force::Yes).await?.map_err(|error| problem_of(&error))?
            }
            Some(conflict) => return Err(WriteProblem::FieldConflict { conflicts: conflict.causes }),
            None => return Err(problem_of(&error)),
        },
    };
    // The host removes its create entry from managedFields before the apply, which removes fields that only the entry
    // owned. A dry run cannot build on another, so these fields are removed here; the API server then sets defaults.
    let Ok(CoreValue::Object(mut after)) = json::parse(applied.as_bytes(), json::OBJECT_DEPTH) else {
        return parsed(&applied);
    };
    let mut is_changed = matches!(target.create_entry, Some(CreateEntry::MustGo { .. })) && drop_created(&mut after);
    for key in &target.leftover_data {
        is_changed |= after.object_mut("data").is_some_and(|data| data.remove(key).is_some());
    }
    if !is_changed {
        return parsed(&applied);
    }
    let replaced = DryRun::replace(resource, live, &after)?.send(client).await;
    parsed(&replaced.map_err(|error| problem_of(&error))?)
}

/// An object from the API server's response.
///
/// # Errors
/// If the response is not JSON.
pub fn parsed(text: &str) -> Result<Value, WriteProblem> {
    serde_json::from_str(text).map_err(|error| WriteProblem::Unavailable {
        message: format!("the API server's response is not valid JSON: {error}"),
        retry_after: None,
    })
}

/// The note about the successor of a live child, if the API server rejects it while the live child exists: both together
/// may exceed a quota or need the same port. The host deletes the live child first.
pub fn note_beside_live(problem: &WriteProblem) -> Option<String> {
    let WriteProblem::Rejected { message, rejection: Rejection::Other, .. } = problem else { return None };
    Some(format!(
        "it is shown as the plugin returned it, because the API server rejects it beside the live object ({}); the host \
         deletes the live object first",
        one_line(message)
    ))
}

/// The note about live values that differ from the desired ones, if the API server rejects the change: the host then
/// leaves the values as they are.
pub fn note_on_kept_values(target: &Target, problem: &WriteProblem) -> Option<String> {
    let WriteProblem::Rejected { code: 400 | 422 | 500, message, .. } = problem else { return None };
    target.differing.is_some().then(|| {
        let message = one_line(message);
        format!("its live values differ from the desired ones and stay, because the API server rejects the change: {message}")
    })
}

fn unavailable(error: &anyhow::Error) -> WriteProblem {
    WriteProblem::Unavailable { message: format!("{error:#}"), retry_after: None }
}

/// Why a child cannot be previewed, for the user of the command.
pub fn reason(problem: &WriteProblem) -> String {
    match problem {
        WriteProblem::Taken { owner } => name_is_taken(owner.as_deref()),
        WriteProblem::FieldConflict { conflicts } => format!(
            "other field managers own fields that the plugin sets: {}; remove the fields from one of the two",
            conflicts.join(", ")
        ),
        WriteProblem::CacheBehind | WriteProblem::Outdated => {
            "it changed while this command ran; run the command again".to_owned()
        }
        WriteProblem::NamespaceTerminating => "its namespace is being deleted".to_owned(),
        WriteProblem::Rejected { message, .. } | WriteProblem::Unavailable { message, .. } => message.clone(),
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::value::digest::Digest;
    use windlass_core::value::ids::Uid;

    use super::*;

    fn rejected(code: u16, rejection: Rejection) -> WriteProblem {
        WriteProblem::Rejected { code, message: "exceeded quota: pods".to_owned(), rejection }
    }

    #[test]
    fn successor_that_the_api_server_rejects_beside_the_live_child_is_a_note() {
        let note = note_beside_live(&rejected(403, Rejection::Other)).expect("a note");
        assert!(note.contains("exceeded quota: pods"), "{note}");
        assert_eq!(note_beside_live(&rejected(403, Rejection::Permission)), None, "the user lacks a permission");
        assert_eq!(note_beside_live(&WriteProblem::Outdated), None);
    }

    #[test]
    fn rejected_change_of_live_values_alone_is_a_note() {
        let target = |differing| Target {
            uid: Uid::from("u"),
            resource_version: 1,
            create_entry: None,
            leftover_data: Vec::new(),
            restores: false,
            differing,
        };
        let values = Some(Digest::of(b"values"));
        let note = note_on_kept_values(&target(values), &rejected(422, Rejection::ImmutableField)).expect("a note");
        assert!(note.contains("exceeded quota: pods"), "{note}");
        assert_eq!(note_on_kept_values(&target(None), &rejected(422, Rejection::Other)), None, "the plugin changed it");
        assert_eq!(note_on_kept_values(&target(values), &rejected(403, Rejection::Other)), None, "it may change");
    }
}
