//! Forecasts which deletions would be blocked, without what a running host remembers.

use super::{BlockReason, BlockedDeletions, Cause, DeletionGuard, Deletions, ParentDeletions, asked};
use crate::contract::snapshot::Snapshot;

/// The deletions of a plan that count for the guard, and whether they would be blocked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forecast {
    /// Number of deletions that no user asked for.
    pub deletions: usize,
    /// Number of the parent's children that are not being deleted.
    pub children: usize,
    /// The deletions, if they would be blocked for this parent alone.
    pub blocked: Option<BlockedDeletions>,
}

/// Applies rule R9 to the deletions of one plan, as a host does that has just started. `is_new` is true if the component or
/// its config is not the live one: then a changed spec does not count as a user's request, and recreated children count
/// as deleted.
pub fn forecast(
    guard: DeletionGuard,
    snapshot: &Snapshot,
    cause: Cause,
    is_new: bool,
    deletions: &Deletions<'_>,
) -> Forecast {
    let parent = &snapshot.parent;
    let mut own = ParentDeletions::default();
    let may_be_by_component = is_new || own.blocked(parent) == Some(BlockReason::NewComponent);
    let deletions = deletions.counted(may_be_by_component);
    let (is_asked, because) = asked(&mut own, snapshot, (cause, may_be_by_component), &deletions);
    let children = snapshot.children.iter().filter(|child| !child.deleting && child.is_owned_by(&parent.uid)).count();
    let blocked = own.block(guard, snapshot, (is_asked, because), None, &deletions);
    Forecast { deletions: if is_asked { 0 } else { deletions.len() }, children, blocked }
}

impl DeletionGuard {
    /// Returns true if these deletions would be blocked together, in the rollout of a new component.
    pub fn blocks_rollout(self, deletions: usize, children: usize) -> bool {
        self.can_block() && self.is_too_many(deletions, children, children)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::contract::UpdateStrategy;
    use crate::fixtures::{created, pod, snapshot, validate, validate_with};
    use crate::reconcile::plan::plan;

    /// The forecast for a parent with these numbers of children, of which the last ones are dropped.
    fn of(children: usize, kept: usize, cause: Cause, is_new: bool) -> Forecast {
        let names: Vec<Value> = (0..children).map(|at| pod(&format!("p-{at}"))).collect();
        let live: Vec<_> = validate(&names).expect("valid").children.iter().map(|child| created(child)).collect();
        let (snapshot, desired) = (snapshot(&live), validate(&names[..kept]).expect("valid"));
        forecast(DeletionGuard::default(), &snapshot, cause, is_new, &plan(&snapshot, &desired).deletions())
    }

    #[test]
    fn r09_forecast_blocks_what_a_host_would_block() {
        let is_blocked = |forecast: Forecast| forecast.blocked.is_some();
        assert!(is_blocked(of(4, 1, Cause::Unchanged, false)), "3 of 4, and no user asked");
        assert!(!is_blocked(of(4, 2, Cause::Unchanged, false)), "2 of 4 are not more than half");
        assert!(!is_blocked(of(3, 0, Cause::Unchanged, false)), "there are fewer than four children");
        assert!(!is_blocked(of(4, 1, Cause::SpecChanged, false)), "a user asked");
        assert!(is_blocked(of(4, 1, Cause::SpecChanged, true)), "the component may be the reason");
    }

    #[test]
    fn r09_forecast_counts_deletions_for_the_whole_rollout() {
        let found = of(3, 1, Cause::SpecChanged, true);
        assert_eq!((found.deletions, found.children, found.blocked), (2, 3, None));
        assert_eq!(of(3, 1, Cause::SpecChanged, false).deletions, 0, "a user asked");
        assert!(DeletionGuard::default().blocks_rollout(4, 6) && !DeletionGuard::default().blocks_rollout(3, 6));
        assert!(!DeletionGuard { max_percent: 100, min_children: 0 }.blocks_rollout(6, 6), "the guard is off");
    }

    #[test]
    fn r09_forecast_of_a_new_component_counts_recreated_children() {
        let old: Vec<_> = validate(&[pod("a")]).expect("valid").children.iter().map(|child| created(child)).collect();
        let mut changed = pod("a");
        changed["spec"]["containers"][0]["image"] = "nginx:2".into();
        let desired = validate_with(&[changed], &UpdateStrategy::Recreate).expect("valid");
        let snapshot = snapshot(&old);
        let plan = plan(&snapshot, &desired);
        let count = |is_new| {
            forecast(DeletionGuard::default(), &snapshot, Cause::Unchanged, is_new, &plan.deletions()).deletions
        };
        assert_eq!((count(true), count(false)), (1, 0));
    }
}
