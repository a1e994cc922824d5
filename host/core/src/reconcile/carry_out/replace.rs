//! Finds out whether a child is in the way of the one that replaces it (rule R10).

use crate::contract::desired::DesiredChild;
use crate::contract::snapshot::Snapshot;
use crate::object::child::Delete;
use crate::reconcile::outcome::WriteProblem;
use crate::reconcile::world::Writing;
use crate::value::json::Value;

/// Checks that a child is in the way of one that the API server `refused` to create beside it: it is if the API server would accept the
/// content of the new one in its place. Otherwise something else is wrong with the new one, and nothing is deleted for it in vain.
///
/// # Errors
/// Why the new one cannot be created either way, or that it is not known: the API server does not respond, or the child has changed.
pub(super) async fn check_is_in_the_way(
    world: &dyn Writing,
    snapshot: &Snapshot,
    (old, new): (&Delete, &DesiredChild),
    refused: WriteProblem,
) -> Result<(), WriteProblem> {
    let live = snapshot.children.iter().find(|live| live.uid == old.uid && live.kind == new.kind);
    let Some((live, mut after)) = live.and_then(|live| Some((live, live.values()?))) else { return Err(refused) };
    after.retain(|field, _| matches!(field, "apiVersion" | "kind" | "metadata" | "status"));
    if let (Some(meta), Some(own)) = (after.object_mut("metadata"), new.body.get("metadata")) {
        let Value::Object(own) = own else { return Err(refused) };
        // Policies judge these, too.
        let marked = own.iter().filter(|(field, _)| matches!(*field, "labels" | "annotations"));
        marked.for_each(|(field, value)| drop(meta.insert(field, value.clone())));
    }
    let content = new.body.iter().filter(|(field, _)| *field != "metadata");
    content.for_each(|(field, value)| drop(after.insert(field, value.clone())));
    match world.try_out(live, &after).await {
        Ok(()) => Ok(()),
        Err(again) if again.is_temporary() || again.is_outdated() => Err(again.problem()),
        Err(again) => Err(as_well(refused, &old.child.to_string(), &again.problem())),
    }
}

/// A refusal that also says why the same content was refused in the place of another child.
fn as_well(refused: WriteProblem, place: &str, again: &WriteProblem) -> WriteProblem {
    match (refused, again) {
        (WriteProblem::Rejected { code, message, rejection }, WriteProblem::Rejected { message: again, .. }) => {
            let message = format!("{message}. It would not be accepted in the place of {place} either: {again}");
            WriteProblem::Rejected { code, message, rejection }
        }
        (refused, _) => refused,
    }
}
