//! Finds out whether a child is in the way of the one that replaces it (rule R10).

use crate::contract::desired::DesiredChild;
use crate::contract::snapshot::Snapshot;
use crate::object::child::Delete;
use crate::reconcile::outcome::WriteProblem;
use crate::reconcile::world::Writing;

/// Whether a child is in the way of one that the API server refused to create beside it: it is if the API server would accept the content
/// of the new one in its place. Otherwise something else is wrong with the new one, and nothing is deleted for it in vain.
///
/// # Errors
/// If the API server does not respond, or the child has changed.
pub(super) async fn is_in_the_way(
    world: &dyn Writing,
    snapshot: &Snapshot,
    old: &Delete,
    new: &DesiredChild,
) -> Result<bool, WriteProblem> {
    let Some(live) = snapshot.children.iter().find(|live| live.uid == old.uid) else { return Ok(false) };
    let Some(mut after) = live.values().filter(|_| live.kind == new.kind) else { return Ok(false) };
    after.retain(|field, _| matches!(field, "apiVersion" | "kind" | "metadata" | "status"));
    let content = new.body.iter().filter(|(field, _)| *field != "metadata");
    content.for_each(|(field, value)| drop(after.insert(field, value.clone())));
    match world.try_out(live, &after).await {
        Ok(()) => Ok(true),
        Err(refused) if refused.is_temporary() || refused.is_outdated() => Err(refused.problem()),
        Err(_) => Ok(false),
    }
}
