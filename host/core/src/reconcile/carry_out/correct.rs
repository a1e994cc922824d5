//! Makes a changed child as a create of the desired one would, whatever its history is (rule R21).

use crate::contract::desired::DesiredChild;
use crate::contract::snapshot::Snapshot;
use crate::object::Object;
use crate::object::managed::{Correction, CreateEntry, Removal};
use crate::reconcile::plan::Target;
use crate::reconcile::world::World;
use crate::value::ids::Gvk;
use crate::value::json::{self, Map, Value};

/// Kinds whose objects are not compared with fresh ones: hardly a field of them can change, or controllers set fields that no create gives.
const LEFT_OUT: [(&str, &str); 5] =
    [("v1", "Namespace"), ("v1", "Node"), ("v1", "PersistentVolumeClaim"), ("v1", "Pod"), ("batch/v1", "Job")];

/// Asks the API server for the object that a create would give, if the present one has fields that an apply would leave as they are. None if
/// there is nothing to correct, or no such object to compare with: a policy or a quota may be against a second object.
pub(super) async fn correction(
    world: &dyn World,
    snapshot: &Snapshot,
    child: &DesiredChild,
    target: &Target,
) -> Option<Correction> {
    let is_change = !target.restores && target.differing.is_none();
    if !is_change || is_left_out(&child.kind) {
        return None;
    }
    let live = snapshot.children.iter().find(|live| live.uid == target.uid)?;
    let values = values(live)?;
    // Before the first apply, the entry of the host's POST owns the defaults, too.
    let is_as_created = matches!(target.create_entry, Some(CreateEntry::MustGo { removal: Removal::Convert, .. }));
    if !is_as_created && !live.managed.has_unowned(&child.body, &values) {
        return None;
    }
    let fresh = world.fresh(child).await.ok()?;
    live.managed.correct(&child.body, &values, &fresh, live.controller.as_ref())
}

fn is_left_out(kind: &Gvk) -> bool {
    LEFT_OUT.iter().any(|(api_version, name)| kind.is(api_version, name))
}

fn values(object: &Object) -> Option<Map> {
    match json::parse(&object.json.bytes(), json::OBJECT_DEPTH) {
        Ok(Value::Object(values)) => Some(values),
        _ => None,
    }
}
