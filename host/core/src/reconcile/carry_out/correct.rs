//! Finds out what a child's apply must change so that the child becomes the object that a create would give (rule R21).

use crate::contract::desired::DesiredChild;
use crate::object::Object;
use crate::object::managed::{Correction, work_out_apply};
use crate::reconcile::api_response::Refused;
use crate::reconcile::applied::Failed;
use crate::reconcile::plan::Target;
use crate::reconcile::world::Writing;
use crate::value::json::Map;

/// Kinds whose objects are not compared with fresh ones: few of their fields can change, or controllers set fields that no create sets.
const LEFT_OUT: [(&str, &str); 5] =
    [("v1", "Namespace"), ("v1", "Node"), ("v1", "PersistentVolumeClaim"), ("v1", "Pod"), ("batch/v1", "Job")];

/// Of the fields that a refusal names, only so many count: each is compared with each field of the child.
const MOST_NAMED: usize = 1000;

/// Compares a child with a fresh one, the object that a create would give. The API server is asked for it at most once. If it refuses, because
/// of a policy or a quota, nothing is corrected. If it does not respond, the write fails, and the next reconcile repeats it.
pub(super) struct Correcting<'a> {
    world: &'a dyn Writing,
    child: &'a DesiredChild,
    fresh: Option<Fresh>,
    /// Whether [`of_invalid`](Self::of_invalid) was asked without the object in its present version: whoever reads it may try again.
    pub(super) is_behind: bool,
}

/// The API server's response.
enum Fresh {
    Known(Map),
    Refused,
}

impl<'a> Correcting<'a> {
    pub(super) fn new(world: &'a dyn Writing, child: &'a DesiredChild) -> Self {
        Self { world, child, fresh: None, is_behind: false }
    }

    /// What to correct with an apply, if anything. A changed child may have fields that an apply would leave as they are. An unchanged one may
    /// only have fields of the host's entry that an apply would remove, and a create would set: the others went when it changed.
    pub(super) async fn of_apply(
        &mut self,
        target: &Target,
        live: Option<&Object>,
    ) -> Result<Option<Correction>, Failed> {
        let is_change = !target.restores && target.differing.is_none();
        let may_be_stale = |live: &Object| {
            let (managed, desired) = (&live.managed, &self.child.body);
            let is_stale = || live.values().is_some_and(|values| managed.may_be_stale(desired, &values));
            managed.owns_more(desired) || is_change && is_stale()
        };
        match live.filter(|live| may_be_stale(live)) {
            Some(live) => self.compared(live, &[]).await,
            None => Ok(None),
        }
    }

    /// What to correct after the API server has refused an apply: fields that users changed in place may be in the way. None if it named no
    /// such fields, if it would also refuse the object without them, or if the object is not known in its present version.
    pub(super) async fn of_invalid(
        &mut self,
        live: Option<&Object>,
        refused: &Refused,
    ) -> Result<Option<Correction>, Failed> {
        let mut named = fields_of(refused);
        self.is_behind = live.is_none() && !named.is_empty() && !self.is_left_out();
        let Some(live) = live.filter(|_| !named.is_empty()) else { return Ok(None) };
        let is_change =
            |found: &Correction| found.own.is_some() || !(found.taken.is_empty() && found.emptied.is_empty());
        let mut tried = None;
        loop {
            let found = self.compared(live, &named).await?.filter(is_change);
            let Some(found) = found.filter(|found| tried.as_ref() != Some(found)) else { return Ok(None) };
            let (Some(now), Some(Fresh::Known(fresh))) = (live.values(), &self.fresh) else { return Ok(None) };
            // Nothing is taken from a manager in vain: the API server may refuse the apply for another reason.
            let entries = (found.own.as_ref(), &*found.taken);
            let after = work_out_apply(&now, (&found.body, fresh), entries, &live.managed);
            match self.world.try_out(live, &after).await {
                Ok(()) => return Ok(Some(found)),
                // It says nothing about the object. Another writer may have changed it meanwhile.
                Err(refused) if refused.is_temporary() || refused.is_outdated() => {
                    return Err(refused.problem().into());
                }
                // The first refusal may have hidden more: the rules of a custom resource are checked after its schema.
                Err(refused) if tried.is_none() => named.extend(fields_of(&refused)),
                Err(_) => return Ok(None),
            }
            tried = Some(found);
        }
    }

    fn is_left_out(&self) -> bool {
        LEFT_OUT.iter().any(|(api_version, kind)| self.child.kind.is(api_version, kind))
    }

    async fn compared(&mut self, live: &Object, refused: &[String]) -> Result<Option<Correction>, Failed> {
        if self.is_left_out() {
            return Ok(None);
        }
        let Self { world, child, fresh, .. } = self;
        if fresh.is_none() {
            *fresh = Some(match world.fresh(child).await {
                Ok(fresh) => Fresh::Known(fresh),
                Err(refused) if refused.is_temporary() => return Err(refused.problem().into()),
                Err(_) => Fresh::Refused,
            });
        }
        let Some(Fresh::Known(fresh)) = fresh else { return Ok(None) };
        let refused: Vec<_> = refused.iter().map(String::as_str).collect();
        let corrected =
            |values: Map| live.managed.correct(&child.body, [&values, fresh], live.controller.as_ref(), &refused);
        Ok(live.values().and_then(corrected))
    }
}

/// The fields because of which the API server has refused a request.
fn fields_of(refused: &Refused) -> Vec<String> {
    refused.invalid_fields().take(MOST_NAMED).map(str::to_owned).collect()
}
