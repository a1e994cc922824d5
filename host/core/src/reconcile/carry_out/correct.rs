//! Makes a changed child as a create of the desired one would, whatever its history is (rule R21).

use crate::contract::desired::DesiredChild;
use crate::object::Object;
use crate::object::managed::Correction;
use crate::reconcile::api_response::Refused;
use crate::reconcile::plan::Target;
use crate::reconcile::world::World;
use crate::value::json::{self, Map, Value};

/// Kinds whose objects are not compared with fresh ones: hardly a field of them can change, or controllers set fields that no create gives.
const LEFT_OUT: [(&str, &str); 5] =
    [("v1", "Namespace"), ("v1", "Node"), ("v1", "PersistentVolumeClaim"), ("v1", "Pod"), ("batch/v1", "Job")];

/// Compares a child with a fresh one: the object that a create would give, which the API server is asked for once, and only if that is
/// needed. A policy or a quota may be against a second object; then nothing is corrected.
pub(super) struct Correcting<'a> {
    world: &'a dyn World,
    child: &'a DesiredChild,
    fresh: Option<Result<Map, Refused>>,
}

impl<'a> Correcting<'a> {
    pub(super) fn new(world: &'a dyn World, child: &'a DesiredChild) -> Self {
        Self { world, child, fresh: None }
    }

    /// What to correct with an apply. None if it neither leaves a field as it is that is not desired, nor removes one that a create would
    /// set. That the desired state is as before leaves only the second: what nobody owns was corrected when it changed.
    pub(super) async fn of_apply(&mut self, target: &Target, live: Option<&Object>) -> Option<Correction> {
        let (live, desired) = (live?, &self.child.body);
        let is_change = !target.restores && target.differing.is_none();
        if !(live.managed.owns_more(desired) || is_change && live.managed.may_be_stale(desired, &values(live)?)) {
            return None;
        }
        self.compared(live, &[]).await
    }

    /// What to correct after the API server has refused an apply because of these fields: what others changed in place may be in its way.
    /// None if no entry has to change.
    pub(super) async fn of_invalid(&mut self, live: Option<&Object>, fields: &[&str]) -> Option<Correction> {
        let live = live.filter(|_| !fields.is_empty())?;
        self.compared(live, fields).await.filter(|correction| !correction.entries.is_empty())
    }

    async fn compared(&mut self, live: &Object, refused: &[&str]) -> Option<Correction> {
        let Self { world, child, fresh } = self;
        if LEFT_OUT.iter().any(|(api_version, kind)| child.kind.is(api_version, kind)) {
            return None;
        }
        if fresh.is_none() {
            *fresh = Some(world.fresh(child).await);
        }
        let fresh = fresh.as_ref()?.as_ref().ok()?;
        live.managed.correct(&child.body, [&values(live)?, fresh], live.controller.as_ref(), refused)
    }
}

fn values(object: &Object) -> Option<Map> {
    match json::parse(&object.json.bytes(), json::OBJECT_DEPTH) {
        Ok(Value::Object(values)) => Some(values),
        _ => None,
    }
}
