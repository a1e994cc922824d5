//! Plans stages: which children wait until those of lower stages are ready (rule R23).
//!
//! Only a child that is missing, or whose desired state changed, waits. Edits of others are reverted in any case, so a child that is no
//! longer ready stops no repair of those above it.

use super::Plan;
use crate::contract::desired::DesiredChild;
use crate::object::Object;
use crate::object::child::ChildId;
use crate::object::once::Noted;
use crate::reconcile::not_ready::NotReady;

/// The stages of one response, from the lowest up.
#[derive(Default)]
pub(super) struct Stages<'a> {
    /// Whether there are several; otherwise nothing is recorded.
    are_several: bool,
    /// Children of the stage that is being planned and of lower ones, whose readiness was not needed yet.
    unchecked: Vec<(&'a Object, &'a DesiredChild)>,
    /// Children that are not ready.
    not_ready: Vec<(u32, NotReady)>,
    waiting: Vec<(u32, ChildId)>,
}

impl<'a> Stages<'a> {
    pub(super) fn new(are_several: bool) -> Self {
        Self { are_several, ..Self::default() }
    }

    /// Records a child on which the host is still working.
    pub(super) fn busy(&mut self, child: &DesiredChild, why: &'static str) {
        if self.are_several {
            self.not_ready.push((child.stage, NotReady::because(child, why)));
        }
    }

    /// Records a child that was created once, and is gone.
    pub(super) fn gone(&mut self, child: &DesiredChild, noted: Noted) {
        if self.are_several {
            self.not_ready.extend(NotReady::gone(child, noted).map(|one| (child.stage, one)));
        }
    }

    /// Records a child that exists and is not changed.
    pub(super) fn unchanged(&mut self, live: &'a Object, child: &'a DesiredChild) {
        if self.are_several {
            self.unchecked.push((live, child));
        }
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
            self.waiting.push((child.stage, child.id()));
        }
        waits
    }

    /// Hands over what waits, and the children of lower stages for which it waits.
    pub(super) fn plan_into(self, plan: &mut Plan) {
        // Children are recorded from the lowest stage up.
        let (Some((from, _)), Some((to, _))) = (self.waiting.first(), self.waiting.last()) else { return };
        let (from, to) = (*from, *to);
        let not_ready = self.not_ready.into_iter().filter(|(stage, _)| *stage < to);
        let mut not_ready: Vec<_> = not_ready.map(|(_, one)| one).collect();
        not_ready.sort_by_key(|one| !one.is_failed);
        let waiting = self.waiting.into_iter().map(|(_, child)| child).collect();
        plan.staged = Some(Box::new(Staged { from, waiting, not_ready }));
    }
}

/// Children that wait for those of lower stages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staged {
    /// The lowest stage of a child that waits.
    pub from: u32,
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
    use crate::contract::{ChildOptions, Limits, Response, Until, UpdateStrategy};
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
        if let Some(Staged { waiting, not_ready, .. }) = plan.staged.as_deref() {
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
    fn r23_failed_child_is_named_first_and_nothing_of_a_stage_that_waits_is_pruned() {
        let (a, b, c) = ((0, "a", "1"), (0, "b", "1"), (1, "c", "1"));
        let failed = live(b, &json!({"phase": "Failed"}));
        assert_eq!(steps(&[starting(a), failed], &[a, b, c]), "| c < b a");
        for (stage, are_pruned) in [(0, true), (1, false), (2, false)] {
            let old = ready((stage, "old", "1"));
            let mut plan = plan(&snapshot(&[starting(a), old]), &desired(&[a, c]));
            assert_eq!(plan.prunes.len(), 1);
            plan.put_off_prunes();
            assert_eq!(
                !plan.prunes.is_empty(),
                are_pruned,
                "stage {stage}: what the new children need may be free then"
            );
        }
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
    fn r23_children_that_are_no_longer_desired_go_from_the_highest_stage_down_each_gone_before_the_next() {
        let deleted = |live: &[Json], wanted: &[Child<'_>]| {
            let mut plan = plan(&snapshot(live), &desired(wanted));
            assert_eq!(
                plan.deletions().pruned.len(),
                live.len() - plan.leaving.iter().map(|leaving| leaving.deleting.len()).sum::<usize>(),
                "the guard sees all of them"
            );
            plan.put_off_prunes();
            plan.put_off_prunes();
            let names = |children: Vec<ChildId>| {
                let mut names: Vec<_> = children.iter().map(|child| child.key.name.to_string()).collect();
                names.sort();
                names.join(" ")
            };
            let pruned = plan.prunes.iter().map(|delete| delete.child.clone()).collect();
            format!("{} < {}", names(pruned), names(plan.being_deleted()))
        };
        let (a, b, c) = (ready((0, "a", "1")), ready((1, "b", "1")), ready((1, "c", "1")));
        assert_eq!(deleted(&[a.clone(), b.clone(), c.clone()], &[]), "b c < b c");
        let mut leaving = b.clone();
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(deleted(&[a.clone(), leaving.clone(), c], &[]), "c < b c");
        assert_eq!(deleted(&[a.clone(), leaving], &[]), " < b");
        assert_eq!(deleted(std::slice::from_ref(&a), &[]), "a < ");
        assert_eq!(deleted(&[b], &[]), "b < ", "one stage needs no order");
    }

    /// Desired Pods `a` and `b`, with these options and images.
    fn two(options: [ChildOptions; 2], images: [&str; 2]) -> Desired {
        let mut pods = ["a", "b"].map(pod);
        for (pod, image) in pods.iter_mut().zip(images) {
            pod["spec"]["containers"][0]["image"] = json!(image);
        }
        let response = Response { options: Some(options.into()), ..response(&pods) };
        validate(&response, &parent_ref(), &grants_with(&UpdateStrategy::Apply), &Limits::default()).expect("valid")
    }

    fn with(stage: u32, update: UpdateStrategy) -> ChildOptions {
        ChildOptions { stage, update: Some(update), ..ChildOptions::default() }
    }

    #[test]
    fn r23_child_whose_stage_alone_changed_is_changed_in_place_and_waits_for_none() {
        let moved = |stage| two([0, stage].map(|stage| with(stage, UpdateStrategy::Recreate)), ["1", "1"]);
        for (before, after) in [(0, 1), (1, 2), (1, 0)] {
            let live: Vec<_> = moved(before).children.iter().map(|child| created(child)).collect();
            let plan = plan(&snapshot(&live), &moved(after));
            let [Write::Apply { child, target }] = &plan.writes[..] else { panic!("{plan:?}") };
            assert_eq!((&*child.key.name, target.restores, plan.staged.is_none()), ("b", false, true));
        }
    }

    #[test]
    fn r23_stage_that_another_manager_writes_on_a_child_of_stage_0_is_left_alone() {
        let a = (0, "a", "1");
        let mut annotated = ready(a);
        annotated["metadata"]["annotations"]["windlass.dev/stage"] = json!("5");
        assert_eq!(steps(&[annotated], &[a]), "");
        assert_eq!(steps(&[ready((5, "a", "1"))], &[a]), "apply a", "the host wrote it");
    }

    #[test]
    fn r23_rolling_updates_of_two_stages_do_not_wait_for_each_other() {
        let rolling = |stage| with(stage, UpdateStrategy::Rolling { recreate: false, until: Until::Ready });
        let wanted = |image| two([rolling(0), rolling(1)], [image, "1"]);
        let [mut a, mut b] = [0, 1].map(|at| created(&wanted("1").children[at]));
        let written = |live: &[Json]| {
            let plan = plan(&snapshot(live), &wanted("2"));
            plan.writes.iter().map(|write| write.child().key.name.to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(written(std::slice::from_ref(&a)), "a", "b is missing, and waits for a");
        a["status"] = json!({"phase": "Failed"});
        b["status"] = json!({"phase": "Pending"});
        assert_eq!(written(&[a, b]), "a", "b is not ready for want of a");
    }

    #[test]
    fn r23_child_that_a_user_must_delete_first_waits_for_no_stage() {
        let wanted = |image| two([ChildOptions::default(), with(1, UpdateStrategy::OnDelete)], ["1", image]);
        let live: Vec<_> = wanted("1").children.iter().map(|child| created(child)).collect();
        let plan = plan(&snapshot(&live), &wanted("2"));
        assert_eq!((plan.when_deleted.len(), plan.staged, plan.writes), (1, None, Vec::new()));
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
