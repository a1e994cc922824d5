//! Plans stages: which children wait until those of lower stages are ready (rule R23).
//!
//! Only a child that is missing, or whose desired state changed, waits. Edits of others are reverted in any case, so a child that is no
//! longer ready stops no repair of those above it.

use super::Plan;
use crate::contract::desired::DesiredChild;
use crate::object::Object;
use crate::object::child::ChildId;
use crate::reconcile::not_ready::NotReady;

/// The stages of one response, from the lowest up.
#[derive(Default)]
pub(super) struct Stages<'a> {
    /// Children of the stage that is being planned and of lower ones, whose readiness was not needed yet.
    unchecked: Vec<(&'a Object, &'a DesiredChild)>,
    /// Children that are not ready.
    not_ready: Vec<(u32, NotReady)>,
    waiting: Vec<ChildId>,
}

impl<'a> Stages<'a> {
    /// Records a child on which the host is still working.
    pub(super) fn busy(&mut self, child: &DesiredChild, why: &'static str) {
        self.not_ready.push((child.stage, NotReady::because(child, why)));
    }

    /// Records a child that exists and is not changed.
    pub(super) fn unchanged(&mut self, live: &'a Object, child: &'a DesiredChild) {
        self.unchecked.push((live, child));
    }

    /// Whether a child that is missing or must change waits. Then it is recorded.
    pub(super) fn waits(&mut self, child: &DesiredChild) -> bool {
        if child.stage == 0 {
            return false;
        }
        for (live, lower) in self.unchecked.extract_if(.., |(_, lower)| lower.stage < child.stage) {
            self.not_ready.extend(NotReady::of(live, lower).map(|one| (lower.stage, one)));
        }
        let waits = self.not_ready.iter().any(|(stage, _)| *stage < child.stage);
        if waits {
            self.waiting.push(child.id());
        }
        waits
    }

    /// Hands over what waits, and the children of lower stages for which it waits.
    pub(super) fn plan_into(self, plan: &mut Plan) {
        if !self.waiting.is_empty() {
            let mut not_ready: Vec<_> = self.not_ready.into_iter().map(|(_, one)| one).collect();
            not_ready.sort_by_key(|one| !one.is_failed);
            plan.staged = Some(Box::new(Staged { waiting: self.waiting, not_ready }));
        }
    }
}

/// Children that wait for those of lower stages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staged {
    /// The children that wait.
    pub waiting: Vec<ChildId>,
    /// The children that are not ready, failed ones first.
    pub not_ready: Vec<NotReady>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::contract::desired::{Desired, validate};
    use crate::contract::{ChildOptions, Limits, Response, UpdateStrategy};
    use crate::fixtures::{created, grants_with, parent_ref, plan, pod, response, snapshot};
    use crate::reconcile::plan::Write;

    /// A Pod of this stage, with this image.
    type Child<'a> = (u32, &'a str, &'a str);

    fn desired(children: &[Child<'_>]) -> Desired {
        let with_image = |(_, name, image): &Child<'_>| {
            let mut pod = pod(name);
            pod["spec"]["containers"][0]["image"] = json!(image);
            pod
        };
        let options = children.iter().map(|(stage, ..)| ChildOptions { stage: *stage, ..ChildOptions::default() });
        let children: Vec<_> = children.iter().map(with_image).collect();
        let response = Response { options: Some(options.collect()), ..response(&children) };
        validate(&response, &parent_ref(), &grants_with(&UpdateStrategy::Apply), &Limits::default()).expect("valid")
    }

    fn live(child: Child<'_>, status: &Json) -> Json {
        let mut live = created(&desired(&[child]).children[0]);
        live["status"] = status.clone();
        live
    }

    fn ready(child: Child<'_>) -> Json {
        live(child, &json!({"conditions": [{"type": "Ready", "status": "True"}]}))
    }

    fn starting(child: Child<'_>) -> Json {
        live(child, &json!({"phase": "Pending"}))
    }

    /// The writes, `|`, the children that wait, `<`, and those for which they wait.
    fn steps(live: &[Json], wanted: &[Child<'_>]) -> String {
        let plan = plan(&snapshot(live), &desired(wanted));
        let write = |write: &Write| match write {
            Write::Create(child) => format!("create {}", child.key.name),
            Write::Apply { child, .. } => format!("apply {}", child.key.name),
            Write::Replace(delete) => format!("replace {}", delete.child.key.name),
        };
        let mut all: Vec<_> = plan.writes.iter().map(write).collect();
        if let Some(Staged { waiting, not_ready }) = plan.staged.as_deref() {
            all.push("|".to_owned());
            all.extend(waiting.iter().map(|child| child.key.name.to_string()));
            all.push("<".to_owned());
            all.extend(not_ready.iter().map(|one| one.child.key.name.to_string()));
        }
        all.join(" ")
    }

    #[test]
    fn r23_children_of_a_stage_are_created_once_those_of_lower_stages_are_ready() {
        let (a, b, c, d) = ((0, "a", "1"), (1, "b", "1"), (1, "c", "1"), (2, "d", "1"));
        let wanted = [d, c, b, a];
        assert_eq!(steps(&[], &wanted), "create a | c b d < a");
        assert_eq!(steps(&[starting(a)], &wanted), "| c b d < a");
        assert_eq!(steps(&[ready(a)], &wanted), "create c create b | d < c b");
        assert_eq!(steps(&[ready(a), starting(b), ready(c)], &wanted), "| d < b");
        assert_eq!(steps(&[ready(a), ready(b), ready(c)], &wanted), "create d");
        assert_eq!(steps(&[ready(a), ready(b), ready(c), starting(d)], &wanted), "");
    }

    #[test]
    fn r23_only_a_changed_desired_state_waits_and_an_edit_is_reverted_at_once() {
        let (a, b) = ((0, "a", "1"), (1, "b", "1"));
        let (a2, b2) = ((0, "a", "2"), (1, "b", "2"));
        assert_eq!(steps(&[ready(a), ready(b)], &[a2, b2]), "apply a | b < a");
        assert_eq!(steps(&[starting(a2), ready(b)], &[a2, b2]), "| b < a");
        assert_eq!(steps(&[ready(a2), ready(b)], &[a2, b2]), "apply b");
        // The lower stage is no longer ready, and the child above it was edited.
        let mut edited = ready(b);
        edited["metadata"]["managedFields"] = json!([]);
        assert_eq!(steps(&[starting(a), edited], &[a, b]), "apply b");
        assert_eq!(steps(&[starting(a), ready(b)], &[a, b]), "", "nothing waits");
    }

    #[test]
    fn r23_failed_child_is_named_first_and_nothing_is_pruned_while_children_wait() {
        let (a, b, c) = ((0, "a", "1"), (0, "b", "1"), (1, "c", "1"));
        let failed = live(b, &json!({"phase": "Failed"}));
        assert_eq!(steps(&[starting(a), failed], &[a, b, c]), "| c < b a");
        let old = ready((0, "old", "1"));
        let mut plan = plan(&snapshot(&[starting(a), old]), &desired(&[a, c]));
        assert_eq!(plan.prunes.len(), 1);
        plan.put_off_prunes();
        assert_eq!(plan.prunes.len(), 0);
    }

    #[test]
    fn r23_child_of_a_lower_stage_that_is_missing_being_deleted_or_left_out_is_not_ready() {
        let (a, b) = ((0, "a", "1"), (1, "b", "1"));
        let mut leaving = ready(a);
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(steps(&[leaving], &[a, b]), "| b < a");
        let mut snapshot = snapshot(&[ready(a)]);
        snapshot.left_out = std::mem::take(&mut snapshot.children);
        let plan = plan(&snapshot, &desired(&[a, b]));
        assert_eq!(plan.writes, []);
        assert_eq!(plan.staged.expect("b waits").not_ready[0].why, "it was left out of the request");
    }

    #[test]
    fn r23_stage_is_kept_on_the_child_and_stage_0_leaves_no_trace() {
        let stage = |child: Child<'_>| {
            let annotations = created(&desired(&[child]).children[0])["metadata"]["annotations"].clone();
            annotations["windlass.dev/stage"].clone()
        };
        assert_eq!((stage((0, "a", "1")), stage((7, "a", "1"))), (Json::Null, json!("7")));
    }
}
